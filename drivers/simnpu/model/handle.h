/* SPDX-License-Identifier: MIT */
/* The simulated device, inside: handles of an open file. Included by model.h. */
#ifndef DRIVERS_SIMNPU_MODEL_HANDLE_H
#define DRIVERS_SIMNPU_MODEL_HANDLE_H

#include <stddef.h>
#include <stdint.h>

#include "hal/base.h"

struct model_queue;

enum model_kind {
	MODEL_FREE = 0,
	MODEL_MEM,
	MODEL_QUEUE,
	MODEL_IMPORT,
	MODEL_EVENT,
	MODEL_MODULE,
};

/* Handles below are of contexts: they are part of mmap() offsets. */
#define MODEL_CONTEXT_HANDLES	(1u << 23)
#define MODEL_CHUNK		256u
#define MODEL_CHUNKS		1024u

/**
 * struct model_entry - a handle
 * @handle: the handle while it is one, else 0
 * @kind: enum model_kind
 * @obj: what it stands for
 * @last: the handle that was given out last for this entry
 * @next_free: index + 1 of the next free entry
 */
struct model_entry {
	_Atomic uint32_t handle;
	_Atomic uint32_t kind;
	_Atomic(void *) obj;
	_Atomic uint32_t last;
	uint32_t next_free;
};

struct model_table {
	_Atomic(struct model_entry *) chunk[MODEL_CHUNKS];
	_Atomic uint32_t size;
	uint32_t free;
};

int model_table_add(struct model_table *t, enum model_kind kind, void *obj, uint32_t *handle);
void model_table_del(struct model_table *t, uint32_t handle);
struct model_entry *model_table_find(struct model_table *t, uint32_t handle);
void *model_table_get(struct model_table *t, uint32_t handle, enum model_kind kind);
bool model_table_was(struct model_table *t, uint32_t handle);
void model_table_reset(struct model_table *t);

#define MODEL_INDEX(h) ((h) & 0x3ffffu)

/* The look-up of the hot paths: no lock. */
static inline struct model_queue *model_queue_find(struct model_table *t, uint32_t handle)
{
	uint32_t i = MODEL_INDEX(handle);
	struct model_entry *chunk = hal_load_acquire(&t->chunk[i / MODEL_CHUNK]);
	struct model_entry *e;

	if (unlikely(!chunk))
		return NULL;
	e = &chunk[i % MODEL_CHUNK];
	if (unlikely(hal_load_acquire(&e->handle) != handle || !handle ||
		     hal_load_relaxed(&e->kind) != MODEL_QUEUE))
		return NULL;
	return hal_load_relaxed(&e->obj);
}

#endif /* DRIVERS_SIMNPU_MODEL_HANDLE_H */
