// SPDX-License-Identifier: MIT
/*
 * Memory: the device's, pinned host memory, copies and fills ordered with no
 * stream.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"
#include "hal/vmm.h"

static struct simnpu_memory *to_memory(struct hal_memory *m)
{
	return container_of(m, struct simnpu_memory, base);
}

/**
 * simnpu_copy_kind() - what the device calls the direction of a copy
 * @c: the copy
 *
 * Return: SIMNPU_COPY_*.
 */
uint32_t simnpu_copy_kind(const struct hal_copy *c)
{
	if (c->kind == NPU_COPY_H2D)
		return SIMNPU_COPY_TO_DEVICE;
	if (c->kind == NPU_COPY_D2H)
		return SIMNPU_COPY_TO_HOST;
	return c->peer ? SIMNPU_COPY_PEER : SIMNPU_COPY_ON_DEVICE;
}

static void mem_destroy(struct hal_memory *m)
{
	struct simnpu_mem_free f = { .handle = to_memory(m)->handle };
	int err;

	if (IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		simnpu_ipc_forget(simnpu_device_of(m->ctx), f.handle);
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_DESTROY, &f);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: memory %u: destroy: error %d",
			 m->ctx->dev->index, f.handle, -err);
}

/* Device memory, or the host's with SIMNPU_MEM_HOST; out: c, the device's answer. */
static int create(struct hal_memory *m, uint32_t flags, struct simnpu_mem *c)
{
	bool host = flags & SIMNPU_MEM_HOST;
	int err;

	if (m->flags & HAL_MEM_HUGE_ONLY)
		flags |= SIMNPU_MEM_HUGE;
	if (m->flags & HAL_MEM_HUGE_FIRST)
		flags |= SIMNPU_MEM_HUGE_FIRST;
	*c = (struct simnpu_mem){
		.size = host ? m->real_size : m->size,
		.context = to_simnpu_ctx(m->ctx)->handle,
		.flags = flags,
	};
	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_CREATE, c);
	if (err)
		return hal_fail(err, host ? "malloc_host" : "malloc", "device %d: no %zu bytes%s",
				m->ctx->dev->ordinal, m->real_size, host ? " of host memory" : "");
	to_memory(m)->handle = c->handle;
	return 0;
}

static int mem_alloc(struct hal_memory *m)
{
	struct simnpu_mem c;
	int err = create(m, m->flags & HAL_MEM_MANAGED ? SIMNPU_MEM_MANAGED : 0, &c);

	if (!err)
		m->addr = (void *)(uintptr_t)c.addr;
	return err;
}

/* Slower on hardware, and no failure unless somebody says so; said once. */
static int unlocked(struct hal_memory *m)
{
	static _Atomic uint32_t said;

	m->unlocked = true;
	if (m->flags & HAL_MEM_LOCKED)
		return -ENOMEM;
	if (!atomic_exchange(&said, 1))
		hal_warn(HAL_LOG_DRIVER, "pinned memory is not locked: see ulimit -l");
	return 0;
}

static int not_locked(const struct hal_memory *m, const char *op)
{
	return hal_fail(-ENOMEM, op, "%zu bytes cannot be locked in RAM: see ulimit -l", m->size);
}

static int host_alloc(struct hal_memory *m)
{
	struct simnpu_device *dev = simnpu_device_of(m->ctx);
	struct simnpu_mem c;
	int err;

	err = create(m, SIMNPU_MEM_HOST, &c);
	if (err)
		return err;
	err = hal_sys_mmap(dev->sys, m->real_size, PROT_READ | PROT_WRITE, MAP_SHARED, dev->fd,
			   c.map, &m->addr);
	if (err) {
		mem_destroy(m);
		return hal_fail(err, "malloc_host", "%zu bytes of host memory cannot be mapped",
				m->real_size);
	}
	if (!(c.result & SIMNPU_MEM_UNLOCKED) || !unlocked(m))
		return 0;
	mem_destroy(m);
	return not_locked(m, "malloc_host");
}

static int host_register(struct hal_memory *m)
{
	/* a constant of the machine, which can't fail: not for the seam of hal/sys.h */
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)m->addr & ~(page - 1);
	uintptr_t end = ((uintptr_t)m->addr + m->size + page - 1) & ~(page - 1);
	struct simnpu_register r = {
		.addr = start,
		.size = end - start,
		.context = to_simnpu_ctx(m->ctx)->handle,
	};
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_REGISTER, &r);
	if (err)
		return hal_fail(err, "host_register", "%zu bytes at %p cannot be pinned",
				m->size, m->addr);
	to_memory(m)->handle = r.handle;
	if (!(r.result & SIMNPU_MEM_UNLOCKED) || !unlocked(m))
		return 0;
	mem_destroy(m);
	return not_locked(m, "host_register");
}

static int mem_copy(struct hal_context *ctx, const struct hal_copy *h)
{
	struct simnpu_copy c = {
		.dst = (uintptr_t)h->dst,
		.src = (uintptr_t)h->src,
		.dst_pitch = h->dst_pitch,
		.src_pitch = h->src_pitch,
		.width = h->width,
		.height = h->height,
		.context = to_simnpu_ctx(ctx)->handle,
		.kind = simnpu_copy_kind(h),
	};
	int err;

	err = simnpu_ioctl(ctx, SIMNPU_IOCTL_COPY, &c);
	if (unlikely(err))
		return hal_fail(err, "memcpy", "device %d refuses to copy %zu bytes to %p from %p",
				ctx->dev->ordinal, h->width * h->height, h->dst, h->src);
	return 0;
}

static int mem_fill(struct hal_context *ctx, void *dst, int byte, size_t size)
{
	struct simnpu_copy c = {
		.dst = (uintptr_t)dst,
		.src = (uint64_t)byte & 255,
		.dst_pitch = size,
		.width = size,
		.height = 1,
		.context = to_simnpu_ctx(ctx)->handle,
	};
	int err;

	err = simnpu_ioctl(ctx, SIMNPU_IOCTL_COPY, &c);
	if (err)
		return hal_fail(err, "memset", "device %d refuses to set %zu bytes",
				ctx->dev->ordinal, size);
	return 0;
}

static int window_open(struct hal_memory *m, uint64_t offset, size_t size, void **host)
{
	struct simnpu_window w = {
		.addr = (uintptr_t)m->addr + offset,
		.size = size,
		.flags = 1,
	};
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_WINDOW, &w);
	if (err)
		return hal_fail(err, "io_window", "device %d: no window of %zu bytes at %p",
				m->ctx->dev->ordinal, size, m->addr);
	*host = (void *)(uintptr_t)w.host;
	return 0;
}

static void window_close(struct hal_memory *m, uint64_t offset, size_t size)
{
	struct simnpu_window w = {
		.addr = (uintptr_t)m->addr + offset,
		.size = size,
	};
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_WINDOW, &w);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: window at %#llx: close: error %d",
			 m->ctx->dev->index, (unsigned long long)w.addr, -err);
}

/* ---- virtual memory ------------------------------------------------------------------ */

static int vm_ioctl(struct hal_context *ctx, unsigned long request, struct simnpu_vm *v)
{
	v->context = to_simnpu_ctx(ctx)->handle;
	return simnpu_ioctl(ctx, request, v);
}

static int reserve(struct hal_context *ctx, uint64_t want, uint64_t size, uint64_t align,
		   uint64_t *addr)
{
	struct simnpu_vm v = { .addr = want, .size = size, .offset = align };
	int err;

	err = vm_ioctl(ctx, SIMNPU_IOCTL_VM_RESERVE, &v);
	if (err)
		return hal_fail(err, "vm_reserve", "device %d reserves no %llu bytes",
				ctx->dev->ordinal, (unsigned long long)size);
	*addr = v.addr;
	return 0;
}

static void release(struct hal_context *ctx, uint64_t addr, uint64_t size)
{
	struct simnpu_vm v = { .addr = addr, .size = size };
	int err;

	err = vm_ioctl(ctx, SIMNPU_IOCTL_VM_RELEASE, &v);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: addresses at %#llx: release: error %d",
			 ctx->dev->index, (unsigned long long)addr, -err);
}

static int mem_create(struct hal_memory *m)
{
	struct simnpu_mem c;

	return create(m, SIMNPU_MEM_PHYSICAL, &c);
}

static int map(struct hal_memory *m, uint64_t addr, uint32_t access)
{
	struct simnpu_vm v = {
		.addr = addr, .size = m->size, .handle = to_memory(m)->handle, .flags = access,
	};
	int err;

	_Static_assert(HAL_VM_READ == SIMNPU_VM_READ && HAL_VM_WRITE == SIMNPU_VM_WRITE,
		       "the same flags");
	err = vm_ioctl(m->ctx, SIMNPU_IOCTL_VM_MAP, &v);
	if (err)
		return hal_fail(err, "vm_map", "device %d maps no %zu bytes at 0x%llx",
				m->ctx->dev->ordinal, m->size, (unsigned long long)addr);
	return 0;
}

static int unmap(struct hal_context *ctx, uint64_t addr, uint64_t size)
{
	struct simnpu_vm v = { .addr = addr, .size = size };
	int err;

	err = vm_ioctl(ctx, SIMNPU_IOCTL_VM_UNMAP, &v);
	if (err && err != -ENOMEM)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: mapping at %#llx: unmap: error %d",
			 ctx->dev->index, (unsigned long long)addr, -err);
	return err;
}

static int protect(struct hal_context *ctx, uint64_t addr, uint64_t size, uint32_t access)
{
	struct simnpu_vm v = { .addr = addr, .size = size, .flags = access };
	int err;

	err = vm_ioctl(ctx, SIMNPU_IOCTL_VM_PROTECT, &v);
	if (err)
		return hal_fail(err, "vm_protect", "device %d protects no %llu bytes at 0x%llx",
				ctx->dev->ordinal, (unsigned long long)size,
				(unsigned long long)addr);
	return 0;
}

static int export_fd(struct hal_memory *m, int *fd)
{
	struct simnpu_export e = { .handle = to_memory(m)->handle };
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_EXPORT, &e);
	if (err)
		return hal_fail(err, "vm_export", "device %d makes no descriptor of %zu bytes",
				m->ctx->dev->ordinal, m->size);
	*fd = e.fd;
	return 0;
}

static int import_fd(struct hal_memory *m, int fd)
{
	struct simnpu_import i = {
		.fd = fd, .context = to_simnpu_ctx(m->ctx)->handle, .flags = SIMNPU_MEM_PHYSICAL,
	};
	int err;

	err = simnpu_ioctl(m->ctx, SIMNPU_IOCTL_MEM_IMPORT, &i);
	if (err)
		return hal_fail(err, "vm_import", "descriptor %d is none of memory of device %d",
				fd, m->ctx->dev->ordinal);
	to_memory(m)->handle = i.handle;
	m->size = i.size;
	return 0;
}

/* ---- memory that processes share ------------------------------------------------------ */

static int export_key(struct hal_memory *m, size_t offset, uint32_t flags, char *key)
{
	if (!IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		return -EOPNOTSUPP;	/* not asked: no capability */
	return simnpu_ipc_export(m, to_memory(m)->handle, offset, flags, key);
}

static int allow(struct hal_memory *m, const int32_t *pids, size_t n)
{
	if (!IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		return -EOPNOTSUPP;
	return simnpu_ipc_allow(m, to_memory(m)->handle, pids, n);
}

static int import_key(struct hal_memory *m, const char *key)
{
	if (!IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		return -EOPNOTSUPP;
	return simnpu_ipc_import(m, key, &to_memory(m)->handle);
}

/* Without it the device does not say that it can. */
#define VM(op) (IS_ENABLED(CONFIG_VMM) ? op : NULL)

const struct hal_memory_ops simnpu_memory_ops = {
	.obj_size = sizeof(struct simnpu_memory),
	.alloc = mem_alloc,
	.free = mem_destroy,
	.host_alloc = host_alloc,
	.host_free = mem_destroy,
	.host_register = host_register,
	.host_unregister = mem_destroy,
	.copy = mem_copy,
	.fill = mem_fill,
	.window_open = window_open,
	.window_close = window_close,
	.export_key = export_key,
	.allow = allow,
	.import_key = import_key,
	.reserve = VM(reserve),
	.release = VM(release),
	.create = VM(mem_create),
	.destroy = VM(mem_destroy),
	.map = VM(map),
	.unmap = VM(unmap),
	.protect = VM(protect),
	.export_fd = VM(export_fd),
	.import_fd = VM(import_fd),
};
