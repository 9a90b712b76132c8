/* SPDX-License-Identifier: MIT */
/*
 * Private pools: a pool is a group of lanes, one for each stream that has asked for memory while
 * its requests were routed there.
 */
#ifndef RUNTIME_POOL_H
#define RUNTIME_POOL_H

#include "npu/pool.h"
#include "runtime/alloc.h"
#include "runtime/handle.h"

/**
 * struct rt_group - a private pool
 * @held: references: its handle, each lane, each route, and requests under way
 * @c: the cache that it belongs to
 * @life: rt_cache.life that it belongs to
 * @id: its number
 * @flags: NPU_MEM_POOL_*
 * @tag: heap_block.tag of its blocks
 * @gone: it was destroyed, and what is left of it is the cache's; under the cache's lock
 * @name: its name, or nothing
 */
struct rt_group {
	struct rt_held held;
	struct rt_cache *c;
	uint64_t life;
	uint64_t id;
	uint32_t flags;
	uint32_t tag;
	bool gone;
	char name[NPU_MEM_POOL_NAME_LEN];
};

/**
 * struct rt_route - requests that go to a private pool
 * @next: one that has begun earlier
 * @group: the pool, with a reference
 * @stream: for this stream; 0: of
 * @thread: this thread, rt_thread.id
 */
struct rt_route {
	struct rt_route *next;
	struct rt_group *group;
	uint64_t stream;
	uint64_t thread;
};

/* Under the lock: the pool that a lane belongs to; NULL: none, or it is gone. */
static inline struct rt_group *rt_group_of(const struct rt_lane *lane)
{
	return lane->group && !lane->group->gone ? lane->group : NULL;
}

/* Its number; 0: none. */
static inline uint64_t rt_group_id(const struct rt_lane *lane)
{
	const struct rt_group *g = rt_group_of(lane);

	return g ? g->id : 0;
}

/* Whether its blocks are not cut. */
static inline bool rt_group_whole(const struct rt_group *g)
{
	return g && g->flags & NPU_MEM_POOL_NO_SPLIT;
}

static inline bool rt_group_lends(const struct rt_group *g)
{
	return g && g->flags & NPU_MEM_POOL_USE_ON_OOM;
}

/* alloc_pool.c */
void rt_group_put(struct rt_group *g);
/* Under the lock: the pool that a request goes to, with a reference; NULL: none. */
struct rt_group *rt_route_find(const struct rt_cache *c, uint64_t stream, uint64_t thread);
void rt_routes_free(struct rt_route *r);

#endif /* RUNTIME_POOL_H */
