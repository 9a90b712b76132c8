/* SPDX-License-Identifier: MIT */
/*
 * What the processor has, as far as somebody makes use of it.
 */
#ifndef HAL_CPU_H
#define HAL_CPU_H

#include <stdbool.h>

/* Whether there is such a thing and the system keeps its registers. Elsewhere than on x86: no. */
bool hal_cpu_avx2(void);
bool hal_cpu_avx512f(void);
/* Whether AMD has made it. */
bool hal_cpu_amd(void);

#endif /* HAL_CPU_H */
