// SPDX-License-Identifier: MIT
/*
 * The null driver: one device that can do nothing. It comes up, and everything
 * else is refused by the core, as the device has no capability.
 *
 * It is the template for a new driver. Documentation/adding-a-driver.rst goes
 * through it step by step; hal/driver.h says what each op must do. The ops here are
 * those that every driver must have. A driver fills in more of them with each
 * capability that its devices report, and the core refuses to open a device whose
 * capabilities ask for an op that is missing.
 */
#include <stdio.h>
#include <string.h>

#include "hal/context.h"
#include "hal/device.h"
#include "hal/driver.h"

/* A driver's object starts with the core's: the core allocates both as one. */
struct null_device {
	struct hal_device base;
	_Atomic uint32_t contexts_made;
};

struct null_context {
	struct hal_context base;
	uint32_t number;	/* of the context on its device, for debuggers */
};

_Static_assert(offsetof(struct null_device, base) == 0, "the base comes first");
_Static_assert(offsetof(struct null_context, base) == 0, "the base comes first");

static struct null_device *to_null_device(struct hal_device *dev)
{
	return container_of(dev, struct null_device, base);
}

static struct null_context *to_null_context(struct hal_context *ctx)
{
	return container_of(ctx, struct null_context, base);
}

/* ---- the driver ---------------------------------------------------------------- */

/* Here a driver finds what it needs to drive: a library, a node. -ENODEV: it is not there. */
static int null_init(void)
{
	return 0;
}

static void null_fini(void)
{
}

/* A question: it must neither wake a device nor open one for work. */
static int null_count(uint32_t *n)
{
	*n = 1;
	return 0;
}

/* Also a question. Limits that are not set are 0, and so are capabilities. */
static int null_info(uint32_t index, struct hal_device_info *info)
{
	if (index)
		return -ENODEV;
	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "null");
	snprintf(info->bus_id, sizeof(info->bus_id), "null%u", index);
	return 0;
}

/* ---- devices and contexts --------------------------------------------------------- */

/* hal_device.index is set; the driver fills in hal_device.info, and undoes all if it fails. */
static int null_device_init(struct hal_device *dev)
{
	return null_info(dev->index, &dev->info);
}

/* Called once for each init that succeeded, when nothing of the device is left. */
static void null_device_fini(struct hal_device *dev)
{
	(void)dev;
}

static int null_context_init(struct hal_context *ctx)
{
	to_null_context(ctx)->number =
		hal_add_relaxed(&to_null_device(ctx->dev)->contexts_made, 1);
	return 0;
}

static void null_context_fini(struct hal_context *ctx)
{
	(void)ctx;
}

/* The core asks only devices with NPU_CAP_MEM. */
static int null_mem_info(struct hal_device *dev, struct hal_mem_info *mi)
{
	mi->total = dev->info.mem_total;
	mi->free = dev->info.mem_total;
	return 0;
}

/* ---- the tables come last ---------------------------------------------------------- */

static const struct hal_driver_ops null_driver_ops = {
	.init = null_init,
	.fini = null_fini,
	.count = null_count,
	.info = null_info,
};

static const struct hal_device_ops null_device_ops = {
	.obj_size = sizeof(struct null_device),
	.context_size = sizeof(struct null_context),
	.init = null_device_init,
	.fini = null_device_fini,
	.context_init = null_context_init,
	.context_fini = null_context_fini,
	.mem_info = null_mem_info,
};

/* Rank 0: never chosen by default, only by name. */
static const struct hal_driver null_driver = {
	.name = "null",
	.abi = HAL_DRIVER_ABI,
	.rank = 0,
	.ops = &null_driver_ops,
	.device = &null_device_ops,
};

hal_driver_register(null_driver);
