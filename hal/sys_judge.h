/* SPDX-License-Identifier: MIT */
/*
 * A judge over the system-call seam: asked before each call of the process's
 * operations (hal_sys_set()), it lets the call happen, delays it or makes it fail.
 * Without one nothing lies between a call and its operation.
 *
 * It is how failures on demand reach the calls below the library; a device's
 * own operations are not judged.
 */
#ifndef HAL_SYS_JUDGE_H
#define HAL_SYS_JUDGE_H

#include <stdint.h>

#include "hal/sys.h"

/* X(member of struct hal_sys_ops, errno that it fails with when none is given) */
#define HAL_SYS_CALLS(X)	\
	X(open, EMFILE)		\
	X(close, EIO)		\
	X(ioctl, EIO)		\
	X(mmap, ENOMEM)		\
	X(munmap, ENOMEM)	\
	X(mremap, ENOMEM)	\
	X(mprotect, ENOMEM)	\
	X(madvise, ENOMEM)	\
	X(mlock, ENOMEM)	\
	X(munlock, ENOMEM)	\
	X(memfd_create, EMFILE)	\
	X(eventfd, EMFILE)	\
	X(dup, EMFILE)		\
	X(fstat, EIO)		\
	X(fallocate, ENOSPC)	\
	X(lock, ENOLCK)		\
	X(socket, EMFILE)	\
	X(bind, EADDRINUSE)	\
	X(connect, ECONNREFUSED) \
	X(accept, EMFILE)	\
	X(sendmsg, EPIPE)	\
	X(recvmsg, EMFILE)	\
	X(poll, EINTR)		\
	X(read, EIO)		\
	X(write, EIO)		\
	X(futex, EINTR)		\
	X(thread_create, EAGAIN) \
	X(alloc, ENOMEM)	\
	X(dlopen, ENOENT)	\
	X(dlsym, ENOENT)	\
	X(dlclose, EIO)		\
	X(dlerror, EIO)		\
	X(membarrier, ENOSYS)

/* HAL_SYS_open and so on, as the members are called. */
enum hal_sys_call {
#define HAL_SYS_CALL(name, code) HAL_SYS_##name,
	HAL_SYS_CALLS(HAL_SYS_CALL)
#undef HAL_SYS_CALL
	HAL_SYS_NR
};

#define HAL_SYS_AGAIN_MAX 16u

/**
 * struct hal_sys_verdict - what is to become of a call
 * @code: positive errno that it fails with; 0: it is done
 * @before_ns: how long it is held up first
 * @after_ns: how long its end is held up
 *
 * A call that fails is not made; only close, munmap, munlock, dlclose and the wake of a futex are
 * made all the same, as there is nobody to make them again. alloc, dlopen, dlsym and dlerror fail
 * with NULL. EINTR, and EAGAIN of an ioctl, callers take as a word to make the call again: a thread
 * is told so HAL_SYS_AGAIN_MAX times in a row, then its call is made. Who is held up goes on at the
 * next hal_sys_judge_set().
 */
struct hal_sys_verdict {
	int code;
	uint64_t before_ns;
	uint64_t after_ns;
};

/**
 * typedef hal_sys_judge - says what is to become of a call
 * @call: which call
 * @arg: ioctl: the request; futex: the operation; madvise: the advice; else 0
 * @v: out: the verdict; zeroed: let it happen
 *
 * Context: the calling thread, whatever locks the caller holds, but no spin lock. Makes no call
 * through the seam. Not asked in the child of a fork.
 */
typedef void hal_sys_judge(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *v);

/**
 * hal_sys_judge_set() - set the judge
 * @judge: asked from now on; NULL: nobody is
 *
 * Calls under way may still ask the one before. Context: any thread; not beside hal_sys_set().
 */
void hal_sys_judge_set(hal_sys_judge *judge);

/* The call of that name, as "thread_create", or -1. */
int hal_sys_call_find(const char *name);
/* Its name, and the errno that suits it; NULL and 0 of what is none. */
const char *hal_sys_call_name(unsigned int call);
int hal_sys_call_errno(unsigned int call);

#endif /* HAL_SYS_JUDGE_H */
