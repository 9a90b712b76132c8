// SPDX-License-Identifier: MIT
/*
 * Memory: what is allocated, and where.
 */
#include <stdlib.h>

#include "hal/internal.h"

#define MEM_FLAGS (HAL_MEM_HUGE_FIRST | HAL_MEM_HUGE_ONLY)

/*
 * map_lock Protects: map (all allocations), va_map (addresses of devices), past
 * (those of devices that were closed; they are in va_map until one takes them
 * again), and whether an allocation is in map: its range's size, 0: it is not.
 */
static pthread_rwlock_t map_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct hal_range_map map;
static struct hal_range_map va_map;
static struct hal_range past[64];

static struct hal_memory *memory_of(struct hal_range *r)
{
	return r ? container_of(r, struct hal_memory, range) : NULL;
}

/* ---- the map --------------------------------------------------------------------- */

/* A device takes addresses that were another's. */
static void past_forget_locked(const struct hal_range *va)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(past); i++) {
		if (!past[i].size || past[i].start - va->start >= va->size)
			continue;
		hal_range_remove(&va_map, &past[i]);
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
		if (!hal_range_insert(&va_map, &past[i]))
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
	pthread_rwlock_wrlock(&map_lock);
	past_forget_locked(&dev->va);
	ok = hal_range_insert(&va_map, &dev->va);
	pthread_rwlock_unlock(&map_lock);
	if (ok)
		return 0;
	dev->va.size = 0;
	return hal_fail_at(-EEXIST, "device_open", dev, 0,
			   "device %d: its addresses are another device's", dev->ordinal);
}

void hal_memory_del_device(struct hal_device *dev)
{
	pthread_rwlock_wrlock(&map_lock);
	if (dev->va.size) {
		hal_range_remove(&va_map, &dev->va);
		past_note_locked(&dev->va);
	}
	dev->va.size = 0;
	pthread_rwlock_unlock(&map_lock);
}

static bool insert(struct hal_memory *m)
{
	bool ok;

	m->range.start = (uint64_t)(uintptr_t)m->addr;
	m->range.size = m->real_size;
	pthread_rwlock_wrlock(&map_lock);
	m->making = true;
	ok = hal_range_insert(&map, &m->range);
	if (!ok)
		m->range.size = 0;
	pthread_rwlock_unlock(&map_lock);
	return ok;
}

/* With map_lock held for writing. Whoever gets true has the allocation to let go. */
static bool take_out_locked(struct hal_memory *m)
{
	if (!m->range.size)
		return false;
	hal_range_remove(&map, &m->range);
	m->range.size = 0;
	return true;
}

/* ---- allocations -------------------------------------------------------------------- */

static void free_base(struct hal_memory *m)
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
		ops->free(m);
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

	undo(m);
	free_base(m);
}

static struct hal_memory *new_memory(struct hal_context *ctx, size_t size,
				     enum hal_memory_kind kind, uint32_t flags)
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
static int attach(struct hal_memory *m, const char *op)
{
	struct hal_context *ctx = m->ctx;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, op);
	if (!rc) {
		hal_list_add_tail(&ctx->memory, &m->node);
		pthread_rwlock_wrlock(&map_lock);
		m->making = false;
		pthread_rwlock_unlock(&map_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

static void detach(struct hal_memory *m)
{
	pthread_mutex_lock(&m->ctx->lock);
	hal_list_del(&m->node);
	pthread_mutex_unlock(&m->ctx->lock);
}

static int check_alloc(struct hal_context *ctx, uint64_t caps, uint32_t flags, const char *op)
{
	int rc = hal_need(ctx->dev, caps, op);

	if (rc)
		return rc;
	if (flags & ~MEM_FLAGS)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "flags 0x%x", flags);
	return hal_device_usable(ctx->dev, op);
}

/* Device memory has a limit of its own; for all else the host has none. */
static int too_much(struct hal_context *ctx, size_t size, enum hal_memory_kind kind,
		    const char *op)
{
	if (kind == HAL_MEMORY_DEVICE)
		return hal_no_memory(ctx->dev, size, op);
	return hal_fail_at(-ENOMEM, op, ctx->dev, 0, "device %d: no %zu bytes of host memory",
			   ctx->dev->ordinal, size);
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
	m = new_memory(ctx, size, kind, flags);
	if (!m)
		return too_much(ctx, size, kind, op);
	m->real_size = (size_t)hal_align_up(size, align);
	fills = hal_fills();
	rc = do_alloc(m);
	if (rc) {
		if (rc == -ENOMEM)
			too_much(ctx, size, kind, op);
		else
			hal_driver_failed(rc, op, ctx->dev, fills);
		goto free;
	}
	if (!insert(m)) {
		rc = hal_fail_at(-EEXIST, op, ctx->dev, 0,
				 "device %d gave memory at %p that is another's",
				 ctx->dev->ordinal, m->addr);
		goto undo;
	}
	/* attached, it may end with its context at any moment */
	addr = m->addr;
	rc = attach(m, op);
	if (rc)
		goto out;
	*ptr = addr;
	return 0;
out:
	pthread_rwlock_wrlock(&map_lock);
	take_out_locked(m);
	pthread_rwlock_unlock(&map_lock);
undo:
	undo(m);
free:
	free_base(m);
	return rc;
}

/**
 * hal_mem_alloc() - allocate device memory
 * @ctx: the context
 * @size: bytes; 0 gives NULL
 * @flags: HAL_MEM_*
 * @ptr: out: the memory
 *
 * Return: 0, -EINVAL, -ENOMEM, -EOPNOTSUPP, -ESTALE (the context is going), the device's state.
 */
int hal_mem_alloc(struct hal_context *ctx, size_t size, uint32_t flags, void **ptr)
{
	int rc;

	*ptr = NULL;
	rc = check_alloc(ctx, NPU_CAP_MEM, flags, "malloc");
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
	rc = check_alloc(ctx, NPU_CAP_HOST_ALLOC, flags, "host_alloc");
	if (rc || !size)
		return rc;
	return alloc(ctx, size, flags, HAL_MEMORY_HOST, "host_alloc", ptr);
}

/**
 * hal_mem_host_register() - pin memory of the caller
 * @ctx: the context
 * @ptr: the memory
 * @size: its bytes
 * @flags: 0
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

	rc = check_alloc(ctx, NPU_CAP_HOST_REGISTER, 0, op);
	if (rc)
		return rc;
	if (flags || !ptr || !size || (uintptr_t)ptr + size < (uintptr_t)ptr)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "%zu bytes at %p, flags 0x%x", size,
				   ptr, flags);
	m = new_memory(ctx, size, HAL_MEMORY_REGISTERED, 0);
	if (!m)
		return too_much(ctx, size, HAL_MEMORY_REGISTERED, op);
	m->addr = ptr;
	if (!insert(m)) {
		rc = hal_fail_at(-EEXIST, op, ctx->dev, 0,
				 "some of the %zu bytes at %p is registered or ours", size, ptr);
		goto free;
	}
	fills = hal_fills();
	rc = ctx->dev->drv->memory->host_register(m);
	if (rc) {
		hal_driver_failed(rc, op, ctx->dev, fills);
		goto out;
	}
	rc = attach(m, op);
	if (!rc)
		return 0;
	undo(m);
out:
	pthread_rwlock_wrlock(&map_lock);
	take_out_locked(m);
	pthread_rwlock_unlock(&map_lock);
free:
	free_base(m);
	return rc;
}

static enum hal_memory_kind plain(enum hal_memory_kind kind)
{
	return kind == HAL_MEMORY_UNSAFE ? HAL_MEMORY_DEVICE : kind;
}

static int let_go(void *ptr, enum hal_memory_kind kind, const char *op)
{
	struct hal_memory *m;
	bool ours = false;

	if (!ptr)
		return 0;
	pthread_rwlock_wrlock(&map_lock);
	m = memory_of(hal_range_find(&map, (uint64_t)(uintptr_t)ptr));
	if (m && m->addr == ptr && plain(m->kind) == kind && !m->making)
		ours = take_out_locked(m);
	pthread_rwlock_unlock(&map_lock);
	if (!ours)
		return hal_fail(-EINVAL, op, "%p is not the start of such memory", ptr);
	detach(m);
	kref_put(&m->ref, release);
	return 0;
}

struct hal_memory *hal_memory_get(const void *ptr, size_t size, bool *safe)
{
	struct hal_memory *m;

	pthread_rwlock_rdlock(&map_lock);
	m = memory_of(hal_range_find(&map, (uint64_t)(uintptr_t)ptr));
	if (m && plain(m->kind) == HAL_MEMORY_DEVICE && !m->making && size <= m->size &&
	    (size_t)((const char *)ptr - (const char *)m->addr) <= m->size - size)
		kref_get(&m->ref);
	else
		m = NULL;
	*safe = m && m->kind == HAL_MEMORY_DEVICE;
	pthread_rwlock_unlock(&map_lock);
	return m;
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
		pthread_rwlock_wrlock(&map_lock);
		*ours = take_out_locked(m);	/* else somebody frees it now */
		pthread_rwlock_unlock(&map_lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return m;
}

void hal_memory_destroy(struct hal_context *ctx)
{
	struct hal_memory *m;
	bool ours;

	while ((m = next_of(ctx, &ours)))
		if (ours)
			kref_put(&m->ref, release);
}

void hal_memory_abandon(struct hal_context *ctx)
{
	bool ours;

	while (next_of(ctx, &ours))
		;
}

/* ---- what a pointer is ------------------------------------------------------------------ */

/**
 * hal_pointer_info() - what a pointer is
 * @ptr: the pointer
 * @info: out: its allocation; kind 0: memory that we know nothing of
 *
 * Return: 0.
 */
int hal_pointer_info(const void *ptr, struct hal_pointer *info)
{
	struct hal_memory *m;

	*info = (struct hal_pointer){ 0 };
	pthread_rwlock_rdlock(&map_lock);
	m = memory_of(hal_range_find(&map, (uint64_t)(uintptr_t)ptr));
	/* what lies behind what was asked for is nobody's */
	if (m && (uint64_t)(uintptr_t)ptr - m->range.start < m->size) {
		info->kind = plain(m->kind);
		info->unsafe = m->kind == HAL_MEMORY_UNSAFE;
		info->dev = m->ctx->dev;
		info->base = m->addr;
		info->size = m->size;
	}
	pthread_rwlock_unlock(&map_lock);
	return 0;
}

const char hal_memory_unsafe[] = "its content may be spoilt by an uncorrectable memory error";
const char hal_memory_cured[] = "";

/*
 * Looks at the span of bytes that begins at ptr: whose device memory it is (NULL:
 * the host's), and whether it may be used. Returns NULL or what is wrong with it,
 * of unsafe memory hal_memory_unsafe.
 */
static const char *look_locked(const void *ptr, uint64_t span, struct hal_device **dev)
{
	uint64_t start = (uint64_t)(uintptr_t)ptr, last = start + (span - 1);
	struct hal_memory *m = memory_of(hal_range_find(&map, start));
	struct hal_range *above;

	*dev = NULL;
	if (!ptr)
		return "NULL";
	if (last < start)
		return "a range that wraps";
	if (m && m->kind != HAL_MEMORY_REGISTERED) {
		if (span > m->size || start - m->range.start > m->size - span)
			return "a range that leaves its allocation";
		if (m->kind == HAL_MEMORY_DEVICE) {
			*dev = m->ctx->dev;
		} else if (m->kind == HAL_MEMORY_UNSAFE) {
			*dev = m->ctx->dev;
			return hal_memory_unsafe;
		}
		return NULL;
	}
	above = hal_range_find(&va_map, start);
	if (!above)
		above = hal_range_above(&va_map, start);
	if (above && above->start <= last)
		return "device memory that is not allocated";
	return NULL;
}

/* Whether a span, which was looked at, is all of its allocation. */
static HAL_COLD bool whole_locked(const void *ptr, uint64_t span)
{
	return memory_of(hal_range_find(&map, (uint64_t)(uintptr_t)ptr))->size == span;
}

int hal_range_check(const void *ptr, size_t size, struct hal_device **dev, const char *op)
{
	const char *wrong;
	bool whole = false;

	pthread_rwlock_rdlock(&map_lock);
	wrong = look_locked(ptr, size, dev);
	if (unlikely(wrong == hal_memory_unsafe))
		whole = whole_locked(ptr, size);
	pthread_rwlock_unlock(&map_lock);
	if (unlikely(wrong == hal_memory_unsafe))
		return whole;
	if (!wrong && !*dev)
		wrong = "not device memory";
	return wrong ? hal_fail(-EINVAL, op, "%zu bytes at %p: %s", size, ptr, wrong) : 0;
}

const char *hal_memory_look(const struct hal_copy *c, uint64_t dst_span, uint64_t src_span,
			    struct hal_device **dst_dev, struct hal_device **src_dev,
			    const char **which)
{
	const char *wrong, *cured = NULL;

	*which = "destination";
	pthread_rwlock_rdlock(&map_lock);
	wrong = look_locked(c->dst, dst_span, dst_dev);
	if (unlikely(wrong == hal_memory_unsafe)) {
		if (whole_locked(c->dst, dst_span))
			cured = hal_memory_cured;
		wrong = NULL;
	}
	if (!wrong) {
		*which = "source";
		wrong = look_locked(c->src, src_span, src_dev);
	}
	pthread_rwlock_unlock(&map_lock);
	return wrong ? wrong : cured;
}

/* ---- after an uncorrectable error ---------------------------------------------------------- */

static void spoil_context(struct hal_context *ctx, uint64_t addr, uint64_t size)
{
	struct hal_list *n;

	pthread_mutex_lock(&ctx->lock);
	pthread_rwlock_wrlock(&map_lock);
	hal_list_for_each(n, &ctx->memory) {
		struct hal_memory *m = hal_list_entry(n, struct hal_memory, node);

		/* the two overlap: one begins inside the other */
		if (m->kind == HAL_MEMORY_DEVICE &&
		    (m->range.start - addr < size || addr - m->range.start < m->real_size))
			m->kind = HAL_MEMORY_UNSAFE;
	}
	pthread_rwlock_unlock(&map_lock);
	pthread_mutex_unlock(&ctx->lock);
}

void hal_memory_spoil(struct hal_device *dev, uint64_t addr, uint64_t size)
{
	struct hal_list *n;

	pthread_mutex_lock(&dev->lock);
	hal_list_for_each(n, &dev->contexts)
		spoil_context(hal_list_entry(n, struct hal_context, node), addr, size);
	pthread_mutex_unlock(&dev->lock);
}

void hal_memory_spoil_list(struct hal_device *dev, const struct hal_poison *list, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		hal_memory_spoil(dev, list[i].addr, list[i].size);
}

/**
 * hal_mem_set_safe() - say that unsafe memory may be read again
 * @ptr: start of an allocation of device memory
 *
 * Return: 0, also of one that is safe; -EINVAL.
 */
int hal_mem_set_safe(void *ptr)
{
	struct hal_memory *m;
	bool ok;

	pthread_rwlock_wrlock(&map_lock);
	m = memory_of(hal_range_find(&map, (uint64_t)(uintptr_t)ptr));
	ok = m && m->addr == ptr && plain(m->kind) == HAL_MEMORY_DEVICE && !m->making;
	if (ok)
		m->kind = HAL_MEMORY_DEVICE;
	pthread_rwlock_unlock(&map_lock);
	if (!ok)
		return hal_fail(-EINVAL, "mem_set_safe", "%p is not the start of device memory",
				ptr);
	return 0;
}

void hal_memory_written(void *ptr)
{
	struct hal_memory *m;

	pthread_rwlock_wrlock(&map_lock);
	m = memory_of(hal_range_find(&map, (uint64_t)(uintptr_t)ptr));
	if (m && m->kind == HAL_MEMORY_UNSAFE && m->addr == ptr)
		m->kind = HAL_MEMORY_DEVICE;
	pthread_rwlock_unlock(&map_lock);
}
