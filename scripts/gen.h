/* SPDX-License-Identifier: MIT */
/*
 * What the generators of documentation share.
 */
#ifndef SCRIPTS_GEN_H
#define SCRIPTS_GEN_H

#include <stdio.h>
#include <string.h>

/* Breaks at spaces so that lines end before column 98. */
static inline void print_lines(const char *first, const char *indent, const char *text)
{
	size_t col = strlen(first), start = col, len;

	fputs(first, stdout);
	while (*text) {
		len = strcspn(text, " ");
		if (col > start && col + 1 + len > 98) {
			printf("\n%s", indent);
			start = strlen(indent);
			col = start;
		} else if (col > start) {
			putchar(' ');
			col++;
		}
		printf("%.*s", (int)len, text);
		col += len;
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static inline void print_text(const char *indent, const char *text)
{
	print_lines(indent, indent, text);
}

#endif /* SCRIPTS_GEN_H */
