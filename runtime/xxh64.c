// SPDX-License-Identifier: MIT
/*
 * XXH64 by Yann Collet, seed 0, written after its specification: four lanes of
 * multiplications over stripes of 32 bytes, folded at the end.
 */
#include <string.h>

#include "runtime/xxh64.h"

#define P1 0x9e3779b185ebca87u
#define P2 0xc2b2ae3d27d4eb4fu
#define P3 0x165667b19e3779f9u
#define P4 0x85ebca77c2b2ae63u
#define P5 0x27d4eb2f165667c5u

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t load64(const unsigned char *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap64(x);
}

static uint32_t load32(const unsigned char *p)
{
	uint32_t x;

	memcpy(&x, p, sizeof(x));
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap32(x);
}

static uint64_t mix(uint64_t v, uint64_t x)
{
	return rotl(v + x * P2, 31) * P1;
}

static const unsigned char *stripes(uint64_t v[4], const unsigned char *p, size_t n)
{
	uint64_t a = v[0], b = v[1], c = v[2], d = v[3];

	for (; n; n--, p += 32) {
		a = mix(a, load64(p));
		b = mix(b, load64(p + 8));
		c = mix(c, load64(p + 16));
		d = mix(d, load64(p + 24));
	}
	v[0] = a;
	v[1] = b;
	v[2] = c;
	v[3] = d;
	return p;
}

/* Begins a checksum. */
void rt_xxh64_begin(struct rt_xxh64 *x)
{
	*x = (struct rt_xxh64){ .v = { P1 + P2, P2, 0, 0 - P1 } };
}

/* Adds bytes to it. */
void rt_xxh64_add(struct rt_xxh64 *x, const void *data, size_t size)
{
	const unsigned char *p = data;
	size_t held = x->total % 32, n;

	x->total += size;
	if (held) {
		n = size < 32 - held ? size : 32 - held;
		memcpy(x->rest + held, p, n);
		if (held + n < 32)
			return;
		stripes(x->v, x->rest, 1);
		p += n;
		size -= n;
	}
	p = stripes(x->v, p, size / 32);
	if (size % 32)
		memcpy(x->rest, p, size % 32);
}

static uint64_t fold(const uint64_t v[4])
{
	uint64_t h = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18);
	int i;

	for (i = 0; i < 4; i++)
		h = (h ^ mix(0, v[i])) * P1 + P4;
	return h;
}

/* The checksum of what was added so far. */
uint64_t rt_xxh64_end(const struct rt_xxh64 *x)
{
	uint64_t h = (x->total < 32 ? P5 : fold(x->v)) + x->total;
	const unsigned char *p = x->rest;
	size_t n = x->total % 32;

	for (; n >= 8; n -= 8, p += 8)
		h = rotl(h ^ mix(0, load64(p)), 27) * P1 + P4;
	if (n >= 4) {
		h = rotl(h ^ load32(p) * P1, 23) * P2 + P3;
		n -= 4;
		p += 4;
	}
	for (; n; n--, p++)
		h = rotl(h ^ *p * P5, 11) * P1;
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}

uint64_t rt_xxh64(const void *data, size_t size)
{
	struct rt_xxh64 x;

	rt_xxh64_begin(&x);
	rt_xxh64_add(&x, data, size);
	return rt_xxh64_end(&x);
}
