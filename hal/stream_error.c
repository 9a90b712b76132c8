// SPDX-License-Identifier: MIT
/*
 * Failures of a stream's tasks: taken from the driver when its timeline says that
 * there are some, kept until a wait that covers them has told of them.
 */
#include "hal/internal.h"

/* Whether somebody still has to be told. In mode stop a failure is told again and again. */
static bool untold(const struct hal_stream *s, const struct hal_stream_error *f)
{
	return !f->reported_at || s->fail_mode == NPU_FAIL_STOP;
}

static void set_flag_locked(struct hal_stream *s)
{
	uint32_t any = 0, i;

	for (i = 0; i < s->error_count; i++)
		any |= untold(s, &s->errors[i]);
	any |= s->error_dropped != 0;
	if (s->gone)
		return;
	if (any)
		atomic_fetch_or(&s->slot->err, HAL_ERR_FAILED);
	else
		atomic_fetch_and(&s->slot->err, ~HAL_ERR_FAILED);
}

/* Makes room by those that were told of; who still waits for them learns of the later ones. */
static void compact_locked(struct hal_stream *s)
{
	uint32_t i, n = 0;

	for (i = 0; i < s->error_count; i++)
		if (untold(s, &s->errors[i]))
			s->errors[n++] = s->errors[i];
	s->error_count = n;
}

static void log_failure(const struct hal_stream *s, const struct hal_task_error *e)
{
	hal_info(HAL_LOG_CORE, "device %d stream 0x%llx: task %llu (%s) failed: %s",
		 s->ctx->dev->ordinal, (unsigned long long)s->handle, (unsigned long long)e->seq,
		 e->op ? e->op : "?", hal_errno_name(e->code) ? hal_errno_name(e->code) : "?");
}

/*
 * The slot's flag is set before the driver is asked, for the driver takes its mark
 * off the timeline as it answers: a query that finds neither has nothing to find.
 *
 * Return: 0, or why the driver does not tell: it keeps what it knows, and its mark. A device that
 * is not open any more need not tell.
 */
static int collect_locked(struct hal_stream *s)
{
	struct hal_task_error list[HAL_STREAM_ERRORS];
	uint32_t room, i;
	int n = 0;

	if (s->error_count == HAL_STREAM_ERRORS)
		compact_locked(s);
	room = HAL_STREAM_ERRORS - s->error_count;
	if (room) {
		if (!s->gone)
			atomic_fetch_or(&s->slot->err, HAL_ERR_FAILED);
		n = s->ops->errors(s, list, room, &s->error_dropped);
		for (i = 0; n > 0 && i < (uint32_t)n; i++) {
			log_failure(s, &list[i]);
			s->look |= hal_fault_code(list[i].code);
			s->errors[s->error_count].e = list[i];
			s->errors[s->error_count++].reported_at = 0;
		}
	}
	set_flag_locked(s);
	if (likely(n >= 0) || hal_load_acquire(&s->ctx->dev->state) != HAL_DEVICE_OPEN)
		return 0;
	return n;
}

/* Gives the lock back. A failure that may be a fault of the device is a reason to ask. */
static void unlock(struct hal_stream *s)
{
	bool look = s->look;

	s->look = false;
	pthread_mutex_unlock(&s->err_lock);
	if (unlikely(look))
		hal_device_look(s->ctx->dev);
}

void hal_stream_collect(struct hal_stream *s)
{
	pthread_mutex_lock(&s->err_lock);
	collect_locked(s);
	unlock(s);
}

/* Tasks failed, and there was no memory to note of which: no wait must say that all is well. */
static int lost(const struct hal_stream *s, uint64_t n)
{
	return hal_fail_at(-ENOMEM, "wait", s->ctx->dev, s->handle,
			   "stream 0x%llx: %llu tasks failed, and there was no memory to note how",
			   (unsigned long long)s->handle, (unsigned long long)n);
}

/* A failure as what is told of it. */
static struct hal_failure failure_of(const struct hal_stream *s)
{
	return (struct hal_failure){
		.stream = s->handle,
		.generation = s->generation,
		.device = s->ctx->dev->ordinal,
	};
}

int hal_stream_peek(struct hal_stream *s, uint64_t seq, bool record)
{
	struct hal_failure first = failure_of(s);
	uint64_t dropped;
	uint32_t i;
	int rc;

	first.e.seq = UINT64_MAX;
	pthread_mutex_lock(&s->err_lock);
	rc = collect_locked(s);
	dropped = s->error_dropped;
	for (i = 0; i < s->error_count; i++) {
		const struct hal_stream_error *f = &s->errors[i];

		if (f->e.seq > seq || f->e.seq >= first.e.seq || !untold(s, f))
			continue;
		first.e = f->e;
		rc = f->e.code;
	}
	unlock(s);
	if (record && first.e.code)
		hal_report_one(&first);
	if (unlikely(!rc && dropped))
		rc = record ? lost(s, dropped) : -ENOMEM;
	return rc;
}

/* One pass over the list; whether something was marked as told. */
static bool tell_locked(struct hal_stream *s, uint64_t seq, uint64_t since, uint64_t stamp,
			uint32_t from, struct hal_report *r)
{
	struct hal_failure one = failure_of(s);
	bool marked = false;
	uint32_t i;

	for (i = 0; i < s->error_count; i++) {
		struct hal_stream_error *f = &s->errors[i];

		if (f->e.seq > seq || (!untold(s, f) && f->reported_at <= since) ||
		    f->reported_at == stamp)
			continue;
		one.e = f->e;
		hal_report_add(r, from, &one);
		if (!f->reported_at) {
			f->reported_at = stamp;
			marked = s->fail_mode != NPU_FAIL_STOP;
		}
	}
	return marked;
}

int hal_stream_report(struct hal_stream *s, uint64_t seq, uint64_t since, struct hal_report *r)
{
	uint64_t before = r->n + r->more, stamp, dropped = 0;
	uint32_t from = r->n;
	bool full;
	int rc;

	pthread_mutex_lock(&s->err_lock);
	stamp = s->reported + 1;
	do {
		/* those that did not fit may be covered, too */
		rc = collect_locked(s);
		full = s->error_count == HAL_STREAM_ERRORS;
	} while (tell_locked(s, seq, since, stamp, from, r) && full);
	if (r->n + r->more > before) {
		hal_store_release(&s->reported, stamp);
		r->more += s->error_dropped;
	} else {
		dropped = s->error_dropped;
	}
	s->error_dropped = 0;
	set_flag_locked(s);
	unlock(s);
	return unlikely(!rc && dropped) ? lost(s, dropped) : rc;
}

int hal_stream_outcome(struct hal_stream *s, uint64_t seq, uint64_t since)
{
	struct hal_report r;
	int rc;

	r.n = 0;
	r.next = 0;
	r.more = 0;
	rc = hal_stream_report(s, seq, since, &r);
	return r.n ? hal_report_tell(&r) : rc;
}

void hal_stream_forget(struct hal_stream *s)
{
	uint32_t before;

	pthread_mutex_lock(&s->err_lock);
	do {
		s->error_count = 0;
		collect_locked(s);
		before = s->error_count;
	} while (before == HAL_STREAM_ERRORS);
	s->error_count = 0;
	s->error_dropped = 0;
	set_flag_locked(s);
	unlock(s);
}
