/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests of faults and recovery of the simulated device share. */
#ifndef SELFTESTS_DRIVERS_SIMNPU_RECOVERY_H
#define SELFTESTS_DRIVERS_SIMNPU_RECOVERY_H

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "selftests/drivers/simnpu_ring.h"

/* A thread that waits for a task. */
struct waiting {
	pthread_t thread;
	struct ring *r;
	uint64_t seq;
	uint32_t flags;
	int rc;
};

static inline void *waiting_main(void *arg)
{
	struct waiting *w = arg;

	w->rc = ring_wait_until(w->r, w->seq, SIMNPU_DEADLINE_NONE, w->flags);
	return NULL;
}

static inline void waiting_start(struct waiting *w, struct ring *r, uint64_t seq, uint32_t flags)
{
	*w = (struct waiting){ .r = r, .seq = seq, .flags = flags, .rc = 1 };
	if (pthread_create(&w->thread, NULL, waiting_main, w))
		abort();
}

static inline int waiting_end(struct waiting *w)
{
	pthread_join(w->thread, NULL);
	return w->rc;
}

static inline void nap_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

static inline int ring_abort_until(struct ring *r, uint64_t deadline)
{
	struct simnpu_abort a = { .queue = r->handle, .deadline_ns = deadline };

	return io(r->c->fd, QUEUE_ABORT, &a);
}

static inline int ring_abort(struct ring *r)
{
	return ring_abort_until(r, SIMNPU_DEADLINE_NONE);
}

static inline int device_stop_until(int fd, uint64_t deadline)
{
	struct simnpu_stop s = { .deadline_ns = deadline };

	return io(fd, DEVICE_STOP, &s);
}

static inline int device_stop(int fd)
{
	return device_stop_until(fd, 0);
}

static inline int device_restart(int fd)
{
	struct simnpu_stop s = { 0 };

	return io(fd, DEVICE_RESTART, &s);
}

static inline struct simnpu_info info_of(int fd)
{
	struct simnpu_info i = { 0 };

	if (io(fd, INFO, &i))
		i.state = ~0u;
	return i;
}

static inline uint32_t state_of(int fd)
{
	return info_of(fd).state;
}

/* Until the head of a ring is being run, as far as its timeline shows: what is before is done. */
static inline void until_done(struct ring *r, uint64_t seq)
{
	while (timeline(r) < seq)
		hal_cpu_relax();
}

/* Until the first rule has hit n times. */
static inline void until_hit(uint64_t n)
{
	struct simnpu_fault_rule l = { .hit = 0 };

	while (l.hit < n) {
		nap_ms(1);
		simnpu_fault_list(&l, 1);
	}
}

static inline uint64_t ms_from_now(uint64_t ms)
{
	return hal_sys_now() + ms * MS;
}

#endif /* SELFTESTS_DRIVERS_SIMNPU_RECOVERY_H */
