// SPDX-License-Identifier: MIT
/*
 * The limit of waking: a thread that sleeps in a futex.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/npu-bench/bench.h"

struct bench_sleeper {
	_Alignas(64) _Atomic uint32_t word;
	_Atomic bool stop;
	_Alignas(64) _Atomic uint64_t ran;
	pthread_t thread;
};

static void *sleeper(void *arg)
{
	struct bench_sleeper *s = arg;
	uint32_t seen = 0, now;

	for (;;) {
		while ((now = atomic_load(&s->word)) == seen)
			syscall(SYS_futex, &s->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
		seen = now;
		if (atomic_load(&s->stop))
			return NULL;
		atomic_store(&s->ran, bench_now());
	}
}

struct bench_sleeper *bench_sleeper_new(void)
{
	struct bench_sleeper *s = aligned_alloc(64, sizeof(*s));

	if (!s)
		return NULL;
	atomic_init(&s->word, 0);
	atomic_init(&s->stop, false);
	atomic_init(&s->ran, 0);
	if (pthread_create(&s->thread, NULL, sleeper, s)) {
		free(s);
		return NULL;
	}
	return s;
}

void bench_sleeper_free(struct bench_sleeper *s)
{
	if (!s)
		return;
	atomic_store(&s->stop, true);
	atomic_fetch_add(&s->word, 1);
	syscall(SYS_futex, &s->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_join(s->thread, NULL);
	free(s);
}

void bench_sleeper_wake(struct bench_sleeper *s, double *spent, double *until)
{
	uint64_t start, end;

	atomic_store(&s->ran, 0);
	start = bench_now();
	atomic_fetch_add(&s->word, 1);
	syscall(SYS_futex, &s->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	end = bench_now();
	*spent = (double)(end - start);
	while (!(end = atomic_load(&s->ran)))
		bench_relax();
	*until = (double)(end - start);
}
