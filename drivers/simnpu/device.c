// SPDX-License-Identifier: MIT
/*
 * Devices and contexts.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"

/* What the device can do and this driver makes use of. */
static const struct {
	uint64_t device;
	uint64_t hal;
} cap_table[] = {
	{ SIMNPU_CAP_PRIORITY, NPU_CAP_PRIORITY },
	{ SIMNPU_CAP_MODULE_FILE, NPU_CAP_MODULE_FILE },
	{ SIMNPU_CAP_MODULE_DATA, NPU_CAP_MODULE_DATA },
	{ SIMNPU_CAP_WINDOW, NPU_CAP_IO_WINDOW },
	{ SIMNPU_CAP_MANAGED, NPU_CAP_MANAGED },
	{ SIMNPU_CAP_VMM, IS_ENABLED(CONFIG_VMM) ? NPU_CAP_VMM : 0 },
	{ SIMNPU_CAP_EXPORT, (IS_ENABLED(CONFIG_VMM) ? NPU_CAP_IPC_FD : 0) |
	  (IS_ENABLED(CONFIG_SIMNPU_INSTANCES) ? NPU_CAP_IPC_MEM | NPU_CAP_IPC_EVENT : 0) },
	{ SIMNPU_CAP_BF16, NPU_CAP_BF16 },
	{ SIMNPU_CAP_INF_NAN, NPU_CAP_INF_NAN },
	{ SIMNPU_CAP_PEER, NPU_CAP_PEER },
	{ SIMNPU_CAP_ABORT, NPU_CAP_ABORT },
};

/* What every device has that speaks this interface. */
#define CAPS_ALWAYS (NPU_CAP_LAUNCH | NPU_CAP_STREAM | NPU_CAP_EVENT_TIMING | NPU_CAP_CALLBACK | \
		     NPU_CAP_HOST_TASK | \
		     NPU_CAP_COMPLETION_FD | NPU_CAP_MEM | NPU_CAP_COPY_2D | \
		     NPU_CAP_HOST_ALLOC | NPU_CAP_HOST_REGISTER)

/* No device tells more ranges that errors have hit. */
#define POISON_LIMIT 65536u

static _Atomic uint64_t last_context_id;

/**
 * simnpu_node_info() - ask an open node what it is
 * @sys: how nodes are reached
 * @fd: the node
 * @index: number of the device
 * @info: out: the answer
 *
 * Return: 0, or as the device fails.
 */
int simnpu_node_info(const struct hal_sys_ops *sys, int fd, uint32_t index,
		     struct hal_device_info *info)
{
	struct simnpu_info si = { 0 };
	size_t i;
	int err;

	err = hal_sys_ioctl(sys, fd, SIMNPU_IOCTL_INFO, &si);
	if (err)
		return err;
	memset(info, 0, sizeof(*info));
	info->caps = CAPS_ALWAYS;
	for (i = 0; i < ARRAY_SIZE(cap_table); i++)
		if (si.caps & cap_table[i].device)
			info->caps |= cap_table[i].hal;
	info->mem_total = si.mem_total;
	info->mem_used = si.mem_total - si.mem_free;
	info->va_start = si.va_start;
	info->va_size = si.va_size;
	info->mem_align = si.mem_align;
	info->mem_granularity = info->caps & NPU_CAP_VMM ? SIMNPU_VM_GRANULARITY : 0;
	info->cores = si.cores;
	info->max_streams = si.max_queues;
	info->max_events = si.max_events;
	info->max_contexts = si.max_contexts;
	info->max_queued = si.max_queued;
	info->priorities = si.caps & SIMNPU_CAP_PRIORITY ? si.priorities : 1;
	info->args_max = si.args_max;
	info->blocks_max = UINT32_MAX;
	snprintf(info->name, sizeof(info->name), "%.*s", (int)sizeof(si.part) - 1, si.part);
	/* a device before minor version 2 does not say where it sits */
	if (si.bus[0])
		snprintf(info->bus_id, sizeof(info->bus_id), "%.*s", (int)sizeof(si.bus) - 1,
			 si.bus);
	else
		snprintf(info->bus_id, sizeof(info->bus_id), "simnpu%u", index);
	return 0;
}

static int device_init(struct hal_device *base)
{
	struct simnpu_device *dev = to_simnpu_device(base);
	uint32_t i;
	int err;

	dev->sys = simnpu_sys;
	err = simnpu_node_open(dev->sys, base->index, &dev->fd);
	if (err)
		return simnpu_node_failed(err, "device_open", base->index);
	err = simnpu_node_info(dev->sys, dev->fd, base->index, &base->info);
	if (err) {
		hal_sys_close(dev->sys, dev->fd);
		return hal_fail(err, "device_open", "%s%u: does not say what it is",
				SIMNPU_NODE_PREFIX, base->index);
	}
	dev->max_queued = base->info.max_queued;
	pthread_mutex_init(&dev->lock, NULL);
	for (i = 0; i < SIMNPU_QUEUE_BUCKETS; i++)
		hal_list_init(&dev->queues[i]);
	return 0;
}

static void device_fini(struct hal_device *base)
{
	struct simnpu_device *dev = to_simnpu_device(base);

	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		simnpu_ipc_stop(dev);
	hal_sys_close(dev->sys, dev->fd);
	pthread_mutex_destroy(&dev->lock);
}

static int device_ask(struct hal_device *base, struct simnpu_info *si, const char *op)
{
	struct simnpu_device *dev = to_simnpu_device(base);
	int err;

	memset(si, 0, sizeof(*si));
	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_INFO, si);
	if (err)
		return hal_fail(err, op, "device %d does not answer", base->ordinal);
	return 0;
}

static int device_mem_info(struct hal_device *base, struct hal_mem_info *mi)
{
	struct simnpu_info si;
	int err;

	err = device_ask(base, &si, "device_mem_info");
	if (err)
		return err;
	mi->total = si.mem_total;
	mi->free = si.mem_free;
	mi->others = si.mem_others;
	mi->quota = si.mem_quota;
	return 0;
}

static int device_utilization(struct hal_device *base, uint32_t *percent)
{
	struct simnpu_info si;
	int err;

	err = device_ask(base, &si, "device_utilization");
	if (err)
		return err;
	*percent = si.utilization;
	return 0;
}

static int device_time(struct hal_device *base, uint64_t *ns)
{
	struct simnpu_device *dev = to_simnpu_device(base);
	struct simnpu_time t = { 0 };
	int err;

	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_TIME, &t);
	if (err)
		return hal_fail(err, "device_time", "device %d does not answer", base->ordinal);
	*ns = t.device_ns;
	return 0;
}

static int device_usage(struct hal_device *base, struct hal_usage *u)
{
	struct simnpu_info si;
	int err;

	err = device_ask(base, &si, "device_usage");
	if (err)
		return err;
	u->streams = si.queues;
	u->events = si.events;
	u->stream_quota = si.queue_quota;
	u->event_quota = si.event_quota;
	return 0;
}

static int device_peer(struct hal_device *base, struct hal_device *other, bool *can)
{
	*can = hal_device_can(base, NPU_CAP_PEER) && hal_device_can(other, NPU_CAP_PEER);
	return 0;
}

/* ---- faults and recovery ---- */

static int device_stop(struct hal_device *base, uint64_t deadline)
{
	struct simnpu_device *dev = to_simnpu_device(base);
	/* 0 would be the device's own choice */
	struct simnpu_stop s = { .deadline_ns = deadline ? deadline : 1 };
	int err;

	simnpu_callbacks_abort_all(base);
	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_DEVICE_STOP, &s);
	if (!err && simnpu_callbacks_settle_all(base, deadline)) {
		/* the device itself is well: whoever opens it next finds it so */
		s = (struct simnpu_stop){ 0 };
		hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_DEVICE_RESTART, &s);
		return hal_fail(-ETIMEDOUT, "device_stop", "device %d: a callback does not end",
				base->ordinal);
	}
	if (!err)
		return 0;
	if (err == -ETIME)
		return hal_fail(-ETIMEDOUT, "device_stop", "device %d: a task does not end",
				base->ordinal);
	return hal_fail(err, "device_stop", "device %d cannot be stopped", base->ordinal);
}

/* There is one way: closing the node would take the memory with it. */
static int device_restart(struct hal_device *base, uint32_t attempt)
{
	struct simnpu_device *dev = to_simnpu_device(base);
	struct simnpu_stop s = { 0 };
	int err;

	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_DEVICE_RESTART, &s);
	if (err)
		return hal_fail(err, "device_restart", "device %d does not start, attempt %u",
				base->ordinal, attempt + 1);
	return 0;
}

static uint32_t state_of(const struct simnpu_info *si)
{
	switch (si->state) {
	case SIMNPU_STATE_OK:
		return HAL_DEVICE_OPEN;
	case SIMNPU_STATE_FAULTED:
		return HAL_DEVICE_FAULTED;
	case SIMNPU_STATE_STOPPED:
		return HAL_DEVICE_STOPPED;
	default:
		return HAL_DEVICE_LOST;
	}
}

static const char *cause_text(uint32_t cause)
{
	switch (cause) {
	case ENODEV:
		return "unplugged";
	case ETIME:
		return "a task does not end";
	case EREMOTEIO:
		return "there is no heartbeat";
	case ENOLINK:
		return "the link has failed";
	case EHWPOISON:
		return "uncorrectable memory error";
	default:
		return "";
	}
}

static int device_health(struct hal_device *base, struct hal_health *h)
{
	struct simnpu_info si;
	int err;

	err = device_ask(base, &si, "device_get_health");
	/* a lost device says so itself: INFO works in every state */
	if (err)
		return err == -ENODEV ? -EIO : err;
	h->state = state_of(&si);
	h->cause = -(int)(si.cause <= SIMNPU_ERRNO_MAX ? si.cause : EIO);
	h->ecc_corrected = si.ecc_corrected;
	h->ecc_uncorrected = si.ecc_uncorrected;
	h->link_errors = si.link_errors;
	h->hangs = si.hangs;
	snprintf(h->text, sizeof(h->text), "%s", cause_text(si.cause));
	return 0;
}

static int device_poison(struct hal_device *base, struct hal_poison *list, uint32_t n)
{
	struct simnpu_device *dev = to_simnpu_device(base);
	struct simnpu_poison p = { .index = 0 };
	int err;

	/* the end is the device's word; without one all that was told counts */
	for (;; p.index++) {
		err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_POISON, &p);
		if (err == -ENOENT || p.index == POISON_LIMIT)
			return (int)p.index;
		if (err)
			return hal_fail(err, "device_restart",
					"device %d does not say which memory was hit",
					base->ordinal);
		if (p.index < n) {
			list[p.index].addr = p.addr;
			list[p.index].size = p.size;
		}
	}
}

/* ---- contexts ---- */

static int context_init(struct hal_context *base)
{
	struct simnpu_ctx *ctx = to_simnpu_ctx(base);
	struct simnpu_device *dev = simnpu_device_of(base);
	struct simnpu_context c = { 0 };
	struct simnpu_handle h = { 0 };
	void *arena;
	int err;

	err = simnpu_ioctl(base, SIMNPU_IOCTL_CONTEXT_CREATE, &c);
	if (err)
		return hal_fail(err, "context_create", "device %d has no room for a context",
				base->dev->ordinal);
	err = hal_sys_mmap(dev->sys, c.arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, dev->fd,
			   SIMNPU_MMAP_ARENA(c.context), &arena);
	if (err) {
		h.handle = c.context;
		simnpu_ioctl(base, SIMNPU_IOCTL_CONTEXT_DESTROY, &h);
		return hal_fail(err, "context_create", "arena of %llu bytes cannot be mapped",
				(unsigned long long)c.arena_size);
	}
	ctx->handle = c.context;
	ctx->arena = arena;
	ctx->arena_size = c.arena_size;
	ctx->fence = c.result & SIMNPU_CONTEXT_FENCE;
	/* relaxed: only that no two are the same */
	ctx->id = hal_add_relaxed(&last_context_id, 1) + 1;
	pthread_mutex_init(&ctx->lock, NULL);
	hal_list_init(&ctx->imports);
	return 0;
}

static void context_fini(struct hal_context *base)
{
	struct simnpu_ctx *ctx = to_simnpu_ctx(base);
	struct simnpu_device *dev = simnpu_device_of(base);
	struct simnpu_handle h = { .handle = ctx->handle };
	int err;

	simnpu_callbacks_stop(ctx);
	simnpu_import_drop_context(ctx);
	err = simnpu_ioctl(base, SIMNPU_IOCTL_CONTEXT_DESTROY, &h);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: context %u: destroy: error %d",
			 base->dev->index, ctx->handle, -err);
	hal_sys_munmap(dev->sys, ctx->arena, ctx->arena_size);
	pthread_mutex_destroy(&ctx->lock);
}

const struct hal_device_ops simnpu_device_ops = {
	.obj_size = sizeof(struct simnpu_device),
	.context_size = sizeof(struct simnpu_ctx),
	.init = device_init,
	.fini = device_fini,
	.context_init = context_init,
	.context_fini = context_fini,
	.mem_info = device_mem_info,
	.utilization = device_utilization,
	.time = device_time,
	.usage = device_usage,
	.peer = device_peer,
	.stop = device_stop,
	.restart = device_restart,
	.health = device_health,
	.poison = device_poison,
};
