// SPDX-License-Identifier: MIT
/*
 * Blocking copies and fills, host memory pinned.
 *
 * Limit: the fastest bare copy with as many threads as ours was seen to use,
 * of the same host memory and of anonymous huge pages in place of the device's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/npu-bench/bare_copy.h"
#include "tools/npu-bench/bench.h"

enum kind { H2D, D2H, D2D, FILL_DEVICE };

static const char *const kind_name[] = { "h2d", "d2h", "d2d", "fill" };

static const struct {
	const char *name;
	size_t size;
	unsigned int reps;
} sizes[] = {
	{ "4KiB", (size_t)4 << 10, 2000 },
	{ "1MiB", (size_t)1 << 20, 50 },
	{ "64MiB", (size_t)64 << 20, 3 },
	{ "1GiB", (size_t)1 << 30, 1 },
};

/**
 * struct copies - one figure's work
 * @size: bytes
 * @reps: copies in a row
 * @kind: which way
 * @host: pinned memory
 * @dev: device memory
 * @bare: memory in place of the device's
 * @one: bare copies with one thread
 * @all: bare copies with as many as there are cores
 * @cpu: processor time that our last copies took a second of theirs
 */
struct copies {
	size_t size;
	unsigned int reps;
	enum kind kind;
	void *host;
	void *dev[2];
	void *bare[2];
	struct bare_copier *one;
	struct bare_copier *all;
	double cpu;
};

static int copy_once(struct copies *s)
{
	switch (s->kind) {
	case H2D:
		return npu_memcpy(s->dev[0], s->host, s->size, NPU_COPY_H2D);
	case D2H:
		return npu_memcpy(s->host, s->dev[0], s->size, NPU_COPY_D2H);
	case D2D:
		return npu_memcpy(s->dev[1], s->dev[0], s->size, NPU_COPY_D2D);
	default:
		return npu_memset(s->dev[0], 7, s->size);
	}
}

static void bare_sides(struct copies *s, char **dst, const char **src)
{
	*dst = s->kind == D2H ? s->host : s->bare[s->kind == D2D];
	*src = s->kind == H2D ? s->host : s->kind == FILL_DEVICE ? NULL : s->bare[0];
}

/* In GB/s; of 4 KiB, where the call is what counts, in ns. */
static double rate(const struct copies *s, uint64_t ns)
{
	if (s->size <= 4096)
		return (double)ns / s->reps;
	return (double)s->size * s->reps / (double)ns;
}

static int ours(void *arg, double *value)
{
	struct copies *s = arg;
	uint64_t cpu, t;
	unsigned int i;
	int err = 0;

	/* whoever helps is asleep at the start */
	bench_sleep_us(20000);
	cpu = bench_cpu_time();
	t = bench_now();
	for (i = 0; i < s->reps; i++)
		err |= copy_once(s);
	t = bench_now() - t;
	s->cpu = (double)(bench_cpu_time() - cpu) / (double)t;
	*value = rate(s, t);
	return err;
}

static int limit(void *arg, double *value)
{
	struct copies *s = arg;
	struct bare_copier *c;
	const char *src;
	unsigned int i;
	uint64_t t;
	char *dst;
	int err = 0;

	/* the first pair may begin with us */
	if (s->cpu == 0)
		err = ours(s, value);
	c = s->cpu > 1.3 ? s->all : s->one;
	bare_sides(s, &dst, &src);
	bench_sleep_us(20000);
	t = bench_now();
	for (i = 0; i < s->reps; i++)
		bare_copier_run(c, dst, src, s->size);
	*value = rate(s, bench_now() - t);
	return err;
}

static void buffers_free(struct copies *s)
{
	npu_free_host(s->host);
	npu_free(s->dev[0]);
	npu_free(s->dev[1]);
	bench_memory_free(s->bare[0], s->size);
	bench_memory_free(s->bare[1], s->size);
	bare_copier_free(s->one);
	bare_copier_free(s->all);
}

static int buffers_make(struct copies *s)
{
	int err;

	err = npu_malloc_host(s->size, 0, &s->host);
	if (!err)
		err = npu_malloc(s->size, NPU_MEM_HUGE_FIRST, &s->dev[0]);
	if (!err && s->kind == D2D)
		err = npu_malloc(s->size, NPU_MEM_HUGE_FIRST, &s->dev[1]);
	if (err)
		return err;
	memset(s->host, 3, s->size);
	s->bare[0] = bench_memory(s->size);
	s->bare[1] = s->kind == D2D ? bench_memory(s->size) : NULL;
	s->one = bare_copier_new(1);
	s->all = bare_copier_new(bench_cores());
	if (!s->bare[0] || (s->kind == D2D && !s->bare[1]) || !s->one || !s->all)
		return -ENOMEM;
	return copy_once(s);
}

static int figure(struct bench *b, unsigned int size, enum kind kind)
{
	struct copies s = {
		.size = sizes[size].size,
		.reps = b->quick ? 1 : sizes[size].reps,
		.kind = kind,
	};
	struct bench_figure f = {
		"copy", NULL, "GB/s", false, ours, limit, &s, { .least = 0.95 },
	};
	char variant[32];
	const char *src;
	char *dst;
	int err;

	snprintf(variant, sizeof(variant), "%s-%s", kind_name[kind], sizes[size].name);
	f.variant = variant;
	if (s.size <= 4096) {
		f.unit = "ns";
		f.scale = true;
		f.target = (struct bench_target){ .most = 600 };
	}
	err = buffers_make(&s);
	if (!err) {
		bare_sides(&s, &dst, &src);
		bare_copier_choose(s.one, dst, src, s.size);
		bare_copier_choose(s.all, dst, src, s.size);
		err = bench_measure(b, &f);
	} else {
		bench_fail("copy", variant, err);
	}
	buffers_free(&s);
	return err;
}

static int run(struct bench *b)
{
	struct bench_dev d;
	unsigned int size, n = b->quick ? 2 : sizeof(sizes) / sizeof(sizes[0]);
	enum kind kind;
	int err;

	err = bench_dev_open(&d, 1, "copy");
	if (err)
		return err;
	for (size = 0; size < n && !err; size++)
		for (kind = H2D; kind <= FILL_DEVICE && !err; kind++)
			err = figure(b, size, kind);
	return bench_dev_close(&d, "copy") ? -EIO : err;
}

const struct bench_case bench_copy = {
	"copy", "blocking copies and fills of 4 KiB to 1 GiB, pinned", run,
};
