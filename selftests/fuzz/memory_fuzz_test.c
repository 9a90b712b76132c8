// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random operations on the cache of device memory against the shadow model. $MEM_FUZZ_OPS is how
 * many, $MEM_FUZZ_SEED where the dice begin: "make fuzz-memory OPS=n SEED=n".
 */
#include "selftests/npu_kselftest.h"

#include "selftests/fuzz/memory_fuzz.h"

#ifndef MEM_FUZZ_OPS
#define MEM_FUZZ_OPS 200000
#endif
/* The watchdog. */
#define SECONDS (MEM_FUZZ_OPS / 500)

#define THREADS 4
/* Operations between one initialisation of the library and the next. */
#define LIFE 8000

static uint64_t number(const char *name, uint64_t def)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : def;
}

static uint64_t ops(void)
{
	return number("MEM_FUZZ_OPS", MEM_FUZZ_OPS / npu_test_slower());
}

/* ---- one after the other --------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
/* lock Protects: whose turn it is, and mf. */
static uint32_t turn;
static uint64_t end;

static void *take_turns(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg, n;

	pthread_mutex_lock(&lock);
	while (mf.op < end) {
		if (turn != me) {
			pthread_cond_wait(&change, &lock);
			continue;
		}
		for (n = 1 + mf_below(&mf.rng, 64); n && mf.op < end; n--)
			mf_step();
		turn = mf_below(&mf.rng, THREADS);
		pthread_cond_broadcast(&change);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

FIXTURE(memory) {
};

FIXTURE_SETUP(memory)
{
	mf.seed = number("MEM_FUZZ_SEED", 1);
	mf.rng = mf.seed * 0x9e3779b97f4a7c15ull + 1;
}

FIXTURE_TEARDOWN(memory)
{
}

TEST_F_TIMEOUT(memory, one_after_the_other, SECONDS)
{
	pthread_t th[THREADS];
	uint64_t left;
	uintptr_t i;

	for (left = ops() * 3 / 4; left; left -= left < LIFE ? left : LIFE) {
		end = mf.op + (left < LIFE ? left : LIFE);
		mf_begin(true);
		for (i = 0; i < THREADS; i++)
			ASSERT_EQ(0, pthread_create(&th[i], NULL, take_turns, (void *)i));
		for (i = 0; i < THREADS; i++)
			pthread_join(th[i], NULL);
		mf_compare_all();
		mf_end();
	}
	TH_LOG("%llu operations", (unsigned long long)mf.op);
}

/* ---- all at once ---------------------------------------------------------------------------- */

TEST_F_TIMEOUT(memory, all_at_once, SECONDS)
{
	uint64_t left;

	for (left = ops() / 4; left; left -= left < LIFE ? left : LIFE) {
		mf_begin(false);
		mf_storm(mf_random(&mf.rng), left < LIFE ? left : LIFE);
		mf_end();
	}
}

TEST_HARNESS_MAIN
