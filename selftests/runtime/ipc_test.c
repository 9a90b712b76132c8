// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several processes on one device: what each may have of it, memory that they
 * share, and what is left when one of them is killed.
 */
#include "selftests/runtime/ipc_peer.h"

static size_t free_bytes(void)
{
	size_t n = SIZE_MAX;

	npu_device_mem_info(0, &n, NULL);
	return n;
}

static bool told(const char *text)
{
	struct npu_error e = last_error();

	if (!strstr(e.text, text))
		printf("# %s\n", e.text);
	return strstr(e.text, text) != NULL;
}

/* ---- H28: several processes on one device ---- */

TEST_F(ipc, each_has_its_part)
{
	void *p, *q;

	setenv("NPU_SIMNPU_QUOTA_MEMORY", "40M", 1);
	peer_kill(&self->a);
	peer_kill(&self->b);
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
	EXPECT_EQ(0, ask(&self->a, MALLOC, 40 * MIB));
	EXPECT_EQ(0, ask(&self->b, MALLOC, 40 * MIB));
	EXPECT_EQ(-ENOMEM, ask(&self->b, MALLOC, 1));
	EXPECT_NE(NULL, strstr(self->b.r.text, "0 free of 104857600, this process 41943040, "
			       "others 41943040, quota 41943040")) TH_LOG("%s", self->b.r.text);
	/* the third has what is left, and is told why */
	EXPECT_EQ(20 * MIB, free_bytes());
	EXPECT_EQ(-ENOMEM, npu_malloc(30 * MIB, 0, &p));
	EXPECT_TRUE(told("no memory for 31457280 bytes: 20971520 free of 104857600, this process "
			 "0, others 83886080"));
	EXPECT_NE(NULL, strstr(last_error().hint, "Other processes"));
	OK(npu_malloc(20 * MIB, 0, &p));
	EXPECT_EQ(0, free_bytes());
	/* one is killed: its share is free, and no more than the quota is ours */
	peer_kill(&self->a);
	EXPECT_EQ(20 * MIB, free_bytes());
	OK(npu_malloc(20 * MIB, 0, &q));
	EXPECT_EQ(-ENOMEM, npu_malloc(1, 0, &p));
	EXPECT_NE(NULL, strstr(last_error().hint, "quota"));
	OK(npu_free(q));
	unsetenv("NPU_SIMNPU_QUOTA_MEMORY");
	ASSERT_TRUE(peer_start(&self->a));
}

/* Two with a fraction of 0.4 each of the whole; a third is told what there is. */
TEST_F(ipc, fractions_of_the_cache)
{
	size_t left;
	void *p;

	ASSERT_EQ(0, ask(&self->a, FRACTION, 40));
	ASSERT_EQ(0, ask(&self->b, FRACTION, 40));
	EXPECT_EQ(0, ask(&self->a, BLOCK, 38 * MIB));
	EXPECT_EQ(-ENOMEM, ask(&self->a, BLOCK, 20 * MIB));
	EXPECT_EQ(0, ask(&self->b, BLOCK, 38 * MIB));
	left = free_bytes();
	EXPECT_LE(20 * MIB, left);
	EXPECT_GE(24 * MIB, left);
	EXPECT_EQ(-ENOMEM, npu_mem_alloc(38 * MIB, (npu_stream){ 0 }, &p));
	EXPECT_NE(NULL, strstr(last_error().text, "other")) TH_LOG("%s", last_error().text);
	peer_kill(&self->a);
	EXPECT_LE(60 * MIB, free_bytes());
	OK(npu_mem_alloc(38 * MIB, (npu_stream){ 0 }, &p));
	OK(npu_mem_free(p));
	ASSERT_TRUE(peer_start(&self->a));
}

TEST_F(ipc, streams_by_process)
{
	struct npu_error e;
	npu_stream s[3];

	setenv("NPU_SIMNPU_QUOTA_STREAMS", "2", 1);
	OK(npu_stream_create(NULL, &s[0]));
	OK(npu_stream_create(NULL, &s[1]));
	EXPECT_EQ(-ENOSPC, npu_stream_create(NULL, &s[2]));
	e = last_error();
	EXPECT_NE(NULL, strstr(e.text, "no more streams: quota 2, this process 2, of 65536"))
		TH_LOG("%s", e.text);
	OK(npu_stream_destroy(s[0], 1000));
	OK(npu_stream_create(NULL, &s[2]));
	unsetenv("NPU_SIMNPU_QUOTA_STREAMS");
}

/* Limits of the part are those of all together, and what a killed one had is there again. */
TEST_F(ipc, streams_of_all)
{
	npu_stream s;
	int i;

	setenv("NPU_SIMNPU_PART", "310b", 1);
	peer_kill(&self->a);
	peer_kill(&self->b);
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
	EXPECT_EQ(0, ask(&self->a, STREAMS, 300));
	EXPECT_EQ(0, ask(&self->b, STREAMS, 200));
	EXPECT_EQ(-ENOSPC, ask(&self->b, STREAMS, 100));
	EXPECT_NE(NULL, strstr(self->b.r.text, "512")) TH_LOG("%s", self->b.r.text);
	EXPECT_EQ(-ENOSPC, npu_stream_create(NULL, &s));
	EXPECT_TRUE(told("others 512"));
	peer_kill(&self->a);
	for (i = 0; i < 300; i++)
		OK(npu_stream_create(NULL, &s));
	EXPECT_EQ(-ENOSPC, npu_stream_create(NULL, &s));
	EXPECT_TRUE(told("this process 300"));
	EXPECT_TRUE(told("others 212"));
	unsetenv("NPU_SIMNPU_PART");
	ASSERT_TRUE(peer_start(&self->a));
}

/* The same of timed events; and what one may have alone. */
TEST_F(ipc, events_of_all)
{
	npu_event e;
	int i;

	setenv("NPU_SIMNPU_PART", "310p", 1);
	setenv("NPU_SIMNPU_QUOTA_EVENTS", "600", 1);
	peer_kill(&self->a);
	peer_kill(&self->b);
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
	EXPECT_EQ(0, ask(&self->a, EVENTS, 600));
	EXPECT_EQ(-ENOSPC, ask(&self->a, EVENTS, 1));
	EXPECT_NE(NULL, strstr(self->a.r.text, "quota 600")) TH_LOG("%s", self->a.r.text);
	EXPECT_EQ(-ENOSPC, ask(&self->b, EVENTS, 424));
	EXPECT_NE(NULL, strstr(self->b.r.text, "1023")) TH_LOG("%s", self->b.r.text);
	OK(npu_event_create(NPU_EVENT_TIMING, &e));
	EXPECT_EQ(-ENOSPC, npu_event_record(e, (npu_stream){ 0 }));
	EXPECT_TRUE(told("others 1023"));
	peer_kill(&self->b);
	for (i = 0; i < 423; i++) {
		OK(npu_event_create(NPU_EVENT_TIMING, &e));
		OK(npu_event_record(e, (npu_stream){ 0 }));
	}
	OK(npu_event_create(NPU_EVENT_TIMING, &e));
	EXPECT_EQ(-ENOSPC, npu_event_record(e, (npu_stream){ 0 }));
	EXPECT_TRUE(told("this process 423"));
	unsetenv("NPU_SIMNPU_PART");
	unsetenv("NPU_SIMNPU_QUOTA_EVENTS");
	ASSERT_TRUE(peer_start(&self->b));
}

/* ---- H38: memory that is shared ---- */

/* [C-IPC-1] [C-IPC-4] */
TEST_F(ipc, one_memory_two_processes)
{
	struct npu_pointer_info i = { .size = sizeof(i) };
	void *p;

	ASSERT_EQ(0, ask(&self->a, MALLOC, MIB));
	ASSERT_EQ(0, ask(&self->a, FILL, 7));
	ASSERT_EQ(0, ask(&self->a, EXPORT, NPU_IPC_ANY));
	EXPECT_LT(strlen(self->a.r.key), (size_t)NPU_IPC_KEY_SIZE);
	OK(npu_ipc_import(self->a.r.key, 0, &p));
	EXPECT_EQ(0, check(p, 4096, 7));
	/* once among what is used */
	EXPECT_EQ(99 * MIB, free_bytes());
	OK(npu_pointer_get_info(p, &i));
	EXPECT_EQ(p, i.base);
	EXPECT_EQ(MIB, i.bytes);
	EXPECT_EQ(0, i.device);
	OK(npu_memset(p, 9, 4096));
	EXPECT_EQ(0, ask(&self->a, CHECK, 9));
	/* [C-IPC-6] its own way out alone */
	EXPECT_EQ(-EINVAL, npu_free(p));
	EXPECT_EQ(-EINVAL, npu_ipc_close((char *)p + 1));
	EXPECT_EQ(0, check(p, 4096, 9));
	OK(npu_ipc_close(p));
	EXPECT_EQ(-EINVAL, npu_ipc_close(p));
	EXPECT_EQ(0, npu_ipc_close(NULL));
	EXPECT_EQ(-EINVAL, npu_memset(p, 9, 4096));
	EXPECT_EQ(0, ask(&self->a, CHECK, 9));
}

/* A part of an allocation: the same byte, in the bounds of the whole. */
TEST_F(ipc, a_part)
{
	char key[NPU_IPC_KEY_SIZE], again[NPU_IPC_KEY_SIZE];
	struct npu_pointer_info i = { .size = sizeof(i) };
	char *p, *q, *whole;

	OK(npu_malloc(10000, 0, (void **)&p));
	OK(npu_memset(p, 1, 10000));
	OK(npu_memset(p + 5000, 2, 5000));
	OK(npu_ipc_export(p + 5000, 0, key));
	OK(npu_ipc_export(p + 5000, 0, again));
	EXPECT_STREQ(key, again);
	OK(npu_ipc_export(p, 0, again));
	EXPECT_STRNE(key, again);
	/* this process always may */
	OK(npu_ipc_import(key, -1, (void **)&q));
	OK(npu_ipc_import(again, -1, (void **)&whole));
	EXPECT_EQ(0, check(q, 5000, 2));
	EXPECT_EQ(0, check(q - 5000, 5000, 1));
	EXPECT_EQ(0, check(whole + 5000, 5000, 2));
	EXPECT_EQ(-EINVAL, npu_memset(q, 0, 5001));
	OK(npu_pointer_get_info(q, &i));
	EXPECT_EQ(q - 5000, i.base);
	EXPECT_EQ(10000, i.bytes);
	EXPECT_EQ(-EINVAL, npu_ipc_close(q - 5000));
	/* [C-IPC-2] imported memory is nobody's to give on */
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_export(q, 0, key));
	EXPECT_EQ(0, key[0]);
	OK(npu_ipc_close(q));
	OK(npu_ipc_close(whole));
	OK(npu_free(p));
}

/* [C-IPC-3] */
TEST_F(ipc, only_who_is_allowed)
{
	int32_t pids[129];
	size_t i;
	void *p;
	char key[NPU_IPC_KEY_SIZE];

	OK(npu_malloc(4096, 0, &p));
	EXPECT_EQ(-ENOENT, npu_ipc_allow(p, &self->a.pid, 1));
	OK(npu_ipc_export(p, 0, key));
	EXPECT_EQ(-EACCES, ask_key(&self->a, IMPORT, 0, key));
	OK(npu_ipc_allow(p, &self->a.pid, 1));
	EXPECT_EQ(0, ask_key(&self->a, IMPORT, 0, key));
	EXPECT_EQ(-EACCES, ask_key(&self->b, IMPORT, 0, key));
	for (i = 0; i < 129; i++)
		pids[i] = self->b.pid;
	EXPECT_EQ(-ENOSPC, npu_ipc_allow(p, pids, 128));
	OK(npu_ipc_allow(p, pids, 127));
	EXPECT_EQ(0, ask_key(&self->b, IMPORT, 0, key));
	pids[0] = 0;
	EXPECT_EQ(-EINVAL, npu_ipc_allow(p, pids, 1));
	EXPECT_EQ(-EINVAL, npu_ipc_allow(p, pids, 0));
	EXPECT_EQ(-EINVAL, npu_ipc_allow(p, NULL, 1));
	EXPECT_EQ(-EINVAL, npu_ipc_allow(pids, pids, 1));
	/* all of the user, from now on */
	OK(npu_ipc_export(p, NPU_IPC_ANY, key));
	peer_kill(&self->a);
	ASSERT_TRUE(peer_start(&self->a));
	OK(npu_free(p));
}

TEST_F(ipc, keys_that_are_none)
{
	char key[NPU_IPC_KEY_SIZE], other[NPU_IPC_KEY_SIZE + 8];
	void *p, *q = &p;

	OK(npu_malloc(4096, 0, &p));
	OK(npu_ipc_export(p, 0, key));
	EXPECT_EQ(-EINVAL, npu_ipc_import(NULL, 0, &q));
	EXPECT_EQ(NULL, q);
	EXPECT_EQ(-EINVAL, npu_ipc_import(key, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_ipc_import("", 0, &q));
	EXPECT_EQ(-EINVAL, npu_ipc_import("ipc-test:0:0:1", 0, &q));
	snprintf(other, sizeof(other), "%s ", key);
	EXPECT_EQ(-EINVAL, npu_ipc_import(other, 0, &q));
	memset(other, 'x', sizeof(other));
	other[sizeof(other) - 1] = 0;
	EXPECT_EQ(-EINVAL, npu_ipc_import(other, 0, &q));
	snprintf(other, sizeof(other), "another%s", strchr(key, ':'));
	EXPECT_EQ(-EXDEV, npu_ipc_import(other, 0, &q));
	EXPECT_EQ(-EXDEV, npu_ipc_import(key, 1, &q));
	EXPECT_EQ(-ENODEV, npu_ipc_import(key, 2, &q));
	/* an id that was never given */
	snprintf(other, sizeof(other), "%s1", key);
	EXPECT_EQ(-ESTALE, npu_ipc_import(other, 0, &q));
	EXPECT_EQ(-EINVAL, npu_ipc_export(p, 2, key));
	EXPECT_EQ(-EINVAL, npu_ipc_export(p, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_ipc_export(NULL, 0, key));
	EXPECT_EQ(-EINVAL, npu_ipc_export(&p, 0, key));
	EXPECT_EQ(0, key[0]);
	OK(npu_free(p));
}

/* [C-IPC-5] The owner frees it first, and the last who has it ends last. */
TEST_F(ipc, freed_by_its_owner)
{
	char key[NPU_IPC_KEY_SIZE];
	void *p;

	ASSERT_EQ(0, ask(&self->a, MALLOC, 10 * MIB));
	ASSERT_EQ(0, ask(&self->a, FILL, 5));
	ASSERT_EQ(0, ask(&self->a, EXPORT, NPU_IPC_ANY));
	memcpy(key, self->a.r.key, sizeof(key));
	OK(npu_ipc_import(key, 0, &p));
	ASSERT_EQ(0, ask_key(&self->b, IMPORT, 0, key));
	EXPECT_EQ(0, ask(&self->a, FREE, 0));
	EXPECT_EQ(0, check(p, 4096, 5));
	EXPECT_EQ(90 * MIB, free_bytes());
	OK(npu_memset(p, 6, 4096));
	EXPECT_EQ(0, ask(&self->b, CHECK, 6));
	OK(npu_ipc_close(p));
	EXPECT_EQ(90 * MIB, free_bytes());
	EXPECT_EQ(-ESTALE, npu_ipc_import(key, 0, &p));
	EXPECT_EQ(0, ask(&self->b, CLOSE, 0));
	EXPECT_EQ(100 * MIB, free_bytes());
}

/* [C-IPC-5] The owner is killed. */
TEST_F(ipc, owner_killed)
{
	char key[NPU_IPC_KEY_SIZE];
	void *p, *q;

	ASSERT_EQ(0, ask(&self->a, MALLOC, 10 * MIB));
	ASSERT_EQ(0, ask(&self->a, FILL, 5));
	ASSERT_EQ(0, ask(&self->a, EXPORT, NPU_IPC_ANY));
	memcpy(key, self->a.r.key, sizeof(key));
	ASSERT_EQ(0, ask(&self->a, MALLOC, 20 * MIB));
	OK(npu_ipc_import(key, 0, &p));
	EXPECT_EQ(70 * MIB, free_bytes());
	peer_kill(&self->a);
	EXPECT_EQ(0, check(p, 4096, 5));
	EXPECT_EQ(90 * MIB, free_bytes());
	EXPECT_EQ(-EOWNERDEAD, npu_ipc_import(key, 0, &q));
	EXPECT_NE(NULL, strstr(last_error().text, "ended"));
	/* others are held to it: it counts as long as it is there */
	EXPECT_EQ(-ENOMEM, ask(&self->b, MALLOC, 91 * MIB));
	EXPECT_EQ(0, ask(&self->b, MALLOC, 90 * MIB));
	OK(npu_ipc_close(p));
	EXPECT_EQ(10 * MIB, free_bytes());
	OK(npu_malloc(10 * MIB, 0, &p));
	OK(npu_free(p));
	ASSERT_TRUE(peer_start(&self->a));
}

/* Who has imported it is killed, with work in flight. */
TEST_F(ipc, importer_killed)
{
	void *p;
	char key[NPU_IPC_KEY_SIZE];

	OK(npu_malloc(10 * MIB, 0, &p));
	OK(npu_memset(p, 3, 4096));
	OK(npu_ipc_export(p, NPU_IPC_ANY, key));
	ASSERT_EQ(0, ask_key(&self->a, IMPORT, 0, key));
	ASSERT_EQ(0, ask_key(&self->b, IMPORT, 0, key));
	ASSERT_EQ(0, ask(&self->a, DELAY, 500000000));
	peer_kill(&self->a);
	EXPECT_EQ(0, check(p, 4096, 3));
	EXPECT_EQ(90 * MIB, free_bytes());
	/* freed by its owner, had by one that is killed: nobody has it */
	OK(npu_free(p));
	EXPECT_EQ(90 * MIB, free_bytes());
	peer_kill(&self->b);
	EXPECT_EQ(100 * MIB, free_bytes());
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
}

/* Who ends in order takes what it has imported along. */
TEST_F(ipc, ends_with_its_process)
{
	void *p;
	char key[NPU_IPC_KEY_SIZE];

	OK(npu_malloc(10 * MIB, 0, &p));
	OK(npu_ipc_export(p, NPU_IPC_ANY, key));
	ASSERT_EQ(0, ask_key(&self->a, IMPORT, 0, key));
	OK(npu_free(p));
	EXPECT_EQ(90 * MIB, free_bytes());
	ASSERT_EQ(0, ask(&self->a, END, 0));
	EXPECT_EQ(100 * MIB, free_bytes());
	/* and the keys of who ends so are those of nobody */
	ASSERT_EQ(0, ask(&self->b, MALLOC, MIB));
	ASSERT_EQ(0, ask(&self->b, EXPORT, NPU_IPC_ANY));
	memcpy(key, self->b.r.key, sizeof(key));
	OK(npu_ipc_import(key, 0, &p));
	ASSERT_EQ(0, ask(&self->b, END, 0));
	EXPECT_EQ(99 * MIB, free_bytes());
	EXPECT_EQ(-EOWNERDEAD, npu_ipc_import(key, 0, &p));
}

/* Memory by a descriptor: it counts once, as long as anybody has it, whoever ends first. */
TEST_F(ipc, descriptors)
{
	npu_vm_memory m, again;
	int fd;

	if (!IS_ENABLED(CONFIG_VMM))
		SKIP(return, "no virtual memory in this build");
	ASSERT_EQ(0, ask(&self->a, VM_CREATE, 10 * MIB));
	ASSERT_EQ(0, ask(&self->a, VM_EXPORT, 0));
	fd = fd_take(self->a.fds);
	ASSERT_EQ(0, fd_send(self->b.fds, fd));
	ASSERT_EQ(0, ask(&self->b, VM_IMPORT, 0));
	OK(npu_vm_import(fd, 0, &m, NULL));
	OK(npu_vm_import(fd, 0, &again, NULL));
	EXPECT_EQ(90 * MIB, free_bytes());
	/* its owner gives it back; later it is imported once more */
	ASSERT_EQ(0, ask(&self->a, VM_DESTROY, 0));
	EXPECT_EQ(90 * MIB, free_bytes());
	OK(npu_vm_destroy(m));
	OK(npu_vm_destroy(again));
	EXPECT_EQ(90 * MIB, free_bytes());
	peer_kill(&self->b);
	EXPECT_EQ(100 * MIB, free_bytes());
	OK(npu_vm_import(fd, 0, &m, NULL));
	EXPECT_EQ(90 * MIB, free_bytes());
	OK(npu_vm_destroy(m));
	EXPECT_EQ(100 * MIB, free_bytes());
	close(fd);
	/* its owner is killed */
	ASSERT_EQ(0, ask(&self->a, VM_CREATE, 10 * MIB));
	ASSERT_EQ(0, ask(&self->a, VM_EXPORT, 0));
	fd = fd_take(self->a.fds);
	OK(npu_vm_import(fd, 0, &m, NULL));
	close(fd);
	EXPECT_EQ(90 * MIB, free_bytes());
	peer_kill(&self->a);
	EXPECT_EQ(90 * MIB, free_bytes());
	OK(npu_vm_destroy(m));
	EXPECT_EQ(100 * MIB, free_bytes());
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
}

/* A descriptor of something else that can't become shorter either. */
TEST_F(ipc, descriptors_that_are_none)
{
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	npu_vm_memory m;

	if (!IS_ENABLED(CONFIG_VMM))
		SKIP(return, "no virtual memory in this build");
	EXPECT_EQ(-EINVAL, npu_vm_import(fd, 0, &m, NULL));
	ASSERT_EQ(0, ftruncate(fd, (off_t)(2 * MIB + 4096)));
	EXPECT_EQ(-EINVAL, npu_vm_import(fd, 0, &m, NULL));
	ASSERT_EQ(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	EXPECT_EQ(-EINVAL, npu_vm_import(fd, 0, &m, NULL));
	EXPECT_EQ(100 * MIB, free_bytes());
	close(fd);
}

/* A stopped owner is waited for, though not for ever. */
TEST_F(ipc, owner_stopped)
{
	char key[NPU_IPC_KEY_SIZE];
	void *p;

	ASSERT_EQ(0, ask(&self->a, MALLOC, MIB));
	ASSERT_EQ(0, ask(&self->a, EXPORT, 0));
	memcpy(key, self->a.r.key, sizeof(key));
	ASSERT_EQ(0, ask(&self->a, ALLOW, (uint64_t)getpid()));
	kill(self->a.pid, SIGSTOP);
	ASSERT_EQ(self->a.pid, waitpid(self->a.pid, NULL, WUNTRACED));
	EXPECT_EQ(-ETIMEDOUT, npu_ipc_import(key, 0, &p));
	kill(self->a.pid, SIGCONT);
	OK(npu_ipc_import(key, 0, &p));
	OK(npu_ipc_close(p));
}

/* Memory for all is found without its owner, who is asked where it is not. */
TEST_F(ipc, found_or_asked_for)
{
	char key[NPU_IPC_KEY_SIZE], other[NPU_IPC_KEY_SIZE + 32];
	char *at;
	void *p;

	ASSERT_EQ(0, ask(&self->a, MALLOC, 10000));
	ASSERT_EQ(0, ask(&self->a, FILL, 3));
	ASSERT_EQ(0, ask(&self->a, EXPORT, NPU_IPC_ANY));
	memcpy(key, self->a.r.key, sizeof(key));
	at = strchr(key, '@');
	ASSERT_NE(NULL, at);
	kill(self->a.pid, SIGSTOP);
	ASSERT_EQ(self->a.pid, waitpid(self->a.pid, NULL, WUNTRACED));
	OK(npu_ipc_import(key, 0, &p));
	EXPECT_EQ(0, check(p, 4096, 3));
	EXPECT_EQ(-EINVAL, npu_memset(p, 0, 10001));
	kill(self->a.pid, SIGCONT);
	OK(npu_ipc_close(p));
	/* nowhere, nobody's, and another file */
	*at = 0;
	OK(npu_ipc_import(key, 0, &p));
	OK(npu_ipc_close(p));
	snprintf(other, sizeof(other), "%s@1:0:1:2710:0", key);
	OK(npu_ipc_import(other, 0, &p));
	OK(npu_ipc_close(p));
	snprintf(other, sizeof(other), "%s@%x:0:1:2710:0", key, (unsigned int)self->a.pid);
	OK(npu_ipc_import(other, 0, &p));
	EXPECT_EQ(0, check(p, 4096, 3));
	OK(npu_ipc_close(p));
	snprintf(other, sizeof(other), "%s@1:0:1:2710", key);
	EXPECT_EQ(-EINVAL, npu_ipc_import(other, 0, &p));
	snprintf(other, sizeof(other), "%s@01:0:1:2710:0", key);
	EXPECT_EQ(-EINVAL, npu_ipc_import(other, 0, &p));
	/* it counts as what is asked for does */
	*at = '@';
	OK(npu_ipc_import(key, 0, &p));
	EXPECT_EQ(0, ask(&self->a, FREE, 0));
	EXPECT_EQ(-ESTALE, ask_key(&self->b, IMPORT, 0, key));
	EXPECT_GT(100 * MIB, free_bytes());
	EXPECT_EQ(0, check(p, 4096, 3));
	OK(npu_ipc_close(p));
	EXPECT_EQ(100 * MIB, free_bytes());
}

/* A child of the owner answers nobody, and keeps nothing. */
TEST_F(ipc, a_child_of_the_owner)
{
	char key[NPU_IPC_KEY_SIZE];
	int fd[2], out[2];
	pid_t pid;
	void *p;

	if (NPU_TEST_FORK_HANGS)
		SKIP(return, "sanitizers do not bear a fork with threads");
	ASSERT_EQ(0, pipe(fd));
	ASSERT_EQ(0, pipe(out));
	pid = fork();
	if (!pid) {
		char c;

		close(fd[1]);
		if (npu_malloc(10 * MIB, 0, &p) || npu_ipc_export(p, NPU_IPC_ANY, key))
			_exit(1);
		if (!fork()) {
			if (write(out[1], key, sizeof(key)) != sizeof(key))
				_exit(1);
			_exit(read(fd[0], &c, 1) < 0);
		}
		pause();
	}
	ASSERT_EQ((ssize_t)sizeof(key), read(out[0], key, sizeof(key)));
	OK(npu_ipc_import(key, 0, &p));
	EXPECT_EQ(90 * MIB, free_bytes());
	OK(npu_ipc_close(p));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(100 * MIB, free_bytes());
	EXPECT_EQ(-EOWNERDEAD, npu_ipc_import(key, 0, &p));
	close(fd[0]);
	close(fd[1]);
	close(out[0]);
	close(out[1]);
}

/* The cache's blocks, where they lie in allocations that do not grow; else a clear refusal. */
TEST_F(ipc, blocks_of_the_cache)
{
	char key[NPU_IPC_KEY_SIZE];
	void *p, *q;
	int rc;

	OK(npu_mem_alloc(5000, ((npu_stream){ 0 }), &p));
	OK(npu_memset(p, 4, 5000));
	rc = npu_ipc_export(p, 0, key);
	if (rc) {
		EXPECT_EQ(-EOPNOTSUPP, rc);
		EXPECT_NE(NULL, strstr(last_error().hint, "mem_growable"));
	} else {
		OK(npu_ipc_import(key, 0, &q));
		EXPECT_EQ(0, check(q, 5000, 4));
		OK(npu_ipc_close(q));
	}
	OK(npu_mem_free(p));
}

/* A private device shares nothing. */
TEST_F(ipc, a_private_device)
{
	char key[NPU_IPC_KEY_SIZE] = "x";
	int32_t pid = 1;
	void *p, *q;

	setenv("NPU_SIMNPU_INSTANCE", "", 1);
	OK(npu_malloc(4096, 0, &p));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_export(p, 0, key));
	EXPECT_EQ(0, key[0]);
	EXPECT_NE(NULL, strstr(last_error().hint, "simnpu_instance"));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_allow(p, &pid, 1));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_import("ipc-test:0:0:1:1", 0, &q));
	EXPECT_EQ(-EINVAL, npu_ipc_close(p));
	OK(npu_free(p));
}

TEST_F(ipc, a_file_that_is_not_trusted)
{
	char path[128];
	int n;

	snprintf(path, sizeof(path), "%s/simnpu-%u-ipc-test", self->dir, geteuid());
	close(open(path, O_CREAT | O_RDWR, 0600));
	chmod(path, 0666);
	EXPECT_EQ(-EUCLEAN, npu_device_count(&n));
	EXPECT_NE(NULL, strstr(last_error().hint, "simnpu_instance"));
	unlink(path);
	OK(npu_device_count(&n));
	EXPECT_EQ(2, n);
}

TEST_F(ipc, names_that_are_none)
{
	int n;

	setenv("NPU_SIMNPU_INSTANCE", "no/name", 1);
	EXPECT_EQ(-EINVAL, npu_device_count(&n));
	EXPECT_TRUE(told("option simnpu_instance: 'no/name' is no name"));
	EXPECT_EQ(-EINVAL, npu_init());
}

/* ---- a system and a device that refuse ---- */

/* Allocates, makes a key, imports, looks, and gives all back; the first error. */
static int round_trip(void)
{
	char key[NPU_IPC_KEY_SIZE];
	void *p, *q = NULL;
	int err, end;

	err = npu_malloc(MIB, 0, &p);
	if (err)
		return err;
	err = npu_ipc_export(p, 0, key);
	if (!err)
		err = npu_ipc_import(key, 0, &q);
	if (!err)
		err = npu_memset(q, 1, 4096);
	end = npu_ipc_close(q);
	if (npu_free(p) || end)
		return -EILSEQ;
	return err;
}

/*
 * Whether so much is free, and no descriptor is left: beyond those of the thread that hands out,
 * its socket, what stops it and what wakes it. It may still be closing what it had for the last.
 */
static bool soon(size_t bytes, int n)
{
	bool ok = false;
	int i, now = 0;

	for (i = 0; i < 2000 && !ok; i++) {
		now = fds();
		ok = free_bytes() == bytes && (now == n || now == n + 3);
		if (!ok)
			usleep(1000);
	}
	if (!ok)
		printf("# %zu bytes free, %d descriptors of %d\n", free_bytes(), now, n);
	return ok;
}

/* Each call of each kind fails once: a clear error, or none; nothing is left, then all works. */
TEST_F_TIMEOUT(ipc, each_step_fails, 300)
{
	static const char *const steps[] = {
		"sys:socket", "sys:bind", "sys:connect", "sys:accept", "sys:sendmsg",
		"sys:recvmsg", "sys:eventfd", "sys:thread_create", "sys:memfd_create",
		"sys:fallocate", "sys:dup", "sys:fstat", "sys:mmap", "sys:madvise", "sys:lock",
		"sys:alloc", "ioctl:mem_create", "ioctl:mem_export", "ioctl:mem_import",
		"ioctl:info",
	};
	struct simnpu_fault_rule r;
	unsigned int i, nth, failed = 0;
	char rule[64];
	int n, err;

	OK(npu_init());
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (nth = 1;; nth++) {
			/* the thread that hands out is made anew each time */
			OK(npu_device_reset(0, 5000));
			OK(npu_device_set(0));
			OK(npu_malloc(4096, 0, &(void *){ NULL }));
			n = fds();
			snprintf(rule, sizeof(rule), "%s,nth=%u", steps[i], nth);
			ASSERT_EQ(0, simnpu_fault_set(rule, NULL));
			err = round_trip();
			ASSERT_EQ(1, simnpu_fault_list(&r, 1));
			simnpu_fault_clear();
			EXPECT_NE(-EILSEQ, err) TH_LOG("%s", rule);
			if (err) {
				failed++;
				EXPECT_NE(0, last_error().text[0]);
			}
			EXPECT_TRUE(soon(100 * MIB - 4096, n)) TH_LOG("%s: %d", rule, err);
			EXPECT_EQ(0, round_trip()) TH_LOG("after %s", rule);
			EXPECT_TRUE(soon(100 * MIB - 4096, n)) TH_LOG("after %s", rule);
			if (!r.hit)
				break;
		}
	}
	EXPECT_LE(20, failed) TH_LOG("%u steps failed", failed);
}

/* Threads that share, allow, import and free at once. */
static void *churn(void *arg)
{
	char key[NPU_IPC_KEY_SIZE];
	long bad = 0;
	void *p, *q;
	int i, rc;

	(void)arg;
	for (i = 0; i < 100; i++) {
		if (npu_malloc(4096, 0, &p) || npu_memset(p, i, 4096) ||
		    npu_ipc_export(p, 0, key)) {
			bad++;
			continue;
		}
		rc = npu_ipc_import(key, 0, &q);
		if (i % 3 == 0)
			bad += npu_free(p) != 0;
		bad += rc || check(q, 4096, i) || npu_ipc_close(q);
		if (i % 3)
			bad += npu_free(p) != 0;
	}
	return (void *)bad;
}

TEST_F(ipc, from_many_threads)
{
	pthread_t t[4];
	void *bad;
	size_t i;

	OK(npu_init());
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, churn, NULL));
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		EXPECT_EQ(NULL, bad);
	}
	EXPECT_EQ(100 * MIB, free_bytes());
}

TEST_HARNESS_MAIN
