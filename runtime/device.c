// SPDX-License-Identifier: MIT
/*
 * Devices: the current one of a thread, opening at first need, waiting, closing.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/alloc.h"
#include "runtime/file.h"

struct rt_device rt_devices[RT_DEVICES];

/* ---- arguments -------------------------------------------------------------------- */

/* -ENODEV, with a text. */
int rt_device_bad(int device, const char *op)
{
	return hal_fail(-ENODEV, op, "there is no device %d: the process may use %u", device,
			rt.visible.count);
}

/* The device that an argument means. Return: 0, -ENODEV, -ENOMEM. */
int rt_device_arg(int device, const char *op, int *d)
{
	struct rt_thread *t;

	if (device == NPU_DEVICE_CURRENT) {
		t = rt_thread(op);
		if (!t)
			return -ENOMEM;
		device = rt_thread_device(t);
	}
	if (unlikely(device < 0 || (uint32_t)device >= rt.visible.count))
		return rt_device_bad(device, op);
	*d = device;
	return 0;
}

/* The ordinal of an open device, -1: it is none of ours. Does not follow the pointer. */
int rt_device_of(const struct hal_device *dev)
{
	uint32_t d;

	for (d = 0; dev && d < RT_DEVICES; d++)
		if (hal_load_acquire(&rt_devices[d].hal) == dev)
			return (int)d;
	return -1;
}

/* Milliseconds to a deadline, rounded up, for functions that take a time-out. */
int64_t rt_time_left(uint64_t deadline)
{
	uint64_t now;

	if (deadline == UINT64_MAX)
		return NPU_WAIT_FOREVER;
	now = hal_sys_now();
	return deadline > now ? (int64_t)((deadline - now + 999999) / 1000000) : 0;
}

/* ---- opening ----------------------------------------------------------------------- */

/* Takes the lock of a device; waits while another thread closes it. */
int rt_device_lock(int d, const char *op)
{
	struct rt_device *dev = &rt_devices[d];
	struct rt_thread *t = rt_thread(op);

	if (!t)
		return -ENOMEM;
	pthread_mutex_lock(&dev->lock);
	while (dev->closing) {
		if (hal_in_callback()) {
			pthread_mutex_unlock(&dev->lock);
			return hal_fail(-EDEADLK, op, "device %d is being closed, which waits "
					"for this callback", d);
		}
		pthread_cond_wait(&dev->cond, &dev->lock);
	}
	if (rt_allowed()) {
		t->locks++;
		return 0;
	}
	pthread_mutex_unlock(&dev->lock);
	return hal_fail(-ESHUTDOWN, op, "the library is being finalized");
}

void rt_device_unlock(int d)
{
	struct rt_thread *t = hal_tls_peek()->runtime;

	pthread_mutex_unlock(&rt_devices[d].lock);
	t->locks--;
	if (unlikely(t->changes) && !t->locks)
		rt_changes_tell(t);
}

/* ---- where a part is ----------------------------------------------------------------- */

/* The driver's number of a device. */
uint32_t rt_device_index(int d)
{
	uint32_t moved = hal_load_relaxed(&rt_devices[d].moved);

	return moved ? moved - 1 : rt.visible.index[d];
}

static bool sits_there(int d, uint32_t index)
{
	struct hal_device_info info;

	return !hal_driver_info(rt.visible.drv, index, &info) &&
	       !strcmp(info.bus_id, rt.info[d].bus_id);
}

/*
 * The part may have been unplugged and plugged in again since, and the driver may
 * count in another order: what is meant is the one with the same bus_id.
 */
static int locate_locked(int d, const char *op, uint32_t *index)
{
	struct rt_record before;
	uint32_t i, n = 0;

	*index = rt_device_index(d);
	if (!rt.info[d].bus_id[0])
		return 0;
	rt_record_save(&before);
	if (sits_there(d, *index))
		return 0;
	if (hal_driver_count(rt.visible.drv, &n))
		return hal_error_last()->code;
	for (i = 0; i < n; i++) {
		if (!sits_there(d, i))
			continue;
		rt_record_restore(&before);
		hal_store_relaxed(&rt_devices[d].moved, i + 1);
		*index = i;
		return 0;
	}
	return hal_hint(hal_fail(-ENODEV, op, "device %d (%s) is not there any more", d,
				 rt.info[d].bus_id),
			"plug it in again; npu_finalize() and npu_init() count anew");
}

/* Opens the device and makes its primary context, if that was not done yet. */
int rt_device_open_locked(int d, const char *op)
{
	struct rt_device *dev = &rt_devices[d];
	struct hal_device *hal;
	uint32_t index;
	uint64_t ctx;
	int err;

	if (dev->hal)
		return 0;
	err = locate_locked(d, op, &index);
	if (!err)
		err = hal_device_open(rt.visible.drv, index, &hal);
	if (err)
		return err;
	hal_store_relaxed(&hal->ordinal, d);	/* relaxed: for messages */
	err = hal_context_create(hal, &ctx);
	if (err) {
		hal_device_put(hal);
		return err;
	}
	dev->main.handle = ctx;
	dev->main.stream = 0;
	dev->main.builtin = 0;
	hal_store_release(&dev->hal, hal);
	hal_store_release(&dev->primary, ctx);
	rt_changed(d, NPU_DEVICE_CLOSED, hal_load_acquire(&hal->state), 0);
	return 0;
}

/* The primary context of a device, which is opened. */
int rt_device_primary(int d, const char *op, uint64_t *ctx)
{
	int err;

	*ctx = hal_load_acquire(&rt_devices[d].primary);
	if (likely(*ctx))
		return 0;
	err = rt_device_lock(d, op);
	if (err)
		return err;
	err = rt_device_open_locked(d, op);
	*ctx = rt_devices[d].main.handle;
	rt_device_unlock(d);
	return err;
}

/* The open device with a reference, or NULL when it is closed. Never in the child of a fork. */
int rt_device_ref(int d, struct hal_device **dev)
{
	*dev = NULL;
	if (!hal_load_acquire(&rt_devices[d].hal))
		return 0;
	pthread_mutex_lock(&rt_devices[d].lock);
	if (rt_devices[d].hal)
		*dev = hal_device_get(rt_devices[d].hal);
	pthread_mutex_unlock(&rt_devices[d].lock);
	return 0;
}

/* ---- the current device -------------------------------------------------------------- */

static void make_current(struct rt_thread *t, int d)
{
	t->device = d;
	t->context = 0;
	rt_thread_zero(t);
}

NPU_API int npu_device_set(int device)
{
	return npu_device_exchange(device, NULL);
}

NPU_API int npu_device_get(int *device)
{
	struct rt_visible v;
	struct rt_thread *t;
	int err;

	if (!device)
		return hal_fail(-EINVAL, "device_get", "device is NULL");
	*device = NPU_DEVICE_CURRENT;
	t = rt_thread("device_get");
	if (!t)
		return -ENOMEM;
	err = rt_visible_get(&v, "device_get");
	if (err)
		return err;
	if (!v.count)
		return hal_fail(-ENODEV, "device_get", "there is no device");
	*device = rt_thread_device(t);
	return 0;
}

NPU_API int npu_device_exchange(int device, int *old)
{
	const char *op = old ? "device_exchange" : "device_set";
	struct rt_thread *t;
	int err, d;

	if (old)
		*old = NPU_DEVICE_CURRENT;
	err = rt_enter(op);
	if (unlikely(err))
		return err;
	t = rt_thread(op);
	if (unlikely(!t))
		return -ENOMEM;
	if (device != NPU_DEVICE_CURRENT) {
		err = rt_device_arg(device, op, &d);
		if (unlikely(err))
			return err;
	}
	if (old)
		*old = t->device;
	if (device != NPU_DEVICE_CURRENT) {
		rt_first_set(d);
		make_current(t, d);
	}
	return 0;
}

NPU_API int npu_device_restore(int old)
{
	struct rt_thread *t = rt_thread("device_restore");

	if (!t)
		return -ENOMEM;
	if (old < NPU_DEVICE_CURRENT || old >= RT_DEVICES)
		return hal_fail(-ENODEV, "device_restore", "there is no device %d", old);
	/* finalized meanwhile: nothing is set, and there is nothing to go back to */
	if (!hal_load_acquire(&rt.fixed))
		return 0;
	if (old >= 0 && (uint32_t)old >= rt.visible.count)
		return hal_fail(-ENODEV, "device_restore", "there is no device %d", old);
	make_current(t, old);
	return 0;
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

/*
 * Waits for all of them; what they report is one list. A failure of a task goes before a time-out,
 * as it is reported only once. One that was destroyed meanwhile has nothing to wait for.
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
		if (!err || (worst && worst != -ETIMEDOUT) || (worst && err == -ETIMEDOUT))
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
		if (!err || (worst && (worst != -ETIMEDOUT || err == -ETIMEDOUT)))
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
		return hal_fail(-ETIMEDOUT, "device_restart", "device %d is being restarted or "
				"closed by another thread", d);
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

/* Closes a device whose contexts are gone, or, hung, gives it up. False: it is not ours any more. */
static bool let_go(int d, struct hal_device *hal, bool hung)
{
	uint32_t was;
	bool ours = forget(d, hal);

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
	return ours;
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
			worst = hal_fail(-ETIMEDOUT, "finalize", "work on device %d did not end "
					 "in time: the device is given up", d);
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
		return hal_fail(err, "device_reset", "device %d is being restarted or closed by "
				"another thread", d);
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
