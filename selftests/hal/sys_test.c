// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system-call seam: each wrapper repeats what it must, and passes on the rest.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "selftests/npu_kselftest.h"

#include "hal/base.h"
#include "hal/error.h"
#include "hal/sys_unix.h"
#include "selftests/fakes/sys.h"

FIXTURE(sys) {
	size_t page;
	void *map;
};

FIXTURE_SETUP(sys)
{
	hal_sys_set(&fake_sys);
	fake_sys_reset();
	self->page = (size_t)sysconf(_SC_PAGESIZE);
	ASSERT_EQ(0, hal_sys_mmap(&fake_sys, self->page, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &self->map));
	fake_sys_reset();
}

FIXTURE_TEARDOWN(sys)
{
	fake_sys_reset();
	hal_sys_munmap(&fake_sys, self->map, self->page);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Each call by its wrapper; descriptors are closed again. */
static int by_wrapper(enum fake_sys_call call, void *map, size_t size)
{
	char byte = 0;
	struct stat st;
	pthread_t t;
	void *p;
	int fd, rc;

	switch (call) {
	case FAKE_SYS_OPEN:
		fd = hal_sys_open(&fake_sys, "/dev/null", O_RDWR);
		break;
	case FAKE_SYS_IOCTL:
		return hal_sys_ioctl(&fake_sys, 0, 0, NULL);
	case FAKE_SYS_MUNMAP:
		return hal_sys_munmap(&fake_sys, (char *)map + size, 0);
	case FAKE_SYS_MREMAP:
		p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		rc = p == MAP_FAILED ? -errno : hal_sys_move(p, size, map);
		munmap(p, size);
		return rc;
	case FAKE_SYS_MPROTECT:
		return hal_sys_mprotect(map, size, PROT_READ | PROT_WRITE);
	case FAKE_SYS_MADVISE:
		return hal_sys_madvise(map, size, MADV_NORMAL);
	case FAKE_SYS_MLOCK:
		return hal_sys_mlock(map, 1);
	case FAKE_SYS_MUNLOCK:
		return hal_sys_munlock(map, size);
	case FAKE_SYS_DUP:
		fd = hal_sys_dup(0);
		break;
	case FAKE_SYS_FSTAT:
		return hal_sys_fstat(0, &st);
	case FAKE_SYS_FALLOCATE:
		fd = hal_sys_memfd("test");
		rc = hal_sys_fallocate(fd, 0, size);
		hal_sys_close(&fake_sys, fd);
		return rc;
	case FAKE_SYS_LOCK:
		fd = hal_sys_memfd("test");
		rc = hal_sys_lock(fd, F_WRLCK, 0, 1);
		hal_sys_close(&fake_sys, fd);
		return rc;
	case FAKE_SYS_MEMFD:
		fd = hal_sys_memfd("test");
		break;
	case FAKE_SYS_EVENTFD:
		fd = hal_sys_eventfd();
		break;
	case FAKE_SYS_READ:
		return hal_sys_read(0, &byte, 1);
	case FAKE_SYS_WRITE:
		return hal_sys_write(1, &byte, 1);
	case FAKE_SYS_THREAD:
		fd = hal_sys_thread_create(&t, "test", nothing, NULL);
		if (!fd)
			pthread_join(t, NULL);
		return fd;
	case FAKE_SYS_MMAP:
		fd = hal_sys_mmap(&fake_sys, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0,
				  &p);
		if (!fd)
			munmap(p, size);
		return fd;
	default:
		return -ENOSYS;
	}
	if (fd >= 0)
		hal_sys_close(&fake_sys, fd);
	return fd;
}

TEST_F(sys, signals_are_no_failure)
{
	static const enum fake_sys_call calls[] = {
		FAKE_SYS_OPEN, FAKE_SYS_MPROTECT, FAKE_SYS_MADVISE, FAKE_SYS_MLOCK,
		FAKE_SYS_MUNLOCK, FAKE_SYS_DUP, FAKE_SYS_MEMFD, FAKE_SYS_EVENTFD,
		FAKE_SYS_FSTAT, FAKE_SYS_FALLOCATE, FAKE_SYS_LOCK,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		fake_sys_fail(calls[i], 1, 3, EINTR);
		EXPECT_LE(0, by_wrapper(calls[i], self->map, self->page))
			TH_LOG("call %u", calls[i]);
		EXPECT_EQ(4, fake_sys_calls(calls[i]));
	}
}

TEST_F(sys, failures_are_passed_on)
{
	static const enum fake_sys_call calls[] = {
		FAKE_SYS_OPEN, FAKE_SYS_IOCTL, FAKE_SYS_MUNMAP, FAKE_SYS_MREMAP, FAKE_SYS_MPROTECT,
		FAKE_SYS_MADVISE, FAKE_SYS_MLOCK, FAKE_SYS_MUNLOCK, FAKE_SYS_DUP, FAKE_SYS_MEMFD,
		FAKE_SYS_EVENTFD, FAKE_SYS_READ, FAKE_SYS_WRITE, FAKE_SYS_THREAD, FAKE_SYS_MMAP,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		fake_sys_fail(calls[i], 1, 1, ENOBUFS);
		EXPECT_EQ(-ENOBUFS, by_wrapper(calls[i], self->map, self->page))
			TH_LOG("call %u", calls[i]);
		EXPECT_EQ(1, fake_sys_calls(calls[i]));
	}
}

/* What was at one place is at the other, and the first is there all the same, empty. */
TEST_F(sys, moves_pages)
{
	char *from, *to = self->map;

	from = mmap(NULL, self->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)from);
	from[0] = 7;
	if (hal_sys_move(from, self->page, to) == -EINVAL)
		SKIP(return, "before Linux 5.7");
	EXPECT_EQ(7, to[0]);
	EXPECT_EQ(0, from[0]);
	from[0] = 8;
	EXPECT_EQ(7, to[0]);
	EXPECT_EQ(-EFAULT, hal_sys_move(NULL, self->page, to));
	munmap(from, self->page);
}

TEST_F(sys, ioctl_repeats_eagain_too)
{
	int fds[2], n;

	ASSERT_EQ(0, pipe(fds));
	ASSERT_EQ(3, write(fds[1], "abc", 3));
	fake_sys_fail(FAKE_SYS_IOCTL, 1, 2, EAGAIN);
	EXPECT_EQ(0, hal_sys_ioctl(&fake_sys, fds[0], 0x541b /* FIONREAD */, &n));
	EXPECT_EQ(3, n);
	EXPECT_EQ(3, fake_sys_calls(FAKE_SYS_IOCTL));
	close(fds[0]);
	close(fds[1]);
}

TEST_F(sys, close_is_not_repeated)
{
	int fd = hal_sys_memfd("test");

	ASSERT_LE(0, fd);
	fake_sys_fail(FAKE_SYS_CLOSE, 1, 1, EINTR);
	EXPECT_EQ(0, hal_sys_close(&fake_sys, fd));
	EXPECT_EQ(1, fake_sys_calls(FAKE_SYS_CLOSE));
	fake_sys_fail(FAKE_SYS_CLOSE, 1, 1, EIO);
	EXPECT_EQ(-EIO, hal_sys_close(&fake_sys, fd));
	EXPECT_EQ(0, hal_sys_close(&fake_sys, fd));
	EXPECT_EQ(-EBADF, hal_sys_close(&fake_sys, fd));
}

TEST_F(sys, flags_that_are_added)
{
	int fd;

	fd = hal_sys_open(&fake_sys, "/dev/null", O_RDONLY);
	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(0, hal_sys_close(&fake_sys, fd));
	fd = hal_sys_memfd("test");
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	hal_sys_close(&fake_sys, fd);
	fd = hal_sys_dup(0);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	hal_sys_close(&fake_sys, fd);
	fd = hal_sys_eventfd();
	EXPECT_EQ(EFD_CLOEXEC | EFD_NONBLOCK, fake_sys_seen.eventfd_flags);
	hal_sys_close(&fake_sys, fd);
}

TEST_F(sys, reads_and_writes_are_whole)
{
	int fd = hal_sys_memfd("test");
	char in[1000], out[1000];
	unsigned int i;

	for (i = 0; i < sizeof(in); i++)
		in[i] = (char)i;
	ASSERT_LE(0, fd);
	fake_sys_short(7);
	fake_sys_fail(FAKE_SYS_WRITE, 3, 2, EINTR);
	EXPECT_EQ(0, hal_sys_write(fd, in, sizeof(in)));
	EXPECT_LE(sizeof(in) / 7 + 2, fake_sys_calls(FAKE_SYS_WRITE));
	lseek(fd, 0, SEEK_SET);
	fake_sys_fail(FAKE_SYS_READ, 5, 1, EINTR);
	EXPECT_EQ(0, hal_sys_read(fd, out, sizeof(out)));
	EXPECT_EQ(0, memcmp(in, out, sizeof(in)));
	EXPECT_EQ(-ENODATA, hal_sys_read(fd, out, 1));
	lseek(fd, -3, SEEK_END);
	EXPECT_EQ(-ENODATA, hal_sys_read(fd, out, 4));
	EXPECT_EQ(0, hal_sys_read(fd, out, 0));
	fake_sys_fail(FAKE_SYS_WRITE, 2, 1, ENOSPC);
	EXPECT_EQ(-ENOSPC, hal_sys_write(fd, in, 100));
	fake_sys_reset();
	fake_sys_short(SIZE_MAX);
	EXPECT_EQ(-EIO, hal_sys_write(fd, in, 1));
	fake_sys_short(0);
	hal_sys_close(&fake_sys, fd);
}

TEST_F(sys, room_in_a_file)
{
	struct rlimit r, old;
	int fd = hal_sys_memfd("test");
	struct stat st;

	ASSERT_LE(0, fd);
	fake_sys_fail(FAKE_SYS_FALLOCATE, 2, 1, EINTR);
	EXPECT_EQ(0, hal_sys_fallocate(fd, 0, 20 << 20));
	EXPECT_EQ(4, fake_sys_calls(FAKE_SYS_FALLOCATE));
	EXPECT_EQ(0, hal_sys_fstat(fd, &st));
	EXPECT_EQ(20 << 20, st.st_size);
	EXPECT_EQ((20 << 20) / 512, st.st_blocks);
	EXPECT_EQ(0, hal_sys_punch(fd, 1 << 20, 18 << 20));
	EXPECT_EQ(0, hal_sys_fstat(fd, &st));
	EXPECT_EQ(20 << 20, st.st_size);
	EXPECT_EQ((2 << 20) / 512, st.st_blocks);
	fake_sys_fail(FAKE_SYS_FALLOCATE, 2, 1, ENOSPC);
	EXPECT_EQ(-ENOSPC, hal_sys_fallocate(fd, 0, 20 << 20));
	/* no signal, which would end the test */
	ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &old));
	r = (struct rlimit){ 1 << 20, old.rlim_max };
	ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &r));
	fake_sys_fail(FAKE_SYS_FALLOCATE, 0, 0, 0);
	EXPECT_EQ(-EFBIG, hal_sys_fallocate(fd, 0, (1 << 20) + 1));
	EXPECT_EQ(-EFBIG, hal_sys_fallocate(fd, UINT64_MAX, 2));
	EXPECT_EQ(0, fake_sys_calls(FAKE_SYS_FALLOCATE));
	EXPECT_EQ(0, hal_sys_fallocate(fd, 0, 1 << 20));
	setrlimit(RLIMIT_FSIZE, &old);
	hal_sys_close(&fake_sys, fd);
}

TEST_F(sys, locks_of_a_description)
{
	int fd = hal_sys_memfd("test"), other;
	char path[32];

	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = hal_sys_open(&fake_sys, path, O_RDWR);
	ASSERT_LE(0, other);
	EXPECT_EQ(0, hal_sys_lock(fd, F_WRLCK, 10, 10));
	EXPECT_EQ(0, hal_sys_locked(fd, 10, 10));
	EXPECT_EQ(1, hal_sys_locked(other, 19, 1));
	EXPECT_EQ(0, hal_sys_locked(other, 20, 1));
	EXPECT_EQ(-EAGAIN, hal_sys_lock(other, F_RDLCK, 0, 11));
	EXPECT_EQ(0, hal_sys_lock(fd, F_RDLCK, 10, 10));
	EXPECT_EQ(0, hal_sys_lock(other, F_RDLCK, 0, 11));
	EXPECT_EQ(-EAGAIN, hal_sys_lock(fd, F_WRLCK, 10, 10));
	/* a description ends with its last descriptor */
	hal_sys_close(&fake_sys, other);
	EXPECT_EQ(0, hal_sys_lock(fd, F_WRLCK, 10, 10));
	EXPECT_EQ(0, hal_sys_lock(fd, F_UNLCK, 0, 0));
	fake_sys_fail(FAKE_SYS_LOCK, 1, 1, EACCES);
	EXPECT_EQ(-EAGAIN, hal_sys_lock(fd, F_WRLCK, 10, 10));
	fake_sys_fail(FAKE_SYS_LOCK, 1, 1, ENOLCK);
	EXPECT_EQ(-ENOLCK, hal_sys_locked(fd, 10, 10));
	hal_sys_close(&fake_sys, fd);
	EXPECT_EQ(-EBADF, hal_sys_lock(fd, F_WRLCK, 0, 1));
}

TEST_F(sys, mapped_where_it_is_wanted)
{
	int fd = hal_sys_memfd("test");

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, hal_sys_fallocate(fd, 0, self->page));
	*(char *)self->map = 1;
	fake_sys_fail(FAKE_SYS_MMAP, 1, 1, ENOMEM);
	EXPECT_EQ(-ENOMEM, hal_sys_mmap_at(self->map, self->page, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(1, *(char *)self->map);
	EXPECT_EQ(0, hal_sys_mmap_at(self->map, self->page, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(0, *(char *)self->map);
	hal_sys_close(&fake_sys, fd);
}

TEST_F(sys, descriptors_between_processes)
{
	char name[32], buf[4] = "abc", in[4];
	struct rlimit r, old;
	struct hal_peer peer = { 0 };
	int s, c, a, fd, got;
	struct pollfd p;
	uint64_t size;

	snprintf(name, sizeof(name), "npu-sys-test-%d", getpid());
	EXPECT_EQ(-ECONNREFUSED, hal_sys_unix_connect(name, &peer));
	s = hal_sys_unix_listen(name);
	ASSERT_LE(0, s);
	EXPECT_EQ(-EADDRINUSE, hal_sys_unix_listen(name));
	EXPECT_EQ(-EAGAIN, hal_sys_unix_accept(s, &peer));
	p = (struct pollfd){ s, POLLIN, 0 };
	EXPECT_EQ(0, hal_sys_poll(&p, 1, hal_sys_now() + 2000000));
	fake_sys_fail(FAKE_SYS_CONNECT, 1, 1, EINTR);
	c = hal_sys_unix_connect(name, &peer);
	ASSERT_LE(0, c);
	EXPECT_EQ(getpid(), peer.pid);
	EXPECT_EQ(geteuid(), peer.uid);
	fake_sys_fail(FAKE_SYS_POLL, 1, 1, EINTR);
	EXPECT_EQ(1, hal_sys_poll(&p, 1, UINT64_MAX));
	peer = (struct hal_peer){ 0 };
	a = hal_sys_unix_accept(s, &peer);
	ASSERT_LE(0, a);
	EXPECT_EQ(getpid(), peer.pid);
	EXPECT_EQ(FD_CLOEXEC, fcntl(a, F_GETFD));

	fd = hal_sys_memfd_fixed("test", self->page);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EAGAIN, hal_sys_unix_recv(c, in, sizeof(in), &got));
	fake_sys_fail(FAKE_SYS_SENDMSG, 1, 2, EINTR);
	EXPECT_EQ(0, hal_sys_unix_send(a, buf, sizeof(buf), fd));
	fake_sys_fail(FAKE_SYS_RECVMSG, 1, 2, EINTR);
	EXPECT_EQ(0, hal_sys_unix_recv(c, in, sizeof(in), &got));
	EXPECT_STREQ("abc", in);
	ASSERT_LE(0, got);
	EXPECT_EQ(FD_CLOEXEC, fcntl(got, F_GETFD));
	EXPECT_TRUE(hal_sys_is_fixed(got, &size));
	EXPECT_EQ(self->page, size);
	hal_sys_close(&fake_sys, got);
	/* a message of another size, one with a descriptor that is not wanted, and none */
	EXPECT_EQ(0, hal_sys_unix_send(c, buf, 3, -1));
	EXPECT_EQ(-EPROTO, hal_sys_unix_recv(a, in, sizeof(in), &got));
	EXPECT_EQ(0, hal_sys_unix_send(c, buf, sizeof(buf), fd));
	EXPECT_EQ(-EPROTO, hal_sys_unix_recv(a, in, 3, &got));
	EXPECT_EQ(-1, got);
	EXPECT_EQ(0, hal_sys_unix_send(c, buf, sizeof(buf), fd));
	EXPECT_EQ(-EPROTO, hal_sys_unix_recv(a, in, sizeof(in), NULL));
	EXPECT_EQ(0, hal_sys_unix_send(c, buf, sizeof(buf), -1));
	EXPECT_EQ(0, hal_sys_unix_recv(a, in, sizeof(in), &got));
	EXPECT_EQ(-1, got);
	/* there is no descriptor left for the one that comes */
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &old));
	EXPECT_EQ(0, hal_sys_unix_send(c, buf, sizeof(buf), fd));
	got = dup(0);
	close(got);
	r = (struct rlimit){ (rlim_t)got, old.rlim_max };
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &r));
	EXPECT_EQ(-EMFILE, hal_sys_unix_recv(a, in, sizeof(in), &got));
	setrlimit(RLIMIT_NOFILE, &old);
	EXPECT_EQ(-1, got);
	hal_sys_close(&fake_sys, c);
	EXPECT_EQ(-EPIPE, hal_sys_unix_recv(a, in, sizeof(in), &got));
	EXPECT_EQ(-EPIPE, hal_sys_unix_send(a, buf, sizeof(buf), -1));
	hal_sys_close(&fake_sys, a);
	hal_sys_close(&fake_sys, s);
	hal_sys_close(&fake_sys, fd);
	fake_sys_fail(FAKE_SYS_SOCKET, 1, 2, EMFILE);
	EXPECT_EQ(-EMFILE, hal_sys_unix_listen(name));
	EXPECT_EQ(-EMFILE, hal_sys_unix_connect(name, &peer));
	fake_sys_fail(FAKE_SYS_BIND, 1, 1, ENOMEM);
	EXPECT_EQ(-ENOMEM, hal_sys_unix_listen(name));
}

TEST_F(sys, files_that_stay_as_long_as_they_are)
{
	uint64_t size = 0;
	int fd;

	fd = hal_sys_memfd_fixed("test", 3 * self->page);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(hal_sys_is_fixed(fd, &size));
	EXPECT_EQ(3 * self->page, size);
	EXPECT_EQ(-1, ftruncate(fd, 0));
	EXPECT_EQ(-1, ftruncate(fd, (off_t)(4 * self->page)));
	EXPECT_EQ(0, hal_sys_punch(fd, 0, self->page));
	hal_sys_close(&fake_sys, fd);
	fd = hal_sys_memfd("test");
	EXPECT_FALSE(hal_sys_is_fixed(fd, &size));
	hal_sys_close(&fake_sys, fd);
	EXPECT_FALSE(hal_sys_is_fixed(fd, &size));
	fake_sys_fail(FAKE_SYS_MEMFD, 1, 1, EMFILE);
	EXPECT_EQ(-EMFILE, hal_sys_memfd_fixed("test", self->page));
	fake_sys_fail(FAKE_SYS_FALLOCATE, 1, 1, ENOSPC);
	EXPECT_EQ(-ENOMEM, hal_sys_memfd_fixed("test", self->page));
}

static _Atomic uint32_t word;

static void *waker(void *arg)
{
	uint32_t *tries = arg;

	while (!hal_sys_futex_wake(&word, 1))
		sched_yield();
	++*tries;
	return NULL;
}

TEST_F(sys, futexes)
{
	uint32_t woken = 0;
	uint64_t start;
	pthread_t t;

	word = 1;
	EXPECT_EQ(0, hal_sys_futex_wait(&word, 2, UINT64_MAX));	/* it differs */
	start = hal_sys_now();
	EXPECT_EQ(-ETIMEDOUT, hal_sys_futex_wait(&word, 1, start + 5000000));
	EXPECT_LE(5000000, hal_sys_now() - start);
	EXPECT_TRUE(fake_sys_seen.futex_timed);
	EXPECT_EQ(FUTEX_WAIT_BITSET, fake_sys_seen.futex_op);
	EXPECT_EQ(-ETIMEDOUT, hal_sys_futex_wait(&word, 1, 0));
	EXPECT_EQ(0, hal_sys_futex_wake(&word, 1));
	fake_sys_fail(FAKE_SYS_FUTEX, 1, 2, EINTR);
	EXPECT_EQ(0, hal_sys_futex_wait(&word, 2, UINT64_MAX));
	EXPECT_EQ(3, fake_sys_calls(FAKE_SYS_FUTEX));
	ASSERT_EQ(0, pthread_create(&t, NULL, waker, &woken));
	EXPECT_EQ(0, hal_sys_futex_wait(&word, 1, UINT64_MAX));
	pthread_join(t, NULL);
	EXPECT_EQ(1, woken);
}

struct thread_seen {
	sigset_t mask;
	char name[32];
};

static void *look(void *arg)
{
	struct thread_seen *s = arg;
	char prev[32] = "";

	pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
	/* the name is given from outside, a moment later */
	while (strncmp(prev, "npu a name that", 15)) {
		pthread_getname_np(pthread_self(), prev, sizeof(prev));
		sched_yield();
	}
	strcpy(s->name, prev);
	return NULL;
}

TEST_F(sys, threads_block_signals_and_have_names)
{
	struct thread_seen s;
	sigset_t before, after;
	pthread_t t;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	ASSERT_EQ(0, hal_sys_thread_create(&t, "npu a name that is too long", look, &s));
	pthread_join(t, NULL);
	EXPECT_TRUE(sigismember(&s.mask, SIGTERM));
	EXPECT_TRUE(sigismember(&s.mask, SIGUSR1));
	EXPECT_FALSE(sigismember(&s.mask, SIGBUS));
	EXPECT_FALSE(sigismember(&s.mask, SIGSEGV));
	EXPECT_STREQ("npu a name that", s.name);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
	fake_sys_fail(FAKE_SYS_THREAD, 1, 1, EAGAIN);
	EXPECT_EQ(-EAGAIN, hal_sys_thread_create(&t, "x", look, &s));
}

TEST_F(sys, memory_is_zero_and_aligned)
{
	unsigned char *p;
	size_t align, i;

	for (align = 1; align <= 4096; align *= 2) {
		p = hal_zalloc_aligned(align, 777);
		ASSERT_NE(NULL, p);
		EXPECT_EQ(0, (uintptr_t)p % align);
		for (i = 0; i < 777; i++)
			ASSERT_EQ(0, p[i]);
		memset(p, 0xff, 777);
		free(p);
	}
	p = hal_zalloc(0);
	EXPECT_NE(NULL, p);
	free(p);
	fake_sys_fail(FAKE_SYS_ALLOC, 1, 1, ENOMEM);
	EXPECT_EQ(NULL, hal_zalloc(8));
}

TEST_F(sys, membarrier)
{
	int rc = hal_sys_membarrier();

	EXPECT_TRUE(!rc || rc == -EOPNOTSUPP);
	fake_sys_fail(FAKE_SYS_MEMBARRIER, 1, 100, ENOSYS);
	EXPECT_EQ(-EOPNOTSUPP, hal_sys_membarrier());
	fake_sys_fail(FAKE_SYS_MEMBARRIER, 1, 1, EPERM);	/* not registered yet */
	EXPECT_EQ(rc, hal_sys_membarrier());
	if (!rc)
		EXPECT_EQ(3, fake_sys_calls(FAKE_SYS_MEMBARRIER));
	fake_sys_fail(FAKE_SYS_MEMBARRIER, 1, 2, EPERM);
	EXPECT_EQ(-EOPNOTSUPP, hal_sys_membarrier());
}

TEST_F(sys, libraries)
{
	void *h, *f;

	EXPECT_EQ(-ENOEXEC, hal_sys_dlopen("/no/such/library.so", &h));
	EXPECT_EQ(NULL, h);
	EXPECT_NE('\0', hal_error_last()->text[0]);
	hal_sys_dlclose(NULL);
	if (IS_ENABLED(CONFIG_STATIC))
		return;
	ASSERT_EQ(0, hal_sys_dlopen("libc.so.6", &h));
	EXPECT_EQ(0, hal_sys_dlsym(h, "getpid", &f));
	EXPECT_NE(NULL, f);
	EXPECT_EQ(-ESRCH, hal_sys_dlsym(h, "no_such_symbol_at_all", &f));
	EXPECT_EQ(NULL, f);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "no_such_symbol_at_all"));
	hal_sys_dlclose(h);
	fake_sys_fail(FAKE_SYS_DLOPEN, 1, 1, ENOMEM);
	EXPECT_EQ(-ENOEXEC, hal_sys_dlopen("libc.so.6", &h));
}

TEST_F(sys, deadlines)
{
	uint64_t now = hal_sys_now(), d;

	EXPECT_EQ(UINT64_MAX, hal_sys_deadline(-1));
	EXPECT_EQ(UINT64_MAX, hal_sys_deadline(INT64_MIN));
	EXPECT_EQ(UINT64_MAX, hal_sys_deadline(INT64_MAX));
	EXPECT_EQ(0, hal_sys_deadline(0));
	d = hal_sys_deadline(1000);
	EXPECT_LE(now + 1000000000u, d);
	EXPECT_LE(d, hal_sys_now() + 1000000000u);
}

TEST_F(sys, operations_can_be_replaced)
{
	EXPECT_EQ(&fake_sys, hal_sys_get());
	hal_sys_set(NULL);
	EXPECT_EQ(&hal_sys_libc, hal_sys_get());
	hal_sys_set(&fake_sys);
}

TEST_HARNESS_MAIN
