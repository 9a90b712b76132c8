// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function in every state of the library.
 */
#include "selftests/npu_kselftest.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "selftests/runtime/calls.h"
#include "selftests/runtime/rt_test.h"

#define GOOD_MODULE TEST_DATA("rt_kernels.so")

/* What the calls work on; handles are stale where the library is not ready. */
static struct {
	npu_stream s, idle, s_out;
	npu_event e, t, never, e_out;
	npu_context ctx, ctx_out;
	npu_module module, m_out;
	npu_kernel k, k_out;
	struct npu_guard g, unused;
	struct npu_device_info info;
	struct npu_stream_info stream;
	struct npu_pointer_info pointer;
	struct npu_option_info option;
	struct npu_error error;
	void *p, *q, *out, *page;
	char text[64];
	size_t size;
	uint64_t u64;
	int64_t i64;
	uint32_t u32;
	int n, fd;
} obj;

static int callback(void *arg)
{
	return 0;
}

static void nothing(void *arg)
{
}

static bool is_ready(void)
{
	return npu_state_get() == NPU_STATE_READY;
}

static npu_stream new_stream(void)
{
	npu_stream s = obj.s;

	if (is_ready())
		npu_stream_create(NULL, &s);
	return s;
}

static npu_stream new_lease(void)
{
	npu_stream s = obj.s;

	if (is_ready())
		npu_stream_lease(0, 4, &s);
	return s;
}

static npu_event new_event(void)
{
	npu_event e = obj.e;

	if (is_ready())
		npu_event_create(0, &e);
	return e;
}

static npu_context new_context(void)
{
	npu_context c = obj.ctx;

	if (is_ready())
		npu_context_create(0, &c);
	return c;
}

static int take_fd(int err)
{
	if (!err)
		close(obj.fd);
	return err;
}

static int end_of(int err)
{
	int end = npu_guard_end(&obj.g);

	return err ? err : end;
}

/* Of a call that can only be refused here: the refusal that is right is a success. */
static int not_here(int err)
{
	return err == -EOPNOTSUPP ? 0 : err;
}

static int bad_image(int err)
{
	return err == -ENOEXEC ? 0 : err;
}

#define DEFINE(name, expr) static int call_##name(void) { return (expr); }
CALLS(DEFINE, DEFINE, DEFINE)

enum class { CLASS_ANY, CLASS_NEED, CLASS_LIFE };

static const struct call {
	const char *name;
	int (*fn)(void);
	enum class class;
	const char *text;
} calls[] = {
#define ROW_ANY(name, expr) { #name, call_##name, CLASS_ANY, #expr },
#define ROW_NEED(name, expr) { #name, call_##name, CLASS_NEED, #expr },
#define ROW_LIFE(name, expr) { #name, call_##name, CLASS_LIFE, #expr },
	CALLS(ROW_ANY, ROW_NEED, ROW_LIFE)
};

#define CALLS_NR (sizeof(calls) / sizeof(calls[0]))

/* Results that the calls name, and what a failure leaves there: nothing of before. */
static const struct result {
	const char *text;
	void *at;
	size_t size;
	int64_t cleared;
} results[] = {
#define RESULT(field, cleared) { "&obj." #field, &obj.field, sizeof(obj.field), cleared }
	RESULT(s_out, 0), RESULT(e_out, 0), RESULT(ctx_out, 0), RESULT(module, 0),
	RESULT(m_out, 0), RESULT(k_out, 0), RESULT(out, 0), RESULT(u64, 0), RESULT(i64, 0),
	RESULT(n, -1), RESULT(fd, -1),
};

#define RESULTS_NR (sizeof(results) / sizeof(results[0]))
#define BEFORE 0x55

static bool names(const struct call *c, const struct result *r)
{
	const char *at = strstr(c->text, r->text);

	return at && strchr(",)", at[strlen(r->text)]);
}

static void fill_results(const struct call *c)
{
	size_t i;

	for (i = 0; i < RESULTS_NR; i++)
		if (names(c, &results[i]))
			memset(results[i].at, BEFORE, results[i].size);
}

/* How many results of a call that failed are not cleared. */
static int left_behind(const struct call *c)
{
	int wrong = 0;
	size_t i;

	/* (the machine is little-endian, as all that the library runs on) */
	for (i = 0; i < RESULTS_NR; i++)
		wrong += names(c, &results[i]) &&
			 memcmp(results[i].at, &results[i].cleared, results[i].size) != 0;
	return wrong;
}

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

static int set_up(void)
{
	obj.info.size = sizeof(obj.info);
	obj.stream.size = sizeof(obj.stream);
	obj.pointer.size = sizeof(obj.pointer);
	obj.option.size = sizeof(obj.option);
	obj.error.size = sizeof(obj.error);
	obj.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return npu_option_set("lazy_init", "0") || npu_init() ||
	       npu_stream_create(NULL, &obj.s) || npu_stream_create(NULL, &obj.idle) ||
	       npu_event_create(0, &obj.e) || npu_event_create(0, &obj.never) ||
	       npu_event_create(NPU_EVENT_TIMING, &obj.t) || npu_event_record(obj.t, obj.s) ||
	       npu_event_sync(obj.t, 5000) || npu_context_create(0, &obj.ctx) ||
	       npu_malloc(4096, 0, &obj.p) || npu_malloc(4096, 0, &obj.q) ||
	       npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &obj.k);
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
	char line[128], name[96];
	size_t i, listed = 0;
	bool found;
	FILE *f;

	f = fopen(TEST_SRCTREE "/libnpu.map", "r");
	ASSERT_TRUE(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " npu_%90[a-z0-9_];", name) != 1)
			continue;
		for (i = 0, found = false; i < CALLS_NR; i++)
			found |= !strcmp(calls[i].name + 4, name);
		EXPECT_TRUE(found) TH_LOG("npu_%s has no line in calls.h", name);
		listed++;
	}
	fclose(f);
	EXPECT_EQ(CALLS_NR, listed);
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
	obj.option.size = sizeof(obj.option);
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
