// SPDX-License-Identifier: MIT
/*
 * Guards: set the device or the stream, and put back what was there. Streams of
 * the pool.
 *
 * Limits: two calls that write thread-local words; a call that counts up and
 * loads from a table.
 */
#include <errno.h>

#include "tools/npu-bench/bench.h"

#define CALLS 100000u

struct guards {
	struct bench_dev d;
	unsigned int calls;
	_Atomic unsigned int turn;
	uint64_t table[32];
};

static int guard_device(void *arg, double *value)
{
	struct guards *s = arg;
	struct npu_guard g;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->calls; i++) {
		err |= npu_guard_device(&g, 0);
		err |= npu_guard_end(&g);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static int guard_stream(void *arg, double *value)
{
	struct guards *s = arg;
	struct npu_guard g;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->calls; i++) {
		err |= npu_guard_stream(&g, s->d.stream[0]);
		err |= npu_guard_end(&g);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static _Thread_local uint64_t current[2];

static __attribute__((noinline)) void bare_begin(uint64_t saved[2], uint64_t to)
{
	saved[0] = current[0];
	saved[1] = current[1];
	current[0] = current[1] = to;
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void bare_end(const uint64_t saved[2])
{
	current[0] = saved[0];
	current[1] = saved[1];
	__asm__ volatile("" ::: "memory");
}

static int guard_limit(void *arg, double *value)
{
	struct guards *s = arg;
	uint64_t saved[2], t = bench_now();
	unsigned int i;

	for (i = 0; i < s->calls; i++) {
		bare_begin(saved, i);
		bare_end(saved);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return 0;
}

static int pool_get(void *arg, double *value)
{
	struct guards *s = arg;
	npu_stream stream;
	unsigned int i;
	uint64_t t = bench_now();
	int err = 0;

	for (i = 0; i < s->calls; i++)
		err |= npu_stream_pool_get(0, NPU_PRIORITY_DEFAULT, &stream);
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static __attribute__((noinline)) void bare_get(struct guards *s, uint64_t *to)
{
	unsigned int i = atomic_fetch_add_explicit(&s->turn, 1, memory_order_relaxed);

	*to = s->table[i % 32];
	__asm__ volatile("" ::: "memory");
}

static int pool_limit(void *arg, double *value)
{
	struct guards *s = arg;
	uint64_t to, t = bench_now();
	unsigned int i;

	for (i = 0; i < s->calls; i++)
		bare_get(s, &to);
	*value = (double)(bench_now() - t) / s->calls;
	return 0;
}

static int run_figures(struct bench *b, struct guards *s, struct bench_figure *f, unsigned int n)
{
	unsigned int i;
	double first;
	int err;

	s->calls = b->quick ? 100 : CALLS;
	err = bench_dev_open(&s->d, 1, f->name);
	for (i = 0; i < n && !err; i++) {
		/* the pool makes its streams when they are handed out the first time */
		f[i].arg = s;
		err = f[i].ours(s, &first);
		err = err ? bench_fail(f[i].name, f[i].variant, err) : bench_measure(b, &f[i]);
	}
	if (s->d.streams && bench_dev_close(&s->d, f->name) && !err)
		err = -EIO;
	return err;
}

static int run_guard(struct bench *b)
{
	struct guards s = { .calls = 0 };
	struct bench_figure f[] = {
		{ "guard", "device", "ns", true, guard_device, guard_limit, NULL, { .most = 15 } },
		{ "guard", "stream", "ns", true, guard_stream, guard_limit, NULL, { .most = 15 } },
	};

	return run_figures(b, &s, f, 2);
}

static int run_pool(struct bench *b)
{
	struct guards s = { .calls = 0 };
	struct bench_figure f[] = {
		{ "pool", "get", "ns", true, pool_get, pool_limit, NULL, { .most = 15 } },
	};

	return run_figures(b, &s, f, 1);
}

const struct bench_case bench_guard = {
	"guard", "set and restore the device and the stream", run_guard,
};

const struct bench_case bench_pool = {
	"pool", "a stream from the pool", run_pool,
};
