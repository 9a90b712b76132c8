// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues of the simulated device: host callbacks, and the time of events.
 */
#include <pthread.h>

#include "selftests/npu_kselftest.h"

#include "selftests/drivers/simnpu_sched.h"

/* ---- callbacks ---- */

static uint64_t put_callback(struct ring *r, uint64_t fn, uint32_t flags)
{
	struct simnpu_desc d = {
		.op = SIMNPU_OP_CALLBACK, .flags = (uint16_t)flags, .callback.fn = fn,
		.callback.arg = fn * 10, .cookie = 7,
	};

	return ring_put(r, &d, NULL, false);
}

static int next(struct ctx *c, struct simnpu_callback *cb, uint64_t wait_ns)
{
	*cb = (struct simnpu_callback){
		.context = c->handle, .deadline_ns = hal_sys_now() + wait_ns,
	};
	return io(c->fd, CALLBACK_NEXT, cb);
}

static int done(struct ctx *c, const struct simnpu_callback *cb, uint32_t code)
{
	struct simnpu_callback arg = { .queue = cb->queue, .seq = cb->seq, .code = code };

	return io(c->fd, CALLBACK_DONE, &arg);
}

TEST_F(sched, callbacks_hold_the_queue_until_they_are_done)
{
	struct simnpu_callback cb, none;

	put_callback(&self->r, 1, 0);
	put_inc(&self->r, self->mem, 1);
	ASSERT_EQ(0, next(&self->c, &cb, 10 * SEC));
	EXPECT_EQ(self->r.handle, cb.queue);
	EXPECT_EQ(1, cb.seq);
	EXPECT_EQ(1, cb.fn);
	EXPECT_EQ(10, cb.arg);
	EXPECT_EQ(0, cb.flags);
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r, 1, hal_sys_now() + 5 * MS, 0));
	EXPECT_EQ(-ETIME, next(&self->c, &none, MS));
	cb.seq = 2;
	EXPECT_EQ(-EINVAL, done(&self->c, &cb, 0));
	cb.seq = 1;
	EXPECT_EQ(0, done(&self->c, &cb, 0));
	EXPECT_EQ(-EINVAL, done(&self->c, &cb, 0));
	EXPECT_EQ(0, ring_wait(&self->r, 2));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	EXPECT_FALSE(marked(&self->r));
}

TEST_F(sched, callbacks_can_fail)
{
	struct simnpu_task_error e[1];
	struct simnpu_callback cb;

	put_callback(&self->r, 1, 0);
	ASSERT_EQ(0, next(&self->c, &cb, 10 * SEC));
	EXPECT_EQ(0, done(&self->c, &cb, EPERM));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	ASSERT_EQ(1, ring_errors(&self->r, e, 1));
	EXPECT_EQ(EPERM, e[0].code);
	EXPECT_EQ(SIMNPU_OP_CALLBACK, e[0].op);
	EXPECT_EQ(7, e[0].cookie);
}

TEST_F(sched, callbacks_that_do_not_block)
{
	struct simnpu_callback cb;
	int i;

	for (i = 1; i <= 3; i++)
		put_callback(&self->r, (uint64_t)i, SIMNPU_DESC_NOBLOCK);
	EXPECT_EQ(0, ring_wait(&self->r, 3));
	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, next(&self->c, &cb, 10 * SEC));
		EXPECT_EQ((uint64_t)i, cb.fn);
		EXPECT_EQ(SIMNPU_DESC_NOBLOCK, cb.flags);
	}
	EXPECT_EQ(-EINVAL, done(&self->c, &cb, 0));
}

TEST_F(sched, a_callback_is_not_done_before_it_is_given_out)
{
	struct simnpu_callback cb = { .queue = self->r.handle, .seq = 1 };

	put_callback(&self->r, 1, 0);
	usleep(5000);	/* whether the device has come to it or not, the answer is the same */
	EXPECT_EQ(-EINVAL, done(&self->c, &cb, 0));
	/* and goes with its queue, fetched or not */
	EXPECT_EQ(0, ring_close(&self->r));
	EXPECT_EQ(-ETIME, next(&self->c, &cb, MS));
	put_callback(&self->r2, 2, 0);
	ASSERT_EQ(0, next(&self->c, &cb, 10 * SEC));
	EXPECT_EQ(0, ring_close(&self->r2));
	EXPECT_EQ(-ENOENT, done(&self->c, &cb, 0));
}

struct fetcher {
	pthread_t thread;
	struct ctx *c;
	int rc;
};

static void *next_main(void *arg)
{
	struct fetcher *f = arg;
	struct simnpu_callback cb;

	f->rc = next(f->c, &cb, 20 * SEC);
	return NULL;
}

static int next_host(struct ctx *c, struct simnpu_callback *cb, uint64_t wait_ns)
{
	*cb = (struct simnpu_callback){
		.context = c->handle, .deadline_ns = hal_sys_now() + wait_ns,
		.flags = SIMNPU_CALLBACK_HOST,
	};
	return io(c->fd, CALLBACK_NEXT, cb);
}

TEST_F(sched, host_tasks_are_given_out_apart)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_HOST, .callback.fn = 5, .tag = 3 };
	struct simnpu_callback cb, host;
	struct simnpu_task_error e[1];

	put_callback(&self->r, 1, 0);
	ring_put(&self->r2, &d, NULL, false);
	put_inc(&self->r2, self->mem, 1);
	ASSERT_EQ(0, next_host(&self->c, &host, 10 * SEC));
	EXPECT_EQ(self->r2.handle, host.queue);
	EXPECT_EQ(5, host.fn);
	EXPECT_EQ(0, host.flags);
	EXPECT_EQ(-ETIME, next_host(&self->c, &cb, MS));
	ASSERT_EQ(0, next(&self->c, &cb, 10 * SEC));
	EXPECT_EQ(self->r.handle, cb.queue);
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r2, 1, hal_sys_now() + 5 * MS, 0));
	EXPECT_EQ(0, done(&self->c, &host, ENODATA));
	EXPECT_EQ(0, ring_wait(&self->r2, 2));
	ASSERT_EQ(1, ring_errors(&self->r2, e, 1));
	EXPECT_EQ(ENODATA, e[0].code);
	EXPECT_EQ(SIMNPU_OP_HOST, e[0].op);
	EXPECT_EQ(3, e[0].tag);
	EXPECT_EQ(0, done(&self->c, &cb, 0));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
}

TEST_F(sched, callbacks_can_be_stopped)
{
	struct fetcher f = { .c = &self->c };
	struct simnpu_handle h = { .handle = self->c.handle };
	struct simnpu_callback cb;

	ASSERT_EQ(0, pthread_create(&f.thread, NULL, next_main, &f));
	usleep(10000);
	EXPECT_EQ(0, io(self->c.fd, CALLBACK_STOP, &h));
	pthread_join(f.thread, NULL);
	EXPECT_EQ(-ECANCELED, f.rc);
	EXPECT_EQ(-ECANCELED, next(&self->c, &cb, SEC));
}

TEST_F(sched, closing_ends_the_fetching_of_callbacks)
{
	struct fetcher f = { .c = &self->c, .rc = -EBADF };

	/* the thread may come too late for the file */
	while (f.rc == -EBADF || f.rc == -ENOENT) {
		ASSERT_EQ(0, pthread_create(&f.thread, NULL, next_main, &f));
		usleep(10000);
		EXPECT_EQ(0, dev_close(self->c.fd));
		pthread_join(f.thread, NULL);
		ASSERT_EQ(0, ctx_open(&self->c, 0));
	}
	EXPECT_EQ(-ECANCELED, f.rc);
}

/* ---- events ---- */

TEST_F(sched, timestamps)
{
	struct simnpu_event a = { .context = self->c.handle }, b = a;
	struct simnpu_desc d = { .op = SIMNPU_OP_RECORD };
	struct simnpu_handle h;
	uint64_t *sa, *sb;

	ASSERT_EQ(0, io(self->c.fd, EVENT_CREATE, &a));
	ASSERT_EQ(0, io(self->c.fd, EVENT_CREATE, &b));
	sa = (void *)(self->c.arena + a.stamp);
	sb = (void *)(self->c.arena + b.stamp);
	EXPECT_NE(sa, sb);
	EXPECT_EQ(0, *sa);
	d.record.event = a.handle;
	ring_put(&self->r, &d, NULL, false);
	put_delay(&self->r, 2 * MS);
	d.record.event = b.handle;
	ring_put(&self->r, &d, NULL, false);
	d.record.event = 0;
	ring_put(&self->r, &d, NULL, false);
	EXPECT_EQ(0, ring_wait(&self->r, 4));
	EXPECT_LE(2 * MS, *sb - *sa);
	/* one that is destroyed notes nothing, and is no failure */
	h = (struct simnpu_handle){ .handle = a.handle };
	EXPECT_EQ(0, io(self->c.fd, EVENT_DESTROY, &h));
	*sa = 0;
	d.record.event = a.handle;
	ring_put(&self->r, &d, NULL, false);
	EXPECT_EQ(0, ring_wait(&self->r, 5));
	EXPECT_EQ(0, *sa);
	EXPECT_FALSE(marked(&self->r));
}

TEST_HARNESS_MAIN
