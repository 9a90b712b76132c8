// SPDX-License-Identifier: MIT
/*
 * npuctl explain: what a code means, where it usually comes from, and what to do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "npu/error.h"
#include "tools/npuctl/npuctl.h"

/* Errnos are below this on Linux. */
#define CODES 4096

/* A code by number, of either sign, or by name, with or without a sign; 0: neither. */
static int code_of(const char *word)
{
	struct npu_error_info e = { .size = sizeof(e) };
	const char *name = word[0] == '-' ? word + 1 : word;
	char *end;
	long n;
	int i;

	n = strtol(word, &end, 10);
	if (end != word && !*end)
		return n > -CODES && n < CODES ? (int)n : 0;
	for (i = 1; i < CODES; i++)
		if (!npu_error_explain(i, &e) && !strcasecmp(e.name, name))
			return i;
	return 0;
}

static int explain(const char *word)
{
	struct npu_error_info e = { .size = sizeof(e) };

	if (npu_error_explain(code_of(word), &e)) {
		fprintf(stderr, "npuctl: explain: %s is not a code of the library: it gives "
			"those that npuctl explain lists\n", word);
		return 1;
	}
	printf("%s (%d)\n  meaning: %s\n  causes:  %s\n  remedy:  %s\n", e.name, e.code,
	       e.meaning, e.causes, e.remedy);
	return 0;
}

int cmd_explain(int argc, char **argv)
{
	struct npu_error_info e = { .size = sizeof(e) };
	int i, rc = 0;

	for (i = 0; i < argc; i++)
		rc |= explain(argv[i]);
	for (i = 1; !argc && i < CODES; i++)
		if (!npu_error_explain(i, &e))
			printf("%-12s %5d  %s\n", e.name, e.code, e.meaning);
	return rc;
}
