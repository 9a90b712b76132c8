/* SPDX-License-Identifier: MIT */
/*
 * Included before every source file of the library, the tools and the tests:
 * the configuration, and IS_ENABLED() to ask about it in C and in #if.
 */
#ifndef SCRIPTS_KCONFIG_H
#define SCRIPTS_KCONFIG_H

#include "generated/autoconf.h"

/*
 * IS_ENABLED(CONFIG_X) is 1 when CONFIG_X is defined as 1, else 0. Pasting the
 * value 1 makes the name of a macro that expands to an additional argument and
 * so moves the 1 into the second place.
 */
#define KCONFIG_PROBE_1			0,
#define KCONFIG_SECOND(ignored, val, ...)	val
#define KCONFIG_TEST3(arg_or_junk)	KCONFIG_SECOND(arg_or_junk 1, 0, 0)
#define KCONFIG_TEST2(val)		KCONFIG_TEST3(KCONFIG_PROBE_##val)
#define KCONFIG_TEST(val)		KCONFIG_TEST2(val)

#define IS_ENABLED(option)		KCONFIG_TEST(option)

#endif /* SCRIPTS_KCONFIG_H */
