// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recovery: what becomes of streams, and of threads that have one as their current one,
 * when a device is restarted.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/recover.h"

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
	EXPECT_TRUE(strstr(last_error().text, "of generation 1, device 0 went on to 2") != NULL)
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

TEST_HARNESS_MAIN
