// SPDX-License-Identifier: MIT
/*
 * Start and end of the library, in processes of their own: from the first
 * npu_init() until an empty task and a copy of 4 KiB are done, and npu_finalize().
 *
 * Limit: a thread, a mapping, a task and a copy by hand, and their end.
 */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu/simnpu_ops.h"
#include "tools/npu-bench/bench.h"
#include "tools/npu-bench/child.h"

#define CHILD_OURS CHILD_PREFIX "ours"
#define CHILD_BARE CHILD_PREFIX "bare"
#define SIDE 64u

extern char **environ;

/* What a child measures and prints as numbers, in this order. */
enum { UP_US, DOWN_US, MATMUL_US, THREADS_BEFORE, THREADS_AFTER, NUMBERS };

static double since_us(uint64_t t)
{
	return (double)(bench_now() - t) / 1000;
}

static int first_use(void)
{
	static char host[4096];
	npu_kernel nop;
	void *dev;
	int err;

	err = npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &nop);
	if (!err)
		err = npu_launch(nop, 1, NULL, 0, NPU_STREAM_CURRENT);
	if (!err)
		err = npu_stream_sync(NPU_STREAM_CURRENT, NPU_WAIT_FOREVER);
	if (!err)
		err = npu_malloc(sizeof(host), 0, &dev);
	return err ? err : npu_memcpy(dev, host, sizeof(host), NPU_COPY_H2D);
}

static int first_matmul(void)
{
	struct npu_simnpu_matmul_args args = { .m = SIDE, .n = SIDE, .k = SIDE };
	uint64_t *side[3] = { &args.a, &args.b, &args.c };
	npu_kernel matmul;
	void *p;
	int i, err = 0;

	for (i = 0; i < 3 && !err; i++) {
		err = npu_malloc(SIDE * SIDE * sizeof(float), 0, &p);
		if (!err)
			err = npu_memset(p, 0, SIDE * SIDE * sizeof(float));
		*side[i] = (uintptr_t)p;
	}
	if (!err)
		err = npu_kernel_get(NPU_MODULE_BUILTIN, "matmul_f32", &matmul);
	if (!err)
		err = npu_launch(matmul, 1, &args, sizeof(args), NPU_STREAM_CURRENT);
	return err ? err : npu_stream_sync(NPU_STREAM_CURRENT, NPU_WAIT_FOREVER);
}

static int child_ours(double v[NUMBERS])
{
	uint64_t t = bench_now();
	int err;

	err = npu_init();
	if (err)
		return bench_fail("init", "npu_init", err);
	v[UP_US] = since_us(t);
	v[THREADS_BEFORE] = bench_threads();
	t = bench_now();
	err = first_use();
	if (err)
		return bench_fail("init", "first use", err);
	v[UP_US] += since_us(t);
	v[THREADS_AFTER] = bench_threads();
	t = bench_now();
	err = npu_finalize(10000);
	v[DOWN_US] = since_us(t);
	if (err)
		return bench_fail("init", "npu_finalize", err);
	t = bench_now();
	err = npu_init();
	if (!err)
		err = first_matmul();
	v[MATMUL_US] = since_us(t);
	return err ? bench_fail("init", "first matmul", err) : 0;
}

static void *bare_worker(void *arg)
{
	_Atomic int *word = arg;

	while (atomic_load(word) != 1)
		sched_yield();
	atomic_store(word, 2);
	return NULL;
}

static int child_bare(double v[NUMBERS])
{
	static char host[4096];
	size_t size = (size_t)4 << 20;
	_Atomic int word = 0;
	pthread_t worker;
	uint64_t t = bench_now();
	char *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || pthread_create(&worker, NULL, bare_worker, &word))
		return -ENOMEM;
	atomic_store(&word, 1);
	while (atomic_load(&word) != 2)
		sched_yield();
	memcpy(p, host, sizeof(host));
	v[UP_US] = since_us(t);
	t = bench_now();
	pthread_join(worker, NULL);
	munmap(p, size);
	v[DOWN_US] = since_us(t);
	return 0;
}

int bench_child(const char *what)
{
	double v[NUMBERS] = { 0 };
	int i, err = -EINVAL;

	if (!strcmp(what, CHILD_IPC))
		return bench_ipc_child();
	if (!strcmp(what, CHILD_OURS))
		err = child_ours(v);
	else if (!strcmp(what, CHILD_BARE))
		err = child_bare(v);
	for (i = 0; i < NUMBERS && !err; i++)
		printf("%.3f\n", v[i]);
	return err ? 1 : 0;
}

/* Runs this program for one measurement. */
static int spawn(const struct bench *b, const char *what, double v[NUMBERS])
{
	char *argv[] = { (char *)b->self, (char *)what, NULL };
	posix_spawn_file_actions_t fa;
	int fd[2], status, i, err;
	pid_t pid;
	FILE *f;

	if (pipe(fd))
		return -errno;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&fa, fd[0]);
	err = -posix_spawn(&pid, b->self, &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(fd[1]);
	f = fdopen(fd[0], "r");
	for (i = 0; i < NUMBERS && f && !err; i++)
		if (fscanf(f, "%lf", &v[i]) != 1)
			err = -EIO;
	if (f)
		fclose(f);
	if (err == 0 || err == -EIO)
		if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			err = -EIO;
	return err;
}

static int run(struct bench *b)
{
	const struct bench_figure f[] = {
		{ .name = "init", .variant = "first-use", .unit = "us",
		  .target = { .most = 5000 } },
		{ .name = "init", .variant = "finalize", .unit = "us",
		  .target = { .most = 2000 } },
		{ .name = "init", .variant = "first-matmul", .unit = "us" },
		{ .name = "init", .variant = "threads-before", .unit = "threads",
		  .target = { .most = 1 } },
		{ .name = "init", .variant = "threads-after", .unit = "threads" },
	};
	double ours[NUMBERS][99], bare[NUMBERS][99], v[NUMBERS];
	unsigned int i, k;
	int err;

	for (i = 0; i < b->runs; i++) {
		b->pairs++;
		b->noisy += !bench_quiet(b);
		err = spawn(b, CHILD_OURS, v);
		for (k = 0; k < NUMBERS; k++)
			ours[k][i] = v[k];
		if (!err)
			err = spawn(b, CHILD_BARE, v);
		for (k = 0; k < NUMBERS; k++)
			bare[k][i] = k < THREADS_BEFORE ? v[k] : 1;
		if (err) {
			fprintf(stderr, "npu-bench: init: the measuring process failed\n");
			return err;
		}
	}
	for (k = 0; k < NUMBERS; k++)
		bench_report(b, &f[k], ours[k], bare[k], b->runs);
	return 0;
}

const struct bench_case bench_init = {
	"init", "first init to the first task and copy done, and finalize; threads", run,
};
