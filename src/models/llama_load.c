/* SPDX-License-Identifier: Apache-2.0
 * Loads the weights of a Llama decoder. */
#include <stdlib.h>

#include "base/memory.h"
#include "models/layer_load.h"
#include "models/llama.h"

wisp_status llama_load(struct network *network, wisp_error *error) {
    const uint32_t layers = network->config.layers;
    struct llama_weights *w = calloc(1, sizeof *w);
    network->weights = w;
    if (!w || !(w->layer = calloc(layers, sizeof *w->layer)))
        return fail_memory(error, layers * sizeof *w->layer);
    return decoder_weights_load(network, "output_norm.weight", &w->common, error);
}

wisp_status llama_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const size_t size = network->config.hidden_size;
    struct llama_layer *layer = &((struct llama_weights *)network->weights)->layer[l];
    TRY(decoder_attention_load(network, l, &layer->attention, error));
    TRY(load_layer_rms_norm(network, l, "attn_norm", size, &layer->attention_norm, error));
    return load_layer_rms_norm(network, l, "ffn_norm", size, &layer->feed_forward_norm, error);
}

void llama_release(struct network *network) {
    struct llama_weights *w = network->weights;
    if (!w)
        return;
    for (size_t l = 0; w->layer && l < network->config.layers; l++) {
        struct llama_layer *layer = &w->layer[l];
        decoder_attention_release(&layer->attention);
        memory_free(layer->attention_norm);
        memory_free(layer->feed_forward_norm);
    }
    free(w->layer);
    decoder_weights_release(&w->common);
    free(w);
    network->weights = NULL;
}
