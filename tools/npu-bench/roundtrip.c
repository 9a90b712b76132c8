// SPDX-License-Identifier: MIT
/*
 * Round trip: submit one task and wait for it, device active. The waiter runs
 * the task itself.
 *
 * Limit: a push into a bare ring under a lock, and taking it out under another.
 */
#include <errno.h>

#include "tools/npu-bench/bench.h"

#define TRIPS 1000u
#define ROUNDS 9u

struct trip {
	struct bench_dev d;
	bool inc;
	unsigned int streams;
	unsigned int trips;
	struct bench_rings *rings;
	uint64_t word;
};

static int ours(void *arg, double *value)
{
	struct trip *s = arg;
	double ns[ROUNDS];
	unsigned int r, i, k;
	uint64_t t;
	int err = 0;

	/* the median of the rounds: in the first one the device comes awake */
	for (r = 0; r < ROUNDS; r++) {
		t = bench_now();
		for (i = 0; i < s->trips; i++) {
			k = i % s->streams;
			err |= bench_dev_launch(&s->d, k, s->inc);
			err |= npu_stream_sync(s->d.stream[k], NPU_WAIT_FOREVER);
		}
		ns[r] = (double)(bench_now() - t) / s->trips;
	}
	*value = bench_quantile(ns, ROUNDS, 0.5);
	return err;
}

static int limit(void *arg, double *value)
{
	struct trip *s = arg;
	bench_task *fn = s->inc ? bench_task_inc : bench_task_nop;
	double ns[ROUNDS];
	unsigned int r, i, k;
	uint64_t t;

	for (r = 0; r < ROUNDS; r++) {
		t = bench_now();
		for (i = 0; i < s->trips; i++) {
			k = i % s->streams;
			bench_rings_push(s->rings, k, fn, &s->word);
			bench_rings_run(s->rings, k);
		}
		ns[r] = (double)(bench_now() - t) / s->trips;
	}
	*value = bench_quantile(ns, ROUNDS, 0.5);
	return 0;
}

static int run(struct bench *b)
{
	static const struct {
		const char *variant;
		bool inc;
		unsigned int streams;
		double most;
	} v[] = {
		{ "empty-1", false, 1, 80 },
		{ "inc-1", true, 1, 110 },
		{ "empty-64", false, 64, 130 },
		{ "inc-64", true, 64, 130 },
	};
	struct bench_figure f = { "roundtrip", NULL, "ns", true, ours, limit, NULL,
				  { .most = 0 } };
	struct trip s = { .trips = b->quick ? 100 : TRIPS };
	unsigned int i;
	int err = 0;

	for (i = 0; i < sizeof(v) / sizeof(v[0]) && !err; i++) {
		s.inc = v[i].inc;
		s.streams = v[i].streams;
		err = bench_dev_open(&s.d, s.streams, f.name);
		if (err)
			return err;
		s.rings = bench_rings_new(s.streams, 64, false);
		f.variant = v[i].variant;
		f.target.most = v[i].most;
		f.arg = &s;
		err = s.rings ? bench_measure(b, &f) : -ENOMEM;
		if (!err)
			err = bench_dev_check(&s.d, f.name);
		bench_rings_free(s.rings);
		if (bench_dev_close(&s.d, f.name) && !err)
			err = -EIO;
	}
	return err;
}

const struct bench_case bench_roundtrip = {
	"roundtrip", "submit one task and wait for it, device active", run,
};
