/* SPDX-License-Identifier: MIT */
/* A device with a context and a stream on fake nodes, without hal around them. */
#ifndef SELFTESTS_DRIVERS_UMD_H
#define SELFTESTS_DRIVERS_UMD_H

#include <stdlib.h>
#include <string.h>

#include "drivers/simnpu/simnpu.h"
#include "selftests/drivers/fake_node.h"

struct side {
	struct simnpu_device *dev;
	struct simnpu_ctx *ctx;
	struct simnpu_stream *s;
	struct fake_queue *q;
	uint64_t seq;
};

static inline const struct hal_driver *drv(void)
{
	return hal_driver_find("simnpu");
}

static inline void *make(size_t size)
{
	return hal_zalloc_aligned(HAL_CACHELINE, size);
}

static inline int device_up(struct side *x, uint32_t index)
{
	x->dev = make(drv()->device->obj_size);
	x->dev->base.drv = drv();
	x->dev->base.index = index;
	x->dev->base.ordinal = (int)index;
	return drv()->device->init(&x->dev->base);
}

static inline int context_up(struct side *x)
{
	x->ctx = make(drv()->device->context_size);
	x->ctx->base.dev = &x->dev->base;
	return drv()->device->context_init(&x->ctx->base);
}

static inline int stream_up(struct side *x, uint64_t first)
{
	int err;

	x->s = make(drv()->stream->obj_size);
	x->s->base.ops = drv()->stream;
	x->s->base.ctx = &x->ctx->base;
	x->s->base.first_seq = first;
	x->s->base.handle = 0xabc00 + first;
	x->seq = first;
	err = drv()->stream->init(&x->s->base);
	x->q = err ? NULL : fake_queue_of(x->s->handle);
	return err;
}

static inline void up(struct side *x, uint32_t index, uint64_t first)
{
	if (device_up(x, index) || context_up(x) || stream_up(x, first))
		abort();
}

static inline void stream_down(struct side *x)
{
	drv()->stream->fini(&x->s->base);
	free(x->s);
}

static inline void context_down(struct side *x)
{
	drv()->device->context_fini(&x->ctx->base);
	free(x->ctx);
}

static inline void device_down(struct side *x)
{
	drv()->device->fini(&x->dev->base);
	free(x->dev);
}

static inline void down(struct side *x)
{
	stream_down(x);
	context_down(x);
	device_down(x);
}

static inline int launch(struct side *x, const void *args, uint32_t size)
{
	const struct hal_task t = { .seq = x->seq, .place = 0x77, .tag = 5 };
	const struct hal_launch l = {
		.kernel = FAKE_KERNEL, .args = args, .blocks = 3, .args_size = size,
	};
	int rc = drv()->stream->launch(&x->s->base, &t, &l);

	if (rc >= 0)
		x->seq++;
	return rc;
}

/* As hal does: room is made when it is asked for. Returns what the last op said. */
static inline int launch_full(struct side *x, const void *args, uint32_t size)
{
	int rc = launch(x, args, size), err;

	while (rc == -EAGAIN) {
		err = drv()->stream->prepare(&x->s->base);
		if (err)
			return err;
		rc = launch(x, args, size);
	}
	return rc;
}

#endif /* SELFTESTS_DRIVERS_UMD_H */
