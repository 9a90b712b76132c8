// SPDX-License-Identifier: MIT
/*
 * The fake driver's threads: one worker for the tasks of all streams, one for callbacks.
 */
#include <errno.h>
#include <string.h>

#include "hal/context.h"
#include "hal/sys.h"
#include "npu/simnpu_ops.h"
#include "selftests/fakes/internal.h"

static pthread_t worker, caller;
/* The stream whose callback runs, or is to run; under fake.lock. */
static struct fake_stream *calling;

const char *const fake_op_names[] = {
	"launch", "copy", "fill", "stream_wait", "event_record", "stream_callback",
	"file_io",
};

void fake_publish_locked(struct fake_stream *s)
{
	uint64_t w = fake_completed(s) | (s->error_count || s->dropped ? HAL_TIMELINE_ERROR : 0);

	hal_shm_store_release(&s->word->word, w);
}

/* Whether the callback of a stream runs, or is to run. */
bool fake_calls_locked(const struct fake_stream *s)
{
	return calling == s;
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
	if (s->error_count < FAKE_ERRORS)
		s->errors[s->error_count++] = *e;
	else
		s->dropped++;
}

void fake_notify_locked(struct fake_stream *s)
{
	uint64_t one = 1;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(s->notices); i++) {
		if (!s->notices[i].seq || s->notices[i].seq > fake_completed(s))
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
	fake_publish_locked(s);
	fake_notify_locked(s);
	pthread_cond_broadcast(&fake.done);
	pthread_cond_broadcast(&fake.work);
}

static void task_failed_locked(struct fake_stream *s, const struct fake_task *t, int code,
			       uint64_t addr)
{
	struct hal_task_error e = {
		.seq = t->base.seq, .code = code, .vendor = 4711, .op = fake_op_names[t->kind],
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
void fake_unhost_locked(struct fake_stream *s)
{
	if (s->hosted && !s->beginning)
		host_ended_locked(s);
}

/* The end of a host task. */
void fake_host_done(struct hal_stream *base, uint64_t seq, int code)
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
	int rc;

	hal_cond_init(&fake.work);
	hal_cond_init(&fake.done);
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
