/* SPDX-License-Identifier: MIT */
/* The simulated device, inside: queues, who waits for them, failures. Included by model.h. */
#ifndef DRIVERS_SIMNPU_MODEL_QUEUE_H
#define DRIVERS_SIMNPU_MODEL_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "hal/base.h"
#include "uapi/simnpu.h"

struct model_context;
struct model_device;
struct model_file;
struct model_kernel;

#define MODEL_FAILURES		64u	/* remembered for those that wait for the queue */
#define MODEL_ABORTS		16u	/* the same, of aborts before the last one */

/* ---- queues ------------------------------------------------------------------- */

enum model_run {
	RUN_DEAD = 0,
	RUN_IDLE,	/* nobody has it */
	RUN_READY,	/* in a ready list */
	RUN_RUNNING,	/* claimed by a thread */
	RUN_PARKED,	/* its head waits for another queue */
	RUN_CALLBACK,	/* its head is a callback that is not done */
};

/* model_queue.stop */
#define QUEUE_STOP_KILL		1u	/* it is being destroyed */
#define QUEUE_STOP_HALT		2u	/* its device has a fault, was stopped, or is gone */
#define QUEUE_STOP_BROKEN	4u	/* its ring can't be followed */
#define QUEUE_STOP_ABORT	8u	/* somebody wants what is queued discarded */
#define QUEUE_STOP_LATE		16u	/* he did not want to wait: who gets the queue does it */

/* model_queue.care */
#define QUEUE_CARE_STOPPED	1u	/* tasks are not run, for one before failed */
#define QUEUE_CARE_RULES	2u	/* there are rules about tasks */

/* What a task needs a token of. Control tasks need none. */
enum model_class { CLASS_CONTROL, CLASS_CORE, CLASS_H2D, CLASS_D2H, CLASS_D2D, CLASS_COUNT };

enum model_waiter_kind { WAITER_THREAD, WAITER_QUEUE, WAITER_NOTIFY };

/**
 * struct model_waiter - who wants to know that a queue has completed a task
 * @node: in the queue's list, by rising @seq
 * @seq: the task
 * @kind: enum model_waiter_kind
 * @fd: NOTIFY: the eventfd
 * @on: the queue in whose list it is, or NULL
 * @word: THREAD: 0, 1 completed, 2 the queue is gone
 * @queue: QUEUE: the queue that is parked
 */
struct model_waiter {
	struct hal_list node;
	uint64_t seq;
	enum model_waiter_kind kind;
	int fd;
	_Atomic(struct model_queue *) on;
	_Atomic uint32_t word;
	struct model_queue *queue;
};

/**
 * struct model_verdict - what rules say of a call or task
 * @seq: the task; 0: no verdict
 * @action: enum simnpu_action
 * @code: a positive errno
 * @acted: what comes before the task was done
 * @rules: when it was given: which rules there were
 * @changed: of an ioctl: model_device.changed when it began
 * @ns: how long
 * @until: until when, once that has begun; 0: it has not
 */
struct model_verdict {
	uint64_t seq;
	uint32_t action;
	uint32_t code;
	bool acted;
	uint32_t rules;
	uint32_t changed;
	uint64_t ns;
	uint64_t until;
};

/**
 * struct model_origin - where a failure began
 * @queue: the queue
 * @uid: its life
 * @seq: the task
 * @cookie: its cookie
 * @addr: the address that was refused, or 0
 * @via_seq: the task that who tells of it waited for
 * @via: handle of that one's queue, for who can't name @queue; or 0
 * @code: a positive errno
 * @op: SIMNPU_OP_* of the task
 * @tag: its tag
 */
struct model_origin {
	struct model_queue *queue;
	uint64_t uid;
	uint64_t seq;
	uint64_t cookie;
	uint64_t addr;
	uint64_t via_seq;
	uint32_t via;
	uint32_t code;
	uint32_t op;
	uint32_t tag;
};

struct model_error {
	uint64_t seq;
	uint64_t time_ns;
	uint32_t code;
	struct model_origin origin;
};

/* Tasks that were discarded. */
struct model_gone {
	uint64_t from;
	uint64_t to;
	struct model_origin origin;
};

/**
 * struct model_failures - what a queue knows of its failures
 * @errors: those that nobody took, oldest first
 * @failed: the last ones, for who waits for the queue
 * @gone: what aborts before the last one discarded, for who waits for the queue
 *
 * Apart from the queue, which is small: there may be 65,536.
 */
struct model_failures {
	struct model_error errors[SIMNPU_ERRORS_MAX];
	struct model_error failed[MODEL_FAILURES];
	struct model_gone gone[MODEL_ABORTS];
};

/**
 * struct model_queue - a queue; never given back to the system
 * @run: enum model_run
 * @stop: QUEUE_STOP_*, 0: run; else don't start another task, and kernels return
 * @slot: the head of the ring
 * @next_seq: sequence number of the next task
 * @header: the header in the arena
 * @given_up: who waits for a task up to this one has to ask whether it was run; see halt.c
 * @left: slots from the head to the end of the segment
 * @seg: the segment that the head is in, first of @segs
 * @dev: the device
 * @ctx: the context
 * @file: the open file
 * @handle: the handle
 * @priority: 0 first
 * @fail_stop: SIMNPU_QUEUE_FAIL_STOP
 * @care: QUEUE_CARE_*: what is special about running its tasks, 0: nothing
 * @number: which of the queues made on the device since it came up, from 1
 * @stopped_at: first task that was not run for an earlier failure, or 0; under @lock
 * @kernel: the kernel that runs, for those who unload
 * @wake_seq: least sequence number that somebody waits for
 * @uid: number of this life of the queue
 * @active: in the device's active set, or on the way there
 * @kicked: next in the list of those on the way
 * @retired: next in the list of those that are let go at the moment
 * @active_index: place in the active set
 * @seen_seq: for retiring
 * @seen_ns: for retiring
 * @lock: Protects: @waiters, @wake_seq, errors, failures, @segs, what was given up
 * @ready: node in the ready list
 * @class: which ready list
 * @park: the queue's own waiter, in the list of @parked_on
 * @parked_on: the queue that its head waits for
 * @waiters: who waits for this queue
 * @segs: segments, in the order of their use
 * @error_pending: the timeline is to say that errors wait
 * @failures: what is known of failures; made at the first one, and kept
 * @error_count: how many
 * @dropped: failures for which there was no room
 * @dropped_first: the first of them
 * @dropped_last: the last of them
 * @failed_count: how many there were
 * @history: who waits for its tasks may have to be told of a failure
 * @gone_code: why tasks were given up, a positive errno, 0: none were
 * @halting: somebody notes that no task is ever run again
 * @halted: it is noted
 * @gone_from: the first task that was given up
 * @gone_to: the last one
 * @gone_origin: where that began
 * @gone_count: how many were put into model_failures.gone
 * @wait_over: what its head waited for is done; belongs to who has the queue
 * @wait_failed: it failed
 * @wait_origin: where that began
 * @stop_origin: the failure after which nothing runs
 * @node: in the context's list
 * @next_free: next of those to be used again
 * @cb: the callback that it waits for
 * @aborters: threads that are aborting it; under the device's lock
 * @verdict: what rules say of the task at its head; belongs to who has the queue
 */
struct model_queue {
	_Alignas(64) _Atomic uint32_t run;
	_Atomic uint32_t stop;
	_Atomic(struct simnpu_desc *) slot;
	_Atomic uint64_t next_seq;
	_Atomic(struct simnpu_queue_header *) header;
	_Atomic uint64_t given_up;
	uint64_t consumed;
	uint32_t left;
	uint32_t priority;
	struct model_seg *seg;
	_Alignas(64) struct model_device *dev;
	struct model_context *ctx;
	_Atomic(struct model_file *) file;
	_Atomic uint32_t handle;
	bool fail_stop;
	_Atomic bool error_pending;
	_Atomic uint32_t care;
	uint32_t number;
	uint64_t stopped_at;
	_Atomic(struct model_kernel *) kernel;
	_Atomic uint64_t wake_seq;
	_Atomic uint64_t uid;
	_Atomic uint32_t active;
	struct model_queue *kicked;
	struct model_queue *retired;
	uint32_t active_index;
	uint64_t seen_seq;
	uint64_t seen_ns;
	struct hal_spin lock;
	struct hal_list ready;
	enum model_class class;
	struct model_waiter park;
	_Atomic(struct model_queue *) parked_on;
	struct hal_list waiters;
	struct model_seg *segs;
	struct model_failures *failures;
	uint32_t error_count;
	uint64_t dropped;
	uint64_t dropped_first;
	uint64_t dropped_last;
	uint64_t failed_count;
	bool history;
	bool halting;
	bool halted;
	uint32_t gone_code;
	uint64_t gone_from;
	uint64_t gone_to;
	struct model_origin gone_origin;
	uint64_t gone_count;
	bool wait_over;
	bool wait_failed;
	struct model_origin wait_origin;
	struct model_origin stop_origin;
	struct model_callback *cb;
	uint32_t aborters;
	struct model_verdict verdict;
	struct hal_list node;
	struct model_queue *next_free;
};

#endif /* DRIVERS_SIMNPU_MODEL_QUEUE_H */
