// SPDX-License-Identifier: GPL-2.0-only
/* What was found of containers of weights, and bytes from a generator: replay.h. */
#define CORPUS "weights"
#define CORPUS_LEAST 20

#include "selftests/fuzz/replay.h"

TEST_HARNESS_MAIN
