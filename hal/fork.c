// SPDX-License-Identifier: MIT
/*
 * Forks.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "hal/error.h"
#include "hal/fork.h"
#include "hal/internal.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Static_assert(sizeof(struct hal_fork_state) == HAL_FORK_PAGE, "a page of its own");

struct hal_fork_state hal_fork_state __attribute__((aligned(HAL_FORK_PAGE)));

/* From hal_fork_arm() to hal_fork_disarm(); a child inherits it. */
static _Atomic uint32_t armed;

/* Protects: handler_set, and arming against disarming. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool handler_set;

/* In the child, where no other thread is; only async-signal-safe calls. */
static void in_child(void)
{
	hal_store_relaxed(&hal_fork_state.ready, 0);
	hal_store_relaxed(&hal_fork_state.mine, 0);
	if (!hal_load_relaxed(&armed))
		return;
	hal_driver_fork_child();
}

static int set_up_locked(void)
{
	int rc;

	if (handler_set)
		return 0;
	rc = pthread_atfork(NULL, NULL, in_child);
	if (rc)
		return -rc;
	handler_set = true;
	if (hal_sys_madvise(&hal_fork_state, sizeof(hal_fork_state), MADV_WIPEONFORK))
		hal_info(HAL_LOG_CORE, "this system does not wipe pages in children of a fork");
	return 0;
}

/**
 * hal_fork_arm() - from now on a fork makes a child that must not use what we made
 *
 * Return: 0, -ENOMEM.
 */
int hal_fork_arm(void)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = set_up_locked();
	if (!rc) {
		hal_store_release(&hal_fork_state.mine, 1);
		hal_store_release(&armed, 1);
	}
	pthread_mutex_unlock(&lock);
	if (rc)
		return hal_fail(rc, "driver", "no memory for the handler of forks");
	return 0;
}

/* Nothing is left that a child could hurt. */
void hal_fork_disarm(void)
{
	pthread_mutex_lock(&lock);
	hal_store_release(&armed, 0);
	pthread_mutex_unlock(&lock);
}

/* Whether this is the child of a fork that happened while armed. */
bool hal_forked(void)
{
	return hal_load_acquire(&armed) && !hal_load_acquire(&hal_fork_state.mine);
}
