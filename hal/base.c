// SPDX-License-Identifier: MIT
/*
 * The slow side of the submit lock.
 */
#include <sched.h>

#include "hal/base.h"

#define SPINS 64

/**
 * hal_spin_lock_slow() - take a lock that somebody else holds
 * @l: the lock
 *
 * Looks without writing for a while, as holders need a few dozen instructions;
 * then lets others run, for the holder may have lost its processor.
 */
void hal_spin_lock_slow(struct hal_spin *l)
{
	unsigned int i;

	for (;;) {
		for (i = 0; i < SPINS; i++) {
			/* relaxed: a hint, the exchange below acquires */
			if (!hal_load_relaxed(&l->word) && hal_spin_trylock(l))
				return;
			hal_cpu_relax();
		}
		sched_yield();
	}
}
