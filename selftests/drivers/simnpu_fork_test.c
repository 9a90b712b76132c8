// SPDX-License-Identifier: GPL-2.0-only
/*
 * Questions in the child of a fork that came while other threads asked: whoever
 * held the device's lock in the parent is not there any more.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "npu/npu.h"
#include "selftests/npu_kselftest.h"

#define FORKS 200
#define ASKERS 2

static _Atomic bool stop;
static _Atomic unsigned int asked;

static void *asker(void *arg)
{
	long wrong = 0;
	int n;

	while (!stop) {
		wrong += npu_device_count(&n) || n != 2;
		asked++;
	}
	return (void *)wrong;
}

/* Asks, and works if that is wanted; the number of what went wrong. */
static int child(bool work)
{
	struct npu_device_info info = { .size = sizeof(info) };
	uint64_t a = 5, b = 0;
	void *p;
	int n;

	alarm(20);	/* held for ever would be for ever */
	if (npu_device_count(&n) || n != 2)
		return 1;
	if (npu_device_get_info(1, &info) || !info.name[0])
		return 2;
	if (!work)
		return 0;
	if (npu_malloc(8, 0, &p) || npu_memcpy(p, &a, 8, NPU_COPY_AUTO) ||
	    npu_memcpy(&b, p, 8, NPU_COPY_AUTO) || b != 5)
		return 3;
	return npu_free(p) || npu_finalize(5000) ? 4 : 0;
}

/* A child's status; a grandchild finds its way as well. */
static int run(bool work, bool nested)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(nested && run(work, false) ? 5 : child(work));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

TEST(children_of_one_that_asks)
{
	pthread_t thread[ASKERS];
	void *wrong;
	int i, n;

	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "the sanitizer's allocator may be locked in a child");
	ASSERT_EQ(0, npu_device_count(&n));
	ASSERT_EQ(2, n);
	for (i = 0; i < ASKERS; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, asker, NULL));
	while (asked < 10)
		usleep(100);
	for (i = 0; i < FORKS; i++)
		ASSERT_EQ(0, run(i % 8 == 0, i % 8 == 4)) {
			TH_LOG("fork %d", i);
		}
	stop = true;
	for (i = 0; i < ASKERS; i++) {
		pthread_join(thread[i], &wrong);
		EXPECT_EQ(NULL, wrong);
	}
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST_HARNESS_MAIN
