// SPDX-License-Identifier: MIT
/*
 * Virtual memory: reservations, memory without addresses, mappings.
 *
 * A mapping is a struct hal_memory in the map of allocations, with a reference
 * on the memory that is there. While a driver puts it there or takes it away it
 * is marked as making, and nobody else touches it.
 */
#include <stdlib.h>

#include "hal/internal.h"

/**
 * struct hal_reserve - reserved addresses
 * @ref: references: of the map, and of each mapping that lies in it
 * @range: the addresses, in reserves
 * @listed: they are there
 * @ctx: its context, of which it holds a reference
 * @node: in the context's list
 * @mappings: how many lie in it
 */
struct hal_reserve {
	struct kref ref;
	struct hal_range range;
	bool listed;
	struct hal_context *ctx;
	struct hal_list node;
	uint32_t mappings;
};

/* All reservations, by their addresses. Under hal_map_lock. */
static struct hal_range_map reserves;

static struct hal_reserve *reserve_at(uint64_t addr)
{
	struct hal_range *r = hal_range_find(&reserves, addr);

	return r ? container_of(r, struct hal_reserve, range) : NULL;
}

static uint64_t u64(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static bool whole(const struct hal_device *dev, uint64_t n)
{
	return !(n & (dev->info.mem_granularity - 1));
}

/* ---- reservations ------------------------------------------------------------------ */

static void reserve_release(struct kref *ref)
{
	struct hal_reserve *r = container_of(ref, struct hal_reserve, ref);
	struct hal_context *ctx = r->ctx;

	ctx->dev->drv->memory->release(ctx, r->range.start, r->range.size);
	free(r);
	hal_context_put(ctx);
}

/* In the map and in its context, from which it may go at any moment. */
static int reserve_add(struct hal_reserve *r, const char *op)
{
	struct hal_context *ctx = r->ctx;
	bool ok = true;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, op);
	if (!rc) {
		pthread_rwlock_wrlock(&hal_map_lock);
		ok = r->listed = hal_range_insert(&reserves, &r->range);
		pthread_rwlock_unlock(&hal_map_lock);
	}
	if (!rc && ok)
		hal_list_add_tail(&ctx->reserves, &r->node);
	pthread_mutex_unlock(&ctx->lock);
	return ok ? rc : hal_fail_at(-EEXIST, op, ctx->dev, 0,
				     "device %d gave addresses that it had given before",
				     ctx->dev->ordinal);
}

static int reserve_check(struct hal_context *ctx, uint64_t size, uint64_t align, uint64_t want,
			 const char *op)
{
	struct hal_device *dev = ctx->dev;
	int rc = hal_need(dev, NPU_CAP_VMM, op);

	if (rc)
		return rc;
	if (!size || !whole(dev, size) || align & (align - 1) || !whole(dev, want) ||
	    (align && want & (align - 1)))
		return hal_fail_at(-EINVAL, op, dev, 0,
				   "%llu bytes at 0x%llx, aligned to %llu: all multiples of %llu",
				   (unsigned long long)size, (unsigned long long)want,
				   (unsigned long long)align,
				   (unsigned long long)dev->info.mem_granularity);
	if (want && (want - dev->info.va_start >= dev->info.va_size ||
		     size > dev->info.va_size - (want - dev->info.va_start)))
		return hal_fail_at(-EINVAL, op, dev, 0, "0x%llx is no address of device %d",
				   (unsigned long long)want, dev->ordinal);
	return hal_device_usable(dev, op);
}

static int reserve_failed(struct hal_context *ctx, int rc, uint64_t size, uint64_t want,
			  const char *op, uint32_t fills)
{
	if (rc == -EEXIST)
		return hal_fail_at(rc, op, ctx->dev, 0, "some of the %llu bytes at 0x%llx is taken",
				   (unsigned long long)size, (unsigned long long)want);
	if (rc == -ENOMEM)
		return hal_fail_at(rc, op, ctx->dev, 0, "device %d has no %llu addresses in a row",
				   ctx->dev->ordinal, (unsigned long long)size);
	return hal_driver_failed(rc, op, ctx->dev, fills);
}

/**
 * hal_vm_reserve() - reserve device addresses
 * @ctx: the context
 * @size: bytes
 * @align: alignment of the first address, a power of two; 0: the granularity
 * @want: the first address; NULL: any
 * @addr: out: the first address; NULL on failure
 *
 * Return: 0, -EINVAL, -EEXIST, -ENOMEM, -EOPNOTSUPP, -ESTALE, the device's state.
 */
int hal_vm_reserve(struct hal_context *ctx, size_t size, size_t align, void *want, void **addr)
{
	static const char op[] = "vm_reserve";
	const uint64_t step = ctx->dev->info.mem_granularity;
	struct hal_reserve *r;
	uint64_t start = 0;
	uint32_t fills;
	int rc;

	*addr = NULL;
	rc = reserve_check(ctx, size, align, u64(want), op);
	if (rc)
		return rc;
	r = hal_zalloc(sizeof(*r));
	if (!r)
		return hal_fail_at(-ENOMEM, op, ctx->dev, 0, "no memory for a reservation");
	fills = hal_fills();
	rc = ctx->dev->drv->memory->reserve(ctx, u64(want), size, align > step ? align : step,
					    &start);
	if (rc) {
		free(r);
		return reserve_failed(ctx, rc, size, u64(want), op, fills);
	}
	kref_init(&r->ref);
	kref_get(&ctx->ref);
	r->ctx = ctx;
	r->range.start = start;
	r->range.size = size;
	hal_list_init(&r->node);
	rc = reserve_add(r, op);
	if (rc) {
		kref_put(&r->ref, reserve_release);
		return rc;
	}
	*addr = (void *)(uintptr_t)start;
	return 0;
}

/* With hal_map_lock held for writing. Whoever gets true has the map's reference. */
static bool take_out_locked(struct hal_reserve *r)
{
	if (!r->listed)
		return false;
	hal_range_remove(&reserves, &r->range);
	r->listed = false;
	return true;
}

/**
 * hal_vm_release() - give reserved addresses back
 * @addr: the first of a reservation
 *
 * Return: 0, -EINVAL, -EBUSY.
 */
int hal_vm_release(void *addr)
{
	struct hal_reserve *r;
	int rc = -EINVAL;

	pthread_rwlock_wrlock(&hal_map_lock);
	r = reserve_at(u64(addr));
	if (r && r->range.start == u64(addr))
		rc = r->mappings ? -EBUSY : 0;
	if (!rc)
		take_out_locked(r);
	pthread_rwlock_unlock(&hal_map_lock);
	if (rc)
		return hal_fail(rc, "vm_release", rc == -EBUSY ?
				"something is mapped in the reservation at %p" :
				"%p is not the start of a reservation", addr);
	pthread_mutex_lock(&r->ctx->lock);
	hal_list_del(&r->node);
	pthread_mutex_unlock(&r->ctx->lock);
	kref_put(&r->ref, reserve_release);
	return 0;
}

/* ---- memory -------------------------------------------------------------------------- */

/* Makes it part of its context, and its handle one. */
static int memory_add(struct hal_memory *m, struct hal_slot *slot, const char *op,
		      uint64_t *handle)
{
	struct hal_context *ctx = m->ctx;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, op);
	if (!rc) {
		hal_list_add_tail(&ctx->apart, &m->node);
		hal_spin_lock(&slot->lock);
		*handle = m->handle = hal_handle_publish(HAL_HANDLE_MEMORY, slot, m);
		hal_spin_unlock(&slot->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

/* Memory of the driver's making: by ->create, or of a descriptor by ->import_fd. */
static int memory_make(struct hal_context *ctx, size_t size, uint32_t flags, int fd,
		       const char *op, uint64_t *handle, size_t *made)
{
	const struct hal_memory_ops *ops = ctx->dev->drv->memory;
	struct hal_memory *m = hal_memory_new(ctx, size, HAL_MEMORY_APART, flags);
	struct hal_slot *slot;
	uint32_t fills;
	int rc;

	if (!m)
		return hal_fail_at(-ENOMEM, op, ctx->dev, 0, "no memory for a handle");
	rc = hal_handle_alloc(HAL_HANDLE_MEMORY, &slot);
	if (rc)
		goto free;
	fills = hal_fills();
	rc = fd < 0 ? ops->create(m) : ops->import_fd(m, fd);
	if (rc == -ENOMEM)
		hal_no_memory(ctx->dev, size, op);
	else if (rc)
		hal_driver_failed(rc, op, ctx->dev, fills);
	if (rc)
		goto free_slot;
	m->real_size = m->size;
	hal_add_relaxed(&ctx->dev->mem_used, m->size);	/* a statistic */
	*made = m->size;	/* published, it may end at any moment */
	rc = memory_add(m, slot, op, handle);
	if (!rc)
		return 0;
	ops->destroy(m);
	atomic_fetch_sub_explicit(&ctx->dev->mem_used, m->size, memory_order_relaxed);
free_slot:
	hal_handle_free(HAL_HANDLE_MEMORY, slot);
free:
	hal_memory_free_base(m);
	return rc;
}

/**
 * hal_vm_create() - make device memory without an address
 * @ctx: the context
 * @size: bytes
 * @flags: HAL_MEM_*
 * @memory: out: its handle; 0 on failure
 *
 * Return: 0, -EINVAL, -ENOMEM, -ENOSPC, -EOPNOTSUPP, -ESTALE, the device's state.
 */
int hal_vm_create(struct hal_context *ctx, size_t size, uint32_t flags, uint64_t *memory)
{
	static const char op[] = "vm_create";
	size_t made;
	int rc;

	*memory = 0;
	rc = hal_memory_check_alloc(ctx, NPU_CAP_VMM, flags, op);
	if (rc)
		return rc;
	if (!size || !whole(ctx->dev, size))
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "%zu bytes: not a multiple of %llu",
				   size, (unsigned long long)ctx->dev->info.mem_granularity);
	if (size > ctx->dev->info.mem_total)
		return hal_no_memory(ctx->dev, size, op);
	return memory_make(ctx, size, flags, -1, op, memory, &made);
}

/* The memory of a handle, with a reference of its own or with that of the handle; or NULL. */
static struct hal_memory *memory_find(uint64_t handle, bool retire)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_MEMORY, handle);
	struct hal_memory *m = NULL;

	if (!slot)
		return NULL;
	hal_spin_lock(&slot->lock);
	if (hal_slot_is(slot, handle)) {
		m = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
		if (retire)
			hal_handle_retire(HAL_HANDLE_MEMORY, slot);
		else
			kref_get(&m->ref);
	}
	hal_spin_unlock(&slot->lock);
	return m;
}

/* The same, with the thread's record filled when it is NULL. */
static struct hal_memory *memory_get(uint64_t handle, bool retire, const char *op)
{
	struct hal_memory *m = memory_find(handle, retire);

	if (!m)
		hal_handle_error(HAL_HANDLE_MEMORY, handle, op);
	return m;
}

/* Whether the driver is just mapping it. With hal_map_lock held. */
static bool is_busy(const struct hal_memory *m)
{
	return m->other && !m->other->mapped;
}

/* Its handle was retired, and with it comes its reference. */
static void memory_drop(struct hal_memory *m, uint64_t handle)
{
	bool owed;

	hal_handle_free(HAL_HANDLE_MEMORY, hal_slot_at(HAL_HANDLE_MEMORY, handle));
	pthread_mutex_lock(&m->ctx->lock);
	hal_list_del(&m->node);
	pthread_mutex_unlock(&m->ctx->lock);
	pthread_rwlock_wrlock(&hal_map_lock);
	m->handle = 0;
	/* the driver is just mapping it: whoever asked it to does this then */
	owed = m->making = is_busy(m);
	pthread_rwlock_unlock(&hal_map_lock);
	if (!owed)
		m->ctx->dev->drv->memory->destroy(m);
	hal_memory_put(m);
}

/**
 * hal_vm_destroy() - let memory go
 * @memory: its handle
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE.
 */
int hal_vm_destroy(uint64_t memory)
{
	struct hal_memory *m = memory_get(memory, true, "vm_destroy");

	if (!m)
		return hal_error_last()->code;
	memory_drop(m, memory);
	return 0;
}

/* The last reference: it is mapped nowhere, and has no handle; or of a mapping: it is gone. */
void hal_vm_memory_end(struct hal_memory *m)
{
	if (!m->reserve) {
		atomic_fetch_sub_explicit(&m->ctx->dev->mem_used, m->size, memory_order_relaxed);
		return;
	}
	hal_memory_put(m->other);
	kref_put(&m->reserve->ref, reserve_release);
}

/* ---- mappings ------------------------------------------------------------------------- */

static bool access_ok(uint32_t access)
{
	return !access || access == HAL_VM_READ || access == HAL_VM_RW;
}

/* Puts a mapping into the map, to be made by the driver: NULL, or what is wrong. */
static const char *place_locked(struct hal_memory *mp, struct hal_memory *m, int *rc)
{
	struct hal_reserve *r = reserve_at(u64(mp->addr));

	*rc = -EINVAL;
	if (!r || mp->size > r->range.size - (u64(mp->addr) - r->range.start))
		return "not within one reservation";
	*rc = -EXDEV;
	if (r->ctx != m->ctx)
		return "the memory is of another context";
	*rc = -ESTALE;
	if (!m->handle)
		return "the memory was destroyed";
	*rc = -EBUSY;
	if (m->other)
		return "the memory is mapped";
	*rc = -EEXIST;
	mp->range.start = u64(mp->addr);
	mp->range.size = mp->size;
	if (!hal_range_insert(&hal_map, &mp->range)) {
		mp->range.size = 0;
		return "something is mapped there";
	}
	*rc = 0;
	kref_get(&m->ref);
	kref_get(&r->ref);
	r->mappings++;
	mp->reserve = r;
	mp->other = m;
	mp->unsafe = m->unsafe;
	mp->making = true;
	hal_memory_settle_locked(mp);
	m->other = mp;
	return NULL;
}

/* A mapping is gone from its addresses. */
static void displace_locked(struct hal_memory *mp)
{
	struct hal_memory *m = mp->other;

	hal_memory_take_out_locked(mp);
	mp->reserve->mappings--;
	m->unsafe = mp->unsafe;
	m->other = NULL;
}

/* Whether it was destroyed while it was busy, and isn't any more: see memory_drop(). */
static bool take_debt_locked(struct hal_memory *m)
{
	bool owed = m->making && !is_busy(m);

	if (owed)
		m->making = false;
	return owed;
}

/* By the driver, and into its context, where it may end at any moment. */
static int map_placed(struct hal_memory *mp, struct hal_memory *m, const char *op)
{
	const struct hal_memory_ops *ops = m->ctx->dev->drv->memory;
	const uint64_t addr = u64(mp->addr);
	uint32_t fills = hal_fills();
	int rc;

	rc = ops->map(m, addr, mp->access);
	if (rc)
		return hal_driver_failed(rc, op, m->ctx->dev, fills);
	pthread_rwlock_wrlock(&hal_map_lock);
	mp->mapped = true;
	pthread_rwlock_unlock(&hal_map_lock);
	rc = hal_memory_attach(mp, op);
	if (rc)
		ops->unmap(m->ctx, addr, m->size);
	return rc;
}

static int map_new(struct hal_memory *mp, struct hal_memory *m, const char *op)
{
	const char *wrong;
	bool owed;
	int rc;

	pthread_rwlock_wrlock(&hal_map_lock);
	wrong = place_locked(mp, m, &rc);
	pthread_rwlock_unlock(&hal_map_lock);
	if (wrong) {
		hal_fail_at(rc, op, m->ctx->dev, 0, "%zu bytes at %p: %s", mp->size, mp->addr,
			    wrong);
		hal_memory_free_base(mp);
		return rc;
	}
	rc = map_placed(mp, m, op);
	pthread_rwlock_wrlock(&hal_map_lock);
	if (rc)
		displace_locked(mp);
	owed = take_debt_locked(m);
	pthread_rwlock_unlock(&hal_map_lock);
	if (rc)
		hal_memory_put(mp);
	if (owed)
		m->ctx->dev->drv->memory->destroy(m);
	return rc;
}

/**
 * hal_vm_map() - put memory at reserved addresses
 * @addr: the first address
 * @size: bytes of the memory, all of it
 * @memory: its handle
 * @offset: 0
 * @access: 0, HAL_VM_READ or HAL_VM_RW
 *
 * Return: 0, -EINVAL, -EXDEV, -EEXIST, -EBUSY, -ENOMEM, -EBADF, -ESTALE, the device's state.
 */
int hal_vm_map(void *addr, size_t size, uint64_t memory, size_t offset, uint32_t access)
{
	static const char op[] = "vm_map";
	struct hal_memory *mp, *m = memory_get(memory, false, op);
	int rc;

	if (!m)
		return hal_error_last()->code;
	rc = hal_device_usable(m->ctx->dev, op);
	if (!rc && (size != m->size || offset || !access_ok(access) ||
		    !whole(m->ctx->dev, u64(addr))))
		rc = hal_fail_at(-EINVAL, op, m->ctx->dev, 0,
				 "%zu bytes at %p, offset %zu, access 0x%x: the memory has %zu",
				 size, addr, offset, access, m->size);
	mp = rc ? NULL : hal_memory_new(m->ctx, size, HAL_MEMORY_DEVICE, 0);
	if (!rc && !mp)
		rc = hal_fail_at(-ENOMEM, op, m->ctx->dev, 0, "no memory for a mapping");
	if (!rc) {
		mp->addr = addr;
		mp->access = access;
		rc = map_new(mp, m, op);
	}
	hal_memory_put(m);
	return rc;
}

/*
 * Marks the mappings that make up a range, so that they are the caller's alone: their reservation,
 * or NULL: they don't.
 */
static struct hal_reserve *claim(uint64_t start, uint64_t size)
{
	struct hal_memory *mp = NULL;
	struct hal_reserve *r;
	uint64_t at;

	pthread_rwlock_wrlock(&hal_map_lock);
	r = reserve_at(start);
	for (at = 0; r && at < size; at += mp->size) {
		mp = hal_memory_at(start + at);
		if (!mp || mp->reserve != r || mp->making || u64(mp->addr) != start + at)
			r = NULL;
		if (!r)
			break;
	}
	if (!size || at != size)
		r = NULL;
	for (at = 0; r && at < size; at += mp->size) {
		mp = hal_memory_at(start + at);
		mp->making = true;
	}
	pthread_rwlock_unlock(&hal_map_lock);
	return r;
}

/* A mapping that was claimed. */
static struct hal_memory *claimed_at(uint64_t addr)
{
	struct hal_memory *mp;

	pthread_rwlock_rdlock(&hal_map_lock);
	mp = hal_memory_at(addr);
	pthread_rwlock_unlock(&hal_map_lock);
	return mp;
}

/* Ends a claim; access: what may be done from now on, NULL: what might be before. */
static void unclaim(uint64_t start, uint64_t end, const uint32_t *access)
{
	struct hal_memory *mp;

	pthread_rwlock_wrlock(&hal_map_lock);
	for (; start < end; start += mp->size) {
		mp = hal_memory_at(start);
		mp->making = false;
		if (!access)
			continue;
		mp->access = *access;
		hal_memory_settle_locked(mp);
	}
	pthread_rwlock_unlock(&hal_map_lock);
}

/* Takes a claimed mapping away: false: the host has no maps left. */
static bool unmap_one(struct hal_memory *mp)
{
	struct hal_context *ctx = mp->ctx;

	if (ctx->dev->drv->memory->unmap(ctx, u64(mp->addr), mp->size) == -ENOMEM)
		return false;
	pthread_rwlock_wrlock(&hal_map_lock);
	displace_locked(mp);
	pthread_rwlock_unlock(&hal_map_lock);
	hal_memory_detach(mp);
	hal_memory_put(mp);
	return true;
}

/**
 * hal_vm_unmap() - take memory away from its addresses
 * @addr: where a mapping begins
 * @size: bytes of it, and of those that follow without a gap
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int hal_vm_unmap(void *addr, size_t size)
{
	static const char op[] = "vm_unmap";
	uint64_t at = u64(addr), end = at + size;
	struct hal_memory *mp;
	size_t bytes;

	if (!claim(at, size))
		return hal_fail(-EINVAL, op, "%zu bytes at %p are no whole mappings", size, addr);
	for (; at < end; at += bytes) {
		mp = claimed_at(at);
		bytes = mp->size;
		if (unmap_one(mp))
			continue;
		unclaim(at, end, NULL);
		return hal_fail(-ENOMEM, op, "the host has no maps left: %zu bytes at 0x%llx stay",
				bytes, (unsigned long long)at);
	}
	return 0;
}

/* A mapping of a context that goes; it is in no map any more. */
void hal_vm_mapping_drop(struct hal_memory *mp)
{
	struct hal_context *ctx = mp->ctx;

	ctx->dev->drv->memory->unmap(ctx, u64(mp->addr), mp->size);
	pthread_rwlock_wrlock(&hal_map_lock);
	displace_locked(mp);
	pthread_rwlock_unlock(&hal_map_lock);
}

/* By the driver, of claimed mappings, all or none. */
static int protect_claimed(struct hal_context *ctx, uint64_t start, uint64_t end, uint32_t access,
			   const char *op)
{
	const struct hal_memory_ops *ops = ctx->dev->drv->memory;
	struct hal_memory *mp;
	uint32_t fills = hal_fills();
	uint64_t at, back;
	int rc = 0;

	for (at = start; at < end; at += mp->size) {
		mp = claimed_at(at);
		rc = ops->protect(ctx, at, mp->size, access);
		if (rc)
			break;
	}
	for (back = start; rc && back < at; back += mp->size) {
		mp = claimed_at(back);
		ops->protect(ctx, back, mp->size, mp->access);
	}
	return rc ? hal_driver_failed(rc, op, ctx->dev, fills) : 0;
}

/**
 * hal_vm_protect() - change what may be done at mapped addresses
 * @addr: where a mapping begins
 * @size: bytes of it, and of those that follow without a gap
 * @access: 0, HAL_VM_READ or HAL_VM_RW
 *
 * Return: 0, -EINVAL, the device's state.
 */
int hal_vm_protect(void *addr, size_t size, uint32_t access)
{
	static const char op[] = "vm_protect";
	uint64_t start = u64(addr), end = start + size;
	struct hal_reserve *r = access_ok(access) ? claim(start, size) : NULL;
	int rc;

	if (!r)
		return hal_fail(-EINVAL, op, "%zu bytes at %p, access 0x%x: no whole mappings, or "
				"no such access", size, addr, access);
	rc = hal_device_usable(r->ctx->dev, op);
	if (!rc)
		rc = protect_claimed(r->ctx, start, end, access, op);
	unclaim(start, end, rc ? NULL : &access);
	return rc;
}

/* ---- between processes ------------------------------------------------------------------ */

/**
 * hal_vm_export() - make a descriptor that stands for memory
 * @memory: its handle
 * @fd: out: the descriptor; -1 on failure
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -EMFILE, -EOPNOTSUPP, the device's state.
 */
int hal_vm_export(uint64_t memory, int *fd)
{
	static const char op[] = "vm_export";
	struct hal_memory *m = memory_get(memory, false, op);
	struct hal_device *dev;
	uint32_t fills;
	int rc;

	*fd = -1;
	if (!m)
		return hal_error_last()->code;
	dev = m->ctx->dev;
	rc = hal_need(dev, NPU_CAP_VMM | NPU_CAP_IPC_FD, op);
	if (!rc)
		rc = hal_device_usable(dev, op);
	if (!rc) {
		fills = hal_fills();
		rc = dev->drv->memory->export_fd(m, fd);
		if (rc == -ENOENT)
			rc = hal_fail_at(-ESTALE, op, dev, 0, "the memory was destroyed meanwhile");
		else if (rc)
			hal_driver_failed(rc, op, dev, fills);
	}
	hal_memory_put(m);
	return rc;
}

/**
 * hal_vm_import() - the memory that a descriptor stands for
 * @ctx: the context that it shall be mapped in
 * @fd: the descriptor
 * @memory: out: its handle here; 0 on failure
 * @size: out: its bytes
 *
 * Return: 0, -EINVAL, -ENOMEM, -ENOSPC, -EOPNOTSUPP, -ESTALE, the device's state.
 */
int hal_vm_import(struct hal_context *ctx, int fd, uint64_t *memory, size_t *size)
{
	static const char op[] = "vm_import";
	int rc;

	*memory = 0;
	*size = 0;
	rc = hal_memory_check_alloc(ctx, NPU_CAP_VMM | NPU_CAP_IPC_FD, 0, op);
	if (rc)
		return rc;
	if (fd < 0)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "%d is no descriptor", fd);
	return memory_make(ctx, 0, 0, fd, op, memory, size);
}

/* ---- a context that goes ------------------------------------------------------------------ */

/* Takes the next memory of a context; *ours: its handle, too. NULL: there is none. */
static struct hal_memory *next_memory(struct hal_context *ctx, uint64_t *handle, bool *ours)
{
	struct hal_memory *m = NULL;

	pthread_mutex_lock(&ctx->lock);
	if (!hal_list_empty(&ctx->apart)) {
		m = hal_list_entry(ctx->apart.next, struct hal_memory, node);
		hal_list_del(&m->node);
		*handle = m->handle;
		*ours = memory_find(m->handle, true);	/* else somebody destroys it now */
	}
	pthread_mutex_unlock(&ctx->lock);
	return m;
}

void hal_vm_memory_destroy(struct hal_context *ctx)
{
	struct hal_memory *m;
	uint64_t handle;
	bool ours;

	while ((m = next_memory(ctx, &handle, &ours)))
		if (ours)
			memory_drop(m, handle);
}

static struct hal_reserve *next_reserve(struct hal_context *ctx, bool *ours)
{
	struct hal_reserve *r = NULL;

	pthread_mutex_lock(&ctx->lock);
	if (!hal_list_empty(&ctx->reserves)) {
		r = hal_list_entry(ctx->reserves.next, struct hal_reserve, node);
		hal_list_del(&r->node);
		pthread_rwlock_wrlock(&hal_map_lock);
		*ours = take_out_locked(r);
		pthread_rwlock_unlock(&hal_map_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return r;
}

void hal_vm_reserves_destroy(struct hal_context *ctx)
{
	struct hal_reserve *r;
	bool ours;

	while ((r = next_reserve(ctx, &ours)))
		if (ours)
			kref_put(&r->ref, reserve_release);
}

/* The same for a device that is given up: nobody finds anything any more, the objects stay. */
void hal_vm_abandon(struct hal_context *ctx)
{
	uint64_t handle;
	bool ours;

	while (next_memory(ctx, &handle, &ours))
		if (ours)
			hal_handle_free(HAL_HANDLE_MEMORY, hal_slot_at(HAL_HANDLE_MEMORY, handle));
	while (next_reserve(ctx, &ours))
		;
}
