// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of the program that is registered: what each call answers, and what it leaves.
 */
#include "selftests/npu_kselftest.h"

#include <sys/mman.h>

#include "drivers/simnpu/simnpu_test.h"
#include "selftests/runtime/rt_test.h"
#include "uapi/simnpu.h"

#define PAGE 4096
#define PAGES 16

/* Bytes of the process that are locked. */
static size_t locked(void)
{
	size_t kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %zu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

static char *map(void *at, size_t pages)
{
	void *p = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

FIXTURE(reg) {
	char *m;
	void *dev;
	size_t before;
	bool locks;
};

FIXTURE_SETUP(reg)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	self->m = map(NULL, PAGES);
	ASSERT_NE(NULL, self->m);
	OK(npu_malloc(PAGES * PAGE, 0, &self->dev));
	self->before = locked();
	/* whether the machine lets us */
	OK(npu_host_register(self->m, PAGE, 0));
	self->locks = locked() == self->before + PAGE;
	OK(npu_host_unregister(self->m));
	npu_error_clear();
}

/* Nothing is left behind: nothing is registered, locked or failed, and all can be registered. */
FIXTURE_TEARDOWN(reg)
{
	simnpu_fault_clear();
	EXPECT_EQ(self->before, locked());
	EXPECT_EQ(0, npu_device_sync(0, 5000));
	if (map(self->m, PAGES) == self->m) {
		EXPECT_EQ(0, npu_host_register(self->m, PAGES * PAGE, 0));
		EXPECT_EQ(0, npu_memcpy(self->dev, self->m, PAGES * PAGE, NPU_COPY_H2D));
		EXPECT_EQ(0, npu_host_unregister(self->m));
	}
	EXPECT_EQ(0, npu_finalize(5000));
	EXPECT_EQ(self->before, locked());
	munmap(self->m, PAGES * PAGE);
}

static bool is_registered(const void *p)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	int pinned = -1;

	if (npu_pointer_get_info(p, &i) || npu_host_is_pinned(p, &pinned) ||
	    pinned != (i.kind == NPU_POINTER_REGISTERED))
		abort();
	return pinned;
}

TEST_F(reg, twice_and_overlapping)
{
	char *p = self->m + 4 * PAGE;

	OK(npu_host_register(p, 4 * PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p, 4 * PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p + PAGE, PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p + 17, 1, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p - PAGE, 2 * PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p + 3 * PAGE, 2 * PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p - PAGE, 6 * PAGE, 0));
	EXPECT_EQ(-EEXIST, last_error().code);
	if (self->locks)
		EXPECT_EQ(self->before + 4 * PAGE, locked());
	EXPECT_TRUE(is_registered(p));
	EXPECT_TRUE(is_registered(p + 4 * PAGE - 1));
	EXPECT_FALSE(is_registered(p - 1));
	EXPECT_FALSE(is_registered(p + 4 * PAGE));
	OK(npu_host_unregister(p));
	EXPECT_FALSE(is_registered(p));
}

/* Pages that two share stay locked until the last one goes. */
TEST_F(reg, unaligned)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *p = self->m + 100;

	OK(npu_host_register(p, 2 * PAGE, 0));
	OK(npu_host_register(p + 2 * PAGE, PAGE, 0));
	OK(npu_host_register(self->m, 100, 0));
	OK(npu_pointer_get_info(p + 5, &i));
	EXPECT_EQ(p, i.base);
	EXPECT_EQ(2 * PAGE, i.bytes);
	if (self->locks)
		EXPECT_EQ(self->before + 4 * PAGE, locked());
	OK(npu_host_unregister(p));
	if (self->locks)
		EXPECT_EQ(self->before + 3 * PAGE, locked());
	OK(npu_host_register(p, 2 * PAGE, 0));
	OK(npu_host_unregister(self->m));
	OK(npu_host_unregister(p + 2 * PAGE));
	if (self->locks)
		EXPECT_EQ(self->before + 3 * PAGE, locked());
	OK(npu_host_unregister(p));
}

TEST_F(reg, across_mappings)
{
	char *p = self->m;

	ASSERT_EQ(0, mprotect(p + 4 * PAGE, PAGE, PROT_READ));
	ASSERT_NE(MAP_FAILED, mmap(p + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	OK(npu_host_register(p + PAGE, 10 * PAGE, 0));
	if (self->locks)
		EXPECT_EQ(self->before + 10 * PAGE, locked());
	OK(npu_host_unregister(p + PAGE));
}

TEST_F(reg, what_is_none)
{
	char *p = self->m;

	EXPECT_EQ(-EINVAL, npu_host_register(p, 0, 0));
	EXPECT_EQ(-EINVAL, npu_host_register(NULL, PAGE, 0));
	EXPECT_EQ(-EINVAL, npu_host_register(NULL, 0, 0));
	EXPECT_EQ(-EINVAL, npu_host_register(p, SIZE_MAX, 0));
	EXPECT_EQ(-EINVAL, npu_host_register(p, PAGE, 1));
	EXPECT_EQ(-EINVAL, npu_host_register(p, PAGE, 4));
	EXPECT_FALSE(is_registered(p));
}

/* [C-MEM-11] All of it or nothing. */
TEST_F(reg, that_is_not_all_there)
{
	char *p = self->m;

	ASSERT_EQ(0, munmap(p + 5 * PAGE, PAGE));
	EXPECT_EQ(-EFAULT, npu_host_register(p, 10 * PAGE, 0));
	EXPECT_EQ(-EFAULT, npu_host_register(p + 5 * PAGE, PAGE, 0));
	EXPECT_EQ(-EFAULT, npu_host_register(p + 4 * PAGE, 2 * PAGE, 0));
	EXPECT_EQ(-EFAULT, npu_host_register(p + 5 * PAGE, 2 * PAGE, 0));
	EXPECT_EQ(self->before, locked());
	EXPECT_FALSE(is_registered(p));
	/* nor what cannot be read */
	ASSERT_EQ(0, mprotect(p + 8 * PAGE, PAGE, PROT_NONE));
	EXPECT_EQ(-EFAULT, npu_host_register(p + 6 * PAGE, 4 * PAGE, 0));
	EXPECT_EQ(-EFAULT, npu_host_register(p + 8 * PAGE, PAGE, 0));
	EXPECT_EQ(self->before, locked());
	/* also where nothing can be locked */
	simnpu_test_fail(SIMNPU_FAIL_LOCK, 1, 0, 0);
	EXPECT_EQ(-EFAULT, npu_host_register(p, 7 * PAGE, 0));
	OK(npu_host_register(p, 5 * PAGE, 0));
	EXPECT_EQ(self->before, locked());
	simnpu_fault_clear();
	/* what is beside stays locked */
	OK(npu_host_register(p + 6 * PAGE, PAGE + 10, 0));
	EXPECT_EQ(-EFAULT, npu_host_register(p + 7 * PAGE + 10, 2 * PAGE, 0));
	if (self->locks)
		EXPECT_EQ(self->before + 2 * PAGE, locked());
	OK(npu_host_unregister(p));
	OK(npu_host_unregister(p + 6 * PAGE));
}

TEST_F(reg, undoing_what_is_none)
{
	char *p = self->m, *q;

	OK(npu_host_register(p, 4 * PAGE, 0));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p + PAGE));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p + 1));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p + 4 * PAGE));
	EXPECT_EQ(-EINVAL, npu_host_unregister(NULL));
	EXPECT_EQ(-EINVAL, npu_host_unregister(self->dev));
	EXPECT_EQ(-EINVAL, npu_free_host(p));
	EXPECT_EQ(is_built("npu_host_free") ? -EINVAL : -EOPNOTSUPP, npu_host_free(p));
	OK(npu_malloc_host(PAGE, 0, (void **)&q));
	EXPECT_EQ(-EINVAL, npu_host_unregister(q));
	EXPECT_EQ(-EEXIST, npu_host_register(q, PAGE, 0));
	OK(npu_free_host(q));
	EXPECT_TRUE(is_registered(p));
	OK(npu_host_unregister(p));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p));
	/* memory of a device is none of the program's */
	EXPECT_EQ(-EEXIST, npu_host_register(self->dev, PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register((char *)self->dev + PAGE, PAGE, 0));
}

/* What was unmapped has to be undone all the same, and can be. */
TEST_F(reg, unmapped_and_mapped_again)
{
	char *p = self->m;

	OK(npu_host_register(p, 4 * PAGE, 0));
	ASSERT_EQ(0, munmap(p, 4 * PAGE));
	EXPECT_EQ(self->before, locked());
	OK(npu_host_unregister(p));
	EXPECT_EQ(-EFAULT, npu_host_register(p, 4 * PAGE, 0));
	ASSERT_EQ(p, map(p, 4));
	OK(npu_host_register(p, 4 * PAGE, 0));
	ASSERT_EQ(0, munmap(p, 4 * PAGE));
	ASSERT_EQ(p, map(p, 4));
	EXPECT_EQ(-EEXIST, npu_host_register(p, 4 * PAGE, 0));
	EXPECT_EQ(-EEXIST, npu_host_register(p + PAGE, PAGE, 0));
	OK(npu_host_unregister(p));
	OK(npu_host_register(p, 2 * PAGE, 0));
	OK(npu_host_register(p + 2 * PAGE, 2 * PAGE, 0));
	memset(p, 3, 4 * PAGE);
	OK(npu_memcpy(self->dev, p, 4 * PAGE, NPU_COPY_AUTO));
	OK(npu_host_unregister(p));
	OK(npu_host_unregister(p + 2 * PAGE));
}

/* Where the system puts memory of the library, what was registered there is not any more. */
TEST_F(reg, unmapped_and_given_to_us)
{
	enum { BIG = 64 << 20 };
	char *m, *p;
	int i;

	for (i = 0; i < 1 + is_built("npu_host_alloc"); i++) {
		m = map(NULL, BIG / PAGE);
		ASSERT_NE(NULL, m);
		OK(npu_host_register(m + PAGE, BIG - 2 * PAGE, 0));
		OK(npu_host_register(m + 1, 100, 0));
		ASSERT_EQ(0, munmap(m, BIG));
		OK(i ? npu_host_alloc(BIG, (void **)&p) : npu_malloc_host(BIG, 0, (void **)&p));
		memset(p, 1, BIG);
		if (p == m) {
			if (self->locks)
				EXPECT_EQ(self->before + BIG, locked());
			EXPECT_EQ(-EINVAL, npu_host_unregister(m + PAGE));
			EXPECT_EQ(-EINVAL, npu_host_unregister(m + 1));
		} else {
			OK(npu_host_unregister(m + PAGE));
			OK(npu_host_unregister(m + 1));
		}
		OK(i ? npu_host_free(p) : npu_free_host(p));
	}
	OK(if_built("npu_host_empty_cache", npu_host_empty_cache(0)));
}

/* A chunk that fails leaves those before as the program has them, which undoes them. */
TEST_F(reg, the_device_refuses)
{
	char *p = self->m;
	int k;

	for (k = 0; k < 4; k++) {
		simnpu_test_fail(SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_MEM_REGISTER),
				 (uint32_t)k + 1, 1, ENOMEM);
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(i == k ? -ENOMEM : 0, npu_host_register(p + i * PAGE, PAGE, 0));
		EXPECT_FALSE(is_registered(p + k * PAGE));
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(i == k ? -EINVAL : 0, npu_host_unregister(p + i * PAGE));
		EXPECT_EQ(self->before, locked());
	}
}

TEST_F(reg, that_cannot_be_locked)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *p = self->m;

	simnpu_test_fail(SIMNPU_FAIL_LOCK, 1, 0, 0);
	OK(npu_host_register(p, 2 * PAGE, 0));
	OK(npu_pointer_get_info(p, &i));
	EXPECT_EQ(NPU_POINTER_REGISTERED, i.kind);
	EXPECT_EQ(NPU_POINTER_UNLOCKED, i.flags);
	EXPECT_EQ(self->before, locked());
	OK(npu_finalize(5000));
	OK(npu_option_set("pinned_lock_required", "1"));
	EXPECT_EQ(-ENOMEM, npu_host_register(p, 2 * PAGE, 0));
	EXPECT_NE(NULL, strstr(last_error().text, "locked"));
	EXPECT_FALSE(is_registered(p));
	simnpu_fault_clear();
	OK(npu_finalize(5000));
	OK(npu_option_set("pinned_lock_required", NULL));
	OK(npu_malloc(PAGES * PAGE, 0, &self->dev));
}

TEST_F(reg, ends_with_its_device)
{
	char *p = self->m;

	OK(npu_device_set(1));
	OK(npu_host_register(p + 4 * PAGE, PAGE, 0));
	OK(npu_device_set(0));
	OK(npu_host_register(p, 4 * PAGE, 0));
	OK(npu_device_reset(0, 5000));
	EXPECT_FALSE(is_registered(p));
	EXPECT_TRUE(is_registered(p + 4 * PAGE));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p));
	if (self->locks)
		EXPECT_EQ(self->before + PAGE, locked());
	OK(npu_host_register(p, 4 * PAGE, 0));
	OK(npu_finalize(5000));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p));
	EXPECT_EQ(-EINVAL, npu_host_unregister(p + 4 * PAGE));
	OK(npu_malloc(PAGES * PAGE, 0, &self->dev));
}

TEST_HARNESS_MAIN
