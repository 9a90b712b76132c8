// SPDX-License-Identifier: MIT
/*
 * Who runs next: tokens, ready lists, priorities.
 *
 * A queue whose head could run is in the ready list of what its head needs a
 * token of, by priority. Who gives a token back, takes the first ready queue.
 */
#include "drivers/simnpu/model/hot.h"

#define MAP_BIT(class, prio) (1ull << ((class) * MODEL_PRIORITIES + (prio)))

/**
 * model_ready() - put a queue into a ready list
 * @q: the queue; the caller has claimed it, or taken it from where it was parked
 * @class: what its head needs
 */
void model_ready(struct model_queue *q, enum model_class class)
{
	struct model_device *dev = q->dev;

	hal_spin_lock(&dev->sched);
	q->class = class;
	hal_list_add_tail(&dev->ready[class][q->priority], &q->ready);
	hal_store_release(&q->run, RUN_READY);
	atomic_fetch_or(&dev->ready_map, MAP_BIT(class, q->priority));
	hal_spin_unlock(&dev->sched);
	/* an engine thread looks at the lists before it falls asleep; is there one that looks? */
	if (!atomic_load(&dev->idle))
		model_thread_need(dev);
}

static void ready_del(struct model_device *dev, struct model_queue *q)
{
	hal_list_del(&q->ready);
	if (hal_list_empty(&dev->ready[q->class][q->priority]))
		atomic_fetch_and(&dev->ready_map, ~MAP_BIT(q->class, q->priority));
}

static struct model_queue *ready_first(struct model_device *dev, enum model_class class,
				       uint32_t prio)
{
	struct hal_list *l = &dev->ready[class][prio];

	return hal_list_empty(l) ? NULL : hal_list_entry(l->next, struct model_queue, ready);
}

static struct model_queue *pop_locked(struct model_worker *w)
{
	struct model_device *dev = w->dev;
	struct model_queue *q;
	uint32_t prio, class;
	uint32_t none = 0;

	/* a class without a token is done with: one that comes free now is for no later queue */
	for (prio = 0; prio < MODEL_PRIORITIES; prio++) {
		for (class = 0; class < CLASS_COUNT; class++) {
			q = ready_first(dev, class, prio);
			if (!q)
				continue;
			if (none & 1u << class)
				continue;
			if (class != CLASS_CONTROL && !model_token_get(dev, class, &w->token)) {
				none |= 1u << class;
				continue;
			}
			w->class = class;
			ready_del(dev, q);
			model_take(q);
			return q;
		}
	}
	return NULL;
}

/**
 * model_ready_pop() - take the first ready queue for whose head there is a token
 * @w: the worker, which has no token; it gets the one that is needed
 *
 * Return: the queue, claimed, or NULL.
 */
struct model_queue *model_ready_pop(struct model_worker *w)
{
	struct model_device *dev = w->dev;
	struct model_queue *q;

	if (!atomic_load(&dev->ready_map) || unlikely(model_paused(dev)))
		return NULL;
	hal_spin_lock(&dev->sched);
	q = pop_locked(w);
	hal_spin_unlock(&dev->sched);
	return q;
}

/* Claims a queue out of its ready list; false: it is in none. */
bool model_ready_steal(struct model_queue *q)
{
	struct model_device *dev = q->dev;
	bool got;

	hal_spin_lock(&dev->sched);
	got = hal_load_relaxed(&q->run) == RUN_READY;
	if (got) {
		ready_del(dev, q);
		model_take(q);
	}
	hal_spin_unlock(&dev->sched);
	return got;
}

/**
 * model_ready_takeable() - how many ready queues could run at once
 * @dev: the device
 *
 * Return: for each class the least of queues and free tokens, summed up; only
 * as exact as is needed to decide whether to wake a thread.
 */
uint32_t model_ready_takeable(struct model_device *dev)
{
	uint64_t map = hal_load_relaxed(&dev->ready_map);
	uint32_t class, n = 0;

	for (class = CLASS_CORE; class < CLASS_COUNT; class++)
		if (map >> class * MODEL_PRIORITIES & 0xff)
			n += model_tokens_free(dev, class) != 0;
	return n;
}

/**
 * model_should_yield() - whether a queue should make way for another one
 * @w: the worker that runs it
 * @q: the queue
 * @slice: whether its share of time is used up
 *
 * Context: between tasks.
 */
bool model_should_yield(struct model_worker *w, struct model_queue *q, bool slice)
{
	uint64_t map = hal_load_relaxed(&w->dev->ready_map);
	uint64_t mine, first;

	if (likely(!map))
		return false;
	mine = (map | map >> w->class * MODEL_PRIORITIES) & 0xff;
	if (!mine)
		return false;
	first = (uint64_t)__builtin_ctzll(mine);
	return first < q->priority || (slice && first == q->priority);
}
