// SPDX-License-Identifier: MIT
/*
 * Guards: what a thread had set, put back as it was.
 *
 * Ending one works in every state of the library, and opens nothing. What lay
 * in a device that was closed meanwhile, or in a library finalized meanwhile, is
 * not put back: there is nothing left that it could mean.
 */
#include "runtime/internal.h"

#define MAGIC 0x6e70755f67756172ull	/* begun */
#define NOTHING 0x6e70755f6e6f6e65ull	/* begun in vain */

#define SAVED_DEVICE (1u << 0)
#define SAVED_STREAM (1u << 1)
#define SECONDARY (1u << 2)

/* Notes what is set. pad: the life of the library that it belongs to. */
static inline void save(struct npu_guard *g, const struct rt_thread *t, uint32_t what)
{
	g->magic = MAGIC;
	g->thread = t->id;
	g->device = t->device;
	g->context.h = t->context;
	g->what = what;
	g->pad = t->life;
}

/* Of a begin that failed the end does nothing. */
static int __attribute__((cold, noinline)) in_vain(struct npu_guard *g, int err)
{
	g->magic = NOTHING;
	g->what = 0;
	return err;
}

NPU_API int npu_guard_device(struct npu_guard *guard, int device)
{
	struct rt_thread *t;
	int err;

	if (unlikely(!guard))
		return hal_fail(-EINVAL, "guard_device", "guard is NULL");
	err = rt_enter("guard_device");
	if (unlikely(err))
		return in_vain(guard, err);
	t = rt_thread("guard_device");
	if (unlikely(!t))
		return in_vain(guard, -ENOMEM);
	if (unlikely((uint32_t)device >= rt.visible.count)) {
		if (device != NPU_DEVICE_CURRENT)
			return in_vain(guard, rt_device_bad(device, "guard_device"));
		save(guard, t, SAVED_DEVICE);
		return 0;
	}
	save(guard, t, SAVED_DEVICE);
	if (t->device != device)
		t->context = 0;
	t->device = device;
	rt_thread_zero(t);
	return 0;
}

static inline int guard_stream(struct npu_guard *g, struct rt_thread *t, uint64_t h, int d,
			       uint32_t what)
{
	save(g, t, what);
	g->stream.h = t->dev[d].current;
	g->stream_device = d;
	if (t->device != d)
		t->context = 0;
	t->device = d;
	t->dev[d].current = h;
	t->zero = h;
	return 0;
}

NPU_API int npu_guard_stream(struct npu_guard *guard, npu_stream stream)
{
	struct rt_thread *t;
	int d, err;

	if (unlikely(!guard))
		return hal_fail(-EINVAL, "guard_stream", "guard is NULL");
	err = rt_enter("guard_stream");
	if (unlikely(err))
		return in_vain(guard, err);
	t = rt_thread("guard_stream");
	if (unlikely(!t))
		return in_vain(guard, -ENOMEM);
	if (unlikely(hal_handle_type(stream.h) != HAL_HANDLE_STREAM))
		return in_vain(guard, hal_handle_error(HAL_HANDLE_STREAM, stream.h,
						       "guard_stream"));
	d = rt_handle_device(t, stream.h, "guard_stream");
	if (unlikely(d < 0))
		return in_vain(guard, d);
	return guard_stream(guard, t, stream.h, d, SAVED_DEVICE | SAVED_STREAM);
}

NPU_API int npu_guard_secondary(struct npu_guard *guard)
{
	npu_stream before, secondary;
	struct rt_thread *t;
	int d, err;

	if (!guard)
		return hal_fail(-EINVAL, "guard_secondary", "guard is NULL");
	err = rt_enter("guard_secondary");
	if (err)
		return in_vain(guard, err);
	t = rt_thread("guard_secondary");
	if (!t)
		return in_vain(guard, -ENOMEM);
	d = rt_thread_device(t);
	/* made now, as the end must not open anything */
	err = npu_stream_current(d, &before);
	if (!err)
		err = npu_stream_secondary(d, &secondary);
	if (err)
		return in_vain(guard, err);
	return guard_stream(guard, t, secondary.h, d, SAVED_DEVICE | SAVED_STREAM | SECONDARY);
}

/* Whether a stream can be put back: not one that was destroyed with its device. */
static bool alive(uint64_t h)
{
	const struct hal_slot *slot = hal_slot_at(HAL_HANDLE_STREAM, h);

	return slot && hal_slot_is(slot, h);
}

/* The stream that is current again waits for the secondary one. */
static int __attribute__((noinline)) join(uint64_t secondary, uint64_t place)
{
	struct hal_point p;
	uint64_t h;
	int err;

	if (!hal_ready() || !alive(secondary))
		return 0;
	err = rt_stream(NPU_STREAM_CURRENT, -1, "guard_end", &h);
	if (!err)
		err = hal_stream_point(secondary, &p, "guard_end");
	return err ? err : hal_stream_wait_point(h, &p, place);
}

/* A guard that nobody has written over. */
static inline bool in_range(const struct npu_guard *g)
{
	return g->device >= NPU_DEVICE_CURRENT && g->device < RT_DEVICES &&
	       (!(g->what & SAVED_STREAM) || (uint32_t)g->stream_device < RT_DEVICES);
}

/* What took the place of a stream that is stale; none: the default one. */
static uint64_t __attribute__((cold, noinline)) heir(int d, uint64_t stream)
{
	uint64_t now;

	return rt_successor(d, stream, &now) ? 0 : now;
}

/* The stream to be put back is stale. */
static inline bool outdated(const struct npu_guard *g)
{
	return (g->what & SAVED_STREAM) && unlikely(g->stream.h) && !alive(g->stream.h);
}

static inline void put_back(struct npu_guard *g, struct rt_thread *t)
{
	if (g->what & SAVED_STREAM)
		t->dev[g->stream_device].current = g->stream.h;
	t->device = g->device;
	t->context = g->context.h;
	rt_thread_zero(t);
	g->magic = 0;
	g->what = 0;
}

/* All that is not a plain end. */
static int __attribute__((cold, noinline)) end_slow(struct npu_guard *g, uint64_t place)
{
	uint64_t secondary = 0;
	struct rt_thread *t;

	if (!g)
		return hal_fail(-EINVAL, "guard_end", "guard is NULL");
	if (g->magic == NOTHING) {
		g->magic = 0;
		return 0;
	}
	if (g->magic != MAGIC || !in_range(g))
		return hal_fail(-EINVAL, "guard_end", "ended already, or never begun");
	t = rt_thread("guard_end");
	if (!t)
		return -ENOMEM;
	if (g->thread != t->id)
		return hal_fail(-EPERM, "guard_end", "begun by another thread");
	if (g->pad != t->life) {
		g->magic = 0;
		g->what = 0;
		return 0;
	}
	if (g->what & SECONDARY)
		secondary = t->dev[g->stream_device].current;
	if (outdated(g))
		g->stream.h = heir(g->stream_device, g->stream.h);
	put_back(g, t);
	return secondary ? join(secondary, place) : 0;
}

NPU_API int npu_guard_end(struct npu_guard *guard)
{
	struct hal_tls *tls = hal_tls_peek();
	struct rt_thread *t = tls ? tls->runtime : NULL;

	if (unlikely(!guard || !t || guard->magic != MAGIC || guard->thread != t->id ||
		     guard->pad != t->life || t->epoch != hal_load_acquire(&rt.epoch) ||
		     (guard->what & SECONDARY) || !in_range(guard) || outdated(guard)))
		return end_slow(guard, RT_PLACE);
	put_back(guard, t);
	return 0;
}
