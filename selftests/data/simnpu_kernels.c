// SPDX-License-Identifier: MIT
/* Kernels in a file, for the tests of the simulated device. */
#include <npu/simnpu_kernel.h>
#include <npu/simnpu_ops.h>

NPU_SIMNPU_MODULE();

NPU_SIMNPU_KERNEL(add_u64)
{
	const struct npu_simnpu_inc_args *p = args;
	uint64_t *word = npu_simnpu_write(blk, p->addr, sizeof(*word));

	if (word && !blk->index)
		*word += p->by;
}

/* Never ends, whoever asks. */
NPU_SIMNPU_KERNEL(hang)
{
	volatile uint32_t *index = &blk->index;

	(void)args;
	while (*index != UINT32_MAX)
		;
}

/* Runs until the word at the address is not 0, or until it is told to stop. */
NPU_SIMNPU_KERNEL(wait_u64)
{
	const uint64_t *addr = args;
	const uint64_t *word = npu_simnpu_read(blk, *addr, sizeof(*word));

	while (word && !npu_simnpu_stopped(blk) && !__atomic_load_n(word, __ATOMIC_RELAXED))
		;
}
