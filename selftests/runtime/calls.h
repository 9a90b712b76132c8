/* SPDX-License-Identifier: MIT */
/*
 * One valid call of every public function, and how it answers in which state of
 * the library. The tests of states and of steps make functions of them (calls_env.h).
 *
 * ANY   answers the same in every state
 * NEED  needs the library: lazy initialisation, -ENOTCONN, -ECHILD, -ESHUTDOWN
 * LIFE  has a line of its own in the test
 */
#define CALLS(ANY, NEED, LIFE)								\
	ANY(npu_version, (int)npu_version() - NPU_VERSION)				\
	ANY(npu_version_string, npu_version_string() ? 0 : -1)				\
	LIFE(npu_state_get, (int)npu_state_get())					\
	LIFE(npu_init, npu_init())							\
	LIFE(npu_finalize, npu_finalize(1000))						\
	LIFE(npu_release_register, npu_release_register(callback, NULL, 5))		\
	LIFE(npu_hook_init, npu_hook_init(callback, NULL))				\
	LIFE(npu_option_set, npu_option_set("log_level", NULL))				\
	ANY(npu_release_unregister, npu_release_unregister(callback, &obj) + ENOENT)	\
	ANY(npu_hook_sync, npu_hook_sync(NULL, NULL))					\
	ANY(npu_option_get, npu_option_get("log_level", obj.text, 32, NULL))		\
	ANY(npu_option_at, npu_option_at(0, &obj.option))				\
	ANY(npu_last_error, npu_last_error(&obj.error))					\
	ANY(npu_error_clear, (npu_error_clear(), 0))					\
	ANY(npu_error_name, npu_error_name(-EINVAL) ? 0 : -1)				\
	ANY(npu_error_next, npu_error_next(&obj.error) + ENOENT)			\
	ANY(npu_error_explain, npu_error_explain(-EINVAL, &obj.explained))		\
	ANY(npu_tag_set, npu_tag_set(NULL))						\
	ANY(npu_log_set_sink, (npu_log_set_sink(NULL), 0))				\
	ANY(npu_device_count, npu_device_count(&obj.n))					\
	ANY(npu_device_get_info, npu_device_get_info(0, &obj.info))			\
	ANY(npu_device_get_health, npu_device_get_health(0, &obj.health))		\
	ANY(npu_device_observe, observe())						\
	ANY(npu_device_unobserve, npu_device_unobserve(UINT64_MAX) + ENOENT)		\
	ANY(npu_mem_unobserve_oom, npu_mem_unobserve_oom(UINT64_MAX) + ENOENT)		\
	ANY(npu_mem_set_allocator, no_allocator())					\
	ANY(npu_mem_add_reclaim, add_reclaim())						\
	ANY(npu_mem_remove_reclaim, npu_mem_remove_reclaim(UINT64_MAX) + ENOENT)	\
	ANY(npu_host_is_pinned, npu_host_is_pinned(&obj, &obj.n))			\
	ANY(npu_device_mem_info, npu_device_mem_info(0, NULL, NULL))			\
	ANY(npu_device_utilization, npu_device_utilization(0, &obj.u32))		\
	ANY(npu_device_can_access_peer, npu_device_can_access_peer(0, 0, &obj.n))	\
	ANY(npu_device_is_active, npu_device_is_active(0, &obj.n))			\
	ANY(npu_device_used, npu_device_used(NULL, 0, &obj.size))			\
	ANY(npu_device_get, npu_device_get(&obj.n))					\
	ANY(npu_device_restore, npu_device_restore(NPU_DEVICE_CURRENT))			\
	ANY(npu_context_get, npu_context_get(&obj.ctx_out))				\
	ANY(npu_guard_end, npu_guard_end(&obj.unused) + EINVAL)				\
	NEED(npu_device_set, npu_device_set(0))						\
	NEED(npu_device_exchange, npu_device_exchange(NPU_DEVICE_CURRENT, &obj.n))	\
	NEED(npu_device_sync, npu_device_sync(0, 5000))					\
	NEED(npu_device_sync_all, npu_device_sync_all(5000))				\
	NEED(npu_device_reset, npu_device_reset(1, 5000))				\
	NEED(npu_device_stop, npu_device_stop(1, 5000))					\
	NEED(npu_device_restart, npu_device_restart(1, 0, 5000))			\
	NEED(npu_device_time, npu_device_time(0, &obj.u64))				\
	NEED(npu_context_create, npu_context_create(0, &obj.ctx_out))			\
	NEED(npu_context_destroy, npu_context_destroy(new_context(), 5000))		\
	NEED(npu_context_primary, npu_context_primary(0, &obj.ctx_out))			\
	NEED(npu_context_set, npu_context_set(obj.ctx))					\
	NEED(npu_context_device, npu_context_device(obj.ctx, &obj.n))			\
	NEED(npu_context_sync, npu_context_sync(obj.ctx, 5000))				\
	NEED(npu_stream_create, npu_stream_create(NULL, &obj.s_out))			\
	NEED(npu_stream_destroy, npu_stream_destroy(new_stream(), 5000))		\
	NEED(npu_stream_query, npu_stream_query(obj.idle))				\
	NEED(npu_stream_abort, not_here(npu_stream_abort(obj.idle, 5000)))		\
	NEED(npu_stream_sync, npu_stream_sync(obj.s, 5000))				\
	NEED(npu_stream_set_wait_mode, npu_stream_set_wait_mode(obj.s, NPU_WAIT_AUTO))	\
	NEED(npu_stream_wait_event, npu_stream_wait_event(obj.s, obj.e))		\
	NEED(npu_stream_wait_stream, npu_stream_wait_stream(obj.s, obj.s))		\
	NEED(npu_stream_callback, npu_stream_callback(obj.s, nothing, NULL, 0))		\
	NEED(npu_stream_fd, take_fd(npu_stream_fd(obj.s, &obj.fd)))			\
	NEED(npu_stream_default, npu_stream_default(0, &obj.s_out))			\
	NEED(npu_stream_secondary, npu_stream_secondary(0, &obj.s_out))			\
	NEED(npu_stream_pool_get, npu_stream_pool_get(0, 4, &obj.s_out))		\
	NEED(npu_stream_lease, npu_stream_lease(0, 4, &obj.s_out))			\
	NEED(npu_stream_release, npu_stream_release(new_lease()))			\
	NEED(npu_stream_import, not_here(npu_stream_import(0, &obj, &obj.s_out)))	\
	NEED(npu_stream_current, npu_stream_current(0, &obj.s_out))			\
	NEED(npu_stream_set_current, npu_stream_set_current(NPU_STREAM_CURRENT))	\
	NEED(npu_stream_get_info, npu_stream_get_info(obj.s, &obj.stream))		\
	NEED(npu_event_create, npu_event_create(0, &obj.e_out))				\
	NEED(npu_event_destroy, npu_event_destroy(new_event()))				\
	NEED(npu_event_record, npu_event_record(obj.e, obj.s))				\
	NEED(npu_event_query, npu_event_query(obj.never))				\
	NEED(npu_event_sync, npu_event_sync(obj.e, 5000))				\
	NEED(npu_event_elapsed, npu_event_elapsed(obj.t, obj.t, &obj.i64))		\
	NEED(npu_event_timestamp, npu_event_timestamp(obj.t, &obj.u64))			\
	NEED(npu_event_fd, take_fd(npu_event_fd(obj.e, &obj.fd)))			\
	NEED(npu_event_device, npu_event_device(obj.e, &obj.n))				\
	NEED(npu_guard_device, end_of(npu_guard_device(&obj.g, 0)))			\
	NEED(npu_guard_stream, end_of(npu_guard_stream(&obj.g, obj.s)))			\
	NEED(npu_guard_secondary, end_of(npu_guard_secondary(&obj.g)))			\
	NEED(npu_ipc_export, alone(npu_ipc_export(obj.p, 0, obj.key)))			\
	NEED(npu_ipc_allow, alone(npu_ipc_allow(obj.p, &(int32_t){ 1 }, 1)))			\
	NEED(npu_ipc_import, alone(npu_ipc_import("x", 0, &obj.out)))			\
	NEED(npu_ipc_close, npu_ipc_close(NULL))					\
	NEED(npu_ipc_export_event, alone(npu_ipc_export_event(obj.e, 0, obj.key)))	\
	NEED(npu_ipc_export_event_fd, alone(npu_ipc_export_event_fd(obj.e, &obj.fd)))	\
	NEED(npu_ipc_allow_event, allow_event())					\
	NEED(npu_ipc_import_event, alone(npu_ipc_import_event("x", 0, &obj.e_out)))	\
	NEED(npu_ipc_import_event_fd, alone(npu_ipc_import_event_fd(0, 0, &obj.e_out)))	\
	NEED(npu_malloc, npu_malloc(64, 0, &obj.out))					\
	NEED(npu_free, npu_free(NULL))							\
	NEED(npu_malloc_host, npu_malloc_host(64, 0, &obj.out))				\
	NEED(npu_free_host, npu_free_host(NULL))					\
	NEED(npu_host_alloc, npu_host_alloc(64, &obj.out))				\
	NEED(npu_host_free, npu_host_free(NULL))					\
	NEED(npu_host_record_stream, npu_host_record_stream(NULL, obj.s))		\
	NEED(npu_host_empty_cache, npu_host_empty_cache(0))				\
	NEED(npu_host_get_stats, npu_host_get_stats(0, &obj.host_stats))		\
	NEED(npu_host_reset_peak, npu_host_reset_peak(0))				\
	NEED(npu_host_reset_accumulated, npu_host_reset_accumulated(0))			\
	NEED(npu_workspace_get, get_workspace())					\
	NEED(npu_workspace_put, put_workspace())					\
	NEED(npu_workspace_trim, npu_workspace_trim(0))					\
	NEED(npu_workspace_get_stats, npu_workspace_get_stats(0, &obj.spaces))		\
	NEED(npu_host_register, npu_host_register(obj.page, 4096, 0))			\
	NEED(npu_host_unregister, npu_host_unregister(obj.page))			\
	NEED(npu_pointer_get_info, npu_pointer_get_info(&obj, &obj.pointer))		\
	NEED(npu_mem_set_safe, npu_mem_set_safe(obj.p))					\
	NEED(npu_vm_get_granularity, npu_vm_get_granularity(0, &obj.size))		\
	NEED(npu_vm_reserve, npu_vm_reserve(0, VM_SIZE, 0, NULL, &obj.out))		\
	NEED(npu_vm_release, npu_vm_release(new_addresses()))				\
	NEED(npu_vm_create, npu_vm_create(0, VM_SIZE, 0, &obj.v_out))			\
	NEED(npu_vm_destroy, npu_vm_destroy(new_vm_memory()))				\
	NEED(npu_vm_map, and_unmap(npu_vm_map(obj.va, VM_SIZE, obj.v, 0, NPU_VM_READ)))	\
	NEED(npu_vm_unmap, and_map(npu_vm_unmap(obj.mapped, VM_SIZE)))			\
	NEED(npu_vm_protect, npu_vm_protect(obj.mapped, VM_SIZE, NPU_VM_READ))		\
	NEED(npu_vm_export, not_here(npu_vm_export(obj.v, &obj.fd)))			\
	NEED(npu_vm_import, not_here(npu_vm_import(0, 0, &obj.v_out, NULL)))		\
	NEED(npu_mem_alloc, npu_mem_alloc(64, obj.s, &obj.out))				\
	NEED(npu_mem_free, npu_mem_free(NULL))						\
	NEED(npu_mem_record_stream, npu_mem_record_stream(NULL, obj.s))			\
	NEED(npu_mem_erase_stream, npu_mem_erase_stream(NULL, obj.s))			\
	NEED(npu_mem_empty_cache, npu_mem_empty_cache(0))				\
	NEED(npu_mem_set_fraction, npu_mem_set_fraction(0, 1.0))			\
	NEED(npu_mem_get_fraction, npu_mem_get_fraction(0, &obj.fraction))		\
	NEED(npu_mem_get_block, no_block(npu_mem_get_block(&obj, &obj.block)))	\
	NEED(npu_mem_get_stats, npu_mem_get_stats(0, &obj.stats))			\
	NEED(npu_mem_reset_peak, npu_mem_reset_peak(0))					\
	NEED(npu_mem_reset_accumulated, npu_mem_reset_accumulated(0))			\
	NEED(npu_mem_history, if_shot(npu_mem_history(0, NPU_MEM_HISTORY_ON, 16)))	\
	NEED(npu_mem_snapshot, if_shot(npu_mem_snapshot(0, no_text, NULL)))		\
	NEED(npu_mem_set_tag, no_block(npu_mem_set_tag(NULL, 1)))			\
	NEED(npu_mem_sleep, npu_mem_sleep(1, NULL, 0, 5000))				\
	NEED(npu_mem_wake, npu_mem_wake(1))						\
	NEED(npu_mem_observe_oom, observe_oom())					\
	NEED(npu_mem_pool_create, npu_mem_pool_create(0, NULL, &obj.pool_out))		\
	NEED(npu_mem_pool_destroy, npu_mem_pool_destroy(new_mem_pool()))		\
	NEED(npu_mem_pool_begin, begin_pool())						\
	NEED(npu_mem_pool_end, end_pool())						\
	NEED(npu_mem_pool_trim, npu_mem_pool_trim(obj.pool))				\
	NEED(npu_mem_pool_get_info, npu_mem_pool_get_info(obj.pool, &obj.pool_info))	\
	NEED(npu_memcpy, npu_memcpy(obj.q, obj.text, 8, NPU_COPY_AUTO))			\
	NEED(npu_memcpy_async, npu_memcpy_async(obj.p, obj.page, 8, NPU_COPY_AUTO, obj.s)) \
	NEED(npu_memcpy_2d, npu_memcpy_2d(obj.q, 8, obj.text, 8, 4, 2, NPU_COPY_AUTO))	\
	NEED(npu_memcpy_2d_async, npu_memcpy_2d_async(obj.p, 8, obj.page, 8, 4, 2,	\
						      NPU_COPY_AUTO, obj.s))		\
	NEED(npu_memset, npu_memset(obj.q, 0, 8))					\
	NEED(npu_memset_async, npu_memset_async(obj.p, 0, 8, obj.s))			\
	NEED(npu_file_open, npu_file_open(obj.path, NPU_FILE_READ, &obj.f_out))		\
	NEED(npu_file_close, npu_file_close(new_file()))				\
	NEED(npu_file_size, npu_file_size(obj.file, &obj.u64))				\
	NEED(npu_file_read, npu_file_read(obj.file, 0, obj.q, 64))			\
	NEED(npu_file_write, npu_file_write(obj.file, 0, obj.q, 64))			\
	NEED(npu_file_read_async, npu_file_read_async(obj.s, obj.file, 0, obj.p, 64))	\
	NEED(npu_file_write_async, npu_file_write_async(obj.s, obj.file, 0, obj.p, 64))	\
	NEED(npu_weights_open, npu_weights_open(CONTAINER, &obj.w_out))			\
	NEED(npu_weights_close, npu_weights_close(new_weights()))			\
	NEED(npu_weights_count, npu_weights_count(obj.weights, &obj.u32))		\
	NEED(npu_weights_info, npu_weights_info(obj.weights, 0, &obj.tensor))		\
	NEED(npu_weights_find, npu_weights_find(obj.weights, "layer0.bias", &obj.u32))	\
	NEED(npu_weights_verify, npu_weights_verify(obj.weights, 1))			\
	NEED(npu_weights_load, npu_weights_load(obj.weights, 1, 1, &obj.q, obj.s,	\
						NPU_WEIGHTS_VERIFY, NULL, NULL))	\
	NEED(npu_weights_write, write_weights())				\
	NEED(npu_module_load, npu_module_load(GOOD_MODULE, &obj.module))		\
	NEED(npu_module_load_data, bad_image(npu_module_load_data(obj.text, 8, &obj.m_out))) \
	NEED(npu_module_unload, npu_module_unload(obj.module, 5000))			\
	NEED(npu_kernel_get, npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &obj.k_out))	\
	NEED(npu_launch, npu_launch(obj.k, 1, NULL, 0, obj.s))
