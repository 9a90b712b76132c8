// SPDX-License-Identifier: MIT
/*
 * A lock for what one thread uses most of the time.
 */
#include <sched.h>
#include <time.h>

#include "hal/sys.h"
#include "runtime/bias.h"

/* How often in a row a thread has to have it, at first and at most. */
#define PATIENCE 64u
#define PATIENCE_MAX (1u << 20)
/* How often it is looked whether the owner is still inside before others may run. */
#define SPINS 100u
/* A store has left its processor long before that. */
#define NAP_NS 1000000

/* Whether the system has such a barrier: 0 not known yet, 1 yes, 2 no. */
static _Atomic uint32_t asymmetric;

static bool can(void)
{
	uint32_t a = hal_load_relaxed(&asymmetric);

	if (!a) {
		a = hal_sys_membarrier() ? 2 : 1;
		hal_store_relaxed(&asymmetric, a);
	}
	return a == 1;
}

/* Without the lock, which nobody takes while @revoking is set: waits until no owner is inside. */
static void settle(struct rt_bias *l)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint32_t i;

	/* who looks from now on whether he is the owner sees that he is not */
	if (hal_sys_membarrier())
		nanosleep(&nap, NULL);
	/* it is gone in no time, unless it has lost its processor */
	for (i = 0; hal_load_acquire(&l->inside); i++)
		i < SPINS ? hal_cpu_relax() : (void)sched_yield();
}

/* With the lock, which it gives up meanwhile: nobody is the owner any more. */
static void revoke(struct rt_bias *l)
{
	l->revoking = true;
	hal_store_release(&l->owner, 0);
	hal_spin_unlock(&l->lock);
	settle(l);
	hal_spin_lock(&l->lock);
	l->revoking = false;
	l->fast = false;
	l->streak = 0;
	if (l->patience < PATIENCE_MAX)
		l->patience *= 4;
}

void rt_bias_lock_slow(struct rt_bias *l, uintptr_t self)
{
	hal_spin_lock(&l->lock);
	while (l->revoking) {
		hal_spin_unlock(&l->lock);
		sched_yield();
		hal_spin_lock(&l->lock);
	}
	if (hal_load_relaxed(&l->owner))
		revoke(l);
	if (l->last != self) {
		l->last = self;
		l->streak = 0;
	}
}

void rt_bias_unlock_slow(struct rt_bias *l)
{
	uintptr_t self = l->last;
	bool lean = false;

	if (!l->patience)
		l->patience = PATIENCE;
	if (++l->streak >= l->patience) {
		l->streak = 0;
		lean = true;
	}
	hal_spin_unlock(&l->lock);
	/* the barrier is asked for without the lock */
	if (!lean || !can())
		return;
	hal_spin_lock(&l->lock);
	if (l->last == self && !l->revoking && !hal_load_relaxed(&l->owner)) {
		l->fast = true;
		hal_store_release(&l->owner, self);
	}
	hal_spin_unlock(&l->lock);
}
