// SPDX-License-Identifier: MIT
/*
 * Sleep and wake: the runs of growable segments are unmapped, and mapped again at their addresses.
 * The heap does not notice. Who does it has rt_cache.rescue; what sleeps belongs to him as long as
 * he is at it, so that a device that is closed meanwhile takes nothing away from under him.
 */
#include <stdlib.h>
#include <string.h>

#include "hal/point.h"
#include "npu/sleep.h"
#include "runtime/plug.h"
#include "runtime/pool.h"

/**
 * struct span - addresses
 * @addr: the first
 * @size: how many
 */
struct span {
	uintptr_t addr;
	size_t size;
};

/**
 * struct rt_sleep - a cache that sleeps
 * @life: rt_cache.life that it belongs to
 * @run: where memory was mapped
 * @runs: how many those are
 * @block: blocks whose content is kept
 * @blocks: how many
 * @bytes: of all blocks
 * @data: their content, one after the other
 */
struct rt_sleep {
	uint64_t life;
	struct span *run;
	size_t runs;
	struct span *block;
	size_t blocks;
	size_t bytes;
	char *data;
};

/**
 * struct tags - what is dropped
 * @tag: tags
 * @count: how many
 */
struct tags {
	const uint32_t *tag;
	uint32_t count;
};

void rt_sleep_free(struct rt_sleep *s)
{
	if (!s)
		return;
	free(s->run);
	free(s->block);
	free(s->data);
	free(s);
}

/* ---- what there is -------------------------------------------------------------------------- */

static bool kept(const struct heap_block *b, const struct tags *drop)
{
	uint32_t i;

	if (b->state != HEAP_USED && b->state != HEAP_WAIT)
		return false;
	for (i = 0; i < drop->count; i++)
		if (drop->tag[i] == b->tag)
			return false;
	return true;
}

/* Lists runs and blocks, as far as there is room. Return: a segment that cannot sleep, or NULL. */
static const struct rt_segment *list_locked(const struct rt_cache *c, struct rt_sleep *s,
					    const struct tags *drop, size_t room)
{
	const struct rt_segment *seg;
	const struct heap_block *b;
	const struct rt_run *r;
	struct hal_list *n;

	s->runs = s->blocks = s->bytes = 0;
	hal_list_for_each(n, &c->heap.segments) {
		seg = container_of(hal_list_entry(n, struct heap_segment, node), struct rt_segment,
				   seg);
		if (!(seg->flags & RT_SEGMENT_GROWABLE))
			return seg;
		for (r = seg->runs; r; r = r->next, s->runs++)
			if (s->runs < room)
				s->run[s->runs] = (struct span){ r->addr, r->size };
		for (b = seg->seg.first; b; b = b->next) {
			if (!kept(b, drop))
				continue;
			if (s->blocks < room)
				s->block[s->blocks] = (struct span){ b->addr, b->size };
			s->blocks++;
			s->bytes += b->size;
		}
	}
	return NULL;
}

static int cannot(const struct rt_cache *c, bool trim, const char *op)
{
	hal_fail(-EOPNOTSUPP, op, "memory of device %d was allocated without mem_growable",
		 c->device);
	if (trim)
		hal_hint(-EOPNOTSUPP, "it is free in a private pool: npu_mem_pool_trim()");
	return -EOPNOTSUPP;
}

static int list(struct rt_cache *c, struct rt_sleep *s, const struct tags *drop, const char *op)
{
	const struct rt_segment *other;
	size_t room = 0, need;
	bool trim;

	for (;;) {
		rt_bias_lock(&c->lock);
		s->life = c->life;
		other = list_locked(c, s, drop, room);
		trim = other && !other->seg.used && rt_group_of(other->seg.pool->owner);
		rt_bias_unlock(&c->lock);
		if (other)
			return cannot(c, trim, op);
		need = s->runs > s->blocks ? s->runs : s->blocks;
		if (need <= room)
			return 0;
		free(s->run);
		free(s->block);
		room = need + need / 4;
		s->run = hal_zalloc(room * sizeof(*s->run));
		s->block = hal_zalloc(room * sizeof(*s->block));
		if (!s->run || !s->block)
			return hal_fail(-ENOMEM, op, "no memory for %zu blocks", room);
	}
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Copies all that is kept there or back. */
static int copy(const struct rt_sleep *s, bool back)
{
	const struct span *b;
	char *at = s->data;
	int err = 0;

	for (b = s->block; !err && b < s->block + s->blocks; at += b->size, b++)
		err = back ? npu_memcpy((void *)b->addr, at, b->size, NPU_COPY_H2D) :
			     npu_memcpy(at, (void *)b->addr, b->size, NPU_COPY_D2H);
	return err;
}

static int map_one(struct hal_context *ctx, const struct span *r)
{
	uint64_t memory;
	int err;

	err = hal_vm_create(ctx, r->size, HAL_MEM_HUGE_FIRST, &memory);
	if (err)
		return err;
	err = hal_vm_map((void *)r->addr, r->size, memory, 0, HAL_VM_RW);
	hal_vm_destroy(memory);
	return err;
}

static void unmap(const struct rt_sleep *s, size_t runs)
{
	while (runs--)
		hal_vm_unmap((void *)s->run[runs].addr, s->run[runs].size);
}

/* Maps so many runs, and brings back what was in them; or none. */
static int map(struct rt_cache *c, const struct rt_sleep *s, size_t runs, const char *op)
{
	struct hal_context *ctx;
	uint64_t primary;
	size_t i;
	int err;

	if (!s->runs)
		return 0;
	err = rt_device_primary(c->device, op, &primary);
	if (err)
		return err;
	ctx = hal_context_get(primary, op);
	if (!ctx)
		return hal_error_last()->code;
	for (i = 0; !err && i < runs; i++)
		err = map_one(ctx, &s->run[i]);
	hal_context_put(ctx);
	if (!err)
		err = copy(s, true);
	else
		i--;
	if (err)
		unmap(s, i);
	return err;
}

/* Unmaps all runs, or none. */
static int unmap_all(struct rt_cache *c, const struct rt_sleep *s, const char *op)
{
	struct rt_record why;
	size_t i;
	int err = 0;

	for (i = 0; !err && i < s->runs; i++)
		err = hal_vm_unmap((void *)s->run[i].addr, s->run[i].size);
	if (!err)
		return 0;
	rt_record_save(&why);
	/* what was unmapped just now is there to be had again */
	map(c, s, i - 1, op);
	rt_record_restore(&why);
	return err;
}

/* ---- to sleep ------------------------------------------------------------------------------- */

/* Waits for streams of other devices that use freed blocks. */
static int wait_others(struct rt_cache *c, uint64_t deadline, const char *op)
{
	struct hal_point p[32];
	uint32_t i, n;

	for (;;) {
		rt_bias_lock(&c->lock);
		rt_figures_begin(c);
		rt_cache_reap(c, UINT32_MAX);
		n = rt_lanes_points(&c->lanes, p, ARRAY_SIZE(p));
		rt_figures(c);
		rt_cache_unlock(c);
		if (!n)
			return 0;
		for (i = 0; i < n; i++) {
			if (!rt_point_wait(&p[i], deadline))
				return hal_fail(-ETIMEDOUT, op, "streams still use freed blocks");
			rt_bias_lock(&c->lock);
			rt_lanes_drained(&c->lanes, &p[i]);
			rt_bias_unlock(&c->lock);
		}
	}
}

/* From now on nothing is allocated; and what is on its way has come. False: not in time. */
static bool close_door(struct rt_cache *c, uint64_t deadline)
{
	uint64_t reserving;

	for (;;) {
		rt_bias_lock(&c->lock);
		c->odd |= RT_ODD_SLEEP;
		reserving = c->reserving;
		rt_bias_unlock(&c->lock);
		if (!reserving)
			return true;
		if (hal_sys_now() >= deadline)
			return false;
		sched_yield();
	}
}

/* The end of it: the cache sleeps, s being what it was, or is awake. */
static int conclude(struct rt_cache *c, struct rt_sleep *s, uint64_t life, bool asleep, int err,
		    const char *op)
{
	bool ours;

	rt_bias_lock(&c->lock);
	ours = c->life == life;
	if (ours) {
		c->odd = asleep ? c->odd | RT_ODD_SLEEP : c->odd & ~RT_ODD_SLEEP;
		c->sleep = asleep ? s : NULL;
	}
	rt_bias_unlock(&c->lock);
	if (!ours || !asleep)
		rt_sleep_free(s);
	return ours ? err : rt_cache_dropped(c, op);
}

static int fall_asleep(struct rt_cache *c, const struct tags *drop, uint64_t deadline,
		       const char *op)
{
	struct rt_sleep *s = hal_zalloc(sizeof(*s));
	uint64_t life;
	int err;

	rt_bias_lock(&c->lock);
	life = c->life;
	rt_bias_unlock(&c->lock);
	if (!s)
		return hal_fail(-ENOMEM, op, "no memory");
	if (close_door(c, deadline))
		err = list(c, s, drop, op);
	else
		err = hal_fail(-ETIMEDOUT, op, "memory is being allocated");
	if (!err && s->bytes) {
		s->data = hal_zalloc(s->bytes);
		if (!s->data)
			err = hal_fail(-ENOMEM, op, "no host memory for %zu bytes", s->bytes);
	}
	if (!err)
		err = copy(s, false);
	if (!err)
		err = unmap_all(c, s, op);
	return conclude(c, s, life, !err, err, op);
}

static bool sleeps(struct rt_cache *c)
{
	bool yes;

	rt_bias_lock(&c->lock);
	yes = c->odd & RT_ODD_SLEEP;
	rt_bias_unlock(&c->lock);
	return yes;
}

static int go_to_sleep(struct rt_cache *c, const struct tags *drop, int64_t timeout_ms,
		       const char *op)
{
	const struct rt_release what = { .bytes = UINT64_MAX };
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	int err;

	if (sleeps(c))
		return 0;
	err = npu_device_sync(c->device, timeout_ms);
	if (!err)
		err = wait_others(c, deadline, op);
	if (err)
		return err;
	/* the less there is to be unmapped */
	rt_release(c, &what);
	return fall_asleep(c, drop, deadline, op);
}

static int wake_up(struct rt_cache *c, const char *op)
{
	struct rt_sleep *s;
	int err;

	rt_bias_lock(&c->lock);
	s = c->sleep;
	c->sleep = NULL;
	rt_bias_unlock(&c->lock);
	if (!s)
		return 0;
	err = map(c, s, s->runs, op);
	return conclude(c, s, s->life, err, err, op);
}

/* ---- the calls ------------------------------------------------------------------------------ */

static int enter(int device, const char *op, struct rt_cache **c)
{
	int d, err;

	err = rt_enter(op);
	if (!err)
		err = rt_device_arg(device, op, &d);
	if (!err)
		err = rt_plug_refuse(op);
	if (err)
		return err;
	if (hal_in_callback())
		return hal_fail(-EDEADLK, op, "a callback must not wait");
	*c = rt_cache_get(d, op);
	return *c ? 0 : -ENOMEM;
}

NPU_API int npu_mem_sleep(int device, const uint32_t *drop, uint32_t count, int64_t timeout_ms)
{
	static const char op[] = "mem_sleep";
	const struct tags tags = { drop, count };
	struct rt_cache *c;
	uint32_t i;
	int err;

	if (count && !drop)
		return hal_fail(-EINVAL, op, "drop is NULL");
	for (i = 0; i < count; i++)
		if (drop[i] > NPU_MEM_TAG_MAX)
			return hal_fail(-EINVAL, op, "%u is no tag", drop[i]);
	err = enter(device, op, &c);
	if (!err)
		err = rt_timeout_check(timeout_ms, op);
	if (err)
		return err;
	pthread_mutex_lock(&c->rescue);
	err = go_to_sleep(c, &tags, timeout_ms, op);
	pthread_mutex_unlock(&c->rescue);
	return err;
}

NPU_API int npu_mem_wake(int device)
{
	struct rt_cache *c;
	int err;

	err = enter(device, "mem_wake", &c);
	if (err)
		return err;
	pthread_mutex_lock(&c->rescue);
	err = wake_up(c, "mem_wake");
	pthread_mutex_unlock(&c->rescue);
	return err;
}

NPU_API int npu_mem_set_tag(void *ptr, uint32_t tag)
{
	static const char op[] = "mem_set_tag";
	struct rt_cache *c;
	struct heap_block *b;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	if (tag > NPU_MEM_TAG_MAX)
		return hal_fail(-EINVAL, op, "%u is no tag", tag);
	err = rt_plug_refuse(op);
	if (err)
		return err;
	c = rt_cache_of((uintptr_t)ptr);
	if (!c)
		return hal_fail(-EINVAL, op, "%p is not the start of a block in use", ptr);
	rt_bias_lock(&c->lock);
	b = rt_block_find(c, ptr);
	if (b) {
		b->tag = tag;
		/* the short way would leave it to the next one */
		c->odd |= RT_ODD_TAGS;
	}
	rt_bias_unlock(&c->lock);
	return b ? 0 : hal_fail(-EINVAL, op, "%p is not the start of a block in use", ptr);
}
