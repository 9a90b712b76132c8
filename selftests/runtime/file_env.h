/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of files share: a file that can be looked at, and calls to the system
 * that go wrong. Included once by a test, after the harness.
 */
#ifndef SELFTESTS_RUNTIME_FILE_ENV_H
#define SELFTESTS_RUNTIME_FILE_ENV_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/file.h"
#include "selftests/runtime/rt_test.h"

#define LONG_MS 20000
#define MIB (1u << 20)

/* How files are read and written; all must come to the same. */
#define WAYS(X)						\
	X(uring, "1", "1") X(uring_staged, "1", "0")	\
	X(threads, "0", "1") X(threads_staged, "0", "0")

static inline unsigned char byte_at(uint64_t i)
{
	return (unsigned char)((i * 0x9e3779b97f4a7c15u) >> 56);
}

static inline void fill_bytes(unsigned char *p, uint64_t from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = byte_at(from + i);
}

/* The first byte that differs, -1: none. */
static inline long differs(const unsigned char *p, uint64_t from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != byte_at(from + i))
			return (long)i;
	return -1;
}

/* A new file of so many of these bytes; its name, for free(). */
static inline char *make_file(size_t size)
{
	static unsigned char chunk[MIB];
	char *path;
	size_t at, n;
	bool ok = true;
	int fd;

	if (asprintf(&path, "%s/npu-file-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") :
		     "/tmp") < 0)
		return NULL;
	fd = mkstemp(path);
	for (at = 0; fd >= 0 && ok && at < size; at += n) {
		n = size - at < MIB ? size - at : MIB;
		fill_bytes(chunk, at, n);
		ok = write(fd, chunk, n) == (ssize_t)n;
	}
	if (fd < 0 || !ok) {
		free(path);
		path = NULL;
	}
	close(fd);
	return path;
}

static inline void remove_file(char *path)
{
	if (path)
		unlink(path);
	free(path);
}

/* Out of the host's memory. */
static inline void make_cold(const char *path)
{
	int fd = open(path, O_RDONLY);

	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static inline void make_warm(const char *path)
{
	static char chunk[MIB];
	int fd = open(path, O_RDONLY);

	while (read(fd, chunk, sizeof(chunk)) > 0)
		;
	close(fd);
}

static inline int open_files(void)
{
	struct dirent *e;
	int n = 0;
	DIR *d = opendir("/proc/self/fd");

	while (d && (e = readdir(d)))
		n++;
	closedir(d);
	return n;
}

/* ---- calls that go wrong: of threads, as io_uring makes its own ---- */

/**
 * struct trouble - what is to go wrong
 * @after: reads or writes that go well first
 * @times: how many go wrong, -1: all that come
 * @result: what they give; above 0: only so many bytes are read or written
 * @gate: they wait for this one, if it is there
 * @calls: how many there were
 */
static struct trouble {
	_Atomic int after;
	_Atomic int times;
	_Atomic long result;
	struct gate *_Atomic gate;
	_Atomic int calls;
} trouble;

static inline bool goes_wrong(void)
{
	trouble.calls++;
	if (trouble.gate)
		gate_hold(trouble.gate);
	if (trouble.after > 0) {
		trouble.after--;
		return false;
	}
	if (!trouble.times)
		return false;
	if (trouble.times > 0)
		trouble.times--;
	return true;
}

static inline ssize_t bad_pread(int fd, void *buf, size_t size, uint64_t offset)
{
	bool wrong = goes_wrong();
	long r = trouble.result;

	if (wrong && r <= 0)
		return r;
	return rt_file_libc.pread(fd, buf, wrong && (size_t)r < size ? (size_t)r : size, offset);
}

static inline ssize_t bad_pwrite(int fd, const void *buf, size_t size, uint64_t offset)
{
	bool wrong = goes_wrong();
	long r = trouble.result;

	if (wrong && r <= 0)
		return r;
	return rt_file_libc.pwrite(fd, buf, wrong && (size_t)r < size ? (size_t)r : size, offset);
}

static inline int never_cached(int fd, uint64_t offset)
{
	return -EAGAIN;
}

static inline int always_cached(int fd, uint64_t offset)
{
	return 0;
}

static struct rt_file_sys bad_sys;

/* From now on, by threads and not from the cache. */
static inline void make_trouble(int after, int times, long result)
{
	bad_sys = rt_file_libc;
	bad_sys.pread = bad_pread;
	bad_sys.pwrite = bad_pwrite;
	bad_sys.peek = never_cached;
	rt_file_sys = &bad_sys;
	trouble.after = after;
	trouble.times = times;
	trouble.result = result;
	trouble.gate = NULL;
	trouble.calls = 0;
}

#endif /* SELFTESTS_RUNTIME_FILE_ENV_H */
