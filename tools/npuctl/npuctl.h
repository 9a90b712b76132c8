/* SPDX-License-Identifier: MIT */
/*
 * npuctl: a file a subcommand.
 */
#ifndef TOOLS_NPUCTL_NPUCTL_H
#define TOOLS_NPUCTL_NPUCTL_H

/* Each gets the words behind its name, and returns the exit status. */
int cmd_explain(int argc, char **argv);
int cmd_fault(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_options(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_weights(int argc, char **argv);

/* Says why the library's last call failed; returns 1. */
int failed(const char *what);
/* Says how the subcommand is used; returns 2. */
int usage(const char *text);

#endif /* TOOLS_NPUCTL_NPUCTL_H */
