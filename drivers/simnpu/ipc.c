// SPDX-License-Identifier: MIT
/*
 * What processes share, by keys. Who makes the first key of a device
 * starts a thread, which hands descriptors of memory to those who show a key and
 * may have it; the other side asks it, and puts the memory at its own addresses.
 *
 * A key is INSTANCE:DEVICE:SLOT:NUMBER:ID, and of memory that is for all, as long as there is room,
 * @PID:FD:OBJECT:SIZE:OFFSET: there it is found in /proc, without waking its owner; where it is not
 * he is asked after all, and knows why. The slot and number of its maker are in the
 * name that the thread listens at, so a key of a process that is no more leads to
 * nobody. The name is abstract: no file is left behind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* The abstract name that the maker of a key listens at. */
void simnpu_ipc_name(char *name, size_t size, const struct simnpu_ipc_key *k)
{
	snprintf(name, size, "simnpu-%u-%s-%x-%" PRIx64, geteuid(), k->instance, k->slot,
		 k->number);
}

/* ---- the owner's side ------------------------------------------------------------------ */

static void exported_free(struct simnpu_exported *x)
{
	hal_list_del(&x->node);
	if (x->at.pid)
		simnpu_ipc_fd_close((int)x->at.fd);
	free(x);
}

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

	while (!hal_list_empty(&ipc->list)) {
		x = hal_list_entry(ipc->list.next, struct simnpu_exported, node);
		exported_free(x);
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
	simnpu_ipc_event_stop(ipc);
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
	simnpu_ipc_name(name, sizeof(name), &ipc->key);
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
	simnpu_ipc_event_stop(ipc);
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
		if (x->handle == handle)
			exported_free(x);
	}
	pthread_mutex_unlock(&ipc->lock);
}

/* The text of a key; HAL_IPC_KEY_SIZE bytes. */
void simnpu_ipc_key_text(const struct simnpu_ipc_key *k, char *text)
{
	int n = snprintf(text, HAL_IPC_KEY_SIZE, "%s:%u:%x:%" PRIx64 ":%x", k->instance, k->device,
			 k->slot, k->number, k->id);
	size_t room = (size_t)(HAL_IPC_KEY_SIZE - n);

	if (k->at.pid && (size_t)snprintf(text + n, room, "@%x:%x:%" PRIx64 ":%" PRIx64 ":%" PRIx64,
					  k->at.pid, k->at.fd, k->at.object, k->at.size,
					  k->at.offset) >= room)
		text[n] = 0;
}

/* A key; HAL_IPC_KEY_SIZE bytes. */
void simnpu_ipc_text(const struct simnpu_exported *x, char *key)
{
	struct simnpu_ipc_key k = x->ipc->key;

	k.id = x->id;
	k.at = x->at;
	simnpu_ipc_key_text(&k, key);
}

/* Where others find memory that is for all; takes the descriptor over. */
static void show_locked(struct simnpu_exported *x, int fd, uint64_t size)
{
	struct stat st;

	if (!x->any || x->at.pid || hal_sys_fstat(fd, &st)) {
		hal_sys_close(hal_sys_get(), fd);
		return;
	}
	x->at = (struct simnpu_ipc_place){
		.pid = (uint32_t)getpid(), .fd = (uint32_t)simnpu_ipc_fd_note(fd),
		.object = st.st_ino, .size = size, .offset = x->offset,
	};
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
static int key_of(struct simnpu_ipc *ipc, const struct simnpu_export *e, uint64_t offset, bool any,
		  char *key)
{
	struct simnpu_exported *x = NULL, *new = hal_zalloc(sizeof(*new));
	struct hal_list *n;

	if (!new) {
		hal_sys_close(hal_sys_get(), e->fd);
		return -ENOMEM;
	}
	pthread_mutex_lock(&ipc->lock);
	hal_list_for_each(n, &ipc->list) {
		x = hal_list_entry(n, struct simnpu_exported, node);
		if (x->handle == e->handle && x->offset == offset)
			break;
		x = NULL;
	}
	if (!x) {
		x = new;
		new = NULL;
		x->id = ++ipc->last_id;
		x->ipc = ipc;
		x->handle = e->handle;
		x->offset = offset;
		hal_list_add_tail(&ipc->list, &x->node);
	}
	x->any |= any;
	show_locked(x, e->fd, e->size);
	simnpu_ipc_text(x, key);
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
	int err;

	/* whether it can be, before anybody is told so */
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_EXPORT, &e);
	if (err)
		return hal_fail(err, "ipc_export", err == -EMFILE ?
				"device %d: %p was allocated while descriptors were scarce" :
				"device %d does not share %p", m->ctx->dev->ordinal, m->addr);
	err = simnpu_ipc_start(dev, &ipc);
	if (err)
		hal_sys_close(hal_sys_get(), e.fd);
	else
		err = key_of(ipc, &e, offset, flags & HAL_IPC_ANY, key);
	if (err)
		return hal_fail(err, "ipc_export", "device %d: nobody to hand memory out",
				m->ctx->dev->ordinal);
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
