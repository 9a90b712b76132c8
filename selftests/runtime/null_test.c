// SPDX-License-Identifier: GPL-2.0-only
/*
 * A device that can do nothing: what the runtime itself does works, all else is
 * refused by its capabilities.
 */
#include "selftests/npu_kselftest.h"

#include "hal/handle.h"
#include "selftests/runtime/rt_test.h"

FIXTURE(null) {
};

FIXTURE_SETUP(null)
{
	setenv("NPU_DRIVER", "null", 1);
}

FIXTURE_TEARDOWN(null)
{
	int t;

	EXPECT_EQ(0, npu_finalize(1000));
	for (t = 1; t < HAL_HANDLE_TYPES; t++)
		EXPECT_EQ(0, hal_handle_count(t));
}

TEST_F(null, questions)
{
	struct npu_device_info i = { .size = sizeof(i) };
	int n, can;

	OK(npu_device_count(&n));
	EXPECT_EQ(1, n);
	OK(npu_device_get_info(0, &i));
	EXPECT_EQ(0, i.caps);
	EXPECT_EQ(0, i.mem_total);
	EXPECT_STREQ("null", i.driver);
	OK(npu_device_can_access_peer(0, 0, &can));
	EXPECT_EQ(-ENODEV, npu_device_get_info(1, &i));
}

TEST_F(null, what_needs_no_capability)
{
	struct npu_guard g;
	npu_context c;
	npu_event e;
	int d;

	OK(npu_device_set(0));
	OK(npu_guard_device(&g, 0));
	OK(npu_guard_end(&g));
	OK(npu_context_create(0, &c));
	OK(npu_context_set(c));
	OK(npu_context_sync(c, 0));
	OK(npu_context_device(c, &d));
	OK(npu_context_destroy(c, 0));
	OK(npu_event_create(0, &e));
	OK(npu_event_sync(e, 0));
	OK(npu_device_sync_all(0));
	EXPECT_EQ(1, is_open(0));
	OK(npu_device_reset(0, 0));
	EXPECT_EQ(0, is_open(0));
}

TEST_F(null, all_else_is_refused)
{
	struct npu_guard g;
	npu_module m;
	npu_kernel k;
	npu_stream s;
	uint64_t ns;
	char c[8];
	void *p;
	int fd;

	EXPECT_EQ(-EOPNOTSUPP, npu_stream_create(NULL, &s));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_default(0, &s));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_secondary(0, &s));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_pool_get(0, 4, &s));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_lease(0, 4, &s));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_current(0, &s));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_sync(NPU_STREAM_CURRENT, 0));
	EXPECT_EQ(-EOPNOTSUPP, npu_stream_fd(NPU_STREAM_CURRENT, &fd));
	EXPECT_EQ(-EOPNOTSUPP, npu_guard_secondary(&g));
	EXPECT_EQ(-EOPNOTSUPP, npu_malloc(8, 0, &p));
	EXPECT_EQ(-EOPNOTSUPP, npu_malloc_host(8, 0, &p));
	EXPECT_EQ(-EOPNOTSUPP, npu_host_alloc(8, &p));
	EXPECT_EQ(-EOPNOTSUPP, npu_host_register(c, 8, 0));
	EXPECT_EQ(-EOPNOTSUPP, npu_module_load("/dev/null", &m));
	EXPECT_EQ(-EOPNOTSUPP, npu_module_load_data(c, 8, &m));
	EXPECT_EQ(-EOPNOTSUPP, npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &k));
	EXPECT_EQ(-EOPNOTSUPP, npu_device_time(0, &ns));
	EXPECT_EQ(-EOPNOTSUPP, npu_device_mem_info(0, NULL, NULL));
	EXPECT_EQ(0, hal_handle_count(HAL_HANDLE_STREAM));
	/* the host's memory is the host's */
	OK(npu_memcpy(c, "1234567", 8, NPU_COPY_AUTO));
	EXPECT_STREQ("1234567", c);
}

TEST_HARNESS_MAIN
