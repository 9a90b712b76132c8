// SPDX-License-Identifier: GPL-2.0-only
/*
 * Observers of devices, and threads that work while others stop and restart what they
 * work on.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/recover.h"

/* ---- observers ---- */

struct saw {
	_Atomic int nr;
	int device[32], from[32], to[32], cause[32];
	_Atomic int mem_info;
};

/* Threads may be in it at the same time. */
static void watch(int device, int from, int to, int cause, void *arg)
{
	struct saw *w = arg;
	int i = atomic_fetch_add(&w->nr, 1);
	size_t free_bytes;

	if (i < 32) {
		w->device[i] = device;
		w->from[i] = from;
		w->to[i] = to;
		w->cause[i] = cause;
	}
	if (npu_device_mem_info(device, &free_bytes, NULL))
		atomic_store(&w->mem_info, 1);
}

static bool saw(const struct saw *w, int i, int from, int to, int cause)
{
	return i < w->nr && !w->device[i] && w->from[i] == from && w->to[i] == to &&
	       w->cause[i] == cause;
}

TEST_F(recover, observers_see_all_changes)
{
	static struct saw a, b;
	uint64_t ia, ib;

	OK(npu_device_observe(watch, &a, &ia));
	OK(npu_device_observe(watch, &b, &ib));
	ASSERT_TRUE(simnpu_test_device_fault(0, "link"));
	EXPECT_EQ(NPU_DEVICE_FAULTED, health(0).state);
	OK(npu_device_restart(0, 0, 5000));
	OK(npu_device_reset(0, 5000));
	OK(npu_stream_create(NULL, &self->s));
	EXPECT_EQ(5, atomic_load(&a.nr));
	EXPECT_TRUE(saw(&a, 0, NPU_DEVICE_OPEN, NPU_DEVICE_FAULTED, -ENOLINK));
	EXPECT_TRUE(saw(&a, 1, NPU_DEVICE_FAULTED, NPU_DEVICE_STOPPED, -ENOLINK));
	EXPECT_TRUE(saw(&a, 2, NPU_DEVICE_STOPPED, NPU_DEVICE_OPEN, 0));
	EXPECT_TRUE(saw(&a, 3, NPU_DEVICE_OPEN, NPU_DEVICE_CLOSED, 0));
	EXPECT_TRUE(saw(&a, 4, NPU_DEVICE_CLOSED, NPU_DEVICE_OPEN, 0));
	EXPECT_EQ(0, atomic_load(&a.mem_info));
	EXPECT_EQ(5, atomic_load(&b.nr));
	OK(npu_device_unobserve(ia));
	EXPECT_EQ(-ENOENT, npu_device_unobserve(ia));
	OK(npu_device_stop(0, 5000));
	EXPECT_EQ(5, atomic_load(&a.nr));
	EXPECT_EQ(6, atomic_load(&b.nr));
	/* what failed inside an observer is not the caller's */
	npu_error_clear();
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(0, last_error().code);
	OK(npu_device_unobserve(ib));
}

static uint64_t own_id;
static _Atomic int once_calls;
static int from_inside[4];

static void only_once(int device, int from, int to, int cause, void *arg)
{
	atomic_fetch_add(&once_calls, 1);
	from_inside[0] = npu_device_unobserve(own_id);
	from_inside[1] = npu_device_restart(device, 0, NPU_WAIT_FOREVER);
	from_inside[2] = npu_device_reset(device, NPU_WAIT_FOREVER);
	from_inside[3] = npu_finalize(NPU_WAIT_FOREVER);
}

/* It may take itself away; what would wait for itself is refused. */
TEST_F(recover, observers_that_do_things)
{
	ASSERT_TRUE(simnpu_test_device_fault(0, "link"));
	OK(npu_device_observe(only_once, NULL, &own_id));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(1, atomic_load(&once_calls));
	EXPECT_EQ(0, from_inside[0]);
	EXPECT_EQ(-EDEADLK, from_inside[1]);
	EXPECT_EQ(-EDEADLK, from_inside[2]);
	EXPECT_EQ(-EDEADLK, from_inside[3]);
	EXPECT_EQ(NPU_DEVICE_OPEN, health(0).state);
	EXPECT_EQ(-ENOENT, npu_device_unobserve(own_id));
}

static struct gate held;
static uint64_t held_id;

static void hold_observer(int device, int from, int to, int cause, void *arg)
{
	gate_hold(&held);
}

static void *stop_device(void *arg)
{
	return (void *)(intptr_t)npu_device_stop(0, 5000);
}

/* Its first call of the library. */
static void *unobserve(void *arg)
{
	*(int *)arg = npu_device_unobserve(held_id) || !atomic_load(&held.left);
	return NULL;
}

/* Who takes an observer away may free what it uses: no thread is in it any more. */
TEST_F(recover, unobserve_waits)
{
	pthread_t th[2];
	int early = -1;

	OK(npu_device_observe(hold_observer, NULL, &held_id));
	OK(pthread_create(&th[0], NULL, stop_device, NULL));
	ASSERT_TRUE(seen(&held.entered));
	OK(pthread_create(&th[1], NULL, unobserve, &early));
	usleep(50000);
	atomic_store(&held.open, 1);
	pthread_join(th[0], NULL);
	pthread_join(th[1], NULL);
	EXPECT_EQ(0, early);
}

static _Atomic int mended;

static void mend(int device, int from, int to, int cause, void *arg)
{
	if (to == NPU_DEVICE_FAULTED)
		atomic_store(&mended, npu_device_restart(device, 0, 5000) ? -1 : 1);
}

/* An observer may mend the device, in the thread that met the fault. */
TEST_F(recover, an_observer_restarts)
{
	uint64_t id;

	OK(npu_device_observe(mend, NULL, &id));
	ASSERT_TRUE(simnpu_test_device_fault(0, "link"));
	/* the pool finds it with a lock held, and tells later */
	npu_stream_lease(0, 4, &self->s);
	health(0);
	EXPECT_EQ(1, atomic_load(&mended));
	EXPECT_EQ(NPU_DEVICE_OPEN, health(0).state);
	EXPECT_EQ(2, health(0).generation);
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
	OK(npu_device_unobserve(id));
}

/* ---- at the same time: nobody hangs ---- */

struct crowd {
	_Atomic int stop;
	_Atomic int wrong;
};

static void *ask_about_memory(void *arg)
{
	struct crowd *c = arg;
	size_t n;

	while (!c->stop)
		if (npu_device_mem_info(0, &n, NULL))
			c->wrong = 1;
	return NULL;
}

static void *work_on_other(void *arg)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	struct crowd *c = arg;
	npu_stream s;

	attr.device = 1;
	if (npu_device_set(1) || npu_stream_create(&attr, &s)) {
		c->wrong = 2;
		return NULL;
	}
	while (!c->stop)
		if (use(s))
			c->wrong = 3;
	return NULL;
}

static void *work_on_this(void *arg)
{
	struct crowd *c = arg;
	int err;

	if (npu_device_set(0))
		c->wrong = 4;
	while (!c->stop) {
		err = delay(NPU_STREAM_CURRENT, 100000);
		if (!err)
			err = npu_stream_sync(NPU_STREAM_CURRENT, 5000);
		if (err && err != -ESTALE && err != -ESHUTDOWN && err != -ECANCELED &&
		    err != -EIO && err != -ENOLINK)
			c->wrong = err;
	}
	return NULL;
}

static void *lease_and_pool(void *arg)
{
	struct crowd *c = arg;
	npu_stream s;
	int err;

	while (!c->stop) {
		err = npu_stream_pool_get(0, 4, &s);
		if (!err)
			err = use(s);
		if (!err)
			err = npu_stream_lease(0, 4, &s);
		if (!err)
			err = use(s);
		if (!err)
			err = npu_stream_release(s);
		if (err && err != -ESTALE && err != -ESHUTDOWN && err != -ECANCELED &&
		    err != -EIO && err != -ENOLINK && err != -EINVAL)
			c->wrong = err;
	}
	return NULL;
}

TEST_F(recover, in_a_crowd)
{
	static void *(*const fn[])(void *) = {
		ask_about_memory, work_on_other, work_on_this, lease_and_pool,
	};
	static struct saw w;
	struct crowd c = { 0 };
	pthread_t th[4];
	uint64_t id;
	int i, good = 0;

	OK(npu_device_observe(watch, &w, &id));
	/* looked up while all is well */
	OK(delay(NPU_STREAM_CURRENT, 1));
	for (i = 0; i < 4; i++)
		OK(pthread_create(&th[i], NULL, fn[i], &c));
	for (i = 0; i < 20; i++) {
		usleep(2000);
		if (i & 1)
			simnpu_test_device_fault(0, "link");
		else
			EXPECT_EQ(0, npu_device_stop(0, 5000));
		good += !npu_device_restart(0, i & 2 ? NPU_RESTART_REBUILD : 0, 5000);
	}
	c.stop = 1;
	for (i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	EXPECT_EQ(20, good);
	EXPECT_EQ(0, atomic_load(&c.wrong));
	EXPECT_EQ(0, atomic_load(&w.mem_info));
	EXPECT_EQ(21, health(0).generation);
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
	OK(npu_device_unobserve(id));
}

TEST_HARNESS_MAIN
