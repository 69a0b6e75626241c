/* SPDX-License-Identifier: Apache-2.0
 * ModernBertModel, as versions 4 and 5 of transformers spell its settings. */
#include "formats/stacked.h"
#include "huggingface/encoders.h"

static const char prefix_base[] = "modern-bert.rope.freq_base";
static const char prefix_local_base[] = "modern-bert.rope.freq_base_swa";

static const struct hf_setting settings[] = {
    {"norm_bias", JSON_FALSE}, {"attention_bias", JSON_FALSE}, {"mlp_bias", JSON_FALSE},
    {"is_causal", JSON_FALSE}, {"rope_scaling", JSON_NULL},    {0}};

/* Adds the base of one kind of layers: of rope_parameters, or under the older name. */
static wisp_status put_base(struct directory *dir, const struct hf_config *config, const char *kind,
                            const char *older, double usual, const char *key, wisp_error *error) {
    const struct json *all = json_get(config->root, "rope_parameters");
    const struct hf_config rope = {.root = json_get(all, kind), .file = config->file};
    const struct hf_field theta = {"rope_theta", NULL, key}, own = {older, NULL, key};
    if (!json_is(rope.root, JSON_OBJECT))
        return hf_put_number(dir, config, &own, &usual, error);
    const struct json *type = json_get(rope.root, "rope_type");
    if (!json_equals(type, "default"))
        return hf_unsupported_setting(&rope, "rope_type", type, "default", error);
    return hf_put_number(dir, &rope, &theta, NULL, error);
}

/* Checks that layer_types, if given, agrees with global_attn_every_n_layers. */
static wisp_status check_layers(const struct hf_config *config, uint32_t step, wisp_error *error) {
    const struct json *types = json_get(config->root, "layer_types");
    uint32_t layer = 0;
    if (json_is_absent(types))
        return WISP_OK;
    for (const struct json *type = types->first; type; type = type->next, layer++)
        if (!json_equals(type, layer % step == 0 ? "full_attention" : "sliding_attention"))
            return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "layer_types",
                        "%.32s of layer %u is not supported, only full_attention in each of %u "
                        "layers from the first on, else sliding_attention",
                        hf_shown(type), layer, step);
    return WISP_OK;
}

/* Returns the number of layers of which one is global: as it is given, or as layer_types shows. */
static uint32_t step_of(const struct hf_config *config) {
    const struct json *types = json_get(config->root, "layer_types");
    uint64_t step = 3;
    if (json_to_u64(json_get(config->root, "global_attn_every_n_layers"), &step) && step > 0 &&
        step < UINT32_MAX)
        return (uint32_t)step;
    step = 3;
    if (json_is(types, JSON_ARRAY) && types->first) {
        step = 1;
        for (const struct json *type = types->first->next;
             type && !json_equals(type, "full_attention"); type = type->next)
            step++;
    }
    return (uint32_t)step;
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field sizes[] = {
        {"hidden_size", NULL, "modern-bert.embedding_length"},
        {"intermediate_size", NULL, "modern-bert.feed_forward_length"},
        {"num_hidden_layers", NULL, "modern-bert.block_count"},
        {"num_attention_heads", NULL, "modern-bert.attention.head_count"},
        {"max_position_embeddings", NULL, "modern-bert.context_length"},
        {"local_attention", NULL, "modern-bert.attention.sliding_window"}};
    static const struct hf_field epsilon = {"norm_eps", NULL,
                                            "modern-bert.attention.layer_norm_epsilon"};
    static const double usual_epsilon = 1e-5;
    const struct json *act = json_get(config->root, "hidden_activation");
    const uint32_t step = step_of(config);
    TRY(hf_check_settings(config, settings, error));
    if (!json_equals(act, "gelu"))
        return hf_unsupported_setting(config, "hidden_activation", act, "gelu", error);
    TRY(check_layers(config, step, error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size(dir, config, &sizes[i], error));
    TRY(directory_put_u32(dir, "modern-bert.attention.sliding_window_pattern", step, error));
    TRY(directory_put_bool(dir, "modern-bert.attention.causal", false, error));
    TRY(hf_put_number(dir, config, &epsilon, &usual_epsilon, error));
    TRY(put_base(dir, config, "full_attention", "global_rope_theta", 160000, prefix_base, error));
    return put_base(dir, config, "sliding_attention", "local_rope_theta", 10000, prefix_local_base,
                    error);
}

static const struct hf_name names[] = {
    {"embeddings.tok_embeddings.", "token_embd.", true},
    {"embeddings.norm.", "token_embd_norm.", true},
    {"final_norm.", "output_norm.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"attn_norm.", "attn_norm.", true},
    {"attn.Wqkv.", "attn_qkv.", true},
    {"attn.Wo.", "attn_output.", true},
    {"mlp_norm.", "ffn_norm.", true},
    {"mlp.Wi.", "ffn_up.", true},
    {"mlp.Wo.", "ffn_down.", true},
    {0},
};

const struct hf_encoder hf_modern_bert = {.type = "modernbert",
                                          .architecture = "modern-bert",
                                          .prefixes = {"model."},
                                          .tensors = {"layers.", names, layer_names},
                                          .read_config = read_config,
                                          .divide = stacked_divide_gates};
