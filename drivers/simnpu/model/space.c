// SPDX-License-Identifier: MIT
/*
 * A range of addresses that is given out in pieces. No lock of its own.
 */
#include <stdlib.h>

#include "drivers/simnpu/model/model.h"

static uint32_t bin_of(uint64_t size)
{
	uint32_t bin = 63 - (uint32_t)__builtin_clzll(size / MODEL_ALIGN);

	return bin < MODEL_BINS ? bin : MODEL_BINS - 1;
}

static void bin_add(struct model_space *s, struct model_extent *e)
{
	struct hal_list *bin = &s->bins[bin_of(e->range.size)];

	/* in front: what was freed last has its pages and is in the cache */
	e->bin.next = bin->next;
	e->bin.prev = bin;
	bin->next->prev = &e->bin;
	bin->next = &e->bin;
}

static bool fits(const struct model_extent *e, uint64_t size, uint64_t align, uint64_t *start)
{
	*start = hal_align_up(e->range.start, align);
	return *start >= e->range.start && *start - e->range.start <= e->range.size &&
	       e->range.size - (*start - e->range.start) >= size;
}

static struct model_extent *find_free(struct model_space *s, uint64_t size, uint64_t align,
				      uint64_t *start)
{
	struct model_extent *e;
	struct hal_list *pos;
	uint32_t bin;

	for (bin = bin_of(size); bin < MODEL_BINS; bin++) {
		hal_list_for_each(pos, &s->bins[bin]) {
			e = hal_list_entry(pos, struct model_extent, bin);
			if (fits(e, size, align, start))
				return e;
		}
	}
	return NULL;
}

/* Cuts a free extent at an address: the upper part becomes one of its own. */
static struct model_extent *cut(struct model_extent *e, uint64_t at)
{
	struct model_extent *n = hal_zalloc(sizeof(*n));

	if (!n)
		return NULL;
	n->range.start = at;
	n->range.size = e->range.start + e->range.size - at;
	e->range.size = at - e->range.start;
	n->prev = e;
	n->next = e->next;
	if (n->next)
		n->next->prev = n;
	e->next = n;
	hal_list_init(&n->bin);
	return n;
}

/* Joins a free extent with the free one above it. */
static void join(struct model_extent *e)
{
	struct model_extent *n = e->next;

	hal_list_del(&n->bin);
	e->range.size += n->range.size;
	e->next = n->next;
	if (e->next)
		e->next->prev = e;
	free(n);
}

/* Takes a part of a free extent. */
static struct model_extent *take(struct model_space *s, struct model_extent *e, uint64_t start,
				 uint64_t size)
{
	struct model_extent *low, *rest;

	hal_list_del(&e->bin);
	if (start != e->range.start) {
		low = e;
		e = cut(low, start);
		bin_add(s, low);
		if (!e)
			return NULL;
	}
	if (e->range.size > size) {
		rest = cut(e, start + size);
		if (!rest) {
			model_space_put(s, e);
			return NULL;
		}
		bin_add(s, rest);
	}
	e->used = true;
	return e;
}

/**
 * model_space_init() - begin with one free extent
 * @s: the space
 * @start: its first address
 * @size: bytes, at least MODEL_ALIGN
 *
 * Return: 0 or -ENOMEM.
 */
int model_space_init(struct model_space *s, uint64_t start, uint64_t size)
{
	uint32_t i;

	for (i = 0; i < MODEL_BINS; i++)
		hal_list_init(&s->bins[i]);
	s->first = hal_zalloc(sizeof(*s->first));
	if (!s->first)
		return -ENOMEM;
	s->first->range.start = start;
	s->first->range.size = size;
	bin_add(s, s->first);
	return 0;
}

/* The end of it; nothing of it is used any more. */
void model_space_fini(struct model_space *s)
{
	struct model_extent *e;

	while ((e = s->first)) {
		s->first = e->next;
		free(e);
	}
}

/**
 * model_space_get() - take an extent
 * @s: the space
 * @size: bytes, a multiple of MODEL_ALIGN
 * @align: of its address, a power of two
 *
 * Return: the extent, or NULL.
 */
struct model_extent *model_space_get(struct model_space *s, uint64_t size, uint64_t align)
{
	struct model_extent *e;
	uint64_t start;

	e = find_free(s, size, align, &start);
	return e ? take(s, e, start, size) : NULL;
}

/**
 * model_space_get_at() - take an extent at an address
 * @s: the space
 * @start: the address
 * @size: bytes
 * @ext: out: the extent
 *
 * Return: 0, -EEXIST (some of it is taken), -ENOMEM.
 */
int model_space_get_at(struct model_space *s, uint64_t start, uint64_t size,
		       struct model_extent **ext)
{
	struct model_extent *e = s->first;

	while (e->range.start + e->range.size <= start)
		e = e->next;
	if (e->used || start + size > e->range.start + e->range.size)
		return -EEXIST;
	*ext = take(s, e, start, size);
	return *ext ? 0 : -ENOMEM;
}

/* Gives an extent back; it is joined with its free neighbours. */
void model_space_put(struct model_space *s, struct model_extent *e)
{
	e->used = false;
	if (e->next && !e->next->used)
		join(e);
	if (e->prev && !e->prev->used) {
		e = e->prev;
		hal_list_del(&e->bin);
		join(e);
	}
	bin_add(s, e);
}
