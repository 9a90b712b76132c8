/* SPDX-License-Identifier: MIT */
/*
 * What is known to fail: {test, backend, capability, reason}. A test that is
 * listed and passes fails. The capability says which optional part of the contract
 * is missing. It is the one that the test itself says it is about; a test about
 * none, or about one that every working device must have, can't be excused, and
 * the suite refuses the entry.
 */
#ifndef SELFTESTS_HAL_XFAIL_H
#define SELFTESTS_HAL_XFAIL_H

#include <stdint.h>

#include "npu/types.h"

struct xfail {
	const char *test;	/* "fixture.test" */
	const char *backend;	/* as in backends.h */
	uint64_t cap;		/* NPU_CAP_* */
	const char *reason;
};

#define XFAIL_MANDATORY (NPU_CAP_STREAM | NPU_CAP_MEM | NPU_CAP_LAUNCH)

static const struct xfail xfails[] = {
	{ NULL, NULL, 0, NULL }
};

static inline const struct xfail *xfail_of(const struct xfail *list, const char *test,
					   const char *backend)
{
	for (; list->test; list++)
		if (!strcmp(list->test, test) && !strcmp(list->backend, backend))
			return list;
	return NULL;
}

/* Whether an entry may be in the list, for a test that is about these capabilities. */
static inline bool xfail_valid(const struct xfail *x, uint64_t about)
{
	return x->cap && x->cap == about && !(x->cap & XFAIL_MANDATORY) && x->reason &&
	       x->reason[0];
}

/*
 * What the verdict on a test becomes: whether it passes. *why: what to say of it,
 * or NULL.
 */
static inline bool xfail_verdict(const struct xfail *x, uint64_t about, bool passed,
				 const char **why)
{
	*why = NULL;
	if (!x)
		return passed;
	*why = !xfail_valid(x, about) ? "is in xfail.h without a right to" :
	       passed ? "passes, though xfail.h says that it does not" : x->reason;
	return xfail_valid(x, about) && !passed;
}

#endif /* SELFTESTS_HAL_XFAIL_H */
