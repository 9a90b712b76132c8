// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: virtual memory.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "hal/vmm.h"
#include "selftests/hal/bed.h"

CONFORMANCE(vmm)

#define GRAIN(b) ((size_t)(b)->dev->info.mem_granularity)

#define VMM_OR_REFUSED(b)							\
	do {									\
		uint64_t h_;							\
		void *a_;							\
										\
		if (!can((b), NPU_CAP_VMM)) {					\
			ASSERT_EQ(-EOPNOTSUPP, hal_vm_create((b)->ctx, 1, 0, &h_));	\
			ASSERT_EQ(0, h_);					\
		}								\
		CAP_OR_REFUSED(b, NPU_CAP_VMM,					\
			       hal_vm_reserve((b)->ctx, 4096, 0, NULL, &a_));	\
	} while (0)

static uint64_t bytes_free(struct bed *b)
{
	struct hal_mem_info mi = { 0 };

	hal_device_mem_info(b->dev, &mi);
	return mi.free;
}

static int fill(struct bed *b, void *p, int byte, size_t size)
{
	return hal_mem_fill(b->ctx, p, byte, size);
}

static int byte_at(struct bed *b, const void *p)
{
	unsigned char c;
	int rc = copy_now(b, &c, p, 1);

	return rc ? rc : c;
}

static char *reserve(struct bed *b, size_t grains)
{
	void *p;

	return hal_vm_reserve(b->ctx, grains * GRAIN(b), 0, NULL, &p) ? NULL : p;
}

static uint64_t create(struct bed *b, size_t grains)
{
	uint64_t h;

	return hal_vm_create(b->ctx, grains * GRAIN(b), 0, &h) ? 0 : h;
}

/* C-VMM-5 C-VMM-6 */
TEST_ABOUT(vmm, addresses, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	const struct hal_device_info *i = &b->dev->info;
	uint64_t before = bytes_free(b);
	size_t g = GRAIN(b);
	char *p, *q;
	void *r;

	VMM_OR_REFUSED(b);
	p = reserve(b, 8);
	q = reserve(b, 8);
	ASSERT_TRUE(p && q);
	EXPECT_EQ(before, bytes_free(b));
	EXPECT_EQ(0, (uintptr_t)p % g);
	EXPECT_LE(i->va_start, (uintptr_t)p);
	EXPECT_LE((uintptr_t)p + 8 * g, i->va_start + i->va_size);
	EXPECT_TRUE(p + 8 * g <= q || q + 8 * g <= p);
	EXPECT_EQ(-EEXIST, hal_vm_reserve(b->ctx, g, 0, p + 7 * g, &r));
	EXPECT_EQ(NULL, r);
	EXPECT_EQ(0, hal_vm_release(p));
	EXPECT_EQ(-EINVAL, hal_vm_release(p));
	/* there they are again, for who wants them, where he wants them */
	ASSERT_EQ(0, hal_vm_reserve(b->ctx, g, 0, p + 2 * g, &r));
	EXPECT_EQ(p + 2 * g, r);
	EXPECT_EQ(-EINVAL, hal_vm_release(p));
	EXPECT_EQ(0, hal_vm_release(r));
	ASSERT_EQ(0, hal_vm_reserve(b->ctx, g, 4 * g, NULL, &r));
	EXPECT_EQ(0, (uintptr_t)r % (4 * g));
	EXPECT_EQ(0, hal_vm_release(r));
	EXPECT_EQ(0, hal_vm_release(q));
}

/* C-VMM-1 */
TEST_ABOUT(vmm, addresses_that_are_refused, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	const struct hal_device_info *i = &b->dev->info;
	size_t g = GRAIN(b);
	void *r;

	VMM_OR_REFUSED(b);
	EXPECT_EQ(-EINVAL, hal_vm_reserve(b->ctx, 0, 0, NULL, &r));
	EXPECT_EQ(-EINVAL, hal_vm_reserve(b->ctx, g - 1, 0, NULL, &r));
	EXPECT_EQ(-EINVAL, hal_vm_reserve(b->ctx, g, 3 * g, NULL, &r));
	EXPECT_EQ(-EINVAL, hal_vm_reserve(b->ctx, g, 0, (void *)1, &r));
	EXPECT_EQ(-EINVAL, hal_vm_reserve(b->ctx, g, 0, (void *)(16 * g), &r));
	EXPECT_EQ(-EINVAL, hal_vm_reserve(b->ctx, g, 0,
					  (void *)(uintptr_t)(i->va_start + i->va_size), &r));
	EXPECT_EQ(-ENOMEM, hal_vm_reserve(b->ctx, i->va_size + g, 0, NULL, &r));
	EXPECT_EQ(NULL, r);
	EXPECT_EQ(-ENOMEM, hal_vm_reserve(b->ctx, SIZE_MAX - g + 1, 0, NULL, &r));
	EXPECT_EQ(-EINVAL, hal_vm_release(NULL));
	EXPECT_EQ(-EINVAL, hal_vm_release(&r));
}

/* C-VMM-7 C-VMM-1 */
TEST_ABOUT(vmm, memory_is_charged, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	uint64_t before = bytes_free(b), total = b->dev->info.mem_total, h;
	size_t g = GRAIN(b);

	VMM_OR_REFUSED(b);
	ASSERT_EQ(0, hal_vm_create(b->ctx, 4 * g, 0, &h));
	EXPECT_NE(0, h);
	EXPECT_LE(bytes_free(b), before - 4 * g);
	EXPECT_EQ(4 * g, hal_load_relaxed(&b->dev->mem_used));
	EXPECT_EQ(0, hal_vm_destroy(h));
	EXPECT_EQ(before, bytes_free(b));
	EXPECT_EQ(0, hal_load_relaxed(&b->dev->mem_used));
	EXPECT_EQ(-ESTALE, hal_vm_destroy(h));
	EXPECT_EQ(-EINVAL, hal_vm_destroy(0));
	EXPECT_EQ(-EBADF, hal_vm_destroy(h ^ 1ull << 60));
	EXPECT_EQ(-EBADF, hal_vm_destroy(b->ctx_handle));
	EXPECT_EQ(-EINVAL, hal_vm_create(b->ctx, 0, 0, &h));
	EXPECT_EQ(-EINVAL, hal_vm_create(b->ctx, g + 512, 0, &h));
	EXPECT_EQ(-EINVAL, hal_vm_create(b->ctx, g, 1u << 5, &h));
	EXPECT_EQ(-ENOMEM, hal_vm_create(b->ctx, hal_align_up(total, g) + g, 0, &h));
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "no memory for"));
	EXPECT_EQ(-ENOMEM, hal_vm_create(b->ctx, SIZE_MAX - g + 1, 0, &h));
	EXPECT_EQ(0, h);
	EXPECT_EQ(before, bytes_free(b));
}

/* C-VMM-9 */
TEST_ABOUT(vmm, memory_moves_with_what_is_in_it, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	struct hal_pointer info;
	size_t g = GRAIN(b), i;
	uint64_t h;
	char *p;

	VMM_OR_REFUSED(b);
	p = reserve(b, 16);
	h = create(b, 2);
	ASSERT_TRUE(p && h);
	ASSERT_EQ(0, hal_vm_map(p, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EBUSY, hal_vm_map(p + 4 * g, 2 * g, h, 0, HAL_VM_RW));
	ASSERT_EQ(0, fill(b, p, 7, 2 * g));
	EXPECT_EQ(0, hal_pointer_info(p + g + 1, &info));
	EXPECT_EQ(HAL_MEMORY_DEVICE, info.kind);
	EXPECT_EQ(p, info.base);
	EXPECT_EQ(2 * g, info.size);
	EXPECT_EQ(b->dev, info.dev);
	EXPECT_EQ(-EINVAL, hal_mem_free(p));
	for (i = 1; i < 8; i++) {
		char *at = p + i * g;

		ASSERT_EQ(0, hal_vm_unmap(at - g, 2 * g));
		EXPECT_EQ(0, hal_pointer_info(at, &info));
		EXPECT_EQ(0, info.kind);
		ASSERT_EQ(0, hal_vm_map(at, 2 * g, h, 0, HAL_VM_RW));
		EXPECT_EQ(7 + (int)i - 1, byte_at(b, at + 2 * g - 1));
		ASSERT_EQ(0, fill(b, at, 7 + (int)i, 2 * g));
	}
}

/* C-VMM-3 C-VMM-1 */
TEST_ABOUT(vmm, what_is_not_mapped, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	size_t g = GRAIN(b);
	uint64_t s, h;
	char *p, c;

	VMM_OR_REFUSED(b);
	p = reserve(b, 4);
	h = create(b, 1);
	ASSERT_TRUE(p && h);
	ASSERT_EQ(0, hal_vm_map(p + g, g, h, 0, HAL_VM_RW));
	ASSERT_EQ(0, fill(b, p + g, 1, g));
	EXPECT_EQ(-EINVAL, fill(b, p, 0, 1));
	EXPECT_EQ(-EINVAL, fill(b, p + g - 1, 0, 2));
	EXPECT_EQ(-EINVAL, fill(b, p + 2 * g - 1, 0, 2));
	EXPECT_EQ(-EINVAL, copy_now(b, &c, p + 2 * g, 1));
	EXPECT_EQ(1, byte_at(b, p + g));
	STREAM_OR_REFUSED(b, &s);
	EXPECT_EQ(-EINVAL, copy_async(s, p, &c, 1));
	EXPECT_EQ(-EINVAL, hal_stream_fill(s, p + 2 * g, 0, 1, PLACE));
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	ASSERT_EQ(0, launch_inc(b, s, (uint64_t *)(p + g), 1));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, launch_inc(b, s, (uint64_t *)p, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(2, byte_at(b, p + g));
	ASSERT_EQ(0, hal_vm_unmap(p + g, g));
	ASSERT_EQ(0, launch_inc(b, s, (uint64_t *)(p + g), 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, hal_vm_map(p + g, g, h, 0, HAL_VM_RW));
	EXPECT_EQ(2, byte_at(b, p + g));
}

/* C-VMM-3 C-VMM-10 */
TEST_ABOUT(vmm, what_is_not_allowed, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	size_t g = GRAIN(b);
	struct hal_window w;
	uint64_t s, h[3];
	char *p, c = 9;
	int i;

	VMM_OR_REFUSED(b);
	p = reserve(b, 3);
	for (i = 0; i < 3; i++) {
		h[i] = create(b, 1);
		ASSERT_EQ(0, hal_vm_map(p + (size_t)i * g, g, h[i], 0, HAL_VM_RW));
	}
	ASSERT_EQ(0, fill(b, p, 1, 3 * g));
	ASSERT_EQ(0, hal_vm_protect(p + g, g, HAL_VM_READ));
	EXPECT_EQ(-EACCES, fill(b, p + g, 0, 1));
	EXPECT_EQ(-EACCES, copy_now(b, p + 2 * g - 1, &c, 1));
	EXPECT_EQ(-EINVAL, fill(b, p, 0, 3 * g));
	EXPECT_EQ(1, byte_at(b, p + g));
	EXPECT_EQ(0, copy_now(b, p, p + g, g));
	EXPECT_EQ(-EINVAL, hal_window_open(p + g, g, &w));
	ASSERT_EQ(0, hal_vm_protect(p + g, g, 0));
	EXPECT_EQ(-EACCES, byte_at(b, p + g));
	EXPECT_EQ(-EACCES, fill(b, p + g, 0, g));
	EXPECT_EQ(-EINVAL, hal_vm_protect(p, g, HAL_VM_WRITE));
	EXPECT_EQ(-EINVAL, hal_vm_protect(p, g, 4));
	EXPECT_EQ(-EINVAL, hal_vm_protect(p, g - 1, HAL_VM_READ));
	EXPECT_EQ(-EINVAL, hal_vm_protect(p + 1, g, HAL_VM_READ));
	EXPECT_EQ(-EINVAL, hal_vm_protect(p, 0, HAL_VM_READ));
	/* several at once, and they are one range again */
	ASSERT_EQ(0, hal_vm_protect(p, 3 * g, HAL_VM_READ));
	EXPECT_EQ(-EACCES, fill(b, p, 0, 3 * g));
	ASSERT_EQ(0, hal_vm_protect(p, 3 * g, HAL_VM_RW));
	EXPECT_EQ(0, fill(b, p, 2, 3 * g));
	ASSERT_EQ(0, hal_vm_protect(p, 2 * g, HAL_VM_READ));
	STREAM_OR_REFUSED(b, &s);
	EXPECT_EQ(-EACCES, hal_stream_fill(s, p, 0, 1, PLACE));
	EXPECT_EQ(0, hal_stream_fill(s, p + 2 * g, 3, g, PLACE));
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	ASSERT_EQ(0, launch_inc(b, s, (uint64_t *)p, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(2, byte_at(b, p));
	EXPECT_EQ(3, byte_at(b, p + 3 * g - 1));
}

/* C-VMM-2 */
TEST_ABOUT(vmm, side_by_side_is_one_range, NPU_CAP_VMM)
{
	static const int orders[][4] = { { 0, 1, 2, 3 }, { 3, 1, 2, 0 }, { 2, 0, 3, 1 } };
	struct bed *b = &self->b;
	size_t g = GRAIN(b), k;
	uint64_t s = 0, h[4];
	char *p, *q, *other;
	struct hal_window w;
	int i;

	VMM_OR_REFUSED(b);
	if (can(b, NPU_CAP_STREAM))
		ASSERT_EQ(0, make_stream(b, &s));
	p = reserve(b, 4);
	other = reserve(b, 4);
	MEMORY_OR_REFUSED(b, 4 * g, &q);
	for (i = 0; i < 4; i++)
		h[i] = create(b, 1);
	for (k = 0; k < ARRAY_SIZE(orders); k++) {
		for (i = 0; i < 4; i++)
			ASSERT_EQ(0, hal_vm_map(p + (size_t)orders[k][i] * g, g, h[i], 0,
						HAL_VM_RW));
		ASSERT_EQ(0, fill(b, p, 1 + (int)k, 4 * g));
		ASSERT_EQ(0, copy_now(b, q, p + 3, 4 * g - 3));
		EXPECT_EQ(1 + (int)k, byte_at(b, q + 4 * g - 4));
		EXPECT_EQ(-EINVAL, copy_now(b, q, p + 3, 4 * g - 2));
		if (can(b, NPU_CAP_IO_WINDOW)) {
			ASSERT_EQ(0, hal_window_open(p + g - 1, 2, &w));
			EXPECT_EQ(1 + (int)k, w.host[1]);
			hal_window_close(&w);
		}
		if (s) {
			ASSERT_EQ(0, hal_stream_fill(s, p + g / 2, 9, 3 * g, PLACE));
			ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
			EXPECT_EQ(9, byte_at(b, p + 3 * g));
			EXPECT_EQ(1 + (int)k, byte_at(b, p + 4 * g - 1));
		}
		/* all at once, or one by one */
		for (i = 0; k && i < 4; i++)
			ASSERT_EQ(0, hal_vm_unmap(p + (size_t)i * g, g));
		if (!k)
			ASSERT_EQ(0, hal_vm_unmap(p, 4 * g));
		EXPECT_EQ(-EINVAL, fill(b, p + g, 0, 1));
	}
	/* what allows something else, or lies in another reservation, is another range */
	ASSERT_EQ(0, hal_vm_map(p, g, h[0], 0, HAL_VM_RW));
	ASSERT_EQ(0, hal_vm_map(p + g, g, h[1], 0, HAL_VM_READ));
	EXPECT_EQ(-EINVAL, copy_now(b, q, p, 2 * g));
	EXPECT_EQ(0, copy_now(b, q, p, g));
	if (other == p + 4 * g) {
		ASSERT_EQ(0, hal_vm_map(p + 3 * g, g, h[2], 0, HAL_VM_RW));
		ASSERT_EQ(0, hal_vm_map(other, g, h[3], 0, HAL_VM_RW));
		EXPECT_EQ(-EINVAL, fill(b, other - 1, 0, 2));
		EXPECT_EQ(-EINVAL, hal_vm_unmap(other - g, 2 * g));
	}
}

/* C-VMM-1 */
TEST_ABOUT(vmm, mappings_that_are_refused, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	size_t g = GRAIN(b);
	struct hal_context *ctx;
	uint64_t c, h, h2, far;
	char *p;

	VMM_OR_REFUSED(b);
	p = reserve(b, 6);
	h = create(b, 2);
	h2 = create(b, 2);
	ASSERT_TRUE(p && h && h2);
	EXPECT_EQ(-EINVAL, hal_vm_map(p, g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_map(p, g, h, g, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_map(p, 2 * g, h, 1, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_map(p + 1, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_map(p + 5 * g, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_map(NULL, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_map(p, 2 * g, h, 0, HAL_VM_WRITE));
	EXPECT_EQ(-EINVAL, hal_vm_map(p, 2 * g, h, 0, 8));
	EXPECT_EQ(-EINVAL, hal_vm_map(p, 2 * g, 0, 0, HAL_VM_RW));
	EXPECT_EQ(-EBADF, hal_vm_map(p, 2 * g, b->ctx_handle, 0, HAL_VM_RW));
	ASSERT_EQ(0, hal_vm_map(p + 2 * g, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EEXIST, hal_vm_map(p + g, 2 * g, h2, 0, HAL_VM_RW));
	EXPECT_EQ(-EEXIST, hal_vm_map(p + 3 * g, 2 * g, h2, 0, HAL_VM_RW));
	EXPECT_EQ(-EBUSY, hal_vm_map(p, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(0, hal_vm_map(p, 2 * g, h2, 0, HAL_VM_RW));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p, g));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p + g, 2 * g));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p, 3 * g));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p, 5 * g));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p, 0));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p + 4 * g, 2 * g));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(NULL, g));
	EXPECT_EQ(0, fill(b, p, 1, 4 * g));
	/* contexts keep to themselves */
	ASSERT_EQ(0, hal_context_create(b->dev, &c));
	ctx = hal_context_get(c, "test");
	ASSERT_EQ(0, hal_vm_create(ctx, 2 * g, 0, &far));
	EXPECT_EQ(-EXDEV, hal_vm_map(p + 4 * g, 2 * g, far, 0, HAL_VM_RW));
	EXPECT_EQ(0, hal_context_destroy(c, LONG_MS));
	EXPECT_EQ(-ESTALE, hal_vm_map(p + 4 * g, 2 * g, far, 0, HAL_VM_RW));
	hal_context_put(ctx);
}

/* C-VMM-8 C-VMM-4 */
TEST_ABOUT(vmm, in_any_order, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	uint64_t before = bytes_free(b), h;
	size_t g = GRAIN(b);
	char *p;

	VMM_OR_REFUSED(b);
	p = reserve(b, 2);
	h = create(b, 2);
	ASSERT_EQ(0, hal_vm_map(p, 2 * g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-EBUSY, hal_vm_release(p));
	EXPECT_EQ(0, hal_vm_destroy(h));
	EXPECT_EQ(-ESTALE, hal_vm_destroy(h));
	EXPECT_EQ(0, fill(b, p, 1, 2 * g));
	EXPECT_LE(bytes_free(b), before - 2 * g);
	EXPECT_EQ(-EBUSY, hal_vm_release(p));
	EXPECT_EQ(0, hal_vm_unmap(p, 2 * g));
	EXPECT_EQ(before, bytes_free(b));
	EXPECT_EQ(0, hal_load_relaxed(&b->dev->mem_used));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p, 2 * g));
	h = create(b, 1);
	ASSERT_EQ(0, hal_vm_map(p, g, h, 0, HAL_VM_RW));
	EXPECT_EQ(0, hal_vm_unmap(p, g));
	EXPECT_EQ(0, hal_vm_release(p));
	EXPECT_LE(bytes_free(b), before - g);
	EXPECT_EQ(0, hal_vm_destroy(h));
	EXPECT_EQ(before, bytes_free(b));
}

/* C-VMM-4 */
TEST_ABOUT(vmm, a_context_takes_all_along, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	uint64_t before = bytes_free(b), c, h[3];
	size_t g = GRAIN(b);
	struct hal_context *ctx;
	void *p, *q;
	int i;

	VMM_OR_REFUSED(b);
	ASSERT_EQ(0, hal_context_create(b->dev, &c));
	ctx = hal_context_get(c, "test");
	ASSERT_EQ(0, hal_vm_reserve(ctx, 4 * g, 0, NULL, &p));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, hal_vm_create(ctx, g, 0, &h[i]));
	ASSERT_EQ(0, hal_vm_map(p, g, h[0], 0, HAL_VM_RW));
	ASSERT_EQ(0, hal_vm_map((char *)p + 2 * g, g, h[1], 0, HAL_VM_READ));
	EXPECT_EQ(0, hal_vm_destroy(h[1]));
	EXPECT_EQ(0, hal_context_destroy(c, LONG_MS));
	EXPECT_EQ(-ESTALE, hal_vm_reserve(ctx, g, 0, NULL, &q));
	EXPECT_EQ(-ESTALE, hal_vm_create(ctx, g, 0, &h[1]));
	hal_context_put(ctx);
	for (i = 0; i < 3; i++)
		EXPECT_EQ(i == 1 ? -EINVAL : -ESTALE, hal_vm_destroy(h[i]));
	EXPECT_EQ(-EINVAL, hal_vm_unmap(p, g));
	EXPECT_EQ(-EINVAL, hal_vm_release(p));
	EXPECT_EQ(before, bytes_free(b));
	EXPECT_EQ(0, hal_load_relaxed(&b->dev->mem_used));
	ASSERT_EQ(0, hal_vm_reserve(b->ctx, 4 * g, 0, p, &q));
}

/* C-VMM-4 */
TEST_ABOUT(vmm, stop_and_restart, NPU_CAP_VMM | NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	size_t g = GRAIN(b);
	uint64_t h, h2;
	char *p;
	void *q;

	VMM_OR_REFUSED(b);
	if (!can(b, NPU_CAP_ABORT))
		return;
	p = reserve(b, 4);
	h = create(b, 1);
	h2 = create(b, 1);
	ASSERT_EQ(0, hal_vm_map(p, g, h, 0, HAL_VM_RW));
	ASSERT_EQ(0, fill(b, p, 5, g));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(-ESHUTDOWN, hal_vm_reserve(b->ctx, g, 0, NULL, &q));
	EXPECT_EQ(-ESHUTDOWN, hal_vm_create(b->ctx, g, 0, &h2));
	EXPECT_EQ(0, h2);
	EXPECT_EQ(-ESHUTDOWN, hal_vm_map(p + g, g, h, 0, HAL_VM_RW));
	EXPECT_EQ(-ESHUTDOWN, hal_vm_protect(p, g, HAL_VM_READ));
	EXPECT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(5, byte_at(b, p));
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(0, hal_vm_unmap(p, g));
	EXPECT_EQ(0, hal_vm_destroy(h));
	EXPECT_EQ(0, hal_vm_release(p));
	EXPECT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
}

/* C-VMM-11 C-VMM-12 */
TEST_ABOUT(vmm, descriptors, NPU_CAP_VMM | NPU_CAP_IPC_FD)
{
	struct bed *b = &self->b;
	uint64_t before = bytes_free(b), h, h2 = 1;
	size_t g = GRAIN(b), size = 1;
	int fd = 5, pipes[2];
	char *p;

	VMM_OR_REFUSED(b);
	p = reserve(b, 8);
	h = create(b, 2);
	ASSERT_TRUE(p && h);
	if (!can(b, NPU_CAP_IPC_FD)) {
		EXPECT_EQ(-EOPNOTSUPP, hal_vm_export(h, &fd));
		EXPECT_EQ(-1, fd);
		EXPECT_EQ(-EOPNOTSUPP, hal_vm_import(b->ctx, 0, &h2, &size));
		EXPECT_EQ(0, h2);
		return;
	}
	ASSERT_EQ(0, hal_vm_map(p, 2 * g, h, 0, HAL_VM_RW));
	ASSERT_EQ(0, fill(b, p, 4, 2 * g));
	ASSERT_EQ(0, hal_vm_export(h, &fd));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	ASSERT_EQ(0, hal_vm_import(b->ctx, fd, &h2, &size));
	EXPECT_EQ(2 * g, size);
	EXPECT_NE(h, h2);
	ASSERT_EQ(0, hal_vm_map(p + 4 * g, 2 * g, h2, 0, HAL_VM_RW));
	EXPECT_EQ(4, byte_at(b, p + 6 * g - 1));
	ASSERT_EQ(0, fill(b, p + 4 * g, 6, 2 * g));
	EXPECT_EQ(6, byte_at(b, p));
	/* whoever made it may go first */
	EXPECT_EQ(0, hal_vm_destroy(h));
	EXPECT_EQ(0, hal_vm_unmap(p, 2 * g));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(6, byte_at(b, p + 4 * g));
	EXPECT_EQ(0, hal_vm_unmap(p + 4 * g, 2 * g));
	EXPECT_EQ(0, hal_vm_destroy(h2));
	EXPECT_EQ(before, bytes_free(b));
	EXPECT_EQ(-EINVAL, hal_vm_import(b->ctx, fd, &h2, &size));
	EXPECT_EQ(-EINVAL, hal_vm_import(b->ctx, -1, &h2, &size));
	ASSERT_EQ(0, pipe(pipes));
	EXPECT_EQ(-EINVAL, hal_vm_import(b->ctx, pipes[0], &h2, &size));
	EXPECT_EQ(0, h2);
	EXPECT_EQ(0, size);
	close(pipes[0]);
	close(pipes[1]);
	EXPECT_EQ(-ESTALE, hal_vm_export(h, &fd));
	EXPECT_EQ(-EINVAL, hal_vm_export(0, &fd));
	EXPECT_EQ(-1, fd);
}

/* Threads that map, unmap and destroy the same: each answer is one of those there are. */
struct rush {
	struct bed *b;
	char *p;
	uint64_t h[4];
	uint64_t end;	/* on a slow machine they do less */
	_Atomic int bad;
	_Atomic uint32_t go;
};

static void *rusher(void *arg)
{
	struct rush *r = arg;
	size_t g = GRAIN(r->b);
	int i, rc;

	for (i = 0; i < 400 && hal_sys_now() < r->end; i++) {
		uint32_t k = (hal_add_relaxed(&r->go, 1) * 2654435761u) >> 20;
		char *at = r->p + (k & 3) * g;

		rc = hal_vm_map(at, g, r->h[k >> 2 & 3], 0, HAL_VM_RW);
		if (rc && rc != -EBUSY && rc != -EEXIST && rc != -ESTALE)
			atomic_fetch_add(&r->bad, 1);
		rc = k & 16 ? hal_vm_protect(at, g, HAL_VM_READ) : hal_vm_unmap(at, g);
		if (rc && rc != -EINVAL)
			atomic_fetch_add(&r->bad, 1);
		if (i == 300)
			hal_vm_destroy(r->h[k & 3]);
	}
	return NULL;
}

TEST_ABOUT(vmm, from_many_threads, NPU_CAP_VMM)
{
	struct bed *b = &self->b;
	uint64_t before = bytes_free(b);
	struct rush r = { .b = b, .end = hal_sys_deadline(5000) };
	size_t g = GRAIN(b);
	pthread_t t[4];
	int i;

	VMM_OR_REFUSED(b);
	r.p = reserve(b, 4);
	for (i = 0; i < 4; i++)
		r.h[i] = create(b, 1);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, rusher, &r));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(0, atomic_load(&r.bad));
	for (i = 0; i < 4; i++) {
		hal_vm_unmap(r.p + (size_t)i * g, g);
		hal_vm_destroy(r.h[i]);
	}
	EXPECT_EQ(before, bytes_free(b));
	EXPECT_EQ(0, hal_vm_release(r.p));
}

TEST_HARNESS_MAIN
