// SPDX-License-Identifier: MIT
/*
 * Events that processes share. Owner and importers map a page, where the owner says
 * which point the event means, and whether that is known to be reached; what else
 * there is to know the importers ask him.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hal/internal.h"
#include "hal/ipc.h"
#include "hal/sys_unix.h"

#define PAGE_BYTES 4096u
/* How long a query waits for the owner's answer. */
#define QUERY_MS 20

/**
 * struct page - what both sides map
 * @version: which record is the last, 0: there is none; the owner may end at any moment, so that
 *	nothing is ever half written that this says
 * @done: a version whose point was reached, with no failure
 * @at: its point, by version % 2
 */
struct page {
	uint32_t version;
	uint32_t done;
	struct hal_point at[2];
};

/**
 * struct hal_ipc_event - an event's part that is shared
 * @ref: references
 * @drv: the driver that knows the way
 * @page: the page; the owner alone writes there
 * @fd: the owner's: a descriptor of the page
 * @key: the importer's: what it was imported by
 */
struct hal_ipc_event {
	struct kref ref;
	const struct hal_driver *drv;
	struct page *page;
	int fd;
	char key[HAL_IPC_KEY_SIZE];
};

static void release(struct kref *ref)
{
	struct hal_ipc_event *e = container_of(ref, struct hal_ipc_event, ref);

	if (e->page)
		hal_sys_munmap(hal_sys_get(), e->page, PAGE_BYTES);
	if (e->fd >= 0)
		hal_sys_close(hal_sys_get(), e->fd);
	free(e);
}

void hal_ipc_event_put(struct hal_ipc_event *e)
{
	if (e)
		kref_put(&e->ref, release);
}

/* Takes the descriptor of the page over. */
static struct hal_ipc_event *new_part(const struct hal_driver *drv, int fd, int prot, int *rc)
{
	struct hal_ipc_event *e = hal_zalloc(sizeof(*e));
	uint64_t size;
	void *p;

	*rc = -ENOMEM;
	if (!e) {
		hal_sys_close(hal_sys_get(), fd);
		return NULL;
	}
	kref_init(&e->ref);
	e->drv = drv;
	e->fd = fd;
	*rc = -EPROTO;
	if (hal_sys_is_fixed(fd, &size) && size == PAGE_BYTES)
		*rc = hal_sys_mmap(hal_sys_get(), PAGE_BYTES, prot, MAP_SHARED, fd, 0, &p);
	if (!*rc)
		e->page = p;
	if (!*rc)
		return e;
	hal_ipc_event_put(e);
	return NULL;
}

/* The shared part of an event of which the slot's flags say that it has one, with a reference. */
static struct hal_ipc_event *get(struct hal_event_slot *slot, uint64_t event, uint32_t flag)
{
	struct hal_ipc_event *e = NULL;

	hal_spin_lock(&slot->slot.lock);
	/* relaxed: under the lock */
	if ((!event || hal_slot_is(&slot->slot, event)) && hal_load_relaxed(&slot->flags) & flag)
		e = hal_load_relaxed(&slot->slot.obj);
	if (e)
		kref_get(&e->ref);
	hal_spin_unlock(&slot->slot.lock);
	return e;
}

/* ---- the owner's side ------------------------------------------------------------------ */

void hal_ipc_event_recorded(struct hal_ipc_event *e, uint64_t stream, uint64_t seq)
{
	uint32_t v = hal_shm_load_relaxed(&e->page->version) + 1;

	v += !v;
	/* release: not before the version before; and the version not before the point */
	hal_shm_store_release(&e->page->at[v % 2].stream, stream);
	hal_shm_store_release(&e->page->at[v % 2].seq, seq);
	hal_shm_store_release(&e->page->version, v);
}

static int no_file(int rc, const char *op)
{
	return hal_fail(rc == -EMFILE || rc == -ENFILE ? -EMFILE : -ENOMEM, op,
			"no file for the event");
}

/* Gives the event its page. */
static int make_page(struct hal_context *ctx, uint64_t event, struct hal_event_slot *slot)
{
	struct hal_ipc_event *e = get(slot, event, NPU_EVENT_IPC), *mine = NULL;
	int rc, fd;

	if (e) {
		hal_ipc_event_put(e);
		return 0;
	}
	rc = fd = hal_sys_memfd_fixed("npu-event", PAGE_BYTES);
	if (fd >= 0)
		mine = new_part(ctx->dev->drv, fd, PROT_READ | PROT_WRITE, &rc);
	if (!mine)
		return no_file(rc, "ipc_export_event");
	hal_spin_lock(&slot->slot.lock);
	/* relaxed: under the lock */
	if (hal_slot_is(&slot->slot, event) && !hal_load_relaxed(&slot->slot.obj)) {
		if (hal_load_relaxed(&slot->seq))
			hal_ipc_event_recorded(mine, hal_load_relaxed(&slot->stream),
					       hal_load_relaxed(&slot->seq));
		hal_store_relaxed(&slot->slot.obj, mine);
		mine = NULL;
	}
	hal_spin_unlock(&slot->slot.lock);
	hal_ipc_event_put(mine);
	return 0;
}

static int find(uint64_t event, const char *op, struct hal_event_slot **slot)
{
	uint32_t flags;

	*slot = hal_event_slot_at(event);
	if (!*slot || !hal_slot_is(&(*slot)->slot, event))
		return hal_handle_error(HAL_HANDLE_EVENT, event, op);
	/* relaxed: set before the handle was published */
	flags = hal_load_relaxed(&(*slot)->flags);
	if (flags & HAL_EVENT_FOREIGN)
		return hal_fail(-EOPNOTSUPP, op, "event 0x%llx is imported: its owner alone makes "
				"keys of it", (unsigned long long)event);
	if (!(flags & NPU_EVENT_IPC))
		return hal_fail(-EINVAL, op, "event 0x%llx was made without NPU_EVENT_IPC",
				(unsigned long long)event);
	return 0;
}

static int make_key(struct hal_context *ctx, uint64_t event, uint32_t flags, char *key,
		    const char *op)
{
	struct hal_event_slot *slot;
	uint32_t fills;
	int rc;

	rc = hal_ipc_need(ctx->dev, NPU_CAP_IPC_EVENT, op);
	if (!rc)
		rc = find(event, op, &slot);
	if (!rc)
		rc = hal_device_usable(ctx->dev, op);
	if (!rc)
		rc = make_page(ctx, event, slot);
	if (rc)
		return rc;
	fills = hal_fills();
	rc = ctx->dev->drv->event->export_key(ctx, event, flags, key);
	if (rc) {
		key[0] = 0;
		hal_driver_failed(rc, op, ctx->dev, fills);
	}
	return rc;
}

/**
 * hal_ipc_export_event() - make a key of an event
 * @ctx: a context of the device whose name is in the key
 * @event: the event, made with NPU_EVENT_IPC
 * @flags: HAL_IPC_ANY or 0
 * @key: out: HAL_IPC_KEY_SIZE bytes; empty on failure
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EOPNOTSUPP, -EMFILE, -ENOMEM, -EBUSY, the device's state.
 */
int hal_ipc_export_event(struct hal_context *ctx, uint64_t event, uint32_t flags, char *key)
{
	static const char op[] = "ipc_export_event";

	key[0] = 0;
	if (flags & ~HAL_IPC_ANY)
		return hal_fail(-EINVAL, op, "flags 0x%x", flags);
	return make_key(ctx, event, flags, key, op);
}

/**
 * hal_ipc_export_event_fd() - make a descriptor that stands for an event
 * @ctx: a context of the device by whose name it is asked for
 * @event: the event, made with NPU_EVENT_IPC
 * @fd: out: the descriptor, close-on-exec; -1 on failure
 *
 * It is of a file with a key that nobody else knows.
 * Return: as hal_ipc_export_event().
 */
int hal_ipc_export_event_fd(struct hal_context *ctx, uint64_t event, int *fd)
{
	static const char op[] = "ipc_export_event_fd";
	char key[HAL_IPC_KEY_SIZE] = "";
	int rc, file;

	*fd = -1;
	rc = make_key(ctx, event, HAL_IPC_SECRET, key, op);
	if (rc)
		return rc;
	file = hal_sys_memfd_fixed("npu-event-key", sizeof(key));
	if (file < 0)
		return no_file(file, op);
	rc = hal_sys_write(file, key, sizeof(key));
	if (!rc) {
		*fd = file;
		return 0;
	}
	hal_sys_close(hal_sys_get(), file);
	return no_file(rc, op);
}

/**
 * hal_ipc_allow_event() - let processes import an event
 * @event: the event
 * @pids: the processes
 * @n: how many
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EOPNOTSUPP, -ENOENT (it has no key), -ENOSPC.
 */
int hal_ipc_allow_event(uint64_t event, const int32_t *pids, size_t n)
{
	static const char op[] = "ipc_allow_event";
	struct hal_event_slot *slot;
	struct hal_ipc_event *e;
	int rc = hal_ipc_check_pids(pids, n, op);

	if (!rc)
		rc = find(event, op, &slot);
	if (rc)
		return rc;
	e = get(slot, event, NPU_EVENT_IPC);
	if (!e)
		return hal_fail(-ENOENT, op, "no key was made of event 0x%llx",
				(unsigned long long)event);
	rc = e->drv->event->allow(event, pids, n);
	hal_ipc_event_put(e);
	return rc;
}

/* For drivers: whether an event is still there that was exported. */
bool hal_ipc_event_alive(uint64_t event)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);

	return slot && hal_slot_is(&slot->slot, event);
}

/* A descriptor of the page of an event, the caller's; -ESTALE: it was destroyed. */
int hal_ipc_event_fd(uint64_t event)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	struct hal_ipc_event *e = slot ? get(slot, event, NPU_EVENT_IPC) : NULL;
	int fd = e ? hal_sys_dup(e->fd) : -ESTALE;

	hal_ipc_event_put(e);
	return fd;
}

/**
 * hal_ipc_event_state() - what has become of a point of an event of this process
 * @event: the event
 * @p: the point
 *
 * Return: as hal_point_query(); -ESTALE: the event was destroyed, and the point not reached before.
 */
int hal_ipc_event_state(uint64_t event, const struct hal_point *p)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	int rc = hal_point_query(p);
	struct hal_ipc_event *e;

	if (rc || !slot)
		return rc;
	hal_spin_lock(&slot->slot.lock);
	e = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
	if (hal_slot_is(&slot->slot, event) && e && hal_load_relaxed(&slot->seq) == p->seq &&
	    hal_load_relaxed(&slot->stream) == p->stream)
		/* release: who sees it sees what was done before the point */
		hal_shm_store_release(&e->page->done, hal_shm_load_relaxed(&e->page->version));
	hal_spin_unlock(&slot->slot.lock);
	return 0;
}

/* ---- the other side ---------------------------------------------------------------------- */

static int can_import(struct hal_context *ctx, uint64_t *event, const char *op)
{
	int rc;

	*event = 0;
	rc = hal_ipc_need(ctx->dev, NPU_CAP_IPC_EVENT, op);
	return rc ? rc : hal_device_usable(ctx->dev, op);
}

/* The event that a key names. */
static int import(struct hal_context *ctx, const char *key, uint64_t *event, const char *op)
{
	struct hal_ipc_event *e;
	uint32_t fills;
	int rc, fd = -1;

	if (strnlen(key, HAL_IPC_KEY_SIZE) == HAL_IPC_KEY_SIZE)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "longer than any key");
	fills = hal_fills();
	rc = ctx->dev->drv->event->import_key(ctx, key, &fd);
	if (rc)
		return hal_driver_failed(rc, op, ctx->dev, fills);
	e = new_part(ctx->dev->drv, fd, PROT_READ, &rc);
	if (!e)
		return hal_fail_at(rc, op, ctx->dev, 0, "the page of the event can't be mapped");
	hal_sys_close(hal_sys_get(), e->fd);
	e->fd = -1;
	strcpy(e->key, key);
	rc = hal_event_adopt(e, ctx->dev, event);
	if (rc)
		hal_ipc_event_put(e);
	return rc;
}

/**
 * hal_ipc_import_event() - get the event that a key names
 * @ctx: a context of the device that the key is of
 * @key: the key
 * @event: out: its handle, 0 on failure
 *
 * Return: 0, -EINVAL, -EXDEV, -EOWNERDEAD, -ESTALE, -EACCES, -ETIMEDOUT, -ENOSPC, -ENOMEM, -EMFILE,
 * -EOPNOTSUPP, the device's state.
 */
int hal_ipc_import_event(struct hal_context *ctx, const char *key, uint64_t *event)
{
	static const char op[] = "ipc_import_event";
	int rc = can_import(ctx, event, op);

	return rc ? rc : import(ctx, key, event, op);
}

/**
 * hal_ipc_import_event_fd() - get the event that a descriptor stands for
 * @ctx: a context of the device by whose name it is asked for
 * @fd: the descriptor; stays the caller's
 * @event: out: its handle, 0 on failure
 *
 * Return: as hal_ipc_import_event().
 */
int hal_ipc_import_event_fd(struct hal_context *ctx, int fd, uint64_t *event)
{
	static const char op[] = "ipc_import_event_fd";
	int rc = can_import(ctx, event, op);
	char key[HAL_IPC_KEY_SIZE];
	uint64_t size;
	void *p;

	if (rc)
		return rc;
	if (!hal_sys_is_fixed(fd, &size) || size != sizeof(key))
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "descriptor %d is none of an event",
				   fd);
	rc = hal_sys_mmap(hal_sys_get(), sizeof(key), PROT_READ, MAP_SHARED, fd, 0, &p);
	if (rc)
		return hal_fail_at(rc == -EACCES ? -EINVAL : rc, op, ctx->dev, 0,
				   "descriptor %d can't be read", fd);
	memcpy(key, p, sizeof(key));
	hal_sys_munmap(hal_sys_get(), p, sizeof(key));
	return import(ctx, key, event, op);
}

/* The last record; 0: it is done. */
static int last_record(const struct hal_ipc_event *e, struct hal_point *p)
{
	uint32_t v;

	do {
		v = hal_shm_load_acquire(&e->page->version);
		p->stream = hal_shm_load_acquire(&e->page->at[v % 2].stream);
		p->seq = hal_shm_load_acquire(&e->page->at[v % 2].seq);
	} while (hal_shm_load_acquire(&e->page->version) != v);
	return v && hal_shm_load_acquire(&e->page->done) != v ? -EINPROGRESS : 0;
}

static struct hal_ipc_event *importer(const struct hal_point *p, const char *op, int *rc)
{
	struct hal_event_slot *slot = (struct hal_event_slot *)(uintptr_t)p->stream;
	struct hal_ipc_event *e = get(slot, 0, HAL_EVENT_FOREIGN);

	*rc = e ? 0 : hal_fail(-ESTALE, op, "the event was destroyed");
	return e;
}

/*
 * One question; -EAGAIN: not answered in time; -EPIPE: he has ended, or hangs up; 1: it could not
 * be asked, the code says why and so does the record.
 */
static int ask_once(const struct hal_ipc_event *e, const struct hal_point *at, bool wait,
		    uint64_t deadline, int32_t *code)
{
	struct pollfd p = { .events = POLLIN };
	int rc = e->drv->event->ask(e->key, at, wait, &p.fd);

	if (rc) {
		*code = rc;
		return 1;
	}
	rc = hal_sys_poll(&p, 1, deadline);
	if (rc > 0)
		rc = hal_sys_unix_recv(p.fd, code, sizeof(*code), NULL);
	else
		rc = rc ? rc : -EAGAIN;
	hal_sys_close(hal_sys_get(), p.fd);
	return rc == -ECONNRESET ? -EPIPE : rc;
}

/* Asks the owner; -EAGAIN: he has not answered in time. */
static int ask(const struct hal_ipc_event *e, const struct hal_point *at, bool wait,
	       uint64_t deadline, const char *op)
{
	int32_t code = 0;
	unsigned int tries;
	int rc = -EPIPE;

	/* who hangs up is asked again: if he has ended, he is not there then */
	for (tries = 0; tries < 2 && rc == -EPIPE; tries++)
		rc = ask_once(e, at, wait, deadline, &code);
	if (rc == -EAGAIN || rc == 1)
		return rc == 1 ? code : rc;
	if (rc == -EPIPE)
		return hal_fail(-EOWNERDEAD, op, "the owner of the event has ended");
	if (rc)
		return hal_fail(rc, op, "no answer of the owner of the event");
	if (code && code != -EINPROGRESS)
		return hal_fail(code, op, code == -ESTALE ?
				"the event was destroyed by its owner" :
				"so the owner of the event says");
	return code;
}

/* See hal_event_query(). What is known now says nothing of the next record. */
static int over(const struct hal_point *p, struct hal_ipc_event *e, int rc)
{
	if (!rc)
		hal_event_renew((struct hal_event_slot *)(uintptr_t)p->stream);
	hal_ipc_event_put(e);
	return rc;
}

HAL_COLD int hal_ipc_event_query(const struct hal_point *p)
{
	static const char op[] = "event_query";
	struct hal_ipc_event *e;
	struct hal_point at;
	int rc;

	e = importer(p, op, &rc);
	if (!e)
		return rc;
	rc = last_record(e, &at);
	if (rc)
		rc = ask(e, &at, false, hal_sys_deadline(QUERY_MS), op);
	return over(p, e, rc == -EAGAIN || rc == -ETIMEDOUT ? -EINPROGRESS : rc);
}

HAL_COLD int hal_ipc_event_sync(const struct hal_point *p, int64_t timeout_ms)
{
	static const char op[] = "event_sync";
	struct hal_ipc_event *e;
	struct hal_point at;
	int rc;

	e = importer(p, op, &rc);
	if (!e)
		return rc;
	rc = last_record(e, &at);
	if (rc && timeout_ms && hal_in_callback())
		rc = hal_may_block(op);
	else if (rc)
		rc = ask(e, &at, timeout_ms != 0,
			 hal_sys_deadline(timeout_ms ? timeout_ms : QUERY_MS), op);
	if (rc == -EAGAIN || rc == -EINPROGRESS)
		rc = hal_fail(-ETIMEDOUT, op, "another process's event was not reached in time");
	return over(p, e, rc);
}

HAL_COLD int hal_ipc_event_wait(uint64_t stream, const struct hal_point *p, uint64_t place)
{
	static const char op[] = "stream_wait";
	struct hal_ipc_event *e;
	struct hal_stream *s;
	struct hal_point at;
	int rc;

	e = importer(p, op, &rc);
	if (!e)
		return rc;
	rc = last_record(e, &at);
	if (rc) {
		s = hal_stream_get(stream, op);
		if (!s)
			rc = hal_error_last()->code;
		else if (s->ctx->dev->drv != e->drv)
			rc = hal_fail(-EXDEV, op, "the event is of driver %s", e->drv->name);
		else
			rc = e->drv->event->wait(s, e->key, &at, place);
		hal_stream_put(s);
	}
	hal_ipc_event_put(e);
	return rc;
}
