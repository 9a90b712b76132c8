// SPDX-License-Identifier: MIT
/*
 * What a wait reports: the first failure as the thread's record, and behind it a
 * list of all that it covered, up to HAL_REPORT_MAX.
 */
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

/* A task's failure as a record. */
static void describe(const struct hal_failure *f, uint64_t more, struct hal_error *e)
{
	const struct hal_task_error *t = &f->e;
	const char *name = hal_errno_name(t->code);
	size_t room = sizeof(e->text), n;

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
	n = (size_t)snprintf(e->text, room, "stream 0x%llx: task %llu (%s%s%s) failed: %s",
			     (unsigned long long)e->stream, (unsigned long long)t->seq,
			     t->op ? t->op : "?", e->tag[0] ? ", tag " : "", e->tag,
			     name ? name : "?");
	if (t->addr && n < room)
		n += (size_t)snprintf(e->text + n, room - n, " at 0x%llx",
				      (unsigned long long)t->addr);
	if (t->origin_stream && n < room)
		n += (size_t)snprintf(e->text + n, room - n, ", from stream 0x%llx task %llu",
				      (unsigned long long)t->origin_stream,
				      (unsigned long long)t->origin_seq);
	if (more && n < room)
		snprintf(e->text + n, room - n, "; %llu more failed", (unsigned long long)more);
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
