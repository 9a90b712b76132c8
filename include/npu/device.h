/* SPDX-License-Identifier: MIT */
/*
 * Devices: which there are, what they are, and which one a thread uses.
 *
 * A device is an ordinal, 0 to npu_device_count() - 1, counted after the visible
 * list (option `visible_devices`); NPU_DEVICE_CURRENT means the thread's current
 * one. Questions about devices initialise nothing, wake no device, and work
 * before and after a fork.
 *
 * The current device belongs to the thread and is lazy: setting it creates
 * nothing, the device is opened when something needs it. A thread that never
 * set one uses the device that was first set in the process, else 0.
 *
 * An open device is in one of the states of enum npu_device_state. What work, and
 * waits for it, answer in each: FAULTED -EIO, STOPPED -ESHUTDOWN, LOST -ENODEV; the functions
 * themselves, here and in the other headers, don't all list that again.
 * Questions, freeing and destroying go on in all of them, and so does work on
 * other devices. Documentation/recovery.rst has the whole of it.
 */
#ifndef NPU_DEVICE_H
#define NPU_DEVICE_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct npu_device_info - what a device is
 * @size: in: sizeof(struct npu_device_info); only so many bytes are written
 * @caps: NPU_CAP_*
 * @mem_total: bytes of device memory
 * @mem_align: alignment of allocations, bytes
 * @cores: cores that kernels run on
 * @vector_cores: vector cores, 0 where they are not apart
 * @max_streams: streams that may exist at a time
 * @max_events: timed events that may exist at a time
 * @max_contexts: contexts that may exist at a time
 * @max_queued: tasks that a stream holds
 * @priorities: stream priorities, 0 to priorities - 1
 * @args_max: bytes of arguments of one launch
 * @blocks_max: blocks of one launch
 * @index: the driver's own number of the device
 * @name: name of the part, as "Ascend910B1"
 * @driver: name of the driver
 * @bus_id: where it sits
 */
struct npu_device_info {
	size_t size;
	uint64_t caps;
	uint64_t mem_total;
	uint64_t mem_align;
	uint32_t cores;
	uint32_t vector_cores;
	uint32_t max_streams;
	uint32_t max_events;
	uint32_t max_contexts;
	uint32_t max_queued;
	uint32_t priorities;
	uint32_t args_max;
	uint32_t blocks_max;
	uint32_t index;
	char name[NPU_NAME_LEN];
	char driver[NPU_NAME_LEN];
	char bus_id[NPU_NAME_LEN];
};

/** enum npu_device_state - the state of a device */
enum npu_device_state {
	NPU_DEVICE_CLOSED = 0,		/* this process has not opened it */
	NPU_DEVICE_OPEN = 1,		/* it takes work */
	NPU_DEVICE_FAULTED = 2,		/* it has a fault: npu_device_restart() */
	NPU_DEVICE_STOPPED = 3,		/* after npu_device_stop(): npu_device_restart() */
	NPU_DEVICE_LOST = 4,		/* gone, or its work does not end: npu_device_reset() */
};

/** NPU_HEALTH_TEXT - bytes of npu_device_health.text, the closing zero included */
#define NPU_HEALTH_TEXT 192

/**
 * struct npu_device_health - how a device is
 * @size: in: sizeof(struct npu_device_health); only so many bytes are written
 * @generation: 1 after it was opened, one more with each restart; 0: it is closed
 * @ecc_corrected: memory errors that were corrected
 * @ecc_uncorrected: memory errors that were not
 * @link_errors: errors of the link to the host
 * @hangs: tasks that did not end, and heartbeats that did not come
 * @restarts: restarts since this process opened it
 * @state: enum npu_device_state
 * @cause: negative errno of the first fault of this generation, 0: none. -EHWPOISON: an
 *	uncorrectable memory error; -ENOLINK: the link; -ETIME: a task does not end; -EREMOTEIO:
 *	no heartbeat; -ENODEV: the device is gone; -EIO: else
 * @text: one line
 */
struct npu_device_health {
	size_t size;
	uint64_t generation;
	uint64_t ecc_corrected;
	uint64_t ecc_uncorrected;
	uint64_t link_errors;
	uint64_t hangs;
	uint64_t restarts;
	int state;
	int cause;
	char text[NPU_HEALTH_TEXT];
};

/**
 * npu_device_get_health() - how a device is
 * @device: the device, or NPU_DEVICE_CURRENT
 * @health: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Waits for no work. A fault that nobody has met yet is found by this.
 * Context: any thread, any state; initialises, opens and wakes nothing.
 * Return: 0, -EINVAL (NULL, no size, or a bad visible list), -ENODEV (no such device).
 */
NPU_API int npu_device_get_health(int device, struct npu_device_health *health);

/**
 * npu_device_stop() - end all work of a device
 * @device: the device, or NPU_DEVICE_CURRENT; one that is closed or stopped: 0
 * @timeout_ms: how long what runs may take to end, milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * New work is refused from now on, what is queued is discarded, callbacks included, and what runs
 * is told to stop. Waits under way end with -ECANCELED, points in streams count as done. Nothing
 * else is lost: memory, contexts, modules and kernels stay.
 * Return: 0, -EINVAL (a bad time-out), -ENODEV (no such device, or it is lost), -ETIMEDOUT
 * (something does not end: the device is lost; or another thread stops or restarts it), -EDEADLK
 * (inside a callback), -EOPNOTSUPP, -ENOMEM, -ECHILD, -ESHUTDOWN (finalizing), -ENOTCONN.
 */
NPU_API int npu_device_stop(int device, int64_t timeout_ms);

/* Flags of npu_device_restart(). */
/** NPU_RESTART_REBUILD - make the library's own streams anew at once, not when next asked for */
#define NPU_RESTART_REBUILD (1u << 0)
/** NPU_RESTART_KEEP_DATA - only memory that an uncorrectable error has hit becomes unsafe */
#define NPU_RESTART_KEEP_DATA (1u << 1)

/**
 * npu_device_restart() - make a device usable again that is stopped or has a fault
 * @device: the device, or NPU_DEVICE_CURRENT; one that is closed: 0
 * @flags: NPU_RESTART_*, or 0
 * @timeout_ms: for the whole: milliseconds, NPU_WAIT_FOREVER, 0: one attempt
 *
 * A device that has a fault is stopped first. Its generation grows by one: contexts, memory,
 * modules and kernels stay, all its streams are stale (-ESTALE), points in them count as done. The
 * library's own - default, secondary, shared ones of the pool - are made anew, and a thread that
 * has one of these as its current stream goes on with its successor; leased ones and those of
 * npu_stream_create() have none.
 *
 * After an uncorrectable memory error all memory of the device is unsafe (see
 * npu_pointer_get_info()), with NPU_RESTART_KEEP_DATA only what was hit. If the device does not
 * come back, harder ways are tried, three in all, and then it is lost.
 * Return: 0, -EINVAL (unknown flags, a bad time-out), -EBUSY (it is at work), -ENODEV (no such
 * device, or it is lost, now or before), -ETIMEDOUT (it stays stopped, or is lost if its work did
 * not end in time), -EDEADLK (inside a callback), -EOPNOTSUPP, -ENOMEM, -ECHILD, -ESHUTDOWN
 * (finalizing), -ENOTCONN.
 */
NPU_API int npu_device_restart(int device, uint32_t flags, int64_t timeout_ms);

/**
 * npu_device_fn - is told of changes of state
 * @device: the device
 * @from: enum npu_device_state before
 * @to: and now
 * @cause: as npu_device_health.cause; 0: no fault
 * @arg: as it was registered
 *
 * Runs in the thread that made the change or found it out, so in several at the same time, with no
 * lock held, and may call everything that this thread may; what would wait for the restart that
 * called it gives -EDEADLK.
 */
typedef void npu_device_fn(int device, int from, int to, int cause, void *arg);

/**
 * npu_device_observe() - be told of changes of state of all devices
 * @fn: the function
 * @arg: for it
 * @id: out: for npu_device_unobserve(); 0 on failure
 *
 * Opening and closing are changes, too. Kept until it is taken away, over npu_finalize() as well.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL), -ENOMEM.
 */
NPU_API int npu_device_observe(npu_device_fn *fn, void *arg, uint64_t *id);

/**
 * npu_device_unobserve() - be told no more
 * @id: from npu_device_observe()
 *
 * A call that is under way in another thread is waited for, unless this is called inside one.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -ENOENT (no such observer).
 */
NPU_API int npu_device_unobserve(uint64_t id);

/**
 * npu_device_count() - number of devices that this process may use
 * @count: out: how many; 0 is no error
 *
 * Follows the visible list until the library is initialised, and is fixed from then on.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL, or a bad visible list).
 */
NPU_API int npu_device_count(int *count);

/**
 * npu_device_get_info() - what a device is
 * @device: the device, or NPU_DEVICE_CURRENT
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Context: any thread, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (NULL, no size, or a bad visible list), -ENODEV (no such device).
 */
NPU_API int npu_device_get_info(int device, struct npu_device_info *info);

/**
 * npu_device_mem_info() - memory of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @free: out: bytes that can be allocated; may be NULL
 * @total: out: bytes there are; may be NULL
 *
 * Of a device that is not open, too: what other processes hold is not free.
 * Context: any thread, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (a bad visible list), -ENODEV (no such device, or it is lost), -EOPNOTSUPP
 * (open, and it has no memory).
 */
NPU_API int npu_device_mem_info(int device, size_t *free, size_t *total);

/**
 * npu_device_utilization() - how busy a device was of late
 * @device: the device, or NPU_DEVICE_CURRENT
 * @percent: out: per cent of the time of all cores, 0 to 100
 *
 * Context: any thread, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (NULL, or a bad visible list), -ENODEV (no such device, or it is lost),
 * -EOPNOTSUPP (the driver does not tell).
 */
NPU_API int npu_device_utilization(int device, uint32_t *percent);

/**
 * npu_device_can_access_peer() - whether copies between two devices can be direct
 * @device: the one, or NPU_DEVICE_CURRENT
 * @peer: the other, or NPU_DEVICE_CURRENT
 * @can: out: 1 or 0; 0 of a device and itself
 *
 * Context: any thread, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (NULL, or a bad visible list), -ENODEV (no such device).
 */
NPU_API int npu_device_can_access_peer(int device, int peer, int *can);

/**
 * npu_device_set() - make a device the thread's current one
 * @device: the device; NPU_DEVICE_CURRENT: no change
 *
 * Its primary context becomes the thread's current one. Creates nothing. What is set for a while
 * only, by a guard, does not count as set in the process.
 * Return: 0, -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_device_set(int device);

/**
 * npu_device_get() - the thread's current device
 * @device: out: ordinal, -1 on failure
 *
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL, or a bad visible list), -ENODEV (there is none at all), -ENOMEM.
 */
NPU_API int npu_device_get(int *device);

/**
 * npu_device_exchange() - set a device and learn the one before
 * @device: as in npu_device_set()
 * @old: out: the one before; NPU_DEVICE_CURRENT: the thread had set none, or the call failed.
 *	Passing it to npu_device_restore() brings back exactly that. May be NULL
 *
 * Return: as npu_device_set().
 */
NPU_API int npu_device_exchange(int device, int *old);

/**
 * npu_device_restore() - bring back what npu_device_exchange() found, "none set" included
 * @old: what it gave
 *
 * Where the library was finalized meanwhile nothing is set.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -ENODEV (no such device), -ENOMEM.
 */
NPU_API int npu_device_restore(int old);

/**
 * npu_device_is_active() - whether a device is open in this process
 * @device: the device, or NPU_DEVICE_CURRENT
 * @active: out: 1 or 0
 *
 * Context: any thread, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (NULL, or a bad visible list), -ENODEV (no such device).
 */
NPU_API int npu_device_is_active(int device, int *active);

/**
 * npu_device_used() - the devices that are open in this process
 * @list: out: their ordinals, ascending; may be NULL when room is 0
 * @room: entries of @list
 * @count: out: how many there are; may be more than @room
 *
 * Context: any thread, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (NULL).
 */
NPU_API int npu_device_used(int *list, size_t room, size_t *count);

/**
 * npu_device_sync() - wait until a device has done all that was submitted before
 * @device: the device, or NPU_DEVICE_CURRENT; one that is not open has nothing to do: 0
 * @timeout_ms: milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Waits for the streams of all its contexts. Reports the first failure that was not reported,
 * after all have been waited for.
 * Return: 0, -EINVAL (a bad time-out), -ENODEV (no such device, or it is lost), -ETIMEDOUT,
 * -EDEADLK (inside a callback), -ECANCELED (stopped, or a stream of it aborted, meanwhile),
 * -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN, or the failure of a task.
 */
NPU_API int npu_device_sync(int device, int64_t timeout_ms);

/**
 * npu_device_sync_all() - npu_device_sync() for all devices that are open
 * @timeout_ms: for the whole: milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Return: as npu_device_sync(); a failure of a task goes before -ETIMEDOUT.
 */
NPU_API int npu_device_sync_all(int64_t timeout_ms);

/**
 * npu_device_reset() - close a device
 * @device: the device, or NPU_DEVICE_CURRENT; one that is not open: 0
 * @timeout_ms: how long to wait for queued work, milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * All its contexts, streams, events, modules and memory go, in all threads; their handles
 * and pointers are stale. The next use opens it again: the same part, by its bus_id, wherever the
 * driver finds it by then. A lost device is closed at once.
 * Return: 0, -EINVAL (a bad time-out), -ENODEV (no such device), -ETIMEDOUT (nothing was closed),
 * -EDEADLK (inside a callback, or an observer of a restart), -ENOMEM, -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_device_reset(int device, int64_t timeout_ms);

/**
 * npu_device_time() - the device's clock, as in timestamps of events
 * @device: the device, which is opened; NPU_DEVICE_CURRENT is fine
 * @ns: out: nanoseconds, 0 on failure
 *
 * Return: 0, -EINVAL (NULL), -ENODEV (no such device, it is lost, or was closed meanwhile),
 * -ENOMEM, -EOPNOTSUPP (it has no clock), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_device_time(int device, uint64_t *ns);

#ifdef __cplusplus
}
#endif

#endif /* NPU_DEVICE_H */
