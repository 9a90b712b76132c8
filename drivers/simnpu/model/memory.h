/* SPDX-License-Identifier: MIT */
/* The simulated device, inside: arenas and device memory. Included by model.h. */
#ifndef DRIVERS_SIMNPU_MODEL_MEMORY_H
#define DRIVERS_SIMNPU_MODEL_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "hal/base.h"
#include "hal/range.h"

struct model_context;
struct model_mem;

/* ---- arenas --------------------------------------------------------------- */

#define MODEL_CELL		128u
#define MODEL_CELLS_SIZE	(32ull << 20)	/* headers and stamps; then come the segments */
#define MODEL_SEG_MIN		16u
#define MODEL_SEG_CLASSES	9u	/* 16 .. 4096 slots */

/**
 * struct model_seg - a ring segment
 * @next: in the queue's list, or in the arena's free list
 * @offset: in the arena
 * @slots: slots
 */
struct model_seg {
	struct model_seg *next;
	uint64_t offset;
	uint32_t slots;
};

/**
 * struct model_arena - shared memory of a context
 * @lock: Protects: the free lists
 * @base: its first byte
 * @size: bytes reserved
 * @cells: cells handed out so far
 * @cells_ready: bytes of cells that can be written
 * @segs: first byte behind the segments handed out so far
 * @segs_ready: end of what can be written
 * @free_cells: cells to use again, indices
 * @free_cell_count: how many
 * @free_stamps: stamps to use again, in units of eight bytes
 * @free_stamp_count: how many
 * @free_segs: segments to use again, by size
 * @next: in the pool of arenas that wait for a context
 */
struct model_arena {
	struct hal_spin lock;
	char *base;
	uint64_t size;
	uint32_t cells;
	uint64_t cells_ready;
	uint64_t segs;
	uint64_t segs_ready;
	uint32_t *free_cells;
	uint32_t free_cell_count;
	uint32_t *free_stamps;
	uint32_t free_stamp_count;
	struct model_seg *free_segs[MODEL_SEG_CLASSES];
	struct model_arena *next;
};

void model_arena_in_child(void);
int model_arena_get(struct model_arena **arena);
void model_arena_put(struct model_arena *a);
int model_arena_cell(struct model_arena *a, uint64_t *offset);
void model_arena_cell_free(struct model_arena *a, uint64_t offset);
int model_arena_stamp(struct model_arena *a, uint64_t *offset);
void model_arena_stamp_free(struct model_arena *a, uint64_t offset);
int model_arena_seg(struct model_arena *a, uint32_t slots, struct model_seg **seg);
void model_arena_seg_free(struct model_arena *a, struct model_seg *seg);

/* ---- device memory ---------------------------------------------------------- */

#define MODEL_BINS 48u
/* Addresses that can be reserved, in times of the memory. */
#define MODEL_VM_FACTOR 16u
#define MODEL_POISON_MAX 64u	/* ranges hit by uncorrectable errors that are told apart */

/* What may be done with memory by default. */
#define MODEL_RW (SIMNPU_VM_READ | SIMNPU_VM_WRITE)

/* What is about to be done with a range. */
enum model_access { MODEL_READ, MODEL_WRITE, MODEL_REWRITE };

/**
 * struct model_extent - a piece of the device's addresses: free, allocated, or mapped
 * @range: addresses; in the map while engines may find it
 * @prev: the extent below
 * @next: the extent above
 * @bin: in the list of free extents of its size
 * @size: what was asked for, while allocated: no access goes beyond
 * @bytes: the same, but 0 when an uncorrectable error has hit it, or when not all may be done with
 *	it: see poison.c
 * @access: SIMNPU_VM_*: what may be done with it
 * @used: allocated
 * @huge: its pages were asked to be huge
 * @file: descriptor of the file that it lies in, plus 1; 0: in none. See share.c
 * @object: number of that file, if another process may have it
 * @foreign: it is another process's, and not in this one's account
 * @apart: its bytes are mapped elsewhere, or nowhere: see vm.c
 * @managed: the host finds it at its address: see managed.c
 */
struct model_extent {
	struct hal_range range;
	struct model_extent *prev, *next;
	struct hal_list bin;
	uint64_t size;
	uint64_t bytes;
	uint32_t access;
	bool used;
	bool huge;
	bool foreign;
	int file;
	uint64_t object;
	bool apart;
	bool managed;
};

/**
 * struct model_space - addresses that are given out in pieces
 * @first: the lowest extent
 * @bins: free extents, by the logarithm of their size
 */
struct model_space {
	struct model_extent *first;
	struct hal_list bins[MODEL_BINS];
};

/* space.c */
int model_space_init(struct model_space *s, uint64_t start, uint64_t size);
void model_space_fini(struct model_space *s);
struct model_extent *model_space_get(struct model_space *s, uint64_t size, uint64_t align);
int model_space_get_at(struct model_space *s, uint64_t start, uint64_t size,
		       struct model_extent **ext);
void model_space_put(struct model_space *s, struct model_extent *e);

/**
 * struct model_memory - memory of a device
 * @lock: Protects: @plain, @vm, @present
 * @map_lock: Protects: @used, as engines see it, @poison
 * @used: what is allocated
 * @epoch: changes when something is freed
 * @start: lowest device address
 * @size: bytes of addresses
 * @delta: from a device address to where its byte lies
 * @data: where the byte at @start lies
 * @data_map: the mapping that @data lies in
 * @va_map: the mapping that @start lies in, or NULL: the same
 * @protect: pages have to be made writable first
 * @total: bytes that may be allocated
 * @plain: addresses of allocations, from @start on
 * @plain_size: bytes of them
 * @vm: addresses of reservations, behind them
 * @present: a bit per page of @plain that is there
 * @poison: what uncorrectable errors have hit
 * @poison_count: how many ranges
 */
struct model_memory {
	pthread_mutex_t lock;
	struct hal_spin map_lock;
	struct hal_range_map used;
	uint64_t epoch;
	uint64_t start;
	uint64_t size;
	uint64_t delta;
	char *data;
	void *data_map;
	void *va_map;
	bool protect;
	uint64_t total;
	struct model_space plain;
	uint64_t plain_size;
	struct model_space vm;
	uint64_t *present;
	struct hal_range poison[MODEL_POISON_MAX];
	uint32_t poison_count;
};

/* Where the bytes of a device address lie. */
static inline void *model_memory_data(const struct model_memory *m, uint64_t addr)
{
	return (void *)(uintptr_t)(addr + m->delta);
}

void model_memory_in_child(void);
int model_memory_init(struct model_memory *m, uint64_t total, bool strict);
void model_memory_fini(struct model_memory *m);
int model_memory_alloc(struct model_memory *m, uint64_t size, uint64_t align, uint32_t flags,
		       struct model_extent **ext);
void model_memory_free(struct model_memory *m, struct model_extent *ext);
bool model_memory_find(struct model_memory *m, uint64_t addr, uint64_t size, char **host,
		       struct hal_range *range);
int model_memory_charge(struct model_memory *m, uint64_t size);
void model_memory_uncharge(struct model_memory *m, uint64_t size);
void model_memory_forget(struct model_memory *m, const struct model_extent *e);
void model_memory_publish(struct model_memory *m, struct model_extent *e, uint64_t bytes);
int model_memory_clear(struct model_memory *m, uint64_t addr, uint64_t size);
bool model_poison_add(struct model_memory *m, uint64_t addr, uint64_t size);
bool model_poison_drop(struct model_memory *m, const struct hal_range *r);
void model_poison_limit(struct model_memory *m, struct model_extent *e);
void model_poison_clear(struct model_memory *m);
int model_poison_find(struct model_memory *m, uint64_t addr, uint64_t size,
		      enum model_access access, char **host);
/* vm.c */
int model_memory_file(uint64_t size);
void model_memory_file_close(int fd);
/* managed.c */
int model_managed_alloc(struct model_memory *m, struct model_extent *e);
int model_managed_free(struct model_memory *m, struct model_extent *e);
/* share.c */
void model_share_in_child(void);
int model_share_alloc(struct model_memory *m, struct model_extent *e);
int model_share_free(struct model_memory *m, struct model_extent *e);
int model_share_file(uint64_t size);
void model_share_close(int fd);
void model_share_orphan(struct model_mem *mem);

/* Whether an extent lies in a file of its own. */
static inline bool model_shared(const struct model_extent *e)
{
	return IS_ENABLED(CONFIG_SIMNPU_INSTANCES) && e->file;
}

/* account.c */
int model_budget_charge(uint64_t size);
void model_budget_uncharge(uint64_t size);
void model_populate(char *p, uint64_t size, int *rc);

/**
 * struct model_reserve - addresses that were reserved
 * @range: the addresses, in the context's map
 * @ext: the same, taken out of model_memory.vm
 */
struct model_reserve {
	struct hal_range range;
	struct model_extent *ext;
};

/**
 * struct model_mapping - memory at reserved addresses
 * @range: the addresses, in the context's map
 * @run: with those that follow and allow the same: what engines find. Theirs are not in use
 * @mem: the memory
 * @access: SIMNPU_VM_*
 */
struct model_mapping {
	struct hal_range range;
	struct model_extent run;
	struct model_mem *mem;
	uint32_t access;
};

/**
 * struct model_mem - an allocation, host memory or registration behind a handle
 * @node: in the context's list
 * @ctx: the context
 * @handle: the handle; 0: it was destroyed, and what is left is mapped
 * @ext: device memory; of memory without an address, where its pages are while it is not mapped
 * @fd: file that memory without an address lies in, -1: @ext
 * @host: host memory
 * @size: bytes
 * @locked: its pages are locked
 * @pin: in the list of what is locked
 * @registered: it is the caller's
 * @mapping: where memory without an address is mapped, or NULL
 * @physical: device memory without an address of its own
 * @foreign: it is another process's, and not in this one's account
 * @hit: an uncorrectable error had hit it when it was unmapped, in the generation before this one;
 *	0: none had
 * @share: what another process's memory is called in the file of the instance, 0: it is ours
 * @object: what memory without an address is called there that was exported, 0: it was not
 */
struct model_mem {
	struct hal_list node;
	struct model_context *ctx;
	uint32_t handle;
	struct model_extent *ext;
	int fd;
	char *host;
	uint64_t size;
	bool locked;
	struct hal_list pin;
	bool registered;
	bool physical;
	bool foreign;
	struct model_mapping *mapping;
	uint32_t hit;
	uint32_t share;
	uint64_t object;
};

#endif /* DRIVERS_SIMNPU_MODEL_MEMORY_H */
