// SPDX-License-Identifier: MIT
/*
 * Another allocator in the place of the cache: which memory it has given, and its answers.
 *
 * It is set before anything is allocated, so that no block of the cache is ever at hand, and the
 * short way finds none: requests come here the long way, and pointers that are none of the cache's.
 */
#include <stdlib.h>

#include "runtime/plug.h"

/**
 * struct given - memory that the allocator has given
 * @next: another one in the same bucket
 * @ptr: the memory
 * @size: bytes
 * @stream: for which stream
 * @device: of which device
 */
struct given {
	struct given *next;
	void *ptr;
	size_t size;
	uint64_t stream;
	int device;
};

#define BUCKETS 4096u

/* Protects: what was given. Not held when the allocator is called. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct given *given[BUCKETS];
/* Changed under rt_mem_hooks_lock(), which no child of a fork inherits. */
static _Atomic bool used;
_Atomic bool rt_plug_on;
/* The same, and not while @used is set. */
static struct npu_mem_allocator ops;
static void *ops_arg;

NPU_API int npu_mem_set_allocator(const struct npu_mem_allocator *what, void *arg)
{
	static const char op[] = "mem_set_allocator";
	struct npu_mem_allocator o = { .size = sizeof(o) };
	int err = what ? rt_copy_in(&o, sizeof(o), what, op) : 0;

	if (err)
		return err;
	if (what && (!o.alloc || !o.free))
		return hal_fail(-EINVAL, op, "alloc or free is NULL");
	rt_mem_hooks_lock();
	if (hal_load_relaxed(&used)) {	/* relaxed: under the lock */
		err = -EBUSY;
	} else {
		ops = o;
		ops_arg = arg;
		hal_store_release(&rt_plug_on, what != NULL);
	}
	rt_mem_hooks_unlock();
	return err ? hal_fail(err, op, "memory was allocated already") : 0;
}

bool rt_plug_use(void)
{
	if (!hal_load_acquire(&used)) {
		rt_mem_hooks_lock();
		hal_store_release(&used, true);
		rt_mem_hooks_unlock();
	}
	return hal_load_acquire(&rt_plug_on);
}

int rt_plug_refuse(const char *op)
{
	if (!hal_load_acquire(&rt_plug_on))
		return 0;
	return hal_fail(-EOPNOTSUPP, op, "npu_mem_set_allocator() has set one that cannot");
}

/* What the allocator says, as a code that the library gives. */
static int answer(int err, const char *op)
{
	if (!err)
		return 0;
	if (err > 0 || !hal_error_explain(err))
		return hal_fail(-EIO, op, "the allocator says %d, which is no error", err);
	return hal_fail(err, op, "the allocator has failed");
}

/* ---- what it has given ---------------------------------------------------------------------- */

static struct given **bucket_of(const void *ptr)
{
	return &given[((uintptr_t)ptr * 0x9e3779b97f4a7c15u) >> 32 & (BUCKETS - 1)];
}

static struct given **find_locked(const void *ptr)
{
	struct given **at = bucket_of(ptr);

	while (*at && (*at)->ptr != ptr)
		at = &(*at)->next;
	return at;
}

/* False: it is there already. */
static bool insert(struct given *g)
{
	struct given **at;
	bool there;

	pthread_mutex_lock(&lock);
	at = find_locked(g->ptr);
	there = *at;
	if (!there) {
		g->next = NULL;
		*at = g;
	}
	pthread_mutex_unlock(&lock);
	return !there;
}

/* Takes it out; NULL: there is none. */
static struct given *take(const void *ptr)
{
	struct given **at, *g;

	pthread_mutex_lock(&lock);
	at = find_locked(ptr);
	g = *at;
	if (g)
		*at = g->next;
	pthread_mutex_unlock(&lock);
	return g;
}

void rt_plug_drop(int device)
{
	struct given **at, *g;
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < BUCKETS; i++)
		for (at = &given[i]; (g = *at);) {
			if (device >= 0 && device != g->device) {
				at = &g->next;
				continue;
			}
			*at = g->next;
			free(g);
		}
	pthread_mutex_unlock(&lock);
	if (device >= 0)
		return;
	rt_mem_hooks_lock();
	hal_store_release(&rt_plug_on, false);
	hal_store_release(&used, false);
	rt_mem_hooks_unlock();
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Asks it, and once more if something could be reclaimed. */
static int ask(struct given *g, uint32_t *tried)
{
	npu_stream s = { g->stream };
	bool called = false;
	int err;

	err = ops.alloc(&g->ptr, g->size, g->device, s, ops_arg);
	if (err == -ENOMEM && rt_reclaim(g->device, g->size, &called))
		err = ops.alloc(&g->ptr, g->size, g->device, s, ops_arg);
	*tried = called ? NPU_MEM_TRIED_RECLAIM : 0;
	return err;
}

int rt_plug_alloc(struct rt_cache *c, size_t size, uint64_t stream, void **ptr, const char *op)
{
	struct given *g = hal_zalloc(sizeof(*g));
	uint32_t tried;
	int err;

	if (!g)
		return hal_fail(-ENOMEM, op, "no memory");
	g->size = size;
	g->stream = stream;
	g->device = c->device;
	err = ask(g, &tried);
	if (err == -ENOMEM)
		err = rt_oom(c, size, tried, op);
	else
		err = answer(err, op);
	if (!err && (!g->ptr || !insert(g)))
		err = hal_fail(-EIO, op, "the allocator gave %p, which is %s", g->ptr,
			       g->ptr ? "in use" : "no memory");
	if (err)
		free(g);
	else
		*ptr = g->ptr;
	return err;
}

int rt_plug_free(void *ptr, const char *op)
{
	struct given *g = take(ptr);
	int err;

	if (!g)
		return rt_not_ours(ptr, op);
	err = answer(ops.free(ptr, g->size, g->device, (npu_stream){ g->stream }, ops_arg), op);
	if (!err || !insert(g))
		free(g);
	return err;
}

int rt_plug_stream(void *ptr, uint64_t stream, bool record, const char *op)
{
	int (*fn)(void *p, npu_stream s, void *arg) = record ? ops.record_stream :
							       ops.erase_stream;
	bool ours;

	if (!fn)
		return rt_plug_refuse(op);
	pthread_mutex_lock(&lock);
	ours = *find_locked(ptr);
	pthread_mutex_unlock(&lock);
	return ours ? answer(fn(ptr, (npu_stream){ stream }, ops_arg), op) : rt_not_ours(ptr, op);
}

int rt_plug_empty(int device, const char *op)
{
	return ops.empty_cache ? answer(ops.empty_cache(device, ops_arg), op) :
				 rt_plug_refuse(op);
}

int rt_plug_stats(int device, struct npu_mem_stats *stats, const char *op)
{
	stats->size = sizeof(*stats);
	return ops.get_stats ? answer(ops.get_stats(device, stats, ops_arg), op) :
			       rt_plug_refuse(op);
}
