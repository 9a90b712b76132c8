// SPDX-License-Identifier: GPL-2.0-only
/*
 * The judge over the system-call seam: asked before each call, obeyed in the
 * manner of the call, and gone without a trace.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/npu_kselftest.h"

#include "hal/base.h"
#include "hal/sys_judge.h"

#define PAGE 4096
#define MS 1000000ull

/* What the judge was asked last, how often, and what it says of which call. */
static enum hal_sys_call asked;
static unsigned long asked_arg;
static _Atomic uint32_t times;
static int of_call = -1;
static struct hal_sys_verdict says;

static void judge(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *v)
{
	asked = call;
	asked_arg = arg;
	atomic_fetch_add(&times, 1);
	if ((int)call == of_call || of_call < 0)
		*v = says;
}

static void *nothing(void *arg)
{
	return arg;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

/* The same of a call that takes a socket. */
static bool socket_failed(const struct hal_sys_ops *o, enum hal_sys_call call)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int s = socket(AF_UNIX, SOCK_SEQPACKET, 0), c = -1, pair[2] = { -1, -1 };
	socklen_t len = sizeof(a);
	long n = -1;

	if (call == HAL_SYS_bind) {
		n = o->bind(s, &a, sizeof(sa_family_t));
	} else if (call == HAL_SYS_connect || call == HAL_SYS_accept) {
		bind(s, (void *)&a, sizeof(sa_family_t));
		listen(s, 1);
		getsockname(s, (void *)&a, &len);
		c = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (call == HAL_SYS_connect) {
			n = o->connect(c, &a, len);
		} else {
			connect(c, (void *)&a, len);
			n = o->accept(s);
			if (n >= 0)
				close((int)n);
		}
	} else if (!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) {
		if (call == HAL_SYS_recvmsg)
			send(pair[0], &byte, 1, 0);
		n = call == HAL_SYS_recvmsg ? o->recvmsg(pair[1], &msg, MSG_DONTWAIT)
					    : o->sendmsg(pair[0], &msg, 0);
	}
	if (n == -1)
		byte = (char)errno;
	close(s);
	if (c >= 0)
		close(c);
	if (pair[0] >= 0) {
		close(pair[0]);
		close(pair[1]);
	}
	errno = n == -1 ? (unsigned char)byte : 0;
	return n == -1;
}

/* Calls an operation; true: it said that it failed, by errno. */
static bool failed(const struct hal_sys_ops *o, enum hal_sys_call call, char *page, int fd)
{
	struct flock l = { .l_type = F_WRLCK };
	uint32_t word = 0;
	struct stat st;
	pthread_t t;
	void *p;
	int n, err;

	errno = 0;
	switch (call) {
	case HAL_SYS_open:
		n = o->open("/dev/null", O_RDWR, 0);
		break;
	case HAL_SYS_close:
		return o->close(fd) == -1;
	case HAL_SYS_ioctl:
		return o->ioctl(fd, FIOCLEX, NULL) == -1;
	case HAL_SYS_mmap:
		p = o->mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p != MAP_FAILED)
			munmap(p, PAGE);
		return p == MAP_FAILED;
	case HAL_SYS_munmap:
		return o->munmap(page, PAGE) == -1;
	case HAL_SYS_mremap:
		p = o->mremap(page, PAGE, PAGE, 0, NULL);
		return p == MAP_FAILED;
	case HAL_SYS_mprotect:
		return o->mprotect(page, PAGE, PROT_READ | PROT_WRITE) == -1;
	case HAL_SYS_madvise:
		return o->madvise(page, PAGE, MADV_DONTNEED) == -1;
	case HAL_SYS_mlock:
		return o->mlock(page, 1) == -1;
	case HAL_SYS_munlock:
		return o->munlock(page, PAGE) == -1;
	case HAL_SYS_memfd_create:
		n = o->memfd_create("test", 0);
		break;
	case HAL_SYS_eventfd:
		n = o->eventfd(0, 0);
		break;
	case HAL_SYS_dup:
		n = o->dup(fd);
		break;
	case HAL_SYS_fstat:
		return o->fstat(fd, &st) == -1;
	case HAL_SYS_fallocate:
		n = hal_sys_libc.memfd_create("test", 0);
		err = o->fallocate(n, 0, 0, PAGE);
		close(n);
		return err == -1;
	case HAL_SYS_lock:
		return o->lock(fd, F_OFD_GETLK, &l) == -1;
	case HAL_SYS_socket:
		n = o->socket(AF_UNIX, SOCK_SEQPACKET, 0);
		break;
	case HAL_SYS_bind:
	case HAL_SYS_connect:
	case HAL_SYS_accept:
	case HAL_SYS_sendmsg:
	case HAL_SYS_recvmsg:
		return socket_failed(o, call);
	case HAL_SYS_poll:
		return o->poll(NULL, 0, 0) == -1;
	case HAL_SYS_read:
		return o->read(fd, page, 1) == -1;
	case HAL_SYS_write:
		return o->write(fd, page, 1) == -1;
	case HAL_SYS_futex:
		return o->futex(&word, FUTEX_WAKE, 1, NULL) == -1;
	case HAL_SYS_thread_create:
		n = o->thread_create(&t, nothing, NULL);
		if (!n)
			pthread_join(t, NULL);
		errno = n;
		return n;
	case HAL_SYS_alloc:
		p = o->alloc(16, 16);
		free(p);
		return !p;
	case HAL_SYS_dlopen:
		p = o->dlopen(NULL, 2);
		return !p;
	case HAL_SYS_dlsym:
		return !o->dlsym(NULL, "malloc");
	case HAL_SYS_dlclose:
		p = hal_sys_libc.dlopen(NULL, 2);
		return o->dlclose(p) != 0;
	case HAL_SYS_dlerror:
		hal_sys_libc.dlsym(NULL, "no such thing");
		return !o->dlerror();
	case HAL_SYS_membarrier:
		return o->membarrier(MEMBARRIER_CMD_QUERY, 0) == -1;
	default:
		return false;
	}
	if (n >= 0)
		close(n);
	return n == -1;
}

FIXTURE(judge) {
	char *page;
	int fd;
};

FIXTURE_SETUP(judge)
{
	self->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->page);
	self->fd = open("/dev/zero", O_RDWR);
	ASSERT_GE(self->fd, 0);
	hal_sys_judge_set(judge);
}

FIXTURE_TEARDOWN(judge)
{
	hal_sys_judge_set(NULL);
	EXPECT_EQ(&hal_sys_libc, hal_sys_get());
}

/* Each call is judged once, and done when nothing is said against it. */
TEST_F(judge, lets_happen)
{
	const struct hal_sys_ops *o = hal_sys_get();
	int c;

	ASSERT_NE(&hal_sys_libc, o);
	for (c = 0; c < HAL_SYS_NR; c++) {
		if (c == HAL_SYS_close || c == HAL_SYS_munmap)
			continue;
		atomic_store(&times, 0);
		EXPECT_FALSE(failed(o, c, self->page, self->fd))
			TH_LOG("%s: %s", hal_sys_call_name(c), strerror(errno));
		EXPECT_EQ(1, atomic_load(&times));
		EXPECT_EQ(c, (int)asked);
	}
	EXPECT_FALSE(failed(o, HAL_SYS_close, self->page, self->fd));
	EXPECT_FALSE(is_open(self->fd));
	EXPECT_FALSE(failed(o, HAL_SYS_munmap, self->page, self->fd));
	EXPECT_EQ(-1, madvise(self->page, PAGE, MADV_NORMAL));
}

/* Each fails in its own manner, with the errno that was asked for. */
TEST_F(judge, makes_fail)
{
	const struct hal_sys_ops *o = hal_sys_get();
	int c, code;

	for (c = 0; c < HAL_SYS_NR; c++) {
		code = hal_sys_call_errno(c);
		EXPECT_GT(code, 0);
		says.code = code;
		EXPECT_TRUE(failed(o, c, self->page, self->fd))
			TH_LOG("%s does not fail", hal_sys_call_name(c));
		EXPECT_EQ(code, errno) TH_LOG("%s", hal_sys_call_name(c));
		says.code = 0;
	}
	/* what nobody does again was done */
	EXPECT_FALSE(is_open(self->fd));
	EXPECT_EQ(-1, madvise(self->page, PAGE, MADV_NORMAL));
}

/* What fails was not done. */
TEST_F(judge, keeps_from_happening)
{
	of_call = HAL_SYS_madvise;
	says.code = EINVAL;
	self->page[0] = 7;
	EXPECT_EQ(-EINVAL, hal_sys_madvise(self->page, PAGE, MADV_DONTNEED));
	EXPECT_EQ(7, self->page[0]);
	says.code = 0;
	EXPECT_EQ(0, hal_sys_madvise(self->page, PAGE, MADV_DONTNEED));
	EXPECT_EQ(0, self->page[0]);
}

/* A wake is done all the same, a wait is not: who waits looks again. */
TEST_F(judge, futex)
{
	_Atomic uint32_t word = 0;

	of_call = HAL_SYS_futex;
	says.code = EAGAIN;
	EXPECT_EQ(0, hal_sys_futex_wait(&word, 0, UINT64_MAX));
	EXPECT_EQ((unsigned long)FUTEX_WAIT_BITSET, asked_arg);
	EXPECT_EQ(-EAGAIN, hal_sys_futex_wake(&word, 1));
	EXPECT_EQ((unsigned long)FUTEX_WAKE, asked_arg);
}

TEST_F(judge, arguments)
{
	hal_sys_madvise(self->page, PAGE, MADV_NORMAL);
	EXPECT_EQ((unsigned long)MADV_NORMAL, asked_arg);
	hal_sys_madvise(self->page, PAGE, MADV_SEQUENTIAL);
	EXPECT_EQ((unsigned long)MADV_SEQUENTIAL, asked_arg);
	hal_sys_ioctl(hal_sys_get(), self->fd, FIOCLEX, NULL);
	EXPECT_EQ((unsigned long)FIOCLEX, asked_arg);
}

TEST_F(judge, holds_up)
{
	uint64_t before = hal_sys_now();
	int fd;

	of_call = HAL_SYS_eventfd;
	says.before_ns = 20 * MS;
	fd = hal_sys_eventfd();
	EXPECT_GE(fd, 0);
	close(fd);
	EXPECT_GE(hal_sys_now() - before, 20 * MS);
	before = hal_sys_now();
	says = (struct hal_sys_verdict){ .code = EMFILE, .after_ns = 20 * MS };
	EXPECT_EQ(-EMFILE, hal_sys_eventfd());
	EXPECT_GE(hal_sys_now() - before, 20 * MS);
}

/* Who makes a call again when he is told so comes to an end; other failures have none. */
TEST_F(judge, to_be_made_again)
{
	uint32_t i;
	int fd;

	of_call = HAL_SYS_eventfd;
	says.code = EINTR;
	atomic_store(&times, 0);
	fd = hal_sys_eventfd();
	EXPECT_GE(fd, 0);
	close(fd);
	EXPECT_EQ(HAL_SYS_AGAIN_MAX + 1, atomic_load(&times));
	of_call = HAL_SYS_ioctl;
	says.code = EAGAIN;
	EXPECT_EQ(0, hal_sys_ioctl(hal_sys_get(), self->fd, FIOCLEX, NULL));
	says.code = EIO;
	for (i = 0; i <= HAL_SYS_AGAIN_MAX; i++)
		EXPECT_EQ(-EIO, hal_sys_ioctl(hal_sys_get(), self->fd, FIOCLEX, NULL));
}

static void *no_judge_soon(void *arg)
{
	usleep(20000);
	hal_sys_judge_set(NULL);
	return arg;
}

/* Who is held up goes on when there is another judge, or none. */
TEST_F(judge, no_longer_than_the_judge)
{
	pthread_t t;
	int fd, i;

	of_call = HAL_SYS_eventfd;
	for (i = 0; i < 2; i++) {
		says = (struct hal_sys_verdict){ .before_ns = i ? 0 : UINT64_MAX,
						 .after_ns = i ? UINT64_MAX : 0 };
		hal_sys_judge_set(judge);
		ASSERT_EQ(0, pthread_create(&t, NULL, no_judge_soon, NULL));
		fd = hal_sys_eventfd();
		EXPECT_GE(fd, 0);
		close(fd);
		pthread_join(t, NULL);
	}
}

/* What was there before is what a judged call goes to, and what comes back. */
static int refused(unsigned int value, int flags)
{
	errno = ENFILE;
	return -1;
}

TEST_F(judge, stands_before_what_was_there)
{
	static struct hal_sys_ops other;
	const struct hal_sys_ops *judged;

	hal_sys_judge_set(NULL);
	EXPECT_EQ(&hal_sys_libc, hal_sys_get());
	other = hal_sys_libc;
	other.eventfd = refused;
	hal_sys_set(&other);
	hal_sys_judge_set(judge);
	judged = hal_sys_get();
	EXPECT_NE(&other, judged);
	EXPECT_EQ(-ENFILE, hal_sys_eventfd());
	/* a second judge takes the place of the first */
	hal_sys_judge_set(judge);
	EXPECT_EQ(judged, hal_sys_get());
	hal_sys_judge_set(NULL);
	EXPECT_EQ(&other, hal_sys_get());
	hal_sys_judge_set(NULL);
	EXPECT_EQ(&other, hal_sys_get());
	hal_sys_set(NULL);
}

TEST_F(judge, names)
{
	int c;

	for (c = 0; c < HAL_SYS_NR; c++) {
		ASSERT_NE(NULL, hal_sys_call_name(c));
		EXPECT_EQ(c, hal_sys_call_find(hal_sys_call_name(c)));
	}
	EXPECT_EQ(HAL_SYS_thread_create, hal_sys_call_find("thread_create"));
	EXPECT_EQ(-1, hal_sys_call_find("thread"));
	EXPECT_EQ(-1, hal_sys_call_find(""));
	EXPECT_EQ(NULL, hal_sys_call_name(HAL_SYS_NR));
	EXPECT_EQ(0, hal_sys_call_errno(HAL_SYS_NR));
}

TEST_HARNESS_MAIN
