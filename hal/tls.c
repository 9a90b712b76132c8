// SPDX-License-Identifier: MIT
/*
 * Thread-local state.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hal/sys.h"
#include "hal/tls.h"

#define RESERVE 8

__thread struct hal_tls *hal_tls_ptr;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;
static void (*_Atomic runtime_free)(void *runtime);

/* For threads that ask while there is no memory. */
static struct hal_tls reserve[RESERVE];
static _Atomic uint32_t reserve_taken[RESERVE];

static void release(void *arg)
{
	void (*fn)(void *) = hal_load_acquire(&runtime_free);
	struct hal_tls *t = arg;

	if (t->runtime && fn)
		fn(t->runtime);
	hal_tls_ptr = NULL;
	free(t->report);
	if (t->pooled) {
		memset(t, 0, sizeof(*t));
		hal_store_release(&reserve_taken[t - reserve], 0);
	} else {
		free(t);
	}
}

static void make_key(void)
{
	key_made = !pthread_key_create(&key, release);
}

static struct hal_tls *from_reserve(void)
{
	size_t i;

	for (i = 0; i < RESERVE; i++) {
		if (atomic_exchange_explicit(&reserve_taken[i], 1, memory_order_acquire))
			continue;
		reserve[i].pooled = true;
		return &reserve[i];
	}
	return NULL;
}

/**
 * hal_tls_make() - make the thread's block
 *
 * Return: the block, or NULL when there is neither memory nor reserve.
 */
struct hal_tls *hal_tls_make(void)
{
	struct hal_tls *t;

	pthread_once(&once, make_key);
	t = hal_zalloc(sizeof(*t));
	if (!t)
		t = from_reserve();
	if (!t)
		return NULL;
	hal_tls_ptr = t;
	/* without a key, or room for its value, the block lives until the process ends */
	if (key_made)
		pthread_setspecific(key, t);
	return t;
}

/**
 * hal_tls_set_free() - say how the runtime's part is freed
 * @fn: called as a thread ends whose hal_tls.runtime is not NULL
 */
void hal_tls_set_free(void (*fn)(void *runtime))
{
	hal_store_release(&runtime_free, fn);
}
