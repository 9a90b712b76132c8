// SPDX-License-Identifier: MIT
/*
 * Workspaces: scratch memory of streams, from the cache.
 *
 * A stream has one block, which its tasks use one after the other. A larger request gets a larger
 * one; those before it go when nobody is using the workspace any more, in the order of the stream,
 * so that tasks may still be queued that use them.
 */
#include <stdlib.h>
#include <string.h>

#include "hal/point.h"
#include "runtime/alloc.h"

#define BUCKETS 16u

/**
 * struct block - memory of a workspace
 * @next: an earlier one, which is too small
 * @ptr: the memory
 * @size: bytes
 */
struct block {
	struct block *next;
	void *ptr;
	size_t size;
};

/**
 * struct space - the workspace of a stream
 * @next: another one in the same bucket
 * @stream: the stream
 * @users: calls of npu_workspace_get() that were not undone
 * @block: the memory, NULL: none
 */
struct space {
	struct space *next;
	uint64_t stream;
	uint64_t users;
	struct block *block;
};

/**
 * struct spaces - the workspaces of a device
 * @lock: Protects: all of it
 * @life: grows as all are dropped
 * @bucket: by stream
 * @bytes: figures
 */
struct spaces {
	struct hal_spin lock;
	uint64_t life;
	struct space *bucket[BUCKETS];
	struct npu_mem_stat bytes;
};

static struct spaces all[RT_DEVICES];
/* What a process had whose child this is: nothing points there any more. */
static struct spaces inherited[RT_DEVICES];

/* ---- under the lock ------------------------------------------------------------------------- */

static struct space **find_locked(struct spaces *d, uint64_t stream)
{
	struct space **at = &d->bucket[hal_handle_index(stream) % BUCKETS];

	while (*at && (*at)->stream != stream)
		at = &(*at)->next;
	return at;
}

/* Takes blocks out, to be freed; they are put before @out. */
static struct block *take_locked(struct spaces *d, struct block **from, struct block *out)
{
	struct block *b;

	while ((b = *from)) {
		*from = b->next;
		d->bytes.current -= b->size;
		d->bytes.freed += b->size;
		b->next = out;
		out = b;
	}
	return out;
}

static bool is_gone(const struct space *s)
{
	struct hal_point p;

	return !hal_stream_last(s->stream, &p);
}

/* Takes out workspaces that nobody uses, or, not all, only those of streams that are gone. */
static struct block *sweep_locked(struct spaces *d, bool every, struct space **gone)
{
	struct block *out = NULL;
	struct space **at, *s;
	uint32_t i;

	for (i = 0; i < BUCKETS; i++)
		for (at = &d->bucket[i]; (s = *at);) {
			if (!(every && !s->users) && !is_gone(s)) {
				at = &s->next;
				continue;
			}
			*at = s->next;
			s->next = *gone;
			*gone = s;
			out = take_locked(d, &s->block, out);
		}
	return out;
}

/* ---- not under the lock --------------------------------------------------------------------- */

static void spaces_free(struct space *s)
{
	struct space *next;

	for (; s; s = next) {
		next = s->next;
		free(s);
	}
}

/* Gives blocks back to the cache; a failure is nobody's. Return: bytes. */
static uint64_t blocks_free(struct block *b)
{
	struct rt_record before;
	struct block *next;
	uint64_t bytes = 0;

	rt_record_save(&before);
	for (; b; b = next) {
		next = b->next;
		bytes += b->size;
		npu_mem_free(b->ptr);
		free(b);
	}
	rt_record_restore(&before);
	return bytes;
}

uint64_t rt_workspace_trim(int device)
{
	struct spaces *d = &all[device];
	struct space *gone = NULL;
	struct block *out;

	hal_spin_lock(&d->lock);
	out = sweep_locked(d, true, &gone);
	hal_spin_unlock(&d->lock);
	spaces_free(gone);
	return blocks_free(out);
}

/* The structures alone: the memory is gone. */
static void forget(struct spaces *d)
{
	struct block *b, *next;
	struct space *s, *after;
	uint32_t i;

	for (i = 0; i < BUCKETS; i++)
		for (s = d->bucket[i]; s; s = after) {
			after = s->next;
			for (b = s->block; b; b = next) {
				next = b->next;
				free(b);
			}
			free(s);
		}
}

void rt_workspace_drop(int device)
{
	struct spaces *d = &all[device], was;

	hal_spin_lock(&d->lock);
	was = (struct spaces){ .life = d->life };
	memcpy(was.bucket, d->bucket, sizeof(was.bucket));
	memset(d->bucket, 0, sizeof(d->bucket));
	d->bytes.freed += d->bytes.current;
	d->bytes.current = 0;
	d->life++;
	hal_spin_unlock(&d->lock);
	forget(&was);
}

void rt_workspace_fork_child(void)
{
	int d;

	for (d = 0; d < RT_DEVICES; d++) {
		if (!inherited[d].life)
			memcpy(inherited[d].bucket, all[d].bucket, sizeof(all[d].bucket));
		inherited[d].life = 1;
		memset(&all[d], 0, sizeof(all[d]));
	}
}

/* ---- getting one ---------------------------------------------------------------------------- */

/**
 * struct need - what a request may need, made without the lock
 * @space: a workspace, or NULL
 * @block: its memory, or NULL
 * @life: spaces.life as it began
 * @gone: workspaces that were taken out
 * @out: blocks that were
 */
struct need {
	struct space *space;
	struct block *block;
	uint64_t life;
	struct space *gone;
	struct block *out;
};

/* Whether there is one now; what was made is put to use. */
static bool take(struct spaces *d, uint64_t stream, size_t size, struct need *n, void **ptr)
{
	struct space **at = find_locked(d, stream), *s = *at;
	struct block *b = n->block;

	if (!s && n->space) {
		n->out = sweep_locked(d, false, &n->gone);
		s = n->space;
		n->space = NULL;
		at = find_locked(d, stream);
		*at = s;
	}
	if (s && b && (!s->block || s->block->size < size)) {
		if (s->block && !s->users)
			n->out = take_locked(d, &s->block, n->out);
		b->next = s->block;
		s->block = b;
		n->block = NULL;
		d->bytes.current += b->size;
		d->bytes.allocated += b->size;
		if (d->bytes.current > d->bytes.peak)
			d->bytes.peak = d->bytes.current;
	}
	if (!s || !s->block || s->block->size < size)
		return false;
	s->users++;
	*ptr = s->block->ptr;
	return true;
}

static int make(uint64_t stream, size_t size, struct need *n, const char *op)
{
	size_t bytes = size > RT_SMALL_MAX ? (size_t)hal_align_up(size, 2 * RT_MIB) : size;

	n->space = hal_zalloc(sizeof(*n->space));
	n->block = hal_zalloc(sizeof(*n->block));
	if (!n->space || !n->block)
		return hal_fail(-ENOMEM, op, "no memory for a workspace");
	n->space->stream = stream;
	n->block->size = bytes < size ? size : bytes;
	return npu_mem_alloc(n->block->size, (npu_stream){ stream }, &n->block->ptr);
}

static int get(struct spaces *d, uint64_t stream, size_t size, void **ptr, const char *op)
{
	struct need n = { NULL, NULL, 0, NULL, NULL };
	bool got, stale;
	int err = 0;

	hal_spin_lock(&d->lock);
	n.life = d->life;
	got = take(d, stream, size, &n, ptr);
	hal_spin_unlock(&d->lock);
	if (got)
		return 0;
	err = make(stream, size, &n, op);
	if (!err) {
		hal_spin_lock(&d->lock);
		stale = d->life != n.life;
		if (!stale)
			take(d, stream, size, &n, ptr);
		hal_spin_unlock(&d->lock);
		if (stale)
			err = hal_fail(-ESTALE, op, "the device was closed meanwhile");
	}
	spaces_free(n.space);
	spaces_free(n.gone);
	blocks_free(n.out);
	blocks_free(n.block);
	return err;
}

/* What every function about a stream begins with; *d: its device. */
static int enter(npu_stream stream, const char *op, uint64_t *h, int *d)
{
	struct rt_thread *t;
	int err;

	err = rt_enter(op);
	if (err)
		return err;
	t = rt_thread(op);
	if (!t)
		return -ENOMEM;
	err = rt_stream(stream, -1, op, h);
	if (err)
		return err;
	*d = rt_handle_device(t, *h, op);
	return *d < 0 ? *d : 0;
}

NPU_API int npu_workspace_get(npu_stream stream, size_t size, void **ptr)
{
	static const char op[] = "workspace_get";
	uint64_t h;
	int d, err;

	if (!ptr)
		return hal_fail(-EINVAL, op, "ptr is NULL");
	*ptr = NULL;
	err = enter(stream, op, &h, &d);
	if (!err && !size)
		err = hal_fail(-EINVAL, op, "size is 0");
	return err ? err : get(&all[d], h, size, ptr, op);
}

NPU_API int npu_workspace_put(npu_stream stream)
{
	static const char op[] = "workspace_put";
	struct block *out = NULL;
	struct space *s;
	bool used;
	uint64_t h;
	int d, err;

	err = enter(stream, op, &h, &d);
	if (err)
		return err;
	hal_spin_lock(&all[d].lock);
	s = *find_locked(&all[d], h);
	used = s && s->users;
	if (used && !--s->users)
		out = take_locked(&all[d], &s->block->next, NULL);
	hal_spin_unlock(&all[d].lock);
	blocks_free(out);
	return used ? 0 : hal_fail(-EINVAL, op, "nobody uses the workspace of this stream");
}

/* ---- what there is -------------------------------------------------------------------------- */

static int of_device(int device, const char *op, int *d)
{
	int err = rt_enter(op);

	return err ? err : rt_device_arg(device, op, d);
}

NPU_API int npu_workspace_trim(int device)
{
	int d, err;

	err = of_device(device, "workspace_trim", &d);
	if (!err)
		rt_workspace_trim(d);
	return err;
}

NPU_API int npu_workspace_get_stats(int device, struct npu_workspace_stats *stats)
{
	static const char op[] = "workspace_get_stats";
	struct npu_workspace_stats out = { 0 };
	const struct space *s;
	int d, err;
	uint32_t i;

	err = of_device(device, op, &d);
	if (err)
		return err;
	if (!stats || stats->size < sizeof(stats->size))
		return hal_fail(-EINVAL, op, "stats is NULL, or its size is not set");
	hal_spin_lock(&all[d].lock);
	out.bytes = all[d].bytes;
	for (i = 0; i < BUCKETS; i++)
		for (s = all[d].bucket[i]; s; s = s->next) {
			out.spaces++;
			out.in_use += s->users != 0;
		}
	hal_spin_unlock(&all[d].lock);
	out.size = stats->size;
	rt_copy_out(stats, &out, stats->size, sizeof(out));
	return 0;
}
