// SPDX-License-Identifier: MIT
/*
 * Reading a file of 2 GiB into device memory, from the disk and from the cache.
 *
 * Limit: from the disk, eight threads that read pieces of 1 MiB past the cache into
 * anonymous huge pages; from the cache, the file mapped with its pages and copied by
 * the fastest bare copy with as many threads as there are cores.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/npu-bench/bare_copy.h"
#include "tools/npu-bench/bench.h"

#define PIECE ((size_t)1 << 20)
#define READERS 8u

/**
 * struct file_work - what is measured
 * @path: the file
 * @size: its bytes
 * @file: the library's
 * @dev: device memory
 * @bare: memory in its place
 * @copier: bare copies
 * @direct: whether the file can be read past the cache
 * @cpu: processor seconds of our last read, and of the limit's
 */
struct file_work {
	char path[4096];
	size_t size;
	npu_file file;
	void *dev;
	char *bare;
	struct bare_copier *copier;
	bool direct;
	double cpu[2];
};

/* ---- the file --------------------------------------------------------------------- */

static int make_file(struct file_work *w)
{
	const char *dir = getenv("TMPDIR");
	char *piece = bench_memory(PIECE);
	size_t at;
	int fd, err = 0;

	if (!piece)
		return -ENOMEM;
	memset(piece, 'w', PIECE);
	snprintf(w->path, sizeof(w->path), "%s/npu-bench-XXXXXX", dir ? dir : "/var/tmp");
	fd = mkstemp(w->path);
	if (fd < 0) {
		err = -errno;
		w->path[0] = '\0';
	}
	for (at = 0; !err && at < w->size; at += PIECE)
		if (write(fd, piece, PIECE) != (ssize_t)PIECE)
			err = -errno;
	if (!err && fsync(fd))
		err = -errno;
	if (fd >= 0)
		close(fd);
	bench_memory_free(piece, PIECE);
	return err;
}

static void make_cold(const struct file_work *w)
{
	int fd = open(w->path, O_RDONLY);

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static void make_warm(struct file_work *w)
{
	int fd = open(w->path, O_RDONLY);
	size_t at;

	for (at = 0; at < w->size; at += PIECE)
		if (pread(fd, w->bare, PIECE, (off_t)at) != (ssize_t)PIECE)
			break;
	close(fd);
}

/* ---- from the disk ---------------------------------------------------------------- */

struct readers {
	struct file_work *w;
	_Atomic size_t next;
	_Atomic int err;
	int fd;
};

static void *reader(void *arg)
{
	struct readers *r = arg;
	size_t at;

	while ((at = atomic_fetch_add(&r->next, PIECE)) < r->w->size)
		if (pread(r->fd, r->w->bare + at, PIECE, (off_t)at) != (ssize_t)PIECE)
			r->err = -EIO;
	return NULL;
}

static int bare_read(struct file_work *w)
{
	struct readers r = { .w = w };
	pthread_t t[READERS];
	unsigned int i, n;

	r.fd = open(w->path, O_RDONLY | (w->direct ? O_DIRECT : 0));
	if (r.fd < 0)
		return -errno;
	for (n = 0; n < READERS && !pthread_create(&t[n], NULL, reader, &r); n++)
		;
	if (!n)
		reader(&r);
	for (i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	close(r.fd);
	return r.err;
}

/* Seconds of the processor for what took so long, and GB/s. */
static int timed(struct file_work *w, int (*fn)(struct file_work *w), double *cpu, double *value)
{
	uint64_t t = bench_now(), c = bench_cpu_time();
	int err = fn(w);

	t = bench_now() - t;
	*cpu = (double)(bench_cpu_time() - c) / 1e9 / ((double)w->size / (1 << 30));
	*value = (double)w->size / (double)t;
	return err;
}

static int read_it(struct file_work *w)
{
	return npu_file_read(w->file, 0, w->dev, w->size);
}

static int cold_ours(void *arg, double *value)
{
	struct file_work *w = arg;

	make_cold(w);
	return timed(w, read_it, &w->cpu[0], value);
}

static int cold_limit(void *arg, double *value)
{
	struct file_work *w = arg;

	make_cold(w);
	return timed(w, bare_read, &w->cpu[1], value);
}

/* What the processor had to do with it. */
static int cpu_ours(void *arg, double *value)
{
	struct file_work *w = arg;
	int err = cold_ours(w, value);

	*value = w->cpu[0];
	return err;
}

static int cpu_limit(void *arg, double *value)
{
	struct file_work *w = arg;
	int err = cold_limit(w, value);

	*value = w->cpu[1];
	return err;
}

/* ---- from the cache --------------------------------------------------------------- */

static int bare_map(struct file_work *w)
{
	int fd = open(w->path, O_RDONLY);
	void *map;

	if (fd < 0)
		return -errno;
	map = mmap(NULL, w->size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -errno;
	bare_copier_run(w->copier, w->bare, map, w->size);
	munmap(map, w->size);
	return 0;
}

static int cached_ours(void *arg, double *value)
{
	struct file_work *w = arg;
	double cpu;

	make_warm(w);
	return timed(w, read_it, &cpu, value);
}

static int cached_limit(void *arg, double *value)
{
	struct file_work *w = arg;
	double cpu;

	make_warm(w);
	return timed(w, bare_map, &cpu, value);
}

/* ---- the case --------------------------------------------------------------------- */

static int measure(struct bench *b, struct file_work *w)
{
	struct bench_figure f[] = {
		{ "file-read", "cold", "GB/s", false, cold_ours, cold_limit, w,
		  { .least = 0.97 } },
		{ "file-read", "cold-cpu", "s/GiB", false, cpu_ours, cpu_limit, w,
		  { .most = 0.02 } },
		{ "file-read", "cached", "GB/s", false, cached_ours, cached_limit, w,
		  { .least = 0.9 } },
	};
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(f) / sizeof(f[0]) && !err; i++)
		err = bench_measure(b, &f[i]);
	return err;
}

static int prepare(struct file_work *w)
{
	int fd, err;

	err = make_file(w);
	if (err)
		return bench_fail("file-read", "the file", err);
	fd = open(w->path, O_RDONLY | O_DIRECT);
	w->direct = fd >= 0;
	if (fd >= 0)
		close(fd);
	w->bare = bench_memory(w->size);
	w->copier = bare_copier_new(bench_cores());
	if (!w->bare || !w->copier)
		return bench_fail("file-read", "memory", -ENOMEM);
	bare_copier_choose(w->copier, w->bare, w->bare + w->size / 2, w->size / 2);
	err = npu_malloc(w->size, NPU_MEM_HUGE_FIRST, &w->dev);
	if (!err)
		err = npu_file_open(w->path, NPU_FILE_READ, &w->file);
	return err ? bench_fail("file-read", w->path, err) : 0;
}

static int run(struct bench *b)
{
	struct file_work w = { .size = b->quick ? (size_t)16 << 20 : (size_t)2 << 30 };
	struct bench_dev d;
	int err;

	err = bench_dev_open(&d, 1, "file-read");
	if (err)
		return err;
	err = prepare(&w);
	if (!err)
		err = measure(b, &w);
	npu_file_close(w.file);
	npu_free(w.dev);
	bench_memory_free(w.bare, w.size);
	bare_copier_free(w.copier);
	if (w.path[0])
		unlink(w.path);
	return bench_dev_close(&d, "file-read") ? -EIO : err;
}

const struct bench_case bench_file_read = {
	"file-read", "2 GiB from a file into device memory, cold and cached", run,
};
