// SPDX-License-Identifier: MIT
/*
 * Modules and kernels: built in, from files, from images in memory.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/simnpu/model/model.h"

#define PATH_MAX_SIZE	4096u
#define IMAGE_MAX	(256u << 20)
#define NAME_MAX_SIZE	256u
#define HEAD_SIZE	4096
#define CHUNK		256u
#define REST_NS		200000u

/* The section of the kernels that are linked into the program; there may be none. */
extern const struct npu_simnpu_builtin *const __start_npu_simnpu_kernels[]
	__attribute__((weak, visibility("hidden")));
extern const struct npu_simnpu_builtin *const __stop_npu_simnpu_kernels[]
	__attribute__((weak, visibility("hidden")));

/* ---- loading ----------------------------------------------------------------------- */

static int open_library(struct model_module *m, const char *path)
{
	const uint32_t *abi;
	void *sym;

	if (hal_sys_dlopen(path, &m->dl))
		return -ENOEXEC;
	if (hal_sys_dlsym(m->dl, "npu_simnpu_kernel_abi", &sym))
		return -ENOEXEC;
	abi = sym;
	return *abi == NPU_SIMNPU_KERNEL_ABI ? 0 : -EPROTO;
}

/* Looks at a file before the loader does. */
static int check_file(const char *path)
{
	char head[HEAD_SIZE] = { 0 };
	off_t length;
	int fd, rc = -ENOEXEC;

	/* a pipe that nobody writes to is not waited for, and has no length */
	fd = hal_sys_open(hal_sys_get(), path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return fd;
	length = lseek(fd, 0, SEEK_END);
	if (length >= 0) {
		lseek(fd, 0, SEEK_SET);
		rc = hal_sys_read(fd, head, sizeof(head));
	}
	hal_sys_close(hal_sys_get(), fd);
	/* a shorter one has come to its end; a folder can't be read */
	if (length < 0 || rc == -EISDIR)
		return -ENOEXEC;
	if (rc && rc != -ENODATA)
		return rc;
	return model_elf_check(head, length < HEAD_SIZE ? (size_t)length : HEAD_SIZE,
			       (uint64_t)length);
}

static int load_path(struct model_module *m, const struct simnpu_module *arg)
{
	char path[PATH_MAX_SIZE + 2] = "./";
	char *name = path + 2;
	int rc;

	if (arg->size < 2 || arg->size > PATH_MAX_SIZE)
		return -EINVAL;
	rc = model_copy_in(name, arg->data, arg->size);
	if (rc)
		return rc;
	if (memchr(name, 0, arg->size) != name + arg->size - 1)
		return -EINVAL;
	rc = check_file(name);
	if (rc)
		return rc;
	/* a name without a slash is a file here too, and not one of the loader's folders */
	return open_library(m, strchr(name, '/') ? name : path);
}

static int load_image(struct model_module *m, const struct simnpu_module *arg)
{
	char path[32];
	void *image;
	int rc;

	if (!arg->size || arg->size > IMAGE_MAX)
		return -EINVAL;
	image = hal_zalloc(arg->size);
	if (!image)
		return -ENOMEM;
	rc = model_copy_in(image, arg->data, arg->size);
	if (!rc)
		rc = model_elf_check(image, arg->size, arg->size);
	if (!rc) {
		/* kept open: the loader takes a file of the same name for the same file */
		m->fd = hal_sys_memfd("simnpu-module");
		rc = m->fd < 0 ? m->fd : hal_sys_write(m->fd, image, arg->size);
	}
	free(image);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	return open_library(m, path);
}

static int module_open(struct model_module *m, const struct simnpu_module *arg)
{
	switch (arg->kind) {
	case SIMNPU_MODULE_BUILTIN:
		m->builtin = true;
		return arg->data || arg->size ? -EINVAL : 0;
	case SIMNPU_MODULE_PATH:
		return IS_ENABLED(CONFIG_SIMNPU_MODULES) ? load_path(m, arg) : -EOPNOTSUPP;
	case SIMNPU_MODULE_IMAGE:
		return IS_ENABLED(CONFIG_SIMNPU_MODULES) ? load_image(m, arg) : -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

static void module_close(struct model_module *m)
{
	hal_sys_dlclose(m->dl);
	if (m->fd >= 0)
		hal_sys_close(hal_sys_get(), m->fd);
	free(m);
}

/* SIMNPU_IOCTL_MODULE_LOAD. */
int model_module_load(struct model_file *f, struct simnpu_module *arg)
{
	struct model_module *m = hal_zalloc(sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	m->fd = -1;
	hal_list_init(&m->kernels);
	/* the loader runs code of the file: no lock is held */
	rc = module_open(m, arg);
	if (!rc) {
		pthread_mutex_lock(&f->dev->lock);
		m->ctx = model_context_find(f, arg->context);
		rc = m->ctx ? model_table_add(&f->table, MODEL_MODULE, m, &m->handle) : -ENOENT;
		if (!rc)
			hal_list_add_tail(&m->ctx->modules, &m->node);
		pthread_mutex_unlock(&f->dev->lock);
	}
	if (rc) {
		module_close(m);
		return rc;
	}
	arg->handle = m->handle;
	return 0;
}

/* ---- unloading ----------------------------------------------------------------------- */

static bool context_uses(struct model_context *ctx, const struct model_module *m)
{
	struct model_kernel *k;
	struct hal_list *pos;

	hal_list_for_each(pos, &ctx->queues) {
		k = hal_load_acquire(&hal_list_entry(pos, struct model_queue, node)->kernel);
		if (k && hal_load_relaxed(&k->module) == m)
			return true;
	}
	return false;
}

/* Whether a thread is in a kernel of the module. Under the device's lock. */
static bool module_busy(struct model_module *m)
{
	struct model_device *dev = m->ctx->dev;
	struct model_context *ctx;

	for (ctx = model_context_next(dev, NULL); ctx; ctx = model_context_next(dev, ctx))
		if (context_uses(ctx, m))
			return true;
	return false;
}

/*
 * Makes the kernels' numbers invalid, or valid again. Who starts a kernel after
 * this finds no kernel; who has started one is seen by module_busy().
 */
static void module_enable(struct model_module *m, bool on)
{
	struct model_kernel *k;
	struct hal_list *pos;

	hal_list_for_each(pos, &m->kernels) {
		k = hal_list_entry(pos, struct model_kernel, node);
		atomic_store(&k->id, on ? (uint64_t)k->last << 32 | k->index : 0);
	}
	if (!on)
		model_barrier(m->ctx->dev);
}

/**
 * model_module_free() - unload a module
 * @m: the module
 *
 * Context: under the device's lock, which is dropped while a kernel of it runs.
 */
void model_module_free(struct model_module *m)
{
	struct model_device *dev = m->ctx->dev;
	struct model_kernel *k;

	if (m->handle)
		model_table_del(&m->ctx->file->table, m->handle);
	m->handle = 0;
	module_enable(m, false);
	while (!dev->hung && module_busy(m)) {
		pthread_mutex_unlock(&dev->lock);
		hal_sys_futex_wait(&dev->bell, atomic_load(&dev->bell), hal_sys_now() + REST_NS);
		pthread_mutex_lock(&dev->lock);
	}
	hal_list_del(&m->node);
	/* a thread may be in one of its kernels, which find it; without kernels nobody would */
	if (dev->hung && !hal_list_empty(&m->kernels))
		return;
	while (!hal_list_empty(&m->kernels)) {
		k = hal_list_entry(m->kernels.next, struct model_kernel, node);
		hal_list_del(&k->node);
		hal_store_relaxed(&k->module, NULL);
		k->next_free = dev->free_kernels;
		dev->free_kernels = k->index + 1;
	}
	module_close(m);
}

/* SIMNPU_IOCTL_MODULE_UNLOAD. */
int model_module_unload(struct model_file *f, const struct simnpu_handle *arg)
{
	struct model_module *m;
	int rc = -ENOENT;

	pthread_mutex_lock(&f->dev->lock);
	m = model_table_get(&f->table, arg->handle, MODEL_MODULE);
	if (m) {
		module_enable(m, false);
		rc = module_busy(m) ? -EBUSY : 0;
		if (rc)
			module_enable(m, true);
		else
			model_module_free(m);
	}
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* ---- kernels --------------------------------------------------------------------------- */

static npu_simnpu_kernel_fn *builtin_find(const char *name)
{
	const struct npu_simnpu_builtin *const *p;

	for (p = __start_npu_simnpu_kernels; p < __stop_npu_simnpu_kernels; p++)
		if ((*p)->abi == NPU_SIMNPU_KERNEL_ABI && !strcmp((*p)->name, name))
			return (*p)->fn;
	return NULL;
}

/*
 * Whether a symbol is a function of the file itself. The loader also finds those of
 * the libraries that the file needs, and data.
 */
static bool is_function_of(struct model_module *m, void *sym)
{
	Dl_info of_sym, of_file;
	const ElfW(Sym) *entry;
	void *abi, *extra;

	if (hal_sys_dlsym(m->dl, "npu_simnpu_kernel_abi", &abi) ||
	    !dladdr1(sym, &of_sym, &extra, RTLD_DL_SYMENT) || !dladdr(abi, &of_file))
		return false;
	entry = extra;
	return of_sym.dli_fbase == of_file.dli_fbase && entry &&
	       ELF32_ST_TYPE(entry->st_info) == STT_FUNC;
}

static npu_simnpu_kernel_fn *symbol_find(struct model_module *m, const char *name)
{
	npu_simnpu_kernel_fn *fn;
	void *sym;

	if (hal_sys_dlsym(m->dl, name, &sym) || !is_function_of(m, sym))
		return NULL;
	memcpy(&fn, &sym, sizeof(fn));
	return fn;
}

static struct model_kernel *kernel_new(struct model_device *dev)
{
	uint32_t n = hal_load_relaxed(&dev->kernel_count);
	struct model_kernel *chunk, *k;

	if (dev->free_kernels) {
		n = dev->free_kernels - 1;
		k = &hal_load_relaxed(&dev->kernels[n / CHUNK])[n % CHUNK];
		dev->free_kernels = k->next_free;
		return k;
	}
	if (n == CHUNK * ARRAY_SIZE(dev->kernels))
		return NULL;
	chunk = hal_load_relaxed(&dev->kernels[n / CHUNK]);
	if (!chunk) {
		chunk = hal_zalloc(CHUNK * sizeof(*chunk));
		if (!chunk)
			return NULL;
		hal_store_release(&dev->kernels[n / CHUNK], chunk);
	}
	hal_store_relaxed(&dev->kernel_count, n + 1);
	chunk[n % CHUNK].index = n;
	hal_list_init(&chunk[n % CHUNK].node);
	return &chunk[n % CHUNK];
}

/* The number of a function, a new one if it has none. Under the device's lock. */
static int kernel_id(struct model_module *m, npu_simnpu_kernel_fn *fn, uint64_t *id)
{
	struct model_kernel *k;
	struct hal_list *pos;

	hal_list_for_each(pos, &m->kernels) {
		k = hal_list_entry(pos, struct model_kernel, node);
		if (k->fn == fn) {
			*id = hal_load_relaxed(&k->id);
			return 0;
		}
	}
	k = kernel_new(m->ctx->dev);
	if (!k)
		return -ENOMEM;
	k->fn = fn;
	k->builtin = m->builtin;
	hal_store_relaxed(&k->block_ns, 0);
	hal_store_relaxed(&k->module, m);
	hal_list_add_tail(&m->kernels, &k->node);
	*id = (uint64_t)++k->last << 32 | k->index;
	/* release: who finds the number sees the kernel */
	hal_store_release(&k->id, *id);
	return 0;
}

/* SIMNPU_IOCTL_KERNEL_GET. */
int model_kernel_get(struct model_file *f, struct simnpu_kernel *arg)
{
	char name[NAME_MAX_SIZE];
	npu_simnpu_kernel_fn *fn;
	struct model_module *m;
	uint64_t id;
	int rc;

	if (arg->size < 2 || arg->size > sizeof(name))
		return -EINVAL;
	rc = model_copy_in(name, arg->name, arg->size);
	if (rc)
		return rc;
	if (memchr(name, 0, arg->size) != name + arg->size - 1)
		return -EINVAL;
	pthread_mutex_lock(&f->dev->lock);
	m = model_table_get(&f->table, arg->module, MODEL_MODULE);
	if (!m) {
		rc = -ENOENT;
	} else {
		fn = m->builtin ? builtin_find(name) : symbol_find(m, name);
		rc = fn ? kernel_id(m, fn, &id) : -ESRCH;
		if (!rc)
			arg->kernel = id;
	}
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}
