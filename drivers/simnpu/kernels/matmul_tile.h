/* SPDX-License-Identifier: MIT */
/*
 * The inner loop of the plain matrix product, included by matmul.c once for
 * each instruction set, with
 *	TILE(x)	 the name x of this variant
 *	TARGET	 the attribute that selects the instruction set
 *	W	 elements of a vector
 *	MR	 rows of a tile
 * A tile is MR rows by two vectors of columns, held in registers. Each element
 * of it is one sum that runs along k; rows and columns never meet, so the
 * result does not depend on the size of tiles.
 */

typedef float TILE(vec) __attribute__((vector_size(4 * W)));
typedef float TILE(vec_mem) __attribute__((vector_size(4 * W), aligned(4), may_alias));

SIMNPU_INLINE void TILE(rows)(const int rows, const struct tile_args *t, const float *a, float *c)
{
	const float *b = t->b;
	TILE(vec) acc[MR][2];

	for (int r = 0; r < rows; r++) {
		const TILE(vec_mem) *cr = (const TILE(vec_mem) *)(c + r * t->c_row);

		acc[r][0] = acc[r][1] = (TILE(vec)){ 0 };
		if (t->add) {
			acc[r][0] = cr[0];
			acc[r][1] = cr[1];
		}
	}
	for (uint64_t k = t->depth; k; k--, a += t->a_k, b += t->b_row) {
		TILE(vec) b0 = ((const TILE(vec_mem) *)b)[0];
		TILE(vec) b1 = ((const TILE(vec_mem) *)b)[1];

		for (int r = 0; r < rows; r++) {
			float x = a[r * t->a_row];

			acc[r][0] += b0 * x;
			acc[r][1] += b1 * x;
		}
	}
	for (int r = 0; r < rows; r++) {
		TILE(vec_mem) *cr = (TILE(vec_mem) *)(c + r * t->c_row);

		cr[0] = acc[r][0];
		cr[1] = acc[r][1];
	}
}

static TARGET void TILE(column)(const struct tile_args *t)
{
	const float *a = t->a;
	float *c = t->c;
	uint64_t n = t->rows;

	for (; n >= MR; n -= MR, a += MR * t->a_row, c += MR * t->c_row)
		TILE(rows)(MR, t, a, c);
	for (; n >= 2; n -= 2, a += 2 * t->a_row, c += 2 * t->c_row)
		TILE(rows)(2, t, a, c);
	if (n)
		TILE(rows)(1, t, a, c);
}

#undef TILE
#undef TARGET
#undef W
#undef MR
