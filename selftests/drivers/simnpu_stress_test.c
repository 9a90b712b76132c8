// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many threads at the rings of the simulator: one stream shared by all of them,
 * tasks of several slots between small ones, growth, wake-ups, waits between
 * devices. What must come out right is counted in device memory.
 */
#include <pthread.h>

#include "npu/npu.h"
#include "npu/simnpu_ops.h"
#include "selftests/npu_kselftest.h"

#define THREADS 4
#define TASKS 3000
#define SIDE 8

FIXTURE(stress) {
	npu_stream stream[2];
	npu_kernel inc;
	npu_kernel relu;
	uint64_t *word;
	float *rows;
	uint8_t *bytes;
};

FIXTURE_SETUP(stress)
{
	int i;

	ASSERT_EQ(0, npu_init());
	ASSERT_EQ(0, npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &self->inc));
	ASSERT_EQ(0, npu_kernel_get(NPU_MODULE_BUILTIN, "relu_f32", &self->relu));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, npu_stream_create(NULL, &self->stream[i]));
	ASSERT_EQ(0, npu_malloc(4096, 0, (void **)&self->word));
	ASSERT_EQ(0, npu_malloc(4096, 0, (void **)&self->rows));
	ASSERT_EQ(0, npu_malloc(4096, 0, (void **)&self->bytes));
	ASSERT_EQ(0, npu_memset(self->word, 0, 4096));
	ASSERT_EQ(0, npu_memset(self->rows, 0, 4096));
}

FIXTURE_TEARDOWN(stress)
{
	EXPECT_EQ(0, npu_finalize(20000));
}

/* What a thread does, and how it went. */
struct job {
	FIXTURE_DATA(stress) *f;
	npu_stream stream;
	pthread_t thread;
	unsigned int nr;
	unsigned int tasks;
	int err;
};

static int inc(struct job *j)
{
	struct npu_simnpu_inc_args args = { .addr = (uintptr_t)(j->f->word + j->nr), .by = 1 };

	return npu_launch(j->f->inc, 1, &args, sizeof(args), j->stream);
}

/* Arguments in a slot of their own. */
static int rows(struct job *j)
{
	struct npu_simnpu_rows_args args = {
		.x = (uintptr_t)j->f->rows, .y = (uintptr_t)j->f->rows, .rows = 2, .cols = SIDE,
	};

	return npu_launch(j->f->relu, 2, &args, sizeof(args), j->stream);
}

static int mixed(struct job *j, unsigned int i)
{
	uint8_t *at = j->f->bytes + j->nr * 256;

	switch (i % 7) {
	case 0:
		return rows(j);
	case 1:
		return npu_memset_async(at, (int)i, 200, j->stream);
	case 2:
		/* its pitches are in a slot of their own */
		return npu_memcpy_2d_async(at + 128, 16, at, 32, 8, 4, NPU_COPY_D2D, j->stream);
	default:
		return inc(j);
	}
}

static void *run(void *arg)
{
	struct job *j = arg;
	unsigned int i;

	for (i = 0; i < j->tasks && !j->err; i++)
		j->err = mixed(j, i);
	return NULL;
}

static unsigned int incs(unsigned int tasks)
{
	unsigned int i, n = 0;

	for (i = 0; i < tasks; i++)
		n += i % 7 > 2;
	return n;
}

static void together(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self,
		     struct job *job)
{
	unsigned int i;

	for (i = 0; i < THREADS; i++) {
		job[i].f = self;
		job[i].stream = self->stream[0];
		job[i].nr = i;
		job[i].tasks = TASKS;
		job[i].err = 0;
		ASSERT_EQ(0, pthread_create(&job[i].thread, NULL, run, &job[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(job[i].thread, NULL);
		EXPECT_EQ(0, job[i].err);
	}
}

static void check_words(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self,
			unsigned int each)
{
	uint64_t word[THREADS];
	unsigned int i;

	ASSERT_EQ(0, npu_memcpy(word, self->word, sizeof(word), NPU_COPY_D2H));
	for (i = 0; i < THREADS; i++)
		EXPECT_EQ(each, word[i]);
}

TEST_F(stress, threads_share_a_stream)
{
	struct job job[THREADS];

	together(_metadata, self, job);
	ASSERT_EQ(0, npu_stream_sync(self->stream[0], NPU_WAIT_FOREVER));
	check_words(_metadata, self, incs(TASKS));
}

/* A head that does not end: all of it is queued, in segments that grow meanwhile. */
static void hold(void *arg)
{
	_Atomic int *open = arg;

	while (!*open)
		usleep(100);
}

TEST_F(stress, threads_behind_a_blocked_head)
{
	struct npu_stream_info info = { .size = sizeof(info) };
	struct job job[THREADS];
	_Atomic int open = 0;

	ASSERT_EQ(0, npu_stream_callback(self->stream[0], hold, (void *)&open, 0));
	together(_metadata, self, job);
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(self->stream[0]));
	EXPECT_EQ(0, npu_stream_get_info(self->stream[0], &info));
	EXPECT_EQ(THREADS * TASKS + 1, info.submitted);
	EXPECT_EQ(0, info.completed);
	open = 1;
	ASSERT_EQ(0, npu_stream_sync(self->stream[0], NPU_WAIT_FOREVER));
	check_words(_metadata, self, incs(TASKS));
}

/* Each thread waits for its own tasks while others submit to the same stream. */
static void *submit_and_wait(void *arg)
{
	struct job *j = arg;
	unsigned int i;

	for (i = 0; i < j->tasks && !j->err; i++) {
		j->err = inc(j);
		if (!j->err && i % 3 == 0)
			j->err = npu_stream_sync(j->stream, NPU_WAIT_FOREVER);
	}
	return NULL;
}

TEST_F(stress, threads_wait_for_a_stream)
{
	struct job job[THREADS];
	unsigned int i;

	for (i = 0; i < THREADS; i++) {
		job[i] = (struct job){ .f = self, .stream = self->stream[0], .nr = i,
				       .tasks = TASKS / 3 };
		ASSERT_EQ(0, pthread_create(&job[i].thread, NULL, submit_and_wait, &job[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(job[i].thread, NULL);
		EXPECT_EQ(0, job[i].err);
	}
	ASSERT_EQ(0, npu_stream_sync(self->stream[0], NPU_WAIT_FOREVER));
	check_words(_metadata, self, TASKS / 3);
}

/* An idle device is woken by each of many, and none of them is lost. */
TEST_F(stress, idle_between)
{
	struct job j = { .f = self, .stream = self->stream[0] };
	unsigned int i;

	for (i = 0; i < 20; i++) {
		usleep(i % 2 ? 15000 : 9000 + i * 200);
		ASSERT_EQ(0, inc(&j));
		/* nobody waits: it must start by itself */
		while (npu_stream_query(self->stream[0]) == -EINPROGRESS)
			usleep(100);
		EXPECT_EQ(0, npu_stream_query(self->stream[0]));
	}
}

/* A token goes round two devices: each adds one to its word after the other has. */
TEST_F(stress, devices_take_turns)
{
	struct npu_simnpu_inc_args args[2];
	npu_kernel kernel[2] = { self->inc };
	uint64_t word = 0, host[300] = { 0 };
	npu_stream s[2] = { self->stream[0] };
	void *mem[2] = { self->word };
	npu_event e[2];
	unsigned int i, k;
	int n = 0;

	ASSERT_EQ(0, npu_device_count(&n));
	if (n < 2)
		SKIP(return, "one device only");
	ASSERT_EQ(0, npu_device_set(1));
	ASSERT_EQ(0, npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &kernel[1]));
	ASSERT_EQ(0, npu_stream_create(NULL, &s[1]));
	ASSERT_EQ(0, npu_malloc(64, 0, &mem[1]));
	ASSERT_EQ(0, npu_memset(mem[1], 0, 64));
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, npu_event_create(0, &e[k]));
		args[k] = (struct npu_simnpu_inc_args){ (uintptr_t)mem[k], 1 };
	}
	for (i = 0; i < 300; i++) {
		k = i % 2;
		if (i)
			ASSERT_EQ(0, npu_stream_wait_event(s[k], e[!k]));
		/* the other's word, plus one, is what this one has to become */
		if (i)
			ASSERT_EQ(0, npu_memcpy_async(mem[k], mem[!k], 8, NPU_COPY_D2D, s[k]));
		ASSERT_EQ(0, npu_launch(kernel[k], 1, &args[k], sizeof(args[k]), s[k]));
		ASSERT_EQ(0, npu_memcpy_async(&host[i], mem[k], 8, NPU_COPY_D2H, s[k]));
		ASSERT_EQ(0, npu_event_record(e[k], s[k]));
	}
	ASSERT_EQ(0, npu_device_sync_all(NPU_WAIT_FOREVER));
	for (i = 0; i < 300; i++)
		ASSERT_EQ(i + 1, host[i]);
	ASSERT_EQ(0, npu_memcpy(&word, mem[1], 8, NPU_COPY_D2H));
	EXPECT_EQ(300, word);
}

TEST_HARNESS_MAIN
