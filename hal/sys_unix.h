/* SPDX-License-Identifier: MIT */
/*
 * Descriptors from one process to another, over sockets with an abstract name:
 * part of the system-call seam.
 */
#ifndef HAL_SYS_UNIX_H
#define HAL_SYS_UNIX_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Who is at the other end, as the system says. */
struct hal_peer {
	pid_t pid;
	uid_t uid;
};

/* A socket that listens under a name of the network namespace: a descriptor or a negative errno. */
int hal_sys_unix_listen(const char *name);
/* A descriptor, or a negative errno; does not wait: -EAGAIN. */
int hal_sys_unix_accept(int fd, struct hal_peer *peer);
/* A descriptor; -ECONNREFUSED: nobody listens; -EAGAIN: he takes nobody in. */
int hal_sys_unix_connect(const char *name, struct hal_peer *peer);
/* A whole message, and a descriptor with it unless that is -1: 0 or a negative errno. */
int hal_sys_unix_send(int sock, const void *buf, size_t size, int fd);
/* The opposite; -EPROTO: it has another size; fd is -1 if none came, else close-on-exec. */
int hal_sys_unix_recv(int sock, void *buf, size_t size, int *fd);
/* Waits until something can be read: how many, 0 after the deadline, or a negative errno. */
int hal_sys_poll(struct pollfd *fds, unsigned int n, uint64_t deadline_ns);

/* A file in memory whose size stays as it is: a descriptor or a negative errno. */
int hal_sys_memfd_fixed(const char *name, uint64_t size);
/* Whether a descriptor is of such a file, and its size. */
bool hal_sys_is_fixed(int fd, uint64_t *size);

#endif /* HAL_SYS_UNIX_H */
