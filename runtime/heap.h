/* SPDX-License-Identifier: MIT */
/*
 * The block heap: addresses cut into blocks, and nothing else.
 *
 * A segment is a range of addresses that somebody got from a driver; it is cut into blocks, which
 * lie in it side by side. Those that are free are found through the pool of their segment: by size
 * in bins, and, of the sizes that were freed last, in stacks (quick) from which a block comes back
 * as it was, without being merged and split. heap_settle() merges what is in the stacks.
 *
 * The heap has no lock: its user has one, a spin lock will do, for no function but heap_stock_new()
 * and heap_fini() makes a system call or takes longer than a few dozen instructions, where its
 * comment does not say so. It knows nothing of devices and streams, and never touches the
 * addresses. Block structures and the table that leads from an address to its block come from
 * stocks, which the user gets without its lock when heap_low() says so.
 */
#ifndef RUNTIME_HEAP_H
#define RUNTIME_HEAP_H

#include "hal/base.h"

/* All sizes and addresses are multiples of this. */
#define HEAP_UNIT 512u
#define HEAP_UNIT_SHIFT 9
/* Bins: HEAP_STEPS of each power of two, up to HEAP_SIZE_MAX. To 16 KiB each size has its own. */
#define HEAP_STEPS 32u
#define HEAP_STEP_SHIFT 5
#define HEAP_ROWS 27u
/* Most that can be asked of heap_take(). */
#define HEAP_SIZE_MAX (1ull << 40)
/* Stacks of sizes that were freed last, and how deep they are. */
#define HEAP_QUICK 32u
#define HEAP_QUICK_DEPTH 4u

/* Block structures that one operation needs at most. */
#define HEAP_RESERVE 4u

enum heap_state {
	HEAP_USED,	/* given out by heap_take() */
	HEAP_WAIT,	/* given back by its user, who does not let it be used again yet */
	HEAP_FREE,	/* in a bin */
	HEAP_QUICK_FREE,	/* in a stack */
	HEAP_AWAY,	/* addresses without memory, or that are leaving or coming */
};

/**
 * struct heap_block - addresses that belong together
 * @addr: the first
 * @size: how many
 * @hash_next: another one in the same bucket
 * @seg: its segment
 * @requested: bytes that its user was asked for; for the user of a HEAP_USED or HEAP_WAIT one
 * @link: the next one of its bin or stack
 * @user: of a block that is used, in its place, the user's; NULL in one that was just taken
 * @state: enum heap_state
 * @held: HEAP_AWAY, and not to be found by heap_grow_begin()
 * @fit: in units: the size that was asked of heap_take(), of which it is at least
 * @prev: the one below it in the segment, NULL: it is the first
 * @next: the one above it in the segment, NULL: it is the last
 * @back: the one before in its bin
 * @tag: the user's, as long as the block is used
 * @note: the user's, likewise
 * @waits: the user's, likewise
 */
struct heap_block {
	uintptr_t addr;
	size_t size;
	struct heap_block *hash_next;
	struct heap_segment *seg;
	size_t requested;
	union {
		struct heap_block *link;
		void *user;
	};
	uint16_t state;
	bool held;
	uint32_t fit;
	struct heap_block *prev;
	struct heap_block *next;
	struct heap_block *back;
	uint64_t tag;
	void *note;
	uint32_t waits;
} __attribute__((aligned(HAL_CACHELINE)));

/**
 * struct heap_segment - a range of addresses
 * @node: in heap.segments
 * @base: the first
 * @size: how many
 * @mapped: how many of them are not HEAP_AWAY
 * @pool: where its free blocks are found
 * @sum: that of its pool
 * @first: its first block
 * @blocks: blocks that are not HEAP_AWAY
 * @used: blocks that are HEAP_USED or HEAP_WAIT
 * @since: heap.clock when @used became 0
 * @note: the user's, as what it was made of
 */
struct heap_segment {
	struct hal_list node;
	uintptr_t base;
	size_t size;
	size_t mapped;
	struct heap_pool *pool;
	struct heap_sum *sum;
	struct heap_block *first;
	uint32_t blocks;
	uint32_t used;
	uint64_t since;
	void *note;
};

/**
 * struct heap_sum - figures of pools that are counted together
 * @segments: segments
 * @mapped: bytes that have memory
 * @blocks: blocks that have memory
 * @used: of these, HEAP_USED or HEAP_WAIT
 * @used_bytes: their bytes
 * @idle_blocks: free blocks that have their segment for themselves
 * @idle_bytes: their bytes
 */
struct heap_sum {
	uint64_t segments;
	uint64_t mapped;
	uint64_t blocks;
	uint64_t used;
	uint64_t used_bytes;
	uint64_t idle_blocks;
	uint64_t idle_bytes;
};

/**
 * struct heap_pool - free blocks that may take each other's place
 * @sum: where they are counted
 * @owner: the user's
 * @segments: segments of this pool
 * @quick: stacks by size: those of @fit units, the last one on top
 * @rows: a bit for each row with a block
 * @bins: a bit for each bin with a block
 * @bin: blocks of about one size
 */
struct heap_pool {
	struct heap_sum *sum;
	void *owner;
	uint32_t segments;
	struct heap_quick {
		uint32_t fit;
		uint32_t count;
		struct heap_block *top;
	} quick[HEAP_QUICK];
	uint32_t rows;
	uint32_t bins[HEAP_ROWS];
	struct heap_block *bin[HEAP_ROWS][HEAP_STEPS];
};

/* Chunks of the table: chunk k > 0 has as many buckets as all before it. */
#define HEAP_CHUNKS 20u
#define HEAP_CHUNK_0 256u

/**
 * struct heap - blocks, and how they are found by address
 * @segments: all segments, in the order in which they came
 * @clock: counts calls of heap_take() that could not be served from a stack
 * @spare: block structures without a block
 * @spares: how many
 * @chunk: buckets of the table; linear hashing: it grows by one bucket at a time
 * @chunks: how many chunks there are
 * @buckets: buckets in use
 * @mask: the power of two that is at most @buckets, less one
 * @wide: twice that power, less one
 * @count: blocks in the table
 * @stocks: what is to be freed in the end
 */
struct heap {
	struct hal_list segments;
	uint64_t clock;
	struct heap_block *spare;
	uint32_t spares;
	uint32_t chunks;
	uint32_t buckets;
	uint32_t mask;
	uint32_t wide;
	uint32_t count;
	struct heap_block **chunk[HEAP_CHUNKS];
	struct heap_stock *stocks;
};

/**
 * struct heap_fit - what heap_take() looks for
 * @size: bytes, a multiple of HEAP_UNIT, not 0
 * @below: only blocks that are smaller than this
 * @rest: what is left of a block is cut off if it is at least that; a multiple of HEAP_UNIT
 * @settle: what is in the stacks is merged first; else if nothing else is found
 */
struct heap_fit {
	size_t size;
	size_t below;
	size_t rest;
	bool settle;
};

/* Empty; the first stock is to be added before anything is put in. */
void heap_init(struct heap *h);
/* Frees all stocks; what was in the heap is forgotten. Not under a spin lock. */
void heap_fini(struct heap *h);

/* Whether a stock has to be added before the next operation. */
static inline bool heap_low(const struct heap *h)
{
	return unlikely(h->spares < HEAP_RESERVE ||
			(h->count + HEAP_RESERVE > h->buckets && h->chunks < HEAP_CHUNKS &&
			 h->buckets >= HEAP_CHUNK_0 << (h->chunks - 1)));
}

/* A stock for a heap whose chunks are so many; NULL: no memory. Without the lock. */
struct heap_stock *heap_stock_new(uint32_t chunks);
/* Adds it; what the heap has no use for any more is freed by heap_fini(). */
void heap_stock_add(struct heap *h, struct heap_stock *s);

void heap_pool_init(struct heap_pool *p, struct heap_sum *sum, void *owner);

/**
 * heap_segment_add() - take over addresses
 * @h: the heap, not heap_low()
 * @seg: the segment, its base, size and note set; the caller's to free
 * @p: its pool
 * @away: they have no memory yet, and are one HEAP_AWAY block; else they are one free block
 */
void heap_segment_add(struct heap *h, struct heap_segment *seg, struct heap_pool *p, bool away);
/* All of a segment that has no memory, has it now, and is a block in use. */
struct heap_block *heap_segment_use(struct heap_segment *seg);
/* Takes out a segment in which nothing is used. As long as it has blocks. */
void heap_segment_del(struct heap *h, struct heap_segment *seg);
/* Makes it part of another pool, whatever is used in it. As long as it has blocks. */
void heap_segment_move(struct heap *h, struct heap_segment *seg, struct heap_pool *p);

/*
 * Merges what is in the stacks of a pool; false: they were empty. As long as there are HEAP_QUICK *
 * HEAP_QUICK_DEPTH.
 */
bool heap_settle(struct heap *h, struct heap_pool *p);

/**
 * heap_take_bin() - the best free block from the bins, cut to size
 * @h: the heap, not heap_low()
 * @p: the pool
 * @fit: what is looked for
 *
 * Return: the block, HEAP_USED, or NULL.
 */
struct heap_block *heap_take_bin(struct heap *h, struct heap_pool *p, const struct heap_fit *fit);
/* A block that is used becomes free: it is merged with its neighbours and put in a bin. */
void heap_give_bin(struct heap *h, struct heap_block *b);
/* heap_give() where the stack is full, or of another size, which makes room then. */
void heap_give_full(struct heap *h, struct heap_block *b);

/* The largest free block of a pool once heap_settle() was called, 0: there is none. */
size_t heap_largest(const struct heap_pool *p);
/* The block that an address of a segment lies in. As long as it has blocks. */
struct heap_block *heap_block_at(const struct heap_segment *seg, uintptr_t addr);

/* ---- addresses without memory ---- */

/**
 * heap_grow_begin() - find addresses that, with memory, make room for a request
 * @h: the heap, not heap_low()
 * @seg: the segment
 * @size: bytes that are asked for
 * @granule: a power of two: memory comes in multiples of it
 *
 * The lowest HEAP_AWAY addresses that, with the free block below them, are enough. They are made a
 * block of their own, which nobody else finds. As long as there are blocks.
 * Return: the block, or NULL.
 */
struct heap_block *heap_grow_begin(struct heap *h, struct heap_segment *seg, size_t size,
				   size_t granule);
/* They have memory, and become free; or, not done, they stay HEAP_AWAY. */
void heap_grow_end(struct heap *h, struct heap_block *b, bool done);
/**
 * heap_shrink_begin() - take memory away from free addresses
 * @h: the heap, not heap_low()
 * @b: a block that is HEAP_FREE
 * @addr: the first
 * @size: how many, all in @b
 *
 * Return: a HEAP_AWAY block of these addresses, which nobody else finds, for heap_grow_end() once
 * the memory is gone (not done), or if it has to stay (done).
 */
struct heap_block *heap_shrink_begin(struct heap *h, struct heap_block *b, uintptr_t addr,
				     size_t size);

/* ---- the short way ---- */

static inline uint32_t heap_hash(uintptr_t addr)
{
	return (uint32_t)(((uint64_t)(addr >> HEAP_UNIT_SHIFT) * 0x9e3779b97f4a7c15u) >> 32);
}

static inline struct heap_block **heap_bucket(const struct heap *h, uint32_t hash)
{
	uint32_t i = hash & h->wide, k;

	if (i >= h->buckets)
		i &= h->mask;
	if (likely(i < HEAP_CHUNK_0))
		return &h->chunk[0][i];
	k = 32 - (uint32_t)__builtin_clz(i / HEAP_CHUNK_0);
	return &h->chunk[k][i - (HEAP_CHUNK_0 << (k - 1))];
}

/* The block that begins at an address, or NULL. */
static inline struct heap_block *heap_find(const struct heap *h, uintptr_t addr)
{
	struct heap_block *b = *heap_bucket(h, heap_hash(addr));

	while (b && b->addr != addr)
		b = b->hash_next;
	return b;
}

static inline struct heap_quick *heap_quick_of(struct heap_pool *p, uint32_t fit)
{
	return &p->quick[(fit * 0x9e3779b1u) / (UINT32_MAX / HEAP_QUICK + 1)];
}

static inline void heap_use(struct heap_block *b)
{
	struct heap_segment *seg = b->seg;
	struct heap_sum *sum = seg->sum;

	b->state = HEAP_USED;
	b->user = NULL;
	seg->used++;
	if (seg->blocks == 1) {
		sum->idle_blocks--;
		sum->idle_bytes -= seg->mapped;
	}
	sum->used++;
	sum->used_bytes += b->size;
}

static inline void heap_unuse(struct heap *h, struct heap_block *b)
{
	struct heap_segment *seg = b->seg;
	struct heap_sum *sum = seg->sum;

	if (!--seg->used)
		seg->since = h->clock;
	if (seg->blocks == 1) {
		sum->idle_blocks++;
		sum->idle_bytes += seg->mapped;
	}
	sum->used--;
	sum->used_bytes -= b->size;
}

/* A block that was asked for with this size, and freed lately; NULL: there is none. */
static inline struct heap_block *heap_take_quick(struct heap_pool *p, size_t size)
{
	uint64_t units = size >> HEAP_UNIT_SHIFT;
	struct heap_quick *q = heap_quick_of(p, (uint32_t)units);
	struct heap_block *b = q->top;

	if (unlikely(!b || q->fit != units))
		return NULL;
	q->top = b->link;
	q->count--;
	heap_use(b);
	return b;
}

/* As heap_take_bin(), but where such a block was freed lately, that one. */
static inline struct heap_block *heap_take(struct heap *h, struct heap_pool *p,
					   const struct heap_fit *fit)
{
	struct heap_block *b = heap_take_quick(p, fit->size);

	return likely(b) ? b : heap_take_bin(h, p, fit);
}

/* Puts a block that is used on the stack of its size as it is; false: there is no room. */
static inline bool heap_give_quick(struct heap *h, struct heap_block *b)
{
	struct heap_pool *p = b->seg->pool;
	struct heap_quick *q = heap_quick_of(p, b->fit);

	if (unlikely(q->fit != b->fit || q->count == HEAP_QUICK_DEPTH))
		return false;
	heap_unuse(h, b);
	b->state = HEAP_QUICK_FREE;
	b->link = q->top;
	q->top = b;
	q->count++;
	return true;
}

/* A block that is used becomes free, and is kept as it is for the next request of its size. */
static inline void heap_give(struct heap *h, struct heap_block *b)
{
	if (unlikely(!heap_give_quick(h, b)))
		heap_give_full(h, b);
}

#endif /* RUNTIME_HEAP_H */
