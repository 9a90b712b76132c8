// SPDX-License-Identifier: MIT
/*
 * Kernels for tests and measurements: "nop", "inc_u64", "delay_ns".
 */
#include "drivers/simnpu/kernels/kernels.h"
#include "hal/base.h"
#include "hal/sys.h"

NPU_SIMNPU_KERNEL(nop)
{
	(void)args;
	if (blk->args_size)
		npu_simnpu_refuse(blk);
}

NPU_SIMNPU_KERNEL(inc_u64)
{
	const struct npu_simnpu_inc_args *p = args;
	uint64_t *word;

	if (blk->args_size != sizeof(*p)) {
		npu_simnpu_refuse(blk);
		return;
	}
	word = simnpu_out(blk, p->addr, 1, uint64_t);
	if (word && blk->index == 0)
		*word += p->by;
}

NPU_SIMNPU_KERNEL(delay_ns)
{
	const struct npu_simnpu_delay_args *p = args;
	uint64_t start;

	if (blk->args_size != sizeof(*p)) {
		npu_simnpu_refuse(blk);
		return;
	}
	start = hal_sys_now();
	while (hal_sys_now() - start < p->ns && !npu_simnpu_stopped(blk))
		hal_cpu_relax();
}
