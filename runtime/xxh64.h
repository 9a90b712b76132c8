/* SPDX-License-Identifier: MIT */
/* Checksums: XXH64, as "xxhsum -H1" prints it. */
#ifndef RUNTIME_XXH64_H
#define RUNTIME_XXH64_H

#include <stddef.h>
#include <stdint.h>

/**
 * struct rt_xxh64 - a checksum that grows
 * @v: the four lanes
 * @total: bytes so far
 * @rest: those that do not fill a stripe yet
 */
struct rt_xxh64 {
	uint64_t v[4];
	uint64_t total;
	unsigned char rest[32];
};

void rt_xxh64_begin(struct rt_xxh64 *x);
void rt_xxh64_add(struct rt_xxh64 *x, const void *data, size_t size);
uint64_t rt_xxh64_end(const struct rt_xxh64 *x);
/* All at once. */
uint64_t rt_xxh64(const void *data, size_t size);

#endif /* RUNTIME_XXH64_H */
