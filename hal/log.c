// SPDX-License-Identifier: MIT
/*
 * The log.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hal/base.h"
#include "hal/log.h"
#include "hal/sys.h"

#define LINE_MAX_BYTES 512

/* Level in the upper half, mask in the lower: read together by one load. */
static _Atomic uint64_t setup = (uint64_t)HAL_LOG_ERROR << 32 | HAL_LOG_ALL;
static hal_log_sink *_Atomic sink;

static const char *const level_names[] = { "none", "error", "warn", "info", "debug" };
static const char *const component_names[] = { "core", "driver", "model", "runtime", "memory" };

/**
 * hal_log_setup() - choose what is written
 * @level: the most talkative level, enum hal_log_level
 * @mask: components, HAL_LOG_*
 */
void hal_log_setup(int level, uint32_t mask)
{
	if (level < HAL_LOG_NONE)
		level = HAL_LOG_NONE;
	if (level > HAL_LOG_DEBUG)
		level = HAL_LOG_DEBUG;
	/* relaxed: nothing else is read because of it */
	hal_store_relaxed(&setup, (uint64_t)level << 32 | mask);
}

/**
 * hal_log_set_sink() - choose where lines go
 * @fn: gets each line without its newline; NULL: standard error
 */
void hal_log_set_sink(hal_log_sink *fn)
{
	hal_store_release(&sink, fn);
}

/* The level of hal_log_setup(). */
int hal_log_level_get(void)
{
	return (int)(hal_load_relaxed(&setup) >> 32);
}

/* Whether such a line would be written. */
int hal_log_enabled(int level, uint32_t component)
{
	uint64_t s = hal_load_relaxed(&setup);

	return level <= (int)(s >> 32) && ((uint32_t)s & component);
}

static const char *component_name(uint32_t component)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(component_names); i++)
		if (component & (1u << i))
			return component_names[i];
	return "other";
}

/**
 * hal_log_write() - write a line: level, component, text
 * @level: enum hal_log_level
 * @component: one of HAL_LOG_*
 * @fmt: the text, as printf(3); what does not fit in a line is cut off
 *
 * Writes whatever hal_log_setup() said: that is what hal_log() looks at. Context: any thread,
 * no lock held.
 */
void hal_log_write(int level, uint32_t component, const char *fmt, ...)
{
	hal_log_sink *to = hal_load_acquire(&sink);
	char line[LINE_MAX_BYTES];
	va_list args;
	size_t n, i;

	if (level < HAL_LOG_NONE || level > HAL_LOG_DEBUG)
		level = HAL_LOG_DEBUG;
	n = (size_t)snprintf(line, sizeof(line), "%s %s ", level_names[level],
			     component_name(component));
	va_start(args, fmt);
	vsnprintf(line + n, sizeof(line) - 1 - n, fmt, args);
	va_end(args);
	n = strlen(line);
	for (i = 0; i < n; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	if (to) {
		to(level, component, line);
		return;
	}
	line[n] = '\n';
	hal_sys_write(STDERR_FILENO, line, n + 1);
}
