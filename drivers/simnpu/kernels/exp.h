/* SPDX-License-Identifier: MIT */
/*
 * The exponential function in single precision, written so that loops over it
 * vectorise and that it gives the same bits everywhere. Off by less than one
 * unit in the last place. libm's would be neither.
 */
#ifndef DRIVERS_SIMNPU_KERNELS_EXP_H
#define DRIVERS_SIMNPU_KERNELS_EXP_H

#include <string.h>

#include "drivers/simnpu/kernels/kernels.h"

/* 2^n, n from -126 to 127 */
SIMNPU_INLINE float simnpu_pow2(int32_t n)
{
	int32_t bits = (n + 127) << 23;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

SIMNPU_INLINE float simnpu_expf(float x)
{
	const float round = 12582912.0f;	/* 1.5 * 2^23: what is added to it is rounded */
	/* beyond these the result is 0 or INF; written so that a NAN passes */
	float c = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
	float shifted = c * 0x1.715476p+0f + round;
	float n = shifted - round;
	/* ln 2 in two parts, the first of 15 bits so that its product with n is exact */
	float r = (c - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
	float p;
	int32_t i, half;

	/* e^r for |r| <= ln(2) / 2 */
	p = 0x1.a01a02p-13f;
	p = p * r + 0x1.6c16c2p-10f;
	p = p * r + 0x1.111112p-7f;
	p = p * r + 0x1.555556p-5f;
	p = p * r + 0x1.555556p-3f;
	p = p * r + 0.5f;
	p = (p * r) * r + r;
	/* a NAN has no integer: take 0 for it; in two steps, for subnormal results */
	i = (int32_t)(n == n ? n : 0.0f);
	half = i / 2;
	return (p + 1.0f) * simnpu_pow2(half) * simnpu_pow2(i - half);
}

#endif /* DRIVERS_SIMNPU_KERNELS_EXP_H */
