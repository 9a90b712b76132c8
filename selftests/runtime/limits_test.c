// SPDX-License-Identifier: GPL-2.0-only
/*
 * What runs out: told apart from memory, at once, with the limit, what this
 * process has of it and what others have; and good again when something is given
 * back.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/drivers/simnpu_ring.h"
#include "selftests/runtime/rt_test.h"

/* The part with the fewest: 512 streams, one core. */
#define STREAMS 512u

FIXTURE(limits) {
	npu_stream first;
};

FIXTURE_SETUP(limits)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_SIMNPU_PART", "310b", 1);
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
	OK(npu_stream_create(NULL, &self->first));
}

FIXTURE_TEARDOWN(limits)
{
	EXPECT_EQ(0, npu_finalize(10000));
}

/* Whether the record's text has it. */
static bool told(const char *text)
{
	struct npu_error e = last_error();

	if (!strstr(e.text, text))
		printf("# %s\n", e.text);
	return strstr(e.text, text) != NULL;
}

/* Makes streams until there are no more; the last one made, and how many. */
static unsigned int make_all(npu_stream *last, int *rc)
{
	npu_stream s;
	unsigned int n = 0;

	for (; (*rc = npu_stream_create(NULL, &s)) == 0; n++)
		*last = s;
	return n;
}

TEST_F(limits, streams)
{
	npu_stream last = { 0 }, s;
	size_t free_before, free_after;
	int rc;

	OK(npu_device_mem_info(0, &free_before, NULL));
	EXPECT_EQ(STREAMS - 1, make_all(&last, &rc));
	EXPECT_EQ(-ENOSPC, rc);
	EXPECT_TRUE(told("device 0: no more streams: limit 512, this process 512, others 0"));
	EXPECT_EQ(0, last_error().device);
	/* it is not for want of memory, and memory is there */
	OK(npu_device_mem_info(0, &free_after, NULL));
	EXPECT_EQ(free_before, free_after);
	/* another device has its own */
	OK(npu_device_set(1));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_destroy(last, 5000));
	OK(npu_device_set(0));
	OK(npu_stream_create(NULL, &s));
	EXPECT_EQ(-ENOSPC, npu_stream_create(NULL, &last));
}

/* H10: others hold half of them. */
TEST_F(limits, streams_that_others_have)
{
	static struct ring r[STREAMS / 2];
	npu_stream last = { 0 }, s;
	struct ctx c;
	unsigned int i;
	int rc;

	OK(ctx_open(&c, 0));
	for (i = 0; i < STREAMS / 2; i++)
		OK(ring_open_at(&r[i], &c, 16, 4, 0, 1));
	EXPECT_EQ(STREAMS / 2 - 1, make_all(&last, &rc));
	EXPECT_EQ(-ENOSPC, rc);	/* told apart from -ENOMEM */
	EXPECT_TRUE(told("device 0: no more streams: limit 512, this process 256, others 256"));
	EXPECT_NE(NULL, strstr(last_error().hint, "Other processes"));
	/* when they go there is room */
	OK(dev_close(c.fd));
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_destroy(s, 5000));
}

TEST_F(limits, contexts)
{
	npu_context c[64];
	unsigned int n;
	int rc = 0;

	for (n = 0; n < 64 && !rc; n++)
		rc = npu_context_create(0, &c[n]);
	EXPECT_EQ(64, n);
	EXPECT_EQ(-ENOSPC, rc);
	EXPECT_TRUE(told("device 0: no more contexts: limit 64, this process 64, others 0"));
	OK(npu_context_destroy(c[0], 5000));
	OK(npu_context_create(0, &c[0]));
}

TEST_F(limits, memory)
{
	void *p, *q;

	OK(npu_malloc(40 << 20, 0, &p));
	EXPECT_EQ(-ENOMEM, npu_malloc(30 << 20, 0, &q));
	EXPECT_TRUE(told("device 0: no memory for 31457280 bytes: 25165824 free of 67108864, "
			 "this process 41943040"));
	EXPECT_NE(NULL, strstr(last_error().hint, "npu_device_mem_info"));
	EXPECT_EQ(-ENOMEM, npu_malloc(65 << 20, 0, &q));
	EXPECT_NE(NULL, strstr(last_error().hint, "never has so much"));
	OK(npu_free(p));
	OK(npu_malloc(30 << 20, 0, &q));
	OK(npu_free(q));
}

TEST_F(limits, arguments_and_blocks)
{
	static char args[NPU_KERNEL_ARGS_MAX + 8];

	EXPECT_EQ(-EINVAL, npu_launch(builtin_kernel("nop"), 1, args, sizeof(args), self->first));
	EXPECT_TRUE(told("4104 bytes of arguments: limit 4096"));
	/* so many are taken, and it is the kernel that has no use for them */
	OK(npu_launch(builtin_kernel("nop"), 1, args, NPU_KERNEL_ARGS_MAX, self->first));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->first, 5000));
}

/* A full stream says so: at once, or when the time for room has passed. */
TEST_F(limits, tasks)
{
	static struct gate g;
	npu_kernel nop = builtin_kernel("nop");
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	unsigned int i;
	npu_stream s;

	attr.flags = NPU_STREAM_NONBLOCK;
	OK(npu_stream_create(&attr, &s));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	for (i = 1; i < NPU_STREAM_MAX_QUEUED; i++)
		ASSERT_EQ(0, npu_launch(nop, 1, NULL, 0, s));
	EXPECT_EQ(-EAGAIN, npu_launch(nop, 1, NULL, 0, s));
	EXPECT_TRUE(told("is full: limit 1048576 tasks"));
	EXPECT_EQ(s.h, last_error().stream.h);
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(s, 20000));
	OK(npu_launch(nop, 1, NULL, 0, s));
	OK(npu_stream_sync(s, 5000));
}

TEST_F(limits, tasks_and_no_room_in_time)
{
	static struct gate g;
	npu_kernel nop = builtin_kernel("nop");
	unsigned int i;

	OK(npu_option_set("op_timeout_ms", "30"));
	OK(npu_stream_callback(self->first, gate_hold, &g, 0));
	for (i = 1; i < NPU_STREAM_MAX_QUEUED; i++)
		ASSERT_EQ(0, npu_launch(nop, 1, NULL, 0, self->first));
	EXPECT_EQ(-ETIMEDOUT, npu_launch(nop, 1, NULL, 0, self->first));
	EXPECT_TRUE(told("is full: limit 1048576 tasks, no room in 30 ms"));
	EXPECT_NE(NULL, strstr(last_error().hint, "op_timeout_ms"));
	atomic_store(&g.open, 1);
	OK(npu_stream_sync(self->first, 20000));
}

TEST_HARNESS_MAIN
