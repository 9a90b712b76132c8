// SPDX-License-Identifier: MIT
/*
 * A hop: a task and a record on one stream, a wait for it on another, and the
 * host waits for that.
 *
 * Limit: a push into each of two bare rings, and taking both out.
 */
#include <errno.h>

#include "tools/npu-bench/bench.h"

#define HOPS 5000u

struct hop {
	struct bench_dev d;
	npu_event event;
	unsigned int hops;
	struct bench_rings *rings;
};

static int ours(void *arg, double *value)
{
	struct hop *s = arg;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->hops; i++) {
		err |= bench_dev_launch(&s->d, 0, true);
		err |= npu_event_record(s->event, s->d.stream[0]);
		err |= npu_stream_wait_event(s->d.stream[1], s->event);
		err |= npu_stream_sync(s->d.stream[1], NPU_WAIT_FOREVER);
	}
	*value = (double)(bench_now() - t) / s->hops;
	return err;
}

static int limit(void *arg, double *value)
{
	struct hop *s = arg;
	unsigned int i;
	uint64_t word = 0, t = bench_now();

	for (i = 0; i < s->hops; i++) {
		bench_rings_push(s->rings, 0, bench_task_inc, &word);
		bench_rings_push(s->rings, 1, bench_task_nop, NULL);
		bench_rings_run(s->rings, 0);
		bench_rings_run(s->rings, 1);
	}
	*value = (double)(bench_now() - t) / s->hops;
	return 0;
}

static int run(struct bench *b)
{
	struct hop s = { .hops = b->quick ? 100 : HOPS };
	const struct bench_figure f = {
		"hop", "streams", "ns", true, ours, limit, &s, { .most = 400 },
	};
	int err;

	err = bench_dev_open(&s.d, 2, f.name);
	if (err)
		return err;
	s.rings = bench_rings_new(2, 64, false);
	err = s.rings ? npu_event_create(0, &s.event) : -ENOMEM;
	if (err)
		bench_fail(f.name, "set-up", err);
	else
		err = bench_measure(b, &f);
	if (!err)
		err = bench_dev_check(&s.d, f.name);
	bench_rings_free(s.rings);
	return bench_dev_close(&s.d, f.name) ? -EIO : err;
}

const struct bench_case bench_hop = {
	"hop", "record on one stream, wait on another, host waits for that", run,
};
