/* SPDX-License-Identifier: MIT */
/* How far two kinds of work went on at the same time. */
#ifndef OVERLAP_H
#define OVERLAP_H

#include <stddef.h>
#include <stdint.h>

/** struct span - a time in which something ran, ns */
struct span {
	uint64_t start, end;
};

/** struct spans - such times, in any order */
struct spans {
	struct span *span;
	size_t count, room;
};

/** spans_add() - add one. Return: 0, or -ENOMEM */
int spans_add(struct spans *s, uint64_t start, uint64_t end);
/** spans_merge() - sort them, and join those that touch */
void spans_merge(struct spans *s);
/** spans_length() - how long, of merged ones */
uint64_t spans_length(const struct spans *s);
/** spans_common() - for how long both, of merged ones */
uint64_t spans_common(const struct spans *a, const struct spans *b);
/** spans_free() - free and empty them */
void spans_free(struct spans *s);

#endif /* OVERLAP_H */
