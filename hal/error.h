/* SPDX-License-Identifier: MIT */
/*
 * The thread's error record.
 *
 * Whoever finds a failure fills the record once and returns the negative errno;
 * whoever passes the code on leaves the record alone. Reading it is a copy.
 */
#ifndef HAL_ERROR_H
#define HAL_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include "npu/types.h"

#define HAL_ERROR_TEXT 192

/**
 * struct hal_error - what is known of a failure
 * @code: negative errno, 0: none
 * @vendor: the vendor's code, 0: none
 * @device: ordinal of the device in its driver, -1: none
 * @op: the operation that failed, a static string
 * @stream: handle of the stream, 0: none
 * @seq: sequence number of the task that failed, 0: none
 * @origin_stream: handle of the stream where it failed first, 0: the same
 * @origin_seq: sequence number there
 * @addr: the address that was refused, 0: none
 * @place: code address of the submission, 0: unknown
 * @tag: the submitting thread's tag
 * @text: one line, no newline
 */
struct hal_error {
	int code;
	int vendor;
	int device;
	const char *op;
	uint64_t stream;
	uint64_t seq;
	uint64_t origin_stream;
	uint64_t origin_seq;
	uint64_t addr;
	uint64_t place;
	char tag[NPU_TAG_LEN];
	char text[HAL_ERROR_TEXT];
};

/**
 * hal_fail() - fill the thread's record and return the code
 * @code: negative errno
 * @op: the operation, a static string: the public function without "npu_"
 * @fmt: the text, as printf(3)
 *
 * Context: any thread, no allocation, no lock; opens no device.
 * Return: @code.
 */
int hal_fail(int code, const char *op, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for a record made up elsewhere. */
int hal_fail_record(const struct hal_error *e);

/* The thread's record, code 0 if none; never NULL. */
const struct hal_error *hal_error_last(void);
void hal_error_clear(void);

/*
 * Tags: a short name that a thread gives to what it submits, interned for the
 * life of the process; number 0 is the empty one. Setting returns 0, -EINVAL (too
 * long), -ENOMEM, or -ENOSPC: 4095 names are in use, and the thread has none now.
 */
int hal_tag_set(const char *tag);
uint32_t hal_tag_current(void);
const char *hal_tag_name(uint32_t tag);

/* Name of a positive or negative errno, "EINVAL", or NULL. */
const char *hal_errno_name(int code);

#endif /* HAL_ERROR_H */
