// SPDX-License-Identifier: MIT
/*
 * Slots of a named instance: which processes there are, what each of them has,
 * and memory that some of them share.
 */
#include <fcntl.h>
#include <stddef.h>

#include "drivers/simnpu/model/model.h"

#define inst model_instance
#define NAP_NS 50000u
/* How long another one may take to charge something, unless he is stopped. */
#define CHARGE_NS 100000000ull

/* Sleeps for a moment in which another process may get on. */
void model_instance_nap(void)
{
	_Atomic uint32_t word = 0;

	hal_sys_futex_wait(&word, 0, hal_sys_now() + NAP_NS);
}

/* ---- slots ----------------------------------------------------------------------- */

static uint64_t slot_offset(uint32_t i)
{
	return offsetof(struct simnpu_instance, slot) + i * sizeof(struct simnpu_instance_slot);
}

static bool is_mine(uint32_t i)
{
	return inst.mine[i / 64] >> i % 64 & 1;
}

static struct simnpu_instance_slot *slot_of(const struct model_device *dev)
{
	return dev->slot ? &inst.map->slot[dev->slot - 1] : NULL;
}

static void clear(struct simnpu_instance_slot *s)
{
	hal_shm_store_release(&s->owner, 0);
	hal_shm_store_relaxed(&s->mem, 0);
	hal_shm_store_relaxed(&s->queues, 0);
	hal_shm_store_relaxed(&s->events, 0);
}

/* Takes the lock of a slot; false: it is somebody's, or may be. */
static bool slot_lock(uint32_t i)
{
	return !is_mine(i) &&
	       !hal_sys_lock(inst.fd, F_WRLCK, slot_offset(i), sizeof(struct simnpu_instance_slot));
}

static void slot_unlock(uint32_t i)
{
	hal_sys_lock(inst.fd, F_UNLCK, slot_offset(i), sizeof(struct simnpu_instance_slot));
}

/* Whether who says that the slot is his is dead; then it is free. */
static bool reap(uint32_t i)
{
	if (!slot_lock(i))
		return false;
	clear(&inst.map->slot[i]);
	slot_unlock(i);
	return true;
}

static bool accounts_lock(void)
{
	uint64_t end = hal_sys_now() + CHARGE_NS;
	int rc;

	while ((rc = hal_sys_lock(inst.fd, F_WRLCK, SIMNPU_INSTANCE_LOCK_ACCOUNTS, 1)) ==
	       -EAGAIN && hal_sys_now() < end)
		model_instance_nap();
	return !rc;
}

static void accounts_unlock(bool locked)
{
	if (locked)
		hal_sys_lock(inst.fd, F_UNLCK, SIMNPU_INSTANCE_LOCK_ACCOUNTS, 1);
}

/**
 * model_instance_join() - this process uses a device
 * @dev: the device
 *
 * Context: under the device's lock. Return: 0 or -ENOSPC: so many processes use devices already.
 */
int model_instance_join(struct model_device *dev)
{
	struct simnpu_instance_slot *s;
	bool locked;
	uint32_t i;

	pthread_mutex_lock(&inst.lock);
	locked = accounts_lock();
	for (i = 0; i < SIMNPU_INSTANCE_SLOTS && !dev->slot; i++) {
		if (!slot_lock(i))
			continue;
		s = &inst.map->slot[i];
		clear(s);
		hal_shm_store_relaxed(&s->device, dev->index);
		hal_shm_store_release(&s->owner, hal_sys_now());
		inst.mine[i / 64] |= 1ull << i % 64;
		dev->slot = i + 1;
	}
	accounts_unlock(locked);
	pthread_mutex_unlock(&inst.lock);
	return dev->slot ? 0 : -ENOSPC;
}

/* It does not use it any more; what it still has there is nobody's. */
void model_instance_leave(struct model_device *dev)
{
	struct simnpu_instance_slot *s;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s) {
		clear(s);
		slot_unlock(dev->slot - 1);
		inst.mine[(dev->slot - 1) / 64] &= ~(1ull << (dev->slot - 1) % 64);
		dev->slot = 0;
	}
	pthread_mutex_unlock(&inst.lock);
}

/* ---- shared memory ------------------------------------------------------------------ */

/* Whether who calls himself so has that slot. */
static bool alive(uint32_t slot, uint64_t number)
{
	if (slot >= SIMNPU_INSTANCE_SLOTS ||
	    hal_shm_load_acquire(&inst.map->slot[slot].owner) != number)
		return false;
	/* where it can't be told he lives */
	return is_mine(slot) || hal_sys_locked(inst.fd, slot_offset(slot),
					       sizeof(struct simnpu_instance_slot));
}

static bool used(const struct simnpu_instance_share *sh)
{
	uint64_t importer = hal_shm_load_acquire(&sh->importer);

	return importer && alive(hal_shm_load_relaxed(&sh->importer_slot), importer);
}

/* Memory that its owner does not have any more, and another one does. */
static bool orphaned(const struct simnpu_instance_share *sh)
{
	return used(sh) && (hal_shm_load_acquire(&sh->orphan) ||
			    !alive(hal_shm_load_relaxed(&sh->owner_slot),
				   hal_shm_load_relaxed(&sh->owner)));
}

/* Bytes of a device that nobody's account has, each allocation once. */
static uint64_t orphans(const struct model_device *dev)
{
	const struct simnpu_instance_share *sh = inst.map->share;
	uint64_t total = 0;
	uint32_t i, k;

	for (i = 0; i < SIMNPU_INSTANCE_SHARES; i++) {
		if (!hal_shm_load_relaxed(&sh[i].importer) ||
		    hal_shm_load_relaxed(&sh[i].device) != dev->index || !orphaned(&sh[i]))
			continue;
		for (k = 0; k < i; k++)
			if (sh[k].object == sh[i].object && sh[k].device == sh[i].device &&
			    orphaned(&sh[k]))
				break;
		if (k == i)
			total += hal_shm_load_relaxed(&sh[i].size);
	}
	return total;
}

/* Notes that one has memory of another, where there is room. Under the lock of the accounts. */
static int note_locked(const struct simnpu_instance_share *what, uint32_t *share)
{
	struct simnpu_instance_share *sh;
	uint32_t i;

	for (i = 0; i < SIMNPU_INSTANCE_SHARES; i++) {
		sh = &inst.map->share[i];
		if (used(sh))
			continue;
		hal_shm_store_relaxed(&sh->owner, what->owner);
		hal_shm_store_relaxed(&sh->owner_slot, what->owner_slot);
		hal_shm_store_relaxed(&sh->object, what->object);
		hal_shm_store_relaxed(&sh->size, what->size);
		hal_shm_store_relaxed(&sh->importer_slot, what->importer_slot);
		hal_shm_store_relaxed(&sh->device, what->device);
		hal_shm_store_relaxed(&sh->orphan, what->orphan);
		hal_shm_store_release(&sh->importer, what->importer);
		*share = i + 1;
		return 0;
	}
	return -ENOSPC;
}

/**
 * model_instance_share() - note that another process gets memory of this one
 * @dev: the device, joined
 * @object: number of the memory, the instance's
 * @size: bytes
 * @slot: the other one's slot
 * @number: what he calls himself
 * @share: out: for model_instance_unshare(), never 0
 *
 * Return: 0, -ESRCH (there is no such process), -ENOSPC (so much is shared already).
 */
int model_instance_share(struct model_device *dev, uint64_t object, uint64_t size, uint32_t slot,
			 uint64_t number, uint32_t *share)
{
	struct simnpu_instance_share what = {
		.importer = number, .importer_slot = slot, .object = object, .size = size,
		.device = dev->index,
	};
	int rc = -ESRCH;
	bool locked;

	pthread_mutex_lock(&inst.lock);
	locked = accounts_lock();
	if (slot_of(dev) && alive(slot, number)) {
		what.owner = slot_of(dev)->owner;
		what.owner_slot = dev->slot - 1;
		rc = note_locked(&what, share);
	}
	accounts_unlock(locked);
	pthread_mutex_unlock(&inst.lock);
	return rc;
}

/**
 * model_instance_take() - note that this process has memory of another, by a descriptor
 * @dev: the device, joined
 * @what: whose it is, and what; not who has it
 * @share: out: for model_instance_unshare(), never 0
 *
 * Return: 0, -EINVAL (it is nobody's), -ESRCH (this process takes no part), -ENOSPC.
 */
int model_instance_take(struct model_device *dev, const struct simnpu_instance_share *what,
			uint32_t *share)
{
	struct simnpu_instance_share sh = *what;
	int rc = -ESRCH;
	bool locked;

	if (!sh.owner || sh.owner_slot >= SIMNPU_INSTANCE_SLOTS)
		return -EINVAL;
	pthread_mutex_lock(&inst.lock);
	locked = accounts_lock();
	if (slot_of(dev)) {
		sh.importer = slot_of(dev)->owner;
		sh.importer_slot = dev->slot - 1;
		rc = note_locked(&sh, share);
	}
	accounts_unlock(locked);
	pthread_mutex_unlock(&inst.lock);
	return rc;
}

/* This process gives back what it got from another; @owner: or the other did not get its own. */
void model_instance_unshare(struct model_device *dev, uint32_t share, bool owner)
{
	struct simnpu_instance_share *sh;
	struct simnpu_instance_slot *s;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s && share - 1 < SIMNPU_INSTANCE_SHARES) {
		sh = &inst.map->share[share - 1];
		if ((owner ? sh->owner : hal_shm_load_relaxed(&sh->importer)) == s->owner)
			hal_shm_store_release(&sh->importer, 0);
	}
	pthread_mutex_unlock(&inst.lock);
}

/* This process frees memory that others may have. */
void model_instance_orphan(struct model_device *dev, uint64_t object)
{
	struct simnpu_instance_share *sh;
	struct simnpu_instance_slot *s;
	uint32_t i;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	for (i = 0; s && i < SIMNPU_INSTANCE_SHARES; i++) {
		sh = &inst.map->share[i];
		if (sh->owner == s->owner && sh->object == object)
			hal_shm_store_release(&sh->orphan, 1);
	}
	pthread_mutex_unlock(&inst.lock);
}

/* What this process is called in the instance; out: its slot. 0: it takes no part. */
uint64_t model_instance_number(struct model_device *dev, uint32_t *slot)
{
	struct simnpu_instance_slot *s;
	uint64_t number;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	number = s ? s->owner : 0;
	*slot = s ? dev->slot - 1 : 0;
	pthread_mutex_unlock(&inst.lock);
	return number;
}

/* ---- accounts ---------------------------------------------------------------------- */

static uint64_t amount(const struct simnpu_instance_slot *s, enum model_what what)
{
	switch (what) {
	case MODEL_BYTES:
		return __atomic_load_n(&s->mem, __ATOMIC_SEQ_CST);
	case MODEL_QUEUES:
		return __atomic_load_n(&s->queues, __ATOMIC_SEQ_CST);
	default:
		return __atomic_load_n(&s->events, __ATOMIC_SEQ_CST);
	}
}

/* Its own slot alone: nobody else writes there. */
static void add(struct simnpu_instance_slot *s, enum model_what what, uint64_t n)
{
	if (what == MODEL_BYTES)
		__atomic_store_n(&s->mem, s->mem + n, __ATOMIC_SEQ_CST);
	else if (what == MODEL_QUEUES)
		__atomic_store_n(&s->queues, s->queues + (uint32_t)n, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&s->events, s->events + (uint32_t)n, __ATOMIC_SEQ_CST);
}

/* What all have of a device; of the living alone, or else the dead may count. */
static uint64_t sum(const struct model_device *dev, enum model_what what, bool living)
{
	const struct simnpu_instance_slot *s;
	uint64_t n, total = 0;
	uint32_t i;

	for (i = 0; i < SIMNPU_INSTANCE_SLOTS; i++) {
		s = &inst.map->slot[i];
		if (!hal_shm_load_acquire(&s->owner) ||
		    hal_shm_load_relaxed(&s->device) != dev->index)
			continue;
		n = amount(s, what);
		if (n && !(living && reap(i)))
			total += n;
	}
	if (what == MODEL_BYTES)
		total += orphans(dev);
	return total;
}

/**
 * model_instance_charge() - take something of a device that all share
 * @dev: the device, joined
 * @what: of what
 * @n: how much
 * @limit: how much there is
 *
 * Return: whether there is so much left.
 */
bool model_instance_charge(struct model_device *dev, enum model_what what, uint64_t n,
			   uint64_t limit)
{
	struct simnpu_instance_slot *s;
	bool locked, ok = true;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s) {
		locked = accounts_lock();
		add(s, what, n);
		ok = sum(dev, what, false) <= limit || sum(dev, what, true) <= limit;
		if (!ok)
			add(s, what, -n);
		accounts_unlock(locked);
	}
	pthread_mutex_unlock(&inst.lock);
	return ok;
}

/* Gives it back. One that has left the device has nothing there. */
void model_instance_uncharge(struct model_device *dev, enum model_what what, uint64_t n)
{
	struct simnpu_instance_slot *s;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s)
		add(s, what, -n);
	pthread_mutex_unlock(&inst.lock);
}

/* What other processes have. Context: a node is open. */
void model_instance_others(struct model_device *dev, struct model_amount *others)
{
	struct simnpu_instance_slot *s;
	enum model_what what;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	for (what = 0; what < MODEL_WHATS; what++)
		others->of[what] = sum(dev, what, true) - (s ? amount(s, what) : 0);
	pthread_mutex_unlock(&inst.lock);
}
