/* SPDX-License-Identifier: Apache-2.0
 * The parts of a pass that the pages of encoders share: looking up tokens, attention within each
 * text, and pooling. */
#ifndef WISP_MODELS_ENCODER_H
#define WISP_MODELS_ENCODER_H

#include "models/feed_forward_block.h"

/* Writes the token embeddings of the batch to x [tokens, hidden_size]. Member 0 calls it. `stored`
 * has room for a row as floats. Fails with WISP_NEED_RANGES if embeddings are absent; a further
 * call goes on behind those that are there. */
wisp_status encoder_look_up(struct pass *pass, float *stored, float *x, wisp_error *error);

/* Writes the embedding of each token's position to y [tokens, hidden_size]. Member 0 calls it. The
 * network has positions. Fails if they rest in the file and cannot be read. */
wisp_status encoder_look_up_positions(const struct pass *pass, float *y, wisp_error *error);

/* The queries, keys and values of all tokens of a batch. */
struct encoder_rows {
    struct attention_rows q, k, v;
};

/* Computes the member's rows of context [tokens, heads * head_size], text by text, as the layer's
 * attention is. Fails only if the hook does. `scratch` has pass_attention_bytes left. */
wisp_status encoder_attend(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct encoder_rows *rows, float *context,
                           struct workspace scratch, wisp_error *error);

/* Writes one row for each text to pass->rows: the first row of pass->x that belongs to it (CLS
 * pooling), or the mean of its rows. The leading rows that batch->skipped leaves out count in
 * neither. */
void encoder_pool(const struct pass *pass);

#endif
