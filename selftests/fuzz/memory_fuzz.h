/* SPDX-License-Identifier: MIT */
/*
 * The cache of device memory against a shadow model of it.
 *
 * The model knows each block: where it is, whose it is, which streams use it, and what it waits
 * for. Streams are held by a device that does nothing else: a stream that is held has not done its
 * work, and any other one has. So the model knows at any time what the cache has to say.
 */
#ifndef SELFTESTS_FUZZ_MEMORY_FUZZ_H
#define SELFTESTS_FUZZ_MEMORY_FUZZ_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "npu/npu.h"

/* Devices that memory is allocated on, and behind them those that hold streams. */
#define MF_DEVICES 2
#define MF_HOLDS 3
#define MF_STREAMS 8
#define MF_BLOCKS 192
/* Two small or large kinds, as in struct npu_mem_stats. */
#define MF_KINDS 2

enum mf_state {
	MF_NONE,
	MF_LIVE,	/* the program's */
	MF_WAIT,	/* freed, streams use it */
};

/**
 * struct mf_block - a block, as the model has it
 * @state: enum mf_state
 * @dev: its device
 * @kind: 0: small, 1: large
 * @plain: allocated while the cache was off
 * @stream: handle of the stream that it was allocated for
 * @ptr: where it is
 * @bytes: its bytes
 * @asked: those that were asked for
 * @uses: a bit for each stream that was recorded; of a block that waits: that is waited for
 * @mark: what was written to its first and last bytes, 0: nothing
 * @tag: npu_mem_set_tag()
 * @pool: number of the private pool that it lies in, 0: none
 */
struct mf_block {
	uint32_t state;
	uint32_t dev;
	uint32_t kind;
	uint32_t tag;
	bool plain;
	uint64_t stream;
	char *ptr;
	size_t bytes;
	size_t asked;
	uint32_t uses;
	uint64_t mark;
	uint64_t pool;
};

/**
 * struct mf_stream - a stream that memory is allocated for
 * @h: the stream
 * @hold: who holds it, -1: nobody
 */
struct mf_stream {
	npu_stream h;
	int hold;
};

/**
 * struct mf_figures - what the statistics of one kind on one device have to say
 * @blocks: live blocks
 * @bytes: their bytes
 * @active: the same and blocks that wait
 * @active_bytes: their bytes
 * @requested: what was asked for of these
 * @waiting: bytes of blocks that wait
 * @sum: blocks that were ever allocated
 * @sum_bytes: their bytes
 * @peak: the most of @blocks
 * @peak_bytes: the most of @bytes
 * @was: @blocks as sums were reset
 * @was_active: @active then
 */
struct mf_figures {
	uint64_t blocks;
	uint64_t bytes;
	uint64_t active;
	uint64_t active_bytes;
	uint64_t requested;
	uint64_t waiting;
	uint64_t sum;
	uint64_t sum_bytes;
	uint64_t peak;
	uint64_t peak_bytes;
	uint64_t was;
	uint64_t was_active;
};

/**
 * struct mf - the model
 * @seed: what the run can be repeated by
 * @op: which operation this is
 * @rng: where the dice are
 * @block: the blocks
 * @stream: the streams; those with even numbers are on device 0
 * @fig: figures by device and kind; the last one of each: both kinds
 * @base: bytes of device memory in use without the cache
 * @align: option mem_block_align
 * @divisions: option mem_roundup_power2_divisions
 * @split: option mem_max_split_mb
 * @gc: option mem_gc_threshold
 * @caching: option mem_caching
 * @growable: option mem_growable
 * @asleep: memory of the device sleeps
 * @pool: a private pool of the device, or none
 * @pool_tag: the tag of blocks there
 * @reclaims: functions of npu_mem_add_reclaim() free something
 */
struct mf {
	uint64_t seed;
	uint64_t op;
	uint64_t rng;
	struct mf_block block[MF_BLOCKS];
	struct mf_stream stream[MF_STREAMS];
	struct mf_figures fig[MF_DEVICES][MF_KINDS + 1];
	uint64_t base[MF_DEVICES];
	size_t align;
	uint32_t divisions;
	uint32_t split;
	uint32_t gc;
	bool caching;
	bool growable;
	bool asleep[MF_DEVICES];
	npu_mem_pool pool[MF_DEVICES];
	uint32_t pool_tag[MF_DEVICES];
	bool reclaims;
};

extern struct mf mf;

/* Prints what is wrong, with the seed and the operation, and aborts. */
void mf_fail(const char *file, int line, const char *cond, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), noreturn));
#define MF_CHECK(cond, ...)						\
	do {								\
		if (!(cond))						\
			mf_fail(__FILE__, __LINE__, #cond, __VA_ARGS__); \
	} while (0)

/* Numbers by seed. */
static inline uint64_t mf_random(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng * 0x2545f4914f6cdd1dull >> 11;
}

static inline uint32_t mf_below(uint64_t *rng, uint32_t n)
{
	return (uint32_t)(mf_random(rng) % n);
}

/* Sizes as programs ask for them: many small ones, few large ones, odd and even. */
size_t mf_size(uint64_t *rng);

/* ---- memory_hold.c: streams that do not go on ---- */

void mf_holds_begin(void);
void mf_holds_end(void);
/* A hold that nobody has, or -1. */
int mf_hold_take(void);
/* From now on the stream is held. */
void mf_hold(int hold, npu_stream s);
/* The stream goes on, and comes to its end. */
void mf_unhold(int hold, npu_stream s);

/* ---- memory_model.c: the model ---- */

struct mf_block *mf_live(uint32_t dev, uint64_t *rng);
/* The block has become the program's. */
void mf_took(struct mf_block *b, char *ptr, size_t asked, uint32_t stream);
/* The program is about to free it. */
void mf_give(struct mf_block *b);
/* A stream has done its work. */
void mf_done(uint32_t stream);
/* The stream that a block belongs to: what one leaves that is gone is another one's. */
uint64_t mf_owner(struct mf_block *b);
/* A stream is gone. */
void mf_gone(uint32_t stream);
/* Peaks, and sums, begin anew. */
void mf_reset_peak(uint32_t dev);
void mf_reset_sums(uint32_t dev);
/* Bytes as they are served. */
size_t mf_rounded(size_t asked);
/* The device is closed. */
void mf_lost(uint32_t dev);
/* What is in its first and last bytes. */
void mf_mark(struct mf_block *b, uint64_t mark);
void mf_look(const struct mf_block *b);
/* All that can be asked of a device. */
void mf_compare(uint32_t dev);

/* ---- memory_ops.c: what is done ---- */

/* A new life of the library, with other options. */
void mf_begin(bool reclaims);
void mf_end(void);
/* No stream is held any more, and the model is right. */
void mf_compare_all(void);
/* One operation. */
void mf_step(void);

/* What the caller knows could be refused is not to be: else NULL is an answer, too. */
struct mf_block *mf_alloc(size_t size, uint32_t stream, bool refused);
/* Bytes of the device that nobody has. */
size_t mf_device_free(uint32_t dev);
/* No stream is held any more. */
void mf_calm(void);

/* ---- memory_sleep.c: memory that is given back for a while ---- */

/* Tags that blocks get, from 1 on. */
#define MF_TAGS 3
void mf_tag(uint32_t dev);
/* To sleep, if it can; or it is tried, and nothing has changed. */
void mf_sleep(uint32_t dev);
/* Wakes it, perhaps not at the first attempt. */
void mf_wake(uint32_t dev);

/* ---- memory_pool.c: private pools ---- */

/* Something with the pool of the stream's device, which is made if there is none. */
void mf_pool(uint32_t stream);
/* Bytes that it has, free or not. */
uint64_t mf_pool_bytes(uint32_t dev);
/* Ends it, if there is one. */
void mf_pool_end(uint32_t dev);
/* It has ended with the device. */
void mf_pool_lost(uint32_t dev);

/* ---- memory_storm.c: all at once ---- */

void mf_storm(uint64_t seed, uint64_t ops);

#endif /* SELFTESTS_FUZZ_MEMORY_FUZZ_H */
