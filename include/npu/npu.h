/* SPDX-License-Identifier: MIT */
/*
 * libnpu: all of its interface. Kernels for the simulator need
 * npu/simnpu_kernel.h, C++ programs may want npu/npu.hpp.
 */
#ifndef NPU_NPU_H
#define NPU_NPU_H

#include "npu/alloc.h"
#include "npu/allocator.h"
#include "npu/context.h"
#include "npu/device.h"
#include "npu/error.h"
#include "npu/event.h"
#include "npu/guard.h"
#include "npu/init.h"
#include "npu/ipc.h"
#include "npu/io.h"
#include "npu/kernel.h"
#include "npu/memory.h"
#include "npu/option.h"
#include "npu/pool.h"
#include "npu/sleep.h"
#include "npu/snapshot.h"
#include "npu/stream.h"
#include "npu/types.h"
#include "npu/vmm.h"

#endif /* NPU_NPU_H */
