// SPDX-License-Identifier: MIT
/*
 * Reading idx files: a magic number, the dimensions, all big-endian, then bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures.h"

#ifdef HAVE_ZLIB
#include <zlib.h>
#else
/* Reads files as they are under zlib's names. */
typedef FILE *gzFile;
#define gzopen fopen
#define gzread(f, buf, n) ((int)fread(buf, 1, n, f))
#define gzclose fclose
#endif

/* 0x08: unsigned bytes; then the number of dimensions */
#define MAGIC_PICTURES 0x0803u
#define MAGIC_LABELS 0x0801u

#define COUNT_MAX 1000000u

const char *const class_names[CLASSES] = {
	"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
	"Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
};

static int bad(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	return -EINVAL;
}

/* Reads the numbers that an idx file begins with. Returns false at a short read. */
static int read_header(gzFile f, uint32_t *word, unsigned int n)
{
	uint8_t b[16];

	if (gzread(f, b, n * 4) != (int)n * 4)
		return 0;
	for (unsigned int i = 0; i < n; i++)
		word[i] = (uint32_t)b[i * 4] << 24 | (uint32_t)b[i * 4 + 1] << 16 |
			  (uint32_t)b[i * 4 + 2] << 8 | b[i * 4 + 3];
	return 1;
}

static int read_pixels(struct pictures *p, gzFile f, const char *path)
{
	uint32_t head[4];
	size_t size;

	if (!read_header(f, head, 4) || head[0] != MAGIC_PICTURES)
		return bad(path, "not an idx file of pictures");
	if (!head[1] || head[1] > COUNT_MAX || head[2] * head[3] != PICTURE_SIZE)
		return bad(path, "pictures of another size");
	size = (size_t)head[1] * PICTURE_SIZE;
	p->count = head[1];
	p->pixels = malloc(size);
	if (!p->pixels)
		return -ENOMEM;
	if (gzread(f, p->pixels, (unsigned int)size) != (int)size)
		return bad(path, "ends too early");
	return 0;
}

static int read_labels(struct pictures *p, gzFile f, const char *path)
{
	uint32_t head[2];

	if (!read_header(f, head, 2) || head[0] != MAGIC_LABELS)
		return bad(path, "not an idx file of labels");
	if (head[1] != p->count)
		return bad(path, "not as many labels as pictures");
	p->labels = malloc(p->count);
	if (!p->labels)
		return -ENOMEM;
	if (gzread(f, p->labels, p->count) != (int)p->count)
		return bad(path, "ends too early");
	for (uint32_t i = 0; i < p->count; i++)
		if (p->labels[i] >= CLASSES)
			return bad(path, "a label that is none of ten classes");
	return 0;
}

/* Opens dir/part-what, or the same with .gz; path is for messages. */
static gzFile open_idx(const char *dir, const char *part, const char *what, char *path, size_t size)
{
	gzFile f;

	snprintf(path, size, "%s/%s-%s", dir, part, what);
	f = gzopen(path, "rb");
#ifdef HAVE_ZLIB
	if (!f) {
		snprintf(path, size, "%s/%s-%s.gz", dir, part, what);
		f = gzopen(path, "rb");
	}
#endif
	if (!f)
		fprintf(stderr, "%s: %s (Debian: package dataset-fashion-mnist%s)\n", path,
			strerror(errno), strstr(path, ".gz") ? "" : "; unpacked");
	return f;
}

int pictures_read_dir(struct pictures *p, const char *dir, const char *part)
{
	char path[512];
	gzFile f;
	int rc;

	memset(p, 0, sizeof(*p));
	f = open_idx(dir, part, "images-idx3-ubyte", path, sizeof(path));
	if (!f)
		return -ENOENT;
	rc = read_pixels(p, f, path);
	gzclose(f);
	if (rc)
		goto free;

	f = open_idx(dir, part, "labels-idx1-ubyte", path, sizeof(path));
	rc = -ENOENT;
	if (!f)
		goto free;
	rc = read_labels(p, f, path);
	gzclose(f);
	if (rc)
		goto free;
	return 0;

free:
	pictures_free(p);
	return rc;
}

int pictures_read_file(struct pictures *p, const char *path)
{
	gzFile f = gzopen(path, "rb");
	int rc;

	memset(p, 0, sizeof(*p));
	if (!f) {
		rc = -errno;
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return rc;
	}
	rc = read_pixels(p, f, path);
	if (!rc)
		rc = read_labels(p, f, path);
	gzclose(f);
	if (rc)
		pictures_free(p);
	return rc;
}

void pictures_free(struct pictures *p)
{
	free(p->pixels);
	free(p->labels);
	memset(p, 0, sizeof(*p));
}
