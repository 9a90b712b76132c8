// SPDX-License-Identifier: MIT
/*
 * Segments: memory that the cache gets from the driver, and gives back.
 *
 * What is to be given back is taken out of the heap first, so that nobody is given it meanwhile,
 * and goes to the driver once the streams that used it last have done all that they had been told
 * until then.
 */
#include <sched.h>
#include <stdlib.h>

#include "hal/point.h"
#include "runtime/pool.h"

static struct rt_segment *segment_of(struct heap_segment *seg)
{
	return container_of(seg, struct rt_segment, seg);
}

/* ---- getting ------------------------------------------------------------------------------ */

size_t rt_segment_size(uint32_t kind, size_t size)
{
	size_t large = hal_load_relaxed(&rt_mem.large_segment);

	if (kind == RT_SMALL)
		return RT_SMALL_SEGMENT;
	if (size < large / 2)
		return large;
	return (size_t)hal_align_up(size, 2 * RT_MIB);
}

int rt_book_locked(struct rt_cache *c, size_t bytes)
{
	uint64_t held = c->kind[RT_SMALL].sum.mapped + c->kind[RT_LARGE].sum.mapped + c->reserving;

	if (held + bytes > rt_cache_limit(c) || c->odd & RT_ODD_SLEEP)
		return -ENOMEM;
	c->reserving += bytes;
	return 0;
}

void rt_unbook_locked(struct rt_cache *c, size_t bytes)
{
	/* a cache that was dropped meanwhile has begun anew */
	c->reserving -= bytes < c->reserving ? bytes : c->reserving;
}

int rt_limit_reached(const struct rt_want *w)
{
	return hal_fail(-ENOMEM, w->op, "%zu bytes more would exceed the limit of device %d",
			w->size, w->c->device);
}

static int book(const struct rt_want *w, size_t bytes)
{
	uint64_t life = w->life;
	int err;

	err = rt_cache_lock(w->c, &life, w->op);
	if (err)
		return err;
	err = rt_book_locked(w->c, bytes);
	rt_cache_unlock(w->c);
	return err ? rt_limit_reached(w) : 0;
}

/* The driver's part. */
static int ask_driver(const struct rt_want *w, size_t bytes, struct rt_segment *s)
{
	size_t align = hal_load_relaxed(&rt_mem.align), more = 0;
	struct hal_context *ctx;
	uint64_t primary;
	int err;

	err = rt_device_primary(w->c->device, w->op, &primary);
	if (err)
		return err;
	ctx = hal_context_get(primary, w->op);
	if (!ctx)
		return hal_error_last()->code;
	if (ctx->dev->info.mem_align < align)
		more = align;
	err = hal_mem_alloc(ctx, bytes + more, HAL_MEM_HUGE_FIRST, &s->ptr);
	if (!err) {
		s->seg.base = (uintptr_t)hal_align_up((uintptr_t)s->ptr, align);
		s->seg.size = bytes;
		rt_cache_range(w->c, (uintptr_t)ctx->dev->info.va_start,
			       (size_t)ctx->dev->info.va_size);
	}
	hal_context_put(ctx);
	return err;
}

/* Puts it into the heap; or, if the cache was dropped meanwhile, gives it back. */
static int adopt(const struct rt_want *w, struct rt_segment *s)
{
	bool plain = s->flags & RT_SEGMENT_PLAIN;
	struct rt_cache *c = w->c;
	uint64_t life = w->life;
	struct heap_block *b;
	struct rt_lane *lane;
	int err;

	err = rt_lane_lock(c, &life, &w->key, &lane, w->op);
	if (err) {
		hal_mem_free(s->ptr);
		free(s);
		return err;
	}
	rt_unbook_locked(c, s->seg.size);
	s->kind = w->kind;
	s->stream = lane->stream;
	heap_segment_add(&c->heap, &s->seg, &lane->pool[w->kind], plain);
	c->device_allocs++;
	rt_oversize(&c->oversize_segments, s->seg.size, true);
	rt_trace(c, RT_TRACE_SEGMENT_ALLOC, s->seg.base, s->seg.size, lane->stream);
	if (plain) {
		b = heap_segment_use(&s->seg);
		/* its own stream has to be done, too, before the driver gets it back */
		rt_use_record(&c->lanes, b, lane);
		rt_block_took(c, b, w->asked);
	}
	rt_figures(c);
	rt_cache_unlock(c);
	return 0;
}

static int get(const struct rt_want *w, size_t bytes, uint32_t flags, void **ptr)
{
	struct rt_segment *s = hal_zalloc_aligned(HAL_CACHELINE, sizeof(*s));
	uint64_t life = w->life;
	uintptr_t base;
	int err;

	if (!s)
		return hal_fail(-ENOMEM, w->op, "no memory");
	s->flags = flags;
	err = book(w, bytes);
	if (err) {
		free(s);
		return err;
	}
	err = ask_driver(w, bytes, s);
	if (!err) {
		base = s->seg.base;
		err = adopt(w, s);
		if (!err && ptr)
			*ptr = (void *)base;
		return err;
	}
	free(s);
	if (!rt_cache_lock(w->c, &life, w->op)) {
		rt_unbook_locked(w->c, bytes);
		rt_cache_unlock(w->c);
	}
	return err;
}

int rt_segment_get(const struct rt_want *w)
{
	size_t bytes = rt_group_whole(w->key.group) ? w->size :
						      rt_segment_size(w->kind, w->size);
	int err = -EOPNOTSUPP;

	if (hal_load_relaxed(&rt_mem.growable))
		err = rt_grow_get(w);
	if (err != -EOPNOTSUPP && err != -EAGAIN)
		return err;
	err = get(w, bytes, 0, NULL);
	/* better a segment without room for others than none */
	if (err == -ENOMEM && w->size < bytes)
		err = get(w, w->size, 0, NULL);
	return err;
}

int rt_plain_get(const struct rt_want *w, void **ptr)
{
	return get(w, w->size, RT_SEGMENT_PLAIN, ptr);
}

/* ---- giving back ---------------------------------------------------------------------------- */

bool rt_point_wait(const struct hal_point *p, uint64_t deadline)
{
	return !p->seq || !hal_point_drain(p, rt_time_left(deadline));
}

void rt_wait_none(_Atomic uint32_t *count)
{
	uint64_t deadline = hal_sys_deadline(hal_option_int(rt_options, "op_timeout_ms"));

	while (atomic_load(count) && hal_sys_now() < deadline)
		sched_yield();
}

bool rt_release_of(const struct rt_release *what, const struct rt_lane *lane)
{
	const struct rt_group *g = rt_group_of(lane);

	if (what->group)
		return lane->group == what->group;
	return !g || (what->lent && rt_group_lends(g));
}

static bool wanted(const struct rt_cache *c, const struct rt_segment *s,
		   const struct rt_release *what)
{
	if (s->seg.used || s->flags)
		return false;
	if (c->heap.clock - s->seg.since < what->age || s->seg.size < what->oversize)
		return false;
	return rt_release_of(what, s->seg.pool->owner);
}

/* It stays in the heap, but nobody finds it there; it is not freed when the cache is dropped. */
static void take_out_locked(struct rt_cache *c, struct rt_segment *s)
{
	const struct rt_lane *lane = s->seg.pool->owner;

	heap_settle(&c->heap, s->seg.pool);
	s->away = heap_shrink_begin(&c->heap, s->seg.first, s->seg.base, s->seg.size);
	s->flags |= RT_SEGMENT_OUT;
	rt_trace(c, RT_TRACE_SEGMENT_FREE, s->seg.base, s->seg.size, s->stream);
	if (!hal_stream_last(lane->stream, &s->point))
		s->point.seq = 0;
	c->reserving += s->seg.size;
}

static void put_back_locked(struct rt_cache *c, struct rt_segment *s)
{
	c->reserving -= s->seg.size;
	s->flags &= ~RT_SEGMENT_OUT;
	rt_trace(c, RT_TRACE_SEGMENT_ALLOC, s->seg.base, s->seg.size, s->stream);
	heap_grow_end(&c->heap, s->away, true);
}

/* Its memory is the driver's. */
static void gone_locked(struct rt_cache *c, struct rt_segment *s)
{
	heap_segment_del(&c->heap, &s->seg);
	c->device_frees++;
	rt_oversize(&c->oversize_segments, s->seg.size, false);
}

static struct rt_segment *collect_locked(struct rt_cache *c, const struct rt_release *what)
{
	struct rt_segment *out = NULL, *s;
	uint64_t bytes = 0;
	struct hal_list *n;

	hal_list_for_each(n, &c->heap.segments) {
		if (bytes >= what->bytes)
			break;
		s = segment_of(hal_list_entry(n, struct heap_segment, node));
		if (!wanted(c, s, what))
			continue;
		bytes += s->seg.size;
		take_out_locked(c, s);
		s->next = out;
		out = s;
	}
	return out;
}

/* Frees what its streams are done with; the others go back. Return: bytes that were freed. */
static uint64_t give_back(struct rt_cache *c, struct rt_segment *out, uint64_t life,
			  uint64_t deadline)
{
	struct rt_segment *s, *next;
	uint64_t bytes = 0;
	bool done, ours;

	for (s = out; s; s = next) {
		next = s->next;
		done = rt_point_wait(&s->point, deadline);
		if (done) {
			hal_mem_free(s->ptr);
			atomic_fetch_add(&c->given, 1);
		}
		rt_bias_lock(&c->lock);
		/* dropped: its memory went with the device, its lane as well */
		ours = c->life == life;
		if (ours)
			rt_figures_begin(c);
		if (ours && done) {
			c->reserving -= s->seg.size;
			bytes += s->seg.size;
			gone_locked(c, s);
		} else if (ours) {
			put_back_locked(c, s);
		}
		if (ours)
			rt_figures(c);
		rt_bias_unlock(&c->lock);
		if (done || !ours)
			free(s);
	}
	return bytes;
}

/* What there are block structures for; *more: they were not enough. Return: bytes. */
static uint64_t release(struct rt_cache *c, const struct rt_release *what, uint64_t deadline,
			bool *more)
{
	uint64_t life = 0, bytes;
	struct rt_segment *out;
	struct rt_run *runs;

	if (rt_cache_lock(c, &life, "mem_free"))
		return 0;
	rt_cache_reap(c, UINT32_MAX);
	out = collect_locked(c, what);
	/* of what sleeps nothing is left to give */
	runs = c->odd & RT_ODD_SLEEP ? NULL : rt_grow_collect(c, what, more);
	rt_figures(c);
	rt_cache_unlock(c);
	bytes = give_back(c, out, life, deadline);
	bytes += rt_grow_give_back(c, runs, life, deadline);
	rt_grow_release(c, life);
	return bytes;
}

uint64_t rt_release(struct rt_cache *c, const struct rt_release *what)
{
	uint64_t deadline = what->until, bytes = 0, got;
	struct rt_release left = *what;
	struct rt_record before;
	bool more = false;

	if (!deadline && !what->now)
		deadline = hal_sys_deadline(hal_option_int(rt_options, "op_timeout_ms"));
	rt_record_save(&before);
	atomic_fetch_add(&c->leaving, 1);
	do {
		got = release(c, &left, deadline, &more);
		bytes += got;
		left.bytes -= got < left.bytes ? got : left.bytes;
	} while (more && got && left.bytes);
	atomic_fetch_sub(&c->leaving, 1);
	rt_record_restore(&before);
	return bytes;
}

/* Of a block that was asked for while the cache was off: it goes as it is freed. */
void rt_segment_dead_locked(struct rt_cache *c, struct heap_segment *seg)
{
	struct rt_segment *s = segment_of(seg);

	rt_trace(c, RT_TRACE_SEGMENT_FREE, s->seg.base, s->seg.size, s->stream);
	gone_locked(c, s);
	s->next = c->dead;
	c->dead = s;
}

void rt_segments_bury(struct rt_cache *c, struct rt_segment *dead)
{
	struct rt_record before;
	struct rt_segment *s;

	rt_record_save(&before);
	while ((s = dead)) {
		dead = s->next;
		hal_mem_free(s->ptr);
		atomic_fetch_add(&c->given, 1);
		free(s);
	}
	rt_record_restore(&before);
}

/* Those whose memory went with their context; who has one out frees it himself. */
void rt_segments_forget(struct hal_list *segments)
{
	struct hal_list *n, *tmp;
	struct rt_segment *s;

	hal_list_for_each_safe(n, tmp, segments) {
		s = segment_of(hal_list_entry(n, struct heap_segment, node));
		rt_runs_forget(s);
		if (!(s->flags & RT_SEGMENT_OUT))
			free(s);
	}
}
