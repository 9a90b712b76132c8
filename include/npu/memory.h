/* SPDX-License-Identifier: MIT */
/*
 * Memory: device memory, pinned host memory, copies and fills.
 *
 * A device pointer is a number that no host object has; on the simulator, as on
 * hardware, the host cannot read through it. It may be offset within its
 * allocation. Sizes are bytes. All functions here refuse with -EINVAL a range
 * that starts in an allocation and leaves it.
 */
#ifndef NPU_MEMORY_H
#define NPU_MEMORY_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of npu_malloc(). */
/** NPU_MEM_HUGE_FIRST - huge pages if there are some */
#define NPU_MEM_HUGE_FIRST (1u << 0)
/** NPU_MEM_HUGE_ONLY - huge pages, or -ENOMEM */
#define NPU_MEM_HUGE_ONLY (1u << 1)

/**
 * npu_malloc() - allocate memory of the current device
 * @size: bytes; 0 gives NULL and success
 * @flags: NPU_MEM_*, or 0
 * @ptr: out: the memory, not initialised, aligned to npu_device_info.mem_align
 *
 * It is real when it is returned. Return: 0, -EINVAL, -ENOMEM, -ENODEV, -EOPNOTSUPP.
 */
NPU_API int npu_malloc(size_t size, uint32_t flags, void **ptr);

/**
 * npu_free() - free device memory
 * @ptr: from npu_malloc(); NULL is fine
 *
 * At once and without waiting: wait for the tasks that use it first. One that still does
 * fails, or reads zeroes. Return: 0, -EINVAL (not the start of device memory, or freed already).
 */
NPU_API int npu_free(void *ptr);

/**
 * npu_malloc_host() - allocate pinned host memory
 * @size: bytes; 0 gives NULL and success
 * @flags: 0
 * @ptr: out: the memory, zeroed, aligned to a page
 *
 * Where the limit on locked memory is too low it is not locked, which is
 * logged once and slower on hardware. Return: 0, -EINVAL, -ENOMEM, -EOPNOTSUPP.
 */
NPU_API int npu_malloc_host(size_t size, uint32_t flags, void **ptr);
/** npu_free_host() - free it. As npu_free() */
NPU_API int npu_free_host(void *ptr);

/**
 * npu_host_register() - pin memory of the program
 * @ptr: its start; whole pages around it are pinned
 * @size: bytes, not 0
 * @flags: 0
 *
 * Return: 0, -EINVAL, -EEXIST (overlaps what is pinned), -ENOMEM, -EFAULT, -EOPNOTSUPP.
 */
NPU_API int npu_host_register(void *ptr, size_t size, uint32_t flags);
/** npu_host_unregister() - undo it; ptr as it was registered. Return: 0, -EINVAL */
NPU_API int npu_host_unregister(void *ptr);

/** enum npu_pointer_kind - what a pointer points to */
enum npu_pointer_kind {
	NPU_POINTER_UNKNOWN = 0,	/* memory that the library knows nothing of */
	NPU_POINTER_DEVICE = 1,
	NPU_POINTER_HOST = 2,		/* npu_malloc_host() */
	NPU_POINTER_REGISTERED = 3,	/* npu_host_register() */
};

/**
 * struct npu_pointer_info - what a pointer is
 * @size: in: sizeof(struct npu_pointer_info); only so many bytes are written
 * @base: start of the allocation, NULL: unknown
 * @bytes: size of the allocation
 * @kind: enum npu_pointer_kind
 * @device: its device; -1: unknown
 */
struct npu_pointer_info {
	size_t size;
	void *base;
	size_t bytes;
	int kind;
	int device;
};

/** npu_pointer_get_info() - what a pointer is. Any value is fine. Return: 0, -EINVAL */
NPU_API int npu_pointer_get_info(const void *ptr, struct npu_pointer_info *info);

/**
 * npu_memcpy() - copy now
 * @dst: to
 * @src: from; the two must not overlap
 * @size: bytes; 0 is nothing
 * @kind: the direction, or NPU_COPY_AUTO
 *
 * Done when it returns, and ordered with no stream. Return: 0, -EINVAL (NULL, a kind that the
 * pointers contradict), -ENODEV, -EDEADLK, -EOPNOTSUPP.
 */
NPU_API int npu_memcpy(void *dst, const void *src, size_t size, enum npu_copy_kind kind);

/**
 * npu_memcpy_async() - copy in a stream
 * @dst: to
 * @src: from; the two must not overlap
 * @size: bytes; 0 is nothing
 * @kind: the direction, or NPU_COPY_AUTO
 * @stream: the stream
 *
 * Host memory must stay as it is until the task is done, pinned or not. Of a stream 0, the
 * device is that of @dst, else of @src, if the thread has set none. Return: as npu_memcpy();
 * -EXDEV (neither side is memory of the stream's device), -EAGAIN, -ETIMEDOUT.
 */
NPU_API int npu_memcpy_async(void *dst, const void *src, size_t size, enum npu_copy_kind kind,
			     npu_stream stream);

/** npu_memcpy_2d() - copy rows: width bytes each, pitch bytes from row to row (at least width) */
NPU_API int npu_memcpy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			  size_t width, size_t height, enum npu_copy_kind kind);
/** npu_memcpy_2d_async() - the same in a stream */
NPU_API int npu_memcpy_2d_async(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				size_t width, size_t height, enum npu_copy_kind kind,
				npu_stream stream);

/** npu_memset() - set bytes of device or pinned memory now, ordered with no stream */
NPU_API int npu_memset(void *ptr, int value, size_t size);
/** npu_memset_async() - set bytes of device memory in a stream */
NPU_API int npu_memset_async(void *ptr, int value, size_t size, npu_stream stream);

#ifdef __cplusplus
}
#endif

#endif /* NPU_MEMORY_H */
