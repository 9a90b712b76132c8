// SPDX-License-Identifier: MIT
/*
 * npuctl weights: containers of weights, made, looked at and checked.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu/error.h"
#include "npu/io.h"
#include "tools/npuctl/npuctl.h"

static const char help[] =
	"weights info FILE\n"
	"       npuctl weights check FILE\n"
	"       npuctl weights pack FILE NAME:TYPE:SHAPE=DATA...\n"
	"SHAPE as 784x128; DATA is a file of the numbers, little-endian";

static const struct {
	const char *name;
	unsigned int size;
} types[] = {
	[NPU_DTYPE_U8] = { "u8", 1 }, [NPU_DTYPE_I8] = { "i8", 1 },
	[NPU_DTYPE_U16] = { "u16", 2 }, [NPU_DTYPE_I16] = { "i16", 2 },
	[NPU_DTYPE_U32] = { "u32", 4 }, [NPU_DTYPE_I32] = { "i32", 4 },
	[NPU_DTYPE_U64] = { "u64", 8 }, [NPU_DTYPE_I64] = { "i64", 8 },
	[NPU_DTYPE_F16] = { "f16", 2 }, [NPU_DTYPE_BF16] = { "bf16", 2 },
	[NPU_DTYPE_F32] = { "f32", 4 }, [NPU_DTYPE_F64] = { "f64", 8 },
};

#define TYPES (sizeof(types) / sizeof(types[0]))

/* ---- info, check ------------------------------------------------------------------------ */

/* "784x128" */
static void print_shape(const struct npu_tensor_info *t, char *text, size_t size)
{
	size_t n = 0;
	uint32_t i;

	if (!t->rank)
		snprintf(text, size, "-");
	for (i = 0; i < t->rank && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%" PRIu64, i ? "x" : "", t->shape[i]);
}

static void print_tensor(const struct npu_tensor_info *t)
{
	char shape[256];

	print_shape(t, shape, sizeof(shape));
	printf("%-32s %-5s %-20s %12" PRIu64 " bytes at %-12" PRIu64 " %016" PRIx64, t->name,
	       t->dtype < TYPES ? types[t->dtype].name : "?", shape, t->bytes, t->offset,
	       t->checksum);
}

/* One tensor a line; checked, too: 0, or 1. */
static int show(npu_weights w, const char *path, int check)
{
	struct npu_tensor_info t = { .size = sizeof(t) };
	int rc = 0, bad, err;
	uint64_t total = 0;
	uint32_t count, i;

	if (npu_weights_count(w, &count))
		return failed(path);
	for (i = 0; i < count; i++) {
		if (npu_weights_info(w, i, &t))
			return failed(path);
		total += t.bytes;
		print_tensor(&t);
		err = check ? npu_weights_verify(w, i) : 0;
		bad = err == -EBADMSG;
		printf("%s\n", !check ? "" : bad ? " DAMAGED" : err ? " unreadable" : " ok");
		if (err)
			rc = failed(path);
	}
	printf("%u tensors, %" PRIu64 " bytes\n", count, total);
	return rc;
}

static int look(const char *path, int check)
{
	npu_weights w;
	int rc;

	if (npu_weights_open(path, &w))
		return failed(path);
	rc = show(w, path, check);
	npu_weights_close(w);
	return rc;
}

/* ---- pack ----------------------------------------------------------------------------------- */

static int wrong(const char *arg, const char *what)
{
	fprintf(stderr, "npuctl: %s: %s\n", arg, what);
	return 1;
}

/* The whole of a file, of exactly so many bytes; NULL after having said why. */
static void *slurp(const char *path, uint64_t size)
{
	FILE *f = fopen(path, "rb");
	char *data = NULL;
	size_t got = 0;

	if (!f) {
		wrong(path, strerror(errno));
		return NULL;
	}
	data = malloc(size + 1);
	if (data)
		got = fread(data, 1, size + 1, f);
	if (!data || ferror(f) || got != size) {
		fprintf(stderr, "npuctl: %s: not %" PRIu64 " bytes\n", path, size);
		free(data);
		data = NULL;
	}
	fclose(f);
	return data;
}

/* "784x128", "-" or nothing: a number; false: neither. */
static int read_shape(char *text, struct npu_tensor *t, uint64_t *bytes)
{
	char *end;

	if (!*text || !strcmp(text, "-"))
		return 1;
	for (;; text = end + 1) {
		if (t->rank == NPU_TENSOR_RANK_MAX || *text < '0' || *text > '9')
			return 0;
		errno = 0;
		t->shape[t->rank] = strtoull(text, &end, 10);
		if (errno || __builtin_mul_overflow(*bytes, t->shape[t->rank++], bytes))
			return 0;
		if (*end != 'x')
			return !*end;
	}
}

/* NAME:TYPE:SHAPE=DATA, of which the name may have colons, and the path everything. */
static int read_tensor(char *arg, struct npu_tensor *t)
{
	char *data = strchr(arg, '='), *shape, *type;
	uint64_t bytes;
	uint32_t i;

	if (!data)
		return wrong(arg, "no \"=\"");
	*data++ = '\0';
	shape = strrchr(arg, ':');
	if (shape)
		*shape++ = '\0';
	type = shape ? strrchr(arg, ':') : NULL;
	if (!type)
		return wrong(arg, "not NAME:TYPE:SHAPE");
	*type++ = '\0';
	t->name = arg;
	for (i = 1; i < TYPES && !t->dtype; i++)
		if (!strcmp(types[i].name, type))
			t->dtype = i;
	if (!t->dtype)
		return wrong(type, "no such type");
	bytes = types[t->dtype].size;
	if (!read_shape(shape, t, &bytes) || bytes > SIZE_MAX / 2)
		return wrong(shape, "no shape");
	t->data = slurp(data, bytes);
	return !t->data;
}

static int pack(const char *path, int count, char **args)
{
	struct npu_tensor *t = calloc((size_t)count + 1, sizeof(*t));
	int i, rc = 0;

	if (!t)
		return wrong(path, "no memory");
	for (i = 0; i < count && !rc; i++)
		rc = read_tensor(args[i], &t[i]);
	if (!rc && npu_weights_write(path, t, (uint32_t)count))
		rc = failed(path);
	for (i = 0; i < count; i++)
		free((void *)(uintptr_t)t[i].data);
	free(t);
	return rc;
}

int cmd_weights(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[0], "info"))
		return look(argv[1], 0);
	if (argc == 2 && !strcmp(argv[0], "check"))
		return look(argv[1], 1);
	if (argc >= 2 && !strcmp(argv[0], "pack"))
		return pack(argv[1], argc - 2, argv + 2);
	return usage(help);
}
