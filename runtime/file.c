// SPDX-License-Identifier: MIT
/*
 * Files: what a program calls.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/file.h"

#define FLAGS (NPU_FILE_READ | NPU_FILE_WRITE | NPU_FILE_CREATE | NPU_FILE_TRUNCATE)

/* ---- files and their handles ------------------------------------------------------ */

static void release(struct kref *ref)
{
	struct rt_file *f = container_of(ref, struct rt_file, held.ref);
	int direct = hal_load_relaxed(&f->direct);	/* relaxed: nobody else has it */

	if (direct < -1)
		direct = -2 - direct;	/* it turned out not to be usable */
	if (direct >= 0)
		hal_sys_close(&hal_sys_libc, direct);
	hal_sys_close(&hal_sys_libc, f->fd);
	free(f);
}

/* Gives a reference back. NULL is fine. */
void rt_file_put(struct rt_file *f)
{
	if (f)
		kref_put(&f->held.ref, release);
}

static struct rt_file *file_get(npu_file file, const char *op)
{
	return rt_handle_get(HAL_HANDLE_FILE, file.h, op);
}

/* What the system says, as one of the codes that the library gives. */
int rt_file_failed(int err, const char *path, const char *op)
{
	switch (err) {
	case -ENOENT:
	case -ENOTDIR:
		return hal_fail(-ENOENT, op, "%s: there is no such file", path);
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return hal_fail(-EACCES, op, "%s: it may not be opened so", path);
	case -EISDIR:
	case -ENXIO:
		return hal_fail(-EINVAL, op, "%s: neither a regular file nor a block device", path);
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return hal_fail(-ENOSPC, op, "%s: the disk is full", path);
	case -EMFILE:
	case -ENFILE:
	case -ENOMEM:
		return hal_fail(err, op, "%s: %s", path, strerror(-err));
	default:
		return hal_fail(-EIO, op, "%s: %s", path, strerror(-err));
	}
}

/* A second descriptor past the cache, where file system and disk have that. */
static void open_direct(struct rt_file *f, int mode)
{
	int fd = -1;

	if (!rt_file_sys->align(f->fd, &f->file_align, &f->mem_align))
		fd = rt_file_sys->open(f->path, mode | O_DIRECT, 0);
	hal_store_relaxed(&f->direct, fd < 0 ? -1 : fd);
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return !rt_file_sys->fstat(a, &x) && !rt_file_sys->fstat(b, &y) &&
	       x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/**
 * rt_file_open() - open a file
 * @path: where it is
 * @flags: NPU_FILE_*, checked
 * @op: for the error record
 * @file: out: the file, one reference
 *
 * Return: 0, -EINVAL, -ENOENT, -EACCES, -ENOSPC, -EMFILE, -ENFILE, -EIO, -ENOMEM.
 */
int rt_file_open(const char *path, uint32_t flags, const char *op, struct rt_file **file)
{
	int mode = !(flags & NPU_FILE_WRITE) ? O_RDONLY : flags & NPU_FILE_READ ? O_RDWR : O_WRONLY;
	struct rt_file *f;
	struct stat st;
	int err, direct;

	f = hal_zalloc(sizeof(*f) + strlen(path) + 1);
	if (!f)
		return hal_fail(-ENOMEM, op, "%s: no memory", path);
	strcpy(f->path, path);
	kref_init(&f->held.ref);
	f->flags = flags;
	/* a pipe without a writer must not hold us up */
	f->fd = rt_file_sys->open(path, mode | O_NONBLOCK | O_NOCTTY |
				  (flags & NPU_FILE_CREATE ? O_CREAT : 0) |
				  (flags & NPU_FILE_TRUNCATE ? O_TRUNC : 0), 0666);
	if (f->fd < 0) {
		err = rt_file_failed(f->fd, path, op);
		free(f);
		return err;
	}
	hal_store_relaxed(&f->direct, -1);
	err = rt_file_sys->fstat(f->fd, &st);
	if (err)
		err = rt_file_failed(err, path, op);
	else if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		err = rt_file_failed(-EISDIR, path, op);
	if (err) {
		rt_file_put(f);
		return err;
	}
	open_direct(f, mode);
	direct = hal_load_relaxed(&f->direct);
	/* another one may have taken its place meanwhile */
	if (direct >= 0 && !same_file(f->fd, direct))
		hal_store_relaxed(&f->direct, -2 - direct);
	*file = f;
	return 0;
}

NPU_API int npu_file_open(const char *path, uint32_t flags, npu_file *file)
{
	struct hal_slot *slot;
	struct rt_file *f;
	int err;

	err = rt_enter_handle("file_open", file, "file");
	if (err)
		return err;
	if (!path)
		return hal_fail(-EINVAL, "file_open", "path is NULL");
	if (flags & ~FLAGS || !(flags & (NPU_FILE_READ | NPU_FILE_WRITE)) ||
	    (flags & (NPU_FILE_CREATE | NPU_FILE_TRUNCATE) && !(flags & NPU_FILE_WRITE)))
		return hal_fail(-EINVAL, "file_open", "flags 0x%x", flags);
	err = hal_handle_alloc(HAL_HANDLE_FILE, &slot);
	if (err)
		return err;
	err = rt_file_open(path, flags, "file_open", &f);
	if (err) {
		hal_handle_free(HAL_HANDLE_FILE, slot);
		return err;
	}
	file->h = rt_handle_new(HAL_HANDLE_FILE, slot, &f->held);
	return 0;
}

static int close_handle(uint64_t handle)
{
	struct rt_file *f = rt_handle_end(HAL_HANDLE_FILE, handle, "file_close");

	if (!f)
		return hal_error_last()->code;
	rt_io_forget(f);
	rt_file_put(f);
	return 0;
}

NPU_API int npu_file_close(npu_file file)
{
	int err = rt_enter("file_close");

	return err ? err : close_handle(file.h);
}

static int close_slot(struct hal_slot *slot, void *arg)
{
	(void)arg;
	close_handle(hal_handle_of(HAL_HANDLE_FILE, slot));
	return 0;
}

/* The library is finalized. */
void rt_files_close(void)
{
	hal_handle_for_each(HAL_HANDLE_FILE, close_slot, NULL);
}

NPU_API int npu_file_size(npu_file file, uint64_t *size)
{
	struct rt_file *f;
	struct stat st;
	off_t end;
	int err;

	if (!size)
		return hal_fail(-EINVAL, "file_size", "size is NULL");
	*size = 0;
	err = rt_enter("file_size");
	if (err)
		return err;
	f = file_get(file, "file_size");
	if (!f)
		return hal_error_last()->code;
	err = rt_file_sys->fstat(f->fd, &st);
	end = !err && S_ISBLK(st.st_mode) ? lseek(f->fd, 0, SEEK_END) : st.st_size;
	if (err || end < 0)
		err = hal_fail(-EIO, "file_size", "%s: its size can't be told", f->path);
	else
		*size = (uint64_t)end;
	rt_file_put(f);
	return err;
}

/* ---- transfers -------------------------------------------------------------------- */

/* A transfer, with a reference of the file. NULL: no memory, the record is filled. */
struct rt_io *rt_io_new(struct rt_file *f, bool write, uint32_t count, const char *op)
{
	struct rt_io *io;

	io = hal_zalloc(sizeof(*io) + count * sizeof(io->parts[0]));
	if (!io) {
		hal_fail(-ENOMEM, op, "no memory for a transfer");
		return NULL;
	}
	hal_list_init(&io->node);
	hal_list_init(&io->all);
	kref_get(&f->held.ref);
	io->file = f;
	io->write = write;
	io->holders = 1;
	io->count = count;
	return io;
}

/* The opposite; its windows are closed. */
void rt_io_free(struct rt_io *io)
{
	rt_file_put(io->file);
	free(io);
}

/* A transfer, and what is done about it. */
struct request {
	npu_file file;
	uint64_t offset;
	const void *ptr;
	size_t size;
	bool write;
	const char *op;
};

static int check(const struct request *r, const struct rt_file *f, int *device)
{
	uint32_t need = r->write ? NPU_FILE_WRITE : NPU_FILE_READ;
	struct hal_device *dev;
	int err;

	if (!(f->flags & need))
		return hal_fail(-EBADF, r->op, "%s was not opened to %s it", f->path,
				r->write ? "write" : "read");
	if (r->size > INT64_MAX || r->offset > INT64_MAX - r->size)
		return hal_fail(-EINVAL, r->op, "%zu bytes at %llu: no file is so large", r->size,
				(unsigned long long)r->offset);
	*device = -1;
	if (!r->size)
		return 0;
	err = hal_range_check(r->ptr, r->size, &dev, r->op);
	if (err < 0)
		return err;
	*device = rt_device_of(dev);
	return *device < 0 ? hal_fail(-ESTALE, r->op, "the device of the memory was closed") : 0;
}

/* The transfer, checked; io NULL and 0: there is nothing to do. */
static int prepare(const struct request *r, struct rt_io **io)
{
	struct rt_file *f;
	int err, device = -1;

	*io = NULL;
	f = file_get(r->file, r->op);
	if (!f)
		return hal_error_last()->code;
	err = check(r, f, &device);
	if (!err && r->size) {
		*io = rt_io_new(f, r->write, 1, r->op);
		err = *io ? 0 : -ENOMEM;
	}
	if (*io) {
		(*io)->device = device;
		(*io)->parts[0].offset = r->offset;
		(*io)->parts[0].ptr = (char *)r->ptr;
		(*io)->parts[0].size = r->size;
	}
	rt_file_put(f);
	return err;
}

/**
 * rt_file_stream() - the stream that a transfer is for
 * @stream: as given
 * @ptr: device memory; of a stream 0, its device counts if the thread has set none
 * @op: for the error record
 * @h: out: its handle
 * @device: out: its device
 *
 * Return: 0, or as every function with a stream answers.
 */
int rt_file_stream(npu_stream stream, const void *ptr, const char *op, uint64_t *h, int *device)
{
	struct rt_thread *t = rt_thread(op);
	struct hal_point point;
	struct hal_pointer p;
	int err, hint = -1;

	if (!t)
		return -ENOMEM;
	if (!stream.h && !hal_pointer_info(ptr, &p) && p.kind == HAL_MEMORY_DEVICE)
		hint = rt_device_of(p.dev);
	err = rt_stream(stream, hint, op, h);
	if (!err)
		err = hal_stream_point(*h, &point, op);
	if (err)
		return err;
	*device = rt_handle_device(t, *h, op);
	return *device < 0 ? *device : 0;
}

static int async(npu_stream stream, const struct request *r, uint64_t place)
{
	struct rt_io *io;
	int err, device;
	uint64_t h;

	err = rt_enter(r->op);
	if (!err)
		err = rt_file_stream(stream, r->ptr, r->op, &h, &device);
	if (!err)
		err = prepare(r, &io);
	if (err || !io)
		return err;
	if (io->device != device) {
		err = hal_fail(-EXDEV, r->op, "%p is memory of device %d, the stream is of %d",
			       r->ptr, io->device, device);
		rt_io_free(io);
		return err;
	}
	return rt_io_submit(io, h, place, NULL);
}

NPU_API int npu_file_read_async(npu_stream stream, npu_file file, uint64_t offset, void *dst,
				size_t size)
{
	const struct request r = { file, offset, dst, size, false, "file_read_async" };

	return async(stream, &r, RT_PLACE);
}

NPU_API int npu_file_write_async(npu_stream stream, npu_file file, uint64_t offset,
				 const void *src, size_t size)
{
	const struct request r = { file, offset, src, size, true, "file_write_async" };

	return async(stream, &r, RT_PLACE);
}

static int now(const struct request *r)
{
	uint64_t end = r->offset + r->size;
	struct rt_io *io;
	int err, d;

	err = rt_enter(r->op);
	if (!err && hal_in_callback())
		err = hal_fail(-EDEADLK, r->op, "a callback must not wait");
	if (!err)
		err = prepare(r, &io);
	if (err || !io)
		return err;
	d = io->device;
	rt_sync_begin(NPU_SYNC_COPY, (uint64_t)d);
	err = rt_io_run(io);
	rt_sync_end(NPU_SYNC_COPY, (uint64_t)d, err);
	if (err && hal_error_last()->code != err)
		hal_fail(err, r->op, "bytes %llu to %llu were not all %s",
			 (unsigned long long)r->offset, (unsigned long long)end,
			 r->write ? "written" : "read");
	return err;
}

NPU_API int npu_file_read(npu_file file, uint64_t offset, void *dst, size_t size)
{
	const struct request r = { file, offset, dst, size, false, "file_read" };

	return now(&r);
}

NPU_API int npu_file_write(npu_file file, uint64_t offset, const void *src, size_t size)
{
	const struct request r = { file, offset, src, size, true, "file_write" };

	return now(&r);
}
