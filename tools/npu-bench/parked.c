// SPDX-License-Identifier: MIT
/*
 * Parked: 10,000 streams, each waiting for the one before, on a device with one
 * core, and nobody who lends it a thread. Time from the release of the head to
 * the end of the tail, a link.
 *
 * Limit: a chain of objects on a list under a lock; each puts the next there.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include "tools/npu-bench/bench.h"

#define LINKS 10000u
#define GIVE_UP_NS 60000000000ull

struct parked {
	unsigned int links;
	npu_stream *stream;
	npu_event *event;
	struct node *node;
};

/* A cache line, as a queue is at least. */
struct node {
	_Alignas(64) struct node *next;
	struct node *waiter;
	uint64_t done;
};

static void gate_wait(void *arg)
{
	sem_t *open = arg;

	/* asleep, so that it takes nothing from what is measured */
	while (sem_wait(open))
		;
}

static int chain(struct parked *s)
{
	unsigned int i;
	int err;

	err = npu_event_record(s->event[0], s->stream[0]);
	for (i = 1; i < s->links && !err; i++) {
		err = npu_stream_wait_event(s->stream[i], s->event[i - 1]);
		if (!err)
			err = npu_event_record(s->event[i], s->stream[i]);
	}
	return err;
}

static int ours(void *arg, double *value)
{
	struct parked *s = arg;
	npu_event tail = s->event[s->links - 1];
	sem_t open;
	uint64_t t;
	int err;

	sem_init(&open, 0, 0);
	err = npu_stream_callback(s->stream[0], gate_wait, &open, 0);
	if (err)
		return err;
	err = chain(s);
	/* all of them have found that they must wait */
	bench_sleep_us(50000);
	t = bench_now();
	sem_post(&open);
	while (!err && npu_event_query(tail) == -EINPROGRESS) {
		if (bench_now() - t > GIVE_UP_NS)
			err = -ETIMEDOUT;
		bench_relax();
	}
	*value = (double)(bench_now() - t) / s->links;
	return err ? err : npu_device_sync(0, NPU_WAIT_FOREVER);
}

static int limit(void *arg, double *value)
{
	struct parked *s = arg;
	_Atomic unsigned int lock = 0;
	struct node *ready, *n;
	unsigned int i;
	uint64_t t;

	for (i = 0; i < s->links; i++) {
		s->node[i].waiter = i + 1 < s->links ? &s->node[i + 1] : NULL;
		s->node[i].next = NULL;
	}
	t = bench_now();
	for (ready = &s->node[0]; ready;) {
		while (atomic_exchange_explicit(&lock, 1, memory_order_acquire))
			bench_relax();
		n = ready;
		ready = n->next;
		if (n->waiter) {
			n->waiter->next = ready;
			ready = n->waiter;
		}
		atomic_store_explicit(&lock, 0, memory_order_release);
		n->done++;
	}
	*value = (double)(bench_now() - t) / s->links;
	return 0;
}

static int setup(struct parked *s)
{
	unsigned int i;
	int err;

	s->stream = calloc(s->links, sizeof(*s->stream));
	s->event = calloc(s->links, sizeof(*s->event));
	s->node = aligned_alloc(64, s->links * sizeof(*s->node));
	if (!s->stream || !s->event || !s->node)
		return -ENOMEM;
	for (i = 0; i < s->links; i++)
		s->node[i].done = 0;
	err = npu_option_set("simnpu_cores", "1");
	if (!err)
		err = npu_init();
	for (i = 0; i < s->links && !err; i++) {
		err = npu_stream_create(NULL, &s->stream[i]);
		if (!err)
			err = npu_event_create(0, &s->event[i]);
	}
	return err;
}

static int run(struct bench *b)
{
	struct parked s = { .links = b->quick ? 100 : LINKS };
	const struct bench_figure f = {
		"parked", "chain-10000", "ns", true, ours, limit, &s, { .most = 1000 },
	};
	int err, end;

	err = setup(&s);
	if (err)
		bench_fail(f.name, "set-up", err);
	else
		err = bench_measure(b, &f);
	end = npu_finalize(10000);
	if (!end)
		end = npu_option_set("simnpu_cores", NULL);
	if (end)
		bench_fail(f.name, "end", end);
	free(s.stream);
	free(s.event);
	free(s.node);
	return err ? err : end;
}

const struct bench_case bench_parked = {
	"parked", "10,000 streams in a chain of waits on one worker", run,
};
