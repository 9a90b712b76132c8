// SPDX-License-Identifier: MIT
/*
 * Contexts: the current one of a thread, and what the runtime keeps of each.
 */
#include <stdlib.h>

#include "runtime/internal.h"

/* The runtime's part of a context of a device, or NULL: it was destroyed. */
struct rt_context *rt_context_find_locked(int d, uint64_t handle)
{
	struct rt_device *dev = &rt_devices[d];
	struct hal_list *n;

	if (dev->main.handle == handle && handle)
		return &dev->main;
	hal_list_for_each(n, &dev->contexts) {
		struct rt_context *c = hal_list_entry(n, struct rt_context, node);

		if (c->handle == handle)
			return c;
	}
	return NULL;
}

/* Drops the runtime's parts of all contexts of a device. */
void rt_contexts_forget_locked(int d)
{
	struct rt_device *dev = &rt_devices[d];
	struct rt_context *c;

	while (!hal_list_empty(&dev->contexts)) {
		c = hal_list_entry(dev->contexts.next, struct rt_context, node);
		hal_list_del(&c->node);
		free(c);
	}
	dev->main.handle = 0;
	dev->main.stream = 0;
	dev->main.builtin = 0;
}

/* The thread's context, made if it is a primary one that is missing, and its device. */
int rt_context_current(const char *op, uint64_t *ctx, int *d)
{
	struct rt_thread *t = rt_thread(op);
	int err;

	if (!t)
		return -ENOMEM;
	err = rt_device_arg(rt_thread_device(t), op, d);
	if (err)
		return err;
	*ctx = t->device >= 0 ? t->context : 0;
	return *ctx ? 0 : rt_device_primary(*d, op, ctx);
}

/* The same with a reference. */
int rt_context_get_current(const char *op, struct hal_context **ctx)
{
	uint64_t h;
	int d, err;

	*ctx = NULL;
	err = rt_context_current(op, &h, &d);
	if (err)
		return err;
	*ctx = hal_context_get(h, op);
	return *ctx ? 0 : hal_error_last()->code;
}

NPU_API int npu_context_create(int device, npu_context *ctx)
{
	struct rt_context *c;
	int d, err;

	err = rt_enter_handle("context_create", ctx, "ctx");
	if (err)
		return err;
	err = rt_device_arg(device, "context_create", &d);
	if (err)
		return err;
	c = hal_zalloc(sizeof(*c));
	if (!c)
		return hal_fail(-ENOMEM, "context_create", "no memory");
	err = rt_device_lock(d, "context_create");
	if (err)
		goto free;
	err = rt_device_open_locked(d, "context_create");
	if (!err)
		err = hal_context_create(rt_devices[d].hal, &c->handle);
	if (!err)
		hal_list_add_tail(&rt_devices[d].contexts, &c->node);
	/* unlocked, it may end with its device at any moment */
	if (!err)
		ctx->h = c->handle;
	rt_device_unlock(d);
	if (err)
		goto free;
	return 0;
free:
	free(c);
	return err;
}

/* The device of a context handle. */
static int device_of(uint64_t h, const char *op, int *d)
{
	struct rt_thread *t = rt_thread(op);

	if (!t)
		return -ENOMEM;
	if (hal_handle_type(h) != HAL_HANDLE_CONTEXT)
		return hal_handle_error(HAL_HANDLE_CONTEXT, h, op);
	*d = rt_handle_device(t, h, op);
	return *d < 0 ? *d : 0;
}

/* Takes the runtime's part out after hal's is gone. */
static void drop(int d, uint64_t handle)
{
	struct rt_context *c;

	pthread_mutex_lock(&rt_devices[d].lock);
	c = rt_context_find_locked(d, handle);
	if (c && c != &rt_devices[d].main) {
		hal_list_del(&c->node);
		free(c);
	}
	pthread_mutex_unlock(&rt_devices[d].lock);
	atomic_fetch_add(&rt.epoch, 1);
}

NPU_API int npu_context_destroy(npu_context ctx, int64_t timeout_ms)
{
	int d, err;

	err = rt_enter("context_destroy");
	if (!err)
		err = rt_timeout_check(timeout_ms, "context_destroy");
	if (!err)
		err = device_of(ctx.h, "context_destroy", &d);
	if (err)
		return err;
	if (hal_load_acquire(&rt_devices[d].primary) == ctx.h)
		return hal_fail(-EBUSY, "context_destroy", "it is the primary context of device "
				"%d, which npu_device_reset() closes", d);
	err = hal_context_destroy(ctx.h, timeout_ms);
	if (!err)
		drop(d, ctx.h);
	return err;
}

NPU_API int npu_context_primary(int device, npu_context *ctx)
{
	int d, err;

	err = rt_enter_handle("context_primary", ctx, "ctx");
	if (err)
		return err;
	err = rt_device_arg(device, "context_primary", &d);
	if (err)
		return err;
	err = rt_device_primary(d, "context_primary", &ctx->h);
	if (err)
		ctx->h = 0;
	return err;
}

NPU_API int npu_context_set(npu_context ctx)
{
	struct rt_thread *t;
	int d, err;

	err = rt_enter("context_set");
	if (err)
		return err;
	t = rt_thread("context_set");
	if (!t)
		return -ENOMEM;
	if (!ctx.h) {
		t->context = 0;
		rt_thread_zero(t);
		return 0;
	}
	err = device_of(ctx.h, "context_set", &d);
	if (err)
		return err;
	rt_first_set(d);
	t->device = d;
	t->context = ctx.h == hal_load_acquire(&rt_devices[d].primary) ? 0 : ctx.h;
	t->dev[d].current = 0;
	rt_thread_zero(t);
	return 0;
}

NPU_API int npu_context_get(npu_context *ctx)
{
	struct rt_thread *t;

	if (!ctx)
		return hal_fail(-EINVAL, "context_get", "ctx is NULL");
	ctx->h = 0;
	t = rt_thread("context_get");
	if (!t)
		return -ENOMEM;
	ctx->h = t->device >= 0 && t->context ? t->context :
		 hal_load_acquire(&rt_devices[rt_thread_device(t)].primary);
	return 0;
}

NPU_API int npu_context_device(npu_context ctx, int *device)
{
	int d, err;

	if (!device)
		return hal_fail(-EINVAL, "context_device", "device is NULL");
	*device = NPU_DEVICE_CURRENT;
	err = rt_enter("context_device");
	if (err)
		return err;
	err = device_of(ctx.h, "context_device", &d);
	if (!err)
		*device = d;
	return err;
}

NPU_API int npu_context_sync(npu_context ctx, int64_t timeout_ms)
{
	struct hal_context *c;
	int d, err;

	err = rt_enter("context_sync");
	if (!err)
		err = rt_timeout_check(timeout_ms, "context_sync");
	if (!err)
		err = device_of(ctx.h, "context_sync", &d);
	if (err)
		return err;
	if (timeout_ms && hal_in_callback())
		return hal_fail(-EDEADLK, "context_sync", "a callback must not wait");
	c = hal_context_get(ctx.h, "context_sync");
	if (!c)
		return hal_error_last()->code;
	rt_sync_begin(NPU_SYNC_DEVICE, (uint64_t)d);
	err = hal_context_sync(c, timeout_ms, 0);
	rt_sync_end(NPU_SYNC_DEVICE, (uint64_t)d, err);
	hal_context_put(c);
	return err;
}
