// SPDX-License-Identifier: GPL-2.0-only
/* The faults that fault_step_test leaves out, for those who have more time. */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/step_faults.h"

FAULT_TEST(a_task_hangs, "device,dev=0,do=hang,ns=100000", -ETIME, false)
FIRST_FAULT_TEST(a_task_hangs_at_first, "device,dev=0,do=hang,ns=100000", -ETIME, false)
FIRST_FAULT_TEST(it_is_gone_at_first, "device,dev=0,do=gone", -ENODEV, false)
FIRST_FAULT_TEST(memory_is_hit_at_first, "task,dev=0,do=ecc", -EHWPOISON, false)
FAULT_TEST(no_sign_of_life, "device,dev=0,do=heartbeat", -EREMOTEIO, false)
FAULT_TEST(all_are_plugged_elsewhere, "device,dev=0,do=reorder", -ENODEV, false)
FAULT_TEST(the_link_of_the_other_fails, "device,dev=1,do=link", -ENOLINK, false)
FAULT_TEST(the_other_is_gone, "device,dev=1,do=gone", -ENODEV, false)
FAULT_TEST(memory_is_corrected, "device,do=ecc1", 0, true)
FAULT_TEST(a_task_is_held_up, "task,do=stall,ns=100000", 0, true)
FAULT_TEST(a_task_is_stuck, "task,do=stuck,ns=100000", 0, true)
FAULT_TEST(a_task_is_done_late, "task,do=late,ns=100000", 0, true)
FAULT_TEST(an_ioctl_is_held_up, "ioctl:any,do=stall,ns=100000", 0, true)
FAULT_TEST(an_ioctl_is_late, "ioctl:any,do=late,ns=100000", 0, true)

TEST_HARNESS_MAIN
