// SPDX-License-Identifier: MIT
/*
 * Events that processes share. Who waits for one asks its owner, at a socket of its
 * own for each wait: the answer comes when the point is reached, and if the owner
 * ends instead the socket tells. The thread that hands memory out takes care of
 * both sides: of those who ask, and of the streams of this process that wait.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/simnpu/ipc.h"
#include "hal/log.h"
#include "hal/point.h"

#define FDS_MAX 65536u
/* How often waits are looked through for those whose task was discarded. */
#define SWEEP_MS 1000

/**
 * struct wait - a stream's wait for an event of another process
 * @node: in waits
 * @ipc: whose thread takes care of it
 * @id: its number
 * @sock: where the answer comes, -1: it has come
 * @code: the answer
 * @again: it was asked for a second time
 * @key: by what it is asked for
 * @at: and of which point
 * @begun: its turn has come
 * @submitted: its task is in the stream
 * @point: its task
 */
struct wait {
	struct hal_list node;
	struct simnpu_ipc *ipc;
	uint64_t id;
	int sock;
	int code;
	bool again;
	char key[HAL_IPC_KEY_SIZE];
	struct hal_point at;
	bool begun;
	bool submitted;
	struct hal_point point;
};

/* Protects: all that follows, but fds. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hal_list events = { &events, &events };	/* struct simnpu_exported */
static struct hal_list waits = { &waits, &waits };
static uint32_t last_event;
static uint64_t last_wait;

/*
 * Descriptors that the child of a fork must not keep, a bit each: sockets, or they would not tell
 * of an end, and memory.
 */
static _Atomic uint64_t fds[FDS_MAX / 64];

/* Returns the descriptor. */
int simnpu_ipc_fd_note(int fd)
{
	if ((uint32_t)fd < FDS_MAX)
		atomic_fetch_or(&fds[(uint32_t)fd / 64], 1ull << (uint32_t)fd % 64);
	return fd;
}

/* The opposite, and closes it. */
void simnpu_ipc_fd_close(int fd)
{
	if ((uint32_t)fd < FDS_MAX)
		atomic_fetch_and(&fds[(uint32_t)fd / 64], ~(1ull << (uint32_t)fd % 64));
	hal_sys_close(hal_sys_get(), fd);
}

/* In the child of a fork. */
void simnpu_ipc_event_fork_child(void)
{
	uint64_t bits;
	uint32_t i;

	for (i = 0; i < FDS_MAX / 64; i++)
		for (bits = atomic_exchange(&fds[i], 0); bits; bits &= bits - 1)
			hal_sys_get()->close((int)(i * 64 + (uint32_t)__builtin_ctzll(bits)));
}

static void wake(struct simnpu_ipc *ipc)
{
	const uint64_t one = 1;

	hal_sys_write(ipc->news, &one, sizeof(one));
}

/* ---- the owner's side ------------------------------------------------------------------ */

/* What an event was exported as; id 0: under any, secret or not. */
static struct simnpu_exported *find_event_locked(uint64_t event, bool secret, uint32_t id)
{
	struct simnpu_exported *x;
	struct hal_list *n;

	hal_list_for_each(n, &events) {
		x = hal_list_entry(n, struct simnpu_exported, node);
		if (id ? x->id == id : x->event == event && x->secret == secret)
			return x;
	}
	return NULL;
}

static void forget_locked(struct simnpu_exported *x)
{
	hal_list_del(&x->node);
	free(x);
}

/* Those that were destroyed meanwhile are forgotten. */
static void purge_locked(void)
{
	struct hal_list *n, *next;

	hal_list_for_each_safe(n, next, &events) {
		struct simnpu_exported *x = hal_list_entry(n, struct simnpu_exported, node);

		if (!hal_ipc_event_alive(x->event))
			forget_locked(x);
	}
}

static uint32_t new_id_locked(bool secret)
{
	uint32_t id;

	do {
		id = (secret ? hal_sys_random() : ++last_event) | SIMNPU_IPC_EVENT;
	} while (find_event_locked(0, secret, id));
	return id;
}

/* As struct hal_event_ops says. */
int simnpu_ipc_event_export(struct hal_context *ctx, uint64_t event, uint32_t flags, char *key)
{
	struct simnpu_exported *x, *new = hal_zalloc(sizeof(*new));
	struct simnpu_ipc *ipc;
	int err = new ? simnpu_ipc_start(simnpu_device_of(ctx), &ipc) : -ENOMEM;

	if (err) {
		free(new);
		return hal_fail(err, "ipc_export_event", "device %d: nobody to answer for it",
				ctx->dev->ordinal);
	}
	pthread_mutex_lock(&lock);
	x = find_event_locked(event, flags & HAL_IPC_SECRET, 0);
	if (!x) {
		purge_locked();
		x = new;
		new = NULL;
		x->ipc = ipc;
		x->event = event;
		x->secret = flags & HAL_IPC_SECRET;
		x->id = new_id_locked(x->secret);
		hal_list_add_tail(&events, &x->node);
	}
	x->any |= flags & (HAL_IPC_ANY | HAL_IPC_SECRET);
	simnpu_ipc_text(x, key);
	pthread_mutex_unlock(&lock);
	free(new);
	return 0;
}

int simnpu_ipc_event_allow(uint64_t event, const int32_t *pids, size_t n)
{
	struct simnpu_exported *x;
	int err;

	pthread_mutex_lock(&lock);
	x = find_event_locked(event, false, 0);
	err = x ? simnpu_ipc_admit(x, pids, n) : -ENOENT;
	pthread_mutex_unlock(&lock);
	return err == -ENOENT ? hal_fail(err, "ipc_allow", "no key was made of event 0x%llx",
					 (unsigned long long)event) : err;
}

static int answer(int sock, int code)
{
	int32_t c = code;

	return hal_sys_unix_send(sock, &c, sizeof(c), -1);
}

/* Keeps who asks until the point is reached. */
static int keep(struct simnpu_ipc *ipc, uint64_t event, const struct hal_point *p, int sock)
{
	int err = ipc->askers == SIMNPU_IPC_WAITS ? -ENOSPC : hal_point_notify(p, ipc->news);

	if (err)
		return err;
	simnpu_ipc_fd_note(sock);
	ipc->asker[ipc->askers++] = (struct simnpu_ipc_asker){ sock, event, *p };
	return 0;
}

static void hand_out_page(uint64_t event, int sock, int code)
{
	struct simnpu_ipc_answer a = { .code = code };
	int fd = code ? -1 : hal_ipc_event_fd(event);

	if (!code && fd < 0)
		a.code = fd;
	hal_sys_unix_send(sock, &a, sizeof(a), fd);
	if (fd >= 0)
		hal_sys_close(hal_sys_get(), fd);
}

/**
 * simnpu_ipc_event_serve() - somebody asks about an event
 * @ipc: of the thread that answers
 * @r: what he asks
 * @sock: where he is
 * @pid: who he is
 *
 * Return: whether the socket is kept: he waits.
 */
bool simnpu_ipc_event_serve(struct simnpu_ipc *ipc, const struct simnpu_ipc_request *r, int sock,
			    pid_t pid)
{
	const struct simnpu_exported *x;
	uint64_t event = 0;
	int code;

	pthread_mutex_lock(&lock);
	x = find_event_locked(0, false, r->id);
	code = !x ? -ESTALE : simnpu_ipc_may(x, pid) ? 0 : -EACCES;
	if (x)
		event = x->event;
	pthread_mutex_unlock(&lock);
	if (r->kind == SIMNPU_IPC_GET) {
		hand_out_page(event, sock, code);
		return false;
	}
	if (!code)
		code = hal_ipc_event_alive(event) ? hal_ipc_event_state(event, &r->point) :
		       -ESTALE;
	if (code == -EINPROGRESS && r->kind == SIMNPU_IPC_WAIT) {
		code = keep(ipc, event, &r->point, sock);
		if (!code)
			return true;
	}
	answer(sock, code);
	return false;
}

/* Answers those whose points are reached, and lets those go who have ended. */
static void look_at_askers(struct simnpu_ipc *ipc)
{
	struct simnpu_ipc_asker *a;
	uint32_t i;
	int code;

	/* from the end: the last one takes the place of one that goes */
	for (i = ipc->askers; i--;) {
		a = &ipc->asker[i];
		code = hal_ipc_event_state(a->event, &a->point);
		if (!ipc->poll[3 + i].revents && code == -EINPROGRESS)
			continue;
		if (code != -EINPROGRESS)
			answer(a->sock, code);
		simnpu_ipc_fd_close(a->sock);
		*a = ipc->asker[--ipc->askers];
	}
}

/* ---- the other side: streams that wait -------------------------------------------------- */

static struct wait *find_wait_locked(uint64_t id)
{
	struct hal_list *n;

	hal_list_for_each(n, &waits)
		if (hal_list_entry(n, struct wait, node)->id == id)
			return hal_list_entry(n, struct wait, node);
	return NULL;
}

static void drop_locked(struct wait *w)
{
	if (w->sock >= 0)
		simnpu_ipc_fd_close(w->sock);
	hal_list_del(&w->node);
	free(w);
}

/* The turn of the task has come. */
static void begin(void *arg)
{
	struct wait *w;

	pthread_mutex_lock(&lock);
	w = find_wait_locked((uintptr_t)arg);
	if (w) {
		w->begun = true;
		wake(w->ipc);
	}
	pthread_mutex_unlock(&lock);
}

static int connect_and_ask(const char *text, enum simnpu_ipc_kind kind, const struct hal_point *p,
			   int64_t wait_ms, int *sock)
{
	struct simnpu_ipc_request r = {
		.magic = SIMNPU_IPC_MAGIC, .number = 1, .kind = kind, .point = *p,
	};
	struct simnpu_ipc_key k;
	int err;

	if (!simnpu_ipc_parse(text, &k))
		return simnpu_ipc_failed(-EINVAL, "not a key");
	r.id = k.id;
	err = simnpu_ipc_connect(&k, hal_sys_deadline(wait_ms), sock);
	if (err)
		return err;
	err = hal_sys_unix_send(*sock, &r, sizeof(r), -1);
	if (!err)
		return 0;
	hal_sys_close(hal_sys_get(), *sock);
	return simnpu_ipc_failed(err == -EPIPE || err == -ECONNRESET ? -EOWNERDEAD : err,
				 "no way to the owner of the key");
}

static void take_answer_locked(struct wait *w)
{
	int32_t code;
	int err = hal_sys_unix_recv(w->sock, &code, sizeof(code), NULL), sock;

	if (err == -EAGAIN)
		return;
	simnpu_ipc_fd_close(w->sock);
	w->sock = -1;
	w->code = err ? -EOWNERDEAD : code;
	if (!err || w->again)
		return;
	/* who hangs up is asked again: if he has ended, he is not there then */
	w->again = true;
	w->code = connect_and_ask(w->key, SIMNPU_IPC_WAIT, &w->at, 0, &sock);
	if (!w->code)
		w->sock = simnpu_ipc_fd_note(sock);
}

/* Ends those whose turn and answer have come, and those whose task was discarded. */
static void look_at_waits(struct simnpu_ipc *ipc)
{
	struct hal_list *n, *next, done;
	struct wait *w;

	hal_list_init(&done);
	pthread_mutex_lock(&lock);
	hal_list_for_each_safe(n, next, &waits) {
		w = hal_list_entry(n, struct wait, node);
		if (w->ipc != ipc || !(w->begun || w->submitted))
			continue;
		if (w->begun && w->sock < 0) {
			hal_list_del(&w->node);
			hal_list_add_tail(&done, &w->node);
		} else if (hal_point_passed(&w->point)) {
			drop_locked(w);
		}
	}
	pthread_mutex_unlock(&lock);
	hal_list_for_each_safe(n, next, &done) {
		w = hal_list_entry(n, struct wait, node);
		hal_host_done(&w->point, w->code);
		free(w);
	}
}

/* As struct hal_event_ops says. */
int simnpu_ipc_event_ask(const char *key, const struct hal_point *p, bool wait, int *sock)
{
	/* who only asks does not wait for others that do */
	return wait ? connect_and_ask(key, SIMNPU_IPC_WAIT, p, SIMNPU_IPC_ANSWER_MS, sock) :
	       connect_and_ask(key, SIMNPU_IPC_QUERY, p, 0, sock);
}

static struct wait *wait_new(struct simnpu_ipc *ipc, const char *key, const struct hal_point *at,
			     int sock)
{
	struct wait *w = hal_zalloc(sizeof(*w)), *has;
	struct hal_list *n;
	uint32_t count = 0;

	if (!w)
		return NULL;
	pthread_mutex_lock(&lock);
	hal_list_for_each(n, &waits) {
		has = hal_list_entry(n, struct wait, node);
		count += has->ipc == ipc;
	}
	if (count >= SIMNPU_IPC_WAITS) {
		free(w);
		w = NULL;
	} else {
		w->ipc = ipc;
		w->id = ++last_wait;
		w->sock = simnpu_ipc_fd_note(sock);
		strcpy(w->key, key);
		w->at = *at;
		hal_list_add_tail(&waits, &w->node);
	}
	pthread_mutex_unlock(&lock);
	return w;
}

/* As struct hal_event_ops says. */
int simnpu_ipc_event_wait(struct hal_stream *s, const char *key, const struct hal_point *p,
			  uint64_t place)
{
	struct simnpu_ipc *ipc;
	struct wait *w;
	uint64_t id;
	int sock, err;

	err = simnpu_ipc_start(simnpu_device_of(s->ctx), &ipc);
	if (err)
		return hal_fail(err, "stream_wait", "nobody to wait for another process");
	err = connect_and_ask(key, SIMNPU_IPC_WAIT, p, SIMNPU_IPC_ANSWER_MS, &sock);
	if (err)
		return err;
	w = wait_new(ipc, key, p, sock);
	if (!w) {
		hal_sys_close(hal_sys_get(), sock);
		return hal_fail(-ENOSPC, "stream_wait", "more than %u waits for other processes",
				SIMNPU_IPC_WAITS);
	}
	id = w->id;
	wake(ipc);
	/* it may be through before this returns */
	err = hal_stream_host(s->handle, begin, (void *)(uintptr_t)id, &w->point, place);
	pthread_mutex_lock(&lock);
	w = find_wait_locked(id);
	if (w && w->point.seq)
		w->submitted = true;
	else if (w)
		drop_locked(w);
	pthread_mutex_unlock(&lock);
	return err;
}

/* As struct hal_event_ops says. */
int simnpu_ipc_event_import(struct hal_context *ctx, const char *key, int *fd)
{
	const struct simnpu_info nobody = { .number = 1 };
	struct simnpu_ipc_answer a = { 0 };
	struct simnpu_ipc_key k;
	int sock, err;

	err = simnpu_ipc_key_for(simnpu_device_of(ctx), key, true, &k);
	if (!err)
		err = simnpu_ipc_get(&k, &nobody, &sock, &a, fd);
	if (!err)
		hal_sys_close(hal_sys_get(), sock);
	return err;
}

/* ---- both, for the thread ------------------------------------------------------------------ */

/* Sets the thread's descriptors, and until when it is to wait for them; how many. */
uint32_t simnpu_ipc_event_poll(struct simnpu_ipc *ipc, uint64_t *deadline)
{
	struct pollfd *p = &ipc->poll[3];
	struct hal_list *pos;
	uint32_t n = 0, i;

	for (i = 0; i < ipc->askers; i++)
		p[i] = (struct pollfd){ .fd = ipc->asker[i].sock, .events = POLLIN };
	*deadline = UINT64_MAX;
	pthread_mutex_lock(&lock);
	hal_list_for_each(pos, &waits) {
		struct wait *w = hal_list_entry(pos, struct wait, node);

		if (w->ipc != ipc)
			continue;
		*deadline = hal_sys_deadline(SWEEP_MS);
		if (w->sock < 0)
			continue;
		ipc->wait[n] = w->id;
		p[ipc->askers + n++] = (struct pollfd){ .fd = w->sock, .events = POLLIN };
	}
	pthread_mutex_unlock(&lock);
	return ipc->askers + n;
}

/* Looks after both; n is what simnpu_ipc_event_poll() said. */
void simnpu_ipc_event_round(struct simnpu_ipc *ipc, uint32_t n)
{
	const struct pollfd *p = &ipc->poll[3 + ipc->askers];
	struct wait *w;
	uint32_t i;

	n -= ipc->askers;
	pthread_mutex_lock(&lock);
	for (i = 0; i < n; i++) {
		w = p[i].revents ? find_wait_locked(ipc->wait[i]) : NULL;
		if (w)
			take_answer_locked(w);
	}
	pthread_mutex_unlock(&lock);
	look_at_askers(ipc);
	look_at_waits(ipc);
}

/* The thread ends, or never began. */
void simnpu_ipc_event_stop(struct simnpu_ipc *ipc)
{
	struct hal_list *n, *next;

	while (ipc->askers)
		simnpu_ipc_fd_close(ipc->asker[--ipc->askers].sock);
	pthread_mutex_lock(&lock);
	hal_list_for_each_safe(n, next, &waits)
		if (hal_list_entry(n, struct wait, node)->ipc == ipc)
			drop_locked(hal_list_entry(n, struct wait, node));
	hal_list_for_each_safe(n, next, &events)
		if (hal_list_entry(n, struct simnpu_exported, node)->ipc == ipc)
			forget_locked(hal_list_entry(n, struct simnpu_exported, node));
	pthread_mutex_unlock(&lock);
}
