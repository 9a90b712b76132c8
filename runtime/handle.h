/* SPDX-License-Identifier: MIT */
/*
 * Handles of what is the runtime's own.
 */
#ifndef RUNTIME_HANDLE_H
#define RUNTIME_HANDLE_H

#include "runtime/internal.h"

/**
 * struct rt_held - what such a handle stands for begins with this
 * @ref: references
 * @node: in the list of those that have a handle: memory is found by nothing else, as slots of
 *	handles are no memory of the heap
 */
struct rt_held {
	struct kref ref;
	struct hal_list node;
};

uint64_t rt_handle_new(enum hal_handle_type type, struct hal_slot *slot, struct rt_held *held);
void *rt_handle_get(enum hal_handle_type type, uint64_t handle, const char *op);
void *rt_handle_end(enum hal_handle_type type, uint64_t handle, const char *op);

#endif /* RUNTIME_HANDLE_H */
