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

/* What every begin does first; a failure leaves a guard whose end does nothing. */
static inline struct rt_thread *begin(struct npu_guard *g, const char *op, int *err)
{
	struct rt_thread *t;

	g->magic = NOTHING;
	g->what = 0;
	*err = rt_enter(op);
	if (unlikely(*err))
		return NULL;
	t = rt_thread(op);
	if (unlikely(!t))
		*err = -ENOMEM;
	return t;
}

NPU_API int npu_guard_device(struct npu_guard *guard, int device)
{
	struct rt_thread *t;
	int err;

	if (unlikely(!guard))
		return hal_fail(-EINVAL, "guard_device", "guard is NULL");
	t = begin(guard, "guard_device", &err);
	if (unlikely(!t))
		return err;
	if (unlikely(device == NPU_DEVICE_CURRENT)) {
		save(guard, t, SAVED_DEVICE);
		return 0;
	}
	if (unlikely(device < 0 || (uint32_t)device >= rt.visible.count))
		return rt_device_arg(device < 0 ? INT_MIN : device, "guard_device", &device);
	save(guard, t, SAVED_DEVICE);
	if (t->device != device)
		t->context = 0;
	t->device = device;
	rt_thread_zero(t);
	return 0;
}

static int guard_stream(struct npu_guard *g, struct rt_thread *t, uint64_t h, int d,
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
	t = begin(guard, "guard_stream", &err);
	if (unlikely(!t))
		return err;
	if (unlikely(hal_handle_type(stream.h) != HAL_HANDLE_STREAM))
		return hal_handle_error(HAL_HANDLE_STREAM, stream.h, "guard_stream");
	d = rt_handle_device(t, stream.h, "guard_stream");
	if (unlikely(d < 0))
		return d;
	return guard_stream(guard, t, stream.h, d, SAVED_DEVICE | SAVED_STREAM);
}

NPU_API int npu_guard_secondary(struct npu_guard *guard)
{
	npu_stream before, secondary;
	struct rt_thread *t;
	int d, err;

	if (!guard)
		return hal_fail(-EINVAL, "guard_secondary", "guard is NULL");
	t = begin(guard, "guard_secondary", &err);
	if (!t)
		return err;
	d = rt_thread_device(t);
	/* made now, as the end must not open anything */
	err = npu_stream_current(d, &before);
	if (!err)
		err = npu_stream_secondary(d, &secondary);
	if (err)
		return err;
	return guard_stream(guard, t, secondary.h, d, SAVED_DEVICE | SAVED_STREAM | SECONDARY);
}

/* Whether a stream can be put back: not one that was destroyed with its device. */
static bool alive(uint64_t h)
{
	const struct hal_slot *slot = hal_slot_at(HAL_HANDLE_STREAM, h);

	return slot && hal_slot_is(slot, h);
}

/* The stream that is current again waits for the secondary one. */
static int join(uint64_t secondary, uint64_t place)
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

static inline void put_back(const struct npu_guard *g, struct rt_thread *t)
{
	if (g->what & SAVED_STREAM)
		t->dev[g->stream_device].current =
			g->stream.h && alive(g->stream.h) ? g->stream.h : 0;
	t->device = g->device;
	t->context = g->context.h;
	rt_thread_zero(t);
}

NPU_API int npu_guard_end(struct npu_guard *guard)
{
	uint64_t secondary = 0;
	struct rt_thread *t;

	if (unlikely(!guard))
		return hal_fail(-EINVAL, "guard_end", "guard is NULL");
	if (unlikely(guard->magic != MAGIC)) {
		if (guard->magic != NOTHING)
			return hal_fail(-EINVAL, "guard_end", "ended already, or never begun");
		guard->magic = 0;
		return 0;
	}
	t = rt_thread("guard_end");
	if (unlikely(!t))
		return -ENOMEM;
	if (unlikely(guard->thread != t->id))
		return hal_fail(-EPERM, "guard_end", "begun by another thread");
	guard->magic = 0;
	if (unlikely(guard->pad != t->life)) {
		guard->what = 0;
		return 0;
	}
	if (unlikely(guard->what & SECONDARY))
		secondary = t->dev[guard->stream_device].current;
	put_back(guard, t);
	guard->what = 0;
	return unlikely(secondary) ? join(secondary, RT_PLACE) : 0;
}
