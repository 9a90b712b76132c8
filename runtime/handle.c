// SPDX-License-Identifier: MIT
/*
 * Handles of what is the runtime's own: files, weights, private pools.
 */
#include "runtime/handle.h"

/* Protects: the list of what has a handle. Nothing is taken under it. */
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hal_list held_list = { &held_list, &held_list };

/* Gives an object its handle, which takes the caller's reference over. */
uint64_t rt_handle_new(enum hal_handle_type type, struct hal_slot *slot, struct rt_held *held)
{
	pthread_mutex_lock(&held_lock);
	hal_list_add_tail(&held_list, &held->node);
	pthread_mutex_unlock(&held_lock);
	return hal_handle_publish(type, slot, held);
}

/**
 * rt_handle_get() - the object of a handle
 * @type: which table
 * @handle: the handle
 * @op: for the error record
 *
 * Return: the object, of which struct rt_held comes first, with a reference, or NULL with the
 * thread's record filled.
 */
void *rt_handle_get(enum hal_handle_type type, uint64_t handle, const char *op)
{
	struct hal_slot *slot = hal_slot_at(type, handle);
	struct rt_held *held = NULL;

	if (slot) {
		hal_spin_lock(&slot->lock);
		if (hal_slot_is(slot, handle)) {
			held = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
			kref_get(&held->ref);
		}
		hal_spin_unlock(&slot->lock);
	}
	if (!held)
		hal_handle_error(type, handle, op);
	return held;
}

/* Ends a handle: the object with the reference that the handle had, or NULL as above. */
void *rt_handle_end(enum hal_handle_type type, uint64_t handle, const char *op)
{
	struct hal_slot *slot = hal_slot_at(type, handle);
	struct rt_held *held = NULL;

	if (slot) {
		hal_spin_lock(&slot->lock);
		if (hal_slot_is(slot, handle)) {
			held = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
			hal_handle_retire(type, slot);
		}
		hal_spin_unlock(&slot->lock);
	}
	if (!held) {
		hal_handle_error(type, handle, op);
		return NULL;
	}
	hal_handle_free(type, slot);
	pthread_mutex_lock(&held_lock);
	hal_list_del(&held->node);
	pthread_mutex_unlock(&held_lock);
	return held;
}
