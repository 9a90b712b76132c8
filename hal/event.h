/* SPDX-License-Identifier: MIT */
/*
 * Events, as hal's users see them: a point in a stream and, for timed ones, the
 * time when it was reached. Recording an untimed event submits nothing.
 */
#ifndef HAL_EVENT_H
#define HAL_EVENT_H

#include "hal/stream.h"

/**
 * struct hal_event - the driver's part of a timed event; first member of the driver's
 * @ref: references
 * @ctx: its context, of which it holds a reference
 * @handle: the event's handle
 * @node: in one of the context's lists
 * @last: point of its last record: until then a task may write to it. Written under the submit
 *	lock of that stream
 * @cut: the last record that was still on its way when a stop or an abort discarded it. Under the
 *	context's lock
 */
struct hal_event {
	struct kref ref;
	struct hal_context *ctx;
	uint64_t handle;
	struct hal_list node;
	struct hal_point last;
	struct hal_point cut;
};

/*
 * flags: NPU_EVENT_*. An untimed event belongs to no device: any context's stream may record it.
 * The driver's part of a timed one is made at its first record, and fixes its device.
 */
int hal_event_create(uint32_t flags, uint64_t *event);
/* Pending waits and records keep what they need. */
int hal_event_destroy(uint64_t event);

/*
 * [C-EVENT-2] A record replaces the one before; waits already submitted keep the point they saw.
 * A timed event that was recorded on another device gives -EXDEV.
 */
int hal_event_record(uint64_t event, uint64_t stream, uint64_t place);
/* The point of the last record; seq 0: never recorded. */
int hal_event_point(uint64_t event, struct hal_point *p, const char *op);
/* [C-EVENT-3] An event that was never recorded is done: query 0, waits return at once. */
int hal_event_query(uint64_t event);
int hal_event_sync(uint64_t event, int64_t timeout_ms, uint32_t flags);
int hal_stream_wait_event(uint64_t stream, uint64_t event, uint64_t place);
/*
 * Both timed and recorded (-EINVAL), both completed (-EINPROGRESS), of one device (-EXDEV), neither
 * discarded by an abort of its stream or a stop of its device (-ECANCELED).
 * [C-EVENT-4] elapsed(a, b) = timestamp(b) - timestamp(a).
 */
int hal_event_elapsed(uint64_t start, uint64_t end, int64_t *ns);
int hal_event_timestamp(uint64_t event, uint64_t *ns);
/* Device of the last record, or of a timed event; NULL: none yet. No reference. */
int hal_event_device(uint64_t event, struct hal_device **dev);

#endif /* HAL_EVENT_H */
