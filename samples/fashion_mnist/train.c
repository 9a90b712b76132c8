// SPDX-License-Identifier: MIT
/*
 * Train the network on one NPU, forward and backward through the library, and
 * write its weights.
 *
 * Plain kernels, a generator and a shuffle of our own, and no arithmetic on the
 * host that a compiler could do otherwise: the weights come out the same, bit
 * by bit, wherever they are trained. With --fast they do not.
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
#include "pictures.h"

#define BATCH 100
#define SLOTS 2
#define TIMEOUT_MS 60000

#define RATE 0.03f	/* falls to 0 along a straight line */
#define MOMENTUM 0.9f
#define DECAY 5e-4f

/*
 * struct slot - a batch on its way
 * @pixels, @labels: in pinned memory
 * @dev_pixels, @dev_labels: on the device
 * @copied: it is there
 * @used: the step is done, and the slot free
 */
struct slot {
	uint8_t *pixels;
	uint32_t *labels;
	void *dev_pixels, *dev_labels;
	npu_event copied, used;
};

/*
 * struct trainer - the network while it learns
 * @net: the network
 * @grad: gradients of all weights, as net.params
 * @velocity: their running mean
 * @delta: gradients of what comes out of each layer
 * @copy, @run: the streams
 */
struct trainer {
	struct net net;
	float *grad, *velocity;
	float *delta[LAYERS + 1];
	npu_stream copy, run;
	struct slot slot[SLOTS];
};

static struct options {
	const char *data, *out;
	uint32_t epochs;
	uint64_t seed;
	bool fast;
} opt = {
	.data = PICTURES_DIR,
	.out = "weights.bin",
	.epochs = 40,
	.seed = 1,
};

/* ---- chance ---- */

static uint64_t chance;

/* SplitMix64, its upper half. */
static uint32_t random_u32(void)
{
	uint64_t z = chance += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

/* Weights between plus and minus sqrt(6 / inputs) (He and others, 2015), biases 0. */
static void first_weights(float *w)
{
	static const float limit[LAYERS] = { 0.0874817765f, 0.216506351f, 0.306186218f };

	for (int l = 0; l < LAYERS; l++) {
		float *m = w + weights_at(l);
		size_t n = (size_t)net_dims[l] * net_dims[l + 1];

		for (size_t i = 0; i < n; i++)
			m[i] = (float)((int32_t)(random_u32() >> 8) - 0x800000) / 0x800000 *
			       limit[l];
		memset(m + n, 0, net_dims[l + 1] * sizeof(*m));
	}
}

static void shuffle(uint32_t *order, uint32_t n)
{
	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t j = (uint32_t)((uint64_t)random_u32() * (i + 1) >> 32);
		uint32_t t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
}

/* ---- on the device ---- */

static int alloc_floats(float **ptr, size_t n)
{
	void *p;

	TRY(npu_malloc(n * sizeof(float), 0, &p));
	*ptr = p;
	return 0;
}

static int slot_init(struct slot *s)
{
	TRY(npu_malloc_host(BATCH * PICTURE_SIZE, 0, (void **)&s->pixels));
	TRY(npu_malloc_host(BATCH * sizeof(*s->labels), 0, (void **)&s->labels));
	TRY(npu_malloc(BATCH * PICTURE_SIZE, 0, &s->dev_pixels));
	TRY(npu_malloc(BATCH * sizeof(*s->labels), 0, &s->dev_labels));
	TRY(npu_event_create(0, &s->copied));
	TRY(npu_event_create(0, &s->used));
	return 0;
}

static int trainer_init(struct trainer *t, const float *weights)
{
	size_t n = weights_count();
	int rc;

	TRY(npu_init());
	TRY(npu_stream_create(NULL, &t->copy));
	TRY(npu_stream_create(NULL, &t->run));
	rc = net_init(&t->net, BATCH, weights);
	if (!rc)
		rc = alloc_floats(&t->grad, n);
	if (!rc)
		rc = alloc_floats(&t->velocity, n);
	for (int l = 1; l <= LAYERS && !rc; l++)
		rc = alloc_floats(&t->delta[l], (size_t)BATCH * net_dims[l]);
	for (int s = 0; s < SLOTS && !rc; s++)
		rc = slot_init(&t->slot[s]);
	if (rc)
		return rc;
	TRY(npu_memset(t->velocity, 0, n * sizeof(float)));
	return 0;
}

/* Copes with one that is half made. */
static void trainer_fini(struct trainer *t)
{
	if (t->copy.h)
		npu_stream_destroy(t->copy, TIMEOUT_MS);
	if (t->run.h)
		npu_stream_destroy(t->run, TIMEOUT_MS);
	for (int s = 0; s < SLOTS; s++) {
		struct slot *slot = &t->slot[s];

		if (slot->copied.h)
			npu_event_destroy(slot->copied);
		if (slot->used.h)
			npu_event_destroy(slot->used);
		npu_free(slot->dev_pixels);
		npu_free(slot->dev_labels);
		npu_free_host(slot->pixels);
		npu_free_host(slot->labels);
	}
	for (int l = 1; l <= LAYERS; l++)
		npu_free(t->delta[l]);
	npu_free(t->grad);
	npu_free(t->velocity);
	net_fini(&t->net);
}

/*
 * Submits the way back. With d the gradient of a layer's output: of its weights
 * it is (input transposed) * d, of its biases the sum of d's rows, of its input
 * d * (weights transposed), where the input was not cut off by the ReLU before.
 */
static int backward(struct trainer *t, const struct slot *s)
{
	struct net *net = &t->net;
	int rc;

	rc = net_rows(net, K_softmax_f32, net->act[LAYERS], net->act[LAYERS], NULL, BATCH, CLASSES,
		      0, t->run);
	if (!rc)
		rc = net_rows(net, K_softmax_xent_grad_f32, net->act[LAYERS], s->dev_labels,
			      t->delta[LAYERS], BATCH, CLASSES, 1.0f / BATCH, t->run);
	for (int l = LAYERS - 1; l >= 0 && !rc; l--) {
		uint32_t in = net_dims[l], out = net_dims[l + 1];

		rc = net_matmul(net, net->act[l], t->delta[l + 1], t->grad + weights_at(l), in, out,
				BATCH, NPU_SIMNPU_TRANS_A, t->run);
		if (!rc)
			rc = net_rows(net, K_colsum_f32, t->delta[l + 1], t->grad + biases_at(l),
				      NULL, BATCH, out, 0, t->run);
		if (rc || l == 0)
			break;
		rc = net_matmul(net, t->delta[l + 1], net->params + weights_at(l), t->delta[l],
				BATCH, in, out, NPU_SIMNPU_TRANS_B, t->run);
		if (!rc)
			rc = net_rows(net, K_relu_grad_f32, net->act[l], t->delta[l], t->delta[l],
				      BATCH, in, 0, t->run);
	}
	return rc;
}

static int update(struct trainer *t, float rate)
{
	struct npu_simnpu_sgd_args args = {
		.w = (uintptr_t)t->net.params, .g = (uintptr_t)t->grad,
		.v = (uintptr_t)t->velocity, .n = weights_count(),
		.rate = rate, .momentum = MOMENTUM, .decay = DECAY,
	};

	TRY(npu_launch(t->net.kernel[K_sgd_f32], t->net.blocks, &args, sizeof(args), t->run));
	return 0;
}

/* One step; the host runs ahead of the device by as many as there are slots. */
static int step(struct trainer *t, struct slot *s, const struct pictures *p, const uint32_t *order,
		float rate)
{
	int rc;

	TRY(npu_event_sync(s->used, TIMEOUT_MS));
	for (uint32_t i = 0; i < BATCH; i++) {
		memcpy(s->pixels + i * PICTURE_SIZE, p->pixels + (size_t)order[i] * PICTURE_SIZE,
		       PICTURE_SIZE);
		s->labels[i] = p->labels[order[i]];
	}
	TRY(npu_memcpy_async(s->dev_pixels, s->pixels, BATCH * PICTURE_SIZE, NPU_COPY_H2D,
			     t->copy));
	TRY(npu_memcpy_async(s->dev_labels, s->labels, BATCH * sizeof(*s->labels), NPU_COPY_H2D,
			     t->copy));
	TRY(npu_event_record(s->copied, t->copy));
	TRY(npu_stream_wait_event(t->run, s->copied));
	rc = net_forward(&t->net, s->dev_pixels, BATCH, t->run);
	if (!rc)
		rc = backward(t, s);
	if (!rc)
		rc = update(t, rate);
	if (rc)
		return rc;
	TRY(npu_event_record(s->used, t->run));
	return 0;
}

/* The share of right answers; full batches only. */
static int test(struct trainer *t, const struct pictures *p, double *accuracy)
{
	struct slot *s = &t->slot[0];
	uint32_t right = 0, n = p->count / BATCH * BATCH;

	TRY(npu_stream_sync(t->run, TIMEOUT_MS));
	for (uint32_t at = 0; at < n; at += BATCH) {
		int rc;

		TRY(npu_memcpy(s->dev_pixels, p->pixels + (size_t)at * PICTURE_SIZE,
			       BATCH * PICTURE_SIZE, NPU_COPY_H2D));
		rc = net_forward(&t->net, s->dev_pixels, BATCH, t->run);
		if (!rc)
			rc = net_rows(&t->net, K_argmax_f32, t->net.act[LAYERS], s->dev_labels,
				      NULL, BATCH, CLASSES, 0, t->run);
		if (rc)
			return rc;
		TRY(npu_memcpy_async(s->labels, s->dev_labels, BATCH * sizeof(*s->labels),
				     NPU_COPY_D2H, t->run));
		TRY(npu_stream_sync(t->run, TIMEOUT_MS));
		for (uint32_t i = 0; i < BATCH; i++)
			right += s->labels[i] == p->labels[at + i];
	}
	*accuracy = n ? (double)right / n : 0;
	return 0;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int learn(struct trainer *t, const struct pictures *train, const struct pictures *tests,
		 uint32_t *order)
{
	uint32_t steps = train->count / BATCH, all = steps * opt.epochs, done = 0;
	double start = seconds(), accuracy = 0;
	int rc;

	for (uint32_t i = 0; i < train->count; i++)
		order[i] = i;
	for (uint32_t e = 1; e <= opt.epochs; e++) {
		shuffle(order, train->count);
		for (uint32_t b = 0; b < steps; b++, done++) {
			float rate = RATE * ((float)(all - done) / (float)all);

			rc = step(t, &t->slot[done % SLOTS], train, order + b * BATCH, rate);
			if (rc)
				return rc;
		}
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\repoch %u of %u", e, opt.epochs);
		if (e % 10 && e != opt.epochs)
			continue;
		rc = test(t, tests, &accuracy);
		if (rc)
			return rc;
		printf("%sepoch %u: accuracy %.4f on the test pictures, %.1f s\n",
		       isatty(STDERR_FILENO) ? "\r" : "", e, accuracy, seconds() - start);
		fflush(stdout);
	}
	return 0;
}

static int run(struct trainer *t, const struct pictures *train, const struct pictures *tests)
{
	float *weights = malloc(weights_count() * sizeof(*weights));
	uint32_t *order = malloc(train->count * sizeof(*order));
	int rc = -ENOMEM;

	if (!weights || !order)
		goto free;
	chance = opt.seed;
	first_weights(weights);
	rc = trainer_init(t, weights);
	if (!rc)
		rc = learn(t, train, tests, order);
	if (rc)
		goto free;
	rc = npu_memcpy(weights, t->net.params, weights_count() * sizeof(*weights), NPU_COPY_D2H);
	if (rc)
		fail_npu("npu_memcpy", rc);
	else
		rc = weights_save(opt.out, weights);

free:
	free(order);
	free(weights);
	return rc;
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: train [--data DIR] [--out FILE] [--epochs N] [--seed N] [--fast]\n"
	"Trains the network of the Fashion-MNIST demo on a simulated NPU.\n"
	"  --data DIR   the data set (" PICTURES_DIR ")\n"
	"  --out FILE   where to write the weights (weights.bin)\n"
	"  --epochs N   how often to see all pictures (40)\n"
	"  --seed N     where chance begins (1)\n"
	"  --fast       matrix products by oneDNN where it is installed: not the same bits\n"
	"               everywhere\n";

static bool number(const char *text, unsigned long max, unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(text, &end, 0);
	return !errno && *text != '-' && end != text && !*end && *value <= max;
}

static bool parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "data", required_argument, NULL, 'd' },
		{ "out", required_argument, NULL, 'o' },
		{ "epochs", required_argument, NULL, 'e' },
		{ "seed", required_argument, NULL, 's' },
		{ "fast", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long x = 0;
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			opt.data = optarg;
			break;
		case 'o':
			opt.out = optarg;
			break;
		case 'e':
			ok = number(optarg, 1000, &x) && x;
			opt.epochs = (uint32_t)x;
			break;
		case 's':
			ok = number(optarg, ~0ul, &x);
			opt.seed = x;
			break;
		case 'f':
			opt.fast = true;
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
	static struct trainer trainer;
	struct pictures train = { 0 }, tests = { 0 };
	int rc, fini;

	if (!parse(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	name_bad_addresses();
	rc = npu_option_set("simnpu_plain_kernels", opt.fast ? "0" : "1");
	if (rc)
		fail_npu("simnpu_plain_kernels", rc);
	if (!rc)
		rc = pictures_read_dir(&train, opt.data, "train");
	if (!rc)
		rc = pictures_read_dir(&tests, opt.data, "t10k");
	if (!rc)
		rc = run(&trainer, &train, &tests);
	trainer_fini(&trainer);
	fini = npu_finalize(TIMEOUT_MS);
	if (fini < 0)
		fail_npu("npu_finalize", fini);
	pictures_free(&train);
	pictures_free(&tests);
	return rc || fini ? 1 : 0;
}
