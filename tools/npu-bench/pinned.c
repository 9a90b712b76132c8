// SPDX-License-Identifier: MIT
/*
 * Pinned host memory: a block is allocated and freed, without a stream that uses it, and with one.
 *
 * Limit: one list of free pieces behind a spin lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "tools/npu-bench/bench.h"

#define CALLS 100000u

struct piece {
	struct piece *next;
};

struct pinned {
	struct bench_dev d;
	unsigned int calls;
	size_t size;
	_Atomic unsigned int lock;
	struct piece *list;
};

static __attribute__((noinline)) struct piece *bare_alloc(struct pinned *s)
{
	struct piece *p;

	while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire))
		bench_relax();
	p = s->list;
	if (p)
		s->list = p->next;
	atomic_store_explicit(&s->lock, 0, memory_order_release);
	return p ? p : malloc(sizeof(*p));
}

static __attribute__((noinline)) void bare_free(struct pinned *s, struct piece *p)
{
	while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire))
		bench_relax();
	p->next = s->list;
	s->list = p;
	atomic_store_explicit(&s->lock, 0, memory_order_release);
}

static int pair_limit(void *arg, double *value)
{
	struct pinned *s = arg;
	struct piece *p;
	unsigned int i;
	uint64_t t = bench_now();

	for (i = 0; i < s->calls; i++) {
		p = bare_alloc(s);
		if (!p)
			return -ENOMEM;
		bare_free(s, p);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return 0;
}

static int pair(void *arg, double *value)
{
	struct pinned *s = arg;
	unsigned int i;
	int err = 0;
	uint64_t t;
	void *p;

	t = bench_now();
	for (i = 0; i < s->calls; i++) {
		err |= npu_host_alloc(s->size, &p);
		err |= npu_host_free(p);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return err ? -EIO : 0;
}

static int used(void *arg, double *value)
{
	struct pinned *s = arg;
	unsigned int i;
	int err = 0;
	uint64_t t;
	void *p;

	t = bench_now();
	for (i = 0; i < s->calls; i++) {
		err |= npu_host_alloc(s->size, &p);
		err |= npu_host_record_stream(p, s->d.stream[0]);
		err |= npu_host_free(p);
	}
	*value = (double)(bench_now() - t) / s->calls;
	return err ? -EIO : 0;
}

static int run(struct bench *b)
{
	static const struct {
		const char *name;
		size_t size;
	} sizes[] = {
		{ "4K", 4096 }, { "1M", 1 << 20 }, { "64M", 64 << 20 },
	};
	struct pinned s = { .calls = b->quick ? 100 : CALLS };
	struct bench_figure f = { "pinned", "", "ns", true, pair, pair_limit, &s, { .most = 40 } };
	struct piece *p;
	unsigned int i;
	int err;

	err = bench_dev_open(&s.d, 1, "pinned");
	if (err)
		return err;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++) {
		f.variant = sizes[i].name;
		s.size = sizes[i].size;
		err = bench_measure(b, &f);
	}
	f.variant = "recorded";
	f.ours = used;
	f.target.most = 0;
	if (!err)
		err = bench_measure(b, &f);
	while ((p = s.list)) {
		s.list = p->next;
		free(p);
	}
	return bench_dev_close(&s.d, "pinned") ? -EIO : err;
}

const struct bench_case bench_pinned = {
	.name = "pinned",
	.what = "pinned host memory: allocate and free",
	.run = run,
};
