/* SPDX-License-Identifier: MIT */
/*
 * The input of a fuzz target, taken from its front; zeros behind its end.
 */
#ifndef SELFTESTS_FUZZ_FUZZ_H
#define SELFTESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_in {
	const uint8_t *p;
	size_t left;
};

static inline void fuzz_bytes(struct fuzz_in *in, void *to, size_t size)
{
	size_t n = size < in->left ? size : in->left;

	memset(to, 0, size);
	memcpy(to, in->p, n);
	in->p += n;
	in->left -= n;
}

static inline uint8_t fuzz_u8(struct fuzz_in *in)
{
	uint8_t v;

	fuzz_bytes(in, &v, sizeof(v));
	return v;
}

static inline uint16_t fuzz_u16(struct fuzz_in *in)
{
	uint16_t v;

	fuzz_bytes(in, &v, sizeof(v));
	return v;
}

static inline uint64_t fuzz_u64(struct fuzz_in *in)
{
	uint64_t v;

	fuzz_bytes(in, &v, sizeof(v));
	return v;
}

/* What libFuzzer calls, and the replay. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* SELFTESTS_FUZZ_FUZZ_H */
