// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of the process does not grow, whatever is made and ended in it, and fails now and then.
 */
#include "selftests/npu_kselftest.h"

#include <malloc.h>
#include <sys/prctl.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#ifndef SOAK_OPS
#define SOAK_OPS 100000
#endif
#define SECONDS (60 + SOAK_OPS / 2000)
/* Lives of the library, and how often each of them has to stand still. */
#define LIVES 2
#define STOPS 10
/* Bytes by which a process may be larger at the end. */
#define MARGIN (2 << 20)

#define KIB ((size_t)1 << 10)
#define STREAMS 4
#define BLOCKS 64

static npu_stream stream[STREAMS];
static void *block[BLOCKS];
static void *host[BLOCKS];
static uint32_t rng;

static uint32_t below(uint32_t n)
{
	rng = rng * 1103515245 + 12345;
	return (rng >> 8) % n;
}

#define MUST(expr)								\
	do {									\
		int rc_ = (expr);						\
		if (rc_) {							\
			printf("# line %d: %d: %s\n", __LINE__, rc_, last_error().text); \
			fflush(stdout);						\
			abort();						\
		}								\
	} while (0)

/* ---- what is done --------------------------------------------------------------------------- */

static size_t some_size(void)
{
	return 1 + below(below(32) ? 8 * KIB : 2048 * KIB);
}

static npu_stream some_stream(void)
{
	return stream[below(STREAMS)];
}

static void device_block(void)
{
	void **p = &block[below(BLOCKS)];

	if (!*p) {
		MUST(npu_mem_alloc(some_size(), some_stream(), p));
		return;
	}
	if (!below(8))
		MUST(npu_mem_record_stream(*p, some_stream()));
	MUST(npu_mem_free(*p));
	*p = NULL;
}

static void host_block(void)
{
	void **p = &host[below(BLOCKS)];

	if (!*p) {
		MUST(if_built("npu_host_alloc", npu_host_alloc(some_size(), p)));
		return;
	}
	if (!below(8))
		MUST(npu_host_record_stream(*p, some_stream()));
	MUST(npu_host_free(*p));
	*p = NULL;
}

static void copies(void)
{
	void *p = block[below(BLOCKS)];
	static char buf[2][16];
	npu_stream s = some_stream();
	npu_event e;

	if (!p)
		return;
	MUST(npu_event_create(0, &e));
	MUST(npu_mem_record_stream(p, s));
	MUST(npu_memcpy_async(p, buf[0], 1, NPU_COPY_H2D, s));
	MUST(npu_memcpy_async(buf[1], p, 1, NPU_COPY_D2H, s));
	MUST(npu_event_record(e, s));
	MUST(npu_event_sync(e, 60000));
	MUST(npu_event_destroy(e));
}

static void new_stream(void)
{
	uint32_t i = below(STREAMS);

	MUST(npu_stream_destroy(stream[i], 60000));
	MUST(npu_stream_create(NULL, &stream[i]));
}

static void private_pool(void)
{
	npu_mem_pool pool;
	npu_stream s = some_stream();
	void *p;

	MUST(npu_mem_pool_create(0, NULL, &pool));
	MUST(npu_mem_pool_begin(pool, NPU_MEM_POOL_STREAM, s));
	MUST(npu_mem_alloc(some_size(), s, &p));
	if (below(2))
		MUST(npu_mem_pool_end(pool, NPU_MEM_POOL_STREAM, s));
	MUST(npu_mem_pool_destroy(pool));
	MUST(npu_mem_free(p));
}

/* The driver refuses once or twice; it may be that it is not asked. */
static void failure(void)
{
	void *p = NULL;
	int err;

	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 1, 1 + below(2), 0);
	err = npu_mem_alloc(below(2) ? (size_t)1 << 40 : 4096 * KIB, some_stream(), &p);
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 0, 0, 0);
	if (err != -ENOMEM)
		MUST(err);
	MUST(npu_mem_free(p));
	simnpu_test_fail(SIMNPU_FAIL_HOST, 1, 1, 0);
	err = npu_malloc_host(4096, 0, &p);
	simnpu_test_fail(SIMNPU_FAIL_HOST, 0, 0, 0);
	MUST(err != -ENOMEM);
	MUST(npu_stream_create(NULL, NULL) != -EINVAL);
	MUST(npu_mem_free(&rng) != -EINVAL);
	npu_error_clear();
}

static void sleep_and_wake(void)
{
	int err = npu_mem_sleep(0, NULL, 0, 60000);

	/* neither is all of it always growable */
	if (err != -EOPNOTSUPP)
		MUST(err);
	MUST(if_built("npu_mem_wake", npu_mem_wake(0)));
}

static void one(void)
{
	uint32_t dice = below(10000);

	if (dice < 1)
		sleep_and_wake();
	else if (dice < 11)
		MUST(npu_mem_empty_cache(0));
	else if (dice < 31)
		new_stream();
	else if (dice < 131)
		failure();
	else if (dice < 161)
		private_pool();
	else if (dice < 300)
		copies();
	else if (dice < 2000)
		host_block();
	else
		device_block();
}

/* ---- lives ---------------------------------------------------------------------------------- */

static uint64_t device_bytes(void)
{
	struct simnpu_test_device d = { 0 };

	return simnpu_test_device(0, &d) ? d.mem_used : UINT64_MAX;
}

/* Return: bytes of the process that are in RAM. */
static size_t resident(void)
{
	size_t pages = 0;
	FILE *f;

#ifdef __GLIBC__
	/* what it keeps is not in use */
	malloc_trim(0);
#endif
	f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*s %zu", &pages) != 1)
		abort();
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Nothing is in use, or kept. */
static void stand_still(uint64_t was)
{
	uint32_t i;

	for (i = 0; i < BLOCKS; i++) {
		MUST(npu_mem_free(block[i]));
		MUST(if_built("npu_host_free", npu_host_free(host[i])));
		block[i] = host[i] = NULL;
	}
	MUST(npu_device_sync(0, 60000));
	MUST(npu_mem_empty_cache(0));
	MUST(if_built("npu_host_empty_cache", npu_host_empty_cache(0)));
	MUST(device_bytes() != was);
}

/* Return: whether there was no more in use in the end than at the first stop. */
static bool live(void)
{
	size_t first = 0, last = 0;
	uint32_t i, n;
	uint64_t was;

	MUST(npu_init());
	for (i = 0; i < STREAMS; i++)
		MUST(npu_stream_create(NULL, &stream[i]));
	was = device_bytes();
	for (n = 0; n < STOPS; n++) {
		for (i = 0; i < SOAK_OPS / 2 / LIVES / STOPS; i++)
			one();
		stand_still(was);
		last = resident();
		if (!n)
			first = last;
	}
	MUST(npu_finalize(60000));
	printf("# %zu KiB at first, %zu KiB at last\n", first / KIB, last / KIB);
	return last <= first + MARGIN;
}

FIXTURE(soak) {
};

FIXTURE_VARIANT(soak) {
	const char *growable;
};

FIXTURE_VARIANT_ADD(soak, plain) {
	.growable = "0",
};

FIXTURE_VARIANT_ADD(soak, growable) {
	.growable = "1",
};

FIXTURE_SETUP(soak)
{
	if (NPU_TEST_ASAN || NPU_TEST_TSAN)
		SETUP_SKIP("sanitizers keep memory of their own");
	/* pages that the kernel joins are not the process's doing */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	rng = 1;
	OK(npu_option_set("simnpu_memory", "1G"));
	OK(npu_option_set("mem_growable", variant->growable));
}

FIXTURE_TEARDOWN(soak)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F_TIMEOUT(soak, memory_stays, SECONDS)
{
	size_t first = 0, last = 0;
	uint32_t n;

	for (n = 0; n < LIVES; n++) {
		EXPECT_TRUE(live());
		last = resident();
		if (!n)
			first = last;
	}
	EXPECT_LE(last, first + MARGIN);
}

TEST_HARNESS_MAIN
