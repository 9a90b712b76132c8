// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of the process: from every thread, with work in flight, with a device
 * that hangs; bounded in time, no crash, the exit code kept.
 */
#include "selftests/npu_kselftest.h"

#include <sys/wait.h>
#include <time.h>

#include "selftests/runtime/rt_test.h"

static int pipe_out[2];

static void say(const char *text)
{
	if (write(pipe_out[1], text, strlen(text)) < 0)
		_exit(99);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char heard[256];
static double took;

/* Runs fn in a child that ends by exit(33) if fn does not end it; its status. */
static int child(void (*fn)(void))
{
	int status = -1;
	ssize_t n, at = 0;
	double start = now();
	pid_t pid;

	if (pipe(pipe_out))
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(pipe_out[0]);
		setenv("NPU_EXIT_TIMEOUT_MS", "300", 0);
		fn();
		exit(33);
	}
	close(pipe_out[1]);
	while ((n = read(pipe_out[0], heard + at, sizeof(heard) - 1 - (size_t)at)) > 0)
		at += n;
	heard[at] = '\0';
	close(pipe_out[0]);
	waitpid(pid, &status, 0);
	took = now() - start;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int release(void *arg)
{
	say(arg);
	return 0;
}

static npu_stream busy_stream(int tasks)
{
	npu_stream s = { 0 };

	npu_stream_create(NULL, &s);
	while (tasks--)
		delay(s, 1000000);
	return s;
}

static void with_work(void)
{
	busy_stream(20);
}

TEST(with_work_in_flight)
{
	EXPECT_EQ(33, child(with_work));
}

static void with_callbacks(void)
{
	npu_release_register(release, "c", 10);
	npu_release_register(release, "a", 0);
	npu_release_register(release, "b", 5);
	npu_init();
}

TEST(release_callbacks_are_called)
{
	EXPECT_EQ(33, child(with_callbacks));
	EXPECT_STREQ("abc", heard);
}

static void finalized_before(void)
{
	npu_release_register(release, "a", 0);
	npu_init();
	npu_finalize(1000);
	say("|");
}

TEST(only_once)
{
	EXPECT_EQ(33, child(finalized_before));
	EXPECT_STREQ("a|", heard);
}

static void unused(void)
{
	npu_release_register(release, "a", 0);
}

TEST(never_initialised)
{
	EXPECT_EQ(33, child(unused));
	EXPECT_STREQ("", heard);
}

static void last_use(void)
{
	uint64_t w = 0;
	void *p;

	if (!npu_malloc(8, 0, &p) && !npu_memset(p, 0x11, 8) &&
	    !npu_memcpy(&w, p, 8, NPU_COPY_AUTO) && w == 0x1111111111111111ull)
		say("used");
}

static void handler_before_init(void)
{
	atexit(last_use);
	npu_init();
}

static void handler_after_init(void)
{
	npu_init();
	atexit(last_use);
}

/* Handlers of the program come first, whenever they were registered. */
TEST(exit_handlers_can_use_it)
{
	EXPECT_EQ(33, child(handler_before_init));
	EXPECT_STREQ("used", heard);
	EXPECT_EQ(33, child(handler_after_init));
	EXPECT_STREQ("used", heard);
}

static void finalize_at_exit(void)
{
	npu_stream s;

	say(npu_finalize(5000) ? "bad" : "good");
	say(npu_stream_create(NULL, &s) ? "bad" : "again");
}

static void finalizes_at_exit(void)
{
	atexit(finalize_at_exit);
	busy_stream(3);
}

TEST(finalize_in_an_exit_handler)
{
	EXPECT_EQ(33, child(finalizes_at_exit));
	EXPECT_STREQ("goodagain", heard);
}

static void *exit_from_worker(void *arg)
{
	exit(44);
	return NULL;
}

static void worker_exits(void)
{
	npu_stream s = busy_stream(5);
	pthread_t th;

	pthread_create(&th, NULL, exit_from_worker, NULL);
	for (;;)
		npu_stream_sync(s, 100);
}

TEST(from_a_worker)
{
	EXPECT_EQ(44, child(worker_exits));
}

static void exit_now(void *arg)
{
	exit(55);
}

static void callback_exits(void)
{
	npu_stream s = busy_stream(0);

	npu_release_register(release, "r", 0);
	npu_stream_callback(s, exit_now, NULL, 0);
	npu_stream_sync(s, 20000);
	pause();
}

TEST(from_a_callback)
{
	EXPECT_EQ(55, child(callback_exits));
	EXPECT_STREQ("r", heard);
	EXPECT_LT(took, 10);
}

static void hangs(void)
{
	static struct gate g;
	npu_stream s = busy_stream(0);

	npu_stream_callback(s, gate_hold, &g, 0);
	seen(&g.entered);
	npu_release_register(release, "r", 0);
}

/* exit_timeout_ms bounds it. */
TEST(with_a_device_that_hangs)
{
	EXPECT_EQ(33, child(hangs));
	EXPECT_STREQ("r", heard);
	EXPECT_GE(took, 0.3);
	EXPECT_LT(took, 10);
}

static int exit_inside(void *arg)
{
	say("1");
	exit(66);
	return 0;
}

static void release_exits(void)
{
	npu_release_register(exit_inside, NULL, 0);
	npu_release_register(release, "2", 5);
	npu_init();
	npu_finalize(1000);
}

TEST(from_a_release_callback)
{
	EXPECT_EQ(66, child(release_exits));
	EXPECT_LT(took, 10);
}

static void hook_exits(void)
{
	npu_hook_init(exit_inside, NULL);
	npu_init();
}

TEST(from_a_hook)
{
	EXPECT_EQ(66, child(hook_exits));
	EXPECT_STREQ("1", heard);
}

static void *keep_submitting(void *arg)
{
	npu_stream s;
	int err;

	do {
		err = npu_stream_pool_get(0, 4, &s);
		if (!err)
			err = npu_launch(builtin_kernel("nop"), 1, NULL, 0, s);
		if (!err)
			npu_stream_sync(s, 1000);
	} while (err != -ESHUTDOWN);
	return NULL;
}

static void threads_go_on(void)
{
	pthread_t th;
	int i;

	npu_init();
	for (i = 0; i < 4; i++)
		if (!pthread_create(&th, NULL, keep_submitting, NULL))
			pthread_detach(th);
	usleep(20000);
}

TEST(while_threads_go_on)
{
	int i;

	for (i = 0; i < 10; i++)
		EXPECT_EQ(33, child(threads_go_on));
}

static _Atomic int in_hook, never;

static int stuck(void *arg)
{
	atomic_store(&in_hook, 1);
	while (!atomic_load(&never))
		pause();
	return 0;
}

static void *init_it(void *arg)
{
	npu_init();
	return NULL;
}

static void init_is_stuck(void)
{
	pthread_t th;

	npu_hook_init(stuck, NULL);
	pthread_create(&th, NULL, init_it, NULL);
	seen(&in_hook);
}

TEST(while_another_thread_initialises)
{
	EXPECT_EQ(33, child(init_is_stuck));
	EXPECT_LT(took, 10);
}

TEST_HARNESS_MAIN
