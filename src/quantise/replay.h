/* SPDX-License-Identifier: Apache-2.0
 * Runs a network over texts block by block, with the hidden states of all texts in memory between
 * blocks, so that a block can run again after its weights have changed. Native only. */
#ifndef WISP_QUANTISE_REPLAY_H
#define WISP_QUANTISE_REPLAY_H

#include "models/pass.h"

/* Texts as tokens, one after the other. */
struct replay_texts {
    int32_t *ids;
    size_t *starts; /* [n + 1]: text i is ids[starts[i] .. starts[i + 1]) */
    size_t n;
};

/* The state of a batch of m tokens is the hidden states [m, hidden_size], and behind them, in
 * models whose norms are before blocks, their norms [m, hidden_size], which the next block reads.
 * The states of batches are one after the other. */
struct replay {
    struct workspace space;
    struct kv_cache cache;  /* of the text at hand, in models that generate */
    struct conv_state conv; /* likewise */
    size_t size, stride;    /* floats of a token's hidden state, and of all its state */
    bool generates;
};

/* Opens a replay of networks that have this one's shape. The caller closes it, also after a
 * failure. */
wisp_status replay_open(struct replay *replay, const struct network *network, wisp_error *error);

void replay_close(struct replay *replay);

/* Returns the end of the batch that begins with text `first`: a few texts, or one text of a model
 * that generates, whose keys and values are kept for that long. */
size_t replay_batch_end(const struct replay *replay, const struct replay_texts *texts,
                        size_t first);

/* Returns the tokens of the longest batch. */
size_t replay_longest_batch(const struct replay *replay, const struct replay_texts *texts);

/* Runs one block for the texts [first, end), which are a batch. `state` becomes that behind the
 * block, in its place. At PASS_OUTPUT of a model that embeds, `rows` [end - first, hidden_size]
 * receives the embeddings, not normalised; else it is NULL. */
wisp_status replay_block(struct replay *replay, const struct network *network, struct cursor at,
                         const struct replay_texts *texts, size_t first, size_t end, float *state,
                         float *rows, wisp_error *error);

/* Returns the inputs [m, hidden_size] of the next block in the state of a batch of m tokens. */
float *replay_inputs(const struct replay *replay, float *state, size_t m);

#endif
