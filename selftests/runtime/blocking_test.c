// SPDX-License-Identifier: GPL-2.0-only
/*
 * Option launch_blocking: a submission returns when its task is done, and what
 * became of it.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

FIXTURE(blocking) {
	npu_stream s;
};

FIXTURE_SETUP(blocking)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_LAUNCH_BLOCKING", "1", 1);
	OK(npu_stream_create(NULL, &self->s));
}

FIXTURE_TEARDOWN(blocking)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

/* H43: the failure is that of the call, and nobody else is told of it. */
TEST_F(blocking, the_call_returns_the_failure)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	struct npu_error e;

	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	OK(npu_tag_set("layer7"));
	EXPECT_EQ(-EFAULT, failing_task(self->s));
	e = last_error();
	OK(npu_tag_set(NULL));
	OK(npu_stream_get_info(self->s, &info));
	EXPECT_EQ(2, info.completed);
	EXPECT_EQ(-EFAULT, e.code);
	EXPECT_EQ(self->s.h, e.stream.h);
	EXPECT_NE(0, e.seq);
	EXPECT_NE(0, e.place);
	EXPECT_EQ(8, e.addr);
	EXPECT_EQ(0, e.more);
	EXPECT_STREQ("launch", e.op);
	EXPECT_STREQ("layer7", e.tag);
	npu_error_clear();
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	OK(npu_stream_query(self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0, last_error().code);
}

/* All that can be submitted is done when the call returns. */
TEST_F(blocking, each_operation)
{
	struct gate g = { .open = 1 };
	npu_stream other;
	npu_event e;
	char host[64] = "";
	void *p;

	OK(npu_malloc(64, 0, &p));
	OK(npu_stream_create(NULL, &other));
	OK(npu_event_create(NPU_EVENT_TIMING, &e));
	OK(npu_memset_async(p, 7, 64, self->s));
	OK(npu_stream_query(self->s));
	OK(npu_memcpy_async(host, p, 64, NPU_COPY_AUTO, self->s));
	EXPECT_EQ(7, host[63]);
	OK(delay(self->s, 3000000));
	OK(npu_stream_query(self->s));
	OK(npu_event_record(e, self->s));
	OK(npu_event_query(e));
	OK(npu_stream_wait_event(other, e));
	OK(npu_stream_wait_stream(other, self->s));
	OK(npu_stream_query(other));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	EXPECT_EQ(1, atomic_load(&g.left));
	OK(npu_stream_query(self->s));
	OK(npu_event_destroy(e));
	OK(npu_free(p));
}

struct inside {
	npu_stream own, other;
	int rc[3];
};

static void submit_inside(void *arg)
{
	struct inside *x = arg;

	x->rc[0] = npu_launch(builtin_kernel("nop"), 1, NULL, 0, x->own);
	x->rc[1] = failing_task(x->other);
	x->rc[2] = npu_stream_sync(x->other, 100);
}

/* There nobody waits: a later wait tells of it. */
TEST_F(blocking, not_inside_a_callback)
{
	struct inside x = { .own = self->s, .rc = { 1, 1, 1 } };

	OK(npu_stream_create(NULL, &x.other));
	OK(npu_stream_callback(self->s, submit_inside, &x, 0));
	EXPECT_EQ(0, x.rc[0]);
	EXPECT_EQ(0, x.rc[1]);
	EXPECT_EQ(-EDEADLK, x.rc[2]);
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(-EFAULT, npu_stream_sync(x.other, 5000));
	OK(npu_stream_sync(x.other, 5000));
}

struct held {
	npu_stream s;
	struct gate g;
	int rc;
};

static void *hold_fn(void *arg)
{
	struct held *h = arg;

	h->rc = npu_stream_callback(h->s, gate_hold, &h->g, 0);
	return NULL;
}

/* Up to op_timeout_ms; the task stays queued. */
TEST_F(blocking, no_longer_than_allowed)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	struct held h = { .s = self->s };
	pthread_t t;

	OK(pthread_create(&t, NULL, hold_fn, &h));
	ASSERT_TRUE(seen(&h.g.entered));
	OK(npu_option_set("op_timeout_ms", "30"));
	EXPECT_EQ(-ETIMEDOUT, npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	EXPECT_EQ(self->s.h, last_error().stream.h);
	OK(npu_stream_get_info(self->s, &info));
	EXPECT_EQ(2, info.submitted);
	EXPECT_EQ(0, info.completed);
	OK(npu_option_set("op_timeout_ms", "5000"));
	atomic_store(&h.g.open, 1);
	pthread_join(t, NULL);
	EXPECT_EQ(0, h.rc);
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_stream_get_info(self->s, &info));
	EXPECT_EQ(2, info.completed);
}

static void *storm_fn(void *arg)
{
	npu_stream s = *(npu_stream *)arg;
	long wrong = 0;
	int i;

	for (i = 0; i < 200; i++) {
		wrong += npu_launch(builtin_kernel("nop"), 1, NULL, 0, s) != 0;
		wrong += npu_stream_query(s) != 0;
	}
	return (void *)wrong;
}

TEST_F(blocking, threads_with_streams_of_their_own)
{
	npu_stream s[4];
	pthread_t t[4];
	void *wrong;
	int i;

	for (i = 0; i < 4; i++) {
		OK(npu_stream_create(NULL, &s[i]));
		OK(pthread_create(&t[i], NULL, storm_fn, &s[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], &wrong);
		EXPECT_EQ(NULL, wrong);
	}
}

TEST_F(blocking, fixed_while_initialised)
{
	EXPECT_EQ(-EBUSY, npu_option_set("launch_blocking", "0"));
	OK(npu_finalize(5000));
	OK(npu_option_set("launch_blocking", "0"));
	OK(npu_stream_create(NULL, &self->s));
	OK(failing_task(self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
}

TEST(off_by_default)
{
	unsetenv("NPU_LAUNCH_BLOCKING");
	if (IS_ENABLED(CONFIG_OPT_LAUNCH_BLOCKING))
		SKIP(return, "on by default in this configuration");
	OK(failing_task(NPU_STREAM_CURRENT));
	EXPECT_EQ(-EFAULT, npu_stream_sync(NPU_STREAM_CURRENT, 5000));
}

TEST(the_vendors_name)
{
	unsetenv("NPU_LAUNCH_BLOCKING");	/* goes first */
	setenv("ASCEND_LAUNCH_BLOCKING", "1", 1);
	EXPECT_EQ(-EFAULT, failing_task(NPU_STREAM_CURRENT));
	OK(npu_stream_sync(NPU_STREAM_CURRENT, 5000));
}

TEST_HARNESS_MAIN
