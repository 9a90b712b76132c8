// SPDX-License-Identifier: MIT
/*
 * Pinned host memory: what there is.
 */
#include "runtime/pinned.h"

/* ---- what there is -------------------------------------------------------------------------- */

/* Under the lock: the block in use that an address lies in, or NULL. */
static const struct heap_block *block_at(const struct rt_pinned *p, uintptr_t addr)
{
	const struct heap_segment *seg;
	const struct heap_block *b;
	struct hal_list *n;

	hal_list_for_each(n, &p->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		if (addr - seg->base >= seg->size)
			continue;
		b = heap_block_at(seg, addr);
		return b && b->state == HEAP_USED ? b : NULL;
	}
	return NULL;
}

/* Whether it lies in a piece of ours. */
static bool has(const struct rt_pinned *p, uintptr_t addr)
{
	const struct heap_segment *seg;
	struct hal_list *n;

	hal_list_for_each(n, &p->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		if (addr - seg->base < seg->size)
			return true;
	}
	return false;
}

enum rt_found rt_pinned_block(const void *ptr, void **base, size_t *bytes)
{
	enum rt_found found = RT_FOUND_NONE;
	const struct heap_block *b;
	struct rt_pinned *p;
	int d = 0;

	while (!found && (p = rt_pinned_next((uintptr_t)ptr, &d))) {
		hal_spin_lock(&p->lock);
		b = block_at(p, (uintptr_t)ptr);
		if (b) {
			*base = (void *)b->addr;
			*bytes = b->size;
			found = RT_FOUND_USED;
		} else if (has(p, (uintptr_t)ptr)) {
			found = RT_FOUND_FREE;
		}
		hal_spin_unlock(&p->lock);
	}
	return found;
}

/* What every function about a device begins with. */
static int enter(int device, const char *op, struct rt_pinned **p)
{
	int d, err;

	err = rt_enter(op);
	if (!err)
		err = rt_device_arg(device, op, &d);
	if (err)
		return err;
	*p = rt_pinned_get(d, op);
	return *p ? 0 : -ENOMEM;
}

NPU_API int npu_host_empty_cache(int device)
{
	struct rt_pinned *p;
	int err;

	err = enter(device, "host_empty_cache", &p);
	if (!err)
		rt_pinned_release(p, 0);
	return err;
}

static void figures(struct rt_pinned *p, struct npu_host_stats *s)
{
	rt_pinned_reap(p, UINT32_MAX);
	s->allocation = (struct npu_mem_stat){ rt_pinned_held(p), p->peak, p->allocs, 0 };
	s->allocation.freed = p->base + p->allocs - rt_pinned_held(p);
	s->allocated_bytes = (struct npu_mem_stat){ .peak = p->peak_bytes };
	s->allocated_bytes.current = rt_pinned_held_bytes(p);
	s->allocated_bytes.allocated = p->alloc_bytes;
	s->allocated_bytes.freed = p->base_bytes + p->alloc_bytes - rt_pinned_held_bytes(p);
	s->segment = p->segments;
	s->reserved_bytes = p->reserved;
	s->requested_bytes = p->requested;
	s->cached_bytes = p->sum.mapped - p->sum.used_bytes;
	s->waiting_bytes = p->wait_bytes;
	s->unlocked_bytes = p->unlocked;
	s->limit = hal_load_relaxed(&rt_pinned_opts.limit);
	s->ooms = p->ooms;
	s->alloc_time = p->alloc_time;
	s->free_time = p->free_time;
}

NPU_API int npu_host_get_stats(int device, struct npu_host_stats *stats)
{
	static const char op[] = "host_get_stats";
	struct npu_host_stats out = { 0 };
	struct rt_pinned *p;
	int err;

	err = enter(device, op, &p);
	if (err)
		return err;
	if (!stats || stats->size < sizeof(stats->size))
		return hal_fail(-EINVAL, op, "stats is NULL, or its size is not set");
	hal_spin_lock(&p->lock);
	figures(p, &out);
	hal_spin_unlock(&p->lock);
	out.size = stats->size;
	rt_copy_out(stats, &out, stats->size, sizeof(out));
	return 0;
}

NPU_API int npu_host_reset_peak(int device)
{
	struct rt_pinned *p;
	int err;

	err = enter(device, "host_reset_peak", &p);
	if (err)
		return err;
	hal_spin_lock(&p->lock);
	rt_pinned_reap(p, UINT32_MAX);
	p->peak = rt_pinned_held(p);
	p->peak_bytes = rt_pinned_held_bytes(p);
	p->segments.peak = p->segments.current;
	p->reserved.peak = p->reserved.current;
	hal_spin_unlock(&p->lock);
	return 0;
}

NPU_API int npu_host_reset_accumulated(int device)
{
	struct rt_pinned *p;
	int err;

	err = enter(device, "host_reset_accumulated", &p);
	if (err)
		return err;
	hal_spin_lock(&p->lock);
	rt_pinned_reap(p, UINT32_MAX);
	p->allocs = p->alloc_bytes = p->ooms = 0;
	p->base = rt_pinned_held(p);
	p->base_bytes = rt_pinned_held_bytes(p);
	p->segments.allocated = p->segments.freed = 0;
	p->reserved.allocated = p->reserved.freed = 0;
	p->alloc_time = p->free_time = (struct npu_host_time){ 0 };
	hal_spin_unlock(&p->lock);
	return 0;
}
