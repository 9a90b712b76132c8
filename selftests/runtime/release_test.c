// SPDX-License-Identifier: GPL-2.0-only
/*
 * Release callbacks: order, exactly once, failures, registrations meanwhile.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

static char order[128];

static int note(void *arg)
{
	strncat(order, arg, sizeof(order) - strlen(order) - 1);
	return 0;
}

static int fail(void *arg)
{
	note(arg);
	return -EIO;
}

TEST(by_priority_then_registration)
{
	OK(npu_release_register(note, "f", NPU_RELEASE_LAST));
	OK(npu_release_register(note, "c", NPU_RELEASE_MIDDLE));
	OK(npu_release_register(note, "d", NPU_RELEASE_MIDDLE));
	OK(npu_release_register(note, "a", NPU_RELEASE_FIRST));
	OK(npu_release_register(note, "b", 1));
	OK(npu_release_register(note, "e", 9));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_STREQ("abcdef", order);
	/* each once */
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_STREQ("abcdef", order);
}

TEST(only_with_the_last_finalize)
{
	OK(npu_init());
	OK(npu_init());
	OK(npu_release_register(note, "a", 5));
	OK(npu_finalize(1000));
	EXPECT_STREQ("", order);
	OK(npu_finalize(1000));
	EXPECT_STREQ("a", order);
}

TEST(nothing_to_finalize)
{
	OK(npu_release_register(note, "a", 5));
	OK(npu_finalize(1000));
	EXPECT_STREQ("", order);
}

TEST(a_failure_does_not_stop_the_rest)
{
	OK(npu_release_register(note, "a", 0));
	OK(npu_release_register(fail, "b", 0));
	OK(npu_release_register(note, "c", 0));
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_STREQ("abc", order);
}

static int register_more(void *arg)
{
	note(arg);
	return npu_release_register(note, "2", 0) | npu_release_register(note, "3", 10);
}

TEST(registered_meanwhile)
{
	OK(npu_release_register(register_more, "1", 5));
	OK(npu_release_register(note, "x", 7));
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_STREQ("12x3", order);
}

TEST(unregister_the_newest)
{
	EXPECT_EQ(-ENOENT, npu_release_unregister(note, "a"));
	OK(npu_release_register(note, order, 7));
	OK(npu_release_register(note, order, 2));
	OK(npu_release_unregister(note, order));
	EXPECT_EQ(-ENOENT, npu_release_unregister(fail, order));
	OK(npu_release_unregister(note, order));
	EXPECT_EQ(-ENOENT, npu_release_unregister(note, order));
	OK(npu_release_register(note, "a", 0));
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_EQ(-ENOENT, npu_release_unregister(note, "a"));
	EXPECT_STREQ("a", order);
}

static int still_usable(void *arg)
{
	int *rc = arg;
	npu_stream s;
	void *p;

	rc[0] = npu_stream_create(NULL, &s);
	rc[1] = npu_malloc(64, 0, &p);
	rc[2] = npu_memset_async(p, 3, 64, s);
	rc[3] = npu_stream_sync(s, 5000);
	rc[4] = npu_finalize(0);
	rc[5] = npu_init();
	rc[6] = (int)npu_state_get();
	return 0;
}

TEST(devices_are_still_usable)
{
	int rc[7] = { 9, 9, 9, 9, 9, 9, 9 };

	OK(npu_release_register(still_usable, rc, 10));
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_EQ(0, rc[0]);
	EXPECT_EQ(0, rc[1]);
	EXPECT_EQ(0, rc[2]);
	EXPECT_EQ(0, rc[3]);
	EXPECT_EQ(-EDEADLK, rc[4]);
	EXPECT_EQ(-ESHUTDOWN, rc[5]);
	EXPECT_EQ(NPU_STATE_FINALIZING, rc[6]);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

static _Atomic int entered, leave;

static int linger(void *arg)
{
	atomic_store(&entered, 1);
	while (!atomic_load(&leave))
		usleep(100);
	return 0;
}

static void *finalize_it(void *arg)
{
	return (void *)(intptr_t)npu_finalize(1000);
}

TEST(other_threads_meanwhile)
{
	npu_stream s;
	pthread_t th;
	void *rc;

	OK(npu_release_register(linger, NULL, 0));
	OK(npu_init());
	OK(pthread_create(&th, NULL, finalize_it, NULL));
	ASSERT_TRUE(seen(&entered));
	EXPECT_EQ(NPU_STATE_FINALIZING, npu_state_get());
	EXPECT_EQ(-ESHUTDOWN, npu_stream_create(NULL, &s));
	EXPECT_EQ(-ESHUTDOWN, npu_init());
	EXPECT_EQ(-ESHUTDOWN, npu_finalize(0));
	EXPECT_EQ(-ESHUTDOWN, npu_hook_init(note, "x"));
	EXPECT_EQ(-ESHUTDOWN, npu_option_set("log_level", "info"));
	/* comes in time for this run */
	OK(npu_release_register(note, "late", 10));
	atomic_store(&leave, 1);
	pthread_join(th, &rc);
	EXPECT_EQ(0, (intptr_t)rc);
	EXPECT_STREQ("late", order);
}

TEST(bad_arguments)
{
	EXPECT_EQ(-EINVAL, npu_release_register(NULL, NULL, 5));
	EXPECT_EQ(-EINVAL, npu_release_register(note, "a", -1));
	EXPECT_EQ(-EINVAL, npu_release_register(note, "a", 11));
	EXPECT_EQ(-EINVAL, npu_release_unregister(NULL, NULL));
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_STREQ("", order);
}

TEST_HARNESS_MAIN
