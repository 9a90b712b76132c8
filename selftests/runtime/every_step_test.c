// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function with a failure at its first step, its second, and so on
 * until it comes through without one. A step is a call through the system-call
 * seam or of a device's node. After each: the record says what was returned,
 * nothing is left behind, the next call works.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/step_warm.h"

/* Each exported function has a call; a new one is not forgotten. */
TEST_F(steps, all_functions)
{
	self->count = 1;
	EXPECT_EQ(0, table_differs_from_map());
}

TEST_F_TIMEOUT(steps, one_fails, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 0, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, one_fails_for_want_of_memory, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 1, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, one_finds_the_device_gone, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 2, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, interrupted, 120)
{
	EXPECT_EQ(0, try_warm(STEP_AGAIN, 0, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, busy, 120)
{
	EXPECT_EQ(0, try_warm(STEP_AGAIN, 1, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, nothing_to_be_had, 120)
{
	EXPECT_EQ(0, try_warm(STEP_DRY, 0, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, the_device_keeps_what_it_has, 120)
{
	EXPECT_EQ(0, try_warm(STEP_LEFT, 0, STEP_MINE, &self->count));
}

TEST_F_TIMEOUT(steps, the_device_finds_no_memory, 120)
{
	uint32_t what, wrong = 0;

	for (what = SIMNPU_FAIL_MEMORY; what <= SIMNPU_FAIL_THREAD; what++)
		wrong += try_warm(STEP_ALLOC, what, STEP_MINE, &self->count);
	EXPECT_EQ(0, wrong);
}

TEST_F_TIMEOUT(steps, a_task_fails, 120)
{
	EXPECT_EQ(0, try_warm(STEP_TASK, 0, STEP_MINE, &self->count));
}

TEST_HARNESS_MAIN
