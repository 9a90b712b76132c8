// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cache of device memory: blocks, streams, misuse, options, and what is done when there is no
 * memory left. The device has 64 MiB.
 */
#include "selftests/npu_kselftest.h"

#include <sched.h>

#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)
#define TOTAL (64 * MIB)

FIXTURE(alloc) {
	npu_stream s;
	npu_stream other;
};

FIXTURE_SETUP(alloc)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
}

FIXTURE_TEARDOWN(alloc)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

static struct npu_mem_stats stats(int device)
{
	struct npu_mem_stats s = { .size = sizeof(s) };

	if (npu_mem_get_stats(device, &s))
		s.size = 0;
	return s;
}

static uint64_t in_use(void)
{
	return stats(0).allocated_bytes[NPU_MEM_ALL].current;
}

static uint64_t reserved(void)
{
	return stats(0).reserved_bytes[NPU_MEM_ALL].current;
}

static size_t device_free(void)
{
	size_t n = 0;

	npu_device_mem_info(0, &n, NULL);
	return n;
}

/* A stream that stands still until the gate is opened. */
static int shut(npu_stream s, struct gate *g)
{
	return npu_stream_callback(s, gate_hold, g, 0);
}

static int open_gate(npu_stream s, struct gate *g)
{
	atomic_store(&g->open, 1);
	return npu_stream_sync(s, 5000);
}

/* ---- blocks ------------------------------------------------------------------------------ */

TEST_F(alloc, there_and_back)
{
	struct npu_mem_block b = { .size = sizeof(b) };
	char out[16] = "abcdefghijklmno", in[16] = "";
	void *p, *q;

	OK(npu_mem_alloc(1000, self->s, &p));
	OK(npu_memcpy(p, out, 16, NPU_COPY_AUTO));
	OK(npu_memcpy(in, p, 16, NPU_COPY_AUTO));
	EXPECT_STREQ(out, in);
	OK(npu_mem_get_block((char *)p + 999, &b));
	EXPECT_EQ(p, b.base);
	EXPECT_EQ(1024, b.bytes);
	EXPECT_EQ(1000, b.requested);
	EXPECT_EQ(2 * MIB, b.segment_bytes);
	EXPECT_EQ(self->s.h, b.stream.h);
	EXPECT_EQ(0, b.device);
	OK(npu_mem_free(p));
	EXPECT_EQ(-EINVAL, npu_mem_get_block(p, &b));
	/* freed last, used first */
	OK(npu_mem_alloc(1024, self->s, &q));
	EXPECT_EQ(p, q);
	OK(npu_mem_free(q));
}

TEST_F(alloc, nothing)
{
	void *p = &p;

	OK(npu_mem_alloc(0, self->s, &p));
	EXPECT_EQ(NULL, p);
	OK(npu_mem_free(NULL));
	OK(npu_mem_record_stream(NULL, self->s));
	OK(npu_mem_erase_stream(NULL, self->s));
	EXPECT_EQ(-EINVAL, npu_mem_alloc(1, self->s, NULL));
	EXPECT_EQ(0, stats(0).device_allocs);
}

TEST_F(alloc, current_stream)
{
	struct npu_mem_block b = { .size = sizeof(b) };
	npu_stream s;
	void *p;

	OK(npu_device_set(1));
	OK(npu_mem_alloc(5, NPU_STREAM_CURRENT, &p));
	OK(npu_mem_get_block(p, &b));
	OK(npu_stream_current(1, &s));
	EXPECT_EQ(1, b.device);
	EXPECT_EQ(s.h, b.stream.h);
	OK(npu_mem_free(p));
}

TEST_F(alloc, streams_that_are_not)
{
	npu_stream s = self->other;
	void *p = &p;

	OK(npu_stream_destroy(s, 5000));
	EXPECT_EQ(-ESTALE, npu_mem_alloc(100, s, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-EBADF, npu_mem_alloc(100, NPU_HANDLE(npu_stream, 12345), &p));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(-ESTALE, npu_mem_record_stream(p, s));
	EXPECT_EQ(-EBADF, npu_mem_record_stream(p, NPU_HANDLE(npu_stream, 12345)));
	OK(npu_mem_erase_stream(p, s));
	EXPECT_EQ(-EBADF, npu_mem_erase_stream(p, NPU_HANDLE(npu_stream, 12345)));
	OK(npu_mem_free(p));
}

/* Neighbours are one block again, whichever was freed first. */
TEST_F(alloc, merge)
{
	static const int order[6][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	void *p[3], *all;
	int i, k;

	for (i = 0; i < 6; i++) {
		for (k = 0; k < 3; k++)
			OK(npu_mem_alloc(MIB / 2 + (size_t)(i + k) * 4096, self->s, &p[k]));
		for (k = 0; k < 3; k++)
			OK(npu_mem_free(p[order[i][k]]));
		EXPECT_EQ(2 * MIB, stats(0).largest_free);
		EXPECT_EQ(0, stats(0).inactive_split[NPU_MEM_ALL].current);
	}
	OK(npu_mem_alloc(MIB, self->s, &all));
	EXPECT_EQ(1, stats(0).device_allocs);
	EXPECT_EQ(MIB, stats(0).inactive_split_bytes[NPU_MEM_SMALL].current);
	OK(npu_mem_free(all));
}

TEST_F(alloc, segments)
{
	static const struct {
		size_t size, segment;
	} want[] = {
		{ 1, 2 * MIB }, { MIB, 2 * MIB }, { MIB + 1, 20 * MIB }, { 9 * MIB, 20 * MIB },
		{ 10 * MIB, 10 * MIB }, { 11 * MIB + 1, 12 * MIB },
	};
	struct npu_mem_block b = { .size = sizeof(b) };
	void *p;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		OK(npu_mem_alloc(want[i].size, self->s, &p));
		OK(npu_mem_get_block(p, &b));
		EXPECT_EQ(want[i].segment, b.segment_bytes);
		OK(npu_mem_free(p));
		OK(npu_mem_empty_cache(0));
	}
	EXPECT_EQ(0, reserved());
}

/* Sizes at the edges: aligned, in bounds, and none over another (H37). */
TEST_F(alloc, edges)
{
	struct npu_mem_block b = { .size = sizeof(b) }, near = { .size = sizeof(near) };
	void *p, *q;
	size_t a, d;

	for (a = 512; a <= 2 * MIB; a *= 2)
		for (d = 0; d < 3; d++) {
			OK(npu_mem_alloc(a - 1 + d, self->s, &p));
			OK(npu_mem_alloc(1, self->s, &q));
			OK(npu_mem_get_block(p, &b));
			OK(npu_mem_get_block(q, &near));
			EXPECT_EQ(0, (uintptr_t)p % 512);
			EXPECT_LE(a - 1 + d, b.bytes);
			EXPECT_LE((uintptr_t)b.segment, (uintptr_t)b.base);
			EXPECT_LE((uintptr_t)b.base + b.bytes,
				  (uintptr_t)b.segment + b.segment_bytes);
			EXPECT_TRUE((uintptr_t)q + near.bytes <= (uintptr_t)p ||
				    (uintptr_t)p + b.bytes <= (uintptr_t)q);
			OK(npu_memset(p, 1, a - 1 + d));
			OK(npu_mem_free(p));
			OK(npu_mem_free(q));
		}
}

/* ---- misuse (H27) ------------------------------------------------------------------------- */

TEST_F(alloc, misuse)
{
	struct npu_mem_stats before, after;
	void *p, *q, *raw, *far, *pinned;
	npu_stream s;
	int i;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_alloc(4096, self->s, &q));
	OK(npu_malloc(4096, 0, &raw));
	OK(npu_malloc_host(4096, 0, &pinned));
	OK(npu_stream_default(1, &s));
	OK(npu_mem_alloc(4096, s, &far));
	OK(npu_mem_free(q));
	before = stats(0);
	EXPECT_EQ(-EINVAL, npu_mem_free(q));
	EXPECT_EQ(-EINVAL, npu_mem_free((char *)p + 512));
	EXPECT_EQ(-EINVAL, npu_mem_free((char *)p + 1));
	EXPECT_EQ(-EINVAL, npu_mem_free(&i));
	EXPECT_EQ(-EINVAL, npu_mem_free(raw));
	EXPECT_EQ(-EINVAL, npu_mem_free((char *)far + 512));
	EXPECT_EQ(-EINVAL, npu_mem_free(pinned));
	EXPECT_EQ(-EINVAL, npu_free_host(p));
	EXPECT_EQ(-EINVAL, npu_mem_record_stream(q, self->s));
	EXPECT_EQ(-EINVAL, npu_mem_erase_stream(q, self->s));
	/* neither does the plain function free what is a part of something */
	EXPECT_EQ(-EINVAL, npu_free((char *)p + 512));
	after = stats(0);
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
	OK(npu_mem_free(p));
	OK(npu_mem_free(far));
	OK(npu_free(raw));
	OK(npu_free_host(pinned));
	EXPECT_EQ(0, in_use());
}

/* What the driver gave to the cache is not the program's to give back, in whatever way. */
TEST_F(alloc, not_the_programs)
{
	struct npu_pointer_info info = { .size = sizeof(info) };
	struct npu_mem_block b = { .size = sizeof(b) };
	struct npu_mem_stats before, after;
	void *p, *q;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_alloc(4096, self->s, &q));
	OK(npu_mem_free(p));
	before = stats(0);
	EXPECT_EQ(-EINVAL, npu_free(p));
	OK(npu_mem_get_block(q, &b));
	EXPECT_EQ(-EINVAL, npu_free(b.segment));
	OK(npu_pointer_get_info(q, &info));
	EXPECT_EQ(-EINVAL, npu_free(info.base));
	EXPECT_NE(NULL, strstr(last_error().text, "npu_mem_alloc()"));
	after = stats(0);
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
	OK(npu_memset(q, 1, 4096));
	OK(npu_mem_free(q));
	OK(npu_option_set("mem_caching", "0"));
	OK(npu_mem_alloc(4096, self->s, &p));
	EXPECT_EQ(-EINVAL, npu_free(p));
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(TOTAL, device_free());
}

/* The option may change between the two calls (H27). */
TEST_F(alloc, toggled)
{
	void *with, *without, *p;

	OK(npu_mem_alloc(MIB, self->s, &with));
	OK(npu_option_set("mem_caching", "0"));
	OK(npu_mem_alloc(MIB, self->s, &without));
	EXPECT_EQ(3 * MIB, reserved());
	OK(npu_mem_free(with));
	EXPECT_EQ(-EINVAL, npu_mem_free(with));
	EXPECT_EQ(3 * MIB, reserved());
	OK(npu_option_set("mem_caching", "1"));
	OK(npu_mem_free(without));
	EXPECT_EQ(-EINVAL, npu_mem_free(without));
	EXPECT_EQ(2 * MIB, reserved());
	EXPECT_EQ(0, in_use());
	OK(npu_mem_alloc(MIB, self->s, &p));
	EXPECT_EQ(with, p);
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(TOTAL, device_free());
}

/* Without the cache the driver gets memory back, but not under the feet of a task. */
TEST_F(alloc, plain_waits)
{
	struct gate g = { 0 };
	void *p;

	OK(npu_option_set("mem_caching", "0"));
	OK(npu_mem_alloc(MIB, self->s, &p));
	OK(shut(self->s, &g));
	OK(npu_mem_free(p));
	EXPECT_EQ(TOTAL - MIB, device_free());
	EXPECT_EQ(MIB, stats(0).waiting_bytes);
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	OK(open_gate(self->s, &g));
	EXPECT_EQ(0, stats(0).waiting_bytes);
	EXPECT_EQ(TOTAL, device_free());
}

/* ---- streams ------------------------------------------------------------------------------ */

TEST_F(alloc, own_stream_at_once)
{
	struct gate g = { 0 };
	void *p, *q;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(shut(self->s, &g));
	OK(npu_mem_record_stream(p, self->s));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(4096, self->s, &q));
	EXPECT_EQ(p, q);
	/* what one stream has freed is not another's */
	OK(npu_mem_free(q));
	OK(npu_mem_alloc(4096, self->other, &q));
	EXPECT_NE(p, q);
	OK(npu_mem_free(q));
	OK(open_gate(self->s, &g));
}

TEST_F(alloc, other_stream_is_waited_for)
{
	struct gate g = { 0 };
	void *p, *q;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_record_stream(p, self->other));
	OK(npu_mem_record_stream(p, self->other));
	OK(shut(self->other, &g));
	OK(npu_mem_free(p));
	EXPECT_EQ(4096, stats(0).waiting_bytes);
	EXPECT_EQ(4096, stats(0).active_bytes[NPU_MEM_SMALL].current);
	EXPECT_EQ(0, stats(0).allocated_bytes[NPU_MEM_SMALL].current);
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	OK(npu_mem_alloc(4096, self->s, &q));
	EXPECT_NE(p, q);
	OK(npu_mem_free(q));
	OK(open_gate(self->other, &g));
	EXPECT_EQ(0, stats(0).waiting_bytes);
	EXPECT_EQ(0, stats(0).active[NPU_MEM_ALL].current);
	EXPECT_EQ(2 * MIB, stats(0).largest_free);
}

TEST_F(alloc, erased)
{
	struct gate g = { 0 };
	void *p, *q;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_record_stream(p, self->other));
	OK(npu_mem_erase_stream(p, self->other));
	OK(npu_mem_erase_stream(p, self->other));
	OK(shut(self->other, &g));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(4096, self->s, &q));
	EXPECT_EQ(p, q);
	OK(npu_mem_free(q));
	OK(open_gate(self->other, &g));
}

/* A slow stream delays its own blocks only. */
TEST_F(alloc, one_is_slow)
{
	struct gate slow = { 0 };
	void *p, *q, *both;
	npu_stream third;

	OK(npu_stream_create(NULL, &third));
	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_alloc(8192, self->s, &q));
	OK(npu_mem_alloc(16384, self->s, &both));
	OK(npu_mem_record_stream(p, self->other));
	OK(npu_mem_record_stream(q, third));
	OK(npu_mem_record_stream(both, self->other));
	OK(npu_mem_record_stream(both, third));
	OK(shut(self->other, &slow));
	OK(delay(third, 1000000000));
	OK(npu_mem_free(p));
	OK(npu_mem_free(both));
	OK(npu_mem_free(q));
	EXPECT_EQ(4096 + 8192 + 16384, stats(0).waiting_bytes);
	OK(npu_stream_sync(third, 5000));
	EXPECT_EQ(4096 + 16384, stats(0).waiting_bytes);
	OK(open_gate(self->other, &slow));
	EXPECT_EQ(0, stats(0).waiting_bytes);
}

/* Points of a stream that is gone, or of a device that was stopped, are done. */
TEST_F(alloc, gone_streams_are_done)
{
	void *p, *q;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_record_stream(p, self->other));
	OK(npu_stream_destroy(self->other, 5000));
	OK(npu_mem_free(p));
	EXPECT_EQ(0, stats(0).waiting_bytes);
	OK(npu_stream_create(NULL, &self->other));
	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_record_stream(p, self->other));
	OK(delay(self->other, 20000000000));
	OK(npu_mem_free(p));
	EXPECT_EQ(4096, stats(0).waiting_bytes);
	OK(npu_device_stop(0, 5000));
	EXPECT_EQ(0, stats(0).waiting_bytes);
	OK(npu_mem_alloc(100, self->s, &q));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(-ESTALE, npu_mem_alloc(100, self->s, &p));
	OK(npu_mem_free(q));
}

/* What a stream leaves behind that is gone is used by others before the driver is asked. */
TEST_F(alloc, inherited)
{
	void *p, *q;

	OK(npu_mem_alloc(4096, self->other, &p));
	OK(npu_mem_alloc(4096, self->other, &q));
	OK(npu_mem_free(p));
	OK(npu_stream_destroy(self->other, 5000));
	OK(npu_mem_alloc(4096, self->s, &p));
	EXPECT_EQ(1, stats(0).device_allocs);
	OK(npu_mem_free(q));
	OK(npu_mem_free(p));
	EXPECT_EQ(2 * MIB, stats(0).largest_free);
}

static int times;

static void count(void *arg)
{
	void *p;

	times += !npu_mem_alloc(100, *(npu_stream *)arg, &p) && !npu_mem_free(p);
}

TEST_F(alloc, inside_a_callback)
{
	OK(npu_stream_callback(self->s, count, &self->s, 0));
	OK(npu_stream_callback(self->s, count, &self->other, 0));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(2, times);
}

/* ---- the device goes ------------------------------------------------------------------------ */

TEST_F(alloc, reset)
{
	npu_stream s;
	void *p, *q;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_set_fraction(0, 0.5));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(0, reserved());
	EXPECT_EQ(0, in_use());
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	EXPECT_EQ(-ESTALE, npu_mem_alloc(4096, self->s, &q));
	OK(npu_stream_default(0, &s));
	OK(npu_mem_alloc(40 * MIB, s, &q));
	OK(npu_mem_free(q));
	OK(npu_finalize(5000));
	EXPECT_EQ(-EINVAL, npu_mem_free(q));
}

/* ---- figures (H30) -------------------------------------------------------------------------- */

TEST_F(alloc, figures)
{
	struct npu_mem_stats s;
	size_t start = device_free();
	void *p, *q, *raw;

	OK(npu_malloc(3 * MIB, 0, &raw));
	EXPECT_EQ(start - 3 * MIB, device_free());
	OK(npu_mem_alloc(1000, self->s, &p));
	OK(npu_mem_alloc(15 * MIB, self->s, &q));
	EXPECT_EQ(start - (3 + 2 + 16) * MIB, device_free());
	s = stats(0);
	EXPECT_EQ(2, s.allocation[NPU_MEM_ALL].current);
	EXPECT_EQ(1, s.allocation[NPU_MEM_SMALL].current);
	EXPECT_EQ(1, s.allocation[NPU_MEM_LARGE].current);
	EXPECT_EQ(1024, s.allocated_bytes[NPU_MEM_SMALL].current);
	EXPECT_EQ(1000, s.requested_bytes[NPU_MEM_SMALL].current);
	EXPECT_EQ(16 * MIB, s.allocated_bytes[NPU_MEM_LARGE].current);
	EXPECT_EQ(15 * MIB, s.requested_bytes[NPU_MEM_LARGE].current);
	EXPECT_EQ(18 * MIB, s.reserved_bytes[NPU_MEM_ALL].current);
	EXPECT_EQ(2, s.segment[NPU_MEM_ALL].current);
	EXPECT_EQ(1, s.inactive_split[NPU_MEM_ALL].current);
	EXPECT_EQ(2 * MIB - 1024, s.inactive_split_bytes[NPU_MEM_SMALL].current);
	EXPECT_EQ(2 * MIB - 1024, s.cached_bytes);
	EXPECT_EQ(-1, s.max_split_size);
	OK(npu_mem_free(p));
	OK(npu_mem_free(q));
	s = stats(0);
	EXPECT_EQ(0, s.allocation[NPU_MEM_ALL].current);
	EXPECT_EQ(2, s.allocation[NPU_MEM_ALL].peak);
	EXPECT_EQ(2, s.allocation[NPU_MEM_ALL].allocated);
	EXPECT_EQ(2, s.allocation[NPU_MEM_ALL].freed);
	EXPECT_EQ(1024 + 16 * MIB, s.active_bytes[NPU_MEM_ALL].peak);
	EXPECT_EQ(1000 + 15 * MIB, s.requested_bytes[NPU_MEM_ALL].allocated);
	EXPECT_EQ(18 * MIB, s.cached_bytes);
	EXPECT_EQ(16 * MIB, s.largest_free);
	/* emptying changes what is cached, and nothing else */
	OK(npu_mem_empty_cache(0));
	s = stats(0);
	EXPECT_EQ(0, s.cached_bytes);
	EXPECT_EQ(2, s.segment[NPU_MEM_ALL].freed);
	EXPECT_EQ(18 * MIB, s.reserved_bytes[NPU_MEM_ALL].peak);
	EXPECT_EQ(2, s.device_frees);
	EXPECT_EQ(start - 3 * MIB, device_free());
	OK(npu_mem_reset_peak(0));
	OK(npu_mem_reset_accumulated(0));
	s = stats(0);
	EXPECT_EQ(0, s.allocation[NPU_MEM_ALL].peak);
	EXPECT_EQ(0, s.reserved_bytes[NPU_MEM_ALL].peak);
	EXPECT_EQ(0, s.allocation[NPU_MEM_ALL].allocated);
	EXPECT_EQ(0, s.allocation[NPU_MEM_ALL].freed);
	EXPECT_EQ(0, s.device_allocs);
	OK(npu_free(raw));
}

/* What has ended before the figures are reset is counted before. */
TEST_F(alloc, reset_while_blocks_wait)
{
	struct gate g = { 0 };
	struct npu_mem_stats s;
	void *p;

	OK(npu_mem_alloc(4096, self->s, &p));
	OK(npu_mem_record_stream(p, self->other));
	OK(shut(self->other, &g));
	OK(npu_mem_free(p));
	OK(npu_mem_reset_peak(0));
	EXPECT_EQ(4096, stats(0).active_bytes[NPU_MEM_ALL].peak);
	OK(open_gate(self->other, &g));
	OK(npu_mem_reset_accumulated(0));
	OK(npu_mem_reset_peak(0));
	s = stats(0);
	EXPECT_EQ(0, s.active[NPU_MEM_ALL].freed);
	EXPECT_EQ(0, s.active_bytes[NPU_MEM_ALL].freed);
	EXPECT_EQ(0, s.requested_bytes[NPU_MEM_ALL].freed);
	EXPECT_EQ(0, s.active_bytes[NPU_MEM_ALL].peak);
}

/* A structure that is shorter gets what it has room for. */
TEST_F(alloc, sizes_of_structures)
{
	struct {
		struct npu_mem_stats s;
		char behind[8];
	} room = { .behind = "behind" };
	struct npu_mem_stats none = { 0 };

	room.s.size = offsetof(struct npu_mem_stats, segment);
	room.s.segment[0].peak = 77;
	OK(npu_mem_get_stats(0, &room.s));
	EXPECT_EQ(77, room.s.segment[0].peak);
	EXPECT_EQ(-EINVAL, npu_mem_get_stats(0, &none));
	EXPECT_EQ(-EINVAL, npu_mem_get_stats(0, NULL));
	EXPECT_EQ(-ENODEV, npu_mem_get_stats(2, &room.s));
	EXPECT_EQ(-ENODEV, npu_mem_empty_cache(2));
	EXPECT_EQ(-ENODEV, npu_mem_reset_peak(2));
	EXPECT_EQ(-ENODEV, npu_mem_reset_accumulated(-2));
	EXPECT_EQ(-EINVAL, npu_mem_get_block(NULL, (struct npu_mem_block *)&none));
}

/* ---- no memory (H24) ------------------------------------------------------------------------ */

static struct npu_mem_oom told;
static int tellings;

static void tell(const struct npu_mem_oom *oom, void *arg)
{
	told = *oom;
	tellings++;
	if (arg)
		npu_mem_free(*(void **)arg);
}

TEST_F(alloc, no_memory)
{
	struct npu_error e;
	void *p, *q, *raw;
	uint64_t id;

	OK(npu_malloc(8 * MIB, 0, &raw));
	OK(npu_mem_alloc(30 * MIB, self->s, &p));
	OK(npu_mem_observe_oom(0, tell, NULL, &id));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(30 * MIB, self->s, &q));
	EXPECT_EQ(NULL, q);
	e = last_error();
	EXPECT_STREQ("no 30M on device 0: total 64M, free 26M, in use 30M, cached 0 (largest 0), "
		     "waiting 0, others 0; tried driver release", e.text);
	EXPECT_EQ(1, tellings);
	EXPECT_EQ(30 * MIB, told.request);
	EXPECT_EQ(TOTAL, told.total);
	EXPECT_EQ(26 * MIB, told.free);
	EXPECT_EQ(30 * MIB, told.in_use);
	EXPECT_EQ(TOTAL, told.limit);
	EXPECT_EQ(0, told.device);
	EXPECT_EQ(NPU_MEM_TRIED_DRIVER | NPU_MEM_TRIED_RELEASE, told.tried);
	EXPECT_EQ(1, stats(0).ooms);
	OK(npu_mem_unobserve_oom(id));
	EXPECT_EQ(-ENOENT, npu_mem_unobserve_oom(id));
	/* the next one that fits works */
	OK(npu_mem_alloc(100, self->s, &q));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(SIZE_MAX, self->s, &p));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(SIZE_MAX - 511, self->s, &p));
	EXPECT_EQ(1, tellings);
	OK(npu_free(raw));
}

/* Half of the memory is free, in pieces: the figures are those that can be worked out. */
TEST_F(alloc, in_pieces)
{
	void *p[6], *q;
	int i;

	for (i = 0; i < 6; i++)
		OK(npu_mem_alloc(10 * MIB, self->s, &p[i]));
	for (i = 0; i < 6; i += 2)
		OK(npu_mem_free(p[i]));
	for (i = 0; i < 6; i += 2)
		OK(npu_mem_alloc(6 * MIB, self->s, &p[i]));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(8 * MIB, self->s, &q));
	EXPECT_STREQ("no 8M on device 0: total 64M, free 4M, in use 48M, cached 12M (largest 4M), "
		     "waiting 0, others 0; tried driver release", last_error().text);
	EXPECT_NE(NULL, strstr(last_error().hint, "mem_"));
	OK(npu_mem_alloc(4 * MIB, self->s, &q));
}

TEST_F(alloc, observer_frees)
{
	void *p, *q;
	uint64_t id;

	OK(npu_mem_alloc(60 * MIB, self->s, &p));
	OK(npu_mem_observe_oom(NPU_DEVICE_CURRENT, tell, &p, &id));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(60 * MIB, self->s, &q));
	OK(npu_mem_alloc(60 * MIB, self->s, &q));
	OK(npu_mem_unobserve_oom(id));
	EXPECT_EQ(-EINVAL, npu_mem_observe_oom(0, NULL, NULL, &id));
	EXPECT_EQ(-EINVAL, npu_mem_observe_oom(0, tell, NULL, NULL));
	EXPECT_EQ(-ENODEV, npu_mem_observe_oom(7, tell, NULL, &id));
}

/* Another kind of block is cached: it is given back. Its memory was used by a task until then. */
TEST_F(alloc, released)
{
	struct npu_mem_stats s;
	void *p, *q;

	OK(npu_mem_alloc(60 * MIB, self->other, &p));
	OK(delay(self->other, 20000000));
	OK(npu_memset_async(p, 1, 60 * MIB, self->other));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(60 * MIB, self->s, &q));
	EXPECT_EQ(0, npu_stream_query(self->other));
	s = stats(0);
	EXPECT_EQ(1, s.alloc_retries);
	EXPECT_EQ(60 * MIB, s.rescued_release);
	EXPECT_EQ(0, s.ooms);
	EXPECT_EQ(60 * MIB, s.reserved_bytes[NPU_MEM_ALL].current);
	OK(npu_mem_free(q));
}

static int bury_them(int device, size_t size, void *arg)
{
	void **p = arg;
	int had = *p != NULL;

	times++;
	npu_mem_free(*p);
	*p = NULL;
	/* no such function is called inside another */
	if (npu_mem_alloc(TOTAL + 1, NPU_STREAM_CURRENT, p) != -ENOMEM)
		times += 100;
	*p = NULL;
	return device == 0 && size == 60 * MIB && had;
}

TEST_F(alloc, reclaimed)
{
	void *p, *q;
	uint64_t id;

	OK(npu_mem_alloc(60 * MIB, self->s, &p));
	OK(npu_mem_add_reclaim(bury_them, &p, &id));
	OK(npu_mem_alloc(60 * MIB, self->s, &q));
	EXPECT_EQ(1, times);
	EXPECT_EQ(1, stats(0).rescued_reclaim);
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(60 * MIB, self->s, &p));
	EXPECT_EQ(2, times);
	EXPECT_NE(NULL, strstr(last_error().text, "tried reclaim driver release"));
	OK(npu_mem_remove_reclaim(id));
	EXPECT_EQ(-ENOENT, npu_mem_remove_reclaim(id));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(60 * MIB, self->s, &p));
	EXPECT_EQ(2, times);
	EXPECT_EQ(-EINVAL, npu_mem_add_reclaim(NULL, NULL, &id));
	EXPECT_EQ(-EINVAL, npu_mem_add_reclaim(bury_them, NULL, NULL));
	OK(npu_mem_free(q));
}

static void *open_soon(void *arg)
{
	usleep(20000);
	atomic_store((_Atomic int *)arg, 1);
	return NULL;
}

/* A block that waits for a stream is waited for before there is no memory. */
TEST_F(alloc, events_are_waited_for)
{
	struct gate g = { 0 };
	pthread_t th;
	void *p, *q;

	OK(npu_mem_alloc(60 * MIB, self->s, &p));
	OK(npu_mem_record_stream(p, self->other));
	OK(shut(self->other, &g));
	OK(npu_mem_free(p));
	ASSERT_EQ(0, pthread_create(&th, NULL, open_soon, &g.open));
	OK(npu_mem_alloc(60 * MIB, self->s, &q));
	EXPECT_EQ(p, q);
	EXPECT_EQ(1, stats(0).rescued_events);
	EXPECT_EQ(1, stats(0).sync_all_streams);
	pthread_join(th, NULL);
	OK(npu_mem_free(q));
}

/* The limit is the program's own. */
TEST_F(alloc, fraction)
{
	double f = 0;
	void *p, *q;

	OK(npu_mem_get_fraction(0, &f));
	EXPECT_EQ(1.0, f);
	EXPECT_EQ(-EINVAL, npu_mem_set_fraction(0, 1.1));
	EXPECT_EQ(-EINVAL, npu_mem_set_fraction(0, -0.1));
	EXPECT_EQ(-EINVAL, npu_mem_set_fraction(0, 0.0 / 0.0));
	EXPECT_EQ(-EINVAL, npu_mem_get_fraction(0, NULL));
	OK(npu_mem_set_fraction(0, 0.5));
	OK(npu_mem_get_fraction(0, &f));
	EXPECT_EQ(0.5, f);
	EXPECT_EQ(TOTAL / 2, stats(0).limit);
	OK(npu_mem_alloc(32 * MIB, self->s, &p));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(1, self->s, &q));
	EXPECT_NE(NULL, strstr(last_error().text, "free 32M, limit 32M, in use 32M"));
	EXPECT_NE(NULL, strstr(last_error().hint, "npu_mem_set_fraction"));
	OK(npu_mem_free(p));
	/* a segment smaller than usual is better than none */
	OK(npu_mem_alloc(31 * MIB + 512, self->s, &p));
	OK(npu_mem_empty_cache(0));
	OK(npu_mem_set_fraction(0, 1));
	OK(npu_mem_alloc(20 * MIB, self->s, &q));
}

/* What is left of the device is less than a segment. */
TEST_F(alloc, the_last_bytes)
{
	void *raw, *p;

	OK(npu_malloc(TOTAL - 64 * 1024, 0, &raw));
	OK(npu_mem_alloc(60 * 1024, self->s, &p));
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(64 * 1024, device_free());
	OK(npu_free(raw));
}

/* ---- options -------------------------------------------------------------------------------- */

FIXTURE(alloc_options) {
	npu_stream s;
};

FIXTURE_SETUP(alloc_options)
{
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
}

FIXTURE_TEARDOWN(alloc_options)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

/* Whether blocks are where they should be, and none lies over another. */
static int misplaced(void *const *p, const size_t *size, size_t n, size_t align)
{
	struct npu_mem_block b[16];
	size_t i, k;
	int wrong = 0;

	for (i = 0; i < n; i++) {
		b[i].size = sizeof(b[i]);
		wrong += npu_mem_get_block(p[i], &b[i]) != 0;
		wrong += (uintptr_t)p[i] % align != 0 || b[i].bytes < size[i];
		wrong += (char *)b[i].base < (char *)b[i].segment ||
			 (char *)b[i].base + b[i].bytes >
			 (char *)b[i].segment + b[i].segment_bytes;
		wrong += npu_memset(p[i], (int)i, size[i]) != 0;
		for (k = 0; k < i; k++)
			wrong += (char *)p[i] < (char *)p[k] + b[k].bytes &&
				 (char *)p[k] < (char *)p[i] + b[i].bytes;
	}
	return wrong;
}

/* Sizes at the edges of a block, of every alignment there is. */
TEST_F_TIMEOUT(alloc_options, aligned_edges, 60)
{
	size_t a, i, size[9];
	char text[32];
	void *p[9];

	for (a = 512; a <= 2 * MIB; a *= 2) {
		snprintf(text, sizeof(text), "%zu", a);
		OK(npu_option_set("mem_block_align", text));
		OK(npu_stream_create(NULL, &self->s));
		for (i = 0; i < 9; i++) {
			size[i] = (i / 3 + 1) * a + i % 3 - 1;
			OK(npu_mem_alloc(size[i], self->s, &p[i]));
		}
		EXPECT_EQ(0, misplaced(p, size, 9, a));
		for (i = 0; i < 9; i += 2)
			OK(npu_mem_free(p[i]));
		for (i = 0; i < 9; i += 2)
			OK(npu_mem_alloc(size[i], self->s, &p[i]));
		EXPECT_EQ(0, misplaced(p, size, 9, a));
		OK(npu_finalize(5000));
	}
}

TEST_F(alloc_options, block_align)
{
	size_t sizes[] = { 1, 600, 70000, 3 * MIB };
	void *p[4];
	size_t a, i;

	for (a = 512; a <= 2 * MIB; a *= 4) {
		char text[32];

		snprintf(text, sizeof(text), "%zu", a);
		OK(npu_option_set("mem_block_align", text));
		OK(npu_stream_create(NULL, &self->s));
		for (i = 0; i < 4; i++) {
			OK(npu_mem_alloc(sizes[i], self->s, &p[i]));
			EXPECT_EQ(0, (uintptr_t)p[i] % a);
		}
		for (i = 0; i < 4; i++)
			OK(npu_mem_free(p[i]));
		OK(npu_finalize(5000));
	}
	OK(npu_option_set("mem_block_align", "768"));
	EXPECT_EQ(-EINVAL, npu_init());
	EXPECT_NE(NULL, strstr(last_error().text, "mem_block_align"));
	OK(npu_option_set("mem_block_align", NULL));
}

TEST_F(alloc_options, divisions)
{
	static const size_t want[][2] = {
		{ 512, 512 }, { 2048, 2048 }, { 1200 * 512, 1280 * 512 }, { MIB + 1, MIB * 5 / 4 },
		{ 5 * MIB, 5 * MIB }, { 5 * MIB + 1, 6 * MIB },
	};
	struct npu_mem_block b = { .size = sizeof(b) };
	size_t i;
	void *p;

	OK(npu_option_set("mem_roundup_power2_divisions", "4"));
	OK(npu_stream_create(NULL, &self->s));
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		OK(npu_mem_alloc(want[i][0], self->s, &p));
		OK(npu_mem_get_block(p, &b));
		EXPECT_EQ(want[i][1], b.bytes);
		OK(npu_mem_free(p));
	}
	OK(npu_finalize(5000));
	OK(npu_option_set("mem_roundup_power2_divisions", "3"));
	EXPECT_EQ(-EINVAL, npu_init());
	OK(npu_option_set("mem_roundup_power2_divisions", NULL));
}

/* Large blocks stay whole for large requests. */
TEST_F(alloc_options, max_split)
{
	struct npu_mem_stats s;
	void *big, *p;

	OK(npu_option_set("mem_max_split_mb", "20"));
	OK(npu_option_set("mem_max_non_split_rounding_mb", "2"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(30 * MIB, self->s, &big));
	s = stats(0);
	EXPECT_EQ(1, s.oversize_allocations.current);
	EXPECT_EQ(20 * MIB, s.max_split_size);
	OK(npu_mem_free(big));
	OK(npu_mem_alloc(10 * MIB, self->s, &p));
	EXPECT_NE(big, p);
	OK(npu_mem_free(p));
	/* within the slack, whole */
	OK(npu_mem_alloc(29 * MIB, self->s, &p));
	EXPECT_EQ(big, p);
	OK(npu_mem_free(p));
	/* beyond: another segment, for which it is not large enough */
	OK(npu_mem_alloc(24 * MIB, self->s, &p));
	EXPECT_NE(big, p);
	OK(npu_mem_free(p));
	s = stats(0);
	EXPECT_EQ(0, s.oversize_allocations.current);
	EXPECT_EQ(3, s.oversize_allocations.freed);
	OK(npu_finalize(5000));
	OK(npu_option_set("mem_max_split_mb", "19"));
	EXPECT_EQ(-EINVAL, npu_init());
	EXPECT_NE(NULL, strstr(last_error().text, "mem_max_split_mb"));
	EXPECT_NE(NULL, strstr(last_error().text, "mem_large_segment_mb"));
	OK(npu_option_set("mem_max_split_mb", NULL));
}

TEST_F(alloc_options, gc)
{
	void *p[4], *q;
	int i;

	OK(npu_option_set("mem_gc_threshold", "50"));
	OK(npu_stream_create(NULL, &self->s));
	for (i = 0; i < 3; i++)
		OK(npu_mem_alloc((10 + 2 * (size_t)i) * MIB, self->s, &p[i]));
	for (i = 0; i < 3; i++)
		OK(npu_mem_free(p[i]));
	EXPECT_EQ(36 * MIB, reserved());
	OK(npu_mem_alloc(16 * MIB, self->s, &q));
	EXPECT_LT(0, stats(0).rescued_gc);
	EXPECT_GE(42 * MIB, reserved());
	OK(npu_mem_free(q));
}

/* ---- segments that grow --------------------------------------------------------------------- */

TEST_F(alloc_options, growable)
{
	struct npu_mem_block b = { .size = sizeof(b) };
	char out[4] = "abc", in[4] = "";
	void *p[4], *q;
	int i;

	if (!is_built("npu_vm_map"))
		SKIP(return, "built without VMM");
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	/* no more is taken than is needed, rounded to what memory comes in */
	OK(npu_mem_alloc(3 * MIB, self->s, &p[0]));
	EXPECT_EQ(4 * MIB, reserved());
	OK(npu_mem_alloc(9 * MIB, self->s, &p[1]));
	EXPECT_EQ(12 * MIB, reserved());
	OK(npu_mem_get_block(p[1], &b));
	EXPECT_EQ(p[0], b.segment);
	EXPECT_LT(TOTAL, b.segment_bytes);
	/* across what was mapped piece by piece */
	OK(npu_mem_free(p[0]));
	OK(npu_mem_free(p[1]));
	OK(npu_mem_alloc(20 * MIB, self->s, &q));
	EXPECT_EQ(p[0], q);
	EXPECT_EQ(20 * MIB, reserved());
	OK(npu_memset(q, 7, 20 * MIB));
	OK(npu_memcpy((char *)q + 4 * MIB - 2, out, 4, NPU_COPY_AUTO));
	OK(npu_memcpy(in, (char *)q + 4 * MIB - 2, 4, NPU_COPY_AUTO));
	EXPECT_STREQ("abc", in);
	OK(npu_mem_free(q));
	EXPECT_EQ(1, stats(0).segment[NPU_MEM_ALL].current);
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, reserved());
	EXPECT_EQ(TOTAL, device_free());
	/* from the middle, and there again */
	for (i = 0; i < 4; i++)
		OK(npu_mem_alloc(4 * MIB, self->s, &p[i]));
	OK(npu_mem_free(p[1]));
	OK(npu_mem_free(p[2]));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(8 * MIB, reserved());
	EXPECT_EQ(TOTAL - 8 * MIB, device_free());
	EXPECT_EQ(-EFAULT, failing_task(self->s) ? 0 : npu_stream_sync(self->s, 5000));
	OK(npu_mem_alloc(8 * MIB, self->s, &q));
	EXPECT_EQ(p[1], q);
	OK(npu_memset(q, 1, 8 * MIB));
	OK(npu_mem_free(q));
	OK(npu_mem_free(p[0]));
	OK(npu_mem_free(p[3]));
	EXPECT_EQ(16 * MIB, stats(0).largest_free);
}

/* Neither are its addresses, nor what is mapped there. */
TEST_F(alloc_options, growable_is_not_the_programs)
{
	struct npu_mem_block b = { .size = sizeof(b) };
	npu_vm_memory v;
	void *p;

	if (!is_built("npu_vm_create"))
		SKIP(return, "built without VMM");
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(4 * MIB, self->s, &p));
	OK(npu_mem_get_block(p, &b));
	OK(npu_vm_create(0, 2 * MIB, 0, &v));
	EXPECT_EQ(-EINVAL, npu_free(p));
	EXPECT_EQ(-EINVAL, npu_vm_unmap(p, 4 * MIB));
	EXPECT_EQ(-EINVAL, npu_vm_protect(p, 4 * MIB, NPU_VM_READ));
	EXPECT_EQ(-EINVAL, npu_vm_release(b.segment));
	EXPECT_EQ(-EINVAL, npu_vm_map((char *)b.segment + 8 * MIB, 2 * MIB, v, 0, NPU_VM_READ));
	EXPECT_NE(NULL, strstr(last_error().text, "npu_mem_alloc()"));
	OK(npu_vm_destroy(v));
	OK(npu_memset(p, 1, 4 * MIB));
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, reserved());
}

TEST_F(alloc_options, growable_to_the_end)
{
	void *p, *q;

	if (!is_built("npu_vm_map"))
		SKIP(return, "built without VMM");
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(60 * MIB, self->s, &p));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(6 * MIB, self->s, &q));
	EXPECT_EQ(60 * MIB, reserved());
	EXPECT_EQ(TOTAL - 60 * MIB, device_free());
	OK(npu_mem_alloc(4 * MIB, self->s, &q));
	OK(npu_mem_free(p));
	OK(npu_mem_free(q));
	OK(npu_mem_alloc(64 * MIB, self->s, &p));
	OK(npu_mem_free(p));
	OK(npu_mem_set_fraction(0, 0.25));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(17 * MIB, self->s, &p));
	OK(npu_mem_alloc(16 * MIB, self->s, &p));
	/* small ones have addresses of their own */
	OK(npu_mem_set_fraction(0, 1));
	OK(npu_mem_alloc(100, self->s, &q));
	EXPECT_EQ(18 * MIB, reserved());
	OK(npu_mem_free(q));
	OK(npu_mem_free(p));
}

/* Streams come and go: neither memory nor addresses are left behind. */
TEST_F(alloc_options, growable_and_streams)
{
	void *p;
	int i;

	if (!is_built("npu_vm_map"))
		SKIP(return, "built without VMM");
	OK(npu_option_set("mem_growable", "1"));
	for (i = 0; i < 200; i++) {
		OK(npu_stream_create(NULL, &self->s));
		OK(npu_mem_alloc(4 * MIB, self->s, &p));
		OK(npu_mem_free(p));
		OK(npu_stream_destroy(self->s, 5000));
		ASSERT_EQ(4 * MIB, reserved());
	}
	OK(npu_mem_empty_cache(0));
	EXPECT_GE(2, stats(0).segment[NPU_MEM_ALL].current);
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(0, reserved());
}

TEST_F(alloc_options, fraction)
{
	double f = 0;

	OK(npu_option_set("mem_fraction", "25"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_get_fraction(0, &f));
	EXPECT_EQ(0.25, f);
	EXPECT_EQ(16 * MIB, stats(0).limit);
}

/* All pairs of options work, or are refused when the library is initialised, naming both (H25). */
TEST_F_TIMEOUT(alloc_options, pairs, 120)
{
	static const char *const set[][2] = {
		{ "mem_caching", "0" }, { "mem_max_split_mb", "20" },
		{ "mem_max_split_mb", "64" }, { "mem_max_non_split_rounding_mb", "1" },
		{ "mem_gc_threshold", "10" }, { "mem_roundup_power2_divisions", "8" },
		{ "mem_large_segment_mb", "32" }, { "mem_block_align", "64K" },
		{ "mem_fraction", "60" }, { "mem_growable", "1" },
	};
	size_t i, k, n;
	void *p[8];
	int err;

	for (i = 0; i < ARRAY_SIZE(set); i++)
		for (k = i + 1; k < ARRAY_SIZE(set); k++) {
			OK(npu_option_set(set[i][0], set[i][1]));
			OK(npu_option_set(set[k][0], set[k][1]));
			err = npu_init();
			if (err) {
				EXPECT_EQ(-EINVAL, err);
				EXPECT_NE(NULL, strstr(last_error().text, set[i][0]));
				EXPECT_NE(NULL, strstr(last_error().text, set[k][0]));
			} else {
				OK(npu_stream_create(NULL, &self->s));
				for (n = 0; n < 8; n++)
					OK(npu_mem_alloc(1000 * (n + 1) * (n + 1) * (n + 1),
							 self->s, &p[n]));
				for (n = 0; n < 8; n++) {
					OK(npu_memset(p[n], 1, 1000 * (n + 1)));
					OK(npu_mem_free(p[n]));
				}
				EXPECT_EQ(0, in_use());
				OK(npu_mem_empty_cache(0));
				EXPECT_EQ(0, reserved());
				OK(npu_finalize(5000));
			}
			OK(npu_option_set(set[i][0], NULL));
			OK(npu_option_set(set[k][0], NULL));
		}
}

/* ---- threads (H26) -------------------------------------------------------------------------- */

#define THREADS 16
#define SLOTS 12

struct worker {
	npu_stream s, other;
	unsigned int seed;
	uint64_t held;
	unsigned long ops;
	int wrong;
};

static _Atomic int stop;

static int step(struct worker *w, void *slot[SLOTS], size_t size[SLOTS])
{
	unsigned int i = (unsigned int)rand_r(&w->seed) % SLOTS;
	unsigned int what = (unsigned int)rand_r(&w->seed) % 64;
	size_t n = (size_t)1 << (rand_r(&w->seed) % 22);
	int err;

	w->ops++;
	if (what == 0)
		return npu_mem_empty_cache(0);
	if (what == 1)
		return slot[i] ? npu_mem_record_stream(slot[i], w->other) : 0;
	if (what == 2)
		return delay(w->other, 1000);
	if (slot[i]) {
		w->held -= size[i];
		err = npu_mem_free(slot[i]);
		slot[i] = NULL;
		return err;
	}
	err = npu_mem_alloc(n, what & 1 ? w->s : w->other, &slot[i]);
	if (err)
		return err == -ENOMEM ? 0 : err;
	size[i] = n;
	w->held += n;
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	void *slot[SLOTS] = { NULL };
	size_t size[SLOTS] = { 0 };
	int i;

	while (!atomic_load(&stop) && !w->wrong)
		w->wrong = step(w, slot, size);
	for (i = 0; i < SLOTS; i++)
		if (slot[i] && i % 2) {
			w->wrong |= npu_mem_free(slot[i]);
			w->held -= size[i];
		}
	return NULL;
}

/* Return: how many things are wrong in the end. */
static int all_work(void)
{
	struct worker w[THREADS] = { 0 };
	uint64_t held = 0, ops = 0;
	struct npu_mem_stats s;
	pthread_t th[THREADS];
	int i, wrong = 0;

	atomic_store(&stop, 0);
	for (i = 0; i < THREADS; i++) {
		w[i].seed = (unsigned int)i + 1;
		wrong += npu_stream_create(NULL, &w[i].s) != 0;
		wrong += npu_stream_create(NULL, &w[i].other) != 0;
		if (pthread_create(&th[i], NULL, work, &w[i]))
			return 1;
	}
	usleep(1500000);
	atomic_store(&stop, 1);
	for (i = 0; i < THREADS; i++) {
		pthread_join(th[i], NULL);
		if (w[i].wrong)
			printf("# thread %d: %d\n", i, w[i].wrong);
		wrong += w[i].wrong != 0;
		held += w[i].held;
		ops += w[i].ops;
	}
	printf("# %llu operations\n", (unsigned long long)ops);
	wrong += npu_device_sync(0, 20000) != 0;
	s = stats(0);
	wrong += held != s.requested_bytes[NPU_MEM_ALL].current;
	wrong += s.active_bytes[NPU_MEM_ALL].current != s.allocated_bytes[NPU_MEM_ALL].current;
	wrong += s.allocation[NPU_MEM_ALL].allocated - s.allocation[NPU_MEM_ALL].freed !=
		 s.allocation[NPU_MEM_ALL].current;
	wrong += s.reserved_bytes[NPU_MEM_ALL].current != TOTAL - device_free();
	wrong += s.cached_bytes + s.active_bytes[NPU_MEM_ALL].current !=
		 s.reserved_bytes[NPU_MEM_ALL].current;
	return wrong;
}

TEST_F_TIMEOUT(alloc, many_threads, 60)
{
	EXPECT_EQ(0, all_work());
}

TEST_F_TIMEOUT(alloc_options, many_threads_and_growable, 60)
{
	OK(npu_option_set("mem_growable", "1"));
	EXPECT_EQ(0, all_work());
}

TEST_F_TIMEOUT(alloc_options, many_threads_and_no_cache, 60)
{
	OK(npu_option_set("mem_caching", "0"));
	EXPECT_EQ(0, all_work());
}

/* The last segment goes, and there is one again (H26). */
TEST_F(alloc, the_last_segment)
{
	void *p;
	int i;

	for (i = 0; i < 100; i++) {
		OK(npu_mem_alloc(4096, self->s, &p));
		OK(npu_mem_free(p));
		OK(npu_mem_empty_cache(0));
		ASSERT_EQ(0, reserved());
	}
	EXPECT_EQ(100, stats(0).device_frees);
}

/* Freed by another thread than the one that allocates. */
static void *free_them(void *arg)
{
	void *_Atomic *box = arg;
	void *p;
	long n = 0;

	while (n < 1000) {
		p = atomic_exchange(box, NULL);
		if (p && npu_mem_free(p))
			return (void *)1;
		n += p != NULL;
		if (!p)
			sched_yield();
	}
	return NULL;
}

TEST_F(alloc, freed_elsewhere)
{
	void *_Atomic box = NULL;
	void *p, *res;
	pthread_t th;
	int i;

	ASSERT_EQ(0, pthread_create(&th, NULL, free_them, &box));
	for (i = 0; i < 1000; i++) {
		OK(npu_mem_alloc(4096, self->s, &p));
		while (atomic_load(&box))
			sched_yield();
		atomic_store(&box, p);
	}
	pthread_join(th, &res);
	EXPECT_EQ(NULL, res);
	EXPECT_EQ(0, in_use());
}

TEST_HARNESS_MAIN
