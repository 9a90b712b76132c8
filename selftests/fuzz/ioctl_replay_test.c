// SPDX-License-Identifier: GPL-2.0-only
/* What was found of the ioctl boundary, and bytes from a generator: replay.h. */
#define CORPUS "ioctl"
#define CORPUS_LEAST 20

#include "selftests/fuzz/replay.h"

TEST_HARNESS_MAIN
