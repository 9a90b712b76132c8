// SPDX-License-Identifier: MIT
/*
 * A snapshot of the cache: blocks are copied under its lock, and written as JSON without it.
 */
#include <stdlib.h>

#include "runtime/json.h"
#include "runtime/plug.h"
#include "runtime/pool.h"
#include "runtime/snapshot.h"

/* Events that are copied at once. */
#define EVENTS 64u
/* Streams as JavaScript can hold them. */
#define STREAM_MASK ((1ull << 53) - 1)

/**
 * struct piece - a block, or what begins a segment
 * @first: it is the first of a part of a segment that is mapped without a gap
 * @growable: of its segment
 * @kind: likewise
 * @state: enum heap_state
 * @addr: its first address
 * @size: its bytes
 * @requested: what was asked for
 * @stream: its stream
 * @pool: its private pool, 0: none
 */
struct piece {
	bool first;
	bool growable;
	uint8_t kind;
	uint8_t state;
	uint64_t addr;
	uint64_t size;
	uint64_t requested;
	uint64_t stream;
	uint64_t pool;
};

/**
 * struct shot - all blocks of a cache at one moment
 * @piece: the blocks
 * @count: how many
 * @room: how many there is room for
 * @past: the history until then
 */
struct shot {
	struct piece *piece;
	size_t count;
	size_t room;
	struct rt_past_events past;
};

/* ---- copying ------------------------------------------------------------------------------ */

static size_t count_locked(const struct rt_cache *c)
{
	return c->kind[RT_SMALL].sum.blocks + c->kind[RT_LARGE].sum.blocks;
}

static void copy_locked(const struct rt_cache *c, struct shot *s)
{
	const struct rt_segment *seg;
	const struct heap_block *b;
	const struct rt_lane *lane;
	struct hal_list *n;
	bool used;

	hal_list_for_each(n, &c->heap.segments) {
		seg = container_of(hal_list_entry(n, struct heap_segment, node), struct rt_segment,
				   seg);
		lane = seg->seg.pool->owner;
		for (b = seg->seg.first; b; b = b->next) {
			if (b->state == HEAP_AWAY)
				continue;
			used = b->state == HEAP_USED || b->state == HEAP_WAIT;
			s->piece[s->count++] = (struct piece){
				.first = !b->prev || b->prev->state == HEAP_AWAY,
				.growable = seg->flags & RT_SEGMENT_GROWABLE,
				.kind = (uint8_t)seg->kind,
				.state = b->state,
				.addr = b->addr,
				.size = b->size,
				.requested = used ? b->requested : 0,
				.stream = seg->stream & STREAM_MASK,
				.pool = rt_group_id(lane),
			};
		}
	}
}

/* Takes it, with room from outside the lock. */
static int take(struct rt_cache *c, struct shot *s, const char *op)
{
	size_t need;

	for (;;) {
		rt_bias_lock(&c->lock);
		rt_figures_begin(c);
		rt_cache_reap(c, UINT32_MAX);
		need = count_locked(c);
		if (need <= s->room) {
			copy_locked(c, s);
			rt_history_mark(c, &s->past);
		}
		rt_figures(c);
		rt_cache_unlock(c);
		if (need <= s->room)
			return 0;
		free(s->piece);
		s->room = need + need / 4;
		s->piece = hal_zalloc(s->room * sizeof(*s->piece));
		if (!s->piece)
			return hal_fail(-ENOMEM, op, "no memory for %zu blocks", s->room);
	}
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The blocks of a segment from one on: how many there are, and their sums. */
static size_t sum_up(const struct shot *s, size_t at, uint64_t *sum)
{
	const struct piece *p;
	size_t n = 0;

	sum[0] = sum[1] = sum[2] = sum[3] = 0;
	do {
		p = &s->piece[at + n++];
		sum[0] += p->size;
		if (p->state == HEAP_USED)
			sum[1] += p->size;
		if (p->state == HEAP_USED || p->state == HEAP_WAIT)
			sum[2] += p->size;
		sum[3] += p->requested;
	} while (at + n < s->count && !s->piece[at + n].first);
	return n;
}

static void no_frames(struct rt_json *j)
{
	rt_json_open(j, "frames", '[');
	rt_json_close(j, ']');
}

static void block(struct rt_json *j, const struct piece *p)
{
	rt_json_open(j, NULL, '{');
	rt_json_number(j, "address", p->addr);
	rt_json_number(j, "size", p->size);
	rt_json_number(j, "requested_size", p->requested);
	rt_json_text(j, "state", p->state == HEAP_USED ? "active_allocated" :
		     p->state == HEAP_WAIT ? "active_pending_free" : "inactive");
	no_frames(j);
	rt_json_close(j, '}');
}

static void segments(struct rt_json *j, const struct shot *s, int device)
{
	const struct piece *p;
	uint64_t sum[4];
	size_t at, n, i;

	rt_json_open(j, "segments", '[');
	for (at = 0; at < s->count; at += n) {
		p = &s->piece[at];
		n = sum_up(s, at, sum);
		rt_json_open(j, NULL, '{');
		rt_json_number(j, "device", (uint64_t)device);
		rt_json_number(j, "address", p->addr);
		rt_json_number(j, "total_size", sum[0]);
		rt_json_number(j, "allocated_size", sum[1]);
		rt_json_number(j, "active_size", sum[2]);
		rt_json_number(j, "requested_size", sum[3]);
		rt_json_number(j, "stream", p->stream);
		rt_json_text(j, "segment_type", p->kind == RT_SMALL ? "small" : "large");
		rt_json_open(j, "segment_pool_id", '[');
		rt_json_number(j, NULL, 0);
		rt_json_number(j, NULL, p->pool);
		rt_json_close(j, ']');
		rt_json_bool(j, "is_expandable", p->growable);
		no_frames(j);
		rt_json_open(j, "blocks", '[');
		for (i = at; i < at + n; i++)
			block(j, &s->piece[i]);
		rt_json_close(j, ']');
		rt_json_close(j, '}');
	}
	rt_json_close(j, ']');
}

static void event(struct rt_json *j, const struct rt_event *e)
{
	static const char *const action[] = {
		[RT_TRACE_ALLOC] = "alloc",
		[RT_TRACE_FREE_REQUESTED] = "free_requested",
		[RT_TRACE_FREE_COMPLETED] = "free_completed",
		[RT_TRACE_SEGMENT_ALLOC] = "segment_alloc",
		[RT_TRACE_SEGMENT_FREE] = "segment_free",
		[RT_TRACE_SEGMENT_MAP] = "segment_map",
		[RT_TRACE_SEGMENT_UNMAP] = "segment_unmap",
		[RT_TRACE_SNAPSHOT] = "snapshot",
		[RT_TRACE_OOM] = "oom",
	};

	rt_json_open(j, NULL, '{');
	rt_json_text(j, "action", action[e->action]);
	rt_json_number(j, e->action == RT_TRACE_OOM ? "device_free" : "addr", e->addr);
	rt_json_number(j, "size", e->size);
	rt_json_number(j, "stream", e->stream & STREAM_MASK);
	rt_json_number(j, "time_us", e->time_us);
	rt_json_open(j, "frames", '[');
	if (e->tag) {
		rt_json_open(j, NULL, '{');
		rt_json_text(j, "name", hal_tag_name(e->tag));
		rt_json_text(j, "filename", "");
		rt_json_number(j, "line", 0);
		rt_json_close(j, '}');
	}
	rt_json_close(j, ']');
	rt_json_close(j, '}');
}

static void traces(struct rt_json *j, struct rt_cache *c, struct shot *s)
{
	struct rt_event e[EVENTS];
	uint32_t i, n;
	int d;

	rt_json_open(j, "device_traces", '[');
	for (d = 0; d < c->device; d++) {
		rt_json_open(j, NULL, '[');
		rt_json_close(j, ']');
	}
	rt_json_open(j, NULL, '[');
	while (!j->err && (n = rt_history_read(c, &s->past, e, EVENTS)))
		for (i = 0; i < n; i++)
			event(j, &e[i]);
	rt_json_close(j, ']');
	rt_json_close(j, ']');
}

static void settings(struct rt_json *j)
{
	size_t max_split = hal_load_relaxed(&rt_mem.max_split);

	rt_json_open(j, "allocator_settings", '{');
	rt_json_bool(j, "expandable_segments", hal_load_relaxed(&rt_mem.growable));
	if (max_split != SIZE_MAX)
		rt_json_number(j, "max_split_size", max_split);
	rt_json_number(j, "large_segment_size", hal_load_relaxed(&rt_mem.large_segment));
	rt_json_close(j, '}');
}

static int write_all(struct rt_cache *c, struct shot *s, npu_mem_write_fn *write, void *arg)
{
	struct rt_json j = { .write = write, .arg = arg, .first = true };

	rt_json_open(&j, NULL, '{');
	segments(&j, s, c->device);
	traces(&j, c, s);
	settings(&j);
	rt_json_close(&j, '}');
	return rt_json_end(&j);
}

NPU_API int npu_mem_snapshot(int device, npu_mem_write_fn *write, void *arg)
{
	static const char op[] = "mem_snapshot";
	struct shot s = { .count = 0 };
	struct rt_cache *c;
	int d, err;

	err = rt_enter(op);
	if (err)
		return err;
	if (!write)
		return hal_fail(-EINVAL, op, "write is NULL");
	err = rt_device_arg(device, op, &d);
	if (!err)
		err = rt_plug_refuse(op);
	if (err)
		return err;
	c = rt_cache_get(d, op);
	if (!c)
		return -ENOMEM;
	err = take(c, &s, op);
	if (!err)
		err = write_all(c, &s, write, arg);
	free(s.piece);
	return err;
}
