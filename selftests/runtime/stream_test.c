// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams: attributes, kinds, current ones, waits, callbacks, descriptors.
 */
#include "selftests/npu_kselftest.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>

#include "hal/stream.h"
#include "selftests/runtime/rt_test.h"

FIXTURE(stream) {
	npu_stream s;
};

FIXTURE_SETUP(stream)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_create(NULL, &self->s));
}

FIXTURE_TEARDOWN(stream)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(stream, attributes)
{
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;
	struct npu_stream_info i = { .size = sizeof(i) };
	npu_context c;
	npu_stream s;

	a.device = 1;
	a.priority = 6;
	a.fail_mode = NPU_FAIL_STOP;
	a.wait_mode = NPU_WAIT_YIELD;
	a.flags = NPU_STREAM_NONBLOCK;
	OK(npu_stream_create(&a, &s));
	OK(npu_stream_get_info(s, &i));
	OK(npu_context_primary(1, &c));
	EXPECT_EQ(1, i.device);
	EXPECT_EQ(6, i.priority);
	EXPECT_EQ(NPU_FAIL_STOP, i.fail_mode);
	EXPECT_EQ(NPU_WAIT_YIELD, i.wait_mode);
	EXPECT_EQ(NPU_STREAM_NONBLOCK, i.flags);
	EXPECT_EQ(NPU_STREAM_KIND_OWN, i.kind);
	EXPECT_EQ(c.h, i.context.h);
	EXPECT_EQ(0, i.submitted);
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_stream_get_info(self->s, &i));
	EXPECT_EQ(1, i.submitted);
	EXPECT_EQ(1, i.completed);
	OK(npu_stream_set_wait_mode(self->s, NPU_WAIT_SPIN));
	OK(npu_stream_get_info(self->s, &i));
	EXPECT_EQ(NPU_WAIT_SPIN, i.wait_mode);
	EXPECT_EQ(-EINVAL, npu_stream_set_wait_mode(self->s, (enum npu_wait_mode)4));
}

TEST_F(stream, bad_attributes)
{
	const struct npu_stream_attr init = NPU_STREAM_ATTR_INIT;
	struct npu_stream_attr a;
	npu_stream s = { 1 };

#define BREAK(field, value, code) do { \
		a = init; \
		a.field = (value); \
		EXPECT_EQ(code, npu_stream_create(&a, &s)); \
		EXPECT_EQ(0, s.h); \
	} while (0)
	BREAK(size, 0, -EINVAL);
	BREAK(size, 7, -EINVAL);
	BREAK(size, 1 << 20, -EINVAL);
	BREAK(flags, 2, -EINVAL);
	BREAK(device, 2, -ENODEV);
	BREAK(device, -2, -ENODEV);
	BREAK(priority, -1, -EINVAL);
	BREAK(priority, 8, -EINVAL);
	BREAK(fail_mode, 2, -EINVAL);
	BREAK(fail_mode, -1, -EINVAL);
	BREAK(wait_mode, 4, -EINVAL);
	BREAK(wait_mode, -1, -EINVAL);
	BREAK(pad, 1, -EINVAL);
}

/* Programs built with an older or a newer header. */
TEST_F(stream, attributes_of_other_versions)
{
	struct { struct npu_stream_attr a; uint64_t more; } newer = {
		NPU_STREAM_ATTR_INIT, 0,
	};
	struct npu_stream_attr older = NPU_STREAM_ATTR_INIT;
	struct npu_stream_info i = { .size = sizeof(i) };
	npu_stream s;

	older.size = offsetof(struct npu_stream_attr, priority);
	older.priority = 99;
	OK(npu_stream_create(&older, &s));
	OK(npu_stream_get_info(s, &i));
	EXPECT_EQ(NPU_PRIORITY_DEFAULT, i.priority);
	newer.a.size = sizeof(newer);
	OK(npu_stream_create(&newer.a, &s));
	newer.more = 1;
	EXPECT_EQ(-EINVAL, npu_stream_create(&newer.a, &s));
}

/* All eight priorities are taken, and fall in order on those that the device has. */
TEST_F(stream, priorities_in_order)
{
	struct npu_device_info info = { .size = sizeof(info) };
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;
	struct hal_stream *hs;
	uint32_t p, last = 0;
	npu_stream s;

	OK(npu_device_get_info(0, &info));
	for (p = 0; p < 8; p++) {
		a.priority = (int)p;
		OK(npu_stream_create(&a, &s));
		hs = hal_stream_get(s.h, "test");
		ASSERT_TRUE(hs != NULL);
		EXPECT_LT(hs->priority, info.priorities);
		EXPECT_GE(hs->priority, last);
		last = hs->priority;
		hal_stream_put(hs);
	}
	EXPECT_EQ(info.priorities - 1, last);
}

TEST_F(stream, default_and_secondary)
{
	struct npu_stream_info i = { .size = sizeof(i) };
	npu_stream d0, d1, s0, again;

	OK(npu_stream_default(0, &d0));
	OK(npu_stream_default(1, &d1));
	OK(npu_stream_secondary(NPU_DEVICE_CURRENT, &s0));
	OK(npu_stream_default(NPU_DEVICE_CURRENT, &again));
	EXPECT_EQ(d0.h, again.h);
	EXPECT_NE(d0.h, d1.h);
	EXPECT_NE(d0.h, s0.h);
	OK(npu_stream_secondary(0, &again));
	EXPECT_EQ(s0.h, again.h);
	OK(npu_stream_get_info(d1, &i));
	EXPECT_EQ(NPU_STREAM_KIND_DEFAULT, i.kind);
	EXPECT_EQ(1, i.device);
	OK(npu_stream_get_info(s0, &i));
	EXPECT_EQ(NPU_STREAM_KIND_SECONDARY, i.kind);
	OK(npu_stream_get_info(NPU_STREAM_CURRENT, &i));
	EXPECT_EQ(NPU_STREAM_KIND_DEFAULT, i.kind);
	EXPECT_EQ(-EBUSY, npu_stream_destroy(d0, 0));
	EXPECT_EQ(-EBUSY, npu_stream_destroy(s0, 0));
	EXPECT_EQ(-EINVAL, npu_stream_destroy(NPU_STREAM_CURRENT, 0));
}

/* The default stream waits for none, and none for it. */
TEST_F(stream, default_is_not_special)
{
	static struct gate g;

	OK(npu_stream_callback(NPU_STREAM_CURRENT, gate_hold, &g, 0));
	ASSERT_TRUE(seen(&g.entered));
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(NPU_STREAM_CURRENT));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(NPU_STREAM_CURRENT, 5000));
}

TEST_F(stream, current)
{
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;
	npu_stream home, other, got;
	int d;

	a.device = 1;
	OK(npu_stream_create(&a, &other));
	OK(npu_stream_current(0, &home));
	OK(npu_stream_set_current(self->s));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(self->s.h, got.h);
	OK(npu_stream_set_current(other));
	OK(npu_device_get(&d));
	EXPECT_EQ(1, d);
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(other.h, got.h);
	/* each device has its own */
	OK(npu_stream_current(0, &got));
	EXPECT_EQ(self->s.h, got.h);
	OK(npu_device_set(0));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(self->s.h, got.h);
	OK(npu_stream_set_current(NPU_STREAM_CURRENT));
	OK(npu_stream_current(NPU_DEVICE_CURRENT, &got));
	EXPECT_EQ(home.h, got.h);
	OK(npu_stream_current(1, &got));
	EXPECT_EQ(other.h, got.h);
	EXPECT_EQ(-ENODEV, npu_stream_current(2, &got));
}

TEST_F(stream, current_that_was_destroyed)
{
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_set_current(s));
	OK(npu_stream_destroy(s, 1000));
	EXPECT_EQ(-ESTALE, npu_stream_query(NPU_STREAM_CURRENT));
	EXPECT_EQ(-ESTALE, npu_stream_set_current(s));
	OK(npu_stream_set_current(NPU_STREAM_CURRENT));
	OK(npu_stream_query(NPU_STREAM_CURRENT));
}

static void *own_default(void *arg)
{
	npu_stream got = { 1 };

	npu_stream_current(0, &got);
	return (void *)(uintptr_t)(got.h == *(uint64_t *)arg);
}

TEST_F(stream, current_is_the_threads_own)
{
	npu_stream home;
	pthread_t th;
	void *same;

	OK(npu_stream_default(0, &home));
	OK(npu_stream_set_current(self->s));
	OK(pthread_create(&th, NULL, own_default, &home.h));
	pthread_join(th, &same);
	EXPECT_EQ(1, (uintptr_t)same);
}

TEST_F(stream, waits)
{
	static struct gate g;
	npu_stream t;

	OK(npu_stream_create(NULL, &t));
	OK(npu_stream_query(self->s));
	OK(npu_stream_sync(self->s, 0));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_stream_wait_stream(t, self->s));
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, t));
	ASSERT_TRUE(seen(&g.entered));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(self->s, 0));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(t, 20));
	EXPECT_EQ(-EINVAL, npu_stream_sync(t, -2));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_destroy(t, 10));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(t));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(t, NPU_WAIT_FOREVER));
	OK(npu_stream_query(self->s));
	OK(npu_stream_wait_stream(t, t));
	OK(npu_stream_wait_stream(NPU_STREAM_CURRENT, self->s));
	OK(npu_stream_destroy(t, 1000));
	EXPECT_EQ(-ESTALE, npu_stream_destroy(t, 1000));
}

TEST_F(stream, wait_across_devices)
{
	static struct gate g;
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;
	npu_stream t;

	a.device = 1;
	OK(npu_stream_create(&a, &t));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_stream_wait_stream(t, self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(t, 20));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(t, 5000));
}

static void submit_inside(void *arg)
{
	int *rc = arg;
	npu_stream s;

	rc[0] = npu_stream_sync(NPU_STREAM_CURRENT, 1000);
	rc[1] = npu_device_sync(0, 1000);
	rc[2] = npu_stream_pool_get(0, 4, &s);
	rc[3] = npu_stream_query(s);
	rc[4] = npu_launch(builtin_kernel("nop"), 1, NULL, 0, s);
	rc[5] = npu_stream_destroy(s, 0);
	rc[6] = npu_memcpy(rc, rc, 4, NPU_COPY_AUTO);
	rc[7] = npu_device_sync_all(0);
}

TEST_F(stream, inside_a_callback)
{
	int rc[8] = { 9, 9, 9, 9, 9, 9, 9, 9 };

	OK(npu_stream_callback(self->s, submit_inside, rc, 0));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(-EDEADLK, rc[0]);
	EXPECT_EQ(-EDEADLK, rc[1]);
	EXPECT_EQ(0, rc[2]);
	EXPECT_EQ(0, rc[3]);
	EXPECT_EQ(0, rc[4]);
	EXPECT_EQ(-EBUSY, rc[5]);
	EXPECT_EQ(-EDEADLK, rc[6]);
	EXPECT_EQ(-ETIMEDOUT, rc[7]);
}

TEST_F(stream, callback_that_blocks_nobody)
{
	static struct gate g;

	OK(npu_stream_callback(self->s, gate_hold, &g, NPU_CALLBACK_NOBLOCK));
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	OK(npu_stream_sync(self->s, 5000));
	atomic_store(&g.open, 1);
	EXPECT_TRUE(seen(&g.left));
	EXPECT_EQ(-EINVAL, npu_stream_callback(self->s, NULL, NULL, 0));
	EXPECT_EQ(-EINVAL, npu_stream_callback(self->s, gate_hold, &g, 2));
}

TEST_F(stream, descriptor)
{
	static struct gate g;
	struct pollfd p = { .events = POLLIN };
	int fd = -1, early;

	OK(npu_stream_fd(self->s, &early));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_stream_fd(self->s, &fd));
	p.fd = fd;
	EXPECT_EQ(0, poll(&p, 1, 20));
	EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	atomic_store(&g.open, 1);
	EXPECT_EQ(1, poll(&p, 1, 5000));
	OK(npu_stream_query(self->s));
	p.fd = early;
	EXPECT_EQ(1, poll(&p, 1, 5000));
	close(fd);
	close(early);
}

/* A failure is told once, by the wait that covers it, with the task's identity. */
TEST_F(stream, failure)
{
	struct npu_error e;

	OK(npu_tag_set("layer7"));
	OK(failing_task(self->s));
	OK(npu_tag_set(NULL));
	while (npu_stream_query(self->s) == -EINPROGRESS)
		usleep(100);
	EXPECT_EQ(-EFAULT, npu_stream_query(self->s));
	EXPECT_EQ(-EFAULT, npu_stream_query(self->s));
	npu_error_clear();
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	e = last_error();
	EXPECT_EQ(-EFAULT, e.code);
	EXPECT_EQ(self->s.h, e.stream.h);
	EXPECT_EQ(0, e.device);
	EXPECT_NE(0, e.seq);
	EXPECT_NE(0, e.place);
	EXPECT_EQ(8, e.addr);
	EXPECT_STREQ("layer7", e.tag);
	EXPECT_STREQ("launch", e.op);
	EXPECT_NE('\0', e.text[0]);
	OK(npu_stream_query(self->s));
	OK(npu_stream_sync(self->s, 5000));
}

TEST_F(stream, import)
{
	npu_stream s;
	int native;

	EXPECT_EQ(-EOPNOTSUPP, npu_stream_import(0, &native, &s));
	EXPECT_EQ(-EINVAL, npu_stream_import(0, NULL, &s));
	EXPECT_EQ(-EINVAL, npu_stream_import(0, &native, NULL));
	EXPECT_EQ(-ENODEV, npu_stream_import(5, &native, &s));
}

/* ---- who is told of waits ---------------------------------------------------------------- */

static struct { enum npu_sync_kind kind; uint64_t handle; int done, result; } told[16];
static int tellings;

static void tell(enum npu_sync_kind kind, uint64_t handle, int done, int result, void *arg)
{
	told[tellings].kind = kind;
	told[tellings].handle = handle;
	told[tellings].done = done;
	told[tellings].result = arg == told ? result : -999;
	tellings++;
}

static void tell_other(enum npu_sync_kind kind, uint64_t handle, int done, int result, void *arg)
{
}

TEST_F(stream, waits_are_told)
{
	static const enum npu_sync_kind kinds[] = {
		NPU_SYNC_STREAM, NPU_SYNC_EVENT, NPU_SYNC_DEVICE, NPU_SYNC_COPY, NPU_SYNC_COPY,
	};
	npu_event e;
	char buf[64];
	void *p;
	int i;

	OK(npu_hook_sync(tell, told));
	EXPECT_EQ(-EBUSY, npu_hook_sync(tell_other, NULL));
	OK(npu_event_create(0, &e));
	OK(npu_malloc(64, 0, &p));
	OK(failing_task(self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	OK(npu_event_sync(e, 0));
	OK(npu_device_sync(0, 5000));
	OK(npu_memset(p, 1, 64));
	OK(npu_memcpy(buf, p, 64, NPU_COPY_AUTO));
	ASSERT_EQ(10, tellings);
	for (i = 0; i < 10; i++) {
		EXPECT_EQ(kinds[i / 2], told[i].kind);
		EXPECT_EQ(i & 1, told[i].done);
		EXPECT_EQ(i == 1 ? -EFAULT : 0, told[i].result);
	}
	EXPECT_EQ(self->s.h, told[0].handle);
	EXPECT_EQ(e.h, told[3].handle);
	EXPECT_EQ(0, told[5].handle);
	OK(npu_hook_sync(NULL, NULL));
	OK(npu_stream_sync(self->s, 0));
	EXPECT_EQ(10, tellings);
	OK(npu_hook_sync(tell_other, NULL));
	OK(npu_hook_sync(NULL, NULL));
}

TEST_HARNESS_MAIN
