/* SPDX-License-Identifier: MIT */
/*
 * Devices, as hal's users see them. A device is open as long as somebody holds
 * a reference; ordinals, visible lists and the current device are the runtime's.
 */
#ifndef HAL_DEVICE_H
#define HAL_DEVICE_H

#include <pthread.h>

#include "hal/driver.h"
#include "hal/range.h"

/**
 * enum hal_device_state - the state of a device
 * @HAL_DEVICE_CLOSED: not open
 * @HAL_DEVICE_OPEN: takes work
 * @HAL_DEVICE_FAULTED: a hardware fault: work and waits give -EIO
 * @HAL_DEVICE_STOPPED: hal_device_stop() was called: work and waits give -ESHUTDOWN
 * @HAL_DEVICE_LOST: gone, or its work does not end: all but questions and freeing gives -ENODEV
 *
 * CLOSED, OPEN, FAULTED, STOPPED, OPEN again in the next generation; LOST from each but CLOSED, and
 * only closing leads out of it.
 */
enum hal_device_state {
	HAL_DEVICE_CLOSED = 0,
	HAL_DEVICE_OPEN = 1,
	HAL_DEVICE_FAULTED = 2,
	HAL_DEVICE_STOPPED = 3,
	HAL_DEVICE_LOST = 4,
};

/**
 * struct hal_device - an open device; first member of the driver's
 * @ref: references
 * @drv: its driver
 * @index: which of the driver's devices
 * @ordinal: what errors and logs call it; the index until the opener sets another
 * @state: enum hal_device_state
 * @told: the state that the hook was last told of
 * @generation: 1, and one more with each restart
 * @cause: negative errno of the first fault of this generation, 0: none
 * @hung: it is lost because work does not end: it can only be abandoned
 * @info: what it is; filled in by ->init
 * @mem_used: bytes of device memory that this process holds
 * @lock: Protects: @contexts, @recovering
 * @recovered: @recovering has become false
 * @recovering: a thread stops or restarts it
 * @contexts: its contexts
 * @node: in the list of open devices
 * @va: its addresses, in hal's map of them
 */
struct hal_device {
	struct kref ref;
	const struct hal_driver *drv;
	uint32_t index;
	_Atomic int ordinal;
	_Atomic uint32_t state;
	_Atomic uint32_t told;
	_Atomic uint64_t generation;
	_Atomic int cause;
	_Atomic bool hung;
	struct hal_device_info info;
	_Atomic uint64_t mem_used;
	pthread_mutex_t lock;
	pthread_cond_t recovered;
	bool recovering;
	struct hal_list contexts;
	struct hal_list node;
	struct hal_range va;
};

/**
 * hal_device_open() - open a device
 * @drv: the driver, brought up by hal_driver_up()
 * @index: which one
 * @dev: out: the device, one reference
 *
 * A device that is open already gets one more reference.
 * Return: 0, -ENODEV (no such device), -ENOSYS (the driver lacks an op that the device's
 * capabilities ask for), -ENOMEM, or as the driver fails.
 */
int hal_device_open(const struct hal_driver *drv, uint32_t index, struct hal_device **dev);
struct hal_device *hal_device_get(struct hal_device *dev);
void hal_device_put(struct hal_device *dev);

/* Whether the device has all these capabilities. */
static inline bool hal_device_can(const struct hal_device *dev, uint64_t caps)
{
	return (dev->info.caps & caps) == caps;
}

/* 0, or the error of a device in its state: -ENODEV lost, -ESHUTDOWN stopped, -EIO faulted. */
int hal_device_usable(struct hal_device *dev, const char *op);

/**
 * hal_device_report() - a driver has found its device in another state
 * @dev: the device
 * @state: HAL_DEVICE_FAULTED or HAL_DEVICE_LOST
 * @cause: negative errno, as hal_health.cause
 *
 * New work is refused from now on. Only what makes it worse counts: the first cause stays, and a
 * device that is stopped is not made faulted.
 * Context: any thread, any lock.
 */
void hal_device_report(struct hal_device *dev, uint32_t state, int cause);

/**
 * hal_device_look() - ask the driver how the device is, and tell those who want to know
 * @dev: the device
 *
 * Called by hal where something failed that may be a fault; with no lock held.
 */
void hal_device_look(struct hal_device *dev);

/**
 * hal_device_stop() - stop all work on a device
 * @dev: the device
 * @timeout_ms: how long what runs may take to end
 *
 * From OPEN or FAULTED: new work is refused, what is queued is discarded, and what runs is told to
 * stop. Waits under way end with -ECANCELED. STOPPED: nothing to do.
 * Return: 0, -ETIMEDOUT (something does not end: the device is LOST), -EOPNOTSUPP (without
 * NPU_CAP_ABORT), -ENODEV, -EDEADLK (inside a callback).
 */
int hal_device_stop(struct hal_device *dev, int64_t timeout_ms);

/* Flags of hal_device_restart(). */
#define HAL_RESTART_KEEP_DATA (1u << 0)

/**
 * hal_device_restart() - make a stopped device usable again
 * @dev: the device; FAULTED: it is stopped first
 * @flags: HAL_RESTART_*
 * @timeout_ms: for the whole
 *
 * The generation grows by one. Contexts, memory, modules and kernels stay; streams go, their
 * handles are stale, and points in them are done. Memory that an uncorrectable error has hit is
 * unsafe: see hal_pointer.unsafe. Without HAL_RESTART_KEEP_DATA it is all of the device's, if such
 * an error was the cause. The driver's way is tried HAL_RESTART_TRIES times, then the device is
 * LOST.
 * Return: 0, -EBUSY (OPEN), -ENODEV (LOST, now or before), -ETIMEDOUT (it stays STOPPED, or is LOST
 * if it was not stopped in time), -EOPNOTSUPP, -EDEADLK.
 */
int hal_device_restart(struct hal_device *dev, uint32_t flags, int64_t timeout_ms);

/**
 * hal_device_health() - how a device is
 * @dev: the device
 * @h: out: its health; state and cause as hal sees them
 *
 * Asks the driver, works in every state, and does not wait for work.
 */
void hal_device_health(struct hal_device *dev, struct hal_health *h);

typedef void hal_state_fn(struct hal_device *dev, uint32_t from, uint32_t to, int cause);

/**
 * hal_set_state_hook() - who is told of changes of state of open devices
 * @hook: called after each, with none of hal's locks held, in the thread that made it or found it
 *	out; cause is hal_device.cause. NULL: nobody
 */
void hal_set_state_hook(hal_state_fn *hook);

/**
 * hal_device_abandon() - give up a device whose work does not end
 * @dev: the device; the caller's reference is taken over and kept for ever
 *
 * Its state becomes HAL_DEVICE_LOST. The handles of its contexts, streams, modules and kernels
 * are stale from now on, its memory is no longer known; points of its streams count as
 * done. The objects stay, for threads of the driver may still be in them. A later
 * hal_device_open() makes a new device. Takes no lock that a running task holds.
 */
void hal_device_abandon(struct hal_device *dev);

int hal_device_mem_info(struct hal_device *dev, struct hal_mem_info *mi);
int hal_device_utilization(struct hal_device *dev, uint32_t *percent);
int hal_device_time(struct hal_device *dev, uint64_t *ns);
int hal_device_peer(struct hal_device *dev, struct hal_device *other, bool *can);

/*
 * Bring a driver up and down: counted; the last down closes it. A driver is up
 * while a device of it is open.
 */
int hal_driver_up(const struct hal_driver *drv);
void hal_driver_down(const struct hal_driver *drv);

#endif /* HAL_DEVICE_H */
