// SPDX-License-Identifier: MIT
/*
 * Nodes, descriptors and devices: open, close, and from a descriptor to the
 * open file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/simnpu/kernels/kernels.h"
#include "drivers/simnpu/model/hot.h"
#include "drivers/simnpu/model/simnpu_model.h"
#include "drivers/simnpu/options.h"

#define FD_CHUNK 1024u
#define FD_CHUNKS 1024u
#define PIN_NAP_NS 100000u

_Atomic uint32_t model_odd;

static _Atomic(_Atomic(struct model_file *) *) fds[FD_CHUNKS];

/*
 * Protects: devices (not what they hold), free_files, inherited, growth of fds.
 * Held over open and close.
 */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct model_device *) devices[SIMNPU_MAX_DEVICES];
/* Devices that were lost and have no opener any more, to be used again. */
static struct model_device *spare_devices;
static struct model_file *free_files;
/* In the child of a fork, until it opens a node of its own: all of the above is its parent's. */
static bool inherited;
static _Atomic bool watched;

/* The open file of a descriptor, or NULL. No lock. */
struct model_file *model_file_of(int fd)
{
	_Atomic(struct model_file *) *chunk;

	if (unlikely((unsigned int)fd >= FD_CHUNK * FD_CHUNKS))
		return NULL;
	chunk = hal_load_acquire(&fds[(unsigned int)fd / FD_CHUNK]);
	return likely(chunk) ? hal_load_acquire(&chunk[(unsigned int)fd % FD_CHUNK]) : NULL;
}

static int fd_set_file(int fd, struct model_file *f)
{
	_Atomic(struct model_file *) *chunk;

	if ((unsigned int)fd >= FD_CHUNK * FD_CHUNKS)
		return -EMFILE;
	chunk = hal_load_acquire(&fds[(unsigned int)fd / FD_CHUNK]);
	if (!chunk) {
		chunk = hal_zalloc(FD_CHUNK * sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		hal_store_release(&fds[(unsigned int)fd / FD_CHUNK], chunk);
	}
	hal_store_release(&chunk[(unsigned int)fd % FD_CHUNK], f);
	return 0;
}

/* ---- devices ------------------------------------------------------------------- */

/* The device if it was ever open, else NULL. */
struct model_device *model_device_of(uint32_t index)
{
	return index < SIMNPU_MAX_DEVICES ? hal_load_acquire(&devices[index]) : NULL;
}

/**
 * model_device_pin() - find the device of an address, and keep its memory there
 * @addr: the device address
 *
 * Return: the device, for model_device_unpin(), or NULL.
 */
struct model_device *model_device_pin(uint64_t addr)
{
	struct model_device *d;
	uint32_t i;

	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		d = hal_load_acquire(&devices[i]);
		if (!d)
			continue;
		/* who closes the device says so first, and counts afterwards */
		atomic_fetch_add(&d->pins, 1);
		if (atomic_load(&d->live) && addr - d->mem.start < d->mem.size)
			return d;
		atomic_fetch_sub(&d->pins, 1);
	}
	return NULL;
}

/* Undoes model_device_pin(). */
void model_device_unpin(struct model_device *dev)
{
	atomic_fetch_sub(&dev->pins, 1);
}

/* How many devices there are. Context: a node is open. */
uint32_t model_devices(void)
{
	return model_named() ? model_instance_devices()
			     : (uint32_t)hal_option_int(simnpu_options, "simnpu_devices");
}

static void device_options(struct model_device *dev)
{
	const struct hal_option *o = simnpu_options;
	uint32_t cores = (uint32_t)hal_option_int(o, "simnpu_cores");
	/* what the machine has: takes nothing, so it is not in the seam of hal/sys.h */
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t class, i;

	dev->strict = hal_option_bool(o, "simnpu_strict");
	dev->borrow_modules = hal_option_bool(o, "simnpu_borrow_modules");
	if (!cores) {
		cores = dev->part->cores;
		if (online > 0 && (uint32_t)online < cores)
			cores = (uint32_t)online;
	}
	dev->cores = cores;
	dev->dma = cores < MODEL_DMA_MAX ? cores : MODEL_DMA_MAX;
	dev->thread_max = cores + 3 * dev->dma + 1;
	dev->asym = !hal_sys_membarrier();
	for (class = 0; class < CLASS_COUNT; class++)
		for (i = 0; i < MODEL_CORES_MAX; i++)
			hal_store_relaxed(&dev->tokens[class][i].taken, 0);
}

static int device_up(struct model_device *dev)
{
	enum model_what what;
	uint64_t memory;
	int rc;

	dev->part = model_named() ? model_instance_part(&memory) : model_part_get(&memory);
	device_options(dev);
	atomic_store(&dev->stop, false);
	atomic_store(&dev->paused, false);
	model_state_reset(dev);
	dev->queue_number = 0;
	dev->busy_from = dev->busy_last = hal_sys_now();
	dev->busy_ns = dev->busy_prev = 0;
	model_core_init(dev);
	simnpu_kernels_set_plain(hal_option_bool(simnpu_options, "simnpu_plain_kernels"));
	for (what = 0; what < MODEL_WHATS; what++)
		hal_store_relaxed(&dev->own[what], 0);
	rc = model_memory_init(&dev->mem, memory, dev->strict);
	if (!rc)
		atomic_store(&dev->live, true);
	return rc;
}

static struct model_device *device_new(uint32_t index)
{
	struct model_device *dev = spare_devices;
	uint32_t class, prio;

	if (dev) {
		spare_devices = dev->next_spare;
		dev->index = index;
		return dev;
	}
	dev = hal_zalloc_aligned(64, sizeof(*dev));
	if (!dev)
		return NULL;
	dev->index = index;
	for (class = 0; class < CLASS_COUNT; class++)
		for (prio = 0; prio < MODEL_PRIORITIES; prio++)
			hal_list_init(&dev->ready[class][prio]);
	hal_list_init(&dev->jobs);
	hal_list_init(&dev->files);
	pthread_mutex_init(&dev->look_lock, NULL);
	pthread_mutex_init(&dev->thread_lock, NULL);
	pthread_mutex_init(&dev->change_lock, NULL);
	pthread_mutex_init(&dev->lock, NULL);
	return dev;
}

/* Who opens the node of a lost device gets another one. Context: any. */
void model_device_detach(struct model_device *dev)
{
	struct model_device *d = dev;

	atomic_compare_exchange_strong(&devices[dev->index], &d, NULL);
}

/**
 * model_device_open() - one more opener of a device
 * @index: the number of its part
 * @dev: out: the device
 *
 * Context: under open_lock. Return: 0 or -ENOMEM.
 */
int model_device_open(uint32_t index, struct model_device **dev)
{
	struct model_device *d = hal_load_acquire(&devices[index]);
	int rc;

	if (!d) {
		d = device_new(index);
		if (!d)
			return -ENOMEM;
		hal_store_release(&devices[index], d);
	}
	if (!d->opens) {
		rc = device_up(d);
		if (rc)
			return rc;
	}
	d->opens++;
	*dev = d;
	return 0;
}

/* Others may have what this process had. */
static void leave(struct model_device *dev)
{
	if (model_named())
		model_instance_leave(dev);
}

/* One opener less. Context: under open_lock. */
void model_device_close(struct model_device *dev)
{
	bool lost = atomic_load(&dev->state) == SIMNPU_STATE_LOST;

	if (--dev->opens)
		return;
	if (dev->hung) {
		/* a thread is in there for good: the next opener gets a new one */
		atomic_store(&dev->live, false);
		leave(dev);
		model_engine_abandon(dev);
		model_state_reset(dev);
		return;
	}
	model_engine_stop(dev);
	atomic_store(&dev->live, false);
	while (atomic_load(&dev->pins))
		hal_sys_futex_wait(&dev->pins, 1, hal_sys_now() + PIN_NAP_NS);
	model_memory_fini(&dev->mem);
	leave(dev);
	model_state_reset(dev);
	if (lost) {
		dev->next_spare = spare_devices;
		spare_devices = dev;
	}
}

/* ---- forks ------------------------------------------------------------------------- */

/*
 * In the child of a fork, where no other thread is: whoever held the lock is
 * gone, and may have left a question half answered. Descriptors of the parent are
 * closed, once; only async-signal-safe calls.
 */
static void in_child(void)
{
	_Atomic(struct model_file *) *chunk;
	uint32_t i, k;

	if (inherited)
		return;
	inherited = true;
	open_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	model_memory_in_child();
	model_state_in_child();
	model_rules_in_child();
	model_arena_in_child();
	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES)) {
		model_instance_in_child();
		model_share_in_child();
	}
	for (i = 0; i < FD_CHUNKS; i++) {
		chunk = hal_load_relaxed(&fds[i]);
		for (k = 0; chunk && k < FD_CHUNK; k++)
			if (hal_load_relaxed(&chunk[k]))
				hal_sys_get()->close((int)(i * FD_CHUNK + k));
	}
}

/* Whoever asks before the library is initialised may open a node while another thread forks. */
static int watch_forks(void)
{
	int rc;

	if (likely(hal_load_acquire(&watched)))
		return 0;
	/* two that come here at once both register it: done twice it does no harm */
	rc = pthread_atfork(NULL, NULL, in_child);
	if (!rc)
		hal_store_release(&watched, true);
	return -rc;
}

/* The parent's files and devices are left as they are; nothing of them is used again. */
static void forget_locked(void)
{
	_Atomic(struct model_file *) *chunk;
	uint32_t i, k;

	for (i = 0; i < FD_CHUNKS; i++) {
		chunk = hal_load_relaxed(&fds[i]);
		for (k = 0; chunk && k < FD_CHUNK; k++)
			hal_store_release(&chunk[k], NULL);
	}
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++)
		hal_store_release(&devices[i], NULL);
	free_files = NULL;
	spare_devices = NULL;
	inherited = false;
}

/* ---- open and close ---------------------------------------------------------------- */

/* "/dev/simnpuN": N, or -ENOENT. Context: attached to the instance. */
static int node_index(const char *path)
{
	const size_t len = sizeof(SIMNPU_NODE_PREFIX) - 1;
	int index = 0;

	if (strncmp(path, SIMNPU_NODE_PREFIX, len) || !path[len])
		return -ENOENT;
	/* one spelling per node: no leading zero */
	if (path[len] == '0' && path[len + 1])
		return -ENOENT;
	for (path += len; *path; path++) {
		if (*path < '0' || *path > '9' || index > SIMNPU_MAX_DEVICES)
			return -ENOENT;
		index = index * 10 + (*path - '0');
	}
	return index < (int)model_devices() ? index : -ENOENT;
}

/* The part behind a node, or -ENODEV: it was unplugged. */
static int part_of(int node)
{
	int part = model_plug_part((uint32_t)node);

	return part < 0 ? -ENODEV : part;
}

static struct model_file *file_new(struct model_device *dev, int fd)
{
	struct model_file *f = free_files;

	if (f)
		free_files = f->next_free;
	else
		f = hal_zalloc(sizeof(*f));
	if (!f)
		return NULL;
	f->dev = dev;
	pthread_mutex_lock(&dev->lock);
	hal_list_add_tail(&dev->files, &f->node);
	pthread_mutex_unlock(&dev->lock);
	hal_store_release(&f->fd, fd);
	return f;
}

static void file_del(struct model_file *f)
{
	pthread_mutex_lock(&f->dev->lock);
	hal_list_del(&f->node);
	pthread_mutex_unlock(&f->dev->lock);
	f->next_free = free_files;
	free_files = f;
}

static int node_open(const char *path)
{
	struct model_device *dev;
	struct model_file *f;
	int fd, rc;

	rc = node_index(path);
	if (rc >= 0)
		rc = part_of(rc);
	if (rc < 0)
		return rc;
	rc = model_device_open((uint32_t)rc, &dev);
	if (rc)
		return rc;
	fd = hal_sys_eventfd();
	if (fd < 0) {
		rc = fd;
		goto close_device;
	}
	f = file_new(dev, fd);
	if (!f) {
		rc = -ENOMEM;
		goto close_fd;
	}
	rc = fd_set_file(fd, f);
	if (rc)
		goto del_file;
	return fd;

del_file:
	file_del(f);
close_fd:
	hal_sys_close(hal_sys_get(), fd);
close_device:
	model_device_close(dev);
	return rc;
}

/* The instance that the option names. Context: under open_lock. */
static int attach(void)
{
	const char *name = hal_option_text(simnpu_options, "simnpu_instance");

	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		return model_instance_attach(name);
	return name[0] ? -EOPNOTSUPP : 0;
}

static void detach(void)
{
	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		model_instance_detach();
}

static int result(int rc)
{
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

static int model_open(const char *path, int flags, unsigned int mode)
{
	int rc, watch;

	(void)flags;
	(void)mode;
	if (model_forked())
		return result(-ENODEV);
	rc = model_rules_open();
	if (rc)
		return result(rc);
	watch = watch_forks();
	if (watch)
		return result(watch);
	pthread_mutex_lock(&open_lock);
	if (unlikely(inherited))
		forget_locked();
	rc = attach();
	if (!rc) {
		rc = node_open(path);
		if (rc < 0)
			detach();
	}
	pthread_mutex_unlock(&open_lock);
	return result(rc);
}

static int model_close(int fd)
{
	struct model_file *f;
	int rc;

	pthread_mutex_lock(&open_lock);
	f = model_file_of(fd);
	if (!f || inherited || model_forked()) {
		pthread_mutex_unlock(&open_lock);
		/* not a node: what an export gave is closed as every descriptor is */
		return f ? result(-EBADF) : result(hal_sys_close(hal_sys_get(), fd));
	}
	/* nothing new comes in by the descriptor; who is inside finds the file closed */
	fd_set_file(fd, NULL);
	atomic_store(&f->fd, -1);
	atomic_fetch_add(&model_changes, 1);
	model_file_close(f);
	file_del(f);
	model_device_close(f->dev);
	detach();
	rc = hal_sys_close(hal_sys_get(), fd);
	pthread_mutex_unlock(&open_lock);
	return result(rc);
}

/* ---- mmap -------------------------------------------------------------------------- */

static int map_arena(struct model_file *f, uint64_t offset, size_t size, void **p)
{
	struct model_context *ctx = model_context_find(f, (uint32_t)(offset >> 40));

	if (!ctx || offset & ((1ull << 40) - 1))
		return -EINVAL;
	if (size > ctx->arena->size)
		return -EINVAL;
	*p = ctx->arena->base;
	return 0;
}

static int map_host(struct model_file *f, uint64_t offset, size_t size, void **p)
{
	struct model_mem *mem = model_table_get(&f->table, (uint32_t)(offset >> 12), MODEL_MEM);

	if (!mem || offset & (MODEL_PAGE - 1) || !mem->host || mem->registered)
		return -EINVAL;
	if (size > hal_align_up(mem->size, MODEL_PAGE))
		return -EINVAL;
	*p = mem->host;
	return 0;
}

static void *model_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	struct model_file *f = model_file_of(fd);
	void *p = MAP_FAILED;
	int rc;

	(void)addr;
	if (!f || model_forked()) {
		errno = f ? ENODEV : EBADF;
		return MAP_FAILED;
	}
	if (!size || !(flags & MAP_SHARED) || flags & MAP_FIXED || prot & PROT_EXEC) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	pthread_mutex_lock(&f->dev->lock);
	if ((uint64_t)offset >> 62)
		rc = map_host(f, (uint64_t)offset & ~(1ull << 62), size, &p);
	else
		rc = map_arena(f, (uint64_t)offset, size, &p);
	pthread_mutex_unlock(&f->dev->lock);
	if (rc)
		errno = -rc;
	return p;
}

/* What is mapped goes away with the object that it belongs to. */
static int model_munmap(void *addr, size_t size)
{
	if ((uintptr_t)addr % MODEL_PAGE || !size)
		return result(-EINVAL);
	return 0;
}

/* See simnpu_model.h. */
void simnpu_model_fork_child(void)
{
	atomic_fetch_or(&model_odd, MODEL_ODD_FORKED);
	in_child();
}

const struct hal_sys_ops simnpu_model_sys = {
	.open = model_open,
	.close = model_close,
	.ioctl = model_ioctl,
	.mmap = model_mmap,
	.munmap = model_munmap,
};
