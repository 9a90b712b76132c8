// SPDX-License-Identifier: MIT
/*
 * Streams: making and destroying. Submission is in submit.c, waiting in wait.c.
 */
#include <stdlib.h>

#include "hal/internal.h"

static void init_base(struct hal_stream *s, struct hal_context *ctx,
		      const struct hal_stream_attr *attr)
{
	kref_init(&s->ref);
	kref_get(&ctx->ref);
	s->ctx = ctx;
	s->ops = hal_stream_ops_of(ctx->dev->drv);
	hal_list_init(&s->node);
	s->priority = attr->priority;
	s->flags = attr->flags;
	s->fail_mode = attr->fail_mode;
	hal_store_relaxed(&s->wait_mode, (uint32_t)attr->wait_mode);
	s->kind = attr->kind;
	s->generation = hal_load_acquire(&ctx->dev->generation);
	pthread_mutex_init(&s->err_lock, NULL);
}

static void free_base(struct hal_stream *s)
{
	struct hal_context *ctx = s->ctx;

	pthread_mutex_destroy(&s->err_lock);
	free(s);
	hal_context_put(ctx);
}

static int check_attr(const struct hal_device *dev, const struct hal_stream_attr *attr)
{
	const char *what = NULL;
	long long value = 0;

	if (attr->priority >= dev->info.priorities) {
		what = "priority";
		value = attr->priority;
	} else if (attr->flags & ~NPU_STREAM_NONBLOCK) {
		what = "flags";
		value = attr->flags;
	} else if ((uint32_t)attr->fail_mode > NPU_FAIL_STOP) {
		what = "fail mode";
		value = attr->fail_mode;
	} else if ((uint32_t)attr->wait_mode > NPU_WAIT_BLOCK) {
		what = "wait mode";
		value = attr->wait_mode;
	}
	if (!what)
		return 0;
	return hal_fail_at(-EINVAL, "stream_create", dev, 0, "%s %lld", what, value);
}

/* Whoever changes the state comes by later, or has changed it before. */
static uint32_t state_flag(const struct hal_stream *s)
{
	return hal_load_acquire(&s->ctx->dev->state) == HAL_DEVICE_OPEN ? 0 : HAL_ERR_STATE;
}

/*
 * Makes the stream findable, and part of its context - which may end at any moment
 * from then on, and the stream with it.
 */
static int publish(struct hal_stream *s, uint64_t *handle)
{
	struct hal_stream_slot *slot = s->slot;
	struct hal_context *ctx = s->ctx;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, "stream_create");
	/* a restart that has been through the list already would not find it */
	if (!rc && s->generation != hal_load_acquire(&ctx->dev->generation))
		rc = hal_fail_at(-ESTALE, "stream_create", ctx->dev, 0,
				 "device %d was restarted meanwhile", ctx->dev->ordinal);
	if (!rc) {
		hal_list_add_tail(&ctx->streams, &s->node);
		hal_spin_lock(&slot->slot.lock);
		/* relaxed: the generation is released behind them */
		hal_store_relaxed(&slot->dev, ctx->dev);
		hal_store_relaxed(&slot->ctx, ctx);
		hal_store_relaxed(&slot->err, state_flag(s));
		hal_store_release(&slot->timeline, s->timeline);
		s->handle = hal_handle_publish(HAL_HANDLE_STREAM, &slot->slot, s);
		*handle = s->handle;
		hal_spin_unlock(&slot->slot.lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

/**
 * hal_stream_create() - make a stream
 * @ctx: its context
 * @attr: how
 * @stream: out: its handle
 *
 * Return: 0, -EINVAL, -ENOSPC, -ENOMEM, -EOPNOTSUPP, -ESTALE (the context is going), the
 * device's state, or as the driver fails.
 */
int hal_stream_create(struct hal_context *ctx, const struct hal_stream_attr *attr,
		      uint64_t *stream)
{
	struct hal_device *dev = ctx->dev;
	struct hal_slot *slot;
	struct hal_stream *s;
	size_t size;
	uint32_t fills;
	int rc;

	*stream = 0;
	rc = hal_need(dev, NPU_CAP_STREAM, "stream_create");
	if (!rc)
		rc = check_attr(dev, attr);
	if (!rc)
		rc = hal_device_usable(dev, "stream_create");
	if (rc)
		return rc;
	size = dev->drv->stream->obj_size;
	s = hal_zalloc_aligned(HAL_CACHELINE, size > sizeof(*s) ? size : sizeof(*s));
	if (!s)
		return hal_fail_at(-ENOMEM, "stream_create", dev, 0, "no memory for a stream");
	init_base(s, ctx, attr);
	rc = hal_handle_alloc(HAL_HANDLE_STREAM, &slot);
	if (rc)
		goto free;
	s->slot = (struct hal_stream_slot *)slot;
	s->first_seq = hal_load_relaxed(&s->slot->next_seq);	/* relaxed: the slot is ours */
	fills = hal_fills();
	rc = s->ops->init(s);
	if (rc) {
		hal_exhausted(rc, HAL_LIMIT_STREAMS, dev, "stream_create", fills);
		goto free_slot;
	}
	rc = publish(s, stream);
	if (rc)
		goto fini;
	return 0;
fini:
	s->ops->fini(s);
free_slot:
	hal_handle_free(HAL_HANDLE_STREAM, slot);
free:
	free_base(s);
	return rc;
}

struct hal_stream *hal_stream_find(uint64_t stream)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(stream);
	struct hal_stream *s = NULL;

	if (slot) {
		hal_spin_lock(&slot->slot.lock);
		if (hal_slot_is(&slot->slot, stream)) {
			s = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
			kref_get(&s->ref);
		}
		hal_spin_unlock(&slot->slot.lock);
	}
	return s;
}

/**
 * hal_stream_get() - the stream of a handle
 * @stream: the handle
 * @op: for the error record
 *
 * Return: the stream with a reference, or NULL with the thread's record filled.
 */
struct hal_stream *hal_stream_get(uint64_t stream, const char *op)
{
	struct hal_stream *s = hal_stream_find(stream);

	if (!s)
		hal_handle_error(HAL_HANDLE_STREAM, stream, op);
	return s;
}

static void release(struct kref *ref)
{
	struct hal_stream *s = container_of(ref, struct hal_stream, ref);

	s->ops->fini(s);
	free_base(s);
}

/* Gives a reference back. NULL is fine. */
void hal_stream_put(struct hal_stream *s)
{
	if (s)
		kref_put(&s->ref, release);
}

/* By the point's number, for the handle may have been renewed since. */
struct hal_stream *hal_point_get(const struct hal_point *p)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(p->stream);
	struct hal_stream *s;

	if (!slot)
		return NULL;
	hal_spin_lock(&slot->slot.lock);
	s = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
	if (s && s->first_seq <= p->seq)
		kref_get(&s->ref);
	else
		s = NULL;
	hal_spin_unlock(&slot->slot.lock);
	return s;
}

/* ---- destroying --------------------------------------------------------------------- */

void hal_stream_retire(struct hal_stream *s)
{
	hal_spin_lock(&s->slot->slot.lock);
	hal_handle_retire(HAL_HANDLE_STREAM, &s->slot->slot);
	hal_spin_unlock(&s->slot->slot.lock);
}

/* With the context's lock held. A stream that was given up meanwhile stays so. */
void hal_stream_restore(struct hal_stream *s)
{
	if (s->gone)
		return;
	hal_spin_lock(&s->slot->slot.lock);
	hal_handle_restore(HAL_HANDLE_STREAM, &s->slot->slot);
	hal_spin_unlock(&s->slot->slot.lock);
	pthread_cond_broadcast(&s->ctx->changed);
}

int hal_stream_drain(struct hal_stream *s, uint64_t deadline)
{
	struct hal_device *dev = s->ctx->dev;
	uint64_t last;
	int rc;

	hal_spin_lock(&s->slot->slot.lock);
	last = hal_load_relaxed(&s->slot->next_seq) - 1;	/* relaxed: under the lock */
	hal_spin_unlock(&s->slot->slot.lock);
	rc = hal_stream_wait_host(s, last, deadline, 0);
	if (rc && hal_load_relaxed(&dev->state) == HAL_DEVICE_LOST)
		return 0;
	return rc;
}

/*
 * With the context's lock held. The mark is taken away only with the stream: what
 * is marked here and has its device back is ended by the restart.
 */
void hal_stream_mark_state(struct hal_stream *s, bool stop)
{
	pthread_mutex_lock(&s->err_lock);
	if (stop) {
		s->stopped_at = hal_load_relaxed(&s->reported) + 1;	/* relaxed: locked */
		hal_store_release(&s->reported, s->stopped_at);
	}
	if (!s->gone) {
		hal_spin_lock(&s->slot->slot.lock);
		atomic_fetch_or(&s->slot->err, state_flag(s));
		hal_spin_unlock(&s->slot->slot.lock);
	}
	pthread_mutex_unlock(&s->err_lock);
}

/*
 * From now on points of the stream are done, and the slot does not lead to it. With the context's
 * lock held.
 */
static void detach(struct hal_stream *s)
{
	struct hal_stream_slot *slot = s->slot;

	pthread_mutex_lock(&s->err_lock);
	s->gone = true;
	hal_store_release(&slot->err, 0);
	pthread_mutex_unlock(&s->err_lock);
	hal_spin_lock(&slot->slot.lock);
	hal_shm_store_relaxed(&slot->done, hal_load_relaxed(&slot->next_seq) - 1);
	hal_store_release(&slot->timeline, &slot->done);
	hal_store_relaxed(&slot->slot.obj, NULL);
	hal_spin_unlock(&slot->slot.lock);
}

void hal_stream_finish(struct hal_stream *s)
{
	struct hal_context *ctx = s->ctx;

	pthread_mutex_lock(&ctx->lock);
	detach(s);
	hal_list_del(&s->node);
	pthread_cond_broadcast(&ctx->changed);
	pthread_mutex_unlock(&ctx->lock);
	hal_handle_free(HAL_HANDLE_STREAM, &s->slot->slot);
	hal_stream_put(s);
}

/*
 * With the context's lock held. One reference is never given back: threads of the
 * driver may be in the stream for ever. Who was destroying it finishes or, in
 * vain, restores it.
 */
void hal_stream_abandon(struct hal_stream *s)
{
	if (s->gone)
		return;
	kref_get(&s->ref);
	if (s->going) {
		detach(s);
		return;
	}
	s->going = HAL_GOING_ALONE;
	hal_stream_retire(s);
	detach(s);
	hal_handle_free(HAL_HANDLE_STREAM, &s->slot->slot);
}

/**
 * hal_stream_destroy() - drain and destroy a stream
 * @stream: its handle
 * @timeout_ms: how long it may take to drain
 *
 * Failures that nobody was told of are forgotten; the log has them.
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -ETIMEDOUT (the stream is as it was), -EDEADLK.
 */
int hal_stream_destroy(uint64_t stream, int64_t timeout_ms)
{
	struct hal_context *ctx;
	struct hal_stream *s;
	bool ours;
	int rc;

	rc = hal_may_block("stream_destroy");
	if (rc)
		return rc;
	s = hal_stream_get(stream, "stream_destroy");
	if (!s)
		return hal_error_last()->code;
	ctx = s->ctx;
	pthread_mutex_lock(&ctx->lock);
	ours = !s->going && s->handle == stream;
	if (ours) {
		s->going = HAL_GOING_ALONE;
		hal_stream_retire(s);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (!ours) {
		rc = hal_handle_error(HAL_HANDLE_STREAM, stream, "stream_destroy");
		goto put;
	}
	rc = hal_stream_drain(s, hal_sys_deadline(timeout_ms));
	if (rc) {
		pthread_mutex_lock(&ctx->lock);
		s->going = 0;
		hal_stream_restore(s);
		pthread_mutex_unlock(&ctx->lock);
		/* a restart meanwhile has left it to us */
		hal_streams_expire_context(ctx);
		goto put;
	}
	hal_stream_collect(s);	/* for the log */
	hal_stream_finish(s);
put:
	hal_stream_put(s);
	return rc;
}

/**
 * hal_stream_rehandle() - give a stream a new handle
 * @stream: its handle, stale afterwards
 * @renewed: out: the new one
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -ENOSPC (no generation is left).
 */
int hal_stream_rehandle(uint64_t stream, uint64_t *renewed)
{
	struct hal_stream *s;
	int rc = 0;

	*renewed = 0;
	s = hal_stream_get(stream, "stream_rehandle");
	if (!s)
		return hal_error_last()->code;
	pthread_mutex_lock(&s->ctx->lock);
	if (!s->going && s->handle == stream) {
		hal_spin_lock(&s->slot->slot.lock);
		*renewed = hal_handle_renew(HAL_HANDLE_STREAM, &s->slot->slot);
		if (*renewed)
			s->handle = *renewed;
		else
			rc = -ENOSPC;
		hal_spin_unlock(&s->slot->slot.lock);
	} else {
		rc = -ESTALE;
	}
	pthread_mutex_unlock(&s->ctx->lock);
	if (rc == -ENOSPC)
		hal_fail(rc, "stream_rehandle", "slot %u has had all its handles",
			 hal_handle_index(stream));
	else if (rc)
		hal_handle_error(HAL_HANDLE_STREAM, stream, "stream_rehandle");
	hal_stream_put(s);
	return rc;
}

/**
 * hal_stream_abort() - discard what is queued, stop what runs, forget failures
 * @stream: the stream
 * @timeout_ms: how long what runs may take to end
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EOPNOTSUPP, -ETIMEDOUT, -EDEADLK, the device's state, or as
 * the driver fails.
 */
int hal_stream_abort(uint64_t stream, int64_t timeout_ms)
{
	struct hal_stream *s = hal_stream_get(stream, "stream_abort");
	uint32_t fills;
	int rc;

	if (!s)
		return hal_error_last()->code;
	rc = hal_need(s->ctx->dev, NPU_CAP_ABORT, "stream_abort");
	if (!rc)
		rc = hal_may_block("stream_abort");
	if (!rc)
		rc = hal_device_usable(s->ctx->dev, "stream_abort");
	if (rc)
		goto put;
	pthread_mutex_lock(&s->err_lock);
	s->aborted_at = hal_load_relaxed(&s->reported) + 1;	/* relaxed: under the lock */
	hal_store_release(&s->reported, s->aborted_at);
	pthread_mutex_unlock(&s->err_lock);
	hal_events_cut_stream(s);
	fills = hal_fills();
	rc = s->ops->abort(s, hal_sys_deadline(timeout_ms));
	if (rc == -ETIMEDOUT)
		hal_hint(hal_stream_too_long(s, "stream_abort", 0, "what runs does not end"),
			 "Abort again later; npu_device_stop() and npu_device_restart() end what "
			 "an abort does not, and all else on the device.");
	else if (rc)
		hal_driver_failed(rc, "stream_abort", s->ctx->dev, fills);
	else
		hal_stream_forget(s);
put:
	hal_stream_put(s);
	return rc;
}

/* ---- the end of a generation ------------------------------------------------------------ */

/* A stream of an older generation that nobody else is ending, made ours. */
static struct hal_stream *next_old(struct hal_context *ctx)
{
	uint64_t now = hal_load_acquire(&ctx->dev->generation);
	struct hal_stream *found = NULL;
	struct hal_list *n;

	pthread_mutex_lock(&ctx->lock);
	hal_list_for_each(n, &ctx->streams) {
		struct hal_stream *s = hal_list_entry(n, struct hal_stream, node);

		if (s->going || s->generation == now)
			continue;
		s->going = HAL_GOING_ALONE;
		hal_stream_retire(s);
		found = s;
		break;
	}
	pthread_mutex_unlock(&ctx->lock);
	return found;
}

static void expire(struct hal_stream *s)
{
	struct hal_stream_slot *slot = s->slot;

	hal_spin_lock(&slot->slot.lock);
	slot->old = hal_load_relaxed(&s->handle);	/* relaxed: nobody changes it now */
	slot->old_generation = s->generation;
	slot->old_ordinal = s->ctx->dev->ordinal;
	hal_spin_unlock(&slot->slot.lock);
	hal_stream_finish(s);
}

void hal_streams_expire_context(struct hal_context *ctx)
{
	struct hal_stream *s;

	while ((s = next_old(ctx)))
		expire(s);
}

void hal_streams_expire(struct hal_device *dev)
{
	struct hal_stream *s;
	struct hal_list *n;

	do {
		s = NULL;
		pthread_mutex_lock(&dev->lock);
		hal_list_for_each(n, &dev->contexts) {
			s = next_old(hal_list_entry(n, struct hal_context, node));
			if (s)
				break;
		}
		pthread_mutex_unlock(&dev->lock);
		if (s)
			expire(s);
	} while (s);
}

bool hal_stream_expired(uint64_t stream, uint64_t *generation, int *ordinal)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(stream);
	bool is;

	if (!slot)
		return false;
	hal_spin_lock(&slot->slot.lock);
	is = slot->old == stream;
	*generation = slot->old_generation;
	*ordinal = slot->old_ordinal;
	hal_spin_unlock(&slot->slot.lock);
	return is;
}
