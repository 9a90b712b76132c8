// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that never set a device, come and go, and share streams.
 */
#include "selftests/npu_kselftest.h"

#include "hal/device.h"
#include "hal/handle.h"
#include "selftests/runtime/rt_test.h"

#define THREADS 64

static long whole_job(uint64_t n)
{
	uint64_t a[64], b[64] = { 0 };
	npu_event e;
	void *p, *h;
	long rc = 0;
	int i;

	for (i = 0; i < 64; i++)
		a[i] = n * 64 + (uint64_t)i;
	rc = npu_malloc(sizeof(a), 0, &p);
	rc = rc ? rc : npu_malloc_host(sizeof(a), 0, &h);
	if (rc)
		return rc;
	memcpy(h, a, sizeof(a));
	rc = npu_memcpy_async(p, h, sizeof(a), NPU_COPY_AUTO, NPU_STREAM_CURRENT);
	rc = rc ? rc : npu_event_create(0, &e);
	rc = rc ? rc : npu_event_record(e, NPU_STREAM_CURRENT);
	rc = rc ? rc : npu_event_sync(e, 20000);
	rc = rc ? rc : npu_memcpy(b, p, sizeof(b), NPU_COPY_D2H);
	rc = rc ? rc : npu_event_destroy(e);
	rc = rc ? rc : npu_free(p);
	rc = rc ? rc : npu_free_host(h);
	return rc ? rc : memcmp(a, b, sizeof(a));
}

static void *job(void *arg)
{
	return (void *)whole_job((uintptr_t)arg);
}

TEST(without_a_device)
{
	pthread_t th[THREADS];
	void *rc;
	long i;

	for (i = 0; i < THREADS; i++)
		OK(pthread_create(&th[i], NULL, job, (void *)i));
	for (i = 0; i < THREADS; i++) {
		pthread_join(th[i], &rc);
		EXPECT_EQ(0, (long)rc);
	}
	EXPECT_EQ(1, hal_handle_count(HAL_HANDLE_STREAM));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_EVENT));
	OK(npu_finalize(5000));
}

static void *bound(void *arg)
{
	npu_context c;
	npu_stream s;

	return (void *)(long)(npu_device_set(0) || npu_context_create(0, &c) ||
			      npu_context_set(c) || npu_stream_create(NULL, &s) ||
			      npu_stream_set_current(s) || npu_context_destroy(c, 5000));
}

/* A thread that ends while something is current holds nothing. */
TEST(ends_while_bound)
{
	uint32_t contexts;
	pthread_t th;
	size_t used;
	void *rc;
	int i;

	OK(npu_device_set(0));
	OK(npu_stream_query(NPU_STREAM_CURRENT));
	contexts = hal_handle_count(HAL_HANDLE_CONTEXT);
	for (i = 0; i < 100; i++) {
		OK(pthread_create(&th, NULL, bound, NULL));
		pthread_join(th, &rc);
		ASSERT_EQ(0, (long)rc);
	}
	EXPECT_EQ(contexts, hal_handle_count(HAL_HANDLE_CONTEXT));
	OK(npu_device_reset(0, 1000));
	OK(npu_device_used(NULL, 0, &used));
	EXPECT_EQ(0, used);
	OK(npu_finalize(1000));
}

struct share {
	npu_stream s;
	npu_kernel k;
	void *word;
};

static void *add_up(void *arg)
{
	struct share *sh = arg;
	struct npu_simnpu_inc_args a = { (uint64_t)(uintptr_t)sh->word, 1 };
	long rc = 0;
	int i;

	for (i = 0; i < 2000 && !rc; i++)
		rc = npu_launch(sh->k, 1, &a, sizeof(a), sh->s);
	return (void *)(rc ? rc : npu_stream_sync(sh->s, 20000));
}

TEST(one_stream_for_all)
{
	pthread_t th[8];
	uint64_t sum = 0;
	struct share sh;
	void *rc;
	int i;

	OK(npu_stream_create(NULL, &sh.s));
	OK(npu_malloc(8, 0, &sh.word));
	OK(npu_memset(sh.word, 0, 8));
	sh.k = builtin_kernel("inc_u64");
	for (i = 0; i < 8; i++)
		OK(pthread_create(&th[i], NULL, add_up, &sh));
	for (i = 0; i < 8; i++) {
		pthread_join(th[i], &rc);
		EXPECT_EQ(0, (long)rc);
	}
	OK(npu_memcpy(&sum, sh.word, 8, NPU_COPY_D2H));
	EXPECT_EQ(16000, sum);
	OK(npu_finalize(5000));
}

static _Atomic int stop, odd;

static void *use_device(void *arg)
{
	npu_stream s;
	int err, d = (int)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		err = npu_device_set(d);
		if (!err)
			err = npu_stream_create(NULL, &s);
		if (!err)
			err = npu_launch(builtin_kernel("nop"), 1, NULL, 0, s);
		if (!err)
			err = npu_stream_sync(s, 5000);
		/* the device may be reset anywhere in between */
		if (err && err != -ESTALE && err != -EINVAL && err != -EBADF && err != -EXDEV)
			atomic_store(&odd, err);
	}
	return NULL;
}

TEST(reset_under_load)
{
	pthread_t th[3];
	long i;

	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	for (i = 0; i < 3; i++)
		OK(pthread_create(&th[i], NULL, use_device, (void *)(i & 1)));
	for (i = 0; i < 60; i++) {
		usleep(2000);
		EXPECT_EQ(0, npu_device_reset(1, 5000)) TH_LOG("%s", last_error().text);
	}
	atomic_store(&stop, 1);
	for (i = 0; i < 3; i++)
		pthread_join(th[i], NULL);
	EXPECT_EQ(0, atomic_load(&odd));
	OK(npu_finalize(5000));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_STREAM));
}

static void *set_tag_and_fail(void *arg)
{
	char tag[16];
	npu_stream s;

	snprintf(tag, sizeof(tag), "t%ld", (long)arg);
	if (npu_tag_set(tag) || npu_stream_create(NULL, &s) || failing_task(s) ||
	    npu_stream_sync(s, 20000) != -EFAULT)
		return (void *)1;
	return (void *)(long)(strcmp(last_error().tag, tag) || last_error().stream.h != s.h);
}

/* Each thread has its own record. */
TEST(records_are_the_threads_own)
{
	pthread_t th[16];
	void *rc;
	long i;

	OK(npu_option_set("log_level", "none"));
	for (i = 0; i < 16; i++)
		OK(pthread_create(&th[i], NULL, set_tag_and_fail, (void *)i));
	for (i = 0; i < 16; i++) {
		pthread_join(th[i], &rc);
		EXPECT_EQ(0, (long)rc);
	}
	EXPECT_EQ(0, last_error().code);
	OK(npu_finalize(5000));
}

TEST_HARNESS_MAIN
