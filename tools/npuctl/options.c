// SPDX-License-Identifier: MIT
/*
 * npuctl options: a line an option, name, value in quotes, where it is from.
 */
#include <stdio.h>
#include <string.h>

#include "npu/option.h"
#include "tools/npuctl/npuctl.h"

static int show(const char *name)
{
	static const char *const from[] = {
		[NPU_OPTION_DEFAULT] = "default",
		[NPU_OPTION_FILE] = "file",
		[NPU_OPTION_ENVIRONMENT] = "environment",
		[NPU_OPTION_API] = "api",
	};
	char value[1200];
	int origin, err;

	err = npu_option_get(name, value, sizeof(value), &origin);
	if (err)
		return failed(name);
	printf("%s \"%s\" %s\n", name, value, from[origin]);
	return 0;
}

int cmd_options(int argc, char **argv)
{
	struct npu_option_info o = { .size = sizeof(o) };
	unsigned int n;
	int i, rc = 0;

	if (argc && argv[0][0] == '-')
		return usage("options [NAME...]");
	for (i = 0; i < argc; i++)
		rc |= show(argv[i]);
	for (n = 0; !argc && !npu_option_at(n, &o); n++)
		rc |= show(o.name);
	return rc;
}
