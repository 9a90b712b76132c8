// SPDX-License-Identifier: MIT
/*
 * Failures of tasks: those that wait to be taken, and those that others who
 * wait for the queue are told of.
 */
#include <stdlib.h>
#include <string.h>

#include "drivers/simnpu/model/model.h"

#define ENTRY_MAX 512u	/* bytes of an entry, of whatever version */

/**
 * model_failures_get() - room for what is known of a queue's failures
 * @q: the queue, claimed
 *
 * Return: the room, or NULL: there is no memory; failures are counted then, and
 * that is all.
 */
struct model_failures *model_failures_get(struct model_queue *q)
{
	struct model_failures *f;

	hal_spin_lock(&q->lock);
	f = q->failures;
	hal_spin_unlock(&q->lock);
	if (f)
		return f;
	f = hal_zalloc(sizeof(*f));
	hal_spin_lock(&q->lock);
	/* who ends a queue by force has not claimed it */
	if (!q->failures) {
		q->failures = f;
		f = NULL;
	}
	hal_spin_unlock(&q->lock);
	free(f);
	return q->failures;
}

/**
 * model_queue_fail() - note the failure of a task
 * @q: its queue
 * @seq: its sequence number
 * @code: a positive errno
 * @origin: where it began
 *
 * Context: the caller has claimed the queue, and completes the task afterwards; or halt.c.
 */
void model_queue_fail(struct model_queue *q, uint64_t seq, uint32_t code,
		      const struct model_origin *origin)
{
	struct model_error e = {
		.seq = seq, .time_ns = hal_sys_now(), .code = code, .origin = *origin,
	};

	model_failures_get(q);
	hal_spin_lock(&q->lock);
	if (q->failures && q->error_count < SIMNPU_ERRORS_MAX) {
		q->failures->errors[q->error_count++] = e;
	} else {
		if (!q->dropped++)
			q->dropped_first = seq;
		q->dropped_last = seq;
	}
	if (q->failures)
		q->failures->failed[q->failed_count++ % MODEL_FAILURES] = e;
	/* relaxed: the timeline that says so is stored after this, with release */
	hal_store_relaxed(&q->error_pending, true);
	if (q->fail_stop && !q->stopped_at) {
		q->stopped_at = seq;
		q->stop_origin = *origin;
		atomic_fetch_or(&q->care, QUEUE_CARE_STOPPED);
	}
	q->history = true;
	hal_spin_unlock(&q->lock);
	hal_info(HAL_LOG_MODEL, "simnpu%u: queue %#x: task %llu failed: errno %u", q->dev->index,
		 hal_load_relaxed(&q->handle), (unsigned long long)seq, code);
}

/* A failure that nobody took and that lies before or at a task, or NULL. */
static const struct model_error *pending_before(const struct model_queue *q, uint64_t seq)
{
	return q->error_count && q->failures->errors[0].seq <= seq ? &q->failures->errors[0] : NULL;
}

static const struct model_error *failure_at(const struct model_queue *q, uint64_t seq)
{
	uint64_t n = q->failed_count < MODEL_FAILURES ? q->failed_count : MODEL_FAILURES;
	uint64_t i;

	for (i = 0; i < n; i++)
		if (q->failures->failed[i].seq == seq)
			return &q->failures->failed[i];
	return NULL;
}

/* What an abort before the last one discarded, if a task was among it, or NULL. Under q->lock. */
const struct model_gone *model_gone_before(const struct model_queue *q, uint64_t seq)
{
	uint64_t n = q->gone_count < MODEL_ABORTS ? q->gone_count : MODEL_ABORTS, i;

	for (i = 0; i < n; i++)
		if (seq >= q->failures->gone[i].from && seq <= q->failures->gone[i].to)
			return &q->failures->gone[i];
	return NULL;
}

/* As model_queue_failed(), under q->lock. */
bool model_queue_failed_locked(struct model_queue *q, uint64_t seq, struct model_origin *origin)
{
	const struct model_gone *gone;
	const struct model_error *e;
	bool failed;

	if (likely(!q->history))
		return false;
	if (q->gone_code && seq >= q->gone_from && seq <= q->gone_to) {
		*origin = q->gone_origin;
		return true;
	}
	gone = model_gone_before(q, seq);
	if (gone) {
		*origin = gone->origin;
		return true;
	}
	e = failure_at(q, seq);
	if (!e)
		e = pending_before(q, seq);
	failed = e || (q->stopped_at && q->stopped_at <= seq);
	if (failed)
		*origin = e ? e->origin : q->stop_origin;
	return failed;
}

/**
 * model_queue_failed() - whether who waits for a task is to be told of a failure
 * @q: the queue of the task
 * @uid: the life of the queue that is meant
 * @seq: the task, completed
 * @origin: out: where it began
 *
 * It is when that very task failed, or one before it and nobody took note yet.
 */
bool model_queue_failed(struct model_queue *q, uint64_t uid, uint64_t seq,
			struct model_origin *origin)
{
	bool failed;

	hal_spin_lock(&q->lock);
	failed = hal_load_relaxed(&q->uid) == uid && model_queue_failed_locked(q, seq, origin);
	hal_spin_unlock(&q->lock);
	return failed;
}

/* The handle by which a file knows a queue, or 0. Context: under the device's lock. */
static uint32_t origin_handle(struct model_queue *reader, const struct model_origin *o)
{
	struct model_import *imp;
	struct hal_list *pos;

	if (!o->queue || hal_load_relaxed(&o->queue->uid) != o->uid)
		return 0;
	if (hal_load_relaxed(&o->queue->file) == hal_load_relaxed(&reader->file))
		return hal_load_relaxed(&o->queue->handle);
	hal_list_for_each(pos, &reader->ctx->imports) {
		imp = hal_list_entry(pos, struct model_import, node);
		if (imp->queue == o->queue && imp->uid == o->uid)
			return imp->handle;
	}
	return 0;
}

static void task_error(struct model_queue *q, const struct model_error *e,
		       struct simnpu_task_error *t)
{
	*t = (struct simnpu_task_error){
		.seq = e->seq,
		.origin_seq = e->origin.seq,
		.cookie = e->origin.cookie,
		.time_ns = e->time_ns,
		.addr = e->origin.addr,
		.origin_queue = origin_handle(q, &e->origin),
		.code = e->code,
		.op = e->origin.op,
		.tag = e->origin.tag,
	};
	if (t->origin_queue || !e->origin.via)
		return;
	t->origin_queue = e->origin.via;
	t->origin_seq = e->origin.via_seq;
}

/* Clears the mark of the timeline when no failure waits to be taken. Under q->lock. */
void model_queue_unmark(struct model_queue *q)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	__u64 old;

	if (q->error_count || q->dropped)
		return;
	hal_store_relaxed(&q->error_pending, false);
	old = hal_shm_load_relaxed(&h->timeline);
	/* an engine may complete tasks meanwhile: its next word comes without the mark */
	while (old & SIMNPU_TIMELINE_ERROR &&
	       !__atomic_compare_exchange_n(&h->timeline, &old, old & MODEL_TIMELINE_MASK, true,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

static int errors_out(struct model_queue *q, const struct model_error *e, uint32_t n,
		      const struct simnpu_errors *arg)
{
	char entry[ENTRY_MAX] = { 0 };
	struct simnpu_task_error t;
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < n; i++) {
		task_error(q, &e[i], &t);
		/* a larger entry than ours ends in zeros */
		memcpy(entry, &t, sizeof(t));
		rc = model_copy_out(arg->list + (uint64_t)i * arg->entry_size, entry,
				    arg->entry_size);
	}
	return rc;
}

static void errors_forget(struct model_queue *q, uint32_t n, struct simnpu_errors *arg)
{
	uint32_t i;

	hal_spin_lock(&q->lock);
	for (i = n; i < q->error_count; i++)
		q->failures->errors[i - n] = q->failures->errors[i];
	q->error_count -= n;
	arg->count = n;
	arg->dropped = q->dropped < UINT32_MAX ? (uint32_t)q->dropped : UINT32_MAX;
	arg->dropped_first = q->dropped ? q->dropped_first : 0;
	arg->dropped_last = q->dropped ? q->dropped_last : 0;
	q->dropped = 0;
	model_queue_unmark(q);
	hal_spin_unlock(&q->lock);
}

/*
 * What lies at the head: the queue may move on meanwhile, so its number is looked at once more. The
 * submitter may write there then; that does no harm, but is a race to the ThreadSanitizer.
 */
HAL_NO_TSAN bool model_head_copy(struct model_queue *q, struct simnpu_at *arg)
{
	const struct simnpu_desc *d = hal_load_relaxed(&q->slot);
	uint64_t seq = hal_load_acquire(&q->next_seq);

	if (hal_shm_load_acquire(&d->seq) != seq)
		return false;
	arg->seq = seq;
	arg->cookie = d->cookie;
	arg->op = d->op;
	arg->tag = d->tag;
	atomic_thread_fence(memory_order_acquire);
	return hal_load_relaxed(&q->next_seq) == seq;
}

/* SIMNPU_IOCTL_QUEUE_AT. */
int model_queue_at(struct model_file *f, struct simnpu_at *arg)
{
	struct model_queue *q;
	int rc = -ENOENT;

	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->queue, MODEL_QUEUE);
	if (q)
		rc = model_head_copy(q, arg) ? 0 : -ENODATA;
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* SIMNPU_IOCTL_QUEUE_ERRORS. */
int model_queue_errors(struct model_file *f, struct simnpu_errors *arg)
{
	struct model_error e[SIMNPU_ERRORS_MAX];
	struct model_queue *q;
	uint32_t i, n;
	int rc;

	if (arg->entry_size < sizeof(struct simnpu_task_error) || arg->entry_size > ENTRY_MAX ||
	    arg->entry_size % sizeof(uint64_t))
		return -EINVAL;
	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->queue, MODEL_QUEUE);
	if (!q) {
		pthread_mutex_unlock(&f->dev->lock);
		return -ENOENT;
	}
	hal_spin_lock(&q->lock);
	n = q->error_count < arg->room ? q->error_count : arg->room;
	for (i = 0; i < n; i++)
		e[i] = q->failures->errors[i];
	hal_spin_unlock(&q->lock);
	/* others can only add some behind: takers are kept out by the device's lock */
	rc = errors_out(q, e, n, arg);
	if (!rc)
		errors_forget(q, n, arg);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}
