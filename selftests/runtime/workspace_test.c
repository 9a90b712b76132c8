// SPDX-License-Identifier: GPL-2.0-only
/*
 * Workspaces of streams.
 */
#include "selftests/npu_kselftest.h"

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)

static struct npu_workspace_stats spaces(int device)
{
	struct npu_workspace_stats s = { .size = sizeof(s) };

	if (npu_workspace_get_stats(device, &s))
		abort();
	return s;
}

static struct npu_mem_stats cache(int device)
{
	struct npu_mem_stats s = { .size = sizeof(s) };

	if (npu_mem_get_stats(device, &s))
		abort();
	return s;
}

FIXTURE(space) {
	npu_stream s, other;
};

FIXTURE_SETUP(space)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
}

FIXTURE_TEARDOWN(space)
{
	simnpu_fault_clear();
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(space, is_the_streams)
{
	void *p, *q, *r;

	OK(npu_workspace_get(self->s, 1000, &p));
	OK(npu_memset_async(p, 1, 1000, self->s));
	OK(npu_workspace_put(self->s));
	OK(npu_workspace_get(self->s, 10, &q));
	EXPECT_EQ(p, q);
	OK(npu_workspace_get(self->other, 10, &r));
	EXPECT_NE(p, r);
	EXPECT_EQ(2, spaces(0).spaces);
	EXPECT_EQ(2, spaces(0).in_use);
	OK(npu_workspace_put(self->s));
	OK(npu_workspace_put(self->other));
	EXPECT_EQ(0, spaces(0).in_use);
	EXPECT_EQ(1010, spaces(0).bytes.current);
	OK(npu_workspace_trim(NPU_DEVICE_CURRENT));
	EXPECT_EQ(0, spaces(0).spaces);
	EXPECT_EQ(0, spaces(0).bytes.current);
	EXPECT_EQ(1010, spaces(0).bytes.freed);
	EXPECT_EQ(1010, spaces(0).bytes.peak);
	EXPECT_EQ(0, cache(0).allocation[NPU_MEM_ALL].current);
	OK(npu_stream_sync(self->s, 5000));
}

/* Who has the old one keeps it; it goes when nobody uses the workspace. */
TEST_F(space, grows)
{
	void *p, *q, *r;

	OK(npu_workspace_get(self->s, 1000, &p));
	OK(npu_workspace_get(self->s, 3 * MIB, &q));
	EXPECT_NE(p, q);
	OK(npu_memset_async(p, 1, 1000, self->s));
	OK(npu_memset_async(q, 1, 3 * MIB, self->s));
	EXPECT_EQ(2, cache(0).allocation[NPU_MEM_ALL].current);
	OK(npu_workspace_put(self->s));
	EXPECT_EQ(2, cache(0).allocation[NPU_MEM_ALL].current);
	OK(npu_workspace_put(self->s));
	EXPECT_EQ(1, cache(0).allocation[NPU_MEM_ALL].current);
	EXPECT_EQ(4 * MIB, spaces(0).bytes.current);
	/* up to what it was rounded to */
	OK(npu_workspace_get(self->s, 4 * MIB, &r));
	EXPECT_EQ(q, r);
	OK(npu_workspace_put(self->s));
	/* unused, it goes at once */
	OK(npu_workspace_get(self->s, 5 * MIB, &r));
	EXPECT_EQ(1, cache(0).allocation[NPU_MEM_ALL].current);
	/* in use it is not trimmed */
	OK(npu_workspace_trim(0));
	EXPECT_EQ(1, spaces(0).spaces);
	OK(npu_workspace_put(self->s));
	OK(npu_stream_sync(self->s, 5000));
}

TEST_F(space, is_kept_when_there_is_no_more)
{
	size_t total;
	void *p, *q;

	OK(npu_device_mem_info(0, NULL, &total));
	OK(npu_workspace_get(self->s, MIB, &p));
	EXPECT_EQ(-ENOMEM, npu_workspace_get(self->s, total + MIB, &q));
	EXPECT_EQ(NULL, q);
	EXPECT_EQ(-ENOMEM, last_error().code);
	EXPECT_EQ(1, spaces(0).in_use);
	OK(npu_workspace_get(self->s, MIB, &q));
	EXPECT_EQ(p, q);
	OK(npu_memset(p, 1, MIB));
	OK(npu_workspace_put(self->s));
	OK(npu_workspace_put(self->s));
	EXPECT_EQ(-ENOMEM, npu_workspace_get(self->s, SIZE_MAX, &q));
}

/* What is not in use makes way when the device is full. */
TEST_F(space, gives_way)
{
	struct npu_mem_stats s;
	size_t total;
	void *p, *q;

	OK(npu_device_mem_info(0, NULL, &total));
	OK(npu_mem_set_fraction(0, 128.0 * MIB / (double)total));
	OK(npu_workspace_get(self->s, 64 * MIB, &p));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(100 * MIB, self->other, &q));
	EXPECT_EQ(0, cache(0).rescued_workspace);
	EXPECT_EQ(1, spaces(0).spaces);
	OK(npu_workspace_put(self->s));
	OK(npu_mem_alloc(100 * MIB, self->other, &q));
	s = cache(0);
	EXPECT_EQ(64 * MIB, s.rescued_workspace);
	EXPECT_EQ(0, spaces(0).spaces);
	OK(npu_mem_free(q));
	OK(npu_workspace_get(self->s, 64 * MIB, &p));
	OK(npu_workspace_put(self->s));
}

TEST_F(space, misuse)
{
	struct npu_workspace_stats none = { .size = 0 };
	npu_stream s;
	void *p;

	EXPECT_EQ(-EINVAL, npu_workspace_put(self->s));
	EXPECT_EQ(-EINVAL, npu_workspace_get(self->s, 10, NULL));
	EXPECT_EQ(-EINVAL, npu_workspace_get(self->s, 0, &p));
	EXPECT_EQ(-EBADF, npu_workspace_get((npu_stream){ 5 }, 10, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-EBADF, npu_workspace_put((npu_stream){ 5 }));
	OK(npu_workspace_get(self->s, 10, &p));
	OK(npu_workspace_put(self->s));
	EXPECT_EQ(-EINVAL, npu_workspace_put(self->s));
	EXPECT_EQ(-ENODEV, npu_workspace_trim(2));
	EXPECT_EQ(-EINVAL, npu_workspace_get_stats(0, NULL));
	EXPECT_EQ(-EINVAL, npu_workspace_get_stats(0, &none));
	EXPECT_EQ(-ENODEV, npu_workspace_get_stats(2, &none));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_destroy(s, 5000));
	EXPECT_EQ(-ESTALE, npu_workspace_get(s, 10, &p));
	EXPECT_EQ(-ESTALE, npu_workspace_put(s));
}

/* They go with their stream, put or not, and with their device. */
TEST_F(space, goes)
{
	npu_stream s;
	void *p;
	int i;

	for (i = 0; i < 40; i++) {
		OK(npu_stream_create(NULL, &s));
		OK(npu_workspace_get(s, 1000, &p));
		if (i & 1)
			OK(npu_workspace_put(s));
		OK(npu_stream_destroy(s, 5000));
	}
	EXPECT_GE(2, spaces(0).spaces);
	OK(npu_workspace_get(self->s, 1000, &p));
	OK(npu_workspace_trim(0));
	EXPECT_EQ(1, spaces(0).spaces);
	EXPECT_EQ(1, cache(0).allocation[NPU_MEM_ALL].current);
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(0, spaces(0).spaces);
	EXPECT_EQ(0, spaces(0).bytes.current);
	EXPECT_EQ(spaces(0).bytes.allocated, spaces(0).bytes.freed);
	EXPECT_EQ(0, is_open(0));
	OK(npu_workspace_get(NPU_STREAM_CURRENT, 1000, &p));
	OK(npu_memset(p, 1, 1000));
	OK(npu_workspace_put(NPU_STREAM_CURRENT));
}

#define THREADS 4

static npu_stream shared;

static void *get_and_put(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	size_t size;
	void *p;
	int i;

	for (i = 0; i < 500; i++) {
		size = 1 + (size_t)rand_r(&seed) % (4 * MIB);
		if (npu_workspace_get(shared, size, &p) ||
		    npu_memset_async(p, i, size, shared) || npu_workspace_put(shared))
			return arg;
		if (i % 50 == 0 && npu_workspace_trim(0))
			return arg;
	}
	return NULL;
}

TEST_F(space, threads)
{
	pthread_t t[THREADS];
	uintptr_t i;
	void *rc;

	shared = self->s;
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, get_and_put, (void *)(i + 1)));
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], &rc);
		EXPECT_EQ(NULL, rc);
	}
	OK(npu_stream_sync(self->s, 60000));
	EXPECT_GE(1, spaces(0).spaces);
	EXPECT_EQ(0, spaces(0).in_use);
	OK(npu_workspace_trim(0));
	EXPECT_EQ(0, cache(0).allocation[NPU_MEM_ALL].current);
}

TEST_HARNESS_MAIN
