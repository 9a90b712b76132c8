// SPDX-License-Identifier: MIT
/*
 * Containers of weights: loading tensors, and comparing checksums.
 */
#include <stdlib.h>

#include "runtime/weights.h"
#include "runtime/xxh64.h"

/* A task of the stream: so many tensors, or pieces of one, and bytes. Two are in the stream. */
#define BATCH_PARTS 64u
#define BATCH_BYTES (256ull << 20)
#define AHEAD 2u

/* Bytes that are read to be compared. */
#define VERIFY_CHUNK (4u << 20)

/**
 * struct load - a load under way
 * @w: the container
 * @first: its first tensor
 * @count: how many
 * @dst: where they go
 * @stream: the stream
 * @device: its device
 * @place: code address of the caller
 * @at: the tensor that is next
 * @done: bytes of that which were submitted
 * @total: bytes in all
 * @loaded: bytes that are there
 * @progress: who is told, or NULL
 * @arg: for it
 */
struct load {
	struct rt_weights *w;
	uint32_t first;
	uint32_t count;
	void *const *dst;
	uint64_t stream;
	int device;
	uint64_t place;
	uint32_t at;
	uint64_t done;
	uint64_t total;
	uint64_t loaded;
	npu_progress_fn *progress;
	void *arg;
};

static uint64_t bytes_of(const struct load *l, uint32_t i)
{
	return l->dst[i] ? weights_load(weights_entry(l->w, l->first + i) + ENTRY_BYTES, 8) : 0;
}

/* All destinations, before anything is done. */
static int check(struct load *l)
{
	struct hal_device *dev;
	uint64_t bytes;
	uint32_t i;
	int err;

	for (i = 0; i < l->count; i++) {
		bytes = bytes_of(l, i);
		l->total += bytes;
		if (!bytes)
			continue;
		err = hal_range_check(l->dst[i], bytes, &dev, "weights_load");
		if (err < 0)
			return err;
		if (rt_device_of(dev) != l->device)
			return hal_fail(-EXDEV, "weights_load", "%p is memory of device %d, the "
					"stream is of %d", l->dst[i], rt_device_of(dev), l->device);
	}
	return 0;
}

/* ---- batches ---------------------------------------------------------------------- */

/* The next piece; false: there is none. */
static bool next_part(struct load *l, uint64_t room, struct rt_io_part *p)
{
	uint64_t bytes;

	while (l->at < l->count && l->done == bytes_of(l, l->at)) {
		l->at++;
		l->done = 0;
	}
	if (l->at == l->count)
		return false;
	bytes = bytes_of(l, l->at) - l->done;
	if (bytes > room)
		bytes = room;
	p->offset = weights_load(weights_entry(l->w, l->first + l->at) + ENTRY_OFFSET, 8) + l->done;
	p->ptr = (char *)l->dst[l->at] + l->done;
	p->size = bytes;
	l->done += bytes;
	return true;
}

/* Submits one; *bytes 0: there was nothing left. */
static int submit(struct load *l, struct hal_point *p, uint64_t *bytes)
{
	struct rt_io *io = rt_io_new(l->w->file, false, BATCH_PARTS, "weights_load");

	*bytes = 0;
	if (!io)
		return -ENOMEM;
	for (io->count = 0; io->count < BATCH_PARTS && *bytes < BATCH_BYTES; io->count++) {
		if (!next_part(l, BATCH_BYTES - *bytes, &io->parts[io->count]))
			break;
		*bytes += io->parts[io->count].size;
	}
	if (!*bytes) {
		rt_io_free(io);
		return 0;
	}
	io->device = l->device;
	return rt_io_submit(io, l->stream, l->place, p);
}

static int report(struct load *l)
{
	if (!l->progress || !l->progress(l->loaded, l->total, l->arg))
		return 0;
	return hal_fail(-ECANCELED, "weights_load", "the caller's function ended it after %llu of "
			"%llu bytes", (unsigned long long)l->loaded, (unsigned long long)l->total);
}

/* A batch is always one ahead, and none is left under way. */
static int run(struct load *l)
{
	struct hal_point point[AHEAD];
	uint64_t bytes[AHEAD], n;
	uint32_t head = 0, tail = 0;
	bool more = true;
	int err = 0, rc;

	do {
		while (more && !err && tail - head < AHEAD) {
			err = submit(l, &point[tail % AHEAD], &n);
			more = !err && n;
			bytes[tail % AHEAD] = n;
			tail += more;
		}
		if (head == tail)
			break;
		rc = hal_point_sync(&point[head % AHEAD], NPU_WAIT_FOREVER, 0);
		if (!rc)
			l->loaded += bytes[head % AHEAD];
		head++;
		if (!rc && !err)
			rc = report(l);
		/* the first one is the caller's */
		err = err ? err : rc;
	} while (true);
	return err;
}

/* ---- checksums -------------------------------------------------------------------- */

static int differs(const struct rt_weights *w, uint32_t index, uint64_t sum, const char *op)
{
	const unsigned char *e = weights_entry(w, index);
	struct weights_name name = weights_name(w->header, e);

	if (sum == weights_load(e + ENTRY_SUM, 8))
		return 0;
	return hal_fail(-EBADMSG, op, "%s: tensor \"%.*s\" is damaged: its checksum differs",
			w->file->path, (int)(name.len < 64 ? name.len : 64), name.text);
}

/* Compares what is in device memory. */
static int verify_loaded(const struct load *l, uint32_t i, char *buf)
{
	uint64_t bytes = bytes_of(l, i), at;
	struct hal_context *ctx;
	struct rt_xxh64 x;
	int err = 0;
	size_t n;

	ctx = hal_context_get(hal_load_acquire(&rt_devices[l->device].primary), "weights_load");
	if (!ctx)
		return hal_error_last()->code;
	rt_xxh64_begin(&x);
	for (at = 0; at < bytes && !err; at += n) {
		struct hal_copy c = { .dst = buf, .src = (char *)l->dst[i] + at, .height = 1,
				      .kind = NPU_COPY_D2H };

		n = bytes - at < VERIFY_CHUNK ? (size_t)(bytes - at) : VERIFY_CHUNK;
		c.width = c.dst_pitch = c.src_pitch = n;
		err = hal_mem_copy(ctx, &c);
		if (!err)
			rt_xxh64_add(&x, buf, n);
	}
	hal_context_put(ctx);
	return err ? err : differs(l->w, l->first + i, rt_xxh64_end(&x), "weights_load");
}

static int verify_all(const struct load *l)
{
	char *buf = malloc(VERIFY_CHUNK);
	uint32_t i;
	int err = 0;

	if (!buf)
		return hal_fail(-ENOMEM, "weights_load", "no memory to compare checksums");
	for (i = 0; i < l->count && !err; i++)
		if (l->dst[i])
			err = verify_loaded(l, i, buf);
	free(buf);
	return err;
}

/* Compares what is in the file. */
static int verify_file(struct rt_weights *w, uint32_t index, char *buf)
{
	const unsigned char *e = weights_entry(w, index);
	uint64_t offset = weights_load(e + ENTRY_OFFSET, 8);
	uint64_t left = weights_load(e + ENTRY_BYTES, 8);
	struct rt_xxh64 x;
	ssize_t n;

	rt_xxh64_begin(&x);
	while (left) {
		n = rt_file_sys->pread(w->file->fd, buf,
				       left < VERIFY_CHUNK ? (size_t)left : VERIFY_CHUNK, offset);
		if (n <= 0)
			return hal_fail(n ? -EIO : -ENODATA, "weights_verify", "%s: %s",
					w->file->path, n ? strerror((int)-n) : "it ends too early");
		rt_xxh64_add(&x, buf, (size_t)n);
		offset += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return differs(w, index, rt_xxh64_end(&x), "weights_verify");
}

NPU_API int npu_weights_verify(npu_weights weights, uint32_t index)
{
	struct rt_weights *w;
	char *buf;
	int err;

	err = rt_enter("weights_verify");
	if (err)
		return err;
	w = rt_weights_get(weights, "weights_verify");
	if (!w)
		return hal_error_last()->code;
	buf = malloc(VERIFY_CHUNK);
	if (index >= w->count)
		err = rt_weights_no_tensor(w, index, "weights_verify");
	else if (!buf)
		err = hal_fail(-ENOMEM, "weights_verify", "no memory to compare checksums");
	else
		err = verify_file(w, index, buf);
	free(buf);
	rt_weights_put(w);
	return err;
}

/* ---- loading ---------------------------------------------------------------------- */

static int load(struct load *l, npu_stream stream, uint32_t flags)
{
	const void *hint = NULL;
	uint32_t i;
	int err;

	for (i = 0; i < l->count && !hint; i++)
		hint = l->dst[i];
	err = rt_file_stream(stream, hint, "weights_load", &l->stream, &l->device);
	if (!err)
		err = check(l);
	if (err)
		return err;
	rt_sync_begin(NPU_SYNC_STREAM, l->stream);
	err = run(l);
	if (!err && flags & NPU_WEIGHTS_VERIFY)
		err = verify_all(l);
	rt_sync_end(NPU_SYNC_STREAM, l->stream, err);
	return err;
}

NPU_API int npu_weights_load(npu_weights weights, uint32_t first, uint32_t count,
			     void *const *dst, npu_stream stream, uint32_t flags,
			     npu_progress_fn *progress, void *arg)
{
	struct load l = {
		.first = first, .count = count, .dst = dst, .place = RT_PLACE,
		.progress = progress, .arg = arg,
	};
	int err;

	err = rt_enter("weights_load");
	if (err)
		return err;
	if (hal_in_callback())
		return hal_fail(-EDEADLK, "weights_load", "a callback must not wait");
	if (flags & ~NPU_WEIGHTS_VERIFY)
		return hal_fail(-EINVAL, "weights_load", "flags 0x%x", flags);
	l.w = rt_weights_get(weights, "weights_load");
	if (!l.w)
		return hal_error_last()->code;
	if (count == UINT32_MAX && first <= l.w->count)
		l.count = l.w->count - first;
	if (first > l.w->count || l.count > l.w->count - first)
		err = rt_weights_no_tensor(l.w, first > l.w->count ? first : l.w->count,
					   "weights_load");
	else if (!dst && l.count)
		err = hal_fail(-EINVAL, "weights_load", "dst is NULL");
	else
		err = load(&l, stream, flags);
	rt_weights_put(l.w);
	return err;
}
