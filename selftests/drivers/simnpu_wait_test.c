// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads and the simulated device: those that wait, and borrow work; its engines; many
 * at once; barriers; the child of a fork.
 */
#include <pthread.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "selftests/npu_kselftest.h"

#include "selftests/drivers/simnpu_sched.h"

/* ---- waiting threads ---- */

TEST_F(sched, the_waiter_runs_what_it_waits_for)
{
	uint64_t before = borrowed();
	int i;

	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	for (i = 1; i <= 100; i++) {
		put_inc(&self->r, self->mem, 1);
		ASSERT_EQ(0, ring_wait(&self->r, (uint64_t)i));
	}
	EXPECT_EQ(100, borrowed() - before);
	EXPECT_EQ(100, mem_u64(&self->c, self->mem));
}

TEST_F(sched, no_borrowing_when_told_so)
{
	uint64_t before = borrowed();

	put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_wait_until(&self->r, 1, SIMNPU_DEADLINE_NONE, SIMNPU_WAIT_NO_BORROW));
	EXPECT_EQ(before, borrowed());
}

TEST_F(sched, with_a_deadline_only_what_is_short_is_borrowed)
{
	uint64_t big = mem_new(&self->c, 1 << 20, NULL), before = borrowed();
	char *host = malloc(1 << 20);
	const uint64_t late = hal_sys_now() + 20 * SEC;

	memset(host, 1, 1 << 20);
	put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_wait_until(&self->r, 1, late, 0));
	put_copy(&self->r, big, U64(host), 1 << 20, SIMNPU_COPY_TO_DEVICE);
	EXPECT_EQ(0, ring_wait_until(&self->r, 2, late, 0));
	EXPECT_EQ(before, borrowed());
	/* no engine: it is the waiter that runs it, or nobody */
	ASSERT_EQ(0, dev_close(self->c.fd));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	big = mem_new(&self->c, 1 << 20, NULL);
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	put_copy(&self->r, big, U64(host), 65536, SIMNPU_COPY_TO_DEVICE);
	EXPECT_EQ(0, ring_wait_until(&self->r, 1, late, 0));
	EXPECT_EQ(before + 1, borrowed());
	free(host);
}

TEST_F(sched, without_engines_a_waiter_runs_all)
{
	struct ring *r = &self->r;
	uint64_t before = borrowed();

	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	put_nop(r);
	EXPECT_EQ(-ENOMEM, ring_kick(r));
	put_inc(r, self->mem, 1);
	EXPECT_EQ(0, ring_wait_until(r, 2, hal_sys_now() + 20 * SEC, SIMNPU_WAIT_NO_BORROW));
	EXPECT_EQ(before + 2, borrowed());
	/* and when there can be one again, the next kick makes it */
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 0, 0, 0);
	put_inc(r, self->mem, 1);
	EXPECT_EQ(0, ring_kick(r));
	EXPECT_TRUE(timeline_within(r, 3, 10 * SEC));
}

TEST_F(sched, a_kick_that_found_no_engine_is_asked_for_again)
{
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	put_nop(&self->r);
	put_nop(&self->r2);
	EXPECT_EQ(1, self->r.h->doorbell);
	EXPECT_EQ(1, self->r2.h->doorbell);
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 0, 0, 0);
	put_nop(&self->r);
	EXPECT_TRUE(timeline_within(&self->r, 2, 20 * SEC));
	EXPECT_TRUE(timeline_within(&self->r2, 1, 20 * SEC));
}

TEST_F(sched, a_descriptor_asks_for_an_engine)
{
	struct simnpu_notify n = { .seq = 1, .queue = self->r.handle, .fd = eventfd(0, 0) };
	struct pollfd p = { .fd = n.fd, .events = POLLIN };

	ASSERT_LE(0, n.fd);
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 1, 0, EAGAIN);
	put_nop(&self->r);
	EXPECT_EQ(-ENOMEM, io(self->c.fd, NOTIFY, &n));
	simnpu_test_fail(SIMNPU_FAIL_THREAD, 0, 0, 0);
	EXPECT_EQ(0, io(self->c.fd, NOTIFY, &n));
	EXPECT_EQ(1, poll(&p, 1, 20000));
	close(n.fd);
}

TEST_F(sched, deadlines)
{
	const uint32_t modes[] = { 0, SIMNPU_WAIT_SPIN, SIMNPU_WAIT_YIELD, SIMNPU_WAIT_BLOCK };
	uint64_t start;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		EXPECT_EQ(-ETIME, ring_wait_until(&self->r, 1, 0, modes[i]));
		start = hal_sys_now();
		EXPECT_EQ(-ETIME, ring_wait_until(&self->r, 1, start + 5 * MS, modes[i]));
		EXPECT_LE(5 * MS, hal_sys_now() - start);
	}
	EXPECT_EQ(0, ring_wait_until(&self->r, 0, 0, 0));
	put_delay(&self->r, 20 * MS);
	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		EXPECT_EQ(0, ring_wait_until(&self->r, 1 + i, hal_sys_now() + 20 * SEC, modes[i]));
		put_delay(&self->r, 5 * MS);
	}
}

struct waiter {
	pthread_t thread;
	struct ring *r;
	uint64_t seq;
	uint32_t flags;
	int rc;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;

	w->rc = ring_wait_until(w->r, w->seq, SIMNPU_DEADLINE_NONE, w->flags);
	return NULL;
}

TEST_F(sched, many_threads_wait_for_different_tasks)
{
	struct waiter w[16];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct waiter){ .r = &self->r, .seq = ARRAY_SIZE(w) - i,
					.flags = SIMNPU_WAIT_BLOCK };
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, waiter_main, &w[i]));
	}
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		usleep(500);
		put_inc(&self->r, self->mem, 1);
	}
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].rc);
	}
	EXPECT_EQ(16, mem_u64(&self->c, self->mem));
}

TEST_F(sched, waiters_end_with_the_queue)
{
	const uint32_t modes[] = { 0, SIMNPU_WAIT_SPIN, SIMNPU_WAIT_YIELD, SIMNPU_WAIT_BLOCK };
	uint32_t ended = 0;
	struct waiter w[4];
	struct ring r;
	size_t i;

	/* a thread may come too late for its queue; until each kind was there in time */
	while (ended != 15) {
		ASSERT_EQ(0, ring_open(&r, &self->c));
		for (i = 0; i < 4; i++) {
			w[i] = (struct waiter){ .r = &r, .seq = 1, .flags = modes[i] };
			ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, waiter_main, &w[i]));
		}
		usleep(20000);
		EXPECT_EQ(0, ring_close(&r));
		for (i = 0; i < 4; i++) {
			pthread_join(w[i].thread, NULL);
			ASSERT_TRUE(w[i].rc == -ECANCELED || w[i].rc == -ENOENT);
			ended |= (uint32_t)(w[i].rc == -ECANCELED) << i;
		}
	}
}

TEST_F(sched, waiters_end_with_the_file)
{
	struct waiter w = { .r = &self->r, .seq = 1, .flags = SIMNPU_WAIT_BLOCK, .rc = -EBADF };

	/* the thread may come too late for the file */
	while (w.rc == -EBADF || w.rc == -ENOENT) {
		ASSERT_EQ(0, pthread_create(&w.thread, NULL, waiter_main, &w));
		usleep(20000);
		EXPECT_EQ(0, dev_close(self->c.fd));
		pthread_join(w.thread, NULL);
		ASSERT_EQ(0, ctx_open(&self->c, 0));
		ASSERT_EQ(0, ring_open(&self->r, &self->c));
	}
	EXPECT_EQ(-ECANCELED, w.rc);
}

TEST_F(sched, a_queue_with_work_can_be_destroyed)
{
	uint64_t begun;
	int i;

	/* in order: who sees the word, knows that the long one is at the head */
	begun = put_inc(&self->r, self->mem, 1);
	put_delay(&self->r, 3600 * SEC);
	for (i = 0; i < 10; i++)
		put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_wait_engine(&self->r, begun));
	/* the kernel looks at its stop flag; if it did not, the watchdog would see it */
	EXPECT_EQ(0, ring_close(&self->r));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
}

TEST_F(sched, notifications)
{
	int fd = eventfd(0, EFD_NONBLOCK), late = eventfd(0, EFD_NONBLOCK);
	struct simnpu_notify n = { .seq = 2, .queue = self->r.handle, .fd = fd };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t value;

	EXPECT_EQ(0, io(self->c.fd, NOTIFY, &n));
	put_nop(&self->r);
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	EXPECT_EQ(-1, read(fd, &value, sizeof(value)));
	put_nop(&self->r);
	EXPECT_EQ(1, poll(&p, 1, 10000));
	EXPECT_EQ(8, read(fd, &value, sizeof(value)));
	EXPECT_EQ(1, value);
	/* for what is done already, at once */
	EXPECT_EQ(0, io(self->c.fd, NOTIFY, &n));
	EXPECT_EQ(8, read(fd, &value, sizeof(value)));
	/* what is pending is sent when the queue goes, even if the caller has closed its own */
	n = (struct simnpu_notify){ .seq = 100, .queue = self->r.handle, .fd = late };
	EXPECT_EQ(0, io(self->c.fd, NOTIFY, &n));
	EXPECT_EQ(0, ring_close(&self->r));
	EXPECT_EQ(8, read(late, &value, sizeof(value)));
	close(fd);
	close(late);
}

/* ---- engine threads ---- */

TEST_F(sched, no_thread_before_the_first_work)
{
	struct simnpu_test_device d;

	ASSERT_TRUE(simnpu_test_device(0, &d));
	EXPECT_EQ(0, d.threads);
	put_nop(&self->r);
	ASSERT_TRUE(simnpu_test_device(0, &d));
	EXPECT_LE(1, d.threads);
	EXPECT_EQ(0, ring_wait_engine(&self->r, 1));
}

TEST_F(sched, an_active_device_needs_no_kick_and_an_idle_one_lets_go)
{
	struct simnpu_test_counters a, b;
	struct simnpu_test_device d;
	int i;

	put_nop(&self->r);
	ASSERT_TRUE(timeline_within(&self->r, 1, 10 * SEC));
	for (i = 2; i < 20; i++) {
		put_nop(&self->r);
		ASSERT_TRUE(timeline_within(&self->r, (uint64_t)i, 10 * SEC));
	}
	while (!hal_shm_load_acquire(&self->r.h->doorbell))
		usleep(10000);
	EXPECT_EQ(1, self->r.h->doorbell);
	do
		simnpu_test_device(0, &d);
	while (d.active);
	/* the last looks may be under way; one that goes on looking is the watchdog's */
	do {
		simnpu_test_counters(&a);
		usleep(100000);
		simnpu_test_counters(&b);
	} while (a.looks != b.looks);
	put_nop(&self->r);
	EXPECT_TRUE(timeline_within(&self->r, 20, 10 * SEC));
}

TEST_F(sched, work_is_found_around_the_time_of_letting_go)
{
	uint64_t seq = 0;
	int i;

	for (i = 0; i < 300; i++) {
		seq = put_nop(&self->r);
		ASSERT_TRUE(timeline_within(&self->r, seq, 10 * SEC)) {
			TH_LOG("lost in round %d", i);
		}
		usleep(9000 + (unsigned int)i * 10);
	}
}

/* ---- many threads at once ---- */

struct storm {
	pthread_t thread;
	struct ctx *c;
	uint64_t mem;
	unsigned int seed;
	int failed;
};

static void *storm_main(void *arg)
{
	struct storm *s = arg;
	struct ring a, b;
	int i;

	for (i = 0; i < 60 && !s->failed; i++) {
		s->failed |= ring_open_at(&a, s->c, 16, (uint32_t)i % 8, 0, 1);
		s->failed |= ring_open_at(&b, s->c, 64, 3, 0, 1);
		while (a.seq < 40) {
			put_inc(&a, s->mem, 1);
			put_wait(&b, a.handle, a.seq - 1);
			if (rand_r(&s->seed) % 4 == 0)
				s->failed |= ring_wait(&b, b.seq - 1);
			if (rand_r(&s->seed) % 7 == 0)
				s->failed |= ring_wait_until(&a, a.seq - 1,
							     hal_sys_now() + 20 * SEC, 0);
		}
		s->failed |= ring_wait(&b, b.seq - 1);
		s->failed |= ring_close(&a);
		s->failed |= ring_close(&b);
	}
	return NULL;
}

TEST_F(sched, storm)
{
	struct storm s[4];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(s); i++) {
		s[i] = (struct storm){ .c = &self->c, .mem = self->mem + 64 * i,
				       .seed = (unsigned int)i };
		ASSERT_EQ(0, pthread_create(&s[i].thread, NULL, storm_main, &s[i]));
	}
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		pthread_join(s[i].thread, NULL);
		EXPECT_EQ(0, s[i].failed);
		EXPECT_EQ(60 * 39, mem_u64(&self->c, s[i].mem));
	}
}

/* ---- without membarrier ---- */

static int no_membarrier(int cmd, unsigned int flags)
{
	errno = ENOSYS;
	return -1;
}

static _Atomic int barriers_missed;

/* Of three barriers only one is to be had. */
static int seldom_membarrier(int cmd, unsigned int flags)
{
	static _Atomic int n;

	if (n++ % 3 == 2)
		return hal_sys_libc.membarrier(cmd, flags);
	barriers_missed++;
	errno = ENOMEM;
	return -1;
}

TEST_F(sched, a_barrier_that_fails_is_passed_later)
{
	struct hal_sys_ops ops = *hal_sys_get();
	struct waiter w;
	uint64_t slow;
	int i;

	ops.membarrier = seldom_membarrier;
	hal_sys_set(&ops);
	for (i = 0; i < 5; i++) {
		slow = put_delay(&self->r, 20 * MS);
		w = (struct waiter){ .r = &self->r, .seq = slow, .flags = SIMNPU_WAIT_BLOCK |
				     SIMNPU_WAIT_NO_BORROW };
		ASSERT_EQ(0, pthread_create(&w.thread, NULL, waiter_main, &w));
		pthread_join(w.thread, NULL);
		EXPECT_EQ(0, w.rc);
	}
	while (!hal_shm_load_acquire(&self->r.h->doorbell))
		usleep(10000);
	hal_sys_set(NULL);
	EXPECT_LE(2, atomic_load(&barriers_missed));
}

TEST_F(sched, without_membarrier_submitters_pass_a_barrier)
{
	struct simnpu_context arg = { 0 };
	struct hal_sys_ops ops = hal_sys_libc;
	struct waiter w[4];
	size_t i;
	int k;

	EXPECT_EQ(0, io(self->c.fd, CONTEXT_CREATE, &arg));
	EXPECT_EQ(0, arg.result);
	ASSERT_EQ(0, dev_close(self->c.fd));
	ops.membarrier = no_membarrier;
	hal_sys_set(&ops);
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	arg = (struct simnpu_context){ 0 };
	EXPECT_EQ(0, io(self->c.fd, CONTEXT_CREATE, &arg));
	EXPECT_EQ(SIMNPU_CONTEXT_FENCE, arg.result);
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	for (k = 0; k < 20; k++) {
		for (i = 0; i < ARRAY_SIZE(w); i++) {
			w[i] = (struct waiter){ .r = &self->r, .seq = self->r.seq + i,
						.flags = SIMNPU_WAIT_BLOCK };
			ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, waiter_main, &w[i]));
		}
		for (i = 0; i < ARRAY_SIZE(w); i++) {
			put_nop(&self->r);
			atomic_thread_fence(memory_order_seq_cst);
			if (hal_shm_load_relaxed(&self->r.h->doorbell))
				ring_kick(&self->r);
		}
		for (i = 0; i < ARRAY_SIZE(w); i++) {
			pthread_join(w[i].thread, NULL);
			EXPECT_EQ(0, w[i].rc);
		}
	}
	/* it is let go here, too */
	while (!hal_shm_load_acquire(&self->r.h->doorbell))
		usleep(10000);
	EXPECT_EQ(1, self->r.h->doorbell);
	ASSERT_EQ(0, dev_close(self->c.fd));
	hal_sys_set(NULL);
	self->c.fd = dev_open(0);
}

TEST_F(sched, utilization)
{
	struct simnpu_info i = { 0 };

	ASSERT_EQ(0, io(self->c.fd, INFO, &i));
	EXPECT_EQ(0, i.utilization);
	put_delay(&self->r, 600 * MS);
	EXPECT_EQ(0, ring_wait_engine(&self->r, 1));
	ASSERT_EQ(0, io(self->c.fd, INFO, &i));
	EXPECT_LE(1, i.utilization);
	EXPECT_GE(100, i.utilization);
}

/* ---- fork ---- */

TEST_F(sched, nothing_works_in_a_child)
{
	struct simnpu_version v;
	int pid, status;

	put_nop(&self->r);
	ASSERT_EQ(0, ring_wait_engine(&self->r, 1));
	pid = fork();
	if (!pid) {
		simnpu_model_fork_child();
		_exit(io(self->c.fd, VERSION, &v) == -ENODEV && dev_open(0) == -ENODEV &&
		      fcntl(self->c.fd, F_GETFD) == -1 ? 0 : 1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	put_nop(&self->r);
	EXPECT_EQ(0, ring_wait(&self->r, 2));
}

TEST_HARNESS_MAIN
