// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues of the simulated device: rings, order, priorities, waits between queues,
 * failures.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/drivers/simnpu_sched.h"

/* ---- rings ---- */

TEST_F(sched, a_queue_begins_where_it_is_told)
{
	struct ring r;

	ASSERT_EQ(0, ring_open_at(&r, &self->c, 16, 0, 0, 1000));
	EXPECT_EQ(999, timeline(&r));
	EXPECT_EQ(1, r.h->doorbell);
	EXPECT_EQ(1000, put_nop(&r));
	EXPECT_EQ(0, ring_wait(&r, 1000));
	EXPECT_EQ(1000, timeline(&r));
	EXPECT_EQ(1, r.h->consumed);
	EXPECT_EQ(0, ring_close(&r));
}

TEST_F(sched, links_lead_around_a_segment)
{
	struct ring r;
	int i;

	ASSERT_EQ(0, ring_open_at(&r, &self->c, 16, 4, 0, 1));
	for (i = 0; i < 1000; i++)
		put_inc(&r, self->mem, 1);
	EXPECT_EQ(0, ring_wait(&r, 1000));
	EXPECT_EQ(1000, mem_u64(&self->c, self->mem));
	EXPECT_EQ(r.produced, hal_shm_load_acquire(&r.h->consumed));
}

TEST_F(sched, growth_behind_a_blocked_head)
{
	struct simnpu_desc d = {
		.op = SIMNPU_OP_LAUNCH, .launch.kernel = builtin(&self->c, "inc_u64"),
		.launch.blocks = 1, .launch.args_size = 16,
	};
	struct npu_simnpu_inc_args a = { self->mem, 1 };
	uint64_t head, seq = 0;
	int i;

	memcpy(d.launch.args, &a, sizeof(a));
	simnpu_test_pause(0, true);
	head = put_nop(&self->r);
	put_wait(&self->r2, self->r.handle, head);
	for (i = 0; i < 20000; i++)
		seq = ring_put(&self->r2, &d, NULL, true);
	EXPECT_EQ(0, timeline(&self->r2));
	simnpu_test_pause(0, false);
	EXPECT_EQ(0, ring_wait(&self->r2, seq));
	EXPECT_EQ(20000, mem_u64(&self->c, self->mem));
	EXPECT_EQ(self->r2.produced, hal_shm_load_acquire(&self->r2.h->consumed));
}

TEST_F(sched, segments_are_used_again)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_NOP };
	uint64_t offsets[8];
	int i, k;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, ring_grow(&self->r, 64));
		offsets[i] = self->r.seg;
		for (k = 0; k < 63; k++)
			ring_put(&self->r, &d, NULL, true);
		self->r.pos = 63;
		ASSERT_EQ(0, ring_wait(&self->r, self->r.seq - 1));
	}
	EXPECT_EQ(offsets[0], offsets[2]);
}

TEST_F(sched, descriptors_that_do_not_fit_fail_and_the_rest_runs)
{
	struct simnpu_desc bad[13] = {
		{ .op = 12 },
		{ .op = SIMNPU_OP_VALUE_WRITE },
		{ .op = SIMNPU_OP_LINK },
		{ .op = SIMNPU_OP_NOP, .flags = 1 },
		{ .op = SIMNPU_OP_CALLBACK, .flags = 2 },
		{ .op = SIMNPU_OP_HOST, .flags = SIMNPU_DESC_NOBLOCK },
		{ .op = SIMNPU_OP_LAUNCH, .launch.kernel = self->nop },
		{ .op = SIMNPU_OP_LAUNCH, .launch.kernel = self->nop, .launch.blocks = 1,
		  .launch.args_size = 25 },
		{ .op = SIMNPU_OP_COPY, .copy.size = 1, .copy.dst = self->mem },
		{ .op = SIMNPU_OP_COPY, .copy.size = 0, .copy.kind = 1 },
		{ .op = SIMNPU_OP_COPY_2D, .copy_2d.width = 1, .copy_2d.height = 1,
		  .copy_2d.kind = 1 },
		{ .op = SIMNPU_OP_WAIT, .wait.queue = 0x7fffffff, .wait.seq = 1 },
		{ .op = SIMNPU_OP_RECORD, .record.event = 0x7fffffff },
	};
	struct simnpu_task_error e[SIMNPU_ERRORS_MAX];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		bad[i].tag = (uint32_t)i;
		bad[i].cookie = 100 + i;
		ring_put(&self->r, &bad[i], NULL, false);
	}
	put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_wait(&self->r, self->r.seq - 1));
	EXPECT_TRUE(marked(&self->r));
	ASSERT_EQ((int)ARRAY_SIZE(bad), ring_errors(&self->r, e, SIMNPU_ERRORS_MAX));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(i + 1, e[i].seq);
		EXPECT_EQ(i + 1, e[i].origin_seq);
		EXPECT_EQ(self->r.handle, e[i].origin_queue);
		EXPECT_EQ(EINVAL, e[i].code);
		EXPECT_EQ(bad[i].op, e[i].op);
		EXPECT_EQ(i, e[i].tag);
		EXPECT_EQ(100 + i, e[i].cookie);
		EXPECT_NE(0, e[i].time_ns);
	}
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
}

static void expect_broken(struct __test_metadata *_metadata, struct ring *r)
{
	struct simnpu_task_error e[2];

	EXPECT_EQ(-EIO, ring_wait(r, 1));
	EXPECT_EQ(-EIO, ring_wait(r, 1000000));
	ASSERT_EQ(1, ring_errors(r, e, 2));
	EXPECT_EQ(EIO, e[0].code);
	EXPECT_EQ(0, ring_close(r));
}

TEST_F(sched, a_link_to_nowhere_breaks_the_queue)
{
	struct ring *r = &self->r;

	put_wait(&self->r2, r->handle, 50);
	/* it is parked, not only published */
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r2, 1, hal_sys_now() + 300 * MS, 0));
	ring_at(r, 0)->op = SIMNPU_OP_LINK;
	ring_at(r, 0)->link.ring = r->seg + 64;
	ring_at(r, 0)->link.slots = 64;
	ring_publish(r, 0, 1 | SIMNPU_SEQ_LINK);
	expect_broken(_metadata, r);
	/* who waits for it, goes on with a failure */
	EXPECT_EQ(0, ring_wait(&self->r2, 1));
	EXPECT_TRUE(marked(&self->r2));
}

/* Nobody may be kept busy by it, neither an engine nor who waits. */
TEST_F(sched, a_link_to_itself_breaks_the_queue)
{
	struct ring *r = &self->r;

	ring_at(r, 0)->op = SIMNPU_OP_LINK;
	ring_at(r, 0)->link.ring = r->seg;
	ring_at(r, 0)->link.slots = r->slots;
	ring_publish(r, 0, 1 | SIMNPU_SEQ_LINK);
	EXPECT_EQ(-EIO, ring_wait_engine(r, 1));
	expect_broken(_metadata, r);
}

TEST_F(sched, a_task_that_leaves_its_segment_breaks_the_queue)
{
	struct ring *r = &self->r;

	ring_at(r, 0)->slots = 63;
	ring_publish(r, 0, 1);
	expect_broken(_metadata, r);
}

/* Random bytes in rings never crash, whatever else they do. */
TEST_F(sched, garbage)
{
	uint64_t x = 88172645463325252ull;
	struct ring r;
	int i, k;

	for (i = 0; i < 300; i++) {
		ASSERT_EQ(0, ring_open_at(&r, &self->c, 16, 4, 0, 1));
		for (k = 0; k < 15; k++) {
			struct simnpu_desc *d = ring_at(&r, (uint32_t)k);
			size_t w;

			for (w = 1; w < 8; w++) {
				x ^= x << 13;
				x ^= x >> 7;
				x ^= x << 17;
				((uint64_t *)d)[w] = x;
			}
			d->op %= 13;
			d->slots &= 1;
			/* a callback would wait, and host addresses are the caller's */
			if (d->op == SIMNPU_OP_CALLBACK || d->op == SIMNPU_OP_HOST ||
			    d->op == SIMNPU_OP_COPY || d->op == SIMNPU_OP_COPY_2D)
				d->op = SIMNPU_OP_LAUNCH;
			if (d->op == SIMNPU_OP_WAIT)
				d->wait.seq &= 3;
			hal_shm_store_release(&d->seq, (uint64_t)k + 1);
		}
		ring_kick(&r);
		ring_wait_until(&r, 15, hal_sys_now() + 200000, 0);
		EXPECT_EQ(0, ring_close(&r));
	}
}

/* ---- order and priority ---- */

TEST_F(sched, arguments_of_every_size)
{
	uint64_t args[512];
	struct simnpu_task_error e[1];
	struct ring r;
	uint32_t size;

	ASSERT_EQ(0, ring_open_at(&r, &self->c, 256, 4, 0, 1));
	/* "nop" refuses arguments; "inc_u64" takes 16 bytes alone */
	memset(args, 0, sizeof(args));
	for (size = 8; size <= 4096; size += 8) {
		put_launch(&r, self->nop, 1, args, size);
		ASSERT_EQ(0, ring_wait(&r, r.seq - 1));
		ASSERT_EQ(1, ring_errors(&r, e, 1));
		EXPECT_EQ(EFAULT, e[0].code);
	}
}

/* Until the device, which is paused, has found work in all of n queues that were kicked. */
static void all_found(uint32_t n)
{
	struct simnpu_test_counters before, now;
	struct simnpu_test_device d;

	do {
		sched_yield();
		simnpu_test_device(0, &d);
	} while (d.active < n);
	/* they came into the set in a look that the next one waits for */
	simnpu_test_counters(&before);
	do {
		sched_yield();
		simnpu_test_counters(&now);
	} while (now.looks == before.looks);
}

static const char *one_core(const char *name)
{
	return strcmp(name, "simnpu_cores") ? NULL : "1";
}

/* y = x + z: of one float each. */
static void put_add(struct ring *r, uint64_t y, uint64_t x, uint64_t z)
{
	struct npu_simnpu_rows_args a = { .x = x, .y = y, .z = z, .rows = 1, .cols = 1 };

	put_launch(r, builtin(r->c, "bias_f32"), 1, &a, sizeof(a));
}

/* The core counts the queues as it comes to them: the count of each is its place. */
TEST_F(sched, higher_priorities_run_first)
{
	static const struct hal_option_reader reader = { .text = one_core };
	uint64_t place, count, one, zero;
	struct ring rings[8];
	float f = 1, got[8];
	int i;

	ASSERT_EQ(0, dev_close(self->c.fd));
	hal_option_set_reader(&reader);
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	hal_option_set_reader(NULL);
	place = mem_new(&self->c, 4096, NULL);
	ASSERT_NE(0, place);
	ASSERT_EQ(0, copy_now(&self->c, place, 0, 4096, 0));
	count = place + 1024;
	one = place + 2048;
	zero = place + 3072;
	ASSERT_EQ(0, copy_now(&self->c, one, U64(&f), sizeof(f), SIMNPU_COPY_TO_DEVICE));
	simnpu_test_pause(0, true);
	/* the last shall be the first */
	for (i = 7; i >= 0; i--) {
		ASSERT_EQ(0, ring_open_at(&rings[i], &self->c, 64, (uint32_t)i, 0, 1));
		put_add(&rings[i], count, count, one);
		put_add(&rings[i], place + (uint64_t)i * sizeof(f), count, zero);
	}
	all_found(8);
	simnpu_test_pause(0, false);
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, ring_wait_engine(&rings[i], 2));
		EXPECT_FALSE(marked(&rings[i]));
	}
	ASSERT_EQ(0, copy_now(&self->c, U64(got), place, sizeof(got), SIMNPU_COPY_TO_HOST));
	for (i = 0; i < 8; i++)
		EXPECT_EQ(i + 1, (int)got[i]);
}

/* It does not end before it is told to, by its queue being destroyed. */
TEST_F(sched, a_long_task_does_not_hold_up_other_queues)
{
	struct simnpu_info info;
	uint64_t slow;

	ASSERT_EQ(0, io(self->c.fd, INFO, &info));
	if (info.cores < 2)
		SKIP(return, "one core");
	slow = put_delay(&self->r, 3600 * SEC);
	EXPECT_EQ(0, ring_wait_engine(&self->r2, put_inc(&self->r2, self->mem, 1)));
	EXPECT_GT(slow, timeline(&self->r));
	EXPECT_EQ(0, ring_close(&self->r));
}

/*
 * The device sleeps, and one thread is woken for the only queue that has work: another one
 * must get up for what comes ready while it is busy, or is submitted.
 */
TEST_F(sched, who_runs_alone_holds_up_nobody)
{
	struct ring r3;
	uint64_t done;

	ASSERT_EQ(0, ring_open(&r3, &self->c));
	put_wait(&self->r2, self->r.handle, 1);
	done = put_nop(&self->r2);
	ring_kick(&self->r2);
	ASSERT_EQ(0, ring_wait_engine(&r3, put_nop(&r3)));
	while (!hal_shm_load_acquire(&self->r2.h->doorbell) ||
	       !hal_shm_load_acquire(&r3.h->doorbell))
		usleep(1000);
	usleep(30000);	/* asleep, if it can be: either way it must hold */
	simnpu_test_pause(0, true);
	put_nop(&self->r);
	put_delay(&self->r, 2000 * MS);
	simnpu_test_pause(0, false);
	EXPECT_TRUE(timeline_within(&self->r2, done, 1000 * MS));
	done = put_nop(&r3);
	EXPECT_TRUE(timeline_within(&r3, done, 500 * MS));
	EXPECT_EQ(1, timeline(&self->r));
	EXPECT_EQ(0, ring_wait_engine(&self->r, 2));
}

TEST_F(sched, blocks_of_a_launch_share_cores_and_never_a_core)
{
	struct simnpu_info info;
	uint64_t ns = 20 * MS, start = hal_sys_now();

	ASSERT_EQ(0, io(self->c.fd, INFO, &info));
	put_launch(&self->r, builtin(&self->c, "delay_ns"), 8, &ns, sizeof(ns));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	EXPECT_FALSE(marked(&self->r));
	/* at least: a busy machine only takes longer */
	EXPECT_LE(8 * ns / info.cores, hal_sys_now() - start);
}

/* ---- waits between queues ---- */

TEST_F(sched, a_chain_of_parked_queues_on_engines)
{
	enum { N = 10000 };
	struct ring *rings = calloc(N, sizeof(*rings));
	uint64_t head;
	int i;

	ASSERT_NE(NULL, rings);
	head = put_delay(&self->r, 100 * MS);
	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, ring_open_at(&rings[i], &self->c, 16, 4, 0, 1));
		put_wait(&rings[i], i ? rings[i - 1].handle : self->r.handle, i ? 1 : head);
	}
	EXPECT_EQ(0, ring_wait_engine(&rings[N - 1], 1));
	free(rings);
}

TEST_F(sched, a_chain_of_parked_queues_on_the_waiter)
{
	enum { N = 2000 };
	struct ring *rings = calloc(N, sizeof(*rings));
	uint64_t before;
	int i;

	ASSERT_NE(NULL, rings);
	/* without a single engine thread */
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	put_inc(&self->r, self->mem, 1);
	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, ring_open_at(&rings[i], &self->c, 16, 4, 0, 1));
		put_wait(&rings[i], i ? rings[i - 1].handle : self->r.handle, 1);
	}
	before = borrowed();
	EXPECT_EQ(0, ring_wait(&rings[N - 1], 1));
	EXPECT_EQ(N + 1, borrowed() - before);
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	free(rings);
}

TEST_F(sched, a_circle_of_waits_is_only_a_time_out)
{
	put_wait(&self->r, self->r2.handle, 1);
	put_wait(&self->r2, self->r.handle, 1);
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r, 1, hal_sys_now() + 20 * MS, 0));
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r2, 1, hal_sys_now() + 20 * MS,
					  SIMNPU_WAIT_BORROW_ALL));
	EXPECT_EQ(0, ring_close(&self->r));
	/* one that is gone has completed all */
	EXPECT_EQ(0, ring_wait(&self->r2, 1));
}

TEST_F(sched, waits_for_what_is_gone_are_over)
{
	uint32_t gone = self->r.handle;

	ASSERT_EQ(0, ring_close(&self->r));
	put_wait(&self->r2, gone, 12345);
	EXPECT_EQ(0, ring_wait(&self->r2, 1));
	EXPECT_FALSE(marked(&self->r2));
}

TEST_F(sched, waits_between_devices)
{
	struct simnpu_export ex = { .handle = self->r.handle };
	struct simnpu_import im = { 0 }, second = { 0 };
	struct simnpu_task_error e[2];
	struct simnpu_handle h;
	struct ctx other;
	struct ring far;
	uint64_t slow;

	ASSERT_EQ(0, ctx_open(&other, 1));
	ASSERT_EQ(0, ring_open(&far, &other));
	ASSERT_EQ(0, io(self->c.fd, QUEUE_EXPORT, &ex));
	im.fd = ex.fd;
	im.context = other.handle;
	second = im;
	ASSERT_EQ(0, io(other.fd, QUEUE_IMPORT, &im));
	ASSERT_EQ(0, io(other.fd, QUEUE_IMPORT, &second));
	EXPECT_NE(im.handle, second.handle);
	close(ex.fd);
	slow = put_delay(&self->r, 20 * MS);
	put_wait(&far, im.handle, slow);
	EXPECT_EQ(0, ring_wait_engine(&far, 1));
	EXPECT_LE(slow, timeline(&self->r));
	/* and with the waiter running both */
	slow = put_inc(&self->r, self->mem, 1);
	put_wait(&far, im.handle, slow);
	EXPECT_EQ(0, ring_wait(&far, 2));
	/* a failure comes with the name by which the reader knows the queue */
	slow = put_inc(&self->r, 4096, 1);
	put_wait(&far, im.handle, slow);
	EXPECT_EQ(0, ring_wait(&far, 3));
	ASSERT_EQ(1, ring_errors(&far, e, 2));
	EXPECT_EQ(im.handle, e[0].origin_queue);
	EXPECT_EQ(slow, e[0].origin_seq);
	EXPECT_EQ(3, e[0].seq);
	ASSERT_EQ(0, ring_close(&self->r));
	put_wait(&far, im.handle, 1ull << 60);
	EXPECT_EQ(0, ring_wait(&far, 4));
	h = (struct simnpu_handle){ .handle = im.handle };
	EXPECT_EQ(0, io(other.fd, QUEUE_DESTROY, &h));
	EXPECT_EQ(-ENOENT, io(other.fd, QUEUE_DESTROY, &h));
	EXPECT_EQ(0, dev_close(other.fd));
}

/* ---- failures ---- */

TEST_F(sched, failures_are_told_once_and_bounded)
{
	struct simnpu_task_error e[32];
	struct simnpu_errors arg;
	int i;

	for (i = 0; i < 40; i++)
		put_inc(&self->r, self->mem + 4096 + 8 * (uint64_t)i, 1);
	EXPECT_EQ(0, ring_wait(&self->r, 40));
	ASSERT_EQ(2, ring_errors(&self->r, e, 2));
	EXPECT_EQ(EFAULT, e[0].code);
	EXPECT_EQ(SIMNPU_OP_LAUNCH, e[0].op);
	EXPECT_EQ(self->mem + 4096, e[0].addr);
	EXPECT_EQ(2, e[1].seq);
	arg = (struct simnpu_errors){
		.list = U64(e), .queue = self->r.handle, .room = 32, .entry_size = sizeof(e[0]),
	};
	ASSERT_EQ(0, io(self->c.fd, QUEUE_ERRORS, &arg));
	/* what was dropped was told with the first two */
	EXPECT_EQ(SIMNPU_ERRORS_MAX - 2, arg.count);
	EXPECT_EQ(0, arg.dropped);
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, ring_errors(&self->r, e, 32));
}

TEST_F(sched, dropped_failures_are_counted)
{
	struct simnpu_task_error e[1];
	struct simnpu_errors arg = {
		.list = U64(e), .queue = self->r.handle, .room = 0, .entry_size = sizeof(e[0]),
	};
	int i;

	for (i = 0; i < 20; i++)
		put_inc(&self->r, 8, 1);
	EXPECT_EQ(0, ring_wait(&self->r, 20));
	ASSERT_EQ(0, io(self->c.fd, QUEUE_ERRORS, &arg));
	EXPECT_EQ(0, arg.count);
	EXPECT_EQ(4, arg.dropped);
	EXPECT_EQ(17, arg.dropped_first);
	EXPECT_EQ(20, arg.dropped_last);
	EXPECT_TRUE(marked(&self->r));
	arg.list = 8;
	arg.room = 1;
	EXPECT_EQ(-EFAULT, io(self->c.fd, QUEUE_ERRORS, &arg));
	arg.list = U64(e);
	ASSERT_EQ(0, io(self->c.fd, QUEUE_ERRORS, &arg));
	EXPECT_EQ(1, arg.count);
	EXPECT_EQ(1, e[0].seq);
}

TEST_F(sched, failures_travel_with_waits)
{
	struct simnpu_task_error e[4];
	uint64_t bad = put_inc(&self->r, 8, 1);

	put_nop(&self->r);
	put_wait(&self->r2, self->r.handle, bad);
	put_inc(&self->r2, self->mem, 1);
	EXPECT_EQ(0, ring_wait(&self->r2, 2));
	ASSERT_EQ(1, ring_errors(&self->r2, e, 4));
	EXPECT_EQ(1, e[0].seq);
	EXPECT_EQ(EFAULT, e[0].code);
	EXPECT_EQ(self->r.handle, e[0].origin_queue);
	EXPECT_EQ(bad, e[0].origin_seq);
	EXPECT_EQ(SIMNPU_OP_LAUNCH, e[0].op);
	EXPECT_EQ(8, e[0].addr);
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	/* a later task did not fail, and what did has been told */
	ASSERT_EQ(1, ring_errors(&self->r, e, 4));
	put_wait(&self->r2, self->r.handle, bad + 1);
	EXPECT_EQ(0, ring_wait(&self->r2, 3));
	EXPECT_FALSE(marked(&self->r2));
}

TEST_F(sched, fail_stop_runs_nothing_more)
{
	struct simnpu_task_error e[4];
	struct ring r;

	ASSERT_EQ(0, ring_open_at(&r, &self->c, 64, 4, SIMNPU_QUEUE_FAIL_STOP, 1));
	put_inc(&r, self->mem, 1);
	put_inc(&r, 8, 1);
	put_inc(&r, self->mem, 1);
	EXPECT_EQ(0, ring_wait(&r, 3));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	ASSERT_EQ(2, ring_errors(&r, e, 4));
	EXPECT_EQ(EFAULT, e[0].code);
	EXPECT_EQ(3, e[1].seq);
	EXPECT_EQ(ECANCELED, e[1].code);
	EXPECT_EQ(2, e[1].origin_seq);
	put_wait(&self->r2, r.handle, 3);
	EXPECT_EQ(0, ring_wait(&self->r2, 1));
	ASSERT_EQ(1, ring_errors(&self->r2, e, 4));
	EXPECT_EQ(2, e[0].origin_seq);
}

TEST_HARNESS_MAIN
