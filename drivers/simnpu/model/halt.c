// SPDX-License-Identifier: MIT
/*
 * Tasks that are given up: of a queue that is aborted, and of all queues of a
 * device that has a fault, is stopped or is gone.
 *
 * Who gives tasks up says so in given_up and in the words behind it, before the
 * timeline does: who finds the timeline beyond his task looks at given_up, and
 * asks here whether it was run. A timeline is moved by who has claimed the
 * queue; only one whose task does not end is moved under its hands.
 */
#include "drivers/simnpu/model/hot.h"

#define NAP_NS		200000u
#define LATE_TRIES	5u
#define STOP_BITS	(QUEUE_STOP_ABORT | QUEUE_STOP_LATE)

/**
 * model_queue_claim() - try to get a queue from whoever has it
 * @q: the queue
 *
 * Return: whether it is the caller's; not when a thread runs a task of it, or it is dead.
 */
bool model_queue_claim(struct model_queue *q)
{
	uint32_t run = hal_load_acquire(&q->run);

	switch (run) {
	case RUN_IDLE:
		return atomic_compare_exchange_strong(&q->run, &run, RUN_RUNNING);
	case RUN_READY:
		return model_ready_steal(q);
	case RUN_PARKED:
		return model_unpark(q);
	case RUN_CALLBACK:
		return model_callback_cancel(q);
	default:
		return false;
	}
}

/* The task at the head as the origin of a failure; where there is none, the queue. Claimed. */
static struct model_origin origin_here(struct model_queue *q, uint64_t seq)
{
	struct model_origin o = {
		.queue = q, .uid = hal_load_relaxed(&q->uid), .seq = seq, .code = ECANCELED,
	};
	struct simnpu_desc *d = hal_load_relaxed(&q->slot);

	if (hal_shm_load_acquire(&d->seq) == seq) {
		o.op = d->op;
		o.tag = d->tag;
		o.cookie = d->cookie;
	}
	return o;
}

/**
 * model_gave_up() - what a wait answers whose task may have been given up
 * @q: the queue
 * @seq: the task
 *
 * Return: 0: it was run; else a negative errno.
 */
int model_gave_up(struct model_queue *q, uint64_t seq)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	bool done = (hal_shm_load_acquire(&h->timeline) & MODEL_TIMELINE_MASK) >= seq, gone;
	uint32_t stop;
	int rc = 0;

	model_queue_tidy(q);
	hal_spin_lock(&q->lock);
	stop = hal_load_relaxed(&q->stop);
	if (q->halted || stop & (QUEUE_STOP_BROKEN | QUEUE_STOP_LATE))
		gone = true;
	else if (stop & QUEUE_STOP_HALT)
		/* what runs may still come to its end; and a failure is noted first, to be found */
		gone = !done && q->gone_code == ECANCELED;
	else
		gone = done;	/* while it is aborted: by that */
	if (q->gone_code && seq >= q->gone_from && seq <= q->gone_to && gone)
		rc = -(int)q->gone_code;
	else if (model_gone_before(q, seq))
		rc = -ECANCELED;
	hal_spin_unlock(&q->lock);
	return rc;
}

/* Others are given up now: what an abort discarded before is kept for who asks late. Locked. */
static void keep_gone(struct model_queue *q)
{
	struct model_gone *gone;

	if (!q->gone_code || q->gone_from > q->gone_to || !q->failures)
		return;
	gone = &q->failures->gone[q->gone_count++ % MODEL_ABORTS];
	gone->from = q->gone_from;
	gone->to = q->gone_to;
	gone->origin = q->gone_origin;
}

/* ---- all that may come ------------------------------------------------------------- */

/**
 * model_halt_begin() - no further task of a queue begins, and kernels are told to return
 * @q: the queue
 * @code: what waits answer, positive
 * @origin: what all this began with, or NULL
 *
 * Context: any; the first code counts.
 */
void model_halt_begin(struct model_queue *q, uint32_t code, const struct model_origin *origin)
{
	uint64_t next;

	hal_spin_lock(&q->lock);
	if (!(hal_load_relaxed(&q->stop) & (QUEUE_STOP_HALT | QUEUE_STOP_BROKEN))) {
		next = hal_load_relaxed(&q->next_seq);
		if (hal_load_relaxed(&q->stop) & QUEUE_STOP_ABORT)
			q->gone_to = next - 1;
		keep_gone(q);
		q->gone_code = code;
		q->gone_from = next;
		q->gone_to = UINT64_MAX;
		q->gone_origin = (struct model_origin){ .queue = NULL };
		if (origin)
			q->gone_origin = *origin;
		q->history = true;
		hal_store_relaxed(&q->given_up, UINT64_MAX);
		atomic_fetch_or(&q->stop, QUEUE_STOP_HALT);
	}
	hal_spin_unlock(&q->lock);
}

/* Notes that all from @seq on was given up: a failure, unless it was a stop. */
static void halt_note(struct model_queue *q, uint64_t seq, const struct model_origin *here)
{
	struct model_origin o;
	uint32_t code;
	bool noted;

	hal_spin_lock(&q->lock);
	noted = q->halting;
	q->halting = true;
	code = q->gone_code;
	if (!noted)
		q->gone_from = seq;
	if (!noted && !q->gone_origin.queue) {
		q->gone_origin = *here;
		q->gone_origin.code = code;
	}
	o = q->gone_origin;
	hal_spin_unlock(&q->lock);
	if (noted)
		return;
	if (code != ECANCELED)
		model_queue_fail(q, seq, code, &o);
	hal_spin_lock(&q->lock);
	q->halted = true;
	hal_spin_unlock(&q->lock);
}

/* The timeline says that all is done, and who waits learns it. */
static void halt_tell(struct model_queue *q)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	uint64_t mark = hal_load_relaxed(&q->error_pending) ? SIMNPU_TIMELINE_ERROR : 0;

	hal_shm_store_release(&h->timeline, MODEL_TIMELINE_BROKEN | mark);
	atomic_thread_fence(memory_order_seq_cst);
	model_wake(q, hal_load_relaxed(&q->uid), MODEL_TIMELINE_BROKEN, NULL);
}

/**
 * model_halt() - end a queue that model_halt_begin() was called for
 * @q: the queue, claimed
 */
void model_halt(struct model_queue *q)
{
	uint64_t seq = hal_load_relaxed(&q->next_seq);
	struct model_origin here;

	if (seq > MODEL_TIMELINE_BROKEN)
		return;
	here = origin_here(q, seq);
	halt_note(q, seq, &here);
	hal_store_relaxed(&q->next_seq, MODEL_TIMELINE_BROKEN + 1);
	halt_tell(q);
}

/* The same of one whose task does not end: its thread goes on with it when that ends at last. */
static void halt_by_force(struct model_queue *q)
{
	uint64_t seq = hal_load_relaxed(&q->next_seq);
	struct model_origin here = {
		.queue = q, .uid = hal_load_relaxed(&q->uid), .seq = seq,
	};
	struct simnpu_at at;

	/* its slot is another thread's */
	if (model_head_copy(q, &at) && at.seq == seq) {
		here.op = at.op;
		here.tag = at.tag;
		here.cookie = at.cookie;
	}
	halt_note(q, seq, &here);
	halt_tell(q);
}

static bool halt_one(struct model_queue *q, uint32_t code, const struct model_origin *origin)
{
	if (hal_load_relaxed(&q->next_seq) > MODEL_TIMELINE_BROKEN)
		return true;
	model_halt_begin(q, code, origin);
	if (!model_queue_claim(q))
		return false;
	model_halt(q);
	model_release(q);
	return true;
}

/* All queues of a device once; how many have a task that did not end. Under the device's lock. */
static uint32_t halt_all(struct model_device *dev, uint32_t code, const struct model_origin *origin,
			 bool force)
{
	struct model_context *ctx;
	struct model_queue *q;
	struct hal_list *pos;
	uint32_t left = 0;

	for (ctx = model_context_next(dev, NULL); ctx; ctx = model_context_next(dev, ctx))
		hal_list_for_each(pos, &ctx->queues) {
			q = hal_list_entry(pos, struct model_queue, node);
			if (halt_one(q, code, origin))
				continue;
			left++;
			if (force)
				halt_by_force(q);
		}
	return left;
}

/**
 * model_halt_device() - end all queues of a device
 * @dev: the device, whose state says so already
 * @code: what waits answer, positive; with ECANCELED it is no failure
 * @origin: the task that all this began with, or NULL
 * @deadline: how long to wait for tasks that run
 *
 * Context: no lock; the caller may have claimed a queue that was ended.
 * Return: 0, or -ETIME: a task does not end; waits are over all the same.
 */
int model_halt_device(struct model_device *dev, uint32_t code, const struct model_origin *origin,
		      uint64_t deadline)
{
	uint32_t left, state;
	bool late;

	do {
		late = hal_sys_now() >= deadline;
		pthread_mutex_lock(&dev->lock);
		/*
		 * A stop that came meanwhile ends them all, and what is made after it is well. Of
		 * a stop: it is lost by now.
		 */
		state = atomic_load(&dev->state);
		if ((code == EIO && state != SIMNPU_STATE_FAULTED) ||
		    (code == ECANCELED && state != SIMNPU_STATE_STOPPED))
			left = 0;
		else
			left = halt_all(dev, code, origin, late);
		pthread_mutex_unlock(&dev->lock);
		if (left && !late)
			hal_sys_futex_wait(&dev->bell, atomic_load(&dev->bell),
					   hal_sys_now() + NAP_NS);
	} while (left && !late);
	return left ? -ETIME : 0;
}

/* Whether a queue was ended, and only waits to be destroyed. */
bool model_queue_halted(struct model_queue *q)
{
	return hal_load_relaxed(&q->stop) & QUEUE_STOP_HALT;
}

/* ---- abort --------------------------------------------------------------------------- */

/* Nobody is told any more of failures that there were. */
static void forget(struct model_queue *q)
{
	hal_spin_lock(&q->lock);
	q->error_count = 0;
	q->dropped = 0;
	q->failed_count = 0;
	q->stopped_at = 0;
	model_queue_unmark(q);
	hal_spin_unlock(&q->lock);
	atomic_fetch_and(&q->care, ~QUEUE_CARE_STOPPED);
}

/* Begins to give up what the queue has; bits: QUEUE_STOP_ABORT, with LATE or without. */
static void abort_begin(struct model_queue *q, uint32_t bits)
{
	uint64_t next;

	/* room for keep_gone() */
	model_failures_get(q);
	hal_spin_lock(&q->lock);
	if (hal_load_relaxed(&q->stop) & (QUEUE_STOP_HALT | QUEUE_STOP_BROKEN))
		goto unlock;
	if (!(hal_load_relaxed(&q->stop) & STOP_BITS)) {
		next = hal_load_relaxed(&q->next_seq);
		/* else nothing was run since the last abort: it goes on */
		if (!q->gone_code || q->gone_to + 1 != next) {
			keep_gone(q);
			q->gone_from = next;
		}
		q->gone_code = ECANCELED;
		q->gone_to = UINT64_MAX;
		q->history = true;
		hal_store_relaxed(&q->given_up, UINT64_MAX);
	}
	atomic_fetch_or(&q->stop, bits);
unlock:
	hal_spin_unlock(&q->lock);
}

/* Completes what is published without running it. The queue is claimed. */
static void discard(struct model_queue *q)
{
	struct model_origin here = origin_here(q, hal_load_relaxed(&q->next_seq));
	struct simnpu_desc *slot;
	uint64_t want, seq;
	uint32_t slots;

	forget(q);
	hal_spin_lock(&q->lock);
	q->gone_origin = here;
	hal_spin_unlock(&q->lock);
	for (;;) {
		slot = hal_load_relaxed(&q->slot);
		want = hal_load_relaxed(&q->next_seq);
		seq = hal_shm_load_acquire(&slot->seq);
		if (seq == (want | SIMNPU_SEQ_LINK)) {
			if (!model_follow(q, slot))
				break;
			continue;
		}
		/* what is not published is not looked at: the submitter writes there */
		if (seq != want)
			break;
		/* read once, as it may do so all the same */
		slots = hal_shm_load_relaxed(&slot->slots) + 1u;
		/* a ring that can't be followed is found out by who runs it */
		if (slots >= q->left)
			break;
		q->verdict.seq = 0;
		q->wait_over = false;
		model_complete(NULL, q, slots);
	}
	hal_spin_lock(&q->lock);
	q->gone_to = want - 1;
	hal_store_relaxed(&q->given_up, want - 1);
	atomic_fetch_and(&q->stop, ~STOP_BITS);
	hal_spin_unlock(&q->lock);
}

/**
 * model_stopped() - a thread finds that the queue that it has claimed is to stop
 * @q: the queue
 *
 * Return: true: it may go on; false: it has to leave the queue.
 */
bool model_stopped(struct model_queue *q)
{
	uint32_t stop = atomic_load(&q->stop);

	if (stop & QUEUE_STOP_KILL)
		return false;
	if (stop & QUEUE_STOP_HALT) {
		model_halt(q);
		return false;
	}
	if (stop & QUEUE_STOP_BROKEN || !(stop & QUEUE_STOP_LATE))
		return !stop;
	discard(q);
	return true;
}

/* Gives a claimed queue to whoever runs what is in it. */
static void let_go(struct model_queue *q)
{
	if (model_head_valid(q))
		model_ready(q, model_op_class(hal_load_relaxed(&q->slot)));
	else
		model_release(q);
}

/**
 * model_queue_tidy() - do what a thread left to do that found a queue to be stopped
 * @q: the queue
 *
 * Context: any thread that has not claimed it.
 */
void model_queue_tidy(struct model_queue *q)
{
	uint32_t run = RUN_IDLE, stop = hal_load_relaxed(&q->stop);

	if (!(stop & (QUEUE_STOP_HALT | QUEUE_STOP_LATE)) || stop & QUEUE_STOP_KILL ||
	    hal_load_relaxed(&q->next_seq) > MODEL_TIMELINE_BROKEN ||
	    !atomic_compare_exchange_strong(&q->run, &run, RUN_RUNNING))
		return;
	if (model_stopped(q))
		let_go(q);
	else
		model_release(q);
}

/* Claims the queue and discards. Return: 0, -ENOENT (it was destroyed), -ETIME. */
static int abort_now(struct model_queue *q, uint32_t handle, uint64_t deadline)
{
	uint32_t late = 0;

	while (!model_queue_claim(q)) {
		if (hal_load_acquire(&q->handle) != handle)
			return -ENOENT;
		if (hal_sys_now() >= deadline) {
			/* who has it now does it, or, having just left it, who looks at it next */
			abort_begin(q, STOP_BITS);
			model_wake_threads(q);
			if (late++ == LATE_TRIES)
				return -ETIME;
		} else {
			abort_begin(q, QUEUE_STOP_ABORT);
		}
		hal_sys_futex_wait(&q->run, RUN_RUNNING, hal_sys_now() + NAP_NS);
	}
	if (hal_load_relaxed(&q->stop) & QUEUE_STOP_HALT)
		model_halt(q);
	if (hal_load_relaxed(&q->stop) & (QUEUE_STOP_HALT | QUEUE_STOP_BROKEN | QUEUE_STOP_KILL)) {
		forget(q);
		model_release(q);
		return 0;
	}
	discard(q);
	let_go(q);
	return 0;
}

/* SIMNPU_IOCTL_QUEUE_ABORT. */
int model_queue_abort(struct model_file *f, const struct simnpu_abort *arg)
{
	uint64_t deadline = arg->deadline_ns;
	struct model_queue *q;
	int rc;

	if (!deadline)
		deadline = hal_sys_now() + MODEL_HUNG_NS;
	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->queue, MODEL_QUEUE);
	if (q)
		q->aborters++;
	pthread_mutex_unlock(&f->dev->lock);
	if (!q)
		return -ENOENT;
	abort_begin(q, QUEUE_STOP_ABORT);
	rc = abort_now(q, arg->queue, deadline);
	pthread_mutex_lock(&f->dev->lock);
	q->aborters--;
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}
