// SPDX-License-Identifier: MIT
/*
 * Devices: questions. They initialise nothing, open nothing, and take no lock in
 * the child of a fork, where all devices count as closed.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

/**
 * struct found - a device that is asked about
 * @v: the devices that the process may use
 * @ordinal: which of them
 * @index: the driver's number of it
 * @dev: the open device with a reference, NULL: it is closed
 */
struct found {
	struct rt_visible v;
	int ordinal;
	uint32_t index;
	struct hal_device *dev;
};

static int find(int device, const char *op, struct found *f)
{
	int err;

	f->dev = NULL;
	if (device == NPU_DEVICE_CURRENT) {
		err = npu_device_get(&device);
		if (err)
			return err;
	}
	err = rt_visible_get(&f->v, op);
	if (err)
		return err;
	if (device < 0 || (uint32_t)device >= f->v.count)
		return hal_fail(-ENODEV, op, "there is no device %d: the process may use %u",
				device, f->v.count);
	f->ordinal = device;
	f->index = hal_load_acquire(&rt.fixed) ? rt_device_index(device) : f->v.index[device];
	if (!hal_forked())
		rt_device_ref(device, &f->dev);
	return 0;
}

/* What the device is: known, or asked from the driver, as while the library is not initialised. */
static int ask(const struct found *f, struct hal_device_info *info)
{
	if (f->dev)
		*info = f->dev->info;
	else if (hal_load_acquire(&rt.fixed) && rt.info[f->ordinal].name[0])
		*info = rt.info[f->ordinal];
	else
		return hal_driver_info(f->v.drv, f->index, info);
	return 0;
}

NPU_API int npu_device_get_health(int device, struct npu_device_health *health)
{
	struct npu_device_health out = { 0 };
	struct hal_health h = { 0 };
	struct found f;
	int err;

	if (!health || health->size < sizeof(health->size))
		return hal_fail(-EINVAL, "device_get_health",
				"health is NULL, or its size is not set");
	err = find(device, "device_get_health", &f);
	if (err)
		return err;
	if (f.dev) {
		hal_device_health(f.dev, &h);
		out.generation = hal_load_acquire(&f.dev->generation);
		out.restarts = out.generation - 1;
		hal_device_put(f.dev);
	} else {
		snprintf(h.text, sizeof(h.text), "device %d is closed", f.ordinal);
	}
	out.size = health->size;
	out.state = (int)h.state;
	out.cause = h.cause;
	out.ecc_corrected = h.ecc_corrected;
	out.ecc_uncorrected = h.ecc_uncorrected;
	out.link_errors = h.link_errors;
	out.hangs = h.hangs;
	memcpy(out.text, h.text, sizeof(out.text));
	rt_copy_out(health, &out, health->size, sizeof(out));
	return 0;
}

_Static_assert((int)NPU_DEVICE_CLOSED == (int)HAL_DEVICE_CLOSED, "the same states");
_Static_assert((int)NPU_DEVICE_OPEN == (int)HAL_DEVICE_OPEN, "the same states");
_Static_assert((int)NPU_DEVICE_FAULTED == (int)HAL_DEVICE_FAULTED, "the same states");
_Static_assert((int)NPU_DEVICE_STOPPED == (int)HAL_DEVICE_STOPPED, "the same states");
_Static_assert((int)NPU_DEVICE_LOST == (int)HAL_DEVICE_LOST, "the same states");
_Static_assert(NPU_HEALTH_TEXT == HAL_ERROR_TEXT, "texts");

NPU_API int npu_device_count(int *count)
{
	struct rt_visible v;
	int err;

	if (!count)
		return hal_fail(-EINVAL, "device_count", "count is NULL");
	*count = 0;
	err = rt_visible_get(&v, "device_count");
	if (!err)
		*count = (int)v.count;
	return err;
}

static void fill(struct npu_device_info *out, const struct hal_device_info *in)
{
	out->caps = in->caps;
	out->mem_total = in->mem_total;
	out->mem_align = in->mem_align;
	out->cores = in->cores;
	out->vector_cores = in->vector_cores;
	out->max_streams = in->max_streams;
	out->max_events = in->max_events;
	out->max_contexts = in->max_contexts;
	out->max_queued = in->max_queued;
	out->priorities = in->priorities;
	out->args_max = in->args_max;
	out->blocks_max = in->blocks_max;
	memcpy(out->name, in->name, sizeof(out->name) - 1);
	memcpy(out->bus_id, in->bus_id, sizeof(out->bus_id) - 1);
}

NPU_API int npu_device_get_info(int device, struct npu_device_info *info)
{
	struct npu_device_info out = { 0 };
	struct hal_device_info in = { 0 };
	struct found f;
	int err;

	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, "device_get_info", "info is NULL, or its size is not set");
	err = find(device, "device_get_info", &f);
	if (err)
		return err;
	err = ask(&f, &in);
	hal_device_put(f.dev);
	if (err)
		return err;
	out.size = info->size;
	out.index = f.index;
	strncpy(out.driver, f.v.drv->name, sizeof(out.driver) - 1);
	fill(&out, &in);
	rt_copy_out(info, &out, info->size, sizeof(out));
	return 0;
}

NPU_API int npu_device_mem_info(int device, size_t *free, size_t *total)
{
	struct hal_device_info in = { 0 };
	struct hal_mem_info mi = { 0 };
	struct found f;
	int err;

	if (free)
		*free = 0;
	if (total)
		*total = 0;
	err = find(device, "device_mem_info", &f);
	if (err)
		return err;
	if (f.dev) {
		err = hal_device_mem_info(f.dev, &mi);
		hal_device_put(f.dev);
	} else {
		/* of what is known nothing says what others hold */
		if (hal_driver_info(f.v.drv, f.index, &in))
			err = ask(&f, &in);
		mi.total = in.mem_total;
		mi.free = mi.total - in.mem_used;
	}
	if (err)
		return err;
	if (free)
		*free = mi.free;
	if (total)
		*total = mi.total;
	return 0;
}

NPU_API int npu_device_utilization(int device, uint32_t *percent)
{
	struct found f;
	int err;

	if (!percent)
		return hal_fail(-EINVAL, "device_utilization", "percent is NULL");
	*percent = 0;
	err = find(device, "device_utilization", &f);
	if (err)
		return err;
	if (!f.dev) {
		/* nothing of this process runs there */
		if (f.v.drv->device->utilization)
			return 0;
		return hal_fail(-EOPNOTSUPP, "device_utilization",
				"driver %s does not tell", f.v.drv->name);
	}
	err = hal_device_utilization(f.dev, percent);
	hal_device_put(f.dev);
	return err;
}

/* What capabilities alone say of two devices of which one is closed. */
static int peer_by_caps(const struct found *a, const struct found *b, int *can)
{
	struct hal_device_info ia = { 0 }, ib = { 0 };
	int err;

	err = ask(a, &ia);
	if (!err)
		err = ask(b, &ib);
	if (!err)
		*can = (ia.caps & ib.caps & NPU_CAP_PEER) != 0;
	return err;
}

NPU_API int npu_device_can_access_peer(int device, int peer, int *can)
{
	struct found a, b = { .dev = NULL };
	bool yes;
	int err;

	if (!can)
		return hal_fail(-EINVAL, "device_can_access_peer", "can is NULL");
	*can = 0;
	err = find(device, "device_can_access_peer", &a);
	if (!err)
		err = find(peer, "device_can_access_peer", &b);
	if (err || a.index == b.index)
		goto out;
	if (a.dev && b.dev) {
		err = hal_device_peer(a.dev, b.dev, &yes);
		*can = !err && yes;
	} else {
		err = peer_by_caps(&a, &b, can);
	}
out:
	hal_device_put(a.dev);
	hal_device_put(b.dev);
	return err;
}

NPU_API int npu_device_is_active(int device, int *active)
{
	struct found f;
	int err;

	if (!active)
		return hal_fail(-EINVAL, "device_is_active", "active is NULL");
	*active = 0;
	err = find(device, "device_is_active", &f);
	if (err)
		return err;
	*active = f.dev != NULL;
	hal_device_put(f.dev);
	return 0;
}

NPU_API int npu_device_used(int *list, size_t room, size_t *count)
{
	int d;

	if (!count || (!list && room))
		return hal_fail(-EINVAL, "device_used", "list or count is NULL");
	*count = 0;
	for (d = 0; d < RT_DEVICES && !hal_forked(); d++) {
		if (!hal_load_acquire(&rt_devices[d].hal))
			continue;
		if (*count < room)
			list[*count] = d;
		++*count;
	}
	return 0;
}

NPU_API int npu_device_time(int device, uint64_t *ns)
{
	struct hal_device *dev;
	uint64_t ctx;
	int d, err;

	if (!ns)
		return hal_fail(-EINVAL, "device_time", "ns is NULL");
	*ns = 0;
	err = rt_enter("device_time");
	if (err)
		return err;
	err = rt_device_arg(device, "device_time", &d);
	if (!err)
		err = rt_device_primary(d, "device_time", &ctx);
	if (err)
		return err;
	rt_device_ref(d, &dev);
	if (!dev)
		return hal_fail(-ENODEV, "device_time", "device %d was closed meanwhile", d);
	err = hal_device_time(dev, ns);
	hal_device_put(dev);
	return err;
}
