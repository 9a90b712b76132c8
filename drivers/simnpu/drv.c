// SPDX-License-Identifier: MIT
/*
 * The driver as a whole: which devices there are, and what they are.
 */
#include "drivers/simnpu/simnpu.h"

const struct hal_sys_ops *simnpu_sys = &simnpu_model_sys;

static int drv_count(uint32_t *n)
{
	uint32_t i;
	int fd, err;

	*n = 0;
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		err = simnpu_node_open(simnpu_sys, i, &fd);
		if (err == -ENOENT)
			break;
		if (err)
			return hal_fail(err, "device_count", "%s%u: cannot be opened",
					SIMNPU_NODE_PREFIX, i);
		hal_sys_close(simnpu_sys, fd);
	}
	*n = i;
	return 0;
}

static int drv_init(void)
{
	uint32_t n;
	int err;

	err = drv_count(&n);
	if (err)
		return err;
	if (!n)
		return hal_fail(-ENODEV, "init", "no node %s0: option simnpu_devices is 0?",
				SIMNPU_NODE_PREFIX);
	return 0;
}

static void drv_fini(void)
{
}

static int drv_info(uint32_t index, struct hal_device_info *info)
{
	int fd, err;

	err = simnpu_node_open(simnpu_sys, index, &fd);
	if (err)
		return hal_fail(err == -ENOENT ? -ENODEV : err, "device_info",
				"%s%u: cannot be opened", SIMNPU_NODE_PREFIX, index);
	err = simnpu_node_info(simnpu_sys, fd, index, info);
	hal_sys_close(simnpu_sys, fd);
	if (err)
		return hal_fail(err, "device_info", "%s%u: does not say what it is",
				SIMNPU_NODE_PREFIX, index);
	return 0;
}

static const struct hal_driver_ops simnpu_driver_ops = {
	.init = drv_init,
	.fini = drv_fini,
	.count = drv_count,
	.info = drv_info,
	.fork_child = simnpu_model_fork_child,
};

static const struct hal_driver simnpu_driver = {
	.name = "simnpu",
	.abi = HAL_DRIVER_ABI,
	.rank = 10,
	.options = simnpu_options,
	.ops = &simnpu_driver_ops,
	.device = &simnpu_device_ops,
	.stream = &simnpu_stream_ops,
	.event = &simnpu_event_ops,
	.memory = &simnpu_memory_ops,
	.kernel = &simnpu_kernel_ops,
};
hal_driver_register(simnpu_driver);
