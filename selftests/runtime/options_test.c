// SPDX-License-Identifier: GPL-2.0-only
/*
 * Options: where values come from, what is refused and how it is said, and the
 * list of visible devices.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

static char path[64];

FIXTURE(options) {
};

FIXTURE_SETUP(options)
{
	snprintf(path, sizeof(path), "/tmp/npu-options-%d", (int)getpid());
	unsetenv("NPU_LAZY_INIT");
	unsetenv("NPU_LAUNCH_BLOCKING");
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
}

FIXTURE_TEARDOWN(options)
{
	unlink(path);
	EXPECT_EQ(0, npu_finalize(1000));
}

static void use_file(const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f)
		abort();
	fputs(text, f);
	fclose(f);
	setenv("NPU_OPTIONS_FILE", path, 1);
}

static char value[256];
static int origin;

static const char *get(const char *name)
{
	origin = -1;
	snprintf(value, sizeof(value), "?");
	npu_option_get(name, value, sizeof(value), &origin);
	return value;
}

/* Of those that are part of the configuration. */
TEST_F(options, defaults)
{
	const struct { const char *name; long value; } numbers[] = {
		{ "lazy_init", IS_ENABLED(CONFIG_OPT_LAZY_INIT) },
		{ "op_timeout_ms", CONFIG_OPT_OP_TIMEOUT_MS },
		{ "exit_timeout_ms", CONFIG_OPT_EXIT_TIMEOUT_MS },
		{ "stream_pool_size", CONFIG_OPT_STREAM_POOL_SIZE },
		{ "stream_lease_max", CONFIG_OPT_STREAM_LEASE_MAX },
	};
	npu_stream s;
	size_t i;

	EXPECT_STREQ(CONFIG_OPT_DRIVER, get("driver"));
	EXPECT_STREQ(CONFIG_OPT_VISIBLE_DEVICES, get("visible_devices"));
	EXPECT_STREQ(CONFIG_OPT_LOG_LEVEL, get("log_level"));
	EXPECT_STREQ(CONFIG_OPT_WAIT_MODE, get("wait_mode"));
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		EXPECT_EQ(numbers[i].value, strtol(get(numbers[i].name), NULL, 10)) {
			TH_LOG("%s", numbers[i].name);
		}
		EXPECT_EQ(NPU_OPTION_DEFAULT, origin);
	}
	EXPECT_EQ(IS_ENABLED(CONFIG_OPT_LAZY_INIT) ? 0 : -ENOTCONN, npu_stream_create(NULL, &s));
}

TEST_F(options, precedence)
{
	char def[12];
	const char *o = "stream_pool_size";

	snprintf(def, sizeof(def), "%d", CONFIG_OPT_STREAM_POOL_SIZE);
	EXPECT_STREQ(def, get(o));
	EXPECT_EQ(NPU_OPTION_DEFAULT, origin);
	use_file("# a comment\n\n  stream_pool_size =  7 \nlog_level=error\r\n");
	EXPECT_STREQ("7", get(o));
	EXPECT_EQ(NPU_OPTION_FILE, origin);
	EXPECT_STREQ("error", get("log_level"));
	setenv("NPU_STREAM_POOL_SIZE", "5", 1);
	EXPECT_STREQ("5", get(o));
	EXPECT_EQ(NPU_OPTION_ENVIRONMENT, origin);
	OK(npu_option_set(o, "3"));
	EXPECT_STREQ("3", get(o));
	EXPECT_EQ(NPU_OPTION_API, origin);
	EXPECT_EQ(NPU_STATE_UNINIT, npu_state_get());
	OK(npu_init());
	EXPECT_STREQ("3", get(o));
	OK(npu_finalize(0));
	OK(npu_option_set(o, NULL));
	EXPECT_STREQ("5", get(o));
	unsetenv("NPU_STREAM_POOL_SIZE");
	EXPECT_STREQ("7", get(o));
	unsetenv("NPU_OPTIONS_FILE");
	EXPECT_STREQ(def, get(o));
}

TEST_F(options, kept_while_initialised)
{
	setenv("NPU_STREAM_POOL_SIZE", "5", 1);
	OK(npu_init());
	setenv("NPU_STREAM_POOL_SIZE", "6", 1);
	EXPECT_STREQ("5", get("stream_pool_size"));
	OK(npu_finalize(0));
	EXPECT_STREQ("6", get("stream_pool_size"));
}

TEST_F(options, aliases)
{
	setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
	EXPECT_STREQ("1", get("visible_devices"));
	setenv("NPU_VISIBLE_DEVICES", "0", 1);
	EXPECT_STREQ("0", get("visible_devices"));
}

TEST_F(options, in_use)
{
	npu_stream a, b, c;

	setenv("NPU_STREAM_POOL_SIZE", "2", 1);
	OK(npu_init());
	OK(npu_stream_pool_get(0, 4, &a));
	OK(npu_stream_pool_get(0, 4, &b));
	OK(npu_stream_pool_get(0, 4, &c));
	EXPECT_NE(a.h, b.h);
	EXPECT_EQ(a.h, c.h);
}

TEST_F(options, changed_at_run_time)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	npu_stream s;

	OK(npu_init());
	EXPECT_EQ(-EBUSY, npu_option_set("stream_pool_size", "2"));
	EXPECT_EQ(-EBUSY, npu_option_set("simnpu_devices", "1"));
	EXPECT_EQ(-EBUSY, npu_option_set("driver", NULL));
	OK(npu_option_set("wait_mode", "block"));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_get_info(s, &info));
	EXPECT_EQ(NPU_WAIT_BLOCK, info.wait_mode);
	OK(npu_option_set("wait_mode", NULL));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_get_info(s, &info));
	EXPECT_EQ(NPU_WAIT_AUTO, info.wait_mode);
	OK(npu_option_set("log_level", "none"));
	OK(npu_option_set("log_mask", "8"));
	OK(npu_option_set("op_timeout_ms", "5"));
	OK(npu_option_set("exit_timeout_ms", "100"));
	EXPECT_STREQ("100", get("exit_timeout_ms"));
}

/* ---- bad values ----------------------------------------------------------------------- */

struct bad {
	const char *name;
	const char *text;
	int code;
	int pos;
	const char *form;
};

static const struct bad bad[] = {
	{ "lazy_init", "maybe", -EINVAL, 0, "off" },
	{ "lazy_init", "", -EINVAL, 0, "off" },
	{ "log_level", "loud", -EINVAL, 0, "debug" },
	{ "wait_mode", "AUTO", -EINVAL, 0, "yield" },
	{ "stream_pool_size", "0", -ERANGE, 0, "1 to 128" },
	{ "stream_pool_size", "129", -ERANGE, 0, "1 to 128" },
	{ "stream_pool_size", "3x", -EINVAL, 1, "1 to 128" },
	{ "stream_pool_size", "", -EINVAL, 0, "1 to 128" },
	{ "stream_lease_max", "-1", -ERANGE, 0, "1 to 65536" },
	{ "op_timeout_ms", "-2", -ERANGE, 0, "-1 to" },
	{ "op_timeout_ms", "99999999999999999999", -ERANGE, 0, "-1 to" },
	{ "exit_timeout_ms", "1 s", -EINVAL, 1, "600000" },
	{ "log_mask", "0xg", -EINVAL, 2, "to" },
	{ "driver", "a-name-that-is-far-too-long-for-a-driver", -ERANGE, 31, "31" },
	{ "simnpu_devices", "many", -EINVAL, 0, "" },
	{ "simnpu_memory", "1Q", -EINVAL, 1, "" },
	{ "simnpu_part", "z80", -EINVAL, 0, "910b" },
};

#define BAD (sizeof(bad) / sizeof(bad[0]))

/* One message that names source, text, position and form. */
static bool told(const struct bad *b, const char *source)
{
	struct npu_error e = last_error();
	char pos[24], quoted[64];

	snprintf(pos, sizeof(pos), "position %d:", b->pos);
	snprintf(quoted, sizeof(quoted), "%s=\"%.32s\"", b->name, b->text);
	if (strstr(e.text, source) && strstr(e.text, quoted) && strstr(e.text, pos) &&
	    strstr(e.text, b->form))
		return true;
	printf("# %s\n", e.text);
	return false;
}

TEST_F(options, bad_in_the_api)
{
	char before[256];
	size_t i;

	for (i = 0; i < BAD; i++) {
		snprintf(before, sizeof(before), "%s", get(bad[i].name));
		EXPECT_EQ(bad[i].code, npu_option_set(bad[i].name, bad[i].text));
		EXPECT_TRUE(told(&bad[i], "npu_option_set()"));
		EXPECT_STREQ(before, get(bad[i].name));
	}
	OK(npu_init());
}

TEST_F(options, bad_in_the_environment)
{
	char env[64];
	size_t i, j;

	for (i = 0; i < BAD; i++) {
		snprintf(env, sizeof(env), "NPU_%s", bad[i].name);
		for (j = 0; env[j]; j++)
			if (env[j] >= 'a' && env[j] <= 'z')
				env[j] -= 32;
		setenv(env, bad[i].text, 1);
		EXPECT_EQ(-EINVAL, npu_init()) TH_LOG("%s=%s", env, bad[i].text);
		EXPECT_TRUE(told(&bad[i], env));
		EXPECT_EQ(NPU_STATE_FAILED, npu_state_get());
		unsetenv(env);
		setenv("NPU_SIMNPU_DEVICES", "2", 1);
		EXPECT_EQ(0, npu_init());
		EXPECT_EQ(0, npu_finalize(0));
	}
}

TEST_F(options, bad_in_the_file)
{
	char text[128], where[96];
	size_t i;

	unsetenv("NPU_SIMNPU_DEVICES");
	snprintf(where, sizeof(where), "%s\" line 2", path);
	for (i = 0; i < BAD; i++) {
		snprintf(text, sizeof(text), "# one\n%s = %s\n", bad[i].name, bad[i].text);
		use_file(text);
		EXPECT_EQ(-EINVAL, npu_init()) TH_LOG("%s", text);
		EXPECT_TRUE(told(&bad[i], where));
	}
	unlink(path);
	EXPECT_EQ(-EINVAL, npu_init());
	EXPECT_TRUE(strstr(last_error().text, "NPU_OPTIONS_FILE") != NULL);
	EXPECT_TRUE(strstr(last_error().text, "ENOENT") != NULL);
	setenv("NPU_OPTIONS_FILE", "", 1);
	OK(npu_init());
}

TEST_F(options, bad_files)
{
	static const struct { const char *text, *says; } files[] = {
		{ "no_such_option = 1\n", "line 1: there is no option \"no_such_option\"" },
		{ "\n\nlog_level\n", "line 3: \"log_level\": position 9: expected name = value" },
		{ "= 4\n", "line 1: \"= 4\": position 0: expected name = value" },
		{ "driver = x y\n", "x y" },
	};
	static char large[70000];
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		use_file(files[i].text);
		EXPECT_EQ(-EINVAL, npu_init());
		EXPECT_TRUE(strstr(last_error().text, files[i].says) != NULL) {
			TH_LOG("%s", last_error().text);
		}
	}
	memset(large, '\n', sizeof(large) - 1);
	use_file(large);
	EXPECT_EQ(-EINVAL, npu_init());
	EXPECT_TRUE(strstr(last_error().text, "more than") != NULL);
	/* of two lines the later counts */
	use_file("log_level = none\nlog_level = info");
	EXPECT_STREQ("info", get("log_level"));
	OK(npu_init());
	EXPECT_STREQ("info", get("log_level"));
}

TEST_F(options, no_such_driver)
{
	setenv("NPU_DRIVER", "abacus", 1);
	EXPECT_EQ(-EINVAL, npu_init());
	EXPECT_TRUE(strstr(last_error().text, "simnpu") != NULL);
	setenv("NPU_DRIVER", "simnpu", 1);
	OK(npu_init());
}

/* ---- visible devices ------------------------------------------------------------------- */

TEST_F(options, visible_lists)
{
	static const struct { const char *text; int count, pos; const char *says; } lists[] = {
		{ "all", 2, 0, "" }, { "", 0, 0, "" }, { " ", 0, 0, "" }, { "0", 1, 0, "" },
		{ "1", 1, 0, "" }, { "0,1", 2, 0, "" }, { "0, 1", 2, 0, "" }, { "1,0", 2, 0, "" },
		{ " 1 ,\t0 ", 2, 0, "" }, { "00,01", 2, 0, "" },
		{ "-1", -1, 0, "numbers" }, { "0,0", -1, 2, "twice" }, { "0,1,1", -1, 4, "twice" },
		{ "0,9", -1, 2, "only 0 to 1" }, { "2", -1, 0, "only 0 to 1" },
		{ "0x1", -1, 1, "comma" }, { "0;1", -1, 1, "comma" }, { "0,", -1, 2, "numbers" },
		{ ",", -1, 0, "numbers" }, { " ,", -1, 1, "numbers" }, { ",0", -1, 0, "numbers" },
		{ "npu0", -1, 0, "\"all\"" }, { "All", -1, 0, "\"all\"" },
		{ "99999999999", -1, 0, "too large" }, { "0 1", -1, 2, "comma" },
	};
	char pos[24];
	size_t i;
	int n;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		setenv("ASCEND_RT_VISIBLE_DEVICES", lists[i].text, 1);
		n = 77;
		EXPECT_EQ(lists[i].count < 0 ? -EINVAL : 0, npu_device_count(&n)) {
			TH_LOG("\"%s\"", lists[i].text);
		}
		EXPECT_EQ(lists[i].count < 0 ? 0 : lists[i].count, n);
		EXPECT_EQ(lists[i].count < 0 ? -EINVAL : 0, npu_init());
		if (lists[i].count < 0) {
			snprintf(pos, sizeof(pos), "position %d:", lists[i].pos);
			EXPECT_TRUE(strstr(last_error().text, "ASCEND_RT_VISIBLE_DEVICES") &&
				    strstr(last_error().text, pos) &&
				    strstr(last_error().text, lists[i].says)) {
				TH_LOG("%s", last_error().text);
			}
		}
		OK(npu_finalize(0));
	}
}

TEST_F(options, visible_list_by_the_api)
{
	EXPECT_EQ(-EINVAL, npu_option_set("visible_devices", "0,"));
	EXPECT_EQ(-EINVAL, npu_option_set("visible_devices", "1,1"));
	/* whether there is a device 40 shows when it is needed */
	OK(npu_option_set("visible_devices", "0,40"));
	EXPECT_EQ(-EINVAL, npu_init());
	EXPECT_TRUE(strstr(last_error().text, "npu_option_set()") != NULL);
	OK(npu_option_set("visible_devices", NULL));
	OK(npu_init());
}

/* ---- asking --------------------------------------------------------------------------------- */

TEST_F(options, all_are_described)
{
	struct npu_option_info o;
	unsigned int i, ours = 0, drivers = 0;
	char buf[1100];
	int err;

	for (i = 0;; i++) {
		o.size = sizeof(o);
		err = npu_option_at(i, &o);
		if (err)
			break;
		EXPECT_NE('\0', o.help[0]);
		EXPECT_EQ(0, strncmp(o.env, "NPU_", 4));
		OK(npu_option_get(o.name, buf, sizeof(buf), NULL));
		EXPECT_STREQ(o.def, getenv(o.env) ? o.def : buf) {
			TH_LOG("%s", o.name);
		}
		/* its default is good */
		if (strcmp(o.type, "text"))
			EXPECT_EQ(0, npu_option_set(o.name, o.def)) TH_LOG("%s", o.name);
		OK(npu_option_set(o.name, NULL));
		ours += !strcmp(o.name, "visible_devices");
		drivers += !strcmp(o.name, "simnpu_part");
	}
	EXPECT_EQ(-ENOENT, err);
	EXPECT_EQ(1, ours);
	EXPECT_EQ(1, drivers);
}

TEST_F(options, misuse)
{
	struct npu_option_info o = { 0 };
	char buf[3];

	EXPECT_EQ(-EINVAL, npu_option_set(NULL, "1"));
	EXPECT_EQ(-ENOENT, npu_option_set("no_such", "1"));
	EXPECT_EQ(-ENOENT, npu_option_set("", "1"));
	EXPECT_EQ(-EINVAL, npu_option_get(NULL, buf, 3, NULL));
	EXPECT_EQ(-EINVAL, npu_option_get("driver", NULL, 3, NULL));
	EXPECT_EQ(-EINVAL, npu_option_get("driver", buf, 0, NULL));
	EXPECT_EQ(-ENOENT, npu_option_get("no_such", buf, 3, NULL));
	EXPECT_EQ(-ENOSPC, npu_option_get("log_level", buf, 3, NULL));
	EXPECT_STREQ("wa", buf);
	EXPECT_EQ(-EINVAL, npu_option_at(0, NULL));
	EXPECT_EQ(-EINVAL, npu_option_at(0, &o));
	o.size = offsetof(struct npu_option_info, type);
	o.type = "kept";
	OK(npu_option_at(0, &o));
	EXPECT_STREQ("driver", o.name);
	EXPECT_STREQ("kept", o.type);
}

static void *set_and_get(void *arg)
{
	char buf[16];
	long bad = 0;
	int i;

	for (i = 0; i < 2000; i++) {
		npu_option_set("log_level", i & 1 ? "none" : "error");
		npu_option_get("log_level", buf, sizeof(buf), NULL);
		bad += strcmp(buf, "none") && strcmp(buf, "error");
	}
	return (void *)bad;
}

TEST_F(options, threads)
{
	pthread_t th[4];
	void *odd;
	int i;

	OK(npu_option_set("log_level", "none"));
	for (i = 0; i < 4; i++)
		OK(pthread_create(&th[i], NULL, set_and_get, NULL));
	for (i = 0; i < 4; i++) {
		pthread_join(th[i], &odd);
		EXPECT_EQ(0, (long)odd);
	}
}

TEST_HARNESS_MAIN
