// SPDX-License-Identifier: MIT
/*
 * The best copy that the machine allows: each routine is tried for each size,
 * and the fastest is used. Helpers sleep in a futex until there is a copy, and
 * take pieces of it by turns.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/npu-bench/bare_copy.h"
#include "tools/npu-bench/bench.h"

typedef void routine(char *dst, const char *src, size_t n);

#define FILL 7
#define TRIALS 5
/* A piece that a thread takes at a time, a multiple of what the routines do in one step. */
#define PIECE ((size_t)512 << 10)

static void plain(char *dst, const char *src, size_t n)
{
	if (src)
		memcpy(dst, src, n);
	else
		memset(dst, FILL, n);
	__asm__ volatile("" ::: "memory");
}

#ifdef __x86_64__
#include <immintrin.h>

static void rep_bytes(char *dst, const char *src, size_t n)
{
	if (src)
		__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
	else
		__asm__ volatile("rep stosb" : "+D"(dst), "+c"(n) : "a"(FILL) : "memory");
}

__attribute__((target("avx2"))) static void stream_avx2(char *dst, const char *src, size_t n)
{
	__m256i v = _mm256_set1_epi8(FILL);
	size_t i;

	for (i = 0; i + 128 <= n; i += 128) {
		if (src)
			_mm_prefetch(src + i + 4096, _MM_HINT_T0);
		for (size_t k = 0; k < 128; k += 32) {
			if (src)
				v = _mm256_loadu_si256((const void *)(src + i + k));
			_mm256_stream_si256((void *)(dst + i + k), v);
		}
	}
	_mm_sfence();
	plain(dst + i, src ? src + i : NULL, n - i);
}

/* Two streams, a page apart: more misses under way at a time. */
__attribute__((target("avx512f"))) static void stream_avx512(char *dst, const char *src, size_t n)
{
	__m512i v = _mm512_set1_epi32(FILL * 0x01010101);
	size_t o, i, k;

	for (o = 0; o + 8192 <= n; o += 8192)
		for (i = 0; i < 4096; i += 128) {
			for (k = 0; src && k < 128; k += 64) {
				_mm_prefetch(src + o + i + k + 8192, _MM_HINT_T0);
				_mm_prefetch(src + o + i + k + 8192 + 4096, _MM_HINT_T0);
			}
			for (k = 0; k < 128; k += 64) {
				if (src)
					v = _mm512_loadu_si512(src + o + i + k);
				_mm512_stream_si512((void *)(dst + o + i + k), v);
				if (src)
					v = _mm512_loadu_si512(src + o + i + k + 4096);
				_mm512_stream_si512((void *)(dst + o + i + k + 4096), v);
			}
		}
	_mm_sfence();
	plain(dst + o, src ? src + o : NULL, n - o);
}
#endif

/* The routines that this processor has. */
static unsigned int routines(routine *list[4])
{
	unsigned int n = 0;

	list[n++] = plain;
#ifdef __x86_64__
	list[n++] = rep_bytes;
	if (__builtin_cpu_supports("avx2"))
		list[n++] = stream_avx2;
	if (__builtin_cpu_supports("avx512f"))
		list[n++] = stream_avx512;
#endif
	return n;
}

struct bare_copier {
	unsigned int threads;
	routine *fn;
	char *dst;
	const char *src;
	size_t size;
	pthread_t helper[BARE_THREADS_MAX];
	_Atomic bool stop;
	_Alignas(64) _Atomic uint32_t round;
	_Alignas(64) _Atomic size_t next;
	_Alignas(64) _Atomic unsigned int busy;
};

static void work(struct bare_copier *c)
{
	size_t at, n;

	for (;;) {
		at = atomic_fetch_add_explicit(&c->next, PIECE, memory_order_relaxed);
		if (at >= c->size)
			return;
		n = c->size - at < PIECE ? c->size - at : PIECE;
		c->fn(c->dst + at, c->src ? c->src + at : NULL, n);
	}
}

static void *helper(void *arg)
{
	struct bare_copier *c = arg;
	uint32_t seen = 0, now;

	for (;;) {
		while ((now = atomic_load(&c->round)) == seen)
			syscall(SYS_futex, &c->round, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
		seen = now;
		if (atomic_load(&c->stop))
			return NULL;
		work(c);
		atomic_fetch_sub(&c->busy, 1);
	}
}

static void wake_helpers(struct bare_copier *c)
{
	atomic_fetch_add(&c->round, 1);
	syscall(SYS_futex, &c->round, FUTEX_WAKE_PRIVATE, c->threads, NULL, NULL, 0);
}

struct bare_copier *bare_copier_new(unsigned int threads)
{
	struct bare_copier *c = aligned_alloc(64, sizeof(*c));
	unsigned int i;

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->fn = plain;
	c->threads = 1;
	for (i = 0; i + 1 < threads && i < BARE_THREADS_MAX; i++) {
		if (pthread_create(&c->helper[i], NULL, helper, c)) {
			bare_copier_free(c);
			return NULL;
		}
		c->threads++;
	}
	return c;
}

void bare_copier_free(struct bare_copier *c)
{
	unsigned int i;

	if (!c)
		return;
	atomic_store(&c->stop, true);
	wake_helpers(c);
	for (i = 0; i + 1 < c->threads; i++)
		pthread_join(c->helper[i], NULL);
	free(c);
}

void bare_copier_run(struct bare_copier *c, char *dst, const char *src, size_t size)
{
	if (c->threads == 1) {
		c->fn(dst, src, size);
		return;
	}
	c->dst = dst;
	c->src = src;
	c->size = size;
	atomic_store(&c->next, 0);
	atomic_store(&c->busy, c->threads - 1);
	wake_helpers(c);
	work(c);
	/* all of them, so that none comes late into the next copy */
	while (atomic_load(&c->busy))
		bench_relax();
}

void bare_copier_choose(struct bare_copier *c, char *dst, const char *src, size_t size)
{
	routine *list[4], *best = plain;
	unsigned int n = routines(list), i, k, reps = size < ((size_t)1 << 20) ? 1000 : 1;
	uint64_t least = UINT64_MAX, t, r;

	for (i = 0; i < n; i++) {
		c->fn = list[i];
		for (k = 0; k < TRIALS; k++) {
			t = bench_now();
			for (r = 0; r < reps; r++)
				bare_copier_run(c, dst, src, size);
			t = bench_now() - t;
			if (t < least) {
				least = t;
				best = list[i];
			}
		}
	}
	c->fn = best;
}
