// SPDX-License-Identifier: MIT
/*
 * Memory and launches of the network.
 */
#include <string.h>

#include "fail.h"
#include "net.h"

#define NET_NAME(name) #name,
static const char *const kernel_names[KERNELS] = { NET_KERNELS(NET_NAME) };

static int alloc(float **ptr, size_t count)
{
	void *p;

	TRY(npu_malloc(count * sizeof(float), 0, &p));
	*ptr = p;
	return 0;
}

static int prepare(struct net *net, const float *weights)
{
	struct npu_device_info info = { .size = sizeof(info) };
	int rc;

	TRY(npu_device_get_info(NPU_DEVICE_CURRENT, &info));
	net->blocks = info.cores;
	for (int k = 0; k < KERNELS; k++) {
		rc = npu_kernel_get(NPU_MODULE_BUILTIN, kernel_names[k], &net->kernel[k]);
		if (rc < 0)
			return fail_npu(kernel_names[k], rc);
	}
	rc = alloc(&net->params, weights_count());
	if (rc < 0)
		return rc;
	if (weights)
		TRY(npu_memcpy(net->params, weights, weights_count() * sizeof(float),
			       NPU_COPY_H2D));
	for (int l = 0; l <= LAYERS; l++) {
		rc = alloc(&net->act[l], (size_t)net->batch * net_dims[l]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int net_init(struct net *net, uint32_t batch, const float *weights)
{
	int rc;

	memset(net, 0, sizeof(*net));
	net->batch = batch;
	rc = prepare(net, weights);
	if (rc < 0)
		net_fini(net);
	return rc;
}

void net_fini(struct net *net)
{
	for (int l = 0; l <= LAYERS; l++)
		npu_free(net->act[l]);
	npu_free(net->params);
	memset(net, 0, sizeof(*net));
}

int net_matmul(struct net *net, const float *a, const float *b, float *c, uint32_t m, uint32_t n,
	       uint32_t k, uint32_t flags, npu_stream stream)
{
	struct npu_simnpu_matmul_args args = {
		.a = (uintptr_t)a, .b = (uintptr_t)b, .c = (uintptr_t)c,
		.m = m, .n = n, .k = k, .flags = flags,
	};

	TRY(npu_launch(net->kernel[K_matmul_f32], net->blocks, &args, sizeof(args), stream));
	return 0;
}

int net_rows(struct net *net, enum net_kernel kernel, const void *x, void *y, void *z,
	     uint32_t rows, uint32_t cols, float scale, npu_stream stream)
{
	struct npu_simnpu_rows_args args = {
		.x = (uintptr_t)x, .y = (uintptr_t)y, .z = (uintptr_t)z,
		.rows = rows, .cols = cols, .scale = scale,
	};

	TRY(npu_launch(net->kernel[kernel], net->blocks, &args, sizeof(args), stream));
	return 0;
}

int net_forward(struct net *net, const void *pixels, uint32_t n, npu_stream stream)
{
	int rc = net_rows(net, K_scale_u8_f32, pixels, net->act[0], NULL, n, net_dims[0],
			  1.0f / 255, stream);

	for (int l = 0; l < LAYERS && rc >= 0; l++) {
		float *out = net->act[l + 1];

		rc = net_matmul(net, net->act[l], net->params + weights_at(l), out, n,
				net_dims[l + 1], net_dims[l], 0, stream);
		if (rc < 0)
			break;
		rc = net_rows(net, l < LAYERS - 1 ? K_bias_relu_f32 : K_bias_f32, out, out,
			      net->params + biases_at(l), n, net_dims[l + 1], 0, stream);
	}
	return rc;
}
