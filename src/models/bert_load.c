/* SPDX-License-Identifier: Apache-2.0
 * Loads the weights of a BERT encoder. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "formats/schema.h"
#include "models/bert.h"
#include "models/layer_load.h"

/* Drops the embeddings of positions that no text reaches, where texts are truncated to fewer tokens
 * than there are positions. */
static wisp_status drop_positions(struct network *network, struct bert_weights *w, size_t *rows,
                                  wisp_error *error) {
    uint32_t longest = (uint32_t)*rows;
    TRY(metadata_u32_or(network->dir, KEY_MAX_SEQ_LENGTH, &longest, error));
    const size_t bytes = longest * (size_t)network->config.hidden_size * sizeof(float);
    if (longest == 0 || longest >= *rows)
        return WISP_OK;
    float *kept = memory_allocate(bytes);
    if (!kept)
        return fail_memory(error, bytes);
    memcpy(kept, w->position_embedding, bytes);
    memory_free(w->position_embedding);
    w->position_embedding = kept;
    *rows = longest;
    return WISP_OK;
}

/* Every token has type 0, so this adds the embedding of type 0 to all position embeddings once. */
static wisp_status load_positions(struct network *network, struct bert_weights *w,
                                  wisp_error *error) {
    const struct model_config *c = &network->config;
    const bool rotary = c->rope_theta != 0;
    const size_t size = c->hidden_size;
    size_t rows = rotary ? c->token_types : c->max_positions;
    float *types = NULL;
    if (!directory_find_tensor(network->dir, "token_types.weight"))
        return fail(error, WISP_ERROR_NOT_FOUND, network->dir->file, "token_types.weight",
                    "the tensor is missing, as in files of DistilBERT and other models without "
                    "token types, which are not supported");
    TRY(directory_load_floats(network->dir, rotary ? "token_types.weight" : "position_embd.weight",
                              rows, size, &w->position_embedding, error));
    if (!rotary) {
        TRY(drop_positions(network, w, &rows, error));
        w->positions = rows;
    }
    network->resident_bytes += rows * size * sizeof(float);
    if (rotary)
        return WISP_OK;
    const wisp_status status = directory_load_floats(network->dir, "token_types.weight",
                                                     c->token_types, size, &types, error);
    for (size_t p = 0; p < rows && status == WISP_OK; p++)
        network->kernels->add(w->position_embedding + p * size, types, size);
    memory_free(types);
    return status;
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
    free(w->resting);
    free(w);
    network->weights = NULL;
}
