/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the runtime share.
 */
#ifndef SELFTESTS_RUNTIME_RT_TEST_H
#define SELFTESTS_RUNTIME_RT_TEST_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "npu/npu.h"
#include "npu/simnpu_ops.h"

#define OK(expr) ASSERT_EQ(0, (expr))

/* A callback that holds its stream until it is opened. */
struct gate {
	_Atomic int entered;
	_Atomic int open;
	_Atomic int left;
};

static inline void gate_hold(void *arg)
{
	struct gate *g = arg;

	atomic_store(&g->entered, 1);
	while (!atomic_load(&g->open))
		usleep(200);
	atomic_store(&g->left, 1);
}

/* Waits up to ten seconds for a flag. */
static inline bool seen(_Atomic int *flag)
{
	int i;

	for (i = 0; i < 50000 && !atomic_load(flag); i++)
		usleep(200);
	return atomic_load(flag) != 0;
}

/* A built-in kernel; without one a launch of what comes back is refused. */
static inline npu_kernel builtin_kernel(const char *name)
{
	npu_kernel k = { 0 };

	npu_kernel_get(NPU_MODULE_BUILTIN, name, &k);
	return k;
}

/* A task that keeps a core busy. */
static inline int delay(npu_stream s, uint64_t ns)
{
	struct npu_simnpu_delay_args a = { ns };

	return npu_launch(builtin_kernel("delay_ns"), 1, &a, sizeof(a), s);
}

/* A task that fails: it reaches outside device memory. */
static inline int failing_task(npu_stream s)
{
	struct npu_simnpu_inc_args a = { 8, 1 };

	return npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), s);
}

static inline struct npu_error last_error(void)
{
	struct npu_error e = { .size = sizeof(e) };

	npu_last_error(&e);
	return e;
}

/* Whether a device is open. */
static inline int is_open(int device)
{
	int active = -1;

	npu_device_is_active(device, &active);
	return active;
}

/* Whether the part of the library was built that a call is of: runtime/absent.c. */
static inline bool is_built(const char *call)
{
	static const struct {
		const char *begin;
		bool built;
	} parts[] = {
		{ "npu_mem_set_safe", true },
		{ "npu_mem_set_tag", IS_ENABLED(CONFIG_MEM_SLEEP) },
		{ "npu_mem_sleep", IS_ENABLED(CONFIG_MEM_SLEEP) },
		{ "npu_mem_wake", IS_ENABLED(CONFIG_MEM_SLEEP) },
		{ "npu_mem_history", IS_ENABLED(CONFIG_MEM_SNAPSHOT) },
		{ "npu_mem_snapshot", IS_ENABLED(CONFIG_MEM_SNAPSHOT) },
		{ "npu_mem_", IS_ENABLED(CONFIG_MEM_CACHE) },
		{ "npu_workspace_", IS_ENABLED(CONFIG_MEM_CACHE) },
		{ "npu_host_is_pinned", true },
		{ "npu_host_register", true },
		{ "npu_host_unregister", true },
		{ "npu_host_", IS_ENABLED(CONFIG_MEM_PINNED) },
		{ "npu_ipc_", IS_ENABLED(CONFIG_IPC) },
		{ "npu_vm_", IS_ENABLED(CONFIG_VMM) },
		{ "npu_file_", IS_ENABLED(CONFIG_FILES) },
		{ "npu_weights_", IS_ENABLED(CONFIG_FILES) },
	};
	size_t i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strncmp(call, parts[i].begin, strlen(parts[i].begin)))
			return parts[i].built;
	return true;
}

/* What a call that is not built says is right. */
static inline int if_built(const char *call, int err)
{
	return err == -EOPNOTSUPP && !is_built(call) ? 0 : err;
}

#endif /* SELFTESTS_RUNTIME_RT_TEST_H */
