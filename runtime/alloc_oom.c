// SPDX-License-Identifier: MIT
/*
 * When device memory runs out: functions that give some back, and those that are told.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/pool.h"

/**
 * struct hook - a function that is called
 * @next: a later one
 * @id: its number
 * @device: for which device, -1: for all
 * @reclaim: the function, or
 * @oom: the function
 * @arg: for it
 * @calls: calls that are under way
 * @gone: it is called no more, and goes with its last call
 */
struct hook {
	struct hook *next;
	uint64_t id;
	int device;
	npu_mem_reclaim_fn *reclaim;
	npu_mem_oom_fn *oom;
	void *arg;
	uint32_t calls;
	bool gone;
};

/**
 * struct call - a thread is inside the functions of a list
 * @next: another one
 * @thread: the thread
 */
struct call {
	struct call *next;
	pthread_t thread;
};

/**
 * struct hooks - functions of one sort, and who calls them
 * @first: in the order of registration; one with calls stays in the list
 * @calls: threads that call some
 * @any: whether there have ever been some
 */
struct hooks {
	struct hook *first;
	struct call *calls;
	_Atomic bool any;
};

/* lock Protects: both lists, last_id. idle: a function has no calls any more. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static struct hooks reclaims, observers;
static uint64_t last_id;

void rt_mem_hooks_lock(void)
{
	pthread_mutex_lock(&lock);
}

void rt_mem_hooks_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- the lists ------------------------------------------------------------------------------- */

static int hook_add(struct hooks *l, const struct hook *what, uint64_t *id, const char *op)
{
	struct hook *h = hal_zalloc(sizeof(*h)), **end;

	if (!h)
		return hal_fail(-ENOMEM, op, "no memory");
	*h = *what;
	rt_mem_hooks_lock();
	h->id = ++last_id;
	for (end = &l->first; *end; end = &(*end)->next)
		;
	*end = h;
	*id = h->id;
	hal_store_release(&l->any, true);
	rt_mem_hooks_unlock();
	return 0;
}

static struct hook *find_locked(const struct hooks *l, uint64_t id)
{
	struct hook *h;

	for (h = l->first; h && h->id != id; h = h->next)
		;
	return h;
}

/* Takes it out when nobody is in it any more. */
static void drop_locked(struct hooks *l, struct hook *h)
{
	struct hook **at;

	if (h->calls)
		return;
	for (at = &l->first; *at != h; at = &(*at)->next)
		;
	*at = h->next;
	free(h);
	pthread_cond_broadcast(&idle);
}

static bool inside_locked(const struct hooks *l)
{
	const struct call *c;

	for (c = l->calls; c && !pthread_equal(c->thread, pthread_self()); c = c->next)
		;
	return c;
}

static int hook_del(struct hooks *l, uint64_t id, const char *op)
{
	struct hook *h;
	int err = 0;

	rt_mem_hooks_lock();
	h = find_locked(l, id);
	if (!h || h->gone) {
		err = hal_fail(-ENOENT, op, "there is no function %llu", (unsigned long long)id);
	} else {
		h->gone = true;
		drop_locked(l, h);
	}
	/* inside a call it might wait for itself; in the child of a fork no call comes back */
	while (!err && !inside_locked(l) && !hal_forked() && find_locked(l, id))
		pthread_cond_wait(&idle, &lock);
	rt_mem_hooks_unlock();
	return err;
}

static void call_begin_locked(struct hooks *l, struct call *c)
{
	c->thread = pthread_self();
	c->next = l->calls;
	l->calls = c;
}

static void call_end_locked(struct hooks *l, struct call *c)
{
	struct call **at;

	for (at = &l->calls; *at != c; at = &(*at)->next)
		;
	*at = c->next;
}

/* The functions of a device one by one, each without the lock. Return: whether one said yes. */
static bool call_all(struct hooks *l, int device, int (*fn)(const struct hook *h, const void *what),
		     const void *what, bool *called)
{
	struct rt_record before;
	struct hook *h, *next;
	struct call call;
	bool any = false;

	*called = false;
	if (!hal_load_acquire(&l->any))
		return false;
	rt_mem_hooks_lock();
	/* not from inside one of them */
	if (inside_locked(l)) {
		rt_mem_hooks_unlock();
		return false;
	}
	rt_record_save(&before);
	call_begin_locked(l, &call);
	for (h = l->first; h; h = next) {
		if (!h->gone && (h->device < 0 || h->device == device)) {
			*called = true;
			h->calls++;
			rt_mem_hooks_unlock();
			any |= fn(h, what) != 0;
			rt_mem_hooks_lock();
			h->calls--;
		}
		next = h->next;
		if (h->gone)
			drop_locked(l, h);
	}
	call_end_locked(l, &call);
	rt_mem_hooks_unlock();
	rt_record_restore(&before);
	return any;
}

/* ---- giving back ---------------------------------------------------------------------------- */

NPU_API int npu_mem_add_reclaim(npu_mem_reclaim_fn *fn, void *arg, uint64_t *id)
{
	const struct hook h = { .device = -1, .reclaim = fn, .arg = arg };

	if (!id)
		return hal_fail(-EINVAL, "mem_add_reclaim", "id is NULL");
	*id = 0;
	if (!fn)
		return hal_fail(-EINVAL, "mem_add_reclaim", "the function is NULL");
	return hook_add(&reclaims, &h, id, "mem_add_reclaim");
}

NPU_API int npu_mem_remove_reclaim(uint64_t id)
{
	return hook_del(&reclaims, id, "mem_remove_reclaim");
}

/**
 * struct shortage - what is to be reclaimed
 * @device: on which device
 * @size: bytes that are asked for
 */
struct shortage {
	int device;
	size_t size;
};

static int call_reclaim(const struct hook *h, const void *what)
{
	const struct shortage *s = what;

	return h->reclaim(s->device, s->size, h->arg);
}

bool rt_reclaim(int device, size_t size, bool *called)
{
	const struct shortage s = { device, size };

	return call_all(&reclaims, device, call_reclaim, &s, called);
}

/* ---- being told ----------------------------------------------------------------------------- */

NPU_API int npu_mem_observe_oom(int device, npu_mem_oom_fn *fn, void *arg, uint64_t *id)
{
	static const char op[] = "mem_observe_oom";
	struct hook h = { .oom = fn, .arg = arg };
	int err;

	if (!id)
		return hal_fail(-EINVAL, op, "id is NULL");
	*id = 0;
	if (!fn)
		return hal_fail(-EINVAL, op, "the function is NULL");
	err = rt_enter(op);
	if (!err)
		err = rt_device_arg(device, op, &h.device);
	return err ? err : hook_add(&observers, &h, id, op);
}

NPU_API int npu_mem_unobserve_oom(uint64_t id)
{
	return hook_del(&observers, id, "mem_unobserve_oom");
}

static int call_oom(const struct hook *h, const void *what)
{
	h->oom(what, h->arg);
	return 0;
}

/* ---- the error ------------------------------------------------------------------------------ */

/* Bytes as options write them: up to four digits, and K, M, G or T. */
static const char *size_text(char buf[16], uint64_t bytes)
{
	static const char unit[] = " KMGT";
	double v = (double)bytes;
	int u = 0;

	for (; v >= 1024 && u < 4; u++)
		v /= 1024;
	snprintf(buf, 16, u ? "%.4g%c" : "%.4g", v, unit[u]);
	return buf;
}

/* Under the lock: bytes that are free in private pools. */
static uint64_t free_in_pools(const struct rt_cache *c)
{
	const struct heap_segment *seg;
	const struct heap_block *b;
	struct hal_list *n;
	uint64_t bytes = 0;

	hal_list_for_each(n, &c->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		for (b = rt_group_of(seg->pool->owner) ? seg->first : NULL; b; b = b->next)
			if (b->state == HEAP_FREE || b->state == HEAP_QUICK_FREE)
				bytes += b->size;
	}
	return bytes;
}

static void figures(struct rt_cache *c, size_t size, uint32_t tried, struct npu_mem_oom *o)
{
	struct hal_mem_info mi = { 0 };
	struct hal_device *dev;
	uint32_t k;

	o->size = sizeof(*o);
	o->request = size;
	o->device = c->device;
	o->tried = tried;
	rt_device_ref(c->device, &dev);
	if (dev && !hal_device_mem_info(dev, &mi)) {
		o->total = mi.total;
		o->free = mi.free;
		o->others = mi.others;
	}
	hal_device_put(dev);
	rt_bias_lock(&c->lock);
	c->ooms++;
	for (k = 0; k < RT_KINDS; k++) {
		o->in_use += rt_figure(&c->kind[k], RT_F_ALLOCATED_BYTES);
		o->cached += c->kind[k].sum.mapped - c->kind[k].sum.used_bytes;
		o->waiting += c->kind[k].wait_bytes;
	}
	o->largest = rt_cache_largest(c);
	o->pools = free_in_pools(c);
	o->limit = rt_cache_limit(c);
	rt_trace(c, RT_TRACE_OOM, o->free, size, 0);
	rt_bias_unlock(&c->lock);
	if (o->limit > o->total)
		o->limit = o->total;
}

static void tried_text(char *buf, size_t room, uint32_t tried)
{
	static const char *const name[] = {
		"reclaim", "gc", "driver", "events", "workspace", "release", "pools",
	};
	size_t n = 0;
	uint32_t i;

	buf[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(name) && n < room; i++)
		if (tried & (1u << i))
			n += (size_t)snprintf(buf + n, room - n, " %s", name[i]);
}

/* What the program may do about it; only what it has not done already. */
static void hint(const struct npu_mem_oom *o)
{
	bool split = o->cached - o->pools >= o->request && o->largest < o->request;

	if (o->limit < o->total && o->free >= o->request)
		hal_hint(-ENOMEM, "raise the limit: npu_mem_set_fraction(), option mem_fraction");
	else if (o->pools && o->pools + o->free >= o->request)
		hal_hint(-ENOMEM, "private pools keep what is free in them: npu_mem_pool_trim(), "
			 "NPU_MEM_POOL_USE_ON_OOM");
	else if (split && !hal_load_relaxed(&rt_mem.growable))
		hal_hint(-ENOMEM, "free memory is in pieces: set the option mem_growable%s",
			 hal_load_relaxed(&rt_mem.max_split) == SIZE_MAX ?
			 " or mem_max_split_mb" : "");
	else if (o->others > o->total / 2)
		hal_hint(-ENOMEM, "other processes hold most of the device");
}

int rt_oom(struct rt_cache *c, size_t size, uint32_t tried, const char *op)
{
	char req[16], total[16], fre[16], use[16], cached[16], largest[16], wait[16], others[16];
	char limit[32] = "", pools[32] = "", buf[16], list[64];
	struct npu_mem_oom o = { 0 };
	bool called;

	figures(c, size, tried, &o);
	call_all(&observers, c->device, call_oom, &o, &called);
	tried_text(list, sizeof(list), tried);
	if (o.limit < o.total)
		snprintf(limit, sizeof(limit), ", limit %s", size_text(buf, o.limit));
	if (o.pools)
		snprintf(pools, sizeof(pools), ", in pools %s", size_text(buf, o.pools));
	hal_fail(-ENOMEM, op, "no %s on device %d: total %s, free %s%s, in use %s, cached %s "
		 "(largest %s%s), waiting %s, others %s; tried%s", size_text(req, size), c->device,
		 size_text(total, o.total), size_text(fre, o.free), limit,
		 size_text(use, o.in_use), size_text(cached, o.cached),
		 size_text(largest, o.largest), pools, size_text(wait, o.waiting),
		 size_text(others, o.others), tried ? list : " nothing");
	hint(&o);
	return -ENOMEM;
}
