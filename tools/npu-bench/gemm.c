// SPDX-License-Identifier: MIT
/*
 * A product of matrices, 1024^3 in fp32, as a task.
 *
 * Limit: oneDNN's sgemm, called with as many threads as the device has cores.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "npu/simnpu_ops.h"
#include "tools/npu-bench/bench.h"

#define SIDE 1024u
#define BYTES ((size_t)SIDE * SIDE * sizeof(float))
#define REPS 4u

typedef int sgemm_fn(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
		     const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
		     float *c, int64_t ldc);

struct gemm {
	struct bench_dev d;
	npu_kernel matmul;
	uint32_t cores;
	unsigned int side;
	void *dev[3];
	float *bare[3];
	sgemm_fn *sgemm;
	void (*set_threads)(int n);
};

static double flops(const struct gemm *s, uint64_t ns)
{
	return 2.0 * s->side * s->side * s->side * REPS / (double)ns;
}

static int launch(struct gemm *s)
{
	struct npu_simnpu_matmul_args args = {
		.a = (uintptr_t)s->dev[0],
		.b = (uintptr_t)s->dev[1],
		.c = (uintptr_t)s->dev[2],
		.m = s->side,
		.n = s->side,
		.k = s->side,
	};

	/* two blocks a core: a core that comes late takes fewer */
	return npu_launch(s->matmul, 2 * s->cores, &args, sizeof(args), s->d.stream[0]);
}

static int ours(void *arg, double *value)
{
	struct gemm *s = arg;
	unsigned int i;
	uint64_t t;
	int err;

	err = launch(s);
	if (!err)
		err = bench_dev_sync(&s->d);
	t = bench_now();
	for (i = 0; i < REPS; i++)
		err |= launch(s);
	err |= bench_dev_sync(&s->d);
	*value = flops(s, bench_now() - t);
	return err;
}

static void product(struct gemm *s)
{
	s->sgemm('N', 'N', s->side, s->side, s->side, 1, s->bare[0], s->side, s->bare[1], s->side,
		 0, s->bare[2], s->side);
}

/**
 * struct bare - the limit's call, in a thread of its own
 * @s: the work
 * @value: out
 *
 * The number of threads of a team is the calling thread's; ours may have been set.
 */
struct bare {
	struct gemm *s;
	double value;
};

static void *bare_thread(void *arg)
{
	struct bare *x = arg;
	unsigned int i;
	uint64_t t;

	if (x->s->set_threads)
		x->s->set_threads((int)x->s->cores);
	product(x->s);
	t = bench_now();
	for (i = 0; i < REPS; i++)
		product(x->s);
	x->value = flops(x->s, bench_now() - t);
	return NULL;
}

static int limit(void *arg, double *value)
{
	struct bare x = { .s = arg };
	pthread_t thread;

	if (pthread_create(&thread, NULL, bare_thread, &x))
		return -EAGAIN;
	pthread_join(thread, NULL);
	*value = x.value;
	/* the team's other threads spin for a while */
	bench_sleep_us(200000);
	return 0;
}

static int compare_results(struct gemm *s)
{
	float *c = malloc(BYTES);
	double off, worst = 0;
	size_t i, n = (size_t)s->side * s->side;
	int err;

	if (!c)
		return -ENOMEM;
	err = npu_memcpy(c, s->dev[2], n * sizeof(float), NPU_COPY_D2H);
	for (i = 0; i < n && !err; i++) {
		off = (double)c[i] - (double)s->bare[2][i];
		if (off < 0)
			off = -off;
		if (off > worst)
			worst = off;
	}
	free(c);
	if (!err && worst > 1e-2) {
		fprintf(stderr, "npu-bench: gemm: results differ by %g\n", worst);
		err = -EIO;
	}
	return err;
}

static int setup(struct gemm *s)
{
	struct npu_device_info info = { .size = sizeof(info) };
	unsigned int i, k;
	int err;

	err = npu_device_get_info(0, &info);
	s->cores = info.cores < bench_cores() ? info.cores : bench_cores();
	if (!err)
		err = npu_kernel_get(NPU_MODULE_BUILTIN, "matmul_f32", &s->matmul);
	for (i = 0; i < 3 && !err; i++) {
		s->bare[i] = bench_memory(BYTES);
		if (!s->bare[i])
			return -ENOMEM;
		for (k = 0; k < SIDE * SIDE; k++)
			s->bare[i][k] = (float)(k % (7 - i)) * 0.1f;
		err = npu_malloc(BYTES, 0, &s->dev[i]);
		if (!err)
			err = npu_memcpy(s->dev[i], s->bare[i], BYTES, NPU_COPY_H2D);
	}
	return err;
}

static int measure(struct bench *b, struct gemm *s)
{
	struct bench_figure f = {
		"gemm", "1024-f32", "GFLOP/s", false, ours, limit, s, { .least = 0.95 },
	};
	double value;
	int err;

	err = bench_measure(b, &f);
	if (!err)
		err = ours(s, &value);
	if (!err)
		err = limit(s, &value);
	return err ? err : compare_results(s);
}

static int run(struct bench *b)
{
	void *lib = IS_ENABLED(CONFIG_SHARED) ? dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL) :
						NULL;
	struct gemm s = { .side = b->quick ? 128 : SIDE };
	unsigned int i;
	int err;

	if (!lib) {
		fprintf(stderr, "npu-bench: gemm: left out: no libdnnl.so.2 to compare with\n");
		return 0;
	}
	*(void **)&s.sgemm = dlsym(lib, "dnnl_sgemm");
	*(void **)&s.set_threads = dlsym(lib, "omp_set_num_threads");
	if (!s.sgemm)
		return bench_fail("gemm", "dnnl_sgemm", -ENOSYS);
	err = bench_dev_open(&s.d, 1, "gemm");
	if (err)
		return err;
	err = setup(&s);
	if (err)
		bench_fail("gemm", "set-up", err);
	else
		err = measure(b, &s);
	for (i = 0; i < 3; i++)
		bench_memory_free(s.bare[i], BYTES);
	return bench_dev_close(&s.d, "gemm") ? -EIO : err;
}

const struct bench_case bench_gemm = {
	"gemm", "1024^3 matrix product as a task", run,
};
