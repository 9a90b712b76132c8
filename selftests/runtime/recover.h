/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests of stop and restart share: a device with a stream and some memory.
 */
#ifndef SELFTESTS_RUNTIME_RECOVER_H
#define SELFTESTS_RUNTIME_RECOVER_H

#include <errno.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#define MINUTE 60000000000ull

FIXTURE(recover) {
	npu_stream s;
	void *mem;
};

FIXTURE_SETUP(recover)
{
	OK(npu_option_set("driver", "simnpu"));
	OK(npu_device_set(0));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_malloc(4096, 0, &self->mem));
	OK(npu_memset(self->mem, 0, 4096));
}

FIXTURE_TEARDOWN(recover)
{
	simnpu_fault_clear();
	simnpu_test_plug_reset();
	EXPECT_EQ(0, npu_finalize(5000));
}

static inline struct npu_device_health health(int device)
{
	struct npu_device_health h = { .size = sizeof(h) };

	npu_device_get_health(device, &h);
	return h;
}

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static inline void nothing(void *arg)
{
}

/* Any task, and a wait for it. */
static inline int use(npu_stream s)
{
	int err = npu_stream_callback(s, nothing, NULL, 0);

	return err ? err : npu_stream_sync(s, 5000);
}

static inline uint64_t word_at(void *p)
{
	uint64_t w = 0;

	npu_memcpy(&w, p, sizeof(w), NPU_COPY_AUTO);
	return w;
}

#endif /* SELFTESTS_RUNTIME_RECOVER_H */
