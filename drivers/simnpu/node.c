// SPDX-License-Identifier: MIT
/*
 * Device nodes: opening them, and saying why one cannot be opened.
 */
#include <fcntl.h>
#include <stdio.h>

#include "drivers/simnpu/simnpu.h"

/* The interface that a node spoke that was refused for it. */
static _Atomic uint32_t other_major;

/**
 * simnpu_node_open() - open a node
 * @sys: how nodes are reached
 * @index: number of the device
 * @fd: out: descriptor
 *
 * Fills no record: simnpu_node_failed() does.
 * Return: 0, -ENOENT (no such device), -EPROTO (another interface), or as the device fails.
 */
int simnpu_node_open(const struct hal_sys_ops *sys, uint32_t index, int *fd)
{
	struct simnpu_version v = { 0 };
	char path[sizeof(SIMNPU_NODE_PREFIX) + 10];
	int err, node;

	*fd = -1;
	snprintf(path, sizeof(path), "%s%u", SIMNPU_NODE_PREFIX, index);
	node = hal_sys_open(sys, path, O_RDWR);
	if (node < 0)
		return node;
	err = hal_sys_ioctl(sys, node, SIMNPU_IOCTL_VERSION, &v);
	if (!err && v.major != SIMNPU_ABI_MAJOR) {
		hal_store_relaxed(&other_major, v.major);	/* relaxed: for a message */
		err = -EPROTO;
	}
	if (err) {
		hal_sys_close(sys, node);
		return err;
	}
	*fd = node;
	return 0;
}

static const struct {
	int err;
	const char *why;
	const char *hint;
} reasons[] = {
	{ -ENOENT, "there is no such node",
	  "See which devices there are (npuctl info); option simnpu_devices sets how many." },
	{ -EACCES, "permission denied",
	  "Check owner and mode of the node (ls -l), and that the container was given it." },
	{ -EPERM, "not permitted",
	  "The container or a security module keeps the node from you: allow it the device." },
	{ -EBUSY, "another process holds it alone",
	  "See who has it open (fuser, lsof), or take another device (option visible_devices)." },
	{ -EUCLEAN, "the file of its instance cannot be trusted",
	  "The log names it and says why: remove it while no process uses the instance, or take "
	  "another name (option simnpu_instance)." },
	{ -ENODEV, "the node is there, the device is not",
	  "It was unplugged or has failed: see to it, or take another device "
	  "(option visible_devices)." },
	{ -EMFILE, "the process has no descriptor left",
	  "Close descriptors, or raise the limit (ulimit -n)." },
};

/**
 * simnpu_node_failed() - say why a node cannot be opened, and what to do
 * @err: what simnpu_node_open() returned
 * @op: for the error record
 * @index: number of the device
 *
 * Return: @err, but -ENODEV for -ENOENT: the two are told apart by hal_error.vendor, which is @err
 * itself.
 */
int simnpu_node_failed(int err, const char *op, uint32_t index)
{
	struct hal_error e = {
		.code = err == -ENOENT ? -ENODEV : err, .vendor = err, .device = (int)index,
		.op = op,
	};
	const char *name = hal_errno_name(err), *why = "cannot be opened";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (reasons[i].err != err)
			continue;
		why = reasons[i].why;
		snprintf(e.hint, sizeof(e.hint), "%s", reasons[i].hint);
	}
	if (err == -EPROTO)
		snprintf(e.text, sizeof(e.text), "%s%u speaks interface %u, the library %u",
			 SIMNPU_NODE_PREFIX, index, hal_load_relaxed(&other_major),
			 SIMNPU_ABI_MAJOR);	/* relaxed: for a message */
	else
		snprintf(e.text, sizeof(e.text), "%s%u: %s: %s", SIMNPU_NODE_PREFIX, index, why,
			 name ? name : "?");
	snprintf(e.tag, sizeof(e.tag), "%s", hal_tag_name(hal_tag_current()));
	return hal_fail_record(&e);
}
