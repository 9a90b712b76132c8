// SPDX-License-Identifier: MIT
/*
 * Pages of a mapped file that are not there any more.
 *
 * A file that shrinks while it is mapped, or a disk that fails, is a SIGBUS for
 * whoever reads the mapping: the engine's thread or one of the device's. The handler
 * puts a page of zeros in the place, and notes that it did: what was copied is
 * thrown away then, and read anew in a way that tells what is wrong.
 *
 * The handler is a signal handler: no lock, no allocation. sigaction(2) does not
 * fail for want of anything: it is not in the seam of hal/sys.h.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/file.h"

/* What is watched, and whether something was not there. One thread maps, a range at a time. */
static _Atomic uintptr_t watch_start, watch_end;
static _Atomic bool met;
/* Whose turn is after ours; written before ours can be called. */
static struct sigaction before;

/* To the handler that was there before us, as if we were not. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(sig, info, context);
		return;
	}
	if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(sig);
		return;
	}
	/* a fault can't be ignored; what another process sent can */
	if (info->si_code <= 0 && before.sa_handler == SIG_IGN)
		return;
	sigaction(sig, &dfl, NULL);
	if (info->si_code <= 0)
		raise(sig);	/* it comes when we are done; a fault comes by itself */
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr, page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int err = errno;
	void *p = MAP_FAILED;

	if (info->si_code > 0 && addr >= hal_load_acquire(&watch_start) &&
	    addr < hal_load_acquire(&watch_end)) {
		hal_store_release(&met, true);
		p = mmap((void *)(addr & ~(page - 1)), page, PROT_READ,
			 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	errno = err;
	if (p == MAP_FAILED)
		pass_on(sig, info, context);
}

/* Whether the handler is ours. Once: whoever comes later may pass on to us or not. */
static bool install(void)
{
	struct sigaction now, ours = { .sa_sigaction = on_fault,
				       .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	static bool done;

	if (!done && !sigaction(SIGBUS, NULL, &before)) {
		sigemptyset(&ours.sa_mask);
		done = !sigaction(SIGBUS, &ours, NULL);
	}
	return !sigaction(SIGBUS, NULL, &now) && now.sa_flags & SA_SIGINFO &&
	       now.sa_sigaction == on_fault;
}

/**
 * rt_fault_watch() - bear with pages that are not there
 * @addr: a mapping of a file, NULL: none any more
 * @size: bytes of it
 *
 * Context: the engine's thread.
 * Return: whether that can be done.
 */
bool rt_fault_watch(const void *addr, size_t size)
{
	if (addr && !install())
		return false;
	hal_store_release(&watch_end, 0);
	hal_store_release(&met, false);
	hal_store_release(&watch_start, (uintptr_t)addr);
	hal_store_release(&watch_end, (uintptr_t)addr + size);
	return true;
}

/* Whether some of what is watched was not there. */
bool rt_fault_met(void)
{
	return hal_load_acquire(&met);
}
