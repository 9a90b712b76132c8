// SPDX-License-Identifier: MIT
/*
 * Running the tasks of a queue that the thread has claimed, one after another.
 */
#include <sched.h>
#include <string.h>

#include "drivers/simnpu/model/hot.h"

#define LOOK_EVERY	16u	/* tasks, a power of two */
#define HOST_EVERY	256u	/* borrowed tasks, a power of two: where the host's thread is */
#define SLICE		64u	/* tasks, until others of the same priority have their turn */

/* Whether something waits at the head of a queue that the caller has claimed. */
bool model_head_valid(struct model_queue *q)
{
	struct simnpu_desc *d = hal_load_relaxed(&q->slot);
	uint64_t want = hal_load_relaxed(&q->next_seq);
	uint64_t seq;

	if (hal_load_relaxed(&q->stop))
		return false;
	seq = hal_shm_load_acquire(&d->seq);
	return seq == want || seq == (want | SIMNPU_SEQ_LINK);
}

/*
 * The same, of a queue that others may have: a hint. The head may move meanwhile,
 * and the submitter write data where it was; that does no harm, but is a race to
 * the ThreadSanitizer.
 */
HAL_NO_TSAN bool model_head_hint(struct model_queue *q)
{
	struct simnpu_desc *d = hal_load_relaxed(&q->slot);
	uint64_t want = hal_load_relaxed(&q->next_seq);
	uint64_t seq = d ? hal_shm_load_relaxed(&d->seq) : 0;

	return (seq & ~SIMNPU_SEQ_LINK) == want && !hal_load_relaxed(&q->stop);
}

/**
 * model_complete() - a task is done
 * @w: the worker, or NULL
 * @q: the queue, claimed
 * @slots: slots that it had
 *
 * The head moves on.
 */
void model_complete(struct model_worker *w, struct model_queue *q, uint32_t slots)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	uint64_t seq = hal_load_relaxed(&q->next_seq);
	uint64_t mark = unlikely(hal_load_relaxed(&q->error_pending)) ? SIMNPU_TIMELINE_ERROR : 0;

	q->left -= slots;
	q->consumed += slots;
	hal_store_relaxed(&q->slot, hal_load_relaxed(&q->slot) + slots);
	hal_store_relaxed(&q->next_seq, seq + 1);
	/* release: what the task wrote, and that its slots were read, is seen with these */
	hal_shm_store_release(&h->consumed, q->consumed);
	hal_shm_store_release(&h->timeline, seq | mark);
	/* who sets out to wait makes all processors pass a barrier; else it is passed here */
	if (unlikely(!q->dev->asym))
		atomic_thread_fence(memory_order_seq_cst);
	if (unlikely(seq >= hal_load_relaxed(&q->wake_seq)))
		model_wake(q, hal_load_relaxed(&q->uid), seq, w);
}

/* The task at the head of a queue, as where a failure begins. The queue is claimed. */
struct model_origin model_task_origin(struct model_queue *q, const struct simnpu_desc *d,
				      uint32_t code, uint64_t addr)
{
	return (struct model_origin){
		.queue = q,
		.uid = hal_load_relaxed(&q->uid),
		.seq = hal_load_relaxed(&q->next_seq),
		.cookie = d->cookie,
		.addr = addr,
		.code = code,
		.op = d->op,
		.tag = d->tag,
	};
}

/* The task at the head of a queue fails; it is to be completed. The queue is claimed. */
void model_task_fail(struct model_queue *q, const struct simnpu_desc *d, uint32_t code,
		     uint64_t addr)
{
	struct model_origin o = model_task_origin(q, d, code, addr);

	model_queue_fail(q, o.seq, code, &o);
}

/* The ring can't be followed any more: all that may come counts as done, and failed. */
static void broken(struct model_queue *q, const struct simnpu_desc *d)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	struct model_origin o = model_task_origin(q, d, EIO, 0);

	model_queue_fail(q, o.seq, EIO, &o);
	hal_spin_lock(&q->lock);
	/* whatever is waited for, is over and failed */
	q->gone_code = EIO;
	q->gone_from = 0;
	q->gone_to = UINT64_MAX;
	q->gone_origin = o;
	hal_store_relaxed(&q->given_up, UINT64_MAX);
	atomic_fetch_or(&q->stop, QUEUE_STOP_BROKEN);
	hal_spin_unlock(&q->lock);
	hal_store_relaxed(&q->next_seq, MODEL_TIMELINE_BROKEN + 1);
	hal_shm_store_release(&h->timeline, MODEL_TIMELINE_BROKEN | SIMNPU_TIMELINE_ERROR);
	atomic_thread_fence(memory_order_seq_cst);
	model_wake(q, hal_load_relaxed(&q->uid), MODEL_TIMELINE_BROKEN, NULL);
}

/* Follows a link at the head; segments behind it are given back. False: it leads nowhere. */
bool model_follow(struct model_queue *q, const struct simnpu_desc *slot)
{
	struct simnpu_desc d = *slot;
	struct model_arena *a = q->ctx->arena;
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	struct model_seg *seg, *gone = NULL, *next;

	if (d.op != SIMNPU_OP_LINK || d.slots)
		return false;
	hal_spin_lock(&q->lock);
	for (seg = q->segs; seg; seg = seg->next)
		if (seg->offset == d.link.ring && seg->slots == d.link.slots)
			break;
	/* one that leads to itself would be followed for ever */
	if (seg && (const char *)slot == a->base + seg->offset)
		seg = NULL;
	if (seg && seg != q->segs) {
		gone = q->segs;
		q->segs = seg;
	}
	hal_spin_unlock(&q->lock);
	if (!seg)
		return false;
	q->left = seg->slots;
	hal_store_relaxed(&q->slot, (struct simnpu_desc *)(void *)(a->base + seg->offset));
	q->consumed++;
	hal_shm_store_release(&h->consumed, q->consumed);
	for (; gone && gone != seg; gone = next) {
		next = gone->next;
		model_arena_seg_free(a, gone);
	}
	return true;
}

/* Who is not told of the queue where it began learns of the one that it waited for. */
static void wait_fail(struct model_queue *q, const struct simnpu_desc *d, struct model_origin *o)
{
	o->via = d->wait.queue;
	o->via_seq = d->wait.seq;
	model_queue_fail(q, hal_load_relaxed(&q->next_seq), o->code, o);
}

static int run_wait(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d)
{
	struct model_queue *other;
	struct model_origin origin;
	uint64_t uid;
	int rc;

	if (q->wait_over) {
		/* it was parked, and was told how that ended */
		q->wait_over = false;
		if (q->wait_failed)
			wait_fail(q, d, &q->wait_origin);
		return 0;
	}
	if (d->wait.pad || d->wait.seq & SIMNPU_TIMELINE_ERROR)
		return EINVAL;
	rc = model_queue_resolve(q, d->wait.queue, &other, &uid);
	if (rc || !other)
		return -rc;
	if (model_park(q, other, uid, d->wait.seq)) {
		w->blocked_on = other;
		return MODEL_TASK_GONE;
	}
	if (model_queue_failed(other, uid, d->wait.seq, &origin))
		wait_fail(q, d, &origin);
	return 0;
}

static inline __attribute__((always_inline))
int run_xfer(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
	     const struct simnpu_desc *slot, uint64_t *addr)
{
	struct simnpu_copy c = { .height = 1 };
	struct simnpu_desc_pitch pitch;

	switch (d->op) {
	case SIMNPU_OP_COPY:
		c.dst = d->copy.dst;
		c.src = d->copy.src;
		c.width = c.dst_pitch = c.src_pitch = d->copy.size;
		c.kind = d->copy.kind;
		break;
	case SIMNPU_OP_COPY_2D:
		if (d->slots != 1)
			return EINVAL;
		memcpy(&pitch, slot + 1, sizeof(pitch));
		c.dst = d->copy_2d.dst;
		c.src = d->copy_2d.src;
		c.width = d->copy_2d.width;
		c.height = d->copy_2d.height;
		c.dst_pitch = pitch.dst_pitch;
		c.src_pitch = pitch.src_pitch;
		c.kind = d->copy_2d.kind;
		break;
	default:
		c.dst = d->fill.dst;
		c.src = d->fill.value & 255;
		c.width = c.dst_pitch = d->fill.size;
		break;
	}
	if (d->op != SIMNPU_OP_FILL && !c.kind)
		return EINVAL;
	return -model_xfer(q->dev, w->token, &c, addr);
}

/* Runs a task: 0, a positive errno, or MODEL_TASK_*. Inline, as all tasks pass. */
static inline __attribute__((always_inline))
int run_task(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
	     const struct simnpu_desc *slot, uint64_t *addr)
{
	if (unlikely(d->flags) && (d->op != SIMNPU_OP_CALLBACK || d->flags & ~SIMNPU_DESC_NOBLOCK))
		return EINVAL;
	switch (d->op) {
	case SIMNPU_OP_NOP:
		return 0;
	case SIMNPU_OP_LAUNCH:
		return model_launch(w, q, d, slot, addr);
	case SIMNPU_OP_COPY:
	case SIMNPU_OP_COPY_2D:
	case SIMNPU_OP_FILL:
		return run_xfer(w, q, d, slot, addr);
	case SIMNPU_OP_WAIT:
		return run_wait(w, q, d);
	case SIMNPU_OP_RECORD:
		return model_event_record(q, d->record.event);
	case SIMNPU_OP_CALLBACK:
	case SIMNPU_OP_HOST:
		return model_callback_post(q, d);
	default:
		return EINVAL;
	}
}

/* Whether a waiting thread may run a task; kernels from files are told apart later. */
static bool may_borrow(struct model_worker *w, const struct simnpu_desc *d)
{
	if (w->short_only) {
		if (hal_sys_now() >= w->deadline)
			return false;
		switch (d->op) {
		case SIMNPU_OP_LAUNCH:
			return false;
		case SIMNPU_OP_COPY:
			return d->copy.size <= MODEL_SHORT_COPY;
		case SIMNPU_OP_FILL:
			return d->fill.size <= MODEL_SHORT_COPY;
		case SIMNPU_OP_COPY_2D:
			return d->copy_2d.width <= MODEL_SHORT_COPY &&
			       d->copy_2d.height <= MODEL_SHORT_COPY &&
			       d->copy_2d.width * d->copy_2d.height <= MODEL_SHORT_COPY;
		}
		return true;
	}
	return true;
}

/* Gets the worker the token that a task needs; on false the queue is in a ready list. */
static inline __attribute__((always_inline))
bool need_token(struct model_worker *w, struct model_queue *q, enum model_class class)
{
	if (class == CLASS_CONTROL || class == w->class)
		return true;
	model_worker_drop(w);
	if (!model_token_get(w->dev, class, &w->token)) {
		model_ready(q, class);
		return false;
	}
	w->class = class;
	return true;
}

/* Between tasks of an engine thread: true if others come first; the queue is ready then. */
static bool between(struct model_worker *w, struct model_queue *q, uint32_t n)
{
	uint64_t now;

	if (unlikely(!(n & (LOOK_EVERY - 1)))) {
		now = hal_sys_now();
		if (now - hal_load_relaxed(&w->dev->last_look) >= MODEL_LOOK_NS)
			model_look(w->dev, now);
	}
	if (likely(!model_should_yield(w, q, n >= SLICE)))
		return false;
	if (!model_head_valid(q))
		return false;
	model_ready(q, model_op_class(hal_load_relaxed(&q->slot)));
	return true;
}

/* A task that did not end well. As run_head(). */
static __attribute__((noinline)) int run_ended(struct model_worker *w, struct model_queue *q,
					       const struct simnpu_desc *d, int rc, uint64_t addr)
{
	struct model_device *of;
	struct model_origin o;

	if (rc == MODEL_TASK_NOT_HERE) {
		model_worker_drop(w);
		model_ready(q, CLASS_CORE);
		return LEFT_READY;
	}
	/* what was told to stop is given up, as is what is behind it */
	if (rc == ECANCELED && hal_load_relaxed(&q->stop) & (QUEUE_STOP_HALT | QUEUE_STOP_ABORT))
		return model_stopped(q) ? -1 : LEFT_EMPTY;
	o = model_task_origin(q, d, (uint32_t)rc, addr);
	of = rc == EHWPOISON ? model_poison_mark(q->dev, addr) : NULL;
	model_queue_fail(q, o.seq, (uint32_t)rc, &o);
	model_complete(w, q, 1u + d->slots);
	if (of)
		model_poison_end(q->dev, of, &o, q);
	return -1;
}

/* A queue whose tasks are not simply run: 0: run it; -1: it is over; else the answer plus 1. */
static __attribute__((noinline)) int run_with_care(struct model_worker *w, struct model_queue *q,
						   const struct simnpu_desc *d,
						   const struct simnpu_desc *slot)
{
	if (!(hal_load_relaxed(&q->care) & QUEUE_CARE_STOPPED))
		return model_act_task(w, q, d, slot);
	model_queue_fail(q, hal_load_relaxed(&q->next_seq), ECANCELED, &q->stop_origin);
	model_complete(w, q, 1u + d->slots);
	return -1;
}

/* Runs a task, with something done before it is said to be done. As model_act_task(). */
int model_run_then(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		   const struct simnpu_desc *slot)
{
	uint64_t addr = 0;
	int rc, left;

	if (!need_token(w, q, model_op_class(d)))
		return LEFT_READY + 1;
	rc = run_task(w, q, d, slot, &addr);
	if (rc) {
		left = rc == MODEL_TASK_GONE ? LEFT_GONE : run_ended(w, q, d, rc, addr);
		return left < 0 ? -1 : left + 1;
	}
	model_worker_drop(w);
	model_act_done(q, d);
	model_complete(w, q, 1u + d->slots);
	return -1;
}

/* The head's task; the answer as of model_run(), or -1: go on. */
static int run_head(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *slot)
{
	struct simnpu_desc d = *slot;
	uint64_t addr = 0;
	int rc, left;

	/* the last slot of a segment is for a link */
	if (unlikely(d.slots + 1u >= q->left || d.slots > MODEL_DESC_SLOTS)) {
		broken(q, &d);
		return LEFT_EMPTY;
	}
	if (unlikely(w->borrower) && !may_borrow(w, &d)) {
		model_ready(q, model_op_class(&d));
		return LEFT_READY;
	}
	if (unlikely(hal_load_relaxed(&q->care))) {
		left = run_with_care(w, q, &d, slot);
		if (left)
			return left > 0 ? left - 1 : -1;
	}
	if (!need_token(w, q, model_op_class(&d)))
		return LEFT_READY;
	rc = run_task(w, q, &d, slot, &addr);
	if (unlikely(rc))
		return rc == MODEL_TASK_GONE ? LEFT_GONE : run_ended(w, q, &d, rc, addr);
	model_complete(w, q, 1u + d.slots);
	return -1;
}

/**
 * model_run() - run the tasks of a queue
 * @w: the worker
 * @q: the queue, claimed
 *
 * Return: why it ended. With LEFT_EMPTY and LEFT_DONE the queue is still
 * claimed, with the others it is not, and must not be touched.
 */
enum model_left model_run(struct model_worker *w, struct model_queue *q)
{
	struct simnpu_desc *slot;
	uint64_t want, seq;
	uint32_t n = 0;
	int left;

	if (unlikely(w->dev != q->dev)) {
		model_worker_drop(w);
		w->dev = q->dev;
	}
	for (;;) {
		if (unlikely(hal_load_relaxed(&q->stop)) && !model_stopped(q))
			return LEFT_EMPTY;
		slot = hal_load_relaxed(&q->slot);
		want = hal_load_relaxed(&q->next_seq);
		seq = hal_shm_load_acquire(&slot->seq);
		if (unlikely(seq != want)) {
			if (seq != (want | SIMNPU_SEQ_LINK))
				return LEFT_EMPTY;
			if (!model_follow(q, slot))
				broken(q, slot);
			continue;
		}
		left = run_head(w, q, slot);
		if (unlikely(left >= 0))
			return left;
		n++;
		if (w->borrower) {
			model_count_plain(borrowed);
			if (unlikely(!(want & (HOST_EVERY - 1))))
				hal_store_relaxed(&w->dev->host_cpu, sched_getcpu());
			if (w->next || (q == w->target && want >= w->until))
				return LEFT_DONE;
		} else if (unlikely(between(w, q, n))) {
			return LEFT_READY;
		}
	}
}
