/* SPDX-License-Identifier: MIT */
/*
 * Streams: ordered queues of tasks.
 *
 * Tasks of one stream run one after another in the order of submission; tasks
 * of different streams run in any order and at the same time, unless an event
 * orders them. Any thread may submit to any stream. Submission does not block,
 * except when NPU_STREAM_MAX_QUEUED tasks are queued.
 *
 * Wherever a stream is an argument, 0 means the default stream of the thread's
 * current context, unless npu_stream_set_current() has put another one there.
 * The default stream is a stream like others: it waits for none, and none for it.
 *
 * What every function that takes a stream answers: -EBADF, -ESTALE (destroyed, or
 * of an older generation of its device), -ENODEV (device lost), -EIO (it has a
 * fault), -ESHUTDOWN (it is stopped; or the library is being finalized), -ECHILD,
 * -ENOTCONN. Questions about a stream, and destroying it, work on such devices.
 */
#ifndef NPU_STREAM_H
#define NPU_STREAM_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct npu_stream_attr - how to make a stream
 * @size: sizeof(struct npu_stream_attr)
 * @flags: NPU_STREAM_*
 * @device: the device, or NPU_DEVICE_CURRENT: then the current context
 * @priority: NPU_PRIORITY_HIGHEST (0) to NPU_PRIORITY_LOWEST (7). A device with fewer
 *	priorities maps them in order
 * @fail_mode: enum npu_fail_mode
 * @wait_mode: enum npu_wait_mode
 * @pad: zero
 */
struct npu_stream_attr {
	size_t size;
	uint32_t flags;
	int device;
	int priority;
	int fail_mode;
	int wait_mode;
	int pad;
};

/** NPU_STREAM_ATTR_INIT - what npu_stream_create() takes for a NULL attr */
#define NPU_STREAM_ATTR_INIT \
	{ sizeof(struct npu_stream_attr), 0, NPU_DEVICE_CURRENT, NPU_PRIORITY_DEFAULT, \
	  NPU_FAIL_CONTINUE, NPU_WAIT_AUTO, 0 }

/**
 * npu_stream_create() - make a stream
 * @attr: how; NULL: NPU_STREAM_ATTR_INIT
 * @stream: out: the stream, 0 on failure
 *
 * Return: 0, -EINVAL (NULL, a bad attribute), -ENODEV (no such device, or it is lost), -ENOSPC (the
 * device has no more streams), -ENOMEM, -EOPNOTSUPP, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_stream_create(const struct npu_stream_attr *attr, npu_stream *stream);

/**
 * npu_stream_destroy() - wait for a stream's tasks and end it
 * @stream: the stream, from npu_stream_create()
 * @timeout_ms: how long to wait, milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * The handle is stale at once. Events recorded in it stay good.
 * Return: 0, -EINVAL (stream is 0, a bad time-out), -EBUSY (a default stream, or one of a pool,
 * leased ones included), -ETIMEDOUT (it is as it was), -EDEADLK (inside a callback), or what every
 * function with a stream answers (top of this file).
 */
NPU_API int npu_stream_destroy(npu_stream stream, int64_t timeout_ms);

/**
 * npu_stream_query() - whether all submitted tasks are done
 * @stream: the stream
 *
 * Return: 0, -EINPROGRESS, the failure of a task that was not reported (it stays so), or what every
 * function with a stream answers (top of this file).
 */
NPU_API int npu_stream_query(npu_stream stream);

/**
 * npu_stream_sync() - wait until all tasks submitted before are done
 * @stream: the stream
 * @timeout_ms: milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * After a time-out the record names the stream, the task that was waited for, and the one that the
 * stream is at, with its tag; all stays queued.
 * Return: 0, -EINVAL (a bad time-out), -ETIMEDOUT, -EDEADLK (inside a callback), -ECANCELED (its
 * device was stopped, or the stream aborted, meanwhile), the failure of a task, once
 * (npu_last_error() says which), or what every function with a stream answers (top of
 * this file).
 */
NPU_API int npu_stream_sync(npu_stream stream, int64_t timeout_ms);

/**
 * npu_stream_abort() - discard what is queued, stop what runs, forget failures
 * @stream: the stream; 0 is fine
 * @timeout_ms: how long what runs may take to end, milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Waits for the stream that are under way end with -ECANCELED; points in it count as done. It can
 * be used again afterwards, in mode stop as well.
 * Return: 0, -EINVAL (a bad time-out), -ETIMEDOUT (what runs does not end: the stream stays as it
 * is, and what is behind that is discarded), -EDEADLK (inside a callback), -EOPNOTSUPP, or what
 * every function with a stream answers (top of this file).
 */
NPU_API int npu_stream_abort(npu_stream stream, int64_t timeout_ms);

/**
 * npu_stream_set_wait_mode() - how threads wait for the stream from now on
 * @stream: the stream
 * @mode: how
 *
 * Return: 0, -EINVAL (no such mode), or what every function with a stream answers (top of this
 * file).
 */
NPU_API int npu_stream_set_wait_mode(npu_stream stream, enum npu_wait_mode mode);

/**
 * npu_stream_wait_event() - later tasks of the stream wait for what the event records now
 * @stream: the stream
 * @event: the event, of any device; one that was never recorded is not waited for
 *
 * Return: 0, -EINVAL (event is 0), -EAGAIN (the stream is full and does not block), -ETIMEDOUT (it
 * stayed full), -ENOMEM, or what every function with a stream answers (top of this file).
 */
NPU_API int npu_stream_wait_event(npu_stream stream, npu_event event);

/**
 * npu_stream_wait_stream() - later tasks of the stream wait for all that is in another now
 * @stream: the stream
 * @other: the other, of any device
 *
 * Return: 0, -EAGAIN (the stream is full and does not block), -ETIMEDOUT (it stayed full), -ENOMEM,
 * or what every function with a stream answers (top of this file).
 */
NPU_API int npu_stream_wait_stream(npu_stream stream, npu_stream other);

/**
 * npu_stream_callback() - have a host function called when the stream gets there
 * @stream: the stream
 * @fn: the function
 * @arg: for it
 * @flags: 0 or NPU_CALLBACK_NOBLOCK
 *
 * The stream goes on when it has returned.
 * Context: it runs on a thread of the library, one per device, one at a time. Inside, calls that
 * block give -EDEADLK.
 * Return: 0, -EINVAL (NULL, unknown flags), -EAGAIN (the stream is full and does not block),
 * -ETIMEDOUT (it stayed full), -ENOMEM, -EOPNOTSUPP, or what every function with a stream answers
 * (top of this file).
 */
NPU_API int npu_stream_callback(npu_stream stream, void (*fn)(void *arg), void *arg,
				uint32_t flags);

/**
 * npu_stream_fd() - a descriptor that becomes readable once all tasks submitted before are done
 * @stream: the stream
 * @fd: out: an eventfd, close-on-exec and non-blocking, the caller closes it; -1 on failure
 *
 * Return: 0, -EINVAL (NULL), -EMFILE, -ENFILE, -ENOMEM, -EOPNOTSUPP, or what every function with a
 * stream answers (top of this file).
 */
NPU_API int npu_stream_fd(npu_stream stream, int *fd);

/**
 * npu_stream_default() - the default stream of a device
 * @device: the device, which is opened; NPU_DEVICE_CURRENT is fine
 * @stream: out: the stream of its primary context, 0 on failure
 *
 * Return: 0, -EINVAL (NULL), or as npu_stream_create().
 */
NPU_API int npu_stream_default(int device, npu_stream *stream);

/**
 * npu_stream_secondary() - a second stream that every device has
 * @device: the device, which is opened; NPU_DEVICE_CURRENT is fine
 * @stream: out: the stream, 0 on failure
 *
 * For work beside the default one, as copies.
 * Return: 0, -EINVAL (NULL), or as npu_stream_create().
 */
NPU_API int npu_stream_secondary(int device, npu_stream *stream);

/**
 * npu_stream_pool_get() - a stream from the pool, shared
 * @device: the device, or NPU_DEVICE_CURRENT
 * @priority: as in struct npu_stream_attr
 * @stream: out: one of the pool's `stream_pool_size` streams of this priority, in turn; 0 on
 *	failure
 *
 * They are made when first handed out and are never given back.
 * Return: 0, -EINVAL (NULL, no such priority), or as npu_stream_create().
 */
NPU_API int npu_stream_pool_get(int device, int priority, npu_stream *stream);

/**
 * npu_stream_lease() - a stream from the pool for this caller alone
 * @device: the device, or NPU_DEVICE_CURRENT
 * @priority: as in struct npu_stream_attr
 * @stream: out: an idle stream, 0 on failure; the pool grows by one when there is none, up to
 *	`stream_lease_max`
 *
 * Return: 0, -EINVAL (NULL, no such priority), -ENOSPC (all that may exist are leased), or as
 * npu_stream_create().
 */
NPU_API int npu_stream_lease(int device, int priority, npu_stream *stream);

/**
 * npu_stream_release() - give a leased stream back
 * @stream: the stream; its handle is stale afterwards
 *
 * Does not wait. It is handed out again when it is idle, and thrown away if a task of it failed.
 * Return: 0, -EINVAL (stream is 0, or not leased), -ENOMEM, -ENOSPC (its handles are used up), or
 * what every function with a stream answers (top of this file).
 */
NPU_API int npu_stream_release(npu_stream stream);

/**
 * npu_stream_import() - use a stream of the vendor's runtime that somebody else made
 * @device: its device, or NPU_DEVICE_CURRENT
 * @native: the driver's pointer
 * @stream: out: a handle, 0 on failure; the same pointer gives the same one
 *
 * Return: 0, -EINVAL (NULL), -ENODEV (no such device), -EOPNOTSUPP (the driver has no native
 * streams), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_stream_import(int device, void *native, npu_stream *stream);

/**
 * npu_stream_current() - the stream that 0 means on a device, for this thread
 * @device: the device, or NPU_DEVICE_CURRENT; opened when that is its default stream
 * @stream: out: the stream, 0 on failure
 *
 * Return: 0, -EINVAL (NULL), or as npu_stream_create().
 */
NPU_API int npu_stream_current(int device, npu_stream *stream);

/**
 * npu_stream_set_current() - what 0 means on the stream's device, for this thread
 * @stream: the stream; 0: the default stream of the current device again
 *
 * The stream's device becomes the thread's current device.
 * Return: 0, -ENOMEM, or what every function with a stream answers (top of this file).
 */
NPU_API int npu_stream_set_current(npu_stream stream);

/** enum npu_stream_kind - where a stream comes from */
enum npu_stream_kind {
	NPU_STREAM_KIND_OWN = 0,	/* npu_stream_create() */
	NPU_STREAM_KIND_DEFAULT = 1,
	NPU_STREAM_KIND_SECONDARY = 2,
	NPU_STREAM_KIND_POOL = 3,
	NPU_STREAM_KIND_LEASED = 4,
	NPU_STREAM_KIND_EXTERNAL = 5,
};

/**
 * struct npu_stream_info - what a stream is
 * @size: in: sizeof(struct npu_stream_info); only so many bytes are written
 * @context: its context
 * @submitted: tasks submitted since it was made
 * @completed: tasks completed
 * @device: its device
 * @priority: as it was made with
 * @flags: NPU_STREAM_*
 * @kind: enum npu_stream_kind
 * @fail_mode: enum npu_fail_mode
 * @wait_mode: enum npu_wait_mode
 */
struct npu_stream_info {
	size_t size;
	npu_context context;
	uint64_t submitted;
	uint64_t completed;
	int device;
	int priority;
	uint32_t flags;
	int kind;
	int fail_mode;
	int wait_mode;
};

/**
 * npu_stream_get_info() - what a stream is
 * @stream: the stream
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Return: 0, -EINVAL (NULL, or no size), or what every function with a stream answers (top of this
 * file).
 */
NPU_API int npu_stream_get_info(npu_stream stream, struct npu_stream_info *info);

#ifdef __cplusplus
}
#endif

#endif /* NPU_STREAM_H */
