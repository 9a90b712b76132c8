// SPDX-License-Identifier: MIT
/*
 * The ioctls: a table by number, and the rules that hold for all of them.
 *
 * Padding and flags are checked here, before an ioctl sees its structure: the
 * table says which words must be zero.
 */
#include <stdio.h>
#include <string.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"
#include "drivers/simnpu/simnpu_test.h"

#define ARG_MAX_SIZE 512u

/**
 * struct ioctl_desc - an ioctl
 * @request: its number, with direction and size of the structure
 * @fn: what it does; the structure is a copy, and goes back if it is to
 * @zero: offsets of 32-bit words that must be zero, ended by -1
 */
struct ioctl_desc {
	unsigned long request;
	int (*fn)(struct model_file *f, void *arg);
	int16_t zero[6];
};

static int io_version(struct model_file *f, void *arg)
{
	struct simnpu_version *v = arg;

	(void)f;
	v->major = SIMNPU_ABI_MAJOR;
	v->minor = SIMNPU_ABI_MINOR;
	return 0;
}

static uint64_t device_caps(const struct model_device *dev)
{
	uint64_t caps = SIMNPU_CAP_PRIORITY | SIMNPU_CAP_WINDOW | SIMNPU_CAP_PEER |
			SIMNPU_CAP_ABORT | dev->part->caps;

	if (IS_ENABLED(CONFIG_VMM))
		caps |= SIMNPU_CAP_VMM;
	if (IS_ENABLED(CONFIG_SIMNPU_FAULTS))
		caps |= SIMNPU_CAP_FAULT;
	if (IS_ENABLED(CONFIG_SIMNPU_MODULES))
		caps |= SIMNPU_CAP_MODULE_FILE | SIMNPU_CAP_MODULE_DATA;
	if (dev->strict)
		caps |= SIMNPU_CAP_STRICT;
	if (model_named())
		caps |= SIMNPU_CAP_EXPORT;
	return caps;
}

/* What the caller can still allocate. */
static uint64_t mem_free(struct model_device *dev, uint64_t others)
{
	uint64_t own = hal_load_relaxed(&dev->own[MODEL_BYTES]), quota = model_quota(MODEL_BYTES);
	uint64_t total = dev->mem.total, left;

	left = others < total ? total - others : 0;
	if (quota && quota < left)
		left = quota;
	return own < left ? left - own : 0;
}

static int io_info(struct model_file *f, void *arg)
{
	struct model_device *dev = f->dev;
	struct simnpu_info *i = arg;
	struct model_amount others;

	model_others(dev, &others);
	*i = (struct simnpu_info){
		.caps = device_caps(dev),
		.mem_total = dev->mem.total,
		.mem_free = mem_free(dev, others.of[MODEL_BYTES]),
		.va_start = dev->mem.start,
		.va_size = dev->mem.size,
		.mem_align = MODEL_ALIGN,
		.cores = dev->cores,
		.dma_channels = dev->dma,
		.max_queues = dev->part->max_queues,
		.max_events = dev->part->max_events,
		.max_contexts = MODEL_CONTEXTS_MAX,
		.max_queued = MODEL_MAX_QUEUED,
		.priorities = MODEL_PRIORITIES,
		.args_max = MODEL_ARGS_MAX,
		.queues = (uint32_t)(hal_load_relaxed(&dev->own[MODEL_QUEUES]) +
				     others.of[MODEL_QUEUES]),
		.events = (uint32_t)(hal_load_relaxed(&dev->own[MODEL_EVENTS]) +
				     others.of[MODEL_EVENTS]),
		.utilization = model_utilization(dev),
		.look_again_ns = MODEL_LOOK_NS,
		.kernel_abi = NPU_SIMNPU_KERNEL_ABI,
		.ecc_corrected = hal_load_relaxed(&dev->health.ecc_corrected),
		.ecc_uncorrected = hal_load_relaxed(&dev->health.ecc_uncorrected),
		.link_errors = hal_load_relaxed(&dev->health.link_errors),
		.hangs = hal_load_relaxed(&dev->health.hangs),
		.restarts = hal_load_relaxed(&dev->health.restarts),
		.mem_others = others.of[MODEL_BYTES],
		.mem_quota = model_quota(MODEL_BYTES),
		.queue_quota = (uint32_t)model_quota(MODEL_QUEUES),
		.event_quota = (uint32_t)model_quota(MODEL_EVENTS),
	};
	if (model_named())
		i->number = model_instance_number(dev, &i->slot);
	model_state_info(dev, i);
	strncpy(i->part, dev->part->name, sizeof(i->part) - 1);
	snprintf(i->bus, sizeof(i->bus), "simnpu%u", dev->index);
	return 0;
}

static int io_time(struct model_file *f, void *arg)
{
	struct simnpu_time *t = arg;

	(void)f;
	t->host_ns = t->device_ns = hal_sys_now();
	return 0;
}

/* MEM_EXPORT and MEM_IMPORT: between the processes of a named instance. */
static int io_mem_export(struct model_file *f, void *arg)
{
	return IS_ENABLED(CONFIG_SIMNPU_INSTANCES) ? model_mem_export(f, arg) : -EOPNOTSUPP;
}

static int io_mem_import(struct model_file *f, void *arg)
{
	const struct simnpu_import *i = arg;

	if (i->flags & ~SIMNPU_MEM_PHYSICAL)
		return -EINVAL;
	return IS_ENABLED(CONFIG_SIMNPU_INSTANCES) ? model_mem_import(f, arg) : -EOPNOTSUPP;
}

#define WRAP_VM(name)							\
	static int io_##name(struct model_file *f, void *arg)		\
	{								\
		struct simnpu_vm *v = arg;				\
									\
		return IS_ENABLED(CONFIG_VMM) ? model_##name(f, v) : -EOPNOTSUPP; \
	}
WRAP_VM(vm_reserve)
WRAP_VM(vm_release)
WRAP_VM(vm_map)
WRAP_VM(vm_unmap)
WRAP_VM(vm_protect)

#define WRAP(name, type)						\
	static int io_##name(struct model_file *f, void *arg)		\
	{								\
		struct type *p = arg;					\
									\
		return model_##name(f, p);				\
	}
WRAP(context_create, simnpu_context)
WRAP(context_destroy, simnpu_handle)
WRAP(mem_create, simnpu_mem)
WRAP(mem_destroy, simnpu_mem_free)
WRAP(mem_register, simnpu_register)
WRAP(mem_window, simnpu_window)
WRAP(queue_create, simnpu_queue)
WRAP(queue_destroy, simnpu_handle)
WRAP(queue_grow, simnpu_grow)
WRAP(queue_errors, simnpu_errors)
WRAP(queue_abort, simnpu_abort)
WRAP(queue_at, simnpu_at)
WRAP(device_stop, simnpu_stop)
WRAP(device_restart, simnpu_stop)
WRAP(poison, simnpu_poison)
WRAP(queue_export, simnpu_export)
WRAP(queue_import, simnpu_import)
WRAP(event_create, simnpu_event)
WRAP(event_destroy, simnpu_handle)
WRAP(module_load, simnpu_module)
WRAP(module_unload, simnpu_handle)
WRAP(kernel_get, simnpu_kernel)
WRAP(callback_next, simnpu_callback)
WRAP(callback_done, simnpu_callback)
WRAP(callback_stop, simnpu_handle)
WRAP(notify, simnpu_notify)
WRAP(copy_ioctl, simnpu_copy)

#define AT(type, field) offsetof(struct type, field)
#define ZERO(...) { __VA_ARGS__, -1 }
#define NONE { -1 }
#define HANDLE ZERO(AT(simnpu_handle, pad))
#define STOP ZERO(AT(simnpu_stop, flags), AT(simnpu_stop, pad))
#define VM_ZERO(...) ZERO(AT(simnpu_vm, pad), __VA_ARGS__)
#define VM_OFFSET AT(simnpu_vm, offset), AT(simnpu_vm, offset) + 4
#define NR(name) _IOC_NR(SIMNPU_IOCTL_##name)
#define ENTRY(name, func, ...) [NR(name)] = { SIMNPU_IOCTL_##name, func, __VA_ARGS__ }

static const struct ioctl_desc ioctls[128] = {
	ENTRY(VERSION, io_version, NONE),
	ENTRY(INFO, io_info, NONE),
	ENTRY(TIME, io_time, NONE),
	ENTRY(CONTEXT_CREATE, io_context_create,
	      ZERO(AT(simnpu_context, flags), AT(simnpu_context, pad))),
	ENTRY(CONTEXT_DESTROY, io_context_destroy, HANDLE),
	ENTRY(MEM_CREATE, io_mem_create, NONE),
	ENTRY(MEM_DESTROY, io_mem_destroy, ZERO(AT(simnpu_mem_free, flags))),
	ENTRY(MEM_REGISTER, io_mem_register, ZERO(AT(simnpu_register, flags))),
	ENTRY(MEM_WINDOW, io_mem_window, ZERO(AT(simnpu_window, pad))),
	ENTRY(MEM_EXPORT, io_mem_export, ZERO(AT(simnpu_export, flags), AT(simnpu_export, pad))),
	ENTRY(MEM_IMPORT, io_mem_import, NONE),
	ENTRY(VM_RESERVE, io_vm_reserve, VM_ZERO(AT(simnpu_vm, flags), AT(simnpu_vm, handle))),
	ENTRY(VM_RELEASE, io_vm_release,
	      VM_ZERO(VM_OFFSET, AT(simnpu_vm, flags), AT(simnpu_vm, handle))),
	ENTRY(VM_MAP, io_vm_map, VM_ZERO(VM_OFFSET)),
	ENTRY(VM_UNMAP, io_vm_unmap,
	      VM_ZERO(VM_OFFSET, AT(simnpu_vm, flags), AT(simnpu_vm, handle))),
	ENTRY(VM_PROTECT, io_vm_protect, VM_ZERO(VM_OFFSET, AT(simnpu_vm, handle))),
	ENTRY(COPY, io_copy_ioctl, NONE),
	ENTRY(QUEUE_CREATE, io_queue_create, ZERO(AT(simnpu_queue, pad))),
	ENTRY(QUEUE_DESTROY, io_queue_destroy, HANDLE),
	ENTRY(QUEUE_GROW, io_queue_grow, NONE),
	ENTRY(NOTIFY, io_notify, NONE),
	ENTRY(QUEUE_ERRORS, io_queue_errors, ZERO(AT(simnpu_errors, pad))),
	ENTRY(QUEUE_ABORT, io_queue_abort, ZERO(AT(simnpu_abort, flags))),
	ENTRY(QUEUE_AT, io_queue_at, ZERO(AT(simnpu_at, pad))),
	ENTRY(QUEUE_EXPORT, io_queue_export,
	      ZERO(AT(simnpu_export, flags), AT(simnpu_export, pad), AT(simnpu_export, to_slot),
		   AT(simnpu_export, share))),
	ENTRY(QUEUE_IMPORT, io_queue_import,
	      ZERO(AT(simnpu_import, flags), AT(simnpu_import, share),
		   AT(simnpu_import, owner_slot))),
	ENTRY(EVENT_CREATE, io_event_create,
	      ZERO(AT(simnpu_event, flags), AT(simnpu_event, pad))),
	ENTRY(EVENT_DESTROY, io_event_destroy, HANDLE),
	ENTRY(MODULE_LOAD, io_module_load, ZERO(AT(simnpu_module, pad))),
	ENTRY(MODULE_UNLOAD, io_module_unload, HANDLE),
	ENTRY(KERNEL_GET, io_kernel_get, NONE),
	ENTRY(CALLBACK_NEXT, io_callback_next, ZERO(AT(simnpu_callback, code))),
	ENTRY(CALLBACK_DONE, io_callback_done,
	      ZERO(AT(simnpu_callback, fn), AT(simnpu_callback, fn) + 4, AT(simnpu_callback, arg),
		   AT(simnpu_callback, arg) + 4, AT(simnpu_callback, flags))),
	ENTRY(CALLBACK_STOP, io_callback_stop, HANDLE),
	ENTRY(DEVICE_STOP, io_device_stop, STOP),
	ENTRY(DEVICE_RESTART, io_device_restart, STOP),
	ENTRY(POISON, io_poison, ZERO(AT(simnpu_poison, pad))),
};

/* The caller's structure, as long as ours: filled up with zeros, or zero behind ours. */
static int arg_in(void *to, size_t ours, uint64_t from, size_t theirs)
{
	unsigned char rest[ARG_MAX_SIZE];
	size_t n = theirs < ours ? theirs : ours, step, i;
	int rc;

	memset(to, 0, ours);
	rc = model_copy_in(to, from, n);
	for (; !rc && n < theirs; n += step) {
		step = theirs - n < sizeof(rest) ? theirs - n : sizeof(rest);
		rc = model_copy_in(rest, from + n, step);
		for (i = 0; !rc && i < step; i++)
			if (rest[i])
				rc = -EINVAL;
	}
	return rc;
}

/* The answer; what the caller's structure has behind ours is filled with zeros. */
static int arg_out(uint64_t to, const void *from, size_t ours, size_t theirs)
{
	static const unsigned char zeros[ARG_MAX_SIZE];
	size_t n = theirs < ours ? theirs : ours, step;
	int rc = model_copy_out(to, from, n);

	for (; !rc && n < theirs; n += step) {
		step = theirs - n < sizeof(zeros) ? theirs - n : sizeof(zeros);
		rc = model_copy_out(to + n, zeros, step);
	}
	return rc;
}

static bool zeros_ok(const struct ioctl_desc *d, const void *arg)
{
	uint32_t word;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(d->zero) && d->zero[i] >= 0; i++) {
		memcpy(&word, (const char *)arg + d->zero[i], sizeof(word));
		if (word)
			return false;
	}
	return true;
}

static int ioctl_any(struct model_file *f, unsigned long request, uint64_t arg)
{
	_Alignas(16) unsigned char buf[ARG_MAX_SIZE];
	const struct ioctl_desc *d = &ioctls[_IOC_NR(request) & 127];
	size_t theirs = _IOC_SIZE(request), ours = _IOC_SIZE(d->request);
	int rc;

	if (!d->fn || _IOC_TYPE(request) != SIMNPU_IOC || _IOC_NR(request) > 127 ||
	    _IOC_DIR(request) != _IOC_DIR(d->request))
		return -ENOTTY;
	model_count(ioctls[_IOC_NR(request)]);
	memset(buf, 0, ours);
	if (_IOC_DIR(request) & _IOC_WRITE) {
		rc = arg_in(buf, ours, arg, theirs);
		if (rc)
			return rc;
		if (!zeros_ok(d, buf))
			return -EINVAL;
	}
	/* nothing may change when the answer can't be given */
	if (_IOC_DIR(request) & _IOC_READ) {
		rc = arg_out(arg, buf, ours, theirs);
		if (rc)
			return rc;
	}
	rc = d->fn(f, buf);
	if (!rc && _IOC_DIR(request) & _IOC_READ)
		rc = arg_out(arg, buf, ours, theirs);
	return rc;
}

/* What is rung and waited for all the time: a look at the address has to do. */
static bool address_ok(const void *arg)
{
	return (uintptr_t)arg >= MODEL_PAGE && (intptr_t)(uintptr_t)arg > 0;
}

static int ioctl_kick(struct model_file *f, const void *arg)
{
	struct model_queue *q;
	struct simnpu_kick k;

	if (!address_ok(arg))
		return -EFAULT;
	memcpy(&k, arg, sizeof(k));
	if (k.flags)
		return -EINVAL;
	q = model_queue_find(&f->table, k.queue);
	return q ? model_kick(q) : -ENOENT;
}

static int ioctl_wait(struct model_file *f, const void *arg)
{
	struct simnpu_wait w;

	if (!address_ok(arg))
		return -EFAULT;
	memcpy(&w, arg, sizeof(w));
	return model_wait(f, &w);
}

static int ioctl_copy(struct model_file *f, const void *arg)
{
	struct simnpu_copy c;

	if (!address_ok(arg))
		return -EFAULT;
	memcpy(&c, arg, sizeof(c));
	return model_copy_ioctl(f, &c);
}

static int ioctl_slow(struct model_file *f, unsigned long request, void *arg)
{
	unsigned char buf[sizeof(struct simnpu_wait)];
	int rc;

	/* KICK and WAIT in another size than today's */
	switch (_IOC_TYPE(request) == SIMNPU_IOC && _IOC_DIR(request) == _IOC_WRITE ?
		_IOC_NR(request) : ~0u) {
	case _IOC_NR(SIMNPU_IOCTL_KICK):
		rc = arg_in(buf, sizeof(struct simnpu_kick), (uintptr_t)arg, _IOC_SIZE(request));
		return rc ? rc : ioctl_kick(f, buf);
	case _IOC_NR(SIMNPU_IOCTL_WAIT):
		rc = arg_in(buf, sizeof(struct simnpu_wait), (uintptr_t)arg, _IOC_SIZE(request));
		return rc ? rc : ioctl_wait(f, buf);
	default:
		return ioctl_any(f, request, (uintptr_t)arg);
	}
}

static inline int dispatch(struct model_file *f, unsigned long request, void *arg)
{
	if (request == SIMNPU_IOCTL_WAIT)
		return ioctl_wait(f, arg);
	if (request == SIMNPU_IOCTL_KICK)
		return ioctl_kick(f, arg);
	if (request == SIMNPU_IOCTL_COPY)
		return ioctl_copy(f, arg);
	return ioctl_slow(f, request, arg);
}

/* What works whatever the state of the device, and what at least while it is not lost. */
static const uint8_t in_any_state[] = {
	NR(VERSION), NR(INFO), NR(POISON), NR(QUEUE_AT), NR(QUEUE_ERRORS), NR(WAIT),
	NR(CONTEXT_DESTROY), NR(MEM_DESTROY), NR(QUEUE_DESTROY), NR(EVENT_DESTROY),
	NR(VM_RELEASE), NR(VM_UNMAP), NR(MODULE_UNLOAD), NR(CALLBACK_NEXT), NR(CALLBACK_DONE),
	NR(CALLBACK_STOP),
};
static const uint8_t unless_lost[] = {
	NR(TIME), NR(QUEUE_ABORT), NR(DEVICE_STOP), NR(DEVICE_RESTART), NR(MEM_WINDOW),
};

/* What a device in that state answers before it looks at the rest: 0 or a negative errno. */
static int state_refuse(const struct model_device *dev, unsigned int nr)
{
	int rc = model_state_refuse(dev);

	if (!rc || memchr(in_any_state, (int)nr, sizeof(in_any_state)) ||
	    (!ioctls[nr].request && nr != NR(KICK)))
		return 0;
	return rc != -ENODEV && memchr(unless_lost, (int)nr, sizeof(unless_lost)) ? 0 : rc;
}

/* With rules about what is to go wrong. */
static int ioctl_ruled(struct model_file *f, unsigned long request, void *arg)
{
	struct model_verdict v = { .changed = atomic_load(&f->dev->changed) };
	unsigned int nr = _IOC_NR(request);
	int rc = state_refuse(f->dev, nr);

	if (!rc)
		rc = -model_fault((int)(SIMNPU_FAIL_IOCTL + nr));
	if (rc)
		return rc;
	if (model_rules_ioctl(f->dev, nr, &v))
		rc = model_act_before(f->dev, &v);
	if (!rc)
		rc = state_refuse(f->dev, nr);
	if (!rc)
		rc = dispatch(f, request, arg);
	model_act_after(&v);
	return rc;
}

/* No node, the child of a fork, a device in another state than OK, or something is to fail. */
static __attribute__((noinline)) int ioctl_odd(struct model_file *f, unsigned long request,
					       void *arg)
{
	unsigned int nr = _IOC_NR(request);
	int rc;

	if (!f)
		return -EBADF;
	if (model_forked())
		return -ENODEV;
	if (_IOC_TYPE(request) != SIMNPU_IOC || nr >= ARRAY_SIZE(ioctls))
		return dispatch(f, request, arg);
	if (hal_load_relaxed(&model_odd) & MODEL_ODD_FAULTS)
		return ioctl_ruled(f, request, arg);
	rc = state_refuse(f->dev, nr);
	return rc ? rc : dispatch(f, request, arg);
}

/**
 * model_ioctl() - ioctl(2) on a node
 * @fd: the descriptor
 * @request: the number
 * @arg: the structure
 *
 * Return: 0, or -1 with errno.
 */
int model_ioctl(int fd, unsigned long request, void *arg)
{
	struct model_file *f = model_file_of(fd);
	int rc;

	if (unlikely(!f || hal_load_relaxed(&model_odd)))
		rc = ioctl_odd(f, request, arg);
	else
		rc = dispatch(f, request, arg);
	if (likely(!rc))
		return 0;
	errno = -rc;
	return -1;
}
