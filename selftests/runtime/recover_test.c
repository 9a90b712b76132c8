// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recovery: what becomes of memory, work and devices that are stopped, restarted, lost,
 * and come back.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/recover.h"

/* ---- arguments ---- */

TEST_F(recover, arguments)
{
	static const int64_t bad[] = { -2, INT64_MIN, INT_MIN };
	struct npu_device_health h = { .size = 0 };
	uint64_t id = 7;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EXPECT_EQ(-EINVAL, npu_device_stop(0, bad[i]));
		EXPECT_EQ(-EINVAL, npu_device_restart(0, 0, bad[i]));
		EXPECT_EQ(-EINVAL, npu_stream_abort(self->s, bad[i]));
	}
	EXPECT_EQ(-EINVAL, npu_device_restart(0, 4, 5000));
	EXPECT_EQ(-ENODEV, npu_device_stop(99, 5000));
	EXPECT_EQ(-ENODEV, npu_device_stop(-2, 5000));
	EXPECT_EQ(-ENODEV, npu_device_restart(99, 0, 5000));
	EXPECT_EQ(-EINVAL, npu_device_get_health(0, NULL));
	EXPECT_EQ(-EINVAL, npu_device_get_health(0, &h));
	h.size = sizeof(h);
	EXPECT_EQ(-ENODEV, npu_device_get_health(99, &h));
	EXPECT_EQ(-EINVAL, npu_device_observe(NULL, NULL, &id));
	EXPECT_EQ(0, id);
	EXPECT_EQ(-EINVAL, npu_device_observe((npu_device_fn *)&id, NULL, NULL));
	EXPECT_EQ(-ENOENT, npu_device_unobserve(0));
	EXPECT_EQ(-EBADF, npu_stream_abort((npu_stream){ 12345 }, 5000));
	EXPECT_EQ(NPU_DEVICE_OPEN, health(0).state);
	EXPECT_EQ(1, health(0).generation);
	EXPECT_EQ(0, use(self->s));
	/* huge is for ever */
	EXPECT_EQ(0, npu_device_stop(0, INT64_MAX));
	EXPECT_EQ(0, npu_device_restart(0, 0, INT64_MAX));
	/* only as much as the caller knows */
	h.size = offsetof(struct npu_device_health, ecc_corrected);
	h.ecc_corrected = 77;
	OK(npu_device_get_health(0, &h));
	EXPECT_EQ(2, h.generation);
	EXPECT_EQ(77, h.ecc_corrected);
}

/* A question about a closed device opens nothing. */
TEST_F(recover, health_of_a_closed_device)
{
	struct npu_device_health h = health(1);

	EXPECT_EQ(NPU_DEVICE_CLOSED, h.state);
	EXPECT_EQ(0, h.generation);
	EXPECT_EQ(0, h.cause);
	EXPECT_STREQ("device 1 is closed", h.text);
	EXPECT_EQ(0, is_open(1));
	EXPECT_EQ(0, npu_device_stop(1, 5000));
	EXPECT_EQ(0, npu_device_restart(1, 0, 5000));
	EXPECT_EQ(0, is_open(1));
}

/* ---- memory ---- */

static uint32_t flags_of(void *p)
{
	struct npu_pointer_info info = { .size = sizeof(info) };

	npu_pointer_get_info(p, &info);
	return info.flags;
}

/* A task that reads what an uncorrectable error has hit. */
static int read_word(void *p, npu_stream s)
{
	struct npu_simnpu_inc_args a = { (uintptr_t)p, 1 };

	return npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), s);
}

TEST_F(recover, uncorrectable_memory_errors)
{
	void *other;
	char host[4096] = { 0 };
	struct npu_device_health h;

	OK(npu_malloc(4096, 0, &other));
	ASSERT_TRUE(simnpu_test_poison(0, (uintptr_t)self->mem, 64));
	EXPECT_EQ(NPU_DEVICE_OPEN, health(0).state);
	OK(read_word(self->mem, self->s));
	EXPECT_EQ(-EHWPOISON, npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0, last_error().device);
	h = health(0);
	EXPECT_EQ(NPU_DEVICE_FAULTED, h.state);
	EXPECT_EQ(-EHWPOISON, h.cause);
	EXPECT_EQ(1, h.ecc_uncorrected);
	EXPECT_EQ(-EIO, npu_stream_sync(self->s, 5000));

	/* only what was hit */
	OK(npu_device_restart(0, NPU_RESTART_KEEP_DATA, 5000));
	EXPECT_EQ(NPU_POINTER_UNSAFE, flags_of(self->mem));
	EXPECT_EQ(NPU_POINTER_UNSAFE, flags_of((char *)self->mem + 4095));
	EXPECT_EQ(0, flags_of(other));
	EXPECT_EQ(-EHWPOISON, npu_memcpy(host, self->mem, 8, NPU_COPY_AUTO));
	EXPECT_EQ(-EHWPOISON, npu_memcpy_async(host, self->mem, 8, NPU_COPY_AUTO,
					       NPU_STREAM_CURRENT));
	EXPECT_NE(0, last_error().hint[0]);
	OK(npu_memcpy(self->mem, host, 4096, NPU_COPY_AUTO));
	EXPECT_EQ(0, flags_of(self->mem));
	OK(npu_memcpy(host, self->mem, 8, NPU_COPY_AUTO));

	/* all of it */
	OK(npu_stream_create(NULL, &self->s));
	ASSERT_TRUE(simnpu_test_poison(0, (uintptr_t)self->mem, 64));
	OK(read_word(self->mem, self->s));
	EXPECT_EQ(-EHWPOISON, npu_stream_sync(self->s, 5000));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(2, health(0).ecc_uncorrected);
	EXPECT_EQ(NPU_POINTER_UNSAFE, flags_of(other));
	OK(npu_mem_set_safe(other));
	EXPECT_EQ(0, flags_of(other));
	OK(npu_memset(self->mem, 0, 4096));
	EXPECT_EQ(0, flags_of(self->mem));
	OK(npu_free(other));
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
}

/* Another fault leaves memory as it is. */
TEST_F(recover, other_faults_spoil_nothing)
{
	uint64_t in = 42;

	OK(npu_memcpy(self->mem, &in, 8, NPU_COPY_AUTO));
	ASSERT_TRUE(simnpu_test_device_fault(0, "link"));
	EXPECT_EQ(NPU_DEVICE_FAULTED, health(0).state);
	EXPECT_EQ(-ENOLINK, health(0).cause);
	EXPECT_EQ(-EIO, npu_stream_sync(self->s, 5000));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(0, flags_of(self->mem));
	EXPECT_EQ(42, word_at(self->mem));
	EXPECT_EQ(1, health(0).link_errors);
	EXPECT_EQ(0, health(0).cause);
}

/* ---- abort ---- */

TEST_F(recover, abort_a_stream)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	uint64_t t0 = now_ms();
	npu_stream other;

	OK(npu_stream_create(NULL, &other));
	OK(delay(self->s, MINUTE));
	OK(read_word(self->mem, self->s));
	EXPECT_EQ(0, npu_stream_abort(self->s, 5000));
	EXPECT_GT(5000, now_ms() - t0);
	EXPECT_EQ(0, npu_stream_query(self->s));
	EXPECT_EQ(0, use(self->s));
	EXPECT_EQ(0, word_at(self->mem));
	EXPECT_EQ(0, use(other));
	/* mode stop is over, too */
	attr.fail_mode = NPU_FAIL_STOP;
	OK(npu_stream_create(&attr, &other));
	OK(failing_task(other));
	EXPECT_EQ(-EFAULT, npu_stream_sync(other, 5000));
	EXPECT_EQ(0, npu_stream_abort(other, 5000));
	EXPECT_EQ(0, use(other));
	/* the current stream is meant by 0 */
	OK(delay(NPU_STREAM_CURRENT, MINUTE));
	EXPECT_EQ(0, npu_stream_abort(NPU_STREAM_CURRENT, 5000));
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
}

/* A host callback can't be told to stop. */
TEST_F(recover, abort_behind_a_callback)
{
	static struct gate g;
	uint64_t t0;

	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(read_word(self->mem, self->s));
	ASSERT_TRUE(seen(&g.entered));
	t0 = now_ms();
	EXPECT_EQ(-ETIMEDOUT, npu_stream_abort(self->s, 50));
	EXPECT_LE(49, now_ms() - t0);
	EXPECT_FALSE(atomic_load(&g.left));
	/* the stream is where it was, and nobody is told that it is through */
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_abort(self->s, 0));
	EXPECT_NE(NULL, strstr(last_error().text, "(stream_callback)"));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(self->s, 10));
	EXPECT_NE(NULL, strstr(last_error().text, "(stream_callback)"));
	atomic_store(&g.open, 1);
	EXPECT_EQ(0, npu_stream_abort(self->s, 5000));
	/* it is over when the abort is */
	EXPECT_TRUE(atomic_load(&g.left));
	EXPECT_EQ(0, word_at(self->mem));
	EXPECT_EQ(0, use(self->s));
}

/* When it returns at last, what is behind it is discarded without another abort. */
TEST_F(recover, abort_given_up_behind_a_callback)
{
	static struct gate g;
	npu_stream t;

	OK(npu_stream_create(NULL, &t));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(read_word(self->mem, self->s));
	ASSERT_TRUE(seen(&g.entered));
	OK(npu_stream_wait_stream(t, self->s));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_abort(self->s, 0));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_sync(t, 10));
	atomic_store(&g.open, 1);
	/* who waited for the stream goes on, and learns of it */
	EXPECT_EQ(-ECANCELED, npu_stream_sync(t, 5000));
	EXPECT_TRUE(atomic_load(&g.left));
	EXPECT_EQ(0, npu_stream_query(self->s));
	EXPECT_EQ(0, word_at(self->mem));
	EXPECT_EQ(0, use(self->s));
	EXPECT_EQ(0, use(t));
}

static _Atomic int ran;

static void count(void *arg)
{
	atomic_fetch_add(&ran, 1);
	usleep(50);
}

/* What a thread ends, with time to wait for it; 1: it is at it. */
struct ending {
	int (*end)(struct ending *e);
	npu_stream s;
	npu_context ctx;
	int err;
};

static int end_stream(struct ending *e)
{
	return npu_stream_destroy(e->s, 10000);
}

static int end_context(struct ending *e)
{
	return npu_context_destroy(e->ctx, 10000);
}

static void *end_it(void *arg)
{
	struct ending *e = arg;

	npu_error_clear();
	e->err = e->end(e);
	if (!e->err)
		e->err = last_error().code;
	return NULL;
}

static int fault_by_copy(npu_stream s, void *mem)
{
	uint64_t word;
	int err = simnpu_fault_set("task:copy,do=link", NULL);

	return err ? err : npu_memcpy_async(mem, &word, sizeof(word), NPU_COPY_AUTO, s);
}

/* A stop or fault discards what they wait for: so they are through, and nothing has failed. */
TEST_F(recover, destroyed_beside_a_stop)
{
	int (*const end[])(struct ending *) = { end_stream, end_context };
	struct ending e;
	npu_stream other;
	pthread_t th;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		e = (struct ending){ .end = end[i % 2], .err = 1 };
		OK(npu_stream_create(NULL, &other));
		OK(npu_context_create(0, &e.ctx));
		OK(npu_context_set(e.ctx));
		OK(npu_stream_create(NULL, &e.s));
		OK(delay(e.s, MINUTE));
		OK(pthread_create(&th, NULL, end_it, &e));
		usleep(50000);
		OK(i < 2 ? npu_device_stop(0, 5000) : fault_by_copy(other, self->mem));
		pthread_join(th, NULL);
		EXPECT_EQ(0, e.err);
		OK(npu_context_set(NPU_HANDLE(npu_context, 0)));
		OK(npu_device_restart(0, 0, 5000));
	}
}

/* No callback runs after the abort that discarded it. */
TEST_F(recover, no_callback_after_an_abort)
{
	int i, k, before;

	for (i = 0; i < 200; i++) {
		for (k = 0; k < 20; k++)
			OK(npu_stream_callback(self->s, count, NULL, 0));
		if (i & 1)
			usleep(30);
		OK(npu_stream_abort(self->s, 5000));
		before = atomic_load(&ran);
		usleep(100);
		ASSERT_EQ(before, atomic_load(&ran)) TH_LOG("round %d", i);
	}
}

/* ---- lost ---- */

/* Work that does not end: the device is lost, in bounded time; closing gives a new one. */
TEST_F(recover, escalation)
{
	static struct gate g;
	uint64_t t0;
	void *p;

	npu_test_may_leak = true;
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	ASSERT_TRUE(seen(&g.entered));
	t0 = now_ms();
	EXPECT_EQ(-ETIMEDOUT, npu_device_stop(0, 50));
	EXPECT_LE(49, now_ms() - t0);
	EXPECT_GT(5000, now_ms() - t0);
	EXPECT_EQ(NPU_DEVICE_LOST, health(0).state);
	EXPECT_EQ(-ENODEV, npu_stream_sync(self->s, NPU_WAIT_FOREVER));
	EXPECT_EQ(-ENODEV, npu_device_restart(0, 0, 5000));
	EXPECT_EQ(-ENODEV, npu_device_sync(0, NPU_WAIT_FOREVER));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(NPU_DEVICE_CLOSED, health(0).state);
	EXPECT_EQ(-ESTALE, npu_stream_query(self->s));
	OK(npu_malloc(64, 0, &p));
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
	EXPECT_EQ(1, health(0).generation);
	atomic_store(&g.open, 1);
	ASSERT_TRUE(seen(&g.left));
}

/* Restarts that fail are tried a bounded number of times. */
TEST_F(recover, restarts_that_fail)
{
	OK(npu_device_stop(0, 5000));
	OK(simnpu_fault_set("ioctl:device_restart,times=0,code=EIO", NULL));
	EXPECT_EQ(-ENODEV, npu_device_restart(0, 0, 5000));
	EXPECT_EQ(NPU_DEVICE_LOST, health(0).state);
	simnpu_fault_clear();
	EXPECT_EQ(-ENODEV, npu_device_restart(0, 0, 5000));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
}

/* What one left undone that took too long, the next one does. */
TEST_F(recover, a_restart_that_is_late)
{
	struct simnpu_test_device d;
	npu_stream pool;

	OK(npu_stream_pool_get(0, 2, &pool));
	OK(npu_device_stop(0, 5000));
	OK(simnpu_fault_set("ioctl:device_restart,code=EIO", NULL));
	EXPECT_EQ(-ETIMEDOUT, npu_device_restart(0, NPU_RESTART_REBUILD, 0));
	EXPECT_EQ(NPU_DEVICE_STOPPED, health(0).state);
	OK(npu_device_restart(0, NPU_RESTART_REBUILD, 5000));
	ASSERT_TRUE(simnpu_test_device(0, &d));
	EXPECT_EQ(1, d.queues);
	EXPECT_EQ(-ESTALE, use(pool));
}

/* Unplugged in the middle of copies, and plugged in again in another order. */
TEST_F(recover, unplug_and_replug)
{
	struct npu_device_info a = { .size = sizeof(a) }, b = a, now = a;
	static char host[1 << 20];
	npu_stream s;
	void *big;
	int i;

	OK(npu_device_get_info(0, &a));
	OK(npu_device_get_info(1, &b));
	ASSERT_STRNE(a.bus_id, b.bus_id);
	OK(npu_malloc(sizeof(host), 0, &big));
	for (i = 0; i < 200; i++)
		OK(npu_memcpy_async(big, host, sizeof(host), NPU_COPY_AUTO, self->s));
	/* part 0 behind node 1, and the other way round */
	ASSERT_TRUE(simnpu_test_plug(0, -1));
	EXPECT_EQ(-ENODEV, npu_stream_sync(self->s, 5000));
	EXPECT_EQ(NPU_DEVICE_LOST, health(0).state);
	EXPECT_EQ(-ENODEV, health(0).cause);
	EXPECT_EQ(-ENODEV, use(self->s));
	ASSERT_TRUE(simnpu_test_plug(1, 0));
	ASSERT_TRUE(simnpu_test_plug(0, 1));
	EXPECT_EQ(-ENODEV, use(self->s));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(-ESTALE, npu_stream_query(self->s));

	/* the ordinals are the parts, wherever they are now */
	OK(npu_device_set(0));
	OK(npu_stream_create(NULL, &s));
	EXPECT_EQ(0, use(s));
	OK(npu_device_get_info(0, &now));
	EXPECT_STREQ(a.bus_id, now.bus_id);
	EXPECT_EQ(1, now.index);
	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	EXPECT_EQ(0, use(s));
	OK(npu_device_get_info(1, &now));
	EXPECT_STREQ(b.bus_id, now.bus_id);
	EXPECT_EQ(0, now.index);
	OK(npu_device_set(0));
}

/* One that is not there keeps nobody from using the others, nor is it a failure of theirs. */
TEST_F(recover, initialise_without_one)
{
	struct npu_device_info info = { .size = sizeof(info) };
	void *p;

	OK(npu_finalize(5000));
	ASSERT_TRUE(simnpu_test_plug(1, -1));
	npu_error_clear();
	EXPECT_EQ(0, npu_init()) TH_LOG("%s", last_error().text);
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT)) TH_LOG("%s", last_error().text);
	EXPECT_EQ(0, last_error().code) TH_LOG("%s", last_error().text);
	EXPECT_EQ(-ENODEV, npu_device_get_info(1, &info));
	OK(npu_device_set(1));
	EXPECT_EQ(-ENODEV, npu_malloc(64, 0, &p));
	EXPECT_EQ(NPU_DEVICE_CLOSED, health(1).state);
	/* there again */
	simnpu_test_plug_reset();
	OK(npu_device_get_info(1, &info));
	EXPECT_EQ(0, npu_malloc(64, 0, &p)) TH_LOG("%s", last_error().text);
}

/* Another part in its place is not taken for it. */
TEST_F(recover, another_part_is_not_taken)
{
	void *p = self;

	OK(npu_device_reset(0, 5000));
	ASSERT_TRUE(simnpu_test_plug(0, -1));
	ASSERT_TRUE(simnpu_test_plug(1, 0));
	EXPECT_EQ(-ENODEV, npu_malloc(64, 0, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_TRUE(strstr(last_error().text, "not there any more") != NULL)
		TH_LOG("%s", last_error().text);
	EXPECT_EQ(NPU_DEVICE_CLOSED, health(0).state);
	simnpu_test_plug_reset();
	EXPECT_EQ(0, npu_malloc(64, 0, &p));
}

/* ---- the end ---- */

static void *restart_for_ever(void *arg)
{
	*(int *)arg = npu_device_restart(0, 0, NPU_WAIT_FOREVER);
	return NULL;
}

/* Nor does it, or a reset, wait longer for who restarts a device than it may take. */
TEST_F(recover, finalize_beside_a_restart_that_hangs)
{
	uint64_t t0 = now_ms();
	pthread_t th;
	int err = 1;

	npu_test_may_leak = true;
	OK(simnpu_fault_set("task:launch,do=stuck", NULL));
	OK(read_word(self->mem, self->s));
	usleep(50000);
	ASSERT_TRUE(simnpu_test_device_fault(0, "link"));
	OK(pthread_create(&th, NULL, restart_for_ever, &err));
	usleep(100000);
	EXPECT_EQ(-ETIMEDOUT, npu_device_reset(0, 100));
	EXPECT_EQ(-ETIMEDOUT, npu_finalize(100));
	EXPECT_GT(5000, now_ms() - t0);
	EXPECT_EQ(NPU_DEVICE_CLOSED, health(0).state);
	/* the device itself is still being stopped */
	simnpu_fault_clear();
	pthread_join(th, NULL);
	EXPECT_EQ(-ENODEV, err);
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT)) TH_LOG("%s", last_error().text);
	OK(npu_device_stop(0, 5000));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(2, health(0).generation);
}

/* Finalizing ends a device in any state. */
TEST_F(recover, finalize_in_each_state)
{
	int i;

	for (i = 0; i < 4; i++) {
		OK(npu_stream_create(NULL, &self->s));
		OK(delay(self->s, 1000000));
		if (i == 1)
			simnpu_test_device_fault(0, "link");
		if (i == 2)
			OK(npu_device_stop(0, 5000));
		if (i == 3)
			simnpu_test_device_fault(0, "gone");
		EXPECT_EQ(0, npu_finalize(5000)) TH_LOG("%d: %s", i, last_error().text);
		simnpu_test_plug_reset();
	}
	OK(npu_stream_create(NULL, &self->s));
	EXPECT_EQ(0, use(self->s));
}

TEST_HARNESS_MAIN
