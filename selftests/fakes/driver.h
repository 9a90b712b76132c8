/* SPDX-License-Identifier: MIT */
/*
 * A driver in a few hundred lines, for tests of the core: two devices with all
 * that the core knows how to call, one worker thread. It can be told to fail any
 * op, to lack an op, and to keep no timeline.
 */
#ifndef SELFTESTS_FAKES_DRIVER_H
#define SELFTESTS_FAKES_DRIVER_H

#include "hal/driver.h"

#define FAKE_DEVICES 2u
#define FAKE_QUEUED 64u		/* tasks that a stream holds */
#define FAKE_STREAMS 32u
#define FAKE_EVENTS 8u
#define FAKE_CONTEXTS 4u
#define FAKE_MEMORY (1u << 24)
#define FAKE_GRANULARITY (1u << 16)
#define FAKE_POISON 4u

enum fake_op {
	FAKE_INIT,
	FAKE_COUNT,
	FAKE_INFO,
	FAKE_DEVICE_INIT,
	FAKE_CONTEXT_INIT,
	FAKE_STREAM_INIT,
	FAKE_SUBMIT,		/* any of the submissions */
	FAKE_PREPARE,
	FAKE_PREPARE_WAIT,
	FAKE_WAIT_HOST,
	FAKE_QUERY,
	FAKE_NOTIFY,
	FAKE_ABORT,
	FAKE_STOP,
	FAKE_RESTART,
	FAKE_HEALTH,
	FAKE_EVENT_INIT,
	FAKE_TIMESTAMP,
	FAKE_ALLOC,
	FAKE_HOST_ALLOC,
	FAKE_REGISTER,
	FAKE_RESERVE,
	FAKE_CREATE,
	FAKE_MAP,
	FAKE_UNMAP,
	FAKE_PROTECT,
	FAKE_EXPORT,
	FAKE_IMPORT,
	FAKE_COPY,
	FAKE_FILL,
	FAKE_WINDOW,
	FAKE_MODULE,
	FAKE_KERNEL,
	FAKE_TASK,		/* a task, as it runs */
	FAKE_OPS
};

extern const struct hal_driver fake_driver;

/* From the nth call on (1: the next), so many calls give that negative errno; resets the count. */
void fake_fail(enum fake_op op, uint32_t nth, uint32_t times, int code);
uint32_t fake_calls(enum fake_op op);
/* All as at the start: nothing fails, all capabilities, a timeline, silent ops fill no record. */
void fake_reset(void);
/* What devices report from the next opening on. */
void fake_set_caps(uint64_t caps);
uint64_t fake_all_caps(void);
/* Whether streams made from now on publish a timeline. */
void fake_set_timeline(bool on);
/* A device starts no task while it is paused. */
void fake_pause(bool paused);
/*
 * Objects of the driver that exist: devices, contexts, streams, events, memory, reservations,
 * mappings and modules.
 */
uint32_t fake_objects(void);
/* How often ->fork_child was called in this process. */
uint32_t fake_fork_children(void);
/* Flags of the last wait of a host thread. */
uint32_t fake_wait_flags(void);
/* The device that is open, NULL: it is closed. Valid as long as it stays so. */
struct hal_device *fake_device(uint32_t index);
/* The state of a device as hal keeps it, whatever the hardware is at. */
void fake_set_state(struct hal_device *dev, uint32_t state);
/*
 * The hardware has a fault, or is gone: its tasks fail with the cause from now on. hal is told when
 * it asks, which it does for those failures. HAL_DEVICE_OPEN and 0: it is well again.
 */
void fake_fault(struct hal_device *dev, uint32_t state, int cause);
/* An uncorrectable error has hit these bytes; up to FAKE_POISON ranges are told of. */
void fake_poison(struct hal_device *dev, const void *addr, uint64_t size);
/* From now on tasks that run do not end, whatever is done, until this is called with false. */
void fake_hang(bool hang);

#endif /* SELFTESTS_FAKES_DRIVER_H */
