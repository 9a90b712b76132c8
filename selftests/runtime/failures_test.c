// SPDX-License-Identifier: GPL-2.0-only
/*
 * Failures of tasks: blamed on the task that failed, told in order, once, to
 * whom they concern; queries and waits that time out leave nothing behind.
 */
#include "selftests/npu_kselftest.h"

#include <time.h>

#include "selftests/runtime/rt_test.h"

FIXTURE(failures) {
	npu_stream s;
	npu_stream t;
};

FIXTURE_SETUP(failures)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->t));
}

FIXTURE_TEARDOWN(failures)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

static int nop(npu_stream s)
{
	return npu_launch(builtin_kernel("nop"), 1, NULL, 0, s);
}

static uint64_t submitted(npu_stream s)
{
	struct npu_stream_info info = { .size = sizeof(info) };

	return npu_stream_get_info(s, &info) ? 0 : info.submitted;
}

static uint64_t completed(npu_stream s)
{
	struct npu_stream_info info = { .size = sizeof(info) };

	return npu_stream_get_info(s, &info) ? 0 : info.completed;
}

/* The next failure of the list; code 0 when there is none. */
static struct npu_error next_error(void)
{
	struct npu_error e = { .size = sizeof(e) };

	if (npu_error_next(&e))
		e.code = 0;
	return e;
}

/* Far enough from all else that an address says which of the two it was. */
static __attribute__((noinline)) int fail_here(npu_stream s)
{
	struct npu_simnpu_inc_args a = { 8, 1 };
	int rc = npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), s);

	return rc + (int)(s.h & 0);
}

static bool is_in(uint64_t place, int (*fn)(npu_stream s))
{
	return place > (uint64_t)(uintptr_t)fn && place < (uint64_t)(uintptr_t)fn + 512;
}

/* H43: three operations, the second fails, and a fourth is innocent. */
TEST_F(failures, the_second_of_three)
{
	struct npu_error e;
	char host[8];
	void *p;

	OK(npu_malloc(64, 0, &p));
	OK(npu_tag_set("one"));
	OK(nop(self->s));
	OK(npu_tag_set("two"));
	OK(fail_here(self->s));
	OK(npu_tag_set("three"));
	OK(nop(self->s));
	OK(npu_tag_set("copy"));
	OK(npu_memcpy_async(host, p, 8, NPU_COPY_AUTO, self->s));
	OK(npu_tag_set("wait"));
	npu_error_clear();
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	e = last_error();
	EXPECT_EQ(-EFAULT, e.code);
	EXPECT_EQ(self->s.h, e.stream.h);
	EXPECT_STREQ("two", e.tag);
	EXPECT_STREQ("launch", e.op);
	EXPECT_TRUE(is_in(e.place, fail_here));
	EXPECT_EQ(0, e.origin_stream.h);
	EXPECT_EQ(0, e.device);
	EXPECT_EQ(0, e.more);
	EXPECT_EQ(1, e.generation);
	EXPECT_NE(NULL, strstr(e.text, "two"));
	EXPECT_NE(NULL, strstr(e.hint, "launch_blocking"));
	EXPECT_EQ(0, next_error().code);
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_free(p));
}

/* H43: in mode continue a later failure does not overwrite the first: all are told, in order. */
TEST_F(failures, all_in_order)
{
	struct npu_error e, brief;
	uint64_t first;
	char tag[8];
	int i;

	for (i = 0; i < 5; i++) {
		snprintf(tag, sizeof(tag), "op%d", i);
		OK(npu_tag_set(tag));
		OK(i % 2 ? failing_task(self->s) : nop(self->s));
	}
	OK(npu_tag_set(NULL));
	OK(failing_task(self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	e = last_error();
	first = e.seq;
	EXPECT_STREQ("op1", e.tag);
	EXPECT_EQ(2, e.more);
	EXPECT_NE(NULL, strstr(e.text, "2 more failed"));
	/* what succeeds in between, and what fails for other reasons, takes nothing away */
	OK(nop(self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(-EINVAL, npu_malloc(1, 0, NULL));
	e = next_error();
	EXPECT_STREQ("op3", e.tag);
	EXPECT_EQ(first + 2, e.seq);
	EXPECT_EQ(1, e.more);
	EXPECT_NE('\0', e.hint[0]);
	/* of a program that knows less of it */
	memset(&brief, 0x55, sizeof(brief));
	brief.size = offsetof(struct npu_error, hint);
	OK(npu_error_next(&brief));
	EXPECT_EQ(first + 4, brief.seq);
	EXPECT_STREQ("", brief.tag);
	EXPECT_EQ(0x55, (unsigned char)brief.hint[0]);
	EXPECT_EQ(-ENOENT, npu_error_next(&brief));
	EXPECT_EQ(-EINVAL, last_error().code);
	EXPECT_EQ(-EINVAL, npu_error_next(NULL));
	brief.size = 4;
	EXPECT_EQ(-EINVAL, npu_error_next(&brief));
	/* cleared, the list is gone, too */
	OK(failing_task(self->s));
	OK(failing_task(self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	npu_error_clear();
	EXPECT_EQ(0, last_error().code);
	EXPECT_EQ(0, next_error().code);
}

/* A wait for several streams, or devices, tells of all of them. */
TEST_F(failures, of_several_streams_and_devices)
{
	npu_context ctx;
	npu_stream u, v;
	struct npu_error e;
	int i;

	OK(npu_context_create(0, &ctx));
	OK(npu_context_set(ctx));
	OK(npu_stream_create(NULL, &u));
	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &v));
	for (i = 0; i < 2; i++) {
		/* kernels are of the thread's context */
		OK(npu_device_set(1));
		OK(failing_task(v));
		OK(npu_context_set(ctx));
		OK(failing_task(u));
		OK(npu_device_set(0));
		OK(failing_task(self->s));
		OK(failing_task(self->t));
		if (!i) {
			EXPECT_EQ(-EFAULT, npu_device_sync(0, 5000));
			EXPECT_EQ(2, last_error().more);
			EXPECT_EQ(0, next_error().device);
			EXPECT_EQ(0, next_error().device);
			EXPECT_EQ(0, next_error().code);
			EXPECT_EQ(-EFAULT, npu_stream_sync(v, 5000));
			EXPECT_EQ(1, last_error().device);
		}
	}
	EXPECT_EQ(-EFAULT, npu_device_sync_all(5000));
	e = last_error();
	EXPECT_EQ(0, e.device);
	EXPECT_EQ(3, e.more);
	EXPECT_NE(NULL, strstr(e.text, "3 more failed"));
	EXPECT_EQ(0, next_error().device);
	EXPECT_EQ(0, next_error().device);
	e = next_error();
	EXPECT_EQ(1, e.device);
	EXPECT_EQ(v.h, e.stream.h);
	EXPECT_EQ(0, next_error().code);
	OK(npu_device_sync_all(5000));
}

struct other {
	npu_stream s;
	struct npu_error e;
	int device;
	int rc;
};

static void *wait_elsewhere(void *arg)
{
	struct other *o = arg;

	if (o->device >= 0)
		npu_device_set(o->device);
	o->rc = npu_stream_sync(o->s, 5000);
	o->e = last_error();
	return NULL;
}

/* H43: who waits has no device, or another one: the failure is that of the stream's. */
TEST_F(failures, told_to_a_thread_of_another_device)
{
	struct other o = { .s = self->s };
	pthread_t t;

	for (o.device = -1; o.device < 2; o.device += 2) {
		OK(failing_task(self->s));
		OK(pthread_create(&t, NULL, wait_elsewhere, &o));
		OK(pthread_join(t, NULL));
		EXPECT_EQ(-EFAULT, o.rc);
		EXPECT_EQ(0, o.e.device);
		EXPECT_EQ(self->s.h, o.e.stream.h);
		EXPECT_EQ(0, is_open(1));
		/* H44: the record is that thread's */
		EXPECT_EQ(0, last_error().code);
		OK(npu_stream_sync(self->s, 5000));
	}
}

/* Mode stop: the first cause stays, whatever comes later, and tasks behind it are not run. */
TEST_F(failures, the_first_cause_stays)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	struct npu_simnpu_inc_args a = { 0, 1 };
	uint64_t out = 9, seq;
	npu_stream s;
	void *p;
	int i;

	attr.fail_mode = NPU_FAIL_STOP;
	OK(npu_stream_create(&attr, &s));
	OK(npu_malloc(64, 0, &p));
	OK(npu_memset(p, 0, 64));
	a.addr = (uint64_t)(uintptr_t)p;
	OK(npu_tag_set("first"));
	OK(failing_task(s));
	OK(npu_tag_set("second"));
	OK(failing_task(s));
	OK(npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(s, 5000));
	seq = last_error().seq;
	for (i = 0; i < 3; i++) {
		OK(failing_task(s));
		EXPECT_EQ(-EFAULT, npu_stream_sync(s, 5000));
		EXPECT_EQ(seq, last_error().seq);
		EXPECT_STREQ("first", last_error().tag);
		EXPECT_EQ(-EFAULT, npu_stream_query(s));
	}
	OK(npu_memcpy(&out, p, 8, NPU_COPY_AUTO));
	EXPECT_EQ(0, out);
	/* other streams go on, and the stream itself can go */
	OK(nop(self->s));
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_stream_destroy(s, 5000));
	OK(npu_free(p));
}

/* A stream that waited on a failed one runs on, and knows where it came from. */
TEST_F(failures, carried_to_those_that_waited)
{
	struct npu_error e;
	uint64_t seq;

	OK(npu_tag_set("cause"));
	OK(failing_task(self->s));
	OK(npu_tag_set("effect"));
	OK(npu_stream_wait_stream(self->t, self->s));
	OK(nop(self->t));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->t, 5000));
	e = last_error();
	EXPECT_EQ(self->t.h, e.stream.h);
	EXPECT_EQ(self->s.h, e.origin_stream.h);
	EXPECT_STREQ("cause", e.tag);
	seq = e.origin_seq;
	EXPECT_EQ(2, completed(self->t));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	EXPECT_EQ(seq, last_error().seq);
	EXPECT_EQ(0, last_error().origin_stream.h);
	OK(npu_stream_sync(self->t, 5000));
}

/* Over three streams of two devices each learns where its part of it came from. */
TEST_F(failures, carried_on_from_device_to_device)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	struct npu_error e;
	npu_stream far;

	attr.device = 1;
	OK(npu_stream_create(&attr, &far));
	OK(npu_tag_set("cause"));
	OK(failing_task(self->s));
	OK(npu_tag_set("effect"));
	OK(npu_stream_wait_stream(self->t, self->s));
	OK(npu_stream_wait_stream(far, self->t));
	EXPECT_EQ(-EFAULT, npu_stream_sync(far, 5000));
	e = last_error();
	EXPECT_EQ(far.h, e.stream.h);
	EXPECT_EQ(1, e.device);
	EXPECT_NE(0, e.origin_stream.h);
	EXPECT_NE(0, e.origin_seq);
	EXPECT_STREQ("launch", e.op);
	EXPECT_STREQ("cause", e.tag);
	EXPECT_NE(NULL, strstr(e.text, "failed: EFAULT at 0x8, from device 0 stream 0x"));
	EXPECT_NE(NULL, strstr(e.text, "(launch, tag cause)"));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->t, 5000));
	EXPECT_EQ(self->s.h, last_error().origin_stream.h);
	EXPECT_EQ(NULL, strstr(last_error().text, "device"));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	OK(npu_stream_destroy(far, 5000));
}

/* What a stream that has stopped does not run names the failure that stopped it. */
TEST_F(failures, not_run_and_why)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	struct npu_error e;
	uint64_t first;
	npu_stream s;

	attr.fail_mode = NPU_FAIL_STOP;
	OK(npu_stream_create(&attr, &s));
	OK(npu_tag_set("first"));
	OK(failing_task(s));
	OK(npu_tag_set("behind"));
	OK(nop(s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(s, 5000));
	first = last_error().seq;
	EXPECT_EQ(0, last_error().origin_stream.h);
	EXPECT_EQ(0, last_error().origin_seq);
	e = next_error();
	EXPECT_EQ(-ECANCELED, e.code);
	EXPECT_EQ(first + 1, e.seq);
	EXPECT_EQ(s.h, e.origin_stream.h);
	EXPECT_EQ(first, e.origin_seq);
	EXPECT_NE(NULL, strstr(e.text, "failed: ECANCELED"));
	EXPECT_NE(NULL, strstr(e.text, "from task 1 (launch, tag first)")) TH_LOG("%s", e.text);
	OK(npu_stream_destroy(s, 5000));
}

/* H18: a loop that knows only success and "not yet" ends; what is done stays done. */
TEST_F(failures, a_poll_loop_ends)
{
	static struct gate g;
	npu_event e, done;
	int rc;

	OK(npu_event_create(0, &e));
	OK(npu_event_create(0, &done));
	OK(nop(self->s));
	OK(npu_event_record(done, self->s));
	OK(npu_event_sync(done, 5000));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(failing_task(self->s));
	OK(npu_event_record(e, self->s));
	npu_error_clear();
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(self->s));
	/* "not yet" is left behind nowhere */
	EXPECT_EQ(0, last_error().code);
	OK(nop(self->t));
	OK(npu_stream_sync(self->t, 5000));
	atomic_store(&g.open, 1);
	do {
		rc = npu_event_query(e);
	} while (rc == -EINPROGRESS);
	EXPECT_EQ(-EFAULT, rc);
	/* it says what has failed, as a wait does */
	EXPECT_EQ(-EFAULT, last_error().code);
	EXPECT_STREQ("launch", last_error().op);
	EXPECT_EQ(self->s.h, last_error().stream.h);
	EXPECT_NE(0, last_error().seq);
	npu_error_clear();
	EXPECT_EQ(-EFAULT, npu_stream_query(self->s));
	EXPECT_EQ(-EFAULT, last_error().code);
	EXPECT_EQ(-EFAULT, npu_event_query(e));
	EXPECT_EQ(-EFAULT, npu_event_sync(e, 5000));
	OK(npu_event_query(e));
	OK(npu_event_query(done));
	OK(npu_event_destroy(e));
	OK(npu_event_destroy(done));
}

/* H17: each way to ask for a time that is none has its own answer. */
TEST_F(failures, times_that_are_none)
{
	static struct gate g;
	npu_event never, pending, done, plain, other, gone;
	const struct { npu_event *e; int code; const char *text; } bad[] = {
		{ &never, -EINVAL, "not recorded" },
		{ &pending, -EINPROGRESS, "not completed" },
		{ &plain, -EINVAL, "NPU_EVENT_TIMING" },
		{ &other, -EXDEV, "devices 0 and 1" },
		{ &gone, -ESTALE, "destroyed" },
	};
	npu_stream one;
	int64_t ns;
	size_t i;

	OK(npu_event_create(NPU_EVENT_TIMING, &never));
	OK(npu_event_create(NPU_EVENT_TIMING, &pending));
	OK(npu_event_create(NPU_EVENT_TIMING, &done));
	OK(npu_event_create(0, &plain));
	OK(npu_event_create(NPU_EVENT_TIMING, &other));
	OK(npu_event_create(NPU_EVENT_TIMING, &gone));
	OK(npu_event_record(done, self->s));
	OK(npu_event_record(plain, self->s));
	OK(npu_event_record(gone, self->s));
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_event_destroy(gone));
	OK(npu_stream_default(1, &one));
	OK(npu_event_record(other, one));
	OK(npu_stream_sync(one, 5000));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_event_record(pending, self->s));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ns = 77;
		EXPECT_EQ(bad[i].code, npu_event_elapsed(done, *bad[i].e, &ns));
		EXPECT_EQ(0, ns);
		EXPECT_NE(NULL, strstr(last_error().text, bad[i].text))
			TH_LOG("%zu: %s", i, last_error().text);
		ns = 77;
		EXPECT_EQ(bad[i].code, npu_event_elapsed(*bad[i].e, done, &ns));
		EXPECT_EQ(0, ns);
	}
	OK(npu_event_elapsed(done, done, &ns));
	EXPECT_EQ(0, ns);
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_event_elapsed(done, pending, &ns));
	EXPECT_LT(0, ns);
	OK(npu_event_elapsed(pending, done, &ns));
	EXPECT_GT(0, ns);
}

/* ---- time-outs ------------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* What the waits wait for. */
static struct {
	npu_stream s;
	npu_event e;
	npu_context c;
	npu_module m;
	npu_context used;
} w;

static int wait_stream(int64_t ms)
{
	return npu_stream_sync(w.s, ms);
}

static int wait_event(int64_t ms)
{
	return npu_event_sync(w.e, ms);
}

static int wait_context(int64_t ms)
{
	return npu_context_sync(w.c, ms);
}

static int wait_device(int64_t ms)
{
	return npu_device_sync(0, ms);
}

static int wait_all(int64_t ms)
{
	return npu_device_sync_all(ms);
}

static int destroy_stream(int64_t ms)
{
	return npu_stream_destroy(w.s, ms);
}

static int destroy_context(int64_t ms)
{
	return npu_context_destroy(w.c, ms);
}

static int unload(int64_t ms)
{
	return npu_module_unload(w.m, ms);
}

static const struct wait {
	const char *name;
	int (*fn)(int64_t ms);
	bool keeps;	/* what it waited for is there afterwards */
} waits[] = {
	{ "stream_sync", wait_stream, true },
	{ "event_sync", wait_event, true },
	{ "context_sync", wait_context, true },
	{ "device_sync", wait_device, true },
	{ "device_sync_all", wait_all, true },
	{ "stream_destroy", destroy_stream, false },
	{ "module_unload", unload, false },
	{ "context_destroy", destroy_context, false },
};

#define WAITS (sizeof(waits) / sizeof(waits[0]))

/* A stream of a context of its own, held by a callback, with a tagged task behind it. */
static int hold(struct gate *g)
{
	npu_kernel k;
	int rc;

	memset(g, 0, sizeof(*g));
	rc = npu_context_create(0, &w.c) || npu_context_set(w.c) ||
	     npu_stream_create(NULL, &w.s) || npu_event_create(0, &w.e) ||
	     npu_module_load(TEST_DATA("rt_kernels.so"), &w.m) ||
	     npu_kernel_get(w.m, "rt_fill", &k) || npu_tag_set("holder") ||
	     npu_stream_callback(w.s, gate_hold, g, 0) || npu_tag_set("behind") ||
	     npu_launch(builtin_kernel("nop"), 1, NULL, 0, w.s) || npu_tag_set(NULL) ||
	     npu_event_record(w.e, w.s) || npu_context_set((npu_context){ 0 });
	return rc || !seen(&g->entered);
}

/* H16: no sooner than asked for, naming the stream and what it is at; the work stays queued. */
TEST_F(failures, waits_that_time_out)
{
	static struct gate g;
	struct npu_error e;
	uint64_t start;
	size_t i;

	OK(hold(&g));
	for (i = 0; i < WAITS; i++) {
		start = now_ms();
		EXPECT_EQ(-ETIMEDOUT, waits[i].fn(50))
			TH_LOG("%s", waits[i].name);
		EXPECT_LE(start + 49, now_ms())
			TH_LOG("%s", waits[i].name);
		e = last_error();
		EXPECT_EQ(-ETIMEDOUT, e.code);
		EXPECT_EQ(w.s.h, e.stream.h)
			TH_LOG("%s", waits[i].name);
		EXPECT_NE(0, e.seq);
		EXPECT_NE(NULL, strstr(e.text, "it is at task 1 (stream_callback), tag holder"))
			TH_LOG("%s: %s", waits[i].name, e.text);
		EXPECT_STREQ("holder", e.tag);
		/* nothing is lost, and others go on meanwhile */
		EXPECT_EQ(2, submitted(w.s));
		EXPECT_EQ(0, completed(w.s));
		OK(nop(self->t));
		OK(npu_stream_sync(self->t, 5000));
		EXPECT_EQ(-ETIMEDOUT, waits[i].fn(0))
			TH_LOG("%s polls", waits[i].name);
	}
	atomic_store(&g.open, 1);
	for (i = 0; i < WAITS; i++) {
		EXPECT_EQ(0, waits[i].fn(5000))
			TH_LOG("%s", waits[i].name);
	}
}

/* -1 and what is huge are for ever; below -1 nothing is waited for. */
TEST_F(failures, time_outs_out_of_range)
{
	static const int64_t bad[] = { -2, -1000, INT32_MIN, INT64_MIN };
	static const int64_t ever[] = { -1, INT64_MAX, INT64_MAX / 1000000, INT32_MAX };
	static struct gate g;
	size_t i, k;

	OK(hold(&g));
	for (i = 0; i < WAITS; i++)
		for (k = 0; k < 4; k++) {
			EXPECT_EQ(-EINVAL, waits[i].fn(bad[k]))
				TH_LOG("%s %lld", waits[i].name, (long long)bad[k]);
		}
	EXPECT_EQ(-EINVAL, npu_finalize(-2));
	EXPECT_EQ(-EINVAL, npu_device_reset(0, INT64_MIN));
	EXPECT_EQ(-EINVAL, npu_stream_abort(w.s, -2));
	EXPECT_EQ(-EINVAL, npu_device_stop(0, -2));
	EXPECT_EQ(-EINVAL, npu_device_restart(0, 0, INT64_MIN));
	EXPECT_EQ(2, submitted(w.s));
	atomic_store(&g.open, 1);
	for (i = 0; i < WAITS; i++)
		for (k = waits[i].keeps ? 0 : 3; k < 4; k++) {
			EXPECT_EQ(0, waits[i].fn(ever[k]))
				TH_LOG("%s %lld", waits[i].name, (long long)ever[k]);
		}
}

/* A job of twice the time that somebody else allows, for one who allows it. */
TEST_F(failures, as_long_as_the_caller_allows)
{
	OK(delay(self->s, 60000000));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(self->s, 5));
	OK(npu_stream_sync(self->s, 20000));
}

TEST_HARNESS_MAIN
