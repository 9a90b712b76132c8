// SPDX-License-Identifier: MIT
/*
 * The cache of device memory: allocating and freeing.
 *
 * The short way takes the lock, a block from a stack of its size, and brings the figures up to
 * date. Whatever is out of the ordinary is a bit in rt_cache.odd, or makes the stack empty.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/plug.h"
#include "runtime/pool.h"

struct rt_mem rt_mem = {
	.caching = true,
	.max_split = SIZE_MAX,
	.large_segment = 20 * RT_MIB,
	.align = HEAP_UNIT,
	.fraction = 100,
};

static struct rt_cache *_Atomic caches[RT_DEVICES];
struct rt_cache_range rt_cache_ranges[RT_DEVICES];
/* One more than the highest ordinal of which there is one. */
_Atomic int rt_cache_ranges_end;
/* What a process had whose child this is: nothing points there any more. */
static struct rt_cache *inherited[RT_DEVICES];

/* ---- caches ------------------------------------------------------------------------------- */

struct rt_cache *rt_cache_peek(int d)
{
	return hal_load_acquire(&caches[d]);
}

/* What options ask for that the short way does not do. */
static uint32_t odd_options(void)
{
	uint32_t odd = hal_load_relaxed(&rt_mem.caching) ? 0 : RT_ODD_OFF;

	if (hal_load_relaxed(&rt_mem.max_split) != SIZE_MAX ||
	    hal_load_relaxed(&rt_mem.align) != HEAP_UNIT ||
	    hal_load_relaxed(&rt_mem.divisions) > 1)
		odd |= RT_ODD_SIZES;
	return odd;
}

/* Begins anew. Of a cache that nobody else knows, or under its lock. */
static void begin(struct rt_cache *c)
{
	uint32_t k;

	heap_init(&c->heap);
	rt_lanes_init(&c->lanes);
	for (k = 0; k < RT_KINDS; k++)
		c->kind[k] = (struct rt_kind){ .requested = 0 };
	c->last = 0;
	c->dead = NULL;
	c->sleep = NULL;
	c->routes = NULL;
	c->reserving = 0;
	c->most = 0;
	c->fraction = hal_load_relaxed(&rt_mem.fraction) / 100.0;
	c->odd = (c->odd & RT_ODD_TRACE) | odd_options();
	/* peaks and sums of what is not there any more */
	memset(c->all_peak, 0, sizeof(c->all_peak));
	c->life++;
}

static struct rt_cache *make(int d, const char *op)
{
	struct rt_cache *c, *none = NULL;

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
	return c;
}

struct rt_cache *rt_cache_get(int d, const char *op)
{
	struct rt_cache *c = hal_load_acquire(&caches[d]);

	return likely(c) ? c : make(d, op);
}

void rt_cache_range(struct rt_cache *c, uintptr_t start, size_t size)
{
	struct rt_cache_range *r = &rt_cache_ranges[c->device];
	int end = hal_load_relaxed(&rt_cache_ranges_end);

	hal_store_relaxed(&r->cache, c);
	hal_store_relaxed(&r->start, start);
	hal_store_release(&r->size, size);
	while (end <= c->device &&
	       !atomic_compare_exchange_weak(&rt_cache_ranges_end, &end, c->device + 1))
		;
}

struct rt_cache *rt_cache_of_others(uintptr_t addr)
{
	int d, end = hal_load_acquire(&rt_cache_ranges_end);

	for (d = 1; d < end; d++)
		if (rt_cache_in_range(&rt_cache_ranges[d], addr))
			return hal_load_relaxed(&rt_cache_ranges[d].cache);
	return NULL;
}

void rt_cache_drop(int d)
{
	struct rt_cache *c = rt_cache_peek(d);
	struct hal_list segments, *first;
	struct rt_segment *dead;
	struct rt_route *routes;
	struct rt_sleep *sleep;
	struct rt_lanes lanes;
	struct heap heap;

	if (!c)
		return;
	rt_bias_lock(&c->lock);
	heap = c->heap;
	lanes = c->lanes;
	dead = c->dead;
	sleep = c->sleep;
	routes = c->routes;
	rt_trace(c, RT_TRACE_DROP, 0, 0, 0);
	hal_list_init(&segments);
	if (!hal_list_empty(&c->heap.segments)) {
		first = c->heap.segments.next;
		hal_list_del(&c->heap.segments);
		hal_list_add_tail(first, &segments);
	}
	begin(c);
	rt_bias_unlock(&c->lock);
	rt_segments_forget(&segments);
	rt_segments_bury(c, dead);
	rt_sleep_free(sleep);
	rt_routes_free(routes);
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
		hal_store_relaxed(&rt_cache_ranges[d].size, 0);
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
		rt_bias_lock(&c->lock);
		c->fraction = hal_load_relaxed(&rt_mem.fraction) / 100.0;
		rt_bias_unlock(&c->lock);
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
		rt_bias_lock(&c->lock);
		c->odd = (c->odd & ~(RT_ODD_OFF | RT_ODD_SIZES)) | odd_options();
		rt_bias_unlock(&c->lock);
	}
}

int rt_cache_dropped(const struct rt_cache *c, const char *op)
{
	return hal_fail(-ESTALE, op, "device %d was closed meanwhile", c->device);
}

int rt_cache_lock(struct rt_cache *c, uint64_t *life, const char *op)
{
	struct heap_stock *s;
	uint32_t chunks;

	rt_bias_lock(&c->lock);
	if (!*life)
		*life = c->life;
	while (heap_low(&c->heap)) {
		chunks = c->heap.chunks;
		rt_bias_unlock(&c->lock);
		s = heap_stock_new(chunks);
		if (!s)
			return hal_fail(-ENOMEM, op, "no memory for blocks");
		rt_bias_lock(&c->lock);
		heap_stock_add(&c->heap, s);
	}
	if (c->life == *life) {
		rt_figures_begin(c);
		return 0;
	}
	rt_bias_unlock(&c->lock);
	return rt_cache_dropped(c, op);
}

void rt_cache_unlock(struct rt_cache *c)
{
	struct rt_segment *dead = c->dead;

	c->dead = NULL;
	rt_bias_unlock(&c->lock);
	if (unlikely(dead))
		rt_segments_bury(c, dead);
}

/* ---- figures of the short way --------------------------------------------------------------- */

/* Return: whether something may be more than ever. */
static inline bool count_taken(struct rt_cache *c, struct rt_kind *k, struct heap_block *b,
			       size_t size)
{
	b->requested = size;
	k->requested += size;
	k->allocs++;
	k->alloc_bytes += b->size;
	k->alloc_requested += size;
	return k->sum.used > k->top[0] || k->sum.used_bytes > k->top[1] ||
	       k->requested > k->top[2] ||
	       c->kind[RT_SMALL].sum.used + c->kind[RT_LARGE].sum.used > c->top;
}

static inline void count_take(struct rt_cache *c, struct rt_kind *k, struct heap_block *b,
			      size_t size)
{
	if (unlikely(count_taken(c, k, b, size)))
		rt_figures_top(c);
}

/* What is free beside used blocks may have become more. */
static inline bool below(const struct rt_kind *k)
{
	return (int64_t)(k->sum.used + k->sum.idle_blocks) < k->low[0] ||
	       (int64_t)(k->sum.used_bytes + k->sum.idle_bytes) < k->low[1];
}

/**
 * struct shape - how a kind was before blocks were cut or merged
 * @blocks: its blocks
 * @free: those that are free beside others
 * @bytes: their bytes
 */
struct shape {
	uint64_t blocks;
	uint64_t free;
	uint64_t bytes;
};

static inline struct shape shape_of(const struct rt_kind *k)
{
	return (struct shape){
		.blocks = k->sum.blocks,
		.free = k->sum.blocks - k->sum.used - k->sum.idle_blocks,
		.bytes = k->sum.mapped - k->sum.used_bytes - k->sum.idle_bytes,
	};
}

/* Blocks of the kind were cut or merged, no memory has come or gone. */
static inline void count_shape(struct rt_cache *c, struct rt_kind *k, const struct shape *was)
{
	const struct shape now = shape_of(k);

	k->low[0] += (int64_t)(now.blocks - was->blocks);
	if (now.free > was->free)
		k->add[RT_F_INACTIVE] += now.free - was->free;
	if (now.bytes > was->bytes)
		k->add[RT_F_INACTIVE_BYTES] += now.bytes - was->bytes;
	if (unlikely(below(k)))
		rt_figures_low(c);
}

/* A block was put on a stack. Return: whether more may be free beside used ones than ever. */
static inline bool count_quick_give(struct rt_kind *k, const struct heap_block *b)
{
	k->requested -= b->requested;
	if (b->seg->blocks != 1)
		return below(k);
	k->long_frees++;
	k->long_bytes += b->size;
	return false;
}

/* ---- what is out of the ordinary ------------------------------------------------------------ */

void rt_block_done(void *cache, struct heap_block *b)
{
	const struct rt_lane *lane = b->seg->pool->owner;
	struct rt_segment *s = container_of(b->seg, struct rt_segment, seg);
	struct rt_cache *c = cache;
	struct rt_kind *k = rt_kind_of(b);

	if (b->state == HEAP_WAIT) {
		k->waits--;
		k->wait_bytes -= b->size;
		b->state = HEAP_USED;
	}
	k->requested -= b->requested;
	k->long_frees++;
	k->long_bytes += b->size;
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

	b->tag = 0;
	count_take(c, rt_kind_of(b), b, size);
	rt_oversize(&c->oversize_allocations, b->size, true);
	rt_figures(c);
	rt_trace(c, RT_TRACE_ALLOC, b->addr, size, lane->stream);
}

static void free_locked(struct rt_cache *c, struct heap_block *b)
{
	const struct rt_lane *lane = b->seg->pool->owner;
	struct rt_kind *k = rt_kind_of(b);

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

/* ---- allocating ----------------------------------------------------------------------------- */

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

/* How much has to be left of a block for it to be cut. */
static inline size_t least_rest(uint32_t kind)
{
	return kind == RT_SMALL || hal_load_relaxed(&rt_mem.growable) ? HEAP_UNIT :
		RT_SMALL_MAX + HEAP_UNIT;
}

struct heap_fit rt_mem_fit(uint32_t kind, size_t size)
{
	struct heap_fit f = {
		.size = size,
		.below = SIZE_MAX,
		.rest = least_rest(kind),
		.settle = hal_load_relaxed(&rt_mem.growable),
	};
	size_t max_split = hal_load_relaxed(&rt_mem.max_split);

	if (max_split == SIZE_MAX || kind == RT_SMALL)
		return f;
	if (size < max_split) {
		f.below = max_split;
	} else {
		f.rest = SIZE_MAX;
		f.below = size + hal_load_relaxed(&rt_mem.rounding);
	}
	return f;
}

/* From the bins, if there is one at hand. */
static __attribute__((noinline)) struct heap_block *take_bin(struct rt_cache *c,
							     struct heap_pool *p, size_t s,
							     uint32_t kind, size_t size)
{
	const struct heap_fit fit = {
		.size = s,
		.below = SIZE_MAX,
		.rest = least_rest(kind),
		.settle = hal_load_relaxed(&rt_mem.growable),
	};
	struct rt_kind *k = &c->kind[kind];
	struct heap_block *b;
	struct shape was;

	/* 0: a size that has no multiple */
	if (!s || s > RT_REQUEST_MAX || heap_low(&c->heap))
		return NULL;
	was = shape_of(k);
	b = heap_take_bin(&c->heap, p, &fit);
	if (b)
		count_take(c, k, b, size);
	count_shape(c, k, &was);
	return b;
}

/* The pools of a stream, looked for; NULL: it has none. */
static struct heap_pool *pools_of(struct rt_cache *c, uint64_t stream)
{
	const struct rt_lane *lane = rt_lane_find(&c->lanes, stream, NULL);

	if (!lane || !lane->pool)
		return NULL;
	c->last = stream;
	c->pool = lane->pool;
	return lane->pool;
}

static inline uint32_t kind_of(size_t rounded)
{
	return rounded > RT_SMALL_MAX ? RT_LARGE : RT_SMALL;
}

/* Under the lock: a block of the size that is there; NULL: there is none. */
static struct heap_block *take(struct rt_cache *c, size_t size, uint64_t stream)
{
	struct heap_pool *p = likely(c->last == stream) ? c->pool : pools_of(c, stream);
	size_t s = (size_t)hal_align_up(size, HEAP_UNIT);
	uint32_t kind = kind_of(s);
	struct heap_block *b;

	if (!p)
		return NULL;
	b = heap_take_quick(&p[kind], s);
	if (!b)
		return take_bin(c, &p[kind], s, kind, size);
	count_take(c, rt_kind_of(b), b, size);
	return b;
}

static const char alloc_op[] = "mem_alloc";

/* With the lock, which it gives back. */
static __attribute__((noinline)) int alloc_locked(struct rt_cache *c, size_t size, uint64_t stream,
						  void **ptr)
{
	struct heap_block *b = likely(!c->odd) ? take(c, size, stream) : NULL;

	rt_bias_unlock(&c->lock);
	*ptr = b ? (void *)b->addr : NULL;
	return likely(b || !size) ? 0 : rt_alloc_slow(c, size, stream, ptr, alloc_op);
}

/* What the short way has done may be a peak; with the lock, which it gives back. */
static __attribute__((noinline)) int alloc_top(struct rt_cache *c)
{
	rt_figures_top(c);
	rt_bias_unlock(&c->lock);
	return 0;
}

/* From the beginning. */
static __attribute__((noinline)) int alloc(size_t size, npu_stream stream, void **ptr)
{
	struct rt_thread *t;
	struct rt_cache *c;
	uint64_t h;
	int d, err;

	if (!ptr)
		return hal_fail(-EINVAL, alloc_op, "ptr is NULL");
	*ptr = NULL;
	err = rt_enter(alloc_op);
	if (err)
		return err;
	t = rt_thread(alloc_op);
	if (!t)
		return -ENOMEM;
	err = rt_stream(stream, -1, alloc_op, &h);
	if (err)
		return err;
	d = rt_handle_device(t, h, alloc_op);
	if (d < 0 || !size)
		return d < 0 ? d : 0;
	c = rt_cache_get(d, alloc_op);
	if (!c)
		return -ENOMEM;
	rt_bias_lock(&c->lock);
	return alloc_locked(c, size, h, ptr);
}

/*
 * The short way is all in one function, and whatever leaves it does so for good: so it need not
 * keep anything over a call.
 */
NPU_API int npu_mem_alloc(size_t size, npu_stream stream, void **ptr)
{
	size_t s = (size_t)hal_align_up(size, HEAP_UNIT);
	uint32_t kind = kind_of(s);
	const struct rt_seen *seen;
	const struct rt_thread *t;
	struct heap_block *b;
	struct rt_cache *c;
	uint64_t h;

	if (unlikely(!ptr || !hal_ready()))
		return alloc(size, stream, ptr);
	t = rt_thread_peek();
	if (unlikely(!t))
		return alloc(size, stream, ptr);
	h = likely(stream.h) ? stream.h : t->zero;
	seen = rt_handle_seen(t, h);
	if (unlikely(!seen))
		return alloc(size, stream, ptr);
	c = hal_load_acquire(&caches[seen->device]);
	if (unlikely(!c || !rt_bias_try(&c->lock)))
		return alloc(size, stream, ptr);
	if (unlikely(c->odd || c->last != h))
		return alloc_locked(c, size, h, ptr);
	b = heap_take_quick(&c->pool[kind], s);
	if (unlikely(!b))
		return alloc_locked(c, size, h, ptr);
	*ptr = (void *)b->addr;
	if (unlikely(count_taken(c, rt_kind_of(b), b, size)))
		return alloc_top(c);
	rt_bias_leave(&c->lock);
	return 0;
}

/* ---- freeing -------------------------------------------------------------------------------- */

static const char free_op[] = "mem_free";

/* None of the cache's: perhaps the one's that is in its place. */
static int give_other(void *ptr, const char *op)
{
	return hal_load_acquire(&rt_plug_on) ? rt_plug_free(ptr, op) : rt_not_ours(ptr, op);
}

/* The stack is full, or of another size. With the lock, which it gives back, as the next ones. */
static __attribute__((noinline)) int give_full(struct rt_cache *c, struct heap_block *b)
{
	struct rt_kind *k = rt_kind_of(b);
	const struct shape was = shape_of(k);

	k->requested -= b->requested;
	k->long_frees++;
	k->long_bytes += b->size;
	heap_give_full(&c->heap, b);
	count_shape(c, k, &was);
	rt_bias_unlock(&c->lock);
	return 0;
}

static __attribute__((noinline)) int give_low(struct rt_cache *c)
{
	rt_figures_low(c);
	rt_bias_unlock(&c->lock);
	return 0;
}

static __attribute__((noinline)) int give_odd(struct rt_cache *c, struct heap_block *b, void *ptr)
{
	if (!b) {
		rt_bias_unlock(&c->lock);
		return give_other(ptr, free_op);
	}
	rt_figures_begin(c);
	free_locked(c, b);
	rt_cache_unlock(c);
	return 0;
}

/* What leaves it does so for good: so nothing is kept over a call. */
static inline __attribute__((always_inline)) int give_locked(struct rt_cache *c, void *ptr,
							     bool tried)
{
	struct heap_block *b = rt_block_find(c, ptr);

	if (unlikely(!b || c->odd || b->user))
		return give_odd(c, b, ptr);
	if (unlikely(!heap_give_quick(&c->heap, b)))
		return give_full(c, b);
	if (unlikely(count_quick_give(rt_kind_of(b), b)))
		return give_low(c);
	if (tried)
		rt_bias_leave(&c->lock);
	else
		rt_bias_unlock(&c->lock);
	return 0;
}

static __attribute__((noinline)) int give_shared(struct rt_cache *c, void *ptr)
{
	rt_bias_lock(&c->lock);
	return give_locked(c, ptr, false);
}

static __attribute__((noinline)) int give(struct rt_cache *c, void *ptr)
{
	return likely(rt_bias_try(&c->lock)) ? give_locked(c, ptr, true) : give_shared(c, ptr);
}

/* What is not the first device's. */
static __attribute__((noinline)) int give_far(void *ptr)
{
	int err = rt_enter(free_op);
	struct rt_cache *c;

	if (err || !ptr)
		return err;
	c = rt_cache_of((uintptr_t)ptr);
	return c ? give(c, ptr) : give_other(ptr, free_op);
}

NPU_API int npu_mem_free(void *ptr)
{
	const struct rt_cache_range *first = &rt_cache_ranges[0];

	/* most processes use one device */
	if (unlikely(!hal_ready() || !rt_cache_in_range(first, (uintptr_t)ptr)))
		return give_far(ptr);
	return give(hal_load_relaxed(&first->cache), ptr);
}
