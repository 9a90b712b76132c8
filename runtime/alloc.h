/* SPDX-License-Identifier: MIT */
/*
 * The cache of device memory: what its files share.
 *
 * There is one cache for each device. Its lock is as a spin lock: no driver is called, nothing
 * waited for and nobody called back with it held. Who needs memory from the driver goes there
 * without it, and puts what he got into the heap.
 *
 * A lane is a stream that memory was allocated for, or that uses such memory; where private pools
 * are, there is a lane for each of them, too. Free blocks of a lane may be given out again to it at
 * once. Blocks that other lanes use wait in the queues of those, in the order of being freed, so
 * that only the head of each has to be looked at.
 */
#ifndef RUNTIME_ALLOC_H
#define RUNTIME_ALLOC_H

#include "npu/alloc.h"
#include "runtime/bias.h"
#include "runtime/heap.h"
#include "runtime/internal.h"

struct rt_cache;
struct rt_group;
struct rt_route;
struct rt_segment;
struct rt_sleep;
struct rt_trace;

enum rt_kind_nr {
	RT_SMALL,
	RT_LARGE,
	RT_KINDS,
};

/**
 * struct rt_use - a lane uses a block that is not its own
 * @next: another lane of the same block; once it is free, another block of the same lane
 * @lane: the lane
 * @block: the block
 * @seq: up to which task of the lane's stream; of a block that is HEAP_WAIT
 */
struct rt_use {
	struct rt_use *next;
	struct rt_lane *lane;
	struct heap_block *block;
	uint64_t seq;
};

/**
 * struct rt_lane - a stream, as far as memory is concerned
 * @next: another one in the same bucket
 * @node: in rt_lanes.active as long as @head is not NULL
 * @stream: its handle
 * @group: the private pool, NULL: none
 * @head: blocks that wait for it, struct rt_use
 * @tail: where the next one goes
 * @drained: the last task that a thread has waited for, which a stream without a timeline does not
 *	tell by itself
 * @uses: struct rt_use that name it
 * @pool: free blocks of small and large segments; NULL: none were ever asked for
 * @grow: the growable segment of each kind that takes more memory, NULL: none
 */
struct rt_lane {
	struct rt_lane *next;
	struct hal_list node;
	uint64_t stream;
	struct rt_group *group;
	struct rt_use *head;
	struct rt_use **tail;
	uint64_t drained;
	uint32_t uses;
	struct heap_pool *pool;
	struct rt_segment *grow[RT_KINDS];
};

#define RT_LANE_BUCKETS 256u

/**
 * struct rt_lanes - all lanes of an allocator, which has the lock
 * @bucket: lanes by stream and group
 * @active: lanes for which blocks wait
 * @spare: struct rt_use without a use
 * @chunks: what is to be freed in the end
 */
struct rt_lanes {
	struct rt_lane *bucket[RT_LANE_BUCKETS];
	struct hal_list active;
	struct rt_use *spare;
	struct rt_use_chunk *chunks;
};

/* Called with the allocator's lock for a block for which nobody waits any more. */
typedef void rt_lane_done_fn(void *arg, struct heap_block *b);

/* alloc_lane.c. Those with _new and _fini call the system: not under a spin lock. */
void rt_lanes_init(struct rt_lanes *l);
/* Frees all, the pools included. */
void rt_lanes_fini(struct rt_lanes *l);
struct rt_lane *rt_lane_find(const struct rt_lanes *l, uint64_t stream,
			     const struct rt_group *group);
/* With pools if asked for. NULL: no memory. */
struct rt_lane *rt_lane_new(uint64_t stream, struct rt_group *group, bool pools);
void rt_lane_free(struct rt_lane *lane);
/* Adds it; unless somebody else was faster, whose lane is returned, and *spare set to free. */
struct rt_lane *rt_lane_add(struct rt_lanes *l, struct rt_lane *lane, struct rt_lane **spare);
void rt_lane_del(struct rt_lanes *l, struct rt_lane *lane);
/* Whether the stream is gone, and all of its work done. */
bool rt_lane_dead(const struct rt_lane *lane);

struct rt_use_chunk *rt_uses_new(void);
void rt_uses_add(struct rt_lanes *l, struct rt_use_chunk *chunk);
/* The block is used by the lane; there must be a spare use. Twice is once. */
void rt_use_record(struct rt_lanes *l, struct heap_block *b, struct rt_lane *lane);
void rt_use_erase(struct rt_lanes *l, struct heap_block *b, const struct rt_lane *lane);
/*
 * The block's user frees it: it is queued for each lane that has not yet done what it has to do.
 * Return: for how many, which is also heap_block.waits; 0: it may be used again at once.
 */
uint32_t rt_uses_free(struct rt_lanes *l, struct heap_block *b);
/*
 * Looks at the heads of the queues, of @most of them at most, and calls done for each block that
 * has left the last one. Return: how many those were.
 */
uint32_t rt_lanes_reap(struct rt_lanes *l, uint32_t most, rt_lane_done_fn *done, void *arg);
/* The last point that a block waits for in each lane. Return: how many there are, up to room. */
uint32_t rt_lanes_points(const struct rt_lanes *l, struct hal_point *p, uint32_t room);
/* A point was waited for. */
void rt_lanes_drained(struct rt_lanes *l, const struct hal_point *p);

static inline bool rt_lanes_active(const struct rt_lanes *l)
{
	return !hal_list_empty(&l->active);
}

/* ---- figures ------------------------------------------------------------------------------ */

enum rt_family {
	RT_F_ALLOCATION,
	RT_F_SEGMENT,
	RT_F_ACTIVE,
	RT_F_INACTIVE,
	RT_F_ALLOCATED_BYTES,
	RT_F_RESERVED_BYTES,
	RT_F_ACTIVE_BYTES,
	RT_F_INACTIVE_BYTES,
	RT_F_REQUESTED_BYTES,
	RT_FAMILIES,
};

/**
 * struct rt_kind - figures of small or of large segments
 * @sum: the heap's; active blocks are its used ones
 * @requested: bytes that were asked for of active blocks
 * @allocs: blocks that were allocated since sums were reset
 * @alloc_bytes: their bytes
 * @alloc_requested: bytes that were asked for
 * @top: as long as what is used is not more (blocks, bytes, requested bytes), no peak is passed
 * @low: as long as what is not free beside used blocks is not less (blocks, bytes), likewise
 * @waits: active blocks that the program has freed
 * @wait_bytes: bytes of these
 * @long_frees: blocks that became free other than in the short way since sums were reset; each of
 *	the others has added itself to RT_F_INACTIVE
 * @long_bytes: their bytes
 * @add: sums of what was added since then in the long way
 * @peak: the most since peaks were reset
 * @base: what there was as sums were reset
 * @last: what the long way began with
 */
struct rt_kind {
	struct heap_sum sum;
	uint64_t requested;
	uint64_t allocs;
	uint64_t alloc_bytes;
	uint64_t alloc_requested;
	uint64_t top[3];
	int64_t low[2];
	uint64_t waits;
	uint64_t wait_bytes;
	uint64_t long_frees;
	uint64_t long_bytes;
	uint64_t add[RT_FAMILIES];
	uint64_t peak[RT_FAMILIES];
	uint64_t base[RT_FAMILIES];
	uint64_t last[RT_FAMILIES];
};

static inline struct rt_kind *rt_kind_of(const struct heap_block *b)
{
	return container_of(b->seg->sum, struct rt_kind, sum);
}

/* ---- options ------------------------------------------------------------------------------ */

/**
 * struct rt_mem - what the options say; written as the library is initialised
 * @caching: mem_caching
 * @growable: mem_growable
 * @max_split: mem_max_split_mb in bytes, SIZE_MAX: unlimited
 * @rounding: mem_max_non_split_rounding_mb in bytes
 * @gc_percent: mem_gc_threshold
 * @divisions: mem_roundup_power2_divisions
 * @large_segment: mem_large_segment_mb in bytes
 * @align: mem_block_align, at least HEAP_UNIT
 * @fraction: mem_fraction, percent
 */
struct rt_mem {
	_Atomic bool caching;
	_Atomic bool growable;
	_Atomic size_t max_split;
	_Atomic size_t rounding;
	_Atomic uint32_t gc_percent;
	_Atomic uint32_t divisions;
	_Atomic size_t large_segment;
	_Atomic size_t align;
	_Atomic uint32_t fraction;
};

extern struct rt_mem rt_mem;

/* ---- the cache ---------------------------------------------------------------------------- */

/* Requests up to this, rounded, are served from small segments. */
#define RT_SMALL_MAX (1u << 20)
#define RT_SMALL_SEGMENT (2u << 20)
#define RT_MIB (1u << 20)

/* rt_segment.flags */
#define RT_SEGMENT_GROWABLE 1u	/* addresses are reserved, memory is mapped */
#define RT_SEGMENT_PLAIN 2u	/* one block, asked for while the cache was off: never kept */
#define RT_SEGMENT_OUT 4u	/* a thread gives it back, who alone may free the structure */

/**
 * struct rt_run - memory that is mapped into a growable segment
 * @next: one at higher addresses
 * @addr: the first address
 * @size: bytes
 * @away: while a thread gives it back, who alone may free the structure then: the block that stands
 *	for its addresses
 * @out: likewise: another one
 * @point: likewise: what has to be done before
 */
struct rt_run {
	struct rt_run *next;
	uintptr_t addr;
	size_t size;
	struct heap_block *away;
	struct rt_run *out;
	struct hal_point point;
};

/**
 * struct rt_segment - a piece of memory from the driver
 * @seg: its addresses
 * @next: of those that are on their way out: another one
 * @ptr: what the driver gave; below @seg.base where that is more aligned
 * @kind: RT_SMALL or RT_LARGE
 * @flags: RT_SEGMENT_*
 * @runs: of a growable one, what is mapped, by address
 * @away: of one that is RT_SEGMENT_OUT: all of it
 * @point: likewise: what has to be done before it can be given back
 * @stream: of the lane that got it, whoever has it later
 */
struct rt_segment {
	struct heap_segment seg;
	struct rt_segment *next;
	void *ptr;
	uint32_t kind;
	uint32_t flags;
	struct rt_run *runs;
	struct heap_block *away;
	struct hal_point point;
	uint64_t stream;
};

/**
 * struct rt_cache - the cache of a device; one for each ordinal, never freed
 * @lock: Protects: all below but @rescue, @leaving, @given and @device
 * @odd: RT_ODD_*: why the short way is not enough
 * @last: the stream that memory was asked for last, as far as it has a lane; 0: none
 * @pool: of that lane, of no private pool, those of both kinds
 * @kind: figures
 * @top: as long as no more blocks are used, no peak of both kinds together is passed
 * @all_peak: the most of both kinds together
 * @life: grows as the cache is dropped: lanes and blocks that were found before are gone
 * @heap: its memory
 * @lanes: its streams
 * @dead: plain segments that are to be given back
 * @oversize_allocations: as in struct npu_mem_stats, as are the next ones
 * @oversize_segments: see there
 * @retries: see there
 * @ooms: see there
 * @syncs: see there
 * @device_allocs: see there
 * @device_frees: see there
 * @rescued_reclaim: see there
 * @rescued_gc: see there
 * @rescued_events: see there
 * @rescued_workspace: see there
 * @rescued_release: see there
 * @rescued_pools: see there
 * @fraction: of the device's memory that may be reserved
 * @reserving: bytes that threads are about to get from the driver
 * @most: the most that was in use at once, as far as growing has seen it
 * @moved: bytes that were given back because other addresses needed memory, less what is forgotten
 * @moved_at: when something was forgotten last
 * @trace: history, NULL: none is kept
 * @sleep: what sleeps, NULL: nothing, or a thread has it
 * @routes: which requests go to private pools, the latest first
 * @device: the ordinal
 * @rescue: Protects: nothing; who gives memory back for want of it does so alone
 * @leaving: threads that have taken out memory, and give it back to the driver
 * @given: grows with all that the driver has got back
 */
struct rt_cache {
	struct rt_bias lock;
	uint32_t odd;
	uint64_t last;
	struct heap_pool *pool;
	uint64_t top;
	struct rt_kind kind[RT_KINDS];
	uint64_t all_peak[RT_FAMILIES];
	uint64_t life;
	struct heap heap;
	struct rt_lanes lanes;
	struct rt_segment *dead;
	struct npu_mem_stat oversize_allocations;
	struct npu_mem_stat oversize_segments;
	uint64_t retries;
	uint64_t ooms;
	uint64_t syncs;
	uint64_t device_allocs;
	uint64_t device_frees;
	uint64_t rescued_reclaim;
	uint64_t rescued_gc;
	uint64_t rescued_events;
	uint64_t rescued_workspace;
	uint64_t rescued_release;
	uint64_t rescued_pools;
	double fraction;
	uint64_t reserving;
	uint64_t most;
	uint64_t moved;
	uint64_t moved_at;
	struct rt_trace *trace;
	struct rt_sleep *sleep;
	struct rt_route *routes;
	int device;
	pthread_mutex_t rescue;
	_Atomic uint32_t leaving;
	_Atomic uint64_t given;
} __attribute__((aligned(2 * HAL_CACHELINE)));

/* rt_cache.odd */
#define RT_ODD_WAITS (1u << 0)		/* blocks wait for streams */
#define RT_ODD_OFF (1u << 1)		/* the option mem_caching is off */
#define RT_ODD_TRACE (1u << 2)		/* history is kept */
#define RT_ODD_ROUTES (1u << 3)		/* private pools take requests */
#define RT_ODD_SIZES (1u << 4)		/* options say how to round and cut */

#define RT_ODD_SLEEP (1u << 5)		/* there is no memory */
#define RT_ODD_TAGS (1u << 6)		/* blocks have tags */

/* ---- alloc_sleep.c ---- */

void rt_sleep_free(struct rt_sleep *s);

/* ---- alloc_caching.c ---- */

/**
 * struct rt_lane_key - which lane, and what it has to have
 * @stream: its stream
 * @group: its private pool, NULL: none
 * @pools: it has pools
 * @use: there is a spare use
 */
struct rt_lane_key {
	uint64_t stream;
	struct rt_group *group;
	bool pools;
	bool use;
};

/* The cache of a device, made at first need; NULL: no memory, the record is filled. */
struct rt_cache *rt_cache_get(int d, const char *op);
/* The same if there is one, else NULL. */
struct rt_cache *rt_cache_peek(int d);
/**
 * struct rt_cache_range - which addresses are a cache's
 * @start: the first of its device
 * @size: how many, 0: it has never had any memory
 * @cache: the cache
 */
struct rt_cache_range {
	_Atomic uintptr_t start;
	_Atomic size_t size;
	struct rt_cache *_Atomic cache;
};

/* Apart from the caches, so that threads of other devices do not read there. */
extern struct rt_cache_range rt_cache_ranges[RT_DEVICES];
extern _Atomic int rt_cache_ranges_end;

static inline bool rt_cache_in_range(const struct rt_cache_range *r, uintptr_t addr)
{
	size_t size = hal_load_acquire(&r->size);

	/* relaxed: the size was released behind it */
	return addr - hal_load_relaxed(&r->start) < size;
}

struct rt_cache *rt_cache_of_others(uintptr_t addr);

/* The cache whose device has the address, or NULL. */
static inline struct rt_cache *rt_cache_of(uintptr_t addr)
{
	if (likely(rt_cache_in_range(&rt_cache_ranges[0], addr)))
		return hal_load_relaxed(&rt_cache_ranges[0].cache);
	return rt_cache_of_others(addr);
}

/* The device of a cache has these addresses. */
void rt_cache_range(struct rt_cache *c, uintptr_t start, size_t size);
/* The device was closed: nothing of it is known any more. */
void rt_cache_drop(int d);
/* In the child of a fork that has inherited nothing. */
void rt_caches_fork_child(void);
/* The options were read: caches, which are all empty, begin with them. */
void rt_caches_begin(void);
/* The option mem_caching may have changed. */
void rt_caches_toggle(void);
/*
 * Sees to it that the heap is not low. Takes the lock, which is not held when it fails: -ENOMEM, or
 * -ESTALE: the cache was dropped; *life 0 is filled in.
 */
int rt_cache_lock(struct rt_cache *c, uint64_t *life, const char *op);
/* -ESTALE, with a text. */
int rt_cache_dropped(const struct rt_cache *c, const char *op);
void rt_cache_unlock(struct rt_cache *c);

/* ---- alloc_pool.c ---- */

/* The device was closed, -1: all were: its pools are no more. */
void rt_pools_drop(int device);

/* ---- alloc_plug.c ---- */

/* What another allocator gave of the device is forgotten; -1: of all, and the allocator is. */
void rt_plug_drop(int device);

/* ---- alloc_stream.c ---- */

/* -EINVAL, with a text. */
int rt_not_ours(const void *ptr, const char *op);
/* rt_cache_lock(), and the lane, made at need. */
int rt_lane_lock(struct rt_cache *c, uint64_t *life, const struct rt_lane_key *key,
		 struct rt_lane **lane, const char *op);
/* Under the lock: the block in use that begins there, or NULL. */
static inline struct heap_block *rt_block_find(const struct rt_cache *c, const void *ptr)
{
	struct heap_block *b;

	b = heap_find(&c->heap, (uintptr_t)ptr);
	return likely(b && b->state == HEAP_USED) ? b : NULL;
}

/* A block has become the program's. */
void rt_block_took(struct rt_cache *c, struct heap_block *b, size_t size);
/* A block for which nobody waits any more, or that nobody has ever used elsewhere, becomes free. */
void rt_block_done(void *cache, struct heap_block *b);
/* Under the lock: takes what is done off the queues. Return: how many blocks those were. */
uint32_t rt_cache_reap(struct rt_cache *c, uint32_t most);

/* Bytes as they are served, and from which blocks. */
size_t rt_mem_round(size_t size);
struct heap_fit rt_mem_fit(uint32_t kind, size_t size);
void rt_oversize(struct npu_mem_stat *s, size_t size, bool more);

/* ---- alloc_request.c ---- */

/* More is refused without a look. */
#define RT_REQUEST_MAX ((size_t)(HEAP_SIZE_MAX / 4))

int rt_alloc_slow(struct rt_cache *c, size_t size, uint64_t stream, void **ptr, const char *op);

/* ---- alloc_segment.c ---- */

/**
 * struct rt_want - what memory is wanted for
 * @c: the cache
 * @life: rt_cache.life that the lane belongs to
 * @key: of @lane
 * @lane: whose pool is to get it
 * @kind: RT_SMALL or RT_LARGE
 * @asked: bytes that the program asks for
 * @size: the same, rounded
 * @op: for the error record
 */
struct rt_want {
	struct rt_cache *c;
	uint64_t life;
	struct rt_lane_key key;
	struct rt_lane *lane;
	uint32_t kind;
	size_t asked;
	size_t size;
	const char *op;
};

/* How much the driver is asked for. */
size_t rt_segment_size(uint32_t kind, size_t size);
/*
 * Gets memory from the driver and puts it into the heap. Not under the lock. Return: 0, -ENOMEM
 * (the device has none, or the limit is reached), or another error; the record is filled.
 */
int rt_segment_get(const struct rt_want *w);
/* The same for one block that goes back to the driver as it is freed. */
int rt_plain_get(const struct rt_want *w, void **ptr);

/**
 * struct rt_release - what to give back to the driver
 * @bytes: that much is enough
 * @age: only segments that were idle for so long, in heap.clock
 * @group: of this private pool, NULL: of none, or of one that is gone
 * @lent: of those as well that lend their memory
 * @oversize: only segments of at least this size
 * @now: what streams still use stays
 * @until: when to wait no longer, 0: after the operation time-out
 * @beside: nothing that lies beside this block
 */
struct rt_release {
	uint64_t bytes;
	uint64_t age;
	const struct rt_group *group;
	bool lent;
	size_t oversize;
	bool now;
	uint64_t until;
	const struct heap_block *beside;
};

/*
 * Gives free memory back to the driver, once its streams have done what they have to do; what is
 * still in use when the time is over, or inside a callback, stays. Not under the lock.
 * Return: bytes.
 */
uint64_t rt_release(struct rt_cache *c, const struct rt_release *what);
/* Whether the lane's memory is meant. */
bool rt_release_of(const struct rt_release *what, const struct rt_lane *lane);
/* Under the lock: a plain segment is free; it goes to rt_cache.dead. */
void rt_segment_dead_locked(struct rt_cache *c, struct heap_segment *seg);
/* Gives back what was in rt_cache.dead. Not under the lock. */
void rt_segments_bury(struct rt_cache *c, struct rt_segment *dead);
/* The structures of segments of a cache that was dropped. */
void rt_segments_forget(struct hal_list *segments);

/* Counts bytes that are on their way; -ENOMEM: the limit does not allow them. */
int rt_book_locked(struct rt_cache *c, size_t bytes);
void rt_unbook_locked(struct rt_cache *c, size_t bytes);
/* -ENOMEM, with a text. */
int rt_limit_reached(const struct rt_want *w);
/* Whether a point has completed, waited for until then; inside a callback nothing is waited for. */
bool rt_point_wait(const struct hal_point *p, uint64_t deadline);
/* Waits until threads that are counted are done, for as long as an operation may take. */
void rt_wait_none(_Atomic uint32_t *count);

/* ---- alloc_grow.c ---- */

/* rt_segment_get() by growing; -EOPNOTSUPP: the device cannot; -EAGAIN: it is no use. */
int rt_grow_get(const struct rt_want *w);
/*
 * Under the lock: takes free memory out, *more: not all of it, for want of block structures; gives
 * it back, as bytes; and addresses that are left.
 */
struct rt_run *rt_grow_collect(struct rt_cache *c, const struct rt_release *what, bool *more);
uint64_t rt_grow_give_back(struct rt_cache *c, struct rt_run *out, uint64_t life,
			   uint64_t deadline);
void rt_grow_release(struct rt_cache *c, uint64_t life);
void rt_runs_forget(struct rt_segment *s);

/* ---- history, of which there is none without rt_cache.trace ---- */

enum rt_trace_action {
	RT_TRACE_ALLOC,
	RT_TRACE_FREE_REQUESTED,
	RT_TRACE_FREE_COMPLETED,
	RT_TRACE_SEGMENT_ALLOC,
	RT_TRACE_SEGMENT_FREE,
	RT_TRACE_SEGMENT_MAP,
	RT_TRACE_SEGMENT_UNMAP,
	RT_TRACE_SNAPSHOT,
	RT_TRACE_OOM,
	RT_TRACE_DROP,	/* nothing of what was before is left */
};

/**
 * struct rt_trace - who keeps history
 * @note: is told what happens, under the lock
 */
struct rt_trace {
	void (*note)(struct rt_cache *c, enum rt_trace_action action, uint64_t addr, uint64_t size,
		     uint64_t stream);
};

static inline void rt_trace(struct rt_cache *c, enum rt_trace_action action, uint64_t addr,
			    uint64_t size, uint64_t stream)
{
	if (unlikely(c->trace))
		c->trace->note(c, action, addr, size, stream);
}

/* ---- alloc_figures.c ---- */

/*
 * Under the lock: what the short way has done is counted; and, after anything but the short way,
 * all figures are brought up to date. rt_cache_lock() does the first.
 */
void rt_figures_begin(struct rt_cache *c);
void rt_figures(struct rt_cache *c);
/* Peaks of what is used, and of what is free beside it. */
void rt_figures_top(struct rt_cache *c);
void rt_figures_low(struct rt_cache *c);
/* A figure now. */
uint64_t rt_figure(const struct rt_kind *k, enum rt_family f);
/* Of each of NPU_MEM_KINDS. */
void rt_family_stat(const struct rt_cache *c, enum rt_family f, struct npu_mem_stat *out);

/* ---- alloc_info.c ---- */

/* Under the lock: bytes of the largest free block. */
uint64_t rt_cache_largest(struct rt_cache *c);
/* The block in use that a pointer lies in; all but the size of *out is filled in. */
bool rt_mem_block(const void *ptr, struct npu_mem_block *out);
/* Whether it lies in memory of the cache, in use or not. */
bool rt_mem_has(const void *ptr);
/* -EINVAL, with a text, if it lies there or begins what the driver gave for it. */
int rt_mem_refuse(const void *ptr, const char *op);
/* Most that may be reserved, bytes. */
uint64_t rt_cache_limit(const struct rt_cache *c);

static inline uint64_t rt_inactive(const struct rt_kind *k)
{
	return k->sum.blocks - k->sum.used - k->sum.idle_blocks;
}

static inline uint64_t rt_inactive_bytes(const struct rt_kind *k)
{
	return k->sum.mapped - k->sum.used_bytes - k->sum.idle_bytes;
}

/* ---- alloc_oom.c ---- */

/* Calls the functions of npu_mem_add_reclaim(). Return: whether one has freed something. */
bool rt_reclaim(int device, size_t size, bool *called);
void rt_mem_hooks_lock(void);
void rt_mem_hooks_unlock(void);
/* Tells observers, and fills the record. Return: -ENOMEM. */
int rt_oom(struct rt_cache *c, size_t size, uint32_t tried, const char *op);

/* ---- alloc_pinned.c ---- */

/**
 * struct rt_pinned_opts - what the options say; written as the library is initialised
 * @limit: pinned_limit_mb in bytes, UINT64_MAX: unlimited
 * @keep: pinned_max_cached_mb in bytes, UINT64_MAX: unlimited
 * @lock: HAL_MEM_LOCKED with pinned_lock_required, else 0
 */
struct rt_pinned_opts {
	_Atomic uint64_t limit;
	_Atomic uint64_t keep;
	_Atomic uint32_t lock;
};

extern struct rt_pinned_opts rt_pinned_opts;

/* The device was closed: its pinned memory is gone. */
void rt_pinned_drop(int d);
/* In the child of a fork that has inherited nothing. */
void rt_pinned_fork_child(void);

enum rt_found {
	RT_FOUND_NONE,	/* it is none of ours */
	RT_FOUND_FREE,	/* ours, and not in use */
	RT_FOUND_USED,
};

/* The block in use that a pointer lies in. */
enum rt_found rt_pinned_block(const void *ptr, void **base, size_t *bytes);

/* ---- alloc_workspace.c ---- */

/* Gives workspaces that nobody uses back to the cache. Not under its lock. Return: bytes. */
uint64_t rt_workspace_trim(int device);
/* The device was closed: its memory is gone. */
void rt_workspace_drop(int device);
/* In the child of a fork that has inherited nothing. */
void rt_workspace_fork_child(void);

#endif /* RUNTIME_ALLOC_H */
