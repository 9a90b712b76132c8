// SPDX-License-Identifier: MIT
/*
 * The back door: failures on demand, counters.
 */
#include <string.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/simnpu_test.h"

struct model_counters model_counters;

/* Something that fails on demand. */
struct fault {
	uint32_t calls;
	uint32_t nth;
	uint32_t times;
	int code;
};

/* Protects: faults. */
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[SIMNPU_FAIL_COUNT];

/**
 * model_fault_now() - whether this call is to fail, once something may
 * @what: enum simnpu_fail
 *
 * Return: 0, or the errno to fail with, positive.
 */
int model_fault_now(int what)
{
	struct fault *f = &faults[what];
	int code = 0;

	pthread_mutex_lock(&fault_lock);
	f->calls++;
	if (f->nth && f->calls >= f->nth && (!f->times || f->calls < f->nth + f->times))
		code = f->code ? f->code : ENOMEM;
	pthread_mutex_unlock(&fault_lock);
	if (!code && what <= SIMNPU_FAIL_THREAD)
		code = (int)model_rules_alloc(what);
	return code;
}

/* In the child of a fork: another thread may have held the lock. */
void model_fault_in_child(void)
{
	fault_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* See simnpu_test.h. */
uint32_t simnpu_test_fail(unsigned int what, uint32_t nth, uint32_t times, int code)
{
	uint32_t calls;

	if (what >= SIMNPU_FAIL_COUNT)
		return 0;
	pthread_mutex_lock(&fault_lock);
	calls = faults[what].calls;
	faults[what] = (struct fault){ .nth = nth, .times = times, .code = code };
	pthread_mutex_unlock(&fault_lock);
	model_rules_odd(true);
	return calls;
}

/* See simnpu_test.h. */
uint32_t simnpu_test_calls(unsigned int what)
{
	uint32_t calls = 0;

	pthread_mutex_lock(&fault_lock);
	if (what < SIMNPU_FAIL_COUNT)
		calls = faults[what].calls;
	pthread_mutex_unlock(&fault_lock);
	return calls;
}

/* See simnpu_test.h. */
void simnpu_test_counters(struct simnpu_test_counters *c)
{
	size_t i;

	c->kicks = hal_load_relaxed(&model_counters.kicks);
	c->wakes = hal_load_relaxed(&model_counters.wakes);
	c->borrowed = hal_load_relaxed(&model_counters.borrowed);
	c->looks = hal_load_relaxed(&model_counters.looks);
	for (i = 0; i < ARRAY_SIZE(c->ioctls); i++)
		c->ioctls[i] = hal_load_relaxed(&model_counters.ioctls[i]);
}

/* See simnpu_test.h. */
bool simnpu_test_device(uint32_t index, struct simnpu_test_device *d)
{
	struct model_device *dev = model_device_of(index);
	struct model_context *ctx;

	*d = (struct simnpu_test_device){ 0 };
	if (!dev)
		return false;
	pthread_mutex_lock(&dev->lock);
	d->opens = hal_list_count(&dev->files);
	for (ctx = model_context_next(dev, NULL); ctx; ctx = model_context_next(dev, ctx)) {
		d->contexts++;
		d->mems += hal_list_count(&ctx->mems);
		d->modules += hal_list_count(&ctx->modules);
	}
	d->queues = (uint32_t)hal_load_relaxed(&dev->own[MODEL_QUEUES]);
	d->events = (uint32_t)hal_load_relaxed(&dev->own[MODEL_EVENTS]);
	d->threads = hal_load_relaxed(&dev->thread_count);
	d->active = hal_load_relaxed(&dev->active_count);
	d->mem_used = hal_load_relaxed(&dev->own[MODEL_BYTES]);
	pthread_mutex_unlock(&dev->lock);
	return d->opens > 0;
}

/* The device behind a node if it is open, else NULL. */
static struct model_device *behind(uint32_t index)
{
	return index < SIMNPU_MAX_DEVICES ? model_plug_open(model_plug_part(index)) : NULL;
}

/* See simnpu_test.h. */
bool simnpu_test_device_fault(uint32_t index, const char *action)
{
	static const struct {
		const char *action;
		uint32_t cause;
	} faults_of[] = { { "link", ENOLINK }, { "hang", ETIME }, { "heartbeat", EREMOTEIO } };
	struct model_device *dev = behind(index);
	size_t i;

	if (!dev)
		return false;
	if (!strcmp(action, "ecc1")) {
		hal_add_relaxed(&dev->health.ecc_corrected, 1);
		return true;
	}
	if (!strcmp(action, "gone"))
		return simnpu_test_plug(dev->index, -1);
	for (i = 0; i < ARRAY_SIZE(faults_of); i++) {
		if (strcmp(action, faults_of[i].action))
			continue;
		model_device_fault(dev, faults_of[i].cause, NULL, NULL);
		return true;
	}
	return false;
}

/* See simnpu_test.h. */
bool simnpu_test_poison(uint32_t index, uint64_t addr, uint64_t size)
{
	struct model_device *dev = behind(index);

	return dev && model_poison_add(&dev->mem, addr, size);
}

/* See simnpu_test.h. */
void simnpu_test_pause(uint32_t index, bool paused)
{
	struct model_device *dev = model_device_of(index);

	if (!dev)
		return;
	atomic_store(&dev->paused, paused);
	if (!paused)
		model_bell(dev);
}
