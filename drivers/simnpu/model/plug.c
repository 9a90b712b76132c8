// SPDX-License-Identifier: MIT
/*
 * Which part is behind which node: parts that are unplugged, and plugged in
 * again behind the same node or another one.
 */
#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"
#include "drivers/simnpu/simnpu_test.h"

#define NONE (-1)

/* The part behind a node, plus 1; 0: its own; NONE: nothing is plugged in. */
static _Atomic int8_t behind[SIMNPU_MAX_DEVICES];
/* When its own part comes back to a node where nothing is plugged in; 0: never. */
static _Atomic uint64_t back_at[SIMNPU_MAX_DEVICES];

_Static_assert(SIMNPU_MAX_DEVICES < INT8_MAX, "numbers of parts fit");

/* The part behind a node, or NONE. */
int model_plug_part(uint32_t node)
{
	int8_t part = atomic_load(&behind[node]);
	uint64_t back;

	if (likely(!part))
		return (int)node;
	if (part > 0)
		return part - 1;
	back = atomic_load(&back_at[node]);
	if (!back || hal_sys_now() < back)
		return NONE;
	atomic_store(&back_at[node], 0);
	atomic_store(&behind[node], 0);
	return (int)node;
}

static void put(uint32_t node, int part)
{
	atomic_store(&back_at[node], 0);
	atomic_store(&behind[node], (int8_t)(part == NONE ? NONE : part + 1));
}

/* The device of a part while it is open, else NULL. */
struct model_device *model_plug_open(int part)
{
	struct model_device *dev = part < 0 ? NULL : model_device_of((uint32_t)part);
	bool open;

	if (!dev)
		return NULL;
	pthread_mutex_lock(&dev->lock);
	open = !hal_list_empty(&dev->files);
	pthread_mutex_unlock(&dev->lock);
	return open ? dev : NULL;
}

/* What is open of a part is lost. */
static void pull(int part)
{
	struct model_device *dev = model_plug_open(part);

	if (dev)
		model_device_fault(dev, ENODEV, NULL, NULL);
}

/**
 * model_unplug() - a part is unplugged
 * @dev: the device
 * @ns: when it comes back, 0: never
 *
 * The caller says so to the device.
 */
void model_unplug(struct model_device *dev, uint64_t ns)
{
	uint32_t node;

	for (node = 0; node < SIMNPU_MAX_DEVICES; node++) {
		if (model_plug_part(node) != (int)dev->index)
			continue;
		put(node, NONE);
		if (ns && node == dev->index)
			atomic_store(&back_at[node], hal_sys_now() + ns);
	}
}

/**
 * model_replug() - all parts are unplugged, and plugged in again behind the next node each
 * @dev: a device to which the caller says so himself
 */
void model_replug(struct model_device *dev)
{
	uint32_t n = model_devices(), i;
	int part[SIMNPU_MAX_DEVICES];

	for (i = 0; i < n; i++)
		part[i] = model_plug_part(i);
	for (i = 0; i < n; i++)
		put((i + 1) % n, part[i]);
	for (i = 0; i < n; i++)
		if (part[i] != (int)dev->index)
			pull(part[i]);
}

/* See simnpu_test.h. */
bool simnpu_test_plug(uint32_t part, int node)
{
	int was = NONE;
	uint32_t i;

	if (part >= SIMNPU_MAX_DEVICES || node < NONE || node >= SIMNPU_MAX_DEVICES)
		return false;
	if (node != NONE)
		was = model_plug_part((uint32_t)node);
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++)
		if (model_plug_part(i) == (int)part)
			put(i, NONE);
	if (node != NONE)
		put((uint32_t)node, (int)part);
	pull((int)part);
	if (was != (int)part)
		pull(was);
	return true;
}

/* See simnpu_test.h. */
void simnpu_test_plug_reset(void)
{
	int part[SIMNPU_MAX_DEVICES];
	uint32_t i;

	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		part[i] = model_plug_part(i);
		atomic_store(&behind[i], 0);
	}
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++)
		if (part[i] != (int)i)
			pull(part[i]);
}
