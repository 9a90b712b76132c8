// SPDX-License-Identifier: MIT
/*
 * Devices: the current one of a thread, and opening at first need.
 */
#include <string.h>

#include "runtime/internal.h"

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
	rt_changed(d, NPU_DEVICE_CLOSED, hal_load_acquire(&hal->state),
		   hal_load_acquire(&hal->cause));
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
