/* SPDX-License-Identifier: MIT */
/*
 * Containers of weights, inside: Documentation/weights.rst has the layout.
 */
#ifndef RUNTIME_WEIGHTS_H
#define RUNTIME_WEIGHTS_H

#include <string.h>

#include "runtime/file.h"

#define WEIGHTS_MAGIC "NPUWTS\r\n"
#define WEIGHTS_VERSION 1u
#define WEIGHTS_HEAD 64u	/* bytes before the table */
#define WEIGHTS_ENTRY 128u	/* bytes of an entry of the table */
#define WEIGHTS_ALIGN 4096u	/* what tensors that we write begin at a multiple of */
/* Bytes of head, table and names: what is larger is no container. */
#define WEIGHTS_HEADER_MAX (256u << 20)

/* Where the fields are: of the head, of an entry. */
enum {
	HEAD_VERSION = 8, HEAD_COUNT = 12, HEAD_FILE = 16, HEAD_HEADER = 24, HEAD_ALIGN = 32,
	HEAD_ZERO = 36, HEAD_SUM = 56,
	ENTRY_OFFSET = 0, ENTRY_BYTES = 8, ENTRY_SUM = 16, ENTRY_NAME = 24, ENTRY_NAME_LEN = 28,
	ENTRY_DTYPE = 30, ENTRY_RANK = 31, ENTRY_SHAPE = 32, ENTRY_ZERO = 96,
};

/**
 * struct rt_weights - a container that is open
 * @held: references
 * @file: its file
 * @count: tensors
 * @header: head, table and names, checked
 * @by_name: the tensors in the order of their names
 */
struct rt_weights {
	struct rt_held held;
	struct rt_file *file;
	uint32_t count;
	unsigned char *header;
	uint32_t *by_name;
};

static inline uint64_t weights_load(const unsigned char *p, unsigned int bytes)
{
	uint64_t x = 0;

	while (bytes--)
		x = x << 8 | p[bytes];
	return x;
}

static inline void weights_store(unsigned char *p, unsigned int bytes, uint64_t x)
{
	for (; bytes; bytes--, x >>= 8)
		*p++ = (unsigned char)x;
}

/* The i-th entry of the table. */
static inline const unsigned char *weights_entry(const struct rt_weights *w, uint32_t i)
{
	return w->header + WEIGHTS_HEAD + (size_t)i * WEIGHTS_ENTRY;
}

/* A name, which has no zero at its end. */
struct weights_name {
	const char *text;
	size_t len;
};

static inline struct weights_name weights_name(const unsigned char *header, const unsigned char *e)
{
	return (struct weights_name){
		(const char *)header + weights_load(e + ENTRY_NAME, 4),
		weights_load(e + ENTRY_NAME_LEN, 2),
	};
}

static inline int weights_name_cmp(struct weights_name a, struct weights_name b)
{
	int d = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);

	return d ? d : a.len < b.len ? -1 : a.len > b.len;
}

/* weights.c */
struct rt_weights *rt_weights_get(npu_weights w, const char *op);
void rt_weights_put(struct rt_weights *w);
int rt_weights_no_tensor(const struct rt_weights *w, uint32_t index, const char *op);
uint64_t rt_dtype_size(uint32_t dtype);
bool rt_tensor_bytes(uint32_t dtype, uint32_t rank, const uint64_t *shape, uint64_t *bytes);
bool rt_utf8(const char *text, size_t len);

#endif /* RUNTIME_WEIGHTS_H */
