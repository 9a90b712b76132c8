// SPDX-License-Identifier: MIT
/*
 * Arenas: the shared memory of a context, out of which headers, timestamps and
 * ring segments are carved.
 *
 * First come cells of 128 bytes, a header or sixteen timestamps each, then the
 * segments. Timelines stay readable as long as the process lives, so an arena
 * is never unmapped: a pool keeps those that have lost their context for the
 * next one. What is free is noted outside of the shared memory.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/simnpu_test.h"

#define CELLS		(MODEL_CELLS_SIZE / MODEL_CELL)
#define STAMPS_PER_CELL	(MODEL_CELL / sizeof(uint64_t))
#define STEP		MODEL_HUGE

static const uint64_t sizes[] = { 8ull << 30, 1ull << 30, 256ull << 20, 64ull << 20 };

/* Protects: pool. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct model_arena *pool;

/* In the child of a fork: another thread may have held the lock, in the middle of something. */
void model_arena_in_child(void)
{
	pool_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	pool = NULL;
}

static int arena_map(struct model_arena *a)
{
	void *p;
	size_t i;
	int rc = -ENOMEM;

	/* smaller where addresses are scarce */
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		rc = hal_sys_mmap(hal_sys_get(), sizes[i] + MODEL_HUGE, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &p);
		if (!rc)
			break;
	}
	if (rc)
		return rc;
	a->base = (char *)hal_align_up((uintptr_t)p, MODEL_HUGE);
	a->size = sizes[i];
	/* a ring that grows then meets a fault every 32768 tasks; without, it works as well */
	hal_sys_madvise(a->base + MODEL_CELLS_SIZE, a->size - MODEL_CELLS_SIZE, MADV_HUGEPAGE);
	return 0;
}

static void arena_free(struct model_arena *a)
{
	free(a->free_cells);
	free(a->free_stamps);
	free(a);
}

static struct model_arena *arena_new(void)
{
	struct model_arena *a = hal_zalloc(sizeof(*a));

	if (!a)
		return NULL;
	/* for all that there can ever be, so giving back can't fail; untouched pages are free */
	a->free_cells = hal_zalloc(CELLS * sizeof(*a->free_cells));
	a->free_stamps = hal_zalloc(CELLS * STAMPS_PER_CELL * sizeof(*a->free_stamps));
	a->segs = a->segs_ready = MODEL_CELLS_SIZE;
	if (!a->free_cells || !a->free_stamps || arena_map(a)) {
		arena_free(a);
		return NULL;
	}
	return a;
}

/**
 * model_arena_get() - an arena for a new context
 * @arena: out: the arena, with nothing handed out
 *
 * Return: 0 or -ENOMEM.
 */
int model_arena_get(struct model_arena **arena)
{
	struct model_arena *a;

	*arena = NULL;
	if (model_fault(SIMNPU_FAIL_ARENA))
		return -ENOMEM;
	pthread_mutex_lock(&pool_lock);
	a = pool;
	if (a)
		pool = a->next;
	pthread_mutex_unlock(&pool_lock);
	if (!a)
		a = arena_new();
	if (!a)
		return -ENOMEM;
	*arena = a;
	return 0;
}

/**
 * model_arena_put() - the context is gone
 * @a: its arena; nothing that was handed out is used any more, though it may be read
 */
void model_arena_put(struct model_arena *a)
{
	struct model_seg *seg;
	size_t i;

	for (i = 0; i < MODEL_SEG_CLASSES; i++) {
		while ((seg = a->free_segs[i])) {
			a->free_segs[i] = seg->next;
			free(seg);
		}
	}
	/* the rings' pages go back; the addresses and the timelines stay */
	if (a->segs > MODEL_CELLS_SIZE)
		hal_sys_madvise(a->base + MODEL_CELLS_SIZE, a->segs_ready - MODEL_CELLS_SIZE,
				MADV_DONTNEED);
	a->segs = MODEL_CELLS_SIZE;
	a->free_cell_count = a->free_stamp_count = 0;
	a->cells = 0;
	pthread_mutex_lock(&pool_lock);
	a->next = pool;
	pool = a;
	pthread_mutex_unlock(&pool_lock);
}

static int make_ready(struct model_arena *a, uint64_t *ready, uint64_t end, uint64_t limit)
{
	uint64_t to = hal_align_up(end, STEP);
	int rc;

	if (end > limit)
		return -ENOMEM;
	if (end <= *ready)
		return 0;
	if (model_fault(SIMNPU_FAIL_ARENA))
		return -ENOMEM;
	if (to > limit)
		to = limit;
	rc = hal_sys_mprotect(a->base + *ready, to - *ready, PROT_READ | PROT_WRITE);
	if (rc)
		return -ENOMEM;
	*ready = to;
	return 0;
}

/* A cell that was never used. */
static int cell_new(struct model_arena *a, uint32_t *cell)
{
	int rc;

	rc = make_ready(a, &a->cells_ready, (a->cells + 1ull) * MODEL_CELL, MODEL_CELLS_SIZE);
	if (rc)
		return rc;
	*cell = a->cells++;
	return 0;
}

/**
 * model_arena_cell() - room for a header
 * @a: the arena
 * @offset: out: where; 128 bytes of zeros
 *
 * Context: under the device's lock.
 * Return: 0 or -ENOMEM.
 */
int model_arena_cell(struct model_arena *a, uint64_t *offset)
{
	uint32_t cell;
	uint64_t *p;
	size_t i;
	int rc;

	if (a->free_cell_count) {
		cell = a->free_cells[--a->free_cell_count];
	} else {
		rc = cell_new(a, &cell);
		if (rc)
			return rc;
	}
	*offset = (uint64_t)cell * MODEL_CELL;
	p = (uint64_t *)(void *)(a->base + *offset);
	/* somebody may still read the timeline of the one before */
	for (i = 0; i < MODEL_CELL / sizeof(*p); i++)
		hal_shm_store_relaxed(&p[i], 0);
	return 0;
}

/* Gives a cell back. Context: under the device's lock. */
void model_arena_cell_free(struct model_arena *a, uint64_t offset)
{
	a->free_cells[a->free_cell_count++] = (uint32_t)(offset / MODEL_CELL);
}

/**
 * model_arena_stamp() - room for a timestamp
 * @a: the arena
 * @offset: out: where; zero
 *
 * Context: under the device's lock.
 * Return: 0 or -ENOMEM.
 */
int model_arena_stamp(struct model_arena *a, uint64_t *offset)
{
	uint64_t cell;
	uint32_t i;
	int rc;

	if (!a->free_stamp_count) {
		rc = model_arena_cell(a, &cell);
		if (rc)
			return rc;
		for (i = STAMPS_PER_CELL; i--;)
			a->free_stamps[a->free_stamp_count++] =
				(uint32_t)(cell / sizeof(uint64_t)) + i;
	}
	*offset = (uint64_t)a->free_stamps[--a->free_stamp_count] * sizeof(uint64_t);
	hal_shm_store_relaxed((uint64_t *)(void *)(a->base + *offset), 0);
	return 0;
}

/* Gives a timestamp back. Context: under the device's lock. */
void model_arena_stamp_free(struct model_arena *a, uint64_t offset)
{
	a->free_stamps[a->free_stamp_count++] = (uint32_t)(offset / sizeof(uint64_t));
}

static uint32_t seg_class(uint32_t slots)
{
	return (uint32_t)__builtin_ctz(slots / MODEL_SEG_MIN);
}

static struct model_seg *seg_reuse(struct model_arena *a, uint32_t slots)
{
	struct model_seg *seg;

	hal_spin_lock(&a->lock);
	seg = a->free_segs[seg_class(slots)];
	if (seg)
		a->free_segs[seg_class(slots)] = seg->next;
	hal_spin_unlock(&a->lock);
	return seg;
}

/**
 * model_arena_seg() - a ring segment
 * @a: the arena
 * @slots: slots, a power of two
 * @seg: out: the segment; no slot of it is valid, its pages are there
 *
 * Context: under the device's lock.
 * Return: 0 or -ENOMEM.
 */
int model_arena_seg(struct model_arena *a, uint32_t slots, struct model_seg **seg)
{
	uint64_t size = (uint64_t)slots * sizeof(struct simnpu_desc);
	struct model_seg *s = seg_reuse(a, slots);
	int rc = 0;

	*seg = NULL;
	if (!s) {
		s = hal_zalloc(sizeof(*s));
		if (!s)
			return -ENOMEM;
		rc = make_ready(a, &a->segs_ready, a->segs + size, a->size);
		if (!rc && size >= MODEL_PAGE)
			model_populate(a->base + a->segs, size, &rc);
		if (rc) {
			free(s);
			return rc;
		}
		s->offset = a->segs;
		s->slots = slots;
		a->segs += size;
		*seg = s;
		return 0;	/* its pages are new, or were given back: zeros */
	}
	s->next = NULL;
	*seg = s;
	return 0;
}

/*
 * Gives a segment back. Context: any thread. No slot of it is valid from now on:
 * whoever ends with it has it in the cache, whoever is given it is in a hurry.
 */
void model_arena_seg_free(struct model_arena *a, struct model_seg *seg)
{
	struct simnpu_desc *d = (struct simnpu_desc *)(void *)(a->base + seg->offset);
	uint32_t i;

	for (i = 0; i < seg->slots; i++)
		hal_shm_store_relaxed(&d[i].seq, 0);
	hal_spin_lock(&a->lock);
	seg->next = a->free_segs[seg_class(seg->slots)];
	a->free_segs[seg_class(seg->slots)] = seg;
	hal_spin_unlock(&a->lock);
}
