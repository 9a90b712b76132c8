// SPDX-License-Identifier: MIT
/*
 * The fake driver's streams, a ring each, and its timed events. Tasks are run in worker.c.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "hal/context.h"
#include "hal/sys.h"
#include "selftests/fakes/internal.h"

#define WORDS 32768u

static struct fake_word words[WORDS];
static _Atomic uint32_t words_used;

/* ---- streams ------------------------------------------------------------------------- */

static int stream_init(struct hal_stream *base)
{
	struct fake_stream *s = to_fake_stream(base);
	struct fake_device *d = to_fake_device(base->ctx->dev);
	int rc = fake_op(FAKE_STREAM_INIT);

	if (rc)
		return rc;
	s->word = &words[hal_add_relaxed(&words_used, 1) % WORDS];
	memset(&s->word->failed, 0, sizeof(s->word->failed));
	fake_publish_locked(s);
	if (fake.timeline)
		base->timeline = &s->word->word;
	pthread_mutex_lock(&fake.lock);
	if (d->streams == FAKE_STREAMS) {
		rc = -ENOSPC;
	} else {
		d->streams++;
		hal_list_add_tail(&fake.streams, &s->node);
		fake_object(1);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static void stream_fini(struct hal_stream *base)
{
	struct fake_stream *s = to_fake_stream(base);

	pthread_mutex_lock(&fake.lock);
	/* the callback or the task of a lost device may still be in it */
	while (fake_unhost_locked(s), fake_calls_locked(s) || s->busy || s->beginning)
		pthread_cond_wait(&fake.work, &fake.lock);
	hal_list_del(&s->node);
	to_fake_device(base->ctx->dev)->streams--;
	pthread_mutex_unlock(&fake.lock);
	fake_object(-1);
}

/* The place for a task, or NULL: full. */
static struct fake_task *put(struct fake_stream *s, const struct hal_task *base,
			     enum fake_kind kind)
{
	uint64_t tail = hal_load_relaxed(&s->tail);
	struct fake_task *t = &s->ring[tail % FAKE_QUEUED];

	if (tail - hal_load_acquire(&s->head) == FAKE_QUEUED)
		return NULL;
	t->base = *base;
	t->kind = kind;
	return t;
}

/* 1: the worker may be asleep, as all before was done. */
static int submit(struct fake_stream *s)
{
	uint64_t tail = atomic_fetch_add(&s->tail, 1);

	return atomic_load(&s->head) == tail;
}

static int stream_launch(struct hal_stream *base, const struct hal_task *task,
			 const struct hal_launch *l)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_LAUNCH);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->kernel = l->kernel;
	t->blocks = l->blocks;
	t->args_size = l->args_size;
	if (l->args_size)
		memcpy(t->args, l->args, l->args_size);
	return submit(s);
}

static int stream_copy(struct hal_stream *base, const struct hal_task *task,
		       const struct hal_copy *c)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_COPY_TASK);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->copy = *c;
	return submit(s);
}

static int stream_fill(struct hal_stream *base, const struct hal_task *task, void *dst, int byte,
		       size_t size)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_FILL_TASK);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->dst = dst;
	t->byte = byte;
	t->size = size;
	return submit(s);
}

static int stream_wait(struct hal_stream *base, const struct hal_task *task,
		       struct hal_stream *other, uint64_t seq)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_WAIT);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->other = to_fake_stream(other)->word;
	t->other_seq = seq;
	t->other_handle = other->handle;
	return submit(s);
}

static int stream_record(struct hal_stream *base, const struct hal_task *task,
			 struct hal_event *e)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_RECORD);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->event = e;
	return submit(s);
}

static int stream_callback(struct hal_stream *base, const struct hal_task *task,
			   void (*fn)(void *arg), void *arg, uint32_t flags)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_CALLBACK);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->fn = fn;
	t->arg = arg;
	t->flags = flags;
	return submit(s);
}

static int stream_host(struct hal_stream *base, const struct hal_task *task,
		       void (*begin)(void *arg), void *arg)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_SUBMIT);
	struct fake_task *t = rc ? NULL : put(s, task, FAKE_HOST_TASK);

	if (!t)
		return rc ? rc : -EAGAIN;
	t->fn = begin;
	t->arg = arg;
	return submit(s);
}

static void stream_kick(struct hal_stream *base)
{
	(void)base;
	pthread_mutex_lock(&fake.lock);
	pthread_cond_broadcast(&fake.work);
	pthread_mutex_unlock(&fake.lock);
}

static int prepare_wait(struct hal_stream *base, struct hal_stream *other)
{
	(void)base;
	(void)other;
	return fake_op(FAKE_PREPARE_WAIT);
}

static int stream_prepare(struct hal_stream *base)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_PREPARE);

	if (rc)
		return rc;
	return hal_load_acquire(&s->tail) - hal_load_acquire(&s->head) < FAKE_QUEUED ? 0 : -EAGAIN;
}

/* Waits for fake.done; -ETIMEDOUT. */
static int wait_done_locked(uint64_t deadline)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};

	if (deadline == UINT64_MAX)
		return -pthread_cond_wait(&fake.done, &fake.lock);
	return -pthread_cond_timedwait(&fake.done, &fake.lock, &ts);
}

static _Atomic uint32_t wait_flags;

uint32_t fake_wait_flags(void)
{
	return hal_load_relaxed(&wait_flags);
}

static int stream_wait_host(struct hal_stream *base, uint64_t seq, uint64_t deadline,
			    uint32_t flags)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_WAIT_HOST);

	hal_store_relaxed(&wait_flags, flags);
	pthread_mutex_lock(&fake.lock);
	while (!rc && fake_completed(s) < seq)
		rc = wait_done_locked(deadline);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static int stream_query(struct hal_stream *base, uint64_t *word)
{
	*word = hal_shm_load_acquire(&to_fake_stream(base)->word->word);
	return fake_op(FAKE_QUERY);
}

static int stream_errors(struct hal_stream *base, struct hal_task_error *list, uint32_t n,
			 uint64_t *dropped)
{
	struct fake_stream *s = to_fake_stream(base);
	uint32_t i;

	pthread_mutex_lock(&fake.lock);
	if (n > s->error_count)
		n = s->error_count;
	for (i = 0; i < n; i++)
		list[i] = s->errors[i];
	s->error_count -= n;
	memmove(s->errors, s->errors + n, s->error_count * sizeof(s->errors[0]));
	if (!s->error_count) {
		*dropped += s->dropped;
		s->dropped = 0;
		s->word->taken = true;
	}
	fake_publish_locked(s);
	pthread_mutex_unlock(&fake.lock);
	return (int)n;
}

static int stream_notify(struct hal_stream *base, uint64_t seq, int fd)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_NOTIFY);
	size_t i;

	if (rc)
		return rc;
	fd = hal_sys_dup(fd);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < ARRAY_SIZE(s->notices); i++) {
		if (s->notices[i].seq)
			continue;
		s->notices[i] = (struct notice){ seq, fd };
		break;
	}
	if (i == ARRAY_SIZE(s->notices))
		rc = -ENOSPC;
	fake_notify_locked(s);
	pthread_mutex_unlock(&fake.lock);
	if (rc)
		hal_sys_close(&hal_sys_libc, fd);
	return rc;
}

static bool idle_locked(struct fake_stream *s)
{
	return !s->busy && !s->beginning &&
	       hal_load_acquire(&s->head) == hal_load_acquire(&s->tail);
}

/* After a time-out the stream goes on discarding until it is idle. */
static int stream_abort(struct hal_stream *base, uint64_t deadline)
{
	struct fake_stream *s = to_fake_stream(base);
	int rc = fake_op(FAKE_ABORT);

	if (rc)
		return rc;
	s->abort = true;
	pthread_mutex_lock(&fake.lock);
	pthread_cond_broadcast(&fake.work);
	while (fake_unhost_locked(s), !rc && !idle_locked(s))
		rc = wait_done_locked(deadline);
	if (!rc) {
		s->stopped = false;
		s->abort = false;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static bool device_idle_locked(struct hal_device *dev)
{
	struct hal_list *n;

	hal_list_for_each(n, &fake.streams) {
		struct fake_stream *s = hal_list_entry(n, struct fake_stream, node);

		if (s->base.ctx->dev != dev)
			continue;
		fake_unhost_locked(s);
		if (!idle_locked(s))
			return false;
	}
	return true;
}

int fake_streams_stop(struct hal_device *dev, uint64_t deadline)
{
	int rc = 0;

	pthread_mutex_lock(&fake.lock);
	to_fake_device(dev)->stopped = true;
	pthread_cond_broadcast(&fake.work);
	while (!rc && !device_idle_locked(dev))
		rc = wait_done_locked(deadline);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

void fake_hang(bool hang)
{
	pthread_mutex_lock(&fake.lock);
	fake.hang = hang;
	pthread_cond_broadcast(&fake.work);
	pthread_mutex_unlock(&fake.lock);
}

static int stream_at(struct hal_stream *base, struct hal_task_error *t)
{
	struct fake_stream *s = to_fake_stream(base);
	const struct fake_task *k;
	int rc = -ENOENT;

	pthread_mutex_lock(&fake.lock);
	if (!idle_locked(s)) {
		k = &s->ring[hal_load_relaxed(&s->head) % FAKE_QUEUED];
		t->seq = k->base.seq;
		t->op = fake_op_names[k->kind];
		t->place = k->base.place;
		t->tag = k->base.tag;
		rc = 0;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

const struct hal_stream_ops fake_stream_ops = {
	.obj_size = sizeof(struct fake_stream),
	.init = stream_init,
	.fini = stream_fini,
	.launch = stream_launch,
	.copy = stream_copy,
	.fill = stream_fill,
	.wait = stream_wait,
	.record = stream_record,
	.callback = stream_callback,
	.host = stream_host,
	.host_done = fake_host_done,
	.kick = stream_kick,
	.prepare_wait = prepare_wait,
	.prepare = stream_prepare,
	.wait_host = stream_wait_host,
	.query = stream_query,
	.errors = stream_errors,
	.notify = stream_notify,
	.abort = stream_abort,
	.at = stream_at,
};

/* ---- events: the stamp lies behind the base -------------------------------------------- */

struct fake_event {
	struct hal_event base;
	uint64_t stamp;
};

static int event_init(struct hal_event *e)
{
	struct fake_device *d = to_fake_device(e->ctx->dev);
	int rc = fake_op(FAKE_EVENT_INIT);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	if (d->events == FAKE_EVENTS) {
		rc = -ENOSPC;
	} else {
		d->events++;
		fake_object(1);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static void event_fini(struct hal_event *e)
{
	pthread_mutex_lock(&fake.lock);
	to_fake_device(e->ctx->dev)->events--;
	pthread_mutex_unlock(&fake.lock);
	fake_object(-1);
}

static int timestamp(struct hal_event *e, uint64_t *ns)
{
	*ns = hal_shm_load_acquire(&container_of(e, struct fake_event, base)->stamp);
	return fake_op(FAKE_TIMESTAMP);
}

_Static_assert(offsetof(struct fake_event, stamp) == sizeof(struct hal_event), "behind the base");

const struct hal_event_ops fake_event_ops = {
	.obj_size = sizeof(struct fake_event),
	.init = event_init,
	.fini = event_fini,
	.timestamp = timestamp,
};
