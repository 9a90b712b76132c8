/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: device addresses and device memory apart, and the one put at the other.
 *
 * A reservation is a range of device addresses with nothing behind them. Memory is made without an
 * address; mapped, it is device memory as any other, and one range with what is mapped beside it in
 * the same reservation and allows the same: copies, kernels and files may cross from one to the
 * next. So memory can grow in place, and be given back while its addresses stay.
 *
 * Sizes and addresses are multiples of the granularity of the device, and never 0. What is refused
 * changes nothing. A copy or npu_memset() of addresses where nothing is mapped gives -EINVAL, of
 * such as don't allow it -EACCES; other tasks fail with -EFAULT. All is in the context of the
 * device, or with NPU_DEVICE_CURRENT in the thread's, and goes with it. Devices without
 * NPU_CAP_VMM give -EOPNOTSUPP.
 */
#ifndef NPU_VMM_H
#define NPU_VMM_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What may be done at mapped addresses: 0 (nothing), NPU_VM_READ, or both. */
/** NPU_VM_READ - it may be read */
#define NPU_VM_READ (1u << 0)
/** NPU_VM_WRITE - it may be written; not without NPU_VM_READ */
#define NPU_VM_WRITE (1u << 1)

/**
 * npu_vm_get_granularity() - what sizes and addresses are multiples of
 * @device: the device, or NPU_DEVICE_CURRENT
 * @granularity: out: bytes, a power of two; 0 on failure
 *
 * Return: 0, -EINVAL (NULL), -ENODEV, -EOPNOTSUPP, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_get_granularity(int device, size_t *granularity);

/**
 * npu_vm_reserve() - reserve device addresses
 * @device: the device, or NPU_DEVICE_CURRENT
 * @size: bytes; may be more than the device has memory
 * @align: alignment of the first address, a power of two; 0: the granularity, which is the least
 * @want: the first address that is wanted; NULL: any
 * @addr: out: the first address; NULL on failure
 *
 * It costs no memory.
 * Return: 0, -EINVAL (NULL, size or alignment, @want is not aligned or no address of the device),
 * -EEXIST (some of what is wanted is taken), -ENOMEM (no such range is left), -ENODEV,
 * -EOPNOTSUPP, -ESTALE (the context is being destroyed), -EIO (the device has a fault), -ECHILD,
 * -ESHUTDOWN (also of a stopped device), -ENOTCONN.
 */
NPU_API int npu_vm_reserve(int device, size_t size, size_t align, void *want, void **addr);

/**
 * npu_vm_release() - give reserved addresses back
 * @addr: from npu_vm_reserve()
 *
 * Return: 0, -EINVAL (not the start of a reservation, or released already), -EBUSY (something is
 * mapped there), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_release(void *addr);

/**
 * npu_vm_create() - make device memory without an address
 * @device: the device, or NPU_DEVICE_CURRENT
 * @size: bytes
 * @flags: NPU_MEM_*, or 0
 * @memory: out: the memory, not initialised; 0 on failure
 *
 * It is real when it is returned, and counts as used.
 * Return: 0, -EINVAL (NULL, size, unknown flags), -ENOMEM, -ENOSPC (no more handles), -ENODEV,
 * -EOPNOTSUPP, -ESTALE (the context is being destroyed), -EIO, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_create(int device, size_t size, uint32_t flags, npu_vm_memory *memory);

/**
 * npu_vm_destroy() - let memory go
 * @memory: from npu_vm_create() or npu_vm_import()
 *
 * Where it is mapped it stays, and goes when it is unmapped.
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE (destroyed already), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_destroy(npu_vm_memory memory);

/**
 * npu_vm_map() - put memory at reserved addresses
 * @addr: the first address
 * @size: bytes of the memory, all of it
 * @memory: the memory; it is mapped nowhere else
 * @offset: 0
 * @access: NPU_VM_READ | NPU_VM_WRITE, NPU_VM_READ, or 0
 *
 * What is in the memory stays, wherever it is mapped.
 * Return: 0, -EINVAL (not all of the memory, not within one reservation, unknown access), -EXDEV
 * (the reservation is of another context), -EEXIST (something is mapped there), -EBUSY (the memory
 * is mapped), -ENOMEM, -EBADF, -ESTALE, -ENODEV, -EIO, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_map(void *addr, size_t size, npu_vm_memory memory, size_t offset,
		       uint32_t access);

/**
 * npu_vm_unmap() - take memory away from its addresses
 * @addr: where it is mapped
 * @size: bytes of it, and of the mappings that follow without a gap
 *
 * At once and without waiting, as npu_free(): wait for the tasks that use it first. The addresses
 * stay reserved. Memory that was destroyed goes, and nothing can be in the way of that.
 * Return: 0, -EINVAL (not a number of whole mappings in one reservation), -ENOMEM (the host has no
 * maps left to keep the memory elsewhere: it stays mapped, as do those behind it), -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_unmap(void *addr, size_t size);

/**
 * npu_vm_protect() - change what may be done at mapped addresses
 * @addr: where memory is mapped
 * @size: bytes of it, and of the mappings that follow without a gap
 * @access: NPU_VM_READ | NPU_VM_WRITE, NPU_VM_READ, or 0
 *
 * It holds for tasks that begin afterwards.
 * Return: 0, -EINVAL (not a number of whole mappings in one reservation, unknown access), -ENODEV,
 * -EIO, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_protect(void *addr, size_t size, uint32_t access);

/**
 * npu_vm_export() - make a descriptor that stands for memory
 * @memory: the memory
 * @fd: out: the descriptor, close-on-exec, the caller's; -1 on failure
 *
 * To be given to another process of the instance (SCM_RIGHTS). The memory lives as long as it, or
 * what was imported from it.
 * Return: 0, -EINVAL (NULL, or 0), -EBADF, -ESTALE, -EMFILE, -ENODEV, -EOPNOTSUPP (without
 * NPU_CAP_IPC_FD), -EIO, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_export(npu_vm_memory memory, int *fd);

/**
 * npu_vm_import() - the memory that a descriptor stands for
 * @fd: from npu_vm_export(), of this or another process; it stays the caller's
 * @device: the device, or NPU_DEVICE_CURRENT
 * @memory: out: the memory, to be mapped; 0 on failure
 * @size: out: its bytes; NULL is fine
 *
 * What is written through one is read through the other.
 * Return: 0, -EINVAL (NULL, or no such descriptor), -ENOMEM, -ENOSPC, -ENODEV, -EOPNOTSUPP (without
 * NPU_CAP_IPC_FD), -ESTALE (the context is being destroyed), -EIO, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_vm_import(int fd, int device, npu_vm_memory *memory, size_t *size);

#ifdef __cplusplus
}
#endif

#endif /* NPU_VMM_H */
