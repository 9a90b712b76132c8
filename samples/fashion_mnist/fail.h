/* SPDX-License-Identifier: MIT */
/* How these programs deal with failures: say what failed, and pass the code up. */
#ifndef FAIL_H
#define FAIL_H

#include <stdio.h>

#include <npu/error.h>

/* Leaves the calling function with the code when a call of the library fails. */
#define TRY(call)							\
	do {								\
		int rc_ = (call);					\
									\
		if (rc_ < 0)						\
			return fail_npu(#call, rc_);			\
	} while (0)

static inline int fail_npu(const char *call, int rc)
{
	struct npu_error e = { .size = sizeof(e) };

	npu_last_error(&e);
	fprintf(stderr, "%s: %s: %s\n", call, npu_error_name(rc), e.text);
	return rc;
}

#endif /* FAIL_H */
