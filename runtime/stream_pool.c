// SPDX-License-Identifier: MIT
/*
 * Pools of streams: shared ones in turn, and ones that are leased to one caller
 * at a time.
 */
#include <stdlib.h>

#include "runtime/internal.h"

int rt_priority_check(int priority, const char *op)
{
	if (likely(priority >= NPU_PRIORITY_HIGHEST && priority <= NPU_PRIORITY_LOWEST))
		return 0;
	return hal_fail(-EINVAL, op, "priority %d is not %d to %d", priority,
			NPU_PRIORITY_HIGHEST, NPU_PRIORITY_LOWEST);
}

static struct npu_stream_attr attr_of(int priority)
{
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;

	a.priority = priority;
	return a;
}

/* ---- shared --------------------------------------------------------------------------- */

/* The i-th shared stream of a priority, made if it is missing; the device is opened. */
int rt_pool_stream(int d, int priority, uint32_t i, const char *op, uint64_t *stream)
{
	struct rt_pool *pool = &rt_devices[d].pool[priority];
	struct npu_stream_attr a = attr_of(priority);
	int err;

	err = rt_device_lock(d, op);
	if (err)
		return err;
	err = rt_device_open_locked(d, op);
	*stream = hal_load_relaxed(&pool->stream[i]);	/* relaxed: written under the lock */
	if (!err && !*stream) {
		err = rt_stream_make(rt_devices[d].main.handle, &a, NPU_STREAM_KIND_POOL, op,
				     stream);
		/* relaxed: a handle; hal's look-up orders what is behind it */
		hal_store_relaxed(&pool->stream[i], *stream);
	}
	rt_device_unlock(d);
	return err;
}

NPU_API int npu_stream_pool_get(int device, int priority, npu_stream *stream)
{
	struct rt_pool *pool;
	uint32_t i;
	int d, err;

	err = rt_enter_handle("stream_pool_get", stream, "stream");
	if (unlikely(err))
		return err;
	err = rt_device_arg(device, "stream_pool_get", &d);
	if (likely(!err))
		err = rt_priority_check(priority, "stream_pool_get");
	if (unlikely(err))
		return err;
	pool = &rt_devices[d].pool[priority];
	/* relaxed: the counter only spreads requests */
	i = hal_add_relaxed(&pool->next, 1) % hal_load_relaxed(&rt.pool_size);
	stream->h = hal_load_relaxed(&pool->stream[i]);
	return likely(stream->h) ? 0 : rt_pool_stream(d, priority, i, "stream_pool_get",
						      &stream->h);
}

/* ---- leased ------------------------------------------------------------------------------ */

/* 1: idle and clean; 0: still at work; -1: a task of it failed, or it is gone. */
static int condition(uint64_t h)
{
	struct rt_record before;
	struct hal_stream *s;
	int err;

	rt_record_save(&before);
	err = hal_stream_query(h);
	s = hal_stream_get(h, "stream_lease");
	if (s && hal_load_acquire(&s->reported))
		err = -EIO;
	hal_stream_put(s);
	rt_record_restore(&before);
	return !err ? 1 : err == -EINPROGRESS ? 0 : -1;
}

/* Throws a stream away that nobody else can name. One still at work goes on the list again. */
static void throw_away(struct rt_device *dev, struct rt_lease *l)
{
	struct rt_record before;
	int err;

	rt_record_save(&before);
	err = hal_stream_destroy(l->handle, 0);
	rt_record_restore(&before);
	hal_list_del(&l->node);
	if (err == -ETIMEDOUT || err == -EDEADLK) {
		hal_list_add_tail(&dev->idle, &l->node);
		return;
	}
	dev->leases--;
	free(l);
}

/* An idle one of the priority, or NULL. */
static struct rt_lease *take_idle_locked(struct rt_device *dev, int priority)
{
	struct hal_list *n, *next;
	struct rt_lease *l;
	uint32_t left = dev->leases;
	int c;

	hal_list_for_each_safe(n, next, &dev->idle) {
		l = hal_list_entry(n, struct rt_lease, node);
		/* what could not be thrown away stands at the end again */
		if (!left--)
			break;
		if (l->priority != priority)
			continue;
		c = condition(l->handle);
		if (c > 0)
			return l;
		if (c < 0)
			throw_away(dev, l);
	}
	return NULL;
}

/* Makes room for one of another priority: an idle stream of any goes. */
static bool make_room_locked(struct rt_device *dev)
{
	struct hal_list *n, *next;
	uint32_t before = dev->leases, left = dev->leases;

	hal_list_for_each_safe(n, next, &dev->idle) {
		struct rt_lease *l = hal_list_entry(n, struct rt_lease, node);

		/* what could not be thrown away stands at the end again */
		if (!left--)
			break;
		if (!condition(l->handle))
			continue;
		throw_away(dev, l);
		if (dev->leases < before)
			return true;
	}
	return false;
}

static int grow_locked(int d, int priority, struct rt_lease **lease)
{
	struct rt_device *dev = &rt_devices[d];
	struct npu_stream_attr a = attr_of(priority);
	struct rt_lease *l;
	int err;

	if (dev->leases >= hal_load_relaxed(&rt.lease_max) && !make_room_locked(dev))
		return hal_hint(hal_fail(-ENOSPC, "stream_lease", "device %d: %u streams are "
					 "leased, or still at work: option stream_lease_max", d,
					 dev->leases),
				"Release leased streams by npu_stream_release(), or raise the "
				"option.");
	l = hal_zalloc(sizeof(*l));
	if (!l)
		return hal_fail(-ENOMEM, "stream_lease", "no memory");
	err = rt_stream_make(dev->main.handle, &a, NPU_STREAM_KIND_LEASED, "stream_lease",
			     &l->handle);
	if (err) {
		free(l);
		return err;
	}
	hal_list_init(&l->node);
	l->priority = priority;
	dev->leases++;
	*lease = l;
	return 0;
}

NPU_API int npu_stream_lease(int device, int priority, npu_stream *stream)
{
	struct rt_lease *l = NULL;
	int d, err;

	err = rt_enter_handle("stream_lease", stream, "stream");
	if (err)
		return err;
	err = rt_device_arg(device, "stream_lease", &d);
	if (!err)
		err = rt_priority_check(priority, "stream_lease");
	if (!err)
		err = rt_device_lock(d, "stream_lease");
	if (err)
		return err;
	err = rt_device_open_locked(d, "stream_lease");
	if (!err)
		l = take_idle_locked(&rt_devices[d], priority);
	if (!err && !l)
		err = grow_locked(d, priority, &l);
	if (!err) {
		hal_list_del(&l->node);
		hal_list_add_tail(&rt_devices[d].leased, &l->node);
		stream->h = l->handle;
	}
	rt_device_unlock(d);
	return err;
}

static struct rt_lease *find_leased_locked(struct rt_device *dev, uint64_t h)
{
	struct hal_list *n;

	hal_list_for_each(n, &dev->leased) {
		struct rt_lease *l = hal_list_entry(n, struct rt_lease, node);

		if (l->handle == h)
			return l;
	}
	return NULL;
}

NPU_API int npu_stream_release(npu_stream stream)
{
	struct rt_thread *t;
	struct rt_lease *l;
	uint64_t renewed;
	int d, err;

	err = rt_enter("stream_release");
	if (err)
		return err;
	t = rt_thread("stream_release");
	if (!t)
		return -ENOMEM;
	if (hal_handle_type(stream.h) != HAL_HANDLE_STREAM)
		return hal_handle_error(HAL_HANDLE_STREAM, stream.h, "stream_release");
	d = rt_handle_device(t, stream.h, "stream_release");
	if (d < 0)
		return d;
	err = rt_device_lock(d, "stream_release");
	if (err)
		return err;
	l = find_leased_locked(&rt_devices[d], stream.h);
	if (l)
		err = hal_stream_rehandle(stream.h, &renewed);
	else
		err = hal_fail(-EINVAL, "stream_release", "the stream is not leased");
	if (!err) {
		/* from now on nobody knows its handle */
		l->handle = renewed;
		hal_list_del(&l->node);
		hal_list_add_tail(&rt_devices[d].idle, &l->node);
	}
	rt_device_unlock(d);
	return err;
}

/* ---- a device that is closed ---------------------------------------------------------------- */

static void free_leases(struct hal_list *list)
{
	struct rt_lease *l;

	while (!hal_list_empty(list)) {
		l = hal_list_entry(list->next, struct rt_lease, node);
		hal_list_del(&l->node);
		free(l);
	}
}

/* The streams are gone with their context; forgets their handles. */
void rt_pools_forget_locked(int d)
{
	struct rt_device *dev = &rt_devices[d];
	uint32_t i, p;

	for (p = 0; p < RT_PRIORITIES; p++)
		for (i = 0; i < RT_POOL_MAX; i++)
			hal_store_relaxed(&dev->pool[p].stream[i], 0);
	free_leases(&dev->idle);
	free_leases(&dev->leased);
	dev->leases = 0;
	dev->secondary = 0;
}
