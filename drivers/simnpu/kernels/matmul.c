// SPDX-License-Identifier: MIT
/*
 * "matmul_f32".
 */
#include <stdatomic.h>
#include <string.h>

#include "drivers/simnpu/kernels/kernels.h"
#include "hal/base.h"
#include "hal/cpu.h"

#define DEPTH 128	/* rows of b that are packed at a time: with COLUMNS, 16 KiB of stack */
#define COLUMNS 32	/* the widest tile */

static _Atomic bool plain;

void simnpu_kernels_set_plain(bool on)
{
	hal_store_relaxed(&plain, on);
}

static _Atomic int isa_limit = SIMNPU_ISA_AVX512;

#ifdef CONFIG_SELFTESTS
void simnpu_kernels_limit_isa(enum simnpu_isa limit)
{
	hal_store_relaxed(&isa_limit, (int)limit);
}
#endif

/* To ask a virtual machine takes longer than a small kernel. */
static int best_isa(void)
{
	static _Atomic int found = -1;
	int best = hal_load_relaxed(&found);	/* relaxed: all find the same */

	if (unlikely(best < 0)) {
		best = hal_cpu_avx512f() ? SIMNPU_ISA_AVX512 :
		       hal_cpu_avx2() ? SIMNPU_ISA_AVX2 : SIMNPU_ISA_BASE;
		hal_store_relaxed(&found, best);
	}
	return best;
}

enum simnpu_isa simnpu_kernels_isa(void)
{
	int best = best_isa(), limit = hal_load_relaxed(&isa_limit);

	return (enum simnpu_isa)(best < limit ? best : limit);
}

/*
 * struct tile_args - a column of tiles
 * @a: first element of the left operand
 * @b: the right operand, depth x (width of a tile)
 * @c: first element of the result
 * @rows: rows of the result
 * @depth: length of the sums
 * @a_row: elements from a row to the next
 * @a_k: elements from one term of a sum to the next
 * @b_row: the same for the right operand
 * @c_row: elements from a row of the result to the next
 * @add: sums begin with what the result holds
 */
struct tile_args {
	const float *a, *b;
	float *c;
	uint64_t rows, depth;
	uint64_t a_row, a_k, b_row, c_row;
	bool add;
};

/* Sixteen vectors at least on every machine: four rows, two vectors of b, one product. */
#define TILE(x) base_##x
#define TARGET
#define W 4
#define MR 4
#include "drivers/simnpu/kernels/matmul_tile.h"

#ifdef __x86_64__
#define TILE(x) avx2_##x
#define TARGET SIMNPU_TARGET("avx2")
#define W 8
#define MR 4
#include "drivers/simnpu/kernels/matmul_tile.h"

#define TILE(x) avx512_##x
#define TARGET SIMNPU_TARGET("avx512f")
#define W 16
#define MR 8
#include "drivers/simnpu/kernels/matmul_tile.h"
#endif

struct tile {
	uint32_t width;
	void (*column)(const struct tile_args *t);
};

static const struct tile tiles[] = {
	[SIMNPU_ISA_BASE] = { 8, base_column },
#ifdef __x86_64__
	[SIMNPU_ISA_AVX2] = { 16, avx2_column },
	[SIMNPU_ISA_AVX512] = { 32, avx512_column },
#endif
};

/* Copies depth x width elements of b, filled up with zeroes to whole tiles. */
static void pack(const struct npu_simnpu_matmul_args *p, const float *b, uint64_t k, uint64_t depth,
		 uint64_t j, uint64_t width, uint64_t tile_width, float *to)
{
	if (width < tile_width)
		memset(to, 0, depth * tile_width * sizeof(*to));
	if (p->flags & NPU_SIMNPU_TRANS_B) {
		for (uint64_t c = 0; c < width; c++)
			for (uint64_t r = 0; r < depth; r++)
				to[r * tile_width + c] = b[(j + c) * p->k + k + r];
	} else {
		for (uint64_t r = 0; r < depth; r++)
			memcpy(to + r * tile_width, b + (k + r) * p->n + j, width * sizeof(*to));
	}
}

/* A column that is narrower than a tile goes through a copy of the rows, some at a time. */
static void narrow(const struct tile *tile, struct tile_args t, uint64_t width)
{
	float rows[8 * COLUMNS];
	uint64_t left = t.rows, c_row = t.c_row;
	float *c = t.c;

	t.c = rows;
	t.c_row = tile->width;
	while (left) {
		t.rows = left < 8 ? left : 8;
		memset(rows, 0, sizeof(rows));
		for (uint64_t r = 0; t.add && r < t.rows; r++)
			memcpy(rows + r * t.c_row, c + r * c_row, width * sizeof(*c));
		tile->column(&t);
		for (uint64_t r = 0; r < t.rows; r++)
			memcpy(c + r * c_row, rows + r * t.c_row, width * sizeof(*c));
		left -= t.rows;
		t.a += t.rows * t.a_row;
		c += t.rows * c_row;
	}
}

static void plain_matmul(struct npu_simnpu_block *blk, const struct npu_simnpu_matmul_args *p,
			 const float *a, const float *b, float *c, uint64_t lo, uint64_t hi)
{
	const struct tile *tile = &tiles[simnpu_kernels_isa()];
	bool trans_a = p->flags & NPU_SIMNPU_TRANS_A;
	bool trans_b = p->flags & NPU_SIMNPU_TRANS_B;
	float packed[DEPTH * COLUMNS] __attribute__((aligned(64)));
	struct tile_args t = {
		.rows = hi - lo,
		.a_row = trans_a ? 1 : p->k,
		.a_k = trans_a ? p->m : 1,
		.c_row = p->n,
	};

	for (uint64_t j = 0; j < p->n; j += tile->width) {
		uint64_t width = p->n - j < tile->width ? p->n - j : tile->width;

		for (uint64_t k = 0; k < p->k; k += DEPTH) {
			if (npu_simnpu_stopped(blk))
				return;
			t.depth = p->k - k < DEPTH ? p->k - k : DEPTH;
			t.a = a + lo * t.a_row + k * t.a_k;
			t.c = c + lo * p->n + j;
			t.add = k || p->flags & NPU_SIMNPU_ACCUMULATE;
			/* packing pays when it is used often */
			if (trans_b || width < tile->width || t.rows > 8) {
				pack(p, b, k, t.depth, j, width, tile->width, packed);
				t.b = packed;
				t.b_row = tile->width;
			} else {
				t.b = b + k * p->n + j;
				t.b_row = p->n;
			}
			if (width < tile->width)
				narrow(tile, t, width);
			else
				tile->column(&t);
		}
	}
}

#define FLAGS (NPU_SIMNPU_TRANS_A | NPU_SIMNPU_TRANS_B | NPU_SIMNPU_ACCUMULATE)

NPU_SIMNPU_KERNEL(matmul_f32)
{
	const struct npu_simnpu_matmul_args *p = args;
	const float *a, *b;
	uint64_t lo, hi;
	float *c;

	if (blk->args_size != sizeof(*p) || p->flags & ~FLAGS || !p->m || !p->n || !p->k) {
		npu_simnpu_refuse(blk);
		return;
	}
	a = simnpu_in(blk, p->a, (uint64_t)p->m * p->k, float);
	b = simnpu_in(blk, p->b, (uint64_t)p->k * p->n, float);
	c = simnpu_out(blk, p->c, (uint64_t)p->m * p->n, float);
	if (!a || !b || !c)
		return;
	/* every block goes through all of b: fewer than 32 rows are not worth that */
	simnpu_share(blk, p->m, blk->count > 1 ? 32 : 1, &lo, &hi);
	if (lo == hi)
		return;
	if (IS_ENABLED(CONFIG_SIMNPU_ONEDNN) && !hal_load_relaxed(&plain) &&
	    simnpu_onednn_matmul(p, a, b, c, lo, hi))
		return;
	plain_matmul(blk, p, a, b, c, lo, hi);
}
