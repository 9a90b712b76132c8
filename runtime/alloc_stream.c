// SPDX-License-Identifier: MIT
/*
 * The cache of device memory: its lanes, other streams that use a block, and emptying it.
 */
#include <stdlib.h>

#include "hal/point.h"
#include "runtime/plug.h"

int rt_not_ours(const void *ptr, const char *op)
{
	return hal_fail(-EINVAL, op, "%p is not the start of a block in use", ptr);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Makes what a lane lacks; *life as for rt_cache_lock(). */
static int equip(struct rt_cache *c, uint64_t *life, const struct rt_lane_key *key, const char *op)
{
	struct rt_use_chunk *chunk = key->use ? rt_uses_new() : NULL;
	struct rt_lane *lane, *fresh, *spare = NULL;
	int err;

	fresh = rt_lane_new(key->stream, key->group, key->pools);
	if (!fresh || (key->use && !chunk)) {
		err = hal_fail(-ENOMEM, op, "no memory for what a stream has");
		spare = fresh;
		goto out;
	}
	err = rt_cache_lock(c, life, op);
	if (err) {
		spare = fresh;
		goto out;
	}
	lane = rt_lane_add(&c->lanes, fresh, &spare);
	if (lane->pool && !lane->pool->owner) {
		heap_pool_init(&lane->pool[RT_SMALL], &c->kind[RT_SMALL].sum, lane);
		heap_pool_init(&lane->pool[RT_LARGE], &c->kind[RT_LARGE].sum, lane);
	}
	if (chunk && !c->lanes.spare) {
		rt_uses_add(&c->lanes, chunk);
		chunk = NULL;
	}
	rt_cache_unlock(c);
out:
	rt_lane_free(spare);
	free(chunk);
	return err;
}

int rt_lane_lock(struct rt_cache *c, uint64_t *life, const struct rt_lane_key *key,
		 struct rt_lane **lane, const char *op)
{
	int err;

	for (;;) {
		err = rt_cache_lock(c, life, op);
		if (err)
			return err;
		*lane = rt_lane_find(&c->lanes, key->stream, key->group);
		if (*lane && ((*lane)->pool || !key->pools) && (c->lanes.spare || !key->use))
			return 0;
		rt_cache_unlock(c);
		err = equip(c, life, key, op);
		if (err)
			return err;
	}
}

/* ---- other streams -------------------------------------------------------------------------- */

static int record(struct rt_cache *c, void *ptr, const struct rt_lane_key *key, const char *op)
{
	struct heap_block *b;
	struct rt_lane *lane;
	uint64_t life = 0;
	int err;

	err = rt_lane_lock(c, &life, key, &lane, op);
	if (err)
		return err;
	b = rt_block_find(c, ptr);
	/* its own stream is in order with itself */
	if (b && ((struct rt_lane *)b->seg->pool->owner)->stream != key->stream)
		rt_use_record(&c->lanes, b, lane);
	rt_cache_unlock(c);
	return b ? 0 : rt_not_ours(ptr, op);
}

static int erase(struct rt_cache *c, void *ptr, uint64_t stream, const char *op)
{
	const struct rt_lane *lane;
	struct heap_block *b;

	rt_bias_lock(&c->lock);
	b = rt_block_find(c, ptr);
	lane = rt_lane_find(&c->lanes, stream, NULL);
	/* that of a plain block has to be done before the driver gets it back */
	if (b && lane && ((struct rt_lane *)b->seg->pool->owner)->stream != stream)
		rt_use_erase(&c->lanes, b, lane);
	rt_bias_unlock(&c->lock);
	return b ? 0 : rt_not_ours(ptr, op);
}

NPU_API int npu_mem_record_stream(void *ptr, npu_stream stream)
{
	static const char op[] = "mem_record_stream";
	struct rt_lane_key key = { .use = true };
	struct hal_point p;
	struct rt_cache *c;
	int err;

	err = rt_enter(op);
	if (!err)
		err = rt_stream(stream, -1, op, &key.stream);
	if (!err)
		err = hal_stream_point(key.stream, &p, op);
	if (err || !ptr)
		return err;
	if (hal_load_acquire(&rt_plug_on))
		return rt_plug_stream(ptr, key.stream, true, op);
	c = rt_cache_of((uintptr_t)ptr);
	return c ? record(c, ptr, &key, op) : rt_not_ours(ptr, op);
}

NPU_API int npu_mem_erase_stream(void *ptr, npu_stream stream)
{
	static const char op[] = "mem_erase_stream";
	struct rt_cache *c;
	uint64_t h;
	int err;

	err = rt_enter(op);
	if (!err)
		err = rt_stream(stream, -1, op, &h);
	if (!err && !hal_slot_at(HAL_HANDLE_STREAM, h))
		err = hal_handle_error(HAL_HANDLE_STREAM, h, op);
	if (err || !ptr)
		return err;
	if (hal_load_acquire(&rt_plug_on))
		return rt_plug_stream(ptr, h, false, op);
	c = rt_cache_of((uintptr_t)ptr);
	return c ? erase(c, ptr, h, op) : rt_not_ours(ptr, op);
}

/* ---- giving back ---------------------------------------------------------------------------- */

NPU_API int npu_mem_empty_cache(int device)
{
	struct rt_release what = { .bytes = UINT64_MAX };
	struct rt_cache *c;
	int d, err;

	err = rt_enter("mem_empty_cache");
	if (!err)
		err = rt_device_arg(device, "mem_empty_cache", &d);
	if (err)
		return err;
	if (hal_load_acquire(&rt_plug_on))
		return rt_plug_empty(d, "mem_empty_cache");
	c = rt_cache_peek(d);
	if (c)
		rt_release(c, &what);
	return 0;
}
