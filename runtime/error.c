// SPDX-License-Identifier: MIT
/*
 * Errors: copies of the thread's record, names, tags, and the sink of the log.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

/* Sizes below that of code make no sense. */
#define LEAST (offsetof(struct npu_error, code) + sizeof(int))

/* Copies a structure that the caller knows want bytes of; returns how many were copied. */
size_t rt_copy_out(void *dst, const void *src, size_t want, size_t have)
{
	size_t n = want < have ? want : have;

	memcpy(dst, src, n);
	return n;
}

/* Puts the record aside, for what may fail on the way to a success. */
void rt_record_save(struct rt_record *r)
{
	r->e = *hal_error_last();
}

void rt_record_restore(const struct rt_record *r)
{
	struct hal_tls *t = hal_tls_peek();

	if (t)
		t->error = r->e;
}

NPU_API int npu_last_error(struct npu_error *err)
{
	const struct hal_error *e = hal_error_last();
	struct npu_error out = { 0 };

	if (!err || err->size < LEAST)
		return -EINVAL;
	out.size = err->size;
	out.code = e->code;
	out.vendor = e->vendor;
	out.device = e->code ? e->device : -1;
	out.stream.h = e->stream;
	out.seq = e->seq;
	out.origin_stream.h = e->origin_stream;
	out.origin_seq = e->origin_seq;
	out.addr = e->addr;
	out.place = e->place;
	snprintf(out.op, sizeof(out.op), "%s", e->op ? e->op : "");
	snprintf(out.tag, sizeof(out.tag), "%s", e->tag);
	snprintf(out.text, sizeof(out.text), "%s", e->text);
	rt_copy_out(err, &out, err->size, sizeof(out));
	return 0;
}

NPU_API void npu_error_clear(void)
{
	hal_error_clear();
}

NPU_API const char *npu_error_name(int code)
{
	const char *name = hal_errno_name(code);

	return name ? name : "?";
}

NPU_API int npu_tag_set(const char *tag)
{
	return hal_tag_set(tag);
}

typedef void sink_fn(int level, const char *line);
static sink_fn *_Atomic user_sink;

static void to_user(int level, uint32_t component, const char *line)
{
	sink_fn *fn = hal_load_acquire(&user_sink);

	(void)component;
	if (fn)
		fn(level, line);
}

NPU_API void npu_log_set_sink(void (*sink)(int level, const char *line))
{
	hal_store_release(&user_sink, sink);
	hal_log_set_sink(sink ? to_user : NULL);
}
