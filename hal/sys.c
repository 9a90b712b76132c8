// SPDX-License-Identifier: MIT
/*
 * The system-call seam: libc's operations, and the wrappers that alone read
 * errno and repeat what a signal interrupted.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hal/base.h"
#include "hal/error.h"
#include "hal/sys.h"

#define NSEC_PER_SEC 1000000000ull
/* What is allocated at a time: what a signal interrupts begins anew. */
#define FALLOCATE_STEP (8ull << 20)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* ---- libc's ---------------------------------------------------------------- */

static int libc_open(const char *path, int flags, unsigned int mode)
{
	return open(path, flags | O_CLOEXEC, mode);
}

static int libc_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

static int libc_dup(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int libc_lock(int fd, int cmd, struct flock *lock)
{
	return fcntl(fd, cmd, lock);
}

static void *libc_mremap(void *addr, size_t old_size, size_t size, int flags, void *to)
{
	return mremap(addr, old_size, size, flags, to);
}

static int libc_bind(int fd, const void *addr, unsigned int len)
{
	return bind(fd, addr, len);
}

static int libc_connect(int fd, const void *addr, unsigned int len)
{
	return connect(fd, addr, len);
}

static int libc_accept(int fd)
{
	return accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static long libc_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

/*
 * A thread inherits the mask of its maker: signals are the program's, not for our threads. But a
 * fault that is blocked ends the process without a handler being asked.
 */
static int libc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	static const int faults[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP };
	sigset_t all, old;
	size_t i;
	int rc;

	sigfillset(&all);
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(&all, faults[i]);
	rc = pthread_sigmask(SIG_SETMASK, &all, &old);
	if (rc)
		return rc;
	rc = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static void *libc_alloc(size_t align, size_t size)
{
	void *p;

	if (align <= _Alignof(max_align_t))
		return calloc(1, size ? size : 1);
	if (posix_memalign(&p, align, size ? size : 1))
		return NULL;
	return memset(p, 0, size);
}

/* The linker of a fully static program has no use for these, and warns of them. */
static void *libc_dlopen(const char *path, int flags)
{
	return IS_ENABLED(CONFIG_STATIC) ? NULL : dlopen(path, flags);
}

static void *libc_dlsym(void *handle, const char *name)
{
	return IS_ENABLED(CONFIG_STATIC) ? NULL : dlsym(handle, name);
}

static int libc_dlclose(void *handle)
{
	return IS_ENABLED(CONFIG_STATIC) ? 0 : dlclose(handle);
}

static const char *libc_dlerror(void)
{
	return IS_ENABLED(CONFIG_STATIC) ? "this build opens no libraries (CONFIG_STATIC)"
					 : dlerror();
}

static int libc_membarrier(int cmd, unsigned int flags)
{
	return (int)syscall(SYS_membarrier, cmd, flags, 0);
}

/* The sanitizers make the libc's two do nothing, and say that all went well. */
static int libc_mlock(const void *addr, size_t size)
{
	return (int)syscall(SYS_mlock, addr, size);
}

static int libc_munlock(const void *addr, size_t size)
{
	return (int)syscall(SYS_munlock, addr, size);
}

const struct hal_sys_ops hal_sys_libc = {
	.open = libc_open,
	.close = close,
	.ioctl = libc_ioctl,
	.mmap = mmap,
	.munmap = munmap,
	.mremap = libc_mremap,
	.mprotect = mprotect,
	.madvise = madvise,
	.mlock = libc_mlock,
	.munlock = libc_munlock,
	.memfd_create = memfd_create,
	.eventfd = eventfd,
	.dup = libc_dup,
	.fstat = fstat,
	.fallocate = fallocate,
	.lock = libc_lock,
	.socket = socket,
	.bind = libc_bind,
	.connect = libc_connect,
	.accept = libc_accept,
	.sendmsg = sendmsg,
	.recvmsg = recvmsg,
	.poll = poll,
	.read = read,
	.write = write,
	.futex = libc_futex,
	.thread_create = libc_thread_create,
	.alloc = libc_alloc,
	.dlopen = libc_dlopen,
	.dlsym = libc_dlsym,
	.dlclose = libc_dlclose,
	.dlerror = libc_dlerror,
	.membarrier = libc_membarrier,
};

static const struct hal_sys_ops *_Atomic ops_now = &hal_sys_libc;

/* relaxed: what it leads to was there before the program began */
static inline const struct hal_sys_ops *sys(void)
{
	return hal_load_relaxed(&ops_now);
}

/**
 * hal_sys_set() - replace the operations of the process
 * @ops: the operations, static storage; NULL: hal_sys_libc
 */
void hal_sys_set(const struct hal_sys_ops *ops)
{
	hal_store_relaxed(&ops_now, ops ? ops : &hal_sys_libc);
}

/**
 * hal_sys_get() - the operations of the process
 *
 * Return: what hal_sys_set() installed, or hal_sys_libc.
 */
const struct hal_sys_ops *hal_sys_get(void)
{
	return sys();
}

/* ---- the wrappers ------------------------------------------------------------ */

/* The one reader of errno, and the one loop over EINTR. */
#define repeat(call)						\
	({							\
		__typeof__(call) ret_;				\
		hal_assert_may_block(__func__);			\
		do						\
			ret_ = (call);				\
		while (ret_ == -1 && errno == EINTR);		\
		ret_ == -1 ? (__typeof__(call))-errno : ret_;	\
	})

/**
 * hal_sys_open() - open(2)
 * @ops: a device's operations, or the process's
 * @path: what to open
 * @flags: O_*; O_CLOEXEC is added. Files that are made get mode 0600
 *
 * Return: a descriptor or a negative errno.
 */
int hal_sys_open(const struct hal_sys_ops *ops, const char *path, int flags)
{
	return repeat(ops->open(path, flags, 0600));
}

/**
 * hal_sys_close() - close(2)
 * @ops: a device's operations, or the process's
 * @fd: the descriptor, gone in any case
 *
 * Not repeated: Linux has closed the descriptor when it answers EINTR.
 * Return: 0 or a negative errno.
 */
int hal_sys_close(const struct hal_sys_ops *ops, int fd)
{
	hal_assert_may_block(__func__);
	if (ops->close(fd) == -1 && errno != EINTR)
		return -errno;
	return 0;
}

/**
 * hal_sys_ioctl() - ioctl(2)
 * @ops: a device's operations, or the process's
 * @fd: the descriptor
 * @request: the number
 * @arg: its argument
 *
 * Return: what the ioctl returned, or a negative errno, never -EINTR or -EAGAIN.
 */
int hal_sys_ioctl(const struct hal_sys_ops *ops, int fd, unsigned long request, void *arg)
{
	int rc;

	do
		rc = repeat(ops->ioctl(fd, request, arg));
	while (rc == -EAGAIN);
	return rc;
}

/**
 * hal_sys_mmap() - mmap(2), at an address of the system's choice
 * @ops: a device's operations, or the process's
 * @size: bytes
 * @prot: PROT_*
 * @flags: MAP_*
 * @fd: the descriptor, -1 with MAP_ANONYMOUS
 * @offset: where in it
 * @addr: out: the address
 *
 * Return: 0 or a negative errno.
 */
int hal_sys_mmap(const struct hal_sys_ops *ops, size_t size, int prot, int flags, int fd,
		 uint64_t offset, void **addr)
{
	void *p;

	hal_assert_may_block(__func__);
	p = ops->mmap(NULL, size, prot, flags, fd, (off_t)offset);

	if (p == MAP_FAILED) {
		*addr = NULL;
		return -errno;
	}
	*addr = p;
	return 0;
}

/**
 * hal_sys_munmap() - munmap(2)
 * @ops: a device's operations, or the process's
 * @addr: from hal_sys_mmap()
 * @size: bytes
 *
 * Return: 0 or a negative errno.
 */
int hal_sys_munmap(const struct hal_sys_ops *ops, void *addr, size_t size)
{
	return repeat(ops->munmap(addr, size));
}

/**
 * hal_sys_mmap_at() - mmap(2) with MAP_FIXED, by the process's operations
 * @addr: where, of the caller's own
 * @size: bytes
 * @prot: PROT_*
 * @flags: MAP_*; MAP_FIXED is added
 * @fd: the descriptor, -1 with MAP_ANONYMOUS
 * @offset: where in it
 *
 * Return: 0 or a negative errno; then what was there may be gone, or not.
 */
int hal_sys_mmap_at(void *addr, size_t size, int prot, int flags, int fd, uint64_t offset)
{
	hal_assert_may_block(__func__);
	if (sys()->mmap(addr, size, prot, flags | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED)
		return -errno;
	return 0;
}

/**
 * hal_sys_move() - mremap(2) that leaves an empty mapping behind
 * @addr: what is moved: all of one private, anonymous mapping, or a part of it
 * @size: bytes
 * @to: where to, of the caller's own
 *
 * Nobody sees either place without a mapping.
 * Return: 0 or a negative errno; then what was at @to may be gone, or not. -EINVAL: not before
 * Linux 5.7.
 */
int hal_sys_move(void *addr, size_t size, void *to)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;

	hal_assert_may_block(__func__);
	return sys()->mremap(addr, size, size, flags, to) == MAP_FAILED ? -errno : 0;
}

/* mprotect(2): 0 or a negative errno. */
int hal_sys_mprotect(void *addr, size_t size, int prot)
{
	return repeat(sys()->mprotect(addr, size, prot));
}

/* madvise(2): 0 or a negative errno. */
int hal_sys_madvise(void *addr, size_t size, int advice)
{
	return repeat(sys()->madvise(addr, size, advice));
}

/* mlock(2): 0 or a negative errno. */
int hal_sys_mlock(const void *addr, size_t size)
{
	return repeat(sys()->mlock(addr, size));
}

/* munlock(2): 0 or a negative errno. */
int hal_sys_munlock(const void *addr, size_t size)
{
	return repeat(sys()->munlock(addr, size));
}

/* memfd_create(2), close-on-exec: a descriptor or a negative errno. */
int hal_sys_memfd(const char *name)
{
	return repeat(sys()->memfd_create(name, MFD_CLOEXEC));
}

/* eventfd(2), counting from 0, close-on-exec, not blocking: a descriptor or a negative errno. */
int hal_sys_eventfd(void)
{
	return repeat(sys()->eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/* dup(2), close-on-exec: a descriptor or a negative errno. */
int hal_sys_dup(int fd)
{
	return repeat(sys()->dup(fd));
}

/* fstat(2): 0 or a negative errno. */
int hal_sys_fstat(int fd, struct stat *st)
{
	return repeat(sys()->fstat(fd, st));
}

/**
 * hal_sys_fallocate() - give a file room, so that writing there can't fail for want of it
 * @fd: the file; grows as far as it has to
 * @offset: where
 * @size: bytes, at least 1
 *
 * Return: 0, -EFBIG (beyond RLIMIT_FSIZE; no SIGXFSZ), -ENOSPC, -ENOMEM, or another negative errno;
 * then it may have some of the room.
 */
int hal_sys_fallocate(int fd, uint64_t offset, uint64_t size)
{
	uint64_t step;
	struct rlimit r;
	int rc = 0;

	/* a question that takes nothing: not in the seam */
	if (!getrlimit(RLIMIT_FSIZE, &r) && r.rlim_cur != RLIM_INFINITY &&
	    (size > r.rlim_cur || offset > r.rlim_cur - size))
		return -EFBIG;
	for (; size && !rc; offset += step, size -= step) {
		step = size < FALLOCATE_STEP ? size : FALLOCATE_STEP;
		rc = repeat(sys()->fallocate(fd, 0, (off_t)offset, (off_t)step));
	}
	return rc;
}

/* fallocate(2) with FALLOC_FL_PUNCH_HOLE: 0 or a negative errno. */
int hal_sys_punch(int fd, uint64_t offset, uint64_t size)
{
	return repeat(sys()->fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       (off_t)offset, (off_t)size));
}

/**
 * hal_sys_lock() - lock bytes of a file for its open file description, or unlock them
 * @fd: a descriptor of it
 * @type: F_RDLCK, F_WRLCK, F_UNLCK
 * @offset: the first byte
 * @size: bytes
 *
 * Does not wait. Return: 0, -EAGAIN (another description has a lock there), or another negative
 * errno.
 */
int hal_sys_lock(int fd, int type, uint64_t offset, uint64_t size)
{
	struct flock l = {
		.l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)offset,
		.l_len = (off_t)size,
	};
	int rc = repeat(sys()->lock(fd, F_OFD_SETLK, &l));

	return rc == -EACCES ? -EAGAIN : rc;
}

/**
 * hal_sys_locked() - whether another open file description has locked bytes of a file
 * @fd: a descriptor of it
 * @offset: the first byte
 * @size: bytes
 *
 * Return: 1, 0, or a negative errno.
 */
int hal_sys_locked(int fd, uint64_t offset, uint64_t size)
{
	struct flock l = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset,
		.l_len = (off_t)size,
	};
	int rc = repeat(sys()->lock(fd, F_OFD_GETLK, &l));

	return rc ? rc : l.l_type != F_UNLCK;
}

/**
 * hal_sys_read() - read(2) until the buffer is full
 * @fd: the descriptor
 * @buf: the buffer
 * @size: its bytes
 *
 * Return: 0, -ENODATA (end of file came first), or a negative errno.
 */
int hal_sys_read(int fd, void *buf, size_t size)
{
	char *p = buf;
	ssize_t n;

	while (size) {
		n = repeat(sys()->read(fd, p, size));
		if (n < 0)
			return (int)n;
		if (!n)
			return -ENODATA;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

/**
 * hal_sys_write() - write(2) until all is written
 * @fd: the descriptor
 * @buf: the bytes
 * @size: how many
 *
 * Return: 0, -EIO (nothing was taken, without an error), or a negative errno.
 */
int hal_sys_write(int fd, const void *buf, size_t size)
{
	const char *p = buf;
	ssize_t n;

	while (size) {
		n = repeat(sys()->write(fd, p, size));
		if (n < 0)
			return (int)n;
		if (!n)
			return -EIO;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

/**
 * hal_sys_futex_wait() - sleep as long as a word has a value
 * @word: the word
 * @value: the value
 * @deadline_ns: on CLOCK_MONOTONIC; UINT64_MAX: none
 *
 * Return: 0 (woken, or the word differs: look again), -ETIMEDOUT, or a negative errno.
 */
int hal_sys_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(deadline_ns % NSEC_PER_SEC),
	};
	long rc = repeat(sys()->futex((uint32_t *)word, FUTEX_WAIT_BITSET, value,
				    deadline_ns == UINT64_MAX ? NULL : &ts));

	return rc == -EAGAIN ? 0 : (int)rc;
}

/**
 * hal_sys_futex_wake() - wake threads that sleep on a word
 * @word: the word
 * @n: how many at most
 *
 * Return: how many, or a negative errno.
 */
int hal_sys_futex_wake(_Atomic uint32_t *word, int n)
{
	return (int)repeat(sys()->futex((uint32_t *)word, FUTEX_WAKE, (uint32_t)n, NULL));
}

/**
 * hal_sys_thread_create() - start a thread, all signals blocked but those of faults
 * @thread: out: the thread
 * @name: its name; the first 15 bytes count
 * @fn: what it runs
 * @arg: its argument
 *
 * Return: 0 or a negative errno.
 */
int hal_sys_thread_create(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
	char short_name[16];
	int rc;

	hal_assert_may_block(__func__);
	rc = sys()->thread_create(thread, fn, arg);
	if (rc)
		return -rc;
	strncpy(short_name, name, sizeof(short_name) - 1);
	short_name[sizeof(short_name) - 1] = '\0';
	pthread_setname_np(*thread, short_name);	/* it can live without */
	return 0;
}

/* Zeroed memory for free(3), or NULL. */
void *hal_zalloc(size_t size)
{
	hal_assert_may_block(__func__);
	return sys()->alloc(_Alignof(max_align_t), size);
}

/* The same, aligned to a power of two. */
void *hal_zalloc_aligned(size_t align, size_t size)
{
	hal_assert_may_block(__func__);
	return sys()->alloc(align, size);
}

/**
 * hal_sys_membarrier() - make all running threads of the process pass a full barrier
 *
 * Return: 0, or -EOPNOTSUPP: not on this system.
 */
int hal_sys_membarrier(void)
{
	int rc = repeat(sys()->membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));

	if (rc == -EPERM) {	/* a process asks for it once */
		rc = repeat(sys()->membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0));
		if (!rc)
			rc = repeat(sys()->membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
	}
	return rc ? -EOPNOTSUPP : 0;
}

/**
 * hal_sys_dlopen() - open a shared library, all symbols resolved, names kept apart
 * @path: its path or name
 * @handle: out: its handle
 *
 * Return: 0, or -ENOEXEC with the loader's text in the thread's record.
 */
int hal_sys_dlopen(const char *path, void **handle)
{
	const char *why;

	*handle = sys()->dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (*handle)
		return 0;
	why = sys()->dlerror();
	return hal_fail(-ENOEXEC, "dlopen", "%s", why ? why : path);
}

/**
 * hal_sys_dlsym() - look a symbol up
 * @handle: the library
 * @name: its name
 * @sym: out: its address
 *
 * Return: 0, or -ESRCH with the loader's text in the thread's record.
 */
int hal_sys_dlsym(void *handle, const char *name, void **sym)
{
	const char *why;

	*sym = sys()->dlsym(handle, name);
	if (*sym)
		return 0;
	why = sys()->dlerror();
	return hal_fail(-ESRCH, "dlsym", "%s", why ? why : name);
}

/* Closes a library; NULL is fine. */
void hal_sys_dlclose(void *handle)
{
	if (handle)
		sys()->dlclose(handle);
}

uint32_t hal_sys_random(void)
{
	uint32_t r;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != (ssize_t)sizeof(r)) {
		uint64_t x = (hal_sys_now() ^ (uintptr_t)&r) * 0x9e3779b97f4a7c15u;

		r = (uint32_t)(x >> 32);
	}
	return r;
}

/* CLOCK_MONOTONIC, ns. */
uint64_t hal_sys_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/**
 * hal_sys_deadline() - a time-out as a deadline
 * @timeout_ms: milliseconds; negative: for ever; 0: a poll
 *
 * Return: ns of CLOCK_MONOTONIC; UINT64_MAX for ever; 0, long past, for a poll.
 */
uint64_t hal_sys_deadline(int64_t timeout_ms)
{
	uint64_t now;

	if (timeout_ms < 0)
		return UINT64_MAX;
	if (!timeout_ms)
		return 0;
	now = hal_sys_now();
	if ((uint64_t)timeout_ms > (UINT64_MAX - now) / 1000000u)
		return UINT64_MAX;
	return now + (uint64_t)timeout_ms * 1000000u;
}

/* ---- conditions ------------------------------------------------------------------------ */

/* A condition on CLOCK_MONOTONIC. */
void hal_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/**
 * hal_cond_wait_until() - wait for a condition
 * @cond: from hal_cond_init()
 * @lock: its lock, held
 * @deadline: as of hal_sys_deadline()
 *
 * Return: false when the deadline has passed.
 */
bool hal_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline)
{
	struct timespec ts;

	if (deadline == UINT64_MAX)
		return !pthread_cond_wait(cond, lock);
	ts.tv_sec = (time_t)(deadline / 1000000000u);
	ts.tv_nsec = (long)(deadline % 1000000000u);
	return !pthread_cond_timedwait(cond, lock, &ts);
}
