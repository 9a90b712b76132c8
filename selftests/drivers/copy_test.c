// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies and fills of the simulated device: every method that this machine can
 * do, at every alignment and size that its loops tell apart, against a byte-wise
 * reference; nothing beside what was asked for changes.
 */
#include "selftests/npu_kselftest.h"

#include "drivers/simnpu/model/copy.h"

#define GUARD 128
#define ROOM (40 * 1024)

FIXTURE(copy)
{
	unsigned char *src, *dst, *want;
};

FIXTURE_SETUP(copy)
{
	self->src = aligned_alloc(4096, ROOM);
	self->dst = aligned_alloc(4096, ROOM);
	self->want = aligned_alloc(4096, ROOM);
	ASSERT_TRUE(self->src && self->dst && self->want);
	for (size_t i = 0; i < ROOM; i++)
		self->src[i] = (unsigned char)(i * 167 + (i >> 8));
}

FIXTURE_TEARDOWN(copy)
{
	model_copy_force(NULL, 0);
	free(self->src);
	free(self->dst);
	free(self->want);
}

#define FOR_METHODS(m)									\
	for (unsigned int i_ = 0; i_ < 16; i_++)					\
		for (const struct model_copy_method *m = model_copy_methods(i_); m; m = NULL)

/* Sizes around all that the loops cut: lines, pairs of lines, pages, pairs of pages. */
static const size_t sizes[] = {
	0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 255,
	256, 257, 511, 1000, 4095, 4096, 4097, 8191, 8192, 8193, 8255, 8256, 8320, 12289, 16384,
	16447, 24577,
};

/* Copies within guards and returns whether all bytes of dst are as they should be. */
static bool copied(FIXTURE_DATA(copy) *self, size_t d, size_t s, size_t n)
{
	memset(self->dst, 0xa5, ROOM);
	memset(self->want, 0xa5, ROOM);
	for (size_t i = 0; i < n; i++)
		self->want[GUARD + d + i] = self->src[GUARD + s + i];
	model_memcpy(self->dst + GUARD + d, self->src + GUARD + s, n);
	return !memcmp(self->dst, self->want, n + 2 * GUARD + 128);
}

static bool filled(FIXTURE_DATA(copy) *self, size_t d, int byte, size_t n)
{
	memset(self->dst, 0xa5, ROOM);
	memset(self->want, 0xa5, ROOM);
	for (size_t i = 0; i < n; i++)
		self->want[GUARD + d + i] = (unsigned char)byte;
	model_memset(self->dst + GUARD + d, byte, n);
	return !memcmp(self->dst, self->want, n + 2 * GUARD + 128);
}

TEST_F(copy, every_alignment_and_size)
{
	FOR_METHODS(m) {
		/* all by streaming stores */
		model_copy_force(m, 0);
		for (size_t z = 0; z < ARRAY_SIZE(sizes); z++) {
			size_t step = NPU_TEST_TSAN || sizes[z] > 300 ? 7 : 1;

			for (size_t d = 0; d < 64; d += step) {
				for (size_t s = 0; s < 64; s += step + 2) {
					ASSERT_TRUE(copied(self, d, s, sizes[z])) {
						TH_LOG("%s: %zu bytes from %zu to %zu", m->name,
						       sizes[z], s, d);
					}
				}
			}
		}
	}
}

TEST_F(copy, every_size_of_a_few_lines)
{
	FOR_METHODS(m) {
		model_copy_force(m, 0);
		for (size_t n = 0; n < 600; n++) {
			for (size_t d = 0; d < 64; d += 9) {
				ASSERT_TRUE(copied(self, d, 5, n)) TH_LOG("%s: %zu", m->name, n);
			}
		}
	}
}

TEST_F(copy, fills)
{
	FOR_METHODS(m) {
		model_copy_force(m, 0);
		for (size_t z = 0; z < ARRAY_SIZE(sizes); z++) {
			for (size_t d = 0; d < 64; d += NPU_TEST_TSAN ? 5 : 1) {
				ASSERT_TRUE(filled(self, d, (int)(0x1f0 + d), sizes[z])) {
					TH_LOG("%s: %zu bytes to %zu", m->name, sizes[z], d);
				}
			}
		}
	}
}

TEST_F(copy, rows)
{
	static const size_t widths[] = { 1, 3, 64, 100, 1024, 1025, 3000 };

	FOR_METHODS(m) {
		for (size_t z = 0; z < ARRAY_SIZE(widths); z++) {
			size_t w = widths[z], dp = w + 9, sp = w + (z & 1 ? 0 : 77), h = 9;

			for (int limit = 0; limit < 2; limit++) {
				model_copy_force(m, limit ? SIZE_MAX : 0);
				memset(self->dst, 0xa5, ROOM);
				memset(self->want, 0xa5, ROOM);
				for (size_t y = 0; y < h; y++)
					for (size_t x = 0; x < w; x++)
						self->want[3 + y * dp + x] =
							self->src[1 + y * sp + x];
				model_memcpy_2d(self->dst + 3, dp, self->src + 1, sp, w, h, w * h);
				ASSERT_EQ(0, memcmp(self->dst, self->want, ROOM)) {
					TH_LOG("%s: width %zu", m->name, w);
				}
			}
		}
		/* rows without gaps are one copy */
		memset(self->dst, 0xa5, ROOM);
		model_memcpy_2d(self->dst, 1000, self->src, 1000, 1000, 20, 20000);
		ASSERT_EQ(0, memcmp(self->dst, self->src, 20000));
		ASSERT_EQ(0xa5, self->dst[20000]);
		model_memcpy_2d(self->dst, 1000, self->src + 1, 1000, 1000, 0, 0);
		ASSERT_EQ(0, memcmp(self->dst, self->src, 20000));
	}
}

/* Larger than every limit, chosen as in production, misaligned both ways. */
TEST_F(copy, large_ones_as_chosen)
{
	size_t n = (size_t)40 << 20;
	unsigned char *s = malloc(n + 64), *d = malloc(n + 64);

	ASSERT_TRUE(s && d);
	for (size_t i = 0; i < n + 64; i++)
		s[i] = (unsigned char)(i ^ (i >> 11));
	memset(d, 0xa5, n + 64);
	model_memcpy(d + 13, s + 6, n);
	EXPECT_EQ(0, memcmp(d + 13, s + 6, n));
	EXPECT_EQ(0xa5, d[12]);
	EXPECT_EQ(0xa5, d[n + 13]);

	model_memset(d + 3, 0x11, n);
	EXPECT_EQ(0x11, d[3]);
	EXPECT_EQ(0, memcmp(d + 3, d + 4, n - 1));
	EXPECT_EQ(0xa5, d[2]);
	EXPECT_NE(0x11, d[n + 3]);
	free(s);
	free(d);
}

/* As several threads do it: pieces in any order make the whole. */
TEST_F(copy, pieces)
{
	static const size_t wholes[] = { 4096, 262144, 1000000, 5000001, 50000000 };

	for (size_t z = 0; z < ARRAY_SIZE(wholes); z++) {
		for (unsigned int threads = 0; threads < 5; threads++) {
			size_t n = wholes[z], piece = model_copy_chunk(n, threads), count;
			unsigned char *s, *d;

			ASSERT_LT(0, piece);
			ASSERT_LE(piece, n + 4096);
			if (threads < 2) {
				ASSERT_EQ(n, piece);
			}
			if (piece != n) {
				ASSERT_EQ(0, piece % 4096);
			}
			count = (n + piece - 1) / piece;
			ASSERT_LE(count, threads * 64 + 1);
			s = malloc(n);
			d = malloc(n);
			ASSERT_TRUE(s && d);
			for (size_t i = 0; i < n; i++)
				s[i] = (unsigned char)(i * 31 ^ (i >> 9));
			for (size_t i = count; i--;) {
				size_t at = i * piece, len = n - at < piece ? n - at : piece;

				model_memcpy_part(d + at, s + at, len, n / (threads ? threads : 1));
			}
			ASSERT_EQ(0, memcmp(s, d, n));
			for (size_t i = count; i--;) {
				size_t at = i * piece, len = n - at < piece ? n - at : piece;

				model_memset_part(d + at, 9, len, n / (threads ? threads : 1));
			}
			ASSERT_EQ(9, d[0]);
			ASSERT_EQ(0, memcmp(d, d + 1, n - 1));
			free(s);
			free(d);
		}
	}
}

TEST_F(copy, the_last_method_is_there_everywhere)
{
	const struct model_copy_method *last = NULL;

	FOR_METHODS(m)
		last = m;
	ASSERT_NE(NULL, last);
	EXPECT_STREQ("libc", last->name);
}

TEST_HARNESS_MAIN
