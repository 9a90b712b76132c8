// SPDX-License-Identifier: MIT
/*
 * Blocking mode, for debugging: each submission waits for its task, and returns
 * its failure.
 *
 * It costs nothing where it is off: streams made while it is on have other ops
 * than the driver's, whose submissions say HAL_SUBMIT_BLOCK instead of 0, and what
 * follows is done on the way that leads outside the lock anyway.
 */
#include "hal/internal.h"

/**
 * struct blocking - the ops of a driver's streams in blocking mode
 * @driver: the driver's
 * @ops: those of streams: the driver's but for submissions
 */
struct blocking {
	const struct hal_stream_ops *driver;
	struct hal_stream_ops ops;
};

/* Protects: made, made_count; entries are never changed once they are counted. */
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static struct blocking made[8];
static uint32_t made_count;
static _Atomic bool wanted;

static const struct hal_stream_ops *driver_of(const struct hal_stream *s)
{
	return container_of(s->ops, struct blocking, ops)->driver;
}

/* What a submission says that the driver has answered so. */
static int answer(int rc)
{
	if (rc < 0)
		return rc;
	return rc ? HAL_SUBMIT_BLOCK_KICK : HAL_SUBMIT_BLOCK;
}

static int do_launch(struct hal_stream *s, const struct hal_task *t, const struct hal_launch *l)
{
	return answer(driver_of(s)->launch(s, t, l));
}

static int do_copy(struct hal_stream *s, const struct hal_task *t, const struct hal_copy *c)
{
	return answer(driver_of(s)->copy(s, t, c));
}

static int do_fill(struct hal_stream *s, const struct hal_task *t, void *dst, int byte, size_t size)
{
	return answer(driver_of(s)->fill(s, t, dst, byte, size));
}

static int do_wait(struct hal_stream *s, const struct hal_task *t, struct hal_stream *other,
		   uint64_t seq)
{
	return answer(driver_of(s)->wait(s, t, other, seq));
}

static int do_record(struct hal_stream *s, const struct hal_task *t, struct hal_event *e)
{
	return answer(driver_of(s)->record(s, t, e));
}

static int do_callback(struct hal_stream *s, const struct hal_task *t, void (*fn)(void *arg),
		       void *arg, uint32_t flags)
{
	return answer(driver_of(s)->callback(s, t, fn, arg, flags));
}

static void make(struct blocking *b, const struct hal_stream_ops *driver)
{
	b->driver = driver;
	b->ops = *driver;
	b->ops.launch = do_launch;
	b->ops.copy = do_copy;
	b->ops.fill = do_fill;
	b->ops.wait = do_wait;
	b->ops.record = do_record;
	b->ops.callback = do_callback;
}

/* The ops of a new stream. */
const struct hal_stream_ops *hal_stream_ops_of(const struct hal_driver *drv)
{
	const struct hal_stream_ops *ops = drv->stream;
	uint32_t i;

	if (likely(!hal_load_relaxed(&wanted)))	/* relaxed: set before streams are made */
		return ops;
	pthread_mutex_lock(&made_lock);
	for (i = 0; i < made_count && made[i].driver != drv->stream; i++)
		;
	if (i == made_count && i < ARRAY_SIZE(made))
		make(&made[made_count++], drv->stream);
	if (i < made_count)
		ops = &made[i].ops;
	pthread_mutex_unlock(&made_lock);
	return ops;
}

/**
 * hal_set_blocking() - whether submissions wait for their tasks
 * @on: whether; for streams that are made from now on
 */
void hal_set_blocking(bool on)
{
	hal_store_relaxed(&wanted, on);	/* relaxed: see above */
}

int hal_blocking_wait(struct hal_submit *sub, int code, int64_t timeout_ms)
{
	struct hal_point p = { .stream = sub->stream, .seq = sub->seq };

	if (code == HAL_SUBMIT_BLOCK_KICK)
		sub->s->ops->kick(sub->s);
	/* there a later wait tells of it */
	if (hal_in_callback())
		return 0;
	return hal_point_sync(&p, timeout_ms, 0);
}
