// SPDX-License-Identifier: MIT
/*
 * Devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/internal.h"

/*
 * devs_lock Protects: devs. A device in it without a reference is being opened or
 * closed, without the lock; who wants it waits for devs_changed.
 */
static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t devs_changed = PTHREAD_COND_INITIALIZER;
static struct hal_list devs = { &devs, &devs };

/* ---- errors that name a device ------------------------------------------------- */

int hal_fail_at(int code, const char *op, const struct hal_device *dev, uint64_t stream,
		const char *fmt, ...)
{
	struct hal_error e = {
		.code = code,
		.device = dev ? dev->ordinal : -1,
		.op = op,
		.stream = stream,
		.generation = dev ? hal_load_relaxed(&dev->generation) : 0,
	};
	va_list args;

	va_start(args, fmt);
	vsnprintf(e.text, sizeof(e.text), fmt, args);
	va_end(args);
	strcpy(e.tag, hal_tag_name(hal_tag_current()));
	return hal_fail_record(&e);
}

int hal_need(const struct hal_device *dev, uint64_t caps, const char *op)
{
	if (likely(hal_device_can(dev, caps)))
		return 0;
	return hal_fail_at(-EOPNOTSUPP, op, dev, 0, "device %d (%s) can't do this", dev->ordinal,
			   dev->info.name);
}

int hal_may_block(const char *op)
{
	if (likely(!hal_in_callback()))
		return 0;
	return hal_fail(-EDEADLK, op, "a callback must not wait");
}

int hal_driver_failed(int code, const char *op, struct hal_device *dev, uint32_t fills)
{
	uint32_t state = hal_load_acquire(&dev->state);

	if (hal_fills() == fills || hal_error_last()->code != code)
		hal_fail_at(code, op, dev, 0, "device %d: the driver answers %s", dev->ordinal,
			    hal_errno_name(code) ? hal_errno_name(code) : "an unknown error");
	if (hal_fault_code(code) && (state == HAL_DEVICE_OPEN || state == HAL_DEVICE_FAULTED))
		hal_device_look(dev);
	return code;
}

/* ---- opening and closing -------------------------------------------------------- */

static struct hal_device *find_locked(const struct hal_driver *drv, uint32_t index)
{
	struct hal_list *n;

	hal_list_for_each(n, &devs) {
		struct hal_device *dev = hal_list_entry(n, struct hal_device, node);

		/* another one may be there by now, in the place of one that is lost */
		if (dev->drv == drv && dev->index == index &&
		    hal_load_acquire(&dev->state) != HAL_DEVICE_LOST)
			return dev;
	}
	return NULL;
}

/* A new device object in the list, without a reference yet. */
static struct hal_device *new_locked(const struct hal_driver *drv, uint32_t index)
{
	size_t size = drv->device->obj_size;
	struct hal_device *dev;

	dev = hal_zalloc_aligned(HAL_CACHELINE, size > sizeof(*dev) ? size : sizeof(*dev));
	if (!dev)
		return NULL;
	dev->drv = drv;
	dev->index = index;
	dev->ordinal = (int)index;
	dev->generation = 1;
	pthread_mutex_init(&dev->lock, NULL);
	hal_cond_init(&dev->recovered);
	hal_list_init(&dev->contexts);
	hal_list_add_tail(&devs, &dev->node);
	return dev;
}

static void forget(struct hal_device *dev)
{
	pthread_mutex_lock(&devs_lock);
	hal_list_del(&dev->node);
	pthread_cond_broadcast(&devs_changed);
	pthread_mutex_unlock(&devs_lock);
	pthread_cond_destroy(&dev->recovered);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

static int bring_up(struct hal_device *dev)
{
	const struct hal_driver *drv = dev->drv;
	uint32_t fills, closed;
	int rc;

	rc = hal_driver_up(drv);
	if (rc)
		return rc;
	rc = hal_driver_check(drv, NULL);
	if (rc)
		goto down;
	fills = hal_fills();
	rc = drv->device->init(dev);
	if (rc) {
		hal_driver_failed(rc, "device_open", dev, fills);
		goto down;
	}
	rc = hal_driver_check(drv, &dev->info);
	if (rc)
		goto fini;
	rc = hal_memory_add_device(dev);
	if (rc)
		goto fini;
	/* the driver may have found a fault already */
	closed = HAL_DEVICE_CLOSED;
	atomic_compare_exchange_strong(&dev->state, &closed, HAL_DEVICE_OPEN);
	hal_store_release(&dev->told, HAL_DEVICE_OPEN);
	return 0;
fini:
	drv->device->fini(dev);
down:
	hal_driver_down(drv);
	return rc;
}

/**
 * hal_device_open() - open a device
 * @drv: the driver
 * @index: which one
 * @dev: out: the device, one reference
 *
 * Return: 0, -ENODEV, -ENOSYS, -ENOMEM, or as the driver fails.
 */
int hal_device_open(const struct hal_driver *drv, uint32_t index, struct hal_device **dev)
{
	struct hal_device *d;
	int rc;

	*dev = NULL;
	pthread_mutex_lock(&devs_lock);
	while ((d = find_locked(drv, index))) {
		if (kref_get_unless_zero(&d->ref)) {
			pthread_mutex_unlock(&devs_lock);
			*dev = d;
			return 0;
		}
		pthread_cond_wait(&devs_changed, &devs_lock);
	}
	d = new_locked(drv, index);
	pthread_mutex_unlock(&devs_lock);
	if (!d)
		return hal_fail(-ENOMEM, "device_open", "no memory for device %u", index);

	rc = bring_up(d);
	if (rc) {
		forget(d);
		return rc;
	}
	hal_info(HAL_LOG_CORE, "device %u of driver %s: %s, caps 0x%llx", index, drv->name,
		 d->info.name, (unsigned long long)d->info.caps);
	pthread_mutex_lock(&devs_lock);
	hal_store_release(&d->ref.count, 1);
	pthread_cond_broadcast(&devs_changed);
	pthread_mutex_unlock(&devs_lock);
	*dev = d;
	return 0;
}

/* One more reference. */
struct hal_device *hal_device_get(struct hal_device *dev)
{
	kref_get(&dev->ref);
	return dev;
}

static void release(struct kref *ref)
{
	struct hal_device *dev = container_of(ref, struct hal_device, ref);
	const struct hal_driver *drv = dev->drv;

	hal_memory_del_device(dev);
	drv->device->fini(dev);
	forget(dev);
	hal_driver_down(drv);
}

/* Gives a reference back; the last one closes the device. NULL is fine. */
void hal_device_put(struct hal_device *dev)
{
	if (dev)
		kref_put(&dev->ref, release);
}

bool hal_device_is_open(const struct hal_device *dev)
{
	struct hal_list *n;
	bool found = false;

	pthread_mutex_lock(&devs_lock);
	hal_list_for_each(n, &devs)
		if (hal_list_entry(n, struct hal_device, node) == dev)
			found = true;
	pthread_mutex_unlock(&devs_lock);
	return found;
}

/**
 * hal_device_abandon() - give up a device whose work does not end
 * @dev: the device; the caller's reference is kept for ever
 */
void hal_device_abandon(struct hal_device *dev)
{
	struct hal_list *n;

	hal_err(HAL_LOG_CORE, "device %d (%s) is given up: its work does not end", dev->ordinal,
		dev->info.name);
	hal_store_release(&dev->hung, true);
	hal_device_report(dev, HAL_DEVICE_LOST, -ETIME);
	pthread_mutex_lock(&devs_lock);
	hal_list_del(&dev->node);
	pthread_cond_broadcast(&devs_changed);
	pthread_mutex_unlock(&devs_lock);

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts)
		hal_context_abandon(hal_list_entry(n, struct hal_context, node));
	pthread_mutex_unlock(&dev->lock);
	hal_memory_del_device(dev);
}

/* ---- questions ---------------------------------------------------------------------- */

/**
 * hal_device_usable() - whether a device takes work
 * @dev: the device
 * @op: for the error record
 *
 * Return: 0, -ENODEV (lost), -ESHUTDOWN (stopped), -EIO (faulted).
 */
int hal_device_usable(struct hal_device *dev, const char *op)
{
	const char *cause;
	int rc;

	switch (hal_load_relaxed(&dev->state)) {
	case HAL_DEVICE_OPEN:
		return 0;
	case HAL_DEVICE_FAULTED:
		cause = hal_errno_name(hal_load_acquire(&dev->cause));
		rc = hal_fail_at(-EIO, op, dev, 0, "device %d has a fault: %s", dev->ordinal,
				 cause ? cause : "?");
		return hal_hint(rc, "npu_device_restart() mends it; npu_device_get_health() says "
				"more");
	case HAL_DEVICE_STOPPED:
		rc = hal_fail_at(-ESHUTDOWN, op, dev, 0, "device %d is stopped", dev->ordinal);
		return hal_hint(rc, "npu_device_restart() makes it usable again");
	default:
		rc = hal_fail_at(-ENODEV, op, dev, 0, "device %d is lost", dev->ordinal);
		return hal_hint(rc, "npu_device_reset() closes it; the next use looks for it anew");
	}
}

/* Questions are answered in every state but LOST. */
static int there(struct hal_device *dev, const char *op)
{
	if (hal_load_relaxed(&dev->state) != HAL_DEVICE_LOST)
		return 0;
	return hal_device_usable(dev, op);
}

/**
 * hal_device_mem_info() - memory of a device
 * @dev: the device
 * @mi: out: total, free, used by this process
 *
 * Return: 0, -EOPNOTSUPP (no memory), -ENODEV (lost), or as the driver fails.
 */
int hal_device_mem_info(struct hal_device *dev, struct hal_mem_info *mi)
{
	int rc;

	*mi = (struct hal_mem_info){ 0 };
	rc = hal_need(dev, NPU_CAP_MEM, "mem_info");
	if (rc)
		return rc;
	rc = there(dev, "mem_info");
	if (rc)
		return rc;
	rc = dev->drv->device->mem_info(dev, mi);
	mi->used = hal_load_relaxed(&dev->mem_used);
	return rc;
}

/**
 * hal_device_utilization() - how busy the cores were of late
 * @dev: the device
 * @percent: out: 0 to 100
 *
 * Return: 0, -EOPNOTSUPP, -ENODEV (lost), or as the driver fails.
 */
int hal_device_utilization(struct hal_device *dev, uint32_t *percent)
{
	int rc;

	*percent = 0;
	if (!dev->drv->device->utilization)
		return hal_fail_at(-EOPNOTSUPP, "utilization", dev, 0,
				   "device %d (%s) does not tell", dev->ordinal, dev->info.name);
	rc = there(dev, "utilization");
	return rc ? rc : dev->drv->device->utilization(dev, percent);
}

/**
 * hal_device_time() - the device's clock
 * @dev: the device
 * @ns: out: its time
 *
 * Return: 0, -EOPNOTSUPP, -ENODEV (lost), or as the driver fails.
 */
int hal_device_time(struct hal_device *dev, uint64_t *ns)
{
	int rc;

	*ns = 0;
	rc = hal_need(dev, NPU_CAP_EVENT_TIMING, "device_time");
	if (!rc)
		rc = there(dev, "device_time");
	return rc ? rc : dev->drv->device->time(dev, ns);
}

/**
 * hal_device_peer() - whether copies between two devices can be direct
 * @dev: one
 * @other: the other, of the same driver
 * @can: out: whether
 *
 * Return: 0, -EXDEV (another driver), -ENODEV (one is lost), or as the driver fails.
 */
int hal_device_peer(struct hal_device *dev, struct hal_device *other, bool *can)
{
	int rc;

	*can = false;
	if (dev->drv != other->drv)
		return hal_fail_at(-EXDEV, "device_peer", dev, 0, "drivers %s and %s",
				   dev->drv->name, other->drv->name);
	rc = there(dev, "device_peer");
	if (!rc)
		rc = there(other, "device_peer");
	if (rc || !hal_device_can(dev, NPU_CAP_PEER) || !dev->drv->device->peer)
		return rc;
	return dev->drv->device->peer(dev, other, can);
}
