// SPDX-License-Identifier: MIT
/*
 * Memory that is given back for a while: which of it comes back with its content, and what else
 * must not change.
 */
#include <errno.h>

#include "drivers/simnpu/simnpu_test.h"
#include "hal/base.h"
#include "selftests/fuzz/memory_fuzz.h"
#include "uapi/simnpu.h"

#define WAIT_MS 20000
#define UNMAP (SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_VM_UNMAP))

static uint32_t below(uint32_t n)
{
	return mf_below(&mf.rng, n);
}

void mf_tag(uint32_t dev)
{
	struct mf_block *b = mf_live(dev, &mf.rng);

	if (!b)
		return;
	b->tag = below(MF_TAGS + 1);
	MF_CHECK(!npu_mem_set_tag(b->ptr, b->tag), "%p", b->ptr);
}

/* ---- to sleep ------------------------------------------------------------------------------ */

/* Whether something has to be waited for that is held. */
static bool in_use(uint32_t dev)
{
	const struct mf_block *b;
	uint32_t i;

	for (i = dev; i < MF_STREAMS; i += MF_DEVICES)
		if (mf.stream[i].hold >= 0)
			return true;
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (b->state == MF_WAIT && b->dev == dev)
			return true;
	return false;
}

/* Whether all that there is lies where memory can be mapped again. */
static bool can_sleep(uint32_t dev)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	const struct mf_block *b;

	if (!mf.growable) {
		MF_CHECK(!npu_mem_get_stats((int)dev, &s), "device %u", dev);
		return !s.active[0].current && !mf_pool_bytes(dev);
	}
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (b->state && b->plain && b->dev == dev)
			return false;
	return true;
}

static bool dropped(const struct mf_block *b, const uint32_t *drop, uint32_t count)
{
	while (count--)
		if (drop[count] == b->tag)
			return true;
	return false;
}

void mf_sleep(uint32_t dev)
{
	const uint32_t drop[] = { 1 + below(MF_TAGS), 1 + below(MF_TAGS) };
	bool held = in_use(dev), can = can_sleep(dev), fails = can && !below(4);
	uint32_t count = below(ARRAY_SIZE(drop) + 1);
	struct mf_block *b;
	int err;

	if (mf.asleep[dev]) {
		MF_CHECK(!npu_mem_sleep((int)dev, drop, count, WAIT_MS), "device %u", dev);
		return;
	}
	if (fails)
		simnpu_test_fail(UNMAP, 1 + below(8), 1, ENOMEM);
	err = npu_mem_sleep((int)dev, drop, count, held ? 1 : WAIT_MS);
	simnpu_test_fail(UNMAP, 0, 0, 0);
	MF_CHECK(held ? err == -ETIMEDOUT : can ? !err || (fails && err == -ENOMEM) :
		 err == -EOPNOTSUPP, "device %u: %d", dev, err);
	mf.asleep[dev] = !err;
	for (b = mf.block; !err && b < mf.block + MF_BLOCKS; b++)
		if (b->state && b->dev == dev && dropped(b, drop, count))
			b->mark = 0;
	mf_compare(dev);
}

/* ---- to wake ------------------------------------------------------------------------------- */

static void look_at_all(uint32_t dev)
{
	const struct mf_block *b;

	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (b->state == MF_LIVE && b->dev == dev)
			mf_look(b);
}

void mf_wake(uint32_t dev)
{
	bool fails = mf.asleep[dev] && !below(3);
	int err;

	if (fails)
		simnpu_test_fail(SIMNPU_FAIL_MEMORY, 1 + below(8), 1, 0);
	err = npu_mem_wake((int)dev);
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 0, 0, 0);
	MF_CHECK(!err || (fails && err == -ENOMEM), "device %u: %d", dev, err);
	if (err) {
		mf_compare(dev);
		MF_CHECK(!npu_mem_wake((int)dev), "device %u", dev);
	}
	if (!mf.asleep[dev])
		return;
	mf.asleep[dev] = false;
	look_at_all(dev);
	mf_compare(dev);
}
