// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modules and kernels, built in and from files.
 */
#include "selftests/npu_kselftest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "selftests/runtime/rt_test.h"

#define GOOD TEST_DATA("rt_kernels.so")

struct fill_args {
	uint64_t addr;
	uint64_t n;
	uint32_t value;
	uint32_t pad;
};

static uint64_t u64_of(void *p)
{
	return (uint64_t)(uintptr_t)p;
}

FIXTURE(kernel) {
	npu_stream s;
	void *p;
};

FIXTURE_SETUP(kernel)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_default(0, &self->s));
	OK(npu_malloc(4096, 0, &self->p));
	OK(npu_memset(self->p, 0, 4096));
}

FIXTURE_TEARDOWN(kernel)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

static uint64_t word(void *p)
{
	uint64_t w = 0;

	npu_memcpy(&w, p, sizeof(w), NPU_COPY_AUTO);
	return w;
}

TEST_F(kernel, builtin)
{
	struct npu_simnpu_inc_args a = { u64_of(self->p), 5 };
	npu_kernel k, again;
	int i;

	OK(npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &k));
	OK(npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &again));
	EXPECT_EQ(k.h, again.h);
	for (i = 0; i < 1000; i++)
		OK(npu_launch(k, 1, &a, sizeof(a), self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(5000, word(self->p));
	EXPECT_EQ(-ESRCH, npu_kernel_get(NPU_MODULE_BUILTIN, "no_such", &k));
	EXPECT_EQ(0, k.h);
	EXPECT_EQ(-EINVAL, npu_kernel_get(NPU_MODULE_BUILTIN, NULL, &k));
	EXPECT_EQ(-EINVAL, npu_kernel_get(NPU_MODULE_BUILTIN, "nop", NULL));
	EXPECT_EQ(-EINVAL, npu_module_unload(NPU_MODULE_BUILTIN, 0));
}

static void *launch_there(void *arg)
{
	struct npu_simnpu_inc_args a = { u64_of(((void **)arg)[1]), 1 };
	npu_kernel k = { u64_of(((void **)arg)[0]) };

	return (void *)(intptr_t)npu_launch(k, 1, &a, sizeof(a), NPU_STREAM_CURRENT);
}

TEST_F(kernel, its_device_counts_where_none_is_set)
{
	void *arg[2];
	npu_stream s1;
	npu_kernel k;
	pthread_t th;
	void *rc, *p;

	OK(npu_device_set(0));
	OK(npu_device_set(1));
	OK(npu_malloc(8, 0, &p));
	OK(npu_memset(p, 0, 8));
	OK(npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &k));
	arg[0] = (void *)(uintptr_t)k.h;
	arg[1] = p;
	/* the first set is 0, the kernel is of 1 */
	OK(pthread_create(&th, NULL, launch_there, arg));
	pthread_join(th, &rc);
	EXPECT_EQ(0, (intptr_t)rc);
	OK(npu_stream_default(1, &s1));
	OK(npu_stream_sync(s1, 5000));
	EXPECT_EQ(1, word(p));
	EXPECT_EQ(-EXDEV, npu_launch(k, 1, NULL, 0, self->s));
}

TEST_F(kernel, arguments)
{
	struct npu_device_info info = { .size = sizeof(info) };
	npu_kernel k = builtin_kernel("nop");
	char big[NPU_KERNEL_ARGS_MAX + 1] = { 0 };

	OK(npu_device_get_info(0, &info));
	EXPECT_EQ(-EINVAL, npu_launch(k, 0, NULL, 0, self->s));
	EXPECT_EQ(-EINVAL, npu_launch(k, 1, NULL, 8, self->s));
	EXPECT_EQ(-EINVAL, npu_launch(k, 1, big, info.args_max + 1, self->s));
	EXPECT_EQ(-EINVAL, npu_launch(k, 1, big, SIZE_MAX, self->s));
	if (info.blocks_max < UINT32_MAX)
		EXPECT_EQ(-EINVAL, npu_launch(k, info.blocks_max + 1, NULL, 0, self->s));
	OK(npu_launch(k, info.blocks_max < 1000 ? info.blocks_max : 1000, NULL, 0, self->s));
	OK(npu_stream_sync(self->s, 5000));
}

TEST_F(kernel, from_a_file)
{
	struct fill_args a = { u64_of(self->p), 1000, 0xabcd, 0 };
	uint32_t back[1024];
	npu_module m, other;
	npu_kernel k, refuse;
	int i;

	OK(npu_module_load(GOOD, &m));
	OK(npu_module_load(GOOD, &other));
	EXPECT_NE(m.h, other.h);
	OK(npu_kernel_get(m, "rt_fill", &k));
	OK(npu_kernel_get(m, "rt_refuse", &refuse));
	EXPECT_EQ(-ESRCH, npu_kernel_get(m, "rt_missing", &refuse));
	/* data, and functions of the libraries that the module needs */
	EXPECT_EQ(-ESRCH, npu_kernel_get(m, "npu_simnpu_kernel_abi", &refuse));
	EXPECT_EQ(-ESRCH, npu_kernel_get(m, "rt_data", &refuse));
	EXPECT_EQ(-ESRCH, npu_kernel_get(m, "malloc", &refuse));
	OK(npu_kernel_get(m, "rt_refuse", &refuse));
	OK(npu_launch(k, 7, &a, sizeof(a), self->s));
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_memcpy(back, self->p, sizeof(back), NPU_COPY_AUTO));
	for (i = 0; i < 1024; i++)
		ASSERT_EQ(i < 1000 ? 0xabcd : 0, back[i]);
	OK(npu_launch(refuse, 1, NULL, 0, self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	/* one word too far */
	a.n = 1025;
	OK(npu_launch(k, 1, &a, sizeof(a), self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	OK(npu_module_unload(m, 5000));
	EXPECT_EQ(-ESTALE, npu_launch(k, 1, &a, sizeof(a), self->s));
	EXPECT_EQ(-ESTALE, npu_kernel_get(m, "rt_fill", &k));
	EXPECT_EQ(-ESTALE, npu_module_unload(m, 5000));
	OK(npu_kernel_get(other, "rt_fill", &k));
}

TEST_F(kernel, unload_waits)
{
	static struct gate g;
	npu_module m;
	npu_kernel k;

	OK(npu_module_load(GOOD, &m));
	OK(npu_kernel_get(m, "rt_refuse", &k));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	EXPECT_EQ(-ETIMEDOUT, npu_module_unload(m, 20));
	EXPECT_EQ(-EINVAL, npu_module_unload(m, -5));
	EXPECT_EQ(-ESTALE, npu_launch(k, 1, NULL, 0, self->s));
	atomic_store(&g.open, 1);
	OK(npu_module_unload(m, 5000));
}

static char *read_whole(const char *path, size_t *size)
{
	struct stat st;
	char *buf = NULL;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	buf = malloc((size_t)st.st_size);
	if (buf && read(fd, buf, (size_t)st.st_size) != st.st_size) {
		free(buf);
		buf = NULL;
	}
	*size = (size_t)st.st_size;
	close(fd);
	return buf;
}

TEST_F(kernel, from_memory)
{
	struct fill_args a = { u64_of(self->p), 2, 0x11, 0 };
	npu_module m;
	npu_kernel k;
	size_t n = 0;
	char *image;

	image = read_whole(GOOD, &n);
	ASSERT_TRUE(image != NULL);
	OK(npu_module_load_data(image, n, &m));
	/* it was copied */
	memset(image, 0, n);
	OK(npu_kernel_get(m, "rt_fill", &k));
	OK(npu_launch(k, 1, &a, sizeof(a), self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0x1100000011ull, word(self->p));
	EXPECT_EQ(-ENOEXEC, npu_module_load_data(image, n, &m));
	EXPECT_EQ(0, m.h);
	EXPECT_EQ(-EINVAL, npu_module_load_data(image, 0, &m));
	EXPECT_EQ(-EINVAL, npu_module_load_data(NULL, n, &m));
	EXPECT_EQ(-EINVAL, npu_module_load_data(image, n, NULL));
	free(image);
}

TEST_F(kernel, bad_files)
{
	char path[64];
	npu_module m;
	size_t n = 0;
	char *image;
	int fd;

	EXPECT_EQ(-ENOENT, npu_module_load("/no/such/file.so", &m));
	EXPECT_EQ(0, m.h);
	EXPECT_EQ(-EINVAL, npu_module_load(NULL, &m));
	EXPECT_EQ(-EINVAL, npu_module_load(GOOD, NULL));
	EXPECT_EQ(-ENOEXEC, npu_module_load(TEST_DATA("rt_noabi.so"), &m));
	EXPECT_EQ(-EPROTO, npu_module_load(TEST_DATA("rt_wrongabi.so"), &m));
	EXPECT_EQ(-ENOEXEC, npu_module_load(TEST_SRCTREE "/selftests/data/rt_kernels.c", &m));
	/* what the headers tell of is missing; half a file may have it all but debug information */
	image = read_whole(GOOD, &n);
	ASSERT_TRUE(image != NULL);
	snprintf(path, sizeof(path), "/tmp/npu-module-%d.so", (int)getpid());
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	ASSERT_GE(fd, 0);
	ASSERT_LT(1024, n);
	ASSERT_EQ(1024, write(fd, image, 1024));
	close(fd);
	EXPECT_EQ(-ENOEXEC, npu_module_load(path, &m));
	unlink(path);
	free(image);
	/* nothing of it stays */
	OK(npu_module_load(GOOD, &m));
	OK(npu_module_unload(m, 1000));
}

/* A path that leads nowhere is one error, and one of the catalogue, whatever ends it. */
TEST_F(kernel, paths_to_nowhere)
{
	static char longest[2 * PATH_MAX], name[300];
	char loop[64];
	npu_module m;
	npu_kernel k;

	EXPECT_EQ(-ENOENT, npu_module_load(GOOD "/x.so", &m));
	snprintf(loop, sizeof(loop), "/tmp/npu-loop-%d.so", (int)getpid());
	ASSERT_EQ(0, symlink(loop, loop));
	EXPECT_EQ(-ENOENT, npu_module_load(loop, &m));
	unlink(loop);
	memset(longest, '/', sizeof(longest) - 1);
	EXPECT_EQ(-ENOENT, npu_module_load(longest, &m));
	memset(name, 'x', sizeof(name) - 1);
	EXPECT_EQ(-ENOENT, npu_module_load(name, &m));
	EXPECT_EQ(-ENOENT, last_error().code);
	EXPECT_NE(NULL, strstr(last_error().text, "no such file"));
	EXPECT_NE(0, npu_kernel_get(NPU_MODULE_BUILTIN, longest, &k));
	EXPECT_NE(NULL, strstr(last_error().text, "name is too long")) TH_LOG("%s",
									    last_error().text);
}

TEST_F(kernel, of_its_context)
{
	npu_context c;
	npu_module m;
	npu_kernel k, b;
	npu_stream home;

	OK(npu_context_create(0, &c));
	OK(npu_context_set(c));
	OK(npu_module_load(GOOD, &m));
	OK(npu_kernel_get(m, "rt_refuse", &k));
	OK(npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &b));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &home));
	OK(npu_launch(b, 1, NULL, 0, NPU_STREAM_CURRENT));
	OK(npu_stream_sync(home, 5000));
	EXPECT_EQ(-EXDEV, npu_launch(k, 1, NULL, 0, self->s));
	OK(npu_context_destroy(c, 5000));
	EXPECT_EQ(-ESTALE, npu_kernel_get(m, "rt_refuse", &k));
	EXPECT_EQ(-ESTALE, npu_launch(b, 1, NULL, 0, self->s));
}

TEST(a_pipe_is_no_module)
{
	char path[] = "/tmp/npu-pipe-XXXXXX";
	npu_module m;

	ASSERT_NE(NULL, mkdtemp(path));
	OK(chdir(path));
	OK(mkfifo("pipe", 0600));
	EXPECT_EQ(-ENOEXEC, npu_module_load("pipe", &m));
	OK(unlink("pipe"));
	OK(rmdir(path));
	OK(npu_finalize(5000));
}

TEST_HARNESS_MAIN
