// SPDX-License-Identifier: MIT
/*
 * Modules and kernels.
 */
#include "runtime/internal.h"

NPU_API int npu_module_load(const char *path, npu_module *module)
{
	struct hal_context *ctx;
	int err;

	err = rt_enter_handle("module_load", module, "module");
	if (err)
		return err;
	if (!path)
		return hal_fail(-EINVAL, "module_load", "path is NULL");
	err = rt_context_get_current("module_load", &ctx);
	if (err)
		return err;
	err = hal_module_load_file(ctx, path, &module->h);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_module_load_data(const void *data, size_t size, npu_module *module)
{
	struct hal_context *ctx;
	int err;

	err = rt_enter_handle("module_load_data", module, "module");
	if (err)
		return err;
	if (!data || !size)
		return hal_fail(-EINVAL, "module_load_data", "data is NULL, or size is 0");
	err = rt_context_get_current("module_load_data", &ctx);
	if (err)
		return err;
	err = hal_module_load_data(ctx, data, size, &module->h);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_module_unload(npu_module module, int64_t timeout_ms)
{
	int err;

	err = rt_enter("module_unload");
	if (!err)
		err = rt_timeout_check(timeout_ms, "module_unload");
	return err ? err : hal_module_unload(module.h, timeout_ms);
}

/* Whether the module was not unloaded by its handle, which nobody should know. */
static bool alive(uint64_t module)
{
	const struct hal_slot *slot = hal_slot_at(HAL_HANDLE_MODULE, module);

	return slot && hal_slot_is(slot, module);
}

/* The built-in module of the current context, opened at first need. */
static int builtin(uint64_t *module)
{
	struct hal_context *ctx;
	struct rt_context *c;
	uint64_t h;
	int d, err;

	err = rt_context_current("kernel_get", &h, &d);
	if (!err)
		err = rt_device_lock(d, "kernel_get");
	if (err)
		return err;
	c = rt_context_find_locked(d, h);
	ctx = c ? hal_context_get(h, "kernel_get") : NULL;
	if (!ctx)
		err = hal_handle_error(HAL_HANDLE_CONTEXT, h, "kernel_get");
	else if (!c->builtin || !alive(c->builtin))
		err = hal_module_load_builtin(ctx, &c->builtin);
	if (!err)
		*module = c->builtin;
	hal_context_put(ctx);
	rt_device_unlock(d);
	return err;
}

NPU_API int npu_kernel_get(npu_module module, const char *name, npu_kernel *kernel)
{
	int err;

	err = rt_enter_handle("kernel_get", kernel, "kernel");
	if (err)
		return err;
	if (!name)
		return hal_fail(-EINVAL, "kernel_get", "name is NULL");
	if (!module.h)
		err = builtin(&module.h);
	return err ? err : hal_kernel_get(module.h, name, &kernel->h);
}

/* Stream 0: of the kernel's device if the thread has set none. */
static int stream_for(npu_kernel kernel, uint64_t *h)
{
	struct rt_thread *t = rt_thread("launch");
	int d = -1;

	if (unlikely(!t))
		return -ENOMEM;
	if (t->device < 0) {
		if (hal_handle_type(kernel.h) != HAL_HANDLE_KERNEL)
			return hal_handle_error(HAL_HANDLE_KERNEL, kernel.h, "launch");
		d = rt_handle_device(t, kernel.h, "launch");
		if (unlikely(d < 0))
			return d;
	}
	return rt_stream(NPU_STREAM_CURRENT, d, "launch", h);
}

NPU_API int npu_launch(npu_kernel kernel, uint32_t blocks, const void *args, size_t size,
		       npu_stream stream)
{
	uint64_t h = stream.h;
	int err;

	err = rt_enter("launch");
	if (likely(!err) && unlikely(!h))
		err = stream_for(kernel, &h);
	if (unlikely(err))
		return err;
	return hal_stream_launch(h, kernel.h, blocks, args, size, RT_PLACE);
}
