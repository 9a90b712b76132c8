// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handle tables.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/npu_kselftest.h"

#include "hal/error.h"
#include "hal/internal.h"
#include "selftests/fakes/sys.h"

#define TYPE HAL_HANDLE_MODULE

static int an_object;

static int get(uint64_t h)
{
	struct hal_slot *s = hal_slot_at(TYPE, h);

	return s && hal_slot_is(s, h) ? 0 : hal_handle_error(TYPE, h, "test");
}

static uint64_t renew(struct hal_slot *s)
{
	uint64_t h;

	hal_spin_lock(&s->lock);
	h = hal_handle_renew(TYPE, s);
	hal_spin_unlock(&s->lock);
	return h;
}

TEST(life_of_a_handle)
{
	struct hal_slot *s;
	uint64_t h, next;

	ASSERT_EQ(0, hal_handle_alloc(TYPE, &s));
	EXPECT_EQ(0, hal_handle_of(TYPE, s));
	EXPECT_EQ(0, hal_handle_count(TYPE));
	h = hal_handle_publish(TYPE, s, &an_object);
	EXPECT_EQ(h, hal_handle_of(TYPE, s));
	EXPECT_EQ(1, hal_handle_count(TYPE));
	EXPECT_EQ(TYPE, hal_handle_type(h));
	EXPECT_EQ(s->index, hal_handle_index(h));
	EXPECT_EQ(s, hal_slot_at(TYPE, h));
	EXPECT_EQ(&an_object, hal_load_relaxed(&s->obj));
	EXPECT_EQ(0, get(h));
	hal_handle_retire(TYPE, s);
	EXPECT_EQ(-ESTALE, get(h));
	EXPECT_EQ(0, hal_handle_count(TYPE));
	hal_handle_restore(TYPE, s);
	EXPECT_EQ(0, get(h));
	EXPECT_EQ(1, hal_handle_count(TYPE));
	next = renew(s);
	EXPECT_EQ(-ESTALE, get(h));
	EXPECT_EQ(0, get(next));
	EXPECT_EQ(1, hal_handle_count(TYPE));
	hal_handle_retire(TYPE, s);
	hal_handle_free(TYPE, s);
	EXPECT_EQ(-ESTALE, get(next));
	/* the slot is used again, under another handle */
	ASSERT_EQ(0, hal_handle_alloc(TYPE, &s));
	EXPECT_EQ(hal_handle_index(h), s->index);
	next = hal_handle_publish(TYPE, s, &an_object);
	EXPECT_NE(h, next);
	EXPECT_EQ(-ESTALE, get(h));
	EXPECT_EQ(0, get(next));
}

TEST(numbers_that_are_no_handles)
{
	struct hal_slot *s;
	uint64_t h;

	EXPECT_EQ(-EBADF, get((uint64_t)TYPE << 56 | 1));	/* there is no slot at all yet */
	ASSERT_EQ(0, hal_handle_alloc(TYPE, &s));
	h = hal_handle_publish(TYPE, s, &an_object);
	EXPECT_EQ(-EINVAL, get(0));
	EXPECT_EQ(-EBADF, get(h & 0xffffffff));
	EXPECT_EQ(-EBADF, get((h & ~(0xffull << 56)) | (uint64_t)HAL_HANDLE_STREAM << 56));
	EXPECT_EQ(-EBADF, get((h & ~(0xffull << 56)) | (uint64_t)HAL_HANDLE_TYPES << 56));
	EXPECT_EQ(-EBADF, get(h | 0xffull << 56));
	EXPECT_EQ(-EBADF, get(h + 2));		/* a generation that is still to come */
	EXPECT_EQ(-EBADF, get(h - 2));		/* one before the seed */
	EXPECT_EQ(-EBADF, get(h + 1));
	EXPECT_EQ(-EBADF, get(h - 1));		/* even */
	EXPECT_EQ(-EBADF, get(h + (1ull << 32)));
	EXPECT_EQ(-EBADF, get(h | 0xffffffull << 32));
	hal_handle_retire(TYPE, s);
	/* the generation of a free slot is even: nobody may have a handle with it */
	EXPECT_EQ(-EBADF, get((h & ~0xffffffffull) | s->gen));
	EXPECT_NE('\0', hal_error_last()->text[0]);
}

TEST(seeds_differ)
{
	struct hal_slot *a, *b;

	ASSERT_EQ(0, hal_handle_alloc(HAL_HANDLE_MODULE, &a));
	ASSERT_EQ(0, hal_handle_alloc(HAL_HANDLE_CONTEXT, &b));
	EXPECT_EQ(0, a->gen & 1);
	EXPECT_EQ(0, b->gen & 1);
	/* one in a thousand million times this fails by chance */
	EXPECT_NE(hal_load_relaxed(&a->gen), hal_load_relaxed(&b->gen));
}

/* A slot whose generation would wrap is never used again. */
TEST(the_last_generation)
{
	struct hal_slot *s, *t;
	uint64_t h;

	ASSERT_EQ(0, hal_handle_alloc(TYPE, &s));
	s->gen = 0xfffffffau;
	h = hal_handle_publish(TYPE, s, &an_object);
	h = renew(s);
	EXPECT_EQ(0xfffffffdu, (uint32_t)h);
	EXPECT_EQ(0, renew(s));
	EXPECT_EQ(0, get(h));
	hal_handle_retire(TYPE, s);
	hal_handle_free(TYPE, s);
	EXPECT_EQ(-ESTALE, get(h));
	ASSERT_EQ(0, hal_handle_alloc(TYPE, &t));
	EXPECT_NE(s, t);
}

TEST(thousands)
{
	static uint64_t h[5000];
	struct hal_slot *s;
	uint32_t i;

	for (i = 0; i < 5000; i++) {
		ASSERT_EQ(0, hal_handle_alloc(TYPE, &s));
		h[i] = hal_handle_publish(TYPE, s, &h[i]);
	}
	EXPECT_EQ(5000, hal_handle_count(TYPE));
	for (i = 0; i < 5000; i++) {
		s = hal_slot_at(TYPE, h[i]);
		ASSERT_NE(NULL, s);
		ASSERT_EQ(&h[i], hal_load_relaxed(&s->obj));
		ASSERT_EQ(0, get(h[i]));
	}
	for (i = 0; i < 5000; i += 2) {
		s = hal_slot_at(TYPE, h[i]);
		hal_handle_retire(TYPE, s);
		hal_handle_free(TYPE, s);
	}
	for (i = 0; i < 5000; i++)
		ASSERT_EQ(i % 2 ? 0 : -ESTALE, get(h[i]));
}

TEST(the_table_is_bounded)
{
	struct hal_slot *s;
	uint32_t i;
	int rc = 0;

	for (i = 0; i <= CONFIG_HAL_HANDLES_MAX && !rc; i++)
		rc = hal_handle_alloc(TYPE, &s);
	EXPECT_EQ(-ENOSPC, rc);
	EXPECT_EQ(NULL, s);
	EXPECT_EQ(CONFIG_HAL_HANDLES_MAX + 1, i);
	EXPECT_EQ(-ENOSPC, hal_error_last()->code);
}

TEST(no_memory)
{
	struct hal_slot *s;

	hal_sys_set(&fake_sys);
	fake_sys_fail(FAKE_SYS_MMAP, 1, 1, ENOMEM);
	EXPECT_EQ(-ENOMEM, hal_handle_alloc(TYPE, &s));
	EXPECT_EQ(NULL, s);
	EXPECT_EQ(0, hal_handle_alloc(TYPE, &s));
	hal_sys_set(NULL);
}

static int visit(struct hal_slot *slot, void *arg)
{
	uint32_t *n = arg;

	(void)slot;
	return ++*n == 3 ? 33 : 0;
}

static int visit_all(struct hal_slot *slot, void *arg)
{
	uint32_t *last = arg;
	int rc = slot->index < *last;

	*last = slot->index;
	return rc;
}

TEST(all_in_use)
{
	struct hal_slot *s[6];
	uint32_t n = 0, i;

	EXPECT_EQ(0, hal_handle_for_each(TYPE, visit, &n));
	EXPECT_EQ(0, n);
	for (i = 0; i < 6; i++) {
		ASSERT_EQ(0, hal_handle_alloc(TYPE, &s[i]));
		if (i != 1)
			hal_handle_publish(TYPE, s[i], &an_object);
	}
	hal_handle_retire(TYPE, s[2]);
	EXPECT_EQ(33, hal_handle_for_each(TYPE, visit, &n));
	EXPECT_EQ(3, n);
	n = 10;
	EXPECT_EQ(0, hal_handle_for_each(TYPE, visit, &n));
	EXPECT_EQ(14, n);
	n = 0;
	EXPECT_EQ(0, hal_handle_for_each(TYPE, visit_all, &n));
	EXPECT_EQ(5, n);
}

static void *churn(void *arg)
{
	struct hal_slot *s;
	uint64_t h;
	int i;

	for (i = 0; i < 20000; i++) {
		if (hal_handle_alloc(TYPE, &s))
			return arg;
		h = hal_handle_publish(TYPE, s, arg);
		if (!hal_slot_is(hal_slot_at(TYPE, h), h) || hal_load_relaxed(&s->obj) != arg)
			return arg;
		hal_handle_retire(TYPE, s);
		if (hal_slot_is(s, h))
			return arg;
		hal_handle_free(TYPE, s);
	}
	return NULL;
}

TEST(many_threads)
{
	static int mine[4];
	pthread_t t[4];
	void *bad;
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, churn, &mine[i]));
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		EXPECT_EQ(NULL, bad);
	}
	EXPECT_EQ(0, hal_handle_count(TYPE));
}

/* ---- the submit lock ---- */

static struct hal_spin spin;
static uint64_t guarded;

static void *count_up(void *arg)
{
	int i;

	for (i = 0; i < 100000; i++) {
		hal_spin_lock(&spin);
		guarded++;
		hal_spin_unlock(&spin);
	}
	return arg;
}

TEST(spin_locks_exclude)
{
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, count_up, NULL));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(400000, guarded);
	EXPECT_TRUE(hal_spin_trylock(&spin));
	EXPECT_FALSE(hal_spin_trylock(&spin));
}

/* What CONFIG_DEBUG_LOCKS finds ends the program. */
static void misuse(int how)
{
	static _Atomic uint32_t word;
	static struct hal_spin a, b;

	switch (how) {
	case 0:	/* nothing wrong: two locks, in and out */
		hal_spin_lock(&a);
		hal_spin_lock(&b);
		hal_assert_held(&a, "test");
		hal_spin_unlock(&a);
		hal_spin_unlock(&b);
		free(hal_zalloc(8));
		break;
	case 1:
		hal_spin_unlock(&a);
		break;
	case 2:
		hal_assert_held(&a, "test");
		break;
	case 3:
		hal_spin_lock(&a);
		free(hal_zalloc(8));
		break;
	case 4:
		hal_spin_lock(&a);
		hal_sys_futex_wake(&word, 1);
		break;
	default:
		hal_spin_lock(&a);
		hal_spin_lock(&a);
	}
}

TEST(debug_locks)
{
	int how, status;
	pid_t pid;

	if (!IS_ENABLED(CONFIG_DEBUG_LOCKS))
		SKIP(return, "CONFIG_DEBUG_LOCKS is not set");
	for (how = 0; how <= 5; how++) {
		pid = fork();
		if (!pid) {
			close(2);
			misuse(how);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(how ? SIGABRT : 0, how ? WTERMSIG(status) : status)
			TH_LOG("case %d", how);
	}
}

TEST_HARNESS_MAIN
