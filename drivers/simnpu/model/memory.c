// SPDX-License-Identifier: MIT
/*
 * Device memory: addresses and pages.
 *
 * In strict mode the device's addresses are reserved and can't be touched; the
 * bytes lie at a constant distance. The data stays mapped for the life of the
 * device, so an engine that still works on memory that was freed reads zeros
 * and does not crash.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"
#include "drivers/simnpu/simnpu_test.h"

#define RESERVE		(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
/* What is freed in pieces smaller than this keeps its pages for the next one. */
#define KEEP_PAGES	(64u << 10)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/**
 * model_populate() - make pages real now
 * @p: where
 * @size: bytes
 * @rc: out: 0 or -ENOMEM
 *
 * Contents stay as they are.
 */
void model_populate(char *p, uint64_t size, int *rc)
{
	uintptr_t start = (uintptr_t)p & ~(uintptr_t)(MODEL_PAGE - 1);
	uintptr_t end = hal_align_up((uintptr_t)p + size, MODEL_PAGE);
	int err = hal_sys_madvise((void *)start, end - start, MADV_POPULATE_WRITE);
	uintptr_t a;

	*rc = 0;
	if (!err)
		return;
	if (err != -EINVAL) {
		*rc = -ENOMEM;
		return;
	}
	/* an older kernel: touch them */
	for (a = start; a < end; a += MODEL_PAGE)
		__atomic_fetch_or((char *)a, 0, __ATOMIC_RELAXED);
}

/* ---- pages -------------------------------------------------------------------- */

static bool page_present(const struct model_memory *m, uint64_t page)
{
	return m->present[page / 64] >> page % 64 & 1;
}

static void pages_mark(struct model_memory *m, uint64_t from, uint64_t to, bool present)
{
	for (; from < to; from++) {
		if (from % 64 == 0 && to - from >= 64) {
			m->present[from / 64] = present ? ~0ull : 0;
			from += 63;
		} else if (present) {
			m->present[from / 64] |= 1ull << from % 64;
		} else {
			m->present[from / 64] &= ~(1ull << from % 64);
		}
	}
}

static int pages_make(struct model_memory *m, uint64_t from, uint64_t to)
{
	char *p = m->data + from * MODEL_PAGE;
	uint64_t size = (to - from) * MODEL_PAGE;
	int rc;

	if (m->protect && hal_sys_mprotect(p, size, PROT_READ | PROT_WRITE))
		return -ENOMEM;
	model_populate(p, size, &rc);
	if (!rc)
		pages_mark(m, from, to, true);
	return rc;
}

/* Makes those pages of an extent real that are not. */
static int extent_pages(struct model_memory *m, const struct model_extent *e)
{
	uint64_t page = (e->range.start - m->start) / MODEL_PAGE;
	uint64_t end = hal_align_up(e->range.start - m->start + e->range.size, MODEL_PAGE) /
		       MODEL_PAGE;
	uint64_t from;
	int rc;

	while (page < end) {
		if (page_present(m, page)) {
			page++;
			continue;
		}
		for (from = page; page < end && !page_present(m, page);)
			page++;
		rc = pages_make(m, from, page);
		if (rc)
			return rc;
	}
	return 0;
}

/* Gives back the pages of a range that no neighbour shares. */
static void extent_drop_pages(struct model_memory *m, const struct model_extent *e)
{
	uint64_t from = hal_align_up(e->range.start - m->start, MODEL_PAGE) / MODEL_PAGE;
	uint64_t to = (e->range.start - m->start + e->range.size) / MODEL_PAGE;

	if (to <= from)
		return;
	hal_sys_madvise(m->data + from * MODEL_PAGE, (to - from) * MODEL_PAGE, MADV_DONTNEED);
	pages_mark(m, from, to, false);
}

static int extent_huge(struct model_memory *m, struct model_extent *e, uint32_t flags)
{
	char *p = m->data + (e->range.start - m->start);
	int rc;

	if (e->range.size < MODEL_HUGE)
		return 0;
	rc = hal_sys_madvise(p, e->range.size, MADV_HUGEPAGE);
	e->huge = !rc;
	return rc && flags & SIMNPU_MEM_HUGE ? -ENOMEM : 0;
}

/* ---- the interface -------------------------------------------------------------- */

/*
 * Addresses that were a device's stay reserved until the process ends, so that a
 * pointer left over from it is never one to something else; the next device of
 * that size takes them.
 */
struct window {
	char *data_map;
	char *va_map;
	uint64_t size;
	bool protect;
};

/* Protects: pool. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct window pool[SIMNPU_MAX_DEVICES];

/* In the child of a fork: another thread may have held the lock, in the middle of something. */
void model_memory_in_child(void)
{
	pool_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	memset(pool, 0, sizeof(pool));
}

static void memory_place(struct model_memory *m, const struct window *w)
{
	m->data_map = w->data_map;
	m->va_map = w->va_map;
	m->protect = w->protect;
	m->size = w->size;
	m->data = (char *)hal_align_up((uintptr_t)w->data_map, MODEL_HUGE);
	m->start = hal_align_up((uintptr_t)(w->va_map ? w->va_map : w->data_map), MODEL_HUGE);
	m->delta = (uintptr_t)m->data - m->start;
}

static bool pool_take(struct window *w, uint64_t size, bool strict)
{
	bool found = false;
	size_t i;

	pthread_mutex_lock(&pool_lock);
	for (i = 0; i < ARRAY_SIZE(pool) && !found; i++) {
		found = pool[i].size == size && !pool[i].va_map == !strict;
		if (found) {
			*w = pool[i];
			pool[i].size = 0;
		}
	}
	pthread_mutex_unlock(&pool_lock);
	return found;
}

static bool pool_put(const struct window *w)
{
	bool room = false;
	size_t i;

	pthread_mutex_lock(&pool_lock);
	for (i = 0; i < ARRAY_SIZE(pool) && !room; i++) {
		room = !pool[i].size;
		if (room)
			pool[i] = *w;
	}
	pthread_mutex_unlock(&pool_lock);
	return room;
}

static int memory_map(struct model_memory *m, uint64_t size, bool strict)
{
	struct window w = { .size = size };
	void *p, *va;
	int rc;

	if (pool_take(&w, size, strict)) {
		memory_place(m, &w);
		return 0;
	}
	/* one huge page more, so that both windows can begin at one */
	rc = hal_sys_mmap(hal_sys_get(), size + MODEL_HUGE, PROT_READ | PROT_WRITE, RESERVE, -1, 0,
			  &p);
	w.protect = rc;
	if (rc)
		rc = hal_sys_mmap(hal_sys_get(), size + MODEL_HUGE, PROT_NONE, RESERVE, -1, 0, &p);
	if (rc)
		return -ENOMEM;
	w.data_map = p;
	if (strict) {
		rc = hal_sys_mmap(hal_sys_get(), size + MODEL_HUGE, PROT_NONE, RESERVE, -1, 0, &va);
		if (rc) {
			hal_sys_munmap(hal_sys_get(), p, size + MODEL_HUGE);
			return -ENOMEM;
		}
		w.va_map = va;
	}
	memory_place(m, &w);
	return 0;
}

static void memory_unmap(struct model_memory *m)
{
	const struct window w = { m->data_map, m->va_map, m->size, m->protect };

	/* its pages go, its addresses stay */
	if (!hal_sys_madvise(m->data_map, m->size + MODEL_HUGE, MADV_DONTNEED) && pool_put(&w))
		return;
	hal_sys_munmap(hal_sys_get(), m->data_map, m->size + MODEL_HUGE);
	if (m->va_map)
		hal_sys_munmap(hal_sys_get(), m->va_map, m->size + MODEL_HUGE);
}

/* The least that is tried, bytes. */
#define MODEL_WINDOW_MIN (256ull << 20)

/*
 * Addresses: twice the bytes, so that pieces can't keep a large allocation out for long, and
 * behind them what reservations are made of. Less where addresses are scarce: who finds none is
 * refused then.
 */
static int memory_windows(struct model_memory *m, uint64_t total, bool strict)
{
	uint64_t plain = hal_align_up(total * 2, MODEL_HUGE);
	uint64_t vm = hal_align_up(total * MODEL_VM_FACTOR, MODEL_HUGE);
	int rc;

	for (;;) {
		rc = memory_map(m, plain + vm, strict);
		if (!rc || (vm <= plain && plain / 2 < MODEL_WINDOW_MIN))
			break;
		if (vm <= plain)
			plain = hal_align_up(plain / 2, MODEL_HUGE);
		vm = hal_align_up(vm / 2, MODEL_HUGE);
	}
	m->plain_size = plain;
	return rc;
}

static int memory_spaces(struct model_memory *m)
{
	int rc;

	rc = model_space_init(&m->plain, m->start, m->plain_size);
	if (rc)
		return rc;
	rc = model_space_init(&m->vm, m->start + m->plain_size, m->size - m->plain_size);
	if (rc)
		goto fini_plain;
	m->present = hal_zalloc(m->plain_size / MODEL_PAGE / 8 + 8);
	if (m->present)
		return 0;
	rc = -ENOMEM;
	model_space_fini(&m->vm);
fini_plain:
	model_space_fini(&m->plain);
	return rc;
}

/**
 * model_memory_init() - set a device's memory up
 * @m: the memory
 * @total: bytes that may be allocated
 * @strict: whether device addresses are out of the host's reach
 *
 * Return: 0 or -ENOMEM.
 */
int model_memory_init(struct model_memory *m, uint64_t total, bool strict)
{
	int rc;

	m->used.root = NULL;
	m->total = total;
	m->poison_count = 0;
	rc = memory_windows(m, total, strict);
	if (rc)
		return rc;
	rc = memory_spaces(m);
	if (rc) {
		memory_unmap(m);
		return rc;
	}
	pthread_mutex_init(&m->lock, NULL);
	return 0;
}

/* Undoes it. Context: no engine runs, nothing is allocated. */
void model_memory_fini(struct model_memory *m)
{
	model_space_fini(&m->plain);
	model_space_fini(&m->vm);
	free(m->present);
	m->present = NULL;
	memory_unmap(m);
	pthread_mutex_destroy(&m->lock);
}

/**
 * model_memory_charge() - charge device memory to all that limits it
 * @m: the memory
 * @size: bytes
 *
 * Return: 0 or -ENOMEM.
 */
int model_memory_charge(struct model_memory *m, uint64_t size)
{
	struct model_device *dev = container_of(m, struct model_device, mem);
	int rc = model_charge(dev, MODEL_BYTES, size);

	if (rc)
		return rc;
	rc = model_budget_charge(size);
	if (rc)
		model_uncharge(dev, MODEL_BYTES, size);
	return rc;
}

/* The opposite. */
void model_memory_uncharge(struct model_memory *m, uint64_t size)
{
	model_budget_uncharge(size);
	model_uncharge(container_of(m, struct model_device, mem), MODEL_BYTES, size);
}

/**
 * model_memory_clear() - nothing is mapped at device addresses any more
 * @m: the memory
 * @addr: first address, of a page
 * @size: bytes, whole pages
 *
 * Whoever still works there reads zeros.
 * Return: 0 or a negative errno: it is as it was.
 */
int model_memory_clear(struct model_memory *m, uint64_t addr, uint64_t size)
{
	return hal_sys_mmap_at(model_memory_data(m, addr), size,
			       m->protect ? PROT_NONE : PROT_READ | PROT_WRITE, RESERVE, -1, 0);
}

/* Something else is to be mapped where an extent of whole pages lies. */
void model_memory_forget(struct model_memory *m, const struct model_extent *e)
{
	uint64_t from = (e->range.start - m->start) / MODEL_PAGE;

	pages_mark(m, from, from + e->range.size / MODEL_PAGE, false);
}

/* Engines find an extent from now on: so many bytes of it. */
void model_memory_publish(struct model_memory *m, struct model_extent *e, uint64_t bytes)
{
	e->size = e->bytes = bytes;
	e->access = MODEL_RW;
	hal_spin_lock(&m->map_lock);
	hal_range_insert(&m->used, &e->range);
	hal_spin_unlock(&m->map_lock);
}

/*
 * Memory that is to be moved elsewhere: one mapping without pages, whatever the addresses were used
 * for before.
 */
static int extent_renew(struct model_memory *m, struct model_extent *e)
{
	model_memory_forget(m, e);
	return model_memory_clear(m, e->range.start, e->range.size) ? -ENOMEM : 0;
}

/* In a named instance: what another process may be given. */
static int extent_share(struct model_memory *m, struct model_extent *e)
{
	int rc;

	model_memory_forget(m, e);
	rc = model_share_alloc(m, e);
	/* what was there may be gone or not */
	return rc && model_memory_clear(m, e->range.start, e->range.size) ? -ENOMEM : rc;
}

/* Whether the pages of an extent are those of a file. */
static bool in_file(const struct model_extent *e)
{
	return e->managed || model_shared(e);
}

/* Gives them back; a negative errno: the addresses must not be used again. */
static int leave_file(struct model_memory *m, struct model_extent *e)
{
	return model_shared(e) ? model_share_free(m, e) : model_managed_free(m, e);
}

static int memory_alloc_locked(struct model_memory *m, uint64_t size, uint64_t bytes,
			       uint64_t align, uint32_t flags, struct model_extent **ext)
{
	struct model_extent *e = model_space_get(&m->plain, size, align);
	int rc = 0;

	if (!e)
		return -ENOMEM;
	e->apart = flags & SIMNPU_MEM_PHYSICAL;
	if (e->apart)
		rc = extent_renew(m, e);
	else if (flags & SIMNPU_MEM_MANAGED)
		rc = model_managed_alloc(m, e);
	else if (model_named())
		rc = extent_share(m, e);
	if (!rc)
		rc = extent_huge(m, e, flags);
	if (!rc && !in_file(e))
		rc = extent_pages(m, e);
	if (rc) {
		if (in_file(e) && leave_file(m, e))
			return rc;
		extent_drop_pages(m, e);
		model_space_put(&m->plain, e);
		return rc;
	}
	*ext = e;
	if (!e->apart)
		model_memory_publish(m, e, bytes);
	return 0;
}

/**
 * model_memory_alloc() - allocate device memory, its pages included
 * @m: the memory
 * @size: bytes, at least 1
 * @align: a power of two, or 0
 * @flags: SIMNPU_MEM_HUGE, SIMNPU_MEM_HUGE_FIRST, SIMNPU_MEM_MANAGED, SIMNPU_MEM_PHYSICAL: engines
 *	don't find it
 * @ext: out: the extent
 *
 * Return: 0; -ENOMEM or, of managed memory, -EMFILE, and nothing is charged.
 */
int model_memory_alloc(struct model_memory *m, uint64_t size, uint64_t align, uint32_t flags,
		       struct model_extent **ext)
{
	const bool pages = model_named() || flags & SIMNPU_MEM_MANAGED;
	const uint64_t bytes = size, unit = pages ? MODEL_PAGE : MODEL_ALIGN;
	int rc;

	if (flags & SIMNPU_MEM_HUGE)
		align = align > MODEL_HUGE ? align : MODEL_HUGE;
	if (size > m->total || model_fault(SIMNPU_FAIL_MEMORY))
		return -ENOMEM;
	size = hal_align_up(size, flags & SIMNPU_MEM_HUGE ? MODEL_HUGE : unit);
	if (align < unit)
		align = size >= MODEL_HUGE ? MODEL_HUGE : unit;
	rc = model_memory_charge(m, size);
	if (rc)
		return rc;
	pthread_mutex_lock(&m->lock);
	rc = memory_alloc_locked(m, size, bytes, align, flags, ext);
	pthread_mutex_unlock(&m->lock);
	if (rc)
		model_memory_uncharge(m, size);
	return rc;
}

/**
 * model_memory_free() - free device memory
 * @m: the memory
 * @e: the extent
 */
void model_memory_free(struct model_memory *m, struct model_extent *e)
{
	uint64_t size = e->range.size;
	bool foreign = e->foreign;
	int lost = 0;

	pthread_mutex_lock(&m->lock);
	if (!e->apart) {
		hal_spin_lock(&m->map_lock);
		hal_range_remove(&m->used, &e->range);
		if (unlikely(m->poison_count))
			model_poison_drop(m, &e->range);
		hal_spin_unlock(&m->map_lock);
		/* release: who sees the new epoch does not find the range any more */
		__atomic_fetch_add(&m->epoch, 1, __ATOMIC_RELEASE);
	}
	if (in_file(e)) {
		if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES) && e->object && !foreign)
			model_instance_orphan(container_of(m, struct model_device, mem), e->object);
		e->object = 0;
		lost = leave_file(m, e);
	} else if (size >= KEEP_PAGES) {
		extent_drop_pages(m, e);
	}
	if (e->huge && !lost)
		hal_sys_madvise(m->data + (e->range.start - m->start), size, MADV_NOHUGEPAGE);
	e->huge = e->foreign = false;
	if (!lost)
		model_space_put(&m->plain, e);
	pthread_mutex_unlock(&m->lock);
	if (!foreign)
		model_memory_uncharge(m, size);
}

/**
 * model_memory_find() - translate device addresses
 * @m: the memory
 * @addr: the first
 * @size: bytes, at least 1; all must lie in one allocation
 * @host: out: where they are
 * @range: out: the whole allocation, or NULL
 *
 * Return: whether it is so, and no uncorrectable error has hit the allocation: else
 * model_poison_find() knows more.
 */
bool model_memory_find(struct model_memory *m, uint64_t addr, uint64_t size, char **host,
		       struct hal_range *range)
{
	const struct model_extent *e = NULL;
	struct hal_range *r;
	bool ok;

	if (addr - m->start >= m->size)
		return false;
	hal_spin_lock(&m->map_lock);
	r = hal_range_find(&m->used, addr);
	if (r)
		e = container_of(r, struct model_extent, range);
	ok = e && size && size <= e->bytes && addr - r->start <= e->bytes - size;
	if (ok && range) {
		*range = *r;
		range->size = e->bytes;
	}
	hal_spin_unlock(&m->map_lock);
	if (ok)
		*host = (char *)(uintptr_t)(addr + m->delta);
	return ok;
}
