/* SPDX-License-Identifier: Apache-2.0
 * The predictor of a layer as calibration works with it: logits = Q (P x + p) + q, in f32. */
#ifndef WISP_CALIBRATE_PREDICTOR_H
#define WISP_CALIBRATE_PREDICTOR_H

#include "base/status.h"
#include "kernels/kernels.h"
#include "quant/blocks.h"

struct predictor {
    size_t hidden, wide, rank;
    float *p, *p_bias; /* [hidden, rank], [rank] */
    float *q, *q_bias; /* [rank, wide], [wide] */
};

/* In a file, where rows are P's [rank, hidden] and Q's [wide, rank]. */
struct predictor_formats {
    const struct block_format *p, *q;
};

/* Room for one, of no values yet; released with predictor_release, also after an error. */
wisp_status predictor_open(size_t hidden, size_t wide, size_t rank, struct predictor *predictor,
                           wisp_error *error);

void predictor_release(struct predictor *predictor);

/* h = P x + p [tokens, rank] of x [tokens, hidden]. */
wisp_status predictor_inner(const struct kernels *kernels, const struct predictor *predictor,
                            const float *x, size_t tokens, float *h, wisp_error *error);

/* logits [tokens, n] of h, those of the neurons from `first` on. */
wisp_status predictor_logits(const struct kernels *kernels, const struct predictor *predictor,
                             size_t first, size_t n, const float *h, size_t tokens, float *logits,
                             wisp_error *error);

/* *to becomes what a file has of `from`; released with predictor_release. */
wisp_status predictor_round(const struct predictor *from, const struct predictor_formats *formats,
                            struct predictor *to, wisp_error *error);

/* w [n, k] to rows [k, n], as they stand in a file. */
void predictor_rows(const float *w, size_t n, size_t k, float *rows);

#endif
