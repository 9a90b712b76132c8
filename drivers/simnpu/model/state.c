// SPDX-License-Identifier: MIT
/*
 * The state of a device: faults, stop, restart, and devices that are gone.
 *
 * A state is stored first; queues are ended after that, under the device's lock,
 * so that whoever adds a queue under it sees the one or is seen by the other.
 */
#include "drivers/simnpu/model/model.h"

#define FAULT_GRACE_NS	20000000u	/* what a fault waits for tasks to notice it */
#define CHANGE_NAP_NS	200000u

/*
 * Protects: changes of model_device.state, .cause and .generation, which are one thing;
 * model_device.odd, odd_devices.
 */
static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t odd_devices;

_Atomic uint32_t model_changes;

/* As long as a device is in another state than OK, all ioctls look twice. Under state_lock. */
static void enter(struct model_device *dev, uint32_t state)
{
	bool odd = state != SIMNPU_STATE_OK;

	atomic_store(&dev->state, state);
	atomic_fetch_add(&dev->changed, 1);
	atomic_fetch_add(&model_changes, 1);
	if (odd == dev->odd)
		return;
	dev->odd = odd;
	odd_devices += odd ? 1u : -1u;
	if (odd_devices)
		atomic_fetch_or(&model_odd, MODEL_ODD_STATE);
	else
		atomic_fetch_and(&model_odd, ~MODEL_ODD_STATE);
}

/* In the child of a fork: another thread may have held the lock. */
void model_state_in_child(void)
{
	state_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	odd_devices = 0;
}

/* The device has just been set up, or its last opener has gone. */
void model_state_reset(struct model_device *dev)
{
	struct model_health *h = &dev->health;

	pthread_mutex_lock(&state_lock);
	enter(dev, SIMNPU_STATE_OK);
	atomic_store(&dev->cause, 0);
	hal_store_relaxed(&dev->generation, 0);
	pthread_mutex_unlock(&state_lock);
	hal_store_relaxed(&h->ecc_corrected, 0);
	hal_store_relaxed(&h->ecc_uncorrected, 0);
	hal_store_relaxed(&h->link_errors, 0);
	hal_store_relaxed(&h->hangs, 0);
	hal_store_relaxed(&h->restarts, 0);
}

/* What INFO tells of it, all of one moment. */
void model_state_info(struct model_device *dev, struct simnpu_info *i)
{
	pthread_mutex_lock(&state_lock);
	i->state = atomic_load(&dev->state);
	i->cause = atomic_load(&dev->cause);
	i->generation = hal_load_relaxed(&dev->generation);
	pthread_mutex_unlock(&state_lock);
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

/* From one of some states to another, with the cause if it is the first; false: it was in none. */
static bool change(struct model_device *dev, uint32_t from, uint32_t to, uint32_t cause)
{
	bool changes;

	pthread_mutex_lock(&state_lock);
	changes = from >> atomic_load(&dev->state) & 1;
	if (cause && !atomic_load(&dev->cause))
		atomic_store(&dev->cause, cause);
	if (changes)
		enter(dev, to);
	pthread_mutex_unlock(&state_lock);
	return changes;
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
	if (!change(dev, ~(1u << SIMNPU_STATE_LOST), SIMNPU_STATE_LOST, cause))
		return false;
	model_device_detach(dev);
	return true;
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
	if (!change(dev, 1u << SIMNPU_STATE_OK, SIMNPU_STATE_FAULTED, cause))
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

/* One stop or restart at a time: 0, -EBUSY: another one takes longer than this one has. */
static int changing(struct model_device *dev, uint64_t deadline)
{
	uint64_t now;

	while (pthread_mutex_trylock(&dev->change_lock)) {
		now = hal_sys_now();
		if (now >= deadline)
			return -EBUSY;
		hal_sys_futex_wait(&dev->bell, atomic_load(&dev->bell), now + CHANGE_NAP_NS);
	}
	return 0;
}

/* Copies that are no tasks: 0, -ETIME. */
static int copies_end(struct model_device *dev, uint64_t deadline)
{
	uint32_t n;

	/* acquire: what they wrote is seen */
	while ((n = hal_load_acquire(&dev->copies)) &&
	       atomic_load(&dev->state) == SIMNPU_STATE_STOPPED) {
		if (hal_sys_now() >= deadline)
			return -ETIME;
		hal_sys_futex_wait(&dev->copies, n, hal_sys_now() + CHANGE_NAP_NS);
	}
	return 0;
}

/* Ends what a device that says that it is stopped still does. */
static int stop(struct model_device *dev, uint64_t deadline)
{
	int rc = model_halt_device(dev, ECANCELED, NULL, deadline);

	if (!rc)
		rc = copies_end(dev, deadline);
	/* it was unplugged meanwhile */
	if (atomic_load(&dev->state) == SIMNPU_STATE_LOST)
		return -ENODEV;
	if (!rc)
		return 0;
	hal_err(HAL_LOG_MODEL, "simnpu%u: a task does not end: the device is lost", dev->index);
	pthread_mutex_lock(&dev->lock);
	dev->hung = true;
	pthread_mutex_unlock(&dev->lock);
	model_state_lost(dev, ETIME);
	return rc;
}

/* SIMNPU_IOCTL_DEVICE_STOP. */
int model_device_stop(struct model_file *f, const struct simnpu_stop *arg)
{
	const uint32_t from = 1u << SIMNPU_STATE_OK | 1u << SIMNPU_STATE_FAULTED;
	struct model_device *dev = f->dev;
	uint64_t deadline = deadline_of(arg);
	int rc = changing(dev, deadline);

	if (rc)
		return rc;
	if (change(dev, from, SIMNPU_STATE_STOPPED, 0))
		rc = stop(dev, deadline);
	else if (atomic_load(&dev->state) == SIMNPU_STATE_LOST)
		rc = -ENODEV;
	pthread_mutex_unlock(&dev->change_lock);
	return rc;
}

/* SIMNPU_IOCTL_DEVICE_RESTART: nothing of it takes time. */
int model_device_restart(struct model_file *f, const struct simnpu_stop *arg)
{
	struct model_device *dev = f->dev;
	int rc = changing(dev, deadline_of(arg));

	if (rc)
		return rc;
	pthread_mutex_lock(&state_lock);
	if (atomic_load(&dev->state) != SIMNPU_STATE_STOPPED) {
		rc = atomic_load(&dev->state) == SIMNPU_STATE_LOST ? -ENODEV : -EBUSY;
	} else {
		model_poison_clear(&dev->mem);
		atomic_store(&dev->cause, 0);
		hal_add_relaxed(&dev->generation, 1);
		hal_add_relaxed(&dev->health.restarts, 1);
		enter(dev, SIMNPU_STATE_OK);
	}
	pthread_mutex_unlock(&state_lock);
	pthread_mutex_unlock(&dev->change_lock);
	return rc;
}
