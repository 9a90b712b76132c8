// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function with a failure at the first step, the second, and so on, that the
 * library's own threads do for it: engine threads, which run all tasks here, and callback
 * threads. Behind each the same is looked at as behind the steps of the caller.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/step_warm.h"

TEST_F_TIMEOUT(steps, one_fails, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 0, STEP_THEIRS, &self->count));
}

TEST_F_TIMEOUT(steps, one_fails_for_want_of_memory, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 1, STEP_THEIRS, &self->count));
}

TEST_F_TIMEOUT(steps, one_finds_the_device_gone, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 2, STEP_THEIRS, &self->count));
}

TEST_F_TIMEOUT(steps, interrupted, 120)
{
	EXPECT_EQ(0, try_warm(STEP_AGAIN, 0, STEP_THEIRS, &self->count));
}

TEST_F_TIMEOUT(steps, nothing_to_be_had, 120)
{
	EXPECT_EQ(0, try_warm(STEP_DRY, 0, STEP_THEIRS, &self->count));
}

TEST_HARNESS_MAIN
