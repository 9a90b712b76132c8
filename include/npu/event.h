/* SPDX-License-Identifier: MIT */
/*
 * Events: points in streams.
 *
 * An event is recorded in a stream and means then "all that was submitted to the
 * stream before". Hosts query it and wait for it, streams of any device wait for
 * it. Recording it again replaces the point; waits that are under way or already
 * submitted keep the one that they saw. An event that was never recorded is done.
 */
#ifndef NPU_EVENT_H
#define NPU_EVENT_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * npu_event_create() - make an event
 * @flags: NPU_EVENT_*, or 0
 * @event: out: the event, 0 on failure; it counts as done
 *
 * Opens no device.
 * Return: 0, -EINVAL (NULL, unknown flags, NPU_EVENT_TIMING | NPU_EVENT_IPC), -ENOMEM, -ENOSPC
 * (there are too many), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_event_create(uint32_t flags, npu_event *event);

/**
 * npu_event_destroy() - end an event
 * @event: the event
 *
 * Never waits; waits for it that are under way or submitted go on.
 * Return: 0, -EINVAL (event is 0), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_event_destroy(npu_event event);

/**
 * npu_event_record() - set the event to this point of a stream
 * @event: the event
 * @stream: the stream
 *
 * Without timing it costs no task. A timed event is bound to the device of its first record.
 * Return: 0, -EINVAL (event is 0), -EACCES (imported), -EXDEV (timed, and another device), -ENOSPC
 * (no more timed events on the device), -ENOMEM, -EAGAIN (the stream is full and does not block),
 * -ETIMEDOUT (it stayed full), -EOPNOTSUPP (timed, and the device has no time), or what every
 * function with a stream answers (top of npu/stream.h).
 */
NPU_API int npu_event_record(npu_event event, npu_stream stream);

/**
 * npu_event_query() - whether the point is reached
 * @event: the event
 *
 * Return: 0 (also when it was never recorded), -EINPROGRESS, -EINVAL (event is 0), -EBADF, -ESTALE,
 * -EIO and -ESHUTDOWN and -ENODEV (the device has a fault, is stopped, is lost), -ECHILD,
 * -ENOTCONN, or the failure of a task before the point, which stays unreported; of an imported
 * one also what npu_ipc_import_event() names.
 */
NPU_API int npu_event_query(npu_event event);

/**
 * npu_event_sync() - wait until the point is reached
 * @event: the event; one that was never recorded is done
 * @timeout_ms: milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Return: 0, -EINVAL (event is 0, a bad time-out), -EBADF, -ESTALE, -ETIMEDOUT, -EDEADLK (inside a
 * callback), -ECANCELED (its device was stopped, or the stream aborted, meanwhile), -EIO and
 * -ESHUTDOWN and -ENODEV (the device has a fault, is stopped, is lost), -ECHILD, -ENOTCONN, or the
 * failure of a task before the point, once; of an imported one also what npu_ipc_import_event()
 * names.
 */
NPU_API int npu_event_sync(npu_event event, int64_t timeout_ms);

/**
 * npu_event_elapsed() - time from one event to another
 * @start: a timed event
 * @end: another of the same device
 * @ns: out: nanoseconds, negative when @end came first; 0 on failure
 *
 * Return: 0, -EINVAL (NULL, an event is 0, not timed or not recorded), -EBADF, -ESTALE,
 * -EINPROGRESS (not done yet), -EXDEV (two devices), -ENODEV (device lost), -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_event_elapsed(npu_event start, npu_event end, int64_t *ns);

/**
 * npu_event_timestamp() - when the point was reached
 * @event: a timed event
 * @ns: out: nanoseconds on the device's clock, as npu_device_time(); 0 on failure
 *
 * Return: 0, -EINVAL (NULL, event is 0, not timed or not recorded), -EBADF, -ESTALE, -EINPROGRESS
 * (not done yet), -ENODEV (device lost), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_event_timestamp(npu_event event, uint64_t *ns);

/**
 * npu_event_fd() - a descriptor that becomes readable once the point is reached
 * @event: the event; of one that is done it is readable at once
 * @fd: out: an eventfd, close-on-exec and non-blocking, the caller closes it; -1 on failure
 *
 * Return: 0, -EINVAL (NULL, event is 0), -EBADF, -ESTALE, -EMFILE, -ENFILE, -ENOMEM, -EOPNOTSUPP,
 * -ENODEV (device lost), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_event_fd(npu_event event, int *fd);

/**
 * npu_event_device() - device of the last record
 * @event: the event
 * @device: out: ordinal; -1: never recorded, or on failure
 *
 * Return: 0, -EINVAL (NULL, event is 0), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_event_device(npu_event event, int *device);

#ifdef __cplusplus
}
#endif

#endif /* NPU_EVENT_H */
