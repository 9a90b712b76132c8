/* SPDX-License-Identifier: MIT */
/* How kernels that work on rows begin. */
#ifndef DRIVERS_SIMNPU_KERNELS_ROWS_H
#define DRIVERS_SIMNPU_KERNELS_ROWS_H

#include "drivers/simnpu/kernels/kernels.h"

/* Which of the optional arguments a kernel takes; the others must be 0. */
#define ROWS_Z		1u
#define ROWS_SCALE	2u

/*
 * struct rows - the block's share
 * @lo: first row
 * @hi: the row behind the last
 * @all: elements of all rows
 */
struct rows {
	uint64_t lo, hi;
	uint64_t all;
};

/* Returns false when the arguments do not fit; the block is marked then. */
static inline bool rows_begin(struct npu_simnpu_block *blk, const struct npu_simnpu_rows_args *p,
			      uint32_t takes, struct rows *r)
{
	if (blk->args_size != sizeof(*p) || !p->rows || !p->cols || p->pad ||
	    (!(takes & ROWS_Z) && p->z) || (!(takes & ROWS_SCALE) && p->scale != 0)) {
		npu_simnpu_refuse(blk);
		return false;
	}
	r->all = (uint64_t)p->rows * p->cols;
	simnpu_share(blk, p->rows, 1, &r->lo, &r->hi);
	return true;
}

/*
 * rows_in_out() - rows_begin(), and the operands of a kernel that reads x and writes y
 * @in, @out: pointers to set, of the operands' types
 * @in_n, @out_n: their elements, an expression that may use @r
 *
 * False: the kernel returns.
 */
#define rows_in_out(blk, p, takes, r, in, in_n, out, out_n)				\
	(rows_begin(blk, p, takes, r) &&						\
	 ((in) = simnpu_operand(blk, (p)->x, in_n, sizeof(*(in)), NPU_SIMNPU_READ)) &&	\
	 ((out) = simnpu_operand(blk, (p)->y, out_n, sizeof(*(out)),			\
			       NPU_SIMNPU_READ | NPU_SIMNPU_WRITE)))

#endif /* DRIVERS_SIMNPU_KERNELS_ROWS_H */
