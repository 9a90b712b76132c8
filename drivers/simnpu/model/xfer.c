// SPDX-License-Identifier: MIT
/*
 * Copies and fills: addresses translated and checked, large ones shared.
 */
#include <string.h>

#include "drivers/simnpu/model/copy.h"
#include "drivers/simnpu/model/hot.h"

#define SHARE_MIN (4u << 20)	/* bytes for which it is worth waking another thread */

/* A copy or fill, addresses translated. */
struct xfer {
	struct model_job job;
	char *dst;
	const char *src;	/* NULL: a fill */
	int byte;
	uint64_t dst_pitch, src_pitch, width, height;
	uint64_t chunk;		/* bytes, or rows, of a piece */
	uint64_t share;		/* bytes that a thread moves in all */
};

static void move_flat(const struct xfer *x, uint64_t from, uint64_t n)
{
	if (x->src)
		model_memcpy_part(x->dst + from, x->src + from, n, x->share);
	else
		model_memset_part(x->dst + from, x->byte, n, x->share);
}

static void move_rows(const struct xfer *x, uint64_t from, uint64_t n)
{
	char *dst = x->dst + from * x->dst_pitch;

	if (x->src) {
		model_memcpy_2d(dst, x->dst_pitch, x->src + from * x->src_pitch, x->src_pitch,
				x->width, n, x->share);
		return;
	}
	for (; n; n--, dst += x->dst_pitch)
		model_memset(dst, x->byte, x->width);
}

static void xfer_piece(struct model_job *job, struct model_device *dev, uint32_t token, uint32_t i)
{
	struct xfer *x = container_of(job, struct xfer, job);
	uint64_t all = x->height > 1 ? x->height : x->width;
	uint64_t from = i * x->chunk;
	uint64_t n = all - from < x->chunk ? all - from : x->chunk;

	(void)dev;
	(void)token;
	if (x->height > 1)
		move_rows(x, from, n);
	else
		move_flat(x, from, n);
}

static void run_shared(struct model_device *dev, uint32_t token, struct xfer *x)
{
	unsigned int threads = 1 + model_tokens_free(dev, x->job.class);
	uint64_t total = x->width * x->height, all = x->height > 1 ? x->height : x->width;
	uint64_t bytes;

	if (threads > dev->dma)
		threads = dev->dma;
	bytes = model_copy_chunk(total, threads);
	x->share = total / threads;
	x->chunk = x->height > 1 ? (bytes + x->width - 1) / x->width : bytes;
	x->job.run = xfer_piece;
	model_job_run(&x->job, dev, token, (uint32_t)((all + x->chunk - 1) / x->chunk), true);
}

static void xfer_run(struct model_device *dev, uint32_t token, struct xfer *x)
{
	uint64_t total;

	/* rows without gaps are one row */
	if (x->dst_pitch == x->width && (!x->src || x->src_pitch == x->width)) {
		x->width *= x->height;
		x->height = 1;
	}
	total = x->width * x->height;
	if (total >= SHARE_MIN && dev->dma > 1 && x->width <= total / 2 + SHARE_MIN) {
		run_shared(dev, token, x);
		return;
	}
	x->share = total;
	if (x->height > 1)
		move_rows(x, 0, x->height);
	else
		move_flat(x, 0, x->width);
}

/* Bytes from the first to the last of all rows; 0: they don't fit into the address space. */
static uint64_t span(uint64_t pitch, uint64_t width, uint64_t height)
{
	uint64_t n;

	if (__builtin_mul_overflow(pitch, height - 1, &n) || __builtin_add_overflow(n, width, &n) ||
	    n > 1ull << 62)
		return 0;
	return n;
}

/* The device of an address, pinned if it is another one; NULL: none. */
static struct model_device *device_for(struct model_device *dev, uint64_t addr, bool peer)
{
	if (addr - dev->mem.start < dev->mem.size)
		return dev;
	return peer ? model_device_pin(addr) : NULL;
}

static bool overlap(const char *a, uint64_t na, const char *b, uint64_t nb)
{
	return a < b + nb && b < a + na;
}

/* What is read and could not be translated. */
static __attribute__((noinline)) int read_refused(struct model_device *on, uint64_t addr,
						  uint64_t size, char **host)
{
	return on ? model_poison_find(&on->mem, addr, size, MODEL_READ, host) : -EFAULT;
}

/*
 * What is written and could not be translated. Memory that was hit is good again when all of a
 * range is about to be written: all else is checked before. One that move() refuses is not.
 */
static __attribute__((noinline)) int write_refused(struct model_device *on,
						   const struct simnpu_copy *c, uint64_t size,
						   const char *src, uint64_t src_size, char **host)
{
	int rc = on ? model_poison_find(&on->mem, c->dst, size, MODEL_WRITE, host) : -EFAULT;

	if (rc || (c->height > 1 && (c->dst_pitch != c->width ||
				     (src && overlap(*host, size, src, src_size)))))
		return rc;
	return model_poison_find(&on->mem, c->dst, size, MODEL_REWRITE, host);
}

static bool find(struct model_device *on, uint64_t addr, uint64_t size, char **host)
{
	return on && model_memory_find(&on->mem, addr, size, host, NULL);
}

static int host_side(uint64_t addr, char **host)
{
	*host = (char *)(uintptr_t)addr;
	return addr < MODEL_PAGE ? -EFAULT : 0;
}

static int move(struct model_device *dev, uint32_t token, struct xfer *x, uint64_t dst_span,
		uint64_t src_span)
{
	if (x->src && overlap(x->dst, dst_span, x->src, src_span)) {
		if (x->height > 1)
			return -EINVAL;
		memmove(x->dst, x->src, x->width);
		return 0;
	}
	xfer_run(dev, token, x);
	return 0;
}

/* Translates both sides and moves; the devices are found. */
static int xfer_on(struct model_device *dev, uint32_t token, const struct simnpu_copy *c,
		   struct model_device *to, struct model_device *from, uint64_t *addr)
{
	struct xfer x = {
		.job.class = model_xfer_class(c->kind),
		.byte = (int)(c->src & 255),
		.dst_pitch = c->dst_pitch, .src_pitch = c->src_pitch,
		.width = c->width, .height = c->height,
	};
	uint64_t dst_span = span(c->dst_pitch, c->width, c->height);
	uint64_t src_span = c->kind ? span(c->src_pitch, c->width, c->height) : 1;
	char *src = NULL;
	int rc = 0;

	if (!dst_span || !src_span)
		return -EINVAL;
	*addr = c->src;
	if (c->kind == SIMNPU_COPY_TO_DEVICE)
		rc = host_side(c->src, &src);
	else if (c->kind && unlikely(!find(from, c->src, src_span, &src)))
		rc = read_refused(from, c->src, src_span, &src);
	if (rc)
		return rc;
	*addr = c->dst;
	if (c->kind == SIMNPU_COPY_TO_HOST)
		rc = host_side(c->dst, &x.dst);
	else if (unlikely(!find(to, c->dst, dst_span, &x.dst)))
		rc = write_refused(to, c, dst_span, src, src_span, &x.dst);
	if (rc)
		return rc;
	*addr = 0;
	x.src = src;
	return move(dev, token, &x, dst_span, src_span);
}

static int xfer_check(const struct simnpu_copy *c)
{
	if (c->kind > SIMNPU_COPY_PEER || !c->width || !c->height || c->dst_pitch < c->width)
		return -EINVAL;
	if (c->kind ? c->src_pitch < c->width : c->src > 255 || c->src_pitch)
		return -EINVAL;
	return 0;
}

/**
 * model_xfer() - copy or fill
 * @dev: the device
 * @token: token of the caller
 * @c: what
 * @addr: out: the address that was refused
 *
 * Return: 0, -EINVAL, -EFAULT, -EHWPOISON.
 */
int model_xfer(struct model_device *dev, uint32_t token, const struct simnpu_copy *c,
	       uint64_t *addr)
{
	bool peer = c->kind == SIMNPU_COPY_PEER;
	struct model_device *to = NULL, *from = NULL;
	int rc = xfer_check(c);

	if (rc)
		return rc;
	if (c->kind != SIMNPU_COPY_TO_HOST)
		to = device_for(dev, c->dst, peer);
	if (c->kind && c->kind != SIMNPU_COPY_TO_DEVICE)
		from = device_for(dev, c->src, peer);
	if (peer && to && to == from)
		rc = -EINVAL;
	else
		rc = xfer_on(dev, token, c, to, from, addr);
	if (to && to != dev)
		model_device_unpin(to);
	if (from && from != dev)
		model_device_unpin(from);
	return rc;
}

/* SIMNPU_IOCTL_COPY: on the calling thread; engine threads help. */
int model_copy_ioctl(struct model_file *f, const struct simnpu_copy *arg)
{
	struct model_device *dev = f->dev, *of;
	uint64_t addr;
	int rc;

	pthread_mutex_lock(&dev->lock);
	/* who stops the device waits for those that got in here before */
	rc = model_context_find(f, arg->context) ? model_state_refuse(dev) : -ENOENT;
	if (!rc)
		hal_add_relaxed(&dev->copies, 1);
	pthread_mutex_unlock(&dev->lock);
	if (rc)
		return rc;
	rc = model_xfer(dev, 0, arg, &addr);
	atomic_fetch_sub_explicit(&dev->copies, 1, memory_order_release);
	of = unlikely(rc == -EHWPOISON) ? model_poison_mark(dev, addr) : NULL;
	if (unlikely(of))
		model_poison_end(dev, of, NULL, NULL);
	return rc;
}
