// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events.
 */
#include "selftests/npu_kselftest.h"

#include <poll.h>

#include "hal/handle.h"
#include "selftests/runtime/rt_test.h"

FIXTURE(event) {
	npu_stream s;
	npu_event e;
};

FIXTURE_SETUP(event)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_event_create(0, &self->e));
}

FIXTURE_TEARDOWN(event)
{
	EXPECT_EQ(0, npu_finalize(5000));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_EVENT));
}

TEST(creating_opens_nothing)
{
	npu_event e, t;
	size_t n;

	OK(npu_event_create(0, &e));
	OK(npu_event_create(NPU_EVENT_TIMING, &t));
	OK(npu_event_query(e));
	OK(npu_event_sync(t, 0));
	OK(npu_device_used(NULL, 0, &n));
	EXPECT_EQ(0, n);
	OK(npu_event_destroy(e));
	OK(npu_event_destroy(t));
	OK(npu_finalize(0));
}

TEST_F(event, never_recorded_is_done)
{
	int d = 5, fd;
	struct pollfd p = { .events = POLLIN };

	OK(npu_event_query(self->e));
	OK(npu_event_sync(self->e, NPU_WAIT_FOREVER));
	OK(npu_stream_wait_event(self->s, self->e));
	OK(npu_event_device(self->e, &d));
	EXPECT_EQ(-1, d);
	OK(npu_event_fd(self->e, &fd));
	p.fd = fd;
	EXPECT_EQ(1, poll(&p, 1, 0));
	close(fd);
}

TEST_F(event, a_point_in_the_stream)
{
	static struct gate g;
	struct pollfd p = { .events = POLLIN };
	npu_event early;
	int fd, d;

	OK(npu_event_create(0, &early));
	OK(npu_event_record(early, self->s));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_event_record(self->e, self->s));
	ASSERT_TRUE(seen(&g.entered));
	OK(npu_event_query(early));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(self->e));
	EXPECT_EQ(-ETIMEDOUT, npu_event_sync(self->e, 0));
	EXPECT_EQ(-ETIMEDOUT, npu_event_sync(self->e, 20));
	EXPECT_EQ(-EINVAL, npu_event_sync(self->e, -2));
	OK(npu_event_device(self->e, &d));
	EXPECT_EQ(0, d);
	OK(npu_event_fd(self->e, &fd));
	p.fd = fd;
	EXPECT_EQ(0, poll(&p, 1, 10));
	atomic_store(&g.open, 1);
	OK(npu_event_sync(self->e, NPU_WAIT_FOREVER));
	OK(npu_event_query(self->e));
	EXPECT_EQ(1, poll(&p, 1, 5000));
	close(fd);
}

TEST_F(event, recorded_again)
{
	static struct gate g;
	npu_stream t;

	OK(npu_stream_create(NULL, &t));
	OK(npu_event_record(self->e, self->s));
	OK(npu_stream_callback(t, gate_hold, &g, 0));
	/* the wait keeps the point that it saw */
	OK(npu_stream_wait_event(self->s, self->e));
	OK(npu_event_record(self->e, t));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(self->e));
	atomic_store(&g.open, 1);
	OK(npu_event_sync(self->e, 5000));
}

TEST_F(event, orders_streams_of_two_devices)
{
	static struct gate g;
	npu_stream t;
	uint64_t word = 0;
	void *p;

	OK(npu_malloc(8, 0, &p));
	OK(npu_stream_pool_get(1, 4, &t));
	OK(npu_memset_async(p, 0, 8, self->s));
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_stream_callback(t, gate_hold, &g, 0));
	OK(npu_event_record(self->e, t));
	OK(npu_stream_wait_event(self->s, self->e));
	OK(npu_memset_async(p, 0xff, 8, self->s));
	usleep(5000);
	OK(npu_memcpy(&word, p, 8, NPU_COPY_AUTO));
	EXPECT_EQ(0, word);
	OK(npu_event_destroy(self->e));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_memcpy(&word, p, 8, NPU_COPY_AUTO));
	EXPECT_EQ(UINT64_MAX, word);
}

TEST_F(event, outlives_its_stream)
{
	OK(delay(self->s, 1000000));
	OK(npu_event_record(self->e, self->s));
	OK(npu_stream_destroy(self->s, 5000));
	OK(npu_event_query(self->e));
	OK(npu_event_sync(self->e, 0));
}

TEST_F(event, default_stream)
{
	int d;

	OK(npu_device_set(1));
	OK(npu_event_record(self->e, NPU_STREAM_CURRENT));
	OK(npu_event_device(self->e, &d));
	EXPECT_EQ(1, d);
	OK(npu_event_sync(self->e, 5000));
}

/* A failure that the event covers is seen, told once, and carried to those that wait. */
TEST_F(event, failure)
{
	struct npu_error err;
	npu_stream t;

	OK(npu_stream_create(NULL, &t));
	OK(failing_task(self->s));
	OK(npu_event_record(self->e, self->s));
	OK(npu_stream_wait_event(t, self->e));
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, t));
	while (npu_event_query(self->e) == -EINPROGRESS)
		usleep(100);
	EXPECT_EQ(-EFAULT, npu_event_query(self->e));
	EXPECT_EQ(-EFAULT, npu_event_sync(self->e, 5000));
	EXPECT_EQ(self->s.h, last_error().stream.h);
	OK(npu_event_sync(self->e, 5000));
	OK(npu_event_query(self->e));
	EXPECT_EQ(-EFAULT, npu_stream_sync(t, 5000));
	err = last_error();
	EXPECT_EQ(t.h, err.stream.h);
	EXPECT_EQ(self->s.h, err.origin_stream.h);
	EXPECT_NE(0, err.origin_seq);
	OK(npu_stream_sync(t, 5000));
}

TEST_F(event, timed)
{
	npu_event a, b, c;
	uint64_t ta, tb, now;
	int64_t ns;

	OK(npu_event_create(NPU_EVENT_TIMING, &a));
	OK(npu_event_create(NPU_EVENT_TIMING, &b));
	OK(npu_event_create(NPU_EVENT_TIMING, &c));
	EXPECT_EQ(-EINVAL, npu_event_elapsed(a, b, &ns));
	EXPECT_EQ(-EINVAL, npu_event_timestamp(a, &ta));
	OK(npu_event_record(a, self->s));
	OK(delay(self->s, 3000000));
	OK(npu_event_record(b, self->s));
	OK(npu_event_sync(b, 5000));
	OK(npu_event_timestamp(a, &ta));
	OK(npu_event_timestamp(b, &tb));
	OK(npu_event_elapsed(a, b, &ns));
	EXPECT_EQ((int64_t)(tb - ta), ns);
	EXPECT_GE(ns, 3000000);
	OK(npu_event_elapsed(b, a, &ns));
	EXPECT_EQ((int64_t)(ta - tb), ns);
	OK(npu_device_time(0, &now));
	EXPECT_GE(now, tb);
	/* not timed, not recorded, another device */
	OK(npu_event_record(self->e, self->s));
	EXPECT_EQ(-EINVAL, npu_event_elapsed(a, self->e, &ns));
	EXPECT_EQ(-EINVAL, npu_event_timestamp(self->e, &ta));
	EXPECT_EQ(-EINVAL, npu_event_elapsed(a, c, &ns));
	OK(npu_device_set(1));
	OK(npu_event_record(c, NPU_STREAM_CURRENT));
	OK(npu_event_sync(c, 5000));
	EXPECT_EQ(-EXDEV, npu_event_elapsed(a, c, &ns));
	EXPECT_EQ(-EXDEV, npu_event_record(a, NPU_STREAM_CURRENT));
	EXPECT_EQ(-EINVAL, npu_event_elapsed(a, b, NULL));
	EXPECT_EQ(-EINVAL, npu_event_timestamp(a, NULL));
}

TEST_F(event, timed_and_not_done)
{
	static struct gate g;
	npu_event a;
	uint64_t t;
	int64_t ns;

	OK(npu_event_create(NPU_EVENT_TIMING, &a));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_event_record(a, self->s));
	EXPECT_EQ(-EINPROGRESS, npu_event_timestamp(a, &t));
	EXPECT_EQ(-EINPROGRESS, npu_event_elapsed(a, a, &ns));
	/* in flight: destroying it does not wait */
	OK(npu_event_destroy(a));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->s, 5000));
}

TEST_F(event, flags)
{
	npu_event e = { 1 };

	EXPECT_EQ(-EINVAL, npu_event_create(4, &e));
	EXPECT_EQ(0, e.h);
	EXPECT_EQ(-EINVAL, npu_event_create(0, NULL));
	EXPECT_EQ(-EINVAL, npu_event_fd(self->e, NULL));
	EXPECT_EQ(-EINVAL, npu_event_device(self->e, NULL));
}

TEST_F(event, many)
{
	npu_event *e;
	int i;

	e = calloc(20000, sizeof(*e));
	ASSERT_TRUE(e != NULL);
	for (i = 0; i < 20000; i++) {
		OK(npu_event_create(0, &e[i]));
		OK(npu_event_record(e[i], self->s));
	}
	OK(npu_event_sync(e[19999], 5000));
	for (i = 0; i < 10000; i++)
		OK(npu_event_destroy(e[i]));
	EXPECT_EQ(-ESTALE, npu_event_query(e[0]));
	free(e);
}

TEST_HARNESS_MAIN
