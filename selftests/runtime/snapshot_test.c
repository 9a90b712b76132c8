// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots and histories of the cache of device memory.
 */
#include "selftests/npu_kselftest.h"

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/json_read.h"
#include "selftests/runtime/rt_test.h"

/**
 * struct text - what was written
 * @buf: the text
 * @size: its bytes
 * @calls: pieces
 * @err: what the function returns after the first piece
 */
struct text {
	char *buf;
	size_t size;
	int calls;
	int err;
};

static int keep(const char *text, size_t size, void *arg)
{
	struct text *t = arg;

	t->calls++;
	t->buf = realloc(t->buf, t->size + size + 1);
	if (!t->buf || !size)
		abort();
	memcpy(t->buf + t->size, text, size);
	t->size += size;
	t->buf[t->size] = '\0';
	return t->err;
}

#define ACTIONS 64

/**
 * struct seen - what a snapshot says
 * @segments: segments
 * @blocks: blocks by state: allocated, pending, inactive
 * @bytes: their bytes
 * @requested: what was asked for
 * @total: sum of total_size of segments
 * @sums: of allocated_size, active_size, requested_size of segments
 * @next: where the next block of the segment begins
 * @size: of the block that is being read
 * @wrong: blocks that leave a gap, or unknown states
 * @lists: entries of device_traces
 * @actions: events
 * @action: their names
 * @frame: name of the first frame
 * @time: time of the last event
 * @oom_free: device_free of an oom
 * @pool: last part of a segment_pool_id
 */
struct seen {
	int segments;
	uint64_t blocks[3];
	uint64_t bytes[3];
	uint64_t requested;
	uint64_t total;
	uint64_t sums[3];
	uint64_t next;
	uint64_t size;
	int wrong;
	int lists;
	int actions;
	char action[ACTIONS][20];
	char frame[ACTIONS][80];
	uint64_t time;
	uint64_t oom_free;
	uint64_t pool;
};

#define SEGMENT ".segments[]"
#define BLOCK SEGMENT ".blocks[]"
#define EVENT ".device_traces[][]"

static void read_segment(struct seen *s, const char *path, const char *text, uint64_t n)
{
	static const char *const state[] = { "active_allocated", "active_pending_free",
					     "inactive" };
	int i;

	if (!strcmp(path, SEGMENT)) {
		s->segments++;
	} else if (!strcmp(path, SEGMENT ".address")) {
		s->next = n;
	} else if (!strcmp(path, SEGMENT ".total_size")) {
		s->total += n;
	} else if (!strcmp(path, SEGMENT ".allocated_size")) {
		s->sums[0] += n;
	} else if (!strcmp(path, SEGMENT ".active_size")) {
		s->sums[1] += n;
	} else if (!strcmp(path, SEGMENT ".requested_size")) {
		s->sums[2] += n;
	} else if (!strcmp(path, SEGMENT ".segment_pool_id[]")) {
		s->pool = n;
	} else if (!strcmp(path, BLOCK ".address")) {
		s->wrong += n != s->next;
	} else if (!strcmp(path, BLOCK ".size")) {
		s->size = n;
		s->next += n;
	} else if (!strcmp(path, BLOCK ".requested_size")) {
		s->requested += n;
	} else if (!strcmp(path, BLOCK ".state")) {
		for (i = 0; i < 3 && strcmp(text, state[i]); i++)
			;
		s->wrong += i == 3;
		s->blocks[i % 3]++;
		s->bytes[i % 3] += s->size;
	}
}

static void read_leaf(const char *path, const char *text, void *arg)
{
	struct seen *s = arg;
	uint64_t n = strtoull(text, NULL, 10);

	if (!strncmp(path, SEGMENT, strlen(SEGMENT)))
		read_segment(s, path, text, n);
	else if (!strcmp(path, ".device_traces[]"))
		s->lists++;
	else if (!strcmp(path, EVENT ".action") && s->actions < ACTIONS)
		snprintf(s->action[s->actions++], 20, "%s", text);
	else if (!strcmp(path, EVENT ".frames[].name") && s->actions)
		snprintf(s->frame[s->actions - 1], 80, "%s", text);
	else if (!strcmp(path, EVENT ".time_us"))
		s->wrong += n < s->time, s->time = n;
	else if (!strcmp(path, EVENT ".device_free"))
		s->oom_free = n;
}

static bool look(int device, struct seen *s)
{
	struct text t = { 0 };
	bool good;

	memset(s, 0, sizeof(*s));
	if (npu_mem_snapshot(device, keep, &t))
		return false;
	good = json_read(t.buf, read_leaf, s);
	if (!good)
		printf("# no JSON: %.200s\n", t.buf);
	free(t.buf);
	return good && !s->wrong;
}

FIXTURE(snapshot) {
	npu_stream s;
	npu_stream other;
	struct seen seen;
};

FIXTURE_SETUP(snapshot)
{
	OK(npu_option_set("simnpu_devices", "2"));
	OK(npu_option_set("simnpu_memory", "64M"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_stream_create(NULL, &self->other));
}

FIXTURE_TEARDOWN(snapshot)
{
	EXPECT_EQ(0, npu_mem_history(0, NPU_MEM_HISTORY_OFF, 0));
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_F(snapshot, of_nothing)
{
	ASSERT_TRUE(look(1, &self->seen));
	EXPECT_EQ(0, self->seen.segments);
	EXPECT_EQ(2, self->seen.lists);
	EXPECT_EQ(0, self->seen.actions);
	EXPECT_EQ(0, is_open(1));
}

TEST_F(snapshot, blocks_by_state)
{
	struct gate g = { 0 };
	void *p, *q, *r;

	OK(npu_mem_alloc(1000, self->s, &p));
	OK(npu_mem_alloc(5000000, self->s, &q));
	OK(npu_mem_alloc(700, self->s, &r));
	OK(npu_mem_record_stream(r, self->other));
	OK(npu_stream_callback(self->other, gate_hold, &g, 0));
	OK(npu_mem_free(r));
	ASSERT_TRUE(look(0, &self->seen));
	EXPECT_EQ(2, self->seen.segments);
	EXPECT_EQ(2, self->seen.blocks[0]);
	EXPECT_EQ(1024 + 5000192, self->seen.bytes[0]);
	EXPECT_EQ(1, self->seen.blocks[1]);
	EXPECT_EQ(1024, self->seen.bytes[1]);
	EXPECT_EQ(2, self->seen.blocks[2]);
	EXPECT_EQ(1000 + 5000000 + 700, self->seen.requested);
	EXPECT_EQ(self->seen.requested, self->seen.sums[2]);
	EXPECT_EQ(self->seen.bytes[0], self->seen.sums[0]);
	EXPECT_EQ(self->seen.bytes[0] + self->seen.bytes[1], self->seen.sums[1]);
	EXPECT_EQ(self->seen.sums[1] + self->seen.bytes[2], self->seen.total);
	EXPECT_EQ(0, self->seen.pool);
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->other, 5000));
	ASSERT_TRUE(look(0, &self->seen));
	EXPECT_EQ(0, self->seen.blocks[1]);
	OK(npu_mem_free(p));
	OK(npu_mem_free(q));
}

TEST_F(snapshot, history_of_a_block)
{
	static const char *const want[] = {
		"segment_alloc", "alloc", "free_requested", "free_completed", "segment_free",
		"snapshot",
	};
	void *p;
	int i;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, 10));
	OK(npu_tag_set("step \"1\"\\\n\x01\x80 \xc3\xa9"));
	OK(npu_mem_alloc(1000, self->s, &p));
	OK(npu_tag_set(NULL));
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	ASSERT_TRUE(look(0, &self->seen));
	ASSERT_EQ(6, self->seen.actions);
	for (i = 0; i < 6; i++)
		EXPECT_STREQ(want[i], self->seen.action[i]);
	EXPECT_STREQ("step \"1\"\\\n\x01? \xc3\xa9", self->seen.frame[1]);
	EXPECT_STREQ("", self->seen.frame[2]);
	/* off, and on again: it begins anew */
	OK(npu_mem_history(0, NPU_MEM_HISTORY_OFF, 0));
	ASSERT_TRUE(look(0, &self->seen));
	EXPECT_EQ(0, self->seen.actions);
	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, 10));
	ASSERT_TRUE(look(0, &self->seen));
	EXPECT_EQ(1, self->seen.actions);
}

TEST_F(snapshot, history_keeps_the_last)
{
	void *p;
	int i;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, 4));
	for (i = 0; i < 100; i++) {
		OK(npu_mem_alloc(1000, self->s, &p));
		OK(npu_mem_free(p));
	}
	ASSERT_TRUE(look(0, &self->seen));
	ASSERT_EQ(4, self->seen.actions);
	EXPECT_STREQ("alloc", self->seen.action[0]);
	EXPECT_STREQ("snapshot", self->seen.action[3]);
}

TEST_F(snapshot, history_of_a_failure)
{
	size_t fre;
	void *p;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, 10));
	OK(npu_device_mem_info(0, &fre, NULL));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(65 << 20, self->s, &p));
	ASSERT_TRUE(look(0, &self->seen));
	ASSERT_EQ(2, self->seen.actions);
	EXPECT_STREQ("oom", self->seen.action[0]);
	EXPECT_EQ(fre, self->seen.oom_free);
}

TEST_F(snapshot, refused)
{
	struct text t = { .err = -EPIPE };
	void *p[200];
	int i;

	EXPECT_EQ(-EINVAL, npu_mem_snapshot(0, NULL, NULL));
	EXPECT_EQ(-ENODEV, npu_mem_snapshot(2, keep, &t));
	EXPECT_EQ(-ENODEV, npu_mem_history(2, NPU_MEM_HISTORY_ON, 1));
	EXPECT_EQ(-EINVAL, npu_mem_history(0, NPU_MEM_HISTORY_ON, 0));
	EXPECT_EQ(-EINVAL, npu_mem_history(0, NPU_MEM_HISTORY_ON, NPU_MEM_HISTORY_MAX + 1));
	EXPECT_EQ(-EINVAL, npu_mem_history(0, NPU_MEM_HISTORY_OFF, 1));
	EXPECT_EQ(-EINVAL, npu_mem_history(0, 2, 1));
	EXPECT_EQ(-EINVAL, npu_mem_history(0, -1, 1));
	/* who writes says that it is enough */
	for (i = 0; i < 200; i++)
		OK(npu_mem_alloc(1000, self->s, &p[i]));
	EXPECT_EQ(-EPIPE, npu_mem_snapshot(0, keep, &t));
	EXPECT_EQ(1, t.calls);
	free(t.buf);
	for (i = 0; i < 200; i++)
		OK(npu_mem_free(p[i]));
}

/* ---- meanwhile ---- */

static _Atomic int stop;

static void *allocate(void *arg)
{
	npu_stream *s = arg;
	void *p[8] = { NULL };
	unsigned int i = 0;

	while (!atomic_load(&stop)) {
		if (npu_mem_free(p[i % 8]) ||
		    npu_mem_alloc(1000 + i * 977 % 50000, *s, &p[i % 8]))
			abort();
		i++;
	}
	for (i = 0; i < 8; i++)
		npu_mem_free(p[i]);
	return NULL;
}

TEST_F(snapshot, while_sixteen_threads_allocate)
{
	int i, rounds = 200 / (int)npu_test_slower();
	struct npu_mem_stats st = { .size = sizeof(st) };
	pthread_t th[16];

	for (i = 0; i < 16; i++)
		ASSERT_EQ(0, pthread_create(&th[i], NULL, allocate,
					    i % 2 ? &self->s : &self->other));
	for (i = 0; i < rounds; i++) {
		if (i == rounds / 3) {
			EXPECT_EQ(0, npu_mem_history(0, NPU_MEM_HISTORY_ON, 50));
		}
		EXPECT_TRUE(look(0, &self->seen));
		EXPECT_EQ(self->seen.requested, self->seen.sums[2]);
		EXPECT_EQ(self->seen.bytes[0], self->seen.sums[0]);
		EXPECT_EQ(self->seen.total, self->seen.bytes[0] + self->seen.bytes[1] +
			  self->seen.bytes[2]);
		EXPECT_GE(16 * 8, self->seen.blocks[0]);
	}
	atomic_store(&stop, 1);
	for (i = 0; i < 16; i++)
		pthread_join(th[i], NULL);
	OK(npu_mem_get_stats(0, &st));
	ASSERT_TRUE(look(0, &self->seen));
	EXPECT_EQ(0, self->seen.blocks[0]);
	EXPECT_EQ(st.reserved_bytes[NPU_MEM_ALL].current, self->seen.total);
}

TEST_HARNESS_MAIN
