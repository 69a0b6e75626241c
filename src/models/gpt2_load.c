/* SPDX-License-Identifier: Apache-2.0
 * Loads the weights of a GPT-2 decoder. */
#include <stdlib.h>

#include "base/memory.h"
#include "models/decoder_load.h"
#include "models/gpt2.h"
#include "models/layer_load.h"

wisp_status gpt2_load(struct network *network, wisp_error *error) {
    const struct model_config *c = &network->config;
    const size_t size = c->hidden_size;
    struct gpt2_weights *w = calloc(1, sizeof *w);
    network->weights = w;
    if (!w || !(w->layer = calloc(c->layers, sizeof *w->layer)))
        return fail_memory(error, c->layers * sizeof *w->layer);
    TRY(directory_load_floats(network->dir, "position_embd.weight", c->max_positions, size,
                              &w->position_embedding, error));
    TRY(norm_load(&w->output_norm, network->dir, "output_norm", size, error));
    network->resident_bytes += c->max_positions * size * sizeof(float) + norm_bytes(size);
    return decoder_load_logits(network, &w->logits, error);
}

wisp_status gpt2_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    struct gpt2_layer *layer = &((struct gpt2_weights *)network->weights)->layer[l];
    TRY(decoder_attention_load(network, l, &layer->attention, error));
    TRY(load_layer_norm(network, l, "attn_norm", &layer->attention_norm, error));
    return load_layer_norm(network, l, "ffn_norm", &layer->feed_forward_norm, error);
}

void gpt2_release(struct network *network) {
    struct gpt2_weights *w = network->weights;
    if (!w)
        return;
    for (size_t l = 0; w->layer && l < network->config.layers; l++) {
        struct gpt2_layer *layer = &w->layer[l];
        decoder_attention_release(&layer->attention);
        norm_release(&layer->attention_norm);
        norm_release(&layer->feed_forward_norm);
    }
    free(w->layer);
    linear_release(&w->logits);
    norm_release(&w->output_norm);
    memory_free(w->position_embedding);
    free(w);
    network->weights = NULL;
}
