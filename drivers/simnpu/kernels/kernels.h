/* SPDX-License-Identifier: MIT */
/*
 * What the built-in kernels share, and how they are steered.
 *
 * The plain kernels give the same bits with every compiler, instruction set and
 * number of blocks: each sum has one order, nothing is contracted to a fused
 * multiply-add, and vectors only ever run along elements that do not meet.
 * (Which NAN comes out where two meet is up to the processor.)
 */
#ifndef DRIVERS_SIMNPU_KERNELS_KERNELS_H
#define DRIVERS_SIMNPU_KERNELS_KERNELS_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "npu/simnpu_kernel.h"
#include "npu/simnpu_ops.h"

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "the kernels need exact single precision: no -ffast-math, no x87"
#endif

/**
 * simnpu_kernels_set_plain() - whether to do without oneDNN
 * @plain: true: plain kernels only, whose results are the same everywhere
 *
 * Context: any time; launches that run already are not affected.
 */
void simnpu_kernels_set_plain(bool plain);

/**
 * enum simnpu_isa - instruction sets that there are variants for
 * @SIMNPU_ISA_BASE: what the compiler may use anyway
 * @SIMNPU_ISA_AVX2: 256-bit vectors
 * @SIMNPU_ISA_AVX512: 512-bit vectors
 */
enum simnpu_isa {
	SIMNPU_ISA_BASE,
	SIMNPU_ISA_AVX2,
	SIMNPU_ISA_AVX512,
};

/**
 * simnpu_kernels_isa() - the instruction set to use
 *
 * Return: the best that the processor has, up to the limit.
 */
enum simnpu_isa simnpu_kernels_isa(void);

/**
 * simnpu_kernels_limit_isa() - use no better instruction set than this, for tests
 * @limit: the limit; results do not depend on it
 */
void simnpu_kernels_limit_isa(enum simnpu_isa limit);

/**
 * simnpu_onednn_matmul() - part of a matrix product by oneDNN, in the calling thread alone
 * @p: the product; its addresses are not used
 * @a: the left operand
 * @b: the right operand
 * @c: the result
 * @lo: first row of c to compute
 * @hi: the row behind the last
 *
 * Opens the library when first called.
 * Return: whether the rows were computed; else nothing was changed.
 */
bool simnpu_onednn_matmul(const struct npu_simnpu_matmul_args *p, const float *a, const float *b,
			  float *c, uint64_t lo, uint64_t hi);

/* The block's share of n things, in multiples of grain: *lo up to, not including, *hi. */
static inline void simnpu_share(const struct npu_simnpu_block *blk, uint64_t n, uint64_t grain,
				uint64_t *lo, uint64_t *hi)
{
	uint64_t per = (n + blk->count - 1) / blk->count;

	per = (per + grain - 1) / grain * grain;
	*lo = per * blk->index < n ? per * blk->index : n;
	*hi = n - *lo < per ? n : *lo + per;
}

/* An operand of n elements of size bytes, which must be aligned; NULL: the kernel returns. */
static inline void *simnpu_operand(struct npu_simnpu_block *blk, uint64_t addr, uint64_t n,
				   uint64_t size, uint32_t mode)
{
	if (!n || n > UINT64_MAX / 16 || addr % size) {
		npu_simnpu_refuse(blk);
		return NULL;
	}
	return npu_simnpu_access(blk, addr, n * size, mode);
}

#define simnpu_in(blk, addr, n, type) \
	((const type *)simnpu_operand(blk, addr, n, sizeof(type), NPU_SIMNPU_READ))
#define simnpu_out(blk, addr, n, type) \
	((type *)simnpu_operand(blk, addr, n, sizeof(type), NPU_SIMNPU_READ | NPU_SIMNPU_WRITE))

/* Before a loop: its turns do not depend on one another, but may write where they read. */
#ifdef __clang__
#define SIMNPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SIMNPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define SIMNPU_INLINE static inline __attribute__((always_inline))

/*
 * SIMNPU_CLONES() - compile name_body() for each instruction set and make name() choose
 * @name: the function; returns nothing
 * @params: its parameters, in parentheses
 * @call: their names, in parentheses
 */
#ifdef __x86_64__
#define SIMNPU_TARGET(isa) __attribute__((target(isa)))
#define SIMNPU_CLONES(name, params, call)					\
	static SIMNPU_TARGET("avx2") void name##_avx2 params			\
	{									\
		name##_body call;						\
	}									\
	static void name##_base params						\
	{									\
		name##_body call;						\
	}									\
	static void name params							\
	{									\
		if (simnpu_kernels_isa() >= SIMNPU_ISA_AVX2)			\
			name##_avx2 call;					\
		else								\
			name##_base call;					\
	}
#else
#define SIMNPU_CLONES(name, params, call)					\
	static void name params							\
	{									\
		name##_body call;						\
	}
#endif

/* Elements that a loop handles before it looks whether it should stop. */
#define SIMNPU_STRIDE 16384u

#endif /* DRIVERS_SIMNPU_KERNELS_KERNELS_H */
