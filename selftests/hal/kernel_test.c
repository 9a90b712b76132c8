// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: modules and kernels.
 */
#include <pthread.h>
#include <unistd.h>

#include "selftests/hal/bed.h"

CONFORMANCE(kernel)

#define LAUNCH_OR_REFUSED(b)							\
	do {									\
		uint64_t m_;							\
										\
		if (!can((b), NPU_CAP_LAUNCH)) {				\
			ASSERT_EQ(-EOPNOTSUPP, hal_module_load_builtin((b)->ctx, &m_));	\
			ASSERT_EQ(0, m_);					\
			return;							\
		}								\
	} while (0)

/* C-KERNEL-5 */
TEST_F(kernel, the_same_name_is_the_same_kernel)
{
	struct bed *b = &self->b;
	uint64_t k, l;

	LAUNCH_OR_REFUSED(b);
	ASSERT_EQ(0, hal_kernel_get(b->module, "nop", &k));
	EXPECT_EQ(b->nop, k);
	ASSERT_EQ(0, hal_kernel_get(b->module, "inc_u64", &l));
	EXPECT_NE(k, l);
	EXPECT_EQ(-ESRCH, hal_kernel_get(b->module, "no such kernel", &k));
	EXPECT_EQ(0, k);
	EXPECT_EQ(-ESRCH, hal_error_last()->code);
	EXPECT_EQ(-EINVAL, hal_kernel_get(b->module, "", &k));
	EXPECT_EQ(-EINVAL, hal_kernel_get(b->module, NULL, &k));
	EXPECT_EQ(-EINVAL, hal_kernel_get(0, "nop", &k));
	EXPECT_EQ(-EBADF, hal_kernel_get(b->nop, "nop", &k));
	EXPECT_EQ(-EBADF, hal_kernel_get(b->module + 2, "nop", &k));
	EXPECT_EQ(b->dev, hal_kernel_device(b->nop, "test"));
	EXPECT_EQ(NULL, hal_kernel_device(0, "test"));
	EXPECT_EQ(NULL, hal_kernel_device(b->nop + 2, "test"));
	EXPECT_EQ(-EBADF, hal_error_last()->code);
}

/* C-KERNEL-2 */
TEST_F(kernel, every_block_runs_once)
{
	struct bed *b = &self->b;
	uint64_t s, k, x, y, i;
	struct npu_simnpu_rows_args a;
	static float in[997], out[997];

	LAUNCH_OR_REFUSED(b);
	STREAM_OR_REFUSED(b, &s);
	/* rows are split over blocks; y may be x, so a block that ran twice would show */
	ASSERT_EQ(0, hal_kernel_get(b->module, "bias_f32", &k));
	for (i = 0; i < 997; i++)
		in[i] = (float)i;
	MEMORY_OR_REFUSED(b, sizeof(in), (void **)&x);
	MEMORY_OR_REFUSED(b, 64, (void **)&y);
	in[0] = 1.0f;
	ASSERT_EQ(0, copy_now(b, (void *)(uintptr_t)y, in, 4));
	in[0] = 0.0f;
	ASSERT_EQ(0, copy_now(b, (void *)(uintptr_t)x, in, sizeof(in)));
	a = (struct npu_simnpu_rows_args){ .x = x, .y = x, .z = y, .rows = 997, .cols = 1 };
	ASSERT_EQ(0, hal_stream_launch(s, k, 1, &a, sizeof(a), PLACE));
	ASSERT_EQ(0, hal_stream_launch(s, k, 7, &a, sizeof(a), PLACE));
	ASSERT_EQ(0, hal_stream_launch(s, k, 64, &a, sizeof(a), PLACE));
	ASSERT_EQ(0, hal_stream_launch(s, k, 2000, &a, sizeof(a), PLACE));
	ASSERT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, out, (void *)(uintptr_t)x, sizeof(out)));
	for (i = 0; i < 997; i++)
		ASSERT_EQ((float)i + 4.0f, out[i]);
}

/* C-KERNEL-3 */
TEST_F(kernel, reaching_outside_fails_and_changes_nothing)
{
	struct bed *b = &self->b;
	size_t size = b->dev->info.mem_align;	/* what is rounded up to it belongs to it */
	uint64_t s, host = 7, *d, *back;
	size_t i;

	LAUNCH_OR_REFUSED(b);
	STREAM_OR_REFUSED(b, &s);
	MEMORY_OR_REFUSED(b, size, &d);
	back = calloc(1, size);
	ASSERT_NE(NULL, back);
	ASSERT_EQ(0, launch_inc(b, s, &host, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(7, host);
	ASSERT_EQ(0, launch_inc(b, s, (char *)d + size, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, launch_inc(b, s, d - 1, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, launch_inc(b, s, NULL, 1));
	EXPECT_EQ(-EFAULT, hal_stream_sync(s, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, back, d, size));
	for (i = 0; i < size / 8; i++)
		EXPECT_EQ(0, back[i]);
	ASSERT_EQ(0, launch_inc(b, s, (char *)d + size - 8, 1));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	free(back);
}

struct unloader {
	uint64_t m;
	int rc;
	_Atomic uint32_t done;
};

static void *unload_fn(void *arg)
{
	struct unloader *u = arg;

	u->rc = hal_module_unload(u->m, LONG_MS);
	u->done = 1;
	return NULL;
}

/* C-KERNEL-1 C-KERNEL-4 */
TEST_F(kernel, unload_waits_for_what_was_submitted)
{
	struct bed *b = &self->b;
	struct unloader u = { 0 };
	uint64_t s, k, again;
	pthread_t thread;
	struct gate g;

	LAUNCH_OR_REFUSED(b);
	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, hal_module_load_builtin(b->ctx, &u.m));
	ASSERT_EQ(0, hal_kernel_get(u.m, "nop", &k));
	ASSERT_EQ(0, gate_close(&g, s));
	ASSERT_EQ(0, hal_stream_launch(s, k, 1, NULL, 0, PLACE));
	/* not in time: still loaded, but its kernels are stale */
	EXPECT_EQ(-ETIMEDOUT, hal_module_unload(u.m, 2));
	EXPECT_EQ(-ESTALE, hal_stream_launch(s, k, 1, NULL, 0, PLACE));
	EXPECT_EQ(NULL, hal_kernel_device(k, "test"));
	ASSERT_EQ(0, hal_kernel_get(u.m, "nop", &again));
	EXPECT_NE(k, again);
	ASSERT_EQ(0, hal_stream_launch(s, again, 1, NULL, 0, PLACE));

	ASSERT_EQ(0, pthread_create(&thread, NULL, unload_fn, &u));
	while (hal_kernel_device(again, "test"))
		sched_yield();
	EXPECT_EQ(-ESTALE, hal_stream_launch(s, again, 1, NULL, 0, PLACE));
	EXPECT_EQ(-ESTALE, hal_kernel_get(u.m, "nop", &k));
	EXPECT_EQ(-ESTALE, hal_module_unload(u.m, LONG_MS));
	sleep_ms(5);
	EXPECT_EQ(0, hal_load_relaxed(&u.done));
	gate_open(&g);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, u.rc);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
	EXPECT_EQ(-ESTALE, hal_module_unload(u.m, LONG_MS));
	EXPECT_EQ(-EINVAL, hal_module_unload(0, LONG_MS));
	EXPECT_EQ(-EBADF, hal_module_unload(s, LONG_MS));
	/* the other module is as it was */
	EXPECT_EQ(0, launch_nop(b, s));
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
}

TEST_F(kernel, loading_refuses)
{
	struct bed *b = &self->b;
	uint64_t m;
	char path[64] = "npu-test-XXXXXX";
	int fd;

	EXPECT_EQ(-EINVAL, hal_module_load_file(b->ctx, NULL, &m));
	EXPECT_EQ(-EINVAL, hal_module_load_file(b->ctx, "", &m));
	EXPECT_EQ(-EINVAL, hal_module_load_data(b->ctx, NULL, 8, &m));
	EXPECT_EQ(-EINVAL, hal_module_load_data(b->ctx, &m, 0, &m));
	EXPECT_EQ(0, m);
	LAUNCH_OR_REFUSED(b);
	CAP_OR_REFUSED(b, NPU_CAP_MODULE_FILE, hal_module_load_file(b->ctx, "x", &m));
	EXPECT_EQ(-ENOENT, hal_module_load_file(b->ctx, "/no/such/module.so", &m));
	EXPECT_EQ(0, m);
	fd = mkstemp(path);
	ASSERT_LE(0, fd);
	ASSERT_EQ(8, write(fd, "no ELF!!", 8));
	close(fd);
	EXPECT_EQ(-ENOEXEC, hal_module_load_file(b->ctx, path, &m));
	unlink(path);
	CAP_OR_REFUSED(b, NPU_CAP_MODULE_DATA, hal_module_load_data(b->ctx, "no", 2, &m));
	EXPECT_EQ(-ENOEXEC, hal_module_load_data(b->ctx, "no ELF!!", 8, &m));
	EXPECT_EQ(0, m);
}

struct hammer {
	struct bed *b;
	uint64_t s;
	_Atomic uint64_t k;
	_Atomic bool stop;
	int rc;
};

static void *hammer_fn(void *arg)
{
	struct hammer *h = arg;

	while (!h->stop && (!h->rc || h->rc == -ESTALE))
		h->rc = hal_stream_launch(h->s, h->k, 1, NULL, 0, 0);
	return NULL;
}

/* C-KERNEL-4 */
TEST_F(kernel, launches_race_an_unload)
{
	struct bed *b = &self->b;
	struct hammer h = { .b = b };
	uint64_t m, k;
	pthread_t t;
	int i;

	LAUNCH_OR_REFUSED(b);
	STREAM_OR_REFUSED(b, &h.s);
	h.k = b->nop;
	ASSERT_EQ(0, pthread_create(&t, NULL, hammer_fn, &h));
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, hal_module_load_builtin(b->ctx, &m));
		ASSERT_EQ(0, hal_kernel_get(m, "nop", &k));
		h.k = k;
		ASSERT_EQ(0, hal_module_unload(m, LONG_MS));
	}
	h.stop = true;
	pthread_join(t, NULL);
	EXPECT_TRUE(!h.rc || h.rc == -ESTALE);
	EXPECT_EQ(0, hal_stream_sync(h.s, LONG_MS, 0));
}

TEST_HARNESS_MAIN
