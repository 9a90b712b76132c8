// SPDX-License-Identifier: MIT
/*
 * The cache of device memory: a block is allocated and freed; 64 live blocks of mixed sizes are
 * replaced at random; two threads do the first on one device, and on one each.
 *
 * Limits: a list of free pieces for each power of two, behind a spin lock; of the threads, one
 * thread alone.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "tools/npu-bench/bench.h"

#define CALLS 100000u
#define LIVE 64u

struct piece {
	struct piece *next;
	unsigned int class;
};

struct allocs {
	struct bench_dev d;
	npu_stream stream[2];
	unsigned int calls;
	size_t size;
	_Atomic unsigned int lock;
	struct piece *list[48];
	void *slot[LIVE];
	struct piece *bare[LIVE];
	uint32_t seed;
};

static const size_t mix[16] = {
	512, 512, 1024, 2048, 4096, 4096, 16384, 65536, 65536, 262144, 1 << 20, 1 << 20, 2 << 20,
	4 << 20, 8 << 20, 16 << 20,
};

static uint32_t dice(struct allocs *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 17;
	s->seed ^= s->seed << 5;
	return s->seed;
}

/* ---- the limit ------------------------------------------------------------------------------ */

static void lock(struct allocs *s)
{
	while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire))
		bench_relax();
}

static void unlock(struct allocs *s)
{
	atomic_store_explicit(&s->lock, 0, memory_order_release);
}

static __attribute__((noinline)) struct piece *bare_alloc(struct allocs *s, size_t size)
{
	unsigned int class = size <= 512 ? 9 : 64 - (unsigned int)__builtin_clzl(size - 1);
	struct piece *p;

	lock(s);
	p = s->list[class];
	if (p)
		s->list[class] = p->next;
	unlock(s);
	if (!p) {
		p = malloc(sizeof(*p));
		if (p)
			p->class = class;
	}
	return p;
}

static __attribute__((noinline)) void bare_free(struct allocs *s, struct piece *p)
{
	lock(s);
	p->next = s->list[p->class];
	s->list[p->class] = p;
	unlock(s);
}

static int pair_limit(void *arg, double *value)
{
	struct allocs *s = arg;
	struct piece *p;
	unsigned int i;
	uint64_t t = bench_now();

	for (i = 0; i < s->calls; i++) {
		p = bare_alloc(s, s->size);
		if (!p)
			return -ENOMEM;
		bare_free(s, p);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return 0;
}

static int mixed_limit(void *arg, double *value)
{
	struct allocs *s = arg;
	unsigned int i, k;
	uint64_t t;

	for (i = 0; i < LIVE; i++)
		if (!s->bare[i])
			s->bare[i] = bare_alloc(s, 512);
	t = bench_now();
	for (i = 0; i < s->calls; i++) {
		k = dice(s) % LIVE;
		bare_free(s, s->bare[k]);
		s->bare[k] = bare_alloc(s, mix[dice(s) % 16]);
		if (!s->bare[k])
			return -ENOMEM;
	}
	*value = (double)(bench_now() - t) / s->calls;
	return 0;
}

static void bare_end(struct allocs *s)
{
	struct piece *p;
	unsigned int i;

	for (i = 0; i < LIVE; i++)
		free(s->bare[i]);
	for (i = 0; i < sizeof(s->list) / sizeof(s->list[0]); i++)
		while ((p = s->list[i])) {
			s->list[i] = p->next;
			free(p);
		}
}

/* ---- ours ----------------------------------------------------------------------------------- */

static int pairs(npu_stream stream, size_t size, unsigned int calls)
{
	unsigned int i;
	int err = 0;
	void *p;

	for (i = 0; i < calls; i++) {
		err |= npu_mem_alloc(size, stream, &p);
		err |= npu_mem_free(p);
	}
	return err;
}

static int pair(void *arg, double *value)
{
	struct allocs *s = arg;
	uint64_t t = bench_now();
	int err;

	err = pairs(s->stream[0], s->size, s->calls);
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static int mixed(void *arg, double *value)
{
	struct allocs *s = arg;
	unsigned int i, k;
	int err = 0;
	uint64_t t;

	for (i = 0; i < LIVE; i++)
		if (!s->slot[i])
			err |= npu_mem_alloc(512, s->stream[0], &s->slot[i]);
	t = bench_now();
	for (i = 0; i < s->calls; i++) {
		k = dice(s) % LIVE;
		err |= npu_mem_free(s->slot[k]);
		err |= npu_mem_alloc(mix[dice(s) % 16], s->stream[0], &s->slot[k]);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return err;
}

static int run_alloc(struct bench *b)
{
	static const struct {
		const char *name;
		size_t size;
	} sizes[] = {
		{ "512", 512 }, { "4K", 4096 }, { "64K", 65536 }, { "1M", 1 << 20 },
		{ "2M", 2 << 20 }, { "16M", 16 << 20 }, { "64M", 64 << 20 },
	};
	struct allocs s = { .calls = b->quick ? 100 : CALLS, .seed = 12345 };
	struct bench_figure f = { "alloc", "", "ns", true, pair, pair_limit, &s, { .most = 25 } };
	unsigned int i;
	int err;

	err = bench_dev_open(&s.d, 1, "alloc");
	if (err)
		return err;
	s.stream[0] = s.d.stream[0];
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++) {
		f.variant = sizes[i].name;
		s.size = sizes[i].size;
		err = bench_measure(b, &f);
	}
	f.variant = "mixed";
	f.ours = mixed;
	f.limit = mixed_limit;
	f.target.most = 45;
	if (!err)
		err = bench_measure(b, &f);
	for (i = 0; i < LIVE; i++)
		npu_mem_free(s.slot[i]);
	bare_end(&s);
	return bench_dev_close(&s.d, "alloc") ? -EIO : err;
}

/* ---- threads -------------------------------------------------------------------------------- */

/**
 * struct share - what a thread does
 * @s: the case
 * @stream: in this stream
 * @go: begin
 * @err: what came of it
 */
struct share {
	struct allocs *s;
	npu_stream stream;
	_Atomic int *go;
	int err;
};

static void *work(void *arg)
{
	struct share *w = arg;

	/* the first calls of a thread cost more */
	w->err = pairs(w->stream, w->s->size, 1000);
	atomic_fetch_add(w->go, 1);
	while (atomic_load(w->go) > 0)
		bench_relax();
	w->err |= pairs(w->stream, w->s->size, w->s->calls);
	return NULL;
}

/* Million pairs in a second, of n threads together. */
static int together(struct allocs *s, unsigned int n, const npu_stream *stream, double *value)
{
	_Atomic int go = 0;
	struct share w[2];
	pthread_t th[2];
	unsigned int i, made = 0;
	uint64_t t;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		w[i] = (struct share){ .s = s, .stream = stream[i], .go = &go };
		err = -pthread_create(&th[i], NULL, work, &w[i]);
		made += !err;
	}
	while (atomic_load(&go) < (int)made)
		bench_relax();
	t = bench_now();
	atomic_store(&go, -1000);
	for (i = 0; i < made; i++) {
		pthread_join(th[i], NULL);
		err |= w[i].err;
	}
	*value = 1000.0 * n * s->calls / (double)(bench_now() - t);
	return err;
}

static int two_devices(void *arg, double *value)
{
	struct allocs *s = arg;

	return together(s, 2, s->stream, value);
}

static int one_device(void *arg, double *value)
{
	struct allocs *s = arg;
	const npu_stream both[2] = { s->stream[0], s->stream[0] };

	return together(s, 2, both, value);
}

static int one_thread(void *arg, double *value)
{
	struct allocs *s = arg;

	return together(s, 1, s->stream, value);
}

static int run_threads(struct bench *b)
{
	struct allocs s = { .calls = b->quick ? 100 : 20 * CALLS, .size = 4096 };
	const struct bench_figure f[] = {
		{ "alloc-threads", "one-device", "M/s", false, one_device, one_thread, &s,
		  { .least = 0 } },
		{ "alloc-threads", "two-devices", "M/s", false, two_devices, one_thread, &s,
		  { .least = 1.8 } },
	};
	unsigned int i;
	int err;

	err = bench_dev_open(&s.d, 1, "alloc-threads");
	if (err)
		return err;
	s.stream[0] = s.d.stream[0];
	err = npu_stream_default(1, &s.stream[1]);
	if (err)
		bench_fail("alloc-threads", "npu_stream_default", err);
	for (i = 0; i < sizeof(f) / sizeof(f[0]) && !err; i++)
		err = bench_measure(b, &f[i]);
	return bench_dev_close(&s.d, "alloc-threads") ? -EIO : err;
}

const struct bench_case bench_alloc = {
	.name = "alloc",
	.what = "device memory: allocate and free, one size and mixed",
	.run = run_alloc,
};

const struct bench_case bench_alloc_threads = {
	.name = "alloc-threads",
	.what = "device memory: two threads, one device and two",
	.run = run_threads,
};
