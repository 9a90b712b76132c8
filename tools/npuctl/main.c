// SPDX-License-Identifier: MIT
/*
 * npuctl: asks the library about devices, options and errors, makes simulated
 * devices fail, and packs weights. It opens no device.
 */
#include <stdio.h>
#include <string.h>

#include "npu/npu.h"
#include "tools/npuctl/npuctl.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "explain", cmd_explain, "explain [CODE...] what an error code means, and what to do" },
	{ "fault", cmd_fault, "fault COMMAND     list, check, run: what is to go wrong" },
	{ "info", cmd_info, "info [DEVICE]     devices, one a line; or all that is known of one" },
	{ "options", cmd_options, "options [NAME...] options, their values and their sources" },
	{ "version", cmd_version, "version           version, and what was built in" },
	{ "weights", cmd_weights, "weights COMMAND   pack, check, info: containers of weights" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

int failed(const char *what)
{
	struct npu_error e = { .size = sizeof(e) };

	npu_last_error(&e);
	fprintf(stderr, "npuctl: %s: %s: %s\n", what, npu_error_name(e.code), e.text);
	if (e.hint[0])
		fprintf(stderr, "  %s\n", e.hint);
	return 1;
}

int usage(const char *text)
{
	fprintf(stderr, "usage: npuctl %s\n", text);
	return 2;
}

static int help(FILE *to, int status)
{
	size_t i;

	fprintf(to, "usage: npuctl COMMAND [ARGUMENTS]\n");
	for (i = 0; i < COMMANDS; i++)
		fprintf(to, "  %s\n", commands[i].help);
	return status;
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc < 2)
		return help(stderr, 2);
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help(stdout, 0);
	for (i = 0; i < COMMANDS; i++) {
		int rc;

		if (strcmp(argv[1], commands[i].name))
			continue;
		rc = commands[i].run(argc - 2, argv + 2);
		if (fflush(stdout)) {
			perror("npuctl");
			return 1;
		}
		return rc;
	}
	fprintf(stderr, "npuctl: there is no command \"%s\"\n", argv[1]);
	return help(stderr, 2);
}
