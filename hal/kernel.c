// SPDX-License-Identifier: MIT
/*
 * Modules and kernels.
 */
#include <stdlib.h>
#include <string.h>

#include "hal/internal.h"

/* ---- modules -------------------------------------------------------------------- */

static struct hal_module *new_module(struct hal_context *ctx)
{
	size_t size = ctx->dev->drv->kernel->module_size;
	struct hal_module *m;

	m = hal_zalloc_aligned(HAL_CACHELINE, size > sizeof(*m) ? size : sizeof(*m));
	if (!m)
		return NULL;
	kref_init(&m->ref);
	kref_get(&ctx->ref);
	m->ctx = ctx;
	hal_list_init(&m->node);
	hal_list_init(&m->kernels);
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

static void free_base(struct hal_module *m)
{
	struct hal_context *ctx = m->ctx;

	pthread_mutex_destroy(&m->lock);
	free(m);
	hal_context_put(ctx);
}

static void release(struct kref *ref)
{
	struct hal_module *m = container_of(ref, struct hal_module, ref);

	m->ctx->dev->drv->kernel->unload(m);
	free_base(m);
}

static struct hal_slot *module_slot(const struct hal_module *m)
{
	return hal_slot_at(HAL_HANDLE_MODULE, m->handle);
}

/* The module of a handle with a reference, its handle retired if asked for. */
static struct hal_module *module_get(uint64_t module, bool retire, const char *op)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_MODULE, module);
	struct hal_module *m = NULL;

	if (slot) {
		hal_spin_lock(&slot->lock);
		if (hal_slot_is(slot, module)) {
			m = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
			kref_get(&m->ref);
			if (retire)
				hal_handle_retire(HAL_HANDLE_MODULE, slot);
		}
		hal_spin_unlock(&slot->lock);
	}
	if (!m)
		hal_handle_error(HAL_HANDLE_MODULE, module, op);
	return m;
}

/* From then on the module may end with its context at any moment. */
static int publish(struct hal_module *m, struct hal_slot *slot, uint64_t *handle)
{
	struct hal_context *ctx = m->ctx;
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = hal_context_alive_locked(ctx, "module_load");
	if (!rc) {
		hal_list_add_tail(&ctx->modules, &m->node);
		hal_spin_lock(&slot->lock);
		m->handle = hal_handle_publish(HAL_HANDLE_MODULE, slot, m);
		*handle = m->handle;
		hal_spin_unlock(&slot->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return rc;
}

/* What to load: a file, or bytes, or neither: the driver's own. */
struct source {
	const char *path;
	const void *data;
	size_t size;
};

static int do_load(struct hal_module *m, const struct source *src)
{
	const struct hal_kernel_ops *ops = m->ctx->dev->drv->kernel;

	if (src->path)
		return ops->load_file(m, src->path);
	if (src->data)
		return ops->load_data(m, src->data, src->size);
	return ops->load_builtin(m);
}

static int load(struct hal_context *ctx, uint64_t caps, const struct source *src,
		uint64_t *module)
{
	struct hal_module *m;
	struct hal_slot *slot;
	uint32_t fills;
	int rc;

	rc = hal_need(ctx->dev, caps, "module_load");
	if (!rc)
		rc = hal_device_usable(ctx->dev, "module_load");
	if (rc)
		return rc;
	m = new_module(ctx);
	if (!m)
		return hal_fail_at(-ENOMEM, "module_load", ctx->dev, 0, "no memory for a module");
	rc = hal_handle_alloc(HAL_HANDLE_MODULE, &slot);
	if (rc)
		goto free;
	fills = hal_fills();
	rc = do_load(m, src);
	if (rc) {
		hal_driver_failed(rc, "module_load", ctx->dev, fills);
		goto free_slot;
	}
	rc = publish(m, slot, module);
	if (rc)
		goto unload;
	return 0;
unload:
	ctx->dev->drv->kernel->unload(m);
free_slot:
	hal_handle_free(HAL_HANDLE_MODULE, slot);
free:
	free_base(m);
	return rc;
}

/**
 * hal_module_load_builtin() - open the driver's own module
 * @ctx: the context
 * @module: out: its handle
 *
 * Return: 0, -EOPNOTSUPP, -ENOMEM, -ENOSPC, -ESTALE (the context is going), the device's state, or
 * as the driver fails.
 */
int hal_module_load_builtin(struct hal_context *ctx, uint64_t *module)
{
	struct source src = { 0 };

	*module = 0;
	return load(ctx, NPU_CAP_LAUNCH, &src, module);
}

/**
 * hal_module_load_file() - load a module from a file
 * @ctx: the context
 * @path: the file
 * @module: out: its handle
 *
 * Return: as hal_module_load_builtin(), -EINVAL, -ENOENT, -EACCES, -ENOEXEC, -EPROTO.
 */
int hal_module_load_file(struct hal_context *ctx, const char *path, uint64_t *module)
{
	struct source src = { .path = path };

	*module = 0;
	if (!path || !path[0])
		return hal_fail(-EINVAL, "module_load", "no path");
	return load(ctx, NPU_CAP_LAUNCH | NPU_CAP_MODULE_FILE, &src, module);
}

/**
 * hal_module_load_data() - load a module from memory
 * @ctx: the context
 * @data: the module, copied
 * @size: its bytes
 * @module: out: its handle
 *
 * Return: as hal_module_load_file().
 */
int hal_module_load_data(struct hal_context *ctx, const void *data, size_t size,
			 uint64_t *module)
{
	struct source src = { .data = data, .size = size };

	*module = 0;
	if (!data || !size)
		return hal_fail(-EINVAL, "module_load", "%zu bytes at %p", size, data);
	return load(ctx, NPU_CAP_LAUNCH | NPU_CAP_MODULE_DATA, &src, module);
}

/* ---- unloading --------------------------------------------------------------------- */

static void drop_kernels(struct hal_module *m)
{
	struct hal_kernel *k;
	struct hal_slot *slot;

	pthread_mutex_lock(&m->lock);
	while (!hal_list_empty(&m->kernels)) {
		k = hal_list_entry(m->kernels.next, struct hal_kernel, node);
		slot = hal_slot_at(HAL_HANDLE_KERNEL, k->handle);
		hal_spin_lock(&slot->lock);
		hal_handle_retire(HAL_HANDLE_KERNEL, slot);
		hal_spin_unlock(&slot->lock);
		hal_handle_free(HAL_HANDLE_KERNEL, slot);
		hal_list_del(&k->node);
		free(k);
	}
	pthread_mutex_unlock(&m->lock);
}

/* Waits for what the context's streams were given before the kernels went stale. */
static int wait_unused(struct hal_context *ctx, uint64_t deadline)
{
	struct hal_marks m;
	uint32_t i;
	int rc;

	rc = hal_marks_get(ctx, &m);
	if (rc)
		return rc;
	for (i = 0; i < m.n && !rc; i++)
		rc = hal_stream_wait_host(m.mark[i].s, m.mark[i].seq, deadline, 0);
	hal_marks_put(&m);
	if (rc && hal_load_relaxed(&ctx->dev->state) == HAL_DEVICE_LOST)
		return 0;
	return rc;
}

/* Whether the module is loaded again; not when its context has gone meanwhile. */
static bool restore(struct hal_module *m)
{
	struct hal_context *ctx = m->ctx;
	struct hal_slot *slot = module_slot(m);
	bool there;

	pthread_mutex_lock(&ctx->lock);
	there = !hal_list_empty(&m->node);
	if (there) {
		hal_spin_lock(&slot->lock);
		hal_handle_restore(HAL_HANDLE_MODULE, slot);
		hal_spin_unlock(&slot->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return there;
}

/**
 * hal_module_unload() - unload a module
 * @module: its handle
 * @timeout_ms: how long to wait for the context's streams
 *
 * Return: 0, -EINVAL, -EBADF, -ESTALE, -ETIMEDOUT, -EDEADLK, -ENOMEM (the last three: the module
 * stays loaded, but the handles of its kernels are stale).
 */
int hal_module_unload(uint64_t module, int64_t timeout_ms)
{
	struct hal_module *m;
	int rc;

	rc = hal_may_block("module_unload");
	if (rc)
		return rc;
	m = module_get(module, true, "module_unload");
	if (!m)
		return hal_error_last()->code;
	drop_kernels(m);
	rc = wait_unused(m->ctx, hal_sys_deadline(timeout_ms));
	if (rc && restore(m)) {
		kref_put(&m->ref, release);
		return rc;
	}
	pthread_mutex_lock(&m->ctx->lock);
	hal_list_del(&m->node);
	pthread_mutex_unlock(&m->ctx->lock);
	hal_handle_free(HAL_HANDLE_MODULE, module_slot(m));
	kref_put(&m->ref, release);
	kref_put(&m->ref, release);
	return 0;
}

/*
 * The next module of a context that goes, NULL: none. *ours: not just being unloaded.
 * keep: one that is, stays for ever.
 */
static struct hal_module *next_of(struct hal_context *ctx, bool keep, bool *ours)
{
	struct hal_module *m = NULL;
	struct hal_slot *slot;

	pthread_mutex_lock(&ctx->lock);
	if (!hal_list_empty(&ctx->modules)) {
		m = hal_list_entry(ctx->modules.next, struct hal_module, node);
		hal_list_del(&m->node);
		slot = module_slot(m);
		hal_spin_lock(&slot->lock);
		*ours = hal_slot_is(slot, m->handle);
		if (*ours)
			hal_handle_retire(HAL_HANDLE_MODULE, slot);
		else if (keep)
			kref_get(&m->ref);
		hal_spin_unlock(&slot->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return m;
}

void hal_modules_destroy(struct hal_context *ctx)
{
	struct hal_module *m;
	bool ours;

	while ((m = next_of(ctx, false, &ours))) {
		if (!ours)
			continue;
		drop_kernels(m);
		hal_handle_free(HAL_HANDLE_MODULE, module_slot(m));
		kref_put(&m->ref, release);
	}
}

void hal_modules_abandon(struct hal_context *ctx)
{
	struct hal_module *m;
	bool ours;

	while ((m = next_of(ctx, true, &ours)))
		if (ours)
			drop_kernels(m);
}

/* ---- kernels -------------------------------------------------------------------------- */

static struct hal_kernel *find_locked(struct hal_module *m, const char *name)
{
	struct hal_list *n;

	hal_list_for_each(n, &m->kernels) {
		struct hal_kernel *k = hal_list_entry(n, struct hal_kernel, node);

		if (!strcmp(k->name, name))
			return k;
	}
	return NULL;
}

/* Puts a kernel into its module, unless the module is being unloaded. */
static int add_locked(struct hal_module *m, uint64_t module, struct hal_kernel *k)
{
	struct hal_kernel_slot *ks;
	struct hal_slot *slot;
	int rc;

	if (!hal_slot_is(module_slot(m), module))
		return hal_handle_error(HAL_HANDLE_MODULE, module, "kernel_get");
	rc = hal_handle_alloc(HAL_HANDLE_KERNEL, &slot);
	if (rc)
		return rc;
	ks = (struct hal_kernel_slot *)slot;
	hal_spin_lock(&slot->lock);
	hal_store_release(&ks->token, k->token);
	hal_store_release(&ks->ctx, m->ctx);
	k->handle = hal_handle_publish(HAL_HANDLE_KERNEL, slot, k);
	hal_spin_unlock(&slot->lock);
	hal_list_add_tail(&m->kernels, &k->node);
	return 0;
}

static int look_up(struct hal_module *m, uint64_t module, const char *name, uint64_t *kernel)
{
	size_t len = strlen(name) + 1;
	struct hal_kernel *k, *other;
	uint32_t fills;
	int rc;

	k = hal_zalloc(sizeof(*k) + len);
	if (!k)
		return hal_fail_at(-ENOMEM, "kernel_get", m->ctx->dev, 0, "no memory for a kernel");
	fills = hal_fills();
	rc = m->ctx->dev->drv->kernel->get(m, name, &k->token);
	if (rc) {
		if (rc == -ESRCH)
			hal_fail_at(rc, "kernel_get", m->ctx->dev, 0,
				    "module 0x%llx has no kernel \"%s\"",
				    (unsigned long long)module, name);
		else
			hal_driver_failed(rc, "kernel_get", m->ctx->dev, fills);
		free(k);
		return rc;
	}
	memcpy(k->name, name, len);
	k->module = m;
	pthread_mutex_lock(&m->lock);
	other = find_locked(m, name);	/* somebody may have been faster */
	if (!other)
		rc = add_locked(m, module, k);
	if (!rc)
		*kernel = other ? other->handle : k->handle;
	pthread_mutex_unlock(&m->lock);
	if (rc || other)
		free(k);
	return rc;
}

/**
 * hal_kernel_get() - look a kernel up
 * @module: its module
 * @name: its name
 * @kernel: out: its handle; the same name gives the same one
 *
 * Return: 0, -ESRCH (no such kernel), -EINVAL (no name, no handle), -EBADF, -ESTALE, -ENOMEM,
 * -ENOSPC, or as the driver fails.
 */
int hal_kernel_get(uint64_t module, const char *name, uint64_t *kernel)
{
	struct hal_module *m;
	struct hal_kernel *k;
	int rc = 0;

	*kernel = 0;
	if (!name || !name[0])
		return hal_fail(-EINVAL, "kernel_get", "no name");
	m = module_get(module, false, "kernel_get");
	if (!m)
		return hal_error_last()->code;
	pthread_mutex_lock(&m->lock);
	k = find_locked(m, name);
	if (k)
		*kernel = k->handle;
	pthread_mutex_unlock(&m->lock);
	if (!k)
		rc = look_up(m, module, name, kernel);
	kref_put(&m->ref, release);
	return rc;
}

/**
 * hal_kernel_device() - the device of a kernel
 * @kernel: the kernel
 * @op: for the error record
 *
 * Return: the device, no reference; NULL with the thread's record filled.
 */
struct hal_device *hal_kernel_device(uint64_t kernel, const char *op)
{
	struct hal_slot *slot = hal_slot_at(HAL_HANDLE_KERNEL, kernel);
	struct hal_device *dev = NULL;
	struct hal_kernel *k;

	if (slot) {
		hal_spin_lock(&slot->lock);
		if (hal_slot_is(slot, kernel)) {
			k = hal_load_relaxed(&slot->obj);	/* relaxed: under the lock */
			dev = k->module->ctx->dev;
		}
		hal_spin_unlock(&slot->lock);
	}
	if (!dev)
		hal_handle_error(HAL_HANDLE_KERNEL, kernel, op);
	return dev;
}
