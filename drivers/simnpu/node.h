/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the driver know of each other: the options, and how
 * nodes are reached. All else between them goes through uapi/simnpu.h.
 */
#ifndef DRIVERS_SIMNPU_NODE_H
#define DRIVERS_SIMNPU_NODE_H

#include "drivers/simnpu/options.h"
#include "hal/sys.h"

/* open, close, ioctl, mmap and munmap of the simulated device's nodes. */
extern const struct hal_sys_ops simnpu_model_sys;

/*
 * In the child of a fork: forgets the parent's devices, whose threads are not
 * here. Only makes async-signal-safe calls.
 */
void simnpu_model_fork_child(void);

#endif /* DRIVERS_SIMNPU_NODE_H */
