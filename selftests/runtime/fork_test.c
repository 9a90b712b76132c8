// SPDX-License-Identifier: GPL-2.0-only
/*
 * Forks: questions before and after, work in a child of a parent that only
 * asked, and the one clear error in a child of one that worked.
 */
#include "selftests/npu_kselftest.h"

#include <sys/wait.h>

#include "selftests/runtime/rt_test.h"

/*
 * What the parent's other threads alone could reach looks like a leak in a child,
 * where those threads are not.
 */
static int leaks_are_no_news;
int __lsan_is_turned_off(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void)
{
	return leaks_are_no_news;
}

/* Runs fn in a child; its result, -1: it died. */
static int in_child(int (*fn)(void))
{
	int status = -1, rc;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		leaks_are_no_news = 1;
		rc = fn();
		fflush(stdout);
		/* as a program ends, handlers and all */
		exit(rc);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		printf("# child %d: status 0x%x\n", (int)pid, status);
		return -1;
	}
	return WEXITSTATUS(status);
}

static int work(void)
{
	uint64_t a = 0x1234, b = 0;
	npu_stream s;
	void *p;

	if (npu_stream_create(NULL, &s) || npu_malloc(8, 0, &p) ||
	    npu_memcpy(p, &a, 8, NPU_COPY_AUTO) || npu_memset_async(p, 0x77, 4, s) ||
	    npu_stream_sync(s, 5000) || npu_memcpy(&b, p, 8, NPU_COPY_AUTO))
		return 1;
	if (npu_free(p) || npu_stream_destroy(s, 1000))
		return 2;
	return b == 0x77777777 ? 0 : 3;
}

static int ask(void)
{
	struct npu_device_info i = { .size = sizeof(i) };
	size_t free, total, used;
	int n, d, active;

	if (npu_device_count(&n) || n < 1 || npu_device_get_info(0, &i) || !i.name[0] ||
	    npu_device_mem_info(0, &free, &total) || total < free ||
	    npu_device_get(&d) || npu_device_is_active(0, &active) ||
	    npu_device_used(NULL, 0, &used))
		return 1;
	return 0;
}

static int ask_then_work(void)
{
	return ask() ? ask() : work();
}

static int refused(void)
{
	struct npu_error e;
	npu_stream s;
	void *p;
	int active;

	if (npu_state_get() != NPU_STATE_FORKED)
		return 1;
	if (npu_malloc(8, 0, &p) != -ECHILD || npu_stream_create(NULL, &s) != -ECHILD)
		return 2;
	e = last_error();
	if (e.code != -ECHILD || !strstr(e.text, "fork"))
		return 3;
	if (npu_init() != -ECHILD || npu_finalize(0) != -ECHILD)
		return 4;
	if (ask())
		return 5;
	/* nothing is open in this process */
	if (npu_device_is_active(0, &active) || active)
		return 6;
	return 0;
}

TEST(child_of_a_parent_that_asked)
{
	OK(ask());
	EXPECT_EQ(0, in_child(ask_then_work));
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	OK(work());
	OK(npu_finalize(5000));
}

TEST(child_of_a_parent_that_worked)
{
	unsigned char before[256], after[256];
	npu_stream s;
	void *p;
	int i;

	OK(npu_malloc(256, 0, &p));
	OK(npu_stream_create(NULL, &s));
	for (i = 0; i < 256; i++)
		before[i] = (unsigned char)i;
	OK(npu_memcpy(p, before, 256, NPU_COPY_AUTO));
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(0, in_child(refused));
		OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, s));
		OK(npu_stream_sync(s, 5000));
	}
	OK(npu_memcpy(after, p, 256, NPU_COPY_AUTO));
	EXPECT_EQ(0, memcmp(before, after, 256));
	EXPECT_EQ(NPU_STATE_READY, npu_state_get());
	OK(work());
	OK(npu_finalize(5000));
}

TEST(child_of_a_parent_that_has_finalized)
{
	OK(work());
	OK(npu_finalize(5000));
	EXPECT_EQ(0, in_child(work));
	OK(work());
	OK(npu_finalize(5000));
}

static int grandchild(void)
{
	return refused() ? 1 : in_child(refused);
}

TEST(grandchild_too)
{
	OK(work());
	EXPECT_EQ(0, in_child(grandchild));
	OK(npu_finalize(5000));
}

TEST(while_work_is_in_flight)
{
	static struct gate g;
	npu_stream s;
	npu_event e;

	OK(npu_stream_create(NULL, &s));
	OK(npu_event_create(0, &e));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	OK(npu_event_record(e, s));
	ASSERT_TRUE(seen(&g.entered));
	EXPECT_EQ(0, in_child(refused));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	atomic_store(&g.open, 1);
	OK(npu_event_sync(e, 5000));
	OK(npu_finalize(5000));
}

static int guard_in_child(void);
static struct npu_guard guard;

static int guard_in_child(void)
{
	return npu_guard_end(&guard) ? 1 : 0;
}

TEST(guard_across_a_fork)
{
	OK(npu_guard_device(&guard, 0));
	EXPECT_EQ(0, in_child(guard_in_child));
	OK(npu_guard_end(&guard));
	OK(npu_finalize(1000));
}

static _Atomic int stop;

static void *keep_forking(void *arg)
{
	long bad = 0;
	int rc;

	while (!atomic_load(&stop)) {
		rc = in_child(refused);
		if (rc)
			printf("# a child answers %d\n", rc);
		bad += rc != 0;
	}
	return (void *)bad;
}

TEST(while_threads_work)
{
	pthread_t th;
	void *bad;
	int i;

	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "the sanitizer's allocator may be locked in a child");
	OK(npu_init());
	OK(pthread_create(&th, NULL, keep_forking, NULL));
	for (i = 0; i < 300; i++)
		OK(work());
	atomic_store(&stop, 1);
	pthread_join(th, &bad);
	EXPECT_EQ(0, (long)bad);
	OK(npu_finalize(5000));
}

TEST_HARNESS_MAIN
