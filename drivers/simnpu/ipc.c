// SPDX-License-Identifier: MIT
/*
 * What processes share, by keys. Who makes the first key of a device
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

#include "drivers/simnpu/ipc.h"
#include "hal/log.h"

/* Descriptors that the child of a fork must not keep: plus 1, by device. */
static _Atomic int forked_fds[SIMNPU_MAX_DEVICES][3];

/* In the child of a fork: who asks its parent must not find it listening. */
void simnpu_ipc_fork_child(void)
{
	uint32_t i, k;
	int fd;

	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		for (k = 0; k < ARRAY_SIZE(forked_fds[i]); k++) {
			fd = atomic_exchange(&forked_fds[i][k], 0);
			if (fd)
				hal_sys_get()->close(fd - 1);
		}
	}
}

static void socket_name(char *name, size_t size, const struct simnpu_ipc_key *k)
{
	snprintf(name, size, "simnpu-%u-%s-%x-%" PRIx64, geteuid(), k->instance, k->slot,
		 k->number);
}

/* ---- the owner's side ------------------------------------------------------------------ */

static struct simnpu_exported *find_id(struct simnpu_ipc *ipc, uint32_t id)
{
	struct hal_list *n;

	hal_list_for_each(n, &ipc->list)
		if (hal_list_entry(n, struct simnpu_exported, node)->id == id)
			return hal_list_entry(n, struct simnpu_exported, node);
	return NULL;
}

/* Whether a process may have it. */
bool simnpu_ipc_may(const struct simnpu_exported *x, pid_t pid)
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
static int hand_out(struct simnpu_ipc *ipc, const struct simnpu_ipc_request *r, pid_t pid,
		    struct simnpu_ipc_answer *a)
{
	struct simnpu_export e = { .to = r->number, .to_slot = r->slot };
	const struct simnpu_exported *x = find_id(ipc, r->id);

	if (!x)
		return -ESTALE;
	if (!simnpu_ipc_may(x, pid))
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

	return hal_sys_poll(p, ARRAY_SIZE(p), hal_sys_deadline(SIMNPU_IPC_ASK_MS)) <= 0 ||
	       !p[0].revents || !hal_sys_unix_recv(sock, &magic, sizeof(magic), NULL);
}

static void take_back(struct simnpu_ipc *ipc, uint32_t share)
{
	struct simnpu_export e = { .share = share };

	hal_sys_ioctl(ipc->sys, ipc->fd, SIMNPU_IOCTL_MEM_EXPORT, &e);
}

static void serve_memory(struct simnpu_ipc *ipc, const struct simnpu_ipc_request *r, int sock,
			 pid_t pid)
{
	struct simnpu_ipc_answer a = { 0 };
	int fd;

	pthread_mutex_lock(&ipc->lock);
	fd = hand_out(ipc, r, pid, &a);
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

/* Return: whether the socket is kept, as the answer comes later. */
static bool serve_one(struct simnpu_ipc *ipc, int sock, pid_t pid)
{
	struct pollfd p[2] = { { sock, POLLIN, 0 }, { ipc->stop, POLLIN, 0 } };
	struct simnpu_ipc_request r;

	if (hal_sys_poll(p, ARRAY_SIZE(p), hal_sys_deadline(SIMNPU_IPC_ASK_MS)) <= 0 ||
	    hal_sys_unix_recv(sock, &r, sizeof(r), NULL) || r.magic != SIMNPU_IPC_MAGIC ||
	    !r.number)
		return false;
	if (r.id & SIMNPU_IPC_EVENT)
		return simnpu_ipc_event_serve(ipc, &r, sock, pid);
	serve_memory(ipc, &r, sock, pid);
	return false;
}

static void serve_next(struct simnpu_ipc *ipc)
{
	struct hal_peer peer;
	int sock = hal_sys_unix_accept(ipc->listen, &peer);

	if (sock == -EMFILE || sock == -ENFILE || sock == -ENOMEM)
		usleep(1000);	/* he waits, and others give some back */
	if (sock < 0)
		return;
	if (peer.uid != geteuid() || !serve_one(ipc, sock, peer.pid))
		hal_sys_close(hal_sys_get(), sock);
}

static void ipc_free(struct simnpu_ipc *ipc)
{
	const int fds[] = { ipc->stop, ipc->listen, ipc->news };
	struct simnpu_exported *x;
	uint32_t i;
	int mine;

	simnpu_ipc_event_stop(ipc);
	while (!hal_list_empty(&ipc->list)) {
		x = hal_list_entry(ipc->list.next, struct simnpu_exported, node);
		hal_list_del(&x->node);
		free(x);
	}
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		/* of a device that was opened again meanwhile they are others */
		mine = fds[i] + 1;
		atomic_compare_exchange_strong(&forked_fds[ipc->key.device][i], &mine, 0);
		if (fds[i] >= 0)
			hal_sys_close(hal_sys_get(), fds[i]);
	}
	pthread_mutex_destroy(&ipc->lock);
	free(ipc);
}

static void *serve(void *arg)
{
	struct simnpu_ipc *ipc = arg;
	uint64_t deadline, count;
	uint32_t n;

	ipc->poll[0] = (struct pollfd){ ipc->listen, POLLIN, 0 };
	ipc->poll[1] = (struct pollfd){ ipc->stop, POLLIN, 0 };
	ipc->poll[2] = (struct pollfd){ ipc->news, POLLIN, 0 };
	for (;;) {
		n = simnpu_ipc_event_poll(ipc, &deadline);
		if (hal_sys_poll(ipc->poll, 3 + n, deadline) < 0)
			continue;
		if (ipc->poll[1].revents)
			return NULL;
		if (ipc->poll[2].revents)
			hal_sys_read(ipc->news, &count, sizeof(count));
		simnpu_ipc_event_round(ipc, n);
		if (!ipc->left && ipc->poll[0].revents)
			serve_next(ipc);
		if (ipc->left)
			break;
	}
	ipc_free(ipc);
	return NULL;
}

static struct simnpu_ipc *ipc_new(struct simnpu_device *dev)
{
	struct simnpu_ipc *ipc = hal_zalloc(sizeof(*ipc));

	if (!ipc)
		return NULL;
	ipc->sys = dev->sys;
	ipc->fd = dev->fd;
	ipc->listen = ipc->stop = ipc->news = -1;
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
	err = ipc->news = hal_sys_eventfd();
	if (err < 0)
		goto free_ipc;
	err = ipc->listen = hal_sys_unix_listen(name);
	if (err == -EADDRINUSE)
		err = -EBUSY;
	if (err < 0)
		goto free_ipc;
	atomic_store(&forked_fds[ipc->key.device][0], ipc->stop + 1);
	atomic_store(&forked_fds[ipc->key.device][1], ipc->listen + 1);
	atomic_store(&forked_fds[ipc->key.device][2], ipc->news + 1);
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
int simnpu_ipc_start(struct simnpu_device *dev, struct simnpu_ipc **ipc)
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
	hal_store_relaxed(&dev->ipc, NULL);
	/* the last one who looked at a stream of the device */
	if (pthread_equal(pthread_self(), ipc->thread)) {
		pthread_detach(ipc->thread);
		ipc->left = true;
		return;
	}
	hal_sys_write(ipc->stop, &one, sizeof(one));
	pthread_join(ipc->thread, NULL);
	ipc_free(ipc);
}

/* The memory is going to be freed. */
void simnpu_ipc_forget(struct simnpu_device *dev, uint32_t handle)
{
	struct simnpu_ipc *ipc = hal_load_acquire(&dev->ipc);
	struct hal_list *n, *next;
	struct simnpu_exported *x;

	if (likely(!ipc))
		return;
	pthread_mutex_lock(&ipc->lock);
	for (n = ipc->list.next; n != &ipc->list; n = next) {
		next = n->next;
		x = hal_list_entry(n, struct simnpu_exported, node);
		if (x->handle != handle)
			continue;
		hal_list_del(&x->node);
		free(x);
	}
	pthread_mutex_unlock(&ipc->lock);
}

static void key_text(const struct simnpu_ipc_key *k, char *text)
{
	snprintf(text, HAL_IPC_KEY_SIZE, "%s:%u:%x:%" PRIx64 ":%x", k->instance, k->device,
		 k->slot, k->number, k->id);
}

/* A key; HAL_IPC_KEY_SIZE bytes. */
void simnpu_ipc_text(const struct simnpu_ipc *ipc, uint32_t id, char *key)
{
	struct simnpu_ipc_key k = ipc->key;

	k.id = id;
	key_text(&k, key);
}

/* Adds processes to those that may have something: 0 or -ENOSPC. */
int simnpu_ipc_admit(struct simnpu_exported *x, const int32_t *pids, size_t n)
{
	size_t i;

	if (n > SIMNPU_IPC_PIDS - x->count)
		return hal_fail(-ENOSPC, "ipc_allow", "more than %u processes", SIMNPU_IPC_PIDS);
	for (i = 0; i < n; i++)
		x->pids[x->count++] = pids[i];
	return 0;
}

/* The key of a byte; one that has been made already stays the same. */
static int key_of(struct simnpu_ipc *ipc, uint32_t handle, uint64_t offset, bool any,
		  uint32_t *id)
{
	struct simnpu_exported *x = NULL, *new = hal_zalloc(sizeof(*new));
	struct hal_list *n;

	if (!new)
		return -ENOMEM;
	pthread_mutex_lock(&ipc->lock);
	hal_list_for_each(n, &ipc->list) {
		x = hal_list_entry(n, struct simnpu_exported, node);
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
	*id = x->id;
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
	uint32_t id;
	int err;

	/* whether it can be, before anybody is told so */
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_EXPORT, &e);
	if (err)
		return hal_fail(err, "ipc_export", err == -EMFILE ?
				"device %d: %p was allocated while descriptors were scarce" :
				"device %d does not share %p", m->ctx->dev->ordinal, m->addr);
	hal_sys_close(hal_sys_get(), e.fd);
	err = simnpu_ipc_start(dev, &ipc);
	if (!err)
		err = key_of(ipc, handle, offset, flags & HAL_IPC_ANY, &id);
	if (err)
		return hal_fail(err, "ipc_export", "device %d: nobody to hand memory out",
				m->ctx->dev->ordinal);
	simnpu_ipc_text(ipc, id, key);
	return 0;
}

/* Adds processes to those that may have memory: 0, -ENOENT (it has no key), -ENOSPC. */
int simnpu_ipc_allow(struct hal_memory *m, uint32_t handle, const int32_t *pids, size_t n)
{
	struct simnpu_ipc *ipc = hal_load_acquire(&simnpu_device_of(m->ctx)->ipc);
	struct simnpu_exported *x;
	struct hal_list *l;
	int err = -ENOENT;

	if (!ipc)
		return hal_fail(err, "ipc_allow", "no key was made of %p", m->addr);
	pthread_mutex_lock(&ipc->lock);
	hal_list_for_each(l, &ipc->list) {
		x = hal_list_entry(l, struct simnpu_exported, node);
		if (x->handle != handle)
			continue;
		err = simnpu_ipc_admit(x, pids, n);
		if (err)
			break;
	}
	pthread_mutex_unlock(&ipc->lock);
	return err == -ENOENT ? hal_fail(err, "ipc_allow", "no key was made of %p", m->addr) : err;
}

/* ---- the other side ---------------------------------------------------------------------- */

/* Takes a key apart; false: it is none. */
bool simnpu_ipc_parse(const char *text, struct simnpu_ipc_key *k)
{
	char again[HAL_IPC_KEY_SIZE];

	if (sscanf(text, "%31[^:]:%" SCNu32 ":%" SCNx32 ":%" SCNx64 ":%" SCNx32, k->instance,
		   &k->device, &k->slot, &k->number, &k->id) != 5)
		return false;
	/* one spelling alone */
	key_text(k, again);
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
		return simnpu_ipc_failed(-EACCES, "the owner of the key has not allowed this process to");
	default:
		return simnpu_ipc_failed(a->code, "the owner of the key cannot hand it out");
	}
}

/* A socket to who made a key: 0, -EOWNERDEAD, -ETIMEDOUT, -EACCES, or as the system fails. */
int simnpu_ipc_connect(const struct simnpu_ipc_key *k, uint64_t deadline, int *sock)
{
	struct hal_peer peer;
	char name[108];

	socket_name(name, sizeof(name), k);
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
	return err == -EPIPE ? simnpu_ipc_failed(-EOWNERDEAD, "the owner of the key hangs up") : err;
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
	*handle = i.handle;
	m->addr = (void *)(uintptr_t)i.addr;
	m->size = a.size <= i.size ? a.size : i.size;
	m->real_size = i.size;
	m->entry = a.offset < m->size ? a.offset : 0;
	return 0;
}
