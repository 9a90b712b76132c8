// SPDX-License-Identifier: MIT
/*
 * npuctl version
 */
#include <stdio.h>

#include "npu/init.h"
#include "tools/npuctl/npuctl.h"

int cmd_version(int argc, char **argv)
{
	(void)argv;
	if (argc)
		return usage("version");
	printf("%s\n", npu_version_string());
	return 0;
}
