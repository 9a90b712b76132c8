// SPDX-License-Identifier: MIT
/*
 * Memory from one process to another: a key is made, the other imports it, reads
 * the first byte, and says so.
 *
 * Limit: a descriptor of memory of the same size, sent over a socket that is
 * connected already, mapped by the other, who reads the first byte and says so.
 *
 * Both processes look at the socket all the time: waking each other up, which takes longer than all
 * the rest, is theirs and not what is measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/npu-bench/bench.h"
#include "tools/npu-bench/child.h"

#define SIZE ((size_t)1 << 20)
#define TIMES 200u
#define BYTE 0x5a

extern char **environ;

/* To the other process; an empty key: a descriptor comes with it. */
struct order {
	char key[NPU_IPC_KEY_SIZE];
};

struct ipc {
	struct bench_dev d;
	unsigned int times;
	void *mem;
	int memfd;
	int sock;
	pid_t pid;
};

/* As recvmsg(2), without sleeping. */
static ssize_t look(int sock, struct msghdr *msg)
{
	ssize_t n;

	do
		n = recvmsg(sock, msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && (errno == EAGAIN || errno == EINTR));
	return n;
}

/* ---- the other process --------------------------------------------------------- */

static int first_byte_ours(const char *key)
{
	unsigned char byte = 0;
	void *p;

	/* the one before is given back while nobody waits for it */
	static void *last;

	npu_ipc_close(last);
	last = NULL;
	if (npu_ipc_import(key, 0, &p) || npu_memcpy(&byte, p, 1, NPU_COPY_D2H))
		return -1;
	last = p;
	return byte;
}

static int first_byte_bare(int fd)
{
	static void *last = MAP_FAILED;

	if (last != MAP_FAILED)
		munmap(last, SIZE);
	last = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return last == MAP_FAILED ? -1 : *(volatile unsigned char *)last;
}

/* The whole life of that process: what comes in by descriptor 0 is done. */
int bench_ipc_child(void)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} anc;
	struct order o;
	struct iovec iov = { &o, sizeof(o) };
	struct msghdr msg;
	int fd, byte;

	for (;;) {
		msg = (struct msghdr){
			.msg_iov = &iov, .msg_iovlen = 1, .msg_control = anc.buf,
			.msg_controllen = sizeof(anc.buf),
		};
		if (look(0, &msg) != sizeof(o))
			return npu_finalize(5000) ? 1 : 0;
		if (o.key[0]) {
			byte = first_byte_ours(o.key);
		} else {
			memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
			byte = first_byte_bare(fd);
		}
		if (send(0, &byte, sizeof(byte), 0) != sizeof(byte))
			return 1;
	}
}

/* ---- this one -------------------------------------------------------------------- */

static int answer(const struct ipc *s)
{
	int byte;
	struct iovec iov = { &byte, sizeof(byte) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (look(s->sock, &msg) != sizeof(byte))
		return -EPIPE;
	return byte == BYTE ? 0 : -EIO;
}

static int ours(void *arg, double *value)
{
	struct ipc *s = arg;
	struct order o;
	unsigned int i;
	uint64_t t, ns = 0;
	int err = 0;

	for (i = 0; i < s->times && !err; i++) {
		err = npu_malloc(SIZE, 0, &s->mem);
		if (err)
			break;
		err = npu_memset(s->mem, BYTE, 1);
		t = bench_now();
		if (!err)
			err = npu_ipc_export(s->mem, NPU_IPC_ANY, o.key);
		if (!err && send(s->sock, &o, sizeof(o), 0) != sizeof(o))
			err = -EPIPE;
		if (!err)
			err = answer(s);
		ns += bench_now() - t;
		npu_free(s->mem);
	}
	*value = (double)ns / s->times / 1000;
	return err;
}

static int send_fd(const struct ipc *s, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} anc = { { 0 } };
	struct order o = { { 0 } };
	struct iovec iov = { &o, sizeof(o) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = anc.buf,
		.msg_controllen = sizeof(anc.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(s->sock, &msg, 0) == sizeof(o) ? 0 : -EPIPE;
}

static int limit(void *arg, double *value)
{
	const unsigned char byte = BYTE;
	struct ipc *s = arg;
	unsigned int i;
	uint64_t t, ns = 0;
	int fd, err = 0;

	for (i = 0; i < s->times && !err; i++) {
		fd = memfd_create("npu-bench", MFD_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (fallocate(fd, 0, 0, (off_t)SIZE) || pwrite(fd, &byte, 1, 0) != 1)
			err = -errno;
		t = bench_now();
		if (!err)
			err = send_fd(s, fd);
		if (!err)
			err = answer(s);
		ns += bench_now() - t;
		close(fd);
	}
	*value = (double)ns / s->times / 1000;
	return err;
}

static int start(const struct bench *b, struct ipc *s)
{
	char *argv[] = { (char *)b->self, CHILD_IPC, NULL };
	posix_spawn_file_actions_t fa;
	int fd[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		return -errno;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd[1], STDIN_FILENO);
	err = -posix_spawn(&s->pid, b->self, &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(fd[1]);
	s->sock = fd[0];
	return err;
}

static int stop(struct ipc *s)
{
	int status;

	close(s->sock);
	if (waitpid(s->pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		return -EIO;
	return 0;
}

static int measure(struct bench *b, struct ipc *s)
{
	const struct bench_figure f = {
		"ipc", "first-byte", "us", false, ours, limit, s, { .most = 100 },
	};
	int err = start(b, s), end;

	if (err)
		return bench_fail(f.name, "the other process", err);
	err = bench_measure(b, &f);
	end = stop(s);
	return err ? err : end;
}

static int run(struct bench *b)
{
	struct npu_device_info info = { .size = sizeof(info) };
	struct ipc s = { .times = b->quick ? 5 : TIMES };
	int err;

	/* one name: what is left is one file, whatever ran before */
	setenv("NPU_SIMNPU_INSTANCE", "npu-bench", 1);
	err = bench_dev_open(&s.d, 1, "ipc");
	if (!err) {
		err = npu_device_get_info(0, &info);
		if (!err && !(info.caps & NPU_CAP_IPC_MEM))
			fprintf(stderr, "ipc: left out: the device shares no memory\n");
		else if (!err)
			err = measure(b, &s);
		if (bench_dev_close(&s.d, "ipc"))
			err = -EIO;
	}
	unsetenv("NPU_SIMNPU_INSTANCE");
	return err;
}

const struct bench_case bench_ipc = {
	"ipc", "memory from one process to another, until it has read a byte", run,
};
