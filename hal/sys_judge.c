// SPDX-License-Identifier: MIT
/*
 * A judge over the system-call seam: operations that ask it, and then go on to
 * those that were there before.
 */
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "hal/base.h"
#include "hal/fork.h"
#include "hal/sys_judge.h"

#define HOLD_NAP_NS 1000000u

static const struct {
	const char *name;
	int code;
} calls[HAL_SYS_NR] = {
#define ROW(name, code) [HAL_SYS_##name] = { #name, code },
	HAL_SYS_CALLS(ROW)
#undef ROW
};

_Static_assert(HAL_SYS_NR * sizeof(void (*)(void)) == sizeof(struct hal_sys_ops),
	       "a line for each operation");

static hal_sys_judge *_Atomic judge;
/* Changes with the judge: what was held up goes on. */
static _Atomic uint32_t changes;
/* Whom the judged operations call: set before they are installed. */
static const struct hal_sys_ops *_Atomic below;

static const struct hal_sys_ops *next(void)
{
	return hal_load_acquire(&below);
}

/* A verdict, and when it was given. */
struct given {
	struct hal_sys_verdict v;
	uint32_t changes;
};

/* errno is the caller's: it stays as it is. */
static void hold_up(const struct given *g, uint64_t ns)
{
	uint64_t now, until, nap;
	int saved = errno;

	if (likely(!ns))
		return;
	now = hal_sys_now();
	until = ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
	while (now < until && atomic_load(&changes) == g->changes) {
		nap = until - now < HOLD_NAP_NS ? until - now : HOLD_NAP_NS;
		nanosleep(&(struct timespec){ .tv_nsec = (long)nap }, NULL);
		now = hal_sys_now();
	}
	errno = saved;
}

/* Whether a call that is to be made again has been made again often enough. */
static bool often_enough(enum hal_sys_call call, int code)
{
	static _Thread_local uint32_t in_a_row;
	bool again = code == EINTR || (code == EAGAIN && call == HAL_SYS_ioctl);
	bool enough = again && in_a_row == HAL_SYS_AGAIN_MAX;

	in_a_row = again && !enough ? in_a_row + 1 : 0;
	return enough;
}

/* Asks, and waits as told to. In a child the judge's locks may be held by nobody. */
static struct given ask(enum hal_sys_call call, unsigned long arg)
{
	struct given g = { .changes = atomic_load(&changes) };
	hal_sys_judge *j = hal_load_acquire(&judge);

	if (j && !hal_forked())
		j(call, arg, &g.v);
	if (often_enough(call, g.v.code))
		g.v.code = 0;
	hold_up(&g, g.v.before_ns);
	return g;
}

/* Fails as told, in the manner of the call, or does it. */
#define JUDGED(member, arg, failed, ...)						\
	({										\
		struct given g_ = ask(HAL_SYS_##member, arg);				\
		__typeof__(next()->member(__VA_ARGS__)) r_ =				\
			g_.v.code ? (failed) : next()->member(__VA_ARGS__);		\
		hold_up(&g_, g_.v.after_ns);						\
		if (g_.v.code)								\
			errno = g_.v.code;						\
		r_;									\
	})

/* The same, but what fails was done. */
#define DONE_AND_JUDGED(member, arg, failed, ...)					\
	({										\
		struct given g_ = ask(HAL_SYS_##member, arg);				\
		__typeof__(next()->member(__VA_ARGS__)) r_ = next()->member(__VA_ARGS__); \
		hold_up(&g_, g_.v.after_ns);						\
		if (g_.v.code) {							\
			errno = g_.v.code;						\
			r_ = (failed);							\
		}									\
		r_;									\
	})

static int judged_open(const char *path, int flags, unsigned int mode)
{
	return JUDGED(open, 0, -1, path, flags, mode);
}

static int judged_close(int fd)
{
	return DONE_AND_JUDGED(close, 0, -1, fd);
}

static int judged_ioctl(int fd, unsigned long request, void *arg)
{
	return JUDGED(ioctl, request, -1, fd, request, arg);
}

static void *judged_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return JUDGED(mmap, 0, MAP_FAILED, addr, size, prot, flags, fd, offset);
}

static int judged_munmap(void *addr, size_t size)
{
	return DONE_AND_JUDGED(munmap, 0, -1, addr, size);
}

static void *judged_mremap(void *addr, size_t old_size, size_t size, int flags, void *to)
{
	return JUDGED(mremap, 0, MAP_FAILED, addr, old_size, size, flags, to);
}

static int judged_mprotect(void *addr, size_t size, int prot)
{
	return JUDGED(mprotect, 0, -1, addr, size, prot);
}

static int judged_madvise(void *addr, size_t size, int advice)
{
	return JUDGED(madvise, (unsigned long)advice, -1, addr, size, advice);
}

static int judged_mlock(const void *addr, size_t size)
{
	return JUDGED(mlock, 0, -1, addr, size);
}

static int judged_munlock(const void *addr, size_t size)
{
	return DONE_AND_JUDGED(munlock, 0, -1, addr, size);
}

static int judged_memfd_create(const char *name, unsigned int flags)
{
	return JUDGED(memfd_create, 0, -1, name, flags);
}

static int judged_eventfd(unsigned int value, int flags)
{
	return JUDGED(eventfd, 0, -1, value, flags);
}

static int judged_dup(int fd)
{
	return JUDGED(dup, 0, -1, fd);
}

static int judged_fstat(int fd, struct stat *st)
{
	return JUDGED(fstat, 0, -1, fd, st);
}

static int judged_fallocate(int fd, int mode, off_t offset, off_t size)
{
	return JUDGED(fallocate, (unsigned long)mode, -1, fd, mode, offset, size);
}

static int judged_lock(int fd, int cmd, struct flock *lock)
{
	return JUDGED(lock, (unsigned long)cmd, -1, fd, cmd, lock);
}

static int judged_socket(int domain, int type, int protocol)
{
	return JUDGED(socket, 0, -1, domain, type, protocol);
}

static int judged_bind(int fd, const void *addr, unsigned int len)
{
	return JUDGED(bind, 0, -1, fd, addr, len);
}

static int judged_connect(int fd, const void *addr, unsigned int len)
{
	return JUDGED(connect, 0, -1, fd, addr, len);
}

static int judged_accept(int fd)
{
	return JUDGED(accept, 0, -1, fd);
}

static ssize_t judged_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return JUDGED(sendmsg, 0, -1, fd, msg, flags);
}

static ssize_t judged_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return JUDGED(recvmsg, 0, -1, fd, msg, flags);
}

static int judged_poll(struct pollfd *fds, unsigned long n, int timeout_ms)
{
	return JUDGED(poll, 0, -1, fds, n, timeout_ms);
}

static ssize_t judged_read(int fd, void *buf, size_t size)
{
	return JUDGED(read, 0, -1, fd, buf, size);
}

static ssize_t judged_write(int fd, const void *buf, size_t size)
{
	return JUDGED(write, 0, -1, fd, buf, size);
}

static long judged_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	unsigned long arg = (unsigned long)op;

	if (op == FUTEX_WAKE)
		return DONE_AND_JUDGED(futex, arg, -1, word, op, value, timeout);
	return JUDGED(futex, arg, -1, word, op, value, timeout);
}

static int judged_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	return JUDGED(thread_create, 0, g_.v.code, thread, fn, arg);
}

static void *judged_alloc(size_t align, size_t size)
{
	return JUDGED(alloc, 0, NULL, align, size);
}

static void *judged_dlopen(const char *path, int flags)
{
	return JUDGED(dlopen, 0, NULL, path, flags);
}

static void *judged_dlsym(void *handle, const char *name)
{
	return JUDGED(dlsym, 0, NULL, handle, name);
}

static int judged_dlclose(void *handle)
{
	return DONE_AND_JUDGED(dlclose, 0, -1, handle);
}

static const char *judged_dlerror(void)
{
	return JUDGED(dlerror, 0, NULL);
}

static int judged_membarrier(int cmd, unsigned int flags)
{
	return JUDGED(membarrier, (unsigned long)cmd, -1, cmd, flags);
}

static const struct hal_sys_ops judged = {
	.open = judged_open,
	.close = judged_close,
	.ioctl = judged_ioctl,
	.mmap = judged_mmap,
	.munmap = judged_munmap,
	.mremap = judged_mremap,
	.mprotect = judged_mprotect,
	.madvise = judged_madvise,
	.mlock = judged_mlock,
	.munlock = judged_munlock,
	.memfd_create = judged_memfd_create,
	.eventfd = judged_eventfd,
	.dup = judged_dup,
	.fstat = judged_fstat,
	.fallocate = judged_fallocate,
	.lock = judged_lock,
	.socket = judged_socket,
	.bind = judged_bind,
	.connect = judged_connect,
	.accept = judged_accept,
	.sendmsg = judged_sendmsg,
	.recvmsg = judged_recvmsg,
	.poll = judged_poll,
	.read = judged_read,
	.write = judged_write,
	.futex = judged_futex,
	.thread_create = judged_thread_create,
	.alloc = judged_alloc,
	.dlopen = judged_dlopen,
	.dlsym = judged_dlsym,
	.dlclose = judged_dlclose,
	.dlerror = judged_dlerror,
	.membarrier = judged_membarrier,
};

/**
 * hal_sys_judge_set() - set the judge
 * @j: asked from now on; NULL: nobody is
 */
void hal_sys_judge_set(hal_sys_judge *j)
{
	const struct hal_sys_ops *now = hal_sys_get();

	hal_store_release(&judge, j);
	atomic_fetch_add(&changes, 1);
	if (j && now != &judged) {
		hal_store_release(&below, now);
		hal_sys_set(&judged);
	} else if (!j && now == &judged) {
		hal_sys_set(next());	/* who is inside still finds it */
	}
}

/* The call of that name, as "thread_create", or -1. */
int hal_sys_call_find(const char *name)
{
	int i;

	for (i = 0; i < HAL_SYS_NR; i++)
		if (!strcmp(calls[i].name, name))
			return i;
	return -1;
}

/* Its name; NULL of what is none. */
const char *hal_sys_call_name(unsigned int call)
{
	return call < HAL_SYS_NR ? calls[call].name : NULL;
}

/* The errno that suits it, positive; 0 of what is none. */
int hal_sys_call_errno(unsigned int call)
{
	return call < HAL_SYS_NR ? calls[call].code : 0;
}
