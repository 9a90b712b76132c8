/* SPDX-License-Identifier: MIT */
/*
 * The user-mode half of the simulated NPU's driver. It reaches its device as it
 * would a real one: opened nodes, ioctls, shared rings.
 */
#ifndef DRIVERS_SIMNPU_SIMNPU_H
#define DRIVERS_SIMNPU_SIMNPU_H

#include <pthread.h>

#include "drivers/simnpu/model/simnpu_model.h"
#include "drivers/simnpu/options.h"
#include "hal/context.h"
#include "hal/device.h"
#include "hal/event.h"
#include "hal/kernel.h"
#include "hal/memory.h"
#include "hal/stream.h"
#include "hal/sys.h"
#include "uapi/simnpu.h"

/* How nodes are opened and reached; a test puts another one here before it opens devices. */
extern const struct hal_sys_ops *simnpu_sys;

/* The largest number that is an errno. */
#define SIMNPU_ERRNO_MAX 4095u

/* Buckets of the table that finds streams by their queues. */
#define SIMNPU_QUEUE_BUCKETS 256u

struct simnpu_ipc;

/**
 * struct simnpu_device - an open node
 * @base: the device
 * @sys: how the node is reached
 * @fd: the node
 * @max_queued: tasks that a queue holds
 * @lock: Protects: @queues, setting of @ipc
 * @queues: streams of the device by the handles of their queues
 * @ipc: what it hands to other processes, NULL: nothing yet
 */
struct simnpu_device {
	struct hal_device base;
	const struct hal_sys_ops *sys;
	int fd;
	uint32_t max_queued;
	pthread_mutex_t lock;
	struct hal_list queues[SIMNPU_QUEUE_BUCKETS];
	_Atomic(struct simnpu_ipc *) ipc;
};

struct simnpu_callbacks;

/* What threads of a context call: functions of the program; beginnings of host tasks. */
enum simnpu_called { SIMNPU_CALLBACKS, SIMNPU_HOST_TASKS, SIMNPU_CALLED };

/**
 * struct simnpu_ctx - a context
 * @base: the context
 * @handle: what the device calls it
 * @id: its number; never used again in this process
 * @arena: where the device's headers, rings and stamps are mapped
 * @arena_size: bytes of it
 * @fence: streams need a barrier before they read the doorbell
 * @lock: Protects: growth of the rings of its streams, @callbacks
 * @callback_state: enum simnpu_callback_state of both threads
 * @callbacks: the threads that run callbacks and begin host tasks, or NULL
 * @imports: struct simnpu_foreign of this context; under the lock of import.c
 */
struct simnpu_ctx {
	struct hal_context base;
	uint32_t handle;
	uint64_t id;
	char *arena;
	size_t arena_size;
	bool fence;
	pthread_mutex_t lock;
	_Atomic uint32_t callback_state[SIMNPU_CALLED];
	struct simnpu_callbacks *callbacks[SIMNPU_CALLED];
	struct hal_list imports;
};

enum simnpu_callback_state {
	SIMNPU_CALLBACK_NONE = 0,
	SIMNPU_CALLBACK_WANTED = 1,	/* a submission was put off for want of the thread */
	SIMNPU_CALLBACK_RUNNING = 2,
};

/**
 * struct simnpu_foreign - a stream as another device's context knows it
 * @next: next import of the same stream; set once, read without a lock
 * @context: simnpu_ctx.id of the importing context, 0: not in use
 * @handle: what the importing device calls the queue
 * @stream: the stream that was imported
 * @dev: the importing device
 * @node: in simnpu_ctx.imports
 *
 * Lives as long as the stream, so that a submission may walk the list while
 * entries come and go out of use.
 */
struct simnpu_foreign {
	struct simnpu_foreign *next;
	_Atomic uint64_t context;
	_Atomic uint32_t handle;
	struct simnpu_stream *stream;
	struct simnpu_device *dev;
	struct hal_list node;
};

/* Slots of data were written, which may look like descriptors: clear the next seq. */
#define SIMNPU_RING_DATA	(1u << 0)
/* The device needs a barrier between publishing and the doorbell. */
#define SIMNPU_RING_FENCE	(1u << 1)

/**
 * struct simnpu_ring - where a stream's next task is to be written
 * @slot: the segment that is written
 * @pos: the next slot
 * @limit: a task may take the slots up to here, and leaves this one for a link
 * @care: SIMNPU_RING_*: what a submission has to do beyond writing its task
 * @slots: slots of the segment
 * @base: slots written before the current lap over the segment, links included
 * @prev_base: the same before the previous lap over it
 * @prev_len: slots that the previous lap filled, 0: there was none
 *
 * Under the stream's submit lock.
 */
struct simnpu_ring {
	struct simnpu_desc *slot;
	uint32_t pos;
	uint32_t limit;
	uint32_t care;
	uint32_t slots;
	uint64_t base;
	uint64_t prev_base;
	uint32_t prev_len;
};

/**
 * struct simnpu_stream - a stream
 * @base: the stream
 * @header: its queue's header, in the arena
 * @ring: the producer's side of its ring
 * @handle: what the device calls its queue
 * @fd: the device's node
 * @sys: how that is reached
 * @max_queued: tasks that it may hold
 * @wanted: sequence number that a submission was put off with; for prepare
 * @spare: segment to go on in: offset in the arena, and the logarithm of its slots; 0: none.
 *	Put there by prepare, taken by a submission
 * @next_slots: slots of the segment that is made next; under simnpu_ctx.lock
 * @imports: the stream as contexts of other devices know it
 * @node: in simnpu_device.queues
 */
struct simnpu_stream {
	struct hal_stream base;
	_Alignas(HAL_CACHELINE) struct simnpu_queue_header *header;
	struct simnpu_ring ring;
	uint32_t handle;
	int fd;
	const struct hal_sys_ops *sys;
	uint32_t max_queued;
	_Atomic uint64_t wanted;
	_Atomic uint64_t spare;
	uint32_t next_slots;
	_Atomic(struct simnpu_foreign *) imports;
	struct hal_list node;
};

/* A timed event: a cell of its context's arena. */
struct simnpu_stamp {
	struct hal_event base;
	uint32_t handle;
	uint64_t stamp;
};

/* An allocation. */
struct simnpu_memory {
	struct hal_memory base;
	uint32_t handle;
};

/* A module. */
struct simnpu_mod {
	struct hal_module base;
	uint32_t handle;
};

static inline struct simnpu_device *to_simnpu_device(struct hal_device *dev)
{
	return container_of(dev, struct simnpu_device, base);
}

static inline struct simnpu_ctx *to_simnpu_ctx(struct hal_context *ctx)
{
	return container_of(ctx, struct simnpu_ctx, base);
}

static inline struct simnpu_stream *to_simnpu_stream(struct hal_stream *s)
{
	return container_of(s, struct simnpu_stream, base);
}

static inline struct simnpu_device *simnpu_device_of(struct hal_context *ctx)
{
	return to_simnpu_device(ctx->dev);
}

/* An ioctl on a context's device. */
static inline int simnpu_ioctl(struct hal_context *ctx, unsigned long request, void *arg)
{
	struct simnpu_device *dev = simnpu_device_of(ctx);

	return hal_sys_ioctl(dev->sys, dev->fd, request, arg);
}

/* node.c; device.c: ask a node for what it is, for drv.c. */
int simnpu_node_open(const struct hal_sys_ops *sys, uint32_t index, int *fd);
int simnpu_node_failed(int err, const char *op, uint32_t index);
int simnpu_node_info(const struct hal_sys_ops *sys, int fd, uint32_t index,
		     struct hal_device_info *info);
extern const struct hal_device_ops simnpu_device_ops;

/* stream.c, submit.c */
uint64_t simnpu_stream_name(struct simnpu_device *dev, uint32_t handle);
extern const struct hal_stream_ops simnpu_stream_ops;
int simnpu_launch(struct hal_stream *base, const struct hal_task *t, const struct hal_launch *l);
int simnpu_copy(struct hal_stream *base, const struct hal_task *t, const struct hal_copy *c);
int simnpu_fill(struct hal_stream *base, const struct hal_task *t, void *dst, int byte,
		size_t size);
int simnpu_wait(struct hal_stream *base, const struct hal_task *t, struct hal_stream *other,
		uint64_t seq);
int simnpu_record(struct hal_stream *base, const struct hal_task *t, struct hal_event *e);
int simnpu_callback(struct hal_stream *base, const struct hal_task *t, void (*fn)(void *arg),
		    void *arg, uint32_t flags);
int simnpu_host(struct hal_stream *base, const struct hal_task *t, void (*begin)(void *arg),
		void *arg);
void simnpu_host_done(struct hal_stream *base, uint64_t seq, int code);
void simnpu_kick(struct hal_stream *base);
int simnpu_prepare(struct hal_stream *base);

/* import.c: streams of other devices */
int simnpu_import_prepare(struct hal_stream *base, struct hal_stream *other);
bool simnpu_import_find(struct simnpu_ctx *ctx, struct simnpu_stream *other, uint32_t *handle);
/* The hal handle of the stream that a context's device calls so, or 0. */
uint64_t simnpu_import_name(struct simnpu_ctx *ctx, uint32_t handle);
void simnpu_import_drop_stream(struct simnpu_stream *s);
void simnpu_import_drop_context(struct simnpu_ctx *ctx);

/* callback.c */
int simnpu_callbacks_start(struct simnpu_ctx *ctx, enum simnpu_called kind);
void simnpu_callbacks_stop(struct simnpu_ctx *ctx);
void simnpu_callbacks_abort(struct simnpu_ctx *ctx);
int simnpu_callbacks_late(struct simnpu_ctx *ctx, uint32_t queue, uint64_t deadline);
int simnpu_callbacks_settle(struct simnpu_ctx *ctx, uint32_t queue, uint64_t deadline);
void simnpu_callbacks_abort_all(struct hal_device *dev);
int simnpu_callbacks_settle_all(struct hal_device *dev, uint64_t deadline);

extern const struct hal_event_ops simnpu_event_ops;
extern const struct hal_memory_ops simnpu_memory_ops;
extern const struct hal_kernel_ops simnpu_kernel_ops;

/* ipc.c */
void simnpu_ipc_fork_child(void);
void simnpu_ipc_stop(struct simnpu_device *dev);
void simnpu_ipc_forget(struct simnpu_device *dev, uint32_t handle);
int simnpu_ipc_export(struct hal_memory *m, uint32_t handle, size_t offset, uint32_t flags,
		      char *key);
int simnpu_ipc_allow(struct hal_memory *m, uint32_t handle, const int32_t *pids, size_t n);
int simnpu_ipc_import(struct hal_memory *m, const char *key, uint32_t *handle);

/* ipc_event.c */
void simnpu_ipc_event_fork_child(void);
int simnpu_ipc_event_export(struct hal_context *ctx, uint64_t event, uint32_t flags, char *key);
int simnpu_ipc_event_allow(uint64_t event, const int32_t *pids, size_t n);
int simnpu_ipc_event_import(struct hal_context *ctx, const char *key, int *fd);
int simnpu_ipc_event_ask(const char *key, const struct hal_point *p, bool wait, int *sock);
int simnpu_ipc_event_wait(struct hal_stream *s, const char *key, const struct hal_point *p,
			  uint64_t place);

/* memory.c: what the device calls the direction of a copy. */
uint32_t simnpu_copy_kind(const struct hal_copy *c);

#endif /* DRIVERS_SIMNPU_SIMNPU_H */
