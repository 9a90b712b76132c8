// SPDX-License-Identifier: MIT
/*
 * The figures of the cache.
 *
 * What is there now is counted by the heap. Sums of what was added are kept here, so that what was
 * taken away is the difference. Peaks are looked at when something has grown beyond what is known
 * to be no peak: the short way compares a few words (rt_kind.top, low), and comes here if it has
 * to.
 */
#include "runtime/alloc.h"

static inline uint64_t figure(const struct rt_kind *k, enum rt_family f)
{
	switch (f) {
	case RT_F_ALLOCATION:
		return k->sum.used - k->waits;
	case RT_F_SEGMENT:
		return k->sum.segments;
	case RT_F_ACTIVE:
		return k->sum.used;
	case RT_F_INACTIVE:
		return k->sum.blocks - k->sum.used - k->sum.idle_blocks;
	case RT_F_ALLOCATED_BYTES:
		return k->sum.used_bytes - k->wait_bytes;
	case RT_F_RESERVED_BYTES:
		return k->sum.mapped;
	case RT_F_ACTIVE_BYTES:
		return k->sum.used_bytes;
	case RT_F_INACTIVE_BYTES:
		return k->sum.mapped - k->sum.used_bytes - k->sum.idle_bytes;
	default:
		return k->requested;
	}
}

uint64_t rt_figure(const struct rt_kind *k, enum rt_family f)
{
	return figure(k, f);
}

static inline uint64_t min2(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Notes new peaks of a figure; room: by how much each kind may grow before there is another one. */
static inline void peak(struct rt_cache *c, enum rt_family f, uint64_t room[RT_KINDS])
{
	uint64_t s = figure(&c->kind[RT_SMALL], f), l = figure(&c->kind[RT_LARGE], f);
	uint64_t *sp = &c->kind[RT_SMALL].peak[f], *lp = &c->kind[RT_LARGE].peak[f], both;

	*sp = s > *sp ? s : *sp;
	*lp = l > *lp ? l : *lp;
	c->all_peak[f] = s + l > c->all_peak[f] ? s + l : c->all_peak[f];
	both = (c->all_peak[f] - s - l) / 2;
	room[RT_SMALL] = min2(*sp - s, both);
	room[RT_LARGE] = min2(*lp - l, both);
}

static inline uint64_t kind_room(const struct rt_kind *k, enum rt_family f)
{
	return k->peak[f] - figure(k, f);
}

static inline uint64_t all_room(const struct rt_cache *c, enum rt_family f)
{
	return c->all_peak[f] - figure(&c->kind[RT_SMALL], f) -
	       figure(&c->kind[RT_LARGE], f);
}

/*
 * Each of these two looks at its own marks only: so marks are, after a while, where the figure
 * turns, and are not passed again.
 */
void rt_figures_top(struct rt_cache *c)
{
	uint64_t bytes[RT_KINDS], active[RT_KINDS], requested[RT_KINDS], unused[RT_KINDS];
	struct rt_kind *k;
	uint32_t i;

	peak(c, RT_F_ALLOCATION, unused);
	peak(c, RT_F_ACTIVE, unused);
	peak(c, RT_F_ALLOCATED_BYTES, bytes);
	peak(c, RT_F_ACTIVE_BYTES, active);
	peak(c, RT_F_REQUESTED_BYTES, requested);
	/* blocks change their kind with each swap, so those are looked at together as well */
	c->top = c->kind[RT_SMALL].sum.used + c->kind[RT_LARGE].sum.used +
		 min2(all_room(c, RT_F_ALLOCATION), all_room(c, RT_F_ACTIVE));
	for (i = 0; i < RT_KINDS; i++) {
		k = &c->kind[i];
		k->top[0] = k->sum.used + min2(kind_room(k, RT_F_ALLOCATION),
					       kind_room(k, RT_F_ACTIVE));
		k->top[1] = k->sum.used_bytes + min2(bytes[i], active[i]);
		k->top[2] = k->requested + requested[i];
	}
}

void rt_figures_low(struct rt_cache *c)
{
	uint64_t blocks[RT_KINDS], bytes[RT_KINDS];
	struct rt_kind *k;
	uint32_t i;

	peak(c, RT_F_INACTIVE, blocks);
	peak(c, RT_F_INACTIVE_BYTES, bytes);
	for (i = 0; i < RT_KINDS; i++) {
		k = &c->kind[i];
		k->low[0] = (int64_t)(k->sum.used + k->sum.idle_blocks - blocks[i]);
		k->low[1] = (int64_t)(k->sum.used_bytes + k->sum.idle_bytes - bytes[i]);
	}
}

/* Those of which the short way adds to no sum, or to one that is found by what became free. */
static const enum rt_family long_way[] = {
	RT_F_SEGMENT, RT_F_INACTIVE, RT_F_RESERVED_BYTES, RT_F_INACTIVE_BYTES,
};

void rt_figures_begin(struct rt_cache *c)
{
	uint32_t i, k;

	for (k = 0; k < RT_KINDS; k++)
		for (i = 0; i < ARRAY_SIZE(long_way); i++)
			c->kind[k].last[long_way[i]] = figure(&c->kind[k], long_way[i]);
}

void rt_figures(struct rt_cache *c)
{
	uint64_t now, room[RT_KINDS];
	uint32_t i, k;

	for (k = 0; k < RT_KINDS; k++)
		for (i = 0; i < ARRAY_SIZE(long_way); i++) {
			now = figure(&c->kind[k], long_way[i]);
			if (now > c->kind[k].last[long_way[i]])
				c->kind[k].add[long_way[i]] += now - c->kind[k].last[long_way[i]];
			c->kind[k].last[long_way[i]] = now;
		}
	peak(c, RT_F_SEGMENT, room);
	peak(c, RT_F_RESERVED_BYTES, room);
	rt_figures_top(c);
	rt_figures_low(c);
}

/* What was added since sums were reset. As many blocks were active as were allocated. */
static uint64_t added(const struct rt_kind *k, enum rt_family f)
{
	switch (f) {
	case RT_F_ALLOCATION:
	case RT_F_ACTIVE:
		return k->allocs;
	case RT_F_ALLOCATED_BYTES:
	case RT_F_ACTIVE_BYTES:
		return k->alloc_bytes;
	case RT_F_REQUESTED_BYTES:
		return k->alloc_requested;
	case RT_F_INACTIVE:
		return k->add[f] + k->base[RT_F_ACTIVE] + k->allocs - k->sum.used - k->long_frees;
	case RT_F_INACTIVE_BYTES:
		return k->add[f] + k->base[RT_F_ACTIVE_BYTES] + k->alloc_bytes -
		       k->sum.used_bytes - k->long_bytes;
	default:
		return k->add[f];
	}
}

static struct npu_mem_stat stat_of(const struct rt_kind *k, enum rt_family f)
{
	struct npu_mem_stat s = { .current = figure(k, f), .peak = k->peak[f] };

	s.allocated = added(k, f);
	s.freed = k->base[f] + s.allocated - s.current;
	return s;
}

void rt_family_stat(const struct rt_cache *c, enum rt_family f, struct npu_mem_stat *out)
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
