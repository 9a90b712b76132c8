// SPDX-License-Identifier: MIT
/*
 * Drivers: the registered ones, which one is meant, bringing one up, and
 * whether one has the ops that its devices' capabilities ask for.
 */
#include <stdio.h>
#include <string.h>

#include "hal/fork.h"
#include "hal/internal.h"

#define UP_MAX 16

/* The section that hal_driver_register() fills; absent when there is no driver at all. */
extern const struct hal_driver *const __start_hal_drivers[]
	__attribute__((weak, visibility("hidden")));
extern const struct hal_driver *const __stop_hal_drivers[]
	__attribute__((weak, visibility("hidden")));

static unsigned int driver_count(void)
{
	return (unsigned int)(__stop_hal_drivers - __start_hal_drivers);
}

/* The i-th registered driver, or NULL. */
const struct hal_driver *hal_driver_at(unsigned int i)
{
	return i < driver_count() ? __start_hal_drivers[i] : NULL;
}

/* The driver of a name, or NULL. */
const struct hal_driver *hal_driver_find(const char *name)
{
	const struct hal_driver *d;
	unsigned int i;

	for (i = 0; (d = hal_driver_at(i)); i++)
		if (!strcmp(d->name, name))
			return d;
	return NULL;
}

static int no_such_driver(const char *name)
{
	char list[128] = "";
	const struct hal_driver *d;
	unsigned int i;
	size_t n = 0;

	for (i = 0; (d = hal_driver_at(i)) && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, " %s", d->name);
	return hal_fail(-EINVAL, "driver", "there is no driver \"%s\"; there are:%s", name,
			i ? list : " none");
}

/**
 * hal_driver_choose() - the driver that a name, or the default, means
 * @name: a driver's name, or NULL or ""
 * @drv: out: the driver
 *
 * Return: 0, -EINVAL (no such driver), -ENODEV (none has a device), or why a driver could not ask.
 */
int hal_driver_choose(const char *name, const struct hal_driver **drv)
{
	const struct hal_driver *d, *best = NULL;
	struct hal_error why = { 0 };
	unsigned int i;
	int rc, failed = 0;
	uint32_t n;

	*drv = NULL;
	if (name && name[0]) {
		d = hal_driver_find(name);
		if (!d)
			return no_such_driver(name);
		*drv = d;
		return 0;
	}
	for (i = 0; (d = hal_driver_at(i)); i++) {
		if (!d->rank || (best && best->rank >= d->rank))
			continue;
		n = 0;
		rc = d->ops->count(&n);
		if (!rc && n)
			best = d;
		if (rc && !failed) {
			failed = rc;
			why = *hal_error_last();
		}
	}
	if (!best && failed) {
		/* one may be there; this is what to mend */
		hal_fail_record(&why);
		return failed;
	}
	if (!best)
		return hal_fail(-ENODEV, "driver", "no driver finds a device");
	*drv = best;
	return 0;
}

/**
 * hal_driver_count() - how many devices a driver finds
 * @drv: the driver, up or not
 * @n: out: how many
 *
 * Return: 0, or as the driver fails.
 */
int hal_driver_count(const struct hal_driver *drv, uint32_t *n)
{
	*n = 0;
	return drv->ops->count(n);
}

/**
 * hal_driver_info() - what a device is
 * @drv: its driver, up or not
 * @index: which device
 * @info: out: what it is
 *
 * Return: 0, -ENODEV (there is no such device), or as the driver fails.
 */
int hal_driver_info(const struct hal_driver *drv, uint32_t index, struct hal_device_info *info)
{
	int rc;

	memset(info, 0, sizeof(*info));
	rc = drv->ops->info(index, info);
	if (rc == -ENODEV)
		return hal_fail(rc, "device_info", "driver %s has no device %u", drv->name, index);
	return rc;
}

/* ---- up and down --------------------------------------------------------------- */

/*
 * up_lock Protects: ups. While busy is set, one thread is inside ->init or
 * ->fini without the lock, and the others wait for up_cond.
 */
static pthread_mutex_t up_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t up_cond = PTHREAD_COND_INITIALIZER;
static struct up {
	const struct hal_driver *drv;
	uint32_t count;
	bool busy;
} ups[UP_MAX];

/* The driver's entry, a free one for a new driver, NULL: all are taken. */
static struct up *up_of_locked(const struct hal_driver *drv)
{
	struct up *u, *unused = NULL;

	for (u = ups; u < ups + UP_MAX; u++) {
		if (u->drv == drv)
			return u;
		if (!u->drv && !unused)
			unused = u;
	}
	if (unused)
		unused->drv = drv;
	return unused;
}

/**
 * hal_driver_up() - bring a driver up; counted
 * @drv: the driver
 *
 * Return: 0, -EPROTO (made for another HAL_DRIVER_ABI), -ENOSPC, or as the driver fails.
 */
int hal_driver_up(const struct hal_driver *drv)
{
	struct up *u;
	int rc = 0;

	if (drv->abi != HAL_DRIVER_ABI || !drv->ops || !drv->device)
		return hal_fail(-EPROTO, "driver", "driver %s has interface %u, not %u",
				drv->name, drv->abi, HAL_DRIVER_ABI);
	pthread_mutex_lock(&up_lock);
	u = up_of_locked(drv);
	while (u && u->busy)
		pthread_cond_wait(&up_cond, &up_lock);
	if (u && !u->count) {
		u->busy = true;
		pthread_mutex_unlock(&up_lock);
		rc = hal_fork_arm();
		if (!rc) {
			rc = drv->ops->init();
			if (rc)
				hal_fork_disarm();
		}
		pthread_mutex_lock(&up_lock);
		u->busy = false;
		pthread_cond_broadcast(&up_cond);
	}
	if (u && !rc)
		u->count++;
	pthread_mutex_unlock(&up_lock);
	if (!u)
		return hal_fail(-ENOSPC, "driver", "more than %d drivers", UP_MAX);
	return rc;
}

/**
 * hal_driver_down() - the opposite; the last one closes the driver
 * @drv: the driver, which is up
 */
void hal_driver_down(const struct hal_driver *drv)
{
	struct up *u;

	pthread_mutex_lock(&up_lock);
	u = up_of_locked(drv);
	while (u->busy)
		pthread_cond_wait(&up_cond, &up_lock);
	if (u->count == 1) {
		u->busy = true;
		pthread_mutex_unlock(&up_lock);
		drv->ops->fini();
		hal_fork_disarm();
		pthread_mutex_lock(&up_lock);
		u->busy = false;
		pthread_cond_broadcast(&up_cond);
	}
	u->count--;
	pthread_mutex_unlock(&up_lock);
}

/*
 * In the child of a fork: what drivers that were up want to close. The parent's
 * other threads are gone, and with them whoever held the lock: it isn't taken.
 */
void hal_driver_fork_child(void)
{
	struct up *u;

	for (u = ups; u < ups + UP_MAX; u++)
		if (u->drv && (u->count || u->busy) && u->drv->ops->fork_child)
			u->drv->ops->fork_child();
}

/* ---- what capabilities ask for ------------------------------------------------------ */

struct need {
	uint64_t cap;		/* 0: always */
	uint64_t also;		/* only with this one, too */
	size_t ops;		/* where the ops are in struct hal_driver */
	size_t op;		/* where the op is in them */
	const char *name;
};

#define NEED(cap, kind, member) NEED2(cap, 0, kind, member)
#define NEED2(cap, also, kind, member)							\
	{ (cap), (also), offsetof(struct hal_driver, kind),				\
	  offsetof(struct hal_##kind##_ops, member), #kind "->" #member }

static const struct need needs[] = {
	NEED(0, device, init),
	NEED(0, device, fini),
	NEED(0, device, context_init),
	NEED(0, device, context_fini),
	NEED(0, device, mem_info),
	NEED(NPU_CAP_EVENT_TIMING, device, time),
	NEED(NPU_CAP_ABORT, device, stop),
	NEED(NPU_CAP_ABORT, device, restart),
	NEED(NPU_CAP_STREAM, stream, init),
	NEED(NPU_CAP_STREAM, stream, fini),
	NEED(NPU_CAP_STREAM, stream, wait),
	NEED(NPU_CAP_STREAM, stream, prepare),
	NEED(NPU_CAP_STREAM, stream, wait_host),
	NEED(NPU_CAP_STREAM, stream, errors),
	NEED2(NPU_CAP_STREAM, NPU_CAP_LAUNCH, stream, launch),
	NEED2(NPU_CAP_STREAM, NPU_CAP_MEM, stream, copy),
	NEED2(NPU_CAP_STREAM, NPU_CAP_MEM, stream, fill),
	NEED2(NPU_CAP_STREAM, NPU_CAP_EVENT_TIMING, stream, record),
	NEED2(NPU_CAP_STREAM, NPU_CAP_CALLBACK, stream, callback),
	NEED2(NPU_CAP_STREAM, NPU_CAP_HOST_TASK, stream, host),
	NEED2(NPU_CAP_STREAM, NPU_CAP_HOST_TASK, stream, host_done),
	NEED2(NPU_CAP_STREAM, NPU_CAP_COMPLETION_FD, stream, notify),
	NEED2(NPU_CAP_STREAM, NPU_CAP_ABORT, stream, abort),
	NEED(NPU_CAP_EVENT_TIMING, event, init),
	NEED(NPU_CAP_EVENT_TIMING, event, fini),
	NEED(NPU_CAP_EVENT_TIMING, event, timestamp),
	NEED(NPU_CAP_IPC_EVENT, event, export_key),
	NEED(NPU_CAP_IPC_EVENT, event, allow),
	NEED(NPU_CAP_IPC_EVENT, event, import_key),
	NEED(NPU_CAP_IPC_EVENT, event, ask),
	NEED(NPU_CAP_IPC_EVENT, event, wait),
	NEED(NPU_CAP_MEM, memory, alloc),
	NEED(NPU_CAP_MEM, memory, free),
	NEED(NPU_CAP_MEM, memory, copy),
	NEED(NPU_CAP_MEM, memory, fill),
	NEED(NPU_CAP_HOST_ALLOC, memory, host_alloc),
	NEED(NPU_CAP_HOST_ALLOC, memory, host_free),
	NEED(NPU_CAP_HOST_REGISTER, memory, host_register),
	NEED(NPU_CAP_HOST_REGISTER, memory, host_unregister),
	NEED(NPU_CAP_IO_WINDOW, memory, window_open),
	NEED(NPU_CAP_IO_WINDOW, memory, window_close),
	NEED(NPU_CAP_VMM, memory, reserve),
	NEED(NPU_CAP_VMM, memory, release),
	NEED(NPU_CAP_VMM, memory, create),
	NEED(NPU_CAP_VMM, memory, destroy),
	NEED(NPU_CAP_VMM, memory, map),
	NEED(NPU_CAP_VMM, memory, unmap),
	NEED(NPU_CAP_VMM, memory, protect),
	NEED2(NPU_CAP_VMM, NPU_CAP_IPC_FD, memory, export_fd),
	NEED2(NPU_CAP_VMM, NPU_CAP_IPC_FD, memory, import_fd),
	NEED2(NPU_CAP_MEM, NPU_CAP_IPC_MEM, memory, export_key),
	NEED2(NPU_CAP_MEM, NPU_CAP_IPC_MEM, memory, allow),
	NEED2(NPU_CAP_MEM, NPU_CAP_IPC_MEM, memory, import_key),
	NEED(NPU_CAP_LAUNCH, kernel, load_builtin),
	NEED(NPU_CAP_LAUNCH, kernel, unload),
	NEED(NPU_CAP_LAUNCH, kernel, get),
	NEED(NPU_CAP_MODULE_FILE, kernel, load_file),
	NEED(NPU_CAP_MODULE_DATA, kernel, load_data),
};

static bool has_op(const struct hal_driver *drv, const struct need *n)
{
	const char *ops;
	void (*op)(void);

	memcpy(&ops, (const char *)drv + n->ops, sizeof(ops));
	if (!ops)
		return false;
	memcpy(&op, ops + n->op, sizeof(op));
	return op;
}

/**
 * hal_driver_check() - whether a driver has what a device's capabilities ask for
 * @drv: the driver
 * @info: the device; NULL: what every device needs
 *
 * Return: 0, -ENOSYS (an op is missing: the text names it), -EPROTO (limits that can't be).
 */
int hal_driver_check(const struct hal_driver *drv, const struct hal_device_info *info)
{
	uint64_t caps = info ? info->caps : 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(needs); i++) {
		const struct need *n = &needs[i];

		if ((caps & n->cap) != n->cap || (caps & n->also) != n->also)
			continue;
		if (!has_op(drv, n))
			return hal_fail(-ENOSYS, "device_open", "driver %s lacks %s", drv->name,
					n->name);
	}
	if ((caps & NPU_CAP_MEM) && (!info->mem_align || (info->mem_align & (info->mem_align - 1))))
		return hal_fail(-EPROTO, "device_open", "driver %s: alignment %llu", drv->name,
				(unsigned long long)info->mem_align);
	if ((caps & NPU_CAP_VMM) && (info->mem_granularity < info->mem_align ||
				     (info->mem_granularity & (info->mem_granularity - 1))))
		return hal_fail(-EPROTO, "device_open", "driver %s: granularity %llu", drv->name,
				(unsigned long long)info->mem_granularity);
	if ((caps & NPU_CAP_STREAM) && !info->priorities)
		return hal_fail(-EPROTO, "device_open", "driver %s: no priorities", drv->name);
	return 0;
}
