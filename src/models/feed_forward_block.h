/* SPDX-License-Identifier: Apache-2.0
 * The feed-forward block of a pass, for every architecture that has one. */
#ifndef WISP_MODELS_FEED_FORWARD_BLOCK_H
#define WISP_MODELS_FEED_FORWARD_BLOCK_H

#include "models/pass.h"

/* Working memory that all members of a pass use, if all neurons of a layer are chosen before any
 * is computed: by a predictor that chooses once for each text, or because neurons may be absent.
 * Otherwise the pointers are NULL. */
struct feed_forward_work {
    uint64_t *masks; /* [texts or tokens, sparse_mask_words]: the neurons chosen for each text, or
                        for each token */
    const uint64_t **chosen; /* [tokens]: points to the mask of each token */
    float *inner;            /* [tokens, rank]: P x + p, if neurons are chosen for tokens */
};

/* Takes this memory from `space`, or measures it (base/workspace.h). If `pass` is not NULL, it
 * also points each token to its mask, and gives the pass the masks of its hold. */
struct feed_forward_work feed_forward_take(const struct network *network,
                                           const struct pass_size *size, struct workspace *space,
                                           struct pass *pass);

/* Returns the floats that a layer keeps for each token between its two halves: intermediate_size,
 * or twice that if the layer is gated; with experts those of the ones that a token uses, and the
 * outputs of the router. */
size_t feed_forward_inner_size(const struct model_config *config);

/* Returns the bytes of workspace that one member needs for this many tokens. They also suffice for
 * other dense layers of hidden_size inputs, so attention can use the same scratch. */
size_t feed_forward_workspace_bytes(const struct network *network, size_t tokens);

/* Returns whether members of a pass can split the outputs of all feed-forward layers. */
bool feed_forward_splits_outputs(const struct network *network);

/* Computes y [n, hidden_size] = feed_forward(pass->x) for the n tokens of the member, with layer
 * `at.layer`. A norm that is before the layer has already been applied to pass->x. y and
 * pass->x are different arrays, and the caller adds y to the hidden states. y and inner [n,
 * feed_forward_inner_size], which is overwritten, begin at the member's first token. `space` has
 * feed_forward_workspace_bytes left. Fails if the hook does; then y is incomplete. Fails with
 * WISP_NEED_RANGES in all members, before y changes, if neurons are absent that any member
 * needs. */
wisp_status feed_forward_run(struct pass *pass, uint32_t member, struct cursor at,
                             const struct feed_forward_work *work, float *inner, float *y,
                             struct workspace space, wisp_error *error);

/* Does what feed_forward_run does, with a layer whose kind can, for all tokens of a pass whose
 * members split outputs. y and inner begin at the first token. Ends without a barrier: y is
 * complete after the next one. Fails in all members if weights cannot be read that rest in the
 * file. */
wisp_status feed_forward_run_outputs(struct pass *pass, uint32_t member, struct cursor at,
                                     float *inner, float *y, struct workspace space,
                                     wisp_error *error);

#endif
