/* SPDX-License-Identifier: MIT */
/* Parts of cases that need a process of their own. */
#ifndef TOOLS_NPU_BENCH_CHILD_H
#define TOOLS_NPU_BENCH_CHILD_H

/* What the only argument of such a process starts with. */
#define CHILD_PREFIX "--child-"
/* The other process of the case ipc. */
#define CHILD_IPC CHILD_PREFIX "ipc"

/* Measures, prints numbers and returns the exit status. */
int bench_child(const char *what);
int bench_ipc_child(void);

#endif /* TOOLS_NPU_BENCH_CHILD_H */
