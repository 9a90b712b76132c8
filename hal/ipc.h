/* SPDX-License-Identifier: MIT */
/*
 * Memory and events that processes share, as hal's users see them. Needs NPU_CAP_IPC_MEM or
 * NPU_CAP_IPC_EVENT.
 */
#ifndef HAL_IPC_H
#define HAL_IPC_H

#include "hal/event.h"
#include "hal/memory.h"

/* Bytes of a key, its zero included. */
#define HAL_IPC_KEY_SIZE 65

/* hal_memory.flags, set by hal: another process's. */
#define HAL_MEM_IMPORTED (1u << 31)

/* Flags of an export. */
#define HAL_IPC_ANY (1u << 0)
/* For drivers: a key of its own that can't be guessed, for all who show it. */
#define HAL_IPC_SECRET (1u << 1)

/*
 * [C-IPC-1] A key names a byte of an allocation: who imports it gets a pointer to the same byte,
 * and reads there what others write, in the bounds of the whole allocation. [C-IPC-2] Mappings of
 * hal/vmm.h and what is imported are not exported: -EOPNOTSUPP.
 */
int hal_ipc_export(void *ptr, uint32_t flags, char *key);
/* [C-IPC-3] Who is not allowed to import gets -EACCES; with HAL_IPC_ANY all of the user are. */
int hal_ipc_allow(void *ptr, const int32_t *pids, size_t n);
/*
 * [C-IPC-4] What is imported is device memory of the context as any, but that only hal_ipc_close()
 * gives it back, or the end of the context. [C-IPC-5] It stays when its owner frees it, or ends;
 * keys of it are -ESTALE and -EOWNERDEAD then.
 */
int hal_ipc_import(struct hal_context *ctx, const char *key, void **ptr);
/* [C-IPC-6] The pointer that hal_ipc_import() gave, else -EINVAL; NULL is fine. Does not wait. */
int hal_ipc_close(void *ptr);

/* [C-IPC-7] Of an event made with NPU_EVENT_IPC; keys and who may have them as of memory. */
int hal_ipc_export_event(struct hal_context *ctx, uint64_t event, uint32_t flags, char *key);
int hal_ipc_allow_event(uint64_t event, const int32_t *pids, size_t n);
/*
 * [C-IPC-8] An event that is imported is the last record of its owner, at the time of the call:
 * queries, waits of threads and of streams. They learn of the failures of tasks before it, and of
 * the end of the owner, -EOWNERDEAD. It is recorded by its owner alone: -EACCES.
 */
int hal_ipc_import_event(struct hal_context *ctx, const char *key, uint64_t *event);
/* [C-IPC-9] The same by a descriptor: who of the user has it may import, allowed to or not. */
int hal_ipc_export_event_fd(struct hal_context *ctx, uint64_t event, int *fd);
int hal_ipc_import_event_fd(struct hal_context *ctx, int fd, uint64_t *event);

/* For drivers, on the side of the owner. */
bool hal_ipc_event_alive(uint64_t event);
int hal_ipc_event_fd(uint64_t event);
int hal_ipc_event_state(uint64_t event, const struct hal_point *p);

#endif /* HAL_IPC_H */
