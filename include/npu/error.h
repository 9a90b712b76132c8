/* SPDX-License-Identifier: MIT */
/*
 * Errors: codes, and the record behind the last one.
 *
 * Functions return 0 or a negative errno. Why a call failed, which operation
 * it was that failed and what to do about it is in the calling thread's record
 * until the thread's next failure. A call that succeeds, or a query that says
 * -EINPROGRESS, leaves the record as it is, and no call fails for what is in it.
 * What a code means in general says npu_error_explain(); Documentation/errors.rst
 * lists them all. The most frequent:
 *
 * ============ ==============================================================
 * -EINVAL      an argument is NULL, out of range, or an unknown flag
 * -EBADF       a number that never was a handle of that type here
 * -ESTALE      a handle whose object was destroyed, or is from before a restart
 * -EXDEV       things of two devices or contexts where one is needed
 * -EPERM       not from this thread
 * -ECHILD      in the child of a fork, after the parent used the library
 * -ENOTCONN    not initialised, and the option lazy_init is off
 * -ESHUTDOWN   finalizing, the process is exiting, or the device is stopped
 * -ENODEV      no such device, or it is lost
 * -EIO         the device has a fault
 * -EHWPOISON   memory that was hit by an uncorrectable error
 * -ECANCELED   what was waited for was discarded: abort, or stop of the device
 * -ENOMEM      no memory: the device's, or the host's
 * -ENOSPC      no more streams, events or contexts on the device
 * -EAGAIN      the stream is full, and does not block
 * -ETIMEDOUT   the time-out passed; what was queued stays queued
 * -EDEADLK     a call that blocks, from inside a callback
 * -EINPROGRESS a query: not done yet
 * -EBUSY       in use, so it can't be destroyed or changed now
 * -EOPNOTSUPP  the device can't do it: see its capabilities
 * -EFAULT      a task reached outside its memory, or could not use its arguments
 * ============ ==============================================================
 */
#ifndef NPU_ERROR_H
#define NPU_ERROR_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** NPU_ERROR_TEXT - bytes of a record's text, the closing zero included */
#define NPU_ERROR_TEXT 192

/** NPU_ERROR_LIST - failures of one wait that are told one by one */
#define NPU_ERROR_LIST 16

/**
 * struct npu_error - what is known of a failure
 * @size: in: sizeof(struct npu_error); only so many bytes are written
 * @code: negative errno, 0: nothing has failed
 * @vendor: what was said below the library: the vendor's code, or the negative errno with which
 *	a device node could not be opened; 0: none
 * @device: ordinal, -1: none
 * @pad: zero
 * @stream: the stream, 0: none
 * @seq: sequence number of the task that failed, 0: none
 * @origin_stream: where another task failed first, which this one waited for, or which stopped its
 *	stream: that one's stream, 0 if it is gone; else 0
 * @origin_seq: sequence number of that one, else 0
 * @addr: the device address that was refused, 0: none
 * @place: code address of the submission, 0: not known; of what failed first, as are @op and @tag
 * @op: the operation, as "launch" or "event_record"
 * @tag: the tag that the submitting thread had set
 * @text: one line
 * @hint: what to do about it, one line; "": nothing is known
 * @generation: generation of the device when it failed, 1 until its first restart; 0: no device
 * @more: failures behind this one that the same wait reported: npu_error_next() tells them, of
 *	more than NPU_ERROR_LIST the rest is only counted
 */
struct npu_error {
	size_t size;
	int code;
	int vendor;
	int device;
	int pad;
	npu_stream stream;
	uint64_t seq;
	npu_stream origin_stream;
	uint64_t origin_seq;
	uint64_t addr;
	uint64_t place;
	char op[NPU_NAME_LEN];
	char tag[NPU_TAG_LEN];
	char text[NPU_ERROR_TEXT];
	char hint[NPU_ERROR_TEXT];
	uint64_t generation;
	uint64_t more;
};

/**
 * npu_last_error() - the calling thread's record
 * @err: out: a copy; its size must be set
 *
 * Initialises nothing and opens no device.
 * Context: any thread, any state, also after a fork.
 * Return: 0, -EINVAL (NULL, or a size below that of the first two fields).
 */
NPU_API int npu_last_error(struct npu_error *err);

/**
 * npu_error_next() - a further failure of the last wait that reported failures of tasks
 * @err: out: the failure; its size must be set; not touched when there is none
 *
 * A wait reports all failures that it covers at once: npu_last_error() tells the first, and each
 * call of this the next one, in the order of the tasks, of several streams one after the other.
 * The thread's record stays as it is. The list ends when another wait reports failures, and by
 * npu_error_clear().
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -ENOENT (no more), -EINVAL (as npu_last_error()).
 */
NPU_API int npu_error_next(struct npu_error *err);

/**
 * npu_error_clear() - empty the calling thread's record, and the list behind it
 *
 * Context: any thread, any state; initialises nothing.
 */
NPU_API void npu_error_clear(void);

/**
 * npu_error_name() - the name of a code
 * @code: negative or positive errno
 *
 * Return: a static string as "EINVAL"; "?" for what is no errno.
 */
NPU_API const char *npu_error_name(int code);

/**
 * struct npu_error_info - what a code means
 * @size: in: sizeof(struct npu_error_info); only so many bytes are written
 * @code: negative errno
 * @pad: zero
 * @name: "EINVAL"
 * @meaning: what it says, a sentence
 * @causes: what it usually comes from
 * @remedy: what to do
 *
 * The texts are static.
 */
struct npu_error_info {
	size_t size;
	int code;
	int pad;
	const char *name;
	const char *meaning;
	const char *causes;
	const char *remedy;
};

/**
 * npu_error_explain() - what a code means, where it comes from, and what to do
 * @code: negative or positive errno
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL, or no size), -ENOENT (not a code that the library gives).
 */
NPU_API int npu_error_explain(int code, struct npu_error_info *info);

/**
 * npu_tag_set() - name what the calling thread submits from now on
 * @tag: up to NPU_TAG_LEN - 1 bytes; NULL or "": no name
 *
 * Errors of tasks carry the tag. The names are kept for the life of the process: use few.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (too long), -ENOSPC (4095 names are in use), -ENOMEM.
 */
NPU_API int npu_tag_set(const char *tag);

/* Levels of the log. */
#define NPU_LOG_NONE 0
#define NPU_LOG_ERROR 1
#define NPU_LOG_WARN 2
#define NPU_LOG_INFO 3
#define NPU_LOG_DEBUG 4

/**
 * npu_log_set_sink() - where lines of the log go
 * @sink: called with level and line (no newline); NULL: standard error
 *
 * The level is the option `log_level`.
 * Context: any; @sink runs in the thread that logs, with no lock held, and must not call the
 * library.
 */
NPU_API void npu_log_set_sink(void (*sink)(int level, const char *line));

#ifdef __cplusplus
}
#endif

#endif /* NPU_ERROR_H */
