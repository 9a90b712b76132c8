// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices: questions, the current one of a thread, opening at need, reset.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

FIXTURE(device) {
};

FIXTURE_SETUP(device)
{
	setenv("NPU_SIMNPU_DEVICES", "3", 1);
}

FIXTURE_TEARDOWN(device)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(device, questions_initialise_nothing)
{
	struct npu_device_info info = { .size = sizeof(info) };
	size_t free = 1, total = 2, used = 9;
	int n = 0, d = -7, active = 9, can = 9;
	uint32_t percent = 999;

	OK(npu_device_count(&n));
	EXPECT_EQ(3, n);
	OK(npu_device_get_info(2, &info));
	EXPECT_EQ(2, info.index);
	EXPECT_STREQ("simnpu", info.driver);
	EXPECT_NE('\0', info.name[0]);
	EXPECT_GT(info.cores, 0);
	EXPECT_GT(info.max_streams, 0);
	EXPECT_TRUE(info.caps & NPU_CAP_LAUNCH);
	OK(npu_device_mem_info(1, &free, &total));
	EXPECT_EQ(free, total);
	EXPECT_EQ(info.mem_total, total);
	OK(npu_device_mem_info(1, NULL, NULL));
	OK(npu_device_utilization(0, &percent));
	EXPECT_EQ(0, percent);
	OK(npu_device_can_access_peer(0, 1, &can));
	EXPECT_EQ(1, can);
	OK(npu_device_can_access_peer(1, 1, &can));
	EXPECT_EQ(0, can);
	OK(npu_device_is_active(0, &active));
	EXPECT_EQ(0, active);
	OK(npu_device_get(&d));
	EXPECT_EQ(0, d);
	OK(npu_device_used(NULL, 0, &used));
	EXPECT_EQ(0, used);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST_F(device, count_follows_the_list_until_initialised)
{
	int n;

	OK(npu_device_count(&n));
	EXPECT_EQ(3, n);
	setenv("ASCEND_RT_VISIBLE_DEVICES", "2,0", 1);
	OK(npu_device_count(&n));
	EXPECT_EQ(2, n);
	OK(npu_init());
	setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
	OK(npu_device_count(&n));
	EXPECT_EQ(2, n);
	OK(npu_finalize(1000));
	OK(npu_device_count(&n));
	EXPECT_EQ(1, n);
}

TEST_F(device, listed_in_the_order_of_the_list)
{
	struct npu_device_info info = { .size = sizeof(info) };

	OK(npu_option_set("visible_devices", " 2 , 0 "));
	OK(npu_device_get_info(0, &info));
	EXPECT_EQ(2, info.index);
	OK(npu_device_get_info(1, &info));
	EXPECT_EQ(0, info.index);
	EXPECT_EQ(-ENODEV, npu_device_get_info(2, &info));
	OK(npu_device_set(0));
	OK(npu_device_get_info(0, &info));
	EXPECT_EQ(2, info.index);
}

TEST_F(device, no_device)
{
	npu_stream s;
	int n = 9, d = 9;
	void *p;

	setenv("NPU_VISIBLE_DEVICES", "", 1);
	OK(npu_device_count(&n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(-ENODEV, npu_device_get(&d));
	OK(npu_init());
	EXPECT_EQ(-ENODEV, npu_device_set(0));
	EXPECT_EQ(-ENODEV, npu_malloc(64, 0, &p));
	EXPECT_EQ(-ENODEV, npu_stream_create(NULL, &s));
	EXPECT_EQ(-ENODEV, npu_stream_query(NPU_STREAM_CURRENT));
	EXPECT_EQ(-ENODEV, npu_stream_pool_get(NPU_DEVICE_CURRENT, 4, &s));
	OK(npu_device_sync_all(0));
}

TEST_F(device, info_of_older_programs)
{
	struct npu_device_info info;

	memset(&info, 0x5a, sizeof(info));
	info.size = offsetof(struct npu_device_info, mem_align);
	OK(npu_device_get_info(0, &info));
	EXPECT_NE(0x5a5a5a5a5a5a5a5aull, info.mem_total);
	EXPECT_EQ(0x5a5a5a5a5a5a5a5aull, info.mem_align);
}

TEST_F(device, set_creates_nothing)
{
	int d;

	OK(npu_device_set(2));
	OK(npu_device_get(&d));
	EXPECT_EQ(2, d);
	EXPECT_EQ(0, is_open(2));
	OK(npu_device_set(NPU_DEVICE_CURRENT));
	OK(npu_device_get(&d));
	EXPECT_EQ(2, d);
	EXPECT_EQ(-ENODEV, npu_device_set(3));
	EXPECT_EQ(-ENODEV, npu_device_set(-2));
	EXPECT_EQ(-ENODEV, npu_device_set(INT_MIN));
	OK(npu_device_get(&d));
	EXPECT_EQ(2, d);
}

TEST_F(device, exchange_and_restore)
{
	int old = 9, d;

	OK(npu_device_exchange(1, &old));
	EXPECT_EQ(NPU_DEVICE_CURRENT, old);
	OK(npu_device_exchange(2, &old));
	EXPECT_EQ(1, old);
	OK(npu_device_restore(old));
	OK(npu_device_get(&d));
	EXPECT_EQ(1, d);
	OK(npu_device_restore(NPU_DEVICE_CURRENT));
	OK(npu_device_exchange(NPU_DEVICE_CURRENT, &old));
	EXPECT_EQ(NPU_DEVICE_CURRENT, old);
	EXPECT_EQ(-ENODEV, npu_device_restore(3));
	EXPECT_EQ(-ENODEV, npu_device_restore(-2));
	EXPECT_EQ(0, is_open(0) + is_open(1) + is_open(2));
}

static void *get_device(void *arg)
{
	int d = -5;

	npu_device_get(&d);
	return (void *)(intptr_t)d;
}

static void *set_device(void *arg)
{
	npu_device_set((int)(intptr_t)arg);
	return NULL;
}

static intptr_t in_thread(void *(*fn)(void *), intptr_t arg)
{
	pthread_t th;
	void *rc;

	if (pthread_create(&th, NULL, fn, (void *)arg))
		return -99;
	pthread_join(th, &rc);
	return (intptr_t)rc;
}

TEST_F(device, threads_that_set_none_take_the_first_set)
{
	int d;

	EXPECT_EQ(0, in_thread(get_device, 0));
	OK(npu_device_set(1));
	EXPECT_EQ(1, in_thread(get_device, 0));
	OK(npu_device_set(2));
	EXPECT_EQ(1, in_thread(get_device, 0));
	in_thread(set_device, 0);
	OK(npu_device_get(&d));
	EXPECT_EQ(2, d);
	EXPECT_EQ(1, in_thread(get_device, 0));
	/* another life, another first */
	OK(npu_finalize(1000));
	EXPECT_EQ(0, in_thread(get_device, 0));
	OK(npu_device_get(&d));
	EXPECT_EQ(0, d);
}

static void *work(void *arg)
{
	void *p = NULL, *h = NULL;
	npu_event e;
	intptr_t rc;

	rc = npu_malloc(4096, 0, &p);
	rc = rc ? rc : npu_malloc_host(4096, 0, &h);
	rc = rc ? rc : npu_memcpy(p, h, 4096, NPU_COPY_AUTO);
	rc = rc ? rc : npu_memcpy_async(h, p, 4096, NPU_COPY_AUTO, NPU_STREAM_CURRENT);
	rc = rc ? rc : npu_event_create(0, &e);
	rc = rc ? rc : npu_event_record(e, NPU_STREAM_CURRENT);
	rc = rc ? rc : npu_event_sync(e, 5000);
	rc = rc ? rc : npu_event_destroy(e);
	rc = rc ? rc : npu_free(p);
	rc = rc ? rc : npu_free_host(h);
	return (void *)rc;
}

TEST_F(device, helpers_never_wake_device_0)
{
	size_t n;
	int list[3] = { -1, -1, -1 }, d;

	OK(npu_device_set(1));
	EXPECT_EQ(0, in_thread(work, 0));
	EXPECT_EQ(0, (intptr_t)work(NULL));
	OK(npu_device_used(list, 3, &n));
	EXPECT_EQ(1, n);
	EXPECT_EQ(1, list[0]);
	EXPECT_EQ(0, is_open(0));
	OK(npu_device_get(&d));
	EXPECT_EQ(1, d);
	OK(npu_device_sync_all(5000));
	EXPECT_EQ(0, is_open(0));
}

TEST_F(device, pinned_memory_leaves_the_device_alone)
{
	void *h;
	int d;

	OK(npu_device_set(1));
	in_thread(set_device, 0);
	OK(npu_malloc_host(4096, 0, &h));
	OK(npu_device_get(&d));
	EXPECT_EQ(1, d);
	EXPECT_EQ(0, is_open(0));
	OK(npu_free_host(h));
}

static void *fill_pointer(void *arg)
{
	return (void *)(intptr_t)npu_memset_async(arg, 1, 64, NPU_STREAM_CURRENT);
}

TEST_F(device, pointer_decides_where_none_is_set)
{
	int old;
	void *p;

	OK(npu_device_exchange(2, &old));
	OK(npu_malloc(64, 0, &p));
	/* the first set in the process is 2, but there is a pointer of 1 */
	OK(npu_device_set(1));
	OK(npu_free(p));
	OK(npu_malloc(64, 0, &p));
	EXPECT_EQ(0, in_thread(fill_pointer, (intptr_t)p));
	OK(npu_device_sync(1, 5000));
	EXPECT_EQ(0, is_open(0));
}

TEST_F(device, used_list)
{
	int list[2] = { -1, -1 };
	npu_context c;
	size_t n;

	OK(npu_context_primary(2, &c));
	OK(npu_context_primary(0, &c));
	OK(npu_device_used(list, 1, &n));
	EXPECT_EQ(2, n);
	EXPECT_EQ(0, list[0]);
	EXPECT_EQ(-1, list[1]);
	OK(npu_device_used(list, 2, &n));
	EXPECT_EQ(2, list[1]);
}

TEST_F(device, mem_info_follows)
{
	size_t before, after, total, again;
	void *p;

	OK(npu_device_set(1));
	OK(npu_malloc(64, 0, &p));
	OK(npu_device_mem_info(1, &before, &total));
	OK(npu_free(p));
	OK(npu_malloc(32 << 20, 0, &p));
	OK(npu_device_set(0));
	OK(npu_device_mem_info(1, &after, &again));
	EXPECT_EQ(total, again);
	EXPECT_GE(before, after + (31 << 20));
	OK(npu_free(p));
}

TEST_F(device, sync)
{
	static struct gate g;
	npu_stream s, t;
	npu_context c;

	OK(npu_device_sync(0, 0));
	EXPECT_EQ(0, is_open(0));
	OK(npu_stream_create(NULL, &s));
	OK(npu_context_create(0, &c));
	OK(npu_context_set(c));
	OK(npu_stream_create(NULL, &t));
	OK(npu_stream_callback(t, gate_hold, &g, 0));
	ASSERT_TRUE(seen(&g.entered));
	EXPECT_EQ(-ETIMEDOUT, npu_device_sync(0, 20));
	EXPECT_EQ(-ETIMEDOUT, npu_device_sync(0, 0));
	EXPECT_EQ(-ETIMEDOUT, npu_device_sync_all(20));
	EXPECT_EQ(-ETIMEDOUT, npu_context_sync(c, 0));
	EXPECT_EQ(-EINVAL, npu_device_sync(0, -3));
	EXPECT_EQ(-EINVAL, npu_device_sync_all(-3));
	OK(npu_device_sync(1, 0));
	atomic_store(&g.open, 1);
	OK(npu_device_sync(0, NPU_WAIT_FOREVER));
	OK(npu_device_sync_all(0));
}

/* The first failure is reported, once, after all have been waited for. */
TEST_F(device, sync_reports_failures)
{
	npu_stream s, t;
	struct npu_error e;

	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_create(NULL, &t));
	OK(failing_task(s));
	OK(delay(t, 20000000));
	EXPECT_EQ(-EFAULT, npu_device_sync(1, 5000));
	e = last_error();
	EXPECT_EQ(s.h, e.stream.h);
	EXPECT_EQ(1, e.device);
	EXPECT_EQ(0, npu_stream_query(t));
	OK(npu_device_sync(1, 5000));
}

TEST_F(device, reset)
{
	npu_stream s, d, again;
	npu_context c;
	npu_event e;
	void *p, *q;

	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &d));
	OK(npu_context_create(1, &c));
	OK(npu_malloc(4096, 0, &p));
	OK(npu_event_create(NPU_EVENT_TIMING, &e));
	OK(npu_event_record(e, s));
	OK(npu_device_set(0));
	OK(npu_malloc(4096, 0, &q));
	OK(npu_device_set(1));
	OK(npu_stream_set_current(s));

	OK(npu_device_reset(1, 5000));
	EXPECT_EQ(0, is_open(1));
	EXPECT_EQ(1, is_open(0));
	EXPECT_EQ(-ESTALE, npu_stream_query(s));
	EXPECT_EQ(-ESTALE, npu_stream_query(d));
	EXPECT_EQ(-ESTALE, npu_context_set(c));
	EXPECT_EQ(-ESTALE, npu_event_query(e));
	EXPECT_EQ(-EINVAL, npu_free(p));
	OK(npu_free(q));
	/* the device stays current, and opens again */
	OK(npu_stream_query(NPU_STREAM_CURRENT));
	EXPECT_EQ(1, is_open(1));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &again));
	EXPECT_NE(d.h, again.h);
	OK(npu_device_reset(2, 0));
	EXPECT_EQ(-ENODEV, npu_device_reset(3, 0));
	EXPECT_EQ(-EINVAL, npu_device_reset(1, -9));
}

TEST_F(device, reset_that_times_out)
{
	static struct gate g;
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	ASSERT_TRUE(seen(&g.entered));
	EXPECT_EQ(-ETIMEDOUT, npu_device_reset(0, 20));
	EXPECT_EQ(1, is_open(0));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(s));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(s, 5000));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(-ESTALE, npu_stream_query(s));
}

static npu_stream current_before, current_after;
static _Atomic int ready, go;

static void *watch_reset(void *arg)
{
	npu_device_set(1);
	npu_stream_set_current(*(npu_stream *)arg);
	npu_stream_current(NPU_DEVICE_CURRENT, &current_before);
	atomic_store(&ready, 1);
	while (!atomic_load(&go))
		usleep(100);
	return (void *)(intptr_t)npu_stream_current(NPU_DEVICE_CURRENT, &current_after);
}

TEST_F(device, reset_reaches_other_threads)
{
	pthread_t th;
	npu_stream s;
	void *rc;

	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	OK(pthread_create(&th, NULL, watch_reset, &s));
	ASSERT_TRUE(seen(&ready));
	OK(npu_device_reset(1, 5000));
	atomic_store(&go, 1);
	pthread_join(th, &rc);
	EXPECT_EQ(0, (intptr_t)rc);
	EXPECT_EQ(s.h, current_before.h);
	EXPECT_NE(s.h, current_after.h);
	OK(npu_stream_query(current_after));
}

TEST_F(device, time_and_use)
{
	uint64_t a, b;
	uint32_t percent = 1000;

	OK(npu_device_time(0, &a));
	usleep(1000);
	OK(npu_device_time(0, &b));
	EXPECT_GT(b, a);
	EXPECT_EQ(1, is_open(0));
	OK(npu_device_utilization(0, &percent));
	EXPECT_LE(percent, 100);
}

TEST_F(device, contexts)
{
	npu_context p, c, got;
	npu_stream in_p, in_c;
	int d;

	OK(npu_context_get(&got));
	EXPECT_EQ(0, got.h);
	OK(npu_context_primary(NPU_DEVICE_CURRENT, &p));
	OK(npu_context_get(&got));
	EXPECT_EQ(p.h, got.h);
	OK(npu_context_create(1, &c));
	OK(npu_context_device(c, &d));
	EXPECT_EQ(1, d);
	OK(npu_context_get(&got));
	EXPECT_EQ(p.h, got.h);
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &in_p));
	OK(npu_context_set(c));
	OK(npu_device_get(&d));
	EXPECT_EQ(1, d);
	OK(npu_context_get(&got));
	EXPECT_EQ(c.h, got.h);
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &in_c));
	EXPECT_NE(in_p.h, in_c.h);
	EXPECT_EQ(-EBUSY, npu_stream_destroy(in_c, 0));
	EXPECT_EQ(-EBUSY, npu_context_destroy(p, 0));
	/* back to the primary one: by 0, by its handle, by its end */
	OK(npu_context_set((npu_context){ 0 }));
	OK(npu_context_get(&got));
	EXPECT_NE(c.h, got.h);
	OK(npu_context_set(c));
	OK(npu_context_sync(c, 1000));
	OK(npu_context_destroy(c, 1000));
	OK(npu_device_get(&d));
	EXPECT_EQ(1, d);
	EXPECT_EQ(-ESTALE, npu_stream_query(in_c));
	OK(npu_stream_query(NPU_STREAM_CURRENT));
	EXPECT_EQ(-ESTALE, npu_context_destroy(c, 0));
	OK(npu_context_set(p));
	OK(npu_device_get(&d));
	EXPECT_EQ(0, d);
}

TEST_HARNESS_MAIN
