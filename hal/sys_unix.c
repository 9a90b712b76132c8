// SPDX-License-Identifier: MIT
/*
 * The system-call seam: sockets that carry descriptors, and files in memory that
 * are worth carrying.
 */
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "hal/base.h"
#include "hal/sys.h"
#include "hal/sys_unix.h"

#define BACKLOG 64
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define NSEC_PER_MSEC 1000000ull

/* As in sys.c: errno is read here, and what a signal interrupted is done again. */
#define repeat(call)						\
	({							\
		__typeof__(call) ret_;				\
		hal_assert_may_block(__func__);			\
		do						\
			ret_ = (call);				\
		while (ret_ == -1 && errno == EINTR);		\
		ret_ == -1 ? (__typeof__(call))-errno : ret_;	\
	})

static socklen_t address(struct sockaddr_un *a, const char *name)
{
	size_t len = strnlen(name, sizeof(a->sun_path) - 1);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* the zero in front makes it abstract: no file, gone with the socket */
	memcpy(a->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static int new_socket(int flags)
{
	return repeat(hal_sys_get()->socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK |
					    flags, 0));
}

/* Whom the system knows to be there; it takes nothing to say so: not in the seam. */
static int peer_of(int fd, struct hal_peer *peer)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len))
		return -errno;
	peer->pid = c.pid;
	peer->uid = c.uid;
	return 0;
}

/**
 * hal_sys_unix_listen() - listen under an abstract name
 * @name: the name
 *
 * Return: a descriptor, -EADDRINUSE, or another negative errno.
 */
int hal_sys_unix_listen(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = address(&a, name);
	int fd = new_socket(0), rc;

	if (fd < 0)
		return fd;
	rc = repeat(hal_sys_get()->bind(fd, &a, len));
	if (!rc && listen(fd, BACKLOG))
		rc = -errno;
	if (!rc)
		return fd;
	hal_sys_close(hal_sys_get(), fd);
	return rc;
}

/**
 * hal_sys_unix_accept() - take in who has connected
 * @fd: from hal_sys_unix_listen()
 * @peer: out: who it is
 *
 * Return: a descriptor, -EAGAIN (nobody), or another negative errno.
 */
int hal_sys_unix_accept(int fd, struct hal_peer *peer)
{
	int sock = repeat(hal_sys_get()->accept(fd)), rc;

	if (sock < 0)
		return sock;
	rc = peer_of(sock, peer);
	if (!rc)
		return sock;
	hal_sys_close(hal_sys_get(), sock);
	return rc;
}

/**
 * hal_sys_unix_connect() - connect to who listens under an abstract name
 * @name: the name
 * @peer: out: who it is
 *
 * Return: a descriptor, -ECONNREFUSED (nobody), -EAGAIN (too many wait already), or another
 * negative errno.
 */
int hal_sys_unix_connect(const char *name, struct hal_peer *peer)
{
	struct sockaddr_un a;
	socklen_t len = address(&a, name);
	int fd = new_socket(0), rc;

	if (fd < 0)
		return fd;
	rc = repeat(hal_sys_get()->connect(fd, &a, len));
	if (!rc)
		rc = peer_of(fd, peer);
	if (!rc)
		return fd;
	hal_sys_close(hal_sys_get(), fd);
	return rc;
}

/* Room for the one descriptor of a message. */
union ancillary {
	char buf[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

/**
 * hal_sys_unix_send() - send a message
 * @sock: the socket
 * @buf: the message
 * @size: its bytes
 * @fd: a descriptor that the other one gets a copy of, or -1
 *
 * Return: 0, -EPIPE (nobody is there; no signal), or another negative errno.
 */
int hal_sys_unix_send(int sock, const void *buf, size_t size, int fd)
{
	struct iovec iov = { (void *)(uintptr_t)buf, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union ancillary anc = { { 0 } };
	struct cmsghdr *c;
	ssize_t n;

	if (fd >= 0) {
		msg.msg_control = anc.buf;
		msg.msg_controllen = sizeof(anc.buf);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	n = repeat(hal_sys_get()->sendmsg(sock, &msg, MSG_NOSIGNAL));
	return n < 0 ? (int)n : 0;
}

/**
 * hal_sys_unix_recv() - receive a message
 * @sock: the socket
 * @buf: out: the message
 * @size: its bytes
 * @fd: out: the descriptor that came with it, or -1; may be NULL: none is wanted
 *
 * Return: 0, -EAGAIN (nothing yet), -EPIPE (the other end is closed), -EPROTO (not of that size, or
 * with a descriptor that is not wanted), -EMFILE (a descriptor came, and there is none left for
 * it), or another negative errno.
 */
int hal_sys_unix_recv(int sock, void *buf, size_t size, int *fd)
{
	struct iovec iov = { buf, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union ancillary anc;
	struct cmsghdr *c;
	int got = -1;
	ssize_t n;

	msg.msg_control = anc.buf;
	msg.msg_controllen = sizeof(anc.buf);
	n = repeat(hal_sys_get()->recvmsg(sock, &msg, MSG_CMSG_CLOEXEC));
	if (fd)
		*fd = -1;
	if (n < 0)
		return (int)n;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&got, CMSG_DATA(c), sizeof(got));
	if (n && (size_t)n == size && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    (fd || got < 0)) {
		if (fd)
			*fd = got;
		return 0;
	}
	if (got >= 0)
		hal_sys_close(hal_sys_get(), got);
	if (msg.msg_flags & MSG_CTRUNC)
		return -EMFILE;
	return n ? -EPROTO : -EPIPE;
}

/**
 * hal_sys_poll() - wait for descriptors
 * @fds: the descriptors
 * @n: how many
 * @deadline_ns: absolute, CLOCK_MONOTONIC; UINT64_MAX: none
 *
 * Return: how many are ready, 0 after the deadline, or a negative errno.
 */
int hal_sys_poll(struct pollfd *fds, unsigned int n, uint64_t deadline_ns)
{
	uint64_t now, left;
	int ms, rc;

	do {
		now = hal_sys_now();
		left = deadline_ns > now ? (deadline_ns - now) / NSEC_PER_MSEC + 1 : 0;
		ms = deadline_ns == UINT64_MAX ? -1 : left > INT32_MAX ? INT32_MAX : (int)left;
		rc = hal_sys_get()->poll(fds, n, ms);
		if (rc == -1)
			rc = -errno;
	} while (rc == -EINTR || (!rc && hal_sys_now() < deadline_ns));
	return rc;
}

/**
 * hal_sys_memfd_fixed() - make a file in memory that nobody can make shorter
 * @name: for /proc
 * @size: its bytes; they have room
 *
 * So it can be mapped by who does not trust who made it.
 * Return: a descriptor, -ENOMEM, or another negative errno.
 */
int hal_sys_memfd_fixed(const char *name, uint64_t size)
{
	int fd = repeat(hal_sys_get()->memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), rc;

	if (fd < 0)
		return fd;
	rc = hal_sys_fallocate(fd, 0, size);
	/* takes nothing: not in the seam */
	if (!rc && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		rc = -errno;
	if (!rc)
		return fd;
	hal_sys_close(hal_sys_get(), fd);
	return rc == -ENOSPC || rc == -EFBIG ? -ENOMEM : rc;
}

/**
 * hal_sys_is_fixed() - whether a file cannot become shorter
 * @fd: a descriptor
 * @size: out: its bytes
 *
 * Return: whether it is one as hal_sys_memfd_fixed() makes them.
 */
bool hal_sys_is_fixed(int fd, uint64_t *size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || hal_sys_fstat(fd, &st))
		return false;
	*size = (uint64_t)st.st_size;
	return true;
}
