/* SPDX-License-Identifier: MIT */
/*
 * What hal/'s files share among themselves.
 */
#ifndef HAL_INTERNAL_H
#define HAL_INTERNAL_H

#include "hal/event.h"
#include "hal/handle.h"
#include "hal/kernel.h"
#include "hal/log.h"
#include "hal/memory.h"
#include "hal/stream.h"
#include "hal/sys.h"
#include "hal/tls.h"
#include "hal/vmm.h"

#define HAL_INLINE static inline __attribute__((always_inline))
#define HAL_COLD __attribute__((noinline, cold))

/**
 * struct hal_stream_slot - the slot of a stream
 * @slot: the handle's part; its lock is the stream's submit lock
 * @err: HAL_ERR_*: what queries and waits have to look at
 * @next_seq: sequence number of the next task; written under the submit lock. Never restarts:
 *	the next stream in the slot goes on from it, so a point of an old stream is below it
 * @timeline: the driver's word, NULL: ask the driver; of a slot without a stream, @done
 * @done: last sequence number of the streams that were in the slot
 * @dev: device of the stream; read under the submit lock, or compared
 * @ctx: context of the stream; likewise
 * @old: handle of the last stream here that a restart has ended; as the two below under the lock
 * @old_generation: generation of its device
 * @old_ordinal: the device
 */
struct hal_stream_slot {
	struct hal_slot slot;
	_Atomic uint32_t err;
	_Atomic uint64_t next_seq;
	const uint64_t *_Atomic timeline;
	uint64_t done;
	struct hal_device *_Atomic dev;
	struct hal_context *_Atomic ctx;
	uint64_t old;
	uint64_t old_generation;
	int old_ordinal;
} __attribute__((aligned(2 * HAL_CACHELINE)));

/* hal_stream_slot.err: failures may be in the stream's list; its device is not OPEN. */
#define HAL_ERR_FAILED 1u
#define HAL_ERR_STATE 2u

/**
 * struct hal_event_slot - the slot of an event
 * @slot: the handle's part; its obj is the driver's part of a timed event, NULL before the first
 *	record, and of an untimed one, but for struct hal_ipc_event. Its lock is held by those
 *	who write what follows
 * @version: odd while @stream, @seq, @dev are written
 * @done: the version whose point somebody saw completed, with no failure; else odd
 * @flags: NPU_EVENT_*
 * @stream: stream of the last record
 * @seq: sequence number of the last record, 0: none
 * @dev: device of the last record, or of the driver's part
 */
struct hal_event_slot {
	struct hal_slot slot;
	_Atomic uint32_t version;
	_Atomic uint32_t done;
	_Atomic uint32_t flags;
	_Atomic uint64_t stream;
	_Atomic uint64_t seq;
	struct hal_device *_Atomic dev;
} __attribute__((aligned(HAL_CACHELINE)));

/**
 * struct hal_kernel_slot - the slot of a kernel
 * @slot: the handle's part
 * @token: hal_kernel.token
 * @ctx: context of the module; compared, not followed
 */
struct hal_kernel_slot {
	struct hal_slot slot;
	_Atomic uint64_t token;
	struct hal_context *_Atomic ctx;
} __attribute__((aligned(HAL_CACHELINE)));

#define HAL_HANDLE_CHUNKS ((1u << HAL_HANDLE_INDEX_BITS) / HAL_HANDLE_CHUNK)

extern char *_Atomic hal_handle_chunks[HAL_HANDLE_TYPES][HAL_HANDLE_CHUNKS];

/* hal_slot_at() where the size is known: a shift instead of two loads and a product. */
HAL_INLINE void *hal_typed_slot_at(enum hal_handle_type type, size_t size, uint64_t h)
{
	uint32_t i = hal_handle_index(h);
	char *c;

	if (unlikely(hal_handle_type(h) != (uint32_t)type))
		return NULL;
	c = hal_load_acquire(&hal_handle_chunks[type][i / HAL_HANDLE_CHUNK]);
	if (unlikely(!c))
		return NULL;
	return c + (size_t)(i % HAL_HANDLE_CHUNK) * size;
}

HAL_INLINE struct hal_stream_slot *hal_stream_slot_at(uint64_t h)
{
	return hal_typed_slot_at(HAL_HANDLE_STREAM, sizeof(struct hal_stream_slot), h);
}

HAL_INLINE struct hal_event_slot *hal_event_slot_at(uint64_t h)
{
	return hal_typed_slot_at(HAL_HANDLE_EVENT, sizeof(struct hal_event_slot), h);
}

HAL_INLINE struct hal_kernel_slot *hal_kernel_slot_at(uint64_t h)
{
	return hal_typed_slot_at(HAL_HANDLE_KERNEL, sizeof(struct hal_kernel_slot), h);
}

/* ---- how far a stream is ---- */

/* A slot's last completed number; false: ask the driver. */
HAL_INLINE bool hal_slot_word(struct hal_stream_slot *slot, uint64_t *word)
{
	const uint64_t *t = hal_load_acquire(&slot->timeline);

	if (unlikely(!t))
		return false;
	*word = hal_shm_load_acquire(t);
	return true;
}

HAL_INLINE bool hal_word_covers(uint64_t word, uint64_t seq)
{
	return (word & ~HAL_TIMELINE_ERROR) >= seq;
}

/* Whether there is a failure that somebody may have to be told of. Looked at after the word. */
HAL_INLINE bool hal_word_failed(struct hal_stream_slot *slot, uint64_t word)
{
	return (word & HAL_TIMELINE_ERROR) || hal_load_acquire(&slot->err);
}

/* With a reference: where there is no timeline, or a failure, or the device is not OPEN. */
int hal_query_slow(const struct hal_point *p);
/* Whether a point has completed without anything to say; fills no record. */
bool hal_clean_slow(const struct hal_point *p);
HAL_INLINE bool hal_slot_clean(struct hal_stream_slot *slot, const struct hal_point *p)
{
	uint64_t word;

	if (unlikely(!hal_slot_word(slot, &word)))
		return hal_clean_slow(p);
	if (!hal_word_covers(word, p->seq))
		return false;
	return likely(!hal_word_failed(slot, word)) || hal_clean_slow(p);
}

/* hal_point_query() for a slot that is there. */
HAL_INLINE int hal_slot_query(struct hal_stream_slot *slot, const struct hal_point *p)
{
	uint64_t word;

	if (unlikely(!hal_slot_word(slot, &word)))
		return hal_query_slow(p);
	if (!hal_word_covers(word, p->seq))
		return -EINPROGRESS;
	return unlikely(hal_word_failed(slot, word)) ? hal_query_slow(p) : 0;
}

/* ---- errors ---- */

/* hal_fail() with the device and stream that it is about; both may be 0. */
int hal_fail_at(int code, const char *op, const struct hal_device *dev, uint64_t stream,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* -EOPNOTSUPP, naming the device, unless it has the capabilities. */
int hal_need(const struct hal_device *dev, uint64_t caps, const char *op);
/* -EDEADLK inside a callback. */
int hal_may_block(const char *op);
/* How often the thread's record was filled. */
static inline uint32_t hal_fills(void)
{
	struct hal_tls *t = hal_tls_peek();

	return t ? t->fills : 0;
}

/*
 * Passes the code of a driver on. A driver that has not filled the record since @fills, as it
 * should have, gets a text. With no lock held: a code that may be a fault is a reason to ask.
 */
int hal_driver_failed(int code, const char *op, struct hal_device *dev, uint32_t fills);

/* limit.c: what can run out on a device. */
enum hal_limit {
	HAL_LIMIT_STREAMS,
	HAL_LIMIT_EVENTS,
	HAL_LIMIT_CONTEXTS,
};

/* hal_driver_failed(), and of -ENOSPC with the limit, own use and others', if it is reached. */
int hal_exhausted(int code, enum hal_limit what, struct hal_device *dev, const char *op,
		  uint32_t fills);
/* -ENOMEM with size, free and total. */
int hal_no_memory(struct hal_device *dev, size_t size, const char *op);

/* ---- devices, contexts ---- */

/* Whether a failure may be a fault of the device, about which it is worth asking. */
bool hal_fault_code(int code);
/* Ends all streams of generations before the device's; their handles say so from now on. */
void hal_streams_expire(struct hal_device *dev);
void hal_streams_expire_context(struct hal_context *ctx);
/* Why a handle is stale that a restart has ended; false: it is not that. */
bool hal_stream_expired(uint64_t stream, uint64_t *generation, int *ordinal);
/* Records on their way whose tasks are discarded: of all streams, or of one. */
void hal_events_cut_device(struct hal_device *dev);
void hal_events_cut_stream(struct hal_stream *s);
/* Makes device memory unsafe. */
void hal_memory_spoil(struct hal_device *dev, uint64_t addr, uint64_t size);
void hal_memory_spoil_list(struct hal_device *dev, const struct hal_poison *list, uint32_t n);

/* In the child of a fork: calls the drivers' ->fork_child. */
void hal_driver_fork_child(void);
/* Whether it is one of the open devices; for pointers without a reference. */
bool hal_device_is_open(const struct hal_device *dev);
/* The driver lacks an op that the capabilities ask for: -ENOSYS with its name. */
int hal_driver_check(const struct hal_driver *drv, const struct hal_device_info *info);
/* What is in the context goes stale; the objects stay. */
void hal_context_abandon(struct hal_context *ctx);
/* Under ctx->lock: -ESTALE when the context is being destroyed. */
int hal_context_alive_locked(struct hal_context *ctx, const char *op);
/* Waits for ctx->changed; false: the deadline has passed. */
bool hal_context_wait_locked(struct hal_context *ctx, uint64_t deadline);

/* ---- streams ---- */

/**
 * struct hal_stream_mark - a stream and how far to wait
 * @s: the stream, a reference
 * @seq: up to which task
 * @since: hal_stream.reported as the wait began
 */
struct hal_stream_mark {
	struct hal_stream *s;
	uint64_t seq;
	uint64_t since;
};

/**
 * struct hal_marks - streams and how far to wait
 * @n: how many
 * @mark: the streams
 * @few: room for as many as most contexts have
 */
struct hal_marks {
	uint32_t n;
	struct hal_stream_mark *mark;
	struct hal_stream_mark few[16];
};

/*
 * Streams of a context with what was submitted to them so far, each with a reference; -ENOMEM.
 * As the submit lock of each is taken, a launch under way has come to its end.
 */
int hal_marks_get(struct hal_context *ctx, struct hal_marks *m);
void hal_marks_put(struct hal_marks *m);

/* Last completed sequence number, with HAL_TIMELINE_ERROR; asks the driver if it must. */
int hal_stream_word(struct hal_stream *s, uint64_t *word);
/*
 * Under the context's lock: its queries and waits have to look at the device's state. stop: it is
 * being stopped, which ends waits under way.
 */
void hal_stream_mark_state(struct hal_stream *s, bool stop);
/*
 * -ECANCELED with a text when the device was stopped or the stream aborted since a wait began, at
 * which hal_stream.reported was @since; else 0.
 */
int hal_stream_interrupted(struct hal_stream *s, uint64_t since);
/*
 * Waits by the driver alone: reports nothing, whatever the device's state, unless it is LOST. What
 * is discarded meanwhile is done.
 */
int hal_stream_wait_host(struct hal_stream *s, uint64_t seq, uint64_t deadline, uint32_t flags);
/* The same as long as the device is OPEN; else, and then, 0: the caller looks at the state. */
int hal_stream_wait_open(struct hal_stream *s, uint64_t seq, uint64_t deadline, uint32_t flags);
/* hal_point_done() in one load, for use under a spin lock: no of a stream without a timeline. */
bool hal_point_passed(const struct hal_point *p);

/* The stream of a handle, with a reference, or NULL: the handle is not good. Fills no record. */
struct hal_stream *hal_stream_find(uint64_t stream);
/* The stream that a point lies in, with a reference; NULL: it is gone, the point done. */
struct hal_stream *hal_point_get(const struct hal_point *p);

/*
 * Destroying in steps, each with hal_stream.going set by the caller: retire, drain, then finish or
 * restore.
 */
void hal_stream_retire(struct hal_stream *s);
int hal_stream_drain(struct hal_stream *s, uint64_t deadline);
void hal_stream_restore(struct hal_stream *s);
/* Takes the stream out of its context and drops the context's hold of it. */
void hal_stream_finish(struct hal_stream *s);
/* The same for a device that is given up: the stream itself stays. */
void hal_stream_abandon(struct hal_stream *s);

/* wait.c: -ETIMEDOUT, with a text that says what the stream is at; seq 0: of no task. */
int hal_stream_too_long(struct hal_stream *s, const char *op, uint64_t seq, const char *what);

/* stream_error.c: takes failures from the driver into the stream's list. */
void hal_stream_collect(struct hal_stream *s);
/*
 * The errno of the first failure up to seq that nobody was told of, which stays untold; if asked
 * for, it is the thread's record, too.
 */
int hal_stream_peek(struct hal_stream *s, uint64_t seq, bool record);

/**
 * struct hal_failure - a task that failed, and where
 * @e: the task
 * @stream: handle of its stream
 * @generation: generation of its stream
 * @device: ordinal of its device
 */
struct hal_failure {
	struct hal_task_error e;
	uint64_t stream;
	uint64_t generation;
	int device;
};

/* Failures that one wait tells one by one; NPU_ERROR_LIST. */
#define HAL_REPORT_MAX 16

/**
 * struct hal_report - the failures that a wait reports
 * @n: entries of @list
 * @next: the one that hal_report_next() tells
 * @more: failures that @list has no room for
 * @list: the failures, in order
 */
struct hal_report {
	uint32_t n;
	uint32_t next;
	uint64_t more;
	struct hal_failure list[HAL_REPORT_MAX];
};

/*
 * Adds the failures up to @seq that nobody was told of, or that somebody was told of since @since
 * (hal_stream.reported), to the report; they count as told. Return: 0, or why the driver of an
 * open device does not tell; the thread's record says the same.
 */
int hal_stream_report(struct hal_stream *s, uint64_t seq, uint64_t since, struct hal_report *r);
/* After a wait: fills the record and returns the code of what hal_stream_report() finds or says. */
int hal_stream_outcome(struct hal_stream *s, uint64_t seq, uint64_t since);
void hal_stream_forget(struct hal_stream *s);

/* report.c: makes a report the thread's: record and list. 0, or the code of its first failure. */
int hal_report_tell(const struct hal_report *r);
/* One failure as the thread's record; the list stays. */
void hal_report_one(const struct hal_failure *f);
/* A failure, in the order of its stream, among those from number @from on. */
void hal_report_add(struct hal_report *r, uint32_t from, const struct hal_failure *f);

/* What a submission finds out under the lock, where no record can be filled. */
#define HAL_SUBMIT_STALE (-5001)	/* the stream's handle */
#define HAL_SUBMIT_STATE (-5002)	/* of the device */
#define HAL_SUBMIT_CAPS (-5003)		/* the device can't do this */
#define HAL_SUBMIT_XDEV (-5004)		/* something of another device or context */
#define HAL_SUBMIT_KERNEL (-5005)	/* the kernel's handle */
#define HAL_SUBMIT_ARGS (-5006)		/* more bytes of arguments than the device takes */
#define HAL_SUBMIT_BLOCKS (-5007)	/* more blocks than the device takes */
#define HAL_SUBMIT_AGAIN 1		/* of hal_submit_settle(): submit again */
/* What submissions to streams in blocking mode say: 0 and 1, and the task is to be waited for. */
#define HAL_SUBMIT_BLOCK 2
#define HAL_SUBMIT_BLOCK_KICK 3

/**
 * struct hal_submit - a submission under way
 * @stream: handle of the stream
 * @kernel: handle of the kernel, if it is a launch
 * @op: for the error record
 * @place: code address of the caller
 * @deadline: until when to wait for room, 0: not yet known
 * @seq: out: the task's sequence number; of one that was refused for a size, that size
 * @s: the stream, a reference, after a code other than 0 that it has to do with
 */
struct hal_submit {
	uint64_t stream;
	uint64_t kernel;
	const char *op;
	uint64_t place;
	uint64_t deadline;
	uint64_t seq;
	struct hal_stream *s;
};

/* Outside the lock: does what a code other than 0 asks for. 0: submitted; HAL_SUBMIT_AGAIN. */
int hal_submit_settle(struct hal_submit *sub, int code);
/* blocking.c: the ops of a new stream; what follows a submission that said HAL_SUBMIT_BLOCK*. */
const struct hal_stream_ops *hal_stream_ops_of(const struct hal_driver *drv);
int hal_blocking_wait(struct hal_submit *sub, int code, int64_t timeout_ms);
/* ---- events that processes share ---- */

/* hal_event_slot.flags: another process's; its obj, and that of NPU_EVENT_IPC, is one of these. */
#define HAL_EVENT_FOREIGN (1u << 31)
/* Those that are recorded in a way of their own. */
#define HAL_EVENT_SPECIAL (NPU_EVENT_TIMING | NPU_EVENT_IPC | HAL_EVENT_FOREIGN)

struct hal_ipc_event;

void hal_ipc_event_put(struct hal_ipc_event *e);
/* Under the lock of the event's slot. */
void hal_ipc_event_recorded(struct hal_ipc_event *e, uint64_t stream, uint64_t seq);
/*
 * Such a one's point has no seq, and in the place of a stream the address of its slot, which is
 * no handle: those have a type in the uppermost byte.
 */
HAL_INLINE bool hal_point_foreign(const struct hal_point *p)
{
	return p->stream && !(p->stream >> 56);
}

int hal_ipc_event_query(const struct hal_point *p);
int hal_ipc_event_sync(const struct hal_point *p, int64_t timeout_ms);
int hal_ipc_event_wait(uint64_t stream, const struct hal_point *p, uint64_t place);
/* Makes an imported event's handle. Return: 0, -ENOSPC, -ENOMEM. */
int hal_event_adopt(struct hal_ipc_event *e, struct hal_device *dev, uint64_t *event);
/* Forgets that the point was reached, of an imported one: the next record may not be. */
void hal_event_renew(struct hal_event_slot *slot);
int hal_ipc_need(struct hal_device *dev, uint64_t cap, const char *op);
int hal_ipc_check_pids(const int32_t *pids, size_t n, const char *op);

/* Submits the record of a timed event once, under the lock of the event's slot. */
int hal_submit_record(struct hal_submit *sub, struct hal_event *e);

/* ---- events, memory, modules of a context that goes ---- */

void hal_events_destroy(struct hal_context *ctx);
void hal_events_reap(struct hal_context *ctx, bool all);
void hal_memory_destroy(struct hal_context *ctx);
void hal_modules_destroy(struct hal_context *ctx);
/* The same for a device that is given up: handles go stale, the objects stay. */
void hal_events_abandon(struct hal_context *ctx);
void hal_memory_abandon(struct hal_context *ctx);
void hal_modules_abandon(struct hal_context *ctx);

/*
 * hal_map_lock Protects: hal_map (allocations and mappings by address), hal_va_map (addresses of
 * devices), reservations, and of struct hal_memory what is not constant: that it is in hal_map
 * (its range's size, 0: it is not), kind, making, unsafe, other, access, handle.
 */
extern pthread_rwlock_t hal_map_lock;
extern struct hal_range_map hal_map, hal_va_map;

/* The allocation or mapping that holds an address, or NULL. With hal_map_lock held. */
static inline struct hal_memory *hal_memory_at(uint64_t addr)
{
	struct hal_range *r = hal_range_find(&hal_map, addr);

	return r ? container_of(r, struct hal_memory, range) : NULL;
}

static inline enum hal_memory_kind hal_memory_plain(enum hal_memory_kind kind)
{
	return kind == HAL_MEMORY_UNSAFE || kind == HAL_MEMORY_GUARDED ? HAL_MEMORY_DEVICE : kind;
}

/* memory.c: the steps of an allocation, for those of hal/vmm.c too. */
struct hal_memory *hal_memory_new(struct hal_context *ctx, size_t size, enum hal_memory_kind kind,
				  uint32_t flags);
void hal_memory_free_base(struct hal_memory *m);
int hal_memory_check_alloc(struct hal_context *ctx, uint64_t caps, uint32_t flags, const char *op);
/* Makes it part of its context; the last step, after which it may be freed at any moment. */
int hal_memory_attach(struct hal_memory *m, const char *op);
void hal_memory_detach(struct hal_memory *m);
bool hal_memory_insert(struct hal_memory *m);
/* With hal_map_lock held for writing. Whoever gets true has the allocation to let go. */
bool hal_memory_take_out_locked(struct hal_memory *m);
/* Its kind, after what may be done with it, or its content, has changed. */
void hal_memory_settle_locked(struct hal_memory *m);

/* vmm.c: the last reference of a mapping, or of memory without an address. */
void hal_vm_memory_end(struct hal_memory *m);
/* Takes a mapping away, which is in no map any more. */
void hal_vm_mapping_drop(struct hal_memory *m);
/* What a context that goes has: memory first, then, behind all mappings, reservations. */
void hal_vm_memory_destroy(struct hal_context *ctx);
void hal_vm_reserves_destroy(struct hal_context *ctx);
void hal_vm_abandon(struct hal_context *ctx);

/* Device addresses, so that a stale pointer is never taken for one of the host. */
int hal_memory_add_device(struct hal_device *dev);
void hal_memory_del_device(struct hal_device *dev);
/*
 * Looks both sides of a copy up: their devices, no references. Returns NULL, or what is wrong and
 * with *which side: hal_memory_unsafe of a source that must not be read; hal_memory_cured when
 * nothing is wrong, and the destination is unsafe, and all of it.
 */
extern const char hal_memory_unsafe[], hal_memory_guarded[], hal_memory_cured[];
/* The errno of what is wrong, unless it is one of unsafe memory. */
static inline int hal_memory_wrong(const char *wrong)
{
	return wrong == hal_memory_guarded ? -EACCES : -EINVAL;
}

const char *hal_memory_look(const struct hal_copy *c, uint64_t dst_span, uint64_t src_span,
			    struct hal_device **dst_dev, struct hal_device **src_dev,
			    const char **which);
/*
 * The allocation of device memory that a range lies in, with a reference, or NULL; *safe: its
 * content can be relied upon. What is freed meanwhile goes with the last reference.
 */
struct hal_memory *hal_memory_get(const void *ptr, size_t size, bool *safe);
void hal_memory_put(struct hal_memory *m);
/* What was unsafe and lies in this range was written. */
void hal_memory_written(void *ptr, size_t size);

#endif /* HAL_INTERNAL_H */
