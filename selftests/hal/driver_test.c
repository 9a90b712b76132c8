// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registration, choosing a driver, bringing one up and down; and that each step
 * of the core that can fail, fails cleanly.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

#include "hal/fork.h"
#include "hal/internal.h"
#include "selftests/fakes/sys.h"

/* ---- registration ---- */

TEST(drivers_are_found)
{
	const struct hal_driver *d;
	unsigned int i, n = 0;

	for (i = 0; (d = hal_driver_at(i)); i++) {
		EXPECT_EQ(d, hal_driver_find(d->name));
		n += d == &fake_driver;
	}
	EXPECT_EQ(1, n);
	EXPECT_EQ(NULL, hal_driver_at(1000));
	EXPECT_EQ(NULL, hal_driver_find("no such driver"));
}

TEST(choosing_by_name_and_by_rank)
{
	const struct hal_driver *d;
	uint32_t n;

	ASSERT_EQ(0, hal_driver_choose("fake", &d));
	EXPECT_EQ(&fake_driver, d);
	EXPECT_EQ(-EINVAL, hal_driver_choose("none", &d));
	EXPECT_EQ(NULL, d);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, " fake"));
	if (IS_ENABLED(CONFIG_DRV_NULL)) {
		ASSERT_EQ(0, hal_driver_choose("null", &d));
		EXPECT_EQ(0, d->rank);
	}
	ASSERT_EQ(0, hal_driver_choose(NULL, &d));
	EXPECT_LT(0, d->rank);
	EXPECT_STREQ(IS_ENABLED(CONFIG_DRV_SIMNPU) ? "simnpu" : "fake", d->name);
	ASSERT_EQ(0, hal_driver_choose("", &d));
	/* one that can't count its devices has none; null is not chosen even then */
	fake_fail(FAKE_COUNT, 1, 100, -EIO);
	if (!IS_ENABLED(CONFIG_DRV_SIMNPU)) {
		EXPECT_EQ(-ENODEV, hal_driver_choose(NULL, &d));
		EXPECT_EQ(NULL, d);
	}
	EXPECT_EQ(-EIO, hal_driver_count(&fake_driver, &n));
}

TEST(up_and_down_are_counted)
{
	struct hal_device *dev;

	fake_reset();
	fake_fail(FAKE_INIT, 1, 1, -ENODEV);
	EXPECT_EQ(-ENODEV, hal_driver_up(&fake_driver));
	EXPECT_EQ(0, hal_driver_up(&fake_driver));
	EXPECT_EQ(2, fake_calls(FAKE_INIT));
	EXPECT_EQ(0, hal_driver_up(&fake_driver));
	EXPECT_EQ(2, fake_calls(FAKE_INIT));
	hal_driver_down(&fake_driver);
	ASSERT_EQ(0, hal_device_open(&fake_driver, 0, &dev));
	hal_driver_down(&fake_driver);
	/* up for as long as a device is open */
	EXPECT_EQ(0, hal_driver_up(&fake_driver));
	EXPECT_EQ(2, fake_calls(FAKE_INIT));
	hal_driver_down(&fake_driver);
	hal_device_put(dev);
	EXPECT_EQ(0, hal_driver_up(&fake_driver));
	EXPECT_EQ(3, fake_calls(FAKE_INIT));
	hal_driver_down(&fake_driver);
}

TEST(another_interface_is_refused)
{
	struct hal_driver d = fake_driver;
	struct hal_device *dev;

	d.abi = HAL_DRIVER_ABI + 1;
	EXPECT_EQ(-EPROTO, hal_driver_up(&d));
	EXPECT_EQ(-EPROTO, hal_device_open(&d, 0, &dev));
	EXPECT_EQ(NULL, dev);
}

/* What is to be taken away from which ops, and which capability misses it. */
#define LACKS(kind, member, c) \
	{ offsetof(struct hal_driver, kind), sizeof(struct hal_##kind##_ops), \
	  offsetof(struct hal_##kind##_ops, member), c, #kind "->" #member }

static const struct lack {
	size_t ops, size, op;
	uint64_t cap;
	const char *name;
} lacks[] = {
	LACKS(device, context_init, 0),
	LACKS(device, mem_info, 0),
	LACKS(device, time, NPU_CAP_EVENT_TIMING),
	LACKS(device, stop, NPU_CAP_ABORT),
	LACKS(stream, init, NPU_CAP_STREAM),
	LACKS(stream, wait, NPU_CAP_STREAM),
	LACKS(stream, prepare, NPU_CAP_STREAM),
	LACKS(stream, wait_host, NPU_CAP_STREAM),
	LACKS(stream, errors, NPU_CAP_STREAM),
	LACKS(stream, launch, NPU_CAP_LAUNCH),
	LACKS(stream, copy, NPU_CAP_MEM),
	LACKS(stream, fill, NPU_CAP_MEM),
	LACKS(stream, record, NPU_CAP_EVENT_TIMING),
	LACKS(stream, callback, NPU_CAP_CALLBACK),
	LACKS(stream, host, NPU_CAP_HOST_TASK),
	LACKS(stream, host_done, NPU_CAP_HOST_TASK),
	LACKS(stream, notify, NPU_CAP_COMPLETION_FD),
	LACKS(stream, abort, NPU_CAP_ABORT),
	LACKS(event, init, NPU_CAP_EVENT_TIMING),
	LACKS(event, timestamp, NPU_CAP_EVENT_TIMING),
	LACKS(memory, alloc, NPU_CAP_MEM),
	LACKS(memory, copy, NPU_CAP_MEM),
	LACKS(memory, fill, NPU_CAP_MEM),
	LACKS(memory, host_alloc, NPU_CAP_HOST_ALLOC),
	LACKS(memory, host_register, NPU_CAP_HOST_REGISTER),
	LACKS(memory, window_open, NPU_CAP_IO_WINDOW),
	LACKS(memory, window_close, NPU_CAP_IO_WINDOW),
	LACKS(kernel, load_builtin, NPU_CAP_LAUNCH),
	LACKS(kernel, get, NPU_CAP_LAUNCH),
	LACKS(kernel, load_file, NPU_CAP_MODULE_FILE),
	LACKS(kernel, load_data, NPU_CAP_MODULE_DATA),
};

TEST(what_capabilities_ask_for)
{
	char ops[512] __attribute__((aligned(16)));
	const char *real, *changed = ops;
	struct hal_driver d;
	struct hal_device *dev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lacks); i++) {
		const struct lack *l = &lacks[i];

		d = fake_driver;
		memcpy(&real, (const char *)&fake_driver + l->ops, sizeof(real));
		ASSERT_LE(l->size, sizeof(ops));
		memcpy(ops, real, l->size);
		memset(ops + l->op, 0, sizeof(void (*)(void)));
		memcpy((char *)&d + l->ops, &changed, sizeof(changed));
		fake_reset();
		EXPECT_EQ(-ENOSYS, hal_device_open(&d, 0, &dev));
		EXPECT_EQ(NULL, dev);
		EXPECT_NE(NULL, strstr(hal_error_last()->text, l->name))
			TH_LOG("%s: %s", l->name, hal_error_last()->text);
		EXPECT_EQ(0, fake_objects());
		if (!l->cap)
			continue;
		/* without the capability nobody misses it */
		fake_set_caps(fake_all_caps() & ~l->cap);
		EXPECT_EQ(0, hal_device_open(&d, 0, &dev));
		hal_device_put(dev);
		EXPECT_EQ(0, fake_objects());
	}
	d = fake_driver;
	d.event = NULL;
	fake_reset();
	EXPECT_EQ(-ENOSYS, hal_device_open(&d, 0, &dev));
}

static int bad_info;

static int init_with_bad_info(struct hal_device *dev)
{
	int rc = fake_driver.device->init(dev);

	if (bad_info == 1)
		dev->info.mem_align = 48;
	else if (bad_info == 2)
		dev->info.priorities = 0;
	return rc;
}

TEST(limits_that_can_not_be)
{
	struct hal_device_ops ops = *fake_driver.device;
	struct hal_driver d = fake_driver;
	struct hal_device *dev;

	fake_reset();
	ops.init = init_with_bad_info;
	d.device = &ops;
	for (bad_info = 1; bad_info <= 2; bad_info++) {
		EXPECT_EQ(-EPROTO, hal_device_open(&d, 0, &dev));
		EXPECT_EQ(0, fake_objects());
	}
	EXPECT_EQ(0, hal_device_open(&d, 0, &dev));
	hal_device_put(dev);
}

/* ---- each failing step ---- */

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

/* ---- giving a device up ---- */

TEST(abandon)
{
	struct hal_pointer info;
	struct hal_device *dev;
	struct hal_point p;
	struct gate g;
	struct bed b;
	uint64_t s, ev, timed;
	void *m;

	npu_test_may_leak = true;
	ASSERT_EQ(0, bed_open(&b, "fake", NULL, 0, true));
	ASSERT_EQ(0, make_stream(&b, &s));
	ASSERT_EQ(0, hal_mem_alloc(b.ctx, 64, 0, &m));
	ASSERT_EQ(0, hal_event_create(0, &ev));
	ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &timed));
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	ASSERT_EQ(0, hal_event_record(timed, s, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	EXPECT_EQ(-ETIMEDOUT, hal_context_destroy(b.ctx_handle, 2));
	hal_log_setup(HAL_LOG_NONE, 0);
	hal_device_abandon(b.dev);
	EXPECT_EQ(HAL_DEVICE_LOST, hal_load_relaxed(&b.dev->state));
	EXPECT_EQ(-ESTALE, hal_stream_query(s));
	EXPECT_EQ(-ESTALE, launch_nop(&b, s));
	EXPECT_EQ(-ESTALE, hal_context_destroy(b.ctx_handle, FOREVER));
	EXPECT_EQ(NULL, hal_kernel_device(b.nop, "test"));
	EXPECT_EQ(-ESTALE, hal_module_unload(b.module, FOREVER));
	EXPECT_EQ(0, hal_point_query(&p));
	EXPECT_EQ(0, hal_point_sync(&p, FOREVER, 0));
	EXPECT_EQ(0, hal_event_query(ev));
	EXPECT_EQ(0, hal_event_query(timed));
	EXPECT_EQ(0, hal_event_device(ev, &dev));
	EXPECT_EQ(NULL, dev);
	EXPECT_EQ(0, hal_pointer_info(m, &info));
	EXPECT_EQ(0, info.kind);
	EXPECT_EQ(-EINVAL, hal_mem_free(m));
	EXPECT_EQ(-ENODEV, hal_context_create(b.dev, &s));
	gate_open(&g);

	/* a new one takes its place, and the timed event is free to go there */
	ASSERT_EQ(0, hal_device_open(b.drv, 0, &dev));
	EXPECT_NE(b.dev, dev);
	hal_device_put(dev);
	ASSERT_EQ(0, bed_open(&b, "fake", NULL, 0, true));
	ASSERT_EQ(0, make_stream(&b, &s));
	EXPECT_EQ(0, hal_event_record(timed, s, PLACE));
	EXPECT_EQ(0, hal_event_sync(timed, LONG_MS, 0));
	EXPECT_EQ(0, hal_event_destroy(timed));
	EXPECT_EQ(0, hal_event_destroy(ev));
	EXPECT_EQ(0, bed_close(&b));
}

/* ---- wait modes ---- */

TEST(the_event_before_the_stream_says_how_to_wait)
{
	static const struct {
		uint32_t event, call, flags;
	} wait[] = {
		{ NPU_WAIT_AUTO, 0, NPU_WAIT_YIELD },
		{ NPU_WAIT_BLOCK, 0, NPU_WAIT_BLOCK },
		{ NPU_WAIT_SPIN, 0, NPU_WAIT_SPIN },
		{ NPU_WAIT_SPIN, NPU_WAIT_BLOCK, NPU_WAIT_BLOCK },
	};
	struct hal_stream_attr attr = { .wait_mode = NPU_WAIT_YIELD };
	uint64_t s, ev;
	struct gate g;
	struct bed b;
	size_t i;

	ASSERT_EQ(0, bed_open(&b, "fake", NULL, 0, true));
	ASSERT_EQ(0, hal_stream_create(b.ctx, &attr, &s));
	ASSERT_EQ(0, gate_close(&g, s));
	for (i = 0; i < ARRAY_SIZE(wait); i++) {
		ASSERT_EQ(0, hal_event_create(NPU_EVENT_WAIT(wait[i].event), &ev));
		ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
		EXPECT_EQ(-ETIMEDOUT, hal_event_sync(ev, 1, wait[i].call));
		EXPECT_EQ(wait[i].flags, fake_wait_flags() & HAL_WAIT_MODE_MASK);
		EXPECT_EQ(0, hal_event_destroy(ev));
	}
	EXPECT_EQ(-EINVAL, hal_event_create(NPU_EVENT_WAIT(4), &ev));
	gate_open(&g);
	EXPECT_EQ(0, bed_close(&b));
}

/* ---- forks ---- */

static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(fn());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int what_a_child_sees(void)
{
	return hal_forked() | hal_ready() << 1 | (int)fake_fork_children() << 2;
}

/* Where pages are not wiped in a child, the handler does it alone. */
TEST(forks_without_wiping)
{
	struct hal_device *dev;

	fake_reset();
	hal_sys_set(&fake_sys);
	fake_sys_fail(FAKE_SYS_MADVISE, 1, 1000, EINVAL);
	ASSERT_EQ(0, hal_device_open(&fake_driver, 0, &dev));
	EXPECT_LE(1, fake_sys_calls(FAKE_SYS_MADVISE));
	hal_ready_set(true);
	EXPECT_FALSE(hal_forked());
	EXPECT_EQ(1 | 1 << 2, in_child(what_a_child_sees));
	EXPECT_TRUE(hal_ready());
	EXPECT_FALSE(hal_forked());
	hal_ready_set(false);
	hal_device_put(dev);
	hal_sys_set(NULL);
	fake_sys_reset();
	npu_test_may_leak = true;
}

TEST(forks)
{
	struct hal_device *dev;

	fake_reset();
	EXPECT_FALSE(hal_forked());
	EXPECT_EQ(0, in_child(what_a_child_sees));
	ASSERT_EQ(0, hal_device_open(&fake_driver, 0, &dev));
	hal_ready_set(true);
	EXPECT_TRUE(hal_ready());
	EXPECT_FALSE(hal_forked());
	EXPECT_EQ(1 | 1 << 2, in_child(what_a_child_sees));
	EXPECT_TRUE(hal_ready());
	EXPECT_FALSE(hal_forked());
	hal_ready_set(false);
	hal_device_put(dev);
	/* nothing is left that a child could hurt */
	EXPECT_EQ(0, in_child(what_a_child_sees));
	npu_test_may_leak = true;
}

/* ---- two drivers at once ---- */

TEST(nothing_between_drivers)
{
	struct bed a, b;
	struct hal_point p;
	uint64_t s, t, ev;
	bool peer = true;
	char *m;

	if (bed_open(&b, "simnpu", "generic", 0, true) == -ENOENT)
		SKIP(return, "one driver with streams alone");
	ASSERT_EQ(0, bed_open(&a, "fake", NULL, 0, true));
	ASSERT_EQ(0, make_stream(&a, &s));
	ASSERT_EQ(0, make_stream(&b, &t));
	MEMORY_OR_REFUSED(&a, 64, &m);
	/* what has not been seen to be done, is waited for */
	fake_pause(true);
	ASSERT_EQ(0, hal_stream_fill(s, m, 0, 1, PLACE));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	EXPECT_EQ(-EXDEV, hal_stream_wait_point(t, &p, PLACE));
	EXPECT_EQ(t, hal_error_last()->stream);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "of fake"));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "driver simnpu"));
	ASSERT_EQ(0, hal_event_create(0, &ev));
	ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	EXPECT_EQ(-EXDEV, hal_stream_wait_event(t, ev, PLACE));
	EXPECT_EQ(0, hal_event_destroy(ev));
	EXPECT_EQ(0, hal_stream_query(t));
	fake_pause(false);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	/* done, it is nothing to wait for, of whatever driver */
	EXPECT_EQ(0, hal_stream_wait_point(t, &p, PLACE));

	EXPECT_EQ(-EXDEV, hal_device_peer(a.dev, b.dev, &peer));
	EXPECT_FALSE(peer);
	EXPECT_EQ(-EXDEV, hal_error_last()->code);
	EXPECT_EQ(-EXDEV, hal_device_peer(b.dev, a.dev, &peer));
	EXPECT_EQ(0, bed_close(&a));
	EXPECT_EQ(0, bed_close(&b));
}

/* ---- the list of known failures ---- */

ABOUT(a, b, NPU_CAP_CALLBACK)
ABOUT(a, c, NPU_CAP_STREAM)
ABOUT(a, e, NPU_CAP_CALLBACK)
ABOUT(a, f, NPU_CAP_PRIORITY)

TEST(known_failures)
{
	static const struct xfail list[] = {
		{ "a.b", "fake", NPU_CAP_CALLBACK, "why" },
		{ "a.c", "fake", NPU_CAP_STREAM, "why" },
		{ "a.d", "fake", 0, "why" },
		{ "a.e", "fake", NPU_CAP_CALLBACK, "" },
		{ "a.f", "fake", NPU_CAP_CALLBACK, "of another test" },
		{ "a.g", "fake", NPU_CAP_CALLBACK, "of a test that is mandatory" },
		{ NULL, NULL, 0, NULL }
	};
	const struct xfail *x;
	const char *why;

	EXPECT_EQ(&list[0], xfail_of(list, "a.b", "fake"));
	EXPECT_EQ(NULL, xfail_of(list, "a.b", "null"));
	EXPECT_EQ(NULL, xfail_of(list, "a.x", "fake"));
	EXPECT_EQ(NPU_CAP_CALLBACK, bed_about("a.b"));
	EXPECT_EQ(NPU_CAP_PRIORITY, bed_about("a.f"));
	EXPECT_EQ(0, bed_about("a.g"));
	EXPECT_TRUE(xfail_verdict(NULL, 0, true, &why));
	EXPECT_FALSE(xfail_verdict(NULL, NPU_CAP_CALLBACK, false, &why));
	EXPECT_EQ(NULL, why);
	EXPECT_TRUE(xfail_verdict(&list[0], bed_about("a.b"), false, &why));
	EXPECT_STREQ("why", why);
	/* an unexpected pass */
	EXPECT_FALSE(xfail_verdict(&list[0], bed_about("a.b"), true, &why));
	for (x = &list[1]; x->test; x++) {			/* no excuse at all */
		EXPECT_FALSE(xfail_verdict(x, bed_about(x->test), false, &why));
		EXPECT_FALSE(xfail_verdict(x, bed_about(x->test), true, &why));
		EXPECT_STREQ("is in xfail.h without a right to", why);
	}
	/* whatever the tests say */
	for (x = xfails; x->test; x++)
		EXPECT_TRUE(xfail_valid(x, x->cap));
}

TEST_HARNESS_MAIN
