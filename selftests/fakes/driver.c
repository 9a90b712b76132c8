// SPDX-License-Identifier: MIT
/*
 * The fake driver: what it is told to fail, devices, contexts, memory, modules.
 * Streams are in stream.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/context.h"
#include "hal/memory.h"
#include "hal/sys.h"
#include "npu/simnpu_ops.h"
#include "selftests/fakes/internal.h"

#define ALL_CAPS (NPU_CAP_LAUNCH | NPU_CAP_MODULE_FILE | NPU_CAP_MODULE_DATA | NPU_CAP_STREAM |	\
		  NPU_CAP_EVENT_TIMING | NPU_CAP_PRIORITY | NPU_CAP_CALLBACK |			\
		  NPU_CAP_COMPLETION_FD | NPU_CAP_MEM | NPU_CAP_COPY_2D | NPU_CAP_HOST_ALLOC |	\
		  NPU_CAP_HOST_REGISTER | NPU_CAP_PEER | NPU_CAP_ABORT | NPU_CAP_BF16 |		\
		  NPU_CAP_INF_NAN | NPU_CAP_HOST_TASK | NPU_CAP_IO_WINDOW | NPU_CAP_VMM | \
		  NPU_CAP_IPC_FD)

struct fake_state fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .caps = ALL_CAPS, .timeline = true };

static struct plan {
	uint32_t calls, first, times;
	int code;
} plans[FAKE_OPS];
/* Protects: plans. Submissions count under the submit lock, so it is a spin lock. */
static struct hal_spin plan_lock;
static _Atomic uint32_t objects;
static _Atomic uint32_t fork_children;

int fake_op(enum fake_op op)
{
	struct plan *p = &plans[op];
	int code = 0;

	hal_spin_lock(&plan_lock);
	p->calls++;
	if (p->first && p->calls >= p->first && p->calls - p->first < p->times)
		code = p->code;
	hal_spin_unlock(&plan_lock);
	return code;
}

void fake_fail(enum fake_op op, uint32_t nth, uint32_t times, int code)
{
	hal_spin_lock(&plan_lock);
	plans[op] = (struct plan){ 0, nth, times, code };
	hal_spin_unlock(&plan_lock);
}

uint32_t fake_calls(enum fake_op op)
{
	uint32_t n;

	hal_spin_lock(&plan_lock);
	n = plans[op].calls;
	hal_spin_unlock(&plan_lock);
	return n;
}

void fake_reset(void)
{
	hal_spin_lock(&plan_lock);
	memset(plans, 0, sizeof(plans));
	hal_spin_unlock(&plan_lock);
	fake.caps = ALL_CAPS;
	fake.timeline = true;
	fake_pause(false);
}

void fake_set_caps(uint64_t caps)
{
	fake.caps = caps;
}

uint64_t fake_all_caps(void)
{
	return ALL_CAPS;
}

void fake_set_timeline(bool on)
{
	fake.timeline = on;
}

void fake_object(int change)
{
	hal_add_relaxed(&objects, (uint32_t)change);
}

uint32_t fake_objects(void)
{
	return hal_load_relaxed(&objects);
}

uint32_t fake_fork_children(void)
{
	return hal_load_relaxed(&fork_children);
}

void fake_set_state(struct hal_device *dev, uint32_t state)
{
	hal_store_relaxed(&dev->state, state);
}

/* ---- the driver --------------------------------------------------------------- */

static int fake_init(void)
{
	int rc = fake_op(FAKE_INIT);

	return rc ? rc : fake_worker_start();
}

static int fake_count(uint32_t *n)
{
	*n = FAKE_DEVICES;
	return fake_op(FAKE_COUNT);
}

static int fake_info(uint32_t index, struct hal_device_info *info)
{
	int rc = fake_op(FAKE_INFO);

	if (rc)
		return rc;
	if (index >= FAKE_DEVICES)
		return -ENODEV;
	*info = (struct hal_device_info){
		.caps = fake.caps,
		.mem_total = FAKE_MEMORY,
		.mem_align = 64,
		.va_size = FAKE_VA,
		.mem_granularity = fake.caps & NPU_CAP_VMM ? FAKE_GRANULARITY : 0,
		.cores = 1,
		.max_streams = FAKE_STREAMS,
		.max_events = FAKE_EVENTS,
		.max_contexts = FAKE_CONTEXTS,
		.max_queued = FAKE_QUEUED,
		.priorities = fake.caps & NPU_CAP_PRIORITY ? 8 : 1,
		.args_max = sizeof(((struct fake_task *)0)->args),
		.blocks_max = 65535,
	};
	snprintf(info->name, sizeof(info->name), "fake");
	snprintf(info->bus_id, sizeof(info->bus_id), "fake%u", index);
	return 0;
}

static void fake_fork_child(void)
{
	hal_add_relaxed(&fork_children, 1);
}

/* ---- devices -------------------------------------------------------------------- */

/*
 * Where each device's memory is, as long as the process lives: the core opens and closes a device
 * under a lock.
 */
static void *places[FAKE_DEVICES];
static struct hal_device *_Atomic opened[FAKE_DEVICES];

struct hal_device *fake_device(uint32_t index)
{
	return hal_load_acquire(&opened[index]);
}

static int device_init(struct hal_device *dev)
{
	struct fake_device *d = to_fake_device(dev);
	void **va;
	int rc;

	rc = fake_op(FAKE_DEVICE_INIT);
	if (!rc)
		rc = fake_info(dev->index, &dev->info);
	if (rc)
		return rc;
	/* never touched as a whole: pages come with use */
	va = &places[dev->index];
	if (!*va)
		rc = hal_sys_mmap(&hal_sys_libc, dev->info.va_size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, va);
	if (rc)
		return rc;
	d->va = *va;
	hal_list_init(&d->reserves);
	hal_list_init(&d->mappings);
	d->health.state = HAL_DEVICE_OPEN;
	dev->info.va_start = (uintptr_t)d->va;
	hal_store_release(&opened[dev->index], dev);
	fake_object(1);
	return 0;
}

static void device_fini(struct hal_device *dev)
{
	/* the addresses stay reserved, without the pages */
	madvise(to_fake_device(dev)->va, dev->info.va_size, MADV_DONTNEED);
	hal_store_release(&opened[dev->index], NULL);
	fake_object(-1);
}

static int context_init(struct hal_context *ctx)
{
	struct fake_device *d = to_fake_device(ctx->dev);
	int rc = fake_op(FAKE_CONTEXT_INIT);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	if (d->contexts == FAKE_CONTEXTS)
		rc = -ENOSPC;
	else
		d->contexts++;
	pthread_mutex_unlock(&fake.lock);
	if (!rc)
		fake_object(1);
	return rc;
}

static void context_fini(struct hal_context *ctx)
{
	pthread_mutex_lock(&fake.lock);
	to_fake_device(ctx->dev)->contexts--;
	pthread_mutex_unlock(&fake.lock);
	fake_object(-1);
}

static int mem_info(struct hal_device *dev, struct hal_mem_info *mi)
{
	mi->total = dev->info.mem_total;
	pthread_mutex_lock(&fake.lock);
	mi->free = mi->total - to_fake_device(dev)->used;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int utilization(struct hal_device *dev, uint32_t *percent)
{
	(void)dev;
	*percent = 7;
	return 0;
}

static int device_time(struct hal_device *dev, uint64_t *ns)
{
	(void)dev;
	*ns = hal_sys_now();
	return 0;
}

static int peer(struct hal_device *dev, struct hal_device *other, bool *can)
{
	(void)dev;
	(void)other;
	*can = true;
	return 0;
}

static int stop(struct hal_device *dev, uint64_t deadline)
{
	int rc = fake_op(FAKE_STOP);

	return rc ? rc : fake_streams_stop(dev, deadline);
}

static int restart(struct hal_device *dev, uint32_t attempt)
{
	struct fake_device *d = to_fake_device(dev);
	int rc = fake_op(FAKE_RESTART);

	(void)attempt;
	pthread_mutex_lock(&fake.lock);
	if (d->health.state == HAL_DEVICE_LOST)
		rc = -ENODEV;
	if (!rc) {
		d->health.state = HAL_DEVICE_OPEN;
		d->health.cause = 0;
		d->poison_count = 0;
		d->stopped = false;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static int health(struct hal_device *dev, struct hal_health *h)
{
	int rc = fake_op(FAKE_HEALTH);

	pthread_mutex_lock(&fake.lock);
	*h = to_fake_device(dev)->health;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static int poison(struct hal_device *dev, struct hal_poison *list, uint32_t n)
{
	struct fake_device *d = to_fake_device(dev);
	uint32_t i;

	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < d->poison_count && i < n; i++)
		list[i] = d->poison[i];
	n = d->poison_count;
	pthread_mutex_unlock(&fake.lock);
	return (int)n;
}

void fake_fault(struct hal_device *dev, uint32_t state, int cause)
{
	struct fake_device *d = to_fake_device(dev);

	pthread_mutex_lock(&fake.lock);
	d->health.state = state;
	d->health.cause = cause;
	if (cause == -EHWPOISON)
		d->health.ecc_uncorrected++;
	if (cause == -ENOLINK)
		d->health.link_errors++;
	if (cause == -ETIMEDOUT)
		d->health.hangs++;
	pthread_cond_broadcast(&fake.work);
	pthread_mutex_unlock(&fake.lock);
}

void fake_poison(struct hal_device *dev, const void *addr, uint64_t size)
{
	struct fake_device *d = to_fake_device(dev);

	pthread_mutex_lock(&fake.lock);
	d->poison[d->poison_count++ % FAKE_POISON] = (struct hal_poison){ (uintptr_t)addr, size };
	pthread_mutex_unlock(&fake.lock);
}

/* ---- memory: first fit over a list in order of address ------------------------------- */

static struct fake_memory *to_fake_memory(struct hal_memory *m)
{
	return container_of(m, struct fake_memory, base);
}

/* A gap, and before which node it is. */
static char *find_gap_locked(struct fake_device *d, size_t size, struct hal_list **before)
{
	char *at = d->va, *end = d->va + FAKE_PLAIN;
	struct hal_list *n;

	hal_list_for_each(n, &d->memory) {
		struct fake_memory *m = hal_list_entry(n, struct fake_memory, node);

		if ((size_t)((char *)m->base.addr - at) >= size) {
			*before = n;
			return at;
		}
		at = (char *)m->base.addr + m->base.real_size;
	}
	*before = &d->memory;
	return (size_t)(end - at) >= size ? at : NULL;
}

static int mem_alloc(struct hal_memory *m)
{
	struct fake_device *d = to_fake_device(m->ctx->dev);
	struct hal_list *before;
	int rc = fake_op(FAKE_ALLOC);

	if (rc)
		return rc;
	pthread_mutex_lock(&fake.lock);
	if (!d->memory.next)
		hal_list_init(&d->memory);
	if (m->real_size > FAKE_MEMORY - d->used)
		rc = -ENOMEM;
	if (!rc) {
		m->addr = find_gap_locked(d, m->real_size, &before);
		rc = m->addr ? 0 : -ENOMEM;
	}
	if (!rc) {
		hal_list_add_tail(before, &to_fake_memory(m)->node);
		d->used += m->real_size;
		fake_object(1);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static void mem_free(struct hal_memory *m)
{
	pthread_mutex_lock(&fake.lock);
	hal_list_del(&to_fake_memory(m)->node);
	to_fake_device(m->ctx->dev)->used -= m->real_size;
	pthread_mutex_unlock(&fake.lock);
	fake_object(-1);
}

static int host_alloc(struct hal_memory *m)
{
	int rc = fake_op(FAKE_HOST_ALLOC);

	if (rc)
		return rc;
	m->addr = hal_sys_libc.alloc(4096, m->real_size);
	if (!m->addr)
		return -ENOMEM;
	fake_object(1);
	return 0;
}

static void host_free(struct hal_memory *m)
{
	free(m->addr);
	fake_object(-1);
}

static int host_register(struct hal_memory *m)
{
	int rc = fake_op(FAKE_REGISTER);

	(void)m;
	if (!rc)
		fake_object(1);
	return rc;
}

static void host_unregister(struct hal_memory *m)
{
	(void)m;
	fake_object(-1);
}

void fake_do_copy(const struct hal_copy *c)
{
	size_t i;

	for (i = 0; i < c->height; i++)
		memmove((char *)c->dst + i * c->dst_pitch,
			(const char *)c->src + i * c->src_pitch, c->width);
}

static int mem_copy(struct hal_context *ctx, const struct hal_copy *c)
{
	int rc = fake_op(FAKE_COPY);

	(void)ctx;
	if (!rc)
		fake_do_copy(c);
	return rc;
}

static int mem_fill(struct hal_context *ctx, void *dst, int byte, size_t size)
{
	int rc = fake_op(FAKE_FILL);

	(void)ctx;
	if (!rc)
		memset(dst, byte, size);
	return rc;
}

/* Whether these bytes are one allocation's: what a kernel may touch. */
bool fake_reachable(struct hal_device *dev, uint64_t addr, uint64_t size)
{
	struct fake_device *d = to_fake_device(dev);
	struct hal_list *n;
	bool ok;

	pthread_mutex_lock(&fake.lock);
	ok = fake_mapped_locked(d, addr, size);
	if (d->memory.next)
		hal_list_for_each(n, &d->memory) {
			struct hal_memory *m = &hal_list_entry(n, struct fake_memory, node)->base;
			uint64_t start = (uintptr_t)m->addr;

			if (addr >= start && m->size >= size && addr - start <= m->size - size)
				ok = true;
		}
	pthread_mutex_unlock(&fake.lock);
	return ok;
}

/* ---- modules: a file or an image says FAKE, and all have the same kernels ---------------- */

static const char *const kernel_names[] = {
	[FAKE_KERNEL_NONE] = "",
	[FAKE_KERNEL_NOP] = "nop",
	[FAKE_KERNEL_INC] = "inc_u64",
	[FAKE_KERNEL_DELAY] = "delay_ns",
	[FAKE_KERNEL_BIAS] = "bias_f32",
};

static int load_builtin(struct hal_module *m)
{
	int rc = fake_op(FAKE_MODULE);

	(void)m;
	if (!rc)
		fake_object(1);
	return rc;
}

static int load_data(struct hal_module *m, const void *data, size_t size)
{
	if (size < 4 || memcmp(data, "FAKE", 4))
		return -ENOEXEC;
	return load_builtin(m);
}

static int load_file(struct hal_module *m, const char *path)
{
	char magic[4];
	int fd, rc;

	fd = hal_sys_open(&hal_sys_libc, path, O_RDONLY);
	if (fd < 0)
		return fd;
	rc = hal_sys_read(fd, magic, sizeof(magic));
	hal_sys_close(&hal_sys_libc, fd);
	return rc ? -ENOEXEC : load_data(m, magic, sizeof(magic));
}

static void unload(struct hal_module *m)
{
	(void)m;
	fake_object(-1);
}

static int kernel_get(struct hal_module *m, const char *name, uint64_t *token)
{
	int rc = fake_op(FAKE_KERNEL);
	uint32_t i;

	(void)m;
	for (i = 1; !rc && i < ARRAY_SIZE(kernel_names); i++) {
		if (!strcmp(kernel_names[i], name)) {
			*token = i;
			return 0;
		}
	}
	return rc ? rc : -ESRCH;
}

/* ---- tables -------------------------------------------------------------------------- */

static const struct hal_driver_ops driver_ops = {
	.init = fake_init,
	.fini = fake_worker_stop,
	.count = fake_count,
	.info = fake_info,
	.fork_child = fake_fork_child,
};

static const struct hal_device_ops device_ops = {
	.obj_size = sizeof(struct fake_device),
	.context_size = sizeof(struct hal_context),
	.init = device_init,
	.fini = device_fini,
	.context_init = context_init,
	.context_fini = context_fini,
	.mem_info = mem_info,
	.utilization = utilization,
	.time = device_time,
	.peer = peer,
	.stop = stop,
	.restart = restart,
	.health = health,
	.poison = poison,
};

/* Its device memory is the host's. */
static int window_open(struct hal_memory *m, uint64_t offset, size_t size, void **host)
{
	(void)size;
	*host = (char *)m->addr + offset;
	return fake_op(FAKE_WINDOW);
}

static void window_close(struct hal_memory *m, uint64_t offset, size_t size)
{
	(void)m;
	(void)offset;
	(void)size;
}

static const struct hal_memory_ops memory_ops = {
	.obj_size = sizeof(struct fake_memory),
	.alloc = mem_alloc,
	.free = mem_free,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.copy = mem_copy,
	.fill = mem_fill,
	.reserve = fake_reserve,
	.release = fake_release,
	.create = fake_create,
	.destroy = fake_destroy,
	.map = fake_map,
	.unmap = fake_unmap,
	.protect = fake_protect,
	.export_fd = fake_export_fd,
	.import_fd = fake_import_fd,
	.window_open = window_open,
	.window_close = window_close,
};

static const struct hal_kernel_ops kernel_ops = {
	.module_size = sizeof(struct hal_module),
	.load_builtin = load_builtin,
	.load_file = load_file,
	.load_data = load_data,
	.unload = unload,
	.get = kernel_get,
};

const struct hal_driver fake_driver = {
	.name = "fake",
	.abi = HAL_DRIVER_ABI,
	.rank = 1,
	.ops = &driver_ops,
	.device = &device_ops,
	.stream = &fake_stream_ops,
	.event = &fake_event_ops,
	.memory = &memory_ops,
	.kernel = &kernel_ops,
};

hal_driver_register(fake_driver);
