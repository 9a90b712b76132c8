// SPDX-License-Identifier: MIT
/*
 * Lanes: streams that own free memory, and the queues of blocks that wait for streams.
 *
 * A block that other lanes use carries a list of uses. When it is freed, each use becomes an entry
 * in the queue of its lane, with the number of the last task that was submitted there until then;
 * as those numbers only grow, a queue is done from its head on.
 */
#include <stdlib.h>

#include "hal/point.h"
#include "runtime/pool.h"

/* Uses in one chunk. */
#define CHUNK 64u

/**
 * struct rt_use_chunk - uses that were allocated together
 * @next: another one
 * @use: the uses
 */
struct rt_use_chunk {
	struct rt_use_chunk *next;
	struct rt_use use[CHUNK];
};

/* ---- lanes ------------------------------------------------------------------------------- */

void rt_lanes_init(struct rt_lanes *l)
{
	*l = (struct rt_lanes){ .spare = NULL };
	hal_list_init(&l->active);
}

void rt_lane_free(struct rt_lane *lane)
{
	if (!lane)
		return;
	rt_group_put(lane->group);
	free(lane->pool);
	free(lane);
}

void rt_lanes_fini(struct rt_lanes *l)
{
	struct rt_use_chunk *c, *next;
	struct rt_lane *lane, *after;
	uint32_t i;

	for (i = 0; i < RT_LANE_BUCKETS; i++)
		for (lane = l->bucket[i]; lane; lane = after) {
			after = lane->next;
			rt_lane_free(lane);
		}
	for (c = l->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	rt_lanes_init(l);
}

static uint32_t bucket_of(uint64_t stream, const struct rt_group *group)
{
	return (hal_handle_index(stream) + (uint32_t)((uintptr_t)group >> 6)) % RT_LANE_BUCKETS;
}

struct rt_lane *rt_lane_find(const struct rt_lanes *l, uint64_t stream,
			     const struct rt_group *group)
{
	struct rt_lane *lane = l->bucket[bucket_of(stream, group)];

	while (lane && (lane->stream != stream || lane->group != group))
		lane = lane->next;
	return lane;
}

struct rt_lane *rt_lane_new(uint64_t stream, struct rt_group *group, bool pools)
{
	struct rt_lane *lane = hal_zalloc(sizeof(*lane));

	if (!lane)
		return NULL;
	lane->stream = stream;
	lane->group = group;
	if (group)
		kref_get(&group->held.ref);
	lane->tail = &lane->head;
	hal_list_init(&lane->node);
	if (pools)
		lane->pool = hal_zalloc_aligned(HAL_CACHELINE, RT_KINDS * sizeof(*lane->pool));
	if (lane->pool || !pools)
		return lane;
	rt_lane_free(lane);
	return NULL;
}

struct rt_lane *rt_lane_add(struct rt_lanes *l, struct rt_lane *lane, struct rt_lane **spare)
{
	struct rt_lane *old = rt_lane_find(l, lane->stream, lane->group);
	struct rt_lane **head = &l->bucket[bucket_of(lane->stream, lane->group)];

	*spare = NULL;
	if (!old) {
		lane->next = *head;
		*head = lane;
		return lane;
	}
	*spare = lane;
	/* one that was only waited for */
	if (!old->pool) {
		old->pool = lane->pool;
		lane->pool = NULL;
	}
	return old;
}

void rt_lane_del(struct rt_lanes *l, struct rt_lane *lane)
{
	struct rt_lane **at = &l->bucket[bucket_of(lane->stream, lane->group)];

	while (*at != lane)
		at = &(*at)->next;
	*at = lane->next;
}

bool rt_lane_dead(const struct rt_lane *lane)
{
	struct hal_point p;

	return !hal_stream_last(lane->stream, &p);
}

/* ---- uses ---------------------------------------------------------------------------------- */

struct rt_use_chunk *rt_uses_new(void)
{
	return hal_zalloc(sizeof(struct rt_use_chunk));
}

static void use_put(struct rt_lanes *l, struct rt_use *u)
{
	u->next = l->spare;
	l->spare = u;
}

void rt_uses_add(struct rt_lanes *l, struct rt_use_chunk *chunk)
{
	uint32_t i;

	chunk->next = l->chunks;
	l->chunks = chunk;
	for (i = 0; i < CHUNK; i++)
		use_put(l, &chunk->use[i]);
}

void rt_use_record(struct rt_lanes *l, struct heap_block *b, struct rt_lane *lane)
{
	struct rt_use *u;

	for (u = b->user; u; u = u->next)
		if (u->lane == lane)
			return;
	u = l->spare;
	l->spare = u->next;
	u->lane = lane;
	u->block = b;
	u->next = b->user;
	b->user = u;
	lane->uses++;
}

void rt_use_erase(struct rt_lanes *l, struct heap_block *b, const struct rt_lane *lane)
{
	struct rt_use *u, *next, *kept = NULL;

	for (u = b->user; u; u = next) {
		next = u->next;
		if (u->lane == lane) {
			u->lane->uses--;
			use_put(l, u);
		} else {
			u->next = kept;
			kept = u;
		}
	}
	b->user = kept;
}

static void enqueue(struct rt_lanes *l, struct rt_use *u)
{
	struct rt_lane *lane = u->lane;

	if (!lane->head)
		hal_list_add_tail(&l->active, &lane->node);
	u->next = NULL;
	*lane->tail = u;
	lane->tail = &u->next;
}

uint32_t rt_uses_free(struct rt_lanes *l, struct heap_block *b)
{
	struct rt_use *u, *next;
	struct hal_point p;

	b->waits = 0;
	for (u = b->user; u; u = next) {
		next = u->next;
		/* a stream that is gone has done all it had to do */
		if (!hal_stream_last(u->lane->stream, &p) || hal_point_passed(&p)) {
			u->lane->uses--;
			use_put(l, u);
			continue;
		}
		u->seq = p.seq;
		b->waits++;
		enqueue(l, u);
	}
	b->user = NULL;
	return b->waits;
}

/* Takes what is done from the head of a queue. */
static uint32_t reap(struct rt_lanes *l, struct rt_lane *lane, rt_lane_done_fn *done, void *arg)
{
	struct hal_point p = { .stream = lane->stream };
	struct heap_block *b;
	struct rt_use *u;
	uint32_t n = 0;

	while ((u = lane->head)) {
		p.seq = u->seq;
		if (u->seq > lane->drained && !hal_point_passed(&p))
			return n;
		b = u->block;
		lane->head = u->next;
		lane->uses--;
		use_put(l, u);
		if (--b->waits)
			continue;
		done(arg, b);
		n++;
	}
	lane->tail = &lane->head;
	hal_list_del(&lane->node);
	return n;
}

uint32_t rt_lanes_reap(struct rt_lanes *l, uint32_t most, rt_lane_done_fn *done, void *arg)
{
	struct rt_lane *lane;
	struct hal_list *first = NULL;
	uint32_t n = 0;

	while (most-- && !hal_list_empty(&l->active)) {
		lane = hal_list_entry(l->active.next, struct rt_lane, node);
		if (&lane->node == first)
			break;
		n += reap(l, lane, done, arg);
		if (!lane->head)
			continue;
		/* the others have their turn first, now or the next time */
		if (!first)
			first = &lane->node;
		hal_list_del(&lane->node);
		hal_list_add_tail(&l->active, &lane->node);
	}
	return n;
}

void rt_lanes_drained(struct rt_lanes *l, const struct hal_point *p)
{
	struct hal_list *node;
	struct rt_lane *lane;

	hal_list_for_each(node, &l->active) {
		lane = hal_list_entry(node, struct rt_lane, node);
		if (lane->stream == p->stream && lane->drained < p->seq)
			lane->drained = p->seq;
	}
}

uint32_t rt_lanes_points(const struct rt_lanes *l, struct hal_point *p, uint32_t room)
{
	const struct hal_list *node;
	const struct rt_lane *lane;
	uint32_t n = 0;

	hal_list_for_each(node, &l->active) {
		if (n == room)
			break;
		lane = container_of(node, const struct rt_lane, node);
		p[n].stream = lane->stream;
		p[n++].seq = container_of(lane->tail, const struct rt_use, next)->seq;
	}
	return n;
}
