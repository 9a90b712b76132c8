/* SPDX-License-Identifier: MIT */
/*
 * Small things that every layer uses: container_of, lists, reference counts,
 * the few atomic helpers, the submit lock.
 *
 * C11 atomics are used through these helpers alone, so that each order weaker
 * than seq_cst has its reason in one place.
 */
#ifndef HAL_BASE_H
#define HAL_BASE_H

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "npu/types.h"

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define HAL_CACHELINE 64

static inline uint64_t hal_align_up(uint64_t x, uint64_t a)
{
	return (x + a - 1) & ~(a - 1);
}

/* A doubly linked list; the head is a node of its own. */
struct hal_list {
	struct hal_list *next, *prev;
};

static inline void hal_list_init(struct hal_list *l)
{
	l->next = l->prev = l;
}

static inline bool hal_list_empty(const struct hal_list *l)
{
	return l->next == l;
}

static inline void hal_list_add_tail(struct hal_list *head, struct hal_list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

/* Takes a node out; it may be taken out again, or put in again. */
static inline void hal_list_del(struct hal_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	hal_list_init(n);
}

static inline uint32_t hal_list_count(const struct hal_list *head)
{
	const struct hal_list *n;
	uint32_t count = 0;

	for (n = head->next; n != head; n = n->next)
		count++;
	return count;
}

#define hal_list_entry(node, type, member) container_of(node, type, member)
#define hal_list_for_each(pos, head) \
	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define hal_list_for_each_safe(pos, tmp, head) \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head); \
	     (pos) = (tmp), (tmp) = (pos)->next)

/*
 * Atomic helpers. Acquire loads pair with release stores: whoever sees the
 * value sees what was written before it. Relaxed is for values that carry no
 * other data with them: statistics, hints that are checked again under a lock.
 */
#define hal_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define hal_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hal_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define hal_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define hal_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)

/* The same on plain memory shared with a device (rings, timelines). */
#define hal_shm_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define hal_shm_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define hal_shm_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define hal_shm_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/*
 * For a function that reads what others may write meanwhile, atomically on one side only, as a hint
 * that is checked again. clang's no_sanitize("thread") leaves its atomics instrumented.
 */
#if defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define HAL_NO_TSAN __attribute__((disable_sanitizer_instrumentation))
#else
#define HAL_NO_TSAN __attribute__((no_sanitize("thread")))
#endif

static inline void hal_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* Reference counts. */
struct kref {
	_Atomic uint32_t count;
};

static inline void kref_init(struct kref *k)
{
	hal_store_relaxed(&k->count, 1);
}

static inline void kref_get(struct kref *k)
{
	/* relaxed: the caller has a reference already, nothing is published by one more */
	atomic_fetch_add_explicit(&k->count, 1, memory_order_relaxed);
}

/* For weak look-ups, under the lock of the table that found the object. */
static inline bool kref_get_unless_zero(struct kref *k)
{
	uint32_t c = hal_load_relaxed(&k->count);

	do {
		if (!c)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&k->count, &c, c + 1,
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

/* Returns true when this was the last one, after having called release. */
static inline bool kref_put(struct kref *k, void (*release)(struct kref *))
{
	/* acq_rel: what others did before their put is done before the release */
	if (atomic_fetch_sub_explicit(&k->count, 1, memory_order_acq_rel) != 1)
		return false;
	release(k);
	return true;
}

/*
 * A lock for a few dozen instructions that never block: taken by one exchange,
 * given back by one store. Holders make no system call and take no other lock.
 */
struct hal_spin {
	_Atomic uint32_t word;
};

void hal_spin_lock_slow(struct hal_spin *l);

/*
 * With CONFIG_DEBUG_LOCKS each thread knows which spin locks it holds. One that
 * takes a lock twice, gives back what it does not hold, lacks a lock where it needs
 * it, or may block while it holds one, ends the program with a line that says so.
 */
void hal_debug_spin_taking(const struct hal_spin *l);
void hal_debug_spin_taken(const struct hal_spin *l);
void hal_debug_spin_given(const struct hal_spin *l);
void hal_debug_spin_held(const struct hal_spin *l, const char *where);
void hal_debug_may_block(const char *where);

#define HAL_DEBUG_LOCKS IS_ENABLED(CONFIG_DEBUG_LOCKS)

static inline void hal_spin_lock(struct hal_spin *l)
{
	if (HAL_DEBUG_LOCKS)
		hal_debug_spin_taking(l);
	if (unlikely(atomic_exchange_explicit(&l->word, 1, memory_order_acquire)))
		hal_spin_lock_slow(l);
	if (HAL_DEBUG_LOCKS)
		hal_debug_spin_taken(l);
}

static inline bool hal_spin_trylock(struct hal_spin *l)
{
	bool taken = !atomic_exchange_explicit(&l->word, 1, memory_order_acquire);

	if (HAL_DEBUG_LOCKS && taken)
		hal_debug_spin_taken(l);
	return taken;
}

static inline void hal_spin_unlock(struct hal_spin *l)
{
	if (HAL_DEBUG_LOCKS)
		hal_debug_spin_given(l);
	hal_store_release(&l->word, 0);
}

/* For functions that need the lock; costs nothing without CONFIG_DEBUG_LOCKS. */
static inline void hal_assert_held(const struct hal_spin *l, const char *where)
{
	if (HAL_DEBUG_LOCKS)
		hal_debug_spin_held(l, where);
}

/* For functions that may block, or run code that is not ours. */
static inline void hal_assert_may_block(const char *where)
{
	if (HAL_DEBUG_LOCKS)
		hal_debug_may_block(where);
}

#endif /* HAL_BASE_H */
