// SPDX-License-Identifier: GPL-2.0-only
/*
 * Initialisation and finalization: counting, hooks, failures at each step, and
 * threads that are in the way.
 */
#include "selftests/npu_kselftest.h"

#include "hal/handle.h"
#include "hal/sys.h"
#include "selftests/runtime/rt_test.h"

TEST(counted)
{
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	OK(npu_init());
	OK(npu_init());
	OK(npu_init());
	EXPECT_EQ(NPU_STATE_READY, npu_state_get());
	OK(npu_finalize(1000));
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_READY, npu_state_get());
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST(by_need_is_not_counted)
{
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	EXPECT_EQ(NPU_STATE_READY, npu_state_get());
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());

	OK(npu_device_set(0));
	OK(npu_init());
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST(opens_nothing)
{
	size_t n = 9;

	OK(npu_init());
	OK(npu_device_used(NULL, 0, &n));
	EXPECT_EQ(0, n);
	OK(npu_device_set(1));
	OK(npu_device_used(NULL, 0, &n));
	EXPECT_EQ(0, n);
	OK(npu_finalize(1000));
}

TEST(lazy_off)
{
	npu_stream s;
	void *p;

	OK(npu_option_set("lazy_init", "no"));
	EXPECT_EQ(-ENOTCONN, npu_stream_create(NULL, &s));
	EXPECT_EQ(-ENOTCONN, npu_malloc(64, 0, &p));
	EXPECT_EQ(-ENOTCONN, last_error().code);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	OK(npu_init());
	OK(npu_stream_create(NULL, &s));
	OK(npu_finalize(1000));
	EXPECT_EQ(-ENOTCONN, npu_stream_create(NULL, &s));
}

TEST(stale_afterwards)
{
	npu_context ctx;
	npu_stream s;
	npu_event e;
	npu_kernel k;
	void *p;

	OK(npu_stream_create(NULL, &s));
	OK(npu_event_create(0, &e));
	OK(npu_context_create(0, &ctx));
	OK(npu_malloc(4096, 0, &p));
	k = builtin_kernel("nop");
	OK(npu_launch(k, 1, NULL, 0, s));
	OK(npu_event_record(e, s));
	OK(npu_finalize(5000));
	OK(npu_init());
	EXPECT_EQ(-ESTALE, npu_stream_query(s));
	EXPECT_EQ(-ESTALE, npu_event_query(e));
	EXPECT_EQ(-ESTALE, npu_context_set(ctx));
	EXPECT_EQ(-EINVAL, npu_free(p));
	OK(npu_stream_create(NULL, &s));
	EXPECT_EQ(-ESTALE, npu_launch(k, 1, NULL, 0, s));
	OK(npu_finalize(5000));
}

/* Nothing grows when a program comes and goes. */
TEST(again_and_again)
{
	uint32_t before[HAL_HANDLE_TYPES];
	npu_stream s;
	npu_event e;
	void *p;
	int i, t;

	for (t = 1; t < HAL_HANDLE_TYPES; t++)
		before[t] = hal_handle_count(t);
	for (i = 0; i < 200; i++) {
		OK(npu_init());
		OK(npu_stream_pool_get(0, 4, &s));
		OK(npu_event_create(i & 1 ? NPU_EVENT_TIMING : 0, &e));
		OK(npu_malloc(1 << 16, 0, &p));
		OK(npu_memset_async(p, 1, 1 << 16, s));
		OK(npu_event_record(e, s));
		OK(npu_finalize(5000));
		for (t = 1; t < HAL_HANDLE_TYPES; t++)
			ASSERT_EQ(before[t], hal_handle_count(t));
	}
}

/* ---- hooks ------------------------------------------------------------------------- */

static char order[64];

static int note(void *arg)
{
	strncat(order, arg, sizeof(order) - strlen(order) - 1);
	return 0;
}

static int refuse(void *arg)
{
	strncat(order, "!", sizeof(order) - strlen(order) - 1);
	return *(int *)arg;
}

static int use_inside(void *arg)
{
	int *rc = arg;
	npu_stream s;

	rc[0] = npu_init();
	rc[1] = npu_finalize(0);
	rc[2] = npu_stream_create(NULL, &s);
	rc[3] = npu_launch(builtin_kernel("nop"), 1, NULL, 0, s);
	rc[4] = npu_stream_sync(s, 5000);
	rc[5] = (int)npu_state_get();
	rc[6] = npu_hook_init(note, "x");
	return 0;
}

TEST(hooks_in_order)
{
	EXPECT_EQ(-EINVAL, npu_hook_init(NULL, NULL));
	OK(npu_hook_init(note, "a"));
	OK(npu_hook_init(note, "b"));
	EXPECT_STREQ("", order);
	OK(npu_init());
	EXPECT_STREQ("ab", order);
	OK(npu_hook_init(note, "c"));
	EXPECT_STREQ("abc", order);
	OK(npu_finalize(1000));
	OK(npu_init());
	EXPECT_STREQ("abcabc", order);
	OK(npu_finalize(1000));
}

TEST(hook_uses_the_library)
{
	int rc[7] = { 99, 99, 99, 99, 99, 99, 99 };

	OK(npu_hook_init(use_inside, rc));
	OK(npu_init());
	EXPECT_EQ(0, rc[0]);
	EXPECT_EQ(-EDEADLK, rc[1]);
	EXPECT_EQ(0, rc[2]);
	EXPECT_EQ(0, rc[3]);
	EXPECT_EQ(0, rc[4]);
	EXPECT_EQ(NPU_STATE_INITIALIZING, rc[5]);
	EXPECT_EQ(0, rc[6]);
	EXPECT_STREQ("x", order);
	/* its npu_init() counts */
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_READY, npu_state_get());
	OK(npu_finalize(1000));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST(hook_that_fails)
{
	int code = -EIO, rc[7];

	OK(npu_hook_init(note, "a"));
	OK(npu_hook_init(use_inside, rc));
	OK(npu_hook_init(refuse, &code));
	OK(npu_hook_init(note, "b"));
	EXPECT_EQ(-EIO, npu_init());
	EXPECT_EQ(-EIO, last_error().code);
	EXPECT_STREQ("a!", order);
	EXPECT_EQ(NPU_STATE_FAILED, npu_state_get());
	EXPECT_EQ(0, is_open(0));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_STREAM));
	code = 0;
	OK(npu_init());
	EXPECT_STREQ("a!a!bxx", order);
	OK(npu_finalize(1000));
}

TEST(hook_that_fails_at_once)
{
	int code = -ENXIO;

	OK(npu_init());
	EXPECT_EQ(-ENXIO, npu_hook_init(refuse, &code));
	OK(npu_finalize(1000));
	code = -1;
	order[0] = '\0';
	OK(npu_init());
	EXPECT_STREQ("", order);
	OK(npu_finalize(1000));
}

/* ---- failures at each step ------------------------------------------------------------ */

static _Atomic int allocs_left = -1;
static struct hal_sys_ops failing;

static bool fails_now(void)
{
	int left = atomic_load(&allocs_left);

	if (left < 0)
		return false;
	return atomic_fetch_sub(&allocs_left, 1) <= 0;
}

static void *failing_alloc(size_t align, size_t size)
{
	if (fails_now()) {
		atomic_store(&allocs_left, 0);
		return NULL;
	}
	return hal_sys_libc.alloc(align, size);
}

static void *failing_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (fails_now()) {
		atomic_store(&allocs_left, 0);
		errno = ENOMEM;
		return (void *)-1;
	}
	return hal_sys_libc.mmap(addr, size, prot, flags, fd, offset);
}

static int first_work(void)
{
	npu_stream s;
	void *p;
	int err;

	err = npu_init();
	if (err)
		return err;
	err = npu_stream_create(NULL, &s);
	if (!err)
		err = npu_malloc(4096, 0, &p);
	if (!err)
		err = npu_stream_sync(s, 5000);
	return err;
}

/* The nth request for memory and all after it fail, until all succeed. */
TEST(no_memory_at_each_step)
{
	int n, err = -1, t;

	failing = hal_sys_libc;
	failing.alloc = failing_alloc;
	failing.mmap = failing_mmap;
	hal_sys_set(&failing);
	for (n = 0; n < 400; n++) {
		atomic_store(&allocs_left, n);
		err = first_work();
		atomic_store(&allocs_left, -1);
		if (!err)
			break;
		ASSERT_LT(err, 0) TH_LOG("step %d", n);
		OK(npu_finalize(1000)) TH_LOG("step %d", n);
		for (t = 1; t < HAL_HANDLE_TYPES; t++)
			ASSERT_EQ(0, hal_handle_count(t)) TH_LOG("step %d", n);
		ASSERT_EQ(0, is_open(0));
		OK(first_work()) TH_LOG("after step %d", n);
		OK(npu_finalize(1000));
	}
	EXPECT_EQ(0, err);
	EXPECT_GT(n, 3);
	OK(npu_finalize(1000));
	hal_sys_set(NULL);
}

/* ---- threads ---------------------------------------------------------------------------- */

static _Atomic int hook_calls, hook_open;

static int slow_hook(void *arg)
{
	atomic_fetch_add(&hook_calls, 1);
	while (!atomic_load(&hook_open))
		usleep(100);
	return 0;
}

static void *need_it(void *arg)
{
	npu_stream s;

	return (void *)(intptr_t)npu_stream_create(NULL, &s);
}

TEST(others_wait_for_the_first)
{
	pthread_t th[8];
	void *rc;
	int i;

	OK(npu_hook_init(slow_hook, NULL));
	for (i = 0; i < 8; i++)
		OK(pthread_create(&th[i], NULL, need_it, NULL));
	while (!atomic_load(&hook_calls))
		usleep(100);
	usleep(20000);	/* for the others, if they are slow, to come to where they wait */
	EXPECT_EQ(NPU_STATE_INITIALIZING, npu_state_get());
	atomic_store(&hook_open, 1);
	for (i = 0; i < 8; i++) {
		pthread_join(th[i], &rc);
		EXPECT_EQ(0, (intptr_t)rc);
	}
	EXPECT_EQ(1, atomic_load(&hook_calls));
	OK(npu_finalize(1000));
}

struct worker {
	_Atomic int stop;
	_Atomic int odd;
	_Atomic int done;
};

/* What a call may answer while the library is finalized around it. */
static bool expected(int err)
{
	return !err || err == -ESHUTDOWN || err == -ESTALE || err == -EINVAL || err == -ENODEV;
}

static void *keep_using(void *arg)
{
	struct worker *w = arg;
	npu_stream s;
	npu_event e;
	void *p;
	int err;

	while (!atomic_load(&w->stop)) {
		err = npu_stream_pool_get(0, 4, &s);
		if (expected(err) && !err)
			err = npu_malloc(256, 0, &p);
		if (expected(err) && !err)
			err = npu_memset_async(p, 1, 256, s);
		if (expected(err) && !err)
			err = npu_event_create(0, &e);
		if (expected(err) && !err) {
			npu_event_record(e, s);
			err = npu_event_sync(e, 5000);
			npu_event_destroy(e);
		}
		if (!expected(err))
			atomic_store(&w->odd, err);
		atomic_fetch_add(&w->done, !err);
		/* not freed: after a finalize the same number may be somebody else's memory */
	}
	return NULL;
}

TEST(finalize_under_load)
{
	struct worker w = { 0 };
	int i, n, last;
	pthread_t th[4];

	for (i = 0; i < 4; i++)
		OK(pthread_create(&th[i], NULL, keep_using, &w));
	for (i = 0; i < 60; i++) {
		/* in the middle of things, but not before anything was done */
		last = atomic_load(&w.done);
		for (n = 0; n < 100 && atomic_load(&w.done) == last; n++)
			usleep(2000);
		EXPECT_EQ(0, npu_finalize(5000)) TH_LOG("%s", last_error().text);
	}
	atomic_store(&w.stop, 1);
	for (i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	EXPECT_EQ(0, atomic_load(&w.odd));
	EXPECT_GT(atomic_load(&w.done), 0);
	OK(npu_finalize(5000));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_EVENT));
}

/* ---- time-outs ------------------------------------------------------------------------------ */

static int inside[4];

static void call_inside(void *arg)
{
	inside[0] = npu_finalize(0);
	inside[1] = npu_init();
	inside[2] = npu_device_reset(0, 0);
	atomic_store((_Atomic int *)arg, 1);
}

TEST(not_in_a_callback)
{
	_Atomic int called = 0;
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_callback(s, call_inside, &called, 0));
	OK(npu_stream_sync(s, 5000));
	EXPECT_EQ(1, atomic_load(&called));
	EXPECT_EQ(-EDEADLK, inside[0]);
	EXPECT_EQ(-EDEADLK, inside[1]);
	EXPECT_EQ(-EDEADLK, inside[2]);
	OK(npu_finalize(1000));
}

TEST(bad_timeout)
{
	OK(npu_init());
	EXPECT_EQ(-EINVAL, npu_finalize(-2));
	EXPECT_EQ(NPU_STATE_READY, npu_state_get());
	OK(npu_finalize(NPU_WAIT_FOREVER));
}

/* A device whose work does not end is given up; all else works, also another life. */
TEST(work_that_does_not_end)
{
	static struct gate g;
	npu_stream hung, s;
	npu_event e;
	void *p;

	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_default(0, &hung));
	OK(npu_stream_callback(hung, gate_hold, &g, 0));
	OK(npu_event_create(0, &e));
	OK(npu_event_record(e, hung));
	ASSERT_TRUE(seen(&g.entered));
	EXPECT_EQ(-ETIMEDOUT, npu_finalize(50));
	EXPECT_EQ(-ETIMEDOUT, last_error().code);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());

	OK(npu_init());
	EXPECT_EQ(-ESTALE, npu_stream_query(hung));
	EXPECT_EQ(-ESTALE, npu_stream_query(s));
	EXPECT_EQ(-ESTALE, npu_event_query(e));
	OK(npu_device_set(0));
	OK(npu_stream_create(NULL, &s));
	OK(npu_malloc(4096, 0, &p));
	OK(npu_memset_async(p, 7, 4096, s));
	OK(npu_stream_sync(s, 5000));
	OK(npu_finalize(1000));
	atomic_store(&g.open, 1);
	EXPECT_TRUE(seen(&g.left));
	npu_test_may_leak = true;
}

TEST(version)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", NPU_VERSION_MAJOR, NPU_VERSION_MINOR,
		 NPU_VERSION_PATCH);
	EXPECT_EQ(NPU_VERSION, npu_version());
	EXPECT_EQ(0, strncmp(text, npu_version_string(), strlen(text)));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST_HARNESS_MAIN
