// SPDX-License-Identifier: MIT
/*
 * Queues: made, grown, exported, destroyed.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "drivers/simnpu/model/model.h"

#define REST_NAP_NS 200000u

/* What the file behind an exported queue says. */
struct exported {
	uint64_t magic;
	uint64_t process;
	uint64_t uid;
	struct model_queue *queue;
	uint64_t check;
};

#define EXPORT_MAGIC 0x75656e6771736e70ull

/* ---- create ------------------------------------------------------------------------ */

static struct model_queue *queue_new(struct model_device *dev)
{
	struct model_queue *q = dev->free_queues;

	if (q) {
		dev->free_queues = q->next_free;
		return q;
	}
	q = hal_zalloc_aligned(64, sizeof(*q));
	if (!q)
		return NULL;
	q->dev = dev;
	q->park.kind = WAITER_QUEUE;
	q->park.queue = q;
	hal_list_init(&q->park.node);
	hal_list_init(&q->ready);
	hal_list_init(&q->waiters);
	hal_list_init(&q->node);
	return q;
}

/* Room in the active set for all queues that are charged, so that a kick can't fail for it. */
static int active_room(struct model_device *dev)
{
	uint32_t room = dev->active_room ? dev->active_room * 2 : 64;
	struct model_queue **to;
	uint32_t i;

	if (hal_load_relaxed(&dev->own[MODEL_QUEUES]) <= dev->active_room)
		return 0;
	to = hal_zalloc(room * sizeof(struct model_queue *));
	if (!to)
		return -ENOMEM;
	pthread_mutex_lock(&dev->look_lock);
	for (i = 0; i < hal_load_relaxed(&dev->active_count); i++)
		to[i] = dev->active[i];
	free(dev->active);
	dev->active = to;
	dev->active_room = room;
	pthread_mutex_unlock(&dev->look_lock);
	return 0;
}

static int queue_memory(struct model_queue *q, struct model_arena *a, struct simnpu_queue *arg)
{
	uint64_t cell;
	int rc = model_arena_cell(a, &cell);

	if (rc)
		return rc;
	arg->header = cell;
	rc = model_arena_seg(a, arg->slots, &q->segs);
	if (rc) {
		model_arena_cell_free(a, arg->header);
		return rc;
	}
	arg->ring = q->segs->offset;
	return 0;
}

static void queue_start(struct model_queue *q, const struct simnpu_queue *arg)
{
	char *base = q->ctx->arena->base;
	struct simnpu_queue_header *h = (void *)(base + arg->header);

	hal_store_relaxed(&q->header, h);
	hal_store_relaxed(&q->slot, (struct simnpu_desc *)(void *)(base + arg->ring));
	hal_store_relaxed(&q->next_seq, arg->first_seq);
	q->consumed = 0;
	q->left = arg->slots;
	q->priority = arg->priority;
	q->fail_stop = arg->flags & SIMNPU_QUEUE_FAIL_STOP;
	q->stopped_at = 0;
	q->history = false;
	q->halting = q->halted = false;
	q->gone_code = 0;
	q->gone_count = 0;
	q->number = ++q->dev->queue_number;
	q->verdict.seq = 0;
	hal_store_relaxed(&q->given_up, 0);
	q->error_count = 0;
	q->failed_count = 0;
	q->dropped = 0;
	q->cb = NULL;
	q->wait_over = false;
	hal_store_relaxed(&q->error_pending, false);
	hal_store_relaxed(&q->kernel, NULL);
	hal_store_relaxed(&q->wake_seq, UINT64_MAX);
	hal_store_relaxed(&q->stop, 0);
	hal_store_relaxed(&q->care, model_rules_care());
	hal_shm_store_relaxed(&h->consumed, 0);
	hal_shm_store_relaxed(&h->doorbell, 1);
	hal_shm_store_release(&h->timeline, arg->first_seq - 1);
	hal_store_release(&q->uid, ++q->dev->next_uid);
	hal_store_release(&q->run, RUN_IDLE);
}

static int queue_add(struct model_file *f, struct simnpu_queue *arg)
{
	struct model_device *dev = f->dev;
	struct model_context *ctx = model_context_find(f, arg->context);
	struct model_queue *q;
	int rc;

	if (!ctx)
		return -ENOENT;
	/* under the lock: who changes the state looks for queues under it afterwards */
	rc = model_state_refuse(dev);
	if (rc)
		return rc;
	rc = model_charge(dev, MODEL_QUEUES, 1);
	if (rc)
		return rc;
	rc = active_room(dev);
	if (rc)
		goto uncharge;
	q = queue_new(dev);
	if (!q) {
		rc = -ENOMEM;
		goto uncharge;
	}
	q->ctx = ctx;
	rc = queue_memory(q, ctx->arena, arg);
	if (rc)
		goto free_queue;
	hal_store_relaxed(&q->file, f);
	queue_start(q, arg);
	rc = model_table_add(&f->table, MODEL_QUEUE, q, &arg->handle);
	if (rc)
		goto free_memory;
	hal_store_release(&q->handle, arg->handle);
	hal_list_add_tail(&ctx->queues, &q->node);
	return 0;

free_memory:
	hal_store_relaxed(&q->run, RUN_DEAD);
	model_arena_seg_free(ctx->arena, q->segs);
	model_arena_cell_free(ctx->arena, arg->header);
free_queue:
	q->next_free = dev->free_queues;
	dev->free_queues = q;
uncharge:
	model_uncharge(dev, MODEL_QUEUES, 1);
	return rc;
}

static bool slots_ok(uint32_t slots)
{
	return slots >= MODEL_SEG_MIN && slots <= SIMNPU_SEGMENT_MAX && !(slots & (slots - 1));
}

/* SIMNPU_IOCTL_QUEUE_CREATE. */
int model_queue_create(struct model_file *f, struct simnpu_queue *arg)
{
	int rc;

	if (arg->flags & ~SIMNPU_QUEUE_FAIL_STOP || arg->priority >= MODEL_PRIORITIES ||
	    !slots_ok(arg->slots) || !arg->first_seq || arg->first_seq >= 1ull << 62)
		return -EINVAL;
	pthread_mutex_lock(&f->dev->lock);
	rc = queue_add(f, arg);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* Why a queue that was ended grows no more: its device's state, or that it was restarted since. */
static int ended(const struct model_queue *q)
{
	int rc = model_state_refuse(q->dev);

	return rc ? rc : -ESTALE;
}

/* SIMNPU_IOCTL_QUEUE_GROW. */
int model_queue_grow(struct model_file *f, struct simnpu_grow *arg)
{
	struct model_seg *seg, **end;
	struct model_queue *q;
	int rc = -ENOENT;

	if (!slots_ok(arg->slots))
		return -EINVAL;
	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->queue, MODEL_QUEUE);
	if (q)
		rc = model_queue_halted(q) ? ended(q) :
		     model_arena_seg(q->ctx->arena, arg->slots, &seg);
	if (!rc) {
		arg->ring = seg->offset;
		hal_spin_lock(&q->lock);
		for (end = &q->segs; *end; end = &(*end)->next)
			;
		*end = seg;
		hal_spin_unlock(&q->lock);
	}
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* ---- destroy ------------------------------------------------------------------------ */

/* Gets the queue away from whoever has it; false: its task does not end. */
static bool queue_seize(struct model_queue *q, uint64_t end)
{
	bool got;

	while (!(got = model_queue_claim(q)) && hal_sys_now() < end)
		hal_sys_futex_wait(&q->run, RUN_RUNNING, hal_sys_now() + REST_NAP_NS);
	return got;
}

/* Threads that are aborting it find out that it is gone. Under the device's lock, dropped. */
static void wait_for_aborters(struct model_queue *q)
{
	while (q->aborters) {
		pthread_mutex_unlock(&q->dev->lock);
		hal_sys_futex_wait(&q->run, RUN_DEAD, hal_sys_now() + REST_NAP_NS);
		pthread_mutex_lock(&q->dev->lock);
	}
}

static void queue_free(struct model_queue *q)
{
	struct model_device *dev = q->dev;
	struct model_arena *a = q->ctx->arena;
	struct model_seg *seg, *next;

	for (seg = q->segs; seg; seg = next) {
		next = seg->next;
		model_arena_seg_free(a, seg);
	}
	q->segs = NULL;
	model_arena_cell_free(a, (uint64_t)((char *)hal_load_relaxed(&q->header) - a->base));
	model_uncharge(dev, MODEL_QUEUES, 1);
	q->next_free = dev->free_queues;
	dev->free_queues = q;
}

/**
 * model_queue_kill() - destroy a queue; what has not run is discarded
 * @q: the queue
 *
 * Context: under the device's lock, which is dropped while a task comes to its end.
 * One that does not end makes the device lost: then nothing of it is given back.
 */
void model_queue_kill(struct model_queue *q)
{
	struct model_device *dev = q->dev;
	uint64_t end;
	bool seized;

	model_table_del(&hal_load_relaxed(&q->file)->table, hal_load_relaxed(&q->handle));
	hal_list_del(&q->node);
	/* nobody finds it any more, so it is this thread's alone to destroy */
	atomic_fetch_or(&q->stop, QUEUE_STOP_KILL);
	end = hal_sys_now() + (dev->hung ? REST_NAP_NS : MODEL_HUNG_NS);
	pthread_mutex_unlock(&dev->lock);
	seized = queue_seize(q, end);
	if (seized)
		atomic_store(&q->run, RUN_DEAD);
	hal_store_release(&q->handle, 0);
	model_active_remove(q);
	model_wake_all(q);
	pthread_mutex_lock(&dev->lock);
	if (seized) {
		wait_for_aborters(q);
		queue_free(q);
		return;
	}
	/* the thread and all that it may touch are left to it */
	if (!dev->hung)
		hal_err(HAL_LOG_MODEL, "simnpu%u: a task does not end: the device is lost",
			dev->index);
	dev->hung = true;
	model_state_lost(dev, ETIME);
}

static int import_del(struct model_file *f, uint32_t handle)
{
	struct model_import *imp = model_table_get(&f->table, handle, MODEL_IMPORT);

	if (!imp)
		return -ENOENT;
	model_table_del(&f->table, handle);
	hal_list_del(&imp->node);
	free(imp);
	return 0;
}

/* SIMNPU_IOCTL_QUEUE_DESTROY. */
int model_queue_destroy(struct model_file *f, const struct simnpu_handle *arg)
{
	struct model_queue *q;
	int rc = 0;

	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->handle, MODEL_QUEUE);
	if (q)
		model_queue_kill(q);
	else
		rc = import_del(f, arg->handle);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* ---- export and import --------------------------------------------------------------- */

/* Differs from process to process, and from another copy of the library. */
static uint64_t process_key(void)
{
	static _Atomic uint64_t key;
	uint64_t k = atomic_load(&key), none = 0;

	if (!k) {
		k = hal_sys_now() ^ (uintptr_t)&key ^ EXPORT_MAGIC;
		if (!atomic_compare_exchange_strong(&key, &none, k))
			k = none;
	}
	return k;
}

static uint64_t export_check(const struct exported *e)
{
	return (e->magic ^ e->process ^ (uintptr_t)e->queue) * 0x9e3779b97f4a7c15ull + e->uid;
}

/* SIMNPU_IOCTL_QUEUE_EXPORT: within the process. */
int model_queue_export(struct model_file *f, struct simnpu_export *arg)
{
	struct exported e = { .magic = EXPORT_MAGIC, .process = process_key() };
	int fd, rc = 0;

	pthread_mutex_lock(&f->dev->lock);
	e.queue = model_table_get(&f->table, arg->handle, MODEL_QUEUE);
	if (e.queue)
		e.uid = hal_load_relaxed(&e.queue->uid);
	pthread_mutex_unlock(&f->dev->lock);
	if (!e.queue)
		return -ENOENT;
	e.check = export_check(&e);
	fd = hal_sys_memfd("simnpu-queue");
	if (fd < 0)
		return fd;
	rc = hal_sys_write(fd, &e, sizeof(e));
	if (rc) {
		hal_sys_close(hal_sys_get(), fd);
		return rc;
	}
	arg->fd = fd;
	arg->size = 0;
	return 0;
}

static int export_read(int fd, struct exported *e)
{
	void *p;
	int rc;

	/* a mapping of a file that is too short can't be read: look through a copy-in */
	rc = hal_sys_mmap(hal_sys_get(), MODEL_PAGE, PROT_READ, MAP_SHARED, fd, 0, &p);
	if (rc)
		return rc == -EBADF ? -EBADF : -EINVAL;
	rc = model_copy_in(e, (uintptr_t)p, sizeof(*e));
	hal_sys_munmap(hal_sys_get(), p, MODEL_PAGE);
	if (rc || e->magic != EXPORT_MAGIC || e->process != process_key() ||
	    e->check != export_check(e))
		return -EINVAL;
	return 0;
}

/* SIMNPU_IOCTL_QUEUE_IMPORT: within the process. */
int model_queue_import(struct model_file *f, struct simnpu_import *arg)
{
	struct model_import *imp;
	struct exported e;
	int rc = export_read(arg->fd, &e);

	if (rc)
		return rc;
	imp = hal_zalloc(sizeof(*imp));
	if (!imp)
		return -ENOMEM;
	imp->queue = e.queue;
	imp->uid = e.uid;
	pthread_mutex_lock(&f->dev->lock);
	imp->ctx = model_context_find(f, arg->context);
	rc = imp->ctx ? model_table_add(&f->table, MODEL_IMPORT, imp, &imp->handle) : -ENOENT;
	if (!rc)
		hal_list_add_tail(&imp->ctx->imports, &imp->node);
	pthread_mutex_unlock(&f->dev->lock);
	if (rc) {
		free(imp);
		return rc;
	}
	arg->handle = imp->handle;
	arg->addr = arg->size = 0;
	return 0;
}

/**
 * model_queue_resolve() - the queue that a WAIT names
 * @q: the queue of the WAIT
 * @handle: the name
 * @other: out: the queue, or NULL: it is gone, and has completed all
 * @uid: out: its life
 *
 * Context: an engine; a lock is taken only for imports.
 * Return: 0, or -EINVAL: that never was a queue of this open file.
 */
int model_queue_resolve(struct model_queue *q, uint32_t handle, struct model_queue **other,
			uint64_t *uid)
{
	struct model_file *f = hal_load_relaxed(&q->file);
	struct model_import *imp;
	struct model_queue *o;

	*other = NULL;
	o = model_queue_find(&f->table, handle);
	if (o) {
		*uid = hal_load_acquire(&o->uid);
		if (hal_load_relaxed(&o->handle) == handle)
			*other = o;
		return 0;
	}
	pthread_mutex_lock(&q->dev->lock);
	imp = model_table_get(&f->table, handle, MODEL_IMPORT);
	if (imp && hal_load_acquire(&imp->queue->uid) == imp->uid) {
		*other = imp->queue;
		*uid = imp->uid;
	}
	pthread_mutex_unlock(&q->dev->lock);
	if (imp)
		return 0;
	if (!model_table_was(&f->table, handle))
		return -EINVAL;
	return model_table_find(&f->table, handle) ? -EINVAL : 0;
}
