// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the processor has: what the compiler's own function says.
 */
#include "selftests/npu_kselftest.h"

#include "hal/cpu.h"

TEST(as_the_compiler_says)
{
#ifdef __x86_64__
	EXPECT_EQ(!!__builtin_cpu_supports("avx2"), hal_cpu_avx2());
	EXPECT_EQ(!!__builtin_cpu_supports("avx512f"), hal_cpu_avx512f());
	EXPECT_EQ(!!__builtin_cpu_is("amd"), hal_cpu_amd());
#else
	EXPECT_FALSE(hal_cpu_avx2());
	EXPECT_FALSE(hal_cpu_avx512f());
	EXPECT_FALSE(hal_cpu_amd());
#endif
}

TEST_HARNESS_MAIN
