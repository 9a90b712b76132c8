// SPDX-License-Identifier: MIT
/*
 * Reads and writes by io_uring.
 *
 * liburing is opened at run time, so that the library starts without it; what its
 * header has inline is all that goes into this file. Where the kernel, the rules of a
 * container or a missing library stand in the way, start() says so, and threads do the
 * work.
 */
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "runtime/file.h"

/* Those that are under way, and the wake-up. */
#define ENTRIES 64u
_Static_assert(ENTRIES > RT_IO_DEPTH, "all fit");

#define FUNCTIONS(X)									\
	X(int, io_uring_queue_init, (unsigned int, struct io_uring *, unsigned int))	\
	X(void, io_uring_queue_exit, (struct io_uring *))				\
	X(int, io_uring_submit_and_wait, (struct io_uring *, unsigned int))

#define DECLARE(ret, name, args) ret (*name) args;
static struct {
	FUNCTIONS(DECLARE)
} lib;

static void *handle;
static struct io_uring ring;
static int wake_fd = -1;
static bool armed;

static int resolve(void)
{
	void *sym;
	int err;

	err = hal_sys_dlopen("liburing.so.2", &handle);
	if (err)
		return err;
#define RESOLVE(ret, name, args)				\
	err = hal_sys_dlsym(handle, #name, &sym);		\
	if (err)						\
		goto close;					\
	lib.name = (ret (*) args)sym;
	FUNCTIONS(RESOLVE)
	return 0;
close:
	hal_sys_dlclose(handle);
	handle = NULL;
	return err;
}

static int uring_start(void)
{
	int err;

	err = resolve();
	if (err)
		return err;
	wake_fd = hal_sys_eventfd();
	err = wake_fd;
	if (err < 0)
		goto close;
	err = lib.io_uring_queue_init(ENTRIES, &ring, 0);
	if (err)
		goto close_fd;
	armed = false;
	return 0;
close_fd:
	hal_sys_close(&hal_sys_libc, wake_fd);
close:
	hal_sys_dlclose(handle);
	handle = NULL;
	return err;
}

static void uring_stop(void)
{
	lib.io_uring_queue_exit(&ring);
	hal_sys_close(&hal_sys_libc, wake_fd);
	hal_sys_dlclose(handle);
	handle = NULL;
}

static void uring_issue(struct rt_io_op *op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (op->write)
		io_uring_prep_write(sqe, op->fd, op->buf, op->size, op->offset);
	else
		io_uring_prep_read(sqe, op->fd, op->buf, op->size, op->offset);
	io_uring_sqe_set_data(sqe, op);
}

/* The wake-up is a completion as others are, without an op. */
static void arm(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_poll_add(sqe, wake_fd, POLLIN);
	io_uring_sqe_set_data(sqe, NULL);
	armed = true;
}

static uint32_t uring_reap(struct rt_io_op **done, bool block)
{
	struct io_uring_cqe *cqe;
	uint32_t n = 0, seen = 0;
	unsigned int head;
	eventfd_t count;
	int rc;

	if (!armed)
		arm();
	rc = lib.io_uring_submit_and_wait(&ring, block);
	/* the kernel is short of something; what it took goes on meanwhile */
	if (rc < 0 && rc != -EINTR)
		poll(NULL, 0, 1);
	io_uring_for_each_cqe(&ring, head, cqe) {
		if (n == RT_IO_DEPTH)
			break;
		seen++;
		if (!io_uring_cqe_get_data(cqe)) {
			(void)eventfd_read(wake_fd, &count);
			armed = false;
			continue;
		}
		done[n] = io_uring_cqe_get_data(cqe);
		done[n++]->result = cqe->res;
	}
	io_uring_cq_advance(&ring, seen);
	return n;
}

/* Does not fail for want of anything, nor may it: it is not in the seam of hal/sys.h. */
static void uring_wake(void)
{
	(void)eventfd_write(wake_fd, 1);
}

const struct rt_io_backend rt_io_uring = {
	.name = "io_uring",
	.start = uring_start,
	.stop = uring_stop,
	.issue = uring_issue,
	.reap = uring_reap,
	.wake = uring_wake,
};
