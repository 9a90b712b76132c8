// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of the simulated device: limits, budget, strictness, what a kernel may
 * reach, copies and fills.
 */
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "selftests/drivers/simnpu_ring.h"
#include "selftests/fakes/sys.h"
#include "selftests/npu_kselftest.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Options of the tests, by name. */
static const char *opt_memory, *opt_budget, *opt_strict, *opt_part, *opt_cores;

static const char *option_text(const char *name)
{
	if (!strcmp(name, "simnpu_memory"))
		return opt_memory;
	if (!strcmp(name, "simnpu_host_budget"))
		return opt_budget;
	if (!strcmp(name, "simnpu_strict"))
		return opt_strict;
	if (!strcmp(name, "simnpu_part"))
		return opt_part;
	return strcmp(name, "simnpu_cores") ? NULL : opt_cores;
}

static const struct hal_option_reader reader = { .text = option_text };

FIXTURE(memory)
{
	struct ctx c;
	struct ring r;
};

FIXTURE_VARIANT(memory)
{
	const char *strict;
};

FIXTURE_VARIANT_ADD(memory, strict) { .strict = "1" };
FIXTURE_VARIANT_ADD(memory, plain) { .strict = "0" };

FIXTURE_SETUP(memory)
{
	opt_strict = variant->strict;
	opt_memory = "64M";
	hal_option_set_reader(&reader);
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
}

FIXTURE_TEARDOWN(memory)
{
	struct simnpu_test_device d;

	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_FALSE(simnpu_test_device(0, &d));
	EXPECT_EQ(0, d.mem_used);
	hal_option_set_reader(NULL);
}

static uint64_t mem_free(struct ctx *c)
{
	struct simnpu_info i = { 0 };

	io(c->fd, INFO, &i);
	return i.mem_free;
}

/* ---- limits ---- */

TEST_F(memory, the_limit_is_exact)
{
	uint32_t h[64], extra;
	int n = 0;

	EXPECT_EQ(64 * MIB, mem_free(&self->c));
	while (n < 64 && mem_new(&self->c, MIB, &h[n]))
		n++;
	EXPECT_EQ(64, n);
	EXPECT_EQ(0, mem_free(&self->c));
	EXPECT_EQ(0, mem_new(&self->c, 1, &extra));
	EXPECT_EQ(0, mem_del(&self->c, h[5]));
	EXPECT_EQ(MIB, mem_free(&self->c));
	EXPECT_EQ(0, mem_new(&self->c, MIB + 1, &extra));
	EXPECT_NE(0, mem_new(&self->c, MIB, &extra));
	EXPECT_EQ(0, mem_new(&self->c, 65 * MIB, &extra));
	EXPECT_EQ(0, mem_new(&self->c, 1ull << 60, &extra));
}

TEST_F(memory, the_budget_of_the_host)
{
	uint32_t a, b;
	struct simnpu_mem m = {
		.size = 8 * MIB, .context = self->c.handle, .flags = SIMNPU_MEM_HOST,
	};

	opt_budget = "16M";
	EXPECT_NE(0, mem_new(&self->c, 10 * MIB, &a));
	EXPECT_EQ(0, mem_new(&self->c, 10 * MIB, &b));
	EXPECT_EQ(54 * MIB, mem_free(&self->c));
	EXPECT_EQ(-ENOMEM, io(self->c.fd, MEM_CREATE, &m));
	EXPECT_EQ(0, mem_del(&self->c, a));
	EXPECT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
	EXPECT_EQ(0, mem_new(&self->c, 10 * MIB, &b));
	EXPECT_EQ(0, mem_del(&self->c, m.handle));
	EXPECT_NE(0, mem_new(&self->c, 10 * MIB, &b));
	opt_budget = NULL;
}

TEST_F(memory, failed_allocations_leave_nothing_behind)
{
	struct simnpu_test_device before, after;
	struct simnpu_mem m = {
		.size = MIB, .context = self->c.handle, .flags = SIMNPU_MEM_HOST,
	};

	simnpu_test_device(0, &before);
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 1, 1, 0);
	EXPECT_EQ(0, mem_new(&self->c, MIB, NULL));
	simnpu_test_fail(SIMNPU_FAIL_HOST, 1, 1, 0);
	EXPECT_EQ(-ENOMEM, io(self->c.fd, MEM_CREATE, &m));
	simnpu_test_device(0, &after);
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
	EXPECT_NE(0, mem_new(&self->c, MIB, NULL));
	EXPECT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
}

TEST_F(memory, arenas_can_be_refused)
{
	struct simnpu_context ctx = { 0 };
	struct simnpu_grow g = { .queue = self->r.handle, .slots = 4096 };
	int i, rc = 0;

	simnpu_test_fail(SIMNPU_FAIL_ARENA, 1, 0, 0);
	EXPECT_EQ(-ENOMEM, io(self->c.fd, CONTEXT_CREATE, &ctx));
	for (i = 0; i < 100 && !rc; i++)
		rc = io(self->c.fd, QUEUE_GROW, &g);
	EXPECT_EQ(-ENOMEM, rc);
	simnpu_test_fail(SIMNPU_FAIL_ARENA, 0, 0, 0);
	EXPECT_EQ(0, io(self->c.fd, QUEUE_GROW, &g));
}

TEST_F(memory, random_allocations_do_not_overlap)
{
	enum { N = 200 };
	uint64_t addr[N] = { 0 }, size[N], x = 88172645463325252ull;
	uint32_t h[N];
	int i, k, round;

	for (round = 0; round < 4000; round++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		i = (int)(x % N);
		if (addr[i]) {
			/* its first and last byte are still its own */
			ASSERT_EQ((uint64_t)i, mem_u64(&self->c, addr[i]) & 0xff);
			ASSERT_EQ(0, mem_del(&self->c, h[i]));
			addr[i] = 0;
			continue;
		}
		size[i] = 8 + (x >> 20) % (x & 1 ? 2000 : 400000);
		addr[i] = mem_new(&self->c, size[i], &h[i]);
		if (!addr[i])
			continue;
		ASSERT_EQ(0, addr[i] % 512);
		for (k = 0; k < N; k++)
			if (k != i && addr[k])
				ASSERT_TRUE(addr[i] + size[i] <= addr[k] ||
					    addr[k] + size[k] <= addr[i]);
		ASSERT_EQ(0, copy_now(&self->c, addr[i], (uint64_t)i, size[i], 0));
	}
	for (i = 0; i < N; i++)
		if (addr[i])
			ASSERT_EQ(0, mem_del(&self->c, h[i]));
	EXPECT_EQ(64 * MIB, mem_free(&self->c));
	/* all pieces have become one again */
	EXPECT_NE(0, mem_new(&self->c, 64 * MIB, NULL));
}

TEST_F(memory, alignment)
{
	uint64_t align;

	for (align = 1; align <= 16 * MIB; align *= 2) {
		struct simnpu_mem m = {
			.size = 1000, .align = align, .context = self->c.handle,
		};

		ASSERT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
		EXPECT_EQ(0, m.addr % align);
	}
}

/* ---- who can reach it ---- */

static sigjmp_buf fault;

static void on_fault(int sig)
{
	siglongjmp(fault, sig);
}

TEST_F(memory, the_host_can_or_can_not)
{
	uint64_t m = mem_new(&self->c, 4096, NULL);
	volatile char *p = (volatile char *)(uintptr_t)m;
	volatile bool faulted = false;

	if (NPU_TEST_ASAN || NPU_TEST_TSAN)
		SKIP(return, "the sanitizer has its own handler");
	signal(SIGSEGV, on_fault);
	if (sigsetjmp(fault, 1))
		faulted = true;
	else
		*p = 5;
	signal(SIGSEGV, SIG_DFL);
	EXPECT_EQ(variant->strict[0] == '1', faulted);
}

TEST_F(memory, windows)
{
	uint64_t m = mem_new(&self->c, 1000, NULL);
	struct simnpu_window w = { .addr = m + 8, .size = 992, .flags = 1 };

	ASSERT_EQ(0, copy_now(&self->c, m, 7, 1000, 0));
	ASSERT_EQ(0, io(self->c.fd, MEM_WINDOW, &w));
	ASSERT_NE(0, w.host);
	EXPECT_EQ(7, *(char *)(uintptr_t)w.host);
	*(uint64_t *)(uintptr_t)w.host = 0x1122334455667788ull;
	EXPECT_EQ(0x1122334455667788ull, mem_u64(&self->c, m + 8));
	w.flags = 0;
	EXPECT_EQ(0, io(self->c.fd, MEM_WINDOW, &w));
	w = (struct simnpu_window){ .addr = m, .size = 1025, .flags = 1 };
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_WINDOW, &w));
}

static int managed_new(struct ctx *c, uint64_t size, struct simnpu_mem *m)
{
	*m = (struct simnpu_mem){ .size = size, .context = c->handle, .flags = SIMNPU_MEM_MANAGED };
	return io(c->fd, MEM_CREATE, m);
}

/* The host and the device see the same bytes, at the same address; it takes whole pages. */
TEST_F(memory, managed)
{
	struct simnpu_mem m, again;
	uint64_t *p;

	ASSERT_EQ(0, managed_new(&self->c, 4097, &m));
	EXPECT_EQ(64 * MIB - 8192, mem_free(&self->c));
	p = (uint64_t *)(uintptr_t)m.addr;
	EXPECT_EQ(0, p[0]);
	p[511] = 41;
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, m.addr + 511 * 8, 1)));
	EXPECT_EQ(42, p[511]);
	EXPECT_EQ(0, copy_now(&self->c, m.addr, 6, 4097, 0));
	EXPECT_EQ(0x0606060606060606ull, p[511]);
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m.addr, 6, 4098, 0));
	/* who comes there next finds nothing of it */
	EXPECT_EQ(0, mem_del(&self->c, m.handle));
	EXPECT_EQ(64 * MIB, mem_free(&self->c));
	ASSERT_EQ(0, managed_new(&self->c, 8192, &again));
	EXPECT_EQ(m.addr, again.addr);
	EXPECT_EQ(0, p[511]);
	EXPECT_EQ(0, mem_del(&self->c, again.handle));
	EXPECT_EQ(m.addr, mem_new(&self->c, 8192, NULL));
	EXPECT_EQ(0, mem_u64(&self->c, m.addr));
	EXPECT_EQ(-ENOMEM, managed_new(&self->c, 64 * MIB, &m));
}

/* Each step of it fails; where it can't be undone the addresses are not used again. */
TEST_F(memory, managed_that_fails)
{
	const bool strict = variant->strict[0] == '1';
	const struct {
		enum fake_sys_call call;
		uint32_t nth;
		int err;
	} fail[] = {
		{ FAKE_SYS_MEMFD, 1, EMFILE }, { FAKE_SYS_FALLOCATE, 1, ENOSPC },
		{ FAKE_SYS_MMAP, 1, ENOMEM }, { FAKE_SYS_MMAP, strict + 1, ENOMEM },
		{ FAKE_SYS_MADVISE, 1, ENOMEM }, { FAKE_SYS_MADVISE, strict + 1, ENOMEM },
	};
	struct simnpu_mem m, n;
	size_t i;

	hal_sys_set(&fake_sys);
	for (i = 0; i < ARRAY_SIZE(fail); i++) {
		fake_sys_reset();
		fake_sys_fail(fail[i].call, fail[i].nth, 1, fail[i].err);
		EXPECT_EQ(i ? -ENOMEM : -EMFILE, managed_new(&self->c, MIB, &m)) TH_LOG("%zu", i);
		EXPECT_EQ(64 * MIB, mem_free(&self->c));
	}
	for (i = 1; i <= strict + 1u; i++) {
		fake_sys_reset();
		ASSERT_EQ(0, managed_new(&self->c, MIB, &m));
		fake_sys_fail(FAKE_SYS_MMAP, (uint32_t)i, 1, ENOMEM);
		EXPECT_EQ(0, mem_del(&self->c, m.handle));
		EXPECT_EQ(64 * MIB, mem_free(&self->c));
		fake_sys_reset();
		ASSERT_EQ(0, managed_new(&self->c, MIB, &n));
		EXPECT_NE(m.addr, n.addr);
		EXPECT_EQ(0, mem_del(&self->c, n.handle));
	}
	hal_sys_set(NULL);
}

/* An access of the word at addr by a kernel: 0, or the errno of its failure. */
static int touch(struct ring *r, uint64_t addr, uint64_t *refused)
{
	struct simnpu_task_error e[1];
	uint64_t seq = put_inc(r, addr, 1);

	*refused = 0;
	if (ring_wait(r, seq))
		return -1;
	if (!marked(r))
		return 0;
	if (ring_errors(r, e, 1) != 1 || e[0].seq != seq)
		return -1;
	*refused = e[0].addr;
	return (int)e[0].code;
}

TEST_F(memory, accesses_are_exact_to_the_byte)
{
	uint32_t low, mid, high;
	uint64_t a = mem_new(&self->c, 512, &low);
	uint64_t b = mem_new(&self->c, 512, &mid);
	uint64_t c = mem_new(&self->c, 512, &high), refused;
	uint64_t first = a < b ? a : b;

	(void)c;
	EXPECT_EQ(0, touch(&self->r, a, &refused));
	EXPECT_EQ(0, touch(&self->r, a + 504, &refused));
	EXPECT_EQ(EFAULT, touch(&self->r, a - 8, &refused));
	/* neighbours are not one allocation */
	EXPECT_EQ(EFAULT, touch(&self->r, first + 508, &refused));
	EXPECT_EQ(EFAULT, touch(&self->r, 8, &refused));
	EXPECT_EQ(8, refused);
	EXPECT_EQ(EFAULT, touch(&self->r, ~7ull, &refused));
	/* what was freed is gone at once, though the core remembers it */
	EXPECT_EQ(0, touch(&self->r, b, &refused));
	EXPECT_EQ(0, mem_del(&self->c, mid));
	EXPECT_EQ(EFAULT, touch(&self->r, b, &refused));
	EXPECT_EQ(b, refused);
	EXPECT_EQ(0, touch(&self->r, a, &refused));
}

TEST_F(memory, copies_are_exact_to_the_byte)
{
	uint64_t m = mem_new(&self->c, 1024, NULL);
	char buf[2048] = { 0 };

	EXPECT_EQ(0, copy_now(&self->c, m, U64(buf), 1024, SIMNPU_COPY_TO_DEVICE));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m, U64(buf), 1025, SIMNPU_COPY_TO_DEVICE));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m - 1, U64(buf), 8, SIMNPU_COPY_TO_DEVICE));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, U64(buf), m + 1, 1024, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m + 1023, 1, 2, 0));
	EXPECT_EQ(0, copy_now(&self->c, m + 1023, 1, 1, 0));
}

TEST_F(memory, a_failed_copy_names_the_address)
{
	struct simnpu_task_error e[1];
	uint64_t m = mem_new(&self->c, 1024, NULL), seq;
	char buf[64];

	seq = put_copy(&self->r, m + 4096, U64(buf), 64, SIMNPU_COPY_TO_DEVICE);
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	ASSERT_EQ(1, ring_errors(&self->r, e, 1));
	EXPECT_EQ(EFAULT, e[0].code);
	EXPECT_EQ(SIMNPU_OP_COPY, e[0].op);
	EXPECT_EQ(m + 4096, e[0].addr);
}

/* ---- copies ---- */

TEST_F(memory, copies_through_rings_and_at_once)
{
	const uint64_t sizes[] = { 1, 8, 4096, 65537, MIB + 3, 9 * MIB + 5 };
	uint64_t a, b, n;
	uint32_t ha = 0, hb = 0;
	char *in, *out;
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		n = sizes[i];
		in = malloc(n);
		out = calloc(1, n);
		for (k = 0; k < n; k++)
			in[k] = (char)(k * 7 + (k >> 12));
		a = mem_new(&self->c, n, &ha);
		b = mem_new(&self->c, n, &hb);
		ASSERT_NE(0, b);
		put_copy(&self->r, a, U64(in), n, SIMNPU_COPY_TO_DEVICE);
		put_copy(&self->r, b, a, n, SIMNPU_COPY_ON_DEVICE);
		EXPECT_EQ(0, ring_wait(&self->r, put_copy(&self->r, U64(out), b, n,
							  SIMNPU_COPY_TO_HOST)));
		EXPECT_FALSE(marked(&self->r));
		EXPECT_EQ(0, memcmp(in, out, n));
		memset(out, 0, n);
		EXPECT_EQ(0, copy_now(&self->c, b, 0x5a, n, 0));
		EXPECT_EQ(0, copy_now(&self->c, U64(out), b, n, SIMNPU_COPY_TO_HOST));
		for (k = 0; k < n && out[k] == 0x5a; k++)
			;
		EXPECT_EQ(n, k);
		EXPECT_EQ(0, copy_now(&self->c, b, U64(in), n, SIMNPU_COPY_TO_DEVICE));
		EXPECT_EQ(0, copy_now(&self->c, a, b, n, SIMNPU_COPY_ON_DEVICE));
		EXPECT_EQ(0, copy_now(&self->c, U64(out), a, n, SIMNPU_COPY_TO_HOST));
		EXPECT_EQ(0, memcmp(in, out, n));
		EXPECT_EQ(0, mem_del(&self->c, ha));
		EXPECT_EQ(0, mem_del(&self->c, hb));
		free(in);
		free(out);
	}
}

static int copy_rows(struct ctx *c, uint64_t dst, uint64_t dp, uint64_t src, uint64_t sp,
		     uint64_t w, uint64_t h, uint32_t kind)
{
	struct simnpu_copy a = {
		.dst = dst, .dst_pitch = dp, .src = src, .src_pitch = sp, .width = w, .height = h,
		.context = c->handle, .kind = kind,
	};

	return io(c->fd, COPY, &a);
}

TEST_F(memory, rows)
{
	const uint64_t w = 3001, h = 2000, pitch = 4096;
	uint64_t m = mem_new(&self->c, pitch * h, NULL), x, y, bad = 0;
	unsigned char *in = malloc(w * h), *out = malloc(pitch * h);
	struct simnpu_desc d = {
		.op = SIMNPU_OP_COPY_2D, .slots = 1, .copy_2d.dst = U64(out), .copy_2d.src = m,
		.copy_2d.width = w, .copy_2d.height = h, .copy_2d.kind = SIMNPU_COPY_TO_HOST,
	};
	struct simnpu_desc_pitch p = { .dst_pitch = w, .src_pitch = pitch };

	for (x = 0; x < w * h; x++)
		in[x] = (unsigned char)(x % 251);
	ASSERT_EQ(0, copy_now(&self->c, m, 0xee, pitch * h, 0));
	ASSERT_EQ(0, copy_rows(&self->c, m, pitch, U64(in), w, w, h, SIMNPU_COPY_TO_DEVICE));
	ASSERT_EQ(0, copy_now(&self->c, U64(out), m, pitch * h, SIMNPU_COPY_TO_HOST));
	for (y = 0; y < h; y++)
		for (x = 0; x < pitch; x++)
			bad += out[y * pitch + x] != (x < w ? in[y * w + x] : 0xee);
	EXPECT_EQ(0, bad);
	memset(out, 0, w * h);
	EXPECT_EQ(0, ring_wait(&self->r, ring_put(&self->r, &d, &p, false)));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, memcmp(in, out, w * h));
	/* a rectangle of a fill, and one byte too many */
	EXPECT_EQ(0, copy_rows(&self->c, m, pitch, 1, 0, 16, h, 0));
	EXPECT_EQ(-EFAULT, copy_rows(&self->c, m + pitch - 15, pitch, 1, 0, 16, h, 0));
	EXPECT_EQ(0, copy_rows(&self->c, m + pitch - 16, pitch, 1, 0, 16, h, 0));
	free(in);
	free(out);
}

TEST_F(memory, overlapping_copies)
{
	uint64_t m = mem_new(&self->c, 4096, NULL), i;
	unsigned char buf[4096];

	for (i = 0; i < 4096; i++)
		buf[i] = (unsigned char)(i / 16);
	ASSERT_EQ(0, copy_now(&self->c, m, U64(buf), 4096, SIMNPU_COPY_TO_DEVICE));
	ASSERT_EQ(0, copy_now(&self->c, m + 16, m, 4080, SIMNPU_COPY_ON_DEVICE));
	EXPECT_EQ(0, mem_u64(&self->c, m + 16) & 0xff);
	EXPECT_EQ(254, mem_u64(&self->c, m + 4080) & 0xff);
	EXPECT_EQ(-EINVAL, copy_rows(&self->c, m + 16, 64, m, 64, 32, 8, SIMNPU_COPY_ON_DEVICE));
}

TEST_F(memory, copies_between_devices)
{
	struct ctx other;
	uint64_t m = mem_new(&self->c, 4096, NULL), far;

	ASSERT_EQ(0, ctx_open(&other, 1));
	far = mem_new(&other, 4096, NULL);
	ASSERT_NE(0, far);
	ASSERT_NE(m, far);
	ASSERT_EQ(0, copy_now(&other, far, 0x33, 4096, 0));
	EXPECT_EQ(0, copy_now(&self->c, m, far, 4096, SIMNPU_COPY_PEER));
	EXPECT_EQ(0x3333333333333333ull, mem_u64(&self->c, m));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m, far, 4097, SIMNPU_COPY_PEER));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m, far, 16, SIMNPU_COPY_ON_DEVICE));
	EXPECT_EQ(0, ring_wait(&self->r, put_copy(&self->r, far, m, 4096, SIMNPU_COPY_PEER)));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(0, dev_close(other.fd));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, m, far, 4096, SIMNPU_COPY_PEER));
}

/* ---- host memory ---- */

TEST_F(memory, host_memory_that_can_not_be_locked)
{
	struct simnpu_mem m = {
		.size = 10000, .context = self->c.handle, .flags = SIMNPU_MEM_HOST,
	};
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct simnpu_register r = {
		.addr = U64(page), .size = 8192, .context = self->c.handle,
	};

	ASSERT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
	EXPECT_EQ(0, m.result);
	ASSERT_EQ(0, io(self->c.fd, MEM_REGISTER, &r));
	EXPECT_EQ(0, r.result);
	EXPECT_EQ(0, mem_del(&self->c, r.handle));
	page[0] = 1;	/* it is the caller's still */
	simnpu_test_fail(SIMNPU_FAIL_LOCK, 1, 0, 0);
	ASSERT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
	EXPECT_EQ(SIMNPU_MEM_UNLOCKED, m.result);
	ASSERT_EQ(0, io(self->c.fd, MEM_REGISTER, &r));
	EXPECT_EQ(SIMNPU_MEM_UNLOCKED, r.result);
	munmap(page, 8192);
}

/* ---- parts and options ---- */

TEST(parts)
{
	static const struct {
		const char *option, *name;
		uint64_t memory;
		uint32_t queues, events;
	} parts[] = {
		{ "generic", "SimNPU", 32ull << 30, 65536, 65536 },
		{ "910b", "Ascend910B1", 64ull << 30, 1984, 65536 },
		{ "310p", "Ascend310P3", 24ull << 30, 1024, 1023 },
		{ "310b", "Ascend310B4", 8ull << 30, 512, 65536 },
	};
	struct simnpu_info info;
	struct ring r;
	struct ctx c;
	uint32_t n;
	size_t i;

	hal_option_set_reader(&reader);
	opt_cores = "3";
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		opt_part = parts[i].option;
		ASSERT_EQ(0, ctx_open(&c, 0));
		ASSERT_EQ(0, io(c.fd, INFO, &info));
		EXPECT_STREQ(parts[i].name, info.part);
		EXPECT_EQ(parts[i].memory, info.mem_total);
		EXPECT_EQ(parts[i].queues, info.max_queues);
		EXPECT_EQ(parts[i].events, info.max_events);
		EXPECT_EQ(3, info.cores);
		for (n = 0; !ring_open_at(&r, &c, 16, 4, 0, 1); n++)
			;
		EXPECT_EQ(parts[i].queues, n);
		ring_close(&r);
		EXPECT_EQ(0, dev_close(c.fd));
	}
}

TEST(events_until_there_are_no_more)
{
	struct simnpu_event ev;
	struct simnpu_handle h;
	struct ctx c;
	uint32_t n;

	hal_option_set_reader(&reader);
	opt_part = "310p";
	ASSERT_EQ(0, ctx_open(&c, 0));
	for (n = 0; n < 2000; n++) {
		ev = (struct simnpu_event){ .context = c.handle };
		if (io(c.fd, EVENT_CREATE, &ev))
			break;
		h.handle = ev.handle;
	}
	EXPECT_EQ(1023, n);
	EXPECT_EQ(-ENOSPC, io(c.fd, EVENT_CREATE, &ev));
	h.pad = 0;
	EXPECT_EQ(0, io(c.fd, EVENT_DESTROY, &h));
	ev = (struct simnpu_event){ .context = c.handle };
	EXPECT_EQ(0, io(c.fd, EVENT_CREATE, &ev));
	EXPECT_EQ(0, dev_close(c.fd));
}

/* A context per round in the same arena: timelines of the ones before stay readable. */
TEST(arenas_are_used_again)
{
	struct simnpu_queue_header *old = NULL;
	char *first = NULL;
	struct ring r;
	struct ctx c;
	int i;

	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, ctx_open(&c, 0));
		first = first ? first : c.arena;
		EXPECT_EQ(first, c.arena);
		ASSERT_EQ(0, ring_open(&r, &c));
		EXPECT_EQ(0, ring_wait(&r, put_nop(&r)));
		old = r.h;
		EXPECT_EQ(0, dev_close(c.fd));
		EXPECT_LE(hal_shm_load_relaxed(&old->timeline), 1);
	}
}

/* Of a part with more memory than there are addresses, as much works as there are. */
TEST(addresses_are_scarce)
{
	const struct rlimit limit = { 3072 * MIB, 3072 * MIB };
	struct simnpu_info i = { 0 };
	struct ctx c;
	uint32_t h = 0;

	if (NPU_TEST_ASAN || NPU_TEST_TSAN)
		SKIP(return, "a sanitizer has its own idea of addresses");
	opt_part = "generic";
	hal_option_set_reader(&reader);
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	ASSERT_EQ(0, ctx_open(&c, 0));
	io(c.fd, INFO, &i);
	EXPECT_GT(i.mem_total, i.va_size);
	EXPECT_NE(0, mem_new(&c, MIB, &h));
	EXPECT_EQ(0, mem_del(&c, h));
	EXPECT_EQ(0, mem_new(&c, i.va_size + MIB, &h));
	EXPECT_NE(0, mem_new(&c, MIB, &h));
	EXPECT_EQ(0, dev_close(c.fd));
	hal_option_set_reader(NULL);
}

TEST_HARNESS_MAIN
