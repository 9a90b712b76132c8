// SPDX-License-Identifier: MIT
/*
 * Memory: allocations, copies and fills.
 */
#include <string.h>

#include "runtime/alloc.h"

struct rt_pinned_opts rt_pinned_opts = { .limit = UINT64_MAX, .keep = UINT64_MAX };

/* ---- allocations ---------------------------------------------------------------------- */

static int alloc(size_t size, uint32_t flags, void **ptr, const char *op,
		 int (*fn)(struct hal_context *ctx, size_t size, uint32_t flags, void **ptr))
{
	struct hal_context *ctx;
	int err;

	if (!ptr)
		return hal_fail(-EINVAL, op, "ptr is NULL");
	*ptr = NULL;
	err = rt_enter(op);
	if (err)
		return err;
	err = rt_context_get_current(op, &ctx);
	if (err)
		return err;
	err = fn(ctx, size, flags, ptr);
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_malloc(size_t size, uint32_t flags, void **ptr)
{
	_Static_assert(NPU_MEM_HUGE_FIRST == HAL_MEM_HUGE_FIRST, "the same flags");
	_Static_assert(NPU_MEM_HUGE_ONLY == HAL_MEM_HUGE_ONLY, "the same flags");
	_Static_assert(NPU_MEM_MANAGED == HAL_MEM_MANAGED, "the same flags");
	return alloc(size, flags, ptr, "malloc", hal_mem_alloc);
}

NPU_API int npu_malloc_host(size_t size, uint32_t flags, void **ptr)
{
	if (flags) {
		if (ptr)
			*ptr = NULL;
		return hal_fail(-EINVAL, "malloc_host", "unknown flags 0x%x", flags);
	}
	return alloc(size, hal_load_relaxed(&rt_pinned_opts.lock), ptr, "malloc_host",
		     hal_mem_host_alloc);
}

NPU_API int npu_free(void *ptr)
{
	int err = rt_enter("free");

	if (!err)
		err = rt_mem_refuse(ptr, "free");
	return err ? err : hal_mem_free(ptr);
}

NPU_API int npu_free_host(void *ptr)
{
	int err = rt_enter("free_host");
	size_t bytes;
	void *base;

	if (err)
		return err;
	if (rt_pinned_block(ptr, &base, &bytes))
		return hal_fail(-EINVAL, "free_host", "%p is memory of npu_host_alloc()", ptr);
	return hal_mem_host_free(ptr);
}

NPU_API int npu_host_register(void *ptr, size_t size, uint32_t flags)
{
	struct hal_context *ctx;
	int err;

	err = rt_enter("host_register");
	if (err)
		return err;
	if (!ptr || !size)
		return hal_fail(-EINVAL, "host_register", "ptr is NULL, or size is 0");
	if (flags)
		return hal_fail(-EINVAL, "host_register", "unknown flags 0x%x", flags);
	err = rt_context_get_current("host_register", &ctx);
	if (err)
		return err;
	err = hal_mem_host_register(ctx, ptr, size, hal_load_relaxed(&rt_pinned_opts.lock));
	hal_context_put(ctx);
	return err;
}

NPU_API int npu_host_unregister(void *ptr)
{
	int err = rt_enter("host_unregister");

	return err ? err : hal_mem_host_unregister(ptr);
}

NPU_API int npu_host_is_pinned(const void *ptr, int *pinned)
{
	struct hal_pointer info;
	size_t bytes;
	void *base;

	if (!pinned)
		return hal_fail(-EINVAL, "host_is_pinned", "pinned is NULL");
	*pinned = 0;
	if (!rt_allowed())
		return 0;
	hal_pointer_info(ptr, &info);
	if (info.kind == HAL_MEMORY_REGISTERED)
		*pinned = 1;
	else if (info.kind == HAL_MEMORY_HOST)
		*pinned = rt_pinned_block(ptr, &base, &bytes) != RT_FOUND_FREE;
	return 0;
}

/* Of memory of a cache the program knows blocks; what is not in use there is nobody's. */
static void block_of(const void *ptr, struct hal_pointer *p)
{
	struct npu_mem_block b = { 0 };
	bool none = false;

	if (p->kind == HAL_MEMORY_HOST) {
		none = rt_pinned_block(ptr, &p->base, &p->size) == RT_FOUND_FREE;
	} else if (p->kind == HAL_MEMORY_DEVICE) {
		if (rt_mem_block(ptr, &b)) {
			p->base = b.base;
			p->size = b.bytes;
		} else {
			none = rt_mem_has(ptr);
		}
	}
	if (none)
		*p = (struct hal_pointer){ 0 };
}

NPU_API int npu_pointer_get_info(const void *ptr, struct npu_pointer_info *info)
{
	struct npu_pointer_info out = { .device = -1 };
	struct hal_pointer p;
	int err;

	err = rt_enter("pointer_get_info");
	if (err)
		return err;
	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, "pointer_get_info",
				"info is NULL, or its size is not set");
	err = hal_pointer_info(ptr, &p);
	if (err)
		return err;
	block_of(ptr, &p);
	out.size = info->size;
	out.base = p.base;
	out.bytes = p.size;
	out.kind = (int)p.kind;
	out.device = rt_device_of(p.dev);
	out.flags = (p.unsafe ? NPU_POINTER_UNSAFE : 0) |
		    (p.unlocked ? NPU_POINTER_UNLOCKED : 0) |
		    (p.managed ? NPU_POINTER_MANAGED : 0);
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
}

NPU_API int npu_mem_set_safe(void *ptr)
{
	int err = rt_enter("mem_set_safe");

	return err ? err : hal_mem_set_safe(ptr);
}

/* The device of a pointer, -1: not device memory. */
static int device_of(const void *ptr)
{
	struct hal_pointer p;

	if (hal_pointer_info(ptr, &p) || p.kind != HAL_MEMORY_DEVICE)
		return -1;
	return rt_device_of(p.dev);
}

/* ---- blocking copies and fills ------------------------------------------------------------ */

/* The primary context of a device that is open, with a reference. */
static int context_of(const struct hal_device *dev, const char *op, struct hal_context **ctx,
		      int *d)
{
	*d = rt_device_of(dev);
	if (*d < 0)
		return hal_fail(-ESTALE, op, "the device of the memory was closed");
	*ctx = hal_context_get(hal_load_acquire(&rt_devices[*d].primary), op);
	return *ctx ? 0 : hal_error_last()->code;
}

/* Neither side is device memory. */
static int copy_host(const struct hal_copy *c)
{
	const char *src = c->src;
	char *dst = c->dst;
	size_t y;

	if (!c->width)
		return 0;
	for (y = 0; y < c->height; y++)
		memcpy(dst + y * c->dst_pitch, src + y * c->src_pitch, c->width);
	return 0;
}

static int copy_now(struct hal_copy *c, const char *op)
{
	struct hal_device *dst, *src;
	struct hal_context *ctx;
	int d, err;

	err = rt_enter(op);
	if (unlikely(err))
		return err;
	if (unlikely(hal_in_callback()))
		return hal_fail(-EDEADLK, op, "a callback must not wait");
	err = hal_copy_check(c, &dst, &src, op);
	if (unlikely(err < 0))
		return err;
	if (!dst && !src)
		return copy_host(c);
	err = context_of(dst ? dst : src, op, &ctx, &d);
	if (unlikely(err))
		return err;
	rt_sync_begin(NPU_SYNC_COPY, (uint64_t)d);
	err = hal_mem_copy(ctx, c);
	rt_sync_end(NPU_SYNC_COPY, (uint64_t)d, err);
	hal_context_put(ctx);
	return err;
}

static struct hal_copy copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			       size_t width, size_t height, enum npu_copy_kind kind)
{
	return (struct hal_copy){
		.dst = dst,
		.src = src,
		.dst_pitch = dst_pitch,
		.src_pitch = src_pitch,
		.width = width,
		.height = height,
		.kind = kind,
	};
}

NPU_API int npu_memcpy(void *dst, const void *src, size_t size, enum npu_copy_kind kind)
{
	struct hal_copy c = copy_2d(dst, size, src, size, size, 1, kind);

	return copy_now(&c, "memcpy");
}

NPU_API int npu_memcpy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			  size_t width, size_t height, enum npu_copy_kind kind)
{
	struct hal_copy c = copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind);

	return copy_now(&c, "memcpy_2d");
}

/* Pinned memory is the host's to fill; all of it must lie in the allocation. */
static int fill_host(const struct hal_pointer *p, void *ptr, int value, size_t size)
{
	size_t at = (size_t)((char *)ptr - (char *)p->base);

	if (!p->kind || size > p->size - at)
		return hal_fail(-EINVAL, "memset", "%zu bytes at %p leave their allocation", size,
				ptr);
	memset(ptr, value, size);
	return 0;
}

NPU_API int npu_memset(void *ptr, int value, size_t size)
{
	struct hal_context *ctx;
	struct hal_pointer p;
	int d, err;

	err = rt_enter("memset");
	if (err)
		return err;
	if (hal_in_callback())
		return hal_fail(-EDEADLK, "memset", "a callback must not wait");
	if (!size)
		return 0;
	if (!ptr)
		return hal_fail(-EINVAL, "memset", "ptr is NULL");
	err = hal_pointer_info(ptr, &p);
	if (err)
		return err;
	if (!p.kind)
		return hal_fail(-EINVAL, "memset", "%p is neither device nor pinned memory", ptr);
	if (p.kind != HAL_MEMORY_DEVICE) {
		block_of(ptr, &p);
		return fill_host(&p, ptr, value, size);
	}
	err = context_of(p.dev, "memset", &ctx, &d);
	if (err)
		return err;
	rt_sync_begin(NPU_SYNC_COPY, (uint64_t)d);
	err = hal_mem_fill(ctx, ptr, value, size);
	rt_sync_end(NPU_SYNC_COPY, (uint64_t)d, err);
	hal_context_put(ctx);
	return err;
}

/* ---- in a stream ---------------------------------------------------------------------------- */

/* The stream that is meant; of 0, the device of the pointers counts if the thread has set none. */
static int stream_for(npu_stream stream, const void *dst, const void *src, const char *op,
		      uint64_t *h)
{
	struct rt_thread *t;
	int hint = -1;

	if (!stream.h) {
		t = rt_thread(op);
		if (unlikely(!t))
			return -ENOMEM;
		if (t->device < 0) {
			hint = device_of(dst);
			if (hint < 0 && src)
				hint = device_of(src);
		}
	}
	return rt_stream(stream, hint, op, h);
}

static int copy_async(const struct hal_copy *c, npu_stream stream, const char *op, uint64_t place)
{
	uint64_t h;
	int err;

	err = rt_enter(op);
	if (likely(!err))
		err = stream_for(stream, c->dst, c->src, op, &h);
	return unlikely(err) ? err : hal_stream_copy(h, c, place);
}

NPU_API int npu_memcpy_async(void *dst, const void *src, size_t size, enum npu_copy_kind kind,
			     npu_stream stream)
{
	struct hal_copy c = copy_2d(dst, size, src, size, size, 1, kind);

	return copy_async(&c, stream, "memcpy_async", RT_PLACE);
}

NPU_API int npu_memcpy_2d_async(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				size_t width, size_t height, enum npu_copy_kind kind,
				npu_stream stream)
{
	struct hal_copy c = copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind);

	return copy_async(&c, stream, "memcpy_2d_async", RT_PLACE);
}

NPU_API int npu_memset_async(void *ptr, int value, size_t size, npu_stream stream)
{
	uint64_t h;
	int err;

	err = rt_enter("memset_async");
	if (likely(!err))
		err = stream_for(stream, ptr, NULL, "memset_async", &h);
	return unlikely(err) ? err : hal_stream_fill(h, ptr, value, size, RT_PLACE);
}
