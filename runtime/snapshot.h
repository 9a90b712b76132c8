/* SPDX-License-Identifier: MIT */
/*
 * The history of a cache: a ring of events.
 */
#ifndef RUNTIME_SNAPSHOT_H
#define RUNTIME_SNAPSHOT_H

#include "npu/snapshot.h"
#include "runtime/alloc.h"

/**
 * struct rt_event - something that happened
 * @addr: where; of RT_TRACE_OOM: bytes that the device had free
 * @size: bytes
 * @stream: for which stream
 * @time_us: when, microseconds since 1970
 * @action: enum rt_trace_action
 * @tag: the thread's tag, a number
 */
struct rt_event {
	uint64_t addr;
	uint64_t size;
	uint64_t stream;
	uint64_t time_us;
	uint32_t action;
	uint32_t tag;
};

/**
 * struct rt_history - what rt_cache.trace is, if history is kept
 * @base: what the cache knows
 * @serial: tells one from another at the same address
 * @room: events that are kept
 * @begin: events that were there before all that they tell of was gone
 * @end: events that have happened; the last one lies at (@end - 1) % @room
 * @event: the events
 */
struct rt_history {
	struct rt_trace base;
	uint64_t serial;
	uint64_t room;
	uint64_t begin;
	uint64_t end;
	struct rt_event event[];
};

/* alloc_history.c */

/* Under the lock: the history of a cache, or NULL. */
static inline struct rt_history *rt_history(const struct rt_cache *c)
{
	return (struct rt_history *)c->trace;
}

/**
 * struct rt_past_events - a part of the history that is being read
 * @serial: of the history
 * @at: the next event
 * @end: the one behind the last
 */
struct rt_past_events {
	uint64_t serial;
	uint64_t at;
	uint64_t end;
};

/* Under the lock: notes a snapshot; and all that there is until now. */
void rt_history_mark(struct rt_cache *c, struct rt_past_events *p);
/* The next events, without those not kept any more. Not under the lock. Return: how many. */
uint32_t rt_history_read(struct rt_cache *c, struct rt_past_events *p, struct rt_event *out,
			 uint32_t room);

#endif /* RUNTIME_SNAPSHOT_H */
