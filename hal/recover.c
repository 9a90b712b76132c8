// SPDX-License-Identifier: MIT
/*
 * Faults of devices, and how they are mended: stop, restart, health.
 *
 * The state of a device is one word, which submissions read anyway. Whoever
 * changes it marks the streams, so that queries and waits, which only look at their
 * stream's slot, find that there is something to say.
 */
#include <stdio.h>
#include <string.h>

#include "hal/internal.h"

static hal_state_fn *_Atomic state_hook;

/**
 * hal_set_state_hook() - who is told of changes of state of open devices
 * @hook: the function, or NULL
 */
void hal_set_state_hook(hal_state_fn *hook)
{
	hal_store_release(&state_hook, hook);
}

/* What fails on the way to something else is not the thread's failure. */
static void record_restore(const struct hal_error *before)
{
	struct hal_tls *t = hal_tls_peek();

	if (t)
		t->error = *before;
}

/* ---- changes of state -------------------------------------------------------------- */

/* What a device can become without anybody asking for it. */
static bool worse(uint32_t from, uint32_t to)
{
	if (to == HAL_DEVICE_LOST)
		return from != HAL_DEVICE_LOST;
	return to == HAL_DEVICE_FAULTED &&
	       (from == HAL_DEVICE_OPEN || from == HAL_DEVICE_CLOSED);
}

/* The first one stays. */
static void note_cause(struct hal_device *dev, int cause)
{
	int none = 0;

	atomic_compare_exchange_strong(&dev->cause, &none, cause);
}

/**
 * hal_device_report() - a driver has found its device in another state
 * @dev: the device
 * @state: HAL_DEVICE_FAULTED or HAL_DEVICE_LOST
 * @cause: negative errno
 */
void hal_device_report(struct hal_device *dev, uint32_t state, int cause)
{
	uint32_t from = hal_load_acquire(&dev->state);

	if (!worse(from, state))
		return;
	/* before the state, so that who sees that finds the cause */
	note_cause(dev, cause);
	while (worse(from, state) && !atomic_compare_exchange_weak(&dev->state, &from, state))
		;
}

/*
 * Marks all streams. Behind it no submission is on its way that has seen the old
 * state, as the submit lock of each stream was taken.
 */
static void mark_streams(struct hal_device *dev, bool stop)
{
	struct hal_list *n, *k;

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts) {
		struct hal_context *ctx = hal_list_entry(n, struct hal_context, node);

		pthread_mutex_lock(&ctx->lock);
		hal_list_for_each(k, &ctx->streams)
			hal_stream_mark_state(hal_list_entry(k, struct hal_stream, node), stop);
		pthread_mutex_unlock(&ctx->lock);
	}
	pthread_mutex_unlock(&dev->lock);
}

static void tell(struct hal_device *dev, uint32_t from, uint32_t to)
{
	hal_state_fn *hook = hal_load_acquire(&state_hook);
	struct hal_error before = *hal_error_last();

	if (!hook)
		return;
	hook(dev, from, to, hal_load_acquire(&dev->cause));
	record_restore(&before);
}

/* Marks streams and tells the hook, once for each change. With no lock held. */
static void settle(struct hal_device *dev)
{
	uint32_t from, to;

	from = hal_load_acquire(&dev->told);
	do {
		to = hal_load_acquire(&dev->state);
		if (from == to)
			return;
	} while (!atomic_compare_exchange_weak(&dev->told, &from, to));
	mark_streams(dev, false);
	tell(dev, from, to);
}

/* A fault of an earlier generation, or one that is being mended, is no news. */
static void note(struct hal_device *dev, uint64_t generation, int rc, const struct hal_health *h)
{
	if (rc == -ENODEV || (!rc && h->state == HAL_DEVICE_LOST))
		hal_device_report(dev, HAL_DEVICE_LOST, -ENODEV);
	if (rc || h->state != HAL_DEVICE_FAULTED)
		return;
	pthread_mutex_lock(&dev->lock);
	if (!dev->recovering && hal_load_acquire(&dev->generation) == generation)
		hal_device_report(dev, HAL_DEVICE_FAULTED, h->cause ? h->cause : -EIO);
	pthread_mutex_unlock(&dev->lock);
}

/* Asks the driver; what it fills in the thread's record is not kept. */
static int ask(struct hal_device *dev, struct hal_health *h)
{
	const struct hal_device_ops *ops = dev->drv->device;
	struct hal_error before = *hal_error_last();
	uint64_t generation = hal_load_acquire(&dev->generation);
	int rc;

	memset(h, 0, sizeof(*h));
	h->state = hal_load_acquire(&dev->state);
	if (!ops->health || h->state == HAL_DEVICE_LOST)
		return 0;
	rc = ops->health(dev, h);
	record_restore(&before);
	note(dev, generation, rc, h);
	return rc;
}

/**
 * hal_device_look() - ask the driver how the device is, and tell those who want to know
 * @dev: the device
 */
void hal_device_look(struct hal_device *dev)
{
	struct hal_health h;

	ask(dev, &h);
	settle(dev);
}

bool hal_fault_code(int code)
{
	switch (code) {
	case -EIO:
	case -EHWPOISON:
	case -ENODEV:
	case -ENOLINK:
	case -EREMOTEIO:
	case -ETIME:
	case -ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/**
 * hal_device_health() - how a device is
 * @dev: the device
 * @h: out: its health; state and cause as hal sees them
 */
void hal_device_health(struct hal_device *dev, struct hal_health *h)
{
	int cause;

	ask(dev, h);
	settle(dev);
	h->state = hal_load_acquire(&dev->state);
	h->cause = hal_load_acquire(&dev->cause);
	cause = h->cause;
	if (h->text[0])
		return;
	if (hal_load_relaxed(&dev->hung))
		snprintf(h->text, sizeof(h->text), "device %d: its work does not end",
			 dev->ordinal);
	else if (cause)
		snprintf(h->text, sizeof(h->text), "device %d: first fault %s", dev->ordinal,
			 hal_errno_name(cause) ? hal_errno_name(cause) : "?");
	else
		snprintf(h->text, sizeof(h->text), "device %d: no fault", dev->ordinal);
}

/* ---- one at a time ----------------------------------------------------------------- */

/* Makes the caller the one that stops or restarts; false: not before the deadline. */
static bool begin(struct hal_device *dev, uint64_t deadline)
{
	bool ok = true;

	pthread_mutex_lock(&dev->lock);
	while (ok && dev->recovering)
		ok = hal_cond_wait_until(&dev->recovered, &dev->lock, deadline);
	if (ok)
		dev->recovering = true;
	pthread_mutex_unlock(&dev->lock);
	return ok;
}

static void end(struct hal_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	dev->recovering = false;
	pthread_cond_broadcast(&dev->recovered);
	pthread_mutex_unlock(&dev->lock);
	settle(dev);
}

/* What stop and restart have in common before they begin. */
static int may_recover(struct hal_device *dev, const char *op, uint64_t deadline)
{
	int rc = hal_may_block(op);

	if (!rc)
		rc = hal_need(dev, NPU_CAP_ABORT, op);
	if (rc)
		return rc;
	if (!begin(dev, deadline))
		return hal_hint(hal_fail_at(-ETIMEDOUT, op, dev, 0, "device %d is being stopped or "
					    "restarted by another thread", dev->ordinal),
				"Let that thread do it, or wait longer for it.");
	return 0;
}

/* ---- stop ---------------------------------------------------------------------------- */

/* From OPEN or FAULTED; 0: it was neither. */
static uint32_t go_to_stopped(struct hal_device *dev)
{
	uint32_t from = hal_load_acquire(&dev->state);

	while (from == HAL_DEVICE_OPEN || from == HAL_DEVICE_FAULTED) {
		if (atomic_compare_exchange_weak(&dev->state, &from, HAL_DEVICE_STOPPED))
			return from;
	}
	return 0;
}

static int stop(struct hal_device *dev, const char *op, uint64_t deadline)
{
	uint32_t was = HAL_DEVICE_STOPPED, fills;
	int rc;

	if (!go_to_stopped(dev))
		return hal_load_acquire(&dev->state) == HAL_DEVICE_STOPPED ? 0 :
		       hal_device_usable(dev, op);
	mark_streams(dev, true);
	hal_events_cut_device(dev);
	fills = hal_fills();
	rc = dev->drv->device->stop(dev, deadline);
	if (!rc && hal_load_acquire(&dev->state) == HAL_DEVICE_STOPPED)
		return 0;
	if (!rc) {
		/* lost meanwhile, or given up: whoever opens it next finds it well */
		dev->drv->device->restart(dev, 0);
		return hal_device_usable(dev, op);
	}
	if (rc == -ETIMEDOUT) {
		hal_store_release(&dev->hung, true);
		hal_device_report(dev, HAL_DEVICE_LOST, -ETIME);
		return hal_hint(hal_fail_at(rc, op, dev, 0, "device %d: work on it does not end: "
					    "it is lost", dev->ordinal),
				"npu_device_reset() gives it up; the next use opens it as new.");
	}
	hal_driver_failed(rc, op, dev, fills);
	note_cause(dev, rc);
	if (rc == -ENODEV)
		hal_device_report(dev, HAL_DEVICE_LOST, rc);
	else
		/* it can be tried again */
		atomic_compare_exchange_strong(&dev->state, &was, HAL_DEVICE_FAULTED);
	return rc;
}

/**
 * hal_device_stop() - stop all work on a device
 * @dev: the device
 * @timeout_ms: how long what runs may take to end
 *
 * Return: 0, -ETIMEDOUT (the device is LOST; or another thread stops or restarts it), -EOPNOTSUPP,
 * -ENODEV, -EDEADLK, or as the driver fails: the device is FAULTED then.
 */
int hal_device_stop(struct hal_device *dev, int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	int rc;

	rc = may_recover(dev, "device_stop", deadline);
	if (rc)
		return rc;
	rc = stop(dev, "device_stop", deadline);
	end(dev);
	return rc;
}

/* ---- restart --------------------------------------------------------------------------- */

#define POISON_MAX 64u

/**
 * struct spoilt - memory that is unsafe after a restart
 * @list: ranges
 * @n: how many
 * @all: all of the device's
 */
struct spoilt {
	struct hal_poison list[POISON_MAX];
	uint32_t n;
	bool all;
};

/* Before the restart, which mends it. */
static void ask_spoilt(struct hal_device *dev, uint32_t flags, struct spoilt *p)
{
	bool ecc = hal_load_acquire(&dev->cause) == -EHWPOISON;
	int n;

	p->n = 0;
	p->all = ecc && !(flags & HAL_RESTART_KEEP_DATA);
	if (p->all)
		return;
	n = dev->drv->device->poison ? dev->drv->device->poison(dev, p->list, POISON_MAX) :
	    ecc ? -ENOSYS : 0;
	if (n < 0 || n > (int)POISON_MAX)
		p->all = true;
	else
		p->n = (uint32_t)n;
}

static int try_restart(struct hal_device *dev, uint64_t deadline)
{
	uint32_t attempt;
	int rc = 0;

	for (attempt = 0; attempt < HAL_RESTART_TRIES; attempt++) {
		rc = dev->drv->device->restart(dev, attempt);
		if (!rc || rc == -ENODEV)
			break;
		hal_warn(HAL_LOG_CORE, "device %d: restart, attempt %u: %s", dev->ordinal,
			 attempt + 1, hal_errno_name(rc) ? hal_errno_name(rc) : "?");
		if (attempt + 1 < HAL_RESTART_TRIES && hal_sys_now() >= deadline)
			return hal_hint(hal_fail_at(-ETIMEDOUT, "device_restart", dev, 0,
						    "device %d did not come back in time: it stays "
						    "stopped", dev->ordinal),
					"Restart it again, with more time; npu_device_reset() "
					"closes it.");
	}
	if (!rc)
		return 0;
	hal_device_report(dev, HAL_DEVICE_LOST, rc);
	return hal_fail_at(-ENODEV, "device_restart", dev, 0,
			   "device %d is lost: %u attempts to restart it failed: %s", dev->ordinal,
			   attempt < HAL_RESTART_TRIES ? attempt + 1 : attempt,
			   hal_errno_name(rc) ? hal_errno_name(rc) : "?");
}

/* The next generation begins. */
static int come_back(struct hal_device *dev, const struct spoilt *p)
{
	uint32_t was = HAL_DEVICE_STOPPED;

	atomic_fetch_add(&dev->generation, 1);
	hal_streams_expire(dev);
	if (p->all)
		hal_memory_spoil(dev, 0, UINT64_MAX);
	else
		hal_memory_spoil_list(dev, p->list, p->n);
	hal_store_release(&dev->cause, 0);
	if (atomic_compare_exchange_strong(&dev->state, &was, HAL_DEVICE_OPEN))
		return 0;
	return hal_device_usable(dev, "device_restart");
}

static int restart(struct hal_device *dev, uint32_t flags, uint64_t deadline)
{
	struct spoilt p;
	int rc;

	if (hal_load_acquire(&dev->state) == HAL_DEVICE_OPEN)
		return hal_hint(hal_fail_at(-EBUSY, "device_restart", dev, 0,
					    "device %d is at work: stop it first", dev->ordinal),
				"npu_device_stop() first, which ends all its work.");
	rc = stop(dev, "device_restart", deadline);
	if (rc)
		return rc;
	ask_spoilt(dev, flags, &p);
	rc = try_restart(dev, deadline);
	return rc ? rc : come_back(dev, &p);
}

/**
 * hal_device_restart() - make a stopped device usable again
 * @dev: the device
 * @flags: HAL_RESTART_*
 * @timeout_ms: for the whole
 *
 * Return: 0, -EINVAL (unknown flags), -EBUSY, -ENODEV, -ETIMEDOUT, -EOPNOTSUPP, -EDEADLK, or as
 * the driver fails to stop it.
 */
int hal_device_restart(struct hal_device *dev, uint32_t flags, int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	int rc;

	if (flags & ~HAL_RESTART_KEEP_DATA)
		return hal_fail_at(-EINVAL, "device_restart", dev, 0, "flags 0x%x", flags);
	/* it may have a fault that nobody has met yet */
	hal_device_look(dev);
	rc = may_recover(dev, "device_restart", deadline);
	if (rc)
		return rc;
	rc = restart(dev, flags, deadline);
	end(dev);
	return rc;
}
