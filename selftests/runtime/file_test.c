// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files: what is read and written, in which order, and what is refused.
 */
#include "selftests/npu_kselftest.h"

#include <signal.h>
#include <sys/resource.h>

#include "hal/internal.h"
#include "selftests/runtime/file_env.h"

#define N (5u * MIB + 1234u)

FIXTURE(file) {
	char *path;
	unsigned char *host;
	char *dev;
	npu_stream s;
	npu_file f;
	int fds;
};

FIXTURE_VARIANT(file) {
	const char *uring, *window;
};

#define VARIANT(id, u, w) FIXTURE_VARIANT_ADD(file, id) { .uring = u, .window = w };
WAYS(VARIANT)

FIXTURE_SETUP(file)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	self->fds = open_files();
	self->path = make_file(N);
	ASSERT_NE(NULL, self->path);
	self->host = malloc(N);
	ASSERT_NE(NULL, self->host);
	OK(npu_option_set("io_uring", variant->uring));
	OK(npu_option_set("io_window", variant->window));
	OK(npu_malloc(N, 0, (void **)&self->dev));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_file_open(self->path, NPU_FILE_READ | NPU_FILE_WRITE, &self->f));
}

FIXTURE_TEARDOWN(file)
{
	EXPECT_EQ(0, npu_finalize(LONG_MS));
	EXPECT_EQ(self->fds, open_files());
	rt_file_sys = &rt_file_libc;
	remove_file(self->path);
	free(self->host);
}

/* Offsets in the file and in memory, and sizes: aligned, by chance aligned alike, and not. */
static const struct range {
	uint64_t offset;
	size_t at;
	size_t size;
} ranges[] = {
	{ 0, 0, N }, { 0, 0, 4096 }, { 0, 0, 1 }, { 4096, 0, 3 * MIB }, { 4096, 512, 3 * MIB },
	{ 1, 1, MIB }, { 7, 7, 2 * MIB + 5 }, { 7, 9, 2 * MIB + 5 }, { 4095, 4095, 2 },
	{ N - 1, 100, 1 }, { N - 5000, 4096, 5000 }, { 512, 512, 511 }, { MIB - 3, 13, 4 * MIB },
	{ 8192, 4096, MIB + 8192 },
};

static int read_all(FIXTURE_DATA(file) *self, const struct range *r, bool async)
{
	int err;

	if (!async)
		return npu_file_read(self->f, r->offset, self->dev + r->at, r->size);
	err = npu_file_read_async(self->s, self->f, r->offset, self->dev + r->at, r->size);
	return err ? err : npu_stream_sync(self->s, LONG_MS);
}

/* Reads a range, and looks at it and at what is beside it. */
static void check_read(struct __test_metadata *_metadata, FIXTURE_DATA(file) *self,
		       const struct range *r, bool async)
{
	size_t i, end = r->at + r->size;

	OK(npu_memset(self->dev, 0xee, N));
	ASSERT_EQ(0, read_all(self, r, async))
		TH_LOG("%s", last_error().text);
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host + r->at, r->offset, r->size))
		TH_LOG("%zu bytes at %llu to %zu, async %d", r->size,
		       (unsigned long long)r->offset, r->at, async);
	for (i = r->at > 64 ? r->at - 64 : 0; i < r->at; i++)
		EXPECT_EQ(0xee, self->host[i]);
	for (i = end; i < N && i < end + 8192; i++)
		EXPECT_EQ(0xee, self->host[i]);
}

TEST_F(file, reads)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		if (ranges[i].at + ranges[i].size > N)
			continue;
		make_cold(self->path);
		check_read(_metadata, self, &ranges[i], false);
		make_cold(self->path);
		check_read(_metadata, self, &ranges[i], true);
		/* and from the cache */
		make_warm(self->path);
		check_read(_metadata, self, &ranges[i], false);
		check_read(_metadata, self, &ranges[i], true);
	}
}

TEST_F(file, writes)
{
	static unsigned char before[N], after[N];
	const struct range *r;
	size_t i, k;
	int fd = open(self->path, O_RDONLY);

	for (i = 0; i < N; i++)
		self->host[i] = (unsigned char)(i * 3 + 1);
	OK(npu_memcpy(self->dev, self->host, N, NPU_COPY_AUTO));
	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		r = &ranges[i];
		if (r->at + r->size > N)
			continue;
		EXPECT_EQ(N, (uint64_t)pread(fd, before, N, 0));
		if (i % 2) {
			OK(npu_file_write(self->f, r->offset, self->dev + r->at, r->size));
		} else {
			OK(npu_file_write_async(self->s, self->f, r->offset, self->dev + r->at,
						r->size));
			OK(npu_stream_sync(self->s, LONG_MS));
		}
		EXPECT_EQ(N, (uint64_t)pread(fd, after, N, 0));
		for (k = 0; k < r->size; k++)
			before[r->offset + k] = self->host[r->at + k];
		EXPECT_EQ(0, memcmp(before, after, N)) TH_LOG("range %zu", i);
	}
	close(fd);
}

TEST_F(file, grows)
{
	struct stat st;
	uint64_t size;
	npu_file f;
	char *path;

	OK(npu_file_read(self->f, 0, self->dev, N));
	path = make_file(0);
	OK(npu_file_open(path, NPU_FILE_WRITE, &f));
	OK(npu_file_size(f, &size));
	EXPECT_EQ(0, size);
	OK(npu_file_write(f, 12345, self->dev, N));
	OK(npu_file_size(f, &size));
	EXPECT_EQ(12345 + N, size);
	OK(npu_file_close(f));
	OK(npu_file_open(path, NPU_FILE_READ, &f));
	OK(npu_memset(self->dev, 0, N));
	OK(npu_file_read(f, 12345, self->dev, N));
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host, 0, N));
	OK(npu_file_close(f));
	OK(npu_file_open(path, NPU_FILE_WRITE | NPU_FILE_TRUNCATE, &f));
	OK(npu_file_size(f, &size));
	EXPECT_EQ(0, size);
	OK(npu_file_close(f));
	EXPECT_EQ(0, unlink(path));
	EXPECT_EQ(-ENOENT, npu_file_open(path, NPU_FILE_WRITE, &f));
	EXPECT_EQ(0, f.h);
	umask(022);
	OK(npu_file_open(path, NPU_FILE_WRITE | NPU_FILE_CREATE, &f));
	EXPECT_EQ(0, stat(path, &st));
	EXPECT_EQ(0644, st.st_mode & 0777);
	OK(npu_file_close(f));
	remove_file(path);
}

/* Behind what was submitted before, in front of what comes then, and those who wait for it. */
TEST_F(file, in_the_order_of_the_stream)
{
	struct gate g = { 0 };
	unsigned char last;
	npu_stream t;
	int i;

	OK(npu_stream_create(NULL, &t));
	for (i = 0; i < 10; i++) {
		g = (struct gate){ 0 };
		OK(npu_stream_callback(self->s, gate_hold, &g, 0));
		OK(npu_memset_async(self->dev, 0xab, N, self->s));
		OK(npu_file_read_async(self->s, self->f, 0, self->dev, N));
		OK(npu_stream_wait_stream(t, self->s));
		OK(npu_memcpy_async(self->host, self->dev, N, NPU_COPY_AUTO, t));
		OK(npu_memset_async(self->dev + 1, 0xcd, 1, t));
		OK(npu_file_write_async(t, self->f, N + 1, self->dev, 2));
		OK(npu_memcpy(&last, self->dev + N - 1, 1, NPU_COPY_AUTO));
		if (!i)
			EXPECT_NE(0xab, last);
		EXPECT_EQ(-EINPROGRESS, npu_stream_query(t));
		atomic_store(&g.open, 1);
		OK(npu_stream_sync(t, LONG_MS));
		EXPECT_EQ(-1, differs(self->host, 0, N));
		OK(npu_file_read(self->f, N + 1, self->dev, 2));
		OK(npu_memcpy(self->host, self->dev, 2, NPU_COPY_AUTO));
		EXPECT_EQ(byte_at(0), self->host[0]);
		EXPECT_EQ(0xcd, self->host[1]);
		EXPECT_EQ(0, truncate(self->path, N));
	}
}

TEST_F(file, many_at_once)
{
	enum { STREAMS = 8, EACH = 64, SIZE = 9000 };
	npu_stream s[STREAMS];
	int i, k;

	for (i = 0; i < STREAMS; i++) {
		OK(npu_stream_create(NULL, &s[i]));
		for (k = 0; k < EACH; k++)
			OK(npu_file_read_async(s[i], self->f, (uint64_t)(i * EACH + k) * SIZE,
					       self->dev + (i * EACH + k) * SIZE, SIZE));
	}
	for (i = 0; i < STREAMS; i++)
		OK(npu_stream_sync(s[i], LONG_MS));
	OK(npu_memcpy(self->host, self->dev, STREAMS * EACH * SIZE, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host, 0, STREAMS * EACH * SIZE));
}

TEST_F(file, the_end_comes_early)
{
	struct npu_error e;
	int i;

	for (i = 0; i < 2; i++) {
		OK(npu_memset(self->dev, 0xee, N));
		OK(npu_tag_set("layer 3"));
		OK(npu_file_read_async(self->s, self->f, 100, self->dev, N - 99));
		OK(npu_tag_set(NULL));
		OK(npu_memset_async(self->dev, 1, 1, self->s));
		EXPECT_EQ(-ENODATA, npu_stream_sync(self->s, LONG_MS)) TH_LOG("i %d", i);
		e = last_error();
		EXPECT_STREQ("layer 3", e.tag);
		EXPECT_NE(NULL, strstr(e.text, "file_io"));
		EXPECT_NE(0, e.place);
		/* what was there is there, and the stream goes on */
		OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
		EXPECT_EQ(1, self->host[0]);
		OK(npu_stream_sync(self->s, LONG_MS));
		EXPECT_EQ(-ENODATA, npu_file_read(self->f, N, self->dev, 1));
		EXPECT_EQ(-ENODATA, npu_file_read(self->f, 1ull << 60, self->dev, 1));
		make_cold(self->path);
	}
}

/* The system lets no file grow: what there is room for is written. */
TEST_F(file, no_room)
{
	struct rlimit old, none;
	struct npu_error e;
	uint64_t size;
	int i;

	signal(SIGXFSZ, SIG_IGN);
	ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &old));
	none = (struct rlimit){ N + 4096, old.rlim_max };
	OK(npu_memset(self->dev, 0x77, N));
	ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &none));
	for (i = 0; i < 2; i++) {
		OK(npu_file_write_async(self->s, self->f, N - 1000, self->dev, 2 * MIB));
		EXPECT_EQ(-ENOSPC, npu_stream_sync(self->s, LONG_MS)) TH_LOG("i %d", i);
		e = last_error();
		EXPECT_NE(NULL, strstr(e.text, "file_io"));
		EXPECT_NE(0, e.place);
		EXPECT_EQ(-ENOSPC, npu_file_write(self->f, N + 4096, self->dev, 1));
		OK(npu_file_write(self->f, N - 1000, self->dev, 2000));
		OK(npu_stream_sync(self->s, LONG_MS));
	}
	OK(npu_file_size(self->f, &size));
	EXPECT_GE(N + 4096, size);
	ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &old));
	OK(npu_file_read(self->f, 0, self->dev, N));
	OK(npu_memcpy(self->host, self->dev, N, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->host, 0, N - 1000));
	EXPECT_EQ(0x77, self->host[N - 1]);
}

TEST_F(file, memory_that_is_hit_or_gone)
{
	struct gate g = { 0 };
	void *p;

	OK(npu_malloc(2 * MIB, 0, &p));
	hal_memory_spoil(hal_load_acquire(&rt_devices[0].hal), (uintptr_t)p, 1);
	EXPECT_EQ(-EHWPOISON, npu_file_read(self->f, 0, p, MIB));
	EXPECT_EQ(-EHWPOISON, npu_file_write(self->f, 0, p, MIB));
	OK(npu_file_read_async(self->s, self->f, 0, p, MIB));
	EXPECT_EQ(-EHWPOISON, npu_stream_sync(self->s, LONG_MS));
	OK(npu_mem_set_safe(p));
	OK(npu_file_read(self->f, 0, p, MIB));
	OK(npu_stream_callback(self->s, gate_hold, &g, 0));
	OK(npu_file_read_async(self->s, self->f, 0, p, MIB));
	OK(npu_free(p));
	atomic_store(&g.open, 1);
	EXPECT_EQ(-EINVAL, npu_stream_sync(self->s, LONG_MS));
}

static int in_callback;

static void read_inside(void *arg)
{
	FIXTURE_DATA(file) *self = arg;

	in_callback = npu_file_read(self->f, 0, self->dev, 1);
}

TEST_F(file, refusals)
{
	npu_file none = { 0 }, f = self->f, gone;
	uint64_t size;
	int pipes[2];
	char *pinned, name[64];
	void *other;
	npu_stream s1;
	struct npu_stream_attr a = NPU_STREAM_ATTR_INIT;

	EXPECT_EQ(-EINVAL, npu_file_open(self->path, 0, &none));
	EXPECT_EQ(-EINVAL, npu_file_open(self->path, NPU_FILE_CREATE | NPU_FILE_READ, &none));
	EXPECT_EQ(-EINVAL, npu_file_open(self->path, NPU_FILE_READ | NPU_FILE_TRUNCATE, &none));
	EXPECT_EQ(-EINVAL, npu_file_open(self->path, NPU_FILE_READ | 16, &none));
	EXPECT_EQ(-EINVAL, npu_file_open(NULL, NPU_FILE_READ, &none));
	EXPECT_EQ(-EINVAL, npu_file_open(self->path, NPU_FILE_READ, NULL));
	EXPECT_EQ(-EINVAL, npu_file_open("/", NPU_FILE_READ, &none));
	EXPECT_EQ(-EINVAL, npu_file_open("/dev/null", NPU_FILE_READ, &none));
	EXPECT_EQ(-ENOENT, npu_file_open("/nothing/there", NPU_FILE_READ, &none));
	ASSERT_EQ(0, pipe(pipes));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", pipes[0]);
	EXPECT_EQ(-EINVAL, npu_file_open(name, NPU_FILE_READ, &none));
	close(pipes[0]);
	close(pipes[1]);
	EXPECT_EQ(0, none.h);

	OK(npu_file_open(self->path, NPU_FILE_READ, &gone));
	EXPECT_EQ(-EBADF, npu_file_write(gone, 0, self->dev, 1));
	EXPECT_EQ(-EBADF, npu_file_write_async(self->s, gone, 0, self->dev, 1));
	OK(npu_file_close(gone));
	EXPECT_EQ(-ESTALE, npu_file_close(gone));
	EXPECT_EQ(-ESTALE, npu_file_size(gone, &size));
	EXPECT_EQ(-ESTALE, npu_file_read(gone, 0, self->dev, 1));
	EXPECT_EQ(-ESTALE, npu_file_read_async(self->s, gone, 0, self->dev, 1));
	OK(npu_file_open(self->path, NPU_FILE_WRITE, &gone));
	EXPECT_EQ(-EBADF, npu_file_read(gone, 0, self->dev, 1));
	EXPECT_EQ(-EINVAL, npu_file_close(none));
	EXPECT_EQ(-EINVAL, npu_file_size(none, &size));
	EXPECT_EQ(-EINVAL, npu_file_size(f, NULL));
	EXPECT_EQ(-EINVAL, npu_file_read(none, 0, self->dev, 1));
	none.h = self->s.h;
	EXPECT_EQ(-EBADF, npu_file_read(none, 0, self->dev, 1));
	EXPECT_EQ(-EBADF, npu_file_close(none));

	EXPECT_EQ(-EINVAL, npu_file_read(f, 0, NULL, 1));
	EXPECT_EQ(-EINVAL, npu_file_read(f, 0, self->host, 1));
	EXPECT_EQ(-EINVAL, npu_file_read(f, 0, self->dev, N + 1));
	EXPECT_EQ(-EINVAL, npu_file_read(f, 0, self->dev + N - 1, 2));
	EXPECT_EQ(-EINVAL, npu_file_read(f, UINT64_MAX, self->dev, 1));
	EXPECT_EQ(-EINVAL, npu_file_read(f, 0, self->dev, SIZE_MAX));
	EXPECT_EQ(-EINVAL, npu_file_read_async(self->s, f, INT64_MAX, self->dev, 1));
	OK(npu_malloc_host(4096, 0, (void **)&pinned));
	EXPECT_EQ(-EINVAL, npu_file_read(f, 0, pinned, 1));
	EXPECT_EQ(-EINVAL, npu_file_read_async(self->s, f, 0, pinned, 1));
	OK(npu_file_read(f, 0, NULL, 0));
	OK(npu_file_read_async(self->s, f, 0, NULL, 0));

	a.device = 1;
	OK(npu_stream_create(&a, &s1));
	EXPECT_EQ(-EXDEV, npu_file_read_async(s1, f, 0, self->dev, 1));
	OK(npu_device_set(1));
	OK(npu_malloc(MIB, 0, &other));
	OK(npu_file_read(f, 0, other, MIB));
	OK(npu_file_read_async(s1, f, 0, other, MIB));
	OK(npu_stream_sync(s1, LONG_MS));
	OK(npu_stream_destroy(s1, LONG_MS));
	EXPECT_EQ(-ESTALE, npu_file_read_async(s1, f, 0, other, 1));
	OK(npu_stream_callback(self->s, read_inside, self, 0));
	OK(npu_stream_sync(self->s, LONG_MS));
	EXPECT_EQ(-EDEADLK, in_callback);
}

TEST_HARNESS_MAIN
