// SPDX-License-Identifier: MIT
/*
 * Private pools: making them, routing requests there, ending them.
 *
 * A pool that is ended leaves its blocks where they are: its lanes are those of their streams from
 * then on (rt_group_of()), so that a request inherits what they have, and a release gives it back.
 */
#include <stdlib.h>
#include <string.h>

#include "npu/sleep.h"
#include "runtime/plug.h"
#include "runtime/pool.h"

/* ---- pools -------------------------------------------------------------------------------- */

static void release(struct kref *ref)
{
	free(container_of(container_of(ref, struct rt_held, ref), struct rt_group, held));
}

void rt_group_put(struct rt_group *g)
{
	if (g)
		kref_put(&g->held.ref, release);
}

static struct rt_group *group_get(npu_mem_pool pool, const char *op)
{
	return rt_handle_get(HAL_HANDLE_MEM_POOL, pool.h, op);
}

static int read_attr(const struct npu_mem_pool_attr *attr, struct npu_mem_pool_attr *a,
		     const char *op)
{
	int err;

	*a = (struct npu_mem_pool_attr){ .size = sizeof(*a) };
	if (!attr)
		return 0;
	err = rt_copy_in(a, sizeof(*a), attr, op);
	if (err)
		return err;
	if (a->flags & ~(NPU_MEM_POOL_NO_SPLIT | NPU_MEM_POOL_USE_ON_OOM))
		return hal_fail(-EINVAL, op, "unknown flags 0x%x", a->flags);
	if (a->tag > NPU_MEM_TAG_MAX)
		return hal_fail(-EINVAL, op, "%u is no tag", a->tag);
	if (a->name && strnlen(a->name, NPU_MEM_POOL_NAME_LEN) == NPU_MEM_POOL_NAME_LEN)
		return hal_fail(-EINVAL, op, "the name is longer than %d",
				NPU_MEM_POOL_NAME_LEN - 1);
	return 0;
}

static struct rt_group *group_new(struct rt_cache *c, const struct npu_mem_pool_attr *a,
				  const char *op)
{
	static _Atomic uint64_t last_id;
	struct rt_group *g = hal_zalloc(sizeof(*g));

	if (!g) {
		hal_fail(-ENOMEM, op, "no memory");
		return NULL;
	}
	kref_init(&g->held.ref);
	g->c = c;
	g->id = atomic_fetch_add(&last_id, 1) + 1;
	g->flags = a->flags;
	g->tag = a->tag;
	if (a->name)
		strcpy(g->name, a->name);
	rt_bias_lock(&c->lock);
	g->life = c->life;
	rt_bias_unlock(&c->lock);
	return g;
}

NPU_API int npu_mem_pool_create(int device, const struct npu_mem_pool_attr *attr,
				npu_mem_pool *pool)
{
	static const char op[] = "mem_pool_create";
	struct npu_mem_pool_attr a;
	struct hal_slot *slot;
	struct rt_group *g;
	struct rt_cache *c;
	int d, err;

	err = rt_enter_handle(op, pool, "pool");
	if (!err)
		err = read_attr(attr, &a, op);
	if (!err && rt_plug_use())
		err = rt_plug_refuse(op);
	if (!err)
		err = rt_device_arg(device, op, &d);
	if (err)
		return err;
	c = rt_cache_get(d, op);
	if (!c)
		return -ENOMEM;
	err = hal_handle_alloc(HAL_HANDLE_MEM_POOL, &slot);
	if (err)
		return err;
	g = group_new(c, &a, op);
	if (!g) {
		hal_handle_free(HAL_HANDLE_MEM_POOL, slot);
		return -ENOMEM;
	}
	pool->h = rt_handle_new(HAL_HANDLE_MEM_POOL, slot, &g->held);
	return 0;
}

/* ---- routes --------------------------------------------------------------------------------- */

static bool same(const struct rt_route *a, const struct rt_route *b)
{
	return a->group == b->group && a->stream == b->stream && a->thread == b->thread;
}

struct rt_group *rt_route_find(const struct rt_cache *c, uint64_t stream, uint64_t thread)
{
	const struct rt_route *r = c->routes;

	while (r && (r->stream ? r->stream != stream : r->thread != thread))
		r = r->next;
	if (!r)
		return NULL;
	kref_get(&r->group->held.ref);
	return r->group;
}

void rt_routes_free(struct rt_route *r)
{
	struct rt_route *next;

	for (; r; r = next) {
		next = r->next;
		rt_group_put(r->group);
		free(r);
	}
}

/* Under the lock: takes out the route, or all of its pool; a list of them. */
static struct rt_route *take_out(struct rt_cache *c, const struct rt_route *what, bool every)
{
	struct rt_route **at = &c->routes, *r, *out = NULL;

	while ((r = *at)) {
		if (!(every ? r->group == what->group : same(r, what))) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = out;
		out = r;
	}
	if (!c->routes)
		c->odd &= ~RT_ODD_ROUTES;
	return out;
}

/* Which requests are meant. */
static int resolve(enum npu_mem_pool_scope scope, npu_stream stream, const char *op,
		   struct rt_route *r)
{
	struct rt_thread *t = rt_thread(op);

	if (!t)
		return -ENOMEM;
	if (scope == NPU_MEM_POOL_STREAM)
		return rt_stream(stream, r->group->c->device, op, &r->stream);
	if (scope != NPU_MEM_POOL_THREAD || stream.h)
		return hal_fail(-EINVAL, op, scope == NPU_MEM_POOL_THREAD ?
				"a stream with NPU_MEM_POOL_THREAD" : "unknown scope %d", scope);
	r->thread = t->id;
	return 0;
}

/* A stream is there, and is the pool's device's. */
static int check_stream(const struct rt_route *r, const char *op)
{
	int d;

	if (!r->stream)
		return 0;
	d = rt_handle_device(rt_thread(op), r->stream, op);
	if (d >= 0 && d != r->group->c->device)
		return hal_fail(-EINVAL, op, "the stream is of device %d, the pool of device %d",
				d, r->group->c->device);
	return d < 0 ? d : 0;
}

/* Puts a route first, which is freed if that fails. */
static int add(struct rt_route *fresh, const char *op)
{
	struct rt_group *g = fresh->group;
	struct rt_cache *c = g->c;
	const struct rt_route *r;
	int err = 0;

	rt_bias_lock(&c->lock);
	for (r = c->routes; r && !same(r, fresh); r = r->next)
		;
	if (g->gone || c->life != g->life) {
		err = -ESTALE;
	} else if (r) {
		err = -EBUSY;
	} else {
		kref_get(&g->held.ref);
		fresh->next = c->routes;
		c->routes = fresh;
		c->odd |= RT_ODD_ROUTES;
	}
	rt_bias_unlock(&c->lock);
	if (!err)
		return 0;
	free(fresh);
	return err == -EBUSY ? hal_fail(err, op, "it has begun already") :
			       hal_fail(err, op, "the pool has ended meanwhile");
}

NPU_API int npu_mem_pool_begin(npu_mem_pool pool, enum npu_mem_pool_scope scope,
			       npu_stream stream)
{
	static const char op[] = "mem_pool_begin";
	struct rt_route r = { .next = NULL }, *fresh;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	r.group = group_get(pool, op);
	if (!r.group)
		return hal_error_last()->code;
	err = resolve(scope, stream, op, &r);
	if (!err)
		err = check_stream(&r, op);
	if (!err) {
		fresh = hal_zalloc(sizeof(*fresh));
		if (fresh) {
			*fresh = r;
			err = add(fresh, op);
		} else {
			err = hal_fail(-ENOMEM, op, "no memory");
		}
	}
	rt_group_put(r.group);
	return err;
}

NPU_API int npu_mem_pool_end(npu_mem_pool pool, enum npu_mem_pool_scope scope, npu_stream stream)
{
	static const char op[] = "mem_pool_end";
	struct rt_route r = { .next = NULL }, *out;
	struct rt_cache *c;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	r.group = group_get(pool, op);
	if (!r.group)
		return hal_error_last()->code;
	err = resolve(scope, stream, op, &r);
	if (!err) {
		c = r.group->c;
		rt_bias_lock(&c->lock);
		out = take_out(c, &r, false);
		rt_bias_unlock(&c->lock);
		if (!out)
			err = hal_fail(-ENOENT, op, "it has not begun");
		rt_routes_free(out);
	}
	rt_group_put(r.group);
	return err;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* No request goes there any more, and what it has is the cache's. */
static void leave(struct rt_group *g)
{
	const struct rt_route all = { .group = g };
	struct rt_route *out;

	rt_bias_lock(&g->c->lock);
	out = take_out(g->c, &all, true);
	g->gone = true;
	rt_bias_unlock(&g->c->lock);
	rt_routes_free(out);
}

static void trim(struct rt_group *g)
{
	const struct rt_release what = { .bytes = UINT64_MAX, .group = g };

	rt_release(g->c, &what);
}

NPU_API int npu_mem_pool_destroy(npu_mem_pool pool)
{
	static const char op[] = "mem_pool_destroy";
	struct rt_group *g;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	g = rt_handle_end(HAL_HANDLE_MEM_POOL, pool.h, op);
	if (!g)
		return hal_error_last()->code;
	leave(g);
	trim(g);
	rt_group_put(g);
	return 0;
}

NPU_API int npu_mem_pool_trim(npu_mem_pool pool)
{
	static const char op[] = "mem_pool_trim";
	struct rt_group *g;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	g = group_get(pool, op);
	if (!g)
		return hal_error_last()->code;
	trim(g);
	rt_group_put(g);
	return 0;
}

/* Those of a device, or all. */
static int drop_slot(struct hal_slot *slot, void *arg)
{
	const int *device = arg;
	struct rt_group *g;
	uint64_t h = hal_handle_of(HAL_HANDLE_MEM_POOL, slot);

	g = rt_handle_get(HAL_HANDLE_MEM_POOL, h, "mem_pool_destroy");
	if (!g)
		return 0;
	if ((*device < 0 || *device == g->c->device) &&
	    rt_handle_end(HAL_HANDLE_MEM_POOL, h, "mem_pool_destroy") == g) {
		leave(g);
		rt_group_put(g);
	}
	rt_group_put(g);
	return 0;
}

void rt_pools_drop(int device)
{
	struct rt_record before;

	rt_record_save(&before);
	hal_handle_for_each(HAL_HANDLE_MEM_POOL, drop_slot, &device);
	rt_record_restore(&before);
}

/* ---- what there is -------------------------------------------------------------------------- */

static void figures(const struct rt_group *g, struct npu_mem_pool_info *out)
{
	const struct heap_segment *seg;
	const struct heap_block *b;
	const struct rt_lane *lane;
	const struct rt_route *r;
	struct hal_list *n;

	for (r = g->c->routes; r; r = r->next)
		out->routes += r->group == g;
	hal_list_for_each(n, &g->c->heap.segments) {
		seg = hal_list_entry(n, struct heap_segment, node);
		lane = seg->pool->owner;
		if (lane->group != g)
			continue;
		out->reserved_bytes += seg->mapped;
		for (b = seg->first; b; b = b->next) {
			out->blocks += b->state == HEAP_USED;
			out->used_bytes += b->state == HEAP_USED ? b->size : 0;
			out->waiting_bytes += b->state == HEAP_WAIT ? b->size : 0;
		}
	}
}

NPU_API int npu_mem_pool_get_info(npu_mem_pool pool, struct npu_mem_pool_info *info)
{
	static const char op[] = "mem_pool_get_info";
	struct npu_mem_pool_info out = { 0 };
	struct rt_group *g;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, op, "info is NULL, or its size is not set");
	g = group_get(pool, op);
	if (!g)
		return hal_error_last()->code;
	out.size = info->size;
	out.id = g->id;
	out.flags = g->flags;
	out.tag = g->tag;
	out.device = g->c->device;
	memcpy(out.name, g->name, sizeof(out.name));
	rt_bias_lock(&g->c->lock);
	rt_figures_begin(g->c);
	rt_cache_reap(g->c, UINT32_MAX);
	figures(g, &out);
	rt_figures(g->c);
	rt_cache_unlock(g->c);
	rt_group_put(g);
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
}
