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

/* Sets the word at the address, so that one sees that it runs. */
static void begun(struct npu_simnpu_block *blk, uint64_t addr)
{
	uint64_t *word = npu_simnpu_write(blk, addr, sizeof(*word));

	if (word)
		__atomic_store_n(word, 1, __ATOMIC_RELAXED);
}

/* Sets the word at the address, and never ends, whoever asks. */
NPU_SIMNPU_KERNEL(hang)
{
	volatile uint32_t *index = &blk->index;
	const uint64_t *addr = args;

	begun(blk, *addr);
	while (*index != UINT32_MAX)
		;
}

/* Sets the word behind the address; until the word at it is not 0, or it is told to stop. */
NPU_SIMNPU_KERNEL(wait_u64)
{
	const uint64_t *addr = args;
	const uint64_t *word = npu_simnpu_read(blk, *addr, sizeof(*word));

	begun(blk, *addr + sizeof(*word));
	while (word && !npu_simnpu_stopped(blk) && !__atomic_load_n(word, __ATOMIC_RELAXED))
		;
}
