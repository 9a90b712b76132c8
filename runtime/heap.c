// SPDX-License-Identifier: MIT
/*
 * The block heap.
 *
 * Bins are as in a two-level segregated fit: a row for each power of two, HEAP_STEPS linear steps
 * in it, a bitmap for each, so that the next bin with a block is found by two scans of a word.
 * Within the first bin the smallest block that is large enough is looked for, not for long.
 */
#include <stdlib.h>
#include <string.h>

#include "hal/sys.h"
#include "runtime/heap.h"

/* Blocks that are looked at in one bin. */
#define LOOK 16
/* Block structures in one stock. */
#define STOCK 64u

/**
 * struct heap_stock - block structures, and a chunk of the table
 * @next: another one
 * @chunk: the chunk, NULL: it was put to use
 * @nr: which one it is
 * @block: the structures
 */
struct heap_stock {
	struct heap_stock *next;
	struct heap_block **chunk;
	uint32_t nr;
	struct heap_block block[STOCK] __attribute__((aligned(HAL_CACHELINE)));
};

/* ---- stocks ------------------------------------------------------------------------------ */

/* What is looked at as long as there is no chunk. */
static struct heap_block *none[1];

void heap_init(struct heap *h)
{
	memset(h, 0, sizeof(*h));
	h->chunk[0] = none;
	hal_list_init(&h->segments);
}

void heap_fini(struct heap *h)
{
	struct heap_stock *s, *next;
	uint32_t k;

	for (k = 0; k < h->chunks; k++)
		free(h->chunk[k]);
	for (s = h->stocks; s; s = next) {
		next = s->next;
		free(s->chunk);
		free(s);
	}
	heap_init(h);
}

static uint32_t chunk_size(uint32_t k)
{
	return k ? HEAP_CHUNK_0 << (k - 1) : HEAP_CHUNK_0;
}

struct heap_stock *heap_stock_new(uint32_t chunks)
{
	struct heap_stock *s = hal_zalloc_aligned(HAL_CACHELINE, sizeof(*s));

	if (!s || chunks == HEAP_CHUNKS)
		return s;
	s->nr = chunks;
	s->chunk = hal_zalloc(chunk_size(chunks) * sizeof(struct heap_block *));
	if (s->chunk)
		return s;
	free(s);
	return NULL;
}

static void spare_put(struct heap *h, struct heap_block *b)
{
	b->link = h->spare;
	h->spare = b;
	h->spares++;
}

void heap_stock_add(struct heap *h, struct heap_stock *s)
{
	uint32_t i;

	s->next = h->stocks;
	h->stocks = s;
	for (i = 0; i < STOCK; i++)
		spare_put(h, &s->block[i]);
	if (!s->chunk || s->nr != h->chunks)
		return;
	h->chunk[h->chunks++] = s->chunk;
	s->chunk = NULL;
	if (h->buckets)
		return;
	h->buckets = HEAP_CHUNK_0;
	h->mask = HEAP_CHUNK_0 - 1;
	h->wide = 2 * HEAP_CHUNK_0 - 1;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* One bucket more: what belongs there is in the one that it is split off. */
static void table_grow(struct heap *h)
{
	uint32_t i = h->buckets, k;
	struct heap_block **from, **to, *b;

	k = 32 - (uint32_t)__builtin_clz(i / HEAP_CHUNK_0);
	if (k >= h->chunks)
		return;
	from = heap_bucket(h, i);
	h->buckets++;
	if (h->buckets > h->wide) {
		h->mask = h->wide;
		h->wide = 2 * h->wide + 1;
	}
	to = heap_bucket(h, i);
	while ((b = *from)) {
		if (heap_bucket(h, heap_hash(b->addr)) != to) {
			from = &b->hash_next;
			continue;
		}
		*from = b->hash_next;
		b->hash_next = *to;
		*to = b;
	}
}

static void table_add(struct heap *h, struct heap_block *b)
{
	struct heap_block **at;

	if (unlikely(++h->count > h->buckets))
		table_grow(h);
	at = heap_bucket(h, heap_hash(b->addr));
	b->hash_next = *at;
	*at = b;
}

static void table_del(struct heap *h, struct heap_block *b)
{
	struct heap_block **at = heap_bucket(h, heap_hash(b->addr));

	while (*at != b)
		at = &(*at)->hash_next;
	*at = b->hash_next;
	h->count--;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* A block of a segment behind another one, NULL: the first. */
static struct heap_block *block_new(struct heap *h, struct heap_segment *seg,
				    struct heap_block *prev, uintptr_t addr, size_t size)
{
	struct heap_block *b = h->spare;

	h->spare = b->link;
	h->spares--;
	*b = (struct heap_block){ .addr = addr, .size = size, .seg = seg, .prev = prev };
	b->next = prev ? prev->next : seg->first;
	if (b->next)
		b->next->prev = b;
	if (prev)
		prev->next = b;
	else
		seg->first = b;
	table_add(h, b);
	return b;
}

static void block_del(struct heap *h, struct heap_block *b)
{
	table_del(h, b);
	if (b->next)
		b->next->prev = b->prev;
	if (b->prev)
		b->prev->next = b->next;
	else
		b->seg->first = b->next;
	spare_put(h, b);
}

/* Whether there is one block, and it is free, counts or does not count any more. */
static inline void count_idle(struct heap_segment *seg, int n)
{
	if (seg->used || seg->blocks != 1)
		return;
	seg->sum->idle_blocks += (uint64_t)(int64_t)n;
	seg->sum->idle_bytes += (uint64_t)(int64_t)n * seg->mapped;
}

/* A segment has n blocks with memory more, or less. */
static inline void count_blocks(struct heap_segment *seg, int n)
{
	count_idle(seg, -1);
	seg->blocks += (uint32_t)n;
	seg->sum->blocks += (uint64_t)(int64_t)n;
	count_idle(seg, 1);
}

/* It has memory in so many bytes more, or less. */
static inline void count_bytes(struct heap_segment *seg, ptrdiff_t bytes)
{
	count_idle(seg, -1);
	seg->mapped += (size_t)bytes;
	seg->sum->mapped += (uint64_t)(int64_t)bytes;
	count_idle(seg, 1);
}

/* ---- bins ------------------------------------------------------------------------------------ */

static void bin_of(size_t size, uint32_t *row, uint32_t *step)
{
	uint64_t units = size >> HEAP_UNIT_SHIFT;
	uint32_t r;

	if (units < HEAP_STEPS) {
		*row = 0;
		*step = (uint32_t)units;
		return;
	}
	r = 64 - (uint32_t)__builtin_clzll(units) - HEAP_STEP_SHIFT;
	if (unlikely(r >= HEAP_ROWS)) {
		*row = HEAP_ROWS - 1;
		*step = HEAP_STEPS - 1;
		return;
	}
	*row = r;
	*step = (uint32_t)(units >> (r - 1)) - HEAP_STEPS;
}

static void bin_put(struct heap_pool *p, struct heap_block *b)
{
	uint32_t row, step;

	bin_of(b->size, &row, &step);
	b->state = HEAP_FREE;
	b->back = NULL;
	b->link = p->bin[row][step];
	if (b->link)
		b->link->back = b;
	p->bin[row][step] = b;
	p->bins[row] |= 1u << step;
	p->rows |= 1u << row;
}

static void bin_del(struct heap_pool *p, struct heap_block *b)
{
	uint32_t row, step;

	if (b->link)
		b->link->back = b->back;
	if (b->back) {
		b->back->link = b->link;
		return;
	}
	bin_of(b->size, &row, &step);
	p->bin[row][step] = b->link;
	if (b->link)
		return;
	p->bins[row] &= ~(1u << step);
	if (!p->bins[row])
		p->rows &= ~(1u << row);
}

/* The smallest of a bin that is large enough, of equal ones the lowest. */
static struct heap_block *bin_best(struct heap_block *b, size_t size, int look)
{
	struct heap_block *best = NULL;

	for (; b && look--; b = b->link) {
		if (b->size < size)
			continue;
		if (!best || b->size < best->size ||
		    (b->size == best->size && b->addr < best->addr))
			best = b;
	}
	return best;
}

/* The first bin with a block from one on. */
static struct heap_block *bin_next(const struct heap_pool *p, uint32_t row, uint32_t step)
{
	uint32_t map = step < HEAP_STEPS ? p->bins[row] & (UINT32_MAX << step) : 0;

	if (!map) {
		if (row + 1 == HEAP_ROWS)
			return NULL;
		map = p->rows & (UINT32_MAX << (row + 1));
		if (!map)
			return NULL;
		row = (uint32_t)__builtin_ctz(map);
		map = p->bins[row];
	}
	return p->bin[row][__builtin_ctz(map)];
}

static struct heap_block *find_fit(const struct heap_pool *p, size_t size)
{
	struct heap_block *best, *b;
	uint32_t row, step;

	bin_of(size, &row, &step);
	best = bin_best(p->bin[row][step], size, LOOK);
	if (best)
		return best;
	b = bin_next(p, row, step + 1);
	if (b)
		return bin_best(b, size, LOOK);
	/* those behind the first ones of its own bin */
	return bin_best(p->bin[row][step], size, INT_MAX);
}

void heap_pool_init(struct heap_pool *p, struct heap_sum *sum, void *owner)
{
	memset(p, 0, sizeof(*p));
	p->sum = sum;
	p->owner = owner;
}

size_t heap_largest(const struct heap_pool *p)
{
	const struct heap_block *b;
	size_t largest = 0;
	uint32_t row;

	if (!p->rows)
		return 0;
	row = 31 - (uint32_t)__builtin_clz(p->rows);
	for (b = p->bin[row][31 - __builtin_clz(p->bins[row])]; b; b = b->link)
		if (b->size > largest)
			largest = b->size;
	return largest;
}

/* ---- taking and giving --------------------------------------------------------------------- */

/* What is left of a block behind so many bytes is a free one of its own. */
static void cut(struct heap *h, struct heap_block *b, size_t size)
{
	struct heap_block *rest = block_new(h, b->seg, b, b->addr + size, b->size - size);

	b->size = size;
	count_blocks(b->seg, 1);
	bin_put(b->seg->pool, rest);
}

struct heap_block *heap_take_bin(struct heap *h, struct heap_pool *p, const struct heap_fit *fit)
{
	struct heap_block *b;

	if (fit->settle)
		heap_settle(h, p);
	b = find_fit(p, fit->size);
	h->clock++;
	if (!b && heap_settle(h, p))
		b = find_fit(p, fit->size);
	if (!b || b->size >= fit->below)
		return NULL;
	bin_del(p, b);
	if (b->size - fit->size >= fit->rest)
		cut(h, b, fit->size);
	b->fit = (uint32_t)(fit->size >> HEAP_UNIT_SHIFT);
	heap_use(b);
	return b;
}

/* A block that is in no bin and no stack, and has memory, becomes free. */
static struct heap_block *release(struct heap *h, struct heap_block *b)
{
	struct heap_pool *p = b->seg->pool;
	struct heap_block *n = b->next;

	if (n && n->state == HEAP_FREE) {
		bin_del(p, n);
		b->size += n->size;
		block_del(h, n);
		count_blocks(b->seg, -1);
	}
	n = b->prev;
	if (n && n->state == HEAP_FREE) {
		bin_del(p, n);
		n->size += b->size;
		block_del(h, b);
		count_blocks(n->seg, -1);
		b = n;
	}
	bin_put(p, b);
	return b;
}

void heap_give_bin(struct heap *h, struct heap_block *b)
{
	heap_unuse(h, b);
	release(h, b);
}

static void quick_settle(struct heap *h, struct heap_quick *q)
{
	struct heap_block *b;

	while ((b = q->top)) {
		q->top = b->link;
		release(h, b);
	}
	q->count = 0;
}

void heap_give_full(struct heap *h, struct heap_block *b)
{
	struct heap_pool *p = b->seg->pool;
	struct heap_quick *q = heap_quick_of(p, b->fit);

	if (q->fit == b->fit) {
		heap_give_bin(h, b);
		return;
	}
	quick_settle(h, q);
	q->fit = b->fit;
	heap_give_quick(h, b);
}

bool heap_settle(struct heap *h, struct heap_pool *p)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < HEAP_QUICK; i++) {
		if (!p->quick[i].count)
			continue;
		quick_settle(h, &p->quick[i]);
		any = true;
	}
	return any;
}

/* ---- segments ------------------------------------------------------------------------------- */

void heap_segment_add(struct heap *h, struct heap_segment *seg, struct heap_pool *p, bool away)
{
	struct heap_block *b;

	seg->pool = p;
	seg->sum = p->sum;
	seg->first = NULL;
	seg->mapped = 0;
	seg->blocks = 0;
	seg->used = 0;
	seg->since = h->clock;
	hal_list_add_tail(&h->segments, &seg->node);
	p->segments++;
	p->sum->segments++;
	b = block_new(h, seg, NULL, seg->base, seg->size);
	b->state = HEAP_AWAY;
	if (away)
		return;
	count_blocks(seg, 1);
	count_bytes(seg, (ptrdiff_t)seg->size);
	bin_put(p, b);
}

struct heap_block *heap_segment_use(struct heap_segment *seg)
{
	struct heap_block *b = seg->first;

	count_blocks(seg, 1);
	count_bytes(seg, (ptrdiff_t)seg->size);
	b->fit = (uint32_t)(seg->size >> HEAP_UNIT_SHIFT);
	heap_use(b);
	return b;
}

/* Takes what is free in a segment out of the bins and stacks of its pool. */
static void segment_leave(struct heap *h, struct heap_segment *seg)
{
	struct heap_pool *p = seg->pool;
	struct heap_block *b;

	heap_settle(h, p);
	for (b = seg->first; b; b = b->next)
		if (b->state == HEAP_FREE)
			bin_del(p, b);
	p->segments--;
	p->sum->segments--;
}

void heap_segment_del(struct heap *h, struct heap_segment *seg)
{
	segment_leave(h, seg);
	count_blocks(seg, -(int)seg->blocks);
	count_bytes(seg, -(ptrdiff_t)seg->mapped);
	while (seg->first)
		block_del(h, seg->first);
	hal_list_del(&seg->node);
}

/* Moves the figures of a segment from or to its pool. */
static void segment_count(struct heap_segment *seg, bool add)
{
	uint64_t sign = add ? 1 : (uint64_t)-1;
	struct heap_sum *sum = seg->sum;
	const struct heap_block *b;

	sum->blocks += sign * seg->blocks;
	sum->mapped += sign * seg->mapped;
	count_idle(seg, add ? 1 : -1);
	for (b = seg->first; b; b = b->next)
		if (b->state == HEAP_USED || b->state == HEAP_WAIT) {
			sum->used += sign;
			sum->used_bytes += sign * b->size;
		}
}

void heap_segment_move(struct heap *h, struct heap_segment *seg, struct heap_pool *p)
{
	struct heap_block *b;

	segment_leave(h, seg);
	segment_count(seg, false);
	seg->pool = p;
	seg->sum = p->sum;
	segment_count(seg, true);
	p->segments++;
	p->sum->segments++;
	for (b = seg->first; b; b = b->next)
		if (b->state == HEAP_FREE)
			bin_put(p, b);
}

struct heap_block *heap_block_at(const struct heap_segment *seg, uintptr_t addr)
{
	struct heap_block *b = seg->first;

	while (b && addr - b->addr >= b->size)
		b = b->next;
	return b;
}

/* ---- addresses without memory --------------------------------------------------------------- */

/* Cuts a block that has no memory in two; the upper one is returned. */
static struct heap_block *cut_away(struct heap *h, struct heap_block *b, size_t size)
{
	struct heap_block *rest = block_new(h, b->seg, b, b->addr + size, b->size - size);

	rest->state = HEAP_AWAY;
	b->size = size;
	return rest;
}

struct heap_block *heap_grow_begin(struct heap *h, struct heap_segment *seg, size_t size,
				   size_t granule)
{
	struct heap_block *b;
	size_t need;

	for (b = seg->first; b; b = b->next) {
		if (b->state != HEAP_AWAY || b->held)
			continue;
		need = size;
		if (b->prev && b->prev->state == HEAP_FREE)
			need -= b->prev->size < need ? b->prev->size : need;
		need = (size_t)hal_align_up(need ? need : 1, granule);
		if (b->size >= need)
			break;
		/* all of it, if what is free above makes up for the rest */
		if (b->next && b->next->state == HEAP_FREE && b->size + b->next->size >= need) {
			need = b->size;
			break;
		}
	}
	if (!b)
		return NULL;
	if (b->size > need)
		cut_away(h, b, need);
	b->held = true;
	return b;
}

/* Merges a block without memory with its neighbours that have none. */
static void join_away(struct heap *h, struct heap_block *b)
{
	struct heap_block *n = b->next;

	if (n && n->state == HEAP_AWAY && !n->held) {
		b->size += n->size;
		block_del(h, n);
	}
	n = b->prev;
	if (n && n->state == HEAP_AWAY && !n->held) {
		n->size += b->size;
		block_del(h, b);
	}
}

void heap_grow_end(struct heap *h, struct heap_block *b, bool done)
{
	b->held = false;
	if (!done) {
		join_away(h, b);
		return;
	}
	count_blocks(b->seg, 1);
	count_bytes(b->seg, (ptrdiff_t)b->size);
	release(h, b);
}

struct heap_block *heap_shrink_begin(struct heap *h, struct heap_block *b, uintptr_t addr,
				     size_t size)
{
	struct heap_pool *p = b->seg->pool;
	struct heap_block *mid = b;

	bin_del(p, b);
	if (b->addr + b->size > addr + size)
		cut(h, b, addr + size - b->addr);
	if (b->addr < addr) {
		mid = block_new(h, b->seg, b, addr, size);
		b->size = addr - b->addr;
		bin_put(p, b);
	} else {
		count_blocks(b->seg, -1);
	}
	mid->state = HEAP_AWAY;
	mid->held = true;
	count_bytes(b->seg, -(ptrdiff_t)size);
	return mid;
}
