// SPDX-License-Identifier: MIT
/*
 * Submission.
 *
 * The way of one task: find the slot, take its lock, compare the generation,
 * call the driver, count, give the lock back. No reference, no allocation, no
 * system call. All else - a full stream, a device asleep, a refusal - is found out
 * under the lock, and dealt with outside, with a reference.
 */
#include <stdio.h>

#include "hal/internal.h"

static _Atomic int64_t op_timeout_ms = NPU_WAIT_FOREVER;

/**
 * hal_set_op_timeout() - how long a full stream is waited for
 * @timeout_ms: milliseconds, -1: for ever
 */
void hal_set_op_timeout(int64_t timeout_ms)
{
	hal_store_relaxed(&op_timeout_ms, timeout_ms);	/* relaxed: nothing else hangs on it */
}

typedef int issue_fn(struct hal_stream_slot *slot, struct hal_stream *s,
		     const struct hal_task *t, struct hal_submit *sub, void *arg);

/*
 * Submits once. Returns 0, a HAL_SUBMIT_*, or what the driver said: 1 (kick), or
 * an errno. sub->s is a reference after a code other than 0 and HAL_SUBMIT_STALE.
 */
HAL_INLINE int submit_once(struct hal_submit *sub, issue_fn *issue, void *arg)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(sub->stream);
	struct hal_tls *tls = hal_tls_peek();
	struct hal_task t = { .place = sub->place, .tag = tls ? tls->tag : 0 };
	struct hal_stream *s;
	int rc;

	if (unlikely(!slot))
		return HAL_SUBMIT_STALE;
	hal_spin_lock(&slot->slot.lock);
	if (unlikely(!hal_slot_is(&slot->slot, sub->stream))) {
		hal_spin_unlock(&slot->slot.lock);
		return HAL_SUBMIT_STALE;
	}
	/* relaxed, all three: they change only under the lock that is held */
	s = hal_load_relaxed(&slot->slot.obj);
	t.seq = hal_load_relaxed(&slot->next_seq);
	if (unlikely(hal_load_relaxed(&hal_load_relaxed(&slot->dev)->state) != HAL_DEVICE_OPEN))
		rc = HAL_SUBMIT_STATE;
	else
		rc = issue(slot, s, &t, sub, arg);
	if (likely(rc >= 0)) {
		sub->seq = t.seq;
		hal_store_release(&slot->next_seq, t.seq + 1);
	}
	if (unlikely(rc)) {
		kref_get(&s->ref);
		sub->s = s;
	}
	hal_spin_unlock(&slot->slot.lock);
	return rc;
}

/* ---- what did not go straight through ------------------------------------------------ */

static int no_room(const struct hal_submit *sub, int64_t timeout_ms)
{
	char what[80];
	int rc;

	snprintf(what, sizeof(what), "it is full: limit %u tasks, no room in %lld ms",
		 sub->s->ctx->dev->info.max_queued, (long long)timeout_ms);
	rc = hal_stream_too_long(sub->s, sub->op, 0, what);
	return hal_hint(rc, "Submit slower than the device works, or raise option op_timeout_ms; "
			"npu_stream_abort() discards what is queued.");
}

static int make_room(struct hal_submit *sub)
{
	struct hal_stream *s = sub->s;
	int64_t timeout = hal_load_relaxed(&op_timeout_ms);
	uint64_t word;
	uint32_t fills;
	int rc;

	fills = hal_fills();
	rc = s->ops->prepare(s);
	if (!rc)
		return HAL_SUBMIT_AGAIN;
	if (rc != -EAGAIN)
		return hal_driver_failed(rc, sub->op, s->ctx->dev, fills);
	if (s->flags & NPU_STREAM_NONBLOCK)
		return hal_fail_at(rc, sub->op, s->ctx->dev, sub->stream,
				   "stream 0x%llx is full: limit %u tasks",
				   (unsigned long long)sub->stream, s->ctx->dev->info.max_queued);
	rc = hal_may_block(sub->op);
	if (!rc)
		rc = hal_stream_word(s, &word);
	if (rc)
		return rc;
	if (!sub->deadline)
		sub->deadline = timeout ? hal_sys_deadline(timeout) : 1;
	/* the last one has completed by now, if it is that */
	word &= ~HAL_TIMELINE_ERROR;
	if (word + 1 < hal_load_acquire(&s->slot->next_seq))
		rc = hal_stream_wait_host(s, word + 1, sub->deadline, HAL_WAIT_NO_BORROW);
	if (rc == -ETIMEDOUT)
		return no_room(sub, timeout);
	return rc ? rc : HAL_SUBMIT_AGAIN;
}

static int refused(struct hal_submit *sub, int code)
{
	struct hal_device *dev = sub->s->ctx->dev;

	switch (code) {
	case HAL_SUBMIT_STATE:
		/* it may have been mended meanwhile */
		code = hal_device_usable(dev, sub->op);
		return code ? code : HAL_SUBMIT_AGAIN;
	case HAL_SUBMIT_CAPS:
		return hal_fail_at(-EOPNOTSUPP, sub->op, dev, sub->stream,
				   "device %d (%s) can't do this", dev->ordinal, dev->info.name);
	case HAL_SUBMIT_XDEV:
		return hal_fail_at(-EXDEV, sub->op, dev, sub->stream,
				   "stream 0x%llx is of device %d, and of another context",
				   (unsigned long long)sub->stream, dev->ordinal);
	case HAL_SUBMIT_KERNEL:
		return hal_handle_error(HAL_HANDLE_KERNEL, sub->kernel, sub->op);
	case HAL_SUBMIT_ARGS:
		return hal_fail_at(-EINVAL, sub->op, dev, sub->stream,
				   "%llu bytes of arguments: limit %u",
				   (unsigned long long)sub->seq, dev->info.args_max);
	case HAL_SUBMIT_BLOCKS:
		return hal_fail_at(-EINVAL, sub->op, dev, sub->stream,
				   "%llu blocks: limit %u", (unsigned long long)sub->seq,
				   dev->info.blocks_max);
	default:
		/* under the lock a driver can't fill it */
		return hal_driver_failed(code, sub->op, dev, hal_fills());
	}
}

HAL_COLD int hal_submit_settle(struct hal_submit *sub, int code)
{
	int rc = 0;

	if (code == HAL_SUBMIT_STALE)
		return hal_handle_error(HAL_HANDLE_STREAM, sub->stream, sub->op);
	if (code == 1)
		sub->s->ops->kick(sub->s);
	else if (code == -EAGAIN)
		rc = make_room(sub);
	else if (code > 0)
		rc = hal_blocking_wait(sub, code, hal_load_relaxed(&op_timeout_ms));
	else
		rc = refused(sub, code);
	hal_stream_put(sub->s);
	sub->s = NULL;
	return rc;
}

HAL_INLINE int submit(struct hal_submit *sub, issue_fn *issue, void *arg)
{
	int rc;

	do {
		rc = submit_once(sub, issue, arg);
		if (likely(!rc))
			return 0;
		rc = hal_submit_settle(sub, rc);
	} while (rc == HAL_SUBMIT_AGAIN);
	return rc;
}

HAL_INLINE bool can(const struct hal_stream_slot *slot, uint64_t caps)
{
	return likely(hal_device_can(hal_load_relaxed(&slot->dev), caps));
}

/* ---- launch ---------------------------------------------------------------------------- */

/*
 * The kernel's slot is read while the lock keeps an unload of its module waiting:
 * that makes the handle stale first, and then takes the lock of each stream of the
 * context. The handle of another context's kernel may go at any moment; so the
 * generation is compared after the slot was read, and its fields are only compared
 * or handed on.
 */
HAL_INLINE int issue_launch(struct hal_stream_slot *slot, struct hal_stream *s,
			    const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct hal_kernel_slot *k;
	struct hal_launch *l = arg;
	const struct hal_device *dev = hal_load_relaxed(&slot->dev);

	k = hal_kernel_slot_at(sub->kernel);
	if (unlikely(!k))
		return HAL_SUBMIT_KERNEL;
	l->kernel = hal_load_acquire(&k->token);
	if (unlikely(hal_load_acquire(&k->ctx) != hal_load_relaxed(&slot->ctx)))
		return hal_slot_is(&k->slot, sub->kernel) ? HAL_SUBMIT_XDEV : HAL_SUBMIT_KERNEL;
	if (unlikely(!hal_slot_is(&k->slot, sub->kernel)))
		return HAL_SUBMIT_KERNEL;
	if (unlikely(l->args_size > dev->info.args_max)) {
		sub->seq = l->args_size;
		return HAL_SUBMIT_ARGS;
	}
	if (unlikely(l->blocks > dev->info.blocks_max)) {
		sub->seq = l->blocks;
		return HAL_SUBMIT_BLOCKS;
	}
	return s->ops->launch(s, t, l);
}

/**
 * hal_stream_launch() - launch a kernel
 * @stream: the stream
 * @kernel: the kernel, of the stream's context
 * @blocks: how many
 * @args: its arguments, copied before this returns
 * @size: bytes of @args
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL (no blocks, or too many; arguments missing, or too large; no handle), -EBADF,
 * -ESTALE, -EXDEV (a kernel of another context), -EAGAIN, -ETIMEDOUT, -ENOMEM, the device's state.
 */
int hal_stream_launch(uint64_t stream, uint64_t kernel, uint32_t blocks, const void *args,
		      size_t size, uint64_t place)
{
	struct hal_submit sub = {
		.stream = stream, .kernel = kernel, .op = "launch", .place = place,
	};
	struct hal_launch l = { .args = args, .blocks = blocks };

	if (unlikely(!blocks))
		return hal_fail(-EINVAL, "launch", "no blocks");
	if (unlikely(size && !args))
		return hal_fail(-EINVAL, "launch", "%zu bytes of arguments at NULL", size);
	l.args_size = unlikely(size > UINT32_MAX) ? UINT32_MAX : (uint32_t)size;
	return submit(&sub, issue_launch, &l);
}

/* ---- copy, fill --------------------------------------------------------------------------- */

struct copy {
	struct hal_copy c;
	struct hal_device *dst_dev;
	struct hal_device *src_dev;
};

HAL_INLINE int issue_copy(struct hal_stream_slot *slot, struct hal_stream *s,
		      const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct hal_device *dev = hal_load_relaxed(&slot->dev);
	struct copy *c = arg;

	(void)sub;
	if (!can(slot, NPU_CAP_MEM) || (c->c.height > 1 && !can(slot, NPU_CAP_COPY_2D)) ||
	    (c->c.peer && !can(slot, NPU_CAP_PEER)))
		return HAL_SUBMIT_CAPS;
	if (c->dst_dev != dev && c->src_dev != dev)
		return HAL_SUBMIT_XDEV;
	return s->ops->copy(s, t, &c->c);
}

/* Unsafe memory is written as a whole. */
static HAL_COLD int copy_whole(struct hal_submit *sub, struct copy *c)
{
	int rc = submit(sub, issue_copy, c);

	if (!rc)
		hal_memory_written(c->c.dst, c->c.width * c->c.height);
	return rc;
}

static int check_stream(uint64_t stream, const char *op)
{
	struct hal_point p;

	return hal_stream_point(stream, &p, op);
}

/**
 * hal_stream_copy() - copy, in the order of a stream
 * @stream: the stream
 * @c: the copy
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL (as hal_copy_check(); both sides are the host's; no handle), -EBADF, -ESTALE,
 * -EXDEV (neither side is of the stream's device), -EOPNOTSUPP, -EAGAIN, -ETIMEDOUT, -ENOMEM, the
 * device's state.
 */
int hal_stream_copy(uint64_t stream, const struct hal_copy *c, uint64_t place)
{
	struct hal_submit sub = { .stream = stream, .op = "copy", .place = place };
	struct copy copy = { .c = *c };
	int rc;

	rc = hal_copy_check(&copy.c, &copy.dst_dev, &copy.src_dev, "copy");
	if (unlikely(rc))
		return rc < 0 ? rc : copy_whole(&sub, &copy);
	if (!c->width || !c->height)
		return check_stream(stream, "copy");
	if (copy.c.kind == NPU_COPY_H2H) {
		rc = check_stream(stream, "copy");
		return rc ? rc : hal_fail(-EINVAL, "copy", "%p and %p are both the host's",
					  c->dst, c->src);
	}
	return submit(&sub, issue_copy, &copy);
}

struct fill {
	void *dst;
	size_t size;
	int byte;
	struct hal_device *dev;
};

HAL_INLINE int issue_fill(struct hal_stream_slot *slot, struct hal_stream *s,
		      const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct fill *f = arg;

	(void)sub;
	if (!can(slot, NPU_CAP_MEM))
		return HAL_SUBMIT_CAPS;
	if (f->dev != hal_load_relaxed(&slot->dev))
		return HAL_SUBMIT_XDEV;
	return s->ops->fill(s, t, f->dst, f->byte, f->size);
}

/* Unsafe memory is written as a whole. */
static HAL_COLD int fill_whole(struct hal_submit *sub, struct fill *f)
{
	int rc = submit(sub, issue_fill, f);

	if (!rc)
		hal_memory_written(f->dst, f->size);
	return rc;
}

/**
 * hal_stream_fill() - set bytes of device memory, in the order of a stream
 * @stream: the stream
 * @dst: the first byte
 * @byte: the value, of which the low eight bits count
 * @size: how many
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL (not device memory, or it leaves its allocation; no handle), -EBADF, -ESTALE,
 * -EXDEV, -EOPNOTSUPP, -EAGAIN, -ETIMEDOUT, -ENOMEM, the device's state.
 */
int hal_stream_fill(uint64_t stream, void *dst, int byte, size_t size, uint64_t place)
{
	struct hal_submit sub = { .stream = stream, .op = "fill", .place = place };
	struct fill f = { .dst = dst, .size = size, .byte = byte & 0xff };
	int rc;

	if (!size)
		return check_stream(stream, "fill");
	rc = hal_range_check(dst, size, &f.dev, "fill");
	if (unlikely(rc))
		return rc < 0 ? rc : fill_whole(&sub, &f);
	return submit(&sub, issue_fill, &f);
}

/* ---- callback, record ------------------------------------------------------------------------ */

struct callback {
	void (*fn)(void *arg);
	void *arg;
	uint32_t flags;
};

static int issue_callback(struct hal_stream_slot *slot, struct hal_stream *s,
			  const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct callback *c = arg;

	(void)sub;
	if (!can(slot, NPU_CAP_CALLBACK))
		return HAL_SUBMIT_CAPS;
	return s->ops->callback(s, t, c->fn, c->arg, c->flags);
}

/**
 * hal_stream_callback() - call a host function in the order of a stream
 * @stream: the stream
 * @fn: the function
 * @arg: its argument
 * @flags: NPU_CALLBACK_*
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL (no function, unknown flags, no handle), -EBADF, -ESTALE, -EOPNOTSUPP,
 * -EAGAIN, -ETIMEDOUT, -ENOMEM, the device's state.
 */
int hal_stream_callback(uint64_t stream, void (*fn)(void *arg), void *arg, uint32_t flags,
			uint64_t place)
{
	struct hal_submit sub = { .stream = stream, .op = "stream_callback", .place = place };
	struct callback c = { fn, arg, flags };

	if (!fn)
		return hal_fail(-EINVAL, sub.op, "no function");
	if (flags & ~NPU_CALLBACK_NOBLOCK)
		return hal_fail(-EINVAL, sub.op, "flags 0x%x", flags);
	return submit(&sub, issue_callback, &c);
}

struct host {
	void (*begin)(void *arg);
	void *arg;
	struct hal_point *p;
};

static int issue_host(struct hal_stream_slot *slot, struct hal_stream *s,
		      const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct host *h = arg;

	if (!can(slot, NPU_CAP_HOST_TASK))
		return HAL_SUBMIT_CAPS;
	h->p->stream = sub->stream;
	h->p->seq = t->seq;
	return s->ops->host(s, t, h->begin, h->arg);
}

/**
 * hal_stream_host() - have the host carry a task out, in the order of a stream
 * @stream: the stream
 * @begin: called when its turn has come; must not wait
 * @arg: for @begin
 * @p: out: its point, set before @begin can be called
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL (no handle), -EBADF, -ESTALE, -EOPNOTSUPP, -EAGAIN, -ETIMEDOUT, -ENOMEM, the
 * device's state.
 */
int hal_stream_host(uint64_t stream, void (*begin)(void *arg), void *arg, struct hal_point *p,
		    uint64_t place)
{
	struct hal_submit sub = { .stream = stream, .op = "file_io", .place = place };
	struct host h = { begin, arg, p };

	return submit(&sub, issue_host, &h);
}

/**
 * hal_host_done() - a task that the host carries out is done
 * @p: its point
 * @code: 0, or the negative errno with which it fails
 */
void hal_host_done(const struct hal_point *p, int code)
{
	struct hal_stream *s = hal_point_get(p);

	if (!s)
		return;
	s->ops->host_done(s, p->seq, code);
	hal_stream_put(s);
}

bool hal_host_gone(const struct hal_point *p)
{
	struct hal_task_error at = { .seq = 0 };
	struct hal_stream *s;
	bool here;

	if (likely(!hal_point_done(p)))
		return false;
	s = hal_point_get(p);
	if (!s)
		return true;
	here = s->ops->at && !s->ops->at(s, &at) && at.seq == p->seq;
	hal_stream_put(s);
	return !here;
}

static int issue_record(struct hal_stream_slot *slot, struct hal_stream *s,
			const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct hal_event *e = arg;
	int rc;

	if (hal_load_relaxed(&slot->ctx) != e->ctx)
		return HAL_SUBMIT_XDEV;
	rc = s->ops->record(s, t, e);
	if (rc >= 0) {
		e->last.stream = sub->stream;
		e->last.seq = t->seq;
	}
	return rc;
}

int hal_submit_record(struct hal_submit *sub, struct hal_event *e)
{
	return submit_once(sub, issue_record, e);
}

/* ---- wait ---------------------------------------------------------------------------------- */

struct wait {
	struct hal_stream *other;
	uint64_t seq;
};

static int issue_wait(struct hal_stream_slot *slot, struct hal_stream *s,
		      const struct hal_task *t, struct hal_submit *sub, void *arg)
{
	struct wait *w = arg;

	(void)slot;
	(void)sub;
	return s->ops->wait(s, t, w->other, w->seq);
}

static int wait_for(struct hal_stream *s, struct wait *w, uint64_t place)
{
	struct hal_submit sub = { .stream = s->handle, .op = "stream_wait", .place = place };
	struct hal_device *dev = s->ctx->dev, *other = w->other->ctx->dev;
	uint32_t fills;
	int rc;

	if (dev->drv != other->drv)
		return hal_fail_at(-EXDEV, sub.op, dev, sub.stream,
				   "stream 0x%llx is of driver %s, 0x%llx of %s",
				   (unsigned long long)sub.stream, dev->drv->name,
				   (unsigned long long)w->other->handle, other->drv->name);
	if (dev != other && s->ops->prepare_wait) {
		fills = hal_fills();
		rc = s->ops->prepare_wait(s, w->other);
		if (rc)
			return hal_driver_failed(rc, sub.op, dev, fills);
	}
	return submit(&sub, issue_wait, w);
}

/**
 * hal_stream_wait_point() - make a stream wait for a point of another
 * @stream: the stream
 * @p: the point
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL (no handle; a point that no submission has reached), -EBADF, -ESTALE, -EXDEV
 * (another driver), -EAGAIN, -ETIMEDOUT, -ENOMEM, -ENOSPC, the device's state.
 */
int hal_stream_wait_point(uint64_t stream, const struct hal_point *p, uint64_t place)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(p->stream);
	struct hal_stream_slot *own = hal_stream_slot_at(stream);
	struct wait w = { .seq = p->seq };
	struct hal_stream *s;
	int rc;

	if (unlikely(!own || !hal_slot_is(&own->slot, stream)))
		return hal_handle_error(HAL_HANDLE_STREAM, stream, "stream_wait");
	if (!p->seq)
		return hal_point_foreign(p) ? hal_ipc_event_wait(stream, p, place) : 0;
	if (unlikely(!slot))
		return hal_handle_error(HAL_HANDLE_STREAM, p->stream, "stream_wait");
	if (hal_slot_clean(slot, p))
		return 0;
	if (p->seq >= hal_load_acquire(&slot->next_seq))
		return hal_fail(-EINVAL, "stream_wait", "stream 0x%llx has had no task %llu",
				(unsigned long long)p->stream, (unsigned long long)p->seq);
	/* in its own slot is its own past, or that of one that is gone */
	if (own == slot)
		return 0;
	w.other = hal_point_get(p);
	if (!w.other)
		return 0;
	s = hal_stream_get(stream, "stream_wait");
	rc = s ? wait_for(s, &w, place) : hal_error_last()->code;
	hal_stream_put(s);
	hal_stream_put(w.other);
	return rc;
}
