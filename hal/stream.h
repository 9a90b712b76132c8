/* SPDX-License-Identifier: MIT */
/*
 * Streams, as hal's users see them.
 *
 * A stream is named by its handle. Submission looks it up, takes the submit
 * lock of its slot, compares the generation again under it, and calls the
 * driver; it takes no reference. A query reads the timeline. All that can block
 * takes a reference.
 *
 * A slot's sequence numbers never restart: a point {stream, seq} says by seq which
 * of the streams that were in the slot it belongs to.
 *
 * Every function answers a handle of 0 with -EINVAL, one that was never given
 * out with -EBADF, one of a destroyed stream with -ESTALE, as one of a stream that
 * a restart of its device has ended; a device that is lost with -ENODEV, stopped
 * with -ESHUTDOWN, faulted with -EIO. A wait or query on a faulted device tells
 * of the failures of its stream first.
 */
#ifndef HAL_STREAM_H
#define HAL_STREAM_H

#include "hal/context.h"

#define HAL_STREAM_ERRORS 16
struct hal_stream_slot;

/* hal_stream.going */
#define HAL_GOING_ALONE 1u	/* hal_stream_destroy() */
#define HAL_GOING_CONTEXT 2u	/* hal_context_destroy() */

/**
 * struct hal_stream - a stream; first member of the driver's
 * @ref: references
 * @ops: its driver's ops
 * @ctx: its context, of which it holds a reference
 * @handle: its handle; another one after hal_stream_rehandle()
 * @slot: its slot, where the submit lock is
 * @node: in the context's list
 * @going: HAL_GOING_*: whether somebody is destroying it; under the context's lock
 * @first_seq: sequence number of its first task
 * @timeline: where the driver publishes progress, or NULL
 * @priority: 0 (first) to info.priorities - 1
 * @flags: NPU_STREAM_*
 * @fail_mode: what it does after a failure
 * @wait_mode: how threads wait for it, unless they say otherwise
 * @kind: the runtime's own
 * @generation: hal_device.generation that it was made in
 * @err_lock: Protects: @errors, @error_count, @reported, @aborted_at, @stopped_at, @error_dropped,
 *	@gone, @look; the driver's ->errors is called with it held
 * @errors: failures taken from the driver
 * @error_count: entries of @errors
 * @reported: counts reports, aborts and stops; a wait that began before one learns of it, too
 * @aborted_at: @reported of the last abort
 * @stopped_at: @reported of the stop of its device
 * @error_dropped: failures for which there was no room
 * @gone: the slot is not this stream's any more
 * @look: a failure was taken that may be a fault of the device
 */
struct hal_stream {
	struct kref ref;
	const struct hal_stream_ops *ops;
	struct hal_context *ctx;
	_Atomic uint64_t handle;
	struct hal_stream_slot *slot;
	struct hal_list node;
	uint32_t going;
	uint64_t first_seq;
	const uint64_t *timeline;
	uint32_t priority;
	uint32_t flags;
	enum npu_fail_mode fail_mode;
	_Atomic uint32_t wait_mode;
	uint32_t kind;
	uint64_t generation;
	pthread_mutex_t err_lock;
	struct hal_stream_error {
		struct hal_task_error e;
		uint64_t reported_at;
	} errors[HAL_STREAM_ERRORS];
	uint32_t error_count;
	_Atomic uint64_t reported;
	uint64_t aborted_at;
	uint64_t stopped_at;
	uint64_t error_dropped;
	bool gone;
	bool look;
};

/**
 * struct hal_stream_attr - how to make a stream
 * @priority: 0 (first) to info.priorities - 1
 * @flags: NPU_STREAM_*
 * @fail_mode: what it does after a failure
 * @wait_mode: how threads wait for it
 * @kind: the runtime's own
 */
struct hal_stream_attr {
	uint32_t priority;
	uint32_t flags;
	enum npu_fail_mode fail_mode;
	enum npu_wait_mode wait_mode;
	uint32_t kind;
};

/* A point in a stream: all tasks up to seq. Plain data; outlives the stream. */
struct hal_point {
	uint64_t stream;
	uint64_t seq;
};

/* Return: 0, -EINVAL (priority, flags, modes), -ENOSPC, -ENOMEM, -EOPNOTSUPP. */
int hal_stream_create(struct hal_context *ctx, const struct hal_stream_attr *attr,
		      uint64_t *stream);
/*
 * Drains, then destroys. [C-STREAM-9] The handle is stale at once, so nothing is submitted behind
 * the drain. -ETIMEDOUT: it did not drain in time; the stream is as it was before, and the
 * handle good again. -EDEADLK: inside a callback.
 */
int hal_stream_destroy(uint64_t stream, int64_t timeout_ms);

/*
 * Submission. place: code address that errors name. Full streams are waited for
 * until the operation time-out (-ETIMEDOUT), or answer -EAGAIN with
 * NPU_STREAM_NONBLOCK; [C-STREAM-10] a call that fails has submitted nothing.
 */
int hal_stream_launch(uint64_t stream, uint64_t kernel, uint32_t blocks, const void *args,
		      size_t size, uint64_t place);
/*
 * The copy is checked here as by hal_copy_check(). Nothing to do: 0. Neither side device memory:
 * -EINVAL; neither of the stream's device: -EXDEV.
 */
int hal_stream_copy(uint64_t stream, const struct hal_copy *c, uint64_t place);
int hal_stream_fill(uint64_t stream, void *dst, int byte, size_t size, uint64_t place);
int hal_stream_callback(uint64_t stream, void (*fn)(void *arg), void *arg, uint32_t flags,
			uint64_t place);
/*
 * A task that the host carries out, in the order of the stream. begin is called when its turn has
 * come, and must not wait; the stream goes on at hal_host_done(), as does what waits for it, with
 * the code as the task's failure. *p is the task's point, set before begin can be called. Only with
 * NPU_CAP_HOST_TASK.
 *
 * One that is discarded (abort, stop, a fault, the end of the stream) may never begin. One that has
 * begun is discarded when hal_host_gone() says so before hal_host_done() was called: whoever
 * carries it out has to look at that, and to end soon.
 */
int hal_stream_host(uint64_t stream, void (*begin)(void *arg), void *arg, struct hal_point *p,
		    uint64_t place);
void hal_host_done(const struct hal_point *p, int code);
/*
 * Whether such a task was discarded, or is done: its point has completed, and the stream is not at
 * it any more, as it is where a device said too early that it was done.
 */
bool hal_host_gone(const struct hal_point *p);
/* Whether a point has completed, well or not, or its stream is gone. Tells of no failure. */
bool hal_point_done(const struct hal_point *p);
/*
 * Makes the stream wait for a point of another stream of the driver. One that has completed, or
 * lies in the same stream, costs no task - unless it failed.
 */
int hal_stream_wait_point(uint64_t stream, const struct hal_point *p, uint64_t place);

/* The point behind the last task submitted. Lock-free. */
int hal_stream_point(uint64_t stream, struct hal_point *p, const char *op);

/*
 * 0: all submitted tasks have completed; -EINPROGRESS: not yet; or the errno of
 * the first failure that nobody was told of, which stays untold. Lock-free
 * where the driver has a timeline.
 */
int hal_stream_query(uint64_t stream);
/* Waits for what was submitted before the call; flags: HAL_WAIT_*, mode 0: the stream's. */
int hal_stream_sync(uint64_t stream, int64_t timeout_ms, uint32_t flags);
/*
 * Discards what is queued, stops what runs, forgets failures. Waits under way end with -ECANCELED.
 * Only with NPU_CAP_ABORT. -ETIMEDOUT: the running task does not end; what is behind it is
 * discarded, its failures are kept. -EDEADLK: inside a callback.
 */
int hal_stream_abort(uint64_t stream, int64_t timeout_ms);
/* An eventfd becomes readable once the point has completed. */
int hal_point_notify(const struct hal_point *p, int fd);

/* The same for a point; of a destroyed stream: 0, for it was drained. */
int hal_point_query(const struct hal_point *p);
int hal_point_sync(const struct hal_point *p, int64_t timeout_ms, uint32_t flags);

/**
 * hal_stream_rehandle() - give a stream a new handle
 * @stream: its handle, stale afterwards
 * @renewed: out: the new one
 *
 * The stream, its tasks and its points stay as they are: for leases, whose handle ends while the
 * stream lives on.
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -ENOSPC (no generation is left).
 */
int hal_stream_rehandle(uint64_t stream, uint64_t *renewed);
/* Tasks submitted and completed since the stream was made. Return: 0, -EINVAL, -EBADF, -ESTALE. */
int hal_stream_progress(uint64_t stream, uint64_t *submitted, uint64_t *completed);

/* The stream of a handle with a reference, or NULL with the thread's record filled. */
struct hal_stream *hal_stream_get(uint64_t stream, const char *op);
void hal_stream_put(struct hal_stream *s);

/* How long a full stream is waited for, milliseconds; -1 for ever. */
void hal_set_op_timeout(int64_t timeout_ms);
/*
 * Blocking mode, for debugging: submissions to streams that are made from now on wait for their
 * task, up to the time-out above, and return its failure, which then counts as told. Inside a
 * callback they don't wait. A submission that fails so was submitted.
 */
void hal_set_blocking(bool on);

/*
 * Marks the thread as inside a callback (drivers, around the function): blocking
 * calls then give -EDEADLK.
 */
void hal_callback_enter(void);
void hal_callback_leave(void);
bool hal_in_callback(void);

#endif /* HAL_STREAM_H */
