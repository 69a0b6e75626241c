/* SPDX-License-Identifier: Apache-2.0
 * Lfm2ForCausalLM, Lfm2MoeForCausalLM, and Lfm2BidirectionalModel, which makes embeddings. */
#include <math.h>

#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/experts.h"

enum { MOST_LAYERS = 1 << 16 };

/* Reads which layers have attention: those that layer_types or full_attn_idxs lists, and all if
 * there is neither. */
static wisp_status read_attends(const struct hf_config *config, uint32_t layers, bool *attends,
                                wisp_error *error) {
    static const char field[] = "full_attn_idxs";
    const struct json *listed = json_get(config->root, field);
    if (!json_is_absent(json_get(config->root, "layer_types")))
        return hf_read_layer_types(config, "full_attention", "conv", layers, attends, error);
    for (uint32_t l = 0; l < layers; l++)
        attends[l] = json_is_absent(listed);
    if (json_is_absent(listed))
        return WISP_OK;
    if (!json_is(listed, JSON_ARRAY))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected a list");
    for (const struct json *entry = listed->first; entry; entry = entry->next) {
        uint64_t layer;
        if (!json_to_u64(entry, &layer) || layer >= layers)
            return fail(error, WISP_ERROR_FORMAT, config->file, field,
                        "%.32s is not a layer, of which there are %u", hf_shown(entry), layers);
        attends[layer] = true;
    }
    return WISP_OK;
}

/* Computes how many neurons a layer has of the number in config.json: two thirds of it, times a
 * number, rounded up to whole multiples of another. */
static wisp_status adjust(const struct hf_config *config, uint32_t *neurons, wisp_error *error) {
    static const char adjusts[] = "block_auto_adjust_ff_dim";
    static const char multiplier[] = "block_ffn_dim_multiplier";
    static const struct hf_field multiple = {"block_multiple_of", NULL, NULL};
    const struct json *given = json_get(config->root, adjusts);
    const struct json *times = json_get(config->root, multiplier);
    bool is_adjusted = true;
    double factor = 1, size = floor(2 * (double)*neurons / 3);
    uint32_t of;
    if (given && !json_to_bool(given, &is_adjusted))
        return fail(error, WISP_ERROR_FORMAT, config->file, adjusts, "expected true or false");
    if (!is_adjusted)
        return WISP_OK;
    if (!json_is_absent(times) && (!json_to_double(times, &factor) || !(factor > 0)))
        return fail(error, WISP_ERROR_FORMAT, config->file, multiplier,
                    "%.32s is not a number above 0", hf_shown(times));
    if (json_is(times, JSON_NULL)) /* the class then rounds nothing either */
        of = 1;
    else
        TRY(hf_read_size_or(config, &multiple, 256, &of, error));
    size = ceil(floor(factor * size) / of) * of;
    if (!(size >= 1 && size <= UINT32_MAX))
        return fail(error, WISP_ERROR_FORMAT, config->file, multiplier, "%.32s makes no size of %u",
                    hf_shown(times), *neurons);
    *neurons = (uint32_t)size;
    return WISP_OK;
}

/* Reads what both classes have, but for the number of neurons. */
static wisp_status read_common(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"conv_bias", JSON_FALSE}, {0}};
    static const struct hf_size sizes[] = {{"hidden_size", NULL, "embedding_length", 0},
                                           {"num_hidden_layers", NULL, "block_count", 0},
                                           {"max_position_embeddings", NULL, "context_length", 0},
                                           {"vocab_size", NULL, "vocab_size", 0},
                                           {"conv_L_cache", NULL, "shortconv.l_cache", 3}};
    static const struct hf_field layers_field = {"num_hidden_layers", NULL, NULL};
    static const double usual_epsilon = 1e-5;
    char key[HF_KEY_BYTES];
    uint32_t layers;
    bool *attends;
    TRY(hf_check_settings(config, settings, error));
    if (decoder->is_bidirectional)
        TRY(directory_put_bool(dir, hf_key(decoder, "attention.causal", key), false, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    const struct hf_field epsilon = {"norm_eps", NULL,
                                     hf_key(decoder, "attention.layer_norm_rms_epsilon", key)};
    TRY(hf_put_number(dir, config, &epsilon, &usual_epsilon, error));
    TRY(hf_read_size_or(config, &layers_field, 0, &layers, error));
    if (layers > MOST_LAYERS) /* the architecture's page refuses it */
        return WISP_OK;
    ARENA_TAKE(&dir->arena, attends, layers, error);
    TRY(read_attends(config, layers, attends, error));
    return hf_put_heads(dir, decoder, config, attends, layers, error);
}

static wisp_status read_lfm2(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, wisp_error *error) {
    static const struct hf_field inner = {"block_ff_dim", NULL, NULL};
    static const struct hf_field other = {"intermediate_size", NULL, NULL};
    char key[HF_KEY_BYTES];
    uint32_t neurons;
    TRY(hf_read_size_or(config, json_get(config->root, inner.field) ? &inner : &other, 0, &neurons,
                        error));
    TRY(adjust(config, &neurons, error));
    TRY(directory_put_u32(dir, hf_key(decoder, "feed_forward_length", key), neurons, error));
    return read_common(dir, decoder, config, error);
}

/* Reads num_dense_layers, which may be 0. */
static wisp_status put_dense_layers(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, wisp_error *error) {
    static const char field[] = "num_dense_layers";
    const struct json *given = json_get(config->root, field);
    char key[HF_KEY_BYTES];
    uint64_t layers = 2;
    if (given && (!json_to_u64(given, &layers) || layers > UINT32_MAX))
        return fail(error, WISP_ERROR_FORMAT, config->file, field,
                    "%.32s is not a number of layers", hf_shown(given));
    return directory_put_u32(dir, hf_key(decoder, "leading_dense_block_count", key),
                             (uint32_t)layers, error);
}

static wisp_status read_lfm2_moe(struct directory *dir, const struct hf_decoder *decoder,
                                 const struct hf_config *config, wisp_error *error) {
    enum { SIGMOID = 2 }; /* llama.cpp's number */
    static const struct hf_size sizes[] = {
        {"intermediate_size", NULL, "feed_forward_length", 7168},
        {"moe_intermediate_size", NULL, "expert_feed_forward_length", 1792}};
    static const double usual_factor = 1;
    char key[HF_KEY_BYTES];
    const struct hf_field factor = {"routed_scaling_factor", NULL,
                                    hf_key(decoder, "expert_weights_scale", key)};
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    TRY(hf_put_number(dir, config, &factor, &usual_factor, error));
    TRY(hf_put_experts(dir, decoder, config, true, error));
    TRY(put_dense_layers(dir, decoder, config, error));
    TRY(directory_put_u32(dir, hf_key(decoder, "expert_gating_func", key), SIGMOID, error));
    return read_common(dir, decoder, config, error);
}

static wisp_status stack_experts(struct directory *dir, const struct hf_config *config,
                                 wisp_error *error) {
    (void)config;
    return hf_stack_experts(dir, hf_lfm2_moe.architecture, error);
}

/* Makes a matrix of the taps, which a folder has as [hidden_size, 1, taps]. */
static wisp_status adapt(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    static const char *const parts[] = {"shortconv.conv.weight", NULL};
    (void)dir, (void)error;
    if (!hf_is_part(tensor, parts) || tensor->n_dims != 3 || tensor->dims[1] != 1)
        return WISP_OK; /* the loader refuses other shapes */
    tensor->n_dims = 2;
    tensor->dims[1] = tensor->dims[2];
    tensor->dims[2] = 1;
    return WISP_OK;
}

static const struct hf_name names[] = {
    {"embed_tokens.", "token_embd.", true},
    {"embedding_norm.", "token_embd_norm.", true},
    {"lm_head.", "output.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"operator_norm.", "attn_norm.", true},
    {"ffn_norm.", "ffn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.k_proj.", "attn_k.", true},
    {"self_attn.v_proj.", "attn_v.", true},
    {"self_attn.out_proj.", "attn_output.", true},
    {"self_attn.q_layernorm.", "attn_q_norm.", true},
    {"self_attn.k_layernorm.", "attn_k_norm.", true},
    {"conv.conv.", "shortconv.conv.", true},
    {"conv.in_proj.", "shortconv.in_proj.", true},
    {"conv.out_proj.", "shortconv.out_proj.", true},
    {"feed_forward.w1.", TENSOR_FFN_GATE ".", true},
    {"feed_forward.w3.", TENSOR_FFN_UP ".", true},
    {"feed_forward.w2.", TENSOR_FFN_DOWN ".", true},
    {"feed_forward.gate.", TENSOR_ROUTER ".", true},
    {"feed_forward.expert_", TENSOR_ROUTER_CHOICE ".", false}, /* feed_forward.expert_bias */
    {"feed_forward.experts.w1.", TENSOR_GATE_EXPERTS ".", true},
    {"feed_forward.experts.w3.", TENSOR_UP_EXPERTS ".", true},
    {"feed_forward.experts.w2.", TENSOR_DOWN_EXPERTS ".", true},
    {0},
};

static bool is_bidirectional(const struct hf_config *config) {
    const struct json *classes = json_get(config->root, "architectures");
    return json_is(classes, JSON_ARRAY) && json_equals(classes->first, "Lfm2BidirectionalModel");
}

#define LFM2                                                                                       \
    .prefixes = {"model."}, .tensors = {"layers.", names, layer_names}, .tied = true,              \
    .tie_before = "tie_embedding", .usual = {.head_size = HF_DERIVED},                             \
    .rope = {.usual_theta = 1e6, .has_factors = true}, .adapt = adapt

const struct hf_decoder hf_lfm2 = {LFM2,
                                   .type = "lfm2",
                                   .class = "Lfm2ForCausalLM",
                                   .bare = "Lfm2Model",
                                   .architecture = "lfm2",
                                   .read_config = read_lfm2};

const struct hf_decoder hf_lfm2_moe = {LFM2,
                                       .type = "lfm2_moe",
                                       .class = "Lfm2MoeForCausalLM",
                                       .architecture = "lfm2moe",
                                       .read_config = read_lfm2_moe,
                                       .split = stack_experts};

/* As transformers has it since 2026; before, its class was code of the folder's own. */
#define LFM2_EMBEDDING                                                                             \
    LFM2, .architecture = "lfm2", .read_config = read_lfm2, .class = "Lfm2BidirectionalModel",     \
        .bare = "Lfm2BidirectionalModel", .is_bidirectional = is_bidirectional
const struct hf_decoder hf_lfm2_embedding = {LFM2_EMBEDDING, .type = "lfm2"};
const struct hf_decoder hf_lfm2_bidirectional = {LFM2_EMBEDDING, .type = "lfm2_bidirectional"};
