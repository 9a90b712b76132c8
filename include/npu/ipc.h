/* SPDX-License-Identifier: MIT */
/*
 * Memory and events that processes share: one makes a key of it, a text, and gives
 * it to another by whatever way the two have; that one gets the memory at an address
 * of its own, or an event that means what the first one's does.
 *
 * On the simulator, processes share devices in a named instance: option
 * simnpu_instance.
 */
#ifndef NPU_IPC_H
#define NPU_IPC_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** NPU_IPC_KEY_SIZE - bytes of a key, its zero included */
#define NPU_IPC_KEY_SIZE 65

/* Flags of npu_ipc_export() and npu_ipc_export_event(). */
/** NPU_IPC_ANY - for all processes of this user, not only those that are allowed to */
#define NPU_IPC_ANY (1u << 0)

/**
 * npu_ipc_export() - make a key of device memory
 * @ptr: the memory, from npu_malloc(); or a part of it: who imports the key gets a pointer to the
 *	same byte
 * @flags: NPU_IPC_ANY or 0
 * @key: out: the key, NPU_IPC_KEY_SIZE bytes, zero-terminated; empty on failure
 *
 * The whole allocation is shared, whatever part of it @ptr means. The key is good until the memory
 * is freed or this process ends. Blocks of npu_mem_alloc() lie in larger allocations, and can be
 * shared unless those grow (option mem_growable).
 * Return: 0, -EINVAL (NULL, unknown flags, not device memory), -EOPNOTSUPP (the device shares
 * nothing, or not this memory: it grows, is managed, or is itself imported), -EMFILE (it was
 * allocated when descriptors were scarce, or they are now), -ENOMEM, -EBUSY (another one answers
 * under the name of this process), the state of the device, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_export(void *ptr, uint32_t flags, char *key);

/**
 * npu_ipc_allow() - let processes import memory
 * @ptr: what npu_ipc_export() was given
 * @pids: the processes
 * @count: how many, at least 1
 *
 * They must be this user's. Adds to those that may already; this process always may. For the keys
 * that were made of the allocation so far.
 * Return: 0, -EINVAL (NULL, no process, not device memory), -ENOENT (no key was made of it),
 * -ENOSPC (more than 128), -EOPNOTSUPP, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_allow(void *ptr, const int32_t *pids, size_t count);

/**
 * npu_ipc_import() - get the memory that a key names
 * @key: from npu_ipc_export(), of another process or of this one
 * @device: the device, which must be that of the memory; -1: the current one
 * @ptr: out: the memory, as any of the device; NULL on failure
 *
 * What one process writes, the other reads, once it has been told that it is written. Memory that
 * its owner frees, or that outlives its owner, however he ended, stays until all that have imported
 * it have closed it or ended. It counts once among what is used of the device.
 * Return: 0, -EINVAL (NULL, not a key), -ENODEV (no such device), -EXDEV (of another instance or
 * device), -EOWNERDEAD (the process that made the key has ended), -ESTALE (the memory was freed),
 * -EACCES (this process may not, or another user has taken the owner's name), -ETIMEDOUT (the owner
 * does not answer: it may be stopped), -ENOSPC (so much is shared already), -ENOMEM, -EMFILE,
 * -EOPNOTSUPP, the state of the device, -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_import(const char *key, int device, void **ptr);

/**
 * npu_ipc_close() - give imported memory back
 * @ptr: from npu_ipc_import(); NULL is fine
 *
 * As npu_free(): at once and without waiting; a task that still uses it fails or reads zeroes.
 * npu_free() refuses it.
 * Return: 0, -EINVAL (it is not, or was closed already), -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_close(void *ptr);

/**
 * npu_ipc_export_event() - make a key of an event
 * @event: the event, made with NPU_EVENT_IPC; it need not be recorded yet
 * @flags: NPU_IPC_ANY or 0
 * @key: out: the key, NPU_IPC_KEY_SIZE bytes, zero-terminated; empty on failure
 *
 * The key is of the current device, whatever the device of the streams is where the event is
 * recorded. It is good until the event is destroyed, the device closed, or this process ends.
 * Return: 0, -EINVAL (NULL, unknown flags, event is 0 or made without NPU_EVENT_IPC), -EBADF,
 * -ESTALE, -EOPNOTSUPP (the device shares nothing, or the event is itself imported), -EMFILE,
 * -ENOMEM, -EBUSY (another one answers under the name of this process), the state of the device,
 * -ECHILD, -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_export_event(npu_event event, uint32_t flags, char *key);

/**
 * npu_ipc_allow_event() - let processes import an event
 * @event: what npu_ipc_export_event() was given
 * @pids: the processes
 * @count: how many, at least 1
 *
 * As npu_ipc_allow().
 * Return: 0, -EINVAL (NULL, no process, event is 0 or made without NPU_EVENT_IPC), -EBADF, -ESTALE,
 * -ENOENT (no key was made of it), -ENOSPC (more than 128), -EOPNOTSUPP (imported), -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_allow_event(npu_event event, const int32_t *pids, size_t count);

/**
 * npu_ipc_import_event() - get the event that a key names
 * @key: from npu_ipc_export_event(), of another process or of this one
 * @device: the device, which must be that of the key; -1: the current one
 * @event: out: the event, 0 on failure; npu_event_destroy() gives it back
 *
 * It means the last record that the owner has made at the time of a call: npu_event_query(),
 * npu_event_sync() and npu_stream_wait_event() work as with an event of this process, and answer
 * with a failure of a task before the point as the owner's do. Besides:
 * the owner's process alone records it: npu_event_record() gives -EACCES; npu_event_fd() gives
 * -EOPNOTSUPP. A query asks the owner's process, unless it is known already that the point is
 * reached: -EINPROGRESS, too, when that does not answer at once.
 * An owner that has ended, however he did, before the point was known to be reached: -EOWNERDEAD,
 * at once also of waits under way; the waits of streams fail with it as a task does. An owner that
 * is stopped is waited for. When the owner destroys it: -ESTALE, while waits under way go on.
 * Waits under way: 256 of the streams of a device, 256 of other processes for those of one,
 * beyond that -ENOSPC. Each takes a descriptor on either side: -EMFILE.
 * Return: 0, -EINVAL (NULL, not a key of an event), -ENODEV (no such device), -EXDEV (of another
 * instance or device), -EOWNERDEAD, -ESTALE (the event was destroyed), -EACCES (this process may
 * not, or another user has taken the owner's name), -ETIMEDOUT (the owner does not answer), -ENOSPC
 * (there are too many events), -ENOMEM, -EMFILE, -EOPNOTSUPP, the state of the device, -ECHILD,
 * -ESHUTDOWN, -ENOTCONN.
 */
NPU_API int npu_ipc_import_event(const char *key, int device, npu_event *event);

/**
 * npu_ipc_export_event_fd() - make a descriptor that stands for an event
 * @event: the event, made with NPU_EVENT_IPC; it need not be recorded yet
 * @fd: out: the descriptor, close-on-exec, the caller's; -1 on failure
 *
 * To be given to other processes of this user (SCM_RIGHTS). Who has it may import the event,
 * whether npu_ipc_allow_event() has named him or not, and it lets nobody import a key. Closing it
 * takes nothing from those who have imported it. It is good as long as a key of the event would be.
 * Return: as npu_ipc_export_event(); -EINVAL, too, for @fd NULL.
 */
NPU_API int npu_ipc_export_event_fd(npu_event event, int *fd);

/**
 * npu_ipc_import_event_fd() - get the event that a descriptor stands for
 * @fd: from npu_ipc_export_event_fd(), of another process or of this one; it stays the caller's
 * @device: the device, which must be that which was current there; -1: the current one
 * @event: out: the event, 0 on failure; npu_event_destroy() gives it back
 *
 * The event is as one of npu_ipc_import_event().
 * Return: as npu_ipc_import_event(); -EINVAL for a descriptor of anything else, or none.
 */
NPU_API int npu_ipc_import_event_fd(int fd, int device, npu_event *event);

#ifdef __cplusplus
}
#endif

#endif /* NPU_IPC_H */
