/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory, as hal's users see it: device addresses and device memory
 * apart, and the one put at the other. All needs NPU_CAP_VMM.
 *
 * A reservation is a range of addresses, with nothing behind them. Memory is
 * made without an address; mapped, it is device memory as any other. Sizes and
 * addresses are multiples of hal_device_info.mem_granularity, and never 0: what
 * is not gives -EINVAL. [C-VMM-1] What is refused changes nothing.
 *
 * [C-VMM-2] Mappings that lie side by side in one reservation and allow the same
 * are one range: copies, fills, kernels and windows may cross from one to the
 * next. To hal_pointer_info() and for what uncorrectable errors do, each is an
 * allocation of its own; to hal_mem_free() it is none.
 *
 * [C-VMM-3] What is not mapped, or not allowed there, can't be reached: a copy or
 * fill that says so in its arguments is refused with -EINVAL or -EACCES, a task
 * fails with -EFAULT, and no byte beyond changes.
 *
 * [C-VMM-4] Unmapping, releasing and destroying work whatever the state of the
 * device. A context that is destroyed takes its reservations and memory along, mapped
 * or not; a restart leaves all as it is.
 */
#ifndef HAL_VMM_H
#define HAL_VMM_H

#include "hal/memory.h"

/* What may be done at mapped addresses: these, or 0: nothing. Writing alone there is not. */
#define HAL_VM_READ (1u << 0)
#define HAL_VM_WRITE (1u << 1)
#define HAL_VM_RW (HAL_VM_READ | HAL_VM_WRITE)

/**
 * hal_vm_reserve() - reserve device addresses
 * @ctx: the context
 * @size: bytes
 * @align: alignment of the first address, a power of two; 0: the granularity, which is the least
 * @want: the first address; NULL: any
 * @addr: out: the first address; NULL on failure
 *
 * [C-VMM-5] It costs no memory: nothing is charged, no page is touched. [C-VMM-6] The addresses are
 * the device's, aligned, and nothing else's until they are released.
 * Return: 0, -EINVAL (size, alignment, or @want, which is not aligned or not the device's), -EEXIST
 * (some of what is wanted is taken), -ENOMEM (no such range is left), -EOPNOTSUPP, -ESTALE (the
 * context is going), the device's state.
 */
int hal_vm_reserve(struct hal_context *ctx, size_t size, size_t align, void *want, void **addr);

/**
 * hal_vm_release() - give reserved addresses back
 * @addr: the first of a reservation
 *
 * Return: 0, -EINVAL (it is not), -EBUSY (something is mapped there).
 */
int hal_vm_release(void *addr);

/**
 * hal_vm_create() - make device memory without an address
 * @ctx: the context
 * @size: bytes
 * @flags: HAL_MEM_*
 * @memory: out: its handle; 0 on failure
 *
 * [C-VMM-7] It is real and charged when it is returned. What is in it is not defined.
 * Return: 0, -EINVAL, -ENOMEM, -ENOSPC (no more handles), -EOPNOTSUPP, -ESTALE (the context is
 * going), the device's state.
 */
int hal_vm_create(struct hal_context *ctx, size_t size, uint32_t flags, uint64_t *memory);

/**
 * hal_vm_destroy() - let memory go
 * @memory: its handle
 *
 * [C-VMM-8] Where it is mapped it stays, and is given back when it is unmapped.
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE.
 */
int hal_vm_destroy(uint64_t memory);

/**
 * hal_vm_map() - put memory at reserved addresses
 * @addr: the first address, in a reservation of the memory's context
 * @size: bytes of the memory, all of it
 * @memory: its handle
 * @offset: 0
 * @access: 0, HAL_VM_READ or HAL_VM_RW
 *
 * [C-VMM-9] Memory is in one place at a time, and keeps what is in it when it moves.
 * Return: 0, -EINVAL (not all of the memory, not within one reservation, unknown access), -EXDEV
 * (of another context), -EEXIST (something is mapped there), -EBUSY (the memory is mapped),
 * -ENOMEM, -EBADF, -ESTALE, the device's state.
 */
int hal_vm_map(void *addr, size_t size, uint64_t memory, size_t offset, uint32_t access);

/**
 * hal_vm_unmap() - take memory away from its addresses
 * @addr: where a mapping begins
 * @size: bytes of it, and of those that follow without a gap
 *
 * At once and without waiting, as hal_mem_free(): a task that still uses it fails or reads
 * zeroes. The addresses stay reserved. Memory that was destroyed goes, and nothing can be in the
 * way of that.
 * Return: 0, -EINVAL (not a number of whole mappings, side by side, of one reservation), -ENOMEM
 * (the host has no maps left to keep the memory elsewhere: it stays mapped, as do those behind it).
 */
int hal_vm_unmap(void *addr, size_t size);

/**
 * hal_vm_protect() - change what may be done at mapped addresses
 * @addr: where a mapping begins
 * @size: bytes of it, and of those that follow without a gap
 * @access: 0, HAL_VM_READ or HAL_VM_RW
 *
 * [C-VMM-10] It holds for what begins afterwards; a task under way may go on.
 * Return: 0, -EINVAL (as hal_vm_unmap(), unknown access), the device's state.
 */
int hal_vm_protect(void *addr, size_t size, uint32_t access);

/**
 * hal_vm_export() - make a descriptor that stands for memory
 * @memory: its handle
 * @fd: out: the descriptor, close-on-exec, the caller's; -1 on failure
 *
 * [C-VMM-11] The memory lives as long as the descriptor, or what was imported from it. Only with
 * NPU_CAP_IPC_FD.
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EMFILE, -EOPNOTSUPP, the device's state.
 */
int hal_vm_export(uint64_t memory, int *fd);

/**
 * hal_vm_import() - the memory that a descriptor stands for
 * @ctx: the context that it shall be mapped in
 * @fd: from hal_vm_export(), of this or another process; stays the caller's
 * @memory: out: its handle here; 0 on failure
 * @size: out: its bytes
 *
 * [C-VMM-12] What is written through one is read through the other.
 * Return: 0, -EINVAL (no such descriptor), -ENOMEM, -ENOSPC, -EOPNOTSUPP, -ESTALE, the device's
 * state.
 */
int hal_vm_import(struct hal_context *ctx, int fd, uint64_t *memory, size_t *size);

#endif /* HAL_VMM_H */
