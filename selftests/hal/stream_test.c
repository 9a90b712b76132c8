// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: streams.
 */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

CONFORMANCE(stream)

/* C-STREAM-1 C-STREAM-2 C-STREAM-3 */
TEST_F(stream, order_and_visibility)
{
	struct bed *b = &self->b;
	uint64_t s, *word, in, out;
	unsigned int i;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 4096, &word);
	for (i = 1; i <= 200; i++) {
		in = i;
		out = 0;
		ASSERT_EQ(0, hal_stream_fill(s, word, 0xff, 8, PLACE));
		ASSERT_EQ(0, copy_async(s, word, &in, 8));
		if (can(b, NPU_CAP_LAUNCH))
			ASSERT_EQ(0, launch_inc(b, s, word, 1000));
		ASSERT_EQ(0, copy_async(s, &out, word, 8));
		ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		ASSERT_EQ(i + (can(b, NPU_CAP_LAUNCH) ? 1000 : 0), out);
	}
}

/* C-STREAM-11 */
TEST_F(stream, what_nobody_waits_for_runs)
{
	uint64_t end = hal_sys_deadline(LONG_MS);
	struct bed *b = &self->b;
	void *byte;
	uint64_t s;
	int rc;

	STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, any_byte(b, &byte));
	ASSERT_EQ(0, any_task(b, s, byte));
	/* queries ask, and do no work */
	while ((rc = hal_stream_query(s)) == -EINPROGRESS && hal_sys_now() < end)
		sched_yield();
	EXPECT_EQ(0, rc);
}

TEST_F(stream, many_tasks_run_each_once)
{
	struct bed *b = &self->b;
	uint64_t s, *word, out = 0;
	unsigned int i;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 4096, &word);
	if (!can(b, NPU_CAP_LAUNCH))
		return;
	for (i = 0; i < 5000; i++)
		ASSERT_EQ(0, launch_inc(b, s, word, 1));
	ASSERT_EQ(0, copy_async(s, &out, word, 8));
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(5000, out);
}

/* C-STREAM-4 */
TEST_F(stream, arguments_are_copied)
{
	struct bed *b = &self->b;
	struct npu_simnpu_inc_args a;
	uint64_t s, *word, out = 0;
	struct gate g;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 4096, &word);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	ASSERT_EQ(0, gate_close(&g, s));
	a = (struct npu_simnpu_inc_args){ (uintptr_t)word, 3 };
	EXPECT_EQ(0, hal_stream_launch(s, b->inc, 1, &a, sizeof(a), PLACE));
	memset(&a, 0xee, sizeof(a));
	gate_open(&g);
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(3, out);
}

struct seen {
	struct bed *b;
	uint64_t s, other;
	int own_sync, other_sync, poll, destroy, count;
	_Atomic uint32_t step;
};

static void look_around(void *arg)
{
	struct seen *x = arg;

	x->own_sync = hal_stream_sync(x->s, FOREVER, 0);
	x->other_sync = hal_stream_sync(x->other, 10, 0);
	x->poll = hal_stream_sync(x->other, 0, 0);
	x->destroy = hal_stream_destroy(x->other, FOREVER);
	x->count++;
}

/* C-STREAM-6 C-STREAM-7 */
TEST_ABOUT(stream, callbacks_block_the_stream_and_must_not_block, NPU_CAP_CALLBACK)
{
	struct bed *b = &self->b;
	struct seen x = { .b = b };
	static struct gate g;	/* the last callback may outlive the test's frame */
	uint64_t t;

	STREAM_OR_REFUSED(b, &x.s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, x.s));
	ASSERT_EQ(0, make_stream(b, &x.other));
	ASSERT_EQ(0, hal_stream_callback(x.s, look_around, &x, 0, PLACE));
	ASSERT_EQ(0, hal_stream_sync(x.s, LONG_MS, 0));
	EXPECT_EQ(1, x.count);
	EXPECT_EQ(-EDEADLK, x.own_sync);
	EXPECT_EQ(-EDEADLK, x.other_sync);
	EXPECT_EQ(0, x.poll);
	EXPECT_EQ(-EDEADLK, x.destroy);
	EXPECT_FALSE(hal_in_callback());

	/* the stream does not go on before the callback has returned */
	ASSERT_EQ(0, gate_close(&g, x.s));
	gate_await(&g);
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(x.s));
	gate_open(&g);
	ASSERT_EQ(0, hal_stream_sync(x.s, LONG_MS, 0));

	/* unless it was told to */
	g.open = 0;
	g.reached = 0;
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, hal_stream_callback(t, gate_fn, &g, NPU_CALLBACK_NOBLOCK, PLACE));
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	gate_await(&g);
	gate_open(&g);
	EXPECT_EQ(-EINVAL, hal_stream_callback(t, NULL, NULL, 0, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_callback(t, gate_fn, &g, 2, PLACE));
}

/* C-STREAM-8 */
TEST_F(stream, waits_end_in_every_mode)
{
	struct bed *b = &self->b;
	uint64_t s, *word;
	uint32_t mode;
	int i;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 4096, &word);
	for (mode = NPU_WAIT_AUTO; mode <= NPU_WAIT_BLOCK; mode++) {
		for (i = 0; i < 50; i++) {
			ASSERT_EQ(0, hal_stream_fill(s, word, i, 64, PLACE));
			ASSERT_EQ(0, hal_stream_sync(s, FOREVER, mode));
			ASSERT_EQ(0, hal_stream_fill(s, word, i, 64, PLACE));
			ASSERT_EQ(0, hal_stream_sync(s, FOREVER, mode | HAL_WAIT_NO_BORROW));
		}
	}
}

/* C-STREAM-9 */
TEST_F(stream, destroy_drains)
{
	struct bed *b = &self->b;
	uint64_t s, *word, out = 0;
	unsigned int i;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 4096, &word);
	for (i = 0; i < 30; i++)
		ASSERT_EQ(0, hal_stream_fill(s, word, (int)i, 8, PLACE));
	ASSERT_EQ(0, hal_stream_destroy(s, LONG_MS));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(0x1d1d1d1d1d1d1d1dull, out);
	EXPECT_EQ(-ESTALE, hal_stream_fill(s, word, 1, 8, PLACE));
	EXPECT_EQ(-ESTALE, hal_stream_query(s));
	EXPECT_EQ(-ESTALE, hal_stream_sync(s, 0, 0));
	EXPECT_EQ(-ESTALE, hal_stream_destroy(s, 0));
}

struct destroyer {
	uint64_t s;
	int rc;
	_Atomic uint32_t done;
};

static void *destroy_fn(void *arg)
{
	struct destroyer *d = arg;

	d->rc = hal_stream_destroy(d->s, LONG_MS);
	d->done = 1;
	return NULL;
}

/* C-STREAM-9 */
TEST_F(stream, nothing_gets_behind_a_drain)
{
	struct bed *b = &self->b;
	struct destroyer d = { 0 };
	struct hal_point p;
	pthread_t thread;
	struct gate g;
	void *byte;

	STREAM_OR_REFUSED(b, &d.s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, d.s));
	ASSERT_EQ(0, any_byte(b, &byte));
	ASSERT_EQ(0, gate_close(&g, d.s));
	ASSERT_EQ(0, hal_stream_point(d.s, &p, "test"));
	/* out of time: as it was before */
	EXPECT_EQ(-ETIMEDOUT, hal_stream_destroy(d.s, 2));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(d.s));
	EXPECT_EQ(0, gate_close(&g, d.s));

	ASSERT_EQ(0, pthread_create(&thread, NULL, destroy_fn, &d));
	while (hal_stream_query(d.s) == -EINPROGRESS)
		sched_yield();
	EXPECT_EQ(-ESTALE, hal_stream_query(d.s));
	EXPECT_EQ(-ESTALE, any_task(b, d.s, byte));
	EXPECT_EQ(-ESTALE, hal_stream_callback(d.s, gate_fn, &g, 0, PLACE));
	EXPECT_EQ(-ESTALE, hal_stream_destroy(d.s, LONG_MS));
	EXPECT_EQ(0, hal_load_relaxed(&d.done));
	/* a point of a stream that drains can still be asked and waited for */
	EXPECT_EQ(-EINPROGRESS, hal_point_query(&p));
	EXPECT_EQ(-ETIMEDOUT, hal_point_sync(&p, 1, 0));
	gate_open(&g);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, d.rc);
	EXPECT_EQ(0, hal_point_query(&p));
	EXPECT_EQ(0, hal_point_sync(&p, 0, 0));
}

/* C-STREAM-10 */
TEST_F(stream, a_call_that_fails_submits_nothing)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { .flags = NPU_STREAM_NONBLOCK };
	struct hal_point before, after;
	uint64_t s, n, max = b->dev->info.max_queued, sub, done;
	struct gate g;
	void *byte;
	int rc = 0;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, any_byte(b, &byte));
	NOT_BY_THE_THOUSANDS(max);
	ASSERT_EQ(0, hal_stream_create(b->ctx, &attr, &s));
	ASSERT_EQ(0, gate_close(&g, s));
	for (n = 1; n < max + 10 && !rc; n++)
		rc = any_task(b, s, byte);
	EXPECT_EQ(-EAGAIN, rc);
	EXPECT_EQ(max, n - 1);
	ASSERT_EQ(0, hal_stream_point(s, &before, "test"));
	EXPECT_EQ(-EAGAIN, any_task(b, s, byte));
	EXPECT_EQ(-EAGAIN, hal_stream_callback(s, gate_fn, &g, 0, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &after, "test"));
	EXPECT_EQ(before.seq, after.seq);
	EXPECT_EQ(0, hal_stream_progress(s, &sub, &done));
	EXPECT_EQ(max, sub);
	EXPECT_EQ(0, done);
	gate_open(&g);
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, any_task(b, s, byte));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_progress(s, &sub, &done));
	EXPECT_EQ(max + 1, sub);
	EXPECT_EQ(max + 1, done);
}

static void *open_later(void *arg)
{
	sleep_ms(20);
	gate_open(arg);
	return NULL;
}

/* C-STREAM-12 */
TEST_F(stream, a_full_one_is_waited_for)
{
	struct bed *b = &self->b;
	uint64_t s, n, max = b->dev->info.max_queued;
	pthread_t thread;
	struct gate g;
	void *byte;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, any_byte(b, &byte));
	NOT_BY_THE_THOUSANDS(max);
	ASSERT_EQ(0, gate_close(&g, s));
	for (n = 1; n < max; n++)
		ASSERT_EQ(0, any_task(b, s, byte));
	hal_set_op_timeout(5);
	EXPECT_EQ(-ETIMEDOUT, any_task(b, s, byte));
	EXPECT_EQ(-ETIMEDOUT, hal_error_last()->code);
	hal_set_op_timeout(0);
	EXPECT_EQ(-ETIMEDOUT, any_task(b, s, byte));
	hal_set_op_timeout(LONG_MS);
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_later, &g));
	for (n = 0; n < 100; n++)
		EXPECT_EQ(0, any_task(b, s, byte));
	pthread_join(thread, NULL);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	hal_set_op_timeout(FOREVER);
}

TEST_F(stream, submission_refuses)
{
	struct bed *b = &self->b;
	uint32_t max = b->dev->info.args_max;
	struct hal_stream_attr attr = { 0 };
	uint64_t s, other, stranger = 0;
	struct hal_context *ctx;
	char args[8192] = { 0 };

	STREAM_OR_REFUSED(b, &s);
	EXPECT_EQ(-EINVAL, hal_stream_launch(s, b->nop, 0, NULL, 0, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_launch(s, b->nop, 1, NULL, 8, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_launch(s, 0, 1, NULL, 0, PLACE));
	EXPECT_EQ(-EBADF, hal_stream_launch(s, s, 1, NULL, 0, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_launch(0, b->nop, 1, NULL, 0, PLACE));
	EXPECT_EQ(-EBADF, hal_stream_launch(b->ctx_handle, b->nop, 1, NULL, 0, PLACE));
	EXPECT_EQ(-EBADF, hal_stream_launch(s + 2, b->nop, 1, NULL, 0, PLACE));
	EXPECT_EQ(-EBADF, hal_stream_launch(s + 1, b->nop, 1, NULL, 0, PLACE));
	EXPECT_EQ(-EBADF, hal_stream_launch(s | 0xffffffull << 32, b->nop, 1, NULL, 0, PLACE));
	if (!can(b, NPU_CAP_LAUNCH))
		return;
	EXPECT_EQ(-EBADF, hal_stream_launch(s, b->nop + 2, 1, NULL, 0, PLACE));
	ASSERT_LE(max, sizeof(args));
	EXPECT_EQ(-EINVAL, hal_stream_launch(s, b->nop, 1, args, max + 1, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_launch(s, b->nop, 1, args, SIZE_MAX, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_launch(s, b->nop, b->dev->info.blocks_max + 1, NULL, 0,
					     PLACE));
	EXPECT_EQ(0, hal_stream_query(s));
	ASSERT_EQ(0, hal_context_create(b->dev, &stranger));
	ctx = hal_context_get(stranger, "test");
	ASSERT_EQ(0, hal_stream_create(ctx, &attr, &other));
	EXPECT_EQ(-EXDEV, hal_stream_launch(other, b->nop, 1, NULL, 0, PLACE));
	hal_context_put(ctx);
	EXPECT_EQ(0, hal_context_destroy(stranger, LONG_MS));
}

TEST_F(stream, creation_refuses)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { 0 }, bad;
	uint64_t s;

	STREAM_OR_REFUSED(b, &s);
	bad = attr;
	bad.priority = b->dev->info.priorities;
	EXPECT_EQ(-EINVAL, hal_stream_create(b->ctx, &bad, &s));
	EXPECT_EQ(0, s);
	bad = attr;
	bad.flags = 1u << 1;
	EXPECT_EQ(-EINVAL, hal_stream_create(b->ctx, &bad, &s));
	bad = attr;
	bad.fail_mode = (enum npu_fail_mode)2;
	EXPECT_EQ(-EINVAL, hal_stream_create(b->ctx, &bad, &s));
	bad = attr;
	bad.wait_mode = (enum npu_wait_mode)4;
	EXPECT_EQ(-EINVAL, hal_stream_create(b->ctx, &bad, &s));
	bad = attr;
	bad.priority = b->dev->info.priorities - 1;
	EXPECT_EQ(0, hal_stream_create(b->ctx, &bad, &s));
}

TEST_F(stream, limit_of_streams)
{
	struct bed *b = &self->b;
	uint64_t s, more, max = b->dev->info.max_streams, n;
	char text[96];

	STREAM_OR_REFUSED(b, &s);
	NOT_BY_THE_THOUSANDS(max);
	for (n = 1; n < max; n++)
		ASSERT_EQ(0, make_stream(b, &more));
	EXPECT_EQ(-ENOSPC, make_stream(b, &more));
	EXPECT_EQ(0, more);
	snprintf(text, sizeof(text), "no more streams: limit %u, this process %u, others 0",
		 (unsigned int)max, (unsigned int)max);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, text))
		TH_LOG("%s", hal_error_last()->text);
	EXPECT_EQ(0, hal_stream_destroy(s, LONG_MS));
	EXPECT_EQ(0, make_stream(b, &s));
}

/* A slot counts on, so a point of an old stream is done for the next one in it. */
TEST_F(stream, points_outlive_their_stream)
{
	struct bed *b = &self->b;
	struct hal_point p, q;
	uint64_t s, first;
	char *m;
	int i;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 64, &m);
	first = s;
	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, hal_stream_fill(s, m, 1, 64, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_stream_destroy(s, LONG_MS));
	EXPECT_EQ(0, hal_point_query(&p));
	ASSERT_EQ(0, make_stream(b, &s));
	EXPECT_EQ(hal_handle_index(first), hal_handle_index(s));
	EXPECT_NE(first, s);
	EXPECT_EQ(0, hal_point_query(&p));
	EXPECT_EQ(0, hal_point_sync(&p, 0, 0));
	ASSERT_EQ(0, hal_stream_point(s, &q, "test"));
	EXPECT_EQ(p.seq, q.seq);
	q.seq++;
	EXPECT_EQ(-EINVAL, hal_point_sync(&q, 0, 0));
	EXPECT_EQ(-EINVAL, hal_stream_wait_point(s, &q, PLACE));
	q = (struct hal_point){ 0, 0 };
	EXPECT_EQ(0, hal_point_query(&q));
	q = (struct hal_point){ b->ctx_handle, 1 };
	EXPECT_EQ(-EBADF, hal_point_query(&q));
	EXPECT_EQ(-EBADF, hal_point_sync(&q, 0, 0));
	EXPECT_EQ(-EBADF, hal_stream_wait_point(s, &q, PLACE));
}

TEST_F(stream, a_new_handle_for_an_old_stream)
{
	struct bed *b = &self->b;
	struct hal_point p;
	uint64_t s, t;
	char *m;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 64, &m);
	ASSERT_EQ(0, hal_stream_fill(s, m, 1, 64, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_stream_rehandle(s, &t));
	EXPECT_EQ(-ESTALE, hal_stream_query(s));
	EXPECT_EQ(-ESTALE, hal_stream_rehandle(s, &s));
	EXPECT_EQ(0, s);
	EXPECT_EQ(0, hal_point_sync(&p, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_fill(t, m, 2, 64, PLACE));
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_destroy(t, LONG_MS));
}

TEST_F(stream, waits_between_streams)
{
	struct bed *b = &self->b;
	struct hal_point p;
	uint64_t s, t, sub, done;
	char *m, out[64];
	struct gate g;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, make_stream(b, &t));
	MEMORY_OR_REFUSED(b, 64, &m);
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_stream_fill(s, m, 1, 64, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_stream_wait_point(s, &p, PLACE));	/* its own: no task */
	ASSERT_EQ(0, hal_stream_progress(s, &sub, &done));
	EXPECT_EQ(2, sub);
	ASSERT_EQ(0, hal_stream_wait_point(t, &p, PLACE));
	ASSERT_EQ(0, copy_async(t, out, m, 64));
	EXPECT_EQ(-ETIMEDOUT, hal_stream_sync(t, 5, 0));
	EXPECT_EQ(-ETIMEDOUT, hal_stream_sync(t, 0, 0));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(t));
	gate_open(&g);
	ASSERT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(1, out[0]);
	EXPECT_EQ(1, out[63]);
	/* done: no task */
	ASSERT_EQ(0, hal_stream_wait_point(t, &p, PLACE));
	ASSERT_EQ(0, hal_stream_progress(t, &sub, &done));
	EXPECT_EQ(2, sub);
	EXPECT_EQ(-EINVAL, hal_stream_wait_point(0, &p, PLACE));
	EXPECT_EQ(-EBADF, hal_stream_wait_point(t + 2, &p, PLACE));
}

/* C-STREAM-14 */
TEST_ABOUT(stream, completions_as_descriptors, NPU_CAP_COMPLETION_FD)
{
	struct bed *b = &self->b;
	struct hal_point p;
	struct pollfd pfd;
	struct gate g;
	uint64_t s, n;
	char *m;
	int fd;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 64, &m);
	fd = hal_sys_eventfd();
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, hal_stream_fill(s, m, 1, 64, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	if (!can(b, NPU_CAP_COMPLETION_FD)) {
		EXPECT_EQ(-EOPNOTSUPP, hal_point_notify(&p, fd));
		close(fd);
		return;
	}
	if (!can(b, NPU_CAP_CALLBACK)) {
		ASSERT_EQ(0, hal_point_notify(&p, fd));
		EXPECT_EQ(8, read(fd, &n, 8));
		close(fd);
		return;
	}
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_point_notify(&p, fd));
	pfd = (struct pollfd){ .fd = fd, .events = POLLIN };
	EXPECT_EQ(0, poll(&pfd, 1, 5));
	gate_open(&g);
	EXPECT_EQ(1, poll(&pfd, 1, LONG_MS));
	EXPECT_EQ(8, read(fd, &n, 8));
	EXPECT_EQ(1, n);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	/* done already */
	EXPECT_EQ(0, hal_point_notify(&p, fd));
	EXPECT_EQ(1, poll(&pfd, 1, LONG_MS));
	EXPECT_EQ(8, read(fd, &n, 8));
	EXPECT_EQ(-EBADF, hal_point_notify(&p, -1));
	/* and gone */
	EXPECT_EQ(0, hal_stream_destroy(s, LONG_MS));
	EXPECT_EQ(0, hal_point_notify(&p, fd));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	close(fd);
}

static void append(void *arg)
{
	struct seen *x = arg;

	x->step = x->step * 10 + (uint32_t)x->count;
}

TEST_ABOUT(stream, abort_discards, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	uint64_t s, sub, done;
	int i;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_ABORT, hal_stream_abort(s, 5000));
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, launch_delay(b, s, 60ull * 1000000000u));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, launch_delay(b, s, 60ull * 1000000000u));
	ASSERT_EQ(0, hal_stream_abort(s, 5000));
	EXPECT_EQ(0, hal_stream_query(s));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_progress(s, &sub, &done));
	EXPECT_EQ(12, sub);
	EXPECT_EQ(12, done);
	EXPECT_EQ(0, launch_nop(b, s));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-EINVAL, hal_stream_abort(0, 5000));
}

TEST_F(stream, handles_that_are_none)
{
	struct bed *b = &self->b;
	uint64_t s, bad[4], x, y;
	struct hal_point p;
	unsigned int i;

	STREAM_OR_REFUSED(b, &s);
	bad[0] = b->ctx_handle;
	bad[1] = s + 2;
	bad[2] = s & ~0xffffffffull;
	bad[3] = s | 0xfffffull << 32;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EBADF, hal_stream_query(bad[i]));
		EXPECT_EQ(-EBADF, hal_stream_sync(bad[i], 0, 0));
		EXPECT_EQ(-EBADF, hal_stream_destroy(bad[i], 0));
		EXPECT_EQ(-EBADF, hal_stream_point(bad[i], &p, "test"));
		EXPECT_EQ(-EBADF, hal_stream_abort(bad[i], 5000));
		EXPECT_EQ(-EBADF, hal_stream_rehandle(bad[i], &x));
		EXPECT_EQ(-EBADF, hal_stream_progress(bad[i], &x, &y));
		EXPECT_EQ(-EBADF, hal_stream_callback(bad[i], append, NULL, 0, PLACE));
		EXPECT_EQ(-EBADF, hal_error_last()->code);
	}
	EXPECT_EQ(-EINVAL, hal_stream_query(0));
	EXPECT_EQ(-EINVAL, hal_stream_sync(0, 0, 0));
	EXPECT_EQ(-EINVAL, hal_stream_destroy(0, 0));
	EXPECT_EQ(NULL, hal_stream_get(0, "test"));
	hal_stream_put(NULL);
}

struct pusher {
	struct bed *b;
	uint64_t s;
	uint64_t *word;
	int rc;
};

static void *push(void *arg)
{
	struct pusher *p = arg;
	int i;

	for (i = 0; i < 2000 && !p->rc; i++)
		p->rc = launch_inc(p->b, p->s, p->word, 1);
	return NULL;
}

TEST_F(stream, many_threads_submit_to_one)
{
	struct bed *b = &self->b;
	struct pusher p[4];
	pthread_t t[4];
	uint64_t s, *word, out = 0;
	unsigned int i;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 64, &word);
	if (!can(b, NPU_CAP_LAUNCH))
		return;
	for (i = 0; i < 4; i++) {
		p[i] = (struct pusher){ b, s, word, 0 };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, push, &p[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		EXPECT_EQ(0, p[i].rc);
	}
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(8000, out);
}

TEST_HARNESS_MAIN
