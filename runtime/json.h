/* SPDX-License-Identifier: MIT */
/*
 * JSON, written piece by piece.
 */
#ifndef RUNTIME_JSON_H
#define RUNTIME_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct rt_json - a text that is being written
 * @write: takes what is full
 * @arg: for it
 * @err: what @write has returned; no more is written then
 * @used: bytes of @buf
 * @first: no comma before the next value
 * @buf: what is not full yet
 */
struct rt_json {
	int (*write)(const char *text, size_t size, void *arg);
	void *arg;
	int err;
	size_t used;
	bool first;
	char buf[4096];
};

/* '{' or '[', after a name or as a value; and its end. */
void rt_json_open(struct rt_json *j, const char *name, char bracket);
void rt_json_close(struct rt_json *j, char bracket);
/* A value; name NULL: of an array. */
void rt_json_number(struct rt_json *j, const char *name, uint64_t value);
void rt_json_bool(struct rt_json *j, const char *name, bool value);
/* Text of any bytes: what is not UTF-8 becomes U+FFFD. */
void rt_json_text(struct rt_json *j, const char *name, const char *text);
/* All that is left. Return: rt_json.err. */
int rt_json_end(struct rt_json *j);

#endif /* RUNTIME_JSON_H */
