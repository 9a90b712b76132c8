// SPDX-License-Identifier: GPL-2.0-only
/*
 * The user-mode half of the simulator's driver on nodes that remember: what it
 * asks of the device, what it writes into rings, when it rings the bell, and what
 * it does when the device refuses.
 */
#include "hal/fork.h"
#include "selftests/drivers/umd.h"
#include "selftests/npu_kselftest.h"

/* ---- the driver, devices and contexts ---------------------------------------- */

FIXTURE(node) {
	struct side x;
};

FIXTURE_SETUP(node)
{
	fake_init();
	simnpu_sys = &fake_sys;
}

FIXTURE_TEARDOWN(node)
{
	EXPECT_EQ(0, fake.live);
	fake_exit();
}

TEST_F(node, registered)
{
	ASSERT_NE(NULL, drv());
	EXPECT_EQ(10, drv()->rank);
	EXPECT_EQ(HAL_DRIVER_ABI, drv()->abi);
}

TEST_F(node, counts)
{
	uint32_t n = 7;

	EXPECT_EQ(0, drv()->ops->count(&n));
	EXPECT_EQ(FAKE_NODES, n);
	fake.nodes = 0;
	EXPECT_EQ(0, drv()->ops->count(&n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(-ENODEV, drv()->ops->init());
	/* nothing but the version was asked for */
	EXPECT_EQ(FAKE_CALLS(SIMNPU_IOCTL_VERSION), fake_calls());
}

TEST_F(node, count_fails)
{
	uint32_t n;

	FAKE_FAIL(SIMNPU_IOCTL_VERSION, EIO);
	EXPECT_EQ(-EIO, drv()->ops->count(&n));
	EXPECT_EQ(-EIO, drv()->ops->init());
}

TEST_F(node, init_fails)
{
	FAKE_FAIL(SIMNPU_IOCTL_INFO, EIO);
	EXPECT_EQ(-EIO, drv()->ops->init());
}

/* In the child of a fork no node can be opened, and the questions are answered all the same. */
TEST_F(node, questions_after_a_fork)
{
	struct hal_device_info info;
	int status = 0, bad;
	uint32_t n = 0;
	pid_t pid;

	ASSERT_EQ(0, drv()->ops->init());
	ASSERT_EQ(0, hal_fork_arm());
	pid = fork();
	if (!pid) {
		FAKE_FAIL(SIMNPU_IOCTL_VERSION, ENODEV);
		bad = drv()->ops->count(&n) || n != FAKE_NODES;
		bad |= (drv()->ops->info(1, &info) || info.cores != 4) << 1;
		bad |= (drv()->ops->info(FAKE_NODES, &info) != -ENODEV) << 2;
		_exit(bad);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	hal_fork_disarm();
	drv()->ops->fini();
}

TEST_F(node, another_interface)
{
	fake.version.major = SIMNPU_ABI_MAJOR + 1;
	EXPECT_EQ(-EPROTO, device_up(&self->x, 0));
	free(self->x.dev);
}

/* H07: each reason has its own answer, which names the node and says what to do. */
TEST_F(node, why_it_cannot_be_opened)
{
	static const struct { int err; int code; const char *text; const char *hint; } t[] = {
		{ ENOENT, -ENODEV, "there is no such node", "simnpu_devices" },
		{ EACCES, -EACCES, "permission denied", "owner and mode" },
		{ EPERM, -EPERM, "not permitted", "container" },
		{ EBUSY, -EBUSY, "another process", "fuser" },
		{ ENODEV, -ENODEV, "the device is not", "unplugged" },
		{ EMFILE, -EMFILE, "no descriptor", "ulimit" },
		{ EIO, -EIO, "cannot be opened: EIO", "" },
	};
	struct hal_device_info info;
	const struct hal_error *e;
	uint32_t n;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(t); i++) {
		fake.fail_open = t[i].err;
		hal_error_clear();
		/* nodes end with the first that is missing; one without a device counts */
		if (t[i].err != ENOENT && t[i].err != ENODEV) {
			EXPECT_EQ(t[i].code, drv()->ops->count(&n));
		}
		EXPECT_EQ(t[i].code, drv()->ops->info(1, &info));
		EXPECT_EQ(t[i].code, device_up(&self->x, 1));
		free(self->x.dev);
		e = hal_error_last();
		EXPECT_EQ(t[i].code, e->code);
		EXPECT_EQ(-t[i].err, e->vendor);
		EXPECT_EQ(1, e->device);
		EXPECT_NE(NULL, strstr(e->text, "/dev/simnpu1: "));
		EXPECT_NE(NULL, strstr(e->text, t[i].text))
			TH_LOG("%s", e->text);
		EXPECT_NE(NULL, strstr(e->hint, t[i].hint))
			TH_LOG("%s", e->hint);
	}
	/* that it is the end of the nodes is no failure */
	fake.fail_open = ENOENT;
	hal_error_clear();
	EXPECT_EQ(0, drv()->ops->count(&n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(0, hal_error_last()->code);
	/* of another version both are named */
	fake.fail_open = 0;
	fake.version.major = SIMNPU_ABI_MAJOR + 7;
	EXPECT_EQ(-EPROTO, device_up(&self->x, 0));
	free(self->x.dev);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "/dev/simnpu0 speaks interface 7"));
	fake.version.major = SIMNPU_ABI_MAJOR;
	EXPECT_EQ(0, device_up(&self->x, 0));
	device_down(&self->x);
}

TEST_F(node, newer_minor)
{
	fake.version.minor = SIMNPU_ABI_MINOR + 1;
	ASSERT_EQ(0, device_up(&self->x, 0));
	device_down(&self->x);
}

TEST_F(node, no_such_node)
{
	struct hal_device_info info;

	EXPECT_EQ(-ENODEV, device_up(&self->x, FAKE_NODES));
	EXPECT_EQ(-ENODEV, drv()->ops->info(FAKE_NODES, &info));
	free(self->x.dev);
}

TEST_F(node, info_fails)
{
	struct hal_device_info info;

	FAKE_FAIL(SIMNPU_IOCTL_INFO, ENODEV);
	EXPECT_EQ(-ENODEV, device_up(&self->x, 0));
	EXPECT_EQ(-ENODEV, drv()->ops->info(0, &info));
	free(self->x.dev);
}

TEST_F(node, info)
{
	struct hal_device_info i;

	ASSERT_EQ(0, drv()->ops->info(1, &i));
	EXPECT_EQ(fake.info.mem_total, i.mem_total);
	EXPECT_EQ(fake.info.va_start, i.va_start);
	EXPECT_EQ(fake.info.va_size, i.va_size);
	EXPECT_EQ(512, i.mem_align);
	EXPECT_EQ(4, i.cores);
	EXPECT_EQ(FAKE_QUEUES, i.max_streams);
	EXPECT_EQ(9, i.max_events);
	EXPECT_EQ(3, i.max_contexts);
	EXPECT_EQ(1u << 20, i.max_queued);
	EXPECT_EQ(8, i.priorities);
	EXPECT_EQ(4096, i.args_max);
	EXPECT_STREQ("fake", i.name);
	EXPECT_STREQ("simnpu1", i.bus_id);
}

TEST_F(node, a_name_without_end)
{
	struct hal_device_info i;

	memset(fake.info.part, 'x', sizeof(fake.info.part));
	ASSERT_EQ(0, drv()->ops->info(0, &i));
	EXPECT_EQ(NPU_NAME_LEN - 1, strlen(i.name));
}

TEST_F(node, capabilities)
{
	static const struct {
		uint64_t dev, hal;
	} pair[] = {
		{ SIMNPU_CAP_PRIORITY, NPU_CAP_PRIORITY },
		{ SIMNPU_CAP_MODULE_FILE, NPU_CAP_MODULE_FILE },
		{ SIMNPU_CAP_MODULE_DATA, NPU_CAP_MODULE_DATA },
		{ SIMNPU_CAP_WINDOW, NPU_CAP_IO_WINDOW },
		{ SIMNPU_CAP_MANAGED, NPU_CAP_MANAGED },
		{ SIMNPU_CAP_BF16, NPU_CAP_BF16 },
		{ SIMNPU_CAP_INF_NAN, NPU_CAP_INF_NAN },
		{ SIMNPU_CAP_PEER, NPU_CAP_PEER },
		{ SIMNPU_CAP_ABORT, NPU_CAP_ABORT },
		{ SIMNPU_CAP_VMM, IS_ENABLED(CONFIG_VMM) ? NPU_CAP_VMM : 0 },
		{ SIMNPU_CAP_EXPORT, (IS_ENABLED(CONFIG_VMM) ? NPU_CAP_IPC_FD : 0) |
		  (IS_ENABLED(CONFIG_SIMNPU_INSTANCES) ?
		   NPU_CAP_IPC_MEM | NPU_CAP_IPC_EVENT : 0) },
		/* what this driver has no ops for stays out, whatever the device says */
		{ SIMNPU_CAP_VIRTUAL_TIME, 0 },
		{ 1ull << 63, 0 },
	};
	struct hal_device_info none, i;
	size_t k;

	fake.info.caps = 0;
	ASSERT_EQ(0, drv()->ops->info(0, &none));
	EXPECT_EQ(1, none.priorities);
	for (k = 0; k < ARRAY_SIZE(pair); k++) {
		fake.info.caps = pair[k].dev;
		ASSERT_EQ(0, drv()->ops->info(0, &i));
		EXPECT_EQ(none.caps | pair[k].hal, i.caps);
		EXPECT_EQ(0, none.caps & pair[k].hal);
	}
}

TEST_F(node, context_refused)
{
	ASSERT_EQ(0, device_up(&self->x, 0));
	FAKE_FAIL(SIMNPU_IOCTL_CONTEXT_CREATE, ENOSPC);
	EXPECT_EQ(-ENOSPC, context_up(&self->x));
	free(self->x.ctx);
	device_down(&self->x);
}

TEST_F(node, arena_not_mapped)
{
	ASSERT_EQ(0, device_up(&self->x, 0));
	fake.fail_mmap = ENOMEM;
	EXPECT_EQ(-ENOMEM, context_up(&self->x));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_CONTEXT_DESTROY));
	free(self->x.ctx);
	device_down(&self->x);
}

TEST_F(node, stream_refused)
{
	struct side *x = &self->x;

	ASSERT_EQ(0, device_up(x, 0));
	ASSERT_EQ(0, context_up(x));
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_CREATE, ENOSPC);
	EXPECT_EQ(-ENOSPC, stream_up(x, 1));
	free(x->s);
	context_down(x);
	device_down(x);
}
/* ---- one device ---------------------------------------------------------------- */

FIXTURE(umd) {
	struct side x;
	struct simnpu_desc task[65];
};

FIXTURE_SETUP(umd)
{
	fake_init();
	simnpu_sys = &fake_sys;
	up(&self->x, 0, 1000);
}

FIXTURE_TEARDOWN(umd)
{
	memset(fake.fail, 0, sizeof(fake.fail));
	down(&self->x);
	EXPECT_EQ(0, fake.live);
	fake_exit();
}

TEST_F(umd, answers)
{
	struct hal_device *dev = &self->x.dev->base;
	struct hal_mem_info mi;
	uint32_t percent;
	uint64_t ns;
	bool can;

	EXPECT_EQ(0, drv()->device->mem_info(dev, &mi));
	EXPECT_EQ(fake.info.mem_total, mi.total);
	EXPECT_EQ(fake.info.mem_free, mi.free);
	EXPECT_EQ(0, drv()->device->utilization(dev, &percent));
	EXPECT_EQ(42, percent);
	EXPECT_EQ(0, drv()->device->time(dev, &ns));
	EXPECT_EQ(77, ns);
	EXPECT_EQ(0, drv()->device->peer(dev, dev, &can));
	EXPECT_TRUE(can);
	FAKE_FAIL(SIMNPU_IOCTL_INFO, ENODEV);
	EXPECT_EQ(-ENODEV, drv()->device->mem_info(dev, &mi));
	EXPECT_EQ(-ENODEV, drv()->device->utilization(dev, &percent));
	FAKE_FAIL(SIMNPU_IOCTL_TIME, ENODEV);
	EXPECT_EQ(-ENODEV, drv()->device->time(dev, &ns));
}

TEST_F(umd, queue_as_asked_for)
{
	const struct simnpu_queue *q = FAKE_ARG(SIMNPU_IOCTL_QUEUE_CREATE, struct simnpu_queue);
	struct side y = { .dev = self->x.dev, .ctx = self->x.ctx };

	EXPECT_EQ(self->x.ctx->handle, q->context);
	EXPECT_EQ(1000, q->first_seq);
	EXPECT_EQ(0, q->flags);
	EXPECT_EQ(999, *self->x.s->base.timeline);
	y.s = make(drv()->stream->obj_size);
	y.s->base.ctx = &y.ctx->base;
	y.s->base.first_seq = 5;
	y.s->base.priority = 6;
	y.s->base.fail_mode = NPU_FAIL_STOP;
	ASSERT_EQ(0, drv()->stream->init(&y.s->base));
	EXPECT_EQ(6, q->priority);
	EXPECT_EQ(SIMNPU_QUEUE_FAIL_STOP, q->flags);
	stream_down(&y);
}

/* Arguments of every size arrive, and nothing is written behind them. */
TEST_F(umd, launch_arguments)
{
	uint8_t args[4096];
	uint32_t size, i, slots;

	for (i = 0; i < sizeof(args); i++)
		args[i] = (uint8_t)(i * 7 + 1);
	for (size = 0; size <= sizeof(args); size += size < 200 ? 1 : 487) {
		ASSERT_EQ(0, launch_full(&self->x, args, size));
		ASSERT_EQ(1, fake_take(self->x.q, self->task));
		fake_complete(self->x.q);
		slots = size <= SIMNPU_ARGS_INLINE ? 0 : (size + 63) / 64;
		ASSERT_EQ(SIMNPU_OP_LAUNCH, self->task[0].op);
		ASSERT_EQ(slots, self->task[0].slots);
		ASSERT_EQ(0, self->task[0].flags);
		ASSERT_EQ(5, self->task[0].tag);
		ASSERT_EQ(0x77, self->task[0].cookie);
		ASSERT_EQ(FAKE_KERNEL, self->task[0].launch.kernel);
		ASSERT_EQ(3, self->task[0].launch.blocks);
		ASSERT_EQ(size, self->task[0].launch.args_size);
		ASSERT_EQ(0, memcmp(args, slots ? (void *)&self->task[1] :
				    (void *)self->task[0].launch.args, size));
	}
}

TEST_F(umd, no_argument_bytes_behind)
{
	uint8_t args[SIMNPU_ARGS_INLINE], *at;
	uint32_t size, i;

	memset(args, 0xff, sizeof(args));
	for (size = 0; size < sizeof(args); size++) {
		at = self->x.s->ring.slot[self->x.s->ring.pos].launch.args;
		memset(at, 0, sizeof(args));
		ASSERT_EQ(0, launch(&self->x, args, size));
		for (i = 0; i < sizeof(args); i++)
			ASSERT_EQ(i < size ? 0xff : 0, at[i]);
	}
}

/* Submission makes no call; it says when the bell is to be rung, and then one is made. */
TEST_F(umd, doorbell)
{
	uint32_t calls = fake_calls();

	EXPECT_EQ(0, launch(&self->x, NULL, 0));
	self->x.q->header->doorbell = 1;
	EXPECT_EQ(1, launch(&self->x, NULL, 0));
	EXPECT_EQ(calls, fake_calls());
	drv()->stream->kick(&self->x.s->base);
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_KICK));
	EXPECT_EQ(self->x.s->handle, FAKE_ARG(SIMNPU_IOCTL_KICK, struct simnpu_kick)->queue);
	self->x.q->header->doorbell = 0;
	EXPECT_EQ(0, launch(&self->x, NULL, 0));
	EXPECT_EQ(calls + 1, fake_calls());
	/* both were there when the bell was rung */
	EXPECT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(1, fake_take(self->x.q, self->task));
}

TEST_F(umd, a_kick_that_fails_is_asked_for_again)
{
	self->x.q->header->doorbell = 1;
	EXPECT_EQ(1, launch(&self->x, NULL, 0));
	FAKE_FAIL(SIMNPU_IOCTL_KICK, ENOMEM);
	drv()->stream->kick(&self->x.s->base);
	EXPECT_EQ(1, launch(&self->x, NULL, 0));
}

TEST_F(umd, copies)
{
	const struct hal_task t = { .seq = 1000 }, t2 = { .seq = 1001 };
	struct hal_copy c = {
		.dst = (void *)0x1000, .src = (void *)0x2000, .dst_pitch = 96, .src_pitch = 64,
		.width = 48, .height = 1, .kind = NPU_COPY_H2D,
	};
	const struct simnpu_desc_pitch *p = (const void *)&self->task[1];

	ASSERT_EQ(0, drv()->stream->copy(&self->x.s->base, &t, &c));
	c.height = 9;
	c.kind = NPU_COPY_D2H;
	ASSERT_EQ(0, drv()->stream->copy(&self->x.s->base, &t2, &c));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(SIMNPU_OP_COPY, self->task[0].op);
	EXPECT_EQ(0x1000, self->task[0].copy.dst);
	EXPECT_EQ(0x2000, self->task[0].copy.src);
	EXPECT_EQ(48, self->task[0].copy.size);
	EXPECT_EQ(SIMNPU_COPY_TO_DEVICE, self->task[0].copy.kind);
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(SIMNPU_OP_COPY_2D, self->task[0].op);
	EXPECT_EQ(1, self->task[0].slots);
	EXPECT_EQ(0x1000, self->task[0].copy_2d.dst);
	EXPECT_EQ(0x2000, self->task[0].copy_2d.src);
	EXPECT_EQ(48, self->task[0].copy_2d.width);
	EXPECT_EQ(9, self->task[0].copy_2d.height);
	EXPECT_EQ(SIMNPU_COPY_TO_HOST, self->task[0].copy_2d.kind);
	EXPECT_EQ(96, p->dst_pitch);
	EXPECT_EQ(64, p->src_pitch);
}

TEST_F(umd, copy_kinds)
{
	struct hal_copy c = { .kind = NPU_COPY_D2D };

	EXPECT_EQ(SIMNPU_COPY_ON_DEVICE, simnpu_copy_kind(&c));
	c.peer = true;
	EXPECT_EQ(SIMNPU_COPY_PEER, simnpu_copy_kind(&c));
	c.kind = NPU_COPY_H2D;
	EXPECT_EQ(SIMNPU_COPY_TO_DEVICE, simnpu_copy_kind(&c));
	c.kind = NPU_COPY_D2H;
	EXPECT_EQ(SIMNPU_COPY_TO_HOST, simnpu_copy_kind(&c));
}

/* Slots are used again: what the last task left there must not be taken for padding. */
TEST_F(umd, padding_is_zero)
{
	const struct hal_task t = { .seq = 1000 };
	const struct hal_copy c = { .width = 1, .height = 1, .kind = NPU_COPY_H2D };
	const struct hal_copy c2 = { .width = 1, .height = 2, .kind = NPU_COPY_H2D };
	static const struct simnpu_stamp e;
	const struct hal_stream_ops *ops = drv()->stream;
	struct hal_stream *s = &self->x.s->base;
	struct simnpu_ring *r = &self->x.s->ring;
	struct simnpu_desc *d;
	int i, k;

	ASSERT_EQ(0, launch(&self->x, NULL, 0));
	for (i = 0; i < 6; i++) {
		d = &r->slot[r->pos];
		memset(d, 0xff, 2 * sizeof(*d));
		ASSERT_EQ(0, i == 0 ? ops->copy(s, &t, &c) :
			     i == 1 ? ops->copy(s, &t, &c2) :
			     i == 2 ? ops->fill(s, &t, NULL, 0, 0) :
			     i == 3 ? ops->wait(s, &t, s, 0) :
			     i == 4 ? ops->record(s, &t, (struct hal_event *)&e.base) :
				      launch(&self->x, NULL, 0));
		for (k = 0; k < 3; k++) {
			EXPECT_EQ(0, i == 0 ? d->copy.pad[k] : 0);
			EXPECT_EQ(0, i == 1 ? d[1].word[k + 2] : 0);
			EXPECT_EQ(0, i == 2 ? d->fill.pad[k + 2] : 0);
			EXPECT_EQ(0, i == 3 ? d->wait.pad2[k] : 0);
			EXPECT_EQ(0, i == 4 ? d->record.pad[k * 4] : 0);
		}
		EXPECT_EQ(0, i == 1 ? d->copy_2d.pad : i == 3 ? d->wait.pad : 0);
	}
}

TEST_F(umd, fill_and_record)
{
	const struct hal_task t = { .seq = 1000 }, t2 = { .seq = 1001 };
	struct simnpu_stamp *e = make(drv()->event->obj_size);
	uint64_t ns;

	e->base.ctx = &self->x.ctx->base;
	ASSERT_EQ(0, drv()->event->init(&e->base));
	ASSERT_EQ(0, drv()->stream->fill(&self->x.s->base, &t, (void *)0x3000, -1, 50));
	ASSERT_EQ(0, drv()->stream->record(&self->x.s->base, &t2, &e->base));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(SIMNPU_OP_FILL, self->task[0].op);
	EXPECT_EQ(0x3000, self->task[0].fill.dst);
	EXPECT_EQ(50, self->task[0].fill.size);
	EXPECT_EQ(255, self->task[0].fill.value);
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(SIMNPU_OP_RECORD, self->task[0].op);
	EXPECT_EQ(e->handle, self->task[0].record.event);
	*(uint64_t *)(fake.arena + e->stamp) = 4711;
	EXPECT_EQ(0, drv()->event->timestamp(&e->base, &ns));
	EXPECT_EQ(4711, ns);
	drv()->event->fini(&e->base);
	free(e);
}

TEST_F(umd, event_refused)
{
	struct simnpu_stamp *e = make(drv()->event->obj_size);

	e->base.ctx = &self->x.ctx->base;
	FAKE_FAIL(SIMNPU_IOCTL_EVENT_CREATE, ENOSPC);
	EXPECT_EQ(-ENOSPC, drv()->event->init(&e->base));
	free(e);
}

TEST_F(umd, wait_on_the_same_device)
{
	const struct hal_task t = { .seq = 1000 };
	struct side y = { .dev = self->x.dev, .ctx = self->x.ctx };

	ASSERT_EQ(0, stream_up(&y, 1));
	EXPECT_EQ(0, drv()->stream->prepare_wait(&self->x.s->base, &y.s->base));
	ASSERT_EQ(0, drv()->stream->wait(&self->x.s->base, &t, &y.s->base, 12));
	ASSERT_EQ(1, fake_take(self->x.q, self->task));
	EXPECT_EQ(SIMNPU_OP_WAIT, self->task[0].op);
	EXPECT_EQ(y.s->handle, self->task[0].wait.queue);
	EXPECT_EQ(12, self->task[0].wait.seq);
	EXPECT_EQ(0, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_EXPORT));
	stream_down(&y);
}

/* ---- waiting and errors ------------------------------------------------------------ */

TEST_F(umd, wait_host)
{
	const struct simnpu_wait *w = FAKE_ARG(SIMNPU_IOCTL_WAIT, struct simnpu_wait);
	struct hal_stream *s = &self->x.s->base;

	EXPECT_EQ(0, drv()->stream->wait_host(s, 1234, 99, NPU_WAIT_BLOCK | HAL_WAIT_NO_BORROW));
	EXPECT_EQ(1234, w->seq);
	EXPECT_EQ(99, w->deadline_ns);
	EXPECT_EQ(self->x.s->handle, w->queue);
	EXPECT_EQ(SIMNPU_WAIT_BLOCK | SIMNPU_WAIT_NO_BORROW, w->flags);
	EXPECT_EQ(0, drv()->stream->wait_host(s, 1, UINT64_MAX, NPU_WAIT_SPIN));
	EXPECT_EQ(SIMNPU_DEADLINE_NONE, w->deadline_ns);
	EXPECT_EQ(SIMNPU_WAIT_SPIN, w->flags);
	FAKE_FAIL(SIMNPU_IOCTL_WAIT, ETIME);
	EXPECT_EQ(-ETIMEDOUT, drv()->stream->wait_host(s, 1, 0, 0));
	FAKE_FAIL(SIMNPU_IOCTL_WAIT, ENODEV);
	EXPECT_EQ(-ENODEV, drv()->stream->wait_host(s, 1, 0, 0));
}

TEST_F(umd, notify)
{
	const struct simnpu_notify *n = FAKE_ARG(SIMNPU_IOCTL_NOTIFY, struct simnpu_notify);

	EXPECT_EQ(0, drv()->stream->notify(&self->x.s->base, 1005, 3));
	EXPECT_EQ(1005, n->seq);
	EXPECT_EQ(3, n->fd);
	EXPECT_EQ(self->x.s->handle, n->queue);
	FAKE_FAIL(SIMNPU_IOCTL_NOTIFY, ENOMEM);
	EXPECT_EQ(-ENOMEM, drv()->stream->notify(&self->x.s->base, 1005, 3));
}

TEST_F(umd, errors)
{
	struct side y = { .dev = self->x.dev, .ctx = self->x.ctx };
	struct hal_task_error e[4];
	uint64_t dropped = 10;

	ASSERT_EQ(0, stream_up(&y, 1));
	fake.errors[0] = (struct simnpu_task_error){
		.seq = 1001, .origin_seq = 1001, .cookie = 0x77, .addr = 0xdead, .code = EFAULT,
		.op = SIMNPU_OP_LAUNCH, .tag = 5, .origin_queue = self->x.s->handle,
	};
	fake.errors[1] = (struct simnpu_task_error){
		.seq = 1002, .origin_seq = 3, .code = EIO, .op = SIMNPU_OP_COPY_2D,
		.origin_queue = y.s->handle,
	};
	fake.errors[2] = (struct simnpu_task_error){ .seq = 1003, .code = EIO, .op = 200,
						     .origin_queue = 9999, .origin_seq = 4 };
	fake.error_count = 3;
	fake.error_dropped = 2;
	ASSERT_EQ(2, drv()->stream->errors(&self->x.s->base, e, 2, &dropped));
	EXPECT_EQ(sizeof(struct simnpu_task_error),
		  FAKE_ARG(SIMNPU_IOCTL_QUEUE_ERRORS, struct simnpu_errors)->entry_size);
	EXPECT_EQ(12, dropped);
	EXPECT_EQ(1001, e[0].seq);
	EXPECT_EQ(-EFAULT, e[0].code);
	EXPECT_STREQ("launch", e[0].op);
	EXPECT_EQ(0x77, e[0].place);
	EXPECT_EQ(0xdead, e[0].addr);
	EXPECT_EQ(5, e[0].tag);
	EXPECT_EQ(0, e[0].origin_stream);
	EXPECT_EQ(0, e[0].origin_seq);
	EXPECT_STREQ("copy", e[1].op);
	EXPECT_EQ(hal_load_relaxed(&y.s->base.handle), e[1].origin_stream);
	EXPECT_EQ(3, e[1].origin_seq);
	ASSERT_EQ(1, drv()->stream->errors(&self->x.s->base, e, 4, &dropped));
	EXPECT_EQ(12, dropped);
	EXPECT_STREQ("task", e[0].op);
	/* nobody knows it any more; its number is still told */
	EXPECT_EQ(0, e[0].origin_stream);
	EXPECT_EQ(4, e[0].origin_seq);
	EXPECT_EQ(0, drv()->stream->errors(&self->x.s->base, e, 4, &dropped));
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_ERRORS, ENODEV);
	EXPECT_EQ(-ENODEV, drv()->stream->errors(&self->x.s->base, e, 4, &dropped));
	stream_down(&y);
}
/* ---- memory, modules ----------------------------------------------------------------- */

static struct simnpu_memory *memory(struct side *x, size_t size, uint32_t flags)
{
	struct simnpu_memory *m = make(drv()->memory->obj_size);

	m->base.ctx = &x->ctx->base;
	m->base.size = size;
	m->base.real_size = (size + 511) & ~(size_t)511;
	m->base.flags = flags;
	return m;
}

TEST_F(umd, device_memory)
{
	const struct simnpu_mem *c = FAKE_ARG(SIMNPU_IOCTL_MEM_CREATE, struct simnpu_mem);
	struct simnpu_memory *m = memory(&self->x, 100, HAL_MEM_HUGE_ONLY);

	ASSERT_EQ(0, drv()->memory->alloc(&m->base));
	EXPECT_EQ(100, c->size);	/* to the byte, as accesses are checked */
	EXPECT_EQ(self->x.ctx->handle, c->context);
	EXPECT_EQ(SIMNPU_MEM_HUGE, c->flags);
	EXPECT_EQ(fake.info.va_start, (uintptr_t)m->base.addr);
	drv()->memory->free(&m->base);
	EXPECT_EQ(m->handle, FAKE_ARG(SIMNPU_IOCTL_MEM_DESTROY, struct simnpu_mem_free)->handle);
	m->base.flags = HAL_MEM_HUGE_FIRST;
	ASSERT_EQ(0, drv()->memory->alloc(&m->base));
	EXPECT_EQ(SIMNPU_MEM_HUGE_FIRST, c->flags);
	drv()->memory->free(&m->base);
	FAKE_FAIL(SIMNPU_IOCTL_MEM_CREATE, ENOMEM);
	EXPECT_EQ(-ENOMEM, drv()->memory->alloc(&m->base));
	free(m);
}

TEST_F(umd, host_memory)
{
	struct simnpu_memory *m = memory(&self->x, 8192, 0);

	ASSERT_EQ(0, drv()->memory->host_alloc(&m->base));
	EXPECT_EQ(SIMNPU_MEM_HOST, FAKE_ARG(SIMNPU_IOCTL_MEM_CREATE, struct simnpu_mem)->flags);
	EXPECT_EQ(fake.arena + 4096, (char *)m->base.addr);
	drv()->memory->host_free(&m->base);
	FAKE_FAIL(SIMNPU_IOCTL_MEM_CREATE, ENOMEM);
	EXPECT_EQ(-ENOMEM, drv()->memory->host_alloc(&m->base));
	FAKE_FAIL(SIMNPU_IOCTL_MEM_CREATE, 0);
	fake.fail_mmap = EAGAIN;
	EXPECT_EQ(-EAGAIN, drv()->memory->host_alloc(&m->base));
	EXPECT_EQ(2, FAKE_CALLS(SIMNPU_IOCTL_MEM_DESTROY));
	fake.fail_mmap = 0;
	free(m);
}

TEST_F(umd, registered_memory)
{
	const struct simnpu_register *r =
		FAKE_ARG(SIMNPU_IOCTL_MEM_REGISTER, struct simnpu_register);
	struct simnpu_memory *m = memory(&self->x, 5000, 0);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	m->base.addr = (void *)(16 * page + 4000);
	ASSERT_EQ(0, drv()->memory->host_register(&m->base));
	EXPECT_EQ(16 * page, r->addr);
	EXPECT_EQ((9000 + page - 1) / page * page, r->size);
	drv()->memory->host_unregister(&m->base);
	FAKE_FAIL(SIMNPU_IOCTL_MEM_REGISTER, EFAULT);
	EXPECT_EQ(-EFAULT, drv()->memory->host_register(&m->base));
	free(m);
}

TEST_F(umd, copy_now)
{
	const struct simnpu_copy *c = FAKE_ARG(SIMNPU_IOCTL_COPY, struct simnpu_copy);
	const struct hal_copy h = {
		.dst = (void *)1, .src = (void *)2, .dst_pitch = 3, .src_pitch = 4, .width = 5,
		.height = 6, .kind = NPU_COPY_D2D, .peer = true,
	};

	EXPECT_EQ(0, drv()->memory->copy(&self->x.ctx->base, &h));
	EXPECT_EQ(1, c->dst);
	EXPECT_EQ(2, c->src);
	EXPECT_EQ(3, c->dst_pitch);
	EXPECT_EQ(4, c->src_pitch);
	EXPECT_EQ(5, c->width);
	EXPECT_EQ(6, c->height);
	EXPECT_EQ(SIMNPU_COPY_PEER, c->kind);
	EXPECT_EQ(0, drv()->memory->fill(&self->x.ctx->base, (void *)9, -2, 70));
	EXPECT_EQ(9, c->dst);
	EXPECT_EQ(254, c->src);
	EXPECT_EQ(70, c->dst_pitch);
	EXPECT_EQ(0, c->src_pitch);
	EXPECT_EQ(70, c->width);
	EXPECT_EQ(1, c->height);
	EXPECT_EQ(0, c->kind);
	FAKE_FAIL(SIMNPU_IOCTL_COPY, EFAULT);
	EXPECT_EQ(-EFAULT, drv()->memory->copy(&self->x.ctx->base, &h));
	EXPECT_EQ(-EFAULT, drv()->memory->fill(&self->x.ctx->base, (void *)9, 0, 70));
}

TEST_F(umd, window)
{
	const struct simnpu_window *w = FAKE_ARG(SIMNPU_IOCTL_MEM_WINDOW, struct simnpu_window);
	struct simnpu_memory *m = memory(&self->x, 8192, 0);
	void *host = NULL;

	m->base.addr = (void *)0x10000;
	EXPECT_EQ(0, drv()->memory->window_open(&m->base, 0x100, 50, &host));
	EXPECT_EQ(0x10100, w->addr);
	EXPECT_EQ(50, w->size);
	EXPECT_EQ(1, w->flags);
	EXPECT_EQ((void *)0x5000, host);
	drv()->memory->window_close(&m->base, 0x100, 50);
	EXPECT_EQ(0, w->flags);
	FAKE_FAIL(SIMNPU_IOCTL_MEM_WINDOW, ENOMEM);
	EXPECT_EQ(-ENOMEM, drv()->memory->window_open(&m->base, 0, 50, &host));
	free(m);
}

TEST_F(umd, modules)
{
	const struct simnpu_module *a = FAKE_ARG(SIMNPU_IOCTL_MODULE_LOAD, struct simnpu_module);
	const struct simnpu_kernel *k = FAKE_ARG(SIMNPU_IOCTL_KERNEL_GET, struct simnpu_kernel);
	static const int refusals[] = { ENOENT, EACCES, ENOEXEC, EPROTO, ENOMEM };
	struct simnpu_mod *m = make(drv()->kernel->module_size);
	uint64_t token = 0;
	size_t i;

	m->base.ctx = &self->x.ctx->base;
	ASSERT_EQ(0, drv()->kernel->load_builtin(&m->base));
	EXPECT_EQ(SIMNPU_MODULE_BUILTIN, a->kind);
	EXPECT_EQ(0, a->size);
	EXPECT_EQ(0, drv()->kernel->get(&m->base, "nop", &token));
	EXPECT_EQ(FAKE_KERNEL, token);
	EXPECT_EQ(4, k->size);
	EXPECT_EQ(m->handle, k->module);
	FAKE_FAIL(SIMNPU_IOCTL_KERNEL_GET, ESRCH);
	EXPECT_EQ(-ESRCH, drv()->kernel->get(&m->base, "nop", &token));
	drv()->kernel->unload(&m->base);
	ASSERT_EQ(0, drv()->kernel->load_file(&m->base, "a.so"));
	EXPECT_EQ(SIMNPU_MODULE_PATH, a->kind);
	EXPECT_EQ(5, a->size);
	drv()->kernel->unload(&m->base);
	ASSERT_EQ(0, drv()->kernel->load_data(&m->base, "abc", 3));
	EXPECT_EQ(SIMNPU_MODULE_IMAGE, a->kind);
	EXPECT_EQ(3, a->size);
	drv()->kernel->unload(&m->base);
	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		FAKE_FAIL(SIMNPU_IOCTL_MODULE_LOAD, refusals[i]);
		EXPECT_EQ(-refusals[i], drv()->kernel->load_file(&m->base, "a.so"));
	}
	free(m);
}

/* Objects end whatever the device says to it. */
TEST_F(umd, destroys_that_fail)
{
	struct side y = { .dev = self->x.dev };
	int live = fake.live;

	ASSERT_EQ(0, context_up(&y));
	ASSERT_EQ(0, stream_up(&y, 1));
	FAKE_FAIL(SIMNPU_IOCTL_QUEUE_DESTROY, EIO);
	FAKE_FAIL(SIMNPU_IOCTL_CONTEXT_DESTROY, EIO);
	stream_down(&y);
	context_down(&y);
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_QUEUE_DESTROY));
	EXPECT_EQ(1, FAKE_CALLS(SIMNPU_IOCTL_CONTEXT_DESTROY));
	EXPECT_EQ(live + 2, fake.live);
	fake.live = live;
	EXPECT_EQ(0, simnpu_stream_name(self->x.dev, 0));
}

TEST_HARNESS_MAIN
