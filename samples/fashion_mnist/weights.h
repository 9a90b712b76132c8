/* SPDX-License-Identifier: MIT */
/*
 * The network and the file that its weights are kept in.
 *
 * Layers of neurons, each connected with all of the one before: 784 pixels,
 * 128, 64, 10 classes. The weights of layer l are a matrix of
 * net_dims[l] x net_dims[l + 1], its biases net_dims[l + 1] numbers; they lie
 * one after the other, layer after layer, in memory and in the file.
 */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#define LAYERS 3

extern const uint32_t net_dims[LAYERS + 1];

/** weights_count() - how many numbers there are in all */
size_t weights_count(void);
/** weights_at() - where the matrix of a layer begins, in numbers */
size_t weights_at(int layer);
/** biases_at() - where the biases of a layer begin */
size_t biases_at(int layer);

/**
 * weights_load() - load a file of weights
 * @path: the file
 * @params: weights_count() numbers in device memory
 *
 * Return: 0, or a negative errno after having said what is wrong.
 */
int weights_load(const char *path, float *params);

/** weights_save() - write one. Return: as weights_load() */
int weights_save(const char *path, const float *weights);

#endif /* WEIGHTS_H */
