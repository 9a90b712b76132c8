// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernels from files and from memory on the simulated device: loading, running,
 * borrowing, unloading.
 */
#include <sys/stat.h>

#include "selftests/drivers/simnpu_ring.h"
#include "selftests/npu_kselftest.h"

#define KERNELS TEST_DATA("simnpu_kernels.so")

FIXTURE(module)
{
	struct ctx c;
	struct ring r;
	uint64_t mem;
};

FIXTURE_SETUP(module)
{
	struct simnpu_info i = { 0 };

	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, io(self->c.fd, INFO, &i));
	if (!(i.caps & SIMNPU_CAP_MODULE_FILE))
		SETUP_SKIP("no kernels from files in this configuration");
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	self->mem = mem_new(&self->c, 4096, NULL);
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 0, 4096, 0));
}

FIXTURE_TEARDOWN(module)
{
	EXPECT_EQ(0, dev_close(self->c.fd));
}

static int load_path(struct ctx *c, const char *path, uint32_t *handle)
{
	struct simnpu_module m = {
		.data = U64(path), .size = strlen(path) + 1, .context = c->handle,
		.kind = SIMNPU_MODULE_PATH,
	};
	int rc = io(c->fd, MODULE_LOAD, &m);

	*handle = m.handle;
	return rc;
}

static int unload(struct ctx *c, uint32_t handle)
{
	struct simnpu_handle h = { .handle = handle };

	return io(c->fd, MODULE_UNLOAD, &h);
}

/* Until a kernel has set the word. */
static void until_set(struct ctx *c, uint64_t addr)
{
	while (!mem_u64(c, addr))
		usleep(100);
}

static char *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "r");
	struct stat st;
	char *p = NULL;

	if (f && !fstat(fileno(f), &st)) {
		*size = (size_t)st.st_size;
		p = malloc(*size);
		if (p && fread(p, 1, *size, f) != *size) {
			free(p);
			p = NULL;
		}
	}
	if (f)
		fclose(f);
	return p;
}

TEST_F(module, a_kernel_of_a_file)
{
	struct npu_simnpu_inc_args a = { self->mem, 3 };
	uint64_t id, again;
	uint32_t m;

	ASSERT_EQ(0, load_path(&self->c, KERNELS, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m, "add_u64", &id));
	ASSERT_EQ(0, kernel_get(&self->c, m, "add_u64", &again));
	EXPECT_EQ(id, again);
	EXPECT_EQ(-ESRCH, kernel_get(&self->c, m, "nop", &again));
	EXPECT_EQ(-ESRCH, kernel_get(&self->c, m, "npu_simnpu_kernel_abi", &again));
	put_launch(&self->r, id, 1, &a, sizeof(a));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(3, mem_u64(&self->c, self->mem));
	EXPECT_EQ(0, unload(&self->c, m));
	EXPECT_EQ(-ENOENT, unload(&self->c, m));
	EXPECT_EQ(-ENOENT, kernel_get(&self->c, m, "add_u64", &again));
}

TEST_F(module, a_kernel_of_an_image)
{
	struct npu_simnpu_inc_args a = { self->mem, 5 };
	size_t size = 0;
	char *image = read_file(KERNELS, &size);
	struct simnpu_module m = {
		.data = U64(image), .size = size, .context = self->c.handle,
		.kind = SIMNPU_MODULE_IMAGE,
	};
	uint64_t id, second;
	uint32_t other;

	ASSERT_NE(NULL, image);
	ASSERT_EQ(0, io(self->c.fd, MODULE_LOAD, &m));
	other = m.handle;
	ASSERT_EQ(0, io(self->c.fd, MODULE_LOAD, &m));
	memset(image, 0, size);
	ASSERT_EQ(0, kernel_get(&self->c, other, "add_u64", &id));
	ASSERT_EQ(0, kernel_get(&self->c, m.handle, "add_u64", &second));
	EXPECT_NE(id, second);
	EXPECT_EQ(0, unload(&self->c, other));
	put_launch(&self->r, second, 1, &a, sizeof(a));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	EXPECT_EQ(5, mem_u64(&self->c, self->mem));
	free(image);
}

TEST_F(module, what_is_no_module)
{
	size_t size = 0;
	char *image = read_file(KERNELS, &size);
	struct simnpu_module m = {
		.data = U64(image), .size = 1024, .context = self->c.handle,
		.kind = SIMNPU_MODULE_IMAGE,
	};
	uint32_t h;

	ASSERT_NE(NULL, image);
	/* what the loader maps does not end there, whatever a compiler puts behind it */
	EXPECT_EQ(-ENOEXEC, io(self->c.fd, MODULE_LOAD, &m));
	image[0] = 'x';
	m.size = size;
	EXPECT_EQ(-ENOEXEC, io(self->c.fd, MODULE_LOAD, &m));
	EXPECT_EQ(-ENOEXEC, load_path(&self->c, TEST_SRCTREE "/COPYING", &h));
	EXPECT_EQ(-ENOEXEC, load_path(&self->c, TEST_DATA("rt_noabi.so"), &h));
	EXPECT_EQ(-EPROTO, load_path(&self->c, TEST_DATA("rt_wrongabi.so"), &h));
	EXPECT_EQ(-ENOENT, load_path(&self->c, TEST_DATA("nothing.so"), &h));
	EXPECT_EQ(-ENOENT, load_path(&self->c, "libc.so.6", &h));
	free(image);
}

TEST_F(module, waiters_run_kernels_of_files_only_when_told_so)
{
	struct npu_simnpu_inc_args a = { self->mem, 1 };
	struct simnpu_test_counters before, after;
	uint64_t id;
	uint32_t m;

	ASSERT_EQ(0, load_path(&self->c, KERNELS, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m, "add_u64", &id));
	simnpu_test_counters(&before);
	put_launch(&self->r, id, 1, &a, sizeof(a));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	simnpu_test_counters(&after);
	EXPECT_EQ(before.borrowed, after.borrowed);
	/* with no engine it is the waiter or nobody */
	EXPECT_EQ(0, dev_close(self->c.fd));
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	a.addr = mem_new(&self->c, 8, NULL);
	ASSERT_EQ(0, load_path(&self->c, KERNELS, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m, "add_u64", &id));
	put_launch(&self->r, id, 1, &a, sizeof(a));
	EXPECT_EQ(0, ring_wait_until(&self->r, 1, SIMNPU_DEADLINE_NONE, SIMNPU_WAIT_BORROW_ALL));
	simnpu_test_counters(&after);
	EXPECT_EQ(before.borrowed + 1, after.borrowed);
}

TEST_F(module, unloading_what_runs_and_what_is_queued)
{
	uint64_t go = self->mem, id;
	struct simnpu_task_error e[1];
	uint32_t m;

	ASSERT_EQ(0, load_path(&self->c, KERNELS, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m, "wait_u64", &id));
	/* runs until the word is not 0 any more */
	put_launch(&self->r, id, 1, &go, sizeof(go));
	until_set(&self->c, self->mem + 8);
	EXPECT_EQ(-EBUSY, unload(&self->c, m));
	put_launch(&self->r, id, 1, &go, sizeof(go));
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 1, 8, 0));
	EXPECT_EQ(0, ring_wait(&self->r, self->r.seq - 1));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, unload(&self->c, m));
	put_launch(&self->r, id, 1, &go, sizeof(go));
	EXPECT_EQ(0, ring_wait(&self->r, self->r.seq - 1));
	ASSERT_EQ(1, ring_errors(&self->r, e, 1));
	EXPECT_EQ(ENOENT, e[0].code);
}

/* Stopping that took for ever would be seen by the watchdog, here and below. */
TEST_F(module, closing_stops_a_kernel_that_looks)
{
	uint64_t go = self->mem, id;
	uint32_t m;

	ASSERT_EQ(0, load_path(&self->c, KERNELS, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m, "wait_u64", &id));
	put_launch(&self->r, id, 1, &go, sizeof(go));
	until_set(&self->c, self->mem + 8);
	EXPECT_EQ(0, dev_close(self->c.fd));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
}

TEST_F(module, a_kernel_that_never_ends_does_not_keep_the_program)
{
	struct simnpu_info i = { 0 };
	uint64_t id;
	uint32_t m;

	npu_test_may_leak = true;
	ASSERT_EQ(0, load_path(&self->c, KERNELS, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m, "hang", &id));
	put_launch(&self->r, id, 1, &self->mem, sizeof(self->mem));
	until_set(&self->c, self->mem);
	EXPECT_EQ(0, ring_close(&self->r));
	ASSERT_EQ(0, io(self->c.fd, INFO, &i));
	EXPECT_EQ(SIMNPU_STATE_LOST, i.state);
	EXPECT_EQ(0, dev_close(self->c.fd));
	/* another one takes its place */
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, io(self->c.fd, INFO, &i));
	EXPECT_EQ(SIMNPU_STATE_OK, i.state);
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	EXPECT_EQ(0, ring_wait_engine(&self->r, put_nop(&self->r)));
}

TEST_HARNESS_MAIN
