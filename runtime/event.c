// SPDX-License-Identifier: MIT
/*
 * Events.
 */
#include "runtime/internal.h"

/**
 * rt_event_made() - the last step of making an event
 * @life: rt.life before it was made
 * @event: the event; 0 on failure, and it is destroyed
 * @op: for the error record
 *
 * Return: 0, -ESHUTDOWN.
 */
int rt_event_made(uint32_t life, npu_event *event, const char *op)
{
	/*
	 * npu_finalize() may have looked for events just before. Both add to one word in
	 * between: it has seen the event, or we see that it is at work.
	 */
	if (likely(atomic_fetch_add(&rt.life, 0) == life && rt_allowed()))
		return 0;
	hal_event_destroy(event->h);
	event->h = 0;
	return hal_fail(-ESHUTDOWN, op, "the library was finalized meanwhile");
}

NPU_API int npu_event_create(uint32_t flags, npu_event *event)
{
	uint32_t life;
	int err;

	err = rt_enter_handle("event_create", event, "event");
	if (err)
		return err;
	life = hal_load_relaxed(&rt.life);
	if (flags & ~NPU_EVENT_FLAGS)
		return hal_fail(-EINVAL, "event_create", "unknown flags 0x%x", flags);
	err = hal_event_create(flags, &event->h);
	return err ? err : rt_event_made(life, event, "event_create");
}

NPU_API int npu_event_destroy(npu_event event)
{
	int err = rt_enter("event_destroy");

	return unlikely(err) ? err : hal_event_destroy(event.h);
}

NPU_API int npu_event_record(npu_event event, npu_stream stream)
{
	uint64_t h;
	int err;

	err = rt_enter("event_record");
	if (likely(!err))
		err = rt_stream(stream, -1, "event_record", &h);
	return unlikely(err) ? err : hal_event_record(event.h, h, RT_PLACE);
}

static int __attribute__((cold, noinline)) query_slow(uint64_t h)
{
	int err = rt_enter("event_query");

	return err ? err : hal_event_query(h);
}

NPU_API int npu_event_query(npu_event event)
{
	/* as rt_enter(), without keeping anything over a call */
	return likely(hal_ready()) ? hal_event_query(event.h) : query_slow(event.h);
}

static int sync_told(uint64_t h, int64_t timeout_ms)
{
	int err;

	rt_sync_begin(NPU_SYNC_EVENT, h);
	err = hal_event_sync(h, timeout_ms, 0);
	rt_sync_end(NPU_SYNC_EVENT, h, err);
	return err;
}

NPU_API int npu_event_sync(npu_event event, int64_t timeout_ms)
{
	int err;

	err = rt_enter("event_sync");
	if (likely(!err))
		err = rt_timeout_check(timeout_ms, "event_sync");
	if (unlikely(err))
		return err;
	/* relaxed: whoever is told of waits must only be seen when it is followed */
	if (unlikely(hal_load_relaxed(&rt.sync_hook)))
		return sync_told(event.h, timeout_ms);
	return hal_event_sync(event.h, timeout_ms, 0);
}

NPU_API int npu_event_elapsed(npu_event start, npu_event end, int64_t *ns)
{
	int err;

	if (!ns)
		return hal_fail(-EINVAL, "event_elapsed", "ns is NULL");
	*ns = 0;
	err = rt_enter("event_elapsed");
	if (err)
		return err;
	return hal_event_elapsed(start.h, end.h, ns);
}

NPU_API int npu_event_timestamp(npu_event event, uint64_t *ns)
{
	int err;

	if (!ns)
		return hal_fail(-EINVAL, "event_timestamp", "ns is NULL");
	*ns = 0;
	err = rt_enter("event_timestamp");
	if (err)
		return err;
	return hal_event_timestamp(event.h, ns);
}

NPU_API int npu_event_fd(npu_event event, int *fd)
{
	struct hal_point p;
	int err;

	if (!fd)
		return hal_fail(-EINVAL, "event_fd", "fd is NULL");
	*fd = -1;
	err = rt_enter("event_fd");
	if (err)
		return err;
	err = hal_event_point(event.h, &p, "event_fd");
	return err ? err : rt_point_fd(&p, "event_fd", fd);
}

NPU_API int npu_event_device(npu_event event, int *device)
{
	struct hal_device *dev;
	int err;

	if (!device)
		return hal_fail(-EINVAL, "event_device", "device is NULL");
	*device = -1;
	err = rt_enter("event_device");
	if (err)
		return err;
	err = hal_event_device(event.h, &dev);
	if (!err && dev)
		*device = rt_device_of(dev);
	return err;
}

/* ---- all of them, at the end ------------------------------------------------------------ */

static int destroy_one(struct hal_slot *slot, void *arg)
{
	const struct hal_device *only = arg;
	uint64_t h = hal_handle_of(HAL_HANDLE_EVENT, slot);
	struct hal_device *of = NULL;

	/* destroyed meanwhile by its owner: just as well */
	if (h && (!only || (!hal_event_device(h, &of) && of == only)))
		hal_event_destroy(h);
	return 0;
}

/* Destroys the events of a device, that is those recorded there last; NULL: all there are. */
void rt_events_destroy(struct hal_device *dev)
{
	struct rt_record before;

	rt_record_save(&before);
	/* see npu_event_create() */
	atomic_fetch_add(&rt.life, 0);
	hal_handle_for_each(HAL_HANDLE_EVENT, destroy_one, dev);
	rt_record_restore(&before);
}
