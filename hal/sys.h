/* SPDX-License-Identifier: MIT */
/*
 * The system-call seam.
 *
 * Every call to the operating system that touches a device, or that can fail
 * for want of a resource, goes through these operations: libc fills them in
 * production, the simulated device for its own nodes, a recording and failing
 * fake in tests. The wrappers below are the only place that reads errno and the
 * only loop over EINTR.
 */
#ifndef HAL_SYS_H
#define HAL_SYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct flock;
struct msghdr;
struct pollfd;
struct stat;
struct timespec;

/**
 * struct hal_sys_ops - calls to the operating system
 * @open: as open(2) with O_CLOEXEC added; returns a descriptor or -1 with errno
 * @close: as close(2)
 * @ioctl: as ioctl(2) with a pointer
 * @mmap: as mmap(2)
 * @munmap: as munmap(2)
 * @mremap: as mremap(2) to a new address
 * @mprotect: as mprotect(2)
 * @madvise: as madvise(2)
 * @mlock: as mlock(2)
 * @munlock: as munlock(2)
 * @memfd_create: as memfd_create(2)
 * @eventfd: as eventfd(2)
 * @dup: as dup(2), close-on-exec
 * @fstat: as fstat(2)
 * @fallocate: as fallocate(2)
 * @lock: as fcntl(2) with F_OFD_SETLK or F_OFD_GETLK
 * @socket: as socket(2); this and the next five: hal/sys_unix.h
 * @bind: as bind(2)
 * @connect: as connect(2)
 * @accept: as accept4(2), close-on-exec, not blocking, without the address
 * @sendmsg: as sendmsg(2)
 * @recvmsg: as recvmsg(2)
 * @poll: as poll(2)
 * @read: as read(2)
 * @write: as write(2)
 * @futex: as futex(2) with FUTEX_WAIT_BITSET (absolute CLOCK_MONOTONIC time-out or NULL) or
 *	FUTEX_WAKE, private: futex(word, op, value, timeout)
 * @thread_create: as pthread_create(3) with all signals blocked but those of faults; returns an
 *	error number
 * @alloc: as aligned_alloc(3) zeroed; NULL when there is no memory
 * @dlopen: as dlopen(3); NULL and a text by @dlerror
 * @dlsym: as dlsym(3)
 * @dlclose: as dlclose(3)
 * @dlerror: as dlerror(3)
 * @membarrier: as membarrier(2)
 *
 * All are mandatory. Context: any thread; none is called with a spin lock held.
 */
struct hal_sys_ops {
	int (*open)(const char *path, int flags, unsigned int mode);
	int (*close)(int fd);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	void *(*mmap)(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *addr, size_t size);
	void *(*mremap)(void *addr, size_t old_size, size_t size, int flags, void *to);
	int (*mprotect)(void *addr, size_t size, int prot);
	int (*madvise)(void *addr, size_t size, int advice);
	int (*mlock)(const void *addr, size_t size);
	int (*munlock)(const void *addr, size_t size);
	int (*memfd_create)(const char *name, unsigned int flags);
	int (*eventfd)(unsigned int value, int flags);
	int (*dup)(int fd);
	int (*fstat)(int fd, struct stat *st);
	int (*fallocate)(int fd, int mode, off_t offset, off_t size);
	int (*lock)(int fd, int cmd, struct flock *lock);
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const void *addr, unsigned int len);
	int (*connect)(int fd, const void *addr, unsigned int len);
	int (*accept)(int fd);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	int (*poll)(struct pollfd *fds, unsigned long n, int timeout_ms);
	ssize_t (*read)(int fd, void *buf, size_t size);
	ssize_t (*write)(int fd, const void *buf, size_t size);
	long (*futex)(uint32_t *word, int op, uint32_t value, const struct timespec *timeout);
	int (*thread_create)(pthread_t *thread, void *(*fn)(void *), void *arg);
	void *(*alloc)(size_t align, size_t size);
	void *(*dlopen)(const char *path, int flags);
	void *(*dlsym)(void *handle, const char *name);
	int (*dlclose)(void *handle);
	const char *(*dlerror)(void);
	int (*membarrier)(int cmd, unsigned int flags);
};

/* What production uses. */
extern const struct hal_sys_ops hal_sys_libc;

/**
 * hal_sys_set() - replace the operations of the process
 * @ops: the operations, static storage; NULL: hal_sys_libc
 *
 * For tests and their fakes, before anything else of the library runs, and for
 * hal_sys_judge_set(), at any time.
 */
void hal_sys_set(const struct hal_sys_ops *ops);
const struct hal_sys_ops *hal_sys_get(void);

/*
 * The wrappers: 0 or a result, or a negative errno. Those that take ops go to a
 * device's own operations, the others to the process's.
 */
int hal_sys_open(const struct hal_sys_ops *ops, const char *path, int flags);
int hal_sys_close(const struct hal_sys_ops *ops, int fd);
/* Repeats on EINTR and EAGAIN. */
int hal_sys_ioctl(const struct hal_sys_ops *ops, int fd, unsigned long request, void *arg);
int hal_sys_mmap(const struct hal_sys_ops *ops, size_t size, int prot, int flags, int fd,
		 uint64_t offset, void **addr);
int hal_sys_munmap(const struct hal_sys_ops *ops, void *addr, size_t size);
/* At an address of the caller's, in place of what is there; by the process's operations. */
int hal_sys_mmap_at(void *addr, size_t size, int prot, int flags, int fd, uint64_t offset);
/* Moves the pages of one private mapping in place of what is at to; it stays, without them. */
int hal_sys_move(void *addr, size_t size, void *to);

int hal_sys_mprotect(void *addr, size_t size, int prot);
int hal_sys_madvise(void *addr, size_t size, int advice);
int hal_sys_mlock(const void *addr, size_t size);
int hal_sys_munlock(const void *addr, size_t size);
int hal_sys_memfd(const char *name);
int hal_sys_eventfd(void);
int hal_sys_dup(int fd);
int hal_sys_fstat(int fd, struct stat *st);
/* Room in a file, which grows with it; -EFBIG and no signal where RLIMIT_FSIZE forbids it. */
int hal_sys_fallocate(int fd, uint64_t offset, uint64_t size);
/* Gives room back in the middle of a file, which reads as zeros then. */
int hal_sys_punch(int fd, uint64_t offset, uint64_t size);
/* Locks of the open file description: F_RDLCK, F_WRLCK, F_UNLCK; -EAGAIN: another has it. */
int hal_sys_lock(int fd, int type, uint64_t offset, uint64_t size);
/* 1: another description has a lock there, 0: none. */
int hal_sys_locked(int fd, uint64_t offset, uint64_t size);
/* Whole buffers: a short read or write is repeated; end of file is -ENODATA. */
int hal_sys_read(int fd, void *buf, size_t size);
int hal_sys_write(int fd, const void *buf, size_t size);
/* 0 when woken or the word differs, -ETIMEDOUT; deadline_ns absolute, UINT64_MAX: none. */
int hal_sys_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns);
/* Wakes up to n waiters; returns how many. */
int hal_sys_futex_wake(_Atomic uint32_t *word, int n);
int hal_sys_thread_create(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);
/* Zeroed memory, for free(3); NULL when there is none. */
void *hal_zalloc(size_t size);
/* The same, aligned to a power of two. */
void *hal_zalloc_aligned(size_t align, size_t size);
/* Makes all running threads of the process pass a full barrier; -EOPNOTSUPP: not here. */
int hal_sys_membarrier(void);
int hal_sys_dlopen(const char *path, void **handle);
int hal_sys_dlsym(void *handle, const char *name, void **sym);
void hal_sys_dlclose(void *handle);

/* Random bits, as good as they are to be had at once. */
uint32_t hal_sys_random(void);

/* CLOCK_MONOTONIC, ns. */
uint64_t hal_sys_now(void);
/* now + milliseconds; negative: UINT64_MAX, for ever. */
uint64_t hal_sys_deadline(int64_t timeout_ms);

/* Conditions that are waited for by deadlines; false: it has passed. */
void hal_cond_init(pthread_cond_t *cond);
bool hal_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline);

#endif /* HAL_SYS_H */
