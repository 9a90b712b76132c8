// SPDX-License-Identifier: MIT
/*
 * The thread's error record, tags, and the names of errnos.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hal/log.h"
#include "hal/tls.h"

/* ---- the record ------------------------------------------------------------- */

static const struct hal_error no_error = { .device = -1 };
static const struct hal_error no_memory = {
	.code = -ENOMEM,
	.device = -1,
	.op = "error",
	.text = "there is no memory for this thread's error record",
};

static void one_line(char *text)
{
	for (; *text; text++)
		if (*text == '\n')
			*text = ' ';
}

/**
 * hal_fail() - fill the thread's record and return the code
 * @code: negative errno
 * @op: the operation, a static string
 * @fmt: the text, as printf(3)
 *
 * Return: @code.
 */
int hal_fail(int code, const char *op, const char *fmt, ...)
{
	struct hal_error e = { .code = code, .device = -1, .op = op };
	va_list args;

	va_start(args, fmt);
	vsnprintf(e.text, sizeof(e.text), fmt, args);
	va_end(args);
	strcpy(e.tag, hal_tag_name(hal_tag_current()));
	return hal_fail_record(&e);
}

/**
 * hal_fail_record() - the same for a record made up elsewhere
 * @e: the record, its tag included
 *
 * Return: its code.
 */
int hal_fail_record(const struct hal_error *e)
{
	struct hal_tls *t = hal_tls();

	if (t) {
		t->error = *e;
		t->fills++;
		one_line(t->error.text);
		one_line(t->error.hint);
	}
	hal_dbg(HAL_LOG_CORE, "%s: %s: %s", e->op ? e->op : "?",
		hal_errno_name(e->code) ? hal_errno_name(e->code) : "?", e->text);
	return e->code;
}

/**
 * hal_hint() - say what to do about the failure that was just recorded
 * @code: what hal_fail() and the like returned
 * @fmt: the hint, as printf(3)
 *
 * Return: @code.
 */
int hal_hint(int code, const char *fmt, ...)
{
	struct hal_tls *t = hal_tls_peek();
	va_list args;

	if (!t || t->error.code != code)
		return code;
	va_start(args, fmt);
	vsnprintf(t->error.hint, sizeof(t->error.hint), fmt, args);
	va_end(args);
	one_line(t->error.hint);
	return code;
}

/**
 * hal_error_last() - the thread's record
 *
 * Return: the record, code 0 when nothing has failed; never NULL. It changes with the thread's
 * next failure.
 */
const struct hal_error *hal_error_last(void)
{
	struct hal_tls *t = hal_tls();

	if (!t)
		return &no_memory;
	return t->error.code ? &t->error : &no_error;
}

/* Empties the thread's record. */
void hal_error_clear(void)
{
	struct hal_tls *t = hal_tls_peek();

	if (t)
		memset(&t->error, 0, sizeof(t->error));
}

/* ---- tags --------------------------------------------------------------------- */

#define TAGS 4096u
#define HASH_SIZE (2 * TAGS)

/* Protects: tag_hash, and adding to tag_names and tag_count. */
static pthread_mutex_t tag_lock = PTHREAD_MUTEX_INITIALIZER;
static char tag_names[TAGS][NPU_TAG_LEN];
static uint16_t tag_hash[HASH_SIZE];
static _Atomic uint32_t tag_count = 1;	/* number 0 is the empty one */

static uint32_t hash_of(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

/* The number of a tag, interned if new; 0: no room. */
static uint32_t intern_locked(const char *tag)
{
	uint32_t i = hash_of(tag) % HASH_SIZE, n;

	for (; tag_hash[i]; i = (i + 1) % HASH_SIZE)
		if (!strcmp(tag_names[tag_hash[i]], tag))
			return tag_hash[i];
	n = hal_load_relaxed(&tag_count);	/* relaxed: it only changes under the lock */
	if (n == TAGS)
		return 0;
	strcpy(tag_names[n], tag);
	tag_hash[i] = (uint16_t)n;
	hal_store_release(&tag_count, n + 1);
	return n;
}

/**
 * hal_tag_set() - give a name to what the thread submits from now on
 * @tag: the name, up to NPU_TAG_LEN - 1 bytes; NULL or "": none
 *
 * Return: 0, -EINVAL (too long: the tag stays), -ENOMEM, -ENOSPC (4095 names are taken: the thread
 * has no tag now).
 */
int hal_tag_set(const char *tag)
{
	struct hal_tls *t;
	uint32_t n = 0;

	if (tag && strnlen(tag, NPU_TAG_LEN) == NPU_TAG_LEN)
		return hal_fail(-EINVAL, "tag_set", "a tag has up to %d bytes", NPU_TAG_LEN - 1);
	t = hal_tls();
	if (!t)
		return -ENOMEM;
	if (tag && tag[0]) {
		pthread_mutex_lock(&tag_lock);
		n = intern_locked(tag);
		pthread_mutex_unlock(&tag_lock);
	}
	t->tag = n;
	if (tag && tag[0] && !n)
		return hal_hint(hal_fail(-ENOSPC, "tag_set", "%u different tags are in use",
					 TAGS - 1),
				"Tags are kept for ever: name kinds of work, not each piece.");
	return 0;
}

/* Number of the thread's tag. */
uint32_t hal_tag_current(void)
{
	struct hal_tls *t = hal_tls_peek();

	return t ? t->tag : 0;
}

/**
 * hal_tag_name() - the name behind a number
 * @tag: the number
 *
 * Return: the name, "" for 0 and for numbers that were never given out.
 */
const char *hal_tag_name(uint32_t tag)
{
	return tag < hal_load_acquire(&tag_count) ? tag_names[tag] : "";
}

/* ---- names ---------------------------------------------------------------------- */

#define ERRNOS(X)									\
	X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(ENXIO) X(E2BIG) X(ENOEXEC)	\
	X(EBADF) X(ECHILD) X(EAGAIN) X(ENOMEM) X(EACCES) X(EFAULT) X(ENOTBLK) X(EBUSY)	\
	X(EEXIST) X(EXDEV) X(ENODEV) X(ENOTDIR) X(EISDIR) X(EINVAL) X(ENFILE)		\
	X(EMFILE) X(ENOTTY) X(ETXTBSY) X(EFBIG) X(ENOSPC) X(ESPIPE) X(EROFS) X(EMLINK)	\
	X(EPIPE) X(EDOM) X(ERANGE) X(EDEADLK) X(ENAMETOOLONG) X(ENOLCK) X(ENOSYS)	\
	X(ENOTEMPTY) X(ELOOP) X(ENOMSG) X(EIDRM) X(ENODATA) X(ETIME) X(EREMOTE)		\
	X(ENOLINK) X(ECOMM) X(EPROTO) X(EBADMSG) X(EOVERFLOW) X(EILSEQ) X(EUSERS)	\
	X(ELIBACC) X(ELIBBAD) X(EDESTADDRREQ) X(EMSGSIZE) X(EPROTONOSUPPORT)		\
	X(EOPNOTSUPP) X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETDOWN) X(ECONNABORTED)	\
	X(ECONNRESET) X(ENOBUFS) X(EISCONN) X(ENOTCONN) X(ESHUTDOWN) X(ETIMEDOUT)	\
	X(ECONNREFUSED) X(EHOSTDOWN) X(EHOSTUNREACH) X(EALREADY) X(EINPROGRESS)		\
	X(ESTALE) X(EUCLEAN) X(EREMOTEIO) X(EDQUOT) X(ENOMEDIUM) X(EMEDIUMTYPE)		\
	X(ECANCELED) X(ENOKEY) X(EKEYEXPIRED) X(EKEYREVOKED) X(EKEYREJECTED)		\
	X(EOWNERDEAD) X(ENOTRECOVERABLE) X(ERFKILL) X(EHWPOISON)

/**
 * hal_errno_name() - the name of an errno
 * @code: positive or negative
 *
 * Return: "EINVAL" and the like; NULL for what is not in the table.
 */
const char *hal_errno_name(int code)
{
	switch (code < 0 ? -code : code) {
#define NAME(e) case e: return #e;
	ERRNOS(NAME)
#undef NAME
	default:
		return NULL;
	}
}
