/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bed that each conformance test lies in: a driver, its first device, a
 * context, a module, and a few ways to use them.
 */
#ifndef SELFTESTS_HAL_BED_H
#define SELFTESTS_HAL_BED_H

#include "selftests/npu_kselftest.h"

#include "hal/context.h"
#include "hal/event.h"
#include "hal/handle.h"
#include "hal/kernel.h"
#include "hal/memory.h"
#include "hal/stream.h"
#include "hal/sys.h"
#include "npu/simnpu_ops.h"
#include "selftests/fakes/driver.h"
#include "selftests/hal/backends.h"
#include "selftests/hal/xfail.h"

#define FOREVER NPU_WAIT_FOREVER
#define PLACE ((uint64_t)(uintptr_t)__builtin_return_address(0))
/* Where launch_bad() says that it is. */
#define BAD_PLACE 0xbadu
/* Time that nothing in these tests may need: a bug, not a slow machine. */
#define LONG_MS 20000

struct bed {
	const struct hal_driver *drv;
	struct hal_device *dev;
	struct hal_context *ctx;
	uint64_t ctx_handle;
	uint64_t module;
	uint64_t nop, inc, delay;
	uint64_t caps;
};

static const char *bed_part;
static const char *bed_memory;	/* instead of what the part has, or NULL */
static const char *bed_cores;

static const char *bed_option(const char *name)
{
	if (!strcmp(name, "simnpu_memory"))
		return bed_memory;
	if (!strcmp(name, "simnpu_cores"))
		return bed_cores;
	return strcmp(name, "simnpu_part") ? NULL : bed_part;
}

static const struct hal_option_reader bed_reader = { bed_option };

/* 0, or -ENOENT: the driver is not in this build. */
static inline int bed_open(struct bed *b, const char *driver, const char *part, uint64_t caps,
			   bool timeline)
{
	int rc;

	memset(b, 0, sizeof(*b));
	fake_reset();
	if (caps)
		fake_set_caps(caps & fake_all_caps());
	fake_set_timeline(timeline);
	bed_part = part;
	hal_option_set_reader(&bed_reader);
	b->drv = hal_driver_find(driver);
	if (!b->drv)
		return -ENOENT;
	rc = hal_device_open(b->drv, 0, &b->dev);
	if (rc)
		return rc;
	b->caps = b->dev->info.caps;
	rc = hal_context_create(b->dev, &b->ctx_handle);
	if (rc)
		return rc;
	b->ctx = hal_context_get(b->ctx_handle, "test");
	if (!(b->caps & NPU_CAP_LAUNCH))
		return 0;
	rc = hal_module_load_builtin(b->ctx, &b->module);
	if (!rc)
		rc = hal_kernel_get(b->module, "nop", &b->nop);
	if (!rc)
		rc = hal_kernel_get(b->module, "inc_u64", &b->inc);
	if (!rc)
		rc = hal_kernel_get(b->module, "delay_ns", &b->delay);
	return rc;
}

static inline int bed_close(struct bed *b)
{
	int rc = 0;

	if (b->ctx_handle)
		rc = hal_context_destroy(b->ctx_handle, LONG_MS);
	hal_context_put(b->ctx);
	hal_device_put(b->dev);
	return rc;
}

static inline bool can(const struct bed *b, uint64_t caps)
{
	return (b->caps & caps) == caps;
}

/* ---- streams ---- */

static inline int make_stream(struct bed *b, uint64_t *s)
{
	struct hal_stream_attr attr = { 0 };

	return hal_stream_create(b->ctx, &attr, s);
}

static inline int launch_nop(struct bed *b, uint64_t s)
{
	return hal_stream_launch(s, b->nop, 1, NULL, 0, PLACE);
}

/*
 * A task that does nothing that one sees, of any kind that the device has: a launch, or a fill of
 * the byte that is given, or a callback if there is none. Callbacks may wait for each other.
 */
static inline void callback_nop(void *arg)
{
	(void)arg;
}

static inline int any_task(struct bed *b, uint64_t s, void *byte)
{
	if (can(b, NPU_CAP_LAUNCH))
		return launch_nop(b, s);
	if (byte)
		return hal_stream_fill(s, byte, 0, 1, PLACE);
	return hal_stream_callback(s, callback_nop, NULL, 0, PLACE);
}

/* The byte for it, which goes with the context. */
static inline int any_byte(struct bed *b, void **byte)
{
	*byte = NULL;
	return can(b, NPU_CAP_MEM) ? hal_mem_alloc(b->ctx, 64, 0, byte) : 0;
}

static inline int launch_inc(struct bed *b, uint64_t s, void *addr, uint64_t by)
{
	struct npu_simnpu_inc_args a = { (uintptr_t)addr, by };

	return hal_stream_launch(s, b->inc, 1, &a, sizeof(a), PLACE);
}

/* A task that fails with -EFAULT: its address is nobody's. */
static inline int launch_bad(struct bed *b, uint64_t s)
{
	struct npu_simnpu_inc_args a = { 64, 1 };

	return hal_stream_launch(s, b->inc, 1, &a, sizeof(a), BAD_PLACE);
}

static inline int launch_delay(struct bed *b, uint64_t s, uint64_t ns)
{
	struct npu_simnpu_delay_args a = { ns };

	return hal_stream_launch(s, b->delay, 1, &a, sizeof(a), PLACE);
}

/* Copies that are done when they return. */
static inline int copy_now(struct bed *b, void *dst, const void *src, size_t n)
{
	struct hal_copy c = { .dst = dst, .src = src, .width = n, .height = 1 };

	return hal_mem_copy(b->ctx, &c);
}

static inline int copy_async(uint64_t s, void *dst, const void *src, size_t n)
{
	struct hal_copy c = { .dst = dst, .src = src, .width = n, .height = 1 };

	return hal_stream_copy(s, &c, PLACE);
}

/* ---- a gate: a stream that waits until a test says so ---- */

struct gate {
	_Atomic uint32_t open;
	_Atomic uint32_t reached;
};

static inline void gate_fn(void *arg)
{
	struct gate *g = arg;

	g->reached = 1;
	hal_sys_futex_wake(&g->reached, 1);
	while (!g->open)
		hal_sys_futex_wait(&g->open, 0, UINT64_MAX);
}

static inline int gate_close(struct gate *g, uint64_t s)
{
	g->open = 0;
	g->reached = 0;
	return hal_stream_callback(s, gate_fn, g, 0, PLACE);
}

static inline void gate_await(struct gate *g)
{
	while (!g->reached)
		hal_sys_futex_wait(&g->reached, 0, UINT64_MAX);
}

static inline void gate_open(struct gate *g)
{
	g->open = 1;
	hal_sys_futex_wake(&g->open, 1);
}

static inline void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* ---- what a test begins with ---- */

/* ThreadSanitizer takes minutes for what is done by the ten thousands. */
#define NOT_BY_THE_THOUSANDS(n)							\
	do {									\
		if (NPU_TEST_TSAN && (n) > 8192)				\
			SKIP(return, "%llu are too many under ThreadSanitizer",	\
			     (unsigned long long)(n));				\
	} while (0)

/*
 * Without streams the device refuses to make one; that is all there is to test
 * then. The same for other objects.
 */
#define STREAM_OR_REFUSED(b, s)							\
	do {									\
		int rc_ = make_stream((b), (s));				\
										\
		if (!can((b), NPU_CAP_STREAM)) {				\
			ASSERT_EQ(-EOPNOTSUPP, rc_);				\
			ASSERT_EQ(0, *(s));					\
			return;							\
		}								\
		ASSERT_EQ(0, rc_);						\
	} while (0)

/* Device memory, zeroed; without the capability the refusal is all there is to test. */
#define MEMORY_OR_REFUSED(b, size, p)						\
	do {									\
		int rc_ = hal_mem_alloc((b)->ctx, (size), 0, (void **)(p));	\
										\
		if (!can((b), NPU_CAP_MEM)) {					\
			ASSERT_EQ(-EOPNOTSUPP, rc_);				\
			ASSERT_EQ(NULL, *(p));					\
			return;							\
		}								\
		ASSERT_EQ(0, rc_);						\
		ASSERT_EQ(0, hal_mem_fill((b)->ctx, *(p), 0, (size)));		\
	} while (0)

/* Ends the test when the device lacks a capability, having seen that the call is refused. */
#define CAP_OR_REFUSED(b, cap, call)						\
	do {									\
		if (!can((b), (cap))) {						\
			ASSERT_EQ(-EOPNOTSUPP, (call));				\
			return;							\
		}								\
	} while (0)

/* Ends the test when there are no launches; there can be no kernel then. */
#define LAUNCH_IN_STREAM_OR_REFUSED(b, s)					\
	do {									\
		if (!can((b), NPU_CAP_LAUNCH)) {				\
			ASSERT_EQ(-EINVAL, launch_nop((b), (s)));		\
			return;							\
		}								\
	} while (0)

/* ---- what a test is about ---- */

/* Tests that are about optional parts of the contract; all others are about what is mandatory. */
struct about {
	const char *test;	/* "fixture.test" */
	uint64_t caps;
	const struct about *next;
};

static const struct about *bed_abouts;

#define ABOUT(f, t, cps)							\
	static struct about about_##f##_##t = { #f "." #t, (cps), NULL };	\
	static __attribute__((constructor)) void add_about_##f##_##t(void)	\
	{									\
		about_##f##_##t.next = bed_abouts;				\
		bed_abouts = &about_##f##_##t;					\
	}

/* TEST_F() of a test that may stand in xfail.h with these capabilities. */
#define TEST_ABOUT(f, t, cps)							\
	ABOUT(f, t, cps)							\
	TEST_F(f, t)

/* What a test is about; 0: mandatory. */
static inline uint64_t bed_about(const char *test)
{
	const struct about *a;

	for (a = bed_abouts; a; a = a->next)
		if (!strcmp(a->test, test))
			return a->caps;
	return 0;
}

/* Closes the bed, sees that nothing is left, and looks the test up in xfail.h. */
static inline void bed_judge(struct __test_metadata *_metadata, const char *fixture,
			     const char *backend, struct bed *b)
{
	char name[128];
	const char *why;
	uint32_t left = 0, t;
	bool ok = _metadata->passed && !_metadata->aborted;
	int rc = bed_close(b);

	if (rc)
		TH_LOG("closing gave %d: %s", rc, hal_error_last()->text);
	for (t = 1; t < HAL_HANDLE_TYPES; t++)
		left += hal_handle_count((enum hal_handle_type)t);
	left += fake_objects();
	if (ok && left)
		TH_LOG("%u objects are left", left);
	ok = ok && !rc && !left;
	snprintf(name, sizeof(name), "%s.%s", fixture, _metadata->name);
	_metadata->passed = xfail_verdict(xfail_of(xfails, name, backend), bed_about(name), ok,
					  &why);
	if (_metadata->passed)
		_metadata->aborted = false;
	if (why)
		TH_LOG("%s on %s: %s", name, backend, why);
}

#define BACKEND_VARIANT(f, id, drv, prt, cps, tl)				\
	FIXTURE_VARIANT_ADD(f, id) {						\
		.name = #id, .driver = drv, .part = prt, .caps = cps, .timeline = tl,	\
	};

/* Declares a fixture of the suite with its variants. */
#define CONFORMANCE(f)								\
	FIXTURE(f) {								\
		struct bed b;							\
	};									\
	FIXTURE_VARIANT(f) {							\
		const char *name;						\
		const char *driver;						\
		const char *part;						\
		uint64_t caps;							\
		bool timeline;							\
	};									\
	BACKENDS(BACKEND_VARIANT, f)						\
	FIXTURE_SETUP(f)							\
	{									\
		int rc_ = bed_open(&self->b, variant->driver, variant->part,	\
				   variant->caps, variant->timeline);		\
										\
		if (rc_ == -ENOENT)						\
			SETUP_SKIP("driver %s is not in this build", variant->driver);	\
		ASSERT_EQ(0, rc_)						\
			TH_LOG("%s", hal_error_last()->text);			\
	}									\
	FIXTURE_TEARDOWN(f)							\
	{									\
		bed_judge(_metadata, #f, variant->name, &self->b);			\
	}

#endif /* SELFTESTS_HAL_BED_H */
