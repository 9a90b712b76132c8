// SPDX-License-Identifier: MIT
/*
 * The cache of device memory: allocating and freeing.
 *
 * The short way takes the lock, a block from a stack of its size, and brings the figures up to date.
 * Whatever is out of the ordinary is a bit in rt_cache.odd, or makes the stack empty.
 */
#include <stdlib.h>

#include "runtime/alloc.h"

struct rt_mem rt_mem = {
	.caching = true,
	.max_split = SIZE_MAX,
	.large_segment = 20 * RT_MIB,
	.align = HEAP_UNIT,
	.fraction = 100,
};

static struct rt_cache *_Atomic caches[RT_DEVICES];
/* One more than the highest ordinal that has a cache. */
static _Atomic int caches_end;
/* What a process had whose child this is: nothing points there any more. */
static struct rt_cache *inherited[RT_DEVICES];

/* ---- caches ------------------------------------------------------------------------------- */

struct rt_cache *rt_cache_peek(int d)
{
	return hal_load_acquire(&caches[d]);
}

/* Begins anew. Of a cache that nobody else knows, or under its lock. */
static void begin(struct rt_cache *c)
{
	uint32_t k;

	heap_init(&c->heap);
	rt_lanes_init(&c->lanes);
	for (k = 0; k < RT_KINDS; k++)
		c->kind[k] = (struct rt_kind){ .requested = 0 };
	c->last = NULL;
	c->dead = NULL;
	c->reserving = 0;
	c->fraction = hal_load_relaxed(&rt_mem.fraction) / 100.0;
	c->odd = (c->odd & RT_ODD_TRACE) | (hal_load_relaxed(&rt_mem.caching) ? 0 : RT_ODD_OFF);
	c->life++;
}

static struct rt_cache *make(int d, const char *op)
{
	struct rt_cache *c, *none = NULL;
	int end;

	c = hal_zalloc_aligned(2 * HAL_CACHELINE, sizeof(*c));
	if (!c) {
		hal_fail(-ENOMEM, op, "no memory");
		return NULL;
	}
	c->device = d;
	pthread_mutex_init(&c->rescue, NULL);
	begin(c);
	if (!atomic_compare_exchange_strong(&caches[d], &none, c)) {
		free(c);
		return none;
	}
	end = hal_load_relaxed(&caches_end);
	while (end <= d && !atomic_compare_exchange_weak(&caches_end, &end, d + 1))
		;
	return c;
}

struct rt_cache *rt_cache_get(int d, const char *op)
{
	struct rt_cache *c = hal_load_acquire(&caches[d]);

	return likely(c) ? c : make(d, op);
}

static inline bool has_address(const struct rt_cache *c, uintptr_t addr)
{
	return c && addr - hal_load_relaxed(&c->va_start) < hal_load_acquire(&c->va_size);
}

struct rt_cache *rt_cache_of(uintptr_t addr)
{
	int d, end = hal_load_acquire(&caches_end);
	struct rt_cache *c;

	for (d = 0; d < end; d++) {
		c = hal_load_acquire(&caches[d]);
		if (has_address(c, addr))
			return c;
	}
	return NULL;
}

void rt_cache_drop(int d)
{
	struct rt_cache *c = rt_cache_peek(d);
	struct hal_list segments, *first;
	struct rt_segment *dead;
	struct rt_lanes lanes;
	struct heap heap;

	if (!c)
		return;
	hal_spin_lock(&c->lock);
	heap = c->heap;
	lanes = c->lanes;
	dead = c->dead;
	hal_list_init(&segments);
	if (!hal_list_empty(&c->heap.segments)) {
		first = c->heap.segments.next;
		hal_list_del(&c->heap.segments);
		hal_list_add_tail(first, &segments);
	}
	begin(c);
	hal_spin_unlock(&c->lock);
	rt_segments_forget(&segments);
	rt_segments_bury(dead);
	rt_lanes_fini(&lanes);
	heap_fini(&heap);
}

void rt_caches_fork_child(void)
{
	int d;

	for (d = 0; d < RT_DEVICES; d++) {
		if (!inherited[d])
			inherited[d] = hal_load_relaxed(&caches[d]);
		hal_store_relaxed(&caches[d], NULL);
	}
}

void rt_caches_begin(void)
{
	struct rt_cache *c;
	int d;

	for (d = 0; d < RT_DEVICES; d++) {
		c = rt_cache_peek(d);
		if (!c)
			continue;
		hal_spin_lock(&c->lock);
		c->fraction = hal_load_relaxed(&rt_mem.fraction) / 100.0;
		hal_spin_unlock(&c->lock);
	}
	rt_caches_toggle();
}

void rt_caches_toggle(void)
{
	struct rt_cache *c;
	int d;

	for (d = 0; d < RT_DEVICES; d++) {
		c = rt_cache_peek(d);
		if (!c)
			continue;
		hal_spin_lock(&c->lock);
		c->odd &= ~RT_ODD_OFF;
		if (!hal_load_relaxed(&rt_mem.caching))
			c->odd |= RT_ODD_OFF;
		hal_spin_unlock(&c->lock);
	}
}

static int dropped(int d, const char *op)
{
	return hal_fail(-ESTALE, op, "device %d was closed meanwhile", d);
}

int rt_cache_lock(struct rt_cache *c, uint64_t *life, const char *op)
{
	struct heap_stock *s;
	uint32_t chunks;

	hal_spin_lock(&c->lock);
	if (!*life)
		*life = c->life;
	while (heap_low(&c->heap)) {
		chunks = c->heap.chunks;
		hal_spin_unlock(&c->lock);
		s = heap_stock_new(chunks);
		if (!s)
			return hal_fail(-ENOMEM, op, "no memory for blocks");
		hal_spin_lock(&c->lock);
		heap_stock_add(&c->heap, s);
	}
	if (c->life == *life)
		return 0;
	hal_spin_unlock(&c->lock);
	return dropped(c->device, op);
}

void rt_cache_unlock(struct rt_cache *c)
{
	struct rt_segment *dead = c->dead;

	c->dead = NULL;
	hal_spin_unlock(&c->lock);
	if (unlikely(dead))
		rt_segments_bury(dead);
}

/* ---- figures of the short way ----------------------------------------------------------------- */

/* Whether a peak may have been passed; those of active blocks are at least these. */
static inline bool peaks(const struct rt_cache *c, const struct rt_kind *k)
{
	const struct rt_kind *s = &c->kind[RT_SMALL], *l = &c->kind[RT_LARGE];

	return (k->sum.used > k->peak[RT_F_ALLOCATION]) |
	       (k->sum.used_bytes > k->peak[RT_F_ALLOCATED_BYTES]) |
	       (k->requested > k->peak[RT_F_REQUESTED_BYTES]) |
	       (s->sum.used + l->sum.used > c->all_peak[RT_F_ALLOCATION]) |
	       (s->sum.used_bytes + l->sum.used_bytes > c->all_peak[RT_F_ALLOCATED_BYTES]) |
	       (s->requested + l->requested > c->all_peak[RT_F_REQUESTED_BYTES]);
}

static inline void count_take(struct rt_cache *c, struct rt_kind *k, struct heap_block *b,
			      size_t size)
{
	b->requested = size;
	k->requested += size;
	k->add[RT_F_ALLOCATION]++;
	k->add[RT_F_ALLOCATED_BYTES] += b->size;
	k->add[RT_F_REQUESTED_BYTES] += size;
	if (unlikely(peaks(c, k)))
		rt_figures_peak(c);
}

static inline void count_give(struct rt_kind *k, const struct heap_block *b)
{
	k->requested -= b->requested;
}

/* ---- what is out of the ordinary ---------------------------------------------------------------- */

static uint32_t kind_of(const struct heap_block *b)
{
	return container_of(b->seg, struct rt_segment, seg)->kind;
}

void rt_block_done(void *cache, struct heap_block *b)
{
	const struct rt_lane *lane = b->seg->pool->owner;
	struct rt_segment *s = container_of(b->seg, struct rt_segment, seg);
	struct rt_cache *c = cache;
	struct rt_kind *k = &c->kind[s->kind];

	if (b->state == HEAP_WAIT) {
		k->waits--;
		k->wait_bytes -= b->size;
		b->state = HEAP_USED;
	}
	count_give(k, b);
	rt_trace(c, RT_TRACE_FREE_COMPLETED, b->addr, b->requested, lane->stream);
	if (s->flags & RT_SEGMENT_PLAIN) {
		heap_give_bin(&c->heap, b);
		rt_segment_dead_locked(c, &s->seg);
	} else {
		heap_give(&c->heap, b);
	}
}

uint32_t rt_cache_reap(struct rt_cache *c, uint32_t most)
{
	uint32_t n = rt_lanes_reap(&c->lanes, most, rt_block_done, c);

	if (!rt_lanes_active(&c->lanes))
		c->odd &= ~RT_ODD_WAITS;
	return n;
}

void rt_oversize(struct npu_mem_stat *s, size_t size, bool more)
{
	if (likely(size < hal_load_relaxed(&rt_mem.max_split)))
		return;
	if (more) {
		s->allocated++;
		if (++s->current > s->peak)
			s->peak = s->current;
	} else {
		s->freed++;
		s->current--;
	}
}

/* A block is the program's. */
void rt_block_took(struct rt_cache *c, struct heap_block *b, size_t size)
{
	const struct rt_lane *lane = b->seg->pool->owner;

	count_take(c, &c->kind[kind_of(b)], b, size);
	rt_oversize(&c->oversize_allocations, b->size, true);
	rt_figures(c);
	rt_trace(c, RT_TRACE_ALLOC, b->addr, size, lane->stream);
}

static void free_locked(struct rt_cache *c, struct heap_block *b)
{
	const struct rt_lane *lane = b->seg->pool->owner;
	struct rt_kind *k = &c->kind[kind_of(b)];

	rt_trace(c, RT_TRACE_FREE_REQUESTED, b->addr, b->requested, lane->stream);
	rt_oversize(&c->oversize_allocations, b->size, false);
	if (rt_uses_free(&c->lanes, b)) {
		b->state = HEAP_WAIT;
		k->waits++;
		k->wait_bytes += b->size;
		c->odd |= RT_ODD_WAITS;
	} else {
		rt_block_done(c, b);
	}
	rt_figures(c);
}

/* ---- allocating ------------------------------------------------------------------------------- */

/* Up to the next of so many steps between two powers of two. */
static size_t step_up(size_t s, uint32_t divisions)
{
	size_t below = (size_t)1 << (63 - __builtin_clzll(s)), step = below / divisions;

	return (size_t)hal_align_up(s, step);
}

size_t rt_mem_round(size_t size)
{
	size_t align = hal_load_relaxed(&rt_mem.align), s = (size_t)hal_align_up(size, align);
	uint32_t divisions = hal_load_relaxed(&rt_mem.divisions);

	if (unlikely(divisions > 1) && s > (size_t)HEAP_UNIT * divisions)
		s = (size_t)hal_align_up(step_up(s, divisions), align);
	return s;
}

/* Under the lock, which it gives back: a block from the stack of its size; NULL: there is none. */
static inline struct heap_block *take_quick(struct rt_cache *c, size_t size, uint64_t stream)
{
	size_t s = rt_mem_round(size);
	uint32_t kind = s > RT_SMALL_MAX ? RT_LARGE : RT_SMALL;
	struct rt_lane *lane = c->last;
	struct heap_block *b;

	if (unlikely(!lane || lane->stream != stream)) {
		lane = rt_lane_find(&c->lanes, stream, NULL);
		if (!lane || !lane->pool)
			return NULL;
		c->last = lane;
	}
	b = heap_take_quick(&lane->pool[kind], s);
	if (likely(b))
		count_take(c, &c->kind[kind], b, size);
	return b;
}

static inline int alloc(size_t size, npu_stream stream, void **ptr, const char *op)
{
	struct rt_thread *t = rt_thread(op);
	uint64_t h = stream.h;
	struct heap_block *b;
	struct rt_cache *c;
	int d, err;

	if (unlikely(!t))
		return -ENOMEM;
	err = rt_stream(stream, -1, op, &h);
	if (unlikely(err))
		return err;
	d = rt_handle_device(t, h, op);
	if (unlikely(d < 0))
		return d;
	if (unlikely(!size))
		return 0;
	c = rt_cache_get(d, op);
	if (unlikely(!c))
		return -ENOMEM;
	hal_spin_lock(&c->lock);
	b = likely(!c->odd && size <= RT_REQUEST_MAX) ? take_quick(c, size, h) : NULL;
	hal_spin_unlock(&c->lock);
	if (unlikely(!b))
		return rt_alloc_slow(c, size, h, ptr, op);
	*ptr = (void *)b->addr;
	return 0;
}

NPU_API int npu_mem_alloc(size_t size, npu_stream stream, void **ptr)
{
	static const char op[] = "mem_alloc";
	int err;

	if (unlikely(!ptr))
		return hal_fail(-EINVAL, op, "ptr is NULL");
	*ptr = NULL;
	err = rt_enter(op);
	return unlikely(err) ? err : alloc(size, stream, ptr, op);
}

/* ---- freeing ------------------------------------------------------------------------------------ */

static int not_ours(const void *ptr, const char *op)
{
	return hal_fail(-EINVAL, op, "%p is not the start of a block in use", ptr);
}

/* Under the lock: the block in use that begins there, or NULL. */
struct heap_block *rt_block_find(const struct rt_cache *c, const void *ptr)
{
	struct heap_block *b;

	if (unlikely(!c->heap.buckets))
		return NULL;
	b = heap_find(&c->heap, (uintptr_t)ptr);
	return likely(b && b->state == HEAP_USED) ? b : NULL;
}

static __attribute__((noinline)) void free_odd(struct rt_cache *c, struct heap_block *b)
{
	free_locked(c, b);
	rt_cache_unlock(c);
}

static inline int give(void *ptr, const char *op)
{
	struct rt_cache *c = rt_cache_of((uintptr_t)ptr);
	struct heap_block *b;

	if (unlikely(!c))
		return not_ours(ptr, op);
	hal_spin_lock(&c->lock);
	b = rt_block_find(c, ptr);
	if (unlikely(!b)) {
		hal_spin_unlock(&c->lock);
		return not_ours(ptr, op);
	}
	if (unlikely(c->odd || b->user || b->size >= hal_load_relaxed(&rt_mem.max_split))) {
		free_odd(c, b);
		return 0;
	}
	count_give(&c->kind[kind_of(b)], b);
	heap_give(&c->heap, b);
	rt_figures_idle(c, &c->kind[kind_of(b)]);
	hal_spin_unlock(&c->lock);
	return 0;
}

NPU_API int npu_mem_free(void *ptr)
{
	int err = rt_enter("mem_free");

	return unlikely(err) || !ptr ? err : give(ptr, "mem_free");
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Makes what a lane lacks; *life as for rt_cache_lock(). */
static int equip(struct rt_cache *c, uint64_t *life, const struct rt_lane_key *key, const char *op)
{
	struct rt_use_chunk *chunk = key->use ? rt_uses_new() : NULL;
	struct rt_lane *lane, *fresh, *spare = NULL;
	int err;

	fresh = rt_lane_new(key->stream, key->group, key->pools);
	if (!fresh || (key->use && !chunk)) {
		err = hal_fail(-ENOMEM, op, "no memory for what a stream has");
		spare = fresh;
		goto out;
	}
	err = rt_cache_lock(c, life, op);
	if (err) {
		spare = fresh;
		goto out;
	}
	lane = rt_lane_add(&c->lanes, fresh, &spare);
	if (lane->pool && !lane->pool->owner) {
		heap_pool_init(&lane->pool[RT_SMALL], &c->kind[RT_SMALL].sum, lane);
		heap_pool_init(&lane->pool[RT_LARGE], &c->kind[RT_LARGE].sum, lane);
	}
	if (chunk && !c->lanes.spare) {
		rt_uses_add(&c->lanes, chunk);
		chunk = NULL;
	}
	rt_cache_unlock(c);
out:
	rt_lane_free(spare);
	free(chunk);
	return err;
}

int rt_lane_lock(struct rt_cache *c, uint64_t *life, const struct rt_lane_key *key,
		 struct rt_lane **lane, const char *op)
{
	int err;

	for (;;) {
		err = rt_cache_lock(c, life, op);
		if (err)
			return err;
		*lane = rt_lane_find(&c->lanes, key->stream, key->group);
		if (*lane && ((*lane)->pool || !key->pools) && (c->lanes.spare || !key->use))
			return 0;
		rt_cache_unlock(c);
		err = equip(c, life, key, op);
		if (err)
			return err;
	}
}

/* ---- other streams ------------------------------------------------------------------------------ */

static int record(struct rt_cache *c, void *ptr, const struct rt_lane_key *key, const char *op)
{
	struct heap_block *b;
	struct rt_lane *lane;
	uint64_t life = 0;
	int err;

	err = rt_lane_lock(c, &life, key, &lane, op);
	if (err)
		return err;
	b = rt_block_find(c, ptr);
	/* its own stream is in order with itself */
	if (b && ((struct rt_lane *)b->seg->pool->owner)->stream != key->stream)
		rt_use_record(&c->lanes, b, lane);
	rt_cache_unlock(c);
	return b ? 0 : not_ours(ptr, op);
}

static int erase(struct rt_cache *c, void *ptr, uint64_t stream, const char *op)
{
	const struct rt_lane *lane;
	struct heap_block *b;

	hal_spin_lock(&c->lock);
	b = rt_block_find(c, ptr);
	lane = rt_lane_find(&c->lanes, stream, NULL);
	/* that of a plain block has to be done before the driver gets it back */
	if (b && lane && ((struct rt_lane *)b->seg->pool->owner)->stream != stream)
		rt_use_erase(&c->lanes, b, lane);
	hal_spin_unlock(&c->lock);
	return b ? 0 : not_ours(ptr, op);
}

NPU_API int npu_mem_record_stream(void *ptr, npu_stream stream)
{
	static const char op[] = "mem_record_stream";
	struct rt_lane_key key = { .use = true };
	struct hal_point p;
	struct rt_cache *c;
	int err;

	err = rt_enter(op);
	if (!err)
		err = rt_stream(stream, -1, op, &key.stream);
	if (!err)
		err = hal_stream_point(key.stream, &p, op);
	if (err || !ptr)
		return err;
	c = rt_cache_of((uintptr_t)ptr);
	return c ? record(c, ptr, &key, op) : not_ours(ptr, op);
}

NPU_API int npu_mem_erase_stream(void *ptr, npu_stream stream)
{
	static const char op[] = "mem_erase_stream";
	struct rt_cache *c;
	uint64_t h;
	int err;

	err = rt_enter(op);
	if (!err)
		err = rt_stream(stream, -1, op, &h);
	if (!err && !hal_slot_at(HAL_HANDLE_STREAM, h))
		err = hal_handle_error(HAL_HANDLE_STREAM, h, op);
	if (err || !ptr)
		return err;
	c = rt_cache_of((uintptr_t)ptr);
	return c ? erase(c, ptr, h, op) : not_ours(ptr, op);
}

/* ---- giving back ---------------------------------------------------------------------------------- */

NPU_API int npu_mem_empty_cache(int device)
{
	struct rt_release what = { .bytes = UINT64_MAX };
	struct rt_cache *c;
	int d, err;

	err = rt_enter("mem_empty_cache");
	if (!err)
		err = rt_device_arg(device, "mem_empty_cache", &d);
	if (err)
		return err;
	c = rt_cache_peek(d);
	if (c)
		rt_release(c, &what);
	return 0;
}
