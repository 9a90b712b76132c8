/* SPDX-License-Identifier: MIT */
/* How these programs deal with failures: say what failed, and pass the code up. */
#ifndef FAIL_H
#define FAIL_H

#include <stdio.h>

#include <npu/error.h>
#include <npu/option.h>

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

/*
 * On the simulator, have an address of the device that the host uses by mistake named before the
 * program dies of it; unless somebody decided otherwise. Elsewhere there is no such option.
 */
static inline void name_bad_addresses(void)
{
	char value[8];
	int origin;

	if (!npu_option_get("simnpu_fault_handler", value, sizeof(value), &origin) &&
	    origin == NPU_OPTION_DEFAULT)
		npu_option_set("simnpu_fault_handler", "1");
}

#endif /* FAIL_H */
