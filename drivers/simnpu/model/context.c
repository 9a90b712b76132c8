// SPDX-License-Identifier: MIT
/*
 * Contexts, and the timed events in them.
 *
 * A context's handle has 7 bits of index and 16 of generation, and is less than
 * MODEL_CONTEXT_HANDLES, since it is part of an mmap() offset. None is given out
 * twice.
 */
#include <stdlib.h>

#include "drivers/simnpu/model/model.h"

#define INDEX_BITS 7
#define GEN_LAST 0xffffu
#define GEN_SEEDS 0x1000u	/* files begin at different ones, so that handles miss */

static uint32_t index_of(uint32_t handle)
{
	return (handle & ((1u << INDEX_BITS) - 1)) - 1;
}

/* The context of a handle, or NULL. Context: under the device's lock. */
struct model_context *model_context_find(struct model_file *f, uint32_t handle)
{
	uint32_t i = index_of(handle);

	if (i >= MODEL_CONTEXTS_MAX || !f->contexts[i] || f->contexts[i]->handle != handle)
		return NULL;
	return f->contexts[i];
}

/**
 * model_context_next() - the contexts of a device, of all its files, one after another
 * @dev: the device
 * @ctx: the one before, NULL: the first is meant
 *
 * Context: under the device's lock. Return: the next one, or NULL.
 */
struct model_context *model_context_next(struct model_device *dev, const struct model_context *ctx)
{
	struct hal_list *pos = ctx ? &ctx->file->node : dev->files.next;
	uint32_t i = ctx ? index_of(ctx->handle) + 1 : 0;
	struct model_file *f;

	for (; pos != &dev->files; pos = pos->next, i = 0) {
		f = hal_list_entry(pos, struct model_file, node);
		for (; i < MODEL_CONTEXTS_MAX; i++)
			if (f->contexts[i])
				return f->contexts[i];
	}
	return NULL;
}

static struct model_context *context_new(struct model_file *f)
{
	struct model_context *ctx = hal_zalloc(sizeof(*ctx));
	uint32_t i;

	if (!ctx)
		return NULL;
	ctx->file = f;
	ctx->dev = f->dev;
	hal_list_init(&ctx->queues);
	hal_list_init(&ctx->imports);
	hal_list_init(&ctx->mems);
	hal_list_init(&ctx->events);
	hal_list_init(&ctx->modules);
	for (i = 0; i < MODEL_CALLED; i++)
		hal_list_init(&ctx->callbacks[i]);
	return ctx;
}

static int context_add(struct model_file *f, struct model_context *ctx)
{
	static _Atomic uint32_t seed;
	uint32_t i;

	for (i = 0; i < MODEL_CONTEXTS_MAX; i++)
		if (!f->contexts[i] && f->context_last[i] != GEN_LAST)
			break;
	if (i == MODEL_CONTEXTS_MAX)
		return -ENOSPC;
	if (!f->context_last[i])
		f->context_last[i] = hal_add_relaxed(&seed, 0x35) % GEN_SEEDS;
	ctx->handle = ++f->context_last[i] << INDEX_BITS | (i + 1);
	f->contexts[i] = ctx;
	return 0;
}

/* SIMNPU_IOCTL_CONTEXT_CREATE. */
int model_context_create(struct model_file *f, struct simnpu_context *arg)
{
	struct model_context *ctx = context_new(f);
	int rc;

	if (!ctx)
		return -ENOMEM;
	rc = model_arena_get(&ctx->arena);
	if (rc)
		goto free_ctx;
	pthread_mutex_lock(&f->dev->lock);
	rc = hal_load_relaxed(&f->fd) < 0 ? -EBADF : 0;
	/* questions take no part in an instance: this is a device in use */
	if (!rc && model_named())
		rc = model_instance_join(f->dev);
	if (!rc)
		rc = context_add(f, ctx);
	pthread_mutex_unlock(&f->dev->lock);
	if (rc)
		goto put_arena;
	/* questions make no context: this is a device in use */
	model_segv_install();
	arg->context = ctx->handle;
	arg->arena_size = ctx->arena->size;
	arg->result = f->dev->asym ? 0 : SIMNPU_CONTEXT_FENCE;
	return 0;

put_arena:
	model_arena_put(ctx->arena);
free_ctx:
	free(ctx);
	return rc;
}

/* Under the device's lock. */
static void event_del(struct model_file *f, struct model_event *ev)
{
	/* an engine may just be writing the time */
	hal_spin_lock(&f->event_lock);
	model_table_del(&f->table, ev->handle);
	hal_spin_unlock(&f->event_lock);
	hal_list_del(&ev->node);
	model_arena_stamp_free(ev->ctx->arena, ev->stamp);
	model_uncharge(f->dev, MODEL_EVENTS, 1);
}

#define first_of(list, type) hal_list_entry((list)->next, type, node)

/* Under the device's lock, which is dropped while a queue comes to rest. */
static void context_empty(struct model_context *ctx)
{
	struct model_import *imp;
	struct model_event *ev;

	while (!hal_list_empty(&ctx->queues))
		model_queue_kill(first_of(&ctx->queues, struct model_queue));
	while (!hal_list_empty(&ctx->imports)) {
		imp = first_of(&ctx->imports, struct model_import);
		model_table_del(&ctx->file->table, imp->handle);
		hal_list_del(&imp->node);
		free(imp);
	}
	while (!hal_list_empty(&ctx->modules))
		model_module_free(first_of(&ctx->modules, struct model_module));
	while (!hal_list_empty(&ctx->mems))
		model_mem_end(first_of(&ctx->mems, struct model_mem));
	if (IS_ENABLED(CONFIG_VMM))
		model_vm_drop(ctx);
	while (!hal_list_empty(&ctx->events)) {
		ev = first_of(&ctx->events, struct model_event);
		event_del(ctx->file, ev);
		free(ev);
	}
}

/**
 * model_context_free() - destroy a context and all that is in it
 * @ctx: the context, which nobody finds any more
 *
 * Context: under the device's lock, which is dropped in between.
 */
void model_context_free(struct model_context *ctx)
{
	model_callback_end(ctx);
	context_empty(ctx);
	model_callback_drop(ctx);
	if (ctx->dev->hung)
		return;
	model_arena_put(ctx->arena);
	free(ctx);
}

static void context_del(struct model_context *ctx)
{
	struct model_file *f = ctx->file;

	f->contexts[index_of(ctx->handle)] = NULL;
	model_context_free(ctx);
}

/* SIMNPU_IOCTL_CONTEXT_DESTROY. */
int model_context_destroy(struct model_file *f, const struct simnpu_handle *arg)
{
	struct model_context *ctx;

	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->handle);
	if (ctx)
		context_del(ctx);
	pthread_mutex_unlock(&f->dev->lock);
	return ctx ? 0 : -ENOENT;
}

/**
 * model_file_close() - destroy all that belongs to an open file
 * @f: the file, which no descriptor leads to any more
 */
void model_file_close(struct model_file *f)
{
	uint32_t i;

	pthread_mutex_lock(&f->dev->lock);
	for (i = 0; i < MODEL_CONTEXTS_MAX; i++)
		if (f->contexts[i])
			context_del(f->contexts[i]);
	model_table_reset(&f->table);
	pthread_mutex_unlock(&f->dev->lock);
}

/* ---- timed events ---------------------------------------------------------------- */

static int event_add(struct model_file *f, struct model_event *ev, uint32_t context)
{
	struct model_device *dev = f->dev;
	int rc;

	ev->ctx = model_context_find(f, context);
	if (!ev->ctx)
		return -ENOENT;
	rc = model_charge(dev, MODEL_EVENTS, 1);
	if (rc)
		return rc;
	rc = model_arena_stamp(ev->ctx->arena, &ev->stamp);
	if (rc)
		goto uncharge;
	rc = model_table_add(&f->table, MODEL_EVENT, ev, &ev->handle);
	if (rc)
		goto free_stamp;
	hal_list_add_tail(&ev->ctx->events, &ev->node);
	return 0;

free_stamp:
	model_arena_stamp_free(ev->ctx->arena, ev->stamp);
uncharge:
	model_uncharge(dev, MODEL_EVENTS, 1);
	return rc;
}

/* SIMNPU_IOCTL_EVENT_CREATE. */
int model_event_create(struct model_file *f, struct simnpu_event *arg)
{
	struct model_event *ev = hal_zalloc(sizeof(*ev));
	int rc;

	if (!ev)
		return -ENOMEM;
	pthread_mutex_lock(&f->dev->lock);
	rc = event_add(f, ev, arg->context);
	pthread_mutex_unlock(&f->dev->lock);
	if (rc) {
		free(ev);
		return rc;
	}
	arg->handle = ev->handle;
	arg->stamp = ev->stamp;
	return 0;
}

/* SIMNPU_IOCTL_EVENT_DESTROY. */
int model_event_destroy(struct model_file *f, const struct simnpu_handle *arg)
{
	struct model_event *ev;

	pthread_mutex_lock(&f->dev->lock);
	ev = model_table_get(&f->table, arg->handle, MODEL_EVENT);
	if (ev) {
		event_del(f, ev);
	}
	pthread_mutex_unlock(&f->dev->lock);
	free(ev);
	return ev ? 0 : -ENOENT;
}

/**
 * model_event_record() - note the time in an event
 * @q: the queue of the RECORD
 * @handle: the event; 0: nowhere. One that is destroyed notes nothing
 *
 * Context: an engine, which has claimed the queue. Return: 0 or EINVAL.
 */
int model_event_record(struct model_queue *q, uint32_t handle)
{
	struct model_file *f = hal_load_relaxed(&q->file);
	struct model_context *ctx = q->ctx;
	struct model_event *ev;
	int rc = 0;

	if (!handle)
		return 0;
	hal_spin_lock(&f->event_lock);
	ev = model_table_get(&f->table, handle, MODEL_EVENT);
	if (ev && ev->ctx == ctx)
		hal_shm_store_release((uint64_t *)(void *)(ctx->arena->base + ev->stamp),
				      hal_sys_now());
	else if (!model_table_was(&f->table, handle))
		rc = EINVAL;
	hal_spin_unlock(&f->event_lock);
	return rc;
}
