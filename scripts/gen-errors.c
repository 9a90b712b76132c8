// SPDX-License-Identifier: MIT
/*
 * Prints Documentation/errors.rst from the catalogue of codes that the library
 * holds, and from the list of tests that produce them, its one argument.
 */
#include <npu/npu.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "scripts/gen.h"

/* Errnos are below this on Linux. */
#define CODES 4096

static const char head[] =
	".. SPDX-License-Identifier: MIT\n"
	".. Made by \"make docs\" from the tables in the sources: do not edit.\n"
	"\n"
	"======\n"
	"Errors\n"
	"======\n"
	"\n"
	"Functions return 0 or one of these codes, negative. ``npu_last_error()`` tells which\n"
	"operation failed, on what, why, and what to do; of a wait that reports several failures\n"
	"``npu_error_next()`` tells the others. ``npu_error_explain()`` and\n"
	"``npuctl explain CODE`` tell what stands here. For each code a test below\n"
	"``selftests/`` is named that produces it.\n";

static void item(const char *name, const char *text)
{
	char line[1024];

	snprintf(line, sizeof(line), ":%s: %s", name, text);
	print_lines("    ", "      ", line);
}

/* The tests that produce a code: lines "CODE PROGRAM TEST". */
static void print_tests(FILE *list, const char *code)
{
	char line[256], name[32], program[96], test[96];
	int n = 0;

	rewind(list);
	while (fgets(line, sizeof(line), list)) {
		if (line[0] == '#' || sscanf(line, "%31s %95s %95s", name, program, test) != 3 ||
		    strcmp(name, code))
			continue;
		printf("%s``%s %s``\n", n++ ? "      " : "    :Tests: ", program, test);
	}
}

int main(int argc, char **argv)
{
	struct npu_error_info e = { .size = sizeof(e) };
	int code, n = 0;
	FILE *list;

	list = argc == 2 ? fopen(argv[1], "r") : NULL;
	if (!list) {
		fprintf(stderr, "usage: gen-errors LIST_OF_TESTS\n");
		return 1;
	}
	fputs(head, stdout);
	for (code = 1; code < CODES; code++) {
		if (npu_error_explain(code, &e))
			continue;
		printf("\n``-%s``, %d\n", e.name, e.code);
		print_text("    ", e.meaning);
		putchar('\n');
		item("Usual causes", e.causes);
		item("What to do", e.remedy);
		print_tests(list, e.name);
		n++;
	}
	fclose(list);
	if (!n) {
		fprintf(stderr, "gen-errors: the library has no codes\n");
		return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
