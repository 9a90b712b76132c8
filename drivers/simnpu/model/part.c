// SPDX-License-Identifier: MIT
/*
 * Parts: what the simulated device claims to be.
 */
#include <string.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"

#define GIB (1ull << 30)

static const struct model_part parts[] = {
	{
		.option = "generic", .name = "SimNPU", .memory = 32 * GIB,
		.cores = MODEL_CORES_MAX, .max_queues = 65536, .max_events = 65536,
		.caps = SIMNPU_CAP_BF16 | SIMNPU_CAP_INF_NAN | SIMNPU_CAP_MANAGED,
	}, {
		.option = "910b", .name = "Ascend910B1", .memory = 64 * GIB,
		.cores = 24, .max_queues = 1984, .max_events = 65536,
		.caps = SIMNPU_CAP_BF16 | SIMNPU_CAP_INF_NAN | SIMNPU_CAP_MANAGED,
	}, {
		.option = "310p", .name = "Ascend310P3", .memory = 24 * GIB,
		.cores = 8, .max_queues = 1024, .max_events = 1023,
	}, {
		.option = "310b", .name = "Ascend310B4", .memory = 8 * GIB,
		.cores = 1, .max_queues = 512, .max_events = 65536,
	},
};

/* The part of that name, as struct simnpu_info gives it, or NULL. */
const struct model_part *model_part_named(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (!strcmp(parts[i].name, name))
			return &parts[i];
	return NULL;
}

/* The part that the options ask for, and bytes of its memory. */
const struct model_part *model_part_get(uint64_t *memory)
{
	const char *name = hal_option_text(simnpu_options, "simnpu_part");
	const struct model_part *part = &parts[0];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (!strcmp(parts[i].option, name))
			part = &parts[i];
	*memory = (uint64_t)hal_option_int(simnpu_options, "simnpu_memory");
	*memory = *memory ? hal_align_up(*memory, MODEL_ALIGN) : part->memory;
	return part;
}
