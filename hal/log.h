/* SPDX-License-Identifier: MIT */
/*
 * The log: levels and masks. A failure is logged once, where it is found.
 */
#ifndef HAL_LOG_H
#define HAL_LOG_H

#include <stdint.h>

enum hal_log_level {
	HAL_LOG_NONE = 0,
	HAL_LOG_ERROR = 1,
	HAL_LOG_WARN = 2,
	HAL_LOG_INFO = 3,
	HAL_LOG_DEBUG = 4,
};

/* Components, as bits of the mask. */
#define HAL_LOG_CORE	(1u << 0)
#define HAL_LOG_DRIVER	(1u << 1)
#define HAL_LOG_MODEL	(1u << 2)
#define HAL_LOG_RUNTIME	(1u << 3)
#define HAL_LOG_MEMORY	(1u << 4)
#define HAL_LOG_ALL	0xffffffffu

/* Where lines go; NULL: standard error. Called with no lock held. */
typedef void hal_log_sink(int level, uint32_t component, const char *line);

void hal_log_setup(int level, uint32_t mask);
void hal_log_set_sink(hal_log_sink *sink);
int hal_log_level_get(void);
void hal_log_write(int level, uint32_t component, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define hal_log(level, component, ...)							\
	do {										\
		if ((level) <= CONFIG_LOG_MAX_LEVEL &&					\
		    hal_log_enabled((level), (component)))				\
			hal_log_write((level), (component), __VA_ARGS__);		\
	} while (0)

/* Whether such a line would be written; costs one load. */
int hal_log_enabled(int level, uint32_t component);

#define hal_err(component, ...) hal_log(HAL_LOG_ERROR, component, __VA_ARGS__)
#define hal_warn(component, ...) hal_log(HAL_LOG_WARN, component, __VA_ARGS__)
#define hal_info(component, ...) hal_log(HAL_LOG_INFO, component, __VA_ARGS__)
#define hal_dbg(component, ...) hal_log(HAL_LOG_DEBUG, component, __VA_ARGS__)

#endif /* HAL_LOG_H */
