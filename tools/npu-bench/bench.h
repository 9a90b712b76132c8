/* SPDX-License-Identifier: MIT */
/*
 * npu-bench: what the library costs, beside the least that the same work can
 * cost on this machine. A case is a file; the bare loop that it is compared
 * with, its limit, stands beside it. Documentation/benchmarks.rst says what each
 * of them does.
 */
#ifndef TOOLS_NPU_BENCH_BENCH_H
#define TOOLS_NPU_BENCH_BENCH_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "npu/npu.h"

/**
 * struct bench - how to measure, and what came out so far
 * @runs: pairs of ours and limit that a figure is the median of
 * @json: print objects instead of a table
 * @quick: as little work as shows that the case runs; the figures mean nothing
 * @wait: wait for a quiet machine before each pair
 * @self: path of this program
 * @appliance: path of a static program to weigh, or NULL
 * @ghz: clock of the processor, measured
 * @missed: figures that did not reach their target
 * @pairs: pairs measured
 * @noisy: those that began on a busy machine
 */
struct bench {
	unsigned int runs;
	bool json;
	bool quick;
	bool wait;
	const char *self;
	const char *appliance;
	double ghz;
	unsigned int missed;
	unsigned int pairs;
	unsigned int noisy;
};

/**
 * struct bench_target - what is to be reached: any one of those that are not 0
 * @most: the median is at most this
 * @times: the ratio is at most this
 * @plus: the median is at most the limit and this
 * @least: the ratio is at least this; for rates
 */
struct bench_target {
	double most;
	double times;
	double plus;
	double least;
};

/* Measures once; *value is in the figure's unit. Return: 0 or a negative errno. */
typedef int bench_fn(void *arg, double *value);

/**
 * struct bench_figure - one line of the result
 * @name: the case
 * @variant: which of its figures
 * @unit: "ns", "us", "GB/s" ...
 * @scale: the value is work of the processor: quote it at 3 GHz
 * @ours: measures ours
 * @limit: measures the limit
 * @arg: for both
 * @target: what is to be reached
 */
struct bench_figure {
	const char *name;
	const char *variant;
	const char *unit;
	bool scale;
	bench_fn *ours;
	bench_fn *limit;
	void *arg;
	struct bench_target target;
};

/**
 * struct bench_case - a case
 * @name: its name
 * @what: what it measures, a line
 * @run: measures and prints all its figures. Return: 0 or a negative errno
 */
struct bench_case {
	const char *name;
	const char *what;
	int (*run)(struct bench *b);
};

extern const struct bench_case bench_submit, bench_roundtrip, bench_event, bench_start,
	bench_hop, bench_guard, bench_pool, bench_alloc, bench_alloc_threads, bench_alloc_trace,
	bench_copy, bench_file_read, bench_gemm, bench_parked, bench_init, bench_size, bench_ipc,
	bench_pinned;

/* measure.c: runs of pairs, medians, lines. */
int bench_measure(struct bench *b, const struct bench_figure *f);
/* The same with figures that were taken elsewhere: n of ours and of the limit. */
void bench_report(struct bench *b, const struct bench_figure *f, double *ours, double *limit,
		  unsigned int n);
void bench_header(const struct bench *b);
/* Of n values, which are put in order: the one below which a share of them lies. */
double bench_quantile(double *v, unsigned int n, double share);
/* Reports a failed call of the library by name; returns the error. */
int bench_fail(const char *name, const char *call, int err);

/* machine.c: the machine */
int bench_lock(void);
/* Waits until the cores are idle; whether they were in the end. */
bool bench_quiet(struct bench *b);
void bench_calibrate(struct bench *b);
uint64_t bench_now(void);
uint64_t bench_cpu_time(void);
void bench_sleep_us(unsigned int us);
unsigned int bench_cores(void);
unsigned int bench_threads(void);
/* Anonymous memory of huge pages where there are some, present; NULL: none. */
void *bench_memory(size_t size);
void bench_memory_free(void *p, size_t size);

/* For loops that spin; lets others run now and then, should they share the core. */
static inline void bench_relax(void)
{
	static _Thread_local unsigned int times;

	if (!(++times & 4095))
		sched_yield();
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* dev.c: a device and what is needed on it */
#define BENCH_STREAMS 64u

/**
 * struct bench_dev - the device under test
 * @stream: streams
 * @streams: how many
 * @nop: kernel that does nothing
 * @inc: kernel that adds to a word
 * @word: a word of device memory for each stream
 * @added: what was added to each
 */
struct bench_dev {
	npu_stream stream[BENCH_STREAMS];
	unsigned int streams;
	npu_kernel nop;
	npu_kernel inc;
	uint64_t *word;
	uint64_t added[BENCH_STREAMS];
};

int bench_dev_open(struct bench_dev *d, unsigned int streams, const char *name);
/* Compares the words with what was added: -EIO when they differ. */
int bench_dev_check(struct bench_dev *d, const char *name);
int bench_dev_close(struct bench_dev *d, const char *name);
int bench_dev_sync(struct bench_dev *d);
/* An empty task, or one that increments, in stream i. */
int bench_dev_launch(struct bench_dev *d, unsigned int i, bool inc);

/* ring.c: bare rings, each with a lock that is taken once a push */
struct bench_rings;
typedef void bench_task(void *arg);
/* thread: a consumer drains them; else bench_rings_run() does. NULL: no memory. */
struct bench_rings *bench_rings_new(unsigned int rings, unsigned int slots, bool thread);
void bench_rings_free(struct bench_rings *r);
void bench_rings_push(struct bench_rings *r, unsigned int i, bench_task *fn, void *arg);
/* Runs what is in a ring, as a waiter that takes it. */
void bench_rings_run(struct bench_rings *r, unsigned int i);
/* Waits for the consumer. */
void bench_rings_sync(struct bench_rings *r);
void bench_task_nop(void *arg);
void bench_task_inc(void *arg);

/* wake.c: a thread that sleeps in a futex */
struct bench_sleeper;
struct bench_sleeper *bench_sleeper_new(void);
void bench_sleeper_free(struct bench_sleeper *s);
/* Wakes it once it sleeps: ns that the waker spent, and until it ran. */
void bench_sleeper_wake(struct bench_sleeper *s, double *spent, double *until);

#endif /* TOOLS_NPU_BENCH_BENCH_H */
