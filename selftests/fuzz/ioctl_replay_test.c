// SPDX-License-Identifier: GPL-2.0-only
/*
 * The corpus of ioctl_fuzz.c, replayed; and as many inputs from a generator. One that
 * crashes, hangs or leaves something behind fails the test.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "selftests/npu_kselftest.h"

#include "selftests/fuzz/fuzz.h"

#define CORPUS TEST_SRCTREE "/selftests/fuzz/corpus/ioctl"
#define INPUT_MAX 65536
#define GENERATED 300

static uint8_t input[INPUT_MAX];

static bool replay(const char *name)
{
	char path[512];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), CORPUS "/%s", name);
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

	d = opendir(CORPUS);
	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		EXPECT_TRUE(replay(e->d_name)) TH_LOG("%s", e->d_name);
		n++;
	}
	closedir(d);
	EXPECT_LE(20, n);
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

TEST_HARNESS_MAIN
