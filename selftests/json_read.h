/* SPDX-License-Identifier: MIT */
/*
 * JSON, read strictly: a function is told of each value by its path.
 */
#ifndef SELFTESTS_JSON_READ_H
#define SELFTESTS_JSON_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * path: ".segments[].blocks[].size"; text: what stands there: of a text without its quotes, with \u
 * escapes up to 0x7f undone, of others as they are; "{" and "[" as one begins.
 */
typedef void json_fn(const char *path, const char *text, void *arg);

struct json_reader {
	const char *at;
	const char *end;
	json_fn *fn;
	void *arg;
	char path[128];
	char text[256];
};

static inline bool json_value(struct json_reader *r);

static inline char json_next(const struct json_reader *r)
{
	return r->at < r->end ? *r->at : '\0';
}

static inline bool json_string(struct json_reader *r)
{
	char hex[5] = "";
	size_t n = 0;
	long c;

	if (json_next(r) != '"')
		return false;
	for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
		c = (unsigned char)*r->at;
		if (c < 0x20 || n + 4 > sizeof(r->text))
			return false;
		if (c == '\\') {
			c = (unsigned char)*++r->at;
			if (c == 'u' && r->end - r->at > 4) {
				memcpy(hex, r->at + 1, 4);
				c = strtol(hex, NULL, 16);
				c = c > 0x7f ? '?' : c;
				r->at += 4;
			} else if (c != '"' && c != '\\') {
				return false;
			}
		}
		r->text[n++] = (char)c;
	}
	r->text[n] = '\0';
	return r->at++ < r->end;
}

static inline bool json_word(struct json_reader *r)
{
	size_t n = strspn(r->at, "0123456789abcdefghijklmnopqrstuvwxyz.-+");

	if (!n || n >= sizeof(r->text))
		return false;
	memcpy(r->text, r->at, n);
	r->text[n] = '\0';
	r->at += n;
	if (strspn(r->text, "0123456789") == n)
		return n == 1 || r->text[0] != '0';
	return !strcmp(r->text, "true") || !strcmp(r->text, "false") || !strcmp(r->text, "null");
}

/* What is between brackets. */
static inline bool json_many(struct json_reader *r, char close)
{
	size_t len = strlen(r->path);

	if (json_next(r) == close)
		return r->at++ < r->end;
	for (;;) {
		if (close == '}') {
			if (!json_string(r) || json_next(r) != ':')
				return false;
			r->at++;
			snprintf(r->path + len, sizeof(r->path) - len, ".%s", r->text);
		} else {
			snprintf(r->path + len, sizeof(r->path) - len, "[]");
		}
		if (!json_value(r))
			return false;
		r->path[len] = '\0';
		if (json_next(r) == close)
			return r->at++ < r->end;
		if (json_next(r) != ',')
			return false;
		r->at++;
	}
}

static inline bool json_value(struct json_reader *r)
{
	char c = json_next(r);

	if (c == '{' || c == '[') {
		r->at++;
		r->fn(r->path, c == '{' ? "{" : "[", r->arg);
		return json_many(r, c == '{' ? '}' : ']');
	}
	if (!(c == '"' ? json_string(r) : json_word(r)))
		return false;
	r->fn(r->path, r->text, r->arg);
	return true;
}

/* False: it is no JSON, or more than one value, or has blanks. The text ends with a zero. */
static inline bool json_read(const char *text, json_fn *fn, void *arg)
{
	struct json_reader r = { .at = text, .end = text + strlen(text), .fn = fn, .arg = arg };

	return json_value(&r) && r.at == r.end;
}

#endif /* SELFTESTS_JSON_READ_H */
