// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every code of the catalogue, produced: the record says which, on what and what
 * to do; and nothing of it is left that makes the next call fail. The list of
 * codes and their tests is selftests/errors.list.
 */
#include "selftests/npu_kselftest.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "drivers/simnpu/simnpu_test.h"
#include "hal/sys_judge.h"
#include "selftests/runtime/rt_test.h"
#include "uapi/simnpu.h"

static npu_stream stream;

static int set_up(void)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_LOG_LEVEL", "none", 1);
	return npu_stream_create(NULL, &stream);
}

/* Whether text is one line with something in it. */
static bool says_something(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	return n >= 8 && n < size && !strchr(text, '\n');
}

/* What the record lacks of a failure that was to give the code; NULL: nothing. */
static const char *lacks(int code)
{
	struct npu_error_info info = { .size = sizeof(info) };
	struct npu_error e = last_error();

	if (e.code != -code)
		return npu_error_name(e.code);
	if (npu_error_explain(code, &info) || info.code != -code)
		return "an entry in the catalogue";
	if (strcmp(info.name, npu_error_name(code)))
		return "the name";
	if (!says_something(e.text, sizeof(e.text)))
		return "a text";
	if (!says_something(e.hint, sizeof(e.hint)))
		return "a hint";
	return e.op[0] ? NULL : "the operation";
}

/* What does not work after a failure, or leaves a record: "launch" and so on; NULL: all is well. */
static const char *broken(void)
{
	struct npu_simnpu_inc_args a = { 0, 1 };
	uint64_t out = 0;
	void *p = NULL;
	const char *what = NULL;

	npu_error_clear();
	if (npu_malloc(64, 0, &p))
		return "malloc";
	a.addr = (uint64_t)(uintptr_t)p;
	if (npu_memset(p, 0, 64))
		what = "memset";
	else if (npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), stream))
		what = "launch";
	else if (npu_stream_sync(stream, 5000))
		what = "sync";
	else if (npu_memcpy(&out, p, 8, NPU_COPY_AUTO) || out != 1)
		what = "memcpy";
	if (npu_free(p) && !what)
		what = "free";
	if (!what && last_error().code)
		what = "a record without a failure";
	return what;
}

/* An expression gives a code, a record, and nothing that lasts. */
#define GIVES(code, expr) do {							\
	const char *wrong;							\
										\
	npu_error_clear();							\
	EXPECT_EQ(-(code), (expr));						\
	wrong = lacks(code);							\
	EXPECT_EQ(NULL, wrong)							\
		TH_LOG("%s lacks %s", #expr, wrong ? wrong : "");		\
	wrong = broken();							\
	EXPECT_EQ(NULL, wrong)							\
		TH_LOG("after %s: %s", #expr, wrong ? wrong : "");		\
} while (0)

/* ---- arguments and handles ------------------------------------------------------- */

static void *end_guard(void *arg)
{
	int *rc = arg;

	rc[0] = npu_guard_end(*(struct npu_guard **)(rc + 2));
	rc[1] = last_error().code;
	return NULL;
}

TEST(eperm)
{
	struct { int rc[2]; struct npu_guard *g; } x;
	struct npu_guard g;
	pthread_t t;

	OK(set_up());
	OK(npu_guard_device(&g, 1));
	x.g = &g;
	OK(pthread_create(&t, NULL, end_guard, &x));
	OK(pthread_join(t, NULL));
	EXPECT_EQ(-EPERM, x.rc[0]);
	EXPECT_EQ(-EPERM, x.rc[1]);
	EXPECT_EQ(0, last_error().code);
	OK(npu_guard_end(&g));
	EXPECT_EQ(NULL, broken());
}

TEST(enoent)
{
	OK(set_up());
	GIVES(ENOENT, npu_option_set("no_such_option", "1"));
	GIVES(ENOENT, npu_module_load("/no/such/module.so", &(npu_module){ 0 }));
}

TEST(esrch)
{
	npu_kernel k;

	OK(set_up());
	GIVES(ESRCH, npu_kernel_get(NPU_MODULE_BUILTIN, "no_such_kernel", &k));
}

TEST(enoexec)
{
	npu_module m;

	OK(set_up());
	GIVES(ENOEXEC, npu_module_load_data("no module", 9, &m));
}

TEST(ebadf)
{
	OK(set_up());
	GIVES(EBADF, npu_stream_sync((npu_stream){ 0x1234567890 }, 0));
	GIVES(EBADF, npu_event_sync((npu_event){ stream.h }, 0));
}

TEST(estale)
{
	npu_stream s;

	OK(set_up());
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_destroy(s, 5000));
	GIVES(ESTALE, npu_stream_sync(s, 0));
}

TEST(einval)
{
	OK(set_up());
	GIVES(EINVAL, npu_malloc(64, 0, NULL));
	GIVES(EINVAL, npu_stream_sync(stream, -2));
}

TEST(exdev)
{
	npu_stream other;
	npu_event e;

	OK(set_up());
	OK(npu_stream_default(1, &other));
	OK(npu_event_create(NPU_EVENT_TIMING, &e));
	OK(npu_event_record(e, stream));
	GIVES(EXDEV, npu_event_record(e, other));
	OK(npu_event_destroy(e));
}

TEST(eexist)
{
	static char pages[3 * 4096];
	char *page = pages + 4096 - (uintptr_t)pages % 4096;

	OK(set_up());
	OK(npu_host_register(page, 4096, 0));
	GIVES(EEXIST, npu_host_register(page, 4096, 0));
	OK(npu_host_unregister(page));
}

TEST(enodev)
{
	OK(set_up());
	GIVES(ENODEV, npu_device_set(99));
}

TEST(erange)
{
	OK(set_up());
	GIVES(ERANGE, npu_option_set("exit_timeout_ms", "-5"));
}

TEST(ebusy)
{
	OK(set_up());
	GIVES(EBUSY, npu_option_set("lazy_init", "0"));
}

TEST(eopnotsupp)
{
	int any;

	OK(set_up());
	GIVES(EOPNOTSUPP, npu_stream_import(0, &any, &(npu_stream){ 0 }));
}

TEST(eproto)
{
	npu_module m;

	OK(set_up());
	GIVES(EPROTO, npu_module_load(TEST_DATA("rt_wrongabi.so"), &m));
}

/* ---- the state of the process ---------------------------------------------------- */

TEST(enotconn)
{
	void *p;

	setenv("NPU_LAZY_INIT", "0", 1);
	EXPECT_EQ(-ENOTCONN, npu_malloc(64, 0, &p));
	EXPECT_EQ(NULL, lacks(ENOTCONN));
	OK(npu_init());
	OK(set_up());
	EXPECT_EQ(NULL, broken());
}

static int in_the_child(void)
{
	const char *wrong;
	void *p;

	if (npu_malloc(64, 0, &p) != -ECHILD)
		return 1;
	wrong = lacks(ECHILD);
	if (wrong)
		printf("# ECHILD lacks %s\n", wrong);
	return wrong != NULL;
}

TEST(echild)
{
	int status = 1;
	pid_t pid;

	OK(set_up());
	pid = fork();
	if (!pid)
		_exit(in_the_child());
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status)
		TH_LOG("ECHILD in the child");
	EXPECT_EQ(NULL, broken());
}

static int after_finalize_began(void *arg)
{
	int *rc = arg;

	/* release callbacks may use the library; another thread of the program may not begin */
	*rc = npu_init();
	return 0;
}

TEST(eshutdown)
{
	int rc = 1;

	OK(set_up());
	OK(npu_release_register(after_finalize_began, &rc, NPU_RELEASE_MIDDLE));
	OK(npu_finalize(5000));
	EXPECT_EQ(-ESHUTDOWN, rc);
	EXPECT_EQ(NULL, lacks(ESHUTDOWN));
	OK(set_up());
	EXPECT_EQ(NULL, broken());
}

/* ---- the work -------------------------------------------------------------------- */

TEST(efault)
{
	OK(set_up());
	OK(failing_task(stream));
	GIVES(EFAULT, npu_stream_sync(stream, 5000));
}

static void sync_inside(void *arg)
{
	int *rc = arg;

	rc[0] = npu_stream_sync(stream, 1000);
	rc[1] = last_error().code;
	rc[2] = lacks(EDEADLK) == NULL;
}

static void *wait_for_it(void *arg)
{
	int *rc = arg;

	*rc = npu_stream_sync(stream, 20000);
	if (*rc == -ECANCELED && lacks(ECANCELED))
		*rc = 1;
	return NULL;
}

TEST(edeadlk)
{
	int rc[3] = { 0 };

	OK(set_up());
	OK(npu_stream_callback(stream, sync_inside, rc, 0));
	OK(npu_stream_sync(stream, 5000));
	EXPECT_EQ(-EDEADLK, rc[0]);
	EXPECT_EQ(-EDEADLK, rc[1]);
	EXPECT_EQ(1, rc[2]);
	EXPECT_EQ(0, last_error().code);
	EXPECT_EQ(NULL, broken());
}

TEST(etimedout)
{
	static struct gate g;
	npu_stream s;

	OK(set_up());
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	GIVES(ETIMEDOUT, npu_stream_sync(s, 20));
	GIVES(ETIMEDOUT, npu_stream_sync(s, 0));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(s, 5000));
}

/* The answer of a query is no failure, and leaves no record. */
TEST(einprogress)
{
	static struct gate g;
	npu_stream s;

	OK(set_up());
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	npu_error_clear();
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(s));
	EXPECT_EQ(0, last_error().code);
	EXPECT_EQ(NULL, broken());
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(s, 5000));
	OK(npu_stream_query(s));
}

/* ---- faults ---------------- */

/* A fault: the task that met it, and all else after it, gives -EIO; the health names the cause. */
static void break_it(struct __test_metadata *_metadata, const char *rules, int cause)
{
	struct npu_device_health h = { .size = sizeof(h) };
	int rc = 0, i;

	OK(set_up());
	OK(simnpu_fault_set(rules, NULL));
	npu_error_clear();
	OK(npu_launch(builtin_kernel("nop"), 1, NULL, 0, stream));
	EXPECT_EQ(-EIO, npu_stream_sync(stream, 5000));
	EXPECT_EQ(NULL, lacks(EIO));
	EXPECT_STREQ("launch", last_error().op)
		TH_LOG("%s", last_error().text);
	simnpu_fault_clear();
	OK(npu_device_get_health(0, &h));
	EXPECT_EQ(-cause, h.cause);
	EXPECT_EQ(NPU_DEVICE_FAULTED, h.state);
	for (i = 0; i < 2; i++) {
		rc = npu_launch(builtin_kernel("nop"), 1, NULL, 0, stream);
		EXPECT_EQ(-EIO, rc);
	}
	EXPECT_EQ(NULL, lacks(EIO));
}

/* Mended, all is well; the streams of before are of before. */
static void mend_it(struct __test_metadata *_metadata)
{
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(-ESTALE, npu_stream_sync(stream, 0));
	OK(npu_stream_create(NULL, &stream));
	EXPECT_EQ(NULL, broken());
}

TEST(eio)
{
	break_it(_metadata, "task:launch,do=link", ENOLINK);
	EXPECT_EQ(-EIO, last_error().code);
	mend_it(_metadata);
}

TEST(enolink)
{
	break_it(_metadata, "task:launch,do=link", ENOLINK);
	mend_it(_metadata);
}

TEST(etime)
{
	break_it(_metadata, "task:launch,do=hang", ETIME);
	mend_it(_metadata);
}

TEST(eremoteio)
{
	break_it(_metadata, "task:launch,do=heartbeat", EREMOTEIO);
	mend_it(_metadata);
}

TEST(ehwpoison)
{
	struct npu_device_health h = { .size = sizeof(h) };
	char host[64];
	void *p;

	OK(set_up());
	OK(npu_malloc(sizeof(host), 0, &p));
	OK(npu_memset(p, 1, sizeof(host)));
	ASSERT_TRUE(simnpu_test_poison(0, (uint64_t)(uintptr_t)p, sizeof(host)));
	EXPECT_EQ(-EHWPOISON, npu_memcpy(host, p, sizeof(host), NPU_COPY_AUTO));
	EXPECT_EQ(NULL, lacks(EHWPOISON));
	OK(npu_device_get_health(0, &h));
	EXPECT_EQ(-EHWPOISON, h.cause);
	OK(npu_device_restart(0, NPU_RESTART_KEEP_DATA, 5000));
	/* the hardware is mended, what was in the memory is lost */
	OK(npu_stream_create(NULL, &stream));
	GIVES(EHWPOISON, npu_memcpy(host, p, sizeof(host), NPU_COPY_AUTO));
	OK(npu_memset(p, 2, sizeof(host)));
	OK(npu_memcpy(host, p, sizeof(host), NPU_COPY_AUTO));
	EXPECT_EQ(2, host[63]);
	OK(npu_free(p));
}

TEST(ecanceled)
{
	pthread_t t;
	int rc = 1;

	OK(set_up());
	OK(delay(stream, 100000000000ull));
	OK(pthread_create(&t, NULL, wait_for_it, &rc));
	usleep(50000);
	OK(npu_stream_abort(stream, 10000));
	OK(pthread_join(t, NULL));
	EXPECT_EQ(-ECANCELED, rc);
	EXPECT_EQ(NULL, broken());
}

/* ---- what runs out --------------------------------------------------------------- */

TEST(enomem)
{
	void *p;

	OK(set_up());
	GIVES(ENOMEM, npu_malloc((size_t)1 << 50, 0, &p));
	EXPECT_EQ(NULL, p);
}

TEST(enospc)
{
	npu_context c;
	int rc = 0;

	OK(set_up());
	while (!rc)
		rc = npu_context_create(0, &c);
	EXPECT_EQ(-ENOSPC, rc);
	GIVES(ENOSPC, npu_context_create(0, &c));
}

TEST(eagain)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	npu_kernel nop;
	static struct gate g;
	unsigned int i;
	npu_stream s;
	int rc = 0;

	OK(set_up());
	nop = builtin_kernel("nop");
	attr.flags = NPU_STREAM_NONBLOCK;
	OK(npu_stream_create(&attr, &s));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	for (i = 0; i <= NPU_STREAM_MAX_QUEUED && !rc; i++)
		rc = npu_launch(nop, 1, NULL, 0, s);
	EXPECT_EQ(-EAGAIN, rc);
	GIVES(EAGAIN, npu_launch(nop, 1, NULL, 0, s));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(s, 20000));
}

TEST(emfile)
{
	struct rlimit old, none = { 0, 0 };
	int fd, rc;

	OK(set_up());
	OK(getrlimit(RLIMIT_NOFILE, &old));
	none.rlim_max = old.rlim_max;
	OK(setrlimit(RLIMIT_NOFILE, &none));
	npu_error_clear();
	rc = npu_stream_fd(stream, &fd);
	OK(setrlimit(RLIMIT_NOFILE, &old));
	EXPECT_EQ(-EMFILE, rc);
	EXPECT_EQ(NULL, lacks(EMFILE));
	EXPECT_EQ(NULL, broken());
}

static void deny(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *v)
{
	if (call == HAL_SYS_eventfd)
		v->code = ENFILE;
	else if (call == HAL_SYS_open)
		v->code = EACCES;
}

TEST(enfile)
{
	int fd, rc;

	OK(set_up());
	hal_sys_judge_set(deny);
	npu_error_clear();
	rc = npu_stream_fd(stream, &fd);
	hal_sys_judge_set(NULL);
	EXPECT_EQ(-ENFILE, rc);
	EXPECT_EQ(NULL, lacks(ENFILE));
	EXPECT_EQ(NULL, broken());
}

TEST(eacces)
{
	npu_module m;
	int rc;

	OK(set_up());
	hal_sys_judge_set(deny);
	npu_error_clear();
	rc = npu_module_load(TEST_DATA("rt_kernels.so"), &m);
	hal_sys_judge_set(NULL);
	EXPECT_EQ(-EACCES, rc);
	EXPECT_EQ(NULL, lacks(EACCES));
	EXPECT_NE(NULL, strstr(last_error().text, "rt_kernels.so"));
	EXPECT_EQ(NULL, broken());
	OK(npu_module_load(TEST_DATA("rt_kernels.so"), &m));
}

/* ---- before anything is open ---------------------------------------------------------------- */

/* All that can be asked without initialising; how many answered with the code and a record. */
static int ask_all(int code)
{
	struct npu_device_info info = { .size = sizeof(info) };
	size_t free, total;
	uint32_t percent;
	int n, rc[5], i, told = 0;

	for (i = 0; i < 5; i++) {
		npu_error_clear();
		rc[i] = i == 0 ? npu_device_count(&n) : i == 1 ? npu_device_get_info(0, &info) :
			i == 2 ? npu_device_mem_info(0, &free, &total) :
			i == 3 ? npu_device_utilization(0, &percent) :
			npu_device_can_access_peer(0, 1, &n);
		told += rc[i] == -code && !lacks(code);
	}
	return told;
}

/*
 * H04: the first thing that a program asks fails, whatever the way: there is a text, and asking
 * for it opens nothing, initialises nothing and does not fail in turn.
 */
TEST(questions_that_fail)
{
	static const int codes[] = { EIO, EBUSY, EACCES, ENOMEM, EMFILE };
	size_t i, free, total;

	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		simnpu_test_fail(SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_VERSION), 1, 0,
				 codes[i]);
		EXPECT_EQ(5, ask_all(codes[i]))
			TH_LOG("%s: %s", npu_error_name(codes[i]), last_error().text);
		EXPECT_NE(NULL, strstr(last_error().text, "/dev/simnpu0"));
		EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
		EXPECT_EQ(0, is_open(0));
		EXPECT_EQ(0, is_open(1));
	}
	simnpu_test_fail(SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_VERSION), 0, 0, 0);
	OK(npu_device_mem_info(1, &free, &total));
	EXPECT_EQ(free, total);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	EXPECT_EQ(0, is_open(1));
	OK(set_up());
	EXPECT_EQ(NULL, broken());
}

/* H07: no device is no reason to fail before one is needed; then the reason is there. */
TEST(no_device_at_all)
{
	int n = 9;
	void *p;

	setenv("NPU_SIMNPU_DEVICES", "0", 1);
	OK(npu_device_count(&n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(-ENODEV, npu_malloc(64, 0, &p));
	EXPECT_EQ(NULL, lacks(ENODEV));
	OK(npu_finalize(1000));
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(set_up());
	EXPECT_EQ(NULL, broken());
}

/* Whether the record's hint is about a call: its name. */
static bool hinted(const char *call)
{
	return strstr(last_error().hint, call) != NULL;
}

/* What to do fits the call that failed: the general remedy of its code may be that very call. */
TEST(hints_that_fit)
{
	static struct gate g, h;
	char small[2];
	npu_stream s;
	uint64_t id;
	void *p;

	npu_test_may_leak = true;
	OK(set_up());
	EXPECT_EQ(-EBUSY, npu_device_restart(0, 0, 100));
	EXPECT_TRUE(hinted("npu_device_stop()"));
	OK(npu_stream_lease(0, NPU_PRIORITY_DEFAULT, &s));
	EXPECT_EQ(-EBUSY, npu_stream_destroy(s, 100));
	EXPECT_TRUE(hinted("npu_stream_release()"));
	OK(npu_device_observe((npu_device_fn *)(uintptr_t)1, NULL, &id));
	OK(npu_device_unobserve(id));
	EXPECT_EQ(-ENOENT, npu_device_unobserve(id));
	EXPECT_TRUE(hinted("npu_device_observe()"));

	EXPECT_EQ(-ENOSPC, npu_option_get("log_level", small, sizeof(small), NULL));
	EXPECT_TRUE(hinted("buffer"));
	EXPECT_EQ(-EINVAL, npu_malloc(64, NPU_MEM_HUGE_FIRST | NPU_MEM_HUGE_ONLY, &p));
	EXPECT_NE(NULL, strstr(last_error().text, "huge pages"));
	EXPECT_EQ(-ENOMEM, npu_malloc_host((size_t)1 << 46, 0, &p));
	EXPECT_FALSE(hinted("npu_device_mem_info()"));
	OK(npu_malloc(64, 0, &p));
	EXPECT_EQ(-EFAULT, npu_memcpy(p, (void *)8, 64, NPU_COPY_AUTO));
	EXPECT_NE(NULL, strstr(last_error().text, "from 0x8"));
	EXPECT_EQ(-EBADF, npu_event_query(NPU_HANDLE(npu_event, stream.h)));
	EXPECT_NE(NULL, strstr(last_error().text, "not an event"));

	OK(npu_tag_set("held"));
	OK(npu_stream_callback(stream, gate_hold, &g, 0));
	OK(npu_tag_set(NULL));
	ASSERT_TRUE(seen(&g.entered));
	EXPECT_EQ(-ETIMEDOUT, npu_stream_abort(stream, 10));
	EXPECT_TRUE(hinted("npu_device_stop()"));
	EXPECT_FALSE(hinted("npu_stream_abort()"));
	EXPECT_EQ(stream.h, last_error().stream.h);
	EXPECT_STREQ("held", last_error().tag);
	EXPECT_EQ(-ETIMEDOUT, npu_device_stop(0, 10));
	EXPECT_TRUE(hinted("npu_device_reset()"));
	atomic_store(&g.open, 1);
	OK(npu_device_reset(0, 100));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_callback(s, gate_hold, &h, 0));
	ASSERT_TRUE(seen(&h.entered));
	EXPECT_EQ(-ETIMEDOUT, npu_finalize(10));
	EXPECT_TRUE(hinted("npu_finalize()"));
	atomic_store(&h.open, 1);
	ASSERT_TRUE(seen(&h.left));
}

/* ---- the catalogue itself -------------------------------------------------------- */

TEST(explain)
{
	struct npu_error_info info = { .size = sizeof(info) }, brief;
	const char *name;

	OK(npu_error_explain(EINVAL, &info));
	EXPECT_EQ(-EINVAL, info.code);
	name = info.name;
	EXPECT_STREQ("EINVAL", name);
	OK(npu_error_explain(-EINVAL, &info));
	EXPECT_EQ(name, info.name);
	/* no library, and no device, was needed */
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	EXPECT_EQ(-ENOENT, npu_error_explain(0, &info));
	EXPECT_EQ(-ENOENT, npu_error_explain(EXFULL, &info));
	EXPECT_STREQ("EINVAL", info.name);
	EXPECT_EQ(-EINVAL, npu_error_explain(EINVAL, NULL));
	info.size = 0;
	EXPECT_EQ(-EINVAL, npu_error_explain(EINVAL, &info));
	/* older programs know less of it */
	memset(&brief, 0x55, sizeof(brief));
	brief.size = offsetof(struct npu_error_info, meaning);
	OK(npu_error_explain(EINVAL, &brief));
	EXPECT_STREQ("EINVAL", brief.name);
	EXPECT_EQ(0x55, *(unsigned char *)&brief.meaning);
}

TEST_HARNESS_MAIN
