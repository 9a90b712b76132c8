// SPDX-License-Identifier: GPL-2.0-only
/*
 * Containers of weights: written, opened, loaded; and damaged ones.
 */
#include "selftests/npu_kselftest.h"

#include "runtime/weights.h"
#include "runtime/xxh64.h"
#include "selftests/runtime/file_env.h"

#define BIG (3u * MIB + 40u)

FIXTURE(weights) {
	char *path;
	unsigned char *data;
	unsigned char *back;
	int fds;
};

/* A container of a few tensors, in the order of the table. */
static struct npu_tensor tensors[] = {
	{ .name = "layer.0.weight", .dtype = NPU_DTYPE_F32, .rank = 2, .shape = { 10, 7 } },
	{ .name = "b", .dtype = NPU_DTYPE_BF16, .rank = 1, .shape = { 3 } },
	{ .name = "none", .dtype = NPU_DTYPE_I64, .rank = 3, .shape = { 4, 0, 9 } },
	{ .name = "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", .dtype = NPU_DTYPE_U8, .rank = 1,
	  .shape = { BIG } },
	{ .name = "scalar", .dtype = NPU_DTYPE_F64 },
	{ .name = "a", .dtype = NPU_DTYPE_I16, .rank = 8, .shape = { 1, 2, 1, 2, 1, 2, 1, 2 } },
};

#define COUNT ARRAY_SIZE(tensors)

FIXTURE_SETUP(weights)
{
	size_t i;

	self->fds = open_files();
	self->path = make_file(0);
	self->data = malloc(BIG);
	self->back = malloc(BIG);
	ASSERT_TRUE(self->path && self->data && self->back);
	fill_bytes(self->data, 0, BIG);
	for (i = 0; i < COUNT; i++)
		tensors[i].data = self->data + i * 8;
	tensors[3].data = self->data;
	OK(npu_weights_write(self->path, tensors, COUNT));
}

FIXTURE_TEARDOWN(weights)
{
	EXPECT_EQ(0, npu_finalize(LONG_MS));
	EXPECT_EQ(self->fds, open_files());
	rt_file_sys = &rt_file_libc;
	remove_file(self->path);
	free(self->data);
	free(self->back);
}

TEST(checksums)
{
	static const struct {
		const char *text;
		uint64_t sum;
	} known[] = {
		{ "", 0xef46db3751d8e999u }, { "a", 0xd24ec4f1a98c6e5bu },
		{ "abc", 0x44bc2cf5ad770999u },
		{ "Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1u },
	};
	unsigned char bytes[200];
	struct rt_xxh64 x;
	size_t i, k, n;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		EXPECT_EQ(known[i].sum, rt_xxh64(known[i].text, strlen(known[i].text)));
	fill_bytes(bytes, 0, sizeof(bytes));
	for (n = 0; n <= sizeof(bytes); n++) {
		for (k = 1; k < 70; k += 3) {
			rt_xxh64_begin(&x);
			for (i = 0; i < n; i += k)
				rt_xxh64_add(&x, bytes + i, n - i < k ? n - i : k);
			EXPECT_EQ(rt_xxh64(bytes, n), rt_xxh64_end(&x));
		}
	}
}

TEST_F(weights, there_and_back)
{
	struct npu_tensor_info info = { .size = sizeof(info) };
	uint64_t bytes, end = 0;
	uint32_t count, i, index;
	npu_weights w;

	OK(npu_weights_open(self->path, &w));
	OK(npu_weights_count(w, &count));
	EXPECT_EQ(COUNT, count);
	for (i = 0; i < count; i++) {
		OK(npu_weights_info(w, i, &info));
		EXPECT_STREQ(tensors[i].name, info.name);
		EXPECT_EQ(tensors[i].dtype, info.dtype);
		EXPECT_EQ(tensors[i].rank, info.rank);
		EXPECT_EQ(0, memcmp(tensors[i].shape, info.shape, sizeof(info.shape)));
		EXPECT_TRUE(rt_tensor_bytes(info.dtype, info.rank, info.shape, &bytes));
		EXPECT_EQ(bytes, info.bytes);
		EXPECT_EQ(0, info.offset % 4096);
		EXPECT_LE(end, info.offset);
		end = info.offset + info.bytes;
		EXPECT_EQ(rt_xxh64(tensors[i].data, bytes), info.checksum);
		OK(npu_weights_find(w, tensors[i].name, &index));
		EXPECT_EQ(i, index);
		OK(npu_weights_verify(w, i));
	}
	info.size = 24;
	info.checksum = 5;
	OK(npu_weights_info(w, 1, &info));
	EXPECT_EQ(5, info.checksum);
	OK(npu_weights_close(w));
	/* of none, and written over one that is there */
	OK(npu_weights_write(self->path, NULL, 0));
	OK(npu_weights_open(self->path, &w));
	OK(npu_weights_count(w, &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(-ENOENT, npu_weights_find(w, "a", &index));
	OK(npu_weights_load(w, 0, UINT32_MAX, NULL, NPU_STREAM_CURRENT, 0, NULL, NULL));
}

static struct seen {
	uint64_t done, total;
	int calls, stop_at;
} seen_progress;

static int progress(uint64_t done, uint64_t total, void *arg)
{
	struct seen *s = arg;

	s->calls++;
	if (done < s->done || done > total)
		s->calls = -1000;
	s->done = done;
	s->total = total;
	return s->calls == s->stop_at;
}

TEST_F(weights, loaded)
{
	void *dst[COUNT] = { NULL };
	struct npu_tensor_info info = { .size = sizeof(info) };
	struct seen *p = &seen_progress;
	uint64_t total = 0;
	npu_weights w;
	npu_stream s;
	uint32_t i;

	OK(npu_weights_open(self->path, &w));
	OK(npu_stream_create(NULL, &s));
	for (i = 0; i < COUNT; i++) {
		OK(npu_weights_info(w, i, &info));
		if (info.bytes)
			OK(npu_malloc(info.bytes, 0, &dst[i]));
		total += info.bytes;
	}
	OK(npu_weights_load(w, 0, COUNT, dst, s, NPU_WEIGHTS_VERIFY, progress, p));
	EXPECT_EQ(total, p->done);
	EXPECT_EQ(total, p->total);
	EXPECT_LT(0, p->calls);
	for (i = 0; i < COUNT; i++) {
		OK(npu_weights_info(w, i, &info));
		if (!info.bytes)
			continue;
		OK(npu_memcpy(self->back, dst[i], info.bytes, NPU_COPY_AUTO));
		EXPECT_EQ(0, memcmp(self->back, tensors[i].data, info.bytes));
		OK(npu_memset(dst[i], 0, info.bytes));
	}
	/* some of them, and the stream that the destination's device has */
	OK(npu_weights_load(w, 3, 1, &dst[3], NPU_STREAM_CURRENT, 0, NULL, NULL));
	OK(npu_memcpy(self->back, dst[3], BIG, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->back, 0, BIG));
	OK(npu_memcpy(self->back, dst[0], 4, NPU_COPY_AUTO));
	EXPECT_EQ(0, self->back[0]);
	OK(npu_weights_load(w, COUNT, UINT32_MAX, dst, s, 0, NULL, NULL));
	/* the caller has enough */
	*p = (struct seen){ .stop_at = 1 };
	EXPECT_EQ(-ECANCELED, npu_weights_load(w, 0, COUNT, dst, s, 0, progress, p));
	OK(npu_stream_sync(s, LONG_MS));
}

/* More tensors than go into one task. */
TEST_F(weights, many)
{
	enum { MANY = 300 };
	static struct npu_tensor many[MANY];
	static char names[MANY][8];
	void *dst[MANY];
	npu_weights w;
	char *base;
	int i;

	for (i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "t%d", MANY - i);
		many[i] = (struct npu_tensor){ .name = names[i], .dtype = NPU_DTYPE_U8, .rank = 1,
					       .shape = { 1000 }, .data = self->data + i * 1000 };
	}
	OK(npu_weights_write(self->path, many, MANY));
	OK(npu_weights_open(self->path, &w));
	OK(npu_malloc(MANY * 1000, 0, (void **)&base));
	for (i = 0; i < MANY; i++)
		dst[i] = base + i * 1000;
	OK(npu_weights_load(w, 0, MANY, dst, NPU_STREAM_CURRENT, NPU_WEIGHTS_VERIFY, NULL, NULL));
	OK(npu_memcpy(self->back, base, MANY * 1000, NPU_COPY_AUTO));
	EXPECT_EQ(-1, differs(self->back, 0, MANY * 1000));
}

static int in_callback;

static void load_inside(void *arg)
{
	npu_weights *w = arg;
	void *dst = NULL;

	in_callback = npu_weights_load(*w, 0, 1, &dst, NPU_STREAM_CURRENT, 0, NULL, NULL);
}

TEST_F(weights, refusals)
{
	struct npu_tensor_info info = { .size = 0 };
	npu_weights w, gone, none = { 0 };
	struct npu_tensor t = tensors[0];
	struct npu_tensor two[2] = { tensors[0], tensors[0] };
	void *dst[COUNT] = { NULL };
	uint32_t n = 7;
	char name[300];

	EXPECT_EQ(-EINVAL, npu_weights_open(NULL, &w));
	EXPECT_EQ(-EINVAL, npu_weights_open(self->path, NULL));
	EXPECT_EQ(-ENOENT, npu_weights_open("/nothing/there", &w));
	EXPECT_EQ(0, w.h);
	OK(npu_weights_open(self->path, &gone));
	OK(npu_weights_close(gone));
	OK(npu_weights_open(self->path, &w));
	EXPECT_EQ(-ESTALE, npu_weights_close(gone));
	EXPECT_EQ(-ESTALE, npu_weights_count(gone, &n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(-EINVAL, npu_weights_close(none));
	none.h = 1;
	EXPECT_EQ(-EBADF, npu_weights_verify(none, 0));
	EXPECT_EQ(-EINVAL, npu_weights_count(w, NULL));
	EXPECT_EQ(-EINVAL, npu_weights_info(w, 0, NULL));
	EXPECT_EQ(-EINVAL, npu_weights_info(w, 0, &info));
	info.size = sizeof(info);
	EXPECT_EQ(-ENOENT, npu_weights_info(w, COUNT, &info));
	EXPECT_EQ(-ENOENT, npu_weights_verify(w, COUNT));
	EXPECT_EQ(-EINVAL, npu_weights_find(w, "a", NULL));
	EXPECT_EQ(-EINVAL, npu_weights_find(w, NULL, &n));
	EXPECT_EQ(-ENOENT, npu_weights_find(w, "", &n));
	EXPECT_EQ(-ENOENT, npu_weights_find(w, "layer", &n));
	EXPECT_EQ(UINT32_MAX, n);

	EXPECT_EQ(-EINVAL, npu_weights_load(w, 0, 1, NULL, NPU_STREAM_CURRENT, 0, NULL, NULL));
	EXPECT_EQ(-EINVAL, npu_weights_load(w, 0, 1, dst, NPU_STREAM_CURRENT, 2, NULL, NULL));
	EXPECT_EQ(-ENOENT, npu_weights_load(w, 1, COUNT, dst, NPU_STREAM_CURRENT, 0, NULL, NULL));
	EXPECT_EQ(-ENOENT, npu_weights_load(w, COUNT + 1, 0, dst, NPU_STREAM_CURRENT, 0, NULL,
					    NULL));
	dst[0] = self->data;
	EXPECT_EQ(-EINVAL, npu_weights_load(w, 0, 1, dst, NPU_STREAM_CURRENT, 0, NULL, NULL));
	OK(npu_malloc(279, 0, &dst[0]));
	EXPECT_EQ(-EINVAL, npu_weights_load(w, 0, 1, dst, NPU_STREAM_CURRENT, 0, NULL, NULL));
	OK(npu_stream_callback(NPU_STREAM_CURRENT, load_inside, &w, 0));
	OK(npu_stream_sync(NPU_STREAM_CURRENT, LONG_MS));
	EXPECT_EQ(-EDEADLK, in_callback);

	EXPECT_EQ(-EINVAL, npu_weights_write(NULL, tensors, 1));
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, NULL, 1));
	EXPECT_EQ(-EEXIST, npu_weights_write(self->path, two, 2));
	EXPECT_EQ(-ENOENT, npu_weights_write("/nothing/there", tensors, 1));
	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	t.name = name;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
	name[255] = '\0';
	OK(npu_weights_write(self->path, &t, 1));
	static const char *const names[] = {
		"", "\n", "\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
		"\xe2\x28\xa1", "a\x7f",
	};
	for (n = 0; n < ARRAY_SIZE(names); n++) {
		t.name = names[n];
		EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1)) TH_LOG("%u", n);
	}
	t = tensors[0];
	t.name = NULL;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
	t = tensors[0];
	t.data = NULL;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
	t = tensors[0];
	t.dtype = 13;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
	t.dtype = 0;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
	t.dtype = NPU_DTYPE_U8;
	t.rank = 9;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
	t.rank = 2;
	t.shape[0] = t.shape[1] = 1ull << 32;
	EXPECT_EQ(-EINVAL, npu_weights_write(self->path, &t, 1));
}

/* A write that fails leaves what was there, and nothing else. */
TEST_F(weights, writing_fails)
{
	char *dir = strdup(self->path), pattern[300];
	npu_weights w;
	uint32_t n;
	int i;

	*strrchr(dir, '/') = '\0';
	for (i = 0; i < 5; i++) {
		make_trouble(i, 1, -ENOSPC);
		EXPECT_EQ(-ENOSPC, npu_weights_write(self->path, tensors, 1 + COUNT - 1));
		make_trouble(i, 1, 0);
		EXPECT_EQ(-EIO, npu_weights_write(self->path, tensors, COUNT));
		make_trouble(i, 3, 100);
		OK(npu_weights_write(self->path, tensors, COUNT));
		make_trouble(0, 0, 0);
		OK(npu_weights_open(self->path, &w));
		for (n = 0; n < COUNT; n++)
			OK(npu_weights_verify(w, n));
		OK(npu_weights_close(w));
	}
	snprintf(pattern, sizeof(pattern), "ls %s.* >/dev/null 2>&1", self->path);
	EXPECT_NE(0, system(pattern));
	free(dir);
}

/* ---- files that are not right ----------------------------------------------------- */

static int reopen(const char *path, const unsigned char *file, size_t size)
{
	npu_weights w;
	int err, fd = open(path, O_WRONLY | O_TRUNC);

	if (write(fd, file, size) != (ssize_t)size)
		return -1;
	close(fd);
	err = npu_weights_open(path, &w);
	if (!err)
		npu_weights_close(w);
	return err;
}

static void seal(unsigned char *h)
{
	uint64_t header = weights_load(h + HEAD_HEADER, 8);

	weights_store(h + HEAD_SUM, 8, 0);
	weights_store(h + HEAD_SUM, 8, rt_xxh64(h, header));
}

/* Fields that contradict the others, by somebody who can make checksums. */
TEST_F(weights, hostile)
{
	static const struct {
		unsigned int at, bytes;
		uint64_t value;
		int want;
	} cases[] = {
		{ 0, 1, 'X', -EBADMSG }, { HEAD_VERSION, 4, 2, -EPROTO },
		{ HEAD_COUNT, 4, 0x7fffffff, -EBADMSG }, { HEAD_COUNT, 4, COUNT + 1, -EBADMSG },
		{ HEAD_FILE, 8, 5, -EBADMSG }, { HEAD_HEADER, 8, 10, -EBADMSG },
		{ HEAD_HEADER, 8, UINT64_MAX, -EBADMSG }, { HEAD_ALIGN, 4, 0, -EBADMSG },
		{ HEAD_ALIGN, 4, 3, -EBADMSG }, { HEAD_ALIGN, 4, 1u << 31, -EBADMSG },
		{ HEAD_ZERO, 4, 1, -EBADMSG },
#define ENTRY(i, field, bytes, value) { 64 + 128 * (i) + (field), bytes, value, -EBADMSG }
		ENTRY(0, ENTRY_OFFSET, 8, 4095), ENTRY(0, ENTRY_OFFSET, 8, 0),
		ENTRY(0, ENTRY_OFFSET, 8, UINT64_MAX - 4095), ENTRY(1, ENTRY_OFFSET, 8, 4096),
		ENTRY(0, ENTRY_OFFSET, 8, 1ull << 40), ENTRY(3, ENTRY_BYTES, 8, BIG + 1),
		ENTRY(3, ENTRY_SHAPE, 8, UINT64_MAX), ENTRY(0, ENTRY_SHAPE, 8, 1ull << 62),
		ENTRY(0, ENTRY_SHAPE + 16, 8, 1), ENTRY(0, ENTRY_RANK, 1, 9),
		ENTRY(0, ENTRY_RANK, 1, 255), ENTRY(0, ENTRY_DTYPE, 1, 0),
		ENTRY(0, ENTRY_DTYPE, 1, 13), ENTRY(0, ENTRY_DTYPE, 1, 255),
		ENTRY(0, ENTRY_NAME, 4, 0), ENTRY(0, ENTRY_NAME, 4, UINT32_MAX),
		ENTRY(0, ENTRY_NAME_LEN, 2, 0), ENTRY(0, ENTRY_NAME_LEN, 2, 256),
		ENTRY(0, ENTRY_NAME_LEN, 2, 65535), ENTRY(0, ENTRY_ZERO, 1, 1),
		ENTRY(5, ENTRY_NAME_LEN, 2, 2),
#undef ENTRY
	};
	static unsigned char file[BIG + 65536], bad[BIG + 65536];
	int fd = open(self->path, O_RDONLY);
	size_t size, i, first = 64 + COUNT * 128;
	uint64_t x = 88172645463325252u;

	size = (size_t)read(fd, file, sizeof(file));
	close(fd);
	EXPECT_EQ(0, reopen(self->path, file, size));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memcpy(bad, file, size);
		weights_store(bad + cases[i].at, cases[i].bytes, cases[i].value);
		if (weights_load(bad + HEAD_HEADER, 8) <= size)
			seal(bad);
		EXPECT_EQ(cases[i].want, reopen(self->path, bad, size)) TH_LOG("case %zu", i);
	}
	/* two of one name, by a table that shares it */
	memcpy(bad, file, size);
	memcpy(bad + 64 + 128 + ENTRY_NAME, bad + 64 + ENTRY_NAME, 6);
	seal(bad);
	EXPECT_EQ(-EBADMSG, reopen(self->path, bad, size));
	/* of any length, and any bit of the header turned */
	for (i = 0; i < 300; i++)
		EXPECT_EQ(-EBADMSG, reopen(self->path, file, i * 7));
	EXPECT_EQ(-EBADMSG, reopen(self->path, file, size - 1));
	for (i = 8; i < first; i += 5) {
		memcpy(bad, file, size);
		bad[i] ^= (unsigned char)(1u << i % 8);
		EXPECT_NE(0, reopen(self->path, bad, 8192));
	}
	/* whatever comes: it is refused or it is right, and nothing is touched beyond */
	for (i = 0; i < 2000; i++) {
		memcpy(bad, file, 8192);
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		bad[8 + x % (first - 8)] = (unsigned char)(x >> 32);
		weights_store(bad + HEAD_FILE, 8, 8192);
		if (weights_load(bad + HEAD_HEADER, 8) <= 8192)
			seal(bad);
		reopen(self->path, bad, 8192);
	}
}

/* A tensor that is damaged, or the file shorter than when it was opened. */
TEST_F(weights, damaged)
{
	struct npu_tensor_info info = { .size = sizeof(info) };
	void *dst[COUNT] = { NULL };
	npu_weights w;
	uint32_t i;
	int fd;

	OK(npu_weights_open(self->path, &w));
	for (i = 0; i < COUNT; i++) {
		OK(npu_weights_info(w, i, &info));
		if (info.bytes)
			OK(npu_malloc(info.bytes, 0, &dst[i]));
	}
	OK(npu_weights_info(w, 3, &info));
	fd = open(self->path, O_WRONLY);
	EXPECT_EQ(1, pwrite(fd, "x", 1, (off_t)(info.offset + info.bytes - 1)));
	EXPECT_EQ(-EBADMSG, npu_weights_verify(w, 3));
	EXPECT_NE(NULL, strstr(last_error().text, tensors[3].name));
	EXPECT_EQ(-EBADMSG, npu_weights_load(w, 0, COUNT, dst, NPU_STREAM_CURRENT,
					     NPU_WEIGHTS_VERIFY, NULL, NULL));
	OK(npu_weights_load(w, 0, COUNT, dst, NPU_STREAM_CURRENT, 0, NULL, NULL));
	EXPECT_EQ(0, ftruncate(fd, (off_t)info.offset + MIB));
	close(fd);
	EXPECT_EQ(-ENODATA, npu_weights_verify(w, 3));
	EXPECT_EQ(-ENODATA, npu_weights_load(w, 0, COUNT, dst, NPU_STREAM_CURRENT, 0, NULL,
					     NULL));
	OK(npu_stream_sync(NPU_STREAM_CURRENT, LONG_MS));
	OK(npu_weights_verify(w, 0));
	make_trouble(0, 1, -EIO);
	EXPECT_EQ(-EIO, npu_weights_verify(w, 0));
	make_trouble(0, 1, -EIO);
	EXPECT_EQ(-EIO, npu_weights_open(self->path, &w));
}

TEST_HARNESS_MAIN
