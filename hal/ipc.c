// SPDX-License-Identifier: MIT
/*
 * Memory that processes share.
 */
#include <string.h>

#include "hal/internal.h"
#include "hal/ipc.h"

int hal_ipc_need(struct hal_device *dev, uint64_t cap, const char *op)
{
	int rc = hal_need(dev, cap, op);

	return rc ? hal_hint(rc, "Simulated devices share memory in a named instance: option "
			     "simnpu_instance.") : 0;
}

/* The allocation that a pointer lies in, with a reference, if it can be exported. */
static struct hal_memory *find(void *ptr, const char *op, int *rc)
{
	struct hal_memory *m;
	bool safe;

	m = hal_memory_get(ptr, 1, &safe);
	if (!m) {
		*rc = hal_fail(-EINVAL, op, "%p is not device memory", ptr);
		return NULL;
	}
	*rc = hal_ipc_need(m->ctx->dev, NPU_CAP_IPC_MEM, op);
	if (!*rc && m->reserve) {
		*rc = hal_fail_at(-EOPNOTSUPP, op, m->ctx->dev, 0,
				  "%p lies in memory that is mapped, which has no key", ptr);
		hal_hint(*rc, "Memory of npu_malloc() can be shared, and the cache's where it does "
			 "not grow (option mem_growable).");
	} else if (!*rc && m->flags & HAL_MEM_IMPORTED) {
		*rc = hal_fail_at(-EOPNOTSUPP, op, m->ctx->dev, 0,
				  "%p is imported: its owner alone makes keys of it", ptr);
	}
	if (!*rc)
		return m;
	hal_memory_put(m);
	return NULL;
}

/**
 * hal_ipc_export() - make a key of memory
 * @ptr: device memory
 * @flags: HAL_IPC_ANY or 0
 * @key: out: HAL_IPC_KEY_SIZE bytes; empty on failure
 *
 * Return: 0, -EINVAL, -EOPNOTSUPP, -EMFILE, -ENOMEM, -EBUSY, the device's state.
 */
int hal_ipc_export(void *ptr, uint32_t flags, char *key)
{
	static const char op[] = "ipc_export";
	struct hal_memory *m;
	uint32_t fills;
	int rc;

	key[0] = 0;
	if (flags & ~HAL_IPC_ANY)
		return hal_fail(-EINVAL, op, "flags 0x%x", flags);
	m = find(ptr, op, &rc);
	if (!m)
		return rc;
	rc = hal_device_usable(m->ctx->dev, op);
	fills = hal_fills();
	if (!rc) {
		rc = m->ctx->dev->drv->memory->export_key(m, (size_t)((char *)ptr -
							  (char *)m->addr), flags, key);
		if (rc)
			hal_driver_failed(rc, op, m->ctx->dev, fills);
	}
	if (rc)
		key[0] = 0;
	hal_memory_put(m);
	return rc;
}

/* Whether these can be processes. */
int hal_ipc_check_pids(const int32_t *pids, size_t n, const char *op)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (pids[i] <= 0)
			return hal_fail(-EINVAL, op, "%d is no process", pids[i]);
	return 0;
}

/**
 * hal_ipc_allow() - let processes import memory
 * @ptr: device memory
 * @pids: the processes
 * @n: how many
 *
 * Return: 0, -EINVAL, -ENOENT (it has no key), -ENOSPC, -EOPNOTSUPP.
 */
int hal_ipc_allow(void *ptr, const int32_t *pids, size_t n)
{
	static const char op[] = "ipc_allow";
	struct hal_memory *m;
	uint32_t fills;
	int rc = hal_ipc_check_pids(pids, n, op);

	if (rc)
		return rc;
	m = find(ptr, op, &rc);
	if (!m)
		return rc;
	fills = hal_fills();
	rc = m->ctx->dev->drv->memory->allow(m, pids, n);
	if (rc)
		hal_driver_failed(rc, op, m->ctx->dev, fills);
	hal_memory_put(m);
	return rc;
}

/* Puts what was imported where others find it; the last step, as hal_memory_attach(). */
static int admit(struct hal_memory *m, const char *op)
{
	struct hal_device *dev = m->ctx->dev;
	int rc;

	if (!hal_memory_insert(m))
		return hal_fail_at(-EEXIST, op, dev, 0,
				   "device %d gave memory at %p that is another's", dev->ordinal,
				   m->addr);
	rc = hal_memory_attach(m, op);
	if (!rc)
		return 0;
	pthread_rwlock_wrlock(&hal_map_lock);
	hal_memory_take_out_locked(m);
	pthread_rwlock_unlock(&hal_map_lock);
	return rc;
}

/**
 * hal_ipc_import() - get the memory that a key names
 * @ctx: the context
 * @key: the key
 * @ptr: out: the memory; NULL on failure
 *
 * Return: 0, -EINVAL, -EXDEV, -EOWNERDEAD, -ESTALE, -EACCES, -ETIMEDOUT, -ENOSPC, -ENOMEM, -EMFILE,
 * -EOPNOTSUPP, -ESTALE (the context is going), the device's state.
 */
int hal_ipc_import(struct hal_context *ctx, const char *key, void **ptr)
{
	static const char op[] = "ipc_import";
	struct hal_memory *m;
	uint32_t fills;
	void *addr;
	int rc;

	*ptr = NULL;
	rc = hal_ipc_need(ctx->dev, NPU_CAP_IPC_MEM, op);
	if (!rc)
		rc = hal_device_usable(ctx->dev, op);
	if (rc)
		return rc;
	if (strnlen(key, HAL_IPC_KEY_SIZE) == HAL_IPC_KEY_SIZE)
		return hal_fail_at(-EINVAL, op, ctx->dev, 0, "longer than any key");
	m = hal_memory_new(ctx, 0, HAL_MEMORY_DEVICE, HAL_MEM_IMPORTED);
	if (!m)
		return hal_fail_at(-ENOMEM, op, ctx->dev, 0, "no memory");
	fills = hal_fills();
	rc = ctx->dev->drv->memory->import_key(m, key);
	if (rc) {
		hal_driver_failed(rc, op, ctx->dev, fills);
		goto free_base;
	}
	/* admitted, it may end with its context at any moment */
	addr = (char *)m->addr + m->entry;
	rc = admit(m, op);
	if (rc)
		goto give_back;
	*ptr = addr;
	return 0;
give_back:
	ctx->dev->drv->memory->free(m);
free_base:
	hal_memory_free_base(m);
	return rc;
}

/**
 * hal_ipc_close() - give imported memory back
 * @ptr: from hal_ipc_import(); NULL is fine
 *
 * Return: 0 or -EINVAL.
 */
int hal_ipc_close(void *ptr)
{
	struct hal_memory *m;
	bool ours = false;

	if (!ptr)
		return 0;
	pthread_rwlock_wrlock(&hal_map_lock);
	m = hal_memory_at((uint64_t)(uintptr_t)ptr);
	if (m && m->flags & HAL_MEM_IMPORTED && (char *)m->addr + m->entry == ptr && !m->making)
		ours = hal_memory_take_out_locked(m);
	pthread_rwlock_unlock(&hal_map_lock);
	if (!ours)
		return hal_fail(-EINVAL, "ipc_close", "%p was not imported", ptr);
	hal_memory_detach(m);
	hal_memory_put(m);
	return 0;
}
