// SPDX-License-Identifier: MIT
/*
 * Virtual memory: reservations, memory without an address, mappings.
 */
#include "runtime/alloc.h"

_Static_assert(NPU_VM_READ == HAL_VM_READ && NPU_VM_WRITE == HAL_VM_WRITE, "the same flags");

/* The context that a device stands for, with a reference. */
static int context_of(int device, const char *op, struct hal_context **ctx)
{
	uint64_t h;
	int d, err;

	if (device == NPU_DEVICE_CURRENT)
		return rt_context_get_current(op, ctx);
	err = rt_device_arg(device, op, &d);
	if (!err)
		err = rt_device_primary(d, op, &h);
	if (err)
		return err;
	*ctx = hal_context_get(h, op);
	return *ctx ? 0 : hal_error_last()->code;
}

NPU_API int npu_vm_get_granularity(int device, size_t *granularity)
{
	static const char op[] = "vm_get_granularity";
	struct hal_context *ctx;
	int err;

	if (!granularity)
		return hal_fail(-EINVAL, op, "granularity is NULL");
	*granularity = 0;
	err = rt_enter(op);
	if (!err)
		err = context_of(device, op, &ctx);
	if (err)
		return err;
	if (hal_device_can(ctx->dev, NPU_CAP_VMM))
		*granularity = ctx->dev->info.mem_granularity;
	else
		err = hal_fail(-EOPNOTSUPP, op, "device %d has no virtual memory",
			       ctx->dev->ordinal);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_vm_reserve(int device, size_t size, size_t align, void *want, void **addr)
{
	static const char op[] = "vm_reserve";
	struct hal_context *ctx;
	int err;

	if (!addr)
		return hal_fail(-EINVAL, op, "addr is NULL");
	*addr = NULL;
	err = rt_enter(op);
	if (!err)
		err = context_of(device, op, &ctx);
	if (err)
		return err;
	err = hal_vm_reserve(ctx, size, align, want, addr);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_vm_release(void *addr)
{
	int err = rt_enter("vm_release");

	if (!err)
		err = rt_mem_refuse(addr, "vm_release");
	return err ? err : hal_vm_release(addr);
}

NPU_API int npu_vm_create(int device, size_t size, uint32_t flags, npu_vm_memory *memory)
{
	static const char op[] = "vm_create";
	struct hal_context *ctx;
	int err;

	err = rt_enter_handle(op, memory, "memory");
	if (!err)
		err = context_of(device, op, &ctx);
	if (err)
		return err;
	err = hal_vm_create(ctx, size, flags, &memory->h);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_vm_destroy(npu_vm_memory memory)
{
	int err = rt_enter("vm_destroy");

	return err ? err : hal_vm_destroy(memory.h);
}

NPU_API int npu_vm_map(void *addr, size_t size, npu_vm_memory memory, size_t offset,
		       uint32_t access)
{
	int err = rt_enter("vm_map");

	if (!err)
		err = rt_mem_refuse(addr, "vm_map");
	return err ? err : hal_vm_map(addr, size, memory.h, offset, access);
}

NPU_API int npu_vm_unmap(void *addr, size_t size)
{
	int err = rt_enter("vm_unmap");

	if (!err)
		err = rt_mem_refuse(addr, "vm_unmap");
	return err ? err : hal_vm_unmap(addr, size);
}

NPU_API int npu_vm_protect(void *addr, size_t size, uint32_t access)
{
	int err = rt_enter("vm_protect");

	if (!err)
		err = rt_mem_refuse(addr, "vm_protect");
	return err ? err : hal_vm_protect(addr, size, access);
}

NPU_API int npu_vm_export(npu_vm_memory memory, int *fd)
{
	static const char op[] = "vm_export";
	int err;

	if (!fd)
		return hal_fail(-EINVAL, op, "fd is NULL");
	*fd = -1;
	err = rt_enter(op);
	return err ? err : hal_vm_export(memory.h, fd);
}

NPU_API int npu_vm_import(int fd, int device, npu_vm_memory *memory, size_t *size)
{
	static const char op[] = "vm_import";
	struct hal_context *ctx;
	size_t bytes = 0;
	int err;

	if (size)
		*size = 0;
	err = rt_enter_handle(op, memory, "memory");
	if (!err)
		err = context_of(device, op, &ctx);
	if (err)
		return err;
	err = hal_vm_import(ctx, fd, &memory->h, &bytes);
	if (size)
		*size = bytes;
	hal_context_put(ctx);
	return err;
}
