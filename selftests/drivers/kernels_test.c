// SPDX-License-Identifier: GPL-2.0-only
/*
 * The built-in kernels of the simulated NPU, called with blocks of our own:
 * results against double precision, the same bits for every number of blocks
 * and instruction set, refusals that change nothing.
 */
#include "selftests/npu_kselftest.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

#include "drivers/simnpu/kernels/exp.h"
#include "drivers/simnpu/kernels/kernels.h"
#include "scripts/kconfig.h"

extern const struct npu_simnpu_builtin *const __start_npu_simnpu_kernels[];
extern const struct npu_simnpu_builtin *const __stop_npu_simnpu_kernels[];

/* ---- a device of a few allocations ---- */

#define ALLOCS 6

static struct alloc {
	char *host;
	uint64_t size;
} allocs[ALLOCS];
static int alloc_nr;
static uint32_t stop_flag;
static uint64_t epoch = 1;

/* Far apart, and not where the host has them. */
#define ALLOC_ADDR(i) (((uint64_t)(i) + 1) << 40)

static uint64_t dev_alloc(uint64_t size, void **host)
{
	struct alloc *a = &allocs[alloc_nr];

	/* from the exact end of a malloc, so that sanitizers see what goes beyond */
	a->host = malloc(size);
	if (!a->host || alloc_nr == ALLOCS)
		abort();
	a->size = size;
	*host = a->host;
	return ALLOC_ADDR(alloc_nr++);
}

static void dev_free_all(void)
{
	while (alloc_nr)
		free(allocs[--alloc_nr].host);
	epoch++;
}

static void *resolve(struct npu_simnpu_block *blk, uint64_t addr, uint64_t size, uint32_t mode)
{
	uint64_t i = (addr >> 40) - 1, off = addr - ALLOC_ADDR(i);
	struct npu_simnpu_range *r = &blk->tlb[blk->tlb_next++ % NPU_SIMNPU_TLB];

	if (__atomic_load_n(blk->stop, __ATOMIC_RELAXED))
		return NULL;
	if (i >= (uint64_t)alloc_nr || !size || off >= allocs[i].size ||
	    size > allocs[i].size - off) {
		blk->failed = 1;
		return NULL;
	}
	*r = (struct npu_simnpu_range){
		.start = ALLOC_ADDR(i), .end = ALLOC_ADDR(i) + allocs[i].size,
		.host = allocs[i].host, .epoch = epoch, .mode = mode,
	};
	return allocs[i].host + off;
}

static npu_simnpu_kernel_fn *find(const char *name)
{
	for (const struct npu_simnpu_builtin *const *b = __start_npu_simnpu_kernels;
	     b < __stop_npu_simnpu_kernels; b++)
		if (!strcmp((*b)->name, name) && (*b)->abi == NPU_SIMNPU_KERNEL_ABI)
			return (*b)->fn;
	return NULL;
}

static uint32_t run_block(npu_simnpu_kernel_fn *fn, const void *args, uint32_t size,
			  uint32_t index, uint32_t count)
{
	struct npu_simnpu_block blk = {
		.size = sizeof(blk), .abi = NPU_SIMNPU_KERNEL_ABI, .index = index, .count = count,
		.core = index, .cores = count, .args_size = size, .stop = &stop_flag,
		.epoch = &epoch, .resolve = resolve,
	};

	fn(&blk, args);
	return blk.failed;
}

/* Runs all blocks, the last first. Returns how many failed, -1: no such kernel. */
static int run(const char *name, const void *args, uint32_t size, uint32_t blocks)
{
	npu_simnpu_kernel_fn *fn = find(name);
	int failed = 0;

	if (!fn)
		return -1;
	for (uint32_t i = blocks; i--;)
		failed += run_block(fn, args, size, i, blocks) != 0;
	return failed;
}

#define RUN(name, args, blocks) run(name, &(args), sizeof(args), blocks)

/* ---- numbers ---- */

static uint64_t seed;

static uint32_t random_u32(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

/* -1 to 1 */
static float random_f32(void)
{
	return (float)((int32_t)(random_u32() & 0xffffff) - 0x800000) / 0x800000;
}

static void randomize(float *x, uint64_t n)
{
	while (n--)
		*x++ = random_f32();
}

/* Distance in units of the last place of the reference. */
static double ulps(float got, double want)
{
	float w = (float)want;
	double ulp;

	if (isnan(got) || isnan(want) || isinf(got) || isinf(w))
		return (isnan(got) && isnan(want)) || got == w ? 0 : INFINITY;
	ulp = fabs(w) < FLT_MIN ? ldexp(1, -149) : ldexp(1, ilogb(w) - 23);
	return fabs(got - want) / ulp;
}

static uint64_t fnv1a(uint64_t h, const void *data, size_t n)
{
	for (const uint8_t *p = data; n--; p++)
		h = (h ^ *p) * 0x100000001b3u;
	return h;
}

#define FNV_START 0xcbf29ce484222325u

static const uint32_t block_counts[] = { 1, 2, 3, 7, 64 };
#define FOR_BLOCKS(b) \
	for (const uint32_t *b = block_counts; b < block_counts + ARRAY_SIZE(block_counts); b++)
#define FOR_ISAS(isa) \
	for (int isa = SIMNPU_ISA_BASE; isa <= SIMNPU_ISA_AVX512; isa++)

FIXTURE(kernels)
{
	char unused;
};

FIXTURE_SETUP(kernels)
{
	seed = 1;
	stop_flag = 0;
	simnpu_kernels_set_plain(true);
	simnpu_kernels_limit_isa(SIMNPU_ISA_AVX512);
}

FIXTURE_TEARDOWN(kernels)
{
	dev_free_all();
}

TEST_F(kernels, all_are_there)
{
	static const char *const names[] = {
		"matmul_f32", "bias_f32", "bias_relu_f32", "relu_f32", "softmax_f32", "argmax_f32",
		"relu_grad_f32", "softmax_xent_grad_f32", "scale_u8_f32", "colsum_f32", "sgd_f32",
		"inc_u64", "nop", "delay_ns",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		EXPECT_TRUE(find(names[i]) != NULL) TH_LOG("%s is missing", names[i]);
	}
}

/* ---- matmul_f32 ---- */

struct product {
	struct npu_simnpu_matmul_args args;
	float *a, *b, *c, *before;
	uint64_t mn;
};

static void product_make(struct product *p, uint32_t m, uint32_t n, uint32_t k, uint32_t flags)
{
	uint64_t mk = (uint64_t)m * k, kn = (uint64_t)k * n;

	p->mn = (uint64_t)m * n;
	p->args = (struct npu_simnpu_matmul_args){
		.m = m, .n = n, .k = k, .flags = flags,
		.a = dev_alloc(mk * 4, (void **)&p->a), .b = dev_alloc(kn * 4, (void **)&p->b),
		.c = dev_alloc(p->mn * 4, (void **)&p->c),
	};
	dev_alloc(p->mn * 4, (void **)&p->before);
	randomize(p->a, mk);
	randomize(p->b, kn);
	randomize(p->before, p->mn);
	memcpy(p->c, p->before, p->mn * 4);
}

/* The worst error, in units of what k roundings of the sum of magnitudes can make. */
static double product_error(const struct product *p)
{
	const struct npu_simnpu_matmul_args *g = &p->args;
	double worst = 0;

	for (uint32_t i = 0; i < g->m; i++) {
		for (uint32_t j = 0; j < g->n; j++) {
			uint64_t at = (uint64_t)i * g->n + j;
			double sum = 0, size = 0, err;

			if (g->flags & NPU_SIMNPU_ACCUMULATE) {
				sum = p->before[at];
				size = fabs(sum);
			}
			for (uint64_t k = 0; k < g->k; k++) {
				double x = p->a[g->flags & NPU_SIMNPU_TRANS_A ? k * g->m + i :
						i * (uint64_t)g->k + k];
				double y = p->b[g->flags & NPU_SIMNPU_TRANS_B ?
						j * (uint64_t)g->k + k : k * g->n + j];

				sum += x * y;
				size += fabs(x * y);
			}
			err = fabs(p->c[at] - sum) / ((g->k + 2) * (size + 1e-30) * 0x1p-24);
			if (!(err <= worst))
				worst = isnan(err) ? INFINITY : err;
		}
	}
	return worst;
}

static const uint32_t shapes[][3] = {
	{ 1, 1, 1 }, { 1, 10, 784 }, { 3, 1, 5 }, { 2, 33, 129 }, { 7, 31, 3 }, { 8, 32, 128 },
	{ 9, 65, 130 }, { 33, 17, 257 }, { 64, 16, 64 }, { 100, 10, 128 }, { 129, 47, 65 },
};

TEST_F(kernels, matmul_is_right_and_the_same_everywhere)
{
	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		for (uint32_t flags = 0; flags < 8; flags++) {
			const uint32_t *d = shapes[s];
			uint64_t first = 0;
			struct product p;

			product_make(&p, d[0], d[1], d[2], flags);
			FOR_ISAS(isa) {
				simnpu_kernels_limit_isa(isa);
				FOR_BLOCKS(b) {
					uint64_t sum;

					memcpy(p.c, p.before, p.mn * 4);
					ASSERT_EQ(0, RUN("matmul_f32", p.args, *b));
					sum = fnv1a(FNV_START, p.c, p.mn * 4);
					first = first ? first : sum;
					ASSERT_EQ(first, sum) {
						TH_LOG("%ux%ux%u flags %u isa %d blocks %u",
						       d[0], d[1], d[2], flags, isa, *b);
					}
				}
			}
			EXPECT_LE(product_error(&p), 1) {
				TH_LOG("%ux%ux%u flags %u", d[0], d[1], d[2], flags);
			}
			dev_free_all();
		}
	}
}

TEST_F(kernels, matmul_sums_run_along_k)
{
	/* 1e8 + 1 - 1e8 in this order is 0, in any other order not */
	struct product p;

	product_make(&p, 1, 1, 3, 0);
	p.a[0] = 1e8f;
	p.a[1] = 1;
	p.a[2] = -1e8f;
	p.b[0] = p.b[1] = p.b[2] = 1;
	FOR_ISAS(isa) {
		simnpu_kernels_limit_isa(isa);
		ASSERT_EQ(0, RUN("matmul_f32", p.args, 1));
		EXPECT_EQ(0, *p.c);
	}
}

TEST_F(kernels, matmul_does_not_contract)
{
	/* (1 + e)(1 - e) is 1 when rounded; a fused multiply-add would leave -e^2 */
	struct product p;

	product_make(&p, 1, 1, 2, 0);
	p.a[0] = -1;
	p.b[0] = 1;
	p.a[1] = 1 + 0x1p-13f;
	p.b[1] = 1 - 0x1p-13f;
	ASSERT_EQ(0, RUN("matmul_f32", p.args, 1));
	EXPECT_EQ(0, *p.c);
}

TEST_F(kernels, matmul_keeps_inf_and_nan_in_their_places)
{
	FOR_ISAS(isa) {
		struct product p;

		simnpu_kernels_limit_isa(isa);
		product_make(&p, 5, 37, 9, 0);
		p.a[2 * 9 + 3] = NAN;
		p.a[4 * 9 + 1] = INFINITY;
		p.b[1 * 37 + 36] = 1;
		ASSERT_EQ(0, RUN("matmul_f32", p.args, 2));
		for (int i = 0; i < 5; i++) {
			for (int j = 0; j < 37; j++) {
				EXPECT_EQ(i == 2, !!isnan(p.c[i * 37 + j]));
			}
		}
		EXPECT_EQ(INFINITY, p.c[4 * 37 + 36]);
		EXPECT_TRUE(isfinite(p.c[3 * 37]));
		p.a[2 * 9 + 3] = 0;
		p.a[0] = 3e38f;
		p.b[0] = 3e38f;
		ASSERT_EQ(0, RUN("matmul_f32", p.args, 1));
		EXPECT_EQ(INFINITY, p.c[0]);
		dev_free_all();
	}
}

TEST_F(kernels, matmul_overwrites_what_was_there_unless_told_to_add)
{
	struct product p;

	product_make(&p, 3, 40, 7, 0);
	for (uint64_t i = 0; i < p.mn; i++)
		p.c[i] = NAN;
	ASSERT_EQ(0, RUN("matmul_f32", p.args, 1));
	EXPECT_LE(product_error(&p), 1);
}

TEST_F(kernels, matmul_by_onednn_is_right)
{
	if (!IS_ENABLED(CONFIG_SIMNPU_ONEDNN))
		SKIP(return, "not configured");
#if IS_ENABLED(CONFIG_SIMNPU_ONEDNN)
	struct product p;

	product_make(&p, 1, 1, 1, 0);
	if (!simnpu_onednn_matmul(&p.args, p.a, p.b, p.c, 0, 1))
		SKIP(return, "%s is not installed", CONFIG_SIMNPU_ONEDNN_LIBRARY);
	dev_free_all();
	simnpu_kernels_set_plain(false);
	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		for (uint32_t flags = 0; flags < 8; flags++) {
			const uint32_t *d = shapes[s];

			for (uint32_t b = 1; b < 4; b += 2) {
				product_make(&p, d[0], d[1], d[2], flags);
				ASSERT_EQ(0, RUN("matmul_f32", p.args, b));
				EXPECT_LE(product_error(&p), 1) {
					TH_LOG("%ux%ux%u flags %u", d[0], d[1], d[2], flags);
				}
				dev_free_all();
			}
		}
	}
#endif
}

/* Two threads at the same time, as two cores do: first use of oneDNN included. */
static void *two_cores(void *arg)
{
	struct product *p = arg;

	return (void *)(uintptr_t)run_block(find("matmul_f32"), &p->args, sizeof(p->args), 1, 2);
}

TEST_F(kernels, blocks_run_side_by_side)
{
	struct product p;
	pthread_t thread;
	void *failed;

	simnpu_kernels_set_plain(false);
	product_make(&p, 200, 100, 60, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, two_cores, &p));
	EXPECT_EQ(0, run_block(find("matmul_f32"), &p.args, sizeof(p.args), 0, 2));
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
	EXPECT_LE(product_error(&p), 1);
}

/* ---- kernels on rows ---- */

struct table {
	struct npu_simnpu_rows_args args;
	float *x, *y, *z;
	uint64_t n;
};

static const uint32_t tables[][2] = {
	{ 1, 1 }, { 1, 17 }, { 3, 5 }, { 7, 16 }, { 10, 10 }, { 5, 33 }, { 2, 20000 }, { 130, 128 },
};

static void table_make(struct table *t, const uint32_t *dims)
{
	t->n = (uint64_t)dims[0] * dims[1];
	t->args = (struct npu_simnpu_rows_args){
		.x = dev_alloc(t->n * 4, (void **)&t->x), .y = dev_alloc(t->n * 4, (void **)&t->y),
		.z = dev_alloc(t->n * 4, (void **)&t->z), .rows = dims[0], .cols = dims[1],
	};
	randomize(t->x, t->n);
	randomize(t->y, t->n);
	randomize(t->z, t->n);
	if (t->n > 4) {
		t->x[0] = NAN;
		t->x[1] = INFINITY;
		t->x[2] = -INFINITY;
		t->x[3] = -0.0f;
		t->x[4] = 3e38f;
	}
}

/* Runs the kernel for all blocks and instruction sets on y (or z) and compares with want. */
#define CHECK_ROWS(name, t, result, want)						\
	do {										\
		uint64_t at_;								\
		FOR_ISAS(isa_) {							\
			simnpu_kernels_limit_isa(isa_);					\
			FOR_BLOCKS(b_) {						\
				for (uint64_t i = 0; i < (t).n; i++)			\
					(result)[i] = -7;				\
				ASSERT_EQ(0, RUN(name, (t).args, *b_));			\
				for (at_ = 0; at_ < (t).n; at_++)			\
					if (!(ulps((result)[at_], (want)[at_]) <= 0.5))	\
						break;					\
				ASSERT_EQ((t).n, at_) {					\
					TH_LOG(name " isa %d blocks %u: %g for %g", isa_, *b_, \
					       (double)(result)[at_], (want)[at_]);	\
				}							\
			}								\
		}									\
	} while (0)

static double relu_of(double x)
{
	return isnan(x) ? x : x > 0 ? x : 0;
}

TEST_F(kernels, bias_and_relu)
{
	for (size_t d = 0; d < ARRAY_SIZE(tables); d++) {
		uint32_t cols = tables[d][1];
		struct table t;
		double *want;

		table_make(&t, tables[d]);
		want = calloc(t.n, sizeof(*want));
		ASSERT_NE(NULL, want);

		for (uint64_t i = 0; i < t.n; i++)
			want[i] = (float)(t.x[i] + t.z[i % cols]);
		CHECK_ROWS("bias_f32", t, t.y, want);
		for (uint64_t i = 0; i < t.n; i++)
			want[i] = relu_of(want[i]);
		CHECK_ROWS("bias_relu_f32", t, t.y, want);

		t.args.z = 0;
		for (uint64_t i = 0; i < t.n; i++)
			want[i] = relu_of(t.x[i]);
		CHECK_ROWS("relu_f32", t, t.y, want);
		/* in place */
		t.args.y = t.args.x;
		ASSERT_EQ(0, RUN("relu_f32", t.args, 3));
		for (uint64_t i = 0; i < t.n; i++) {
			ASSERT_LE(ulps(t.x[i], want[i]), 0.5);
		}
		if (t.n > 4) {
			EXPECT_FALSE(signbit(t.x[3]));
		}
		free(want);
		dev_free_all();
	}
}

TEST_F(kernels, bias_in_place)
{
	static const uint32_t dims[] = { 9, 53 };
	struct table t;

	table_make(&t, dims);
	t.args.y = t.args.x;
	memcpy(t.y, t.x, t.n * 4);
	ASSERT_EQ(0, RUN("bias_f32", t.args, 2));
	for (uint64_t i = 5; i < t.n; i++) {
		ASSERT_EQ(t.y[i] + t.z[i % 53], t.x[i]);
	}
}

TEST_F(kernels, relu_grad)
{
	for (size_t d = 0; d < ARRAY_SIZE(tables); d++) {
		struct table t;
		double *want;

		table_make(&t, tables[d]);
		want = calloc(t.n, sizeof(*want));
		ASSERT_NE(NULL, want);
		for (uint64_t i = 0; i < t.n; i++)
			want[i] = t.x[i] > 0 ? t.y[i] : 0;
		CHECK_ROWS("relu_grad_f32", t, t.z, want);
		/* z may be y */
		t.args.z = t.args.y;
		ASSERT_EQ(0, RUN("relu_grad_f32", t.args, 7));
		for (uint64_t i = 0; i < t.n; i++) {
			ASSERT_EQ(want[i], t.y[i]);
		}
		free(want);
		dev_free_all();
	}
}

TEST_F(kernels, scale_u8)
{
	for (size_t d = 0; d < ARRAY_SIZE(tables); d++) {
		struct table t;
		uint8_t *u8;
		double *want;

		table_make(&t, tables[d]);
		t.args.z = 0;
		t.args.scale = 1.0f / 255;
		u8 = (uint8_t *)t.x;
		want = calloc(t.n, sizeof(*want));
		ASSERT_NE(NULL, want);
		for (uint64_t i = 0; i < t.n; i++) {
			u8[i] = (uint8_t)random_u32();
			want[i] = (float)u8[i] * t.args.scale;
		}
		u8[0] = 255;
		want[0] = 255 * t.args.scale;
		CHECK_ROWS("scale_u8_f32", t, t.y, want);
		/* pictures begin at any address */
		if (t.n > 1 && t.args.rows == 1) {
			t.args.x++;
			t.args.cols--;
			ASSERT_EQ(0, RUN("scale_u8_f32", t.args, 2));
			for (uint64_t i = 0; i + 1 < t.n; i++) {
				ASSERT_EQ((float)want[i + 1], t.y[i]);
			}
		}
		free(want);
		dev_free_all();
	}
}

TEST_F(kernels, xent_grad)
{
	for (size_t d = 0; d < ARRAY_SIZE(tables); d++) {
		uint32_t cols = tables[d][1], *labels;
		struct table t;
		double *want;

		table_make(&t, tables[d]);
		t.args.scale = 0.25f;
		labels = (uint32_t *)t.y;
		want = calloc(t.n, sizeof(*want));
		ASSERT_NE(NULL, want);
		/* a label that is no column is no error: no column is right then */
		for (uint32_t i = 0; i < t.args.rows; i++)
			labels[i] = i == 2 ? UINT32_MAX : random_u32() % cols;
		for (uint64_t i = 0; i < t.n; i++)
			want[i] = (float)(t.x[i] - (labels[i / cols] == i % cols)) * t.args.scale;
		CHECK_ROWS("softmax_xent_grad_f32", t, t.z, want);
		free(want);
		dev_free_all();
	}
}

TEST_F(kernels, colsum)
{
	for (size_t d = 0; d < ARRAY_SIZE(tables); d++) {
		uint32_t rows = tables[d][0], cols = tables[d][1];
		struct table t;
		double *want;

		table_make(&t, tables[d]);
		t.args.z = 0;
		want = calloc(t.n, sizeof(*want));
		ASSERT_NE(NULL, want);
		for (uint64_t i = 0; i < t.n; i++)
			want[i] = -7;
		for (uint32_t j = 0; j < cols; j++) {
			float s = 0;

			for (uint32_t i = 0; i < rows; i++)
				s += t.x[i * (uint64_t)cols + j];
			want[j] = s;
		}
		CHECK_ROWS("colsum_f32", t, t.y, want);
		free(want);
		dev_free_all();
	}
}

TEST_F(kernels, argmax)
{
	static const struct {
		float x[5];
		uint32_t want;
	} cases[] = {
		{ { 0, 1, 2, 3, 4 }, 4 }, { { 4, 3, 2, 1, 0 }, 0 }, { { 1, 5, 5, 1, 5 }, 1 },
		{ { NAN, 1, 2, NAN, 0 }, 2 }, { { NAN, NAN, NAN, NAN, NAN }, 0 },
		{ { -INFINITY, -1e38f, -2, -3, NAN }, 2 }, { { 0, INFINITY, 1, INFINITY, 0 }, 1 },
		{ { NAN, -INFINITY, -INFINITY, NAN, -INFINITY }, 1 }, { { -0.0f, 0, 0, 0, 0 }, 0 },
	};
	uint32_t n = ARRAY_SIZE(cases), *y;
	struct npu_simnpu_rows_args args = { .rows = n, .cols = 5 };
	float *x;

	args.x = dev_alloc(n * 5 * 4, (void **)&x);
	args.y = dev_alloc(n * 4, (void **)&y);
	for (uint32_t i = 0; i < n; i++)
		memcpy(x + i * 5, cases[i].x, sizeof(cases[i].x));
	FOR_BLOCKS(b) {
		memset(y, 0xff, n * 4);
		ASSERT_EQ(0, RUN("argmax_f32", args, *b));
		for (uint32_t i = 0; i < n; i++) {
			EXPECT_EQ(cases[i].want, y[i]) TH_LOG("case %u", i);
		}
	}
}

/* ---- exp and softmax ---- */

TEST_F(kernels, exp_is_accurate)
{
	uint64_t step = NPU_TEST_ASAN || NPU_TEST_TSAN ? 20011 : 997;
	double worst = 0;
	float at = 0;

	/* all signs and exponents, and a sample of mantissas, as the step is odd */
	for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
		uint32_t u = (uint32_t)bits;
		double err;
		float x;

		memcpy(&x, &u, sizeof(x));
		err = ulps(simnpu_expf(x), exp((double)x));
		if (err > worst) {
			worst = err;
			at = x;
		}
	}
	TH_LOG("worst: %.3f ulp at %a", worst, (double)at);
	EXPECT_LE(worst, 1);
	EXPECT_EQ(1, simnpu_expf(0));
	EXPECT_EQ(1, simnpu_expf(-0.0f));
	EXPECT_EQ(0, simnpu_expf(-INFINITY));
	EXPECT_EQ(INFINITY, simnpu_expf(INFINITY));
	EXPECT_TRUE(isnan(simnpu_expf(NAN)));
	EXPECT_EQ(INFINITY, simnpu_expf(88.73f));
	EXPECT_TRUE(isfinite(simnpu_expf(88.72f)));
	EXPECT_LT(0, simnpu_expf(-103.2f));
	EXPECT_EQ(0, simnpu_expf(-104));
}

TEST_F(kernels, softmax_is_right_and_the_same_everywhere)
{
	for (size_t d = 0; d < ARRAY_SIZE(tables); d++) {
		uint32_t rows = tables[d][0], cols = tables[d][1];
		uint64_t first = 0;
		struct table t;

		table_make(&t, tables[d]);
		for (uint64_t i = 0; i < t.n; i++)
			t.x[i] = random_f32() * 30;
		t.args.z = 0;
		FOR_ISAS(isa) {
			simnpu_kernels_limit_isa(isa);
			FOR_BLOCKS(b) {
				uint64_t sum;

				ASSERT_EQ(0, RUN("softmax_f32", t.args, *b));
				sum = fnv1a(FNV_START, t.y, t.n * 4);
				first = first ? first : sum;
				ASSERT_EQ(first, sum) TH_LOG("isa %d blocks %u", isa, *b);
			}
		}
		for (uint32_t i = 0; i < rows; i++) {
			const float *x = t.x + (uint64_t)i * cols, *y = t.y + (uint64_t)i * cols;
			double sum = 0, m = -INFINITY;

			for (uint32_t j = 0; j < cols; j++)
				m = x[j] > m ? x[j] : m;
			for (uint32_t j = 0; j < cols; j++)
				sum += exp(x[j] - m);
			for (uint32_t j = 0; j < cols; j++) {
				/* the difference to the largest is rounded before exp() sees it */
				double want = exp(x[j] - m) / sum;

				ASSERT_LE(fabs(y[j] - want), want * 0x1p-24 * (64 + 60) + 1e-44);
			}
		}
		/* in place */
		t.args.y = t.args.x;
		ASSERT_EQ(0, RUN("softmax_f32", t.args, 2));
		EXPECT_EQ(0, memcmp(t.x, t.y, t.n * 4));
		dev_free_all();
	}
}

TEST_F(kernels, softmax_of_extremes)
{
	static const uint32_t dims[] = { 6, 18 };
	struct table t;
	float *x, *y;

	table_make(&t, dims);
	t.args.z = 0;
	x = t.x;
	y = t.y;
	for (uint64_t i = 0; i < t.n; i++)
		x[i] = 0;
	for (int j = 0; j < 18; j++) {
		x[j] = j == 17 ? 3e38f : -3e38f;	/* row 0: one wins by far */
		x[18 + j] = -3e38f;			/* row 1: all the same */
		x[36 + j] = j < 2 ? 1 : -INFINITY;	/* row 2: masked */
	}
	x[3 * 18 + 4] = NAN;
	x[4 * 18 + 4] = INFINITY;
	FOR_ISAS(isa) {
		simnpu_kernels_limit_isa(isa);
		ASSERT_EQ(0, RUN("softmax_f32", t.args, 2));
		for (int j = 0; j < 18; j++) {
			EXPECT_EQ(j == 17, y[j]);
			EXPECT_EQ(1.0f / 18, y[18 + j]);
			EXPECT_EQ(j < 2 ? 0.5f : 0, y[36 + j]);
			EXPECT_TRUE(isnan(y[3 * 18 + j]));
			EXPECT_TRUE(isnan(y[4 * 18 + j]));
			EXPECT_EQ(1.0f / 18, y[5 * 18 + j]);
		}
	}
}

/* ---- sgd_f32 ---- */

TEST_F(kernels, sgd)
{
	static const uint64_t sizes[] = { 1, 15, 16, 17, 1000, 40000 };

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		uint64_t n = sizes[s], first = 0;
		struct npu_simnpu_sgd_args args = {
			.n = n, .rate = 0.1f, .momentum = 0.9f, .decay = 1e-4f,
		};
		float *w, *g, *v, *start;

		args.w = dev_alloc(n * 4, (void **)&w);
		args.g = dev_alloc(n * 4, (void **)&g);
		args.v = dev_alloc(n * 4, (void **)&v);
		dev_alloc(n * 8, (void **)&start);
		randomize(start, 2 * n);
		randomize(g, n);
		FOR_ISAS(isa) {
			simnpu_kernels_limit_isa(isa);
			FOR_BLOCKS(b) {
				uint64_t sum;

				memcpy(w, start, n * 4);
				memcpy(v, start + n, n * 4);
				ASSERT_EQ(0, RUN("sgd_f32", args, *b));
				sum = fnv1a(fnv1a(FNV_START, w, n * 4), v, n * 4);
				first = first ? first : sum;
				ASSERT_EQ(first, sum) TH_LOG("isa %d blocks %u", isa, *b);
			}
		}
		for (uint64_t i = 0; i < n; i++) {
			double want = 0.9f * (double)start[n + i] + g[i] +
				      1e-4f * (double)start[i];

			ASSERT_LE(fabs(v[i] - want), 0x1p-22);
			ASSERT_LE(fabs(w[i] - (start[i] - 0.1f * want)), 0x1p-22);
		}
		dev_free_all();
	}
}

/* ---- simple ones ---- */

TEST_F(kernels, inc_adds_once)
{
	uint64_t *word;
	struct npu_simnpu_inc_args args = { .by = 3 };

	args.addr = dev_alloc(16, (void **)&word) + 8;
	word[0] = 5;
	word[1] = UINT64_MAX;
	ASSERT_EQ(0, RUN("inc_u64", args, 7));
	EXPECT_EQ(5, word[0]);
	EXPECT_EQ(2, word[1]);
}

TEST_F(kernels, nop_takes_nothing)
{
	EXPECT_EQ(0, run("nop", NULL, 0, 5));
	EXPECT_EQ(5, run("nop", "x", 1, 5));
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

TEST_F(kernels, delay_lasts_and_can_be_stopped)
{
	struct npu_simnpu_delay_args args = { .ns = 2000000 };
	uint64_t start = now();

	ASSERT_EQ(0, RUN("delay_ns", args, 1));
	EXPECT_LE(2000000, now() - start);

	args.ns = UINT64_MAX;
	stop_flag = 1;
	EXPECT_EQ(0, RUN("delay_ns", args, 1));
}

/* ---- refusals ---- */

/* What a refused or stopped launch must not do: change a byte of the device. */
static uint64_t memory_sum(void)
{
	uint64_t h = FNV_START;

	for (int i = 0; i < alloc_nr; i++)
		h = fnv1a(h, allocs[i].host, allocs[i].size);
	return h;
}

#define EXPECT_REFUSED(name, args, size)						\
	do {										\
		uint64_t before_ = memory_sum();					\
		EXPECT_EQ(3, run(name, args, size, 3)) TH_LOG("%s", name);		\
		EXPECT_EQ(before_, memory_sum()) TH_LOG("%s", name);			\
	} while (0)

/* Breaks one thing and mends it. */
#define BREAK(name, args, member, value)						\
	do {										\
		__typeof__((args).member) was_ = (args).member;				\
		(args).member = (value);						\
		EXPECT_REFUSED(name, &(args), sizeof(args));				\
		(args).member = was_;							\
	} while (0)

TEST_F(kernels, matmul_refuses)
{
	struct product p;

	product_make(&p, 4, 4, 4, 0);
	EXPECT_REFUSED("matmul_f32", &p.args, sizeof(p.args) - 1);
	EXPECT_REFUSED("matmul_f32", &p.args, sizeof(p.args) + 1);
	EXPECT_REFUSED("matmul_f32", &p.args, 0);
	BREAK("matmul_f32", p.args, m, 0);
	BREAK("matmul_f32", p.args, n, 0);
	BREAK("matmul_f32", p.args, k, 0);
	BREAK("matmul_f32", p.args, flags, 8);
	BREAK("matmul_f32", p.args, flags, 1u << 31);
	BREAK("matmul_f32", p.args, m, 5);
	BREAK("matmul_f32", p.args, n, 5);
	BREAK("matmul_f32", p.args, k, 5);
	BREAK("matmul_f32", p.args, m, UINT32_MAX);
	BREAK("matmul_f32", p.args, a, p.args.a + 2);
	BREAK("matmul_f32", p.args, b, p.args.b + 4);
	BREAK("matmul_f32", p.args, c, 0);
	BREAK("matmul_f32", p.args, c, UINT64_MAX - 3);
	p.args.m = p.args.n = p.args.k = UINT32_MAX;
	EXPECT_REFUSED("matmul_f32", &p.args, sizeof(p.args));
}

TEST_F(kernels, kernels_on_rows_refuse)
{
	static const struct {
		const char *name;
		bool z, scale;
	} all[] = {
		{ "bias_f32", true, false }, { "bias_relu_f32", true, false },
		{ "relu_f32", false, false }, { "softmax_f32", false, false },
		{ "argmax_f32", false, false }, { "relu_grad_f32", true, false },
		{ "softmax_xent_grad_f32", true, true }, { "scale_u8_f32", false, true },
		{ "colsum_f32", false, false },
	};
	static const uint32_t dims[] = { 4, 4 };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const char *name = all[i].name;
		struct table t;
		uint64_t z;

		table_make(&t, dims);
		z = t.args.z;
		if (!all[i].z)
			t.args.z = 0;
		if (all[i].scale)
			t.args.scale = 2;
		EXPECT_REFUSED(name, &t.args, sizeof(t.args) - 4);
		EXPECT_REFUSED(name, &t.args, 0);
		BREAK(name, t.args, rows, 0);
		BREAK(name, t.args, cols, 0);
		BREAK(name, t.args, pad, 1);
		BREAK(name, t.args, rows, 17);
		BREAK(name, t.args, cols, 17);
		BREAK(name, t.args, rows, UINT32_MAX);
		BREAK(name, t.args, x, t.args.x + 49);
		BREAK(name, t.args, y, t.args.y + 2);
		BREAK(name, t.args, y, t.args.y + 64);
		BREAK(name, t.args, x, 0);
		if (all[i].z) {
			BREAK(name, t.args, z, t.args.z + 1);
		}
		else {
			BREAK(name, t.args, z, z);
		}
		if (!all[i].scale) {
			BREAK(name, t.args, scale, 1);
			BREAK(name, t.args, scale, NAN);
		}
		/* and it was right but for what was broken */
		EXPECT_EQ(0, RUN(name, t.args, 3)) TH_LOG("%s", name);
		dev_free_all();
	}
}

TEST_F(kernels, others_refuse)
{
	struct npu_simnpu_sgd_args sgd = { .n = 4, .rate = 1 };
	struct npu_simnpu_inc_args inc = { .by = 1 };
	struct npu_simnpu_delay_args delay = { .ns = 1 };
	void *host;

	sgd.w = dev_alloc(16, &host);
	memset(host, 0, 16);
	sgd.g = dev_alloc(16, &host);
	memset(host, 0, 16);
	sgd.v = dev_alloc(16, &host);
	memset(host, 0, 16);
	EXPECT_REFUSED("sgd_f32", &sgd, sizeof(sgd) - 8);
	BREAK("sgd_f32", sgd, n, 0);
	BREAK("sgd_f32", sgd, n, 5);
	BREAK("sgd_f32", sgd, n, UINT64_MAX / 4 + 2);
	BREAK("sgd_f32", sgd, n, UINT64_MAX);
	BREAK("sgd_f32", sgd, pad, 1);
	BREAK("sgd_f32", sgd, w, sgd.w + 1);
	BREAK("sgd_f32", sgd, g, sgd.g + 4);
	BREAK("sgd_f32", sgd, v, 0);

	inc.addr = sgd.w;
	EXPECT_REFUSED("inc_u64", &inc, 8);
	BREAK("inc_u64", inc, addr, sgd.w + 4);
	BREAK("inc_u64", inc, addr, sgd.w + 16);
	EXPECT_REFUSED("delay_ns", &delay, 4);
	EXPECT_REFUSED("delay_ns", &delay, 16);
}

TEST_F(kernels, a_stopped_launch_changes_nothing)
{
	struct npu_simnpu_rows_args rows;
	struct product p;
	uint64_t before;

	product_make(&p, 4, 4, 4, 0);
	rows = (struct npu_simnpu_rows_args){ .x = p.args.a, .y = p.args.c, .rows = 4, .cols = 4 };
	before = memory_sum();
	stop_flag = 1;
	EXPECT_EQ(0, RUN("matmul_f32", p.args, 2));
	EXPECT_EQ(0, RUN("relu_f32", rows, 2));
	EXPECT_EQ(0, RUN("softmax_f32", rows, 2));
	EXPECT_EQ(before, memory_sum());
}

/*
 * The bits themselves, over every kernel that computes: whoever built this, for
 * whatever machine, gets these. A change here means that weights trained before
 * no longer come out.
 */
TEST_F(kernels, results_are_those_of_everyone)
{
	static const uint32_t dims[] = { 67, 43 };
	struct npu_simnpu_sgd_args sgd = { .n = 43 * 67, .rate = 0.1f, .momentum = 0.9f,
					   .decay = 1e-3f };
	uint64_t h = FNV_START;
	struct product p;
	struct table t;

	for (uint32_t flags = 0; flags < 8; flags++) {
		product_make(&p, 67, 43, 131, flags);
		ASSERT_EQ(0, RUN("matmul_f32", p.args, 2));
		h = fnv1a(h, p.c, p.mn * 4);
		dev_free_all();
	}
	table_make(&t, dims);
	randomize(t.x, t.n);
	ASSERT_EQ(0, RUN("bias_relu_f32", t.args, 2));
	h = fnv1a(h, t.y, t.n * 4);
	sgd.w = t.args.x;
	sgd.g = t.args.y;
	sgd.v = t.args.z;
	ASSERT_EQ(0, RUN("sgd_f32", sgd, 2));
	h = fnv1a(h, t.x, t.n * 4);
	t.args.z = 0;
	for (uint64_t i = 0; i < t.n; i++)
		t.x[i] *= 20;
	ASSERT_EQ(0, RUN("softmax_f32", t.args, 2));
	h = fnv1a(h, t.y, t.n * 4);
	ASSERT_EQ(0, RUN("colsum_f32", t.args, 2));
	h = fnv1a(h, t.y, t.n * 4);
	EXPECT_EQ(10763983116547673568u, h);
}

TEST_HARNESS_MAIN
