/* SPDX-License-Identifier: MIT */
/*
 * The back door of the simulated NPU: failures on demand, counters, a device
 * that holds still. Only selftests and tools include this.
 */
#ifndef DRIVERS_SIMNPU_SIMNPU_TEST_H
#define DRIVERS_SIMNPU_SIMNPU_TEST_H

#include <stdbool.h>
#include <stdint.h>

/* What can be made to fail. Any ioctl: SIMNPU_FAIL_IOCTL plus its number. */
enum simnpu_fail {
	SIMNPU_FAIL_MEMORY,	/* allocation of device memory */
	SIMNPU_FAIL_HOST,	/* allocation of host memory */
	SIMNPU_FAIL_ARENA,	/* memory for rings, headers and stamps */
	SIMNPU_FAIL_LOCK,	/* locking of host memory in RAM */
	SIMNPU_FAIL_THREAD,	/* making an engine thread */
	SIMNPU_FAIL_IOCTL,
	SIMNPU_FAIL_COUNT = SIMNPU_FAIL_IOCTL + 128
};

/**
 * simnpu_test_fail() - make something fail
 * @what: enum simnpu_fail
 * @nth: the first call that fails, counted from now, 1 being the next; 0: none any more
 * @times: how many fail; 0: all from there on
 * @code: the positive errno of an ioctl; the others have their own
 */
void simnpu_test_fail(unsigned int what, uint32_t nth, uint32_t times, int code);

/* How many calls of that kind there were since simnpu_test_fail() was called for it. */
uint32_t simnpu_test_calls(unsigned int what);

/**
 * struct simnpu_test_counters - what has happened since the process began
 * @kicks: doorbells
 * @wakes: system calls that woke an engine thread
 * @borrowed: tasks that a waiting thread ran
 * @looks: looks at the rings
 * @ioctls: by number; WAIT and KICK are not counted
 */
struct simnpu_test_counters {
	uint64_t kicks;
	uint64_t wakes;
	uint64_t borrowed;
	uint64_t looks;
	uint64_t ioctls[128];
};

void simnpu_test_counters(struct simnpu_test_counters *c);

/**
 * struct simnpu_test_device - a device as it is now
 * @opens: open descriptors
 * @contexts: contexts
 * @queues: queues
 * @events: timed events
 * @mems: allocations, host memory and registrations
 * @modules: loaded modules
 * @threads: engine threads
 * @active: queues that are looked at
 * @mem_used: bytes of device memory
 */
struct simnpu_test_device {
	uint32_t opens;
	uint32_t contexts;
	uint32_t queues;
	uint32_t events;
	uint32_t mems;
	uint32_t modules;
	uint32_t threads;
	uint32_t active;
	uint64_t mem_used;
};

/* False: no such device is open. */
bool simnpu_test_device(uint32_t index, struct simnpu_test_device *d);

/* A paused device starts no task, on no thread. It must be open. */
void simnpu_test_pause(uint32_t index, bool paused);

#endif /* DRIVERS_SIMNPU_SIMNPU_TEST_H */
