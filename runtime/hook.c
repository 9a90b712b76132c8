// SPDX-License-Identifier: MIT
/*
 * Hooks: functions called at the end of an initialisation, and around waits.
 */
#include <stdlib.h>

#include "runtime/internal.h"

/* ---- initialisation ------------------------------------------------------------ */

static void append_locked(struct rt_hook *h)
{
	*rt.hooks_end = h;
	rt.hooks_end = &h->next;
}

/* Calls the hooks in order, those that hooks register included. Only one thread does so. */
int rt_hooks_run(void)
{
	struct rt_hook *h;
	int rc;

	pthread_mutex_lock(&rt.lock);
	h = rt.hooks;
	while (h) {
		pthread_mutex_unlock(&rt.lock);
		rc = h->fn(h->arg);
		if (rc) {
			hal_fail(rc, "init", "hook %p returned %d (%s)",
				 (void *)(uintptr_t)h->fn, rc, npu_error_name(rc));
			return rc;
		}
		pthread_mutex_lock(&rt.lock);
		h = h->next;
	}
	pthread_mutex_unlock(&rt.lock);
	return 0;
}

/* While another thread initialises, wait: whether to call at once is known then. */
static bool call_at_once_locked(void)
{
	while (hal_load_relaxed(&rt.state) == NPU_STATE_INITIALIZING &&
	       hal_load_relaxed(&rt.owner) != rt_self())
		pthread_cond_wait(&rt.cond, &rt.lock);
	return hal_load_relaxed(&rt.state) == NPU_STATE_READY;
}

NPU_API int npu_hook_init(int (*fn)(void *arg), void *arg)
{
	struct rt_hook *h;
	bool now;
	int err;

	if (!fn)
		return hal_fail(-EINVAL, "hook_init", "the function is NULL");
	err = rt_gone("hook_init");
	if (err)
		return err;
	h = hal_zalloc(sizeof(*h));
	if (!h)
		return hal_fail(-ENOMEM, "hook_init", "no memory");
	h->fn = fn;
	h->arg = arg;
	pthread_mutex_lock(&rt.lock);
	now = call_at_once_locked();
	if (!now)
		append_locked(h);
	pthread_mutex_unlock(&rt.lock);
	if (!now)
		return 0;

	err = fn(arg);
	if (err) {
		free(h);
		return hal_fail(err, "hook_init", "the hook returned %d (%s)", err,
				npu_error_name(err));
	}
	pthread_mutex_lock(&rt.lock);
	append_locked(h);
	pthread_mutex_unlock(&rt.lock);
	return 0;
}

/* ---- waits --------------------------------------------------------------------- */

/* Protects: sync_hooks, and changes of rt.sync_hook. */
static pthread_mutex_t sync_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_sync_hook *sync_hooks;		/* all there ever were: readers take no lock */

/* The record of a function and argument, kept for ever. */
static struct rt_sync_hook *sync_hook_locked(npu_sync_fn *fn, void *arg)
{
	struct rt_sync_hook *h;

	for (h = sync_hooks; h; h = h->next)
		if (h->fn == fn && h->arg == arg)
			return h;
	h = hal_zalloc(sizeof(*h));
	if (!h)
		return NULL;
	h->fn = fn;
	h->arg = arg;
	h->next = sync_hooks;
	sync_hooks = h;
	return h;
}

NPU_API int npu_hook_sync(npu_sync_fn *fn, void *arg)
{
	struct rt_sync_hook *h = NULL;
	int err = 0;

	pthread_mutex_lock(&sync_lock);
	if (fn && hal_load_relaxed(&rt.sync_hook)) {
		err = hal_fail(-EBUSY, "hook_sync", "there is another function");
	} else if (fn) {
		h = sync_hook_locked(fn, arg);
		if (!h)
			err = hal_fail(-ENOMEM, "hook_sync", "no memory");
	}
	if (!err)
		hal_store_release(&rt.sync_hook, h);
	pthread_mutex_unlock(&sync_lock);
	return err;
}

void rt_sync_begin(enum npu_sync_kind kind, uint64_t handle)
{
	struct rt_sync_hook *h = hal_load_acquire(&rt.sync_hook);

	if (unlikely(h))
		h->fn(kind, handle, 0, 0, h->arg);
}

void rt_sync_end(enum npu_sync_kind kind, uint64_t handle, int result)
{
	struct rt_sync_hook *h = hal_load_acquire(&rt.sync_hook);

	if (unlikely(h))
		h->fn(kind, handle, 1, result, h->arg);
}

void rt_sync_lock(void)
{
	pthread_mutex_lock(&sync_lock);
}

void rt_sync_unlock(void)
{
	pthread_mutex_unlock(&sync_lock);
}
