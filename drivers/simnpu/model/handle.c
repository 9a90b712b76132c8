// SPDX-License-Identifier: MIT
/*
 * Handles of an open file: 18 bits of index, 14 of generation. None is given out
 * twice: an entry whose generations are used up is not used again. Those below
 * 2^23 are left to contexts.
 *
 * Changes are made under the device's lock; look-ups take none. Chunks stay
 * with the file, which is used again and never given back.
 */
#include "drivers/simnpu/model/model.h"

#define INDEX_BITS 18
#define GEN_FIRST (MODEL_CONTEXT_HANDLES >> INDEX_BITS)
#define GEN_LAST 0x3fffu
#define GEN_SEEDS 0x1000u	/* files begin at different ones, so that handles miss */

static struct model_entry *entry_at(struct model_table *t, uint32_t i)
{
	struct model_entry *chunk;

	if (i >= hal_load_acquire(&t->size))
		return NULL;
	chunk = hal_load_acquire(&t->chunk[i / MODEL_CHUNK]);
	return &chunk[i % MODEL_CHUNK];
}

static int table_grow(struct model_table *t)
{
	static _Atomic uint32_t seed = 1;
	uint32_t size = hal_load_relaxed(&t->size);
	struct model_entry *chunk;
	uint32_t i;

	if (size == MODEL_CHUNK * MODEL_CHUNKS)
		return -ENOSPC;
	chunk = hal_zalloc(MODEL_CHUNK * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	for (i = MODEL_CHUNK; i--;) {
		chunk[i].last = (hal_add_relaxed(&seed, 0x9e37u) % GEN_SEEDS + GEN_FIRST) <<
				INDEX_BITS;
		chunk[i].next_free = t->free;
		t->free = size + i + 1;
	}
	hal_store_release(&t->chunk[size / MODEL_CHUNK], chunk);
	hal_store_release(&t->size, size + MODEL_CHUNK);
	return 0;
}

/**
 * model_table_add() - give an object a handle
 * @t: the table
 * @kind: what it is
 * @obj: the object
 * @handle: out: the handle
 *
 * Context: under the device's lock.
 * Return: 0, -ENOSPC (all handles are in use), -ENOMEM.
 */
int model_table_add(struct model_table *t, enum model_kind kind, void *obj, uint32_t *handle)
{
	struct model_entry *e;
	uint32_t i;
	int rc;

	if (!t->free) {
		rc = table_grow(t);
		if (rc)
			return rc;
	}
	i = t->free - 1;
	e = entry_at(t, i);
	t->free = e->next_free;
	hal_store_relaxed(&e->last, ((hal_load_relaxed(&e->last) >> INDEX_BITS) + 1) <<
					   INDEX_BITS | i);
	hal_store_relaxed(&e->obj, obj);
	hal_store_relaxed(&e->kind, kind);
	*handle = hal_load_relaxed(&e->last);
	/* release: who finds the handle sees the object */
	hal_store_release(&e->handle, *handle);
	return 0;
}

/**
 * model_table_del() - take a handle back, for good
 * @t: the table
 * @handle: a handle that is one
 *
 * Context: under the device's lock.
 */
void model_table_del(struct model_table *t, uint32_t handle)
{
	struct model_entry *e = entry_at(t, MODEL_INDEX(handle));

	hal_store_release(&e->handle, 0);
	hal_store_relaxed(&e->kind, MODEL_FREE);
	if (handle >> INDEX_BITS == GEN_LAST)
		return;
	e->next_free = t->free;
	t->free = MODEL_INDEX(handle) + 1;
}

/* The entry of a handle that is one, or NULL. */
struct model_entry *model_table_find(struct model_table *t, uint32_t handle)
{
	struct model_entry *e = entry_at(t, MODEL_INDEX(handle));

	if (!handle || !e || hal_load_acquire(&e->handle) != handle)
		return NULL;
	return e;
}

/* The object of a handle of that kind, or NULL. */
void *model_table_get(struct model_table *t, uint32_t handle, enum model_kind kind)
{
	struct model_entry *e = model_table_find(t, handle);

	return e && hal_load_relaxed(&e->kind) == kind ? hal_load_relaxed(&e->obj) : NULL;
}

/* Whether a number was a handle once, and is none any more. */
bool model_table_was(struct model_table *t, uint32_t handle)
{
	struct model_entry *e = entry_at(t, MODEL_INDEX(handle));

	/* relaxed: a hint for who uses what it has destroyed */
	return e && handle >> INDEX_BITS > GEN_FIRST &&
	       handle <= hal_load_relaxed(&e->last) &&
	       handle != hal_load_relaxed(&e->handle);
}

/**
 * model_table_reset() - take all handles back
 * @t: the table
 */
void model_table_reset(struct model_table *t)
{
	uint32_t i;

	for (i = 0; i < hal_load_relaxed(&t->size); i++) {
		struct model_entry *e = entry_at(t, i);

		if (hal_load_relaxed(&e->handle))
			model_table_del(t, hal_load_relaxed(&e->handle));
	}
}
