// SPDX-License-Identifier: MIT
/*
 * The boundary of the simulated device against any byte string: the string is a
 * programme of opens, ioctls, mappings and writes to shared memory. Whatever it does, the
 * device neither crashes nor hangs, and when all is closed, it holds nothing.
 *
 * An ioctl's structure is one that would be right, edited; or no more than bytes. The
 * submitter's own memory is what it answers for itself: addresses that a copy is to
 * read or write on the host are moved into a buffer, and deadlines are short.
 *
 * Built with libFuzzer by "make fuzz"; linked into ioctl_replay_test, too.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/simnpu/model/simnpu_model.h"
#include "drivers/simnpu/simnpu_test.h"
#include "hal/base.h"
#include "hal/option.h"
#include "selftests/fuzz/ioctl_fuzz.h"

#define NODES 2
#define OPS_MAX 400

struct fuzz_state z;
char *buf;
int efd = -1;

/* ---- what there is to use ------------------------------------------------------------ */

static void add_handle(uint32_t h)
{
	z.handle[z.handles++ % POOL] = h;
}

static void add_addr(uint64_t a)
{
	z.addr[z.addrs++ % POOL] = a;
}

static int some_file(void)
{
	return z.fd[fuzz_u8(&z.in) % FILES];
}

/* ---- ioctls -------------------------------------------------------------------------- */

static const unsigned long requests[] = {
	SIMNPU_IOCTL_VERSION, SIMNPU_IOCTL_INFO, SIMNPU_IOCTL_TIME, SIMNPU_IOCTL_CONTEXT_CREATE,
	SIMNPU_IOCTL_CONTEXT_DESTROY, SIMNPU_IOCTL_MEM_CREATE, SIMNPU_IOCTL_MEM_DESTROY,
	SIMNPU_IOCTL_MEM_REGISTER, SIMNPU_IOCTL_MEM_WINDOW, SIMNPU_IOCTL_MEM_EXPORT,
	SIMNPU_IOCTL_MEM_IMPORT, SIMNPU_IOCTL_VM_RESERVE, SIMNPU_IOCTL_VM_RELEASE,
	SIMNPU_IOCTL_VM_MAP, SIMNPU_IOCTL_VM_UNMAP, SIMNPU_IOCTL_VM_PROTECT, SIMNPU_IOCTL_COPY,
	SIMNPU_IOCTL_QUEUE_CREATE, SIMNPU_IOCTL_QUEUE_DESTROY, SIMNPU_IOCTL_QUEUE_GROW,
	SIMNPU_IOCTL_KICK, SIMNPU_IOCTL_WAIT, SIMNPU_IOCTL_NOTIFY, SIMNPU_IOCTL_QUEUE_ERRORS,
	SIMNPU_IOCTL_QUEUE_ABORT, SIMNPU_IOCTL_QUEUE_EXPORT, SIMNPU_IOCTL_QUEUE_IMPORT,
	SIMNPU_IOCTL_EVENT_CREATE, SIMNPU_IOCTL_EVENT_DESTROY, SIMNPU_IOCTL_MODULE_LOAD,
	SIMNPU_IOCTL_MODULE_UNLOAD, SIMNPU_IOCTL_KERNEL_GET, SIMNPU_IOCTL_CALLBACK_NEXT,
	SIMNPU_IOCTL_CALLBACK_DONE, SIMNPU_IOCTL_CALLBACK_STOP, SIMNPU_IOCTL_DEVICE_STOP,
	SIMNPU_IOCTL_DEVICE_RESTART, SIMNPU_IOCTL_POISON,
};

static void add_segment(int fd, uint32_t queue, uint64_t ring, uint32_t slots, uint64_t seq,
			struct simnpu_queue_header *header)
{
	struct segment *s = &z.seg[z.segs % SEGMENTS];

	if (!z.arena || fd != z.arena_fd)
		return;
	*s = (struct segment){ z.arena + ring, header, slots, 0, seq, queue, fd };
	z.segs++;
}

static void learn_context(int fd, const struct simnpu_context *c)
{
	void *p = simnpu_model_sys.mmap(NULL, c->arena_size, PROT_READ | PROT_WRITE, MAP_SHARED,
					fd, (off_t)SIMNPU_MMAP_ARENA(c->context));

	if (p == MAP_FAILED)
		return;
	z.context = c->context;
	z.arena = p;
	z.arena_fd = fd;
	z.arena_of = c->context;
}

/* What an ioctl that succeeded has made is there to be used. */
static void learn(int fd, unsigned long request, const void *arg)
{
	const struct simnpu_queue *q = arg;
	const struct simnpu_mem *m = arg;
	const struct simnpu_grow *g = arg;
	uint32_t i;

	switch (request) {
	case SIMNPU_IOCTL_CONTEXT_CREATE:
		learn_context(fd, arg);
		add_handle(((const struct simnpu_context *)arg)->context);
		break;
	case SIMNPU_IOCTL_MEM_CREATE:
		add_handle(m->handle);
		add_addr(m->addr);
		if (m->map)
			z.map = m->map;
		break;
	case SIMNPU_IOCTL_VM_RESERVE:
		add_addr(((const struct simnpu_vm *)arg)->addr);
		break;
	case SIMNPU_IOCTL_QUEUE_CREATE:
		add_handle(q->handle);
		if (q->context == z.arena_of)
			add_segment(fd, q->handle, q->ring, q->slots, q->first_seq,
				    (void *)(z.arena + q->header));
		break;
	case SIMNPU_IOCTL_QUEUE_GROW:
		for (i = 0; i < SEGMENTS && i < z.segs; i++)
			if (z.seg[i].queue == g->queue && z.seg[i].fd == fd)
				break;
		if (i < SEGMENTS && i < z.segs)
			add_segment(fd, g->queue, g->ring, g->slots, z.seg[i].seq,
				    z.seg[i].header);
		break;
	case SIMNPU_IOCTL_MEM_REGISTER:
		add_handle(((const struct simnpu_register *)arg)->handle);
		break;
	case SIMNPU_IOCTL_EVENT_CREATE:
		add_handle(((const struct simnpu_event *)arg)->handle);
		break;
	case SIMNPU_IOCTL_MODULE_LOAD:
		add_handle(((const struct simnpu_module *)arg)->handle);
		break;
	case SIMNPU_IOCTL_QUEUE_IMPORT:
		add_handle(((const struct simnpu_import *)arg)->handle);
		break;
	case SIMNPU_IOCTL_KERNEL_GET:
		z.kernel = ((const struct simnpu_kernel *)arg)->kernel;
		break;
	case SIMNPU_IOCTL_QUEUE_EXPORT:
		if (z.exported >= 0)
			simnpu_model_sys.close(z.exported);
		z.exported = ((const struct simnpu_export *)arg)->fd;
		break;
	case SIMNPU_IOCTL_INFO:
		add_addr(((const struct simnpu_info *)arg)->va_start);
		break;
	}
}

static void do_ioctl(bool raw)
{
	_Alignas(16) char arg[ARG_SIZE + 8] = { 0 };
	unsigned long request = requests[fuzz_u8(&z.in) % ARRAY_SIZE(requests)];
	uint32_t size = fuzz_u16(&z.in);
	int fd = some_file(), rc;

	if (raw) {
		request = _IOC(size >> 14, SIMNPU_IOC, fuzz_u8(&z.in), size % (ARG_SIZE + 1));
		fuzz_bytes(&z.in, arg, ARG_SIZE);
	} else {
		sensible(request, arg);
		edit(arg, _IOC_SIZE(request));
		if (size & 0x8000)	/* shorter, or longer */
			request = _IOC(_IOC_DIR(request), SIMNPU_IOC, _IOC_NR(request),
				       size % (ARG_SIZE + 1));
	}
	tame(_IOC_NR(request), arg);
	rc = simnpu_model_sys.ioctl(fd, request, fuzz_u8(&z.in) == 0xff ? NULL : arg);
	if (!rc && !raw && !(size & 0x8000))
		learn(fd, request, arg);
}

/* ---- shared memory -------------------------------------------------------------------- */

/* The seq last. The device may read all of it meanwhile: that is a race, by intent. */
HAL_NO_TSAN __attribute__((noinline))
static void write_desc(struct simnpu_desc *to, const struct simnpu_desc *d, uint64_t seq)
{
	const uint64_t *from = (const uint64_t *)d;
	volatile uint64_t *word = (uint64_t *)to;
	size_t i;

	for (i = 1; i < sizeof(*d) / sizeof(*word); i++)
		word[i] = from[i];
	hal_shm_store_release(&to->seq, seq);
}

static void write_slot(struct segment *s, uint32_t pos, struct simnpu_desc *d, uint64_t seq)
{
	struct simnpu_desc *to = (struct simnpu_desc *)s->at + pos;

	tame_desc(d, to);
	write_desc(to, d, seq);
}

static struct segment *some_segment(void)
{
	uint32_t n = z.segs < SEGMENTS ? z.segs : SEGMENTS;

	return &z.seg[n ? fuzz_u8(&z.in) % n : 0];
}

/* A task that is right, edited, where the device looks for the next one; and the doorbell. */
static void do_task(void)
{
	struct segment *s = some_segment();
	struct simnpu_desc d = { .op = fuzz_u8(&z.in) % 12 };
	struct simnpu_kick k = { .queue = s->queue };

	if (!s->at)
		return;
	sensible_task(&d, s->slots, U64(s->at - z.arena));
	edit((char *)&d, sizeof(d));
	write_slot(s, s->pos, &d, d.op == SIMNPU_OP_LINK ? s->seq | SIMNPU_SEQ_LINK : s->seq);
	if (d.op == SIMNPU_OP_LINK) {
		s->pos = 0;
	} else {
		s->pos = (s->pos + 1 + d.slots) % s->slots;
		s->seq++;
	}
	simnpu_model_sys.ioctl(s->fd, SIMNPU_IOCTL_KICK, &k);
}

/* Any slot, anything in it. */
static void do_slot(void)
{
	struct segment *s = some_segment();
	struct simnpu_desc d;

	if (!s->at)
		return;
	fuzz_bytes(&z.in, &d, sizeof(d));
	write_slot(s, fuzz_u16(&z.in) % s->slots, &d, d.seq);
}

/* What the device writes, and need not find again. */
static void do_header(void)
{
	struct segment *s = some_segment();
	uint64_t v = fuzz_u64(&z.in);

	if (!s->at)
		return;
	switch (fuzz_u8(&z.in) % 3) {
	case 0:
		hal_shm_store_relaxed(&s->header->timeline, v);
		break;
	case 1:
		hal_shm_store_relaxed(&s->header->consumed, v);
		break;
	default:
		hal_shm_store_relaxed(&s->header->doorbell, (uint32_t)v);
	}
}

static void do_map(void)
{
	uint64_t offset = fuzz_u8(&z.in) & 1 ? z.map : fuzz_u64(&z.in);
	size_t size = fuzz_u16(&z.in);
	void *p = simnpu_model_sys.mmap(NULL, size, PROT_READ | PROT_WRITE,
					fuzz_u8(&z.in) % 16 ? MAP_SHARED : MAP_PRIVATE,
					some_file(), (off_t)offset);

	if (p != MAP_FAILED)
		simnpu_model_sys.munmap(p, size);
}

/* ---- files ------------------------------------------------------------------------------ */

static void file_close(uint32_t i)
{
	uint32_t k;

	if (z.fd[i] < 0)
		return;
	simnpu_model_sys.close(z.fd[i]);
	for (k = 0; k < SEGMENTS; k++)
		if (z.seg[k].fd == z.fd[i])
			z.seg[k].at = NULL;
	if (z.arena_fd == z.fd[i])
		z.arena = NULL;
	z.fd[i] = -1;
}

static void do_open(void)
{
	uint32_t i = fuzz_u8(&z.in) % FILES;
	char path[32];

	file_close(i);
	snprintf(path, sizeof(path), SIMNPU_NODE_PREFIX "%u", fuzz_u8(&z.in) % (NODES + 1));
	z.fd[i] = simnpu_model_sys.open(path, O_RDWR, 0);
}

static void step(void)
{
	switch (fuzz_u8(&z.in) % 16) {
	case 0:
		do_open();
		break;
	case 1:
		if (fuzz_u8(&z.in) % 8 == 0)
			file_close(fuzz_u8(&z.in) % FILES);
		break;
	case 2:
		do_ioctl(true);
		break;
	case 3:
		do_slot();
		break;
	case 4:
		do_header();
		break;
	case 5:
		do_map();
		break;
	case 6:
	case 7:
	case 8:
		do_task();
		break;
	default:
		do_ioctl(false);
	}
}

/* ---- the whole ---------------------------------------------------------------------------- */

static const char *option(const char *name)
{
	if (!strcmp(name, "simnpu_memory"))
		return "8M";
	if (!strcmp(name, "simnpu_host_budget"))
		return "64M";
	if (!strcmp(name, "simnpu_cores"))
		return "2";
	return strcmp(name, "simnpu_plain_kernels") ? NULL : "1";
}

static void set_up(void)
{
	static const struct hal_option_reader reader = { .text = option };

	hal_option_set_reader(&reader);
	buf = mmap(NULL, BUF_SIZE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (buf == MAP_FAILED || efd < 0 || mprotect(buf + BUF_SIZE, 4096, PROT_NONE))
		abort();
}

/* All is closed: the device holds nothing. */
static void check_nothing_left(void)
{
	struct simnpu_test_device d;
	uint32_t i;

	for (i = 0; i < NODES; i++) {
		if (!simnpu_test_device(i, &d) && !d.contexts && !d.queues && !d.events &&
		    !d.mems && !d.modules && !d.threads && !d.mem_used)
			continue;
		fprintf(stderr, "simnpu%u: %u opens, %u contexts, %u queues, %u events, %u mems, "
			"%u modules, %u threads, %llu bytes are left\n", i, d.opens, d.contexts,
			d.queues, d.events, d.mems, d.modules, d.threads,
			(unsigned long long)d.mem_used);
		abort();
	}
}

static void make(unsigned long request, void *arg)
{
	if (!simnpu_model_sys.ioctl(z.fd[0], request, arg))
		learn(z.fd[0], request, arg);
}

/* What most programmes begin with, so that not every input has to find it. */
static void prelude(void)
{
	struct simnpu_context c = { 0 };
	struct simnpu_module m = { .kind = SIMNPU_MODULE_BUILTIN };
	struct simnpu_kernel k = { .name = U64(buf), .size = 8 };
	struct simnpu_queue q = { .slots = 16, .first_seq = 1 };
	struct simnpu_mem mem = { .size = 8192 };
	struct simnpu_event e = { 0 };
	int i;

	make(SIMNPU_IOCTL_CONTEXT_CREATE, &c);
	mem.context = q.context = m.context = e.context = c.context;
	make(SIMNPU_IOCTL_MEM_CREATE, &mem);
	make(SIMNPU_IOCTL_MODULE_LOAD, &m);
	strcpy(buf, "inc_u64");
	k.module = m.handle;
	make(SIMNPU_IOCTL_KERNEL_GET, &k);
	for (i = 0; i < 2; i++)
		make(SIMNPU_IOCTL_QUEUE_CREATE, &q);
	make(SIMNPU_IOCTL_EVENT_CREATE, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t i;

	if (!buf)
		set_up();
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){ data, size };
	z.exported = -1;
	z.arena_fd = -1;
	for (i = 0; i < FILES; i++)
		z.fd[i] = -1;
	/* the first two are there from the start */
	z.fd[0] = simnpu_model_sys.open(SIMNPU_NODE_PREFIX "0", O_RDWR, 0);
	z.fd[1] = simnpu_model_sys.open(SIMNPU_NODE_PREFIX "1", O_RDWR, 0);
	if (fuzz_u8(&z.in) % 8)
		prelude();
	for (i = 0; i < OPS_MAX && z.in.left; i++)
		step();
	if (z.exported >= 0)
		simnpu_model_sys.close(z.exported);
	for (i = 0; i < FILES; i++)
		file_close(i);
	check_nothing_left();
	return 0;
}
