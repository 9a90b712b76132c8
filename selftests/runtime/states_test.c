// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function in every state of the library.
 */
#include "selftests/npu_kselftest.h"

#include <sys/wait.h>

#include "selftests/runtime/calls_env.h"

/* What those with a line of their own answer. */
struct life {
	int state_get;
	int init;
	int finalize;
	int release_register;
	int hook_init;
	int option_set;
};

static int life_answer(const struct life *l, const char *name)
{
	if (!strcmp(name, "npu_state_get"))
		return l->state_get;
	if (!strcmp(name, "npu_init"))
		return l->init;
	if (!strcmp(name, "npu_finalize"))
		return l->finalize;
	if (!strcmp(name, "npu_release_register"))
		return l->release_register;
	if (!strcmp(name, "npu_hook_init"))
		return l->hook_init;
	return l->option_set;
}

/* Calls all; need: what those answer that need the library. Returns how many were wrong. */
static int try_all(const char *state, int need, const struct life *life)
{
	int want, got, left, wrong = 0;
	struct npu_error e;
	size_t i;

	for (i = 0; i < CALLS_NR; i++) {
		want = calls[i].class == CLASS_ANY ? 0 : need;
		if (calls[i].class == CLASS_LIFE)
			want = life_answer(life, calls[i].name);
		npu_error_clear();
		if (want < 0)
			fill_results(&calls[i]);
		got = calls[i].fn();
		e = last_error();
		left = want < 0 ? left_behind(&calls[i]) : 0;
		/* a refusal says why, and leaves no result of before */
		if (got == want && !left && (want >= 0 || (e.code == want && e.text[0])))
			continue;
		wrong++;
		printf("# %s: %s: %d, expected %d; record %d %s%s\n", state, calls[i].name, got,
		       want, e.code, e.text, left ? "; a result is not cleared" : "");
	}
	return wrong;
}

static const struct life life_ready = { NPU_STATE_READY, 0, 0, 0, 0, 0 };
static const struct life life_none = { NPU_STATE_UNINIT, -1, 0, 0, 0, 0 };
static const struct life life_forked = {
	NPU_STATE_FORKED, -ECHILD, -ECHILD, -ECHILD, -ECHILD, -ECHILD,
};
static const struct life life_finalizing = {
	NPU_STATE_FINALIZING, -ESHUTDOWN, -ESHUTDOWN, 0, -ESHUTDOWN, -ESHUTDOWN,
};
static const struct life life_final = {
	NPU_STATE_FINAL, -ESHUTDOWN, -ESHUTDOWN, -ESHUTDOWN, -ESHUTDOWN, -ESHUTDOWN,
};

/* The table has a line for each exported function, and no other. */
TEST(all_functions)
{
	EXPECT_EQ(0, table_differs_from_map());
}

/* The calls name results: at least those that were once forgotten. */
TEST(results_are_known)
{
	size_t i, r, nr = 0;

	for (i = 0; i < CALLS_NR; i++)
		for (r = 0; r < RESULTS_NR; r++)
			nr += calls[i].class == CLASS_NEED && names(&calls[i], &results[r]);
	EXPECT_LE(23, nr) TH_LOG("%zu results", nr);
}

TEST(ready)
{
	ASSERT_EQ(0, set_up());
	EXPECT_EQ(0, try_all("ready", 0, &life_ready));
}

/* npu_init() comes last in effect, as it ends the state: it is tried apart. */
static int try_not_initialised(const char *state)
{
	struct life life = life_none;
	int wrong;

	life.init = 0;
	/* the order of the table has npu_finalize() right behind it */
	wrong = try_all(state, -ENOTCONN, &life);
	return wrong + (npu_state_get() != NPU_STATE_UNINIT);
}

TEST(uninit)
{
	obj.info.size = sizeof(obj.info);
	obj.health.size = sizeof(obj.health);
	obj.option.size = sizeof(obj.option);
	obj.explained.size = sizeof(obj.explained);
	obj.error.size = sizeof(obj.error);
	OK(npu_option_set("lazy_init", "0"));
	EXPECT_EQ(0, try_not_initialised("uninit"));
}

TEST(finalized)
{
	ASSERT_EQ(0, set_up());
	OK(npu_finalize(5000));
	EXPECT_EQ(0, try_not_initialised("finalized"));
}

static _Atomic int entered, leave;

static int linger(void *arg)
{
	atomic_store(&entered, 1);
	while (!atomic_load(&leave))
		usleep(100);
	return 0;
}

static void *finalize_it(void *arg)
{
	npu_finalize(5000);
	return NULL;
}

TEST(finalizing)
{
	pthread_t th;

	ASSERT_EQ(0, set_up());
	OK(npu_release_register(linger, NULL, 0));
	OK(pthread_create(&th, NULL, finalize_it, NULL));
	ASSERT_TRUE(seen(&entered));
	EXPECT_EQ(0, try_all("finalizing", -ESHUTDOWN, &life_finalizing));
	atomic_store(&leave, 1);
	pthread_join(th, NULL);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
}

TEST(forked)
{
	int status = -1;
	pid_t pid;

	ASSERT_EQ(0, set_up());
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		status = try_all("forked", -ECHILD, &life_forked) ? 1 : 0;
		fflush(stdout);
		_exit(status);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	/* the parent has not noticed */
	EXPECT_EQ(0, try_all("parent", 0, &life_ready));
}

static bool at_the_end;

/* Of the program, and later than the library's. */
__attribute__((destructor(101))) static void last(void)
{
	if (!at_the_end)
		return;
	at_the_end = false;
	fflush(stdout);
	_exit(try_all("final", -ESHUTDOWN, &life_final) ? 1 : 7);
}

TEST(final)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		at_the_end = set_up() == 0;
		exit(3);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(7, WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
