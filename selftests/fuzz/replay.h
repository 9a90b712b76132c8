/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The corpus of a fuzz target, replayed; and inputs from a generator. One that crashes, hangs or
 * leaves something behind fails the test. Included once by a test, which says what CORPUS is
 * called, and how many it has at least.
 */
#ifndef SELFTESTS_FUZZ_REPLAY_H
#define SELFTESTS_FUZZ_REPLAY_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "selftests/npu_kselftest.h"

#include "selftests/fuzz/fuzz.h"

#define CORPUS_PATH TEST_SRCTREE "/selftests/fuzz/corpus/" CORPUS
#define INPUT_MAX 65536
#define GENERATED 300

static uint8_t input[INPUT_MAX];

static bool replay(const char *name)
{
	char path[512];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), CORPUS_PATH "/%s", name);
	f = fopen(path, "rb");
	if (!f)
		return false;
	n = fread(input, 1, sizeof(input), f);
	fclose(f);
	/* a crash shows by its name */
	snprintf(path, sizeof(path), "%s", name);
	LLVMFuzzerTestOneInput(input, n);
	return true;
}

TEST(corpus)
{
	struct dirent *e;
	int n = 0;
	DIR *d;

	d = opendir(CORPUS_PATH);
	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		EXPECT_TRUE(replay(e->d_name)) TH_LOG("%s", e->d_name);
		n++;
	}
	closedir(d);
	EXPECT_LE(CORPUS_LEAST, n);
	TH_LOG("%d inputs", n);
}

TEST(generated)
{
	uint64_t x = 88172645463325252ull;
	size_t i, k, n;

	for (i = 0; i < GENERATED / npu_test_slower(); i++) {
		n = 64 + i * 7 % 2000;
		for (k = 0; k < n; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			input[k] = (uint8_t)(x >> 24);
		}
		LLVMFuzzerTestOneInput(input, n);
	}
}

#endif /* SELFTESTS_FUZZ_REPLAY_H */
