// SPDX-License-Identifier: MIT
/*
 * Pinned host memory from a cache: allocating, freeing, and streams that use it.
 */
#include <stdlib.h>

#include "runtime/pinned.h"

struct rt_pinned *_Atomic rt_pinned_all[RT_DEVICES];
_Atomic int rt_pinned_end;
_Atomic uint64_t rt_pinned_taken;
/* What a process had whose child this is: nothing points there any more. */
static struct rt_pinned *inherited[RT_DEVICES];

/* ---- one for each device -------------------------------------------------------------------- */

/* Begins anew. Of one that nobody else knows, or under its lock. */
static void begin(struct rt_pinned *p)
{
	hal_store_relaxed(&p->start, UINTPTR_MAX);
	hal_store_relaxed(&p->end, 0);
	heap_init(&p->heap);
	rt_lanes_init(&p->lanes);
	p->sum = (struct heap_sum){ .segments = 0 };
	heap_pool_init(&p->pool[RT_SMALL], &p->sum, NULL);
	heap_pool_init(&p->pool[RT_LARGE], &p->sum, NULL);
	p->requested = p->waits = p->wait_bytes = p->unlocked = 0;
	p->life++;
}

struct rt_pinned *rt_pinned_make(int d, const char *op)
{
	struct rt_pinned *p, *none = NULL;
	int end;

	p = hal_zalloc_aligned(2 * HAL_CACHELINE, sizeof(*p));
	if (!p) {
		hal_fail(-ENOMEM, op, "no memory");
		return NULL;
	}
	p->device = d;
	begin(p);
	if (!atomic_compare_exchange_strong(&rt_pinned_all[d], &none, p)) {
		free(p);
		return none;
	}
	end = hal_load_relaxed(&rt_pinned_end);
	while (end <= d && !atomic_compare_exchange_weak(&rt_pinned_end, &end, d + 1))
		;
	return p;
}

static void segments_free(struct hal_list *segments)
{
	struct hal_list *n, *tmp;

	hal_list_for_each_safe(n, tmp, segments)
		free(container_of(hal_list_entry(n, struct heap_segment, node),
				  struct rt_pinned_segment, seg));
}

void rt_pinned_drop(int d)
{
	struct rt_pinned *p = hal_load_acquire(&rt_pinned_all[d]);
	struct hal_list segments, *first;
	struct rt_lanes lanes;
	struct heap heap;
	uint64_t bytes;

	if (!p)
		return;
	hal_spin_lock(&p->lock);
	heap = p->heap;
	lanes = p->lanes;
	hal_list_init(&segments);
	if (!hal_list_empty(&p->heap.segments)) {
		first = p->heap.segments.next;
		hal_list_del(&p->heap.segments);
		hal_list_add_tail(first, &segments);
	}
	bytes = p->sum.mapped;
	rt_stat_sub(&p->segments, p->sum.segments);
	rt_stat_sub(&p->reserved, bytes);
	begin(p);
	hal_spin_unlock(&p->lock);
	hal_add_relaxed(&rt_pinned_taken, -bytes);
	segments_free(&segments);
	rt_lanes_fini(&lanes);
	heap_fini(&heap);
}

void rt_pinned_fork_child(void)
{
	int d;

	for (d = 0; d < RT_DEVICES; d++) {
		if (!inherited[d])
			inherited[d] = hal_load_relaxed(&rt_pinned_all[d]);
		hal_store_relaxed(&rt_pinned_all[d], NULL);
	}
	hal_store_relaxed(&rt_pinned_taken, 0);
}

/* Nobody waits for it any more. */
static void waited(void *arg, struct heap_block *b)
{
	struct rt_pinned *p = arg;

	p->waits--;
	p->wait_bytes -= b->size;
	heap_give(&p->heap, b);
}

void rt_pinned_reap_slow(struct rt_pinned *p, uint32_t most)
{
	rt_lanes_reap(&p->lanes, most, waited, p);
}

/* ---- allocating ----------------------------------------------------------------------------- */

static inline int alloc(size_t size, void **ptr, const char *op)
{
	struct rt_thread *t = rt_thread(op);
	struct heap_block *b = NULL;
	struct rt_pinned *p;
	size_t s;

	if (unlikely(!t))
		return -ENOMEM;
	if (unlikely(!size))
		return 0;
	p = rt_pinned_get(rt_thread_device(t), op);
	if (unlikely(!p))
		return -ENOMEM;
	if (unlikely(size > RT_REQUEST_MAX))
		return rt_pinned_alloc_slow(p, size, ptr, op);
	s = rt_pinned_round(size);
	hal_spin_lock(&p->lock);
	rt_pinned_reap(p, 4);
	b = heap_take_quick(&p->pool[rt_pinned_kind(s)], s);
	if (likely(b))
		rt_pinned_took(p, b, size);
	hal_spin_unlock(&p->lock);
	if (unlikely(!b))
		return rt_pinned_alloc_slow(p, size, ptr, op);
	*ptr = (void *)b->addr;
	return 0;
}

NPU_API int npu_host_alloc(size_t size, void **ptr)
{
	static const char op[] = "host_alloc";
	int err;

	if (unlikely(!ptr))
		return hal_fail(-EINVAL, op, "ptr is NULL");
	*ptr = NULL;
	err = rt_enter(op);
	return unlikely(err) ? err : alloc(size, ptr, op);
}

/* ---- freeing -------------------------------------------------------------------------------- */

static int not_ours(const void *ptr, const char *op)
{
	return hal_fail(-EINVAL, op, "%p is not the start of pinned memory in use", ptr);
}

/* Under the lock: a block becomes free, at once or when its streams have ended what they do. */
static inline void give_locked(struct rt_pinned *p, struct heap_block *b)
{
	p->requested -= b->requested;
	if (unlikely(b->user) && rt_uses_free(&p->lanes, b)) {
		b->state = HEAP_WAIT;
		p->waits++;
		p->wait_bytes += b->size;
	} else {
		heap_give(&p->heap, b);
	}
}

static inline bool give(struct rt_pinned *p, void *ptr)
{
	uint64_t keep = hal_load_relaxed(&rt_pinned_opts.keep);
	struct heap_segment *seg;
	struct heap_block *b;
	bool more;

	hal_spin_lock(&p->lock);
	b = rt_pinned_find(p, ptr);
	if (unlikely(!b)) {
		hal_spin_unlock(&p->lock);
		return false;
	}
	seg = b->seg;
	give_locked(p, b);
	more = unlikely(!seg->used && p->sum.mapped - p->sum.used_bytes > keep);
	hal_spin_unlock(&p->lock);
	if (unlikely(more))
		rt_pinned_release(p, keep);
	return true;
}

NPU_API int npu_host_free(void *ptr)
{
	int d = 0, err = rt_enter("host_free");
	struct rt_pinned *p;

	if (unlikely(err) || !ptr)
		return err;
	do {
		p = rt_pinned_next((uintptr_t)ptr, &d);
		if (unlikely(!p))
			return not_ours(ptr, "host_free");
	} while (!give(p, ptr));
	return 0;
}

/* ---- streams -------------------------------------------------------------------------------- */

/**
 * struct made - what a record may need, made without the lock
 * @lane: a lane, or NULL
 * @chunk: uses, or NULL
 */
struct made {
	struct rt_lane *lane;
	struct rt_use_chunk *chunk;
};

static int make_more(struct made *m, uint64_t stream, const char *op)
{
	if (!m->lane)
		m->lane = rt_lane_new(stream, NULL, false);
	if (!m->chunk)
		m->chunk = rt_uses_new();
	return m->lane && m->chunk ? 0 : hal_fail(-ENOMEM, op, "no memory for what a stream has");
}

/* Takes out lanes of streams that are gone, for which nothing waits; they are put before @gone. */
static struct rt_lane *sweep_locked(struct rt_pinned *p, struct rt_lane *gone)
{
	struct rt_lane *lane, *next;
	uint32_t i;

	for (i = 0; i < RT_LANE_BUCKETS; i++)
		for (lane = p->lanes.bucket[i]; lane; lane = next) {
			next = lane->next;
			if (lane->uses || !rt_lane_dead(lane))
				continue;
			rt_lane_del(&p->lanes, lane);
			lane->next = gone;
			gone = lane;
		}
	return gone;
}

/* The lane of a stream, with a use to spare, from what was made; NULL: more has to be made. */
static struct rt_lane *equip_locked(struct rt_pinned *p, uint64_t stream, struct made *m,
				    struct rt_lane **gone)
{
	struct rt_lane *lane = rt_lane_find(&p->lanes, stream, NULL);

	if (!lane && m->lane) {
		*gone = sweep_locked(p, *gone);
		lane = rt_lane_add(&p->lanes, m->lane, &m->lane);
	}
	if (!p->lanes.spare && m->chunk) {
		rt_uses_add(&p->lanes, m->chunk);
		m->chunk = NULL;
	}
	return p->lanes.spare ? lane : NULL;
}

/* Return: 0, -ENOMEM, -ENOENT: it is not a block of these. */
static int record(struct rt_pinned *p, void *ptr, uint64_t stream, const char *op)
{
	struct rt_lane *lane = NULL, *gone = NULL;
	struct made m = { NULL, NULL };
	struct heap_block *b;
	int err = 0;

	do {
		hal_spin_lock(&p->lock);
		b = rt_pinned_find(p, ptr);
		if (b)
			lane = equip_locked(p, stream, &m, &gone);
		if (lane)
			rt_use_record(&p->lanes, b, lane);
		hal_spin_unlock(&p->lock);
		if (b && !lane)
			err = make_more(&m, stream, op);
	} while (b && !lane && !err);
	rt_lane_free(m.lane);
	free(m.chunk);
	while ((lane = gone)) {
		gone = lane->next;
		rt_lane_free(lane);
	}
	return b ? err : -ENOENT;
}

NPU_API int npu_host_record_stream(void *ptr, npu_stream stream)
{
	static const char op[] = "host_record_stream";
	struct hal_point point;
	struct rt_pinned *p;
	int d = 0, err;
	uint64_t h;

	err = rt_enter(op);
	if (!err)
		err = rt_stream(stream, -1, op, &h);
	if (!err)
		err = hal_stream_point(h, &point, op);
	if (err || !ptr)
		return err;
	do {
		p = rt_pinned_next((uintptr_t)ptr, &d);
		if (!p)
			return not_ours(ptr, op);
		err = record(p, ptr, h, op);
	} while (err == -ENOENT);
	return err;
}
