// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every ioctl of the simulated device, one thing wrong at a time.
 */
#include <fcntl.h>
#include <sys/eventfd.h>

#include "selftests/drivers/simnpu_layout.h"
#include "selftests/drivers/simnpu_ring.h"
#include "selftests/npu_kselftest.h"

#define BAD_HANDLE 0x7fffffffu

FIXTURE(ioctl)
{
	struct ctx c, other;
	struct ring r;
	char *page;		/* can't be touched */
};

FIXTURE_SETUP(ioctl)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ctx_open(&self->other, 0));
	ASSERT_EQ(0, ring_open(&self->r, &self->c));
	self->page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->page);
}

FIXTURE_TEARDOWN(ioctl)
{
	struct simnpu_test_device d;

	EXPECT_EQ(0, dev_close(self->c.fd));
	EXPECT_EQ(0, dev_close(self->other.fd));
	EXPECT_FALSE(simnpu_test_device(0, &d));
	EXPECT_EQ(0, d.queues);
	EXPECT_EQ(0, d.events);
	EXPECT_EQ(0, d.threads);
	EXPECT_EQ(0, d.mem_used);
	munmap(self->page, 4096);
}

/* ---- nodes ---- */

TEST_F(ioctl, nodes_that_do_not_exist)
{
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu2", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu64", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu00", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu0x", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu-1", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/simnpu99999999999", 0));
	EXPECT_EQ(-ENOENT, hal_sys_open(&simnpu_model_sys, "/dev/null", 0));
}

TEST_F(ioctl, descriptors_are_real_and_their_own)
{
	struct simnpu_version v = { 0 };
	int fd = dev_open(1), plain;

	ASSERT_GE(fd, 0);
	EXPECT_NE(-1, fcntl(fd, F_GETFD));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(0, io(fd, VERSION, &v));
	EXPECT_EQ(0, dev_close(fd));
	EXPECT_EQ(-EBADF, io(fd, VERSION, &v));
	EXPECT_EQ(-EBADF, dev_close(fd));
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	plain = eventfd(0, 0);
	EXPECT_EQ(-EBADF, io(plain, VERSION, &v));
	EXPECT_EQ(-EBADF, io(-1, VERSION, &v));
	EXPECT_EQ(-EBADF, io(1 << 30, VERSION, &v));
	close(plain);
}

static const char *instance_text(const char *name)
{
	return strcmp(name, "simnpu_instance") ? NULL : "shared";
}

/* One name at a time; or none, as it is configured. */
TEST_F(ioctl, a_named_instance_beside_a_private_one_is_refused)
{
	static const struct hal_option_reader reader = { .text = instance_text };

	hal_option_set_reader(&reader);
	EXPECT_EQ(IS_ENABLED(CONFIG_SIMNPU_INSTANCES) ? -EBUSY : -EOPNOTSUPP, dev_open(1));
	hal_option_set_reader(NULL);
}

/* ---- sizes and numbers ---- */

TEST_F(ioctl, numbers_that_do_not_exist)
{
	char buf[64] = { 0 };

	EXPECT_EQ(-ENOTTY, io_raw(self->c.fd, _IOR(SIMNPU_IOC, 0x7f, struct simnpu_version), buf));
	EXPECT_EQ(-ENOTTY, io_raw(self->c.fd, _IOR(SIMNPU_IOC, 0xff, struct simnpu_version), buf));
	EXPECT_EQ(-ENOTTY, io_raw(self->c.fd, _IOR('M', 0x00, struct simnpu_version), buf));
	EXPECT_EQ(-ENOTTY, io_raw(self->c.fd, _IOW(SIMNPU_IOC, 0x00, struct simnpu_version), buf));
}

TEST_F(ioctl, shorter_structures_are_filled_up)
{
	struct simnpu_mem m = { .size = 4096, .context = self->c.handle };
	struct simnpu_info i;
	struct simnpu_wait w = { .queue = self->r.handle };

	memset(&i, 0x55, sizeof(i));
	EXPECT_EQ(0, io_raw(self->c.fd, _IOC(_IOC_READ, SIMNPU_IOC, 0x01, 16), &i));
	EXPECT_EQ(32ull << 30, i.mem_total);
	EXPECT_EQ(0x5555555555555555ull, i.mem_free);
	/* without the answers behind addr */
	EXPECT_EQ(0, io_raw(self->c.fd, _IOC(_IOC_READ | _IOC_WRITE, SIMNPU_IOC, 0x10, 32), &m));
	EXPECT_NE(0, m.addr);
	EXPECT_EQ(0, m.handle);
	EXPECT_EQ(-ENOENT, io_raw(self->c.fd, _IOC(_IOC_WRITE, SIMNPU_IOC, 0x24, 16), &w));
	EXPECT_EQ(-ENOENT, io_raw(self->c.fd, _IOC(_IOC_WRITE, SIMNPU_IOC, 0x23, 0), &w));
}

TEST_F(ioctl, longer_structures_end_in_zeros)
{
	struct { struct simnpu_event e; uint64_t more[40]; } big = {
		.e.context = self->c.handle,
	};
	struct { struct simnpu_version v; uint64_t more[40]; } out;
	struct { struct simnpu_wait w; uint64_t more; } wait = { .w.queue = self->r.handle };
	const unsigned long create = _IOC(_IOC_READ | _IOC_WRITE, SIMNPU_IOC, 0x30, sizeof(big));
	const unsigned long wait_nr = _IOC(_IOC_WRITE, SIMNPU_IOC, 0x24, sizeof(wait));
	struct simnpu_test_device d;

	EXPECT_EQ(0, io_raw(self->c.fd, create, &big));
	big.e = (struct simnpu_event){ .context = self->c.handle };
	big.more[39] = 1;
	EXPECT_EQ(-EINVAL, io_raw(self->c.fd, create, &big));
	simnpu_test_device(0, &d);
	EXPECT_EQ(1, d.events);
	EXPECT_EQ(0, io_raw(self->c.fd, wait_nr, &wait));
	wait.more = 1;
	EXPECT_EQ(-EINVAL, io_raw(self->c.fd, wait_nr, &wait));
	/* of what only goes out, nothing is read */
	memset(&out, 0x55, sizeof(out));
	EXPECT_EQ(0, io_raw(self->c.fd, _IOC(_IOC_READ, SIMNPU_IOC, 0x00, sizeof(out)), &out));
	EXPECT_EQ(SIMNPU_ABI_MINOR, out.v.minor);
	EXPECT_EQ(0, out.more[39]);
}

/* ---- addresses ---- */

TEST_F(ioctl, addresses_that_can_not_be_used)
{
	static const unsigned long all[] = {
		SIMNPU_IOCTL_VERSION, SIMNPU_IOCTL_INFO, SIMNPU_IOCTL_TIME,
		SIMNPU_IOCTL_CONTEXT_CREATE, SIMNPU_IOCTL_CONTEXT_DESTROY,
		SIMNPU_IOCTL_MEM_CREATE, SIMNPU_IOCTL_MEM_DESTROY, SIMNPU_IOCTL_MEM_REGISTER,
		SIMNPU_IOCTL_MEM_WINDOW, SIMNPU_IOCTL_MEM_EXPORT, SIMNPU_IOCTL_MEM_IMPORT,
		SIMNPU_IOCTL_VM_RESERVE, SIMNPU_IOCTL_VM_RELEASE, SIMNPU_IOCTL_VM_MAP,
		SIMNPU_IOCTL_VM_UNMAP, SIMNPU_IOCTL_VM_PROTECT, SIMNPU_IOCTL_QUEUE_CREATE,
		SIMNPU_IOCTL_QUEUE_DESTROY, SIMNPU_IOCTL_QUEUE_GROW, SIMNPU_IOCTL_NOTIFY,
		SIMNPU_IOCTL_QUEUE_ERRORS, SIMNPU_IOCTL_QUEUE_ABORT, SIMNPU_IOCTL_QUEUE_EXPORT,
		SIMNPU_IOCTL_QUEUE_IMPORT, SIMNPU_IOCTL_EVENT_CREATE, SIMNPU_IOCTL_EVENT_DESTROY,
		SIMNPU_IOCTL_MODULE_LOAD, SIMNPU_IOCTL_MODULE_UNLOAD, SIMNPU_IOCTL_KERNEL_GET,
		SIMNPU_IOCTL_CALLBACK_NEXT, SIMNPU_IOCTL_CALLBACK_DONE,
		SIMNPU_IOCTL_CALLBACK_STOP, SIMNPU_IOCTL_DEVICE_STOP,
		SIMNPU_IOCTL_DEVICE_RESTART, SIMNPU_IOCTL_POISON, SIMNPU_IOCTL_QUEUE_AT,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		EXPECT_EQ(-EFAULT, io_raw(self->c.fd, all[i], NULL)) {
			TH_LOG("ioctl %#lx", all[i]);
		}
		EXPECT_EQ(-EFAULT, io_raw(self->c.fd, all[i], self->page)) {
			TH_LOG("ioctl %#lx", all[i]);
		}
	}
	/* these three look at the address alone */
	EXPECT_EQ(-EFAULT, io_raw(self->c.fd, SIMNPU_IOCTL_WAIT, NULL));
	EXPECT_EQ(-EFAULT, io_raw(self->c.fd, SIMNPU_IOCTL_KICK, NULL));
	EXPECT_EQ(-EFAULT, io_raw(self->c.fd, SIMNPU_IOCTL_COPY, (void *)~0ul));
}

TEST_F(ioctl, nothing_changes_when_the_answer_can_not_be_written)
{
	struct simnpu_test_device before, after;
	struct simnpu_mem *m = (void *)self->page;

	ASSERT_EQ(0, mprotect(self->page, 4096, PROT_READ | PROT_WRITE));
	*m = (struct simnpu_mem){ .size = 4096, .context = self->c.handle };
	ASSERT_EQ(0, mprotect(self->page, 4096, PROT_READ));
	simnpu_test_device(0, &before);
	EXPECT_EQ(-EFAULT, io_raw(self->c.fd, SIMNPU_IOCTL_MEM_CREATE, m));
	simnpu_test_device(0, &after);
	EXPECT_EQ(before.mem_used, after.mem_used);
	EXPECT_EQ(before.mems, after.mems);
}

/* ---- padding and flags ---- */

#define REFUSE(code, nr, type, ...) do {					\
	struct type arg_ = { __VA_ARGS__ };					\
										\
	EXPECT_EQ(code, io(self->c.fd, nr, &arg_)) {				\
		TH_LOG("%s: %s", #nr, #__VA_ARGS__);				\
	}									\
} while (0)

TEST_F(ioctl, padding_and_flags)
{
	const uint32_t c = self->c.handle, q = self->r.handle;
	struct simnpu_test_device before, after;

	simnpu_test_device(0, &before);
	REFUSE(-EINVAL, CONTEXT_CREATE, simnpu_context, .flags = 1);
	REFUSE(-EINVAL, CONTEXT_CREATE, simnpu_context, .pad = 1);
	REFUSE(-EINVAL, CONTEXT_DESTROY, simnpu_handle, .handle = c, .pad = 1);
	REFUSE(-EINVAL, MEM_CREATE, simnpu_mem, .size = 1, .context = c, .flags = 0x20);
	REFUSE(-EINVAL, MEM_DESTROY, simnpu_mem_free, .handle = c, .flags = 1);
	REFUSE(-EINVAL, MEM_REGISTER, simnpu_register, .addr = 4096, .size = 4096, .context = c,
	       .flags = 1);
	REFUSE(-EINVAL, MEM_WINDOW, simnpu_window, .flags = 2, .size = 1);
	REFUSE(-EINVAL, MEM_WINDOW, simnpu_window, .pad = 1, .size = 1);
	REFUSE(-EINVAL, MEM_EXPORT, simnpu_export, .flags = 1);
	REFUSE(-EINVAL, MEM_EXPORT, simnpu_export, .pad = 1);
	REFUSE(-EINVAL, MEM_IMPORT, simnpu_import, .flags = 1);
	REFUSE(-EINVAL, VM_RESERVE, simnpu_vm, .flags = 1);
	REFUSE(-EINVAL, VM_RESERVE, simnpu_vm, .context = c, .size = 2u << 20, .handle = 1);
	REFUSE(-EINVAL, VM_RELEASE, simnpu_vm, .pad = 1);
	REFUSE(-EINVAL, VM_RELEASE, simnpu_vm, .offset = 1);
	REFUSE(-EINVAL, VM_UNMAP, simnpu_vm, .handle = 1);
	REFUSE(-EINVAL, VM_UNMAP, simnpu_vm, .offset = 1ull << 32);
	REFUSE(IS_ENABLED(CONFIG_VMM) ? -EINVAL : -EOPNOTSUPP, VM_MAP, simnpu_vm, .context = c,
	       .flags = 4);
	REFUSE(IS_ENABLED(CONFIG_VMM) ? -EINVAL : -EOPNOTSUPP, VM_MAP, simnpu_vm, .context = c,
	       .flags = 2);
	REFUSE(-EINVAL, VM_MAP, simnpu_vm, .pad = 4);
	REFUSE(-EINVAL, VM_MAP, simnpu_vm, .offset = 2u << 20);
	REFUSE(IS_ENABLED(CONFIG_VMM) ? -EINVAL : -EOPNOTSUPP, VM_PROTECT, simnpu_vm, .context = c,
	       .flags = 4);
	REFUSE(-EINVAL, VM_PROTECT, simnpu_vm, .handle = 1);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 16, .first_seq = 1,
	       .flags = 2);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 16, .first_seq = 1,
	       .pad = 1);
	REFUSE(-EINVAL, QUEUE_DESTROY, simnpu_handle, .handle = q, .pad = 1);
	REFUSE(-EINVAL, KICK, simnpu_kick, .queue = q, .flags = 1);
	REFUSE(-EINVAL, WAIT, simnpu_wait, .queue = q, .flags = 1u << 4);
	REFUSE(-EINVAL, QUEUE_ERRORS, simnpu_errors, .queue = q, .pad = 1, .entry_size = 80);
	REFUSE(-EINVAL, QUEUE_ABORT, simnpu_abort, .queue = q, .flags = 1);
	REFUSE(-EINVAL, QUEUE_EXPORT, simnpu_export, .handle = q, .flags = 1);
	REFUSE(-EINVAL, QUEUE_EXPORT, simnpu_export, .handle = q, .pad = 1);
	REFUSE(-EINVAL, QUEUE_IMPORT, simnpu_import, .context = c, .flags = 1);
	REFUSE(-EINVAL, EVENT_CREATE, simnpu_event, .context = c, .flags = 1);
	REFUSE(-EINVAL, EVENT_CREATE, simnpu_event, .context = c, .pad = 1);
	REFUSE(-EINVAL, EVENT_DESTROY, simnpu_handle, .handle = 1, .pad = 1);
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 3, .pad = 1);
	REFUSE(-EINVAL, MODULE_UNLOAD, simnpu_handle, .handle = 1, .pad = 1);
	REFUSE(-EINVAL, CALLBACK_NEXT, simnpu_callback, .context = c, .code = 1);
	REFUSE(-EINVAL, CALLBACK_DONE, simnpu_callback, .queue = q, .fn = 1);
	REFUSE(-EINVAL, CALLBACK_DONE, simnpu_callback, .queue = q, .arg = 1ull << 32);
	REFUSE(-EINVAL, CALLBACK_DONE, simnpu_callback, .queue = q, .flags = 1);
	REFUSE(-EINVAL, CALLBACK_STOP, simnpu_handle, .handle = c, .pad = 1);
	REFUSE(-EINVAL, QUEUE_AT, simnpu_at, .queue = q, .pad = 1);
	REFUSE(-EINVAL, POISON, simnpu_poison, .pad = 1);
	REFUSE(-EINVAL, DEVICE_STOP, simnpu_stop, .pad = 1);
	REFUSE(-EINVAL, DEVICE_STOP, simnpu_stop, .flags = 1);
	REFUSE(-EINVAL, DEVICE_RESTART, simnpu_stop, .pad = 1);
	REFUSE(-EINVAL, DEVICE_RESTART, simnpu_stop, .flags = 1);
	simnpu_test_device(0, &after);
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
}

TEST_F(ioctl, what_is_declared_only)
{
	REFUSE(-EOPNOTSUPP, MEM_EXPORT, simnpu_export, .handle = 1);
	REFUSE(-EOPNOTSUPP, MEM_IMPORT, simnpu_import, .fd = 1);
	REFUSE(-EINVAL, MEM_CREATE, simnpu_mem, .size = 1, .context = self->c.handle,
	       .flags = SIMNPU_MEM_MANAGED | SIMNPU_MEM_HOST);
	REFUSE(-EINVAL, MEM_CREATE, simnpu_mem, .size = SIMNPU_VM_GRANULARITY,
	       .context = self->c.handle, .flags = SIMNPU_MEM_MANAGED | SIMNPU_MEM_PHYSICAL);
}

/* ---- values ---- */

/* What is said instead of a file or an image, where those can be loaded; else that they can't. */
TEST_F(ioctl, files_and_images)
{
	const uint32_t c = self->c.handle;
	char name[300];

	memset(name, 'x', sizeof(name));
	if (!IS_ENABLED(CONFIG_SIMNPU_MODULES)) {
		REFUSE(-EOPNOTSUPP, MODULE_LOAD, simnpu_module, .context = c, .kind = 1,
		       .data = U64("/nowhere/x.so"), .size = 14);
		REFUSE(-EOPNOTSUPP, MODULE_LOAD, simnpu_module, .context = c, .kind = 2,
		       .data = U64(name), .size = sizeof(name));
		return;
	}
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 1, .data = U64(name),
	       .size = 10);
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 1, .data = U64("a\0b"),
	       .size = 4);
	REFUSE(-EFAULT, MODULE_LOAD, simnpu_module, .context = c, .kind = 1,
	       .data = U64(self->page), .size = 10);
	REFUSE(-ENOENT, MODULE_LOAD, simnpu_module, .context = c, .kind = 1,
	       .data = U64("/nowhere/x.so"), .size = 14);
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 2, .size = 0);
	REFUSE(-ENOEXEC, MODULE_LOAD, simnpu_module, .context = c, .kind = 2, .data = U64(name),
	       .size = sizeof(name));
}

TEST_F(ioctl, values)
{
	const uint32_t c = self->c.handle, q = self->r.handle;
	char name[300];

	memset(name, 'x', sizeof(name));
	REFUSE(-EINVAL, MEM_CREATE, simnpu_mem, .size = 0, .context = c);
	REFUSE(-EINVAL, MEM_CREATE, simnpu_mem, .size = 1, .align = 3, .context = c);
	REFUSE(-EINVAL, MEM_CREATE, simnpu_mem, .size = 1, .context = c,
	       .flags = SIMNPU_MEM_HUGE | SIMNPU_MEM_HUGE_FIRST);
	REFUSE(-EINVAL, MEM_REGISTER, simnpu_register, .addr = U64(name) | 1, .size = 4096,
	       .context = c);
	REFUSE(-EINVAL, MEM_REGISTER, simnpu_register, .addr = 4096, .size = 0, .context = c);
	REFUSE(-EINVAL, MEM_REGISTER, simnpu_register, .addr = ~4095ull, .size = 8192,
	       .context = c);
	REFUSE(-EFAULT, MEM_REGISTER, simnpu_register, .addr = U64(self->page), .size = 4096,
	       .context = c);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 8, .first_seq = 1);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 24, .first_seq = 1);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 8192, .first_seq = 1);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 16, .first_seq = 0);
	REFUSE(-EINVAL, QUEUE_CREATE, simnpu_queue, .context = c, .slots = 16, .first_seq = 1,
	       .priority = 8);
	REFUSE(-EINVAL, QUEUE_GROW, simnpu_grow, .queue = q, .slots = 20);
	REFUSE(-EINVAL, WAIT, simnpu_wait, .queue = q, .seq = 1ull << 63);
	REFUSE(-EINVAL, NOTIFY, simnpu_notify, .queue = q, .seq = 1ull << 63);
	REFUSE(-EBADF, NOTIFY, simnpu_notify, .queue = q, .seq = 1, .fd = -1);
	REFUSE(-EINVAL, QUEUE_ERRORS, simnpu_errors, .queue = q, .entry_size = 8);
	REFUSE(-EINVAL, QUEUE_ERRORS, simnpu_errors, .queue = q, .entry_size = 4096);
	REFUSE(-EINVAL, QUEUE_ERRORS, simnpu_errors, .queue = q, .entry_size = 81);
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 0);
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 4);
	REFUSE(-EINVAL, MODULE_LOAD, simnpu_module, .context = c, .kind = 3, .size = 1);
	REFUSE(-EINVAL, KERNEL_GET, simnpu_kernel, .module = self->c.builtin, .name = U64(name),
	       .size = 1);
	REFUSE(-EINVAL, KERNEL_GET, simnpu_kernel, .module = self->c.builtin, .name = U64(name),
	       .size = 300);
	REFUSE(-EINVAL, KERNEL_GET, simnpu_kernel, .module = self->c.builtin, .name = U64(name),
	       .size = 4);
	REFUSE(-EFAULT, KERNEL_GET, simnpu_kernel, .module = self->c.builtin,
	       .name = U64(self->page), .size = 4);
	REFUSE(-ESRCH, KERNEL_GET, simnpu_kernel, .module = self->c.builtin, .name = U64("none"),
	       .size = 5);
	REFUSE(-EINVAL, CALLBACK_DONE, simnpu_callback, .queue = q, .code = 4096);
	REFUSE(-EINVAL, CALLBACK_DONE, simnpu_callback, .queue = q, .seq = 1);
	REFUSE(-EBADF, QUEUE_IMPORT, simnpu_import, .context = c, .fd = -1);
	REFUSE(-EINVAL, QUEUE_IMPORT, simnpu_import, .context = c, .fd = self->c.fd);
	REFUSE(-EINVAL, MEM_WINDOW, simnpu_window, .addr = U64(name), .size = 1, .flags = 1);
}

TEST_F(ioctl, copies)
{
	const uint32_t c = self->c.handle;
	uint64_t m = mem_new(&self->c, 4096, NULL);
	char buf[64];

#define COPY_REFUSE(code, ...) REFUSE(code, COPY, simnpu_copy, .context = c, .width = 16,	\
				      .height = 2, .dst_pitch = 16, .src_pitch = 16,		\
				      .dst = m, .src = U64(buf), .kind = 1, __VA_ARGS__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif
	COPY_REFUSE(0, .kind = 1);
	COPY_REFUSE(-EINVAL, .kind = 5);
	COPY_REFUSE(-EINVAL, .width = 0);
	COPY_REFUSE(-EINVAL, .height = 0);
	COPY_REFUSE(-EINVAL, .dst_pitch = 15);
	COPY_REFUSE(-EINVAL, .src_pitch = 15);
	COPY_REFUSE(-EINVAL, .height = 1ull << 61, .dst_pitch = 1ull << 61);
	COPY_REFUSE(-EINVAL, .kind = 0, .src = 256, .src_pitch = 0);
	COPY_REFUSE(-EINVAL, .kind = 0, .src = 1, .src_pitch = 1);
	COPY_REFUSE(-EFAULT, .dst = m + 4096);
	COPY_REFUSE(-EFAULT, .src = 0);
	COPY_REFUSE(-EFAULT, .kind = SIMNPU_COPY_ON_DEVICE);
	COPY_REFUSE(-EINVAL, .kind = SIMNPU_COPY_PEER, .src = m + 512);
	COPY_REFUSE(-ENOENT, .context = BAD_HANDLE);
#pragma GCC diagnostic pop
}

/* ---- handles ---- */

TEST_F(ioctl, handles_of_nobody_of_another_kind_and_of_others)
{
	struct simnpu_event ev = { .context = self->c.handle };
	uint32_t bad[5], mem;
	size_t i;

	ASSERT_EQ(0, io(self->c.fd, EVENT_CREATE, &ev));
	ASSERT_NE(0, mem_new(&self->c, 4096, &mem));
	bad[0] = 0;
	bad[1] = BAD_HANDLE;
	bad[2] = self->other.handle;
	bad[3] = self->other.builtin;
	bad[4] = ev.handle;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		const uint32_t h = bad[i];

		REFUSE(-ENOENT, CONTEXT_DESTROY, simnpu_handle, .handle = h);
		REFUSE(-ENOENT, MEM_CREATE, simnpu_mem, .size = 1, .context = h);
		REFUSE(-ENOENT, MEM_DESTROY, simnpu_mem_free, .handle = h);
		REFUSE(-ENOENT, MEM_REGISTER, simnpu_register, .addr = U64(self->c.arena),
		       .size = 4096, .context = h);
		REFUSE(-ENOENT, QUEUE_CREATE, simnpu_queue, .context = h, .slots = 16,
		       .first_seq = 1);
		REFUSE(-ENOENT, QUEUE_DESTROY, simnpu_handle, .handle = h);
		REFUSE(-ENOENT, QUEUE_GROW, simnpu_grow, .queue = h, .slots = 16);
		REFUSE(-ENOENT, KICK, simnpu_kick, .queue = h);
		REFUSE(-ENOENT, WAIT, simnpu_wait, .queue = h);
		REFUSE(-ENOENT, NOTIFY, simnpu_notify, .queue = h);
		REFUSE(-ENOENT, QUEUE_ERRORS, simnpu_errors, .queue = h, .entry_size = 80);
		REFUSE(-ENOENT, QUEUE_EXPORT, simnpu_export, .handle = h);
		REFUSE(-ENOENT, EVENT_CREATE, simnpu_event, .context = h);
		REFUSE(-ENOENT, MODULE_LOAD, simnpu_module, .context = h, .kind = 3);
		REFUSE(-ENOENT, MODULE_UNLOAD, simnpu_handle, .handle = h);
		REFUSE(-ENOENT, KERNEL_GET, simnpu_kernel, .module = h, .name = U64("nop"),
		       .size = 4);
		REFUSE(-ENOENT, CALLBACK_NEXT, simnpu_callback, .context = h);
		REFUSE(-ENOENT, CALLBACK_DONE, simnpu_callback, .queue = h);
		REFUSE(-ENOENT, CALLBACK_STOP, simnpu_handle, .handle = h);
	}
	REFUSE(-ENOENT, EVENT_DESTROY, simnpu_handle, .handle = mem);
	REFUSE(0, EVENT_DESTROY, simnpu_handle, .handle = ev.handle);
	REFUSE(-ENOENT, EVENT_DESTROY, simnpu_handle, .handle = ev.handle);
	EXPECT_EQ(0, mem_del(&self->c, mem));
	EXPECT_EQ(-ENOENT, mem_del(&self->c, mem));
}

TEST_F(ioctl, no_handle_is_given_out_twice)
{
	struct simnpu_event ev;
	uint32_t last = 0;
	int i;

	for (i = 0; i < 1000; i++) {
		ev = (struct simnpu_event){ .context = self->c.handle };
		ASSERT_EQ(0, io(self->c.fd, EVENT_CREATE, &ev));
		EXPECT_LT(last, ev.handle);
		last = ev.handle;
		REFUSE(0, EVENT_DESTROY, simnpu_handle, .handle = ev.handle);
	}
}

TEST_F(ioctl, contexts_until_there_are_no_more)
{
	struct simnpu_context arg = { 0 };
	struct simnpu_info info;
	uint32_t n = 1, first = 0;

	ASSERT_EQ(0, io(self->c.fd, INFO, &info));
	while (!io(self->c.fd, CONTEXT_CREATE, &arg)) {
		first = first ? first : arg.context;
		n++;
	}
	EXPECT_EQ(info.max_contexts, n);
	EXPECT_EQ(-ENOSPC, io(self->c.fd, CONTEXT_CREATE, &arg));
	REFUSE(0, CONTEXT_DESTROY, simnpu_handle, .handle = first);
	EXPECT_EQ(0, io(self->c.fd, CONTEXT_CREATE, &arg));
	EXPECT_NE(first, arg.context);
}

#define NR(name) SIMNPU_IOCTL_##name
static const unsigned long all_ioctls[] = {
	NR(VERSION), NR(INFO), NR(TIME), NR(CONTEXT_CREATE), NR(CONTEXT_DESTROY), NR(MEM_CREATE),
	NR(MEM_DESTROY), NR(MEM_REGISTER), NR(MEM_WINDOW), NR(MEM_EXPORT), NR(MEM_IMPORT),
	NR(VM_RESERVE), NR(VM_RELEASE), NR(VM_MAP), NR(VM_UNMAP), NR(VM_PROTECT), NR(COPY),
	NR(QUEUE_CREATE), NR(QUEUE_DESTROY), NR(QUEUE_GROW), NR(KICK), NR(WAIT), NR(NOTIFY),
	NR(QUEUE_ERRORS), NR(QUEUE_ABORT), NR(QUEUE_EXPORT), NR(QUEUE_IMPORT), NR(EVENT_CREATE),
	NR(EVENT_DESTROY), NR(MODULE_LOAD), NR(MODULE_UNLOAD), NR(KERNEL_GET), NR(CALLBACK_NEXT),
	NR(CALLBACK_DONE), NR(CALLBACK_STOP), NR(DEVICE_STOP), NR(POISON), NR(QUEUE_AT),
	NR(DEVICE_RESTART),
};

TEST_F(ioctl, every_ioctl_can_be_made_to_fail)
{
	struct simnpu_stop stop = { 0 };
	char buf[256];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all_ioctls); i++) {
		unsigned int what = SIMNPU_FAIL_IOCTL + _IOC_NR(all_ioctls[i]);

		memset(buf, 0, sizeof(buf));
		simnpu_test_fail(what, 2, 1, EXFULL);
		EXPECT_NE(-EXFULL, io_raw(self->other.fd, all_ioctls[i], buf));
		EXPECT_EQ(-EXFULL, io_raw(self->other.fd, all_ioctls[i], buf)) {
			TH_LOG("number 0x%lx", _IOC_NR(all_ioctls[i]));
		}
		EXPECT_NE(-EXFULL, io_raw(self->other.fd, all_ioctls[i], buf));
		EXPECT_EQ(3, simnpu_test_calls(what));
		EXPECT_EQ(3, simnpu_test_fail(what, 0, 0, 0));
		EXPECT_EQ(0, simnpu_test_fail(what, 0, 0, 0));
		/* one that stops the device has stopped it twice */
		io(self->other.fd, DEVICE_RESTART, &stop);
	}
}

TEST_F(ioctl, what_is_rung_and_waited_for_fails_and_goes_on)
{
	uint64_t a = 7, b = 0, dev;
	uint32_t handle;

	dev = mem_new(&self->c, 4096, &handle);
	ASSERT_NE(0, dev);
	put_nop(&self->r);
	simnpu_test_fail(SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_KICK), 1, 1, ENODEV);
	simnpu_test_fail(SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_WAIT), 1, 1, EIO);
	simnpu_test_fail(SIMNPU_FAIL_IOCTL + _IOC_NR(SIMNPU_IOCTL_COPY), 2, 1, ENOSPC);
	EXPECT_EQ(-ENODEV, ring_kick(&self->r));
	EXPECT_EQ(0, ring_kick(&self->r));
	EXPECT_EQ(-EIO, ring_wait(&self->r, 1));
	EXPECT_EQ(0, ring_wait(&self->r, 1));
	EXPECT_EQ(0, copy_now(&self->c, dev, U64(&a), 8, SIMNPU_COPY_TO_DEVICE));
	EXPECT_EQ(-ENOSPC, copy_now(&self->c, U64(&b), dev, 8, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(0, b);
	EXPECT_EQ(0, copy_now(&self->c, U64(&b), dev, 8, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(7, b);
	EXPECT_EQ(0, mem_del(&self->c, handle));
}

/* ---- maps ---- */

TEST_F(ioctl, maps)
{
	const struct hal_sys_ops *ops = &simnpu_model_sys;
	const uint64_t arena = SIMNPU_MMAP_ARENA(self->c.handle);
	struct simnpu_mem m = {
		.size = 5000, .context = self->c.handle, .flags = SIMNPU_MEM_HOST,
	};
	const int rw = PROT_READ | PROT_WRITE;
	void *p;

	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 4096, rw, MAP_SHARED, self->c.fd, arena + 4096, &p));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 4096, rw, MAP_PRIVATE, self->c.fd, arena, &p));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 0, rw, MAP_SHARED, self->c.fd, arena, &p));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, self->c.arena_size + 1, rw, MAP_SHARED, self->c.fd,
					arena, &p));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 4096, rw, MAP_SHARED, self->other.fd, arena, &p));
	EXPECT_EQ(-EBADF, hal_sys_mmap(ops, 4096, rw, MAP_SHARED, -1, arena, &p));
	ASSERT_EQ(0, io(self->c.fd, MEM_CREATE, &m));
	EXPECT_EQ(0, m.addr);
	ASSERT_EQ(0, hal_sys_mmap(ops, 5000, rw, MAP_SHARED, self->c.fd, m.map, &p));
	memset(p, 0x5a, 5000);
	EXPECT_EQ(0, hal_sys_munmap(ops, p, 5000));
	EXPECT_EQ(-EINVAL, hal_sys_munmap(ops, (char *)p + 1, 5000));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 8193, rw, MAP_SHARED, self->c.fd, m.map, &p));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 4096, rw, MAP_SHARED, self->other.fd, m.map, &p));
	EXPECT_EQ(0, mem_del(&self->c, m.handle));
	EXPECT_EQ(-EINVAL, hal_sys_mmap(ops, 4096, rw, MAP_SHARED, self->c.fd, m.map, &p));
}

/* ---- queries ---- */

TEST_F(ioctl, info_and_time)
{
	struct simnpu_info i = { 0 };
	struct simnpu_time t = { 0 };
	struct simnpu_version v = { 0 };
	uint64_t before = hal_sys_now();

	ASSERT_EQ(0, io(self->c.fd, VERSION, &v));
	EXPECT_EQ(SIMNPU_ABI_MAJOR, v.major);
	EXPECT_EQ(SIMNPU_ABI_MINOR, v.minor);
	ASSERT_EQ(0, io(self->c.fd, TIME, &t));
	EXPECT_LE(before, t.host_ns);
	EXPECT_GE(hal_sys_now(), t.host_ns);
	ASSERT_EQ(0, io(self->c.fd, INFO, &i));
	EXPECT_STREQ("SimNPU", i.part);
	EXPECT_EQ(65536, i.max_queues);
	EXPECT_EQ(65536, i.max_events);
	EXPECT_EQ(1, i.queues);
	EXPECT_LE(i.look_again_ns, 50000);
	EXPECT_EQ(NPU_SIMNPU_KERNEL_ABI, i.kernel_abi);
	EXPECT_EQ(0, i.caps & (SIMNPU_CAP_EXPORT | SIMNPU_CAP_VIRTUAL_TIME));
	EXPECT_NE(0, i.caps & SIMNPU_CAP_MANAGED);
	EXPECT_EQ(IS_ENABLED(CONFIG_VMM), (i.caps & SIMNPU_CAP_VMM) != 0);
	EXPECT_NE(0, i.caps & SIMNPU_CAP_ABORT);
	EXPECT_NE(0, i.caps & SIMNPU_CAP_FAULT);
	EXPECT_STREQ("simnpu0", i.bus);
	EXPECT_EQ(SIMNPU_STATE_OK, i.state);
	EXPECT_EQ(0, i.generation);
	EXPECT_EQ(0, i.cause);
	EXPECT_NE(0, i.caps & SIMNPU_CAP_STRICT);
	EXPECT_EQ(0, i.mem_align & (i.mem_align - 1));
	EXPECT_EQ(i.mem_total, i.mem_free);
}

TEST_HARNESS_MAIN
