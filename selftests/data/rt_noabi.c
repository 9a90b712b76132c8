// SPDX-License-Identifier: MIT
/*
 * A shared object that is no module: it does not say which ABI it is made for.
 */
#include <npu/simnpu_kernel.h>

NPU_SIMNPU_KERNEL(rt_nothing)
{
	(void)blk;
	(void)args;
}
