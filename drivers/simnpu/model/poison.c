// SPDX-License-Identifier: MIT
/*
 * Memory that uncorrectable errors have hit.
 *
 * An allocation that was hit has a limit of no bytes, so the ordinary look-up
 * fails and comes here: whoever reads a sound one pays nothing. So has one with
 * which not all may be done.
 */
#include "drivers/simnpu/model/model.h"

static bool overlaps(const struct hal_range *r, uint64_t addr, uint64_t size)
{
	return addr < r->start + r->size && r->start < addr + size;
}

static struct model_extent *extent_at(struct model_memory *m, uint64_t addr)
{
	struct hal_range *r = hal_range_find(&m->used, addr);

	return r ? container_of(r, struct model_extent, range) : NULL;
}

static void forget(struct model_memory *m, uint32_t i)
{
	m->poison[i] = m->poison[--m->poison_count];
}

/* The limit of an extent, after it or ranges in it have changed. Under map_lock. */
void model_poison_limit(struct model_memory *m, struct model_extent *e)
{
	uint32_t i;

	e->bytes = 0;
	for (i = 0; i < m->poison_count; i++)
		if (overlaps(&m->poison[i], e->range.start, e->range.size))
			return;
	if (e->access == MODEL_RW)
		e->bytes = e->size;
}

/**
 * model_poison_add() - an uncorrectable error hits a range
 * @m: the memory
 * @addr: first address
 * @size: bytes; all in one allocation
 *
 * Return: false: it is not, or there are too many.
 */
bool model_poison_add(struct model_memory *m, uint64_t addr, uint64_t size)
{
	struct model_extent *e;
	bool ok;

	hal_spin_lock(&m->map_lock);
	e = extent_at(m, addr);
	ok = e && size && size <= e->size && addr - e->range.start <= e->size - size &&
	     m->poison_count < MODEL_POISON_MAX;
	if (ok) {
		m->poison[m->poison_count].start = addr;
		m->poison[m->poison_count++].size = size;
		e->bytes = 0;
	}
	hal_spin_unlock(&m->map_lock);
	/* what blocks remember of it is stale; release: as in model_memory_free() */
	if (ok)
		__atomic_fetch_add(&m->epoch, 1, __ATOMIC_RELEASE);
	return ok;
}

/**
 * model_poison_drop() - addresses lose their memory
 * @m: the memory
 * @r: the addresses
 *
 * Whoever gets memory that is freed writes it first. Context: under map_lock.
 * Return: whether some of it was hit.
 */
bool model_poison_drop(struct model_memory *m, const struct hal_range *r)
{
	bool hit = false;
	uint32_t i;

	for (i = m->poison_count; i--;) {
		if (!overlaps(&m->poison[i], r->start, r->size))
			continue;
		forget(m, i);
		hit = true;
	}
	return hit;
}

/* All memory is good again. */
void model_poison_clear(struct model_memory *m)
{
	struct model_extent *e;

	hal_spin_lock(&m->map_lock);
	while (m->poison_count) {
		e = extent_at(m, m->poison[--m->poison_count].start);
		if (e)
			model_poison_limit(m, e);
	}
	hal_spin_unlock(&m->map_lock);
}

/* What a write of a whole range makes good. Under map_lock. */
static void rewritten(struct model_memory *m, struct model_extent *e, uint64_t addr, uint64_t size)
{
	uint32_t i;

	for (i = m->poison_count; i--;)
		if (m->poison[i].start >= addr &&
		    m->poison[i].start + m->poison[i].size <= addr + size)
			forget(m, i);
	model_poison_limit(m, e);
}

/**
 * model_poison_find() - what model_memory_find() could not translate
 * @m: the memory
 * @addr: first address
 * @size: bytes
 * @access: MODEL_READ, MODEL_WRITE or MODEL_REWRITE: every byte of it is about to be written
 * @host: out: where they are
 *
 * Return: 0, -EFAULT (not within an allocation, or not allowed there), -EHWPOISON (a read of what
 * was hit).
 */
int model_poison_find(struct model_memory *m, uint64_t addr, uint64_t size,
		      enum model_access access, char **host)
{
	uint32_t need = access == MODEL_READ ? SIMNPU_VM_READ : SIMNPU_VM_WRITE;
	struct model_extent *e;
	int rc = -EFAULT;
	uint32_t i;

	if (!size || addr - m->start >= m->size)
		return -EFAULT;
	hal_spin_lock(&m->map_lock);
	e = extent_at(m, addr);
	if (e && size <= e->size && addr - e->range.start <= e->size - size && e->access & need)
		rc = 0;
	for (i = 0; !rc && access == MODEL_READ && i < m->poison_count; i++)
		if (overlaps(&m->poison[i], addr, size))
			rc = -EHWPOISON;
	if (!rc && access == MODEL_REWRITE)
		rewritten(m, e, addr, size);
	hal_spin_unlock(&m->map_lock);
	if (!rc)
		*host = (char *)(uintptr_t)(addr + m->delta);
	return rc;
}

/* SIMNPU_IOCTL_POISON. */
int model_poison(struct model_file *f, struct simnpu_poison *arg)
{
	struct model_memory *m = &f->dev->mem;
	int rc = -ENOENT;

	hal_spin_lock(&m->map_lock);
	if (arg->index < m->poison_count) {
		arg->addr = m->poison[arg->index].start;
		arg->size = m->poison[arg->index].size;
		rc = 0;
	}
	hal_spin_unlock(&m->map_lock);
	return rc;
}

/**
 * model_poison_mark() - a read has met what was hit
 * @dev: the device whose task or ioctl it was
 * @addr: the address; of this or of another device
 *
 * The device whose memory it is has a fault, and says so from now on.
 * Context: no lock. Return: that device, pinned, whose queues are to be ended; NULL: none are.
 */
struct model_device *model_poison_mark(struct model_device *dev, uint64_t addr)
{
	struct model_device *of = dev;

	if (addr - dev->mem.start >= dev->mem.size)
		of = model_device_pin(addr);
	if (!of)
		return NULL;
	if (model_fault_mark(of, EHWPOISON))
		return of;
	if (of != dev)
		model_device_unpin(of);
	return NULL;
}

/**
 * model_poison_end() - end the queues of the device that model_poison_mark() gave
 * @dev: the device whose task or ioctl it was
 * @of: the device
 * @origin: the task, or NULL
 * @own: the queue that the caller has claimed, or NULL
 *
 * Context: no lock.
 */
void model_poison_end(struct model_device *dev, struct model_device *of,
		      const struct model_origin *origin, struct model_queue *own)
{
	model_fault_end(of, origin, own);
	if (of != dev)
		model_device_unpin(of);
}
