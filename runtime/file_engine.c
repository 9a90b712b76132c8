// SPDX-License-Identifier: MIT
/*
 * The engine: transfers that are submitted, begin, are carried out and end.
 *
 * A transfer in a stream is found by a token, not by its address: one that was
 * discarded before it began is only found out later, when somebody looks at its
 * point; whoever begins it then finds nothing. Tokens are never used again, and
 * their table stays for the life of the process.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/file.h"
#include "runtime/file_engine.h"

#define SLOTS_MAX (1u << 21)	/* more than streams of one device hold by default */

/* A token is generation and index of one of these. */
struct slot {
	struct rt_io *io;
	uint32_t gen;
	uint32_t next_free;
};

/*
 * lock Protects: all below but the thread's own, and struct rt_io.token, .holders.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static const struct rt_io_backend *backend;	/* NULL: the thread does not run */
static pthread_t thread;
static bool stop;
static struct hal_list waiting = { &waiting, &waiting };	/* submitted, have not begun */
static struct hal_list fresh = { &fresh, &fresh };		/* have begun, for the thread */
static struct hal_list begun = { &begun, &begun };		/* all that the engine has */
static struct slot *slots;
static uint32_t slot_room, slot_count, slot_free;	/* free: 1 + index, 0: none */

_Static_assert(sizeof(void *) == sizeof(uint64_t), "a token is an argument of a task");

/* ---- tokens ----------------------------------------------------------------------- */

static int slot_grow_locked(void)
{
	uint32_t room = slot_room ? slot_room * 2 : 64;
	struct slot *more;

	if (room > SLOTS_MAX)
		return -ENOMEM;
	more = hal_zalloc(room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	if (slot_count)
		memcpy(more, slots, slot_count * sizeof(*more));
	free(slots);
	slots = more;
	slot_room = room;
	return 0;
}

static int token_get_locked(struct rt_io *io)
{
	uint32_t i;

	if (slot_free) {
		i = slot_free - 1;
		slot_free = slots[i].next_free;
	} else {
		if (slot_count == slot_room && slot_grow_locked())
			return -ENOMEM;
		i = slot_count++;
	}
	slots[i].io = io;
	io->token = (uint64_t)++slots[i].gen << 32 | i;
	return 0;
}

static struct rt_io *token_find_locked(uint64_t token)
{
	uint32_t i = (uint32_t)token;

	return i < slot_count && slots[i].gen == (uint32_t)(token >> 32) ? slots[i].io : NULL;
}

static void token_put_locked(struct rt_io *io)
{
	struct slot *s;

	if (!io->token)
		return;
	s = &slots[(uint32_t)io->token];
	s->io = NULL;
	s->gen++;
	s->next_free = slot_free;
	slot_free = (uint32_t)io->token + 1;
	io->token = 0;
}

/* ---- the thread's life ------------------------------------------------------------ */

static int backend_start(const struct rt_io_backend **b)
{
	struct rt_record before;
	int err = -EOPNOTSUPP;

	rt_record_save(&before);
	if (IS_ENABLED(CONFIG_IO_URING) && hal_option_bool(rt_options, "io_uring")) {
		*b = &rt_io_uring;
		err = (*b)->start();
		if (err)
			hal_info(HAL_LOG_RUNTIME, "files: no io_uring: %s",
				 hal_errno_name(err) ? hal_errno_name(err) : "?");
	}
	if (err) {
		*b = &rt_io_threads;
		err = (*b)->start();
	}
	rt_record_restore(&before);
	return err;
}

static int start_locked(void)
{
	const struct rt_io_backend *b;
	int err;

	if (backend)
		return 0;
	err = backend_start(&b);
	if (err)
		return hal_fail(-ENOMEM, "file_io", "no thread for files");
	hal_cond_init(&ended);
	stop = false;
	err = hal_sys_thread_create(&thread, "npu-file", rt_io_thread, (void *)(uintptr_t)b);
	if (err) {
		b->stop();
		pthread_cond_destroy(&ended);
		return hal_fail(-ENOMEM, "file_io", "no thread for files");
	}
	backend = b;
	return 0;
}

/* What the thread is to do next; false: to end. */
bool rt_io_take(struct hal_list *active)
{
	struct hal_list *n;

	pthread_mutex_lock(&lock);
	while (!hal_list_empty(&fresh)) {
		n = fresh.next;
		hal_list_del(n);
		hal_list_add_tail(active, n);
	}
	if (stop && hal_list_empty(active)) {
		pthread_mutex_unlock(&lock);
		return false;
	}
	pthread_mutex_unlock(&lock);
	return true;
}

/* Gives one hold back; with the last it goes. */
static void drop_locked(struct rt_io *io)
{
	if (--io->holders)
		return;
	token_put_locked(io);
	rt_io_free(io);
}

/* The thread has done with a transfer, whose windows are closed. */
void rt_io_ended(struct rt_io *io)
{
	if (io->point.seq)
		hal_host_done(&io->point, io->err);
	pthread_mutex_lock(&lock);
	hal_list_del(&io->all);
	hal_store_release(&io->over, 1);
	hal_sys_futex_wake(&io->over, INT_MAX);
	pthread_cond_broadcast(&ended);
	drop_locked(io);
	pthread_mutex_unlock(&lock);
}

static void begin_locked(struct rt_io *io)
{
	io->holders++;
	hal_list_add_tail(&fresh, &io->node);
	hal_list_add_tail(&begun, &io->all);
	backend->wake();
}

/* ---- in a stream ------------------------------------------------------------------ */

/* The task's turn has come. */
static void begin(void *arg)
{
	struct rt_io *io;

	pthread_mutex_lock(&lock);
	io = token_find_locked((uintptr_t)arg);
	if (io && backend) {
		/* from those that wait; its submitter may not have put it there yet */
		if (!hal_list_empty(&io->node)) {
			hal_list_del(&io->node);
			io->holders--;
		}
		token_put_locked(io);
		begin_locked(io);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Lets go of transfers whose tasks were discarded: of the two that wait longest, who go to the
 * end of the list if not, or of all of a file.
 */
static void reclaim_locked(const struct rt_file *f)
{
	uint32_t n = f ? UINT32_MAX : 2;
	struct hal_list *pos, *next, keep;
	struct rt_io *io;

	hal_list_init(&keep);
	hal_list_for_each_safe(pos, next, &waiting) {
		if (!n--)
			break;
		io = hal_list_entry(pos, struct rt_io, node);
		hal_list_del(pos);
		if ((!f || io->file == f) && hal_point_passed(&io->point) &&
		    hal_host_gone(&io->point))
			drop_locked(io);
		else
			hal_list_add_tail(&keep, pos);
	}
	while (!hal_list_empty(&keep)) {
		pos = keep.next;
		hal_list_del(pos);
		hal_list_add_tail(&waiting, pos);
	}
}

/* A file is closed: what was discarded holds it no longer. */
void rt_io_forget(const struct rt_file *f)
{
	pthread_mutex_lock(&lock);
	reclaim_locked(f);
	pthread_mutex_unlock(&lock);
}

/**
 * rt_io_submit() - carry a transfer out in a stream
 * @io: the transfer; not the caller's any more, whatever comes of it
 * @stream: the stream
 * @place: code address of the caller
 * @p: out: its point, NULL: nobody asks
 *
 * Return: 0, or as hal_stream_host().
 */
int rt_io_submit(struct rt_io *io, uint64_t stream, uint64_t place, struct hal_point *p)
{
	uint64_t token;
	int err;

	pthread_mutex_lock(&lock);
	err = start_locked();
	if (!err) {
		reclaim_locked(NULL);
		err = token_get_locked(io);
		if (err)
			hal_fail(err, "file_io", "no memory for a transfer");
	}
	token = io->token;
	pthread_mutex_unlock(&lock);
	if (!err)
		err = hal_stream_host(stream, begin, (void *)(uintptr_t)token, &io->point, place);
	pthread_mutex_lock(&lock);
	if (p)
		*p = io->point;
	/* it may have been submitted although it failed: option launch_blocking */
	if (io->token && io->point.seq) {
		io->holders++;
		hal_list_add_tail(&waiting, &io->node);
	}
	drop_locked(io);
	pthread_mutex_unlock(&lock);
	return err;
}

/**
 * rt_io_run() - carry a transfer out now
 * @io: the transfer; not the caller's any more
 *
 * Return: 0, or what went wrong.
 */
int rt_io_run(struct rt_io *io)
{
	int err;

	pthread_mutex_lock(&lock);
	err = start_locked();
	if (!err)
		begin_locked(io);
	pthread_mutex_unlock(&lock);
	if (!err) {
		while (!hal_load_acquire(&io->over))
			hal_sys_futex_wait(&io->over, 0, UINT64_MAX);
		err = io->err;
	}
	pthread_mutex_lock(&lock);
	drop_locked(io);
	pthread_mutex_unlock(&lock);
	return err;
}

/* ---- waiting for it --------------------------------------------------------------- */

/* Whether a transfer is one that nobody waits for any more, of a stream or of a device. */
static bool is_over(const struct rt_io *io, uint64_t stream, int device)
{
	if (stream ? io->point.stream != stream : io->device != device)
		return false;
	return !io->point.seq || hal_host_gone(&io->point);
}

static bool cancel_locked(uint64_t stream, int device)
{
	struct hal_list *n;
	bool found = false;

	hal_list_for_each(n, &begun) {
		struct rt_io *io = hal_list_entry(n, struct rt_io, all);

		if (!is_over(io, stream, device))
			continue;
		hal_store_release(&io->cancel, true);
		found = true;
	}
	return found;
}

/**
 * rt_io_settle() - wait until transfers that were discarded touch no memory any more
 * @stream: of this stream, 0: of a device, those in no stream included
 * @device: the device
 * @deadline: until when
 *
 * Return: 0, -ETIMEDOUT.
 */
int rt_io_settle(uint64_t stream, int device, uint64_t deadline)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	while (!err && cancel_locked(stream, device)) {
		backend->wake();
		if (!hal_cond_wait_until(&ended, &lock, deadline))
			err = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&lock);
	if (err)
		return hal_fail(err, "file_io", "a read or write of a file does not end");
	return 0;
}

/**
 * rt_io_stop() - end the thread
 * @deadline: until when to wait for it
 *
 * The devices are closed. One whose disk does not answer is left, and goes on to be used.
 */
void rt_io_stop(uint64_t deadline)
{
	const struct rt_io_backend *b;

	pthread_mutex_lock(&lock);
	while (!hal_list_empty(&waiting)) {
		struct rt_io *io = hal_list_entry(waiting.next, struct rt_io, node);

		hal_list_del(&io->node);
		drop_locked(io);
	}
	while (backend && !hal_list_empty(&begun) &&
	       hal_cond_wait_until(&ended, &lock, deadline))
		;
	b = hal_list_empty(&begun) ? backend : NULL;
	if (b) {
		stop = true;
		b->wake();
		backend = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!b)
		return;
	pthread_join(thread, NULL);
	b->stop();
	pthread_cond_destroy(&ended);
}
