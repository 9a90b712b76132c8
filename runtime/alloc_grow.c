// SPDX-License-Identifier: MIT
/*
 * Growable segments: addresses are reserved once, and memory is mapped where blocks need it.
 *
 * A segment grows at the lowest place where, with what is free beside it, there is room for a
 * request, by no more than that takes. Memory is mapped in runs; runs that nothing is in any more
 * can be taken away from anywhere in the segment, and their addresses are used again.
 */
#include <stdlib.h>

#include "hal/point.h"
#include "hal/vmm.h"
#include "runtime/pool.h"

/*
 * Free memory is moved to where it is needed if there is more of it than this part of the most that
 * was in use at once. As that takes time, no more of it is moved than so many times that most, and
 * all of it once more every so many seconds.
 */
#define SLACK 16u
#define MOVES 64u
#define MOVE_SECONDS 4u
/* It is mapped in pieces of this part of the most, within bounds. */
#define PIECES 256u

static struct rt_segment *segment_of(struct heap_segment *seg)
{
	return container_of(seg, struct rt_segment, seg);
}

/* ---- runs --------------------------------------------------------------------------------- */

/* The most that is mapped in one piece, and so can only be given back as a whole. */
static size_t run_max(const struct rt_want *w, uint64_t most, size_t granule)
{
	size_t large = hal_load_relaxed(&rt_mem.large_segment), size = (size_t)(most / PIECES);

	if (size > large)
		size = large;
	if (size < RT_SMALL_SEGMENT || w->kind == RT_SMALL)
		size = RT_SMALL_SEGMENT;
	return (size_t)hal_align_up(size, granule);
}

static void runs_free(struct rt_run *r)
{
	struct rt_run *next;

	for (; r; r = next) {
		next = r->next;
		free(r);
	}
}

static void runs_unmap(const struct rt_run *r)
{
	for (; r; r = r->next)
		hal_vm_unmap((void *)r->addr, r->size);
}

/* Memory for one run, which lives as long as it is mapped. */
static int run_map(struct hal_context *ctx, const struct rt_run *r)
{
	uint64_t memory;
	int err;

	err = hal_vm_create(ctx, r->size, HAL_MEM_HUGE_FIRST, &memory);
	if (err)
		return err;
	err = hal_vm_map((void *)r->addr, r->size, memory, 0, HAL_VM_RW);
	hal_vm_destroy(memory);
	return err;
}

/* Maps memory at all of the addresses, or nowhere. The runs are in order. */
static int map(struct hal_context *ctx, const struct rt_want *w, uintptr_t addr, size_t size,
	       size_t most, struct rt_run **runs)
{
	size_t done = 0;
	struct rt_run **end = runs, *r;
	int err;

	*runs = NULL;
	for (; done < size; done += r->size) {
		r = hal_zalloc(sizeof(*r));
		if (!r) {
			err = hal_fail(-ENOMEM, w->op, "no memory");
			goto undo;
		}
		r->addr = addr + done;
		r->size = size - done < most ? size - done : most;
		err = run_map(ctx, r);
		if (err) {
			free(r);
			goto undo;
		}
		*end = r;
		end = &r->next;
	}
	return 0;
undo:
	runs_unmap(*runs);
	runs_free(*runs);
	*runs = NULL;
	return err;
}

/* Puts runs that lie side by side in their place. */
static void runs_insert(struct rt_segment *s, struct rt_run *runs)
{
	struct rt_run **at = &s->runs, *last;

	while (*at && (*at)->addr < runs->addr)
		at = &(*at)->next;
	for (last = runs; last->next; last = last->next)
		;
	last->next = *at;
	*at = runs;
}

static void run_remove(struct rt_segment *s, const struct rt_run *r)
{
	struct rt_run **at = &s->runs;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

/* Structures of a segment that goes; who has a run out frees that himself. */
void rt_runs_forget(struct rt_segment *s)
{
	struct rt_run *r, *next;

	for (r = s->runs; r; r = next) {
		next = r->next;
		if (!r->away)
			free(r);
	}
}

/* ---- growing -------------------------------------------------------------------------------- */

/*
 * As many addresses as the device has memory, and some for what lies in pieces; of a pool that cuts
 * no blocks, as many as one block.
 */
static size_t reserve_size(const struct hal_device_info *info, const struct rt_want *w)
{
	uint64_t size = info->mem_total + info->mem_total / 8;

	if (w->kind == RT_SMALL)
		size /= 8;
	if (size < w->size || rt_group_whole(w->key.group))
		size = w->size;
	return (size_t)hal_align_up(size, info->mem_granularity);
}

/* With many streams addresses may become rare: fewer will do. -EAGAIN: there are none left. */
static int reserve(struct hal_context *ctx, const struct rt_want *w, struct rt_segment *s)
{
	size_t size = reserve_size(&ctx->dev->info, w), granule = ctx->dev->info.mem_granularity;
	int err;

	for (;;) {
		err = hal_vm_reserve(ctx, size, 0, NULL, &s->ptr);
		if (err != -ENOMEM)
			break;
		if (size / 4 < w->size || size / 4 < granule)
			return -EAGAIN;
		size = (size_t)hal_align_up(size / 4, granule);
	}
	s->seg.base = (uintptr_t)s->ptr;
	s->seg.size = size;
	return err;
}

/* A segment of addresses alone, which is the one of the lane that grows from now on. */
static int segment_new(struct hal_context *ctx, const struct rt_want *w)
{
	struct rt_segment *s = hal_zalloc_aligned(HAL_CACHELINE, sizeof(*s));
	struct rt_cache *c = w->c;
	uint64_t life = w->life;
	int err;

	if (!s)
		return hal_fail(-ENOMEM, w->op, "no memory");
	s->kind = w->kind;
	s->stream = w->lane->stream;
	s->flags = RT_SEGMENT_GROWABLE;
	err = reserve(ctx, w, s);
	if (err) {
		free(s);
		return err;
	}
	rt_cache_range(c, (uintptr_t)ctx->dev->info.va_start, (size_t)ctx->dev->info.va_size);
	err = rt_cache_lock(c, &life, w->op);
	if (err) {
		hal_vm_release(s->ptr);
		free(s);
		return err;
	}
	heap_segment_add(&c->heap, &s->seg, &w->lane->pool[w->kind], true);
	w->lane->grow[w->kind] = s;
	rt_figures(c);
	rt_cache_unlock(c);
	return 0;
}

/**
 * struct claim - addresses that are to get memory
 * @b: the addresses
 * @piece: the most to map at once
 * @move: free memory elsewhere that is to be given back for it, bytes
 */
struct claim {
	struct heap_block *b;
	size_t piece;
	uint64_t move;
};

/* There has never been use for much more memory than what was in use at once. */
static uint64_t excess_locked(struct rt_cache *c, size_t asked, size_t size)
{
	const struct heap_sum *a = &c->kind[RT_SMALL].sum, *b = &c->kind[RT_LARGE].sum;
	uint64_t used = a->used_bytes + b->used_bytes + asked;
	uint64_t held = a->mapped + b->mapped + c->reserving + size, enough;

	if (used < c->all_peak[RT_F_ACTIVE_BYTES])
		used = c->all_peak[RT_F_ACTIVE_BYTES];
	if (used > c->most)
		c->most = used;
	enough = c->most + c->most / SLACK;
	if (held <= enough)
		return 0;
	return held - enough < size ? held - enough : size;
}

/* Less, if much was moved lately. */
static uint64_t to_move_locked(struct rt_cache *c, uint64_t bytes)
{
	uint64_t now = hal_sys_now(), ms = (now - c->moved_at) / 1000000;
	uint64_t forget = c->most / (MOVE_SECONDS * 1000) * ms;

	c->moved -= forget < c->moved ? forget : c->moved;
	c->moved_at = now;
	if (c->moved / MOVES >= c->most)
		return 0;
	c->moved += bytes;
	return bytes;
}

/* -ENOENT: the segment has no room for that. */
static int claim(const struct rt_want *w, size_t granule, struct claim *cl)
{
	struct rt_cache *c = w->c;
	struct rt_segment *s;
	uint64_t life = w->life;
	int err;

	err = rt_cache_lock(c, &life, w->op);
	if (err)
		return err;
	s = w->lane->grow[w->kind];
	cl->b = s ? heap_grow_begin(&c->heap, &s->seg, w->size, granule) : NULL;
	if (cl->b)
		cl->move = excess_locked(c, w->size, cl->b->size);
	/* what is free in a pool stays there */
	cl->move = cl->move && !w->key.group ? to_move_locked(c, cl->move) : 0;
	cl->piece = run_max(w, c->most, granule);
	rt_cache_unlock(c);
	return cl->b ? 0 : -ENOENT;
}

/* Counts what is claimed, within the limit. */
static int book(const struct rt_want *w, struct heap_block *b)
{
	struct rt_cache *c = w->c;
	uint64_t life = w->life;
	int err;

	err = rt_cache_lock(c, &life, w->op);
	if (err)
		return err;
	err = rt_book_locked(c, b->size);
	if (err)
		heap_grow_end(&c->heap, b, false);
	rt_cache_unlock(c);
	return err ? rt_limit_reached(w) : 0;
}

/* The addresses have memory now, or not. */
static int settle(const struct rt_want *w, struct heap_block *b, struct rt_run *runs, int err)
{
	struct rt_segment *s;
	struct rt_cache *c = w->c;

	rt_bias_lock(&c->lock);
	if (c->life != w->life) {
		rt_bias_unlock(&c->lock);
		/* the memory went with the device */
		runs_free(runs);
		return err ? err : rt_cache_dropped(c, w->op);
	}
	s = segment_of(b->seg);
	rt_figures_begin(c);
	rt_unbook_locked(c, b->size);
	if (!err) {
		runs_insert(s, runs);
		c->device_allocs++;
		rt_trace(c, RT_TRACE_SEGMENT_MAP, b->addr, b->size, s->stream);
	}
	heap_grow_end(&c->heap, b, !err);
	rt_figures(c);
	rt_bias_unlock(&c->lock);
	return err;
}

static int grow(struct hal_context *ctx, const struct rt_want *w)
{
	size_t granule = (size_t)ctx->dev->info.mem_granularity;
	struct rt_release what = { .now = true };
	struct claim cl = { .move = 0 };
	struct rt_run *runs;
	int err;

	err = rt_group_whole(w->key.group) ? -ENOENT : claim(w, granule, &cl);
	if (err == -ENOENT) {
		err = segment_new(ctx, w);
		if (!err)
			err = claim(w, granule, &cl);
	}
	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	what.bytes = cl.move;
	what.beside = cl.b;
	if (cl.move)
		rt_release(w->c, &what);
	err = book(w, cl.b);
	if (err)
		return err;
	err = map(ctx, w, cl.b->addr, cl.b->size, cl.piece, &runs);
	return settle(w, cl.b, runs, err);
}

/* Whether the device can; if it cannot, that is said once. */
static bool can_grow(struct hal_context *ctx)
{
	static _Atomic bool said;

	if (hal_device_can(ctx->dev, NPU_CAP_VMM))
		return true;
	if (!atomic_exchange(&said, true))
		hal_warn(HAL_LOG_CORE, "device %d has no virtual memory: mem_growable is off there",
			 ctx->dev->ordinal);
	return false;
}

int rt_grow_get(const struct rt_want *w)
{
	struct hal_context *ctx;
	uint64_t primary;
	int err;

	err = rt_device_primary(w->c->device, w->op, &primary);
	if (err)
		return err;
	ctx = hal_context_get(primary, w->op);
	if (!ctx)
		return hal_error_last()->code;
	err = can_grow(ctx) ? grow(ctx, w) : -EOPNOTSUPP;
	hal_context_put(ctx);
	return err;
}

/* ---- giving back ---------------------------------------------------------------------------- */

/* A run that is free; and nobody counts on that together with what is about to come beside it. */
static bool wanted(const struct rt_run *r, const struct heap_block *b,
		   const struct rt_release *what)
{
	if (!b || r->away || b->state != HEAP_FREE || b->addr > r->addr ||
	    b->addr + b->size < r->addr + r->size)
		return false;
	return !what->beside || (b->prev != what->beside && b->next != what->beside);
}

/* Takes free runs of a segment out of the heap, in front of a list of such. */
static struct rt_run *collect(struct rt_cache *c, struct rt_segment *s, struct rt_run *out,
			      const struct rt_release *what, uint64_t *bytes, bool *more)
{
	struct heap_block *b = s->seg.first;
	struct rt_run *r;

	heap_settle(&c->heap, s->seg.pool);
	for (r = s->runs; r && *bytes < what->bytes && !heap_low(&c->heap); r = r->next) {
		while (b && b->addr + b->size <= r->addr)
			b = b->next;
		if (!wanted(r, b, what))
			continue;
		r->away = heap_shrink_begin(&c->heap, b, r->addr, r->size);
		rt_trace(c, RT_TRACE_SEGMENT_UNMAP, r->addr, r->size, s->stream);
		b = r->away;
		*bytes += r->size;
		c->reserving += r->size;
		r->out = out;
		out = r;
	}
	*more |= r && *bytes < what->bytes;
	return out;
}

struct rt_run *rt_grow_collect(struct rt_cache *c, const struct rt_release *what, bool *more)
{
	const struct rt_lane *lane;
	struct rt_run *out = NULL, *r, *before;
	uint64_t bytes = 0;
	struct rt_segment *s;
	struct hal_list *n;
	struct hal_point p;

	*more = false;
	hal_list_for_each(n, &c->heap.segments) {
		s = segment_of(hal_list_entry(n, struct heap_segment, node));
		lane = s->seg.pool->owner;
		if (!(s->flags & RT_SEGMENT_GROWABLE) || bytes >= what->bytes ||
		    !rt_release_of(what, lane))
			continue;
		if (!hal_stream_last(lane->stream, &p))
			p = (struct hal_point){ .seq = 0 };
		if (what->now && p.seq && !hal_point_passed(&p))
			continue;
		before = out;
		out = collect(c, s, out, what, &bytes, more);
		for (r = out; r != before; r = r->out)
			r->point = p;
	}
	return out;
}

/* A run has no memory any more; or it stays. */
static bool run_gone(struct rt_cache *c, struct rt_run *r, uint64_t life, bool done)
{
	struct heap_block *b = r->away;
	struct rt_segment *s;
	bool ours;

	rt_bias_lock(&c->lock);
	ours = c->life == life;
	if (ours) {
		s = segment_of(b->seg);
		rt_figures_begin(c);
		rt_unbook_locked(c, r->size);
		r->away = NULL;
		if (done) {
			run_remove(s, r);
			c->device_frees++;
		} else {
			rt_trace(c, RT_TRACE_SEGMENT_MAP, r->addr, r->size, s->stream);
		}
		heap_grow_end(&c->heap, b, !done);
		rt_figures(c);
	}
	rt_bias_unlock(&c->lock);
	if (done || !ours)
		free(r);
	return ours && done;
}

uint64_t rt_grow_give_back(struct rt_cache *c, struct rt_run *out, uint64_t life,
			   uint64_t deadline)
{
	struct rt_run *r, *next;
	uint64_t bytes = 0;
	size_t size;
	bool done;

	for (r = out; r; r = next) {
		next = r->out;
		size = r->size;
		done = rt_point_wait(&r->point, deadline);
		if (done && hal_vm_unmap((void *)r->addr, size))
			done = false;
		if (done)
			atomic_fetch_add(&c->given, 1);
		if (run_gone(c, r, life, done))
			bytes += size;
	}
	return bytes;
}

/* Takes out a growable segment that has no memory and does not grow; NULL: there is none. */
static struct rt_segment *next_empty(struct rt_cache *c, uint64_t life)
{
	struct rt_segment *s, *found = NULL;
	struct rt_lane *lane;
	struct hal_list *n;

	rt_bias_lock(&c->lock);
	if (c->life == life)
		hal_list_for_each(n, &c->heap.segments) {
			s = segment_of(hal_list_entry(n, struct heap_segment, node));
			lane = s->seg.pool->owner;
			if (!(s->flags & RT_SEGMENT_GROWABLE) || s->runs || s->seg.first->next ||
			    s->seg.first->held ||
			    (lane->grow[s->kind] == s && lane->group == rt_group_of(lane)))
				continue;
			if (lane->grow[s->kind] == s)
				lane->grow[s->kind] = NULL;
			found = s;
			break;
		}
	if (found) {
		rt_figures_begin(c);
		heap_segment_del(&c->heap, &found->seg);
		rt_figures(c);
	}
	rt_bias_unlock(&c->lock);
	return found;
}

void rt_grow_release(struct rt_cache *c, uint64_t life)
{
	struct rt_segment *s;

	while ((s = next_empty(c, life))) {
		hal_vm_release(s->ptr);
		free(s);
	}
}
