// SPDX-License-Identifier: MIT
/*
 * What a thread has set, and what follows from it.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

static _Atomic uint64_t last_id;

static struct rt_thread *make(const char *op)
{
	struct hal_tls *tls = hal_tls();
	struct rt_thread *t;

	t = tls ? hal_zalloc(sizeof(*t)) : NULL;
	if (!t) {
		hal_fail(-ENOMEM, op, "no memory for the thread's state");
		return NULL;
	}
	t->id = hal_add_relaxed(&last_id, 1) + 1;
	t->device = -1;
	t->life = hal_load_relaxed(&rt.life);
	tls->runtime = t;
	return t;
}

/* Whether the handle still is the object's. */
static bool alive(uint64_t h)
{
	const struct hal_slot *slot;

	slot = hal_slot_at((enum hal_handle_type)hal_handle_type(h), h);
	return slot && hal_slot_is(slot, h);
}

/*
 * After a restart of the device: a stream of the library's own has a successor, which
 * may have to be made, where that is possible now. One of the program's stays, and is
 * stale. False: to be tried again.
 */
static bool succeed(struct rt_thread *t, int d)
{
	uint64_t now;

	t->dev[d].home = 0;
	if (!t->dev[d].current)
		return true;
	/* also while the device is still away, and its old streams are not stale yet */
	if (rt_successor(d, t->dev[d].current, &now))
		return false;
	if (now)
		t->dev[d].current = now;
	return true;
}

/* Drops what was reset, destroyed or finalized since the thread looked last; false: not all. */
static bool refresh(struct rt_thread *t)
{
	uint32_t life, epoch, was;
	bool all = true;
	int d;

	life = hal_load_relaxed(&rt.life);
	if (t->life != life) {
		t->life = life;
		t->device = -1;
		t->context = 0;
	}
	for (d = 0; d < RT_DEVICES; d++) {
		epoch = hal_load_acquire(&rt_devices[d].epoch);
		if (t->dev[d].epoch == epoch)
			continue;
		was = t->dev[d].epoch;
		/* first: to make a successor is to come by here once more */
		t->dev[d].epoch = epoch;
		if (RT_EPOCH_CLOSES(was) != RT_EPOCH_CLOSES(epoch)) {
			t->dev[d].current = 0;
			t->dev[d].home = 0;
		} else if (!succeed(t, d)) {
			t->dev[d].epoch = was;
			all = false;
		}
	}
	if (t->context && !alive(t->context))
		t->context = 0;
	rt_thread_zero(t);
	return all;
}

/**
 * rt_thread_slow() - the thread's state, made if there is none, and brought up to date
 * @op: for the error record
 *
 * Return: the state, or NULL when there is no memory.
 */
__attribute__((cold)) struct rt_thread *rt_thread_slow(const char *op)
{
	struct hal_tls *tls = hal_tls_peek();
	struct rt_thread *t = tls ? tls->runtime : NULL;
	uint64_t epoch;

	if (!t)
		t = make(op);
	if (!t)
		return NULL;
	/* before the rest: what changes meanwhile is seen the next time */
	epoch = hal_load_acquire(&rt.epoch);
	/* else the next call looks again */
	t->epoch = refresh(t) ? epoch : epoch - 1;
	return t;
}

/**
 * rt_stream_zero() - find out what stream 0 means
 * @t: the thread
 * @hint: device to take if the thread has set none, or -1
 * @op: for the error record
 * @stream: out: the stream
 *
 * Return: 0, or as opening the device and making its default stream fail.
 */
int rt_stream_zero(struct rt_thread *t, int hint, const char *op, uint64_t *stream)
{
	int d, err;

	d = t->device < 0 && hint >= 0 ? hint : rt_thread_device(t);
	if (t->dev[d].current) {
		*stream = t->dev[d].current;
		return 0;
	}
	if (t->device >= 0 && t->context) {
		err = rt_stream_home(d, t->context, op, stream);
		if (!err)
			t->zero = *stream;
		return err;
	}
	*stream = t->dev[d].home;
	if (*stream)
		return 0;
	err = rt_stream_home(d, 0, op, stream);
	if (err)
		return err;
	t->dev[d].home = *stream;
	rt_thread_zero(t);
	return 0;
}

/* The ordinal of the device of an object, asked from hal; -errno. */
static int ask(uint64_t h, const char *op)
{
	struct hal_context *ctx;
	struct hal_stream *s;
	int d;

	switch (hal_handle_type(h)) {
	case HAL_HANDLE_CONTEXT:
		ctx = hal_context_get(h, op);
		if (!ctx)
			return hal_error_last()->code;
		d = rt_device_of(ctx->dev);
		hal_context_put(ctx);
		return d;
	case HAL_HANDLE_KERNEL:
		{
			const struct hal_device *dev = hal_kernel_device(h, op);

			return dev ? rt_device_of(dev) : hal_error_last()->code;
		}
	default:
		s = hal_stream_get(h, op);
		if (!s)
			return hal_error_last()->code;
		d = rt_device_of(s->ctx->dev);
		hal_stream_put(s);
		return d;
	}
}

/**
 * rt_handle_device_slow() - the device of a stream, context or kernel, by hal
 * @t: the thread, which remembers it
 * @h: the handle; of another type it is taken for a stream, and refused
 * @op: for the error record
 *
 * Return: the ordinal, or the error that the handle deserves.
 */
int rt_handle_device_slow(struct rt_thread *t, uint64_t h, const char *op)
{
	struct rt_seen *c = &t->cache[rt_cache_index(h)];
	int d = ask(h, op);

	if (d == -1)
		return hal_fail(-ESTALE, op, "the device of 0x%llx was closed",
				(unsigned long long)h);
	if (d >= 0) {
		c->handle = h;
		c->slot = hal_slot_at((enum hal_handle_type)hal_handle_type(h), h);
		c->device = d;
	}
	return d;
}

/* Notes the device that was first set in the process. */
void rt_first_set(int device)
{
	int none = -1;

	if (hal_load_relaxed(&rt.first) < 0)
		atomic_compare_exchange_strong(&rt.first, &none, device);
}
