// SPDX-License-Identifier: MIT
/*
 * What there is in the cache: figures, blocks, and the limit.
 *
 * What is there now is counted by the heap. Sums of what was added are kept here, so that what was
 * taken away is the difference; peaks are looked at whenever something grows.
 */
#include <string.h>

#include "runtime/alloc.h"

/* ---- figures ------------------------------------------------------------------------------ */

uint64_t rt_figure(const struct rt_kind *k, enum rt_family f)
{
	switch (f) {
	case RT_F_ALLOCATION:
		return k->sum.used - k->waits;
	case RT_F_SEGMENT:
		return k->sum.segments;
	case RT_F_ACTIVE:
		return k->sum.used;
	case RT_F_INACTIVE:
		return rt_inactive(k);
	case RT_F_ALLOCATED_BYTES:
		return k->sum.used_bytes - k->wait_bytes;
	case RT_F_RESERVED_BYTES:
		return k->sum.mapped;
	case RT_F_ACTIVE_BYTES:
		return k->sum.used_bytes;
	case RT_F_INACTIVE_BYTES:
		return rt_inactive_bytes(k);
	default:
		return k->requested;
	}
}

static void peak(struct rt_cache *c, enum rt_family f)
{
	uint64_t all = 0, now;
	uint32_t k;

	for (k = 0; k < RT_KINDS; k++) {
		now = rt_figure(&c->kind[k], f);
		all += now;
		if (now > c->kind[k].peak[f])
			c->kind[k].peak[f] = now;
	}
	if (all > c->all_peak[f])
		c->all_peak[f] = all;
}

void rt_figures_peak(struct rt_cache *c)
{
	peak(c, RT_F_ALLOCATION);
	peak(c, RT_F_ACTIVE);
	peak(c, RT_F_ALLOCATED_BYTES);
	peak(c, RT_F_ACTIVE_BYTES);
	peak(c, RT_F_REQUESTED_BYTES);
}

void rt_figures_idle_peak(struct rt_cache *c)
{
	peak(c, RT_F_INACTIVE);
	peak(c, RT_F_INACTIVE_BYTES);
}

static void add(struct rt_kind *k, enum rt_family f, uint64_t *last)
{
	uint64_t now = rt_figure(k, f);

	if (now > *last)
		k->add[f] += now - *last;
	*last = now;
}

void rt_figures(struct rt_cache *c)
{
	uint32_t k;

	for (k = 0; k < RT_KINDS; k++) {
		rt_figures_idle(c, &c->kind[k]);
		add(&c->kind[k], RT_F_SEGMENT, &c->kind[k].last[2]);
		add(&c->kind[k], RT_F_RESERVED_BYTES, &c->kind[k].last[3]);
	}
	peak(c, RT_F_SEGMENT);
	peak(c, RT_F_RESERVED_BYTES);
}

/* What was added: as many blocks were active as were allocated. */
static uint64_t added(const struct rt_kind *k, enum rt_family f)
{
	if (f == RT_F_ACTIVE)
		f = RT_F_ALLOCATION;
	else if (f == RT_F_ACTIVE_BYTES)
		f = RT_F_ALLOCATED_BYTES;
	return k->add[f];
}

static struct npu_mem_stat stat_of(const struct rt_kind *k, enum rt_family f)
{
	struct npu_mem_stat s = { .current = rt_figure(k, f), .peak = k->peak[f] };

	s.allocated = added(k, f);
	s.freed = k->base[f] + s.allocated - s.current;
	return s;
}

static void family(const struct rt_cache *c, enum rt_family f, struct npu_mem_stat *out)
{
	uint32_t k;

	out[NPU_MEM_ALL] = (struct npu_mem_stat){ .peak = c->all_peak[f] };
	for (k = 0; k < RT_KINDS; k++) {
		out[NPU_MEM_SMALL + k] = stat_of(&c->kind[k], f);
		out[NPU_MEM_ALL].current += out[NPU_MEM_SMALL + k].current;
		out[NPU_MEM_ALL].allocated += out[NPU_MEM_SMALL + k].allocated;
		out[NPU_MEM_ALL].freed += out[NPU_MEM_SMALL + k].freed;
	}
}

/* The largest free block of all pools, after those in stacks were merged. */
uint64_t rt_cache_largest(struct rt_cache *c)
{
	const struct heap_segment *seg;
	uint64_t largest = 0, size;
	struct hal_list *n;

	hal_list_for_each(n, &c->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		heap_settle(&c->heap, seg->pool);
		size = heap_largest(seg->pool);
		if (size > largest)
			largest = size;
	}
	return largest;
}

uint64_t rt_cache_limit(const struct rt_cache *c)
{
	if (c->fraction >= 1)
		return UINT64_MAX;
	return (uint64_t)((double)rt.info[c->device].mem_total * c->fraction);
}

static void counters(struct rt_cache *c, struct npu_mem_stats *s)
{
	size_t max_split = hal_load_relaxed(&rt_mem.max_split);
	uint32_t k;

	s->oversize_allocations = c->oversize_allocations;
	s->oversize_segments = c->oversize_segments;
	s->alloc_retries = c->retries;
	s->ooms = c->ooms;
	s->sync_all_streams = c->syncs;
	s->device_allocs = c->device_allocs;
	s->device_frees = c->device_frees;
	s->max_split_size = max_split == SIZE_MAX ? -1 : (int64_t)max_split;
	s->rescued_reclaim = c->rescued_reclaim;
	s->rescued_gc = c->rescued_gc;
	s->rescued_events = c->rescued_events;
	s->rescued_workspace = c->rescued_workspace;
	s->rescued_release = c->rescued_release;
	for (k = 0; k < RT_KINDS; k++) {
		s->waiting_bytes += c->kind[k].wait_bytes;
		s->cached_bytes += c->kind[k].sum.mapped - c->kind[k].sum.used_bytes;
	}
	s->largest_free = rt_cache_largest(c);
	s->limit = rt_cache_limit(c);
}

static void all_stats(struct rt_cache *c, struct npu_mem_stats *s)
{
	rt_cache_reap(c, UINT32_MAX);
	counters(c, s);
	rt_figures(c);
	family(c, RT_F_ALLOCATION, s->allocation);
	family(c, RT_F_SEGMENT, s->segment);
	family(c, RT_F_ACTIVE, s->active);
	family(c, RT_F_INACTIVE, s->inactive_split);
	family(c, RT_F_ALLOCATED_BYTES, s->allocated_bytes);
	family(c, RT_F_RESERVED_BYTES, s->reserved_bytes);
	family(c, RT_F_ACTIVE_BYTES, s->active_bytes);
	family(c, RT_F_INACTIVE_BYTES, s->inactive_split_bytes);
	family(c, RT_F_REQUESTED_BYTES, s->requested_bytes);
}

/* What every function about a device begins with. */
static int begin(int device, const char *op, struct rt_cache **c)
{
	int d, err;

	err = rt_enter(op);
	if (!err)
		err = rt_device_arg(device, op, &d);
	if (err)
		return err;
	*c = rt_cache_get(d, op);
	return *c ? 0 : -ENOMEM;
}

NPU_API int npu_mem_get_stats(int device, struct npu_mem_stats *stats)
{
	static const char op[] = "mem_get_stats";
	struct npu_mem_stats out = { 0 };
	struct rt_cache *c;
	int err;

	err = begin(device, op, &c);
	if (err)
		return err;
	if (!stats || stats->size < sizeof(stats->size))
		return hal_fail(-EINVAL, op, "stats is NULL, or its size is not set");
	hal_spin_lock(&c->lock);
	all_stats(c, &out);
	rt_cache_unlock(c);
	out.size = stats->size;
	rt_copy_out(stats, &out, stats->size, sizeof(out));
	return 0;
}

static void stat_reset(struct npu_mem_stat *s, bool peaks)
{
	if (peaks)
		s->peak = s->current;
	else
		s->allocated = s->freed = 0;
}

NPU_API int npu_mem_reset_peak(int device)
{
	struct rt_cache *c;
	uint32_t f, k;
	int err;

	err = begin(device, "mem_reset_peak", &c);
	if (err)
		return err;
	hal_spin_lock(&c->lock);
	rt_figures(c);
	memset(c->all_peak, 0, sizeof(c->all_peak));
	for (k = 0; k < RT_KINDS; k++)
		memset(c->kind[k].peak, 0, sizeof(c->kind[k].peak));
	for (f = 0; f < RT_FAMILIES; f++)
		peak(c, f);
	stat_reset(&c->oversize_allocations, true);
	stat_reset(&c->oversize_segments, true);
	hal_spin_unlock(&c->lock);
	return 0;
}

NPU_API int npu_mem_reset_accumulated(int device)
{
	struct rt_cache *c;
	uint32_t f, k;
	int err;

	err = begin(device, "mem_reset_accumulated", &c);
	if (err)
		return err;
	hal_spin_lock(&c->lock);
	rt_figures(c);
	for (k = 0; k < RT_KINDS; k++) {
		memset(c->kind[k].add, 0, sizeof(c->kind[k].add));
		for (f = 0; f < RT_FAMILIES; f++)
			c->kind[k].base[f] = rt_figure(&c->kind[k], f);
	}
	stat_reset(&c->oversize_allocations, false);
	stat_reset(&c->oversize_segments, false);
	c->retries = c->ooms = c->syncs = c->device_allocs = c->device_frees = 0;
	c->rescued_reclaim = c->rescued_gc = c->rescued_events = 0;
	c->rescued_workspace = c->rescued_release = 0;
	hal_spin_unlock(&c->lock);
	return 0;
}

/* ---- the limit ------------------------------------------------------------------------------ */

NPU_API int npu_mem_set_fraction(int device, double fraction)
{
	struct rt_cache *c;
	int err;

	if (!(fraction >= 0 && fraction <= 1))
		return hal_fail(-EINVAL, "mem_set_fraction", "%g is not between 0 and 1", fraction);
	err = begin(device, "mem_set_fraction", &c);
	if (err)
		return err;
	hal_spin_lock(&c->lock);
	c->fraction = fraction;
	hal_spin_unlock(&c->lock);
	return 0;
}

NPU_API int npu_mem_get_fraction(int device, double *fraction)
{
	struct rt_cache *c;
	int err;

	if (!fraction)
		return hal_fail(-EINVAL, "mem_get_fraction", "fraction is NULL");
	*fraction = 0;
	err = begin(device, "mem_get_fraction", &c);
	if (err)
		return err;
	hal_spin_lock(&c->lock);
	*fraction = c->fraction;
	hal_spin_unlock(&c->lock);
	return 0;
}

/* ---- blocks ----------------------------------------------------------------------------------- */

/* Under the lock: the block in use that an address lies in, or NULL. */
static const struct heap_block *block_at(const struct rt_cache *c, uintptr_t addr)
{
	const struct heap_segment *seg;
	const struct heap_block *b;
	struct hal_list *n;

	b = rt_block_find(c, (void *)addr);
	if (b)
		return b;
	hal_list_for_each(n, &c->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		if (addr - seg->base >= seg->size)
			continue;
		b = heap_block_at(seg, addr);
		return b && b->state == HEAP_USED ? b : NULL;
	}
	return NULL;
}

bool rt_mem_block(const void *ptr, struct npu_mem_block *out)
{
	struct rt_cache *c = rt_cache_of((uintptr_t)ptr);
	const struct heap_block *b;
	const struct rt_lane *lane;

	if (!c)
		return false;
	hal_spin_lock(&c->lock);
	b = block_at(c, (uintptr_t)ptr);
	if (b) {
		lane = b->seg->pool->owner;
		out->base = (void *)b->addr;
		out->bytes = b->size;
		out->requested = b->requested;
		out->segment = (void *)b->seg->base;
		out->segment_bytes = b->seg->size;
		out->stream.h = lane->stream;
		out->device = c->device;
	}
	hal_spin_unlock(&c->lock);
	return b;
}

NPU_API int npu_mem_get_block(const void *ptr, struct npu_mem_block *info)
{
	static const char op[] = "mem_get_block";
	struct npu_mem_block out = { 0 };
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, op, "info is NULL, or its size is not set");
	if (!rt_mem_block(ptr, &out))
		return hal_fail(-EINVAL, op, "%p does not lie in a block in use", ptr);
	out.size = info->size;
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
}
