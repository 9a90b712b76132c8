// SPDX-License-Identifier: MIT
/*
 * Memory objects: device memory, pinned host memory, registrations, windows.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/simnpu_test.h"

static int host_alloc(struct model_mem *mem)
{
	uint64_t size = hal_align_up(mem->size, MODEL_PAGE);
	void *p;
	int rc;

	rc = model_fault(SIMNPU_FAIL_HOST) ? -ENOMEM : model_budget_charge(size);
	if (rc)
		return rc;
	rc = hal_sys_mmap(hal_sys_get(), size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &p);
	if (rc)
		goto uncharge;
	if (size >= MODEL_HUGE)
		hal_sys_madvise(p, size, MADV_HUGEPAGE);
	model_populate(p, size, &rc);
	if (rc)
		goto unmap;
	mem->host = p;
	return model_pin(mem);

unmap:
	hal_sys_munmap(hal_sys_get(), p, size);
uncharge:
	model_budget_uncharge(size);
	return -ENOMEM;
}

/**
 * model_mem_free() - give back what a memory object holds, and the object
 * @mem: the object, in no list and without a handle
 */
void model_mem_free(struct model_mem *mem)
{
	uint64_t size = hal_align_up(mem->size, MODEL_PAGE);

	if (mem->physical) {
		if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES) && mem->object)
			model_share_orphan(mem);
		model_phys_free(&mem->ctx->dev->mem, mem);
	} else if (mem->ext) {
		model_memory_free(&mem->ctx->dev->mem, mem->ext);
	} else {
		model_unpin(mem);
		if (!mem->registered) {
			hal_sys_munmap(hal_sys_get(), mem->host, size);
			model_budget_uncharge(size);
		}
	}
	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES) && mem->share)
		model_instance_unshare(mem->ctx->dev, mem->share, false);
	free(mem);
}

/**
 * model_mem_end() - a memory object loses its handle
 * @mem: the object
 *
 * What is mapped is given back when it is unmapped. Context: under the device's lock.
 */
void model_mem_end(struct model_mem *mem)
{
	model_table_del(&mem->ctx->file->table, mem->handle);
	hal_list_del(&mem->node);
	mem->handle = 0;
	if (!mem->mapping)
		model_mem_free(mem);
}

/**
 * model_mem_publish() - give a memory object its handle
 * @f: the open file
 * @mem: the object; freed, with what is in it, if this fails
 * @context: handle of its context
 *
 * Return: 0, -ENOENT (the context has gone meanwhile), -ENOMEM, -ENOSPC.
 */
int model_mem_publish(struct model_file *f, struct model_mem *mem, uint32_t context)
{
	int rc;

	pthread_mutex_lock(&f->dev->lock);
	/* the context may have gone while pages were made */
	rc = model_context_find(f, context) == mem->ctx ? 0 : -ENOENT;
	if (!rc)
		rc = model_table_add(&f->table, MODEL_MEM, mem, &mem->handle);
	if (!rc)
		hal_list_add_tail(&mem->ctx->mems, &mem->node);
	pthread_mutex_unlock(&f->dev->lock);
	if (rc) {
		mem->ctx = &(struct model_context){ .dev = f->dev };
		model_mem_free(mem);
	}
	return rc;
}

/* A memory object of a context, with nothing in it; NULL, and why in @rc. */
struct model_mem *model_mem_new(struct model_file *f, uint32_t context, int *rc)
{
	struct model_mem *mem = hal_zalloc(sizeof(*mem));

	*rc = -ENOMEM;
	if (!mem)
		return NULL;
	mem->fd = -1;
	pthread_mutex_lock(&f->dev->lock);
	mem->ctx = model_context_find(f, context);
	pthread_mutex_unlock(&f->dev->lock);
	if (!mem->ctx) {
		free(mem);
		*rc = -ENOENT;
		return NULL;
	}
	return mem;
}

static int mem_check(const struct model_device *dev, const struct simnpu_mem *arg)
{
	const uint32_t where = SIMNPU_MEM_HOST | SIMNPU_MEM_MANAGED | SIMNPU_MEM_PHYSICAL;
	const uint32_t huge = SIMNPU_MEM_HUGE | SIMNPU_MEM_HUGE_FIRST;

	if (!arg->size || arg->flags & ~SIMNPU_MEM_FLAGS || (arg->flags & huge) == huge)
		return -EINVAL;
	if (arg->align & (arg->align - 1) ||
	    (arg->flags & SIMNPU_MEM_HOST && arg->align > MODEL_PAGE))
		return -EINVAL;
	if (arg->flags & SIMNPU_MEM_PHYSICAL &&
	    (arg->flags & SIMNPU_MEM_HOST || arg->align || arg->size % SIMNPU_VM_GRANULARITY))
		return -EINVAL;
	if (arg->flags & SIMNPU_MEM_MANAGED) {
		if ((arg->flags & where) != SIMNPU_MEM_MANAGED)
			return -EINVAL;
		if (!(dev->part->caps & SIMNPU_CAP_MANAGED))
			return -EOPNOTSUPP;
	}
	if (arg->size > 1ull << 46 || arg->align > 1ull << 40)
		return -ENOMEM;
	return 0;
}

/* SIMNPU_IOCTL_MEM_CREATE. */
int model_mem_create(struct model_file *f, struct simnpu_mem *arg)
{
	struct model_mem *mem;
	int rc = mem_check(f->dev, arg);

	if (rc)
		return rc;
	mem = model_mem_new(f, arg->context, &rc);
	if (!mem)
		return rc;
	mem->size = arg->size;
	mem->physical = arg->flags & SIMNPU_MEM_PHYSICAL;
	if (arg->flags & SIMNPU_MEM_HOST)
		rc = host_alloc(mem);
	else if (mem->physical)
		rc = model_phys_alloc(&f->dev->mem, mem, arg->flags);
	else
		rc = model_memory_alloc(&f->dev->mem, arg->size, arg->align, arg->flags, &mem->ext);
	if (rc) {
		free(mem);
		return rc;
	}
	rc = model_mem_publish(f, mem, arg->context);
	if (rc)
		return rc;
	arg->handle = mem->handle;
	arg->addr = mem->ext && !mem->physical ? mem->ext->range.start : 0;
	arg->map = mem->host ? 1ull << 62 | (uint64_t)mem->handle << 12 : 0;
	arg->result = mem->host && !mem->locked ? SIMNPU_MEM_UNLOCKED : 0;
	return 0;
}

/* SIMNPU_IOCTL_MEM_DESTROY. */
int model_mem_destroy(struct model_file *f, const struct simnpu_mem_free *arg)
{
	struct model_mem *mem;

	pthread_mutex_lock(&f->dev->lock);
	mem = model_table_get(&f->table, arg->handle, MODEL_MEM);
	if (mem)
		model_mem_end(mem);
	pthread_mutex_unlock(&f->dev->lock);
	return mem ? 0 : -ENOENT;
}

/* SIMNPU_IOCTL_MEM_REGISTER. */
int model_mem_register(struct model_file *f, struct simnpu_register *arg)
{
	struct model_mem *mem;
	char byte;
	int rc;

	if (!arg->size || (arg->addr | arg->size) % MODEL_PAGE || arg->addr + arg->size < arg->addr)
		return -EINVAL;
	/* both ends, as a kernel finds out when it pins the pages */
	if (model_copy_in(&byte, arg->addr, 1) ||
	    model_copy_in(&byte, arg->addr + arg->size - 1, 1))
		return -EFAULT;
	mem = model_mem_new(f, arg->context, &rc);
	if (!mem)
		return rc;
	mem->registered = true;
	mem->host = (char *)(uintptr_t)arg->addr;
	mem->size = arg->size;
	rc = model_pin(mem);
	if (rc) {
		free(mem);
		return rc;
	}
	rc = model_mem_publish(f, mem, arg->context);
	if (rc)
		return rc;
	arg->handle = mem->handle;
	arg->result = mem->locked ? 0 : SIMNPU_MEM_UNLOCKED;
	return 0;
}

/* SIMNPU_IOCTL_MEM_WINDOW. */
int model_mem_window(struct model_file *f, struct simnpu_window *arg)
{
	char *host;
	int rc = arg->flags ? model_state_refuse(f->dev) : 0;

	if (arg->flags > 1 || !arg->size)
		return -EINVAL;
	if (rc)
		return rc;
	if (!model_memory_find(&f->dev->mem, arg->addr, arg->size, &host, NULL)) {
		/* the host may do both there, so both must be allowed */
		rc = model_poison_find(&f->dev->mem, arg->addr, arg->size, MODEL_WRITE, &host);
		if (!rc && arg->flags)
			rc = model_poison_find(&f->dev->mem, arg->addr, arg->size, MODEL_READ,
					       &host);
	}
	if (rc)
		return rc == -EFAULT ? -EINVAL : rc;
	arg->host = arg->flags ? (uintptr_t)host : 0;
	return 0;
}
