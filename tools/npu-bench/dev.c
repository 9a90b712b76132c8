// SPDX-License-Identifier: MIT
/*
 * The device under test, through the public interface alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "npu/simnpu_ops.h"
#include "tools/npu-bench/bench.h"

/* A case that touches device memory by mistake is to say so; unless somebody decided otherwise. */
static void name_bad_addresses(void)
{
	char value[8];
	int origin;

	if (!npu_option_get("simnpu_fault_handler", value, sizeof(value), &origin) &&
	    origin == NPU_OPTION_DEFAULT)
		npu_option_set("simnpu_fault_handler", "1");
}

/**
 * bench_dev_open() - bring the device up
 * @d: out: the device
 * @streams: streams to make
 * @name: the case, for messages
 *
 * Return: 0, or as the library fails; nothing is left then.
 */
int bench_dev_open(struct bench_dev *d, unsigned int streams, const char *name)
{
	const char *call = "npu_init";
	unsigned int i;
	void *p;
	int err;

	memset(d, 0, sizeof(*d));
	name_bad_addresses();
	err = npu_init();
	if (err)
		return bench_fail(name, call, err);
	call = "npu_kernel_get nop";
	err = npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &d->nop);
	if (!err) {
		call = "npu_kernel_get inc_u64";
		err = npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &d->inc);
	}
	if (!err) {
		call = "npu_malloc";
		err = npu_malloc(BENCH_STREAMS * 64, 0, &p);
	}
	if (!err) {
		d->word = p;
		call = "npu_memset";
		err = npu_memset(p, 0, BENCH_STREAMS * 64);
	}
	for (i = 0; i < streams && !err; i++) {
		call = "npu_stream_create";
		err = npu_stream_create(NULL, &d->stream[i]);
		if (!err)
			d->streams++;
	}
	if (err) {
		bench_fail(name, call, err);
		npu_finalize(1000);
		d->streams = 0;
	}
	return err;
}

/**
 * bench_dev_launch() - submit a task
 * @d: the device
 * @i: which stream
 * @inc: a task that increments the stream's word; else an empty one
 */
int bench_dev_launch(struct bench_dev *d, unsigned int i, bool inc)
{
	struct npu_simnpu_inc_args args;

	if (!inc)
		return npu_launch(d->nop, 1, NULL, 0, d->stream[i]);
	args.addr = (uintptr_t)(d->word + (size_t)i * 8);
	args.by = 1;
	d->added[i]++;
	return npu_launch(d->inc, 1, &args, sizeof(args), d->stream[i]);
}

int bench_dev_sync(struct bench_dev *d)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < d->streams && !err; i++)
		err = npu_stream_sync(d->stream[i], NPU_WAIT_FOREVER);
	return err;
}

int bench_dev_check(struct bench_dev *d, const char *name)
{
	uint64_t word[BENCH_STREAMS * 8];
	unsigned int i;
	int err;

	err = bench_dev_sync(d);
	if (!err)
		err = npu_memcpy(word, d->word, sizeof(word), NPU_COPY_AUTO);
	if (err)
		return bench_fail(name, "check", err);
	for (i = 0; i < BENCH_STREAMS; i++) {
		if (word[i * 8] == d->added[i])
			continue;
		fprintf(stderr, "npu-bench: %s: stream %u counted %llu of %llu tasks\n", name, i,
			(unsigned long long)word[i * 8], (unsigned long long)d->added[i]);
		return -EIO;
	}
	return 0;
}

int bench_dev_close(struct bench_dev *d, const char *name)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < d->streams && !err; i++)
		err = npu_stream_destroy(d->stream[i], NPU_WAIT_FOREVER);
	if (err)
		return bench_fail(name, "npu_stream_destroy", err);
	err = npu_finalize(10000);
	return err ? bench_fail(name, "npu_finalize", err) : 0;
}
