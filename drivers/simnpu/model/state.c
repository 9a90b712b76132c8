// SPDX-License-Identifier: MIT
/*
 * The state of a device: faults, stop, restart, and devices that are gone.
 *
 * A state is stored first; queues are ended after that, under the device's lock,
 * so that whoever adds a queue under it sees the one or is seen by the other.
 */
#include "drivers/simnpu/model/model.h"

#define FAULT_GRACE_NS 20000000u	/* what a fault waits for tasks to notice it */

/* Protects: model_device.odd, odd_devices. */
static pthread_mutex_t odd_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t odd_devices;

/* As long as a device is in another state than OK, all ioctls look twice. */
static void note_odd(struct model_device *dev, bool odd)
{
	pthread_mutex_lock(&odd_lock);
	if (odd != dev->odd) {
		dev->odd = odd;
		odd_devices += odd ? 1u : -1u;
		if (odd_devices)
			atomic_fetch_or(&model_odd, MODEL_ODD_STATE);
		else
			atomic_fetch_and(&model_odd, ~MODEL_ODD_STATE);
	}
	pthread_mutex_unlock(&odd_lock);
}

/* In the child of a fork: another thread may have held the lock. */
void model_state_in_child(void)
{
	odd_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	odd_devices = 0;
}

/* The device has just been set up, or its last opener has gone. */
void model_state_reset(struct model_device *dev)
{
	struct model_health *h = &dev->health;

	atomic_store(&dev->state, SIMNPU_STATE_OK);
	atomic_store(&dev->cause, 0);
	hal_store_relaxed(&dev->generation, 0);
	hal_store_relaxed(&h->ecc_corrected, 0);
	hal_store_relaxed(&h->ecc_uncorrected, 0);
	hal_store_relaxed(&h->link_errors, 0);
	hal_store_relaxed(&h->hangs, 0);
	hal_store_relaxed(&h->restarts, 0);
	note_odd(dev, false);
}

/* What work answers that the state of a device does not allow: 0 or a negative errno. */
int model_state_refuse(const struct model_device *dev)
{
	switch (atomic_load(&dev->state)) {
	case SIMNPU_STATE_OK:
		return 0;
	case SIMNPU_STATE_FAULTED:
		return -EIO;
	case SIMNPU_STATE_STOPPED:
		return -ESHUTDOWN;
	default:
		return -ENODEV;
	}
}

static void first_cause(struct model_device *dev, uint32_t cause)
{
	uint32_t none = 0;

	atomic_compare_exchange_strong(&dev->cause, &none, cause);
}

/* From one state to another; false: it was not in that one. */
static bool change(struct model_device *dev, uint32_t from, uint32_t to)
{
	if (!atomic_compare_exchange_strong(&dev->state, &from, to))
		return false;
	note_odd(dev, to != SIMNPU_STATE_OK);
	return true;
}

/**
 * model_state_lost() - a device is lost from now on
 * @dev: the device
 * @cause: why, a positive errno
 *
 * Who opens its node from now on gets another device, or none.
 * Context: any. Return: false: it was before.
 */
bool model_state_lost(struct model_device *dev, uint32_t cause)
{
	bool changed;

	if (atomic_load(&dev->state) == SIMNPU_STATE_LOST)
		return false;
	first_cause(dev, cause);
	changed = change(dev, SIMNPU_STATE_OK, SIMNPU_STATE_LOST) ||
		  change(dev, SIMNPU_STATE_FAULTED, SIMNPU_STATE_LOST) ||
		  change(dev, SIMNPU_STATE_STOPPED, SIMNPU_STATE_LOST);
	model_device_detach(dev);
	return changed;
}

static void count_cause(struct model_device *dev, uint32_t cause)
{
	if (cause == ENOLINK)
		hal_add_relaxed(&dev->health.link_errors, 1);
	else if (cause == ETIME || cause == EREMOTEIO)
		hal_add_relaxed(&dev->health.hangs, 1);
	else if (cause == EHWPOISON)
		hal_add_relaxed(&dev->health.ecc_uncorrected, 1);
}

static void end_queues(struct model_device *dev, uint32_t code, const struct model_origin *origin,
		       struct model_queue *own)
{
	if (own && own->dev == dev) {
		model_halt_begin(own, code, origin);
		model_halt(own);
	}
	model_halt_device(dev, code, origin, hal_sys_now() + FAULT_GRACE_NS);
}

/**
 * model_fault_mark() - a device has a fault, and says so from now on
 * @dev: the device
 * @cause: a positive errno, as of simnpu_info.cause; not ENODEV
 *
 * For who has to tell of a failure first: whoever learns of that finds the device as it is.
 * Context: any. Return: whether model_fault_end() is due.
 */
bool model_fault_mark(struct model_device *dev, uint32_t cause)
{
	count_cause(dev, cause);
	first_cause(dev, cause);
	if (!change(dev, SIMNPU_STATE_OK, SIMNPU_STATE_FAULTED))
		return false;
	hal_warn(HAL_LOG_MODEL, "simnpu%u: fault: errno %u", dev->index, cause);
	return true;
}

/**
 * model_fault_end() - end the queues of a device that was marked
 * @dev: the device
 * @origin: the task that met the fault, or NULL
 * @own: the queue that the caller has claimed, or NULL; it is ended as all others are
 *
 * Context: no lock.
 */
void model_fault_end(struct model_device *dev, const struct model_origin *origin,
		     struct model_queue *own)
{
	struct model_origin o;

	if (origin) {
		o = *origin;
		o.code = EIO;
		origin = &o;
	}
	end_queues(dev, EIO, origin, own);
}

/**
 * model_device_fault() - the hardware has a fault
 * @dev: the device
 * @cause: a positive errno, as of simnpu_info.cause; ENODEV: it is unplugged
 * @origin: the task that met it, or NULL
 * @own: the queue that the caller has claimed, or NULL; it is ended as all others are
 *
 * Context: no lock.
 */
void model_device_fault(struct model_device *dev, uint32_t cause,
			const struct model_origin *origin, struct model_queue *own)
{
	struct model_origin o;

	if (cause != ENODEV) {
		if (model_fault_mark(dev, cause))
			model_fault_end(dev, origin, own);
		return;
	}
	if (origin) {
		o = *origin;
		o.code = ENODEV;
		origin = &o;
	}
	if (!model_state_lost(dev, cause))
		return;
	hal_warn(HAL_LOG_MODEL, "simnpu%u: unplugged", dev->index);
	end_queues(dev, ENODEV, origin, own);
}

static uint64_t deadline_of(const struct simnpu_stop *arg)
{
	return arg->deadline_ns ? arg->deadline_ns : hal_sys_now() + MODEL_HUNG_NS;
}

/* SIMNPU_IOCTL_DEVICE_STOP. */
int model_device_stop(struct model_file *f, const struct simnpu_stop *arg)
{
	struct model_device *dev = f->dev;
	int rc = 0;

	pthread_mutex_lock(&dev->change_lock);
	if (!change(dev, SIMNPU_STATE_OK, SIMNPU_STATE_STOPPED) &&
	    !change(dev, SIMNPU_STATE_FAULTED, SIMNPU_STATE_STOPPED)) {
		/* stopped before, or lost */
		rc = atomic_load(&dev->state) == SIMNPU_STATE_STOPPED ? 0 : -ENODEV;
		goto unlock;
	}
	rc = model_halt_device(dev, ECANCELED, NULL, deadline_of(arg));
	if (rc) {
		hal_err(HAL_LOG_MODEL, "simnpu%u: a task does not end: the device is lost",
			dev->index);
		pthread_mutex_lock(&dev->lock);
		dev->hung = true;
		pthread_mutex_unlock(&dev->lock);
		model_state_lost(dev, ETIME);
	}
unlock:
	pthread_mutex_unlock(&dev->change_lock);
	return rc;
}

/* SIMNPU_IOCTL_DEVICE_RESTART: nothing of it takes time. */
int model_device_restart(struct model_file *f, const struct simnpu_stop *arg)
{
	struct model_device *dev = f->dev;
	int rc = 0;

	(void)arg;
	pthread_mutex_lock(&dev->change_lock);
	if (atomic_load(&dev->state) != SIMNPU_STATE_STOPPED) {
		rc = atomic_load(&dev->state) == SIMNPU_STATE_LOST ? -ENODEV : -EBUSY;
		goto unlock;
	}
	model_poison_clear(&dev->mem);
	atomic_store(&dev->cause, 0);
	hal_add_relaxed(&dev->generation, 1);
	hal_add_relaxed(&dev->health.restarts, 1);
	if (!change(dev, SIMNPU_STATE_STOPPED, SIMNPU_STATE_OK))
		rc = -ENODEV;	/* it was unplugged meanwhile */
unlock:
	pthread_mutex_unlock(&dev->change_lock);
	return rc;
}
