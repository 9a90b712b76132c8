// SPDX-License-Identifier: MIT
/*
 * Memory that processes share, on the side of who shows a key: he finds the memory
 * where the key says, or asks its owner, and puts it at his own addresses.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/simnpu/ipc.h"

/* Takes a key apart; false: it is none. */
bool simnpu_ipc_parse(const char *text, struct simnpu_ipc_key *k)
{
	char again[HAL_IPC_KEY_SIZE];
	const char *at = strchr(text, '@');

	*k = (struct simnpu_ipc_key){ .device = 0 };
	if (at && (sscanf(at, "@%" SCNx32 ":%" SCNx32 ":%" SCNx64 ":%" SCNx64 ":%" SCNx64,
			  &k->at.pid, &k->at.fd, &k->at.object, &k->at.size, &k->at.offset) != 5))
		return false;
	if (sscanf(text, "%31[^:]:%" SCNu32 ":%" SCNx32 ":%" SCNx64 ":%" SCNx32, k->instance,
		   &k->device, &k->slot, &k->number, &k->id) != 5)
		return false;
	/* one spelling alone */
	simnpu_ipc_key_text(k, again);
	return !strcmp(text, again);
}

/* A failure of who shows a key. */
int simnpu_ipc_failed(int err, const char *text)
{
	return hal_fail(err, "ipc_import", "%s", text);
}

/* Asks the owner; out: his answer and the descriptor. */
static int ask(int sock, const struct simnpu_ipc_request *r, struct simnpu_ipc_answer *a, int *fd)
{
	struct pollfd p = { sock, POLLIN, 0 };
	int err;

	err = hal_sys_unix_send(sock, r, sizeof(*r), -1);
	if (!err)
		err = hal_sys_poll(&p, 1, hal_sys_deadline(SIMNPU_IPC_ANSWER_MS));
	if (!err)
		return simnpu_ipc_failed(-ETIMEDOUT, "the owner of the key does not answer");
	if (err > 0)
		err = hal_sys_unix_recv(sock, a, sizeof(*a), fd);
	if (err == -EPIPE || err == -ECONNRESET)
		return -EPIPE;
	if (err)
		return simnpu_ipc_failed(err, "no answer of the owner of the key");
	if (!a->code && *fd < 0)
		return simnpu_ipc_failed(-EMFILE, "no descriptor came with the answer");
	switch (a->code) {
	case 0:
		return 0;
	case -ESTALE:
		return simnpu_ipc_failed(-ESTALE, "what the key names is no more");
	case -EACCES:
		return simnpu_ipc_failed(-EACCES,
					 "the owner of the key has not allowed this process to");
	default:
		return simnpu_ipc_failed(a->code, "the owner of the key cannot hand it out");
	}
}

/* A socket to who made a key: 0, -EOWNERDEAD, -ETIMEDOUT, -EACCES, or as the system fails. */
int simnpu_ipc_connect(const struct simnpu_ipc_key *k, uint64_t deadline, int *sock)
{
	struct hal_peer peer;
	char name[108];

	simnpu_ipc_name(name, sizeof(name), k);
	/* more wait already than the system keeps: he takes them in, unless he is stopped */
	while ((*sock = hal_sys_unix_connect(name, &peer)) == -EAGAIN && hal_sys_now() < deadline)
		usleep(500);
	if (*sock == -ECONNREFUSED)
		return simnpu_ipc_failed(-EOWNERDEAD, "the owner of the key has ended");
	if (*sock == -EAGAIN)
		return simnpu_ipc_failed(-ETIMEDOUT, "the owner of the key answers nobody");
	if (*sock < 0)
		return simnpu_ipc_failed(*sock, "no way to the owner of the key");
	if (peer.uid == geteuid())
		return 0;
	hal_sys_close(hal_sys_get(), *sock);
	return simnpu_ipc_failed(-EACCES, "another user has the name of the owner of the key");
}

/* Out: where to say that the memory is mapped, the answer, and the descriptor. */
int simnpu_ipc_get(const struct simnpu_ipc_key *k, const struct simnpu_info *si, int *sock,
		   struct simnpu_ipc_answer *a, int *fd)
{
	struct simnpu_ipc_request r = {
		.magic = SIMNPU_IPC_MAGIC, .id = k->id, .number = si->number, .slot = si->slot,
	};
	unsigned int tries;
	int err = -EPIPE;

	/* who hangs up without an answer is asked again: if he has ended, he is not there then */
	for (tries = 0; tries < 2 && err == -EPIPE; tries++) {
		err = simnpu_ipc_connect(k, hal_sys_deadline(SIMNPU_IPC_ANSWER_MS), sock);
		if (err)
			return err;
		err = ask(*sock, &r, a, fd);
		if (err)
			hal_sys_close(hal_sys_get(), *sock);
	}
	if (err == -EPIPE)
		return simnpu_ipc_failed(-EOWNERDEAD, "the owner of the key hangs up");
	return err;
}

/* Takes apart a key of what a device has; @event: of an event, else of memory. */
int simnpu_ipc_key_for(struct simnpu_device *dev, const char *text, bool event,
		       struct simnpu_ipc_key *k)
{
	if (!simnpu_ipc_parse(text, k) || !(k->id & SIMNPU_IPC_EVENT) == event)
		return simnpu_ipc_failed(-EINVAL, event ? "not a key of an event" :
					 "not a key of memory");
	if (strcmp(k->instance, hal_option_text(simnpu_options, "simnpu_instance")))
		return simnpu_ipc_failed(-EXDEV,
					 "a key of another instance (option simnpu_instance)");
	if (k->device != dev->base.index)
		return simnpu_ipc_failed(-EXDEV, "a key of another device");
	return 0;
}

/* A descriptor of memory where the key says that it is, or a negative errno. */
static int direct_open(const struct simnpu_ipc_place *at)
{
	char path[40];
	struct stat st;
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", at->pid, at->fd);
	fd = hal_sys_open(hal_sys_get(), path, O_RDWR);
	if (fd < 0)
		return fd;
	err = hal_sys_fstat(fd, &st);
	if (!err && (st.st_ino == at->object && st.st_uid == geteuid()))
		return fd;
	hal_sys_close(hal_sys_get(), fd);
	return err ? err : -ENOENT;
}

/* Whether it is still there. */
static bool direct_still(const struct simnpu_ipc_place *at)
{
	int fd = direct_open(at);

	if (fd >= 0)
		hal_sys_close(hal_sys_get(), fd);
	return fd >= 0;
}

/* Gets memory without its owner; false: he has to be asked. */
static bool import_direct(struct hal_memory *m, const struct simnpu_ipc_key *k,
			  struct simnpu_import *i)
{
	struct simnpu_mem_free gone = { 0 };
	int err;

	if (!k->at.pid)
		return false;
	i->fd = direct_open(&k->at);
	if (i->fd < 0)
		return false;
	i->size = k->number;
	i->owner_slot = k->slot;
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_IMPORT, i);
	hal_sys_close(hal_sys_get(), i->fd);
	i->owner_slot = 0;
	if (err)
		return false;
	/* from here on its owner sees who has it; he may have freed it before */
	if (direct_still(&k->at))
		return true;
	gone.handle = i->handle;
	simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_DESTROY, &gone);
	return false;
}

/**
 * simnpu_ipc_import() - get the memory that a key names
 * @m: the memory: addr, size, real_size and entry are set
 * @key: the key
 * @handle: out: what the device calls it
 *
 * Return: 0, as struct hal_memory_ops says, or as the device or the system fails.
 */
int simnpu_ipc_import(struct hal_memory *m, const char *key, uint32_t *handle)
{
	struct simnpu_import i = { .context = to_simnpu_ctx(m->ctx)->handle };
	struct simnpu_device *dev = simnpu_device_of(m->ctx);
	struct simnpu_info si = { 0 };
	const uint32_t magic = SIMNPU_IPC_MAGIC;
	struct simnpu_ipc_answer a = { 0 };
	struct simnpu_ipc_key k;
	int sock, err;

	err = simnpu_ipc_key_for(dev, key, false, &k);
	if (err)
		return err;
	if (import_direct(m, &k, &i)) {
		a.size = k.at.size;
		a.offset = k.at.offset;
		goto done;
	}
	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_INFO, &si);
	if (err)
		return simnpu_ipc_failed(err, "the device does not answer");
	err = simnpu_ipc_get(&k, &si, &sock, &a, &i.fd);
	if (err)
		return err;
	i.share = a.share;
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_IMPORT, &i);
	hal_sys_close(hal_sys_get(), i.fd);
	/* hanging up without a word gives it back */
	if (!err)
		hal_sys_unix_send(sock, &magic, sizeof(magic), -1);
	hal_sys_close(hal_sys_get(), sock);
	if (err)
		return simnpu_ipc_failed(err, "the device cannot map the memory");
done:
	*handle = i.handle;
	m->addr = (void *)(uintptr_t)i.addr;
	m->size = a.size <= i.size ? a.size : i.size;
	m->real_size = i.size;
	m->entry = a.offset < m->size ? a.offset : 0;
	return 0;
}
