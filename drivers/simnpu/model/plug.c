// SPDX-License-Identifier: MIT
/*
 * Which part is behind which node: parts that are unplugged, and plugged in
 * again behind the same node or another one.
 */
#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"
#include "drivers/simnpu/simnpu_test.h"

#define NONE (-1)

/**
 * struct slot - what is behind a node
 * @part: the part plus 1; 0: its own; NONE: nothing is plugged in
 * @back: the part that comes back then
 * @back_at: when; 0: never
 */
struct slot {
	int part;
	int back;
	uint64_t back_at;
};

/* Protects: slots. Nothing is called with it held. */
static pthread_mutex_t plug_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[SIMNPU_MAX_DEVICES];

/* In the child of a fork: another thread may have held the lock. */
void model_plug_in_child(void)
{
	plug_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void put(uint32_t node, int part)
{
	slots[node] = (struct slot){ .part = part == NONE ? NONE : part + 1 };
}

static int part_at(uint32_t node)
{
	struct slot *s = &slots[node];

	if (s->part == NONE && s->back_at && hal_sys_now() >= s->back_at)
		put(node, s->back);
	if (s->part == NONE)
		return NONE;
	return s->part ? s->part - 1 : (int)node;
}

/* The part behind a node, or NONE. */
int model_plug_part(uint32_t node)
{
	int part;

	pthread_mutex_lock(&plug_lock);
	part = part_at(node);
	pthread_mutex_unlock(&plug_lock);
	return part;
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
 * @ns: when it comes back to where it was, 0: never
 *
 * The caller says so to the device.
 */
void model_unplug(struct model_device *dev, uint64_t ns)
{
	uint64_t now = hal_sys_now();
	uint32_t node;

	pthread_mutex_lock(&plug_lock);
	for (node = 0; node < SIMNPU_MAX_DEVICES; node++) {
		if (part_at(node) != (int)dev->index)
			continue;
		put(node, NONE);
		slots[node].back = (int)dev->index;
		if (ns)
			slots[node].back_at = ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
	}
	pthread_mutex_unlock(&plug_lock);
}

/**
 * model_replug() - all parts are unplugged, and plugged in again behind the next node each
 * @dev: a device to which the caller says so himself
 */
void model_replug(struct model_device *dev)
{
	uint32_t n = model_devices(), i;
	int part[SIMNPU_MAX_DEVICES];

	pthread_mutex_lock(&plug_lock);
	for (i = 0; i < n; i++)
		part[i] = part_at(i);
	for (i = 0; i < n; i++)
		put((i + 1) % n, part[i]);
	pthread_mutex_unlock(&plug_lock);
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
	pthread_mutex_lock(&plug_lock);
	if (node != NONE)
		was = part_at((uint32_t)node);
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++)
		if (part_at(i) == (int)part)
			put(i, NONE);
	if (node != NONE)
		put((uint32_t)node, (int)part);
	pthread_mutex_unlock(&plug_lock);
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

	pthread_mutex_lock(&plug_lock);
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		part[i] = part_at(i);
		put(i, (int)i);
	}
	pthread_mutex_unlock(&plug_lock);
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++)
		if (part[i] != (int)i)
			pull(part[i]);
}
