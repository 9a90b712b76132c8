// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recovery: what becomes of streams, memory and threads when a device is stopped,
 * restarted, lost, and comes back.
 */
#include "selftests/npu_kselftest.h"

#include <errno.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#define MINUTE 60000000000ull

FIXTURE(recover) {
	npu_stream s;
	void *mem;
};

FIXTURE_SETUP(recover)
{
	OK(npu_option_set("driver", "simnpu"));
	OK(npu_device_set(0));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_malloc(4096, 0, &self->mem));
	OK(npu_memset(self->mem, 0, 4096));
}

FIXTURE_TEARDOWN(recover)
{
	simnpu_fault_clear();
	simnpu_test_plug_reset();
	EXPECT_EQ(0, npu_finalize(5000));
}

static struct npu_device_health health(int device)
{
	struct npu_device_health h = { .size = sizeof(h) };

	npu_device_get_health(device, &h);
	return h;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void nothing(void *arg)
{
}

/* Any task, and a wait for it. */
static int use(npu_stream s)
{
	int err = npu_stream_callback(s, nothing, NULL, 0);

	return err ? err : npu_stream_sync(s, 5000);
}

static uint64_t word_at(void *p)
{
	uint64_t w = 0;

	npu_memcpy(&w, p, sizeof(w), NPU_COPY_AUTO);
	return w;
}

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

/* ---- streams ---- */

TEST_F(recover, stop_and_restart)
{
	npu_event e;

	OK(npu_event_create(0, &e));
	OK(delay(self->s, MINUTE));
	OK(npu_event_record(e, self->s));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	OK(npu_device_stop(0, 5000));
	EXPECT_EQ(NPU_DEVICE_STOPPED, health(0).state);
	EXPECT_EQ(-ESHUTDOWN, npu_launch(builtin_kernel("nop"), 1, NULL, 0, self->s));
	EXPECT_EQ(-ESHUTDOWN, npu_malloc(64, 0, &(void *){ NULL }));
	EXPECT_EQ(0, last_error().device);
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(NPU_DEVICE_OPEN, health(0).state);
	EXPECT_EQ(2, health(0).generation);
	EXPECT_EQ(1, health(0).restarts);
	EXPECT_EQ(0, npu_event_query(e));
	EXPECT_EQ(-ESTALE, use(self->s));
	EXPECT_TRUE(strstr(last_error().text, "of generation 1, device 0 is at 2") != NULL)
		TH_LOG("%s", last_error().text);
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
	EXPECT_EQ(0, word_at(self->mem));
	OK(npu_event_destroy(e));
}

/* What the library keeps is made anew, at once or when asked for; what it does not, is not. */
static void library_streams(struct __test_metadata *_metadata, uint32_t flags)
{
	npu_stream def, sec, pool[3], lease, now[3], home;
	struct npu_stream_info info = { .size = sizeof(info) };
	struct simnpu_test_device d;
	npu_context ctx;
	int i;

	OK(npu_stream_default(0, &def));
	OK(npu_stream_secondary(0, &sec));
	for (i = 0; i < 3; i++)
		OK(npu_stream_pool_get(0, 2, &pool[i]));
	OK(npu_stream_lease(0, 4, &lease));
	OK(npu_context_create(0, &ctx));
	OK(npu_context_set(ctx));
	OK(npu_stream_current(0, &home));
	OK(npu_device_stop(0, 5000));
	OK(npu_device_restart(0, flags, 5000));
	ASSERT_TRUE(simnpu_test_device(0, &d));
	/* default of two contexts, secondary, three of the pool */
	EXPECT_EQ(flags & NPU_RESTART_REBUILD ? 6 : 0, d.queues);
	EXPECT_EQ(-ESTALE, use(def));
	EXPECT_EQ(-ESTALE, use(sec));
	EXPECT_EQ(-ESTALE, use(pool[1]));
	EXPECT_EQ(-ESTALE, use(lease));
	EXPECT_EQ(-ESTALE, use(home));
	EXPECT_EQ(-ESTALE, npu_stream_release(lease));
	EXPECT_EQ(-ESTALE, npu_stream_destroy(pool[0], 5000));

	OK(npu_stream_current(0, &now[0]));
	EXPECT_EQ(0, use(now[0]));
	OK(npu_stream_get_info(now[0], &info));
	EXPECT_EQ(NPU_STREAM_KIND_DEFAULT, info.kind);
	EXPECT_EQ(ctx.h, info.context.h);
	OK(npu_stream_default(0, &now[1]));
	EXPECT_EQ(0, use(now[1]));
	EXPECT_NE(now[0].h, now[1].h);
	OK(npu_stream_secondary(0, &now[2]));
	EXPECT_EQ(0, use(now[2]));
	OK(npu_stream_get_info(now[2], &info));
	EXPECT_EQ(NPU_STREAM_KIND_SECONDARY, info.kind);
	for (i = 0; i < 3; i++) {
		OK(npu_stream_pool_get(0, 2, &now[i]));
		EXPECT_EQ(0, use(now[i]));
	}
	OK(npu_stream_lease(0, 4, &now[0]));
	EXPECT_EQ(0, use(now[0]));
	OK(npu_stream_release(now[0]));
}

TEST_F(recover, rebuild_at_once)
{
	library_streams(_metadata, NPU_RESTART_REBUILD);
}

TEST_F(recover, rebuild_when_asked_for)
{
	library_streams(_metadata, 0);
}

/* The threads of whom each has another stream as its current one. */
struct holder {
	pthread_t thread;
	npu_stream s;
	_Atomic int set;
	_Atomic int *go;
	int err, kind, priority;
	uint64_t again;
};

static void *hold_current(void *arg)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	struct holder *h = arg;
	npu_stream now = { 0 };

	h->err = npu_stream_set_current(h->s);
	atomic_store(&h->set, 1);
	seen(h->go);
	if (!h->err)
		h->err = use(NPU_STREAM_CURRENT);
	if (!h->err)
		h->err = npu_stream_current(0, &now);
	if (!h->err)
		h->err = npu_stream_get_info(now, &info);
	h->kind = info.kind;
	h->priority = info.priority;
	h->again = now.h;
	return NULL;
}

static void current_streams(struct __test_metadata *_metadata, uint32_t flags, int restarts)
{
	struct holder h[4] = { { .err = 0 } };
	_Atomic int go = 0;
	npu_stream own, pool;
	int i;

	OK(npu_stream_create(NULL, &own));
	OK(npu_stream_default(0, &h[0].s));
	OK(npu_stream_secondary(0, &h[1].s));
	OK(npu_stream_pool_get(0, 3, &h[2].s));
	h[3].s = own;
	for (i = 0; i < 4; i++) {
		h[i].go = &go;
		OK(pthread_create(&h[i].thread, NULL, hold_current, &h[i]));
		ASSERT_TRUE(seen(&h[i].set));
	}
	for (i = 0; i < restarts; i++) {
		OK(npu_device_stop(0, 5000));
		OK(npu_device_restart(0, flags, 5000));
	}
	atomic_store(&go, 1);
	for (i = 0; i < 4; i++)
		pthread_join(h[i].thread, NULL);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, h[i].err) TH_LOG("stream %d", i);
		EXPECT_NE(h[i].s.h, h[i].again);
	}
	EXPECT_EQ(NPU_STREAM_KIND_DEFAULT, h[0].kind);
	EXPECT_EQ(NPU_STREAM_KIND_SECONDARY, h[1].kind);
	EXPECT_EQ(NPU_STREAM_KIND_POOL, h[2].kind);
	EXPECT_EQ(3, h[2].priority);
	/* the very one of the pool */
	for (i = 0; i < 64 && h[2].again; i++) {
		OK(npu_stream_pool_get(0, 3, &pool));
		if (pool.h == h[2].again)
			break;
	}
	EXPECT_GT(64, i);
	/* one of the program has no successor */
	EXPECT_EQ(-ESTALE, h[3].err);
}

TEST_F(recover, current_streams_rebuilt)
{
	current_streams(_metadata, NPU_RESTART_REBUILD, 1);
}

TEST_F(recover, current_streams_when_asked_for)
{
	current_streams(_metadata, 0, 1);
}

/* A thread that has slept over several generations. */
TEST_F(recover, current_streams_after_many_restarts)
{
	current_streams(_metadata, 0, 5);
}

/* What a guard puts back is the successor, too. */
TEST_F(recover, guards_around_a_restart)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	struct npu_guard g;
	npu_stream pool, s, now;

	OK(npu_stream_pool_get(0, 1, &pool));
	OK(npu_stream_set_current(pool));
	OK(npu_stream_create(NULL, &s));
	OK(npu_guard_stream(&g, s));
	OK(npu_device_stop(0, 5000));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(-ESTALE, use(NPU_STREAM_CURRENT));
	OK(npu_guard_end(&g));
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT));
	OK(npu_stream_current(0, &now));
	OK(npu_stream_get_info(now, &info));
	EXPECT_EQ(NPU_STREAM_KIND_POOL, info.kind);
	EXPECT_EQ(1, info.priority);
}

static void *restart_later(void *arg)
{
	*(int *)arg = npu_device_restart(0, 0, 10000);
	return NULL;
}

/* Threads that ask, or end a guard, while the device is away go on with the successor, too. */
TEST_F(recover, asked_during_a_restart)
{
	npu_stream pool, now;
	struct npu_guard g;
	pthread_t th;
	int err = 1;

	OK(npu_stream_pool_get(0, 1, &pool));
	OK(npu_stream_set_current(pool));
	OK(npu_guard_stream(&g, self->s));
	OK(npu_device_stop(0, 5000));
	OK(simnpu_fault_set("ioctl:device_restart,do=stall,ns=400000000", NULL));
	OK(pthread_create(&th, NULL, restart_later, &err));
	usleep(200000);
	npu_stream_current(0, &now);
	OK(npu_guard_end(&g));
	npu_stream_current(0, &now);
	pthread_join(th, NULL);
	EXPECT_EQ(0, err);
	EXPECT_EQ(0, use(NPU_STREAM_CURRENT)) TH_LOG("%s", last_error().text);
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
	atomic_store(&g.open, 1);
	EXPECT_EQ(0, npu_stream_abort(self->s, 5000));
	/* it is over when the abort is */
	EXPECT_TRUE(atomic_load(&g.left));
	EXPECT_EQ(0, word_at(self->mem));
	EXPECT_EQ(0, use(self->s));
}

static _Atomic int ran;

static void count(void *arg)
{
	atomic_fetch_add(&ran, 1);
	usleep(50);
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
