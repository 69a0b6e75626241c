/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/residency.h"

#include "base/checked.h"
#include "base/product.h"
#include "formats/neurons_read.h"
#include "models/rest.h"
#include "sparse/gathered_frames.h"
#include "sparse/neuron_cold.h"

/* Returns whether a limit lets other weights of the model than cold neurons and experts rest. */
static bool decoder_rests(const wisp_model *model, const wisp_model_options *options) {
    return WEIGHTS_MAY_REST && options->memory > 0 && model->network.architecture->generates &&
           model->network.config.experts.count == 0;
}

/* Fails if memory cannot be limited by leaving weights in the file. */
static wisp_status check_rest(const wisp_model *model, const wisp_model_options *options,
                              wisp_error *error) {
    const struct directory *dir = &model->dir;
    bool reads_again = !options->in_memory;
    if (!model->network.architecture->generates && model->network.config.experts.count == 0)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "memory",
                    "only models that generate, and those opened with hot_only, have a limit");
    for (uint32_t i = 0; i < dir->n_sources; i++)
        reads_again = reads_again && source_reads_again(&dir->sources[i]);
    return reads_again ? WISP_OK
                       : fail(error, WISP_ERROR_ARGUMENT, dir->file, "memory",
                              "weights that are absent cannot be read again from this source");
}

wisp_status residency_check(const wisp_model *model, const wisp_model_options *options,
                            wisp_error *error) {
    if (options->hot_only && !COLD_NEURONS_MAY_BE_ABSENT)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "hot_only",
                    "this build opens models with all of their neurons");
    if (options->hot_only && model->network.architecture->generates)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "hot_only",
                    "only encoders open without their cold neurons");
    if (!ALWAYS_IN_FRAMES && options->memory > 0 && !options->hot_only)
        return check_rest(model, options, error);
    return WISP_OK;
}

wisp_status residency_set(wisp_model *model, const wisp_model_options *options, wisp_error *error) {
    const struct directory *dir = &model->dir;
    struct residency *residency = &model->dir.residency;
    const wisp_source *source = &dir->sources[0];
    const bool lacks_rows = COLD_NEURONS_MAY_BE_ABSENT && options->hot_only;
    const bool limited = options->memory > 0;
    /* Frames say that only one session uses what may be evicted; a module has one. */
    const bool in_frames =
        ALWAYS_IN_FRAMES || (limited && source->available > 0 && !source_reads_again(source));
    *residency = (struct residency){
        .in_memory = options->in_memory,
        .lacks_rows = lacks_rows,
        .lacks_neurons = lacks_rows && neurons_are_cold(dir),
        .in_frames = lacks_rows && in_frames,
        .may_rest = decoder_rests(model, options) ||
                    (WEIGHTS_MAY_REST && lacks_rows && !in_frames && !options->in_memory &&
                     dir->n_sources == 1 && source->lasting),
        .drops_texts = !KEEPS_TOKEN_TEXTS || (options->hot_only && limited)};
    if (!ALWAYS_IN_FRAMES && residency->in_frames && !residency->lacks_neurons)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "memory",
                    "the file has no cold neurons that could be evicted");
    return WISP_OK;
}

wisp_status residency_limit_weights(wisp_model *model, uint64_t memory, wisp_error *error) {
    const uint64_t others = model_other_bytes(model);
    model->network.limits_experts = memory > 0 && model->network.config.experts.count > 0;
    if (!WEIGHTS_MAY_REST || model->network.limits_experts)
        return WISP_OK;
    model->limit_due = !ALWAYS_IN_FRAMES && memory > 0 && model->dir.residency.lacks_rows &&
                       !model->dir.residency.in_frames;
    if (memory == 0 || !model->dir.residency.may_rest)
        return WISP_OK;
    return rest_open(&model->network, memory > others ? memory - others : 0, error);
}

/* Divides `memory` (0: no limit), of which the rest of the model has taken its part, between cold
 * neurons and tokens in proportion to what all of them would take. */
static wisp_status reserve_cold(wisp_model *model, uint64_t memory, wisp_error *error) {
    struct network *network = &model->network;
    const uint64_t row_bytes = network->tokens.tensor->row_bytes + COLD_SLOT_BYTES;
    uint64_t frame_bytes;
    size_t least_frames, frames = neuron_cold_count(&network->neurons, &least_frames, &frame_bytes);
    size_t tokens = token_embedding_cold(&network->tokens);
    const size_t least_tokens = smaller(tokens, LEAST_COLD_TOKENS);
    const size_t all_frames = frames;
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    const uint64_t least =
        info.resident_bytes + least_frames * frame_bytes + least_tokens * row_bytes;
    model->least_memory = least;
    const uint64_t others =
        (frames - least_frames) * frame_bytes + (tokens - least_tokens) * row_bytes;
    if (memory > 0 && memory < least)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "the least is %llu bytes", (unsigned long long)least);
    if (memory > 0 && memory - least < others) {
        const uint64_t rest = memory - least; /* the products below are smaller than 2^64 */
        frames = least_frames + (size_t)(rest * (frames - least_frames) / others);
        tokens = least_tokens + (size_t)(rest * (tokens - least_tokens) / others);
    }
    frames = smaller(frames, MOST_FRAMES);
    model->cold_limited = frames < all_frames || tokens < token_embedding_cold(&network->tokens);
    if (model->dir.residency.lacks_neurons)
        TRY(neuron_cold_reserve(&network->neurons, frames, frames < all_frames, error));
    return tokens > 0 ? token_embedding_reserve(&network->tokens, tokens, error) : WISP_OK;
}

/* Gives experts what the rest of the model leaves of `memory`. */
static wisp_status limit_experts(wisp_model *model, uint64_t memory, wisp_error *error) {
    struct expert_store *experts = model->network.experts;
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    model->least_memory = info.resident_bytes + expert_store_least(experts);
    if (memory < model->least_memory)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "the least is %llu bytes", (unsigned long long)model->least_memory);
    expert_store_limit(experts, memory - info.resident_bytes);
    return WISP_OK;
}

/* Gives each layer an equal part of what the rest of the model leaves, to keep neurons in. */
static wisp_status keep_neurons(struct network *network, uint64_t bytes, wisp_error *error) {
    for (uint32_t l = 0; l < network->config.layers; l++) {
        struct gathered_ffn *gathered = &network->feed_forward[l].gathered;
        const size_t before = gathered->bytes;
        TRY(gathered_frames_keep(gathered, bytes / network->config.layers, error));
        network->resident_bytes += gathered->bytes - before;
    }
    return WISP_OK;
}

/* Lets weights of a decoder rest until it takes at most `memory`. */
static wisp_status limit_decoder(wisp_model *model, uint64_t memory, wisp_error *error) {
    const uint64_t others = model_other_bytes(model);
    model->least_memory = others + model->network.resident_bytes - rest_saves(&model->network);
    if (memory < model->least_memory)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "the least is %llu bytes", (unsigned long long)model->least_memory);
    TRY(rest_open(&model->network, memory - others, error));
    rest_loaded(&model->network, model->network.config.layers);
    return model->network.neuron_pool
               ? keep_neurons(&model->network, memory - others - model->network.resident_bytes,
                              error)
               : WISP_OK;
}

wisp_status residency_reserve(wisp_model *model, uint64_t memory, wisp_error *error) {
    const struct residency *residency = &model->dir.residency;
    struct token_embedding *tokens = &model->network.tokens;
    if (WEIGHTS_MAY_REST && model->network.limits_experts)
        return limit_experts(model, memory, error);
    if (!residency->lacks_rows)
        return WEIGHTS_MAY_REST && residency->may_rest ? limit_decoder(model, memory, error)
                                                       : WISP_OK;
    if (ALWAYS_IN_FRAMES || residency->in_frames)
        return reserve_cold(model, memory, error);
    if (token_embedding_cold(tokens) > 0)
        TRY(token_embedding_reserve(tokens, token_embedding_cold(tokens), error));
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    model->least_memory = info.resident_bytes - model->dir.vocabulary.total -
                          (residency->may_rest ? rest_saves(&model->network) : 0);
    return WISP_OK;
}

uint64_t residency_read_bytes(const wisp_model *model) {
    const struct network *network = &model->network;
    if (!WEIGHTS_MAY_REST)
        return 0;
    const uint64_t neurons =
        network->neuron_pool ? gathered_pool_counts(network->neuron_pool).read_bytes : 0;
    return rest_read_bytes(network) + neurons +
           (network->experts ? expert_store_counts(network->experts).read_bytes : 0);
}

uint64_t model_other_bytes(const wisp_model *model) {
    return model->dir.arena.total + (KEEPS_TOKEN_TEXTS ? model->dir.vocabulary.total : 0) +
           tokenizer_resident_bytes(model->tokenizer);
}
