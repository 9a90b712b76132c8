// SPDX-License-Identifier: GPL-2.0-only
/*
 * Named instances of the simulated device: several processes, their accounts
 * and limits, and what is left of them when they are killed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "selftests/drivers/simnpu_ring.h"
#include "selftests/fakes/sys.h"
#include "selftests/npu_kselftest.h"

#define MIB (1024ull * 1024)

/* Options of the tests, by name; who forks hands them on. */
static const char *opt_memory, *opt_part, *opt_devices, *opt_name;
static const char *opt_quota_memory, *opt_quota_streams, *opt_quota_events;

static const char *option_text(const char *name)
{
	static const struct {
		const char *name;
		const char **text;
	} options[] = {
		{ "simnpu_memory", &opt_memory }, { "simnpu_part", &opt_part },
		{ "simnpu_devices", &opt_devices }, { "simnpu_instance", &opt_name },
		{ "simnpu_quota_memory", &opt_quota_memory },
		{ "simnpu_quota_streams", &opt_quota_streams },
		{ "simnpu_quota_events", &opt_quota_events },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(options); i++)
		if (!strcmp(name, options[i].name))
			return *options[i].text;
	return NULL;
}

static const struct hal_option_reader reader = { .text = option_text };

static uint64_t info_free(int fd)
{
	struct simnpu_info i = { 0 };

	return io(fd, INFO, &i) ? UINT64_MAX : i.mem_free;
}

static struct simnpu_info info(int fd)
{
	struct simnpu_info i = { 0 };

	io(fd, INFO, &i);
	return i;
}

static int event_new(struct ctx *c, uint32_t *handle)
{
	struct simnpu_event e = { .context = c->handle };
	int rc = io(c->fd, EVENT_CREATE, &e);

	*handle = e.handle;
	return rc;
}

/* ---- another process that does as it is told ---- */

enum todo { OPEN, CONTEXT, MEM, FREE, QUEUE, EVENT, CLOSE, HAMMER };

struct order {
	enum todo todo;
	uint64_t n;
};

struct peer {
	pid_t pid;
	int fd;
};

/* Takes and gives back, at random, until it is killed. */
static int hammer(unsigned int seed)
{
	struct simnpu_handle h = { 0 };
	uint32_t mem[8] = { 0 }, i, ev;
	struct ring r;
	struct ctx c;

	for (;;) {
		if (ctx_open(&c, 0))
			return -EIO;
		for (i = 0; i < 40; i++) {
			seed = seed * 1664525 + 1013904223;
			if (mem[seed >> 16 & 7]) {
				mem_del(&c, mem[seed >> 16 & 7]);
				mem[seed >> 16 & 7] = 0;
			} else {
				mem_new(&c, (seed >> 20 & 15) * 65536 + 1, &mem[seed >> 16 & 7]);
			}
			if (!event_new(&c, &ev) && i & 1) {
				h.handle = ev;
				io(c.fd, EVENT_DESTROY, &h);
			}
			if (!ring_open(&r, &c) && i & 1)
				ring_close(&r);
		}
		memset(mem, 0, sizeof(mem));
		if (dev_close(c.fd))
			return -EIO;
	}
}

static int obey(struct ctx *c, const struct order *o)
{
	static uint32_t mem[64];
	static unsigned int mems;
	struct simnpu_context arg = { 0 };
	struct ring r;
	uint32_t ev;

	switch (o->todo) {
	case OPEN:
		c->fd = dev_open((unsigned int)o->n);
		return c->fd < 0 ? c->fd : 0;
	case CONTEXT:
		return ctx_open(c, (unsigned int)o->n);
	case MEM:
		return mem_new(c, o->n, &mem[mems & 63]) ? (int)mems++ : -ENOMEM;
	case FREE:
		return mem_del(c, mem[o->n]);
	case QUEUE:
		return ring_open(&r, c);
	case EVENT:
		return event_new(c, &ev);
	case CLOSE:
		return dev_close(c->fd);
	case HAMMER:
		return hammer((unsigned int)o->n);
	}
	return io(c->fd, CONTEXT_CREATE, &arg);
}

static void serve(int fd)
{
	struct ctx c = { .fd = -1 };
	struct order o;
	int rc;

	while (read(fd, &o, sizeof(o)) == sizeof(o)) {
		rc = obey(&c, &o);
		if (write(fd, &rc, sizeof(rc)) != sizeof(rc))
			break;
	}
	_exit(0);
}

static bool peer_start(struct peer *p)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return false;
	p->pid = fork();
	if (!p->pid) {
		close(fd[0]);
		serve(fd[1]);
	}
	close(fd[1]);
	p->fd = fd[0];
	return p->pid > 0;
}

static void tell(struct peer *p, enum todo todo, uint64_t n)
{
	struct order o = { todo, n };

	if (write(p->fd, &o, sizeof(o)) != sizeof(o))
		abort();
}

static int answer(struct peer *p)
{
	int rc;

	return read(p->fd, &rc, sizeof(rc)) == sizeof(rc) ? rc : -EPIPE;
}

static int ask(struct peer *p, enum todo todo, uint64_t n)
{
	tell(p, todo, n);
	return answer(p);
}

static void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->fd);
}

/* It ends by itself; what it has is still there. */
static void peer_end(struct peer *p)
{
	close(p->fd);
	waitpid(p->pid, NULL, 0);
}

/* ---- the bed ---- */

FIXTURE(instance)
{
	struct ctx c;
	struct peer a, b;
	char dir[64];
	char file[128];
};

FIXTURE_SETUP(instance)
{
	opt_memory = "64M";
	opt_name = "test";
	hal_option_set_reader(&reader);
	snprintf(self->dir, sizeof(self->dir), "/tmp/npu-instance-XXXXXX");
	ASSERT_NE(NULL, mkdtemp(self->dir));
	setenv("XDG_RUNTIME_DIR", self->dir, 1);
	snprintf(self->file, sizeof(self->file), "%s/simnpu-%u-test", self->dir, geteuid());
	self->c.fd = -1;
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
}

/* However the processes end: at most one file, small, the user's own. */
FIXTURE_TEARDOWN(instance)
{
	DIR *d = opendir(self->dir);
	struct dirent *e;
	char path[384];
	struct stat st;
	int files = 0;

	if (self->c.fd >= 0) {
		EXPECT_EQ(0, dev_close(self->c.fd));
	}
	peer_kill(&self->a);
	peer_kill(&self->b);
	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", self->dir, e->d_name);
		EXPECT_EQ(0, lstat(path, &st));
		EXPECT_LE(st.st_size, 65536);
		files++;
		remove(path);
	}
	EXPECT_LE(files, 1);
	closedir(d);
	rmdir(self->dir);
}

/* ---- memory ---- */

TEST_F(instance, memory_is_shared)
{
	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(0, ask(&self->a, MEM, 40 * MIB));
	EXPECT_EQ(24 * MIB, info_free(self->c.fd));
	EXPECT_EQ(40 * MIB, info(self->c.fd).mem_others);
	EXPECT_EQ(0, mem_new(&self->c, 30 * MIB, NULL));
	EXPECT_NE(0, mem_new(&self->c, 20 * MIB, NULL));
	EXPECT_EQ(4 * MIB, info_free(self->c.fd));
	EXPECT_EQ(-ENOMEM, ask(&self->a, MEM, 4 * MIB + 1));
	EXPECT_EQ(1, ask(&self->a, MEM, 4 * MIB));
	EXPECT_EQ(0, info_free(self->c.fd));
	EXPECT_EQ(0, ask(&self->a, FREE, 0));
	EXPECT_EQ(40 * MIB, info_free(self->c.fd));
	/* another device of it is another account */
	ASSERT_EQ(0, ask(&self->b, CONTEXT, 1));
	EXPECT_EQ(0, ask(&self->b, MEM, 64 * MIB));
	EXPECT_EQ(40 * MIB, info_free(self->c.fd));
	EXPECT_EQ(4 * MIB, info(self->c.fd).mem_others);
}

/* H28: who is killed gives back what he had, to who asks and to who allocates. */
TEST_F(instance, the_dead_have_nothing)
{
	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	ASSERT_EQ(0, ask(&self->b, CONTEXT, 0));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(0, ask(&self->a, MEM, 40 * MIB));
	EXPECT_EQ(0, ask(&self->b, MEM, 20 * MIB));
	EXPECT_EQ(0, mem_new(&self->c, 10 * MIB, NULL));
	peer_kill(&self->a);
	EXPECT_NE(0, mem_new(&self->c, 40 * MIB, NULL));
	EXPECT_EQ(4 * MIB, info_free(self->c.fd));
	peer_kill(&self->b);
	EXPECT_EQ(24 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, info(self->c.fd).mem_others);
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_TRUE(peer_start(&self->b));
}

/* However it ends. */
TEST_F(instance, who_just_leaves_has_nothing)
{
	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	ASSERT_EQ(0, ask(&self->b, CONTEXT, 0));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(0, ask(&self->a, MEM, 30 * MIB));
	EXPECT_EQ(0, ask(&self->b, MEM, 30 * MIB));
	EXPECT_EQ(0, ask(&self->a, CLOSE, 0));
	EXPECT_EQ(34 * MIB, info_free(self->c.fd));
	peer_end(&self->b);
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	EXPECT_NE(0, mem_new(&self->c, 64 * MIB, NULL));
	ASSERT_TRUE(peer_start(&self->b));
}

/* All that there is is had by somebody, and no more, however they race for it. */
TEST_F(instance, the_limit_is_exact_under_races)
{
	struct peer p[6];
	unsigned int i;
	int had = 0, n;

	for (i = 0; i < ARRAY_SIZE(p); i++)
		ASSERT_TRUE(peer_start(&p[i]));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	for (i = 0; i < ARRAY_SIZE(p); i++)
		ASSERT_EQ(0, ask(&p[i], CONTEXT, 0));
	do {
		for (n = 0, i = 0; i < ARRAY_SIZE(p); i++)
			tell(&p[i], MEM, MIB);
		for (i = 0; i < ARRAY_SIZE(p); i++)
			n += answer(&p[i]) >= 0;
		had += n;
	} while (n == ARRAY_SIZE(p));
	EXPECT_EQ(64, had);
	EXPECT_EQ(0, info_free(self->c.fd));
	EXPECT_EQ(64 * MIB, info(self->c.fd).mem_others);
	for (i = 0; i < ARRAY_SIZE(p); i++)
		peer_kill(&p[i]);
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
}

/* ---- streams and events ---- */

TEST_F(instance, streams_and_events_are_shared)
{
	uint32_t ev;
	struct ring r;
	int n;

	opt_part = "310p";	/* 1024 streams, 1023 events */
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	for (n = 0; n < 600; n++) {
		ASSERT_EQ(0, ask(&self->a, QUEUE, 0));
		ASSERT_EQ(0, ask(&self->a, EVENT, 0));
	}
	for (n = 0; !event_new(&self->c, &ev); n++)
		;
	EXPECT_EQ(423, n);
	EXPECT_EQ(-ENOSPC, event_new(&self->c, &ev));
	EXPECT_EQ(-ENOSPC, ask(&self->a, EVENT, 0));
	for (n = 0; !ring_open(&r, &self->c); n++)
		;
	EXPECT_EQ(424, n);
	EXPECT_EQ(-ENOSPC, ring_open(&r, &self->c));
	EXPECT_EQ(1023, info(self->c.fd).events);
	EXPECT_EQ(1024, info(self->c.fd).queues);
	peer_kill(&self->a);
	EXPECT_EQ(423, info(self->c.fd).events);
	EXPECT_EQ(424, info(self->c.fd).queues);
	EXPECT_EQ(0, event_new(&self->c, &ev));
	EXPECT_EQ(0, ring_open(&r, &self->c));
	ASSERT_TRUE(peer_start(&self->a));
}

/* ---- quotas ---- */

TEST_F(instance, quotas)
{
	uint32_t ev[2];
	struct ring r[3];

	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	opt_quota_memory = "25M";
	opt_quota_streams = "2";
	opt_quota_events = "1";
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(25 * MIB, info_free(self->c.fd));
	EXPECT_EQ(25 * MIB, info(self->c.fd).mem_quota);
	EXPECT_EQ(2, info(self->c.fd).queue_quota);
	EXPECT_EQ(1, info(self->c.fd).event_quota);
	EXPECT_EQ(64 * MIB, info(self->c.fd).mem_total);
	EXPECT_EQ(0, mem_new(&self->c, 26 * MIB, NULL));
	EXPECT_NE(0, mem_new(&self->c, 20 * MIB, NULL));
	EXPECT_EQ(5 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, ask(&self->a, MEM, 41 * MIB));
	EXPECT_EQ(3 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, ring_open(&r[0], &self->c));
	EXPECT_EQ(0, ring_open(&r[1], &self->c));
	EXPECT_EQ(-ENOSPC, ring_open(&r[2], &self->c));
	EXPECT_EQ(0, event_new(&self->c, &ev[0]));
	EXPECT_EQ(-ENOSPC, event_new(&self->c, &ev[1]));
	EXPECT_EQ(0, ask(&self->a, EVENT, 0));
	EXPECT_EQ(0, ring_close(&r[0]));
	EXPECT_EQ(0, ring_open(&r[2], &self->c));
	/* a quota that is smaller than what he has: nothing is left, and no less */
	opt_quota_memory = "1M";
	EXPECT_EQ(0, info_free(self->c.fd));
	opt_quota_memory = opt_quota_streams = opt_quota_events = NULL;
}

TEST_F(instance, quotas_of_a_private_one)
{
	opt_name = "";
	opt_quota_memory = "25M";
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(25 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, mem_new(&self->c, 26 * MIB, NULL));
	EXPECT_NE(0, mem_new(&self->c, 25 * MIB, NULL));
	EXPECT_EQ(0, info_free(self->c.fd));
	EXPECT_EQ(0, info(self->c.fd).mem_others);
	EXPECT_EQ(-1, access(self->file, F_OK));
	opt_quota_memory = NULL;
}

/* ---- memory that is shared ---- */

static int export(struct ctx *c, uint32_t handle, uint64_t to, uint32_t slot,
		  struct simnpu_export *e)
{
	*e = (struct simnpu_export){ .handle = handle, .to = to, .to_slot = slot };
	return io(c->fd, MEM_EXPORT, e);
}

static int import(struct ctx *c, const struct simnpu_export *e, struct simnpu_import *i)
{
	*i = (struct simnpu_import){ .fd = e->fd, .context = c->handle, .share = e->share };
	return io(c->fd, MEM_IMPORT, i);
}

static int copy(struct ctx *c, uint64_t dst, uint64_t src, uint64_t size, uint32_t kind)
{
	struct simnpu_copy a = {
		.dst = dst, .src = src, .dst_pitch = size, .src_pitch = size, .width = size,
		.height = 1, .context = c->handle, .kind = kind,
	};

	return io(c->fd, COPY, &a);
}

TEST_F(instance, one_memory_at_two_addresses)
{
	uint64_t in = 0x1234567890abcdefull, out = 0;
	struct simnpu_info me;
	struct simnpu_export e;
	struct simnpu_import i;
	uint64_t addr;
	uint32_t h;

	ASSERT_EQ(0, ctx_open(&self->c, 0));
	me = info(self->c.fd);
	EXPECT_NE(0, me.number);
	EXPECT_NE(0, me.caps & SIMNPU_CAP_EXPORT);
	addr = mem_new(&self->c, 10000, &h);
	ASSERT_NE(0, addr);
	EXPECT_EQ(64 * MIB - 12288, info_free(self->c.fd));
	ASSERT_EQ(0, export(&self->c, h, me.number, me.slot, &e));
	EXPECT_EQ(FD_CLOEXEC, fcntl(e.fd, F_GETFD));
	EXPECT_EQ(10000, e.size);
	EXPECT_NE(0, e.share);
	ASSERT_EQ(0, import(&self->c, &e, &i));
	close(e.fd);
	EXPECT_EQ(12288, i.size);
	EXPECT_NE(addr, i.addr);
	/* once, whoever has it */
	EXPECT_EQ(64 * MIB - 12288, info_free(self->c.fd));
	EXPECT_EQ(0, copy(&self->c, addr + 9992, U64(&in), 8, SIMNPU_COPY_TO_DEVICE));
	EXPECT_EQ(0, copy(&self->c, U64(&out), i.addr + 9992, 8, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(in, out);
	/* what is imported is not given on, and what is freed stays as long as somebody has it */
	EXPECT_EQ(-EOPNOTSUPP, export(&self->c, i.handle, 0, 0, &e));
	EXPECT_EQ(0, mem_del(&self->c, h));
	EXPECT_EQ(64 * MIB - 12288, info_free(self->c.fd));
	EXPECT_EQ(12288, info(self->c.fd).mem_others);
	out = 0;
	EXPECT_EQ(0, copy(&self->c, U64(&out), i.addr + 9992, 8, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(in, out);
	EXPECT_EQ(-EFAULT, copy(&self->c, U64(&out), addr, 8, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(0, mem_del(&self->c, i.handle));
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	/* new memory there is new */
	addr = mem_new(&self->c, 10000, &h);
	EXPECT_EQ(0, copy(&self->c, U64(&out), addr + 9992, 8, SIMNPU_COPY_TO_HOST));
	EXPECT_EQ(0, out);
}

TEST_F(instance, exports_that_are_refused)
{
	struct simnpu_mem host = { .size = 4096, .flags = SIMNPU_MEM_HOST };
	struct simnpu_mem managed = { .size = 4096, .flags = SIMNPU_MEM_MANAGED };
	struct simnpu_export e;
	struct simnpu_import i;
	struct simnpu_info me;
	struct rlimit r, old;
	uint32_t h, h2;
	int fd;

	ASSERT_EQ(0, ctx_open(&self->c, 0));
	me = info(self->c.fd);
	ASSERT_NE(0, mem_new(&self->c, 4096, &h));
	host.context = self->c.handle;
	ASSERT_EQ(0, io(self->c.fd, MEM_CREATE, &host));
	EXPECT_EQ(-ENOENT, export(&self->c, h + 100, 0, 0, &e));
	EXPECT_EQ(-EOPNOTSUPP, export(&self->c, host.handle, 0, 0, &e));
	managed.context = self->c.handle;
	ASSERT_EQ(0, io(self->c.fd, MEM_CREATE, &managed));
	EXPECT_EQ(64 * MIB - 8192, info_free(self->c.fd));
	EXPECT_EQ(-EOPNOTSUPP, export(&self->c, managed.handle, 0, 0, &e));
	EXPECT_EQ(0, mem_del(&self->c, managed.handle));
	EXPECT_EQ(-ESRCH, export(&self->c, h, me.number + 1, me.slot, &e));
	EXPECT_EQ(-ESRCH, export(&self->c, h, me.number, SIMNPU_INSTANCE_SLOTS, &e));
	EXPECT_EQ(-EINVAL, export(&self->c, h, 0, 1, &e));
	e = (struct simnpu_export){ .handle = h, .flags = 1 };
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_EXPORT, &e));
	e = (struct simnpu_export){ .handle = h, .share = 1, .to = me.number };
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_EXPORT, &e));
	/* what nobody got is taken back: freed, it is free */
	ASSERT_NE(0, mem_new(&self->c, 4096, &h2));
	ASSERT_EQ(0, export(&self->c, h2, me.number, me.slot, &e));
	close(e.fd);
	e = (struct simnpu_export){ .share = e.share };
	EXPECT_EQ(0, io(self->c.fd, MEM_EXPORT, &e));
	EXPECT_EQ(-1, e.fd);
	EXPECT_EQ(0, mem_del(&self->c, h2));
	EXPECT_EQ(64 * MIB - 4096, info_free(self->c.fd));
	e = (struct simnpu_export){ .share = SIMNPU_INSTANCE_SHARES + 1 };
	EXPECT_EQ(0, io(self->c.fd, MEM_EXPORT, &e));
	/* nothing that was not made for it */
	e = (struct simnpu_export){ .fd = -1 };
	EXPECT_EQ(-EINVAL, import(&self->c, &e, &i));
	e.fd = open("/dev/zero", O_RDWR);
	EXPECT_EQ(-EINVAL, import(&self->c, &e, &i));
	close(e.fd);
	e.fd = hal_sys_memfd("test");
	ASSERT_EQ(0, ftruncate(e.fd, 4096));
	EXPECT_EQ(-EINVAL, import(&self->c, &e, &i));
	close(e.fd);
	ASSERT_EQ(0, export(&self->c, h, 0, 0, &e));
	i = (struct simnpu_import){ .fd = e.fd, .context = self->c.handle + 1 };
	EXPECT_EQ(-ENOENT, io(self->c.fd, MEM_IMPORT, &i));
	i = (struct simnpu_import){ .fd = e.fd, .context = self->c.handle, .owner_slot = 1 };
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_IMPORT, &i));
	i = (struct simnpu_import){ .fd = e.fd, .context = self->c.handle, .size = me.number,
				    .owner_slot = SIMNPU_INSTANCE_SLOTS };
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_IMPORT, &i));
	i = (struct simnpu_import){ .fd = e.fd, .context = self->c.handle, .size = me.number,
				    .share = 1 };
	EXPECT_EQ(-EINVAL, io(self->c.fd, MEM_IMPORT, &i));
	/* one that was found counts as one that was handed out */
	ASSERT_NE(0, mem_new(&self->c, 8192, &h2));
	i = (struct simnpu_import){ .context = self->c.handle, .size = me.number,
				    .owner_slot = me.slot };
	close(e.fd);
	ASSERT_EQ(0, export(&self->c, h2, 0, 0, &e));
	i.fd = e.fd;
	ASSERT_EQ(0, io(self->c.fd, MEM_IMPORT, &i));
	EXPECT_EQ(64 * MIB - 12288, info_free(self->c.fd));
	EXPECT_EQ(0, mem_del(&self->c, h2));
	EXPECT_EQ(64 * MIB - 12288, info_free(self->c.fd));
	EXPECT_EQ(0, mem_del(&self->c, i.handle));
	EXPECT_EQ(64 * MIB - 4096, info_free(self->c.fd));
	close(e.fd);
	/* half of the descriptors are the program's: memory does without, but cannot be shared */
	fd = dup(0);
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &old));
	r = (struct rlimit){ (rlim_t)fd * 2, old.rlim_max };
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &r));
	ASSERT_NE(0, mem_new(&self->c, 4096, &h2));
	EXPECT_EQ(-EMFILE, export(&self->c, h2, 0, 0, &e));
	setrlimit(RLIMIT_NOFILE, &old);
	close(fd);
	EXPECT_EQ(0, mem_del(&self->c, h2));
	ASSERT_NE(0, mem_new(&self->c, 4096, &h2));
	EXPECT_EQ(0, export(&self->c, h2, 0, 0, &e));
	close(e.fd);
}

/* Each step of an allocation and of an import fails once; nothing is left of it. */
TEST_F(instance, shared_memory_that_fails)
{
	static const struct {
		enum fake_sys_call call;
		int err;
	} fail[] = {
		{ FAKE_SYS_FALLOCATE, ENOSPC }, { FAKE_SYS_FALLOCATE, ENOMEM },
		{ FAKE_SYS_MMAP, ENOMEM }, { FAKE_SYS_MADVISE, ENOMEM },
	};
	struct simnpu_export e;
	struct simnpu_import im;
	struct rlimit r, old;
	uint32_t h;
	size_t i;

	hal_sys_set(&fake_sys);
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	for (i = 0; i < ARRAY_SIZE(fail); i++) {
		fake_sys_reset();
		fake_sys_fail(fail[i].call, 1, 1, fail[i].err);
		EXPECT_EQ(0, mem_new(&self->c, MIB, &h)) TH_LOG("%zu", i);
		EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	}
	fake_sys_reset();
	ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &old));
	r = (struct rlimit){ MIB - 1, old.rlim_max };
	ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &r));
	EXPECT_EQ(0, mem_new(&self->c, MIB, &h));
	setrlimit(RLIMIT_FSIZE, &old);
	ASSERT_NE(0, mem_new(&self->c, MIB, &h));
	fake_sys_fail(FAKE_SYS_DUP, 1, 1, EMFILE);
	EXPECT_EQ(-EMFILE, export(&self->c, h, 0, 0, &e));
	fake_sys_fail(FAKE_SYS_FSTAT, 1, 1, EIO);
	EXPECT_EQ(-EIO, export(&self->c, h, 0, 0, &e));
	fake_sys_reset();
	ASSERT_EQ(0, export(&self->c, h, info(self->c.fd).number, info(self->c.fd).slot, &e));
	fake_sys_fail(FAKE_SYS_DUP, 1, 1, EMFILE);
	EXPECT_EQ(-EMFILE, import(&self->c, &e, &im));
	for (i = 2; i < ARRAY_SIZE(fail); i++) {
		fake_sys_reset();
		fake_sys_fail(fail[i].call, 1, 1, fail[i].err);
		EXPECT_EQ(-ENOMEM, import(&self->c, &e, &im)) TH_LOG("%zu", i);
	}
	fake_sys_reset();
	EXPECT_EQ(0, import(&self->c, &e, &im));
	close(e.fd);
	/* its share was given back by the first that failed: it counts no more when it is freed */
	EXPECT_EQ(0, mem_del(&self->c, h));
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, mem_del(&self->c, im.handle));
	/* addresses that can't be cleared are not used again; the memory is */
	ASSERT_NE(0, mem_new(&self->c, MIB, &h));
	fake_sys_fail(FAKE_SYS_MMAP, 1, 1, ENOMEM);
	EXPECT_EQ(0, mem_del(&self->c, h));
	fake_sys_reset();
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	EXPECT_NE(0, mem_new(&self->c, 64 * MIB, &h));
	EXPECT_EQ(0, dev_close(self->c.fd));
	self->c.fd = -1;
	hal_sys_set(NULL);
}

/* ---- dying ---- */

/* Killed at any point: figures are what they were, and the next one finds all in order. */
TEST_F_TIMEOUT(instance, killed_at_any_point, 120)
{
	struct simnpu_info i;
	struct peer p;
	int n;

	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_NE(0, mem_new(&self->c, MIB, NULL));
	for (n = 0; n < 60; n++) {
		ASSERT_TRUE(peer_start(&p));
		tell(&p, HAMMER, (uint64_t)n);
		usleep((useconds_t)(n * 997 % 20000));
		peer_kill(&p);
		i = info(self->c.fd);
		ASSERT_EQ(63 * MIB, i.mem_free) TH_LOG("after %d", n);
		ASSERT_EQ(0, i.mem_others);
		ASSERT_EQ(0, i.queues);
		ASSERT_EQ(0, i.events);
	}
	EXPECT_NE(0, mem_new(&self->c, 63 * MIB, NULL));
}

/* The same with others that go on working, and nobody who stays. */
TEST_F_TIMEOUT(instance, killed_among_others, 120)
{
	struct peer p[4];
	unsigned int i;
	int n;

	for (i = 0; i < ARRAY_SIZE(p); i++) {
		ASSERT_TRUE(peer_start(&p[i]));
		tell(&p[i], HAMMER, i);
	}
	for (n = 0; n < 40; n++) {
		usleep((useconds_t)(n * 997 % 20000));
		peer_kill(&p[n % 4]);
		ASSERT_TRUE(peer_start(&p[n % 4]));
		tell(&p[n % 4], HAMMER, (uint64_t)n);
	}
	for (i = 0; i < ARRAY_SIZE(p); i++) {
		/* nobody gave up of himself */
		EXPECT_EQ(0, waitpid(p[i].pid, NULL, WNOHANG));
		peer_kill(&p[i]);
	}
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	EXPECT_NE(0, mem_new(&self->c, 64 * MIB, NULL));
}

/* A child holds nothing of its parent's, whatever it inherited. */
TEST_F(instance, a_child_keeps_nothing_alive)
{
	int to[2], from[2];
	pid_t pid, child;
	char c = 0;

	ASSERT_EQ(0, pipe(to));
	ASSERT_EQ(0, pipe(from));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	pid = fork();
	if (!pid) {
		struct ctx mine;

		/* the parent's is not ours: this process opens its own, and forks */
		if (ctx_open(&mine, 0) || !mem_new(&mine, 40 * MIB, NULL))
			_exit(1);
		child = fork();
		if (!child) {
			close(to[1]);
			if (write(from[1], "x", 1) != 1 || read(to[0], &c, 1) < 0)
				_exit(1);
			_exit(0);
		}
		pause();
	}
	EXPECT_EQ(1, read(from[0], &c, 1));
	EXPECT_EQ(24 * MIB, info_free(self->c.fd));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	close(to[0]);
	close(to[1]);
	close(from[0]);
	close(from[1]);
}

/* Who is stopped with the accounts locked holds nobody up for long, and no limit is passed. */
TEST_F(instance, a_stopped_process_holds_nobody_up)
{
	int fd;

	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	fd = open(self->file, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, hal_sys_lock(fd, F_WRLCK, SIMNPU_INSTANCE_LOCK_ACCOUNTS, 1));
	EXPECT_EQ(0, ask(&self->a, MEM, 40 * MIB));
	EXPECT_EQ(0, mem_new(&self->c, 25 * MIB, NULL));
	EXPECT_NE(0, mem_new(&self->c, 24 * MIB, NULL));
	EXPECT_EQ(-ENOMEM, ask(&self->a, MEM, 1));
	close(fd);
}

/* ---- the file ---- */

TEST_F(instance, the_file_is_reset)
{
	struct stat st;
	int fd;

	opt_devices = "3";
	ASSERT_EQ(0, ctx_open(&self->c, 2));
	EXPECT_NE(0, mem_new(&self->c, 60 * MIB, NULL));
	ASSERT_EQ(0, stat(self->file, &st));
	EXPECT_EQ(0600, st.st_mode & 07777);
	EXPECT_LE(st.st_size, 65536);
	EXPECT_LE(sizeof(struct simnpu_instance), (uint64_t)st.st_blocks * 512);
	/* while somebody uses it, it is as he made it, whatever others say */
	opt_devices = "1";
	opt_memory = "32M";
	opt_part = "310b";
	fd = dev_open(1);
	ASSERT_LE(0, fd);
	EXPECT_EQ(64 * MIB, info(fd).mem_total);
	EXPECT_EQ(0, dev_close(fd));
	EXPECT_EQ(0, dev_close(self->c.fd));
	/* whatever is left in it */
	fd = open(self->file, O_RDWR);
	EXPECT_EQ(4096, pwrite(fd, memset(alloca(4096), 0x55, 4096), 4096, 0));
	close(fd);
	EXPECT_EQ(-ENOENT, dev_open(1));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(32 * MIB, info_free(self->c.fd));
	EXPECT_STREQ("Ascend310B4", info(self->c.fd).part);
	opt_devices = NULL;
	opt_part = NULL;
}

TEST_F(instance, a_peer_takes_what_is_there)
{
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	opt_memory = "128M";
	peer_kill(&self->a);
	ASSERT_TRUE(peer_start(&self->a));
	ASSERT_EQ(0, ask(&self->a, CONTEXT, 1));
	EXPECT_EQ(-ENOMEM, ask(&self->a, MEM, 65 * MIB));
	EXPECT_EQ(0, ask(&self->a, MEM, 64 * MIB));
	EXPECT_EQ(-ENOENT, ask(&self->b, OPEN, 2));
}

/* Nothing that another user could have put there, or that is not what we made. */
TEST_F(instance, files_that_are_not_trusted)
{
	char other[160];
	int fd;

	/* with names that no other test has: these folders are everybody's */
	snprintf(other, sizeof(other), "%s/other", self->dir);
	fd = open(other, O_CREAT | O_RDWR, 0600);
	close(fd);
	ASSERT_EQ(0, link(other, self->file));
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	unlink(other);
	chmod(self->file, 0640);
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	chmod(self->file, 0600);
	ASSERT_EQ(0, truncate(self->file, 65537));
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	ASSERT_EQ(0, truncate(self->file, 0));
	if (!geteuid()) {
		EXPECT_EQ(0, chown(self->file, 65534, 65534));
		EXPECT_EQ(-EUCLEAN, dev_open(0));
	}
	unlink(self->file);
	mkfifo(self->file, 0600);
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	unlink(self->file);
}

/* Where the folder will not do, all go to the next one. */
TEST_F(instance, another_folder)
{
	static const char *const at[] = { "/dev/shm", "/tmp" };
	char name[32], link[160], path[160];
	unsigned int i, found = 0;
	int fd;

	snprintf(name, sizeof(name), "t%d", getpid());
	opt_name = name;
	snprintf(link, sizeof(link), "%s/simnpu-%u-%s", self->dir, geteuid(), name);
	ASSERT_EQ(0, symlink("/dev/null", link));
	fd = dev_open(0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, dev_close(fd));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		snprintf(path, sizeof(path), "%s/simnpu-%u-%s", at[i], geteuid(), name);
		found += !unlink(path);
	}
	EXPECT_EQ(1, found);
	unlink(link);
	setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
	fd = dev_open(0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, dev_close(fd));
	EXPECT_EQ(-1, access("not", F_OK));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		snprintf(path, sizeof(path), "%s/simnpu-%u-%s", at[i], geteuid(), name);
		unlink(path);
	}
}

/* Another version of the library has it: its accounts are not ours to read. */
TEST_F(instance, another_layout)
{
	struct simnpu_instance head = { 0 };
	int fd = open(self->file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, hal_sys_lock(fd, F_RDLCK, SIMNPU_INSTANCE_LOCK_FILE, 1));
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	head.magic = SIMNPU_INSTANCE_MAGIC;
	head.major = SIMNPU_ABI_MAJOR + 1;
	head.slots = SIMNPU_INSTANCE_SLOTS;
	head.devices = 2;
	head.memory = 64 * MIB;
	strcpy(head.part, "SimNPU");
	ASSERT_EQ((ssize_t)sizeof(head), pwrite(fd, &head, sizeof(head), 0));
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	head.major = SIMNPU_ABI_MAJOR;
	strcpy(head.part, "no such part");
	ASSERT_EQ((ssize_t)sizeof(head), pwrite(fd, &head, sizeof(head), 0));
	EXPECT_EQ(-EUCLEAN, dev_open(0));
	strcpy(head.part, "SimNPU");
	memset(head.part + 7, 0, sizeof(head.part) - 7);
	ASSERT_EQ((ssize_t)sizeof(head), pwrite(fd, &head, sizeof(head), 0));
	EXPECT_EQ(0, ctx_open(&self->c, 0));
	close(fd);
}

TEST_F(instance, somebody_does_not_get_on_with_it)
{
	int fd = open(self->file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, hal_sys_lock(fd, F_WRLCK, SIMNPU_INSTANCE_LOCK_FILE, 1));
	EXPECT_EQ(-EBUSY, dev_open(0));
	/* he dies over it */
	close(fd);
	EXPECT_EQ(0, ctx_open(&self->c, 0));
}

TEST_F(instance, names)
{
	static const char *const bad[] = { ".", ".x", "a/b", "a b", "\xc3\xa4", "x\n" };
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		opt_name = bad[i];
		EXPECT_EQ(-EINVAL, dev_open(0)) TH_LOG("%s", bad[i]);
	}
	opt_name = "test";
	fd = dev_open(0);
	ASSERT_LE(0, fd);
	/* one name at a time */
	opt_name = "test2";
	EXPECT_EQ(-EBUSY, dev_open(1));
	opt_name = "";
	EXPECT_EQ(-EBUSY, dev_open(1));
	EXPECT_EQ(0, dev_close(fd));
	fd = dev_open(1);
	ASSERT_LE(0, fd);
	opt_name = "test";
	EXPECT_EQ(-EBUSY, dev_open(0));
	EXPECT_EQ(0, dev_close(fd));
}

/* ---- slots ---- */

/* So many may use devices; any number may ask. */
TEST_F_TIMEOUT(instance, slots_run_out, 120)
{
	struct simnpu_context arg = { 0 };
	struct peer more;
	uint64_t i;
	int fd;

	opt_devices = "64";
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(0, dev_close(self->c.fd));
	self->c.fd = -1;
	ASSERT_TRUE(peer_start(&more));
	for (i = 0; i < 64; i++) {
		ASSERT_EQ(0, ask(&more, CONTEXT, i));
		ASSERT_EQ(0, ask(&self->b, CONTEXT, i)) TH_LOG("%d", (int)i);
	}
	opt_devices = NULL;
	fd = dev_open(5);
	ASSERT_LE(0, fd);
	EXPECT_EQ(64 * MIB, info_free(fd));
	EXPECT_EQ(-ENOSPC, io(fd, CONTEXT_CREATE, &arg));
	EXPECT_EQ(-ENOSPC, io(fd, CONTEXT_CREATE, &arg));
	peer_kill(&more);
	EXPECT_EQ(0, io(fd, CONTEXT_CREATE, &arg));
	EXPECT_EQ(0, dev_close(fd));
}

/* Two openers of a process are one. */
TEST_F(instance, one_slot_for_a_process)
{
	struct ctx two;

	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	ASSERT_EQ(0, ctx_open(&two, 0));
	EXPECT_NE(0, mem_new(&self->c, 20 * MIB, NULL));
	EXPECT_NE(0, mem_new(&two, 20 * MIB, NULL));
	EXPECT_EQ(24 * MIB, info_free(two.fd));
	EXPECT_EQ(0, info(two.fd).mem_others);
	EXPECT_EQ(-ENOMEM, ask(&self->a, MEM, 25 * MIB));
	EXPECT_EQ(0, dev_close(two.fd));
	EXPECT_EQ(44 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, ask(&self->a, MEM, 44 * MIB));
}

/* ---- a system that refuses ---- */

TEST_F(instance, a_system_that_refuses)
{
	static const struct {
		enum fake_sys_call call;
		int err, rc;
	} fail[] = {
		{ FAKE_SYS_OPEN, EMFILE, -EMFILE }, { FAKE_SYS_FSTAT, EIO, -EIO },
		{ FAKE_SYS_FALLOCATE, ENOSPC, -ENOMEM }, { FAKE_SYS_FALLOCATE, EFBIG, -ENOMEM },
		{ FAKE_SYS_MMAP, ENOMEM, -ENOMEM }, { FAKE_SYS_MADVISE, EINVAL, -EINVAL },
		{ FAKE_SYS_LOCK, ENOLCK, -ENOLCK },
	};
	struct rlimit r, old;
	size_t i;

	hal_sys_set(&fake_sys);
	for (i = 0; i < ARRAY_SIZE(fail); i++) {
		unlink(self->file);
		fake_sys_reset();
		fake_sys_fail(fail[i].call, 1, 1, fail[i].err);
		EXPECT_EQ(fail[i].rc, dev_open(0)) TH_LOG("%zu", i);
	}
	fake_sys_reset();
	unlink(self->file);
	ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &old));
	r = (struct rlimit){ 20000, old.rlim_max };
	ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &r));
	EXPECT_EQ(-ENOMEM, dev_open(0));
	setrlimit(RLIMIT_FSIZE, &old);
	/* a system that cannot tell whether the others live counts them */
	ASSERT_EQ(0, ask(&self->a, CONTEXT, 0));
	ASSERT_EQ(0, ctx_open(&self->c, 0));
	EXPECT_EQ(0, ask(&self->a, MEM, 40 * MIB));
	peer_kill(&self->a);
	fake_sys_fail(FAKE_SYS_LOCK, 1, 1000, ENOLCK);
	EXPECT_EQ(24 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, mem_new(&self->c, 30 * MIB, NULL));
	fake_sys_reset();
	EXPECT_EQ(64 * MIB, info_free(self->c.fd));
	EXPECT_EQ(0, dev_close(self->c.fd));
	self->c.fd = -1;
	hal_sys_set(NULL);
	ASSERT_TRUE(peer_start(&self->a));
}

TEST_HARNESS_MAIN
