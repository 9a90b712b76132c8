// SPDX-License-Identifier: MIT
/*
 * Between host and device memory without a window, and from the cache: copies
 * that the device carries out.
 */
#include <unistd.h>

#include "runtime/file.h"

/* Where the cache is looked at: a page of each such piece stands for all of it. */
#define SAMPLE (2u << 20)

/**
 * rt_io_cached() - whether a range of a file is in the host's memory
 * @f: the file
 * @offset: first byte
 * @size: how many, at least 1
 *
 * Return: whether it seems so. Where nobody can tell, it is so for what can't be read past it.
 */
bool rt_io_cached(const struct rt_file *f, uint64_t offset, uint64_t size)
{
	uint64_t at;
	int rc;

	for (at = 0; at < size; at += SAMPLE) {
		rc = rt_file_sys->peek(f->fd, offset + at);
		if (rc == -EOPNOTSUPP)
			return hal_load_relaxed(&f->direct) < 0;
		if (rc)
			return false;
	}
	return !rt_file_sys->peek(f->fd, offset + size - 1);
}

/**
 * rt_io_device_copy() - copy between host and device memory
 * @io: the transfer that it is for
 * @dst: to
 * @src: from
 * @size: bytes
 *
 * Return: 0, or a negative errno.
 */
int rt_io_device_copy(struct rt_io *io, void *dst, const void *src, size_t size)
{
	struct hal_copy c = {
		.dst = dst, .src = src, .dst_pitch = size, .src_pitch = size,
		.width = size, .height = 1, .kind = io->write ? NPU_COPY_D2H : NPU_COPY_H2D,
	};
	struct hal_context *ctx;
	int err;

	ctx = hal_context_get(hal_load_acquire(&rt_devices[io->device].primary), "file_io");
	if (!ctx)
		return -ESTALE;
	err = hal_mem_copy(ctx, &c);
	hal_context_put(ctx);
	return err;
}

/* A page in which a file ends has zeros behind the end, and so has what was cut off it. */
static bool reaches(int fd, uint64_t end)
{
	struct stat st;

	return !rt_file_sys->fstat(fd, &st) &&
	       (!S_ISREG(st.st_mode) || (uint64_t)st.st_size >= end);
}

/**
 * rt_io_map_copy() - copy from a file's pages into device memory
 * @io: the transfer
 * @p: the part of it
 * @at: where in that
 * @size: bytes
 *
 * Return: 0; 1: it can't be done so, and has to be read; a negative errno of the copy.
 */
int rt_io_map_copy(struct rt_io *io, const struct rt_io_part *p, uint64_t at, size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t offset = p->offset + at, skip = offset & (page - 1);
	void *map;
	int err = 1;

	if (rt_file_sys->map(io->file->fd, offset - skip, size + skip, &map))
		return 1;
	if (rt_fault_watch(map, size + skip)) {
		err = rt_io_device_copy(io, p->ptr + at, (char *)map + skip, size);
		if (rt_fault_met() || !reaches(io->file->fd, offset + size))
			err = 1;
		rt_fault_watch(NULL, 0);
	}
	rt_file_sys->unmap(map, size + skip);
	return err;
}
