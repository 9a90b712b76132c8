// SPDX-License-Identifier: MIT
/*
 * Modules and kernels. The token of a kernel is what the device calls it.
 */
#include <limits.h>
#include <string.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"

static struct simnpu_mod *to_mod(struct hal_module *m)
{
	return container_of(m, struct simnpu_mod, base);
}

static int module_load(struct hal_module *m, uint32_t kind, const void *data, size_t size,
		       const char *what)
{
	struct simnpu_module arg = {
		.data = (uintptr_t)data,
		.size = size,
		.context = to_simnpu_ctx(m->ctx)->handle,
		.kind = kind,
	};
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MODULE_LOAD, &arg);
	/* a path that leads nowhere, whatever it is that ends it */
	if (kind == SIMNPU_MODULE_PATH && (size > PATH_MAX || err == -ENOTDIR || err == -ELOOP ||
					   err == -ENAMETOOLONG))
		err = -ENOENT;
	if (err)
		return hal_fail(err, "module_load", "%.96s: %s", what,
				err == -ENOENT ? "no such file" :
				err == -EACCES ? "no permission" :
				err == -ENOEXEC ? "not a module of the simulator" :
				err == -EPROTO ? "made for another version of the simulator" :
				"cannot be loaded");
	to_mod(m)->handle = arg.handle;
	return 0;
}

static int load_builtin(struct hal_module *m)
{
	return module_load(m, SIMNPU_MODULE_BUILTIN, NULL, 0, "built-in kernels");
}

static int load_file(struct hal_module *m, const char *path)
{
	return module_load(m, SIMNPU_MODULE_PATH, path, strlen(path) + 1, path);
}

static int load_data(struct hal_module *m, const void *data, size_t size)
{
	return module_load(m, SIMNPU_MODULE_IMAGE, data, size, "data");
}

static void module_unload(struct hal_module *m)
{
	struct simnpu_handle h = { .handle = to_mod(m)->handle };
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MODULE_UNLOAD, &h);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: module %u: unload: error %d",
			 m->ctx->dev->index, h.handle, -err);
}

static int kernel_get(struct hal_module *m, const char *name, uint64_t *token)
{
	struct simnpu_kernel k = {
		.name = (uintptr_t)name,
		.size = (uint32_t)strlen(name) + 1,
		.module = to_mod(m)->handle,
	};
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_KERNEL_GET, &k);
	if (err)
		return hal_fail(err, "kernel_get", "%.96s: %s", name,
				err == -ESRCH ? "the module has no such kernel" :
				err == -EINVAL ? "the name is too long" :
				"cannot be looked up");
	*token = k.kernel;
	return 0;
}

const struct hal_kernel_ops simnpu_kernel_ops = {
	.module_size = sizeof(struct simnpu_mod),
	.load_builtin = load_builtin,
	.load_file = load_file,
	.load_data = load_data,
	.unload = module_unload,
	.get = kernel_get,
};
