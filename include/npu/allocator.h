/* SPDX-License-Identifier: MIT */
/*
 * Another allocator in the place of the cache: npu_mem_alloc() and what belongs to it ask functions
 * of the program.
 */
#ifndef NPU_ALLOCATOR_H
#define NPU_ALLOCATOR_H

#include "npu/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct npu_mem_allocator - what device memory comes from
 * @size: sizeof(struct npu_mem_allocator)
 * @alloc: gives memory of a device for a stream; never asked for 0 bytes
 * @free: takes it back, with what it was given for
 * @record_stream: as npu_mem_record_stream(), of memory that it has given; or NULL
 * @erase_stream: as npu_mem_erase_stream(), likewise; or NULL
 * @empty_cache: as npu_mem_empty_cache(); or NULL
 * @get_stats: as npu_mem_get_stats(), of which all but the size is 0 before; or NULL
 *
 * Each is called in the thread that calls the library, with no lock held, from any number of
 * threads at once, and may use the library. It returns 0 or a negative errno of this library, which
 * the caller gets; anything else, no memory, and memory that it has given already, are -EIO to him.
 * After -ENOMEM of @alloc functions of npu_mem_add_reclaim() are called, and it is asked again;
 * then observers are told. When @free fails, the memory stays the program's.
 */
struct npu_mem_allocator {
	size_t size;
	int (*alloc)(void **ptr, size_t size, int device, npu_stream stream, void *arg);
	int (*free)(void *ptr, size_t size, int device, npu_stream stream, void *arg);
	int (*record_stream)(void *ptr, npu_stream stream, void *arg);
	int (*erase_stream)(void *ptr, npu_stream stream, void *arg);
	int (*empty_cache)(int device, void *arg);
	int (*get_stats)(int device, struct npu_mem_stats *stats, void *arg);
};

/**
 * npu_mem_set_allocator() - have device memory come from functions of the program
 * @ops: they; copied; NULL: the cache again
 * @arg: for them
 *
 * Before the first npu_mem_alloc(), npu_workspace_get() or npu_mem_pool_create(), and until
 * npu_finalize(). What they lack, and all else that the cache does (limits, sleep, snapshots, tags,
 * private pools, npu_mem_get_block()), gives -EOPNOTSUPP then. What is left when a device is reset
 * is forgotten: they are not called for it.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (a size that is none, @alloc or @free is NULL), -EBUSY (the cache or an
 * allocator is in use).
 */
NPU_API int npu_mem_set_allocator(const struct npu_mem_allocator *ops, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* NPU_ALLOCATOR_H */
