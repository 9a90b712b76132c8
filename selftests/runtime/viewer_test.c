// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots of the cache as somebody else reads them: perl's JSON and the way of the memory viewer
 * of PyTorch, beside what sixteen threads know that they hold.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/rt_test.h"

#define THREADS 16
#define BLOCKS 12
#define READER "perl '" TEST_SRCTREE "/selftests/runtime/memory_viz.pl' "
/* All that they do is kept, and what waits while a stream is held does not fill the device. */
#define OPS 150
#define EVENTS 200000
#define SMALL 5000

/**
 * struct worker - a thread
 * @thread: the thread
 * @stream: what it allocates for
 * @other: what uses it, too
 * @rng: its dice
 * @ptr: what it holds
 * @size: how much that is
 */
struct worker {
	pthread_t thread;
	npu_stream stream;
	npu_stream other;
	uint32_t rng;
	void *ptr[BLOCKS];
	size_t size[BLOCKS];
};

static struct worker workers[THREADS];
/* quiet Protects: workers[].ptr and .size; threads share it. */
static pthread_rwlock_t quiet = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int stop;
/* No stream is held any more that would have to be waited for. */
static _Atomic int trims;

static uint32_t dice(struct worker *w, uint32_t n)
{
	w->rng = w->rng * 1103515245 + 12345;
	return (w->rng >> 8) % n;
}

static void one(struct worker *w)
{
	uint32_t i = dice(w, BLOCKS);

	if (w->ptr[i]) {
		/* what waits must not fill the device while the other stream is held */
		if (w->size[i] <= SMALL && npu_mem_record_stream(w->ptr[i], w->other))
			abort();
		if (npu_mem_free(w->ptr[i]))
			abort();
		w->ptr[i] = NULL;
		return;
	}
	w->size[i] = 1 + dice(w, dice(w, 4) ? SMALL : 3 << 20);
	if (npu_mem_alloc(w->size[i], w->stream, &w->ptr[i]))
		abort();
	if (!dice(w, 64) && atomic_load(&trims) && npu_mem_empty_cache(0))
		abort();
}

static void *work(void *arg)
{
	int n;

	for (n = 0; n < OPS && !atomic_load(&stop); n++) {
		pthread_rwlock_rdlock(&quiet);
		one(arg);
		pthread_rwlock_unlock(&quiet);
		/* a lock that always somebody has is nobody else's */
		usleep(4000);
	}
	return NULL;
}

static int to_reader(const char *text, size_t size, void *arg)
{
	return fwrite(text, 1, size, arg) == size ? 0 : -EPIPE;
}

/* What the reader says of a snapshot of now: 0: it is right. */
static int read_it(const char *how)
{
	char command[512];
	FILE *reader;
	int i, k, err;

	snprintf(command, sizeof(command), READER "%s", how);
	reader = popen(command, "w");
	if (!reader)
		return -errno;
	pthread_rwlock_wrlock(&quiet);
	for (i = 0; i < THREADS; i++)
		for (k = 0; k < BLOCKS; k++)
			if (workers[i].ptr[k])
				fprintf(reader, "block %llu %zu\n",
					(unsigned long long)(uintptr_t)workers[i].ptr[k],
					workers[i].size[k]);
	err = npu_mem_snapshot(0, to_reader, reader);
	pthread_rwlock_unlock(&quiet);
	i = pclose(reader);
	return err ? err : i;
}

FIXTURE(viewer) {
	npu_stream stream[3];
	struct gate gate;
};

FIXTURE_VARIANT(viewer) {
	const char *growable;
};

FIXTURE_VARIANT_ADD(viewer, plain) {
	.growable = "0",
};

FIXTURE_VARIANT_ADD(viewer, growable) {
	.growable = "1",
};

FIXTURE_SETUP(viewer)
{
	int i;

	OK(npu_option_set("simnpu_memory", "1G"));
	OK(npu_option_set("mem_growable", variant->growable));
	for (i = 0; i < 3; i++)
		OK(npu_stream_create(NULL, &self->stream[i]));
	for (i = 0; i < THREADS; i++)
		workers[i] = (struct worker){
			.stream = self->stream[i % 2], .other = self->stream[2], .rng = i + 1,
		};
	atomic_store(&stop, 0);
	atomic_store(&trims, 0);
}

FIXTURE_TEARDOWN(viewer)
{
	EXPECT_EQ(0, npu_mem_history(0, NPU_MEM_HISTORY_OFF, 0));
	EXPECT_EQ(0, npu_finalize(5000));
}

static void run(struct gate *g, npu_stream held, const char *how, int *wrong)
{
	int i, rounds = 5;

	*wrong = npu_stream_callback(held, gate_hold, g, 0);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			abort();
	for (i = 0; i < rounds && !*wrong; i++) {
		usleep(5000);
		if (i == rounds / 2) {
			atomic_store(&g->open, 1);
			atomic_store(&trims, 1);
		}
		*wrong = read_it(how);
	}
	atomic_store(&stop, 1);
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	atomic_store(&g->open, 1);
}

static void empty(void)
{
	int i, k;

	for (i = 0; i < THREADS; i++)
		for (k = 0; k < BLOCKS; k++) {
			if (npu_mem_free(workers[i].ptr[k]))
				abort();
			workers[i].ptr[k] = NULL;
		}
}

/* All that there ever was: at its beginning there is nothing. */
TEST_F(viewer, all_of_it)
{
	int wrong;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, EVENTS));
	run(&self->gate, self->stream[2], "all", &wrong);
	EXPECT_EQ(0, wrong);
	OK(npu_stream_sync(self->stream[2], 5000));
	empty();
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, read_it("all"));
}

/* What was in between is not known any more. */
TEST_F(viewer, the_last_of_it)
{
	int wrong;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, 100));
	run(&self->gate, self->stream[2], "part", &wrong);
	EXPECT_EQ(0, wrong);
	OK(npu_stream_sync(self->stream[2], 5000));
	empty();
}

/* A reset leaves nothing, of what was before neither. */
TEST_F(viewer, after_a_reset)
{
	npu_stream s;
	void *p;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, EVENTS));
	OK(npu_mem_alloc(5 << 20, self->stream[0], &p));
	OK(npu_device_reset(0, 5000));
	EXPECT_EQ(0, read_it("all"));
	OK(npu_stream_create(NULL, &s));
	OK(npu_mem_alloc(5 << 20, s, &workers[0].ptr[0]));
	workers[0].size[0] = 5 << 20;
	EXPECT_EQ(0, read_it("all"));
	empty();
}

/* Memory that another stream inherits is called as before. */
TEST_F(viewer, after_a_stream)
{
	void *p;
	int i;

	OK(npu_mem_history(0, NPU_MEM_HISTORY_ON, EVENTS));
	for (i = 0; i < 4; i++)
		OK(npu_mem_alloc(4 << 20, self->stream[0], &workers[i].ptr[0]));
	for (i = 0; i < 4; i += 2) {
		OK(npu_mem_free(workers[i].ptr[0]));
		workers[i].ptr[0] = NULL;
	}
	workers[1].size[0] = workers[3].size[0] = 4 << 20;
	OK(npu_stream_destroy(self->stream[0], 5000));
	OK(npu_mem_alloc(40 << 20, self->stream[1], &p));
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, read_it("all"));
	empty();
}

/* The reader finds what is wrong: a block that nobody has. */
TEST_F(viewer, is_not_blind)
{
	OK(npu_mem_alloc(1000, self->stream[0], &workers[0].ptr[0]));
	workers[0].size[0] = 1001;
	EXPECT_NE(0, read_it("part"));
	workers[0].size[0] = 1000;
	EXPECT_EQ(0, read_it("part"));
	/* the history has begun behind it */
	EXPECT_NE(0, read_it("all"));
	empty();
}

TEST_HARNESS_MAIN
