// SPDX-License-Identifier: MIT
/*
 * The options of the simulated NPU, for the driver to hand to hal, and for the
 * model to read.
 */
#include "drivers/simnpu/options.h"

const struct hal_option simnpu_options[] = {
	{
		.name = "simnpu_devices", .type = HAL_OPTION_INT, .def = "2", .min = 0, .max = 64,
		.help = "How many simulated devices there are.",
	}, {
		.name = "simnpu_part", .type = HAL_OPTION_CHOICE, .def = "generic",
		.choices = "generic 910b 310p 310b",
		.help = "Which part a simulated device claims to be: it sets memory, cores, and "
			"the limits on streams and events.",
	}, {
		.name = "simnpu_memory", .type = HAL_OPTION_SIZE, .def = "0", .min = 0,
		.max = INT64_C(1) << 42,
		.help = "Memory of a simulated device; 0: as much as the part has.",
	}, {
		.name = "simnpu_host_budget", .type = HAL_OPTION_SIZE, .def = "0", .min = 0,
		.max = INT64_C(1) << 42,
		.help = "Memory of the host that all simulated devices together may use; "
			"0: three quarters of what there is.",
	}, {
		.name = "simnpu_cores", .type = HAL_OPTION_INT, .def = "0", .min = 0, .max = 64,
		.help = "AI cores of a simulated device, each of them a thread; 0: as many as "
			"the part has, but no more than there are processors.",
	}, {
		.name = "simnpu_strict", .type = HAL_OPTION_BOOL, .def = "1",
		.help = "Whether a device address used by the host faults, as on hardware. "
			"Otherwise the host can read and write device memory.",
	}, {
		.name = "simnpu_fault_handler", .type = HAL_OPTION_BOOL, .def = "0",
		.help = "Whether a handler of SIGSEGV names the allocation when the host uses a "
			"device address, before it passes the signal on.",
	}, {
		.name = "simnpu_instance", .type = HAL_OPTION_TEXT, .def = "", .max = 31,
		.help = "Name of the instance whose devices are shared with other processes; "
			"empty: devices of this process alone. Letters, digits, '.', '_' and '-'. "
			"What the devices are is what the first process says.",
	}, {
		.name = "simnpu_quota_memory", .type = HAL_OPTION_SIZE, .def = "0", .min = 0,
		.max = INT64_C(1) << 42,
		.help = "Memory of a simulated device that this process may have; 0: all that "
			"there is.",
	}, {
		.name = "simnpu_quota_streams", .type = HAL_OPTION_INT, .def = "0", .min = 0,
		.max = 65536,
		.help = "Streams on a simulated device that this process may have; 0: as many "
			"as there may be.",
	}, {
		.name = "simnpu_quota_events", .type = HAL_OPTION_INT, .def = "0", .min = 0,
		.max = 65536,
		.help = "Timed events on a simulated device that this process may have; 0: as "
			"many as there may be.",
	}, {
		.name = "simnpu_borrow_modules", .type = HAL_OPTION_BOOL, .def = "0",
		.help = "Whether a thread that waits may run kernels from files that it waits "
			"for, as it does with built-in ones.",
	}, {
		.name = "simnpu_plain_kernels", .type = HAL_OPTION_BOOL, .def = "0",
		.help = "Whether to do without oneDNN, so that results are the same, bit by "
			"bit, on every machine.",
	}, {
		.name = "simnpu_faults", .type = HAL_OPTION_TEXT, .def = "", .max = 1023,
		.help = "What is to go wrong in simulated devices, and when: rules as "
			"\"npuctl fault list\" describes them.",
	}, {
		.name = "simnpu_faults_report", .type = HAL_OPTION_BOOL, .def = "0",
		.help = "Whether to print at the end of the program what each rule of "
			"simnpu_faults has hit.",
	},
	{ .name = "" }
};
