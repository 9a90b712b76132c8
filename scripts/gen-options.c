// SPDX-License-Identifier: MIT
/*
 * Prints Documentation/options.rst from the table of options that the library
 * holds. "make docs" runs it in a build of simnpu_defconfig.
 */
#include <npu/npu.h>

#include <stdio.h>
#include <string.h>

#include "scripts/gen.h"

static const char head[] =
	".. SPDX-License-Identifier: MIT\n"
	".. Made by \"make docs\" from the tables in the sources: do not edit.\n"
	"\n"
	"=======\n"
	"Options\n"
	"=======\n"
	"\n"
	"A value comes from ``npu_option_set()``, else from the environment, else from the file\n"
	"that ``NPU_OPTIONS_FILE`` names (lines ``name = value``, ``#`` for comments), else it is\n"
	"the default, which Kconfig sets; below, those of ``simnpu_defconfig``. Of several\n"
	"variables the first that is set counts. A bad value makes the initialisation fail with\n"
	"one message that names source, text, position and accepted form. ``npu_option_get()``\n"
	"tells the value in force and where it is from.\n";

/* "a b" becomes "``a``, ``b``" */
static void print_words(const char *words)
{
	const char *sep = "";
	size_t len;

	while (*words) {
		len = strcspn(words, " ");
		printf("%s``%.*s``", sep, (int)len, words);
		sep = ", ";
		words += len;
		words += strspn(words, " ");
	}
}

static void print_option(const struct npu_option_info *opt)
{
	printf("\n``%s``\n", opt->name);
	print_text("    ", opt->help);
	printf("\n    :Type: %s", opt->type);
	if (*opt->choices) {
		printf(" of ");
		print_words(opt->choices);
	} else if (!strcmp(opt->type, "int") || !strcmp(opt->type, "size")) {
		printf(", %lld to %lld", (long long)opt->min, (long long)opt->max);
	} else if (!strcmp(opt->type, "text")) {
		printf(" of up to %lld bytes", (long long)opt->max);
	}
	printf("\n    :Default: ");
	if (*opt->def)
		printf("``%s``", opt->def);
	else
		printf("empty");
	printf("\n    :Environment: ");
	print_words(opt->env);
	printf("\n    :When: %s\n", opt->runtime ? "at any time" : "before the initialisation");
}

int main(void)
{
	struct npu_option_info opt = { .size = sizeof(opt) };
	unsigned int i;

	fputs(head, stdout);
	for (i = 0; !npu_option_at(i, &opt); i++)
		print_option(&opt);
	if (!i) {
		fprintf(stderr, "gen-options: the library has no options\n");
		return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
