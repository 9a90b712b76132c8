/* SPDX-License-Identifier: MIT */
/*
 * Options: described in tables, read by name.
 *
 * A driver describes its own options; the runtime puts all tables together,
 * takes values from the API, the environment, a file and Kconfig, checks them,
 * and hands them down through a reader that it installs.
 */
#ifndef HAL_OPTION_H
#define HAL_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hal_option_type {
	HAL_OPTION_BOOL,	/* 0 1 no yes off on false true */
	HAL_OPTION_INT,		/* decimal or 0x, optional sign */
	HAL_OPTION_SIZE,	/* bytes; K M G T are powers of 1024 */
	HAL_OPTION_TEXT,
	HAL_OPTION_CHOICE,	/* one of a list of words */
};

/**
 * struct hal_option - one option
 * @name: its name, lower case; the environment's is "NPU_" and this in upper case
 * @type: enum hal_option_type
 * @def: its default, as text
 * @min: least value of an INT or SIZE
 * @max: greatest value of an INT or SIZE; bytes of a TEXT
 * @choices: of a CHOICE, separated by spaces
 * @aliases: other environment names, separated by spaces, or NULL
 * @help: one or two sentences
 */
struct hal_option {
	const char *name;
	enum hal_option_type type;
	const char *def;
	int64_t min;
	int64_t max;
	const char *choices;
	const char *aliases;
	const char *help;
};

/**
 * struct hal_option_reader - where values come from
 * @text: value of an option as text, NULL: not set, take the default
 *
 * Without a reader (tests, compat) all options have their defaults.
 */
struct hal_option_reader {
	const char *(*text)(const char *name);
};

void hal_option_set_reader(const struct hal_option_reader *reader);

/*
 * The value of an option in the given table (ended by an empty name). A text
 * that its table refuses can't come from the reader: the default is taken.
 */
int64_t hal_option_int(const struct hal_option *table, const char *name);
bool hal_option_bool(const struct hal_option *table, const char *name);
const char *hal_option_text(const struct hal_option *table, const char *name);

/**
 * hal_option_parse() - check a text against an option and turn it into a number
 * @opt: the option
 * @text: the text
 * @value: out: the number; of a CHOICE the index, of a TEXT its length
 * @pos: out: where the text is wrong, a byte offset; may be NULL
 *
 * Return: 0, -EINVAL (not of the form), -ERANGE (outside min and max).
 */
int hal_option_parse(const struct hal_option *opt, const char *text, int64_t *value, size_t *pos);

#endif /* HAL_OPTION_H */
