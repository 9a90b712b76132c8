// SPDX-License-Identifier: MIT
/*
 * "softmax_f32" and "argmax_f32".
 */
#include <math.h>

#include "drivers/simnpu/kernels/exp.h"
#include "drivers/simnpu/kernels/rows.h"

#define LANES 16

/* Sums and maxima run in LANES strands that are put together in a fixed order at the end. */
SIMNPU_INLINE float largest(const float *x, uint64_t n)
{
	float lane[LANES];
	uint64_t j = 0;
	float m;

	for (int l = 0; l < LANES; l++)
		lane[l] = -INFINITY;
	for (; j + LANES <= n; j += LANES)
		for (int l = 0; l < LANES; l++)
			lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
	m = -INFINITY;
	for (int l = 0; l < LANES; l++)
		m = lane[l] > m ? lane[l] : m;
	for (; j < n; j++)
		m = x[j] > m ? x[j] : m;
	return m;
}

SIMNPU_INLINE float sum(const float *x, uint64_t n)
{
	float lane[LANES] = { 0 };
	uint64_t j = 0;

	for (; j + LANES <= n; j += LANES)
		for (int l = 0; l < LANES; l++)
			lane[l] += x[j + l];
	for (int l = 0; j < n; j++, l++)
		lane[l] += x[j];
	for (int step = LANES / 2; step; step /= 2)
		for (int l = 0; l < step; l++)
			lane[l] += lane[l + step];
	return lane[0];
}

SIMNPU_INLINE void softmax_row_body(float *y, const float *x, uint64_t n)
{
	float m = largest(x, n);
	float s;

	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] = simnpu_expf(x[j] - m);
	s = sum(y, n);
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] /= s;
}

SIMNPU_CLONES(softmax_row, (float *y, const float *x, uint64_t n), (y, x, n))

NPU_SIMNPU_KERNEL(softmax_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	struct rows r;
	const float *x;
	float *y;

	if (!rows_in_out(blk, p, 0, &r, x, r.all, y, r.all))
		return;
	for (uint64_t i = r.lo; i < r.hi && !npu_simnpu_stopped(blk); i++)
		softmax_row(y + i * p->cols, x + i * p->cols, p->cols);
}

NPU_SIMNPU_KERNEL(argmax_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	struct rows r;
	const float *x;
	uint32_t *y;

	if (!rows_in_out(blk, p, 0, &r, x, r.all, y, p->rows))
		return;
	for (uint64_t i = r.lo; i < r.hi && !npu_simnpu_stopped(blk); i++) {
		const float *row = x + i * p->cols;
		uint32_t best = 0;

		/* a NAN compares false with everything; when the first is one, any number wins */
		for (uint32_t j = 1; j < p->cols; j++)
			if (row[j] > row[best] || (isnan(row[best]) && !isnan(row[j])))
				best = j;
		y[i] = best;
	}
}
