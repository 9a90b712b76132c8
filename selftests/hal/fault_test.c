// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of devices, with the fake driver: who finds them, who is told, how a
 * restart goes wrong, and what becomes of memory.
 */
#include <pthread.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

FIXTURE(fault) {
	struct bed b;
	uint64_t s;
};

static struct change {
	uint32_t from, to;
	int cause;
} changes[32];
static _Atomic uint32_t changes_nr;

static void note(struct hal_device *dev, uint32_t from, uint32_t to, int cause)
{
	struct hal_mem_info mi;
	uint32_t i = changes_nr++;

	/* questions are allowed, and no lock is held */
	hal_device_mem_info(dev, &mi);
	if (i < ARRAY_SIZE(changes))
		changes[i] = (struct change){ from, to, cause };
}

FIXTURE_SETUP(fault)
{
	ASSERT_EQ(0, bed_open(&self->b, "fake", NULL, 0, true));
	ASSERT_EQ(0, make_stream(&self->b, &self->s));
	changes_nr = 0;
	hal_set_state_hook(note);
}

FIXTURE_TEARDOWN(fault)
{
	hal_set_state_hook(NULL);
	fake_hang(false);
	EXPECT_EQ(0, bed_close(&self->b));
	EXPECT_EQ(0, fake_objects());
}

static bool told(uint32_t i, uint32_t from, uint32_t to, int cause)
{
	return i < changes_nr && changes[i].from == from && changes[i].to == to &&
	       changes[i].cause == cause;
}

/* The first wait tells which task failed, and finds the fault; then the device says what it has. */
TEST_F(fault, a_wait_finds_it)
{
	struct bed *b = &self->b;

	fake_fault(b->dev, HAL_DEVICE_FAULTED, -EHWPOISON);
	EXPECT_EQ(HAL_DEVICE_OPEN, hal_load_relaxed(&b->dev->state));
	ASSERT_EQ(0, launch_nop(b, self->s));
	EXPECT_EQ(-EHWPOISON, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(1, hal_error_last()->generation);
	EXPECT_EQ(HAL_DEVICE_FAULTED, hal_load_relaxed(&b->dev->state));
	EXPECT_EQ(1, hal_load_relaxed(&changes_nr));
	EXPECT_TRUE(told(0, HAL_DEVICE_OPEN, HAL_DEVICE_FAULTED, -EHWPOISON));
	EXPECT_EQ(-EIO, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "EHWPOISON"));
	EXPECT_NE(NULL, strstr(hal_error_last()->hint, "npu_device_restart"));
	EXPECT_EQ(-EIO, hal_stream_query(self->s));
	EXPECT_EQ(-EIO, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(-EIO, launch_nop(b, self->s));
}

TEST_F(fault, a_query_finds_it)
{
	struct bed *b = &self->b;
	int i, rc = -EINPROGRESS;

	fake_fault(b->dev, HAL_DEVICE_FAULTED, -ENOLINK);
	ASSERT_EQ(0, launch_nop(b, self->s));
	for (i = 0; i < 5000 && rc == -EINPROGRESS; i++) {
		rc = hal_stream_query(self->s);
		sleep_ms(1);
	}
	EXPECT_EQ(-ENOLINK, rc);
	EXPECT_EQ(HAL_DEVICE_FAULTED, hal_load_relaxed(&b->dev->state));
	/* it was not told of yet */
	EXPECT_EQ(-ENOLINK, hal_stream_query(self->s));
	EXPECT_EQ(-ENOLINK, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(-EIO, hal_stream_query(self->s));
}

/* A question finds it; streams that have nothing to do answer like others then. */
TEST_F(fault, a_question_finds_it)
{
	struct bed *b = &self->b;
	struct hal_health h;
	struct hal_point p;

	ASSERT_EQ(0, launch_nop(b, self->s));
	ASSERT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
	ASSERT_EQ(0, hal_stream_point(self->s, &p, "test"));
	hal_device_health(b->dev, &h);
	EXPECT_EQ(HAL_DEVICE_OPEN, h.state);
	EXPECT_EQ(0, h.cause);
	EXPECT_NE(NULL, strstr(h.text, "no fault"));
	fake_fault(b->dev, HAL_DEVICE_FAULTED, -ETIMEDOUT);
	hal_device_health(b->dev, &h);
	EXPECT_EQ(HAL_DEVICE_FAULTED, h.state);
	EXPECT_EQ(-ETIMEDOUT, h.cause);
	EXPECT_EQ(1, h.hangs);
	EXPECT_NE(NULL, strstr(h.text, "ETIMEDOUT"));
	EXPECT_EQ(-EIO, hal_stream_query(self->s));
	EXPECT_EQ(-EIO, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(-EIO, hal_point_query(&p));
	EXPECT_EQ(-EIO, hal_point_sync(&p, LONG_MS, 0));
	/* the first cause stays */
	fake_fault(b->dev, HAL_DEVICE_FAULTED, -ENOLINK);
	hal_device_health(b->dev, &h);
	EXPECT_EQ(-ETIMEDOUT, h.cause);
	EXPECT_EQ(1, h.link_errors);
	EXPECT_EQ(1, hal_load_relaxed(&changes_nr));
}

/* Nothing fails, and yet it has a fault: who asks learns what it is. */
TEST_F(fault, no_heartbeat)
{
	struct hal_health h;

	fake_fault(self->b.dev, HAL_DEVICE_FAULTED, -EREMOTEIO);
	hal_device_health(self->b.dev, &h);
	EXPECT_EQ(-EREMOTEIO, h.cause);
	EXPECT_EQ(-EIO, launch_nop(&self->b, self->s));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "EREMOTEIO"));
}

/* What is submitted at once may fail at once. */
TEST_F(fault, blocking_calls_find_it)
{
	struct bed *b = &self->b;
	char *m, byte = 1;

	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
	fake_fault(b->dev, HAL_DEVICE_FAULTED, -EIO);
	fake_fail(FAKE_COPY, 1, 1, -EIO);
	EXPECT_EQ(-EIO, copy_now(b, m, &byte, 1));
	EXPECT_EQ(HAL_DEVICE_FAULTED, hal_load_relaxed(&b->dev->state));
	EXPECT_EQ(0, hal_mem_free(m));
}

TEST_F(fault, restart_mends_it)
{
	struct bed *b = &self->b;
	struct hal_health h;

	fake_fault(b->dev, HAL_DEVICE_FAULTED, -ENOLINK);
	hal_device_look(b->dev);
	/* FAULTED is stopped first */
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(2, hal_load_relaxed(&changes_nr));
	EXPECT_TRUE(told(0, HAL_DEVICE_OPEN, HAL_DEVICE_FAULTED, -ENOLINK));
	EXPECT_TRUE(told(1, HAL_DEVICE_FAULTED, HAL_DEVICE_OPEN, 0));
	hal_device_health(b->dev, &h);
	EXPECT_EQ(HAL_DEVICE_OPEN, h.state);
	EXPECT_EQ(0, h.cause);
	EXPECT_EQ(1, h.link_errors);
	EXPECT_EQ(-ESTALE, hal_stream_query(self->s));
	ASSERT_EQ(0, make_stream(b, &self->s));
	ASSERT_EQ(0, launch_nop(b, self->s));
	EXPECT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
}

/* Attempts fail, the third succeeds; or none does, and the device is lost. */
TEST_F(fault, attempts_are_bounded)
{
	struct bed *b = &self->b;

	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	fake_fail(FAKE_RESTART, 1, HAL_RESTART_TRIES - 1, -EIO);
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(HAL_RESTART_TRIES, fake_calls(FAKE_RESTART));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	fake_fail(FAKE_RESTART, 1, 100, -EIO);
	EXPECT_EQ(-ENODEV, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "3 attempts"));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "EIO"));
	EXPECT_EQ(HAL_RESTART_TRIES, fake_calls(FAKE_RESTART));
	EXPECT_EQ(HAL_DEVICE_LOST, hal_load_relaxed(&b->dev->state));
	EXPECT_EQ(-ENODEV, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(-ENODEV, hal_device_stop(b->dev, LONG_MS));
}

/* Out of time between attempts it stays stopped, and can be tried again. */
TEST_F(fault, restart_out_of_time)
{
	struct bed *b = &self->b;

	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	fake_fail(FAKE_RESTART, 1, 100, -EIO);
	EXPECT_EQ(-ETIMEDOUT, hal_device_restart(b->dev, 0, 0));
	EXPECT_EQ(1, fake_calls(FAKE_RESTART));
	EXPECT_EQ(HAL_DEVICE_STOPPED, hal_load_relaxed(&b->dev->state));
	EXPECT_EQ(-ESHUTDOWN, launch_nop(b, self->s));
	fake_fail(FAKE_RESTART, 1, 0, 0);
	EXPECT_EQ(0, hal_device_restart(b->dev, 0, 0));
	EXPECT_EQ(HAL_DEVICE_OPEN, hal_load_relaxed(&b->dev->state));
}

TEST_F(fault, arguments)
{
	struct bed *b = &self->b;

	EXPECT_EQ(-EINVAL, hal_device_restart(b->dev, 2, LONG_MS));
	EXPECT_EQ(-EBUSY, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(0, hal_load_relaxed(&changes_nr));
	EXPECT_EQ(1, hal_load_relaxed(&b->dev->generation));
}

/* A stop that the driver refuses leaves a device with a fault, which can be stopped again. */
TEST_F(fault, stop_fails)
{
	struct bed *b = &self->b;

	fake_fail(FAKE_STOP, 1, 1, -EINTR);
	EXPECT_EQ(-EINTR, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(HAL_DEVICE_FAULTED, hal_load_relaxed(&b->dev->state));
	EXPECT_EQ(-EIO, launch_nop(b, self->s));
	EXPECT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	fake_fail(FAKE_STOP, 1, 1, -ENODEV);
	EXPECT_EQ(-ENODEV, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(HAL_DEVICE_LOST, hal_load_relaxed(&b->dev->state));
	EXPECT_FALSE(hal_load_relaxed(&b->dev->hung));
}

/* Gone: all but questions of the runtime's own and taking down says so. */
TEST_F(fault, unplugged)
{
	struct bed *b = &self->b;
	struct hal_health h;
	struct hal_device *again;
	char *m;

	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
	fake_fault(b->dev, HAL_DEVICE_LOST, -ENODEV);
	ASSERT_EQ(0, launch_nop(b, self->s));
	EXPECT_EQ(-ENODEV, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(HAL_DEVICE_LOST, hal_load_relaxed(&b->dev->state));
	EXPECT_TRUE(told(0, HAL_DEVICE_OPEN, HAL_DEVICE_LOST, -ENODEV));
	EXPECT_EQ(-ENODEV, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(-ENODEV, hal_stream_query(self->s));
	EXPECT_EQ(-ENODEV, launch_nop(b, self->s));
	EXPECT_EQ(-ENODEV, hal_stream_abort(self->s, LONG_MS));
	EXPECT_EQ(-ENODEV, hal_device_restart(b->dev, 0, LONG_MS));
	hal_device_health(b->dev, &h);
	EXPECT_EQ(HAL_DEVICE_LOST, h.state);
	EXPECT_EQ(0, hal_stream_destroy(self->s, LONG_MS));
	EXPECT_EQ(0, hal_mem_free(m));
	/* what is in its place is not it: its addresses are still taken, though */
	EXPECT_EQ(-EEXIST, hal_device_open(b->drv, 0, &again));
}

/* ---- work that does not end ---- */

TEST_F(fault, stop_of_a_hung_device)
{
	struct bed *b = &self->b;
	uint64_t t0, ms;

	fake_hang(true);
	ASSERT_EQ(0, launch_nop(b, self->s));
	while (!fake_calls(FAKE_TASK))
		sched_yield();
	t0 = hal_sys_now();
	EXPECT_EQ(-ETIMEDOUT, hal_device_stop(b->dev, 50));
	ms = (hal_sys_now() - t0) / 1000000;
	EXPECT_LE(49, ms);
	EXPECT_GT(5000, ms);
	EXPECT_EQ(HAL_DEVICE_LOST, hal_load_relaxed(&b->dev->state));
	EXPECT_TRUE(hal_load_relaxed(&b->dev->hung));
	EXPECT_EQ(1, hal_load_relaxed(&changes_nr));
	EXPECT_TRUE(told(0, HAL_DEVICE_OPEN, HAL_DEVICE_LOST, -ETIME));
	EXPECT_EQ(-ENODEV, hal_stream_sync(self->s, FOREVER, 0));
	fake_hang(false);
}

TEST_F(fault, abort_of_a_hung_stream)
{
	struct bed *b = &self->b;
	uint64_t other;

	ASSERT_EQ(0, make_stream(b, &other));
	fake_hang(true);
	ASSERT_EQ(0, launch_nop(b, self->s));
	while (!fake_calls(FAKE_TASK))
		sched_yield();
	EXPECT_EQ(-ETIMEDOUT, hal_stream_abort(self->s, 30));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "does not end"));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(self->s));
	EXPECT_EQ(-ETIMEDOUT, hal_stream_abort(self->s, 0));
	fake_hang(false);
	EXPECT_EQ(0, hal_stream_abort(self->s, LONG_MS));
	ASSERT_EQ(0, launch_nop(b, self->s));
	EXPECT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
}

/* A wait that was too short says for what. */
TEST_F(fault, a_time_out_names_the_task)
{
	struct bed *b = &self->b;
	uint64_t t0, ms;
	struct gate g;
	char want[128];
	int i;

	hal_tag_set("layer 7");
	ASSERT_EQ(0, gate_close(&g, self->s));
	hal_tag_set("other");
	ASSERT_EQ(0, launch_nop(b, self->s));
	gate_await(&g);
	/* on a machine that is busy once may be too late */
	for (i = 0, ms = 1000; i < 10 && ms >= 200; i++) {
		t0 = hal_sys_now();
		EXPECT_EQ(-ETIMEDOUT, hal_stream_sync(self->s, 50, 0));
		ms = (hal_sys_now() - t0) / 1000000;
		EXPECT_LE(49, ms);
	}
	EXPECT_GT(200, ms);
	snprintf(want, sizeof(want), "stream 0x%llx: task 2 was not done in time: it is at task 1 "
		 "(stream_callback), tag layer 7", (unsigned long long)self->s);
	EXPECT_STREQ(want, hal_error_last()->text);
	EXPECT_STREQ("layer 7", hal_error_last()->tag);
	EXPECT_EQ(2, hal_error_last()->seq);
	EXPECT_EQ(self->s, hal_error_last()->stream);
	EXPECT_NE(0, hal_error_last()->place);
	EXPECT_EQ(-ETIMEDOUT, hal_stream_sync(self->s, 0, 0));
	gate_open(&g);
	hal_tag_set(NULL);
	/* it was left queued */
	EXPECT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
}

/* ---- inside a callback ---- */

static int stop_inside, restart_inside, abort_inside;

static void inside(void *arg)
{
	struct bed *b = arg;
	uint64_t s;

	stop_inside = hal_device_stop(b->dev, LONG_MS);
	restart_inside = hal_device_restart(b->dev, 0, LONG_MS);
	if (!make_stream(b, &s))
		abort_inside = hal_stream_abort(s, LONG_MS);
}

TEST_F(fault, not_in_a_callback)
{
	ASSERT_EQ(0, hal_stream_callback(self->s, inside, &self->b, 0, PLACE));
	ASSERT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(-EDEADLK, stop_inside);
	EXPECT_EQ(-EDEADLK, restart_inside);
	EXPECT_EQ(-EDEADLK, abort_inside);
}

/* ---- memory ---- */

static bool is_unsafe(const void *p)
{
	struct hal_pointer info;

	return !hal_pointer_info(p, &info) && info.kind == HAL_MEMORY_DEVICE && info.unsafe;
}

/* [C-MEM-8] */
TEST_F(fault, memory_after_an_uncorrectable_error)
{
	struct bed *b = &self->b;
	char *m, *n, bytes[64] = { 0 };
	void *none;

	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&n));
	fake_fault(b->dev, HAL_DEVICE_FAULTED, -EHWPOISON);
	hal_device_look(b->dev);
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	ASSERT_EQ(0, make_stream(b, &self->s));
	EXPECT_TRUE(is_unsafe(m));
	EXPECT_TRUE(is_unsafe(n + 63));
	EXPECT_EQ(-EHWPOISON, copy_now(b, bytes, m, 1));
	EXPECT_EQ((uintptr_t)m, hal_error_last()->addr);
	EXPECT_NE(0, hal_error_last()->hint[0]);
	EXPECT_EQ(-EHWPOISON, copy_async(self->s, bytes, m + 5, 1));
	EXPECT_EQ(-EHWPOISON, copy_now(b, n, m, 64));

	/* a part of it is not enough */
	EXPECT_EQ(0, copy_now(b, m, bytes, 63));
	EXPECT_EQ(0, copy_now(b, m + 1, bytes, 63));
	EXPECT_EQ(0, hal_mem_fill(b->ctx, m, 0, 63));
	EXPECT_EQ(0, hal_stream_fill(self->s, m, 0, 63, PLACE));
	EXPECT_EQ(0, copy_async(self->s, m, bytes, 63));
	EXPECT_TRUE(is_unsafe(m));
	ASSERT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));

	/* what fails has written nothing */
	fake_fail(FAKE_COPY, 1, 1, -EINTR);
	EXPECT_EQ(-EINTR, copy_now(b, m, bytes, 64));
	EXPECT_TRUE(is_unsafe(m));
	fake_fail(FAKE_SUBMIT, 1, 1, -EINTR);
	EXPECT_EQ(-EINTR, copy_async(self->s, m, bytes, 64));
	EXPECT_TRUE(is_unsafe(m));

	ASSERT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(0, copy_now(b, m, bytes, 64));
	EXPECT_FALSE(is_unsafe(m));
	EXPECT_EQ(0, copy_now(b, bytes, m, 64));
	EXPECT_TRUE(is_unsafe(n));
	EXPECT_EQ(-EINVAL, hal_mem_set_safe(n + 1));
	EXPECT_EQ(-EINVAL, hal_mem_set_safe(bytes));
	EXPECT_EQ(-EINVAL, hal_mem_set_safe(NULL));
	EXPECT_EQ(0, hal_mem_set_safe(n));
	EXPECT_FALSE(is_unsafe(n));
	EXPECT_EQ(0, hal_mem_set_safe(n));
	EXPECT_EQ(0, hal_mem_free(n));
	EXPECT_EQ(-EINVAL, hal_mem_set_safe(n));
	ASSERT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(0, hal_mem_free(m));
	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, &none));
	EXPECT_FALSE(is_unsafe(none));
	EXPECT_EQ(0, hal_mem_free(none));
}

/* [C-MEM-8] Each way to write the whole makes it safe. */
TEST_F(fault, whole_writes_make_safe)
{
	struct bed *b = &self->b;
	char *m, bytes[64] = { 0 };
	struct hal_copy rows;
	unsigned int way;
	int rc = -1;

	for (way = 0; way < 5; way++) {
		ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
		fake_fault(b->dev, HAL_DEVICE_FAULTED, -EHWPOISON);
		hal_device_look(b->dev);
		ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
		ASSERT_EQ(0, make_stream(b, &self->s));
		ASSERT_TRUE(is_unsafe(m));
		rows = (struct hal_copy){ .dst = m, .src = bytes, .dst_pitch = 16,
					  .src_pitch = 16, .width = 8, .height = 4 };
		/* rows with gaps leave something between */
		EXPECT_EQ(0, hal_mem_copy(b->ctx, &rows));
		EXPECT_TRUE(is_unsafe(m));
		rows.width = 16;
		rows.kind = NPU_COPY_AUTO;
		switch (way) {
		case 0:
			rc = copy_async(self->s, m, bytes, 64);
			break;
		case 1:
			rc = hal_stream_fill(self->s, m, 1, 64, PLACE);
			break;
		case 2:
			rc = hal_mem_fill(b->ctx, m, 1, 64);
			break;
		case 3:
			rc = hal_mem_copy(b->ctx, &rows);
			break;
		case 4:
			rc = hal_stream_copy(self->s, &rows, PLACE);
			break;
		}
		EXPECT_EQ(0, rc);
		EXPECT_FALSE(is_unsafe(m)) TH_LOG("way %u", way);
		EXPECT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
		EXPECT_EQ(0, copy_now(b, bytes, m, 64));
		EXPECT_EQ(0, hal_mem_free(m));
	}
}

/* Only what was hit, where the caller knows that the rest is well, or the cause was another. */
TEST_F(fault, memory_that_was_not_hit)
{
	static const struct {
		int cause;
		uint32_t flags;
	} cases[] = {
		{ -EHWPOISON, HAL_RESTART_KEEP_DATA }, { -ENOLINK, 0 },
	};
	struct bed *b = &self->b;
	char *m[3];
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (k = 0; k < 3; k++)
			ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m[k]));
		fake_poison(b->dev, m[1] + 63, 2);
		fake_fault(b->dev, HAL_DEVICE_FAULTED, cases[i].cause);
		hal_device_look(b->dev);
		ASSERT_EQ(0, hal_device_restart(b->dev, cases[i].flags, LONG_MS));
		EXPECT_FALSE(is_unsafe(m[0]));
		EXPECT_TRUE(is_unsafe(m[1]));
		/* the range reaches into the next */
		EXPECT_EQ(m[2] == m[1] + 64, is_unsafe(m[2]));
		for (k = 0; k < 3; k++)
			EXPECT_EQ(0, hal_mem_free(m[k]));
	}
	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m[0]));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	ASSERT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_FALSE(is_unsafe(m[0]));
	EXPECT_EQ(0, hal_mem_free(m[0]));
}

/* ---- at the same time ---- */

static void *restart_it(void *arg)
{
	struct bed *b = arg;

	return (void *)(intptr_t)hal_device_restart(b->dev, 0, LONG_MS);
}

static void *stop_briefly(void *arg)
{
	struct bed *b = arg;

	return (void *)(intptr_t)hal_device_stop(b->dev, 20);
}

TEST_F(fault, one_at_a_time)
{
	struct bed *b = &self->b;
	pthread_t th[4];
	struct gate g;
	unsigned int i, good = 0;
	void *rc;

	/* one waits for a callback that does not end, the other gives up waiting for it */
	ASSERT_EQ(0, gate_close(&g, self->s));
	gate_await(&g);
	fake_fault(b->dev, HAL_DEVICE_FAULTED, -EIO);
	hal_device_look(b->dev);
	ASSERT_EQ(0, pthread_create(&th[0], NULL, restart_it, b));
	while (hal_load_acquire(&b->dev->state) != HAL_DEVICE_STOPPED)
		sched_yield();
	ASSERT_EQ(0, pthread_create(&th[1], NULL, stop_briefly, b));
	pthread_join(th[1], &rc);
	EXPECT_EQ(-ETIMEDOUT, (intptr_t)rc);
	EXPECT_EQ(HAL_DEVICE_STOPPED, hal_load_relaxed(&b->dev->state));
	gate_open(&g);
	pthread_join(th[0], &rc);
	EXPECT_EQ(0, (intptr_t)rc);

	fake_fault(b->dev, HAL_DEVICE_FAULTED, -EIO);
	hal_device_look(b->dev);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&th[i], NULL, restart_it, b));
	for (i = 0; i < 4; i++) {
		pthread_join(th[i], &rc);
		good += !rc;
		EXPECT_TRUE(!rc || (intptr_t)rc == -EBUSY);
	}
	EXPECT_EQ(1, good);
	EXPECT_EQ(3, hal_load_relaxed(&b->dev->generation));
}

TEST_HARNESS_MAIN
