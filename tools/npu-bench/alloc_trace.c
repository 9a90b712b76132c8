// SPDX-License-Identifier: MIT
/*
 * The cache of device memory, with growable segments, plays recorded traces: how much it reserves,
 * and how little memory is enough for it.
 *
 * Limit: an allocator that wastes nothing but what rounds a block up to 512 bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/npu-bench/bench.h"

#define BLOCKS 4096u
#define STREAMS 4u
#define UNIT 512u
#define MIB (1 << 20)
/* How often the loop of a trace is played. */
#define ROUNDS 3
/* Memory that is tried: from what is perfect on in steps of so much of it, up to twice that. */
#define STEP 0.01

/* The traces are part of the program: selftests/data/traces.pl says what is in them. */
#define TRACE(name)							\
	extern const char bench_trace_##name[];				\
	__asm__(".section .rodata\n"					\
		"bench_trace_" #name ":\n"				\
		".incbin \"selftests/data/" #name ".trace\"\n"		\
		".byte 0\n"						\
		".previous\n")

TRACE(train);
TRACE(server);
TRACE(mixed);

/**
 * struct block - a block of a trace
 * @ptr: the block, NULL: none
 * @size: bytes, rounded up
 * @uses: a bit for each stream that uses it
 */
struct block {
	void *ptr;
	size_t size;
	uint32_t uses;
};

/**
 * struct stream - a stream of a trace
 * @gate: while it is held: its callback is to wait
 * @waits: bytes of freed blocks that it still uses
 */
struct stream {
	_Atomic int gate;
	size_t waits;
};

/**
 * struct player - plays a trace
 * @d: the device
 * @text: the trace
 * @total: bytes of the device
 * @block: its blocks
 * @stream: its streams
 * @live: bytes that are in use, as a perfect allocator has them
 * @peak: the most of it
 */
struct player {
	struct bench_dev d;
	const char *text;
	size_t total;
	struct block block[BLOCKS];
	struct stream stream[STREAMS];
	size_t live;
	size_t peak;
};

/* ---- words ---------------------------------------------------------------------------------- */

static int allocate(struct player *p, size_t size, unsigned int stream)
{
	struct block *b = p->block;
	int err;

	while (b->ptr)
		b++;
	b->size = (size + UNIT - 1) / UNIT * UNIT;
	b->uses = 0;
	err = npu_mem_alloc(size, p->d.stream[stream], &b->ptr);
	if (err)
		return err;
	p->live += b->size;
	if (p->live > p->peak)
		p->peak = p->live;
	return 0;
}

static int give(struct player *p, struct block *b)
{
	void *ptr = b->ptr;
	unsigned int i;

	b->ptr = NULL;
	for (i = 0; i < STREAMS; i++)
		if (b->uses & 1u << i && p->stream[i].gate)
			break;
	if (i < STREAMS)
		p->stream[i].waits += b->size;
	else
		p->live -= b->size;
	return npu_mem_free(ptr);
}

static int use(struct player *p, struct block *b, unsigned int stream)
{
	b->uses |= 1u << stream;
	return npu_mem_record_stream(b->ptr, p->d.stream[stream]);
}

static void stay(void *arg)
{
	const struct stream *s = arg;

	while (s->gate)
		bench_sleep_us(50);
}

static int hold(struct player *p, unsigned int stream)
{
	p->stream[stream].gate = 1;
	return npu_stream_callback(p->d.stream[stream], stay, &p->stream[stream], 0);
}

static int let_go(struct player *p, unsigned int stream)
{
	struct stream *s = &p->stream[stream];

	p->live -= s->waits;
	s->waits = 0;
	s->gate = 0;
	return npu_stream_sync(p->d.stream[stream], NPU_WAIT_FOREVER);
}

/* ---- playing -------------------------------------------------------------------------------- */

/* A word; *at is behind it then. */
static int play_word(struct player *p, char **at)
{
	char word = *(*at)++;
	unsigned long n = strtoul(*at, at, 10), stream = 0;

	if (**at == '@')
		stream = strtoul(*at + 1, at, 10);
	switch (word) {
	case '+':
		return allocate(p, n, (unsigned int)stream);
	case '-':
		return give(p, &p->block[n]);
	case 'r':
		return use(p, &p->block[n], (unsigned int)stream);
	case 'h':
		return hold(p, (unsigned int)n);
	case 'g':
		return let_go(p, (unsigned int)n);
	default:
		return -EINVAL;
	}
}

static int play_words(struct player *p)
{
	char *at = (char *)p->text, *loop = at;
	int rounds = ROUNDS, err = 0;

	while (*at && !err) {
		if (*at == '#') {
			at += strcspn(at, "\n");
		} else if (*at == '[') {
			loop = ++at;
		} else if (*at == ']') {
			at = --rounds ? loop : at + 1;
		} else if (strchr(" \n", *at)) {
			at++;
		} else {
			err = play_word(p, &at);
		}
	}
	return err;
}

/* Plays it on a cache that has nothing, and takes away again what it has left. */
static int play(struct player *p)
{
	unsigned int i;
	int err;

	p->live = p->peak = 0;
	err = npu_mem_reset_peak(0);
	if (!err)
		err = play_words(p);
	for (i = 0; i < STREAMS; i++)
		if (p->stream[i].gate)
			let_go(p, i);
	for (i = 0; i < BLOCKS; i++)
		if (p->block[i].ptr)
			give(p, &p->block[i]);
	npu_mem_empty_cache(0);
	return err;
}

static int perfect(void *arg, double *value)
{
	const struct player *p = arg;

	*value = (double)p->peak / MIB;
	return 0;
}

static int reserved(void *arg, double *value)
{
	struct npu_mem_stats st = { .size = sizeof(st) };
	int err = play(arg);

	if (!err)
		err = npu_mem_get_stats(0, &st);
	*value = (double)st.reserved_bytes[NPU_MEM_ALL].peak / MIB;
	return err;
}

/* Whether so many bytes are enough. */
static int fits(struct player *p, size_t bytes)
{
	int err = npu_mem_set_fraction(0, (double)bytes / (double)p->total);

	if (!err)
		err = play(p);
	npu_mem_set_fraction(0, 1);
	return err;
}

/* The least with which it runs to its end. */
static int least(void *arg, double *value)
{
	struct player *p = arg;
	size_t peak = p->peak, bytes = peak;
	int err;

	while ((err = fits(p, bytes)) == -ENOMEM && bytes < 2 * peak)
		bytes += (size_t)((double)peak * STEP);
	*value = (double)bytes / MIB;
	p->peak = peak;
	return err;
}

/**
 * struct trace - a trace
 * @name: its name
 * @least: of how little memory is enough for it
 * @text: its words
 */
struct trace {
	const char *name;
	const char *least;
	const char *text;
};

static int measure(struct bench *b, const struct trace *t, struct player *p)
{
	const struct bench_target target = { .times = 1.1 };
	const struct bench_figure f[] = {
		{ "alloc-trace", t->name, "MiB", false, reserved, perfect, p, target },
		{ "alloc-trace", t->least, "MiB", false, least, perfect, p, target },
	};
	struct npu_device_info info = { .size = sizeof(info) };
	double value;
	int err;

	err = npu_device_get_info(0, &info);
	if (!err && !(info.caps & NPU_CAP_VMM)) {
		fprintf(stderr, "npu-bench: alloc-trace: left out: no virtual memory\n");
		return 0;
	}
	if (!err)
		err = npu_device_mem_info(0, NULL, &p->total);
	/* what is perfect is known once it was played */
	if (!err)
		err = reserved(p, &value);
	if (err)
		return bench_fail("alloc-trace", t->name, err);
	err = bench_measure(b, &f[0]);
	return err ? err : bench_measure(b, &f[1]);
}

static int run_traces(struct bench *b, struct player *p)
{
	static const struct trace traces[] = {
		{ "train", "train-least", bench_trace_train },
		{ "server", "server-least", bench_trace_server },
		{ "mixed", "mixed-least", bench_trace_mixed },
	};
	unsigned int i;
	int err = 0;

	for (i = 0; i < sizeof(traces) / sizeof(traces[0]) && !err; i++) {
		err = bench_dev_open(&p->d, STREAMS, "alloc-trace");
		if (err)
			break;
		p->text = traces[i].text;
		err = measure(b, &traces[i], p);
		if (bench_dev_close(&p->d, "alloc-trace"))
			err = -EIO;
	}
	return err;
}

/* Sets an option, and says what it was. */
static void option(const char *name, const char *value, char was[32])
{
	if (npu_option_get(name, was, 32, NULL))
		was[0] = '\0';
	npu_option_set(name, value);
}

static int run(struct bench *b)
{
	/* it is the same each time */
	unsigned int runs = b->runs;
	struct player *p = calloc(1, sizeof(*p));
	char growable[32], timeout[32];
	int err;

	if (!p)
		return -ENOMEM;
	option("mem_growable", "1", growable);
	/* nobody else lets a stream that is held go on */
	option("op_timeout_ms", "20", timeout);
	b->runs = 1;
	err = run_traces(b, p);
	b->runs = runs;
	npu_option_set("mem_growable", growable);
	npu_option_set("op_timeout_ms", timeout);
	free(p);
	return err;
}

const struct bench_case bench_alloc_trace = {
	.name = "alloc-trace",
	.what = "device memory: how much recorded traces need",
	.run = run,
};
