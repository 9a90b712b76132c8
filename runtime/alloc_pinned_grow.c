// SPDX-License-Identifier: MIT
/*
 * Pinned host memory: what the system gives and gets back, and requests for which there is no block
 * at hand.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hal/point.h"
#include "runtime/pinned.h"

/**
 * struct request - an allocation under way
 * @p: from where
 * @life: rt_pinned.life as it began
 * @asked: bytes
 * @size: the same, rounded
 * @kind: RT_SMALL or RT_LARGE
 * @rescue: number of the next rescue
 * @again: times that the driver was asked again because it had got something back
 * @given: what it had got back before it was asked last
 * @op: for the error record
 */
struct request {
	struct rt_pinned *p;
	uint64_t life;
	size_t asked;
	size_t size;
	uint32_t kind;
	uint32_t rescue;
	uint32_t again;
	uint64_t given;
	const char *op;
};

/* Threads that have taken out memory, and give it back to the driver. */
static _Atomic uint32_t leaving;
/* Grows with all that the driver has got back. */
static _Atomic uint64_t given;

/* A request that is not luckier than others as often as this is refused. */
#define AGAIN_MAX 16u

/* A statistic of which there is so much less. */
void rt_stat_sub(struct npu_mem_stat *s, uint64_t n)
{
	s->current -= n;
	s->freed += n;
}

static void stat_add(struct npu_mem_stat *s, uint64_t n)
{
	s->allocated += n;
	s->current += n;
	if (s->current > s->peak)
		s->peak = s->current;
}

/* ---- what the system gives and gets back ---------------------------------------------------- */

static void time_add(struct npu_host_time *t, uint64_t ns)
{
	if (!t->count++ || ns < t->min)
		t->min = ns;
	if (ns > t->max)
		t->max = ns;
	t->total += ns;
}

/* Under the lock: takes out pieces in which nothing is in use, until so much is kept. */
static struct rt_pinned_segment *take_out_locked(struct rt_pinned *p, uint64_t keep)
{
	struct hal_list *n, *tmp;
	struct rt_pinned_segment *s, *out = NULL;

	hal_list_for_each_safe(n, tmp, &p->heap.segments) {
		if (p->sum.mapped - p->sum.used_bytes <= keep)
			break;
		s = container_of(hal_list_entry(n, struct heap_segment, node),
				 struct rt_pinned_segment, seg);
		if (s->seg.used)
			continue;
		heap_segment_del(&p->heap, &s->seg);
		rt_stat_sub(&p->segments, 1);
		rt_stat_sub(&p->reserved, s->seg.size);
		if (s->unlocked)
			p->unlocked -= s->seg.size;
		s->next = out;
		out = s;
	}
	return out;
}

/* Gives them to the driver, not under the lock. Return: bytes. */
static uint64_t give_back(struct rt_pinned *p, struct rt_pinned_segment *out)
{
	struct rt_record before;
	uint64_t bytes = 0, t;
	struct rt_pinned_segment *s;

	if (!out)
		return 0;
	rt_record_save(&before);
	while ((s = out)) {
		out = s->next;
		t = hal_sys_now();
		hal_mem_host_free((void *)s->seg.base);
		t = hal_sys_now() - t;
		bytes += s->seg.size;
		hal_add_relaxed(&rt_pinned_taken, -s->seg.size);
		atomic_fetch_add(&given, 1);
		free(s);
		hal_spin_lock(&p->lock);
		time_add(&p->free_time, t);
		hal_spin_unlock(&p->lock);
	}
	rt_record_restore(&before);
	return bytes;
}

uint64_t rt_pinned_release(struct rt_pinned *p, uint64_t keep)
{
	struct rt_pinned_segment *out;
	uint64_t bytes;

	atomic_fetch_add(&leaving, 1);
	hal_spin_lock(&p->lock);
	rt_pinned_reap(p, UINT32_MAX);
	out = take_out_locked(p, keep);
	hal_spin_unlock(&p->lock);
	bytes = give_back(p, out);
	atomic_fetch_sub(&leaving, 1);
	return bytes;
}

/* Counts bytes that are on their way; false: the limit does not allow them. */
static bool book(size_t bytes)
{
	uint64_t limit = hal_load_relaxed(&rt_pinned_opts.limit);
	uint64_t was = hal_load_relaxed(&rt_pinned_taken);

	do {
		if (was > limit || bytes > limit - was)
			return false;
	} while (!atomic_compare_exchange_weak(&rt_pinned_taken, &was, was + bytes));
	return true;
}

/* Takes the lock, the heap not low. -ENOMEM, or -ESTALE: all was dropped; *life 0 is filled in. */
static int lock(struct rt_pinned *p, uint64_t *life, const char *op)
{
	struct heap_stock *s;
	uint32_t chunks;

	hal_spin_lock(&p->lock);
	if (!*life)
		*life = p->life;
	while (heap_low(&p->heap)) {
		chunks = p->heap.chunks;
		hal_spin_unlock(&p->lock);
		s = heap_stock_new(chunks);
		if (!s)
			return hal_fail(-ENOMEM, op, "no memory for blocks");
		hal_spin_lock(&p->lock);
		heap_stock_add(&p->heap, s);
	}
	if (p->life == *life)
		return 0;
	hal_spin_unlock(&p->lock);
	return hal_fail(-ESTALE, op, "device %d was closed meanwhile", p->device);
}

/* The driver's part; *s has the memory. */
static int ask_driver(const struct request *r, size_t bytes, struct rt_pinned_segment *s,
		      uint64_t *ns)
{
	struct hal_context *ctx;
	struct hal_pointer info;
	uint64_t primary, t;
	void *ptr;
	int err;

	err = rt_device_primary(r->p->device, r->op, &primary);
	if (err)
		return err;
	ctx = hal_context_get(primary, r->op);
	if (!ctx)
		return hal_error_last()->code;
	t = hal_sys_now();
	err = hal_mem_host_alloc(ctx, bytes, hal_load_relaxed(&rt_pinned_opts.lock), &ptr);
	*ns = hal_sys_now() - t;
	if (!err) {
		hal_pointer_info(ptr, &info);
		s->seg.base = (uintptr_t)ptr;
		s->seg.size = bytes;
		s->unlocked = info.unlocked;
	}
	hal_context_put(ctx);
	return err;
}

/* Puts it into the heap; or, if all was dropped meanwhile, gives it back. */
static int adopt(struct request *r, struct rt_pinned_segment *s, uint64_t ns)
{
	struct rt_pinned *p = r->p;
	int err;

	err = lock(p, &r->life, r->op);
	if (err) {
		hal_mem_host_free((void *)s->seg.base);
		return err;
	}
	heap_segment_add(&p->heap, &s->seg, &p->pool[r->kind], false);
	if (s->seg.base < hal_load_relaxed(&p->start))
		hal_store_relaxed(&p->start, s->seg.base);
	if (s->seg.base + s->seg.size > hal_load_relaxed(&p->end))
		hal_store_relaxed(&p->end, s->seg.base + s->seg.size);
	if (s->unlocked)
		p->unlocked += s->seg.size;
	stat_add(&p->segments, 1);
	stat_add(&p->reserved, s->seg.size);
	time_add(&p->alloc_time, ns);
	hal_spin_unlock(&p->lock);
	return 0;
}

static int grow(struct request *r, size_t bytes)
{
	struct rt_pinned_segment *s = hal_zalloc(sizeof(*s));
	uint64_t ns = 0;
	int err;

	if (!s)
		return hal_fail(-ENOMEM, r->op, "no memory");
	err = book(bytes) ? 0 : hal_fail(-ENOMEM, r->op, "the option pinned_limit_mb");
	if (!err) {
		err = ask_driver(r, bytes, s, &ns);
		if (!err)
			err = adopt(r, s, ns);
		if (err)
			hal_add_relaxed(&rt_pinned_taken, -bytes);
	}
	if (err)
		free(s);
	return err;
}

/* Better a piece without room for others than none. */
static int grow_any(struct request *r)
{
	int err;

	if (r->kind == RT_LARGE)
		return grow(r, r->size);
	err = grow(r, RT_SMALL_SEGMENT);
	return err == -ENOMEM ? grow(r, (size_t)hal_align_up(r->size, RT_PINNED_LARGE_UNIT)) : err;
}

/* ---- when there is none --------------------------------------------------------------------- */

static bool release_all(void)
{
	int d, end = hal_load_acquire(&rt_pinned_end);
	struct rt_pinned *p;
	bool any;

	/* before: what others give back is had as well */
	any = atomic_load(&leaving);
	for (d = 0; d < end; d++) {
		p = hal_load_acquire(&rt_pinned_all[d]);
		if (p)
			any |= rt_pinned_release(p, 0) != 0;
	}
	rt_wait_none(&leaving);
	return any;
}

/* Waits for the streams that use freed blocks. Return: whether some are free. */
static bool wait_for(struct rt_pinned *p, uint64_t deadline)
{
	struct hal_point point[32];
	uint64_t was, life;
	uint32_t i, n;
	bool any;

	hal_spin_lock(&p->lock);
	life = p->life;
	n = rt_lanes_points(&p->lanes, point, ARRAY_SIZE(point));
	hal_spin_unlock(&p->lock);
	for (i = 0; i < n; i++)
		if (hal_point_drain(&point[i], rt_time_left(deadline)))
			point[i].seq = 0;
	hal_spin_lock(&p->lock);
	was = p->waits;
	for (i = 0; i < n && p->life == life; i++)
		rt_lanes_drained(&p->lanes, &point[i]);
	rt_pinned_reap(p, UINT32_MAX);
	any = p->waits < was;
	hal_spin_unlock(&p->lock);
	return any;
}

static bool wait_all(void)
{
	uint64_t deadline = hal_sys_deadline(hal_option_int(rt_options, "op_timeout_ms"));
	int d, end = hal_load_acquire(&rt_pinned_end);
	struct rt_pinned *p;
	bool any = false;

	for (d = 0; d < end; d++) {
		p = hal_load_acquire(&rt_pinned_all[d]);
		if (p)
			any |= wait_for(p, deadline);
	}
	return any;
}

/* Whether something was had, so that it is worth beginning again. */
static bool rescued(struct request *r)
{
	static bool (*const rescues[])(void) = { release_all, wait_all, release_all };

	while (r->rescue < ARRAY_SIZE(rescues))
		if (rescues[r->rescue++]())
			return true;
	/* what others were given of that, and have left meanwhile */
	if (r->again++ == AGAIN_MAX)
		return false;
	release_all();
	return atomic_load(&given) != r->given;
}

static int no_memory(struct request *r)
{
	uint64_t in_use, cached, waiting, limit = hal_load_relaxed(&rt_pinned_opts.limit);
	struct rt_pinned *p = r->p;
	char why[192], most[40] = "";

	snprintf(why, sizeof(why), "%s", hal_error_last()->text);
	hal_spin_lock(&p->lock);
	p->ooms++;
	in_use = rt_pinned_held_bytes(p);
	waiting = p->wait_bytes;
	cached = p->sum.mapped - p->sum.used_bytes;
	hal_spin_unlock(&p->lock);
	if (limit != UINT64_MAX)
		snprintf(most, sizeof(most), ", limit %llu", (unsigned long long)limit);
	return hal_fail(-ENOMEM, r->op, "no %zu bytes of pinned memory%s, in use %llu, "
			"cached %llu, waiting %llu: %s", r->asked, most, (unsigned long long)in_use,
			(unsigned long long)cached, (unsigned long long)waiting, why);
}

/* ---- allocating ----------------------------------------------------------------------------- */

/* Return: 0, -ENOENT: there is none, or another error. */
static int search(struct request *r, void **ptr)
{
	const struct heap_fit fit = {
		.size = r->size,
		.below = SIZE_MAX,
		.rest = r->kind == RT_LARGE ? RT_PINNED_LARGE_UNIT : HEAP_UNIT,
	};
	struct rt_pinned *p = r->p;
	struct heap_block *b;
	int err;

	err = lock(p, &r->life, r->op);
	if (err)
		return err;
	rt_pinned_reap(p, UINT32_MAX);
	b = heap_take(&p->heap, &p->pool[r->kind], &fit);
	if (b) {
		rt_pinned_took(p, b, r->asked);
		*ptr = (void *)b->addr;
	}
	hal_spin_unlock(&p->lock);
	return b ? 0 : -ENOENT;
}

int rt_pinned_alloc_slow(struct rt_pinned *p, size_t size, void **ptr, const char *op)
{
	struct request r = { .p = p, .asked = size, .size = rt_pinned_round(size), .op = op };
	struct rt_record before;
	int err;

	if (size > RT_REQUEST_MAX) {
		hal_fail(-ENOMEM, op, "too large");
		return no_memory(&r);
	}
	rt_record_save(&before);
	r.kind = rt_pinned_kind(r.size);
	while ((err = search(&r, ptr)) == -ENOENT) {
		r.given = atomic_load(&given);
		err = grow_any(&r);
		if (err == -ENOMEM && !rescued(&r))
			return no_memory(&r);
		if (err && err != -ENOMEM)
			return err;
	}
	if (!err)
		rt_record_restore(&before);
	return err;
}
