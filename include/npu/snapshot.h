/* SPDX-License-Identifier: MIT */
/*
 * What lies where in the cache of device memory, and how that came about: as JSON that the memory
 * viewer of PyTorch has (pytorch.org/memory_viz). The page takes it as a pickle, which python makes
 * of it: pickle.dump(json.load(sys.stdin), sys.stdout.buffer, 4).
 *
 * {"segments": [SEGMENT...], "device_traces": [[EVENT...]...], "allocator_settings": {...}}
 *
 * A segment is memory from the driver, of a growable one each part that is mapped without a gap:
 * device, address, total_size, allocated_size, active_size, requested_size, stream, segment_type
 * ("small", "large"), segment_pool_id ([0, 0], or that of a private pool), is_expandable, frames
 * (empty) and blocks, in the order of their addresses: address, size, requested_size, state
 * ("active_allocated", "active_pending_free", "inactive") and frames (empty).
 *
 * The history of device N is the N-th of device_traces, each event with action, addr (of "oom":
 * device_free), size, stream, time_us, and frames: one, named after the thread's tag, or none. The
 * actions are alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map,
 * segment_unmap, snapshot and oom.
 *
 * A segment's stream is the one that got the memory, in events as well, whoever has inherited it.
 * Streams are numbers that JavaScript can hold: the handle's lower 53 bits.
 */
#ifndef NPU_SNAPSHOT_H
#define NPU_SNAPSHOT_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum npu_mem_history_mode - what is kept
 * @NPU_MEM_HISTORY_OFF: nothing
 * @NPU_MEM_HISTORY_ON: what happens in the cache
 */
enum npu_mem_history_mode {
	NPU_MEM_HISTORY_OFF = 0,
	NPU_MEM_HISTORY_ON = 1,
};

/** NPU_MEM_HISTORY_MAX - most events that are kept */
#define NPU_MEM_HISTORY_MAX (1u << 24)

/**
 * npu_mem_history() - keep what happens in the cache of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @mode: enum npu_mem_history_mode
 * @entries: how many events are kept, the last ones, from 1 to NPU_MEM_HISTORY_MAX; an event takes
 *	40 bytes. With NPU_MEM_HISTORY_OFF: 0
 *
 * What was kept before is gone, also when it fails for want of memory. Allocations take the long
 * way as long as history is kept, through a reset of the device and the end of the library, too,
 * which both leave nothing of what was before.
 * Return: 0, -EINVAL (unknown mode, or number of entries), -ENODEV (no such device), -ENOMEM,
 * -EOPNOTSUPP (built without), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_history(int device, int mode, uint32_t entries);

/**
 * typedef npu_mem_write_fn - takes a piece of text
 * @text: the text, without a zero at its end
 * @size: bytes, not 0
 * @arg: what was given with it
 *
 * Return: 0, or a negative errno: no more is written.
 */
typedef int npu_mem_write_fn(const char *text, size_t size, void *arg);

/**
 * npu_mem_snapshot() - write what lies where in the cache of a device
 * @device: the device, or NPU_DEVICE_CURRENT
 * @write: called with one piece after the other, in this thread, with no lock held
 * @arg: for it
 *
 * Segments and blocks are those of one moment, and so are the events: up to the last one before.
 * Other threads wait as long as it takes to copy the blocks. It opens no device.
 * Return: 0, what @write has returned if not 0, -EINVAL (NULL), -ENODEV (no such device), -ENOMEM,
 * -EOPNOTSUPP (built without), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_mem_snapshot(int device, npu_mem_write_fn *write, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* NPU_SNAPSHOT_H */
