/* SPDX-License-Identifier: Apache-2.0
 * A bias of scores by how far a key is from a query, which all layers share.
 * Source: Raffel et al., T5 (2020), whose buckets of distances these are; Song et al., MPNet
 * (2020). */
#ifndef WISP_MODELS_RELATIVE_BIAS_H
#define WISP_MODELS_RELATIVE_BIAS_H

#include "models/network.h"

/* The bias of each head for each distance between two of n positions. */
struct relative_bias {
    float
        *rows; /* [heads, 2 n - 1]: the distances key - query from 1 - n to n - 1; NULL: no bias */
    size_t n;
};

/* Loads the tensor attn_rel_b.weight [buckets, heads] for texts of up to n tokens, and adds the
 * bytes to the network. The values are divided by `scale`, by which scores are multiplied later. */
wisp_status relative_bias_load(struct network *network, size_t n, float scale,
                               struct relative_bias *bias, wisp_error *error);

/* Makes the bias of ALiBi: the slope of a head times the distance, which is taken away. Otherwise
 * as relative_bias_load. Source: Press et al., Train Short, Test Long (2021). */
wisp_status relative_bias_slopes(struct network *network, size_t n, float scale,
                                 struct relative_bias *bias, wisp_error *error);

void relative_bias_release(struct relative_bias *bias);

/* Makes a layer's attention add the bias, if there is one. */
void relative_bias_apply(const struct relative_bias *bias, struct attention_shape *shape);

#endif
