// SPDX-License-Identifier: MIT
/*
 * Private pools: what lies in one, and what is left of it.
 */
#include "hal/base.h"
#include "selftests/fuzz/memory_fuzz.h"

static uint32_t below(uint32_t n)
{
	return mf_below(&mf.rng, n);
}

static void make(uint32_t dev)
{
	const struct npu_mem_pool_attr a = {
		.size = sizeof(a),
		.flags = below(2) ? NPU_MEM_POOL_USE_ON_OOM : 0,
		.tag = below(MF_TAGS + 1),
	};

	MF_CHECK(!npu_mem_pool_create((int)dev, &a, &mf.pool[dev]), "device %u", dev);
	mf.pool_tag[dev] = a.tag;
}

/* What there has to be in it. */
static void compare(uint32_t dev, struct npu_mem_pool_info *i)
{
	uint64_t blocks = 0, used = 0, waits = 0;
	const struct mf_block *b;

	*i = (struct npu_mem_pool_info){ .size = sizeof(*i) };
	MF_CHECK(!npu_mem_pool_get_info(mf.pool[dev], i), "device %u", dev);
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++) {
		if (b->pool != i->id || b->state == MF_NONE)
			continue;
		blocks += b->state == MF_LIVE;
		used += b->state == MF_LIVE ? b->bytes : 0;
		waits += b->state == MF_WAIT ? b->bytes : 0;
	}
	MF_CHECK(blocks == i->blocks && used == i->used_bytes && waits == i->waiting_bytes,
		 "device %u: %llu blocks, not %llu, %llu bytes, not %llu, %llu wait, not %llu", dev,
		 (unsigned long long)i->blocks, (unsigned long long)blocks,
		 (unsigned long long)i->used_bytes, (unsigned long long)used,
		 (unsigned long long)i->waiting_bytes, (unsigned long long)waits);
	MF_CHECK(i->reserved_bytes >= used + waits && !i->routes, "device %u", dev);
}

static void fill(uint32_t stream)
{
	uint32_t dev = stream % MF_DEVICES, n;
	npu_stream s = mf.stream[stream].h;
	struct npu_mem_pool_info i;
	struct mf_block *b;

	compare(dev, &i);
	MF_CHECK(!npu_mem_pool_begin(mf.pool[dev], NPU_MEM_POOL_STREAM, s), "stream %u", stream);
	for (n = 1 + below(4); n; n--) {
		b = mf_alloc(mf_size(&mf.rng), stream, false);
		if (!b)
			continue;
		MF_CHECK(b->pool == i.id, "%p", b->ptr);
		b->tag = mf.pool_tag[dev];
	}
	MF_CHECK(!npu_mem_pool_end(mf.pool[dev], NPU_MEM_POOL_STREAM, s), "stream %u", stream);
	compare(dev, &i);
}

static void trim(uint32_t dev)
{
	struct npu_mem_pool_info i;

	mf_calm();
	MF_CHECK(!npu_mem_pool_trim(mf.pool[dev]), "device %u", dev);
	compare(dev, &i);
	MF_CHECK(i.blocks || !i.reserved_bytes, "device %u: %llu", dev,
		 (unsigned long long)i.reserved_bytes);
}

void mf_pool_lost(uint32_t dev)
{
	struct npu_mem_pool_info i = { .size = sizeof(i) };
	struct mf_block *b;

	if (!mf.pool[dev].h)
		return;
	MF_CHECK(npu_mem_pool_get_info(mf.pool[dev], &i) < 0, "device %u", dev);
	mf.pool[dev].h = 0;
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (b->dev == dev)
			b->pool = 0;
}

uint64_t mf_pool_bytes(uint32_t dev)
{
	struct npu_mem_pool_info i = { .reserved_bytes = 0 };

	if (mf.pool[dev].h)
		compare(dev, &i);
	return i.reserved_bytes;
}

void mf_pool_end(uint32_t dev)
{
	if (!mf.pool[dev].h)
		return;
	mf_calm();
	MF_CHECK(!npu_mem_pool_destroy(mf.pool[dev]), "device %u", dev);
	mf_pool_lost(dev);
}

void mf_pool(uint32_t stream)
{
	uint32_t dev = stream % MF_DEVICES;

	/* what it serves is cached even while the cache is off: not in the model */
	if (!mf.caching || mf.asleep[dev])
		return;
	if (!mf.pool[dev].h)
		make(dev);
	switch (below(8)) {
	case 0:
		trim(dev);
		break;
	case 1:
		mf_pool_end(dev);
		break;
	default:
		fill(stream);
	}
	mf_compare(dev);
}
