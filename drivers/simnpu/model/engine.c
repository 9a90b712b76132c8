// SPDX-License-Identifier: MIT
/*
 * Engine threads, and the looks that they take at the rings.
 *
 * To wake a thread costs tens of microseconds, so nobody is woken while the
 * device is active: a thread without work naps, looks at the rings every 50 us
 * and runs what it finds. As long as a thread runs something, another one naps
 * and takes the looks over. A queue without work for 10 ms is let go: its
 * doorbell is set and it has to be kicked. A device without queues to look at
 * and without work sleeps.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "drivers/simnpu/model/hot.h"
#include "drivers/simnpu/simnpu_test.h"

#define SLACK_NS	1000u
#define SLICE_NS	500000u
#define NAPPERS		2u	/* more than these fall asleep */
#define BARRIER_TRIES	1000u
#define BARRIER_NAP_NS	1000000
#define MOVE_EVERY	16u	/* naps */
#define RETIRE_EVERY	(MODEL_RETIRE_NS / 4)
#define WINDOW_NS	500000000ull	/* utilization: of this one and the one before */

/* What the system calls sched_getattr and sched_setattr pass, in their first version. */
struct sched_attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime;
	uint64_t deadline;
	uint64_t period;
};

static void *engine_main(void *arg);
static void want_kicks(struct model_device *dev);

/* ---- waking ---------------------------------------------------------------------- */

/* Cuts naps short. */
void model_bell(struct model_device *dev)
{
	atomic_fetch_add(&dev->bell, 1);
	model_count(wakes);
	hal_sys_futex_wake(&dev->bell, INT_MAX);
}

/* Counts a thread in before it gets up, so that no second one is called for the same. */
static void count_in(struct model_device *dev)
{
	atomic_fetch_add(&dev->awake, 1);
	atomic_fetch_add(&dev->idle, 1);
}

static void count_out(struct model_device *dev)
{
	atomic_fetch_sub(&dev->idle, 1);
	atomic_fetch_sub(&dev->awake, 1);
}

static bool take_sleeper(struct model_device *dev)
{
	uint32_t n = atomic_load(&dev->sleepers);

	while (n)
		if (atomic_compare_exchange_weak(&dev->sleepers, &n, n - 1))
			return true;
	return false;
}

static int thread_new(struct model_device *dev)
{
	char name[32];
	uint32_t n;
	int rc = 0;

	pthread_mutex_lock(&dev->thread_lock);
	n = hal_load_relaxed(&dev->thread_count);
	if (n < dev->thread_max && !atomic_load(&dev->stop)) {
		count_in(dev);
		snprintf(name, sizeof(name), "simnpu%u/%u", dev->index, n);
		rc = -model_fault(SIMNPU_FAIL_THREAD);
		if (!rc)
			rc = hal_sys_thread_create(&dev->threads[n], name, engine_main, dev);
		if (rc)
			count_out(dev);
		else
			hal_store_relaxed(&dev->thread_count, n + 1);
	}
	pthread_mutex_unlock(&dev->thread_lock);
	if (!rc)
		return 0;
	hal_warn(HAL_LOG_MODEL, "simnpu%u: no engine thread: errno %d", dev->index, -rc);
	if (!n)
		want_kicks(dev);
	return -ENOMEM;
}

/**
 * model_thread_need() - one more engine thread should be awake
 * @dev: the device
 *
 * Return: 0; -ENOMEM: there is none asleep and none could be made.
 */
int model_thread_need(struct model_device *dev)
{
	if (take_sleeper(dev)) {
		count_in(dev);
		atomic_fetch_add(&dev->grants, 1);
		model_count(wakes);
		hal_sys_futex_wake(&dev->grants, 1);
		return 0;
	}
	if (hal_load_relaxed(&dev->thread_count) >= dev->thread_max)
		return 0;
	return thread_new(dev);
}

/**
 * model_kick() - SIMNPU_IOCTL_KICK
 * @q: the queue
 *
 * Return: 0; -ENOMEM: no thread to run it; the doorbell stays set, and it runs at the next kick,
 * wait or notification.
 */
int model_kick(struct model_queue *q)
{
	struct model_device *dev = q->dev;
	struct model_queue *first;

	model_count(kicks);
	hal_store_relaxed(&dev->host_cpu, sched_getcpu());	/* a hint */
	if (!atomic_exchange(&q->active, 1)) {
		/* nobody else changes the doorbell of a queue that is on its way */
		hal_shm_store_release(&hal_load_relaxed(&q->header)->doorbell, 0);
		first = hal_load_relaxed(&dev->kicked);
		do
			q->kicked = first;
		while (!atomic_compare_exchange_weak(&dev->kicked, &first, q));
	}
	/* a thread looks at kicked before it falls asleep; is there one? */
	if (likely(atomic_load(&dev->idle)))
		return 0;
	return model_thread_need(dev);
}

/**
 * model_barrier() - make all processors of the process pass a barrier
 * @dev: the device; without @asym everybody passes barriers for himself
 *
 * It has worked when the device was made, and fails for want of memory at the most.
 */
void model_barrier(struct model_device *dev)
{
	const struct timespec nap = { .tv_nsec = BARRIER_NAP_NS };
	uint32_t i;

	if (!dev->asym)
		return;
	for (i = 0; hal_sys_membarrier(); i++) {
		if (i == BARRIER_TRIES) {
			hal_err(HAL_LOG_MODEL, "simnpu%u: the system has no barrier any more",
				dev->index);
			return;
		}
		nanosleep(&nap, NULL);
	}
}

/* ---- looking ------------------------------------------------------------------------ */

/* Under look_lock. */
static void active_add(struct model_queue *q)
{
	struct model_device *dev = q->dev;
	uint32_t n = hal_load_relaxed(&dev->active_count);

	if (hal_load_acquire(&q->run) == RUN_DEAD || n == dev->active_room) {
		hal_store_release(&q->active, 0);
		return;
	}
	q->active_index = n;
	q->seen_seq = 0;
	q->seen_ns = hal_load_relaxed(&dev->last_look);
	dev->active[n] = q;
	hal_store_relaxed(&dev->active_count, n + 1);
}

/* Under look_lock. */
static void active_del(struct model_queue *q)
{
	struct model_device *dev = q->dev;
	uint32_t n = hal_load_relaxed(&dev->active_count) - 1;

	dev->active[q->active_index] = dev->active[n];
	dev->active[q->active_index]->active_index = q->active_index;
	hal_store_relaxed(&dev->active_count, n);
}

/* Under look_lock. */
static void take_kicked(struct model_device *dev)
{
	struct model_queue *q = atomic_exchange(&dev->kicked, NULL), *next;

	for (; q; q = next) {
		next = q->kicked;
		active_add(q);
	}
}

/*
 * There is no thread, though for a moment it was counted in: the doorbells of all queues that rely
 * on it are set again, so that it is asked for by whoever brings more work.
 */
static void want_kicks(struct model_device *dev)
{
	uint32_t i;

	pthread_mutex_lock(&dev->look_lock);
	take_kicked(dev);
	for (i = 0; i < hal_load_relaxed(&dev->active_count); i++)
		hal_shm_store_release(&hal_load_relaxed(&dev->active[i]->header)->doorbell, 1);
	pthread_mutex_unlock(&dev->look_lock);
}

/* Puts a queue into its ready list if something waits at its head. */
static void look_at(struct model_queue *q)
{
	uint32_t idle = RUN_IDLE;

	if (hal_load_acquire(&q->run) != RUN_IDLE)
		return;
	if (!model_head_hint(q)) {
		if (unlikely(hal_load_relaxed(&q->stop)))
			model_queue_tidy(q);
		return;
	}
	if (!atomic_compare_exchange_strong(&q->run, &idle, RUN_RUNNING))
		return;
	if (model_head_valid(q))
		model_ready(q, model_op_class(hal_load_relaxed(&q->slot)));
	else
		model_release(q);
}

/* Whether a queue has had no work for long. Under look_lock. */
static bool retirable(struct model_queue *q, uint64_t now)
{
	uint64_t seq = hal_load_relaxed(&q->next_seq);
	uint32_t run = hal_load_relaxed(&q->run);

	if (seq != q->seen_seq || run == RUN_READY || run == RUN_RUNNING) {
		q->seen_seq = seq;
		q->seen_ns = now;
	}
	return now - q->seen_ns >= MODEL_RETIRE_NS;
}

/*
 * Lets queues go that have had no work for long. Who publishes a task and does
 * not see the doorbell set, has published it before the barrier, and it is seen
 * in the look behind it. A thread that has the queue may have looked earlier, and
 * be on its way out. Under look_lock.
 */
static void retire(struct model_device *dev, uint64_t now)
{
	struct model_queue *gone = NULL, *q;
	uint32_t i, run;

	dev->last_retire = now;
	for (i = hal_load_relaxed(&dev->active_count); i--;) {
		q = dev->active[i];
		if (!retirable(q, now))
			continue;
		hal_shm_store_release(&hal_load_relaxed(&q->header)->doorbell, 1);
		active_del(q);
		q->retired = gone;
		gone = q;
	}
	if (!gone)
		return;
	for (q = gone; q; q = q->retired)
		atomic_store(&q->active, 0);
	/* else submitters pass a barrier themselves: SIMNPU_CONTEXT_FENCE */
	model_barrier(dev);
	for (q = gone; q; q = q->retired) {
		run = hal_load_acquire(&q->run);
		if ((run == RUN_IDLE || run == RUN_RUNNING) && model_head_hint(q))
			model_kick(q);
	}
}

/* Notes how many cores are busy. */
static void sample(struct model_device *dev, uint64_t now, bool busy)
{
	uint32_t used = dev->cores - model_tokens_free(dev, CLASS_CORE);
	uint64_t since;

	hal_spin_lock(&dev->busy_lock);
	if (now - dev->busy_from >= WINDOW_NS) {
		/* nothing was noted for long: it slept */
		dev->busy_prev = now - dev->busy_from >= 2 * WINDOW_NS ? 0 : dev->busy_ns;
		dev->busy_ns = 0;
		dev->busy_from = now;
	}
	since = now - dev->busy_last;
	if (busy && now > dev->busy_last)
		dev->busy_ns += used * (since < WINDOW_NS ? since : WINDOW_NS);
	dev->busy_last = now;
	hal_spin_unlock(&dev->busy_lock);
}

/* Per cent of core time that was busy in the last half to whole second. */
uint32_t model_utilization(struct model_device *dev)
{
	uint64_t now = hal_sys_now(), busy, time;

	sample(dev, now, hal_load_relaxed(&dev->awake) != 0);
	hal_spin_lock(&dev->busy_lock);
	time = now - dev->busy_from + WINDOW_NS;
	busy = (dev->busy_ns + dev->busy_prev) / dev->cores;
	hal_spin_unlock(&dev->busy_lock);
	busy = busy * 100 / time;
	return busy < 100 ? (uint32_t)busy : 100;
}

/**
 * model_look() - look at the rings, and put what is to run into ready lists
 * @dev: the device
 * @now: the time
 */
void model_look(struct model_device *dev, uint64_t now)
{
	uint32_t i;

	if (pthread_mutex_trylock(&dev->look_lock))
		return;
	hal_store_relaxed(&dev->last_look, now);
	model_count(looks);
	if (hal_load_relaxed(&dev->kicked))
		take_kicked(dev);
	for (i = 0; i < hal_load_relaxed(&dev->active_count); i++)
		look_at(dev->active[i]);
	sample(dev, now, true);
	if (now - dev->last_retire >= RETIRE_EVERY)
		retire(dev, now);
	pthread_mutex_unlock(&dev->look_lock);
}

/* Takes a queue out of the active set. It is dead, so it does not come back. */
void model_active_remove(struct model_queue *q)
{
	struct model_device *dev = q->dev;

	pthread_mutex_lock(&dev->look_lock);
	/* one that is on its way is dropped here, since it is dead */
	take_kicked(dev);
	if (hal_load_relaxed(&q->active) &&
	    q->active_index < hal_load_relaxed(&dev->active_count) &&
	    dev->active[q->active_index] == q) {
		active_del(q);
		hal_store_release(&q->active, 0);
	}
	pthread_mutex_unlock(&dev->look_lock);
}

/* ---- threads -------------------------------------------------------------------------- */

static bool work_in_sight(struct model_device *dev)
{
	return atomic_load(&dev->kicked) || atomic_load(&dev->ready_map) ||
	       atomic_load(&dev->job_count) || hal_load_relaxed(&dev->active_count) ||
	       atomic_load(&dev->stop);
}

static bool take_grant(struct model_device *dev)
{
	uint32_t n = atomic_load(&dev->grants);

	while (n)
		if (atomic_compare_exchange_weak(&dev->grants, &n, n - 1))
			return true;
	return false;
}

/* Goes to the core @cpu, or with @away to any but that one, and stays free to be moved again. */
static void move(int cpu, bool away)
{
	cpu_set_t was, set;

	if (cpu < 0 || cpu >= CPU_SETSIZE || (sched_getcpu() == cpu) != away ||
	    sched_getaffinity(0, sizeof(was), &was))
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (away)
		CPU_XOR(&set, &set, &was);
	CPU_AND(&set, &set, &was);
	if (CPU_COUNT(&set) && !sched_setaffinity(0, sizeof(set), &set))
		sched_setaffinity(0, sizeof(was), &was);
}

/*
 * Sleeps until somebody needs a thread. The thread counts itself out first and
 * looks for work afterwards; who brings work looks for idle threads afterwards.
 * It sleeps on the host's core: a wake there takes a fifth of one across cores.
 */
static void fall_asleep(struct model_device *dev, bool last)
{
	atomic_fetch_add(&dev->sleepers, 1);
	count_out(dev);
	/* unless somebody else looks, there must be neither work nor anybody who may bring some */
	if (!atomic_load(&dev->idle) &&
	    (!last || work_in_sight(dev) || atomic_load(&dev->awake)) && take_sleeper(dev)) {
		count_in(dev);
		return;
	}
	move(hal_load_relaxed(&dev->host_cpu), false);
	while (!take_grant(dev))
		hal_sys_futex_wait(&dev->grants, 0, UINT64_MAX);
}

/* Passes the time, as the state of the device allows. */
static void rest(struct model_worker *w, uint32_t bell)
{
	struct model_device *dev = w->dev;
	uint32_t idle = atomic_load(&dev->idle);
	uint64_t nap = MODEL_LOOK_NS;

	if (atomic_load(&dev->stop))
		return;
	if (idle > NAPPERS || (!work_in_sight(dev) && atomic_load(&dev->awake) == idle)) {
		fall_asleep(dev, idle <= NAPPERS);
		w->naps = 0;
		return;
	}
	/* a device that stays active does not keep interrupting the host */
	if (w->naps++ % MOVE_EVERY == 1)
		move(hal_load_relaxed(&dev->host_cpu), true);
	if (!model_tokens_free(dev, CLASS_CORE))
		nap = 4 * MODEL_LOOK_NS;	/* all cores compute, which a nap interrupts */
	else if (idle > 1)
		nap = 2 * MODEL_LOOK_NS;	/* a second pair of eyes */
	hal_sys_futex_wait(&dev->bell, bell, hal_sys_now() + nap);
}

/* Whether no queue but @q, which is being run, is to be looked at; false: not known. */
static bool only_queue(struct model_device *dev, const struct model_queue *q)
{
	uint32_t n;
	bool only;

	if (pthread_mutex_trylock(&dev->look_lock))
		return false;
	n = hal_load_relaxed(&dev->active_count);
	only = !atomic_load(&dev->kicked) && (!n || (n == 1 && dev->active[0] == q));
	pthread_mutex_unlock(&dev->look_lock);
	return only;
}

/* While the caller runs @q, or helps with a job, somebody has to look at the other queues. */
static void leave_looking(struct model_device *dev, const struct model_queue *q)
{
	if (!atomic_load(&dev->idle) && !(q && only_queue(dev, q)))
		model_thread_need(dev);
}

/* From looking for work to working: what else is ready is taken by others. */
static void leave_idle(struct model_device *dev, const struct model_queue *q)
{
	uint32_t left = atomic_fetch_sub(&dev->idle, 1) - 1;

	if (left < model_ready_takeable(dev))
		model_thread_need(dev);
	else
		leave_looking(dev, q);
}

static bool work(struct model_worker *w)
{
	struct model_device *dev = w->dev;
	struct model_queue *q = model_ready_pop(w);
	enum model_left left;

	if (!q)
		return false;
	leave_idle(dev, q);
	for (;;) {
		left = model_run(w, q);
		if (left == LEFT_EMPTY)
			model_release(q);
		/* there may have been nobody to look */
		sample(dev, hal_sys_now(), true);
		model_worker_drop(w);
		q = model_ready_pop(w);
		if (!q)
			break;
		leave_looking(dev, q);
	}
	atomic_fetch_add(&dev->idle, 1);
	return true;
}

static bool help(struct model_device *dev)
{
	struct model_job *job;
	uint32_t token;

	job = model_job_take(dev, &token);
	if (!job)
		return false;
	leave_idle(dev, job->queue);
	/* not behind the one it helps */
	move(hal_load_relaxed(&dev->job_cpu), true);
	model_job_help(job, dev, token);
	atomic_fetch_add(&dev->idle, 1);
	return true;
}

/*
 * A thread that is woken runs at once, not when the host's thread on the core has used its time
 * up: the scheduler prefers who asks for less at a time. Kernels before 6.12 take no notice.
 */
static void ask_short_slice(void)
{
	struct sched_attributes a = { 0 };	/* valgrind does not know who fills it */

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) || a.policy != SCHED_OTHER)
		return;
	a.runtime = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *engine_main(void *arg)
{
	struct model_device *dev = arg;
	struct model_worker w = { .dev = dev, .modules = true };
	uint32_t bell;
	uint64_t now;

	ask_short_slice();
	prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK_NS, 0, 0, 0);
	while (!atomic_load(&dev->stop)) {
		bell = atomic_load(&dev->bell);
		now = hal_sys_now();
		if (atomic_load(&dev->kicked) ||
		    now - hal_load_relaxed(&dev->last_look) >= MODEL_LOOK_NS / 2)
			model_look(dev, now);
		if (!work(&w) && !help(dev))
			rest(&w, bell);
	}
	return NULL;
}

static uint32_t stop_threads(struct model_device *dev)
{
	uint32_t n;

	atomic_store(&dev->stop, true);
	pthread_mutex_lock(&dev->thread_lock);
	n = hal_load_relaxed(&dev->thread_count);
	pthread_mutex_unlock(&dev->thread_lock);
	atomic_fetch_add(&dev->grants, MODEL_THREADS_MAX);
	hal_sys_futex_wake(&dev->grants, INT_MAX);
	model_bell(dev);
	return n;
}

/**
 * model_engine_abandon() - end those engine threads that can, without waiting
 * @dev: the device, lost
 */
void model_engine_abandon(struct model_device *dev)
{
	uint32_t i, n = stop_threads(dev);

	for (i = 0; i < n; i++)
		pthread_detach(dev->threads[i]);
}

/**
 * model_engine_stop() - end the engine threads
 * @dev: the device, all of whose queues are destroyed
 */
void model_engine_stop(struct model_device *dev)
{
	uint32_t i, n = stop_threads(dev);

	for (i = 0; i < n; i++)
		pthread_join(dev->threads[i], NULL);
	hal_store_relaxed(&dev->thread_count, 0);
	atomic_store(&dev->awake, 0);
	atomic_store(&dev->idle, 0);
	atomic_store(&dev->sleepers, 0);
	atomic_store(&dev->grants, 0);
}
