// SPDX-License-Identifier: MIT
/*
 * Virtual memory of the fake driver: memory is files, which are mapped.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/sys.h"
#include "selftests/fakes/internal.h"

/* Memory without an address. @users: its handle and its mapping. */
struct fake_phys {
	int fd;
	uint64_t size;
	uint32_t users;
	bool imported;
};

/* A reservation (phys is NULL), or a mapping. */
struct fake_place {
	struct hal_list node;
	uint64_t addr;
	uint64_t size;
	uint32_t access;
	struct fake_phys *phys;
};

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static struct fake_device *device_of(struct hal_context *ctx)
{
	return to_fake_device(ctx->dev);
}

static struct fake_phys **phys_of(struct hal_memory *m)
{
	return &container_of(m, struct fake_memory, base)->phys;
}

/* The first place of a list that overlaps a range, or NULL. */
static struct fake_place *overlap(struct hal_list *list, uint64_t addr, uint64_t size)
{
	struct hal_list *n;

	hal_list_for_each(n, list) {
		struct fake_place *p = hal_list_entry(n, struct fake_place, node);

		if (p->addr - addr < size || addr - p->addr < p->size)
			return p;
	}
	return NULL;
}

static struct fake_place *place_new(struct hal_list *list, uint64_t addr, uint64_t size)
{
	struct fake_place *p = hal_sys_libc.alloc(16, sizeof(*p));

	if (!p)
		return NULL;
	p->addr = addr;
	p->size = size;
	hal_list_add_tail(list, &p->node);
	fake_object(1);
	return p;
}

static void place_free(struct fake_place *p)
{
	hal_list_del(&p->node);
	free(p);
	fake_object(-1);
}

/* ---- addresses ------------------------------------------------------------------ */

static int take_locked(struct fake_device *d, uint64_t want, uint64_t size, uint64_t align,
		       uint64_t *addr)
{
	uint64_t start = (uintptr_t)d->va + FAKE_PLAIN, end = (uintptr_t)d->va + FAKE_VA;
	struct fake_place *p;

	if (want) {
		if (want < start || want >= end || size > end - want)
			return -EINVAL;
		*addr = want;
		return overlap(&d->reserves, want, size) ? -EEXIST : 0;
	}
	for (*addr = hal_align_up(start, align); *addr < end && size <= end - *addr;
	     *addr = hal_align_up(p->addr + p->size, align)) {
		p = overlap(&d->reserves, *addr, size);
		if (!p)
			return 0;
	}
	return -ENOMEM;
}

int fake_reserve(struct hal_context *ctx, uint64_t want, uint64_t size, uint64_t align,
		 uint64_t *addr)
{
	struct fake_device *d = device_of(ctx);
	int rc = fake_op(FAKE_RESERVE);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	rc = take_locked(d, want, size, align, addr);
	if (!rc && !place_new(&d->reserves, *addr, size))
		rc = -ENOMEM;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

void fake_release(struct hal_context *ctx, uint64_t addr, uint64_t size)
{
	pthread_mutex_lock(&fake.lock);
	place_free(overlap(&device_of(ctx)->reserves, addr, size));
	pthread_mutex_unlock(&fake.lock);
}

/* ---- memory ----------------------------------------------------------------------- */

static int phys_new(struct hal_memory *m, int fd)
{
	struct fake_phys *p = hal_sys_libc.alloc(16, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct fake_phys){ .fd = fd, .size = m->size, .users = 1 };
	*phys_of(m) = p;
	fake_object(1);
	return 0;
}

static void phys_put_locked(struct fake_device *d, struct fake_phys *p)
{
	if (--p->users)
		return;
	if (!p->imported)
		d->used -= p->size;
	close(p->fd);
	free(p);
	fake_object(-1);
}

static int charge(struct fake_device *d, uint64_t size)
{
	int rc = 0;

	pthread_mutex_lock(&fake.lock);
	if (size > FAKE_MEMORY - d->used)
		rc = -ENOMEM;
	else
		d->used += size;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

int fake_create(struct hal_memory *m)
{
	struct fake_device *d = device_of(m->ctx);
	int rc = fake_op(FAKE_CREATE), fd = -1;

	if (!rc)
		rc = charge(d, m->size);
	if (rc)
		return rc;
	fd = memfd_create("fake", MFD_CLOEXEC);
	rc = fd < 0 || ftruncate(fd, (off_t)m->size) ? -ENOMEM : phys_new(m, fd);
	if (rc) {
		close(fd);
		pthread_mutex_lock(&fake.lock);
		d->used -= m->size;
		pthread_mutex_unlock(&fake.lock);
	}
	return rc;
}

void fake_destroy(struct hal_memory *m)
{
	pthread_mutex_lock(&fake.lock);
	phys_put_locked(device_of(m->ctx), *phys_of(m));
	*phys_of(m) = NULL;
	pthread_mutex_unlock(&fake.lock);
}

int fake_export_fd(struct hal_memory *m, int *fd)
{
	int rc = fake_op(FAKE_EXPORT);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	if (*phys_of(m))
		*fd = fcntl((*phys_of(m))->fd, F_DUPFD_CLOEXEC, 0);
	else
		rc = -ENOENT;
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : *fd < 0 ? -EMFILE : 0;
}

int fake_import_fd(struct hal_memory *m, int fd)
{
	int rc = fake_op(FAKE_IMPORT), own;
	struct stat st;

	if (rc)
		return rc;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size % FAKE_GRANULARITY)
		return -EINVAL;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -ENOMEM;
	m->size = (size_t)st.st_size;
	rc = phys_new(m, own);
	if (rc)
		close(own);
	else
		(*phys_of(m))->imported = true;
	return rc;
}

/* ---- mappings ------------------------------------------------------------------------ */

int fake_map(struct hal_memory *m, uint64_t addr, uint32_t access)
{
	struct fake_device *d = device_of(m->ctx);
	struct fake_phys *phys = *phys_of(m);
	int rc = fake_op(FAKE_MAP);
	struct fake_place *p;

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	p = overlap(&d->mappings, addr, m->size) || !overlap(&d->reserves, addr, m->size)
		    ? NULL : place_new(&d->mappings, addr, m->size);
	if (p) {
		p->access = access;
		p->phys = phys;
		phys->users++;
		if (mmap(at(addr), m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 phys->fd, 0) == MAP_FAILED)
			abort();
	}
	pthread_mutex_unlock(&fake.lock);
	return p ? 0 : -ENOMEM;
}

int fake_unmap(struct hal_context *ctx, uint64_t addr, uint64_t size)
{
	struct fake_device *d = device_of(ctx);
	int rc = fake_op(FAKE_UNMAP);
	struct fake_place *p;

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	p = overlap(&d->mappings, addr, size);
	/* a task that comes too late reads zeros */
	if (mmap(at(addr), size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	phys_put_locked(d, p->phys);
	place_free(p);
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

int fake_protect(struct hal_context *ctx, uint64_t addr, uint64_t size, uint32_t access)
{
	int rc = fake_op(FAKE_PROTECT);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	overlap(&device_of(ctx)->mappings, addr, size)->access = access;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

/* Whether mapped memory is at all of these addresses, and may be read and written. */
bool fake_mapped_locked(struct fake_device *d, uint64_t addr, uint64_t size)
{
	struct fake_place *r, *p;
	uint64_t have;

	r = overlap(&d->reserves, addr, 1);
	while (r && size) {
		p = overlap(&d->mappings, addr, 1);
		if (!p || p->access != HAL_VM_RW || overlap(&d->reserves, addr, 1) != r)
			return false;
		have = p->addr + p->size - addr;
		if (have >= size)
			return true;
		addr += have;
		size -= have;
	}
	return false;
}
