/* SPDX-License-Identifier: MIT */
/*
 * Another allocator in the place of the cache.
 */
#ifndef RUNTIME_PLUG_H
#define RUNTIME_PLUG_H

#include "npu/allocator.h"
#include "runtime/alloc.h"

/* Whether there is one; it stays until npu_finalize() once rt_plug_use() was called. */
extern _Atomic bool rt_plug_on;

/* The cache is used, or the allocator is: neither is changed any more. Return: which of them. */
bool rt_plug_use(void);
/* -EOPNOTSUPP, with a text, if there is an allocator, which does not do that. */
int rt_plug_refuse(const char *op);
int rt_plug_alloc(struct rt_cache *c, size_t size, uint64_t stream, void **ptr, const char *op);
int rt_plug_free(void *ptr, const char *op);
int rt_plug_stream(void *ptr, uint64_t stream, bool record, const char *op);
int rt_plug_empty(int device, const char *op);
int rt_plug_stats(int device, struct npu_mem_stats *stats, const char *op);

#endif /* RUNTIME_PLUG_H */
