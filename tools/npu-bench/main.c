// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/npu-bench/bench.h"
#include "tools/npu-bench/child.h"

static const struct bench_case *const cases[] = {
	&bench_submit, &bench_roundtrip, &bench_event, &bench_start, &bench_hop, &bench_guard,
	&bench_pool, &bench_alloc, &bench_alloc_threads, &bench_alloc_trace, &bench_pinned,
	&bench_copy, &bench_file_read, &bench_gemm, &bench_parked, &bench_ipc, &bench_init,
	&bench_size,
};

#define CASES (sizeof(cases) / sizeof(cases[0]))
#define RUNS 9
#define RUNS_MAX 99

static const char usage[] =
	"usage: npu-bench [CASE...] [--json] [--runs N] [--quick] [--check] [--no-wait]\n"
	"                 [--appliance PROGRAM] [--list] [--help]\n"
	"\n"
	"Measures the library beside the least that the same work can cost here.\n"
	"  --json       one object a line\n"
	"  --runs N     the median of so many pairs counts (default 9, at most 99)\n"
	"  --quick      only show that the cases run; the figures mean nothing\n"
	"  --check      exit with 1 when a target is missed\n"
	"  --no-wait    do not wait for a quiet machine\n"
	"  --appliance  static program to weigh in case size\n"
	"  --list       list the cases\n"
	"  --help       show this text\n"
	"Exit status: 0; 1 with --check, when a target is missed; 2 when a case can't be\n"
	"measured, or for arguments that are not as above.\n";

static void list(void)
{
	size_t i;

	for (i = 0; i < CASES; i++)
		printf("%-10s %s\n", cases[i]->name, cases[i]->what);
}

static int bad_usage(const char *what, const char *arg)
{
	fprintf(stderr, "npu-bench: %s %s\n%s", what, arg, usage);
	return 2;
}

/**
 * struct args - the command line
 * @chosen: cases that were named
 * @any: whether one was
 * @check: missed targets decide the exit status
 * @list: list the cases and do nothing else
 * @help: show the usage and do nothing else
 */
struct args {
	bool chosen[CASES];
	bool any;
	bool check;
	bool list;
	bool help;
};

static bool choose(struct args *a, const char *name)
{
	size_t i;

	for (i = 0; i < CASES; i++) {
		if (strcmp(cases[i]->name, name))
			continue;
		a->chosen[i] = a->any = true;
		return true;
	}
	return false;
}

static int parse(struct bench *b, struct args *a, int argc, char **argv)
{
	char *end;
	long n;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			b->json = true;
		} else if (!strcmp(argv[i], "--quick")) {
			b->quick = true;
			b->wait = false;
		} else if (!strcmp(argv[i], "--check")) {
			a->check = true;
		} else if (!strcmp(argv[i], "--no-wait")) {
			b->wait = false;
		} else if (!strcmp(argv[i], "--list")) {
			a->list = true;
		} else if (!strcmp(argv[i], "--help")) {
			a->help = true;
		} else if (!strcmp(argv[i], "--appliance") && i + 1 < argc) {
			b->appliance = argv[++i];
		} else if (!strcmp(argv[i], "--runs") && i + 1 < argc) {
			n = strtol(argv[++i], &end, 10);
			if (*end || n < 1 || n > RUNS_MAX)
				return bad_usage("not a number of runs:", argv[i]);
			b->runs = (unsigned int)n;
		} else if (argv[i][0] == '-') {
			return bad_usage("unknown or incomplete option", argv[i]);
		} else if (!choose(a, argv[i])) {
			return bad_usage("no case", argv[i]);
		}
	}
	return 0;
}

/* Whether the library has what it measures. */
static bool built(const struct bench_case *c)
{
	if (c == &bench_alloc || c == &bench_alloc_threads || c == &bench_alloc_trace)
		return IS_ENABLED(CONFIG_MEM_CACHE);
	if (c == &bench_pinned)
		return IS_ENABLED(CONFIG_MEM_PINNED);
	if (c == &bench_file_read)
		return IS_ENABLED(CONFIG_FILES);
	return c != &bench_ipc || IS_ENABLED(CONFIG_IPC);
}

static int run(struct bench *b, const struct bench_case *c)
{
	if (built(c))
		return c->run(b);
	fprintf(stderr, "npu-bench: %s: left out: not built in\n", c->name);
	return 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .wait = true };
	struct args a = { .any = false };
	unsigned int failed = 0;
	char self[4096];
	ssize_t len;
	size_t i;
	int err;

	if (argc == 2 && !strncmp(argv[1], CHILD_PREFIX, strlen(CHILD_PREFIX)))
		return bench_child(argv[1]);
	err = parse(&b, &a, argc, argv);
	if (err)
		return err;
	if (a.help || a.list) {
		if (a.help)
			fputs(usage, stdout);
		else
			list();
		return 0;
	}
	if (!b.runs)
		b.runs = b.quick ? 1 : RUNS;
	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = 0;
	b.self = len > 0 ? self : argv[0];
	/* a quick run measures nothing that another could disturb */
	err = b.quick ? 0 : bench_lock();
	if (err)
		fprintf(stderr, "npu-bench: no lock file: %s\n", strerror(-err));
	bench_calibrate(&b);
	bench_header(&b);
	for (i = 0; i < CASES; i++)
		if (!a.any || a.chosen[i])
			failed += run(&b, cases[i]) != 0;
	if (b.noisy)
		fprintf(stderr, "npu-bench: %u of %u pairs began on a busy machine\n", b.noisy,
			b.pairs);
	if (failed)
		return 2;
	return a.check && b.missed ? 1 : 0;
}
