/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every C test includes: the kselftest harness of Linux 6.1, and what our
 * tests need beyond it. The harness itself is fetched by
 * scripts/fetch-kselftest.sh and not part of this tree.
 *
 * Differences to the plain harness:
 *
 * - TH_LOG() writes to standard output, a line at a time, so that its lines
 *   stand where they belong in prove's output.
 * - Each test runs in a child that ends by _exit(), which neither looks for
 *   leaks nor saves the counts of gcov. Both are done here, after the teardown
 *   of a test that passed. A test that leaks by intent sets npu_test_may_leak.
 * - The watchdog of a test (30 s, or what TEST_F_TIMEOUT() says) is longer
 *   under sanitizers, and $NPU_TEST_SLOWER times as long.
 * - The library is initialised by need, whatever CONFIG_OPT_LAZY_INIT is. A test
 *   about the configuration's own default says unsetenv("NPU_LAZY_INIT"). Nor do
 *   submissions wait, whatever CONFIG_OPT_LAUNCH_BLOCKING is: NPU_LAUNCH_BLOCKING.
 *   Of memory and files, too, the options that are yes or no are as without a
 *   configuration.
 * - "PROGRAM GLOB" runs the tests whose FIXTURE.TEST matches, "PROGRAM -l"
 *   lists them.
 *
 * Pitfalls of the harness that no header can cure:
 *
 * - A child that exits with 255 counts as skipped: never exit(-1) in a test.
 * - A failed ASSERT_ jumps to the teardown and then aborts: a lock held at that
 *   moment makes a teardown that needs it hang until the watchdog. EXPECT_ goes
 *   on instead.
 * - Start no thread before main(): the tests are forked from it.
 * - The first argument of EXPECT_EQ() is what is expected.
 */
#ifndef SELFTESTS_NPU_KSELFTEST_H
#define SELFTESTS_NPU_KSELFTEST_H

#ifndef TH_LOG_STREAM
#define TH_LOG_STREAM stdout
#endif

#include <kselftest_harness.h>

#include <fnmatch.h>

/* As hal/base.h has it, so that both can be included. */
#undef ARRAY_SIZE
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * In FIXTURE_SETUP(): skip the test. A plain SKIP(return, ...) there would run
 * the body of the test all the same, and report its failures as skipped.
 */
#define SETUP_SKIP(fmt, ...)						\
	SKIP({ npu_test_leave(); _exit(255); }, fmt, ##__VA_ARGS__)

/* Absolute paths of the sources and of what was built: TEST_DATA("k_inc.so"). */
#define TEST_DATA(name)		TEST_OBJTREE "/selftests/data/" name

#if defined(__SANITIZE_ADDRESS__)
#define NPU_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NPU_TEST_ASAN 1
#endif
#endif
#ifndef NPU_TEST_ASAN
#define NPU_TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define NPU_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NPU_TEST_TSAN 1
#endif
#endif
#ifndef NPU_TEST_TSAN
#define NPU_TEST_TSAN 0
#endif

/*
 * The allocators of the sanitizers do not carry their locks over fork(): a child that allocates may
 * wait for ever, if other threads of the parent allocate as well.
 */
#define NPU_TEST_FORK_HANGS (NPU_TEST_ASAN || NPU_TEST_TSAN)

/* There when the sanitizer or --coverage is. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
extern void __gcov_dump(void) __attribute__((weak));

/* Set by a test, in its own process, that leaves memory behind by intent. */
static bool npu_test_may_leak __attribute__((unused));

/* Saves what a process that ends by _exit() would lose. */
static inline void npu_test_leave(void)
{
	fflush(stdout);
	if (__gcov_dump)
		__gcov_dump();
}

/* The functions of the tests, while the harness calls npu_test_run_one(). */
struct npu_test_fn {
	struct __test_metadata *test;
	void (*fn)(struct __test_metadata *t, struct __fixture_variant_metadata *v);
};

static struct npu_test_fn *npu_test_fns;
static size_t npu_test_nr;

/*
 * What the test left on the stack would count as pointers to its leaks: the leak
 * check runs over the same place, and does not write all of it.
 */
static __attribute__((noinline)) void npu_test_wipe_stack(void)
{
	volatile char old[65536];
	size_t i;

	for (i = 0; i < sizeof(old); i++)
		old[i] = 0;
}

static __attribute__((noinline)) bool npu_test_leaks(void)
{
	if (!NPU_TEST_ASAN || !__lsan_do_recoverable_leak_check || npu_test_may_leak)
		return false;
	npu_test_wipe_stack();
	return __lsan_do_recoverable_leak_check();
}

/* Runs in the child that the harness has forked for this test. */
static inline void npu_test_run_one(struct __test_metadata *_metadata,
				    struct __fixture_variant_metadata *variant)
{
	size_t i;

	for (i = 0; i < npu_test_nr; i++)
		if (npu_test_fns[i].test == _metadata)
			npu_test_fns[i].fn(_metadata, variant);

	if (_metadata->passed && !_metadata->skip && npu_test_leaks()) {
		TH_LOG("the test leaks memory");
		_metadata->passed = 0;
	}
	npu_test_leave();
}

static inline unsigned int npu_test_slower(void)
{
	const char *env = getenv("NPU_TEST_SLOWER");
	unsigned int times = env ? (unsigned int)atoi(env) : 1;

	return (times ? times : 1) * (NPU_TEST_TSAN ? 6 : NPU_TEST_ASAN ? 4 : 1);
}

/* Keeps of a fixture's tests those that match, and wraps them. */
static inline void npu_test_adopt(struct __fixture_metadata *f, const char *glob)
{
	struct __test_metadata **link = &f->tests, *t;
	char name[256];

	for (t = f->tests; t; t = t->next) {
		snprintf(name, sizeof(name), "%s.%s", f->name, t->name);
		if (glob && fnmatch(glob, name, 0))
			continue;
		*link = t;
		link = &t->next;
		npu_test_fns[npu_test_nr].test = t;
		npu_test_fns[npu_test_nr++].fn = t->fn;
		t->fn = npu_test_run_one;
		t->timeout *= (int)npu_test_slower();
	}
	*link = NULL;
}

static inline int npu_test_main(int argc, char **argv)
{
	bool list = argc > 1 && !strcmp(argv[1], "-l");
	struct __fixture_metadata *f;
	struct __test_metadata *t;
	size_t nr = 0;

	setenv("NPU_LAZY_INIT", "1", 1);
	setenv("NPU_LAUNCH_BLOCKING", "0", 1);
	setenv("NPU_MEM_CACHING", "1", 1);
	setenv("NPU_MEM_GROWABLE", "0", 1);
	setenv("NPU_PINNED_LOCK_REQUIRED", "0", 1);
	setenv("NPU_IO_URING", "1", 1);
	setenv("NPU_IO_WINDOW", "1", 1);
	/* a child's last lines must not be lost in a buffer */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (f = __fixture_list; f; f = f->next)
		for (t = f->tests; t; t = t->next, nr++)
			if (list)
				printf("%s.%s\n", f->name, t->name);
	if (list)
		return 0;

	npu_test_fns = calloc(nr + 1, sizeof(*npu_test_fns));
	if (!npu_test_fns)
		return KSFT_FAIL;
	for (f = __fixture_list; f; f = f->next)
		npu_test_adopt(f, argc > 1 ? argv[1] : NULL);
	if (!npu_test_nr) {
		fprintf(stderr, "no test matches %s\n", argc > 1 ? argv[1] : "anything");
		return KSFT_FAIL;
	}
	return test_harness_run(argc, argv);
}

/* TEST_HARNESS_MAIN calls this name. */
#define test_harness_run(argc, argv)	npu_test_main(argc, argv)

#endif /* SELFTESTS_NPU_KSELFTEST_H */
