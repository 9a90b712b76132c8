/* SPDX-License-Identifier: MIT */
/*
 * Types and constants that every part of the interface shares.
 *
 * This is the one public header that the layers below the runtime include.
 */
#ifndef NPU_TYPES_H
#define NPU_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NPU_API __attribute__((visibility("default")))
#else
#define NPU_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Handles. Eight bits of type, 24 of index, 32 of generation; zero is none,
 * and for a stream the current one (NPU_STREAM_CURRENT). A handle is
 * compared by its value and may be copied freely. Using one after its object
 * was destroyed gives -ESTALE; using a number that never was a handle of that
 * type gives -EBADF.
 */

/** struct npu_stream - an ordered queue of tasks on one device; 0 is the current one */
typedef struct npu_stream { uint64_t h; } npu_stream;
/** struct npu_event - a point in a stream that can be queried and waited for */
typedef struct npu_event { uint64_t h; } npu_event;
/** struct npu_context - a set of streams, events and modules on one device */
typedef struct npu_context { uint64_t h; } npu_context;
/** struct npu_module - a loaded object of kernels; 0 is the driver's built-in module */
typedef struct npu_module { uint64_t h; } npu_module;
/** struct npu_kernel - a function that can be launched */
typedef struct npu_kernel { uint64_t h; } npu_kernel;
/** struct npu_vm_memory - device memory without an address, to be mapped */
typedef struct npu_vm_memory { uint64_t h; } npu_vm_memory;

#ifdef __cplusplus
#define NPU_HANDLE(type, value) (type{ (value) })
#else
#define NPU_HANDLE(type, value) ((type){ (value) })
#endif
/** NPU_STREAM_CURRENT - what npu_stream_current() gives: the current device's default stream,
 * unless npu_stream_set_current() has put another in its place */
#define NPU_STREAM_CURRENT NPU_HANDLE(npu_stream, 0)
/** NPU_MODULE_BUILTIN - the module of the kernels that the driver brings along */
#define NPU_MODULE_BUILTIN NPU_HANDLE(npu_module, 0)

/** NPU_DEVICE_CURRENT - in place of a device's ordinal: the current device of the thread */
#define NPU_DEVICE_CURRENT (-1)

/** NPU_WAIT_FOREVER - a time-out that never ends; other time-outs are milliseconds, 0 polls, and
 * other negative ones are -EINVAL */
#define NPU_WAIT_FOREVER (-1)

/** NPU_STREAM_MAX_QUEUED - tasks that one stream holds before submission blocks */
#define NPU_STREAM_MAX_QUEUED (1u << 20)
/** NPU_PRIORITY_HIGHEST - runs before all others */
#define NPU_PRIORITY_HIGHEST 0
/** NPU_PRIORITY_DEFAULT - of streams made without saying otherwise */
#define NPU_PRIORITY_DEFAULT 4
/** NPU_PRIORITY_LOWEST - runs when nothing else can */
#define NPU_PRIORITY_LOWEST 7
/** NPU_NAME_LEN - bytes of a part's or driver's name, the closing zero included */
#define NPU_NAME_LEN 32
/** NPU_TAG_LEN - bytes of an operation's tag, the closing zero included */
#define NPU_TAG_LEN 32
/** NPU_KERNEL_ARGS_MAX - bytes of arguments that one launch can carry */
#define NPU_KERNEL_ARGS_MAX 4096u

/*
 * Structures that start with their size grow at the end. One that is passed in may be shorter
 * than the library's (what is missing has its default) or longer, up to 4096 bytes, if what is
 * behind is zero (else -EINVAL); padding must be zero. Of one that is passed out only so many
 * bytes are written.
 */

/** enum npu_copy_kind - which way a copy goes */
enum npu_copy_kind {
	NPU_COPY_AUTO = 0,	/* inferred from the two pointers */
	NPU_COPY_H2H = 1,
	NPU_COPY_H2D = 2,
	NPU_COPY_D2H = 3,
	NPU_COPY_D2D = 4,	/* on one device, or between two */
};

/** enum npu_wait_mode - how a host thread passes the time while it waits */
enum npu_wait_mode {
	NPU_WAIT_AUTO = 0,	/* spin for about the price of a wake-up, then block */
	NPU_WAIT_SPIN = 1,
	NPU_WAIT_YIELD = 2,
	NPU_WAIT_BLOCK = 3,
};

/** enum npu_fail_mode - what a stream does after one of its tasks has failed */
enum npu_fail_mode {
	NPU_FAIL_CONTINUE = 0,	/* the next wait reports it, once; later tasks run */
	NPU_FAIL_STOP = 1,	/* later tasks are not run; sticky until abort or reset */
};

/* Flags of npu_stream_create(). */
/** NPU_STREAM_NONBLOCK - a full stream answers -EAGAIN instead of waiting for room */
#define NPU_STREAM_NONBLOCK (1u << 0)

/* Flags of npu_event_create(). */
/** NPU_EVENT_TIMING - the event keeps the device's time, for npu_event_elapsed() */
#define NPU_EVENT_TIMING (1u << 0)
/**
 * NPU_EVENT_WAIT() - how threads wait for the event
 * @mode: enum npu_wait_mode; NPU_WAIT_AUTO leaves it to the stream
 */
#define NPU_EVENT_WAIT(mode) ((uint32_t)(mode) << 4)
/** NPU_EVENT_IPC - other processes can have the event: npu_ipc_export_event(). Not with timing */
#define NPU_EVENT_IPC (1u << 1)
/** NPU_EVENT_FLAGS - all flags of npu_event_create() */
#define NPU_EVENT_FLAGS (NPU_EVENT_TIMING | NPU_EVENT_IPC | NPU_EVENT_WAIT(3))

/* Flags of npu_stream_callback(). */
/** NPU_CALLBACK_NOBLOCK - the stream goes on without waiting for the callback */
#define NPU_CALLBACK_NOBLOCK (1u << 0)

/* Capabilities of a device, as bits. */
#define NPU_CAP_LAUNCH		(1ull << 0)	/* kernels can be launched */
#define NPU_CAP_MODULE_FILE	(1ull << 1)	/* kernels can be loaded from a file */
#define NPU_CAP_MODULE_DATA	(1ull << 2)	/* kernels can be loaded from memory */
#define NPU_CAP_STREAM		(1ull << 3)	/* streams and events */
#define NPU_CAP_EVENT_TIMING	(1ull << 4)	/* events with the device's time */
#define NPU_CAP_PRIORITY	(1ull << 5)	/* priorities order the streams */
#define NPU_CAP_CALLBACK	(1ull << 6)	/* host callbacks in a stream */
#define NPU_CAP_COMPLETION_FD	(1ull << 7)	/* completions as pollable descriptors */
#define NPU_CAP_MEM		(1ull << 8)	/* device memory, copies and fills */
#define NPU_CAP_COPY_2D		(1ull << 9)	/* copies of rectangles */
#define NPU_CAP_HOST_ALLOC	(1ull << 10)	/* pinned host memory */
#define NPU_CAP_HOST_REGISTER	(1ull << 11)	/* pinning of memory that the caller has */
#define NPU_CAP_PEER		(1ull << 12)	/* copies between devices */
#define NPU_CAP_VMM		(1ull << 13)	/* reserve, create, map */
#define NPU_CAP_IPC		(1ull << 14)	/* memory and events shared between processes */
#define NPU_CAP_MANAGED		(1ull << 15)	/* memory valid on host and device alike */
#define NPU_CAP_IO_WINDOW	(1ull << 16)	/* file I/O straight into device memory */
#define NPU_CAP_ABORT		(1ull << 17)	/* queued tasks can be discarded */
#define NPU_CAP_BF16		(1ull << 18)	/* bf16 arithmetic */
#define NPU_CAP_INF_NAN		(1ull << 19)	/* INF and NAN are kept, not saturated */
#define NPU_CAP_HOST_TASK	(1ull << 20)	/* tasks that the host carries out: file I/O */
#define NPU_CAP_IPC_MEM		(1ull << 21)	/* memory shared between processes, by keys */
#define NPU_CAP_IPC_FD		(1ull << 22)	/* virtual memory shared so, by descriptors */
#define NPU_CAP_IPC_EVENT	(1ull << 23)	/* events shared so, by keys */

#ifdef __cplusplus
}
#endif

#endif /* NPU_TYPES_H */
