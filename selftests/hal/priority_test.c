// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: priorities.
 */
#include <pthread.h>

#include "selftests/hal/bed.h"

#if IS_ENABLED(CONFIG_DRV_SIMNPU)
#include "drivers/simnpu/simnpu_test.h"
#endif

CONFORMANCE(priority)

static void ran(void *arg)
{
	_Atomic uint32_t *n = arg;

	++*n;
}

TEST_ABOUT(priority, every_one_runs, NPU_CAP_PRIORITY)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { .priority = 1 };
	_Atomic uint32_t n[2] = { 0, 0 };
	struct hal_point p;
	uint64_t s, lo, hi;
	struct gate g;

	STREAM_OR_REFUSED(b, &s);
	if (!can(b, NPU_CAP_PRIORITY)) {
		EXPECT_EQ(-EINVAL, hal_stream_create(b->ctx, &attr, &lo));
		return;
	}
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	attr.priority = b->dev->info.priorities - 1;
	ASSERT_EQ(0, hal_stream_create(b->ctx, &attr, &lo));
	attr.priority = 0;
	ASSERT_EQ(0, hal_stream_create(b->ctx, &attr, &hi));
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_stream_point(s, &p, "test"));
	ASSERT_EQ(0, hal_stream_wait_point(lo, &p, PLACE));
	ASSERT_EQ(0, hal_stream_wait_point(hi, &p, PLACE));
	ASSERT_EQ(0, hal_stream_callback(lo, ran, &n[0], 0, PLACE));
	ASSERT_EQ(0, hal_stream_callback(hi, ran, &n[1], 0, PLACE));
	gate_open(&g);
	EXPECT_EQ(0, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(1, (int)n[0]);
	EXPECT_EQ(1, (int)n[1]);
}

/*
 * The device starts nothing from hold() to let_go(). That takes a back door; a driver that has
 * none says so by false, and its order can't be tested, as nothing else tells when the device has
 * come to know of a task.
 */
static bool hold(const struct bed *b)
{
	if (b->drv == &fake_driver) {
		fake_pause(true);
		return true;
	}
#if IS_ENABLED(CONFIG_DRV_SIMNPU)
	if (!strcmp(b->drv->name, "simnpu")) {
		simnpu_test_pause(b->dev->index, true);
		return true;
	}
#endif
	return false;
}

/* Once the device knows of the work in so many streams. */
static void let_go(const struct bed *b, uint32_t streams)
{
	if (b->drv == &fake_driver) {
		fake_pause(false);	/* it looks at all of them each time */
		return;
	}
#if IS_ENABLED(CONFIG_DRV_SIMNPU)
	struct simnpu_test_counters before, now;
	struct simnpu_test_device d;

	do {
		sched_yield();
		simnpu_test_device(b->dev->index, &d);
	} while (d.active < streams);
	/* they came into the set in a look that the next one waits for */
	simnpu_test_counters(&before);
	do {
		sched_yield();
		simnpu_test_counters(&now);
	} while (now.looks == before.looks);
	simnpu_test_pause(b->dev->index, false);
#endif
}

/* y = x + z, of one float each */
static int launch_add(uint64_t s, uint64_t kernel, float *y, float *x, float *z)
{
	struct npu_simnpu_rows_args a = {
		.x = (uintptr_t)x, .y = (uintptr_t)y, .z = (uintptr_t)z, .rows = 1, .cols = 1,
	};

	return hal_stream_launch(s, kernel, 1, &a, sizeof(a), PLACE);
}

/* The one core counts the streams as it comes to them: the count of each is its place. */
TEST_ABOUT(priority, higher_ones_run_first, NPU_CAP_PRIORITY)
{
	struct bed *b = &self->b;
	struct hal_stream_attr attr = { 0 };
	float *m, in[3] = { 0, 1, 0 }, out[32];
	uint32_t i, n = b->dev->info.priorities;
	uint64_t s, add;

	STREAM_OR_REFUSED(b, &s);
	LAUNCH_IN_STREAM_OR_REFUSED(b, s);
	if (!can(b, NPU_CAP_PRIORITY)) {
		EXPECT_EQ(1, n);
		return;
	}
	bed_cores = "1";
	ASSERT_EQ(0, bed_close(b));
	ASSERT_EQ(0, bed_open(b, variant->driver, variant->part, variant->caps,
			      variant->timeline));
	if (b->dev->info.cores != 1)
		SKIP(return, "the device has %u cores", b->dev->info.cores);
	ASSERT_LE(2, n);
	ASSERT_GE(ARRAY_SIZE(out), n);
	MEMORY_OR_REFUSED(b, 4096, &m);
	ASSERT_EQ(0, copy_now(b, m, in, sizeof(in)));
	ASSERT_EQ(0, hal_kernel_get(b->module, "bias_f32", &add));
	if (!hold(b))
		SKIP(return, "driver %s has no way to hold its devices", b->drv->name);
	/* the last shall be the first */
	for (i = n; i--;) {
		attr.priority = i;
		ASSERT_EQ(0, hal_stream_create(b->ctx, &attr, &s));
		ASSERT_EQ(0, launch_add(s, add, m, m, m + 1));
		ASSERT_EQ(0, launch_add(s, add, m + 16 + i, m, m + 2));
	}
	let_go(b, n);
	ASSERT_EQ(0, hal_context_sync(b->ctx, LONG_MS, HAL_WAIT_NO_BORROW));
	ASSERT_EQ(0, copy_now(b, out, m + 16, n * sizeof(*m)));
	for (i = 0; i < n; i++)
		EXPECT_EQ(i + 1, (uint32_t)out[i]);
}

TEST_HARNESS_MAIN
