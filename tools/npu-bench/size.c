// SPDX-License-Identifier: MIT
/*
 * Size: the shared library, and a static program when one is named, stripped.
 * There is no loop to compare with: the limit is what is allowed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/npu-bench/bench.h"

extern char **environ;

/* Bytes of a file once stripped. */
static int stripped(const char *path, double *kib)
{
	char copy[] = P_tmpdir "/npu-bench.XXXXXX";
	char *argv[] = { "strip", "-o", copy, (char *)path, NULL };
	int fd, status, err = 0;
	struct stat st;
	pid_t pid;

	fd = mkstemp(copy);
	if (fd < 0)
		return -errno;
	close(fd);
	if (posix_spawnp(&pid, "strip", NULL, NULL, argv, environ) ||
	    waitpid(pid, &status, 0) < 0 || status || stat(copy, &st))
		err = -ENOEXEC;
	else
		*kib = (double)st.st_size / 1024;
	unlink(copy);
	return err;
}

static int weigh(struct bench *b, const char *variant, const char *path, double most)
{
	struct bench_figure f = {
		.name = "size", .variant = variant, .unit = "KiB", .target = { .most = most },
	};
	double kib;
	int err;

	err = stripped(path, &kib);
	if (err) {
		fprintf(stderr, "npu-bench: size: %s: cannot be stripped\n", path);
		return err;
	}
	bench_report(b, &f, &kib, &most, 1);
	return 0;
}

static int run(struct bench *b)
{
	char path[PATH_MAX] = "";
	Dl_info info = { 0 };
	int err = 0;

	if (IS_ENABLED(CONFIG_SHARED) && dladdr((void *)(uintptr_t)npu_init, &info) &&
	    info.dli_fname && realpath(info.dli_fname, path) && strcmp(path, b->self))
		err = weigh(b, "libnpu.so", path, 300);
	if (!err && b->appliance)
		err = weigh(b, "appliance", b->appliance, 1536);
	return err;
}

const struct bench_case bench_size = {
	"size", "the library stripped; a static program by --appliance", run,
};
