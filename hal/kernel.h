/* SPDX-License-Identifier: MIT */
/*
 * Modules and kernels, as hal's users see them.
 */
#ifndef HAL_KERNEL_H
#define HAL_KERNEL_H

#include "hal/context.h"

/**
 * struct hal_module - a module; first member of the driver's
 * @ref: references; each kernel holds one
 * @ctx: its context, of which it holds a reference
 * @handle: its handle
 * @node: in the context's list
 * @lock: Protects: @kernels
 * @kernels: its kernels that were looked up
 */
struct hal_module {
	struct kref ref;
	struct hal_context *ctx;
	uint64_t handle;
	struct hal_list node;
	pthread_mutex_t lock;
	struct hal_list kernels;
};

/**
 * struct hal_kernel - a kernel
 * @module: its module; lives no longer than it
 * @handle: its handle
 * @node: in the module's list
 * @token: what the driver calls it
 * @name: its name
 */
struct hal_kernel {
	struct hal_module *module;
	uint64_t handle;
	struct hal_list node;
	uint64_t token;
	char name[];
};

int hal_module_load_builtin(struct hal_context *ctx, uint64_t *module);
int hal_module_load_file(struct hal_context *ctx, const char *path, uint64_t *module);
int hal_module_load_data(struct hal_context *ctx, const void *data, size_t size,
			 uint64_t *module);
/*
 * [C-KERNEL-4] The kernels' handles are stale at once; then it waits until the context's streams
 * have done what was submitted before, and unloads. -ETIMEDOUT: they did not in time; the module
 * stays loaded, and can be unloaded again. -EDEADLK: inside a callback.
 */
int hal_module_unload(uint64_t module, int64_t timeout_ms);
/* [C-KERNEL-5] The same name gives the same handle. Return: 0, -ESRCH, -EINVAL. */
int hal_kernel_get(uint64_t module, const char *name, uint64_t *kernel);
/* Device of a kernel, no reference; NULL with the thread's record filled. */
struct hal_device *hal_kernel_device(uint64_t kernel, const char *op);

#endif /* HAL_KERNEL_H */
