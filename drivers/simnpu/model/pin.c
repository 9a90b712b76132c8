// SPDX-License-Identifier: MIT
/*
 * Host memory that is locked in RAM. The system does not count how often a page is locked, so what
 * several have locked stays so until the last of them lets it go.
 */
#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/simnpu_test.h"

/* Protects: the list of all that is locked, or about to be; held while pages are unlocked. */
static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hal_list pinned = { &pinned, &pinned };

/* Whether somebody has the page locked; *next: up to where that holds, or where it ends to. */
static bool is_pinned_locked(uintptr_t at, uintptr_t *next)
{
	const struct hal_list *n;
	uintptr_t start, end;

	hal_list_for_each(n, &pinned) {
		const struct model_mem *m = container_of(n, const struct model_mem, pin);

		start = (uintptr_t)m->host;
		end = start + hal_align_up(m->size, MODEL_PAGE);
		if (at >= start && at < end) {
			*next = end < *next ? end : *next;
			return true;
		}
		if (at < start && start < *next)
			*next = start;
	}
	return false;
}

static void let_go(struct model_mem *mem, bool unlock)
{
	uintptr_t at = (uintptr_t)mem->host, end = at + hal_align_up(mem->size, MODEL_PAGE), next;

	pthread_mutex_lock(&pin_lock);
	hal_list_del(&mem->pin);
	for (; unlock && at < end; at = next) {
		next = end;
		if (!is_pinned_locked(at, &next))
			hal_sys_munlock((void *)at, next - at);
	}
	pthread_mutex_unlock(&pin_lock);
}

/**
 * model_pin() - lock host memory in RAM
 * @mem: the memory; host and size are set, locked says afterwards whether it is
 *
 * Return: 0, also if it could not be locked; -EFAULT: it is not all there, and nothing is locked.
 */
int model_pin(struct model_mem *mem)
{
	uint64_t size = hal_align_up(mem->size, MODEL_PAGE);
	bool there;

	/* before its pages are locked: who unlocks some of them meanwhile leaves these */
	pthread_mutex_lock(&pin_lock);
	hal_list_add_tail(&pinned, &mem->pin);
	pthread_mutex_unlock(&pin_lock);
	mem->locked = !model_fault(SIMNPU_FAIL_LOCK) && !hal_sys_mlock(mem->host, size);
	if (mem->locked)
		return 0;
	/* the system locks up to where it is not */
	there = !mem->registered || model_readable((uintptr_t)mem->host, size);
	let_go(mem, !there);
	return there ? 0 : -EFAULT;
}

/* The opposite. */
void model_unpin(struct model_mem *mem)
{
	if (mem->locked)
		let_go(mem, true);
	mem->locked = false;
}
