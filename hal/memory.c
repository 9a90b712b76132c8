// SPDX-License-Identifier: MIT
/*
 * Memory: what is allocated, and where.
 */
#include <stdlib.h>

#include "hal/internal.h"
#include "hal/ipc.h"

#define MEM_FLAGS (HAL_MEM_HUGE_FIRST | HAL_MEM_HUGE_ONLY)

pthread_rwlock_t hal_map_lock = PTHREAD_RWLOCK_INITIALIZER;
struct hal_range_map hal_map;
struct hal_range_map hal_va_map;
/*
 * Addresses of devices that were closed; they are in hal_va_map until one takes
 * them again. Under hal_map_lock.
 */
static struct hal_range past[64];

/* ---- the map --------------------------------------------------------------------- */

/* A device takes addresses that were another's. */
static void past_forget_locked(const struct hal_range *va)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(past); i++) {
		if (!past[i].size || past[i].start - va->start >= va->size)
			continue;
		hal_range_remove(&hal_va_map, &past[i]);
		past[i].size = 0;
	}
}

/* A pointer that is left over from a device is none of the host's. */
static void past_note_locked(const struct hal_range *va)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(past); i++) {
		if (past[i].size)
			continue;
		past[i].start = va->start;
		past[i].size = va->size;
		if (!hal_range_insert(&hal_va_map, &past[i]))
			past[i].size = 0;
		return;
	}
}

int hal_memory_add_device(struct hal_device *dev)
{
	bool ok;

	if (!hal_device_can(dev, NPU_CAP_MEM))
		return 0;
	dev->va.start = dev->info.va_start;
	dev->va.size = dev->info.va_size;
	pthread_rwlock_wrlock(&hal_map_lock);
	past_forget_locked(&dev->va);
	ok = hal_range_insert(&hal_va_map, &dev->va);
	pthread_rwlock_unlock(&hal_map_lock);
	if (ok)
		return 0;
	dev->va.size = 0;
	return hal_fail_at(-EEXIST, "device_open", dev, 0,
			   "device %d: its addresses are another device's", dev->ordinal);
}

void hal_memory_del_device(struct hal_device *dev)
{
	pthread_rwlock_wrlock(&hal_map_lock);
	if (dev->va.size) {
		hal_range_remove(&hal_va_map, &dev->va);
		past_note_locked(&dev->va);
	}
	dev->va.size = 0;
	pthread_rwlock_unlock(&hal_map_lock);
}

/* Makes it found by its addresses; nobody may free it until it is attached. */
bool hal_memory_insert(struct hal_memory *m)
{
	bool ok;

	m->range.start = (uint64_t)(uintptr_t)m->addr;
	m->range.size = m->real_size;
	pthread_rwlock_wrlock(&hal_map_lock);
	m->making = true;
	ok = hal_range_insert(&hal_map, &m->range);
	if (!ok)
		m->range.size = 0;
	pthread_rwlock_unlock(&hal_map_lock);
	return ok;
}

/*
 * Host memory of the program that is registered where the system has just given some to us was
 * unmapped: it is not registered any more. False: there is none.
 */
static bool forget_stale(const struct hal_memory *m)
{
	uint64_t start = (uint64_t)(uintptr_t)m->addr;
	struct hal_memory *old = NULL;
	struct hal_range *r;

	if (m->kind != HAL_MEMORY_HOST)
		return false;
	pthread_rwlock_wrlock(&hal_map_lock);
	r = hal_range_find(&hal_map, start);
	if (!r)
		r = hal_range_above(&hal_map, start);
	if (r && (r->start < start || r->start - start < m->real_size))
		old = container_of(r, struct hal_memory, range);
	if (old && (old->kind != HAL_MEMORY_REGISTERED || old->making))
		old = NULL;
	if (old)
		hal_memory_take_out_locked(old);
	pthread_rwlock_unlock(&hal_map_lock);
	if (!old)
		return false;
	hal_memory_detach(old);
	hal_memory_put(old);
	return true;
}

bool hal_memory_take_out_locked(struct hal_memory *m)
{
	if (!m->range.size)
		return false;
	hal_range_remove(&hal_map, &m->range);
	m->range.size = 0;
	return true;
}

/* ---- allocations -------------------------------------------------------------------- */

void hal_memory_free_base(struct hal_memory *m)
{
	struct hal_context *ctx = m->ctx;

	free(m);
	hal_context_put(ctx);
}

static void undo(struct hal_memory *m)
{
	const struct hal_memory_ops *ops = m->ctx->dev->drv->memory;

	switch (m->kind) {
	case HAL_MEMORY_DEVICE:
	case HAL_MEMORY_UNSAFE:
	case HAL_MEMORY_GUARDED:	/* a mapping, which does not come here */
	case HAL_MEMORY_APART:		/* nor does this */
		ops->free(m);
		if (!(m->flags & HAL_MEM_IMPORTED))
			atomic_fetch_sub_explicit(&m->ctx->dev->mem_used, m->real_size,
						  memory_order_relaxed);	/* a statistic */
		break;
	case HAL_MEMORY_HOST:
		ops->host_free(m);
		break;
	case HAL_MEMORY_REGISTERED:
		ops->host_unregister(m);
		break;
	}
}

static void release(struct kref *ref)
{
	struct hal_memory *m = container_of(ref, struct hal_memory, ref);

	if (IS_ENABLED(CONFIG_VMM) && (m->reserve || m->kind == HAL_MEMORY_APART))
		hal_vm_memory_end(m);
	else
		undo(m);
	hal_memory_free_base(m);
}

struct hal_memory *hal_memory_new(struct hal_context *ctx, size_t size, enum hal_memory_kind kind,
				  uint32_t flags)
{
	size_t bytes = ctx->dev->drv->memory->obj_size;
	struct hal_memory *m;

	m = hal_zalloc_aligned(HAL_CACHELINE, bytes > sizeof(*m) ? bytes : sizeof(*m));
	if (!m)
		return NULL;
	kref_init(&m->ref);
	kref_get(&ctx->ref);
	m->ctx = ctx;
	m->size = size;
	m->real_size = size;
	m->kind = kind;
	m->flags = flags;
	m->access = HAL_VM_RW;
	hal_list_init(&m->node);
	return m;
}

static int do_alloc(struct hal_memory *m)
{
	const struct hal_memory_ops *ops = m->ctx->dev->drv->memory;
	int rc;

	if (m->kind == HAL_MEMORY_HOST)
		return ops->host_alloc(m);
	rc = ops->alloc(m);
	if (!rc)
		hal_add_relaxed(&m->ctx->dev->mem_used, m->real_size);	/* a statistic */
	return rc;
}

/* Makes it part of its context; the last step, after which it may be freed at any moment. */
int hal_memory_attach(struct hal_memory *m, const char *op)
{
	struct hal_context *ctx = m->ctx;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, op);
	if (!rc) {
		hal_list_add_tail(&ctx->memory, &m->node);
		pthread_rwlock_wrlock(&hal_map_lock);
		m->making = false;
		pthread_rwlock_unlock(&hal_map_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

void hal_memory_detach(struct hal_memory *m)
{
	pthread_mutex_lock(&m->ctx->lock);
	hal_list_del(&m->node);
	pthread_mutex_unlock(&m->ctx->lock);
}

int hal_memory_check_alloc(struct hal_context *ctx, uint64_t caps, uint32_t flags, const char *op)
{
	int rc = hal_need(ctx->dev, caps, op);

	if (rc)
		return rc;
	if (flags & ~MEM_FLAGS)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "flags 0x%x", flags);
	if (flags == MEM_FLAGS)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "huge pages first, and huge pages "
				   "only: one of the two");
	return hal_device_usable(ctx->dev, op);
}

static int hint_host(int rc)
{
	return rc != -ENOMEM ? rc :
	       hal_hint(rc, "Free memory or ask for less: the machine and the container set the "
			"limit, and options of the driver.");
}

/* Device memory has a limit of its own; for all else the host has none. */
static int too_much(struct hal_context *ctx, size_t size, enum hal_memory_kind kind,
		    const char *op)
{
	if (kind == HAL_MEMORY_DEVICE)
		return hal_no_memory(ctx->dev, size, op);
	return hint_host(hal_fail_at(-ENOMEM, op, ctx->dev, 0,
				     "device %d: no %zu bytes of host memory", ctx->dev->ordinal,
				     size));
}

static int alloc(struct hal_context *ctx, size_t size, uint32_t flags,
		 enum hal_memory_kind kind, const char *op, void **ptr)
{
	uint64_t align = ctx->dev->info.mem_align;
	struct hal_memory *m;
	uint32_t fills;
	void *addr;
	int rc;

	if (!align)
		align = HAL_CACHELINE;
	if (size > SIZE_MAX - align ||
	    (kind == HAL_MEMORY_DEVICE && size > ctx->dev->info.mem_total))
		return too_much(ctx, size, kind, op);
	m = hal_memory_new(ctx, size, kind, flags);
	if (!m)
		return too_much(ctx, size, kind, op);
	m->real_size = (size_t)hal_align_up(size, align);
	fills = hal_fills();
	rc = do_alloc(m);
	if (rc) {
		if (rc == -ENOMEM && (kind == HAL_MEMORY_DEVICE || hal_fills() == fills))
			too_much(ctx, size, kind, op);
		else if (hal_driver_failed(rc, op, ctx->dev, fills) && kind != HAL_MEMORY_DEVICE)
			hint_host(rc);
		goto free;
	}
	while (!hal_memory_insert(m)) {
		if (forget_stale(m))
			continue;
		rc = hal_fail_at(-EEXIST, op, ctx->dev, 0,
				 "device %d gave memory at %p that is another's",
				 ctx->dev->ordinal, m->addr);
		goto undo;
	}
	/* attached, it may end with its context at any moment */
	addr = m->addr;
	rc = hal_memory_attach(m, op);
	if (rc)
		goto out;
	*ptr = addr;
	return 0;
out:
	pthread_rwlock_wrlock(&hal_map_lock);
	hal_memory_take_out_locked(m);
	pthread_rwlock_unlock(&hal_map_lock);
undo:
	undo(m);
free:
	hal_memory_free_base(m);
	return rc;
}

/**
 * hal_mem_alloc() - allocate device memory
 * @ctx: the context
 * @size: bytes; 0 gives NULL
 * @flags: HAL_MEM_*
 * @ptr: out: the memory
 *
 * Return: 0, -EINVAL, -ENOMEM, -EMFILE (managed memory), -EOPNOTSUPP, -ESTALE (the context is
 * going), the device's state.
 */
int hal_mem_alloc(struct hal_context *ctx, size_t size, uint32_t flags, void **ptr)
{
	bool managed = flags & HAL_MEM_MANAGED;
	int rc;

	*ptr = NULL;
	rc = hal_memory_check_alloc(ctx, managed ? NPU_CAP_MEM | NPU_CAP_MANAGED : NPU_CAP_MEM,
				    flags & ~HAL_MEM_MANAGED, "malloc");
	if (rc || !size)
		return rc;
	return alloc(ctx, size, flags, HAL_MEMORY_DEVICE, "malloc", ptr);
}

/**
 * hal_mem_host_alloc() - allocate pinned host memory
 * @ctx: the context
 * @size: bytes; 0 gives NULL
 * @flags: HAL_MEM_*
 * @ptr: out: the memory
 *
 * Return: as hal_mem_alloc().
 */
int hal_mem_host_alloc(struct hal_context *ctx, size_t size, uint32_t flags, void **ptr)
{
	int rc;

	*ptr = NULL;
	rc = hal_memory_check_alloc(ctx, NPU_CAP_HOST_ALLOC, flags & ~HAL_MEM_LOCKED, "host_alloc");
	if (rc || !size)
		return rc;
	return alloc(ctx, size, flags, HAL_MEMORY_HOST, "host_alloc", ptr);
}

/**
 * hal_mem_host_register() - pin memory of the caller
 * @ctx: the context
 * @ptr: the memory
 * @size: its bytes
 * @flags: HAL_MEM_LOCKED or 0
 *
 * Return: 0, -EINVAL, -EEXIST (some of it is registered, or ours), -ENOMEM, -EFAULT, -EOPNOTSUPP,
 * -ESTALE (the context is going), the device's state.
 */
int hal_mem_host_register(struct hal_context *ctx, void *ptr, size_t size, uint32_t flags)
{
	static const char op[] = "host_register";
	struct hal_memory *m;
	uint32_t fills;
	int rc;

	rc = hal_memory_check_alloc(ctx, NPU_CAP_HOST_REGISTER, 0, op);
	if (rc)
		return rc;
	if (flags & ~HAL_MEM_LOCKED || !ptr || !size || (uintptr_t)ptr + size < (uintptr_t)ptr)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "%zu bytes at %p, flags 0x%x", size,
				   ptr, flags);
	m = hal_memory_new(ctx, size, HAL_MEMORY_REGISTERED, flags);
	if (!m)
		return too_much(ctx, size, HAL_MEMORY_REGISTERED, op);
	m->addr = ptr;
	if (!hal_memory_insert(m)) {
		rc = hal_fail_at(-EEXIST, op, ctx->dev, 0,
				 "some of the %zu bytes at %p is registered or ours", size, ptr);
		goto free;
	}
	fills = hal_fills();
	rc = ctx->dev->drv->memory->host_register(m);
	if (rc) {
		hint_host(hal_driver_failed(rc, op, ctx->dev, fills));
		goto out;
	}
	rc = hal_memory_attach(m, op);
	if (!rc)
		return 0;
	undo(m);
out:
	pthread_rwlock_wrlock(&hal_map_lock);
	hal_memory_take_out_locked(m);
	pthread_rwlock_unlock(&hal_map_lock);
free:
	hal_memory_free_base(m);
	return rc;
}

static int let_go(void *ptr, enum hal_memory_kind kind, const char *op)
{
	struct hal_memory *m;
	bool ours = false;

	if (!ptr)
		return 0;
	pthread_rwlock_wrlock(&hal_map_lock);
	m = hal_memory_at((uint64_t)(uintptr_t)ptr);
	if (m && m->addr == ptr && hal_memory_plain(m->kind) == kind && !m->making &&
	    !m->reserve && !(m->flags & HAL_MEM_IMPORTED))
		ours = hal_memory_take_out_locked(m);
	pthread_rwlock_unlock(&hal_map_lock);
	if (!ours)
		return hal_fail(-EINVAL, op, "%p is not the start of such memory", ptr);
	hal_memory_detach(m);
	kref_put(&m->ref, release);
	return 0;
}

void hal_memory_put(struct hal_memory *m)
{
	kref_put(&m->ref, release);
}

/* Frees device memory: 0 or -EINVAL. Does not wait: the caller sees to it that nothing uses it. */
int hal_mem_free(void *ptr)
{
	return let_go(ptr, HAL_MEMORY_DEVICE, "free");
}

/* Frees pinned host memory: 0 or -EINVAL. Does not wait. */
int hal_mem_host_free(void *ptr)
{
	return let_go(ptr, HAL_MEMORY_HOST, "host_free");
}

/* The opposite of hal_mem_host_register(): 0 or -EINVAL. Does not wait. */
int hal_mem_host_unregister(void *ptr)
{
	if (!ptr)
		return hal_fail(-EINVAL, "host_unregister", "NULL");
	return let_go(ptr, HAL_MEMORY_REGISTERED, "host_unregister");
}

/* Takes the next allocation of a context that goes; NULL: there is none. */
static struct hal_memory *next_of(struct hal_context *ctx, bool *ours)
{
	struct hal_memory *m = NULL;

	pthread_mutex_lock(&ctx->lock);
	if (!hal_list_empty(&ctx->memory)) {
		m = hal_list_entry(ctx->memory.next, struct hal_memory, node);
		hal_list_del(&m->node);
		pthread_rwlock_wrlock(&hal_map_lock);
		/* else somebody frees it now */
		*ours = !m->making && hal_memory_take_out_locked(m);
		pthread_rwlock_unlock(&hal_map_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return m;
}

void hal_memory_destroy(struct hal_context *ctx)
{
	struct hal_memory *m;
	bool ours;

	while ((m = next_of(ctx, &ours))) {
		if (!ours)
			continue;
		if (IS_ENABLED(CONFIG_VMM) && m->reserve)
			hal_vm_mapping_drop(m);
		kref_put(&m->ref, release);
	}
}

void hal_memory_abandon(struct hal_context *ctx)
{
	bool ours;

	while (next_of(ctx, &ours))
		;
}
