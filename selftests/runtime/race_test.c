// SPDX-License-Identifier: GPL-2.0-only
/*
 * What one thread does in the middle of what another does.
 */
#include "selftests/npu_kselftest.h"

#include <dirent.h>
#include <sys/wait.h>
#include <time.h>

#include "hal/handle.h"
#include "selftests/runtime/rt_test.h"

/* How often the one that is counted does what it does. */
#define ROUNDS 3000

struct race {
	_Atomic int stop;
	void *_Atomic last;
	_Atomic int odd;
};

static void race_run(void *(*fn)(void *), struct race *r, void (*counted)(struct race *))
{
	pthread_t th[2];
	int i;

	for (i = 0; i < 2; i++)
		pthread_create(&th[i], NULL, fn, r);
	counted(r);
	atomic_store(&r->stop, 1);
	for (i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
}

/* ---- memory ---- */

static void *free_stale(void *arg)
{
	struct race *r = arg;

	while (!atomic_load(&r->stop))
		npu_free(atomic_load(&r->last));
	return NULL;
}

static void malloc_and_free(struct race *r)
{
	void *p;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (npu_malloc(4096, 0, &p))
			atomic_store(&r->odd, 1);
		atomic_store(&r->last, p);
		npu_free(p);
	}
}

TEST(a_stale_free_meets_a_new_allocation)
{
	struct race r = { 0 };
	size_t before, after;

	OK(npu_init());
	OK(npu_device_mem_info(0, &before, NULL));
	race_run(free_stale, &r, malloc_and_free);
	EXPECT_EQ(0, atomic_load(&r.odd));
	OK(npu_device_mem_info(0, &after, NULL));
	EXPECT_EQ(before, after);
	OK(npu_finalize(5000));
}

/* ---- contexts ---- */

static void *make_contexts(void *arg)
{
	struct race *r = arg;
	npu_context c;
	int err;

	while (!atomic_load(&r->stop)) {
		err = npu_context_create(0, &c);
		if (err ? c.h != 0 : hal_handle_type(c.h) != HAL_HANDLE_CONTEXT)
			atomic_store(&r->odd, 1);
	}
	return NULL;
}

static void reset_device(struct race *r)
{
	int i;

	(void)r;
	for (i = 0; i < ROUNDS / 30; i++)
		npu_device_reset(0, 1000);
}

TEST(contexts_are_made_while_the_device_is_reset)
{
	struct race r = { 0 };

	OK(npu_init());
	race_run(make_contexts, &r, reset_device);
	EXPECT_EQ(0, atomic_load(&r.odd));
	OK(npu_finalize(5000));
}

/* ---- descriptors ---- */

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A stream that waits for one of another device. */
static int cross(void)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	npu_stream a, b;
	int err;

	attr.device = 0;
	err = npu_stream_create(&attr, &a);
	attr.device = 1;
	err = err ? err : npu_stream_create(&attr, &b);
	err = err ? err : delay(a, 200000);
	err = err ? err : npu_stream_wait_stream(b, a);
	err = err ? err : npu_stream_destroy(b, 5000);
	return err ? err : npu_stream_destroy(a, 5000);
}

TEST(waits_between_devices_keep_no_descriptor)
{
	int i, before;

	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(cross());
	before = open_files();
	if (before < 0)
		SKIP(return, "there is no /proc");
	for (i = 0; i < 100; i++)
		OK(cross());
	EXPECT_EQ(before, open_files());
	OK(npu_finalize(5000));
}

/* ---- forks ---- */

static void *init_and_finalize(void *arg)
{
	struct race *r = arg;

	while (!atomic_load(&r->stop)) {
		npu_init();
		npu_finalize(1000);
	}
	return NULL;
}

/* What a child finds: 0, or what is wrong. */
static int child(void)
{
	bool forked = npu_state_get() == NPU_STATE_FORKED;
	int want = forked ? -ECHILD : 0;

	alarm(20);
	if (npu_state_get() != NPU_STATE_FORKED && npu_state_get() != NPU_STATE_UNINIT)
		return 1;
	if (npu_init() != want)
		return 2;
	return npu_finalize(1000) != want ? 3 : 0;
}

static void fork_often(struct race *r)
{
	int i, status;
	pid_t pid;

	for (i = 0; i < 200; i++) {
		pid = fork();
		if (!pid)
			_exit(child());
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			atomic_store(&r->odd, WEXITSTATUS(status) ? WEXITSTATUS(status) : 99);
	}
}

TEST(forks_while_others_initialise_and_finalize)
{
	struct race r = { 0 };

	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "the sanitizer's allocator may be locked in a child");
	race_run(init_and_finalize, &r, fork_often);
	EXPECT_EQ(0, atomic_load(&r.odd));
}

/* ---- the record ---- */

TEST(what_succeeds_leaves_the_record_alone)
{
	struct npu_error e = { .size = sizeof(e) };
	npu_stream s;
	void *p;
	int n;

	OK(npu_device_count(&n));
	OK(npu_init());
	OK(npu_stream_create(NULL, &s));
	OK(npu_malloc(100, 0, &p));
	OK(npu_finalize(5000));
	OK(npu_last_error(&e));
	EXPECT_EQ(0, e.code) TH_LOG("%s: %s", e.op, e.text);
}

TEST_HARNESS_MAIN
