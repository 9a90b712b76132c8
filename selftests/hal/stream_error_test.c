// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: failures of tasks, who is told of them, and how often.
 */
#include <pthread.h>

#include "selftests/hal/bed.h"

CONFORMANCE(stream_error)

/* A stream in which tasks can fail; without launches there is nothing that fails. */
#define FAILING_STREAM_OR_REFUSED(b, s)						\
	do {									\
		STREAM_OR_REFUSED((b), (s));					\
		LAUNCH_IN_STREAM_OR_REFUSED((b), *(s));				\
	} while (0)

/* C-KERNEL-3 */
TEST_F(stream_error, told_once_by_the_first_wait)
{
	struct bed *b = &self->b;
	const struct hal_error *e;
	struct hal_point p;
	struct npu_simnpu_inc_args bad = { 64, 1 };
	const uint64_t place = 0x5eed;	/* whatever the caller says */
	uint64_t s;

	FAILING_STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, hal_tag_set("failing"));
	ASSERT_EQ(0, launch_nop(b, s));
	ASSERT_EQ(0, hal_stream_launch(s, b->inc, 1, &bad, sizeof(bad), place));
	ASSERT_EQ(0, hal_tag_set("later"));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, launch_nop(b, s));
	while (hal_stream_query(s) == -EINPROGRESS)
		sched_yield();
	/* queries tell, and go on telling */
	EXPECT_EQ(-EFAULT, hal_stream_query(s));
	EXPECT_EQ(-EFAULT, hal_stream_query(s));
	EXPECT_EQ(-EFAULT, hal_point_query(&p));
	hal_error_clear();
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	e = hal_error_last();
	EXPECT_EQ(-EFAULT, e->code);
	EXPECT_EQ(s, e->stream);
	EXPECT_EQ(p.seq, e->seq);
	EXPECT_EQ(0, e->origin_stream);
	EXPECT_EQ(hal_load_relaxed(&b->dev->ordinal), e->device);
	EXPECT_EQ(64, e->addr);
	EXPECT_EQ(place, e->place);
	EXPECT_STREQ("launch", e->op);
	EXPECT_STREQ("failing", e->tag);
	EXPECT_NE(NULL, strstr(e->text, "EFAULT"));
	EXPECT_EQ(NULL, strchr(e->text, '\n'));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_query(s));
	EXPECT_EQ(0, hal_point_query(&p));
	/* the stream runs on */
	EXPECT_EQ(0, launch_nop(b, s));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	/* a task without a tag does not get that of who waits for it */
	ASSERT_EQ(0, hal_tag_set(NULL));
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, hal_tag_set("waiting"));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_STREQ("", hal_error_last()->tag);
	EXPECT_EQ(-EINVAL, hal_stream_sync(0, LONG_MS, 0));
	EXPECT_STREQ("waiting", hal_error_last()->tag);
}

TEST_F(stream_error, only_waits_that_cover_it)
{
	struct bed *b = &self->b;
	struct hal_point good, bad;
	uint64_t s;

	FAILING_STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, launch_nop(b, s));
	ASSERT_EQ(0, hal_stream_point(s, &good, "test"));
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, hal_stream_point(s, &bad, "test"));
	while (hal_point_query(&bad) == -EINPROGRESS)
		sched_yield();
	EXPECT_EQ(0, hal_point_query(&good));
	EXPECT_EQ(0, hal_point_sync(&good, LONG_MS, 0));
	EXPECT_EQ(-EFAULT, hal_point_query(&bad));
	EXPECT_EQ(-EFAULT, hal_point_sync(&bad, LONG_MS, 0));
	EXPECT_EQ(0, hal_point_sync(&bad, LONG_MS, 0));
}

TEST_F(stream_error, several_are_counted)
{
	struct bed *b = &self->b;
	struct hal_point first;
	uint64_t s;

	FAILING_STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, hal_stream_point(s, &first, "test"));
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, launch_bad(b, s));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(first.seq, hal_error_last()->seq);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "2 more failed"));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
}

/* The first is the record; the others are behind it, in the order of the tasks. */
TEST_F(stream_error, several_are_listed_in_order)
{
	struct bed *b = &self->b;
	struct hal_point p[4];
	struct hal_error e;
	char tag[8];
	uint64_t s;
	int i;

	FAILING_STREAM_OR_REFUSED(b, &s);
	EXPECT_EQ(-ENOENT, hal_report_next(&e));
	for (i = 0; i < 4; i++) {
		snprintf(tag, sizeof(tag), "t%d", i);
		ASSERT_EQ(0, hal_tag_set(tag));
		ASSERT_EQ(0, launch_bad(b, s));
		ASSERT_EQ(0, hal_stream_point(s, &p[i], "test"));
		ASSERT_EQ(0, launch_nop(b, s));
	}
	hal_tag_set(NULL);
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(p[0].seq, hal_error_last()->seq);
	EXPECT_EQ(3, hal_error_last()->more);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "(launch, tag t0) failed: EFAULT"));
	/* what fails in between is not among them, and a wait that reports nothing ends nothing */
	EXPECT_EQ(-EINVAL, hal_stream_sync(0, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	for (i = 1; i < 4; i++) {
		snprintf(tag, sizeof(tag), "t%d", i);
		ASSERT_EQ(0, hal_report_next(&e));
		EXPECT_EQ(-EFAULT, e.code);
		EXPECT_EQ(s, e.stream);
		EXPECT_EQ(p[i].seq, e.seq);
		EXPECT_EQ(3 - (uint64_t)i, e.more);
		EXPECT_EQ(BAD_PLACE, e.place);
		EXPECT_STREQ("launch", e.op);
		EXPECT_STREQ(tag, e.tag);
	}
	EXPECT_EQ(-ENOENT, hal_report_next(&e));
	EXPECT_EQ(-EINVAL, hal_error_last()->code);
	/* one alone ends the older list */
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, launch_bad(b, s));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, launch_bad(b, s));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-ENOENT, hal_report_next(&e));
	/* and so does clearing it */
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, launch_bad(b, s));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	hal_report_clear();
	EXPECT_EQ(-ENOENT, hal_report_next(&e));
}

/* Up to 16 are told one by one, and all are counted; of two streams one after the other. */
TEST_F(stream_error, many_are_counted_behind_the_list)
{
	struct bed *b = &self->b;
	struct hal_error e;
	uint64_t s[2], from, last = 0, told = 1, turns = 0;
	unsigned int i, k;

	FAILING_STREAM_OR_REFUSED(b, &s[0]);
	ASSERT_EQ(0, make_stream(b, &s[1]));
	for (k = 0; k < 2; k++)
		for (i = 0; i < 12; i++)
			ASSERT_EQ(0, launch_bad(b, s[k]));
	EXPECT_EQ(-EFAULT, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(23, hal_error_last()->more);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "23 more failed"));
	e = *hal_error_last();
	from = e.stream;
	do {
		if (e.stream != from) {
			turns++;
			last = 0;
		}
		EXPECT_LT(last, e.seq);
		last = e.seq;
		from = e.stream;
		EXPECT_EQ(24 - told, e.more);
		told++;
	} while (!hal_report_next(&e));
	/* drivers keep as many as they have room for: 8 of a stream, at least */
	EXPECT_EQ(16, told - 1);
	EXPECT_EQ(1, turns);
	EXPECT_EQ(0, hal_context_sync(b->ctx, LONG_MS, 0));
}

/* Waits that belong together make one list. */
TEST_F(stream_error, joined_waits_make_one_list)
{
	struct bed *b = &self->b;
	struct hal_error e;
	uint64_t s, t, outer, inner;

	FAILING_STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, launch_bad(b, t));
	ASSERT_EQ(0, launch_bad(b, t));
	outer = hal_report_join();
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	inner = hal_report_join();
	EXPECT_EQ(0, hal_report_leave(inner));
	inner = hal_report_join();
	EXPECT_EQ(-EFAULT, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(-EFAULT, hal_report_leave(inner));
	EXPECT_EQ(-EINVAL, hal_stream_sync(0, LONG_MS, 0));
	EXPECT_EQ(-EFAULT, hal_report_leave(outer));
	EXPECT_EQ(s, hal_error_last()->stream);
	EXPECT_EQ(2, hal_error_last()->more);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "2 more failed"));
	ASSERT_EQ(0, hal_report_next(&e));
	EXPECT_EQ(t, e.stream);
	ASSERT_EQ(0, hal_report_next(&e));
	EXPECT_EQ(t, e.stream);
	EXPECT_EQ(0, e.more);
	EXPECT_EQ(-ENOENT, hal_report_next(&e));
	/* the next join starts anew */
	outer = hal_report_join();
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_report_leave(outer));
	EXPECT_EQ(-ENOENT, hal_report_next(&e));
}

/* C-STREAM-13 */
TEST_F(stream_error, more_than_anybody_keeps)
{
	struct bed *b = &self->b;
	uint64_t s;
	int i, round;

	FAILING_STREAM_OR_REFUSED(b, &s);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 60; i++)
			ASSERT_EQ(0, launch_bad(b, s));
		while (hal_stream_query(s) == -EINPROGRESS)
			sched_yield();
		EXPECT_EQ(-EFAULT, hal_stream_query(s));
		EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
		EXPECT_NE(NULL, strstr(hal_error_last()->text, "more failed"));
		EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		EXPECT_EQ(0, hal_stream_query(s));
	}
}

struct waiter {
	uint64_t s;
	int rc;
	uint64_t seq;
	_Atomic uint32_t started;
};

static void *wait_fn(void *arg)
{
	struct waiter *w = arg;

	w->started = 1;
	w->rc = hal_stream_sync(w->s, LONG_MS, NPU_WAIT_BLOCK);
	w->seq = hal_error_last()->seq;
	return NULL;
}

TEST_F(stream_error, waits_under_way_learn_of_it_too)
{
	struct bed *b = &self->b;
	struct waiter w[3];
	pthread_t t[3];
	struct gate g;
	unsigned int i, told = 0;
	uint64_t s;

	FAILING_STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	/* started is not yet waiting: who is late learns of nothing; until none of them is */
	while (told < 3) {
		ASSERT_EQ(0, gate_close(&g, s));
		ASSERT_EQ(0, launch_bad(b, s));
		for (i = 0; i < 3; i++) {
			w[i] = (struct waiter){ .s = s };
			ASSERT_EQ(0, pthread_create(&t[i], NULL, wait_fn, &w[i]));
		}
		for (i = 0; i < 3; i++)
			while (!w[i].started)
				sched_yield();
		sleep_ms(50);
		gate_open(&g);
		for (i = 0, told = 0; i < 3; i++) {
			pthread_join(t[i], NULL);
			ASSERT_TRUE(!w[i].rc || w[i].rc == -EFAULT);
			told += w[i].rc == -EFAULT;
			EXPECT_EQ(w[i].rc == -EFAULT, w[i].seq > 0);
		}
		ASSERT_LE(1, told);
		EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	}
}

TEST_F(stream_error, mode_stop_is_sticky)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { .fail_mode = NPU_FAIL_STOP };
	uint64_t s, *word, out = 1;

	FAILING_STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, hal_stream_create(b->ctx, &attr, &s));
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, launch_inc(b, s, word, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-EFAULT, hal_stream_query(s));
	ASSERT_EQ(0, launch_inc(b, s, word, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(0, out);
	if (can(b, NPU_CAP_ABORT)) {
		ASSERT_EQ(0, hal_stream_abort(s, 5000));
		EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		ASSERT_EQ(0, launch_inc(b, s, word, 1));
		EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		ASSERT_EQ(0, copy_now(b, &out, word, 8));
		EXPECT_EQ(1, out);
	}
	EXPECT_EQ(0, hal_stream_destroy(s, LONG_MS));
}

/* C-STREAM-5 */
TEST_F(stream_error, who_waited_runs_on_and_tells_the_origin)
{
	struct bed *b = &self->b;
	uint64_t s, t, *word, out = 0;
	struct hal_point p;
	struct gate g;

	FAILING_STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, make_stream(b, &t));
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_stream_wait_point(t, &p, PLACE));
	ASSERT_EQ(0, launch_inc(b, t, word, 7));
	gate_open(&g);
	EXPECT_EQ(-EFAULT, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(t, hal_error_last()->stream);
	EXPECT_EQ(s, hal_error_last()->origin_stream);
	EXPECT_EQ(p.seq, hal_error_last()->origin_seq);
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(7, out);
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	/* the stream where it happened has its own to tell */
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_error_last()->origin_stream);

	/* a point that is done and failed is no reason to skip the wait, until told */
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	while (hal_point_query(&p) == -EINPROGRESS)
		sched_yield();
	ASSERT_EQ(0, hal_stream_wait_point(t, &p, PLACE));
	EXPECT_EQ(-EFAULT, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, hal_stream_wait_point(t, &p, PLACE));
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
}

/* A failure that nobody waited for does not reach the next stream in the slot. */
TEST_F(stream_error, destroy_forgets)
{
	struct bed *b = &self->b;
	struct hal_point p;
	uint64_t s;

	FAILING_STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	EXPECT_EQ(0, hal_stream_destroy(s, LONG_MS));
	EXPECT_EQ(0, hal_point_query(&p));
	ASSERT_EQ(0, make_stream(b, &s));
	EXPECT_EQ(0, hal_stream_query(s));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_point_sync(&p, LONG_MS, 0));
}

struct storm {
	struct bed *b;
	uint64_t s;
	_Atomic uint32_t told;
	_Atomic bool stop;
};

static void *storm_fn(void *arg)
{
	struct storm *x = arg;

	while (!x->stop)
		if (hal_stream_sync(x->s, LONG_MS, 0) == -EFAULT)
			x->told++;
	return NULL;
}

/* However many wait, each failure is told of. */
TEST_F(stream_error, none_is_lost_among_waiters)
{
	struct bed *b = &self->b;
	struct storm x = { .b = b };
	pthread_t t[2];
	int i, told = 0;

	FAILING_STREAM_OR_REFUSED(b, &x.s);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, storm_fn, &x));
	for (i = 0; i < 300; i++) {
		uint32_t before = x.told;

		ASSERT_EQ(0, launch_bad(b, x.s));
		if (hal_stream_sync(x.s, LONG_MS, 0) == -EFAULT) {
			told++;
			continue;
		}
		/* then another one was told */
		while (x.told == before)
			sched_yield();
	}
	x.stop = true;
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	EXPECT_LE(300, told + (int)x.told);
	EXPECT_EQ(0, hal_stream_sync(x.s, LONG_MS, 0));
}

TEST_HARNESS_MAIN
