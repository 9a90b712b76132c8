// SPDX-License-Identifier: MIT
/*
 * Streams: queues of the device, and waiting for them. Submission is in
 * submit.c.
 */
#include <string.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"

/* Slots of a new stream's ring: most streams never hold more tasks at a time. */
#define FIRST_SLOTS 64u

/* What hal asks for is what the device understands. */
_Static_assert(HAL_WAIT_MODE_MASK == SIMNPU_WAIT_MODE, "wait modes");
_Static_assert((int)NPU_WAIT_SPIN == (int)SIMNPU_WAIT_SPIN, "wait mode spin");
_Static_assert((int)NPU_WAIT_YIELD == (int)SIMNPU_WAIT_YIELD, "wait mode yield");
_Static_assert((int)NPU_WAIT_BLOCK == (int)SIMNPU_WAIT_BLOCK, "wait mode block");
_Static_assert(HAL_WAIT_NO_BORROW == SIMNPU_WAIT_NO_BORROW, "borrowing");
_Static_assert(HAL_TIMELINE_ERROR == SIMNPU_TIMELINE_ERROR, "timelines");
_Static_assert(UINT64_MAX == SIMNPU_DEADLINE_NONE, "deadlines");

/* Names of operations in errors, as hal gives them. */
static const char *const op_name[] = {
	[SIMNPU_OP_LAUNCH] = "launch",
	[SIMNPU_OP_COPY] = "copy",
	[SIMNPU_OP_COPY_2D] = "copy",
	[SIMNPU_OP_FILL] = "fill",
	[SIMNPU_OP_WAIT] = "stream_wait",
	[SIMNPU_OP_RECORD] = "event_record",
	[SIMNPU_OP_CALLBACK] = "stream_callback",
	[SIMNPU_OP_HOST] = "file_io",
};

static struct hal_list *bucket(struct simnpu_device *dev, uint32_t handle)
{
	return &dev->queues[(handle * 2654435761u) >> 24];
}

_Static_assert(SIMNPU_QUEUE_BUCKETS == 1u << 8, "bucket() gives eight bits");

/**
 * simnpu_stream_name() - the hal handle of a stream
 * @dev: the device
 * @handle: what the device calls its queue
 *
 * Return: the handle; 0 when there is no such stream any more.
 */
uint64_t simnpu_stream_name(struct simnpu_device *dev, uint32_t handle)
{
	struct simnpu_stream *s;
	struct hal_list *head = bucket(dev, handle), *pos;
	uint64_t name = 0;

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(pos, head) {
		s = hal_list_entry(pos, struct simnpu_stream, node);
		if (s->handle == handle)
			name = hal_load_relaxed(&s->base.handle);
	}
	pthread_mutex_unlock(&dev->lock);
	return name;
}

static int stream_init(struct hal_stream *base)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_ctx *ctx = to_simnpu_ctx(base->ctx);
	struct simnpu_device *dev = simnpu_device_of(base->ctx);
	struct simnpu_queue q = {
		.context = ctx->handle,
		.flags = base->fail_mode == NPU_FAIL_STOP ? SIMNPU_QUEUE_FAIL_STOP : 0,
		.priority = base->priority,
		.slots = FIRST_SLOTS,
		.first_seq = base->first_seq,
	};
	int err;

	err = simnpu_ioctl(base->ctx, SIMNPU_IOCTL_QUEUE_CREATE, &q);
	if (err)
		return hal_fail(err, "stream_create", "device %d: %s", base->ctx->dev->ordinal,
				err == -ENOSPC ? "it has no more streams" : "no queue");
	s->header = (struct simnpu_queue_header *)(ctx->arena + q.header);
	s->ring.slot = (struct simnpu_desc *)(ctx->arena + q.ring);
	s->ring.slots = FIRST_SLOTS;
	s->ring.care = ctx->fence ? SIMNPU_RING_FENCE : 0;
	s->handle = q.handle;
	s->fd = dev->fd;
	s->sys = dev->sys;
	s->max_queued = dev->max_queued;
	s->next_slots = FIRST_SLOTS * 4;
	base->timeline = (const uint64_t *)&s->header->timeline;
	pthread_mutex_lock(&dev->lock);
	hal_list_add_tail(bucket(dev, s->handle), &s->node);
	pthread_mutex_unlock(&dev->lock);
	return 0;
}

static void stream_fini(struct hal_stream *base)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_device *dev = simnpu_device_of(base->ctx);
	struct simnpu_handle h = { .handle = s->handle };
	int err;

	pthread_mutex_lock(&dev->lock);
	hal_list_del(&s->node);
	pthread_mutex_unlock(&dev->lock);
	simnpu_import_drop_stream(s);
	err = simnpu_ioctl(base->ctx, SIMNPU_IOCTL_QUEUE_DESTROY, &h);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: queue %u: destroy: error %d",
			 dev->base.index, s->handle, -err);
}

static int stream_wait_host(struct hal_stream *base, uint64_t seq, uint64_t deadline,
			    uint32_t flags)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_wait w = {
		.seq = seq,
		.deadline_ns = deadline,
		.queue = s->handle,
		.flags = flags,
	};
	int err;

	err = hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_WAIT, &w);
	if (likely(!err))
		return 0;
	if (err == -ETIME)
		return hal_fail(-ETIMEDOUT, "stream_sync", "stream %#llx: task %llu is not done",
				(unsigned long long)base->handle, (unsigned long long)seq);
	return hal_fail(err, "stream_sync", "stream %#llx: the device refuses the wait",
			(unsigned long long)base->handle);
}

/* Names of operations in errors; what the device says is not trusted. */
static const char *op_of(uint32_t op)
{
	return op < ARRAY_SIZE(op_name) && op_name[op] ? op_name[op] : "task";
}

static int stream_abort(struct hal_stream *base, uint64_t deadline)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	/* 0 would be the device's own choice */
	struct simnpu_abort a = { .queue = s->handle, .deadline_ns = deadline ? deadline : 1 };
	struct simnpu_ctx *ctx = to_simnpu_ctx(base->ctx);
	int err, late;

	simnpu_callbacks_abort(ctx);
	late = simnpu_callbacks_late(ctx, s->handle, deadline);
	err = late ? 0 : hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_QUEUE_ABORT, &a);
	if (!err && (late || simnpu_callbacks_settle(ctx, s->handle, deadline)))
		return hal_fail(-ETIMEDOUT, "stream_abort", "stream %#llx: a callback does not end",
				(unsigned long long)base->handle);
	if (!err)
		return 0;
	if (err == -ETIME)
		return hal_fail(-ETIMEDOUT, "stream_abort",
				"stream %#llx: the running task does not end",
				(unsigned long long)base->handle);
	return hal_fail(err, "stream_abort", "stream %#llx: the device refuses the abort",
			(unsigned long long)base->handle);
}

/* Without a word in the thread's record: it is for the text of another failure. */
static int stream_at(struct hal_stream *base, struct hal_task_error *t)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_at at = { .queue = s->handle };
	int err;

	err = hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_QUEUE_AT, &at);
	if (err)
		return err == -ENODATA ? -ENOENT : err;
	t->seq = at.seq;
	t->op = op_of(at.op);
	t->place = at.cookie;
	t->tag = at.tag;
	return 0;
}

static void error_convert(struct simnpu_stream *s, const struct simnpu_task_error *in,
			  struct hal_task_error *out)
{
	struct simnpu_ctx *ctx = to_simnpu_ctx(s->base.ctx);
	struct simnpu_device *dev = simnpu_device_of(s->base.ctx);
	uint64_t done = hal_shm_load_acquire(&s->header->timeline) & ~SIMNPU_TIMELINE_ERROR;

	memset(out, 0, sizeof(*out));
	/* a failure that makes no sense is one all the same, of what was completed last */
	out->seq = in->seq >= s->base.first_seq ? in->seq : done;
	out->code = in->code && in->code <= SIMNPU_ERRNO_MAX ? -(int)in->code : -EPROTO;
	out->op = op_of(in->op);
	out->place = in->cookie;
	out->addr = in->addr;
	out->tag = in->tag;
	/* what began with itself, or later, has no origin */
	if (!in->origin_queue || (in->origin_queue == s->handle && in->origin_seq >= in->seq))
		return;
	out->origin_seq = in->origin_seq;
	out->origin_stream = simnpu_stream_name(dev, in->origin_queue);
	if (!out->origin_stream)
		out->origin_stream = simnpu_import_name(ctx, in->origin_queue);
}

static int stream_errors(struct hal_stream *base, struct hal_task_error *list, uint32_t n,
			 uint64_t *dropped)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_task_error raw[SIMNPU_ERRORS_MAX];
	struct simnpu_errors e = {
		.list = (uintptr_t)raw,
		.queue = s->handle,
		.room = n < SIMNPU_ERRORS_MAX ? n : SIMNPU_ERRORS_MAX,
		.entry_size = sizeof(raw[0]),
	};
	uint32_t i;
	int err;

	err = hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_QUEUE_ERRORS, &e);
	if (err)
		return hal_fail(err, "stream_sync", "stream %#llx: its failures are not told",
				(unsigned long long)base->handle);
	for (i = 0; i < e.count; i++)
		error_convert(s, &raw[i], &list[i]);
	*dropped += e.dropped;
	return (int)e.count;
}

static int stream_notify(struct hal_stream *base, uint64_t seq, int fd)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_notify n = { .seq = seq, .queue = s->handle, .fd = fd };
	int err;

	err = hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_NOTIFY, &n);
	if (err)
		return hal_fail(err, "stream_fd", "stream %#llx: the device can't tell",
				(unsigned long long)base->handle);
	return 0;
}

const struct hal_stream_ops simnpu_stream_ops = {
	.obj_size = sizeof(struct simnpu_stream),
	.init = stream_init,
	.fini = stream_fini,
	.launch = simnpu_launch,
	.copy = simnpu_copy,
	.fill = simnpu_fill,
	.wait = simnpu_wait,
	.record = simnpu_record,
	.callback = simnpu_callback,
	.host = simnpu_host,
	.host_done = simnpu_host_done,
	.kick = simnpu_kick,
	.prepare_wait = simnpu_import_prepare,
	.prepare = simnpu_prepare,
	.wait_host = stream_wait_host,
	.errors = stream_errors,
	.notify = stream_notify,
	.abort = stream_abort,
	.at = stream_at,
};
