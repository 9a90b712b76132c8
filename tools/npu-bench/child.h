/* SPDX-License-Identifier: MIT */
/* Parts of the case init that need a process of their own. */
#ifndef TOOLS_NPU_BENCH_CHILD_H
#define TOOLS_NPU_BENCH_CHILD_H

/* What the only argument of such a process starts with. */
#define CHILD_PREFIX "--child-"

/* Measures, prints numbers and returns the exit status. */
int bench_child(const char *what);

#endif /* TOOLS_NPU_BENCH_CHILD_H */
