/* SPDX-License-Identifier: Apache-2.0
 * Tiny models for the tests of sparse layers: calibrated on random texts, or with predictors of
 * random weights. */
#ifndef TESTS_SPARSE_MODELS_H
#define TESTS_SPARSE_MODELS_H

#include "engine/model.h"
#include "support/builder.h"

enum { TEXTS = 96, TEXT_BYTES = 128, HIDDEN = 32 };

/* The activations of tiny_model(). silu is gated, in a nomic-bert model. */
enum { ACTIVATIONS = 3 };
extern const char *const activations[ACTIVATIONS];

struct texts {
    wisp_text text[TEXTS];
    char bytes[TEXTS][TEXT_BYTES];
};

void make_texts(struct texts *t);

/* The shape of tiny_model. */
const struct tiny_shape *tiny_shape_of(const char *activation);

/* Writes an uncalibrated tiny model to a file. Its weights are small enough for its norms to
 * matter. */
const char *tiny_model(const char *name, const char *activation);

void calibrate_or_fail(const char *input, const char *output, uint32_t threads);

/* ---- predictors of arbitrary weights -------------------------------------------------------- */

struct predicting {
    const struct tiny_shape *shape;
    const char *activation;
    uint64_t rank;
    uint32_t type;    /* an enum block_type, of P, Q and B */
    bool compensated; /* the layers have a compensation B */
    bool shared;      /* all layers share one P */
    bool by_text;     /* the model also has predictors for whole texts */
};

/* The shares of neurons, 0.2 and 0.4, that the file states for its thresholds. The thresholds are
 * as random as the rest. */
enum { PREDICTING_LEVELS = 2 };
extern const float predicting_shares[PREDICTING_LEVELS];

/* Makes a tiny model with such predictors, orders, factors and, for GELU, centers. */
void make_predicting(struct gguf *file, const struct predicting *predicting);

/* Adds such predictors, of f32, to the file of a model that generates. */
void add_predictors(struct gguf *file, uint32_t layers, uint64_t hidden, uint64_t wide,
                    uint64_t rank);

/* Writes that model to a file and returns its path. */
const char *predicting_model(const char *name, const struct predicting *predicting);

/* Writes a file whose neurons are rows anew with digests of chunks of so many bytes; 0: with none.
 */
void set_chunks(const char *path, uint32_t bytes);

/* Writes such a model with its neurons as rows and without digests of chunks, of which layer l has
 * COLD_HOT + l hot ones, and returns its path. With gelu its layers have a compensation. */
enum { COLD_WIDE = 320, COLD_LAYERS = 2, COLD_HOT = 70 };
const char *cold_model(const char *name, const char *activation, bool by_text, uint32_t type);

/* ---- models that are open ------------------------------------------------------------------- */

wisp_model *open_with(const char *path, wisp_compute compute, wisp_predictor predictor,
                      const char *kernels);

void embed_or_fail(wisp_session *session, const wisp_text *texts, size_t n, float *rows);

/* Reads a tensor's values. Free them with memory_free. */
float *layer_floats(const wisp_model *model, const char *name, size_t rows, size_t length);

/* Reads the values of the tensor blk.`layer`.`suffix`. */
float *block_floats(const wisp_model *model, size_t layer, const char *suffix, size_t rows,
                    size_t length);

/* Computes tokens with one sparse layer, with working memory of its own. */
void apply_sparse(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                  size_t tokens, float *y, struct sparse_counts *counts);

#endif
