// SPDX-License-Identifier: GPL-2.0-only
/* A fault of the device at every step of every public function: step_faults.h. */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/step_faults.h"

FAULT_TEST(the_link_fails, "device,dev=0,do=link", -ENOLINK, false)
FIRST_FAULT_TEST(the_link_fails_at_first, "device,dev=0,do=link", -ENOLINK, false)
FAULT_TEST(it_is_gone, "device,dev=0,do=gone", -ENODEV, false)
FAULT_TEST(memory_is_hit, "task,dev=0,do=ecc", -EHWPOISON, false)
FAULT_TEST(a_task_is_done_early, "task,do=early,ns=100000", 0, true)
FAULT_TEST(a_completion_makes_no_sense, "task,do=corrupt", 0, false)

TEST_HARNESS_MAIN
