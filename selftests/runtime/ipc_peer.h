/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Other processes that do as they are told, for tests of what processes share.
 */
#ifndef SELFTESTS_RUNTIME_IPC_PEER_H
#define SELFTESTS_RUNTIME_IPC_PEER_H

#include "selftests/npu_kselftest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"

#define MIB ((size_t)1 << 20)

/* ---- another process that does as it is told ---- */

enum todo {
	MALLOC, FREE, FILL, CHECK, EXPORT, ALLOW, IMPORT, CLOSE, DELAY, FRACTION, BLOCK, END,
	/* of its event, and of its stream, which HOLD holds until OPEN */
	EVENT, EVENT_ALLOW, EVENT_IMPORT, EVENT_EXPORT_FD, EVENT_IMPORT_FD,
	DESTROY, RECORD, QUERY, SYNC, WAIT,
	HOLD, OPEN, FAIL, ABORT, STREAM_QUERY, STREAM_SYNC,
	/* memory without an address, by a descriptor */
	VM_CREATE, VM_EXPORT, VM_IMPORT, VM_DESTROY,
	/* so many streams, or timed events, more */
	STREAMS, EVENTS,
};

struct order {
	enum todo todo;
	uint64_t n;
	char key[NPU_IPC_KEY_SIZE];
};

struct reply {
	int rc;
	char text[256];
	char key[NPU_IPC_KEY_SIZE];
};

/* Descriptors between them. */
static int fd_send(int socket, int fd)
{
	union { char buf[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u = { .buf = "" };
	struct iovec io = { "", 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(socket, &m, 0) == 1 ? 0 : -EPIPE;
}

static int fd_take(int socket)
{
	union { char buf[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u;
	char byte;
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	int fd = -1;

	if (recvmsg(socket, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

struct peer {
	pid_t pid;
	int fd;
	int fds;	/* where descriptors go */
	struct reply r;
};

/* Whether so much of a pointer's memory has that byte. */
static int check(const void *p, size_t size, int byte)
{
	unsigned char *host = malloc(size);
	size_t i;
	int rc;

	rc = npu_memcpy(host, p, size, NPU_COPY_D2H);
	for (i = 0; i < size && !rc; i++)
		rc = host[i] == byte ? 0 : -EILSEQ;
	free(host);
	return rc;
}

static void *mine[8];
static unsigned int mines;

static npu_event event;
static npu_stream stream;
static struct gate gate;
static int fd_socket;

static int obey_event_fd(const struct order *o)
{
	int fd, rc;

	if (o->todo == EVENT_IMPORT_FD) {
		fd = fd_take(fd_socket);
		rc = npu_ipc_import_event_fd(fd, (int)o->n, &event);
	} else {
		rc = npu_ipc_export_event_fd(event, &fd);
		if (!rc)
			rc = fd_send(fd_socket, fd);
	}
	close(fd);
	return rc;
}

static int obey_event(const struct order *o, struct reply *r)
{
	int32_t pid = (int32_t)o->n;
	int rc = stream.h ? 0 : npu_stream_create(NULL, &stream);

	if (rc)
		return rc;
	switch (o->todo) {
	case EVENT:
		rc = npu_event_create(NPU_EVENT_IPC, &event);
		return rc ? rc : npu_ipc_export_event(event, (uint32_t)o->n, r->key);
	case EVENT_ALLOW:
		return npu_ipc_allow_event(event, &pid, 1);
	case EVENT_IMPORT:
		return npu_ipc_import_event(o->key, (int)o->n, &event);
	case EVENT_EXPORT_FD:
	case EVENT_IMPORT_FD:
		return obey_event_fd(o);
	case DESTROY:
		return npu_event_destroy(event);
	case RECORD:
		return npu_event_record(event, stream);
	case QUERY:
		return npu_event_query(event);
	case SYNC:
		return npu_event_sync(event, (int64_t)o->n);
	case WAIT:
		return npu_stream_wait_event(stream, event);
	case HOLD:
		/* the one before is through with it */
		if (atomic_load(&gate.entered) && !seen(&gate.left))
			return -ETIMEDOUT;
		atomic_store(&gate.entered, 0);
		atomic_store(&gate.open, 0);
		atomic_store(&gate.left, 0);
		rc = npu_stream_callback(stream, gate_hold, &gate, 0);
		return rc ? rc : seen(&gate.entered) ? 0 : -ETIMEDOUT;
	case OPEN:
		atomic_store(&gate.open, 1);
		return 0;
	case FAIL:
		return failing_task(stream);
	case ABORT:
		return npu_stream_abort(stream, 5000);
	case STREAM_QUERY:
		return npu_stream_query(stream);
	default:
		return npu_stream_sync(stream, (int64_t)o->n);
	}
}

static npu_vm_memory vm;

static int obey_vm(const struct order *o)
{
	int fd, rc;

	switch (o->todo) {
	case VM_CREATE:
		return npu_vm_create(0, o->n, 0, &vm);
	case VM_EXPORT:
		rc = npu_vm_export(vm, &fd);
		if (!rc)
			rc = fd_send(fd_socket, fd);
		close(fd);
		return rc;
	case VM_IMPORT:
		fd = fd_take(fd_socket);
		rc = npu_vm_import(fd, 0, &vm, NULL);
		close(fd);
		return rc;
	default:
		return npu_vm_destroy(vm);
	}
}

static int obey_many(const struct order *o)
{
	npu_stream s = { 0 };
	npu_event e;
	uint64_t i;
	int rc = 0;

	if (o->todo == EVENTS)
		rc = npu_stream_create(NULL, &s);
	for (i = 0; i < o->n && !rc; i++) {
		if (o->todo == STREAMS)
			rc = npu_stream_create(NULL, &s);
		else
			rc = npu_event_create(NPU_EVENT_TIMING, &e);
		if (!rc && o->todo == EVENTS)
			rc = npu_event_record(e, s);
	}
	return rc;
}

static int obey(const struct order *o, struct reply *r)
{
	void *p = mines ? mine[mines - 1] : NULL;
	int32_t pid = (int32_t)o->n;
	int rc;

	switch (o->todo) {
	case MALLOC:
		rc = npu_malloc(o->n, 0, &mine[mines]);
		break;
	case IMPORT:
		rc = npu_ipc_import(o->key, (int)o->n, &mine[mines]);
		break;
	case FREE:
		mines--;
		return npu_free(p);
	case CLOSE:
		mines--;
		return npu_ipc_close(p);
	case FILL:
		return npu_memset(p, (int)o->n, 4096);
	case CHECK:
		return check(p, 4096, (int)o->n);
	case EXPORT:
		return npu_ipc_export(p, (uint32_t)o->n, r->key);
	case ALLOW:
		return npu_ipc_allow(p, &pid, 1);
	case FRACTION:
		return npu_mem_set_fraction(0, (double)o->n / 100);
	case BLOCK:
		return npu_mem_alloc(o->n, (npu_stream){ 0 }, &p);
	case DELAY:
		return delay(((npu_stream){ 0 }), o->n);
	case END:
		return npu_finalize(5000);
	case VM_CREATE:
	case VM_EXPORT:
	case VM_IMPORT:
	case VM_DESTROY:
		return obey_vm(o);
	case STREAMS:
	case EVENTS:
		return obey_many(o);
	default:
		return obey_event(o, r);
	}
	mines += !rc;
	return rc;
}

static void serve(int fd)
{
	struct order o;
	struct reply r;

	while (read(fd, &o, sizeof(o)) == sizeof(o)) {
		memset(&r, 0, sizeof(r));
		r.rc = obey(&o, &r);
		if (r.rc)
			snprintf(r.text, sizeof(r.text), "%s", last_error().text);
		if (write(fd, &r, sizeof(r)) != sizeof(r))
			break;
	}
	_exit(0);
}

static bool peer_start(struct peer *p)
{
	int fd[2], fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return false;
	p->pid = fork();
	if (!p->pid) {
		close(fd[0]);
		close(fds[0]);
		fd_socket = fds[1];
		serve(fd[1]);
	}
	close(fd[1]);
	close(fds[1]);
	p->fd = fd[0];
	p->fds = fds[0];
	return p->pid > 0;
}

static int ask_key(struct peer *p, enum todo todo, uint64_t n, const char *key)
{
	struct order o = { .todo = todo, .n = n };

	if (key)
		memcpy(o.key, key, sizeof(o.key));
	memset(&p->r, 0, sizeof(p->r));
	if (write(p->fd, &o, sizeof(o)) != sizeof(o) ||
	    read(p->fd, &p->r, sizeof(p->r)) != sizeof(p->r))
		return -EPIPE;
	return p->r.rc;
}

static int ask(struct peer *p, enum todo todo, uint64_t n)
{
	return ask_key(p, todo, n, NULL);
}

static void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->fd);
	close(p->fds);
}

/* ---- the bed ---- */

FIXTURE(ipc)
{
	struct peer a, b;
	char dir[64];
};

FIXTURE_SETUP(ipc)
{
	snprintf(self->dir, sizeof(self->dir), "/tmp/npu-ipc-XXXXXX");
	ASSERT_NE(NULL, mkdtemp(self->dir));
	setenv("XDG_RUNTIME_DIR", self->dir, 1);
	setenv("NPU_SIMNPU_INSTANCE", "ipc-test", 1);
	setenv("NPU_SIMNPU_MEMORY", "100M", 1);
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	/* before this process has any thread */
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
}

FIXTURE_TEARDOWN(ipc)
{
	char path[384];
	struct dirent *e;
	struct stat st;
	int files = 0;
	DIR *d;

	EXPECT_EQ(0, npu_finalize(10000));
	peer_kill(&self->a);
	peer_kill(&self->b);
	d = opendir(self->dir);
	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", self->dir, e->d_name);
		EXPECT_EQ(0, lstat(path, &st));
		EXPECT_LE(st.st_size, 65536);
		files++;
		unlink(path);
	}
	EXPECT_LE(files, 1);
	closedir(d);
	rmdir(self->dir);
}

/* Descriptors that this process has. */
static int fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif /* SELFTESTS_RUNTIME_IPC_PEER_H */
