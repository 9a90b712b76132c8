/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the simulated device share: a submitter as plain as can be,
 * straight on the ioctls and rings of uapi/simnpu.h.
 */
#ifndef SELFTESTS_DRIVERS_SIMNPU_RING_H
#define SELFTESTS_DRIVERS_SIMNPU_RING_H

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/simnpu/model/simnpu_model.h"
#include "drivers/simnpu/simnpu_test.h"
#include "hal/base.h"
#include "hal/option.h"
#include "hal/sys.h"
#include "npu/simnpu_kernel.h"
#include "npu/simnpu_ops.h"
#include "uapi/simnpu.h"

#define U64(p) ((uint64_t)(uintptr_t)(p))
#define MS 1000000ull
#define SEC 1000000000ull

static inline int dev_open(unsigned int index)
{
	char path[32];

	snprintf(path, sizeof(path), SIMNPU_NODE_PREFIX "%u", index);
	return hal_sys_open(&simnpu_model_sys, path, 0);
}

static inline int dev_close(int fd)
{
	return hal_sys_close(&simnpu_model_sys, fd);
}

#define io(fd, name, arg) hal_sys_ioctl(&simnpu_model_sys, fd, SIMNPU_IOCTL_##name, arg)

/* Without the loop over EAGAIN, and with any number. */
static inline int io_raw(int fd, unsigned long request, void *arg)
{
	return simnpu_model_sys.ioctl(fd, request, arg) ? -errno : 0;
}

/* An open device with a context and its arena. */
struct ctx {
	int fd;
	uint32_t handle;
	char *arena;
	uint64_t arena_size;
	uint32_t builtin;
};

/* A queue, and where its submitter stands. */
struct ring {
	struct ctx *c;
	uint32_t handle;
	struct simnpu_queue_header *h;
	uint64_t seg;
	uint32_t slots;
	uint32_t pos;
	uint64_t seq;		/* of the next task */
	uint64_t produced;	/* slots, of all segments */
	uint32_t kicks;
};

static inline int ctx_open(struct ctx *c, unsigned int index)
{
	struct simnpu_context arg = { 0 };
	struct simnpu_module m = { .kind = SIMNPU_MODULE_BUILTIN };
	void *p;
	int rc;

	c->fd = dev_open(index);
	if (c->fd < 0)
		return c->fd;
	rc = io(c->fd, CONTEXT_CREATE, &arg);
	if (rc)
		return rc;
	c->handle = arg.context;
	c->arena_size = arg.arena_size;
	rc = hal_sys_mmap(&simnpu_model_sys, arg.arena_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			  c->fd, SIMNPU_MMAP_ARENA(arg.context), &p);
	c->arena = p;
	if (rc)
		return rc;
	m.context = c->handle;
	rc = io(c->fd, MODULE_LOAD, &m);
	c->builtin = m.handle;
	return rc;
}

static inline int kernel_get(struct ctx *c, uint32_t module, const char *name, uint64_t *id)
{
	struct simnpu_kernel k = {
		.name = U64(name), .size = (uint32_t)strlen(name) + 1, .module = module,
	};
	int rc = io(c->fd, KERNEL_GET, &k);

	*id = k.kernel;
	return rc;
}

static inline uint64_t builtin(struct ctx *c, const char *name)
{
	uint64_t id;

	return kernel_get(c, c->builtin, name, &id) ? 0 : id;
}

static inline int ring_open_at(struct ring *r, struct ctx *c, uint32_t slots, uint32_t priority,
			       uint32_t flags, uint64_t first_seq)
{
	struct simnpu_queue q = {
		.context = c->handle, .slots = slots, .priority = priority, .flags = flags,
		.first_seq = first_seq,
	};
	int rc = io(c->fd, QUEUE_CREATE, &q);

	*r = (struct ring){ .c = c, .handle = q.handle, .seg = q.ring, .slots = slots,
			    .seq = first_seq };
	r->h = (void *)(c->arena + q.header);
	return rc;
}

static inline int ring_open(struct ring *r, struct ctx *c)
{
	return ring_open_at(r, c, 64, 4, 0, 1);
}

static inline int ring_close(struct ring *r)
{
	struct simnpu_handle h = { .handle = r->handle };

	return io(r->c->fd, QUEUE_DESTROY, &h);
}

static inline struct simnpu_desc *ring_at(struct ring *r, uint32_t pos)
{
	return (struct simnpu_desc *)(r->c->arena + r->seg) + pos;
}

static inline int ring_kick(struct ring *r)
{
	struct simnpu_kick k = { .queue = r->handle };

	r->kicks++;
	return io(r->c->fd, KICK, &k);
}

static inline void ring_publish(struct ring *r, uint32_t pos, uint64_t seq)
{
	hal_shm_store_release(&ring_at(r, pos)->seq, seq);
	if (hal_shm_load_relaxed(&r->h->doorbell))
		ring_kick(r);
}

/* The link in the last slot, to a segment. */
static inline void ring_link(struct ring *r, uint64_t seg, uint32_t slots)
{
	struct simnpu_desc *d = ring_at(r, r->pos);

	memset(&d->op, 0, sizeof(*d) - sizeof(d->seq));
	d->op = SIMNPU_OP_LINK;
	d->link.ring = seg;
	d->link.slots = slots;
	hal_shm_store_relaxed(&((struct simnpu_desc *)(r->c->arena + seg))->seq, 0);
	ring_publish(r, r->pos, r->seq | SIMNPU_SEQ_LINK);
	r->produced++;
	r->seg = seg;
	r->slots = slots;
	r->pos = 0;
}

static inline int ring_grow(struct ring *r, uint32_t slots)
{
	struct simnpu_grow g = { .queue = r->handle, .slots = slots };
	int rc = io(r->c->fd, QUEUE_GROW, &g);

	if (!rc)
		ring_link(r, g.ring, slots);
	return rc;
}

/* Room for a task with n slots behind it: waits, or grows when told to. */
static inline void ring_room(struct ring *r, uint32_t n, bool grow)
{
	if (r->pos + n + 1 < r->slots)
		return;
	if (grow) {
		ring_grow(r, SIMNPU_SEGMENT_MAX);
		return;
	}
	/* back to the start, once all of the segment is consumed */
	while (hal_shm_load_acquire(&r->h->consumed) != r->produced)
		hal_cpu_relax();
	ring_link(r, r->seg, r->slots);
}

/* Submits a task; d's seq is filled in here. Returns its sequence number. */
static inline uint64_t ring_put(struct ring *r, const struct simnpu_desc *d, const void *more,
				bool grow)
{
	struct simnpu_desc *to;
	uint64_t seq = r->seq;

	ring_room(r, d->slots, grow);
	to = ring_at(r, r->pos);
	memcpy((char *)to + 8, (const char *)d + 8, sizeof(*d) - 8);
	if (d->slots && more)
		memcpy(to + 1, more, d->slots * sizeof(*d));
	if (d->slots)
		hal_shm_store_relaxed(&ring_at(r, r->pos + 1 + d->slots)->seq, 0);
	r->seq++;
	ring_publish(r, r->pos, seq);
	r->pos += 1 + d->slots;
	r->produced += 1 + d->slots;
	return seq;
}

static inline uint64_t put_nop(struct ring *r)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_NOP };

	return ring_put(r, &d, NULL, false);
}

static inline uint64_t put_launch(struct ring *r, uint64_t kernel, uint32_t blocks,
				  const void *args, uint32_t size)
{
	struct simnpu_desc d = {
		.op = SIMNPU_OP_LAUNCH, .launch.kernel = kernel, .launch.blocks = blocks,
		.launch.args_size = size,
	};
	char more[4096];

	if (size <= SIMNPU_ARGS_INLINE) {
		if (size)
			memcpy(d.launch.args, args, size);
		return ring_put(r, &d, NULL, false);
	}
	d.slots = (uint8_t)((size + 63) / 64);
	memset(more, 0, sizeof(more));
	memcpy(more, args, size);
	return ring_put(r, &d, more, false);
}

static inline uint64_t put_delay(struct ring *r, uint64_t ns)
{
	return put_launch(r, builtin(r->c, "delay_ns"), 1, &ns, sizeof(ns));
}

static inline uint64_t put_inc(struct ring *r, uint64_t addr, uint64_t by)
{
	struct npu_simnpu_inc_args a = { addr, by };

	return put_launch(r, builtin(r->c, "inc_u64"), 1, &a, sizeof(a));
}

static inline uint64_t put_wait(struct ring *r, uint32_t queue, uint64_t seq)
{
	struct simnpu_desc d = { .op = SIMNPU_OP_WAIT, .wait.queue = queue, .wait.seq = seq };

	return ring_put(r, &d, NULL, false);
}

static inline uint64_t put_copy(struct ring *r, uint64_t dst, uint64_t src, uint64_t size,
				uint32_t kind)
{
	struct simnpu_desc d = {
		.op = SIMNPU_OP_COPY, .copy.dst = dst, .copy.src = src, .copy.size = size,
		.copy.kind = kind,
	};

	return ring_put(r, &d, NULL, false);
}

static inline int ring_wait_until(struct ring *r, uint64_t seq, uint64_t deadline, uint32_t flags)
{
	struct simnpu_wait w = {
		.seq = seq, .deadline_ns = deadline, .queue = r->handle, .flags = flags,
	};

	return io(r->c->fd, WAIT, &w);
}

static inline int ring_wait(struct ring *r, uint64_t seq)
{
	return ring_wait_until(r, seq, SIMNPU_DEADLINE_NONE, 0);
}

/* For engine threads alone to have done it. */
static inline int ring_wait_engine(struct ring *r, uint64_t seq)
{
	return ring_wait_until(r, seq, hal_sys_now() + 20 * SEC,
			       SIMNPU_WAIT_NO_BORROW | SIMNPU_WAIT_BLOCK);
}

static inline uint64_t timeline(struct ring *r)
{
	return hal_shm_load_acquire(&r->h->timeline) & ~SIMNPU_TIMELINE_ERROR;
}

static inline bool marked(struct ring *r)
{
	return hal_shm_load_acquire(&r->h->timeline) & SIMNPU_TIMELINE_ERROR;
}

/* Takes up to n failures; returns how many, or a negative errno. */
static inline int ring_errors(struct ring *r, struct simnpu_task_error *list, uint32_t n)
{
	struct simnpu_errors e = {
		.list = U64(list), .queue = r->handle, .room = n, .entry_size = sizeof(*list),
	};
	int rc = io(r->c->fd, QUEUE_ERRORS, &e);

	return rc ? rc : (int)e.count;
}

/* Device memory; 0: refused. */
static inline uint64_t mem_new(struct ctx *c, uint64_t size, uint32_t *handle)
{
	struct simnpu_mem m = { .size = size, .context = c->handle };

	if (io(c->fd, MEM_CREATE, &m))
		return 0;
	if (handle)
		*handle = m.handle;
	return m.addr;
}

static inline int mem_del(struct ctx *c, uint32_t handle)
{
	struct simnpu_mem_free m = { .handle = handle };

	return io(c->fd, MEM_DESTROY, &m);
}

/* A blocking copy; dst_pitch and all is filled in. */
static inline int copy_now(struct ctx *c, uint64_t dst, uint64_t src, uint64_t size, uint32_t kind)
{
	struct simnpu_copy a = {
		.dst = dst, .src = src, .dst_pitch = size, .src_pitch = kind ? size : 0,
		.width = size, .height = 1, .context = c->handle, .kind = kind,
	};

	return io(c->fd, COPY, &a);
}

static inline uint64_t mem_u64(struct ctx *c, uint64_t addr)
{
	uint64_t v = ~0ull;

	copy_now(c, U64(&v), addr, sizeof(v), SIMNPU_COPY_TO_HOST);
	return v;
}

#endif /* SELFTESTS_DRIVERS_SIMNPU_RING_H */
