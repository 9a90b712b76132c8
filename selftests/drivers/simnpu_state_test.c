// SPDX-License-Identifier: GPL-2.0-only
/*
 * States of the simulated device: faults, stop, restart, loss; every ioctl in
 * each of them; parts that are unplugged and plugged in again.
 */
#include "selftests/drivers/simnpu_recovery.h"
#include "selftests/npu_kselftest.h"

#define LONG_NS (3600 * SEC)

FIXTURE(state)
{
	struct ctx c;
	struct ctx other;	/* on another device */
	struct ring r;
	struct ring r2;
	struct ring far;	/* of the other device */
	uint64_t mem;
	uint32_t mem_handle;
	uint64_t far_mem;
};

FIXTURE_SETUP(state)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ctx_open(&self->other, 1));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	ASSERT_EQ(0, ring_open(&self->r2, &self->c));
	ASSERT_EQ(0, ring_open(&self->far, &self->other));
	self->mem = mem_new(&self->c, 4096, &self->mem_handle);
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 0, 4096, 0));
	self->far_mem = mem_new(&self->other, 4096, NULL);
	ASSERT_EQ(0, copy_now(&self->other, self->far_mem, 0, 4096, 0));
}

FIXTURE_TEARDOWN(state)
{
	simnpu_fault_clear();
	simnpu_test_plug_reset();
	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_EQ(0, dev_close(self->other.fd));
}

/* The other device works on. */
#define EXPECT_OTHER_WORKS() do {						\
		uint64_t was = mem_u64(&self->other, self->far_mem + 64);	\
										\
		EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->other.fd));		\
		EXPECT_EQ(0, ring_wait(&self->far,				\
				       put_inc(&self->far, self->far_mem + 64, 1))); \
		EXPECT_EQ(was + 1, mem_u64(&self->other, self->far_mem + 64));	\
	} while (0)

/* What may be expected of a device that works, with a ring made anew. */
#define EXPECT_WORKS() do {							\
		struct ring fresh;						\
		uint64_t was = mem_u64(&self->c, self->mem + 64);		\
										\
		EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));		\
		ASSERT_EQ(0, ring_open(&fresh, &self->c));			\
		EXPECT_EQ(0, ring_wait(&fresh, put_inc(&fresh, self->mem + 64, 1))); \
		EXPECT_EQ(was + 1, mem_u64(&self->c, self->mem + 64));		\
		EXPECT_EQ(0, ring_close(&fresh));				\
	} while (0)

#define FAULT(action) EXPECT_TRUE(simnpu_test_device_fault(0, action))

static int event_of(struct ctx *c)
{
	struct simnpu_event ev = { .context = c->handle };
	struct simnpu_handle h;
	int rc = io(c->fd, EVENT_CREATE, &ev);

	h = (struct simnpu_handle){ .handle = ev.handle };
	return rc ? rc : io(c->fd, EVENT_DESTROY, &h);
}

/* ---- stop and restart ---- */

TEST_F(state, stop_and_restart)
{
	struct simnpu_info i;

	EXPECT_EQ(-EBUSY, device_restart(self->c.fd));
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(SIMNPU_STATE_STOPPED, state_of(self->c.fd));
	/* nothing to do */
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, device_restart(self->c.fd));
	i = info_of(self->c.fd);
	EXPECT_EQ(SIMNPU_STATE_OK, i.state);
	EXPECT_EQ(1, i.generation);
	EXPECT_EQ(1, i.restarts);
	EXPECT_EQ(0, i.cause);
	EXPECT_EQ(-EBUSY, device_restart(self->c.fd));
	EXPECT_WORKS();
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_EQ(2, info_of(self->c.fd).generation);
	EXPECT_WORKS();
	EXPECT_OTHER_WORKS();
}

TEST_F(state, what_is_queued_and_what_runs)
{
	uint64_t before = hal_sys_now(), run, last;
	struct simnpu_task_error e;
	struct waiting w, w2;

	run = put_delay(&self->r, LONG_NS);
	last = put_inc(&self->r, self->mem, 1);
	waiting_start(&w, &self->r, last, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	waiting_start(&w2, &self->r, run, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_SPIN);
	nap_ms(20);
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_LT(hal_sys_now() - before, SEC);
	EXPECT_EQ(-ECANCELED, waiting_end(&w));
	EXPECT_EQ(-ECANCELED, waiting_end(&w2));
	/* a stop is no failure */
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, ring_errors(&self->r, &e, 1));
	EXPECT_LE(last, timeline(&self->r));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_WORKS();
	/* those of before stay what they are */
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, last));
	put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_kick(&self->r));
	nap_ms(5);
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(-ESTALE, ring_grow(&self->r, 64));
	EXPECT_EQ(0, ring_close(&self->r));
}

TEST_F(state, what_was_done_before_a_stop)
{
	uint64_t seq = put_nop(&self->r);

	EXPECT_EQ(0, ring_wait(&self->r, seq));
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	EXPECT_EQ(-ECANCELED, ring_wait(&self->r, seq + 1));
}

TEST_F(state, what_stays_over_a_restart)
{
	struct simnpu_event ev = { .context = self->c.handle };
	struct simnpu_desc rec = { .op = SIMNPU_OP_RECORD };
	uint64_t kernel = builtin(&self->c, "inc_u64"), seq;
	struct npu_simnpu_inc_args a = { self->mem, 5 };
	struct simnpu_handle h;
	struct ring r;

	ASSERT_EQ(0, io(self->c.fd, EVENT_CREATE, &ev));
	ASSERT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 37)));
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_EQ(37, mem_u64(&self->c, self->mem));
	ASSERT_EQ(0, ring_open(&r, &self->c));
	seq = put_launch(&r, kernel, 1, &a, sizeof(a));
	rec.record.event = ev.handle;
	seq = ring_put(&r, &rec, NULL, false);
	EXPECT_EQ(0, ring_wait(&r, seq));
	EXPECT_FALSE(marked(&r));
	EXPECT_EQ(42, mem_u64(&self->c, self->mem));
	EXPECT_NE(0, hal_shm_load_acquire((uint64_t *)(self->c.arena + ev.stamp)));
	h = (struct simnpu_handle){ .handle = ev.handle };
	EXPECT_EQ(0, io(self->c.fd, EVENT_DESTROY, &h));
	EXPECT_EQ(0, mem_del(&self->c, self->mem_handle));
}

TEST_F(state, callbacks_over_a_restart)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_CALLBACK, .callback.fn = 1 };
	struct simnpu_callback cb = {
		.context = self->c.handle, .deadline_ns = SIMNPU_DEADLINE_NONE,
	}, done = { .context = self->c.handle };
	struct ring r;

	done.seq = ring_put(&self->r, &d, NULL, false);
	done.queue = self->r.handle;
	ASSERT_EQ(0, io(self->c.fd, CALLBACK_NEXT, &cb));
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, io(self->c.fd, CALLBACK_DONE, &done));
	EXPECT_EQ(0, device_restart(self->c.fd));
	ASSERT_EQ(0, ring_open(&r, &self->c));
	done.seq = ring_put(&r, &d, NULL, false);
	done.queue = r.handle;
	cb = (struct simnpu_callback){
		.context = self->c.handle, .deadline_ns = SIMNPU_DEADLINE_NONE,
	};
	ASSERT_EQ(0, io(self->c.fd, CALLBACK_NEXT, &cb));
	EXPECT_EQ(r.handle, cb.queue);
	EXPECT_EQ(0, io(self->c.fd, CALLBACK_DONE, &done));
	EXPECT_EQ(0, ring_wait(&r, done.seq));
}

/* Of another device: it goes on, and learns what happened. */
TEST_F(state, a_queue_of_another_device_that_waits)
{
	struct simnpu_export ex = { .handle = self->r.handle };
	struct simnpu_import im = { .context = self->other.handle };
	struct simnpu_task_error e;
	uint64_t seq, wait;

	ASSERT_EQ(0, io(self->c.fd, QUEUE_EXPORT, &ex));
	im.fd = ex.fd;
	ASSERT_EQ(0, io(self->other.fd, QUEUE_IMPORT, &im));
	dev_close(ex.fd);
	seq = put_delay(&self->r, LONG_NS);
	wait = put_wait(&self->far, im.handle, seq);
	put_inc(&self->far, self->far_mem, 1);
	nap_ms(20);
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, ring_wait(&self->far, wait + 1));
	EXPECT_EQ(1, mem_u64(&self->other, self->far_mem));
	ASSERT_EQ(1, ring_errors(&self->far, &e, 1));
	EXPECT_EQ(wait, e.seq);
	EXPECT_EQ(ECANCELED, e.code);
	EXPECT_EQ(im.handle, e.origin_queue);
	EXPECT_EQ(seq, e.origin_seq);
	EXPECT_EQ(0, device_restart(self->c.fd));
	/* one that comes later, for what was given up */
	wait = put_wait(&self->far, im.handle, seq);
	EXPECT_EQ(0, ring_wait(&self->far, wait));
	ASSERT_EQ(1, ring_errors(&self->far, &e, 1));
	EXPECT_EQ(ECANCELED, e.code);
	EXPECT_OTHER_WORKS();
}

TEST_F(state, a_descriptor_that_waits)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	struct simnpu_notify n = { .queue = self->r.handle, .fd = fd };
	struct pollfd p = { .fd = fd, .events = POLLIN };

	n.seq = put_delay(&self->r, LONG_NS);
	ASSERT_EQ(0, io(self->c.fd, NOTIFY, &n));
	EXPECT_EQ(0, poll(&p, 1, 20));
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(1, poll(&p, 1, 5000));
	close(fd);
}

/* A task that does not end: the device is lost, and its node leads to another one. */
TEST_F(state, stop_in_vain)
{
	uint64_t before, seq;
	struct waiting w;
	struct ctx again;
	struct ring r;

	ASSERT_EQ(0, simnpu_fault_set("task:launch,do=stuck", NULL));
	seq = put_inc(&self->r, self->mem, 1);
	waiting_start(&w, &self->r, seq, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	until_hit(1);
	before = hal_sys_now();
	EXPECT_EQ(-ETIME, device_stop_until(self->c.fd, ms_from_now(50)));
	EXPECT_LT(hal_sys_now() - before, SEC);
	EXPECT_EQ(-ECANCELED, waiting_end(&w));
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(self->c.fd));
	EXPECT_EQ(ETIME, info_of(self->c.fd).cause);
	EXPECT_EQ(-ENODEV, device_stop(self->c.fd));
	EXPECT_EQ(-ENODEV, device_restart(self->c.fd));
	ASSERT_EQ(0, ctx_open(&again, 0));
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(again.fd));
	ASSERT_EQ(0, ring_open(&r, &again));
	EXPECT_EQ(0, ring_wait(&r, put_nop(&r)));
	EXPECT_OTHER_WORKS();
	EXPECT_EQ(0, dev_close(again.fd));
}

struct stopper {
	int fd;
	int rc;
};

static void *stop_for_ever(void *arg)
{
	struct stopper *s = arg;

	s->rc = device_stop_until(s->fd, SIMNPU_DEADLINE_NONE);
	return NULL;
}

/* Who comes while another one stops it waits no longer than he wants; unplugging ends them all. */
TEST_F(state, two_that_stop_it)
{
	struct simnpu_stop s = { 0 };
	struct stopper first = { .fd = self->c.fd, .rc = 1 };
	pthread_t t;

	ASSERT_EQ(0, simnpu_fault_set("task:launch,do=stuck", NULL));
	put_inc(&self->r, self->mem, 1);
	ring_kick(&self->r);
	until_hit(1);
	ASSERT_EQ(0, pthread_create(&t, NULL, stop_for_ever, &first));
	while (state_of(self->c.fd) != SIMNPU_STATE_STOPPED)
		nap_ms(1);
	EXPECT_EQ(-EBUSY, device_stop_until(self->c.fd, ms_from_now(20)));
	s.deadline_ns = ms_from_now(20);
	EXPECT_EQ(-EBUSY, io(self->c.fd, DEVICE_RESTART, &s));
	EXPECT_EQ(SIMNPU_STATE_STOPPED, state_of(self->c.fd));
	EXPECT_TRUE(simnpu_test_plug(0, -1));
	pthread_join(t, NULL);
	EXPECT_EQ(-ENODEV, first.rc);
	EXPECT_EQ(ENODEV, info_of(self->c.fd).cause);
}

#define BIG (128ull << 20)

struct copier {
	struct ctx *c;
	uint64_t mem;
	char *host;
	_Atomic bool started;
	int rc;
};

static void *copy_main(void *arg)
{
	struct copier *p = arg;

	atomic_store(&p->started, true);
	p->rc = copy_now(p->c, U64(p->host), p->mem, BIG, SIMNPU_COPY_TO_HOST);
	return NULL;
}

/* A copy that is no task: when the stop is over, so is it. */
TEST_F(state, a_copy_beside_a_stop)
{
	struct copier p = { .c = &self->c, .host = malloc(BIG) };
	pthread_t t;
	char last;

	ASSERT_NE(NULL, p.host);
	p.host[BIG - 1] = 0;
	p.mem = mem_new(&self->c, BIG, NULL);
	ASSERT_EQ(0, copy_now(&self->c, p.mem, 1, BIG, 0));
	ASSERT_EQ(0, pthread_create(&t, NULL, copy_main, &p));
	while (!atomic_load(&p.started))
		sched_yield();
	nap_ms(2);
	EXPECT_EQ(0, device_stop_until(self->c.fd, SIMNPU_DEADLINE_NONE));
	last = p.host[BIG - 1];
	pthread_join(t, NULL);
	EXPECT_TRUE(p.rc == 0 || p.rc == -ESHUTDOWN);
	EXPECT_EQ(p.rc ? 0 : 1, last);
	free(p.host);
}

/* ---- faults ---- */

static const struct {
	const char *action;
	uint32_t cause;
} faults[] = {
	{ "link", ENOLINK }, { "hang", ETIME }, { "heartbeat", EREMOTEIO },
};

TEST_F(state, faults_and_their_mending)
{
	struct simnpu_info i;
	uint32_t n;

	for (n = 0; n < ARRAY_SIZE(faults); n++) {
		FAULT(faults[n].action);
		i = info_of(self->c.fd);
		EXPECT_EQ(SIMNPU_STATE_FAULTED, i.state);
		EXPECT_EQ(faults[n].cause, i.cause);
		EXPECT_EQ(n, i.generation);
		/* the first one stays */
		FAULT("link");
		EXPECT_EQ(faults[n].cause, info_of(self->c.fd).cause);
		EXPECT_EQ(-EBUSY, device_restart(self->c.fd));
		EXPECT_OTHER_WORKS();
		EXPECT_EQ(0, device_stop(self->c.fd));
		EXPECT_EQ(faults[n].cause, info_of(self->c.fd).cause);
		EXPECT_EQ(0, device_restart(self->c.fd));
		EXPECT_EQ(0, info_of(self->c.fd).cause);
		EXPECT_WORKS();
	}
	i = info_of(self->c.fd);
	EXPECT_EQ(4, i.link_errors);
	EXPECT_EQ(2, i.hangs);
	EXPECT_EQ(3, i.restarts);
	EXPECT_EQ(0, i.ecc_corrected);
	FAULT("ecc1");
	EXPECT_EQ(1, info_of(self->c.fd).ecc_corrected);
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_WORKS();
}

TEST_F(state, work_on_a_device_with_a_fault)
{
	uint64_t done = put_nop(&self->r), run, last;
	struct simnpu_task_error e[2];
	struct waiting w, w2, idle;

	ASSERT_EQ(0, ring_wait(&self->r, done));
	run = put_delay(&self->r, LONG_NS);
	last = put_inc(&self->r, self->mem, 1);
	waiting_start(&w, &self->r, last, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	waiting_start(&w2, &self->r, run, 0);
	waiting_start(&idle, &self->r2, 1, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	nap_ms(20);
	FAULT("link");
	EXPECT_EQ(-EIO, waiting_end(&w));
	EXPECT_EQ(-EIO, waiting_end(&w2));
	EXPECT_EQ(-EIO, waiting_end(&idle));
	/* what was done is done */
	EXPECT_EQ(0, ring_wait(&self->r, done));
	EXPECT_EQ(-EIO, ring_wait(&self->r, last));
	/* a poll ends, too, and finds a failure: of the first task that was not run */
	EXPECT_LE(last, timeline(&self->r));
	EXPECT_TRUE(marked(&self->r));
	ASSERT_EQ(1, ring_errors(&self->r, e, 2));
	EXPECT_EQ(run, e[0].seq);
	EXPECT_EQ(EIO, e[0].code);
	EXPECT_EQ(SIMNPU_OP_LAUNCH, e[0].op);
	EXPECT_FALSE(marked(&self->r));
	/* the idle one learns it as well */
	EXPECT_TRUE(marked(&self->r2));
	ASSERT_EQ(1, ring_errors(&self->r2, e, 2));
	EXPECT_EQ(1, e[0].seq);
	EXPECT_EQ(EIO, e[0].code);
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(-EIO, ring_wait(&self->r, last));
	EXPECT_WORKS();
}

/* A fault that a task meets: its own queue and all others name that task. */
TEST_F(state, who_met_the_fault)
{
	static const char *const rules[] = { "task:copy,do=link", "task:copy,do=hang,ns=1000000" };
	struct simnpu_desc d = {
		.op = SIMNPU_OP_COPY, .tag = 3, .cookie = 33, .copy.size = 64,
		.copy.kind = SIMNPU_COPY_ON_DEVICE,
	};
	struct simnpu_task_error e;
	uint64_t seq, last;
	struct ring r, r2;
	size_t i;

	d.copy.dst = self->mem;
	d.copy.src = self->mem + 1024;
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		ASSERT_EQ(0, ring_open(&r, &self->c));
		ASSERT_EQ(0, ring_open(&r2, &self->c));
		ASSERT_EQ(0, simnpu_fault_set(rules[i], NULL));
		put_nop(&r);
		seq = ring_put(&r, &d, NULL, false);
		last = put_inc(&r, self->mem, 1);
		EXPECT_EQ(-EIO, ring_wait(&r, last));
		EXPECT_EQ(0, ring_wait(&r, seq - 1));
		EXPECT_EQ(-EIO, ring_wait(&r, seq));
		ASSERT_EQ(1, ring_errors(&r, &e, 1));
		EXPECT_EQ(seq, e.seq);
		EXPECT_EQ(EIO, e.code);
		EXPECT_EQ(3, e.tag);
		EXPECT_EQ(33, e.cookie);
		EXPECT_EQ(SIMNPU_OP_COPY, e.op);
		while (!marked(&r2))
			nap_ms(1);
		ASSERT_EQ(1, ring_errors(&r2, &e, 1));
		EXPECT_EQ(EIO, e.code);
		EXPECT_EQ(3, e.tag);
		EXPECT_EQ(r.handle, e.origin_queue);
		EXPECT_EQ(seq, e.origin_seq);
		EXPECT_EQ(0, device_stop(self->c.fd));
		EXPECT_EQ(0, device_restart(self->c.fd));
		EXPECT_EQ(0, mem_u64(&self->c, self->mem));
		EXPECT_EQ(0, ring_close(&r));
		EXPECT_EQ(0, ring_close(&r2));
	}
	EXPECT_WORKS();
}

/* A task that ends by no means, and a fault: nobody waits for it, until it is to be stopped. */
TEST_F(state, a_fault_beside_a_task_that_does_not_end)
{
	struct simnpu_task_error e;
	uint64_t before, seq;
	struct waiting w;

	ASSERT_EQ(0, simnpu_fault_set("task:launch,do=stuck", NULL));
	seq = put_inc(&self->r, self->mem, 1);
	waiting_start(&w, &self->r, seq, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	until_hit(1);
	before = hal_sys_now();
	FAULT("hang");
	EXPECT_LT(hal_sys_now() - before, SEC);
	EXPECT_EQ(-EIO, waiting_end(&w));
	EXPECT_TRUE(marked(&self->r));
	EXPECT_LE(seq, timeline(&self->r));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(SIMNPU_OP_LAUNCH, e.op);
	EXPECT_EQ(seq, e.origin_seq);
	/* it ends after all: mended as any other */
	simnpu_fault_clear();
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_WORKS();
}

TEST_F(state, abort_on_a_device_with_a_fault)
{
	struct simnpu_task_error e;

	put_delay(&self->r, LONG_NS);
	FAULT("link");
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(-EIO, ring_wait(&self->r, 1));
	EXPECT_EQ(0, device_stop(self->c.fd));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_EQ(0, ring_abort(&self->r));
}

/* A state belongs to the device: the next opener of a closed one finds it well. */
TEST_F(state, closing_mends)
{
	FAULT("link");
	EXPECT_EQ(0, dev_close(self->c.fd));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_EQ(0, info_of(self->c.fd).link_errors);
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	EXPECT_EQ(0, ring_wait(&self->r, put_nop(&self->r)));
}

/* ---- every ioctl in every state ---- */

#define NR(name) SIMNPU_IOCTL_##name

/* What an ioctl answers in a state before it looks at its argument; 1: it goes on to that. */
static const struct {
	unsigned long request;
	int faulted, stopped, lost;
} table[] = {
	{ NR(VERSION), 1, 1, 1 },
	{ NR(INFO), 1, 1, 1 },
	{ NR(TIME), 1, 1, -ENODEV },
	{ NR(CONTEXT_CREATE), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(CONTEXT_DESTROY), 1, 1, 1 },
	{ NR(MEM_CREATE), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(MEM_DESTROY), 1, 1, 1 },
	{ NR(MEM_REGISTER), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(MEM_WINDOW), 1, 1, -ENODEV },
	{ NR(MEM_EXPORT), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(MEM_IMPORT), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(VM_RESERVE), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(VM_RELEASE), 1, 1, 1 },
	{ NR(VM_MAP), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(VM_UNMAP), 1, 1, 1 },
	{ NR(VM_PROTECT), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(COPY), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(QUEUE_CREATE), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(QUEUE_DESTROY), 1, 1, 1 },
	{ NR(QUEUE_GROW), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(KICK), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(WAIT), 1, 1, 1 },
	{ NR(NOTIFY), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(QUEUE_ERRORS), 1, 1, 1 },
	{ NR(QUEUE_ABORT), 1, 1, -ENODEV },
	{ NR(QUEUE_EXPORT), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(QUEUE_IMPORT), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(QUEUE_AT), 1, 1, 1 },
	{ NR(EVENT_CREATE), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(EVENT_DESTROY), 1, 1, 1 },
	{ NR(MODULE_LOAD), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(MODULE_UNLOAD), 1, 1, 1 },
	{ NR(KERNEL_GET), -EIO, -ESHUTDOWN, -ENODEV },
	{ NR(CALLBACK_NEXT), 1, 1, 1 },
	{ NR(CALLBACK_DONE), 1, 1, 1 },
	{ NR(CALLBACK_STOP), 1, 1, 1 },
	{ NR(DEVICE_RESTART), -EBUSY, 0, -ENODEV },
	{ NR(POISON), 1, 1, 1 },
};

/* An argument that no ioctl can do anything with: handles are 0, padding is not. */
static int ask(int fd, unsigned long request)
{
	unsigned char arg[256];

	memset(arg, 0, sizeof(arg));
	return io_raw(fd, request, arg);
}

/* Device 0 into the state of a column of the table. */
static void enter(int fd, int state)
{
	if (state == 0)
		simnpu_test_device_fault(0, "link");
	else if (state == 1)
		device_stop(fd);
	else
		simnpu_test_plug(0, -1);
}

static bool refused_by_state(int rc)
{
	return rc == -EIO || rc == -ESHUTDOWN || rc == -ENODEV;
}

TEST_F(state, table_is_complete)
{
	size_t i, n = 0;
	unsigned int nr;

	/* what the device knows: all but DEVICE_STOP is in the table */
	for (nr = 0; nr < 128; nr++) {
		bool known = false;

		for (i = 0; i < ARRAY_SIZE(table); i++)
			known = known || _IOC_NR(table[i].request) == nr;
		n += known;
		if (known || nr == _IOC_NR(NR(DEVICE_STOP)))
			continue;
		EXPECT_EQ(-ENOTTY, ask(self->c.fd, _IOWR(SIMNPU_IOC, nr, uint64_t)));
		EXPECT_EQ(-ENOTTY, ask(self->c.fd, _IOW(SIMNPU_IOC, nr, uint64_t)));
		EXPECT_EQ(-ENOTTY, ask(self->c.fd, _IOR(SIMNPU_IOC, nr, uint64_t)));
	}
	EXPECT_EQ(ARRAY_SIZE(table), n);
}

TEST_F(state, every_ioctl_in_every_state)
{
	int state, want, rc;
	size_t i;

	for (state = 0; state < 3; state++) {
		for (i = 0; i < ARRAY_SIZE(table); i++) {
			want = state == 0 ? table[i].faulted :
			       state == 1 ? table[i].stopped : table[i].lost;
			enter(self->c.fd, state);
			rc = ask(self->c.fd, table[i].request);
			/* 1 stands for whatever is no answer of a state */
			EXPECT_EQ(want, want == 1 ? !refused_by_state(rc) : rc) {
				TH_LOG("%#lx in state %d: %d", table[i].request, state, rc);
			}
			if (state == 2)
				continue;
			EXPECT_EQ(0, device_stop(self->c.fd));
			EXPECT_EQ(0, device_restart(self->c.fd));
		}
	}
	EXPECT_EQ(-ENODEV, device_stop(self->c.fd));
	EXPECT_OTHER_WORKS();
}

/* What takes away does so in each of them. */
TEST_F(state, taking_away_in_every_state)
{
	struct simnpu_test_device before, after;
	struct simnpu_event ev;
	struct simnpu_handle h;
	uint32_t mem;
	struct ring r;
	int state;

	simnpu_test_device(0, &before);
	for (state = 0; state < 3; state++) {
		ASSERT_EQ(0, ring_open(&r, &self->c));
		ASSERT_NE(0, mem_new(&self->c, 8192, &mem));
		ev = (struct simnpu_event){ .context = self->c.handle };
		ASSERT_EQ(0, io(self->c.fd, EVENT_CREATE, &ev));
		put_delay(&r, LONG_NS);
		enter(self->c.fd, state);
		EXPECT_EQ(0, ring_close(&r));
		EXPECT_EQ(0, mem_del(&self->c, mem));
		h = (struct simnpu_handle){ .handle = ev.handle };
		EXPECT_EQ(0, io(self->c.fd, EVENT_DESTROY, &h));
		if (state == 2)
			break;
		EXPECT_EQ(0, device_stop(self->c.fd));
		EXPECT_EQ(0, device_restart(self->c.fd));
		simnpu_test_device(0, &after);
		EXPECT_EQ(before.queues, after.queues);
		EXPECT_EQ(before.mem_used, after.mem_used);
		EXPECT_EQ(before.events, after.events);
	}
}

/* ---- unplugged ---- */

TEST_F(state, unplugged_and_plugged_in_again)
{
	struct simnpu_task_error e;
	struct waiting w;
	struct ctx again;
	uint64_t seq;
	struct ring r;

	seq = put_delay(&self->r, LONG_NS);
	waiting_start(&w, &self->r, seq, SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
	nap_ms(20);
	EXPECT_TRUE(simnpu_test_plug(0, -1));
	EXPECT_EQ(-ENODEV, waiting_end(&w));
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(self->c.fd));
	EXPECT_EQ(ENODEV, info_of(self->c.fd).cause);
	EXPECT_TRUE(marked(&self->r));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(ENODEV, e.code);
	EXPECT_EQ(-ENODEV, dev_open(0));
	EXPECT_OTHER_WORKS();
	EXPECT_TRUE(simnpu_test_plug(0, 0));
	/* a new device, beside what is left of the old one */
	ASSERT_EQ(0, ctx_open(&again, 0));
	EXPECT_STREQ("simnpu0", info_of(again.fd).bus);
	ASSERT_EQ(0, ring_open(&r, &again));
	EXPECT_EQ(0, ring_wait(&r, put_nop(&r)));
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(self->c.fd));
	EXPECT_EQ(-ENODEV, copy_now(&self->c, self->mem, 0, 8, 0));
	EXPECT_EQ(0, dev_close(again.fd));
}

TEST_F(state, back_in_another_order)
{
	struct ctx a, b;

	EXPECT_TRUE(simnpu_test_plug(0, 1));
	EXPECT_TRUE(simnpu_test_plug(1, 0));
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(self->c.fd));
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(self->other.fd));
	ASSERT_EQ(0, ctx_open(&a, 0));
	ASSERT_EQ(0, ctx_open(&b, 1));
	EXPECT_STREQ("simnpu1", info_of(a.fd).bus);
	EXPECT_STREQ("simnpu0", info_of(b.fd).bus);
	/* those in another place are pulled out again */
	simnpu_test_plug_reset();
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(a.fd));
	EXPECT_EQ(0, dev_close(a.fd));
	EXPECT_EQ(0, dev_close(b.fd));
	ASSERT_EQ(0, ctx_open(&a, 0));
	EXPECT_STREQ("simnpu0", info_of(a.fd).bus);
	EXPECT_EQ(0, dev_close(a.fd));
}

TEST_F(state, by_rule)
{
	struct ctx a;

	ASSERT_EQ(0, simnpu_fault_set("device,do=gone,ns=500000000,dev=0", NULL));
	EXPECT_EQ(-ENODEV, ring_wait(&self->r, put_nop(&self->r)));
	EXPECT_EQ(-ENODEV, dev_open(0));
	nap_ms(510);
	ASSERT_EQ(0, ctx_open(&a, 0));
	EXPECT_EQ(0, dev_close(a.fd));
	ASSERT_EQ(0, simnpu_fault_set("ioctl:mem_create,do=reorder,dev=1", NULL));
	EXPECT_EQ(0, mem_new(&self->other, 64, NULL));
	EXPECT_EQ(SIMNPU_STATE_LOST, state_of(self->other.fd));
	ASSERT_EQ(0, ctx_open(&a, 0));
	EXPECT_STREQ("simnpu1", info_of(a.fd).bus);
	EXPECT_EQ(0, dev_close(a.fd));
	/* it comes back to where it was, which is not the node of its number any more */
	ASSERT_EQ(0, ctx_open(&a, 0));
	ASSERT_EQ(0, simnpu_fault_set("device,do=gone,ns=100000000,dev=1", NULL));
	EXPECT_EQ(0, mem_new(&a, 64, NULL));
	EXPECT_EQ(0, dev_close(a.fd));
	EXPECT_EQ(-ENODEV, dev_open(0));
	nap_ms(110);
	ASSERT_EQ(0, ctx_open(&a, 0));
	EXPECT_STREQ("simnpu1", info_of(a.fd).bus);
	EXPECT_EQ(0, dev_close(a.fd));
}

/* Devices that were pulled out are used again, however often. */
TEST_F(state, over_and_over)
{
	struct ctx a;
	struct ring r;
	int i;

	for (i = 0; i < 30; i++) {
		ASSERT_EQ(0, ctx_open(&a, 0));
		ASSERT_EQ(0, ring_open(&r, &a));
		put_delay(&r, LONG_NS);
		EXPECT_TRUE(simnpu_test_plug(0, -1));
		EXPECT_EQ(-ENODEV, ring_wait(&r, 1));
		EXPECT_EQ(0, dev_close(a.fd));
		EXPECT_TRUE(simnpu_test_plug(0, 0));
	}
	ASSERT_EQ(0, ctx_open(&a, 0));
	ASSERT_EQ(0, ring_open(&r, &a));
	EXPECT_EQ(0, ring_wait(&r, put_nop(&r)));
	EXPECT_EQ(0, dev_close(a.fd));
}

/* ---- many at once ---- */

static _Atomic bool over;

/* Makes queues, submits and waits, whatever becomes of it. */
static void *work(void *arg)
{
	struct ctx *c = arg;
	struct ring r;

	while (!atomic_load(&over)) {
		if (ring_open(&r, c)) {
			usleep(100);
			continue;
		}
		put_nop(&r);
		put_delay(&r, 50000);
		ring_wait(&r, put_nop(&r));
		ring_close(&r);
	}
	return NULL;
}

TEST_F(state, under_fire)
{
	uint64_t end = hal_sys_now() + SEC;
	pthread_t t[3];
	size_t i;
	int n;

	atomic_store(&over, false);
	for (i = 0; i < ARRAY_SIZE(t); i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, work, &self->c));
	for (n = 0; hal_sys_now() < end; n++) {
		if (n % 3)
			simnpu_test_device_fault(0, n % 3 == 1 ? "link" : "hang");
		EXPECT_EQ(0, device_stop(self->c.fd));
		EXPECT_EQ(0, device_restart(self->c.fd));
		usleep(500);
	}
	atomic_store(&over, true);
	for (i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(n, (int)info_of(self->c.fd).generation);
	EXPECT_WORKS();
	EXPECT_OTHER_WORKS();
}

static _Atomic uint32_t go;

static void *fault_each_time(void *arg)
{
	uint32_t n;

	for (n = 1; n <= 500; n++) {
		while (atomic_load(&go) != 2 * n - 1)
			sched_yield();
		simnpu_test_device_fault(0, "link");
		atomic_store(&go, 2 * n);
	}
	return arg;
}

/* A fault while the device restarts: it belongs to the one generation or the other as a whole. */
TEST_F(state, a_fault_beside_a_restart)
{
	struct simnpu_info i;
	pthread_t t;
	uint32_t n;

	atomic_store(&go, 0);
	ASSERT_EQ(0, ring_close(&self->r));
	ASSERT_EQ(0, ring_close(&self->r2));
	ASSERT_EQ(0, pthread_create(&t, NULL, fault_each_time, NULL));
	for (n = 1; n <= 500; n++) {
		device_stop(self->c.fd);
		atomic_store(&go, 2 * n - 1);
		device_restart(self->c.fd);
		while (atomic_load(&go) != 2 * n)
			sched_yield();
		i = info_of(self->c.fd);
		ASSERT_EQ(i.state ? ENOLINK : 0, i.cause) {
			TH_LOG("round %u, state %u", n, i.state);
		}
		ASSERT_EQ(i.state ? -EIO : 0, event_of(&self->c)) {
			TH_LOG("round %u, state %u", n, i.state);
		}
	}
	pthread_join(t, NULL);
}

static void *unplug_each_time(void *arg)
{
	simnpu_test_plug(0, -1);
	return arg;
}

/* Pulled out while it is stopped and restarted: it is lost, whatever it was just about to be. */
TEST_F(state, unplugged_beside_a_restart)
{
	struct simnpu_info i;
	struct ctx a;
	pthread_t t;
	int n, k;

	for (n = 0; n < 60; n++) {
		ASSERT_EQ(0, ctx_open(&a, 0));
		ASSERT_EQ(0, pthread_create(&t, NULL, unplug_each_time, NULL));
		for (k = 0; k < 20; k++) {
			device_stop(a.fd);
			device_restart(a.fd);
		}
		pthread_join(t, NULL);
		i = info_of(a.fd);
		ASSERT_EQ(SIMNPU_STATE_LOST, i.state);
		ASSERT_EQ(ENODEV, i.cause);
		ASSERT_EQ(-ENODEV, event_of(&a));
		EXPECT_EQ(0, dev_close(a.fd));
		simnpu_test_plug(0, 0);
	}
}

TEST_HARNESS_MAIN
