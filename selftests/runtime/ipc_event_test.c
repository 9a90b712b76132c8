// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that processes share, and what becomes of waits for them when one of the
 * two is killed, stopped, or gives up.
 */
#include "selftests/runtime/ipc_peer.h"

/* [C-IPC-7] An event of a; its key is in a.r.key. */
#define EXPORTED() ASSERT_EQ(0, ask(&self->a, EVENT, NPU_IPC_ANY))

/* An event of a, whose stream is held before the point, had by this process, too. */
#define HELD(e)									\
	do {									\
		EXPORTED();							\
		OK(npu_ipc_import_event(self->a.r.key, 0, (e)));		\
		ASSERT_EQ(0, ask(&self->a, HOLD, 0));				\
		ASSERT_EQ(0, ask(&self->a, RECORD, 0));				\
	} while (0)

/* A wait in a thread of its own. */
struct waiter {
	pthread_t thread;
	npu_event e;
	int rc;
	_Atomic int over;
};

static void *wait_for(void *arg)
{
	struct waiter *w = arg;

	w->rc = npu_event_sync(w->e, 60000);
	atomic_store(&w->over, 1);
	return NULL;
}

static bool wait_start(struct waiter *w, npu_event e)
{
	w->e = e;
	atomic_store(&w->over, 0);
	return !pthread_create(&w->thread, NULL, wait_for, w);
}

/* Whether a query comes to that within ten seconds: the owner may be slow to answer. */
static bool becomes(npu_event e, int rc)
{
	int i, now = rc - 1;

	for (i = 0; i < 10000 && now != rc; i++) {
		now = npu_event_query(e);
		if (now != rc)
			usleep(1000);
	}
	return now == rc;
}

/* [C-IPC-8] Query, wait of the host, wait of a stream; then the next record. */
TEST_F(ipc, reached)
{
	npu_stream s;
	npu_event e;
	int i, dev;

	EXPORTED();
	OK(npu_ipc_import_event(self->a.r.key, 0, &e));
	/* never recorded: done */
	EXPECT_EQ(0, npu_event_query(e));
	EXPECT_EQ(0, npu_event_sync(e, 0));
	EXPECT_EQ(0, npu_event_device(e, &dev));
	EXPECT_EQ(0, dev);
	OK(npu_stream_create(NULL, &s));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ask(&self->a, HOLD, 0));
		ASSERT_EQ(0, ask(&self->a, RECORD, 0));
		EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
		EXPECT_EQ(-ETIMEDOUT, npu_event_sync(e, 0));
		EXPECT_EQ(-ETIMEDOUT, npu_event_sync(e, 20));
		OK(npu_stream_wait_event(s, e));
		EXPECT_EQ(-EINPROGRESS, npu_stream_query(s));
		ASSERT_EQ(0, ask(&self->a, OPEN, 0));
		EXPECT_EQ(0, npu_event_sync(e, 60000));
		EXPECT_EQ(0, npu_event_query(e));
		EXPECT_EQ(0, npu_stream_sync(s, 60000));
		/* known to be done: no task */
		OK(npu_stream_wait_event(s, e));
		EXPECT_EQ(0, npu_stream_query(s));
	}
	/* what is known to the owner is known at once */
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	ASSERT_EQ(0, ask(&self->a, STREAM_SYNC, 60000));
	EXPECT_TRUE(becomes(e, 0));
	OK(npu_event_destroy(e));
	EXPECT_EQ(-ESTALE, npu_event_query(e));
	OK(npu_stream_destroy(s, 5000));
}

/* A wait keeps the record that it saw, though the owner goes on. */
TEST_F(ipc, keeps_the_record_that_it_saw)
{
	npu_stream s;
	npu_event e;

	OK(npu_stream_create(NULL, &s));
	EXPORTED();
	OK(npu_ipc_import_event(self->a.r.key, 0, &e));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	OK(npu_stream_wait_event(s, e));
	ASSERT_EQ(0, ask(&self->a, HOLD, 0));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_event_sync(e, 60000));
	OK(npu_stream_destroy(s, 5000));
	OK(npu_event_destroy(e));
}

TEST_F(ipc, refused)
{
	char key[NPU_IPC_KEY_SIZE] = "x", mem[NPU_IPC_KEY_SIZE], other[NPU_IPC_KEY_SIZE + 8];
	int32_t pid = self->b.pid;
	npu_event e, plain, mine;
	void *p;
	int fd;

	EXPECT_EQ(-EINVAL, npu_event_create(NPU_EVENT_IPC | NPU_EVENT_TIMING, &e));
	OK(npu_event_create(0, &plain));
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	EXPECT_EQ(-EINVAL, npu_ipc_export_event(plain, 0, key));
	EXPECT_EQ(0, key[0]);
	EXPECT_EQ(-EINVAL, npu_ipc_export_event(mine, 2, key));
	EXPECT_EQ(-EINVAL, npu_ipc_export_event(mine, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_ipc_export_event((npu_event){ 0 }, 0, key));
	EXPECT_EQ(-ENOENT, npu_ipc_allow_event(mine, &pid, 1));
	OK(npu_ipc_export_event(mine, 0, key));
	OK(npu_ipc_export_event(mine, 0, other));
	EXPECT_STREQ(key, other);
	/* only who is allowed to */
	EXPECT_EQ(-EACCES, ask_key(&self->b, EVENT_IMPORT, 0, key));
	EXPECT_EQ(-EINVAL, npu_ipc_allow_event(mine, &pid, 0));
	EXPECT_EQ(-EINVAL, npu_ipc_allow_event(mine, NULL, 1));
	EXPECT_EQ(-EINVAL, npu_ipc_allow_event(mine, &(int32_t){ 0 }, 1));
	EXPECT_EQ(-EINVAL, npu_ipc_allow_event(plain, &pid, 1));
	OK(npu_ipc_allow_event(mine, &pid, 1));
	EXPECT_EQ(0, ask_key(&self->b, EVENT_IMPORT, 0, key));
	/* keys that are none, or of something else */
	OK(npu_malloc(4096, 0, &p));
	OK(npu_ipc_export(p, 0, mem));
	EXPECT_EQ(-EINVAL, npu_ipc_import_event(mem, 0, &e));
	EXPECT_EQ(-EINVAL, npu_ipc_import(key, 0, &p));
	EXPECT_EQ(-EINVAL, npu_ipc_import_event(NULL, 0, &e));
	EXPECT_EQ(-EINVAL, npu_ipc_import_event(key, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_ipc_import_event("", 0, &e));
	EXPECT_EQ(-EXDEV, npu_ipc_import_event(key, 1, &e));
	EXPECT_EQ(-ENODEV, npu_ipc_import_event(key, 2, &e));
	snprintf(other, sizeof(other), "another%s", strchr(key, ':'));
	EXPECT_EQ(-EXDEV, npu_ipc_import_event(other, 0, &e));
	memset(other, 'x', sizeof(other));
	other[sizeof(other) - 1] = 0;
	EXPECT_EQ(-EINVAL, npu_ipc_import_event(other, 0, &e));
	EXPECT_EQ(0, e.h);
	/* what is imported is its owner's to record and to give on */
	OK(npu_ipc_import_event(key, -1, &e));
	EXPECT_EQ(-EACCES, npu_event_record(e, (npu_stream){ 0 }));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_export_event(e, 0, key));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_allow_event(e, &pid, 1));
	EXPECT_EQ(-EOPNOTSUPP, npu_event_fd(e, &fd));
	EXPECT_EQ(-EINVAL, npu_event_timestamp(e, &(uint64_t){ 0 }));
	OK(npu_event_destroy(e));
	OK(npu_event_destroy(mine));
	OK(npu_event_destroy(plain));
}

/* [C-IPC-9] Who has the descriptor may have the event, whom the list leaves out, too. */
TEST_F(ipc, by_descriptor)
{
	char key[NPU_IPC_KEY_SIZE];
	npu_event e, again, none;
	npu_stream s;
	int fd;

	OK(npu_stream_create(NULL, &s));
	ASSERT_EQ(0, ask(&self->a, EVENT, 0));
	memcpy(key, self->a.r.key, sizeof(key));
	ASSERT_EQ(0, ask(&self->a, EVENT_EXPORT_FD, 0));
	fd = fd_take(self->a.fds);
	OK(npu_ipc_import_event_fd(fd, 0, &e));
	OK(npu_ipc_import_event_fd(fd, -1, &again));
	ASSERT_EQ(0, fd_send(self->b.fds, fd));
	ASSERT_EQ(0, ask(&self->b, EVENT_IMPORT_FD, 0));
	/* the key is as it was */
	EXPECT_EQ(-EACCES, npu_ipc_import_event(key, 0, &none));
	EXPECT_EQ(0, npu_event_query(e));
	ASSERT_EQ(0, ask(&self->a, HOLD, 0));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(again));
	EXPECT_EQ(-EINPROGRESS, ask(&self->b, QUERY, 0));
	OK(npu_stream_wait_event(s, e));
	ASSERT_EQ(0, ask(&self->b, WAIT, 0));
	OK(npu_event_destroy(again));
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_event_sync(e, 60000));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	EXPECT_EQ(0, ask(&self->b, STREAM_SYNC, 60000));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_export_event_fd(e, &(int){ 0 }));
	ASSERT_EQ(0, ask(&self->a, DESTROY, 0));
	EXPECT_EQ(-ESTALE, npu_ipc_import_event_fd(fd, 0, &none));
	EXPECT_EQ(0, none.h);
	close(fd);
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
}

/* Its owner is killed: what was imported learns of it, and nothing is imported any more. */
TEST_F(ipc, by_descriptor_owner_killed)
{
	npu_event e, none;
	npu_stream s;
	int fd;

	OK(npu_stream_create(NULL, &s));
	ASSERT_EQ(0, ask(&self->a, EVENT, 0));
	ASSERT_EQ(0, ask(&self->a, EVENT_EXPORT_FD, 0));
	fd = fd_take(self->a.fds);
	OK(npu_ipc_import_event_fd(fd, 0, &e));
	ASSERT_EQ(0, ask(&self->a, HOLD, 0));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	OK(npu_stream_wait_event(s, e));
	peer_kill(&self->a);
	EXPECT_EQ(-EOWNERDEAD, npu_stream_sync(s, 60000));
	EXPECT_EQ(-EOWNERDEAD, npu_event_sync(e, -1));
	EXPECT_EQ(-EOWNERDEAD, npu_ipc_import_event_fd(fd, 0, &none));
	close(fd);
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
	ASSERT_TRUE(peer_start(&self->a));
}

/* A file in memory of that size, that nobody can make shorter. */
static int sealed(size_t size, const char *text)
{
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, (off_t)size) || pwrite(fd, text, strlen(text), 0) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return -1;
	return fd;
}

TEST_F(ipc, descriptors_refused)
{
	int32_t pid = self->b.pid;
	npu_event e, plain, mine;
	int fd, wrong[5], p[2];
	unsigned int i;
	char path[40];

	OK(npu_event_create(0, &plain));
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	EXPECT_EQ(-EINVAL, npu_ipc_export_event_fd(mine, NULL));
	EXPECT_EQ(-EINVAL, npu_ipc_export_event_fd(plain, &fd));
	EXPECT_EQ(-1, fd);
	EXPECT_EQ(-EINVAL, npu_ipc_export_event_fd((npu_event){ 0 }, &fd));
	OK(npu_ipc_export_event_fd(mine, &fd));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	/* it is no key */
	EXPECT_EQ(-ENOENT, npu_ipc_allow_event(mine, &pid, 1));
	/* this process's own */
	OK(npu_ipc_import_event_fd(fd, 0, &e));
	EXPECT_EQ(0, npu_event_query(e));
	OK(npu_event_destroy(e));
	EXPECT_EQ(-EINVAL, npu_ipc_import_event_fd(fd, 0, NULL));
	EXPECT_EQ(-EXDEV, npu_ipc_import_event_fd(fd, 1, &e));
	EXPECT_EQ(-ENODEV, npu_ipc_import_event_fd(fd, 2, &e));
	/* none, and of something else */
	ASSERT_EQ(0, pipe2(p, O_CLOEXEC));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	wrong[0] = sealed(4096, "");
	wrong[1] = sealed(NPU_IPC_KEY_SIZE, "not a key");
	wrong[2] = sealed(NPU_IPC_KEY_SIZE, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
					    "xxxxxxxxxxxx");
	wrong[3] = memfd_create("x", MFD_CLOEXEC);
	wrong[4] = open(path, O_WRONLY | O_CLOEXEC);
	ASSERT_EQ(0, ftruncate(wrong[3], NPU_IPC_KEY_SIZE));
	for (i = 0; i < 5; i++) {
		EXPECT_LE(0, wrong[i]);
		EXPECT_EQ(-EINVAL, npu_ipc_import_event_fd(wrong[i], 0, &e)) TH_LOG("%u", i);
		EXPECT_EQ(0, e.h);
		close(wrong[i]);
	}
	EXPECT_EQ(-EINVAL, npu_ipc_import_event_fd(p[0], 0, &e));
	EXPECT_EQ(-EINVAL, npu_ipc_import_event_fd(-1, 0, &e));
	close(p[0]);
	close(p[1]);
	close(fd);
	EXPECT_EQ(-EINVAL, npu_ipc_import_event_fd(fd, 0, &e));
	OK(npu_event_destroy(mine));
	OK(npu_event_destroy(plain));
}

/* This process's own: the same as of another one. */
TEST_F(ipc, of_this_process)
{
	struct gate g = { 0 };
	char key[NPU_IPC_KEY_SIZE];
	npu_event mine, e;
	npu_stream s, t;

	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_create(NULL, &t));
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	/* recorded before it has a key */
	OK(npu_event_record(mine, s));
	OK(npu_ipc_export_event(mine, 0, key));
	OK(npu_ipc_import_event(key, 0, &e));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	OK(npu_stream_wait_event(t, e));
	atomic_store(&g.open, 1);
	EXPECT_EQ(0, npu_stream_sync(t, 60000));
	EXPECT_EQ(0, npu_event_query(e));
	OK(npu_event_destroy(mine));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
	OK(npu_stream_destroy(t, 5000));
}

/* The failure of a task before the point, and a stream that is aborted. */
TEST_F(ipc, fails)
{
	struct waiter w;
	npu_stream s;
	npu_event e;

	if (!IS_ENABLED(CONFIG_SIMNPU_MODULES))
		SKIP(return, "no kernels in this build");
	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	ASSERT_EQ(0, ask(&self->a, FAIL, 0));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	OK(npu_stream_wait_event(s, e));
	ASSERT_TRUE(wait_start(&w, e));
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	pthread_join(w.thread, NULL);
	EXPECT_EQ(-EFAULT, w.rc);
	EXPECT_TRUE(becomes(e, -EFAULT));
	EXPECT_EQ(-EFAULT, npu_stream_sync(s, 60000));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	/* the owner is told as ever; then nobody has to be */
	EXPECT_EQ(-EFAULT, ask(&self->a, STREAM_SYNC, 60000));
	EXPECT_TRUE(becomes(e, 0));
	/* an abort: what is left is done */
	ASSERT_EQ(0, ask(&self->a, HOLD, 0));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	OK(npu_stream_wait_event(s, e));
	ASSERT_TRUE(wait_start(&w, e));
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	ask(&self->a, ABORT, 0);
	pthread_join(w.thread, NULL);
	EXPECT_TRUE(becomes(e, 0));
	npu_stream_sync(s, 60000);
	EXPECT_EQ(0, npu_stream_query(s));
	OK(npu_stream_destroy(s, 5000));
	OK(npu_event_destroy(e));
}

/* The owner is killed: waits under way end, and so do those of streams; nothing hangs. */
TEST_F(ipc, owner_killed)
{
	char key[NPU_IPC_KEY_SIZE];
	npu_event e, again;
	struct waiter w;
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	ASSERT_EQ(0, ask(&self->a, EVENT, NPU_IPC_ANY));
	memcpy(key, self->a.r.key, sizeof(key));
	OK(npu_stream_wait_event(s, e));
	ASSERT_TRUE(wait_start(&w, e));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(s));
	peer_kill(&self->a);
	pthread_join(w.thread, NULL);
	EXPECT_EQ(-EOWNERDEAD, w.rc);
	EXPECT_EQ(-EOWNERDEAD, npu_stream_sync(s, 60000));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	EXPECT_EQ(-EOWNERDEAD, npu_event_query(e));
	EXPECT_NE(NULL, strstr(last_error().text, "ended")) TH_LOG("%s", last_error().text);
	EXPECT_EQ(-EOWNERDEAD, npu_event_sync(e, -1));
	EXPECT_EQ(-EOWNERDEAD, npu_stream_wait_event(s, e));
	EXPECT_EQ(0, npu_stream_query(s));
	EXPECT_EQ(-EOWNERDEAD, npu_ipc_import_event(key, 0, &again));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
	ASSERT_TRUE(peer_start(&self->a));
}

/* What was known to be reached stays so. */
TEST_F(ipc, owner_killed_afterwards)
{
	npu_stream s;
	npu_event e;

	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_event_sync(e, 60000));
	peer_kill(&self->a);
	EXPECT_EQ(0, npu_event_query(e));
	EXPECT_EQ(0, npu_event_sync(e, -1));
	OK(npu_stream_wait_event(s, e));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
	ASSERT_TRUE(peer_start(&self->a));
}

/* The owner ends in order, which is the same to who waits. */
TEST_F(ipc, owner_ends)
{
	npu_stream s;
	npu_event e;

	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	OK(npu_stream_wait_event(s, e));
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	ASSERT_EQ(0, ask(&self->a, HOLD, 0));
	ASSERT_EQ(0, ask(&self->a, RECORD, 0));
	ASSERT_EQ(0, ask(&self->a, DESTROY, 0));
	/* destroyed: no new waits, and the old ones go on */
	EXPECT_TRUE(becomes(e, -ESTALE));
	EXPECT_EQ(-ESTALE, npu_event_sync(e, 60000));
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	ASSERT_EQ(0, ask(&self->a, END, 0));
	EXPECT_EQ(-EOWNERDEAD, npu_event_query(e));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
}

/* Who waits is killed: its owner goes on, and nothing is left there. */
TEST_F(ipc, importer_killed)
{
	struct gate g = { 0 };
	char key[NPU_IPC_KEY_SIZE];
	npu_event mine;
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	OK(npu_ipc_export_event(mine, NPU_IPC_ANY, key));
	OK(npu_stream_callback(s, gate_hold, &g, 0));
	OK(npu_event_record(mine, s));
	ASSERT_EQ(0, ask_key(&self->a, EVENT_IMPORT, 0, key));
	ASSERT_EQ(0, ask(&self->a, WAIT, 0));
	EXPECT_EQ(-EINPROGRESS, ask(&self->a, STREAM_QUERY, 0));
	ASSERT_EQ(0, ask_key(&self->b, EVENT_IMPORT, 0, key));
	ASSERT_EQ(0, ask(&self->b, WAIT, 0));
	peer_kill(&self->a);
	/* one that lives is told all the same */
	EXPECT_EQ(-EINPROGRESS, ask(&self->b, QUERY, 0));
	atomic_store(&g.open, 1);
	EXPECT_EQ(0, ask(&self->b, STREAM_SYNC, 60000));
	EXPECT_EQ(0, ask(&self->b, QUERY, 0));
	ASSERT_TRUE(peer_start(&self->a));
	OK(npu_event_destroy(mine));
	OK(npu_stream_destroy(s, 5000));
}

/* A stopped owner is waited for. */
TEST_F(ipc, owner_stopped)
{
	npu_event e;
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	OK(npu_stream_wait_event(s, e));
	kill(self->a.pid, SIGSTOP);
	ASSERT_EQ(self->a.pid, waitpid(self->a.pid, NULL, WUNTRACED));
	EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
	EXPECT_EQ(-ETIMEDOUT, npu_event_sync(e, 50));
	EXPECT_EQ(-EINPROGRESS, npu_stream_query(s));
	kill(self->a.pid, SIGCONT);
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	EXPECT_EQ(0, npu_event_sync(e, 60000));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
}

/* A wait in a stream that is aborted, and one of a device that is restarted. */
TEST_F(ipc, waits_that_are_discarded)
{
	npu_stream s;
	npu_event e;

	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	OK(npu_stream_wait_event(s, e));
	OK(npu_stream_abort(s, 5000));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	OK(npu_stream_wait_event(s, e));
	OK(npu_device_stop(0, 5000));
	OK(npu_device_restart(0, 0, 5000));
	/* nobody is in the way of the owner's end, or of ours */
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_event_sync(e, 60000));
	OK(npu_event_destroy(e));
}

/* More waits than are taken care of: a clear refusal, and the others go on. */
TEST_F_TIMEOUT(ipc, many_waits, 120)
{
	int i, rc = 0;
	npu_event e;
	npu_stream s;

	OK(npu_stream_create(NULL, &s));
	HELD(&e);
	for (i = 0; i < 300 && !rc; i++)
		rc = npu_stream_wait_event(s, e);
	EXPECT_EQ(-ENOSPC, rc);
	EXPECT_EQ(257, i);
	ASSERT_EQ(0, ask(&self->a, OPEN, 0));
	EXPECT_EQ(0, npu_stream_sync(s, 60000));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
}

/* Device and stream: the memory that it guards is seen through it. */
TEST_F(ipc, guards_memory)
{
	char key[NPU_IPC_KEY_SIZE];
	npu_stream s;
	npu_event e;
	void *p;
	int i;

	OK(npu_stream_create(NULL, &s));
	ASSERT_EQ(0, ask(&self->a, MALLOC, MIB));
	ASSERT_EQ(0, ask(&self->a, EXPORT, NPU_IPC_ANY));
	memcpy(key, self->a.r.key, sizeof(key));
	OK(npu_ipc_import(key, 0, &p));
	EXPORTED();
	OK(npu_ipc_import_event(self->a.r.key, 0, &e));
	for (i = 1; i < 20; i++) {
		ASSERT_EQ(0, ask(&self->a, FILL, (uint64_t)i));
		ASSERT_EQ(0, ask(&self->a, RECORD, 0));
		OK(npu_stream_wait_event(s, e));
		OK(npu_stream_sync(s, 60000));
		EXPECT_EQ(0, check(p, 4096, i));
	}
	OK(npu_ipc_close(p));
	OK(npu_event_destroy(e));
	OK(npu_stream_destroy(s, 5000));
}

/* A private device shares nothing. */
TEST_F(ipc, a_private_device)
{
	char key[NPU_IPC_KEY_SIZE] = "x";
	npu_event e, mine;
	int fd;

	setenv("NPU_SIMNPU_INSTANCE", "", 1);
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_export_event(mine, 0, key));
	EXPECT_EQ(0, key[0]);
	EXPECT_NE(NULL, strstr(last_error().hint, "simnpu_instance"));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_import_event("ipc-test:0:0:1:80000001", 0, &e));
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_export_event_fd(mine, &fd));
	EXPECT_EQ(-1, fd);
	EXPECT_EQ(-EOPNOTSUPP, npu_ipc_import_event_fd(0, 0, &e));
	/* it is an event all the same */
	OK(npu_event_record(mine, (npu_stream){ 0 }));
	EXPECT_EQ(0, npu_event_sync(mine, 5000));
	OK(npu_event_destroy(mine));
}

/* ---- a system that refuses ---- */

/* Makes, shares, waits, by a thread and by a stream, and gives all back; the first error. */
static int round_trip(npu_stream s, npu_stream t)
{
	static struct gate g;	/* a callback may come late, or never */
	char key[NPU_IPC_KEY_SIZE];
	npu_event mine, e = { 0 };
	int err, later;

	atomic_store(&g.open, 0);
	err = npu_event_create(NPU_EVENT_IPC, &mine);
	if (err)
		return err;
	err = npu_ipc_export_event(mine, 0, key);
	if (!err)
		err = npu_ipc_import_event(key, 0, &e);
	if (!err)
		err = npu_stream_callback(s, gate_hold, &g, 0);
	if (!err) {
		npu_event_record(mine, s);
		later = npu_event_query(e);
		err = npu_stream_wait_event(t, e);
		atomic_store(&g.open, 1);
		if (!err)
			err = later == -EINPROGRESS ? npu_event_sync(e, 10000) : later;
		if (!err)
			err = npu_event_query(e);
		later = npu_stream_sync(t, 20000);
		err = err ? err : later;
		npu_stream_sync(s, 20000);
	}
	if (e.h)
		npu_event_destroy(e);
	npu_event_destroy(mine);
	return err;
}

/* Whether the descriptors are so many again, but for those of the thread that answers. */
static bool soon(int n)
{
	int i, now = 0;

	for (i = 0; i < 5000; i++) {
		now = fds();
		if (now == n || now == n + 3)
			return true;
		usleep(1000);
	}
	printf("# %d descriptors of %d\n", now, n);
	return false;
}

/* Each call of each kind fails once: an error, or none; nothing is left, and then all works. */
TEST_F_TIMEOUT(ipc, each_step_fails, 300)
{
	static const char *const steps[] = {
		"sys:socket", "sys:bind", "sys:connect", "sys:accept", "sys:sendmsg",
		"sys:recvmsg", "sys:eventfd", "sys:thread_create", "sys:memfd_create",
		"sys:fallocate", "sys:dup", "sys:mmap", "sys:alloc", "ioctl:notify",
	};
	static struct gate open = { .open = 1 };
	struct simnpu_fault_rule r;
	unsigned int i, nth, failed = 0;
	npu_stream s, t;
	char rule[64];
	int n, err;

	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS))
		SKIP(return, "no faults in this build");
	OK(npu_init());
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (nth = 1;; nth++) {
			/* the thread that answers is made anew each time, all else is there */
			OK(npu_device_reset(0, 5000));
			OK(npu_device_set(0));
			OK(npu_stream_create(NULL, &s));
			OK(npu_stream_create(NULL, &t));
			OK(npu_stream_callback(s, gate_hold, &open, 0));
			OK(npu_stream_sync(s, 10000));
			n = fds();
			snprintf(rule, sizeof(rule), "%s,nth=%u", steps[i], nth);
			ASSERT_EQ(0, simnpu_fault_set(rule, NULL));
			err = round_trip(s, t);
			ASSERT_EQ(1, simnpu_fault_list(&r, 1));
			simnpu_fault_clear();
			if (err) {
				failed++;
				EXPECT_NE(0, last_error().text[0]) TH_LOG("%s", rule);
			}
			EXPECT_NE(-ETIMEDOUT, err) TH_LOG("%s", rule);
			EXPECT_TRUE(soon(n)) TH_LOG("%s: %d", rule, err);
			err = round_trip(s, t);
			EXPECT_EQ(0, err) TH_LOG("after %s", rule);
			EXPECT_TRUE(soon(n)) TH_LOG("after %s", rule);
			if (!r.hit)
				break;
		}
	}
	EXPECT_LE(10, failed) TH_LOG("%u steps failed", failed);
}

/* The same of descriptors, call by call. */
TEST_F(ipc, descriptor_steps_fail)
{
	static const char *const steps[] = { "sys:memfd_create", "sys:fallocate", "sys:write" };
	struct simnpu_fault_rule r;
	npu_event mine, e;
	unsigned int i;
	char rule[64];
	int n, fd, good;

	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS))
		SKIP(return, "no faults in this build");
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	/* the page, and the thread that answers */
	OK(npu_ipc_export_event_fd(mine, &good));
	n = fds();
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		snprintf(rule, sizeof(rule), "%s,nth=1", steps[i]);
		ASSERT_EQ(0, simnpu_fault_set(rule, NULL));
		EXPECT_EQ(i ? -ENOMEM : -EMFILE, npu_ipc_export_event_fd(mine, &fd))
			TH_LOG("%s", rule);
		ASSERT_EQ(1, simnpu_fault_list(&r, 1));
		EXPECT_EQ(1, r.hit);
		simnpu_fault_clear();
		EXPECT_EQ(-1, fd);
		EXPECT_EQ(n, fds());
	}
	ASSERT_EQ(0, simnpu_fault_set("sys:mmap,nth=1", NULL));
	EXPECT_EQ(-ENOMEM, npu_ipc_import_event_fd(good, 0, &e));
	EXPECT_EQ(0, e.h);
	simnpu_fault_clear();
	OK(npu_ipc_import_event_fd(good, 0, &e));
	OK(npu_event_destroy(e));
	close(good);
	OK(npu_event_destroy(mine));
}

/* The answer to a stream's wait does not come through: it is asked for again. */
TEST_F(ipc, stream_asks_again)
{
	static const char *const lost[] = { "sys:sendmsg,nth=1", "sys:recvmsg,nth=1" };
	static struct gate g[2];
	struct simnpu_fault_rule r;
	char key[NPU_IPC_KEY_SIZE];
	npu_event mine, e;
	npu_stream s, t;
	int i;

	if (!IS_ENABLED(CONFIG_SIMNPU_FAULTS))
		SKIP(return, "no faults in this build");
	OK(npu_stream_create(NULL, &s));
	OK(npu_stream_create(NULL, &t));
	OK(npu_event_create(NPU_EVENT_IPC, &mine));
	OK(npu_ipc_export_event(mine, 0, key));
	OK(npu_ipc_import_event(key, 0, &e));
	for (i = 0; i < 2; i++) {
		OK(npu_stream_callback(s, gate_hold, &g[i], 0));
		OK(npu_event_record(mine, s));
		OK(npu_stream_wait_event(t, e));
		/* one that is answered: the one before has been taken in */
		EXPECT_EQ(-EINPROGRESS, npu_event_query(e));
		ASSERT_EQ(0, simnpu_fault_set(lost[i], NULL));
		atomic_store(&g[i].open, 1);
		EXPECT_EQ(0, npu_stream_sync(t, 60000)) TH_LOG("%s", lost[i]);
		ASSERT_EQ(1, simnpu_fault_list(&r, 1));
		EXPECT_EQ(1, r.hit);
		simnpu_fault_clear();
	}
	OK(npu_event_destroy(e));
	OK(npu_event_destroy(mine));
	OK(npu_stream_destroy(s, 5000));
	OK(npu_stream_destroy(t, 5000));
}

TEST_HARNESS_MAIN
