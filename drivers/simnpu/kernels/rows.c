// SPDX-License-Identifier: MIT
/*
 * Kernels that work element by element on rows, and the sum of columns.
 */
#include "drivers/simnpu/kernels/rows.h"

/* ---- along a row: bias_f32, bias_relu_f32 ---- */

/* A NAN stays one, a negative zero does not. */
SIMNPU_INLINE float relu1(float x)
{
	return x <= 0 ? 0 : x;
}

SIMNPU_INLINE void bias_body(float *y, const float *x, const float *z, uint64_t n)
{
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] = x[j] + z[j];
}

SIMNPU_INLINE void bias_relu_body(float *y, const float *x, const float *z, uint64_t n)
{
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] = relu1(x[j] + z[j]);
}

SIMNPU_CLONES(bias, (float *y, const float *x, const float *z, uint64_t n), (y, x, z, n))
SIMNPU_CLONES(bias_relu, (float *y, const float *x, const float *z, uint64_t n), (y, x, z, n))

static void run_bias(struct npu_simnpu_block *blk, const struct npu_simnpu_rows_args *p,
		     void (*row)(float *, const float *, const float *, uint64_t))
{
	const float *x, *z;
	struct rows r;
	float *y;

	if (!rows_begin(blk, p, ROWS_Z, &r))
		return;
	x = simnpu_in(blk, p->x, r.all, float);
	z = simnpu_in(blk, p->z, p->cols, float);
	y = simnpu_out(blk, p->y, r.all, float);
	if (!x || !y || !z)
		return;
	for (uint64_t i = r.lo; i < r.hi && !npu_simnpu_stopped(blk); i++)
		row(y + i * p->cols, x + i * p->cols, z, p->cols);
}

NPU_SIMNPU_KERNEL(bias_f32)
{
	run_bias(blk, args, bias);
}

NPU_SIMNPU_KERNEL(bias_relu_f32)
{
	run_bias(blk, args, bias_relu);
}

/* ---- along all elements of the block: relu_f32, relu_grad_f32, scale_u8_f32 ---- */

/* Calls piece(lo, n) until the share is done. */
#define FOR_PIECES(blk, p, r, at, n)							\
	for (uint64_t at = (r).lo * (p)->cols, end_ = (r).hi * (p)->cols, n;		\
	     n = end_ - at < SIMNPU_STRIDE ? end_ - at : SIMNPU_STRIDE,			\
	     n && !npu_simnpu_stopped(blk); at += n)

SIMNPU_INLINE void relu_body(float *y, const float *x, uint64_t n)
{
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] = relu1(x[j]);
}

SIMNPU_CLONES(relu, (float *y, const float *x, uint64_t n), (y, x, n))

NPU_SIMNPU_KERNEL(relu_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	const float *x;
	struct rows r;
	float *y;

	if (!rows_in_out(blk, p, 0, &r, x, r.all, y, r.all))
		return;
	FOR_PIECES(blk, p, r, at, n)
		relu(y + at, x + at, n);
}

SIMNPU_INLINE void relu_grad_body(float *z, const float *x, const float *y, uint64_t n)
{
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++) {
		float g = y[j];		/* read anyway, so that the loop has no branch */

		z[j] = x[j] > 0 ? g : 0;
	}
}

SIMNPU_CLONES(relu_grad, (float *z, const float *x, const float *y, uint64_t n), (z, x, y, n))

NPU_SIMNPU_KERNEL(relu_grad_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	const float *x, *y;
	struct rows r;
	float *z;

	if (!rows_begin(blk, p, ROWS_Z, &r))
		return;
	x = simnpu_in(blk, p->x, r.all, float);
	y = simnpu_in(blk, p->y, r.all, float);
	z = simnpu_out(blk, p->z, r.all, float);
	if (!x || !y || !z)
		return;
	FOR_PIECES(blk, p, r, at, n)
		relu_grad(z + at, x + at, y + at, n);
}

SIMNPU_INLINE void scale_u8_body(float *y, const uint8_t *x, float scale, uint64_t n)
{
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] = (float)x[j] * scale;
}

SIMNPU_CLONES(scale_u8, (float *y, const uint8_t *x, float scale, uint64_t n), (y, x, scale, n))

NPU_SIMNPU_KERNEL(scale_u8_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	const uint8_t *x;
	struct rows r;
	float *y;

	if (!rows_in_out(blk, p, ROWS_SCALE, &r, x, r.all, y, r.all))
		return;
	FOR_PIECES(blk, p, r, at, n)
		scale_u8(y + at, x + at, p->scale, n);
}

/* ---- softmax_xent_grad_f32 ---- */

NPU_SIMNPU_KERNEL(softmax_xent_grad_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	const uint32_t *y;
	const float *x;
	struct rows r;
	float *z;

	if (!rows_begin(blk, p, ROWS_Z | ROWS_SCALE, &r))
		return;
	x = simnpu_in(blk, p->x, r.all, float);
	y = simnpu_in(blk, p->y, p->rows, uint32_t);
	z = simnpu_out(blk, p->z, r.all, float);
	if (!x || !y || !z)
		return;
	for (uint64_t i = r.lo; i < r.hi && !npu_simnpu_stopped(blk); i++)
		for (uint32_t j = 0; j < p->cols; j++)
			z[i * p->cols + j] =
				(x[i * p->cols + j] - (j == y[i] ? 1.0f : 0.0f)) * p->scale;
}

/* ---- colsum_f32: row after row, so that each sum runs from the first to the last ---- */

SIMNPU_INLINE void add_row_body(float *y, const float *x, uint64_t n)
{
	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++)
		y[j] += x[j];
}

SIMNPU_CLONES(add_row, (float *y, const float *x, uint64_t n), (y, x, n))

NPU_SIMNPU_KERNEL(colsum_f32)
{
	const struct npu_simnpu_rows_args *p = args;
	const float *x;
	struct rows r;
	float *y;

	if (!rows_in_out(blk, p, 0, &r, x, r.all, y, p->cols))
		return;
	simnpu_share(blk, p->cols, 16, &r.lo, &r.hi);
	for (uint64_t j = r.lo; j < r.hi; j++)
		y[j] = 0;
	for (uint64_t i = 0; r.lo < r.hi && i < p->rows && !npu_simnpu_stopped(blk); i++)
		add_row(y + r.lo, x + i * p->cols + r.lo, r.hi - r.lo);
}
