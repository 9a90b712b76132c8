// SPDX-License-Identifier: GPL-2.0-only
/*
 * Failures on demand: the grammar of rules, when they hit, and what they do to
 * ioctls, tasks, allocations and calls through the seam.
 */
#include "hal/sys_judge.h"
#include "selftests/drivers/simnpu_recovery.h"
#include "selftests/npu_kselftest.h"

/* ---- the text -------------------------------------------------------------------- */

static const struct {
	const char *text;
	int rc;
	size_t pos;
	const char *why;	/* what the message contains */
} bad[] = {
	{ "nothing", -EINVAL, 0, "'nothing'; accepted: ioctl:NAME task:OP" },
	{ "task,nth=1;;ioctl:", -EINVAL, 12, "'ioctl:'" },
	{ "ioctl:nothing", -EINVAL, 0, "'ioctl:nothing'" },
	{ ",", -EINVAL, 0, "a rule is missing" },
	{ "task,", -EINVAL, 5, "a key is missing; accepted: do code ns" },
	{ "task,nht=3", -EINVAL, 5,
	  "'nht'; accepted: do code ns nth times prob seed stream pid dev" },
	{ "task nth=3", -EINVAL, 5, "',' or ';' is missing" },
	{ "task,nth", -EINVAL, 8, "'=' and a value" },
	{ "task,nth=", -EINVAL, 9, "not a number" },
	{ "task,nth=three", -EINVAL, 9, "not a number: 'three'" },
	{ "task,nth=3x", -EINVAL, 9, "not a number: '3x'" },
	{ "task,nth=-1", -EINVAL, 9, "not a number" },
	{ "task,nth=0", -ERANGE, 9, "out of range" },
	{ "task,nth=99999999999999999999", -ERANGE, 9, "out of range" },
	{ "task,nth=999999999999999999999999999999", -ERANGE, 9, "out of range" },
	{ "task,nth=0x", -EINVAL, 9, "not a number" },
	{ "task,dev=010x", -EINVAL, 9, "not a number" },
	{ "task,dev=064", -ERANGE, 9, "out of range" },
	{ "task,stream=0", -ERANGE, 12, "out of range" },
	{ "task,dev=64", -ERANGE, 9, "out of range" },
	{ "task,prob=1.1", -ERANGE, 10, "0 to 1" },
	{ "task,prob=.", -EINVAL, 10, "not a probability" },
	{ "task,prob=1.2.3", -EINVAL, 10, "not a probability" },
	{ "task,code=ENOTHING", -EINVAL, 10, "'ENOTHING'" },
	{ "task,code=0", -ERANGE, 10, "out of range" },
	{ "task,code=4096", -ERANGE, 10, "out of range" },
	{ "task,do=nothing", -EINVAL, 8, "'nothing'; accepted: fail stall" },
	{ "alloc:memory,do=hang", -EINVAL, 16,
	  "does not go with it: 'hang'; accepted: fail stall" },
	{ "sys:open,do=gone", -EINVAL, 12, "does not go with it" },
	{ "ioctl:copy,do=corrupt", -EINVAL, 14, "does not go with it" },
	{ "device", -EINVAL, 6, "do= is missing; accepted: ecc1 link hang heartbeat gone reorder" },
	{ "device,do=fail", -EINVAL, 10, "does not go with it" },
	{ "ioctl:copy,stream=1", -EINVAL, 11, "does not go with it: 'stream'" },
	{ "alloc:memory,code=EIO", -EINVAL, 13, "does not go with it: 'code'" },
	{ "sys:open,dev=0", -EINVAL, 9, "does not go with it: 'dev'" },
	{ "task,nth=1,nth=2", -EINVAL, 11, "given twice: 'nth'" },
};

TEST(rules_that_are_refused)
{
	struct simnpu_fault_rule list[2];
	char why[200];
	size_t i, pos;

	ASSERT_EQ(0, simnpu_fault_set("task,nth=7", NULL));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(bad[i].rc, simnpu_fault_check(bad[i].text, &pos, why, sizeof(why))) {
			TH_LOG("%s: %s", bad[i].text, why);
		}
		EXPECT_EQ(bad[i].pos, pos) {
			TH_LOG("%s: %s", bad[i].text, why);
		}
		EXPECT_NE(NULL, strstr(why, bad[i].why)) {
			TH_LOG("%s: %s", bad[i].text, why);
		}
		pos = 99;
		EXPECT_EQ(bad[i].rc, simnpu_fault_set(bad[i].text, &pos));
		EXPECT_EQ(bad[i].pos, pos);
	}
	/* those that there were are still there */
	ASSERT_EQ(1, simnpu_fault_list(list, 2));
	EXPECT_STREQ("task,nth=7", list[0].text);
}

TEST(rules_that_are_accepted)
{
	static const char *const good[] = {
		"", ";", " ; ; ", "task", "task;", " task , nth = 3 ; device , do = gone ",
		"task:launch,do=stall,ns=0x10,times=0,stream=3,pid=1,dev=63",
		"ioctl:mem_create,code=ENOSPC,nth=2,times=3", "sys:futex,do=late,ns=1",
		"task,prob=0", "task,prob=1", "task,prob=.5,seed=18446744073709551615",
		"task,prob=0.000001", "alloc:any", "ioctl:any,do=gone", "task,code=4095",
		"task,code=ENOTTY", "sys:any,code=EINTR", "task,nth=08", "task,dev=063",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++)
		EXPECT_EQ(0, simnpu_fault_check(good[i], NULL, NULL, 0)) {
			TH_LOG("rule %zu", i);
		}
}

/* Every word that is listed is understood; every action goes with something. */
TEST(words)
{
	const struct simnpu_fault_word *w, *a;
	char text[100];
	uint32_t i, k, n, sys = 0;

	for (i = 0; (w = simnpu_fault_what(i)); i++) {
		snprintf(text, sizeof(text), "%s,do=%s", w->word,
			 strcmp(w->word, "device") ? "fail" : "gone");
		EXPECT_EQ(0, simnpu_fault_check(text, NULL, NULL, 0)) {
			TH_LOG("%s", text);
		}
		EXPECT_NE(0, strlen(w->help));
		sys += !strncmp(w->word, "sys:", 4);
	}
	EXPECT_EQ(HAL_SYS_NR + 1, sys);
	for (k = 0; (a = simnpu_fault_action(k)); k++) {
		EXPECT_NE(0, strlen(a->help));
		for (i = n = 0; (w = simnpu_fault_what(i)); i++) {
			snprintf(text, sizeof(text), "%s,do=%s", w->word, a->word);
			n += !simnpu_fault_check(text, NULL, NULL, 0);
		}
		EXPECT_LT(0, n) {
			TH_LOG("%s", a->word);
		}
	}
	EXPECT_EQ(13, k);
	for (k = 0; (a = simnpu_fault_key(k)); k++)
		EXPECT_NE(0, strlen(a->help));
	EXPECT_EQ(10, k);
}

/* A word for each ioctl that the device knows. */
TEST(every_ioctl_has_a_word)
{
	const struct simnpu_fault_word *w;
	uint32_t i, words = 0, known = 0;
	unsigned int nr;
	int fd = dev_open(0);

	ASSERT_LE(0, fd);
	for (i = 0; (w = simnpu_fault_what(i)); i++)
		words += !strncmp(w->word, "ioctl:", 6) && strcmp(w->word, "ioctl:any");
	for (nr = 0; nr < 128; nr++)
		known += io_raw(fd, _IOW(SIMNPU_IOC, nr, uint64_t), NULL) != -ENOTTY ||
			 io_raw(fd, _IOR(SIMNPU_IOC, nr, uint64_t), NULL) != -ENOTTY ||
			 io_raw(fd, _IOWR(SIMNPU_IOC, nr, uint64_t), NULL) != -ENOTTY;
	EXPECT_EQ(known, words);
	EXPECT_EQ(0, dev_close(fd));
}

TEST(too_many_and_too_long)
{
	char text[2000] = "";
	size_t pos, i;

	for (i = 0; i < SIMNPU_FAULT_RULES; i++)
		strcat(text, "task;");
	EXPECT_EQ(0, simnpu_fault_check(text, NULL, NULL, 0));
	strcat(text, "task");
	EXPECT_EQ(-E2BIG, simnpu_fault_check(text, &pos, NULL, 0));
	EXPECT_EQ(5 * SIMNPU_FAULT_RULES, pos);
	memset(text, ' ', SIMNPU_FAULT_TEXT - 1);
	text[SIMNPU_FAULT_TEXT - 1] = 0;
	EXPECT_EQ(0, simnpu_fault_check(text, NULL, NULL, 0));
	strcat(text, " ");
	EXPECT_EQ(-E2BIG, simnpu_fault_check(text, &pos, NULL, 0));
	EXPECT_EQ(SIMNPU_FAULT_TEXT - 1, pos);
}

/* ---- when ------------------------------------------------------------------------ */

FIXTURE(rules)
{
	struct ctx c;
	struct ctx other;	/* on another device */
	struct ring r;
	struct ring r2;
	uint64_t mem;
};

FIXTURE_SETUP(rules)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ctx_open(&self->other, 1));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	ASSERT_EQ(0, ring_open(&self->r2, &self->c));
	self->mem = mem_new(&self->c, 4096, NULL);
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 0, 4096, 0));
}

FIXTURE_TEARDOWN(rules)
{
	simnpu_fault_clear();
	simnpu_test_plug_reset();
	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_EQ(0, dev_close(self->other.fd));
}

static int event_new(struct ctx *c)
{
	struct simnpu_event ev = { .context = c->handle };

	return io(c->fd, EVENT_CREATE, &ev);
}

#define SET(text) ASSERT_EQ(0, simnpu_fault_set(text, NULL))

/* Which of n calls fail with EXFULL, as bits. */
static uint64_t pattern(struct ctx *c, int n)
{
	uint64_t bits = 0;
	int i;

	for (i = 0; i < n; i++)
		bits |= (uint64_t)(event_new(c) == -EXFULL) << i;
	return bits;
}

TEST_F(rules, nth_and_times)
{
	struct simnpu_fault_rule l[2];

	SET("ioctl:event_create,code=54");
	EXPECT_EQ(0x1, pattern(&self->c, 10));
	SET("ioctl:event_create,code=54,nth=3");
	EXPECT_EQ(0x4, pattern(&self->c, 10));
	SET("ioctl:event_create,code=54,nth=3,times=2");
	EXPECT_EQ(0xc, pattern(&self->c, 10));
	SET("ioctl:event_create,code=54,nth=3,times=0");
	EXPECT_EQ(0x3fc, pattern(&self->c, 10));
	SET("ioctl:event_create,code=54,nth=2;ioctl:event_create,code=54,nth=5");
	EXPECT_EQ(0x12, pattern(&self->c, 10));
	ASSERT_EQ(2, simnpu_fault_list(l, 2));
	EXPECT_STREQ("ioctl:event_create,code=54,nth=2", l[0].text);
	EXPECT_STREQ("ioctl:event_create,code=54,nth=5", l[1].text);
	EXPECT_EQ(10, l[0].seen);
	EXPECT_EQ(1, l[0].hit);
	EXPECT_EQ(10, l[1].seen);
	EXPECT_EQ(1, l[1].hit);
	simnpu_fault_clear();
	EXPECT_EQ(0, simnpu_fault_list(l, 2));
	EXPECT_EQ(0, pattern(&self->c, 10));
}

TEST_F(rules, dice)
{
	uint64_t a, b;

	SET("ioctl:event_create,code=54,prob=0.5,seed=7");
	a = pattern(&self->c, 64);
	EXPECT_LT(16, __builtin_popcountll(a));
	EXPECT_GT(48, __builtin_popcountll(a));
	SET("ioctl:event_create,code=54,prob=0.5,seed=7");
	EXPECT_EQ(a, pattern(&self->c, 64));
	SET("ioctl:event_create,code=54,prob=0.5,seed=8");
	b = pattern(&self->c, 64);
	EXPECT_NE(a, b);
	SET("ioctl:event_create,code=54,prob=0.5,seed=7,nth=33");
	EXPECT_EQ(0, pattern(&self->c, 32));
	EXPECT_EQ(a & 0xffffffff, pattern(&self->c, 32));
	SET("ioctl:event_create,code=54,prob=0.5,seed=7,times=3");
	EXPECT_EQ(3, __builtin_popcountll(pattern(&self->c, 64)));
	SET("ioctl:event_create,code=54,prob=0");
	EXPECT_EQ(0, pattern(&self->c, 64));
	SET("ioctl:event_create,code=54,prob=1");
	EXPECT_EQ(~0ull, pattern(&self->c, 64));
}

TEST_F(rules, whom)
{
	char text[100];

	SET("ioctl:event_create,code=54,dev=1,times=0");
	EXPECT_EQ(0, event_new(&self->c));
	EXPECT_EQ(-EXFULL, event_new(&self->other));
	snprintf(text, sizeof(text), "ioctl:event_create,code=54,times=0,pid=%d", getpid());
	SET(text);
	EXPECT_EQ(-EXFULL, event_new(&self->c));
	snprintf(text, sizeof(text), "ioctl:event_create,code=54,times=0,pid=%d", getppid());
	SET(text);
	EXPECT_EQ(0, event_new(&self->c));
	/* the second stream that was made on its device */
	SET("task,times=0,stream=2");
	EXPECT_EQ(0, ring_wait(&self->r, put_nop(&self->r)));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, ring_wait(&self->r2, put_nop(&self->r2)));
	EXPECT_TRUE(marked(&self->r2));
}

/* ---- ioctls ---------------------------------------------------------------------- */

TEST_F(rules, every_ioctl_fails)
{
	const struct simnpu_fault_word *w;
	struct simnpu_fault_rule l;
	unsigned char arg[256];
	char text[100];
	unsigned int nr, hits;
	uint32_t i;

	for (i = 0; (w = simnpu_fault_what(i)); i++) {
		if (strncmp(w->word, "ioctl:", 6) || !strcmp(w->word, "ioctl:any"))
			continue;
		snprintf(text, sizeof(text), "%s,code=54,times=0", w->word);
		SET(text);
		for (nr = hits = 0; nr < 128; nr++) {
			memset(arg, 0, sizeof(arg));
			hits += io_raw(self->other.fd, _IOWR(SIMNPU_IOC, nr, uint64_t), arg) ==
				-EXFULL;
		}
		EXPECT_EQ(1, hits) {
			TH_LOG("%s", w->word);
		}
		ASSERT_EQ(1, simnpu_fault_list(&l, 1));
		EXPECT_EQ(1, l.hit);
	}
	SET("ioctl:any,code=54,times=0");
	for (nr = hits = 0; nr < 128; nr++)
		hits += io_raw(self->other.fd, _IOWR(SIMNPU_IOC, nr, uint64_t), arg) == -EXFULL;
	EXPECT_EQ(128, hits);
}

TEST_F(rules, ioctls_held_up)
{
	struct simnpu_fault_rule l;
	uint64_t before = hal_sys_now();

	SET("ioctl:event_create,do=stall,ns=20000000");
	EXPECT_EQ(0, event_new(&self->c));
	EXPECT_LE(20 * MS, hal_sys_now() - before);
	EXPECT_EQ(0, event_new(&self->c));
	ASSERT_EQ(1, simnpu_fault_list(&l, 1));
	EXPECT_EQ(2, l.seen);
	EXPECT_EQ(1, l.hit);
	SET("ioctl:event_create,do=late,ns=20000000");
	before = hal_sys_now();
	EXPECT_EQ(0, event_new(&self->c));
	EXPECT_LE(20 * MS, hal_sys_now() - before);
}

static void *clear_soon(void *arg)
{
	usleep(30000);
	simnpu_fault_clear();
	return arg;
}

/* What is held up for ever goes on when the rules change. */
TEST_F(rules, ioctls_held_up_for_ever)
{
	uint64_t before = hal_sys_now();
	pthread_t t;

	SET("ioctl:event_create,do=stall");
	ASSERT_EQ(0, pthread_create(&t, NULL, clear_soon, NULL));
	EXPECT_EQ(0, event_new(&self->c));
	EXPECT_LE(20 * MS, hal_sys_now() - before);
	pthread_join(t, NULL);
}

static void *event_main(void *arg)
{
	return (void *)(intptr_t)event_new(arg);
}

/* A stop ends it, and the call finds the device stopped. What hangs is not noticed any more. */
TEST_F(rules, ioctls_held_up_and_a_stop)
{
	static const char *const text[] = {
		"ioctl:event_create,do=stall", "ioctl:event_create,do=hang,ns=3600000000000",
	};
	struct simnpu_info info;
	pthread_t t;
	size_t i;
	void *rc;

	for (i = 0; i < ARRAY_SIZE(text); i++) {
		SET(text[i]);
		ASSERT_EQ(0, pthread_create(&t, NULL, event_main, &self->c));
		until_hit(1);
		EXPECT_EQ(0, device_stop(self->c.fd));
		pthread_join(t, &rc);
		EXPECT_EQ(-ESHUTDOWN, (int)(intptr_t)rc);
		info = info_of(self->c.fd);
		EXPECT_EQ(SIMNPU_STATE_STOPPED, info.state);
		EXPECT_EQ(0, info.cause);
		EXPECT_EQ(0, device_restart(self->c.fd));
	}
}

/* Who makes a call again when he is told so comes to an end. */
TEST_F(rules, ioctls_to_be_made_again)
{
	struct simnpu_event ev = { .context = self->c.handle };
	int i;

	SET("ioctl:event_create,code=EINTR,times=0");
	EXPECT_EQ(0, event_new(&self->c));
	SET("ioctl:event_create,code=EAGAIN,times=0");
	EXPECT_EQ(0, event_new(&self->c));
	for (i = 0; i < (int)HAL_SYS_AGAIN_MAX; i++)
		EXPECT_EQ(-EAGAIN, io_raw(self->c.fd, SIMNPU_IOCTL_EVENT_CREATE, &ev));
	EXPECT_EQ(0, io_raw(self->c.fd, SIMNPU_IOCTL_EVENT_CREATE, &ev));
	EXPECT_EQ(-EAGAIN, io_raw(self->c.fd, SIMNPU_IOCTL_EVENT_CREATE, &ev));
}

TEST_F(rules, ioctls_that_break_the_device)
{
	SET("ioctl:event_create,do=link");
	EXPECT_EQ(-EIO, event_new(&self->c));
	EXPECT_EQ(ENOLINK, info_of(self->c.fd).cause);
	EXPECT_EQ(0, event_new(&self->other));
	SET("device,do=heartbeat,nth=2");
	/* questions don't count */
	info_of(self->other.fd);
	EXPECT_EQ(0, event_new(&self->other));
	EXPECT_EQ(-EIO, event_new(&self->other));
	EXPECT_EQ(EREMOTEIO, info_of(self->other.fd).cause);
}

/* ---- tasks ----------------------------------------------------------------------- */

static uint64_t put_op(struct ring *r, uint8_t op, uint64_t mem)
{
	struct simnpu_desc d = { .op = op, .tag = 4, .cookie = 44 };

	switch (op) {
	case SIMNPU_OP_LAUNCH:
		return put_inc(r, mem, 1);
	case SIMNPU_OP_COPY:
		return put_copy(r, mem, mem + 1024, 8, SIMNPU_COPY_ON_DEVICE);
	case SIMNPU_OP_FILL:
		d.fill.dst = mem;
		d.fill.size = 8;
		break;
	case SIMNPU_OP_WAIT:
		d.wait.queue = r->handle;
		break;
	case SIMNPU_OP_CALLBACK:
		d.flags = SIMNPU_DESC_NOBLOCK;
		break;
	}
	return ring_put(r, &d, NULL, false);
}

static const struct {
	const char *name;
	uint8_t op;
} ops[] = {
	{ "launch", SIMNPU_OP_LAUNCH }, { "copy", SIMNPU_OP_COPY }, { "fill", SIMNPU_OP_FILL },
	{ "record", SIMNPU_OP_RECORD }, { "wait", SIMNPU_OP_WAIT },
	{ "callback", SIMNPU_OP_CALLBACK },
};

TEST_F(rules, every_kind_of_task_fails)
{
	struct simnpu_task_error e[2];
	struct simnpu_fault_rule l;
	uint64_t seq[ARRAY_SIZE(ops)];
	char text[100];
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		snprintf(text, sizeof(text), "task:%s,code=54,times=0", ops[i].name);
		SET(text);
		for (k = 0; k < ARRAY_SIZE(ops); k++)
			seq[k] = put_op(&self->r, ops[k].op, self->mem);
		EXPECT_EQ(0, ring_wait(&self->r, seq[k - 1]));
		ASSERT_EQ(1, ring_errors(&self->r, e, 2)) {
			TH_LOG("%s", text);
		}
		EXPECT_EQ(seq[i], e[0].seq);
		EXPECT_EQ(EXFULL, e[0].code);
		EXPECT_EQ(ops[i].op, e[0].op);
		ASSERT_EQ(1, simnpu_fault_list(&l, 1));
		EXPECT_EQ(1, l.seen);
		EXPECT_EQ(1, l.hit);
	}
}

TEST_F(rules, a_task_that_fails_is_not_run)
{
	SET("task:launch,nth=2");
	put_inc(&self->r, self->mem, 1);
	put_inc(&self->r, self->mem, 2);
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 4)));
	EXPECT_EQ(5, mem_u64(&self->c, self->mem));
}

/* Held up before it: others run meanwhile, a wait with a deadline ends in time. */
TEST_F(rules, a_task_that_is_held_up)
{
	uint64_t before = hal_sys_now(), seq;

	SET("task:launch,do=stall,stream=1");
	seq = put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r, seq, ms_from_now(20), 0));
	EXPECT_LT(hal_sys_now() - before, SEC);
	EXPECT_EQ(0, ring_wait(&self->r2, put_inc(&self->r2, self->mem + 8, 1)));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(seq - 1, timeline(&self->r));
	simnpu_fault_clear();
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	EXPECT_FALSE(marked(&self->r));
	SET("task:any,do=stall,ns=20000000");
	before = hal_sys_now();
	EXPECT_EQ(0, ring_wait(&self->r, put_nop(&self->r)));
	EXPECT_LE(20 * MS, hal_sys_now() - before);
}

/* Held up by no means for ever: an abort ends it, a stop does. */
TEST_F(rules, what_is_held_up_can_be_stopped)
{
	SET("task,do=stall,times=0");
	put_inc(&self->r, self->mem, 1);
	until_hit(1);
	EXPECT_EQ(0, ring_abort_until(&self->r, ms_from_now(2000)));
	put_inc(&self->r2, self->mem, 1);
	until_hit(2);
	EXPECT_EQ(0, device_stop_until(self->c.fd, ms_from_now(2000)));
	EXPECT_EQ(0, device_restart(self->c.fd));
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
}

/* Without a thread of the device the waiting one runs it, and still is back in time. */
TEST_F(rules, a_task_that_is_held_up_without_threads)
{
	static const char *const text[] = {
		"alloc:thread,times=0;task:any,do=stall", "alloc:thread,times=0;task:any,do=stuck",
	};
	struct simnpu_test_device d;
	uint64_t before, seq;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(text); i++) {
		ASSERT_TRUE(simnpu_test_device(0, &d));
		ASSERT_EQ(0, d.threads);
		SET(text[i]);
		before = hal_sys_now();
		seq = put_nop(&self->r);
		EXPECT_EQ(-ETIME, ring_wait_until(&self->r, seq, ms_from_now(20), 0));
		EXPECT_EQ(-ETIME, ring_wait_until(&self->r, seq, ms_from_now(20), 0));
		EXPECT_LT(hal_sys_now() - before, SEC);
		SET("alloc:thread,times=0");
		EXPECT_EQ(0, ring_wait(&self->r, seq));
		EXPECT_FALSE(marked(&self->r));
	}
}

TEST_F(rules, a_task_that_is_late)
{
	uint64_t before = hal_sys_now(), seq;

	SET("task:launch,do=late,ns=50000000");
	seq = put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	EXPECT_LE(50 * MS, hal_sys_now() - before);
	EXPECT_FALSE(marked(&self->r));
	/* it was done before it was held up: an abort finds it so */
	SET("task:launch,do=late,ns=3600000000000");
	seq = put_inc(&self->r, self->mem, 1);
	until_hit(1);
	nap_ms(50);
	EXPECT_EQ(seq - 1, timeline(&self->r));
	EXPECT_EQ(0, ring_abort(&self->r));
	EXPECT_EQ(2, mem_u64(&self->c, self->mem));
}

TEST_F(rules, a_task_that_is_early)
{
	uint64_t before = hal_sys_now(), seq, last;

	SET("task:launch,do=early,ns=500000000");
	seq = put_inc(&self->r, self->mem, 1);
	last = put_nop(&self->r);
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	/* its slot is still in use, for it has not begun */
	EXPECT_EQ(0, hal_shm_load_acquire(&self->r.h->consumed));
	EXPECT_EQ(0, ring_wait(&self->r, last));
	EXPECT_LE(500 * MS, hal_sys_now() - before);
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
}

TEST_F(rules, a_completion_that_makes_no_sense)
{
	struct simnpu_task_error e;
	uint64_t seq;

	SET("task:launch,do=corrupt");
	seq = put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	EXPECT_EQ(1, mem_u64(&self->c, self->mem));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(0, e.seq);
	EXPECT_LT(4095, e.code);
	EXPECT_LT(SIMNPU_OP_VALUE_WAIT, e.op);
	EXPECT_EQ(0, e.origin_queue);
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
	EXPECT_FALSE(marked(&self->r));
}

TEST_F(rules, a_task_that_hangs)
{
	uint64_t before = hal_sys_now(), seq;

	SET("task:launch,do=hang,ns=20000000");
	seq = put_inc(&self->r, self->mem, 1);
	EXPECT_EQ(-EIO, ring_wait(&self->r, seq));
	EXPECT_LE(20 * MS, hal_sys_now() - before);
	EXPECT_EQ(ETIME, info_of(self->c.fd).cause);
	EXPECT_EQ(1, info_of(self->c.fd).hangs);
}

/* Nobody has noticed yet: an abort ends it, and the device is well. */
TEST_F(rules, a_task_that_hangs_and_is_aborted)
{
	SET("task:launch,do=hang,ns=3600000000000");
	put_inc(&self->r, self->mem, 1);
	until_hit(1);
	EXPECT_EQ(0, ring_abort_until(&self->r, ms_from_now(2000)));
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_EQ(0, info_of(self->c.fd).hangs);
	EXPECT_EQ(0, mem_u64(&self->c, self->mem));
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
}

/* Tasks that wait for others pass twice: they are looked at once. */
TEST_F(rules, a_task_that_is_parked)
{
	struct simnpu_fault_rule l;
	uint64_t before = hal_sys_now(), seq;

	SET("task:wait,do=late,ns=30000000,times=0");
	seq = put_delay(&self->r, 20 * MS);
	seq = put_wait(&self->r2, self->r.handle, seq);
	EXPECT_EQ(0, ring_wait(&self->r2, seq));
	EXPECT_LE(50 * MS, hal_sys_now() - before);
	ASSERT_EQ(1, simnpu_fault_list(&l, 1));
	EXPECT_EQ(1, l.seen);
	EXPECT_EQ(1, l.hit);
}

/* ---- allocations, and the seam --------------------------------------------------- */

TEST_F(rules, allocations)
{
	struct simnpu_mem m = { .size = 4096, .flags = SIMNPU_MEM_HOST };
	struct simnpu_context ctx = { 0 };
	uint64_t before;

	m.context = self->c.handle;
	SET("alloc:memory");
	EXPECT_EQ(0, mem_new(&self->c, 64, NULL));
	EXPECT_NE(0, mem_new(&self->c, 64, NULL));
	SET("alloc:host");
	EXPECT_EQ(-ENOMEM, io(self->c.fd, MEM_CREATE, &m));
	SET("alloc:lock");
	EXPECT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
	EXPECT_EQ(SIMNPU_MEM_UNLOCKED, m.result);
	SET("alloc:arena");
	EXPECT_EQ(-ENOMEM, io(self->c.fd, CONTEXT_CREATE, &ctx));
	SET("alloc:thread,times=0");
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
	SET("alloc:any,nth=2");
	EXPECT_NE(0, mem_new(&self->c, 64, NULL));
	EXPECT_EQ(0, mem_new(&self->c, 64, NULL));
	SET("alloc:memory,do=stall,ns=20000000");
	before = hal_sys_now();
	EXPECT_NE(0, mem_new(&self->c, 64, NULL));
	EXPECT_LE(20 * MS, hal_sys_now() - before);
}

static void *ring_main(void *arg)
{
	struct ring r;
	int i, rc = 0;

	/* one of them needs more of the arena */
	for (i = 0; !rc && i < 64; i++)
		rc = ring_open_at(&r, arg, 4096, 0, 0, 1);
	return (void *)(intptr_t)rc;
}

static void *kick_main(void *arg)
{
	put_nop(arg);
	return (void *)(intptr_t)ring_kick(arg);
}

/* One that is held up for ever keeps nobody from stopping the device, or closing it. */
TEST_F(rules, allocations_held_up_for_ever)
{
	struct ring r;
	pthread_t t;
	void *rc;

	SET("alloc:arena,do=stall");
	ASSERT_EQ(0, pthread_create(&t, NULL, ring_main, &self->c));
	until_hit(1);
	EXPECT_EQ(0, device_stop_until(self->c.fd, ms_from_now(5000)));
	pthread_join(t, &rc);
	EXPECT_EQ(-ESHUTDOWN, (int)(intptr_t)rc);
	EXPECT_EQ(0, device_restart(self->c.fd));
	ASSERT_EQ(0, ring_open(&r, &self->other));
	SET("alloc:thread,do=stall");
	ASSERT_EQ(0, pthread_create(&t, NULL, kick_main, &r));
	until_hit(1);
	EXPECT_EQ(0, dev_close(self->other.fd));
	pthread_join(t, &rc);
	simnpu_fault_clear();
	ASSERT_EQ(0, ctx_open(&self->other, 1));
	ASSERT_EQ(0, ring_open(&r, &self->other));
	EXPECT_EQ(0, ring_wait_engine(&r, put_nop(&r)));
}

TEST_F(rules, calls_through_the_seam)
{
	struct simnpu_export ex = { .handle = self->r.handle };
	uint64_t before;
	int fd;

	SET("sys:eventfd");
	EXPECT_EQ(-EMFILE, dev_open(0));
	fd = dev_open(0);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, dev_close(fd));
	SET("sys:eventfd,code=ENFILE");
	EXPECT_EQ(-ENFILE, dev_open(0));
	SET("sys:memfd_create");
	EXPECT_EQ(-EMFILE, io(self->c.fd, QUEUE_EXPORT, &ex));
	EXPECT_EQ(0, io(self->c.fd, QUEUE_EXPORT, &ex));
	EXPECT_EQ(0, dev_close(ex.fd));
	SET("sys:eventfd,do=stall,ns=20000000;sys:eventfd,do=late,ns=20000000,nth=2");
	before = hal_sys_now();
	fd = dev_open(0);
	EXPECT_LE(20 * MS, hal_sys_now() - before);
	EXPECT_EQ(0, dev_close(fd));
	before = hal_sys_now();
	fd = dev_open(0);
	EXPECT_LE(20 * MS, hal_sys_now() - before);
	EXPECT_EQ(0, dev_close(fd));
	simnpu_fault_clear();
	fd = dev_open(0);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, dev_close(fd));
}

/* Calls that fail for ever, as if by a signal, are made all the same. */
TEST_F(rules, calls_to_be_made_again)
{
	SET("sys:any,times=0");
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
	EXPECT_EQ(-ETIME, ring_wait_until(&self->r, self->r.seq, ms_from_now(20),
					  SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK));
	EXPECT_EQ(0, device_stop_until(self->c.fd, ms_from_now(5000)));
	EXPECT_EQ(0, device_restart(self->c.fd));
}

static void *open_main(void *arg)
{
	return (void *)(intptr_t)dev_open(*(unsigned int *)arg);
}

/* What is held up for ever, before the call and behind it, goes on when the rules change. */
TEST_F(rules, calls_held_up_for_ever)
{
	static const char *const text[] = {
		"sys:eventfd,do=stall", "sys:eventfd,do=late,ns=0xffffffffffffffff",
	};
	unsigned int node = 0;
	pthread_t t;
	size_t i;
	void *fd;

	for (i = 0; i < ARRAY_SIZE(text); i++) {
		SET(text[i]);
		ASSERT_EQ(0, pthread_create(&t, NULL, open_main, &node));
		until_hit(1);
		simnpu_fault_clear();
		pthread_join(t, &fd);
		EXPECT_LE(0, (int)(intptr_t)fd);
		EXPECT_EQ(0, dev_close((int)(intptr_t)fd));
	}
}

/* ---- the option ------------------------------------------------------------------ */

static const char *option_text;

static const char *text_of(const char *name)
{
	return strcmp(name, "simnpu_faults") ? NULL : option_text;
}

static const struct hal_option_reader reader = { .text = text_of };

TEST(the_option)
{
	struct simnpu_fault_rule l;
	struct ctx c;
	int fd;

	hal_option_set_reader(&reader);
	option_text = "ioctl:event_create,code=54;nonsense";
	EXPECT_EQ(-EINVAL, dev_open(0));
	EXPECT_EQ(0, simnpu_fault_list(&l, 1));
	option_text = "ioctl:event_create,code=54,nth=2";
	ASSERT_EQ(0, ctx_open(&c, 0));
	EXPECT_EQ(0, event_new(&c));
	/* counts go on when another node is opened */
	fd = dev_open(1);
	EXPECT_LE(0, fd);
	EXPECT_EQ(-EXFULL, event_new(&c));
	EXPECT_EQ(0, event_new(&c));
	/* the back door has the last word */
	simnpu_fault_clear();
	EXPECT_EQ(0, dev_close(fd));
	fd = dev_open(1);
	EXPECT_EQ(0, event_new(&c));
	EXPECT_EQ(0, event_new(&c));
	EXPECT_EQ(0, dev_close(fd));
	EXPECT_EQ(0, dev_close(c.fd));
}

/* ---- many at once ---------------------------------------------------------------- */

static _Atomic bool over;

static void *submit(void *arg)
{
	struct ring *r = arg;

	while (!atomic_load(&over))
		ring_wait(r, put_nop(r));
	return NULL;
}

TEST_F(rules, set_while_tasks_run)
{
	uint64_t end = hal_sys_now() + SEC / 2;
	struct simnpu_task_error e[16];
	struct simnpu_fault_rule l;
	uint64_t hits = 0;
	pthread_t a, b;

	atomic_store(&over, false);
	ASSERT_EQ(0, pthread_create(&a, NULL, submit, &self->r));
	ASSERT_EQ(0, pthread_create(&b, NULL, submit, &self->r2));
	while (hal_sys_now() < end) {
		SET("task,prob=0.5;task:any,do=late,ns=1000,nth=3");
		usleep(500);
		if (simnpu_fault_list(&l, 1))
			hits += l.hit;
		simnpu_fault_clear();
		ring_errors(&self->r, e, 16);
		ring_errors(&self->r2, e, 16);
	}
	atomic_store(&over, true);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	EXPECT_LT(0, hits);
}

static void *set_all_the_time(void *arg)
{
	uint32_t n;

	for (n = 1; n <= 500; n++) {
		while (atomic_load((_Atomic uint32_t *)arg) != 2 * n - 1)
			sched_yield();
		simnpu_fault_set("ioctl:event_create,code=54,times=0", NULL);
		atomic_store((_Atomic uint32_t *)arg, 2 * n);
	}
	return NULL;
}

/* Two that set rules at a time: those of the one or the other are in force, none in part. */
TEST_F(rules, set_by_two)
{
	struct simnpu_fault_rule l;
	_Atomic uint32_t turn = 0;
	pthread_t t;
	uint32_t n;

	ASSERT_EQ(0, pthread_create(&t, NULL, set_all_the_time, &turn));
	for (n = 1; n <= 500; n++) {
		atomic_store(&turn, 2 * n - 1);
		simnpu_fault_set("", NULL);
		while (atomic_load(&turn) != 2 * n)
			sched_yield();
		ASSERT_EQ(simnpu_fault_list(&l, 1) ? -EXFULL : 0, event_new(&self->c)) {
			TH_LOG("round %u", n);
		}
	}
	pthread_join(t, NULL);
}

TEST_HARNESS_MAIN
