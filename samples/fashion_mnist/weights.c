// SPDX-License-Identifier: MIT
/*
 * The weights in a container of libnpu's: a matrix "layerN.weight" and numbers
 * "layerN.bias" for each layer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <npu/io.h>

#include "fail.h"
#include "weights.h"

#define TENSORS (2 * LAYERS)

const uint32_t net_dims[LAYERS + 1] = { 784, 128, 64, 10 };

size_t weights_at(int layer)
{
	size_t at = 0;

	for (int l = 0; l < layer; l++)
		at += ((size_t)net_dims[l] + 1) * net_dims[l + 1];
	return at;
}

size_t biases_at(int layer)
{
	return weights_at(layer) + (size_t)net_dims[layer] * net_dims[layer + 1];
}

size_t weights_count(void)
{
	return weights_at(LAYERS);
}

/* The tensors in the order of the file; weights NULL: without their data. */
static void describe(struct npu_tensor *t, char (*name)[16], const float *weights)
{
	memset(t, 0, TENSORS * sizeof(*t));
	for (int l = 0; l < LAYERS; l++, t += 2, name += 2) {
		snprintf(name[0], sizeof(name[0]), "layer%d.weight", l);
		snprintf(name[1], sizeof(name[1]), "layer%d.bias", l);
		t[0].name = name[0];
		t[1].name = name[1];
		t[0].dtype = t[1].dtype = NPU_DTYPE_F32;
		t[0].rank = 2;
		t[0].shape[0] = net_dims[l];
		t[0].shape[1] = net_dims[l + 1];
		t[1].rank = 1;
		t[1].shape[0] = net_dims[l + 1];
		t[0].data = weights ? weights + weights_at(l) : NULL;
		t[1].data = weights ? weights + biases_at(l) : NULL;
	}
}

static int load(npu_weights w, const char *path, float *params)
{
	struct npu_tensor want[TENSORS];
	struct npu_tensor_info is;
	void *dst[TENSORS];
	char name[TENSORS][16];
	uint32_t count;

	describe(want, name, NULL);
	TRY(npu_weights_count(w, &count));
	for (int i = 0; i < TENSORS; i++) {
		is.size = sizeof(is);
		if (count != TENSORS || npu_weights_info(w, (uint32_t)i, &is) ||
		    strcmp(is.name, want[i].name) || is.dtype != want[i].dtype ||
		    is.rank != want[i].rank || memcmp(is.shape, want[i].shape, sizeof(is.shape))) {
			fprintf(stderr, "%s: weights of another network\n", path);
			return -EINVAL;
		}
		dst[i] = params + (i % 2 ? biases_at(i / 2) : weights_at(i / 2));
	}
	TRY(npu_weights_load(w, 0, TENSORS, dst, NPU_STREAM_CURRENT, NPU_WEIGHTS_VERIFY, NULL,
			     NULL));
	return 0;
}

int weights_load(const char *path, float *params)
{
	npu_weights w;
	int rc;

	TRY(npu_weights_open(path, &w));
	rc = load(w, path, params);
	npu_weights_close(w);
	return rc;
}

int weights_save(const char *path, const float *weights)
{
	struct npu_tensor t[TENSORS];
	char name[TENSORS][16];

	describe(t, name, weights);
	TRY(npu_weights_write(path, t, TENSORS));
	return 0;
}
