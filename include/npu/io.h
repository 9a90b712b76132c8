/* SPDX-License-Identifier: MIT */
/*
 * Files: between disk and device memory, in the order of a stream; and containers
 * of weights.
 *
 * What is cached is copied from there; all else goes straight to or from device
 * memory where the device has a window for it (NPU_CAP_IO_WINDOW) and file, offset and
 * address are aligned, and through a few pinned buffers where not. Transfers of
 * several streams are under way at the same time.
 */
#ifndef NPU_IO_H
#define NPU_IO_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files ------------------------------------------------------------------------- */

/** struct npu_file - a file that is open; 0 is none */
typedef struct npu_file { uint64_t h; } npu_file;

/* Flags of npu_file_open(). */
/** NPU_FILE_READ - to read from */
#define NPU_FILE_READ (1u << 0)
/** NPU_FILE_WRITE - to write to */
#define NPU_FILE_WRITE (1u << 1)
/** NPU_FILE_CREATE - make it if it is not there, with the rights that the umask leaves of 0666 */
#define NPU_FILE_CREATE (1u << 2)
/** NPU_FILE_TRUNCATE - empty it; both only with NPU_FILE_WRITE */
#define NPU_FILE_TRUNCATE (1u << 3)

/**
 * npu_file_open() - open a file
 * @path: a regular file or a block device
 * @flags: NPU_FILE_READ, NPU_FILE_WRITE or both, and the others
 * @file: out: the file; 0 on failure
 *
 * A child process does not inherit it. npu_finalize() closes it.
 * Return: 0, -EINVAL (NULL, flags; something else than a regular file or block device), -ENOENT,
 * -EACCES, -ENOSPC, -EMFILE, -ENFILE, -EIO (what else the system answers), -ENOMEM, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_file_open(const char *path, uint32_t flags, npu_file *file);

/**
 * npu_file_close() - close a file
 * @file: the file
 *
 * Transfers that were submitted are carried out all the same.
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_file_close(npu_file file);

/**
 * npu_file_size() - how long a file is now
 * @file: the file
 * @size: out: bytes; 0 on failure
 *
 * Return: 0, -EINVAL (0, NULL), -EBADF, -ESTALE, -EIO, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_file_size(npu_file file, uint64_t *size);

/**
 * npu_file_read_async() - read from a file into device memory, in a stream
 * @stream: the stream; of 0, the device is that of @dst if the thread has set none
 * @file: the file
 * @offset: first byte in the file
 * @dst: device memory of the stream's device
 * @size: bytes; 0 is nothing
 *
 * Begins when what was submitted before has completed, and what is submitted behind it begins
 * when all bytes are there. What goes wrong on the way is a failure of the task: -ENODATA: the
 * file ends before, now or since it was truncated during the transfer; -EIO: the disk;
 * -EHWPOISON: the memory is unsafe; -EINVAL: it was freed. Nothing outside @dst is changed by any
 * of these, and what was read before stays. npu_stream_abort(), npu_device_stop() and
 * npu_device_restart() end it, and return when it touches the memory no more.
 * Return: 0, -EINVAL (not device memory, it leaves its allocation, the file's end is beyond 2^63),
 * -EBADF (@file is none, or was not opened for it), -ESTALE, -EXDEV (memory of another device),
 * -EAGAIN (the stream is full and does not block), -ETIMEDOUT (it stayed full), -ENOMEM,
 * -EOPNOTSUPP (without NPU_CAP_HOST_TASK), or what every function with a stream answers (top of
 * npu/stream.h).
 */
NPU_API int npu_file_read_async(npu_stream stream, npu_file file, uint64_t offset, void *dst,
				size_t size);

/**
 * npu_file_write_async() - write device memory to a file, in a stream
 * @stream: the stream; of 0, the device is that of @src if the thread has set none
 * @file: the file
 * @offset: where the first byte goes; the file grows as needed
 * @src: device memory of the stream's device
 * @size: bytes; 0 is nothing
 *
 * As npu_file_read_async(). Failures of the task: -ENOSPC: the disk or quota is full, or the file
 * may not grow so large; -EIO; -EHWPOISON; -EINVAL. What was written before stays. It is in the
 * file when the task has completed, and as safe from a loss of power as after write(2).
 * Return: as npu_file_read_async().
 */
NPU_API int npu_file_write_async(npu_stream stream, npu_file file, uint64_t offset,
				 const void *src, size_t size);

/**
 * npu_file_read() - read from a file into device memory now
 * @file: the file
 * @offset: first byte in the file
 * @dst: device memory
 * @size: bytes; 0 is nothing
 *
 * Done when it returns, and ordered with no stream.
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -ENODATA, -EIO, -EHWPOISON, -ENOMEM, -ENODEV,
 * -ECANCELED (the device was stopped meanwhile), -EDEADLK (inside a callback), -EOPNOTSUPP,
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_file_read(npu_file file, uint64_t offset, void *dst, size_t size);

/**
 * npu_file_write() - write device memory to a file now
 * @file: the file
 * @offset: where the first byte goes; the file grows as needed
 * @src: device memory
 * @size: bytes; 0 is nothing
 *
 * Return: as npu_file_read(), and -ENOSPC.
 */
NPU_API int npu_file_write(npu_file file, uint64_t offset, const void *src, size_t size);

/* ---- weights ------------------------------------------------------------------------- */

/** struct npu_weights - a container of weights (Documentation/weights.rst); 0 is none */
typedef struct npu_weights { uint64_t h; } npu_weights;

/** enum npu_dtype - what the numbers of a tensor are; little-endian */
enum npu_dtype {
	NPU_DTYPE_U8 = 1,	/* also for bytes that are no numbers */
	NPU_DTYPE_I8 = 2,
	NPU_DTYPE_U16 = 3,
	NPU_DTYPE_I16 = 4,
	NPU_DTYPE_U32 = 5,
	NPU_DTYPE_I32 = 6,
	NPU_DTYPE_U64 = 7,
	NPU_DTYPE_I64 = 8,
	NPU_DTYPE_F16 = 9,
	NPU_DTYPE_BF16 = 10,
	NPU_DTYPE_F32 = 11,
	NPU_DTYPE_F64 = 12,
};

/** NPU_TENSOR_NAME_LEN - bytes of a tensor's name, the closing zero included */
#define NPU_TENSOR_NAME_LEN 256
/** NPU_TENSOR_RANK_MAX - dimensions of a tensor */
#define NPU_TENSOR_RANK_MAX 8

/**
 * struct npu_tensor_info - a tensor of a container
 * @size: in: sizeof(struct npu_tensor_info); only so many bytes are written
 * @offset: where its bytes are in the file
 * @bytes: how many
 * @checksum: XXH64 of them, seed 0
 * @dtype: enum npu_dtype
 * @rank: dimensions, 0: a single number
 * @shape: the dimensions, the slowest first; zero behind @rank
 * @name: what it is called, UTF-8
 */
struct npu_tensor_info {
	size_t size;
	uint64_t offset;
	uint64_t bytes;
	uint64_t checksum;
	uint32_t dtype;
	uint32_t rank;
	uint64_t shape[NPU_TENSOR_RANK_MAX];
	char name[NPU_TENSOR_NAME_LEN];
};

/**
 * npu_weights_open() - open a container of weights
 * @path: the file
 * @weights: out: the container; 0 on failure
 *
 * Reads and checks all of the header, and none of the tensors.
 * Return: 0, -EINVAL (NULL), as npu_file_open(), -EPROTO (of another version), -EBADMSG (not such
 * a file, damaged, or shorter than it says).
 */
NPU_API int npu_weights_open(const char *path, npu_weights *weights);

/**
 * npu_weights_close() - close a container
 * @weights: the container
 *
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_weights_close(npu_weights weights);

/**
 * npu_weights_count() - how many tensors there are
 * @weights: the container
 * @count: out: how many; 0 on failure
 *
 * Return: 0, -EINVAL (0, NULL), -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_weights_count(npu_weights weights, uint32_t *count);

/**
 * npu_weights_info() - what a tensor is
 * @weights: the container
 * @index: which, from 0
 * @info: in: its size; out: so many bytes of what is known; not touched on failure
 *
 * Return: 0, -EINVAL (0, NULL, no size), -ENOENT (there is no @index-th), -EBADF, -ESTALE,
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_weights_info(npu_weights weights, uint32_t index, struct npu_tensor_info *info);

/**
 * npu_weights_find() - which tensor has a name
 * @weights: the container
 * @name: the name
 * @index: out: which, from 0; UINT32_MAX on failure
 *
 * Return: 0, -EINVAL (0, NULL), -ENOENT, -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_weights_find(npu_weights weights, const char *name, uint32_t *index);

/**
 * npu_progress_fn - how far something is
 * @done: bytes that are done
 * @total: bytes in all
 * @arg: as was given
 *
 * Return: 0; anything else ends it with -ECANCELED.
 */
typedef int npu_progress_fn(uint64_t done, uint64_t total, void *arg);

/* Flags of npu_weights_load(). */
/** NPU_WEIGHTS_VERIFY - read back what is in device memory, and compare checksums */
#define NPU_WEIGHTS_VERIFY (1u << 0)

/**
 * npu_weights_load() - load tensors into device memory
 * @weights: the container
 * @first: the first tensor, from 0
 * @count: how many; UINT32_MAX: all behind @first
 * @dst: for each, device memory of the stream's device; NULL: it is left out
 * @stream: begins when what was submitted there before has completed; 0: as in
 *	npu_file_read_async()
 * @flags: NPU_WEIGHTS_VERIFY or 0
 * @progress: called in this thread at times, and at the end; may be NULL
 * @arg: for @progress
 *
 * Returns when all is there; a failure is told by this and by no later wait.
 * Return: 0, -EINVAL (0, NULL, flags; @dst as in npu_file_read_async()), -ENOENT (there are not so
 * many), -EBADMSG (a checksum differs), -ECANCELED (@progress said so, or the stream was aborted),
 * -EDEADLK (inside a callback), or as npu_file_read_async() and its task.
 */
NPU_API int npu_weights_load(npu_weights weights, uint32_t first, uint32_t count,
			     void *const *dst, npu_stream stream, uint32_t flags,
			     npu_progress_fn *progress, void *arg);

/**
 * npu_weights_verify() - compare a tensor's bytes in the file with its checksum
 * @weights: the container
 * @index: which, from 0
 *
 * Reads them; no device is needed.
 * Return: 0, -EINVAL (0), -ENOENT, -EBADMSG (they differ), -ENODATA (the file ends before), -EIO,
 * -ENOMEM, -EBADF, -ESTALE, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_weights_verify(npu_weights weights, uint32_t index);

/**
 * struct npu_tensor - a tensor to write
 * @name: what it is called: UTF-8, not empty, no other tensor's
 * @dtype: enum npu_dtype
 * @rank: dimensions, 0: a single number
 * @shape: the dimensions, the slowest first
 * @data: its bytes, in host memory; as many as @dtype and @shape say
 */
struct npu_tensor {
	const char *name;
	uint32_t dtype;
	uint32_t rank;
	uint64_t shape[NPU_TENSOR_RANK_MAX];
	const void *data;
};

/**
 * npu_weights_write() - write a container of weights
 * @path: the file; one that is there is replaced, but only when all is written
 * @tensors: the tensors
 * @count: how many
 *
 * Needs no device. What was there stays on failure.
 * Return: 0, -EINVAL (NULL, a name, type or shape), -EEXIST (two of one name), -ENOENT, -EACCES,
 * -ENOSPC, -EMFILE, -ENFILE, -EIO, -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_weights_write(const char *path, const struct npu_tensor *tensors, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* NPU_IO_H */
