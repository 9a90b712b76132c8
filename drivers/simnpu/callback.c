// SPDX-License-Identifier: MIT
/*
 * The callback threads of a context: they ask the device for callbacks whose turn
 * has come, and run them one at a time. One runs the program's; the other begins
 * what the host is to carry out, and is never kept waiting. Each is made when the
 * first task for it is submitted.
 */
#include <stdlib.h>
#include <time.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"

/* How long a context's end waits for a callback that does not return. */
#define STOP_MS 5000
/* Until a call of the device that failed is tried again. */
#define AGAIN_NS 1000000

/**
 * struct simnpu_callbacks - a callback thread
 * @ref: the thread and its context hold one each
 * @sys: how the device is reached
 * @fd: the device's node
 * @context: what the device calls the context
 * @kind: what it calls
 * @thread: the thread
 * @stopping: its context ends: calls that fail are not tried again
 * @complained: it was said that a call failed
 * @gone: set by the thread as its last act that others wait for
 * @lock: Protects: @abandoned, @late, clearing @held, and the node from being closed while the
 *	thread uses it
 * @abandoned: its context has ended: the thread must not touch the device
 * @aborts: counts aborts and stops: what was handed out before one may not be wanted any more
 * @busy: queue whose callback runs, 0: none
 * @watched: somebody waits for @busy to change
 * @held: queue that the callback that runs holds up, 0: none
 * @late: that queue was aborted meanwhile: what is behind the callback is discarded
 *
 * Outlives the context when a callback does not return.
 */
struct simnpu_callbacks {
	struct kref ref;
	const struct hal_sys_ops *sys;
	int fd;
	uint32_t context;
	enum simnpu_called kind;
	pthread_t thread;
	_Atomic bool stopping;
	_Atomic bool complained;
	_Atomic uint32_t gone;
	pthread_mutex_t lock;
	bool abandoned;
	_Atomic uint32_t aborts;
	_Atomic uint32_t busy;
	_Atomic uint32_t watched;
	_Atomic uint32_t held;
	bool late;
};

static void callbacks_release(struct kref *ref)
{
	struct simnpu_callbacks *cb = container_of(ref, struct simnpu_callbacks, ref);

	pthread_mutex_destroy(&cb->lock);
	free(cb);
}

/* Not the end of the context or queue, nor that nothing is queued any more. */
static bool passes(int err)
{
	return err && err != -ECANCELED && err != -ENOENT && err != -EBADF && err != -EINVAL &&
	       err != -ENODATA;
}

/*
 * Whether a call of the device is to be tried again: streams would wait for ever for a thread
 * that ends because of a failure that passes. In between it naps.
 */
static bool again(struct simnpu_callbacks *cb, int err)
{
	const struct timespec nap = { .tv_nsec = AGAIN_NS };

	if (likely(!passes(err)))
		return false;
	if (!atomic_exchange(&cb->complained, true))
		hal_warn(HAL_LOG_DRIVER, "context %u: callbacks: error %d, tried again",
			 cb->context, -err);
	nanosleep(&nap, NULL);
	return !atomic_load(&cb->stopping);
}

/* Whether its queue waits for its return. Who begins a host task says by simnpu_host_done(). */
static bool holds_up(const struct simnpu_callbacks *cb, const struct simnpu_callback *c)
{
	return cb->kind == SIMNPU_CALLBACKS && !(c->flags & SIMNPU_DESC_NOBLOCK);
}

/* Tells the device that a callback has returned; or, aborted meanwhile, to discard the rest. */
static int tell_locked(struct simnpu_callbacks *cb, const struct simnpu_callback *c)
{
	struct simnpu_callback done = {
		.context = cb->context,
		.queue = c->queue,
		.seq = c->seq,
	};
	struct simnpu_abort abort = { .queue = c->queue, .deadline_ns = 1 };
	int err;

	if (cb->abandoned)
		return -ECANCELED;
	if (!holds_up(cb, c))
		return 0;
	if (likely(!cb->late))
		return hal_sys_ioctl(cb->sys, cb->fd, SIMNPU_IOCTL_CALLBACK_DONE, &done);
	err = hal_sys_ioctl(cb->sys, cb->fd, SIMNPU_IOCTL_QUEUE_ABORT, &abort);
	/* on its way; or the device is lost, and with it all that was queued */
	return err == -ETIME || err == -ENODEV ? 0 : err;
}

/* Runs one callback and tells the device. Return: 0, or why the thread has to end. */
static int callback_run(struct simnpu_callbacks *cb, struct simnpu_callback *c)
{
	void (*fn)(void *arg) = (void (*)(void *))(uintptr_t)c->fn;
	int err;

	/* relaxed: an abort that does not see it yet discards all, and then waits */
	hal_store_relaxed(&cb->held, holds_up(cb, c) ? c->queue : 0);
	hal_callback_enter();
	fn((void *)(uintptr_t)c->arg);
	hal_callback_leave();
	do {
		pthread_mutex_lock(&cb->lock);
		err = tell_locked(cb, c);
		if (!passes(err)) {
			cb->late = false;
			hal_store_relaxed(&cb->held, 0);
		}
		pthread_mutex_unlock(&cb->lock);
	} while (again(cb, err));
	/* the queue was destroyed meanwhile: nobody waits for the answer */
	return err == -ENOENT ? 0 : err;
}

/* Whether the queue is not at the callback any more. One that the stream left behind counts not. */
static bool callback_gone(struct simnpu_callbacks *cb, const struct simnpu_callback *c)
{
	struct simnpu_at at = { .queue = c->queue };
	int err;

	if (c->flags & SIMNPU_DESC_NOBLOCK)
		return false;
	do
		err = hal_sys_ioctl(cb->sys, cb->fd, SIMNPU_IOCTL_QUEUE_AT, &at);
	while (again(cb, err));
	return err || at.seq != c->seq;
}

/*
 * Runs what was handed out, unless it was discarded meanwhile: an abort counts,
 * asks the device, and then looks at busy; we set busy and then look at the count.
 */
static int callback_take(struct simnpu_callbacks *cb, struct simnpu_callback *c, uint32_t aborts)
{
	int err = 0;

	atomic_store(&cb->busy, c->queue);
	if (likely(atomic_load(&cb->aborts) == aborts) || !callback_gone(cb, c))
		err = callback_run(cb, c);
	atomic_store(&cb->busy, 0);
	if (unlikely(atomic_load(&cb->watched)))
		hal_sys_futex_wake(&cb->busy, INT_MAX);
	return err;
}

static void *callback_thread(void *arg)
{
	struct simnpu_callbacks *cb = arg;
	struct simnpu_callback c;
	uint32_t aborts;
	int err;

	do {
		aborts = atomic_load(&cb->aborts);
		c = (struct simnpu_callback){
			.deadline_ns = SIMNPU_DEADLINE_NONE,
			.context = cb->context,
			.flags = cb->kind == SIMNPU_HOST_TASKS ? SIMNPU_CALLBACK_HOST : 0,
		};
		err = hal_sys_ioctl(cb->sys, cb->fd, SIMNPU_IOCTL_CALLBACK_NEXT, &c);
		if (!err)
			err = callback_take(cb, &c, aborts);
	} while (!err || again(cb, err));
	if (err != -ECANCELED && !atomic_load(&cb->stopping))
		hal_err(HAL_LOG_DRIVER, "context %u: callbacks end: error %d", cb->context, -err);
	/* release: what the last callback did is done for who sees it */
	hal_store_release(&cb->gone, 1);
	hal_sys_futex_wake(&cb->gone, INT_MAX);
	kref_put(&cb->ref, callbacks_release);
	return NULL;
}

/**
 * simnpu_callbacks_start() - start a callback thread of a context
 * @ctx: the context; its lock is held
 * @kind: which
 *
 * Return: 0, -ENOMEM.
 */
int simnpu_callbacks_start(struct simnpu_ctx *ctx, enum simnpu_called kind)
{
	struct simnpu_device *dev = simnpu_device_of(&ctx->base);
	struct simnpu_callbacks *cb;
	int err;

	cb = hal_zalloc(sizeof(*cb));
	if (!cb)
		goto fail;
	kref_init(&cb->ref);
	kref_get(&cb->ref);
	cb->sys = dev->sys;
	cb->fd = dev->fd;
	cb->context = ctx->handle;
	cb->kind = kind;
	pthread_mutex_init(&cb->lock, NULL);
	err = hal_sys_thread_create(&cb->thread, kind == SIMNPU_HOST_TASKS ? "npu-host" :
				    "npu-callback", callback_thread, cb);
	if (err)
		goto free_cb;
	ctx->callbacks[kind] = cb;
	/* relaxed: submissions only ask whether there is a thread */
	hal_store_relaxed(&ctx->callback_state[kind], SIMNPU_CALLBACK_RUNNING);
	return 0;

free_cb:
	callbacks_release(&cb->ref);
fail:
	hal_store_relaxed(&ctx->callback_state[kind], SIMNPU_CALLBACK_NONE);
	return hal_fail(-ENOMEM, "stream_callback", "the callback thread cannot be made");
}

/**
 * simnpu_callbacks_abort() - before what is queued in a context's streams is discarded
 * @ctx: the context
 */
void simnpu_callbacks_abort(struct simnpu_ctx *ctx)
{
	uint32_t i;

	pthread_mutex_lock(&ctx->lock);
	for (i = 0; i < SIMNPU_CALLED; i++)
		if (ctx->callbacks[i])
			atomic_fetch_add(&ctx->callbacks[i]->aborts, 1);
	pthread_mutex_unlock(&ctx->lock);
}

/* A callback thread of a context with a reference, or NULL: it has none. */
static struct simnpu_callbacks *callbacks_get(struct simnpu_ctx *ctx, enum simnpu_called kind)
{
	struct simnpu_callbacks *cb;

	pthread_mutex_lock(&ctx->lock);
	cb = ctx->callbacks[kind];
	if (cb)
		kref_get(&cb->ref);
	pthread_mutex_unlock(&ctx->lock);
	return cb;
}

/**
 * simnpu_host_done() - a host task is done
 * @base: its stream
 * @seq: its number
 * @code: 0, or a negative errno
 *
 * One that was discarded is not missed.
 */
void simnpu_host_done(struct hal_stream *base, uint64_t seq, int code)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_callback done = {
		.context = to_simnpu_ctx(base->ctx)->handle,
		.queue = s->handle,
		.seq = seq,
		.code = (uint32_t)-code,
	};
	/* begun by the thread that is asked whether the context ends */
	struct simnpu_callbacks *cb = callbacks_get(to_simnpu_ctx(base->ctx), SIMNPU_HOST_TASKS);
	int err;

	do
		err = hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_CALLBACK_DONE, &done);
	while (cb && again(cb, err));
	if (cb)
		kref_put(&cb->ref, callbacks_release);
	if (err && err != -ENOENT && err != -EINVAL)
		hal_err(HAL_LOG_DRIVER, "queue %u: the end of task %llu is not taken: error %d",
			s->handle, (unsigned long long)seq, -err);
}

/* Waits for the callback of a queue, 0: of any; gives the reference back. 0 or -ETIMEDOUT. */
static int settle(struct simnpu_callbacks *cb, uint32_t queue, uint64_t deadline)
{
	uint32_t busy;
	int err = 0;

	atomic_store(&cb->watched, 1);
	while (!err && (busy = atomic_load(&cb->busy)) && (!queue || busy == queue))
		err = hal_sys_futex_wait(&cb->busy, busy, deadline);
	kref_put(&cb->ref, callbacks_release);
	return err;
}

/**
 * simnpu_callbacks_late() - before a queue is discarded, wait for the callback that holds it up
 * @ctx: the context
 * @queue: the queue
 * @deadline: until when
 *
 * What is behind the callback is discarded as it returns, and until then waits for it.
 * Return: 0, -ETIMEDOUT.
 */
int simnpu_callbacks_late(struct simnpu_ctx *ctx, uint32_t queue, uint64_t deadline)
{
	struct simnpu_callbacks *cb = callbacks_get(ctx, SIMNPU_CALLBACKS);
	bool held;

	if (!cb)
		return 0;
	pthread_mutex_lock(&cb->lock);
	/* relaxed: cleared under the lock */
	held = hal_load_relaxed(&cb->held) == queue;
	cb->late |= held;
	pthread_mutex_unlock(&cb->lock);
	if (held)
		return settle(cb, queue, deadline);
	kref_put(&cb->ref, callbacks_release);
	return 0;
}

/**
 * simnpu_callbacks_settle() - wait for a callback that runs, after its queue was discarded
 * @ctx: the context
 * @queue: the queue
 * @deadline: until when
 *
 * Return: 0, -ETIMEDOUT.
 */
int simnpu_callbacks_settle(struct simnpu_ctx *ctx, uint32_t queue, uint64_t deadline)
{
	struct simnpu_callbacks *cb;
	uint32_t i;
	int err = 0;

	for (i = 0; i < SIMNPU_CALLED && !err; i++) {
		cb = callbacks_get(ctx, i);
		err = cb ? settle(cb, queue, deadline) : 0;
	}
	return err;
}

/**
 * simnpu_callbacks_abort_all() - simnpu_callbacks_abort() of all contexts of a device
 * @dev: the device
 */
void simnpu_callbacks_abort_all(struct hal_device *dev)
{
	struct hal_list *n;

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts)
		simnpu_callbacks_abort(to_simnpu_ctx(hal_list_entry(n, struct hal_context, node)));
	pthread_mutex_unlock(&dev->lock);
}

/* One of a context that is at work, with a reference, or NULL. */
static struct simnpu_callbacks *busy_of(struct simnpu_ctx *ctx)
{
	struct simnpu_callbacks *cb;
	uint32_t i;

	for (i = 0; i < SIMNPU_CALLED; i++) {
		cb = callbacks_get(ctx, i);
		if (cb && atomic_load(&cb->busy))
			return cb;
		if (cb)
			kref_put(&cb->ref, callbacks_release);
	}
	return NULL;
}

/* A callback thread of the device that is at work, with a reference, or NULL. */
static struct simnpu_callbacks *callbacks_busy(struct hal_device *dev)
{
	struct simnpu_callbacks *cb = NULL;
	struct hal_list *n;

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts) {
		cb = busy_of(to_simnpu_ctx(hal_list_entry(n, struct hal_context, node)));
		if (cb)
			break;
	}
	pthread_mutex_unlock(&dev->lock);
	return cb;
}

/**
 * simnpu_callbacks_settle_all() - wait for all callbacks of a device that run
 * @dev: the device
 * @deadline: until when
 *
 * Return: 0, -ETIMEDOUT.
 */
int simnpu_callbacks_settle_all(struct hal_device *dev, uint64_t deadline)
{
	struct simnpu_callbacks *cb;
	int err = 0;

	while (!err && (cb = callbacks_busy(dev)))
		err = settle(cb, 0, deadline);
	return err;
}

static void stop(struct simnpu_ctx *ctx, struct simnpu_callbacks *cb)
{
	uint64_t deadline = hal_sys_deadline(STOP_MS);

	/* acquire: pairs with the thread's release */
	while (!hal_load_acquire(&cb->gone))
		if (hal_sys_futex_wait(&cb->gone, 0, deadline) == -ETIMEDOUT)
			break;
	pthread_mutex_lock(&cb->lock);
	cb->abandoned = true;
	pthread_mutex_unlock(&cb->lock);
	if (hal_load_acquire(&cb->gone)) {
		pthread_join(cb->thread, NULL);
	} else {
		hal_err(HAL_LOG_DRIVER, "context %u: a callback does not return: left alone",
			ctx->handle);
		pthread_detach(cb->thread);
	}
	kref_put(&cb->ref, callbacks_release);
}

/**
 * simnpu_callbacks_stop() - end a context's callback threads
 * @ctx: the context, which ends
 *
 * Waits for the callback that runs, but not for ever: a thread that does not come back is left
 * alone, and will not touch the device.
 */
void simnpu_callbacks_stop(struct simnpu_ctx *ctx)
{
	struct simnpu_handle h = { .handle = ctx->handle };
	uint32_t i;

	for (i = 0; i < SIMNPU_CALLED; i++)
		if (ctx->callbacks[i])
			atomic_store(&ctx->callbacks[i]->stopping, true);
	if (ctx->callbacks[SIMNPU_CALLBACKS] || ctx->callbacks[SIMNPU_HOST_TASKS])
		(void)simnpu_ioctl(&ctx->base, SIMNPU_IOCTL_CALLBACK_STOP, &h);
	for (i = 0; i < SIMNPU_CALLED; i++) {
		if (ctx->callbacks[i])
			stop(ctx, ctx->callbacks[i]);
		ctx->callbacks[i] = NULL;
	}
}
