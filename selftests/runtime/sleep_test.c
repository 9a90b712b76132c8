// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cache of device memory sleeps and wakes up.
 */
#include "selftests/npu_kselftest.h"

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#define BLOCKS 6
#define LONG_MS 20000

FIXTURE(sleep) {
	npu_stream s;
	unsigned char *p[BLOCKS];
	unsigned char host[4096];
	uint64_t base;
};

static const size_t sizes[BLOCKS] = { 600, 100000, 3 << 20, 1 << 20, 5 << 20, 4096 };

static uint64_t used(void)
{
	struct simnpu_test_device d;

	return simnpu_test_device(0, &d) ? d.mem_used : 0;
}

/* Bytes of a block differ from those of another one, at both ends. */
static int fill(unsigned char *const *p)
{
	int i, err = 0;

	for (i = 0; i < BLOCKS && !err; i++)
		err = p[i] ? npu_memset(p[i], 17 * i + 1, sizes[i]) : 0;
	return err;
}

static int is_filled(unsigned char *p, int i)
{
	unsigned char a = 0, b = 0;

	return !npu_memcpy(&a, p, 1, NPU_COPY_D2H) &&
	       !npu_memcpy(&b, p + sizes[i] - 1, 1, NPU_COPY_D2H) &&
	       a == 17 * i + 1 && b == 17 * i + 1;
}

FIXTURE_SETUP(sleep)
{
	int i;

	OK(npu_option_set("simnpu_devices", "2"));
	OK(npu_option_set("simnpu_memory", "64M"));
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	self->base = used();
	for (i = 0; i < BLOCKS; i++)
		OK(npu_mem_alloc(sizes[i], self->s, (void **)&self->p[i]));
	OK(fill(self->p));
}

FIXTURE_TEARDOWN(sleep)
{
	simnpu_fault_clear();
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(sleep, and_wake)
{
	uint64_t before = used();
	void *q;
	int i;

	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	EXPECT_EQ(self->base, used());
	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	/* nothing is there, nothing to be had */
	EXPECT_EQ(-EINVAL, npu_memset(self->p[0], 0, 1));
	EXPECT_EQ(-EBUSY, npu_mem_alloc(100, self->s, &q));
	EXPECT_EQ(NULL, q);
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(self->base, used());
	OK(npu_mem_wake(0));
	OK(npu_mem_wake(0));
	EXPECT_EQ(before, used());
	for (i = 0; i < BLOCKS; i++)
		EXPECT_TRUE(is_filled(self->p[i], i));
	OK(npu_mem_alloc(100, self->s, &q));
	OK(npu_mem_free(q));
}

TEST_F(sleep, frees_while_it_sleeps)
{
	struct npu_mem_stats st = { .size = sizeof(st) };
	int i;

	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	for (i = 0; i < BLOCKS; i += 2)
		OK(npu_mem_free(self->p[i]));
	EXPECT_EQ(-EINVAL, npu_mem_free(self->p[0]));
	OK(npu_mem_wake(0));
	for (i = 1; i < BLOCKS; i += 2) {
		EXPECT_TRUE(is_filled(self->p[i], i));
		OK(npu_mem_free(self->p[i]));
	}
	OK(npu_mem_empty_cache(0));
	OK(npu_mem_get_stats(0, &st));
	EXPECT_EQ(0, st.reserved_bytes[NPU_MEM_ALL].current);
	EXPECT_EQ(self->base, used());
}

TEST_F(sleep, what_is_dropped)
{
	const uint32_t drop[] = { 7, 9 };

	EXPECT_EQ(-EINVAL, npu_mem_set_tag(self->p[0], NPU_MEM_TAG_MAX + 1));
	EXPECT_EQ(-EINVAL, npu_mem_set_tag(self->p[0] + 1, 7));
	EXPECT_EQ(-EINVAL, npu_mem_set_tag(self, 7));
	OK(npu_mem_set_tag(self->p[2], 7));
	OK(npu_mem_set_tag(self->p[4], 8));
	OK(npu_mem_sleep(0, drop, 2, LONG_MS));
	OK(npu_mem_wake(0));
	EXPECT_FALSE(is_filled(self->p[2], 2));
	EXPECT_TRUE(is_filled(self->p[0], 0));
	EXPECT_TRUE(is_filled(self->p[4], 4));
	/* a tag goes with its block */
	OK(npu_mem_free(self->p[2]));
	OK(npu_mem_alloc(sizes[2], self->s, (void **)&self->p[2]));
	OK(fill(self->p));
	OK(npu_mem_sleep(0, drop, 2, LONG_MS));
	OK(npu_mem_wake(0));
	EXPECT_TRUE(is_filled(self->p[2], 2));
}

TEST_F(sleep, work_is_done_first)
{
	struct gate g = { 0 };

	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_memset_async(self->p[1], 18, sizes[1], self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_mem_sleep(0, NULL, 0, 20));
	OK(npu_memset(self->p[0], 1, 1));
	atomic_store(&g.open, 1);
	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	OK(npu_mem_wake(0));
	EXPECT_TRUE(is_filled(self->p[1], 1));
}

TEST_F(sleep, freed_blocks_of_other_devices)
{
	struct gate g = { 0 };
	npu_stream other;
	void *q;

	OK(npu_stream_default(1, &other));
	OK(npu_stream_callback(other, gate_hold, &g, 0));
	OK(npu_mem_record_stream(self->p[0], other));
	OK(npu_mem_free(self->p[0]));
	EXPECT_EQ(-ETIMEDOUT, npu_mem_sleep(0, NULL, 0, 20));
	OK(npu_mem_alloc(100, self->s, &q));
	atomic_store(&g.open, 1);
	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	OK(npu_mem_wake(0));
	EXPECT_TRUE(is_filled(self->p[1], 1));
}

TEST_F(sleep, wake_without_memory)
{
	size_t fre, k;
	void *all;
	int i;

	for (k = 0; k < 3; k++) {
		OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
		OK(npu_device_mem_info(0, &fre, NULL));
		OK(npu_device_set(0));
		/* room for k pieces */
		OK(npu_malloc(fre - k * (2 << 20), 0, &all));
		EXPECT_EQ(-ENOMEM, npu_mem_wake(0));
		EXPECT_EQ(-EBUSY, npu_mem_alloc(100, self->s, (void **)&self->host));
		OK(npu_free(all));
		EXPECT_EQ(self->base, used());
		OK(npu_mem_wake(0));
		for (i = 0; i < BLOCKS; i++)
			EXPECT_TRUE(is_filled(self->p[i], i));
	}
}

TEST_F(sleep, refused)
{
	const uint32_t bad = NPU_MEM_TAG_MAX + 1;
	void *q;

	EXPECT_EQ(-EINVAL, npu_mem_sleep(0, NULL, 1, LONG_MS));
	EXPECT_EQ(-EINVAL, npu_mem_sleep(0, &bad, 1, LONG_MS));
	EXPECT_EQ(-EINVAL, npu_mem_sleep(0, NULL, 0, -2));
	EXPECT_EQ(-ENODEV, npu_mem_sleep(2, NULL, 0, LONG_MS));
	EXPECT_EQ(-ENODEV, npu_mem_wake(2));
	/* memory that cannot come back to its addresses */
	OK(npu_option_set("mem_caching", "0"));
	OK(npu_mem_alloc(100, self->s, &q));
	OK(npu_option_set("mem_caching", "1"));
	EXPECT_EQ(-EOPNOTSUPP, npu_mem_sleep(0, NULL, 0, LONG_MS));
	EXPECT_TRUE(is_filled(self->p[0], 0));
	OK(npu_mem_free(q));
	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	OK(npu_mem_wake(0));
}

/* What is free in a pool stays there, and so is in the way where it cannot sleep. */
TEST_F(sleep, free_memory_of_a_pool)
{
	npu_mem_pool pool;
	void *q;

	OK(npu_finalize(5000));
	OK(npu_option_set("mem_growable", "0"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_pool_create(0, NULL, &pool));
	OK(npu_mem_pool_begin(pool, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_alloc(100, self->s, &q));
	OK(npu_mem_pool_end(pool, NPU_MEM_POOL_STREAM, self->s));
	EXPECT_EQ(-EOPNOTSUPP, npu_mem_sleep(0, NULL, 0, LONG_MS));
	EXPECT_EQ(NULL, strstr(last_error().hint, "npu_mem_pool_trim()"));
	OK(npu_mem_free(q));
	EXPECT_EQ(-EOPNOTSUPP, npu_mem_sleep(0, NULL, 0, LONG_MS));
	EXPECT_NE(NULL, strstr(last_error().hint, "npu_mem_pool_trim()"));
	OK(npu_mem_pool_trim(pool));
	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	OK(npu_mem_wake(0));
}

TEST_F(sleep, reset_ends_it)
{
	void *q;

	OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
	OK(npu_device_reset(0, LONG_MS));
	OK(npu_mem_wake(0));
	OK(npu_device_set(0));
	OK(npu_mem_alloc(100, NPU_STREAM_CURRENT, &q));
	OK(npu_mem_free(q));
}

TEST_F_TIMEOUT(sleep, many_times, 60)
{
	uint64_t before = used();
	int i;

	for (i = 0; i < 500 / (int)npu_test_slower(); i++) {
		OK(npu_mem_sleep(0, NULL, 0, LONG_MS));
		OK(npu_mem_wake(0));
	}
	EXPECT_EQ(before, used());
	for (i = 0; i < BLOCKS; i++)
		EXPECT_TRUE(is_filled(self->p[i], i));
}

TEST_HARNESS_MAIN
