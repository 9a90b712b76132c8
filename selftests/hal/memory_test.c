// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: memory, copies and fills.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

CONFORMANCE(memory)

/* Without the capability nothing of it works, and nothing of it crashes. */
#define MEM_OR_REFUSED(b)							\
	do {									\
		void *p_;							\
										\
		if (!can((b), NPU_CAP_MEM)) {					\
			ASSERT_EQ(-EOPNOTSUPP, hal_mem_alloc((b)->ctx, 64, 0, &p_));	\
			ASSERT_EQ(-EOPNOTSUPP, hal_mem_alloc((b)->ctx, 0, 0, &p_));	\
			ASSERT_EQ(-EOPNOTSUPP, hal_mem_fill((b)->ctx, &p_, 0, 1));	\
			return;							\
		}								\
	} while (0)

/* C-MEM-1 C-MEM-3 */
TEST_F(memory, addresses_are_real_aligned_and_apart)
{
	struct bed *b = &self->b;
	const struct hal_device_info *i = &b->dev->info;
	static const size_t sizes[] = { 1, 2, 63, 64, 511, 4096, 65537, 1 << 20 };
	char *p[8], *q[8];
	uint64_t a;
	unsigned int k, n;
	unsigned char byte;

	MEM_OR_REFUSED(b);
	for (k = 0; k < 8; k++) {
		ASSERT_EQ(0, hal_mem_alloc(b->ctx, sizes[k], 0, (void **)&p[k]));
		a = (uintptr_t)p[k];
		EXPECT_EQ(0, a % i->mem_align);
		EXPECT_LE(i->va_start, a);
		EXPECT_LE(a + sizes[k], i->va_start + i->va_size);
		for (n = 0; n < k; n++)
			EXPECT_TRUE(p[n] + sizes[n] <= p[k] || p[k] + sizes[k] <= p[n]);
		ASSERT_EQ(0, hal_mem_fill(b->ctx, p[k], (int)k, sizes[k]));
	}
	for (k = 0; k < 8; k++) {
		ASSERT_EQ(0, copy_now(b, &byte, p[k], 1));
		EXPECT_EQ(k, byte);
		ASSERT_EQ(0, copy_now(b, &byte, p[k] + sizes[k] - 1, 1));
		EXPECT_EQ(k, byte);
	}
	/* what is freed comes back */
	for (k = 0; k < 8; k++)
		EXPECT_EQ(0, hal_mem_free(p[k]));
	for (k = 0; k < 8; k++)
		ASSERT_EQ(0, hal_mem_alloc(b->ctx, sizes[k], 0, (void **)&q[k]));
	for (k = 0; k < 8; k++)
		EXPECT_EQ(0, hal_mem_free(q[k]));
}

/* C-MEM-3 */
TEST_F(memory, addresses_of_two_devices_are_apart)
{
	struct bed *b = &self->b;
	struct hal_device *dev;
	uint32_t n;

	MEM_OR_REFUSED(b);
	ASSERT_EQ(0, hal_driver_count(b->drv, &n));
	if (n < 2)
		return;
	ASSERT_EQ(0, hal_device_open(b->drv, 1, &dev));
	EXPECT_TRUE(dev->info.va_start >= b->dev->info.va_start + b->dev->info.va_size ||
		    b->dev->info.va_start >= dev->info.va_start + dev->info.va_size);
	hal_device_put(dev);
}

/* C-MEM-2 */
TEST_F(memory, freed_under_a_task_harms_nobody_else)
{
	struct bed *b = &self->b;
	uint64_t s, *victim, *other, out = 0;
	struct gate g;
	int rc;

	MEM_OR_REFUSED(b);
	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	MEMORY_OR_REFUSED(b, 4096, &victim);
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, launch_inc(b, s, victim, 1));
	ASSERT_EQ(0, hal_mem_free(victim));
	MEMORY_OR_REFUSED(b, 1 << 20, &other);
	gate_open(&g);
	rc = hal_stream_sync(s, LONG_MS, 0);
	EXPECT_TRUE(!rc || rc == -EFAULT);
	ASSERT_EQ(0, copy_now(b, &out, other, 8));
	/* unless it got the very address, nothing of it has changed */
	if (other != victim)
		EXPECT_EQ(0, out);
}

/* C-MEM-4 */
TEST_F(memory, copies_are_exact)
{
	struct bed *b = &self->b;
	static const size_t sizes[] = { 1, 3, 8, 63, 64, 65, 1000, 4095, 65536, 300001 };
	static unsigned char in[300001 + 64], out[300001 + 64];
	unsigned char *d, *e;
	unsigned int k, off;
	size_t i;

	MEM_OR_REFUSED(b);
	for (i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7 + i / 251);
	MEMORY_OR_REFUSED(b, sizeof(in), &d);
	MEMORY_OR_REFUSED(b, sizeof(in), &e);
	for (k = 0; k < ARRAY_SIZE(sizes); k++) {
		for (off = 0; off < 64; off += 13) {
			size_t n = sizes[k];

			memset(out, 0xa5, sizeof(out));
			ASSERT_EQ(0, hal_mem_fill(b->ctx, d, 0x5a, sizeof(in)));
			ASSERT_EQ(0, copy_now(b, d + off, in, n));
			ASSERT_EQ(0, copy_now(b, e, d, sizeof(in)));
			ASSERT_EQ(0, copy_now(b, out, e, n + off < 64 ? 64 : n + off));
			EXPECT_EQ(0, memcmp(out + off, in, n));
			for (i = 0; i < off; i++)
				ASSERT_EQ(0x5a, out[i]);
			ASSERT_EQ(0, copy_now(b, out, e + off + n, 1));
			ASSERT_EQ(0x5a, out[0]);
			ASSERT_EQ(0xa5, out[n + off < 64 ? 64 : n + off]);
		}
	}
	/* fills stay in their bounds, too */
	ASSERT_EQ(0, hal_mem_fill(b->ctx, d, 1, 1000));
	ASSERT_EQ(0, hal_mem_fill(b->ctx, d + 100, 0x102, 50));
	ASSERT_EQ(0, copy_now(b, out, d, 1000));
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(i >= 100 && i < 150 ? 2 : 1, out[i]);
}

TEST_ABOUT(memory, copies_of_rectangles, NPU_CAP_COPY_2D)
{
	struct bed *b = &self->b;
	unsigned char in[64 * 8], out[64 * 8];
	struct hal_copy c;
	unsigned char *d;
	size_t x, y;

	MEM_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 4096, &d);
	for (x = 0; x < sizeof(in); x++)
		in[x] = (unsigned char)(x ^ x >> 3);
	c = (struct hal_copy){
		.dst = d + 5, .src = in + 3, .dst_pitch = 100, .src_pitch = 64, .width = 17,
		.height = 8,
	};
	CAP_OR_REFUSED(b, NPU_CAP_COPY_2D, hal_mem_copy(b->ctx, &c));
	ASSERT_EQ(0, hal_mem_copy(b->ctx, &c));
	EXPECT_EQ(NPU_COPY_H2D, c.kind);
	memset(out, 0, sizeof(out));
	c = (struct hal_copy){
		.dst = out, .src = d, .dst_pitch = 64, .src_pitch = 100, .width = 30, .height = 8,
		.kind = NPU_COPY_D2H,
	};
	ASSERT_EQ(0, hal_mem_copy(b->ctx, &c));
	for (y = 0; y < 8; y++)
		for (x = 0; x < 64; x++)
			ASSERT_EQ(x >= 5 && x < 22 ? in[y * 64 + x - 2] : 0, out[y * 64 + x]);
}

/* C-MEM-5 */
TEST_F(memory, odd_sizes)
{
	struct bed *b = &self->b;
	uint64_t total = b->dev->info.mem_total;
	struct hal_mem_info before, after;
	char text[160];
	void *p = (void *)1;

	MEM_OR_REFUSED(b);
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &before));
	EXPECT_EQ(0, hal_mem_alloc(b->ctx, 0, 0, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-ENOMEM, hal_mem_alloc(b->ctx, total + 1, 0, &p));
	EXPECT_EQ(NULL, p);
	snprintf(text, sizeof(text), "no memory for %llu bytes: %llu free of %llu, this process 0",
		 (unsigned long long)total + 1, (unsigned long long)before.free,
		 (unsigned long long)total);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, text))
		TH_LOG("%s", hal_error_last()->text);
	EXPECT_NE(NULL, strstr(hal_error_last()->hint, "never has so much"));
	EXPECT_EQ(-ENOMEM, hal_mem_alloc(b->ctx, SIZE_MAX, 0, &p));
	EXPECT_EQ(-ENOMEM, hal_mem_alloc(b->ctx, SIZE_MAX - 63, 0, &p));
	EXPECT_EQ(-EINVAL, hal_mem_alloc(b->ctx, 64, HAL_MEM_LOCKED, &p));
	EXPECT_EQ(NULL, p);
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &after));
	EXPECT_EQ(before.free, after.free);
	EXPECT_EQ(0, hal_mem_free(NULL));
	EXPECT_EQ(0, hal_mem_host_free(NULL));
}

/* C-MEM-6 */
TEST_F(memory, only_what_was_allocated_is_freed)
{
	struct bed *b = &self->b;
	char *d, *h = NULL, local[64], back[4];

	MEM_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 256, &d);
	ASSERT_EQ(0, hal_mem_fill(b->ctx, d, 9, 256));
	EXPECT_EQ(-EINVAL, hal_mem_free(d + 1));
	EXPECT_EQ(-EINVAL, hal_mem_free(d + 255));
	EXPECT_EQ(-EINVAL, hal_mem_free(d - 1));
	EXPECT_EQ(-EINVAL, hal_mem_free(local));
	EXPECT_EQ(-EINVAL, hal_mem_host_free(d));
	EXPECT_EQ(-EINVAL, hal_mem_host_unregister(d));
	EXPECT_EQ(-EINVAL, hal_mem_host_unregister(NULL));
	if (can(b, NPU_CAP_HOST_ALLOC)) {
		ASSERT_EQ(0, hal_mem_host_alloc(b->ctx, 256, 0, (void **)&h));
		EXPECT_EQ(-EINVAL, hal_mem_free(h));
		EXPECT_EQ(-EINVAL, hal_mem_host_free(h + 64));
		EXPECT_EQ(0, hal_mem_host_free(h));
		EXPECT_EQ(-EINVAL, hal_mem_host_free(h));
	}
	ASSERT_EQ(0, copy_now(b, back, d, 4));
	EXPECT_EQ(9, back[3]);
	EXPECT_EQ(0, hal_mem_free(d));
	EXPECT_EQ(-EINVAL, hal_mem_free(d));
}

/* C-MEM-7 */
TEST_ABOUT(memory, registered_once, NPU_CAP_HOST_REGISTER)
{
	struct bed *b = &self->b;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct hal_pointer info;
	char *m, *d, back[16];

	m = mmap(NULL, page * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, m);
	CAP_OR_REFUSED(b, NPU_CAP_HOST_REGISTER, hal_mem_host_register(b->ctx, m, page, 0));
	ASSERT_EQ(0, hal_mem_host_register(b->ctx, m + 2 * page, 2 * page, 0));
	EXPECT_EQ(-EEXIST, hal_mem_host_register(b->ctx, m + 2 * page, 2 * page, 0));
	EXPECT_EQ(-EEXIST, hal_mem_host_register(b->ctx, m + 3 * page, page, 0));
	EXPECT_EQ(-EEXIST, hal_mem_host_register(b->ctx, m, 8 * page, 0));
	EXPECT_EQ(-EEXIST, hal_mem_host_register(b->ctx, m + page, 2 * page, 0));
	EXPECT_EQ(0, hal_mem_host_register(b->ctx, m, 2 * page, 0));
	EXPECT_EQ(-EINVAL, hal_mem_host_register(b->ctx, NULL, page, 0));
	EXPECT_EQ(-EINVAL, hal_mem_host_register(b->ctx, m + 4 * page, 0, 0));
	EXPECT_EQ(-EINVAL, hal_mem_host_register(b->ctx, m + 4 * page, page, 1));
	EXPECT_EQ(-EINVAL, hal_mem_host_register(b->ctx, m + 4 * page, SIZE_MAX, 0));
	EXPECT_EQ(0, hal_pointer_info(m + 2 * page + 5, &info));
	EXPECT_EQ(HAL_MEMORY_REGISTERED, info.kind);
	EXPECT_EQ(m + 2 * page, info.base);
	EXPECT_EQ(2 * page, info.size);
	/* it is host memory as before */
	MEMORY_OR_REFUSED(b, 64, &d);
	memcpy(m + 2 * page, "registered memory", 16);
	ASSERT_EQ(0, copy_now(b, d, m + 2 * page, 16));
	ASSERT_EQ(0, copy_now(b, back, d, 16));
	EXPECT_EQ(0, memcmp(back, "registered memory", 16));
	EXPECT_EQ(-EINVAL, hal_mem_host_unregister(m + 3 * page));
	EXPECT_EQ(-EINVAL, hal_mem_host_free(m));
	EXPECT_EQ(0, hal_mem_host_unregister(m + 2 * page));
	EXPECT_EQ(-EINVAL, hal_mem_host_unregister(m + 2 * page));
	EXPECT_EQ(0, hal_mem_host_unregister(m));
	EXPECT_EQ('r', m[2 * page]);
	munmap(m, page * 8);
}

TEST_ABOUT(memory, pinned_host_memory, NPU_CAP_HOST_ALLOC)
{
	struct bed *b = &self->b;
	struct hal_pointer info;
	char *h, *d;
	void *p;

	CAP_OR_REFUSED(b, NPU_CAP_HOST_ALLOC, hal_mem_host_alloc(b->ctx, 64, 0, &p));
	ASSERT_EQ(0, hal_mem_host_alloc(b->ctx, 0, 0, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-EINVAL, hal_mem_host_alloc(b->ctx, 64, HAL_MEM_MANAGED, &p));
	ASSERT_EQ(0, hal_mem_host_alloc(b->ctx, 100000, 0, (void **)&h));
	memset(h, 3, 100000);
	EXPECT_EQ(0, hal_pointer_info(h + 99999, &info));
	EXPECT_EQ(HAL_MEMORY_HOST, info.kind);
	EXPECT_EQ(b->dev, info.dev);
	EXPECT_EQ(100000, info.size);
	MEMORY_OR_REFUSED(b, 100000, &d);
	ASSERT_EQ(0, copy_now(b, d, h, 100000));
	memset(h, 4, 100000);
	ASSERT_EQ(0, copy_now(b, h, d, 100000));
	EXPECT_EQ(3, h[0]);
	EXPECT_EQ(3, h[99999]);
	EXPECT_EQ(-EINVAL, copy_now(b, d, h + 1, 100000));	/* leaves it */
	EXPECT_EQ(0, hal_mem_host_free(h));
}

/* C-MEM-12 */
TEST_ABOUT(memory, managed_is_for_both, NPU_CAP_MANAGED)
{
	struct bed *b = &self->b;
	const size_t n = 100000;
	struct hal_mem_info before, after;
	struct hal_pointer info;
	uint64_t s, out = 0;
	uint64_t *m;
	void *p;

	CAP_OR_REFUSED(b, NPU_CAP_MANAGED, hal_mem_alloc(b->ctx, n, HAL_MEM_MANAGED, &p));
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &before));
	ASSERT_EQ(0, hal_mem_alloc(b->ctx, n, HAL_MEM_MANAGED, &p));
	m = p;
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &after));
	EXPECT_LE(after.free + n, before.free);
	EXPECT_EQ(0, (uintptr_t)m % b->dev->info.mem_align);
	EXPECT_EQ(0, hal_pointer_info((char *)m + n - 1, &info));
	EXPECT_EQ(HAL_MEMORY_DEVICE, info.kind);
	EXPECT_TRUE(info.managed);
	EXPECT_EQ(n, info.size);
	m[0] = 41;
	m[n / 8 - 1] = 7;
	ASSERT_EQ(0, copy_now(b, &out, m + n / 8 - 1, 8));
	EXPECT_EQ(7, out);
	STREAM_OR_REFUSED(b, &s);
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	ASSERT_EQ(0, launch_inc(b, s, m, 1));
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(42, m[0]);
	ASSERT_EQ(0, hal_mem_fill(b->ctx, m, 9, n));
	EXPECT_EQ(0x0909090909090909ull, m[n / 8 - 1]);
	EXPECT_EQ(-EINVAL, hal_mem_host_free(m));
	EXPECT_EQ(0, hal_mem_free(m));
	EXPECT_EQ(-EINVAL, hal_mem_free(m));
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &after));
	EXPECT_EQ(before.free, after.free);
}

/* C-MEM-12 */
TEST_ABOUT(memory, managed_stays_over_a_restart, NPU_CAP_MANAGED | NPU_CAP_ABORT)
{
	struct bed *b = &self->b;
	void *p;

	CAP_OR_REFUSED(b, NPU_CAP_MANAGED, hal_mem_alloc(b->ctx, 1, HAL_MEM_MANAGED, &p));
	ASSERT_EQ(0, hal_mem_alloc(b->ctx, 1, HAL_MEM_MANAGED, &p));
	*(char *)p = 5;
	ASSERT_EQ(0, hal_device_stop(b->dev, LONG_MS));
	EXPECT_EQ(5, *(char *)p);
	EXPECT_EQ(0, hal_device_restart(b->dev, 0, LONG_MS));
	EXPECT_EQ(5, *(char *)p);
	EXPECT_EQ(0, hal_mem_free(p));
}

TEST_F(memory, what_a_pointer_is)
{
	struct bed *b = &self->b;
	struct hal_pointer info;
	char *d;

	EXPECT_EQ(0, hal_pointer_info(&info, &info));
	EXPECT_EQ(0, info.kind);
	EXPECT_EQ(NULL, info.dev);
	EXPECT_EQ(0, hal_pointer_info(NULL, &info));
	EXPECT_EQ(0, info.kind);
	MEM_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 1000, &d);
	EXPECT_EQ(0, hal_pointer_info(d + 999, &info));
	EXPECT_EQ(HAL_MEMORY_DEVICE, info.kind);
	EXPECT_EQ(b->dev, info.dev);
	EXPECT_EQ(d, info.base);
	EXPECT_EQ(1000, info.size);
	EXPECT_FALSE(info.managed);
}

static int try_copy(struct bed *b, struct hal_copy c)
{
	return hal_mem_copy(b->ctx, &c);
}

TEST_F(memory, copies_refuse)
{
	struct bed *b = &self->b;
	char *d, h[256] = { 0 }, h2[256] = { 1 };
	struct hal_copy ok, c;

	MEM_OR_REFUSED(b);
	MEMORY_OR_REFUSED(b, 256, &d);
	ok = (struct hal_copy){ .dst = d, .src = h, .width = 16, .height = 1 };
	EXPECT_EQ(0, try_copy(b, ok));
#define BROKEN(...)								\
	do {									\
		c = ok;								\
		__VA_ARGS__;							\
		EXPECT_EQ(-EINVAL, try_copy(b, c))				\
			TH_LOG("%s", #__VA_ARGS__);				\
	} while (0)
	BROKEN(c.dst = NULL);
	BROKEN(c.src = NULL);
	BROKEN(c.dst = d + 241);
	BROKEN(c.width = 257);
	BROKEN(c.width = SIZE_MAX);
	BROKEN(c.src = (char *)UINTPTR_MAX);
	BROKEN(c.kind = (enum npu_copy_kind)5);
	BROKEN(c.kind = NPU_COPY_D2H);
	BROKEN(c.kind = NPU_COPY_D2D);
	BROKEN(c.kind = NPU_COPY_H2H);
	BROKEN(c.height = 2, c.dst_pitch = 15, c.src_pitch = 16);
	BROKEN(c.height = 2, c.dst_pitch = 16, c.src_pitch = 15);
	BROKEN(c.height = 17, c.dst_pitch = 16, c.src_pitch = 16);
	BROKEN(c.height = SIZE_MAX, c.dst_pitch = SIZE_MAX, c.src_pitch = 16);
#undef BROKEN
	c = ok;
	c.width = 0;
	EXPECT_EQ(0, try_copy(b, c));
	c = ok;
	c.height = 0;
	EXPECT_EQ(0, try_copy(b, c));
	/* both the host's: done here, rows and all */
	memset(h, 7, sizeof(h));
	c = (struct hal_copy){
		.dst = h2, .src = h, .width = 4, .height = 3, .dst_pitch = 8, .src_pitch = 4,
	};
	EXPECT_EQ(0, hal_mem_copy(b->ctx, &c));
	EXPECT_EQ(NPU_COPY_H2H, c.kind);
	EXPECT_EQ(7, h2[8]);
	EXPECT_EQ(0, h2[4]);
	/* a pointer that was device memory once is no host pointer */
	EXPECT_EQ(0, hal_mem_free(d));
	EXPECT_EQ(-EINVAL, try_copy(b, ok));
	EXPECT_EQ(-EINVAL, hal_mem_fill(b->ctx, d, 0, 1));
	EXPECT_EQ(-EINVAL, hal_mem_fill(b->ctx, h, 0, 1));
	EXPECT_EQ(-EINVAL, hal_mem_fill(b->ctx, NULL, 0, 1));
	EXPECT_EQ(0, hal_mem_fill(b->ctx, NULL, 0, 0));
}

TEST_F(memory, stream_copies_refuse)
{
	struct bed *b = &self->b;
	char *d, h[64] = { 0 };
	uint64_t s, sub, done;
	struct hal_copy c;

	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, 64, &d);
	EXPECT_EQ(-EINVAL, copy_async(s, d, NULL, 1));
	EXPECT_EQ(-EINVAL, copy_async(s, d, h, 65));
	EXPECT_EQ(-EINVAL, copy_async(s, h, h + 32, 32));
	EXPECT_EQ(0, copy_async(s, d, h, 0));
	EXPECT_EQ(-EINVAL, copy_async(0, d, h, 0));
	EXPECT_EQ(-EINVAL, copy_async(0, d, h, 8));
	EXPECT_EQ(-EBADF, copy_async(s + 2, d, h, 8));
	EXPECT_EQ(-EINVAL, hal_stream_fill(s, d, 0, 65, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_fill(s, h, 0, 1, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_fill(s, NULL, 0, 1, PLACE));
	EXPECT_EQ(0, hal_stream_fill(s, NULL, 0, 0, PLACE));
	EXPECT_EQ(-EINVAL, hal_stream_fill(0, d, 0, 0, PLACE));
	c = (struct hal_copy){
		.dst = d, .src = h, .width = 4, .height = 4, .dst_pitch = 16, .src_pitch = 4,
	};
	EXPECT_EQ(can(b, NPU_CAP_COPY_2D) ? 0 : -EOPNOTSUPP, hal_stream_copy(s, &c, PLACE));
	EXPECT_EQ(NPU_COPY_AUTO, c.kind);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_progress(s, &sub, &done));
	EXPECT_EQ(can(b, NPU_CAP_COPY_2D) ? 1 : 0, sub);
}

/* Copies between devices, and by one that is neither's. */
TEST_ABOUT(memory, copies_between_devices, NPU_CAP_PEER)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { 0 };
	struct hal_context *ctx;
	struct hal_device *dev;
	char *d, *e, h[64], back[64];
	bool streams = can(b, NPU_CAP_STREAM);
	uint64_t c, s = 0, t = 0;
	uint32_t n;
	int rc;

	MEM_OR_REFUSED(b);
	ASSERT_EQ(0, hal_driver_count(b->drv, &n));
	if (n < 2)
		return;
	ASSERT_EQ(0, hal_device_open(b->drv, 1, &dev));
	ASSERT_EQ(0, hal_context_create(dev, &c));
	ctx = hal_context_get(c, "test");
	MEMORY_OR_REFUSED(b, 64, &d);
	if (streams) {
		ASSERT_EQ(0, make_stream(b, &s));
		ASSERT_EQ(0, hal_stream_create(ctx, &attr, &t));
	}
	ASSERT_EQ(0, hal_mem_alloc(ctx, 64, 0, (void **)&e));
	memset(h, 5, sizeof(h));
	ASSERT_EQ(0, copy_now(b, d, h, 64));
	rc = copy_now(b, e, d, 64);
	EXPECT_EQ(can(b, NPU_CAP_PEER) ? 0 : -EOPNOTSUPP, rc);
	if (streams && can(b, NPU_CAP_PEER)) {
		EXPECT_EQ(0, hal_stream_fill(s, d, 6, 64, PLACE));
		EXPECT_EQ(0, copy_async(s, e, d, 64));
		EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
		EXPECT_EQ(0, copy_async(t, back, e, 64));
		EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
		EXPECT_EQ(6, back[63]);
	} else if (streams) {
		EXPECT_EQ(-EOPNOTSUPP, copy_async(s, e, d, 64));
	}
	EXPECT_EQ(-EXDEV, copy_now(b, e, h, 64));
	EXPECT_EQ(-EXDEV, hal_mem_fill(b->ctx, e, 0, 64));
	if (streams) {
		EXPECT_EQ(-EXDEV, copy_async(s, e, h, 64));
		EXPECT_EQ(-EXDEV, hal_stream_fill(s, e, 0, 64, PLACE));
	}
	hal_context_put(ctx);
	EXPECT_EQ(0, hal_context_destroy(c, LONG_MS));
	hal_device_put(dev);
}

TEST_F(memory, all_of_it_and_no_more)
{
	struct bed *b = &self->b;
	struct hal_mem_info mi;
	uint64_t total;
	size_t piece;
	void *p[9];
	int n = 0, rc = 0;

	MEM_OR_REFUSED(b);
	/* a device that a test may fill */
	bed_memory = "32M";
	ASSERT_EQ(0, bed_close(b));
	ASSERT_EQ(0, bed_open(b, variant->driver, variant->part, variant->caps,
			      variant->timeline));
	total = b->dev->info.mem_total;
	ASSERT_LE(total, 32u << 20);
	piece = total / 8;
	while (n < 9 && !(rc = hal_mem_alloc(b->ctx, piece, 0, &p[n])))
		n++;
	EXPECT_EQ(-ENOMEM, rc);
	EXPECT_EQ(-ENOMEM, hal_error_last()->code);
	EXPECT_EQ(8, n);
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &mi));
	EXPECT_EQ(0, mi.free);
	EXPECT_EQ(total, mi.used);
	EXPECT_EQ(0, hal_mem_free(p[3]));
	EXPECT_EQ(0, hal_mem_alloc(b->ctx, piece, 0, &p[3]));
}

static void *churn(void *arg)
{
	struct bed *b = arg;
	void *p[16] = { NULL };
	unsigned int i, seed = (unsigned int)(uintptr_t)&p;

	for (i = 0; i < 2000; i++) {
		unsigned int k = rand_r(&seed) % 16;

		if (p[k] && hal_mem_free(p[k]))
			return arg;
		p[k] = NULL;
		if (hal_mem_alloc(b->ctx, 1 + rand_r(&seed) % 5000, 0, &p[k]))
			return arg;
	}
	for (i = 0; i < 16; i++)
		if (hal_mem_free(p[i]))
			return arg;
	return NULL;
}

TEST_F(memory, many_threads_allocate)
{
	struct bed *b = &self->b;
	struct hal_mem_info mi;
	pthread_t t[4];
	void *bad;
	int i;

	MEM_OR_REFUSED(b);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, churn, b));
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		EXPECT_EQ(NULL, bad);
	}
	ASSERT_EQ(0, hal_device_mem_info(b->dev, &mi));
	EXPECT_EQ(0, mi.used);
}

TEST_HARNESS_MAIN
