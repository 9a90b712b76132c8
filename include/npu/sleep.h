/* SPDX-License-Identifier: MIT */
/*
 * Sleep and wake: all device memory of the cache is given back while the process stays up.
 * Addresses stay, and so does what is in the blocks, unless it is to be dropped. Needs the option
 * mem_growable.
 */
#ifndef NPU_SLEEP_H
#define NPU_SLEEP_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** NPU_MEM_TAG_MAX - the largest tag */
#define NPU_MEM_TAG_MAX 0xffffu

/**
 * npu_mem_set_tag() - say what kind of thing is in a block
 * @ptr: from npu_mem_alloc()
 * @tag: the program's, up to NPU_MEM_TAG_MAX; 0: none, as of a block that was just allocated
 *
 * Allocations on that device take the long way from then on.
 * Return: 0, -EINVAL (not the start of such memory, or the tag is too large), -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_mem_set_tag(void *ptr, uint32_t tag);

/**
 * npu_mem_sleep() - give the memory of the cache back, and keep addresses and content
 * @device: the device, or NPU_DEVICE_CURRENT; one that sleeps: 0
 * @drop: tags; what is in blocks that have one of them is not kept
 * @count: how many
 * @timeout_ms: how long to wait for queued work, milliseconds, NPU_WAIT_FOREVER
 *
 * Waits for all that the device has to do, and for streams of other devices that use freed blocks;
 * copies what is kept to the host, and gives all memory back. Until npu_mem_wake() blocks may be
 * freed, but not used, and npu_mem_alloc() gives -EBUSY, or -ENOMEM if it was under way.
 * npu_mem_get_stats() says what it would say without this; npu_device_mem_info() has the memory.
 *
 * When it fails, all is as it was. A reset of the device ends the sleep.
 * Return: 0, -EINVAL (NULL with a count, a bad time-out, a tag that is none), -ENODEV (no such
 * device), -EOPNOTSUPP (some memory, be it free in a private pool, was not allocated with
 * mem_growable), -ETIMEDOUT, -ENOMEM (of the host), -EDEADLK (inside a callback), -ESTALE (the
 * device was closed meanwhile), the failure of a task or of the device, -ECHILD, -ESHUTDOWN,
 * -ENOTCONN.
 */
NPU_API int npu_mem_sleep(int device, const uint32_t *drop, uint32_t count, int64_t timeout_ms);

/**
 * npu_mem_wake() - undo npu_mem_sleep()
 * @device: the device, or NPU_DEVICE_CURRENT; one that does not sleep: 0
 *
 * What was dropped is not defined. When it fails, the device sleeps on, and nothing is lost.
 * Return: 0, -ENODEV (no such device), -ENOMEM (the device has not enough memory free), -EDEADLK
 * (inside a callback), -ESTALE (the device was closed meanwhile), the failure of the device,
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_wake(int device);

#ifdef __cplusplus
}
#endif

#endif /* NPU_SLEEP_H */
