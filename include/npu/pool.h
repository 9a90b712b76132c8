/* SPDX-License-Identifier: MIT */
/*
 * Private pools: device memory that only those requests get that are routed there.
 *
 * For what must have its memory to itself, as work that was recorded and is run again and again at
 * the same addresses, or models whose memory comes and goes as a whole. What is freed in a pool is
 * used again by requests of the pool, and by nobody else; it stays there, also when memory runs
 * out, until npu_mem_pool_trim() or npu_mem_pool_destroy(). The limit of the cache, its statistics,
 * snapshots and npu_mem_sleep() are about the memory of pools as well.
 */
#ifndef NPU_POOL_H
#define NPU_POOL_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** struct npu_mem_pool - a private pool; 0 is none */
typedef struct npu_mem_pool { uint64_t h; } npu_mem_pool;

/** NPU_MEM_POOL_NAME_LEN - bytes of a pool's name, the closing zero included */
#define NPU_MEM_POOL_NAME_LEN 32

/* struct npu_mem_pool_attr.flags */
/** NPU_MEM_POOL_NO_SPLIT - no block is cut: each has a piece of the device's memory for itself */
#define NPU_MEM_POOL_NO_SPLIT (1u << 0)
/** NPU_MEM_POOL_USE_ON_OOM - when the device has no memory left, other requests may have what is
 * free here: for the same stream as it is, for others by way of the device */
#define NPU_MEM_POOL_USE_ON_OOM (1u << 1)

/**
 * struct npu_mem_pool_attr - how to make a pool
 * @size: sizeof(struct npu_mem_pool_attr)
 * @flags: NPU_MEM_POOL_*
 * @tag: what its blocks begin with instead of 0, see npu_mem_set_tag()
 * @name: what npu_mem_pool_get_info() shows, NULL: none
 */
struct npu_mem_pool_attr {
	size_t size;
	uint32_t flags;
	uint32_t tag;
	const char *name;
};

/**
 * npu_mem_pool_create() - make a private pool
 * @device: of this device, or NPU_DEVICE_CURRENT
 * @attr: how; NULL: no flags, tag or name
 * @pool: out: the pool; 0 on failure
 *
 * It takes no memory until something is allocated in it. A reset of the device ends it. Opens no
 * device.
 * Return: 0, -EINVAL (NULL, a size, flags, a tag or a name that is none), -ENODEV (no such device),
 * -ENOMEM, -ENOSPC (no more handles), -EOPNOTSUPP (npu_mem_set_allocator()), -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_mem_pool_create(int device, const struct npu_mem_pool_attr *attr,
				npu_mem_pool *pool);

/**
 * npu_mem_pool_destroy() - end a pool
 * @pool: the pool
 *
 * No request is routed there any more. What is free in it goes back to the device, as
 * npu_mem_empty_cache() does it. Blocks in use stay as they are: with each that is freed its memory
 * is the cache's, which uses it for the same stream, or gives it back, as all that it has.
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE (destroyed already, or its device was closed), -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_pool_destroy(npu_mem_pool pool);

/** enum npu_mem_pool_scope - which requests are routed to a pool */
enum npu_mem_pool_scope {
	NPU_MEM_POOL_STREAM = 0,	/* those for a stream, of all threads */
	NPU_MEM_POOL_THREAD = 1,	/* those of the calling thread, for streams of the device */
};

/**
 * npu_mem_pool_begin() - route requests to a pool
 * @pool: the pool
 * @scope: which ones
 * @stream: those for this stream, of the pool's device; of NPU_MEM_POOL_THREAD: 0
 *
 * npu_mem_alloc() then takes its blocks from there and from nowhere else, also with the option
 * mem_caching off. Of several pools that a request may be routed to it is the one that has begun
 * last. Allocations on that device take the long way until npu_mem_pool_end(), which a route needs
 * also if its stream or thread has ended before.
 * Return: 0, -EINVAL (0; no such scope; a stream of another device; a stream with
 * NPU_MEM_POOL_THREAD), -EBADF, -ESTALE, -EBUSY (it has begun already), -ENOMEM, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN; and those of the stream.
 */
NPU_API int npu_mem_pool_begin(npu_mem_pool pool, enum npu_mem_pool_scope scope,
			       npu_stream stream);

/**
 * npu_mem_pool_end() - undo npu_mem_pool_begin()
 * @pool: as there
 * @scope: as there; NPU_MEM_POOL_THREAD: by the same thread
 * @stream: as there; one that is gone is fine
 *
 * Blocks stay what they are, and are freed as all others, whenever.
 * Return: 0, -EINVAL (0; no such scope; a stream with NPU_MEM_POOL_THREAD), -EBADF, -ESTALE,
 * -ENOENT (it has not begun), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_pool_end(npu_mem_pool pool, enum npu_mem_pool_scope scope, npu_stream stream);

/**
 * npu_mem_pool_trim() - give what is free in a pool back to the device
 * @pool: the pool
 *
 * As npu_mem_empty_cache() does it.
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_pool_trim(npu_mem_pool pool);

/**
 * struct npu_mem_pool_info - what is known of a pool
 * @size: in: sizeof(struct npu_mem_pool_info); only so many bytes are written
 * @id: its number, as in struct npu_mem_block and the second one of segment_pool_id in snapshots
 * @flags: NPU_MEM_POOL_*
 * @tag: of its blocks
 * @device: its device
 * @routes: how often it has begun and not ended
 * @blocks: blocks that the program holds
 * @used_bytes: their bytes
 * @waiting_bytes: bytes of blocks that wait for streams
 * @reserved_bytes: bytes that it has of the device
 * @name: its name, or nothing
 */
struct npu_mem_pool_info {
	size_t size;
	uint64_t id;
	uint32_t flags;
	uint32_t tag;
	int device;
	uint32_t routes;
	uint64_t blocks;
	uint64_t used_bytes;
	uint64_t waiting_bytes;
	uint64_t reserved_bytes;
	char name[NPU_MEM_POOL_NAME_LEN];
};

/**
 * npu_mem_pool_get_info() - what is known of a pool
 * @pool: the pool
 * @info: in: its size; out: so many bytes of it; not touched on failure
 *
 * Return: 0, -EINVAL (0; NULL, or no size), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_pool_get_info(npu_mem_pool pool, struct npu_mem_pool_info *info);

#ifdef __cplusplus
}
#endif

#endif /* NPU_POOL_H */
