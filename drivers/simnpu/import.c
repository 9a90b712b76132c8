// SPDX-License-Identifier: MIT
/*
 * Streams of other devices: before a stream can wait for one, the queue is
 * exported there and imported here, once for each context that waits.
 */
#include <stdlib.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"

/*
 * Protects: the lists of imports of all streams and contexts. Submissions only
 * read simnpu_stream.imports, whose entries live as long as the stream, and
 * look for the number of their own context, whose entries can't change
 * meanwhile.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/**
 * simnpu_import_find() - what a context's device calls a stream of another device
 * @ctx: the context
 * @other: the stream
 * @handle: out: the handle
 *
 * Context: any, also under a submit lock. Return: whether it was imported.
 */
bool simnpu_import_find(struct simnpu_ctx *ctx, struct simnpu_stream *other, uint32_t *handle)
{
	/* acquire: the entry is whole before it is found */
	struct simnpu_foreign *f = hal_load_acquire(&other->imports);

	for (; f; f = f->next) {
		/* acquire: the handle was written before */
		if (hal_load_acquire(&f->context) != ctx->id)
			continue;
		*handle = hal_load_relaxed(&f->handle);
		return true;
	}
	return false;
}

/* An entry of the stream that is not in use. */
static struct simnpu_foreign *entry_get(struct simnpu_stream *s)
{
	struct simnpu_foreign *first = hal_load_relaxed(&s->imports), *f;

	for (f = first; f; f = f->next)
		if (!hal_load_relaxed(&f->context))
			return f;
	f = hal_zalloc(sizeof(*f));
	if (!f)
		return NULL;
	f->next = first;
	f->stream = s;
	hal_list_init(&f->node);
	/* release: the entry is whole before it is found */
	hal_store_release(&s->imports, f);
	return f;
}

static int import_locked(struct simnpu_ctx *ctx, struct simnpu_stream *other)
{
	struct simnpu_export e = { .handle = other->handle };
	struct simnpu_import i = { .context = ctx->handle };
	struct simnpu_foreign *f = entry_get(other);
	int err;

	if (!f)
		return -ENOMEM;
	err = hal_sys_ioctl(other->sys, other->fd, SIMNPU_IOCTL_QUEUE_EXPORT, &e);
	if (err)
		return err;
	i.fd = e.fd;
	err = simnpu_ioctl(&ctx->base, SIMNPU_IOCTL_QUEUE_IMPORT, &i);
	hal_sys_close(other->sys, e.fd);
	if (err)
		return err;
	f->dev = simnpu_device_of(&ctx->base);
	hal_list_add_tail(&ctx->imports, &f->node);
	hal_store_relaxed(&f->handle, i.handle);
	/* release: whoever sees the context's number sees the handle */
	hal_store_release(&f->context, ctx->id);
	return 0;
}

/**
 * simnpu_import_prepare() - make a wait for a stream of another device possible
 * @base: the stream that is going to wait
 * @other: the stream that is waited for
 *
 * Return: 0, -ENOMEM, or as the devices fail.
 */
int simnpu_import_prepare(struct hal_stream *base, struct hal_stream *other)
{
	struct simnpu_ctx *ctx = to_simnpu_ctx(base->ctx);
	struct simnpu_stream *o = to_simnpu_stream(other);
	uint32_t handle;
	int err = 0;

	if (other->ctx->dev == base->ctx->dev || simnpu_import_find(ctx, o, &handle))
		return 0;
	pthread_mutex_lock(&lock);
	if (!simnpu_import_find(ctx, o, &handle))
		err = import_locked(ctx, o);
	pthread_mutex_unlock(&lock);
	if (err)
		return hal_fail(err, "stream_wait_event",
				"stream %#llx cannot be made known to device %d",
				(unsigned long long)other->handle, base->ctx->dev->ordinal);
	return 0;
}

/**
 * simnpu_import_name() - the hal handle of an imported stream
 * @ctx: the context
 * @handle: what its device calls it
 *
 * Return: the handle; 0 when there is no such stream any more.
 */
uint64_t simnpu_import_name(struct simnpu_ctx *ctx, uint32_t handle)
{
	struct simnpu_foreign *f;
	struct hal_list *pos;
	uint64_t name = 0;

	pthread_mutex_lock(&lock);
	hal_list_for_each(pos, &ctx->imports) {
		f = hal_list_entry(pos, struct simnpu_foreign, node);
		if (hal_load_relaxed(&f->handle) == handle)
			name = hal_load_relaxed(&f->stream->base.handle);
	}
	pthread_mutex_unlock(&lock);
	return name;
}

/* Gives an import back to its device; the entry stays. */
static void import_drop(struct simnpu_foreign *f)
{
	struct simnpu_handle h = { .handle = hal_load_relaxed(&f->handle) };
	int err;

	hal_list_del(&f->node);
	err = hal_sys_ioctl(f->dev->sys, f->dev->fd, SIMNPU_IOCTL_QUEUE_DESTROY, &h);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: import %u: destroy: error %d",
			 f->dev->base.index, h.handle, -err);
	hal_store_relaxed(&f->context, 0);
}

/**
 * simnpu_import_drop_stream() - forget a stream's imports, as it ends
 * @s: the stream; nobody can submit a wait for it any more
 */
void simnpu_import_drop_stream(struct simnpu_stream *s)
{
	struct simnpu_foreign *f, *next;

	/* relaxed: the last reference is ours, so all entries were made before */
	if (!hal_load_relaxed(&s->imports))
		return;
	pthread_mutex_lock(&lock);
	for (f = hal_load_relaxed(&s->imports); f; f = next) {
		next = f->next;
		if (hal_load_relaxed(&f->context))
			import_drop(f);
		free(f);
	}
	pthread_mutex_unlock(&lock);
}

/**
 * simnpu_import_drop_context() - forget a context's imports, as it ends
 * @ctx: the context; it has no streams any more
 */
void simnpu_import_drop_context(struct simnpu_ctx *ctx)
{
	struct hal_list *pos, *tmp;

	pthread_mutex_lock(&lock);
	hal_list_for_each_safe(pos, tmp, &ctx->imports)
		import_drop(hal_list_entry(pos, struct simnpu_foreign, node));
	pthread_mutex_unlock(&lock);
}
