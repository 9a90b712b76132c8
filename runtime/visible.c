// SPDX-License-Identifier: MIT
/*
 * Which devices the process may use: the driver, and the visible list.
 *
 * A list is "all", or different decimal numbers of the driver's devices,
 * separated by commas, with blanks where one likes; they are counted from 0 in
 * the order of the list. An empty list hides all devices. Anything else is
 * refused as a whole: a list never shrinks silently.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

#define OPTION "visible_devices"

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static int refuse(const char *text, const char *source, size_t pos, const char *why)
{
	return hal_fail(-EINVAL, "option", "%s: " OPTION "=\"%.32s\": position %zu: %s", source,
			text, pos, why);
}

/* One number at text[*pos]; *pos moves behind it and the blanks around it. */
static int take_number(const char *text, const char *source, size_t *pos, uint32_t *n)
{
	size_t start;

	while (blank(text[*pos]))
		(*pos)++;
	start = *pos;
	*n = 0;
	for (; text[*pos] >= '0' && text[*pos] <= '9'; (*pos)++) {
		*n = *n * 10 + (uint32_t)(text[*pos] - '0');
		if (*n > 0xffffff)
			return refuse(text, source, start, "the number is too large");
	}
	if (*pos == start)
		return refuse(text, source, start,
			      "expected \"all\", or numbers separated by commas");
	while (blank(text[*pos]))
		(*pos)++;
	if (text[*pos] && text[*pos] != ',')
		return refuse(text, source, *pos, "expected a comma or the end");
	return 0;
}

static int add(struct rt_visible *v, uint32_t n, uint32_t have, const char *text,
	       const char *source, size_t pos)
{
	char why[64];
	uint32_t i;

	for (i = 0; i < v->count; i++)
		if (v->index[i] == n)
			return refuse(text, source, pos, "the device is named twice");
	if (n >= have) {
		if (have)
			snprintf(why, sizeof(why), "there is no device %u, only 0 to %u", n,
				 have - 1);
		else
			snprintf(why, sizeof(why), "there is no device %u, nor any other", n);
		return refuse(text, source, pos, why);
	}
	if (v->count == RT_DEVICES)
		return refuse(text, source, pos, "there are too many devices");
	v->index[v->count++] = n;
	return 0;
}

/* Fills count and index in; have: devices of the driver. */
static int parse(struct rt_visible *v, const char *text, uint32_t have, const char *source)
{
	size_t pos = 0, start;
	uint32_t n;
	int err;

	v->count = 0;
	if (!strcmp(text, "all")) {
		for (n = 0; n < have && n < RT_DEVICES; n++)
			v->index[v->count++] = n;
		return 0;
	}
	if (!text[strspn(text, " \t")])
		return 0;
	for (;;) {
		start = pos + strspn(text + pos, " \t");
		err = take_number(text, source, &pos, &n);
		if (!err)
			err = add(v, n, have, text, source, start);
		if (err || !text[pos])
			return err;
		pos++;
	}
}

/* Whether the text can be a list; which devices there are does not matter. */
int rt_visible_syntax(const char *text)
{
	struct rt_visible v = { .count = 0 };
	size_t len = strlen(text);

	if (len > 1023)
		return refuse(text, "npu_option_set()", 1023, "the list is too long");
	return parse(&v, text, 0xffffffff, "npu_option_set()");
}

/* Chooses the driver and reads the list; opens nothing. 0 with count 0: no device. */
int rt_visible_read(struct rt_visible *v, const char *op)
{
	const char *text = hal_option_text(rt_options, OPTION);
	uint32_t have = 0;
	char source[96];
	int err;

	(void)op;
	memset(v, 0, sizeof(*v));
	err = hal_driver_choose(hal_option_text(rt_options, "driver"), &v->drv);
	if (err)
		return err;
	err = hal_driver_count(v->drv, &have);
	if (err)
		return err;
	rt_option_describe(OPTION, source, sizeof(source));
	err = parse(v, text, have, source);
	if (err)
		v->count = 0;
	return err;
}

/*
 * What questions go by: what npu_init() has found, else what it would find now. That no driver has
 * a device is an answer here, and no failure.
 */
int rt_visible_get(struct rt_visible *v, const char *op)
{
	struct rt_record before;
	int err;

	if (hal_load_acquire(&rt.fixed)) {
		*v = rt.visible;
		return 0;
	}
	/* forked while another thread initialised: its locks are nobody's now */
	if (hal_forked())
		return rt_gone(op);
	rt_record_save(&before);
	err = rt_visible_read(v, op);
	if (err && err != -ENODEV)
		return err;
	rt_record_restore(&before);
	return 0;
}
