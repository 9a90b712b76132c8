// SPDX-License-Identifier: MIT
/*
 * What a pointer points to, and what an uncorrectable error has done to it.
 */
#include "hal/internal.h"

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
	pthread_rwlock_rdlock(&hal_map_lock);
	m = hal_memory_at((uint64_t)(uintptr_t)ptr);
	/* what lies behind what was asked for is nobody's */
	if (m && (uint64_t)(uintptr_t)ptr - m->range.start < m->size) {
		info->kind = hal_memory_plain(m->kind);
		info->unsafe = m->unsafe;
		info->unlocked = m->unlocked;
		info->managed = m->flags & HAL_MEM_MANAGED;
		info->dev = m->ctx->dev;
		info->base = m->addr;
		info->size = m->size;
	}
	pthread_rwlock_unlock(&hal_map_lock);
	return 0;
}

const char hal_memory_unsafe[] = "its content may be spoilt by an uncorrectable memory error";
const char hal_memory_guarded[] = "what is mapped there does not allow it";
const char hal_memory_cured[] = "";
static const char leaves[] = "a range that leaves its allocation";

/* The mapping that follows one and allows the same, so that both are one range; or NULL. */
static struct hal_memory *next_locked(const struct hal_memory *m)
{
	struct hal_memory *n = m->reserve ? hal_memory_at(m->range.start + m->size) : NULL;

	return n && n->reserve == m->reserve && n->access == m->access ? n : NULL;
}

/* Device memory that leaves its allocation, is unsafe, or is not for all to be done with. */
static HAL_COLD const char *look_closer_locked(struct hal_memory *m, uint64_t start, uint64_t span,
					       uint32_t need, struct hal_device **dev)
{
	uint64_t end = start + (span - 1);
	bool unsafe = false;

	*dev = m->ctx->dev;
	for (; end - m->range.start >= m->size; m = next_locked(m)) {
		unsafe |= m->unsafe;
		if (!next_locked(m))
			return leaves;
	}
	if ((m->access & need) != need)
		return hal_memory_guarded;
	return unsafe || m->unsafe ? hal_memory_unsafe : NULL;
}

/*
 * Looks at the span of bytes that begins at ptr: whose device memory it is (NULL:
 * the host's), and whether it may be used: HAL_VM_*. Returns NULL or what is wrong
 * with it, of unsafe memory hal_memory_unsafe.
 */
static const char *look_locked(const void *ptr, uint64_t span, uint32_t need,
			       struct hal_device **dev)
{
	uint64_t start = (uint64_t)(uintptr_t)ptr, last = start + (span - 1);
	struct hal_memory *m = hal_memory_at(start);
	struct hal_range *above;

	*dev = NULL;
	if (!ptr)
		return "NULL";
	if (last < start)
		return "a range that wraps";
	if (m && m->kind != HAL_MEMORY_REGISTERED) {
		if (unlikely(m->kind == HAL_MEMORY_HOST))
			return last - m->range.start < m->size ? NULL : leaves;
		if (unlikely(m->kind != HAL_MEMORY_DEVICE || last - m->range.start >= m->size))
			return look_closer_locked(m, start, span, need, dev);
		*dev = m->ctx->dev;
		return NULL;
	}
	above = hal_range_find(&hal_va_map, start);
	if (!above)
		above = hal_range_above(&hal_va_map, start);
	if (above && above->start <= last)
		return "device memory that is not allocated";
	return NULL;
}

/* Whether a span, which was looked at, is all of an allocation that is unsafe. */
static HAL_COLD bool whole_locked(const void *ptr, uint64_t span)
{
	uint64_t start = (uint64_t)(uintptr_t)ptr, end = start + span;
	struct hal_memory *m;

	for (m = hal_memory_at(start); m && m->range.start < end; m = next_locked(m))
		if (m->unsafe && m->range.start >= start && m->range.start + m->size <= end)
			return true;
	return false;
}

/**
 * hal_memory_get() - the allocation that a range of device memory begins in
 * @ptr: the range
 * @size: its bytes
 * @safe: out: its content can be relied upon
 *
 * Return: the allocation with a reference, or NULL: it is not one range of device memory with which
 * all may be done.
 */
struct hal_memory *hal_memory_get(const void *ptr, size_t size, bool *safe)
{
	struct hal_memory *m = NULL;
	struct hal_device *dev;
	const char *wrong;

	pthread_rwlock_rdlock(&hal_map_lock);
	wrong = look_locked(ptr, size, HAL_VM_RW, &dev);
	if (dev && (!wrong || wrong == hal_memory_unsafe))
		m = hal_memory_at((uint64_t)(uintptr_t)ptr);
	if (m && m->making)
		m = NULL;
	if (m)
		kref_get(&m->ref);
	*safe = m && !wrong;
	pthread_rwlock_unlock(&hal_map_lock);
	return m;
}

int hal_range_check(const void *ptr, size_t size, struct hal_device **dev, const char *op)
{
	const char *wrong;
	bool whole = false;

	pthread_rwlock_rdlock(&hal_map_lock);
	wrong = look_locked(ptr, size, HAL_VM_WRITE, dev);
	if (unlikely(wrong == hal_memory_unsafe))
		whole = whole_locked(ptr, size);
	pthread_rwlock_unlock(&hal_map_lock);
	if (unlikely(wrong == hal_memory_unsafe))
		return whole;
	if (!wrong && !*dev)
		wrong = "not device memory";
	if (!wrong)
		return 0;
	return hal_fail(hal_memory_wrong(wrong), op, "%zu bytes at %p: %s", size, ptr, wrong);
}

const char *hal_memory_look(const struct hal_copy *c, uint64_t dst_span, uint64_t src_span,
			    struct hal_device **dst_dev, struct hal_device **src_dev,
			    const char **which)
{
	const char *wrong, *cured = NULL;

	*which = "destination";
	pthread_rwlock_rdlock(&hal_map_lock);
	wrong = look_locked(c->dst, dst_span, HAL_VM_WRITE, dst_dev);
	if (unlikely(wrong == hal_memory_unsafe)) {
		if (whole_locked(c->dst, dst_span))
			cured = hal_memory_cured;
		wrong = NULL;
	}
	if (!wrong) {
		*which = "source";
		wrong = look_locked(c->src, src_span, HAL_VM_READ, src_dev);
	}
	pthread_rwlock_unlock(&hal_map_lock);
	return wrong ? wrong : cured;
}

/* ---- after an uncorrectable error ---------------------------------------------------------- */

void hal_memory_settle_locked(struct hal_memory *m)
{
	if (m->access != HAL_VM_RW)
		m->kind = HAL_MEMORY_GUARDED;
	else
		m->kind = m->unsafe ? HAL_MEMORY_UNSAFE : HAL_MEMORY_DEVICE;
}

static void set_unsafe_locked(struct hal_memory *m, bool unsafe)
{
	m->unsafe = unsafe;
	hal_memory_settle_locked(m);
}

static void spoil_context(struct hal_context *ctx, uint64_t addr, uint64_t size)
{
	struct hal_list *n;

	pthread_mutex_lock(&ctx->lock);
	pthread_rwlock_wrlock(&hal_map_lock);
	hal_list_for_each(n, &ctx->memory) {
		struct hal_memory *m = hal_list_entry(n, struct hal_memory, node);

		/* the two overlap: one begins inside the other */
		if (hal_memory_plain(m->kind) == HAL_MEMORY_DEVICE &&
		    (m->range.start - addr < size || addr - m->range.start < m->real_size))
			set_unsafe_locked(m, true);
	}
	/* what is mapped nowhere has no address that would be told of, unless all are */
	hal_list_for_each(n, &ctx->apart)
		if (size == UINT64_MAX)
			hal_list_entry(n, struct hal_memory, node)->unsafe = true;
	pthread_rwlock_unlock(&hal_map_lock);
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

	pthread_rwlock_wrlock(&hal_map_lock);
	m = hal_memory_at((uint64_t)(uintptr_t)ptr);
	ok = m && m->addr == ptr && hal_memory_plain(m->kind) == HAL_MEMORY_DEVICE && !m->making;
	if (ok)
		set_unsafe_locked(m, false);
	pthread_rwlock_unlock(&hal_map_lock);
	if (!ok)
		return hal_fail(-EINVAL, "mem_set_safe", "%p is not the start of device memory",
				ptr);
	return 0;
}

void hal_memory_written(void *ptr, size_t size)
{
	uint64_t start = (uint64_t)(uintptr_t)ptr, end = start + size;
	struct hal_memory *m;

	pthread_rwlock_wrlock(&hal_map_lock);
	for (m = hal_memory_at(start); m && m->range.start < end; m = next_locked(m))
		if (m->unsafe && m->range.start >= start && m->range.start + m->size <= end)
			set_unsafe_locked(m, false);
	pthread_rwlock_unlock(&hal_map_lock);
}
