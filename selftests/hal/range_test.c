// SPDX-License-Identifier: GPL-2.0-only
/*
 * The map of ranges, against a model that looks at a bitmap.
 */
#include <stdlib.h>

#include "selftests/npu_kselftest.h"

#include "hal/base.h"
#include "hal/range.h"

#define SPACE 2000u
#define NODES 300u
#define BASE 0x7f0000000000ull

static uint32_t owner[SPACE];	/* number of the range that holds the address, 0: none */

static struct hal_range *model_above(struct hal_range *nodes, uint32_t at)
{
	uint32_t i;

	for (i = at + 1; i < SPACE; i++)
		if (owner[i] && owner[i] != owner[i - 1])
			return &nodes[owner[i]];
	return NULL;
}

/* The depth of a treap of n nodes is a few times log n, however they came. */
static unsigned int depth(const struct hal_range *r)
{
	unsigned int a, b;

	if (!r)
		return 0;
	a = depth(r->left);
	b = depth(r->right);
	return 1 + (a > b ? a : b);
}

TEST(against_a_model)
{
	static struct hal_range nodes[NODES];
	static bool in[NODES];
	struct hal_range_map map = { NULL };
	unsigned int seed = 1, round, i, n, at, size;
	bool fits;

	for (round = 0; round < 60000; round++) {
		n = 1 + (unsigned int)rand_r(&seed) % (NODES - 1);
		if (in[n]) {
			hal_range_remove(&map, &nodes[n]);
			for (i = 0; i < SPACE; i++)
				if (owner[i] == n)
					owner[i] = 0;
			in[n] = false;
		} else {
			at = (unsigned int)rand_r(&seed) % SPACE;
			size = 1 + (unsigned int)rand_r(&seed) % 12;
			fits = at + size <= SPACE;
			if (!fits)
				continue;
			for (i = at; i < at + size; i++)
				fits &= !owner[i];
			nodes[n].start = BASE + at;
			nodes[n].size = size;
			ASSERT_EQ(fits, hal_range_insert(&map, &nodes[n]));
			for (i = at; fits && i < at + size; i++)
				owner[i] = n;
			in[n] = fits;
		}
		at = (unsigned int)rand_r(&seed) % SPACE;
		ASSERT_EQ(owner[at] ? &nodes[owner[at]] : NULL, hal_range_find(&map, BASE + at));
		ASSERT_EQ(model_above(nodes, at), hal_range_above(&map, BASE + at));
	}
}

TEST(refuses)
{
	struct hal_range_map map = { NULL };
	struct hal_range a = { .start = 100, .size = 10 }, b = { .start = 109, .size = 1 };
	struct hal_range e = { .start = 5, .size = 0 }, w = { .start = UINT64_MAX, .size = 2 };
	struct hal_range top = { .start = UINT64_MAX, .size = 1 };
	struct hal_range around = { .start = 90, .size = 100 };

	EXPECT_TRUE(hal_range_insert(&map, &a));
	EXPECT_FALSE(hal_range_insert(&map, &b));
	EXPECT_FALSE(hal_range_insert(&map, &e));
	EXPECT_FALSE(hal_range_insert(&map, &w));
	EXPECT_FALSE(hal_range_insert(&map, &around));
	EXPECT_TRUE(hal_range_insert(&map, &top));
	EXPECT_EQ(&top, hal_range_find(&map, UINT64_MAX));
	EXPECT_EQ(NULL, hal_range_above(&map, UINT64_MAX));
	EXPECT_EQ(&a, hal_range_above(&map, 0));
	EXPECT_EQ(NULL, hal_range_find(&map, 99));
	EXPECT_EQ(NULL, hal_range_find(&map, 110));
}

TEST(stays_flat)
{
	struct hal_range_map map = { NULL };
	struct hal_range *r = calloc(20000, sizeof(*r));
	unsigned int i;

	ASSERT_NE(NULL, r);
	for (i = 0; i < 20000; i++) {
		r[i].start = BASE + i * 512ull;
		r[i].size = 512;
		ASSERT_TRUE(hal_range_insert(&map, &r[i]));
	}
	EXPECT_GT(60, depth(map.root));
	for (i = 0; i < 20000; i++)
		hal_range_remove(&map, &r[i]);
	EXPECT_EQ(NULL, map.root);
	free(r);
}

TEST_HARNESS_MAIN
