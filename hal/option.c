// SPDX-License-Identifier: MIT
/*
 * Options: reading values and checking texts.
 */
#include <string.h>
#include <strings.h>

#include "hal/base.h"
#include "hal/option.h"

static const struct hal_option_reader *_Atomic reader;

/**
 * hal_option_set_reader() - say where values come from
 * @r: the reader, static storage; NULL: all options have their defaults
 */
void hal_option_set_reader(const struct hal_option_reader *r)
{
	hal_store_release(&reader, r);
}

static int refuse(int code, size_t at, size_t *pos)
{
	if (pos)
		*pos = at;
	return code;
}

static int parse_bool(const char *text, int64_t *value, size_t *pos)
{
	static const char *const words[] = {
		"0", "1", "no", "yes", "off", "on", "false", "true",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcasecmp(text, words[i])) {
			*value = i & 1;
			return 0;
		}
	}
	return refuse(-EINVAL, 0, pos);
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

/* Digits from text[*at], decimal or 0x; *at moves behind them. */
static int parse_digits(const char *text, size_t *at, uint64_t *value)
{
	int base = 10, d;
	bool too_large = false;
	size_t first;

	if (text[*at] == '0' && (text[*at + 1] == 'x' || text[*at + 1] == 'X')) {
		base = 16;
		*at += 2;
	}
	first = *at;
	*value = 0;
	for (; (d = digit_of(text[*at])) < base; (*at)++) {
		if (__builtin_mul_overflow(*value, (uint64_t)base, value) ||
		    __builtin_add_overflow(*value, (uint64_t)d, value))
			too_large = true;
	}
	if (*at == first)
		return -EINVAL;
	return too_large ? -ERANGE : 0;
}

/* Bits to shift by for a unit letter, -1: none. */
static int unit_shift(char c)
{
	static const char units[] = "KMGT";
	const char *u;

	if (!c)
		return -1;
	u = strchr(units, c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
	return u ? (int)(u - units + 1) * 10 : -1;
}

static int parse_number(const struct hal_option *opt, const char *text, int64_t *value,
			size_t *pos)
{
	bool size = opt->type == HAL_OPTION_SIZE;
	bool negative = false;
	size_t at = 0;
	uint64_t v;
	int rc, shift;

	if (!size && (text[0] == '-' || text[0] == '+'))
		negative = text[at++] == '-';
	rc = parse_digits(text, &at, &v);
	if (rc == -EINVAL)
		return refuse(rc, at, pos);
	shift = size ? unit_shift(text[at]) : -1;
	if (shift > 0) {
		if (v > (uint64_t)INT64_MAX >> shift)
			rc = -ERANGE;
		else
			v <<= shift;
		at++;
	}
	if (text[at])
		return refuse(-EINVAL, at, pos);
	if (rc || v > (uint64_t)INT64_MAX)
		return refuse(-ERANGE, 0, pos);
	*value = negative ? -(int64_t)v : (int64_t)v;
	if (*value < opt->min || *value > opt->max)
		return refuse(-ERANGE, 0, pos);
	return 0;
}

static int parse_choice(const struct hal_option *opt, const char *text, int64_t *value,
			size_t *pos)
{
	const char *word = opt->choices;
	size_t len = strlen(text), n;
	int64_t i = 0;

	while (word && *word) {
		n = strcspn(word, " ");
		if (n && n == len && !memcmp(word, text, n)) {
			*value = i;
			return 0;
		}
		i += n > 0;
		word += n + (word[n] == ' ');
	}
	return refuse(-EINVAL, 0, pos);
}

/**
 * hal_option_parse() - check a text against an option and turn it into a number
 * @opt: the option
 * @text: the text
 * @value: out: the number; of a CHOICE the index, of a TEXT its length; 0 on failure
 * @pos: out: where the text is wrong, a byte offset; may be NULL
 *
 * Return: 0, -EINVAL (not of the form), -ERANGE (outside min and max).
 */
int hal_option_parse(const struct hal_option *opt, const char *text, int64_t *value, size_t *pos)
{
	int64_t v = 0;
	int rc;

	*value = 0;
	if (pos)
		*pos = 0;
	switch (opt->type) {
	case HAL_OPTION_BOOL:
		rc = parse_bool(text, &v, pos);
		break;
	case HAL_OPTION_INT:
	case HAL_OPTION_SIZE:
		rc = parse_number(opt, text, &v, pos);
		break;
	case HAL_OPTION_TEXT:
		v = (int64_t)strlen(text);
		rc = v <= opt->max ? 0 : refuse(-ERANGE, (size_t)opt->max, pos);
		break;
	case HAL_OPTION_CHOICE:
		rc = parse_choice(opt, text, &v, pos);
		break;
	default:
		rc = -EINVAL;
	}
	if (!rc)
		*value = v;
	return rc;
}

static const struct hal_option *find(const struct hal_option *table, const char *name)
{
	for (; table && table->name && table->name[0]; table++)
		if (!strcmp(table->name, name))
			return table;
	return NULL;
}

/* The text that counts, and its number. */
static const char *value_of(const struct hal_option *opt, int64_t *value)
{
	const struct hal_option_reader *r = hal_load_acquire(&reader);
	const char *text = r ? r->text(opt->name) : NULL;

	if (text && !hal_option_parse(opt, text, value, NULL))
		return text;
	hal_option_parse(opt, opt->def ? opt->def : "", value, NULL);
	return opt->def ? opt->def : "";
}

/**
 * hal_option_int() - the value of an INT, SIZE, BOOL, or the index of a CHOICE
 * @table: the table, ended by an empty name
 * @name: the option's name
 *
 * Return: the value; 0 when the table has no such option.
 */
int64_t hal_option_int(const struct hal_option *table, const char *name)
{
	const struct hal_option *opt = find(table, name);
	int64_t v = 0;

	if (opt)
		value_of(opt, &v);
	return v;
}

/**
 * hal_option_bool() - the value of a BOOL
 * @table: the table, ended by an empty name
 * @name: the option's name
 *
 * Return: the value; false when the table has no such option.
 */
bool hal_option_bool(const struct hal_option *table, const char *name)
{
	return hal_option_int(table, name) != 0;
}

/**
 * hal_option_text() - the value of an option as text
 * @table: the table, ended by an empty name
 * @name: the option's name
 *
 * Return: the text, "" when the table has no such option. The reader keeps it.
 */
const char *hal_option_text(const struct hal_option *table, const char *name)
{
	const struct hal_option *opt = find(table, name);
	int64_t v;

	return opt ? value_of(opt, &v) : "";
}
