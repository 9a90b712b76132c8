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
 * @device: its device, which is opened; NPU_DEVICE_CURRENT is fine
 * @ctx: out: the context, 0 on failure; the thread's current one does not change
 *
 * Return: 0, -EINVAL (NULL), -ENODEV (no such device), -ENOSPC (the device has no more contexts),
 * -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_context_create(int device, npu_context *ctx);

/**
 * npu_context_destroy() - end a context and all that is in it
 * @ctx: the context
 * @timeout_ms: how long to wait for its streams, milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Threads that have it as their current one fall back to the device's primary one.
 * Return: 0, -EINVAL (ctx is 0, a bad time-out), -EBADF, -ESTALE, -EBUSY (a primary one:
 * npu_device_reset() is for that), -ETIMEDOUT (nothing was destroyed), -EDEADLK (inside a
 * callback), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_context_destroy(npu_context ctx, int64_t timeout_ms);

/**
 * npu_context_primary() - the primary context of a device
 * @device: the device, which is opened; NPU_DEVICE_CURRENT is fine
 * @ctx: out: the context, 0 on failure
 *
 * Return: 0, -EINVAL (NULL), -ENODEV (no such device), -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_context_primary(int device, npu_context *ctx);

/**
 * npu_context_set() - make a context the thread's current one
 * @ctx: the context; 0: the primary one of the current device
 *
 * Its device becomes the thread's current device, and stream 0 is its default stream, whatever
 * npu_stream_set_current() had set there.
 * Return: 0, -EBADF, -ESTALE, -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_context_set(npu_context ctx);

/**
 * npu_context_get() - the thread's current context
 * @ctx: out: the context; 0 when it is a primary one that was not made yet
 *
 * Context: any thread, any state; initialises and creates nothing.
 * Return: 0, -EINVAL (NULL), -ENOMEM.
 */
NPU_API int npu_context_get(npu_context *ctx);

/**
 * npu_context_device() - the device of a context
 * @ctx: the context
 * @device: out: ordinal, -1 on failure
 *
 * Return: 0, -EINVAL (NULL, or ctx is 0), -EBADF, -ESTALE, -ENOMEM, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_context_device(npu_context ctx, int *device);

/**
 * npu_context_sync() - wait until all streams of a context have done what was submitted before
 * @ctx: the context
 * @timeout_ms: milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Reports the first failure that was not reported, after all have been waited for.
 * Return: 0, -EINVAL (ctx is 0, a bad time-out), -EBADF, -ESTALE, -ETIMEDOUT, -EDEADLK (inside a
 * callback), -ECANCELED (its device was stopped, or a stream of it aborted, meanwhile), -ENODEV
 * (device lost), -ECHILD, -ESHUTDOWN, -ENOTCONN, or the failure of a task.
 */
NPU_API int npu_context_sync(npu_context ctx, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* NPU_CONTEXT_H */
