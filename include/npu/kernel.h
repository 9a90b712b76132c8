/* SPDX-License-Identifier: MIT */
/*
 * Modules and kernels.
 */
#ifndef NPU_KERNEL_H
#define NPU_KERNEL_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * npu_module_load() - load kernels from a file into the current context
 * @path: the file; for the simulator a shared object made with npu/simnpu_kernel.h
 * @module: out: the module, 0 on failure
 *
 * Return: 0, -EINVAL (NULL, an empty path), -ENOENT, -EACCES, -ENOEXEC (not a module of this
 * driver), -EPROTO (made for another version), -ENOMEM, -ENOSPC (there are too many), -EOPNOTSUPP,
 * -ENODEV, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_module_load(const char *path, npu_module *module);

/**
 * npu_module_load_data() - load kernels from memory into the current context
 * @data: the bytes of such a file; copied
 * @size: how many, not 0
 * @module: out: the module, 0 on failure
 *
 * Return: 0, -EINVAL (NULL, or size is 0), or as npu_module_load().
 */
NPU_API int npu_module_load_data(const void *data, size_t size, npu_module *module);

/**
 * npu_module_unload() - unload a module
 * @module: the module, not NPU_MODULE_BUILTIN
 * @timeout_ms: how long to wait for the context's streams, milliseconds, NPU_WAIT_FOREVER, 0 polls
 *
 * Its kernels' handles are stale at once.
 * Return: 0, -EINVAL (module is 0, a bad time-out), -EBADF, -ESTALE, -ETIMEDOUT (it stays loaded
 * without kernels; unload it again), -EDEADLK (inside a callback), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_module_unload(npu_module module, int64_t timeout_ms);

/**
 * npu_kernel_get() - look a kernel up
 * @module: the module; NPU_MODULE_BUILTIN: the driver's own, in the current context. A kernel
 *	belongs to its context: to launch one on another device, look it up there
 * @name: its name
 * @kernel: out: the kernel, 0 on failure; the same name gives the same one; lives as long as its
 *	module
 *
 * Return: 0, -EINVAL (NULL, an empty name), -ESRCH (no such kernel), -EBADF, -ESTALE, -ENOMEM,
 * -ENOSPC (there are too many), -EOPNOTSUPP, -ENODEV, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_kernel_get(npu_module module, const char *name, npu_kernel *kernel);

/**
 * npu_launch() - run a kernel in a stream
 * @kernel: the kernel
 * @blocks: how many, 1 to npu_device_info.blocks_max
 * @args: its arguments; copied before the call returns; NULL when size is 0
 * @size: bytes of them, up to npu_device_info.args_max
 * @stream: the stream; of 0, the device is the kernel's if the thread has set none
 *
 * Return: 0, -EINVAL (kernel is 0, blocks or size out of range, args is NULL), -EXDEV (kernel and
 * stream of different devices or contexts), -EAGAIN (the stream is full and does not block),
 * -ETIMEDOUT (it stayed full), -ENOMEM, or what every function with a stream answers (top of
 * npu/stream.h).
 */
NPU_API int npu_launch(npu_kernel kernel, uint32_t blocks, const void *args, size_t size,
		       npu_stream stream);

#ifdef __cplusplus
}
#endif

#endif /* NPU_KERNEL_H */
