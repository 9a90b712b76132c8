// SPDX-License-Identifier: MIT
/*
 * The cache of device memory: what a request goes through for which there was no block at hand.
 *
 * First whatever is free is searched for. Then comes one rescue after the other, and after each
 * that has had an effect the search starts again from the top.
 */
#include <pthread.h>

#include "hal/point.h"
#include "runtime/plug.h"
#include "runtime/pool.h"

/**
 * struct request - an allocation under way
 * @w: what it needs; its lane is counted as used as long as it is set
 * @over: NPU_MEM_TRIED_* of rescues that had their turn
 * @tried: NPU_MEM_TRIED_* of those for which there was something to do
 * @borrow: private pools that lend are searched, too
 * @until: when giving back has waited long enough, 0: it has not begun
 * @given: rt_cache.given before the driver was asked last
 * @again: times that it was asked again because it had got something back
 */
struct request {
	struct rt_want w;
	uint32_t over;
	uint32_t tried;
	bool borrow;
	uint64_t until;
	uint64_t given;
	uint32_t again;
};

/* A request that is not luckier than others as often as this is refused. */
#define AGAIN_MAX 16u

/* Finds or makes the lane, and keeps it; takes the lock. */
static int lane_lock(struct request *r)
{
	struct rt_cache *c = r->w.c;
	int err;

	if (r->w.lane)
		return rt_cache_lock(c, &r->w.life, r->w.op);
	err = rt_lane_lock(c, &r->w.life, &r->w.key, &r->w.lane, r->w.op);
	if (!err)
		r->w.lane->uses++;
	return err;
}

/*
 * What streams have left that are gone is anybody's; what pools have left that are gone is that of
 * their streams.
 */
static bool inherit_locked(struct rt_cache *c, struct rt_lane *heir)
{
	struct rt_segment *s;
	struct rt_lane *lane;
	struct hal_list *n;
	bool any = false;

	hal_list_for_each(n, &c->heap.segments) {
		s = container_of(hal_list_entry(n, struct heap_segment, node), struct rt_segment,
				 seg);
		lane = s->seg.pool->owner;
		if (lane == heir || rt_group_of(lane) != heir->group ||
		    (s->flags & RT_SEGMENT_PLAIN) ||
		    (lane->stream != heir->stream && !rt_lane_dead(lane)))
			continue;
		if (lane->group && lane->group->tag)
			c->odd |= RT_ODD_TAGS;
		heap_segment_move(&c->heap, &s->seg, &heir->pool[s->kind]);
		if (lane->grow[s->kind] == s)
			lane->grow[s->kind] = NULL;
		if ((s->flags & RT_SEGMENT_GROWABLE) && !heir->grow[s->kind])
			heir->grow[s->kind] = s;
		any = true;
	}
	return any;
}

/* Takes out lanes of streams and pools that are gone, which have nothing; a list of them. */
static struct rt_lane *sweep_locked(struct rt_cache *c)
{
	struct rt_lane *gone = NULL, *lane, *next;
	uint32_t i;

	for (i = 0; i < RT_LANE_BUCKETS; i++)
		for (lane = c->lanes.bucket[i]; lane; lane = next) {
			next = lane->next;
			if (lane->uses ||
			    !(rt_lane_dead(lane) || lane->group != rt_group_of(lane)) ||
			    (lane->pool && (lane->pool[RT_SMALL].segments ||
					    lane->pool[RT_LARGE].segments)))
				continue;
			if (c->pool == lane->pool)
				c->last = 0;
			rt_lane_del(&c->lanes, lane);
			lane->next = gone;
			gone = lane;
		}
	return gone;
}

static void lanes_free(struct rt_lane *gone)
{
	struct rt_lane *lane;

	while ((lane = gone)) {
		gone = lane->next;
		rt_lane_free(lane);
	}
}

/* Of a pool that cuts no blocks a whole one, unless it is much too large. */
static struct heap_fit fit_for(const struct request *r, const struct rt_group *g)
{
	struct heap_fit f = rt_mem_fit(r->w.kind, r->w.size);
	size_t granule = (size_t)rt.info[r->w.c->device].mem_granularity;

	if (rt_group_whole(g)) {
		f.rest = SIZE_MAX;
		f.below = (size_t)hal_align_up(r->w.size, granule ? granule : HEAP_UNIT) +
			  hal_load_relaxed(&rt_mem.rounding) + HEAP_UNIT;
	}
	return f;
}

/* What pools that lend have free for the stream, if it borrows; *any: there are such pools. */
static struct heap_block *borrow_locked(struct request *r, bool *any)
{
	struct rt_cache *c = r->w.c;
	struct heap_block *b = NULL;
	struct heap_fit fit;
	struct rt_lane *lane;
	uint32_t i;

	*any = false;
	for (i = 0; i < RT_LANE_BUCKETS && !b; i++)
		for (lane = c->lanes.bucket[i]; lane && !b; lane = lane->next) {
			if (lane->stream != r->w.key.stream || !lane->pool ||
			    !rt_group_lends(rt_group_of(lane)))
				continue;
			*any = true;
			fit = fit_for(r, lane->group);
			if (r->borrow)
				b = heap_take(&c->heap, &lane->pool[r->w.kind], &fit);
		}
	c->rescued_pools += b != NULL;
	return b;
}

/* Whatever is free for the lane. */
static struct heap_block *search_locked(struct request *r, struct rt_lane **gone)
{
	const struct heap_fit fit = fit_for(r, r->w.key.group);
	struct rt_cache *c = r->w.c;
	struct heap_pool *p = &r->w.lane->pool[r->w.kind];
	struct heap_block *b;
	bool any;

	if (c->odd & RT_ODD_WAITS)
		rt_cache_reap(c, 4);
	b = heap_take(&c->heap, p, &fit);
	if (!b && (c->odd & RT_ODD_WAITS) && rt_cache_reap(c, UINT32_MAX))
		b = heap_take(&c->heap, p, &fit);
	if (b)
		return b;
	if (inherit_locked(c, r->w.lane))
		b = heap_take(&c->heap, p, &fit);
	if (!b && r->borrow)
		b = borrow_locked(r, &any);
	*gone = sweep_locked(c);
	return b;
}

/* Return: 0, -ENOENT: there is nothing, or another error. */
static int search(struct request *r, void **ptr)
{
	struct rt_cache *c = r->w.c;
	struct rt_lane *gone = NULL;
	struct heap_block *b;
	int err;

	err = lane_lock(r);
	if (err)
		return err;
	b = search_locked(r, &gone);
	if (b) {
		rt_block_took(c, b, r->w.asked);
		if (r->w.key.group)
			b->tag = r->w.key.group->tag;
		*ptr = (void *)b->addr;
	} else {
		rt_figures(c);
	}
	rt_cache_unlock(c);
	lanes_free(gone);
	return b ? 0 : -ENOENT;
}

/* ---- when there is nothing free ------------------------------------------------------------- */

/* Segments that were idle for longer than most, if more than the threshold is in use. */
static bool collect(struct request *r)
{
	struct rt_release what = { .group = NULL };
	struct rt_cache *c = r->w.c;
	uint64_t held, most, ages = 0, n = 0, freed, life = r->w.life;
	const struct rt_segment *s;
	struct hal_list *node;

	if (!hal_load_relaxed(&rt_mem.gc_percent) || rt_cache_lock(c, &life, r->w.op))
		return false;
	most = rt_cache_limit(c);
	if (most > rt.info[c->device].mem_total)
		most = rt.info[c->device].mem_total;
	most = most / 100 * hal_load_relaxed(&rt_mem.gc_percent);
	held = c->kind[RT_SMALL].sum.mapped + c->kind[RT_LARGE].sum.mapped +
	       rt_segment_size(r->w.kind, r->w.size);
	hal_list_for_each(node, &c->heap.segments) {
		s = container_of(hal_list_entry(node, struct heap_segment, node),
				 struct rt_segment, seg);
		if (s->seg.used || s->flags || !rt_release_of(&what, s->seg.pool->owner))
			continue;
		ages += c->heap.clock - s->seg.since;
		n++;
	}
	rt_cache_unlock(c);
	if (held <= most || !n)
		return false;
	r->tried |= NPU_MEM_TRIED_GC;
	what.bytes = held - most;
	what.age = ages / n;
	freed = rt_release(c, &what);
	rt_bias_lock(&c->lock);
	c->rescued_gc += freed;
	rt_bias_unlock(&c->lock);
	return freed;
}

/* From now on what pools that lend have is searched as well, if there are any. */
static bool borrow(struct request *r)
{
	struct rt_cache *c = r->w.c;
	uint64_t life = r->w.life;
	bool any;

	/* a pool takes nothing from another one */
	if (r->w.key.group || rt_cache_lock(c, &life, r->w.op))
		return false;
	borrow_locked(r, &any);
	rt_cache_unlock(c);
	if (!any)
		return false;
	r->tried |= NPU_MEM_TRIED_POOLS;
	r->borrow = true;
	return true;
}

/* Waits for all streams that use freed blocks. */
static bool wait_events(struct request *r)
{
	uint64_t deadline = hal_sys_deadline(hal_option_int(rt_options, "op_timeout_ms"));
	struct rt_cache *c = r->w.c;
	struct hal_point p[32];
	uint64_t life = r->w.life;
	uint32_t i, n, got;

	if (rt_cache_lock(c, &life, r->w.op))
		return false;
	n = rt_lanes_points(&c->lanes, p, ARRAY_SIZE(p));
	c->syncs += n != 0;
	rt_cache_unlock(c);
	if (!n)
		return false;
	r->tried |= NPU_MEM_TRIED_EVENTS;
	for (i = 0; i < n; i++)
		if (hal_point_drain(&p[i], rt_time_left(deadline)))
			p[i].seq = 0;
	if (rt_cache_lock(c, &life, r->w.op))
		return false;
	for (i = 0; i < n; i++)
		rt_lanes_drained(&c->lanes, &p[i]);
	got = rt_cache_reap(c, UINT32_MAX);
	c->rescued_events += got;
	rt_figures(c);
	rt_cache_unlock(c);
	return got;
}

/* What goes back to other streams is had with the release of all. */
static bool trim_workspaces(struct request *r)
{
	struct rt_cache *c = r->w.c;
	uint64_t freed = rt_workspace_trim(c->device);

	if (!freed)
		return false;
	r->tried |= NPU_MEM_TRIED_WORKSPACE;
	rt_bias_lock(&c->lock);
	c->rescued_workspace += freed;
	rt_bias_unlock(&c->lock);
	return true;
}

/* All that is free, and what others are about to give back; waits no longer than the first time. */
static bool give_back(struct request *r)
{
	struct rt_release what = { .bytes = UINT64_MAX, .lent = true };
	struct rt_cache *c = r->w.c;
	uint64_t freed;

	/* whoever is at it waits for streams, perhaps for the one whose callback this is */
	if (hal_in_callback()) {
		if (pthread_mutex_trylock(&c->rescue))
			return false;
	} else {
		pthread_mutex_lock(&c->rescue);
	}
	if (!r->until)
		r->until = hal_sys_deadline(hal_option_int(rt_options, "op_timeout_ms"));
	what.until = r->until;
	freed = rt_release(c, &what);
	pthread_mutex_unlock(&c->rescue);
	/* they may wait for streams, perhaps for this one */
	if (!hal_in_callback())
		rt_wait_none(&c->leaving);
	rt_bias_lock(&c->lock);
	c->rescued_release += freed;
	rt_bias_unlock(&c->lock);
	return true;
}

static bool release_all(struct request *r)
{
	struct rt_cache *c = r->w.c;

	if (!give_back(r))
		return false;
	r->tried |= NPU_MEM_TRIED_RELEASE;
	rt_bias_lock(&c->lock);
	c->retries++;
	rt_bias_unlock(&c->lock);
	return true;
}

static bool reclaim(struct request *r)
{
	struct rt_cache *c = r->w.c;

	bool called = false, freed = rt_reclaim(c->device, r->w.asked, &called);

	if (called)
		r->tried |= NPU_MEM_TRIED_RECLAIM;
	if (!freed)
		return false;
	rt_bias_lock(&c->lock);
	c->rescued_reclaim++;
	rt_bias_unlock(&c->lock);
	return true;
}

/* Before the driver is asked, and after it has refused: in this order, each once. */
static const struct rescue {
	uint32_t bit;
	bool (*fn)(struct request *r);
} before[] = {
	{ NPU_MEM_TRIED_RECLAIM, reclaim },
	{ NPU_MEM_TRIED_GC, collect },
}, after[] = {
	{ NPU_MEM_TRIED_POOLS, borrow },
	{ NPU_MEM_TRIED_EVENTS, wait_events },
	{ NPU_MEM_TRIED_WORKSPACE, trim_workspaces },
	{ NPU_MEM_TRIED_RELEASE, release_all },
};

/* Whether something was had, so that the search is worth beginning again. */
static bool rescued(struct request *r, const struct rescue *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (r->over & list[i].bit)
			continue;
		r->over |= list[i].bit;
		if (list[i].fn(r))
			return true;
	}
	return false;
}

/*
 * Whether the driver has got back something since it was asked; what others took of that, and have
 * left meanwhile, is given back first.
 */
static bool overtaken(struct request *r)
{
	if (r->again++ == AGAIN_MAX || !give_back(r) || atomic_load(&r->w.c->given) == r->given)
		return false;
	r->over &= ~NPU_MEM_TRIED_EVENTS;
	return true;
}

static void lane_let_go(struct request *r)
{
	struct rt_cache *c = r->w.c;

	rt_bias_lock(&c->lock);
	if (r->w.lane && c->life == r->w.life)
		r->w.lane->uses--;
	rt_bias_unlock(&c->lock);
}

/* From the driver; plain: one block, which goes back to it when it is free. */
static int from_driver(struct request *r, bool plain, void **ptr)
{
	r->given = atomic_load(&r->w.c->given);
	r->tried |= NPU_MEM_TRIED_DRIVER;
	return plain ? rt_plain_get(&r->w, ptr) : rt_segment_get(&r->w);
}

static int obtain(struct request *r, bool plain, void **ptr)
{
	int err;

	for (;;) {
		err = plain ? -ENOENT : search(r, ptr);
		if (err != -ENOENT)
			return err;
		if (rescued(r, before, ARRAY_SIZE(before)))
			continue;
		err = from_driver(r, plain, ptr);
		if (err == -ENOMEM && (rescued(r, after, ARRAY_SIZE(after)) || overtaken(r)))
			continue;
		if (err == -ENOMEM)
			return rt_oom(r->w.c, r->w.asked, r->tried, r->w.op);
		if (err || plain)
			return err;
	}
}

/**
 * rt_alloc_slow() - allocate where the short way found nothing
 * @c: the cache
 * @size: bytes
 * @stream: for this stream
 * @ptr: out: the memory
 * @op: for the error record
 *
 * Return: as npu_mem_alloc().
 */
int rt_alloc_slow(struct rt_cache *c, size_t size, uint64_t stream, void **ptr, const char *op)
{
	struct request r = {
		.w = {
			.c = c,
			.key = { .stream = stream, .pools = true },
			.asked = size,
			.op = op,
		},
	};
	struct rt_thread *t = rt_thread(op);
	struct rt_record before_all;
	bool plain, sleeps;
	int err;

	if (!t)
		return -ENOMEM;
	if (rt_plug_use())
		return rt_plug_alloc(c, size, stream, ptr, op);
	if (size > RT_REQUEST_MAX)
		return rt_oom(c, size, 0, op);
	rt_bias_lock(&c->lock);
	sleeps = c->odd & RT_ODD_SLEEP;
	if (!sleeps)
		r.w.key.group = rt_route_find(c, stream, t->id);
	rt_bias_unlock(&c->lock);
	if (sleeps)
		return hal_fail(-EBUSY, op, "the memory of device %d sleeps", c->device);
	rt_record_save(&before_all);
	r.w.size = rt_mem_round(size);
	r.w.kind = r.w.size > RT_SMALL_MAX ? RT_LARGE : RT_SMALL;
	plain = !r.w.key.group && !hal_load_relaxed(&rt_mem.caching);
	r.w.key.use = plain;
	err = obtain(&r, plain, ptr);
	lane_let_go(&r);
	rt_group_put(r.w.key.group);
	if (!err)
		rt_record_restore(&before_all);
	return err;
}
