/* SPDX-License-Identifier: MIT */
/*
 * Memory, as hal's users see it. An allocation is its pointer: device pointers
 * are unique across devices and host, so a pointer says where it is.
 */
#ifndef HAL_MEMORY_H
#define HAL_MEMORY_H

#include "hal/context.h"
#include "hal/range.h"

enum hal_memory_kind {
	HAL_MEMORY_DEVICE = 1,
	HAL_MEMORY_HOST = 2,		/* pinned, ours */
	HAL_MEMORY_REGISTERED = 3,	/* pinned, the caller's */
	HAL_MEMORY_UNSAFE = 4,		/* device memory after an uncorrectable error */
	HAL_MEMORY_GUARDED = 5,		/* device memory that not all may use: hal/vmm.h */
	HAL_MEMORY_APART = 6,		/* device memory without an address: hal/vmm.h */
};

/* Flags of an allocation. */
#define HAL_MEM_HUGE_FIRST (1u << 0)
#define HAL_MEM_HUGE_ONLY (1u << 1)
#define HAL_MEM_MANAGED (1u << 2)	/* device memory: the host may use it, too */
#define HAL_MEM_LOCKED (1u << 3)	/* host memory: it must not be unlocked */

/**
 * struct hal_memory - an allocation; first member of the driver's
 * @ref: references
 * @range: its addresses, in hal's map
 * @ctx: its context, of which it holds a reference
 * @node: in the context's list
 * @addr: first address
 * @size: bytes that were asked for
 * @real_size: bytes that it takes, a multiple of mem_align; what the driver is asked for
 * @kind: enum hal_memory_kind
 * @flags: HAL_MEM_*
 * @making: it is found by its addresses, but not part of its context yet, or on its way out of it,
 *	so nobody may free it; of memory without an address: it has been destroyed, but the driver
 *	does not know yet
 * @unsafe: an uncorrectable error may have spoilt its content
 * @unlocked: pinned memory that the driver could not lock in RAM
 * @reserve: of a mapping: where it lies, NULL: it is none; hal/vmm.c has the rest
 * @other: of a mapping: the memory that is there, one reference; of memory without an address: the
 *	mapping, NULL: it is not mapped
 * @mapped: of a mapping: the driver has made it
 * @access: of a mapping: HAL_VM_*
 * @handle: of memory without an address; 0: it was destroyed
 * @entry: of imported memory: offset of the byte that the key named
 */
struct hal_memory {
	struct kref ref;
	struct hal_range range;
	struct hal_context *ctx;
	struct hal_list node;
	void *addr;
	size_t size;
	size_t real_size;
	enum hal_memory_kind kind;
	uint32_t flags;
	bool making;
	bool unsafe;
	bool unlocked;
	bool mapped;
	struct hal_reserve *reserve;
	struct hal_memory *other;
	uint32_t access;
	uint64_t handle;
	size_t entry;
};

/**
 * struct hal_pointer - what a pointer is
 * @kind: enum hal_memory_kind, 0: memory that we know nothing of; never HAL_MEMORY_UNSAFE or
 *	HAL_MEMORY_GUARDED
 * @unsafe: device memory whose content an uncorrectable error may have spoilt
 * @unlocked: pinned memory that is not locked in RAM
 * @managed: device memory that the host may use at its address, too
 * @dev: its device, no reference; NULL for unknown memory
 * @base: start of the allocation
 * @size: bytes of the allocation
 */
struct hal_pointer {
	enum hal_memory_kind kind;
	struct hal_device *dev;
	void *base;
	size_t size;
	bool unsafe;
	bool unlocked;
	bool managed;
};

/*
 * [C-MEM-5] Size 0 gives a NULL pointer and success; more than the device has -ENOMEM.
 * Flags unknown -EINVAL. HAL_MEM_LOCKED is for host memory, also that of the caller;
 * HAL_MEM_MANAGED is for hal_mem_alloc(), and needs NPU_CAP_MANAGED.
 */
int hal_mem_alloc(struct hal_context *ctx, size_t size, uint32_t flags, void **ptr);
int hal_mem_host_alloc(struct hal_context *ctx, size_t size, uint32_t flags, void **ptr);
/*
 * Frees what either of the two above gave. NULL is fine. [C-MEM-6] A pointer into the middle, of
 * another kind, or already freed gives -EINVAL and changes nothing.
 */
int hal_mem_free(void *ptr);
int hal_mem_host_free(void *ptr);
/* [C-MEM-7] Ranges that overlap one that is registered give -EEXIST. */
int hal_mem_host_register(struct hal_context *ctx, void *ptr, size_t size, uint32_t flags);
int hal_mem_host_unregister(void *ptr);

int hal_pointer_info(const void *ptr, struct hal_pointer *info);

/*
 * Checks a range of device memory that may be written; its device, no reference. 1: it is unsafe,
 * and all of it.
 */
int hal_range_check(const void *ptr, size_t size, struct hal_device **dev, const char *op);

/**
 * struct hal_window - device memory as a host range, for file I/O
 * @host: where the host finds it
 * @mem: the allocation, one reference: it stays where it is while the window is open, even if it is
 *	freed meanwhile
 * @offset: where in the allocation the window begins
 * @size: its bytes
 */
struct hal_window {
	char *host;
	struct hal_memory *mem;
	uint64_t offset;
	size_t size;
};

/**
 * hal_window_open() - open device memory for file I/O
 * @ptr: its first byte
 * @size: how many
 * @w: out: the window; empty on failure
 *
 * Return: 0, -EINVAL (not device memory, or it leaves its allocation), -EHWPOISON (it is unsafe),
 * -EOPNOTSUPP (without NPU_CAP_IO_WINDOW, or not here), the device's state.
 */
int hal_window_open(void *ptr, size_t size, struct hal_window *w);
/* The opposite; of an empty one nothing. */
void hal_window_close(struct hal_window *w);

/*
 * [C-MEM-8] Copies from unsafe memory give -EHWPOISON. A copy or fill that covers the allocation
 * whole makes it safe, from its submission on, and so does this. ptr: the start of an allocation
 * of device memory. Return: 0, -EINVAL.
 */
int hal_mem_set_safe(void *ptr);

/**
 * hal_copy_check() - check a copy and resolve its direction
 * @c: the copy; kind is resolved, peer set. NPU_COPY_H2H stays when no side is device memory.
 *	Managed memory is the device's, but a kind may also say that it is the host's
 * @dst_dev: out: device of dst, NULL: host; no reference
 * @src_dev: out: the same of src
 * @op: for the error record
 *
 * Return: 0 (width or height 0: nothing to do, kind is NPU_COPY_H2H); 1: fine as well, and it makes
 * its destination safe; -EINVAL (NULL, pitch, overflow, a kind that the pointers contradict, a
 * range that leaves its allocation), -EACCES (it may not be read or written there), -EHWPOISON (the
 * source is unsafe).
 */
int hal_copy_check(struct hal_copy *c, struct hal_device **dst_dev, struct hal_device **src_dev,
		   const char *op);
/* Copy now; ordered with no stream. The context's device must be that of one side. */
int hal_mem_copy(struct hal_context *ctx, struct hal_copy *c);
int hal_mem_fill(struct hal_context *ctx, void *dst, int byte, size_t size);

#endif /* HAL_MEMORY_H */
