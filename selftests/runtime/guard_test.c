// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards: what they find comes back exactly, on every path.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

FIXTURE(guard) {
};

FIXTURE_SETUP(guard)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
}

FIXTURE_TEARDOWN(guard)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

/* What the thread has set: -1 for none. */
static int set_device(void)
{
	int old = -9;

	npu_device_exchange(NPU_DEVICE_CURRENT, &old);
	return old;
}

static int current_device(void)
{
	int d = -9;

	npu_device_get(&d);
	return d;
}

TEST_F(guard, device_table)
{
	static const int start[] = { NPU_DEVICE_CURRENT, 0, 1 };
	static const struct { int device; int rc; } with[] = {
		{ NPU_DEVICE_CURRENT, 0 }, { 0, 0 }, { 1, 0 },
		{ 2, -ENODEV }, { -2, -ENODEV }, { INT_MIN, -ENODEV }, { INT_MAX, -ENODEV },
	};
	struct npu_guard g;
	size_t i, j;

	OK(npu_init());
	for (i = 0; i < 3; i++) {
		for (j = 0; j < sizeof(with) / sizeof(with[0]); j++) {
			OK(npu_device_restore(start[i]));
			EXPECT_EQ(with[j].rc, npu_guard_device(&g, with[j].device));
			if (!with[j].rc && with[j].device >= 0) {
				EXPECT_EQ(with[j].device, set_device());
			} else {
				EXPECT_EQ(start[i], set_device());
			}
			OK(npu_guard_end(&g));
			EXPECT_EQ(start[i], set_device());
		}
	}
	EXPECT_EQ(0, is_open(0) + is_open(1));
}

TEST_F(guard, a_guard_is_not_the_first_set)
{
	struct npu_guard g;

	OK(npu_guard_device(&g, 1));
	EXPECT_EQ(1, current_device());
	OK(npu_guard_end(&g));
	EXPECT_EQ(0, current_device());
}

TEST_F(guard, context_comes_back)
{
	npu_context c, got;
	struct npu_guard g;

	OK(npu_context_create(1, &c));
	OK(npu_context_set(c));
	OK(npu_guard_device(&g, 0));
	OK(npu_context_get(&got));
	EXPECT_NE(c.h, got.h);
	OK(npu_guard_end(&g));
	OK(npu_context_get(&got));
	EXPECT_EQ(c.h, got.h);
}

TEST_F(guard, stream_and_device)
{
	npu_stream s, t, home, got;
	struct npu_guard a, b;

	OK(npu_stream_current(NPU_DEVICE_CURRENT, &home));
	OK(npu_stream_pool_get(1, 4, &s));
	OK(npu_stream_pool_get(0, 4, &t));
	OK(npu_guard_stream(&a, s));
	EXPECT_EQ(1, current_device());
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(s.h, got.h);
	OK(npu_guard_stream(&b, t));
	EXPECT_EQ(0, current_device());
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(t.h, got.h);
	OK(npu_stream_current(1, &got));
	EXPECT_EQ(s.h, got.h);
	OK(npu_guard_end(&b));
	EXPECT_EQ(1, current_device());
	OK(npu_stream_current(0, &got));
	EXPECT_EQ(home.h, got.h);
	OK(npu_guard_end(&a));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
	OK(npu_stream_current(1, &got));
	EXPECT_NE(s.h, got.h);
}

TEST_F(guard, the_same_stream_twice)
{
	struct npu_guard a, b;
	npu_stream s, got;

	OK(npu_stream_pool_get(0, 4, &s));
	OK(npu_guard_stream(&a, s));
	OK(npu_guard_stream(&b, s));
	OK(npu_guard_end(&b));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(s.h, got.h);
	OK(npu_guard_end(&a));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_NE(s.h, got.h);
}

TEST_F(guard, stream_set_before_comes_back)
{
	npu_stream mine, s, got;
	struct npu_guard g;

	OK(npu_stream_create(NULL, &mine));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_set_current(mine));
	OK(npu_guard_stream(&g, s));
	OK(npu_guard_end(&g));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(mine.h, got.h);
	/* destroyed meanwhile: there is nothing to go back to but the default one */
	OK(npu_guard_stream(&g, s));
	OK(npu_stream_destroy(mine, 1000));
	OK(npu_guard_end(&g));
	OK(npu_stream_query(NPU_STREAM_CURRENT));
}

TEST_F(guard, secondary)
{
	static struct gate gate;
	npu_stream before, second, got;
	struct npu_guard g;

	OK(npu_stream_current(NPU_DEVICE_CURRENT, &before));
	OK(npu_guard_secondary(&g));
	OK(npu_stream_secondary(0, &second));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(second.h, got.h);
	OK(npu_stream_callback(NPU_STREAM_CURRENT, gate_hold, &gate, 0));
	OK(npu_guard_end(&g));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(before.h, got.h);
	ASSERT_TRUE(seen(&gate.entered));
	/* the stream before waits for the secondary one */
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(before));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(before, 20));
	atomic_store(&gate.open, 1);
	OK(npu_stream_sync(before, 5000));
}

TEST_F(guard, misuse)
{
	struct npu_guard g = { 0 };

	EXPECT_EQ(-EINVAL, npu_guard_device(NULL, 0));
	EXPECT_EQ(-EINVAL, npu_guard_stream(NULL, NPU_STREAM_CURRENT));
	EXPECT_EQ(-EINVAL, npu_guard_secondary(NULL));
	EXPECT_EQ(-EINVAL, npu_guard_end(NULL));
	EXPECT_EQ(-EINVAL, npu_guard_end(&g));
	EXPECT_EQ(-EINVAL, npu_guard_stream(&g, NPU_STREAM_CURRENT));
	OK(npu_guard_end(&g));
	EXPECT_EQ(-EINVAL, npu_guard_end(&g));
	OK(npu_guard_device(&g, 1));
	OK(npu_guard_end(&g));
	EXPECT_EQ(-EINVAL, npu_guard_end(&g));
}

static void *end_it(void *arg)
{
	return (void *)(intptr_t)npu_guard_end(arg);
}

TEST_F(guard, of_another_thread)
{
	struct npu_guard g;
	pthread_t th;
	void *rc;

	OK(npu_guard_device(&g, 1));
	OK(pthread_create(&th, NULL, end_it, &g));
	pthread_join(th, &rc);
	EXPECT_EQ(-EPERM, (intptr_t)rc);
	EXPECT_EQ(1, set_device());
	OK(npu_guard_end(&g));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
}

TEST_F(guard, finalized_meanwhile)
{
	struct npu_guard g, h;
	npu_stream s;

	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	OK(npu_guard_device(&g, 0));
	OK(npu_guard_stream(&h, s));
	OK(npu_finalize(1000));
	OK(npu_guard_end(&h));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	EXPECT_EQ(0, current_device());
	OK(npu_init());
	OK(npu_guard_end(&g));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
}

TEST_F(guard, reset_meanwhile)
{
	npu_stream s, t;
	struct npu_guard g;

	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_create(NULL, &t));
	OK(npu_stream_set_current(s));
	OK(npu_guard_stream(&g, t));
	OK(npu_device_reset(0, 1000));
	OK(npu_guard_end(&g));
	EXPECT_EQ(0, is_open(0));
	OK(npu_stream_query(NPU_STREAM_CURRENT));
}

static int leave_early(int device)
{
	NPU_SCOPED_DEVICE(device);

	if (current_device() == device)
		return 1;
	return 0;
}

static int device_in_scope(npu_stream s, int device)
{
	NPU_SCOPED_STREAM(s);
	NPU_SCOPED_DEVICE(device);

	return current_device();
}

static npu_stream stream_in_scope(npu_stream s)
{
	npu_stream got = { 0 };
	NPU_SCOPED_STREAM(s);

	npu_stream_current(NPU_DEVICE_CURRENT, &got);
	return got;
}

TEST_F(guard, scoped)
{
	npu_stream s, got;

	EXPECT_EQ(1, leave_early(1));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
	EXPECT_EQ(0, leave_early(7));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
	OK(npu_stream_pool_get(1, 0, &s));
	EXPECT_EQ(0, device_in_scope(s, 0));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
	EXPECT_EQ(s.h, stream_in_scope(s).h);
	OK(npu_stream_current(1, &got));
	EXPECT_NE(s.h, got.h);
	/* fails, and changes nothing */
	EXPECT_EQ(0, device_in_scope(NPU_STREAM_CURRENT, NPU_DEVICE_CURRENT));
	EXPECT_EQ(NPU_DEVICE_CURRENT, set_device());
}

TEST_HARNESS_MAIN
