// SPDX-License-Identifier: MIT
/*
 * Recovery: stopping and restarting devices, their health, and what becomes of the
 * library's own streams when a device comes back.
 *
 * A restart ends all streams of a device. The handles of those that the library
 * keeps are forgotten while the device is stopped, so that nobody is given an old
 * one afterwards; what they were is noted, for threads that have one as their
 * current stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/file.h"

/* ---- what streams of the library were ---------------------------------------------------- */

/* Streams of earlier generations that are remembered of a device. */
#define PAST 2048u

/**
 * struct rt_past - a stream of the library of an earlier generation
 * @handle: its handle
 * @context: of a default one, its context
 * @kind: enum npu_stream_kind
 * @priority: of a shared one
 * @index: of a shared one, which
 */
struct rt_past {
	uint64_t handle;
	uint64_t context;
	uint32_t kind;
	uint32_t priority;
	uint32_t index;
};

/* Protects: rt_device.past, past_nr, past_built of all devices. Nothing is taken under it. */
static pthread_mutex_t past_lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(struct rt_device *dev, uint64_t handle, const struct rt_past *what)
{
	struct rt_past *p;

	if (!handle)
		return;
	pthread_mutex_lock(&past_lock);
	p = &dev->past[dev->past_nr++ % PAST];
	*p = *what;
	p->handle = handle;
	pthread_mutex_unlock(&past_lock);
}

static bool recall(struct rt_device *dev, uint64_t handle, struct rt_past *what)
{
	bool found = false;
	uint64_t i;

	pthread_mutex_lock(&past_lock);
	for (i = 0; !found && i < dev->past_nr && i < PAST; i++) {
		*what = dev->past[i];
		found = what->handle == handle;
	}
	pthread_mutex_unlock(&past_lock);
	return found;
}

static int make_past(struct rt_device *dev)
{
	struct rt_past *p;

	if (hal_load_acquire(&dev->past))
		return 0;
	p = hal_zalloc(PAST * sizeof(*p));
	if (!p)
		return hal_fail(-ENOMEM, "device_restart", "no memory");
	pthread_mutex_lock(&past_lock);
	hal_store_release(&dev->past, p);
	pthread_mutex_unlock(&past_lock);
	return 0;
}

/* The device is closed: nothing of it has a successor. */
void rt_past_forget(int d)
{
	struct rt_device *dev = &rt_devices[d];

	pthread_mutex_lock(&past_lock);
	free(dev->past);
	hal_store_release(&dev->past, NULL);
	dev->past_nr = dev->past_built = 0;
	pthread_mutex_unlock(&past_lock);
}

/* Makes or finds the stream that is now what another one was. */
static int now_of(int d, const struct rt_past *p, uint64_t *stream)
{
	switch (p->kind) {
	case NPU_STREAM_KIND_DEFAULT:
		return rt_stream_home(d, p->context, "stream_current", stream);
	case NPU_STREAM_KIND_SECONDARY:
		return rt_stream_second(d, "stream_current", stream);
	default:
		return rt_pool_stream(d, (int)p->priority, p->index, "stream_current", stream);
	}
}

/**
 * rt_successor() - what took the place of a stream that is stale
 * @d: its device
 * @handle: the stream
 * @stream: out: the successor; 0: it has none
 *
 * Return: 0, or why the successor can't be made now.
 */
int rt_successor(int d, uint64_t handle, uint64_t *stream)
{
	struct rt_device *dev = &rt_devices[d];
	struct rt_record before;
	struct rt_past p;
	int err;

	*stream = 0;
	if (!hal_load_acquire(&dev->past) || !rt_allowed() || !recall(dev, handle, &p))
		return 0;
	rt_record_save(&before);
	err = now_of(d, &p, stream);
	rt_record_restore(&before);
	return err;
}

/* Notes what the streams of the library are, and forgets their handles. */
static void outdate_locked(int d)
{
	struct rt_device *dev = &rt_devices[d];
	struct rt_past p = { .kind = NPU_STREAM_KIND_DEFAULT };
	struct hal_list *n;
	uint32_t i, pr;

	remember(dev, dev->main.stream, &p);
	hal_list_for_each(n, &dev->contexts) {
		struct rt_context *c = hal_list_entry(n, struct rt_context, node);

		p.context = c->handle;
		remember(dev, c->stream, &p);
		c->stream = 0;
	}
	p = (struct rt_past){ .kind = NPU_STREAM_KIND_SECONDARY };
	remember(dev, dev->secondary, &p);
	p.kind = NPU_STREAM_KIND_POOL;
	for (pr = 0; pr < RT_PRIORITIES; pr++)
		for (i = 0; i < RT_POOL_MAX; i++) {
			p.priority = pr;
			p.index = i;
			/* relaxed: written under the lock */
			remember(dev, hal_load_relaxed(&dev->pool[pr].stream[i]), &p);
		}
	dev->main.stream = 0;
	rt_pools_forget_locked(d);
}

static bool past_at(struct rt_device *dev, uint64_t i, struct rt_past *p)
{
	bool there;

	pthread_mutex_lock(&past_lock);
	there = i < dev->past_nr;
	if (there)
		*p = dev->past[i % PAST];
	pthread_mutex_unlock(&past_lock);
	return there;
}

/*
 * Makes the streams anew that were forgotten since the last restart, or leaves that to who asks for
 * them, as with one that can't be made.
 */
static void rebuild(int d, bool at_once)
{
	struct rt_device *dev = &rt_devices[d];
	struct rt_record before;
	struct rt_past p;
	uint64_t i, end, h;

	pthread_mutex_lock(&past_lock);
	i = dev->past_built;
	end = dev->past_built = dev->past_nr;
	pthread_mutex_unlock(&past_lock);
	if (!at_once)
		return;
	rt_record_save(&before);
	for (i = end - i > PAST ? end - PAST : i; i < end && past_at(dev, i, &p); i++)
		if (now_of(d, &p, &h))
			hal_warn(HAL_LOG_CORE, "device %d: a stream is not made anew: %s", d,
				 hal_error_last()->text);
	rt_record_restore(&before);
}

/* ---- stop and restart ------------------------------------------------------------------------ */

/* What both begin with: the device, NULL: it is closed, so that there is nothing to do. */
static int begin(int device, int64_t timeout_ms, const char *op, int *d, struct hal_device **hal)
{
	int err;

	*hal = NULL;
	err = rt_enter(op);
	if (!err)
		err = rt_device_arg(device, op, d);
	if (!err)
		err = rt_timeout_check(timeout_ms, op);
	if (err || !hal_load_acquire(&rt_devices[*d].hal))
		return err;
	if (hal_in_callback())
		return hal_fail(-EDEADLK, op, "inside a callback of a stream");
	return rt_device_ref(*d, hal);
}

NPU_API int npu_device_stop(int device, int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	struct hal_device *hal;
	int d, err;

	err = begin(device, timeout_ms, "device_stop", &d, &hal);
	if (err || !hal)
		return err;
	err = hal_device_stop(hal, timeout_ms);
	hal_device_put(hal);
	return err ? err : rt_io_settle(0, d, deadline);
}

/* All threads look at what they have of the device. */
static void make_look(struct rt_device *dev)
{
	/* the device's epoch before the process's: who sees the new one looks at all */
	hal_add_relaxed(&dev->epoch, RT_EPOCH_RESTART);
	atomic_fetch_add(&rt.epoch, 1);
}

/* Unless the device was taken away from us by npu_finalize(), which did not want to wait. */
static void outdate(int d, const struct hal_device *hal)
{
	struct rt_device *dev = &rt_devices[d];

	pthread_mutex_lock(&dev->lock);
	if (dev->hal == hal)
		outdate_locked(d);
	pthread_mutex_unlock(&dev->lock);
	make_look(dev);
}

/* With the device's `restarting` set. */
static int restart(int d, struct hal_device *hal, uint32_t flags, uint64_t deadline)
{
	struct rt_device *dev = &rt_devices[d];
	int err;

	err = make_past(dev);
	if (err)
		return err;
	/* it may have a fault that nobody has met yet */
	hal_device_look(hal);
	if (hal_load_acquire(&hal->state) == HAL_DEVICE_OPEN)
		return hal_hint(hal_fail(-EBUSY, "device_restart",
					 "device %d is at work: stop it first", d),
				"npu_device_stop() first, which ends all its work.");
	if (hal_load_acquire(&hal->state) == HAL_DEVICE_FAULTED)
		err = hal_device_stop(hal, rt_time_left(deadline));
	if (!err)
		err = rt_io_settle(0, d, deadline);
	if (err)
		return err;
	if (hal_load_acquire(&hal->state) == HAL_DEVICE_STOPPED)
		outdate(d, hal);
	err = hal_device_restart(hal, flags & NPU_RESTART_KEEP_DATA ? HAL_RESTART_KEEP_DATA : 0,
				 rt_time_left(deadline));
	/* who was given an old stream meanwhile, as by the end of a guard, looks again */
	make_look(dev);
	if (!err)
		rebuild(d, flags & NPU_RESTART_REBUILD);
	return err;
}

NPU_API int npu_device_restart(int device, uint32_t flags, int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	struct hal_device *hal;
	int d, err;

	err = begin(device, timeout_ms, "device_restart", &d, &hal);
	if (!err && (flags & ~(NPU_RESTART_REBUILD | NPU_RESTART_KEEP_DATA)))
		err = hal_fail(-EINVAL, "device_restart", "unknown flags 0x%x", flags);
	if (!err && hal)
		err = rt_restart_begin(d, deadline);
	if (err || !hal) {
		hal_device_put(hal);
		return err;
	}
	/* closed meanwhile, and perhaps open again: then it is as good as new */
	if (hal_load_acquire(&rt_devices[d].hal) == hal)
		err = restart(d, hal, flags, deadline);
	rt_restart_end(d);
	hal_device_put(hal);
	return err;
}
