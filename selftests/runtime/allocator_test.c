// SPDX-License-Identifier: GPL-2.0-only
/*
 * Another allocator in the place of the cache.
 */
#include "selftests/npu_kselftest.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "selftests/runtime/rt_test.h"

/* What the allocator is to do, and what it was asked. */
static struct {
	int err;
	int allocs, frees, records, erases, empties;
	void *same;
	bool none;
	void *ptr;
	size_t size;
	int device;
	uint64_t stream;
} mine;

static int give(void **ptr, size_t size, int device, npu_stream stream, void *arg)
{
	int old, err;

	mine.allocs++;
	mine.size = size;
	mine.device = device;
	mine.stream = stream.h;
	if (arg != &mine)
		return -EFAULT;
	if (mine.err)
		return mine.err;
	*ptr = mine.none ? NULL : mine.same;
	if (*ptr || mine.none)
		return 0;
	err = npu_device_exchange(device, &old);
	if (!err)
		err = npu_malloc(size, 0, ptr);
	return err ? err : npu_device_restore(old);
}

static int take(void *ptr, size_t size, int device, npu_stream stream, void *arg)
{
	if (mine.err)
		return mine.err;
	mine.frees++;
	mine.ptr = ptr;
	mine.size = size;
	mine.device = device;
	mine.stream = stream.h;
	return arg == &mine ? npu_free(ptr) : -EFAULT;
}

static int record(void *ptr, npu_stream stream, void *arg)
{
	mine.records += arg == &mine && ptr && stream.h;
	return mine.err;
}

static int erase(void *ptr, npu_stream stream, void *arg)
{
	mine.erases += arg == &mine && ptr && stream.h;
	return mine.err;
}

static int empty(int device, void *arg)
{
	mine.empties += arg == &mine && device == 0;
	return mine.err;
}

static int count(int device, struct npu_mem_stats *s, void *arg)
{
	s->device_allocs = 77;
	return arg == &mine && !s->device_frees && s->size == sizeof(*s) ? mine.err : -EFAULT;
}

static const struct npu_mem_allocator full = {
	.size = sizeof(full), .alloc = give, .free = take, .record_stream = record,
	.erase_stream = erase, .empty_cache = empty, .get_stats = count,
};

/* As an earlier version had it, with nothing but what is needed. */
static const struct npu_mem_allocator least = {
	.size = offsetof(struct npu_mem_allocator, record_stream), .alloc = give, .free = take,
};

FIXTURE(allocator) {
	npu_stream s;
};

FIXTURE_SETUP(allocator)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	memset(&mine, 0, sizeof(mine));
}

FIXTURE_TEARDOWN(allocator)
{
	mine.err = 0;
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(allocator, there_and_back)
{
	struct npu_mem_stats st = { .size = sizeof(st) };
	npu_stream far;
	void *p, *q;

	/* before anything else, and once the library is there */
	OK(npu_mem_set_allocator(&full, &mine));
	OK(npu_init());
	OK(npu_mem_set_allocator(NULL, NULL));
	OK(npu_mem_set_allocator(&full, &mine));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(0, self->s, &p));
	EXPECT_EQ(0, mine.allocs);
	OK(npu_mem_alloc(1000, self->s, &p));
	EXPECT_EQ(1, mine.allocs);
	EXPECT_EQ(1000, mine.size);
	EXPECT_EQ(0, mine.device);
	EXPECT_EQ(self->s.h, mine.stream);
	OK(npu_memset(p, 1, 1000));
	OK(npu_stream_default(1, &far));
	OK(npu_mem_alloc(2000, far, &q));
	EXPECT_EQ(1, mine.device);
	OK(npu_mem_record_stream(p, far));
	OK(npu_mem_erase_stream(p, far));
	OK(npu_mem_record_stream(NULL, far));
	EXPECT_EQ(1, mine.records);
	EXPECT_EQ(1, mine.erases);
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(1, mine.empties);
	OK(npu_mem_get_stats(0, &st));
	EXPECT_EQ(77, st.device_allocs);
	OK(npu_mem_free(p));
	EXPECT_EQ(p, mine.ptr);
	EXPECT_EQ(1000, mine.size);
	EXPECT_EQ(0, mine.device);
	EXPECT_EQ(self->s.h, mine.stream);
	/* what was freed, and what never was its, it does not see */
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	EXPECT_EQ(-EINVAL, npu_mem_free((char *)q + 512));
	EXPECT_EQ(-EINVAL, npu_mem_free(&st));
	EXPECT_EQ(-EINVAL, npu_mem_record_stream(p, far));
	EXPECT_EQ(-EINVAL, npu_mem_erase_stream(p, far));
	EXPECT_EQ(1, mine.frees);
	OK(npu_mem_free(q));
	EXPECT_EQ(2, mine.frees);
	OK(npu_mem_free(NULL));
}

TEST_F(allocator, when_it_may_be_set)
{
	struct {
		struct npu_mem_allocator a;
		void *more;
	} room = { .a = full };
	npu_mem_pool pool;
	void *p;

	EXPECT_EQ(-EINVAL, npu_mem_set_allocator(&(struct npu_mem_allocator){ 0 }, NULL));
	room.a.alloc = NULL;
	EXPECT_EQ(-EINVAL, npu_mem_set_allocator(&room.a, NULL));
	room.a.alloc = give;
	room.a.free = NULL;
	EXPECT_EQ(-EINVAL, npu_mem_set_allocator(&room.a, NULL));
	room.a = full;
	room.a.size = sizeof(room);
	room.more = &room;
	EXPECT_EQ(-EINVAL, npu_mem_set_allocator(&room.a, NULL));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(-EBUSY, npu_mem_set_allocator(&full, &mine));
	OK(npu_mem_free(p));
	EXPECT_EQ(-EBUSY, npu_mem_set_allocator(NULL, NULL));
	EXPECT_EQ(0, mine.allocs);
	/* npu_finalize() is the end of it */
	OK(npu_finalize(5000));
	OK(npu_mem_set_allocator(&full, &mine));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(1, mine.allocs);
	EXPECT_EQ(-EBUSY, npu_mem_set_allocator(NULL, NULL));
	EXPECT_EQ(-EBUSY, npu_mem_set_allocator(&least, NULL));
	OK(npu_finalize(5000));
	EXPECT_EQ(0, mine.frees);
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(1, mine.allocs);
	OK(npu_mem_free(p));
	OK(npu_finalize(5000));
	OK(npu_mem_pool_create(0, NULL, &pool));
	EXPECT_EQ(-EBUSY, npu_mem_set_allocator(&full, &mine));
}

static int no_text(const char *text, size_t size, void *arg)
{
	return 0;
}

TEST_F(allocator, what_it_lacks)
{
	const int none = -EOPNOTSUPP;
	struct npu_mem_stats st = { .size = sizeof(st) };
	struct npu_mem_block b = { .size = sizeof(b) };
	npu_mem_pool pool;
	double f;
	void *p;

	OK(npu_mem_set_allocator(&least, &mine));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(none, npu_mem_record_stream(p, self->s));
	EXPECT_TRUE(strstr(last_error().text, "npu_mem_set_allocator()") != NULL);
	EXPECT_EQ(none, npu_mem_erase_stream(p, self->s));
	EXPECT_EQ(none, npu_mem_empty_cache(0));
	EXPECT_EQ(none, npu_mem_get_stats(0, &st));
	EXPECT_EQ(none, npu_mem_reset_peak(0));
	EXPECT_EQ(none, npu_mem_reset_accumulated(0));
	EXPECT_EQ(none, npu_mem_set_fraction(0, 0.5));
	EXPECT_EQ(none, npu_mem_get_fraction(0, &f));
	EXPECT_EQ(none, npu_mem_get_block(p, &b));
	EXPECT_EQ(none, npu_mem_pool_create(0, NULL, &pool));
	EXPECT_EQ(none, npu_mem_set_tag(p, 1));
	EXPECT_EQ(none, npu_mem_sleep(0, NULL, 0, 5000));
	EXPECT_EQ(none, npu_mem_wake(0));
	EXPECT_EQ(none, npu_mem_snapshot(0, no_text, NULL));
	EXPECT_EQ(none, npu_mem_history(0, NPU_MEM_HISTORY_OFF, 0));
	OK(npu_mem_free(p));
	/* workspaces need nothing of all that */
	OK(npu_workspace_get(self->s, 4096, &p));
	EXPECT_EQ(2, mine.allocs);
	OK(npu_workspace_put(self->s));
	OK(npu_workspace_trim(0));
	EXPECT_EQ(2, mine.frees);
}

static int told;

static void tell(const struct npu_mem_oom *oom, void *arg)
{
	told += oom->request == 100 && oom->device == 0;
}

static int heal(int device, size_t size, void *arg)
{
	mine.err = 0;
	return size == 100;
}

TEST_F(allocator, its_errors)
{
	static const struct {
		int says, means;
	} table[] = {
		{ -EIO, -EIO }, { -EBUSY, -EBUSY }, { 1, -EIO }, { -100000, -EIO },
		{ INT32_MIN, -EIO }, { -ENOMEM, -ENOMEM },
	};
	struct npu_mem_stats st = { .size = sizeof(st) };
	uint64_t id, watch;
	void *p, *q;
	size_t i;

	OK(npu_mem_set_allocator(&full, &mine));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	OK(npu_mem_observe_oom(0, tell, NULL, &watch));
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		mine.err = table[i].says;
		q = &q;
		EXPECT_EQ(table[i].means, npu_mem_alloc(100, self->s, &q));
		EXPECT_EQ(NULL, q);
		EXPECT_EQ(table[i].means, last_error().code);
		EXPECT_EQ(table[i].means, npu_mem_free(p));
		EXPECT_EQ(table[i].means, npu_mem_record_stream(p, self->s));
		EXPECT_EQ(table[i].means, npu_mem_erase_stream(p, self->s));
		EXPECT_EQ(table[i].means, npu_mem_empty_cache(0));
		EXPECT_EQ(table[i].means, npu_mem_get_stats(0, &st));
	}
	EXPECT_EQ(1, told);
	/* what could not be freed is still there */
	mine.err = 0;
	mine.none = true;
	EXPECT_EQ(-EIO, npu_mem_alloc(100, self->s, &q));
	mine.none = false;
	mine.same = p;
	EXPECT_EQ(-EIO, npu_mem_alloc(100, self->s, &q));
	mine.same = NULL;
	OK(npu_mem_free(p));
	EXPECT_EQ(1, mine.frees);
	/* it is asked again when something was reclaimed */
	OK(npu_mem_add_reclaim(heal, NULL, &id));
	mine.err = -ENOMEM;
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(1, told);
	OK(npu_mem_remove_reclaim(id));
	OK(npu_mem_unobserve_oom(watch));
	OK(npu_mem_free(p));
}

TEST_F(allocator, reset)
{
	npu_stream far;
	void *p, *q;

	OK(npu_mem_set_allocator(&full, &mine));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_default(1, &far));
	OK(npu_mem_alloc(100, self->s, &p));
	OK(npu_mem_alloc(100, far, &q));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	EXPECT_EQ(0, mine.frees);
	OK(npu_mem_free(q));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_mem_alloc(100, self->s, &p));
	EXPECT_EQ(3, mine.allocs);
	OK(npu_mem_free(p));
}

/* It was set before the fork, and the child is the first to use it. */
TEST_F(allocator, in_a_child)
{
	int status = -1;
	pid_t pid;
	void *p;

	OK(npu_mem_set_allocator(&full, &mine));
	pid = fork();
	if (!pid)
		_exit(npu_stream_create(NULL, &self->s) || npu_mem_alloc(100, self->s, &p) ||
		      npu_mem_set_allocator(NULL, NULL) != -EBUSY || npu_mem_free(p) ||
		      mine.allocs != 1 || mine.frees != 1 || npu_finalize(5000));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	OK(npu_mem_set_allocator(NULL, NULL));
}

#define THREADS 8

static void *work(void *arg)
{
	long wrong = 0;
	void *p[16];
	int i, k;

	for (k = 0; k < 20; k++) {
		for (i = 0; i < 16; i++)
			wrong += npu_mem_alloc(4096, *(npu_stream *)arg, &p[i]) != 0;
		for (i = 0; i < 16; i++)
			wrong += npu_mem_free(p[i]) != 0;
	}
	return (void *)wrong;
}

/* (npu_malloc() under it is what they all call at once; the counters are not looked at) */
static int give_any(void **ptr, size_t size, int device, npu_stream stream, void *arg)
{
	return npu_malloc(size, 0, ptr);
}

static int take_any(void *ptr, size_t size, int device, npu_stream stream, void *arg)
{
	return size == 4096 ? npu_free(ptr) : -EFAULT;
}

TEST_F_TIMEOUT(allocator, threads, 120)
{
	const struct npu_mem_allocator any = {
		.size = sizeof(any), .alloc = give_any, .free = take_any,
	};
	pthread_t th[THREADS];
	void *wrong;
	int i;

	OK(npu_mem_set_allocator(&any, NULL));
	OK(npu_stream_create(NULL, &self->s));
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&th[i], NULL, work, &self->s));
	for (i = 0; i < THREADS; i++) {
		pthread_join(th[i], &wrong);
		EXPECT_EQ(NULL, wrong);
	}
}

TEST_HARNESS_MAIN
