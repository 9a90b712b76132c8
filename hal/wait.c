// SPDX-License-Identifier: MIT
/*
 * How far streams are: queries, and waits by the host.
 */
#include <stdio.h>
#include <string.h>

#include "hal/internal.h"

int hal_stream_word(struct hal_stream *s, uint64_t *word)
{
	if (likely(s->timeline)) {
		*word = hal_shm_load_acquire(s->timeline);
		return 0;
	}
	return s->ops->query(s, word);
}

/* ---- queries --------------------------------------------------------------------- */

/* On a device that has a fault its failures come first. */
static int query_state(struct hal_stream *s, uint64_t seq, uint32_t state)
{
	int rc = state == HAL_DEVICE_FAULTED ? hal_stream_peek(s, seq, true) : 0;

	return rc ? rc : hal_device_usable(s->ctx->dev, "query");
}

/* With a reference, which is given back. */
static int query(struct hal_stream *s, const struct hal_point *p)
{
	uint32_t state;
	uint64_t word;
	int rc;

	rc = hal_stream_word(s, &word);
	if (!rc && !hal_word_covers(word, p->seq))
		rc = -EINPROGRESS;
	else if (!rc && hal_word_failed(s->slot, word))
		rc = hal_stream_peek(s, p->seq, true);
	/* after the failures were taken: they may say that the device has a fault */
	state = hal_load_acquire(&s->ctx->dev->state);
	if (unlikely(state != HAL_DEVICE_OPEN) && (!rc || rc == -EINPROGRESS ||
						   state != HAL_DEVICE_FAULTED))
		rc = query_state(s, p->seq, state);
	hal_stream_put(s);
	return rc;
}

HAL_COLD int hal_query_slow(const struct hal_point *p)
{
	struct hal_stream *s = hal_point_get(p);

	return s ? query(s, p) : 0;	/* drained, and destroyed */
}

/* The same for all of a stream, which may have had no task at all. */
static HAL_COLD int query_all_slow(const struct hal_point *p)
{
	struct hal_stream *s = hal_stream_find(p->stream);

	return s ? query(s, p) : 0;
}

HAL_COLD bool hal_clean_slow(const struct hal_point *p)
{
	struct hal_stream *s = hal_point_get(p);
	uint64_t word;
	bool clean;

	if (!s)
		return true;
	clean = !hal_stream_word(s, &word) && hal_word_covers(word, p->seq) &&
		hal_load_acquire(&s->ctx->dev->state) == HAL_DEVICE_OPEN &&
		(!hal_word_failed(s->slot, word) || !hal_stream_peek(s, p->seq, false));
	hal_stream_put(s);
	return clean;
}

/**
 * hal_point_query() - whether a point has completed
 * @p: the point; seq 0 is done
 *
 * Return: 0, -EINPROGRESS, the errno of the first failure up to it that nobody was told of,
 * -EBADF (no such stream ever was).
 */
int hal_point_query(const struct hal_point *p)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(p->stream);

	if (unlikely(!p->seq))
		return 0;
	if (unlikely(!slot))
		return hal_handle_error(HAL_HANDLE_STREAM, p->stream, "query");
	return hal_slot_query(slot, p);
}

bool hal_point_passed(const struct hal_point *p)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(p->stream);
	uint64_t word;

	return !p->seq || !slot || (hal_slot_word(slot, &word) && hal_word_covers(word, p->seq));
}

/* Whether a point has completed, well or not, or its stream is gone. */
bool hal_point_done(const struct hal_point *p)
{
	struct hal_stream *s;
	uint64_t word;
	bool done;

	if (hal_point_passed(p))
		return true;
	s = hal_point_get(p);
	if (!s)
		return true;
	done = !hal_stream_word(s, &word) && hal_word_covers(word, p->seq);
	hal_stream_put(s);
	return done;
}

/**
 * hal_stream_point() - the point behind the last task submitted
 * @stream: the stream
 * @p: out: the point
 * @op: for the error record
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE.
 */
int hal_stream_point(uint64_t stream, struct hal_point *p, const char *op)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(stream);

	if (unlikely(!slot || !hal_slot_is(&slot->slot, stream))) {
		*p = (struct hal_point){ 0 };
		return hal_handle_error(HAL_HANDLE_STREAM, stream, op);
	}
	p->stream = stream;
	p->seq = hal_load_acquire(&slot->next_seq) - 1;
	return 0;
}

/**
 * hal_stream_query() - whether all submitted tasks have completed
 * @stream: the stream
 *
 * Return: 0, -EINPROGRESS, the errno of the first failure that nobody was told of, -EINVAL,
 * -EBADF, -ESTALE.
 */
int hal_stream_query(uint64_t stream)
{
	struct hal_stream_slot *slot;
	struct hal_point p;
	uint64_t word;
	int rc = hal_stream_point(stream, &p, "stream_query");

	if (rc)
		return rc;
	slot = hal_stream_slot_at(stream);
	if (unlikely(!hal_slot_word(slot, &word)))
		return query_all_slow(&p);
	if (!hal_word_covers(word, p.seq))
		return -EINPROGRESS;
	return unlikely(hal_word_failed(slot, word)) ? query_all_slow(&p) : 0;
}

/**
 * hal_stream_progress() - tasks since the stream was made
 * @stream: the stream
 * @submitted: out: how many were submitted
 * @completed: out: how many have completed, well or not
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE.
 */
int hal_stream_progress(uint64_t stream, uint64_t *submitted, uint64_t *completed)
{
	struct hal_stream *s = hal_stream_get(stream, "stream_progress");
	uint64_t word;
	int rc;

	*submitted = 0;
	*completed = 0;
	if (!s)
		return hal_error_last()->code;
	rc = hal_stream_word(s, &word);
	if (!rc) {
		*completed = (word & ~HAL_TIMELINE_ERROR) - (s->first_seq - 1);
		*submitted = hal_load_acquire(&s->slot->next_seq) - s->first_seq;
	}
	hal_stream_put(s);
	return rc;
}

/* ---- waits ------------------------------------------------------------------------- */

int hal_stream_interrupted(struct hal_stream *s, uint64_t since)
{
	struct hal_device *dev = s->ctx->dev;
	bool stopped, aborted;

	pthread_mutex_lock(&s->err_lock);
	stopped = s->stopped_at > since;
	aborted = s->aborted_at > since;
	pthread_mutex_unlock(&s->err_lock);
	if (stopped)
		return hal_fail_at(-ECANCELED, "wait", dev, s->handle,
				   "stream 0x%llx: device %d was stopped during the wait",
				   (unsigned long long)s->handle, dev->ordinal);
	if (aborted)
		return hal_fail_at(-ECANCELED, "wait", dev, s->handle,
				   "stream 0x%llx was aborted during the wait",
				   (unsigned long long)s->handle);
	return 0;
}

/* Goes on with a record's text: what the stream is at, whose tag and place become the record's. */
static void say_at(struct hal_stream *s, struct hal_error *e)
{
	struct hal_task_error at = { .seq = 0 };
	size_t n = strlen(e->text);
	const char *tag;

	if (!s->ops->at || s->ops->at(s, &at))
		return;
	tag = hal_tag_name(at.tag);
	snprintf(e->text + n, sizeof(e->text) - n, ": it is at task %llu (%s)%s%s",
		 (unsigned long long)at.seq, at.op ? at.op : "?", *tag ? ", tag " : "", tag);
	strcpy(e->tag, tag);
	e->place = at.place;
}

int hal_stream_too_long(struct hal_stream *s, const char *op, uint64_t seq, const char *what)
{
	struct hal_error e = {
		.code = -ETIMEDOUT,
		.op = op,
		.device = s->ctx->dev->ordinal,
		.generation = hal_load_relaxed(&s->ctx->dev->generation),
		.stream = s->handle,
		.seq = seq,
	};

	if (seq)
		snprintf(e.text, sizeof(e.text), "stream 0x%llx: task %llu %s",
			 (unsigned long long)e.stream, (unsigned long long)seq, what);
	else
		snprintf(e.text, sizeof(e.text), "stream 0x%llx: %s",
			 (unsigned long long)e.stream, what);
	say_at(s, &e);
	return hal_fail_record(&e);
}

/* Perhaps for a fault; who only polls has no time to ask. */
static HAL_COLD int wait_failed(struct hal_stream *s, uint64_t seq, uint64_t deadline, int rc)
{
	if (rc != -ETIMEDOUT || deadline > 1)
		hal_device_look(s->ctx->dev);
	if (rc != -ETIMEDOUT)
		return rc;
	return hal_stream_too_long(s, "wait", seq, "was not done in time");
}

/* Not a failure: the device is not OPEN, so that there is nothing to wait for. */
#define NOT_OPEN 1

/* any: whatever the state, if the device is not LOST. */
HAL_INLINE int wait_driver(struct hal_stream *s, uint64_t seq, uint64_t deadline, uint32_t flags,
			   bool any)
{
	struct hal_device *dev = s->ctx->dev;
	uint32_t state;
	uint64_t word;
	int rc;

	hal_assert_may_block("wait");
	rc = hal_stream_word(s, &word);
	if (rc || hal_word_covers(word, seq))
		return rc;
	state = hal_load_relaxed(&dev->state);
	if (unlikely(state != HAL_DEVICE_OPEN) && (!any || state == HAL_DEVICE_LOST))
		return any ? hal_device_usable(dev, "wait") : NOT_OPEN;
	if (!(flags & HAL_WAIT_MODE_MASK))
		flags |= hal_load_relaxed(&s->wait_mode);
	rc = s->ops->wait_host(s, seq, deadline, flags);
	return likely(!rc) ? 0 : wait_failed(s, seq, deadline, rc);
}

int hal_stream_wait_host(struct hal_stream *s, uint64_t seq, uint64_t deadline, uint32_t flags)
{
	struct hal_error before = *hal_error_last();
	int rc = wait_driver(s, seq, deadline, flags, true);
	struct hal_tls *t = hal_tls_peek();

	if (rc != -ECANCELED && (!rc || rc == -ETIMEDOUT ||
				 hal_load_acquire(&s->ctx->dev->state) != HAL_DEVICE_FAULTED))
		return rc;
	/* discarded by an abort, a stop or a fault: there is nothing left to wait for */
	if (t)
		t->error = before;
	return 0;
}

int hal_stream_wait_open(struct hal_stream *s, uint64_t seq, uint64_t deadline, uint32_t flags)
{
	int rc = wait_driver(s, seq, deadline, flags, false);

	return rc == NOT_OPEN ? 0 : rc;
}

/* What a wait comes to that has failed, or after which there is something to say. */
static HAL_COLD int sync_disturbed(struct hal_stream *s, uint64_t seq, uint64_t since, int rc)
{
	int why = hal_stream_interrupted(s, since);

	if (!why && (!rc || hal_load_acquire(&s->ctx->dev->state) == HAL_DEVICE_FAULTED))
		why = hal_stream_outcome(s, seq, since);
	/* its failures may have said that there is a fault */
	if (!why && hal_load_acquire(&s->ctx->dev->state) != HAL_DEVICE_OPEN)
		why = hal_device_usable(s->ctx->dev, "wait");
	return why ? why : rc;
}

/* With a reference, which is given back. */
static int sync_slow(struct hal_stream *s, uint64_t seq, int64_t timeout_ms, uint32_t flags)
{
	uint64_t since = hal_load_acquire(&s->reported), word;
	int rc;

	rc = wait_driver(s, seq, hal_sys_deadline(timeout_ms), flags, false);
	if (likely(!rc))
		rc = hal_stream_word(s, &word);
	if (unlikely(rc || hal_word_failed(s->slot, word) ||
		     hal_load_acquire(&s->reported) != since))
		rc = sync_disturbed(s, seq, since, rc == NOT_OPEN ? 0 : rc);
	hal_stream_put(s);
	return rc;
}

/* all: all of a stream, which may have had no task at all. */
HAL_INLINE int sync_point(struct hal_stream_slot *slot, const struct hal_point *p,
			  int64_t timeout_ms, uint32_t flags, bool all)
{
	struct hal_stream *s;
	uint64_t word;

	if (unlikely(timeout_ms && hal_in_callback()))
		return hal_may_block("sync");
	if (hal_slot_word(slot, &word) && hal_word_covers(word, p->seq) &&
	    !hal_word_failed(slot, word))
		return 0;
	s = all ? hal_stream_find(p->stream) : hal_point_get(p);
	return s ? sync_slow(s, p->seq, timeout_ms, flags) : 0;
}

/**
 * hal_point_sync() - wait for a point
 * @p: the point; seq 0 is done
 * @timeout_ms: how long
 * @flags: HAL_WAIT_*
 *
 * Return: 0, -ETIMEDOUT, -EDEADLK, -EBADF, -EINVAL (a point that was not reached by any
 * submission), the device's state, or the first failure that the point covers.
 */
int hal_point_sync(const struct hal_point *p, int64_t timeout_ms, uint32_t flags)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(p->stream);

	if (unlikely(!p->seq))
		return hal_point_foreign(p) ? hal_ipc_event_sync(p, timeout_ms) : 0;
	if (unlikely(!slot))
		return hal_handle_error(HAL_HANDLE_STREAM, p->stream, "sync");
	if (unlikely(p->seq >= hal_load_acquire(&slot->next_seq)))
		return hal_fail(-EINVAL, "sync", "stream 0x%llx has had no task %llu",
				(unsigned long long)p->stream, (unsigned long long)p->seq);
	return sync_point(slot, p, timeout_ms, flags, false);
}

/**
 * hal_stream_sync() - wait for what was submitted before the call
 * @stream: the stream
 * @timeout_ms: how long
 * @flags: HAL_WAIT_*
 *
 * Return: 0, -ETIMEDOUT, -EDEADLK, -EINVAL, -EBADF, -ESTALE, the device's state, or the first
 * failure that nobody was told of.
 */
int hal_stream_sync(uint64_t stream, int64_t timeout_ms, uint32_t flags)
{
	struct hal_point p;
	int rc = hal_stream_point(stream, &p, "stream_sync");

	if (unlikely(rc))
		return rc;
	return sync_point(hal_stream_slot_at(stream), &p, timeout_ms, flags, true);
}

/* ---- descriptors --------------------------------------------------------------------- */

static int signal_now(int fd)
{
	uint64_t one = 1;
	int rc = hal_sys_write(fd, &one, sizeof(one));

	if (rc)
		return hal_fail(rc, "notify", "descriptor %d can't be written", fd);
	return 0;
}

/**
 * hal_point_notify() - make an eventfd readable once a point has completed
 * @p: the point
 * @fd: the eventfd; stays the caller's
 *
 * Return: 0, -EBADF (no such stream ever was; not a descriptor), -EOPNOTSUPP, or as the driver
 * fails.
 */
int hal_point_notify(const struct hal_point *p, int fd)
{
	struct hal_stream *s;
	uint64_t word;
	int rc;

	if (!p->seq && hal_point_foreign(p))
		return hal_fail(-EOPNOTSUPP, "notify", "no descriptor of an imported event");
	if (!p->seq)
		return signal_now(fd);
	if (!hal_stream_slot_at(p->stream))
		return hal_handle_error(HAL_HANDLE_STREAM, p->stream, "notify");
	s = hal_point_get(p);
	if (!s)
		return signal_now(fd);
	rc = hal_need(s->ctx->dev, NPU_CAP_COMPLETION_FD, "notify");
	if (!rc)
		rc = hal_device_usable(s->ctx->dev, "notify");
	if (!rc)
		rc = hal_stream_word(s, &word);
	if (!rc && hal_word_covers(word, p->seq))
		rc = signal_now(fd);
	else if (!rc)
		rc = s->ops->notify(s, p->seq, fd);
	hal_stream_put(s);
	return rc;
}

/* ---- callbacks ------------------------------------------------------------------------ */

/* The thread is inside a callback: calls that wait give -EDEADLK. */
void hal_callback_enter(void)
{
	struct hal_tls *t = hal_tls();

	hal_assert_may_block("callback");
	if (t)
		t->callback_depth++;
}

/* The opposite. */
void hal_callback_leave(void)
{
	struct hal_tls *t = hal_tls_peek();

	if (t && t->callback_depth)
		t->callback_depth--;
}

/* Whether the thread is inside a callback. */
bool hal_in_callback(void)
{
	struct hal_tls *t = hal_tls_peek();

	return t && t->callback_depth;
}
