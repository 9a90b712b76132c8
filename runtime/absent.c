// SPDX-License-Identifier: MIT
/*
 * What stands for parts that are not built in: each is overridden by the function of the same name
 * where it is. Public ones are in place as ever, and say what is missing.
 */
#include "npu/allocator.h"
#include "npu/io.h"
#include "npu/pool.h"
#include "npu/sleep.h"
#include "npu/snapshot.h"
#include "runtime/alloc.h"
#include "runtime/file.h"

#define weak __attribute__((weak))

static int absent(const char *op, const char *option)
{
	int err = rt_enter(op);

	return err ? err : hal_fail(-EOPNOTSUPP, op, "built without CONFIG_%s", option);
}

/* A call; and one with a result, and what that is on failure. */
#define ABSENT(option, op, call) NPU_API weak int call { return absent(op, option); }
#define ABSENT_OUT(option, op, out, none, call)		\
	NPU_API weak int call				\
	{						\
		if (out)				\
			*(out) = none;			\
		return absent(op, option);		\
	}
#define ABSENT_HANDLE(option, op, out, call)		\
	NPU_API weak int call				\
	{						\
		if (out)				\
			(out)->h = 0;			\
		return absent(op, option);		\
	}

/* ---- the cache of device memory, and workspaces --------------------------------------------- */

ABSENT_OUT("MEM_CACHE", "mem_alloc", ptr, NULL,
	   npu_mem_alloc(size_t size, npu_stream stream, void **ptr))
ABSENT("MEM_CACHE", "mem_free", npu_mem_free(void *ptr))
ABSENT("MEM_CACHE", "mem_record_stream", npu_mem_record_stream(void *ptr, npu_stream stream))
ABSENT("MEM_CACHE", "mem_erase_stream", npu_mem_erase_stream(void *ptr, npu_stream stream))
ABSENT("MEM_CACHE", "mem_empty_cache", npu_mem_empty_cache(int device))
ABSENT("MEM_CACHE", "mem_set_fraction", npu_mem_set_fraction(int device, double fraction))
ABSENT_OUT("MEM_CACHE", "mem_get_fraction", fraction, 0,
	   npu_mem_get_fraction(int device, double *fraction))
ABSENT("MEM_CACHE", "mem_get_block", npu_mem_get_block(const void *ptr, struct npu_mem_block *info))
ABSENT("MEM_CACHE", "mem_get_stats", npu_mem_get_stats(int device, struct npu_mem_stats *stats))
ABSENT("MEM_CACHE", "mem_reset_peak", npu_mem_reset_peak(int device))
ABSENT("MEM_CACHE", "mem_reset_accumulated", npu_mem_reset_accumulated(int device))
ABSENT_OUT("MEM_CACHE", "mem_observe_oom", id, 0,
	   npu_mem_observe_oom(int device, npu_mem_oom_fn *fn, void *arg, uint64_t *id))
ABSENT_OUT("MEM_CACHE", "workspace_get", ptr, NULL,
	   npu_workspace_get(npu_stream stream, size_t size, void **ptr))
ABSENT("MEM_CACHE", "workspace_put", npu_workspace_put(npu_stream stream))
ABSENT("MEM_CACHE", "workspace_trim", npu_workspace_trim(int device))
ABSENT("MEM_CACHE", "workspace_get_stats",
       npu_workspace_get_stats(int device, struct npu_workspace_stats *stats))

/* Those that need no library, and initialise none. */
NPU_API weak int npu_mem_add_reclaim(npu_mem_reclaim_fn *fn, void *arg, uint64_t *id)
{
	if (id)
		*id = 0;
	return hal_fail(-EOPNOTSUPP, "mem_add_reclaim", "built without CONFIG_MEM_CACHE");
}

NPU_API weak int npu_mem_set_allocator(const struct npu_mem_allocator *ops, void *arg)
{
	return hal_fail(-EOPNOTSUPP, "mem_set_allocator", "built without CONFIG_MEM_CACHE");
}

NPU_API weak int npu_mem_remove_reclaim(uint64_t id)
{
	return hal_fail(-ENOENT, "mem_remove_reclaim", "there is no such function");
}

NPU_API weak int npu_mem_unobserve_oom(uint64_t id)
{
	return hal_fail(-ENOENT, "mem_unobserve_oom", "there is no such observer");
}

weak struct rt_mem rt_mem;
weak void rt_caches_begin(void) { }
weak void rt_caches_toggle(void) { }
weak void rt_caches_fork_child(void) { }
weak void rt_cache_drop(int d) { }
weak void rt_mem_hooks_lock(void) { }
weak void rt_mem_hooks_unlock(void) { }
weak void rt_workspace_drop(int device) { }
weak void rt_workspace_fork_child(void) { }
weak bool rt_mem_block(const void *ptr, struct npu_mem_block *out) { return false; }
weak bool rt_mem_has(const void *ptr) { return false; }
weak int rt_mem_refuse(const void *ptr, const char *op) { return 0; }

/* ---- what the cache may do ------------------------------------------------------------------ */

ABSENT("MEM_SLEEP", "mem_set_tag", npu_mem_set_tag(void *ptr, uint32_t tag))
ABSENT("MEM_SLEEP", "mem_sleep",
       npu_mem_sleep(int device, const uint32_t *drop, uint32_t count, int64_t timeout_ms))
ABSENT("MEM_SLEEP", "mem_wake", npu_mem_wake(int device))
ABSENT("MEM_SNAPSHOT", "mem_history", npu_mem_history(int device, int mode, uint32_t entries))
ABSENT("MEM_SNAPSHOT", "mem_snapshot",
       npu_mem_snapshot(int device, npu_mem_write_fn *write, void *arg))

ABSENT_HANDLE("MEM_CACHE", "mem_pool_create", pool,
	      npu_mem_pool_create(int device, const struct npu_mem_pool_attr *attr,
				  npu_mem_pool *pool))
ABSENT("MEM_CACHE", "mem_pool_destroy", npu_mem_pool_destroy(npu_mem_pool pool))
ABSENT("MEM_CACHE", "mem_pool_begin",
       npu_mem_pool_begin(npu_mem_pool pool, enum npu_mem_pool_scope scope, npu_stream stream))
ABSENT("MEM_CACHE", "mem_pool_end",
       npu_mem_pool_end(npu_mem_pool pool, enum npu_mem_pool_scope scope, npu_stream stream))
ABSENT("MEM_CACHE", "mem_pool_trim", npu_mem_pool_trim(npu_mem_pool pool))
ABSENT("MEM_CACHE", "mem_pool_get_info",
       npu_mem_pool_get_info(npu_mem_pool pool, struct npu_mem_pool_info *info))

weak void rt_pools_drop(int device) { }
weak void rt_plug_drop(int device) { }
weak void rt_sleep_free(struct rt_sleep *s) { }
weak int rt_grow_get(const struct rt_want *w) { return -EOPNOTSUPP; }
weak struct rt_run *rt_grow_collect(struct rt_cache *c, const struct rt_release *what, bool *more)
{
	return NULL;
}
weak uint64_t rt_grow_give_back(struct rt_cache *c, struct rt_run *out, uint64_t life,
				uint64_t deadline)
{
	return 0;
}
weak void rt_grow_release(struct rt_cache *c, uint64_t life) { }
weak void rt_runs_forget(struct rt_segment *s) { }

/* ---- the cache of pinned memory ------------------------------------------------------------- */

ABSENT_OUT("MEM_PINNED", "host_alloc", ptr, NULL, npu_host_alloc(size_t size, void **ptr))
ABSENT("MEM_PINNED", "host_free", npu_host_free(void *ptr))
ABSENT("MEM_PINNED", "host_record_stream", npu_host_record_stream(void *ptr, npu_stream stream))
ABSENT("MEM_PINNED", "host_empty_cache", npu_host_empty_cache(int device))
ABSENT("MEM_PINNED", "host_get_stats", npu_host_get_stats(int device, struct npu_host_stats *stats))
ABSENT("MEM_PINNED", "host_reset_peak", npu_host_reset_peak(int device))
ABSENT("MEM_PINNED", "host_reset_accumulated", npu_host_reset_accumulated(int device))

weak void rt_pinned_drop(int d) { }
weak void rt_pinned_fork_child(void) { }
weak enum rt_found rt_pinned_block(const void *ptr, void **base, size_t *bytes)
{
	return RT_FOUND_NONE;
}

/* ---- virtual memory ------------------------------------------------------------------------- */

ABSENT_OUT("VMM", "vm_get_granularity", granularity, 0,
	   npu_vm_get_granularity(int device, size_t *granularity))
ABSENT_OUT("VMM", "vm_reserve", addr, NULL,
	   npu_vm_reserve(int device, size_t size, size_t align, void *want, void **addr))
ABSENT("VMM", "vm_release", npu_vm_release(void *addr))
ABSENT_HANDLE("VMM", "vm_create", memory,
	      npu_vm_create(int device, size_t size, uint32_t flags, npu_vm_memory *memory))
ABSENT("VMM", "vm_destroy", npu_vm_destroy(npu_vm_memory memory))
ABSENT("VMM", "vm_map", npu_vm_map(void *addr, size_t size, npu_vm_memory memory, size_t offset,
				   uint32_t access))
ABSENT("VMM", "vm_unmap", npu_vm_unmap(void *addr, size_t size))
ABSENT("VMM", "vm_protect", npu_vm_protect(void *addr, size_t size, uint32_t access))
ABSENT_OUT("VMM", "vm_export", fd, -1, npu_vm_export(npu_vm_memory memory, int *fd))
ABSENT_HANDLE("VMM", "vm_import", memory,
	      npu_vm_import(int fd, int device, npu_vm_memory *memory, size_t *size))

/* ---- memory that processes share ------------------------------------------------------------ */

ABSENT_OUT("IPC", "ipc_export", key, '\0', npu_ipc_export(void *ptr, uint32_t flags, char *key))
ABSENT("IPC", "ipc_allow", npu_ipc_allow(void *ptr, const int32_t *pids, size_t count))
ABSENT_OUT("IPC", "ipc_import", ptr, NULL, npu_ipc_import(const char *key, int device, void **ptr))
ABSENT("IPC", "ipc_close", npu_ipc_close(void *ptr))
ABSENT_OUT("IPC", "ipc_export_event", key, 0,
	   npu_ipc_export_event(npu_event event, uint32_t flags, char *key))
ABSENT_OUT("IPC", "ipc_export_event_fd", fd, -1, npu_ipc_export_event_fd(npu_event event, int *fd))
ABSENT("IPC", "ipc_allow_event",
       npu_ipc_allow_event(npu_event event, const int32_t *pids, size_t count))
ABSENT_HANDLE("IPC", "ipc_import_event", event,
	      npu_ipc_import_event(const char *key, int device, npu_event *event))
ABSENT_HANDLE("IPC", "ipc_import_event_fd", event,
	      npu_ipc_import_event_fd(int fd, int device, npu_event *event))

/* ---- files and weights ---------------------------------------------------------------------- */

ABSENT_HANDLE("FILES", "file_open", file,
	      npu_file_open(const char *path, uint32_t flags, npu_file *file))
ABSENT("FILES", "file_close", npu_file_close(npu_file file))
ABSENT_OUT("FILES", "file_size", size, 0, npu_file_size(npu_file file, uint64_t *size))
ABSENT("FILES", "file_read_async", npu_file_read_async(npu_stream stream, npu_file file,
						       uint64_t offset, void *dst, size_t size))
ABSENT("FILES", "file_write_async",
       npu_file_write_async(npu_stream stream, npu_file file, uint64_t offset, const void *src,
			    size_t size))
ABSENT("FILES", "file_read",
       npu_file_read(npu_file file, uint64_t offset, void *dst, size_t size))
ABSENT("FILES", "file_write",
       npu_file_write(npu_file file, uint64_t offset, const void *src, size_t size))
ABSENT_HANDLE("FILES", "weights_open", weights,
	      npu_weights_open(const char *path, npu_weights *weights))
ABSENT("FILES", "weights_close", npu_weights_close(npu_weights weights))
ABSENT_OUT("FILES", "weights_count", count, 0,
	   npu_weights_count(npu_weights weights, uint32_t *count))
ABSENT("FILES", "weights_info",
       npu_weights_info(npu_weights weights, uint32_t index, struct npu_tensor_info *info))
ABSENT_OUT("FILES", "weights_find", index, UINT32_MAX,
	   npu_weights_find(npu_weights weights, const char *name, uint32_t *index))
ABSENT("FILES", "weights_load",
       npu_weights_load(npu_weights weights, uint32_t first, uint32_t count, void *const *dst,
			npu_stream stream, uint32_t flags, npu_progress_fn *progress, void *arg))
ABSENT("FILES", "weights_verify", npu_weights_verify(npu_weights weights, uint32_t index))
ABSENT("FILES", "weights_write",
       npu_weights_write(const char *path, const struct npu_tensor *tensors, uint32_t count))

weak void rt_files_close(void) { }
weak void rt_weights_close_all(void) { }
weak void rt_io_stop(uint64_t deadline) { }
weak int rt_io_settle(uint64_t stream, int device, uint64_t deadline) { return 0; }
