/* SPDX-License-Identifier: Apache-2.0
 * Information about an open model and its tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "formats/neurons_read.h"
#include "models/assumptions.h"
#include "sparse/gathered_frames.h"
#include "sparse/neuron_cold.h"

enum { KEY_BYTES = 256 };

bool wisp_model_get_cold_stats(const wisp_model *model, wisp_cold_stats *stats) {
    *stats = (wisp_cold_stats){0};
    if (!COLD_NEURONS_MAY_BE_ABSENT || !model->dir.residency.lacks_rows)
        return false;
    if (model->network.neurons.cold)
        neuron_cold_stats(&model->network.neurons, stats);
    stats->tokens = token_embedding_provided(&model->network.tokens);
    stats->least_memory = model->least_memory;
    return true;
}

static const struct neuron_store *cold_store(const wisp_model *model) {
    const struct neuron_store *neurons = &model->network.neurons;
    return COLD_NEURONS_MAY_BE_ABSENT && neurons->cold ? neurons : NULL;
}

bool wisp_model_get_neurons(const wisp_model *model, size_t layer, wisp_layer_neurons *about,
                            uint64_t *present, uint64_t *needed) {
    const struct neuron_store *neurons = cold_store(model);
    if (!neurons || layer >= neurons->shape.layers)
        return false;
    *about = neuron_cold_layer(neurons, layer, present, needed);
    return true;
}

wisp_status wisp_model_trace_tokens(wisp_model *model, size_t tokens, wisp_error *error) {
    const struct neuron_store *neurons = cold_store(model);
    if (!neurons)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, NULL, "hot_only: not set");
    return neuron_cold_trace(neurons, tokens, error);
}

bool wisp_model_get_token_neurons(const wisp_model *model, size_t layer, size_t token,
                                  uint64_t *needed) {
    const struct neuron_store *neurons = cold_store(model);
    return neurons && layer < neurons->shape.layers &&
           neuron_cold_token(neurons, layer, token, needed);
}

static uint64_t count_parameters(const struct directory *dir) {
    uint64_t total = 0;
    for (size_t i = 0; i < dir->n_tensors; i++)
        total += dir->tensors[i].rows * dir->tensors[i].dims[0];
    return total;
}

bool model_has_thresholds(const wisp_model *model) {
    return model->predictor == WISP_PREDICTOR_LOWRANK ||
           model->predictor == WISP_PREDICTOR_SENTENCE;
}

bool model_has_sparsity(const wisp_model *model) {
    return model_has_thresholds(model) || model->plan.by_gate;
}

float model_default_sparsity(const wisp_model *model) {
    return 1 - model->plan.share;
}

static const char *pooling_name(enum pooling pooling, uint32_t dimensions) {
    static const char *const names[] = {[POOLING_NONE] = "",
                                        [POOLING_MEAN] = "mean",
                                        [POOLING_CLS] = "cls",
                                        [POOLING_LAST] = "last",
                                        [POOLING_RANK] = "rank"};
    return pooling == POOLING_SPLADE                                 ? "splade"
           : pooling == POOLING_TOKENS                               ? "tokens"
           : CLASSIFIES && pooling == POOLING_RANK && dimensions > 1 ? "labels"
                                                                     : names[pooling];
}

void wisp_model_get_info(const wisp_model *model, wisp_model_info *info) {
    const struct model_config *config = &model->network.config;
    const struct metadata *name = directory_find_metadata(&model->dir, "general.name");
    const uint64_t token_row_bytes = model->network.tokens.tensor->row_bytes;
    const uint64_t experts =
        WEIGHTS_MAY_REST && model->network.limits_experts && model->network.experts
            ? expert_store_resident(model->network.experts)
            : 0;
    wisp_cold_stats cold;
    wisp_model_get_cold_stats(model, &cold);
    *info = (wisp_model_info){
        .name = name && name->type == VALUE_STRING ? name->as.text.bytes : "",
        .architecture = model->network.architecture->name,
        .compute = wisp_compute_name((size_t)model->compute),
        .kernels = model->network.kernels->name,
        .device = device_computes(&model->device) ? model->device.library->name : "cpu",
        .predictor = wisp_predictor_name(model->predictor),
        .sparsity = model_has_sparsity(model) ? model_default_sparsity(model) : 0,
        .pooling = pooling_name(config->pooling, model->dimensions),
        .hidden_size = config->hidden_size,
        .intermediate_size = config->intermediate_size,
        .layers = config->layers,
        .heads = config->heads,
        .vocabulary_size = config->vocabulary_size,
        .max_tokens = model->max_tokens,
        .parameters = count_parameters(&model->dir),
        .resident_bytes = model->network.resident_bytes + experts + cold.warm_bytes +
                          cold.tokens * token_row_bytes + model_other_bytes(model),
    };
}

bool wisp_model_get_neuron_stats(const wisp_model *model, wisp_neuron_stats *stats) {
    struct gathered_pool *pool = model->network.neuron_pool;
    *stats = (wisp_neuron_stats){0};
    if (!WEIGHTS_MAY_REST || !pool)
        return false;
    const struct gathered_counts counts = gathered_pool_counts(pool);
    *stats = (wisp_neuron_stats){counts.needed, counts.read, counts.read_bytes};
    return true;
}

bool wisp_model_get_expert_stats(const wisp_model *model, wisp_expert_stats *stats) {
    const struct expert_config *e = &model->network.config.experts;
    *stats = (wisp_expert_stats){0};
    if (e->count == 0)
        return false;
    const struct expert_counts counts = expert_store_counts(model->network.experts);
    *stats = (wisp_expert_stats){
        .layers = config_expert_layers(&model->network.config),
        .experts = e->count,
        .used = e->used,
        .bytes = expert_store_bytes(model->network.experts),
        .resident_bytes = expert_store_resident(model->network.experts),
        .held = counts.held,
        .read = counts.read,
        .read_bytes = counts.read_bytes,
    };
    return true;
}

bool wisp_model_ranks(const wisp_model *model) {
    const enum pooling pooling = model->network.config.pooling;
    const bool scores_pairs = pooling == POOLING_RANK && !(CLASSIFIES && model->dimensions > 1);
    return RANKS && (scores_pairs || pooling == POOLING_TOKENS ||
                     (rank_by_asking && model->network.architecture->judges &&
                      !config_embeds(&model->network.config)));
}

size_t wisp_model_dimensions(const wisp_model *model) {
    return model->dimensions;
}

const char *wisp_model_prompt(const wisp_model *model, const char *name) {
    char key[KEY_BYTES];
    if (!name)
        return model->default_prompt;
    const int length = snprintf(key, sizeof key, KEY_PROMPT_PREFIX "%s", name);
    if (length < 0 || (size_t)length >= sizeof key)
        return NULL;
    const struct metadata *entry = directory_find_metadata(&model->dir, key);
    return entry && entry->type == VALUE_STRING ? entry->as.text.bytes : NULL;
}

bool wisp_model_get_weights(const wisp_model *model, size_t index, wisp_weights *weights) {
    const struct weight_tally *tally = model->network.tally;
    if (index >= MAX_WEIGHT_KINDS || !tally[index].kind)
        return false;
    *weights = (wisp_weights){.kind = tally[index].kind->name, .bytes = tally[index].bytes};
    return true;
}

bool wisp_model_get_assumption(const wisp_model *model, size_t index, wisp_assumption *assumption) {
    return assumption_get(&model->dir, index, assumption);
}

bool wisp_model_metadata(const wisp_model *model, size_t index, const char **key, char *value,
                         size_t capacity) {
    if (index >= model->dir.n_metadata)
        return false;
    const struct metadata *entry = &model->dir.metadata[index];
    *key = entry->key;
    metadata_format(entry, value, capacity);
    return true;
}

wisp_status wisp_tokenize(const wisp_model *model, wisp_text text, int32_t *ids, size_t capacity,
                          size_t *count, wisp_error *error) {
    TRY(require(model, "model", error));
    TRY(require(count, "count", error));
    if (capacity > 0)
        TRY(require(ids, "ids", error));
    TRY(require_texts(&text, 1, error));
    if (model->codec) {
        struct token_list list = {0};
        const wisp_status status = codec_encode(model->codec, text, true, &list, error);
        *count = list.count;
        if (status == WISP_OK && capacity > 0 && list.count > 0)
            memcpy(ids, list.ids, (*count < capacity ? *count : capacity) * sizeof *ids);
        free(list.ids);
        return status;
    }
    const size_t bytes = model->max_tokens * sizeof(int32_t);
    int32_t *all = malloc(bytes);
    if (!all)
        return fail_memory(error, bytes);
    const wisp_status status =
        tokenizer_encode(model->tokenizer, text, model->max_tokens, all, count, NULL, error);
    if (status == WISP_OK && capacity > 0)
        memcpy(ids, all, (*count < capacity ? *count : capacity) * sizeof *ids);
    free(all);
    return status;
}

wisp_status wisp_count_tokens(const wisp_model *model, wisp_text text, size_t *count,
                              wisp_error *error) {
    TRY(require(model, "model", error));
    if (model->codec)
        return wisp_tokenize(model, text, NULL, 0, count, error);
    TRY(require(count, "count", error));
    TRY(require_texts(&text, 1, error));
    return tokenizer_encode(model->tokenizer, text, SIZE_MAX, NULL, count, NULL, error);
}

wisp_status wisp_count_prompted(const wisp_model *model, const char *prompt, wisp_text text,
                                size_t *count, wisp_error *error) {
    const wisp_text first = wisp_text_of(prompt ? prompt : "");
    if (first.length == 0)
        return wisp_count_tokens(model, text, count, error);
    TRY(require_texts(&text, 1, error));
    char *joined = malloc(first.length + text.length);
    if (!joined)
        return fail_memory(error, first.length + text.length);
    memcpy(joined, first.bytes, first.length);
    if (text.length > 0)
        memcpy(joined + first.length, text.bytes, text.length);
    const wisp_text whole = {joined, first.length + text.length};
    const wisp_status status = wisp_count_tokens(model, whole, count, error);
    free(joined);
    return status;
}
