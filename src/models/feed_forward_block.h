/* SPDX-License-Identifier: Apache-2.0
 * The feed-forward block of a pass, for every architecture that has one. */
#ifndef WISP_MODELS_FEED_FORWARD_BLOCK_H
#define WISP_MODELS_FEED_FORWARD_BLOCK_H

#include "models/pass.h"

/* Working memory that the members share. */
struct feed_forward_work {
    uint64_t *masks;         /* [texts, words]: the neurons chosen for each text; NULL unless a
                                predictor chooses once for a text */
    const uint64_t **chosen; /* [tokens]: the mask of each token's text; likewise */
};

/* Takes the parts from `space`, or measures them; with a batch, says which mask is each token's. */
struct feed_forward_work feed_forward_take(const struct network *network,
                                           const struct pass_size *size, struct workspace *space,
                                           const struct batch *batch);

/* Floats that a dense layer needs for each token between its two halves. */
size_t feed_forward_inner_size(const struct model_config *config);

/* Bytes of the workspace that a member needs for so many tokens. They are enough for the member's
 * dense layers of hidden_size inputs too. */
size_t feed_forward_workspace_bytes(const struct network *network, size_t tokens);

/* y [tokens, hidden_size] = feed-forward layer `at.layer` of the member's rows of pass->x, which a
 * norm before the layer has already gone through. y and pass->x are different arrays, and the
 * caller adds y to the hidden states.
 * `inner` [tokens, feed_forward_inner_size] is worked in; both begin at the member's first token.
 * The workspace has feed_forward_workspace_bytes left. */
wisp_status feed_forward_run(struct pass *pass, uint32_t member, struct cursor at,
                             const struct feed_forward_work *work, float *inner, float *y,
                             struct workspace space, wisp_error *error);

#endif
