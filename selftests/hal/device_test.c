// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: devices.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

CONFORMANCE(device)

/* C-DEV-1 */
TEST_F(device, info_stays)
{
	struct hal_device_info before, now, asked;
	void *p = NULL;
	uint64_t s = 0;

	before = self->b.dev->info;
	ASSERT_EQ(0, hal_driver_info(self->b.drv, 0, &asked));
	if (can(&self->b, NPU_CAP_MEM))
		ASSERT_EQ(0, hal_mem_alloc(self->b.ctx, 1 << 16, 0, &p));
	if (can(&self->b, NPU_CAP_STREAM))
		ASSERT_EQ(0, make_stream(&self->b, &s));
	now = self->b.dev->info;
	EXPECT_EQ(0, memcmp(&before, &now, sizeof(now)));
	EXPECT_EQ(before.caps, asked.caps);
	EXPECT_EQ(before.mem_total, asked.mem_total);
	EXPECT_EQ(before.max_streams, asked.max_streams);
	EXPECT_STREQ(before.name, asked.name);
}

TEST_F(device, limits_make_sense)
{
	const struct hal_device_info *i = &self->b.dev->info;

	EXPECT_NE('\0', i->name[0]);
	EXPECT_NE('\0', i->bus_id[0]);
	EXPECT_NE(NULL, memchr(i->name, 0, sizeof(i->name)));
	if (can(&self->b, NPU_CAP_MEM)) {
		EXPECT_LT(0, i->mem_total);
		EXPECT_LT(0, i->mem_align);
		EXPECT_EQ(0, i->mem_align & (i->mem_align - 1));
		EXPECT_LE(i->mem_total, i->va_size);
		EXPECT_LT(i->va_start, i->va_start + i->va_size);
	} else {
		EXPECT_EQ(0, i->mem_total);
	}
	if (can(&self->b, NPU_CAP_STREAM)) {
		EXPECT_LT(0, i->max_streams);
		EXPECT_LT(0, i->max_contexts);
		EXPECT_LT(0, i->max_queued);
		EXPECT_LE(1, i->priorities);
		if (!can(&self->b, NPU_CAP_PRIORITY))
			EXPECT_EQ(1, i->priorities);
	}
	if (can(&self->b, NPU_CAP_LAUNCH)) {
		EXPECT_LT(0, i->cores);
		EXPECT_LT(0, i->blocks_max);
		EXPECT_LE(16, i->args_max);
	}
	EXPECT_EQ(!can(&self->b, NPU_CAP_VMM), !i->mem_granularity);
}

/* C-DEV-2 */
TEST_F(device, free_memory_falls_and_rises)
{
	struct hal_mem_info a, b, c;
	size_t size = 1 << 20;
	void *p;

	CAP_OR_REFUSED(&self->b, NPU_CAP_MEM, hal_device_mem_info(self->b.dev, &a));
	ASSERT_EQ(0, hal_device_mem_info(self->b.dev, &a));
	EXPECT_LE(a.free, a.total);
	EXPECT_EQ(self->b.dev->info.mem_total, a.total);
	EXPECT_EQ(0, a.used);
	ASSERT_EQ(0, hal_mem_alloc(self->b.ctx, size, 0, &p));
	ASSERT_EQ(0, hal_device_mem_info(self->b.dev, &b));
	EXPECT_LE(size, a.free - b.free);
	EXPECT_LE(size, b.used);
	ASSERT_EQ(0, hal_mem_free(p));
	ASSERT_EQ(0, hal_device_mem_info(self->b.dev, &c));
	EXPECT_EQ(a.free, c.free);
	EXPECT_EQ(0, c.used);
}

/* C-DEV-3 */
TEST_ABOUT(device, clock_never_goes_back, NPU_CAP_EVENT_TIMING)
{
	uint64_t last, now;
	int i;

	CAP_OR_REFUSED(&self->b, NPU_CAP_EVENT_TIMING, hal_device_time(self->b.dev, &now));
	ASSERT_EQ(0, hal_device_time(self->b.dev, &last));
	for (i = 0; i < 1000; i++) {
		ASSERT_EQ(0, hal_device_time(self->b.dev, &now));
		ASSERT_LE(last, now);
		last = now;
	}
	sleep_ms(2);
	ASSERT_EQ(0, hal_device_time(self->b.dev, &now));
	EXPECT_LT(last, now);
}

/* C-DEV-4 */
TEST_F(device, closes_and_opens_again)
{
	struct hal_mem_info before, after;
	uint64_t s;
	void *p;
	int i;

	if (can(&self->b, NPU_CAP_MEM)) {
		ASSERT_EQ(0, hal_device_mem_info(self->b.dev, &before));
		ASSERT_EQ(0, hal_mem_alloc(self->b.ctx, 1 << 20, 0, &p));
	}
	for (i = 0; can(&self->b, NPU_CAP_STREAM) && i < 20; i++)
		ASSERT_EQ(0, make_stream(&self->b, &s));
	ASSERT_EQ(0, bed_close(&self->b));
	ASSERT_EQ(0, bed_open(&self->b, variant->driver, variant->part, variant->caps,
			      variant->timeline));
	if (can(&self->b, NPU_CAP_MEM)) {
		ASSERT_EQ(0, hal_device_mem_info(self->b.dev, &after));
		EXPECT_EQ(before.free, after.free);
		EXPECT_EQ(0, after.used);
	}
	for (i = 0; can(&self->b, NPU_CAP_STREAM) && i < 20; i++)
		ASSERT_EQ(0, make_stream(&self->b, &s));
}

/* A device that is open already is the same one; one that does not exist is an error. */
TEST_F(device, opens_once)
{
	struct hal_device *dev;
	uint32_t n;

	ASSERT_EQ(0, hal_device_open(self->b.drv, 0, &dev));
	EXPECT_EQ(self->b.dev, dev);
	hal_device_put(dev);
	ASSERT_EQ(0, hal_driver_count(self->b.drv, &n));
	ASSERT_LE(1, n);
	EXPECT_EQ(-ENODEV, hal_device_open(self->b.drv, n, &dev));
	EXPECT_EQ(NULL, dev);
	EXPECT_EQ(-ENODEV, hal_device_open(self->b.drv, UINT32_MAX, &dev));
}

/* What the driver answers to questions, which it does not come up for. */
static int answers(const struct hal_driver *drv, uint32_t *n, struct hal_device_info *info)
{
	struct hal_device_info none;
	int rc;

	memset(info, 0, sizeof(*info));
	rc = drv->ops->count(n);
	if (!rc)
		rc = drv->ops->info(0, info);
	/* where its addresses lie is known when it is open */
	info->va_start = info->va_size = 0;
	return rc ? rc : drv->ops->info(*n, &none) == -ENODEV ? 0 : -EPROTO;
}

/* C-DRV-1 */
TEST_F(device, questions_at_any_time)
{
	const struct hal_driver *drv = self->b.drv;
	struct hal_device_info open, closed, child;
	uint32_t n, m;
	int status, pid;

	ASSERT_EQ(0, answers(drv, &n, &open));
	ASSERT_LE(1, n);
	ASSERT_EQ(0, bed_close(&self->b));
	self->b = (struct bed){ .drv = drv };
	ASSERT_EQ(0, answers(drv, &m, &closed));
	EXPECT_EQ(n, m);
	EXPECT_EQ(0, memcmp(&open, &closed, sizeof(open)));
	ASSERT_EQ(0, bed_open(&self->b, variant->driver, variant->part, variant->caps,
			      variant->timeline));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(answers(drv, &m, &child) || m != n || memcmp(&open, &child, sizeof(open)));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(device, questions)
{
	struct hal_device_info info;
	uint32_t percent, n;
	bool peer = true;
	int rc;

	rc = hal_device_utilization(self->b.dev, &percent);
	if (self->b.drv->device->utilization) {
		EXPECT_EQ(0, rc);
		EXPECT_LE(percent, 100);
	} else {
		EXPECT_EQ(-EOPNOTSUPP, rc);
	}
	ASSERT_EQ(0, hal_driver_count(self->b.drv, &n));
	EXPECT_EQ(-ENODEV, hal_driver_info(self->b.drv, n, &info));
	EXPECT_EQ(0, hal_device_peer(self->b.dev, self->b.dev, &peer));
	if (!can(&self->b, NPU_CAP_PEER))
		EXPECT_FALSE(peer);
}

TEST_HARNESS_MAIN
