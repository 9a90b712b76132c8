// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host touches device memory: the process dies of it, and a line says what
 * it was.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu/npu.h"
#include "selftests/npu_kselftest.h"

#define USER_STATUS 77

static char said[4096];

/* Runs fn in a child, with what it says on stderr in said. Returns its status. */
static int in_child(void (*fn)(void))
{
	size_t len = 0;
	int status = -1, fd[2];
	ssize_t n;
	pid_t pid;

	if (pipe(fd))
		return -1;
	pid = fork();
	if (!pid) {
		close(fd[0]);
		dup2(fd[1], 2);
		alarm(20);
		/* a sanitizer's handler would end the process in its own way */
		if (signal(SIGSEGV, SIG_DFL) == SIG_ERR)
			_exit(1);
		fn();
		_exit(0);
	}
	close(fd[1]);
	while (len < sizeof(said) - 1 && (n = read(fd[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(fd[0]);
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static bool died(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* Device memory of 4096 bytes, the handler on or off. */
static volatile char *memory(const char *on)
{
	void *p;

	if (npu_option_set("simnpu_fault_handler", on) || npu_init() || npu_malloc(4096, 0, &p))
		_exit(2);
	return p;
}

static void say_where(volatile void *p)
{
	fprintf(stderr, "at %p\n", p);
}

static void reads(void)
{
	volatile char *p = memory("1");

	say_where(p);
	(void)p[17];
}

static void writes_freed(void)
{
	volatile char *p = memory("1");

	npu_free((void *)p);
	p[0] = 1;
}

static volatile char *managed(void)
{
	void *p;

	memory("1");
	if (npu_malloc(4096, NPU_MEM_MANAGED, &p))
		_exit(2);
	return p;
}

static void managed_works(void)
{
	volatile char *p = managed();

	p[4095] = 3;
	_exit(p[4095] == 3 ? USER_STATUS : 3);
}

static void managed_freed(void)
{
	volatile char *p = managed();

	npu_free((void *)p);
	p[0] = 1;
}

static void managed_after_reset(void)
{
	volatile char *p = managed();

	npu_device_reset(0, 5000);
	p[0] = 1;
}

static void managed_in_a_child(void)
{
	volatile char *p = managed();
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		p[0] = 1;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	_exit(died(status) ? USER_STATUS : 3);
}

static void no_handler(void)
{
	(void)*memory("0");
}

static volatile char *volatile nowhere = (volatile char *)8;

static void null(void)
{
	memory("1");
	*nowhere = 1;
}

static void after_the_end(void)
{
	volatile char *p = memory("1");

	npu_finalize(5000);
	(void)*p;
}

/* In a thread that has the allocation made by another. */
static void *touch(void *p)
{
	*(volatile char *)p = 1;
	return NULL;
}

static void in_a_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, touch, (void *)(memory("1") + 4095));
	pthread_join(t, NULL);
}

static void users_info(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (write(2, "user's\n", 7) == 7 && sig == SIGSEGV && info->si_addr)
		_exit(USER_STATUS);
}

static void users_plain(int sig)
{
	if (write(2, "user's\n", 7) == 7 && sig == SIGSEGV)
		_exit(USER_STATUS);
}

static void with_users_info(void)
{
	struct sigaction sa = { .sa_sigaction = users_info, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &sa, NULL);
	reads();
}

static void with_users_plain(void)
{
	signal(SIGSEGV, users_plain);
	reads();
}

static void with_users_null(void)
{
	signal(SIGSEGV, users_plain);
	null();
}

static void ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	reads();
}

/* Sent by somebody: nothing was touched. */
static void sent(void)
{
	memory("1");
	raise(SIGSEGV);
}

static void sent_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	memory("1");
	raise(SIGSEGV);
	_exit(USER_STATUS);
}

/* A question is no reason to touch the program's signals; a device in use is, once. */
static void question(void)
{
	struct sigaction sa, again;
	int n;

	npu_option_set("simnpu_fault_handler", "1");
	npu_device_count(&n);
	sigaction(SIGSEGV, NULL, &sa);
	if (sa.sa_handler != SIG_DFL)
		_exit(3);
	memory("1");
	sigaction(SIGSEGV, NULL, &sa);
	if (!(sa.sa_flags & SA_SIGINFO) || !(sa.sa_flags & SA_ONSTACK))
		_exit(4);
	npu_finalize(5000);
	signal(SIGSEGV, users_plain);
	memory("1");
	sigaction(SIGSEGV, NULL, &again);
	_exit(again.sa_handler == users_plain ? USER_STATUS : 5);
}

TEST(it_names_the_allocation)
{
	unsigned long at = 0;
	char want[200];

	EXPECT_TRUE(died(in_child(reads)));
	ASSERT_EQ(1, sscanf(said, "at %lx", &at));
	snprintf(want, sizeof(want),
		 "libnpu: the host touched 0x%lx, memory of simnpu0: byte 17 of the allocation "
		 "of 4096 bytes at 0x%lx. Copy it with npu_memcpy().\n", at + 17, at);
	EXPECT_STREQ(want, strchr(said, '\n') + 1);
	EXPECT_TRUE(died(in_child(in_a_thread)));
	EXPECT_NE(NULL, strstr(said, "byte 4095 of the allocation of 4096 bytes"));
}

TEST(freed_memory)
{
	EXPECT_TRUE(died(in_child(writes_freed)));
	EXPECT_NE(NULL, strstr(said, "simnpu0: freed or never allocated device address"));
}

TEST(managed_memory)
{
	EXPECT_EQ(USER_STATUS << 8, in_child(managed_works));
	EXPECT_STREQ("", said);
	EXPECT_EQ(USER_STATUS << 8, in_child(managed_in_a_child));
	EXPECT_TRUE(died(in_child(managed_freed)));
	EXPECT_NE(NULL, strstr(said, "simnpu0: freed or never allocated device address"));
	EXPECT_TRUE(died(in_child(managed_after_reset)));
}

TEST(what_is_not_ours_says_nothing)
{
	EXPECT_TRUE(died(in_child(no_handler)));
	EXPECT_STREQ("", said);
	EXPECT_TRUE(died(in_child(null)));
	EXPECT_STREQ("", said);
	EXPECT_TRUE(died(in_child(after_the_end)));
	EXPECT_STREQ("", said);
	EXPECT_TRUE(died(in_child(sent)));
	EXPECT_STREQ("", said);
}

TEST(the_users_handler_comes_after_ours)
{
	void (*const with[])(void) = { with_users_info, with_users_plain };
	const char *ours, *users;
	size_t i;

	for (i = 0; i < 2; i++) {
		int status = in_child(with[i]);

		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == USER_STATUS);
		ours = strstr(said, "byte 17");
		users = strstr(said, "user's\n");
		ASSERT_NE(NULL, ours);
		ASSERT_NE(NULL, users);
		EXPECT_LT(ours, users);
	}
	EXPECT_EQ(USER_STATUS << 8, in_child(with_users_null));
	EXPECT_STREQ("user's\n", said);
}

TEST(ignored_signals)
{
	EXPECT_TRUE(died(in_child(ignored)));
	EXPECT_NE(NULL, strstr(said, "byte 17"));
	EXPECT_EQ(USER_STATUS << 8, in_child(sent_ignored));
	EXPECT_STREQ("", said);
}

TEST(installed_once_and_not_by_a_question)
{
	EXPECT_EQ(USER_STATUS << 8, in_child(question));
	EXPECT_STREQ("", said);
}

TEST_HARNESS_MAIN
