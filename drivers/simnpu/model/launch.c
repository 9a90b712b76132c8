// SPDX-License-Identifier: MIT
/*
 * Running kernels on cores.
 */
#include <string.h>

#include "drivers/simnpu/model/hot.h"

#define WORTH_NS 30000u		/* what a launch must take for others to be woken for it */
#define UNKNOWN_NS WORTH_NS

/* A launch of several blocks. */
struct launch {
	struct model_job job;
	const struct model_kernel *kernel;
	const void *args;
	const uint32_t *stop;
	uint32_t args_size;
	uint32_t count;
	_Atomic uint32_t failed;
	_Atomic uint64_t addr;
};

/* The first access that is refused is what the task fails with. */
static void *refuse(struct model_core *c, uint64_t addr, uint32_t code)
{
	if (!c->blk.failed) {
		c->fault_addr = addr;
		c->fault_code = code;
	}
	c->blk.failed = 1;
	return NULL;
}

/* What npu_simnpu_access() calls when a block does not remember a range. */
static void *resolve(struct npu_simnpu_block *blk, uint64_t addr, uint64_t size, uint32_t mode)
{
	struct model_core *c = container_of(blk, struct model_core, blk);
	struct npu_simnpu_range *r = &blk->tlb[blk->tlb_next % NPU_SIMNPU_TLB];
	struct model_memory *m = &c->dev->mem;
	/* before the look-up: what is freed after it makes the entry stale */
	uint64_t epoch = hal_shm_load_acquire(&m->epoch);
	struct hal_range range;
	char *host;
	int rc;

	if (!size || !mode || mode & ~(NPU_SIMNPU_READ | NPU_SIMNPU_WRITE))
		return refuse(c, addr, EFAULT);
	if (unlikely(!model_memory_find(m, addr, size, &host, &range))) {
		/* not remembered: parts of it may be bad, or not all may be done with it */
		rc = mode & NPU_SIMNPU_READ ? model_poison_find(m, addr, size, MODEL_READ, &host)
					    : 0;
		if (!rc && mode & NPU_SIMNPU_WRITE)
			rc = model_poison_find(m, addr, size, MODEL_WRITE, &host);
		return rc ? refuse(c, addr, (uint32_t)-rc) : host;
	}
	blk->tlb_next++;
	r->start = range.start;
	r->end = range.start + range.size;
	r->host = host - (addr - range.start);
	r->epoch = epoch;
	r->mode = NPU_SIMNPU_READ | NPU_SIMNPU_WRITE;
	return host;
}

/* Sets the cores of a device up. */
void model_core_init(struct model_device *dev)
{
	uint32_t i;

	for (i = 0; i < dev->cores; i++) {
		struct model_core *c = &dev->core[i];

		memset(c, 0, sizeof(*c));
		c->dev = dev;
		c->blk.size = sizeof(c->blk);
		c->blk.abi = NPU_SIMNPU_KERNEL_ABI;
		c->fault_code = EFAULT;
		c->blk.core = i;
		c->blk.cores = dev->cores;
		c->blk.epoch = &dev->mem.epoch;
		c->blk.resolve = resolve;
	}
}

static inline bool run_block(struct model_core *c, const struct model_kernel *k, uint32_t index,
			     uint32_t count, const void *args, uint32_t size, const uint32_t *stop)
{
	struct npu_simnpu_block *blk = &c->blk;

	blk->index = index;
	blk->count = count;
	blk->args_size = size;
	blk->failed = 0;
	blk->stop = stop;
	c->fault_addr = 0;
	k->fn(blk, args);
	return !blk->failed;
}

/* What the block that has just run failed with; EFAULT unless an access was refused for more. */
static uint32_t fault_take(struct model_core *c)
{
	uint32_t code = c->fault_code;

	c->fault_code = EFAULT;
	return code;
}

static void launch_block(struct model_job *job, struct model_device *dev, uint32_t token,
			 uint32_t i)
{
	struct launch *l = container_of(job, struct launch, job);
	struct model_core *c = &dev->core[token];
	uint32_t none = 0;

	if (run_block(c, l->kernel, i, l->count, l->args, l->args_size, l->stop))
		return;
	if (atomic_compare_exchange_strong(&l->failed, &none, fault_take(c)))
		hal_store_relaxed(&l->addr, c->fault_addr);
}

/* Return: 0 or a positive errno. */
static __attribute__((noinline)) uint32_t run_blocks(struct model_device *dev, uint32_t token,
						     struct model_queue *q, struct model_kernel *k,
						     uint32_t count, const void *args,
						     uint32_t size, uint64_t *addr)
{
	struct launch l = {
		.job = { .class = CLASS_CORE, .queue = q, .run = launch_block },
		.kernel = k, .args = args, .args_size = size, .count = count,
		.stop = (const uint32_t *)&q->stop,
	};
	uint64_t start = hal_sys_now();
	uint64_t took = hal_load_relaxed(&k->block_ns);

	model_job_run(&l.job, dev, token, count, (took ? took : UNKNOWN_NS) * count >= WORTH_NS);
	took = (hal_sys_now() - start) / count;
	hal_store_relaxed(&k->block_ns, took > UINT32_MAX ? UINT32_MAX : (uint32_t)took + 1);
	if (hal_load_relaxed(&l.failed))
		*addr = hal_load_relaxed(&l.addr);
	return hal_load_relaxed(&l.failed);
}

static inline int run_kernel(struct model_worker *w, struct model_queue *q,
			     struct model_kernel *k, uint32_t count, const void *args,
			     uint32_t size, uint64_t *addr)
{
	struct model_device *dev = w->dev;
	struct model_core *c = &dev->core[w->token];
	uint32_t code = 0;

	if (likely(count == 1)) {
		if (unlikely(!run_block(c, k, 0, 1, args, size, (const uint32_t *)&q->stop))) {
			*addr = c->fault_addr;
			code = fault_take(c);
		}
	} else {
		code = run_blocks(dev, w->token, q, k, count, args, size, addr);
	}
	/* release: who unloads sees that the kernel has returned */
	hal_store_release(&q->kernel, NULL);
	if (unlikely(hal_load_relaxed(&q->stop)))
		return ECANCELED;
	return (int)code;
}

/* Arguments that lie in the slots behind: a copy, so that none changes under the kernel. */
static __attribute__((noinline)) int run_large(struct model_worker *w, struct model_queue *q,
					       struct model_kernel *k,
					       const struct simnpu_desc *d,
					       const struct simnpu_desc *slot, uint64_t *addr)
{
	_Alignas(64) char args[MODEL_ARGS_MAX];

	memcpy(args, slot + 1, d->launch.args_size);
	return run_kernel(w, q, k, d->launch.blocks, args, d->launch.args_size, addr);
}

/**
 * model_launch() - run the launch at a queue's head
 * @w: the worker, with a core's token
 * @q: the queue
 * @d: a copy of the descriptor
 * @slot: the descriptor in the ring
 * @addr: out: the address that was refused
 *
 * Return: 0, a positive errno, or MODEL_TASK_NOT_HERE.
 */
int model_launch(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		 const struct simnpu_desc *slot, uint64_t *addr)
{
	struct model_kernel *k = model_kernel_find(w->dev, d->launch.kernel);
	uint32_t size = d->launch.args_size;
	_Alignas(16) uint64_t args[4];

	if (unlikely(!k))
		return ENOENT;
	if (unlikely(!w->modules && !k->builtin))
		return MODEL_TASK_NOT_HERE;
	if (unlikely(!d->launch.blocks))
		return EINVAL;
	/* who unloads makes the number invalid, passes a barrier everywhere, and looks here */
	hal_store_relaxed(&q->kernel, k);
	if (unlikely(!w->dev->asym))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (unlikely(hal_load_acquire(&k->id) != d->launch.kernel)) {
		hal_store_release(&q->kernel, NULL);
		return ENOENT;
	}
	if (likely(size <= SIMNPU_ARGS_INLINE)) {
		memcpy(args, d->launch.args, SIMNPU_ARGS_INLINE);
		return run_kernel(w, q, k, d->launch.blocks, args, size, addr);
	}
	if (size <= MODEL_ARGS_MAX && size <= d->slots * sizeof(*slot))
		return run_large(w, q, k, d, slot, addr);
	hal_store_release(&q->kernel, NULL);
	return EINVAL;
}
