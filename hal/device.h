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
 * @info: what it is; filled in by ->init
 * @mem_used: bytes of device memory that this process holds
 * @lock: Protects: @contexts
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
	struct hal_device_info info;
	_Atomic uint64_t mem_used;
	pthread_mutex_t lock;
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
