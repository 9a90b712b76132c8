// SPDX-License-Identifier: MIT
/*
 * The limit of submission: rings of descriptors of a cache line, whose sequence
 * word makes them valid, and nothing else than a lock a push. A consumer polls
 * them all; after a look that found nothing it pauses, so that it reads in bulk
 * and does not fight for the line that is being written.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/npu-bench/bench.h"

struct slot {
	_Atomic uint64_t seq;
	bench_task *fn;
	void *arg;
	uint64_t pad[5];
};

struct ring {
	_Alignas(64) _Atomic unsigned int lock;
	uint64_t head;
	uint64_t cached;
	struct slot *slot;
	_Alignas(64) _Atomic unsigned int claim;
	uint64_t tail;
	_Alignas(64) _Atomic uint64_t done;
};

struct bench_rings {
	unsigned int rings;
	unsigned int mask;
	bool threaded;
	_Atomic bool stop;
	pthread_t thread;
	struct slot *slots;
	_Alignas(64) struct ring ring[];
};

void bench_task_nop(void *arg)
{
	__asm__ volatile("" :: "r"(arg));
}

void bench_task_inc(void *arg)
{
	*(volatile uint64_t *)arg += 1;
}

static unsigned int drain(struct bench_rings *r, struct ring *q)
{
	unsigned int n = 0;
	struct slot *s;

	for (;;) {
		s = &q->slot[q->tail & r->mask];
		if (atomic_load_explicit(&s->seq, memory_order_acquire) != q->tail + 1)
			break;
		s->fn(s->arg);
		q->tail++;
		/* so that a full ring empties bit by bit */
		if (!(++n & 63))
			atomic_store_explicit(&q->done, q->tail, memory_order_release);
	}
	if (n)
		atomic_store_explicit(&q->done, q->tail, memory_order_release);
	return n;
}

static void *consumer(void *arg)
{
	struct bench_rings *r = arg;
	unsigned int i, n;

	while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
		for (n = i = 0; i < r->rings; i++)
			n += drain(r, &r->ring[i]);
		for (i = 0; i < 64 && !n; i++)
			bench_relax();
	}
	return NULL;
}

/**
 * bench_rings_new() - make rings
 * @rings: how many
 * @slots: slots of each, a power of two
 * @thread: with a consumer
 *
 * Return: the rings, NULL when there is no memory or no thread.
 */
struct bench_rings *bench_rings_new(unsigned int rings, unsigned int slots, bool thread)
{
	size_t size = sizeof(struct bench_rings) + rings * sizeof(struct ring);
	struct bench_rings *r = aligned_alloc(64, (size + 63) & ~(size_t)63);
	unsigned int i;

	if (!r)
		return NULL;
	memset(r, 0, size);
	r->rings = rings;
	r->mask = slots - 1;
	r->threaded = thread;
	r->slots = aligned_alloc(4096, (size_t)rings * slots * sizeof(struct slot));
	if (!r->slots)
		goto free_rings;
	memset(r->slots, 0, (size_t)rings * slots * sizeof(struct slot));
	for (i = 0; i < rings; i++)
		r->ring[i].slot = r->slots + (size_t)i * slots;
	if (thread && pthread_create(&r->thread, NULL, consumer, r))
		goto free_slots;
	return r;

free_slots:
	free(r->slots);
free_rings:
	free(r);
	return NULL;
}

void bench_rings_free(struct bench_rings *r)
{
	if (!r)
		return;
	atomic_store(&r->stop, true);
	if (r->threaded)
		pthread_join(r->thread, NULL);
	free(r->slots);
	free(r);
}

__attribute__((noinline)) void bench_rings_push(struct bench_rings *r, unsigned int i,
						bench_task *fn, void *arg)
{
	struct ring *q = &r->ring[i];
	struct slot *s;

	while (atomic_exchange_explicit(&q->lock, 1, memory_order_acquire))
		bench_relax();
	while (q->head - q->cached > r->mask) {
		q->cached = atomic_load_explicit(&q->done, memory_order_acquire);
		if (q->head - q->cached > r->mask)
			bench_relax();
	}
	s = &q->slot[q->head & r->mask];
	s->fn = fn;
	s->arg = arg;
	q->head++;
	atomic_store_explicit(&s->seq, q->head, memory_order_release);
	atomic_store_explicit(&q->lock, 0, memory_order_release);
}

__attribute__((noinline)) void bench_rings_run(struct bench_rings *r, unsigned int i)
{
	struct ring *q = &r->ring[i];

	while (atomic_exchange_explicit(&q->claim, 1, memory_order_acquire))
		bench_relax();
	drain(r, q);
	atomic_store_explicit(&q->claim, 0, memory_order_release);
}

void bench_rings_sync(struct bench_rings *r)
{
	unsigned int i;

	for (i = 0; i < r->rings; i++)
		while (atomic_load_explicit(&r->ring[i].done, memory_order_acquire) !=
		       r->ring[i].head)
			bench_relax();
}
