/* SPDX-License-Identifier: MIT */
/*
 * What the files of the fake driver share.
 */
#ifndef SELFTESTS_FAKES_INTERNAL_H
#define SELFTESTS_FAKES_INTERNAL_H

#include <fcntl.h>
#include <sys/mman.h>

#include "hal/event.h"
#include "hal/kernel.h"
#include "hal/stream.h"
#include "hal/vmm.h"
#include "selftests/fakes/driver.h"

/**
 * struct fake_state - the driver
 * @lock: Protects: all below but @caps and @timeline, which tests set beforehand, and what lies in
 *	the driver's objects
 * @work: there may be something to do, or the worker is to end
 * @done: a task has completed
 * @streams: all streams
 * @caps: what devices report
 * @timeline: whether new streams publish one
 * @paused: no task starts
 * @stop: the worker is to end
 * @hang: tasks that run don't end
 */
struct fake_state {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t done;
	struct hal_list streams;
	uint64_t caps;
	bool timeline;
	bool paused;
	bool stop;
	bool hang;
};

extern struct fake_state fake;

/* Bytes of addresses of a device, and how many of them, from the first on, are for allocations. */
#define FAKE_PLAIN (FAKE_MEMORY * 2ull)
#define FAKE_VA (FAKE_MEMORY * 4ull)

struct fake_phys;

struct fake_memory {
	struct hal_memory base;
	struct hal_list node;
	struct fake_phys *phys;
};

struct fake_device {
	struct hal_device base;
	char *va;
	uint64_t used;
	uint32_t contexts;
	uint32_t streams;
	uint32_t events;
	struct hal_list memory;
	struct hal_list reserves;
	struct hal_list mappings;
	struct hal_health health;
	struct hal_poison poison[FAKE_POISON];
	uint32_t poison_count;
	_Atomic bool stopped;
};

static inline struct fake_device *to_fake_device(struct hal_device *dev)
{
	return container_of(dev, struct fake_device, base);
}

enum fake_kernel {
	FAKE_KERNEL_NONE,
	FAKE_KERNEL_NOP,
	FAKE_KERNEL_INC,
	FAKE_KERNEL_DELAY,
	FAKE_KERNEL_BIAS,
};

enum fake_kind {
	FAKE_LAUNCH, FAKE_COPY_TASK, FAKE_FILL_TASK, FAKE_WAIT, FAKE_RECORD, FAKE_CALLBACK,
	FAKE_HOST_TASK,
};

/* A task. What it waits for, and the stamp it writes, live as long as it does. */
struct fake_task {
	struct hal_task base;
	enum fake_kind kind;
	uint32_t blocks;
	uint32_t args_size;
	uint64_t kernel;
	char args[256];
	struct hal_copy copy;
	void *dst;
	int byte;
	size_t size;
	struct fake_word *other;
	uint64_t other_seq;
	uint64_t other_handle;
	struct hal_event *event;
	void (*fn)(void *arg);
	void *arg;
	uint32_t flags;
};

/**
 * struct fake_word - progress of a stream, readable until the process ends
 * @word: the timeline
 * @failed: the last failure
 * @taken: it was taken by the core
 */
struct fake_word {
	uint64_t word;
	struct hal_task_error failed;
	bool taken;
};

#define FAKE_ERRORS 8u		/* failures of a stream that are kept */

/**
 * struct fake_stream - a stream
 * @word: its progress
 * @tail: tasks submitted; written under the submit lock
 * @head: tasks completed
 * @busy: one of its tasks runs
 * @hosted: that is the host's, and was begun
 * @beginning: the worker is inside its beginning
 * @abort: what is queued is to be discarded
 * @stopped: a task failed in mode stop
 * @errors: failures that were not taken yet
 */
struct fake_stream {
	struct hal_stream base;
	struct hal_list node;
	struct fake_word *word;
	_Atomic uint64_t tail;
	_Atomic uint64_t head;
	bool busy;
	bool hosted;
	bool beginning;
	_Atomic bool abort;
	bool stopped;
	struct hal_task_error errors[FAKE_ERRORS];
	uint32_t error_count;
	uint64_t dropped;
	struct notice {
		uint64_t seq;
		int fd;
	} notices[4];
	struct fake_task ring[FAKE_QUEUED];
};

static inline struct fake_stream *to_fake_stream(struct hal_stream *s)
{
	return container_of(s, struct fake_stream, base);
}

static inline uint64_t fake_completed(const struct fake_stream *s)
{
	return s->base.first_seq - 1 + hal_load_acquire(&s->head);
}

int fake_op(enum fake_op op);
void fake_object(int change);
int fake_streams_stop(struct hal_device *dev, uint64_t deadline);
void fake_do_copy(const struct hal_copy *c);
bool fake_reachable(struct hal_device *dev, uint64_t addr, uint64_t size);

/* worker.c */
extern const char *const fake_op_names[];
int fake_worker_start(void);
void fake_worker_stop(void);
void fake_publish_locked(struct fake_stream *s);
void fake_notify_locked(struct fake_stream *s);
bool fake_calls_locked(const struct fake_stream *s);
void fake_unhost_locked(struct fake_stream *s);
void fake_host_done(struct hal_stream *base, uint64_t seq, int code);

/* vmm.c */
int fake_reserve(struct hal_context *ctx, uint64_t want, uint64_t size, uint64_t align,
		 uint64_t *addr);
void fake_release(struct hal_context *ctx, uint64_t addr, uint64_t size);
int fake_create(struct hal_memory *m);
void fake_destroy(struct hal_memory *m);
int fake_map(struct hal_memory *m, uint64_t addr, uint32_t access);
int fake_unmap(struct hal_context *ctx, uint64_t addr, uint64_t size);
int fake_protect(struct hal_context *ctx, uint64_t addr, uint64_t size, uint32_t access);
int fake_export_fd(struct hal_memory *m, int *fd);
int fake_import_fd(struct hal_memory *m, int fd);
bool fake_mapped_locked(struct fake_device *d, uint64_t addr, uint64_t size);

extern const struct hal_stream_ops fake_stream_ops;
extern const struct hal_event_ops fake_event_ops;

#endif /* SELFTESTS_FAKES_INTERNAL_H */
