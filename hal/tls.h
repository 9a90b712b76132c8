/* SPDX-License-Identifier: MIT */
/*
 * Thread-local state: one pointer to a block that is made at first need and
 * freed when the thread ends.
 */
#ifndef HAL_TLS_H
#define HAL_TLS_H

#include "hal/base.h"
#include "hal/error.h"

struct hal_report;

/**
 * struct hal_tls - what a thread carries
 * @error: its error record; code 0: none
 * @fills: how often the record was filled
 * @tag: number of the tag it submits under
 * @callback_depth: callbacks that it is inside of
 * @report: failures that its last wait reported, or NULL
 * @report_joins: hal_report_join() that were not undone
 * @runtime: the runtime's; see hal_tls_set_free()
 * @pooled: the block is not from the heap
 */
struct hal_tls {
	struct hal_error error;
	uint32_t fills;
	uint32_t tag;
	uint32_t callback_depth;
	struct hal_report *report;
	uint32_t report_joins;
	void *runtime;
	bool pooled;
};

extern __thread struct hal_tls *hal_tls_ptr;

struct hal_tls *hal_tls_make(void);

/* The thread's block, or NULL when it has none yet. */
static inline struct hal_tls *hal_tls_peek(void)
{
	return hal_tls_ptr;
}

/*
 * The thread's block, made if it has none. Without memory a few threads share
 * out a reserve; when that is used up, too: NULL.
 */
static inline struct hal_tls *hal_tls(void)
{
	struct hal_tls *t = hal_tls_ptr;

	return likely(t) ? t : hal_tls_make();
}

/* Called with hal_tls.runtime, when that is not NULL, as a thread ends. */
void hal_tls_set_free(void (*fn)(void *runtime));

#endif /* HAL_TLS_H */
