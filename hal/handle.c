// SPDX-License-Identifier: MIT
/*
 * The handle tables.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "hal/internal.h"

#define NO_SLOT UINT32_MAX
/* A slot that has come this far is retired: its next generation would be 0. */
#define LAST_GEN 0xfffffffeu

/* @lock Protects: the rest of the struct, and hal_slot.next_free of free slots. */
struct table_state {
	pthread_mutex_t lock;
	uint32_t fresh;		/* slots that were ever taken */
	uint32_t free;		/* first of the free ones, NO_SLOT: none */
	uint32_t seed;		/* generation that slots start from, even */
	bool seeded;
};

char *_Atomic hal_handle_chunks[HAL_HANDLE_TYPES][HAL_HANDLE_CHUNKS];
static _Atomic uint32_t in_use[HAL_HANDLE_TYPES];
static _Atomic uint32_t high_mark[HAL_HANDLE_TYPES];

#define TABLE(name, size) \
	[HAL_HANDLE_##name] = { hal_handle_chunks[HAL_HANDLE_##name], HAL_HANDLE_##name, (size) }

struct hal_table hal_tables[HAL_HANDLE_TYPES] = {
	TABLE(STREAM, sizeof(struct hal_stream_slot)),
	TABLE(EVENT, sizeof(struct hal_event_slot)),
	TABLE(CONTEXT, sizeof(struct hal_slot)),
	TABLE(MODULE, sizeof(struct hal_slot)),
	TABLE(KERNEL, sizeof(struct hal_kernel_slot)),
	TABLE(FILE, sizeof(struct hal_slot)),
	TABLE(WEIGHTS, sizeof(struct hal_slot)),
	TABLE(MEMORY, sizeof(struct hal_slot)),
	TABLE(MEM_POOL, sizeof(struct hal_slot)),
};

#define STATE { PTHREAD_MUTEX_INITIALIZER, 0, NO_SLOT, 0, false }

static struct table_state states[] = { [0 ... HAL_HANDLE_TYPES - 1] = STATE };

static const char *const type_names[HAL_HANDLE_TYPES] = {
	"none", "stream", "event", "context", "module", "kernel", "file", "weights",
	"memory", "pool",
};

static struct hal_slot *slot_of(enum hal_handle_type type, uint32_t i)
{
	char *c = hal_load_acquire(&hal_handle_chunks[type][i / HAL_HANDLE_CHUNK]);

	return (struct hal_slot *)(c + (size_t)(i % HAL_HANDLE_CHUNK) *
				   hal_tables[type].slot_size);
}

static int add_chunk_locked(enum hal_handle_type type, uint32_t n)
{
	size_t size = (size_t)HAL_HANDLE_CHUNK * hal_tables[type].slot_size;
	void *p;
	int rc;

	rc = hal_sys_mmap(hal_sys_get(), size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &p);
	if (rc)
		return rc;
	hal_store_release(&hal_handle_chunks[type][n], p);
	return 0;
}

static int take_fresh_locked(enum hal_handle_type type, struct hal_slot **slot)
{
	struct table_state *t = &states[type];
	uint32_t i = t->fresh;
	int rc;

	if (i >= CONFIG_HAL_HANDLES_MAX)
		return -ENOSPC;
	if (!hal_load_relaxed(&hal_handle_chunks[type][i / HAL_HANDLE_CHUNK])) {
		rc = add_chunk_locked(type, i / HAL_HANDLE_CHUNK);
		if (rc)
			return rc;
	}
	if (!t->seeded) {
		/* even, and low enough for a thousand million uses of each slot */
		t->seed = hal_sys_random() & 0x7ffffffeu;
		t->seeded = true;
	}
	*slot = slot_of(type, i);
	(*slot)->index = i;
	hal_store_release(&(*slot)->gen, t->seed);
	if (type == HAL_HANDLE_STREAM) {
		struct hal_stream_slot *s = (struct hal_stream_slot *)*slot;

		hal_store_relaxed(&s->next_seq, 1);
		hal_store_release(&s->timeline, &s->done);
	}
	t->fresh = i + 1;
	hal_store_release(&high_mark[type], i + 1);
	return 0;
}

/**
 * hal_handle_alloc() - take a slot, not yet to be found
 * @type: which table
 * @slot: out: the slot
 *
 * Return: 0, -ENOMEM, -ENOSPC.
 */
int hal_handle_alloc(enum hal_handle_type type, struct hal_slot **slot)
{
	struct table_state *t = &states[type];
	int rc = 0;

	*slot = NULL;
	pthread_mutex_lock(&t->lock);
	if (t->free != NO_SLOT) {
		*slot = slot_of(type, t->free);
		t->free = (*slot)->next_free;
	} else {
		rc = take_fresh_locked(type, slot);
	}
	pthread_mutex_unlock(&t->lock);
	if (rc == -ENOSPC)
		return hal_fail(rc, "handle", "all %u %s handles are in use",
				CONFIG_HAL_HANDLES_MAX, type_names[type]);
	if (rc)
		return hal_fail(rc, "handle", "no memory for more %s handles", type_names[type]);
	return 0;
}

/**
 * hal_handle_publish() - put the object in and make the slot findable
 * @type: which table
 * @slot: from hal_handle_alloc()
 * @obj: the object
 *
 * Return: the handle.
 */
uint64_t hal_handle_publish(enum hal_handle_type type, struct hal_slot *slot, void *obj)
{
	uint32_t gen = hal_load_relaxed(&slot->gen) + 1;	/* relaxed: the slot is ours */

	hal_store_relaxed(&slot->obj, obj);	/* relaxed: the release below covers it */
	hal_store_release(&slot->gen, gen);
	hal_add_relaxed(&in_use[type], 1);	/* relaxed: a statistic */
	return (uint64_t)type << 56 | (uint64_t)slot->index << 32 | gen;
}

/**
 * hal_handle_retire() - make the handle stale
 * @type: which table
 * @slot: the slot, published
 *
 * A read-modify-write, so that nothing which the caller writes to the slot afterwards can be seen
 * by one who still saw the old generation.
 */
void hal_handle_retire(enum hal_handle_type type, struct hal_slot *slot)
{
	atomic_fetch_add_explicit(&slot->gen, 1, memory_order_acq_rel);
	atomic_fetch_sub_explicit(&in_use[type], 1, memory_order_relaxed);
}

/**
 * hal_handle_restore() - make the handle good again
 * @type: which table
 * @slot: the slot, retired and not yet freed
 */
void hal_handle_restore(enum hal_handle_type type, struct hal_slot *slot)
{
	atomic_fetch_sub_explicit(&slot->gen, 1, memory_order_acq_rel);
	hal_add_relaxed(&in_use[type], 1);
}

/**
 * hal_handle_renew() - put an object under a new handle
 * @type: which table
 * @slot: the slot, published
 *
 * Return: the handle; 0: no generation is left, and the old handle stays good.
 */
uint64_t hal_handle_renew(enum hal_handle_type type, struct hal_slot *slot)
{
	uint32_t gen = hal_load_relaxed(&slot->gen) + 2;	/* relaxed: under the slot's lock */

	hal_assert_held(&slot->lock, "renew");
	if (gen > LAST_GEN)
		return 0;
	hal_store_release(&slot->gen, gen);
	return hal_handle_of(type, slot);
}

/**
 * hal_handle_free() - give a slot back
 * @type: which table
 * @slot: the slot, retired or never published
 */
void hal_handle_free(enum hal_handle_type type, struct hal_slot *slot)
{
	struct table_state *t = &states[type];

	hal_store_relaxed(&slot->obj, NULL);	/* relaxed: nobody follows it */
	if (hal_load_relaxed(&slot->gen) >= LAST_GEN)
		return;
	pthread_mutex_lock(&t->lock);
	slot->next_free = t->free;
	t->free = slot->index;
	pthread_mutex_unlock(&t->lock);
}

/**
 * hal_handle_error() - fill in which error a handle deserves that did not match
 * @type: the type that was asked for
 * @h: the handle
 * @op: the operation
 *
 * Return: -EINVAL for 0, -ESTALE for one of an object that is gone, else -EBADF.
 */
int hal_handle_error(enum hal_handle_type type, uint64_t h, const char *op)
{
	uint32_t i = hal_handle_index(h), gen = (uint32_t)h, now, seed;
	uint64_t generation;
	int ordinal;

	if (!h)
		return hal_fail(-EINVAL, op, "no %s was given", type_names[type]);
	if (hal_handle_type(h) != (uint32_t)type)
		return hal_fail(-EBADF, op, "0x%llx is not %s %s but %s%s",
				(unsigned long long)h, type == HAL_HANDLE_EVENT ? "an" : "a",
				type_names[type],
				hal_handle_type(h) && hal_handle_type(h) < HAL_HANDLE_TYPES ?
				"a handle of type " : "no handle at all",
				hal_handle_type(h) && hal_handle_type(h) < HAL_HANDLE_TYPES ?
				type_names[hal_handle_type(h)] : "");
	if (i < hal_load_acquire(&high_mark[type])) {
		now = hal_load_acquire(&slot_of(type, i)->gen);
		seed = states[type].seed;	/* does not change once there is a slot */
		if (type == HAL_HANDLE_STREAM && hal_stream_expired(h, &generation, &ordinal))
			return hal_fail(-ESTALE, op, "stream 0x%llx is of generation %llu, "
					"device %d went on to %llu", (unsigned long long)h,
					(unsigned long long)generation, ordinal,
					(unsigned long long)generation + 1);
		if ((gen & 1) && gen > seed && gen <= now)
			return hal_fail(-ESTALE, op, "%s 0x%llx was destroyed",
					type_names[type], (unsigned long long)h);
	}
	return hal_fail(-EBADF, op, "0x%llx was never a %s of this library",
			(unsigned long long)h, type_names[type]);
}

/* The handle of the object in a slot, 0: free. */
uint64_t hal_handle_of(enum hal_handle_type type, const struct hal_slot *slot)
{
	uint32_t gen = hal_load_acquire(&slot->gen);

	if (!(gen & 1))
		return 0;
	return (uint64_t)type << 56 | (uint64_t)slot->index << 32 | gen;
}

/**
 * hal_handle_for_each() - look at all slots in use
 * @type: which table
 * @fn: called for each, in order of index; stops when it returns nonzero
 * @arg: its argument
 *
 * Without a lock: what @fn does with a slot is its own care.
 * Return: 0, or what @fn returned.
 */
int hal_handle_for_each(enum hal_handle_type type, int (*fn)(struct hal_slot *slot, void *arg),
			void *arg)
{
	uint32_t n = hal_load_acquire(&high_mark[type]), i;
	struct hal_slot *s;
	int rc;

	for (i = 0; i < n; i++) {
		s = slot_of(type, i);
		if (!(hal_load_acquire(&s->gen) & 1))
			continue;
		rc = fn(s, arg);
		if (rc)
			return rc;
	}
	return 0;
}

/* Objects of a type that live. */
uint32_t hal_handle_count(enum hal_handle_type type)
{
	return hal_load_relaxed(&in_use[type]);
}
