// SPDX-License-Identifier: MIT
/*
 * Events. An event is a slot with a point in it; recording an untimed one stores
 * the point. A timed one has a part of the driver's beside, for the time.
 */
#include <stdlib.h>

#include "hal/internal.h"

/* How many ended parts one call looks through. */
#define REAP_MAX 16

/*
 * Writers hold the slot's lock. Each store is a release, so that none comes before
 * the version turned odd; readers' loads acquire, so that none comes after the
 * second look at it.
 */
static inline void write_point_locked(struct hal_event_slot *slot, uint64_t stream, uint64_t seq,
				      struct hal_device *dev)
{
	uint32_t v = hal_load_relaxed(&slot->version);	/* relaxed: the lock is held */

	hal_assert_held(&slot->slot.lock, "event");
	hal_store_relaxed(&slot->done, 1);	/* a hint; the version says whether it holds */
	hal_store_relaxed(&slot->version, v + 1);
	hal_store_release(&slot->stream, stream);
	hal_store_release(&slot->seq, seq);
	hal_store_release(&slot->dev, dev);
	hal_store_release(&slot->version, v + 2);
}

HAL_INLINE void read_slot(struct hal_event_slot *slot, struct hal_point *p, uint32_t *version)
{
	uint32_t v;

	for (;;) {
		v = hal_load_acquire(&slot->version);
		p->stream = hal_load_acquire(&slot->stream);
		p->seq = hal_load_acquire(&slot->seq);
		*version = v;
		/* relaxed: the acquire loads before keep it behind them */
		if (likely(!(v & 1) && hal_load_relaxed(&slot->version) == v))
			return;
		hal_cpu_relax();
	}
}

HAL_INLINE bool read_point(uint64_t event, struct hal_point *p)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	uint32_t version;

	if (unlikely(!slot || !hal_slot_is(&slot->slot, event)))
		return false;
	read_slot(slot, p, &version);
	return true;
}

/*
 * Whether the point is known to have completed. Acquire, and a release below: what who saw
 * it completed could see, is seen here, too.
 */
HAL_INLINE bool known_done(struct hal_event_slot *slot)
{
	return hal_load_acquire(&slot->done) == hal_load_relaxed(&slot->version);
}

static int stale(uint64_t event, const char *op)
{
	return hal_handle_error(HAL_HANDLE_EVENT, event, op);
}

/* ---- the driver's part --------------------------------------------------------- */

static void part_free(struct hal_event *e)
{
	struct hal_context *ctx = e->ctx;

	ctx->dev->drv->event->fini(e);
	free(e);
	hal_context_put(ctx);
}

/*
 * A record on its way may still write to the part: it is put aside until that has
 * completed. The last look is under the context's lock, so that a context whose
 * streams are gone finds it either in its list or freed.
 */
static void part_let_go(struct hal_event *e)
{
	struct hal_context *ctx = e->ctx;
	bool done = hal_point_done(&e->last);

	if (!done) {
		pthread_mutex_lock(&ctx->lock);
		done = hal_point_passed(&e->last);
		if (!done) {
			hal_list_add_tail(&ctx->ended_events, &e->node);
			ctx->ended_count++;
		}
		pthread_mutex_unlock(&ctx->lock);
	}
	if (done)
		part_free(e);
}

static void part_release(struct kref *ref)
{
	part_let_go(container_of(ref, struct hal_event, ref));
}

static void part_put(struct hal_event *e)
{
	kref_put(&e->ref, part_release);
}

/* Takes a part out of its context's list, and drops the hold that its slot had. */
static void part_drop(struct hal_event *e)
{
	pthread_mutex_lock(&e->ctx->lock);
	hal_list_del(&e->node);
	pthread_mutex_unlock(&e->ctx->lock);
	part_put(e);
}

/* Takes the first of those put aside; NULL: there is none. *n: how many there were. */
static struct hal_event *next_ended(struct hal_context *ctx, uint32_t *n)
{
	struct hal_event *e = NULL;

	pthread_mutex_lock(&ctx->lock);
	*n = ctx->ended_count;
	if (*n) {
		e = hal_list_entry(ctx->ended_events.next, struct hal_event, node);
		hal_list_del(&e->node);
		ctx->ended_count--;
	}
	pthread_mutex_unlock(&ctx->lock);
	return e;
}

/* Frees parts whose last record has completed. Those that wait go to the end of the list. */
void hal_events_reap(struct hal_context *ctx, bool all)
{
	uint32_t left, n;
	struct hal_event *e;

	e = next_ended(ctx, &left);
	if (!all && left > REAP_MAX)
		left = REAP_MAX;
	while (e) {
		part_let_go(e);
		e = --left ? next_ended(ctx, &n) : NULL;
	}
}

static int part_make(struct hal_context *ctx, uint64_t event, struct hal_event **part)
{
	const struct hal_event_ops *ops = ctx->dev->drv->event;
	struct hal_event *e;
	size_t size;
	uint32_t fills;
	int rc;

	rc = hal_need(ctx->dev, NPU_CAP_EVENT_TIMING, "event_record");
	if (rc)
		return rc;
	hal_events_reap(ctx, false);
	size = ops->obj_size;
	e = hal_zalloc_aligned(HAL_CACHELINE, size > sizeof(*e) ? size : sizeof(*e));
	if (!e)
		return hal_fail_at(-ENOMEM, "event_record", ctx->dev, 0, "no memory for an event");
	kref_init(&e->ref);
	kref_get(&ctx->ref);
	e->ctx = ctx;
	e->handle = event;
	hal_list_init(&e->node);
	fills = hal_fills();
	rc = ops->init(e);
	if (rc == -ENOSPC) {	/* perhaps only because of those that were not yet freed */
		hal_events_reap(ctx, true);
		rc = ops->init(e);
	}
	if (rc) {
		hal_exhausted(rc, HAL_LIMIT_EVENTS, ctx->dev, "event_record", fills);
		free(e);
		hal_context_put(ctx);
		return rc;
	}
	*part = e;
	return 0;
}

/* Puts a part into the event's slot, in place of the one there. */
static int part_install(uint64_t event, struct hal_event *e, struct hal_event **old)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	struct hal_context *ctx = e->ctx;
	struct hal_event *now;
	int rc;

	*old = NULL;
	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, "event_record");
	if (rc) {
		pthread_mutex_unlock(&ctx->lock);
		return rc;
	}
	hal_spin_lock(&slot->slot.lock);
	now = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
	if (!hal_slot_is(&slot->slot, event))
		rc = -ESTALE;
	else if (now && now->ctx->dev != ctx->dev)
		rc = -EXDEV;
	else
		hal_store_relaxed(&slot->slot.obj, e);
	hal_spin_unlock(&slot->slot.lock);
	if (!rc) {
		hal_list_add_tail(&ctx->events, &e->node);
		*old = now;
	}
	pthread_mutex_unlock(&ctx->lock);
	if (rc == -EXDEV)
		return hal_fail_at(rc, "event_record", ctx->dev, 0,
				   "event 0x%llx belongs to another device than %d",
				   (unsigned long long)event, ctx->dev->ordinal);
	return rc ? stale(event, "event_record") : 0;
}

/* Gives the event a part for records in the stream. */
static int part_renew(uint64_t event, uint64_t stream)
{
	struct hal_stream *s = hal_stream_get(stream, "event_record");
	struct hal_event *e = NULL, *old;
	int rc;

	if (!s)
		return hal_error_last()->code;
	rc = part_make(s->ctx, event, &e);
	if (!rc) {
		rc = part_install(event, e, &old);
		if (rc)
			part_put(e);
		else if (old)
			part_drop(old);
	}
	hal_stream_put(s);
	return rc;
}

/* ---- create, destroy -------------------------------------------------------------- */

static int event_new(uint32_t flags, struct hal_ipc_event *part, struct hal_device *dev,
		     uint64_t *event)
{
	struct hal_event_slot *e;
	struct hal_slot *slot;
	int rc = hal_handle_alloc(HAL_HANDLE_EVENT, &slot);

	if (rc)
		return rc;
	e = (struct hal_event_slot *)slot;
	hal_spin_lock(&slot->lock);
	hal_store_relaxed(&e->flags, flags);	/* relaxed: the generation is released behind it */
	write_point_locked(e, part ? (uintptr_t)e : 0, 0, dev);
	*event = hal_handle_publish(HAL_HANDLE_EVENT, slot, part);
	hal_spin_unlock(&slot->lock);
	return 0;
}

/**
 * hal_event_create() - make an event
 * @flags: NPU_EVENT_*
 * @event: out: its handle
 *
 * Return: 0, -EINVAL (unknown flags), -ENOSPC, -ENOMEM.
 */
int hal_event_create(uint32_t flags, uint64_t *event)
{
	*event = 0;
	if (flags & ~NPU_EVENT_FLAGS || (flags & NPU_EVENT_TIMING && flags & NPU_EVENT_IPC))
		return hal_fail(-EINVAL, "event_create", "flags 0x%x", flags);
	return event_new(flags, NULL, NULL, event);
}

int hal_event_adopt(struct hal_ipc_event *e, struct hal_device *dev, uint64_t *event)
{
	return event_new(HAL_EVENT_FOREIGN, e, dev, event);
}

void hal_event_renew(struct hal_event_slot *slot)
{
	hal_spin_lock(&slot->slot.lock);
	/* relaxed: under the lock */
	if (hal_load_relaxed(&slot->flags) & HAL_EVENT_FOREIGN)
		write_point_locked(slot, hal_load_relaxed(&slot->stream), 0,
				   hal_load_relaxed(&slot->dev));
	hal_spin_unlock(&slot->slot.lock);
}

/**
 * hal_event_destroy() - destroy an event
 * @event: the event
 *
 * Pending waits and records keep what they need.
 * Return: 0, -EINVAL, -EBADF, -ESTALE.
 */
int hal_event_destroy(uint64_t event)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	bool found = false;
	void *e = NULL;

	if (slot) {
		hal_spin_lock(&slot->slot.lock);
		found = hal_slot_is(&slot->slot, event);
		if (found) {
			e = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
			hal_handle_retire(HAL_HANDLE_EVENT, &slot->slot);
			hal_store_relaxed(&slot->slot.obj, NULL);
		}
		hal_spin_unlock(&slot->slot.lock);
	}
	if (!found)
		return stale(event, "event_destroy");
	/* relaxed: the slot is ours until it is freed */
	if (e && hal_load_relaxed(&slot->flags) & NPU_EVENT_TIMING)
		part_drop(e);
	else if (e)
		hal_ipc_event_put(e);
	hal_handle_free(HAL_HANDLE_EVENT, &slot->slot);
	return 0;
}

/* The timed events of a context, whose streams are gone, go with it. */
void hal_events_destroy(struct hal_context *ctx)
{
	struct hal_event_slot *slot;
	struct hal_event *e;
	bool ours;

	pthread_mutex_lock(&ctx->lock);
	while (!hal_list_empty(&ctx->events)) {
		e = hal_list_entry(ctx->events.next, struct hal_event, node);
		hal_list_del(&e->node);
		slot = hal_event_slot_at(e->handle);
		hal_spin_lock(&slot->slot.lock);
		/* else somebody destroys or replaces it now, and lets it go */
		ours = hal_slot_is(&slot->slot, e->handle) &&
		       hal_load_relaxed(&slot->slot.obj) == e;
		if (ours) {
			hal_handle_retire(HAL_HANDLE_EVENT, &slot->slot);
			hal_store_relaxed(&slot->slot.obj, NULL);
		}
		hal_spin_unlock(&slot->slot.lock);
		pthread_mutex_unlock(&ctx->lock);
		if (ours) {
			hal_handle_free(HAL_HANDLE_EVENT, &slot->slot);
			part_put(e);
		}
		pthread_mutex_lock(&ctx->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	hal_events_reap(ctx, true);
}

/* Events of a device that is given up are as if never recorded; the driver's parts stay. */
void hal_events_abandon(struct hal_context *ctx)
{
	struct hal_event_slot *slot;
	struct hal_list *n;

	pthread_mutex_lock(&ctx->lock);
	hal_list_for_each(n, &ctx->events) {
		struct hal_event *e = hal_list_entry(n, struct hal_event, node);

		slot = hal_event_slot_at(e->handle);
		hal_spin_lock(&slot->slot.lock);
		if (hal_load_relaxed(&slot->slot.obj) == e) {
			hal_store_relaxed(&slot->slot.obj, NULL);
			write_point_locked(slot, 0, 0, NULL);
		}
		hal_spin_unlock(&slot->slot.lock);
	}
	pthread_mutex_unlock(&ctx->lock);
}

/* ---- record ------------------------------------------------------------------------ */

/* Whether the part takes a record in the stream. No two streams may be about to write to it. */
static bool part_fits(const struct hal_event *e, struct hal_stream_slot *s, uint64_t stream)
{
	if (e->ctx != hal_load_relaxed(&s->ctx))
		return false;
	return hal_handle_index(e->last.stream) == hal_handle_index(stream) ||
	       hal_point_passed(&e->last);
}

static int record_timed(struct hal_event_slot *slot, uint64_t event, struct hal_stream_slot *s,
			uint64_t stream, uint64_t place)
{
	struct hal_submit sub = { .stream = stream, .op = "event_record", .place = place };
	struct hal_event *e;
	int rc;

	for (;;) {
		hal_spin_lock(&slot->slot.lock);
		if (!hal_slot_is(&slot->slot, event)) {
			hal_spin_unlock(&slot->slot.lock);
			return stale(event, sub.op);
		}
		e = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
		if (likely(e && part_fits(e, s, stream))) {
			rc = hal_submit_record(&sub, e);
			if (rc >= 0)
				write_point_locked(slot, stream, sub.seq, e->ctx->dev);
			hal_spin_unlock(&slot->slot.lock);
			if (likely(!rc))
				return 0;
			rc = hal_submit_settle(&sub, rc);
		} else {
			hal_spin_unlock(&slot->slot.lock);
			rc = part_renew(event, stream);
			if (!rc)
				rc = HAL_SUBMIT_AGAIN;
		}
		if (rc != HAL_SUBMIT_AGAIN)
			return rc;
	}
}

/* One that other processes see, or one of theirs. */
static HAL_COLD int record_shared(struct hal_event_slot *slot, uint64_t event,
				  struct hal_stream_slot *s, uint64_t stream)
{
	struct hal_device *dev = hal_load_relaxed(&s->dev);	/* relaxed: compared */
	uint64_t seq = hal_load_acquire(&s->next_seq) - 1;
	struct hal_ipc_event *e;

	if (hal_load_relaxed(&slot->flags) & HAL_EVENT_FOREIGN)
		return hal_fail(-EACCES, "event_record", "event 0x%llx is imported: its owner "
				"alone records it", (unsigned long long)event);
	hal_spin_lock(&slot->slot.lock);
	if (!hal_slot_is(&slot->slot, event)) {
		hal_spin_unlock(&slot->slot.lock);
		return stale(event, "event_record");
	}
	write_point_locked(slot, stream, seq, dev);
	e = hal_load_relaxed(&slot->slot.obj);	/* relaxed: under the lock */
	if (e)
		hal_ipc_event_recorded(e, stream, seq);
	hal_spin_unlock(&slot->slot.lock);
	return 0;
}

/**
 * hal_event_record() - record an event
 * @event: the event
 * @stream: in which stream
 * @place: code address of the caller
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EACCES (imported); of a timed event also -EXDEV,
 * -EOPNOTSUPP, -ENOSPC, -ENOMEM, -EAGAIN, -ETIMEDOUT, the device's state.
 */
int hal_event_record(uint64_t event, uint64_t stream, uint64_t place)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	struct hal_stream_slot *s = hal_stream_slot_at(stream);
	struct hal_device *dev;
	uint64_t seq;

	if (unlikely(!slot || !hal_slot_is(&slot->slot, event)))
		return stale(event, "event_record");
	if (unlikely(!s || !hal_slot_is(&s->slot, stream)))
		return hal_handle_error(HAL_HANDLE_STREAM, stream, "event_record");
	/* relaxed: set before the handle was published */
	if (hal_load_relaxed(&slot->flags) & HAL_EVENT_SPECIAL)
		return hal_load_relaxed(&slot->flags) & NPU_EVENT_TIMING ?
		       record_timed(slot, event, s, stream, place) :
		       record_shared(slot, event, s, stream);

	seq = hal_load_acquire(&s->next_seq) - 1;
	dev = hal_load_relaxed(&s->dev);	/* relaxed: compared, not followed */
	hal_spin_lock(&slot->slot.lock);
	if (unlikely(!hal_slot_is(&slot->slot, event))) {
		hal_spin_unlock(&slot->slot.lock);
		return stale(event, "event_record");
	}
	write_point_locked(slot, stream, seq, dev);
	hal_spin_unlock(&slot->slot.lock);
	return 0;
}

/* ---- query, wait ---------------------------------------------------------------------- */

/**
 * hal_event_point() - the point of the last record
 * @event: the event
 * @p: out: the point; seq 0: never recorded
 * @op: for the error record
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE.
 */
int hal_event_point(uint64_t event, struct hal_point *p, const char *op)
{
	if (likely(read_point(event, p)))
		return 0;
	*p = (struct hal_point){ 0 };
	return stale(event, op);
}

static __attribute__((noinline)) int query_slot(struct hal_event_slot *slot)
{
	struct hal_point p;
	uint32_t version;
	int rc;

	read_slot(slot, &p, &version);
	if (likely(p.seq))
		rc = hal_slot_query(hal_stream_slot_at(p.stream), &p);
	else
		rc = hal_point_foreign(&p) ? hal_ipc_event_query(&p) : 0;
	if (!rc)
		hal_store_release(&slot->done, version);
	return rc;
}

/**
 * hal_event_query() - whether the last record has completed
 * @event: the event
 *
 * Return: 0, -EINPROGRESS, the errno of the first failure up to it that nobody was told of,
 * -EINVAL, -EBADF, -ESTALE.
 */
int hal_event_query(uint64_t event)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);

	if (unlikely(!slot || !hal_slot_is(&slot->slot, event)))
		return stale(event, "event_query");
	return likely(known_done(slot)) ? 0 : query_slot(slot);
}

/**
 * hal_event_sync() - wait until the last record has completed
 * @event: the event
 * @timeout_ms: how long
 * @flags: HAL_WAIT_*, mode 0: the event's, else the stream's
 *
 * Return: as hal_point_sync(), -EINVAL, -ESTALE.
 */
int hal_event_sync(uint64_t event, int64_t timeout_ms, uint32_t flags)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	struct hal_point p;
	uint32_t version;
	int rc;

	if (unlikely(!slot || !hal_slot_is(&slot->slot, event)))
		return stale(event, "event_sync");
	if (known_done(slot))
		return 0;
	read_slot(slot, &p, &version);
	/* relaxed: set before the handle was published */
	if (!(flags & HAL_WAIT_MODE_MASK))
		flags |= hal_load_relaxed(&slot->flags) / NPU_EVENT_WAIT(1) & HAL_WAIT_MODE_MASK;
	rc = hal_point_sync(&p, timeout_ms, flags);
	if (!rc)
		hal_store_release(&slot->done, version);
	return rc;
}

/**
 * hal_stream_wait_event() - make a stream wait for an event's last record
 * @stream: the stream
 * @event: the event
 * @place: code address of the caller
 *
 * Return: as hal_stream_wait_point().
 */
int hal_stream_wait_event(uint64_t stream, uint64_t event, uint64_t place)
{
	struct hal_point p;

	if (unlikely(!read_point(event, &p)))
		return stale(event, "stream_wait_event");
	return hal_stream_wait_point(stream, &p, place);
}

/* ---- time ------------------------------------------------------------------------------- */

/* The driver's part, a reference, and the point of the last record. */
static int part_get(uint64_t event, struct hal_event **e, struct hal_point *p, const char *op)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);
	int rc = -ESTALE;

	*e = NULL;
	if (slot) {
		hal_spin_lock(&slot->slot.lock);
		if (hal_slot_is(&slot->slot, event)) {
			/* relaxed: under the lock */
			if (hal_load_relaxed(&slot->flags) & NPU_EVENT_TIMING)
				*e = hal_load_relaxed(&slot->slot.obj);
			p->stream = hal_load_relaxed(&slot->stream);
			p->seq = hal_load_relaxed(&slot->seq);
			rc = *e && p->seq ? 0 : -EINVAL;
			if (!rc)
				kref_get(&(*e)->ref);
		}
		hal_spin_unlock(&slot->slot.lock);
	}
	if (rc == -ESTALE)
		return stale(event, op);
	if (rc)
		return hal_fail(rc, op, "event 0x%llx %s", (unsigned long long)event,
				hal_load_relaxed(&slot->flags) & NPU_EVENT_TIMING ?
				"was not recorded yet" : "was made without NPU_EVENT_TIMING");
	return 0;
}

static bool was_cut(struct hal_event *e, const struct hal_point *p)
{
	bool cut;

	pthread_mutex_lock(&e->ctx->lock);
	cut = e->cut.stream == p->stream && e->cut.seq == p->seq;
	pthread_mutex_unlock(&e->ctx->lock);
	return cut;
}

static void cut_locked(struct hal_context *ctx, const struct hal_stream *s)
{
	struct hal_list *n;

	hal_list_for_each(n, &ctx->events) {
		struct hal_event *e = hal_list_entry(n, struct hal_event, node);
		struct hal_event_slot *slot = hal_event_slot_at(e->handle);
		struct hal_point last;

		/* a record under way holds it */
		hal_spin_lock(&slot->slot.lock);
		last = e->last;
		hal_spin_unlock(&slot->slot.lock);
		if (s && hal_stream_slot_at(last.stream) != s->slot)
			continue;
		if (!hal_point_done(&last))
			e->cut = last;
	}
}

void hal_events_cut_stream(struct hal_stream *s)
{
	pthread_mutex_lock(&s->ctx->lock);
	cut_locked(s->ctx, s);
	pthread_mutex_unlock(&s->ctx->lock);
}

void hal_events_cut_device(struct hal_device *dev)
{
	struct hal_list *n;

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts) {
		struct hal_context *ctx = hal_list_entry(n, struct hal_context, node);

		pthread_mutex_lock(&ctx->lock);
		cut_locked(ctx, NULL);
		pthread_mutex_unlock(&ctx->lock);
	}
	pthread_mutex_unlock(&dev->lock);
}

static int part_time(uint64_t event, struct hal_event *e, const struct hal_point *p,
		     const char *op, uint64_t *ns)
{
	if (!hal_point_done(p))
		return hal_fail(-EINPROGRESS, op, "event 0x%llx has not completed yet",
				(unsigned long long)event);
	if (was_cut(e, p))
		return hal_fail_at(-ECANCELED, op, e->ctx->dev, p->stream,
				   "event 0x%llx: its record was discarded",
				   (unsigned long long)event);
	return e->ctx->dev->drv->event->timestamp(e, ns);
}

/**
 * hal_event_timestamp() - when the last record was reached
 * @event: a timed event
 * @ns: out: time of the device's clock
 *
 * Return: 0, -EINVAL (not timed, not recorded), -EBADF, -ESTALE, -EINPROGRESS, or as the driver
 * fails.
 */
int hal_event_timestamp(uint64_t event, uint64_t *ns)
{
	struct hal_event *e;
	struct hal_point p;
	int rc;

	*ns = 0;
	rc = part_get(event, &e, &p, "event_timestamp");
	if (rc)
		return rc;
	rc = part_time(event, e, &p, "event_timestamp", ns);
	part_put(e);
	return rc;
}

/**
 * hal_event_elapsed() - time from one event to another
 * @start: a timed event
 * @end: a timed event
 * @ns: out: negative when @end was first
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EXDEV, -EINPROGRESS, or as the driver fails.
 */
int hal_event_elapsed(uint64_t start, uint64_t end, int64_t *ns)
{
	struct hal_event *a, *b;
	struct hal_point pa, pb;
	uint64_t ta = 0, tb = 0;
	int rc;

	*ns = 0;
	rc = part_get(start, &a, &pa, "event_elapsed");
	if (rc)
		return rc;
	rc = part_get(end, &b, &pb, "event_elapsed");
	if (rc)
		goto put_a;
	if (a->ctx->dev != b->ctx->dev)
		rc = hal_fail(-EXDEV, "event_elapsed", "the events are of devices %d and %d",
			      a->ctx->dev->ordinal, b->ctx->dev->ordinal);
	if (!rc)
		rc = part_time(start, a, &pa, "event_elapsed", &ta);
	if (!rc)
		rc = part_time(end, b, &pb, "event_elapsed", &tb);
	if (!rc)
		*ns = (int64_t)(tb - ta);
	part_put(b);
put_a:
	part_put(a);
	return rc;
}

/**
 * hal_event_device() - the device of the last record
 * @event: the event
 * @dev: out: the device, no reference; NULL: none yet, or closed since
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE.
 */
int hal_event_device(uint64_t event, struct hal_device **dev)
{
	struct hal_event_slot *slot = hal_event_slot_at(event);

	*dev = NULL;
	if (!slot || !hal_slot_is(&slot->slot, event))
		return stale(event, "event_device");
	*dev = hal_load_acquire(&slot->dev);
	if (*dev && !hal_device_is_open(*dev))
		*dev = NULL;
	return 0;
}
