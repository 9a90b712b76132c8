// SPDX-License-Identifier: MIT
/*
 * A map of address ranges: a treap, ordered by address. A node's weight is a
 * hash of its address, so that nothing has to be stored for it.
 */
#include <stddef.h>

#include "hal/range.h"

static uint64_t weight(const struct hal_range *r)
{
	uint64_t x = r->start + 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t last(const struct hal_range *r)
{
	return r->start + (r->size - 1);
}

/* The range that starts at or below the address, the nearest one. */
static struct hal_range *at_or_below(const struct hal_range_map *map, uint64_t addr)
{
	struct hal_range *n = map->root, *best = NULL;

	while (n) {
		if (n->start <= addr) {
			best = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return best;
}

/**
 * hal_range_insert() - put a range in
 * @map: the map
 * @r: the range; start and size are set
 *
 * Return: true; false when it overlaps one that is there, is empty, or wraps.
 */
bool hal_range_insert(struct hal_range_map *map, struct hal_range *r)
{
	struct hal_range **link = &map->root, **low, **high, *n;
	uint64_t w = weight(r);

	if (!r->size || last(r) < r->start)
		return false;
	n = at_or_below(map, last(r));
	if (n && last(n) >= r->start)
		return false;

	while (*link && weight(*link) >= w)
		link = r->start < (*link)->start ? &(*link)->left : &(*link)->right;

	/* split what is below into what lies lower and what lies higher */
	n = *link;
	*link = r;
	low = &r->left;
	high = &r->right;
	while (n) {
		if (n->start < r->start) {
			*low = n;
			low = &n->right;
			n = n->right;
		} else {
			*high = n;
			high = &n->left;
			n = n->left;
		}
	}
	*low = NULL;
	*high = NULL;
	return true;
}

/**
 * hal_range_remove() - take a range out
 * @map: the map
 * @r: the range, which is in the map
 */
void hal_range_remove(struct hal_range_map *map, struct hal_range *r)
{
	struct hal_range **link = &map->root, *a = r->left, *b = r->right;

	while (*link != r)
		link = r->start < (*link)->start ? &(*link)->left : &(*link)->right;

	while (a && b) {
		if (weight(a) >= weight(b)) {
			*link = a;
			link = &a->right;
			a = a->right;
		} else {
			*link = b;
			link = &b->left;
			b = b->left;
		}
	}
	*link = a ? a : b;
	r->left = NULL;
	r->right = NULL;
}

/**
 * hal_range_find() - the range that holds an address
 * @map: the map
 * @addr: the address
 *
 * Return: the range, or NULL.
 */
struct hal_range *hal_range_find(const struct hal_range_map *map, uint64_t addr)
{
	struct hal_range *n = at_or_below(map, addr);

	return n && last(n) >= addr ? n : NULL;
}

/**
 * hal_range_above() - the first range that starts above an address
 * @map: the map
 * @addr: the address
 *
 * Return: the range, or NULL.
 */
struct hal_range *hal_range_above(const struct hal_range_map *map, uint64_t addr)
{
	struct hal_range *n = map->root, *best = NULL;

	while (n) {
		if (n->start > addr) {
			best = n;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}
