// SPDX-License-Identifier: MIT
/*
 * Copies: what is checked of all of them, and those and fills that are ordered with
 * no stream.
 */
#include <stdio.h>
#include <string.h>

#include "hal/internal.h"

static bool span_of(const struct hal_copy *c, size_t pitch, uint64_t *span)
{
	return !__builtin_mul_overflow((uint64_t)pitch, (uint64_t)c->height - 1, span) &&
	       !__builtin_add_overflow(*span, (uint64_t)c->width, span);
}

static enum npu_copy_kind kind_of(const struct hal_device *dst, const struct hal_device *src)
{
	if (dst)
		return src ? NPU_COPY_D2D : NPU_COPY_H2D;
	return src ? NPU_COPY_D2H : NPU_COPY_H2H;
}

/* Of two ranges of one device, which the engines may copy in any order. */
static bool overlap(const struct hal_copy *c, uint64_t dst_span, uint64_t src_span)
{
	uint64_t dst = (uint64_t)(uintptr_t)c->dst, src = (uint64_t)(uintptr_t)c->src;

	return dst - src < src_span || src - dst < dst_span;
}

static const char *const kind_names[] = {
	"auto", "host to host", "host to device", "device to host", "device to device",
};

/* said: that this side is the device's. */
static bool may_be(const void *ptr, const struct hal_device *dev, bool said)
{
	struct hal_pointer p;

	if (said || !dev)
		return said == !!dev;
	hal_pointer_info(ptr, &p);
	return p.managed;
}

/* A kind that is none of what the pointers say: managed memory is the host's as well. */
static HAL_COLD bool may_say(const struct hal_copy *c, const struct hal_device *dst,
			     const struct hal_device *src)
{
	return may_be(c->dst, dst, c->kind == NPU_COPY_H2D || c->kind == NPU_COPY_D2D) &&
	       may_be(c->src, src, c->kind == NPU_COPY_D2H || c->kind == NPU_COPY_D2D);
}

/* What can be said without looking at the pointers: NULL or what is wrong. */
static const char *check_shape(struct hal_copy *c, uint64_t *dst_span, uint64_t *src_span)
{
	if ((uint32_t)c->kind > NPU_COPY_D2D)
		return "unknown kind";
	if (c->height == 1) {
		c->dst_pitch = c->width;
		c->src_pitch = c->width;
	}
	if (c->dst_pitch < c->width || c->src_pitch < c->width)
		return "a pitch below the width";
	if (!span_of(c, c->dst_pitch, dst_span) || !span_of(c, c->src_pitch, src_span))
		return "a size that overflows";
	return NULL;
}

static int poisoned(const struct hal_copy *c, const struct hal_device *dev, const char *op)
{
	struct hal_error e = {
		.code = -EHWPOISON,
		.device = dev->ordinal,
		.op = op,
		.addr = (uintptr_t)c->src,
		.generation = hal_load_relaxed(&dev->generation),
	};
	int rc;

	snprintf(e.text, sizeof(e.text), "source %p: %s", c->src, hal_memory_unsafe);
	rc = hal_fail_record(&e);
	return hal_hint(rc, "write the allocation as a whole, or npu_mem_set_safe()");
}

/* wrong: with which side; dev: the source's. */
static HAL_COLD int refused(const struct hal_copy *c, const struct hal_device *dev,
			    const char *which, const char *wrong, const char *op)
{
	if (wrong == hal_memory_unsafe)
		return poisoned(c, dev, op);
	return hal_fail(hal_memory_wrong(wrong), op, "%s: %s (%zu by %zu bytes, %p from %p)", which,
			wrong, c->width, c->height, c->dst, c->src);
}

/**
 * hal_copy_check() - check a copy and resolve its direction
 * @c: the copy
 * @dst_dev: out: device of dst, NULL: host
 * @src_dev: out: the same of src
 * @op: for the error record
 *
 * Of a single row the pitches do not matter, and become its width.
 * Return: 0; 1: likewise, and hal_memory_written() is due; -EINVAL, -EHWPOISON.
 */
int hal_copy_check(struct hal_copy *c, struct hal_device **dst_dev, struct hal_device **src_dev,
		   const char *op)
{
	uint64_t dst_span, src_span;
	enum npu_copy_kind kind;
	const char *wrong, *which;

	*dst_dev = NULL;
	*src_dev = NULL;
	c->peer = false;
	if (!c->width || !c->height) {
		c->kind = NPU_COPY_H2H;
		return 0;
	}
	wrong = check_shape(c, &dst_span, &src_span);
	if (wrong)
		return hal_fail(-EINVAL, op, "%s", wrong);
	wrong = hal_memory_look(c, dst_span, src_span, dst_dev, src_dev, &which);
	if (unlikely(wrong) && wrong != hal_memory_cured)
		return refused(c, *src_dev, which, wrong, op);
	kind = kind_of(*dst_dev, *src_dev);
	if (c->kind != NPU_COPY_AUTO && c->kind != kind && !may_say(c, *dst_dev, *src_dev))
		return hal_fail(-EINVAL, op, "said to go from %s, but goes from %s (%p from %p)",
				kind_names[c->kind], kind_names[kind], c->dst, c->src);
	c->kind = kind;
	c->peer = kind == NPU_COPY_D2D && *dst_dev != *src_dev;
	if (kind == NPU_COPY_D2D && unlikely(overlap(c, dst_span, src_span)))
		return hal_fail(-EINVAL, op, "%p and %p overlap (%zu by %zu bytes)", c->dst,
				c->src, c->width, c->height);
	return unlikely(wrong) && c->dst_pitch == c->width;
}

/* What fails at once may be a fault of the device. */
static int after(struct hal_device *dev, int rc)
{
	if (unlikely(rc) && hal_fault_code(rc))
		hal_device_look(dev);
	return rc;
}

static void copy_on_host(const struct hal_copy *c)
{
	size_t i;

	for (i = 0; i < c->height; i++)
		memmove((char *)c->dst + i * c->dst_pitch,
			(const char *)c->src + i * c->src_pitch, c->width);
}

/**
 * hal_mem_copy() - copy now
 * @ctx: a context on the device of one side
 * @c: the copy; resolved as by hal_copy_check()
 *
 * Ordered with no stream; done when it returns.
 * Return: 0, -EINVAL, -EHWPOISON, -EXDEV (neither side is of the context's device), -EOPNOTSUPP,
 * the device's state, or as the driver fails.
 */
int hal_mem_copy(struct hal_context *ctx, struct hal_copy *c)
{
	struct hal_device *dst, *src;
	uint64_t caps = NPU_CAP_MEM;
	bool cures;
	int rc;

	rc = hal_copy_check(c, &dst, &src, "memcpy");
	cures = rc > 0;
	if (rc < 0 || !c->width || !c->height)
		return rc;
	if (c->kind == NPU_COPY_H2H) {
		copy_on_host(c);
		return 0;
	}
	if (dst != ctx->dev && src != ctx->dev)
		return hal_fail_at(-EXDEV, "memcpy", ctx->dev, 0,
				   "neither %p nor %p is memory of device %d", c->dst, c->src,
				   ctx->dev->ordinal);
	if (c->height > 1)
		caps |= NPU_CAP_COPY_2D;
	if (c->peer)
		caps |= NPU_CAP_PEER;
	rc = hal_need(ctx->dev, caps, "memcpy");
	if (!rc)
		rc = hal_device_usable(ctx->dev, "memcpy");
	if (!rc)
		rc = after(ctx->dev, ctx->dev->drv->memory->copy(ctx, c));
	if (!rc && cures)
		hal_memory_written(c->dst, c->width * c->height);
	return rc;
}

/**
 * hal_mem_fill() - set bytes of device memory now
 * @ctx: a context on its device
 * @dst: the first byte
 * @byte: the value, of which the low eight bits count
 * @size: how many
 *
 * Return: 0, -EINVAL (not device memory, or it leaves its allocation), -EXDEV, -EOPNOTSUPP, the
 * device's state, or as the driver fails.
 */
int hal_mem_fill(struct hal_context *ctx, void *dst, int byte, size_t size)
{
	struct hal_device *dev;
	bool cures;
	int rc;

	rc = hal_need(ctx->dev, NPU_CAP_MEM, "memset");
	if (rc || !size)
		return rc;
	rc = hal_range_check(dst, size, &dev, "memset");
	if (rc < 0)
		return rc;
	cures = rc > 0;
	if (dev != ctx->dev)
		return hal_fail_at(-EXDEV, "memset", ctx->dev, 0, "%p is memory of device %d", dst,
				   dev->ordinal);
	rc = hal_device_usable(dev, "memset");
	if (!rc)
		rc = after(dev, dev->drv->memory->fill(ctx, dst, byte & 0xff, size));
	if (!rc && cures)
		hal_memory_written(dst, size);
	return rc;
}
