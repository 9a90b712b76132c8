/* SPDX-License-Identifier: MIT */
/* Bare copies and fills, the limit of the case copy. */
#ifndef TOOLS_NPU_BENCH_BARE_COPY_H
#define TOOLS_NPU_BENCH_BARE_COPY_H

#include <stddef.h>

#define BARE_THREADS_MAX 16u

struct bare_copier;

/* threads: the caller and helpers, which sleep between copies. NULL: no memory. */
struct bare_copier *bare_copier_new(unsigned int threads);
void bare_copier_free(struct bare_copier *c);
/* Chooses the routine that is fastest for such a copy; src NULL: a fill. */
void bare_copier_choose(struct bare_copier *c, char *dst, const char *src, size_t size);
void bare_copier_run(struct bare_copier *c, char *dst, const char *src, size_t size);

#endif /* TOOLS_NPU_BENCH_BARE_COPY_H */
