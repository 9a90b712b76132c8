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
 * @module: out: the module
 *
 * Return: 0, -EINVAL, -ENOENT, -EACCES, -ENOEXEC (not a module of this driver), -EPROTO (made for
 * another version), -ENOMEM, -EOPNOTSUPP.
 */
NPU_API int npu_module_load(const char *path, npu_module *module);
/** npu_module_load_data() - the same from memory, which is copied */
NPU_API int npu_module_load_data(const void *data, size_t size, npu_module *module);
/**
 * npu_module_unload() - unload a module
 * @module: the module; 0: -EINVAL
 * @timeout_ms: how long to wait for the context's streams
 *
 * Its kernels' handles are stale at once. Return: 0, -EINVAL, -EBADF, -ESTALE, -ETIMEDOUT
 * (it stays loaded without kernels; unload it again), -EDEADLK.
 */
NPU_API int npu_module_unload(npu_module module, int64_t timeout_ms);

/**
 * npu_kernel_get() - look a kernel up
 * @module: the module; NPU_MODULE_BUILTIN: the driver's own, in the current context
 * @name: its name
 * @kernel: out: the kernel; the same name gives the same one; lives as long as its module
 *
 * Return: 0, -EINVAL, -ESRCH (no such kernel), -EBADF, -ESTALE.
 */
NPU_API int npu_kernel_get(npu_module module, const char *name, npu_kernel *kernel);

/**
 * npu_launch() - run a kernel in a stream
 * @kernel: the kernel
 * @blocks: how many, at least 1
 * @args: its arguments; copied before the call returns; NULL when size is 0
 * @size: bytes of them, up to npu_device_info.args_max
 * @stream: the stream; of 0, the device is the kernel's if the thread has set none
 *
 * Return: 0, -EINVAL, -EXDEV (kernel and stream of different devices), -EAGAIN, -ETIMEDOUT.
 */
NPU_API int npu_launch(npu_kernel kernel, uint32_t blocks, const void *args, size_t size,
		       npu_stream stream);

#ifdef __cplusplus
}
#endif

#endif /* NPU_KERNEL_H */
