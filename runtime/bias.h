/* SPDX-License-Identifier: MIT */
/*
 * A lock for what one thread uses most of the time.
 *
 * It leans to a thread that has taken it many times in a row: that one then takes it by a store and
 * a load. Another thread that wants it takes the privilege away first, with a barrier that all
 * threads pass, and then both take a spin lock, until one of them has it in a row again. As with a
 * spin lock, a holder makes no system call and takes no other lock.
 */
#ifndef RUNTIME_BIAS_H
#define RUNTIME_BIAS_H

#include "hal/base.h"
#include "hal/tls.h"

/**
 * struct rt_bias - the lock; all zero: nobody has it
 * @owner: the thread that it leans to, 0: none
 * @inside: that thread is inside, or looks whether it may be
 * @lock: what the others take, and that thread, once it is not the owner any more
 * @fast: who holds it is the owner; changes while nobody does, under @lock
 * @revoking: a thread takes the privilege away, and nobody else takes @lock for good meanwhile;
 *	under @lock, as those below
 * @last: who had @lock last
 * @streak: how often in a row
 * @patience: how often that has to be; grows with each privilege that was taken away
 */
struct rt_bias {
	_Atomic uintptr_t owner;
	_Atomic uint32_t inside;
	struct hal_spin lock;
	bool fast;
	bool revoking;
	uintptr_t last;
	uint32_t streak;
	uint32_t patience;
};

void rt_bias_lock_slow(struct rt_bias *l, uintptr_t self);
void rt_bias_unlock_slow(struct rt_bias *l);

static inline uintptr_t rt_bias_self(void)
{
	return (uintptr_t)&hal_tls_ptr;
}

/* Takes the lock if it leans to this thread. */
static inline bool rt_bias_try(struct rt_bias *l)
{
	uintptr_t self = rt_bias_self();

	/* relaxed: only this thread makes them equal */
	if (unlikely(hal_load_relaxed(&l->owner) != self))
		return false;
	/*
	 * relaxed: who takes the privilege away makes this thread pass a barrier between the store
	 * and the load, so that one of the two sees the other
	 */
	hal_store_relaxed(&l->inside, 1);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(hal_load_acquire(&l->owner) == self))
		return true;
	hal_store_release(&l->inside, 0);
	return false;
}

/* Gives back what rt_bias_try() took. */
static inline void rt_bias_leave(struct rt_bias *l)
{
	hal_store_release(&l->inside, 0);
}

static inline void rt_bias_lock(struct rt_bias *l)
{
	if (unlikely(!rt_bias_try(l)))
		rt_bias_lock_slow(l, rt_bias_self());
}

static inline void rt_bias_unlock(struct rt_bias *l)
{
	if (likely(l->fast))
		rt_bias_leave(l);
	else
		rt_bias_unlock_slow(l);
}

#endif /* RUNTIME_BIAS_H */
