/* SPDX-License-Identifier: MIT */
/*
 * Files, inside: what the files of this part of the runtime share.
 *
 * A transfer is a list of parts, each a range of the file and one of device
 * memory. In a stream it is a task that the host carries out (hal_stream_host());
 * one thread of the process carries all of them out, in pieces of RT_IO_CHUNK, by
 * one of two backends: io_uring, or a few threads that read and write. The thread is
 * made at first use and ends with npu_finalize().
 */
#ifndef RUNTIME_FILE_H
#define RUNTIME_FILE_H

#include <sys/stat.h>

#include "hal/point.h"
#include "runtime/handle.h"

/* Bytes of one read or write. */
#define RT_IO_CHUNK (1u << 20)
/* How many of them are under way at most. */
#define RT_IO_DEPTH 32u
/* Bytes for which it is decided whether they are copied from the cache. */
#define RT_IO_PIECE (64u << 20)

/**
 * struct rt_file_sys - calls to the operating system about files; tests put others here
 * @open: as open(2) with O_CLOEXEC added
 * @fstat: as fstat(2)
 * @align: alignment that O_DIRECT asks for, of offsets and of memory
 * @pread: as pread(2)
 * @pwrite: as pwrite(2)
 * @peek: reads a byte if it is cached, else -EAGAIN; -EOPNOTSUPP: can't tell
 * @map: maps a part of a file to read, with its pages
 * @unmap: the opposite
 *
 * They return what is asked for, or a negative errno, and repeat what a signal has ended.
 */
struct rt_file_sys {
	int (*open)(const char *path, int flags, unsigned int mode);
	int (*fstat)(int fd, struct stat *st);
	int (*align)(int fd, uint32_t *file, uint32_t *mem);
	ssize_t (*pread)(int fd, void *buf, size_t size, uint64_t offset);
	ssize_t (*pwrite)(int fd, const void *buf, size_t size, uint64_t offset);
	int (*peek)(int fd, uint64_t offset);
	int (*map)(int fd, uint64_t offset, size_t size, void **addr);
	void (*unmap)(void *addr, size_t size);
};

extern const struct rt_file_sys rt_file_libc;
extern const struct rt_file_sys *rt_file_sys;

/**
 * struct rt_file - a file that is open
 * @held: references: its handle, and each transfer
 * @fd: its descriptor
 * @direct: the same file past the cache, -1: it can't be opened so
 * @flags: NPU_FILE_*
 * @file_align: what offsets and sizes must be multiples of, past the cache
 * @mem_align: what addresses must be multiples of
 * @path: for messages
 */
struct rt_file {
	struct rt_held held;
	int fd;
	_Atomic int direct;
	uint32_t flags;
	uint32_t file_align;
	uint32_t mem_align;
	char path[];
};

/**
 * struct rt_io_part - a range of a file and one of device memory
 * @offset: first byte in the file
 * @ptr: first byte in device memory
 * @size: how many
 * @win: @ptr as the host finds it; empty: through a buffer
 */
struct rt_io_part {
	uint64_t offset;
	char *ptr;
	size_t size;
	struct hal_window win;
};

/**
 * struct rt_io - a transfer
 * @node: in the list of those that wait, or of those that are carried out
 * @all: in the list of those that have begun
 * @file: the file, a reference
 * @write: to the file
 * @device: ordinal of the device
 * @point: its task; seq 0: it has none, and somebody waits for @over
 * @token: what the task is begun with
 * @holders: who is not done with it: the submitter, the engine
 * @cancel: it is to end soon
 * @over: 1: it has ended
 * @err: negative errno of the first failure
 * @part: the part that is next
 * @at: bytes of it that were issued
 * @piece_end: up to where in it it was decided that they are not copied from the cache
 * @cached: the piece is in the host's memory
 * @in_flight: reads or writes under way
 * @count: parts
 * @parts: the parts
 */
struct rt_io {
	struct hal_list node;
	struct hal_list all;
	struct rt_file *file;
	bool write;
	int device;
	struct hal_point point;
	uint64_t token;
	uint32_t holders;
	_Atomic bool cancel;
	_Atomic uint32_t over;
	int err;
	uint32_t part;
	uint64_t at;
	uint64_t piece_end;
	bool cached;
	uint32_t in_flight;
	uint32_t count;
	struct rt_io_part parts[];
};

/**
 * struct rt_io_op - one read or write
 * @node: in a list of the engine or the backend
 * @io: its transfer
 * @part: the part of it that it belongs to
 * @fd: the descriptor
 * @write: it writes
 * @direct: past the cache
 * @buf: where in host memory
 * @size: bytes that are still to come
 * @offset: in the file
 * @result: bytes, or a negative errno
 * @stage: a buffer of RT_IO_CHUNK, or NULL: none was needed yet
 * @staged: @buf lies in it
 * @dev: where in device memory the first byte goes
 */
struct rt_io_op {
	struct hal_list node;
	struct rt_io *io;
	struct rt_io_part *part;
	int fd;
	bool write;
	bool direct;
	bool staged;
	char *buf;
	uint32_t size;
	uint64_t offset;
	int64_t result;
	char *stage;
	char *dev;
};

/**
 * struct rt_io_backend - how reads and writes are carried out
 * @name: what the log calls it
 * @start: get ready. Return: 0, or why it does not work here
 * @stop: undo it; nothing is under way
 * @issue: begin one; what goes wrong is its result
 * @reap: those that are done, up to RT_IO_DEPTH; with block, waits for one, or for @wake
 * @wake: make @reap return, now or the next time; from any thread
 *
 * All but @wake are called by the engine's thread, @start before it runs.
 */
struct rt_io_backend {
	const char *name;
	int (*start)(void);
	void (*stop)(void);
	void (*issue)(struct rt_io_op *op);
	uint32_t (*reap)(struct rt_io_op **done, bool block);
	void (*wake)(void);
};

extern const struct rt_io_backend rt_io_threads;
extern const struct rt_io_backend rt_io_uring;

/* file.c */
void rt_file_put(struct rt_file *f);
int rt_file_open(const char *path, uint32_t flags, const char *op, struct rt_file **file);
int rt_file_failed(int err, const char *path, const char *op);
void rt_files_close(void);
int rt_file_stream(npu_stream stream, const void *ptr, const char *op, uint64_t *h, int *device);
struct rt_io *rt_io_new(struct rt_file *f, bool write, uint32_t count, const char *op);
void rt_io_free(struct rt_io *io);

/* file_engine.c */
int rt_io_submit(struct rt_io *io, uint64_t stream, uint64_t place, struct hal_point *p);
int rt_io_run(struct rt_io *io);
void rt_io_forget(const struct rt_file *f);
int rt_io_settle(uint64_t stream, int device, uint64_t deadline);
void rt_io_stop(uint64_t deadline);

/* file_move.c: the engine's thread, one transfer */
bool rt_io_cached(const struct rt_file *f, uint64_t offset, uint64_t size);
int rt_io_map_copy(struct rt_io *io, const struct rt_io_part *p, uint64_t at, size_t size);
int rt_io_device_copy(struct rt_io *io, void *dst, const void *src, size_t size);

/* file_fault.c: pages of a mapped file that are not there any more */
bool rt_fault_watch(const void *addr, size_t size);
bool rt_fault_met(void);

/* weights.c */
void rt_weights_close_all(void);

#endif /* RUNTIME_FILE_H */
