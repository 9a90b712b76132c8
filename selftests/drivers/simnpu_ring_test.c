// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings of the simulator's user-mode half: laps, links, growth, and that the
 * device never sees anything but tasks.
 */
#include "selftests/drivers/umd.h"
#include "selftests/npu_kselftest.h"

FIXTURE(ring) {
	struct side x;
	struct simnpu_desc task[65];
};

FIXTURE_SETUP(ring)
{
	fake_init();
	simnpu_sys = &fake_sys;
	up(&self->x, 0, 1000);
}

FIXTURE_TEARDOWN(ring)
{
	memset(fake.fail, 0, sizeof(fake.fail));
	down(&self->x);
	EXPECT_EQ(0, fake.live);
	fake_exit();
}

TEST_F(ring, ring_fills_and_asks_for_more)
{
	uint32_t i, calls = fake_calls();

	for (i = 0; i < 63; i++)
		ASSERT_EQ(0, launch(&self->x, NULL, 0));
	/* the last slot is for the link */
	EXPECT_EQ(-EAGAIN, launch(&self->x, NULL, 0));
	EXPECT_EQ(calls, fake_calls());
	EXPECT_EQ(0, drv()->stream->prepare(&self->x.s->base));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_GROW));
	EXPECT_EQ(256, FAKE_ARG(SIMNPU_IOCTL_QUEUE_GROW, struct simnpu_grow)->slots);
	/* as long as that was not taken there is no other */
	EXPECT_EQ(0, drv()->stream->prepare(&self->x.s->base));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_GROW));
	EXPECT_EQ(0, launch(&self->x, NULL, 0));
	for (i = 0; i < 64; i++)
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(1, self->x.q->links);
	EXPECT_EQ(256, self->x.q->slots);
}

TEST_F(ring, segments_grow)
{
	static const uint32_t want[] = { 256, 1024, 4096, 4096, 4096 };
	uint32_t k = 0, i;

	for (i = 0; k < ARRAY_SIZE(want); i++) {
		ASSERT_EQ(0, launch_full(&self->x, NULL, 0));
		if (FAKE_CALLS(SIMNPU_IOCTL_QUEUE_GROW) == k)
			continue;
		EXPECT_EQ(want[k], FAKE_ARG(SIMNPU_IOCTL_QUEUE_GROW, struct simnpu_grow)->slots);
		k++;
	}
	while (i--)
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(0, fake_take(self->x.q, self->task));
}

/* A device that keeps up is served from one segment for ever. */
TEST_F(ring, ring_goes_round)
{
	uint32_t i;

	for (i = 0; i < 10000; i++) {
		ASSERT_EQ(0, launch(&self->x, &i, sizeof(i)));
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
		ASSERT_EQ(0, memcmp(&i, self->task[0].launch.args, sizeof(i)));
		fake_complete(self->x.q);
	}
	EXPECT_EQ(0, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_GROW));
	EXPECT_EQ(10000 / 63, self->x.q->links);
}

/*
 * What the device has left is used to the last slot, but for the one that a
 * link will need, and the old link as long as it was not followed.
 */
TEST_F(ring, ring_is_used_up)
{
	uint32_t i, k;

	for (i = 0; i < 63; i++)
		ASSERT_EQ(0, launch(&self->x, &i, sizeof(i)));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(-EAGAIN, launch(&self->x, &i, sizeof(i)));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(0, launch(&self->x, &i, sizeof(i)));
	EXPECT_EQ(-EAGAIN, launch(&self->x, &i, sizeof(i)));
	/* all tasks of the first lap were taken, the link behind them was not */
	for (i = 2; i < 63; i++)
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
	for (i = 64; launch(&self->x, &i, sizeof(i)) == 0; i++)
		;
	EXPECT_EQ(63 + 62, i);
	ASSERT_EQ(0, launch_full(&self->x, &i, sizeof(i)));
	for (k = 63; k <= i; k++) {
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
		ASSERT_EQ(0, memcmp(&k, self->task[0].launch.args, sizeof(k)));
	}
	EXPECT_EQ(0, fake_take(self->x.q, self->task));
}

TEST_F(ring, growth_refused)
{
	uint32_t i;

	for (i = 0; i < 63; i++)
		ASSERT_EQ(0, launch(&self->x, NULL, 0));
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_GROW, ENOMEM);
	EXPECT_EQ(-ENOMEM, launch_full(&self->x, NULL, 0));
	/* nothing was submitted, and what was there is whole */
	for (i = 0; i < 63; i++)
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(0, fake_take(self->x.q, self->task));
	/* the room that the device has left is enough */
	EXPECT_EQ(0, launch_full(&self->x, NULL, 0));
	EXPECT_EQ(1, fake_take(self->x.q, self->task));
}

TEST_F(ring, a_task_larger_than_the_ring)
{
	uint8_t args[4096] = { 1 };

	EXPECT_EQ(-EAGAIN, launch(&self->x, args, sizeof(args)));
	EXPECT_EQ(0, launch_full(&self->x, args, sizeof(args)));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(64, self->task[0].slots);
	EXPECT_EQ(0, memcmp(args, &self->task[1], sizeof(args)));
}

/* Exactly so many tasks as the device says, whatever they take of the ring. */
TEST_F(ring, max_queued)
{
	uint8_t args[100] = { 0 };
	uint32_t i;

	self->x.s->max_queued = 500;
	for (i = 0; i < 500; i++)
		ASSERT_EQ(0, launch_full(&self->x, args, i % 3 ? 8 : sizeof(args)));
	EXPECT_EQ(-EAGAIN, launch_full(&self->x, args, 8));
	EXPECT_EQ(-EAGAIN, drv()->stream->prepare(&self->x.s->base));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	/* taken is not completed */
	EXPECT_EQ(-EAGAIN, launch_full(&self->x, args, 8));
	fake_complete(self->x.q);
	EXPECT_EQ(0, launch_full(&self->x, args, sizeof(args)));
	EXPECT_EQ(-EAGAIN, launch_full(&self->x, args, 8));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	fake_complete(self->x.q);
	EXPECT_EQ(0, launch_full(&self->x, args, 8));
	EXPECT_EQ(0, launch_full(&self->x, args, 8));
	EXPECT_EQ(-EAGAIN, launch_full(&self->x, args, 8));
}

/* A queue that the device has given up says that all is done. */
TEST_F(ring, broken_queue)
{
	self->x.q->header->timeline = (1ull << 63) - 1;
	EXPECT_EQ(0, launch_full(&self->x, NULL, 0));
}

/* Data that looks like the number of each task to come, and like links to them. */
static void disguise(uint64_t *args, uint32_t words, uint64_t seq)
{
	uint32_t i;

	for (i = 0; i < words; i++)
		args[i] = (seq + 1 + i / 8) | (i / 8 % 2 ? SIMNPU_SEQ_LINK : 0);
}

/* Takes a task and compares it with what was submitted. */
static bool take_disguised(struct fake_queue *q, struct simnpu_desc *task, uint64_t seq)
{
	uint64_t want[512];
	uint32_t words;

	if (fake_take(q, task) != 1 || task->seq != seq)
		return false;
	words = task->launch.args_size / 8;
	disguise(want, words, seq);
	return !memcmp(want, words > 3 ? (void *)&task[1] : (void *)task->launch.args, words * 8);
}

/*
 * Tasks of all sizes at random, a device that takes them at random: it must see
 * each of them once, whole, and nothing else.
 */
static bool random_tasks(struct side *x, uint32_t words_max, uint32_t lag)
{
	uint64_t args[512], rng = 12345, taken = x->seq, behind;
	struct simnpu_desc task[65];
	uint32_t i, words;

	for (i = 0; i < 60000; i++) {
		rng = rng * 6364136223846793005u + 1442695040888963407u;
		words = (rng >> 33) % 4 ? (rng >> 40) % 4 : (rng >> 40) % (words_max + 1);
		disguise(args, words, x->seq);
		if (launch_full(x, args, words * 8))
			return false;
		/* for a while it is at our heels, for a while it lags behind */
		behind = i / 1000 % 2 ? (rng >> 50) % lag : (rng >> 50) % 3;
		while (x->seq - taken > behind)
			if (!take_disguised(x->q, task, taken++))
				return false;
		/* caught up: whatever lies there is no task */
		if (taken == x->seq && fake_take(x->q, task))
			return false;
		if (rng >> 62)
			fake_complete(x->q);
	}
	return true;
}

TEST_F(ring, random_large_rings)
{
	EXPECT_TRUE(random_tasks(&self->x, 512, 700));
	EXPECT_EQ(SIMNPU_SEGMENT_MAX, self->x.q->slots);
	EXPECT_LT(100, self->x.q->links);
}

TEST_F(ring, random_small_rings)
{
	EXPECT_TRUE(random_tasks(&self->x, 40, 10));
	EXPECT_GE(256, self->x.q->slots);
	EXPECT_LT(500, self->x.q->links);
}

TEST_F(ring, a_fence_where_it_is_needed)
{
	struct side y = { .dev = self->x.dev };

	EXPECT_EQ(0, self->x.s->ring.care & SIMNPU_RING_FENCE);
	fake.context_result = SIMNPU_CONTEXT_FENCE;
	ASSERT_EQ(0, context_up(&y));
	ASSERT_EQ(0, stream_up(&y, 1));
	EXPECT_EQ(SIMNPU_RING_FENCE, y.s->ring.care & SIMNPU_RING_FENCE);
	y.q->header->doorbell = 1;
	EXPECT_EQ(1, launch(&y, NULL, 0));
	stream_down(&y);
	context_down(&y);
}

TEST_HARNESS_MAIN
