/* SPDX-License-Identifier: Apache-2.0
 * NewModel, which Alibaba's gte-v1.5 and gte-multilingual are, and others made of them: rotary
 * positions, which may be scaled by NTK, queries, keys and values in one matrix, gated layers. */
#include "formats/schema.h"
#include "formats/stacked.h"
#include "huggingface/encoders.h"

static const struct hf_setting settings[] = {
    {"logn_attention_scale", JSON_FALSE}, {"is_decoder", JSON_FALSE}, {0}};

/* Adds the base of rotary positions, and the factor by which NTK scales them. */
static wisp_status put_rope(struct directory *dir, const struct hf_config *config,
                            wisp_error *error) {
    static const struct hf_field base = {"rope_theta", NULL, "gte.rope.freq_base"};
    static const struct hf_field factor = {"factor", NULL, "gte.rope.scaling.factor"};
    static const double usual_base = 10000; /* NewConfig's default */
    const struct json *own = json_get(config->root, "rope_scaling");
    const struct hf_config scaling = {
        .root = json_is_absent(own) ? json_get(config->root, "rope_parameters") : own,
        .file = config->file};
    const struct json *other = json_get(scaling.root, "rope_type");
    const struct json *type = other ? other : json_get(scaling.root, "type");
    const struct json *mixed = json_get(scaling.root, "mixed_b");
    TRY(hf_put_number(dir, config, &base, &usual_base, error));
    if (json_is_absent(scaling.root) || json_equals(type, "default"))
        return WISP_OK;
    if (!json_equals(type, "ntk"))
        return hf_unsupported_setting(config, "rope_scaling", type, "ntk", error);
    if (!json_is_absent(mixed))
        return hf_unsupported_setting(config, "rope_scaling.mixed_b", mixed, "null", error);
    TRY(directory_put_text(dir, "gte.rope.scaling.type", wisp_text_of("ntk"), error));
    return hf_put_number(dir, &scaling, &factor, NULL, error);
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field sizes[] = {
        {"hidden_size", NULL, "gte.embedding_length"},
        {"intermediate_size", NULL, "gte.feed_forward_length"},
        {"num_hidden_layers", NULL, "gte.block_count"},
        {"num_attention_heads", NULL, "gte.attention.head_count"},
        {"max_position_embeddings", NULL, "gte.context_length"}};
    static const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                            "gte.attention.layer_norm_epsilon"};
    static const double usual_epsilon = 1e-12; /* NewConfig's defaults, as the next */
    uint64_t types = 1;
    static const struct {
        const char *field, *wanted;
        bool required;
    } names[] = {{"position_embedding_type", "rope", false},
                 {"hidden_act", "gelu", false},
                 {"layer_norm_type", "layer_norm", false}};
    TRY(hf_check_settings(config, settings, error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct json *given = json_get(config->root, names[i].field);
        if (given && !json_equals(given, names[i].wanted))
            return hf_unsupported_setting(config, names[i].field, given, names[i].wanted, error);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size(dir, config, &sizes[i], error));
    const struct json *given_types = json_get(config->root, "type_vocab_size");
    if (given_types && (!json_to_u64(given_types, &types) || types > 1))
        return hf_unsupported_setting(config, "type_vocab_size", given_types, "0 and 1", error);
    TRY(directory_put_u32(dir, "tokenizer.ggml.token_type_count", (uint32_t)types, error));
    TRY(directory_put_bool(dir, "gte.attention.causal", false, error));
    TRY(hf_put_number(dir, config, &epsilon, &usual_epsilon, error));
    return put_rope(dir, config, error);
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {0},
};

static const struct hf_name layer_names[] = {
    {"attention.qkv_proj.", "attn_qkv.", false},
    {"attention.o_proj.", "attn_output.", false},
    {"attn_ln.", "attn_output_norm.", false},
    {"mlp.up_gate_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", false},
    {"mlp_ln.", "layer_output_norm.", false},
    {0},
};

/* The neurons come first, and their gates behind them. */
static wisp_status divide(struct directory *dir, wisp_error *error) {
    static const char *const parts[] = {".ffn_up.weight", ".ffn_gate.weight"};
    return stacked_divide_halves(dir, parts, error);
}

const struct hf_encoder hf_new = {.type = "new",
                                  .prefixes = {"new."},
                                  .architecture = "gte",
                                  .tensors = {"encoder.layer.", names, layer_names},
                                  .read_config = read_config,
                                  .divide = divide};
