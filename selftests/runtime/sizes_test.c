// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sizes: nothing at all, more than there can be, and what does not fit together.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

#define GIB (1ull << 30)
#define N 4096

FIXTURE(sizes) {
	npu_stream s;
	char *dev, *other, *far;
	char host[N], back[N];
	size_t free_before;
};

FIXTURE_SETUP(sizes)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_malloc(N, 0, (void **)&self->dev));
	OK(npu_malloc(N, 0, (void **)&self->other));
	OK(npu_device_set(1));
	OK(npu_malloc(N, 0, (void **)&self->far));
	OK(npu_device_set(0));
	memset(self->host, 5, N);
	OK(npu_memset(self->dev, 1, N));
	OK(npu_memset(self->other, 2, N));
	OK(npu_memset(self->far, 3, N));
	OK(npu_device_mem_info(0, &self->free_before, NULL));
}

/* Whatever was refused, all is as it was, and the device works. */
FIXTURE_TEARDOWN(sizes)
{
	size_t now;
	int i;

	EXPECT_EQ(0, npu_stream_sync(self->s, 5000));
	EXPECT_EQ(0, npu_device_mem_info(0, &now, NULL));
	EXPECT_EQ(self->free_before, now);
	EXPECT_EQ(0, npu_memcpy(self->back, self->dev, N, NPU_COPY_AUTO));
	for (i = 0; i < N && self->back[i] == 1; i++)
		;
	EXPECT_EQ(N, i);
	EXPECT_EQ(0, npu_finalize(5000));
}

/* Nothing to do is a success, with whatever pointers, and gives nothing. */
TEST_F(sizes, nothing)
{
	void *p = self;

	OK(npu_malloc(0, 0, &p));
	EXPECT_EQ(NULL, p);
	OK(npu_free(p));
	p = self;
	OK(npu_malloc_host(0, 0, &p));
	EXPECT_EQ(NULL, p);
	OK(npu_free_host(p));
	p = self;
	OK(npu_mem_alloc(0, self->s, &p));
	EXPECT_EQ(NULL, p);
	OK(npu_mem_free(p));
	OK(npu_memcpy(NULL, NULL, 0, NPU_COPY_AUTO));
	OK(npu_memcpy(NULL, NULL, 0, NPU_COPY_H2D));
	OK(npu_memcpy_async(NULL, NULL, 0, NPU_COPY_AUTO, self->s));
	OK(npu_memcpy_2d(NULL, 0, NULL, 0, 0, 5, NPU_COPY_AUTO));
	OK(npu_memcpy_2d(NULL, 0, NULL, 0, 5, 0, NPU_COPY_AUTO));
	OK(npu_memcpy_2d_async(NULL, 0, NULL, 0, 0, 0, NPU_COPY_AUTO, self->s));
	OK(npu_memset(NULL, 1, 0));
	OK(npu_memset_async(NULL, 1, 0, self->s));
	OK(npu_memset(self->dev, 9, 0));
	/* but for what names a range: that has to be one */
	EXPECT_EQ(-EINVAL, npu_host_register(self->host, 0, 0));
	EXPECT_EQ(-EINVAL, npu_vm_reserve(0, 0, 0, NULL, &p));
	EXPECT_EQ(-EINVAL, npu_vm_unmap(self->dev, 0));
	EXPECT_EQ(-EINVAL, npu_vm_protect(self->dev, 0, 0));
}

/* What wraps, or is more than there is, is refused before anything is asked for it. */
TEST_F(sizes, too_much)
{
	static const size_t huge[] = {
		SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 63, SIZE_MAX - 511, SIZE_MAX - 4095,
		SIZE_MAX / 2 + 1, 1ull << 62, 1ull << 47,
	};
	npu_vm_memory m;
	size_t i;
	void *p;

	for (i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		EXPECT_EQ(-ENOMEM, npu_malloc(huge[i], 0, &p));
		EXPECT_EQ(NULL, p);
		EXPECT_EQ(-ENOMEM, npu_malloc_host(huge[i], 0, &p));
		EXPECT_EQ(NULL, p);
		EXPECT_EQ(-ENOMEM, npu_mem_alloc(huge[i], self->s, &p));
		EXPECT_EQ(NULL, p);
		EXPECT_GT(0, npu_vm_create(0, huge[i], 0, &m));
		EXPECT_GT(0, npu_vm_reserve(0, huge[i], 0, NULL, &p));
		EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->host, huge[i], NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memcpy(self->host, self->dev, huge[i], NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memcpy_async(self->dev, self->host, huge[i], NPU_COPY_AUTO,
						    self->s));
		EXPECT_EQ(-EINVAL, npu_memset(self->dev, 9, huge[i]));
		EXPECT_EQ(-EINVAL, npu_memset_async(self->dev, 9, huge[i], self->s));
		EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->dev, huge[i], self->host, huge[i], 8, 3,
						 NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->dev, 64, self->host, 64, 8, huge[i],
						 NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memcpy_2d_async(self->dev, huge[i], self->host, huge[i],
						       huge[i], 2, NPU_COPY_AUTO, self->s));
	}
}

TEST_F(sizes, past_the_end)
{
	char *ends[] = { self->dev + 1, self->dev + N - 1, self->dev - 1 };
	size_t i;

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(-EINVAL, npu_memcpy(ends[i], self->host, N, NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memcpy(self->host, ends[i], N, NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memset(ends[i], 9, N));
		EXPECT_EQ(-EINVAL, npu_memcpy_async(ends[i], self->host, N, NPU_COPY_AUTO,
						    self->s));
		EXPECT_EQ(-EINVAL, npu_memset_async(ends[i], 9, N, self->s));
	}
	EXPECT_EQ(5, self->host[0]);
	EXPECT_EQ(-EINVAL, npu_memcpy(NULL, self->host, 1, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, NULL, 1, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memset(NULL, 9, 1));
}

/* The direction is found, and one that is named has to be that. */
TEST_F(sizes, kinds)
{
	struct { void *dst; const void *src; enum npu_copy_kind kind; } way[] = {
		{ self->back, self->host, NPU_COPY_H2H },
		{ self->other, self->host, NPU_COPY_H2D },
		{ self->back, self->dev, NPU_COPY_D2H },
		{ self->other, self->dev, NPU_COPY_D2D },
	};
	int i, kind;

	for (i = 0; i < 4; i++) {
		OK(npu_memcpy(way[i].dst, way[i].src, 64, NPU_COPY_AUTO));
		for (kind = NPU_COPY_H2H; kind <= NPU_COPY_D2D + 1; kind++)
			EXPECT_EQ(kind == (int)way[i].kind ? 0 : -EINVAL,
				  npu_memcpy(way[i].dst, way[i].src, 64, (enum npu_copy_kind)kind))
				TH_LOG("way %d, kind %d", i, kind);
	}
}

TEST_F(sizes, overlapping)
{
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev + 64, self->dev, 65, NPU_COPY_AUTO));
	EXPECT_EQ(-EINVAL, npu_memcpy(self->dev, self->dev + 64, 65, NPU_COPY_D2D));
	EXPECT_EQ(-EINVAL, npu_memcpy_async(self->dev + 1, self->dev, 2, NPU_COPY_AUTO, self->s));
	EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->dev + 8, 64, self->dev, 64, 16, 4, NPU_COPY_AUTO));
	/* side by side is fine, and so are two devices */
	OK(npu_memcpy(self->dev + 64, self->dev, 64, NPU_COPY_AUTO));
	OK(npu_memcpy(self->dev, self->dev + 64, 64, NPU_COPY_AUTO));
	OK(npu_memcpy(self->other, self->far, N, NPU_COPY_AUTO));
	OK(npu_memcpy(self->back, self->other, N, NPU_COPY_AUTO));
	EXPECT_EQ(3, self->back[N - 1]);
}

/* Offsets and pitches beyond 4 GiB: the first and the last byte, of memory that exists once. */
TEST_F(sizes, addresses_beyond_4_gib)
{
	const size_t sizes[] = { 4 * GIB - (2u << 20), 4 * GIB, 4 * GIB + (2u << 20), 5 * GIB };
	npu_vm_memory first, last;
	const size_t g = 2u << 20;
	struct npu_simnpu_inc_args inc = { .by = 0x0101010101010101 };
	uint64_t v;
	size_t i;
	char *p;

	OK(npu_vm_create(0, g, 0, &first));
	OK(npu_vm_create(0, g, 0, &last));
	for (i = 0; i < 4; i++) {
		OK(npu_vm_reserve(0, sizes[i], 0, NULL, (void **)&p));
		OK(npu_vm_map(p, g, first, 0, NPU_VM_READ | NPU_VM_WRITE));
		OK(npu_vm_map(p + sizes[i] - g, g, last, 0, NPU_VM_READ | NPU_VM_WRITE));
		OK(npu_memset(p, 1, g));
		OK(npu_memset(p + sizes[i] - g, 2, g));
		inc.addr = (uintptr_t)p + sizes[i] - 8;
		OK(npu_launch(builtin_kernel("inc_u64"), 1, &inc, sizeof(inc), self->s));
		OK(npu_stream_sync(self->s, 5000));
		OK(npu_memcpy(&v, p + sizes[i] - 8, 8, NPU_COPY_D2H));
		EXPECT_EQ(0x0303030303030303, v);
		OK(npu_memcpy(&v, p, 8, NPU_COPY_D2H));
		EXPECT_EQ(0x0101010101010101, v);
		/* what lies between is not there: neither as a range, nor as rows */
		EXPECT_EQ(-EINVAL, npu_memset(p, 0, sizes[i]));
		EXPECT_EQ(-EINVAL, npu_memcpy_2d(self->back, 8, p, sizes[i] - g, 8, 2,
						 NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memset(p + sizes[i] - 8, 0, 9));
		OK(npu_vm_unmap(p, g));
		OK(npu_vm_unmap(p + sizes[i] - g, g));
		OK(npu_vm_release(p));
	}
	OK(npu_vm_destroy(first));
	OK(npu_vm_destroy(last));
}

TEST_HARNESS_MAIN
