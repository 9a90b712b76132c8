/* SPDX-License-Identifier: MIT */
/*
 * What every task passes: small functions, inline.
 */
#ifndef DRIVERS_SIMNPU_MODEL_HOT_H
#define DRIVERS_SIMNPU_MODEL_HOT_H

#include "drivers/simnpu/model/model.h"

/**
 * model_token_get() - take a token
 * @dev: the device
 * @class: of what
 * @token: out: which
 *
 * Return: false: none is free.
 */
static inline bool model_token_get(struct model_device *dev, enum model_class class,
				   uint32_t *token)
{
	struct model_token *t = dev->tokens[class];
	uint32_t n = class == CLASS_CORE ? dev->cores : dev->dma;
	uint32_t i;

	for (i = 0; i < n; i++) {
		/* acquire: what the holder before left in the core is seen */
		if (!hal_load_relaxed(&t[i].taken) &&
		    !atomic_exchange_explicit(&t[i].taken, 1, memory_order_acquire)) {
			*token = i;
			return true;
		}
	}
	return false;
}

/* Gives a token back. Who finds none, looks again after a nap at the latest. */
static inline void model_token_put(struct model_device *dev, enum model_class class,
				   uint32_t token)
{
	hal_store_release(&dev->tokens[class][token].taken, 0);
}

/* Free tokens, about. */
static inline uint32_t model_tokens_free(struct model_device *dev, enum model_class class)
{
	uint32_t n = class == CLASS_CORE ? dev->cores : dev->dma;
	uint32_t i, free = 0;

	for (i = 0; i < n; i++)
		free += !hal_load_relaxed(&dev->tokens[class][i].taken);
	return free;
}

/* Gives back the token that a worker holds. */
static inline void model_worker_drop(struct model_worker *w)
{
	if (w->class != CLASS_CONTROL)
		model_token_put(w->dev, w->class, w->token);
	w->class = CLASS_CONTROL;
}

/* What a copy of a kind needs a token of. */
static inline enum model_class model_xfer_class(uint32_t kind)
{
	switch (kind) {
	case SIMNPU_COPY_TO_DEVICE:
		return CLASS_H2D;
	case SIMNPU_COPY_TO_HOST:
		return CLASS_D2H;
	default:
		return CLASS_D2D;
	}
}

/* What the task at a descriptor needs a token of. */
static inline enum model_class model_op_class(const struct simnpu_desc *d)
{
	switch (d->op) {
	case SIMNPU_OP_LAUNCH:
		return CLASS_CORE;
	case SIMNPU_OP_COPY:
		return model_xfer_class(d->copy.kind);
	case SIMNPU_OP_COPY_2D:
		return model_xfer_class(d->copy_2d.kind);
	case SIMNPU_OP_FILL:
		return CLASS_D2D;
	default:
		return CLASS_CONTROL;
	}
}

/* The kernel of a number, or NULL. */
static inline struct model_kernel *model_kernel_find(struct model_device *dev, uint64_t id)
{
	uint32_t i = (uint32_t)id;
	struct model_kernel *chunk;

	if (unlikely(i >= 256u * 256u))
		return NULL;
	chunk = hal_load_acquire(&dev->kernels[i / 256]);
	if (unlikely(!chunk || !id || hal_load_acquire(&chunk[i % 256].id) != id))
		return NULL;
	return &chunk[i % 256];
}

/*
 * Takes a queue out of where it is the caller's to take: a list, or under a lock. A barrier, as
 * the claim of an idle one is: who waits and does not see it being run is seen by who runs it.
 */
static inline void model_take(struct model_queue *q)
{
	atomic_exchange(&q->run, RUN_RUNNING);
}

/**
 * model_release() - give a claimed queue back
 * @q: the queue; not to be touched afterwards
 *
 * One that waits notes its number, and looks whether the queue is being run; as
 * long as it seems so, it makes all processors pass a barrier, and looks at the
 * timeline again. Where that can't be had, the barrier is passed here.
 */
static inline void model_release(struct model_queue *q)
{
	uint64_t done = hal_load_relaxed(&q->next_seq) - 1;
	uint64_t uid = hal_load_relaxed(&q->uid);

	if (likely(q->dev->asym)) {
		/* release: what was done with the queue is seen by who claims it next */
		hal_store_release(&q->run, RUN_IDLE);
		/* the compiler must not look first */
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_exchange(&q->run, RUN_IDLE);
	}
	if (unlikely(done >= hal_load_relaxed(&q->wake_seq)))
		model_wake(q, uid, done, NULL);
}

#endif /* DRIVERS_SIMNPU_MODEL_HOT_H */
