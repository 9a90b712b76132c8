/* SPDX-License-Identifier: MIT */
/*
 * The driver's side of the HAL: what a driver fills in.
 *
 * One constant ops struct per object. Only hal/<object>.c calls through them,
 * after it has checked arguments, the state of the objects and capabilities; so
 * a bad argument gets the same answer on every driver, and a driver never sees
 * one. What a driver has to bear is that its device stops or is lost at any
 * moment.
 *
 * Objects are allocated by the core: ops say how large the driver's object is,
 * the base is its first member, and zeroed memory comes in. ->init fills it in
 * and undoes what it did when it fails; ->fini is called once for each ->init
 * that succeeded.
 *
 * Unless an op says otherwise: it is mandatory where its capability is set and
 * never called where it is not; it runs in the caller's thread with a reference
 * on its object and no lock held; it may sleep; and it returns 0 or a negative
 * errno having filled the thread's error record by hal_fail().
 */
#ifndef HAL_DRIVER_H
#define HAL_DRIVER_H

#include "hal/base.h"
#include "hal/error.h"
#include "hal/option.h"

struct hal_device;
struct hal_context;
struct hal_stream;
struct hal_event;
struct hal_memory;
struct hal_point;
struct hal_module;

/* ---- data -------------------------------------------------------------- */

/**
 * struct hal_device_info - what a device is and can do
 * @caps: NPU_CAP_*
 * @mem_total: bytes of device memory
 * @mem_used: bytes of it that were in use, of whomever, when this was asked
 * @va_start: lowest device address; may be 0 before the device is open
 * @va_size: bytes of device addresses; no host pointer lies among them, as long as the process
 *	lives: when the device is closed they stay reserved
 * @mem_align: alignment of every allocation, a power of two
 * @mem_granularity: what virtual-memory sizes are multiples of, 0 without NPU_CAP_VMM
 * @cores: cores that kernels run on
 * @vector_cores: vector cores, 0 where they are not apart
 * @max_streams: streams that may exist at a time
 * @max_events: timed events that may exist at a time
 * @max_contexts: contexts that may exist at a time
 * @max_queued: tasks that a stream holds
 * @priorities: stream priorities, 1 without NPU_CAP_PRIORITY
 * @args_max: bytes of launch arguments
 * @blocks_max: blocks of one launch
 * @name: name of the part, "Ascend910B1"
 * @bus_id: where the device sits, "simnpu0"
 *
 * [C-DEV-1] The values don't change while a device is open.
 */
struct hal_device_info {
	uint64_t caps;
	uint64_t mem_total;
	uint64_t mem_used;
	uint64_t va_start;
	uint64_t va_size;
	uint64_t mem_align;
	uint64_t mem_granularity;
	uint32_t cores;
	uint32_t vector_cores;
	uint32_t max_streams;
	uint32_t max_events;
	uint32_t max_contexts;
	uint32_t max_queued;
	uint32_t priorities;
	uint32_t args_max;
	uint32_t blocks_max;
	char name[NPU_NAME_LEN];
	char bus_id[NPU_NAME_LEN];
};

/**
 * struct hal_mem_info - memory of a device
 * @total: bytes
 * @free: bytes that can be allocated, in pieces perhaps
 * @used: bytes that this process holds
 * @others: bytes that other processes hold
 * @quota: bytes that this process may hold, 0: no fewer than the device has
 */
struct hal_mem_info {
	uint64_t total;
	uint64_t free;
	uint64_t used;
	uint64_t others;
	uint64_t quota;
};

/**
 * struct hal_usage - what exists on a device, of all processes together
 * @streams: streams
 * @events: timed events
 * @stream_quota: streams that this process may have, 0: no fewer than the device has
 * @event_quota: timed events that it may have, in the same way
 */
struct hal_usage {
	uint32_t streams;
	uint32_t events;
	uint32_t stream_quota;
	uint32_t event_quota;
};

/**
 * struct hal_task - what is common to all tasks
 * @seq: sequence number in the stream, one more than the task before
 * @place: code address of the submission
 * @tag: from hal_tag_current()
 */
struct hal_task {
	uint64_t seq;
	uint64_t place;
	uint32_t tag;
};

/**
 * struct hal_launch - a kernel launch
 * @kernel: hal_kernel.token
 * @args: the arguments; copied before the op returns
 * @blocks: 1 to hal_device_info.blocks_max
 * @args_size: up to hal_device_info.args_max
 */
struct hal_launch {
	uint64_t kernel;
	const void *args;
	uint32_t blocks;
	uint32_t args_size;
};

/**
 * struct hal_copy - a copy of one or more rows
 * @dst: where to
 * @src: where from
 * @dst_pitch: bytes from row to row of @dst, at least @width
 * @src_pitch: bytes from row to row of @src, at least @width
 * @width: bytes of a row, at least 1
 * @height: rows, at least 1
 * @kind: NPU_COPY_H2D, NPU_COPY_D2H or NPU_COPY_D2D, resolved
 * @peer: the two are of different devices
 */
struct hal_copy {
	void *dst;
	const void *src;
	size_t dst_pitch;
	size_t src_pitch;
	size_t width;
	size_t height;
	enum npu_copy_kind kind;
	bool peer;
};

/**
 * struct hal_task_error - a task that failed
 * @seq: its sequence number
 * @code: negative errno
 * @vendor: the vendor's code, 0: none
 * @op: what kind of task, a static string
 * @origin_stream: where another task failed first, handle of its stream, 0 if it is gone; else 0
 * @origin_seq: sequence number of that one, else 0
 * @place: hal_task.place of the task that failed first
 * @addr: address that was refused, 0: none
 * @tag: hal_task.tag of the task that failed first
 */
struct hal_task_error {
	uint64_t seq;
	int code;
	int vendor;
	const char *op;
	uint64_t origin_stream;
	uint64_t origin_seq;
	uint64_t place;
	uint64_t addr;
	uint32_t tag;
};

/**
 * struct hal_health - how a device is
 * @state: enum hal_device_state as the hardware sees it: OPEN, FAULTED, STOPPED or LOST
 * @cause: negative errno of the first fault since the device was last well, 0: none: -EHWPOISON (an
 *	uncorrectable memory error), -ENOLINK (link), -ETIME (a task that does not end),
 *	-EREMOTEIO (no heartbeat), -ENODEV (gone), -EIO (else)
 * @ecc_corrected: memory errors that were corrected
 * @ecc_uncorrected: memory errors that were not
 * @link_errors: errors of the link
 * @hangs: tasks that did not end, heartbeats that did not come
 * @text: what the driver has to say beside it, one line, or ""
 *
 * Counts are since the device was opened, and don't restart with it.
 */
struct hal_health {
	uint32_t state;
	int cause;
	uint64_t ecc_corrected;
	uint64_t ecc_uncorrected;
	uint64_t link_errors;
	uint64_t hangs;
	char text[HAL_ERROR_TEXT];
};

/**
 * struct hal_poison - device memory that an uncorrectable error has hit
 * @addr: first address
 * @size: bytes
 */
struct hal_poison {
	uint64_t addr;
	uint64_t size;
};

/* The bit of a timeline word that says that failures wait to be taken. */
#define HAL_TIMELINE_ERROR (1ull << 63)

/* ---- ops ---------------------------------------------------------------- */

/**
 * struct hal_driver_ops - the driver as a whole
 * @init: bring the driver up; opens no device. Called once before anything else but @count and
 *	@info, and again after @fini. Return: 0, -ENODEV (nothing to drive), or as it fails
 * @fini: the opposite; no device is open. Bounded in time
 * @count: number of devices. [C-DRV-1] Asks only: opens nothing for work, wakes nothing, works
 *	before @init, and after a fork. Return: 0 (n may be 0), or as it fails
 * @info: what device @index is, under the same rules. Return: 0, -ENODEV
 * @fork_child: called in the child of a fork, where only async-signal-safe calls are allowed:
 *	close what would keep the parent's device alive. Optional
 *
 * All others mandatory.
 */
struct hal_driver_ops {
	int (*init)(void);
	void (*fini)(void);
	int (*count)(uint32_t *n);
	int (*info)(uint32_t index, struct hal_device_info *info);
	void (*fork_child)(void);
};

/**
 * struct hal_device_ops - a device and its contexts
 * @obj_size: bytes of the driver's device object
 * @context_size: bytes of the driver's context object
 * @init: open the device; hal_device.index is set, hal_device.info is to be filled in
 * @fini: close it; no context, stream, event, memory or module of it is left. Bounded in time
 * @context_init: make a context. Return: 0, -ENOSPC (the device has no more), -ENOMEM
 * @context_fini: destroy it; nothing of it is left
 * @mem_info: memory of the device; hal_mem_info.used is filled in by the core.
 *	[C-DEV-2] free is at most total, and falls by at least the size when memory is allocated
 * @utilization: per cent of core time that was busy of late. Optional: -EOPNOTSUPP
 * @time: the device's clock, ns; [C-DEV-3] it never goes back. Only with NPU_CAP_EVENT_TIMING
 * @usage: what exists on the device, of all processes, for messages. Optional: this process's alone
 * @peer: whether copies to memory of another open device of the driver can be direct.
 *	Optional: no
 * @stop: refuse work until @restart, discard what is queued, tell what runs to stop, and wait for
 *	it until @deadline (as of hal_stream_ops.wait_host). [C-DEV-5] All that was submitted
 *	counts as completed when it returns 0; what was not run was not run at all. From OPEN and
 *	FAULTED. Only with NPU_CAP_ABORT. Return: 0, -ETIMEDOUT (something runs on: the device is
 *	not used any more), -ENODEV
 * @restart: make a stopped device usable again, its faults mended; contexts, memory, modules and
 *	timed events stay. All streams are new ones afterwards; ->fini of the old ones comes
 *	before or after. @attempt counts from 0: with each the driver may reach for a harder way, as
 *	closing and opening the device under the same contexts. Only with NPU_CAP_ABORT. Return: 0;
 *	-ENODEV (gone: not tried again); else it is tried again, HAL_RESTART_TRIES times in all
 * @health: how the device is. Asks only: works in every state, wakes nothing, does not wait for
 *	work. Optional: hal tells what hal_device_report() said. Return: 0, -ENODEV
 * @poison: which memory uncorrectable errors have hit since the last @restart, up to @n ranges.
 *	Optional: all of it counts as hit after -EHWPOISON. Return: how many there are, which may be
 *	more than @n
 *
 * [C-DEV-4] A device can be closed and opened again, and has then all its memory and
 * streams free.
 *
 * Whoever in a driver finds out that its device has a fault or is gone says so at once by
 * hal_device_report().
 */
struct hal_device_ops {
	size_t obj_size;
	size_t context_size;
	int (*init)(struct hal_device *dev);
	void (*fini)(struct hal_device *dev);
	int (*context_init)(struct hal_context *ctx);
	void (*context_fini)(struct hal_context *ctx);
	int (*mem_info)(struct hal_device *dev, struct hal_mem_info *mi);
	int (*utilization)(struct hal_device *dev, uint32_t *percent);
	int (*time)(struct hal_device *dev, uint64_t *ns);
	int (*usage)(struct hal_device *dev, struct hal_usage *u);
	int (*peer)(struct hal_device *dev, struct hal_device *other, bool *can);
	int (*stop)(struct hal_device *dev, uint64_t deadline);
	int (*restart)(struct hal_device *dev, uint32_t attempt);
	int (*health)(struct hal_device *dev, struct hal_health *h);
	int (*poison)(struct hal_device *dev, struct hal_poison *list, uint32_t n);
};

/* How often a restart is tried before the device is lost. */
#define HAL_RESTART_TRIES 3u

/**
 * struct hal_stream_ops - streams; all need NPU_CAP_STREAM
 *
 * @obj_size: bytes of the driver's stream object
 * @init: make the stream; hal_stream.first_seq, priority, fail_mode are set. May set
 *	hal_stream.timeline to a word that the driver keeps: the sequence number of the
 *	last completed task, first_seq - 1 before any, with HAL_TIMELINE_ERROR while @errors has
 *	something to tell. The word must stay readable until the process ends.
 *	Return: 0, -ENOSPC (no more streams on the device), -ENOMEM
 * @fini: destroy it. All its tasks have completed, or the device is lost
 *
 * Submission. Called under the stream's submit lock: a spin lock, so these never sleep, make no
 * call that may block, and take no other lock. [C-STREAM-1] Tasks of one stream run in the
 * order of their sequence numbers, each after the one before has completed. [C-STREAM-2] What
 * the host wrote before the submission, the task sees; [C-STREAM-3] what the task wrote, a host
 * thread sees that saw it completed. [C-STREAM-11] Work starts soon without further calls (no
 * flush).
 * They return 0; 1: submitted, and @kick is wanted; -EAGAIN: full, or in need of @prepare, and
 * nothing was submitted.
 *
 * @launch: run a kernel. Only with NPU_CAP_LAUNCH. [C-STREAM-4] Arguments are copied before it
 *	returns
 * @copy: copy. Host memory must stay as it is until the task has completed. Height is 1
 *	without NPU_CAP_COPY_2D
 * @fill: set bytes of device memory
 * @wait: the stream waits until another stream of the driver, of the same or another device,
 *	has completed a task. [C-STREAM-5] If that one failed, the waiting stream runs on, and
 *	reports the failure with its origin
 * @record: note the device's time in an event. Only with NPU_CAP_EVENT_TIMING
 * @callback: call a host function on the library's callback thread of the context. Only with
 *	NPU_CAP_CALLBACK. [C-STREAM-6] The stream goes on when it has returned, or at once with
 *	NPU_CALLBACK_NOBLOCK; [C-STREAM-7] blocking calls inside it give -EDEADLK
 * @host: have the host carry a task out. Only with NPU_CAP_HOST_TASK. [C-STREAM-16] @begin is
 *	called when its turn has come, on a thread of the library, in order within the stream, and
 *	never waits; callbacks that take long don't keep it waiting. The stream goes on at
 *	@host_done. [C-STREAM-17] Of one that was discarded, @begin is not called once @abort or the
 *	device's @stop has returned 0
 * @host_done: a task that @host began is done: outside the lock, from any thread, with a
 *	reference. @code: 0, or the negative errno with which it fails. [C-STREAM-18] Of one that
 *	was discarded meanwhile it does nothing. Only with NPU_CAP_HOST_TASK
 *
 * @kick: wake the device, after a submission gave 1: outside the lock, which is dropped first, with
 *	a reference taken under it. Must not fail: what could not be woken is woken by the next
 *	submission or by @wait_host. Mandatory for drivers whose submissions return 1
 * @prepare_wait: make a later @wait on @other possible: called outside the lock before each @wait
 *	on a stream of another device, whose reference is held until that has returned. Optional.
 *	Returns 0, -ENOMEM, -ENOSPC
 * @prepare: make room for at least one more task, outside the lock, after a submission gave
 *	-EAGAIN. [C-STREAM-12] A stream holds hal_device_info.max_queued tasks. Returns 0 (try
 *	again), -EAGAIN (that many are queued: wait for one to complete), -ENOMEM
 * @wait_host: wait until the stream has completed @seq. @deadline is absolute, ns of
 *	CLOCK_MONOTONIC, UINT64_MAX for none; a passed one polls. @flags: HAL_WAIT_*.
 *	[C-STREAM-8] A wait without a time-out ends when the task is done, even if no other thread
 *	runs. Returns 0 (done, well or not), -ETIMEDOUT
 * @query: last completed sequence number, with HAL_TIMELINE_ERROR. Only when there is no
 *	hal_stream.timeline. Called with locks of hal's held at times: does not wait
 * @errors: take failures that were not taken yet, oldest first. Returns the number taken, 0 to @n.
 *	[C-STREAM-13] *@dropped grows by those for which there was no room, ever. Called with a
 *	lock of hal's held, by one thread at a time: does not wait for work
 * @notify: [C-STREAM-14] write 1 to an eventfd once @seq has completed; @fd stays the caller's.
 *	Only with NPU_CAP_COMPLETION_FD
 * @abort: discard what is queued, stop what runs, and wait for it until @deadline. [C-STREAM-15]
 *	What was submitted before counts as completed when it returns 0, failures of it may be kept
 *	or dropped (hal forgets them), and the stream takes work again, in mode stop as well.
 *	Only with NPU_CAP_ABORT. Return: 0; -ETIMEDOUT: the running task does not end: what is
 *	behind it is discarded when it does
 * @at: what the stream is at: the task that runs or is next: its seq, op, place and tag; nothing
 *	else of *@t is read. For messages; does not wait. Optional. Return: 0, -ENOENT (nothing)
 */
struct hal_stream_ops {
	size_t obj_size;
	int (*init)(struct hal_stream *s);
	void (*fini)(struct hal_stream *s);
	int (*launch)(struct hal_stream *s, const struct hal_task *t, const struct hal_launch *l);
	int (*copy)(struct hal_stream *s, const struct hal_task *t, const struct hal_copy *c);
	int (*fill)(struct hal_stream *s, const struct hal_task *t, void *dst, int byte,
		    size_t size);
	int (*wait)(struct hal_stream *s, const struct hal_task *t, struct hal_stream *other,
		    uint64_t seq);
	int (*record)(struct hal_stream *s, const struct hal_task *t, struct hal_event *e);
	int (*callback)(struct hal_stream *s, const struct hal_task *t, void (*fn)(void *arg),
			void *arg, uint32_t flags);
	int (*host)(struct hal_stream *s, const struct hal_task *t, void (*begin)(void *arg),
		    void *arg);
	void (*host_done)(struct hal_stream *s, uint64_t seq, int code);
	void (*kick)(struct hal_stream *s);
	int (*prepare_wait)(struct hal_stream *s, struct hal_stream *other);
	int (*prepare)(struct hal_stream *s);
	int (*wait_host)(struct hal_stream *s, uint64_t seq, uint64_t deadline, uint32_t flags);
	int (*query)(struct hal_stream *s, uint64_t *completed);
	int (*errors)(struct hal_stream *s, struct hal_task_error *list, uint32_t n,
		      uint64_t *dropped);
	int (*notify)(struct hal_stream *s, uint64_t seq, int fd);
	int (*abort)(struct hal_stream *s, uint64_t deadline);
	int (*at)(struct hal_stream *s, struct hal_task_error *t);
};

/* Flags of hal_stream_ops.wait_host: enum npu_wait_mode in the low two bits. */
#define HAL_WAIT_MODE_MASK 3u
/* The thread must not be put to running tasks. */
#define HAL_WAIT_NO_BORROW (1u << 2)

/**
 * struct hal_event_ops - timed events; needs NPU_CAP_EVENT_TIMING. Untimed ones are hal's alone
 * @obj_size: bytes of the driver's event object
 * @init: make it. Return: 0, -ENOSPC (no more events on the device), -ENOMEM
 * @fini: destroy it; no task refers to it any more
 * @timestamp: the time that the last completed record noted, ns of the device's clock.
 *	[C-EVENT-1] Of two records in one stream the later is not earlier
 * @export_key: make a key, a text, of an event of hal's, by whose name others ask for it; another
 *	time the same. @flags: HAL_IPC_*; with HAL_IPC_SECRET it is another key. Only with
 *	NPU_CAP_IPC_EVENT, as are the next four. Return: 0, -EMFILE, -ENOMEM, -EBUSY
 * @allow: let processes of the user import it. Return: 0, -ENOENT (it has no key), -ENOSPC
 * @import_key: get a descriptor of what hal_ipc_event_fd() gave in the process that made the key;
 *	it is the caller's. Return: 0, -EINVAL (no key of an event), -EXDEV, -EOWNERDEAD, -ESTALE,
 *	-EACCES, -ETIMEDOUT
 * @ask: ask who made a key what has become of a point of his; @wait: once it is reached. Gives a
 *	socket at which his hal_ipc_event_state() comes as a message of an int32_t, or the end of
 *	it: he has ended. Return: 0, -EOWNERDEAD, -ETIMEDOUT, -EACCES, -EMFILE
 * @wait: make a stream wait until such an answer comes, which is the task's failure unless it
 *	is 0. Return: 0, -ENOSPC, or as @ask and hal_stream_host()
 */
struct hal_event_ops {
	size_t obj_size;
	int (*init)(struct hal_event *e);
	void (*fini)(struct hal_event *e);
	int (*timestamp)(struct hal_event *e, uint64_t *ns);
	int (*export_key)(struct hal_context *ctx, uint64_t event, uint32_t flags, char *key);
	int (*allow)(uint64_t event, const int32_t *pids, size_t n);
	int (*import_key)(struct hal_context *ctx, const char *key, int *fd);
	int (*ask)(const char *key, const struct hal_point *p, bool wait, int *sock);
	int (*wait)(struct hal_stream *s, const char *key, const struct hal_point *p,
		    uint64_t place);
};

/**
 * struct hal_memory_ops - memory; needs NPU_CAP_MEM
 * @obj_size: bytes of the driver's memory object
 * @alloc: make device memory: hal_memory.size, real_size (the same rounded up to mem_align) and
 *	flags are set; sets addr. Kernels may be refused what lies behind size.
 *	[C-MEM-1] The memory is real when it returns: no later access fails for want of pages.
 *	[C-MEM-12] With HAL_MEM_MANAGED, only with NPU_CAP_MANAGED, the host may read and write it
 *	at its address, too, until it is freed: what the host has written, tasks that are submitted
 *	afterwards read, and the host reads what a task has written once it knows that the task is
 *	done. Return: 0, -ENOMEM, -EMFILE (managed memory: there are too few descriptors)
 * @free: give it back. No task that uses it is queued, as far as the program keeps the rules;
 *	[C-MEM-2] one that is, fails or reads zeroes, and harms no other allocation
 * @host_alloc: make pinned host memory, sets addr, aligned to a page. Only with NPU_CAP_HOST_ALLOC.
 *	[C-MEM-10] Memory that can't be locked in RAM is not, and sets unlocked; with HAL_MEM_LOCKED
 *	that is a failure, which leaves nothing. Return: 0, -ENOMEM
 * @host_free: give it back
 * @host_register: pin memory of the caller: addr and size are set. Only with
 *	NPU_CAP_HOST_REGISTER; locked or not as of @host_alloc. [C-MEM-11] All of it or
 *	none. Return: 0, -ENOMEM, -EFAULT (some of it is not mapped)
 * @host_unregister: the opposite; the memory stays the caller's
 * @copy: copy now, ordered with no stream; done when it returns
 * @fill: set bytes now
 * @window_open: make device memory a host range for file I/O. Only with NPU_CAP_IO_WINDOW.
 *	[C-MEM-9] What the host writes there, tasks that begin afterwards read, and the other way
 *	round. Several windows may overlap. Return: 0, -EHWPOISON, -EOPNOTSUPP (not of this memory)
 * @window_close: the opposite
 * @reserve: reserve device addresses, at @want if it is not 0, aligned to @align; sizes and
 *	addresses are multiples of mem_granularity. Only with NPU_CAP_VMM, as are the next
 *	six. Return: 0, -EINVAL (@want is none to be had), -EEXIST (some of it is taken), -ENOMEM
 * @release: give back what @reserve gave; nothing is mapped there
 * @create: make memory without an address: size is set; real as that of @alloc. Return: 0, -ENOMEM
 * @destroy: let go what @create or @import_fd made; where it is mapped it stays until @unmap
 * @map: put all of it at addresses of one reservation of its context, where nothing is mapped; it
 *	is mapped nowhere else. @access: HAL_VM_*. Return: 0, -ENOMEM
 * @unmap: take one mapping, as @map made it, away; what is in the memory stays. Return: 0, -ENOMEM
 *	(it stays mapped; not of memory that was destroyed), else it is gone all the same
 * @protect: change what may be done at one mapping
 * @export_fd: make a descriptor, close-on-exec, that stands for memory of @create. Only with
 *	NPU_CAP_IPC_FD, as is the next. Return: 0, -ENOENT (it has been destroyed meanwhile),
 *	-EMFILE
 * @import_fd: make the memory that a descriptor stands for; sets size. Return: 0, -EINVAL (no such
 *	descriptor), -ENOMEM
 * @export_key: make a key, a text, for other processes, of the byte at @offset of memory of @alloc;
 *	flags: HAL_IPC_*. Only with NPU_CAP_IPC_MEM, as are the next two. Return: 0, -EOPNOTSUPP
 *	(not this memory), -EMFILE, -ENOMEM, -EBUSY
 * @allow: let processes import what keys were made of. Return: 0, -ENOENT (none was), -ENOSPC
 * @import_key: make the memory that a key names; sets addr, size, real_size and entry; @free gives
 *	it back. Return: 0, -EINVAL (not a key), -EXDEV (not of this device), -EOWNERDEAD, -ESTALE,
 *	-EACCES, -ETIMEDOUT, -ENOSPC, -ENOMEM, -EMFILE
 *
 * [C-MEM-3] An address is a multiple of mem_align, lies in va_start … va_start + va_size, and
 * belongs to one allocation of one device at a time. [C-MEM-4] What a copy or fill wrote, a
 * later copy in the same order reads, byte for byte, and nothing beside it changes.
 */
struct hal_memory_ops {
	size_t obj_size;
	int (*alloc)(struct hal_memory *m);
	void (*free)(struct hal_memory *m);
	int (*host_alloc)(struct hal_memory *m);
	void (*host_free)(struct hal_memory *m);
	int (*host_register)(struct hal_memory *m);
	void (*host_unregister)(struct hal_memory *m);
	int (*copy)(struct hal_context *ctx, const struct hal_copy *c);
	int (*fill)(struct hal_context *ctx, void *dst, int byte, size_t size);
	int (*window_open)(struct hal_memory *m, uint64_t offset, size_t size, void **host);
	void (*window_close)(struct hal_memory *m, uint64_t offset, size_t size);
	int (*reserve)(struct hal_context *ctx, uint64_t want, uint64_t size, uint64_t align,
		       uint64_t *addr);
	void (*release)(struct hal_context *ctx, uint64_t addr, uint64_t size);
	int (*create)(struct hal_memory *m);
	void (*destroy)(struct hal_memory *m);
	int (*map)(struct hal_memory *m, uint64_t addr, uint32_t access);
	int (*unmap)(struct hal_context *ctx, uint64_t addr, uint64_t size);
	int (*protect)(struct hal_context *ctx, uint64_t addr, uint64_t size, uint32_t access);
	int (*export_fd)(struct hal_memory *m, int *fd);
	int (*import_fd)(struct hal_memory *m, int fd);
	int (*export_key)(struct hal_memory *m, size_t offset, uint32_t flags, char *key);
	int (*allow)(struct hal_memory *m, const int32_t *pids, size_t n);
	int (*import_key)(struct hal_memory *m, const char *key);
};

/**
 * struct hal_kernel_ops - modules and kernels; needs NPU_CAP_LAUNCH
 * @module_size: bytes of the driver's module object
 * @load_builtin: open the driver's own module. Return: 0, -EOPNOTSUPP (it has none)
 * @load_file: load a module. Only with NPU_CAP_MODULE_FILE.
 *	Return: 0, -ENOENT, -EACCES, -ENOEXEC (not a module of this driver), -EPROTO (made for
 *	another version), -ENOMEM
 * @load_data: the same from memory, which is copied. Only with NPU_CAP_MODULE_DATA
 * @unload: the opposite; [C-KERNEL-1] no task that uses it is queued: hal has waited
 * @get: look a kernel up. Return: 0 and a token for hal_launch.kernel, valid as long as the
 *	module; -ESRCH (no such kernel)
 *
 * [C-KERNEL-2] Each block from 0 to blocks - 1 runs exactly once. [C-KERNEL-3] A kernel that
 * reaches outside device memory fails its task with -EFAULT and nothing else is changed.
 */
struct hal_kernel_ops {
	size_t module_size;
	int (*load_builtin)(struct hal_module *m);
	int (*load_file)(struct hal_module *m, const char *path);
	int (*load_data)(struct hal_module *m, const void *data, size_t size);
	void (*unload)(struct hal_module *m);
	int (*get)(struct hal_module *m, const char *name, uint64_t *token);
};

/* ---- registration -------------------------------------------------------- */

#define HAL_DRIVER_ABI 1

/**
 * struct hal_driver - a driver
 * @name: what option `driver` calls it
 * @abi: HAL_DRIVER_ABI
 * @rank: drivers with a larger one are tried first by default; 0: only by name
 * @options: its options, ended by an empty name; may be NULL
 * @ops: the driver as a whole
 * @device: devices and contexts
 * @stream: streams
 * @event: timed events; NULL without NPU_CAP_EVENT_TIMING
 * @memory: memory; NULL without NPU_CAP_MEM
 * @kernel: kernels; NULL without NPU_CAP_LAUNCH
 *
 * Static storage, constant. A device whose capabilities ask for an op that is missing is refused
 * when it is opened, with -ENOSYS and the name of the op.
 */
struct hal_driver {
	const char *name;
	uint32_t abi;
	uint32_t rank;
	const struct hal_option *options;
	const struct hal_driver_ops *ops;
	const struct hal_device_ops *device;
	const struct hal_stream_ops *stream;
	const struct hal_event_ops *event;
	const struct hal_memory_ops *memory;
	const struct hal_kernel_ops *kernel;
};

/**
 * hal_driver_register() - put a driver where hal finds it
 * @drv: the driver
 *
 * A pointer in a linker section of its own: no list to edit, no constructor.
 */
#define hal_driver_register(drv)							\
	static const struct hal_driver *const hal_driver_ptr_##drv			\
	__attribute__((used, HAL_RETAIN section("hal_drivers"))) = &(drv)

#if defined(__has_attribute)
#if __has_attribute(retain)
#define HAL_RETAIN retain,
#endif
#endif
#ifndef HAL_RETAIN
#define HAL_RETAIN
#endif

/* ---- for hal's users ------------------------------------------------------ */

/* The i-th registered driver, or NULL. */
const struct hal_driver *hal_driver_at(unsigned int i);
const struct hal_driver *hal_driver_find(const char *name);

/**
 * hal_driver_choose() - the driver that a name, or the default, means
 * @name: a driver's name, or NULL or "": the one of the highest rank that finds a device
 * @drv: out: the driver
 *
 * Asks, opens nothing.
 * Return: 0, -EINVAL (no such driver; the text lists those there are), -ENODEV (none has a device),
 * or the error of a driver that could not ask, where no other finds a device.
 */
int hal_driver_choose(const char *name, const struct hal_driver **drv);

/*
 * Questions to a driver, up or not: how many devices, and what the index-th is. They open
 * nothing for work, and take no lock. Return: 0, -ENODEV, or as the driver fails.
 */
int hal_driver_count(const struct hal_driver *drv, uint32_t *n);
int hal_driver_info(const struct hal_driver *drv, uint32_t index, struct hal_device_info *info);

#endif /* HAL_DRIVER_H */
