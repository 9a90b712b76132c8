// SPDX-License-Identifier: MIT
/*
 * The shadow model: what there has to be, and whether it is so.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/simnpu/simnpu_test.h"
#include "hal/base.h"
#include "selftests/fuzz/memory_fuzz.h"
#include "selftests/json_read.h"

#define MIB (1u << 20)

struct mf mf;

void mf_fail(const char *file, int line, const char *cond, const char *fmt, ...)
{
	struct npu_error e = { .size = sizeof(e) };
	va_list ap;

	printf("# %s:%d: %s: ", file, line, cond);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n# SEED=%llu, operation %llu", (unsigned long long)mf.seed,
	       (unsigned long long)mf.op);
	if (!npu_last_error(&e))
		printf("; the last error: %s", e.text);
	printf("\n");
	fflush(stdout);
	abort();
}

size_t mf_size(uint64_t *rng)
{
	uint32_t shift = 1 + mf_below(rng, mf_below(rng, 16) ? 21 : 25), near;
	size_t size = 1 + mf_random(rng) % ((size_t)1 << shift);

	/* next to what is rounded to */
	if (!mf_below(rng, 4)) {
		near = mf_below(rng, 5);
		size = ((size_t)1 << shift) + near;
		size = size > 2 ? size - 2 : size;
	}
	return size;
}

/* ---- what changes ------------------------------------------------------------------------- */

struct mf_block *mf_live(uint32_t dev, uint64_t *rng)
{
	uint32_t i, at = mf_below(rng, MF_BLOCKS);
	struct mf_block *b;

	for (i = 0; i < MF_BLOCKS; i++) {
		b = &mf.block[(at + i) % MF_BLOCKS];
		if (b->state == MF_LIVE && b->dev == dev)
			return b;
	}
	return NULL;
}

size_t mf_rounded(size_t asked)
{
	size_t s = (size_t)hal_align_up(asked, mf.align), step;

	if (mf.divisions > 1 && s > 512u * mf.divisions) {
		for (step = 1; step * 2 <= s; step *= 2)
			;
		s = (size_t)hal_align_up(hal_align_up(s, step / mf.divisions), mf.align);
	}
	return s;
}

/* By what a figure changes. */
static void count(const struct mf_block *b, int live, int active)
{
	struct mf_figures *f;
	uint32_t k;

	for (k = 0; k < 2; k++) {
		f = &mf.fig[b->dev][k ? MF_KINDS : b->kind];
		f->blocks += (uint64_t)(int64_t)live;
		f->bytes += (uint64_t)((int64_t)b->bytes * live);
		f->active += (uint64_t)(int64_t)active;
		f->active_bytes += (uint64_t)((int64_t)b->bytes * active);
		f->requested += (uint64_t)((int64_t)b->asked * active);
		f->waiting += (uint64_t)((int64_t)b->bytes * (active - live));
		if (live < 0)
			continue;
		f->sum += (uint64_t)live;
		f->sum_bytes += b->bytes * (uint64_t)live;
		f->peak = f->blocks > f->peak ? f->blocks : f->peak;
		f->peak_bytes = f->bytes > f->peak_bytes ? f->bytes : f->peak_bytes;
	}
}

static void check_place(const struct mf_block *b, const struct npu_mem_block *i)
{
	const struct mf_block *o;
	size_t need = mf_rounded(b->asked);
	char *seg = i->segment;

	MF_CHECK(i->base == b->ptr && i->requested == b->asked && i->device == (int)b->dev &&
		 i->stream.h == b->stream, "%p: %p, %zu, %d", b->ptr, i->base, i->requested,
		 i->device);
	MF_CHECK(!((uintptr_t)b->ptr % mf.align), "%p", b->ptr);
	MF_CHECK(b->bytes >= need, "%zu for %zu", b->bytes, b->asked);
	MF_CHECK((b->kind && mf.split) || b->bytes - need <= (b->kind ? MIB : 0),
		 "%zu for %zu", b->bytes, b->asked);
	MF_CHECK(b->ptr >= seg && b->ptr + b->bytes <= seg + i->segment_bytes,
		 "%p of %p", b->ptr, seg);
	for (o = mf.block; o < mf.block + MF_BLOCKS; o++)
		MF_CHECK(o == b || !o->state || b->ptr + b->bytes <= o->ptr ||
			 o->ptr + o->bytes <= b->ptr, "%p lies over %p, which %s", b->ptr, o->ptr,
			 o->state == MF_LIVE ? "is in use" : "waits");
}

void mf_took(struct mf_block *b, char *ptr, size_t asked, uint32_t stream)
{
	struct npu_mem_block i = { .size = sizeof(i) };

	*b = (struct mf_block){ .dev = stream % MF_DEVICES, .ptr = ptr, .asked = asked };
	b->stream = mf.stream[stream].h.h;
	b->plain = !mf.caching;
	b->kind = mf_rounded(asked) > MIB;
	/* the driver gets it back when its own stream is done */
	if (b->plain)
		b->uses = 1u << stream;
	MF_CHECK(!npu_mem_get_block(ptr, &i), "%p", ptr);
	b->bytes = i.bytes;
	b->pool = i.pool;
	b->state = MF_LIVE;
	check_place(b, &i);
	count(b, 1, 1);
}

static uint32_t held(uint32_t uses)
{
	uint32_t i, out = 0;

	for (i = 0; i < MF_STREAMS; i++)
		if (uses & 1u << i && mf.stream[i].hold >= 0)
			out |= 1u << i;
	return out;
}

void mf_give(struct mf_block *b)
{
	b->uses = held(b->uses);
	b->state = b->uses ? MF_WAIT : MF_NONE;
	count(b, -1, b->uses ? 0 : -1);
}

void mf_done(uint32_t stream)
{
	struct mf_block *b;

	for (b = mf.block; b < mf.block + MF_BLOCKS; b++) {
		if (b->state != MF_WAIT || !(b->uses & 1u << stream))
			continue;
		b->uses &= ~(1u << stream);
		if (b->uses)
			continue;
		b->state = MF_NONE;
		count(b, 0, -1);
	}
}

uint64_t mf_owner(struct mf_block *b)
{
	struct npu_mem_block i = { .size = sizeof(i) };
	uint32_t s;

	for (s = 0; s < MF_STREAMS; s++)
		if (mf.stream[s].h.h == b->stream)
			return b->stream;
	MF_CHECK(!npu_mem_get_block(b->ptr, &i), "%p", b->ptr);
	b->stream = i.stream.h;
	return b->stream;
}

void mf_gone(uint32_t stream)
{
	struct mf_block *b;

	mf_done(stream);
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		b->uses &= ~(1u << stream);
}

void mf_reset_peak(uint32_t dev)
{
	struct mf_figures *f;

	for (f = mf.fig[dev]; f <= &mf.fig[dev][MF_KINDS]; f++) {
		f->peak = f->blocks;
		f->peak_bytes = f->bytes;
	}
}

void mf_reset_sums(uint32_t dev)
{
	struct mf_figures *f;

	for (f = mf.fig[dev]; f <= &mf.fig[dev][MF_KINDS]; f++) {
		f->sum = f->sum_bytes = 0;
		f->was = f->blocks;
		f->was_active = f->active;
	}
}

void mf_lost(uint32_t dev)
{
	struct mf_block *b;

	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (b->dev == dev)
			b->state = MF_NONE;
	memset(mf.fig[dev], 0, sizeof(mf.fig[dev]));
}

/* ---- what is in it -------------------------------------------------------------------------- */

void mf_mark(struct mf_block *b, uint64_t mark)
{
	if (b->asked < 2 * sizeof(mark))
		return;
	b->mark = mark;
	MF_CHECK(!npu_memcpy(b->ptr, &mark, sizeof(mark), NPU_COPY_H2D), "%p", b->ptr);
	MF_CHECK(!npu_memcpy(b->ptr + b->asked - sizeof(mark), &mark, sizeof(mark), NPU_COPY_H2D),
		 "%p", b->ptr);
}

void mf_look(const struct mf_block *b)
{
	uint64_t got[2] = { 0 };

	if (!b->mark || mf.asleep[b->dev])
		return;
	MF_CHECK(!npu_memcpy(&got[0], b->ptr, sizeof(got[0]), NPU_COPY_D2H), "%p", b->ptr);
	MF_CHECK(!npu_memcpy(&got[1], b->ptr + b->asked - sizeof(got[1]), sizeof(got[1]),
			     NPU_COPY_D2H), "%p", b->ptr);
	MF_CHECK(got[0] == b->mark && got[1] == b->mark, "%p of %zu bytes: %llx, %llx, not %llx",
		 b->ptr, b->asked, (unsigned long long)got[0], (unsigned long long)got[1],
		 (unsigned long long)b->mark);
}

/* ---- whether it is so ------------------------------------------------------------------------ */

static void same(const char *name, uint32_t dev, uint32_t k, uint64_t want, uint64_t is)
{
	MF_CHECK(want == is, "device %u, %s[%u]: %llu, not %llu", dev, name, k,
		 (unsigned long long)is, (unsigned long long)want);
}

static void compare_kind(uint32_t dev, uint32_t k, const struct npu_mem_stats *s)
{
	/* both kinds stand first there */
	const struct mf_figures *f = &mf.fig[dev][k ? k - 1 : MF_KINDS];

	same("allocation", dev, k, f->blocks, s->allocation[k].current);
	same("allocated_bytes", dev, k, f->bytes, s->allocated_bytes[k].current);
	same("active", dev, k, f->active, s->active[k].current);
	same("active_bytes", dev, k, f->active_bytes, s->active_bytes[k].current);
	same("requested_bytes", dev, k, f->requested, s->requested_bytes[k].current);
	same("allocation.allocated", dev, k, f->sum, s->allocation[k].allocated);
	same("allocation.freed", dev, k, f->was + f->sum - f->blocks, s->allocation[k].freed);
	same("allocated_bytes.allocated", dev, k, f->sum_bytes, s->allocated_bytes[k].allocated);
	same("active.freed", dev, k, f->was_active + f->sum - f->active, s->active[k].freed);
	same("allocation.peak", dev, k, f->peak, s->allocation[k].peak);
	same("allocated_bytes.peak", dev, k, f->peak_bytes, s->allocated_bytes[k].peak);
	MF_CHECK(s->active[k].peak >= f->active && s->reserved_bytes[k].peak >=
		 s->reserved_bytes[k].current, "device %u, kind %u", dev, k);
	MF_CHECK(s->reserved_bytes[k].current >= f->active_bytes +
		 s->inactive_split_bytes[k].current, "device %u, kind %u", dev, k);
}

/* ---- what a snapshot says ------------------------------------------------------------------- */

#define SHOT ".segments[].blocks[]"

/**
 * struct shot - a snapshot
 * @text: the text
 * @size: its bytes
 * @addr: where the block lies that is being read
 * @bytes: its size
 * @asked: what was asked for
 * @live: blocks in use
 * @waits: blocks that wait
 */
struct shot {
	char *text;
	size_t size;
	uint64_t addr;
	uint64_t bytes;
	uint64_t asked;
	uint64_t live;
	uint64_t waits;
};

static int shot_write(const char *text, size_t size, void *arg)
{
	struct shot *s = arg;

	s->text = realloc(s->text, s->size + size + 1);
	MF_CHECK(s->text, "no memory");
	memcpy(s->text + s->size, text, size);
	s->size += size;
	s->text[s->size] = '\0';
	return 0;
}

static void shot_leaf(const char *path, const char *text, void *arg)
{
	uint64_t n = strtoull(text, NULL, 10);
	const struct mf_block *b;
	struct shot *s = arg;

	if (!strcmp(path, SHOT ".address"))
		s->addr = n;
	else if (!strcmp(path, SHOT ".size"))
		s->bytes = n;
	else if (!strcmp(path, SHOT ".requested_size"))
		s->asked = n;
	if (strcmp(path, SHOT ".state") || !strcmp(text, "inactive"))
		return;
	for (b = mf.block; b < mf.block + MF_BLOCKS; b++)
		if (b->state && (uintptr_t)b->ptr == s->addr)
			break;
	MF_CHECK(b < mf.block + MF_BLOCKS && b->bytes == s->bytes && b->asked == s->asked &&
		 !strcmp(text, b->state == MF_LIVE ? "active_allocated" : "active_pending_free"),
		 "%llx of %llu bytes is %s", (unsigned long long)s->addr,
		 (unsigned long long)s->bytes, text);
	if (b->state == MF_LIVE)
		s->live++;
	else
		s->waits++;
}

static void compare_snapshot(uint32_t dev)
{
	const struct mf_figures *f = &mf.fig[dev][MF_KINDS];
	struct shot s = { .size = 0 };

	if (!IS_ENABLED(CONFIG_MEM_SNAPSHOT))
		return;
	MF_CHECK(!npu_mem_snapshot((int)dev, shot_write, &s), "device %u", dev);
	MF_CHECK(json_read(s.text, shot_leaf, &s), "%.100s", s.text);
	MF_CHECK(s.live == f->blocks && s.live + s.waits == f->active, "device %u: %llu and %llu",
		 dev, (unsigned long long)s.live, (unsigned long long)s.waits);
	free(s.text);
}

void mf_compare(uint32_t dev)
{
	struct npu_mem_stats s = { .size = sizeof(s) };
	struct simnpu_test_device d;
	uint64_t reserved;
	uint32_t k;

	compare_snapshot(dev);
	MF_CHECK(!npu_mem_get_stats((int)dev, &s), "device %u", dev);
	for (k = 0; k < NPU_MEM_KINDS; k++)
		compare_kind(dev, k, &s);
	reserved = s.reserved_bytes[NPU_MEM_ALL].current;
	same("waiting_bytes", dev, 0, mf.fig[dev][MF_KINDS].waiting, s.waiting_bytes);
	same("cached_bytes", dev, 0, reserved - mf.fig[dev][MF_KINDS].active_bytes,
	     s.cached_bytes);
	MF_CHECK(s.largest_free <= s.cached_bytes, "device %u", dev);
	MF_CHECK(simnpu_test_device(dev, &d), "device %u", dev);
	if (mf.asleep[dev]) {
		same("bytes while it sleeps", dev, 0, mf.base[dev], d.mem_used);
		return;
	}
	/* what was cut off to be aligned */
	MF_CHECK(d.mem_used - mf.base[dev] >= reserved && d.mem_used - mf.base[dev] <= reserved +
		 s.segment[NPU_MEM_ALL].current * mf.align, "device %u: %llu of %llu", dev,
		 (unsigned long long)reserved, (unsigned long long)(d.mem_used - mf.base[dev]));
}
