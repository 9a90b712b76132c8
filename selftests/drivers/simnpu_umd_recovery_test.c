// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the user-mode half of the simulated NPU's driver does about faults, on
 * fake nodes: stop, restart, health, abort, and rules that are refused.
 */
#include "hal/option.h"
#include "selftests/drivers/umd.h"
#include "selftests/npu_kselftest.h"

FIXTURE(umd)
{
	struct side x;
};

FIXTURE_SETUP(umd)
{
	fake_init();
	simnpu_sys = &fake_sys;
	up(&self->x, 0, 1000);
	/* what hal keeps of it */
	hal_list_init(&self->x.dev->base.contexts);
}

FIXTURE_TEARDOWN(umd)
{
	memset(fake.fail, 0, sizeof(fake.fail));
	down(&self->x);
	EXPECT_EQ(0, fake.live);
	fake_exit();
}

#define DEVICE(op, ...) drv()->device->op(&self->x.dev->base, ##__VA_ARGS__)
#define STREAM(op, ...) drv()->stream->op(&self->x.s->base, ##__VA_ARGS__)
/* The text of the thread's record contains it. */
#define EXPECT_TEXT(part) \
	EXPECT_NE(NULL, strstr(hal_error_last()->text, part)) { \
		TH_LOG("%s", hal_error_last()->text); \
	}

TEST_F(umd, stop)
{
	const struct simnpu_stop *s = FAKE_ARG(SIMNPU_IOCTL_DEVICE_STOP, struct simnpu_stop);

	EXPECT_EQ(0, DEVICE(stop, 1234));
	EXPECT_EQ(1234, s->deadline_ns);
	EXPECT_EQ(0, DEVICE(stop, UINT64_MAX));
	EXPECT_EQ(SIMNPU_DEADLINE_NONE, s->deadline_ns);
	/* a deadline that has passed is none that the device chooses */
	EXPECT_EQ(0, DEVICE(stop, 0));
	EXPECT_EQ(1, s->deadline_ns);
	FAKE_FAIL(SIMNPU_IOCTL_DEVICE_STOP, ETIME);
	EXPECT_EQ(-ETIMEDOUT, DEVICE(stop, 1));
	EXPECT_TEXT("device 0: a task does not end");
	FAKE_FAIL(SIMNPU_IOCTL_DEVICE_STOP, ENODEV);
	EXPECT_EQ(-ENODEV, DEVICE(stop, 1));
}

TEST_F(umd, restart)
{
	EXPECT_EQ(0, DEVICE(restart, 0));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_DEVICE_RESTART));
	FAKE_FAIL(SIMNPU_IOCTL_DEVICE_RESTART, EIO);
	EXPECT_EQ(-EIO, DEVICE(restart, 1));
	EXPECT_TEXT("attempt 2");
	FAKE_FAIL(SIMNPU_IOCTL_DEVICE_RESTART, ENODEV);
	EXPECT_EQ(-ENODEV, DEVICE(restart, 0));
}

TEST_F(umd, health)
{
	static const struct {
		uint32_t state, hal, cause;
		int code;
		const char *text;
	} row[] = {
		{ SIMNPU_STATE_OK, HAL_DEVICE_OPEN, 0, 0, "" },
		{ SIMNPU_STATE_FAULTED, HAL_DEVICE_FAULTED, ENOLINK, -ENOLINK, "link" },
		{ SIMNPU_STATE_FAULTED, HAL_DEVICE_FAULTED, EHWPOISON, -EHWPOISON, "memory" },
		{ SIMNPU_STATE_FAULTED, HAL_DEVICE_FAULTED, ETIME, -ETIME, "does not end" },
		{ SIMNPU_STATE_FAULTED, HAL_DEVICE_FAULTED, EREMOTEIO, -EREMOTEIO, "heartbeat" },
		{ SIMNPU_STATE_STOPPED, HAL_DEVICE_STOPPED, 0, 0, "" },
		{ SIMNPU_STATE_LOST, HAL_DEVICE_LOST, ENODEV, -ENODEV, "unplugged" },
		/* what no device of today says */
		{ 77, HAL_DEVICE_LOST, 99999, -EIO, "" },
	};
	struct hal_health h;
	size_t i;

	fake.info.ecc_corrected = 1;
	fake.info.ecc_uncorrected = 2;
	fake.info.link_errors = 3;
	fake.info.hangs = 4;
	for (i = 0; i < ARRAY_SIZE(row); i++) {
		fake.info.state = row[i].state;
		fake.info.cause = row[i].cause;
		memset(&h, 0, sizeof(h));
		ASSERT_EQ(0, DEVICE(health, &h));
		EXPECT_EQ(row[i].hal, h.state);
		EXPECT_EQ(row[i].code, h.cause);
		EXPECT_NE(NULL, strstr(h.text, row[i].text));
	}
	EXPECT_EQ(1, h.ecc_corrected);
	EXPECT_EQ(2, h.ecc_uncorrected);
	EXPECT_EQ(3, h.link_errors);
	EXPECT_EQ(4, h.hangs);
	/* a device that does not answer is not lost by that */
	FAKE_FAIL(SIMNPU_IOCTL_INFO, ENODEV);
	EXPECT_EQ(-EIO, DEVICE(health, &h));
	FAKE_FAIL(SIMNPU_IOCTL_INFO, ENOMEM);
	EXPECT_EQ(-ENOMEM, DEVICE(health, &h));
}

TEST_F(umd, poison)
{
	struct hal_poison list[3];

	EXPECT_EQ(0, DEVICE(poison, list, 3));
	fake.poison_count = 2;
	ASSERT_EQ(2, DEVICE(poison, list, 3));
	EXPECT_EQ(4096, list[1].addr);
	EXPECT_EQ(64, list[1].size);
	/* more than there is room for: the number of all */
	fake.poison_count = 9;
	memset(list, 0, sizeof(list));
	EXPECT_EQ(9, DEVICE(poison, list, 2));
	EXPECT_EQ(4096, list[1].addr);
	EXPECT_EQ(0, list[2].size);
	/* a device that comes to no end */
	fake.poison_count = UINT32_MAX;
	EXPECT_EQ(65536, DEVICE(poison, list, 3));
	FAKE_FAIL(SIMNPU_IOCTL_POISON, EIO);
	EXPECT_EQ(-EIO, DEVICE(poison, list, 3));
}

TEST_F(umd, abort)
{
	const struct simnpu_abort *a = FAKE_ARG(SIMNPU_IOCTL_QUEUE_ABORT, struct simnpu_abort);

	EXPECT_EQ(0, STREAM(abort, 77));
	EXPECT_EQ(self->x.s->handle, a->queue);
	EXPECT_EQ(77, a->deadline_ns);
	EXPECT_EQ(0, STREAM(abort, 0));
	EXPECT_EQ(1, a->deadline_ns);
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_ABORT, ETIME);
	EXPECT_EQ(-ETIMEDOUT, STREAM(abort, 1));
	EXPECT_TEXT("does not end");
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_ABORT, ENODEV);
	EXPECT_EQ(-ENODEV, STREAM(abort, 1));
}

TEST_F(umd, at)
{
	struct hal_task_error t = { .seq = 0 };

	EXPECT_EQ(-ENOENT, STREAM(at, &t));
	fake.at = (struct simnpu_at){ .seq = 1003, .cookie = 5, .op = SIMNPU_OP_FILL, .tag = 6 };
	ASSERT_EQ(0, STREAM(at, &t));
	EXPECT_EQ(1003, t.seq);
	EXPECT_EQ(5, t.place);
	EXPECT_EQ(6, t.tag);
	EXPECT_STREQ("fill", t.op);
	fake.at.op = 0xffff;
	ASSERT_EQ(0, STREAM(at, &t));
	EXPECT_STREQ("task", t.op);
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_AT, ENODEV);
	EXPECT_EQ(-ENODEV, STREAM(at, &t));
}

/* A failure that makes no sense is one all the same. */
TEST_F(umd, a_corrupt_failure)
{
	struct hal_task_error e[2];
	uint64_t dropped = 0;

	fake.errors[0] = (struct simnpu_task_error){
		.seq = 0, .code = ~0u, .op = ~0u, .origin_queue = ~0u, .origin_seq = ~0ull,
		.tag = ~0u,
	};
	fake.errors[1] = (struct simnpu_task_error){ .seq = 1000, .code = 0 };
	fake.error_count = 2;
	ASSERT_EQ(2, STREAM(errors, e, 2, &dropped));
	EXPECT_EQ(999, e[0].seq);
	EXPECT_EQ(-EPROTO, e[0].code);
	EXPECT_STREQ("task", e[0].op);
	EXPECT_EQ(0, e[0].origin_stream);
	EXPECT_EQ(1000, e[1].seq);
	EXPECT_EQ(-EPROTO, e[1].code);
}

/* ---- parts that are unplugged ---- */

TEST_F(umd, unplugged)
{
	struct hal_device_info info;
	uint32_t n = 0;

	fake.unplugged = 1;
	/* the other one keeps its number */
	EXPECT_EQ(0, drv()->ops->count(&n));
	EXPECT_EQ(FAKE_NODES, n);
	EXPECT_EQ(-ENODEV, drv()->ops->info(0, &info));
	EXPECT_TEXT("the device is not");
	EXPECT_EQ(0, drv()->ops->info(1, &info));
	EXPECT_EQ(0, drv()->ops->init());
	drv()->ops->fini();
	fake.unplugged = 0;
}

TEST_F(umd, where_it_sits)
{
	struct hal_device_info info;

	/* a device that does not say so */
	ASSERT_EQ(0, drv()->ops->info(1, &info));
	EXPECT_STREQ("simnpu1", info.bus_id);
	strcpy(fake.info.bus, "slot7");
	ASSERT_EQ(0, drv()->ops->info(1, &info));
	EXPECT_STREQ("slot7", info.bus_id);
	memset(fake.info.bus, 'x', sizeof(fake.info.bus));
	ASSERT_EQ(0, drv()->ops->info(1, &info));
	EXPECT_EQ(SIMNPU_NAME_LEN - 1, strlen(info.bus_id));
}

/* ---- rules by option ---- */

static const char *text_of(const char *name)
{
	return strcmp(name, "simnpu_faults") ? NULL : "task,nth=0";
}

TEST_F(umd, rules_that_are_refused)
{
	static const struct hal_option_reader bad = { .text = text_of };
	uint32_t n;

	hal_option_set_reader(&bad);
	EXPECT_EQ(-EINVAL, drv()->ops->count(&n));
	EXPECT_TEXT("option simnpu_faults, at byte 9: out of range: '0'");
	EXPECT_EQ(-EINVAL, drv()->ops->init());
	hal_option_set_reader(NULL);
	EXPECT_EQ(0, drv()->ops->count(&n));
}

TEST_HARNESS_MAIN
