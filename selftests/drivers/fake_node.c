// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "selftests/drivers/fake_node.h"

struct fake fake;

void fake_init(void)
{
	pthread_condattr_t attr;

	memset(&fake, 0, sizeof(fake));
	fake.nodes = FAKE_NODES;
	fake.version.major = SIMNPU_ABI_MAJOR;
	fake.info = (struct simnpu_info){
		.caps = SIMNPU_CAP_PRIORITY | SIMNPU_CAP_PEER | SIMNPU_CAP_WINDOW,
		.mem_total = 1ull << 30,
		.mem_free = 1ull << 29,
		.va_start = 1ull << 45,
		.va_size = 1ull << 40,
		.mem_align = 512,
		.cores = 4,
		.max_queues = FAKE_QUEUES,
		.max_events = 9,
		.max_contexts = 3,
		.max_queued = 1u << 20,
		.priorities = 8,
		.args_max = 4096,
		.utilization = 42,
		.part = "fake",
	};
	fake.next_fd = 1;
	fake.next_handle = 100;
	fake.arena = mmap(NULL, FAKE_ARENA, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	fake.arena_used = 4096;
	pthread_mutex_init(&fake.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fake.changed, &attr);
}

void fake_exit(void)
{
	munmap(fake.arena, FAKE_ARENA);
}

uint32_t fake_calls(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < FAKE_NR; i++)
		n += fake.calls[i];
	return n;
}

struct fake_queue *fake_queue_of(uint32_t handle)
{
	uint32_t i;

	for (i = 0; i < FAKE_QUEUES; i++)
		if (fake.queue[i].used && fake.queue[i].handle == handle)
			return &fake.queue[i];
	return NULL;
}

static uint64_t arena_get(size_t size)
{
	uint64_t at = fake.arena_used;

	size = (size + 63) & ~(size_t)63;
	if (at + size > FAKE_ARENA)
		return 0;
	fake.arena_used += size;
	return at;
}

static int fd_new(uint32_t node)
{
	if (fake.next_fd == FAKE_FDS) {
		errno = EMFILE;
		return -1;
	}
	fake.fd_node[fake.next_fd] = node + 1;
	fake.live++;
	return (int)fake.next_fd++;
}

static int fake_open(const char *path, int flags, unsigned int mode)
{
	unsigned int node;

	(void)flags;
	(void)mode;
	if (fake.fail_open) {
		errno = fake.fail_open;
		return -1;
	}
	if (sscanf(path, SIMNPU_NODE_PREFIX "%u", &node) != 1 || node >= fake.nodes) {
		errno = ENOENT;
		return -1;
	}
	if (fake.unplugged >> node & 1) {
		errno = ENODEV;
		return -1;
	}
	return fd_new(node);
}

static int fake_close(int fd)
{
	if (fd <= 0 || (uint32_t)fd >= FAKE_FDS || !fake.fd_node[fd]) {
		errno = EBADF;
		return -1;
	}
	fake.fd_node[fd] = 0;
	fake.live--;
	return 0;
}

static int queue_create(struct simnpu_queue *q)
{
	uint32_t i;

	for (i = 0; i < FAKE_QUEUES && fake.queue[i].used; i++)
		;
	if (i == FAKE_QUEUES)
		return ENOSPC;
	q->handle = fake.next_handle++;
	q->header = arena_get(sizeof(struct simnpu_queue_header));
	q->ring = arena_get(q->slots * sizeof(struct simnpu_desc));
	fake.queue[i] = (struct fake_queue){
		.used = true,
		.handle = q->handle,
		.header = (void *)(fake.arena + q->header),
		.slot = (void *)(fake.arena + q->ring),
		.slots = q->slots,
		.seq = q->first_seq,
	};
	fake.queue[i].header->timeline = q->first_seq - 1;
	fake.live++;
	return 0;
}

static int queue_destroy(const struct simnpu_handle *h)
{
	struct fake_queue *q = fake_queue_of(h->handle);

	/* an import has no ring here */
	if (q)
		q->used = false;
	fake.live--;
	return 0;
}

static int queue_grow(struct simnpu_grow *g)
{
	g->ring = arena_get(g->slots * sizeof(struct simnpu_desc));
	return g->ring ? 0 : ENOMEM;
}

static int queue_errors(struct simnpu_errors *e)
{
	e->count = e->room < fake.error_count ? e->room : fake.error_count;
	e->dropped = fake.error_dropped;
	memcpy((void *)(uintptr_t)e->list, fake.errors, e->count * sizeof(fake.errors[0]));
	fake.error_count -= e->count;
	memmove(fake.errors, fake.errors + e->count, fake.error_count * sizeof(fake.errors[0]));
	fake.error_dropped = 0;
	return 0;
}

static int callback_next(struct simnpu_callback *c)
{
	int err = 0;

	pthread_mutex_lock(&fake.lock);
	while (!fake.callback_count && !fake.stopped)
		pthread_cond_wait(&fake.changed, &fake.lock);
	if (fake.stopped) {
		err = ECANCELED;
	} else {
		fake.callback_count = 0;
		c->queue = fake.callback.queue;
		c->seq = fake.callback.seq;
		c->fn = fake.callback.fn;
		c->arg = fake.callback.arg;
		c->flags = fake.callback.flags;
	}
	pthread_mutex_unlock(&fake.lock);
	return err;
}

static int callback_stop(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.stopped = true;
	pthread_cond_broadcast(&fake.changed);
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static int mem_create(struct simnpu_mem *m)
{
	m->handle = fake.next_handle++;
	if (m->flags & SIMNPU_MEM_HOST)
		m->map = 4096;
	else
		m->addr = fake.info.va_start;
	fake.live++;
	return 0;
}

/* What only makes or ends something: a handle, or nothing. */
static int simple(unsigned long request, void *arg)
{
	switch (request) {
	case SIMNPU_IOCTL_CONTEXT_DESTROY:
	case SIMNPU_IOCTL_MEM_DESTROY:
	case SIMNPU_IOCTL_EVENT_DESTROY:
	case SIMNPU_IOCTL_MODULE_UNLOAD:
		fake.live--;
		return 0;
	case SIMNPU_IOCTL_MEM_REGISTER:
		((struct simnpu_register *)arg)->handle = fake.next_handle++;
		fake.live++;
		return 0;
	case SIMNPU_IOCTL_MODULE_LOAD:
		((struct simnpu_module *)arg)->handle = fake.next_handle++;
		fake.live++;
		return 0;
	case SIMNPU_IOCTL_EVENT_CREATE:
		((struct simnpu_event *)arg)->handle = fake.next_handle++;
		((struct simnpu_event *)arg)->stamp = arena_get(8);
		fake.live++;
		return 0;
	case SIMNPU_IOCTL_KERNEL_GET:
		((struct simnpu_kernel *)arg)->kernel = FAKE_KERNEL;
		return 0;
	case SIMNPU_IOCTL_MEM_WINDOW:
		((struct simnpu_window *)arg)->host = 0x5000;
		return 0;
	case SIMNPU_IOCTL_TIME:
		((struct simnpu_time *)arg)->device_ns = 77;
		return 0;
	case SIMNPU_IOCTL_KICK:
	case SIMNPU_IOCTL_WAIT:
	case SIMNPU_IOCTL_NOTIFY:
	case SIMNPU_IOCTL_COPY:
	case SIMNPU_IOCTL_CALLBACK_DONE:
	case SIMNPU_IOCTL_QUEUE_ABORT:
	case SIMNPU_IOCTL_DEVICE_STOP:
	case SIMNPU_IOCTL_DEVICE_RESTART:
		return 0;
	case SIMNPU_IOCTL_QUEUE_AT:
		((struct simnpu_at *)arg)->seq = fake.at.seq;
		((struct simnpu_at *)arg)->cookie = fake.at.cookie;
		((struct simnpu_at *)arg)->op = fake.at.op;
		((struct simnpu_at *)arg)->tag = fake.at.tag;
		return fake.at.seq ? 0 : ENODATA;
	default:
		return ENOTTY;
	}
}

static int poison(struct simnpu_poison *p)
{
	p->addr = 4096ull * p->index;
	p->size = 64;
	return p->index < fake.poison_count ? 0 : ENOENT;
}

static int perform(int fd, unsigned long request, void *arg)
{
	struct simnpu_context *ctx = arg;
	int made;

	switch (request) {
	case SIMNPU_IOCTL_VERSION:
		*(struct simnpu_version *)arg = fake.version;
		return 0;
	case SIMNPU_IOCTL_INFO:
		*(struct simnpu_info *)arg = fake.info;
		return 0;
	case SIMNPU_IOCTL_CONTEXT_CREATE:
		ctx->context = fake.next_handle++;
		ctx->arena_size = FAKE_ARENA;
		ctx->result = fake.context_result;
		fake.live++;
		return 0;
	case SIMNPU_IOCTL_MEM_CREATE:
		return mem_create(arg);
	case SIMNPU_IOCTL_QUEUE_CREATE:
		return queue_create(arg);
	case SIMNPU_IOCTL_QUEUE_DESTROY:
		return queue_destroy(arg);
	case SIMNPU_IOCTL_QUEUE_GROW:
		return queue_grow(arg);
	case SIMNPU_IOCTL_QUEUE_ERRORS:
		return queue_errors(arg);
	case SIMNPU_IOCTL_QUEUE_EXPORT:
		made = fd_new(fake.fd_node[fd] - 1);
		((struct simnpu_export *)arg)->fd = made;
		return made < 0 ? EMFILE : 0;
	case SIMNPU_IOCTL_QUEUE_IMPORT:
		((struct simnpu_import *)arg)->handle = fake.next_handle++;
		fake.live++;
		return 0;
	case SIMNPU_IOCTL_POISON:
		return poison(arg);
	case SIMNPU_IOCTL_CALLBACK_NEXT:
		return callback_next(arg);
	case SIMNPU_IOCTL_CALLBACK_STOP:
		return callback_stop();
	default:
		return simple(request, arg);
	}
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	unsigned int nr = _IOC_NR(request);
	int err;

	__atomic_fetch_add(&fake.calls[nr], 1, __ATOMIC_SEQ_CST);
	if (fd <= 0 || (uint32_t)fd >= FAKE_FDS || !fake.fd_node[fd])
		err = EBADF;
	else
		err = fake.fail[nr] ? fake.fail[nr] : perform(fd, request, arg);
	/* who waits for the count finds the argument */
	pthread_mutex_lock(&fake.lock);
	memcpy(fake.arg[nr], arg, _IOC_SIZE(request) < sizeof(fake.arg[nr]) ?
				  _IOC_SIZE(request) : sizeof(fake.arg[nr]));
	if (!err && request == SIMNPU_IOCTL_CALLBACK_DONE) {
		fake.done_count++;
		pthread_cond_broadcast(&fake.changed);
	}
	pthread_mutex_unlock(&fake.lock);
	errno = err;
	return err ? -1 : 0;
}

static void *fake_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	(void)addr;
	(void)size;
	(void)prot;
	(void)flags;
	(void)fd;
	if (!fake.fail_mmap)
		return fake.arena + (offset == 4096 ? 4096 : 0);
	errno = fake.fail_mmap;
	return MAP_FAILED;
}

static int fake_munmap(void *addr, size_t size)
{
	(void)addr;
	(void)size;
	return 0;
}

const struct hal_sys_ops fake_sys = {
	.open = fake_open,
	.close = fake_close,
	.ioctl = fake_ioctl,
	.mmap = fake_mmap,
	.munmap = fake_munmap,
};

static void consume(struct fake_queue *q, uint32_t n)
{
	q->pos += n;
	q->consumed += n;
	__atomic_store_n(&q->header->consumed, q->consumed, __ATOMIC_RELEASE);
}

int fake_take(struct fake_queue *q, struct simnpu_desc task[65])
{
	const struct simnpu_desc *d = &q->slot[q->pos];
	uint64_t seq = __atomic_load_n(&d->seq, __ATOMIC_ACQUIRE);

	while (seq == (q->seq | SIMNPU_SEQ_LINK)) {
		if (d->op != SIMNPU_OP_LINK || d->slots || d->link.ring + d->link.slots * 64ull >
		    fake.arena_used)
			return -1;
		consume(q, 1);
		q->slot = (void *)(fake.arena + d->link.ring);
		q->slots = d->link.slots;
		q->pos = 0;
		q->links++;
		d = q->slot;
		seq = __atomic_load_n(&d->seq, __ATOMIC_ACQUIRE);
	}
	if (seq != q->seq)
		return 0;
	/* the last slot of a segment is for a link */
	if (d->op == SIMNPU_OP_LINK || q->pos + 1u + d->slots >= q->slots)
		return -1;
	memcpy(task, d, (1u + d->slots) * sizeof(*d));
	q->seq++;
	consume(q, 1u + d->slots);
	return 1;
}

void fake_complete(struct fake_queue *q)
{
	__atomic_store_n(&q->header->timeline, q->seq - 1, __ATOMIC_RELEASE);
}
