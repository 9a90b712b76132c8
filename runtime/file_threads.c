// SPDX-License-Identifier: MIT
/*
 * Reads and writes by threads, where there is no io_uring: a few of them keep a disk
 * as busy.
 */
#include "runtime/file.h"

#define THREADS 8u

/*
 * lock Protects: all but the threads.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct hal_list queue, ended;
static uint32_t idle;
static bool stopping, woken;
static pthread_t threads[THREADS];
static uint32_t thread_count;

static void carry_out(struct rt_io_op *op)
{
	if (op->write)
		op->result = rt_file_sys->pwrite(op->fd, op->buf, op->size, op->offset);
	else
		op->result = rt_file_sys->pread(op->fd, op->buf, op->size, op->offset);
}

static void *thread_main(void *arg)
{
	struct rt_io_op *op;

	(void)arg;
	pthread_mutex_lock(&lock);
	for (;;) {
		idle++;
		while (!stopping && hal_list_empty(&queue))
			pthread_cond_wait(&work, &lock);
		idle--;
		if (stopping)
			break;
		op = hal_list_entry(queue.next, struct rt_io_op, node);
		hal_list_del(&op->node);
		pthread_mutex_unlock(&lock);
		carry_out(op);
		pthread_mutex_lock(&lock);
		hal_list_add_tail(&ended, &op->node);
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void threads_stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_broadcast(&work);
	pthread_mutex_unlock(&lock);
	while (thread_count)
		pthread_join(threads[--thread_count], NULL);
}

static int add_thread(void)
{
	int err;

	err = hal_sys_thread_create(&threads[thread_count], "npu-io", thread_main, NULL);
	if (!err)
		thread_count++;
	return err;
}

/* One is enough to go on with; the others come when there is something for them. */
static int threads_start(void)
{
	hal_list_init(&queue);
	hal_list_init(&ended);
	stopping = woken = false;
	idle = 0;
	return add_thread();
}

static void threads_issue(struct rt_io_op *op)
{
	bool more;

	pthread_mutex_lock(&lock);
	hal_list_add_tail(&queue, &op->node);
	more = hal_list_count(&queue) > idle && thread_count < THREADS;
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	if (more)
		(void)add_thread();
}

static uint32_t threads_reap(struct rt_io_op **done, bool block)
{
	uint32_t n = 0;

	pthread_mutex_lock(&lock);
	while (block && !woken && hal_list_empty(&ended))
		pthread_cond_wait(&changed, &lock);
	woken = false;
	while (n < RT_IO_DEPTH && !hal_list_empty(&ended)) {
		done[n] = hal_list_entry(ended.next, struct rt_io_op, node);
		hal_list_del(&done[n++]->node);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

static void threads_wake(void)
{
	pthread_mutex_lock(&lock);
	woken = true;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

const struct rt_io_backend rt_io_threads = {
	.name = "threads",
	.start = threads_start,
	.stop = threads_stop,
	.issue = threads_issue,
	.reap = threads_reap,
	.wake = threads_wake,
};
