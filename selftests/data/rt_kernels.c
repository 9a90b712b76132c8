// SPDX-License-Identifier: MIT
/*
 * Kernels for the tests of modules.
 */
#include <npu/simnpu_kernel.h>

NPU_SIMNPU_MODULE();

struct rt_fill_args {
	uint64_t addr;
	uint64_t n;
	uint32_t value;
	uint32_t pad;
};

/* Sets words; split over blocks. */
NPU_SIMNPU_KERNEL(rt_fill)
{
	const struct rt_fill_args *p = args;
	uint64_t lo = p->n * blk->index / blk->count;
	uint64_t hi = p->n * (blk->index + 1) / blk->count;
	uint32_t *w;
	uint64_t i;

	if (lo == hi)
		return;
	w = npu_simnpu_write(blk, p->addr + lo * sizeof(*w), (hi - lo) * sizeof(*w));
	if (!w)
		return;
	for (i = 0; i < hi - lo; i++)
		w[i] = p->value;
}

/* No kernel, though it is a symbol. */
extern __attribute__((visibility("default"))) uint64_t rt_data[4];
uint64_t rt_data[4] = { 1, 2, 3, 4 };

/* Refuses whatever it is given. */
NPU_SIMNPU_KERNEL(rt_refuse)
{
	(void)args;
	npu_simnpu_refuse(blk);
}
