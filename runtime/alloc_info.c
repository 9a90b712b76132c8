// SPDX-License-Identifier: MIT
/*
 * What there is in the cache: statistics, blocks, and the limit.
 */
#include <string.h>

#include "runtime/plug.h"
#include "runtime/pool.h"

/* ---- statistics --------------------------------------------------------------------------- */

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
	s->rescued_pools = c->rescued_pools;
	for (k = 0; k < RT_KINDS; k++) {
		s->waiting_bytes += c->kind[k].wait_bytes;
		s->cached_bytes += c->kind[k].sum.mapped - c->kind[k].sum.used_bytes;
	}
	s->largest_free = rt_cache_largest(c);
	s->limit = rt_cache_limit(c);
}

static void all_stats(struct rt_cache *c, struct npu_mem_stats *s)
{
	rt_figures_begin(c);
	rt_cache_reap(c, UINT32_MAX);
	counters(c, s);
	rt_figures(c);
	rt_family_stat(c, RT_F_ALLOCATION, s->allocation);
	rt_family_stat(c, RT_F_SEGMENT, s->segment);
	rt_family_stat(c, RT_F_ACTIVE, s->active);
	rt_family_stat(c, RT_F_INACTIVE, s->inactive_split);
	rt_family_stat(c, RT_F_ALLOCATED_BYTES, s->allocated_bytes);
	rt_family_stat(c, RT_F_RESERVED_BYTES, s->reserved_bytes);
	rt_family_stat(c, RT_F_ACTIVE_BYTES, s->active_bytes);
	rt_family_stat(c, RT_F_INACTIVE_BYTES, s->inactive_split_bytes);
	rt_family_stat(c, RT_F_REQUESTED_BYTES, s->requested_bytes);
}

/* What every function about a device begins with. */
static int find(int device, const char *op, struct rt_cache **c)
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

/* The same for what another allocator does not do. */
static int begin(int device, const char *op, struct rt_cache **c)
{
	int err = find(device, op, c);

	return err ? err : rt_plug_refuse(op);
}

NPU_API int npu_mem_get_stats(int device, struct npu_mem_stats *stats)
{
	static const char op[] = "mem_get_stats";
	struct npu_mem_stats out = { 0 };
	struct rt_cache *c;
	int err;

	err = find(device, op, &c);
	if (err)
		return err;
	if (!stats || stats->size < sizeof(stats->size))
		return hal_fail(-EINVAL, op, "stats is NULL, or its size is not set");
	if (hal_load_acquire(&rt_plug_on)) {
		err = rt_plug_stats(c->device, &out, op);
		if (err)
			return err;
	} else {
		rt_bias_lock(&c->lock);
		all_stats(c, &out);
		rt_cache_unlock(c);
	}
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

/* What has ended until now belongs to the time before. Takes the lock. */
static void reset_begin(struct rt_cache *c)
{
	rt_bias_lock(&c->lock);
	rt_figures_begin(c);
	rt_cache_reap(c, UINT32_MAX);
	rt_figures(c);
}

NPU_API int npu_mem_reset_peak(int device)
{
	struct rt_cache *c;
	uint32_t k;
	int err;

	err = begin(device, "mem_reset_peak", &c);
	if (err)
		return err;
	reset_begin(c);
	memset(c->all_peak, 0, sizeof(c->all_peak));
	for (k = 0; k < RT_KINDS; k++)
		memset(c->kind[k].peak, 0, sizeof(c->kind[k].peak));
	rt_figures_begin(c);
	rt_figures(c);
	stat_reset(&c->oversize_allocations, true);
	stat_reset(&c->oversize_segments, true);
	rt_cache_unlock(c);
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
	reset_begin(c);
	for (k = 0; k < RT_KINDS; k++) {
		memset(c->kind[k].add, 0, sizeof(c->kind[k].add));
		c->kind[k].allocs = c->kind[k].alloc_bytes = c->kind[k].alloc_requested = 0;
		c->kind[k].long_frees = c->kind[k].long_bytes = 0;
		for (f = 0; f < RT_FAMILIES; f++)
			c->kind[k].base[f] = rt_figure(&c->kind[k], f);
	}
	stat_reset(&c->oversize_allocations, false);
	stat_reset(&c->oversize_segments, false);
	c->retries = c->ooms = c->syncs = c->device_allocs = c->device_frees = 0;
	c->rescued_reclaim = c->rescued_gc = c->rescued_events = 0;
	c->rescued_workspace = c->rescued_release = c->rescued_pools = 0;
	rt_cache_unlock(c);
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
	rt_bias_lock(&c->lock);
	c->fraction = fraction;
	rt_bias_unlock(&c->lock);
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
	rt_bias_lock(&c->lock);
	*fraction = c->fraction;
	rt_bias_unlock(&c->lock);
	return 0;
}

/* ---- blocks --------------------------------------------------------------------------------- */

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
	rt_bias_lock(&c->lock);
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
		out->pool = rt_group_id(lane);
	}
	rt_bias_unlock(&c->lock);
	return b;
}

bool rt_mem_has(const void *ptr)
{
	struct rt_cache *c = rt_cache_of((uintptr_t)ptr);
	const struct heap_segment *seg;
	struct hal_list *n;
	bool has = false;

	if (!c)
		return false;
	rt_bias_lock(&c->lock);
	hal_list_for_each(n, &c->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		has |= (uintptr_t)ptr - seg->base < seg->size ||
		       container_of(seg, struct rt_segment, seg)->ptr == ptr;
	}
	rt_bias_unlock(&c->lock);
	return has;
}

int rt_mem_refuse(const void *ptr, const char *op)
{
	if (!rt_mem_has(ptr))
		return 0;
	return hal_fail(-EINVAL, op, "%p is memory of npu_mem_alloc()", ptr);
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
	err = rt_plug_refuse(op);
	if (err)
		return err;
	if (!rt_mem_block(ptr, &out))
		return hal_fail(-EINVAL, op, "%p does not lie in a block in use", ptr);
	out.size = info->size;
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
}
