// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory that uncorrectable errors have hit.
 */
#include "selftests/drivers/simnpu_recovery.h"
#include "selftests/npu_kselftest.h"

#define SIZE 65536ull

FIXTURE(poison)
{
	struct ctx c;
	struct ctx other;	/* on another device */
	struct ring r;
	uint64_t mem;
	uint32_t handle;
	uint64_t sound;		/* another allocation */
	uint64_t far_mem;	/* of the other device */
	char *host;
};

FIXTURE_SETUP(poison)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ctx_open(&self->other, 1));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	self->mem = mem_new(&self->c, SIZE, &self->handle);
	self->sound = mem_new(&self->c, SIZE, NULL);
	self->far_mem = mem_new(&self->other, SIZE, NULL);
	self->host = calloc(1, SIZE);
	ASSERT_EQ(0, copy_now(&self->c, self->mem, 7, SIZE, 0));
	ASSERT_EQ(0, copy_now(&self->c, self->sound, 7, SIZE, 0));
}

FIXTURE_TEARDOWN(poison)
{
	simnpu_fault_clear();
	free(self->host);
	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_EQ(0, dev_close(self->other.fd));
}

static int poison_at(int fd, uint32_t index, struct simnpu_poison *p)
{
	*p = (struct simnpu_poison){ .index = index };
	return io(fd, POISON, p);
}

#define TO_HOST(addr, size) \
	copy_now(&self->c, U64(self->host), addr, size, SIMNPU_COPY_TO_HOST)
#define MEND() do {							\
		EXPECT_EQ(0, device_stop(self->c.fd));			\
		EXPECT_EQ(0, device_restart(self->c.fd));		\
		ASSERT_EQ(0, ring_open(&self->r, &self->c));		\
	} while (0)

TEST_F(poison, where_it_may_lie)
{
	struct simnpu_poison p;

	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 0, &p));
	EXPECT_FALSE(simnpu_test_poison(0, self->mem + SIZE - 8, 9));
	EXPECT_FALSE(simnpu_test_poison(0, self->mem - 1, 8));
	EXPECT_FALSE(simnpu_test_poison(0, self->mem, 0));
	EXPECT_FALSE(simnpu_test_poison(1, self->mem, 8));
	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 0, &p));
	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 4096, 64));
	EXPECT_TRUE(simnpu_test_poison(0, self->mem + SIZE - 8, 8));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(self->mem + 4096, p.addr);
	EXPECT_EQ(64, p.size);
	ASSERT_EQ(0, poison_at(self->c.fd, 1, &p));
	EXPECT_EQ(self->mem + SIZE - 8, p.addr);
	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 2, &p));
	/* nobody has met it */
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
}

TEST_F(poison, blocking_copies)
{
	struct simnpu_info i;

	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 4096, 64));
	/* beside it, before and behind */
	EXPECT_EQ(0, TO_HOST(self->mem, 4096));
	EXPECT_EQ(0, TO_HOST(self->mem + 4160, 4096));
	EXPECT_EQ(0, TO_HOST(self->sound, SIZE));
	EXPECT_EQ(7, self->host[SIZE - 1]);
	/* beyond the allocation it is what it always was */
	EXPECT_EQ(-EFAULT, TO_HOST(self->mem + 4160, SIZE));
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_EQ(-EHWPOISON, TO_HOST(self->mem, 4097));
	i = info_of(self->c.fd);
	EXPECT_EQ(SIMNPU_STATE_FAULTED, i.state);
	EXPECT_EQ(EHWPOISON, i.cause);
	EXPECT_EQ(1, i.ecc_uncorrected);
	EXPECT_EQ(-EIO, TO_HOST(self->sound, 8));
	MEND();
	EXPECT_EQ(0, TO_HOST(self->mem, SIZE));
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_EQ(1, info_of(self->c.fd).ecc_uncorrected);
}

/* Tasks that read it fail, and the device has a fault; what comes behind is not run. */
TEST_F(poison, copies_in_a_queue)
{
	struct simnpu_task_error e[2];
	uint64_t seq, last;

	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 100, 1));
	seq = put_copy(&self->r, self->sound, self->mem, 101, SIMNPU_COPY_ON_DEVICE);
	last = put_inc(&self->r, self->sound + 4096, 1);
	EXPECT_EQ(-EIO, ring_wait(&self->r, last));
	EXPECT_EQ(0, ring_wait(&self->r, seq));
	ASSERT_EQ(2, ring_errors(&self->r, e, 2));
	EXPECT_EQ(seq, e[0].seq);
	EXPECT_EQ(EHWPOISON, e[0].code);
	EXPECT_EQ(self->mem, e[0].addr);
	EXPECT_EQ(SIMNPU_OP_COPY, e[0].op);
	EXPECT_EQ(last, e[1].seq);
	EXPECT_EQ(EIO, e[1].code);
	EXPECT_EQ(seq, e[1].origin_seq);
	EXPECT_EQ(EHWPOISON, info_of(self->c.fd).cause);
	MEND();
	EXPECT_EQ(0x0707070707070707ull, mem_u64(&self->c, self->sound + 4096));
	EXPECT_EQ(0, ring_wait(&self->r, put_copy(&self->r, self->sound, self->mem, 101,
						  SIMNPU_COPY_ON_DEVICE)));
	EXPECT_FALSE(marked(&self->r));
}

TEST_F(poison, kernels)
{
	struct simnpu_task_error e;
	uint64_t seq;

	/* one that remembers the allocation has to look again */
	ASSERT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 1024, 8));
	ASSERT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
	EXPECT_FALSE(marked(&self->r));
	seq = put_launch(&self->r, builtin(&self->c, "inc_u64"), 1,
			 &(struct npu_simnpu_inc_args){ self->mem - SIZE * 1024, 1 }, 16);
	ASSERT_EQ(0, ring_wait(&self->r, seq));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(EFAULT, e.code);
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
}

/* A kernel that reads what was hit, in one block and in many. */
TEST_F(poison, kernels_that_read_it)
{
	struct simnpu_module m = {
		.data = U64(TEST_DATA("simnpu_kernels.so")), .context = self->c.handle,
		.size = sizeof(TEST_DATA("simnpu_kernels.so")), .kind = SIMNPU_MODULE_PATH,
	};
	struct simnpu_task_error e;
	uint64_t seq, k;
	uint32_t blocks;

	if (!(info_of(self->c.fd).caps & SIMNPU_CAP_MODULE_FILE))
		SKIP(return, "no kernels from files in this configuration");
	ASSERT_EQ(0, io(self->c.fd, MODULE_LOAD, &m));
	ASSERT_EQ(0, kernel_get(&self->c, m.handle, "wait_u64", &k));
	for (blocks = 1; blocks <= 4; blocks += 3) {
		EXPECT_TRUE(simnpu_test_poison(0, self->mem, 8));
		seq = put_launch(&self->r, k, blocks, &self->mem, 8);
		ring_wait(&self->r, seq);
		ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
		EXPECT_EQ(EHWPOISON, e.code);
		EXPECT_EQ(seq, e.seq);
		EXPECT_EQ(self->mem, e.addr);
		EXPECT_EQ(EHWPOISON, info_of(self->c.fd).cause);
		MEND();
	}
}

TEST_F(poison, what_is_overwritten_is_good_again)
{
	struct simnpu_poison p;

	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 4096, 64));
	/* a part of it is not enough */
	EXPECT_EQ(0, copy_now(&self->c, self->mem + 4097, 1, 200, 0));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(0, copy_now(&self->c, self->mem + 4096, U64(self->host), 64,
			      SIMNPU_COPY_TO_DEVICE));
	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(0, TO_HOST(self->mem, SIZE));
	/* by a task */
	EXPECT_TRUE(simnpu_test_poison(0, self->mem, 64));
	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 128, 64));
	EXPECT_EQ(0, ring_wait(&self->r, put_copy(&self->r, self->mem, self->sound, 64,
						  SIMNPU_COPY_ON_DEVICE)));
	EXPECT_FALSE(marked(&self->r));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(self->mem + 128, p.addr);
	EXPECT_EQ(0, TO_HOST(self->mem, 128));
	EXPECT_EQ(-EHWPOISON, TO_HOST(self->mem + 128, 1));
}

/* What is refused writes nothing, so it mends nothing. */
TEST_F(poison, what_is_not_overwritten_after_all)
{
	struct simnpu_copy c = {
		.dst = self->mem, .src = self->mem + 64, .dst_pitch = 64, .src_pitch = 64,
		.width = 64, .height = 4, .context = self->c.handle, .kind = SIMNPU_COPY_ON_DEVICE,
	};
	struct simnpu_task_error e;
	struct simnpu_poison p;

	EXPECT_TRUE(simnpu_test_poison(0, self->mem, 64));
	/* a source that is none */
	EXPECT_EQ(-EFAULT, copy_now(&self->c, self->mem, self->sound + SIZE, 64,
				    SIMNPU_COPY_ON_DEVICE));
	EXPECT_EQ(-EFAULT, copy_now(&self->c, self->mem, 8, 64, SIMNPU_COPY_TO_DEVICE));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	/* rows that overlap */
	EXPECT_EQ(-EINVAL, io(self->c.fd, COPY, &c));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	/* what is hit, onto itself */
	ring_wait(&self->r, put_copy(&self->r, self->mem, self->mem, 64, SIMNPU_COPY_ON_DEVICE));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(EHWPOISON, e.code);
	EXPECT_EQ(EHWPOISON, info_of(self->c.fd).cause);
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
}

TEST_F(poison, rows_that_leave_gaps)
{
	struct simnpu_copy c = {
		.dst = self->mem, .src = 1, .dst_pitch = 256, .width = 64, .height = 16,
		.context = self->c.handle,
	};
	struct simnpu_poison p;

	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 64, 64));
	EXPECT_EQ(0, io(self->c.fd, COPY, &c));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(-EHWPOISON, TO_HOST(self->mem + 64, 1));
}

TEST_F(poison, what_is_freed)
{
	struct simnpu_poison p;
	uint64_t again;

	EXPECT_TRUE(simnpu_test_poison(0, self->mem, 64));
	EXPECT_TRUE(simnpu_test_poison(0, self->sound, 64));
	EXPECT_EQ(0, mem_del(&self->c, self->handle));
	ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(self->sound, p.addr);
	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 1, &p));
	again = mem_new(&self->c, SIZE, NULL);
	EXPECT_EQ(self->mem, again);
	EXPECT_EQ(0, TO_HOST(again, SIZE));
}

/* Who copies from another device learns it; it is the other one that has the fault. */
TEST_F(poison, of_another_device)
{
	struct simnpu_task_error e;
	uint64_t seq;

	EXPECT_TRUE(simnpu_test_poison(1, self->far_mem, 64));
	seq = put_copy(&self->r, self->mem, self->far_mem, 64, SIMNPU_COPY_PEER);
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem + 4096, 1)));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(seq, e.seq);
	EXPECT_EQ(EHWPOISON, e.code);
	EXPECT_EQ(self->far_mem, e.addr);
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_EQ(SIMNPU_STATE_FAULTED, state_of(self->other.fd));
	EXPECT_EQ(EHWPOISON, info_of(self->other.fd).cause);
}

/* By a rule, the same. */
TEST_F(poison, of_another_device_by_rule)
{
	struct simnpu_task_error e;
	struct simnpu_poison p;
	uint64_t seq;

	ASSERT_EQ(0, simnpu_fault_set("task:copy,do=ecc", NULL));
	seq = put_copy(&self->r, self->mem, self->far_mem, 64, SIMNPU_COPY_PEER);
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem + 4096, 1)));
	ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
	EXPECT_EQ(seq, e.seq);
	EXPECT_EQ(EHWPOISON, e.code);
	EXPECT_EQ(self->far_mem, e.addr);
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(EHWPOISON, info_of(self->other.fd).cause);
	ASSERT_EQ(0, poison_at(self->other.fd, 0, &p));
	EXPECT_EQ(self->far_mem, p.addr);
}

TEST_F(poison, windows)
{
	struct simnpu_window w = { .addr = self->mem, .size = SIZE, .flags = 1 };

	EXPECT_TRUE(simnpu_test_poison(0, self->mem + 64, 64));
	EXPECT_EQ(-EHWPOISON, io(self->c.fd, MEM_WINDOW, &w));
	w.size = 64;
	EXPECT_EQ(0, io(self->c.fd, MEM_WINDOW, &w));
	/* to close one is allowed whatever happens */
	EXPECT_FALSE(simnpu_test_device_fault(0, "lnik"));
	EXPECT_TRUE(simnpu_test_device_fault(0, "link"));
	EXPECT_EQ(-EIO, io(self->c.fd, MEM_WINDOW, &w));
	w.flags = 0;
	EXPECT_EQ(0, io(self->c.fd, MEM_WINDOW, &w));
	w.addr = 8;
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_WINDOW, &w));
}

TEST_F(poison, more_than_can_be_told_apart)
{
	struct simnpu_poison p;
	uint32_t n = 0;

	while (simnpu_test_poison(0, self->mem + 128ull * n, 64))
		n++;
	EXPECT_EQ(64, n);
	EXPECT_EQ(0, poison_at(self->c.fd, 63, &p));
	EXPECT_EQ(-EHWPOISON, TO_HOST(self->mem + 128ull * 63, 1));
	MEND();
	EXPECT_EQ(-ENOENT, poison_at(self->c.fd, 0, &p));
	EXPECT_EQ(0, TO_HOST(self->mem, SIZE));
}

/* By a rule: at the memory that the task reads, or writes where it reads none. */
TEST_F(poison, by_rule)
{
	struct simnpu_task_error e;
	struct simnpu_poison p;
	uint64_t seq;
	int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, simnpu_fault_set("task,do=ecc", NULL));
		if (i == 0)
			seq = put_copy(&self->r, U64(self->host), self->mem, 64,
				       SIMNPU_COPY_TO_HOST);
		else if (i == 1)
			seq = put_copy(&self->r, self->mem, U64(self->host), 64,
				       SIMNPU_COPY_TO_DEVICE);
		else
			seq = put_inc(&self->r, self->mem, 1);
		ring_wait(&self->r, seq);
		ASSERT_EQ(1, ring_errors(&self->r, &e, 1));
		EXPECT_EQ(seq, e.seq);
		EXPECT_EQ(EHWPOISON, e.code);
		EXPECT_EQ(self->mem, e.addr);
		ASSERT_EQ(0, poison_at(self->c.fd, 0, &p));
		EXPECT_EQ(self->mem, p.addr);
		EXPECT_EQ(64, p.size);
		EXPECT_EQ(EHWPOISON, info_of(self->c.fd).cause);
		EXPECT_EQ(i + 1, (int)info_of(self->c.fd).ecc_uncorrected);
		MEND();
	}
	ASSERT_EQ(0, simnpu_fault_set("task,do=ecc1", NULL));
	EXPECT_EQ(0, ring_wait(&self->r, put_inc(&self->r, self->mem, 1)));
	EXPECT_FALSE(marked(&self->r));
	EXPECT_EQ(1, info_of(self->c.fd).ecc_corrected);
	EXPECT_EQ(SIMNPU_STATE_OK, state_of(self->c.fd));
}

TEST_HARNESS_MAIN
