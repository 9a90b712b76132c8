// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pinned host memory from the cache.
 */
#include "selftests/npu_kselftest.h"

#include <sys/wait.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)

static struct npu_host_stats stats_of(int device)
{
	struct npu_host_stats s = { .size = sizeof(s) };

	if (npu_host_get_stats(device, &s))
		abort();
	return s;
}

static int pinned(const void *p)
{
	int yes = -1;

	return npu_host_is_pinned(p, &yes) ? -1 : yes;
}

/* Bytes of the process that are locked. */
static size_t locked(void)
{
	size_t kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %zu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

FIXTURE(pinned) {
	npu_stream s, other;
	char *dev;
};

FIXTURE_SETUP(pinned)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
	OK(npu_malloc(4 * MIB, 0, (void **)&self->dev));
}

FIXTURE_TEARDOWN(pinned)
{
	simnpu_fault_clear();
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(pinned, comes_back)
{
	static const size_t sizes[] = { 1, 512, 5000, MIB, MIB + 1, 3 * MIB + 7, 64 * MIB };
	char *p, *q;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		OK(npu_host_alloc(sizes[i], (void **)&p));
		EXPECT_EQ(0, (uintptr_t)p % (sizes[i] > MIB ? 4096 : 512));
		memset(p, 1, sizes[i]);
		OK(npu_host_alloc(sizes[i], (void **)&q));
		EXPECT_TRUE(q >= p + sizes[i] || p >= q + sizes[i]);
		q[sizes[i] - 1] = 2;
		EXPECT_EQ(1, pinned(p));
		EXPECT_EQ(1, pinned(p + sizes[i] - 1));
		OK(npu_host_free(p));
		EXPECT_EQ(0, pinned(p));
		EXPECT_EQ(2, q[sizes[i] - 1]);
		OK(npu_host_alloc(sizes[i], (void **)&self->dev));
		EXPECT_EQ(p, self->dev);
		OK(npu_host_free(p));
		OK(npu_host_free(q));
	}
	OK(npu_host_alloc(0, (void **)&p));
	EXPECT_EQ(NULL, p);
	OK(npu_host_free(NULL));
}

/* Neither the block nor what is taken from the system is much more than was asked for. */
TEST_F(pinned, little_is_wasted)
{
	struct npu_host_stats before, after;
	size_t size;
	void *p;

	for (size = MIB + 1; size < 200 * MIB; size += size / 3) {
		before = stats_of(0);
		OK(npu_host_alloc(size, &p));
		after = stats_of(0);
		EXPECT_GE(size / 8, after.allocated_bytes.current - before.allocated_bytes.current -
			  size);
		EXPECT_GE(size / 8, after.reserved_bytes.current - before.reserved_bytes.current -
			  size);
		OK(npu_host_free(p));
		OK(npu_host_empty_cache(0));
	}
}

TEST_F(pinned, is_given_back)
{
	size_t before = locked();
	void *p, *q;

	OK(npu_host_alloc(8 * MIB, &p));
	OK(npu_host_alloc(MIB, &q));
	if (!stats_of(0).unlocked_bytes)
		EXPECT_EQ(before + 10 * MIB, locked());
	OK(npu_host_free(p));
	EXPECT_EQ(10 * MIB, stats_of(0).reserved_bytes.current);
	EXPECT_EQ(9 * MIB, stats_of(0).cached_bytes);
	/* only what is not in use */
	OK(npu_host_empty_cache(NPU_DEVICE_CURRENT));
	EXPECT_EQ(2 * MIB, stats_of(0).reserved_bytes.current);
	memset(q, 1, MIB);
	OK(npu_host_free(q));
	OK(npu_host_empty_cache(0));
	EXPECT_EQ(0, stats_of(0).reserved_bytes.current);
	EXPECT_EQ(before, locked());
	EXPECT_EQ(-EINVAL, npu_host_free(q));
	EXPECT_EQ(-ENODEV, npu_host_empty_cache(2));
	OK(npu_host_alloc(MIB, &q));
	OK(npu_host_free(q));
}

TEST_F(pinned, misuse)
{
	struct npu_host_stats none = { .size = 0 };
	int on_stack;
	char *p, *q;

	OK(npu_host_alloc(8192, (void **)&p));
	EXPECT_EQ(-EINVAL, npu_host_free(p + 512));
	EXPECT_EQ(-EINVAL, npu_host_free(p + 8192));
	EXPECT_EQ(-EINVAL, npu_host_free(&on_stack));
	EXPECT_EQ(-EINVAL, npu_host_free(self->dev));
	EXPECT_EQ(-EINVAL, npu_free_host(p));
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	EXPECT_EQ(-EINVAL, npu_host_record_stream(p + 1, self->s));
	OK(npu_host_record_stream(NULL, self->s));
	EXPECT_EQ(-EBADF, npu_host_record_stream(p, (npu_stream){ 77 }));
	OK(npu_host_free(p));
	EXPECT_EQ(-EINVAL, npu_host_free(p));
	EXPECT_EQ(-EINVAL, npu_host_record_stream(p, self->s));
	OK(npu_malloc_host(64, 0, (void **)&q));
	EXPECT_EQ(1, pinned(q));
	EXPECT_EQ(-EINVAL, npu_host_free(q));
	OK(npu_free_host(q));
	EXPECT_EQ(-EINVAL, npu_host_alloc(8, NULL));
	EXPECT_EQ(-ENOMEM, npu_host_alloc(SIZE_MAX, (void **)&p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-ENOMEM, npu_host_alloc((size_t)1 << 45, (void **)&p));
	EXPECT_EQ(-EINVAL, npu_host_get_stats(0, NULL));
	EXPECT_EQ(-EINVAL, npu_host_get_stats(0, &none));
	EXPECT_EQ(-ENODEV, npu_host_get_stats(9, &none));
	EXPECT_EQ(-EINVAL, npu_host_is_pinned(p, NULL));
	EXPECT_EQ(0, pinned(NULL));
	EXPECT_EQ(0, pinned(&on_stack));
	EXPECT_EQ(0, pinned(self->dev));
	OK(npu_host_alloc(8192, (void **)&p));
	OK(npu_host_free(p));
}

/* ---- streams ---- */

/* A block that a stream uses is not given out again; those of other streams are. */
TEST_F(pinned, waits_for_its_streams)
{
	struct gate g = { 0 };
	char *p, *q, *r;

	OK(npu_host_alloc(MIB, (void **)&p));
	OK(npu_host_alloc(MIB, (void **)&q));
	memset(p, 5, MIB);
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_memcpy_async(self->dev, p, MIB, NPU_COPY_AUTO, self->s));
	OK(npu_host_record_stream(p, self->s));
	OK(npu_host_record_stream(p, self->s));
	OK(npu_host_record_stream(p, self->other));
	OK(npu_memcpy_async(self->dev + MIB, q, MIB, NPU_COPY_AUTO, self->other));
	OK(npu_host_record_stream(q, self->other));
	OK(npu_host_free(p));
	OK(npu_host_free(q));
	EXPECT_EQ(-EINVAL, npu_host_free(p));
	EXPECT_EQ(0, stats_of(0).allocation.current);
	OK(npu_stream_sync(self->other, 5000));
	EXPECT_EQ(MIB, stats_of(0).waiting_bytes);
	/* the slow stream delays its own block alone */
	OK(npu_host_alloc(MIB, (void **)&r));
	EXPECT_EQ(q, r);
	OK(npu_host_alloc(MIB, (void **)&q));
	EXPECT_NE(p, q);
	memset(q, 6, MIB);
	OK(npu_host_empty_cache(0));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->s, 5000));
	/* what the device read is what was there */
	OK(npu_memcpy(r, self->dev, MIB, NPU_COPY_AUTO));
	EXPECT_EQ(5, r[0]);
	EXPECT_EQ(5, r[MIB - 1]);
	EXPECT_EQ(0, stats_of(0).waiting_bytes);
	OK(npu_host_free(q));
	OK(npu_host_alloc(MIB, (void **)&q));
	OK(npu_host_alloc(MIB, (void **)&r));
	EXPECT_TRUE(q == p || r == p);
}

/* A stream that is destroyed, or was before the memory is freed, holds nothing. */
TEST_F(pinned, streams_that_are_gone)
{
	npu_stream s;
	int i;
	char *p, *q;

	for (i = 0; i < 600; i++) {
		OK(npu_stream_create(NULL, &s));
		OK(npu_host_alloc(4096, (void **)&p));
		OK(npu_memcpy_async(self->dev, p, 4096, NPU_COPY_AUTO, s));
		OK(npu_host_record_stream(p, s));
		if (i & 1)
			OK(npu_host_free(p));
		OK(npu_stream_destroy(s, 5000));
		if (!(i & 1))
			OK(npu_host_free(p));
		OK(npu_host_alloc(4096, (void **)&q));
		EXPECT_EQ(p, q);
		OK(npu_host_free(q));
	}
	EXPECT_EQ(0, stats_of(0).waiting_bytes);
	EXPECT_EQ(-ESTALE, npu_host_record_stream(p, s));
}

/* ---- limits ---- */

static void limits(const char *limit, const char *keep)
{
	npu_finalize(5000);
	if (npu_option_set("pinned_limit_mb", limit) ||
	    npu_option_set("pinned_max_cached_mb", keep))
		abort();
}

TEST(the_limit)
{
	struct npu_host_stats s;
	void *p[3], *q;

	limits("8", NULL);
	OK(npu_host_alloc(4 * MIB, &p[0]));
	OK(npu_host_alloc(4 * MIB, &p[1]));
	EXPECT_EQ(8 * MIB, stats_of(0).limit);
	EXPECT_EQ(-ENOMEM, npu_host_alloc(MIB, &q));
	EXPECT_EQ(NULL, q);
	EXPECT_NE(NULL, strstr(last_error().text, "1048576 bytes"));
	EXPECT_NE(NULL, strstr(last_error().text, "limit 8388608"));
	EXPECT_NE(NULL, strstr(last_error().text, "in use 8388608"));
	EXPECT_NE(NULL, strstr(last_error().text, "pinned_limit_mb"));
	s = stats_of(0);
	EXPECT_EQ(1, s.ooms);
	EXPECT_EQ(8 * MIB, s.reserved_bytes.current);
	/* what is free makes way */
	OK(npu_host_free(p[0]));
	OK(npu_host_alloc(MIB, &q));
	OK(npu_host_alloc(2 * MIB, &p[0]));
	OK(npu_host_free(p[1]));
	OK(npu_host_alloc(5 * MIB / 2, &p[1]));
	OK(npu_host_free(p[0]));
	OK(npu_host_free(p[1]));
	OK(npu_host_free(q));
	OK(npu_host_alloc(8 * MIB, &p[0]));
	OK(npu_host_free(p[0]));
	/* and that of other devices */
	if (!npu_device_set(1)) {
		OK(npu_host_alloc(8 * MIB, &p[0]));
		OK(npu_host_free(p[0]));
	}
	OK(npu_finalize(5000));
	OK(npu_option_set("pinned_limit_mb", "1"));
	/* a whole small piece is too much */
	OK(npu_host_alloc(700000, &q));
	EXPECT_EQ(-ENOMEM, npu_host_alloc(700000, &p[0]));
	OK(npu_host_free(q));
	OK(npu_host_alloc(900000, &q));
	OK(npu_finalize(5000));
	limits(NULL, NULL);
}

TEST(what_is_kept)
{
	void *p, *q, *r;

	limits(NULL, "0");
	OK(npu_host_alloc(4 * MIB, &p));
	OK(npu_host_free(p));
	EXPECT_EQ(0, stats_of(0).reserved_bytes.current);
	OK(npu_host_alloc(512, &p));
	OK(npu_host_alloc(512, &q));
	OK(npu_host_free(p));
	EXPECT_EQ(2 * MIB, stats_of(0).reserved_bytes.current);
	OK(npu_host_free(q));
	EXPECT_EQ(0, stats_of(0).reserved_bytes.current);
	limits(NULL, "5");
	OK(npu_host_alloc(4 * MIB, &p));
	OK(npu_host_alloc(3 * MIB, &q));
	OK(npu_host_alloc(2 * MIB, &r));
	OK(npu_host_free(p));
	EXPECT_EQ(4 * MIB, stats_of(0).cached_bytes);
	OK(npu_host_free(q));
	EXPECT_GE(5 * MIB, stats_of(0).cached_bytes);
	OK(npu_host_free(r));
	EXPECT_GE(5 * MIB, stats_of(0).cached_bytes);
	EXPECT_LT(0, stats_of(0).cached_bytes);
	limits(NULL, NULL);
}

/* A request that only a stream stands in the way of waits for it. */
TEST(memory_that_waits_is_waited_for)
{
	npu_stream s;
	void *p, *q;

	limits("4", NULL);
	OK(npu_stream_create(NULL, &s));
	OK(npu_host_alloc(4 * MIB, &p));
	OK(npu_host_record_stream(p, s));
	OK(delay(s, 30000000));
	OK(npu_host_free(p));
	OK(npu_host_alloc(3 * MIB, &q));
	EXPECT_EQ(0, npu_stream_query(s));
	OK(npu_host_free(q));
	limits(NULL, NULL);
}

static void try_inside(void *arg)
{
	void *p;

	*(int *)arg = npu_host_alloc(4 * MIB, &p);
}

TEST(nothing_is_waited_for_inside_a_callback)
{
	npu_stream s;
	int rc = 1;
	void *p;

	limits("4", NULL);
	OK(npu_stream_create(NULL, &s));
	OK(npu_host_alloc(4 * MIB, &p));
	OK(npu_host_record_stream(p, s));
	OK(npu_stream_callback(s, try_inside, &rc, 0));
	OK(delay(s, 1000000));
	OK(npu_host_free(p));
	OK(npu_stream_sync(s, 5000));
	/* (the callback may have come first) */
	EXPECT_EQ(-ENOMEM, rc);
	OK(npu_host_alloc(4 * MIB, &p));
	limits(NULL, NULL);
}

/* ---- memory that can't be locked, or is not there ---- */

/* [C-MEM-10] */
TEST_F(pinned, that_cannot_be_locked)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	struct npu_host_stats s;
	size_t before = locked();
	void *p;

	simnpu_test_fail(SIMNPU_FAIL_LOCK, 1, 0, 0);
	OK(npu_host_alloc(3 * MIB, &p));
	memset(p, 1, 3 * MIB);
	EXPECT_EQ(before, locked());
	EXPECT_EQ(3 * MIB, stats_of(0).unlocked_bytes);
	EXPECT_EQ(1, pinned(p));
	OK(npu_pointer_get_info(p, &i));
	EXPECT_EQ(NPU_POINTER_HOST, i.kind);
	EXPECT_EQ(NPU_POINTER_UNLOCKED, i.flags);
	OK(npu_host_free(p));
	OK(npu_host_empty_cache(0));
	EXPECT_EQ(0, stats_of(0).unlocked_bytes);
	OK(npu_finalize(5000));
	/* refused, if that is what is wanted */
	OK(npu_option_set("pinned_lock_required", "1"));
	EXPECT_EQ(-ENOMEM, npu_host_alloc(3 * MIB, &p));
	EXPECT_NE(NULL, strstr(last_error().text, "locked"));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-ENOMEM, npu_malloc_host(4096, 0, &p));
	s = stats_of(0);
	EXPECT_EQ(0, s.reserved_bytes.current);
	EXPECT_EQ(1, s.ooms);
	EXPECT_EQ(before, locked());
	simnpu_fault_clear();
	OK(npu_host_alloc(3 * MIB, &p));
	OK(npu_malloc_host(4096, 0, &p));
	OK(npu_option_get("pinned_lock_required", (char[4]){ 0 }, 4, NULL));
	OK(npu_finalize(5000));
	OK(npu_option_set("pinned_lock_required", NULL));
}

TEST_F(pinned, no_host_memory)
{
	void *p, *q;

	OK(npu_host_alloc(2 * MIB, &p));
	OK(npu_host_free(p));
	simnpu_test_fail(SIMNPU_FAIL_HOST, 1, 0, 0);
	EXPECT_EQ(-ENOMEM, npu_host_alloc(4 * MIB, &q));
	EXPECT_EQ(0, stats_of(0).cached_bytes);
	simnpu_fault_clear();
	/* the first one fails, what is free goes back, and then it works */
	OK(npu_host_alloc(2 * MIB, &p));
	OK(npu_host_free(p));
	npu_error_clear();
	simnpu_test_fail(SIMNPU_FAIL_HOST, 1, 1, 0);
	OK(npu_host_alloc(4 * MIB, &q));
	EXPECT_EQ(0, last_error().code);
	EXPECT_EQ(1, stats_of(0).segment.current);
	OK(npu_host_free(q));
}

/* ---- devices, processes, threads ---- */

TEST_F(pinned, goes_with_its_device)
{
	size_t before = locked();
	char *p, *q;

	OK(npu_host_alloc(3 * MIB, (void **)&p));
	OK(npu_device_set(1));
	OK(npu_host_alloc(3 * MIB, (void **)&q));
	memset(q, 7, 3 * MIB);
	EXPECT_EQ(3 * MIB, stats_of(1).reserved_bytes.current);
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(-EINVAL, npu_host_free(p));
	EXPECT_EQ(0, stats_of(0).reserved_bytes.current);
	EXPECT_EQ(0, stats_of(0).allocation.current);
	EXPECT_EQ(1, stats_of(0).allocation.freed);
	EXPECT_EQ(0, is_open(0));
	EXPECT_EQ(7, q[3 * MIB - 1]);
	OK(npu_host_free(q));
	OK(npu_host_alloc(3 * MIB, (void **)&p));
	EXPECT_EQ(q, p);
	OK(npu_finalize(5000));
	EXPECT_EQ(before, locked());
	EXPECT_EQ(0, pinned(p));
	EXPECT_EQ(-EINVAL, npu_host_free(p));
	OK(npu_host_alloc(64, (void **)&p));
}

TEST_F(pinned, in_a_child)
{
	int status = -1;
	pid_t pid;
	void *p;

	OK(npu_host_alloc(64, &p));
	pid = fork();
	if (!pid) {
		status = pinned(p) || npu_host_free(p) != -ECHILD ||
			 npu_host_alloc(64, &p) != -ECHILD;
		npu_test_leave();
		_exit(status);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	OK(npu_host_free(p));
}

TEST_F(pinned, pointers_of_every_kind)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *p, *q, *w;

	OK(npu_host_alloc(1000, (void **)&p));
	OK(npu_host_alloc(1000, (void **)&q));
	OK(npu_pointer_get_info(q + 999, &i));
	EXPECT_EQ(NPU_POINTER_HOST, i.kind);
	EXPECT_EQ(q, i.base);
	EXPECT_EQ(1024, i.bytes);
	EXPECT_EQ(0, i.device);
	EXPECT_EQ(-EINVAL, npu_memset(p, 0, 1025));
	OK(npu_memset(p, 0, 1000));
	OK(npu_host_free(q));
	OK(npu_pointer_get_info(q, &i));
	EXPECT_EQ(NPU_POINTER_UNKNOWN, i.kind);
	EXPECT_EQ(NULL, i.base);
	EXPECT_EQ(-1, i.device);
	EXPECT_EQ(-EINVAL, npu_memset(q, 0, 8));
	OK(npu_pointer_get_info(p, &i));
	EXPECT_EQ(p, i.base);
	/* of the other cache */
	OK(npu_mem_alloc(1000, self->s, (void **)&p));
	OK(npu_mem_alloc(1000, self->s, (void **)&q));
	OK(npu_pointer_get_info(q + 10, &i));
	EXPECT_EQ(NPU_POINTER_DEVICE, i.kind);
	EXPECT_EQ(q, i.base);
	EXPECT_EQ(1024, i.bytes);
	OK(npu_mem_free(q));
	OK(npu_pointer_get_info(q + 10, &i));
	EXPECT_EQ(NPU_POINTER_UNKNOWN, i.kind);
	OK(npu_workspace_get(self->s, 2000, (void **)&w));
	OK(npu_pointer_get_info(w + 1999, &i));
	EXPECT_EQ(w, i.base);
	EXPECT_EQ(2048, i.bytes);
	/* and what is no block of a cache */
	OK(npu_pointer_get_info(self->dev + 5, &i));
	EXPECT_EQ(self->dev, i.base);
	EXPECT_EQ(4 * MIB, i.bytes);
}

TEST_F(pinned, figures)
{
	struct npu_host_stats s;
	void *p, *q;

	OK(npu_host_alloc(1000, &p));
	OK(npu_host_alloc(2 * MIB + 1, &q));
	OK(npu_host_free(p));
	s = stats_of(0);
	EXPECT_EQ(1, s.allocation.current);
	EXPECT_EQ(2, s.allocation.peak);
	EXPECT_EQ(2, s.allocation.allocated);
	EXPECT_EQ(1, s.allocation.freed);
	EXPECT_EQ(2 * MIB + 4096, s.allocated_bytes.current);
	EXPECT_EQ(2 * MIB + 4096 + 1024, s.allocated_bytes.peak);
	EXPECT_EQ(1024, s.allocated_bytes.freed);
	EXPECT_EQ(2 * MIB + 1, s.requested_bytes);
	EXPECT_EQ(2, s.segment.current);
	EXPECT_EQ(4 * MIB + 4096, s.reserved_bytes.current);
	EXPECT_EQ(2 * MIB, s.cached_bytes);
	EXPECT_EQ(UINT64_MAX, s.limit);
	EXPECT_EQ(2, s.alloc_time.count);
	EXPECT_LT(0, s.alloc_time.min);
	EXPECT_LE(s.alloc_time.min, s.alloc_time.max);
	EXPECT_LE(s.alloc_time.max, s.alloc_time.total);
	OK(npu_host_empty_cache(0));
	EXPECT_EQ(1, stats_of(0).free_time.count);
	EXPECT_EQ(1, stats_of(0).segment.freed);
	OK(npu_host_reset_peak(0));
	OK(npu_host_reset_accumulated(0));
	s = stats_of(0);
	EXPECT_EQ(1, s.allocation.peak);
	EXPECT_EQ(0, s.allocation.allocated);
	EXPECT_EQ(0, s.allocation.freed);
	EXPECT_EQ(1, s.segment.peak);
	EXPECT_EQ(0, s.segment.freed);
	EXPECT_EQ(0, s.alloc_time.count);
	OK(npu_host_free(q));
	EXPECT_EQ(1, stats_of(0).allocation.freed);
	EXPECT_EQ(2 * MIB + 4096, stats_of(0).allocated_bytes.freed);
	EXPECT_EQ(0, stats_of(0).requested_bytes);
	/* short callers get what they know of */
	s.size = offsetof(struct npu_host_stats, segment);
	s.segment.current = 99;
	OK(npu_host_get_stats(0, &s));
	EXPECT_EQ(0, s.allocation.current);
	EXPECT_EQ(99, s.segment.current);
}

#define THREADS 4
#define LIVE 16

/* Each block is full of a number that nobody else writes. */
static void *allocate_and_free(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	size_t size[LIVE] = { 0 };
	char *p[LIVE] = { 0 };
	npu_stream s;
	int i, k;

	if (npu_device_set((int)(seed & 1)) || npu_stream_create(NULL, &s))
		return arg;
	for (i = 0; i < 4000; i++) {
		k = rand_r(&seed) % LIVE;
		if (p[k] && (p[k][0] != (char)k || p[k][size[k] - 1] != (char)k))
			return arg;
		if (p[k] && i % 7 == 0 && npu_host_record_stream(p[k], s))
			return arg;
		if (npu_host_free(p[k]))
			return arg;
		size[k] = 1 + (size_t)rand_r(&seed) % (i % 5 ? 5000 : 2 * MIB);
		if (npu_host_alloc(size[k], (void **)&p[k]))
			return arg;
		p[k][0] = p[k][size[k] - 1] = (char)k;
		if (i % 500 == 0 && npu_host_empty_cache(NPU_DEVICE_CURRENT))
			return arg;
	}
	for (k = 0; k < LIVE; k++)
		if (npu_host_free(p[k]))
			return arg;
	return npu_stream_destroy(s, 5000) ? arg : NULL;
}

TEST_F(pinned, threads)
{
	pthread_t t[THREADS];
	struct npu_host_stats s;
	uintptr_t i;
	void *rc;
	int d;

	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, allocate_and_free, (void *)(i + 1)));
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], &rc);
		EXPECT_EQ(NULL, rc);
	}
	for (d = 0; d < 2; d++) {
		OK(npu_host_empty_cache(d));
		s = stats_of(d);
		EXPECT_EQ(0, s.allocation.current);
		EXPECT_EQ(s.allocation.allocated, s.allocation.freed);
		EXPECT_EQ(s.allocated_bytes.allocated, s.allocated_bytes.freed);
		EXPECT_EQ(0, s.requested_bytes);
		EXPECT_EQ(0, s.reserved_bytes.current);
		EXPECT_EQ(s.alloc_time.count, s.free_time.count);
	}
}

static _Atomic int all_err;

static void *want_all(void *arg)
{
	void *p;

	atomic_store(&all_err, npu_host_alloc(8 * MIB, &p));
	return arg;
}

/* When so many pieces were given back, takes and leaves what fits there, unless it is too late. */
static void overtake(uint64_t freed, size_t size)
{
	void *p, *q;

	while (stats_of(0).free_time.count < freed && atomic_load(&all_err) == 1)
		usleep(1000);
	npu_host_alloc(size, &p);
	npu_host_alloc(size, &q);
	npu_host_free(p);
	npu_host_free(q);
}

/* What others get of what was given back for a request, and leave, is given back once more. */
TEST(overtaken)
{
	pthread_t t;
	void *p, *q;

	limits("8", NULL);
	atomic_store(&all_err, 1);
	OK(npu_host_alloc(4 * MIB, &p));
	OK(npu_host_alloc(4 * MIB, &q));
	OK(npu_host_free(p));
	OK(npu_host_free(q));
	/* long enough for what comes between */
	OK(simnpu_fault_set("ioctl:mem_destroy,do=stall,ns=300000000,nth=2;"
			    "ioctl:mem_destroy,do=stall,ns=300000000,nth=4", NULL));
	ASSERT_EQ(0, pthread_create(&t, NULL, want_all, NULL));
	overtake(1, 2 * MIB);
	overtake(3, MIB + 1);
	pthread_join(t, NULL);
	EXPECT_EQ(0, atomic_load(&all_err));
	EXPECT_EQ(8 * MIB, stats_of(0).reserved_bytes.current);
	simnpu_fault_clear();
	limits(NULL, NULL);
}

TEST_HARNESS_MAIN
