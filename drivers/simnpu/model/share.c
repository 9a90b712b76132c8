// SPDX-License-Identifier: MIT
/*
 * Memory that processes share: in a named instance each allocation lies in a
 * file of its own, which nobody can make shorter; a descriptor of it stands for
 * the memory in another process. Where descriptors are scarce an allocation does
 * without, and cannot be shared.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "drivers/simnpu/model/model.h"
#include "hal/sys_unix.h"

#define FILES_MAX 65536u

/* Descriptors that files of memory have, for the child of a fork: a bit each. */
static _Atomic uint64_t files[FILES_MAX / 64];

static void note(int fd, bool open)
{
	uint64_t bit = 1ull << (uint32_t)fd % 64;

	if (open)
		atomic_fetch_or(&files[(uint32_t)fd / 64], bit);
	else
		atomic_fetch_and(&files[(uint32_t)fd / 64], ~bit);
}

/* In the child of a fork: it must not keep memory that its parent gives back. */
void model_share_in_child(void)
{
	uint64_t bits;
	uint32_t i;

	for (i = 0; i < FILES_MAX / 64; i++) {
		bits = hal_load_relaxed(&files[i]);
		hal_store_relaxed(&files[i], 0);
		for (; bits; bits &= bits - 1)
			hal_sys_get()->close((int)(i * 64 + (uint32_t)__builtin_ctzll(bits)));
	}
}

/* Half of the descriptors are the program's. */
static bool too_many(int fd)
{
	struct rlimit r;

	/* a question that takes nothing: not in the seam */
	return (uint32_t)fd >= FILES_MAX || (!getrlimit(RLIMIT_NOFILE, &r) &&
					     (uint64_t)fd >= r.rlim_cur / 2);
}

static void close_file(int fd)
{
	note(fd, false);
	hal_sys_close(hal_sys_get(), fd);
}

static int map_file(struct model_memory *m, struct model_extent *e, int fd)
{
	char *at = model_memory_data(m, e->range.start);
	int rc;

	rc = hal_sys_mmap_at(at, e->range.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* a child's copy would keep the memory, and write to it */
	if (!rc)
		rc = hal_sys_madvise(at, e->range.size, MADV_DONTFORK);
	if (rc)
		return -ENOMEM;
	e->file = fd + 1;
	return 0;
}

/**
 * model_share_file() - a file for memory that is mapped by others than its maker
 * @size: bytes
 *
 * Return: its descriptor, -EMFILE (there are too few), -ENOMEM.
 */
int model_share_file(uint64_t size)
{
	int fd = hal_sys_memfd_fixed("simnpu-memory", size);

	if (fd == -ENFILE)
		return -EMFILE;
	if (fd < 0)
		return fd == -EMFILE ? fd : -ENOMEM;
	if (too_many(fd)) {
		hal_sys_close(hal_sys_get(), fd);
		return -EMFILE;
	}
	note(fd, true);
	return fd;
}

/* The opposite. */
void model_share_close(int fd)
{
	close_file(fd);
}

/**
 * model_share_alloc() - put an extent into a file of its own
 * @m: the memory
 * @e: the extent, whole pages, nothing is there yet
 *
 * Where there are too few descriptors it is left as it is. Context: under the lock of @m.
 * Return: 0 or -ENOMEM.
 */
int model_share_alloc(struct model_memory *m, struct model_extent *e)
{
	int fd = model_share_file(e->range.size), rc;

	if (fd < 0)
		return fd == -EMFILE ? 0 : fd;
	rc = map_file(m, e, fd);
	if (rc)
		close_file(fd);
	return rc;
}

/**
 * model_share_free() - take an extent out of its file
 * @m: the memory
 * @e: the extent, which engines do not find any more
 *
 * Context: under the lock of @m.
 * Return: 0, or a negative errno: the file is still mapped there, and the addresses must not be
 * used again.
 */
int model_share_free(struct model_memory *m, struct model_extent *e)
{
	int rc = model_memory_clear(m, e->range.start, e->range.size);

	close_file(e->file - 1);
	e->file = 0;
	return rc;
}

/* ---- whose memory a descriptor is of ------------------------------------------------- */

/* The page behind the memory, mapped. */
static int tail_map(int fd, uint64_t size, int prot, struct simnpu_instance_share **tail)
{
	void *p;
	int rc;

	rc = hal_sys_mmap(hal_sys_get(), MODEL_PAGE, prot, MAP_SHARED, fd, size, &p);
	*tail = rc ? NULL : p;
	return rc;
}

/* What goes out says whose it is. */
static int tail_write(struct model_file *f, struct model_mem *mem)
{
	struct simnpu_instance_share *tail;
	struct stat st;
	int rc;

	rc = hal_sys_fstat(mem->fd, &st);
	if (!rc)
		rc = tail_map(mem->fd, mem->size, PROT_READ | PROT_WRITE, &tail);
	if (rc)
		return rc;
	tail->owner = model_instance_number(f->dev, &tail->owner_slot);
	tail->device = f->dev->index;
	tail->object = mem->object = st.st_ino;
	tail->size = mem->size;
	return hal_sys_munmap(hal_sys_get(), tail, MODEL_PAGE);
}

/* What comes in counts as long as it is here, whoever has freed it. */
static int tail_read(struct model_file *f, int fd, uint64_t size, uint32_t *share)
{
	struct simnpu_instance_share *tail, what;
	struct stat st;
	int rc;

	rc = hal_sys_fstat(fd, &st);
	if (!rc)
		rc = tail_map(fd, size, PROT_READ, &tail);
	if (rc)
		return rc;
	what = *tail;
	/* the rest is this user's to spoil */
	if (what.object != st.st_ino || what.size != size || what.device >= SIMNPU_MAX_DEVICES)
		rc = -EINVAL;
	if (!rc)
		rc = model_instance_take(f->dev, &what, share);
	if (!rc && !what.orphan && hal_shm_load_acquire(&tail->orphan)) {
		model_instance_unshare(f->dev, *share, false);
		what.orphan = 1;
		rc = model_instance_take(f->dev, &what, share);
	}
	hal_sys_munmap(hal_sys_get(), tail, MODEL_PAGE);
	return rc;
}

/* Its owner frees it: who has it, or a descriptor of it, is told. */
void model_share_orphan(struct model_mem *mem)
{
	struct simnpu_instance_share *tail;

	if (!tail_map(mem->fd, mem->size, PROT_READ | PROT_WRITE, &tail)) {
		hal_shm_store_release(&tail->orphan, 1);
		hal_sys_munmap(hal_sys_get(), tail, MODEL_PAGE);
	}
	model_instance_orphan(mem->ctx->dev, mem->object);
}

/* ---- export and import -------------------------------------------------------------- */

static struct model_mem *find(struct model_file *f, uint32_t handle, int *rc)
{
	struct model_mem *mem = model_table_get(&f->table, handle, MODEL_MEM);

	*rc = 0;
	if (!mem)
		*rc = -ENOENT;
	else if (mem->foreign || (!mem->physical && (!mem->ext || mem->ext->foreign ||
						     mem->ext->managed)))
		*rc = -EOPNOTSUPP;
	else if (mem->physical ? mem->fd < 0 : !mem->ext->file)
		*rc = -EMFILE;
	return mem;
}

static int export_locked(struct model_file *f, struct simnpu_export *arg)
{
	struct model_mem *mem;
	struct stat st;
	int fd, rc;

	mem = find(f, arg->handle, &rc);
	if (rc)
		return rc;
	if (mem->physical) {
		rc = arg->to ? -EINVAL : mem->object ? 0 : tail_write(f, mem);
		if (rc)
			return rc;
		arg->fd = hal_sys_dup(mem->fd);
		arg->size = mem->size;
		return arg->fd < 0 ? arg->fd : 0;
	}
	rc = hal_sys_fstat(mem->ext->file - 1, &st);
	if (rc)
		return rc;
	fd = hal_sys_dup(mem->ext->file - 1);
	if (fd < 0)
		return fd;
	if (arg->to)
		rc = model_instance_share(f->dev, st.st_ino, mem->ext->range.size, arg->to_slot,
					  arg->to, &arg->share);
	if (rc) {
		hal_sys_close(hal_sys_get(), fd);
		return rc;
	}
	mem->ext->object = st.st_ino;
	arg->fd = fd;
	arg->size = mem->size;
	return 0;
}

/* SIMNPU_IOCTL_MEM_EXPORT. */
int model_mem_export(struct model_file *f, struct simnpu_export *arg)
{
	int rc;

	if ((arg->share && arg->to) || (arg->to_slot && !arg->to))
		return -EINVAL;
	if (!model_named())
		return -EOPNOTSUPP;
	if (arg->share) {
		model_instance_unshare(f->dev, arg->share, true);
		arg->fd = -1;
		return 0;
	}
	pthread_mutex_lock(&f->dev->lock);
	rc = export_locked(f, arg);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

static int import_locked(struct model_memory *m, uint64_t size, int fd, struct model_extent **ext)
{
	struct model_extent *e = model_space_get(&m->plain, size,
						 size >= MODEL_HUGE ? MODEL_HUGE : MODEL_PAGE);
	int rc;

	if (!e)
		return -ENOMEM;
	model_memory_forget(m, e);
	rc = map_file(m, e, fd);
	if (rc) {
		model_memory_clear(m, e->range.start, size);
		model_space_put(&m->plain, e);
		return rc;
	}
	e->foreign = true;
	model_memory_publish(m, e, size);
	*ext = e;
	return 0;
}

/* Notes that this process has what another one has allocated. */
static int take(struct model_file *f, const struct simnpu_import *arg, int fd, uint64_t size,
		uint32_t *share)
{
	struct simnpu_instance_share what = {
		.owner = arg->size, .owner_slot = arg->owner_slot, .size = size,
		.device = f->dev->index,
	};
	struct stat st;
	int rc;

	rc = hal_sys_fstat(fd, &st);
	what.object = st.st_ino;
	return rc ? rc : model_instance_take(f->dev, &what, share);
}

static int import(struct model_file *f, const struct simnpu_import *arg, struct model_mem *mem)
{
	struct model_memory *m = &f->dev->mem;
	uint64_t size;
	int fd, rc;

	if (!hal_sys_is_fixed(arg->fd, &size))
		return -EINVAL;
	if (mem->physical && size)
		size -= MODEL_PAGE;
	if (!size || size % (mem->physical ? SIMNPU_VM_GRANULARITY : MODEL_PAGE))
		return -EINVAL;
	if (size > m->size)
		return -ENOMEM;
	fd = hal_sys_dup(arg->fd);
	if (fd < 0)
		return fd;
	if ((uint32_t)fd >= FILES_MAX) {
		hal_sys_close(hal_sys_get(), fd);
		return -EMFILE;
	}
	note(fd, true);
	mem->size = size;
	mem->share = arg->share;
	if (mem->physical) {
		rc = tail_read(f, fd, size, &mem->share);
		if (rc) {
			close_file(fd);
			return rc;
		}
		mem->fd = fd;
		mem->foreign = true;
		return 0;
	}
	rc = arg->size ? take(f, arg, fd, size, &mem->share) : 0;
	if (!rc) {
		pthread_mutex_lock(&m->lock);
		rc = import_locked(m, size, fd, &mem->ext);
		pthread_mutex_unlock(&m->lock);
		if (rc && arg->size)
			model_instance_unshare(f->dev, mem->share, false);
	}
	if (rc)
		close_file(fd);
	return rc;
}

/* SIMNPU_IOCTL_MEM_IMPORT. */
int model_mem_import(struct model_file *f, struct simnpu_import *arg)
{
	struct model_mem *mem;
	int rc;

	if ((arg->share || arg->size) && (arg->flags || (arg->share && arg->size)))
		return -EINVAL;
	if (arg->owner_slot && !arg->size)
		return -EINVAL;
	if (!model_named())
		return -EOPNOTSUPP;
	mem = model_mem_new(f, arg->context, &rc);
	if (mem) {
		mem->physical = arg->flags;
		rc = import(f, arg, mem);
	}
	if (rc) {
		free(mem);
		if (arg->share)
			model_instance_unshare(f->dev, arg->share, false);
		return rc;
	}
	rc = model_mem_publish(f, mem, arg->context);
	if (rc)
		return rc;
	arg->handle = mem->handle;
	arg->addr = mem->physical ? 0 : mem->ext->range.start;
	arg->size = mem->size;
	return 0;
}
