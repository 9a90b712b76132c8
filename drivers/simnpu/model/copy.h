/* SPDX-License-Identifier: MIT */
/*
 * Moving bytes, as fast as the machine can.
 *
 * Up to a size that the caches decide, ordinary stores are best; above it,
 * stores that go past the caches (streaming stores) save the reading of what is
 * to be overwritten, and keep the caches for others. Which loop is best differs
 * from processor to processor; it is chosen by cpuid at the first call.
 */
#ifndef DRIVERS_SIMNPU_MODEL_COPY_H
#define DRIVERS_SIMNPU_MODEL_COPY_H

#include <stddef.h>

/**
 * model_memcpy() - copy bytes
 * @dst: where to
 * @src: where from; must not overlap @dst
 * @n: bytes, may be 0
 *
 * Context: any. What was copied is visible to whoever sees what the caller does next.
 */
void model_memcpy(void *dst, const void *src, size_t n);

/**
 * model_memset() - set bytes
 * @dst: where
 * @byte: the value, its low eight bits
 * @n: bytes, may be 0
 */
void model_memset(void *dst, int byte, size_t n);

/**
 * model_memcpy_part() - copy a part of what this thread copies
 * @dst: where to
 * @src: where from; must not overlap @dst
 * @n: bytes of the part
 * @share: bytes of all parts that this thread will copy: these decide how it is done
 */
void model_memcpy_part(void *dst, const void *src, size_t n, size_t share);

/**
 * model_memset_part() - set bytes of a part of what this thread sets
 * @dst: where
 * @byte: the value
 * @n: bytes of the part
 * @share: bytes of all parts that this thread will set
 */
void model_memset_part(void *dst, int byte, size_t n, size_t share);

/**
 * model_copy_chunk() - how to cut a copy or a fill for several threads
 * @n: bytes of the whole
 * @threads: threads that could take part, at least 1
 *
 * While the caches hold it, a piece should go to the thread that had the same
 * addresses before, so there is one piece for each thread. Above, there are
 * some for each, and a thread takes the next when it is done with one: so one
 * that starts late or is interrupted does not hold up the end. With two
 * threads, the best is that one begins at the front and one at the back.
 * Return: bytes of a piece, a multiple of 4096, or @n if it is to stay whole.
 */
size_t model_copy_chunk(size_t n, unsigned int threads);

/**
 * model_memcpy_2d() - copy rows
 * @dst: where to
 * @dst_pitch: bytes from row to row of @dst, at least @width
 * @src: where from; the rows of the two must not overlap
 * @src_pitch: bytes from row to row of @src, at least @width
 * @width: bytes of a row
 * @height: rows
 * @share: bytes of all rows that this thread will copy: these decide how it is done
 *
 * What lies between the rows of @dst is not touched.
 */
void model_memcpy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
		     size_t width, size_t height, size_t share);

/**
 * struct model_copy_method - one way to do it
 * @name: what it is called
 * @copy: copies with ordinary stores
 * @stream: copies with streaming stores; @dst is a multiple of 64, @n too
 * @fill: fills with streaming stores; the same
 * @fence: orders streaming stores before what follows
 */
struct model_copy_method {
	const char *name;
	void (*copy)(char *dst, const char *src, size_t n);
	void (*stream)(char *dst, const char *src, size_t n);
	void (*fill)(char *dst, int byte, size_t n);
	void (*fence)(void);
};

/**
 * model_copy_methods() - the methods that this machine can do, for tests
 * @i: from 0
 *
 * Return: the i-th, or NULL behind the last.
 */
const struct model_copy_method *model_copy_methods(unsigned int i);

/**
 * model_copy_force() - decide how it is done, for tests and measurements
 * @method: one of model_copy_methods(), or NULL: choose again
 * @limit: the most bytes that are copied or filled with ordinary stores
 */
void model_copy_force(const struct model_copy_method *method, size_t limit);

#endif /* DRIVERS_SIMNPU_MODEL_COPY_H */
