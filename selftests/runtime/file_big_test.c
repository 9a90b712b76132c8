// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of more than 4 GiB, most of which are holes: offsets and sizes that fit no 32 bits.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/file_env.h"

#define GIB (1ull << 30)
#define FILE_SIZE (6 * GIB)
#define BUFFER (4u * MIB)
/* In each MiB of the file its number lies here. */
#define MARK 777

FIXTURE(big) {
	char *path;
	unsigned char *host;
	npu_stream s;
	npu_file f;
	int fd;
};

FIXTURE_VARIANT(big) {
	const char *uring, *window;
};

#define VARIANT(id, u, w) FIXTURE_VARIANT_ADD(big, id) { .uring = u, .window = w };
WAYS(VARIANT)

FIXTURE_SETUP(big)
{
	uint64_t i;

	self->path = make_file(0);
	ASSERT_NE(NULL, self->path);
	self->fd = open(self->path, O_RDWR);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ftruncate(self->fd, FILE_SIZE));
	for (i = 0; i < FILE_SIZE / MIB; i++)
		ASSERT_EQ(8, pwrite(self->fd, &i, 8, (off_t)(i * MIB + MARK)));
	make_cold(self->path);
	self->host = malloc(BUFFER);
	ASSERT_NE(NULL, self->host);
	OK(npu_option_set("io_uring", variant->uring));
	OK(npu_option_set("io_window", variant->window));
	OK(npu_option_set("simnpu_memory", "4G"));
	OK(npu_stream_create(NULL, &self->s));
	OK(npu_file_open(self->path, NPU_FILE_READ | NPU_FILE_WRITE, &self->f));
}

FIXTURE_TEARDOWN(big)
{
	EXPECT_EQ(0, npu_finalize(LONG_MS));
	close(self->fd);
	remove_file(self->path);
	free(self->host);
}

static int sync_it(FIXTURE_DATA(big) *self, int err)
{
	return err ? err : npu_stream_sync(self->s, LONG_MS * npu_test_slower());
}

/* How many marks of a range of the file, which lies at @dev, are not what they are to be. */
static uint32_t wrong_marks(const char *dev, uint64_t offset, uint64_t size)
{
	uint64_t i, mark, at;
	uint32_t wrong = 0;

	for (i = offset / MIB; i < (offset + size) / MIB; i++) {
		at = i * MIB + MARK;
		if (at < offset || at + 8 > offset + size)
			continue;
		if (npu_memcpy(&mark, dev + (at - offset), 8, NPU_COPY_AUTO) || mark != i)
			wrong++;
	}
	return wrong;
}

/* About the places where 32 bits end, signed and not, and beyond. */
TEST_F_TIMEOUT(big, offsets, 120)
{
	static const uint64_t offsets[] = {
		2 * GIB - MIB, 2 * GIB - 100, 4 * GIB - MIB, 4 * GIB - 5000, 4 * GIB, 4 * GIB + 1,
		5 * GIB + 4096, FILE_SIZE - BUFFER,
	};
	uint64_t mark;
	size_t i;
	char *dev;

	OK(npu_malloc(BUFFER, 0, (void **)&dev));
	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		OK(npu_memset(dev, 0xee, BUFFER));
		OK(sync_it(self, npu_file_read_async(self->s, self->f, offsets[i], dev, BUFFER)));
		EXPECT_EQ(0, wrong_marks(dev, offsets[i], BUFFER)) TH_LOG("%zu", i);
		EXPECT_EQ(-ENODATA, npu_file_read(self->f, FILE_SIZE - i, dev, i + 1));
	}
	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		mark = i + 100;
		OK(npu_memcpy(dev, &mark, 8, NPU_COPY_AUTO));
		OK(sync_it(self, npu_file_write_async(self->s, self->f, offsets[i] + 2 * GIB, dev,
						      8)));
		mark = 0;
		EXPECT_EQ(8, pread(self->fd, &mark, 8, (off_t)(offsets[i] + 2 * GIB)));
		EXPECT_EQ(i + 100, mark);
	}
}

/* More than 2 GiB in one go, there and back. */
TEST_F_TIMEOUT(big, sizes, 120)
{
	const uint64_t size = 2 * GIB + 3 * MIB + 12345;
	uint64_t i, mark, wrong = 0;
	char *dev;

	if (NPU_TEST_TSAN)
		SKIP(return, "it would remember who wrote each byte");
	OK(npu_malloc(size, 0, (void **)&dev));
	OK(sync_it(self, npu_file_read_async(self->s, self->f, 3 * GIB, dev, size)));
	EXPECT_EQ(0, wrong_marks(dev, 3 * GIB, size));
	OK(npu_file_read(self->f, 1 * GIB + MIB, dev, size));
	EXPECT_EQ(0, wrong_marks(dev, 1 * GIB + MIB, size));
	OK(sync_it(self, npu_file_write_async(self->s, self->f, 3 * GIB + MIB, dev, size)));
	for (i = 0; i < size / MIB; i++)
		if (pread(self->fd, &mark, 8, (off_t)(3 * GIB + MIB + i * MIB + MARK)) != 8 ||
		    mark != GIB / MIB + 1 + i)
			wrong++;
	EXPECT_EQ(0, wrong);
}

TEST_HARNESS_MAIN
