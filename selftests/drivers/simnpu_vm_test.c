// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual memory of the simulated device: addresses and memory apart, by the
 * host's page tables and by files.
 */
#include <pthread.h>
#include <stdlib.h>

#include "hal/sys_judge.h"
#include "selftests/drivers/simnpu_recovery.h"
#include "selftests/npu_kselftest.h"

#define MIB (1024ull * 1024)
#define G ((uint64_t)SIMNPU_VM_GRANULARITY)
#define RO SIMNPU_VM_READ
#define RW (SIMNPU_VM_READ | SIMNPU_VM_WRITE)

static const char *option_text(const char *name)
{
	return strcmp(name, "simnpu_memory") ? NULL : "64M";
}

static const struct hal_option_reader reader = { .text = option_text };

/* The call that fails from now on, with that errno; -1: none. */
static _Atomic int fail_call = -1, fail_code;

static void judge(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *v)
{
	(void)arg;
	if ((int)call == atomic_load(&fail_call))
		v->code = atomic_load(&fail_code);
}

static void fail(int call, int code)
{
	atomic_store(&fail_code, code);
	atomic_store(&fail_call, call);
}

FIXTURE(vm)
{
	struct ctx c;
	struct ring r;
};

FIXTURE_VARIANT(vm)
{
	bool file;
};

FIXTURE_VARIANT_ADD(vm, moved) { .file = false };
FIXTURE_VARIANT_ADD(vm, file) { .file = true };

static int create(struct ctx *c, uint64_t size, uint32_t flags, uint32_t *handle)
{
	struct simnpu_mem m = {
		.size = size, .context = c->handle, .flags = flags | SIMNPU_MEM_PHYSICAL,
	};
	int rc = io(c->fd, MEM_CREATE, &m);

	*handle = m.handle;
	return rc ? rc : m.addr || m.map ? -EPROTO : 0;
}

static int reserve_at(struct ctx *c, uint64_t size, uint64_t align, uint64_t want, uint64_t *addr)
{
	struct simnpu_vm v = {
		.addr = want, .size = size, .offset = align, .context = c->handle,
	};
	int rc = io(c->fd, VM_RESERVE, &v);

	*addr = v.addr;
	return rc;
}

static uint64_t reserve(struct ctx *c, uint64_t size)
{
	uint64_t addr;

	return reserve_at(c, size, 0, 0, &addr) ? 0 : addr;
}

static int release(struct ctx *c, uint64_t addr, uint64_t size)
{
	struct simnpu_vm v = { .addr = addr, .size = size, .context = c->handle };

	return io(c->fd, VM_RELEASE, &v);
}

static int map(struct ctx *c, uint64_t addr, uint64_t size, uint32_t handle, uint32_t flags)
{
	struct simnpu_vm v = {
		.addr = addr, .size = size, .context = c->handle, .handle = handle,
		.flags = flags,
	};

	return io(c->fd, VM_MAP, &v);
}

static int unmap(struct ctx *c, uint64_t addr, uint64_t size)
{
	struct simnpu_vm v = { .addr = addr, .size = size, .context = c->handle };

	return io(c->fd, VM_UNMAP, &v);
}

static int protect(struct ctx *c, uint64_t addr, uint64_t size, uint32_t flags)
{
	struct simnpu_vm v = {
		.addr = addr, .size = size, .context = c->handle, .flags = flags,
	};

	return io(c->fd, VM_PROTECT, &v);
}

static int fill(struct ctx *c, uint64_t addr, int byte, uint64_t size)
{
	return copy_now(c, addr, (uint64_t)byte, size, 0);
}

static int peek(struct ctx *c, uint64_t addr, uint64_t size, unsigned char *buf)
{
	return copy_now(c, U64(buf), addr, size, SIMNPU_COPY_TO_HOST);
}

/* The byte there, or a negative errno. */
static int byte_at(struct ctx *c, uint64_t addr)
{
	unsigned char b;
	int rc = peek(c, addr, 1, &b);

	return rc ? rc : b;
}

/* What a task came to: 0 or a positive errno. */
static int outcome(struct ring *r, uint64_t seq)
{
	struct simnpu_task_error e[1];

	if (ring_wait(r, seq))
		return -1;
	return ring_errors(r, e, 1) == 1 ? e[0].code : 0;
}

/* A kernel that reads and writes 16 bytes. */
static uint64_t put_relu(struct ring *r, uint64_t addr)
{
	struct npu_simnpu_rows_args a = { .x = addr, .y = addr, .rows = 1, .cols = 4 };

	return put_launch(r, builtin(r->c, "relu_f32"), 1, &a, sizeof(a));
}

static uint64_t mem_free(struct ctx *c)
{
	struct simnpu_info i = { 0 };

	io(c->fd, INFO, &i);
	return i.mem_free;
}

FIXTURE_SETUP(vm)
{
	uint32_t h;

	hal_option_set_reader(&reader);
	hal_sys_judge_set(judge);
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	/* the device finds out, once, whether the host can move pages */
	if (variant->file)
		fail(HAL_SYS_mremap, EINVAL);
	ASSERT_EQ(0, create(&self->c, G, 0, &h));
	fail(-1, 0);
	ASSERT_EQ(0, mem_del(&self->c, h));
	ASSERT_EQ(64 * MIB, mem_free(&self->c));
}

FIXTURE_TEARDOWN(vm)
{
	struct simnpu_test_device d;

	fail(-1, 0);
	simnpu_fault_clear();
	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_FALSE(simnpu_test_device(0, &d));
	EXPECT_EQ(0, d.mem_used);
	hal_sys_judge_set(NULL);
	hal_option_set_reader(NULL);
}

/* Memory of n granules, mapped. */
#define MAPPED(addr, n, handle, flags)						\
	do {									\
		ASSERT_EQ(0, create(&self->c, (n) * G, 0, handle));		\
		ASSERT_EQ(0, map(&self->c, addr, (n) * G, *(handle), flags));	\
	} while (0)

/* ---- addresses ---- */

TEST_F(vm, addresses_cost_nothing)
{
	struct ctx *c = &self->c;
	struct simnpu_info i = { 0 };
	uint64_t a, b;

	io(c->fd, INFO, &i);
	EXPECT_TRUE(i.caps & SIMNPU_CAP_VMM);
	/* more than the device has */
	a = reserve(c, 100 * MIB);
	b = reserve(c, 200 * MIB);
	ASSERT_TRUE(a && b);
	EXPECT_EQ(0, a % G);
	EXPECT_LE(i.va_start, a);
	EXPECT_LE(a + 100 * MIB, i.va_start + i.va_size);
	EXPECT_TRUE(a + 100 * MIB <= b || b + 200 * MIB <= a);
	EXPECT_EQ(64 * MIB, mem_free(c));
	EXPECT_EQ(-EFAULT, fill(c, a, 0, 1));
	EXPECT_EQ(-EFAULT, byte_at(c, a));
	EXPECT_EQ(EFAULT, outcome(&self->r, put_inc(&self->r, a, 1)));
	EXPECT_EQ(0, release(c, a, 100 * MIB));
	EXPECT_EQ(-EINVAL, release(c, a, 100 * MIB));
	EXPECT_EQ(0, release(c, b, 200 * MIB));
}

TEST_F(vm, addresses_that_are_wanted)
{
	struct ctx *c = &self->c;
	uint64_t a = reserve(c, 8 * G), b, plain = mem_new(c, G, NULL);

	ASSERT_NE(0, a);
	ASSERT_EQ(0, release(c, a, 8 * G));
	ASSERT_EQ(0, reserve_at(c, 2 * G, 0, a + G, &b));
	EXPECT_EQ(a + G, b);
	EXPECT_EQ(-EEXIST, reserve_at(c, G, 0, a + G, &b));
	EXPECT_EQ(-EEXIST, reserve_at(c, 2 * G, 0, a, &b));
	EXPECT_EQ(-EEXIST, reserve_at(c, 2 * G, 0, a + 2 * G, &b));
	EXPECT_EQ(-EEXIST, reserve_at(c, 4 * G, 0, a, &b));
	EXPECT_EQ(0, reserve_at(c, G, 0, a, &b));
	EXPECT_EQ(0, reserve_at(c, G, 0, a + 3 * G, &b));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 0, a + 4 * G + 4096, &b));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 0, plain, &b));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 0, G, &b));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 0, UINT64_MAX - G + 1, &b));
	EXPECT_EQ(0, release(c, a, G));
	EXPECT_EQ(0, release(c, a + G, 2 * G));
	EXPECT_EQ(0, release(c, a + 3 * G, G));
	ASSERT_EQ(0, reserve_at(c, G, 64 * MIB, 0, &b));
	EXPECT_EQ(0, b % (64 * MIB));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 64 * MIB, b + G, &b));
}

TEST_F(vm, addresses_that_are_refused)
{
	struct ctx *c = &self->c, none = { .fd = c->fd, .handle = c->handle + (1u << 20) };
	uint64_t a, b;

	EXPECT_EQ(-EINVAL, reserve_at(c, 0, 0, 0, &a));
	EXPECT_EQ(-EINVAL, reserve_at(c, G - 4096, 0, 0, &a));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 3 * G, 0, &a));
	EXPECT_EQ(-EINVAL, reserve_at(c, G, 3, 0, &a));
	EXPECT_EQ(-ENOMEM, reserve_at(c, 1ull << 50, 0, 0, &a));
	EXPECT_EQ(-ENOMEM, reserve_at(c, 0 - G, 0, 0, &a));
	EXPECT_EQ(-ENOMEM, reserve_at(c, G, 1ull << 63, 0, &a));
	EXPECT_EQ(-ENOENT, reserve_at(&none, G, 0, 0, &a));
	/* small alignments are the granularity */
	EXPECT_EQ(0, reserve_at(c, 4 * G, 512, 0, &a));
	EXPECT_EQ(-EINVAL, release(c, a + G, 3 * G));
	EXPECT_EQ(-EINVAL, release(c, a, 3 * G));
	EXPECT_EQ(-EINVAL, release(c, a, 5 * G));
	EXPECT_EQ(-ENOENT, release(&none, a, 4 * G));
	fail(HAL_SYS_alloc, ENOMEM);
	EXPECT_EQ(-ENOMEM, reserve_at(c, G, 0, 0, &b));
	fail(-1, 0);
	EXPECT_EQ(0, release(c, a, 4 * G));
}

/* ---- memory ---- */

TEST_F(vm, memory_is_charged_and_real)
{
	struct ctx *c = &self->c;
	uint32_t h[32], x;
	int n = 0;

	EXPECT_EQ(-EINVAL, create(c, 0, 0, &x));
	EXPECT_EQ(-EINVAL, create(c, G + 4096, 0, &x));
	EXPECT_EQ(-EINVAL, create(c, G, SIMNPU_MEM_HOST, &x));
	EXPECT_EQ(-EINVAL, create(c, G, SIMNPU_MEM_HUGE | SIMNPU_MEM_HUGE_FIRST, &x));
	while (n < 32 && !create(c, G, n & 1 ? SIMNPU_MEM_HUGE_FIRST : 0, &h[n]))
		n++;
	EXPECT_EQ(32, n);
	EXPECT_EQ(0, mem_free(c));
	EXPECT_EQ(-ENOMEM, create(c, G, 0, &x));
	EXPECT_EQ(0, mem_new(c, 512, NULL));
	EXPECT_EQ(0, mem_del(c, h[7]));
	EXPECT_EQ(-ENOENT, mem_del(c, h[7]));
	EXPECT_EQ(G, mem_free(c));
	EXPECT_EQ(-ENOMEM, create(c, 2 * G, 0, &x));
	EXPECT_EQ(0, create(c, G, SIMNPU_MEM_HUGE, &x));
	for (n = 0; n < 32; n++)
		EXPECT_EQ(n == 7 ? -ENOENT : 0, mem_del(c, h[n]));
	simnpu_test_fail(SIMNPU_FAIL_MEMORY, 1, 1, 0);
	EXPECT_EQ(-ENOMEM, create(c, G, 0, &h[0]));
	fail(variant->file ? HAL_SYS_fallocate : HAL_SYS_madvise, ENOMEM);
	EXPECT_EQ(-ENOMEM, create(c, G, 0, &h[0]));
	fail(variant->file ? HAL_SYS_memfd_create : HAL_SYS_mmap, ENOMEM);
	EXPECT_EQ(-ENOMEM, create(c, G, 0, &h[0]));
	fail(-1, 0);
	EXPECT_EQ(0, mem_del(c, x));
	EXPECT_EQ(64 * MIB, mem_free(c));
	/* its addresses are as good for others as before */
	EXPECT_NE(0, mem_new(c, 64 * MIB, &x));
}

TEST_F(vm, memory_keeps_its_content)
{
	struct ctx *c = &self->c;
	uint64_t a = reserve(c, 16 * G), seq;
	uint32_t h, i;

	ASSERT_NE(0, a);
	ASSERT_EQ(0, create(c, 2 * G, 0, &h));
	for (i = 0; i < 8; i++) {
		uint64_t at = a + i * G;

		ASSERT_EQ(0, map(c, at, 2 * G, h, RW));
		EXPECT_EQ(62 * MIB - G, mem_free(c));
		if (!i) {
			ASSERT_EQ(0, fill(c, at, 0, 2 * G));
			ASSERT_EQ(0, fill(c, at + 2 * G - 1, 9, 1));
		}
		seq = put_inc(&self->r, at + 8, 1);
		ASSERT_EQ(0, outcome(&self->r, seq));
		EXPECT_EQ(i + 1, mem_u64(c, at + 8));
		EXPECT_EQ(9, byte_at(c, at + 2 * G - 1));
		EXPECT_EQ(-EFAULT, byte_at(c, at + 2 * G));
		EXPECT_EQ(-EFAULT, byte_at(c, at - 1));
		ASSERT_EQ(0, unmap(c, at, 2 * G));
		EXPECT_EQ(-EFAULT, byte_at(c, at + 8));
		EXPECT_EQ(EFAULT, outcome(&self->r, put_inc(&self->r, at + 8, 1)));
	}
}

/* ---- mappings ---- */

TEST_F(vm, what_map_refuses)
{
	struct ctx *c = &self->c, c2 = { .fd = c->fd };
	struct simnpu_context arg = { 0 };
	uint64_t a = reserve(c, 8 * G), b;
	uint32_t h, h2, far, plain;

	ASSERT_EQ(0, create(c, 2 * G, 0, &h));
	ASSERT_NE(0, mem_new(c, 2 * G, &plain));
	EXPECT_EQ(-EINVAL, map(c, a, 2 * G, plain, RW));
	EXPECT_EQ(-EINVAL, map(c, a, G, h, RW));
	EXPECT_EQ(-EINVAL, map(c, a, 3 * G, h, RW));
	EXPECT_EQ(-EINVAL, map(c, a + 4096, 2 * G, h, RW));
	EXPECT_EQ(-EINVAL, map(c, a + 7 * G, 2 * G, h, RW));
	EXPECT_EQ(-EINVAL, map(c, a - G, 2 * G, h, RW));
	EXPECT_EQ(-EINVAL, map(c, a, 2 * G, h, SIMNPU_VM_WRITE));
	EXPECT_EQ(-EINVAL, map(c, a, 2 * G, h, 4));
	EXPECT_EQ(-ENOENT, map(c, a, 2 * G, h + 1000, RW));
	ASSERT_EQ(0, io(c->fd, CONTEXT_CREATE, &arg));
	c2.handle = arg.context;
	b = reserve(&c2, 8 * G);
	ASSERT_EQ(0, create(&c2, 2 * G, 0, &far));
	EXPECT_EQ(-EINVAL, map(c, a, 2 * G, far, RW));
	EXPECT_EQ(-EINVAL, map(c, b, 2 * G, h, RW));
	EXPECT_EQ(-EINVAL, map(&c2, b, 2 * G, h, RW));
	ASSERT_EQ(0, map(c, a + 2 * G, 2 * G, h, RW));
	EXPECT_EQ(-EBUSY, map(c, a, 2 * G, h, RW));
	ASSERT_EQ(0, create(c, 2 * G, 0, &h2));
	EXPECT_EQ(-EEXIST, map(c, a + G, 2 * G, h2, RW));
	EXPECT_EQ(-EEXIST, map(c, a + 3 * G, 2 * G, h2, RW));
	EXPECT_EQ(-EEXIST, map(c, a + 2 * G, 2 * G, h2, RW));
	EXPECT_EQ(0, map(c, a, 2 * G, h2, RW));
	EXPECT_EQ(-EINVAL, unmap(c, a, G));
	EXPECT_EQ(-EINVAL, unmap(c, a + G, G));
	EXPECT_EQ(-EINVAL, unmap(c, a, 4 * G));
	EXPECT_EQ(-EINVAL, unmap(c, a + 4 * G, G));
	EXPECT_EQ(-EINVAL, protect(c, a, G, RO));
	EXPECT_EQ(-EINVAL, protect(c, a, 2 * G, SIMNPU_VM_WRITE));
	EXPECT_EQ(-EINVAL, protect(c, a + 4 * G, 2 * G, RO));
	EXPECT_EQ(-EINVAL, unmap(&c2, a, 2 * G));
	c2.handle++;
	EXPECT_EQ(-ENOENT, unmap(&c2, a, 2 * G));
	EXPECT_EQ(-ENOENT, protect(&c2, a, 2 * G, RO));
	EXPECT_EQ(-ENOENT, map(&c2, a, 2 * G, h, RO));
	EXPECT_EQ(0, fill(c, a, 1, 4 * G));
}

/* What lies side by side is one range, whatever the order it came in. */
TEST_F(vm, side_by_side)
{
	static const int orders[][4] = {
		{ 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 3, 0, 2 }, { 2, 0, 3, 1 },
	};
	struct ctx *c = &self->c;
	uint64_t a = reserve(c, 6 * G) + G, other;
	unsigned char *buf = malloc(4 * G);
	struct simnpu_window w;
	uint32_t h[4], i, k;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, create(c, G, 0, &h[i]));
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 4; k++)
			ASSERT_EQ(0, map(c, a + (uint64_t)orders[i][k] * G, G, h[k], RW));
		EXPECT_EQ(0, fill(c, a, (int)i + 1, 4 * G));
		EXPECT_EQ(0, peek(c, a + 5, 4 * G - 10, buf));
		EXPECT_EQ(i + 1, buf[2 * G]);
		EXPECT_EQ(-EFAULT, fill(c, a - 1, 0, 2));
		EXPECT_EQ(-EFAULT, fill(c, a + 4 * G - 1, 0, 2));
		w = (struct simnpu_window){ .addr = a + G - 8, .size = 16, .flags = 1 };
		EXPECT_EQ(0, io(c->fd, MEM_WINDOW, &w));
		EXPECT_EQ((int)i + 1, *(char *)(uintptr_t)(w.host + 8));
		/* one task over the edge of two, and of what is mapped */
		EXPECT_EQ(0, outcome(&self->r, put_relu(&self->r, a + G - 8)));
		EXPECT_EQ(0, outcome(&self->r, put_copy(&self->r, a + 2 * G - 4, a, 8,
							SIMNPU_COPY_ON_DEVICE)));
		EXPECT_EQ(EFAULT, outcome(&self->r, put_relu(&self->r, a + 4 * G - 8)));
		for (k = 0; k < 4; k++) {
			uint64_t at = a + (uint64_t)orders[3 - i][k] * G;

			ASSERT_EQ(0, unmap(c, at, G));
			EXPECT_EQ(-EFAULT, byte_at(c, at));
			if (k < 3) {
				at = a + (uint64_t)orders[3 - i][3] * G;
				EXPECT_EQ((int)i + 1, byte_at(c, at + 1000));
			}
		}
	}
	/* not of one reservation: not one range */
	ASSERT_EQ(0, reserve_at(c, G, 0, a + 5 * G, &other));
	ASSERT_EQ(0, map(c, a + 4 * G, G, h[0], RW));
	ASSERT_EQ(0, map(c, other, G, h[1], RW));
	EXPECT_EQ(0, fill(c, a + 4 * G, 1, G));
	EXPECT_EQ(0, fill(c, other, 1, G));
	EXPECT_EQ(-EFAULT, fill(c, other - 1, 1, 2));
	free(buf);
}

TEST_F(vm, in_any_order)
{
	struct ctx *c = &self->c;
	uint64_t a = reserve(c, 2 * G);
	uint32_t h;

	/* handle, mapping, addresses */
	MAPPED(a, 2, &h, RW);
	EXPECT_EQ(-EBUSY, release(c, a, 2 * G));
	EXPECT_EQ(0, mem_del(c, h));
	EXPECT_EQ(-ENOENT, mem_del(c, h));
	EXPECT_EQ(64 * MIB - 2 * G, mem_free(c));
	EXPECT_EQ(0, fill(c, a, 1, 2 * G));
	EXPECT_EQ(-EBUSY, release(c, a, 2 * G));
	/* nothing has to be kept: no failure of the host's can be in the way */
	fail(HAL_SYS_mremap, ENOMEM);
	EXPECT_EQ(0, unmap(c, a, 2 * G));
	fail(-1, 0);
	EXPECT_EQ(64 * MIB, mem_free(c));
	EXPECT_EQ(-EINVAL, unmap(c, a, 2 * G));
	/* mapping, handle; mapping, addresses, handle */
	MAPPED(a, 1, &h, RW);
	EXPECT_EQ(0, unmap(c, a, G));
	EXPECT_EQ(0, mem_del(c, h));
	EXPECT_EQ(64 * MIB, mem_free(c));
	MAPPED(a, 2, &h, RW);
	EXPECT_EQ(0, unmap(c, a, 2 * G));
	EXPECT_EQ(0, release(c, a, 2 * G));
	EXPECT_EQ(64 * MIB - 2 * G, mem_free(c));
	EXPECT_EQ(0, mem_del(c, h));
	EXPECT_EQ(64 * MIB, mem_free(c));
	/* what is left goes with the context */
	a = reserve(c, 8 * G);
	MAPPED(a, 1, &h, RW);
	MAPPED(a + G, 1, &h, RO);
	EXPECT_EQ(0, mem_del(c, h));
	ASSERT_EQ(0, create(c, G, 0, &h));
}

TEST_F(vm, contexts_take_theirs_along)
{
	struct ctx *c = &self->c, c2 = { .fd = c->fd };
	struct simnpu_context arg = { 0 };
	struct simnpu_handle d;
	uint64_t a, b;
	uint32_t h;

	ASSERT_EQ(0, io(c->fd, CONTEXT_CREATE, &arg));
	c2.handle = d.handle = arg.context;
	d.pad = 0;
	a = reserve(&c2, 4 * G);
	ASSERT_EQ(0, create(&c2, G, 0, &h));
	ASSERT_EQ(0, map(&c2, a, G, h, RW));
	ASSERT_EQ(0, create(&c2, G, 0, &h));
	ASSERT_EQ(0, map(&c2, a + G, G, h, RO));
	EXPECT_EQ(0, mem_del(&c2, h));
	EXPECT_EQ(0, fill(c, a, 1, G));	/* addresses are the device's */
	EXPECT_EQ(0, io(c->fd, CONTEXT_DESTROY, &d));
	EXPECT_EQ(64 * MIB, mem_free(c));
	EXPECT_EQ(-EFAULT, byte_at(c, a));
	EXPECT_EQ(0, reserve_at(c, 4 * G, 0, a, &b));
}

/* ---- what is allowed ---- */

TEST_F(vm, protection)
{
	struct ctx *c = &self->c;
	struct ring *r = &self->r;
	uint64_t a = reserve(c, 3 * G);
	struct simnpu_window w = { .addr = a + G, .size = 64, .flags = 1 };
	unsigned char buf[64];
	uint32_t h[3], i;

	for (i = 0; i < 3; i++)
		MAPPED(a + i * G, 1, &h[i], RW);
	ASSERT_EQ(0, fill(c, a, 5, 3 * G));
	ASSERT_EQ(0, protect(c, a + G, G, RO));
	EXPECT_EQ(-EFAULT, fill(c, a + G, 6, 1));
	EXPECT_EQ(-EFAULT, fill(c, a, 6, 3 * G));
	EXPECT_EQ(5, byte_at(c, a));
	EXPECT_EQ(5, byte_at(c, a + 2 * G - 1));
	EXPECT_EQ(-EFAULT, peek(c, a + G - 1, 2, buf));
	EXPECT_EQ(0, peek(c, a + G, 64, buf));
	EXPECT_EQ(EFAULT, outcome(r, put_inc(r, a + G, 1)));
	EXPECT_EQ(EFAULT, outcome(r, put_copy(r, a + G, U64(buf), 8, SIMNPU_COPY_TO_DEVICE)));
	EXPECT_EQ(0, outcome(r, put_copy(r, a, a + G, 64, SIMNPU_COPY_ON_DEVICE)));
	EXPECT_EQ(0, outcome(r, put_inc(r, a, 1)));
	EXPECT_EQ(0, outcome(r, put_inc(r, a + 2 * G, 1)));
	EXPECT_EQ(0x0505050505050505, mem_u64(c, a + G));
	EXPECT_EQ(-EINVAL, io(c->fd, MEM_WINDOW, &w));
	ASSERT_EQ(0, protect(c, a + G, G, 0));
	EXPECT_EQ(-EFAULT, byte_at(c, a + G));
	EXPECT_EQ(-EINVAL, io(c->fd, MEM_WINDOW, &w));
	EXPECT_EQ(EFAULT, outcome(r, put_copy(r, a, a + G, 64, SIMNPU_COPY_ON_DEVICE)));
	/* the neighbours become like it, one after the other */
	ASSERT_EQ(0, protect(c, a + G, G, RO));
	ASSERT_EQ(0, protect(c, a, G, RO));
	ASSERT_EQ(0, protect(c, a + 2 * G, G, RO));
	EXPECT_EQ(0, peek(c, a + 2 * G - 32, 64, buf));
	EXPECT_EQ(-EFAULT, fill(c, a + 2 * G - 32, 6, 64));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, protect(c, a + i * G, G, RW));
	EXPECT_EQ(0, fill(c, a, 7, 3 * G));
	EXPECT_EQ(0, io(c->fd, MEM_WINDOW, &w));
	/* it is the mapping's, not the memory's */
	ASSERT_EQ(0, protect(c, a, G, 0));
	ASSERT_EQ(0, unmap(c, a, G));
	ASSERT_EQ(0, map(c, a, G, h[0], RO));
	EXPECT_EQ(7, byte_at(c, a));
	EXPECT_EQ(-EFAULT, fill(c, a, 8, 1));
}

/* ---- failures of the host ---- */

TEST_F(vm, the_host_has_no_maps_left)
{
	const int call = variant->file ? HAL_SYS_mmap : HAL_SYS_mremap;
	struct ctx *c = &self->c;
	uint64_t a = reserve(c, 3 * G);
	uint32_t h[3], i;

	for (i = 0; i < 3; i++)
		MAPPED(a + i * G, 1, &h[i], RW);
	ASSERT_EQ(0, fill(c, a, 3, 3 * G));
	fail(call, ENOMEM);
	EXPECT_EQ(-ENOMEM, unmap(c, a + G, G));
	EXPECT_EQ(3, byte_at(c, a + G));
	EXPECT_EQ(0, fill(c, a, 4, 3 * G));	/* one range as before */
	fail(-1, 0);
	ASSERT_EQ(0, unmap(c, a + G, G));
	fail(call, ENOMEM);
	EXPECT_EQ(-ENOMEM, map(c, a + G, G, h[1], RW));
	fail(-1, 0);
	EXPECT_EQ(-EFAULT, byte_at(c, a + G));
	EXPECT_EQ(0, map(c, a + G, G, h[1], RW));
	EXPECT_EQ(4, byte_at(c, a + G));
	fail(HAL_SYS_alloc, ENOMEM);
	ASSERT_EQ(0, unmap(c, a + G, G));
	EXPECT_EQ(-ENOMEM, map(c, a + G, G, h[1], RW));
	fail(-1, 0);
}

struct copier {
	struct ctx *c;
	uint64_t a;
	_Atomic uint32_t begun;
	_Atomic bool stop;
	int bad;
};

/* What is on its way while addresses lose and get memory reads it, or zeros, or fails. */
static void *copier(void *arg)
{
	struct copier *x = arg;
	static unsigned char buf[4 * 2097152];
	int rc;

	while (!atomic_load(&x->stop)) {
		atomic_fetch_add(&x->begun, 1);
		rc = peek(x->c, x->a, 4 * G, buf);
		x->bad += rc && rc != -EFAULT;
		rc = fill(x->c, x->a, 1, 4 * G);
		x->bad += rc && rc != -EFAULT;
	}
	return NULL;
}

TEST_F(vm, under_way)
{
	uint64_t end = hal_sys_deadline(5000);
	struct copier x = { .c = &self->c };
	uint32_t h[4], i, k, begun;
	pthread_t t;

	if (NPU_TEST_TSAN)
		SKIP(return, "that pages are exchanged under a copy is what is tested");
	x.a = reserve(x.c, 4 * G);
	for (k = 0; k < 4; k++)
		ASSERT_EQ(0, create(x.c, G, 0, &h[k]));
	ASSERT_EQ(0, pthread_create(&t, NULL, copier, &x));
	/* on a slow machine less often, but each time a copy has begun that sees the memory */
	for (i = 0; i < 200 && hal_sys_now() < end; i++) {
		for (k = 0; k < 4; k++)
			ASSERT_EQ(0, map(x.c, x.a + k * G, G, h[(k + i) % 4], RW));
		begun = atomic_load(&x.begun);
		while (i % 4 && atomic_load(&x.begun) == begun)
			sched_yield();
		for (k = 0; k < 4; k++)
			ASSERT_EQ(0, unmap(x.c, x.a + (k + i) % 4 * G, G));
	}
	atomic_store(&x.stop, true);
	pthread_join(t, NULL);
	EXPECT_EQ(0, x.bad);
}

/* ---- errors of the memory ---- */

TEST_F(vm, what_was_hit_stays_hit)
{
	struct ctx *c = &self->c;
	struct simnpu_poison p = { .index = 0 };
	uint64_t a = reserve(c, 4 * G);
	uint32_t h[2];

	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS))
		SKIP(return, "no faults in this build");
	MAPPED(a, 1, &h[0], RW);
	MAPPED(a + G, 1, &h[1], RW);
	ASSERT_EQ(0, fill(c, a, 5, 2 * G));
	ASSERT_TRUE(simnpu_test_poison(0, a + G + 64, 64));
	/* it moves, and so does the error; its neighbour has none */
	ASSERT_EQ(0, unmap(c, a + G, G));
	EXPECT_EQ(-ENOENT, io(c->fd, POISON, &p));
	EXPECT_EQ(5, byte_at(c, a));
	ASSERT_EQ(0, map(c, a + 2 * G, G, h[1], RW));
	ASSERT_EQ(0, io(c->fd, POISON, &p));
	EXPECT_EQ(a + 2 * G, p.addr);
	EXPECT_EQ(G, p.size);
	EXPECT_EQ(0, fill(c, a + 2 * G, 6, G));
	EXPECT_EQ(6, byte_at(c, a + 2 * G));
	/* a part of a run, and reading it */
	ASSERT_EQ(0, unmap(c, a + 2 * G, G));
	ASSERT_EQ(0, map(c, a + G, G, h[1], RW));
	ASSERT_TRUE(simnpu_test_poison(0, a + G + 64, 64));
	EXPECT_EQ(5, byte_at(c, a));
	EXPECT_EQ(6, byte_at(c, a + G));
	ASSERT_EQ(0, protect(c, a + G, G, RO));
	EXPECT_EQ(-EFAULT, fill(c, a + G, 7, G));
	EXPECT_EQ(-EHWPOISON, byte_at(c, a + G + 64));
	EXPECT_EQ(-EIO, byte_at(c, a));
	/* a restart makes it good again, wherever it is by then */
	ASSERT_EQ(0, unmap(c, a + G, G));
	EXPECT_EQ(0, device_stop(c->fd));
	EXPECT_EQ(-ESHUTDOWN, map(c, a + G, G, h[1], RW));
	EXPECT_EQ(0, unmap(c, a, G));
	EXPECT_EQ(0, device_restart(c->fd));
	ASSERT_EQ(0, map(c, a + G, G, h[1], RW));
	EXPECT_EQ(6, byte_at(c, a + G));
	EXPECT_EQ(-ENOENT, io(c->fd, POISON, &p));
}

/* ---- against a shadow ---- */

#define PIECES 16u

struct shadow {
	uint32_t access[PIECES];	/* 8: nothing is mapped */
	uint32_t len[PIECES];		/* of the mapping that begins here */
	uint32_t handle[PIECES];
	unsigned char byte[PIECES];
};

static uint32_t dice(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % n;
}

/* Maps, unmaps or protects a random piece; what is refused has to be. */
static int random_step(struct ctx *c, uint64_t a, struct shadow *s, uint64_t *seed)
{
	static const uint32_t all[] = { 0, RO, RW, RW };
	uint32_t at = dice(seed, PIECES), n = 1 + dice(seed, 3), access = all[dice(seed, 4)], i;
	bool fits = at + n <= PIECES;
	int rc;

	for (i = at; fits && i < at + n; i++)
		fits = s->access[i] == 8;
	switch (dice(seed, 3)) {
	case 0:
		if (!fits || create(c, n * G, 0, &s->handle[at]))
			return 0;
		rc = map(c, a + at * G, n * G, s->handle[at], RW);
		s->len[at] = n;
		for (i = at; !rc && i < at + n; i++) {
			s->byte[i] = (unsigned char)dice(seed, 256);
			rc = fill(c, a + i * G, s->byte[i], G);
			s->access[i] = access;
		}
		return rc ? rc : protect(c, a + at * G, n * G, access);
	case 1:
		rc = unmap(c, a + at * G, (s->len[at] ? s->len[at] : n) * G);
		if (!s->len[at])
			return rc == -EINVAL ? 0 : -EPROTO;
		for (i = at; i < at + s->len[at]; i++)
			s->access[i] = 8;
		s->len[at] = 0;
		return rc ? rc : mem_del(c, s->handle[at]);
	default:
		rc = protect(c, a + at * G, (s->len[at] ? s->len[at] : n) * G, access);
		if (!s->len[at])
			return rc == -EINVAL ? 0 : -EPROTO;
		for (i = at; i < at + s->len[at]; i++)
			s->access[i] = access;
		return rc;
	}
}

/* Reads and writes a random range: exactly what the shadow allows works. */
static int random_look(struct ctx *c, uint64_t a, const struct shadow *s, uint64_t *seed)
{
	static unsigned char buf[PIECES * 2097152];
	uint64_t at = (uint64_t)dice(seed, PIECES * 512) * 4096;
	uint64_t n = 1 + dice(seed, 3 * 2097152), k;
	bool read = true, write = true;
	int rc;

	if (n > PIECES * G - at)
		n = PIECES * G - at;
	for (k = at / G; k <= (at + n - 1) / G; k++) {
		read &= s->access[k] < 8 && s->access[k] & RO && s->access[k] == s->access[at / G];
		write &= s->access[k] == RW;
	}
	rc = peek(c, a + at, n, buf);
	if (rc != (read ? 0 : -EFAULT))
		return -EPROTO;
	for (k = 0; read && k < n; k += 1013)
		if (buf[k] != s->byte[(at + k) / G])
			return -EBADMSG;
	/* what is written is what is there */
	if (at / G == (at + n - 1) / G || !write) {
		rc = fill(c, a + at, s->byte[at / G], n);
		if (rc != (write ? 0 : -EFAULT))
			return -EPROTO;
	}
	return 0;
}

TEST_F(vm, as_a_shadow_says)
{
	struct shadow s = { .len = { 0 } };
	uint64_t seed = 42, a = reserve(&self->c, PIECES * G);
	uint32_t i;

	for (i = 0; i < PIECES; i++)
		s.access[i] = 8;
	for (i = 0; i < 1500; i++) {
		ASSERT_EQ(0, random_step(&self->c, a, &s, &seed))
			TH_LOG("step %u", i);
		ASSERT_EQ(0, random_look(&self->c, a, &s, &seed))
			TH_LOG("step %u", i);
	}
}

TEST_HARNESS_MAIN
