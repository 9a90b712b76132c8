/* SPDX-License-Identifier: MIT */
/* The network on a device. */
#ifndef NET_H
#define NET_H

#include <stdint.h>

#include <npu/npu.h>
#include <npu/simnpu_ops.h>

#include "weights.h"

/* X(name): the kernels that the programs use */
#define NET_KERNELS(X)		\
	X(scale_u8_f32)		\
	X(matmul_f32)		\
	X(bias_f32)		\
	X(bias_relu_f32)	\
	X(argmax_f32)		\
	X(softmax_f32)		\
	X(softmax_xent_grad_f32) \
	X(relu_grad_f32)	\
	X(colsum_f32)		\
	X(sgd_f32)

#define NET_ENUM(name) K_##name,
enum net_kernel {
	NET_KERNELS(NET_ENUM)
	KERNELS
};

/**
 * struct net - the network on a device
 * @kernel: the kernels, by enum net_kernel
 * @blocks: blocks of a launch: one for each core
 * @batch: pictures that there is room for
 * @params: the weights, in device memory as in the file
 * @act: what comes out of each layer; @act[0] are the pictures as floats
 */
struct net {
	npu_kernel kernel[KERNELS];
	uint32_t blocks;
	uint32_t batch;
	float *params;
	float *act[LAYERS + 1];
};

/**
 * net_init() - put the network on the current device
 * @net: the network
 * @batch: most pictures at a time
 * @weights: weights_count() numbers; NULL: the caller puts them into net.params
 *
 * Return: 0, or a negative errno after having said what failed, as all functions here.
 */
int net_init(struct net *net, uint32_t batch, const float *weights);
/** net_fini() - free its memory; the streams that use it must be idle */
void net_fini(struct net *net);

/**
 * net_forward() - submit the way from pictures to logits
 * @net: the network
 * @pixels: @n pictures in device memory, a byte for each pixel
 * @n: how many
 * @stream: where to; the logits are in net.act[LAYERS] then
 */
int net_forward(struct net *net, const void *pixels, uint32_t n, npu_stream stream);

/** net_matmul() - submit c = a * b; m rows, n columns, sums of k; flags: NPU_SIMNPU_TRANS_A… */
int net_matmul(struct net *net, const float *a, const float *b, float *c, uint32_t m, uint32_t n,
	       uint32_t k, uint32_t flags, npu_stream stream);

/** net_rows() - submit a kernel that takes struct npu_simnpu_rows_args */
int net_rows(struct net *net, enum net_kernel kernel, const void *x, void *y, void *z,
	     uint32_t rows, uint32_t cols, float scale, npu_stream stream);

#endif /* NET_H */
