/* SPDX-License-Identifier: MIT */
/*
 * Allocators: device memory from a cache.
 *
 * npu_malloc() asks the driver each time. The cache here keeps what is freed, splits and merges it,
 * and gives it out again in nanoseconds. A block belongs to the stream that it was allocated for:
 * its memory may be used by tasks of that stream at once, even if tasks that used the memory before
 * are still queued there. Use by another stream is made known by npu_mem_record_stream(); the block
 * is then reused once that stream has done what was submitted to it before the block was freed.
 */
#ifndef NPU_ALLOC_H
#define NPU_ALLOC_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- device memory ------------------------------------------------------------------------ */

/**
 * npu_mem_alloc() - allocate device memory from the cache
 * @size: bytes; 0 gives NULL and success
 * @stream: the stream that uses it, which also says on which device; NPU_STREAM_CURRENT: the
 *	current one
 * @ptr: out: the memory, not initialised, aligned to 512 bytes or the option mem_block_align;
 *	NULL on failure
 *
 * When the device has no memory left, all that the cache can do is tried, in this order: blocks
 * that are free, functions of npu_mem_add_reclaim(), the collection that the option
 * mem_gc_threshold asks for, the driver, private pools that lend, blocks that wait for streams,
 * workspaces, all that is cached. After each the search starts again. Then observers are told, and
 * the text of the error has all figures. A block that is at hand is given whatever the device is:
 * what it is to be used for will fail.
 * Context: any thread. Inside a callback of a stream nothing is waited for, so that more may fail.
 * Return: 0, -EINVAL (NULL), -ENOMEM, -ENODEV, -EIO (the device has a fault), -EOPNOTSUPP, -ECHILD,
 * -ENOTCONN, -EBADF and -ESTALE (the stream), -ESHUTDOWN (finalizing, or the device is stopped),
 * -EBUSY (the device's memory sleeps, npu_mem_sleep()).
 */
NPU_API int npu_mem_alloc(size_t size, npu_stream stream, void **ptr);

/**
 * npu_mem_free() - give device memory back to the cache
 * @ptr: from npu_mem_alloc(); NULL is fine
 *
 * At once, from any thread and inside callbacks, too. Tasks that use it may still be queued: of its
 * own stream, and of those that npu_mem_record_stream() named. It does not matter which options
 * were set when it was allocated. A device that was reset has no blocks any more.
 * Return: 0, -EINVAL (not the start of such memory, or freed already: nothing has changed),
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_free(void *ptr);

/**
 * npu_mem_record_stream() - say that another stream uses the memory
 * @ptr: from npu_mem_alloc(); NULL is fine
 * @stream: the stream, of any device
 *
 * What counts is what the stream has to do when the memory is freed. Once is enough.
 * Return: 0, -EINVAL (not the start of such memory), -ENOMEM, -EBADF, -ESTALE, -ENODEV, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_record_stream(void *ptr, npu_stream stream);

/**
 * npu_mem_erase_stream() - say that the stream's use is over
 * @ptr: from npu_mem_alloc(); NULL is fine
 * @stream: as it was recorded; one that was not recorded, or is gone, is fine
 *
 * For programs that have made the memory's own stream wait for the other one.
 * Return: 0, -EINVAL (not the start of such memory), -ENOMEM, -EBADF, -ENODEV, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_erase_stream(void *ptr, npu_stream stream);

/**
 * npu_mem_empty_cache() - give what is cached and not in use back to the device
 * @device: the device, or NPU_DEVICE_CURRENT
 *
 * Waits for the streams that may still use it; inside a callback, and when a stream does not come
 * to an end within the operation time-out, what is still in use stays. So does what is free in
 * private pools: npu_mem_pool_trim().
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_empty_cache(int device);

/**
 * npu_mem_set_fraction() - limit what the cache takes of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @fraction: of its memory, from 0 to 1; 1 is no limit
 *
 * For what is taken from now on; the option mem_fraction is what it begins with, and again after a
 * reset of the device.
 * Return: 0, -EINVAL (not a number from 0 to 1), -ENODEV (no such device), -ENOMEM, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_set_fraction(int device, double fraction);

/**
 * npu_mem_get_fraction() - what npu_mem_set_fraction() has set
 * @device: the device, or NPU_DEVICE_CURRENT
 * @fraction: out: of its memory, from 0 to 1; 0 on failure
 *
 * Return: 0, -EINVAL (NULL), -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_get_fraction(int device, double *fraction);

/* ---- what there is ------------------------------------------------------------------------ */

/**
 * struct npu_mem_block - a block of the cache
 * @size: in: sizeof(struct npu_mem_block); only so many bytes are written
 * @base: its start
 * @bytes: its bytes, at least those that were asked for
 * @requested: bytes that were asked for
 * @segment: start of the memory that the driver gave, of which it is a part
 * @segment_bytes: bytes of that
 * @stream: the stream that it was allocated for
 * @device: its device
 * @flags: zero
 * @pool: number of its private pool (npu/pool.h), 0: none
 */
struct npu_mem_block {
	size_t size;
	void *base;
	size_t bytes;
	size_t requested;
	void *segment;
	size_t segment_bytes;
	npu_stream stream;
	int device;
	uint32_t flags;
	uint64_t pool;
};

/**
 * npu_mem_get_block() - the block that a pointer lies in
 * @ptr: from npu_mem_alloc(), or into the middle of such memory
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Return: 0, -EINVAL (NULL, no size, or not memory of the cache that is in use), -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_get_block(const void *ptr, struct npu_mem_block *info);

/**
 * struct npu_mem_stat - a figure over time
 * @current: now
 * @peak: the most since the last npu_mem_reset_peak()
 * @allocated: sum of what was added since the last npu_mem_reset_accumulated()
 * @freed: sum of what was taken away since then
 */
struct npu_mem_stat {
	uint64_t current;
	uint64_t peak;
	uint64_t allocated;
	uint64_t freed;
};

/* First index of the figures of struct npu_mem_stats. */
/** NPU_MEM_ALL - of both kinds of segments */
#define NPU_MEM_ALL 0
/** NPU_MEM_SMALL - of segments for requests up to 1 MiB */
#define NPU_MEM_SMALL 1
/** NPU_MEM_LARGE - of all others */
#define NPU_MEM_LARGE 2
/** NPU_MEM_KINDS - how many there are */
#define NPU_MEM_KINDS 3

/**
 * struct npu_mem_stats - statistics of the cache of a device
 * @size: in: sizeof(struct npu_mem_stats); only so many bytes are written
 * @allocation: blocks that the program holds
 * @segment: pieces of memory that the cache has from the driver
 * @active: blocks that the program holds, or that wait for streams
 * @inactive_split: free blocks that are not all of their segment
 * @allocated_bytes: bytes of @allocation
 * @reserved_bytes: bytes of @segment
 * @active_bytes: bytes of @active
 * @inactive_split_bytes: bytes of @inactive_split
 * @requested_bytes: what was asked for of @active
 * @oversize_allocations: blocks that the program holds of at least mem_max_split_mb
 * @oversize_segments: segments of at least mem_max_split_mb
 * @alloc_retries: times that the driver was asked again after all that was cached was given back
 * @ooms: requests that failed for want of memory
 * @sync_all_streams: waits for all streams that use freed blocks
 * @device_allocs: successful requests to the driver
 * @device_frees: pieces of memory given back to the driver
 * @max_split_size: mem_max_split_mb in bytes, -1: unlimited
 * @rescued_reclaim: functions of npu_mem_add_reclaim() that gave something back
 * @rescued_gc: bytes that collections gave back
 * @rescued_events: blocks that were had by waiting for streams
 * @rescued_workspace: bytes that workspaces gave back
 * @rescued_release: bytes that were given back to the driver for want of memory
 * @cached_bytes: bytes that are free
 * @largest_free: bytes of the largest free block
 * @waiting_bytes: bytes of blocks that wait for streams
 * @limit: most that the cache may take, bytes
 * @rescued_pools: blocks that private pools have lent
 */
struct npu_mem_stats {
	size_t size;
	struct npu_mem_stat allocation[NPU_MEM_KINDS];
	struct npu_mem_stat segment[NPU_MEM_KINDS];
	struct npu_mem_stat active[NPU_MEM_KINDS];
	struct npu_mem_stat inactive_split[NPU_MEM_KINDS];
	struct npu_mem_stat allocated_bytes[NPU_MEM_KINDS];
	struct npu_mem_stat reserved_bytes[NPU_MEM_KINDS];
	struct npu_mem_stat active_bytes[NPU_MEM_KINDS];
	struct npu_mem_stat inactive_split_bytes[NPU_MEM_KINDS];
	struct npu_mem_stat requested_bytes[NPU_MEM_KINDS];
	struct npu_mem_stat oversize_allocations;
	struct npu_mem_stat oversize_segments;
	uint64_t alloc_retries;
	uint64_t ooms;
	uint64_t sync_all_streams;
	uint64_t device_allocs;
	uint64_t device_frees;
	int64_t max_split_size;
	uint64_t rescued_reclaim;
	uint64_t rescued_gc;
	uint64_t rescued_events;
	uint64_t rescued_workspace;
	uint64_t rescued_release;
	uint64_t cached_bytes;
	uint64_t largest_free;
	uint64_t waiting_bytes;
	uint64_t limit;
	uint64_t rescued_pools;
};

/**
 * npu_mem_get_stats() - statistics of the cache of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @stats: in: its size; out: so many bytes of them; not touched on failure
 *
 * They are those of one moment. Opens no device.
 * Return: 0, -EINVAL (NULL, or no size), -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_mem_get_stats(int device, struct npu_mem_stats *stats);

/**
 * npu_mem_reset_peak() - let the peaks of a device begin with what there is now
 * @device: the device, or NPU_DEVICE_CURRENT
 *
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_reset_peak(int device);

/**
 * npu_mem_reset_accumulated() - let sums and counters of a device begin with zero
 * @device: the device, or NPU_DEVICE_CURRENT
 *
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_reset_accumulated(int device);

/* ---- when memory runs out ------------------------------------------------------------------ */

/* What was tried for a request: struct npu_mem_oom.tried. */
/** NPU_MEM_TRIED_RECLAIM - functions of npu_mem_add_reclaim() */
#define NPU_MEM_TRIED_RECLAIM (1u << 0)
/** NPU_MEM_TRIED_GC - the collection of mem_gc_threshold */
#define NPU_MEM_TRIED_GC (1u << 1)
/** NPU_MEM_TRIED_DRIVER - the driver */
#define NPU_MEM_TRIED_DRIVER (1u << 2)
/** NPU_MEM_TRIED_EVENTS - waiting for streams that use freed blocks */
#define NPU_MEM_TRIED_EVENTS (1u << 3)
/** NPU_MEM_TRIED_WORKSPACE - workspaces */
#define NPU_MEM_TRIED_WORKSPACE (1u << 4)
/** NPU_MEM_TRIED_RELEASE - giving back all that is cached, and the driver again */
#define NPU_MEM_TRIED_RELEASE (1u << 5)
/** NPU_MEM_TRIED_POOLS - private pools that lend (NPU_MEM_POOL_USE_ON_OOM), after the driver */
#define NPU_MEM_TRIED_POOLS (1u << 6)

/**
 * struct npu_mem_oom - a request for which there was no memory
 * @size: bytes of this structure
 * @request: bytes that were asked for
 * @total: bytes of the device
 * @free: bytes that the device has free
 * @limit: most that the cache may take, @total: no limit
 * @in_use: bytes of blocks that the program holds
 * @cached: bytes that are free in the cache
 * @largest: bytes of the largest free block of the cache
 * @waiting: bytes of blocks that wait for streams
 * @others: bytes that this process does not hold
 * @device: the device
 * @tried: NPU_MEM_TRIED_*
 * @pools: of @cached, bytes that lie in private pools
 */
struct npu_mem_oom {
	size_t size;
	uint64_t request;
	uint64_t total;
	uint64_t free;
	uint64_t limit;
	uint64_t in_use;
	uint64_t cached;
	uint64_t largest;
	uint64_t waiting;
	uint64_t others;
	int device;
	uint32_t tried;
	uint64_t pools;
};

/** typedef npu_mem_oom_fn - is told of a request for which there was no memory */
typedef void npu_mem_oom_fn(const struct npu_mem_oom *oom, void *arg);

/**
 * npu_mem_observe_oom() - be told when memory runs out
 * @device: of this device, or NPU_DEVICE_CURRENT
 * @fn: the function, called in the thread whose request fails, with no lock held, in order of
 *	registration; it may use the library, also to free memory
 * @arg: for it
 * @id: out: for npu_mem_unobserve_oom(); 0 on failure
 *
 * Return: 0, -EINVAL (NULL), -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_observe_oom(int device, npu_mem_oom_fn *fn, void *arg, uint64_t *id);

/**
 * npu_mem_unobserve_oom() - be told no more
 * @id: from npu_mem_observe_oom()
 *
 * The function is not called any more once this returns, except by a call from inside such a
 * function.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -ENOENT (there is no such observer).
 */
NPU_API int npu_mem_unobserve_oom(uint64_t id);

/**
 * typedef npu_mem_reclaim_fn - gives memory back that the program can do without
 * @device: of this device
 * @size: bytes that are asked for
 * @arg: what was given with it
 *
 * Return: whether it has freed something, as by npu_mem_free().
 */
typedef int npu_mem_reclaim_fn(int device, size_t size, void *arg);

/**
 * npu_mem_add_reclaim() - have a function called before the device is asked for more memory
 * @fn: the function, called in the thread that allocates, with no lock held, when no free block of
 *	the cache will do; it may use the library. Inside it no such function is called
 * @arg: for it
 * @id: out: for npu_mem_remove_reclaim(); 0 on failure
 *
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL), -ENOMEM.
 */
NPU_API int npu_mem_add_reclaim(npu_mem_reclaim_fn *fn, void *arg, uint64_t *id);

/**
 * npu_mem_remove_reclaim() - undo npu_mem_add_reclaim()
 * @id: from there
 *
 * The function is not called any more once this returns, except by a call from inside such a
 * function.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -ENOENT (there is no such function).
 */
NPU_API int npu_mem_remove_reclaim(uint64_t id);

/* ---- pinned host memory --------------------------------------------------------------------- */

/**
 * npu_host_alloc() - allocate pinned host memory from a cache
 * @size: bytes; 0 gives NULL and success
 * @ptr: out: the memory, not initialised, aligned to 512 bytes, above 1 MiB to 4096; NULL on
 *	failure
 *
 * The cache is that of the current device, which pins the memory; copies of all devices may use it.
 * A block is at most 511 bytes larger than the request, above 1 MiB at most 4095. When no memory is
 * left, or the option pinned_limit_mb is reached, what is free goes back to the system, then
 * streams are waited for that use freed blocks. Memory that the limit on locked memory does not
 * allow to be locked is as npu_malloc_host() says.
 * Context: any thread. Inside a callback of a stream nothing is waited for, so that more may fail.
 * Return: 0, -EINVAL (NULL), -ENOMEM, -ENODEV, -EIO (the device has a fault), -EOPNOTSUPP, -ECHILD,
 * -ENOTCONN, -ESTALE (the device was closed meanwhile), -ESHUTDOWN (finalizing, or the device is
 * stopped).
 */
NPU_API int npu_host_alloc(size_t size, void **ptr);

/**
 * npu_host_free() - give pinned host memory back to the cache
 * @ptr: from npu_host_alloc(); NULL is fine
 *
 * At once, from any thread and inside callbacks, too. Tasks that use it may still be queued in the
 * streams that npu_host_record_stream() has named: it is used again when they have ended. Of other
 * streams wait for those that use it first. Memory of a device that was reset is gone.
 * Return: 0, -EINVAL (not the start of such memory, or freed already: nothing has changed),
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_free(void *ptr);

/**
 * npu_host_record_stream() - say that a stream uses pinned memory
 * @ptr: from npu_host_alloc(); NULL is fine
 * @stream: the stream, of any device
 *
 * What counts is what the stream has to do when the memory is freed. Once is enough.
 * Return: 0, -EINVAL (not the start of such memory), -ENOMEM, -EBADF, -ESTALE, -ENODEV, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_record_stream(void *ptr, npu_stream stream);

/**
 * npu_host_empty_cache() - give pinned memory that is not in use back to the system
 * @device: the device whose cache it is, or NPU_DEVICE_CURRENT
 *
 * Waits for nothing: what streams still use stays.
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_empty_cache(int device);

/**
 * npu_host_is_pinned() - whether memory is pinned
 * @ptr: any pointer
 * @pinned: out: 1: npu_host_alloc(), npu_malloc_host() or npu_host_register() has made it so, and
 *	it was not freed; else 0, as always while the library is not initialised
 *
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL).
 */
NPU_API int npu_host_is_pinned(const void *ptr, int *pinned);

/**
 * struct npu_host_time - how long something took, ns
 * @count: how often it was done
 * @total: all together
 * @min: the shortest
 * @max: the longest
 */
struct npu_host_time {
	uint64_t count;
	uint64_t total;
	uint64_t min;
	uint64_t max;
};

/**
 * struct npu_host_stats - statistics of the pinned memory of a device
 * @size: in: sizeof(struct npu_host_stats); only so many bytes are written
 * @allocation: blocks that the program holds
 * @segment: pieces of memory that the cache has from the system
 * @allocated_bytes: bytes of @allocation
 * @reserved_bytes: bytes of @segment
 * @requested_bytes: bytes that were asked for, of blocks that the program holds
 * @cached_bytes: bytes that are free
 * @waiting_bytes: bytes of blocks that wait for streams
 * @unlocked_bytes: bytes of @segment that could not be locked
 * @limit: most that all devices together may take; UINT64_MAX: there is no limit
 * @ooms: requests that failed for want of memory
 * @alloc_time: requests to the system since npu_host_reset_accumulated()
 * @free_time: pieces of memory given back to it since then
 */
struct npu_host_stats {
	size_t size;
	struct npu_mem_stat allocation;
	struct npu_mem_stat segment;
	struct npu_mem_stat allocated_bytes;
	struct npu_mem_stat reserved_bytes;
	uint64_t requested_bytes;
	uint64_t cached_bytes;
	uint64_t waiting_bytes;
	uint64_t unlocked_bytes;
	uint64_t limit;
	uint64_t ooms;
	struct npu_host_time alloc_time;
	struct npu_host_time free_time;
};

/**
 * npu_host_get_stats() - statistics of the pinned memory of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @stats: in: its size; out: so many bytes of them; not touched on failure
 *
 * They are those of one moment. Opens no device.
 * Return: 0, -EINVAL (NULL, or no size), -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_host_get_stats(int device, struct npu_host_stats *stats);

/**
 * npu_host_reset_peak() - let the peaks begin with what there is now
 * @device: the device, or NPU_DEVICE_CURRENT
 *
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_reset_peak(int device);

/**
 * npu_host_reset_accumulated() - let sums, counters and times begin with zero
 * @device: the device, or NPU_DEVICE_CURRENT
 *
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_reset_accumulated(int device);

/* ---- workspaces ----------------------------------------------------------------------------- */

/**
 * npu_workspace_get() - scratch memory of a stream
 * @stream: the stream
 * @size: bytes, not 0
 * @ptr: out: the memory, as of npu_mem_alloc() for the stream; NULL on failure
 *
 * The same memory each time, as long as it is large enough; else a larger one, and the one before
 * is kept for those who have not called npu_workspace_put() yet. What is in it is lost with the
 * next call for the stream. If there is no memory for a larger one, the old one stays as it is.
 * Return: 0, -EINVAL (NULL, or size is 0), or as npu_mem_alloc().
 */
NPU_API int npu_workspace_get(npu_stream stream, size_t size, void **ptr);

/**
 * npu_workspace_put() - undo npu_workspace_get()
 * @stream: as it was got for
 *
 * When the tasks that use it have been submitted; they need not be done. The memory stays with the
 * stream until npu_workspace_trim(), or until the device has no other memory.
 * Return: 0, -EINVAL (more often than npu_workspace_get()), -EBADF, -ESTALE, -ENODEV, -ENOMEM,
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_workspace_put(npu_stream stream);

/**
 * npu_workspace_trim() - give workspaces that nobody uses back to the cache
 * @device: the device, or NPU_DEVICE_CURRENT
 *
 * Those of streams that were destroyed go, too.
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_workspace_trim(int device);

/**
 * struct npu_workspace_stats - statistics of the workspaces of a device
 * @size: in: sizeof(struct npu_workspace_stats); only so many bytes are written
 * @bytes: bytes of their memory, which the cache counts as in use
 * @spaces: streams that have one
 * @in_use: those that were not put
 */
struct npu_workspace_stats {
	size_t size;
	struct npu_mem_stat bytes;
	uint64_t spaces;
	uint64_t in_use;
};

/**
 * npu_workspace_get_stats() - statistics of the workspaces of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @stats: in: its size; out: so many bytes of them; not touched on failure
 *
 * Return: 0, -EINVAL (NULL, or no size), -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_workspace_get_stats(int device, struct npu_workspace_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* NPU_ALLOC_H */
