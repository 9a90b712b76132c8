// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each step of the core that can fail, fails cleanly.
 */
#include "selftests/hal/bed.h"

#include "hal/internal.h"
#include "selftests/fakes/sys.h"

FIXTURE(failing) {
	struct bed b;
	uint64_t s;
};

FIXTURE_SETUP(failing)
{
	hal_sys_set(&fake_sys);
	fake_sys_reset();
	ASSERT_EQ(0, bed_open(&self->b, "fake", NULL, 0, true));
	ASSERT_EQ(0, make_stream(&self->b, &self->s));
}

FIXTURE_TEARDOWN(failing)
{
	uint32_t t, left = 0;

	fake_sys_reset();
	fake_reset();
	EXPECT_EQ(0, bed_close(&self->b));
	for (t = 1; t < HAL_HANDLE_TYPES; t++)
		left += hal_handle_count((enum hal_handle_type)t);
	EXPECT_EQ(0, left);
	EXPECT_EQ(0, fake_objects());
}

enum step {
	STEP_DEVICE, STEP_CONTEXT, STEP_STREAM, STEP_EVENT, STEP_MEM, STEP_HOST, STEP_REGISTER,
	STEP_MODULE, STEP_KERNEL, STEPS
};

static char registered[8192];

/* Does the step; what it made is taken away again. */
static int do_step(struct bed *b, uint64_t s, enum step step)
{
	struct hal_device *dev;
	uint64_t h = 0;
	void *p = NULL;
	int rc;

	switch (step) {
	case STEP_DEVICE:
		rc = hal_device_open(b->drv, 1, &dev);
		hal_device_put(dev);
		return rc;
	case STEP_CONTEXT:
		rc = hal_context_create(b->dev, &h);
		return h ? hal_context_destroy(h, LONG_MS) : rc;
	case STEP_STREAM:
		rc = make_stream(b, &h);
		return h ? hal_stream_destroy(h, LONG_MS) : rc;
	case STEP_EVENT:
		rc = hal_event_create(NPU_EVENT_TIMING, &h);
		if (rc)
			return rc;
		rc = hal_event_record(h, s, PLACE);
		hal_stream_sync(s, LONG_MS, 0);
		hal_event_destroy(h);
		return rc;
	case STEP_MEM:
		rc = hal_mem_alloc(b->ctx, 100, 0, &p);
		return p ? hal_mem_free(p) : rc;
	case STEP_HOST:
		rc = hal_mem_host_alloc(b->ctx, 100, 0, &p);
		return p ? hal_mem_host_free(p) : rc;
	case STEP_REGISTER:
		rc = hal_mem_host_register(b->ctx, registered, sizeof(registered), 0);
		return rc ? rc : hal_mem_host_unregister(registered);
	case STEP_MODULE:
		rc = hal_module_load_builtin(b->ctx, &h);
		return h ? hal_module_unload(h, LONG_MS) : rc;
	case STEP_KERNEL:
		rc = hal_module_load_builtin(b->ctx, &h);
		if (rc)
			return rc;
		rc = hal_kernel_get(h, "nop", &(uint64_t){ 0 });
		hal_module_unload(h, LONG_MS);
		return rc;
	default:
		return 0;
	}
}

/* Every allocation of every step fails once; the step fails, leaves nothing, and works again. */
TEST_F(failing, allocations)
{
	unsigned int step, nth, failures;
	uint32_t before;
	int rc;

	for (step = 0; step < STEPS; step++) {
		before = fake_objects();
		failures = 0;
		for (nth = 1; nth < 20; nth++) {
			fake_sys_fail(FAKE_SYS_ALLOC, nth, 1, ENOMEM);
			rc = do_step(&self->b, self->s, (enum step)step);
			if (fake_sys_calls(FAKE_SYS_ALLOC) < nth)
				break;
			failures += rc == -ENOMEM;
			EXPECT_TRUE(!rc || rc == -ENOMEM)
				TH_LOG("step %u, allocation %u: %d", step, nth, rc);
			EXPECT_EQ(before, fake_objects())
				TH_LOG("step %u, allocation %u", step, nth);
		}
		EXPECT_LT(0, failures)
			TH_LOG("step %u", step);
		EXPECT_EQ(0, rc);
	}
}

/* What has gone well leaves the record alone; a driver that is silent gets its own text. */
TEST_F(failing, records)
{
	struct bed *b = &self->b;
	unsigned int step;

	hal_fail(-EIO, "before", "an old failure");
	for (step = 0; step < STEPS; step++)
		ASSERT_EQ(0, do_step(b, self->s, (enum step)step));
	EXPECT_EQ(-EIO, hal_error_last()->code);
	EXPECT_STREQ("an old failure", hal_error_last()->text);
	fake_fail(FAKE_STREAM_INIT, 1, 1, -EIO);
	EXPECT_EQ(-EIO, do_step(b, self->s, STEP_STREAM));
	EXPECT_STREQ("stream_create", hal_error_last()->op);
	fake_fail(FAKE_SUBMIT, 1, 1, -EIO);
	EXPECT_EQ(-EIO, launch_nop(b, self->s));
	EXPECT_STREQ("launch", hal_error_last()->op);
}

/* Lists of more streams than there is room for on the stack. */
TEST_F(failing, lists_of_streams)
{
	struct bed *b = &self->b;
	uint64_t m, s;
	int i;

	for (i = 0; i < 20; i++)
		ASSERT_EQ(0, make_stream(b, &s));
	ASSERT_EQ(0, hal_module_load_builtin(b->ctx, &m));
	ASSERT_EQ(0, launch_nop(b, s));
	fake_sys_fail(FAKE_SYS_ALLOC, 1, 1, ENOMEM);
	EXPECT_EQ(-ENOMEM, hal_context_sync(b->ctx, LONG_MS, 0));
	fake_sys_fail(FAKE_SYS_ALLOC, 1, 1, ENOMEM);
	EXPECT_EQ(-ENOMEM, hal_module_unload(m, LONG_MS));
	EXPECT_EQ(0, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_query(s));
	EXPECT_EQ(0, hal_module_unload(m, LONG_MS));
}

/* The same for the driver's ops, and for the error that they gave. */
TEST_F(failing, ops)
{
	static const struct {
		enum step step;
		enum fake_op op;
	} cases[] = {
		{ STEP_DEVICE, FAKE_DEVICE_INIT }, { STEP_DEVICE, FAKE_INFO },
		{ STEP_CONTEXT, FAKE_CONTEXT_INIT }, { STEP_STREAM, FAKE_STREAM_INIT },
		{ STEP_EVENT, FAKE_EVENT_INIT }, { STEP_EVENT, FAKE_SUBMIT },
		{ STEP_MEM, FAKE_ALLOC },
		{ STEP_HOST, FAKE_HOST_ALLOC }, { STEP_REGISTER, FAKE_REGISTER },
		{ STEP_MODULE, FAKE_MODULE }, { STEP_KERNEL, FAKE_KERNEL },
	};
	static const int codes[] = { -ENOMEM, -EIO };
	uint32_t before = fake_objects();
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (k = 0; k < ARRAY_SIZE(codes); k++) {
			fake_fail(cases[i].op, 1, 1, codes[k]);
			EXPECT_EQ(codes[k], do_step(&self->b, self->s, cases[i].step))
				TH_LOG("op %u", cases[i].op);
			EXPECT_EQ(codes[k], hal_error_last()->code);
			EXPECT_EQ(before, fake_objects())
				TH_LOG("op %u", cases[i].op);
			EXPECT_EQ(0, do_step(&self->b, self->s, cases[i].step));
		}
	}
}

TEST_F(failing, submission)
{
	struct bed *b = &self->b;
	struct hal_point p, q;
	struct gate g;
	uint64_t t;
	char *m;

	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
	ASSERT_EQ(0, gate_close(&g, t));
	ASSERT_EQ(0, hal_stream_point(t, &p, "test"));
	fake_fail(FAKE_SUBMIT, 1, 6, -EIO);
	EXPECT_EQ(-EIO, launch_nop(b, self->s));
	EXPECT_EQ(-EIO, hal_stream_fill(self->s, m, 1, 64, PLACE));
	EXPECT_EQ(-EIO, copy_async(self->s, m, registered, 64));
	EXPECT_EQ(-EIO, hal_stream_callback(self->s, gate_fn, &g, 0, PLACE));
	EXPECT_EQ(-EIO, hal_stream_wait_point(self->s, &p, PLACE));
	EXPECT_EQ(-EIO, hal_error_last()->code);
	/* -EAGAIN: prepare, and again */
	fake_fail(FAKE_SUBMIT, 1, 3, -EAGAIN);
	fake_fail(FAKE_PREPARE, 0, 0, 0);
	EXPECT_EQ(0, launch_nop(b, self->s));
	EXPECT_EQ(4, fake_calls(FAKE_SUBMIT));
	EXPECT_EQ(3, fake_calls(FAKE_PREPARE));
	fake_fail(FAKE_SUBMIT, 1, 1, -EAGAIN);
	fake_fail(FAKE_PREPARE, 1, 1, -ENOMEM);
	EXPECT_EQ(-ENOMEM, launch_nop(b, self->s));
	/* prepare says full, but all has completed meanwhile: no wait that never ends */
	ASSERT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
	fake_fail(FAKE_SUBMIT, 1, 2, -EAGAIN);
	fake_fail(FAKE_PREPARE, 1, 1, -EAGAIN);
	EXPECT_EQ(0, launch_nop(b, self->s));
	ASSERT_EQ(0, hal_stream_point(self->s, &q, "test"));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
}

TEST_F(failing, waits_and_blocking_calls)
{
	struct bed *b = &self->b;
	struct hal_point p;
	struct gate g;
	char *m;
	int fd;

	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
	fake_fail(FAKE_COPY, 1, 1, -EIO);
	EXPECT_EQ(-EIO, copy_now(b, m, registered, 64));
	fake_fail(FAKE_FILL, 1, 1, -EIO);
	EXPECT_EQ(-EIO, hal_mem_fill(b->ctx, m, 0, 64));
	ASSERT_EQ(0, gate_close(&g, self->s));
	ASSERT_EQ(0, hal_stream_point(self->s, &p, "test"));
	fake_fail(FAKE_WAIT_HOST, 1, 4, -EIO);
	EXPECT_EQ(-EIO, hal_stream_sync(self->s, LONG_MS, 0));
	EXPECT_EQ(-EIO, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(-EIO, hal_stream_destroy(self->s, LONG_MS));
	EXPECT_EQ(-EIO, hal_context_destroy(b->ctx_handle, LONG_MS));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(self->s));
	fd = hal_sys_eventfd();
	ASSERT_LE(0, fd);
	fake_fail(FAKE_NOTIFY, 1, 1, -ENOSPC);
	EXPECT_EQ(-ENOSPC, hal_point_notify(&p, fd));
	hal_sys_close(&hal_sys_libc, fd);
	fake_fail(FAKE_ABORT, 1, 1, -EIO);
	EXPECT_EQ(-EIO, hal_stream_abort(self->s, 5000));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_sync(self->s, LONG_MS, 0));
}

TEST_F(failing, waits_for_another_device)
{
	struct hal_stream_attr attr = { 0 };
	struct hal_context *ctx;
	struct hal_device *dev;
	struct hal_point p;
	struct gate g;
	uint64_t c, t;

	ASSERT_EQ(0, hal_device_open(self->b.drv, 1, &dev));
	ASSERT_EQ(0, hal_context_create(dev, &c));
	ctx = hal_context_get(c, "test");
	ASSERT_EQ(0, hal_stream_create(ctx, &attr, &t));
	ASSERT_EQ(0, gate_close(&g, self->s));
	ASSERT_EQ(0, hal_stream_point(self->s, &p, "test"));
	fake_fail(FAKE_PREPARE_WAIT, 1, 1, -ENOSPC);
	EXPECT_EQ(-ENOSPC, hal_stream_wait_point(t, &p, PLACE));
	EXPECT_EQ(0, hal_stream_query(t));
	EXPECT_EQ(0, hal_stream_wait_point(t, &p, PLACE));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(t));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	hal_context_put(ctx);
	EXPECT_EQ(0, hal_context_destroy(c, LONG_MS));
	hal_device_put(dev);
}

TEST_F(failing, states_of_a_device)
{
	static const struct {
		uint32_t state;
		int code;
	} states[] = {
		{ HAL_DEVICE_FAULTED, -EIO }, { HAL_DEVICE_STOPPED, -ESHUTDOWN },
		{ HAL_DEVICE_LOST, -ENODEV },
	};
	struct bed *b = &self->b;
	struct hal_mem_info mi;
	unsigned int i, step;
	uint64_t ev, ns;
	uint32_t pc;
	char *m;

	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 64, 0, (void **)&m));
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &ev));
	ASSERT_EQ(0, hal_event_record(ev, self->s, PLACE));
	ASSERT_EQ(0, hal_event_sync(ev, LONG_MS, 0));
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		int code = states[i].code;

		fake_set_state(b->dev, states[i].state);
		for (step = STEP_CONTEXT; step <= STEP_MODULE; step++)
			if (step != STEP_EVENT)
				EXPECT_EQ(code, do_step(b, self->s, (enum step)step))
					TH_LOG("step %u", step);
		EXPECT_EQ(code, launch_nop(b, self->s));
		EXPECT_EQ(code, hal_stream_fill(self->s, m, 0, 1, PLACE));
		EXPECT_EQ(code, copy_async(self->s, m, registered, 1));
		EXPECT_EQ(code, copy_now(b, m, registered, 1));
		EXPECT_EQ(code, hal_mem_fill(b->ctx, m, 0, 1));
		EXPECT_EQ(code, hal_event_record(ev, self->s, PLACE));
		EXPECT_EQ(code, hal_stream_abort(self->s, 5000));
		EXPECT_EQ(code, hal_error_last()->code);
		EXPECT_EQ(0, hal_error_last()->device);
		/* questions are answered as long as it is there */
		if (code != -ENODEV)
			code = 0;
		EXPECT_EQ(code, hal_device_mem_info(b->dev, &mi));
		EXPECT_EQ(code, hal_device_time(b->dev, &ns));
		EXPECT_EQ(code, hal_device_utilization(b->dev, &pc));
		EXPECT_EQ(code, hal_device_peer(b->dev, b->dev, &(bool){ false }));
	}
	fake_set_state(b->dev, HAL_DEVICE_OPEN);
	EXPECT_EQ(0, launch_nop(b, self->s));
	EXPECT_EQ(0, hal_event_destroy(ev));
}

/* A lost device is never waited for; what was on it can still be taken down. */
TEST_F(failing, a_lost_device_is_taken_down)
{
	struct gate g;
	uint64_t m;

	ASSERT_EQ(0, hal_module_load_builtin(self->b.ctx, &m));
	ASSERT_EQ(0, gate_close(&g, self->s));
	fake_set_state(self->b.dev, HAL_DEVICE_LOST);
	EXPECT_EQ(-ENODEV, hal_stream_sync(self->s, FOREVER, 0));
	EXPECT_EQ(-ENODEV, hal_context_sync(self->b.ctx, FOREVER, 0));
	EXPECT_EQ(0, hal_module_unload(m, FOREVER));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_destroy(self->s, FOREVER));
}

TEST_F(failing, a_driver_without_timeline_may_fail_to_answer)
{
	uint64_t s, sub, done;

	fake_set_timeline(false);
	ASSERT_EQ(0, make_stream(&self->b, &s));
	ASSERT_EQ(0, launch_nop(&self->b, s));
	fake_fail(FAKE_QUERY, 1, 3, -EIO);
	EXPECT_EQ(-EIO, hal_stream_query(s));
	EXPECT_EQ(-EIO, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-EIO, hal_stream_progress(s, &sub, &done));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
}

TEST_HARNESS_MAIN
