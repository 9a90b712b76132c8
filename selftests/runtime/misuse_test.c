// SPDX-License-Identifier: GPL-2.0-only
/*
 * Misuse: every function with every kind of bad argument. Each is refused with
 * the documented code and a text, leaves nothing behind, and the next valid call
 * works.
 */
#include "selftests/npu_kselftest.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "hal/handle.h"
#include "selftests/runtime/rt_test.h"

#define GOOD_MODULE TEST_DATA("rt_kernels.so")

/* Good things of each kind, and handles that were good once. */
static struct {
	npu_stream s, old_s;
	npu_event e, old_e, t;
	npu_context c, old_c;
	npu_module m, old_m;
	npu_kernel k, old_k;
	struct npu_guard g;
	struct npu_stream_attr a;
	char host[64];
	char *dev, *pinned, *freed, *page;
	uint64_t u;
	int64_t i;
	uint32_t u32;
	int n;
	void *out;
	npu_stream s_out;
	npu_event e_out;
	npu_context c_out;
	npu_module m_out;
	npu_kernel k_out;
	size_t size;
} o;

static void nothing(void *arg)
{
}

static int set_up(void)
{
	static const struct npu_stream_attr init = NPU_STREAM_ATTR_INIT;
	struct npu_stream_attr a = init;

	o.a = init;
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_LOG_LEVEL", "none", 1);
	if (npu_stream_create(&a, &o.old_s) || npu_stream_destroy(o.old_s, 1000) ||
	    npu_stream_create(&a, &o.s) || npu_event_create(0, &o.old_e) ||
	    npu_event_destroy(o.old_e) || npu_event_create(0, &o.e) ||
	    npu_event_create(NPU_EVENT_TIMING, &o.t) || npu_event_record(o.t, o.s) ||
	    npu_context_create(0, &o.old_c) || npu_context_destroy(o.old_c, 1000) ||
	    npu_context_create(0, &o.c) || npu_module_load(GOOD_MODULE, &o.old_m) ||
	    npu_kernel_get(o.old_m, "rt_fill", &o.old_k) || npu_module_unload(o.old_m, 1000) ||
	    npu_module_load(GOOD_MODULE, &o.m) || npu_kernel_get(o.m, "rt_fill", &o.k))
		return -1;
	o.page = aligned_alloc(4096, 4096);
	return npu_stream_sync(o.s, 5000) || !o.page ||
	       npu_malloc(4096, 0, (void **)&o.freed) || npu_free(o.freed) ||
	       npu_malloc(4096, 0, (void **)&o.dev) ||
	       npu_malloc_host(4096, 0, (void **)&o.pinned) ||
	       npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &o.k_out);
}

/* What must not grow. */
struct census {
	uint32_t handles[HAL_HANDLE_TYPES];
	size_t free[2];
	int fds;
};

static int open_fds(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void take_census(struct census *c)
{
	int t;

	memset(c, 0, sizeof(*c));
	for (t = 1; t < HAL_HANDLE_TYPES; t++)
		c->handles[t] = hal_handle_count(t);
	npu_device_mem_info(0, &c->free[0], NULL);
	npu_device_mem_info(1, &c->free[1], NULL);
	c->fds = open_fds();
}

static int valid_call(void)
{
	npu_kernel nop;

	return npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &nop) ||
	       npu_launch(nop, 1, NULL, 0, o.s) || npu_stream_sync(o.s, 5000) ||
	       npu_memset(o.dev, 1, 64);
}

/* ---- handles ------------------------------------------------------------------------- */

/* Every function that takes a handle, called with h in that place. */
struct taker {
	const char *what;
	int (*fn)(uint64_t h);
	bool zero;		/* 0 is refused, too */
};

#define S(h) ((npu_stream){ (h) })
#define E(h) ((npu_event){ (h) })
#define C(h) ((npu_context){ (h) })
#define M(h) ((npu_module){ (h) })
#define K(h) ((npu_kernel){ (h) })

#define STREAM_TAKERS(X)								\
	X(stream_destroy, npu_stream_destroy(S(h), 0), true)				\
	X(stream_query, npu_stream_query(S(h)), false)					\
	X(stream_sync, npu_stream_sync(S(h), 0), false)					\
	X(stream_set_wait_mode, npu_stream_set_wait_mode(S(h), NPU_WAIT_AUTO), false)	\
	X(stream_wait_event, npu_stream_wait_event(S(h), o.e), false)			\
	X(stream_wait_stream_1, npu_stream_wait_stream(S(h), o.s), false)		\
	X(stream_wait_stream_2, npu_stream_wait_stream(o.s, S(h)), false)		\
	X(stream_callback, npu_stream_callback(S(h), nothing, NULL, 0), false)		\
	X(stream_fd, npu_stream_fd(S(h), &o.n), false)					\
	X(stream_release, npu_stream_release(S(h)), true)				\
	X(stream_set_current, npu_stream_set_current(S(h)), false)			\
	X(stream_get_info, stream_info(h), false)					\
	X(event_record, npu_event_record(o.e, S(h)), false)				\
	X(guard_stream, npu_guard_stream(&o.g, S(h)), true)				\
	X(memcpy_async, npu_memcpy_async(o.dev, o.pinned, 8, NPU_COPY_AUTO, S(h)), false) \
	X(memcpy_2d_async, npu_memcpy_2d_async(o.dev, 8, o.pinned, 8, 4, 2, NPU_COPY_AUTO, \
					       S(h)), false)				\
	X(memset_async, npu_memset_async(o.dev, 0, 8, S(h)), false)			\
	X(launch_stream, npu_launch(o.k, 1, NULL, 0, S(h)), false)

#define EVENT_TAKERS(X)									\
	X(event_destroy, npu_event_destroy(E(h)), true)					\
	X(event_record_event, npu_event_record(E(h), o.s), true)			\
	X(event_query, npu_event_query(E(h)), true)					\
	X(event_sync, npu_event_sync(E(h), 0), true)					\
	X(event_elapsed_1, npu_event_elapsed(E(h), o.t, &o.i), true)			\
	X(event_elapsed_2, npu_event_elapsed(o.t, E(h), &o.i), true)			\
	X(event_timestamp, npu_event_timestamp(E(h), &o.u), true)			\
	X(event_fd, npu_event_fd(E(h), &o.n), true)					\
	X(event_device, npu_event_device(E(h), &o.n), true)				\
	X(wait_event_event, npu_stream_wait_event(o.s, E(h)), true)

#define CONTEXT_TAKERS(X)								\
	X(context_destroy, npu_context_destroy(C(h), 0), true)				\
	X(context_set, npu_context_set(C(h)), false)					\
	X(context_device, npu_context_device(C(h), &o.n), true)				\
	X(context_sync, npu_context_sync(C(h), 0), true)

#define MODULE_TAKERS(X)								\
	X(module_unload, npu_module_unload(M(h), 0), true)				\
	X(kernel_get, npu_kernel_get(M(h), "rt_fill", &o.k_out), false)

#define KERNEL_TAKERS(X)								\
	X(launch, npu_launch(K(h), 1, NULL, 0, o.s), true)				\
	X(launch_current, npu_launch(K(h), 1, NULL, 0, NPU_STREAM_CURRENT), true)

static int stream_info(uint64_t h)
{
	struct npu_stream_info i = { .size = sizeof(i) };

	return npu_stream_get_info(S(h), &i);
}

#define DEFINE(name, expr, zero) static int take_##name(uint64_t h) { return (expr); }
STREAM_TAKERS(DEFINE)
EVENT_TAKERS(DEFINE)
CONTEXT_TAKERS(DEFINE)
MODULE_TAKERS(DEFINE)
KERNEL_TAKERS(DEFINE)

#define ROW(name, expr, zero) { #name, take_##name, zero },
static const struct taker stream_takers[] = { STREAM_TAKERS(ROW) { 0 } };
static const struct taker event_takers[] = { EVENT_TAKERS(ROW) { 0 } };
static const struct taker context_takers[] = { CONTEXT_TAKERS(ROW) { 0 } };
static const struct taker module_takers[] = { MODULE_TAKERS(ROW) { 0 } };
static const struct taker kernel_takers[] = { KERNEL_TAKERS(ROW) { 0 } };

/* A handle that is bad, and the code that it deserves; other: a second one that will do. */
struct handle {
	const char *what;
	uint64_t h;
	int code;
	int other;
};

static int try_handle(const struct taker *t, const struct handle *b)
{
	struct census before, after;
	int got, d_before, d_after;
	struct npu_error e;

	take_census(&before);
	npu_device_get(&d_before);
	npu_error_clear();
	got = t->fn(b->h);
	e = last_error();
	take_census(&after);
	npu_device_get(&d_after);
	if ((got == b->code || got == b->other) && e.code == got && e.text[0] &&
	    !memcmp(&before, &after, sizeof(before)) && d_before == d_after && !valid_call())
		return 0;
	printf("# %s with %s handle 0x%llx: %d, expected %d; record %d %s%s\n", t->what, b->what,
	       (unsigned long long)b->h, got, b->code, e.code, e.text,
	       memcmp(&before, &after, sizeof(before)) ? "; something stays" : "");
	return 1;
}

static int try_takers(const struct taker *t, uint64_t good, uint64_t old, uint64_t foreign)
{
	const struct handle bad[] = {
		{ "a destroyed", old, -ESTALE, -ESTALE },
		{ "another type's", foreign, -EBADF, -EBADF },
		{ "another copy's", good ^ 0x40000000, -EBADF, -ESTALE },
		{ "a free generation's", good & ~1ull, -EBADF, -ESTALE },
		{ "a future", good + 2, -EBADF, -EBADF },
		{ "an index too far", good | 0x00ffffff00000000ull, -EBADF, -EBADF },
		{ "no type's", good & 0x00ffffffffffffffull, -EBADF, -EBADF },
		{ "an unknown type's", good | 0xff00000000000000ull, -EBADF, -EBADF },
		{ "a small number's", 1, -EBADF, -EBADF },
		{ "a pointer's", (uint64_t)(uintptr_t)&o, -EBADF, -EBADF },
		{ "all ones'", UINT64_MAX, -EBADF, -EBADF },
		{ "a zero", 0, -EINVAL, -EINVAL },
	};
	size_t i, nr = sizeof(bad) / sizeof(bad[0]);
	int wrong = 0;

	for (; t->what; t++)
		for (i = 0; i < nr - !t->zero; i++)
			wrong += try_handle(t, &bad[i]);
	return wrong;
}

FIXTURE(misuse) {
};

FIXTURE_SETUP(misuse)
{
	ASSERT_EQ(0, set_up());
	ASSERT_EQ(0, valid_call());
}

FIXTURE_TEARDOWN(misuse)
{
	EXPECT_EQ(0, npu_finalize(5000));
	free(o.page);
}

TEST_F(misuse, streams)
{
	EXPECT_EQ(0, try_takers(stream_takers, o.s.h, o.old_s.h, o.e.h));
}

TEST_F(misuse, events)
{
	EXPECT_EQ(0, try_takers(event_takers, o.e.h, o.old_e.h, o.s.h));
}

TEST_F(misuse, contexts)
{
	EXPECT_EQ(0, try_takers(context_takers, o.c.h, o.old_c.h, o.m.h));
}

TEST_F(misuse, modules)
{
	EXPECT_EQ(0, try_takers(module_takers, o.m.h, o.old_m.h, o.k.h));
}

TEST_F(misuse, kernels)
{
	EXPECT_EQ(0, try_takers(kernel_takers, o.k.h, o.old_k.h, o.c.h));
}

/* Numbers from a generator, in every place of a handle: never a crash, never a success. */
TEST_F(misuse, random_handles)
{
	static const struct taker *const lists[] = {
		stream_takers, event_takers, context_takers, module_takers, kernel_takers,
	};
	uint64_t x = 88172645463325252ull, h;
	const struct taker *t;
	int i, l, err;

	for (i = 0; i < 3000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		h = i & 1 ? x : (x & 0x0700003fffffffffull);
		for (l = 0; l < 5; l++)
			for (t = lists[l]; t->what; t++) {
				err = h ? t->fn(h) : -EBADF;
				if (err != -EBADF && err != -ESTALE)
					TH_LOG("%s: 0x%llx: %d", t->what, (unsigned long long)h,
					       err);
				ASSERT_TRUE(err == -EBADF || err == -ESTALE);
			}
	}
	OK(valid_call());
}

/* ---- other arguments ------------------------------------------------------------------------ */

static struct npu_stream_attr *attr_with(size_t at, int value)
{
	static const struct npu_stream_attr init = NPU_STREAM_ATTR_INIT;

	o.a = init;
	memcpy((char *)&o.a + at, &value, sizeof(value));
	return &o.a;
}

#define ATTR(field, value) \
	npu_stream_create(attr_with(offsetof(struct npu_stream_attr, field), value), &o.s_out)

/* One line a function and bad argument: what is called, and what it deserves. */
#define ARGUMENTS(X)									\
	X(npu_hook_init(NULL, NULL), EINVAL)						\
	X(npu_release_register(NULL, NULL, 0), EINVAL)					\
	X(npu_release_register(fn, NULL, -1), EINVAL)					\
	X(npu_release_register(fn, NULL, 11), EINVAL)					\
	X(npu_release_unregister(NULL, NULL), EINVAL)					\
	X(npu_release_unregister(fn, &o), ENOENT)					\
	X(npu_finalize(-2), EINVAL)							\
	X(npu_finalize(INT64_MIN), EINVAL)						\
	X(npu_option_set(NULL, "1"), EINVAL)						\
	X(npu_option_set("nothing", "1"), ENOENT)					\
	X(npu_option_set("log_level", "shrill"), EINVAL)				\
	X(npu_option_set("op_timeout_ms", "-5"), ERANGE)				\
	X(npu_option_set("driver", "null"), EBUSY)					\
	X(npu_option_get(NULL, o.host, 8, NULL), EINVAL)				\
	X(npu_option_get("driver", NULL, 8, NULL), EINVAL)				\
	X(npu_option_get("driver", o.host, 0, NULL), EINVAL)				\
	X(npu_option_get("nothing", o.host, 8, NULL), ENOENT)				\
	X(npu_option_get("wait_mode", o.host, 2, NULL), ENOSPC)				\
	X(npu_option_at(0, NULL), EINVAL)						\
	X(npu_option_at(1000, &(struct npu_option_info){ .size = 64 }), \
	  ENOENT)									\
	X(npu_option_at(0, &(struct npu_option_info){ 0 }), EINVAL)			\
	X(npu_tag_set("a tag of thirty-two bytes or more"), EINVAL)			\
	X(npu_device_count(NULL), EINVAL)						\
	X(npu_device_get(NULL), EINVAL)							\
	X(npu_device_set(2), ENODEV)							\
	X(npu_device_set(-2), ENODEV)							\
	X(npu_device_set(INT_MIN), ENODEV)						\
	X(npu_device_set(INT_MAX), ENODEV)						\
	X(npu_device_exchange(2, &o.n), ENODEV)						\
	X(npu_device_restore(2), ENODEV)						\
	X(npu_device_restore(INT_MIN), ENODEV)						\
	X(npu_device_get_info(0, NULL), EINVAL)						\
	X(npu_device_get_info(0, &(struct npu_device_info){ 0 }), EINVAL)		\
	X(npu_device_get_info(2, &(struct npu_device_info){ .size = 64 }), ENODEV)		\
	X(npu_device_get_info(-3, &(struct npu_device_info){ .size = 64 }), ENODEV)		\
	X(npu_device_mem_info(2, &o.size, &o.size), ENODEV)				\
	X(npu_device_utilization(0, NULL), EINVAL)					\
	X(npu_device_utilization(9, &o.u32), ENODEV)					\
	X(npu_device_can_access_peer(0, 1, NULL), EINVAL)				\
	X(npu_device_can_access_peer(2, 0, &o.n), ENODEV)				\
	X(npu_device_can_access_peer(0, 2, &o.n), ENODEV)				\
	X(npu_device_is_active(0, NULL), EINVAL)					\
	X(npu_device_is_active(2, &o.n), ENODEV)					\
	X(npu_device_used(NULL, 1, &o.size), EINVAL)					\
	X(npu_device_used(&o.n, 1, NULL), EINVAL)					\
	X(npu_device_sync(2, 0), ENODEV)						\
	X(npu_device_sync(0, -2), EINVAL)						\
	X(npu_device_sync_all(-2), EINVAL)						\
	X(npu_device_reset(2, 0), ENODEV)						\
	X(npu_device_reset(0, -2), EINVAL)						\
	X(npu_device_time(0, NULL), EINVAL)						\
	X(npu_device_time(2, &o.u), ENODEV)						\
	X(npu_context_create(0, NULL), EINVAL)						\
	X(npu_context_create(2, &o.c_out), ENODEV)					\
	X(npu_context_destroy(o.c, -2), EINVAL)						\
	X(npu_context_primary(0, NULL), EINVAL)						\
	X(npu_context_primary(-9, &o.c_out), ENODEV)					\
	X(npu_context_get(NULL), EINVAL)						\
	X(npu_context_device(o.c, NULL), EINVAL)					\
	X(npu_context_sync(o.c, -2), EINVAL)						\
	X(npu_stream_create(NULL, NULL), EINVAL)					\
	X(npu_stream_create(&(struct npu_stream_attr){ 0 }, &o.s_out), EINVAL)		\
	X(npu_stream_create(&(struct npu_stream_attr){ .size = SIZE_MAX }, &o.s_out), EINVAL)	\
	X(ATTR(flags, 4), EINVAL)							\
	X(ATTR(device, 2), ENODEV)							\
	X(ATTR(priority, 8), EINVAL)							\
	X(ATTR(priority, -1), EINVAL)							\
	X(ATTR(fail_mode, 7), EINVAL)							\
	X(ATTR(wait_mode, 7), EINVAL)							\
	X(ATTR(pad, 1), EINVAL)								\
	X(npu_stream_destroy(o.s, -2), EINVAL)						\
	X(npu_stream_sync(o.s, -2), EINVAL)						\
	X(npu_stream_set_wait_mode(o.s, (enum npu_wait_mode)9), EINVAL)			\
	X(npu_stream_callback(o.s, NULL, NULL, 0), EINVAL)				\
	X(npu_stream_callback(o.s, nothing, NULL, 8), EINVAL)				\
	X(npu_stream_fd(o.s, NULL), EINVAL)						\
	X(npu_stream_default(0, NULL), EINVAL)						\
	X(npu_stream_default(2, &o.s_out), ENODEV)					\
	X(npu_stream_secondary(0, NULL), EINVAL)					\
	X(npu_stream_secondary(2, &o.s_out), ENODEV)					\
	X(npu_stream_pool_get(0, 4, NULL), EINVAL)					\
	X(npu_stream_pool_get(2, 4, &o.s_out), ENODEV)					\
	X(npu_stream_pool_get(0, 8, &o.s_out), EINVAL)					\
	X(npu_stream_pool_get(0, INT_MIN, &o.s_out), EINVAL)				\
	X(npu_stream_lease(0, 4, NULL), EINVAL)						\
	X(npu_stream_lease(2, 4, &o.s_out), ENODEV)					\
	X(npu_stream_lease(0, -1, &o.s_out), EINVAL)					\
	X(npu_stream_release(o.s), EINVAL)						\
	X(npu_stream_import(0, NULL, &o.s_out), EINVAL)					\
	X(npu_stream_import(0, &o, NULL), EINVAL)					\
	X(npu_stream_import(2, &o, &o.s_out), ENODEV)					\
	X(npu_stream_import(0, &o, &o.s_out), EOPNOTSUPP)				\
	X(npu_stream_current(0, NULL), EINVAL)						\
	X(npu_stream_current(2, &o.s_out), ENODEV)					\
	X(npu_stream_get_info(o.s, NULL), EINVAL)					\
	X(npu_stream_get_info(o.s, &(struct npu_stream_info){ 0 }), EINVAL)		\
	X(npu_event_create(0, NULL), EINVAL)						\
	X(npu_event_create(4, &o.e_out), EINVAL)					\
	X(npu_event_sync(o.e, -2), EINVAL)						\
	X(npu_event_elapsed(o.t, o.t, NULL), EINVAL)					\
	X(npu_event_elapsed(o.e, o.t, &o.i), EINVAL)					\
	X(npu_event_timestamp(o.t, NULL), EINVAL)					\
	X(npu_event_timestamp(o.e, &o.u), EINVAL)					\
	X(npu_event_fd(o.e, NULL), EINVAL)						\
	X(npu_event_device(o.e, NULL), EINVAL)						\
	X(npu_guard_device(NULL, 0), EINVAL)						\
	X(npu_guard_device(&o.g, 2), ENODEV)						\
	X(npu_guard_device(&o.g, INT_MIN), ENODEV)					\
	X(npu_guard_stream(NULL, o.s), EINVAL)						\
	X(npu_guard_secondary(NULL), EINVAL)						\
	X(npu_guard_end(NULL), EINVAL)							\
	X(npu_guard_end(&(struct npu_guard){ 0 }), EINVAL)				\
	X(npu_malloc(8, 0, NULL), EINVAL)						\
	X(npu_malloc(8, 8, &o.out), EINVAL)						\
	X(npu_malloc(SIZE_MAX, 0, &o.out), ENOMEM)					\
	X(npu_malloc((size_t)1 << 50, 0, &o.out), ENOMEM)				\
	X(npu_free(o.host), EINVAL)							\
	X(npu_free(o.dev + 1), EINVAL)							\
	X(npu_free(o.freed + 64), EINVAL)						\
	X(npu_free(o.pinned), EINVAL)							\
	X(npu_free((void *)1), EINVAL)							\
	X(npu_malloc_host(8, 0, NULL), EINVAL)						\
	X(npu_malloc_host(8, 1, &o.out), EINVAL)					\
	X(npu_malloc_host(SIZE_MAX, 0, &o.out), ENOMEM)					\
	X(npu_free_host(o.dev), EINVAL)							\
	X(npu_free_host(o.pinned + 8), EINVAL)						\
	X(npu_free_host(o.host), EINVAL)						\
	X(npu_host_alloc(8, NULL), EINVAL)						\
	X(npu_host_alloc(SIZE_MAX, &o.out), ENOMEM)					\
	X(npu_host_free(o.pinned), EINVAL)						\
	X(npu_host_free(o.dev), EINVAL)							\
	X(npu_host_free(o.host), EINVAL)						\
	X(npu_host_record_stream(o.pinned, o.s), EINVAL)				\
	X(npu_host_empty_cache(2), ENODEV)						\
	X(npu_host_is_pinned(o.pinned, NULL), EINVAL)					\
	X(npu_host_get_stats(0, NULL), EINVAL)						\
	X(npu_host_get_stats(0, &(struct npu_host_stats){ 0 }), EINVAL)			\
	X(npu_host_reset_peak(2), ENODEV)						\
	X(npu_host_reset_accumulated(-2), ENODEV)					\
	X(npu_workspace_get(o.s, 8, NULL), EINVAL)					\
	X(npu_workspace_get(o.s, 0, &o.out), EINVAL)					\
	X(npu_workspace_get(o.s, SIZE_MAX, &o.out), ENOMEM)				\
	X(npu_workspace_put(o.s), EINVAL)						\
	X(npu_workspace_trim(2), ENODEV)						\
	X(npu_workspace_get_stats(0, NULL), EINVAL)					\
	X(npu_host_register(NULL, 8, 0), EINVAL)					\
	X(npu_host_register(o.page, 0, 0), EINVAL)					\
	X(npu_host_register(o.page, 8, 2), EINVAL)					\
	X(npu_host_register(o.page, SIZE_MAX, 0), EINVAL)				\
	X(npu_host_register(o.pinned, 8, 0), EEXIST)					\
	X(npu_host_unregister(o.page), EINVAL)						\
	X(npu_host_unregister(NULL), EINVAL)						\
	X(npu_host_unregister(o.pinned), EINVAL)					\
	X(npu_pointer_get_info(o.dev, NULL), EINVAL)					\
	X(npu_pointer_get_info(o.dev, &(struct npu_pointer_info){ 0 }), EINVAL)		\
	X(npu_memcpy(NULL, o.dev, 8, NPU_COPY_AUTO), EINVAL)				\
	X(npu_memcpy(o.dev, NULL, 8, NPU_COPY_AUTO), EINVAL)				\
	X(npu_memcpy(o.dev, o.host, 8, (enum npu_copy_kind)5), EINVAL)			\
	X(npu_memcpy(o.dev, o.host, 8, NPU_COPY_D2H), EINVAL)				\
	X(npu_memcpy(o.dev, o.host, (size_t)1 << 40, NPU_COPY_AUTO), EINVAL)		\
	X(npu_memcpy(o.dev, o.host, SIZE_MAX, NPU_COPY_AUTO), EINVAL)			\
	X(npu_memcpy(o.dev + 4095, o.host, 64, NPU_COPY_AUTO), EINVAL)			\
	X(npu_memcpy_async(NULL, o.dev, 8, NPU_COPY_AUTO, o.s), EINVAL)			\
	X(npu_memcpy_async(o.dev, NULL, 8, NPU_COPY_AUTO, o.s), EINVAL)			\
	X(npu_memcpy_async(o.dev, o.host, 8, NPU_COPY_D2D, o.s), EINVAL)		\
	X(npu_memcpy_async(o.dev + 4095, o.host, 64, NPU_COPY_AUTO, o.s), EINVAL)	\
	X(npu_memcpy_2d(o.dev, 3, o.host, 8, 4, 2, NPU_COPY_AUTO), EINVAL)		\
	X(npu_memcpy_2d(o.dev, 8, o.host, 3, 4, 2, NPU_COPY_AUTO), EINVAL)		\
	X(npu_memcpy_2d(o.dev, 4096, o.host, 8, 4, 2, NPU_COPY_AUTO), EINVAL)		\
	X(npu_memcpy_2d(o.dev, SIZE_MAX, o.host, 8, 4, 2, NPU_COPY_AUTO), EINVAL)	\
	X(npu_memcpy_2d(NULL, 8, o.host, 8, 4, 2, NPU_COPY_AUTO), EINVAL)		\
	X(npu_memcpy_2d_async(o.dev, 3, o.host, 8, 4, 2, NPU_COPY_AUTO, o.s), EINVAL)	\
	X(npu_memcpy_2d_async(o.dev, 8, NULL, 8, 4, 2, NPU_COPY_AUTO, o.s), EINVAL)	\
	X(npu_memset(NULL, 0, 8), EINVAL)						\
	X(npu_memset(o.host, 0, 8), EINVAL)						\
	X(npu_memset(o.dev, 0, (size_t)1 << 40), EINVAL)				\
	X(npu_memset(o.pinned, 0, (size_t)1 << 40), EINVAL)				\
	X(npu_memset_async(NULL, 0, 8, o.s), EINVAL)					\
	X(npu_memset_async(o.host, 0, 8, o.s), EINVAL)					\
	X(npu_memset_async(o.dev + 4095, 0, 64, o.s), EINVAL)				\
	X(npu_module_load(NULL, &o.m_out), EINVAL)					\
	X(npu_module_load(GOOD_MODULE, NULL), EINVAL)					\
	X(npu_module_load("", &o.m_out), EINVAL)					\
	X(npu_module_load("/", &o.m_out), ENOEXEC)					\
	X(npu_module_load_data(NULL, 8, &o.m_out), EINVAL)				\
	X(npu_module_load_data(o.host, 0, &o.m_out), EINVAL)				\
	X(npu_module_load_data(o.host, 8, NULL), EINVAL)				\
	X(npu_module_load_data(o.host, 8, &o.m_out), ENOEXEC)				\
	X(npu_module_unload(o.m, -2), EINVAL)						\
	X(npu_kernel_get(o.m, NULL, &o.k_out), EINVAL)					\
	X(npu_kernel_get(o.m, "rt_fill", NULL), EINVAL)					\
	X(npu_kernel_get(o.m, "", &o.k_out), EINVAL)					\
	X(npu_kernel_get(o.m, "printf", &o.k_out), ESRCH)				\
	X(npu_launch(o.k, 0, NULL, 0, o.s), EINVAL)					\
	X(npu_launch(o.k, 1, NULL, 8, o.s), EINVAL)					\
	X(npu_launch(o.k, 1, o.host, 1 << 20, o.s), EINVAL)				\
	X(npu_launch(o.k, 1, o.host, SIZE_MAX, o.s), EINVAL)

static int fn(void *arg)
{
	return 0;
}

struct line {
	const char *text;
	int got;
	int want;
	bool said;
	bool same;
};

static int report(const struct line *l)
{
	struct npu_error e = last_error();

	if (l->got == l->want && l->said && l->same)
		return 0;
	printf("# %.70s: %d, expected %d; record %d %s%s\n", l->text, l->got, l->want, e.code,
	       e.text, l->same ? "" : "; something stays");
	return 1;
}

TEST_F(misuse, arguments)
{
	struct census before, after;
	int wrong = 0, lines = 0;
	struct line l;

	take_census(&before);
#define TRY(call, errno_name)								\
	npu_error_clear();								\
	l.text = #call;									\
	l.want = is_built(l.text) ? -errno_name : -EOPNOTSUPP;				\
	l.got = (call);									\
	l.said = last_error().code == l.got && last_error().text[0];			\
	take_census(&after);								\
	l.same = !memcmp(&before, &after, sizeof(before));				\
	wrong += report(&l) || valid_call();						\
	lines++;
	ARGUMENTS(TRY)
	EXPECT_EQ(0, wrong);
	EXPECT_GT(lines, 150);
}

/* Of a structure that is too small only so much is written; of results, 0 is left behind. */
TEST_F(misuse, results_are_cleared)
{
	struct npu_error e = { .size = 4 };

	EXPECT_EQ(-EINVAL, npu_last_error(NULL));
	EXPECT_EQ(-EINVAL, npu_last_error(&e));
	e.size = offsetof(struct npu_error, vendor);
	e.vendor = 77;
	npu_device_set(5);
	OK(npu_last_error(&e));
	EXPECT_EQ(-ENODEV, e.code);
	EXPECT_EQ(77, e.vendor);
	o.s_out.h = 5;
	EXPECT_EQ(-ENODEV, npu_stream_default(7, &o.s_out));
	EXPECT_EQ(0, o.s_out.h);
	o.out = &o;
	EXPECT_EQ(-ENOMEM, npu_malloc((size_t)1 << 55, 0, &o.out));
	EXPECT_EQ(NULL, o.out);
	o.k_out.h = 1;
	EXPECT_EQ(-ESRCH, npu_kernel_get(o.m, "none", &o.k_out));
	EXPECT_EQ(0, o.k_out.h);
	o.n = 5;
	EXPECT_EQ(-EBADF, npu_stream_fd(S(5), &o.n));
	EXPECT_EQ(-1, o.n);
	EXPECT_STREQ("?", npu_error_name(-123456));
	EXPECT_STREQ("?", npu_error_name(0));
	EXPECT_STREQ("EINVAL", npu_error_name(EINVAL));
}

/* No descriptors are left: said as it is, and nothing leaks. */
TEST_F(misuse, no_descriptors)
{
	struct rlimit old, none;
	struct census before, after;
	int fd;

	take_census(&before);
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &none);
	EXPECT_EQ(-EMFILE, npu_stream_fd(o.s, &fd));
	EXPECT_EQ(-EMFILE, npu_event_fd(o.e, &fd));
	setrlimit(RLIMIT_NOFILE, &old);
	take_census(&after);
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
	OK(npu_stream_fd(o.s, &fd));
	close(fd);
}

TEST_HARNESS_MAIN
