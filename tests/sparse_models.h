/* SPDX-License-Identifier: Apache-2.0
 * Tiny models that are calibrated on made-up texts, for the tests of sparse layers. */
#ifndef TESTS_SPARSE_MODELS_H
#define TESTS_SPARSE_MODELS_H

#include "engine/model.h"

enum { TEXTS = 96, TEXT_BYTES = 128, HIDDEN = 32 };

/* What tiny_model can be asked for; silu is gated, in a model of nomic-bert. */
enum { ACTIVATIONS = 3 };
extern const char *const activations[ACTIVATIONS];

struct texts {
    wisp_text text[TEXTS];
    char bytes[TEXTS][TEXT_BYTES];
};

void make_texts(struct texts *t);

/* A tiny model in a file, uncalibrated, with weights small enough for its norms to matter. */
const char *tiny_model(const char *name, const char *activation);

void calibrate_or_fail(const char *input, const char *output, uint32_t threads);

wisp_model *open_with(const char *path, wisp_compute compute, wisp_predictor predictor,
                      const char *kernels);

void embed_or_fail(wisp_session *session, const wisp_text *texts, size_t n, float *rows);

/* Teardown of a group of tests: removes the files. */
int remove_models(void **state);

/* A tensor's values, to be freed with memory_free. */
float *layer_floats(const wisp_model *model, const char *name, size_t rows, size_t length);

#endif
