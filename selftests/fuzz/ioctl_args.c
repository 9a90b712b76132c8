// SPDX-License-Identifier: MIT
/*
 * The arguments of the ioctl fuzz target: right ones, edits, and what the submitter
 * answers for itself.
 */
#include <string.h>

#include "hal/base.h"
#include "hal/sys.h"
#include "selftests/fuzz/ioctl_fuzz.h"

#define SHORT_NS 100000u

/* ---- what there is to use ------------------------------------------------------------ */

uint32_t some_handle(void)
{
	uint32_t n = z.handles < POOL ? z.handles : POOL;

	return n ? z.handle[fuzz_u8(&z.in) % n] : fuzz_u8(&z.in);
}

uint64_t some_addr(void)
{
	uint32_t n = z.addrs < POOL ? z.addrs : POOL, i = fuzz_u8(&z.in);

	switch (i % 8) {
	case 0:
		return U64(buf) + fuzz_u16(&z.in) % BUF_SIZE;
	case 1:
		return U64(buf) + BUF_SIZE;
	case 2:
		return fuzz_u8(&z.in);
	case 3:
		return UINT64_MAX - fuzz_u16(&z.in);
	default:
		return n ? z.addr[i / 8 % n] + (i & 1 ? fuzz_u16(&z.in) : 0) : 1ull << 40;
	}
}

/* ---- the submitter's memory ------------------------------------------------------------ */

/* Host memory that a copy touches lies in the buffer, whole. */
static void tame_rows(__u64 *host, __u64 *pitch, __u64 *width, __u64 *height)
{
	if (*width > 4096)
		*width %= 4097;
	if (*height > 8)
		*height %= 9;
	if (*pitch > 4096)
		*pitch = 4096 + *pitch % 2048;
	*host = U64(buf) + *host % 4096;
}

static void tame_copy(struct simnpu_copy *c)
{
	if (c->kind == SIMNPU_COPY_TO_HOST)
		tame_rows(&c->dst, &c->dst_pitch, &c->width, &c->height);
	else if (c->kind == SIMNPU_COPY_TO_DEVICE)
		tame_rows(&c->src, &c->src_pitch, &c->width, &c->height);
}

/*
 * Any slot may be taken for a task, also while it is written: what a slot may say of the host's
 * memory goes by its place, so that no mixture of old and new says more.
 */
void tame_desc(struct simnpu_desc *d, const struct simnpu_desc *to)
{
	static const uint32_t kinds[8] = { [3] = SIMNPU_COPY_TO_HOST, [7] = SIMNPU_COPY_TO_DEVICE };
	uint32_t kind = kinds[U64(to) / sizeof(*to) % 8];

	if (kind) {
		d->op = SIMNPU_OP_COPY;
		d->copy.kind = kind;
		d->copy.size = 1 + d->copy.size % 4096;
		if (kind == SIMNPU_COPY_TO_HOST)
			d->copy.dst = U64(buf) + d->copy.dst % 4096;
		else
			d->copy.src = U64(buf) + d->copy.src % 4096;
	} else if (d->op == SIMNPU_OP_COPY) {
		d->copy.kind = d->copy.kind == 1 || d->copy.kind == 2 ? 3 : d->copy.kind;
	} else if (d->op == SIMNPU_OP_COPY_2D) {
		d->copy_2d.kind = d->copy_2d.kind == 1 || d->copy_2d.kind == 2 ? 3 :
				  d->copy_2d.kind;
	}
}

/* A deadline of 0 is the device's choice, which may be far. */
static void tame_deadline(__u64 *ns)
{
	uint64_t latest = hal_sys_now() + SHORT_NS;

	if (*ns > latest || !*ns)
		*ns = latest;
}

/* A number of a descriptor is ours, or nobody's. */
static int tame_fd(int fd)
{
	switch (fd & 7) {
	case 0:
		return z.exported;
	case 1:
		return z.fd[0];
	case 2:
		return -1;
	case 3:
		return 1 << 20;
	default:
		return efd;
	}
}

/* Out parameters by address: the buffer, or where nothing can be written. */
static void tame_out(__u64 *addr)
{
	if (*addr >= 4096 && *addr != U64(buf) + BUF_SIZE)
		*addr = U64(buf) + *addr % (BUF_SIZE / 2);
}

/* An image that the loader of the system would look at is not what is tested here. */
static void tame_module(struct simnpu_module *m)
{
	if (m->kind == SIMNPU_MODULE_IMAGE) {
		buf[0] = 0;
		m->data = U64(buf);
		m->size %= BUF_SIZE + 1;
	} else if (m->kind == SIMNPU_MODULE_PATH) {
		strcpy(buf + 8, "/dev/null");
		m->data = U64(buf) + 8;
	}
}

void tame(unsigned long nr, void *arg)
{
	switch (nr) {
	case _IOC_NR(SIMNPU_IOCTL_COPY):
		tame_copy(arg);
		break;
	case _IOC_NR(SIMNPU_IOCTL_WAIT):
		tame_deadline(&((struct simnpu_wait *)arg)->deadline_ns);
		break;
	case _IOC_NR(SIMNPU_IOCTL_CALLBACK_NEXT):
		tame_deadline(&((struct simnpu_callback *)arg)->deadline_ns);
		break;
	case _IOC_NR(SIMNPU_IOCTL_QUEUE_ABORT):
		tame_deadline(&((struct simnpu_abort *)arg)->deadline_ns);
		break;
	case _IOC_NR(SIMNPU_IOCTL_DEVICE_STOP):
	case _IOC_NR(SIMNPU_IOCTL_DEVICE_RESTART):
		tame_deadline(&((struct simnpu_stop *)arg)->deadline_ns);
		break;
	case _IOC_NR(SIMNPU_IOCTL_NOTIFY):
		((struct simnpu_notify *)arg)->fd = tame_fd(((struct simnpu_notify *)arg)->fd);
		break;
	case _IOC_NR(SIMNPU_IOCTL_MEM_IMPORT):
	case _IOC_NR(SIMNPU_IOCTL_QUEUE_IMPORT):
		((struct simnpu_import *)arg)->fd = tame_fd(((struct simnpu_import *)arg)->fd);
		break;
	case _IOC_NR(SIMNPU_IOCTL_QUEUE_ERRORS):
		tame_out(&((struct simnpu_errors *)arg)->list);
		break;
	case _IOC_NR(SIMNPU_IOCTL_MODULE_LOAD):
		tame_module(arg);
		break;
	}
}

/* ---- what is right, and what becomes of it ----------------------------------------------- */

/* Pieces of reservations of four. */
static void sensible_vm(unsigned long request, struct simnpu_vm *v, uint64_t at, uint32_t h)
{
	const uint64_t g = SIMNPU_VM_GRANULARITY;
	uint8_t what = fuzz_u8(&z.in);

	*v = (struct simnpu_vm){ .context = z.context, .size = g };
	if (request == SIMNPU_IOCTL_VM_RESERVE || request == SIMNPU_IOCTL_VM_RELEASE)
		v->size = 4 * g;
	if (request != SIMNPU_IOCTL_VM_RESERVE)
		v->addr = at & ~(g - 1);
	if (request == SIMNPU_IOCTL_VM_MAP || request == SIMNPU_IOCTL_VM_UNMAP ||
	    request == SIMNPU_IOCTL_VM_PROTECT)
		v->addr += (what & 3) * g;
	if (request == SIMNPU_IOCTL_VM_MAP)
		v->handle = h;
	if (request == SIMNPU_IOCTL_VM_MAP || request == SIMNPU_IOCTL_VM_PROTECT)
		v->flags = what & 4 ? SIMNPU_VM_READ : SIMNPU_VM_READ | SIMNPU_VM_WRITE;
}

/* A structure that is right, as far as there is something to name. */
void sensible(unsigned long request, void *arg)
{
	uint32_t h = some_handle();
	uint64_t at = some_addr();
	uint8_t what;

	switch (request) {
	case SIMNPU_IOCTL_MEM_CREATE:
		*(struct simnpu_mem *)arg = (struct simnpu_mem){
			.size = 1 + fuzz_u16(&z.in), .context = z.context,
		};
		what = fuzz_u8(&z.in);
		((struct simnpu_mem *)arg)->flags = what & 1;
		if (what & 2) {
			((struct simnpu_mem *)arg)->flags = SIMNPU_MEM_PHYSICAL;
			((struct simnpu_mem *)arg)->size = SIMNPU_VM_GRANULARITY;
		}
		break;
	case SIMNPU_IOCTL_VM_RESERVE:
	case SIMNPU_IOCTL_VM_RELEASE:
	case SIMNPU_IOCTL_VM_MAP:
	case SIMNPU_IOCTL_VM_UNMAP:
	case SIMNPU_IOCTL_VM_PROTECT:
		sensible_vm(request, arg, at, h);
		break;
	case SIMNPU_IOCTL_MEM_REGISTER:
		*(struct simnpu_register *)arg = (struct simnpu_register){
			.addr = U64(buf), .size = 4096, .context = z.context,
		};
		break;
	case SIMNPU_IOCTL_COPY:
		*(struct simnpu_copy *)arg = (struct simnpu_copy){
			.dst = at, .src = some_addr(), .width = 64, .height = 1, .dst_pitch = 64,
			.src_pitch = 64, .context = z.context, .kind = fuzz_u8(&z.in) % 5,
		};
		break;
	case SIMNPU_IOCTL_QUEUE_CREATE:
		*(struct simnpu_queue *)arg = (struct simnpu_queue){
			.context = z.context, .slots = 16, .first_seq = 1,
			.flags = fuzz_u8(&z.in) & 1,
		};
		break;
	case SIMNPU_IOCTL_QUEUE_GROW:
		*(struct simnpu_grow *)arg = (struct simnpu_grow){ .queue = h, .slots = 32 };
		break;
	case SIMNPU_IOCTL_WAIT:
		*(struct simnpu_wait *)arg = (struct simnpu_wait){
			.seq = fuzz_u8(&z.in), .queue = h, .deadline_ns = UINT64_MAX,
		};
		break;
	case SIMNPU_IOCTL_QUEUE_ERRORS:
		*(struct simnpu_errors *)arg = (struct simnpu_errors){
			.list = U64(buf), .queue = h, .room = 4,
			.entry_size = sizeof(struct simnpu_task_error),
		};
		break;
	case SIMNPU_IOCTL_EVENT_CREATE:
		*(struct simnpu_event *)arg = (struct simnpu_event){ .context = z.context };
		break;
	case SIMNPU_IOCTL_MODULE_LOAD:
		*(struct simnpu_module *)arg = (struct simnpu_module){
			.context = z.context, .kind = SIMNPU_MODULE_BUILTIN,
		};
		break;
	case SIMNPU_IOCTL_KERNEL_GET:
		strcpy(buf, fuzz_u8(&z.in) & 1 ? "inc_u64" : "delay_ns");
		*(struct simnpu_kernel *)arg = (struct simnpu_kernel){
			.name = U64(buf), .size = (uint32_t)strlen(buf) + 1, .module = h,
		};
		break;
	case SIMNPU_IOCTL_CALLBACK_NEXT:
		*(struct simnpu_callback *)arg = (struct simnpu_callback){ .context = z.context };
		break;
	case SIMNPU_IOCTL_CALLBACK_DONE:
		*(struct simnpu_callback *)arg = (struct simnpu_callback){
			.context = z.context, .queue = h, .seq = fuzz_u8(&z.in),
		};
		break;
	case SIMNPU_IOCTL_POISON:
	case SIMNPU_IOCTL_MEM_WINDOW:
		((__u64 *)arg)[0] = at;
		((__u64 *)arg)[1] = 512;
		break;
	case SIMNPU_IOCTL_CONTEXT_CREATE:
	case SIMNPU_IOCTL_VERSION:
	case SIMNPU_IOCTL_INFO:
	case SIMNPU_IOCTL_TIME:
		break;
	default:	/* most begin with a handle */
		*(__u32 *)arg = h;
	}
}

/* Changes some bytes of it. */
void edit(char *arg, size_t size)
{
	uint32_t n = fuzz_u8(&z.in) % 8, at;
	uint64_t v;

	for (n = n > 3 ? 0 : n; n; n--) {
		at = fuzz_u8(&z.in) % (uint32_t)size;
		switch (fuzz_u8(&z.in) % 4) {
		case 0:
			arg[at] = (char)fuzz_u8(&z.in);
			continue;
		case 1:
			v = some_handle();
			at &= ~3u;
			memcpy(arg + at, &v, 4);
			continue;
		case 2:
			v = some_addr();
			break;
		default:
			v = fuzz_u64(&z.in);
		}
		at &= ~7u;
		if (at + 8 <= ARG_SIZE)
			memcpy(arg + at, &v, 8);
	}
}

void sensible_task(struct simnpu_desc *d, uint32_t slots, uint64_t ring)
{
	switch (d->op) {
	case SIMNPU_OP_LINK:
		d->link.ring = ring;
		d->link.slots = slots;
		break;
	case SIMNPU_OP_LAUNCH:
		d->launch.kernel = z.kernel;
		d->launch.blocks = 1 + fuzz_u8(&z.in) % 4;
		d->launch.args_size = fuzz_u8(&z.in) % 25;
		memcpy(d->launch.args, &(uint64_t[]){ some_addr(), 1 }, 16);
		break;
	case SIMNPU_OP_WAIT:
	case SIMNPU_OP_RECORD:
		d->wait.queue = some_handle();
		d->wait.seq = fuzz_u8(&z.in);
		break;
	default:
		d->word[0] = some_addr();
		d->word[1] = some_addr();
		d->word[2] = fuzz_u16(&z.in);
		d->word[3] = fuzz_u8(&z.in) % 5;
	}
}
