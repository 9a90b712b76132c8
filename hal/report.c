// SPDX-License-Identifier: MIT
/*
 * What a wait reports: the first failure as the thread's record, and behind it a
 * list of all that it covered, up to HAL_REPORT_MAX.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/internal.h"

/* A failure, in the order of its stream, among those from number @from on. */
void hal_report_add(struct hal_report *r, uint32_t from, const struct hal_failure *f)
{
	uint32_t i;

	if (r->n == HAL_REPORT_MAX) {
		r->more++;
		return;
	}
	for (i = r->n++; i > from && r->list[i - 1].e.seq > f->e.seq; i--)
		r->list[i] = r->list[i - 1];
	r->list[i] = *f;
}

/* Goes on with a record's text, as far as there is room. */
static __attribute__((format(printf, 2, 3))) void say(struct hal_error *e, const char *fmt, ...)
{
	size_t n = strlen(e->text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(e->text + n, sizeof(e->text) - n, fmt, args);
	va_end(args);
}

/* The operation, which is that of the task where it began. */
static void say_op(struct hal_error *e)
{
	say(e, " (%s%s%s)", e->op ? e->op : "?", e->tag[0] ? ", tag " : "", e->tag);
}

/* Where a failure began that is another task's. */
static void say_origin(struct hal_error *e)
{
	struct hal_stream *s;

	say(e, ", from");
	s = hal_stream_find(e->origin_stream);
	if (s && s->ctx->dev->ordinal != e->device)
		say(e, " device %d", s->ctx->dev->ordinal);
	hal_stream_put(s);
	if (e->origin_stream && e->origin_stream != e->stream)
		say(e, " stream 0x%llx", (unsigned long long)e->origin_stream);
	say(e, " task %llu", (unsigned long long)e->origin_seq);
	if (!e->origin_stream)
		say(e, " of a stream that is gone");
	say_op(e);
}

/* A task's failure as a record. */
static void describe(const struct hal_failure *f, uint64_t more, struct hal_error *e)
{
	const struct hal_task_error *t = &f->e;
	const char *name = hal_errno_name(t->code);

	memset(e, 0, sizeof(*e));
	e->code = t->code;
	e->vendor = t->vendor;
	e->device = f->device;
	e->op = t->op;
	e->stream = f->stream;
	e->seq = t->seq;
	e->origin_stream = t->origin_stream;
	e->origin_seq = t->origin_seq;
	e->addr = t->addr;
	e->place = t->place;
	e->generation = f->generation;
	e->more = more;
	strcpy(e->tag, hal_tag_name(t->tag));
	say(e, "stream 0x%llx: task %llu", (unsigned long long)e->stream,
	    (unsigned long long)t->seq);
	if (!t->origin_seq)
		say_op(e);
	say(e, " failed: %s", name ? name : "?");
	if (t->addr)
		say(e, " at 0x%llx", (unsigned long long)t->addr);
	if (t->origin_seq)
		say_origin(e);
	if (more)
		say(e, "; %llu more failed", (unsigned long long)more);
}

void hal_report_one(const struct hal_failure *f)
{
	struct hal_error e;

	describe(f, 0, &e);
	hal_fail_record(&e);
}

/* The thread's list; without memory for one the failures are only counted. */
static struct hal_report *list_of(struct hal_tls *t)
{
	if (t && !t->report)
		t->report = hal_zalloc(sizeof(*t->report));
	return t ? t->report : NULL;
}

static void keep(const struct hal_report *r)
{
	struct hal_tls *t = hal_tls();
	struct hal_report *l;
	uint32_t i;

	/* one that is alone needs no list, unless others are to come */
	if (t && !t->report && r->n + r->more == 1 && !t->report_joins)
		return;
	l = list_of(t);
	if (!l)
		return;
	if (!t->report_joins) {
		*l = *r;
		l->next = 1;
		return;
	}
	for (i = 0; i < r->n; i++)
		hal_report_add(l, l->n, &r->list[i]);
	l->more += r->more;
}

int hal_report_tell(const struct hal_report *r)
{
	struct hal_error e;

	if (!r->n)
		return 0;
	keep(r);
	describe(&r->list[0], r->n - 1 + r->more, &e);
	return hal_fail_record(&e);
}

/**
 * hal_report_join() - what the thread's waits report from here on is one list
 *
 * Return: a mark for hal_report_leave(). Pairs may be nested.
 */
uint64_t hal_report_join(void)
{
	struct hal_tls *t = hal_tls();

	if (!t)
		return 0;
	if (!t->report_joins++ && t->report)
		memset(t->report, 0, sizeof(*t->report));
	return t->report ? t->report->n + t->report->more : 0;
}

/**
 * hal_report_leave() - the opposite
 * @mark: from hal_report_join()
 *
 * When anything was reported since, the first of the whole list becomes the thread's record, with
 * the count of all others.
 * Return: 0, or the code of the first failure since @mark.
 */
int hal_report_leave(uint64_t mark)
{
	struct hal_tls *t = hal_tls_peek();
	struct hal_report *l = t ? t->report : NULL;
	struct hal_error e;

	if (!t)
		return 0;
	if (t->report_joins)
		t->report_joins--;
	if (!l || l->n + l->more <= mark)
		return 0;
	l->next = 1;
	describe(&l->list[0], l->n - 1 + l->more, &e);
	hal_fail_record(&e);
	return l->list[mark < l->n ? mark : l->n - 1].e.code;
}

/**
 * hal_report_next() - the next failure of the thread's list
 * @e: out: its record
 *
 * Return: 0, -ENOENT; the thread's record stays as it is.
 */
int hal_report_next(struct hal_error *e)
{
	struct hal_tls *t = hal_tls_peek();
	struct hal_report *l = t ? t->report : NULL;

	if (!l || l->next >= l->n)
		return -ENOENT;
	describe(&l->list[l->next], l->n - 1 - l->next + l->more, e);
	l->next++;
	return 0;
}

/* Empties the thread's list. */
void hal_report_clear(void)
{
	struct hal_tls *t = hal_tls_peek();

	if (t && t->report)
		memset(t->report, 0, sizeof(*t->report));
}
