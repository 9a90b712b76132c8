// SPDX-License-Identifier: GPL-2.0-only
/*
 * Growable segments: free memory is moved to where it is needed, as long as nobody has to be waited
 * for; and given back, all of it.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)

FIXTURE(move) {
	npu_stream s;
	npu_stream other;
};

FIXTURE_SETUP(move)
{
	OK(npu_option_set("simnpu_memory", "256M"));
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
}

FIXTURE_TEARDOWN(move)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

static struct npu_mem_stats stats(void)
{
	struct npu_mem_stats s = { .size = sizeof(s) };

	if (npu_mem_get_stats(0, &s))
		s.size = 0;
	return s;
}

static size_t device_free(void)
{
	size_t n = 0;

	return npu_device_mem_info(0, &n, NULL) ? 0 : n;
}

static uint64_t reserved(void)
{
	return stats().reserved_bytes[NPU_MEM_ALL].current;
}

TEST_F(move, nothing_beside_the_place)
{
	void *p, *q;

	OK(npu_mem_alloc(6 * MIB, self->s, &p));
	OK(npu_mem_alloc(100, self->s, &q));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(8 * MIB, self->s, &p));
	/* what was free there has become a part of it */
	EXPECT_EQ(0, stats().device_frees);
	EXPECT_EQ(10 * MIB, reserved());
	OK(npu_memset(p, 1, 8 * MIB));
	OK(npu_mem_free(p));
	OK(npu_mem_free(q));
}

TEST_F(move, to_another_stream)
{
	void *p, *q;

	OK(npu_mem_alloc(32 * MIB, self->s, &p));
	OK(npu_memset(p, 1, 32 * MIB));
	OK(npu_mem_free(p));
	/* a sixteenth may be free */
	OK(npu_mem_alloc(32 * MIB, self->other, &q));
	EXPECT_EQ(34 * MIB, reserved());
	EXPECT_EQ(15, stats().device_frees);
	EXPECT_EQ(0, stats().alloc_retries);
	OK(npu_memset(q, 1, 32 * MIB));
	OK(npu_mem_free(q));
}

/* Holes that a larger block does not fit in go up to where it does. */
TEST_F(move, out_of_holes)
{
	void *p[8], *q;
	int i;

	for (i = 0; i < 8; i++)
		OK(npu_mem_alloc(4 * MIB, self->s, &p[i]));
	for (i = 0; i < 8; i += 2)
		OK(npu_mem_free(p[i]));
	OK(npu_mem_alloc(16 * MIB, self->s, &q));
	EXPECT_EQ(34 * MIB, reserved());
	OK(npu_memset(q, 1, 16 * MIB));
	for (i = 1; i < 8; i += 2) {
		OK(npu_memset(p[i], 2, 4 * MIB));
		OK(npu_mem_free(p[i]));
	}
	OK(npu_mem_free(q));
}

TEST_F(move, not_while_it_may_be_used)
{
	struct gate g = { 0 };
	void *p, *q;

	OK(npu_mem_alloc(32 * MIB, self->s, &p));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(32 * MIB, self->other, &q));
	EXPECT_EQ(64 * MIB, reserved());
	EXPECT_EQ(0, stats().device_frees);
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->s, 5000));
	OK(npu_mem_free(q));
}

/* Streams that take turns have what they need each in the end: hardly anything is moved then. */
TEST_F(move, not_for_ever)
{
	void *p;
	int i;

	for (i = 0; i < 200; i++) {
		OK(npu_mem_alloc(4 * MIB, i % 2 ? self->s : self->other, &p));
		OK(npu_mem_free(p));
	}
	/* else 398 pieces */
	EXPECT_LT(0, stats().device_frees);
	EXPECT_GT(200, stats().device_frees);
	EXPECT_EQ(8 * MIB, reserved());
}

/* More pieces than there are block structures at hand. */
TEST_F(move, all_is_given_back)
{
	void *p[50];
	int i;

	for (i = 0; i < 50; i++)
		OK(npu_mem_alloc(4 * MIB, self->s, &p[i]));
	for (i = 0; i < 50; i++)
		OK(npu_mem_free(p[i]));
	EXPECT_EQ(200 * MIB, reserved());
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, reserved());
}

/* ---- on its way to the driver --------------------------------------------------------------- */

static _Atomic int asked;

static int note_asked(int device, size_t size, void *arg)
{
	(void)device;
	(void)size;
	(void)arg;
	atomic_store(&asked, 1);
	return 0;
}

static void *empty_cache(void *arg)
{
	*(int *)arg = npu_mem_empty_cache(0);
	return NULL;
}

struct want {
	npu_stream s;
	void *ptr;
	int err;
};

static void *want_much(void *arg)
{
	struct want *w = arg;

	w->err = npu_mem_alloc(160 * MIB, w->s, &w->ptr);
	return NULL;
}

/* What another thread is giving back is waited for, not missed. */
static void wait_for_leaving(struct __test_metadata *_metadata, npu_stream s, npu_stream other)
{
	struct want w = { .s = other };
	struct gate g = { 0 };
	pthread_t giver, taker;
	uint64_t id;
	void *p;
	int err;

	atomic_store(&asked, 0);
	OK(npu_mem_alloc(160 * MIB, s, &p));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	OK(npu_mem_free(p));
	OK(npu_mem_add_reclaim(note_asked, NULL, &id));
	ASSERT_EQ(0, pthread_create(&giver, NULL, empty_cache, &err));
	while (reserved() == 160 * MIB)
		usleep(1000);
	ASSERT_EQ(0, pthread_create(&taker, NULL, want_much, &w));
	while (!atomic_load(&asked))
		usleep(1000);
	/* whoever is sooner: it has to be had */
	usleep(20000);
	atomic_store(&g.open, 1);
	pthread_join(taker, NULL);
	pthread_join(giver, NULL);
	EXPECT_EQ(0, err);
	EXPECT_EQ(0, w.err);
	EXPECT_EQ(160 * MIB, reserved());
	EXPECT_EQ(0, stats().ooms);
	OK(npu_mem_remove_reclaim(id));
	OK(npu_mem_free(w.ptr));
}

static void begin_whole(struct __test_metadata *_metadata, FIXTURE_DATA(move) *self)
{
	OK(npu_finalize(5000));
	OK(npu_option_set("mem_growable", "0"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
}

TEST_F(move, waits_for_what_leaves)
{
	wait_for_leaving(_metadata, self->s, self->other);
}

TEST_F(move, waits_for_whole_segments)
{
	begin_whole(_metadata, self);
	wait_for_leaving(_metadata, self->s, self->other);
}

/*
 * What is given back for a request, another thread may get before it, and leave free: it is given
 * back once more.
 */
TEST_F(move, overtaken)
{
	struct gate g = { 0 };
	npu_stream first;
	pthread_t taker;
	struct want w;
	void *p, *q;

	begin_whole(_metadata, self);
	OK(npu_stream_create(NULL, &first));
	w.s = self->other;
	/* the latest is given back first */
	OK(npu_mem_alloc(100 * MIB, self->s, &p));
	OK(npu_mem_alloc(100 * MIB, first, &q));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_mem_free(p));
	OK(npu_mem_free(q));
	ASSERT_EQ(0, pthread_create(&taker, NULL, want_much, &w));
	while (reserved() || device_free() < 156 * MIB)
		usleep(1000);
	OK(npu_stream_create(NULL, &first));
	OK(npu_mem_alloc(100 * MIB, first, &q));
	OK(npu_mem_free(q));
	atomic_store(&g.open, 1);
	pthread_join(taker, NULL);
	EXPECT_EQ(0, w.err);
	EXPECT_EQ(160 * MIB, reserved());
	EXPECT_EQ(0, stats().ooms);
	EXPECT_EQ(1, stats().alloc_retries);
	OK(npu_mem_free(w.ptr));
}

TEST_HARNESS_MAIN
