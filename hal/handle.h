/* SPDX-License-Identifier: MIT */
/*
 * The handle tables: what a program holds, turned into what we hold.
 *
 * A handle is 8 bits of type, 24 of index, 32 of generation. Slots are never
 * unmapped, so that a look-up needs no lock: it reads the slot, and compares
 * the generation. Generations start from a seed of the table's own, so that
 * handles of another copy of the library miss; a slot whose generation would
 * wrap is retired. CONFIG_HAL_HANDLES_MAX bounds the slots of a table.
 */
#ifndef HAL_HANDLE_H
#define HAL_HANDLE_H

#include "hal/base.h"

enum hal_handle_type {
	HAL_HANDLE_NONE = 0,
	HAL_HANDLE_STREAM = 1,
	HAL_HANDLE_EVENT = 2,
	HAL_HANDLE_CONTEXT = 3,
	HAL_HANDLE_MODULE = 4,
	HAL_HANDLE_KERNEL = 5,
	HAL_HANDLE_FILE = 6,
	HAL_HANDLE_WEIGHTS = 7,
	HAL_HANDLE_MEMORY = 8,
	HAL_HANDLE_MEM_POOL = 9,
	HAL_HANDLE_TYPES
};

#define HAL_HANDLE_INDEX_BITS 24
#define HAL_HANDLE_CHUNK 1024u

/**
 * struct hal_slot - what every slot starts with
 * @gen: generation of the object in it; odd: in use, even: free
 * @index: its index
 * @obj: the object, NULL when free. A look-up without a reference may read it,
 *	but not follow it
 * @next_free: index of the next free slot; under the table's lock
 * @lock: Protects: that @obj lives while @gen is its own. Whoever wants a reference takes it,
 *	compares, and gets the reference; whoever destroys retires the handle under it. Of a
 *	stream it is the submit lock
 */
struct hal_slot {
	_Atomic uint32_t gen;
	uint32_t index;
	void *_Atomic obj;
	uint32_t next_free;
	struct hal_spin lock;
};

/**
 * struct hal_table - the slots of one type
 * @chunk: chunks of HAL_HANDLE_CHUNK slots, filled from the start, never freed
 * @type: enum hal_handle_type
 * @slot_size: bytes of a slot, which starts with struct hal_slot
 */
struct hal_table {
	char *_Atomic *chunk;
	uint32_t type;
	uint32_t slot_size;
};

extern struct hal_table hal_tables[HAL_HANDLE_TYPES];

static inline uint32_t hal_handle_type(uint64_t h)
{
	return h >> 56;
}

static inline uint32_t hal_handle_index(uint64_t h)
{
	return (h >> 32) & ((1u << HAL_HANDLE_INDEX_BITS) - 1);
}

/* The slot that a handle names, or NULL; its generation is not compared. */
static inline struct hal_slot *hal_slot_at(enum hal_handle_type type, uint64_t h)
{
	struct hal_table *t = &hal_tables[type];
	uint32_t i = hal_handle_index(h);
	char *c;

	if (unlikely(hal_handle_type(h) != (uint32_t)type))
		return NULL;
	c = hal_load_acquire(&t->chunk[i / HAL_HANDLE_CHUNK]);
	if (unlikely(!c))
		return NULL;
	return (struct hal_slot *)(c + (size_t)(i % HAL_HANDLE_CHUNK) * t->slot_size);
}

/* Whether the slot holds the object that the handle was made for. A forged even one never does. */
static inline bool hal_slot_is(const struct hal_slot *s, uint64_t h)
{
	return hal_load_acquire(&s->gen) == (uint32_t)h && (h & 1);
}

/**
 * hal_handle_alloc() - take a slot, not yet to be found
 * @type: which table
 * @slot: out: the slot
 *
 * Return: 0, -ENOMEM, -ENOSPC (CONFIG_HAL_HANDLES_MAX are taken or retired); the thread's record
 * is filled.
 */
int hal_handle_alloc(enum hal_handle_type type, struct hal_slot **slot);

/* Puts the object in and makes the slot findable; returns the handle. */
uint64_t hal_handle_publish(enum hal_handle_type type, struct hal_slot *slot, void *obj);

/*
 * Makes the handle stale. The slot stays the caller's until hal_handle_free(); until then
 * hal_handle_restore() makes the same handle good again. Both with the slot's lock held, when
 * others may look for the object.
 */
void hal_handle_retire(enum hal_handle_type type, struct hal_slot *slot);
void hal_handle_restore(enum hal_handle_type type, struct hal_slot *slot);
/* The same object under a new handle; 0: no generation is left, and the old one stays good. */
uint64_t hal_handle_renew(enum hal_handle_type type, struct hal_slot *slot);
/* Gives back a slot that was retired, or never published. */
void hal_handle_free(enum hal_handle_type type, struct hal_slot *slot);

/*
 * Which error a handle deserves that did not match: -EINVAL for 0, -ESTALE for
 * an old generation, -EBADF for all else; fills the thread's record.
 */
int hal_handle_error(enum hal_handle_type type, uint64_t h, const char *op);

/* The handle of the object in a slot, 0: free. */
uint64_t hal_handle_of(enum hal_handle_type type, const struct hal_slot *slot);

/* Calls fn on each slot in use, in order, without a lock; stops when it returns nonzero. */
int hal_handle_for_each(enum hal_handle_type type, int (*fn)(struct hal_slot *slot, void *arg),
			void *arg);
uint32_t hal_handle_count(enum hal_handle_type type);

#endif /* HAL_HANDLE_H */
