// SPDX-License-Identifier: MIT
/*
 * Copies and fills, chosen by cpuid.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "drivers/simnpu/model/copy.h"
#include "hal/base.h"
#include "hal/cpu.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define LINE 64

static void copy_libc(char *dst, const char *src, size_t n)
{
	memcpy(dst, src, n);
}

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

/*
 * The loops, made for each width of vectors by the names of its intrinsics:
 * loads from anywhere, stores to multiples of a line.
 */
#define COPY_LINE(load, store, size, d, s)				\
	do {								\
		for (int i_ = 0; i_ < LINE; i_ += (size))		\
			store((void *)((d) + i_), load((const void *)((s) + i_))); \
	} while (0)

/* One stream, fetched ahead. Best on AMD's, where a page ahead is far enough. */
#define STREAM1(name, isa, load, store, size)				\
static __attribute__((target(isa)))					\
void name(char *dst, const char *src, size_t n)				\
{									\
	for (; n >= 2 * LINE; n -= 2 * LINE, dst += 2 * LINE, src += 2 * LINE) { \
		_mm_prefetch(src + 4096, _MM_HINT_T0);			\
		_mm_prefetch(src + 4096 + LINE, _MM_HINT_T0);		\
		COPY_LINE(load, store, size, dst, src);			\
		COPY_LINE(load, store, size, dst + LINE, src + LINE);	\
	}								\
	if (n)								\
		COPY_LINE(load, store, size, dst, src);			\
}

/*
 * Two streams a page apart, as the processor's own prefetcher stops at the end
 * of a page: the next pair of pages is fetched meanwhile. Best on Intel's.
 */
#define STREAM2(name, isa, load, store, size)				\
static __attribute__((target(isa)))					\
void name(char *dst, const char *src, size_t n)				\
{									\
	for (; n >= 8192; n -= 8192, dst += 8192, src += 8192) {	\
		for (size_t i = 0; i < 4096; i += 2 * LINE) {		\
			const char *s = src + i;			\
			char *d = dst + i;				\
									\
			_mm_prefetch(s + 8192, _MM_HINT_T0);		\
			_mm_prefetch(s + 8192 + LINE, _MM_HINT_T0);	\
			_mm_prefetch(s + 12288, _MM_HINT_T0);		\
			_mm_prefetch(s + 12288 + LINE, _MM_HINT_T0);	\
			COPY_LINE(load, store, size, d, s);		\
			COPY_LINE(load, store, size, d + LINE, s + LINE); \
			COPY_LINE(load, store, size, d + 4096, s + 4096); \
			COPY_LINE(load, store, size, d + 4096 + LINE, s + 4096 + LINE); \
		}							\
	}								\
	for (; n; n -= LINE, dst += LINE, src += LINE)			\
		COPY_LINE(load, store, size, dst, src);			\
}

#define FILL(name, isa, type, set1, store, size)			\
static __attribute__((target(isa)))					\
void name(char *dst, int byte, size_t n)				\
{									\
	type v = set1((char)byte);					\
									\
	for (; n; n -= LINE, dst += LINE)				\
		for (int i = 0; i < LINE; i += (size))			\
			store((void *)(dst + i), v);			\
}

STREAM1(stream_sse2, "sse2", _mm_loadu_si128, _mm_stream_si128, 16)
FILL(fill_sse2, "sse2", __m128i, _mm_set1_epi8, _mm_stream_si128, 16)
STREAM1(stream_avx2, "avx2", _mm256_loadu_si256, _mm256_stream_si256, 32)
STREAM2(stream2_avx2, "avx2", _mm256_loadu_si256, _mm256_stream_si256, 32)
FILL(fill_avx2, "avx2", __m256i, _mm256_set1_epi8, _mm256_stream_si256, 32)
STREAM2(stream2_avx512, "avx512f", _mm512_loadu_si512, _mm512_stream_si512, 64)
FILL(fill_avx512, "avx512f", __m512i, _mm512_set1_epi8, _mm512_stream_si512, 64)

/* Ordinary stores. On AMD's ahead of libc, which turns to "rep movsb". */
static __attribute__((target("avx2")))
void copy_avx2(char *dst, const char *src, size_t n)
{
	size_t head = -(uintptr_t)dst % LINE;

	if (n < 256 * KIB) {
		memcpy(dst, src, n);
		return;
	}
	memcpy(dst, src, head);
	dst += head;
	src += head;
	n -= head;
	for (; n >= 2 * LINE; n -= 2 * LINE, dst += 2 * LINE, src += 2 * LINE) {
		COPY_LINE(_mm256_loadu_si256, _mm256_store_si256, 32, dst, src);
		COPY_LINE(_mm256_loadu_si256, _mm256_store_si256, 32, dst + LINE, src + LINE);
	}
	memcpy(dst, src, n);
}

static void fence(void)
{
	_mm_sfence();
}

enum { AVX512, AVX2_AMD, AVX2, SSE2, LIBC, METHODS };

static const struct model_copy_method methods[METHODS] = {
	[AVX512] = { "avx512", copy_libc, stream2_avx512, fill_avx512, fence },
	[AVX2_AMD] = { "avx2-amd", copy_avx2, stream_avx2, fill_avx2, fence },
	[AVX2] = { "avx2", copy_libc, stream2_avx2, fill_avx2, fence },
	[SSE2] = { "sse2", copy_libc, stream_sse2, fill_sse2, fence },
	[LIBC] = { "libc", copy_libc, NULL, NULL, NULL },
};

static bool can(int i)
{
	switch (i) {
	case AVX512:
		return hal_cpu_avx512f();
	case AVX2_AMD:
	case AVX2:
		return hal_cpu_avx2();
	default:
		return true;
	}
}

/* Bytes of the cache of a level that holds data, 0: unknown. */
static size_t cache(unsigned int level)
{
	unsigned int leaf = hal_cpu_amd() ? 0x8000001d : 4;
	unsigned int a, b, c, d;

	for (unsigned int i = 0; i < 8; i++) {
		if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || !(a & 31))
			break;
		/* type 2 is for instructions only */
		if ((a & 31) != 2 && ((a >> 5) & 7) == level)
			return ((size_t)(b >> 22) + 1) * (((b >> 12) & 1023) + 1) *
			       ((b & 4095) + 1) * ((size_t)c + 1);
	}
	return 0;
}

static size_t clamp(size_t x, size_t min, size_t max)
{
	return x < min ? min : x > max ? max : x;
}

/*
 * The most that ordinary stores of one thread are best for. AMD's third level
 * keeps up with the cores: source and destination may take most of it. Intel's
 * does not, and what cpuid says of it is shared with other machines: the second
 * it is.
 */
static int choose(size_t *copy_limit, size_t *fill_limit)
{
	if (hal_cpu_amd()) {
		*copy_limit = clamp(cache(3) / 16 * 5, MIB, 10 * MIB);
		*fill_limit = clamp(cache(3) / 4 * 3, MIB, 24 * MIB);
		return can(AVX2) ? AVX2_AMD : SSE2;
	}
	*copy_limit = clamp(cache(2) / 2, MIB / 2, 2 * MIB);
	*fill_limit = clamp(cache(2), MIB / 2, 4 * MIB);
	return can(AVX512) ? AVX512 : can(AVX2) ? AVX2 : SSE2;
}

#else /* !__x86_64__ */

enum { LIBC, METHODS };

static const struct model_copy_method methods[METHODS] = {
	[LIBC] = { "libc", copy_libc, NULL, NULL, NULL },
};

static bool can(int i)
{
	(void)i;
	return true;
}

static int choose(size_t *copy_limit, size_t *fill_limit)
{
	*copy_limit = *fill_limit = SIZE_MAX;
	return LIBC;
}

#endif

static _Atomic(const struct model_copy_method *) chosen;
static _Atomic size_t copy_limit, fill_limit;

/* Threads that come here at the same time find the same. */
static const struct model_copy_method *resolve(void)
{
	size_t copy, fill;
	int i = choose(&copy, &fill);

	hal_store_relaxed(&copy_limit, copy);
	hal_store_relaxed(&fill_limit, fill);
	hal_store_release(&chosen, &methods[i]);
	return &methods[i];
}

static inline const struct model_copy_method *method(void)
{
	/* acquire: the limits are those of the method */
	const struct model_copy_method *m = hal_load_acquire(&chosen);

	return likely(m) ? m : resolve();
}

#ifdef CONFIG_SELFTESTS
const struct model_copy_method *model_copy_methods(unsigned int i)
{
	for (int m = 0; m < METHODS; m++)
		if (can(m) && !i--)
			return &methods[m];
	return NULL;
}

void model_copy_force(const struct model_copy_method *m, size_t limit)
{
	if (!m) {
		resolve();
		return;
	}
	hal_store_relaxed(&copy_limit, limit);
	hal_store_relaxed(&fill_limit, limit);
	hal_store_release(&chosen, m);
}
#endif

/* The first and the last bytes, that are no whole lines, with ordinary stores. */
static void stream(const struct model_copy_method *m, char *dst, const char *src, size_t n)
{
	size_t head = -(uintptr_t)dst % LINE, body;

	if (n < head + LINE) {
		memcpy(dst, src, n);
		return;
	}
	memcpy(dst, src, head);
	dst += head;
	src += head;
	n -= head;
	body = n / LINE * LINE;
	m->stream(dst, src, body);
	memcpy(dst + body, src + body, n - body);
}

void model_memcpy_part(void *dst, const void *src, size_t n, size_t share)
{
	const struct model_copy_method *m = method();

	if (share <= hal_load_relaxed(&copy_limit) || !m->stream) {
		m->copy(dst, src, n);
		return;
	}
	stream(m, dst, src, n);
	m->fence();
}

void model_memcpy(void *dst, const void *src, size_t n)
{
	model_memcpy_part(dst, src, n, n);
}

void model_memset_part(void *dst, int byte, size_t n, size_t share)
{
	const struct model_copy_method *m = method();
	size_t head = -(uintptr_t)dst % LINE, body;
	char *d = dst;

	if (share <= hal_load_relaxed(&fill_limit) || !m->fill || n < head + LINE) {
		memset(dst, byte, n);
		return;
	}
	memset(d, byte, head);
	d += head;
	n -= head;
	body = n / LINE * LINE;
	m->fill(d, byte, body);
	m->fence();
	memset(d + body, byte, n - body);
}

void model_memset(void *dst, int byte, size_t n)
{
	model_memset_part(dst, byte, n, n);
}

size_t model_copy_chunk(size_t n, unsigned int threads)
{
	size_t piece = n / (threads ? threads : 1);

	method();
	if (threads < 2 || n < 256 * KIB)
		return n;
	if (piece > hal_load_relaxed(&copy_limit)) {
		piece /= 8;
		if (piece > 4 * MIB)
			piece = 4 * MIB;
	}
	return (size_t)hal_align_up(piece, 4 * KIB);
}

void model_memcpy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
		     size_t width, size_t height, size_t share)
{
	const struct model_copy_method *m = method();
	const char *s = src;
	char *d = dst;

	if (width == dst_pitch && width == src_pitch) {
		model_memcpy_part(dst, src, width * height, share);
		return;
	}
	/* short rows are mostly ends, and lines written in part go badly with streaming */
	if (!m->stream || width < KIB || share <= hal_load_relaxed(&copy_limit)) {
		for (; height; height--, d += dst_pitch, s += src_pitch)
			m->copy(d, s, width);
		return;
	}
	for (; height; height--, d += dst_pitch, s += src_pitch)
		stream(m, d, s, width);
	m->fence();
}
