// SPDX-License-Identifier: MIT
/*
 * A module made for another version of the interface.
 */
#include <npu/simnpu_kernel.h>

__attribute__((visibility("default"))) extern const uint32_t npu_simnpu_kernel_abi;
const uint32_t npu_simnpu_kernel_abi = NPU_SIMNPU_KERNEL_ABI + 1;

NPU_SIMNPU_KERNEL(rt_nothing)
{
	(void)blk;
	(void)args;
}
