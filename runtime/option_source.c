// SPDX-License-Identifier: MIT
/*
 * Options: values from the environment and from a file, and their checks.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

#define FILE_VARIABLE "NPU_OPTIONS_FILE"
#define FILE_MAX_BYTES 65536
#define SOURCE_LEN 96

/* What a value of the option may look like. */
static const char *form_of(const struct hal_option *opt, char *buf, size_t size)
{
	switch (opt->type) {
	case HAL_OPTION_BOOL:
		return "0, 1, no, yes, off, on, false or true";
	case HAL_OPTION_INT:
		snprintf(buf, size, "a number from %lld to %lld", (long long)opt->min,
			 (long long)opt->max);
		return buf;
	case HAL_OPTION_SIZE:
		snprintf(buf, size, "bytes from %lld to %lld, with K, M, G or T",
			 (long long)opt->min, (long long)opt->max);
		return buf;
	case HAL_OPTION_CHOICE:
		snprintf(buf, size, "one of %s", opt->choices);
		return buf;
	default:
		snprintf(buf, size, "up to %lld bytes", (long long)opt->max);
		return buf;
	}
}

/* 0, or -EINVAL and one message that names source, text, position and accepted form. */
int rt_option_check(const struct hal_option *opt, const char *text, const char *source)
{
	char form[80];
	size_t pos = 0;
	int64_t v;

	if (!hal_option_parse(opt, text, &v, &pos))
		return 0;
	return hal_fail(-EINVAL, "option", "%s: %s=\"%.32s\": position %zu: expected %s", source,
			opt->name, text, pos, form_of(opt, form, sizeof(form)));
}

/* ---- the environment -------------------------------------------------------- */

/* The variable that counts, and its name; NULL: none is set. */
static const char *from_env(const struct hal_option *opt, char *name, size_t size)
{
	const char *a = opt->aliases, *text;
	size_t i, n;

	snprintf(name, size, "NPU_%s", opt->name);
	for (i = 0; name[i]; i++)
		if (name[i] >= 'a' && name[i] <= 'z')
			name[i] -= 'a' - 'A';
	text = getenv(name);
	while (!text && a && *a) {
		n = strcspn(a, " ");
		snprintf(name, size, "%.*s", (int)n, a);
		text = n ? getenv(name) : NULL;
		a += n + (a[n] == ' ');
	}
	return text;
}

/* ---- the file --------------------------------------------------------------- */

/**
 * struct line - one line of the file
 * @nr: its number, from 1
 * @name: the name, not ended by a zero
 * @name_len: bytes of it
 * @value: the value, the same
 * @value_len: bytes of it
 * @column: where the line is wrong, from 1; 0: it is not
 */
struct line {
	unsigned int nr;
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
	size_t column;
};

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **s, size_t *len)
{
	while (*len && blank((*s)[0])) {
		(*s)++;
		(*len)--;
	}
	while (*len && blank((*s)[*len - 1]))
		(*len)--;
}

/* Takes one line apart; false: it says nothing. */
static bool take_apart(const char *s, size_t len, struct line *l)
{
	const char *start = s, *eq;

	trim(&s, &len);
	l->column = 0;
	if (!len || s[0] == '#')
		return false;
	eq = memchr(s, '=', len);
	if (!eq || eq == s) {
		l->name = s;
		l->name_len = len;
		l->column = (size_t)((eq ? eq : s + len) - start) + 1;
		return true;
	}
	l->name = s;
	l->name_len = (size_t)(eq - s);
	l->value = eq + 1;
	l->value_len = len - l->name_len - 1;
	trim(&l->name, &l->name_len);
	trim(&l->value, &l->value_len);
	return true;
}

/* Calls fn for each line that says something, until one is not 0. */
static int each_line(const char *text, int (*fn)(const struct line *l, void *arg), void *arg)
{
	struct line l = { .nr = 0 };
	size_t n;
	int rc = 0;

	while (*text && !rc) {
		n = strcspn(text, "\n");
		l.nr++;
		if (take_apart(text, n, &l))
			rc = fn(&l, arg);
		text += n + (text[n] == '\n');
	}
	return rc;
}

/* The file's text for free(3); NULL with 0: there is none to read. */
static int read_file(char **text)
{
	const char *path = getenv(FILE_VARIABLE);
	int fd, err;

	*text = NULL;
	if (!path || !path[0])
		return 0;
	fd = hal_sys_open(hal_sys_get(), path, O_RDONLY);
	if (fd < 0)
		return hal_fail(-EINVAL, "option", "environment " FILE_VARIABLE "=\"%.64s\": %s",
				path, hal_errno_name(fd) ? hal_errno_name(fd) : "?");
	*text = hal_zalloc(FILE_MAX_BYTES + 1);
	err = *text ? hal_sys_read(fd, *text, FILE_MAX_BYTES) : -ENOMEM;
	hal_sys_close(hal_sys_get(), fd);
	if (err == -ENODATA)
		return 0;
	free(*text);
	*text = NULL;
	if (err == -ENOMEM)
		return hal_fail(err, "option", "no memory to read \"%.64s\"", path);
	if (!err)
		return hal_fail(-EINVAL, "option", "file \"%.64s\" has more than %d bytes", path,
				FILE_MAX_BYTES - 1);
	return hal_fail(-EINVAL, "option", "file \"%.64s\" cannot be read: %s", path,
			hal_errno_name(err) ? hal_errno_name(err) : "?");
}

static int check_line(const struct line *l, void *arg)
{
	char name[64], value[1100], source[SOURCE_LEN];
	struct rt_option_ref ref;

	(void)arg;
	snprintf(source, sizeof(source), "file \"%.64s\" line %u", getenv(FILE_VARIABLE), l->nr);
	snprintf(name, sizeof(name), "%.*s", (int)(l->name_len < 63 ? l->name_len : 63), l->name);
	if (l->column)
		return hal_fail(-EINVAL, "option", "%s: \"%s\": position %zu: expected "
				"name = value", source, name, l->column - 1);
	if (l->name_len >= sizeof(name) || !rt_option_find(name, &ref))
		return hal_fail(-EINVAL, "option", "%s: there is no option \"%s\"", source, name);
	if (l->value_len >= sizeof(value))
		return hal_fail(-EINVAL, "option", "%s: %s: position %zu: the value is too long",
				source, name, sizeof(value));
	snprintf(value, sizeof(value), "%.*s", (int)l->value_len, l->value);
	return rt_option_check(ref.opt, value, source);
}

/* Whether the file, if there is one, is in order. */
int rt_option_file_check(void)
{
	char *text;
	int err;

	err = read_file(&text);
	if (!err && text)
		err = each_line(text, check_line, NULL);
	free(text);
	return err;
}

struct search {
	const char *name;
	struct line found;
};

/* Of two lines the later counts. */
static int match_line(const struct line *l, void *arg)
{
	struct search *s = arg;

	if (!l->column && strlen(s->name) == l->name_len &&
	    !memcmp(s->name, l->name, l->name_len))
		s->found = *l;
	return 0;
}

static int from_file(const struct hal_option *opt, bool strict, const char **value)
{
	struct search s = { .name = opt->name };
	struct rt_record before;
	char *text;
	int err;

	*value = NULL;
	rt_record_save(&before);
	err = read_file(&text);
	if (err) {
		if (!strict)
			rt_record_restore(&before);
		return strict ? err : 0;
	}
	if (text)
		each_line(text, match_line, &s);
	if (s.found.value) {
		rt_options_lock();
		*value = rt_intern(s.found.value, s.found.value_len);
		rt_options_unlock();
		if (!*value && strict)
			err = hal_fail(-ENOMEM, "option", "no memory for options");
	}
	free(text);
	return err;
}

/**
 * rt_option_source() - the value that the environment or the file gives
 * @ref: the option
 * @strict: a bad one is an error; else it is told as it is
 * @text: out: the value, NULL: they say nothing
 * @origin: out: where it is from
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int rt_option_source(const struct rt_option_ref *ref, bool strict, const char **text, int *origin)
{
	char name[64], source[SOURCE_LEN];
	int err;

	*origin = NPU_OPTION_ENVIRONMENT;
	*text = from_env(ref->opt, name, sizeof(name));
	if (*text) {
		snprintf(source, sizeof(source), "environment %s", name);
		return strict ? rt_option_check(ref->opt, *text, source) : 0;
	}
	err = from_file(ref->opt, strict, text);
	*origin = *text ? NPU_OPTION_FILE : NPU_OPTION_DEFAULT;
	return err;
}

/* Says where the value of an option comes from, for messages. */
void rt_option_describe(const char *name, char *buf, size_t size)
{
	struct rt_option_ref ref;
	char env[64];
	int origin;

	snprintf(buf, size, "%s", "the default");
	if (!rt_option_find(name, &ref))
		return;
	origin = rt_option_origin(&ref);
	if (origin == NPU_OPTION_API)
		snprintf(buf, size, "%s", "npu_option_set()");
	else if (origin == NPU_OPTION_FILE)
		snprintf(buf, size, "file \"%.64s\"", getenv(FILE_VARIABLE));
	else if (from_env(ref.opt, env, sizeof(env)))
		snprintf(buf, size, "environment %s", env);
}
