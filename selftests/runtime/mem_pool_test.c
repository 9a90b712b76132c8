// SPDX-License-Identifier: GPL-2.0-only
/*
 * Private pools of device memory. The device has 64 MiB.
 */
#include "selftests/npu_kselftest.h"

#include <sched.h>

#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)
#define TOTAL (64 * MIB)
#define NONE NPU_STREAM_CURRENT

FIXTURE(mem_pool) {
	npu_stream s;
	npu_stream other;
	npu_mem_pool pool;
};

FIXTURE_SETUP(mem_pool)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
	OK(npu_mem_pool_create(0, NULL, &self->pool));
}

FIXTURE_TEARDOWN(mem_pool)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

static npu_mem_pool new_pool(uint32_t flags)
{
	const struct npu_mem_pool_attr attr = { .size = sizeof(attr), .flags = flags };
	npu_mem_pool p = { 0 };

	npu_mem_pool_create(0, &attr, &p);
	return p;
}

static struct npu_mem_pool_info info_of(npu_mem_pool p)
{
	struct npu_mem_pool_info i = { .size = sizeof(i) };

	if (npu_mem_pool_get_info(p, &i))
		i.size = 0;
	return i;
}

/* The pool that a block lies in. */
static uint64_t where(const void *p)
{
	struct npu_mem_block b = { .size = sizeof(b) };

	return npu_mem_get_block(p, &b) ? UINT64_MAX : b.pool;
}

static struct npu_mem_stats stats(void)
{
	struct npu_mem_stats s = { .size = sizeof(s) };

	if (npu_mem_get_stats(0, &s))
		s.size = 0;
	return s;
}

static uint64_t reserved(void)
{
	return stats().reserved_bytes[NPU_MEM_ALL].current;
}

/* A block of the pool, by a route for the stream that ends at once. */
static void *take(npu_mem_pool pool, size_t size, npu_stream s)
{
	void *p = NULL;

	if (npu_mem_pool_begin(pool, NPU_MEM_POOL_STREAM, s))
		return NULL;
	npu_mem_alloc(size, s, &p);
	npu_mem_pool_end(pool, NPU_MEM_POOL_STREAM, s);
	return p;
}

/* ---- making and ending ------------------------------------------------------------------- */

TEST_F(mem_pool, attributes)
{
	struct npu_mem_pool_attr a = { .size = sizeof(a), .flags = NPU_MEM_POOL_NO_SPLIT,
				       .tag = 7, .name = "graph" };
	struct npu_mem_pool_info i;
	npu_mem_pool p;

	OK(npu_mem_pool_create(1, &a, &p));
	i = info_of(p);
	EXPECT_EQ(1, i.device);
	EXPECT_EQ(7, i.tag);
	EXPECT_EQ(NPU_MEM_POOL_NO_SPLIT, i.flags);
	EXPECT_STREQ("graph", i.name);
	EXPECT_EQ(0, i.reserved_bytes);
	EXPECT_NE(0, i.id);
	EXPECT_NE(i.id, info_of(self->pool).id);
	EXPECT_STREQ("", info_of(self->pool).name);
	OK(npu_mem_pool_destroy(p));
	/* a shorter one is that of an earlier version */
	a.size = offsetof(struct npu_mem_pool_attr, tag);
	OK(npu_mem_pool_create(NPU_DEVICE_CURRENT, &a, &p));
	EXPECT_EQ(0, info_of(p).tag);
	OK(npu_mem_pool_destroy(p));
}

TEST_F(mem_pool, refused)
{
	struct {
		struct npu_mem_pool_attr a;
		uint64_t more;
	} room = { .a = { .size = sizeof(room) } };
	struct npu_mem_pool_attr *a = &room.a;
	struct npu_mem_pool_info i = { .size = 0 };
	npu_mem_pool p = { 5 };
	npu_stream far;

	EXPECT_EQ(-EINVAL, npu_mem_pool_create(0, NULL, NULL));
	EXPECT_EQ(-ENODEV, npu_mem_pool_create(2, NULL, &p));
	EXPECT_EQ(0, p.h);
	OK(npu_mem_pool_create(0, a, &p));
	OK(npu_mem_pool_destroy(p));
	room.more = 1;
	EXPECT_EQ(-EINVAL, npu_mem_pool_create(0, a, &p));
	a->size = 4;
	EXPECT_EQ(-EINVAL, npu_mem_pool_create(0, a, &p));
	a->size = sizeof(*a);
	a->flags = 1u << 31;
	EXPECT_EQ(-EINVAL, npu_mem_pool_create(0, a, &p));
	a->flags = 0;
	a->tag = NPU_MEM_TAG_MAX + 1;
	EXPECT_EQ(-EINVAL, npu_mem_pool_create(0, a, &p));
	a->tag = 0;
	a->name = "a name of thirty-two characters.";
	EXPECT_EQ(-EINVAL, npu_mem_pool_create(0, a, &p));
	a->name++;
	OK(npu_mem_pool_create(0, a, &p));
	EXPECT_STREQ(a->name, info_of(p).name);
	/* handles */
	OK(npu_mem_pool_destroy(p));
	i.size = sizeof(i);
	EXPECT_EQ(-ESTALE, npu_mem_pool_destroy(p));
	EXPECT_EQ(-ESTALE, npu_mem_pool_begin(p, NPU_MEM_POOL_STREAM, self->s));
	EXPECT_EQ(-ESTALE, npu_mem_pool_end(p, NPU_MEM_POOL_STREAM, self->s));
	EXPECT_EQ(-ESTALE, npu_mem_pool_trim(p));
	EXPECT_EQ(-ESTALE, npu_mem_pool_get_info(p, &i));
	p.h = 0;
	EXPECT_EQ(-EINVAL, npu_mem_pool_destroy(p));
	p.h = self->s.h;
	EXPECT_EQ(-EBADF, npu_mem_pool_trim(p));
	/* routes */
	p = self->pool;
	OK(npu_stream_default(1, &far));
	EXPECT_EQ(-EINVAL, npu_mem_pool_begin(p, NPU_MEM_POOL_STREAM, far));
	EXPECT_EQ(-EINVAL, npu_mem_pool_begin(p, (enum npu_mem_pool_scope)2, NONE));
	EXPECT_EQ(-EINVAL, npu_mem_pool_begin(p, NPU_MEM_POOL_THREAD, self->s));
	EXPECT_EQ(-EINVAL, npu_mem_pool_end(p, NPU_MEM_POOL_THREAD, self->s));
	EXPECT_EQ(-EBADF, npu_mem_pool_begin(p, NPU_MEM_POOL_STREAM,
					     NPU_HANDLE(npu_stream, 12345)));
	EXPECT_EQ(-ENOENT, npu_mem_pool_end(p, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_pool_begin(p, NPU_MEM_POOL_STREAM, self->s));
	EXPECT_EQ(-EBUSY, npu_mem_pool_begin(p, NPU_MEM_POOL_STREAM, self->s));
	EXPECT_EQ(-ENOENT, npu_mem_pool_end(p, NPU_MEM_POOL_STREAM, self->other));
	EXPECT_EQ(-ENOENT, npu_mem_pool_end(p, NPU_MEM_POOL_THREAD, NONE));
	EXPECT_EQ(1, info_of(p).routes);
	/* a stream that is gone ends as well */
	OK(npu_stream_destroy(self->s, 5000));
	EXPECT_EQ(-ESTALE, npu_mem_pool_begin(p, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_pool_end(p, NPU_MEM_POOL_STREAM, self->s));
	EXPECT_EQ(-EINVAL, npu_mem_pool_get_info(p, NULL));
	i.size = 1;
	EXPECT_EQ(-EINVAL, npu_mem_pool_get_info(p, &i));
}

/* ---- who gets what ------------------------------------------------------------------------- */

TEST_F(mem_pool, for_itself)
{
	const uint64_t id = info_of(self->pool).id;
	void *p, *q, *r;

	/* what is cached is not the pool's */
	OK(npu_mem_alloc(MIB, self->s, &p));
	OK(npu_mem_free(p));
	OK(npu_mem_pool_begin(self->pool, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_alloc(MIB, self->s, &q));
	EXPECT_NE(p, q);
	EXPECT_EQ(id, where(q));
	EXPECT_EQ(4 * MIB, reserved());
	EXPECT_EQ(1, info_of(self->pool).blocks);
	EXPECT_EQ(MIB, info_of(self->pool).used_bytes);
	EXPECT_EQ(2 * MIB, info_of(self->pool).reserved_bytes);
	/* other streams go where they went */
	OK(npu_mem_alloc(MIB, self->other, &r));
	EXPECT_EQ(0, where(r));
	OK(npu_mem_free(r));
	OK(npu_mem_pool_end(self->pool, NPU_MEM_POOL_STREAM, self->s));
	/* and what the pool has is for the pool */
	OK(npu_mem_free(q));
	EXPECT_EQ(0, info_of(self->pool).blocks);
	OK(npu_mem_alloc(MIB, self->s, &r));
	EXPECT_EQ(p, r);
	OK(npu_mem_alloc(2 * MIB, self->s, &p));
	EXPECT_EQ(0, where(p));
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(2 * MIB, info_of(self->pool).reserved_bytes);
	EXPECT_EQ(q, take(self->pool, MIB, self->s));
	OK(npu_mem_free(q));
	OK(npu_mem_pool_trim(self->pool));
	EXPECT_EQ(0, info_of(self->pool).reserved_bytes);
	OK(npu_mem_free(r));
}

/* Of several routes the one counts that has begun last. */
TEST_F(mem_pool, one_in_another)
{
	npu_mem_pool inner = new_pool(0);
	void *p;

	OK(npu_mem_pool_begin(self->pool, NPU_MEM_POOL_THREAD, NONE));
	OK(npu_mem_pool_begin(inner, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(info_of(inner).id, where(p));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(100, self->other, &p));
	EXPECT_EQ(info_of(self->pool).id, where(p));
	OK(npu_mem_free(p));
	/* not in the order in which they began, either */
	OK(npu_mem_pool_end(self->pool, NPU_MEM_POOL_THREAD, NONE));
	OK(npu_mem_alloc(100, self->other, &p));
	EXPECT_EQ(0, where(p));
	OK(npu_mem_free(p));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(info_of(inner).id, where(p));
	OK(npu_mem_free(p));
	OK(npu_mem_pool_end(inner, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(0, where(p));
	OK(npu_mem_free(p));
	OK(npu_mem_pool_destroy(inner));
}

static npu_mem_pool shared_pool;
static npu_stream shared_stream;

static void *look(void *arg)
{
	uint64_t *seen = arg;
	void *p;

	if (!npu_mem_alloc(100, shared_stream, &p)) {
		*seen = where(p);
		npu_mem_free(p);
	}
	if (npu_mem_pool_end(shared_pool, NPU_MEM_POOL_THREAD, NONE) != -ENOENT)
		*seen = UINT64_MAX;
	return NULL;
}

/* A route of a thread is that of no other one; a route of a stream is all threads'. */
TEST_F(mem_pool, whose)
{
	uint64_t seen = UINT64_MAX;
	pthread_t th;
	void *p;

	shared_pool = self->pool;
	shared_stream = self->s;
	OK(npu_mem_pool_begin(self->pool, NPU_MEM_POOL_THREAD, NONE));
	ASSERT_EQ(0, pthread_create(&th, NULL, look, &seen));
	pthread_join(th, NULL);
	EXPECT_EQ(0, seen);
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(info_of(self->pool).id, where(p));
	OK(npu_mem_free(p));
	OK(npu_mem_pool_end(self->pool, NPU_MEM_POOL_THREAD, NONE));
	OK(npu_mem_pool_begin(self->pool, NPU_MEM_POOL_STREAM, self->s));
	ASSERT_EQ(0, pthread_create(&th, NULL, look, &seen));
	pthread_join(th, NULL);
	EXPECT_EQ(info_of(self->pool).id, seen);
	OK(npu_mem_pool_end(self->pool, NPU_MEM_POOL_STREAM, self->s));
}

/* With the cache off, the pool's blocks are kept all the same. */
TEST_F(mem_pool, without_a_cache)
{
	void *p, *q;

	OK(npu_option_set("mem_caching", "0"));
	p = take(self->pool, MIB, self->s);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(info_of(self->pool).id, where(p));
	OK(npu_mem_free(p));
	EXPECT_EQ(2 * MIB, reserved());
	OK(npu_mem_alloc(MIB, self->s, &q));
	EXPECT_EQ(0, where(q));
	OK(npu_mem_free(q));
	EXPECT_EQ(p, take(self->pool, MIB, self->s));
	OK(npu_mem_free(p));
}

/* A block waits for other streams as anywhere; its tag is the pool's. */
TEST_F(mem_pool, streams_and_tags)
{
	struct gate g = { 0 };
	void *p, *q;

	p = take(self->pool, MIB, self->s);
	ASSERT_NE(NULL, p);
	OK(npu_mem_record_stream(p, self->other));
	OK(npu_stream_callback(self->other, gate_hold, &g, 0));
	OK(npu_mem_free(p));
	EXPECT_EQ(MIB, info_of(self->pool).waiting_bytes);
	q = take(self->pool, MIB, self->s);
	EXPECT_NE(p, q);
	/* (it has to wait for nobody) */
	OK(npu_mem_pool_destroy(self->pool));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->other, 5000));
	OK(npu_mem_free(q));
	EXPECT_EQ(0, stats().active[NPU_MEM_ALL].current);
}

/* ---- whole blocks --------------------------------------------------------------------------- */

static const size_t odd_sizes[] = { 100, 5000, 700000, 3 * 1048576, 11 * 1048576 };

FIXTURE(no_split) {
	npu_stream s;
	npu_mem_pool pool;
};

FIXTURE_VARIANT(no_split) {
	const char *growable;
};

FIXTURE_VARIANT_ADD(no_split, plain) {
	.growable = "0",
};

FIXTURE_VARIANT_ADD(no_split, growable) {
	.growable = "1",
};

FIXTURE_SETUP(no_split)
{
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
	OK(npu_option_set("mem_growable", variant->growable));
	OK(npu_option_set("mem_max_non_split_rounding_mb", "1"));
	OK(npu_stream_create(NULL, &self->s));
	self->pool = new_pool(NPU_MEM_POOL_NO_SPLIT);
}

FIXTURE_TEARDOWN(no_split)
{
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(no_split, each_for_itself)
{
	struct npu_mem_block b = { .size = sizeof(b) };
	void *p[5], *seg[5], *q;
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(odd_sizes); i++) {
		p[i] = take(self->pool, odd_sizes[i], self->s);
		ASSERT_NE(NULL, p[i]);
		OK(npu_memset(p[i], 1, odd_sizes[i]));
		OK(npu_mem_get_block(p[i], &b));
		EXPECT_EQ(b.base, b.segment);
		EXPECT_EQ(b.bytes, b.segment_bytes);
		EXPECT_GT(odd_sizes[i] + 2 * MIB, b.bytes);
		seg[i] = b.segment;
		for (k = 0; k < i; k++)
			EXPECT_NE(seg[k], seg[i]);
	}
	EXPECT_EQ(0, stats().inactive_split[NPU_MEM_ALL].current);
	for (i = 0; i < ARRAY_SIZE(odd_sizes); i++)
		OK(npu_mem_free(p[i]));
	/* one that is much too large is not taken */
	OK(npu_mem_pool_get_info(self->pool, &(struct npu_mem_pool_info){ .size = 8 }));
	q = take(self->pool, 6 * MIB, self->s);
	EXPECT_NE(p[4], q);
	OK(npu_mem_free(q));
	EXPECT_EQ(p[4], take(self->pool, 10 * MIB + 512 * 1024, self->s));
	OK(npu_mem_free(p[4]));
	OK(npu_mem_pool_trim(self->pool));
	EXPECT_EQ(0, reserved());
}

/* ---- no memory ------------------------------------------------------------------------------ */

/* A pool keeps what it has, also when memory runs out. */
TEST_F(mem_pool, keeps)
{
	void *p, *q;

	p = take(self->pool, 40 * MIB, self->s);
	ASSERT_NE(NULL, p);
	OK(npu_mem_free(p));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(40 * MIB, self->s, &q));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(40 * MIB, self->other, &q));
	EXPECT_STREQ("no 40M on device 0: total 64M, free 24M, in use 0, cached 40M (largest 40M, "
		     "in pools 40M), waiting 0, others 0; tried driver release",
		     last_error().text);
	EXPECT_TRUE(strstr(last_error().hint, "npu_mem_pool_trim()") != NULL);
	EXPECT_EQ(NULL, take(self->pool, 41 * MIB, self->s));
	EXPECT_EQ(40 * MIB, info_of(self->pool).reserved_bytes);
	EXPECT_EQ(p, take(self->pool, 40 * MIB, self->s));
	OK(npu_mem_free(p));
}

TEST_F(mem_pool, lends)
{
	npu_mem_pool lender = new_pool(NPU_MEM_POOL_USE_ON_OOM);
	void *p, *q, *r;

	p = take(lender, 40 * MIB, self->s);
	ASSERT_NE(NULL, p);
	/* not what is in use */
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(30 * MIB, self->s, &q));
	EXPECT_TRUE(strstr(last_error().text, "tried driver release pools") != NULL);
	OK(npu_mem_free(p));
	/* not as long as there is other memory */
	OK(npu_mem_alloc(2 * MIB, self->s, &r));
	EXPECT_EQ(0, where(r));
	EXPECT_EQ(0, stats().rescued_pools);
	/* for its own stream as it is: it comes back to the pool */
	OK(npu_mem_alloc(30 * MIB, self->s, &q));
	EXPECT_EQ(p, q);
	EXPECT_EQ(1, stats().rescued_pools);
	EXPECT_EQ(0, stats().rescued_release);
	EXPECT_EQ(40 * MIB, info_of(lender).reserved_bytes);
	OK(npu_mem_free(q));
	/* another pool takes nothing of it but by way of the device */
	OK(npu_mem_free(r));
	OK(npu_mem_empty_cache(0));
	q = take(self->pool, 30 * MIB, self->s);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(info_of(self->pool).id, where(q));
	EXPECT_EQ(1, stats().rescued_pools);
	EXPECT_EQ(40 * MIB, stats().rescued_release);
	EXPECT_EQ(0, info_of(lender).reserved_bytes);
	OK(npu_mem_free(q));
}

/* Neither does the collection take what is in a pool. */
TEST_F(mem_pool, not_collected)
{
	void *p, *q;

	OK(npu_finalize(5000));
	OK(npu_option_set("mem_gc_threshold", "10"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_pool_create(0, NULL, &self->pool));
	p = take(self->pool, 20 * MIB, self->s);
	OK(npu_mem_free(p));
	q = take(self->pool, 30 * MIB, self->s);
	ASSERT_NE(NULL, q);
	OK(npu_mem_free(q));
	OK(npu_mem_alloc(10 * MIB, self->s, &q));
	EXPECT_EQ(0, stats().rescued_gc);
	EXPECT_EQ(50 * MIB, info_of(self->pool).reserved_bytes);
	OK(npu_mem_free(q));
}

/* The limit is one for all. */
TEST_F(mem_pool, fraction)
{
	void *p;

	OK(npu_mem_set_fraction(0, 0.5));
	EXPECT_EQ(NULL, take(self->pool, 33 * MIB, self->s));
	p = take(self->pool, 32 * MIB, self->s);
	ASSERT_NE(NULL, p);
	OK(npu_mem_free(p));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(100, self->s, &p));
	OK(npu_mem_pool_trim(self->pool));
	OK(npu_mem_alloc(100, self->s, &p));
	OK(npu_mem_free(p));
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Blocks outlive their pool, and are the cache's when they are freed. */
TEST_F(mem_pool, destroyed_with_blocks)
{
	void *p, *q, *r;

	OK(npu_mem_pool_begin(self->pool, NPU_MEM_POOL_STREAM, self->s));
	OK(npu_mem_alloc(MIB, self->s, &p));
	OK(npu_mem_alloc(30 * MIB, self->s, &q));
	OK(npu_mem_free(q));
	/* with a route that has not ended */
	OK(npu_mem_pool_destroy(self->pool));
	EXPECT_EQ(2 * MIB, reserved());
	EXPECT_EQ(0, where(p));
	OK(npu_memset(p, 1, MIB));
	OK(npu_mem_alloc(MIB, self->s, &q));
	EXPECT_EQ(0, where(q));
	OK(npu_mem_free(p));
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	/* (what was left of it was taken over) */
	OK(npu_mem_alloc(MIB, self->s, &r));
	EXPECT_EQ(2 * MIB, reserved());
	OK(npu_mem_free(r));
	OK(npu_mem_free(q));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, reserved());
	/* no other stream's block is taken over while that has work */
	EXPECT_EQ(0, stats().allocation[NPU_MEM_ALL].current);
}

TEST_F(mem_pool, emptied_after_its_end)
{
	struct gate g = { 0 };
	void *p, *q;

	p = take(self->pool, 40 * MIB, self->s);
	ASSERT_NE(NULL, p);
	OK(npu_mem_pool_destroy(self->pool));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_mem_free(p));
	/* another stream must not have it as long as its own may use it */
	OK(npu_mem_alloc(MIB, self->other, &q));
	EXPECT_EQ(42 * MIB, reserved());
	atomic_store(&g.open, 1);
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(2 * MIB, reserved());
	OK(npu_mem_free(q));
}

/* A reset of the device ends its pools; those of others stay. */
TEST_F(mem_pool, reset)
{
	npu_mem_pool far;
	void *p;

	OK(npu_mem_pool_create(1, NULL, &far));
	p = take(self->pool, MIB, self->s);
	ASSERT_NE(NULL, p);
	OK(npu_mem_pool_begin(self->pool, NPU_MEM_POOL_THREAD, NONE));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(-ESTALE, npu_mem_pool_destroy(self->pool));
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(MIB, self->s, &p));
	EXPECT_EQ(0, where(p));
	OK(npu_mem_free(p));
	EXPECT_EQ(1, info_of(far).device);
	OK(npu_finalize(5000));
	EXPECT_EQ(-ESTALE, npu_mem_pool_destroy(far));
}

/* ---- with what else there is ---------------------------------------------------------------- */

static char json[1 << 16];
static size_t json_len;

static int keep(const char *text, size_t size, void *arg)
{
	if (json_len + size >= sizeof(json))
		return -ENOSPC;
	memcpy(json + json_len, text, size);
	json_len += size;
	json[json_len] = '\0';
	return 0;
}

TEST_F(mem_pool, in_snapshots)
{
	char want[64];
	void *p;

	if (!is_built("npu_mem_snapshot"))
		SKIP(return, "built without MEM_SNAPSHOT");
	if (!IS_ENABLED(CONFIG_MEM_SNAPSHOT))
		SKIP(return, "built without MEM_SNAPSHOT");
	p = take(self->pool, MIB, self->s);
	json_len = 0;
	OK(npu_mem_snapshot(0, keep, NULL));
	snprintf(want, sizeof(want), "\"segment_pool_id\":[0,%llu]",
		 (unsigned long long)info_of(self->pool).id);
	EXPECT_TRUE(strstr(json, want) != NULL);
	OK(npu_mem_pool_destroy(self->pool));
	json_len = 0;
	OK(npu_mem_snapshot(0, keep, NULL));
	EXPECT_TRUE(strstr(json, want) == NULL);
	EXPECT_TRUE(strstr(json, "\"segment_pool_id\":[0,0]") != NULL);
	OK(npu_mem_free(p));
}

/* Sleep keeps or drops what is in a pool, by its tag; what is free there keeps its addresses. */
TEST_F(mem_pool, sleeps)
{
	struct npu_mem_pool_attr a = { .size = sizeof(a), .tag = 3 };
	const uint32_t drop = 3;
	char in[4] = "", out[4] = "abc";
	void *p, *q, *free_one;
	npu_mem_pool tagged;
	size_t n = 0;

	if (!is_built("npu_mem_sleep"))
		SKIP(return, "built without MEM_SLEEP");
	OK(npu_finalize(5000));
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_pool_create(0, NULL, &self->pool));
	OK(npu_mem_pool_create(0, &a, &tagged));
	p = take(self->pool, 4 * MIB, self->s);
	q = take(tagged, 4 * MIB, self->s);
	free_one = take(self->pool, 6 * MIB, self->s);
	ASSERT_NE(NULL, free_one);
	OK(npu_memcpy(p, out, 4, NPU_COPY_AUTO));
	OK(npu_mem_free(free_one));
	OK(npu_mem_sleep(0, &drop, 1, 5000));
	OK(npu_device_mem_info(0, &n, NULL));
	EXPECT_EQ(TOTAL, n);
	OK(npu_mem_wake(0));
	OK(npu_memcpy(in, p, 4, NPU_COPY_AUTO));
	EXPECT_STREQ(out, in);
	EXPECT_EQ(14 * MIB, reserved());
	EXPECT_EQ(free_one, take(self->pool, 6 * MIB, self->s));
	OK(npu_memset(free_one, 1, 6 * MIB));
	OK(npu_mem_free(free_one));
	OK(npu_mem_free(q));
	OK(npu_mem_free(p));
	/* blocks of the pool begin with its tag each time, and the others with none */
	OK(npu_mem_pool_destroy(tagged));
	OK(npu_mem_alloc(4 * MIB, self->s, &p));
	OK(npu_memcpy(p, out, 4, NPU_COPY_AUTO));
	OK(npu_mem_sleep(0, &drop, 1, 5000));
	OK(npu_mem_wake(0));
	memset(in, 0, sizeof(in));
	OK(npu_memcpy(in, p, 4, NPU_COPY_AUTO));
	EXPECT_STREQ(out, in);
	OK(npu_mem_free(p));
}

/* ---- threads -------------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS 60

struct worker {
	npu_stream s;
	int wrong;
};

/* Pools come and go, with blocks in them, while others allocate for the same streams. */
static void *work(void *arg)
{
	struct worker *w = arg;
	npu_mem_pool pool;
	void *p, *q, *r;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		w->wrong += npu_mem_pool_create(0, NULL, &pool) != 0;
		w->wrong += npu_mem_pool_begin(pool, i % 2 ? NPU_MEM_POOL_THREAD :
					       NPU_MEM_POOL_STREAM, i % 2 ? NONE : w->s) != 0;
		w->wrong += npu_mem_alloc(MIB / 4, w->s, &p) != 0;
		w->wrong += npu_mem_alloc(5000, w->s, &q) != 0;
		w->wrong += npu_mem_free(q) != 0;
		if (i % 3 == 0)
			w->wrong += npu_mem_pool_trim(pool) != 0;
		w->wrong += npu_mem_pool_destroy(pool) != 0;
		w->wrong += npu_mem_alloc(7000, w->s, &r) != 0;
		w->wrong += npu_mem_free(p) != 0;
		w->wrong += npu_mem_free(r) != 0;
		if (i % 16 == 0)
			w->wrong += npu_mem_empty_cache(0) != 0;
	}
	return NULL;
}

/* Return: how many things are wrong in the end. */
static int all_work(npu_stream a, npu_stream b)
{
	struct worker w[THREADS] = { 0 };
	pthread_t th[THREADS];
	int i, wrong = 0;

	for (i = 0; i < THREADS; i++) {
		w[i].s = i % 2 ? a : b;
		if (pthread_create(&th[i], NULL, work, &w[i]))
			return -1;
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(th[i], NULL);
		wrong += w[i].wrong;
	}
	wrong += npu_mem_empty_cache(0) != 0;
	wrong += stats().allocation[NPU_MEM_ALL].current != 0;
	wrong += stats().active[NPU_MEM_ALL].current != 0;
	return wrong + (reserved() != 0);
}

TEST_F_TIMEOUT(mem_pool, threads, 120)
{
	EXPECT_EQ(0, all_work(self->s, self->other));
}

TEST_F_TIMEOUT(mem_pool, threads_and_growable, 120)
{
	OK(npu_finalize(5000));
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
	EXPECT_EQ(0, all_work(self->s, self->other));
	/* neither are addresses left of pools that are gone */
	EXPECT_GE(4, stats().segment[NPU_MEM_ALL].current);
}

TEST_HARNESS_MAIN
