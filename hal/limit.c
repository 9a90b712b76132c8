// SPDX-License-Identifier: MIT
/*
 * What has run out: texts that name the limit, what this process has of it, and
 * what others have. Counted when something has failed, never before.
 */
#include <stdio.h>

#include "hal/internal.h"

/* What this process has on the device; returns its contexts. */
static uint32_t count_own(struct hal_device *dev, struct hal_usage *own)
{
	uint32_t contexts = 0;
	struct hal_list *n;

	*own = (struct hal_usage){ 0 };
	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts) {
		struct hal_context *ctx = hal_list_entry(n, struct hal_context, node);

		contexts++;
		pthread_mutex_lock(&ctx->lock);
		own->streams += hal_list_count(&ctx->streams);
		own->events += hal_list_count(&ctx->events) +
			       hal_list_count(&ctx->ended_events);
		pthread_mutex_unlock(&ctx->lock);
	}
	pthread_mutex_unlock(&dev->lock);
	return contexts;
}

struct limit {
	const char *name;
	uint32_t limit;
	uint32_t own;
	uint32_t all;
	uint32_t quota;
};

static struct limit look_up(struct hal_device *dev, enum hal_limit what)
{
	struct hal_usage own, all;
	uint32_t contexts = count_own(dev, &own);

	if (what == HAL_LIMIT_CONTEXTS)	/* of this process alone */
		return (struct limit){ "contexts", dev->info.max_contexts, contexts, contexts, 0 };
	if (!dev->drv->device->usage || dev->drv->device->usage(dev, &all))
		all = own;
	if (what == HAL_LIMIT_STREAMS)
		return (struct limit){ "streams", dev->info.max_streams, own.streams,
				       all.streams, all.stream_quota };
	return (struct limit){ "timed events", dev->info.max_events, own.events, all.events,
			       all.event_quota };
}

/**
 * hal_exhausted() - say what the device has no more of
 * @code: what the driver said
 * @what: of what
 * @dev: the device
 * @op: for the error record
 * @fills: hal_fills() before the driver was called
 *
 * Where the limit is not reached, it was something else that ran out, or it was given back
 * meanwhile: then the driver's own text stays.
 * Return: @code.
 */
int hal_exhausted(int code, enum hal_limit what, struct hal_device *dev, const char *op,
		  uint32_t fills)
{
	struct limit l;

	hal_driver_failed(code, op, dev, fills);
	if (code != -ENOSPC)
		return code;
	l = look_up(dev, what);
	if (l.quota && l.own >= l.quota && l.all < l.limit) {
		hal_fail_at(code, op, dev, 0,
			    "device %d: no more %s: quota %u, this process %u, of %u",
			    dev->ordinal, l.name, l.quota, l.own, l.limit);
		return hal_hint(code, "This process may have no more of them: its quota says so.");
	}
	if (l.all < l.limit)
		return code;
	hal_fail_at(code, op, dev, 0,
		    "device %d: no more %s: limit %u, this process %u, others %u", dev->ordinal,
		    l.name, l.limit, l.own, l.all > l.own ? l.all - l.own : 0);
	if (l.own < l.all)
		hal_hint(code, "Other processes use %s of this device, too: see who has it open, "
			 "or take another one (option visible_devices).", l.name);
	return code;
}

/**
 * hal_no_memory() - say that the device has not so much memory
 * @dev: the device
 * @size: how much was asked for
 * @op: for the error record
 *
 * Return: -ENOMEM.
 */
int hal_no_memory(struct hal_device *dev, size_t size, const char *op)
{
	uint64_t own = hal_load_relaxed(&dev->mem_used);
	struct hal_mem_info mi = { 0 };
	char quota[24];
	int rc;

	if (dev->drv->device->mem_info(dev, &mi))
		mi.total = 0;
	if (!mi.total)
		return hal_fail_at(-ENOMEM, op, dev, 0, "device %d: no memory for %zu bytes",
				   dev->ordinal, size);
	snprintf(quota, sizeof(quota), "%llu", (unsigned long long)mi.quota);
	rc = hal_fail_at(-ENOMEM, op, dev, 0,
			 "device %d: no memory for %zu bytes: %llu free of %llu, this process "
			 "%llu, others %llu%s%s", dev->ordinal, size, (unsigned long long)mi.free,
			 (unsigned long long)mi.total, (unsigned long long)own,
			 (unsigned long long)mi.others, mi.quota ? ", quota " : "",
			 mi.quota ? quota : "");
	if (mi.quota && own + size > mi.quota)
		hal_hint(rc, "This process may have no more than its quota: ask for less, or "
			 "free some.");
	else if (size <= mi.free)
		hal_hint(rc, "So much is free, but not in one piece, or the host has no more: "
			 "allocate smaller pieces, or free what lies between.");
	else if (size > mi.total)
		hal_hint(rc, "The device never has so much: split the data, or take a larger "
			 "device.");
	else if (size <= mi.free + mi.others)
		hal_hint(rc, "Other processes hold memory of this device: see who has it open, or "
			 "take another one (option visible_devices).");
	return rc;
}
