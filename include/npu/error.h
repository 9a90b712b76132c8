/* SPDX-License-Identifier: MIT */
/*
 * Errors: codes, and the record behind the last one.
 *
 * Functions return 0 or a negative errno. Why a call failed, and which
 * operation it was that failed, is in the calling thread's record until the
 * thread's next failure.
 *
 * ============ ==============================================================
 * -EINVAL      an argument is NULL, out of range, or an unknown flag
 * -EBADF       a number that never was a handle of that type here
 * -ESTALE      a handle whose object was destroyed
 * -EXDEV       things of two devices or contexts where one is needed
 * -EPERM       not from this thread
 * -ECHILD      in the child of a fork, after the parent used the library
 * -ENOTCONN    not initialised, and the option lazy_init is off
 * -ESHUTDOWN   finalizing, or the process is exiting
 * -ENODEV      no such device, or it is lost
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

/**
 * struct npu_error - what is known of a failure
 * @size: in: sizeof(struct npu_error); only so many bytes are written
 * @code: negative errno, 0: nothing has failed
 * @vendor: the vendor's code, 0: none
 * @device: ordinal, -1: none
 * @pad: zero
 * @stream: the stream, 0: none
 * @seq: sequence number of the task that failed, 0: none
 * @origin_stream: the stream where it failed first, if another, else 0
 * @origin_seq: sequence number there
 * @addr: the device address that was refused, 0: none
 * @place: code address of the submission, 0: not known
 * @op: the operation, as "launch" or "event_record"
 * @tag: the tag that the submitting thread had set
 * @text: one line
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
 * npu_error_clear() - empty the calling thread's record
 *
 * Context: any thread, any state; initialises nothing.
 */
NPU_API void npu_error_clear(void);

/**
 * npu_error_name() - the name of a code
 * @code: negative or positive errno
 *
 * Return: a static string as "EINVAL"; "?" for a code that we do not use.
 */
NPU_API const char *npu_error_name(int code);

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
