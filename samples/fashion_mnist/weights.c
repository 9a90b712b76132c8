// SPDX-License-Identifier: MIT
/*
 * The file of weights: a header of 64 bytes, then 32-bit floats; everything
 * little-endian.
 *
 *	 0  "NPUMLP\r\n"
 *	 8  version, 1
 *	12  number of layers
 *	16  neurons of each layer, the input's first; 8 numbers, zeroes behind
 *	48  number of floats, 64 bits
 *	56  checksum of the floats' bytes, FNV-1a of 64 bits
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights.h"

#define VERSION 1
#define HEADER 64
#define DIMS_AT 16
#define DIMS_MAX 8

static const char magic[8] = { 'N', 'P', 'U', 'M', 'L', 'P', '\r', '\n' };

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

static void put32(uint8_t *b, uint32_t x)
{
	for (int i = 0; i < 4; i++)
		b[i] = (uint8_t)(x >> (8 * i));
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void put64(uint8_t *b, uint64_t x)
{
	put32(b, (uint32_t)x);
	put32(b + 4, (uint32_t)(x >> 32));
}

static void make_header(uint8_t *head, const uint8_t *data, size_t size)
{
	uint64_t sum = 0xcbf29ce484222325u;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ data[i]) * 0x100000001b3u;
	memset(head, 0, HEADER);
	memcpy(head, magic, sizeof(magic));
	put32(head + 8, VERSION);
	put32(head + 12, LAYERS);
	for (int l = 0; l <= LAYERS; l++)
		put32(head + DIMS_AT + 4 * l, net_dims[l]);
	put64(head + DIMS_AT + 4 * DIMS_MAX, size / 4);
	put64(head + DIMS_AT + 4 * DIMS_MAX + 8, sum);
}

static int bad(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	return -EINVAL;
}

static int check_file(const char *path, const uint8_t *file, size_t got, size_t size)
{
	uint8_t head[HEADER];

	if (got < HEADER || memcmp(file, magic, sizeof(magic)))
		return bad(path, "not a file of weights");
	if (get32(file + 8) != VERSION)
		return bad(path, "weights of another version");
	if (got != HEADER + size)
		return bad(path, "weights of another size");
	make_header(head, file + HEADER, size);
	if (memcmp(file, head, HEADER - 8))
		return bad(path, "weights of another network");
	if (memcmp(file, head, HEADER))
		return bad(path, "damaged: the checksum differs");
	return 0;
}

int weights_load(const char *path, float **weights)
{
	size_t n = weights_count(), size = n * 4, got;
	uint8_t *file;
	float *w;
	FILE *f;
	int rc;

	*weights = NULL;
	f = fopen(path, "rb");
	if (!f) {
		rc = -errno;
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return rc;
	}
	file = malloc(HEADER + size + 1);
	w = malloc(size);
	rc = -ENOMEM;
	if (!file || !w)
		goto free;
	/* one byte more, so as to see that there is none */
	got = fread(file, 1, HEADER + size + 1, f);
	rc = check_file(path, file, got, size);
	if (rc)
		goto free;
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = get32(file + HEADER + 4 * i);

		memcpy(&w[i], &bits, 4);
	}
	*weights = w;
	w = NULL;

free:
	free(w);
	free(file);
	fclose(f);
	return rc;
}

int weights_save(const char *path, const float *weights)
{
	size_t n = weights_count(), size = n * 4;
	uint8_t *file = malloc(HEADER + size);
	FILE *f;
	int rc = 0;

	if (!file)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &weights[i], 4);
		put32(file + HEADER + 4 * i, bits);
	}
	make_header(file, file + HEADER, size);
	f = fopen(path, "wb");
	if (!f)
		goto fail;
	if (fwrite(file, HEADER + size, 1, f) != 1) {
		rc = -errno;
		fclose(f);
		goto fail;
	}
	if (fclose(f))
		goto fail;
	free(file);
	return 0;

fail:
	rc = rc ? rc : -errno;
	fprintf(stderr, "%s: %s\n", path, strerror(-rc));
	free(file);
	return rc;
}
