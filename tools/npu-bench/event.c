// SPDX-License-Identifier: MIT
/*
 * Events: record, query and wait on one that is done; a timed record.
 *
 * Limits: a call that stores or loads two words with release or acquire order.
 * Of the timed record: an empty task of ours, which it may exceed by 5 ns.
 */
#include <errno.h>

#include "tools/npu-bench/bench.h"

#define CALLS 100000u
#define BURST 1024u
#define ROUNDS 100u

struct events {
	struct bench_dev d;
	npu_event plain;
	npu_event timed;
	unsigned int calls;
	unsigned int rounds;
	_Atomic uint64_t seq;
	_Atomic uint64_t point[2];
};

static int record(void *arg, double *value)
{
	struct events *s = arg;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->calls; i++)
		err |= npu_event_record(s->plain, s->d.stream[0]);
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static __attribute__((noinline)) void bare_record(struct events *s)
{
	uint64_t seq = atomic_load_explicit(&s->seq, memory_order_acquire);

	atomic_store_explicit(&s->point[0], seq, memory_order_relaxed);
	atomic_store_explicit(&s->point[1], seq, memory_order_release);
}

static int record_limit(void *arg, double *value)
{
	struct events *s = arg;
	unsigned int i;
	uint64_t t = bench_now();

	for (i = 0; i < s->calls; i++)
		bare_record(s);
	*value = (double)(bench_now() - t) / s->calls;
	return 0;
}

static int query(void *arg, double *value)
{
	struct events *s = arg;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->calls; i++)
		err |= npu_event_query(s->plain);
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static int wait(void *arg, double *value)
{
	struct events *s = arg;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->calls; i++)
		err |= npu_event_sync(s->plain, NPU_WAIT_FOREVER);
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static __attribute__((noinline)) bool bare_query(struct events *s)
{
	return atomic_load_explicit(&s->seq, memory_order_acquire) >=
	       atomic_load_explicit(&s->point[1], memory_order_acquire);
}

static int query_limit(void *arg, double *value)
{
	struct events *s = arg;
	unsigned int i, done = 0;
	uint64_t t = bench_now();

	for (i = 0; i < s->calls; i++)
		done += bare_query(s);
	*value = (double)(bench_now() - t) / s->calls;
	return done == s->calls ? 0 : -EIO;
}

static int burst(struct events *s, bool timed, double *value)
{
	double ns[ROUNDS];
	unsigned int r, i;
	uint64_t t;
	int err = 0;

	for (r = 0; r < s->rounds && !err; r++) {
		t = bench_now();
		for (i = 0; i < BURST; i++)
			err |= timed ? npu_event_record(s->timed, s->d.stream[0]) :
				       npu_launch(s->d.nop, 1, NULL, 0, s->d.stream[0]);
		ns[r] = (double)(bench_now() - t) / BURST;
		if (!err)
			err = bench_dev_sync(&s->d);
	}
	*value = bench_quantile(ns, s->rounds, 0.5);
	return err;
}

static int timed(void *arg, double *value)
{
	return burst(arg, true, value);
}

static int timed_limit(void *arg, double *value)
{
	return burst(arg, false, value);
}

static int run(struct bench *b)
{
	struct events s = { .calls = b->quick ? 100 : CALLS, .rounds = b->quick ? 1 : ROUNDS };
	const struct bench_figure f[] = {
		{ "event", "record", "ns", true, record, record_limit, &s, { .most = 15 } },
		{ "event", "query-done", "ns", true, query, query_limit, &s, { .most = 5 } },
		{ "event", "wait-done", "ns", true, wait, query_limit, &s, { .most = 10 } },
		{ "event", "record-timed", "ns", true, timed, timed_limit, &s, { .plus = 5 } },
	};
	unsigned int i;
	int err;

	err = bench_dev_open(&s.d, 1, "event");
	if (err)
		return err;
	err = npu_event_create(0, &s.plain);
	if (!err)
		err = npu_event_create(NPU_EVENT_TIMING, &s.timed);
	if (!err)
		err = bench_dev_launch(&s.d, 0, true);
	if (!err)
		err = npu_event_record(s.plain, s.d.stream[0]);
	if (!err)
		err = bench_dev_sync(&s.d);
	if (err)
		bench_fail("event", "set-up", err);
	for (i = 0; i < sizeof(f) / sizeof(f[0]) && !err; i++)
		err = bench_measure(b, &f[i]);
	if (!err)
		err = bench_dev_check(&s.d, "event");
	return bench_dev_close(&s.d, "event") ? -EIO : err;
}

const struct bench_case bench_event = {
	"event", "record, query and wait on a done event; a timed record", run,
};
