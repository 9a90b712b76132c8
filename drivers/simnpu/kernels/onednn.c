// SPDX-License-Identifier: MIT
/*
 * oneDNN, opened when it is first wanted and never linked.
 *
 * It runs its own threads through OpenMP, and would put as many on the machine
 * for each core of the device. So the calling thread is limited to one thread
 * for the time of a call; that setting is OpenMP's per thread, and restored,
 * since the thread may be the program's own that waits for the task.
 */
#include <pthread.h>

#include "drivers/simnpu/kernels/kernels.h"
#include "hal/log.h"
#include "hal/sys.h"

/* Row-major, as BLAS otherwise; returns 0 when done. (oneapi/dnnl/dnnl.h) */
typedef int sgemm_fn(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
		     const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
		     float *c, int64_t ldc);

/* X(type, name): the functions that are needed */
#define SYMBOLS(X)				\
	X(sgemm_fn, dnnl_sgemm)			\
	X(int (void), omp_get_max_threads)	\
	X(void (int), omp_set_num_threads)

#define MEMBER(type, name) __typeof__(type) *name;
static struct {
	SYMBOLS(MEMBER)
	bool usable;
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool resolve(void *handle, const char *name, void *fn)
{
	if (!hal_sys_dlsym(handle, name, fn))
		return true;
	hal_info(HAL_LOG_MODEL, "%s has no %s: plain matrix products", CONFIG_SIMNPU_ONEDNN_LIBRARY,
		 name);
	return false;
}

static void load(void)
{
	void *handle;

	if (hal_sys_dlopen(CONFIG_SIMNPU_ONEDNN_LIBRARY, &handle)) {
		hal_info(HAL_LOG_MODEL, "no %s: plain matrix products",
			 CONFIG_SIMNPU_ONEDNN_LIBRARY);
		return;
	}
#define RESOLVE(type, name) && resolve(handle, #name, &lib.name)
	lib.usable = true SYMBOLS(RESOLVE);
	if (!lib.usable)
		hal_sys_dlclose(handle);
}

bool simnpu_onednn_matmul(const struct npu_simnpu_matmul_args *p, const float *a, const float *b,
			  float *c, uint64_t lo, uint64_t hi)
{
	bool trans_a = p->flags & NPU_SIMNPU_TRANS_A;
	bool trans_b = p->flags & NPU_SIMNPU_TRANS_B;
	int threads, rc;

	pthread_once(&once, load);
	if (!lib.usable)
		return false;
	threads = lib.omp_get_max_threads();
	if (threads != 1)
		lib.omp_set_num_threads(1);
	rc = lib.dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', (int64_t)(hi - lo), p->n,
			    p->k, 1.0f, trans_a ? a + lo : a + lo * p->k, trans_a ? p->m : p->k,
			    b, trans_b ? p->k : p->n,
			    p->flags & NPU_SIMNPU_ACCUMULATE ? 1.0f : 0.0f, c + lo * p->n, p->n);
	if (threads != 1)
		lib.omp_set_num_threads(threads);
	return rc == 0;
}
