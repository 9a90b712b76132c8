// SPDX-License-Identifier: MIT
/*
 * Release callbacks: what is called when the library is finalized.
 */
#include <stdlib.h>

#include "runtime/internal.h"

#define PRIORITIES (NPU_RELEASE_LAST + 1)

/* Protects: lists, serial. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_hook *lists[PRIORITIES];	/* in order of registration */
static uint64_t serial;

void rt_lists_lock(void)
{
	pthread_mutex_lock(&lock);
}

void rt_lists_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

NPU_API int npu_release_register(int (*fn)(void *arg), void *arg, int priority)
{
	struct rt_hook *h, **end;
	int err;

	if (!fn)
		return hal_fail(-EINVAL, "release_register", "the function is NULL");
	if (priority < NPU_RELEASE_FIRST || priority > NPU_RELEASE_LAST)
		return hal_fail(-EINVAL, "release_register", "priority %d is not 0 to %d",
				priority, NPU_RELEASE_LAST);
	if (rt_state() != NPU_STATE_FINALIZING) {
		err = rt_gone("release_register");
		if (err)
			return err;
	}
	h = hal_zalloc(sizeof(*h));
	if (!h)
		return hal_fail(-ENOMEM, "release_register", "no memory");
	h->fn = fn;
	h->arg = arg;
	rt_lists_lock();
	h->serial = serial++;
	for (end = &lists[priority]; *end; end = &(*end)->next)
		;
	*end = h;
	rt_lists_unlock();
	return 0;
}

NPU_API int npu_release_unregister(int (*fn)(void *arg), void *arg)
{
	struct rt_hook **p, **newest = NULL, *h = NULL;
	int i;

	if (!fn)
		return hal_fail(-EINVAL, "release_unregister", "the function is NULL");
	rt_lists_lock();
	for (i = 0; i < PRIORITIES; i++)
		for (p = &lists[i]; *p; p = &(*p)->next)
			if ((*p)->fn == fn && (*p)->arg == arg &&
			    (!newest || (*p)->serial > (*newest)->serial))
				newest = p;
	if (newest) {
		h = *newest;
		*newest = h->next;
	}
	rt_lists_unlock();
	if (!h)
		return hal_fail(-ENOENT, "release_unregister", "it is not registered");
	free(h);
	return 0;
}

/* Takes the one that is due out of the lists. */
static struct rt_hook *take_first(void)
{
	struct rt_hook *h = NULL;
	int i;

	rt_lists_lock();
	for (i = 0; i < PRIORITIES && !h; i++) {
		h = lists[i];
		if (h)
			lists[i] = h->next;
	}
	rt_lists_unlock();
	return h;
}

/* Calls all, those registered meanwhile included; what one returns does not stop the rest. */
void rt_release_run(void)
{
	struct rt_hook *h;
	int rc;

	while ((h = take_first())) {
		rc = h->fn(h->arg);
		if (rc)
			hal_warn(HAL_LOG_RUNTIME, "release callback %p returned %d (%s)",
				 (void *)(uintptr_t)h->fn, rc, npu_error_name(rc));
		free(h);
	}
}
