/* SPDX-License-Identifier: Apache-2.0
 * Loads the weights of a Llama decoder. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/number_text.h"
#include "formats/schema.h"
#include "models/layer_load.h"
#include "models/llama.h"

/* Loads the weight [size] of an RMS norm. */
static wisp_status load_norm(struct network *network, const char *name, size_t size, float **weight,
                             wisp_error *error) {
    network->resident_bytes += size * sizeof **weight;
    return directory_load_floats(network->dir, name, 1, size, weight, error);
}

static wisp_status load_layer_norm(struct network *network, size_t index, const char *part,
                                   size_t size, float **weight, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    return load_norm(network, layer_tensor_name(name, index, part, TENSOR_WEIGHT), size, weight,
                     error);
}

/* Llama 3.1 and later divide the angles of slow pairs by factors that the file lists. */
static wisp_status load_rope_factors(struct network *network, struct llama_weights *w,
                                     wisp_error *error) {
    static const char name[] = "rope_freqs.weight";
    const size_t pairs = network->config.head_size / 2;
    if (!directory_find_tensor(network->dir, name))
        return WISP_OK;
    TRY(directory_load_floats(network->dir, name, 1, pairs, &w->rope_factors, error));
    for (size_t i = 0; i < pairs; i++)
        if (!(w->rope_factors[i] >= 1))
            return fail(error, WISP_ERROR_FORMAT, network->dir->file, name,
                        "factor %zu is %s, which is not at least 1", i,
                        number_text((double)w->rope_factors[i], 6).text);
    w->rope.factors = w->rope_factors;
    return WISP_OK;
}

wisp_status llama_load(struct network *network, wisp_error *error) {
    const struct model_config *c = &network->config;
    const bool tied = !directory_find_tensor(network->dir, "output.weight");
    const char *const logits[] = {tied ? "token_embd" : "output"};
    struct llama_weights *w = calloc(1, sizeof *w);
    network->weights = w;
    if (!w || !(w->layer = calloc(c->layers, sizeof *w->layer)))
        return fail_memory(error, c->layers * sizeof *w->layer);
    w->rope = (struct rope){.theta = c->rope_theta, .pairs = c->rope_pairs};
    TRY(load_rope_factors(network, w, error));
    TRY(load_norm(network, "output_norm.weight", c->hidden_size, &w->output_norm, error));
    const struct linear_source source = {.dir = network->dir,
                                         .names = logits,
                                         .unbiased = true,
                                         .parts = 1,
                                         .n = c->vocabulary_size,
                                         .k = c->hidden_size};
    TRY(linear_load(&w->logits, &source, network->kernels, network->int8, error));
    network->resident_bytes += w->logits.bytes;
    tally_weights(network, &w->logits);
    return WISP_OK;
}

wisp_status llama_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    static const char *const q[] = {"attn_q"}, *const kv[] = {"attn_k", "attn_v"};
    static const char *const output[] = {"attn_output"};
    const struct model_config *c = &network->config;
    const size_t size = c->hidden_size, head_size = c->head_size;
    const size_t q_size = c->heads * head_size, kv_size = c->kv_heads * head_size;
    struct llama_layer *layer = &((struct llama_weights *)network->weights)->layer[l];
    TRY(load_linear(network, l, q, 1, c->has_qkv_bias, q_size, size, &layer->q, error));
    TRY(load_linear(network, l, kv, 2, c->has_qkv_bias, kv_size, size, &layer->kv, error));
    TRY(load_linear(network, l, output, 1, false, size, q_size, &layer->output, error));
    if (c->has_qk_norm) {
        TRY(load_layer_norm(network, l, "attn_q_norm", head_size, &layer->q_norm, error));
        TRY(load_layer_norm(network, l, "attn_k_norm", head_size, &layer->k_norm, error));
    }
    TRY(load_layer_norm(network, l, "attn_norm", size, &layer->attention_norm, error));
    return load_layer_norm(network, l, "ffn_norm", size, &layer->feed_forward_norm, error);
}

void llama_release(struct network *network) {
    struct llama_weights *w = network->weights;
    if (!w)
        return;
    for (size_t l = 0; w->layer && l < network->config.layers; l++) {
        struct llama_layer *layer = &w->layer[l];
        linear_release(&layer->q);
        linear_release(&layer->kv);
        linear_release(&layer->output);
        memory_free(layer->q_norm);
        memory_free(layer->k_norm);
        memory_free(layer->attention_norm);
        memory_free(layer->feed_forward_norm);
    }
    free(w->layer);
    linear_release(&w->logits);
    memory_free(w->output_norm);
    memory_free(w->rope_factors);
    free(w);
    network->weights = NULL;
}
