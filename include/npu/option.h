/* SPDX-License-Identifier: MIT */
/*
 * Options.
 *
 * All are described in Documentation/options.rst, with type, range, default and
 * environment variables. A value comes from the API, else from the environment,
 * else from the file that NPU_OPTIONS_FILE names (lines `name = value`; lines that
 * begin with `#` are comments), else from Kconfig. They are read when the library is initialised;
 * a bad value makes the initialisation fail with -EINVAL and one message that
 * names source, text, position and accepted form.
 */
#ifndef NPU_OPTION_H
#define NPU_OPTION_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** enum npu_option_origin - where a value comes from */
enum npu_option_origin {
	NPU_OPTION_DEFAULT = 0,
	NPU_OPTION_FILE = 1,
	NPU_OPTION_ENVIRONMENT = 2,
	NPU_OPTION_API = 3,
};

/**
 * npu_option_set() - set an option
 * @name: its name
 * @value: the text; NULL: no longer set by the API
 *
 * Context: any thread; initialises nothing.
 * Return: 0, -EINVAL (NULL, a bad value), -ERANGE (out of range), -ENOENT (no such option), -EBUSY
 * (the library is initialised and the option is fixed by then), -ENOMEM, -ECHILD, -ESHUTDOWN.
 */
NPU_API int npu_option_set(const char *name, const char *value);

/**
 * npu_option_get() - the value of an option
 * @name: its name
 * @buf: out: the text, always ended by a zero
 * @size: bytes of @buf, at least 1
 * @origin: out: enum npu_option_origin; may be NULL
 *
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL, or size is 0), -ENOENT (no such option), -ENOSPC (the text was cut).
 */
NPU_API int npu_option_get(const char *name, char *buf, size_t size, int *origin);

/**
 * struct npu_option_info - what an option is
 * @size: in: sizeof(struct npu_option_info); only so many bytes are written
 * @name: its name
 * @type: "bool", "int", "size", "text" or "choice"
 * @def: its default
 * @choices: of a choice, separated by spaces, else ""
 * @env: environment variables, the first wins, separated by spaces
 * @help: what it is for
 * @min: least value of an int or size
 * @max: greatest value of an int or size; bytes of a text
 * @runtime: 1 when it can be changed while the library is initialised
 */
struct npu_option_info {
	size_t size;
	const char *name;
	const char *type;
	const char *def;
	const char *choices;
	const char *env;
	const char *help;
	int64_t min;
	int64_t max;
	int runtime;
};

/**
 * npu_option_at() - what the i-th option is
 * @i: which, from 0
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EINVAL (NULL, or no size), -ENOENT (there are no more).
 */
NPU_API int npu_option_at(unsigned int i, struct npu_option_info *info);

#ifdef __cplusplus
}
#endif

#endif /* NPU_OPTION_H */
