/* SPDX-License-Identifier: GPL-2.0-only */
/* What tests of the simulated device's queues share: a context with two rings. */
#ifndef SELFTESTS_DRIVERS_SIMNPU_SCHED_H
#define SELFTESTS_DRIVERS_SIMNPU_SCHED_H

#include "selftests/drivers/simnpu_ring.h"

FIXTURE(sched)
{
	struct ctx c;
	struct ring r, r2;
	uint64_t mem;		/* 4096 bytes of zeros */
	uint64_t nop;
};

FIXTURE_SETUP(sched)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	ASSERT_EQ(0, ring_open(&self->r2, &self->c));
	self->mem = mem_new(&self->c, 4096, NULL);
	ASSERT_NE(0, self->mem);
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 0, 4096, 0));
	self->nop = builtin(&self->c, "nop");
	ASSERT_NE(0, self->nop);
}

FIXTURE_TEARDOWN(sched)
{
	struct simnpu_test_device d;

	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_FALSE(simnpu_test_device(0, &d));
	EXPECT_EQ(0, d.threads);
}

static inline uint64_t borrowed(void)
{
	struct simnpu_test_counters c;

	simnpu_test_counters(&c);
	return c.borrowed;
}

static inline bool timeline_within(struct ring *r, uint64_t seq, uint64_t ns)
{
	uint64_t end = hal_sys_now() + ns;

	while (timeline(r) < seq)
		if (hal_sys_now() > end)
			return false;
	return true;
}

#endif /* SELFTESTS_DRIVERS_SIMNPU_SCHED_H */
