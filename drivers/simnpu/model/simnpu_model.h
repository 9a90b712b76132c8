/* SPDX-License-Identifier: MIT */
/*
 * The simulated device, outside: what the user-mode half sees of it, besides
 * uapi/simnpu.h.
 */
#ifndef DRIVERS_SIMNPU_MODEL_SIMNPU_MODEL_H
#define DRIVERS_SIMNPU_MODEL_SIMNPU_MODEL_H

#include "hal/sys.h"

/* open, close, ioctl, mmap and munmap of the nodes; all else is NULL. */
extern const struct hal_sys_ops simnpu_model_sys;

/**
 * simnpu_model_fork_child() - in the child after a fork
 *
 * Closes the descriptors of the parent's nodes. From then on nodes can't be
 * opened, and descriptors give ENODEV. Context: async-signal-safe.
 */
void simnpu_model_fork_child(void);

#endif /* DRIVERS_SIMNPU_MODEL_SIMNPU_MODEL_H */
