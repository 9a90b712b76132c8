// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues of the simulated device that are aborted: SIMNPU_IOCTL_QUEUE_ABORT, and
 * SIMNPU_IOCTL_QUEUE_AT.
 */
#include "selftests/drivers/simnpu_recovery.h"
#include "selftests/npu_kselftest.h"

#define LONG_NS (3600 * SEC)

FIXTURE(abort)
{
	struct ctx c;
	struct ring r;
	struct ring r2;
	uint64_t mem;
};

FIXTURE_SETUP(abort)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	ASSERT_EQ(0, ring_open(&self->r2, &self->c));
	self->mem = mem_new(&self->c, 4096, NULL);
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 0, 4096, 0));
}

FIXTURE_TEARDOWN(abort)
{
	simnpu_fault_clear();
	EXPECT_EQ(0, dev_close(self->c.fd));
}

/* The queue works: a task is run and noted. */
#define EXPECT_WORKS(r) do {						\
		uint64_t was = mem_u64((r)->c, self->mem + 64);		\
									\
		EXPECT_EQ(0, ring_wait(r, put_inc(r, self->mem + 64, 1))); \
		EXPECT_EQ(was + 1, mem_u64((r)->c, self->mem + 64));	\
		EXPECT_FALSE(marked(r));				\
	} while (0)

TEST_F(abort, nothing_queued)
{
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(0, timeline(&self->r));
	EXPECT_WORKS(&self->r);
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_WORKS(&self->r);
}

TEST_F(abort, who_is_not_there)
{
	struct simnpu_abort a = { .queue = self->c.handle };

	EXPECT_EQ(-ENOENT, io(self->c.fd, QUEUE_ABORT, &a));
	a.queue = self->r.handle;
	EXPECT_EQ(0, ring_close(&self->r));
	EXPECT_EQ(-ENOENT, io(self->c.fd, QUEUE_ABORT, &a));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
}

TEST_F(abort, what_is_queued_is_not_run)
{
	uint64_t first, last = 0;
	int i;

	simnpu_test_pause(0, true);
	first = put_inc(&self->r, self->mem, 1);
	for (i = 0; i < 40; i++)
		last = put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_abort(&self->r));
	simnpu_test_pause(0, false);
	EXPECT_EQ(last, timeline(&self->r));
	EXPECT_EQ(self->r.produced, hal_shm_load_acquire(&self->r.h->consumed));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, first));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, last));
	EXPECT_WORKS(&self->r);
	/* that one was run */
	EXPECT_EQ(0, ring_wait(&self->r, last + 1));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, last));
}

/* Who has not learnt of one abort yet learns of it behind the next. */
TEST_F(abort, twice)
{
	uint64_t first, last;

	simnpu_test_pause(0, true);
	first = put_nop(&self->r);
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, first));
	last = put_nop(&self->r);
	EXPECT_EQ(0, ring_abort(&self->r));
	simnpu_test_pause(0, false);
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, first));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, last));
	EXPECT_WORKS(&self->r);
}

/* So it is behind many, with tasks that were run in between; a stop takes nothing of it away. */
TEST_F(abort, many_times)
{
	uint64_t gone[16], done[16], wait;
	struct simnpu_task_error e;
	int i, k;

	for (i = 0; i < 16; i++) {
		simnpu_test_pause(0, true);
		gone[i] = put_nop(&self->r);
		put_nop(&self->r);
		EXPECT_EQ(0, ring_abort(&self->r));
		simnpu_test_pause(0, false);
		done[i] = put_nop(&self->r);
		ASSERT_EQ(0, ring_wait(&self->r, done[i]));
		/* nothing to discard */
		EXPECT_EQ(0, ring_abort(&self->r));
	}
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 16; i++) {
			EXPECT_EQ(-ECANCELED, ring_wait(&self->r, gone[i]));
			EXPECT_EQ(-ECANCELED, ring_wait(&self->r, gone[i] + 1));
			EXPECT_EQ(0, ring_wait(&self->r, done[i]));
		}
		if (k)
			break;
		wait = put_wait(&self->r2, self->r.handle, gone[0] + 1);
		EXPECT_EQ(0, ring_wait(&self->r2, wait));
		ASSERT_EQ(1, ring_errors(&self->r2, &e, 1));
		EXPECT_EQ(ECANCELED, e.code);
		EXPECT_EQ(gone[0], e.origin_seq);
		wait = put_wait(&self->r2, self->r.handle, done[0]);
		EXPECT_EQ(0, ring_wait(&self->r2, wait));
		EXPECT_FALSE(marked(&self->r2));
		EXPECT_EQ(0, device_stop(self->c.fd));
	}
}

TEST_F(abort, links_are_followed)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_NOP };
	uint64_t last = 0;
	int i;

	simnpu_test_pause(0, true);
	for (i = 0; i < 10000; i++)
		last = ring_put(&self->r, &d, NULL, true);
	EXPECT_EQ(0, ring_abort(&self->r));
	simnpu_test_pause(0, false);
	EXPECT_EQ(last, timeline(&self->r));
	EXPECT_EQ(self->r.produced, hal_shm_load_acquire(&self->r.h->consumed));
	EXPECT_WORKS(&self->r);
}

TEST_F(abort, what_runs_is_told_to_stop)
{
	uint64_t before, seq = put_delay(&self->r, LONG_NS), last;

	last = put_inc(&self->r, self->mem, 1);
	nap_ms(20);
	before = hal_sys_now();
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_LT(hal_sys_now() - before, SEC);
	EXPECT_EQ(last, timeline(&self->r));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, seq));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_WORKS(&self->r);
}

/* Waits under way: one that sleeps, one that looks, and one that runs the task itself. */
TEST_F(abort, waits_under_way)
{
	static const uint32_t flags[] = {
		SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_SPIN,
		SIMNPU_WAIT_NO_BORROW, 0, SIMNPU_WAIT_YIELD,
	};
	struct waiting w;
	uint64_t seq;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		seq = put_delay(&self->r, LONG_NS);
		waiting_start(&w, &self->r, seq, flags[i]);
		nap_ms(10);
		EXPECT_EQ(0, ring_abort(&self->r));
		EXPECT_EQ(-ECANCELED, waiting_end(&w)) {
			TH_LOG("flags %#x", flags[i]);
		}
		EXPECT_WORKS(&self->r);
	}
}

TEST_F(abort, a_wait_for_what_was_done_before)
{
	uint64_t done = put_nop(&self->r);

	ASSERT_EQ(0, ring_wait(&self->r, done));
	simnpu_test_pause(0, true);
	put_nop(&self->r);
	EXPECT_EQ(0, ring_abort(&self->r));
	simnpu_test_pause(0, false);
	EXPECT_EQ(0, ring_wait(&self->r, done));
}

/* A queue that waits for what is discarded goes on, and learns it. */
TEST_F(abort, queues_that_wait)
{
	struct simnpu_task_error e;
	uint64_t seq, wait, last;
	struct simnpu_desc d = {
		.op = SIMNPU_OP_LAUNCH, .tag = 7, .cookie = 77, .launch.blocks = 1,
		.launch.args_size = 8, .launch.kernel = builtin(&self->c, "delay_ns"),
	};

	memcpy(d.launch.args, &(uint64_t){ LONG_NS }, 8);
	seq = ring_put(&self->r, &d, NULL, false);
	wait = put_wait(&self->r2, self->r.handle, seq);
	last = put_inc(&self->r2, self->mem, 1);
	nap_ms(20);
	EXPECT_EQ(wait - 1, timeline(&self->r2));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(0, ring_wait(&self->r2, last));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	ASSERT_EQ(1, ring_errors(&self->r2, &e, 1));
	EXPECT_EQ(wait, e.seq);
	EXPECT_EQ(ECANCELED, e.code);
	EXPECT_EQ(self->r.handle, e.origin_queue);
	EXPECT_EQ(seq, e.origin_seq);
	EXPECT_EQ(7, e.tag);
	EXPECT_EQ(77, e.cookie);
	EXPECT_EQ(SIMNPU_OP_LAUNCH, e.op);
	/* one that comes to wait for it later learns it as well */
	wait = put_wait(&self->r2, self->r.handle, seq);
	EXPECT_EQ(0, ring_wait(&self->r2, wait));
	ASSERT_EQ(1, ring_errors(&self->r2, &e, 1));
	EXPECT_EQ(ECANCELED, e.code);
	/* and what comes behind is as good as any */
	wait = put_wait(&self->r2, self->r.handle, put_nop(&self->r));
	EXPECT_EQ(0, ring_wait(&self->r2, wait));
	EXPECT_EQ(0, ring_errors(&self->r2, &e, 1));
}

TEST_F(abort, a_queue_that_waits_itself)
{
	struct simnpu_task_error e;
	uint64_t seq = put_delay(&self->r, LONG_NS), last;

	put_wait(&self->r2, self->r.handle, seq);
	last = put_inc(&self->r2, self->mem, 1);
	nap_ms(20);
	EXPECT_EQ(0, ring_abort(&self->r2));
	EXPECT_EQ(last, timeline(&self->r2));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(0, ring_errors(&self->r2, &e, 1));
	EXPECT_WORKS(&self->r2);
	/* the other one was left alone */
	EXPECT_EQ(seq - 1, timeline(&self->r));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_WORKS(&self->r);
}

TEST_F(abort, callbacks_given_out_and_not)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_CALLBACK, .callback.fn = 1 };
	struct simnpu_callback cb = {
		.context = self->c.handle, .deadline_ns = SIMNPU_DEADLINE_NONE,
	}, done;
	uint64_t seq = ring_put(&self->r, &d, NULL, false), last;

	ASSERT_EQ(0, io(self->c.fd, CALLBACK_NEXT, &cb));
	EXPECT_EQ(seq, cb.seq);
	last = ring_put(&self->r, &d, NULL, false);
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(last, timeline(&self->r));
	/* what was given out is done without effect, the other one is not given out */
	done = (struct simnpu_callback){
		.context = self->c.handle, .queue = self->r.handle, .seq = seq,
	};
	EXPECT_EQ(0, io(self->c.fd, CALLBACK_DONE, &done));
	cb = (struct simnpu_callback){
		.context = self->c.handle, .deadline_ns = ms_from_now(20),
	};
	EXPECT_EQ(-ETIME, io(self->c.fd, CALLBACK_NEXT, &cb));
	done.seq = last + 1;
	EXPECT_EQ(-EINVAL, io(self->c.fd, CALLBACK_DONE, &done));
	EXPECT_WORKS(&self->r);
	/* one whose turn has come, and that nobody took */
	ring_put(&self->r, &d, NULL, false);
	nap_ms(5);
	EXPECT_EQ(0, ring_abort(&self->r));
	cb.deadline_ns = ms_from_now(20);
	cb.context = self->c.handle;
	EXPECT_EQ(-ETIME, io(self->c.fd, CALLBACK_NEXT, &cb));
	EXPECT_WORKS(&self->r);
}

/* What the submitter writes into a slot that is in use is not looked at again. */
TEST_F(abort, callbacks_whose_slot_is_overwritten)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_CALLBACK, .callback.fn = 1 };
	struct simnpu_callback cb = {
		.context = self->c.handle, .deadline_ns = SIMNPU_DEADLINE_NONE,
	}, done = { .context = self->c.handle, .queue = self->r.handle };
	struct simnpu_desc *slot = ring_at(&self->r, self->r.pos);

	done.seq = ring_put(&self->r, &d, NULL, false);
	ASSERT_EQ(0, io(self->c.fd, CALLBACK_NEXT, &cb));
	slot->slots = 255;
	EXPECT_EQ(0, io(self->c.fd, CALLBACK_DONE, &done));
	EXPECT_EQ(0, ring_wait(&self->r, done.seq));
	EXPECT_EQ(1, hal_shm_load_acquire(&self->r.h->consumed));
	EXPECT_EQ(0, ring_wait_engine(&self->r, put_nop(&self->r)));
	EXPECT_WORKS(&self->r);
}

TEST_F(abort, failures_are_forgotten)
{
	struct simnpu_desc bad = { .op = 200 };
	struct simnpu_task_error e;
	uint64_t seq, wait;
	int i;

	for (i = 0; i < 40; i++)
		seq = ring_put(&self->r, &bad, NULL, false);
	ASSERT_EQ(0, ring_wait(&self->r, seq));
	EXPECT_TRUE(marked(&self->r));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, ring_errors(&self->r, &e, 1));
	EXPECT_WORKS(&self->r);
	/* who waits for one that failed is not told any more */
	wait = put_wait(&self->r2, self->r.handle, seq);
	EXPECT_EQ(0, ring_wait(&self->r2, wait));
	EXPECT_EQ(0, ring_errors(&self->r2, &e, 1));
}

TEST_F(abort, a_queue_that_a_failure_has_stopped)
{
	struct simnpu_desc bad = { .op = 200 };
	uint64_t seq;
	struct ring r;

	ASSERT_EQ(0, ring_open_at(&r, &self->c, 64, 4, SIMNPU_QUEUE_FAIL_STOP, 1));
	ring_put(&r, &bad, NULL, false);
	seq = put_inc(&r, self->mem, 1);
	ASSERT_EQ(0, ring_wait(&r, seq));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(0, ring_abort(&r));
	EXPECT_WORKS(&r);
	EXPECT_EQ(0, ring_close(&r));
}

TEST_F(abort, a_broken_ring_stays_broken)
{
	ring_link(&self->r, self->r.seg + 64, 64);
	ring_kick(&self->r);
	EXPECT_EQ(-EIO, ring_wait(&self->r, 1));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(-EIO, ring_wait(&self->r, 1));
}

/* A task that does not end: the abort does not wait for ever, and comes true later. */
TEST_F(abort, too_late)
{
	uint64_t before, seq, last;
	struct waiting w;

	ASSERT_EQ(0, simnpu_fault_set("task:launch,do=stuck", NULL));
	seq = put_inc(&self->r, self->mem, 1);
	last = put_inc(&self->r, self->mem, 1);
	waiting_start(&w, &self->r, last, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	until_hit(1);
	before = hal_sys_now();
	EXPECT_EQ(-ETIME, ring_abort_until(&self->r, ms_from_now(20)));
	EXPECT_LT(hal_sys_now() - before, SEC);
	/* the wait did not have to wait for that */
	EXPECT_EQ(-ECANCELED, waiting_end(&w));
	EXPECT_EQ(seq - 1, timeline(&self->r));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, last));
	EXPECT_EQ(-ETIME, ring_abort_until(&self->r, 1));
	simnpu_fault_clear();
	until_done(&self->r, last);
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_WORKS(&self->r);
}

TEST_F(abort, what_it_is_at)
{
	struct simnpu_desc d = {
		.op = SIMNPU_OP_LAUNCH, .tag = 9, .cookie = 99, .launch.blocks = 1,
		.launch.args_size = 8, .launch.kernel = builtin(&self->c, "delay_ns"),
	};
	struct simnpu_at at = { .queue = self->r.handle };
	uint64_t seq;

	EXPECT_EQ(-ENODATA, io(self->c.fd, QUEUE_AT, &at));
	memcpy(d.launch.args, &(uint64_t){ LONG_NS }, 8);
	seq = ring_put(&self->r, &d, NULL, false);
	put_nop(&self->r);
	nap_ms(5);
	ASSERT_EQ(0, io(self->c.fd, QUEUE_AT, &at));
	EXPECT_EQ(seq, at.seq);
	EXPECT_EQ(9, at.tag);
	EXPECT_EQ(99, at.cookie);
	EXPECT_EQ(SIMNPU_OP_LAUNCH, at.op);
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(-ENODATA, io(self->c.fd, QUEUE_AT, &at));
	at.queue = self->c.handle;
	EXPECT_EQ(-ENOENT, io(self->c.fd, QUEUE_AT, &at));
}

/* ---- many at once ---- */

static _Atomic bool over;

static void *abort_again_and_again(void *arg)
{
	struct ring *r = arg;

	while (!atomic_load(&over)) {
		if (ring_abort(r))
			break;
		usleep(300);
	}
	return NULL;
}

/* Two threads abort while one submits and waits: nothing hangs, nothing is lost. */
TEST_F(abort, under_fire)
{
	uint64_t end = hal_sys_now() + SEC, seq, canceled = 0, n = 0;
	pthread_t a, b;
	int rc;

	atomic_store(&over, false);
	ASSERT_EQ(0, pthread_create(&a, NULL, abort_again_and_again, &self->r));
	ASSERT_EQ(0, pthread_create(&b, NULL, abort_again_and_again, &self->r));
	while (hal_sys_now() < end) {
		put_wait(&self->r, self->r2.handle, put_nop(&self->r2));
		put_delay(&self->r, n % 3 ? 0 : 200000);
		seq = put_inc(&self->r, self->mem, 1);
		rc = ring_wait(&self->r, seq);
		EXPECT_TRUE(!rc || rc == -ECANCELED);
		EXPECT_GE(timeline(&self->r), seq);
		canceled += rc != 0;
		n++;
	}
	atomic_store(&over, true);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	TH_LOG("%llu of %llu canceled", (unsigned long long)canceled, (unsigned long long)n);
	EXPECT_GE(n, mem_u64(&self->c, self->mem));
	EXPECT_GE(mem_u64(&self->c, self->mem), n - canceled);
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(0, ring_abort(&self->r2));
	EXPECT_WORKS(&self->r);
	EXPECT_WORKS(&self->r2);
}

static void *destroy_soon(void *arg)
{
	usleep(20000);
	ring_close(arg);
	return NULL;
}

/* A queue that is destroyed while somebody aborts it in vain. */
TEST_F(abort, and_destroyed)
{
	pthread_t t;
	struct ring r;
	int rc;

	ASSERT_EQ(0, ring_open(&r, &self->c));
	ASSERT_EQ(0, simnpu_fault_set("task:launch,do=stuck", NULL));
	put_inc(&r, self->mem, 1);
	until_hit(1);
	ASSERT_EQ(0, pthread_create(&t, NULL, destroy_soon, &r));
	rc = ring_abort_until(&r, ms_from_now(100));
	EXPECT_TRUE(rc == -ETIME || rc == -ENOENT);
	simnpu_fault_clear();
	pthread_join(t, NULL);
	EXPECT_EQ(-ENOENT, ring_abort(&r));
	EXPECT_WORKS(&self->r);
}

TEST_HARNESS_MAIN
