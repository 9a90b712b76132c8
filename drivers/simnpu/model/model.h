/* SPDX-License-Identifier: MIT */
/*
 * The simulated device, inside: what the files of this folder share.
 *
 * Devices, open files and queues are never given back to the system, only used
 * again: what runs without a lock may look at one that is gone, and finds out
 * by its number (uid, handle), which is never the same twice.
 *
 * Order of the locks: Documentation/locking.rst.
 */
#ifndef DRIVERS_SIMNPU_MODEL_MODEL_H
#define DRIVERS_SIMNPU_MODEL_MODEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/simnpu/model/handle.h"
#include "drivers/simnpu/model/instance.h"
#include "drivers/simnpu/model/memory.h"
#include "drivers/simnpu/model/queue.h"
#include "hal/base.h"
#include "hal/log.h"
#include "hal/option.h"
#include "hal/range.h"
#include "hal/sys.h"
#include "npu/simnpu_kernel.h"
#include "uapi/simnpu.h"

#define MODEL_PRIORITIES	8u
#define MODEL_CORES_MAX		64u
#define MODEL_DMA_MAX		4u
#define MODEL_THREADS_MAX	(MODEL_CORES_MAX + 3 * MODEL_DMA_MAX + 1)
#define MODEL_CONTEXTS_MAX	64u
#define MODEL_MAX_QUEUED	(1u << 20)
#define MODEL_ARGS_MAX		4096u
#define MODEL_DESC_SLOTS	64u	/* behind the first one */
#define MODEL_ALIGN		512u	/* of device memory */
#define MODEL_PAGE		4096u
#define MODEL_HUGE		(2ull << 20)
#define MODEL_LOOK_NS		50000ull	/* between looks at the rings */
#define MODEL_RETIRE_NS		10000000ull	/* a queue without work is let go after */
#define MODEL_HUNG_NS	5000000000ull	/* what a task may take to end when it is asked to */
#define MODEL_SHORT_COPY	(64u << 10)	/* bytes that a wait with a deadline may copy */

#define MODEL_TIMELINE_MASK	(~SIMNPU_TIMELINE_ERROR)
/* What the timeline of a queue says whose ring can't be followed any more. */
#define MODEL_TIMELINE_BROKEN	((1ull << 63) - 1)

struct model_device;
struct model_file;
struct model_context;
struct model_queue;
struct model_module;

/* ---- parts --------------------------------------------------------------- */

/**
 * struct model_part - limits of a part
 * @option: its name in the option simnpu_part
 * @name: its name in struct simnpu_info
 * @memory: bytes
 * @cores: AI cores
 * @max_queues: queues at a time
 * @max_events: timed events at a time
 * @caps: SIMNPU_CAP_BF16, SIMNPU_CAP_INF_NAN
 */
struct model_part {
	const char *option;
	const char *name;
	uint64_t memory;
	uint32_t cores;
	uint32_t max_queues;
	uint32_t max_events;
	uint64_t caps;
};

const struct model_part *model_part_get(uint64_t *memory);
const struct model_part *model_part_named(const char *name);

/* ---- kernels ----------------------------------------------------------------- */

/**
 * struct model_kernel - a kernel behind its number; never given back
 * @id: the number while it is one, else 0
 * @fn: the function
 * @module: its module
 * @builtin: linked into the program
 * @block_ns: what a block took of late
 * @last: generation of the last number
 * @index: which it is on the device
 * @next_free: index + 1 of the next one that is free
 * @node: in the module's list
 */
struct model_kernel {
	_Atomic uint64_t id;
	npu_simnpu_kernel_fn *fn;
	_Atomic(struct model_module *) module;
	bool builtin;
	_Atomic uint32_t block_ns;
	uint32_t last;
	uint32_t index;
	uint32_t next_free;
	struct hal_list node;
};

struct model_module {
	struct hal_list node;
	struct model_context *ctx;
	uint32_t handle;
	bool builtin;
	void *dl;
	int fd;
	struct hal_list kernels;
};

/* A queue of another file or device, behind a handle. */
struct model_import {
	struct hal_list node;
	struct model_context *ctx;
	uint32_t handle;
	struct model_queue *queue;
	uint64_t uid;
};

struct model_event {
	struct hal_list node;
	struct model_context *ctx;
	uint32_t handle;
	uint64_t stamp;
};

/* What CALLBACK_NEXT gives out: SIMNPU_OP_CALLBACK, SIMNPU_OP_HOST. */
enum model_called { MODEL_CALLBACKS, MODEL_HOST_TASKS, MODEL_CALLED };

/* A callback whose turn has come. */
struct model_callback {
	struct hal_list node;
	struct model_queue *queue;
	uint32_t handle;
	uint32_t flags;
	uint32_t slots;
	uint64_t seq;
	uint64_t fn;
	uint64_t arg;
};

/**
 * struct model_context - a context
 * @cb_lock: Protects: @callbacks, @cb_stop, model_queue.cb
 * @callbacks: callbacks whose turn has come and that nobody took, by enum model_called
 * @cb_word: changes when a callback comes, or the end
 * @users: threads inside CALLBACK_NEXT
 */
struct model_context {
	struct hal_list node;
	struct model_file *file;
	struct model_device *dev;
	uint32_t handle;
	struct model_arena *arena;
	struct hal_list queues;
	struct hal_list imports;
	struct hal_list mems;
	struct hal_range_map reserves;
	struct hal_range_map mappings;
	struct hal_list events;
	struct hal_list modules;
	struct hal_spin cb_lock;
	struct hal_list callbacks[MODEL_CALLED];
	bool cb_stop;
	_Atomic uint32_t cb_word[MODEL_CALLED];
	_Atomic uint32_t users;
};

/**
 * struct model_file - an open node; never given back to the system
 * @fd: its descriptor, -1 when closed
 * @dev: the device
 * @table: handles
 * @event_lock: Protects: events as engines find them
 * @contexts: contexts, by index; protected by the device's lock
 * @context_last: last generation of each
 */
struct model_file {
	_Atomic int fd;
	struct model_device *dev;
	struct model_table table;
	struct hal_spin event_lock;
	struct model_context *contexts[MODEL_CONTEXTS_MAX];
	uint32_t context_last[MODEL_CONTEXTS_MAX];
	struct hal_list node;
	struct model_file *next_free;
};

/* ---- jobs: work that several threads share -------------------------------------- */

/**
 * struct model_job - blocks of a launch, or pieces of a copy
 * @node: in the device's list while there are blocks to take
 * @range: blocks that nobody took: the first in the low half, the end in the high one
 * @helpers: threads that work on it, besides the owner
 * @class: what a helper needs a token of
 * @queue: the queue whose task it is, or NULL
 * @run: runs a block with a token
 *
 * The owner takes blocks from the front, helpers from the back.
 */
struct model_job {
	struct hal_list node;
	_Atomic uint64_t range;
	_Atomic uint32_t helpers;
	enum model_class class;
	const struct model_queue *queue;
	void (*run)(struct model_job *job, struct model_device *dev, uint32_t token, uint32_t i);
};

/* ---- devices -------------------------------------------------------------------- */

/* The right to run a task on a core, or a copy on a channel. */
struct model_token {
	_Alignas(64) _Atomic uint32_t taken;
};

/* What a core keeps between blocks: the holder of its token has it alone. */
struct model_core {
	_Alignas(64) struct npu_simnpu_block blk;
	uint64_t fault_addr;
	uint32_t fault_code;
	struct model_device *dev;
};

/* What INFO tells of a device's health. */
struct model_health {
	_Atomic uint64_t ecc_corrected, ecc_uncorrected, link_errors, hangs, restarts;
};

/**
 * struct model_device - a device; never given back to the system
 * @lock: Protects: files, contexts and all that hangs on them, counts of objects
 * @sched: Protects: ready lists, changes of a queue's state to and from RUN_READY, @jobs
 * @ready: queues that could run, by class and priority
 * @ready_map: a bit per class and priority that has some
 * @tokens: the right to run a task, by class
 * @look_lock: Protects: @active, retiring, destruction of what is in it
 * @active: queues that are looked at
 * @kicked: queues on the way there
 * @last_look: when the rings were looked at last
 * @bell: changes when there is something for an engine thread
 * @awake: engine threads that are not fast asleep
 * @idle: those of them that have no work
 * @sleepers: engine threads that are fast asleep
 * @grants: sleepers that may get up; also the word that they sleep on
 * @thread_lock: Protects: @threads, @thread_count
 * @state: SIMNPU_STATE_*
 * @cause: simnpu_info.cause
 * @generation: simnpu_info.generation
 * @health: counts
 * @changed: counts changes of @state
 * @change_lock: Protects: nothing; one stop or restart at a time
 * @copies: threads inside COPY
 * @odd: it is in another state than OK
 * @hung: a task does not end, and its thread is left to it; under @lock
 * @queue_number: queues made since it came up
 * @own: what this process has of it
 * @slot: its slot in the file of the instance, plus 1; 0: none; under the instance's lock
 */
struct model_device {
	uint32_t index;
	uint32_t cores;
	uint32_t dma;
	bool strict;
	bool asym;		/* membarrier works: runners need no fences */
	bool borrow_modules;
	_Atomic bool paused;
	_Atomic bool stop;
	_Atomic bool live;	/* its memory is there */
	_Atomic uint32_t pins;	/* copies of other devices that use its memory */
	const struct model_part *part;
	struct model_memory mem;

	_Alignas(64) struct hal_spin sched;
	struct hal_list ready[CLASS_COUNT][MODEL_PRIORITIES];
	struct hal_list jobs;
	_Alignas(64) _Atomic uint64_t ready_map;
	_Atomic uint32_t job_count;
	struct model_token tokens[CLASS_COUNT][MODEL_CORES_MAX];
	_Alignas(64) _Atomic(struct model_queue *) kicked;
	_Atomic uint32_t bell;
	_Atomic uint32_t awake;
	_Atomic uint32_t idle;
	_Atomic uint32_t sleepers;
	_Atomic uint32_t grants;
	_Atomic uint64_t last_look;

	_Alignas(64) pthread_mutex_t look_lock;
	struct model_queue **active;
	_Atomic uint32_t active_count;
	uint32_t active_room;
	/* hints: the cores that the host's thread and the last job were seen on */
	_Atomic int host_cpu;
	_Atomic int job_cpu;
	uint64_t last_retire;

	pthread_mutex_t thread_lock;
	pthread_t threads[MODEL_THREADS_MAX];
	_Atomic uint32_t thread_count;
	uint32_t thread_max;

	_Atomic uint32_t state;
	_Atomic uint32_t changed;
	_Atomic uint32_t cause;
	_Atomic uint32_t generation;
	struct model_health health;
	pthread_mutex_t change_lock;
	_Atomic uint32_t copies;
	bool odd;

	pthread_mutex_t lock;
	struct hal_list files;
	uint32_t opens;
	bool hung;
	uint32_t queue_number;
	struct model_device *next_spare;
	_Atomic uint64_t own[MODEL_WHATS];
	uint32_t slot;
	uint64_t next_uid;
	struct model_queue *free_queues;

	_Atomic(struct model_kernel *) kernels[256];	/* chunks of 256 */
	_Atomic uint32_t kernel_count;
	uint32_t free_kernels;

	struct hal_spin busy_lock;	/* Protects: the samples */
	uint64_t busy_from;
	uint64_t busy_last;
	uint64_t busy_ns;
	uint64_t busy_prev;

	struct model_core core[MODEL_CORES_MAX];
};

#define MODEL_PATH 64u

/**
 * struct model_worker - a thread that runs tasks
 * @dev: the device of @class's token
 * @class: class of the token it holds, or CLASS_CONTROL
 * @token: which
 * @borrower: a waiting thread
 * @until: BORROWER: stop when the queue @target has completed this
 * @target: BORROWER: what it waits for
 * @short_only: BORROWER: bounded tasks only
 * @modules: may run kernels of loaded modules
 * @deadline: BORROWER: when it must be done with
 * @next: BORROWER: a queue that came free, claimed by this thread, to be run next
 * @blocked_on: what the queue that was just parked waits for
 * @path: BORROWER: the last of the queues between @target and the one that runs,
 *	each parked on the next one
 * @path_len: how many
 * @naps: ENGINE: since it was asleep
 */
struct model_worker {
	struct model_device *dev;
	enum model_class class;
	uint32_t token;
	bool borrower;
	bool short_only;
	bool modules;
	uint64_t until;
	uint64_t deadline;
	struct model_queue *target;
	struct model_queue *next;
	struct model_queue *blocked_on;
	struct model_queue *path[MODEL_PATH];
	uint32_t path_len;
	uint32_t naps;
};

/* Results of a task besides 0 and positive errnos. */
#define MODEL_TASK_GONE		(-1)	/* the queue is parked, or with a callback */
#define MODEL_TASK_NOT_HERE	(-2)	/* another thread must run it */

/* Why a queue was left. */
enum model_left {
	LEFT_EMPTY,	/* nothing to run */
	LEFT_GONE,	/* parked, or with a callback: somebody else's now */
	LEFT_READY,	/* in a ready list */
	LEFT_DONE,	/* BORROWER: reached what it waits for */
};

/* What every entry looks at, in one load: bits of MODEL_ODD_*, 0 all the time. */
extern _Atomic uint32_t model_odd;
#define MODEL_ODD_FORKED	1u	/* the child of a fork: nothing works any more */
#define MODEL_ODD_FAULTS	2u	/* something is made to fail */
#define MODEL_ODD_STATE		4u	/* a device is in another state than OK */

static inline bool model_forked(void)
{
	return hal_load_relaxed(&model_odd) & MODEL_ODD_FORKED;
}

/* file.c */
struct model_file *model_file_of(int fd);
struct model_device *model_device_of(uint32_t index);
struct model_device *model_device_pin(uint64_t addr);
void model_device_unpin(struct model_device *dev);
void model_file_close(struct model_file *f);
int model_device_open(uint32_t index, struct model_device **dev);
void model_device_close(struct model_device *dev);
void model_device_detach(struct model_device *dev);
uint32_t model_devices(void);

/* ioctl.c */
int model_ioctl(int fd, unsigned long request, void *arg);

/* context.c */
struct model_context *model_context_find(struct model_file *f, uint32_t handle);
struct model_context *model_context_next(struct model_device *dev, const struct model_context *ctx);
int model_context_create(struct model_file *f, struct simnpu_context *arg);
int model_context_destroy(struct model_file *f, const struct simnpu_handle *arg);
void model_context_free(struct model_context *ctx);
int model_event_create(struct model_file *f, struct simnpu_event *arg);
int model_event_destroy(struct model_file *f, const struct simnpu_handle *arg);
int model_event_record(struct model_queue *q, uint32_t handle);

/* object.c */
int model_mem_create(struct model_file *f, struct simnpu_mem *arg);
int model_mem_destroy(struct model_file *f, const struct simnpu_mem_free *arg);
int model_mem_register(struct model_file *f, struct simnpu_register *arg);
int model_mem_window(struct model_file *f, struct simnpu_window *arg);
void model_mem_free(struct model_mem *mem);
struct model_mem *model_mem_new(struct model_file *f, uint32_t context, int *rc);
int model_mem_publish(struct model_file *f, struct model_mem *mem, uint32_t context);

/* share.c */
int model_mem_export(struct model_file *f, struct simnpu_export *arg);
int model_mem_import(struct model_file *f, struct simnpu_import *arg);
void model_mem_end(struct model_mem *mem);

/* vm.c */
int model_phys_alloc(struct model_memory *m, struct model_mem *mem, uint32_t flags);
void model_phys_free(struct model_memory *m, struct model_mem *mem);
int model_vm_reserve(struct model_file *f, struct simnpu_vm *arg);
int model_vm_release(struct model_file *f, const struct simnpu_vm *arg);
int model_vm_map(struct model_file *f, const struct simnpu_vm *arg);
int model_vm_unmap(struct model_file *f, const struct simnpu_vm *arg);
int model_vm_protect(struct model_file *f, const struct simnpu_vm *arg);
void model_vm_drop(struct model_context *ctx);

/* xfer.c */
int model_copy_ioctl(struct model_file *f, const struct simnpu_copy *arg);
int model_xfer(struct model_device *dev, uint32_t token, const struct simnpu_copy *c,
	       uint64_t *addr);

/* queue.c */
int model_queue_create(struct model_file *f, struct simnpu_queue *arg);
int model_queue_destroy(struct model_file *f, const struct simnpu_handle *arg);
int model_queue_grow(struct model_file *f, struct simnpu_grow *arg);
int model_queue_errors(struct model_file *f, struct simnpu_errors *arg);
int model_queue_export(struct model_file *f, struct simnpu_export *arg);
int model_queue_import(struct model_file *f, struct simnpu_import *arg);
void model_queue_kill(struct model_queue *q);
int model_queue_resolve(struct model_queue *q, uint32_t handle, struct model_queue **other,
			uint64_t *uid);

/* error.c */
void model_queue_unmark(struct model_queue *q);
int model_queue_at(struct model_file *f, struct simnpu_at *arg);
bool model_head_copy(struct model_queue *q, struct simnpu_at *arg);
struct model_failures *model_failures_get(struct model_queue *q);
void model_queue_fail(struct model_queue *q, uint64_t seq, uint32_t code,
		      const struct model_origin *origin);
bool model_queue_failed_locked(struct model_queue *q, uint64_t seq, struct model_origin *origin);
bool model_queue_failed(struct model_queue *q, uint64_t uid, uint64_t seq,
			struct model_origin *origin);

/* wait.c */
int model_wait(struct model_file *f, const struct simnpu_wait *w);
int model_notify(struct model_file *f, const struct simnpu_notify *arg);
void model_wake(struct model_queue *q, uint64_t uid, uint64_t seq, struct model_worker *w);
void model_wake_all(struct model_queue *q);
void model_wake_threads(struct model_queue *q);
bool model_park(struct model_queue *q, struct model_queue *other, uint64_t uid, uint64_t seq);
bool model_unpark(struct model_queue *q);

/* sched.c */
void model_ready(struct model_queue *q, enum model_class class);
struct model_queue *model_ready_pop(struct model_worker *w);
bool model_ready_steal(struct model_queue *q);
bool model_should_yield(struct model_worker *w, struct model_queue *q, bool slice);
uint32_t model_ready_takeable(struct model_device *dev);

/* engine.c */
int model_kick(struct model_queue *q);
void model_bell(struct model_device *dev);
int model_thread_need(struct model_device *dev);
void model_engine_stop(struct model_device *dev);
void model_engine_abandon(struct model_device *dev);
void model_active_remove(struct model_queue *q);
void model_look(struct model_device *dev, uint64_t now);
void model_barrier(struct model_device *dev);
uint32_t model_utilization(struct model_device *dev);

/* run.c */
enum model_left model_run(struct model_worker *w, struct model_queue *q);
void model_complete(struct model_worker *w, struct model_queue *q, uint32_t slots);
bool model_head_valid(struct model_queue *q);
bool model_head_hint(struct model_queue *q);
bool model_follow(struct model_queue *q, const struct simnpu_desc *slot);
void model_task_fail(struct model_queue *q, const struct simnpu_desc *d, uint32_t code,
		     uint64_t addr);
struct model_origin model_task_origin(struct model_queue *q, const struct simnpu_desc *d,
				      uint32_t code, uint64_t addr);
int model_run_then(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		   const struct simnpu_desc *slot);

/* job.c */
void model_job_run(struct model_job *job, struct model_device *dev, uint32_t token,
		   uint32_t count, bool wake);
struct model_job *model_job_take(struct model_device *dev, uint32_t *token);
void model_job_help(struct model_job *job, struct model_device *dev, uint32_t token);

/* launch.c */
int model_launch(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		 const struct simnpu_desc *ring, uint64_t *addr);
void model_core_init(struct model_device *dev);

/* module.c */
int model_module_load(struct model_file *f, struct simnpu_module *arg);
int model_module_unload(struct model_file *f, const struct simnpu_handle *arg);
int model_kernel_get(struct model_file *f, struct simnpu_kernel *arg);
void model_module_free(struct model_module *m);

/* callback.c */
int model_callback_post(struct model_queue *q, const struct simnpu_desc *d);
int model_callback_next(struct model_file *f, struct simnpu_callback *arg);
int model_callback_done(struct model_file *f, const struct simnpu_callback *arg);
int model_callback_stop(struct model_file *f, const struct simnpu_handle *arg);
bool model_callback_cancel(struct model_queue *q);
void model_callback_end(struct model_context *ctx);
void model_callback_drop(struct model_context *ctx);

/* user.c */
int model_pin(struct model_mem *mem);
void model_unpin(struct model_mem *mem);
bool model_readable(uint64_t addr, uint64_t size);
int model_copy_in(void *to, uint64_t from, size_t size);
/* elf.c: whether the loader can be trusted with a file: 0, -ENOEXEC. */
int model_elf_check(const void *head, size_t size, uint64_t length);
int model_copy_out(uint64_t to, const void *from, size_t size);

/* segv.c */
void model_segv_install(void);

static inline bool model_paused(struct model_device *dev)
{
	return IS_ENABLED(CONFIG_SELFTESTS) && hal_load_relaxed(&dev->paused);
}

/* Counters of the back door. */
struct model_counters {
	_Atomic uint64_t kicks, wakes, borrowed, looks, ioctls[128];
};

extern struct model_counters model_counters;

#define model_count(c) do {						\
		if (IS_ENABLED(CONFIG_SELFTESTS))			\
			hal_add_relaxed(&model_counters.c, 1);		\
	} while (0)
/* Where a locked add would cost too much: some may be lost between threads. */
#define model_count_plain(c) do {					\
		if (IS_ENABLED(CONFIG_SELFTESTS))			\
			hal_store_relaxed(&model_counters.c,		\
					  hal_load_relaxed(&model_counters.c) + 1); \
	} while (0)

#include "drivers/simnpu/model/fault.h"

/* Whether this call is to fail: 0, or the errno, positive. */
static inline int model_fault(int what)
{
	/* relaxed: who sets faults up does so before he starts what they are for */
	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS) ||
	    likely(!(hal_load_relaxed(&model_odd) & MODEL_ODD_FAULTS)))
		return 0;
	return model_fault_now(what);
}

#endif /* DRIVERS_SIMNPU_MODEL_MODEL_H */
