/* SPDX-License-Identifier: MIT */
/* The Fashion-MNIST data set: grey pictures of 28 x 28, in ten classes. */
#ifndef PICTURES_H
#define PICTURES_H

#include <stddef.h>
#include <stdint.h>

/*
 * pictures.bin holds the first 20 pictures of the test set and their labels, as they come: none
 * was chosen. The shipped weights get 18 of them right.
 */
#define PICTURE_SIZE (28 * 28)
#define CLASSES 10

/* Where Debian's package dataset-fashion-mnist puts it. */
#define PICTURES_DIR "/usr/share/datasets/fashion-mnist"

extern const char *const class_names[CLASSES];

/**
 * struct pictures - pictures and what they show
 * @count: how many
 * @pixels: PICTURE_SIZE bytes each
 * @labels: the class of each, 0 to 9
 */
struct pictures {
	uint32_t count;
	uint8_t *pixels;
	uint8_t *labels;
};

/**
 * pictures_read_dir() - read a part of the data set
 * @p: out: the pictures
 * @dir: folder with the two idx files of the part, packed by gzip or not
 * @part: "train" or "t10k"
 *
 * Return: 0, or a negative errno after having said what is wrong.
 */
int pictures_read_dir(struct pictures *p, const char *dir, const char *part);

/**
 * pictures_read_file() - read a file that holds an idx file of pictures and one of labels
 * @p: out: the pictures
 * @path: the file; not packed
 *
 * Return: as above.
 */
int pictures_read_file(struct pictures *p, const char *path);

/** pictures_free() - free what was read; may be called twice */
void pictures_free(struct pictures *p);

#endif /* PICTURES_H */
