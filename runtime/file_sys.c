// SPDX-License-Identifier: MIT
/*
 * Calls to the operating system about files: the only place that reads their
 * errno, and repeats what a signal has ended.
 */
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/file.h"

#define REPEAT(rc, call)			\
	do {					\
		rc = (call);			\
	} while (rc < 0 && errno == EINTR);	\
	if (rc < 0)				\
		rc = -errno

static int sys_open(const char *path, int flags, unsigned int mode)
{
	int rc;

	REPEAT(rc, open(path, flags | O_CLOEXEC, mode));
	return rc;
}

static int sys_fstat(int fd, struct stat *st)
{
	int rc;

	REPEAT(rc, fstat(fd, st));
	return rc;
}

/* Older kernels do not tell; a page is enough for all that is known. */
static int sys_align(int fd, uint32_t *file, uint32_t *mem)
{
	*file = *mem = 4096;
#ifdef STATX_DIOALIGN
	struct statx sx = { .stx_mask = 0 };

	if (!syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) &&
	    sx.stx_mask & STATX_DIOALIGN) {
		if (!sx.stx_dio_offset_align || !sx.stx_dio_mem_align)
			return -EOPNOTSUPP;
		*file = sx.stx_dio_offset_align;
		*mem = sx.stx_dio_mem_align;
	}
#endif
	return 0;
}

static ssize_t sys_pread(int fd, void *buf, size_t size, uint64_t offset)
{
	ssize_t rc;

	REPEAT(rc, pread(fd, buf, size, (off_t)offset));
	return rc;
}

static ssize_t sys_pwrite(int fd, const void *buf, size_t size, uint64_t offset)
{
	ssize_t rc;

	REPEAT(rc, pwrite(fd, buf, size, (off_t)offset));
	return rc;
}

static int sys_peek(int fd, uint64_t offset)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	ssize_t rc;

	REPEAT(rc, preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT));
	return rc < 0 ? (int)rc : rc ? 0 : -EAGAIN;
}

static int sys_map(int fd, uint64_t offset, size_t size, void **addr)
{
	void *p = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, (off_t)offset);

	*addr = p == MAP_FAILED ? NULL : p;
	return *addr ? 0 : -errno;
}

static void sys_unmap(void *addr, size_t size)
{
	munmap(addr, size);
}

const struct rt_file_sys rt_file_libc = {
	.open = sys_open,
	.fstat = sys_fstat,
	.align = sys_align,
	.pread = sys_pread,
	.pwrite = sys_pwrite,
	.peek = sys_peek,
	.map = sys_map,
	.unmap = sys_unmap,
};

const struct rt_file_sys *rt_file_sys = &rt_file_libc;
