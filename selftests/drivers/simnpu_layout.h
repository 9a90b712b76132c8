/* SPDX-License-Identifier: MIT */
/*
 * The layout of uapi/simnpu.h, which never changes but at the end of structures:
 * the same in 32 and 64 bits. Only compiled.
 */
#ifndef SELFTESTS_DRIVERS_SIMNPU_LAYOUT_H
#define SELFTESTS_DRIVERS_SIMNPU_LAYOUT_H

#include <stddef.h>

#include "uapi/simnpu.h"

#define SIZE(type, n) _Static_assert(sizeof(type) == (n), "size of " #type)
#define AT(type, member, n) \
	_Static_assert(offsetof(type, member) == (n), "place of " #type "." #member)
#define NUMBER(name, n) _Static_assert(name == (n), "number of " #name)


SIZE(struct simnpu_version, 8);
AT(struct simnpu_version, major, 0);
AT(struct simnpu_version, minor, 4);

SIZE(struct simnpu_info, 264);
AT(struct simnpu_info, caps, 0);
AT(struct simnpu_info, mem_total, 8);
AT(struct simnpu_info, mem_free, 16);
AT(struct simnpu_info, va_start, 24);
AT(struct simnpu_info, va_size, 32);
AT(struct simnpu_info, mem_align, 40);
AT(struct simnpu_info, cores, 48);
AT(struct simnpu_info, dma_channels, 52);
AT(struct simnpu_info, max_queues, 56);
AT(struct simnpu_info, max_events, 60);
AT(struct simnpu_info, max_contexts, 64);
AT(struct simnpu_info, max_queued, 68);
AT(struct simnpu_info, priorities, 72);
AT(struct simnpu_info, args_max, 76);
AT(struct simnpu_info, queues, 80);
AT(struct simnpu_info, events, 84);
AT(struct simnpu_info, state, 88);
AT(struct simnpu_info, generation, 92);
AT(struct simnpu_info, utilization, 96);
AT(struct simnpu_info, look_again_ns, 100);
AT(struct simnpu_info, kernel_abi, 104);
AT(struct simnpu_info, pad, 108);
AT(struct simnpu_info, part, 112);
AT(struct simnpu_info, ecc_corrected, 144);
AT(struct simnpu_info, ecc_uncorrected, 152);
AT(struct simnpu_info, link_errors, 160);
AT(struct simnpu_info, hangs, 168);
AT(struct simnpu_info, restarts, 176);
AT(struct simnpu_info, cause, 184);
AT(struct simnpu_info, pad2, 188);
AT(struct simnpu_info, bus, 192);
AT(struct simnpu_info, mem_others, 224);
AT(struct simnpu_info, mem_quota, 232);
AT(struct simnpu_info, queue_quota, 240);
AT(struct simnpu_info, event_quota, 244);
AT(struct simnpu_info, number, 248);
AT(struct simnpu_info, slot, 256);
AT(struct simnpu_info, pad3, 260);

SIZE(struct simnpu_time, 16);
AT(struct simnpu_time, device_ns, 0);
AT(struct simnpu_time, host_ns, 8);

SIZE(struct simnpu_context, 24);
AT(struct simnpu_context, flags, 0);
AT(struct simnpu_context, context, 4);
AT(struct simnpu_context, arena_size, 8);
AT(struct simnpu_context, result, 16);
AT(struct simnpu_context, pad, 20);

SIZE(struct simnpu_handle, 8);
AT(struct simnpu_handle, handle, 0);
AT(struct simnpu_handle, pad, 4);

SIZE(struct simnpu_mem, 48);
AT(struct simnpu_mem, size, 0);
AT(struct simnpu_mem, align, 8);
AT(struct simnpu_mem, context, 16);
AT(struct simnpu_mem, flags, 20);
AT(struct simnpu_mem, addr, 24);
AT(struct simnpu_mem, map, 32);
AT(struct simnpu_mem, handle, 40);
AT(struct simnpu_mem, result, 44);

SIZE(struct simnpu_mem_free, 8);
AT(struct simnpu_mem_free, handle, 0);
AT(struct simnpu_mem_free, flags, 4);

SIZE(struct simnpu_register, 32);
AT(struct simnpu_register, addr, 0);
AT(struct simnpu_register, size, 8);
AT(struct simnpu_register, context, 16);
AT(struct simnpu_register, flags, 20);
AT(struct simnpu_register, handle, 24);
AT(struct simnpu_register, result, 28);

SIZE(struct simnpu_window, 32);
AT(struct simnpu_window, addr, 0);
AT(struct simnpu_window, size, 8);
AT(struct simnpu_window, flags, 16);
AT(struct simnpu_window, pad, 20);
AT(struct simnpu_window, host, 24);

SIZE(struct simnpu_export, 40);
AT(struct simnpu_export, handle, 0);
AT(struct simnpu_export, flags, 4);
AT(struct simnpu_export, fd, 8);
AT(struct simnpu_export, pad, 12);
AT(struct simnpu_export, size, 16);
AT(struct simnpu_export, to, 24);
AT(struct simnpu_export, to_slot, 32);
AT(struct simnpu_export, share, 36);

SIZE(struct simnpu_import, 40);
AT(struct simnpu_import, fd, 0);
AT(struct simnpu_import, context, 4);
AT(struct simnpu_import, flags, 8);
AT(struct simnpu_import, handle, 12);
AT(struct simnpu_import, addr, 16);
AT(struct simnpu_import, size, 24);
AT(struct simnpu_import, share, 32);
AT(struct simnpu_import, owner_slot, 36);

SIZE(struct simnpu_vm, 40);
AT(struct simnpu_vm, addr, 0);
AT(struct simnpu_vm, size, 8);
AT(struct simnpu_vm, offset, 16);
AT(struct simnpu_vm, context, 24);
AT(struct simnpu_vm, handle, 28);
AT(struct simnpu_vm, flags, 32);
AT(struct simnpu_vm, pad, 36);

SIZE(struct simnpu_poison, 24);
AT(struct simnpu_poison, addr, 0);
AT(struct simnpu_poison, size, 8);
AT(struct simnpu_poison, index, 16);
AT(struct simnpu_poison, pad, 20);

SIZE(struct simnpu_abort, 16);
AT(struct simnpu_abort, queue, 0);
AT(struct simnpu_abort, flags, 4);
AT(struct simnpu_abort, deadline_ns, 8);

SIZE(struct simnpu_at, 32);
AT(struct simnpu_at, queue, 0);
AT(struct simnpu_at, pad, 4);
AT(struct simnpu_at, seq, 8);
AT(struct simnpu_at, cookie, 16);
AT(struct simnpu_at, op, 24);
AT(struct simnpu_at, tag, 28);

SIZE(struct simnpu_stop, 16);
AT(struct simnpu_stop, flags, 0);
AT(struct simnpu_stop, pad, 4);
AT(struct simnpu_stop, deadline_ns, 8);

SIZE(struct simnpu_copy, 56);
AT(struct simnpu_copy, dst, 0);
AT(struct simnpu_copy, src, 8);
AT(struct simnpu_copy, dst_pitch, 16);
AT(struct simnpu_copy, src_pitch, 24);
AT(struct simnpu_copy, width, 32);
AT(struct simnpu_copy, height, 40);
AT(struct simnpu_copy, context, 48);
AT(struct simnpu_copy, kind, 52);

SIZE(struct simnpu_queue, 48);
AT(struct simnpu_queue, context, 0);
AT(struct simnpu_queue, flags, 4);
AT(struct simnpu_queue, priority, 8);
AT(struct simnpu_queue, slots, 12);
AT(struct simnpu_queue, first_seq, 16);
AT(struct simnpu_queue, handle, 24);
AT(struct simnpu_queue, pad, 28);
AT(struct simnpu_queue, header, 32);
AT(struct simnpu_queue, ring, 40);

SIZE(struct simnpu_grow, 16);
AT(struct simnpu_grow, queue, 0);
AT(struct simnpu_grow, slots, 4);
AT(struct simnpu_grow, ring, 8);

SIZE(struct simnpu_kick, 8);
AT(struct simnpu_kick, queue, 0);
AT(struct simnpu_kick, flags, 4);

SIZE(struct simnpu_wait, 24);
AT(struct simnpu_wait, seq, 0);
AT(struct simnpu_wait, deadline_ns, 8);
AT(struct simnpu_wait, queue, 16);
AT(struct simnpu_wait, flags, 20);

SIZE(struct simnpu_notify, 16);
AT(struct simnpu_notify, seq, 0);
AT(struct simnpu_notify, queue, 8);
AT(struct simnpu_notify, fd, 12);

SIZE(struct simnpu_task_error, 64);
AT(struct simnpu_task_error, seq, 0);
AT(struct simnpu_task_error, origin_seq, 8);
AT(struct simnpu_task_error, cookie, 16);
AT(struct simnpu_task_error, time_ns, 24);
AT(struct simnpu_task_error, addr, 32);
AT(struct simnpu_task_error, origin_queue, 40);
AT(struct simnpu_task_error, code, 44);
AT(struct simnpu_task_error, op, 48);
AT(struct simnpu_task_error, tag, 52);
AT(struct simnpu_task_error, detail, 56);
AT(struct simnpu_task_error, pad, 60);

SIZE(struct simnpu_errors, 48);
AT(struct simnpu_errors, list, 0);
AT(struct simnpu_errors, queue, 8);
AT(struct simnpu_errors, room, 12);
AT(struct simnpu_errors, count, 16);
AT(struct simnpu_errors, dropped, 20);
AT(struct simnpu_errors, dropped_first, 24);
AT(struct simnpu_errors, dropped_last, 32);
AT(struct simnpu_errors, entry_size, 40);
AT(struct simnpu_errors, pad, 44);

SIZE(struct simnpu_event, 24);
AT(struct simnpu_event, context, 0);
AT(struct simnpu_event, flags, 4);
AT(struct simnpu_event, handle, 8);
AT(struct simnpu_event, pad, 12);
AT(struct simnpu_event, stamp, 16);

SIZE(struct simnpu_module, 32);
AT(struct simnpu_module, data, 0);
AT(struct simnpu_module, size, 8);
AT(struct simnpu_module, context, 16);
AT(struct simnpu_module, kind, 20);
AT(struct simnpu_module, handle, 24);
AT(struct simnpu_module, pad, 28);

SIZE(struct simnpu_kernel, 24);
AT(struct simnpu_kernel, name, 0);
AT(struct simnpu_kernel, size, 8);
AT(struct simnpu_kernel, module, 12);
AT(struct simnpu_kernel, kernel, 16);

SIZE(struct simnpu_callback, 48);
AT(struct simnpu_callback, deadline_ns, 0);
AT(struct simnpu_callback, context, 8);
AT(struct simnpu_callback, queue, 12);
AT(struct simnpu_callback, seq, 16);
AT(struct simnpu_callback, fn, 24);
AT(struct simnpu_callback, arg, 32);
AT(struct simnpu_callback, flags, 40);
AT(struct simnpu_callback, code, 44);

SIZE(struct simnpu_queue_header, 128);
AT(struct simnpu_queue_header, timeline, 0);
AT(struct simnpu_queue_header, consumed, 8);
AT(struct simnpu_queue_header, pad, 16);
AT(struct simnpu_queue_header, doorbell, 64);
AT(struct simnpu_queue_header, pad2, 68);

SIZE(struct simnpu_desc, 64);
AT(struct simnpu_desc, seq, 0);
AT(struct simnpu_desc, op, 8);
AT(struct simnpu_desc, slots, 9);
AT(struct simnpu_desc, flags, 10);
AT(struct simnpu_desc, tag, 12);
AT(struct simnpu_desc, cookie, 16);
AT(struct simnpu_desc, launch.kernel, 24);
AT(struct simnpu_desc, launch.blocks, 32);
AT(struct simnpu_desc, launch.args_size, 36);
AT(struct simnpu_desc, launch.args, 40);
AT(struct simnpu_desc, launch, 24);
AT(struct simnpu_desc, copy.dst, 24);
AT(struct simnpu_desc, copy.src, 32);
AT(struct simnpu_desc, copy.size, 40);
AT(struct simnpu_desc, copy.kind, 48);
AT(struct simnpu_desc, copy.pad, 52);
AT(struct simnpu_desc, copy, 24);
AT(struct simnpu_desc, copy_2d.dst, 24);
AT(struct simnpu_desc, copy_2d.src, 32);
AT(struct simnpu_desc, copy_2d.width, 40);
AT(struct simnpu_desc, copy_2d.height, 48);
AT(struct simnpu_desc, copy_2d.kind, 56);
AT(struct simnpu_desc, copy_2d.pad, 60);
AT(struct simnpu_desc, copy_2d, 24);
AT(struct simnpu_desc, fill.dst, 24);
AT(struct simnpu_desc, fill.size, 32);
AT(struct simnpu_desc, fill.value, 40);
AT(struct simnpu_desc, fill.pad, 44);
AT(struct simnpu_desc, fill, 24);
AT(struct simnpu_desc, wait.queue, 24);
AT(struct simnpu_desc, wait.pad, 28);
AT(struct simnpu_desc, wait.seq, 32);
AT(struct simnpu_desc, wait.pad2, 40);
AT(struct simnpu_desc, wait, 24);
AT(struct simnpu_desc, record.event, 24);
AT(struct simnpu_desc, record.pad, 28);
AT(struct simnpu_desc, record, 24);
AT(struct simnpu_desc, callback.fn, 24);
AT(struct simnpu_desc, callback.arg, 32);
AT(struct simnpu_desc, callback.pad, 40);
AT(struct simnpu_desc, callback, 24);
AT(struct simnpu_desc, link.ring, 24);
AT(struct simnpu_desc, link.slots, 32);
AT(struct simnpu_desc, link.pad, 36);
AT(struct simnpu_desc, link, 24);
AT(struct simnpu_desc, word, 24);

SIZE(struct simnpu_desc_pitch, 64);
AT(struct simnpu_desc_pitch, dst_pitch, 0);
AT(struct simnpu_desc_pitch, src_pitch, 8);
AT(struct simnpu_desc_pitch, pad, 16);

SIZE(struct simnpu_instance_slot, 56);
AT(struct simnpu_instance_slot, owner, 0);
AT(struct simnpu_instance_slot, mem, 8);
AT(struct simnpu_instance_slot, queues, 16);
AT(struct simnpu_instance_slot, events, 20);
AT(struct simnpu_instance_slot, wake, 24);
AT(struct simnpu_instance_slot, device, 28);
AT(struct simnpu_instance_slot, pad, 32);

SIZE(struct simnpu_instance_share, 48);
AT(struct simnpu_instance_share, importer, 0);
AT(struct simnpu_instance_share, owner, 8);
AT(struct simnpu_instance_share, object, 16);
AT(struct simnpu_instance_share, size, 24);
AT(struct simnpu_instance_share, importer_slot, 32);
AT(struct simnpu_instance_share, owner_slot, 36);
AT(struct simnpu_instance_share, device, 40);
AT(struct simnpu_instance_share, orphan, 44);

SIZE(struct simnpu_instance, 31808);
AT(struct simnpu_instance, magic, 0);
AT(struct simnpu_instance, major, 8);
AT(struct simnpu_instance, slots, 12);
AT(struct simnpu_instance, devices, 16);
AT(struct simnpu_instance, pad, 20);
AT(struct simnpu_instance, memory, 24);
AT(struct simnpu_instance, part, 32);
AT(struct simnpu_instance, slot, 64);
AT(struct simnpu_instance, share, 7232);
NUMBER(SIMNPU_IOCTL_VERSION, 0x80084e00u);
NUMBER(SIMNPU_IOCTL_INFO, 0x81084e01u);
NUMBER(SIMNPU_IOCTL_TIME, 0x80104e02u);
NUMBER(SIMNPU_IOCTL_CONTEXT_CREATE, 0xc0184e08u);
NUMBER(SIMNPU_IOCTL_CONTEXT_DESTROY, 0x40084e09u);
NUMBER(SIMNPU_IOCTL_MEM_CREATE, 0xc0304e10u);
NUMBER(SIMNPU_IOCTL_MEM_DESTROY, 0x40084e11u);
NUMBER(SIMNPU_IOCTL_MEM_REGISTER, 0xc0204e12u);
NUMBER(SIMNPU_IOCTL_MEM_WINDOW, 0xc0204e13u);
NUMBER(SIMNPU_IOCTL_MEM_EXPORT, 0xc0284e14u);
NUMBER(SIMNPU_IOCTL_MEM_IMPORT, 0xc0284e15u);
NUMBER(SIMNPU_IOCTL_VM_RESERVE, 0xc0284e16u);
NUMBER(SIMNPU_IOCTL_VM_RELEASE, 0x40284e17u);
NUMBER(SIMNPU_IOCTL_VM_MAP, 0x40284e18u);
NUMBER(SIMNPU_IOCTL_VM_UNMAP, 0x40284e19u);
NUMBER(SIMNPU_IOCTL_VM_PROTECT, 0x40284e1au);
NUMBER(SIMNPU_IOCTL_COPY, 0x40384e1bu);
NUMBER(SIMNPU_IOCTL_QUEUE_CREATE, 0xc0304e20u);
NUMBER(SIMNPU_IOCTL_QUEUE_DESTROY, 0x40084e21u);
NUMBER(SIMNPU_IOCTL_QUEUE_GROW, 0xc0104e22u);
NUMBER(SIMNPU_IOCTL_KICK, 0x40084e23u);
NUMBER(SIMNPU_IOCTL_WAIT, 0x40184e24u);
NUMBER(SIMNPU_IOCTL_NOTIFY, 0x40104e25u);
NUMBER(SIMNPU_IOCTL_QUEUE_ERRORS, 0xc0304e26u);
NUMBER(SIMNPU_IOCTL_QUEUE_ABORT, 0x40104e27u);
NUMBER(SIMNPU_IOCTL_QUEUE_EXPORT, 0xc0284e28u);
NUMBER(SIMNPU_IOCTL_QUEUE_IMPORT, 0xc0284e29u);
NUMBER(SIMNPU_IOCTL_QUEUE_AT, 0xc0204e2au);
NUMBER(SIMNPU_IOCTL_EVENT_CREATE, 0xc0184e30u);
NUMBER(SIMNPU_IOCTL_EVENT_DESTROY, 0x40084e31u);
NUMBER(SIMNPU_IOCTL_MODULE_LOAD, 0xc0204e38u);
NUMBER(SIMNPU_IOCTL_MODULE_UNLOAD, 0x40084e39u);
NUMBER(SIMNPU_IOCTL_KERNEL_GET, 0xc0184e3au);
NUMBER(SIMNPU_IOCTL_CALLBACK_NEXT, 0xc0304e40u);
NUMBER(SIMNPU_IOCTL_CALLBACK_DONE, 0x40304e41u);
NUMBER(SIMNPU_IOCTL_CALLBACK_STOP, 0x40084e42u);
NUMBER(SIMNPU_IOCTL_DEVICE_STOP, 0x40104e48u);
NUMBER(SIMNPU_IOCTL_DEVICE_RESTART, 0x40104e49u);
NUMBER(SIMNPU_IOCTL_POISON, 0xc0184e4au);

#undef SIZE
#undef AT
#undef NUMBER

#endif /* SELFTESTS_DRIVERS_SIMNPU_LAYOUT_H */
