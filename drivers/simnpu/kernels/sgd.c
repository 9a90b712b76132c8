// SPDX-License-Identifier: MIT
/*
 * "sgd_f32".
 */
#include "drivers/simnpu/kernels/kernels.h"

SIMNPU_INLINE void step_body(float *w, float *v, const float *g,
			     const struct npu_simnpu_sgd_args *p, uint64_t n)
{
	float rate = p->rate, momentum = p->momentum, decay = p->decay;

	SIMNPU_INDEPENDENT
	for (uint64_t j = 0; j < n; j++) {
		v[j] = momentum * v[j] + g[j] + decay * w[j];
		w[j] -= rate * v[j];
	}
}

SIMNPU_CLONES(step, (float *w, float *v, const float *g, const struct npu_simnpu_sgd_args *p,
		     uint64_t n), (w, v, g, p, n))

NPU_SIMNPU_KERNEL(sgd_f32)
{
	const struct npu_simnpu_sgd_args *p = args;
	uint64_t at, hi, n;
	const float *g;
	float *w, *v;

	if (blk->args_size != sizeof(*p) || !p->n || p->pad) {
		npu_simnpu_refuse(blk);
		return;
	}
	w = simnpu_out(blk, p->w, p->n, float);
	v = simnpu_out(blk, p->v, p->n, float);
	g = simnpu_in(blk, p->g, p->n, float);
	if (!w || !v || !g)
		return;
	simnpu_share(blk, p->n, 16, &at, &hi);
	for (; at < hi && !npu_simnpu_stopped(blk); at += n) {
		n = hi - at < SIMNPU_STRIDE ? hi - at : SIMNPU_STRIDE;
		step(w + at, v + at, g + at, p, n);
	}
}
