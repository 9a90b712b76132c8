// SPDX-License-Identifier: MIT
/*
 * All at once: sixteen threads that allocate, free, record, trim and sleep as they like, and one
 * that lets held streams go. Which blocks there are is known at any moment, if not what each has to
 * wait for: no new one may lie over any of them.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/fuzz/memory_fuzz.h"

#define THREADS 16
/* mf_stream.hold: the stream is being let go. */
#define GOING (-2)

/* lock Protects: mf.block, mf.stream[].hold, and busy. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Somebody is about to do something with the block. */
static bool busy[MF_BLOCKS];
/* awake Protects: what is in blocks of a device; who lets its memory sleep has it alone. */
static pthread_rwlock_t awake[MF_DEVICES] = {
	PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER,
};
static _Atomic bool over;

/**
 * struct worker - a thread
 * @thread: the thread
 * @rng: its dice
 * @ops: operations that it is to do
 */
struct worker {
	pthread_t thread;
	uint64_t rng;
	uint64_t ops;
};

/* ---- what is known ------------------------------------------------------------------------- */

static struct mf_block *pick(uint64_t *rng)
{
	uint32_t i, k, at = mf_below(rng, MF_BLOCKS);

	for (i = 0; i < MF_BLOCKS; i++) {
		k = (at + i) % MF_BLOCKS;
		if (mf.block[k].state == MF_LIVE && !busy[k]) {
			busy[k] = true;
			return &mf.block[k];
		}
	}
	return NULL;
}

static struct mf_block *room_locked(void)
{
	struct mf_block *b;

	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (!b->state && !busy[b - mf.block])
			return b;
	return NULL;
}

static void unbusy(const struct mf_block *b)
{
	pthread_mutex_lock(&lock);
	busy[b - mf.block] = false;
	pthread_mutex_unlock(&lock);
}

static void check_alone_locked(const char *ptr, size_t bytes)
{
	const struct mf_block *o;

	for (o = mf.block; o < mf.block + MF_BLOCKS; o++)
		MF_CHECK(!o->state || ptr + bytes <= o->ptr || o->ptr + o->bytes <= ptr,
			 "%p lies over %p, which %s", ptr, o->ptr,
			 o->state == MF_LIVE ? "is in use" : "waits");
}

/* ---- what is done --------------------------------------------------------------------------- */

static void alloc(struct worker *w)
{
	struct npu_mem_block i = { .size = sizeof(i) };
	uint32_t s = mf_below(&w->rng, MF_STREAMS);
	size_t size = mf_size(&w->rng);
	struct mf_block *b;
	void *ptr;
	int err;

	err = npu_mem_alloc(size, mf.stream[s].h, &ptr);
	MF_CHECK(!err || err == -ENOMEM || err == -EBUSY, "%d", err);
	if (err)
		return;
	MF_CHECK(!npu_mem_get_block(ptr, &i) && i.base == ptr && i.bytes >= size, "%p", ptr);
	pthread_mutex_lock(&lock);
	check_alone_locked(ptr, i.bytes);
	b = room_locked();
	if (b) {
		busy[b - mf.block] = true;
		*b = (struct mf_block){ .dev = s % MF_DEVICES, .ptr = ptr, .bytes = i.bytes };
		b->asked = size;
		b->stream = s;
		b->state = MF_LIVE;
	}
	pthread_mutex_unlock(&lock);
	if (!b) {
		MF_CHECK(!npu_mem_free(ptr), "%p", ptr);
		return;
	}
	if (!mf_below(&w->rng, 8)) {
		pthread_rwlock_rdlock(&awake[b->dev]);
		mf_mark(b, mf_random(&w->rng) | 1);
		pthread_rwlock_unlock(&awake[b->dev]);
	}
	unbusy(b);
}

static void give(struct worker *w)
{
	struct mf_block *b;
	uint32_t i, waits = 0;

	pthread_mutex_lock(&lock);
	b = pick(&w->rng);
	pthread_mutex_unlock(&lock);
	if (!b)
		return;
	pthread_rwlock_rdlock(&awake[b->dev]);
	mf_look(b);
	pthread_rwlock_unlock(&awake[b->dev]);
	pthread_mutex_lock(&lock);
	for (i = 0; i < MF_STREAMS; i++)
		if (b->uses & 1u << i && mf.stream[i].hold >= 0)
			waits |= 1u << i;
	b->uses = waits;
	b->state = waits ? MF_WAIT : MF_NONE;
	pthread_mutex_unlock(&lock);
	MF_CHECK(!npu_mem_free(b->ptr), "%p", b->ptr);
	unbusy(b);
}

static void record(struct worker *w)
{
	uint32_t s = mf_below(&w->rng, MF_STREAMS);
	struct mf_block *b;

	pthread_mutex_lock(&lock);
	b = pick(&w->rng);
	pthread_mutex_unlock(&lock);
	if (!b)
		return;
	MF_CHECK(!npu_mem_record_stream(b->ptr, mf.stream[s].h), "%p", b->ptr);
	if (s != b->stream)
		b->uses |= 1u << s;
	unbusy(b);
}

static void hold(struct worker *w)
{
	uint32_t s = mf_below(&w->rng, MF_STREAMS);
	int h;

	pthread_mutex_lock(&lock);
	h = mf.stream[s].hold == -1 ? mf_hold_take() : -1;
	if (h >= 0) {
		mf_hold(h, mf.stream[s].h);
		mf.stream[s].hold = h;
	}
	pthread_mutex_unlock(&lock);
}

static void unhold(uint32_t s)
{
	struct mf_block *b;
	int h;

	/* first nobody counts on it any more */
	pthread_mutex_lock(&lock);
	h = mf.stream[s].hold;
	if (h >= 0)
		mf.stream[s].hold = GOING;
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++) {
		if (b->state != MF_WAIT)
			continue;
		b->uses &= ~(1u << s);
		if (!b->uses)
			b->state = MF_NONE;
	}
	pthread_mutex_unlock(&lock);
	if (h < 0)
		return;
	mf_unhold(h, mf.stream[s].h);
	pthread_mutex_lock(&lock);
	mf.stream[s].hold = -1;
	pthread_mutex_unlock(&lock);
}

static void *opener(void *arg)
{
	uint32_t s = 0;

	while (!over) {
		usleep(200);
		unhold(s++ % MF_STREAMS);
	}
	return arg;
}

/* Held streams may keep it from falling asleep. */
static void nap(struct worker *w)
{
	uint32_t d = mf_below(&w->rng, MF_DEVICES);
	int err;

	pthread_rwlock_wrlock(&awake[d]);
	err = npu_mem_sleep((int)d, NULL, 0, 20);
	MF_CHECK(!err || err == -ETIMEDOUT || err == -EOPNOTSUPP, "device %u: %d", d, err);
	if (!err && mf_below(&w->rng, 2))
		sched_yield();
	while ((err = npu_mem_wake((int)d)))
		MF_CHECK(err == -ENOMEM, "device %u: %d", d, err);
	pthread_rwlock_unlock(&awake[d]);
}

static void ask(struct worker *w)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	uint32_t k;

	MF_CHECK(!npu_mem_get_stats((int)mf_below(&w->rng, MF_DEVICES), &s), "stats");
	for (k = 0; k < NPU_MEM_KINDS; k++) {
		MF_CHECK(s.allocation[k].allocated - s.allocation[k].freed ==
			 s.allocation[k].current, "%u", k);
		MF_CHECK(s.allocated_bytes[k].current <= s.active_bytes[k].current &&
			 s.active_bytes[k].current + s.inactive_split_bytes[k].current <=
			 s.reserved_bytes[k].current &&
			 s.reserved_bytes[k].current <= s.reserved_bytes[k].peak, "%u", k);
	}
	MF_CHECK(s.cached_bytes + s.active_bytes[0].current == s.reserved_bytes[0].current &&
		 s.waiting_bytes + s.allocated_bytes[0].current == s.active_bytes[0].current,
		 "%llu cached", (unsigned long long)s.cached_bytes);
}

static int nowhere(const char *text, size_t size, void *arg)
{
	(void)text;
	(void)arg;
	return size ? 0 : -EINVAL;
}

static void look(struct worker *w)
{
	int d = (int)mf_below(&w->rng, MF_DEVICES), err;

	err = npu_mem_history(d, NPU_MEM_HISTORY_ON, 1 + mf_below(&w->rng, 100));
	MF_CHECK(!err || err == -EOPNOTSUPP, "%d", err);
	err = npu_mem_snapshot(d, nowhere, NULL);
	MF_CHECK(!err || err == -EOPNOTSUPP, "%d", err);
	if (mf_below(&w->rng, 2))
		npu_mem_history(d, NPU_MEM_HISTORY_OFF, 0);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint32_t dice;

	while (w->ops--) {
		dice = mf_below(&w->rng, 1024);
		if (dice < 440)
			alloc(w);
		else if (dice < 850)
			give(w);
		else if (dice < 950)
			record(w);
		else if (dice < 970)
			hold(w);
		else if (dice < 1000)
			ask(w);
		else if (dice < 1004)
			simnpu_test_fail(SIMNPU_FAIL_MEMORY, 1, 1, 0);
		else if (dice < 1008)
			npu_mem_empty_cache((int)mf_below(&w->rng, MF_DEVICES));
		else if (dice < 1014)
			look(w);
		else if (dice < 1018)
			nap(w);
		else
			MF_CHECK(npu_mem_free(w) == -EINVAL, "host memory");
	}
	return NULL;
}

/* ---- when all is quiet ---------------------------------------------------------------------- */

static void check_sums(uint32_t dev)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	uint64_t n = 0, bytes = 0, asked = 0;
	const struct mf_block *b;

	for (b = mf.block; b < mf.block + MF_BLOCKS; b++) {
		MF_CHECK(b->state != MF_WAIT, "%p", b->ptr);
		if (!b->state || b->dev != dev)
			continue;
		n++;
		bytes += b->bytes;
		asked += b->asked;
	}
	MF_CHECK(!npu_mem_get_stats((int)dev, &s), "device %u", dev);
	MF_CHECK(s.allocation[0].current == n && s.active[0].current == n &&
		 s.allocated_bytes[0].current == bytes && s.active_bytes[0].current == bytes &&
		 s.requested_bytes[0].current == asked && !s.waiting_bytes,
		 "device %u: %llu of %llu blocks, %llu of %llu bytes", dev,
		 (unsigned long long)s.allocation[0].current, (unsigned long long)n,
		 (unsigned long long)s.allocated_bytes[0].current, (unsigned long long)bytes);
}

static void check_nothing_left(uint32_t dev)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	struct simnpu_test_device d;
	struct mf_block *b;

	for (b = mf.block; b < mf.block + MF_BLOCKS; b++) {
		if (!b->state || b->dev != dev)
			continue;
		mf_look(b);
		b->state = MF_NONE;
		MF_CHECK(!npu_mem_free(b->ptr), "%p", b->ptr);
	}
	MF_CHECK(!npu_mem_empty_cache((int)dev), "device %u", dev);
	MF_CHECK(!npu_mem_get_stats((int)dev, &s), "device %u", dev);
	MF_CHECK(!s.reserved_bytes[0].current && !s.active[0].current &&
		 s.allocation[0].allocated == s.allocation[0].freed, "device %u: %llu bytes", dev,
		 (unsigned long long)s.reserved_bytes[0].current);
	MF_CHECK(simnpu_test_device(dev, &d) && d.mem_used == mf.base[dev], "device %u", dev);
}

void mf_storm(uint64_t seed, uint64_t ops)
{
	struct worker w[THREADS];
	pthread_t open;
	uint32_t i;

	over = false;
	MF_CHECK(!pthread_create(&open, NULL, opener, NULL), "thread");
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .rng = seed * 31 + i + 1, .ops = ops / THREADS };
		MF_CHECK(!pthread_create(&w[i].thread, NULL, work, &w[i]), "thread");
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	over = true;
	pthread_join(open, NULL);
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 0, 0, 0);
	for (i = 0; i < MF_STREAMS; i++)
		unhold(i);
	for (i = 0; i < MF_DEVICES; i++) {
		check_sums(i);
		check_nothing_left(i);
	}
}
