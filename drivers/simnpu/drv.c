// SPDX-License-Identifier: MIT
/*
 * The driver as a whole: which devices there are, and what they are.
 */
#include <string.h>

#include "drivers/simnpu/faults.h"
#include "drivers/simnpu/simnpu.h"
#include "hal/fork.h"

const struct hal_sys_ops *simnpu_sys = &simnpu_model_sys;

/*
 * What there was when the driver came up: the answers in the child of a fork,
 * where no node can be opened. Written while nobody else uses the driver.
 */
static struct hal_device_info known[SIMNPU_MAX_DEVICES];
static uint32_t known_count;

/* Rules that the device could not follow are said here, where a text can be given. */
static int check_rules(const char *op)
{
	const char *text = hal_option_text(simnpu_options, "simnpu_faults");
	struct simnpu_rule rules[SIMNPU_FAULT_RULES];
	struct simnpu_rule_error err;
	uint32_t n;

	if (likely(!text[0]))
		return 0;
	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS))
		return hal_fail(-EOPNOTSUPP, op,
				"option simnpu_faults: built without CONFIG_SIMNPU_FAULTS");
	if (simnpu_rules_parse(text, rules, &n, &err))
		return hal_fail(-EINVAL, op, "option simnpu_faults, at byte %zu: %s", err.pos,
				err.why);
	return 0;
}

/* What the device would say as well, by a number alone. */
static int check_instance(const char *op)
{
	const char *text = hal_option_text(simnpu_options, "simnpu_instance");

	if (likely(!text[0]))
		return 0;
	if (!IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		return hal_fail(-EOPNOTSUPP, op, "option simnpu_instance: built without "
				"CONFIG_SIMNPU_INSTANCES");
	if (text[0] != '.' && !text[strspn(text, SIMNPU_INSTANCE_NAME)])
		return 0;
	return hal_fail(-EINVAL, op, "option simnpu_instance: '%s' is no name: accepted are "
			"letters, digits, '.', '_' and '-', the first no '.'", text);
}

static int drv_count(uint32_t *n)
{
	uint32_t i;
	int fd, err;

	if (hal_forked()) {
		*n = known_count;
		return 0;
	}
	*n = 0;
	err = check_rules("device_count");
	if (!err)
		err = check_instance("device_count");
	if (err)
		return err;
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		err = simnpu_node_open(simnpu_sys, i, &fd);
		if (err == -ENOENT)
			break;
		/* the node of one that was unplugged still counts: others keep their numbers */
		if (err == -ENODEV)
			continue;
		if (err)
			return simnpu_node_failed(err, "device_count", i);
		hal_sys_close(simnpu_sys, fd);
	}
	*n = i;
	return 0;
}

static int no_device(uint32_t index)
{
	return hal_fail(-ENODEV, "device_info", "there is no %s%u", SIMNPU_NODE_PREFIX, index);
}

/* Without a word in the thread's record. *silent: the node opened, but does not say what it is. */
static int look(uint32_t index, struct hal_device_info *info, bool *silent)
{
	int fd, err;

	*silent = false;
	err = simnpu_node_open(simnpu_sys, index, &fd);
	if (err)
		return err;
	err = simnpu_node_info(simnpu_sys, fd, index, info);
	hal_sys_close(simnpu_sys, fd);
	*silent = err;
	return err;
}

static int look_failed(int err, uint32_t index, bool silent)
{
	if (!silent)
		return simnpu_node_failed(err, "device_info", index);
	return hal_fail(err, "device_info", "%s%u: does not say what it is", SIMNPU_NODE_PREFIX,
			index);
}

static int drv_info(uint32_t index, struct hal_device_info *info)
{
	bool silent;
	int err;

	if (hal_forked()) {
		if (index >= known_count || !known[index].name[0])
			return no_device(index);
		*info = known[index];
		return 0;
	}
	err = look(index, info, &silent);
	return err ? look_failed(err, index, silent) : 0;
}

static int drv_init(void)
{
	bool silent = false;
	uint32_t i, n;
	int err;

	err = drv_count(&n);
	if (err)
		return err;
	for (i = 0; i < n; i++) {
		err = look(i, &known[i], &silent);
		if (err == -ENODEV || err == -ENOENT)
			memset(&known[i], 0, sizeof(known[i]));
		else if (err)
			return look_failed(err, i, silent);
	}
	if (!n)
		return hal_fail(-ENODEV, "init", "no node %s0: option simnpu_devices is 0?",
				SIMNPU_NODE_PREFIX);
	known_count = n;
	return 0;
}

static void drv_fini(void)
{
	known_count = 0;
}

/* In the child of a fork, which must keep nothing that others take for its parent's. */
static void fork_child(void)
{
	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES)) {
		simnpu_ipc_fork_child();
		simnpu_ipc_event_fork_child();
	}
	simnpu_model_fork_child();
}

static const struct hal_driver_ops simnpu_driver_ops = {
	.init = drv_init,
	.fini = drv_fini,
	.count = drv_count,
	.info = drv_info,
	.fork_child = fork_child,
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
