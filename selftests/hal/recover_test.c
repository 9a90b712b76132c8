// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: stopping and restarting a device, aborting a stream.
 */
#include <pthread.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

#define MINUTE 60000000000ull

CONFORMANCE(recover)

/* A thread that waits, and how that ended. */
struct waiter {
	struct bed *b;
	uint64_t s;
	pthread_t thread;
	_Atomic int begun;
	int rc;
	char text[HAL_ERROR_TEXT];
};

static void *wait_for_stream(void *arg)
{
	struct waiter *w = arg;

	w->begun = 1;
	if (w->s)
		w->rc = hal_stream_sync(w->s, LONG_MS, 0);
	else
		w->rc = hal_context_sync(w->b->ctx, LONG_MS, 0);
	strcpy(w->text, hal_error_last()->text);
	return NULL;
}

static void waiter_start(struct waiter *w, struct bed *b, uint64_t s)
{
	*w = (struct waiter){ .b = b, .s = s };
	pthread_create(&w->thread, NULL, wait_for_stream, w);
	while (!w->begun)
		sched_yield();
	sleep_ms(30);
}

static void waiter_end(struct waiter *w)
{
	pthread_join(w->thread, NULL);
}

/* A stream with a task that runs for long, and two behind it. */
static int busy_stream(struct bed *b, uint64_t *s, uint64_t *word)
{
	int rc = make_stream(b, s);

	if (!rc)
		rc = launch_delay(b, *s, MINUTE);
	if (!rc)
		rc = launch_delay(b, *s, MINUTE);
	if (!rc && word)
		rc = hal_stream_fill(*s, word, 0x77, 8, PLACE);
	return rc;
}

#define NEEDS (NPU_CAP_ABORT | NPU_CAP_STREAM | NPU_CAP_LAUNCH | NPU_CAP_MEM)
#define ABLE_OR_REFUSED(b)								\
	do {										\
		if (!can(b, NPU_CAP_ABORT)) {						\
			EXPECT_EQ(-EOPNOTSUPP, hal_device_stop((b)->dev, LONG_MS));	\
			EXPECT_EQ(-EOPNOTSUPP, hal_device_restart((b)->dev, 0, LONG_MS)); \
			return;								\
		}									\
		if (!can(b, NEEDS))							\
			SKIP(return, "nothing to run");					\
	} while (0)

/* C-DEV-5: what waits is told, what is queued is not run, all counts as completed. */
TEST_ABOUT(recover, stop_discards, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	struct waiter w, all;
	uint64_t s, *word, out = 0, in = 5;
	struct hal_point p;

	ABLE_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, copy_now(b, word, &in, 8));
	ASSERT_EQ(0, busy_stream(b, &s, word));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	EXPECT_EQ(-EINPROGRESS, hal_point_query(&p));
	waiter_start(&w, b, s);
	waiter_start(&all, b, 0);
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	waiter_end(&w);
	waiter_end(&all);
	EXPECT_EQ(-ECANCELED, w.rc);
	EXPECT_NE(NULL, strstr(w.text, "stopped")) TH_LOG("%s", w.text);
	EXPECT_EQ(-ECANCELED, all.rc);
	EXPECT_EQ(-ESHUTDOWN, launch_nop(b, s));
	EXPECT_EQ(-ESHUTDOWN, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-ESHUTDOWN, hal_stream_query(s));
	EXPECT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(0, hal_point_query(&p));
	EXPECT_EQ(0, hal_point_sync(&p, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(5, out);
	EXPECT_EQ(0, hal_mem_free(word));
}

TEST_ABOUT(recover, a_new_generation, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	uint64_t s, t, *word, in = 1, out = 0;
	char want[128];

	ABLE_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, copy_now(b, word, &in, 8));
	ASSERT_EQ(0, busy_stream(b, &s, NULL));
	EXPECT_EQ(1, hal_load_relaxed(&b->dev->generation));
	EXPECT_EQ(-EBUSY, hal_device_restart(b->dev, 0, LONG_MS));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(2, hal_load_relaxed(&b->dev->generation));

	/* streams are of the past, and say so */
	EXPECT_EQ(-ESTALE, launch_nop(b, s));
	snprintf(want, sizeof(want), "stream 0x%llx is of generation 1, device 0 went on to 2",
		 (unsigned long long)s);
	EXPECT_STREQ(want, hal_error_last()->text);
	EXPECT_EQ(-ESTALE, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-ESTALE, hal_stream_query(s));
	EXPECT_EQ(-ESTALE, hal_stream_destroy(s, LONG_MS));
	EXPECT_EQ(-ESTALE, hal_stream_abort(s, LONG_MS));

	/* contexts, memory and kernels go on */
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, launch_inc(b, t, word, 41));
	ASSERT_EQ(0, copy_async(t, &out, word, 8));
	ASSERT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(42, out);
	EXPECT_EQ(-ESTALE, launch_nop(b, s));
	EXPECT_EQ(0, hal_mem_free(word));
}

TEST_ABOUT(recover, again_and_again, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	uint64_t s, *word, out = 0, zero = 0;
	unsigned int i;

	ABLE_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, copy_now(b, word, &zero, 8));
	for (i = 1; i <= 20; i++) {
		ASSERT_EQ(0, make_stream(b, &s));
		ASSERT_EQ(0, launch_inc(b, s, word, 1));
		ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		ASSERT_EQ(0, launch_delay(b, s, MINUTE));
		ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
		ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
		ASSERT_EQ(i + 1, hal_load_relaxed(&b->dev->generation));
	}
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(20, out);
	EXPECT_EQ(0, hal_mem_free(word));
}

/* The other device notices nothing. */
TEST_ABOUT(recover, another_device_goes_on, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { 0 };
	struct hal_context *ctx;
	struct hal_device *dev;
	uint64_t s, t, h;
	uint32_t n;

	ABLE_OR_REFUSED(b);
	ASSERT_EQ(0, hal_driver_count(b->drv, &n));
	if (n < 2)
		SKIP(return, "one device");
	ASSERT_EQ(0, hal_device_open(b->drv, 1, &dev));
	ASSERT_EQ(0, hal_context_create(dev, &h));
	ctx = hal_context_get(h, "test");
	ASSERT_EQ(0, hal_stream_create(ctx, &attr, &t));
	ASSERT_EQ(0, busy_stream(b, &s, NULL));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(HAL_DEVICE_OPEN, hal_load_relaxed(&dev->state));
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_query(t));
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(1, hal_load_relaxed(&dev->generation));
	EXPECT_EQ(0, hal_stream_destroy(t, LONG_MS));
	EXPECT_EQ(0, hal_context_destroy(h, LONG_MS));
	hal_context_put(ctx);
	hal_device_put(dev);
}

/* A timed record that was discarded has no time. */
TEST_ABOUT(recover, records_that_never_were, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	uint64_t s, ev, before, ns;
	int64_t between;

	ABLE_OR_REFUSED(b);
	if (!can(b, NPU_CAP_EVENT_TIMING))
		SKIP(return, "no timed events");
	ASSERT_EQ(0, make_stream(b, &s));
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &before));
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &ev));
	ASSERT_EQ(0, hal_event_record(before, s, PLACE));
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, launch_delay(b, s, MINUTE));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	EXPECT_EQ(-EINPROGRESS, hal_event_timestamp(ev, &ns));
	ASSERT_EQ(0, hal_stream_abort(s, LONG_MS));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(-ECANCELED, hal_event_timestamp(ev, &ns));
	EXPECT_EQ(-ECANCELED, hal_event_elapsed(before, ev, &between));
	EXPECT_EQ(0, hal_event_timestamp(before, &ns));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_elapsed(before, ev, &between));

	ASSERT_EQ(0, launch_delay(b, s, MINUTE));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(-ECANCELED, hal_event_timestamp(ev, &ns));
	EXPECT_EQ(0, hal_event_timestamp(before, &ns));
	ASSERT_EQ(0, make_stream(b, &s));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_timestamp(ev, &ns));
	EXPECT_EQ(0, hal_event_destroy(ev));
	EXPECT_EQ(0, hal_event_destroy(before));
}

/* C-STREAM-15 */
TEST_ABOUT(recover, abort_ends_waits, NPU_CAP_ABORT)
{
	struct hal_stream_attr attr = { .fail_mode = NPU_FAIL_STOP };
	struct bed *b = &self->b;
	uint64_t s, other, *word, out = 0, zero = 0;
	struct waiter w;
	struct hal_point p;

	ABLE_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 64, &word);
	ASSERT_EQ(0, copy_now(b, word, &zero, 8));
	ASSERT_EQ(0, hal_stream_create(b->ctx, &attr, &s));
	ASSERT_EQ(0, make_stream(b, &other));
	ASSERT_EQ(0, launch_bad(b, s));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, hal_stream_abort(s, LONG_MS));
	EXPECT_EQ(0, hal_stream_query(s));

	ASSERT_EQ(0, launch_delay(b, s, MINUTE));
	ASSERT_EQ(0, launch_inc(b, s, word, 1));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_stream_wait_point(other, &p, PLACE));
	waiter_start(&w, b, s);
	ASSERT_EQ(0, hal_stream_abort(s, LONG_MS));
	waiter_end(&w);
	EXPECT_EQ(-ECANCELED, w.rc);
	EXPECT_NE(NULL, strstr(w.text, "aborted")) TH_LOG("%s", w.text);
	EXPECT_EQ(0, hal_stream_query(s));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	/* who waited for it goes on, and may learn of the failure */
	hal_stream_sync(other, LONG_MS, 0);
	EXPECT_EQ(0, hal_stream_query(other));
	ASSERT_EQ(0, launch_inc(b, s, word, 7));
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, &out, word, 8));
	EXPECT_EQ(7, out);
	EXPECT_EQ(0, hal_mem_free(word));
}

/* Aborts, stops and submissions of many threads at once: no call hangs, no task runs twice. */
struct storm {
	struct bed *b;
	_Atomic int stop;
	_Atomic int wrong;
};

static void *submit_on(void *arg)
{
	struct storm *x = arg;
	uint64_t s = 0;
	int rc = -ESTALE, i;

	while (!x->stop) {
		if (rc == -ESTALE) {
			rc = make_stream(x->b, &s);
			if (rc == -ESHUTDOWN)
				rc = -ESTALE;
			if (rc)
				continue;
		}
		for (i = 0; i < 8 && !rc; i++)
			rc = launch_nop(x->b, s);
		if (!rc)
			rc = hal_stream_sync(s, LONG_MS, 0);
		if (rc && rc != -ESTALE && rc != -ESHUTDOWN && rc != -ECANCELED)
			x->wrong = rc;
		if (rc == -ECANCELED || rc == -ESHUTDOWN)
			rc = hal_stream_query(s) == -ESTALE ? -ESTALE : 0;
	}
	hal_stream_destroy(s, LONG_MS);
	return NULL;
}

TEST_ABOUT(recover, while_threads_submit, NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	struct storm x = { .b = b };
	pthread_t th[3];
	unsigned int i;

	ABLE_OR_REFUSED(b);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&th[i], NULL, submit_on, &x));
	for (i = 0; i < 30; i++) {
		sleep_ms(1);
		ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
		ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	}
	x.stop = 1;
	for (i = 0; i < 3; i++)
		pthread_join(th[i], NULL);
	EXPECT_EQ(0, hal_load_relaxed(&x.wrong));
	EXPECT_EQ(31, hal_load_relaxed(&b->dev->generation));
}

TEST_HARNESS_MAIN
