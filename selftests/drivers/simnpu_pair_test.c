// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two devices, and the callback thread, of the simulator's user-mode half.
 */
#include "selftests/drivers/umd.h"
#include "selftests/npu_kselftest.h"

FIXTURE(pair) {
	struct side x;
	struct side y;
	struct simnpu_desc task[65];
};

FIXTURE_SETUP(pair)
{
	fake_init();
	simnpu_sys = &fake_sys;
	up(&self->x, 0, 1);
	up(&self->y, 1, 1);
}

FIXTURE_TEARDOWN(pair)
{
	EXPECT_EQ(0, fake.live);
	fake_exit();
}

TEST_F(pair, import_once)
{
	const struct simnpu_import *i = FAKE_ARG(SIMNPU_IOCTL_QUEUE_IMPORT, struct simnpu_import);
	const struct hal_stream_ops *ops = drv()->stream;
	struct hal_stream *x = &self->x.s->base, *y = &self->y.s->base;
	const struct hal_task t = { .seq = 1 };
	uint32_t calls;
	int live = fake.live;

	/* unknown yet, and no call may be made there */
	calls = fake_calls();
	EXPECT_EQ(-EAGAIN, ops->wait(x, &t, y, 5));
	EXPECT_EQ(calls, fake_calls());
	EXPECT_EQ(0, ops->prepare_wait(x, y));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_EXPORT));
	EXPECT_EQ(self->y.s->handle,
		  FAKE_ARG(SIMNPU_IOCTL_QUEUE_EXPORT, struct simnpu_export)->handle);
	EXPECT_EQ(self->x.ctx->handle, i->context);
	/* the descriptor was closed, the import is what is left */
	EXPECT_EQ(live + 1, fake.live);
	EXPECT_EQ(0, ops->prepare_wait(x, y));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_EXPORT));
	calls = fake_calls();
	EXPECT_EQ(0, ops->wait(x, &t, y, 5));
	EXPECT_EQ(calls, fake_calls());
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(i->handle, self->task[0].wait.queue);
	EXPECT_EQ(5, self->task[0].wait.seq);
	/* the other way is another import */
	EXPECT_EQ(-EAGAIN, ops->wait(y, &t, x, 5));
	down(&self->y);
	EXPECT_EQ(2, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_DESTROY));
	down(&self->x);
}

TEST_F(pair, importer_ends_first)
{
	const struct hal_stream_ops *ops = drv()->stream;
	struct hal_stream *y = &self->y.s->base;
	struct side z = { .dev = self->x.dev };
	struct simnpu_foreign *first;

	ASSERT_EQ(0, ops->prepare_wait(&self->x.s->base, y));
	stream_down(&self->x);
	context_down(&self->x);
	/* a new context knows nothing of it, and its import takes the old one's place */
	ASSERT_EQ(0, context_up(&z));
	ASSERT_EQ(0, stream_up(&z, 1));
	EXPECT_EQ(0, ops->prepare_wait(&z.s->base, y));
	EXPECT_EQ(2, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_IMPORT));
	first = hal_load_relaxed(&self->y.s->imports);
	EXPECT_EQ(NULL, first->next);
	down(&z);
	down(&self->y);
}

TEST_F(pair, two_importers)
{
	const struct hal_stream_ops *ops = drv()->stream;
	struct side z = { .dev = self->x.dev };
	uint32_t a, b;

	ASSERT_EQ(0, context_up(&z));
	ASSERT_EQ(0, stream_up(&z, 1));
	ASSERT_EQ(0, ops->prepare_wait(&self->x.s->base, &self->y.s->base));
	ASSERT_EQ(0, ops->prepare_wait(&z.s->base, &self->y.s->base));
	EXPECT_TRUE(simnpu_import_find(self->x.ctx, self->y.s, &a));
	EXPECT_TRUE(simnpu_import_find(z.ctx, self->y.s, &b));
	EXPECT_NE(a, b);
	EXPECT_EQ(hal_load_relaxed(&self->y.s->base.handle), simnpu_import_name(z.ctx, b));
	EXPECT_EQ(0, simnpu_import_name(z.ctx, a));
	stream_down(&z);
	context_down(&z);
	EXPECT_TRUE(simnpu_import_find(self->x.ctx, self->y.s, &a));
	down(&self->y);
	EXPECT_EQ(0, simnpu_import_name(self->x.ctx, a));
	down(&self->x);
}

TEST_F(pair, export_and_import_refused)
{
	const struct hal_stream_ops *ops = drv()->stream;
	struct hal_stream *x = &self->x.s->base, *y = &self->y.s->base;
	int live = fake.live;

	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_EXPORT, EMFILE);
	EXPECT_EQ(-EMFILE, ops->prepare_wait(x, y));
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_EXPORT, 0);
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_IMPORT, ENOMEM);
	EXPECT_EQ(-ENOMEM, ops->prepare_wait(x, y));
	EXPECT_EQ(live, fake.live);
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_IMPORT, 0);
	EXPECT_EQ(0, ops->prepare_wait(x, y));
	EXPECT_EQ(live + 1, fake.live);
	down(&self->x);
	down(&self->y);
}

TEST_F(pair, origin_on_another_device)
{
	struct hal_task_error e;
	uint64_t dropped = 0;
	uint32_t handle;

	ASSERT_EQ(0, drv()->stream->prepare_wait(&self->x.s->base, &self->y.s->base));
	ASSERT_TRUE(simnpu_import_find(self->x.ctx, self->y.s, &handle));
	fake.errors[0] = (struct simnpu_task_error){
		.seq = 2, .origin_seq = 8, .origin_queue = handle, .code = EIO,
		.op = SIMNPU_OP_WAIT,
	};
	fake.error_count = 1;
	ASSERT_EQ(1, drv()->stream->errors(&self->x.s->base, &e, 1, &dropped));
	EXPECT_EQ(hal_load_relaxed(&self->y.s->base.handle), e.origin_stream);
	EXPECT_EQ(8, e.origin_seq);
	down(&self->x);
	down(&self->y);
}

/* ---- callbacks ------------------------------------------------------------ */

FIXTURE(call) {
	struct side x;
	struct simnpu_desc task[65];
};

FIXTURE_SETUP(call)
{
	fake_init();
	simnpu_sys = &fake_sys;
	up(&self->x, 0, 1000);
}

FIXTURE_TEARDOWN(call)
{
	down(&self->x);
	EXPECT_EQ(0, fake.live);
	fake_exit();
}

static _Atomic int ran, inside, hold;

static void callback(void *arg)
{
	inside = hal_in_callback();
	while (hold)
		usleep(100);
	ran += (int)(uintptr_t)arg;
}

static int submit_callback(struct side *x, uint32_t flags)
{
	const struct hal_task t = { .seq = x->seq };
	int rc = drv()->stream->callback(&x->s->base, &t, callback, (void *)3, flags);

	if (rc >= 0)
		x->seq++;
	return rc;
}

/* What the device does when a callback's turn has come. */
static void deliver(const struct simnpu_desc *d, uint32_t queue)
{
	pthread_mutex_lock(&fake.lock);
	fake.callback = (struct simnpu_callback){
		.queue = queue, .seq = d->seq, .fn = d->callback.fn, .arg = d->callback.arg,
		.flags = d->flags,
	};
	fake.callback_count = 1;
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
}

static void until_ran(int n)
{
	while (ran != n)
		usleep(100);
}

TEST_F(call, callbacks)
{
	struct side *x = &self->x;

	EXPECT_EQ(-EAGAIN, submit_callback(x, 0));
	EXPECT_EQ(0, FAKE_CALLS(SIMNPU_IOCTL_CALLBACK_NEXT));
	ASSERT_EQ(0, drv()->stream->prepare(&x->s->base));
	ASSERT_EQ(0, submit_callback(x, 0));
	ASSERT_EQ(0, submit_callback(x, NPU_CALLBACK_NOBLOCK));
	ASSERT_EQ(1, fake_take(x->q, self->task));
	EXPECT_EQ(SIMNPU_OP_CALLBACK, self->task[0].op);
	EXPECT_EQ(0, self->task[0].flags);
	deliver(self->task, x->s->handle);
	until_ran(3);
	EXPECT_EQ(1, (int)inside);
	EXPECT_FALSE(hal_in_callback());
	pthread_mutex_lock(&fake.lock);
	while (!fake.done_count)
		pthread_cond_wait(&fake.changed, &fake.lock);
	pthread_mutex_unlock(&fake.lock);
	EXPECT_EQ(1000, FAKE_ARG(SIMNPU_IOCTL_CALLBACK_DONE, struct simnpu_callback)->seq);
	EXPECT_EQ(x->s->handle,
		  FAKE_ARG(SIMNPU_IOCTL_CALLBACK_DONE, struct simnpu_callback)->queue);
	ASSERT_EQ(1, fake_take(x->q, self->task));
	EXPECT_EQ(SIMNPU_DESC_NOBLOCK, self->task[0].flags);
	deliver(self->task, x->s->handle);
	until_ran(6);
}

TEST_F(call, noblock_is_not_answered)
{
	struct side *x = &self->x;

	EXPECT_EQ(-EAGAIN, submit_callback(x, NPU_CALLBACK_NOBLOCK));
	ASSERT_EQ(0, drv()->stream->prepare(&x->s->base));
	ASSERT_EQ(0, submit_callback(x, NPU_CALLBACK_NOBLOCK));
	ASSERT_EQ(1, fake_take(x->q, self->task));
	deliver(self->task, x->s->handle);
	until_ran(3);
	/* the end of the thread is the end of what it could still say */
	simnpu_callbacks_stop(x->ctx);
	EXPECT_EQ(0, fake.done_count);
}

static int no_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	return EAGAIN;
}

TEST_F(call, no_callback_thread)
{
	struct hal_sys_ops ops = hal_sys_libc;

	ops.thread_create = no_thread;
	EXPECT_EQ(-EAGAIN, submit_callback(&self->x, 0));
	hal_sys_set(&ops);
	EXPECT_EQ(-ENOMEM, drv()->stream->prepare(&self->x.s->base));
	hal_sys_set(NULL);
	/* other tasks are not held up, and it can be tried again */
	EXPECT_EQ(0, launch_full(&self->x, NULL, 0));
	EXPECT_EQ(-EAGAIN, submit_callback(&self->x, 0));
	EXPECT_EQ(0, drv()->stream->prepare(&self->x.s->base));
	EXPECT_EQ(0, submit_callback(&self->x, 0));
}

/*
 * A callback that does not return holds the end of its context up for some seconds only; for
 * ever would be seen by the watchdog.
 */
TEST_F(call, a_callback_that_does_not_return)
{
	struct side *x = &self->x;

	EXPECT_EQ(-EAGAIN, submit_callback(x, 0));
	ASSERT_EQ(0, drv()->stream->prepare(&x->s->base));
	ASSERT_EQ(0, submit_callback(x, 0));
	ASSERT_EQ(1, fake_take(x->q, self->task));
	hold = 1;
	deliver(self->task, x->s->handle);
	while (!inside)
		usleep(100);
	simnpu_callbacks_stop(x->ctx);
	EXPECT_EQ(0, (int)ran);
	hold = 0;
	until_ran(3);
	usleep(10000);
	/* it does not speak to a device that may be gone */
	EXPECT_EQ(0, fake.done_count);
}

TEST_HARNESS_MAIN
