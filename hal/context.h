/* SPDX-License-Identifier: MIT */
/*
 * Contexts: sets of streams, events, memory and modules on one device. A context
 * keeps its device open.
 */
#ifndef HAL_CONTEXT_H
#define HAL_CONTEXT_H

#include "hal/device.h"

/**
 * struct hal_context - a context; first member of the driver's
 * @ref: references; each stream, event, memory and module holds one
 * @dev: its device
 * @handle: its handle
 * @node: in the device's list
 * @lock: Protects: @streams, @memory, @apart, @reserves, @modules, @events, @ended_events,
 *	@ended_count, @dead, and going of @streams
 * @changed: a stream is gone, or is not going any more
 * @streams: its streams
 * @memory: its memory, and what is mapped
 * @apart: its memory without addresses
 * @reserves: its reservations
 * @modules: its modules
 * @events: the driver's parts of timed events
 * @ended_events: those that nobody holds but a record that is on its way
 * @ended_count: how many those are
 * @dead: destroyed: nothing new is made in it
 */
struct hal_context {
	struct kref ref;
	struct hal_device *dev;
	uint64_t handle;
	struct hal_list node;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct hal_list streams;
	struct hal_list memory;
	struct hal_list apart;
	struct hal_list reserves;
	struct hal_list modules;
	struct hal_list events;
	struct hal_list ended_events;
	uint32_t ended_count;
	bool dead;
};

/**
 * hal_context_create() - make a context
 * @dev: the device
 * @ctx: out: its handle
 *
 * Return: 0, -ENOSPC (the device has no more), -ENOMEM, or as the device fails.
 */
int hal_context_create(struct hal_device *dev, uint64_t *ctx);

/**
 * hal_context_destroy() - destroy a context and all that is in it
 * @ctx: its handle
 * @timeout_ms: how long to wait for its streams
 *
 * Streams drain, then streams, events, modules and memory go. [C-CTX-1] Handles and
 * pointers of what was in it are stale afterwards.
 * Return: 0, -EBADF, -ESTALE, -ETIMEDOUT (streams did not end in time: nothing was destroyed),
 * -EDEADLK (inside a callback).
 */
int hal_context_destroy(uint64_t ctx, int64_t timeout_ms);

/* The context of a handle with a reference, or NULL with the thread's record filled. */
struct hal_context *hal_context_get(uint64_t ctx, const char *op);
void hal_context_put(struct hal_context *ctx);

/* Wait until all streams have completed what was submitted before the call. */
int hal_context_sync(struct hal_context *ctx, int64_t timeout_ms, uint32_t flags);

#endif /* HAL_CONTEXT_H */
