/* SPDX-License-Identifier: MIT */
/*
 * A map of address ranges that don't overlap: a treap, nodes inside the objects
 * that they stand for. The map has no lock of its own.
 */
#ifndef HAL_RANGE_H
#define HAL_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct hal_range - a node
 * @start: first address
 * @size: bytes, at least 1
 * @left: ranges below
 * @right: ranges above
 */
struct hal_range {
	uint64_t start;
	uint64_t size;
	struct hal_range *left, *right;
};

struct hal_range_map {
	struct hal_range *root;
};

/* Puts a range in; false: it overlaps one that is there, or wraps. */
bool hal_range_insert(struct hal_range_map *map, struct hal_range *r);
/* Takes a range out that is there. */
void hal_range_remove(struct hal_range_map *map, struct hal_range *r);
/* The range that holds the address, or NULL. */
struct hal_range *hal_range_find(const struct hal_range_map *map, uint64_t addr);
/* The first range that starts above an address, or NULL. */
struct hal_range *hal_range_above(const struct hal_range_map *map, uint64_t addr);

#endif /* HAL_RANGE_H */
