// SPDX-License-Identifier: MIT
/*
 * Managed memory: the host finds it where the device does. Its pages are those of
 * a file that has no name and is closed at once, so that they can be mapped twice:
 * where the engines look, and at the device's address.
 */
#include <sys/mman.h>

#include "drivers/simnpu/model/model.h"

static int view(void *at, uint64_t size, int fd)
{
	int rc = hal_sys_mmap_at(at, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	/* a child's copy would keep the memory, and write to it */
	return rc ? rc : hal_sys_madvise(at, size, MADV_DONTFORK);
}

/**
 * model_managed_alloc() - give an extent pages that the host finds at its address
 * @m: the memory
 * @e: the extent, whole pages, nothing is there yet
 *
 * Context: under the lock of @m. Return: 0, -EMFILE or -ENOMEM; model_managed_free() is due if the
 * extent is managed then.
 */
int model_managed_alloc(struct model_memory *m, struct model_extent *e)
{
	uint64_t size = e->range.size;
	int fd, rc;

	model_memory_forget(m, e);
	fd = model_memory_file(size);
	if (fd < 0)
		return fd;
	e->managed = true;
	rc = view(model_memory_data(m, e->range.start), size, fd);
	if (!rc && m->va_map)
		rc = view((void *)(uintptr_t)e->range.start, size, fd);
	model_memory_file_close(fd);
	return rc ? -ENOMEM : 0;
}

/**
 * model_managed_free() - the opposite
 * @m: the memory
 * @e: the extent, which engines do not find any more
 *
 * Context: under the lock of @m.
 * Return: 0, or a negative errno: some of it is still mapped, and the addresses must not be used
 * again.
 */
int model_managed_free(struct model_memory *m, struct model_extent *e)
{
	int rc = model_memory_clear(m, e->range.start, e->range.size), err = 0;

	if (m->va_map)
		err = hal_sys_mmap_at((void *)(uintptr_t)e->range.start, e->range.size, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	e->managed = false;
	return rc ? rc : err;
}
