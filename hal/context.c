// SPDX-License-Identifier: MIT
/*
 * Contexts.
 */
#include <stdlib.h>

#include "hal/internal.h"

static void init_base(struct hal_context *ctx, struct hal_device *dev)
{
	kref_init(&ctx->ref);
	ctx->dev = hal_device_get(dev);
	hal_list_init(&ctx->node);
	pthread_mutex_init(&ctx->lock, NULL);
	hal_cond_init(&ctx->changed);
	hal_list_init(&ctx->streams);
	hal_list_init(&ctx->memory);
	hal_list_init(&ctx->apart);
	hal_list_init(&ctx->reserves);
	hal_list_init(&ctx->modules);
	hal_list_init(&ctx->events);
	hal_list_init(&ctx->ended_events);
}

static void free_base(struct hal_context *ctx)
{
	struct hal_device *dev = ctx->dev;

	pthread_cond_destroy(&ctx->changed);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
	hal_device_put(dev);
}

/**
 * hal_context_create() - make a context
 * @dev: the device
 * @ctx: out: its handle
 *
 * Return: 0, -ENOSPC, -ENOMEM, the device's state, or as the device fails.
 */
int hal_context_create(struct hal_device *dev, uint64_t *ctx)
{
	size_t size = dev->drv->device->context_size;
	struct hal_context *c;
	struct hal_slot *slot;
	uint32_t fills;
	int rc;

	*ctx = 0;
	rc = hal_device_usable(dev, "context_create");
	if (rc)
		return rc;
	c = hal_zalloc_aligned(HAL_CACHELINE, size > sizeof(*c) ? size : sizeof(*c));
	if (!c)
		return hal_fail_at(-ENOMEM, "context_create", dev, 0, "no memory for a context");
	init_base(c, dev);
	rc = hal_handle_alloc(HAL_HANDLE_CONTEXT, &slot);
	if (rc)
		goto free;
	fills = hal_fills();
	rc = dev->drv->device->context_init(c);
	if (rc) {
		hal_exhausted(rc, HAL_LIMIT_CONTEXTS, dev, "context_create", fills);
		goto free_slot;
	}
	pthread_mutex_lock(&dev->lock);
	hal_list_add_tail(&dev->contexts, &c->node);
	pthread_mutex_unlock(&dev->lock);
	hal_spin_lock(&slot->lock);
	c->handle = hal_handle_publish(HAL_HANDLE_CONTEXT, slot, c);
	*ctx = c->handle;
	hal_spin_unlock(&slot->lock);
	return 0;
free_slot:
	hal_handle_free(HAL_HANDLE_CONTEXT, slot);
free:
	free_base(c);
	return rc;
}

/**
 * hal_context_get() - the context of a handle
 * @ctx: the handle
 * @op: for the error record
 *
 * Return: the context with a reference, or NULL with the thread's record filled.
 */
struct hal_context *hal_context_get(uint64_t ctx, const char *op)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_CONTEXT, ctx);
	struct hal_context *c = NULL;

	if (slot) {
		hal_spin_lock(&slot->lock);
		if (hal_slot_is(slot, ctx)) {
			c = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
			kref_get(&c->ref);
		}
		hal_spin_unlock(&slot->lock);
	}
	if (!c)
		hal_handle_error(HAL_HANDLE_CONTEXT, ctx, op);
	return c;
}

static void release(struct kref *ref)
{
	struct hal_context *ctx = container_of(ref, struct hal_context, ref);

	ctx->dev->drv->device->context_fini(ctx);
	free_base(ctx);
}

/* Gives a reference back. NULL is fine. */
void hal_context_put(struct hal_context *ctx)
{
	if (ctx)
		kref_put(&ctx->ref, release);
}

int hal_context_alive_locked(struct hal_context *ctx, const char *op)
{
	if (!ctx->dead)
		return 0;
	return hal_fail_at(-ESTALE, op, ctx->dev, 0, "context 0x%llx was destroyed",
			   (unsigned long long)ctx->handle);
}

bool hal_context_wait_locked(struct hal_context *ctx, uint64_t deadline)
{
	return hal_cond_wait_until(&ctx->changed, &ctx->lock, deadline);
}

/* ---- destroying ------------------------------------------------------------------- */

/*
 * Makes all streams ours to destroy, their handles stale. Those that somebody
 * else is destroying are waited for: they go, or become ours. Return: false: not
 * in time.
 */
static bool take_streams_locked(struct hal_context *ctx, uint64_t deadline)
{
	bool foreign;
	struct hal_list *n;

	do {
		foreign = false;
		hal_list_for_each(n, &ctx->streams) {
			struct hal_stream *s = hal_list_entry(n, struct hal_stream, node);

			if (!s->going) {
				s->going = HAL_GOING_CONTEXT;
				hal_stream_retire(s);
			}
			foreign |= s->going != HAL_GOING_CONTEXT;
		}
		if (foreign && !hal_context_wait_locked(ctx, deadline))
			return false;
	} while (foreign);
	return true;
}

static void restore_locked(struct hal_context *ctx)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_CONTEXT, ctx->handle);
	struct hal_list *n;

	hal_list_for_each(n, &ctx->streams) {
		struct hal_stream *s = hal_list_entry(n, struct hal_stream, node);

		if (s->going != HAL_GOING_CONTEXT)
			continue;
		s->going = 0;
		hal_stream_restore(s);
	}
	ctx->dead = false;
	hal_spin_lock(&slot->lock);
	hal_handle_restore(HAL_HANDLE_CONTEXT, slot);
	hal_spin_unlock(&slot->lock);
}

/* Takes the streams and drains them; on failure all is as it was. */
static int quiesce(struct hal_context *ctx, uint64_t deadline)
{
	struct hal_list *n;
	int rc = 0;

	pthread_mutex_lock(&ctx->lock);
	ctx->dead = true;
	if (!take_streams_locked(ctx, deadline))
		rc = hal_fail_at(-ETIMEDOUT, "context_destroy", ctx->dev, 0,
				 "a stream of context 0x%llx is still being destroyed",
				 (unsigned long long)ctx->handle);
	pthread_mutex_unlock(&ctx->lock);
	/* nobody adds to the list or takes from it now */
	if (!rc)
		hal_list_for_each(n, &ctx->streams) {
			rc = hal_stream_drain(hal_list_entry(n, struct hal_stream, node), deadline);
			if (rc)
				break;
		}
	if (rc) {
		pthread_mutex_lock(&ctx->lock);
		restore_locked(ctx);
		pthread_mutex_unlock(&ctx->lock);
		/* a restart meanwhile has left them to us */
		hal_streams_expire_context(ctx);
	}
	return rc;
}

/* Retires the handle; the context with a reference, or NULL with the record filled. */
static struct hal_context *retire(uint64_t handle, const char *op)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_CONTEXT, handle);
	struct hal_context *ctx = NULL;

	if (slot) {
		hal_spin_lock(&slot->lock);
		if (hal_slot_is(slot, handle)) {
			ctx = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
			kref_get(&ctx->ref);
			hal_handle_retire(HAL_HANDLE_CONTEXT, slot);
		}
		hal_spin_unlock(&slot->lock);
	}
	if (!ctx)
		hal_handle_error(HAL_HANDLE_CONTEXT, handle, op);
	return ctx;
}

/**
 * hal_context_destroy() - destroy a context and all that is in it
 * @ctx: its handle
 * @timeout_ms: how long to wait for its streams
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -ETIMEDOUT (nothing was destroyed), -EDEADLK.
 */
int hal_context_destroy(uint64_t ctx, int64_t timeout_ms)
{
	struct hal_context *c;
	int rc;

	rc = hal_may_block("context_destroy");
	if (rc)
		return rc;
	c = retire(ctx, "context_destroy");
	if (!c)
		return hal_error_last()->code;
	rc = quiesce(c, hal_sys_deadline(timeout_ms));
	if (rc) {
		hal_context_put(c);
		return rc;
	}
	while (!hal_list_empty(&c->streams))
		hal_stream_finish(hal_list_entry(c->streams.next, struct hal_stream, node));
	hal_events_destroy(c);
	hal_modules_destroy(c);
	if (IS_ENABLED(CONFIG_VMM))
		hal_vm_memory_destroy(c);
	hal_memory_destroy(c);
	if (IS_ENABLED(CONFIG_VMM))
		hal_vm_reserves_destroy(c);

	pthread_mutex_lock(&c->dev->lock);
	hal_list_del(&c->node);
	pthread_mutex_unlock(&c->dev->lock);
	hal_handle_free(HAL_HANDLE_CONTEXT, hal_slot_at(HAL_HANDLE_CONTEXT, ctx));
	hal_context_put(c);
	hal_context_put(c);
	return 0;
}

void hal_context_abandon(struct hal_context *ctx)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_CONTEXT, ctx->handle);
	struct hal_list *n;

	hal_spin_lock(&slot->lock);
	if (hal_slot_is(slot, ctx->handle))
		hal_handle_retire(HAL_HANDLE_CONTEXT, slot);
	hal_spin_unlock(&slot->lock);
	pthread_mutex_lock(&ctx->lock);
	ctx->dead = true;
	hal_list_for_each(n, &ctx->streams)
		hal_stream_abandon(hal_list_entry(n, struct hal_stream, node));
	pthread_mutex_unlock(&ctx->lock);
	hal_events_abandon(ctx);
	hal_modules_abandon(ctx);
	hal_memory_abandon(ctx);
	if (IS_ENABLED(CONFIG_VMM))
		hal_vm_abandon(ctx);
}

/* ---- waiting for all streams ---------------------------------------------------------- */

static void fill_marks_locked(struct hal_context *ctx, struct hal_stream_mark *m)
{
	struct hal_list *n;

	hal_list_for_each(n, &ctx->streams) {
		m->s = hal_list_entry(n, struct hal_stream, node);
		kref_get(&m->s->ref);
		m->since = hal_load_acquire(&m->s->reported);
		hal_spin_lock(&m->s->slot->slot.lock);
		m->seq = hal_load_relaxed(&m->s->slot->next_seq) - 1;	/* relaxed: locked */
		hal_spin_unlock(&m->s->slot->slot.lock);
		m++;
	}
}

int hal_marks_get(struct hal_context *ctx, struct hal_marks *m)
{
	uint32_t room = ARRAY_SIZE(m->few);

	m->mark = m->few;
	for (;;) {
		pthread_mutex_lock(&ctx->lock);
		m->n = hal_list_count(&ctx->streams);
		if (m->n <= room)
			break;
		room = m->n;
		pthread_mutex_unlock(&ctx->lock);
		if (m->mark != m->few)
			free(m->mark);
		m->mark = hal_zalloc(room * sizeof(*m->mark));
		if (!m->mark)
			return hal_fail_at(-ENOMEM, "context", ctx->dev, 0,
					   "no memory for a list of %u streams", room);
	}
	fill_marks_locked(ctx, m->mark);
	pthread_mutex_unlock(&ctx->lock);
	return 0;
}

void hal_marks_put(struct hal_marks *m)
{
	uint32_t i;

	for (i = 0; i < m->n; i++)
		hal_stream_put(m->mark[i].s);
	if (m->mark != m->few)
		free(m->mark);
}

/* The first failure of all streams becomes the record; the others are listed behind it. */
static int report_all(const struct hal_marks *m)
{
	struct hal_report r;
	int rc, untold = 0;
	uint32_t i;

	r.n = 0;
	r.next = 0;
	r.more = 0;
	for (i = 0; i < m->n; i++) {
		rc = hal_stream_report(m->mark[i].s, m->mark[i].seq, m->mark[i].since, &r);
		untold = rc ? rc : untold;
	}
	return r.n ? hal_report_tell(&r) : untold;
}

/* What came of a wait for all that ended with rc. */
static int outcome_all(struct hal_context *ctx, const struct hal_marks *m, int rc)
{
	uint32_t state = hal_load_acquire(&ctx->dev->state), i;
	int why = 0;

	for (i = 0; i < m->n && !why; i++)
		why = hal_stream_interrupted(m->mark[i].s, m->mark[i].since);
	if (!why && (!rc || state == HAL_DEVICE_FAULTED))
		why = report_all(m);
	if (!why && state != HAL_DEVICE_OPEN)
		why = hal_device_usable(ctx->dev, "context_sync");
	return why ? why : rc;
}

/**
 * hal_context_sync() - wait until all streams have done what was submitted before
 * @ctx: the context
 * @timeout_ms: for all of them together
 * @flags: HAL_WAIT_*
 *
 * Return: 0, -ETIMEDOUT, -EDEADLK, -ENOMEM, the device's state, or the first failure that
 * nobody was told of: all of them count as told then.
 */
int hal_context_sync(struct hal_context *ctx, int64_t timeout_ms, uint32_t flags)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	struct hal_marks m;
	uint32_t i;
	int rc = 0;

	if (timeout_ms)
		rc = hal_may_block("context_sync");
	if (!rc)
		rc = hal_marks_get(ctx, &m);
	if (rc)
		return rc;
	for (i = 0; i < m.n && !rc; i++)
		rc = hal_stream_wait_open(m.mark[i].s, m.mark[i].seq, deadline, flags);
	rc = outcome_all(ctx, &m, rc);
	hal_marks_put(&m);
	return rc;
}
