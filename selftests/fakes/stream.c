// SPDX-License-Identifier: MIT
/*
 * The fake driver's streams: a ring each, one worker for all, one thread for
 * callbacks.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "hal/context.h"
#include "hal/sys.h"
#include "npu/simnpu_ops.h"
#include "selftests/fakes/internal.h"

#define WORDS 32768u
#define ERRORS 8u

/**
 * struct fake_stream - a stream
 * @word: its progress
 * @tail: tasks submitted; written under the submit lock
 * @head: tasks completed
 * @busy: one of its tasks runs
 * @hosted: that is the host's, and was begun
 * @beginning: the worker is inside its beginning
 * @abort: what is queued is to be discarded
 * @stopped: a task failed in mode stop
 * @errors: failures that were not taken yet
 */
struct fake_stream {
	struct hal_stream base;
	struct hal_list node;
	struct fake_word *word;
	_Atomic uint64_t tail;
	_Atomic uint64_t head;
	bool busy;
	bool hosted;
	bool beginning;
	_Atomic bool abort;
	bool stopped;
	struct hal_task_error errors[ERRORS];
	uint32_t error_count;
	uint64_t dropped;
	struct notice {
		uint64_t seq;
		int fd;
	} notices[4];
	struct fake_task ring[FAKE_QUEUED];
};

static struct fake_word words[WORDS];
static _Atomic uint32_t words_used;
static pthread_t worker, caller;
/* The stream whose callback runs, or is to run; under fake.lock. */
static struct fake_stream *calling;

static const char *const op_names[] = {
	"launch", "copy", "fill", "stream_wait", "event_record", "stream_callback",
	"file_io",
};

static struct fake_stream *to_fake_stream(struct hal_stream *s)
{
	return container_of(s, struct fake_stream, base);
}

static uint64_t completed(const struct fake_stream *s)
{
	return s->base.first_seq - 1 + hal_load_acquire(&s->head);
}

static void publish_locked(struct fake_stream *s)
{
	uint64_t w = completed(s) | (s->error_count || s->dropped ? HAL_TIMELINE_ERROR : 0);

	hal_shm_store_release(&s->word->word, w);
}

/* ---- running tasks ---------------------------------------------------------------- */

/* One block's share of "bias_f32", for a single column. */
static void bias_block(const struct npu_simnpu_rows_args *a, uint32_t block, uint32_t blocks)
{
	const float *x = (const float *)(uintptr_t)a->x;
	float *y = (float *)(uintptr_t)a->y;
	const float *z = (const float *)(uintptr_t)a->z;
	uint64_t i;

	for (i = block; i < a->rows; i += blocks)
		y[i] = x[i] + z[0];
}

static int run_bias(struct fake_stream *s, struct fake_task *t)
{
	struct npu_simnpu_rows_args a;
	uint32_t i;

	memcpy(&a, t->args, sizeof(a));
	if (t->args_size != sizeof(a) || a.cols != 1 ||
	    !fake_reachable(s->base.ctx->dev, a.x, a.rows * 4ull) ||
	    !fake_reachable(s->base.ctx->dev, a.y, a.rows * 4ull) ||
	    !fake_reachable(s->base.ctx->dev, a.z, 4))
		return -EFAULT;
	for (i = 0; i < t->blocks; i++)
		bias_block(&a, i, t->blocks);
	return 0;
}

static int run_kernel(struct fake_stream *s, struct fake_task *t, uint64_t *addr)
{
	struct npu_simnpu_inc_args inc;
	struct npu_simnpu_delay_args delay;
	uint64_t until;

	switch (t->kernel) {
	case FAKE_KERNEL_INC:
		if (t->args_size != sizeof(inc))
			return -EFAULT;
		memcpy(&inc, t->args, sizeof(inc));
		*addr = inc.addr;
		if (!fake_reachable(s->base.ctx->dev, inc.addr, 8))
			return -EFAULT;
		*(uint64_t *)(uintptr_t)inc.addr += inc.by;
		return 0;
	case FAKE_KERNEL_BIAS:
		return run_bias(s, t);
	case FAKE_KERNEL_DELAY:
		memcpy(&delay, t->args, sizeof(delay));
		until = hal_sys_now() + delay.ns;
		while (hal_sys_now() < until && !hal_load_relaxed(&s->abort) &&
		       !hal_load_relaxed(&to_fake_device(s->base.ctx->dev)->stopped))
			hal_cpu_relax();
		return 0;
	default:
		return 0;
	}
}

/* Without the lock. Where the failure comes from is filled in by the caller. */
static int run(struct fake_stream *s, struct fake_task *t, uint64_t *addr)
{
	int rc = fake_op(FAKE_TASK);

	if (rc)
		return rc;
	switch (t->kind) {
	case FAKE_LAUNCH:
		return run_kernel(s, t, addr);
	case FAKE_COPY_TASK:
		fake_do_copy(&t->copy);
		return 0;
	case FAKE_FILL_TASK:
		memset(t->dst, t->byte, t->size);
		return 0;
	case FAKE_RECORD:
		hal_shm_store_release((uint64_t *)(t->event + 1), hal_sys_now());
		return 0;
	default:
		return 0;
	}
}

static void fail_locked(struct fake_stream *s, const struct hal_task_error *e)
{
	s->word->failed = *e;
	s->word->taken = false;
	if (s->base.fail_mode == NPU_FAIL_STOP)
		s->stopped = true;
	if (s->error_count < ERRORS)
		s->errors[s->error_count++] = *e;
	else
		s->dropped++;
}

static void notify_locked(struct fake_stream *s)
{
	uint64_t one = 1;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(s->notices); i++) {
		if (!s->notices[i].seq || s->notices[i].seq > completed(s))
			continue;
		hal_sys_write(s->notices[i].fd, &one, sizeof(one));
		hal_sys_close(&hal_sys_libc, s->notices[i].fd);
		s->notices[i].seq = 0;
	}
}

static void complete_locked(struct fake_stream *s)
{
	/* seq_cst: together with the look at tail by the next step, and submit() */
	atomic_fetch_add(&s->head, 1);
	publish_locked(s);
	notify_locked(s);
	pthread_cond_broadcast(&fake.done);
	pthread_cond_broadcast(&fake.work);
}

static void task_failed_locked(struct fake_stream *s, const struct fake_task *t, int code,
			       uint64_t addr)
{
	struct hal_task_error e = {
		.seq = t->base.seq, .code = code, .vendor = 4711, .op = op_names[t->kind],
		.place = t->base.place, .tag = t->base.tag, .addr = addr,
	};

	fail_locked(s, &e);
}

static void inherit_locked(struct fake_stream *s, const struct fake_task *t)
{
	struct fake_word *w = t->other;
	struct hal_task_error e = w->failed;

	if (!e.seq || e.seq > t->other_seq || (e.seq < t->other_seq && w->taken))
		return;
	if (!e.origin_stream) {
		e.origin_stream = t->other_handle;
		e.origin_seq = e.seq;
	}
	e.seq = t->base.seq;
	fail_locked(s, &e);
}

/* What is queued is not run. */
static bool discards(struct fake_stream *s)
{
	return s->abort || to_fake_device(s->base.ctx->dev)->stopped;
}

/* Whether the stream's next task can start now. */
static bool ready_locked(struct fake_stream *s, struct fake_task **task)
{
	uint64_t head = hal_load_relaxed(&s->head);
	struct fake_task *t = &s->ring[head % FAKE_QUEUED];
	uint64_t w;

	if (s->busy || atomic_load(&s->tail) == head || (fake.paused && !discards(s)))
		return false;
	*task = t;
	if (s->stopped || discards(s) || to_fake_device(s->base.ctx->dev)->health.cause)
		return true;
	if (t->kind == FAKE_WAIT) {
		w = hal_shm_load_acquire(&t->other->word) & ~HAL_TIMELINE_ERROR;
		return w >= t->other_seq;
	}
	return t->kind != FAKE_CALLBACK || !calling;
}

/* The host has a task that the worker began. */
static void host_ended_locked(struct fake_stream *s)
{
	s->hosted = false;
	s->busy = false;
	complete_locked(s);
}

static void begin_locked(struct fake_stream *s, const struct fake_task *t)
{
	void (*fn)(void *arg) = t->fn;
	void *arg = t->arg;

	s->busy = s->hosted = s->beginning = true;
	pthread_mutex_unlock(&fake.lock);
	hal_callback_enter();
	fn(arg);
	hal_callback_leave();
	pthread_mutex_lock(&fake.lock);
	s->beginning = false;
	pthread_cond_broadcast(&fake.done);
	pthread_cond_broadcast(&fake.work);
}

/* Takes a task from the host, when it does not begin just now. */
static void unhost_locked(struct fake_stream *s)
{
	if (s->hosted && !s->beginning)
		host_ended_locked(s);
}

/* Runs a task, or hands it to the caller's thread. The lock is given up meanwhile. */
static void step_locked(struct fake_stream *s, struct fake_task *t)
{
	uint64_t addr = 0;
	int rc, code;

	if (s->stopped || discards(s)) {
		complete_locked(s);
		return;
	}
	code = to_fake_device(s->base.ctx->dev)->health.cause;
	if (code) {
		task_failed_locked(s, t, code, 0);
		complete_locked(s);
		return;
	}
	if (t->kind == FAKE_CALLBACK) {
		calling = s;
		s->busy = true;
		pthread_cond_broadcast(&fake.work);
		return;
	}
	if (t->kind == FAKE_HOST_TASK) {
		begin_locked(s, t);
		return;
	}
	s->busy = true;
	pthread_mutex_unlock(&fake.lock);
	rc = run(s, t, &addr);
	pthread_mutex_lock(&fake.lock);
	while (fake.hang && !fake.stop)
		pthread_cond_wait(&fake.work, &fake.lock);
	s->busy = false;
	if (rc)
		task_failed_locked(s, t, rc, addr);
	else if (t->kind == FAKE_WAIT)
		inherit_locked(s, t);
	complete_locked(s);
}

static struct fake_stream *next_locked(struct fake_task **t)
{
	struct fake_stream *s, *best = NULL;
	struct fake_task *task;
	struct hal_list *n;

	hal_list_for_each(n, &fake.streams) {
		s = hal_list_entry(n, struct fake_stream, node);
		if (!ready_locked(s, &task) || (best && best->base.priority <= s->base.priority))
			continue;
		best = s;
		*t = task;
	}
	return best;
}

static void *work(void *arg)
{
	struct fake_stream *s;
	struct fake_task *t = NULL;

	(void)arg;
	pthread_mutex_lock(&fake.lock);
	while (!fake.stop) {
		s = next_locked(&t);
		if (s)
			step_locked(s, t);
		else
			pthread_cond_wait(&fake.work, &fake.lock);
	}
	pthread_mutex_unlock(&fake.lock);
	return NULL;
}

static void *call(void *arg)
{
	struct fake_stream *s;
	struct fake_task t;

	(void)arg;
	pthread_mutex_lock(&fake.lock);
	for (;;) {
		while (!fake.stop && !calling)
			pthread_cond_wait(&fake.work, &fake.lock);
		if (fake.stop)
			break;
		s = calling;
		t = s->ring[hal_load_relaxed(&s->head) % FAKE_QUEUED];
		if (t.flags & NPU_CALLBACK_NOBLOCK) {
			s->busy = false;
			complete_locked(s);
		}
		pthread_mutex_unlock(&fake.lock);
		hal_callback_enter();
		t.fn(t.arg);
		hal_callback_leave();
		pthread_mutex_lock(&fake.lock);
		if (!(t.flags & NPU_CALLBACK_NOBLOCK)) {
			s->busy = false;
			complete_locked(s);
		}
		calling = NULL;
		pthread_cond_broadcast(&fake.work);
	}
	pthread_mutex_unlock(&fake.lock);
	return NULL;
}

int fake_worker_start(void)
{
	pthread_condattr_t attr;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fake.work, &attr);
	pthread_cond_init(&fake.done, &attr);
	pthread_condattr_destroy(&attr);
	hal_list_init(&fake.streams);
	fake.stop = false;
	rc = -hal_sys_libc.thread_create(&worker, work, NULL);
	if (rc)
		return rc;
	rc = -hal_sys_libc.thread_create(&caller, call, NULL);
	if (rc) {
		fake.stop = true;
		pthread_join(worker, NULL);
	}
	return rc;
}

void fake_worker_stop(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.stop = true;
	pthread_cond_broadcast(&fake.work);
	pthread_mutex_unlock(&fake.lock);
	pthread_join(worker, NULL);
	pthread_join(caller, NULL);
	pthread_cond_destroy(&fake.work);
	pthread_cond_destroy(&fake.done);
}

void fake_pause(bool paused)
{
	pthread_mutex_lock(&fake.lock);
	fake.paused = paused;
	pthread_cond_broadcast(&fake.work);
	pthread_mutex_unlock(&fake.lock);
}

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
	publish_locked(s);
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
	while (unhost_locked(s), calling == s || s->busy || s->beginning)
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

static void host_done(struct hal_stream *base, uint64_t seq, int code)
{
	struct fake_stream *s = to_fake_stream(base);
	const struct fake_task *t;

	pthread_mutex_lock(&fake.lock);
	t = &s->ring[hal_load_relaxed(&s->head) % FAKE_QUEUED];
	if (s->hosted && t->base.seq == seq) {
		if (code)
			task_failed_locked(s, t, code, 0);
		host_ended_locked(s);
	}
	pthread_mutex_unlock(&fake.lock);
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
	while (!rc && completed(s) < seq)
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
	publish_locked(s);
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
	notify_locked(s);
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
	while (unhost_locked(s), !rc && !idle_locked(s))
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
		unhost_locked(s);
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
		t->op = op_names[k->kind];
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
	.host_done = host_done,
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
