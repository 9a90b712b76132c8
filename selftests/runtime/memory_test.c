// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory: allocations, pointers, copies and fills.
 */
#include "selftests/npu_kselftest.h"

#include <sys/mman.h>

#include "selftests/runtime/rt_test.h"

#define N 70000

FIXTURE(memory) {
	unsigned char *host;
	unsigned char *back;
	void *dev;
	void *pinned;
	npu_stream s;
};

FIXTURE_SETUP(memory)
{
	int i;

	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	self->host = malloc(N);
	self->back = calloc(1, N);
	ASSERT_TRUE(self->host && self->back);
	for (i = 0; i < N; i++)
		self->host[i] = (unsigned char)(i * 7 + (i >> 8));
	OK(npu_malloc(N, 0, &self->dev));
	OK(npu_malloc_host(N, 0, &self->pinned));
	OK(npu_stream_create(NULL, &self->s));
}

FIXTURE_TEARDOWN(memory)
{
	EXPECT_EQ(0, npu_finalize(5000));
	free(self->host);
	free(self->back);
}

TEST_F(memory, there_and_back)
{
	OK(npu_memcpy(self->dev, self->host, N, NPU_COPY_AUTO));
	OK(npu_memcpy(self->pinned, self->dev, N, NPU_COPY_D2H));
	EXPECT_EQ(0, memcmp(self->pinned, self->host, N));
	OK(npu_memset(self->dev, 0x1a5, N));
	OK(npu_memcpy(self->back, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(0xa5, self->back[0]);
	EXPECT_EQ(0xa5, self->back[N - 1]);
	OK(npu_memcpy(self->back, self->host, N, NPU_COPY_AUTO));
	EXPECT_EQ(0, memcmp(self->back, self->host, N));
	OK(npu_memcpy(NULL, NULL, 0, NPU_COPY_AUTO));
	OK(npu_memset(self->pinned, 3, N));
	EXPECT_EQ(3, ((char *)self->pinned)[N - 1]);
}

TEST_F(memory, in_a_stream)
{
	char *dev = self->dev;

	OK(npu_memcpy_async(dev, self->host, N, NPU_COPY_AUTO, self->s));
	OK(npu_memset_async(dev + 100, 0, 50, self->s));
	OK(npu_memcpy_async(self->back, dev, N, NPU_COPY_AUTO, self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0, memcmp(self->back, self->host, 100));
	EXPECT_EQ(0, self->back[100]);
	EXPECT_EQ(0, self->back[149]);
	EXPECT_EQ(0, memcmp(self->back + 150, self->host + 150, N - 150));
	OK(npu_memcpy_async(self->back, dev, 0, NPU_COPY_AUTO, self->s));
}

TEST_F(memory, between_devices)
{
	void *other;

	OK(npu_device_set(1));
	OK(npu_malloc(N, 0, &other));
	OK(npu_memcpy(self->dev, self->host, N, NPU_COPY_H2D));
	OK(npu_memcpy(other, self->dev, N, NPU_COPY_D2D));
	OK(npu_memcpy(self->back, other, N, NPU_COPY_AUTO));
	EXPECT_EQ(0, memcmp(self->back, self->host, N));
	OK(npu_memset(self->dev, 0, N));
	OK(npu_memcpy_async(self->dev, other, N, NPU_COPY_AUTO, NPU_STREAM_CURRENT));
	OK(npu_stream_wait_stream(self->s, NPU_STREAM_CURRENT));
	OK(npu_memcpy_async(self->back, self->dev, N, NPU_COPY_AUTO, self->s));
	OK(npu_device_sync_all(5000));
	/* neither side is the stream's device */
	OK(npu_device_set(0));
	EXPECT_EQ(-EXDEV, npu_memcpy_async(other, self->host, N, NPU_COPY_AUTO, self->s));
	EXPECT_EQ(-EXDEV, npu_memset_async(other, 0, N, self->s));
	EXPECT_EQ(-EXDEV, npu_memset_async(other, 0, N, NPU_STREAM_CURRENT));
}

TEST_F(memory, rows)
{
	int x, y;

	OK(npu_memset(self->dev, 0, N));
	OK(npu_memcpy_2d(self->dev, 64, self->host, 100, 48, 10, NPU_COPY_AUTO));
	OK(npu_memcpy(self->back, self->dev, 640, NPU_COPY_AUTO));
	for (y = 0; y < 10; y++)
		for (x = 0; x < 64; x++)
			ASSERT_EQ(x < 48 ? self->host[y * 100 + x] : 0, self->back[y * 64 + x]);
	OK(npu_memcpy_2d_async(self->back, 48, self->dev, 64, 48, 10, NPU_COPY_D2H, self->s));
	OK(npu_stream_sync(self->s, 5000));
	for (y = 0; y < 10; y++)
		ASSERT_EQ(0, memcmp(self->back + y * 48, self->host + y * 100, 48));
	EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->dev, 47, self->host, 100, 48, 10, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->dev, 64, self->host, 47, 48, 10, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->dev, SIZE_MAX / 2, self->host, 100, 48, 10,
					 NPU_COPY_AUTO));
	OK(npu_memcpy_2d(self->dev, 64, self->host, 100, 0, 10, NPU_COPY_AUTO));
}

TEST_F(memory, a_range_that_leaves_its_allocation)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *dev = self->dev;
	size_t n;

	OK(npu_pointer_get_info(self->dev, &i));
	n = i.bytes;
	EXPECT_EQ(-EINVAL, npu_memcpy(dev, self->host, (64 << 20), NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(dev + n - 8, self->host, 64 << 20, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memset(dev + 1, 0, 64 << 20));
	EXPECT_EQ(-EINVAL, npu_memset_async(dev + 1, 0, 64 << 20, self->s));
	EXPECT_EQ(-EINVAL, npu_memcpy_async(dev, self->host, SIZE_MAX, NPU_COPY_AUTO, self->s));
}

TEST_F(memory, kinds_that_contradict)
{
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->host, 8, NPU_COPY_D2H));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->host, 8, NPU_COPY_D2D));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->host, 8, NPU_COPY_H2H));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->host, self->dev, 8, NPU_COPY_H2D));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->host, 8, (enum npu_copy_kind)9));
	EXPECT_EQ(-EINVAL, npu_memcpy(NULL, self->dev, 8, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, NULL, 8, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memset(NULL, 0, 8));
	EXPECT_EQ(-EINVAL, npu_memset((char *)self->pinned + 8, 0, (64 << 20)));
	EXPECT_EQ(-EINVAL, npu_memset(self->host, 0, 8));
	EXPECT_EQ(-EINVAL, npu_memset_async(self->host, 0, 8, self->s));
}

TEST_F(memory, managed)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *m, *n;
	void *p;
	int pinned;

	OK(npu_malloc(N, NPU_MEM_MANAGED, &p));
	m = p;
	OK(npu_malloc(N, NPU_MEM_MANAGED | NPU_MEM_HUGE_FIRST, &p));
	n = p;
	OK(npu_pointer_get_info(m + N - 1, &i));
	EXPECT_EQ(NPU_POINTER_DEVICE, i.kind);
	EXPECT_EQ(NPU_POINTER_MANAGED, i.flags);
	OK(npu_host_is_pinned(m, &pinned));
	EXPECT_EQ(0, pinned);
	EXPECT_EQ(-EEXIST, npu_host_register(m, 4096, 0));
	memcpy(m, self->host, N);
	OK(npu_memcpy_async(self->dev, m, N, NPU_COPY_AUTO, self->s));
	OK(npu_memcpy_async(n, self->dev, N, NPU_COPY_AUTO, self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0, memcmp(n, self->host, N));
	/* either side of it may be meant; of others nothing changes */
	OK(npu_memcpy(self->dev, m, N, NPU_COPY_H2D));
	OK(npu_memcpy(n, self->dev, N, NPU_COPY_D2H));
	OK(npu_memcpy(self->back, m, N, NPU_COPY_H2H));
	OK(npu_memcpy(self->back, m, N, NPU_COPY_D2H));
	OK(npu_memcpy(m, self->host, N, NPU_COPY_H2H));
	OK(npu_memcpy(m, n, N, NPU_COPY_D2D));
	OK(npu_memcpy_async(n, m, N, NPU_COPY_H2H, self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0, memcmp(n, self->host, N));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, m, 8, NPU_COPY_H2H));
	EXPECT_EQ(-EINVAL, npu_memcpy(m, self->host, 8, NPU_COPY_D2D));
	EXPECT_EQ(-EINVAL, npu_memcpy(m, self->dev, 8, NPU_COPY_H2D));
	EXPECT_EQ(-EINVAL, npu_memcpy(m, m + 8, 64, NPU_COPY_H2H));
	OK(npu_memset(m, 3, N));
	EXPECT_EQ(3, m[N - 1]);
	OK(npu_free(m));
	EXPECT_EQ(-EINVAL, npu_free(m));
	OK(npu_pointer_get_info(m, &i));
	EXPECT_EQ(NPU_POINTER_UNKNOWN, i.kind);
	EXPECT_EQ(-EINVAL, npu_malloc_host(8, NPU_MEM_MANAGED, &p));
}

TEST(a_part_without_managed_memory)
{
	void *p = &p;

	OK(npu_option_set("simnpu_part", "310p"));
	EXPECT_EQ(-EOPNOTSUPP, npu_malloc(8, NPU_MEM_MANAGED, &p));
	EXPECT_EQ(NULL, p);
	OK(npu_malloc(8, 0, &p));
	OK(npu_finalize(5000));
}

TEST_F(memory, pointers)
{
	struct npu_pointer_info i;
	struct npu_device_info d = { .size = sizeof(d) };

	memset(&i, 0, sizeof(i));
	i.size = sizeof(i);
	OK(npu_pointer_get_info((char *)self->dev + 10, &i));
	EXPECT_EQ(NPU_POINTER_DEVICE, i.kind);
	EXPECT_EQ(self->dev, i.base);
	EXPECT_GE(i.bytes, N);
	EXPECT_EQ(0, i.device);
	OK(npu_device_get_info(0, &d));
	EXPECT_EQ(0, (uintptr_t)self->dev % d.mem_align);
	OK(npu_pointer_get_info(self->pinned, &i));
	EXPECT_EQ(NPU_POINTER_HOST, i.kind);
	OK(npu_pointer_get_info(self->host, &i));
	EXPECT_EQ(NPU_POINTER_UNKNOWN, i.kind);
	EXPECT_EQ(NULL, i.base);
	EXPECT_EQ(-1, i.device);
	OK(npu_pointer_get_info(NULL, &i));
	EXPECT_EQ(NPU_POINTER_UNKNOWN, i.kind);
	OK(npu_pointer_get_info((void *)UINTPTR_MAX, &i));
	EXPECT_EQ(-EINVAL, npu_pointer_get_info(self->dev, NULL));
	i.size = 0;
	EXPECT_EQ(-EINVAL, npu_pointer_get_info(self->dev, &i));
}

TEST_F(memory, freeing)
{
	void *p = self, *q;

	OK(npu_malloc(0, 0, &p));
	EXPECT_EQ(NULL, p);
	OK(npu_free(NULL));
	OK(npu_free_host(NULL));
	OK(npu_malloc(1000, 0, &p));
	EXPECT_EQ(-EINVAL, npu_free((char *)p + 8));
	EXPECT_EQ(-EINVAL, npu_free_host(p));
	EXPECT_EQ(-EINVAL, npu_free(self->pinned));
	EXPECT_EQ(-EINVAL, npu_free(self->host));
	OK(npu_free(p));
	EXPECT_EQ(-EINVAL, npu_free(p));
	OK(npu_malloc_host(0, 0, &q));
	EXPECT_EQ(NULL, q);
	OK(npu_free_host(self->pinned));
	EXPECT_EQ(-EINVAL, npu_free_host(self->pinned));
	EXPECT_EQ(-EINVAL, npu_malloc(8, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_malloc(8, 1u << 31, &p));
	EXPECT_EQ(-EINVAL, npu_malloc_host(8, 1, &p));
	EXPECT_EQ(-EINVAL, npu_malloc_host(8, 0, NULL));
}

TEST_F(memory, more_than_there_is)
{
	size_t before, after;
	void *p = self;

	OK(npu_device_mem_info(0, &before, NULL));
	EXPECT_EQ(-ENOMEM, npu_malloc((size_t)1 << 60, 0, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-ENOMEM, npu_malloc(SIZE_MAX, 0, &p));
	OK(npu_device_mem_info(0, &after, NULL));
	EXPECT_EQ(before, after);
	OK(npu_malloc(4096, 0, &p));
	OK(npu_free(p));
}

TEST_F(memory, registered)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *m;

	m = mmap(NULL, 8 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, m);
	OK(npu_host_register(m, 4 << 12, 0));
	OK(npu_pointer_get_info(m + 5, &i));
	EXPECT_EQ(NPU_POINTER_REGISTERED, i.kind);
	EXPECT_EQ(-EEXIST, npu_host_register(m + 4096, 4096, 0));
	OK(npu_memcpy_async(m, self->dev, 4096, NPU_COPY_AUTO, self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(-EINVAL, npu_host_unregister(m + 4096));
	OK(npu_host_unregister(m));
	EXPECT_EQ(-EINVAL, npu_host_unregister(m));
	EXPECT_EQ(-EINVAL, npu_host_register(NULL, 4096, 0));
	EXPECT_EQ(-EINVAL, npu_host_register(m, 0, 0));
	EXPECT_EQ(-EINVAL, npu_host_register(m, 4096, 1));
	EXPECT_EQ(-EINVAL, npu_host_unregister(NULL));
	munmap(m, 8 << 12);
}

TEST_F(memory, freed_with_the_library)
{
	void *p;

	OK(npu_finalize(5000));
	EXPECT_EQ(-EINVAL, npu_free(self->dev));
	EXPECT_EQ(-EINVAL, npu_free_host(self->pinned));
	OK(npu_malloc(64, 0, &p));
}

/* ---- when host memory is read and written ---- */

FIXTURE(turn) {
	unsigned char *mem;
	unsigned char *host;
	unsigned char back[N];
	unsigned char *dev;
	npu_stream s;
	struct gate gate;
};

FIXTURE_VARIANT(turn) {
	int pinned;
};

FIXTURE_VARIANT_ADD(turn, ordinary) {
	.pinned = 0,
};

FIXTURE_VARIANT_ADD(turn, from_the_library) {
	.pinned = 1,
};

FIXTURE_VARIANT_ADD(turn, registered) {
	.pinned = 2,
};

FIXTURE_SETUP(turn)
{
	self->mem = malloc(N);
	ASSERT_NE(NULL, self->mem);
	self->host = self->mem;
	if (variant->pinned == 1)
		OK(npu_malloc_host(N, 0, (void **)&self->host));
	if (variant->pinned == 2)
		OK(npu_host_register(self->host, N, 0));
	OK(npu_malloc(N, 0, (void **)&self->dev));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_callback(self->s, gate_hold, &self->gate, 0));
}

FIXTURE_TEARDOWN(turn)
{
	atomic_store(&self->gate.open, 1);
	EXPECT_EQ(0, npu_finalize(5000));
	free(self->mem);
}

static bool all_are(const unsigned char *p, int value, size_t n)
{
	return p[0] == value && !memcmp(p, p + 1, n - 1);
}

/* The call waits for nothing; and nothing is written before it is the copy's turn. */
TEST_F(turn, to_the_device)
{
	OK(npu_memset(self->dev, 1, N));
	memset(self->host, 2, N);
	OK(npu_memcpy_async(self->dev, self->host, N / 2, NPU_COPY_H2D, self->s));
	OK(npu_memcpy_2d_async(self->dev + N / 2, 100, self->host, 100, 100, N / 200, NPU_COPY_H2D,
			       self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(self->s, 0));
	OK(npu_memcpy(self->back, self->dev, N, NPU_COPY_D2H));
	EXPECT_TRUE(all_are(self->back, 1, N));
	atomic_store(&self->gate.open, 1);
	OK(npu_stream_sync(self->s, 60000));
	/* from then on it is the program's */
	memset(self->host, 3, N);
	OK(npu_memcpy(self->back, self->dev, N, NPU_COPY_D2H));
	EXPECT_TRUE(all_are(self->back, 2, N));
}

TEST_F(turn, to_the_host)
{
	OK(npu_memset(self->dev, 1, N));
	memset(self->host, 2, N);
	OK(npu_memcpy_async(self->host, self->dev, N / 2, NPU_COPY_D2H, self->s));
	OK(npu_memcpy_2d_async(self->host + N / 2, 100, self->dev, 100, 100, N / 200, NPU_COPY_D2H,
			       self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(self->s, 0));
	EXPECT_TRUE(all_are(self->host, 2, N));
	/* what is copied is what is there when it is its turn */
	OK(npu_memset(self->dev, 3, N));
	EXPECT_TRUE(all_are(self->host, 2, N));
	atomic_store(&self->gate.open, 1);
	OK(npu_stream_sync(self->s, 60000));
	EXPECT_TRUE(all_are(self->host, 3, N));
}

/* Done when it returns, whatever streams do. */
TEST_F(turn, at_once)
{
	memset(self->host, 4, N);
	OK(npu_memcpy(self->dev, self->host, N, NPU_COPY_H2D));
	memset(self->host, 5, N);
	OK(npu_memcpy(self->back, self->dev, N, NPU_COPY_D2H));
	EXPECT_TRUE(all_are(self->back, 4, N));
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_D2H));
	EXPECT_TRUE(all_are(self->host, 4, N));
	EXPECT_EQ(0, atomic_load(&self->gate.left));
}

/* ---- to the byte, and afterwards ---- */

TEST(a_kernel_reaches_no_further_than_was_asked_for)
{
	struct npu_simnpu_inc_args a = { .by = 1 };
	npu_kernel inc = builtin_kernel("inc_u64");
	npu_stream s;
	void *p;

	OK(npu_stream_create(NULL, &s));
	OK(npu_malloc(20, 0, &p));
	OK(npu_memset(p, 0, 20));
	a.addr = (uintptr_t)p + 8;
	OK(npu_launch(inc, 1, &a, sizeof(a), s));
	OK(npu_stream_sync(s, NPU_WAIT_FOREVER));
	a.addr = (uintptr_t)p + 16;	/* four bytes are left */
	OK(npu_launch(inc, 1, &a, sizeof(a), s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(s, NPU_WAIT_FOREVER));
	OK(npu_finalize(5000));
}

TEST(a_pointer_ends_where_its_memory_ends)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *p;

	OK(npu_malloc(20, 0, (void **)&p));
	OK(npu_pointer_get_info(p + 19, &i));
	EXPECT_EQ(NPU_POINTER_DEVICE, i.kind);
	EXPECT_EQ(20, i.bytes);
	OK(npu_pointer_get_info(p + 20, &i));
	EXPECT_EQ(NPU_POINTER_UNKNOWN, i.kind);
	OK(npu_finalize(5000));
}

static void poll_all(void *arg)
{
	int *rc = arg;

	rc[0] = npu_device_sync(0, 0);
	rc[1] = npu_device_sync_all(0);
	rc[2] = npu_device_sync(0, 1);
}

/* A poll does not block, so a callback may. */
TEST(polls_in_a_callback)
{
	int rc[3] = { 1, 1, 1 };
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_callback(s, poll_all, rc, 0));
	OK(npu_stream_sync(s, NPU_WAIT_FOREVER));
	EXPECT_EQ(-ETIMEDOUT, rc[0]);
	EXPECT_EQ(-ETIMEDOUT, rc[1]);
	EXPECT_EQ(-EDEADLK, rc[2]);
	OK(npu_finalize(5000));
}

/* What is left over from a device is no host memory. */
TEST(pointers_of_a_device_that_was_closed)
{
	char b[64] = { 0 };
	void *p;

	OK(npu_malloc(64, 0, &p));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(-EINVAL, npu_memcpy(p, b, 64, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(b, p, 64, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy_async(p, b, 64, NPU_COPY_AUTO, NPU_STREAM_CURRENT));
	OK(npu_finalize(5000));
	OK(npu_init());
	EXPECT_EQ(-EINVAL, npu_memcpy(p, b, 64, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(b, p, 64, NPU_COPY_AUTO));
	OK(npu_finalize(5000));
}

TEST_HARNESS_MAIN
