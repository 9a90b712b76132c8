// SPDX-License-Identifier: MIT
/*
 * What rules say is done: to ioctls, to tasks and to devices.
 */
#include <string.h>

#include "drivers/simnpu/faults.h"
#include "drivers/simnpu/model/hot.h"

#define POISON_SIZE 64u

/* The errno of a fault of the whole device, or 0: the action is none. */
static uint32_t fault_of(uint32_t action)
{
	switch (action) {
	case SIMNPU_ACTION_LINK:
		return ENOLINK;
	case SIMNPU_ACTION_HANG:
		return ETIME;
	case SIMNPU_ACTION_HEARTBEAT:
		return EREMOTEIO;
	case SIMNPU_ACTION_GONE:
	case SIMNPU_ACTION_REORDER:
		return ENODEV;
	default:
		return 0;
	}
}

/* Holds an ioctl up; false: the device has changed its state. */
static bool hold_ioctl(struct model_device *dev, struct model_verdict *v)
{
	model_rules_hold(v, UINT64_MAX, &dev->changed, v->changed);
	return atomic_load(&dev->changed) == v->changed;
}

/* Hangs; false: that was ended before anybody noticed. */
static bool hangs(struct model_device *dev, struct model_verdict *v, struct model_queue *own)
{
	if (!own)
		return hold_ioctl(dev, v);
	model_rules_hold(v, UINT64_MAX, &own->stop, 0);
	return !hal_load_relaxed(&own->stop);
}

/* Faults of the whole device; false: the action is another one. */
static bool act_device(struct model_device *dev, struct model_verdict *v,
		       const struct model_origin *origin, struct model_queue *own)
{
	uint32_t cause = fault_of(v->action);

	if (v->action == SIMNPU_ACTION_ECC1) {
		hal_add_relaxed(&dev->health.ecc_corrected, 1);
		return true;
	}
	if (!cause)
		return false;
	if (v->action == SIMNPU_ACTION_HANG && !hangs(dev, v, own))
		return true;
	if (v->action == SIMNPU_ACTION_GONE)
		model_unplug(dev, v->ns);
	else if (v->action == SIMNPU_ACTION_REORDER)
		model_replug(dev);
	model_device_fault(dev, cause, origin, own);
	return true;
}

/**
 * model_act_before() - what a verdict does to an ioctl before it is done
 * @dev: the device
 * @v: the verdict
 *
 * Return: 0: it goes on; else what it fails with.
 */
int model_act_before(struct model_device *dev, struct model_verdict *v)
{
	if (v->action == SIMNPU_ACTION_FAIL)
		return -(int)v->code;
	if (v->action == SIMNPU_ACTION_STALL)
		hold_ioctl(dev, v);
	else if (v->action == SIMNPU_ACTION_STUCK)
		model_rules_hold(v, UINT64_MAX, NULL, 0);
	else
		act_device(dev, v, NULL, NULL);
	return 0;
}

/* What a verdict does to an ioctl when it is done. */
void model_act_after(struct model_verdict *v)
{
	if (v->action == SIMNPU_ACTION_LATE)
		model_rules_hold(v, UINT64_MAX, NULL, 0);
}

/* ---- tasks ------------------------------------------------------------------------------- */

/* The first word among arguments that is the address of device memory, or 0. */
static uint64_t launch_addr(struct model_memory *m, const struct simnpu_desc *d,
			    const struct simnpu_desc *slot)
{
	const void *args = d->launch.args_size <= SIMNPU_ARGS_INLINE ?
			   (const void *)d->launch.args : (const void *)(slot + 1);
	uint32_t i, n = d->launch.args_size / (uint32_t)sizeof(uint64_t);
	uint64_t word;
	char *host;

	if (d->launch.args_size > SIMNPU_ARGS_INLINE &&
	    d->launch.args_size > d->slots * sizeof(*slot))
		return 0;
	for (i = 0; i < n; i++) {
		memcpy(&word, (const char *)args + i * sizeof(word), sizeof(word));
		if (model_memory_find(m, word, 1, &host, NULL))
			return word;
	}
	return 0;
}

/* The device memory that a task reads, else that it writes; 0: it has none to do with. */
static uint64_t task_addr(struct model_queue *q, const struct simnpu_desc *d,
			  const struct simnpu_desc *slot)
{
	switch (d->op) {
	case SIMNPU_OP_LAUNCH:
		return launch_addr(&q->dev->mem, d, slot);
	case SIMNPU_OP_COPY:
		return d->copy.kind == SIMNPU_COPY_TO_DEVICE ? d->copy.dst : d->copy.src;
	case SIMNPU_OP_COPY_2D:
		return d->copy_2d.kind == SIMNPU_COPY_TO_DEVICE ? d->copy_2d.dst : d->copy_2d.src;
	case SIMNPU_OP_FILL:
		return d->fill.dst;
	default:
		return 0;
	}
}

/* Some bytes from an address on, as far as its allocation goes; false: it is of no device. */
static bool poison(struct model_device *dev, uint64_t addr)
{
	struct model_device *of = dev;
	uint64_t size;

	if (addr - dev->mem.start >= dev->mem.size)
		of = model_device_pin(addr);
	if (!of)
		return false;
	for (size = POISON_SIZE; size && !model_poison_add(&of->mem, addr, size); size /= 2)
		;
	if (of != dev)
		model_device_unpin(of);
	return true;
}

/* The task is over; the queue may have come to its end by that. As of model_act_task(). */
static int over(struct model_queue *q)
{
	return model_stopped(q) ? -1 : LEFT_EMPTY + 1;
}

static int act_fail(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d)
{
	model_task_fail(q, d, q->verdict.code, 0);
	model_complete(w, q, 1u + d->slots);
	return -1;
}

static int act_ecc(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		   const struct simnpu_desc *slot)
{
	uint64_t addr = task_addr(q, d, slot);
	struct model_origin o = model_task_origin(q, d, EHWPOISON, addr);
	bool lies = addr && poison(q->dev, addr);
	struct model_device *of;

	of = model_poison_mark(q->dev, lies ? addr : q->dev->mem.start);
	model_task_fail(q, d, EHWPOISON, addr);
	model_complete(w, q, 1u + d->slots);
	if (of)
		model_poison_end(q->dev, of, &o, q);
	return over(q);
}

/* Waits before a task; the answer is model_act_task()'s. A waiting thread has a deadline. */
static int act_hold(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d)
{
	uint64_t deadline = w->borrower ? w->deadline : UINT64_MAX;
	struct model_verdict *v = &q->verdict;

	if (!model_rules_hold(v, deadline, v->action == SIMNPU_ACTION_STUCK ? NULL : &q->stop, 0)) {
		model_ready(q, model_op_class(d));
		return LEFT_READY + 1;
	}
	v->acted = true;
	return hal_load_relaxed(&q->stop) ? over(q) : 0;
}

/* Says that the task is done though it is not. */
static void announce(struct model_queue *q)
{
	struct simnpu_queue_header *h = hal_load_relaxed(&q->header);
	uint64_t mark = hal_load_relaxed(&q->error_pending) ? SIMNPU_TIMELINE_ERROR : 0;
	uint64_t seq = hal_load_relaxed(&q->next_seq);

	hal_shm_store_release(&h->timeline, seq | mark);
	atomic_thread_fence(memory_order_seq_cst);
	model_wake(q, hal_load_relaxed(&q->uid), seq, NULL);
}

/* A waiting thread is not held up longer than it wants to be: an engine thread is. */
static bool for_engine(const struct model_worker *w, const struct model_verdict *v)
{
	return w->borrower && hal_load_relaxed(&w->dev->thread_count) &&
	       (v->action == SIMNPU_ACTION_STALL || v->action == SIMNPU_ACTION_STUCK ||
		v->action == SIMNPU_ACTION_LATE || v->action == SIMNPU_ACTION_EARLY ||
		v->action == SIMNPU_ACTION_HANG);
}

static int act(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
	       const struct simnpu_desc *slot)
{
	struct model_verdict *v = &q->verdict;
	struct model_origin o;

	switch (v->action) {
	case SIMNPU_ACTION_FAIL:
		return act_fail(w, q, d);
	case SIMNPU_ACTION_ECC:
		return act_ecc(w, q, d, slot);
	case SIMNPU_ACTION_STALL:
	case SIMNPU_ACTION_STUCK:
		model_worker_drop(w);
		return act_hold(w, q, d);
	case SIMNPU_ACTION_EARLY:
		announce(q);
		model_worker_drop(w);
		return act_hold(w, q, d);
	case SIMNPU_ACTION_LATE:
	case SIMNPU_ACTION_CORRUPT:
		return model_run_then(w, q, d, slot);
	default:
		v->acted = true;
		o = model_task_origin(q, d, EIO, 0);
		act_device(q->dev, v, &o, q);
		return v->action == SIMNPU_ACTION_ECC1 ? 0 : over(q);
	}
}

/**
 * model_act_task() - a task is to begin, and there are rules
 * @w: the worker
 * @q: its queue
 * @d: a copy of its descriptor
 * @slot: the descriptor
 *
 * Return: 0: it is to be run; -1: it is over; else the answer of model_run() plus 1.
 */
int model_act_task(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		   const struct simnpu_desc *slot)
{
	uint64_t seq = hal_load_relaxed(&q->next_seq);

	if (q->verdict.seq != seq || (!q->verdict.acted && model_rules_new(&q->verdict))) {
		q->verdict = (struct model_verdict){ .seq = seq };
		model_rules_task(q, d->op, &q->verdict);
	}
	if (!q->verdict.action || q->verdict.acted)
		return 0;
	if (for_engine(w, &q->verdict)) {
		model_ready(q, model_op_class(d));
		return LEFT_READY + 1;
	}
	return act(w, q, d, slot);
}

/* A task was run by model_run_then(), and is about to be said to be done. */
void model_act_done(struct model_queue *q, const struct simnpu_desc *d)
{
	const struct model_origin nonsense = {
		.seq = ~hal_load_relaxed(&q->next_seq), .cookie = ~d->cookie, .addr = ~0ull,
		.code = ~0u, .op = ~0u, .tag = ~d->tag,
	};

	q->verdict.acted = true;
	if (q->verdict.action == SIMNPU_ACTION_LATE)
		model_rules_hold(&q->verdict, UINT64_MAX, &q->stop, 0);
	else
		model_queue_fail(q, 0, ~0u, &nonsense);
}
