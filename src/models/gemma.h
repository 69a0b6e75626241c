/* SPDX-License-Identifier: Apache-2.0
 * The Gemma decoder, versions 2 and 3 (text): RMS norms before and after blocks, rotary positions,
 * grouped-query attention, layers that see only near tokens between layers that see all,
 * feed-forward layers gated by GELU with tanh, no biases. Gemma 2 bounds scores and logits softly.
 * Gemma 3 normalises the queries and keys of each head, and rotates its local layers by a theta of
 * their own. Sources: Gemma Team, Gemma 2 (2024) and Gemma 3 (2025); names of keys and tensors as
 * in llama.cpp's files, whose norms hold 1 + weight. */
#ifndef WISP_MODELS_GEMMA_H
#define WISP_MODELS_GEMMA_H

#include "models/decoder_attention.h"
#include "models/decoder_load.h"

struct gemma_layer {
    /* [hidden_size]: weights of the RMS norms before and after the blocks */
    float *attention_norm, *attention_post_norm, *feed_forward_norm, *feed_forward_post_norm;
    struct decoder_attention attention;
};

/* The weights that network->weights points to: all but the token embedding and the feed-forward
 * layers, which struct network holds. */
struct gemma_weights {
    struct decoder_weights common; /* rope_factors are of global layers */
    struct gemma_layer *layer;     /* [layers] */
};

/* Functions of struct architecture (architecture.h). */
wisp_status gemma_load(struct network *network, wisp_error *error);
wisp_status gemma_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void gemma_release(struct network *network);

extern const struct architecture architecture_gemma2, architecture_gemma3;

#endif
