// SPDX-License-Identifier: MIT
/*
 * Jobs: work in pieces that several threads share, each with a token.
 */
#include <sched.h>

#include "drivers/simnpu/model/hot.h"

#define SPINS		256u
#define REST_NS		50000u

/* Takes a block, from the front or from the back; false: none is left. */
static bool take(struct model_job *job, bool front, uint32_t *i)
{
	/* relaxed: the job itself is published by the lock of its list */
	uint64_t range = hal_load_relaxed(&job->range), next;
	uint32_t lo, hi;

	do {
		lo = (uint32_t)range;
		hi = (uint32_t)(range >> 32);
		if (lo >= hi)
			return false;
		next = front ? range + 1 : range - (1ull << 32);
	} while (!atomic_compare_exchange_weak_explicit(&job->range, &range, next,
							memory_order_relaxed,
							memory_order_relaxed));
	*i = front ? lo : hi - 1;
	return true;
}

/* Gets as many threads as could help to look for jobs. */
static void call_helpers(struct model_device *dev, enum model_class class, uint32_t blocks)
{
	uint32_t want = model_tokens_free(dev, class);
	uint32_t idle = atomic_load(&dev->idle);

	if (want > blocks - 1)
		want = blocks - 1;
	if (!want)
		return;
	if (idle)
		model_bell(dev);
	for (; want > idle; want--)
		if (model_thread_need(dev))
			break;
}

/**
 * model_job_run() - run all blocks of a job
 * @job: the job; class and run are set
 * @dev: the device
 * @token: the token that the caller has
 * @count: blocks, at least 1
 * @wake: whether it is worth waking others
 *
 * Returns when all are done.
 */
void model_job_run(struct model_job *job, struct model_device *dev, uint32_t token,
		   uint32_t count, bool wake)
{
	uint32_t i, n;

	hal_store_relaxed(&job->range, (uint64_t)count << 32);
	hal_store_relaxed(&job->helpers, 0);
	hal_spin_lock(&dev->sched);
	hal_list_add_tail(&dev->jobs, &job->node);
	hal_spin_unlock(&dev->sched);
	hal_store_relaxed(&dev->job_cpu, sched_getcpu());	/* a hint */
	atomic_fetch_add(&dev->job_count, 1);
	if (wake)
		call_helpers(dev, job->class, count);
	while (take(job, true, &i))
		job->run(job, dev, token, i);
	hal_spin_lock(&dev->sched);
	hal_list_del(&job->node);
	hal_spin_unlock(&dev->sched);
	atomic_fetch_sub(&dev->job_count, 1);
	/* acquire: what the helpers wrote is seen */
	for (i = 0; (n = hal_load_acquire(&job->helpers)); i++) {
		if (i < SPINS)
			hal_cpu_relax();
		else if (i < 2 * SPINS)
			sched_yield();
		else
			hal_sys_futex_wait(&job->helpers, n, hal_sys_now() + REST_NS);
	}
}

/* Under sched. */
static struct model_job *job_find(struct model_device *dev, uint32_t *token)
{
	struct hal_list *pos;
	struct model_job *job;
	uint64_t range;

	hal_list_for_each(pos, &dev->jobs) {
		job = hal_list_entry(pos, struct model_job, node);
		range = hal_load_relaxed(&job->range);
		if ((uint32_t)range >= range >> 32)
			continue;
		if (model_token_get(dev, job->class, token))
			return job;
	}
	return NULL;
}

/**
 * model_job_take() - look for a job to help with
 * @dev: the device
 * @token: out: a token for it
 *
 * Return: the job, which stays until model_job_help(), or NULL.
 */
struct model_job *model_job_take(struct model_device *dev, uint32_t *token)
{
	struct model_job *job;

	if (!atomic_load(&dev->job_count) || model_paused(dev))
		return NULL;
	hal_spin_lock(&dev->sched);
	job = job_find(dev, token);
	if (job)
		atomic_fetch_add(&job->helpers, 1);
	hal_spin_unlock(&dev->sched);
	return job;
}

/**
 * model_job_help() - help with a job
 * @job: the job, taken
 * @dev: the device
 * @token: the token
 */
void model_job_help(struct model_job *job, struct model_device *dev, uint32_t token)
{
	enum model_class class = job->class;
	uint32_t i;

	while (take(job, false, &i))
		job->run(job, dev, token, i);
	model_token_put(dev, class, token);
	/* release: what was written is seen by the owner; the job may be gone from here on */
	atomic_fetch_sub_explicit(&job->helpers, 1, memory_order_release);
}
