/* SPDX-License-Identifier: Apache-2.0
 * Encoders and texts for tests of wisp_quantize_for_texts. */
#ifndef WISP_TESTS_QUANTISE_TEXTS_H
#define WISP_TESTS_QUANTISE_TEXTS_H

#include "support/golden.h"

enum { QUANTISE_TEXTS = 120 };

/* A BERT of 64 values, in floats. */
extern const struct tiny_shape quantise_shape;

/* Writes a model of a shape. `path` gets its name. */
void write_shape(const struct tiny_shape *shape, char path[256]);

/* Returns QUANTISE_TEXTS texts of random words of the tiny vocabulary, until the next call. */
const wisp_text *quantise_texts(uint64_t random);

/* Returns the mean cosine of the embeddings of such texts by two models of 64 values. */
double mean_cosine(const char *path, const char *reference, const wisp_text *texts);

#endif
