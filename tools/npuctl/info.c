// SPDX-License-Identifier: MIT
/*
 * npuctl info: a line a device for eyes and awk; of one device a line a property,
 * name=value.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu/device.h"
#include "npu/error.h"
#include "tools/npuctl/npuctl.h"

static const struct {
	uint64_t bit;
	const char *name;
} caps[] = {
	{ NPU_CAP_LAUNCH, "launch" },
	{ NPU_CAP_MODULE_FILE, "module_file" },
	{ NPU_CAP_MODULE_DATA, "module_data" },
	{ NPU_CAP_STREAM, "stream" },
	{ NPU_CAP_EVENT_TIMING, "event_timing" },
	{ NPU_CAP_PRIORITY, "priority" },
	{ NPU_CAP_CALLBACK, "callback" },
	{ NPU_CAP_COMPLETION_FD, "completion_fd" },
	{ NPU_CAP_MEM, "mem" },
	{ NPU_CAP_COPY_2D, "copy_2d" },
	{ NPU_CAP_HOST_ALLOC, "host_alloc" },
	{ NPU_CAP_HOST_REGISTER, "host_register" },
	{ NPU_CAP_PEER, "peer" },
	{ NPU_CAP_VMM, "vmm" },
	{ NPU_CAP_IPC, "ipc" },
	{ NPU_CAP_MANAGED, "managed" },
	{ NPU_CAP_IO_WINDOW, "io_window" },
	{ NPU_CAP_ABORT, "abort" },
	{ NPU_CAP_BF16, "bf16" },
	{ NPU_CAP_INF_NAN, "inf_nan" },
};

static const char *const states[] = {
	[NPU_DEVICE_CLOSED] = "closed",
	[NPU_DEVICE_OPEN] = "open",
	[NPU_DEVICE_FAULTED] = "faulted",
	[NPU_DEVICE_STOPPED] = "stopped",
	[NPU_DEVICE_LOST] = "lost",
};

struct device {
	struct npu_device_info info;
	struct npu_device_health health;
	size_t free;
	size_t total;
	uint32_t busy;
};

static int ask(int device, struct device *d)
{
	memset(d, 0, sizeof(*d));
	d->info.size = sizeof(d->info);
	d->health.size = sizeof(d->health);
	if (npu_device_get_info(device, &d->info) ||
	    npu_device_get_health(device, &d->health) ||
	    npu_device_mem_info(device, &d->free, &d->total))
		return failed("info");
	/* not every device tells */
	if (npu_device_utilization(device, &d->busy))
		d->busy = 0;
	return 0;
}

/* As this process finds it: one that nobody here has opened is closed, and has no fault. */
static const char *state_of(const struct device *d)
{
	return (size_t)d->health.state < sizeof(states) / sizeof(states[0]) ?
	       states[d->health.state] : "?";
}

static const char *cause_of(const struct device *d)
{
	return d->health.cause ? npu_error_name(d->health.cause) : "none";
}

static int show_all(void)
{
	struct device d;
	int n, i;

	if (npu_device_count(&n))
		return failed("info");
	printf("%-6s %-5s %-16s %-8s %-12s %5s %10s %10s %4s %-7s %10s %s\n", "device", "index",
	       "name", "driver", "bus", "cores", "MiB", "MiB_free", "busy", "state",
	       "generation", "cause");
	for (i = 0; i < n; i++) {
		if (ask(i, &d))
			return 1;
		printf("%-6d %-5u %-16s %-8s %-12s %5u %10zu %10zu %4u", i, d.info.index,
		       d.info.name[0] ? d.info.name : "-", d.info.driver,
		       d.info.bus_id[0] ? d.info.bus_id : "-", d.info.cores, d.total >> 20,
		       d.free >> 20, d.busy);
		printf(" %-7s %10" PRIu64 " %s\n", state_of(&d), d.health.generation,
		       cause_of(&d));
	}
	return 0;
}

static int show_one(int device)
{
	const char *sep = "caps=";
	struct device d;
	size_t i;

	if (ask(device, &d))
		return 1;
	printf("device=%d\nindex=%u\nname=%s\ndriver=%s\nbus_id=%s\n", device, d.info.index,
	       d.info.name, d.info.driver, d.info.bus_id);
	printf("state=%s\ngeneration=%" PRIu64 "\ncause=%s\n", state_of(&d),
	       d.health.generation, cause_of(&d));
	printf("mem_total=%zu\nmem_free=%zu\nmem_align=%" PRIu64 "\nutilization=%u\n", d.total,
	       d.free, d.info.mem_align, d.busy);
	printf("cores=%u\nvector_cores=%u\n", d.info.cores, d.info.vector_cores);
	printf("max_streams=%u\nmax_events=%u\nmax_contexts=%u\nmax_queued=%u\n",
	       d.info.max_streams, d.info.max_events, d.info.max_contexts, d.info.max_queued);
	printf("priorities=%u\nargs_max=%u\nblocks_max=%u\n", d.info.priorities, d.info.args_max,
	       d.info.blocks_max);
	for (i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		if (!(d.info.caps & caps[i].bit))
			continue;
		printf("%s%s", sep, caps[i].name);
		sep = " ";
	}
	printf("%s\n", *sep == ' ' ? "" : sep);
	return 0;
}

int cmd_info(int argc, char **argv)
{
	char *end;
	long n;

	if (!argc)
		return show_all();
	n = strtol(argv[0], &end, 10);
	if (argc > 1 || !argv[0][0] || *end || n < 0 || n > 1000000)
		return usage("info [DEVICE]");
	return show_one((int)n);
}
