/* SPDX-License-Identifier: MIT */
/*
 * Calls to the operating system that are counted, and fail when told to. All
 * others go to libc.
 */
#ifndef SELFTESTS_FAKES_SYS_H
#define SELFTESTS_FAKES_SYS_H

#include <stddef.h>

#include "hal/sys.h"

enum fake_sys_call {
	FAKE_SYS_OPEN,
	FAKE_SYS_CLOSE,
	FAKE_SYS_IOCTL,
	FAKE_SYS_MMAP,
	FAKE_SYS_MUNMAP,
	FAKE_SYS_MREMAP,
	FAKE_SYS_MPROTECT,
	FAKE_SYS_MADVISE,
	FAKE_SYS_MLOCK,
	FAKE_SYS_MUNLOCK,
	FAKE_SYS_DUP,
	FAKE_SYS_FSTAT,
	FAKE_SYS_FALLOCATE,
	FAKE_SYS_LOCK,
	FAKE_SYS_SOCKET,
	FAKE_SYS_BIND,
	FAKE_SYS_CONNECT,
	FAKE_SYS_ACCEPT,
	FAKE_SYS_SENDMSG,
	FAKE_SYS_RECVMSG,
	FAKE_SYS_POLL,
	FAKE_SYS_MEMFD,
	FAKE_SYS_EVENTFD,
	FAKE_SYS_READ,
	FAKE_SYS_WRITE,
	FAKE_SYS_FUTEX,
	FAKE_SYS_THREAD,
	FAKE_SYS_ALLOC,
	FAKE_SYS_DLOPEN,
	FAKE_SYS_DLSYM,
	FAKE_SYS_MEMBARRIER,
	FAKE_SYS_CALLS
};

extern const struct hal_sys_ops fake_sys;

/* From the nth call on (1: the next), so many calls fail with the errno; resets the count. */
void fake_sys_fail(enum fake_sys_call call, unsigned int nth, unsigned int times, int err);
/* Nothing fails any more, all counts are 0, reads and writes are whole. */
void fake_sys_reset(void);
/* Calls since the last fake_sys_fail() of that call, or fake_sys_reset(). */
unsigned int fake_sys_calls(enum fake_sys_call call);
/* Reads and writes move up to so many bytes at a time; 0: whole; writes of SIZE_MAX: none. */
void fake_sys_short(size_t bytes);

/* The last open, futex and memfd, as they came through the seam. */
struct fake_sys_seen {
	int open_flags;
	unsigned int open_mode;
	int futex_op;
	bool futex_timed;
	unsigned int memfd_flags;
	int eventfd_flags;
};

extern struct fake_sys_seen fake_sys_seen;

#endif /* SELFTESTS_FAKES_SYS_H */
