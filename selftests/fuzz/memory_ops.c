// SPDX-License-Identifier: MIT
/*
 * One operation after the other, whoever does it: after each the model is right.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/simnpu/simnpu_test.h"
#include "hal/base.h"
#include "selftests/fuzz/memory_fuzz.h"

/* Below this a request might be refused because streams are held. */
#define ROOM ((size_t)48 << 20)
#define WAIT_MS 20000

static uint64_t reclaim_id;

static uint32_t below(uint32_t n)
{
	return mf_below(&mf.rng, n);
}

/* ---- streams ------------------------------------------------------------------------------- */

static void stream_make(uint32_t i)
{
	MF_CHECK(!npu_device_set((int)(i % MF_DEVICES)), "device %u", i % MF_DEVICES);
	MF_CHECK(!npu_stream_create(NULL, &mf.stream[i].h), "stream %u", i);
	mf.stream[i].hold = -1;
}

static void hold(uint32_t i)
{
	/* collections wait for streams */
	if (mf.stream[i].hold >= 0 || mf.gc)
		return;
	mf.stream[i].hold = mf_hold_take();
	if (mf.stream[i].hold >= 0)
		mf_hold(mf.stream[i].hold, mf.stream[i].h);
}

static void unhold(uint32_t i)
{
	if (mf.stream[i].hold < 0)
		return;
	mf_unhold(mf.stream[i].hold, mf.stream[i].h);
	mf.stream[i].hold = -1;
	mf_done(i);
}

void mf_calm(void)
{
	uint32_t i;

	for (i = 0; i < MF_STREAMS; i++)
		unhold(i);
}

/* A poll of one that is held ends at once. */
static void wait(uint32_t i)
{
	bool held = mf.stream[i].hold >= 0;
	int err = npu_stream_sync(mf.stream[i].h, held ? 0 : WAIT_MS);

	MF_CHECK(err == (held ? -ETIMEDOUT : 0), "stream %u: %d", i, err);
}

static void stream_replace(uint32_t i)
{
	npu_stream old = mf.stream[i].h;
	struct mf_block *b;

	unhold(i);
	MF_CHECK(!npu_stream_destroy(old, WAIT_MS), "stream %u", i);
	mf_gone(i);
	stream_make(i);
	b = mf_live(below(MF_DEVICES), &mf.rng);
	if (b) {
		MF_CHECK(npu_mem_record_stream(b->ptr, old) < 0, "%p", b->ptr);
		MF_CHECK(!npu_mem_erase_stream(b->ptr, old), "%p", b->ptr);
	}
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void do_free(uint32_t dev)
{
	struct mf_block *b = mf_live(dev, &mf.rng);

	if (!b)
		return;
	mf_look(b);
	mf_give(b);
	MF_CHECK(!npu_mem_free(b->ptr), "%p", b->ptr);
}

/* The device may be asked for more: give something back now and then. */
static int reclaim(int device, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (!mf.reclaims || device >= MF_DEVICES || below(4))
		return 0;
	do_free((uint32_t)device);
	return 1;
}

static struct mf_block *unused(void)
{
	uint32_t i, at = below(MF_BLOCKS);

	for (i = 0; i < MF_BLOCKS; i++)
		if (!mf.block[(at + i) % MF_BLOCKS].state)
			return &mf.block[(at + i) % MF_BLOCKS];
	return NULL;
}

size_t mf_device_free(uint32_t dev)
{
	size_t fre = 0;

	MF_CHECK(!npu_device_mem_info((int)dev, &fre, NULL), "device %u", dev);
	return fre;
}

static int try_alloc(size_t size, uint32_t i, char **ptr)
{
	npu_stream s = mf.stream[i].h;
	void *p = &p;
	int err;

	if (!below(16)) {
		MF_CHECK(!npu_device_set((int)(i % MF_DEVICES)), "stream %u", i);
		MF_CHECK(!npu_stream_set_current(s), "stream %u", i);
		s = NPU_STREAM_CURRENT;
	}
	err = npu_mem_alloc(size, s, &p);
	MF_CHECK(!err == (p != NULL), "%d, %p", err, p);
	*ptr = p;
	return err;
}

struct mf_block *mf_alloc(size_t size, uint32_t i, bool refused)
{
	struct mf_block *b = unused();
	char *ptr;
	int err;

	if (!b)
		return NULL;
	if (mf_device_free(i % MF_DEVICES) < ROOM)
		mf_calm();
	err = try_alloc(size, i, &ptr);
	if (mf.asleep[i % MF_DEVICES]) {
		MF_CHECK(err == -EBUSY, "%d", err);
		return NULL;
	}
	MF_CHECK(!err || err == -ENOMEM, "%d", err);
	/* what a reclaim function has freed may wait, so that this one is not free */
	b = unused();
	if (err) {
		MF_CHECK(refused || mf_rounded(size) + (4u << 20) + 2 * mf.align >
			 mf_device_free(i % MF_DEVICES), "%zu bytes of %zu", size,
			 mf_device_free(i % MF_DEVICES));
		return NULL;
	}
	MF_CHECK(b, "all blocks wait");
	mf_took(b, ptr, size, i);
	if (!below(4))
		mf_mark(b, mf_random(&mf.rng) | 1);
	return b;
}

static void do_record(uint32_t i)
{
	struct mf_block *b = mf_live(below(MF_DEVICES), &mf.rng);

	if (!b)
		return;
	MF_CHECK(!npu_mem_record_stream(b->ptr, mf.stream[i].h), "%p", b->ptr);
	if (mf_owner(b) != mf.stream[i].h.h)
		b->uses |= 1u << i;
}

static void do_erase(uint32_t i)
{
	struct mf_block *b = mf_live(below(MF_DEVICES), &mf.rng);

	if (!b)
		return;
	MF_CHECK(!npu_mem_erase_stream(b->ptr, mf.stream[i].h), "%p", b->ptr);
	if (mf_owner(b) != mf.stream[i].h.h)
		b->uses &= ~(1u << i);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuse(uint32_t dev)
{
	struct mf_block *b = mf_live(dev, &mf.rng);
	struct npu_mem_block i = { .size = sizeof(i) };
	struct mf_block *w;
	char *p;

	MF_CHECK(!npu_mem_free(NULL), "NULL");
	MF_CHECK(npu_mem_free(&i) == -EINVAL, "host memory");
	if (!b)
		return;
	p = b->ptr + 1 + below((uint32_t)b->bytes - 1);
	MF_CHECK(npu_mem_free(p) == -EINVAL, "%p in %p", p, b->ptr);
	/* be it the start of what the driver gave, or not */
	MF_CHECK(npu_free(b->ptr) == -EINVAL, "%p", b->ptr);
	MF_CHECK(npu_mem_record_stream(p, mf.stream[0].h) == -EINVAL, "%p in %p", p, b->ptr);
	MF_CHECK(!npu_mem_get_block(p, &i) && i.base == b->ptr, "%p in %p", p, b->ptr);
	for (w = mf.block; w < mf.block + MF_BLOCKS; w++)
		if (w->state == MF_WAIT)
			MF_CHECK(npu_mem_free(w->ptr) == -EINVAL, "%p waits", w->ptr);
}

static void free_twice(uint32_t dev)
{
	struct mf_block *b = mf_live(dev, &mf.rng);

	if (!b)
		return;
	mf_give(b);
	MF_CHECK(!npu_mem_free(b->ptr), "%p", b->ptr);
	MF_CHECK(npu_mem_free(b->ptr) == -EINVAL, "%p", b->ptr);
	mf_compare(dev);
}

/* ---- running out of memory ------------------------------------------------------------------ */

static void driver_fails(uint32_t i)
{
	if (mf.asleep[i % MF_DEVICES])
		return;
	mf_calm();
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 1 + below(2), below(3), 0);
	mf_alloc(mf_size(&mf.rng) * 2, i, true);
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 0, 0, 0);
	mf_compare(i % MF_DEVICES);
	MF_CHECK(mf_alloc(1 + below(4096), i, false) || !unused() ||
		 mf_device_free(i % MF_DEVICES) < ROOM, "after a failure");
}

static void limited(uint32_t i)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	int d = (int)(i % MF_DEVICES);
	size_t total;

	if (mf.asleep[d])
		return;
	mf_calm();
	MF_CHECK(!npu_mem_get_stats(d, &s), "device %d", d);
	MF_CHECK(!npu_device_mem_info(d, NULL, &total), "device %d", d);
	MF_CHECK(!npu_mem_set_fraction(d, (double)s.reserved_bytes[0].current / (double)total),
		 "device %d", d);
	mf_alloc(mf_size(&mf.rng) * 4, i, true);
	MF_CHECK(!npu_mem_get_stats(d, &s), "device %d", d);
	MF_CHECK(s.reserved_bytes[0].current <= s.limit, "device %d: %llu of %llu", d,
		 (unsigned long long)s.reserved_bytes[0].current, (unsigned long long)s.limit);
	mf_compare((uint32_t)d);
	MF_CHECK(!npu_mem_set_fraction(d, 1), "device %d", d);
}

static void trim(uint32_t dev)
{
	struct npu_mem_stats s = { .size = sizeof(s) };

	mf_calm();
	MF_CHECK(!npu_mem_empty_cache((int)dev), "device %u", dev);
	mf_compare(dev);
	MF_CHECK(!npu_mem_get_stats((int)dev, &s), "device %u", dev);
	/* what is free in a pool stays there */
	MF_CHECK(mf.asleep[dev] || mf.pool[dev].h ||
		 s.cached_bytes == s.inactive_split_bytes[0].current,
		 "device %u: %llu, not %llu", dev, (unsigned long long)s.cached_bytes,
		 (unsigned long long)s.inactive_split_bytes[0].current);
}

/* ---- devices and lives ---------------------------------------------------------------------- */

static void set_base(uint32_t dev)
{
	struct simnpu_test_device d = { 0 };

	MF_CHECK(simnpu_test_device(dev, &d), "device %u", dev);
	mf.base[dev] = d.mem_used;
}

static void reset(uint32_t dev)
{
	struct mf_block *b = mf_live(dev, &mf.rng);
	char *ptr = b ? b->ptr : NULL;
	uint32_t i;

	mf_calm();
	MF_CHECK(!npu_device_reset((int)dev, WAIT_MS), "device %u", dev);
	MF_CHECK(!ptr || npu_mem_free(ptr) == -EINVAL, "%p", ptr);
	mf_lost(dev);
	mf_pool_lost(dev);
	mf.asleep[dev] = false;
	for (i = dev; i < MF_STREAMS; i += MF_DEVICES) {
		mf_gone(i);
		stream_make(i);
	}
	set_base(dev);
	mf_compare(dev);
}

static void toggle(void)
{
	mf.caching = !mf.caching;
	MF_CHECK(!npu_option_set("mem_caching", mf.caching ? "1" : "0"), "mem_caching");
}

static void option(const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	MF_CHECK(!npu_option_set(name, text), "%s=%s", name, text);
}

void mf_begin(bool reclaims)
{
	static const uint32_t aligns[] = { 512, 512, 512, 1024, 65536 };
	uint32_t i;

	memset(mf.block, 0, sizeof(mf.block));
	memset(mf.fig, 0, sizeof(mf.fig));
	memset(mf.pool, 0, sizeof(mf.pool));
	mf.reclaims = reclaims;
	mf.caching = below(8) != 0;
	mf.align = aligns[below(ARRAY_SIZE(aligns))];
	mf.divisions = below(2) ? 1u << below(6) : 0;
	mf.growable = below(2);
	mf.split = mf.growable || below(3) ? 0 : 20;
	mf.gc = mf.growable || below(3) ? 0 : 1 + below(60);
	memset(mf.asleep, 0, sizeof(mf.asleep));
	option("simnpu_devices", MF_DEVICES + MF_HOLDS);
	MF_CHECK(!npu_option_set("simnpu_memory", "192M"), "simnpu_memory");
	option("op_timeout_ms", 3000);
	option("mem_caching", mf.caching);
	option("mem_growable", mf.growable);
	option("mem_block_align", (uint32_t)mf.align);
	option("mem_roundup_power2_divisions", mf.divisions);
	option("mem_max_split_mb", mf.split);
	option("mem_max_non_split_rounding_mb", 1 + below(20));
	option("mem_gc_threshold", mf.gc);
	option("mem_large_segment_mb", 2 + below(19));
	MF_CHECK(!npu_init(), "init");
	mf_holds_begin();
	for (i = 0; i < MF_STREAMS; i++)
		stream_make(i);
	for (i = 0; i < MF_DEVICES; i++)
		set_base(i);
	MF_CHECK(!npu_mem_add_reclaim(reclaim, NULL, &reclaim_id), "reclaim");
}

void mf_compare_all(void)
{
	uint32_t dev;

	mf_calm();
	for (dev = 0; dev < MF_DEVICES; dev++)
		mf_compare(dev);
}

void mf_end(void)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	uint32_t dev;

	mf_calm();
	for (dev = 0; dev < MF_DEVICES; dev++) {
		mf_wake(dev);
		mf_pool_end(dev);
		while (mf.fig[dev][MF_KINDS].blocks)
			do_free(dev);
		MF_CHECK(!npu_mem_empty_cache((int)dev), "device %u", dev);
		MF_CHECK(!npu_mem_get_stats((int)dev, &s), "device %u", dev);
		/* of growable ones the addresses stay */
		MF_CHECK(!s.reserved_bytes[0].current && (mf.growable || !s.segment[0].current),
			 "device %u: %llu", dev, (unsigned long long)s.reserved_bytes[0].current);
	}
	MF_CHECK(!npu_mem_remove_reclaim(reclaim_id), "reclaim");
	mf_holds_end();
	MF_CHECK(!npu_finalize(WAIT_MS), "finalize");
}

/* ---- the dice ------------------------------------------------------------------------------- */

static void rare(uint32_t dev, uint32_t stream)
{
	switch (below(24)) {
	case 0:
	case 1:
		trim(dev);
		break;
	case 2:
		limited(stream);
		break;
	case 3:
	case 4:
	case 5:
		driver_fails(stream);
		break;
	case 6:
	case 7:
		stream_replace(stream);
		break;
	case 8:
		toggle();
		break;
	case 9:
		if (!below(8))
			reset(dev);
		break;
	case 10:
		mf_reset_peak(dev);
		MF_CHECK(!npu_mem_reset_peak((int)dev), "device %u", dev);
		break;
	case 11:
		/* which notices what has come to its end */
		mf_compare(dev);
		mf_reset_sums(dev);
		MF_CHECK(!npu_mem_reset_accumulated((int)dev), "device %u", dev);
		break;
	case 12:
		free_twice(dev);
		break;
	case 13:
		mf_sleep(dev);
		break;
	case 14:
	case 15:
		mf_wake(dev);
		break;
	case 16:
		mf_tag(dev);
		break;
	case 17:
		wait(stream);
		break;
	case 18:
	case 19:
	case 20:
	case 21:
		mf_pool(stream);
		break;
	default:
		refuse(dev);
	}
}

void mf_step(void)
{
	uint32_t dev = below(MF_DEVICES), stream = below(MF_STREAMS), dice = below(256);

	mf.op++;
	if (dice < 104)
		mf_alloc(mf_size(&mf.rng), stream, false);
	else if (dice < 206)
		do_free(dev);
	else if (dice < 228)
		do_record(stream);
	else if (dice < 238)
		do_erase(stream);
	else if (dice < 243)
		hold(stream);
	else if (dice < 247)
		unhold(stream);
	else if (dice < 251)
		mf_compare(dev);
	else
		rare(dev, stream);
}
