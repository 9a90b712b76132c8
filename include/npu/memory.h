/* SPDX-License-Identifier: MIT */
/*
 * Memory: device memory, pinned host memory, copies and fills.
 *
 * A device pointer is a number that no host object has; on the simulator, as on
 * hardware, the host cannot read through it, except of NPU_MEM_MANAGED. It may be
 * offset within its allocation. Sizes are bytes. All functions here refuse with -EINVAL a range
 * that starts in an allocation and leaves it. Copies give -EHWPOISON for a source
 * that is unsafe (NPU_POINTER_UNSAFE), -EFAULT for host memory that is not there.
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
 * NPU_MEM_MANAGED - the host may read and write it, too, at the same address, until it is freed;
 * only where the device has NPU_CAP_MANAGED, else -EOPNOTSUPP. Tasks that are submitted after the
 * host has written see it; wait for a task before the host reads what it writes, or writes what it
 * uses. It is device memory in all else, but that a copy may call it the host's, and that other
 * processes can't have it, nor a child of fork()
 */
#define NPU_MEM_MANAGED (1u << 2)

/**
 * npu_malloc() - allocate memory of the current device
 * @size: bytes; 0 gives NULL and success
 * @flags: NPU_MEM_*, or 0
 * @ptr: out: the memory, not initialised, aligned to npu_device_info.mem_align; NULL on failure
 *
 * It is real when it is returned.
 * Return: 0, -EINVAL (NULL, unknown flags, both ways of huge pages), -ENOMEM, -EMFILE (of
 * NPU_MEM_MANAGED: too few descriptors), -ENODEV, -EOPNOTSUPP, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_malloc(size_t size, uint32_t flags, void **ptr);

/**
 * npu_free() - free device memory
 * @ptr: from npu_malloc(); NULL is fine
 *
 * At once and without waiting: wait for the tasks that use it first. One that still does
 * fails, or reads zeroes.
 * Return: 0, -EINVAL (not the start of device memory, freed already, or memory of
 * npu_mem_alloc()), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_free(void *ptr);

/**
 * npu_malloc_host() - allocate pinned host memory
 * @size: bytes; 0 gives NULL and success
 * @flags: 0
 * @ptr: out: the memory, zeroed, aligned to a page; NULL on failure
 *
 * Where the limit on locked memory is too low it is not locked, which is logged once and slower on
 * hardware; with the option pinned_lock_required that is -ENOMEM.
 * Return: 0, -EINVAL (NULL, unknown flags), -ENOMEM, -ENODEV, -EOPNOTSUPP, -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_malloc_host(size_t size, uint32_t flags, void **ptr);

/**
 * npu_free_host() - free pinned host memory
 * @ptr: from npu_malloc_host(); NULL is fine
 *
 * At once and without waiting, as npu_free().
 * Return: 0, -EINVAL (not the start of such memory, or freed already), -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_free_host(void *ptr);

/**
 * npu_host_register() - pin memory of the program
 * @ptr: its start, of any alignment; whole pages around it are pinned
 * @size: bytes, not 0
 * @flags: 0
 *
 * It may lie in several mappings, beside other registered memory, and share pages with it, which
 * stay pinned as long as one of the two is registered. Memory of which a byte is registered is not
 * registered again: the same range, one that overlaps it, a part of it and what is around it are
 * all -EEXIST, and change nothing. All of the range is registered or none. It ends with its device,
 * and with npu_host_unregister(); not when the program unmaps it: until then what it maps there is
 * -EEXIST. Locked or not, as of npu_malloc_host().
 * Return: 0, -EINVAL (NULL, size is 0 or too large, unknown flags), -EEXIST (overlaps what is
 * registered, or is the library's), -ENOMEM, -EFAULT (some of it is not mapped, or can't be read),
 * -ENODEV, -EOPNOTSUPP, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_register(void *ptr, size_t size, uint32_t flags);

/**
 * npu_host_unregister() - undo npu_host_register()
 * @ptr: as it was registered; it may be unmapped already
 *
 * At once and without waiting: wait for the tasks that use it first.
 * Return: 0, -EINVAL (not the start of what is registered: inside it, unknown, or undone already),
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_host_unregister(void *ptr);

/** enum npu_pointer_kind - what a pointer points to */
enum npu_pointer_kind {
	NPU_POINTER_UNKNOWN = 0,	/* memory that the library knows nothing of */
	NPU_POINTER_DEVICE = 1,
	NPU_POINTER_HOST = 2,		/* npu_malloc_host(), npu_host_alloc() */
	NPU_POINTER_REGISTERED = 3,	/* npu_host_register() */
};

/* npu_pointer_info.flags */
/**
 * NPU_POINTER_UNSAFE - an uncorrectable memory error may have spoilt the content: copies from it
 * give -EHWPOISON. A copy or npu_memset() that covers the allocation whole makes it safe, from its
 * submission on, and so does npu_mem_set_safe()
 */
#define NPU_POINTER_UNSAFE (1u << 0)
/** NPU_POINTER_UNLOCKED - pinned or registered memory that could not be locked in RAM */
#define NPU_POINTER_UNLOCKED (1u << 1)
/** NPU_POINTER_MANAGED - device memory that is the host's as well: NPU_MEM_MANAGED */
#define NPU_POINTER_MANAGED (1u << 2)

/**
 * struct npu_pointer_info - what a pointer is
 * @size: in: sizeof(struct npu_pointer_info); only so many bytes are written
 * @base: start of the allocation, NULL: unknown
 * @bytes: size of the allocation
 * @kind: enum npu_pointer_kind
 * @device: its device; -1: unknown
 * @flags: NPU_POINTER_*
 * @pad: zero
 */
struct npu_pointer_info {
	size_t size;
	void *base;
	size_t bytes;
	int kind;
	int device;
	uint32_t flags;
	uint32_t pad;
};

/**
 * npu_pointer_get_info() - what a pointer is
 * @ptr: the pointer; any value is fine
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Of memory of the caches (npu_mem_alloc(), npu_host_alloc()) the allocation is the block; what is
 * free there is unknown, as is all that was freed.
 * Return: 0, -EINVAL (NULL, or no size), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_pointer_get_info(const void *ptr, struct npu_pointer_info *info);

/**
 * npu_mem_set_safe() - say that unsafe memory may be read again
 * @ptr: from npu_malloc(); memory that is safe stays so
 *
 * For memory that was written piece by piece, or whose content does not matter.
 * Return: 0, -EINVAL (not the start of device memory), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_set_safe(void *ptr);

/**
 * npu_memcpy() - copy now
 * @dst: to
 * @src: from; the two must not overlap
 * @size: bytes; 0 is nothing
 * @kind: the direction, or NPU_COPY_AUTO
 *
 * Done when it returns, and ordered with no stream.
 * Return: 0, -EINVAL (NULL, a range that leaves its allocation, a kind that the pointers
 * contradict, two ranges of one device that overlap), -EACCES (npu_vm_protect() has forbidden it),
 * -ENOMEM, -ENODEV, -ESTALE (the device was closed meanwhile), -EDEADLK (inside a callback),
 * -EOPNOTSUPP, -ECHILD, -ESHUTDOWN, -ENOTCONN.
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
 * Host memory, pinned or not, is read or written when it is the task's turn, and must stay as it is
 * until the task is done; the call does not wait for that. Of a stream 0, the device is that of
 * @dst, else of @src, if the thread has set none.
 * Return: 0, -EINVAL (as npu_memcpy(); both sides are the host's), -EXDEV (neither side is memory
 * of the stream's device), -EAGAIN (the stream is full and does not block), -ETIMEDOUT (it stayed
 * full), -ENOMEM, -EOPNOTSUPP, or what every function with a stream answers (top of npu/stream.h).
 */
NPU_API int npu_memcpy_async(void *dst, const void *src, size_t size, enum npu_copy_kind kind,
			     npu_stream stream);

/**
 * npu_memcpy_2d() - copy rows now
 * @dst: to
 * @dst_pitch: bytes from row to row there, at least @width
 * @src: from; the two must not overlap
 * @src_pitch: bytes from row to row there, at least @width
 * @width: bytes of a row; 0 is nothing
 * @height: rows; 0 is nothing
 * @kind: the direction, or NPU_COPY_AUTO
 *
 * Return: as npu_memcpy(); -EINVAL also for a pitch that is too small.
 */
NPU_API int npu_memcpy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			  size_t width, size_t height, enum npu_copy_kind kind);

/**
 * npu_memcpy_2d_async() - copy rows in a stream
 * @dst: to
 * @dst_pitch: bytes from row to row there, at least @width
 * @src: from; the two must not overlap
 * @src_pitch: bytes from row to row there, at least @width
 * @width: bytes of a row; 0 is nothing
 * @height: rows; 0 is nothing
 * @kind: the direction, or NPU_COPY_AUTO
 * @stream: the stream, as in npu_memcpy_async()
 *
 * Return: as npu_memcpy_async(); -EINVAL also for a pitch that is too small.
 */
NPU_API int npu_memcpy_2d_async(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				size_t width, size_t height, enum npu_copy_kind kind,
				npu_stream stream);

/**
 * npu_memset() - set bytes of device or pinned memory now
 * @ptr: the first
 * @value: what to set each to; the low eight bits count
 * @size: bytes; 0 is nothing
 *
 * Done when it returns, and ordered with no stream.
 * Return: 0, -EINVAL (NULL, other memory, a range that leaves its allocation), -ENOMEM, -ENODEV,
 * -ESTALE (the device was closed meanwhile), -EDEADLK (inside a callback), -EOPNOTSUPP, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_memset(void *ptr, int value, size_t size);

/**
 * npu_memset_async() - set bytes of device memory in a stream
 * @ptr: the first
 * @value: what to set each to; the low eight bits count
 * @size: bytes; 0 is nothing
 * @stream: the stream; of 0, the device is that of @ptr if the thread has set none
 *
 * Return: 0, -EINVAL (NULL, other memory, a range that leaves its allocation), -EXDEV (memory of
 * another device), -EAGAIN (the stream is full and does not block), -ETIMEDOUT (it stayed full),
 * -ENOMEM, -EOPNOTSUPP, or what every function with a stream answers (top of npu/stream.h).
 */
NPU_API int npu_memset_async(void *ptr, int value, size_t size, npu_stream stream);

#ifdef __cplusplus
}
#endif

#endif /* NPU_MEMORY_H */
