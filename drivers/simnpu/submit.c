// SPDX-License-Identifier: MIT
/*
 * Submission: one descriptor written into a ring that the device reads. Runs
 * under the stream's submit lock and makes no system call.
 *
 * A segment is written lap after lap. A lap ends with a link: to the segment's
 * own start when the device has left enough of it, else to a segment that
 * prepare has had made. Slots of the previous lap may be overwritten once the
 * device has consumed them; one slot is always kept for the link.
 */
#include <string.h>

#include "drivers/simnpu/simnpu.h"

/* Bits of simnpu_stream.spare that say how large the segment is. */
#define SPARE_LOG 63u
_Static_assert(sizeof(struct simnpu_desc) == SPARE_LOG + 1, "offsets of segments leave room");

/* How many slots of the current lap may be written, by what the device has consumed. */
static uint32_t ring_writable(const struct simnpu_ring *r, uint64_t consumed)
{
	uint64_t left = consumed - r->prev_base;

	if (left >= r->prev_len || left > r->slots)
		return r->slots;
	return (uint32_t)left;
}

/* Writes the link and starts a lap; the task that comes next is @seq. */
static void ring_link(struct simnpu_ring *r, uint64_t seq, uint64_t offset,
		      struct simnpu_desc *to, uint32_t slots)
{
	struct simnpu_desc *d = &r->slot[r->pos];
	bool same = to == r->slot;

	d->op = SIMNPU_OP_LINK;
	d->slots = 0;
	d->flags = 0;
	d->tag = 0;
	d->cookie = 0;
	d->link.ring = offset;
	d->link.slots = slots;
	memset(d->link.pad, 0, sizeof(d->link.pad));
	/* relaxed: the store of the link's seq is behind it */
	if (same && r->care & SIMNPU_RING_DATA)
		hal_shm_store_relaxed(&to->seq, 0);
	/* release: the device sees the link whole */
	hal_shm_store_release(&d->seq, seq | SIMNPU_SEQ_LINK);
	r->prev_base = r->base;
	r->prev_len = same ? r->pos + 1 : 0;
	r->base += r->pos + 1;
	r->slot = to;
	r->slots = slots;
	r->pos = 0;
	/* segments come zeroed */
	if (!same)
		r->care &= ~SIMNPU_RING_DATA;
}

/* Goes on at the start of this segment, or in the spare one, where @n slots fit. */
static bool ring_turn(struct simnpu_stream *s, uint64_t seq, uint32_t n, uint64_t consumed)
{
	struct simnpu_ctx *ctx = to_simnpu_ctx(s->base.ctx);
	struct simnpu_ring *r = &s->ring;
	uint64_t spare;
	char *to;

	if (consumed > r->base && consumed - r->base > n && n < r->slots) {
		ring_link(r, seq, (uint64_t)((char *)r->slot - ctx->arena), r->slot, r->slots);
		return true;
	}
	spare = hal_load_acquire(&s->spare);
	if (!spare || n >= 1u << (spare & SPARE_LOG))
		return false;
	/* relaxed: prepare puts another one there, and has nothing to read here */
	hal_store_relaxed(&s->spare, 0);
	to = ctx->arena + (spare & ~(uint64_t)SPARE_LOG);
	ring_link(r, seq, spare & ~(uint64_t)SPARE_LOG, (struct simnpu_desc *)to,
		  1u << (spare & SPARE_LOG));
	return true;
}

/* Tasks in the queue before @seq; none in one that the device has given up. */
static uint64_t ring_queued(const struct simnpu_stream *s, uint64_t seq)
{
	uint64_t done = hal_shm_load_acquire(&s->header->timeline) & ~SIMNPU_TIMELINE_ERROR;

	return done < seq ? seq - 1 - done : 0;
}

/* Looks at what the device has consumed; turns the lap when it is over. */
static __attribute__((noinline)) struct simnpu_desc *ring_room(struct simnpu_stream *s,
							       uint64_t seq, uint32_t n)
{
	struct simnpu_ring *r = &s->ring;
	/* acquire: the device has read the slots that we are going to overwrite */
	uint64_t consumed = hal_shm_load_acquire(&s->header->consumed);
	uint64_t queued = ring_queued(s, seq);
	uint32_t room;

	/* relaxed: prepare reads it after having taken and left the submit lock's order */
	hal_store_relaxed(&s->wanted, seq);
	if (queued >= s->max_queued)
		return NULL;
	if (r->pos + n >= ring_writable(r, consumed) && !ring_turn(s, seq, n, consumed))
		return NULL;
	r->limit = ring_writable(r, consumed) - 1;
	/* a task has one slot or more: up to there no more than max_queued can be queued */
	room = s->max_queued - (uint32_t)queued;
	if (room < n)
		room = n;
	if (r->limit - r->pos > room)
		r->limit = r->pos + room;
	return &r->slot[r->pos];
}

/* The slot for a task of @n slots, or NULL. */
static inline struct simnpu_desc *ring_get(struct simnpu_stream *s, uint64_t seq, uint32_t n)
{
	if (likely(s->ring.pos + n <= s->ring.limit))
		return &s->ring.slot[s->ring.pos];
	return ring_room(s, seq, n);
}

/* Hands the task at @d over. Return: 0, or 1 when the device wants to be kicked. */
static inline int ring_put(struct simnpu_stream *s, struct simnpu_desc *d,
			   const struct hal_task *t, uint32_t n)
{
	struct simnpu_ring *r = &s->ring;

	d->tag = t->tag;
	d->cookie = t->place;
	r->pos += n;
	/* relaxed: the store of the task's own seq is behind it */
	if (unlikely(r->care & SIMNPU_RING_DATA))
		hal_shm_store_relaxed(&r->slot[r->pos].seq, 0);
	/* release: the device sees the task whole, and what the host wrote before */
	hal_shm_store_release(&d->seq, t->seq);
	/*
	 * The device makes our processor pass a barrier between its setting the
	 * doorbell and its last look: only the compiler has to keep the order.
	 * Unless it has said that it can't: then the doorbell is read in a way that
	 * no processor moves in front of the store.
	 */
	if (unlikely(r->care & SIMNPU_RING_FENCE))
		return __atomic_fetch_add(&s->header->doorbell, 0, __ATOMIC_SEQ_CST) != 0;
	atomic_signal_fence(memory_order_seq_cst);
	return unlikely(hal_shm_load_relaxed(&s->header->doorbell));
}

static inline void desc_op(struct simnpu_desc *d, uint8_t op, uint32_t extra, uint16_t flags)
{
	d->op = op;
	d->slots = (uint8_t)extra;
	d->flags = flags;
}

/* A few bytes, by moves that overlap: cheaper than a call. */
static inline void args_copy(uint8_t *to, const char *from, uint32_t size)
{
	if (size >= 8) {
		if (size > 16)
			memcpy(to + 8, from + 8, 8);
		memcpy(to, from, 8);
		memcpy(to + size - 8, from + size - 8, 8);
	} else if (size >= 4) {
		memcpy(to, from, 4);
		memcpy(to + size - 4, from + size - 4, 4);
	} else if (size) {
		to[0] = (uint8_t)from[0];
		to[size / 2] = (uint8_t)from[size / 2];
		to[size - 1] = (uint8_t)from[size - 1];
	}
}

static __attribute__((noinline)) int launch_large(struct simnpu_stream *s, const struct hal_task *t,
						  const struct hal_launch *l)
{
	uint32_t extra = (l->args_size + sizeof(struct simnpu_desc) - 1) /
			 sizeof(struct simnpu_desc);
	struct simnpu_desc *d = ring_get(s, t->seq, 1 + extra);

	if (!d)
		return -EAGAIN;
	desc_op(d, SIMNPU_OP_LAUNCH, extra, 0);
	d->launch.kernel = l->kernel;
	d->launch.blocks = l->blocks;
	d->launch.args_size = l->args_size;
	memcpy(d + 1, l->args, l->args_size);
	s->ring.care |= SIMNPU_RING_DATA;
	return ring_put(s, d, t, 1 + extra);
}

/* The submission ops of hal/driver.h. */
int simnpu_launch(struct hal_stream *base, const struct hal_task *t, const struct hal_launch *l)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_desc *d;

	if (unlikely(l->args_size > SIMNPU_ARGS_INLINE))
		return launch_large(s, t, l);
	d = ring_get(s, t->seq, 1);
	if (unlikely(!d))
		return -EAGAIN;
	desc_op(d, SIMNPU_OP_LAUNCH, 0, 0);
	d->launch.kernel = l->kernel;
	d->launch.blocks = l->blocks;
	d->launch.args_size = l->args_size;
	args_copy(d->launch.args, l->args, l->args_size);
	return ring_put(s, d, t, 1);
}

int simnpu_copy(struct hal_stream *base, const struct hal_task *t, const struct hal_copy *c)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	uint32_t extra = c->height > 1;
	struct simnpu_desc_pitch *p;
	struct simnpu_desc *d = ring_get(s, t->seq, 1 + extra);

	if (unlikely(!d))
		return -EAGAIN;
	if (!extra) {
		desc_op(d, SIMNPU_OP_COPY, 0, 0);
		d->copy.dst = (uintptr_t)c->dst;
		d->copy.src = (uintptr_t)c->src;
		d->copy.size = c->width;
		d->copy.kind = simnpu_copy_kind(c);
		memset(d->copy.pad, 0, sizeof(d->copy.pad));
		return ring_put(s, d, t, 1);
	}
	desc_op(d, SIMNPU_OP_COPY_2D, 1, 0);
	d->copy_2d.dst = (uintptr_t)c->dst;
	d->copy_2d.src = (uintptr_t)c->src;
	d->copy_2d.width = c->width;
	d->copy_2d.height = c->height;
	d->copy_2d.kind = simnpu_copy_kind(c);
	d->copy_2d.pad = 0;
	p = (struct simnpu_desc_pitch *)(d + 1);
	memset(p, 0, sizeof(*p));
	p->dst_pitch = c->dst_pitch;
	p->src_pitch = c->src_pitch;
	s->ring.care |= SIMNPU_RING_DATA;
	return ring_put(s, d, t, 2);
}

int simnpu_fill(struct hal_stream *base, const struct hal_task *t, void *dst, int byte, size_t size)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_desc *d = ring_get(s, t->seq, 1);

	if (unlikely(!d))
		return -EAGAIN;
	desc_op(d, SIMNPU_OP_FILL, 0, 0);
	d->fill.dst = (uintptr_t)dst;
	d->fill.size = size;
	d->fill.value = (uint32_t)byte & 255;
	memset(d->fill.pad, 0, sizeof(d->fill.pad));
	return ring_put(s, d, t, 1);
}

int simnpu_wait(struct hal_stream *base, const struct hal_task *t, struct hal_stream *other,
		uint64_t seq)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_stream *o = to_simnpu_stream(other);
	uint32_t handle = o->handle;
	struct simnpu_desc *d;

	if (o->fd != s->fd && !simnpu_import_find(to_simnpu_ctx(base->ctx), o, &handle))
		return -EAGAIN;
	d = ring_get(s, t->seq, 1);
	if (unlikely(!d))
		return -EAGAIN;
	desc_op(d, SIMNPU_OP_WAIT, 0, 0);
	d->wait.queue = handle;
	d->wait.pad = 0;
	d->wait.seq = seq;
	memset(d->wait.pad2, 0, sizeof(d->wait.pad2));
	return ring_put(s, d, t, 1);
}

int simnpu_record(struct hal_stream *base, const struct hal_task *t, struct hal_event *e)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_desc *d = ring_get(s, t->seq, 1);

	if (unlikely(!d))
		return -EAGAIN;
	desc_op(d, SIMNPU_OP_RECORD, 0, 0);
	d->record.event = container_of(e, struct simnpu_stamp, base)->handle;
	memset(d->record.pad, 0, sizeof(d->record.pad));
	return ring_put(s, d, t, 1);
}

static int call(struct hal_stream *base, const struct hal_task *t, void (*fn)(void *arg),
		void *arg, enum simnpu_called kind, uint16_t flags)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_ctx *ctx = to_simnpu_ctx(base->ctx);
	uint32_t none = SIMNPU_CALLBACK_NONE;
	struct simnpu_desc *d;

	/* relaxed: that the thread runs carries no data with it */
	if (unlikely(hal_load_relaxed(&ctx->callback_state[kind]) != SIMNPU_CALLBACK_RUNNING)) {
		atomic_compare_exchange_strong(&ctx->callback_state[kind], &none,
					       SIMNPU_CALLBACK_WANTED);
		/* relaxed: as in ring_room() */
		hal_store_relaxed(&s->wanted, t->seq);
		return -EAGAIN;
	}
	d = ring_get(s, t->seq, 1);
	if (unlikely(!d))
		return -EAGAIN;
	desc_op(d, kind == SIMNPU_HOST_TASKS ? SIMNPU_OP_HOST : SIMNPU_OP_CALLBACK, 0, flags);
	d->callback.fn = (uintptr_t)fn;
	d->callback.arg = (uintptr_t)arg;
	memset(d->callback.pad, 0, sizeof(d->callback.pad));
	return ring_put(s, d, t, 1);
}

int simnpu_callback(struct hal_stream *base, const struct hal_task *t, void (*fn)(void *arg),
		    void *arg, uint32_t flags)
{
	return call(base, t, fn, arg, SIMNPU_CALLBACKS,
		    flags & NPU_CALLBACK_NOBLOCK ? SIMNPU_DESC_NOBLOCK : 0);
}

int simnpu_host(struct hal_stream *base, const struct hal_task *t, void (*begin)(void *arg),
		void *arg)
{
	return call(base, t, begin, arg, SIMNPU_HOST_TASKS, 0);
}

/**
 * simnpu_kick() - ring the doorbell
 * @base: the stream
 *
 * A device that can't be woken for want of a resource is asked again by the next submission, as
 * the doorbell stays set; and a thread that waits for the stream needs no device thread.
 */
void simnpu_kick(struct hal_stream *base)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_kick k = { .queue = s->handle };

	(void)hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_KICK, &k);
}

/* A segment for the stream to go on in; under the context's lock. */
static int ring_grow(struct simnpu_stream *s)
{
	struct simnpu_grow g = { .queue = s->handle, .slots = s->next_slots };
	int err;

	/* acquire is for nobody: only whether there is one counts */
	if (hal_load_relaxed(&s->spare))
		return 0;
	err = hal_sys_ioctl(s->sys, s->fd, SIMNPU_IOCTL_QUEUE_GROW, &g);
	if (err == -ENOMEM)
		return hal_fail(err, "launch", "stream %#llx: no memory for %u more tasks",
				(unsigned long long)s->base.handle, g.slots);
	if (err)
		return err;
	if (s->next_slots < SIMNPU_SEGMENT_MAX)
		s->next_slots *= 4;
	/* release: the segment is there before it is found */
	hal_store_release(&s->spare, g.ring | (uint32_t)__builtin_ctz(g.slots));
	return 0;
}

/**
 * simnpu_prepare() - make room, after a submission gave -EAGAIN
 * @base: the stream
 *
 * Return: 0, -EAGAIN (as many tasks are queued as may be), -ENOMEM.
 */
int simnpu_prepare(struct hal_stream *base)
{
	struct simnpu_stream *s = to_simnpu_stream(base);
	struct simnpu_ctx *ctx = to_simnpu_ctx(base->ctx);
	uint32_t i;
	int err;

	pthread_mutex_lock(&ctx->lock);
	for (i = 0; i < SIMNPU_CALLED; i++) {
		if (hal_load_relaxed(&ctx->callback_state[i]) != SIMNPU_CALLBACK_WANTED)
			continue;
		err = simnpu_callbacks_start(ctx, i);
		pthread_mutex_unlock(&ctx->lock);
		return err;
	}
	/* relaxed: a number that was overtaken asks for too much or for too little once */
	if (ring_queued(s, hal_load_relaxed(&s->wanted)) >= s->max_queued)
		err = -EAGAIN;
	else
		err = ring_grow(s);
	pthread_mutex_unlock(&ctx->lock);
	return err;
}
