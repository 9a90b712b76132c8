// SPDX-License-Identifier: MIT
/*
 * Streams: making them, the default and the secondary one, and the thread's
 * current ones.
 */
#include <string.h>

#include "runtime/file.h"

/* ---- making ------------------------------------------------------------------------ */

/* Priorities 0 to 7 fall in order on those that the device has. */
static uint32_t map_priority(const struct hal_device *dev, int priority)
{
	uint32_t n = dev->info.priorities;

	return n > 1 ? (uint32_t)priority * n / RT_PRIORITIES : 0;
}

/* Makes a stream in a context. */
int rt_stream_make(uint64_t ctx, const struct npu_stream_attr *attr, enum npu_stream_kind kind,
		   const char *op, uint64_t *stream)
{
	struct hal_stream_attr a = {
		.flags = attr->flags,
		.fail_mode = (enum npu_fail_mode)attr->fail_mode,
		.wait_mode = (enum npu_wait_mode)attr->wait_mode,
		.kind = RT_KIND(kind, attr->priority),
	};
	struct hal_context *c;
	int err;

	*stream = 0;
	c = hal_context_get(ctx, op);
	if (!c)
		return hal_error_last()->code;
	a.priority = map_priority(c->dev, attr->priority);
	if (a.wait_mode == NPU_WAIT_AUTO)
		a.wait_mode = (enum npu_wait_mode)hal_load_relaxed(&rt.wait_mode);
	err = hal_stream_create(c, &a, stream);
	hal_context_put(c);
	return err;
}

/* Takes what the caller knows of the structure; what we don't know must be 0. */
static int read_attr(const struct npu_stream_attr *attr, struct npu_stream_attr *a)
{
	static const struct npu_stream_attr init = NPU_STREAM_ATTR_INIT;
	int err;

	*a = init;
	if (!attr)
		return 0;
	err = rt_copy_in(a, sizeof(*a), attr, "stream_create");
	if (err)
		return err;
	if (a->flags & ~NPU_STREAM_NONBLOCK)
		return hal_fail(-EINVAL, "stream_create", "unknown flags 0x%x", a->flags);
	if (a->fail_mode != NPU_FAIL_CONTINUE && a->fail_mode != NPU_FAIL_STOP)
		return hal_fail(-EINVAL, "stream_create", "fail_mode %d", a->fail_mode);
	if (a->wait_mode < NPU_WAIT_AUTO || a->wait_mode > NPU_WAIT_BLOCK)
		return hal_fail(-EINVAL, "stream_create", "wait_mode %d", a->wait_mode);
	if (a->pad)
		return hal_fail(-EINVAL, "stream_create", "attr.pad is not 0");
	return rt_priority_check(a->priority, "stream_create");
}

NPU_API int npu_stream_create(const struct npu_stream_attr *attr, npu_stream *stream)
{
	struct npu_stream_attr a;
	uint64_t ctx;
	int d, err;

	err = rt_enter_handle("stream_create", stream, "stream");
	if (err)
		return err;
	err = read_attr(attr, &a);
	if (err)
		return err;
	if (a.device == NPU_DEVICE_CURRENT) {
		err = rt_context_current("stream_create", &ctx, &d);
	} else {
		err = rt_device_arg(a.device, "stream_create", &d);
		if (!err)
			err = rt_device_primary(d, "stream_create", &ctx);
	}
	if (err)
		return err;
	return rt_stream_make(ctx, &a, NPU_STREAM_KIND_OWN, "stream_create", &stream->h);
}

NPU_API int npu_stream_destroy(npu_stream stream, int64_t timeout_ms)
{
	struct hal_stream *s;
	uint32_t kind;
	int err;

	err = rt_enter("stream_destroy");
	if (!err)
		err = rt_timeout_check(timeout_ms, "stream_destroy");
	if (err)
		return err;
	s = hal_stream_get(stream.h, "stream_destroy");
	if (!s)
		return hal_error_last()->code;
	kind = s->kind & 0xff;
	hal_stream_put(s);
	if (kind != NPU_STREAM_KIND_OWN)
		return hal_hint(hal_fail(-EBUSY, "stream_destroy", "the stream is a default one, "
					 "or belongs to a pool"),
				"npu_stream_release() gives a leased one back; the others go with "
				"their device or context.");
	return hal_stream_destroy(stream.h, timeout_ms);
}

/* ---- default and secondary streams ------------------------------------------------------ */

/* The default stream of a context, made at first need. */
int rt_stream_home_locked(int d, struct rt_context *c, const char *op, uint64_t *stream)
{
	static const struct npu_stream_attr init = NPU_STREAM_ATTR_INIT;
	int err = 0;

	(void)d;
	if (!c->stream)
		err = rt_stream_make(c->handle, &init, NPU_STREAM_KIND_DEFAULT, op, &c->stream);
	*stream = c->stream;
	return err;
}

/* The same for a context of a device, 0: the primary one; the device is opened. */
int rt_stream_home(int d, uint64_t ctx, const char *op, uint64_t *stream)
{
	struct rt_context *c;
	int err;

	*stream = 0;
	err = rt_device_arg(d, op, &d);
	if (!err)
		err = rt_device_lock(d, op);
	if (err)
		return err;
	err = rt_device_open_locked(d, op);
	if (!err) {
		c = ctx ? rt_context_find_locked(d, ctx) : &rt_devices[d].main;
		if (c)
			err = rt_stream_home_locked(d, c, op, stream);
		else
			err = hal_handle_error(HAL_HANDLE_CONTEXT, ctx, op);
	}
	rt_device_unlock(d);
	return err;
}

NPU_API int npu_stream_default(int device, npu_stream *stream)
{
	int d, err;

	err = rt_enter_handle("stream_default", stream, "stream");
	if (err)
		return err;
	err = rt_device_arg(device, "stream_default", &d);
	return err ? err : rt_stream_home(d, 0, "stream_default", &stream->h);
}

/* The secondary stream of a device, which is opened. */
int rt_stream_second(int d, const char *op, uint64_t *stream)
{
	static const struct npu_stream_attr init = NPU_STREAM_ATTR_INIT;
	struct rt_device *dev = &rt_devices[d];
	int err;

	err = rt_device_lock(d, op);
	if (err)
		return err;
	err = rt_device_open_locked(d, op);
	if (!err && !dev->secondary)
		err = rt_stream_make(dev->main.handle, &init, NPU_STREAM_KIND_SECONDARY, op,
				     &dev->secondary);
	*stream = dev->secondary;
	rt_device_unlock(d);
	return err;
}

NPU_API int npu_stream_secondary(int device, npu_stream *stream)
{
	int d, err;

	err = rt_enter_handle("stream_secondary", stream, "stream");
	if (err)
		return err;
	err = rt_device_arg(device, "stream_secondary", &d);
	return err ? err : rt_stream_second(d, "stream_secondary", &stream->h);
}

/* ---- current streams ---------------------------------------------------------------------- */

NPU_API int npu_stream_current(int device, npu_stream *stream)
{
	struct rt_thread *t;
	int d, err;

	err = rt_enter_handle("stream_current", stream, "stream");
	if (err)
		return err;
	t = rt_thread("stream_current");
	if (!t)
		return -ENOMEM;
	err = rt_device_arg(device, "stream_current", &d);
	if (err)
		return err;
	if (d == rt_thread_device(t))
		return rt_stream(NPU_STREAM_CURRENT, -1, "stream_current", &stream->h);
	if (t->dev[d].current) {
		stream->h = t->dev[d].current;
		return 0;
	}
	return rt_stream_home(d, 0, "stream_current", &stream->h);
}

NPU_API int npu_stream_set_current(npu_stream stream)
{
	struct rt_thread *t;
	int d, err;

	err = rt_enter("stream_set_current");
	if (unlikely(err))
		return err;
	t = rt_thread("stream_set_current");
	if (unlikely(!t))
		return -ENOMEM;
	if (!stream.h) {
		t->dev[rt_thread_device(t)].current = 0;
		rt_thread_zero(t);
		return 0;
	}
	if (unlikely(hal_handle_type(stream.h) != HAL_HANDLE_STREAM))
		return hal_handle_error(HAL_HANDLE_STREAM, stream.h, "stream_set_current");
	d = rt_handle_device(t, stream.h, "stream_set_current");
	if (unlikely(d < 0))
		return d;
	rt_first_set(d);
	if (t->device != d)
		t->context = 0;
	t->device = d;
	t->dev[d].current = stream.h;
	t->zero = stream.h;
	return 0;
}

/* ---- waiting and asking --------------------------------------------------------------------- */

NPU_API int npu_stream_query(npu_stream stream)
{
	uint64_t h;
	int err;

	err = rt_enter("stream_query");
	if (likely(!err))
		err = rt_stream(stream, -1, "stream_query", &h);
	return unlikely(err) ? err : hal_stream_query(h);
}

static int sync_told(uint64_t h, int64_t timeout_ms)
{
	int err;

	rt_sync_begin(NPU_SYNC_STREAM, h);
	err = hal_stream_sync(h, timeout_ms, 0);
	rt_sync_end(NPU_SYNC_STREAM, h, err);
	return err;
}

NPU_API int npu_stream_sync(npu_stream stream, int64_t timeout_ms)
{
	uint64_t h;
	int err;

	err = rt_enter("stream_sync");
	if (likely(!err))
		err = rt_timeout_check(timeout_ms, "stream_sync");
	if (likely(!err))
		err = rt_stream(stream, -1, "stream_sync", &h);
	if (unlikely(err))
		return err;
	/* relaxed: whoever is told of waits must only be seen when it is followed */
	if (unlikely(hal_load_relaxed(&rt.sync_hook)))
		return sync_told(h, timeout_ms);
	return hal_stream_sync(h, timeout_ms, 0);
}

NPU_API int npu_stream_abort(npu_stream stream, int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms), h;
	int err;

	err = rt_enter("stream_abort");
	if (!err)
		err = rt_timeout_check(timeout_ms, "stream_abort");
	if (!err)
		err = rt_stream(stream, -1, "stream_abort", &h);
	if (!err)
		err = hal_stream_abort(h, timeout_ms);
	return err ? err : rt_io_settle(h, -1, deadline);
}

NPU_API int npu_stream_set_wait_mode(npu_stream stream, enum npu_wait_mode mode)
{
	struct hal_stream *s;
	uint64_t h;
	int err;

	err = rt_enter("stream_set_wait_mode");
	if (err)
		return err;
	if ((int)mode < NPU_WAIT_AUTO || (int)mode > NPU_WAIT_BLOCK)
		return hal_fail(-EINVAL, "stream_set_wait_mode", "wait mode %d", (int)mode);
	err = rt_stream(stream, -1, "stream_set_wait_mode", &h);
	if (err)
		return err;
	s = hal_stream_get(h, "stream_set_wait_mode");
	if (!s)
		return hal_error_last()->code;
	/* relaxed: the mode carries no other data */
	hal_store_relaxed(&s->wait_mode, (uint32_t)mode);
	hal_stream_put(s);
	return 0;
}

NPU_API int npu_stream_fd(npu_stream stream, int *fd)
{
	struct hal_point p;
	uint64_t h;
	int err;

	if (!fd)
		return hal_fail(-EINVAL, "stream_fd", "fd is NULL");
	*fd = -1;
	err = rt_enter("stream_fd");
	if (err)
		return err;
	err = rt_stream(stream, -1, "stream_fd", &h);
	if (!err)
		err = hal_stream_point(h, &p, "stream_fd");
	return err ? err : rt_point_fd(&p, "stream_fd", fd);
}

NPU_API int npu_stream_get_info(npu_stream stream, struct npu_stream_info *info)
{
	struct npu_stream_info out = { 0 };
	struct hal_stream *s;
	uint64_t h;
	int err;

	err = rt_enter("stream_get_info");
	if (err)
		return err;
	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, "stream_get_info", "info is NULL, or its size is not set");
	err = rt_stream(stream, -1, "stream_get_info", &h);
	if (!err)
		err = hal_stream_progress(h, &out.submitted, &out.completed);
	if (err)
		return err;
	s = hal_stream_get(h, "stream_get_info");
	if (!s)
		return hal_error_last()->code;
	out.size = info->size;
	out.context.h = s->ctx->handle;
	out.device = rt_device_of(s->ctx->dev);
	out.priority = (int)(s->kind >> 8);
	out.flags = s->flags;
	out.kind = (int)(s->kind & 0xff);
	out.fail_mode = (int)s->fail_mode;
	out.wait_mode = (int)hal_load_relaxed(&s->wait_mode);
	hal_stream_put(s);
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
}

/* ---- ordering, callbacks ------------------------------------------------------------------- */

NPU_API int npu_stream_wait_event(npu_stream stream, npu_event event)
{
	uint64_t h;
	int err;

	err = rt_enter("stream_wait_event");
	if (likely(!err))
		err = rt_stream(stream, -1, "stream_wait_event", &h);
	return unlikely(err) ? err : hal_stream_wait_event(h, event.h, RT_PLACE);
}

NPU_API int npu_stream_wait_stream(npu_stream stream, npu_stream other)
{
	struct hal_point p;
	uint64_t h, o;
	int err;

	err = rt_enter("stream_wait_stream");
	if (likely(!err))
		err = rt_stream(stream, -1, "stream_wait_stream", &h);
	if (likely(!err))
		err = rt_stream(other, -1, "stream_wait_stream", &o);
	if (likely(!err))
		err = hal_stream_point(o, &p, "stream_wait_stream");
	return unlikely(err) ? err : hal_stream_wait_point(h, &p, RT_PLACE);
}

NPU_API int npu_stream_callback(npu_stream stream, void (*fn)(void *arg), void *arg,
				uint32_t flags)
{
	uint64_t h;
	int err;

	err = rt_enter("stream_callback");
	if (err)
		return err;
	if (!fn)
		return hal_fail(-EINVAL, "stream_callback", "the function is NULL");
	if (flags & ~NPU_CALLBACK_NOBLOCK)
		return hal_fail(-EINVAL, "stream_callback", "unknown flags 0x%x", flags);
	err = rt_stream(stream, -1, "stream_callback", &h);
	return err ? err : hal_stream_callback(h, fn, arg, flags, RT_PLACE);
}

NPU_API int npu_stream_import(int device, void *native, npu_stream *stream)
{
	int d, err;

	err = rt_enter_handle("stream_import", stream, "stream");
	if (err)
		return err;
	if (!native)
		return hal_fail(-EINVAL, "stream_import", "native is NULL");
	err = rt_device_arg(device, "stream_import", &d);
	if (err)
		return err;
	return hal_fail(-EOPNOTSUPP, "stream_import", "driver %s has no streams of a vendor",
			rt.visible.drv->name);
}
