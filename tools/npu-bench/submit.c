// SPDX-License-Identifier: MIT
/*
 * Submission: host time of one task through the public interface.
 *
 * Limit: the bare rings of ring.c. Of the queue behind a blocked head: the same
 * push into memory that is fresh, piece by piece. Of the first task to an idle
 * device: a futex wake.
 */
#include <errno.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "tools/npu-bench/bench.h"

#define BURST 1024u
#define ROUNDS 200u
#define MANY 1000000u
#define BARE_SLOTS 65536u
#define IDLE_US 30000u
#define IDLE_WAKES 15u

/**
 * struct submit - one figure's work
 * @d: the device
 * @inc: tasks that increment
 * @streams: in turn
 * @burst: tasks submitted in a row
 * @rounds: bursts
 * @rings: the limit's
 * @word: what its tasks increment
 */
struct submit {
	struct bench_dev d;
	bool inc;
	unsigned int streams;
	unsigned int burst;
	unsigned int rounds;
	struct bench_rings *rings;
	uint64_t word;
};

static int ours(void *arg, double *value)
{
	struct submit *s = arg;
	double ns[ROUNDS];
	unsigned int r, i;
	uint64_t t;
	int err = 0;

	for (r = 0; r < s->rounds && !err; r++) {
		t = bench_now();
		for (i = 0; i < s->burst; i++)
			err |= bench_dev_launch(&s->d, i % s->streams, s->inc);
		ns[r] = (double)(bench_now() - t) / s->burst;
		if (!err)
			err = bench_dev_sync(&s->d);
	}
	*value = bench_quantile(ns, s->rounds, 0.5);
	return err;
}

static int limit(void *arg, double *value)
{
	struct submit *s = arg;
	bench_task *fn = s->inc ? bench_task_inc : bench_task_nop;
	double ns[ROUNDS];
	unsigned int r, i;
	uint64_t t;

	/* its consumer polls: it must not run beside ours */
	s->rings = bench_rings_new(s->streams, BARE_SLOTS / s->streams, true);
	if (!s->rings)
		return -ENOMEM;
	for (r = 0; r < s->rounds; r++) {
		t = bench_now();
		for (i = 0; i < s->burst; i++)
			bench_rings_push(s->rings, i % s->streams, fn, &s->word);
		ns[r] = (double)(bench_now() - t) / s->burst;
		bench_rings_sync(s->rings);
	}
	bench_rings_free(s->rings);
	*value = bench_quantile(ns, s->rounds, 0.5);
	return 0;
}

static int bursts(struct bench *b)
{
	static const struct {
		const char *variant;
		bool inc;
		unsigned int streams, burst, rounds;
	} v[] = {
		{ "empty-1", false, 1, BURST, ROUNDS },
		{ "inc-1", true, 1, BURST, ROUNDS },
		{ "empty-64", false, 64, BURST, ROUNDS },
		{ "inc-64", true, 64, BURST, ROUNDS },
		{ "row-1e6", false, 1, MANY, 1 },
		{ "row-inc-1e6", true, 1, MANY, 1 },
	};
	struct bench_figure f = {
		"submit", NULL, "ns", true, ours, limit, NULL, { .most = 25, .times = 2.5 },
	};
	struct submit s;
	unsigned int i;
	int err = 0;

	for (i = 0; i < sizeof(v) / sizeof(v[0]) && !err; i++) {
		err = bench_dev_open(&s.d, v[i].streams, "submit");
		if (err)
			return err;
		s.inc = v[i].inc;
		s.streams = v[i].streams;
		s.burst = b->quick && v[i].burst > 10000 ? 10000 : v[i].burst;
		s.rounds = b->quick ? 1 : v[i].rounds;
		f.variant = v[i].variant;
		f.arg = &s;
		err = bench_measure(b, &f);
		if (!err)
			err = bench_dev_check(&s.d, "submit");
		if (bench_dev_close(&s.d, "submit") && !err)
			err = -EIO;
	}
	return err;
}

static void gate_wait(void *arg)
{
	sem_t *open = arg;

	/* asleep, so that it takes nothing from what is measured */
	while (sem_wait(open))
		;
}

/**
 * struct blocked - submission behind a head that does not end
 * @d: the device
 * @many: tasks
 * @first: ns a task of the first thousand
 * @last: and of the last thousand
 */
struct blocked {
	struct bench_dev d;
	unsigned int many;
	double first;
	double last;
};

static int blocked_ours(void *arg, double *value)
{
	struct blocked *s = arg;
	unsigned int i, n = s->many;
	sem_t open;
	uint64_t t[4];
	int err;

	sem_init(&open, 0, 0);
	err = npu_stream_callback(s->d.stream[0], gate_wait, &open, 0);
	if (err)
		return err;
	t[0] = bench_now();
	for (i = 0; i < 1000; i++)
		err |= bench_dev_launch(&s->d, 0, false);
	t[1] = bench_now();
	for (; i < n - 1000; i++)
		err |= bench_dev_launch(&s->d, 0, false);
	t[2] = bench_now();
	for (; i < n; i++)
		err |= bench_dev_launch(&s->d, 0, false);
	t[3] = bench_now();
	sem_post(&open);
	if (bench_dev_sync(&s->d) || err)
		return err ? err : -EIO;
	s->first = (double)(t[1] - t[0]) / 1000;
	s->last = (double)(t[3] - t[2]) / 1000;
	*value = (double)(t[3] - t[0]) / n;
	return 0;
}

/* A push under a lock into fresh memory that is made present 256 KiB at a time. */
static int blocked_limit(void *arg, double *value)
{
	struct blocked *s = arg;
	size_t piece = (size_t)256 << 10, size = ((size_t)s->many * 64 + piece) & ~(piece - 1);
	_Atomic unsigned int lock = 0;
	_Atomic uint64_t *slot;
	unsigned int i, k;
	uint64_t t;
	char *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	t = bench_now();
	for (i = 0; i < s->many; i++) {
		while (atomic_exchange_explicit(&lock, 1, memory_order_acquire))
			bench_relax();
		slot = (_Atomic uint64_t *)(p + (size_t)i * 64);
		if (!((size_t)i * 64 % piece))
			for (k = 0; k < piece; k += 4096)
				*(volatile char *)((char *)slot + k) = 0;
		for (k = 1; k < 5; k++)
			atomic_store_explicit(slot + k, i, memory_order_relaxed);
		atomic_store_explicit(slot, i + 1, memory_order_release);
		atomic_store_explicit(&lock, 0, memory_order_release);
	}
	*value = (double)(bench_now() - t) / s->many;
	munmap(p, size);
	return 0;
}

static int blocked(struct bench *b)
{
	struct bench_figure all = {
		"submit", "blocked-1e6", "ns", true, NULL, NULL, NULL, { .most = 60 },
	};
	struct bench_figure ends = {
		"submit", "blocked-last/first", "ns", true, NULL, NULL, NULL, { .times = 1.3 },
	};
	double v[4][99];
	struct blocked s;
	unsigned int i;
	int err;

	err = bench_dev_open(&s.d, 1, "submit");
	if (err)
		return err;
	s.many = b->quick ? 10000 : MANY;
	for (i = 0; i < b->runs && !err; i++) {
		b->pairs++;
		b->noisy += !bench_quiet(b);
		err = blocked_ours(&s, &v[0][i]);
		if (!err)
			err = blocked_limit(&s, &v[1][i]);
		v[2][i] = s.last;
		v[3][i] = s.first;
	}
	if (err) {
		bench_fail("submit", "blocked", err);
	} else {
		bench_report(b, &all, v[0], v[1], b->runs);
		bench_report(b, &ends, v[2], v[3], b->runs);
	}
	return bench_dev_close(&s.d, "submit") ? -EIO : err;
}

/**
 * struct idle - the first task to an idle device
 * @d: the device
 * @sleeper: the limit's
 * @wakes: how many a run
 */
struct idle {
	struct bench_dev d;
	struct bench_sleeper *sleeper;
	unsigned int wakes;
};

static int idle_ours(void *arg, double *value)
{
	struct idle *s = arg;
	double us[IDLE_WAKES];
	unsigned int i;
	uint64_t t;
	int err = 0;

	for (i = 0; i < s->wakes && !err; i++) {
		bench_sleep_us(IDLE_US);
		t = bench_now();
		err = bench_dev_launch(&s->d, 0, false);
		us[i] = (double)(bench_now() - t) / 1000;
		if (!err)
			err = bench_dev_sync(&s->d);
	}
	*value = bench_quantile(us, s->wakes, 0.5);
	return err;
}

static int idle_limit(void *arg, double *value)
{
	struct idle *s = arg;
	double us[IDLE_WAKES], until;
	unsigned int i;

	for (i = 0; i < s->wakes; i++) {
		bench_sleep_us(IDLE_US);
		bench_sleeper_wake(s->sleeper, &us[i], &until);
		us[i] /= 1000;
	}
	*value = bench_quantile(us, s->wakes, 0.5);
	return 0;
}

static int idle(struct bench *b)
{
	struct bench_figure f = {
		"submit", "first-idle", "us", false, idle_ours, idle_limit, NULL, { .plus = 1 },
	};
	struct idle s;
	int err;

	err = bench_dev_open(&s.d, 1, "submit");
	if (err)
		return err;
	s.wakes = b->quick ? 2 : IDLE_WAKES;
	s.sleeper = bench_sleeper_new();
	f.arg = &s;
	err = s.sleeper ? bench_measure(b, &f) : -ENOMEM;
	bench_sleeper_free(s.sleeper);
	return bench_dev_close(&s.d, "submit") ? -EIO : err;
}

static int run(struct bench *b)
{
	int err = bursts(b);

	if (!err)
		err = blocked(b);
	if (!err)
		err = idle(b);
	return err;
}

const struct bench_case bench_submit = {
	"submit", "host time to submit a task, device active, blocked and idle", run,
};
