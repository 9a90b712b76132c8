/* SPDX-License-Identifier: MIT */
/*
 * Contexts: sets of streams, events, memory and modules on one device, that end
 * together. Each device has a primary one, made at first need, which all
 * functions use that speak of a device. Most programs need no other.
 */
#ifndef NPU_CONTEXT_H
#define NPU_CONTEXT_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * npu_context_create() - make a context
 * @device: its device, which is opened
 * @ctx: out: the context; the thread's current one does not change
 *
 * Return: 0, -EINVAL, -ENODEV, -ENOSPC, -ENOMEM.
 */
NPU_API int npu_context_create(int device, npu_context *ctx);

/**
 * npu_context_destroy() - end a context and all that is in it
 * @ctx: the context; a primary one: -EBUSY, npu_device_reset() is for that
 * @timeout_ms: how long to wait for its streams
 *
 * Threads that have it as their current one fall back to the device's primary one.
 * Return: 0, -EINVAL (0), -EBADF, -ESTALE, -EBUSY, -ETIMEDOUT (nothing was destroyed), -EDEADLK.
 */
NPU_API int npu_context_destroy(npu_context ctx, int64_t timeout_ms);

/** npu_context_primary() - the primary context of a device, which is opened.
 * Return: 0, -EINVAL, -ENODEV, -ENOMEM */
NPU_API int npu_context_primary(int device, npu_context *ctx);

/**
 * npu_context_set() - make a context the thread's current one
 * @ctx: the context; 0: the primary one of the current device
 *
 * Its device becomes the thread's current device, and stream 0 is its default stream, whatever
 * npu_stream_set_current() had set there.
 * Return: 0, -EBADF, -ESTALE.
 */
NPU_API int npu_context_set(npu_context ctx);

/** npu_context_get() - the thread's current context; 0 when it is a primary one that was not
 * made yet. Creates nothing. Return: 0, -EINVAL */
NPU_API int npu_context_get(npu_context *ctx);

/** npu_context_device() - a context's device. Return: 0, -EINVAL, -EBADF, -ESTALE */
NPU_API int npu_context_device(npu_context ctx, int *device);

/** npu_context_sync() - wait for all streams of a context, as npu_device_sync() */
NPU_API int npu_context_sync(npu_context ctx, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* NPU_CONTEXT_H */
