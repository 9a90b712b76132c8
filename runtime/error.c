// SPDX-License-Identifier: MIT
/*
 * Errors: copies of the thread's record and of the list behind it, names, the
 * catalogue, tags, and the sink of the log.
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

/**
 * rt_copy_in() - take what the caller knows of a structure that starts with its size
 * @dst: the structure; what the caller does not know of stays
 * @have: its bytes
 * @src: the caller's, which must be 0 behind what is known here
 * @op: for the error record
 *
 * Return: 0, -EINVAL.
 */
int rt_copy_in(void *dst, size_t have, const void *src, const char *op)
{
	const char *more = src;
	size_t size, i;

	memcpy(&size, src, sizeof(size));
	if (size < sizeof(size) || size > 4096)
		return hal_fail(-EINVAL, op, "attr.size is %zu", size);
	for (i = have; i < size; i++)
		if (more[i])
			return hal_fail(-EINVAL, op,
					"attr has a field that this version does not know");
	rt_copy_out(dst, src, size, have);
	return 0;
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

_Static_assert(NPU_ERROR_TEXT == HAL_ERROR_TEXT, "texts");

/* Gives a record out, as far as the caller knows the structure. */
static void give(const struct hal_error *e, struct npu_error *err)
{
	const struct hal_error_entry *entry = hal_error_explain(e->code);
	struct npu_error out = { 0 };

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
	if (e->code)
		snprintf(out.hint, sizeof(out.hint), "%s",
			 e->hint[0] || !entry ? e->hint : entry->remedy);
	out.generation = e->generation;
	out.more = e->more;
	rt_copy_out(err, &out, err->size, sizeof(out));
}

NPU_API int npu_last_error(struct npu_error *err)
{
	if (!err || err->size < LEAST)
		return -EINVAL;
	give(hal_error_last(), err);
	return 0;
}

NPU_API int npu_error_next(struct npu_error *err)
{
	struct hal_error e;
	int rc;

	if (!err || err->size < LEAST)
		return -EINVAL;
	rc = hal_report_next(&e);
	if (!rc)
		give(&e, err);
	return rc;
}

NPU_API void npu_error_clear(void)
{
	hal_error_clear();
	hal_report_clear();
}

NPU_API const char *npu_error_name(int code)
{
	const char *name = hal_errno_name(code);

	return name ? name : "?";
}

NPU_API int npu_error_explain(int code, struct npu_error_info *info)
{
	const struct hal_error_entry *entry = hal_error_explain(code);
	struct npu_error_info out = { 0 };

	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, "error_explain", "info is NULL, or its size is not set");
	if (!entry)
		return hal_fail(-ENOENT, "error_explain", "%d is not a code of the library", code);
	out.size = info->size;
	out.code = entry->code;
	out.name = entry->name;
	out.meaning = entry->meaning;
	out.causes = entry->causes;
	out.remedy = entry->remedy;
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
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
