// SPDX-License-Identifier: MIT
/*
 * Pairs of ours and the limit, their medians, and the lines that are printed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/npu-bench/bench.h"

#define RUNS_MAX 99

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double bench_quantile(double *v, unsigned int n, double share)
{
	qsort(v, n, sizeof(*v), compare);
	return v[(unsigned int)(share * (n - 1) + 0.5)];
}

int bench_fail(const char *name, const char *call, int err)
{
	struct npu_error e = { .size = sizeof(e) };

	if (npu_last_error(&e) || e.code != err)
		e.text[0] = 0;
	fprintf(stderr, "npu-bench: %s: %s: %s%s%s\n", name, call, npu_error_name(err),
		e.text[0] ? ": " : "", e.text);
	return err;
}

/* Why the figure is good enough, or that it is not. */
static bool reached(const struct bench_target *t, double ours, double limit, double ratio)
{
	if (t->most != 0 && ours <= t->most)
		return true;
	if (t->times != 0 && ratio <= t->times)
		return true;
	if (t->plus != 0 && ours <= limit + t->plus)
		return true;
	return t->least != 0 && ratio >= t->least;
}

static bool has_target(const struct bench_target *t)
{
	return t->most != 0 || t->times != 0 || t->plus != 0 || t->least != 0;
}

static void describe(const struct bench_target *t, char *buf, size_t size)
{
	const char *or = "";
	int n = 0;

	buf[0] = 0;
	if (t->most != 0) {
		n += snprintf(buf + n, size - (size_t)n, "%.6g", t->most);
		or = " or ";
	}
	if (t->times != 0) {
		n += snprintf(buf + n, size - (size_t)n, "%s%.4gx", or, t->times);
		or = " or ";
	}
	if (t->plus != 0)
		n += snprintf(buf + n, size - (size_t)n, "%slimit + %.6g", or, t->plus);
	if (t->least != 0)
		snprintf(buf + n, size - (size_t)n, "%s>= %.4gx", or, t->least);
}

void bench_header(const struct bench *b)
{
	if (!b->json)
		printf("%-10s %-20s %10s %10s %8s  %-8s %-22s %s\n", "case", "variant", "median",
		       "limit", "ratio", "unit", "target", "reached");
}

static void print_line(struct bench *b, const struct bench_figure *f, double ours, double limit,
		       double ratio)
{
	bool ok = reached(&f->target, ours, limit, ratio);
	bool asked = has_target(&f->target);
	char target[64];

	describe(&f->target, target, sizeof(target));
	if (asked && !ok)
		b->missed++;
	if (b->json)
		printf("{\"case\": \"%s\", \"variant\": \"%s\", \"median\": %.6g, "
		       "\"unit\": \"%s\", \"limit\": %.6g, \"ratio\": %.4g, "
		       "\"target\": \"%s\", \"reached\": %s}\n",
		       f->name, f->variant, ours, f->unit, limit, ratio, target,
		       !asked ? "null" : ok ? "true" : "false");
	else
		printf("%-10s %-20s %10.4g %10.4g %8.3g  %-8s %-22s %s\n", f->name, f->variant,
		       ours, limit, ratio, f->unit, target, !asked ? "" : ok ? "yes" : "NO");
	fflush(stdout);
}

void bench_report(struct bench *b, const struct bench_figure *f, double *ours, double *limit,
		  unsigned int n)
{
	double ratio[RUNS_MAX], scale = f->scale ? b->ghz / 3 : 1;
	unsigned int i;

	for (i = 0; i < n; i++)
		ratio[i] = limit[i] > 0 ? ours[i] / limit[i] : 0;
	print_line(b, f, bench_quantile(ours, n, 0.5) * scale,
		   bench_quantile(limit, n, 0.5) * scale, bench_quantile(ratio, n, 0.5));
}

int bench_measure(struct bench *b, const struct bench_figure *f)
{
	double ours[RUNS_MAX], limit[RUNS_MAX];
	unsigned int i, runs = b->runs < RUNS_MAX ? b->runs : RUNS_MAX;
	int err;

	for (i = 0; i < runs; i++) {
		b->pairs++;
		b->noisy += !bench_quiet(b);
		/* by turns, so that neither always profits from the other's warmth */
		err = i % 2 ? f->limit(f->arg, &limit[i]) : f->ours(f->arg, &ours[i]);
		if (!err)
			err = i % 2 ? f->ours(f->arg, &ours[i]) : f->limit(f->arg, &limit[i]);
		if (err)
			return bench_fail(f->name, f->variant, err);
	}
	bench_report(b, f, ours, limit, runs);
	return 0;
}
