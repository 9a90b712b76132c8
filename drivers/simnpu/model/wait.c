// SPDX-License-Identifier: MIT
/*
 * Waiting for a queue: threads, other queues, descriptors.
 *
 * Who waits puts itself into the queue's list and lowers wake_seq; who completes
 * a task stores the timeline and looks at wake_seq. One of the two must see the
 * other: who waits makes all processors pass a barrier when the queue is being
 * run, and looks at the timeline again; who leaves a queue passes one itself.
 */
#include <sched.h>
#include <stdlib.h>

#include "drivers/simnpu/model/hot.h"

#define SPIN_NS		50000u
#define SPINS		64u	/* pauses between looks at the clock */
#define NO_THREAD_NAP	1000000u

static bool reached(struct model_queue *q, uint64_t seq)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);

	return (hal_shm_load_acquire(&h->timeline) & MODEL_TIMELINE_MASK) >= seq;
}

/* What a wait that is over answers. */
static inline int done(struct model_queue *q, uint64_t seq)
{
	return unlikely(seq <= hal_load_relaxed(&q->given_up)) ? model_gave_up(q, seq) : 0;
}

/* Whether a wait is over though the timeline does not say so. */
static bool hopeless(struct model_queue *q, uint64_t seq)
{
	return unlikely(seq <= atomic_load(&q->given_up)) && model_gave_up(q, seq);
}

/* Under q->lock. */
static void wake_seq_update(struct model_queue *q)
{
	uint64_t seq = UINT64_MAX;

	if (!hal_list_empty(&q->waiters))
		seq = hal_list_entry(q->waiters.next, struct model_waiter, node)->seq;
	atomic_store(&q->wake_seq, seq);
}

/* Adds a waiter, in order. Under q->lock. */
static void waiter_add(struct model_queue *q, struct model_waiter *w)
{
	struct hal_list *pos = q->waiters.prev;

	/* from the end: who comes later mostly waits for later tasks */
	while (pos != &q->waiters && hal_list_entry(pos, struct model_waiter, node)->seq > w->seq)
		pos = pos->prev;
	hal_store_relaxed(&w->on, q);
	w->node.prev = pos;
	w->node.next = pos->next;
	pos->next->prev = &w->node;
	pos->next = &w->node;
	wake_seq_update(q);
}

/* After a waiter was added, and before the timeline is looked at again. */
static void waiter_barrier(struct model_queue *q)
{
	atomic_thread_fence(memory_order_seq_cst);
	/* not run: who claims or takes it next passes a barrier, and sees the waiter */
	if (hal_load_acquire(&q->run) == RUN_RUNNING)
		model_barrier(q->dev);
}

/* Takes a waiter out again; false: it is being woken. */
static bool waiter_del(struct model_queue *q, struct model_waiter *w)
{
	bool there;

	hal_spin_lock(&q->lock);
	/* what is in another queue's list, another lock protects */
	there = hal_load_relaxed(&w->on) == q;
	if (there) {
		hal_store_relaxed(&w->on, NULL);
		hal_list_del(&w->node);
		wake_seq_update(q);
	}
	hal_spin_unlock(&q->lock);
	return there;
}

/* The queue parked by a waiter may run: at once on a thread that borrows it, or as others do. */
static void unpark(struct model_queue *p, struct model_worker *w)
{
	hal_store_relaxed(&p->parked_on, NULL);
	if (w && w->borrower && !w->next && w->path_len && w->path[w->path_len - 1] == p) {
		w->path_len--;
		model_take(p);
		w->next = p;
	} else {
		model_ready(p, CLASS_CONTROL);
	}
}

static void wake_one(struct model_waiter *wt, uint32_t word, struct model_worker *w)
{
	const uint64_t one = 1;
	_Atomic uint32_t *futex = &wt->word;

	switch (wt->kind) {
	case WAITER_THREAD:
		/* from the store on, the waiter may be gone; its address alone is used then */
		hal_store_release(futex, word);
		hal_sys_futex_wake(futex, 1);
		break;
	case WAITER_QUEUE:
		unpark(wt->queue, w);
		break;
	case WAITER_NOTIFY:
		if (hal_sys_write(wt->fd, &one, sizeof(one)))
			hal_info(HAL_LOG_MODEL, "notification by descriptor %d failed", wt->fd);
		hal_sys_close(hal_sys_get(), wt->fd);
		free(wt);
		break;
	}
}

/* From the queue's list to that of those to be woken. Under q->lock. */
static void take_out(struct model_waiter *wt, struct hal_list *list)
{
	hal_store_relaxed(&wt->on, NULL);
	hal_list_del(&wt->node);
	hal_list_add_tail(list, &wt->node);
}

static void wake_list(struct hal_list *list, uint32_t word, struct model_worker *w)
{
	struct model_waiter *wt;

	while (!hal_list_empty(list)) {
		wt = hal_list_entry(list->next, struct model_waiter, node);
		hal_list_del(&wt->node);
		wake_one(wt, word, w);
	}
}

/* What the queue that waits is told, before this one can go. Under q->lock. */
static void wait_over(struct model_queue *q, struct model_waiter *wt)
{
	struct model_queue *p = wt->queue;

	p->wait_over = true;
	p->wait_failed = model_queue_failed_locked(q, wt->seq, &p->wait_origin);
}

/**
 * model_wake() - wake those whose task is completed
 * @q: the queue
 * @uid: the life of the queue that is meant
 * @seq: what is completed
 * @w: the worker, which may run one of them next, or NULL
 */
void model_wake(struct model_queue *q, uint64_t uid, uint64_t seq, struct model_worker *w)
{
	struct model_waiter *wt;
	struct hal_list list;

	hal_list_init(&list);
	hal_spin_lock(&q->lock);
	while (hal_load_relaxed(&q->uid) == uid && !hal_list_empty(&q->waiters)) {
		wt = hal_list_entry(q->waiters.next, struct model_waiter, node);
		if (wt->seq > seq)
			break;
		take_out(wt, &list);
		if (wt->kind == WAITER_QUEUE)
			wait_over(q, wt);
	}
	wake_seq_update(q);
	hal_spin_unlock(&q->lock);
	wake_list(&list, 1, w);
}

/* All that wait for a queue, or the threads alone. Under q->lock. */
static void take_all(struct model_queue *q, bool threads, struct hal_list *list)
{
	struct hal_list *pos, *next;
	struct model_waiter *wt;

	hal_list_init(list);
	hal_list_for_each_safe(pos, next, &q->waiters) {
		wt = hal_list_entry(pos, struct model_waiter, node);
		if (!threads || wt->kind == WAITER_THREAD)
			take_out(wt, list);
	}
	wake_seq_update(q);
}

/**
 * model_wake_all() - the queue is gone: for those who wait, all is completed
 * @q: the queue, dead
 */
void model_wake_all(struct model_queue *q)
{
	struct model_waiter *wt;
	struct hal_list list, *pos;

	hal_spin_lock(&q->lock);
	take_all(q, false, &list);
	hal_list_for_each(pos, &list) {
		wt = hal_list_entry(pos, struct model_waiter, node);
		if (wt->kind != WAITER_QUEUE)
			continue;
		wt->queue->wait_over = true;
		wt->queue->wait_failed = false;
	}
	/* from here on the queue is another one */
	hal_store_release(&q->uid, 0);
	hal_spin_unlock(&q->lock);
	wake_list(&list, 2, NULL);
}

/**
 * model_wake_threads() - wake the threads that wait for a queue, not the queues
 * @q: the queue, whose given_up says why
 */
void model_wake_threads(struct model_queue *q)
{
	struct hal_list list;

	hal_spin_lock(&q->lock);
	take_all(q, true, &list);
	hal_spin_unlock(&q->lock);
	wake_list(&list, 1, NULL);
}

/* ---- queues that wait for queues --------------------------------------------- */

/**
 * model_park() - let a queue wait for another one
 * @q: the queue, claimed
 * @other: the other one
 * @uid: the life of @other that is meant
 * @seq: what it waits for
 *
 * Return: true: parked, no longer the caller's; false: the wait is over already.
 */
bool model_park(struct model_queue *q, struct model_queue *other, uint64_t uid, uint64_t seq)
{
	if (hal_load_acquire(&other->uid) != uid || reached(other, seq))
		return false;
	q->park.seq = seq;
	hal_store_relaxed(&q->parked_on, other);
	hal_store_release(&q->run, RUN_PARKED);
	hal_spin_lock(&other->lock);
	if (hal_load_relaxed(&other->uid) != uid) {
		hal_spin_unlock(&other->lock);
		goto over;
	}
	waiter_add(other, &q->park);
	hal_spin_unlock(&other->lock);
	waiter_barrier(other);
	/* whoever takes it out of the list, it is not this thread's any more */
	if (reached(other, seq))
		model_wake(other, uid, seq, NULL);
	return true;
over:
	hal_store_relaxed(&q->parked_on, NULL);
	model_take(q);
	return false;
}

/* Takes a parked queue away from where it is parked, for the caller; false: look again. */
bool model_unpark(struct model_queue *q)
{
	struct model_queue *other = hal_load_relaxed(&q->parked_on);

	if (!other || !waiter_del(other, &q->park))
		return false;
	hal_store_relaxed(&q->parked_on, NULL);
	model_take(q);
	return true;
}

/* ---- borrowing the waiting thread ------------------------------------------------ */

static bool claim(struct model_queue *q)
{
	uint32_t run = hal_load_relaxed(&q->run);

	if (run == RUN_READY)
		return model_ready_steal(q);
	/* what the thread that had it before left is seen, and so is who waits: waiter_barrier() */
	return run == RUN_IDLE && atomic_compare_exchange_strong(&q->run, &run, RUN_RUNNING);
}

static void path_push(struct model_worker *w, struct model_queue *q)
{
	uint32_t i;

	if (w->path_len == MODEL_PATH) {
		/* the end counts: it comes free first */
		w->path_len = MODEL_PATH / 2;
		for (i = 0; i < MODEL_PATH / 2; i++)
			w->path[i] = w->path[i + MODEL_PATH / 2];
	}
	w->path[w->path_len++] = q;
}

/* Follows parked queues from the target to the one that all wait for, and claims it, unless dry. */
static struct model_queue *descend(struct model_worker *w, const struct model_queue *dry)
{
	struct model_queue *q = w->target, *on;
	uint32_t left = 1u << 20;	/* a circle of waits never ends */

	w->path_len = 0;
	while (hal_load_acquire(&q->run) == RUN_PARKED && left--) {
		on = hal_load_relaxed(&q->parked_on);
		if (!on)
			break;
		path_push(w, q);
		q = on;
	}
	return q != dry && claim(q) ? q : NULL;
}

/* The queue to run after one was left, or NULL. */
static struct model_queue *borrow_next(struct model_worker *w, struct model_queue *q,
				       enum model_left left)
{
	struct model_queue *next = w->next;

	w->next = NULL;
	if (next)
		return next;
	if (left == LEFT_READY || reached(w->target, w->until))
		return NULL;
	next = w->blocked_on;
	w->blocked_on = NULL;
	if (left == LEFT_GONE && next) {
		path_push(w, q);
		return claim(next) ? next : NULL;
	}
	/* it ran dry, and the target may be parked on something else by now */
	return q != w->target ? descend(w, q) : NULL;
}

/*
 * Runs tasks on the waiting thread as far as it may. What is claimed is checked
 * against what was meant: a queue may have ended and begun again meanwhile.
 */
static void borrow(struct model_worker *w, uint64_t uid)
{
	struct model_queue *q = claim(w->target) ? w->target : descend(w, NULL);
	enum model_left left;

	if (!q)
		return;
	if (unlikely(hal_load_relaxed(&w->target->uid) != uid)) {
		model_release(q);
		return;
	}
	while (q) {
		w->blocked_on = NULL;
		left = model_run(w, q);
		model_worker_drop(w);
		if (left == LEFT_EMPTY || left == LEFT_DONE)
			model_release(q);
		q = borrow_next(w, q, left);
	}
}

static bool may_help(struct model_queue *q)
{
	uint32_t run = hal_load_relaxed(&q->run);

	return run == RUN_IDLE ? model_head_hint(q) : run == RUN_READY || run == RUN_PARKED;
}

/* ---- threads -------------------------------------------------------------------------- */

/* Waits awake; true: reached or gone, false: sleep now. */
static int spin(struct model_worker *w, uint64_t uid, uint32_t mode, uint64_t deadline, bool help)
{
	struct model_queue *q = w->target;
	uint64_t now = hal_sys_now(), until = now + SPIN_NS;
	uint32_t i;

	for (;;) {
		for (i = 0; i < SPINS; i++) {
			if (reached(q, w->until) || hal_load_acquire(&q->uid) != uid)
				return 0;
			if (mode == SIMNPU_WAIT_YIELD)
				break;
			hal_cpu_relax();
		}
		/* whose turn it is may be this core's */
		if (mode != SIMNPU_WAIT_SPIN)
			sched_yield();
		if (help && may_help(q) && !model_paused(q->dev)) {
			borrow(w, uid);
			if (reached(q, w->until))
				return 0;
			help = hal_load_relaxed(&q->run) != RUN_READY &&
			       hal_load_relaxed(&q->run) != RUN_PARKED;
		}
		if (hopeless(q, w->until))
			return 0;
		now = hal_sys_now();
		if (now >= deadline)
			return -ETIME;
		if (!mode && now >= until)
			return -EAGAIN;
	}
}

static int sleep_for(struct model_queue *q, uint64_t uid, uint64_t seq, uint64_t deadline)
{
	struct model_waiter wt = { .kind = WAITER_THREAD, .seq = seq };
	uint32_t word;
	int rc = 0;

	hal_spin_lock(&q->lock);
	if (hal_load_relaxed(&q->uid) != uid)
		rc = -ECANCELED;
	else
		waiter_add(q, &wt);
	hal_spin_unlock(&q->lock);
	if (rc)
		return rc;
	waiter_barrier(q);
	if ((reached(q, seq) || hopeless(q, seq)) && waiter_del(q, &wt))
		return 0;
	while (!(word = hal_load_acquire(&wt.word))) {
		rc = hal_sys_futex_wait(&wt.word, 0, deadline);
		if (rc == -ETIMEDOUT && waiter_del(q, &wt))
			return reached(q, seq) ? 0 : -ETIME;
		if (rc == -ETIMEDOUT)
			deadline = UINT64_MAX;	/* the wake is on its way */
	}
	return word == 1 ? 0 : -ECANCELED;
}

/* Without an engine thread, and without hope for one, the waiting thread does it all. */
static bool alone(struct model_device *dev)
{
	return !hal_load_relaxed(&dev->thread_count) && model_thread_need(dev);
}

static __attribute__((noinline)) int wait_slow(struct model_queue *q, uint64_t uid,
					       const struct simnpu_wait *w,
					       struct model_worker *worker)
{
	uint32_t mode = w->flags & SIMNPU_WAIT_MODE;
	bool help = !(w->flags & SIMNPU_WAIT_NO_BORROW);
	uint64_t nap;
	int rc = -EAGAIN;

	while (rc == -EAGAIN) {
		if (hopeless(q, w->seq))
			break;
		if (hal_sys_now() >= w->deadline_ns)
			return -ETIME;
		if (mode != SIMNPU_WAIT_BLOCK)
			rc = spin(worker, uid, mode, w->deadline_ns, help);
		if (rc != -EAGAIN)
			break;
		if (!alone(q->dev)) {
			rc = sleep_for(q, uid, w->seq, w->deadline_ns);
			/* woken by an abort that discarded less than it might have */
			if (!rc && !reached(q, w->seq) && !hopeless(q, w->seq) &&
			    hal_load_acquire(&q->uid) == uid)
				rc = -EAGAIN;
			continue;
		}
		worker->short_only = false;
		worker->modules = true;
		borrow(worker, uid);
		nap = hal_sys_now() + NO_THREAD_NAP;
		rc = sleep_for(q, uid, w->seq, nap < w->deadline_ns ? nap : w->deadline_ns);
		rc = rc == -ETIME ? -EAGAIN : rc;
	}
	if (rc == -EAGAIN)
		rc = 0;
	if (!rc && hal_load_acquire(&q->uid) != uid)
		rc = -ECANCELED;
	return rc ? rc : done(q, w->seq);
}

/**
 * model_wait() - SIMNPU_IOCTL_WAIT
 * @f: the open file
 * @w: what to wait for
 *
 * No lock, and no reference: what is looked at is never given back to the
 * system, and its uid says whether it is still the same.
 * Return: 0, -ETIME, -EINVAL, -ENOENT, -ECANCELED (the queue was destroyed, or the task
 * discarded), -EIO, -ENODEV (the task is not run: the device has a fault, or is lost).
 */
int model_wait(struct model_file *f, const struct simnpu_wait *w)
{
	struct model_queue *q = model_queue_find(&f->table, w->queue);
	struct model_worker worker;
	uint64_t uid;

	if (unlikely(w->flags & ~(SIMNPU_WAIT_MODE | SIMNPU_WAIT_NO_BORROW |
				  SIMNPU_WAIT_BORROW_ALL) || w->seq & SIMNPU_TIMELINE_ERROR))
		return -EINVAL;
	if (unlikely(!q))
		return -ENOENT;
	uid = hal_load_acquire(&q->uid);
	/* the handle again: this uid is of the queue that was meant */
	if (unlikely(hal_load_acquire(&q->handle) != w->queue))
		return -ENOENT;
	if (reached(q, w->seq))
		return done(q, w->seq);
	worker.dev = q->dev;
	worker.class = CLASS_CONTROL;
	worker.borrower = true;
	worker.short_only = w->deadline_ns != SIMNPU_DEADLINE_NONE;
	worker.modules = w->flags & SIMNPU_WAIT_BORROW_ALL || q->dev->borrow_modules;
	worker.until = w->seq;
	worker.deadline = w->deadline_ns;
	worker.target = q;
	worker.next = NULL;
	worker.path_len = 0;
	if (!(w->flags & SIMNPU_WAIT_NO_BORROW) && !model_paused(q->dev)) {
		borrow(&worker, uid);
		if (likely(reached(q, w->seq)))
			return done(q, w->seq);
	}
	return wait_slow(q, uid, w, &worker);
}

/* ---- descriptors ---------------------------------------------------------------------- */

static int notify_add(struct model_queue *q, struct model_waiter *wt)
{
	uint64_t uid = hal_load_relaxed(&q->uid), seq = wt->seq;

	hal_spin_lock(&q->lock);
	waiter_add(q, wt);
	hal_spin_unlock(&q->lock);
	waiter_barrier(q);
	/* it may have been sent, and be gone */
	if (reached(q, seq))
		model_wake(q, uid, seq, NULL);
	return 0;
}

/* SIMNPU_IOCTL_NOTIFY. -ENOMEM, too: there is no engine thread, and none can be made. */
int model_notify(struct model_file *f, const struct simnpu_notify *arg)
{
	struct model_waiter *wt = hal_zalloc(sizeof(*wt));
	struct model_queue *q;
	int rc = 0;

	if (!wt)
		return -ENOMEM;
	wt->kind = WAITER_NOTIFY;
	wt->seq = arg->seq;
	pthread_mutex_lock(&f->dev->lock);
	q = model_table_get(&f->table, arg->queue, MODEL_QUEUE);
	if (!q)
		rc = -ENOENT;
	else if (arg->seq & SIMNPU_TIMELINE_ERROR)
		rc = -EINVAL;
	else if (!reached(q, arg->seq) && alone(f->dev))
		rc = -ENOMEM;
	else
		wt->fd = rc = hal_sys_dup(arg->fd);
	if (rc >= 0)
		rc = notify_add(q, wt);
	else
		free(wt);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}
