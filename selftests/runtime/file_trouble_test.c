// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files, when something goes wrong: the disk, the file, the device, the program.
 */
#include "selftests/npu_kselftest.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/file_env.h"

#define N (4u * MIB)

FIXTURE(trouble) {
	char *path;
	unsigned char *host;
	char *dev;
	npu_stream s;
	npu_file f;
	int fds;
};

FIXTURE_SETUP(trouble)
{
	self->fds = open_files();
	self->path = make_file(N);
	ASSERT_NE(NULL, self->path);
	self->host = malloc(N);
	ASSERT_NE(NULL, self->host);
	OK(npu_option_set("io_uring", "0"));
	OK(npu_malloc(N, 0, (void **)&self->dev));
	OK(npu_memset(self->dev, 0, N));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_file_open(self->path, NPU_FILE_READ | NPU_FILE_WRITE, &self->f));
	make_trouble(0, 0, 0);
}

FIXTURE_TEARDOWN(trouble)
{
	EXPECT_EQ(0, npu_finalize(LONG_MS));
	EXPECT_EQ(self->fds, open_files());
	rt_file_sys = &rt_file_libc;
	remove_file(self->path);
	free(self->host);
}

static int read_it(FIXTURE_DATA(trouble) *self)
{
	int err = npu_file_read_async(self->s, self->f, 0, self->dev, N);

	return err ? err : npu_stream_sync(self->s, LONG_MS);
}

static int write_it(FIXTURE_DATA(trouble) *self)
{
	int err = npu_file_write_async(self->s, self->f, 0, self->dev, N);

	return err ? err : npu_stream_sync(self->s, LONG_MS);
}

/* ---- the disk --------------------------------------------------------------------- */

TEST_F(trouble, short_reads_and_writes_go_on)
{
	static const long some[] = { 1, 511, 512, 4096, 5000, MIB - 1 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(some); i++) {
		OK(npu_memset(self->dev, 0, N));
		make_trouble(1, 10, some[i]);
		OK(read_it(self));
		EXPECT_LT(N / MIB, (uint32_t)trouble.calls);
		OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
		EXPECT_EQ(-1, differs(self->host, 0, N));
		make_trouble(1, 10, some[i]);
		OK(write_it(self));
		EXPECT_LT(N / MIB, (uint32_t)trouble.calls);
		make_trouble(0, 0, 0);
		OK(npu_memset(self->dev, 0, N));
		OK(npu_file_read(self->f, 0, self->dev, N));
		OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
		EXPECT_EQ(-1, differs(self->host, 0, N));
	}
}

TEST_F(trouble, interrupted_ones_are_repeated)
{
	static const int codes[] = { -EINTR, -EAGAIN };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(codes); i++) {
		make_trouble(2, 5, codes[i]);
		OK(read_it(self));
		EXPECT_EQ(N / MIB + 5, (uint32_t)trouble.calls);
		make_trouble(2, 5, codes[i]);
		OK(write_it(self));
	}
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host, 0, N));
}

/* A rule of the disk that the system does not tell: not past the cache then. */
TEST_F(trouble, not_past_the_cache)
{
	make_trouble(0, 1, -EINVAL);
	OK(read_it(self));
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host, 0, N));
	make_trouble(0, 1, -EINVAL);
	EXPECT_EQ(-EIO, read_it(self));
}

TEST_F(trouble, failures_of_the_disk)
{
	static const struct {
		int said, told;
		bool write;
	} cases[] = {
		{ -EIO, -EIO, false }, { -EIO, -EIO, true }, { -ENOSPC, -ENOSPC, true },
		{ -EDQUOT, -ENOSPC, true }, { -EFBIG, -ENOSPC, true }, { -EBADMSG, -EIO, false },
		{ 0, -ENODATA, false }, { 0, -EIO, true }, { -ENOMEM, -ENOMEM, false },
	};
	struct npu_error e;
	uint32_t i, n;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (n = 0; n < 3; n++) {
			make_trouble((int)n, 1, cases[i].said);
			OK(npu_tag_set("tensor"));
			EXPECT_EQ(cases[i].told, cases[i].write ? write_it(self) : read_it(self));
			OK(npu_tag_set(NULL));
			e = last_error();
			EXPECT_STREQ("tensor", e.tag);
			EXPECT_EQ(cases[i].told, e.code);
			make_trouble((int)n, 1, cases[i].said);
			EXPECT_EQ(cases[i].told, cases[i].write ?
				  npu_file_write(self->f, 0, self->dev, N) :
				  npu_file_read(self->f, 0, self->dev, N));
			EXPECT_EQ(cases[i].told, last_error().code);
		}
	}
	make_trouble(0, 0, 0);
	OK(read_it(self));
}

TEST_F(trouble, all_of_them_fail)
{
	make_trouble(0, -1, -EIO);
	EXPECT_EQ(-EIO, read_it(self));
	EXPECT_EQ(-EIO, npu_file_write(self->f, 0, self->dev, N));
	make_trouble(0, 0, 0);
	OK(read_it(self));
}

static int no_open(const char *path, int flags, unsigned int mode)
{
	return (int)trouble.result;
}

static int no_fstat(int fd, struct stat *st)
{
	return -EIO;
}

TEST_F(trouble, opening_fails)
{
	static const int codes[][2] = {
		{ -EACCES, -EACCES }, { -EPERM, -EACCES }, { -EROFS, -EACCES },
		{ -EMFILE, -EMFILE }, { -ENFILE, -ENFILE }, { -ENOMEM, -ENOMEM },
		{ -ENOTDIR, -ENOENT }, { -EISDIR, -EINVAL }, { -ENXIO, -EINVAL },
		{ -EDQUOT, -ENOSPC }, { -ELOOP, -EIO },
	};
	npu_file f = { 7 };
	uint64_t size;
	size_t i;

	bad_sys.open = no_open;
	for (i = 0; i < ARRAY_SIZE(codes); i++) {
		trouble.result = codes[i][0];
		EXPECT_EQ(codes[i][1], npu_file_open(self->path, NPU_FILE_READ, &f));
		EXPECT_EQ(0, f.h);
	}
	bad_sys.open = rt_file_libc.open;
	bad_sys.fstat = no_fstat;
	EXPECT_EQ(-EIO, npu_file_open(self->path, NPU_FILE_READ, &f));
	EXPECT_EQ(-EIO, npu_file_size(self->f, &size));
	EXPECT_EQ(0, size);
}

/* ---- the file gets shorter -------------------------------------------------------- */

static char *cut_path;
static off_t cut_to;

static int map_and_cut(int fd, uint64_t offset, size_t size, void **addr)
{
	int err = rt_file_libc.map(fd, offset, size, addr);

	return truncate(cut_path, cut_to) ? -EIO : err;
}

TEST_F(trouble, shorter_while_it_is_mapped)
{
	static const off_t to[] = { N - 1, N - 4096, N / 2, 5, 0 };
	size_t i;
	int fd;

	cut_path = self->path;
	for (i = 0; i < ARRAY_SIZE(to); i++) {
		cut_to = to[i];
		bad_sys.map = map_and_cut;
		bad_sys.peek = always_cached;
		EXPECT_EQ(-ENODATA, read_it(self));
		bad_sys.map = rt_file_libc.map;
		EXPECT_EQ(-ENODATA, npu_file_read(self->f, 0, self->dev, N));
		OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
		EXPECT_EQ(-1, differs(self->host, 0, (size_t)to[i]));
		fd = open(self->path, O_WRONLY);
		fill_bytes(self->host, 0, N);
		EXPECT_EQ(N, (uint64_t)write(fd, self->host, N));
		close(fd);
	}
	OK(read_it(self));
}

static _Atomic int theirs;
static char *page;

static void their_handler(int sig, siginfo_t *info, void *context)
{
	theirs++;
	mmap(page, 4096, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* A fault that is none of ours goes to the program's handler, before ours or after it. */
TEST_F(trouble, faults_of_the_program)
{
	struct sigaction a = { .sa_sigaction = their_handler, .sa_flags = SA_SIGINFO };
	int fd = open(self->path, O_RDONLY);

	ASSERT_EQ(0, sigaction(SIGBUS, &a, NULL));
	bad_sys.peek = always_cached;
	OK(read_it(self));
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, N);
	ASSERT_NE(MAP_FAILED, (void *)page);
	EXPECT_EQ(0, *(volatile char *)page);
	EXPECT_EQ(1, (int)theirs);
	/* in our place: files are not mapped then, and still read */
	ASSERT_EQ(0, sigaction(SIGBUS, &a, NULL));
	make_trouble(0, 0, 0);
	bad_sys.peek = always_cached;
	OK(read_it(self));
	EXPECT_LE(N / MIB, (uint32_t)trouble.calls);
	close(fd);
}

/* ---- nobody wants it any more ----------------------------------------------------- */

static void until_entered(struct gate *g)
{
	while (!atomic_load(&g->entered))
		usleep(200);
}

TEST_F(trouble, aborted_on_the_way)
{
	struct gate g = { 0 };
	npu_stream t;

	OK(npu_stream_create(NULL, &t));
	trouble.gate = &g;
	OK(npu_file_read_async(self->s, self->f, 0, self->dev, N));
	OK(npu_stream_wait_stream(t, self->s));
	until_entered(&g);
	EXPECT_EQ(-ETIMEDOUT, npu_stream_abort(self->s, 20));
	atomic_store(&g.open, 1);
	OK(npu_stream_abort(self->s, LONG_MS));
	/* nothing touches the memory now */
	OK(npu_memset(self->dev, 0x5a, N));
	usleep(2000);
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(0x5a, self->host[0]);
	EXPECT_EQ(0, memcmp(self->host, self->host + 1, N - 1));
	EXPECT_EQ(-ECANCELED, npu_stream_sync(t, LONG_MS));
	OK(npu_stream_sync(self->s, LONG_MS));
	make_trouble(0, 0, 0);
	OK(read_it(self));
}

TEST_F(trouble, aborted_before_it_began)
{
	struct gate g = { 0 };
	int i, fds = open_files();
	npu_file f;

	for (i = 0; i < 20; i++) {
		g = (struct gate){ 0 };
		OK(npu_file_open(self->path, NPU_FILE_READ, &f));
		OK(npu_stream_callback(self->s, gate_hold, &g, 0));
		OK(npu_file_read_async(self->s, f, 0, self->dev, N));
		OK(npu_file_read_async(self->s, f, 0, self->dev, N));
		if (i % 2) {
			OK(npu_file_close(f));
			EXPECT_LT(fds, open_files());
		}
		until_entered(&g);
		EXPECT_EQ(-ETIMEDOUT, npu_stream_abort(self->s, 1));
		atomic_store(&g.open, 1);
		OK(npu_stream_abort(self->s, LONG_MS));
		if (!(i % 2))
			OK(npu_file_close(f));
		/* what was discarded is found by those who come later */
		OK(read_it(self));
		OK(read_it(self));
		EXPECT_EQ(fds, open_files());
	}
	EXPECT_EQ(40 * (int)(N / MIB), (int)trouble.calls);
}

TEST_F(trouble, memory_freed_on_the_way)
{
	struct gate g = { 0 };
	size_t free0, free1, total;
	void *p;

	OK(npu_device_mem_info(0, &free0, &total));
	OK(npu_malloc(N, 0, &p));
	trouble.gate = &g;
	OK(npu_file_read_async(self->s, self->f, 0, p, N));
	until_entered(&g);
	OK(npu_free(p));
	EXPECT_EQ(-EINVAL, npu_free(p));
	/* it goes with the last byte that is read there */
	OK(npu_device_mem_info(0, &free1, &total));
	EXPECT_LT(free1, free0);
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->s, LONG_MS));
	OK(npu_device_mem_info(0, &free1, &total));
	EXPECT_EQ(free0, free1);
}

struct reader {
	pthread_t thread;
	npu_file f;
	char *dev;
	int err;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	r->err = npu_file_read(r->f, 0, r->dev, N);
	return NULL;
}

TEST_F(trouble, the_device_stops)
{
	struct reader r = { .f = self->f, .dev = self->dev };
	struct gate g = { 0 };

	trouble.gate = &g;
	OK(npu_file_read_async(self->s, self->f, 0, self->dev, N));
	ASSERT_EQ(0, pthread_create(&r.thread, NULL, reader_main, &r));
	until_entered(&g);
	EXPECT_EQ(-ETIMEDOUT, npu_device_stop(0, 50));
	atomic_store(&g.open, 1);
	OK(npu_device_stop(0, LONG_MS));
	pthread_join(r.thread, NULL);
	EXPECT_NE(0, r.err);
	EXPECT_TRUE(r.err == -ECANCELED || r.err == -ESHUTDOWN) TH_LOG("%d", r.err);
	EXPECT_EQ(-ESHUTDOWN, npu_file_read(self->f, 0, self->dev, N));
	OK(npu_device_restart(0, 0, LONG_MS));
	make_trouble(0, 0, 0);
	OK(npu_file_read(self->f, 0, self->dev, N));
	EXPECT_EQ(-ESTALE, npu_file_read_async(self->s, self->f, 0, self->dev, N));
	OK(npu_file_read_async(NPU_STREAM_CURRENT, self->f, 0, self->dev, N));
	OK(npu_stream_sync(NPU_STREAM_CURRENT, LONG_MS));
}

TEST_F(trouble, the_device_is_reset)
{
	struct reader r = { .f = self->f, .dev = self->dev };
	struct gate g = { 0 };

	trouble.gate = &g;
	ASSERT_EQ(0, pthread_create(&r.thread, NULL, reader_main, &r));
	until_entered(&g);
	EXPECT_EQ(-ETIMEDOUT, npu_device_reset(0, 50));
	atomic_store(&g.open, 1);
	OK(npu_device_reset(0, LONG_MS));
	pthread_join(r.thread, NULL);
	EXPECT_EQ(-ECANCELED, r.err);
	make_trouble(0, 0, 0);
	EXPECT_EQ(-EINVAL, npu_file_read(self->f, 0, self->dev, N));
	OK(npu_malloc(N, 0, (void **)&self->dev));
	OK(npu_file_read(self->f, 0, self->dev, N));
}

TEST_F(trouble, finalized_on_the_way)
{
	int i;

	for (i = 0; i < 8; i++)
		OK(npu_file_read_async(self->s, self->f, 0, self->dev, N));
	OK(npu_finalize(LONG_MS));
	EXPECT_EQ(8 * (int)(N / MIB), (int)trouble.calls);
	EXPECT_EQ(-ESTALE, npu_file_close(self->f));
	OK(npu_finalize(LONG_MS));
	OK(npu_file_open(self->path, NPU_FILE_READ, &self->f));
	OK(npu_malloc(N, 0, (void **)&self->dev));
	OK(npu_file_read(self->f, 0, self->dev, N));
}

/* The disk does not answer, and the process ends all the same, in bounded time. */
TEST_F(trouble, exit_on_the_way)
{
	static struct gate g;
	uint64_t start = hal_sys_now();
	int status = 0;
	pid_t pid;

	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "forks");
	OK(npu_finalize(LONG_MS));
	pid = fork();
	if (!pid) {
		trouble.gate = &g;
		npu_option_set("exit_timeout_ms", "100");
		npu_malloc(N, 0, (void **)&self->dev);
		npu_file_open(self->path, NPU_FILE_READ, &self->f);
		npu_file_read_async(NPU_STREAM_CURRENT, self->f, 0, self->dev, N);
		exit(7);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(7, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	EXPECT_GT(20000000000u * npu_test_slower(), hal_sys_now() - start);
}

/* ---- the device says too early that it is done ------------------------------------ */

#if IS_ENABLED(CONFIG_SIMNPU_FAULTS)
/* It is carried out all the same, whoever looks at it meanwhile. */
TEST_F(trouble, said_to_be_done_too_early)
{
	int i;

	ASSERT_EQ(0, simnpu_fault_set("task,do=early,ns=20000000", NULL));
	for (i = 0; i < 4; i++) {
		OK(npu_file_read_async(self->s, self->f, 0, self->dev, N));
		OK(npu_stream_sync(self->s, LONG_MS));
	}
	simnpu_fault_end(NULL, 0);
	while ((uint32_t)trouble.calls < 4 * N / MIB)
		usleep(200);
	OK(write_it(self));
	EXPECT_EQ(5 * N / MIB, (uint32_t)trouble.calls);
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host, 0, N));
}
#endif

/* ---- without io_uring ------------------------------------------------------------- */

/* A container may forbid it, and then threads do the work. */
static void without_uring(struct __test_metadata *_metadata, FIXTURE_DATA(trouble) *self,
			  uint32_t code_of_call)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code_of_call),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };
	int status = 0;
	pid_t pid;

	OK(npu_finalize(LONG_MS));
	pid = fork();
	if (!pid) {
		int err;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
			_exit(9);
		npu_option_set("io_uring", "1");
		npu_malloc(N, 0, (void **)&self->dev);
		npu_file_open(self->path, NPU_FILE_READ, &self->f);
		err = npu_file_read(self->f, 0, self->dev, N);
		npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO);
		_exit(err || differs(self->host, 0, N) >= 0 ? 1 :
		      (uint32_t)trouble.calls == N / MIB ? 0 : 2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

TEST_F(trouble, io_uring_is_forbidden)
{
	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "forks");
	without_uring(_metadata, self, EPERM);
}

/* As by an older kernel, and by containers whose rules say so of what they don't know. */
TEST_F(trouble, io_uring_is_not_there)
{
	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "forks");
	without_uring(_metadata, self, ENOSYS);
}

TEST_HARNESS_MAIN
