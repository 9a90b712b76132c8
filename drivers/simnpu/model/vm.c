// SPDX-License-Identifier: MIT
/*
 * Virtual memory: addresses that are reserved, and memory that is put there.
 *
 * The bytes of a device address lie at a constant distance from it, so memory is
 * moved to where it is mapped by the host's page tables, and back when it is
 * unmapped. Where the host can't do that it lies in a file, which is mapped.
 *
 * Engines find mappings as they find allocations: those side by side in one
 * reservation that allow the same are one range in model_memory.used.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/simnpu_test.h"

#define GRANULARITY SIMNPU_VM_GRANULARITY

/* ---- memory ---------------------------------------------------------------------- */

/* Whether the host can move pages: asked once. */
static bool can_move(void)
{
	static _Atomic int known;
	int rc = hal_load_relaxed(&known);	/* relaxed: whoever asks again gets the same */
	void *p;

	if (rc)
		return rc > 0;
	if (hal_sys_mmap(hal_sys_get(), 2 * MODEL_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &p))
		return false;
	rc = hal_sys_move(p, MODEL_PAGE, (char *)p + MODEL_PAGE);
	hal_sys_munmap(hal_sys_get(), p, 2 * MODEL_PAGE);
	if (!rc || rc == -EINVAL)
		hal_store_relaxed(&known, rc ? -1 : 1);
	return !rc;
}

/* The opposite. */
void model_memory_file_close(int fd)
{
	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		model_share_close(fd);
	else
		hal_sys_close(hal_sys_get(), fd);
}

/**
 * model_memory_file() - a file for memory
 * @size: bytes
 *
 * Return: its descriptor, -EMFILE or -ENOMEM.
 */
int model_memory_file(uint64_t size)
{
	int fd;

	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		return model_share_file(size);
	fd = hal_sys_memfd("simnpu-memory");
	if (fd < 0)
		return -EMFILE;
	if (!hal_sys_fallocate(fd, 0, size))
		return fd;
	model_memory_file_close(fd);
	return -ENOMEM;
}

static int file_alloc(struct model_memory *m, struct model_mem *mem)
{
	int rc;

	if (mem->size > m->total || model_fault(SIMNPU_FAIL_MEMORY))
		return -ENOMEM;
	rc = model_memory_charge(m, mem->size);
	if (rc)
		return rc;
	/* behind it, whose it is: for who gets the descriptor */
	mem->fd = model_memory_file(mem->size + (model_named() ? MODEL_PAGE : 0));
	if (mem->fd >= 0)
		return 0;
	model_memory_uncharge(m, mem->size);
	return mem->fd;
}

/**
 * model_phys_alloc() - make memory without an address, its pages included
 * @m: the memory of the device
 * @mem: the object; its size is set
 * @flags: SIMNPU_MEM_*
 *
 * Return: 0 or -ENOMEM.
 */
int model_phys_alloc(struct model_memory *m, struct model_mem *mem, uint32_t flags)
{
	bool move = !m->protect && can_move();
	int rc = -EMFILE;

	/* what processes may share lies in files, as long as there are descriptors for them */
	if (!move || model_named())
		rc = file_alloc(m, mem);
	if (rc != -EMFILE)
		return rc;
	mem->fd = -1;
	return !move ? -ENOMEM : model_memory_alloc(m, mem->size, 0, flags, &mem->ext);
}

/* The opposite; it is not mapped. */
void model_phys_free(struct model_memory *m, struct model_mem *mem)
{
	if (mem->fd < 0) {
		model_memory_free(m, mem->ext);
		return;
	}
	model_memory_file_close(mem->fd);
	if (!mem->foreign)
		model_memory_uncharge(m, mem->size);
}

static int file_in(struct model_mem *mem, char *at)
{
	int rc;

	rc = hal_sys_mmap_at(at, mem->size, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
	if (rc)
		return rc;
	model_populate(at, mem->size, &rc);
	/* a child's copy would keep the memory, and write to it */
	return rc ? rc : hal_sys_madvise(at, mem->size, MADV_DONTFORK);
}

/* Puts memory at addresses: 0, or -ENOMEM and nothing is there. */
static int pages_in(struct model_memory *m, struct model_mem *mem, uint64_t addr)
{
	char *at = model_memory_data(m, addr);
	int rc;

	if (mem->fd >= 0)
		rc = file_in(mem, at);
	else
		rc = hal_sys_move(model_memory_data(m, mem->ext->range.start), mem->size, at);
	if (!rc)
		return 0;
	model_memory_clear(m, addr, mem->size);
	return -ENOMEM;
}

/* Takes it away, and keeps what is in it if there is a handle: 0, or -ENOMEM if there is one. */
static int pages_out(struct model_memory *m, struct model_mem *mem, uint64_t addr)
{
	char *at = model_memory_data(m, addr);

	if (mem->handle && mem->fd < 0 &&
	    hal_sys_move(at, mem->size, model_memory_data(m, mem->ext->range.start)))
		return -ENOMEM;
	if (!model_memory_clear(m, addr, mem->size))
		return 0;
	if (mem->handle && mem->fd >= 0)
		return -ENOMEM;
	/* a map that is left over: no pages, until something else is mapped there */
	hal_sys_madvise(at, mem->size, MADV_DONTNEED);
	return 0;
}

/* ---- what engines find --------------------------------------------------------------- */

static struct model_extent *run_at(struct model_memory *m, uint64_t addr, uint32_t access)
{
	struct hal_range *r = hal_range_find(&m->used, addr);
	struct model_extent *e = r ? container_of(r, struct model_extent, range) : NULL;

	return e && e->access == access ? e : NULL;
}

static void run_set(struct model_memory *m, struct model_extent *e, uint64_t size)
{
	e->range.size = e->size = size;
	model_poison_limit(m, e);
}

static void run_add(struct model_memory *m, struct model_mapping *mp, uint64_t size)
{
	mp->run.range.start = mp->range.start;
	mp->run.access = mp->access;
	run_set(m, &mp->run, size);
	hal_range_insert(&m->used, &mp->run.range);
}

/* A mapping becomes part of the runs on both sides of it, in its reservation. Under map_lock. */
static void run_join(struct model_memory *m, const struct model_reserve *r,
		     struct model_mapping *mp)
{
	uint64_t start = mp->range.start, size = mp->range.size, end = start + size;
	struct model_extent *low = NULL, *high = NULL;

	if (start > r->range.start)
		low = run_at(m, start - 1, mp->access);
	if (end < r->range.start + r->range.size)
		high = run_at(m, end, mp->access);
	if (high) {
		hal_range_remove(&m->used, &high->range);
		size += high->range.size;
	}
	if (low)
		run_set(m, low, low->range.size + size);
	else
		run_add(m, mp, size);
}

static struct model_mapping *mapping_at(struct model_context *ctx, uint64_t addr)
{
	struct hal_range *r = hal_range_find(&ctx->mappings, addr);

	return r ? container_of(r, struct model_mapping, range) : NULL;
}

/* A mapping leaves the run that it is part of. Under map_lock. */
static void run_cut(struct model_memory *m, struct model_context *ctx, struct model_mapping *mp)
{
	struct model_extent *e = run_at(m, mp->range.start, mp->access);
	uint64_t start = mp->range.start, end = start + mp->range.size;
	uint64_t rest = e->range.start + e->range.size - end;

	if (e->range.start < start)
		run_set(m, e, start - e->range.start);
	else
		hal_range_remove(&m->used, &e->range);
	if (rest)
		run_add(m, mapping_at(ctx, end), rest);
}

/* Engines find it from now on. */
static void show(struct model_context *ctx, const struct model_reserve *r,
		 struct model_mapping *mp)
{
	struct model_memory *m = &ctx->dev->mem;

	hal_spin_lock(&m->map_lock);
	run_join(m, r, mp);
	hal_spin_unlock(&m->map_lock);
}

/* They don't any more. Return: whether an uncorrectable error has hit it. */
static bool hide(struct model_context *ctx, struct model_mapping *mp, bool goes)
{
	struct model_memory *m = &ctx->dev->mem;
	bool hit = false;

	hal_spin_lock(&m->map_lock);
	if (goes && unlikely(m->poison_count))
		hit = model_poison_drop(m, &mp->range);
	run_cut(m, ctx, mp);
	hal_spin_unlock(&m->map_lock);
	/* release: as in model_memory_free() */
	__atomic_fetch_add(&m->epoch, 1, __ATOMIC_RELEASE);
	return hit;
}

/* ---- reservations -------------------------------------------------------------------- */

static bool whole(uint64_t n)
{
	return n && n % GRANULARITY == 0;
}

/* The reservation that all of the addresses lie in, or NULL. */
static struct model_reserve *reserve_at(struct model_context *ctx, uint64_t addr, uint64_t size)
{
	struct hal_range *r = hal_range_find(&ctx->reserves, addr);

	if (!r || size > r->size - (addr - r->start))
		return NULL;
	return container_of(r, struct model_reserve, range);
}

/* Whether something is mapped at some of the addresses. */
static bool is_mapped(struct model_context *ctx, uint64_t addr, uint64_t size)
{
	struct hal_range *above = hal_range_above(&ctx->mappings, addr);

	return hal_range_find(&ctx->mappings, addr) || (above && above->start - addr < size);
}

static int reserve_check(const struct model_memory *m, const struct simnpu_vm *arg,
			 uint64_t align)
{
	uint64_t start = m->start + m->plain_size, end = m->start + m->size;

	if (!whole(arg->size) || align & (align - 1) || arg->addr % align)
		return -EINVAL;
	if (arg->addr && (arg->addr < start || arg->addr >= end))
		return -EINVAL;
	return arg->size > end - (arg->addr ? arg->addr : start) ? -ENOMEM : 0;
}

static int reserve_take(struct model_memory *m, const struct simnpu_vm *arg, uint64_t align,
			struct model_extent **ext)
{
	int rc;

	pthread_mutex_lock(&m->lock);
	if (arg->addr) {
		rc = model_space_get_at(&m->vm, arg->addr, arg->size, ext);
	} else {
		*ext = model_space_get(&m->vm, arg->size, align);
		rc = *ext ? 0 : -ENOMEM;
	}
	pthread_mutex_unlock(&m->lock);
	return rc;
}

static void reserve_free(struct model_context *ctx, struct model_reserve *r)
{
	struct model_memory *m = &ctx->dev->mem;

	hal_range_remove(&ctx->reserves, &r->range);
	pthread_mutex_lock(&m->lock);
	model_space_put(&m->vm, r->ext);
	pthread_mutex_unlock(&m->lock);
	free(r);
}

/* SIMNPU_IOCTL_VM_RESERVE. */
int model_vm_reserve(struct model_file *f, struct simnpu_vm *arg)
{
	uint64_t align = arg->offset > GRANULARITY ? arg->offset : GRANULARITY;
	struct model_context *ctx;
	struct model_reserve *r;
	int rc;

	/* one that is no power of two is none above the granularity, either */
	rc = arg->offset & (arg->offset - 1) ? -EINVAL : reserve_check(&f->dev->mem, arg, align);
	if (rc)
		return rc;
	r = hal_zalloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->context);
	rc = ctx ? reserve_take(&f->dev->mem, arg, align, &r->ext) : -ENOENT;
	if (!rc) {
		arg->addr = r->range.start = r->ext->range.start;
		r->range.size = arg->size;
		hal_range_insert(&ctx->reserves, &r->range);
	}
	pthread_mutex_unlock(&f->dev->lock);
	if (rc)
		free(r);
	return rc;
}

/* SIMNPU_IOCTL_VM_RELEASE. */
int model_vm_release(struct model_file *f, const struct simnpu_vm *arg)
{
	struct model_context *ctx;
	struct model_reserve *r;
	int rc = -EINVAL;

	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->context);
	r = ctx ? reserve_at(ctx, arg->addr, arg->size) : NULL;
	if (!ctx)
		rc = -ENOENT;
	else if (r && r->range.start == arg->addr && r->range.size == arg->size)
		rc = is_mapped(ctx, arg->addr, arg->size) ? -EBUSY : 0;
	if (!rc)
		reserve_free(ctx, r);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* ---- mappings ------------------------------------------------------------------------ */

static bool access_ok(uint32_t access)
{
	return !access || access == SIMNPU_VM_READ || access == MODEL_RW;
}

static int map_check(struct model_context *ctx, struct model_mem *mem,
		     const struct simnpu_vm *arg)
{
	if (!ctx || !mem)
		return -ENOENT;
	if (!mem->physical || mem->ctx != ctx || mem->size != arg->size ||
	    !whole(arg->addr) || !reserve_at(ctx, arg->addr, arg->size))
		return -EINVAL;
	if (mem->mapping)
		return -EBUSY;
	return is_mapped(ctx, arg->addr, arg->size) ? -EEXIST : 0;
}

/* All of it counts as hit again, unless the device was restarted meanwhile. */
static void hit_again(struct model_device *dev, struct model_mem *mem, uint64_t addr)
{
	if (unlikely(mem->hit) && mem->hit == hal_load_relaxed(&dev->generation) + 1)
		model_poison_add(&dev->mem, addr, mem->size);
	mem->hit = 0;
}

/* SIMNPU_IOCTL_VM_MAP. */
int model_vm_map(struct model_file *f, const struct simnpu_vm *arg)
{
	struct model_mapping *mp;
	struct model_context *ctx;
	struct model_mem *mem;
	int rc;

	if (!access_ok(arg->flags))
		return -EINVAL;
	mp = hal_zalloc(sizeof(*mp));
	if (!mp)
		return -ENOMEM;
	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->context);
	mem = model_table_get(&f->table, arg->handle, MODEL_MEM);
	rc = map_check(ctx, mem, arg);
	if (!rc)
		rc = pages_in(&f->dev->mem, mem, arg->addr);
	if (!rc) {
		*mp = (struct model_mapping){
			.range = { .start = arg->addr, .size = arg->size },
			.mem = mem, .access = arg->flags,
		};
		mem->mapping = mp;
		hal_range_insert(&ctx->mappings, &mp->range);
		show(ctx, reserve_at(ctx, arg->addr, arg->size), mp);
		hit_again(f->dev, mem, arg->addr);
	}
	pthread_mutex_unlock(&f->dev->lock);
	if (rc)
		free(mp);
	return rc;
}

/* Takes a mapping away; memory without a handle goes with it. */
static int unmap(struct model_context *ctx, struct model_mapping *mp)
{
	struct model_device *dev = ctx->dev;
	struct model_mem *mem = mp->mem;
	uint64_t addr = mp->range.start;
	bool hit = hide(ctx, mp, true);
	int rc;

	mem->hit = hit ? hal_load_relaxed(&dev->generation) + 1 : 0;
	rc = pages_out(&dev->mem, mem, addr);
	if (rc) {
		show(ctx, reserve_at(ctx, addr, mp->range.size), mp);
		hit_again(dev, mem, addr);
		return rc;
	}
	hal_range_remove(&ctx->mappings, &mp->range);
	mem->mapping = NULL;
	free(mp);
	if (!mem->handle)
		model_mem_free(mem);
	return 0;
}

/* The mapping that an ioctl is about; NULL: there is no such, and why. */
static struct model_mapping *mapping_of(struct model_context *ctx, const struct simnpu_vm *arg,
					int *rc)
{
	struct model_mapping *mp = ctx ? mapping_at(ctx, arg->addr) : NULL;

	*rc = ctx ? -EINVAL : -ENOENT;
	return mp && mp->range.start == arg->addr && mp->range.size == arg->size ? mp : NULL;
}

/* SIMNPU_IOCTL_VM_UNMAP. */
int model_vm_unmap(struct model_file *f, const struct simnpu_vm *arg)
{
	struct model_context *ctx;
	struct model_mapping *mp;
	int rc;

	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->context);
	mp = mapping_of(ctx, arg, &rc);
	if (mp)
		rc = unmap(ctx, mp);
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/* SIMNPU_IOCTL_VM_PROTECT. */
int model_vm_protect(struct model_file *f, const struct simnpu_vm *arg)
{
	struct model_context *ctx;
	struct model_mapping *mp;
	int rc;

	if (!access_ok(arg->flags))
		return -EINVAL;
	pthread_mutex_lock(&f->dev->lock);
	ctx = model_context_find(f, arg->context);
	mp = mapping_of(ctx, arg, &rc);
	if (mp) {
		hide(ctx, mp, false);
		mp->access = arg->flags;
		show(ctx, reserve_at(ctx, arg->addr, arg->size), mp);
		rc = 0;
	}
	pthread_mutex_unlock(&f->dev->lock);
	return rc;
}

/**
 * model_vm_drop() - take away all that is mapped and reserved in a context
 * @ctx: the context, whose memory has no handles any more
 *
 * Context: under the device's lock.
 */
void model_vm_drop(struct model_context *ctx)
{
	while (ctx->mappings.root)
		unmap(ctx, container_of(ctx->mappings.root, struct model_mapping, range));
	while (ctx->reserves.root)
		reserve_free(ctx, container_of(ctx->reserves.root, struct model_reserve, range));
}
