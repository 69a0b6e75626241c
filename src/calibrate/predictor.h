/* SPDX-License-Identifier: Apache-2.0
 * The predictor of a layer as calibration works with it: logits = Q (P x + p) + q, in f32. */
#ifndef WISP_CALIBRATE_PREDICTOR_H
#define WISP_CALIBRATE_PREDICTOR_H

#include "base/arena.h"
#include "kernels/kernels.h"
#include "quant/blocks.h"

/* P and Q are held transposed, so that products run along their rows. */
struct predictor {
    size_t hidden_size, intermediate_size, rank;
    float *p, *p_bias; /* [hidden_size, rank], [rank] */
    float *q, *q_bias; /* [rank, intermediate_size], [intermediate_size] */
};

/* The formats in which a file stores P [rank, hidden_size] and Q [intermediate_size, rank]. */
struct predictor_formats {
    const struct block_format *p, *q;
};

/* Q8_0 has blocks of so many values. */
enum { PREDICTOR_BLOCK = 32 };

/* Sets the formats to the type that is called `type` or, if it is NULL, to Q8_0 for each matrix
 * whose rows are whole blocks of it, else F32. Fails with WISP_ERROR_ARGUMENT if the rank is above
 * `most`, if the type cannot store the matrices or is not one of f32, q8_0 and q4_0, or if Q would
 * be F32 only because of the rank. */
wisp_status predictor_choose(size_t rank, size_t most, size_t hidden_size, const char *type,
                             struct predictor_formats *formats, wisp_error *error);

/* Opens a predictor of zeros in the arena. */
wisp_status predictor_open(size_t hidden_size, size_t intermediate_size, size_t rank,
                           struct arena *arena, struct predictor *predictor, wisp_error *error);

/* Computes h [tokens, rank] = P x + p for x [tokens, hidden_size]. */
wisp_status predictor_inner(const struct kernels *kernels, const struct predictor *predictor,
                            const float *x, size_t tokens, float *h, wisp_error *error);

/* Computes logits [tokens, n] = Q h + q for h [tokens, rank] and the n neurons from place `first`
 * on. */
wisp_status predictor_logits(const struct kernels *kernels, const struct predictor *predictor,
                             size_t first, size_t n, const float *h, size_t tokens, float *logits,
                             wisp_error *error);

/* Sets *stored, in the arena, to the predictor with its weights rounded as a file of these formats
 * rounds them. Fails with WISP_ERROR_FORMAT if it is not finite then: no file with it would open.
 */
wisp_status predictor_round(const struct predictor *predictor,
                            const struct predictor_formats *formats, struct arena *arena,
                            struct predictor *stored, wisp_error *error);

#endif
