/* SPDX-License-Identifier: MIT */
/*
 * The kernels that the simulated NPU brings along, and their arguments.
 *
 * Look one up with npu_kernel_get(NPU_MODULE_BUILTIN, name, &kernel) and launch
 * it with the structure named beside it. All matrices are dense, row-major,
 * fp32; all addresses are device addresses, aligned to the element that lies
 * there; each operand must lie within one allocation, and results apart from
 * the operands unless said otherwise. A kernel whose arguments do not fit
 * (size, a dimension of zero, an unknown flag, an argument that must be 0)
 * fails the task with -EFAULT and changes nothing.
 * Sums are formed in a fixed order, whatever the number of blocks; only a
 * matmul_f32 that oneDNN does has an order of its own.
 */
#ifndef NPU_SIMNPU_OPS_H
#define NPU_SIMNPU_OPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** NPU_SIMNPU_TRANS_A - the left operand is stored transposed (k rows of m) */
#define NPU_SIMNPU_TRANS_A (1u << 0)
/** NPU_SIMNPU_TRANS_B - the right operand is stored transposed (n rows of k) */
#define NPU_SIMNPU_TRANS_B (1u << 1)
/** NPU_SIMNPU_ACCUMULATE - add to c instead of replacing it */
#define NPU_SIMNPU_ACCUMULATE (1u << 2)

/**
 * struct npu_simnpu_matmul_args - "matmul_f32": c = a * b, split over blocks by rows of c
 * @a: m x k
 * @b: k x n
 * @c: m x n
 * @m: rows of c
 * @n: columns of c
 * @k: length of the sums
 * @flags: NPU_SIMNPU_TRANS_A, NPU_SIMNPU_TRANS_B, NPU_SIMNPU_ACCUMULATE
 */
struct npu_simnpu_matmul_args {
	uint64_t a, b, c;
	uint32_t m, n, k;
	uint32_t flags;
};

/**
 * struct npu_simnpu_rows_args - for kernels that work on rows; split over blocks by rows
 * @x: input, rows x cols
 * @y: second operand or result, as below
 * @z: third operand or result, as below, else 0
 * @rows: rows
 * @cols: columns
 * @scale: a factor, as below, else 0
 * @pad: zero
 *
 * ================== ===========================================================
 * "bias_f32"         y[i][j] = x[i][j] + z[j] (z: cols values; y may be x)
 * "bias_relu_f32"    y[i][j] = max(0, x[i][j] + z[j]), NAN for a NAN (y may be x)
 * "relu_f32"         y[i][j] = max(0, x[i][j]), NAN for a NAN (y may be x)
 * "softmax_f32"      y[i] = softmax of x[i], stable (y may be x)
 * "argmax_f32"       y[i] = uint32 index of the first largest of x[i]; NANs are skipped,
 *                    0 if all are
 * "relu_grad_f32"    z[i][j] = x[i][j] > 0 ? y[i][j] : 0 (z may be y)
 * "softmax_xent_grad_f32" z[i][j] = (x[i][j] - (j == y[i])) * scale, x: softmax, y: uint32 labels
 * "scale_u8_f32"     y[i][j] = x[i][j] * scale, x: uint8
 * "colsum_f32"       y[j] = sum over i of x[i][j]; split over blocks by columns
 * ================== ===========================================================
 */
struct npu_simnpu_rows_args {
	uint64_t x, y, z;
	uint32_t rows, cols;
	float scale;
	uint32_t pad;
};

/**
 * struct npu_simnpu_sgd_args - "sgd_f32": one step with momentum; split over blocks by elements
 * @w: weights, changed: w -= rate * v
 * @g: gradient
 * @v: velocity, changed first: v = momentum * v + g + decay * w
 * @n: elements
 * @rate: learning rate
 * @momentum: share of the velocity that is kept
 * @decay: weight decay
 * @pad: zero
 */
struct npu_simnpu_sgd_args {
	uint64_t w, g, v, n;
	float rate, momentum, decay;
	uint32_t pad;
};

/**
 * struct npu_simnpu_inc_args - "inc_u64": adds to one word; only block 0 does
 * @addr: address of a uint64, aligned to 8
 * @by: what to add, modulo 2^64
 */
struct npu_simnpu_inc_args {
	uint64_t addr;
	uint64_t by;
};

/*
 * "nop" takes no arguments and does nothing.
 */

/**
 * struct npu_simnpu_delay_args - "delay_ns": keeps a core busy
 * @ns: for how long, nanoseconds; ends early when asked to stop
 */
struct npu_simnpu_delay_args {
	uint64_t ns;
};

#ifdef __cplusplus
}
#endif

#endif /* NPU_SIMNPU_OPS_H */
