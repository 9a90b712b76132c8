/* SPDX-License-Identifier: MIT */
/*
 * The cache of pinned host memory: what its files share.
 *
 * Each device has one, of memory that it pins and that goes with its primary context. Its lock is a
 * spin lock: no driver is called and nothing waited for with it held. Memory knows no stream: a
 * block that streams use waits in the queues of their lanes once it was freed.
 */
#ifndef RUNTIME_PINNED_H
#define RUNTIME_PINNED_H

#include "runtime/alloc.h"

/* What requests of more than RT_SMALL_MAX are rounded to; drivers give whole pages. */
#define RT_PINNED_LARGE_UNIT 4096u

/**
 * struct rt_pinned_segment - a piece of memory from the driver
 * @seg: its addresses
 * @next: of those that are on their way out: another one
 * @unlocked: it could not be locked
 */
struct rt_pinned_segment {
	struct heap_segment seg;
	struct rt_pinned_segment *next;
	bool unlocked;
};

/**
 * struct rt_pinned - the pinned memory of a device; one for each ordinal, never freed
 * @lock: Protects: all below but @device
 * @start: no memory lies below; read without the lock, too
 * @end: none lies here or above; likewise
 * @heap: its memory
 * @pool: free blocks of small and of large requests
 * @lanes: streams that use blocks
 * @sum: what the heap counts
 * @requested: bytes that were asked for, of blocks that the program holds
 * @waits: blocks that wait for streams
 * @wait_bytes: their bytes
 * @unlocked: bytes of segments that could not be locked
 * @allocs: blocks that were allocated since @freed_base
 * @alloc_bytes: their bytes
 * @base: blocks that the program held as sums were reset
 * @base_bytes: their bytes
 * @peak: the most since peaks were reset
 * @peak_bytes: their bytes
 * @segments: as in struct npu_host_stats, as are the next ones
 * @reserved: see there
 * @ooms: see there
 * @alloc_time: see there
 * @free_time: see there
 * @life: grows as all is dropped
 * @device: the ordinal
 */
struct rt_pinned {
	struct hal_spin lock;
	_Atomic uintptr_t start;
	_Atomic uintptr_t end;
	struct heap heap;
	struct heap_pool pool[RT_KINDS];
	struct rt_lanes lanes;
	struct heap_sum sum;
	uint64_t requested;
	uint64_t waits;
	uint64_t wait_bytes;
	uint64_t unlocked;
	uint64_t allocs;
	uint64_t alloc_bytes;
	uint64_t base;
	uint64_t base_bytes;
	uint64_t peak;
	uint64_t peak_bytes;
	struct npu_mem_stat segments;
	struct npu_mem_stat reserved;
	uint64_t ooms;
	struct npu_host_time alloc_time;
	struct npu_host_time free_time;
	uint64_t life;
	int device;
} __attribute__((aligned(2 * HAL_CACHELINE)));

/* ---- alloc_pinned.c ---- */

extern struct rt_pinned *_Atomic rt_pinned_all[RT_DEVICES];
/* One more than the highest ordinal that has one. */
extern _Atomic int rt_pinned_end;
/* Bytes that all have from drivers, or are about to get. */
extern _Atomic uint64_t rt_pinned_taken;

struct rt_pinned *rt_pinned_make(int d, const char *op);
/* Takes what is done off the queues of so many lanes. */
void rt_pinned_reap_slow(struct rt_pinned *p, uint32_t most);

/* That of a device, made at first need; NULL: no memory, the record is filled. */
static inline struct rt_pinned *rt_pinned_get(int d, const char *op)
{
	struct rt_pinned *p = hal_load_acquire(&rt_pinned_all[d]);

	return likely(p) ? p : rt_pinned_make(d, op);
}

/* ---- alloc_pinned_grow.c ---- */

int rt_pinned_alloc_slow(struct rt_pinned *p, size_t size, void **ptr, const char *op);
/* Gives pieces in which nothing is in use back until so much is kept. Not under the lock. */
uint64_t rt_pinned_release(struct rt_pinned *p, uint64_t keep);
/* A statistic of which there is so much less. */
void rt_stat_sub(struct npu_mem_stat *s, uint64_t n);

/* ---- under the lock, but for the first ---- */

/* The i-th that may have the address, from *d on; NULL: no more. */
static inline struct rt_pinned *rt_pinned_next(uintptr_t addr, int *d)
{
	int end = hal_load_acquire(&rt_pinned_end);
	struct rt_pinned *p;

	while (*d < end) {
		p = hal_load_acquire(&rt_pinned_all[(*d)++]);
		if (p && addr >= hal_load_relaxed(&p->start) && addr < hal_load_relaxed(&p->end))
			return p;
	}
	return NULL;
}

static inline uint32_t rt_pinned_kind(size_t size)
{
	return size > RT_SMALL_MAX ? RT_LARGE : RT_SMALL;
}

static inline size_t rt_pinned_round(size_t size)
{
	return (size_t)hal_align_up(size, size > RT_SMALL_MAX ? RT_PINNED_LARGE_UNIT : HEAP_UNIT);
}

static inline uint64_t rt_pinned_held(const struct rt_pinned *p)
{
	return p->sum.used - p->waits;
}

static inline uint64_t rt_pinned_held_bytes(const struct rt_pinned *p)
{
	return p->sum.used_bytes - p->wait_bytes;
}

/* A block is the program's. */
static inline void rt_pinned_took(struct rt_pinned *p, struct heap_block *b, size_t size)
{
	uint64_t n, bytes;

	b->requested = size;
	p->requested += size;
	p->allocs++;
	p->alloc_bytes += b->size;
	n = rt_pinned_held(p);
	bytes = rt_pinned_held_bytes(p);
	if (unlikely(n > p->peak))
		p->peak = n;
	if (unlikely(bytes > p->peak_bytes))
		p->peak_bytes = bytes;
}

static inline void rt_pinned_reap(struct rt_pinned *p, uint32_t most)
{
	if (unlikely(p->waits))
		rt_pinned_reap_slow(p, most);
}

/* Under the lock: the block in use that begins there, or NULL. */
static inline struct heap_block *rt_pinned_find(const struct rt_pinned *p, const void *ptr)
{
	struct heap_block *b;

	if (unlikely(!p->heap.buckets))
		return NULL;
	b = heap_find(&p->heap, (uintptr_t)ptr);
	return likely(b && b->state == HEAP_USED) ? b : NULL;
}

#endif /* RUNTIME_PINNED_H */
