/* SPDX-License-Identifier: MIT */
/* The options of the simulated NPU. */
#ifndef DRIVERS_SIMNPU_OPTIONS_H
#define DRIVERS_SIMNPU_OPTIONS_H

#include "hal/option.h"

extern const struct hal_option simnpu_options[];

#endif /* DRIVERS_SIMNPU_OPTIONS_H */
