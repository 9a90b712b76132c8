// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segments that grow: a device that has no virtual memory, and each step of growing and of giving
 * back that may fail. The device is one that can be told to fail; it has 16 MiB.
 */
#include "selftests/npu_kselftest.h"

#include "hal/sys_judge.h"
#include "selftests/fakes/driver.h"
#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)
#define PLAIN (11 * MIB)	/* the option mem_large_segment_mb: the size of plain ones */
#define BIG (4 * MIB)		/* two pieces of memory */
#define OFTEN 1000

FIXTURE(grow) {
	npu_stream s;
	uint32_t objects;
};

FIXTURE_SETUP(grow)
{
	OK(npu_option_set("driver", "fake"));
	OK(npu_option_set("mem_growable", "1"));
	OK(npu_option_set("mem_large_segment_mb", "11"));
	OK(npu_stream_create(NULL, &self->s));
	self->objects = fake_objects();
}

FIXTURE_TEARDOWN(grow)
{
	hal_sys_judge_set(NULL);
	fake_reset();
	EXPECT_EQ(0, npu_finalize(5000));
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

static size_t device_free(void)
{
	size_t n = 0;

	npu_device_mem_info(0, &n, NULL);
	return n;
}

/* A block, and whether it is one: 0, or what is wrong. */
static int there_and_back(npu_stream s, size_t size)
{
	void *p;
	int err;

	err = npu_mem_alloc(size, s, &p);
	if (!err)
		err = npu_memset(p, 1, size);
	return err ? err : npu_mem_free(p);
}

/* ---- no virtual memory --------------------------------------------------------------------- */

static int warnings;

static void count(int level, const char *line)
{
	warnings += strstr(line, "no virtual memory") != NULL;
}

/* The option is on, and the device cannot: segments are plain, and that is said once. */
TEST_F(grow, device_without)
{
	static const size_t want[][2] = {
		{ 3 * MIB, PLAIN }, { 6 * MIB, 6 * MIB }, { 9 * MIB, 10 * MIB },
	};
	struct npu_mem_block b = { .size = sizeof(b) };
	size_t i;
	void *p;

	OK(npu_finalize(5000));
	fake_set_caps(fake_all_caps() & ~NPU_CAP_VMM);
	npu_log_set_sink(count);
	OK(npu_stream_create(NULL, &self->s));
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		OK(npu_mem_alloc(want[i][0], self->s, &p));
		OK(npu_memset(p, 1, want[i][0]));
		OK(npu_mem_get_block(p, &b));
		EXPECT_EQ(want[i][1], b.segment_bytes);
		EXPECT_EQ(-EOPNOTSUPP, npu_mem_sleep(0, NULL, 0, 5000));
		OK(npu_mem_free(p));
		OK(npu_mem_empty_cache(0));
	}
	npu_log_set_sink(NULL);
	EXPECT_EQ(1, warnings);
	EXPECT_EQ(0, fake_calls(FAKE_RESERVE));
	EXPECT_EQ(0, reserved());
}

/* All pairs of options on a device that has no virtual memory work, or are refused at the start. */
TEST_F_TIMEOUT(grow, pairs_without, 120)
{
	static const char *const set[][2] = {
		{ "mem_caching", "0" }, { "mem_max_split_mb", "20" },
		{ "mem_max_non_split_rounding_mb", "1" }, { "mem_gc_threshold", "10" },
		{ "mem_roundup_power2_divisions", "8" }, { "mem_large_segment_mb", "12" },
		{ "mem_block_align", "64K" }, { "mem_fraction", "90" }, { "mem_growable", "1" },
	};
	size_t i, k, n;
	int err;

	OK(npu_finalize(5000));
	OK(npu_option_set("mem_growable", NULL));
	fake_set_caps(fake_all_caps() & ~NPU_CAP_VMM);
	for (i = 0; i < ARRAY_SIZE(set); i++)
		for (k = i + 1; k < ARRAY_SIZE(set); k++) {
			OK(npu_option_set("mem_large_segment_mb", "11"));
			OK(npu_option_set(set[i][0], set[i][1]));
			OK(npu_option_set(set[k][0], set[k][1]));
			err = npu_init();
			if (err) {
				EXPECT_EQ(-EINVAL, err);
				EXPECT_TRUE(strstr(last_error().text, set[i][0]) != NULL);
				EXPECT_TRUE(strstr(last_error().text, set[k][0]) != NULL);
			} else {
				OK(npu_stream_create(NULL, &self->s));
				for (n = 0; n < 6; n++)
					OK(there_and_back(self->s, 1000u << (2 * n)));
				EXPECT_EQ(0, fake_calls(FAKE_RESERVE));
				OK(npu_mem_empty_cache(0));
				EXPECT_EQ(0, reserved());
				OK(npu_finalize(5000));
			}
			OK(npu_option_set(set[i][0], NULL));
			OK(npu_option_set(set[k][0], NULL));
		}
}

/* ---- growing fails -------------------------------------------------------------------------- */

/* Each step of growing by some pieces of memory; what came before it is undone. */
static const struct {
	enum fake_op op;
	uint32_t nth;
} steps[] = {
	{ FAKE_RESERVE, 1 }, { FAKE_CREATE, 1 }, { FAKE_MAP, 1 }, { FAKE_CREATE, 2 },
	{ FAKE_MAP, 2 },
};

/* A failure that is none of memory ends the request; the next one works. */
TEST_F(grow, each_step_fails)
{
	void *p;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		fake_fail(steps[i].op, steps[i].nth, 1, -EIO);
		p = &p;
		EXPECT_EQ(-EIO, npu_mem_alloc(BIG, self->s, &p));
		EXPECT_EQ(NULL, p);
		EXPECT_EQ(0, reserved());
		EXPECT_EQ(0, stats().ooms);
		EXPECT_EQ(16 * MIB, device_free());
		fake_reset();
		OK(there_and_back(self->s, BIG));
		EXPECT_EQ(BIG, reserved());
		OK(npu_mem_empty_cache(0));
		EXPECT_EQ(0, reserved());
		/* its addresses stay, and nothing else */
		EXPECT_EQ(self->objects + 1, fake_objects());
		OK(npu_device_reset(0, 5000));
		OK(npu_stream_create(NULL, &self->s));
	}
}

/* Without memory all that there is to be done is done, and the step is made again. */
TEST_F(grow, each_step_has_no_memory)
{
	struct npu_mem_stats st;
	size_t i;

	/* (of a device that has no addresses left it is told otherwise) */
	for (i = 1; i < ARRAY_SIZE(steps); i++) {
		OK(npu_mem_reset_accumulated(0));
		fake_fail(steps[i].op, steps[i].nth, 1, -ENOMEM);
		OK(there_and_back(self->s, BIG));
		st = stats();
		EXPECT_EQ(1, st.alloc_retries);
		EXPECT_EQ(0, st.ooms);
		EXPECT_EQ(BIG, st.reserved_bytes[NPU_MEM_ALL].current);
		OK(npu_mem_empty_cache(0));
		fake_fail(steps[i].op, steps[i].nth, OFTEN, -ENOMEM);
		EXPECT_EQ(-ENOMEM, there_and_back(self->s, BIG));
		EXPECT_TRUE(strstr(last_error().text, "tried driver release") != NULL);
		st = stats();
		EXPECT_EQ(1, st.ooms);
		EXPECT_EQ(0, st.reserved_bytes[NPU_MEM_ALL].current);
		EXPECT_EQ(16 * MIB, device_free());
		fake_reset();
	}
	OK(there_and_back(self->s, BIG));
}

/* Of addresses fewer will do; if there are none, segments are plain. */
TEST_F(grow, no_addresses)
{
	struct npu_mem_block b = { .size = sizeof(b) };
	void *p;

	fake_fail(FAKE_RESERVE, 1, 1, -ENOMEM);
	OK(npu_mem_alloc(2 * MIB, self->s, &p));
	EXPECT_EQ(2, fake_calls(FAKE_RESERVE));
	OK(npu_mem_get_block(p, &b));
	EXPECT_GT(16 * MIB, b.segment_bytes);
	EXPECT_EQ(2 * MIB, reserved());
	OK(npu_mem_free(p));
	OK(npu_device_reset(0, 5000));
	OK(npu_stream_create(NULL, &self->s));
	fake_fail(FAKE_RESERVE, 1, OFTEN, -ENOMEM);
	OK(npu_mem_alloc(2 * MIB, self->s, &p));
	OK(npu_memset(p, 1, 2 * MIB));
	OK(npu_mem_get_block(p, &b));
	EXPECT_EQ(PLAIN, b.segment_bytes);
	OK(npu_mem_free(p));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, reserved());
}

static __thread uint32_t left;	/* allocations of this thread until one fails; 0: none does */

static void judge(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *v)
{
	if (call == HAL_SYS_alloc && left && !--left)
		v->code = ENOMEM;
}

/* Neither is anything lost when the host has no memory, whichever structure it is for. */
TEST_F(grow, each_allocation_of_the_host)
{
	bool reached = true;
	uint32_t n;
	void *p;
	int err;

	hal_sys_judge_set(judge);
	for (n = 1; reached && n < 1000; n++) {
		left = n;
		err = npu_mem_alloc(BIG, self->s, &p);
		reached = !left;
		left = 0;
		if (err) {
			EXPECT_EQ(-ENOMEM, err);
			EXPECT_EQ(0, reserved());
		} else {
			OK(npu_memset(p, 1, BIG));
			OK(npu_mem_free(p));
		}
		OK(npu_mem_empty_cache(0));
		EXPECT_EQ(0, reserved());
		EXPECT_EQ(16 * MIB, device_free());
		/* all is made anew */
		OK(npu_device_reset(0, 5000));
		OK(npu_stream_create(NULL, &self->s));
	}
	EXPECT_EQ(0, err);
	/* a lane, blocks, a segment, pieces of memory and what hal has of them */
	EXPECT_LT(6, n);
}

/* ---- giving back fails ---------------------------------------------------------------------- */

/* Memory that the driver does not take back stays where it is, and is used again. */
TEST_F(grow, not_taken_back)
{
	void *p, *q;

	OK(npu_mem_alloc(BIG, self->s, &p));
	OK(npu_mem_free(p));
	fake_fail(FAKE_UNMAP, 1, OFTEN, -ENOMEM);
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(BIG, reserved());
	EXPECT_EQ(16 * MIB - BIG, device_free());
	OK(npu_mem_alloc(BIG, self->s, &q));
	EXPECT_EQ(p, q);
	OK(npu_memset(q, 1, BIG));
	OK(npu_mem_free(q));
	/* one of some */
	fake_fail(FAKE_UNMAP, 1, 1, -ENOMEM);
	OK(npu_mem_empty_cache(0));
	EXPECT_LT(0, reserved());
	EXPECT_GT(BIG, reserved());
	EXPECT_EQ(16 * MIB - reserved(), device_free());
	fake_reset();
	OK(there_and_back(self->s, BIG));
	OK(npu_mem_empty_cache(0));
	EXPECT_EQ(0, reserved());
	EXPECT_EQ(16 * MIB, device_free());
}

/* Free memory is in pieces: a hint is about what is not on already, even if the device cannot. */
TEST_F(grow, hints_that_apply)
{
	void *p[3], *q;
	int i;

	OK(npu_finalize(5000));
	fake_set_caps(fake_all_caps() & ~NPU_CAP_VMM);
	OK(npu_stream_create(NULL, &self->s));
	for (i = 0; i < 3; i++)
		OK(npu_mem_alloc(3 * MIB, self->s, &p[i]));
	OK(npu_mem_free(p[0]));
	OK(npu_mem_free(p[2]));
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(6 * MIB, self->s, &q));
	EXPECT_TRUE(strstr(last_error().text, "cached 8M (largest 5M)") != NULL)
		TH_LOG("%s", last_error().text);
	EXPECT_TRUE(strstr(last_error().hint, "mem_growable") == NULL);
	/* and the next one that is small works */
	OK(npu_mem_alloc(100, self->s, &q));
}

TEST_HARNESS_MAIN
