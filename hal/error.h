/* SPDX-License-Identifier: MIT */
/*
 * The thread's error record, and the catalogue of codes.
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
 * @vendor: the vendor's code, or the negative errno of a device node, 0: none
 * @device: ordinal of the device in its driver, -1: none
 * @op: the operation that failed, a static string
 * @stream: handle of the stream, 0: none
 * @seq: sequence number of the task that failed, 0: none
 * @origin_stream: where another task failed first, handle of its stream, 0 if it is gone; else 0
 * @origin_seq: sequence number of that one, else 0
 * @addr: the address that was refused, 0: none
 * @place: code address of the submission, 0: unknown
 * @tag: the submitting thread's tag
 * @generation: generation of the device when it failed, 0: none
 * @more: failures behind this one that the same wait reported
 * @text: one line, no newline
 * @hint: what to do about it, one line; "": what the catalogue says of the code
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
	uint64_t generation;
	uint64_t more;
	char tag[NPU_TAG_LEN];
	char text[HAL_ERROR_TEXT];
	char hint[HAL_ERROR_TEXT];
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

/**
 * hal_hint() - say what to do about the failure that was just recorded
 * @code: what hal_fail() and the like returned
 * @fmt: the hint, as printf(3)
 *
 * Only where there is more to say than the catalogue says of the code.
 * Return: @code.
 */
int hal_hint(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The thread's record, code 0 if none; never NULL. */
const struct hal_error *hal_error_last(void);
void hal_error_clear(void);

/*
 * The list behind the record: all failures of tasks that the thread's last wait reported. Reports
 * between join and leave, which nest, make one list; leave fills the record from it, and gives the
 * code of the first failure since the mark, or 0. -ENOENT: the list has come to its end.
 */
int hal_report_next(struct hal_error *e);
void hal_report_clear(void);
uint64_t hal_report_join(void);
int hal_report_leave(uint64_t mark);

/*
 * Tags: a short name that a thread gives to what it submits, interned for the
 * life of the process; number 0 is the empty one. Setting returns 0, -EINVAL (too
 * long), -ENOMEM, or -ENOSPC: 4095 names are in use, and the thread has none now.
 */
int hal_tag_set(const char *tag);
uint32_t hal_tag_current(void);
const char *hal_tag_name(uint32_t tag);

/* Name of a positive or negative errno, "EINVAL", or NULL; also of those that only systems give. */
const char *hal_errno_name(int code);

/**
 * struct hal_error_entry - a code that the library gives
 * @code: negative errno
 * @name: "EINVAL"
 * @meaning: what it says
 * @causes: what it usually comes from
 * @remedy: what to do; the hint of errors that have none of their own
 */
struct hal_error_entry {
	int code;
	const char *name;
	const char *meaning;
	const char *causes;
	const char *remedy;
};

/* What the catalogue says of a positive or negative errno, or NULL. */
const struct hal_error_entry *hal_error_explain(int code);
/* Its i-th entry, or NULL. */
const struct hal_error_entry *hal_error_at(unsigned int i);

#endif /* HAL_ERROR_H */
