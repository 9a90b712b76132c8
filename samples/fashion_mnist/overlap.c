// SPDX-License-Identifier: MIT
/*
 * Unions and intersections of times.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "overlap.h"

int spans_add(struct spans *s, uint64_t start, uint64_t end)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		struct span *span = realloc(s->span, room * sizeof(*span));

		if (!span)
			return -ENOMEM;
		s->span = span;
		s->room = room;
	}
	s->span[s->count].start = start;
	s->span[s->count++].end = end;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void spans_merge(struct spans *s)
{
	size_t n = 0;

	if (!s->count)
		return;
	qsort(s->span, s->count, sizeof(*s->span), by_start);
	for (size_t i = 1; i < s->count; i++) {
		if (s->span[i].start > s->span[n].end)
			s->span[++n] = s->span[i];
		else if (s->span[i].end > s->span[n].end)
			s->span[n].end = s->span[i].end;
	}
	s->count = n + 1;
}

uint64_t spans_length(const struct spans *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->count; i++)
		sum += s->span[i].end - s->span[i].start;
	return sum;
}

uint64_t spans_common(const struct spans *a, const struct spans *b)
{
	uint64_t sum = 0;
	size_t i = 0, j = 0;

	while (i < a->count && j < b->count) {
		const struct span *x = &a->span[i], *y = &b->span[j];
		uint64_t start = x->start > y->start ? x->start : y->start;
		uint64_t end = x->end < y->end ? x->end : y->end;

		if (start < end)
			sum += end - start;
		if (x->end < y->end)
			i++;
		else
			j++;
	}
	return sum;
}

void spans_free(struct spans *s)
{
	free(s->span);
	memset(s, 0, sizeof(*s));
}
