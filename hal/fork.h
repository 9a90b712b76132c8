/* SPDX-License-Identifier: MIT */
/*
 * Forks. A few words lie in a page that is wiped in the child of a fork; a
 * pthread_atfork() handler clears them as well, for emulators that do not wipe.
 * So the one word that every entry reads says "ready" and "not a child" at once.
 */
#ifndef HAL_FORK_H
#define HAL_FORK_H

#include "hal/base.h"

/* What the page is aligned to: a multiple of every page size of the machine. */
#if defined(__x86_64__) || defined(__i386__)
#define HAL_FORK_PAGE 4096
#else
#define HAL_FORK_PAGE 65536
#endif

/**
 * struct hal_fork_state - the page
 * @ready: nonzero: whoever owns the process's life says calls may go on; hal only keeps it
 * @mine: nonzero from the first hal_fork_arm() on, but not in a child until it arms itself. It
 *	never goes back to zero in the process that set it, so whoever asks needs no lock
 * @pad: the rest of the page
 */
struct hal_fork_state {
	_Atomic uint32_t ready;
	_Atomic uint32_t mine;
	char pad[HAL_FORK_PAGE - 2 * sizeof(uint32_t)];
};

extern struct hal_fork_state hal_fork_state;

/* One load. Acquire: whoever sees it set sees what was set up before. */
static inline bool hal_ready(void)
{
	return hal_load_acquire(&hal_fork_state.ready) != 0;
}

static inline void hal_ready_set(bool ready)
{
	hal_store_release(&hal_fork_state.ready, ready);
}

/**
 * hal_fork_arm() - from now on a fork makes a child that must not use what we made
 *
 * Context: may be called again. The first one makes the page, and registers the handler that
 * also calls the drivers' ->fork_child, where we are armed.
 * Return: 0, -ENOMEM.
 */
int hal_fork_arm(void);
/* Nothing is left that a child could hurt. */
void hal_fork_disarm(void);
/* Whether this is the child of a fork that happened while armed. Takes no lock. */
bool hal_forked(void);

#endif /* HAL_FORK_H */
