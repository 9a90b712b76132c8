// SPDX-License-Identifier: MIT
/*
 * Host callbacks: queues leave them here, threads of the driver fetch them.
 */
#include <stdlib.h>

#include "drivers/simnpu/model/hot.h"

/**
 * model_callback_post() - a callback's turn has come
 * @q: its queue, claimed
 * @d: a copy of the descriptor
 *
 * Return: 0: done, the queue goes on; MODEL_TASK_GONE: it stays until CALLBACK_DONE,
 * and is not the caller's any more; ENOMEM.
 */
int model_callback_post(struct model_queue *q, const struct simnpu_desc *d)
{
	struct model_callback *cb = hal_zalloc(sizeof(*cb));
	bool blocks = !(d->flags & SIMNPU_DESC_NOBLOCK);
	struct model_context *ctx = q->ctx;
	enum model_called kind = d->op == SIMNPU_OP_HOST ? MODEL_HOST_TASKS : MODEL_CALLBACKS;

	if (!cb)
		return ENOMEM;
	cb->handle = hal_load_relaxed(&q->handle);
	cb->flags = d->flags;
	cb->slots = 1u + d->slots;
	cb->seq = hal_load_relaxed(&q->next_seq);
	cb->fn = d->callback.fn;
	cb->arg = d->callback.arg;
	hal_spin_lock(&ctx->cb_lock);
	hal_list_add_tail(&ctx->callbacks[kind], &cb->node);
	if (blocks) {
		cb->queue = q;
		q->cb = cb;
		hal_store_release(&q->run, RUN_CALLBACK);
	}
	atomic_fetch_add(&ctx->cb_word[kind], 1);
	hal_spin_unlock(&ctx->cb_lock);
	/* with the queue in the list, the context may be gone; its address alone is used */
	hal_sys_futex_wake(&ctx->cb_word[kind], 1);
	return blocks ? MODEL_TASK_GONE : 0;
}

/* Takes the oldest; -EAGAIN: none, and *word is what to sleep on. */
static int take(struct model_context *ctx, enum model_called kind, struct simnpu_callback *arg,
		uint32_t *word)
{
	struct model_callback *cb = NULL;
	int rc = -EAGAIN;

	hal_spin_lock(&ctx->cb_lock);
	*word = hal_load_relaxed(&ctx->cb_word[kind]);
	if (ctx->cb_stop) {
		rc = -ECANCELED;
	} else if (!hal_list_empty(&ctx->callbacks[kind])) {
		cb = hal_list_entry(ctx->callbacks[kind].next, struct model_callback, node);
		hal_list_del(&cb->node);
		arg->queue = cb->handle;
		arg->seq = cb->seq;
		arg->fn = cb->fn;
		arg->arg = cb->arg;
		arg->flags = cb->flags;
		rc = 0;
	}
	if (cb && cb->queue)
		cb = NULL;	/* kept until it is done */
	hal_spin_unlock(&ctx->cb_lock);
	free(cb);
	return rc;
}

/* SIMNPU_IOCTL_CALLBACK_NEXT. */
int model_callback_next(struct model_file *f, struct simnpu_callback *arg)
{
	enum model_called kind = arg->flags & SIMNPU_CALLBACK_HOST ? MODEL_HOST_TASKS :
				 MODEL_CALLBACKS;
	struct model_context *ctx;
	uint32_t word;
	int rc;

	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->context);
	if (ctx)
		atomic_fetch_add(&ctx->users, 1);
	pthread_mutex_unlock(&f->dev->lock);
	if (!ctx)
		return -ENOENT;
	while ((rc = take(ctx, kind, arg, &word)) == -EAGAIN) {
		if (hal_sys_futex_wait(&ctx->cb_word[kind], word, arg->deadline_ns) == -ETIMEDOUT) {
			rc = take(ctx, kind, arg, &word);
			rc = rc == -EAGAIN ? -ETIME : rc;
			break;
		}
	}
	atomic_fetch_sub(&ctx->users, 1);
	return rc;
}

/* Takes the callback off a queue, which the caller has claimed then. Return: its slots, 0: not. */
static uint32_t callback_off(struct model_queue *q, uint64_t seq, bool any)
{
	struct model_context *ctx = q->ctx;
	struct model_callback *cb;
	uint32_t slots;

	hal_spin_lock(&ctx->cb_lock);
	cb = q->cb;
	/* not before it was given out */
	if (cb && (any || (cb->seq == seq && hal_list_empty(&cb->node)))) {
		hal_list_del(&cb->node);
		q->cb = NULL;
		model_take(q);
	} else {
		cb = NULL;
	}
	hal_spin_unlock(&ctx->cb_lock);
	slots = cb ? cb->slots : 0;
	free(cb);
	return slots;
}

/* Claims a queue from its callback, whether that was given out or not. */
bool model_callback_cancel(struct model_queue *q)
{
	return callback_off(q, 0, true);
}

static void done(struct model_queue *q, const struct simnpu_callback *arg, uint32_t slots)
{
	struct simnpu_desc *d = hal_load_relaxed(&q->slot);
	struct model_origin o = {
		.queue = q, .uid = hal_load_relaxed(&q->uid), .seq = arg->seq,
		.cookie = d->cookie, .code = arg->code, .op = d->op, .tag = d->tag,
	};

	if (arg->code)
		model_queue_fail(q, arg->seq, arg->code, &o);
	model_complete(NULL, q, slots);
	if (model_head_valid(q))
		model_ready(q, model_op_class(hal_load_relaxed(&q->slot)));
	else
		model_release(q);
}

/* SIMNPU_IOCTL_CALLBACK_DONE. */
int model_callback_done(struct model_file *f, const struct simnpu_callback *arg)
{
	struct model_queue *q;
	uint32_t slots = 0;
	int rc = -ENOENT;

	if (arg->code > 4095)
		return -EINVAL;
	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->queue, MODEL_QUEUE);
	if (q)
		slots = callback_off(q, arg->seq, false);
	if (q)
		rc = slots ? 0 : -EINVAL;
	if (!rc)
		done(q, arg, slots);
	else if (q && arg->seq <= hal_load_relaxed(&q->given_up))
		rc = 0;	/* nobody waits for it any more */
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

static void stop(struct model_context *ctx)
{
	uint32_t i;

	hal_spin_lock(&ctx->cb_lock);
	ctx->cb_stop = true;
	for (i = 0; i < MODEL_CALLED; i++)
		atomic_fetch_add(&ctx->cb_word[i], 1);
	hal_spin_unlock(&ctx->cb_lock);
	for (i = 0; i < MODEL_CALLED; i++)
		hal_sys_futex_wake(&ctx->cb_word[i], INT_MAX);
}

/* SIMNPU_IOCTL_CALLBACK_STOP. */
int model_callback_stop(struct model_file *f, const struct simnpu_handle *arg)
{
	struct model_context *ctx;

	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->handle);
	if (ctx)
		stop(ctx);
	pthread_mutex_unlock(&f->dev->lock);
	return ctx ? 0 : -ENOENT;
}

/**
 * model_callback_end() - end callbacks of a context that goes
 * @ctx: the context
 *
 * Returns when no thread is inside CALLBACK_NEXT any more.
 */
void model_callback_end(struct model_context *ctx)
{
	uint32_t n;

	stop(ctx);
	while ((n = atomic_load(&ctx->users)))
		hal_sys_futex_wait(&ctx->users, n, hal_sys_now() + MODEL_LOOK_NS);
}

/**
 * model_callback_drop() - forget callbacks that nobody took
 * @ctx: the context, whose queues are gone
 */
void model_callback_drop(struct model_context *ctx)
{
	struct model_callback *cb;
	uint32_t i;

	for (i = 0; i < MODEL_CALLED; i++) {
		while (!hal_list_empty(&ctx->callbacks[i])) {
			cb = hal_list_entry(ctx->callbacks[i].next, struct model_callback, node);
			hal_list_del(&cb->node);
			free(cb);
		}
	}
}
