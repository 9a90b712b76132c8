/* SPDX-License-Identifier: MIT */
/*
 * What the files of the runtime share.
 *
 * Every public function begins with rt_enter(), one load while the library is
 * ready. What a thread has set (device, context, streams) lies in struct
 * rt_thread; what the process has of a device in struct rt_device, of which there
 * is one for each ordinal, never freed. A thread notices that devices were
 * reset or the library was finalized by rt.epoch, so nobody walks threads.
 */
#ifndef RUNTIME_INTERNAL_H
#define RUNTIME_INTERNAL_H

#include <pthread.h>

#include "hal/context.h"
#include "hal/device.h"
#include "hal/error.h"
#include "hal/event.h"
#include "hal/fork.h"
#include "hal/handle.h"
#include "hal/kernel.h"
#include "hal/log.h"
#include "hal/memory.h"
#include "hal/option.h"
#include "hal/stream.h"
#include "hal/sys.h"
#include "hal/tls.h"
#include "hal/vmm.h"
#include "npu/npu.h"

/* Devices that one process can use. */
#define RT_DEVICES 64
/* Shared streams of one priority on one device; the maximum of stream_pool_size. */
#define RT_POOL_MAX 128
#define RT_PRIORITIES (NPU_PRIORITY_LOWEST + 1)
/* Handles of which a thread remembers the device. */
#define RT_CACHE 16

/* The code address that errors name: who called the public function. */
#define RT_PLACE ((uint64_t)(uintptr_t)__builtin_return_address(0))

/**
 * struct rt_visible - the devices that the process may use
 * @drv: their driver, NULL: none has a device
 * @count: how many
 * @index: the driver's number of each
 */
struct rt_visible {
	const struct hal_driver *drv;
	uint32_t count;
	uint32_t index[RT_DEVICES];
};

/**
 * struct rt_hook - a function and what it is called with
 * @next: the one behind it
 * @fn: the function
 * @arg: for it
 * @serial: counts registrations
 */
struct rt_hook {
	struct rt_hook *next;
	int (*fn)(void *arg);
	void *arg;
	uint64_t serial;
};

/**
 * struct rt_sync_hook - who is told of waits; kept for the life of the process
 * @next: an earlier one
 * @fn: the function
 * @arg: for it
 */
struct rt_sync_hook {
	struct rt_sync_hook *next;
	npu_sync_fn *fn;
	void *arg;
};

/**
 * struct rt_process - what there is once
 * @epoch: grows when a device is reset, a context destroyed, or the library finalized
 * @life: grows when the library is finalized
 * @state: enum npu_state, NPU_STATE_FORKED apart
 * @owner: the thread that runs hooks or release callbacks, 0: none
 * @first: the device that was first set in the process, -1: none
 * @sync_hook: who is told of waits, or NULL
 * @fixed: @visible is set, and stays so until the library is finalized
 * @visible: the devices
 * @info: what they are; asked once, so that the child of a fork need not ask the driver. Without a
 *	name: it was not there
 * @pool_size: option stream_pool_size
 * @lease_max: option stream_lease_max
 * @wait_mode: option wait_mode
 * @lock: Protects: changes of @state, @owner and @fixed; @inits, @hooks, @hooks_end
 * @cond: @state has changed
 * @inits: calls of npu_init() that were not undone
 * @hooks: functions to call at the end of an initialisation
 * @hooks_end: where the next one goes
 */
struct rt_process {
	_Atomic uint64_t epoch;
	_Atomic uint32_t life;
	_Atomic uint32_t state;
	_Atomic uintptr_t owner;
	_Atomic int first;
	struct rt_sync_hook *_Atomic sync_hook;
	_Atomic bool fixed;
	struct rt_visible visible;
	struct hal_device_info *info;
	_Atomic uint32_t pool_size;
	_Atomic uint32_t lease_max;
	_Atomic uint32_t wait_mode;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint32_t inits;
	struct rt_hook *hooks;
	struct rt_hook **hooks_end;
};

extern struct rt_process rt;

/**
 * struct rt_context - what the runtime keeps of a context
 * @node: in its device's list
 * @handle: the context
 * @stream: its default stream, 0: not made yet
 * @builtin: its built-in module, 0: not opened yet
 */
struct rt_context {
	struct hal_list node;
	uint64_t handle;
	uint64_t stream;
	uint64_t builtin;
};

/**
 * struct rt_pool - streams of one priority that are shared
 * @next: counts requests
 * @stream: handles, 0: not made yet; written under the device's lock
 */
struct rt_pool {
	_Atomic uint32_t next;
	_Atomic uint64_t stream[RT_POOL_MAX];
};

/**
 * struct rt_lease - a stream for leases
 * @node: in the device's list of idle ones, or of leased ones
 * @handle: the stream; of an idle one nobody else knows it
 * @priority: its priority
 */
struct rt_lease {
	struct hal_list node;
	uint64_t handle;
	int priority;
};

/**
 * struct rt_device - what the process has of a device
 * @hal: the open device, one reference; NULL: closed. Written under @lock
 * @primary: handle of its primary context, 0: closed. Written under @lock
 * @epoch: grows by RT_EPOCH_CLOSE when it is closed, by RT_EPOCH_RESTART when it is restarted
 * @moved: one more than the driver's number of the part, where that has changed since the library
 *	was initialised; 0: it has not
 * @past: what streams of earlier generations were, NULL: it was never restarted. See recover.c
 * @past_nr: how many were noted there
 * @past_built: how many of them there were at the end of the last restart
 * @lock: Protects: all below, and opening and closing
 * @cond: @closing or @restarting has become false
 * @closing: the thread that closes it, without the lock, 0: none; nothing new is made meanwhile
 * @restarting: the thread that restarts it, 0: none; it is not closed meanwhile
 * @main: its primary context
 * @contexts: the others, struct rt_context
 * @secondary: its secondary stream, 0: not made yet
 * @idle: streams to lease
 * @leased: streams that are leased
 * @leases: how many there are of both
 * @pool: its shared streams
 */
struct rt_device {
	struct hal_device *_Atomic hal;
	_Atomic uint64_t primary;
	_Atomic uint32_t epoch;
	_Atomic uint32_t moved;
	struct rt_past *_Atomic past;
	uint64_t past_nr;
	uint64_t past_built;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uintptr_t closing;
	uintptr_t restarting;
	struct rt_context main;
	struct hal_list contexts;
	uint64_t secondary;
	struct hal_list idle;
	struct hal_list leased;
	uint32_t leases;
	struct rt_pool pool[RT_PRIORITIES];
};

extern struct rt_device rt_devices[RT_DEVICES];

/* Threads tell by rt_device.epoch what happened: the upper half counts closings. */
#define RT_EPOCH_RESTART 1u
#define RT_EPOCH_CLOSE 0x10000u
#define RT_EPOCH_CLOSES(epoch) ((epoch) / RT_EPOCH_CLOSE)

/* Changes of state that a thread puts aside while it holds a device's lock. */
#define RT_CHANGES 4

/**
 * struct rt_change - a device has changed its state
 * @device: the device
 * @from: enum npu_device_state
 * @to: enum npu_device_state
 * @cause: negative errno, 0: no fault
 */
struct rt_change {
	int device;
	uint32_t from;
	uint32_t to;
	int cause;
};

/**
 * struct rt_seen - a handle of which a thread knows the device
 * @handle: the handle
 * @slot: its slot, which is never unmapped; NULL: the entry is empty
 * @device: the device of the object, as long as the handle is good
 */
struct rt_seen {
	uint64_t handle;
	const struct hal_slot *slot;
	int device;
};

/**
 * struct rt_thread - what a thread has set
 * @epoch: rt.epoch that the rest was checked against
 * @id: a number that no other thread has
 * @life: rt.life that the rest belongs to
 * @device: its device, -1: it has set none
 * @context: its context, 0: the device's primary one
 * @zero: what stream 0 means with @device set, 0: has to be found out
 * @dev: of each device: the stream set by npu_stream_set_current() or 0, the default stream of
 *	the primary context if known, and rt_device.epoch that they belong to
 * @cache: handles seen last
 * @locks: locks of devices that it holds
 * @changes: entries of @change
 * @change: changes of state that observers are still to be told of
 */
struct rt_thread {
	uint64_t epoch;
	uint64_t id;
	uint32_t life;
	int device;
	uint64_t context;
	uint64_t zero;
	struct {
		uint64_t current;
		uint64_t home;
		uint32_t epoch;
	} dev[RT_DEVICES];
	struct rt_seen cache[RT_CACHE];
	uint32_t locks;
	uint32_t changes;
	struct rt_change change[RT_CHANGES];
};

/**
 * struct rt_record - the thread's error record, put aside
 * @e: the record
 */
struct rt_record {
	struct hal_error e;
};

/* init.c: the state machine */
int rt_enter_slow(const char *op);
bool rt_allowed(void);
int rt_gone(const char *op);
enum npu_state rt_state(void);

static inline uintptr_t rt_self(void)
{
	return (uintptr_t)pthread_self();
}

/* Whether a call may go on; initialises at need. Each public function but questions asks first. */
static inline int rt_enter(const char *op)
{
	return likely(hal_ready()) ? 0 : rt_enter_slow(op);
}

/*
 * The same for a function that gives a handle: whatever fails, no old one is left. @handle: a
 * pointer to any type of handle; @what: the name of that argument.
 */
static inline int rt_enter_handle(const char *op, void *handle, const char *what)
{
	if (unlikely(!handle))
		return hal_fail(-EINVAL, op, "%s is NULL", what);
	*(uint64_t *)handle = 0;
	return rt_enter(op);
}

/* release.c, hook.c */
void rt_release_run(void);
int rt_hooks_run(void);
void rt_sync_begin(enum npu_sync_kind kind, uint64_t handle);
void rt_sync_end(enum npu_sync_kind kind, uint64_t handle, int result);
void rt_lists_lock(void);
void rt_lists_unlock(void);
void rt_sync_lock(void);
void rt_sync_unlock(void);

/* error.c */
void rt_record_save(struct rt_record *r);
void rt_record_restore(const struct rt_record *r);
size_t rt_copy_out(void *dst, const void *src, size_t want, size_t have);
int rt_copy_in(void *dst, size_t have, const void *src, const char *op);

/* option.c, option_source.c: values */
struct rt_option_ref {
	const struct hal_option *opt;
	unsigned int nr;
};
#define RT_OPTIONS_MAX 128
extern const struct hal_option rt_options[];
void rt_options_setup(void);
int rt_options_load(void);
void rt_options_unload(void);
void rt_options_apply(void);
bool rt_option_at(unsigned int i, struct rt_option_ref *ref);
bool rt_option_find(const char *name, struct rt_option_ref *ref);
const char *rt_intern(const char *text, size_t len);
int rt_option_check(const struct hal_option *opt, const char *text, const char *source);
/* The value that environment or file gives, or NULL. 0, or -errno with @strict. */
int rt_option_origin(const struct rt_option_ref *ref);
int rt_option_source(const struct rt_option_ref *ref, bool strict, const char **text,
		     int *origin);
int rt_option_file_check(void);
void rt_option_describe(const char *name, char *buf, size_t size);
void rt_options_lock(void);
void rt_options_unlock(void);

/* visible.c */
int rt_visible_syntax(const char *text);
int rt_visible_read(struct rt_visible *v, const char *op);
int rt_visible_get(struct rt_visible *v, const char *op);

/* thread.c */
struct rt_thread *rt_thread_slow(const char *op);
int rt_stream_zero(struct rt_thread *t, int hint, const char *op, uint64_t *stream);
int rt_handle_device_slow(struct rt_thread *t, uint64_t h, const char *op);
void rt_first_set(int device);

/* The thread's state, if it is at hand and has nothing to catch up with. */
static inline struct rt_thread *rt_thread_peek(void)
{
	struct hal_tls *tls = hal_tls_peek();
	struct rt_thread *t = tls ? tls->runtime : NULL;

	return likely(t && t->epoch == hal_load_acquire(&rt.epoch)) ? t : NULL;
}

/* The thread's state, checked; NULL: no memory, the record is filled. */
static inline struct rt_thread *rt_thread(const char *op)
{
	struct rt_thread *t = rt_thread_peek();

	return likely(t) ? t : rt_thread_slow(op);
}

/* Works out rt_thread.zero. */
static inline void rt_thread_zero(struct rt_thread *t)
{
	int d = t->device;
	uint64_t s = 0;

	if (likely(d >= 0)) {
		s = t->dev[d].current;
		if (!s && !t->context)
			s = t->dev[d].home;
	}
	t->zero = s;
}

/* The device that the thread uses, whether it has set one or not. */
static inline int rt_thread_device(const struct rt_thread *t)
{
	int first;

	if (likely(t->device >= 0))
		return t->device;
	first = hal_load_relaxed(&rt.first);
	return first >= 0 ? first : 0;
}

/* The stream that an argument means. hint: device to take if the thread has set none, or -1. */
static inline int rt_stream(npu_stream s, int hint, const char *op, uint64_t *stream)
{
	struct rt_thread *t;

	*stream = s.h;
	if (likely(s.h))
		return 0;
	t = rt_thread(op);
	if (unlikely(!t))
		return -ENOMEM;
	*stream = t->zero;
	return likely(t->zero) ? 0 : rt_stream_zero(t, hint, op, stream);
}

static inline uint32_t rt_cache_index(uint64_t h)
{
	return (hal_handle_index(h) + hal_handle_type(h) * 5) % RT_CACHE;
}

/* What the thread knows of a handle that is good; NULL: it has to look. */
static inline const struct rt_seen *rt_handle_seen(const struct rt_thread *t, uint64_t h)
{
	const struct rt_seen *c = &t->cache[rt_cache_index(h)];

	return likely(c->handle == h && c->slot && hal_slot_is(c->slot, h)) ? c : NULL;
}

/* The device of a stream, kernel or context; or the error that the handle deserves. */
static inline int rt_handle_device(struct rt_thread *t, uint64_t h, const char *op)
{
	const struct rt_seen *c = rt_handle_seen(t, h);

	return likely(c) ? c->device : rt_handle_device_slow(t, h, op);
}

/* device.c */
int rt_device_arg(int device, const char *op, int *d);
int rt_device_bad(int device, const char *op);
int rt_device_lock(int d, const char *op);
void rt_device_unlock(int d);
int rt_device_open_locked(int d, const char *op);
uint32_t rt_device_index(int d);
int rt_device_primary(int d, const char *op, uint64_t *ctx);
int rt_device_ref(int d, struct hal_device **dev);
int rt_device_of(const struct hal_device *dev);

/* device_close.c */
int64_t rt_time_left(uint64_t deadline);
int rt_restart_begin(int d, uint64_t deadline);
void rt_restart_end(int d);
bool rt_restarts(void);
int rt_devices_close(uint64_t deadline);
int rt_devices_drain(uint64_t deadline);

/* context.c */
int rt_context_current(const char *op, uint64_t *ctx, int *d);
int rt_context_get_current(const char *op, struct hal_context **ctx);
struct rt_context *rt_context_find_locked(int d, uint64_t handle);
void rt_contexts_forget_locked(int d);

/* stream.c: hal_stream.kind holds the kind and the priority that was asked for */
#define RT_KIND(kind, priority) ((uint32_t)(kind) | (uint32_t)(priority) << 8)
int rt_stream_make(uint64_t ctx, const struct npu_stream_attr *attr, enum npu_stream_kind kind,
		   const char *op, uint64_t *stream);
int rt_stream_home_locked(int d, struct rt_context *c, const char *op, uint64_t *stream);
int rt_stream_home(int d, uint64_t ctx, const char *op, uint64_t *stream);
int rt_stream_second(int d, const char *op, uint64_t *stream);

/* stream_pool.c */
int rt_priority_check(int priority, const char *op);
void rt_pools_forget_locked(int d);
int rt_pool_stream(int d, int priority, uint32_t i, const char *op, uint64_t *stream);

/* recover.c */
int rt_successor(int d, uint64_t handle, uint64_t *stream);
void rt_past_forget(int d);

/* observe.c */
void rt_observers_lock(void);
void rt_observers_unlock(void);
void rt_changed(int device, uint32_t from, uint32_t to, int cause);
void rt_changes_tell(struct rt_thread *t);
void rt_state_changed(struct hal_device *dev, uint32_t from, uint32_t to, int cause);

/* event.c */
void rt_events_destroy(struct hal_device *dev);

/* wait.c */
int rt_timeout_check(int64_t timeout_ms, const char *op);
int rt_event_made(uint32_t life, npu_event *event, const char *op);
int rt_point_fd(const struct hal_point *p, const char *op, int *fd);

#endif /* RUNTIME_INTERNAL_H */
