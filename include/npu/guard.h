/* SPDX-License-Identifier: MIT */
/*
 * Guards: change the thread's device or streams for a while, and put back
 * exactly what was there.
 *
 * As begin and end:
 *
 *	struct npu_guard g;
 *
 *	err = npu_guard_device(&g, 1);
 *	...
 *	npu_guard_end(&g);
 *
 * or for the rest of a block, with gcc and clang:
 *
 *	NPU_SCOPED_DEVICE(1);
 *
 * In C++ npu/npu.hpp has classes. A guard belongs to the thread that began it
 * and nests; ending brings back what was found, "nothing set" included, on
 * every path, and opens no device. Of a begin that failed the end does nothing.
 */
#ifndef NPU_GUARD_H
#define NPU_GUARD_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** struct npu_guard - what a guard found; private */
struct npu_guard {
	uint64_t magic;
	uint64_t thread;
	npu_context context;
	npu_stream stream;
	int device;
	int stream_device;
	uint32_t what;
	uint32_t pad;
};

/**
 * npu_guard_device() - set the current device for a while
 * @guard: the guard; what is in it is written over
 * @device: as in npu_device_set()
 *
 * Return: 0, -EINVAL (NULL), or as npu_device_set(); the end does nothing then.
 */
NPU_API int npu_guard_device(struct npu_guard *guard, int device);

/**
 * npu_guard_stream() - set the current stream and its device for a while
 * @guard: the guard; what is in it is written over
 * @stream: the stream; not 0
 *
 * Return: 0, -EINVAL (NULL, or stream is 0), or as npu_stream_set_current(); the end does nothing
 * then.
 */
NPU_API int npu_guard_stream(struct npu_guard *guard, npu_stream stream);

/**
 * npu_guard_secondary() - as npu_guard_stream() with the secondary stream of the current device
 * @guard: the guard; what is in it is written over
 *
 * Its end makes the stream that was current before wait for the secondary one.
 * Return: 0, -EINVAL (NULL), or as npu_stream_secondary().
 */
NPU_API int npu_guard_secondary(struct npu_guard *guard);

/**
 * npu_guard_end() - put back what was found
 * @guard: the guard
 *
 * What the finalizing of the library or the closing of a device has ended is not put back.
 * Context: the thread that began it, any state; initialises and opens nothing.
 * Return: 0, -EINVAL (NULL, ended already, or never begun), -EPERM (another thread), -ENOMEM; of a
 * secondary one also as npu_stream_wait_stream().
 */
NPU_API int npu_guard_end(struct npu_guard *guard);

/**
 * npu_guard_cleanup() - npu_guard_end() without a result, for the macros
 * @guard: the guard; zeroed, or begun
 */
static inline void npu_guard_cleanup(struct npu_guard *guard)
{
	if (guard->what)
		(void)npu_guard_end(guard);
}

#if defined(__GNUC__) && !defined(__cplusplus)
#define NPU_GUARD_CAT2(a, b) a##b
#define NPU_GUARD_CAT(a, b) NPU_GUARD_CAT2(a, b)
/**
 * NPU_SCOPED_DEVICE() - set the device to the end of the block; if that fails, nothing changes
 * @dev: the device
 */
#define NPU_SCOPED_DEVICE(dev)								\
	struct npu_guard NPU_GUARD_CAT(npu_guard_, __LINE__)				\
		__attribute__((cleanup(npu_guard_cleanup), unused)) = { 0 };		\
	(void)npu_guard_device(&NPU_GUARD_CAT(npu_guard_, __LINE__), (dev))
/**
 * NPU_SCOPED_STREAM() - set the stream to the end of the block; if that fails, nothing changes
 * @s: the stream
 */
#define NPU_SCOPED_STREAM(s)								\
	struct npu_guard NPU_GUARD_CAT(npu_guard_, __LINE__)				\
		__attribute__((cleanup(npu_guard_cleanup), unused)) = { 0 };		\
	(void)npu_guard_stream(&NPU_GUARD_CAT(npu_guard_, __LINE__), (s))
#endif

#ifdef __cplusplus
}
#endif

#endif /* NPU_GUARD_H */
