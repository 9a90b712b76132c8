// SPDX-License-Identifier: MIT
/*
 * Devices: waiting for all that they do, and closing them.
 */
#include <stdlib.h>

#include "runtime/alloc.h"
#include "runtime/file.h"

/* Milliseconds to a deadline, rounded up, for functions that take a time-out. */
int64_t rt_time_left(uint64_t deadline)
{
	uint64_t now;

	if (deadline == UINT64_MAX)
		return NPU_WAIT_FOREVER;
	now = hal_sys_now();
	return deadline > now ? (int64_t)((deadline - now + 999999) / 1000000) : 0;
}

/* ---- the contexts of a device ------------------------------------------------------------ */

/**
 * struct handles - the contexts that a device had at a moment
 * @nr: how many
 * @h: handles; the primary one is the last
 * @few: room for the usual case
 */
struct handles {
	size_t nr;
	uint64_t *h;
	uint64_t few[16];
};

/* Of the open device that is meant; where it is another one, or closed, there are none. */
static int list_locked(struct rt_device *dev, const struct hal_device *hal, struct handles *l)
{
	struct hal_list *n;
	size_t room = 1;

	l->nr = 0;
	l->h = l->few;
	if (!hal || dev->hal != hal)
		return 0;
	hal_list_for_each(n, &dev->contexts)
		room++;
	if (room > ARRAY_SIZE(l->few)) {
		l->h = hal_zalloc(room * sizeof(*l->h));
		if (!l->h)
			return hal_fail(-ENOMEM, "device", "no memory for %zu contexts", room);
	}
	hal_list_for_each(n, &dev->contexts)
		l->h[l->nr++] = hal_list_entry(n, struct rt_context, node)->handle;
	l->h[l->nr++] = dev->main.handle;
	return 0;
}

static void list_free(struct handles *l)
{
	if (l->h != l->few)
		free(l->h);
}

/* Whether a failure goes before another: one of a task is told only once, a time-out again. */
static bool outranks(int err, int other)
{
	return err && (!other || (other == -ETIMEDOUT && err != -ETIMEDOUT));
}

/*
 * Waits for all of them; what they report is one list. One that was destroyed meanwhile has nothing
 * to wait for.
 */
static int sync_all_of(const struct handles *l, uint64_t deadline)
{
	struct rt_record before, first;
	struct hal_context *ctx;
	uint64_t mark = hal_report_join();
	int err, worst = 0;
	size_t i;

	rt_record_save(&before);
	for (i = 0; i < l->nr; i++) {
		ctx = hal_context_get(l->h[i], "device_sync");
		err = ctx ? hal_context_sync(ctx, rt_time_left(deadline), 0) : 0;
		hal_context_put(ctx);
		if (!outranks(err, worst))
			continue;
		worst = err;
		rt_record_save(&first);
	}
	rt_record_restore(worst ? &first : &before);
	err = hal_report_leave(mark);
	return err ? err : worst;
}

static int sync_device(int d, uint64_t deadline)
{
	struct rt_device *dev = &rt_devices[d];
	struct handles l;
	int err;

	if (!hal_load_acquire(&dev->hal))
		return 0;
	pthread_mutex_lock(&dev->lock);
	err = list_locked(dev, dev->hal, &l);
	pthread_mutex_unlock(&dev->lock);
	if (err)
		return err;
	rt_sync_begin(NPU_SYNC_DEVICE, (uint64_t)d);
	err = sync_all_of(&l, deadline);
	rt_sync_end(NPU_SYNC_DEVICE, (uint64_t)d, err);
	list_free(&l);
	return err;
}

NPU_API int npu_device_sync(int device, int64_t timeout_ms)
{
	int d, err;

	err = rt_enter("device_sync");
	if (!err)
		err = rt_device_arg(device, "device_sync", &d);
	if (!err)
		err = rt_timeout_check(timeout_ms, "device_sync");
	if (!err && timeout_ms && hal_in_callback())
		err = hal_fail(-EDEADLK, "device_sync", "a callback must not wait");
	return err ? err : sync_device(d, hal_sys_deadline(timeout_ms));
}

NPU_API int npu_device_sync_all(int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	struct rt_record first;
	int err, worst = 0;
	uint64_t mark;
	uint32_t d;

	err = rt_enter("device_sync_all");
	if (!err)
		err = rt_timeout_check(timeout_ms, "device_sync_all");
	if (!err && timeout_ms && hal_in_callback())
		err = hal_fail(-EDEADLK, "device_sync_all", "a callback must not wait");
	if (err)
		return err;
	mark = hal_report_join();
	for (d = 0; d < rt.visible.count; d++) {
		err = sync_device((int)d, deadline);
		if (!outranks(err, worst))
			continue;
		worst = err;
		rt_record_save(&first);
	}
	if (worst)
		rt_record_restore(&first);
	err = hal_report_leave(mark);
	return err ? err : worst;
}

/* ---- closing --------------------------------------------------------------------------- */

/* An observer that a restart calls can't wait for its end. */
static bool restarts_locked(const struct rt_device *dev)
{
	return dev->restarting == rt_self();
}

/* Whether the thread is inside an observer of a restart. */
bool rt_restarts(void)
{
	bool is = false;
	int d;

	for (d = 0; d < RT_DEVICES && !is; d++) {
		if (!hal_load_acquire(&rt_devices[d].hal))
			continue;
		pthread_mutex_lock(&rt_devices[d].lock);
		is = restarts_locked(&rt_devices[d]);
		pthread_mutex_unlock(&rt_devices[d].lock);
	}
	return is;
}

/* Waits until nobody closes or restarts the device; false: not in time. */
static bool wait_for_others_locked(struct rt_device *dev, uint64_t deadline)
{
	bool ok = true;

	while (ok && (dev->closing || dev->restarting))
		ok = hal_cond_wait_until(&dev->cond, &dev->lock, deadline);
	return ok;
}

/* Makes the caller the one that restarts the device. Return: 0, -ETIMEDOUT, -EDEADLK. */
int rt_restart_begin(int d, uint64_t deadline)
{
	struct rt_device *dev = &rt_devices[d];
	bool ok, ours;

	pthread_mutex_lock(&dev->lock);
	ours = restarts_locked(dev);
	ok = ours || wait_for_others_locked(dev, deadline);
	if (ok)
		dev->restarting = rt_self();
	pthread_mutex_unlock(&dev->lock);
	if (ours)
		return hal_fail(-EDEADLK, "device_restart", "device %d is being restarted, which "
				"waits for this observer", d);
	if (!ok)
		return hal_hint(hal_fail(-ETIMEDOUT, "device_restart", "device %d is being "
					 "restarted or closed by another thread", d),
				"Let that thread do it, or wait longer for it.");
	return 0;
}

/* Unless the device was taken away meanwhile. */
void rt_restart_end(int d)
{
	struct rt_device *dev = &rt_devices[d];

	pthread_mutex_lock(&dev->lock);
	if (restarts_locked(dev))
		dev->restarting = 0;
	pthread_cond_broadcast(&dev->cond);
	pthread_mutex_unlock(&dev->lock);
}

/**
 * closing_begin() - make the caller the one that closes a device
 * @dev: the device, of which nobody makes something new then
 * @deadline: until when to wait for others that close or restart it
 * @take: after that it is taken away from them, who find that it is not theirs any more
 * @hal: out: the device, NULL: it is closed
 *
 * Return: 0; -EDEADLK: inside an observer of a restart by this thread; -ETIMEDOUT.
 */
static int closing_begin(struct rt_device *dev, uint64_t deadline, bool take,
			 struct hal_device **hal)
{
	int err = 0;

	*hal = NULL;
	pthread_mutex_lock(&dev->lock);
	if (restarts_locked(dev))
		err = -EDEADLK;
	else if (!wait_for_others_locked(dev, deadline))
		err = -ETIMEDOUT;
	if (dev->hal && (!err || (take && err == -ETIMEDOUT))) {
		*hal = dev->hal;
		dev->closing = rt_self();
		dev->restarting = 0;
	}
	pthread_mutex_unlock(&dev->lock);
	return err;
}

static void closing_end(struct rt_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	if (dev->closing == rt_self())
		dev->closing = 0;
	pthread_cond_broadcast(&dev->cond);
	pthread_mutex_unlock(&dev->lock);
}

/*
 * Waits until the device has nothing to do; only that it did not come to that is an error, and the
 * thread's record says nothing else.
 */
static int drain(struct rt_device *dev, const struct hal_device *hal, uint64_t deadline)
{
	struct rt_record before;
	struct handles l;
	int err;

	pthread_mutex_lock(&dev->lock);
	err = list_locked(dev, hal, &l);
	pthread_mutex_unlock(&dev->lock);
	if (err)
		return err;
	rt_record_save(&before);
	err = sync_all_of(&l, deadline);
	list_free(&l);
	if (err == -ETIMEDOUT)
		return err;
	rt_record_restore(&before);
	return 0;
}

static int destroy_contexts(struct rt_device *dev, const struct hal_device *hal,
			    uint64_t deadline)
{
	struct handles l;
	int err;
	size_t i;

	pthread_mutex_lock(&dev->lock);
	err = list_locked(dev, hal, &l);
	pthread_mutex_unlock(&dev->lock);
	if (err)
		return err;
	/* the streams are drained, but files may be read and written in none */
	err = rt_io_settle(0, (int)(dev - rt_devices), deadline);
	for (i = 0; i < l.nr && !err; i++) {
		err = hal_context_destroy(l.h[i], rt_time_left(deadline));
		if (err != -ETIMEDOUT && err != -ENOMEM)
			err = 0;
	}
	list_free(&l);
	return err;
}

/*
 * The runtime's own knowledge of the device goes; who has a reference keeps it. False: another
 * thread has taken it away.
 */
static bool forget(int d, const struct hal_device *hal)
{
	struct rt_device *dev = &rt_devices[d];

	pthread_mutex_lock(&dev->lock);
	if (dev->hal != hal) {
		pthread_mutex_unlock(&dev->lock);
		return false;
	}
	hal_store_release(&dev->primary, 0);
	hal_store_release(&dev->hal, NULL);
	rt_contexts_forget_locked(d);
	rt_pools_forget_locked(d);
	rt_cache_drop(d);
	rt_pools_drop(d);
	rt_plug_drop(d);
	rt_pinned_drop(d);
	rt_workspace_drop(d);
	/* the device's epoch before the process's: who sees the new one looks at all */
	hal_add_relaxed(&dev->epoch, RT_EPOCH_CLOSE);
	pthread_mutex_unlock(&dev->lock);
	rt_past_forget(d);
	atomic_fetch_add(&rt.epoch, 1);
	return true;
}

/* Waits for all open devices, for the end of the process. */
int rt_devices_drain(uint64_t deadline)
{
	struct hal_device *hal;
	int d, err, worst = 0;

	for (d = 0; d < RT_DEVICES; d++) {
		hal = hal_load_acquire(&rt_devices[d].hal);
		err = hal ? drain(&rt_devices[d], hal, deadline) : 0;
		worst = err ? err : worst;
	}
	return worst;
}

/* Its work does not end, nor would closing it. */
static bool is_hung(const struct hal_device *hal)
{
	return hal_load_acquire(&hal->hung);
}

/* Closes a device whose contexts are gone, or, hung, gives it up; if it still is ours. */
static void let_go(int d, struct hal_device *hal, bool hung)
{
	bool ours = forget(d, hal);
	uint32_t was = 0;

	if (ours) {
		was = hal_load_acquire(&hal->state);
		if (hung)
			hal_device_abandon(hal);
		else
			hal_device_put(hal);
	}
	closing_end(&rt_devices[d]);
	if (ours)
		rt_changed(d, was, NPU_DEVICE_CLOSED, 0);
}

/**
 * rt_devices_close() - close all devices
 * @deadline: for what is queued on them
 *
 * Return: 0; -ETIMEDOUT: work did not end in time: its devices were given up, the others closed.
 */
int rt_devices_close(uint64_t deadline)
{
	struct hal_device *hal[RT_DEVICES];
	bool hung[RT_DEVICES];
	int d, worst = 0;

	for (d = 0; d < RT_DEVICES; d++)
		hung[d] = closing_begin(&rt_devices[d], deadline, true, &hal[d]);
	for (d = 0; d < RT_DEVICES; d++)
		hung[d] = hal[d] && (hung[d] || is_hung(hal[d]) ||
				     drain(&rt_devices[d], hal[d], deadline));
	rt_events_destroy(NULL);
	for (d = 0; d < RT_DEVICES; d++) {
		if (!hal[d])
			continue;
		if (!hung[d])
			hung[d] = destroy_contexts(&rt_devices[d], hal[d], deadline) != 0;
		if (hung[d])
			worst = hal_hint(hal_fail(-ETIMEDOUT, "finalize", "work on device %d did "
						  "not end in time: the device is given up", d),
					 "End work before npu_finalize(), or give it more time; "
					 "npu_init() opens the device as new.");
		hal_store_relaxed(&rt_devices[d].moved, 0);
		let_go(d, hal[d], hung[d]);
	}
	return worst;
}

static int reset(int d, uint64_t deadline)
{
	struct rt_device *dev = &rt_devices[d];
	struct hal_device *hal;
	bool hung;
	int err;

	err = closing_begin(dev, deadline, false, &hal);
	if (err == -EDEADLK)
		return hal_fail(err, "device_reset", "device %d is being restarted, which waits "
				"for this observer", d);
	if (err)
		return hal_hint(hal_fail(err, "device_reset", "device %d is being restarted or "
					 "closed by another thread", d),
				"Let that thread do it, or wait longer for it.");
	if (!hal)
		return 0;
	hung = is_hung(hal);
	err = hung ? 0 : drain(dev, hal, deadline);
	if (!err && !hung)
		err = destroy_contexts(dev, hal, deadline);
	if (err) {
		closing_end(dev);
		return err;
	}
	rt_events_destroy(hal);
	let_go(d, hal, hung);
	return 0;
}

NPU_API int npu_device_reset(int device, int64_t timeout_ms)
{
	int d, err;

	err = rt_enter("device_reset");
	if (!err)
		err = rt_device_arg(device, "device_reset", &d);
	if (!err)
		err = rt_timeout_check(timeout_ms, "device_reset");
	if (err)
		return err;
	if (!hal_load_acquire(&rt_devices[d].hal))
		return 0;
	if (hal_in_callback())
		return hal_fail(-EDEADLK, "device_reset", "inside a callback of a stream");
	return reset(d, hal_sys_deadline(timeout_ms));
}
