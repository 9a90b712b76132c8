// SPDX-License-Identifier: MIT
/*
 * The engine's thread: it cuts transfers into reads and writes, keeps RT_IO_DEPTH of
 * them under way, and sees what came of them.
 */
#include <stdlib.h>

#include "runtime/file.h"
#include "runtime/file_engine.h"

/* Bytes for which it is worth mapping them. */
#define MAP_MIN (256u << 10)

/* The thread's own. */
static const struct rt_io_backend *backend;
static struct rt_io_op ops[RT_IO_DEPTH];
static struct hal_list free_ops;

enum step { STEP_THROUGH, STEP_WAITS, STEP_GOES_ON };

/* ---- failures --------------------------------------------------------------------- */

static void fail(struct rt_io *io, int err, uint64_t offset)
{
	if (io->err)
		return;
	io->err = err;
	if (err != -ECANCELED)
		hal_warn(HAL_LOG_RUNTIME, "files: %s: %s at byte %llu: %s", io->file->path,
			 io->write ? "write" : "read", (unsigned long long)offset,
			 hal_errno_name(err) ? hal_errno_name(err) : "?");
}

/* What the task is told of what the system said; 0 bytes of a read are the end of the file. */
static int error_of(const struct rt_io_op *op)
{
	switch (-op->result) {
	case 0:
		return op->write ? -EIO : -ENODATA;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return -ENOSPC;
	case ENOMEM:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

/* Nobody waits for it any more. */
static bool unwanted(const struct rt_io *io)
{
	return hal_load_acquire(&io->cancel) || (io->point.seq && hal_host_gone(&io->point));
}

/* ---- one read or write ------------------------------------------------------------ */

static void op_free(struct rt_io_op *op)
{
	op->io->in_flight--;
	op->io = NULL;
	hal_list_add_tail(&free_ops, &op->node);
}

static void op_issue(struct rt_io_op *op)
{
	op->fd = op->direct ? hal_load_relaxed(&op->io->file->direct) : op->io->file->fd;
	backend->issue(op);
}

/* Whether what is left of it can go past the cache. */
static bool can_be_direct(const struct rt_io_op *op)
{
	const struct rt_file *f = op->io->file;

	return hal_load_relaxed(&f->direct) >= 0 && !(op->offset % f->file_align) &&
	       !(op->size % f->file_align) && !((uintptr_t)op->buf % f->mem_align);
}

/* The kernel knows of a rule that we don't: not past the cache, from now on. */
static void not_direct(struct rt_io_op *op)
{
	struct rt_file *f = op->io->file;
	int fd = hal_load_relaxed(&f->direct);

	hal_info(HAL_LOG_RUNTIME, "files: %s: can't be used past the cache", f->path);
	if (fd == op->fd)
		hal_store_relaxed(&f->direct, -2 - fd);
	op->direct = false;
	op_issue(op);
}

/* All bytes are there, or written. */
static void op_through(struct rt_io_op *op)
{
	struct rt_io *io = op->io;
	int err = 0;

	if (op->staged && !io->write)
		err = rt_io_device_copy(io, op->dev, op->stage,
					(size_t)(op->buf - op->stage));
	if (err)
		fail(io, err, op->offset);
	op_free(op);
}

static void op_ended(struct rt_io_op *op)
{
	struct rt_io *io = op->io;
	int64_t n = op->result;

	if (n == -EINTR || n == -EAGAIN) {
		op_issue(op);
		return;
	}
	if (op->direct && (n == -EINVAL || n == -EOPNOTSUPP)) {
		not_direct(op);
		return;
	}
	if (n <= 0 || n > op->size) {
		fail(io, error_of(op), op->offset);
		op_free(op);
		return;
	}
	op->buf += n;
	op->offset += (uint64_t)n;
	op->size -= (uint32_t)n;
	if (!op->size) {
		op_through(op);
	} else if (io->err || unwanted(io)) {
		op_free(op);
	} else {
		op->direct = op->direct && can_be_direct(op);
		op_issue(op);
	}
}

/* ---- cutting ---------------------------------------------------------------------- */

static int stage_get(struct rt_io_op *op)
{
	if (!op->stage)
		op->stage = hal_zalloc_aligned(4096, RT_IO_CHUNK);
	op->staged = true;
	op->buf = op->stage;
	return op->stage ? 0 : -ENOMEM;
}

/*
 * How much the next read or write takes: up to the next place where it can go past the
 * cache, or as much as can at once.
 */
static uint32_t cut(const struct rt_io *io, const struct rt_io_part *p)
{
	const struct rt_file *f = io->file;
	uint64_t offset = p->offset + io->at, left = p->size - io->at;
	uint32_t n = left < RT_IO_CHUNK ? (uint32_t)left : RT_IO_CHUNK;
	uint32_t over = (uint32_t)(offset % f->file_align);

	if (hal_load_relaxed(&f->direct) < 0 || n < f->file_align)
		return n;
	if (over)
		return f->file_align - over < n ? f->file_align - over : n;
	return n - n % f->file_align;
}

static int op_next(struct rt_io *io, struct rt_io_part *p)
{
	struct rt_io_op *op = hal_list_entry(free_ops.next, struct rt_io_op, node);
	uint64_t offset = p->offset + io->at;
	int err = 0;

	hal_list_del(&op->node);
	op->io = io;
	op->part = p;
	op->write = io->write;
	op->size = cut(io, p);
	op->offset = offset;
	op->dev = p->ptr + io->at;
	op->staged = false;
	io->in_flight++;
	io->at += op->size;
	if (p->win.host)
		op->buf = p->win.host + (op->dev - p->ptr);
	else
		err = stage_get(op);
	if (!err && op->staged && io->write)
		err = rt_io_device_copy(io, op->stage, op->dev, op->size);
	if (err) {
		op_free(op);
		return err;
	}
	op->direct = !io->cached && can_be_direct(op);
	op_issue(op);
	return 0;
}

/* A part comes up. A driver without windows, or for this memory: through buffers. */
static int part_begin(struct rt_io_part *p)
{
	struct hal_pointer info;
	int err;

	if (!hal_option_bool(rt_options, "io_window"))
		err = -EOPNOTSUPP;
	else
		err = hal_window_open(p->ptr, p->size, &p->win);
	if (err != -EOPNOTSUPP && err != -EINVAL)
		return err;
	err = hal_pointer_info(p->ptr, &info);
	if (err || info.kind != HAL_MEMORY_DEVICE)
		return -EINVAL;
	return info.unsafe ? -EHWPOISON : 0;
}

/* From the cache, or it has been found that it is not there. */
static int piece(struct rt_io *io, const struct rt_io_part *p, bool *copied)
{
	uint64_t left = p->size - io->at;
	size_t size = left < RT_IO_PIECE ? (size_t)left : RT_IO_PIECE;
	int err = 1;

	io->cached = rt_io_cached(io->file, p->offset + io->at, size);
	if (io->cached && size >= MAP_MIN)
		err = rt_io_map_copy(io, p, io->at, size);
	*copied = !err;
	io->piece_end = io->at + size;
	if (!err)
		io->at += size;
	return err == 1 ? 0 : err;
}

/* The next of a transfer: one read or write, or one piece from the cache. */
static int go_on(struct rt_io *io, bool *copied)
{
	struct rt_io_part *p = &io->parts[io->part];
	int err = 0;

	*copied = false;
	if (!io->at)
		err = part_begin(p);
	if (!err && !io->write && io->at >= io->piece_end)
		err = piece(io, p, copied);
	if (!err && !*copied)
		err = op_next(io, p);
	if (err)
		fail(io, err, p->offset + io->at);
	if (io->at == p->size) {
		io->part++;
		io->at = io->piece_end = 0;
	}
	return err;
}

static enum step take_step(struct rt_io *io, uint32_t share)
{
	bool copied = false;

	if (!io->err && unwanted(io))
		io->err = -ECANCELED;
	while (!io->err && io->part < io->count && !copied) {
		if (hal_list_empty(&free_ops) || io->in_flight >= share)
			return STEP_WAITS;
		go_on(io, &copied);
	}
	if (io->in_flight)
		return copied && !io->err ? STEP_GOES_ON : STEP_WAITS;
	return io->err || io->part == io->count ? STEP_THROUGH : STEP_GOES_ON;
}

/* ---- the thread ------------------------------------------------------------------- */

static void end(struct rt_io *io)
{
	uint32_t i;

	hal_list_del(&io->node);
	for (i = 0; i < io->count; i++)
		hal_window_close(&io->parts[i].win);
	rt_file_put(io->file);
	io->file = NULL;
	rt_io_ended(io);
}

/* One step of each. Return: whether some can go on at once. */
static bool step_all(struct hal_list *active)
{
	uint32_t n = hal_list_count(active), share = n ? RT_IO_DEPTH / n : 0;
	struct hal_list *pos, *next;
	bool goes_on = false;

	hal_list_for_each_safe(pos, next, active) {
		struct rt_io *io = hal_list_entry(pos, struct rt_io, node);

		switch (take_step(io, share ? share : 1)) {
		case STEP_THROUGH:
			end(io);
			break;
		case STEP_GOES_ON:
			goes_on = true;
			break;
		case STEP_WAITS:
			break;
		}
	}
	return goes_on;
}

/**
 * rt_io_thread() - the engine's thread
 * @arg: the backend, started
 */
void *rt_io_thread(void *arg)
{
	struct rt_io_op *done[RT_IO_DEPTH];
	struct hal_list active;
	bool goes_on;
	uint32_t i, n;

	backend = arg;
	hal_list_init(&active);
	hal_list_init(&free_ops);
	for (i = 0; i < RT_IO_DEPTH; i++)
		hal_list_add_tail(&free_ops, &ops[i].node);
	while (rt_io_take(&active)) {
		goes_on = step_all(&active);
		n = backend->reap(done, !goes_on);
		for (i = 0; i < n; i++)
			op_ended(done[i]);
	}
	for (i = 0; i < RT_IO_DEPTH; i++) {
		free(ops[i].stage);
		ops[i].stage = NULL;
	}
	return NULL;
}
