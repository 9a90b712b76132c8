// SPDX-License-Identifier: MIT
/*
 * Containers of weights: writing one. It gets another name until all of it is on disk.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/weights.h"
#include "runtime/xxh64.h"

/* How many other names are tried. */
#define TRIES 100u

struct writer {
	const struct npu_tensor *tensors;
	uint32_t count;
	unsigned char *header;
	uint64_t header_size;
	uint64_t file_size;
	int fd;
};

static int check(const struct npu_tensor *t, uint32_t i)
{
	uint64_t bytes;
	size_t len = t->name ? strnlen(t->name, NPU_TENSOR_NAME_LEN) : 0;

	if (!len || len >= NPU_TENSOR_NAME_LEN || !rt_utf8(t->name, len))
		return hal_fail(-EINVAL, "weights_write", "tensor %u: no name that can be", i);
	if (!rt_tensor_bytes(t->dtype, t->rank, t->shape, &bytes))
		return hal_fail(-EINVAL, "weights_write", "tensor \"%s\": type %u, %u dimensions",
				t->name, t->dtype, t->rank);
	if (bytes && !t->data)
		return hal_fail(-EINVAL, "weights_write", "tensor \"%s\": no data", t->name);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct writer *w)
{
	const char **names = calloc(w->count + 1u, sizeof(*names));
	uint32_t i;
	int err = 0;

	if (!names)
		return hal_fail(-ENOMEM, "weights_write", "no memory");
	for (i = 0; i < w->count; i++)
		names[i] = w->tensors[i].name;
	qsort(names, w->count, sizeof(*names), by_name);
	for (i = 1; i < w->count && !err; i++)
		if (!strcmp(names[i - 1], names[i]))
			err = hal_fail(-EEXIST, "weights_write", "two tensors are called \"%s\"",
				       names[i]);
	free(names);
	return err;
}

static void make_entry(unsigned char *e, const struct npu_tensor *t, uint64_t name,
		       uint64_t *offset)
{
	uint64_t bytes;
	uint32_t i;

	rt_tensor_bytes(t->dtype, t->rank, t->shape, &bytes);
	weights_store(e + ENTRY_OFFSET, 8, *offset);
	weights_store(e + ENTRY_BYTES, 8, bytes);
	weights_store(e + ENTRY_SUM, 8, rt_xxh64(t->data, bytes));
	weights_store(e + ENTRY_NAME, 4, name);
	weights_store(e + ENTRY_NAME_LEN, 2, strlen(t->name));
	e[ENTRY_DTYPE] = (unsigned char)t->dtype;
	e[ENTRY_RANK] = (unsigned char)t->rank;
	for (i = 0; i < t->rank; i++)
		weights_store(e + ENTRY_SHAPE + 8 * i, 8, t->shape[i]);
	*offset += bytes;
}

static int make_header(struct writer *w)
{
	uint64_t name = WEIGHTS_HEAD + (uint64_t)w->count * WEIGHTS_ENTRY, offset;
	unsigned char *h;
	uint32_t i;

	w->header_size = name;
	for (i = 0; i < w->count; i++)
		w->header_size += strlen(w->tensors[i].name);
	if (w->header_size > WEIGHTS_HEADER_MAX)
		return hal_fail(-EINVAL, "weights_write", "%u tensors are too many", w->count);
	h = w->header = hal_zalloc(w->header_size);
	if (!h)
		return hal_fail(-ENOMEM, "weights_write", "no memory");
	offset = w->header_size;
	for (i = 0; i < w->count; i++) {
		offset = hal_align_up(offset, WEIGHTS_ALIGN);
		make_entry(h + WEIGHTS_HEAD + (size_t)i * WEIGHTS_ENTRY, &w->tensors[i], name,
			   &offset);
		memcpy(h + name, w->tensors[i].name, strlen(w->tensors[i].name));
		name += strlen(w->tensors[i].name);
	}
	w->file_size = offset;
	memcpy(h, WEIGHTS_MAGIC, 8);
	weights_store(h + HEAD_VERSION, 4, WEIGHTS_VERSION);
	weights_store(h + HEAD_COUNT, 4, w->count);
	weights_store(h + HEAD_FILE, 8, w->file_size);
	weights_store(h + HEAD_HEADER, 8, w->header_size);
	weights_store(h + HEAD_ALIGN, 4, WEIGHTS_ALIGN);
	weights_store(h + HEAD_SUM, 8, rt_xxh64(h, w->header_size));
	return 0;
}

static int write_at(int fd, const void *data, uint64_t size, uint64_t offset)
{
	const char *p = data;
	ssize_t n;

	while (size) {
		n = rt_file_sys->pwrite(fd, p, size, offset);
		if (n <= 0)
			return n ? (int)n : -EIO;
		p += n;
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

/* The gaps between tensors are holes, and read as zeros. */
static int write_all(const struct writer *w)
{
	const unsigned char *e = w->header + WEIGHTS_HEAD;
	uint32_t i;
	int err;

	err = write_at(w->fd, w->header, w->header_size, 0);
	for (i = 0; i < w->count && !err; i++, e += WEIGHTS_ENTRY)
		err = write_at(w->fd, w->tensors[i].data, weights_load(e + ENTRY_BYTES, 8),
			       weights_load(e + ENTRY_OFFSET, 8));
	/* a tensor without bytes at the end is behind what was written */
	if (!err && ftruncate(w->fd, (off_t)w->file_size))
		err = -errno;
	if (!err && fsync(w->fd))
		err = -errno;
	return err;
}

static int open_new(char *name, size_t size, const char *path)
{
	static _Atomic uint32_t serial;
	uint32_t i;
	int fd = -EEXIST;

	for (i = 0; i < TRIES && fd == -EEXIST; i++) {
		snprintf(name, size, "%s.%u-%u", path, (unsigned int)getpid(),
			 hal_add_relaxed(&serial, 1));
		fd = rt_file_sys->open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
	}
	return fd;
}

static int write_file(struct writer *w, const char *path)
{
	size_t size = strlen(path) + 32;
	char *name = malloc(size);
	int err;

	if (!name)
		return hal_fail(-ENOMEM, "weights_write", "no memory");
	w->fd = open_new(name, size, path);
	err = w->fd < 0 ? w->fd : write_all(w);
	if (w->fd >= 0)
		hal_sys_close(&hal_sys_libc, w->fd);
	if (!err && rename(name, path))
		err = -errno;
	if (err && w->fd >= 0)
		unlink(name);
	free(name);
	return err ? rt_file_failed(err, path, "weights_write") : 0;
}

NPU_API int npu_weights_write(const char *path, const struct npu_tensor *tensors, uint32_t count)
{
	struct writer w = { .tensors = tensors, .count = count };
	uint32_t i;
	int err;

	err = rt_enter("weights_write");
	if (err)
		return err;
	if (!path || (!tensors && count))
		return hal_fail(-EINVAL, "weights_write", "path or tensors are NULL");
	for (i = 0; i < count && !err; i++)
		err = check(&tensors[i], i);
	if (!err)
		err = check_names(&w);
	if (!err)
		err = make_header(&w);
	if (!err)
		err = write_file(&w, path);
	free(w.header);
	return err;
}
