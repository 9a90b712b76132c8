// SPDX-License-Identifier: MIT
/*
 * Classify pictures on several NPUs.
 *
 * Each device has three streams: one copies pictures in, one computes, one
 * copies the classes out, with events between them; buffers for three batches
 * go round, so that a batch is copied while another is computed. One host
 * thread feeds all devices.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "net.h"
#include "overlap.h"
#include "pictures.h"

#ifndef SAMPLE_DIR
#define SAMPLE_DIR "."
#endif

#define DEVICES_MAX 16
#define SLOTS 3
#define TIMEOUT_MS 60000

enum { IN_START, IN_END, RUN_START, RUN_END, OUT_START, OUT_END, EVENTS };

/*
 * struct slot - a batch on its way
 * @pixels: pictures in pinned memory
 * @classes: answers in pinned memory
 * @dev_pixels: the pictures on the device
 * @dev_classes: the answers there
 * @event: when each of the three steps began and ended
 * @first: the first picture
 * @count: pictures; 0: the slot is free
 */
struct slot {
	uint8_t *pixels;
	uint32_t *classes;
	void *dev_pixels, *dev_classes;
	npu_event event[EVENTS];
	uint32_t first, count;
};

struct worker {
	int device;
	struct net net;
	npu_stream in, run, out;
	struct slot slot[SLOTS];
	struct spans copies, computes;
};

static struct options {
	const char *data, *pictures, *weights;
	uint32_t batch;
	int devices;
	double min_accuracy;
} opt = {
	.data = PICTURES_DIR,
	.weights = SAMPLE_DIR "/weights.bin",
	.batch = 500,
	.devices = 2,
	.min_accuracy = 0.88,
};

static uint32_t confusion[CLASSES][CLASSES];

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- memory that the device can copy from while the host goes on ---- */

static bool pageable;

/* Pinned memory; where there is none, ordinary memory does, only slower. */
static int host_alloc(void **ptr, size_t size)
{
	int rc = pageable ? -ENOMEM : npu_malloc_host(size, 0, ptr);

	if (!rc)
		return 0;
	if (!pageable)
		fprintf(stderr, "infer: no pinned memory (%s): going on without\n",
			npu_error_name(rc));
	pageable = true;
	*ptr = malloc(size);
	return *ptr ? 0 : -ENOMEM;
}

static void host_free(void *ptr)
{
	struct npu_pointer_info info = { .size = sizeof(info) };

	if (ptr && !npu_pointer_get_info(ptr, &info) && info.kind == NPU_POINTER_HOST)
		npu_free_host(ptr);
	else
		free(ptr);
}

/* ---- a device ---- */

static int slot_init(struct slot *s)
{
	int rc;

	rc = host_alloc((void **)&s->pixels, (size_t)opt.batch * PICTURE_SIZE);
	if (!rc)
		rc = host_alloc((void **)&s->classes, opt.batch * sizeof(*s->classes));
	if (rc)
		return rc;
	TRY(npu_malloc((size_t)opt.batch * PICTURE_SIZE, 0, &s->dev_pixels));
	TRY(npu_malloc(opt.batch * sizeof(*s->classes), 0, &s->dev_classes));
	for (int e = 0; e < EVENTS; e++)
		TRY(npu_event_create(NPU_EVENT_TIMING, &s->event[e]));
	return 0;
}

static int worker_init(struct worker *w, int device)
{
	int rc;

	w->device = device;
	TRY(npu_device_set(device));
	TRY(npu_stream_create(NULL, &w->in));
	TRY(npu_stream_create(NULL, &w->run));
	TRY(npu_stream_create(NULL, &w->out));
	rc = net_init(&w->net, opt.batch, NULL);
	if (!rc)
		rc = weights_load(opt.weights, w->net.params);
	for (int s = 0; s < SLOTS && !rc; s++)
		rc = slot_init(&w->slot[s]);
	return rc;
}

/* Copes with one that is half made. */
static void worker_fini(struct worker *w)
{
	npu_stream streams[] = { w->in, w->run, w->out };

	for (int i = 0; i < 3; i++)
		if (streams[i].h)
			npu_stream_destroy(streams[i], TIMEOUT_MS);
	for (int s = 0; s < SLOTS; s++) {
		struct slot *slot = &w->slot[s];

		for (int e = 0; e < EVENTS; e++)
			if (slot->event[e].h)
				npu_event_destroy(slot->event[e]);
		npu_free(slot->dev_pixels);
		npu_free(slot->dev_classes);
		host_free(slot->pixels);
		host_free(slot->classes);
	}
	net_fini(&w->net);
	spans_free(&w->copies);
	spans_free(&w->computes);
}

/* Puts a batch on its way; nothing here waits for the device. */
static int submit(struct worker *w, struct slot *s, const struct pictures *p, uint32_t first,
		  uint32_t count)
{
	int rc;

	s->first = first;
	memcpy(s->pixels, p->pixels + (size_t)first * PICTURE_SIZE, (size_t)count * PICTURE_SIZE);

	TRY(npu_event_record(s->event[IN_START], w->in));
	TRY(npu_memcpy_async(s->dev_pixels, s->pixels, (size_t)count * PICTURE_SIZE, NPU_COPY_H2D,
			     w->in));
	TRY(npu_event_record(s->event[IN_END], w->in));

	TRY(npu_stream_wait_event(w->run, s->event[IN_END]));
	TRY(npu_event_record(s->event[RUN_START], w->run));
	rc = net_forward(&w->net, s->dev_pixels, count, w->run);
	if (!rc)
		rc = net_rows(&w->net, K_argmax_f32, w->net.act[LAYERS], s->dev_classes, NULL,
			      count, CLASSES, 0, w->run);
	if (rc)
		return rc;
	TRY(npu_event_record(s->event[RUN_END], w->run));

	TRY(npu_stream_wait_event(w->out, s->event[RUN_END]));
	TRY(npu_event_record(s->event[OUT_START], w->out));
	TRY(npu_memcpy_async(s->classes, s->dev_classes, count * sizeof(*s->classes), NPU_COPY_D2H,
			     w->out));
	TRY(npu_event_record(s->event[OUT_END], w->out));
	s->count = count;
	return 0;
}

static int add_span(struct spans *to, const struct slot *s, int start, int end)
{
	uint64_t from, until;

	TRY(npu_event_timestamp(s->event[start], &from));
	TRY(npu_event_timestamp(s->event[end], &until));
	return spans_add(to, from, until);
}

/* Waits for a batch and counts its answers. */
static int collect(struct worker *w, struct slot *s, const struct pictures *p)
{
	int rc;

	if (!s->count)
		return 0;
	TRY(npu_event_sync(s->event[OUT_END], TIMEOUT_MS));
	for (uint32_t i = 0; i < s->count; i++) {
		if (s->classes[i] >= CLASSES) {
			fprintf(stderr, "infer: picture %u: class %u\n", s->first + i,
				s->classes[i]);
			return -ERANGE;
		}
		confusion[p->labels[s->first + i]][s->classes[i]]++;
	}
	s->count = 0;
	rc = add_span(&w->copies, s, IN_START, IN_END);
	if (!rc)
		rc = add_span(&w->computes, s, RUN_START, RUN_END);
	if (!rc)
		rc = add_span(&w->copies, s, OUT_START, OUT_END);
	return rc;
}

/* ---- all of them ---- */

static void progress(uint32_t done, uint32_t all)
{
	enum { WIDTH = 40 };
	static const char full[WIDTH + 1] = "########################################";
	int n = (int)((uint64_t)done * WIDTH / all);

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r[%.*s%*s] %u/%u%s", n, full, WIDTH - n, "", done, all,
		done == all ? "\n" : "");
}

static int classify(struct worker *w, int devices, const struct pictures *p)
{
	uint32_t batches = (p->count + opt.batch - 1) / opt.batch, done = 0;
	int rc;

	/* batch b goes to device b % devices, into its slots in turn */
	for (uint32_t b = 0; b < batches + (uint32_t)devices * SLOTS; b++) {
		struct worker *worker = &w[b % (uint32_t)devices];
		struct slot *slot = &worker->slot[b / (uint32_t)devices % SLOTS];
		uint32_t first = b * opt.batch;

		done += slot->count;
		rc = collect(worker, slot, p);
		if (rc)
			return rc;
		progress(done, p->count);
		if (b >= batches)
			continue;
		rc = submit(worker, slot, p, first,
			    p->count - first < opt.batch ? p->count - first : opt.batch);
		if (rc)
			return rc;
	}
	return 0;
}

/* The first batch loads what is loaded on demand; its answers do not count. */
static int warm_up(struct worker *w, int devices, const struct pictures *p)
{
	struct pictures few = *p;
	int rc;

	few.count = p->count < opt.batch ? p->count : opt.batch;
	for (int d = 0; d < devices; d++) {
		rc = submit(&w[d], &w[d].slot[0], &few, 0, few.count);
		if (!rc)
			rc = collect(&w[d], &w[d].slot[0], &few);
		if (rc)
			return rc;
		spans_free(&w[d].copies);
		spans_free(&w[d].computes);
	}
	memset(confusion, 0, sizeof(confusion));
	return 0;
}

/* ---- what came out ---- */

static double report_classes(uint32_t count)
{
	uint32_t right = 0;

	printf("%-12s", "");
	for (int c = 0; c < CLASSES; c++)
		printf("%6.5s", class_names[c]);
	printf("   right\n");
	for (int t = 0; t < CLASSES; t++) {
		uint32_t all = 0;

		printf("%-12s", class_names[t]);
		for (int c = 0; c < CLASSES; c++) {
			all += confusion[t][c];
			printf("%6u", confusion[t][c]);
		}
		right += confusion[t][t];
		printf("  %5.1f%%\n", all ? 100.0 * confusion[t][t] / all : 0.0);
	}
	printf("accuracy: %.4f (%u of %u)\n", (double)right / count, right, count);
	return (double)right / count;
}

/* Returns what copies and computing of the device take, one after the other. */
static uint64_t report_overlap(struct worker *w)
{
	uint64_t copies, computes, both;

	spans_merge(&w->copies);
	spans_merge(&w->computes);
	copies = spans_length(&w->copies);
	computes = spans_length(&w->computes);
	both = spans_common(&w->copies, &w->computes);
	printf("device %d: copied %.2f ms, computed %.2f ms, "
	       "%.0f%% of the copying beside computing\n",
	       w->device, (double)copies / 1e6, (double)computes / 1e6,
	       copies ? 100.0 * (double)both / (double)copies : 0.0);
	return copies + computes;
}

static int run(struct worker *w, const struct pictures *p)
{
	double start = seconds(), warm, end, accuracy;
	uint64_t work = 0;
	int rc;

	TRY(npu_init());
	for (int d = 0; d < opt.devices; d++) {
		rc = worker_init(&w[d], d);
		if (rc)
			return rc;
	}
	rc = warm_up(w, opt.devices, p);
	if (rc)
		return rc;
	warm = seconds();
	rc = classify(w, opt.devices, p);
	if (rc)
		return rc;
	end = seconds();

	accuracy = report_classes(p->count);
	printf("%u pictures on %d device%s in %.1f ms: %.0f pictures a second"
	       " (start and first batch: %.1f ms more)\n",
	       p->count, opt.devices, opt.devices == 1 ? "" : "s", (end - warm) * 1e3,
	       p->count / (end - warm), (warm - start) * 1e3);
	for (int d = 0; d < opt.devices; d++)
		work += report_overlap(&w[d]);
	printf("one after the other it would have taken %.1f ms\n", (double)work / 1e6);
	if (accuracy < opt.min_accuracy) {
		fprintf(stderr, "infer: accuracy %.4f is below %.4f\n", accuracy,
			opt.min_accuracy);
		return -ERANGE;
	}
	return 0;
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: infer [--data DIR | --pictures FILE] [--weights FILE] [--batch N] [--devices N]\n"
	"             [--min-accuracy X]\n"
	"Classifies the test pictures of Fashion-MNIST on simulated NPUs.\n"
	"  --data DIR        the data set (" PICTURES_DIR ")\n"
	"  --pictures FILE   pictures and labels in one file, instead\n"
	"  --weights FILE    the weights, as train writes them\n"
	"  --batch N         pictures at a time (500)\n"
	"  --devices N       devices to use, from 0 on (2)\n"
	"  --min-accuracy X  a lower share of right answers is a failure (0.88)\n"
	"Exit status: 0, 1 after an error or with too many wrong answers, 2 for bad usage.\n";

/* A number from min to max, and nothing behind it. */
static bool number(const char *text, double min, double max, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && *value >= min && *value <= max;
}

static bool parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "data", required_argument, NULL, 'd' },
		{ "pictures", required_argument, NULL, 'p' },
		{ "weights", required_argument, NULL, 'w' },
		{ "batch", required_argument, NULL, 'b' },
		{ "devices", required_argument, NULL, 'n' },
		{ "min-accuracy", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	double x = 0;
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			opt.data = optarg;
			break;
		case 'p':
			opt.pictures = optarg;
			break;
		case 'w':
			opt.weights = optarg;
			break;
		case 'b':
			ok = number(optarg, 1, 100000, &x);
			opt.batch = (uint32_t)x;
			break;
		case 'n':
			ok = number(optarg, 1, DEVICES_MAX, &x);
			opt.devices = (int)x;
			break;
		case 'm':
			ok = number(optarg, 0, 1, &opt.min_accuracy);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			ok = false;
		}
	}
	return ok && optind == argc;
}

int main(int argc, char **argv)
{
	static struct worker workers[DEVICES_MAX];
	struct pictures pictures;
	int rc, fini;

	if (!parse(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	name_bad_addresses();
	rc = opt.pictures ? pictures_read_file(&pictures, opt.pictures) :
			    pictures_read_dir(&pictures, opt.data, "t10k");
	if (!rc)
		rc = run(workers, &pictures);
	for (int d = 0; d < opt.devices; d++)
		worker_fini(&workers[d]);
	fini = npu_finalize(TIMEOUT_MS);
	if (fini < 0)
		fail_npu("npu_finalize", fini);
	pictures_free(&pictures);
	return rc || fini ? 1 : 0;
}
