// SPDX-License-Identifier: MIT
/*
 * Memory that processes share, by keys. Who makes the first key of a device
 * starts a thread, which hands descriptors of memory to those who show a key and
 * may have it; the other side asks it, and puts the memory at its own addresses.
 *
 * A key is INSTANCE:DEVICE:SLOT:NUMBER:ID. The slot and number of its maker are in the
 * name that the thread listens at, so a key of a process that is no more leads to
 * nobody. The name is abstract: no file is left behind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/ipc.h"
#include "hal/log.h"
#include "hal/sys_unix.h"

#define MAGIC 0x31637069u
#define PIDS_MAX 128u
/* How long who has connected may take to say what he wants, or has; and the owner to answer. */
#define ASK_MS 1000
#define ANSWER_MS 5000

/* What is asked. */
struct request {
	uint32_t magic;
	uint32_t id;
	uint64_t number;
	uint32_t slot;
	uint32_t pad;
};

/* The answer; with it comes a descriptor, if code is 0. */
struct answer {
	int32_t code;
	uint32_t share;
	uint64_t size;
	uint64_t offset;
};

/* A key, taken apart. */
struct key {
	char instance[SIMNPU_NAME_LEN];
	uint32_t device;
	uint32_t slot;
	uint64_t number;
	uint32_t id;
};

/**
 * struct exported - what a key was made of
 * @node: in simnpu_ipc.list
 * @id: in the key
 * @handle: what the device calls the memory
 * @offset: of the byte that the key names
 * @any: for all processes of the user
 * @count: processes that may have it
 * @pids: these
 */
struct exported {
	struct hal_list node;
	uint32_t id;
	uint32_t handle;
	uint64_t offset;
	bool any;
	uint32_t count;
	pid_t pids[PIDS_MAX];
};

/**
 * struct simnpu_ipc - what a device hands out
 * @sys: how the device is reached
 * @fd: its node
 * @listen: where others connect
 * @stop: becomes readable when the thread has to end
 * @thread: the thread
 * @key: what all keys begin with
 * @lock: Protects: @list, @last_id, and memory from being freed while it is handed out
 * @list: struct exported
 * @last_id: the last id that was given
 */
struct simnpu_ipc {
	const struct hal_sys_ops *sys;
	int fd;
	int listen;
	int stop;
	pthread_t thread;
	struct key key;
	pthread_mutex_t lock;
	struct hal_list list;
	uint32_t last_id;
};

/* Descriptors that the child of a fork must not keep: plus 1, by device. */
static _Atomic int forked_fds[SIMNPU_MAX_DEVICES][2];

/* In the child of a fork: who asks its parent must not find it listening. */
void simnpu_ipc_fork_child(void)
{
	uint32_t i, k;
	int fd;

	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		for (k = 0; k < 2; k++) {
			fd = atomic_exchange(&forked_fds[i][k], 0);
			if (fd)
				hal_sys_get()->close(fd - 1);
		}
	}
}

static void socket_name(char *name, size_t size, const struct key *k)
{
	snprintf(name, size, "simnpu-%u-%s-%x-%" PRIx64, geteuid(), k->instance, k->slot,
		 k->number);
}

/* ---- the owner's side ------------------------------------------------------------------ */

static struct exported *find_id(struct simnpu_ipc *ipc, uint32_t id)
{
	struct hal_list *n;

	hal_list_for_each(n, &ipc->list)
		if (hal_list_entry(n, struct exported, node)->id == id)
			return hal_list_entry(n, struct exported, node);
	return NULL;
}

static bool may(const struct exported *x, pid_t pid)
{
	uint32_t i;

	if (x->any || pid == getpid())
		return true;
	for (i = 0; i < x->count; i++)
		if (x->pids[i] == pid)
			return true;
	return false;
}

/* Makes the descriptor that an answer takes along. */
static int hand_out(struct simnpu_ipc *ipc, const struct request *r, pid_t pid, struct answer *a)
{
	struct simnpu_export e = { .to = r->number, .to_slot = r->slot };
	const struct exported *x = find_id(ipc, r->id);

	if (!x)
		return -ESTALE;
	if (!may(x, pid))
		return -EACCES;
	e.handle = x->handle;
	a->code = hal_sys_ioctl(ipc->sys, ipc->fd, SIMNPU_IOCTL_MEM_EXPORT, &e);
	if (a->code)
		return a->code;
	a->size = e.size;
	a->share = e.share;
	a->offset = x->offset;
	return e.fd;
}

/* Whether the other one has mapped it; who says nothing at all may have. */
static bool has_it(struct simnpu_ipc *ipc, int sock)
{
	struct pollfd p[2] = { { sock, POLLIN, 0 }, { ipc->stop, POLLIN, 0 } };
	uint32_t magic;

	return hal_sys_poll(p, ARRAY_SIZE(p), hal_sys_deadline(ASK_MS)) <= 0 || !p[0].revents ||
	       !hal_sys_unix_recv(sock, &magic, sizeof(magic), NULL);
}

static void take_back(struct simnpu_ipc *ipc, uint32_t share)
{
	struct simnpu_export e = { .share = share };

	hal_sys_ioctl(ipc->sys, ipc->fd, SIMNPU_IOCTL_MEM_EXPORT, &e);
}

static void serve_one(struct simnpu_ipc *ipc, int sock, pid_t pid)
{
	struct pollfd p[2] = { { sock, POLLIN, 0 }, { ipc->stop, POLLIN, 0 } };
	struct answer a = { 0 };
	struct request r;
	int fd;

	if (hal_sys_poll(p, ARRAY_SIZE(p), hal_sys_deadline(ASK_MS)) <= 0 ||
	    hal_sys_unix_recv(sock, &r, sizeof(r), NULL) || r.magic != MAGIC || !r.number)
		return;
	pthread_mutex_lock(&ipc->lock);
	fd = hand_out(ipc, &r, pid, &a);
	pthread_mutex_unlock(&ipc->lock);
	if (fd < 0) {
		a.code = fd;
		hal_sys_unix_send(sock, &a, sizeof(a), -1);
		return;
	}
	if (hal_sys_unix_send(sock, &a, sizeof(a), fd) || !has_it(ipc, sock))
		take_back(ipc, a.share);
	hal_sys_close(hal_sys_get(), fd);
}

static void *serve(void *arg)
{
	struct simnpu_ipc *ipc = arg;
	struct pollfd p[2] = { { ipc->listen, POLLIN, 0 }, { ipc->stop, POLLIN, 0 } };
	struct hal_peer peer;
	int sock;

	for (;;) {
		p[1].revents = 0;
		if (hal_sys_poll(p, ARRAY_SIZE(p), UINT64_MAX) > 0 && p[1].revents)
			return NULL;
		sock = hal_sys_unix_accept(ipc->listen, &peer);
		if (sock == -EMFILE || sock == -ENFILE || sock == -ENOMEM)
			usleep(1000);	/* he waits, and others give some back */
		if (sock < 0)
			continue;
		if (peer.uid == geteuid())
			serve_one(ipc, sock, peer.pid);
		hal_sys_close(hal_sys_get(), sock);
	}
}

static void ipc_free(struct simnpu_ipc *ipc)
{
	struct exported *x;

	while (!hal_list_empty(&ipc->list)) {
		x = hal_list_entry(ipc->list.next, struct exported, node);
		hal_list_del(&x->node);
		free(x);
	}
	atomic_store(&forked_fds[ipc->key.device][0], 0);
	atomic_store(&forked_fds[ipc->key.device][1], 0);
	if (ipc->listen >= 0)
		hal_sys_close(hal_sys_get(), ipc->listen);
	if (ipc->stop >= 0)
		hal_sys_close(hal_sys_get(), ipc->stop);
	pthread_mutex_destroy(&ipc->lock);
	free(ipc);
}

static struct simnpu_ipc *ipc_new(struct simnpu_device *dev)
{
	struct simnpu_ipc *ipc = hal_zalloc(sizeof(*ipc));

	if (!ipc)
		return NULL;
	ipc->sys = dev->sys;
	ipc->fd = dev->fd;
	ipc->listen = ipc->stop = -1;
	pthread_mutex_init(&ipc->lock, NULL);
	hal_list_init(&ipc->list);
	ipc->key.device = dev->base.index;
	snprintf(ipc->key.instance, sizeof(ipc->key.instance), "%s",
		 hal_option_text(simnpu_options, "simnpu_instance"));
	return ipc;
}

/* Under the device's lock. */
static int start_locked(struct simnpu_device *dev)
{
	struct simnpu_ipc *ipc = ipc_new(dev);
	struct simnpu_info si = { 0 };
	char name[108];
	int err = -ENOMEM;

	if (!ipc)
		return err;
	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_INFO, &si);
	if (err)
		goto free_ipc;
	ipc->key.slot = si.slot;
	ipc->key.number = si.number;
	socket_name(name, sizeof(name), &ipc->key);
	err = ipc->stop = hal_sys_eventfd();
	if (err < 0)
		goto free_ipc;
	err = ipc->listen = hal_sys_unix_listen(name);
	if (err == -EADDRINUSE)
		err = -EBUSY;
	if (err < 0)
		goto free_ipc;
	atomic_store(&forked_fds[ipc->key.device][0], ipc->stop + 1);
	atomic_store(&forked_fds[ipc->key.device][1], ipc->listen + 1);
	err = hal_sys_thread_create(&ipc->thread, "npu-ipc", serve, ipc);
	if (err)
		goto free_ipc;
	hal_store_release(&dev->ipc, ipc);
	return 0;
free_ipc:
	ipc_free(ipc);
	return err;
}

/* What the device hands out; the first time its thread is started. */
static int start(struct simnpu_device *dev, struct simnpu_ipc **ipc)
{
	int err = 0;

	pthread_mutex_lock(&dev->lock);
	if (!hal_load_relaxed(&dev->ipc))
		err = start_locked(dev);
	*ipc = hal_load_relaxed(&dev->ipc);
	pthread_mutex_unlock(&dev->lock);
	return err;
}

/* The device is closed: nothing is handed out any more. */
void simnpu_ipc_stop(struct simnpu_device *dev)
{
	struct simnpu_ipc *ipc = hal_load_relaxed(&dev->ipc);
	const uint64_t one = 1;

	if (!ipc)
		return;
	hal_sys_write(ipc->stop, &one, sizeof(one));
	pthread_join(ipc->thread, NULL);
	hal_store_relaxed(&dev->ipc, NULL);
	ipc_free(ipc);
}

/* The memory is going to be freed. */
void simnpu_ipc_forget(struct simnpu_device *dev, uint32_t handle)
{
	struct simnpu_ipc *ipc = hal_load_acquire(&dev->ipc);
	struct hal_list *n, *next;
	struct exported *x;

	if (likely(!ipc))
		return;
	pthread_mutex_lock(&ipc->lock);
	for (n = ipc->list.next; n != &ipc->list; n = next) {
		next = n->next;
		x = hal_list_entry(n, struct exported, node);
		if (x->handle != handle)
			continue;
		hal_list_del(&x->node);
		free(x);
	}
	pthread_mutex_unlock(&ipc->lock);
}

/* The key of a byte; one that has been made already stays the same. */
static int key_of(struct simnpu_ipc *ipc, uint32_t handle, uint64_t offset, bool any,
		  struct key *k)
{
	struct exported *x = NULL, *new = hal_zalloc(sizeof(*new));
	struct hal_list *n;

	if (!new)
		return -ENOMEM;
	pthread_mutex_lock(&ipc->lock);
	hal_list_for_each(n, &ipc->list) {
		x = hal_list_entry(n, struct exported, node);
		if (x->handle == handle && x->offset == offset)
			break;
		x = NULL;
	}
	if (!x) {
		x = new;
		new = NULL;
		x->id = ++ipc->last_id;
		x->handle = handle;
		x->offset = offset;
		hal_list_add_tail(&ipc->list, &x->node);
	}
	x->any |= any;
	*k = ipc->key;
	k->id = x->id;
	pthread_mutex_unlock(&ipc->lock);
	free(new);
	return 0;
}

/**
 * simnpu_ipc_export() - make a key
 * @m: the memory
 * @handle: what the device calls it
 * @offset: of the byte that the key is to name
 * @flags: HAL_IPC_ANY or 0
 * @key: out: HAL_IPC_KEY_SIZE bytes
 *
 * Return: 0, or as the device or the system fails.
 */
int simnpu_ipc_export(struct hal_memory *m, uint32_t handle, size_t offset, uint32_t flags,
		      char *key)
{
	struct simnpu_device *dev = simnpu_device_of(m->ctx);
	struct simnpu_export e = { .handle = handle };
	struct simnpu_ipc *ipc;
	struct key k;
	int err;

	/* whether it can be, before anybody is told so */
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_EXPORT, &e);
	if (err)
		return hal_fail(err, "ipc_export", err == -EMFILE ?
				"device %d: %p was allocated while descriptors were scarce" :
				"device %d does not share %p", m->ctx->dev->ordinal, m->addr);
	hal_sys_close(hal_sys_get(), e.fd);
	err = start(dev, &ipc);
	if (!err)
		err = key_of(ipc, handle, offset, flags & HAL_IPC_ANY, &k);
	if (err)
		return hal_fail(err, "ipc_export", "device %d: nobody to hand memory out",
				m->ctx->dev->ordinal);
	snprintf(key, HAL_IPC_KEY_SIZE, "%s:%u:%x:%" PRIx64 ":%x", k.instance, k.device, k.slot,
		 k.number, k.id);
	return 0;
}

/* Adds processes to those that may have memory: 0, -ENOENT (it has no key), -ENOSPC. */
int simnpu_ipc_allow(struct hal_memory *m, uint32_t handle, const int32_t *pids, size_t n)
{
	struct simnpu_ipc *ipc = hal_load_acquire(&simnpu_device_of(m->ctx)->ipc);
	struct exported *x;
	struct hal_list *l;
	int err = -ENOENT;
	size_t i;

	if (!ipc)
		return hal_fail(err, "ipc_allow", "no key was made of %p", m->addr);
	pthread_mutex_lock(&ipc->lock);
	hal_list_for_each(l, &ipc->list) {
		x = hal_list_entry(l, struct exported, node);
		if (x->handle != handle)
			continue;
		if (n > PIDS_MAX - x->count) {
			err = -ENOSPC;
			break;
		}
		for (i = 0; i < n; i++)
			x->pids[x->count++] = pids[i];
		err = 0;
	}
	pthread_mutex_unlock(&ipc->lock);
	if (err == -ENOSPC)
		return hal_fail(err, "ipc_allow", "more than %u processes", PIDS_MAX);
	return err ? hal_fail(err, "ipc_allow", "no key was made of %p", m->addr) : 0;
}

/* ---- the other side ---------------------------------------------------------------------- */

static bool parse(const char *text, struct key *k)
{
	char again[HAL_IPC_KEY_SIZE];

	if (sscanf(text, "%31[^:]:%" SCNu32 ":%" SCNx32 ":%" SCNx64 ":%" SCNx32, k->instance,
		   &k->device, &k->slot, &k->number, &k->id) != 5)
		return false;
	/* one spelling alone */
	snprintf(again, sizeof(again), "%s:%u:%x:%" PRIx64 ":%x", k->instance, k->device, k->slot,
		 k->number, k->id);
	return !strcmp(text, again);
}

static int failed(int err, const char *text)
{
	return hal_fail(err, "ipc_import", "%s", text);
}

/* Asks the owner; out: his answer and the descriptor. */
static int ask(int sock, const struct request *r, struct answer *a, int *fd)
{
	struct pollfd p = { sock, POLLIN, 0 };
	int err;

	err = hal_sys_unix_send(sock, r, sizeof(*r), -1);
	if (!err)
		err = hal_sys_poll(&p, 1, hal_sys_deadline(ANSWER_MS));
	if (!err)
		return failed(-ETIMEDOUT, "the owner of the memory does not answer");
	if (err > 0)
		err = hal_sys_unix_recv(sock, a, sizeof(*a), fd);
	if (err == -EPIPE || err == -ECONNRESET)
		return -EPIPE;
	if (err)
		return failed(err, "no answer of the owner of the memory");
	if (!a->code && *fd < 0)
		return failed(-EMFILE, "no descriptor came with the answer");
	switch (a->code) {
	case 0:
		return 0;
	case -ESTALE:
		return failed(-ESTALE, "the memory was freed");
	case -EACCES:
		return failed(-EACCES, "the owner of the memory has not allowed this process to");
	default:
		return failed(a->code, "the owner of the memory cannot hand it out");
	}
}

static int connect_to(const struct key *k, int *sock)
{
	struct hal_peer peer;
	char name[108];

	socket_name(name, sizeof(name), k);
	*sock = hal_sys_unix_connect(name, &peer);
	if (*sock == -ECONNREFUSED)
		return failed(-EOWNERDEAD, "the owner of the memory has ended");
	if (*sock == -EAGAIN)
		return failed(-ETIMEDOUT, "the owner of the memory answers nobody");
	if (*sock < 0)
		return failed(*sock, "no way to the owner of the memory");
	if (peer.uid == geteuid())
		return 0;
	hal_sys_close(hal_sys_get(), *sock);
	return failed(-EACCES, "another user has the name of the owner of the memory");
}

/* Out: where to say that the memory is mapped, the answer, and the descriptor. */
static int get_fd(const struct key *k, const struct simnpu_info *si, int *sock, struct answer *a,
		  int *fd)
{
	struct request r = {
		.magic = MAGIC, .id = k->id, .number = si->number, .slot = si->slot,
	};
	unsigned int tries;
	int err = -EPIPE;

	/* who hangs up without an answer is asked again: if he has ended, he is not there then */
	for (tries = 0; tries < 2 && err == -EPIPE; tries++) {
		err = connect_to(k, sock);
		if (err)
			return err;
		err = ask(*sock, &r, a, fd);
		if (err)
			hal_sys_close(hal_sys_get(), *sock);
	}
	return err == -EPIPE ? failed(-EOWNERDEAD, "the owner of the memory hangs up") : err;
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
	const uint32_t magic = MAGIC;
	struct answer a = { 0 };
	struct key k;
	int sock, err;

	if (!parse(key, &k))
		return failed(-EINVAL, "not a key");
	if (strcmp(k.instance, hal_option_text(simnpu_options, "simnpu_instance")))
		return failed(-EXDEV, "a key of another instance (option simnpu_instance)");
	if (k.device != dev->base.index)
		return failed(-EXDEV, "a key of another device");
	err = hal_sys_ioctl(dev->sys, dev->fd, SIMNPU_IOCTL_INFO, &si);
	if (err)
		return failed(err, "the device does not answer");
	err = get_fd(&k, &si, &sock, &a, &i.fd);
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
		return failed(err, "the device cannot map the memory");
	*handle = i.handle;
	m->addr = (void *)(uintptr_t)i.addr;
	m->size = a.size <= i.size ? a.size : i.size;
	m->real_size = i.size;
	m->entry = a.offset < m->size ? a.offset : 0;
	return 0;
}
