// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual memory, as a program uses it.
 */
#include "selftests/npu_kselftest.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include "selftests/runtime/rt_test.h"

#define G (2u << 20)
#define RW (NPU_VM_READ | NPU_VM_WRITE)

FIXTURE(vmm) {
	npu_stream s;
	unsigned char *host;
};

FIXTURE_SETUP(vmm)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
	self->host = malloc(4 * G);
	ASSERT_NE(NULL, self->host);
	OK(npu_stream_create(NULL, &self->s));
}

FIXTURE_TEARDOWN(vmm)
{
	EXPECT_EQ(0, npu_finalize(5000));
	free(self->host);
}

static size_t bytes_free(int device)
{
	size_t n = 0;

	npu_device_mem_info(device, &n, NULL);
	return n;
}

static bool is_in_error(const char *part)
{
	struct npu_error e = last_error();

	return strstr(e.text, part) || strstr(e.hint, part);
}

/* A buffer that grows in place, a piece at a time, and is one for copies and kernels. */
TEST_F(vmm, grows_in_place)
{
	size_t before = bytes_free(0), i;
	npu_vm_memory m[4];
	char *base;
	void *p;

	/* as much as the device has, and more */
	OK(npu_vm_reserve(0, 72u << 20, 0, NULL, &p));
	EXPECT_EQ(before, bytes_free(0));
	base = p;
	for (i = 0; i < 4; i++) {
		OK(npu_vm_create(0, G, 0, &m[i]));
		OK(npu_vm_map(base + i * G, G, m[i], 0, RW));
		OK(npu_memset(base, (int)i + 1, (i + 1) * G));
		EXPECT_EQ(before - (i + 1) * G, bytes_free(0));
		EXPECT_EQ(-EINVAL, npu_memset(base, 0, (i + 1) * G + 1));
	}
	OK(npu_memset_async(base + G - 3, 9, 2 * G, self->s));
	OK(npu_memcpy_async(self->host, base, 4 * G, NPU_COPY_AUTO, self->s));
	OK(npu_stream_sync(self->s, 5000));
	EXPECT_EQ(4, self->host[G - 4]);
	EXPECT_EQ(9, self->host[G - 3]);
	EXPECT_EQ(9, self->host[3 * G - 4]);
	EXPECT_EQ(4, self->host[3 * G - 3]);
	for (i = 0; i < 4; i++)
		OK(npu_vm_destroy(m[i]));
	EXPECT_EQ(before - 4 * G, bytes_free(0));
	OK(npu_vm_unmap(base, 4 * G));
	EXPECT_EQ(before, bytes_free(0));
	OK(npu_vm_release(p));
}

/* Memory that is given back while its addresses stay, content and all. */
TEST_F(vmm, sleeps_and_wakes)
{
	size_t before = bytes_free(0);
	npu_vm_memory m;
	void *p;
	int i;

	OK(npu_vm_reserve(NPU_DEVICE_CURRENT, 2 * G, 2 * G, NULL, &p));
	EXPECT_EQ(0, (uintptr_t)p % (2 * G));
	OK(npu_vm_create(NPU_DEVICE_CURRENT, 2 * G, NPU_MEM_HUGE_FIRST, &m));
	OK(npu_vm_map(p, 2 * G, m, 0, RW));
	OK(npu_memset(p, 1, 2 * G));
	for (i = 0; i < 5; i++) {
		OK(npu_memcpy(self->host, p, 2 * G, NPU_COPY_AUTO));
		OK(npu_vm_destroy(m));
		OK(npu_vm_unmap(p, 2 * G));
		EXPECT_EQ(before, bytes_free(0));
		EXPECT_EQ(-EINVAL, npu_memcpy(self->host, p, 1, NPU_COPY_AUTO));
		EXPECT_EQ(-EINVAL, npu_memcpy(self->host, p, 1, NPU_COPY_D2H));
		OK(npu_vm_create(NPU_DEVICE_CURRENT, 2 * G, 0, &m));
		OK(npu_vm_map(p, 2 * G, m, 0, RW));
		OK(npu_memcpy(p, self->host, 2 * G, NPU_COPY_AUTO));
		self->host[2 * G - 1] = 0;
		OK(npu_memcpy(self->host, p, 2 * G, NPU_COPY_AUTO));
		EXPECT_EQ(1, self->host[2 * G - 1]);
	}
}

TEST_F(vmm, what_is_allowed)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	struct npu_simnpu_inc_args a = { .by = 1 };
	npu_vm_memory m;
	void *p;

	OK(npu_vm_reserve(0, G, 0, NULL, &p));
	OK(npu_vm_create(0, G, 0, &m));
	OK(npu_vm_map(p, G, m, 0, RW));
	OK(npu_memset(p, 5, G));
	OK(npu_pointer_get_info(p, &i));
	EXPECT_EQ(NPU_POINTER_DEVICE, i.kind);
	EXPECT_EQ(0, i.device);
	EXPECT_EQ(p, i.base);
	EXPECT_EQ(G, i.bytes);
	OK(npu_vm_protect(p, G, NPU_VM_READ));
	EXPECT_EQ(-EACCES, npu_memset(p, 6, 1));
	EXPECT_TRUE(is_in_error("does not allow"));
	EXPECT_EQ(-EACCES, npu_memcpy_async(p, self->host, 1, NPU_COPY_AUTO, self->s));
	EXPECT_EQ(-EACCES, npu_memset_async(p, 0, 1, self->s));
	OK(npu_memcpy(self->host, p, G, NPU_COPY_D2H));
	EXPECT_EQ(5, self->host[G - 1]);
	a.addr = (uintptr_t)p;
	OK(npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), self->s));
	EXPECT_EQ(-EFAULT, npu_stream_sync(self->s, 5000));
	OK(npu_vm_protect(p, G, 0));
	EXPECT_EQ(-EACCES, npu_memcpy(self->host, p, 1, NPU_COPY_D2H));
	OK(npu_pointer_get_info(p, &i));
	EXPECT_EQ(NPU_POINTER_DEVICE, i.kind);
	EXPECT_EQ(-EINVAL, npu_free(p));
	EXPECT_EQ(-EINVAL, npu_mem_free(p));
	OK(npu_vm_protect(p, G, RW));
	OK(npu_memset(p, 6, G));
}

TEST_F(vmm, arguments)
{
	npu_vm_memory m = { 1 };
	size_t g = 1;
	void *p;
	int fd = 1;

	OK(npu_vm_get_granularity(0, &g));
	EXPECT_EQ(G, g);
	EXPECT_EQ(-EINVAL, npu_vm_get_granularity(0, NULL));
	EXPECT_EQ(-ENODEV, npu_vm_get_granularity(2, &g));
	EXPECT_EQ(0, g);
	EXPECT_EQ(-EINVAL, npu_vm_reserve(0, G, 0, NULL, NULL));
	EXPECT_EQ(-EINVAL, npu_vm_reserve(0, 0, 0, NULL, &p));
	EXPECT_EQ(-EINVAL, npu_vm_reserve(0, G - 1, 0, NULL, &p));
	EXPECT_EQ(-EINVAL, npu_vm_reserve(0, G, 3, NULL, &p));
	EXPECT_EQ(-ENODEV, npu_vm_reserve(2, G, 0, NULL, &p));
	EXPECT_EQ(-ENODEV, npu_vm_reserve(-2, G, 0, NULL, &p));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(-EINVAL, npu_vm_create(0, G, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_vm_create(0, 0, 0, &m));
	EXPECT_EQ(-EINVAL, npu_vm_create(0, 100, 0, &m));
	EXPECT_EQ(-EINVAL, npu_vm_create(0, G, 1u << 7, &m));
	EXPECT_EQ(-ENOMEM, npu_vm_create(0, 66u << 20, 0, &m));
	EXPECT_EQ(-ENODEV, npu_vm_create(7, G, 0, &m));
	EXPECT_EQ(0, m.h);
	EXPECT_EQ(-EINVAL, npu_vm_destroy(m));
	EXPECT_EQ(-EINVAL, npu_vm_map(NULL, G, m, 0, RW));
	EXPECT_EQ(-EINVAL, npu_vm_unmap(NULL, G));
	EXPECT_EQ(-EINVAL, npu_vm_protect(&m, G, RW));
	EXPECT_EQ(-EINVAL, npu_vm_release(NULL));
	EXPECT_EQ(-EINVAL, npu_vm_export(m, NULL));
	EXPECT_EQ(-EINVAL, npu_vm_export(m, &fd));
	EXPECT_EQ(-1, fd);
	EXPECT_EQ(-EINVAL, npu_vm_import(0, 0, NULL, &g));
	EXPECT_EQ(0, g);
	/* devices of one process alone share nothing with others */
	OK(npu_vm_create(0, G, 0, &m));
	EXPECT_EQ(-EOPNOTSUPP, npu_vm_export(m, &fd));
	EXPECT_EQ(-EOPNOTSUPP, npu_vm_import(0, 0, &m, NULL));
}

/* Devices and contexts keep their own apart. */
TEST_F(vmm, whose_it_is)
{
	npu_vm_memory m0, m1;
	npu_context old, own;
	void *p0, *p1, *pc;

	OK(npu_vm_reserve(0, G, 0, NULL, &p0));
	OK(npu_vm_reserve(1, G, 0, NULL, &p1));
	OK(npu_vm_create(0, G, 0, &m0));
	OK(npu_vm_create(1, G, 0, &m1));
	EXPECT_EQ(-EXDEV, npu_vm_map(p0, G, m1, 0, RW));
	EXPECT_EQ(-EXDEV, npu_vm_map(p1, G, m0, 0, RW));
	OK(npu_vm_map(p0, G, m0, 0, RW));
	OK(npu_vm_map(p1, G, m1, 0, RW));
	OK(npu_memset(p0, 3, G));
	OK(npu_memcpy(p1, p0, G, NPU_COPY_AUTO));
	OK(npu_memcpy(self->host, p1, G, NPU_COPY_AUTO));
	EXPECT_EQ(3, self->host[G - 1]);
	OK(npu_context_get(&old));
	OK(npu_context_create(0, &own));
	OK(npu_context_set(own));
	OK(npu_vm_reserve(NPU_DEVICE_CURRENT, G, 0, NULL, &pc));
	OK(npu_vm_unmap(p0, G));
	EXPECT_EQ(-EXDEV, npu_vm_map(pc, G, m0, 0, RW));
	OK(npu_vm_map(p0, G, m0, 0, RW));
	OK(npu_context_destroy(own, 5000));
	EXPECT_EQ(-EINVAL, npu_vm_release(pc));
	/* a device that is reset has nothing any more */
	OK(npu_device_reset(1, 5000));
	EXPECT_EQ(-ESTALE, npu_vm_destroy(m1));
	EXPECT_EQ(-EINVAL, npu_vm_unmap(p1, G));
	EXPECT_EQ(-EINVAL, npu_vm_release(p1));
	OK(npu_memset(p0, 4, G));
}

TEST_F(vmm, a_restart_leaves_all_where_it_is)
{
	npu_vm_memory m;
	void *p;

	OK(npu_vm_reserve(0, 2 * G, 0, NULL, &p));
	OK(npu_vm_create(0, G, 0, &m));
	OK(npu_vm_map(p, G, m, 0, RW));
	OK(npu_memset(p, 8, G));
	OK(npu_device_stop(0, 5000));
	EXPECT_EQ(-ESHUTDOWN, npu_vm_protect(p, G, 0));
	OK(npu_device_restart(0, 0, 5000));
	OK(npu_memcpy(self->host, p, G, NPU_COPY_AUTO));
	EXPECT_EQ(8, self->host[1]);
	OK(npu_vm_unmap(p, G));
	OK(npu_vm_map((char *)p + G, G, m, 0, NPU_VM_READ));
	self->host[1] = 0;
	OK(npu_memcpy(self->host, (char *)p + G, G, NPU_COPY_AUTO));
	EXPECT_EQ(8, self->host[1]);
}

/* ---- between processes ---- */

static int send_fd(int socket, int fd)
{
	union { char buf[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u = { .buf = "" };
	struct iovec io = { "", 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(socket, &m, 0) == 1 ? 0 : -1;
}

static int take_fd(int socket)
{
	union { char buf[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u;
	char byte;
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	int fd = -1;

	if (recvmsg(socket, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* Imports what comes, reads 5 at its end, writes 6 there, and says so; how far it came. */
static int importer(int socket)
{
	npu_vm_memory m, again;
	size_t size = 0;
	char c = 0;
	void *p;
	int fd, none;

	fd = take_fd(socket);
	if (fd < 0 || npu_vm_import(fd, 0, &m, &size) || size != 2 * G)
		return 1;
	if (npu_vm_export(m, &none) != -EOPNOTSUPP || npu_vm_import(fd, 0, &again, NULL) ||
	    npu_vm_destroy(again))
		return 2;
	if (npu_vm_reserve(0, 4 * G, 0, NULL, &p) || npu_vm_map(p, size, m, 0, RW))
		return 3;
	if (npu_memcpy(&c, (char *)p + size - 1, 1, NPU_COPY_D2H) || c != 5)
		return 4;
	if (npu_memset((char *)p + size - 1, 6, 1) || write(socket, "", 1) != 1)
		return 5;
	/* the other one gives it back meanwhile: it stays, as long as it is wanted */
	if (read(socket, &c, 1) != 1 || npu_memcpy(&c, p, 1, NPU_COPY_D2H) || c != 7)
		return 6;
	return npu_vm_unmap(p, size) || npu_vm_destroy(m) || npu_finalize(5000) ? 7 : 0;
}

TEST(a_descriptor_for_another_process)
{
	char name[32], byte = 0;
	int pair[2], fd, status;
	npu_vm_memory m;
	size_t before;
	void *p;
	pid_t pid;

	if (!IS_ENABLED(CONFIG_SIMNPU_INSTANCES))
		SKIP(return, "no named instances in this build");
	snprintf(name, sizeof(name), "vmm-test-%d", (int)getpid());
	setenv("NPU_SIMNPU_INSTANCE", name, 1);
	setenv("NPU_SIMNPU_MEMORY", "64M", 1);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(pair[0]);
		_exit(importer(pair[1]));
	}
	close(pair[1]);
	OK(npu_init());
	before = bytes_free(0);
	OK(npu_vm_reserve(0, 2 * G, 0, NULL, &p));
	OK(npu_vm_create(0, 2 * G, 0, &m));
	OK(npu_vm_map(p, 2 * G, m, 0, RW));
	OK(npu_memset(p, 5, 2 * G));
	OK(npu_vm_export(m, &fd));
	OK(send_fd(pair[0], fd));
	close(fd);
	EXPECT_EQ(1, read(pair[0], &byte, 1));
	OK(npu_memcpy(&byte, (char *)p + 2 * G - 1, 1, NPU_COPY_D2H));
	EXPECT_EQ(6, byte);
	OK(npu_memset(p, 7, 1));
	OK(npu_vm_destroy(m));
	OK(npu_vm_unmap(p, 2 * G));
	/* it counts as long as somebody has it, once */
	EXPECT_EQ(before - 2 * G, bytes_free(0));
	EXPECT_EQ(1, write(pair[0], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(before, bytes_free(0));
	EXPECT_EQ(0, status)
		TH_LOG("the importer came to %d", WEXITSTATUS(status));
	EXPECT_EQ(0, npu_finalize(5000));
}

TEST_HARNESS_MAIN
