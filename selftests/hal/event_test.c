// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: events.
 */
#include <pthread.h>

#include "selftests/hal/bed.h"

CONFORMANCE(event)

/* C-EVENT-3 */
TEST_F(event, never_recorded_is_done)
{
	uint64_t ev, s;
	struct hal_point p;
	struct hal_device *dev;

	ASSERT_EQ(0, hal_event_create(0, &ev));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(0, hal_event_sync(ev, 0, 0));
	EXPECT_EQ(0, hal_event_point(ev, &p, "test"));
	EXPECT_EQ(0, p.seq);
	EXPECT_EQ(0, hal_event_device(ev, &dev));
	EXPECT_EQ(NULL, dev);
	if (can(&self->b, NPU_CAP_STREAM)) {
		ASSERT_EQ(0, make_stream(&self->b, &s));
		EXPECT_EQ(0, hal_stream_wait_event(s, ev, PLACE));
	}
	EXPECT_EQ(0, hal_event_destroy(ev));
}

TEST_F(event, follows_the_stream)
{
	struct bed *b = &self->b;
	struct hal_device *dev;
	uint64_t s, ev;
	struct gate g;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, hal_event_create(0, &ev));
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	EXPECT_EQ(-EINPROGRESS, hal_event_query(ev));
	EXPECT_EQ(-ETIMEDOUT, hal_event_sync(ev, 2, 0));
	EXPECT_EQ(0, hal_event_device(ev, &dev));
	EXPECT_EQ(b->dev, dev);
	gate_open(&g);
	EXPECT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(0, hal_event_destroy(ev));
}

/* C-EVENT-2 */
TEST_F(event, a_record_replaces_the_one_before)
{
	struct bed *b = &self->b;
	uint64_t s, t, u, ev, *word, out = 0;
	struct gate g;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, make_stream(b, &u));
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, hal_event_create(0, &ev));
	ASSERT_EQ(0, gate_close(&g, s));
	gate_await(&g);
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	/* u waits for the point in s, and keeps it */
	ASSERT_EQ(0, hal_stream_wait_event(u, ev, PLACE));
	ASSERT_EQ(0, hal_stream_fill(u, word, 1, 8, PLACE));
	/* the event is t's now, where nothing is to be done */
	ASSERT_EQ(0, hal_event_record(ev, t, PLACE));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(0, hal_event_sync(ev, 0, 0));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(u));
	EXPECT_EQ(0, hal_event_destroy(ev));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(u));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_sync(u, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(0x0101010101010101ull, out);
}

TEST_F(event, outlives_its_stream)
{
	struct bed *b = &self->b;
	uint64_t s, ev;
	char *m;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 64, &m);
	ASSERT_EQ(0, hal_event_create(0, &ev));
	ASSERT_EQ(0, hal_stream_fill(s, m, 1, 64, PLACE));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_stream_destroy(s, LONG_MS));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(0, hal_event_sync(ev, 0, 0));
	ASSERT_EQ(0, make_stream(b, &s));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(0, hal_stream_wait_event(s, ev, PLACE));
	EXPECT_EQ(0, hal_event_destroy(ev));
}

TEST_F(event, tells_of_failures)
{
	struct bed *b = &self->b;
	uint64_t s, ev;

	STREAM_OR_REFUSED(b, &s);
	ASSERT_EQ(0, hal_event_create(0, &ev));
	if (can(b, NPU_CAP_LAUNCH)) {
		ASSERT_EQ(0, launch_bad(b, s));
		ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
		while (hal_event_query(ev) == -EINPROGRESS)
			sched_yield();
		EXPECT_EQ(-EFAULT, hal_event_query(ev));
		EXPECT_EQ(-EFAULT, hal_event_sync(ev, LONG_MS, 0));
		EXPECT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
		EXPECT_EQ(0, hal_event_query(ev));
	}
	EXPECT_EQ(0, hal_event_destroy(ev));
}

/* Without the capability a timed event can be made, for it has no device, but not recorded. */
#define TIMED_OR_REFUSED(b, s, ev)						\
	do {									\
		STREAM_OR_REFUSED((b), (s));					\
		ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, (ev)));		\
		if (!can((b), NPU_CAP_EVENT_TIMING)) {				\
			ASSERT_EQ(-EOPNOTSUPP, hal_event_record(*(ev), *(s), PLACE));	\
			ASSERT_EQ(0, hal_event_query(*(ev)));			\
			ASSERT_EQ(0, hal_event_destroy(*(ev)));			\
			return;							\
		}								\
	} while (0)

/* C-EVENT-1 C-EVENT-4 */
TEST_ABOUT(event, time_goes_forward, NPU_CAP_EVENT_TIMING)
{
	struct bed *b = &self->b;
	uint64_t s, a, z, before, after, ta, tz;
	int64_t ns;
	int i;

	TIMED_OR_REFUSED(b, &s, &a);
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &z));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, hal_device_time(b->dev, &before));
		ASSERT_EQ(0, hal_event_record(a, s, PLACE));
		if (can(b, NPU_CAP_LAUNCH))
			ASSERT_EQ(0, launch_delay(b, s, 100000));
		ASSERT_EQ(0, hal_event_record(z, s, PLACE));
		ASSERT_EQ(0, hal_event_sync(z, LONG_MS, 0));
		ASSERT_EQ(0, hal_device_time(b->dev, &after));
		ASSERT_EQ(0, hal_event_timestamp(a, &ta));
		ASSERT_EQ(0, hal_event_timestamp(z, &tz));
		ASSERT_EQ(0, hal_event_elapsed(a, z, &ns));
		EXPECT_EQ((int64_t)(tz - ta), ns);
		EXPECT_LE(before, ta);
		EXPECT_LE(ta, tz);
		EXPECT_LE(tz, after);
		EXPECT_LE(can(b, NPU_CAP_LAUNCH) ? 100000 : 0, ns);
		ASSERT_EQ(0, hal_event_elapsed(z, a, &ns));
		EXPECT_EQ((int64_t)(ta - tz), ns);
	}
	EXPECT_EQ(0, hal_event_destroy(a));
	EXPECT_EQ(0, hal_event_destroy(z));
}

/* The gate is the caller's to close; without callbacks the event goes before the test ends. */
#define GATE_OR_REFUSED(b, s, g, ev)						\
	do {									\
		if (!can((b), NPU_CAP_CALLBACK)) {				\
			EXPECT_EQ(-EOPNOTSUPP, gate_close((g), (s)));		\
			EXPECT_EQ(0, hal_event_destroy(ev));			\
			return;							\
		}								\
	} while (0)

TEST_ABOUT(event, time_refuses, NPU_CAP_EVENT_TIMING)
{
	struct bed *b = &self->b;
	uint64_t s, t, timed, plain, other, ns = 1;
	int64_t d = 1;
	struct gate g;

	TIMED_OR_REFUSED(b, &s, &timed);
	GATE_OR_REFUSED(b, s, &g, timed);
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, hal_event_create(0, &plain));
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &other));
	EXPECT_EQ(-EINVAL, hal_event_timestamp(timed, &ns));	/* not recorded */
	EXPECT_EQ(0, ns);
	ASSERT_EQ(0, hal_event_record(other, t, PLACE));
	ASSERT_EQ(0, hal_event_sync(other, LONG_MS, 0));
	EXPECT_EQ(-EINVAL, hal_event_elapsed(other, timed, &d));
	EXPECT_EQ(-EINVAL, hal_event_elapsed(timed, other, &d));
	EXPECT_EQ(0, d);
	ASSERT_EQ(0, hal_event_record(plain, s, PLACE));
	EXPECT_EQ(-EINVAL, hal_event_timestamp(plain, &ns));
	EXPECT_EQ(-EINVAL, hal_event_elapsed(plain, other, &d));
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_event_record(timed, s, PLACE));
	EXPECT_EQ(-EINPROGRESS, hal_event_timestamp(timed, &ns));
	EXPECT_EQ(-EINPROGRESS, hal_event_elapsed(other, timed, &d));
	EXPECT_EQ(-EINPROGRESS, hal_event_elapsed(timed, other, &d));
	gate_open(&g);
	ASSERT_EQ(0, hal_event_sync(timed, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_elapsed(other, timed, &d));
	EXPECT_LE(0, d);
	EXPECT_EQ(0, hal_event_destroy(plain));
	EXPECT_EQ(0, hal_event_destroy(timed));
	EXPECT_EQ(0, hal_event_destroy(other));
	EXPECT_EQ(-ESTALE, hal_event_elapsed(other, timed, &d));
	EXPECT_EQ(-EINVAL, hal_event_create(4, &plain));
	EXPECT_EQ(0, plain);
}

/* A record on its way keeps what it writes to, whoever is first. */
TEST_ABOUT(event, destroyed_while_a_record_is_on_its_way, NPU_CAP_EVENT_TIMING)
{
	struct bed *b = &self->b;
	uint64_t s, ev, old;
	struct gate g;
	int i;

	TIMED_OR_REFUSED(b, &s, &ev);
	GATE_OR_REFUSED(b, s, &g, ev);
	ASSERT_EQ(0, gate_close(&g, s));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
		ASSERT_EQ(0, hal_event_destroy(ev));
		old = ev;
		EXPECT_EQ(-ESTALE, hal_event_query(old));
		EXPECT_EQ(-ESTALE, hal_event_record(old, s, PLACE));
		EXPECT_EQ(-ESTALE, hal_event_destroy(old));
		ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &ev));
	}
	gate_open(&g);
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, hal_event_destroy(ev));
	/* what was put aside is made room of: none of the device's events is lost */
	for (i = 0; i < 40; i++) {
		ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &ev));
		ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
		ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		ASSERT_EQ(0, hal_event_destroy(ev));
	}
}

/* The time is that of the last record, though one in another stream comes later. */
TEST_ABOUT(event, recorded_anew_in_another_stream, NPU_CAP_EVENT_TIMING)
{
	struct bed *b = &self->b;
	uint64_t s, t, ev, first, again;
	struct gate g;

	TIMED_OR_REFUSED(b, &s, &ev);
	GATE_OR_REFUSED(b, s, &g, ev);
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_event_record(ev, t, PLACE));
	ASSERT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	ASSERT_EQ(0, hal_event_timestamp(ev, &first));
	sleep_ms(2);
	gate_open(&g);
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, hal_event_timestamp(ev, &again));
	EXPECT_EQ(first, again);
	EXPECT_EQ(0, hal_event_destroy(ev));
}

/* In another context of the device it gets another part; on another device it is refused. */
TEST_ABOUT(event, other_contexts_and_devices, NPU_CAP_EVENT_TIMING)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { 0 };
	struct hal_context *ctx;
	struct hal_device *dev;
	uint64_t s, t, ev, fresh, c, ns;
	int64_t d;
	uint32_t n;

	TIMED_OR_REFUSED(b, &s, &ev);
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_context_create(b->dev, &c));
	ctx = hal_context_get(c, "test");
	ASSERT_EQ(0, hal_stream_create(ctx, &attr, &t));
	ASSERT_EQ(0, hal_event_record(ev, t, PLACE));
	ASSERT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_timestamp(ev, &ns));
	hal_context_put(ctx);
	EXPECT_EQ(0, hal_context_destroy(c, LONG_MS));
	EXPECT_EQ(-ESTALE, hal_event_query(ev));	/* it was the context's in the end */

	ASSERT_EQ(0, hal_driver_count(b->drv, &n));
	if (n < 2)
		return;
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &ev));
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &fresh));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_device_open(b->drv, 1, &dev));
	ASSERT_EQ(0, hal_context_create(dev, &c));
	ctx = hal_context_get(c, "test");
	ASSERT_EQ(0, hal_stream_create(ctx, &attr, &t));
	EXPECT_EQ(-EXDEV, hal_event_record(ev, t, PLACE));
	EXPECT_EQ(0, hal_stream_wait_event(t, ev, PLACE));
	ASSERT_EQ(0, hal_event_record(fresh, t, PLACE));
	ASSERT_EQ(0, hal_event_sync(fresh, LONG_MS, 0));
	ASSERT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	EXPECT_EQ(-EXDEV, hal_event_elapsed(ev, fresh, &d));
	hal_context_put(ctx);
	EXPECT_EQ(0, hal_context_destroy(c, LONG_MS));
	hal_device_put(dev);
	EXPECT_EQ(0, hal_event_destroy(ev));
	EXPECT_EQ(-ESTALE, hal_event_destroy(fresh));
}

TEST_ABOUT(event, limit_of_timed_events, NPU_CAP_EVENT_TIMING)
{
	struct bed *b = &self->b;
	uint64_t s, ev, max = b->dev->info.max_events, i, *evs;
	char text[96];

	TIMED_OR_REFUSED(b, &s, &ev);
	if (NPU_TEST_TSAN && max > 8192) {
		EXPECT_EQ(0, hal_event_destroy(ev));
		NOT_BY_THE_THOUSANDS(max);
	}
	evs = calloc(max + 1, sizeof(*evs));
	ASSERT_NE(NULL, evs);
	for (i = 0; i < max; i++) {
		ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &evs[i]));
		ASSERT_EQ(0, hal_event_record(evs[i], s, PLACE));
	}
	EXPECT_EQ(-ENOSPC, hal_event_record(ev, s, PLACE));
	snprintf(text, sizeof(text), "no more timed events: limit %u, this process %u, others 0",
		 (unsigned int)max, (unsigned int)max);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, text))
		TH_LOG("%s", hal_error_last()->text);
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_destroy(evs[0]));
	EXPECT_EQ(0, hal_event_record(ev, s, PLACE));
	for (i = 1; i < max; i++)
		EXPECT_EQ(0, hal_event_destroy(evs[i]));
	EXPECT_EQ(0, hal_event_destroy(ev));
	free(evs);
}

TEST_F(event, handles_that_are_none)
{
	struct bed *b = &self->b;
	uint64_t s = 0, ev, bad[4], ns;
	struct hal_device *dev;
	struct hal_point p;
	int64_t d;
	unsigned int i;

	ASSERT_EQ(0, hal_event_create(0, &ev));
	if (can(b, NPU_CAP_STREAM))
		ASSERT_EQ(0, make_stream(b, &s));
	bad[0] = b->ctx_handle;
	bad[1] = ev + 2;
	bad[2] = ev & ~0xffffffffull;
	bad[3] = ev | 0xfffffull << 32;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EBADF, hal_event_query(bad[i]));
		EXPECT_EQ(-EBADF, hal_event_sync(bad[i], 0, 0));
		EXPECT_EQ(-EBADF, hal_event_destroy(bad[i]));
		EXPECT_EQ(-EBADF, hal_event_point(bad[i], &p, "test"));
		EXPECT_EQ(-EBADF, hal_event_record(bad[i], s, PLACE));
		EXPECT_EQ(-EBADF, hal_event_timestamp(bad[i], &ns));
		EXPECT_EQ(-EBADF, hal_event_elapsed(bad[i], bad[i], &d));
		EXPECT_EQ(-EBADF, hal_event_device(bad[i], &dev));
		EXPECT_EQ(-EBADF, hal_stream_wait_event(s, bad[i], PLACE));
	}
	EXPECT_EQ(-EINVAL, hal_event_query(0));
	EXPECT_EQ(-EINVAL, hal_event_destroy(0));
	EXPECT_EQ(-EINVAL, hal_event_record(ev, 0, PLACE));
	EXPECT_EQ(-EBADF, hal_event_record(ev, ev, PLACE));
	EXPECT_EQ(0, hal_event_destroy(ev));
}

struct racer {
	uint64_t s, ev;
	_Atomic bool stop;
	int rc;
};

static void *race_fn(void *arg)
{
	struct racer *r = arg;

	while (!r->stop && !r->rc)
		r->rc = hal_event_record(r->ev, r->s, 0);
	return NULL;
}

/* A point is read whole, whoever records meanwhile. */
TEST_F(event, points_are_never_torn)
{
	struct bed *b = &self->b;
	struct racer r[2];
	struct hal_point p;
	pthread_t t[2];
	uint64_t ev;
	char *m;
	int i;

	STREAM_OR_REFUSED(b, &r[0].s);
	ASSERT_EQ(0, make_stream(b, &r[1].s));
	MEMORY_OR_REFUSED(b, 64, &m);
	for (i = 0; i < 10; i++)	/* so that each stream has its own number */
		ASSERT_EQ(0, hal_stream_fill(r[1].s, m, 0, 64, PLACE));
	ASSERT_EQ(0, hal_event_create(0, &ev));
	ASSERT_EQ(0, hal_event_record(ev, r[0].s, PLACE));
	for (i = 0; i < 2; i++) {
		r[i].ev = ev;
		r[i].stop = false;
		r[i].rc = 0;
		ASSERT_EQ(0, pthread_create(&t[i], NULL, race_fn, &r[i]));
	}
	for (i = 0; i < 200000; i++) {
		ASSERT_EQ(0, hal_event_point(ev, &p, "test"));
		ASSERT_TRUE(p.stream == r[0].s || p.stream == r[1].s);
		ASSERT_EQ(p.stream == r[1].s ? 10 : 0, p.seq);
	}
	for (i = 0; i < 2; i++) {
		r[i].stop = true;
		pthread_join(t[i], NULL);
		EXPECT_EQ(0, r[i].rc);
	}
	EXPECT_EQ(0, hal_event_destroy(ev));
}

TEST_HARNESS_MAIN
