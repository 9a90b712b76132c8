/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shows whether a copy of the kselftest harness counts as the tests rely on:
 * scripts/fetch-kselftest.sh compares the output.
 */
#include <signal.h>
#include <unistd.h>

#include <kselftest_harness.h>

TEST(passes)
{
	ASSERT_EQ(0, 0);
}

TEST(fails)
{
	EXPECT_EQ(0, 1);
}

TEST(skips)
{
	SKIP(return, "a reason");
}

TEST_SIGNAL(dies, SIGKILL)
{
	kill(getpid(), SIGKILL);
}

FIXTURE(fix)
{
	int member;
};

FIXTURE_SETUP(fix)
{
	self->member = 1;
}

FIXTURE_TEARDOWN(fix)
{
}

TEST_F_TIMEOUT(fix, hangs, 1)
{
	while (self->member)
		pause();
}

TEST_HARNESS_MAIN
