// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: tasks that the host carries out, and windows of device memory.
 */
#include "hal/internal.h"
#include "selftests/hal/bed.h"

CONFORMANCE(host)

/* A task of the host: how often it was begun, and what there was then. */
struct outside {
	struct hal_point p;
	_Atomic uint32_t begun;
	struct outside *before;	/* begun earlier */
	bool in_order;
};

static void begin(void *arg)
{
	struct outside *o = arg;

	o->in_order = !o->before || o->before->begun;
	o->begun++;
	hal_sys_futex_wake(&o->begun, INT_MAX);
}

static int put(uint64_t s, struct outside *o)
{
	return hal_stream_host(s, begin, o, &o->p, BAD_PLACE);
}

static void await(struct outside *o)
{
	while (!o->begun)
		hal_sys_futex_wait(&o->begun, 0, UINT64_MAX);
}

#define HOST_OR_REFUSED(b, s)							\
	do {									\
		struct outside o_ = { .begun = 0 };				\
										\
		STREAM_OR_REFUSED(b, s);					\
		CAP_OR_REFUSED(b, NPU_CAP_HOST_TASK, put(*(s), &o_));		\
	} while (0)

/* C-STREAM-16 */
TEST_ABOUT(host, the_stream_waits_for_the_host, NPU_CAP_HOST_TASK)
{
	struct outside o[3] = { { .begun = 0 }, { .before = &o[0] }, { .before = &o[1] } };
	struct bed *b = &self->b;
	uint64_t s, i;

	HOST_OR_REFUSED(b, &s);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, put(s, &o[i]));
		EXPECT_EQ(s, o[i].p.stream);
		EXPECT_EQ(o[0].p.seq + i, o[i].p.seq);
	}
	for (i = 0; i < 3; i++) {
		await(&o[i]);
		EXPECT_TRUE(o[i].in_order);
		EXPECT_FALSE(hal_point_done(&o[i].p));
		EXPECT_EQ(-EINPROGRESS, hal_point_query(&o[i].p));
		EXPECT_EQ(-ETIMEDOUT, hal_stream_sync(s, 5, 0));
		if (i < 2)
			EXPECT_EQ(0, (uint32_t)o[i + 1].begun);
		hal_host_done(&o[i].p, 0);
		EXPECT_EQ(0, hal_point_sync(&o[i].p, LONG_MS, 0));
		EXPECT_TRUE(hal_point_done(&o[i].p));
	}
	EXPECT_EQ(0, hal_stream_query(s));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(1, (uint32_t)o[i].begun);
	/* what is done already, or never was: nothing */
	hal_host_done(&o[0].p, -EIO);
	o[0].p.seq += 100;
	hal_host_done(&o[0].p, -EIO);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_destroy(s, LONG_MS));
	hal_host_done(&o[2].p, -EIO);
	EXPECT_EQ(-ESTALE, put(s, &o[0]));
}

/* C-STREAM-16: a failure is the task's, and those who wait for it learn of it. */
TEST_ABOUT(host, failures, NPU_CAP_HOST_TASK)
{
	struct outside o = { .begun = 0 };
	struct bed *b = &self->b;
	const struct hal_error *e;
	uint64_t s, t;

	HOST_OR_REFUSED(b, &s);
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, hal_tag_set("tensor 7"));
	ASSERT_EQ(0, put(s, &o));
	ASSERT_EQ(0, hal_tag_set(NULL));
	ASSERT_EQ(0, hal_stream_wait_point(t, &o.p, PLACE));
	await(&o);
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(t));
	hal_host_done(&o.p, -ENOSPC);
	EXPECT_EQ(-ENOSPC, hal_stream_sync(t, LONG_MS, 0));
	e = hal_error_last();
	EXPECT_EQ(s, e->origin_stream);
	EXPECT_EQ(o.p.seq, e->origin_seq);
	EXPECT_EQ(-ENOSPC, hal_stream_sync(s, LONG_MS, 0));
	e = hal_error_last();
	EXPECT_EQ(o.p.seq, e->seq);
	EXPECT_EQ(BAD_PLACE, e->place);
	EXPECT_STREQ("tensor 7", e->tag);
	EXPECT_NE(NULL, strstr(e->text, "file_io"));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
}

/* C-STREAM-16: a callback that takes long is not in the way. */
TEST_ABOUT(host, beside_callbacks, NPU_CAP_HOST_TASK)
{
	struct outside o = { .begun = 0 };
	struct bed *b = &self->b;
	uint64_t s, t;
	struct gate g;

	HOST_OR_REFUSED(b, &s);
	ASSERT_EQ(0, make_stream(b, &t));
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, t));
	ASSERT_EQ(0, gate_close(&g, t));
	gate_await(&g);
	ASSERT_EQ(0, put(s, &o));
	await(&o);
	hal_host_done(&o.p, 0);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(t));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
}

/* C-STREAM-17 C-STREAM-18 */
TEST_ABOUT(host, aborted, NPU_CAP_HOST_TASK | NPU_CAP_ABORT)
{
	/* may be looked at when the test is over */
	static struct outside under_way, queued, next;
	struct bed *b = &self->b;
	int i;
	uint64_t s;

	HOST_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_ABORT, hal_stream_abort(s, 0));
	for (i = 0; i < 20; i++) {
		under_way.begun = queued.begun = next.begun = 0;
		ASSERT_EQ(0, put(s, &under_way));
		ASSERT_EQ(0, put(s, &queued));
		if (i % 2)
			await(&under_way);
		ASSERT_EQ(0, hal_stream_abort(s, LONG_MS));
		EXPECT_TRUE(hal_host_gone(&under_way.p));
		EXPECT_TRUE(hal_host_gone(&queued.p));
		EXPECT_EQ(0, (uint32_t)queued.begun);
		/* it goes on, and what ends late does nothing to what comes then */
		ASSERT_EQ(0, put(s, &next));
		hal_host_done(&under_way.p, -EIO);
		hal_host_done(&queued.p, -EIO);
		await(&next);
		EXPECT_EQ(-EINPROGRESS, hal_point_query(&next.p));
		hal_host_done(&next.p, 0);
		EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		EXPECT_EQ(0, (uint32_t)queued.begun);
	}
}

/* C-STREAM-17 C-STREAM-18 */
TEST_ABOUT(host, stopped, NPU_CAP_HOST_TASK | NPU_CAP_ABORT)
{
	static struct outside under_way, queued;
	struct bed *b = &self->b;
	uint64_t s;

	HOST_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_ABORT, hal_device_stop(b->dev, LONG_MS));
	under_way.begun = queued.begun = 0;
	ASSERT_EQ(0, put(s, &under_way));
	ASSERT_EQ(0, put(s, &queued));
	await(&under_way);
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	EXPECT_TRUE(hal_host_gone(&under_way.p));
	EXPECT_TRUE(hal_host_gone(&queued.p));
	EXPECT_EQ(0, (uint32_t)queued.begun);
	hal_host_done(&under_way.p, 0);
	EXPECT_EQ(-ESHUTDOWN, put(s, &queued));
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	hal_host_done(&under_way.p, -EIO);
	EXPECT_EQ(0, (uint32_t)queued.begun);
	EXPECT_EQ(-ESTALE, put(s, &queued));
	ASSERT_EQ(0, make_stream(b, &s));
	ASSERT_EQ(0, put(s, &queued));
	await(&queued);
	hal_host_done(&queued.p, 0);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
}

/* ---- windows ---- */

#define SIZE 100000u

/* C-MEM-9 */
TEST_ABOUT(host, windows, NPU_CAP_IO_WINDOW)
{
	struct bed *b = &self->b;
	struct hal_window w, v;
	char *p, buf[64];

	MEMORY_OR_REFUSED(b, SIZE, &p);
	CAP_OR_REFUSED(b, NPU_CAP_IO_WINDOW, hal_window_open(p, SIZE, &w));
	ASSERT_EQ(0, hal_window_open(p, SIZE, &w));
	ASSERT_EQ(0, hal_window_open(p + 77, 50, &v));
	memset(w.host, 1, SIZE);
	memset(v.host, 2, 50);
	ASSERT_EQ(0, copy_now(b, buf, p + 70, sizeof(buf)));
	EXPECT_EQ(1, buf[6]);
	EXPECT_EQ(2, buf[7]);
	EXPECT_EQ(2, buf[56]);
	EXPECT_EQ(1, buf[57]);
	ASSERT_EQ(0, hal_mem_fill(b->ctx, p, 3, SIZE));
	EXPECT_EQ(3, w.host[SIZE - 1]);
	EXPECT_EQ(3, v.host[49]);
	hal_window_close(&v);
	EXPECT_EQ(NULL, v.host);
	hal_window_close(&v);
	/* memory that is freed is another's when the last window is closed */
	ASSERT_EQ(0, hal_mem_free(p));
	memset(w.host, 4, SIZE);
	EXPECT_EQ(-EINVAL, hal_window_open(p, SIZE, &v));
	EXPECT_EQ(NULL, v.mem);
	hal_window_close(&w);
}

TEST_ABOUT(host, no_windows_of, NPU_CAP_IO_WINDOW)
{
	struct bed *b = &self->b;
	struct hal_window w;
	char *p, *host = (char *)&w;

	MEMORY_OR_REFUSED(b, SIZE, &p);
	CAP_OR_REFUSED(b, NPU_CAP_IO_WINDOW, hal_window_open(p, SIZE, &w));
	EXPECT_EQ(-EINVAL, hal_window_open(p, SIZE + 1, &w));
	EXPECT_EQ(-EINVAL, hal_window_open(p + 1, SIZE, &w));
	EXPECT_EQ(-EINVAL, hal_window_open(p + 1, SIZE_MAX, &w));
	EXPECT_EQ(-EINVAL, hal_window_open(host, 1, &w));
	EXPECT_EQ(NULL, w.mem);
	if (can(b, NPU_CAP_HOST_ALLOC)) {
		ASSERT_EQ(0, hal_mem_host_alloc(b->ctx, SIZE, 0, (void **)&host));
		EXPECT_EQ(-EINVAL, hal_window_open(host, SIZE, &w));
		EXPECT_EQ(0, hal_mem_host_free(host));
	}
	hal_memory_spoil(b->dev, (uintptr_t)p, 1);
	EXPECT_EQ(-EHWPOISON, hal_window_open(p, SIZE, &w));
	ASSERT_EQ(0, hal_mem_set_safe(p));
	EXPECT_EQ(0, hal_window_open(p, SIZE, &w));
	hal_window_close(&w);
	EXPECT_EQ(0, hal_mem_free(p));
}

TEST_HARNESS_MAIN
