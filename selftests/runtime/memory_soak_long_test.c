// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory_soak_test for minutes.
 */
#define SOAK_OPS 10000000
#include "selftests/runtime/memory_soak_test.c"
