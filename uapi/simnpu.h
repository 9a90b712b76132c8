/* SPDX-License-Identifier: MIT */
/*
 * The simulated NPU as user mode sees it: device nodes, ioctls, shared rings.
 *
 * A device is a node, /dev/simnpu0, /dev/simnpu1 and so on. A program opens it,
 * makes a context, and in the context memory, queues and modules. Work goes
 * into rings that both sides share, without a system call; the ioctls manage
 * objects, wake a sleeping device and wait for it.
 *
 * Rules of the interface
 *
 * - All fields are little-endian, fixed in width and naturally aligned; the
 *   layout is the same for 32-bit and 64-bit programs. Padding must be zero.
 * - Unknown flags, non-zero padding and sizes that do not fit give EINVAL and
 *   change nothing. A handle that is not one of the open file's gives ENOENT.
 *   An address that can't be read or written gives EFAULT.
 * - An open file never gives out a handle twice; those of all kinds are of one
 *   sequence, so that one of another kind is ENOENT. ENOSPC: all are used up.
 * - The interface only grows. A number is never used again. A structure grows
 *   at its end: its size is part of the ioctl number, a shorter one is taken as
 *   if filled up with zeros, and what a longer one says behind the device's own
 *   must be zero (of an _IOR one nothing is read: what the device does not know
 *   is filled with zeros).
 * - Every ioctl can be repeated after EINTR or EAGAIN.
 * - CONTEXT_DESTROY takes all that is in the context with it, as the closing of
 *   the file does with all of it. QUEUE_DESTROY discards the tasks that have not
 *   begun and waits for the one that runs; waits for the queue end.
 *   EVENT_DESTROY: records still queued note nothing. MODULE_UNLOAD: EBUSY while
 *   a task of it runs; tasks still queued fail with ENOENT. CALLBACK_STOP: this
 *   and each later CALLBACK_NEXT of the context gives ECANCELED.
 * - Times are nanoseconds. Deadlines are absolute, on CLOCK_MONOTONIC.
 * - A device is in one of the states SIMNPU_STATE_*. Questions (VERSION, INFO,
 *   TIME, POISON, QUEUE_AT), what takes away (*_DESTROY, MODULE_UNLOAD, MEM_WINDOW to
 *   close, VM_RELEASE, VM_UNMAP, QUEUE_ERRORS, QUEUE_ABORT), CALLBACK_*, DEVICE_STOP,
 *   DEVICE_RESTART,
 *   mmap() and close() work in all of them, but that TIME, MEM_WINDOW,
 *   QUEUE_ABORT, DEVICE_STOP and DEVICE_RESTART of a lost device give ENODEV. All
 *   else gives EIO where it is faulted, ESHUTDOWN where it is
 *   stopped, ENODEV where it is lost; opening the node of one that is gone, too.
 *   WAIT answers for each task by what became of it: see there.
 *
 * A draft until the Ascend driver has landed: until then SIMNPU_ABI_MAJOR may
 * change.
 */
#ifndef UAPI_SIMNPU_H
#define UAPI_SIMNPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SIMNPU_ABI_MAJOR 0
#define SIMNPU_ABI_MINOR 3

/* The nodes are SIMNPU_NODE_PREFIX followed by the device's number in decimal. */
#define SIMNPU_NODE_PREFIX "/dev/simnpu"
#define SIMNPU_MAX_DEVICES 64
#define SIMNPU_NAME_LEN 32

/* ---- queries ---------------------------------------------------------- */

/**
 * struct simnpu_version - SIMNPU_IOCTL_VERSION
 * @major: out: SIMNPU_ABI_MAJOR of the device; another one is another interface
 * @minor: out: SIMNPU_ABI_MINOR; a larger one only added to it
 */
struct simnpu_version {
	__u32 major;
	__u32 minor;
};

/* simnpu_info.caps */
#define SIMNPU_CAP_PRIORITY	(1ull << 0)	/* queues have priorities */
#define SIMNPU_CAP_MODULE_FILE	(1ull << 1)	/* MODULE_LOAD with SIMNPU_MODULE_PATH */
#define SIMNPU_CAP_MODULE_DATA	(1ull << 2)	/* MODULE_LOAD with SIMNPU_MODULE_IMAGE */
#define SIMNPU_CAP_STRICT	(1ull << 3)	/* device addresses can't be read by the host */
#define SIMNPU_CAP_EXPORT	(1ull << 4)	/* exports reach other processes */
#define SIMNPU_CAP_VMM		(1ull << 5)	/* VM_* */
#define SIMNPU_CAP_MANAGED	(1ull << 6)	/* SIMNPU_MEM_MANAGED */
#define SIMNPU_CAP_WINDOW	(1ull << 7)	/* MEM_WINDOW */
#define SIMNPU_CAP_FAULT	(1ull << 8)	/* faults can be provoked */
#define SIMNPU_CAP_VIRTUAL_TIME	(1ull << 9)	/* the clock is a modelled one */
#define SIMNPU_CAP_BF16		(1ull << 10)	/* the part computes in bf16 */
#define SIMNPU_CAP_INF_NAN	(1ull << 11)	/* the part keeps INF and NAN */
#define SIMNPU_CAP_PEER		(1ull << 12)	/* copies to and from other devices */
#define SIMNPU_CAP_ABORT	(1ull << 13)	/* QUEUE_ABORT, DEVICE_STOP, DEVICE_RESTART */

/*
 * simnpu_info.state
 *
 * OK becomes FAULTED by a fault of the hardware: no further task begins, kernels that run are told
 * to stop, and all queues of the device break: each has one more failure, EIO, at its first task
 * that has not completed, whose origin is the task that met the fault, and its timeline says
 * that all is done. OK and FAULTED become STOPPED by DEVICE_STOP, STOPPED becomes OK by
 * DEVICE_RESTART, with the next generation. LOST is a device that was unplugged, or one of whose
 * tasks did not end in time: an open file of it is good for closing, and the node leads to another
 * device from then on, or to none.
 */
#define SIMNPU_STATE_OK		0
#define SIMNPU_STATE_FAULTED	1	/* DEVICE_STOP and DEVICE_RESTART mend it */
#define SIMNPU_STATE_STOPPED	2	/* between DEVICE_STOP and DEVICE_RESTART */
#define SIMNPU_STATE_LOST	3	/* for good */

/**
 * struct simnpu_info - SIMNPU_IOCTL_INFO: what the device is and has
 * @caps: out: SIMNPU_CAP_*
 * @mem_total: out: bytes of device memory
 * @mem_free: out: bytes that the caller can still allocate
 * @va_start: out: lowest device address
 * @va_size: out: bytes of device addresses
 * @mem_align: out: alignment of every allocation, a power of two
 * @cores: out: AI cores
 * @dma_channels: out: channels of each DMA engine
 * @max_queues: out: queues that may exist at a time, all openers together
 * @max_events: out: timed events that may exist at a time
 * @max_contexts: out: contexts of one open file
 * @max_queued: out: tasks that one queue may hold
 * @priorities: out: queue priorities, 0 (first) to priorities - 1
 * @args_max: out: bytes of arguments of one launch
 * @queues: out: queues that exist, all openers together
 * @events: out: timed events that exist, all openers together
 * @state: out: SIMNPU_STATE_*
 * @generation: out: grows with each restart
 * @utilization: out: per cent of core time that was busy of late, 0 to 100
 * @look_again_ns: out: longest time after which an active device looks at its rings
 * @kernel_abi: out: NPU_SIMNPU_KERNEL_ABI
 * @pad: out: zero
 * @part: out: name of the part, zero-terminated
 * @ecc_corrected: out: memory errors that were corrected; all counts are since the first open
 * @ecc_uncorrected: out: memory errors that were not
 * @link_errors: out: errors of the link to the host
 * @hangs: out: tasks that hung, and heartbeats that were lost
 * @restarts: out: times that it was restarted
 * @cause: out: the first fault of this generation, a positive errno, 0: none. EHWPOISON: an
 *	uncorrectable memory error; ENOLINK: the link; ETIME: a task hung; EREMOTEIO: there was
 *	no heartbeat; ENODEV: unplugged. Of a lost one, too
 * @pad2: out: zero
 * @bus: out: where the part sits, zero-terminated. Stays with the part, whatever its node
 *	is called: by this it is known again
 * @mem_others: out: bytes of device memory that other processes hold
 * @mem_quota: out: bytes that this process may hold, 0: no fewer than the device has
 * @queue_quota: out: queues that it may have, 0: no fewer than there may be
 * @event_quota: out: timed events that it may have, in the same way
 * @number: out: what this process is called in a named instance, 0: it uses nothing there
 * @slot: out: its slot there
 * @pad3: out: zero
 */
struct simnpu_info {
	__u64 caps;
	__u64 mem_total;
	__u64 mem_free;
	__u64 va_start;
	__u64 va_size;
	__u64 mem_align;
	__u32 cores;
	__u32 dma_channels;
	__u32 max_queues;
	__u32 max_events;
	__u32 max_contexts;
	__u32 max_queued;
	__u32 priorities;
	__u32 args_max;
	__u32 queues;
	__u32 events;
	__u32 state;
	__u32 generation;
	__u32 utilization;
	__u32 look_again_ns;
	__u32 kernel_abi;
	__u32 pad;
	char part[SIMNPU_NAME_LEN];
	__u64 ecc_corrected;
	__u64 ecc_uncorrected;
	__u64 link_errors;
	__u64 hangs;
	__u64 restarts;
	__u32 cause;
	__u32 pad2;
	char bus[SIMNPU_NAME_LEN];
	__u64 mem_others;
	__u64 mem_quota;
	__u32 queue_quota;
	__u32 event_quota;
	__u64 number;
	__u32 slot;
	__u32 pad3;
};

/**
 * struct simnpu_time - SIMNPU_IOCTL_TIME: the device's clock
 * @device_ns: out: the device's time, as in timestamps
 * @host_ns: out: CLOCK_MONOTONIC at the same moment
 */
struct simnpu_time {
	__u64 device_ns;
	__u64 host_ns;
};

/* ---- contexts --------------------------------------------------------- */

/**
 * struct simnpu_context - SIMNPU_IOCTL_CONTEXT_CREATE
 * @flags: in: zero
 * @context: out: handle, never 0
 * @arena_size: out: bytes of the context's arena
 * @result: out: SIMNPU_CONTEXT_FENCE or 0
 * @pad: in: zero
 *
 * The arena is shared memory in which the headers, rings and timestamps of the
 * context lie; mmap() all of it at SIMNPU_MMAP_ARENA(context). The bytes that
 * the device has handed out stay readable until the process ends, whatever is
 * closed or unmapped: timelines are read without a lock.
 */
struct simnpu_context {
	__u32 flags;
	__u32 context;
	__u64 arena_size;
	__u32 result;
	__u32 pad;
};

/* simnpu_context.result: a full barrier is needed between publishing and @doorbell. */
#define SIMNPU_CONTEXT_FENCE	(1u << 0)

/**
 * struct simnpu_handle - for ioctls that take nothing but a handle
 * @handle: in: what to destroy, release or stop
 * @pad: in: zero
 */
struct simnpu_handle {
	__u32 handle;
	__u32 pad;
};

/* ---- memory ----------------------------------------------------------- */

#define SIMNPU_MEM_HOST		(1u << 0)	/* pinned host memory, to be mapped */
#define SIMNPU_MEM_MANAGED	(1u << 1)	/* one address for both sides */
#define SIMNPU_MEM_HUGE		(1u << 2)	/* huge pages or -ENOMEM */
#define SIMNPU_MEM_HUGE_FIRST	(1u << 3)	/* huge pages where there are some */
#define SIMNPU_MEM_PHYSICAL	(1u << 4)	/* device memory without an address, for VM_MAP */
#define SIMNPU_MEM_FLAGS	0x1fu

/* simnpu_mem.result */
#define SIMNPU_MEM_UNLOCKED	(1u << 0)	/* host memory that could not be locked */

/**
 * struct simnpu_mem - SIMNPU_IOCTL_MEM_CREATE
 * @size: in: bytes, at least 1; SIMNPU_MEM_PHYSICAL: a multiple of SIMNPU_VM_GRANULARITY
 * @align: in: alignment of the address, a power of two, or 0 for the device's
 * @context: in: the context that it lives in
 * @flags: in: SIMNPU_MEM_*
 * @addr: out: device address; for host memory 0: its address is where it is mapped; for
 *	SIMNPU_MEM_PHYSICAL 0, too
 * @map: out: offset for mmap(), for host memory
 * @handle: out: handle
 * @result: out: SIMNPU_MEM_UNLOCKED or 0
 *
 * Pages and limits are charged when the ioctl returns. ENOMEM: the device's
 * limit, the host's budget, or the host itself has no more. SIMNPU_MEM_MANAGED is
 * device memory that the host may read and write at its address, too, until it is
 * destroyed; a child of fork() has nothing there. Not exported. EOPNOTSUPP: the
 * part has none. EMFILE: it takes a descriptor for a moment.
 */
struct simnpu_mem {
	__u64 size;
	__u64 align;
	__u32 context;
	__u32 flags;
	__u64 addr;
	__u64 map;
	__u32 handle;
	__u32 result;
};

/**
 * struct simnpu_mem_free - SIMNPU_IOCTL_MEM_DESTROY
 * @handle: in: from MEM_CREATE, MEM_REGISTER or MEM_IMPORT
 * @flags: in: zero
 *
 * Tasks that still use the memory fail with EFAULT. A mapping of host memory
 * goes away with it. SIMNPU_MEM_PHYSICAL that is mapped stays where it is, and
 * goes with VM_UNMAP.
 */
struct simnpu_mem_free {
	__u32 handle;
	__u32 flags;
};

/**
 * struct simnpu_register - SIMNPU_IOCTL_MEM_REGISTER: pin memory of the caller
 * @addr: in: host address, page-aligned
 * @size: in: bytes, whole pages
 * @context: in: the context that it is for
 * @flags: in: zero
 * @handle: out: handle; MEM_DESTROY unpins it
 * @result: out: SIMNPU_MEM_UNLOCKED or 0
 */
struct simnpu_register {
	__u64 addr;
	__u64 size;
	__u32 context;
	__u32 flags;
	__u32 handle;
	__u32 result;
};

/**
 * struct simnpu_window - SIMNPU_IOCTL_MEM_WINDOW: open device memory for file I/O
 * @addr: in: device address
 * @size: in: bytes, within one allocation
 * @flags: in: 1 to open, 0 to close
 * @pad: in: zero
 * @host: out: host address of the bytes while the window is open
 */
struct simnpu_window {
	__u64 addr;
	__u64 size;
	__u32 flags;
	__u32 pad;
	__u64 host;
};

/**
 * struct simnpu_export - SIMNPU_IOCTL_MEM_EXPORT, SIMNPU_IOCTL_QUEUE_EXPORT
 * @handle: in: memory or queue
 * @flags: in: zero
 * @fd: out: descriptor that stands for it, close-on-exec
 * @pad: out: zero
 * @size: out: bytes of memory, else 0
 * @to: in: of memory: simnpu_info.number of the process that it is for, 0: of none
 * @to_slot: in: simnpu_info.slot of that process
 * @share: out: what that process says in simnpu_import.share; in: not 0, and @to is 0: this is
 *	taken back, as that process did not get the descriptor, and nothing else is done
 *
 * Memory is that of MEM_CREATE, without flags or with SIMNPU_MEM_PHYSICAL, which has no @to, of a
 * named instance. What @to is for: the memory counts as long as somebody has it, whoever has freed
 * it. ESRCH: there is no such process.
 * EMFILE: there were too few descriptors when it was made. EOPNOTSUPP: none of that memory.
 */
struct simnpu_export {
	__u32 handle;
	__u32 flags;
	__s32 fd;
	__u32 pad;
	__u64 size;
	__u64 to;
	__u32 to_slot;
	__u32 share;
};

/**
 * struct simnpu_import - SIMNPU_IOCTL_MEM_IMPORT, SIMNPU_IOCTL_QUEUE_IMPORT
 * @fd: in: from MEM_EXPORT or QUEUE_EXPORT, of any device and process
 * @context: in: the context to import it to
 * @flags: in: of memory: SIMNPU_MEM_PHYSICAL or zero, as it was made; of a queue: zero
 * @handle: out: handle; MEM_DESTROY or QUEUE_DESTROY gives it back
 * @addr: out: device address of memory, else 0
 * @size: in: of memory with an address, where @share is 0: simnpu_info.number of the process whose
 *	it is, and it counts as with a @share; 0: of none; out: bytes of memory, else 0
 * @share: in: from MEM_EXPORT, or 0; taken back in any case
 * @owner_slot: in: simnpu_info.slot of that process
 *
 * Memory that is imported is the importer's to use and to give back; it is nobody's to export.
 */
struct simnpu_import {
	__s32 fd;
	__u32 context;
	__u32 flags;
	__u32 handle;
	__u64 addr;
	__u64 size;
	__u32 share;
	__u32 owner_slot;
};

/* What addresses and sizes of VM_* are multiples of. */
#define SIMNPU_VM_GRANULARITY	(2u << 20)

/* simnpu_vm.flags; writing alone there is not */
#define SIMNPU_VM_READ		(1u << 0)
#define SIMNPU_VM_WRITE		(1u << 1)

/**
 * struct simnpu_vm - SIMNPU_IOCTL_VM_RESERVE, _VM_RELEASE, _VM_MAP, _VM_UNMAP, _VM_PROTECT
 * @addr: in: device address (RESERVE: wanted, or 0); out of RESERVE: the address
 * @size: in: bytes, at least 1, a multiple of SIMNPU_VM_GRANULARITY
 * @offset: in: RESERVE: alignment of the address, a power of two, or 0; else 0
 * @context: in: the context
 * @handle: in: MAP: SIMNPU_MEM_PHYSICAL memory of the context, else 0
 * @flags: in: MAP, PROTECT: SIMNPU_VM_* or 0, else 0
 * @pad: in: zero
 *
 * RESERVE: addresses, with nothing behind them. EEXIST: some of what is wanted is taken; ENOMEM:
 * there are no more. RELEASE: a whole reservation; EBUSY: something is mapped there.
 *
 * MAP: all of the memory, at reserved addresses. EEXIST: something is mapped there; EBUSY: the
 * memory is mapped. Mappings side by side in a reservation that allow the same are one allocation
 * for tasks, COPY and MEM_WINDOW. What is not mapped, or not allowed, fails with EFAULT.
 *
 * UNMAP, PROTECT: a whole mapping. What is in the memory stays, wherever it is mapped next. ENOMEM
 * of UNMAP: the host has no maps left to keep it elsewhere, it stays mapped; never of memory whose
 * handle was destroyed.
 */
struct simnpu_vm {
	__u64 addr;
	__u64 size;
	__u64 offset;
	__u32 context;
	__u32 handle;
	__u32 flags;
	__u32 pad;
};

/**
 * struct simnpu_poison - SIMNPU_IOCTL_POISON: memory that was hit by uncorrectable errors
 * @addr: out: device address
 * @size: out: bytes
 * @index: in: which, from 0
 * @pad: in: zero
 *
 * What reads such a range fails with EHWPOISON, and the device is faulted. The list lives until
 * DEVICE_RESTART, by which the memory is good again, though not what was in it; a range that is
 * overwritten or freed before it was read leaves it. ENOENT: there is no @index-th.
 */
struct simnpu_poison {
	__u64 addr;
	__u64 size;
	__u32 index;
	__u32 pad;
};

#define SIMNPU_COPY_TO_DEVICE	1u
#define SIMNPU_COPY_TO_HOST	2u
#define SIMNPU_COPY_ON_DEVICE	3u
#define SIMNPU_COPY_PEER	4u	/* both are device addresses, of different devices */

/**
 * struct simnpu_copy - SIMNPU_IOCTL_COPY: a copy or fill that is ordered with no queue
 * @dst: in: address to write
 * @src: in: address to read; fill: the byte, 0 to 255
 * @dst_pitch: in: bytes from row to row of dst; at least @width
 * @src_pitch: in: bytes from row to row of src; at least @width; fill: 0
 * @width: in: bytes of a row, at least 1
 * @height: in: rows, at least 1
 * @context: in: the context whose memory it is
 * @kind: in: SIMNPU_COPY_*; for fills 0
 *
 * Done when it returns. EHWPOISON: @src was hit by an uncorrectable error.
 * Host addresses are the caller's. The other device of a SIMNPU_COPY_PEER must be
 * open in this process; device addresses are unique there.
 */
struct simnpu_copy {
	__u64 dst;
	__u64 src;
	__u64 dst_pitch;
	__u64 src_pitch;
	__u64 width;
	__u64 height;
	__u32 context;
	__u32 kind;
};

/* ---- queues ----------------------------------------------------------- */

/*
 * After a failure later tasks are not run: each completes in its turn, failed with
 * ECANCELED and the first failure as its origin, until QUEUE_ABORT.
 */
#define SIMNPU_QUEUE_FAIL_STOP	(1u << 0)

/**
 * struct simnpu_queue - SIMNPU_IOCTL_QUEUE_CREATE
 * @context: in: the context
 * @flags: in: SIMNPU_QUEUE_*
 * @priority: in: 0 (first) to priorities - 1
 * @slots: in: slots of the first ring segment, a power of two from 16 to SIMNPU_SEGMENT_MAX
 * @first_seq: in: sequence number of the first task, at least 1; the timeline
 *	starts at one less
 * @handle: out: handle
 * @pad: in: zero
 * @header: out: offset of struct simnpu_queue_header in the context's arena
 * @ring: out: offset of the first segment
 *
 * ENOSPC: no more queues on the device. ENOMEM: no memory for it.
 */
struct simnpu_queue {
	__u32 context;
	__u32 flags;
	__u32 priority;
	__u32 slots;
	__u64 first_seq;
	__u32 handle;
	__u32 pad;
	__u64 header;
	__u64 ring;
};

/**
 * struct simnpu_grow - SIMNPU_IOCTL_QUEUE_GROW: another ring segment
 * @queue: in: the queue
 * @slots: in: slots, a power of two from 16 to SIMNPU_SEGMENT_MAX
 * @ring: out: offset of the segment in the arena, its pages present
 *
 * The device gives a segment back when it has followed the link out of it to
 * another one.
 */
struct simnpu_grow {
	__u32 queue;
	__u32 slots;
	__u64 ring;
};

/**
 * struct simnpu_kick - SIMNPU_IOCTL_KICK: the doorbell
 * @queue: in: the queue
 * @flags: in: zero
 *
 * To be rung after publishing a task when simnpu_queue_header.doorbell is not 0.
 */
struct simnpu_kick {
	__u32 queue;
	__u32 flags;
};

#define SIMNPU_WAIT_SPIN	1u	/* how to pass the time; 0: the device's choice */
#define SIMNPU_WAIT_YIELD	2u
#define SIMNPU_WAIT_BLOCK	3u
#define SIMNPU_WAIT_MODE	0x3u
#define SIMNPU_WAIT_NO_BORROW	(1u << 2)	/* don't run tasks on the waiting thread */
#define SIMNPU_WAIT_BORROW_ALL	(1u << 3)	/* run kernels of loaded modules there, too */

#define SIMNPU_DEADLINE_NONE (~0ull)

/**
 * struct simnpu_wait - SIMNPU_IOCTL_WAIT: until the queue has completed a task
 * @seq: in: sequence number
 * @deadline_ns: in: absolute, CLOCK_MONOTONIC; SIMNPU_DEADLINE_NONE: none
 * @queue: in: the queue
 * @flags: in: SIMNPU_WAIT_*
 *
 * The thread may be put to running tasks that it waits for. ETIME: the deadline
 * passed; EINTR does not occur. That a task failed is no failure of the wait, nor
 * is it for a task that had completed when its device faulted or stopped. One that had
 * not, gives EIO where the device faulted, ECANCELED where it was stopped or the
 * task was discarded by QUEUE_ABORT, ENODEV where it was lost: at once, also to
 * waits under way.
 */
struct simnpu_wait {
	__u64 seq;
	__u64 deadline_ns;
	__u32 queue;
	__u32 flags;
};

/**
 * struct simnpu_notify - SIMNPU_IOCTL_NOTIFY: a descriptor to be told
 * @seq: in: sequence number
 * @queue: in: the queue
 * @fd: in: an eventfd; 1 is written to it once @seq has completed
 *
 * The device keeps a duplicate until then. Notifications that are pending when
 * the queue is destroyed are sent. -ENOMEM: there is no engine thread, and none
 * can be made, so that nobody would run the task.
 */
struct simnpu_notify {
	__u64 seq;
	__u32 queue;
	__s32 fd;
};

/**
 * struct simnpu_task_error - one failed task
 * @seq: its sequence number
 * @origin_seq: the task that failed first, where this one only depended on it
 * @cookie: simnpu_desc.cookie of the task that failed first
 * @time_ns: when, on the device's clock
 * @addr: the address that was refused, or 0
 * @origin_queue: queue of the task that failed first, as the reader would name it, or 0
 * @code: a positive errno
 * @op: SIMNPU_OP_* of the task that failed first
 * @tag: simnpu_desc.tag of the task that failed first
 * @detail: zero
 * @pad: zero
 */
struct simnpu_task_error {
	__u64 seq;
	__u64 origin_seq;
	__u64 cookie;
	__u64 time_ns;
	__u64 addr;
	__u32 origin_queue;
	__u32 code;
	__u32 op;
	__u32 tag;
	__u32 detail;
	__u32 pad;
};

#define SIMNPU_ERRORS_MAX 16

/**
 * struct simnpu_errors - SIMNPU_IOCTL_QUEUE_ERRORS: take the queue's failures
 * @list: in: address of an array of struct simnpu_task_error
 * @queue: in: the queue
 * @room: in: entries of the array
 * @count: out: entries written, oldest first; they are forgotten by the queue
 * @dropped: out: failures since the last call for which there was no room in the device,
 *	the youngest ones
 * @dropped_first: out: sequence number of the first of those
 * @dropped_last: out: sequence number of the last of those
 * @entry_size: in: sizeof(struct simnpu_task_error) of the caller
 * @pad: in: zero
 *
 * Clears SIMNPU_TIMELINE_ERROR when none is left.
 */
struct simnpu_errors {
	__u64 list;
	__u32 queue;
	__u32 room;
	__u32 count;
	__u32 dropped;
	__u64 dropped_first;
	__u64 dropped_last;
	__u32 entry_size;
	__u32 pad;
};

/**
 * struct simnpu_abort - SIMNPU_IOCTL_QUEUE_ABORT: discard what is queued, stop what runs
 * @queue: in: the queue
 * @flags: in: zero
 * @deadline_ns: in: absolute, CLOCK_MONOTONIC; 0: five seconds from now; SIMNPU_DEADLINE_NONE: none
 *
 * All tasks published before count as done when it returns; those that had not begun did
 * nothing. Waits for them give ECANCELED, those under way and those that come later, until 16 later
 * aborts have discarded something; queues that wait for them go on, and fail with ECANCELED and
 * where it began. Failures are forgotten; a queue that was stopped by one runs again.
 * ETIME: the task that runs does not end: when it does, what is queued then is discarded. The
 * queue of a faulted or stopped device is broken already: failures are forgotten, that is all.
 */
struct simnpu_abort {
	__u32 queue;
	__u32 flags;
	__u64 deadline_ns;
};

/**
 * struct simnpu_at - SIMNPU_IOCTL_QUEUE_AT: what a queue is at
 * @queue: in: the queue
 * @pad: in: zero
 * @seq: out: sequence number of the task that runs, or is the next to
 * @cookie: out: simnpu_desc.cookie of it
 * @op: out: SIMNPU_OP_*
 * @tag: out: simnpu_desc.tag
 *
 * For messages. ENODATA: nothing is queued.
 */
struct simnpu_at {
	__u32 queue;
	__u32 pad;
	__u64 seq;
	__u64 cookie;
	__u32 op;
	__u32 tag;
};

/* ---- timed events ------------------------------------------------------ */

/**
 * struct simnpu_event - SIMNPU_IOCTL_EVENT_CREATE: room for a timestamp
 * @context: in: the context
 * @flags: in: zero
 * @handle: out: handle, for EVENT_DESTROY
 * @pad: in: zero
 * @stamp: out: offset in the arena of a __u64 that SIMNPU_OP_RECORD writes: the time, ns
 *
 * ENOSPC: no more events on the device.
 */
struct simnpu_event {
	__u32 context;
	__u32 flags;
	__u32 handle;
	__u32 pad;
	__u64 stamp;
};

/* ---- modules ----------------------------------------------------------- */

#define SIMNPU_MODULE_PATH	1u	/* data: zero-terminated path of a shared object */
#define SIMNPU_MODULE_IMAGE	2u	/* data: the shared object itself */
#define SIMNPU_MODULE_BUILTIN	3u	/* no data: the kernels that the device brings along */

/**
 * struct simnpu_module - SIMNPU_IOCTL_MODULE_LOAD
 * @data: in: address of the path or image
 * @size: in: bytes there (of a path: its zero included)
 * @context: in: the context
 * @kind: in: SIMNPU_MODULE_*
 * @handle: out: handle
 * @pad: in: zero
 *
 * ENOENT: no such file. ENOEXEC: not a shared object that can be loaded, or none
 * of kernels. EPROTO: made for another kernel ABI.
 */
struct simnpu_module {
	__u64 data;
	__u64 size;
	__u32 context;
	__u32 kind;
	__u32 handle;
	__u32 pad;
};

/**
 * struct simnpu_kernel - SIMNPU_IOCTL_KERNEL_GET
 * @name: in: address of the zero-terminated name
 * @size: in: bytes there, the zero included
 * @module: in: the module
 * @kernel: out: what SIMNPU_OP_LAUNCH takes; lives as long as the module
 *
 * ESRCH: the module has no such kernel.
 */
struct simnpu_kernel {
	__u64 name;
	__u32 size;
	__u32 module;
	__u64 kernel;
};

/* ---- host callbacks ---------------------------------------------------- */

/* simnpu_callback.flags */
#define SIMNPU_CALLBACK_HOST	(1u << 1)	/* NEXT: of SIMNPU_OP_HOST */

/**
 * struct simnpu_callback - SIMNPU_IOCTL_CALLBACK_NEXT, SIMNPU_IOCTL_CALLBACK_DONE
 * @deadline_ns: in: NEXT: as in struct simnpu_wait
 * @context: in: the context
 * @queue: NEXT: out: the queue that it came from; DONE: in
 * @seq: NEXT: out: its sequence number; DONE: in
 * @fn: NEXT: out: from the task; DONE: in: zero
 * @arg: NEXT: out: from the task; DONE: in: zero
 * @flags: NEXT: in: SIMNPU_CALLBACK_HOST or not, other bits are ignored; out: SIMNPU_DESC_NOBLOCK
 *	if the queue has gone on; DONE: in: zero
 * @code: DONE: in: 0, or a positive errno with which the task fails; NEXT: in: zero
 *
 * NEXT takes the oldest callback whose turn has come, with SIMNPU_CALLBACK_HOST the oldest
 * SIMNPU_OP_HOST instead; ETIME: none came in time;
 * ECANCELED: CALLBACK_STOP was called. DONE lets the queue go on; it is not called for one
 * that does not block. One of a task that was discarded meanwhile does nothing.
 */
struct simnpu_callback {
	__u64 deadline_ns;
	__u32 context;
	__u32 queue;
	__u64 seq;
	__u64 fn;
	__u64 arg;
	__u32 flags;
	__u32 code;
};

/* ---- stop and restart --------------------------------------------------- */

/**
 * struct simnpu_stop - SIMNPU_IOCTL_DEVICE_STOP, SIMNPU_IOCTL_DEVICE_RESTART
 * @flags: in: zero
 * @pad: in: zero
 * @deadline_ns: in: absolute, CLOCK_MONOTONIC; 0: five seconds from now; SIMNPU_DEADLINE_NONE: none
 *
 * STOP: the device is for all its openers: it refuses new work, discards what is queued, tells
 * kernels to stop, and waits for the tasks and COPYs that run. Queues break: their timelines say
 * that all is done. Of a stopped one: nothing to do. ETIME: a task did not end; the device is
 * lost then. EBUSY: another STOP or RESTART takes longer than this one may.
 *
 * RESTART: of a stopped one, else EBUSY (OK, faulted, or as of STOP). The generation grows by one.
 * Contexts, memory, modules, kernels and events stay. Queues of an older generation stay broken:
 * QUEUE_GROW of them gives ESTALE; they are good for QUEUE_ERRORS and QUEUE_DESTROY.
 */
struct simnpu_stop {
	__u32 flags;
	__u32 pad;
	__u64 deadline_ns;
};

/* ---- shared memory ----------------------------------------------------- */

/* Where mmap() finds the arena of a context; host memory is mapped at simnpu_mem.map. */
#define SIMNPU_MMAP_ARENA(ctx)	((__u64)(ctx) << 40)
/* Slots of the largest ring segment. */
#define SIMNPU_SEGMENT_MAX	4096u
/* The bit of a timeline that says that errors wait to be taken. */
#define SIMNPU_TIMELINE_ERROR	(1ull << 63)

/**
 * struct simnpu_queue_header - what both sides know of a queue
 * @timeline: device writes: sequence number of the last completed task, and
 *	SIMNPU_TIMELINE_ERROR
 * @consumed: device writes: slots consumed, of all segments, links included
 * @pad: zero
 * @doorbell: device writes: not 0: it does not look at this ring, and must be
 *	kicked after a task was published
 * @pad2: zero
 *
 * After publishing, the submitter reads @doorbell. No barrier of the processor is
 * needed between the two: before a device that has set @doorbell stops looking,
 * it makes every processor of the submitter pass one, and looks once more. Where
 * it can't do that, simnpu_context.result says SIMNPU_CONTEXT_FENCE. @doorbell is
 * read at each submission and seldom written, the others are written with each
 * task: hence 64 bytes for each of the two.
 */
struct simnpu_queue_header {
	__u64 timeline;
	__u64 consumed;
	__u64 pad[6];
	__u32 doorbell;
	__u32 pad2[15];
};

enum simnpu_op {
	SIMNPU_OP_NOP = 0,
	SIMNPU_OP_LINK = 1,
	SIMNPU_OP_LAUNCH = 2,
	SIMNPU_OP_COPY = 3,
	SIMNPU_OP_COPY_2D = 4,
	SIMNPU_OP_FILL = 5,
	SIMNPU_OP_WAIT = 6,
	SIMNPU_OP_RECORD = 7,
	SIMNPU_OP_CALLBACK = 8,
	SIMNPU_OP_VALUE_WRITE = 9,	/* reserved */
	SIMNPU_OP_VALUE_WAIT = 10,	/* reserved */
	SIMNPU_OP_HOST = 11,
};

/* simnpu_desc.flags */
#define SIMNPU_DESC_NOBLOCK	(1u << 0)	/* CALLBACK: the queue goes on at once */

/* Bytes of arguments that lie in the descriptor itself. */
#define SIMNPU_ARGS_INLINE 24u

/**
 * struct simnpu_desc - a slot of a ring: one task, or the start of one
 * @seq: sequence number; written last, with release order, and makes the slot
 *	valid. A link has the number of the task behind it with
 *	SIMNPU_SEQ_LINK set
 * @op: SIMNPU_OP_*
 * @slots: slots behind this one that belong to the task, 0 to 64
 * @flags: SIMNPU_DESC_*
 * @tag: given back with errors
 * @cookie: given back with errors
 * @launch: LAUNCH: @launch.kernel from KERNEL_GET; @launch.blocks at least 1;
 *	@launch.args_size up to args_max: up to SIMNPU_ARGS_INLINE they lie in
 *	@launch.args, else in the slots behind
 * @copy: COPY: @copy.size bytes, @copy.kind SIMNPU_COPY_*
 * @copy_2d: COPY_2D: as struct simnpu_copy; the rest is in the slot behind
 * @fill: FILL: @fill.size bytes become @fill.value & 255
 * @wait: WAIT: until the queue @wait.queue, of this open file or imported, has
 *	completed @wait.seq; one that is destroyed has completed all
 * @record: RECORD: note the time in @record.event, of the queue's context; 0: nowhere
 * @callback: CALLBACK: @callback.fn and @callback.arg are for CALLBACK_NEXT. HOST: the same, for a
 *	task that the host carries out: it is given out apart from callbacks, which may take long,
 *	and takes no flags
 * @word: the same as words
 * @link: LINK: the ring goes on at the arena's @link.ring, which has @link.slots
 *	slots; that can be the start of the same segment
 *
 * A ring segment is an array of these. The device takes them one after another
 * and moves only by links; the submitter keeps the last slot for one, and never
 * overwrites a slot that is not consumed. Segments come zeroed. A submitter that
 * has written slots of data clears the seq of the slot that the device looks at
 * next before it publishes a task or link, so that data is never taken for a
 * sequence number.
 *
 * The device copies a descriptor before it looks at it, and never reads back what
 * it wrote. One that does not fit (op, flags, sizes) fails with EINVAL. A link that
 * does not lead to the start of a segment of this queue, or leads to itself, breaks the
 * queue: all tasks and waits fail with EIO until QUEUE_DESTROY.
 */
struct simnpu_desc {
	__u64 seq;
	__u8 op;
	__u8 slots;
	__u16 flags;
	__u32 tag;
	__u64 cookie;
	union {
		struct {
			__u64 kernel;
			__u32 blocks;
			__u32 args_size;
			__u8 args[SIMNPU_ARGS_INLINE];
		} launch;
		struct {
			__u64 dst;
			__u64 src;
			__u64 size;
			__u32 kind;
			__u32 pad[3];
		} copy;
		struct {
			__u64 dst;
			__u64 src;
			__u64 width;
			__u64 height;
			__u32 kind;
			__u32 pad;
		} copy_2d;
		struct {
			__u64 dst;
			__u64 size;
			__u32 value;
			__u32 pad[5];
		} fill;
		struct {
			__u32 queue;
			__u32 pad;
			__u64 seq;
			__u64 pad2[3];
		} wait;
		struct {
			__u32 event;
			__u32 pad[9];
		} record;
		struct {
			__u64 fn;
			__u64 arg;
			__u64 pad[3];
		} callback;
		struct {
			__u64 ring;
			__u32 slots;
			__u32 pad[7];
		} link;
		__u64 word[5];
	};
};

/* The bit of simnpu_desc.seq that says that the slot is a link. */
#define SIMNPU_SEQ_LINK (1ull << 63)

/**
 * struct simnpu_desc_pitch - the slot behind a SIMNPU_OP_COPY_2D
 * @dst_pitch: bytes from row to row of dst
 * @src_pitch: bytes from row to row of src
 * @pad: zero
 */
struct simnpu_desc_pitch {
	__u64 dst_pitch;
	__u64 src_pitch;
	__u64 pad[6];
};

/* ---- between processes (named instances) -------------------------------- */

#define SIMNPU_INSTANCE_MAGIC 0x75706e6d69736e69ull
#define SIMNPU_INSTANCE_SLOTS 128
/* What names are of, up to SIMNPU_NAME_LEN - 1 of these; the first is no '.'. */
#define SIMNPU_INSTANCE_NAME \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/*
 * The devices of a named instance belong to all processes of one user that open them under its
 * name. What they share is a file; all else, memory too, is each one's own, and what a process does
 * to a device's state (DEVICE_STOP, faults) is seen by it alone.
 *
 * Locks of open file descriptions say who is there; they end with the process, however it ends:
 *
 * - byte SIMNPU_INSTANCE_LOCK_FILE: a read lock of each that has the file open. Who gets a write
 *   lock is alone, and sets the file up: it is the first one's options that count.
 * - byte SIMNPU_INSTANCE_LOCK_ACCOUNTS: a write lock while something is charged.
 * - the bytes of a slot: a write lock of its owner. A slot that another can lock is free, whatever
 *   it says.
 *
 * To charge something, its owner adds it to his slot, passes a full barrier, sums the slots of the
 * device up, and takes it back if that is over the limit: so the limit holds even where the
 * lock of the accounts is not waited for, because its owner was stopped. With the lock, nothing is
 * refused in vain.
 */
#define SIMNPU_INSTANCE_LOCK_FILE	0
#define SIMNPU_INSTANCE_LOCK_ACCOUNTS	1

/**
 * struct simnpu_instance_slot - a device as one process uses it
 * @owner: boot-unique number of the opener, 0: free
 * @mem: bytes of device memory that it holds
 * @queues: queues that it holds
 * @events: timed events that it holds
 * @wake: word that others change to wake it
 * @device: number of the device
 * @pad: zero
 *
 * Written by its owner alone.
 */
struct simnpu_instance_slot {
	__u64 owner;
	__u64 mem;
	__u32 queues;
	__u32 events;
	__u32 wake;
	__u32 device;
	__u64 pad[3];
};

#define SIMNPU_INSTANCE_SHARES 512

/**
 * struct simnpu_instance_share - memory of one process that another one has
 * @importer: simnpu_instance_slot.owner of the other one, 0: free
 * @owner: the same of whose it is
 * @object: what the two mean; of an instance
 * @size: bytes
 * @importer_slot: slot of the other one
 * @owner_slot: slot of whose it is
 * @device: number of the device
 * @orphan: not 0: its owner has freed it
 *
 * Written by the owner, under the lock of the accounts, before the other one gets it, or of
 * SIMNPU_MEM_PHYSICAL by that one, from the page behind the memory, where the owner says whose it
 * is, and when he has freed it; and set free
 * by that one. One whose importer is dead is free. Memory that is freed, or whose owner is dead,
 * counts until no other one has it.
 */
struct simnpu_instance_share {
	__u64 importer;
	__u64 owner;
	__u64 object;
	__u64 size;
	__u32 importer_slot;
	__u32 owner_slot;
	__u32 device;
	__u32 orphan;
};

/**
 * struct simnpu_instance - the file of a named instance
 * @magic: SIMNPU_INSTANCE_MAGIC; written last
 * @major: SIMNPU_ABI_MAJOR
 * @slots: SIMNPU_INSTANCE_SLOTS
 * @devices: devices of the instance
 * @pad: zero
 * @memory: bytes of memory of each
 * @part: name of the part
 * @slot: who uses which device
 * @share: who has memory of whom
 */
struct simnpu_instance {
	__u64 magic;
	__u32 major;
	__u32 slots;
	__u32 devices;
	__u32 pad;
	__u64 memory;
	char part[SIMNPU_NAME_LEN];
	struct simnpu_instance_slot slot[SIMNPU_INSTANCE_SLOTS];
	struct simnpu_instance_share share[SIMNPU_INSTANCE_SHARES];
};

/* ---- numbers ------------------------------------------------------------ */

#define SIMNPU_IOC 'N'
#define SIMNPU_IOCTL_VERSION		_IOR(SIMNPU_IOC, 0x00, struct simnpu_version)
#define SIMNPU_IOCTL_INFO		_IOR(SIMNPU_IOC, 0x01, struct simnpu_info)
#define SIMNPU_IOCTL_TIME		_IOR(SIMNPU_IOC, 0x02, struct simnpu_time)
#define SIMNPU_IOCTL_CONTEXT_CREATE	_IOWR(SIMNPU_IOC, 0x08, struct simnpu_context)
#define SIMNPU_IOCTL_CONTEXT_DESTROY	_IOW(SIMNPU_IOC, 0x09, struct simnpu_handle)
#define SIMNPU_IOCTL_MEM_CREATE		_IOWR(SIMNPU_IOC, 0x10, struct simnpu_mem)
#define SIMNPU_IOCTL_MEM_DESTROY	_IOW(SIMNPU_IOC, 0x11, struct simnpu_mem_free)
#define SIMNPU_IOCTL_MEM_REGISTER	_IOWR(SIMNPU_IOC, 0x12, struct simnpu_register)
#define SIMNPU_IOCTL_MEM_WINDOW		_IOWR(SIMNPU_IOC, 0x13, struct simnpu_window)
#define SIMNPU_IOCTL_MEM_EXPORT		_IOWR(SIMNPU_IOC, 0x14, struct simnpu_export)
#define SIMNPU_IOCTL_MEM_IMPORT		_IOWR(SIMNPU_IOC, 0x15, struct simnpu_import)
#define SIMNPU_IOCTL_VM_RESERVE		_IOWR(SIMNPU_IOC, 0x16, struct simnpu_vm)
#define SIMNPU_IOCTL_VM_RELEASE		_IOW(SIMNPU_IOC, 0x17, struct simnpu_vm)
#define SIMNPU_IOCTL_VM_MAP		_IOW(SIMNPU_IOC, 0x18, struct simnpu_vm)
#define SIMNPU_IOCTL_VM_UNMAP		_IOW(SIMNPU_IOC, 0x19, struct simnpu_vm)
#define SIMNPU_IOCTL_VM_PROTECT		_IOW(SIMNPU_IOC, 0x1a, struct simnpu_vm)
#define SIMNPU_IOCTL_COPY		_IOW(SIMNPU_IOC, 0x1b, struct simnpu_copy)
#define SIMNPU_IOCTL_QUEUE_CREATE	_IOWR(SIMNPU_IOC, 0x20, struct simnpu_queue)
#define SIMNPU_IOCTL_QUEUE_DESTROY	_IOW(SIMNPU_IOC, 0x21, struct simnpu_handle)
#define SIMNPU_IOCTL_QUEUE_GROW		_IOWR(SIMNPU_IOC, 0x22, struct simnpu_grow)
#define SIMNPU_IOCTL_KICK		_IOW(SIMNPU_IOC, 0x23, struct simnpu_kick)
#define SIMNPU_IOCTL_WAIT		_IOW(SIMNPU_IOC, 0x24, struct simnpu_wait)
#define SIMNPU_IOCTL_NOTIFY		_IOW(SIMNPU_IOC, 0x25, struct simnpu_notify)
#define SIMNPU_IOCTL_QUEUE_ERRORS	_IOWR(SIMNPU_IOC, 0x26, struct simnpu_errors)
#define SIMNPU_IOCTL_QUEUE_ABORT	_IOW(SIMNPU_IOC, 0x27, struct simnpu_abort)
#define SIMNPU_IOCTL_QUEUE_EXPORT	_IOWR(SIMNPU_IOC, 0x28, struct simnpu_export)
#define SIMNPU_IOCTL_QUEUE_IMPORT	_IOWR(SIMNPU_IOC, 0x29, struct simnpu_import)
#define SIMNPU_IOCTL_QUEUE_AT		_IOWR(SIMNPU_IOC, 0x2a, struct simnpu_at)
#define SIMNPU_IOCTL_EVENT_CREATE	_IOWR(SIMNPU_IOC, 0x30, struct simnpu_event)
#define SIMNPU_IOCTL_EVENT_DESTROY	_IOW(SIMNPU_IOC, 0x31, struct simnpu_handle)
#define SIMNPU_IOCTL_MODULE_LOAD	_IOWR(SIMNPU_IOC, 0x38, struct simnpu_module)
#define SIMNPU_IOCTL_MODULE_UNLOAD	_IOW(SIMNPU_IOC, 0x39, struct simnpu_handle)
#define SIMNPU_IOCTL_KERNEL_GET		_IOWR(SIMNPU_IOC, 0x3a, struct simnpu_kernel)
#define SIMNPU_IOCTL_CALLBACK_NEXT	_IOWR(SIMNPU_IOC, 0x40, struct simnpu_callback)
#define SIMNPU_IOCTL_CALLBACK_DONE	_IOW(SIMNPU_IOC, 0x41, struct simnpu_callback)
#define SIMNPU_IOCTL_CALLBACK_STOP	_IOW(SIMNPU_IOC, 0x42, struct simnpu_handle)
#define SIMNPU_IOCTL_DEVICE_STOP	_IOW(SIMNPU_IOC, 0x48, struct simnpu_stop)
#define SIMNPU_IOCTL_DEVICE_RESTART	_IOW(SIMNPU_IOC, 0x49, struct simnpu_stop)
#define SIMNPU_IOCTL_POISON		_IOWR(SIMNPU_IOC, 0x4a, struct simnpu_poison)

#endif /* UAPI_SIMNPU_H */
