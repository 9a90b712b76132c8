// SPDX-License-Identifier: MIT
/*
 * The machine: alone on it, quiet, and how fast it is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tools/npu-bench/bench.h"

#define HUGE_PAGE ((size_t)2 << 20)
/* How long to wait for a quiet machine: each time, and in all. */
#define QUIET_EACH_NS 3000000000ull
#define QUIET_ALL_NS 120000000000ull
#define QUIET_SHARE 0.88

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_time(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_sleep_us(unsigned int us)
{
	struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	nanosleep(&t, NULL);
}

unsigned int bench_cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned int)n : 1;
}

unsigned int bench_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *e;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* Memory is mapped with room in front, so that it starts at a huge page. */
void *bench_memory(size_t size)
{
	size_t all = size + HUGE_PAGE + sizeof(size_t);
	char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start;

	if (p == MAP_FAILED)
		return NULL;
	start = (char *)(((uintptr_t)p + HUGE_PAGE) & ~(HUGE_PAGE - 1));
	madvise(start, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
	memset(start, 1, size);
	((char **)start)[-1] = p;
	return start;
}

void bench_memory_free(void *p, size_t size)
{
	if (p)
		munmap(((char **)p)[-1], size + HUGE_PAGE + sizeof(size_t));
}

/**
 * bench_lock() - be the only one on the machine that measures
 *
 * The lock goes with the process. Return: 0, -errno.
 */
int bench_lock(void)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[256];
	int fd = -1;

	if (dir && *dir) {
		snprintf(path, sizeof(path), "%s/npu-bench.lock", dir);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	}
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/npu-bench.lock", P_tmpdir);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (fd < 0)
		return -errno;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 0;
	fprintf(stderr, "npu-bench: waiting for another one\n");
	while (flock(fd, LOCK_EX))
		if (errno != EINTR)
			return -errno;
	return 0;
}

static bool read_stat(unsigned long long v[8])
{
	FILE *f = fopen("/proc/stat", "r");
	int n;

	if (!f)
		return false;
	n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3,
		   v + 4, v + 5, v + 6, v + 7);
	fclose(f);
	return n == 8;
}

/* The share of all cores' time that nobody but us used, over a tenth of a second. */
static double idle_share(void)
{
	unsigned long long a[8], b[8], total = 0;
	uint64_t own = bench_cpu_time();
	double idle;
	int i;

	if (!read_stat(a))
		return 1;
	bench_sleep_us(100000);
	if (!read_stat(b))
		return 1;
	for (i = 0; i < 8; i++)
		total += b[i] - a[i];
	idle = (double)(b[3] - a[3]) + (double)(b[4] - a[4]) +
	       (double)(bench_cpu_time() - own) * (double)sysconf(_SC_CLK_TCK) / 1e9;
	return total ? idle / (double)total : 1;
}

bool bench_quiet(struct bench *b)
{
	static uint64_t waited;
	uint64_t start = bench_now(), gone = 0;

	if (!b->wait)
		return true;
	while (idle_share() < QUIET_SHARE) {
		gone = bench_now() - start;
		if (gone >= QUIET_EACH_NS || waited + gone >= QUIET_ALL_NS) {
			waited += gone;
			return false;
		}
	}
	waited += gone;
	return true;
}

/* A chain of instructions of one cycle each. */
static double clock_ghz(void)
{
	uint64_t best = UINT64_MAX, t, x = 1, y = 3;
	int run, i;

	__asm__ volatile("" : "+r"(y));
	for (run = 0; run < 9; run++) {
		t = bench_now();
		for (i = 0; i < 100000; i++) {
#define STEP x ^= y; __asm__ volatile("" : "+r"(x));
#define STEP8 STEP STEP STEP STEP STEP STEP STEP STEP
			STEP8 STEP8 STEP8 STEP8
		}
		t = bench_now() - t;
		if (t < best)
			best = t;
	}
	return 3200000.0 / (double)best;
}

static double copy_rate(size_t size)
{
	char *a = bench_memory(size), *c = bench_memory(size);
	double rate[5] = { 0 };
	uint64_t t;
	int i;

	for (i = 0; i < 5 && a && c; i++) {
		t = bench_now();
		memcpy(a, c, size);
		__asm__ volatile("" ::: "memory");
		rate[i] = (double)size / (double)(bench_now() - t);
	}
	bench_memory_free(a, size);
	bench_memory_free(c, size);
	return bench_quantile(rate, 5, 0.5);
}

#define LANES 16
typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
#define FMA_STEPS 200000

/*
 * Twelve sums at a time, so that the latency of the units is hidden, written out
 * so that they stay in registers. A macro: vectors are cut to what a function's
 * target has before anything is inlined.
 */
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FMA_SET(i) s##i = a * (float)(i);
#define FMA_STEP(i) s##i = s##i * m + a;
#define FMA_ADD(i) sum += s##i;
#define FMA_FUNCTION(name, attr)							\
	attr static void name(float *out)						\
	{										\
		vec s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;			\
		vec m = { 0 }, a = { 0 }, sum = { 0 };					\
		int k;									\
											\
		m += 0.999f;								\
		a += 0.001f;								\
		TWELVE(FMA_SET)								\
		for (k = 0; k < FMA_STEPS; k++) {					\
			TWELVE(FMA_STEP)						\
		}									\
		TWELVE(FMA_ADD)								\
		*out = sum[0];								\
	}

FMA_FUNCTION(fma_plain, )
#ifdef __x86_64__
FMA_FUNCTION(fma_avx2, __attribute__((target("avx2,fma"))))
FMA_FUNCTION(fma_avx512, __attribute__((target("avx512f,fma"))))
#endif

static double fma_rate(void)
{
	void (*fn)(float *out) = fma_plain;
	uint64_t best = UINT64_MAX, t;
	volatile float sink;
	float out;
	int i;

#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		fn = fma_avx512;
	else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		fn = fma_avx2;
#endif
	for (i = 0; i < 5; i++) {
		t = bench_now();
		fn(&out);
		t = bench_now() - t;
		sink = out;
		if (t < best)
			best = t;
	}
	(void)sink;
	return 2.0 * 12 * LANES * FMA_STEPS / (double)best;
}

#define PINGS 5000
static struct {
	unsigned int balls;
	_Alignas(64) _Atomic unsigned int ping;
	_Alignas(64) _Atomic unsigned int pong;
} table;

static void *player(void *arg)
{
	unsigned int i;

	for (i = 1; i <= table.balls; i++) {
		while (atomic_load(&table.ping) != i)
			bench_relax();
		atomic_store(&table.pong, i);
	}
	return arg;
}

static double ping_pong(unsigned int balls)
{
	static double ns[PINGS];
	pthread_t peer;
	unsigned int i;
	uint64_t t;

	if (bench_cores() < 2)
		return 0;
	table.balls = balls;
	atomic_store(&table.ping, 0);
	atomic_store(&table.pong, 0);
	if (pthread_create(&peer, NULL, player, NULL))
		return 0;
	for (i = 1; i <= balls; i++) {
		t = bench_now();
		atomic_store(&table.ping, i);
		while (atomic_load(&table.pong) != i)
			bench_relax();
		ns[i - 1] = (double)(bench_now() - t);
	}
	pthread_join(peer, NULL);
	return bench_quantile(ns, balls, 0.5);
}

/**
 * bench_calibrate() - how fast the machine is at this moment
 * @b: the clock is put here
 *
 * Prints a line: figures of one run are to be compared with those of another by it.
 */
void bench_calibrate(struct bench *b)
{
	double ping, copy;

	bench_quiet(b);
	b->ghz = clock_ghz();
	ping = ping_pong(b->quick ? 100 : PINGS);
	copy = copy_rate((size_t)(b->quick ? 1 : 64) << 20);
	fprintf(b->json ? stderr : stdout,
		"# calibration: ping-pong %.0f ns, copy %.1f GB/s, FMA %.0f GFLOP/s, clock %.2f "
		"GHz, %u cores\n", ping, copy, fma_rate(), b->ghz, bench_cores());
	fflush(stdout);
}
