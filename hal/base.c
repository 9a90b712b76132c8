// SPDX-License-Identifier: MIT
/*
 * The slow side of the submit lock, and its use under watch.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

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
			if (!hal_load_relaxed(&l->word) &&
			    !atomic_exchange_explicit(&l->word, 1, memory_order_acquire))
				return;
			hal_cpu_relax();
		}
		sched_yield();
	}
}

/* ---- CONFIG_DEBUG_LOCKS ----------------------------------------------------------- */

/* More than this are never held at a time: Documentation/locking.rst. */
#define HELD_MAX 4u

/* A second thread-local variable, for builds that nobody ships. */
static __thread struct {
	const struct hal_spin *lock[HELD_MAX];
	uint32_t n;
} held;

static _Noreturn void die(const void *l, const char *what, const char *where)
{
	fprintf(stderr, "libnpu: spin lock %p %s%s%s\n", l, what, where ? ": " : "",
		where ? where : "");
	abort();
}

static bool holds(const struct hal_spin *l)
{
	uint32_t i;

	for (i = 0; i < held.n; i++)
		if (held.lock[i] == l)
			return true;
	return false;
}

/* The thread is about to wait for the lock. */
void hal_debug_spin_taking(const struct hal_spin *l)
{
	if (holds(l))
		die(l, "taken twice by a thread", NULL);
}

/* The thread has the lock. */
void hal_debug_spin_taken(const struct hal_spin *l)
{
	if (held.n == HELD_MAX)
		die(l, "is one too many for a thread", NULL);
	held.lock[held.n++] = l;
}

/* The thread gives the lock back. */
void hal_debug_spin_given(const struct hal_spin *l)
{
	uint32_t i = held.n;

	if (!holds(l))
		die(l, "given back by a thread that does not hold it", NULL);
	while (held.lock[--i] != l)
		;
	held.lock[i] = held.lock[--held.n];
}

/* The thread needs the lock. */
void hal_debug_spin_held(const struct hal_spin *l, const char *where)
{
	if (!holds(l))
		die(l, "is not held", where);
}

/* The thread may hold no spin lock. */
void hal_debug_may_block(const char *where)
{
	if (held.n)
		die(held.lock[0], "is held by a thread that may block", where);
}
