// SPDX-License-Identifier: MIT
/*
 * JSON, written piece by piece.
 */
#include <stdio.h>
#include <string.h>

#include "hal/base.h"
#include "runtime/json.h"

static void flush(struct rt_json *j)
{
	if (!j->err && j->used)
		j->err = j->write(j->buf, j->used, j->arg);
	j->used = 0;
}

static void put(struct rt_json *j, const char *text, size_t size)
{
	if (size > sizeof(j->buf) - j->used)
		flush(j);
	memcpy(j->buf + j->used, text, size);
	j->used += size;
}

/* How many bytes a character of UTF-8 has, 0: it is none. */
static size_t utf8(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 :
		   s[0] >> 3 == 30 ? 4 : 0;
	uint32_t c = n < 2 ? s[0] : s[0] & (0x7fu >> n);
	size_t i;

	/* a zero at the end of the text goes with nothing */
	for (i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (n && (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)))
		return 0;
	return n;
}

static void put_text(struct rt_json *j, const char *text)
{
	char code[8];
	size_t n;

	put(j, "\"", 1);
	for (; *text; text += n ? n : 1) {
		n = utf8((const unsigned char *)text);
		if (!n) {
			put(j, "\\ufffd", 6);
		} else if (*text == '"' || *text == '\\') {
			put(j, "\\", 1);
			put(j, text, 1);
		} else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
			snprintf(code, sizeof(code), "\\u%04x", (unsigned int)*text);
			put(j, code, 6);
		} else {
			put(j, text, n);
		}
	}
	put(j, "\"", 1);
}

static void before(struct rt_json *j, const char *name)
{
	if (!j->first)
		put(j, ",", 1);
	j->first = false;
	if (!name)
		return;
	put_text(j, name);
	put(j, ":", 1);
}

void rt_json_open(struct rt_json *j, const char *name, char bracket)
{
	before(j, name);
	put(j, &bracket, 1);
	j->first = true;
}

void rt_json_close(struct rt_json *j, char bracket)
{
	put(j, &bracket, 1);
	j->first = false;
}

void rt_json_number(struct rt_json *j, const char *name, uint64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	before(j, name);
	put(j, text, (size_t)n);
}

void rt_json_bool(struct rt_json *j, const char *name, bool value)
{
	before(j, name);
	put(j, value ? "true" : "false", value ? 4 : 5);
}

void rt_json_text(struct rt_json *j, const char *name, const char *text)
{
	before(j, name);
	put_text(j, text);
}

int rt_json_end(struct rt_json *j)
{
	flush(j);
	return j->err;
}
