/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls beyond calls.h, for the tests of steps: those that do more than the
 * plainest valid call does. Included once, after calls_env.h and steps.h.
 */
#ifndef SELFTESTS_RUNTIME_STEP_CALLS_H
#define SELFTESTS_RUNTIME_STEP_CALLS_H

#include <fcntl.h>

/* For helpers: a new object of device 1, or of a context of its own. */
static npu_stream stream_on(int device)
{
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;
	npu_stream s = { 0 };

	a.device = device;
	spare(true);
	npu_stream_create(&a, &s);
	spare(false);
	return s;
}

static void stream_off(npu_stream s)
{
	spare(true);
	npu_stream_destroy(s, LONG_MS);
	spare(false);
}

static void *new_memory(size_t size)
{
	void *p = NULL;

	spare(true);
	npu_malloc(size, 0, &p);
	spare(false);
	return p;
}

static void *new_host(void)
{
	void *p = NULL;

	spare(true);
	npu_malloc_host(8192, 0, &p);
	spare(false);
	return p;
}

static npu_module new_module(void)
{
	npu_module m = { 0 };

	spare(true);
	npu_module_load(GOOD_MODULE, &m);
	spare(false);
	return m;
}

/* What a call leaves on failure is taken away, so that the next step begins as this one did. */
static int or_free(int err, void *p)
{
	spare(true);
	if (err)
		npu_free(p);
	spare(false);
	return err;
}

static int free_memory(void)
{
	void *p = new_memory(1 << 20);

	return or_free(npu_free(p), p);
}

static int free_managed(void)
{
	void *p = NULL;

	spare(true);
	npu_malloc(1 << 20, NPU_MEM_MANAGED, &p);
	spare(false);
	return or_free(npu_free(p), p);
}

static int free_pinned(void)
{
	return npu_free_host(new_host());
}

static int load_image(void)
{
	static char image[1 << 20];
	static size_t size;
	int fd;

	if (!size) {
		fd = open(GOOD_MODULE, O_RDONLY);
		size = fd < 0 ? 0 : (size_t)read(fd, image, sizeof(image));
		close(fd);
	}
	return npu_module_load_data(image, size, &obj.m_out);
}

static int unload(void)
{
	npu_module m = new_module();
	int err = npu_module_unload(m, LONG_MS);

	spare(true);
	if (err)
		npu_module_unload(m, LONG_MS);
	spare(false);
	return err;
}

static int kernel_of_module(void)
{
	int err;

	obj.m_out = new_module();
	err = npu_kernel_get(obj.m_out, "rt_fill", &obj.k_out);
	return err;
}

/* The first record of a timed event makes the device's part of it. */
static int first_record(void)
{
	spare(true);
	npu_event_create(NPU_EVENT_TIMING, &obj.e_out);
	spare(false);
	return npu_event_record(obj.e_out, obj.s);
}

/* A stream of another device is imported first. */
static int wait_other_device(void)
{
	npu_stream other = stream_on(1);
	int err;

	spare(true);
	delay(other, 100000);
	spare(false);
	err = npu_stream_wait_stream(obj.s, other);
	if (!err)
		err = npu_stream_sync(obj.s, LONG_MS);
	stream_off(other);
	return err;
}

/* The first callback of a context makes its thread. */
static int first_callback(void)
{
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;
	npu_context ctx = new_context();
	npu_stream s = { 0 };
	int err;

	spare(true);
	npu_context_set(ctx);
	npu_stream_create(&a, &s);
	spare(false);
	err = npu_stream_callback(s, nothing, NULL, 0);
	if (!err)
		err = npu_stream_sync(s, LONG_MS);
	spare(true);
	npu_context_destroy(ctx, LONG_MS);
	npu_context_set((npu_context){ 0 });
	spare(false);
	return err;
}

/* More than a ring's first segment holds, with arguments that take slots of their own. */
static int launch_many(void)
{
	static const char args[4096];
	npu_stream s = new_stream();
	int i, err = 0, end;

	for (i = 0; i < 40 && !err; i++)
		err = npu_launch(obj.k, 1, args, sizeof(args), s);
	spare(true);
	end = npu_stream_destroy(s, LONG_MS);
	spare(false);
	return err ? err : end;
}

static int destroy_busy(void)
{
	npu_stream s = new_stream();
	int err;

	spare(true);
	delay(s, 200000);
	delay(s, 200000);
	spare(false);
	err = npu_stream_destroy(s, LONG_MS);
	if (err)
		stream_off(s);
	return err;
}

/* A context with a stream, an event, memory and a module in it. */
static npu_context full_context(void)
{
	npu_context ctx = new_context();
	npu_module m;
	npu_stream s;
	npu_event e;
	void *p;

	spare(true);
	npu_context_set(ctx);
	npu_stream_create(NULL, &s);
	npu_event_create(NPU_EVENT_TIMING, &e);
	npu_event_record(e, s);
	npu_malloc(1 << 20, 0, &p);
	npu_malloc_host(4096, 0, &p);
	npu_module_load(GOOD_MODULE, &m);
	npu_stream_callback(s, nothing, NULL, 0);
	npu_context_set((npu_context){ 0 });
	npu_event_destroy(e);
	spare(false);
	return ctx;
}

static int destroy_full(void)
{
	npu_context ctx = full_context();
	int err = npu_context_destroy(ctx, LONG_MS);

	spare(true);
	if (err)
		npu_context_destroy(ctx, LONG_MS);
	spare(false);
	return err;
}

static int reset_used(void)
{
	npu_stream s = stream_on(1);
	int err;

	spare(true);
	delay(s, 100000);
	spare(false);
	err = npu_device_reset(1, LONG_MS);
	spare(true);
	if (err)
		npu_device_reset(1, LONG_MS);
	spare(false);
	return err;
}

/* More streams than a wait has room for on its stack. */
static int sync_many(void)
{
	npu_stream s[20];
	int i, err;

	for (i = 0; i < 20; i++)
		s[i] = new_stream();
	spare(true);
	delay(s[3], 100000);
	spare(false);
	err = npu_device_sync(0, LONG_MS);
	for (i = 0; i < 20; i++)
		stream_off(s[i]);
	return err;
}

static int fd_of_busy(bool event)
{
	npu_stream s = new_stream();
	npu_event e = new_event();
	int err;

	spare(true);
	delay(s, 300000);
	npu_event_record(e, s);
	spare(false);
	err = take_fd(event ? npu_event_fd(e, &obj.fd) : npu_stream_fd(s, &obj.fd));
	spare(true);
	npu_event_destroy(e);
	npu_stream_destroy(s, LONG_MS);
	spare(false);
	return err;
}

static int sync_busy(void)
{
	spare(true);
	delay(obj.s, 200000);
	spare(false);
	return npu_stream_sync(obj.s, LONG_MS);
}

/* A failure that the device did not tell of is not lost. The record stays as it is. */
static void still_told(npu_stream s, int (*wait)(npu_stream s))
{
	struct hal_error e = *hal_error_last();
	int err;

	spare(true);
	err = wait(s);
	spare(false);
	if (err != -EFAULT)
		step_wrong("the failure is lost: %d", err);
	hal_fail_record(&e);
}

/* A task that fails: its failure is taken from the device. The stream is its own, and goes. */
static int failure_told(int (*wait)(npu_stream s))
{
	npu_stream s = new_stream();
	int err;

	spare(true);
	failing_task(s);
	spare(false);
	err = wait(s);
	if (err != -EFAULT && step_plan.mode != STEP_TASK && step_plan.mode != STEP_FAULT)
		still_told(s, wait);
	stream_off(s);
	return err;
}

static int by_sync(npu_stream s)
{
	return npu_stream_sync(s, LONG_MS);
}

static int by_device(npu_stream s)
{
	return npu_device_sync(0, LONG_MS);
}

static int by_query(npu_stream s)
{
	int err;

	do
		err = npu_stream_query(s);
	while (err == -EINPROGRESS);
	return err;
}

static int secondary_of_other(void)
{
	int err;

	spare(true);
	npu_device_set(1);
	spare(false);
	err = end_of(npu_guard_secondary(&obj.g));
	spare(true);
	npu_device_reset(1, LONG_MS);
	npu_device_set(0);
	spare(false);
	return err;
}

static void *in_thread(void *arg)
{
	int *err = arg;

	step_mine = true;
	*err = npu_memset_async(obj.p, 1, 64, obj.s);
	step_mine = false;
	return NULL;
}

/* A thread's first call. */
static int first_in_thread(void)
{
	int err = -1;
	pthread_t th;

	if (pthread_create(&th, NULL, in_thread, &err))
		return -1;
	pthread_join(th, NULL);
	if (err)	/* the record is that thread's */
		hal_fail(err, "thread", "what the other thread was told");
	return err;
}

/* There and back, with a kernel in between: what comes back is right, or the call says no. */
static int whole_programme(void)
{
	struct npu_simnpu_inc_args a = { 0, 3 };
	uint64_t v = 39;
	void *p;
	int err;

	err = npu_malloc(64, 0, &p);
	if (err)
		return err;
	a.addr = (uintptr_t)p;
	err = npu_memcpy_async(p, &v, sizeof(v), NPU_COPY_AUTO, obj.s);
	if (!err)
		err = npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), obj.s);
	if (!err)
		err = npu_memcpy_async(&v, p, sizeof(v), NPU_COPY_AUTO, obj.s);
	if (err)
		spare(true);
	if (npu_stream_sync(obj.s, LONG_MS) && !err)
		err = last_error().code;
	spare(true);
	npu_stream_sync(obj.s, LONG_MS);
	if (npu_free(p))
		step_wrong("memory cannot be freed");
	spare(false);
	if (!err && v != 42)
		step_wrong("42 is %llu", (unsigned long long)v);
	return err;
}

/* Device 1 is opened, busy, stopped, and closed again for the next step. */
static int stop_busy(void)
{
	npu_stream s = stream_on(1);
	int err;

	spare(true);
	delay(s, 100000);
	spare(false);
	err = npu_device_stop(1, LONG_MS);
	spare(true);
	npu_device_reset(1, LONG_MS);
	spare(false);
	return err;
}

static int restart_stopped(uint32_t flags)
{
	int err;

	spare(true);
	stream_on(1);
	npu_device_stop(1, LONG_MS);
	spare(false);
	err = npu_device_restart(1, flags, LONG_MS);
	spare(true);
	npu_device_reset(1, LONG_MS);
	spare(false);
	return err;
}

static int abort_busy(void)
{
	npu_stream s = new_stream();
	int err;

	spare(true);
	delay(s, 50000000);
	delay(s, 50000000);
	spare(false);
	err = npu_stream_abort(s, LONG_MS);
	stream_off(s);
	return err;
}

static void *new_block(size_t size)
{
	void *p = NULL;

	spare(true);
	npu_mem_alloc(size, obj.s, &p);
	spare(false);
	return p;
}

/* Memory that another stream uses goes through that one's queue. */
static int record_and_free(void)
{
	npu_stream other = new_stream();
	void *p = new_block(1 << 20);
	int err;

	spare(true);
	delay(other, 1000000);
	spare(false);
	err = npu_mem_record_stream(p, other);
	if (!err)
		err = npu_mem_free(p);
	spare(true);
	if (err)
		npu_mem_free(p);
	npu_stream_sync(other, LONG_MS);
	spare(false);
	stream_off(other);
	return err;
}

/* With a lane, a segment and a route of its own; and what is left of it. */
static int block_of_pool(void)
{
	npu_mem_pool pool = new_mem_pool();
	void *p = NULL;
	int err, end;

	err = npu_mem_pool_begin(pool, NPU_MEM_POOL_STREAM, obj.s);
	if (!err)
		err = npu_mem_alloc(5000, obj.s, &p);
	end = npu_mem_pool_destroy(pool);
	spare(true);
	if (end)
		npu_mem_pool_destroy(pool);
	npu_mem_free(p);
	spare(false);
	return err ? err : end;
}

static int empty_cache(void)
{
	void *p = new_block(3 << 20);

	spare(true);
	npu_mem_free(p);
	spare(false);
	return npu_mem_empty_cache(0);
}

static void *new_pinned(size_t size)
{
	void *p = NULL;

	spare(true);
	npu_host_alloc(size, &p);
	spare(false);
	return p;
}

static int record_and_free_pinned(void)
{
	npu_stream other = new_stream();
	void *p = new_pinned(1 << 20);
	int err;

	spare(true);
	delay(other, 1000000);
	spare(false);
	err = npu_host_record_stream(p, other);
	if (!err)
		err = npu_host_free(p);
	spare(true);
	if (err)
		npu_host_free(p);
	npu_stream_sync(other, LONG_MS);
	spare(false);
	stream_off(other);
	return err;
}

static int empty_pinned(void)
{
	void *p = new_pinned(3 << 20);

	spare(true);
	npu_host_free(p);
	spare(false);
	return npu_host_empty_cache(0);
}

/* The option off, and on again. */
static int block_of_its_own(void)
{
	int err;

	spare(true);
	npu_option_set("mem_caching", "0");
	spare(false);
	err = npu_mem_alloc(5000, obj.s, &obj.out);
	spare(true);
	npu_option_set("mem_caching", NULL);
	spare(false);
	return err;
}

/* The thread for files may hold a stream for a moment after it was destroyed. */
static void queues_settle(uint32_t were)
{
	struct simnpu_test_device d;
	int ms;

	for (ms = 0; ms < 1000; ms++) {
		simnpu_test_device(0, &d);
		if (d.queues <= were)
			return;
		usleep(1000);
	}
}

/* With all that the first one makes: threads, and a context's own. */
static int file_in_stream(bool write)
{
	struct simnpu_test_device d;
	npu_stream s;
	int err, end;

	simnpu_test_device(0, &d);
	s = new_stream();
	err = write ? npu_file_write_async(s, obj.file, 100, obj.p, 4000) :
		      npu_file_read_async(s, obj.file, 100, obj.p, 4000);
	end = npu_stream_sync(s, LONG_MS);
	stream_off(s);
	queues_settle(d.queues);
	return err ? err : end;
}

/* With a block in it, and a history. */
static int snapshot_of_block(void)
{
	void *p;
	int err;

	spare(true);
	npu_mem_alloc(500, obj.s, &p);
	npu_mem_history(0, NPU_MEM_HISTORY_ON, 16);
	spare(false);
	err = if_shot(npu_mem_snapshot(0, no_text, NULL));
	spare(true);
	npu_mem_history(0, NPU_MEM_HISTORY_OFF, 0);
	npu_mem_free(p);
	spare(false);
	return err;
}

#define EXTRA_CALLS(X)								\
	X(npu_mem_alloc, npu_mem_alloc(64 << 20, obj.s, &obj.out), 0)		\
	X(npu_host_alloc, npu_host_alloc(9 << 20, &obj.out), 0)			\
	X(npu_host_record_stream, record_and_free_pinned(), 0)			\
	X(npu_host_empty_cache, empty_pinned(), 0)				\
	X(npu_mem_alloc, block_of_its_own(), 0)					\
	X(npu_mem_pool_begin, block_of_pool(), 0)				\
	X(npu_mem_free, npu_mem_free(new_block(1 << 20)), 0)			\
	X(npu_mem_record_stream, record_and_free(), 0)				\
	X(npu_mem_empty_cache, empty_cache(), 0)				\
	X(npu_mem_snapshot, snapshot_of_block(), 0)				\
	X(npu_file_read, npu_file_read(obj.file, 1, obj.q, 4096), 0)		\
	X(npu_file_read_async, file_in_stream(false), 0)			\
	X(npu_file_write_async, file_in_stream(true), 0)			\
	X(npu_free, free_memory(), 0)						\
	X(npu_free_host, free_pinned(), 0)					\
	X(npu_malloc, npu_malloc(64 << 20, 0, &obj.out), 0)			\
	X(npu_malloc, npu_malloc(4 << 20, NPU_MEM_HUGE_FIRST, &obj.out), 0)	\
	X(npu_malloc, npu_malloc(4 << 20, NPU_MEM_MANAGED, &obj.out), 0)	\
	X(npu_free, free_managed(), 0)						\
	X(npu_malloc_host, npu_malloc_host(1 << 20, 0, &obj.out), 0)		\
	X(npu_memcpy, npu_memcpy(obj.q, obj.p, 4096, NPU_COPY_AUTO), 0)		\
	X(npu_module_load_data, load_image(), 0)				\
	X(npu_module_unload, unload(), 0)					\
	X(npu_kernel_get, kernel_of_module(), 0)				\
	X(npu_event_create, npu_event_create(NPU_EVENT_TIMING, &obj.e_out), 0)	\
	X(npu_event_record, first_record(), 0)					\
	X(npu_event_fd, fd_of_busy(true), 0)					\
	X(npu_stream_fd, fd_of_busy(false), 0)					\
	X(npu_stream_wait_stream, wait_other_device(), 0)			\
	X(npu_stream_callback, first_callback(), 0)				\
	X(npu_launch, launch_many(), 0)						\
	X(npu_stream_sync, sync_busy(), 0)					\
	X(npu_stream_sync, failure_told(by_sync), -EFAULT)			\
	X(npu_device_sync, failure_told(by_device), -EFAULT)			\
	X(npu_stream_query, failure_told(by_query), -EFAULT)			\
	X(npu_stream_destroy, destroy_busy(), 0)				\
	X(npu_context_destroy, destroy_full(), 0)				\
	X(npu_device_reset, reset_used(), 0)					\
	X(npu_device_sync, sync_many(), 0)					\
	X(npu_guard_secondary, secondary_of_other(), 0)				\
	X(npu_memset_async, first_in_thread(), 0)				\
	X(npu_option_set, npu_option_set("log_level", "error"), 0)		\
	X(npu_tag_set, npu_tag_set("step"), 0)					\
	X(npu_device_stop, stop_busy(), 0)					\
	X(npu_device_restart, restart_stopped(0), 0)				\
	X(npu_device_restart, restart_stopped(NPU_RESTART_REBUILD), 0)		\
	X(npu_stream_abort, abort_busy(), 0)					\
	X(npu_memcpy_async, whole_programme(), 0)

#endif /* SELFTESTS_RUNTIME_STEP_CALLS_H */
