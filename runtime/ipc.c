// SPDX-License-Identifier: MIT
/*
 * Memory and events that processes share.
 */
#include "hal/ipc.h"
#include "npu/ipc.h"
#include "runtime/internal.h"

_Static_assert(NPU_IPC_KEY_SIZE == HAL_IPC_KEY_SIZE, "the same size");
_Static_assert(NPU_IPC_ANY == HAL_IPC_ANY, "the same flags");

NPU_API int npu_ipc_export(void *ptr, uint32_t flags, char *key)
{
	int err;

	if (!key)
		return hal_fail(-EINVAL, "ipc_export", "key is NULL");
	key[0] = 0;
	err = rt_enter("ipc_export");
	if (err)
		return err;
	if (!ptr)
		return hal_fail(-EINVAL, "ipc_export", "ptr is NULL");
	return hal_ipc_export(ptr, flags, key);
}

NPU_API int npu_ipc_allow(void *ptr, const int32_t *pids, size_t count)
{
	int err = rt_enter("ipc_allow");

	if (err)
		return err;
	if (!ptr || !pids || !count)
		return hal_fail(-EINVAL, "ipc_allow", "ptr or pids is NULL, or count is 0");
	return hal_ipc_allow(ptr, pids, count);
}

/* The context that memory of a device is for: the current one, or the device's primary one. */
static int context_of(int device, const char *op, struct hal_context **ctx)
{
	uint64_t h;
	int d, err;

	if (device == -1)
		return rt_context_get_current(op, ctx);
	err = rt_device_arg(device, op, &d);
	if (!err)
		err = rt_device_primary(d, op, &h);
	if (err)
		return err;
	*ctx = hal_context_get(h, op);
	return *ctx ? 0 : hal_error_last()->code;
}

NPU_API int npu_ipc_import(const char *key, int device, void **ptr)
{
	struct hal_context *ctx;
	int err;

	if (!ptr)
		return hal_fail(-EINVAL, "ipc_import", "ptr is NULL");
	*ptr = NULL;
	err = rt_enter("ipc_import");
	if (err)
		return err;
	if (!key)
		return hal_fail(-EINVAL, "ipc_import", "key is NULL");
	err = context_of(device, "ipc_import", &ctx);
	if (err)
		return err;
	err = hal_ipc_import(ctx, key, ptr);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_ipc_export_event(npu_event event, uint32_t flags, char *key)
{
	static const char op[] = "ipc_export_event";
	struct hal_context *ctx;
	int err;

	if (!key)
		return hal_fail(-EINVAL, op, "key is NULL");
	key[0] = 0;
	err = rt_enter(op);
	if (!err)
		err = rt_context_get_current(op, &ctx);
	if (err)
		return err;
	err = hal_ipc_export_event(ctx, event.h, flags, key);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_ipc_export_event_fd(npu_event event, int *fd)
{
	static const char op[] = "ipc_export_event_fd";
	struct hal_context *ctx;
	int err;

	if (!fd)
		return hal_fail(-EINVAL, op, "fd is NULL");
	*fd = -1;
	err = rt_enter(op);
	if (!err)
		err = rt_context_get_current(op, &ctx);
	if (err)
		return err;
	err = hal_ipc_export_event_fd(ctx, event.h, fd);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_ipc_allow_event(npu_event event, const int32_t *pids, size_t count)
{
	int err = rt_enter("ipc_allow_event");

	if (err)
		return err;
	if (!pids || !count)
		return hal_fail(-EINVAL, "ipc_allow_event", "pids is NULL, or count is 0");
	return hal_ipc_allow_event(event.h, pids, count);
}

/* By a key, or if that is NULL by a descriptor. */
static int import_event(const char *key, int fd, int device, npu_event *event, const char *op)
{
	uint32_t life = hal_load_relaxed(&rt.life);
	struct hal_context *ctx;
	int err;

	err = context_of(device, op, &ctx);
	if (err)
		return err;
	err = key ? hal_ipc_import_event(ctx, key, &event->h) :
	      hal_ipc_import_event_fd(ctx, fd, &event->h);
	hal_context_put(ctx);
	return err ? err : rt_event_made(life, event, op);
}

NPU_API int npu_ipc_import_event(const char *key, int device, npu_event *event)
{
	static const char op[] = "ipc_import_event";
	int err = rt_enter_handle(op, event, "event");

	if (err)
		return err;
	if (!key)
		return hal_fail(-EINVAL, op, "key is NULL");
	return import_event(key, -1, device, event, op);
}

NPU_API int npu_ipc_import_event_fd(int fd, int device, npu_event *event)
{
	static const char op[] = "ipc_import_event_fd";
	int err = rt_enter_handle(op, event, "event");

	return err ? err : import_event(NULL, fd, device, event, op);
}

NPU_API int npu_ipc_close(void *ptr)
{
	int err = rt_enter("ipc_close");

	return err ? err : hal_ipc_close(ptr);
}
