// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drivers: registration, choosing one, bringing it up and down, giving a device up,
 * forks, two at once.
 */
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
