// SPDX-License-Identifier: MIT
/*
 * npuctl fault: what can be made to go wrong in simulated devices; whether rules
 * about it are well-formed; a program under such rules.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/simnpu/simnpu_test.h"
#include "tools/npuctl/npuctl.h"

#define USAGE "fault list | check RULES | run [--report] RULES -- PROGRAM [ARGUMENTS]"

typedef const struct simnpu_fault_word *word_at(uint32_t i);

static void show_words(const char *title, word_at *at)
{
	const struct simnpu_fault_word *w;
	uint32_t i;

	printf("%s\n", title);
	for (i = 0; (w = at(i)); i++)
		printf("  %-22s %s\n", w->word, w->help);
}

static int list(int argc, char **argv)
{
	(void)argv;
	if (argc)
		return usage(USAGE);
	printf("RULES are WHAT[,key=value]... separated by ';', as\n"
	       "  task:copy,do=ecc,nth=3;ioctl:mem_create,code=ENOMEM,prob=0.01,seed=7\n");
	show_words("WHAT", simnpu_fault_what);
	show_words("keys", simnpu_fault_key);
	show_words("do=", simnpu_fault_action);
	return 0;
}

/* Whether rules are well-formed; if not, says where and why. */
static int well_formed(const char *rules)
{
	char why[256];
	size_t pos = 0;

	if (!simnpu_fault_check(rules, &pos, why, sizeof(why)))
		return 1;
	fprintf(stderr, "npuctl: fault: at byte %zu: %s\n  %s\n  %*s^\n", pos, why, rules,
		(int)pos, "");
	return 0;
}

static int check(int argc, char **argv)
{
	if (argc != 1)
		return usage(USAGE);
	return well_formed(argv[0]) ? 0 : 1;
}

/* Becomes the program, which takes the rules from its environment. */
static int run(int argc, char **argv)
{
	int report = argc && !strcmp(argv[0], "--report");

	argc -= report;
	argv += report;
	if (argc < 3 || strcmp(argv[1], "--"))
		return usage(USAGE);
	if (!well_formed(argv[0]))
		return 1;
	if (setenv("NPU_SIMNPU_FAULTS", argv[0], 1) ||
	    (report && setenv("NPU_SIMNPU_FAULTS_REPORT", "1", 1))) {
		perror("npuctl: fault");
		return 1;
	}
	execvp(argv[2], argv + 2);
	fprintf(stderr, "npuctl: fault: %s: %s\n", argv[2], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

int cmd_fault(int argc, char **argv)
{
	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS)) {
		fprintf(stderr, "npuctl: fault: not built in (CONFIG_SIMNPU_FAULTS)\n");
		return 1;
	}
	if (!argc)
		return usage(USAGE);
	if (!strcmp(argv[0], "list"))
		return list(argc - 1, argv + 1);
	if (!strcmp(argv[0], "check"))
		return check(argc - 1, argv + 1);
	if (!strcmp(argv[0], "run"))
		return run(argc - 1, argv + 1);
	return usage(USAGE);
}
