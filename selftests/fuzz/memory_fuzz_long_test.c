// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory_fuzz_test for hours.
 */
#define MEM_FUZZ_OPS 10000000
#include "selftests/fuzz/memory_fuzz_test.c"
