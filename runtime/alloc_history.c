// SPDX-License-Identifier: MIT
/*
 * The history of a cache. It is written under the cache's lock, and read in pieces, so that nobody
 * waits for long: what is overwritten meanwhile is the oldest.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/plug.h"
#include "runtime/snapshot.h"

_Static_assert(sizeof(struct rt_event) == 40, "as npu_mem_history() says");

static void note(struct rt_cache *c, enum rt_trace_action action, uint64_t addr, uint64_t size,
		 uint64_t stream)
{
	struct rt_history *h = rt_history(c);
	const struct hal_tls *t = hal_tls_peek();
	struct rt_event *e;
	struct timespec ts;

	if (action == RT_TRACE_DROP) {
		h->begin = h->end;
		return;
	}
	e = &h->event[h->end++ % h->room];
	clock_gettime(CLOCK_REALTIME, &ts);
	*e = (struct rt_event){
		.addr = addr,
		.size = size,
		.stream = stream,
		.time_us = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000,
		.action = action,
		.tag = t ? t->tag : 0,
	};
}

void rt_history_mark(struct rt_cache *c, struct rt_past_events *p)
{
	const struct rt_history *h = rt_history(c);

	*p = (struct rt_past_events){ .at = 0 };
	if (!h)
		return;
	rt_trace(c, RT_TRACE_SNAPSHOT, 0, 0, 0);
	p->serial = h->serial;
	p->end = h->end;
	p->at = h->end - h->begin > h->room ? h->end - h->room : h->begin;
}

uint32_t rt_history_read(struct rt_cache *c, struct rt_past_events *p, struct rt_event *out,
			 uint32_t room)
{
	const struct rt_history *h;
	uint32_t n = 0;

	if (p->at == p->end)
		return 0;
	rt_bias_lock(&c->lock);
	h = rt_history(c);
	if (h && h->serial == p->serial) {
		if (h->end > h->room && p->at < h->end - h->room)
			p->at = h->end - h->room;
		for (; n < room && p->at < p->end; n++)
			out[n] = h->event[p->at++ % h->room];
	}
	rt_bias_unlock(&c->lock);
	return n;
}

/* Puts another one in its place. */
static void set(struct rt_cache *c, struct rt_history *h)
{
	struct rt_history *old;

	rt_bias_lock(&c->lock);
	old = rt_history(c);
	c->trace = h ? &h->base : NULL;
	c->odd = h ? c->odd | RT_ODD_TRACE : c->odd & ~RT_ODD_TRACE;
	rt_bias_unlock(&c->lock);
	free(old);
}

static int begin(struct rt_cache *c, uint32_t entries, const char *op)
{
	static _Atomic uint64_t serials;
	struct rt_history *h;

	/* its pages are there once they are written */
	h = hal_zalloc(sizeof(*h) + entries * sizeof(h->event[0]));
	if (!h)
		return hal_fail(-ENOMEM, op, "no memory for %u events", entries);
	h->base.note = note;
	h->room = entries;
	h->serial = atomic_fetch_add(&serials, 1) + 1;
	set(c, h);
	return 0;
}

NPU_API int npu_mem_history(int device, int mode, uint32_t entries)
{
	static const char op[] = "mem_history";
	bool on = mode == NPU_MEM_HISTORY_ON;
	struct rt_cache *c;
	int d, err;

	err = rt_enter(op);
	if (err)
		return err;
	if (!on && mode != NPU_MEM_HISTORY_OFF)
		return hal_fail(-EINVAL, op, "unknown mode %d", mode);
	if (on ? !entries || entries > NPU_MEM_HISTORY_MAX : entries)
		return hal_fail(-EINVAL, op, "%u events with mode %d", entries, mode);
	err = rt_device_arg(device, op, &d);
	if (!err)
		err = rt_plug_refuse(op);
	if (err)
		return err;
	c = rt_cache_get(d, op);
	if (!c)
		return -ENOMEM;
	set(c, NULL);
	return on ? begin(c, entries, op) : 0;
}
