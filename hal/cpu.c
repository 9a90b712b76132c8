// SPDX-License-Identifier: MIT
/*
 * What the processor has. The compiler's own function for that knows all there is, and is 5 KiB.
 */
#include "hal/cpu.h"

#ifdef __x86_64__
#include <cpuid.h>

/* Parts of the registers' state that the system keeps. */
#define STATE_AVX 0x06u
#define STATE_AVX512 0xe6u

/* A bit of leaf 7, ebx, where the system keeps that state. */
static bool has(unsigned int bit, unsigned int state)
{
	unsigned int a, b, c, d, kept, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return false;
	__asm__ ("xgetbv" : "=a" (kept), "=d" (high) : "c" (0));
	if ((kept & state) != state || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return false;
	return b & bit;
}

bool hal_cpu_avx2(void)
{
	return has(bit_AVX2, STATE_AVX);
}

bool hal_cpu_avx512f(void)
{
	return has(bit_AVX512F, STATE_AVX512);
}

bool hal_cpu_amd(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx &&
	       c == signature_AMD_ecx && d == signature_AMD_edx;
}
#else
bool hal_cpu_avx2(void)
{
	return false;
}

bool hal_cpu_avx512f(void)
{
	return false;
}

bool hal_cpu_amd(void)
{
	return false;
}
#endif
