// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools of streams: shared in turn, and leased.
 */
#include "selftests/npu_kselftest.h"

#include "hal/handle.h"
#include "selftests/runtime/rt_test.h"

FIXTURE(pool) {
};

FIXTURE_SETUP(pool)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_STREAM_LEASE_MAX", "4", 1);
}

FIXTURE_TEARDOWN(pool)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(pool, in_turn)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	npu_stream s[64], high;
	uint32_t n;
	int i, j;

	for (i = 0; i < 64; i++)
		OK(npu_stream_pool_get(0, 4, &s[i]));
	for (i = 0; i < 32; i++) {
		EXPECT_EQ(s[i].h, s[i + 32].h);
		for (j = 0; j < i; j++)
			EXPECT_NE(s[i].h, s[j].h);
	}
	n = hal_handle_count(HAL_HANDLE_STREAM);
	OK(npu_stream_pool_get(0, 0, &high));
	EXPECT_EQ(n + 1, hal_handle_count(HAL_HANDLE_STREAM));
	OK(npu_stream_get_info(high, &info));
	EXPECT_EQ(0, info.priority);
	EXPECT_EQ(NPU_STREAM_KIND_POOL, info.kind);
	EXPECT_EQ(-EBUSY, npu_stream_destroy(high, 0));
	EXPECT_EQ(-EINVAL, npu_stream_release(high));
}

TEST_F(pool, filled_when_needed)
{
	npu_stream s;

	OK(npu_init());
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_STREAM));
	OK(npu_stream_pool_get(1, 4, &s));
	EXPECT_EQ(1, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_EQ(0, is_open(0));
	EXPECT_EQ(-ENODEV, npu_stream_pool_get(2, 4, &s));
	EXPECT_EQ(0, s.h);
	EXPECT_EQ(-EINVAL, npu_stream_pool_get(0, 8, &s));
	EXPECT_EQ(-EINVAL, npu_stream_pool_get(0, -1, &s));
	EXPECT_EQ(-EINVAL, npu_stream_pool_get(0, 4, NULL));
	OK(npu_device_set(1));
	OK(npu_stream_pool_get(NPU_DEVICE_CURRENT, 4, &s));
	EXPECT_EQ(0, is_open(0));
}

TEST_F(pool, new_after_reset)
{
	npu_stream a, b;
	int i;

	OK(npu_stream_pool_get(0, 4, &a));
	OK(npu_device_reset(0, 1000));
	EXPECT_EQ(-ESTALE, npu_stream_query(a));
	for (i = 0; i < 40; i++) {
		OK(npu_stream_pool_get(0, 4, &b));
		OK(npu_stream_query(b));
	}
}

static void *get_many(void *arg)
{
	npu_stream s;
	long bad = 0;
	int i;

	for (i = 0; i < 1000; i++)
		bad += npu_stream_pool_get(0, i % 8, &s) || npu_stream_query(s);
	return (void *)bad;
}

TEST_F(pool, threads)
{
	pthread_t th[8];
	void *bad;
	int i;

	for (i = 0; i < 8; i++)
		OK(pthread_create(&th[i], NULL, get_many, NULL));
	for (i = 0; i < 8; i++) {
		pthread_join(th[i], &bad);
		EXPECT_EQ(0, (long)bad);
	}
	EXPECT_EQ(8 * 32, hal_handle_count(HAL_HANDLE_STREAM));
}

/* ---- leases ------------------------------------------------------------------------------ */

TEST_F(pool, lease)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	npu_stream a, b;

	OK(npu_stream_lease(0, 2, &a));
	OK(npu_stream_get_info(a, &info));
	EXPECT_EQ(NPU_STREAM_KIND_LEASED, info.kind);
	EXPECT_EQ(2, info.priority);
	EXPECT_EQ(-EBUSY, npu_stream_destroy(a, 0));
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, a));
	OK(npu_stream_sync(a, 5000));
	OK(npu_stream_release(a));
	/* stale at once, though the stream is there still */
	EXPECT_EQ(1, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_EQ(-ESTALE, npu_stream_query(a));
	EXPECT_EQ(-ESTALE, npu_stream_release(a));
	EXPECT_EQ(-ESTALE, npu_stream_set_current(a));
	EXPECT_EQ(-ESTALE, npu_launch(builtin_kernel("nop"), 1, NULL, 0, a));
	/* used again under another handle */
	OK(npu_stream_lease(0, 2, &b));
	EXPECT_EQ(1, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_NE(a.h, b.h);
	EXPECT_EQ(-ESTALE, npu_stream_query(a));
	OK(npu_stream_query(b));
}

TEST_F(pool, events_outlive_the_lease)
{
	npu_stream a;
	npu_event e;

	OK(npu_event_create(0, &e));
	OK(npu_stream_lease(0, 4, &a));
	OK(delay(a, 5000000));
	OK(npu_event_record(e, a));
	OK(npu_stream_release(a));
	OK(npu_event_sync(e, 5000));
	OK(npu_event_query(e));
}

TEST_F(pool, leases_are_exclusive_and_bounded)
{
	npu_stream s[5];
	int i, j;

	for (i = 0; i < 4; i++)
		OK(npu_stream_lease(0, 4, &s[i]));
	for (i = 0; i < 4; i++)
		for (j = 0; j < i; j++)
			EXPECT_NE(s[i].h, s[j].h);
	EXPECT_EQ(-ENOSPC, npu_stream_lease(0, 4, &s[4]));
	EXPECT_EQ(0, s[4].h);
	EXPECT_EQ(-ENOSPC, npu_stream_lease(0, 0, &s[4]));
	/* each device has its own */
	OK(npu_stream_lease(1, 4, &s[4]));
	OK(npu_stream_release(s[1]));
	OK(npu_stream_lease(0, 4, &s[1]));
	/* one of another priority makes room */
	OK(npu_stream_release(s[2]));
	OK(npu_stream_lease(0, 0, &s[2]));
	EXPECT_EQ(-ENOSPC, npu_stream_lease(0, 4, &s[4]));
}

/* A stream that is still at work is not handed out; releasing it does not wait. */
TEST_F(pool, busy_ones_rest)
{
	static struct gate g;
	npu_stream a, b, c;

	OK(npu_stream_lease(0, 4, &a));
	OK(npu_stream_callback(a, gate_hold, &g, 0));
	ASSERT_TRUE(seen(&g.entered));
	OK(npu_stream_release(a));
	OK(npu_stream_lease(0, 4, &b));
	OK(npu_stream_query(b));
	EXPECT_EQ(2, hal_handle_count(HAL_HANDLE_STREAM));
	atomic_store(&g.open, 1);
	OK(npu_device_sync(0, 5000));
	OK(npu_stream_lease(0, 4, &c));
	EXPECT_EQ(2, hal_handle_count(HAL_HANDLE_STREAM));
}

/* One that failed is thrown away, told or untold; leasing says nothing of it. */
TEST_F(pool, failed_ones_go)
{
	npu_stream a, b;

	OK(npu_stream_lease(0, 4, &a));
	OK(failing_task(a));
	EXPECT_EQ(-EFAULT, npu_stream_sync(a, 5000));
	OK(npu_stream_release(a));
	npu_error_clear();
	OK(npu_stream_lease(0, 4, &b));
	EXPECT_EQ(1, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_EQ(0, last_error().code);

	OK(failing_task(b));
	while (npu_stream_query(b) == -EINPROGRESS)
		usleep(100);
	OK(npu_stream_release(b));
	npu_error_clear();
	OK(npu_stream_lease(0, 4, &a));
	OK(npu_stream_query(a));
	EXPECT_EQ(1, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_EQ(0, last_error().code);
}

TEST_F(pool, lease_misuse)
{
	npu_stream own, s;

	OK(npu_stream_create(NULL, &own));
	EXPECT_EQ(-EINVAL, npu_stream_release(own));
	EXPECT_EQ(-EINVAL, npu_stream_release(NPU_STREAM_CURRENT));
	EXPECT_EQ(-EINVAL, npu_stream_lease(0, 4, NULL));
	EXPECT_EQ(-EINVAL, npu_stream_lease(0, 9, &s));
	EXPECT_EQ(-ENODEV, npu_stream_lease(-4, 0, &s));
	OK(npu_stream_lease(1, 4, &s));
	OK(npu_device_reset(1, 1000));
	EXPECT_EQ(-ESTALE, npu_stream_release(s));
}

static void *lease_many(void *arg)
{
	npu_stream s;
	long bad = 0;
	int i, err;

	for (i = 0; i < 300; i++) {
		err = npu_stream_lease(0, 4, &s);
		if (err == -ENOSPC)
			continue;
		bad += err || npu_launch(builtin_kernel("nop"), 1, NULL, 0, s) ||
		       npu_stream_sync(s, 5000) || npu_stream_release(s);
	}
	return (void *)bad;
}

TEST_F(pool, lease_threads)
{
	pthread_t th[6];
	void *bad;
	int i;

	for (i = 0; i < 6; i++)
		OK(pthread_create(&th[i], NULL, lease_many, NULL));
	for (i = 0; i < 6; i++) {
		pthread_join(th[i], &bad);
		EXPECT_EQ(0, (long)bad);
	}
	EXPECT_LE(hal_handle_count(HAL_HANDLE_STREAM), 4);
}

TEST_HARNESS_MAIN
