// SPDX-License-Identifier: MIT
/*
 * Containers of weights of any bytes: a file is refused, or all that it says of itself can be
 * relied on, and its tensors can be read, compared and loaded.
 *
 * The first byte says whether the length and the checksum of the header are made right, which no
 * search finds; the file follows.
 *
 * Built with libFuzzer by "make fuzz"; linked into weights_replay_test, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "npu/npu.h"
#include "runtime/weights.h"
#include "runtime/xxh64.h"
#include "selftests/fuzz/fuzz.h"

#define SIZE_MAX_IN 65536
#define COUNT_MAX 64
#define LONG_MS 60000

enum { FIX_LENGTH = 1, FIX_SUM = 2 };

static unsigned char file[SIZE_MAX_IN];
static void *room;
static char path[32];
static int fd;

#define MUST(what)							\
	do {								\
		if (!(what)) {						\
			fprintf(stderr, "weights: not so: %s\n", #what);	\
			abort();					\
		}							\
	} while (0)

static void set_up(void)
{
	fd = memfd_create("weights", MFD_CLOEXEC);
	MUST(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	MUST(!npu_option_set("log_level", "none"));
	MUST(!npu_option_set("simnpu_devices", "1"));
	MUST(!npu_malloc(SIZE_MAX_IN, 0, &room));
}

static void fix(unsigned int what, size_t size)
{
	uint64_t header;

	if (size < WEIGHTS_HEAD)
		return;
	if (what & FIX_LENGTH)
		weights_store(file + HEAD_FILE, 8, size);
	header = weights_load(file + HEAD_HEADER, 8);
	if (!(what & FIX_SUM) || header > size || header < WEIGHTS_HEAD)
		return;
	weights_store(file + HEAD_SUM, 8, 0);
	weights_store(file + HEAD_SUM, 8, rt_xxh64(file, header));
}

/* What is told of a tensor lies in the file, and its name leads back to it. */
static void look_at(npu_weights w, uint32_t i, size_t size, void **dst)
{
	struct npu_tensor_info info = { .size = sizeof(info) };
	uint32_t found;
	int err;

	MUST(!npu_weights_info(w, i, &info));
	MUST(info.bytes <= size && info.offset <= size - info.bytes);
	MUST(info.name[0] && memchr(info.name, 0, sizeof(info.name)));
	MUST(info.rank <= NPU_TENSOR_RANK_MAX);
	MUST(!npu_weights_find(w, info.name, &found) && found == i);
	err = npu_weights_verify(w, i);
	MUST(!err || err == -EBADMSG);
	*dst = info.bytes ? room : NULL;
}

/* Of a tensor without a byte nothing is read: it has no place, either. */
static void use(npu_weights w, size_t size)
{
	struct npu_tensor_info info = { .size = sizeof(info) };
	void *dst[COUNT_MAX];
	uint32_t i, count;
	int err;

	MUST(!npu_weights_count(w, &count));
	MUST(npu_weights_info(w, count, &info) == -ENOENT);
	if (count > COUNT_MAX)
		return;
	for (i = 0; i < count; i++)
		look_at(w, i, size, &dst[i]);
	err = npu_weights_load(w, 0, UINT32_MAX, dst, NPU_STREAM_CURRENT, 0, NULL, NULL);
	MUST(!err);
	MUST(!npu_stream_sync(NPU_STREAM_CURRENT, LONG_MS));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned int what = fuzz_u8(&in);
	npu_weights w;
	int err;

	if (!room)
		set_up();
	size = in.left < sizeof(file) ? in.left : sizeof(file);
	fuzz_bytes(&in, file, size);
	fix(what, size);
	MUST(!ftruncate(fd, 0) && pwrite(fd, file, size, 0) == (ssize_t)size);
	err = npu_weights_open(path, &w);
	MUST(!err || ((err == -EBADMSG || err == -EPROTO) && !w.h));
	if (err)
		return 0;
	use(w, size);
	MUST(!npu_weights_close(w));
	return 0;
}
