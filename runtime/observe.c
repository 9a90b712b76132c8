// SPDX-License-Identifier: MIT
/*
 * Observers: functions that are told when a device changes its state.
 *
 * A change may come to light while the thread holds the lock of a device. It is
 * put aside then, and told as the lock is given back.
 */
#include <stdlib.h>

#include "runtime/internal.h"

/**
 * struct observer - who is told
 * @next: a later one
 * @id: its number
 * @fn: the function
 * @arg: for it
 * @calls: calls that are under way
 * @gone: it is told no more, and goes with its last call
 */
struct observer {
	struct observer *next;
	uint64_t id;
	npu_device_fn *fn;
	void *arg;
	uint32_t calls;
	bool gone;
};

/**
 * struct call - a thread tells the observers of a change
 * @next: another one
 * @thread: the thread
 */
struct call {
	struct call *next;
	pthread_t thread;
};

/*
 * lock Protects: observers, calls, last_id. An observer with calls stays in the list.
 * idle: one has none any more.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static struct observer *observers;
static struct call *calls;
static uint64_t last_id;
/* Whether there have ever been some: most programs have none. */
static _Atomic bool any;

void rt_observers_lock(void)
{
	pthread_mutex_lock(&lock);
}

void rt_observers_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

NPU_API int npu_device_observe(npu_device_fn *fn, void *arg, uint64_t *id)
{
	struct observer *o, **end;

	if (!id)
		return hal_fail(-EINVAL, "device_observe", "id is NULL");
	*id = 0;
	if (!fn)
		return hal_fail(-EINVAL, "device_observe", "the function is NULL");
	o = hal_zalloc(sizeof(*o));
	if (!o)
		return hal_fail(-ENOMEM, "device_observe", "no memory");
	o->fn = fn;
	o->arg = arg;
	rt_observers_lock();
	o->id = ++last_id;
	for (end = &observers; *end; end = &(*end)->next)
		;
	*end = o;
	*id = o->id;
	hal_store_release(&any, true);
	rt_observers_unlock();
	return 0;
}

/* Takes it out when nobody is in it any more. */
static void drop_locked(struct observer *o)
{
	struct observer **at;

	if (o->calls)
		return;
	for (at = &observers; *at != o; at = &(*at)->next)
		;
	*at = o->next;
	free(o);
	pthread_cond_broadcast(&idle);
}

static struct observer *find_locked(uint64_t id)
{
	struct observer *o;

	for (o = observers; o && o->id != id; o = o->next)
		;
	return o;
}

/* Whether the thread is inside an observer. It need not have anything of the library's. */
static bool inside_locked(void)
{
	const struct call *c;

	for (c = calls; c && !pthread_equal(c->thread, pthread_self()); c = c->next)
		;
	return c;
}

NPU_API int npu_device_unobserve(uint64_t id)
{
	struct observer *o;
	int err = 0;

	rt_observers_lock();
	o = find_locked(id);
	if (!o || o->gone) {
		err = hal_hint(hal_fail(-ENOENT, "device_unobserve", "there is no observer %llu",
					(unsigned long long)id),
			       "Pass what npu_device_observe() gave, once.");
	} else {
		o->gone = true;
		drop_locked(o);
	}
	/* inside a call it might wait for itself; in the child of a fork no call comes back */
	while (!err && !inside_locked() && !hal_forked() && find_locked(id))
		pthread_cond_wait(&idle, &lock);
	rt_observers_unlock();
	return err;
}

static void call_begin_locked(struct call *c)
{
	c->thread = pthread_self();
	c->next = calls;
	calls = c;
}

static void call_end_locked(struct call *c)
{
	struct call **at;

	for (at = &calls; *at != c; at = &(*at)->next)
		;
	*at = c->next;
}

static void tell(const struct rt_change *c)
{
	struct rt_record before;
	struct observer *o, *next;
	struct call call;

	rt_record_save(&before);
	rt_observers_lock();
	call_begin_locked(&call);
	for (o = observers; o; o = next) {
		if (!o->gone) {
			o->calls++;
			rt_observers_unlock();
			o->fn(c->device, (int)c->from, (int)c->to, c->cause, o->arg);
			rt_observers_lock();
			o->calls--;
		}
		next = o->next;
		if (o->gone)
			drop_locked(o);
	}
	call_end_locked(&call);
	rt_observers_unlock();
	rt_record_restore(&before);
}

/* A device has changed its state: tells of it at once, or as the thread's lock is given back. */
void rt_changed(int device, uint32_t from, uint32_t to, int cause)
{
	struct rt_change c = { .device = device, .from = from, .to = to, .cause = cause };
	struct hal_tls *tls = hal_tls_peek();
	struct rt_thread *t = tls ? tls->runtime : NULL;

	if (from == to || !hal_load_acquire(&any))
		return;
	if (!t || !t->locks)
		tell(&c);
	else if (t->changes < RT_CHANGES)
		t->change[t->changes++] = c;
}

/* With no lock held any more. */
void rt_changes_tell(struct rt_thread *t)
{
	struct rt_change c[RT_CHANGES];
	uint32_t i, n = t->changes;

	for (i = 0; i < n; i++)
		c[i] = t->change[i];
	t->changes = 0;
	for (i = 0; i < n; i++)
		tell(&c[i]);
}

/* hal's hook. */
void rt_state_changed(struct hal_device *dev, uint32_t from, uint32_t to, int cause)
{
	int d = rt_device_of(dev);

	if (d >= 0)
		rt_changed(d, from, to, cause);
}
