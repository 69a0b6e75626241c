/* SPDX-License-Identifier: Apache-2.0
 * Loads the weights of a BERT encoder. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"
#include "models/bert.h"
#include "models/layer_load.h"

/* Every token has type 0, so this adds the embedding of type 0 to all position embeddings once. */
wisp_status bert_read_positions(const struct network *network, wisp_error *error) {
    const struct model_config *c = &network->config;
    struct bert_weights *w = network->weights;
    const size_t size = c->hidden_size;
    const struct tensor *tensor;
    float *types = NULL;
    size_t bytes;
    TRY(directory_require_tensor(network->dir, "position_embd.weight", size, c->max_positions,
                                 &tensor, error));
    if (!checked_floats(w->positions, size, &bytes))
        return fail_memory(error, UINT64_MAX);
    /* No type takes more bytes than f32, so these bytes fit in size_t too. */
    void *stored = memory_allocate(w->positions * (size_t)tensor->row_bytes);
    w->position_embedding = memory_allocate(bytes);
    wisp_status status = stored && w->position_embedding ? WISP_OK : fail_memory(error, bytes);
    if (status == WISP_OK)
        status = directory_floats(network->dir, tensor, 0, w->positions, NULL, stored,
                                  w->position_embedding, error);
    memory_free(stored);
    if (status == WISP_OK)
        status = directory_load_floats(network->dir, "token_types.weight", c->token_types, size,
                                       &types, error);
    for (size_t p = 0; p < w->positions && status == WISP_OK; p++)
        network->kernels->add(w->position_embedding + p * size, types, size);
    memory_free(types);
    return status;
}

/* Loads the embeddings of positions or, with rotary ones, those of token types alone. Positions
 * that no text reaches, because texts are truncated to fewer tokens, are left out. */
static wisp_status load_positions(struct network *network, struct bert_weights *w,
                                  wisp_error *error) {
    const struct model_config *c = &network->config;
    const size_t row_bytes = c->hidden_size * sizeof(float);
    uint32_t longest = c->max_positions;
    if (!directory_find_tensor(network->dir, "token_types.weight"))
        return fail(error, WISP_ERROR_NOT_FOUND, network->dir->file, "token_types.weight",
                    "the tensor is missing, as in files of DistilBERT and other models without "
                    "token types, which are not supported");
    if (c->rope_theta != 0) {
        network->resident_bytes += c->token_types * row_bytes;
        return directory_load_floats(network->dir, "token_types.weight", c->token_types,
                                     c->hidden_size, &w->position_embedding, error);
    }
    TRY(metadata_u32_or(network->dir, KEY_MAX_SEQ_LENGTH, &longest, error));
    w->positions = longest > 0 && longest < c->max_positions ? longest : c->max_positions;
    network->resident_bytes += w->positions * row_bytes;
    return bert_read_positions(network, error);
}

wisp_status bert_load(struct network *network, wisp_error *error) {
    const size_t size = network->config.hidden_size, layers = network->config.layers;
    struct bert_weights *w = calloc(1, sizeof *w);
    network->weights = w;
    if (!w || !(w->layer = calloc(layers, sizeof *w->layer)))
        return fail_memory(error, layers * sizeof *w->layer);
    TRY(load_positions(network, w, error));
    network->resident_bytes += norm_bytes(size);
    return norm_load(&w->embedding_norm, network->dir, "token_embd_norm", size, error);
}

wisp_status bert_read_attention(const struct network *network, uint32_t l, wisp_error *error) {
    static const char *const fused[] = {"attn_qkv"}, *const output[] = {"attn_output"};
    static const char *const apart[] = {"attn_q", "attn_k", "attn_v"};
    const struct bert_weights *w = network->weights;
    struct bert_layer *layer = &w->layer[l];
    const size_t size = network->config.hidden_size;
    const bool has_bias = network->config.has_bias;
    if (network->config.fused_qkv)
        TRY(read_linear(network, l, fused, 1, has_bias, 3 * size, size, &layer->qkv, error));
    else
        TRY(read_linear(network, l, apart, 3, has_bias, size, size, &layer->qkv, error));
    return read_linear(network, l, output, 1, has_bias, size, size, &layer->output, error);
}

wisp_status bert_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const struct bert_weights *w = network->weights;
    struct bert_layer *layer = &w->layer[l];
    TRY(bert_read_attention(network, l, error));
    network->resident_bytes += layer->qkv.bytes + layer->output.bytes;
    tally_weights(network, &layer->qkv);
    tally_weights(network, &layer->output);
    TRY(load_layer_norm(network, l, "attn_output_norm", &layer->attention_norm, error));
    return load_layer_norm(network, l, "layer_output_norm", &layer->output_norm, error);
}

void bert_release(struct network *network) {
    struct bert_weights *w = network->weights;
    if (!w)
        return;
    for (size_t l = 0; w->layer && l < network->config.layers; l++) {
        linear_release(&w->layer[l].qkv);
        linear_release(&w->layer[l].output);
        norm_release(&w->layer[l].attention_norm);
        norm_release(&w->layer[l].output_norm);
    }
    free(w->layer);
    norm_release(&w->embedding_norm);
    memory_free(w->position_embedding);
    free(w);
    network->weights = NULL;
}
