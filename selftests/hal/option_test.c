// SPDX-License-Identifier: GPL-2.0-only
/*
 * Options: what texts mean, and which are refused where.
 */
#include "selftests/npu_kselftest.h"

#include "hal/base.h"
#include "hal/option.h"

static const struct hal_option table[] = {
	{ .name = "flag", .type = HAL_OPTION_BOOL, .def = "yes" },
	{ .name = "count", .type = HAL_OPTION_INT, .def = "3", .min = -10, .max = 100 },
	{ .name = "bytes", .type = HAL_OPTION_SIZE, .def = "2M", .min = 1, .max = 1ll << 40 },
	{ .name = "word", .type = HAL_OPTION_TEXT, .def = "abc", .max = 5 },
	{ .name = "pick", .type = HAL_OPTION_CHOICE, .def = "two", .choices = "one two three" },
	{ .name = "wide", .type = HAL_OPTION_INT, .def = "0", .min = INT64_MIN, .max = INT64_MAX },
	{ .name = "" }
};

static const struct {
	unsigned int opt;
	const char *text;
	int rc;
	int64_t value;
	size_t pos;
} cases[] = {
	{ 0, "0", 0, 0, 0 }, { 0, "1", 0, 1, 0 }, { 0, "no", 0, 0, 0 }, { 0, "yes", 0, 1, 0 },
	{ 0, "off", 0, 0, 0 }, { 0, "on", 0, 1, 0 }, { 0, "false", 0, 0, 0 },
	{ 0, "true", 0, 1, 0 }, { 0, "TRUE", 0, 1, 0 },
	{ 0, "2", -EINVAL, 0, 0 }, { 0, "", -EINVAL, 0, 0 }, { 0, "yes ", -EINVAL, 0, 0 },
	{ 1, "0", 0, 0, 0 }, { 1, "-10", 0, -10, 0 }, { 1, "+7", 0, 7, 0 }, { 1, "0x1F", 0, 31, 0 },
	{ 1, "100", 0, 100, 0 }, { 1, "101", -ERANGE, 0, 0 }, { 1, "-11", -ERANGE, 0, 0 },
	{ 1, "", -EINVAL, 0, 0 }, { 1, "-", -EINVAL, 0, 1 }, { 1, "0x", -EINVAL, 0, 2 },
	{ 1, "12x", -EINVAL, 0, 2 }, { 1, " 1", -EINVAL, 0, 0 }, { 1, "1 ", -EINVAL, 0, 1 },
	{ 1, "5K", -EINVAL, 0, 1 }, { 1, "99999999999999999999", -ERANGE, 0, 0 },
	{ 1, "1.5", -EINVAL, 0, 1 },
	{ 2, "1", 0, 1, 0 }, { 2, "4K", 0, 4096, 0 }, { 2, "4k", 0, 4096, 0 },
	{ 2, "2M", 0, 2 << 20, 0 }, { 2, "1G", 0, 1 << 30, 0 }, { 2, "1T", 0, 1ll << 40, 0 },
	{ 2, "0x10K", 0, 16384, 0 },
	{ 2, "2T", -ERANGE, 0, 0 }, { 2, "0", -ERANGE, 0, 0 }, { 2, "-1", -EINVAL, 0, 0 },
	{ 2, "1KB", -EINVAL, 0, 2 }, { 2, "1P", -EINVAL, 0, 1 }, { 2, "K", -EINVAL, 0, 0 },
	{ 2, "99999999999T", -ERANGE, 0, 0 },
	{ 3, "", 0, 0, 0 }, { 3, "abcde", 0, 5, 0 }, { 3, "abcdef", -ERANGE, 0, 5 },
	{ 4, "one", 0, 0, 0 }, { 4, "three", 0, 2, 0 }, { 4, "on", -EINVAL, 0, 0 },
	{ 4, "one two", -EINVAL, 0, 0 }, { 4, "", -EINVAL, 0, 0 }, { 4, "Two", -EINVAL, 0, 0 },
	{ 5, "9223372036854775807", 0, INT64_MAX, 0 },
	{ 5, "9223372036854775808", -ERANGE, 0, 0 },
	{ 5, "-9223372036854775807", 0, -INT64_MAX, 0 },
};

TEST(texts)
{
	unsigned int i;
	int64_t v;
	size_t pos;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		v = 77;
		pos = 77;
		EXPECT_EQ(cases[i].rc, hal_option_parse(&table[cases[i].opt], cases[i].text, &v,
							&pos))
			TH_LOG("%s \"%s\"", table[cases[i].opt].name, cases[i].text);
		EXPECT_EQ(cases[i].value, v)
			TH_LOG("%s \"%s\"", table[cases[i].opt].name, cases[i].text);
		EXPECT_EQ(cases[i].pos, pos)
			TH_LOG("%s \"%s\"", table[cases[i].opt].name, cases[i].text);
	}
	EXPECT_EQ(-EINVAL, hal_option_parse(&table[0], "x", &v, NULL));
}

static const char *given(const char *name)
{
	if (!strcmp(name, "count"))
		return "42";
	if (!strcmp(name, "bytes"))
		return "nonsense";
	if (!strcmp(name, "pick"))
		return "three";
	return NULL;
}

TEST(values)
{
	static const struct hal_option_reader reader = { given };

	EXPECT_EQ(3, hal_option_int(table, "count"));
	EXPECT_TRUE(hal_option_bool(table, "flag"));
	EXPECT_EQ(2 << 20, hal_option_int(table, "bytes"));
	EXPECT_STREQ("abc", hal_option_text(table, "word"));
	EXPECT_EQ(1, hal_option_int(table, "pick"));
	hal_option_set_reader(&reader);
	EXPECT_EQ(42, hal_option_int(table, "count"));
	EXPECT_EQ(2 << 20, hal_option_int(table, "bytes"));
	EXPECT_STREQ("2M", hal_option_text(table, "bytes"));
	EXPECT_EQ(2, hal_option_int(table, "pick"));
	EXPECT_STREQ("three", hal_option_text(table, "pick"));
	hal_option_set_reader(NULL);
	EXPECT_EQ(3, hal_option_int(table, "count"));
	EXPECT_EQ(0, hal_option_int(table, "no such option"));
	EXPECT_STREQ("", hal_option_text(table, "no such option"));
	EXPECT_EQ(0, hal_option_int(NULL, "count"));
}

TEST_HARNESS_MAIN
