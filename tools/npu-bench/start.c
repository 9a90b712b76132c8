// SPDX-License-Identifier: MIT
/*
 * Start: from the submission of a task to its first instruction, while the host
 * does not wait for it. The task is a timed record, whose time is turned into
 * the host's.
 *
 * Limits: a thread that sleeps 50 us, slack 1 us, between looks at a word; a
 * thread that sleeps in a futex. Of an idle device's use of the processor: the
 * process without one.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include "tools/npu-bench/bench.h"

#define SAMPLES 300u
#define IDLE_SAMPLES 15u
#define IDLE_US 30000u
#define LOOK_NS 50000
#define GIVE_UP_NS 1000000000ull

struct start {
	struct bench_dev d;
	npu_event event;
	int64_t offset;
	uint64_t seed;
	struct bench_sleeper *sleeper;
	pthread_t looker;
	_Alignas(64) _Atomic uint32_t word;
	_Alignas(64) _Atomic uint64_t seen;
	_Atomic bool stop;
};

/* Device time less host time, by the closest of some looks at both. */
static int clocks(struct start *s)
{
	uint64_t before, dev, after, best = UINT64_MAX;
	unsigned int i;
	int err;

	for (i = 0; i < 50; i++) {
		before = bench_now();
		err = npu_device_time(0, &dev);
		after = bench_now();
		if (err)
			return err;
		if (after - before >= best)
			continue;
		best = after - before;
		s->offset = (int64_t)(dev - (before + best / 2));
	}
	return 0;
}

static void spin_ns(uint64_t ns)
{
	uint64_t end = bench_now() + ns;

	while (bench_now() < end)
		bench_relax();
}

/* Up to a millisecond, at random: at no fixed place between two looks. */
static void pause_some(struct start *s)
{
	s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
	spin_ns(100000 + (s->seed >> 33) % 900000);
}

static int sample(struct start *s, double *us)
{
	uint64_t start = bench_now(), stamp = 0;
	int err;

	err = npu_event_record(s->event, s->d.stream[0]);
	if (err)
		return err;
	while ((err = npu_event_query(s->event)) == -EINPROGRESS) {
		if (bench_now() - start > GIVE_UP_NS)
			return -ETIMEDOUT;
		bench_relax();
	}
	if (!err)
		err = npu_event_timestamp(s->event, &stamp);
	*us = (double)((int64_t)stamp - s->offset - (int64_t)start) / 1000;
	return err;
}

static int active_ours(struct start *s, unsigned int n, double *us)
{
	unsigned int i;
	int err = clocks(s);

	for (i = 0; i < n && !err; i++) {
		err = bench_dev_launch(&s->d, 0, false);
		if (!err)
			err = bench_dev_sync(&s->d);
		pause_some(s);
		if (!err)
			err = sample(s, &us[i]);
	}
	return err;
}

static void *look(void *arg)
{
	struct timespec nap = { 0, LOOK_NS };
	struct start *s = arg;
	uint32_t last = 0, now;

	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	while (!atomic_load(&s->stop)) {
		now = atomic_load(&s->word);
		if (now != last)
			atomic_store(&s->seen, bench_now());
		last = now;
		nanosleep(&nap, NULL);
	}
	return NULL;
}

static int active_limit(struct start *s, unsigned int n, double *us)
{
	uint64_t start, seen;
	unsigned int i;

	atomic_store(&s->stop, false);
	atomic_store(&s->word, 0);
	if (pthread_create(&s->looker, NULL, look, s))
		return -EAGAIN;
	for (i = 0; i < n; i++) {
		pause_some(s);
		atomic_store(&s->seen, 0);
		start = bench_now();
		atomic_fetch_add(&s->word, 1);
		while (!(seen = atomic_load(&s->seen)))
			bench_relax();
		us[i] = (double)(seen - start) / 1000;
	}
	atomic_store(&s->stop, true);
	pthread_join(s->looker, NULL);
	return 0;
}

static int active(struct bench *b, struct start *s)
{
	struct bench_figure p99 = {
		"start", "active-p99", "us", false, NULL, NULL, NULL, { .plus = 60 },
	};
	struct bench_figure p50 = {
		"start", "active-median", "us", false, NULL, NULL, NULL, { .most = 150 },
	};
	unsigned int i, n = b->quick ? 5 : SAMPLES;
	double v[4][99], us[SAMPLES];
	int err = 0;

	for (i = 0; i < b->runs && !err; i++) {
		b->pairs++;
		b->noisy += !bench_quiet(b);
		err = active_ours(s, n, us);
		if (err)
			break;
		v[0][i] = bench_quantile(us, n, 0.99);
		v[2][i] = bench_quantile(us, n, 0.5);
		err = active_limit(s, n, us);
		v[1][i] = bench_quantile(us, n, 0.99);
		v[3][i] = bench_quantile(us, n, 0.5);
	}
	if (err)
		return bench_fail("start", "active", err);
	bench_report(b, &p99, v[0], v[1], b->runs);
	bench_report(b, &p50, v[2], v[3], b->runs);
	return 0;
}

static int idle_ours(void *arg, double *value)
{
	struct start *s = arg;
	double us[IDLE_SAMPLES];
	unsigned int i;
	int err = clocks(s);

	for (i = 0; i < IDLE_SAMPLES && !err; i++) {
		bench_sleep_us(IDLE_US);
		err = sample(s, &us[i]);
	}
	*value = bench_quantile(us, IDLE_SAMPLES, 0.5);
	return err;
}

static int idle_limit(void *arg, double *value)
{
	struct start *s = arg;
	double us[IDLE_SAMPLES], spent;
	unsigned int i;

	for (i = 0; i < IDLE_SAMPLES; i++) {
		bench_sleep_us(IDLE_US);
		bench_sleeper_wake(s->sleeper, &spent, &us[i]);
		us[i] /= 1000;
	}
	*value = bench_quantile(us, IDLE_SAMPLES, 0.5);
	return 0;
}

/* Microseconds of processor that the process uses in a second in which it sleeps. */
static double idle_cpu(const struct bench *b)
{
	unsigned int us = b->quick ? 20000 : 300000;
	uint64_t t;

	bench_sleep_us(IDLE_US);
	t = bench_cpu_time();
	bench_sleep_us(us);
	return (double)(bench_cpu_time() - t) / 1000 * (1e6 / us);
}

static int run(struct bench *b)
{
	struct start s = { .seed = 1 };
	struct bench_figure f = {
		"start", "idle", "us", false, idle_ours, idle_limit, &s, { .plus = 30 },
	};
	struct bench_figure cpu = {
		"start", "idle-cpu", "us/s", false, NULL, NULL, NULL, { .plus = 100 },
	};
	double with[99], without[99];
	unsigned int i;
	int err;

	for (i = 0; i < b->runs; i++)
		without[i] = idle_cpu(b);
	err = bench_dev_open(&s.d, 1, "start");
	if (err)
		return err;
	s.sleeper = bench_sleeper_new();
	err = s.sleeper ? npu_event_create(NPU_EVENT_TIMING, &s.event) : -ENOMEM;
	if (err)
		bench_fail("start", "set-up", err);
	if (!err)
		err = active(b, &s);
	if (!err)
		err = bench_measure(b, &f);
	for (i = 0; i < b->runs && !err; i++)
		with[i] = idle_cpu(b);
	if (!err)
		bench_report(b, &cpu, with, without, b->runs);
	bench_sleeper_free(s.sleeper);
	return bench_dev_close(&s.d, "start") ? -EIO : err;
}

const struct bench_case bench_start = {
	"start", "submission to first instruction when nobody waits; an idle device's CPU", run,
};
