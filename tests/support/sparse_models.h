/* SPDX-License-Identifier: Apache-2.0
 * Tiny models for the tests of sparse layers: calibrated on made-up texts, or with predictors of
 * arbitrary weights. */
#ifndef TESTS_SPARSE_MODELS_H
#define TESTS_SPARSE_MODELS_H

#include "engine/model.h"
#include "support/builder.h"

enum { TEXTS = 96, TEXT_BYTES = 128, HIDDEN = 32 };

/* The activations tiny_model() can build; silu is gated, in a nomic-bert model. */
enum { ACTIVATIONS = 3 };
extern const char *const activations[ACTIVATIONS];

struct texts {
    wisp_text text[TEXTS];
    char bytes[TEXTS][TEXT_BYTES];
};

void make_texts(struct texts *t);

/* The shape of tiny_model. */
const struct tiny_shape *tiny_shape_of(const char *activation);

/* A tiny model in a file, uncalibrated, with weights small enough for its norms to matter. */
const char *tiny_model(const char *name, const char *activation);

void calibrate_or_fail(const char *input, const char *output, uint32_t threads);

/* ---- predictors of arbitrary weights -------------------------------------------------------- */

struct predicting {
    const struct tiny_shape *shape;
    const char *activation;
    uint64_t rank;
    uint32_t type;    /* of P, Q and B: an enum block_type */
    bool compensated; /* the layers have a B */
    bool shared;      /* all layers have one P */
    bool by_text;     /* there are predictors for whole texts besides */
};

/* For shares of 0.2 and 0.4, so the file says: thresholds are as arbitrary as the rest. */
enum { PREDICTING_LEVELS = 2 };
extern const float predicting_shares[PREDICTING_LEVELS];

/* A tiny model with such predictors, orders, factors and for GELU centers. */
void make_predicting(struct gguf *file, const struct predicting *predicting);

/* Writes that model to a file and returns its path. */
const char *predicting_model(const char *name, const struct predicting *predicting);

/* Writes the file that was made and releases it; its path. */
const char *write_made(struct gguf *file, const char *name);

/* ---- models that are open ------------------------------------------------------------------- */

wisp_model *open_with(const char *path, wisp_compute compute, wisp_predictor predictor,
                      const char *kernels);

void embed_or_fail(wisp_session *session, const wisp_text *texts, size_t n, float *rows);

/* A tensor's values, to be freed with memory_free. */
float *layer_floats(const wisp_model *model, const char *name, size_t rows, size_t length);

/* Likewise for the tensor blk.`layer`.`suffix`. */
float *block_floats(const wisp_model *model, size_t layer, const char *suffix, size_t rows,
                    size_t length);

/* Tokens through one sparse layer, with room of its own to work in. */
void apply_sparse(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                  size_t tokens, float *y, struct sparse_counts *counts);

/* Teardown of a group of tests: removes the files. */
int remove_models(void **state);

#endif
