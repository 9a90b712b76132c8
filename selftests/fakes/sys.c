// SPDX-License-Identifier: MIT
/*
 * Calls to the operating system that are counted, and fail when told to.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "selftests/fakes/sys.h"

/* Protects: plans, short_bytes, fake_sys_seen. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan {
	unsigned int calls;
	unsigned int first;	/* 0: none fails */
	unsigned int times;
	int err;
} plans[FAKE_SYS_CALLS];
static size_t short_bytes;

struct fake_sys_seen fake_sys_seen;

void fake_sys_fail(enum fake_sys_call call, unsigned int nth, unsigned int times, int err)
{
	pthread_mutex_lock(&lock);
	plans[call] = (struct plan){ 0, nth, times, err };
	pthread_mutex_unlock(&lock);
}

void fake_sys_reset(void)
{
	pthread_mutex_lock(&lock);
	memset(plans, 0, sizeof(plans));
	memset(&fake_sys_seen, 0, sizeof(fake_sys_seen));
	short_bytes = 0;
	pthread_mutex_unlock(&lock);
}

unsigned int fake_sys_calls(enum fake_sys_call call)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = plans[call].calls;
	pthread_mutex_unlock(&lock);
	return n;
}

void fake_sys_short(size_t bytes)
{
	pthread_mutex_lock(&lock);
	short_bytes = bytes;
	pthread_mutex_unlock(&lock);
}

/* Counts the call; the errno that it has to fail with, or 0. */
static int fails(enum fake_sys_call call)
{
	struct plan *p = &plans[call];
	int err = 0;

	pthread_mutex_lock(&lock);
	p->calls++;
	if (p->first && p->calls >= p->first && p->calls - p->first < p->times)
		err = p->err;
	pthread_mutex_unlock(&lock);
	return err;
}

static size_t shortened(size_t size)
{
	size_t s;

	pthread_mutex_lock(&lock);
	s = short_bytes;
	pthread_mutex_unlock(&lock);
	return s && s < size ? s : size;
}

/* Fails as told, in the manner of the call, or does it. */
#define CALL(id, failed, ...)					\
	do {							\
		int err_ = fails(FAKE_SYS_##id);		\
		if (err_) {					\
			errno = err_;				\
			return failed;				\
		}						\
		return hal_sys_libc.__VA_ARGS__;		\
	} while (0)

static int fake_open(const char *path, int flags, unsigned int mode)
{
	fake_sys_seen.open_flags = flags;
	fake_sys_seen.open_mode = mode;
	CALL(OPEN, -1, open(path, flags, mode));
}

static int fake_close(int fd)
{
	CALL(CLOSE, -1, close(fd));
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	CALL(IOCTL, -1, ioctl(fd, request, arg));
}

static void *fake_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	CALL(MMAP, MAP_FAILED, mmap(addr, size, prot, flags, fd, offset));
}

static int fake_munmap(void *addr, size_t size)
{
	CALL(MUNMAP, -1, munmap(addr, size));
}

static void *fake_mremap(void *addr, size_t old_size, size_t size, int flags, void *to)
{
	CALL(MREMAP, MAP_FAILED, mremap(addr, old_size, size, flags, to));
}

static int fake_mprotect(void *addr, size_t size, int prot)
{
	CALL(MPROTECT, -1, mprotect(addr, size, prot));
}

static int fake_madvise(void *addr, size_t size, int advice)
{
	CALL(MADVISE, -1, madvise(addr, size, advice));
}

static int fake_mlock(const void *addr, size_t size)
{
	CALL(MLOCK, -1, mlock(addr, size));
}

static int fake_munlock(const void *addr, size_t size)
{
	CALL(MUNLOCK, -1, munlock(addr, size));
}

static int fake_dup(int fd)
{
	CALL(DUP, -1, dup(fd));
}

static int fake_fstat(int fd, struct stat *st)
{
	CALL(FSTAT, -1, fstat(fd, st));
}

static int fake_fallocate(int fd, int mode, off_t offset, off_t size)
{
	CALL(FALLOCATE, -1, fallocate(fd, mode, offset, size));
}

static int fake_lock(int fd, int cmd, struct flock *l)
{
	CALL(LOCK, -1, lock(fd, cmd, l));
}

static int fake_socket(int domain, int type, int protocol)
{
	CALL(SOCKET, -1, socket(domain, type, protocol));
}

static int fake_bind(int fd, const void *addr, unsigned int len)
{
	CALL(BIND, -1, bind(fd, addr, len));
}

static int fake_connect(int fd, const void *addr, unsigned int len)
{
	CALL(CONNECT, -1, connect(fd, addr, len));
}

static int fake_accept(int fd)
{
	CALL(ACCEPT, -1, accept(fd));
}

static ssize_t fake_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	CALL(SENDMSG, -1, sendmsg(fd, msg, flags));
}

static ssize_t fake_recvmsg(int fd, struct msghdr *msg, int flags)
{
	CALL(RECVMSG, -1, recvmsg(fd, msg, flags));
}

static int fake_poll(struct pollfd *fds, unsigned long n, int timeout_ms)
{
	CALL(POLL, -1, poll(fds, n, timeout_ms));
}

static int fake_memfd_create(const char *name, unsigned int flags)
{
	fake_sys_seen.memfd_flags = flags;
	CALL(MEMFD, -1, memfd_create(name, flags));
}

static int fake_eventfd(unsigned int value, int flags)
{
	fake_sys_seen.eventfd_flags = flags;
	CALL(EVENTFD, -1, eventfd(value, flags));
}

static ssize_t fake_read(int fd, void *buf, size_t size)
{
	CALL(READ, -1, read(fd, buf, shortened(size)));
}

static ssize_t fake_write(int fd, const void *buf, size_t size)
{
	int err = fails(FAKE_SYS_WRITE);

	if (err) {
		errno = err;
		return -1;
	}
	if (short_bytes == SIZE_MAX)
		return 0;
	return hal_sys_libc.write(fd, buf, shortened(size));
}

static long fake_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	pthread_mutex_lock(&lock);
	fake_sys_seen.futex_op = op;
	fake_sys_seen.futex_timed = timeout;
	pthread_mutex_unlock(&lock);
	CALL(FUTEX, -1, futex(word, op, value, timeout));
}

static int fake_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	int err = fails(FAKE_SYS_THREAD);

	return err ? err : hal_sys_libc.thread_create(thread, fn, arg);
}

static void *fake_alloc(size_t align, size_t size)
{
	CALL(ALLOC, NULL, alloc(align, size));
}

static void *fake_dlopen(const char *path, int flags)
{
	CALL(DLOPEN, NULL, dlopen(path, flags));
}

static void *fake_dlsym(void *handle, const char *name)
{
	CALL(DLSYM, NULL, dlsym(handle, name));
}

static int fake_dlclose(void *handle)
{
	return hal_sys_libc.dlclose(handle);
}

static const char *fake_dlerror(void)
{
	return hal_sys_libc.dlerror();
}

static int fake_membarrier(int cmd, unsigned int flags)
{
	CALL(MEMBARRIER, -1, membarrier(cmd, flags));
}

const struct hal_sys_ops fake_sys = {
	.open = fake_open,
	.close = fake_close,
	.ioctl = fake_ioctl,
	.mmap = fake_mmap,
	.munmap = fake_munmap,
	.mremap = fake_mremap,
	.mprotect = fake_mprotect,
	.madvise = fake_madvise,
	.mlock = fake_mlock,
	.munlock = fake_munlock,
	.dup = fake_dup,
	.fstat = fake_fstat,
	.fallocate = fake_fallocate,
	.lock = fake_lock,
	.socket = fake_socket,
	.bind = fake_bind,
	.connect = fake_connect,
	.accept = fake_accept,
	.sendmsg = fake_sendmsg,
	.recvmsg = fake_recvmsg,
	.poll = fake_poll,
	.memfd_create = fake_memfd_create,
	.eventfd = fake_eventfd,
	.read = fake_read,
	.write = fake_write,
	.futex = fake_futex,
	.thread_create = fake_thread_create,
	.alloc = fake_alloc,
	.dlopen = fake_dlopen,
	.dlsym = fake_dlsym,
	.dlclose = fake_dlclose,
	.dlerror = fake_dlerror,
	.membarrier = fake_membarrier,
};
