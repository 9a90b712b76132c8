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

/** npu_event_create() - make an event; flags: NPU_EVENT_*. Opens no device.
 * Return: 0, -EINVAL, -ENOMEM, -ENOSPC */
NPU_API int npu_event_create(uint32_t flags, npu_event *event);
/** npu_event_destroy() - end an event; never waits. Return: 0, -EINVAL (0), -EBADF, -ESTALE */
NPU_API int npu_event_destroy(npu_event event);

/**
 * npu_event_record() - set the event to this point of a stream
 * @event: the event
 * @stream: the stream
 *
 * Without timing it costs no task. A timed event is bound to the device of its first
 * record. Return: 0, -EXDEV (timed, and another device), -ENOSPC (no more timed events on the
 * device), -EAGAIN, -ETIMEDOUT, -EOPNOTSUPP.
 */
NPU_API int npu_event_record(npu_event event, npu_stream stream);

/** npu_event_query() - 0: done; -EINPROGRESS; or the failure of a task before the point, which
 * stays unreported */
NPU_API int npu_event_query(npu_event event);

/** npu_event_sync() - wait for an event; as npu_stream_sync() */
NPU_API int npu_event_sync(npu_event event, int64_t timeout_ms);

/**
 * npu_event_elapsed() - time from one event to another
 * @start: a timed event
 * @end: another of the same device
 * @ns: out: nanoseconds, negative when @end came first
 *
 * Return: 0, -EINVAL (not timed, not recorded), -EINPROGRESS (not done yet), -EXDEV.
 */
NPU_API int npu_event_elapsed(npu_event start, npu_event end, int64_t *ns);

/** npu_event_timestamp() - when the point was reached, on the device's clock, ns. As above */
NPU_API int npu_event_timestamp(npu_event event, uint64_t *ns);

/** npu_event_fd() - a descriptor that becomes readable once the point is reached; as
 * npu_stream_fd(). Readable at once for an event that is done */
NPU_API int npu_event_fd(npu_event event, int *fd);

/** npu_event_device() - device of the last record; -1: never recorded. Return: 0, -EINVAL */
NPU_API int npu_event_device(npu_event event, int *device);

#ifdef __cplusplus
}
#endif

#endif /* NPU_EVENT_H */
