/* SPDX-License-Identifier: Apache-2.0
 * Parts of a layer's weights, each of which is in memory as a whole or rests in the file (rest.h).
 */
#ifndef WISP_MODELS_WEIGHT_PARTS_H
#define WISP_MODELS_WEIGHT_PARTS_H

#include "layers/linear.h"

/* They rest in this order, layer by layer, until the network is within its limit, with room for its
 * cold neurons. */
enum rest_part {
    REST_THRESHOLDS,   /* of a predictor: a session reads them when its sparsity is set */
    REST_POSITIONS,    /* embeddings of positions, which belong to layer 0 */
    REST_ATTENTION,    /* the dense layers of the attention block */
    REST_DENSE,        /* a feed-forward layer without predictor: its matrices, or all neurons */
    REST_CHOICE,       /* P and Q of a predictor, or the gates, if neurons may be absent */
    REST_COMPENSATION, /* B of such a predictor */
    REST_PARTS
};

enum { MOST_SPANS = 16 };

/* A part's bytes in memory: none while it rests. */
struct weight_part {
    size_t bytes; /* of memory */
    struct weight_span {
        const void *data;
        size_t bytes;
    } span[MOST_SPANS]; /* what the file says, for checksums */
    size_t n;
};

static inline void weight_part_add(struct weight_part *part, const void *data, size_t bytes) {
    part->span[part->n++] = (struct weight_span){data, data ? bytes : 0};
    part->bytes += data ? bytes : 0;
}

static inline void weight_part_add_linear(struct weight_part *part, const struct linear *linear) {
    const size_t bias_bytes = linear->n * sizeof *linear->bias;
    const size_t norm_bytes = linear->norm ? linear->k * sizeof *linear->norm : 0;
    weight_part_add(part, linear->weights, linear->bytes - bias_bytes - norm_bytes);
    weight_part_add(part, linear->bias, bias_bytes);
    if (linear->norm)
        weight_part_add(part, linear->norm, norm_bytes);
}

#endif
