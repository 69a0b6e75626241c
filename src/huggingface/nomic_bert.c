/* SPDX-License-Identifier: Apache-2.0
 * NomicBertModel: Nomic's own, and that of transformers, which reads and writes the same tensors
 * but calls most settings by BERT's names. */
#include "formats/schema.h"
#include "huggingface/encoders.h"

static const char base_key[] = "nomic-bert.rope.freq_base";

static const struct hf_setting settings[] = {{"prenorm", JSON_FALSE},
                                             {"parallel_block", JSON_FALSE},
                                             {"use_rms_norm", JSON_FALSE},
                                             {"causal", JSON_FALSE},
                                             {"is_decoder", JSON_FALSE},
                                             {"qkv_proj_bias", JSON_FALSE},
                                             {"mlp_fc1_bias", JSON_FALSE},
                                             {"mlp_fc2_bias", JSON_FALSE},
                                             {"scale_attn_weights", JSON_TRUE},
                                             {"scale_attn_by_inverse_layer_idx", JSON_FALSE},
                                             {"rotary_emb_interleaved", JSON_FALSE},
                                             {"rotary_emb_scale_base", JSON_NULL},
                                             {"rotary_scaling_factor", JSON_NULL},
                                             {"rope_scaling", JSON_NULL},
                                             {0}};

static wisp_status check_activation(const struct hf_config *config, wisp_error *error) {
    static const char own[] = "activation_function", other[] = "hidden_act";
    const struct json *given = json_get(config->root, own);
    const struct json *transformers = json_get(config->root, other);
    if ((given || !transformers) && !json_equals(given, "swiglu"))
        return hf_unsupported_setting(config, own, given, "swiglu", error);
    if (transformers && !json_equals(transformers, "silu"))
        return hf_unsupported_setting(config, other, transformers, "silu", error);
    return WISP_OK;
}

/* Checks the fraction of each head that is rotated, which has to be 1. */
static wisp_status check_fraction(const struct hf_config *config, const char *field, bool required,
                                  wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    double fraction;
    if (!given && !required)
        return WISP_OK;
    if (!given || !json_to_double(given, &fraction) || fraction != 1)
        return hf_unsupported_setting(config, field, given, "1", error);
    return WISP_OK;
}

static wisp_status put_rotary(struct directory *dir, const struct hf_config *config,
                              wisp_error *error) {
    static const struct hf_field own = {"rotary_emb_base", NULL, base_key};
    static const struct hf_field theta = {"rope_theta", NULL, base_key};
    const struct hf_config rope = {.root = json_get(config->root, "rope_parameters"),
                                   .file = config->file};
    const bool has_rope = json_is(rope.root, JSON_OBJECT);
    TRY(check_fraction(config, "rotary_emb_fraction", !has_rope, error));
    if (!has_rope)
        return hf_put_number(dir, config, &own, NULL, error);
    const struct json *type = json_get(rope.root, "rope_type");
    if (!json_equals(type, "default"))
        return hf_unsupported_setting(&rope, "rope_type", type, "default", error);
    TRY(check_fraction(&rope, "partial_rotary_factor", false, error));
    const struct json *base = json_get(config->root, own.field);
    const struct json *base_of_rope = json_get(rope.root, theta.field);
    if (base && base_of_rope)
        TRY(hf_check_spellings(config->file, own.field, base, theta.field, base_of_rope, error));
    return hf_put_number(dir, &rope, &theta, NULL, error);
}

/* Returns a whole number under Nomic's name or that of transformers, or 0 if there is none. */
static uint64_t size_of(const struct hf_config *config, const char *own, const char *other) {
    const struct json *given = json_get(config->root, own);
    uint64_t size = 0;
    return json_to_u64(given ? given : json_get(config->root, other), &size) ? size : 0;
}

/* Checks the size of a head, which transformers stores beside the sizes that it follows from. */
static wisp_status check_head_size(const struct hf_config *config, wisp_error *error) {
    static const char field[] = "head_dim";
    const struct json *given = json_get(config->root, field);
    const uint64_t hidden_size = size_of(config, "n_embd", "hidden_size");
    const uint64_t heads = size_of(config, "n_head", "num_attention_heads");
    uint64_t size;
    if (!given || json_is(given, JSON_NULL) || heads == 0)
        return WISP_OK;
    if (!json_to_u64(given, &size) || size != hidden_size / heads)
        return hf_unsupported_setting(config, field, given, "hidden_size / num_attention_heads",
                                      error);
    return WISP_OK;
}

/* Refuses a limit of tokens above the model's positions: wisp truncates texts to these, and
 * sentence-transformers does not, since every position can be rotated. */
static wisp_status check_limit(const struct hf_config *config, wisp_error *error) {
    const uint64_t most = size_of(config, "n_positions", "max_position_embeddings");
    if (config->max_seq_length <= most)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "max_position_embeddings",
                "%llu positions are fewer than max_seq_length %u of sentence_bert_config.json",
                (unsigned long long)most, config->max_seq_length);
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field sizes[] = {
        {"n_embd", "hidden_size", "nomic-bert.embedding_length"},
        {"n_inner", "intermediate_size", "nomic-bert.feed_forward_length"},
        {"n_layer", "num_hidden_layers", "nomic-bert.block_count"},
        {"n_head", "num_attention_heads", "nomic-bert.attention.head_count"},
        {"n_positions", "max_position_embeddings", "nomic-bert.context_length"}};
    static const struct hf_field types = {"type_vocab_size", NULL,
                                          "tokenizer.ggml.token_type_count"};
    static const uint32_t usual_types = 2; /* NomicBertConfig's default */
    static const struct hf_field epsilon = {"layer_norm_epsilon", "layer_norm_eps",
                                            "nomic-bert.attention.layer_norm_epsilon"};
    TRY(hf_check_settings(config, settings, error));
    TRY(check_activation(config, error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size(dir, config, &sizes[i], error));
    TRY(hf_put_size_or(dir, config, &types, usual_types, error));
    TRY(check_head_size(config, error));
    TRY(check_limit(config, error));
    TRY(directory_put_bool(dir, "nomic-bert.attention.causal", false, error));
    TRY(hf_put_number(dir, config, &epsilon, NULL, error));
    return put_rotary(dir, config, error);
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"emb_ln.", "token_embd_norm.", false},
    {0},
};

/* The layer multiplies fc11(x) by silu(fc12(x)), so that fc12 is the gate. */
static const struct hf_name layer_names[] = {
    {"attn.Wqkv.", "attn_qkv.", true},        {"attn.out_proj.", "attn_output.", true},
    {"norm1.", "attn_output_norm.", false},   {"mlp.fc11.", TENSOR_FFN_UP ".", true},
    {"mlp.fc12.", TENSOR_FFN_GATE ".", true}, {"mlp.fc2.", TENSOR_FFN_DOWN ".", true},
    {"norm2.", "layer_output_norm.", false},  {0},
};

const struct hf_encoder hf_nomic_bert = {.type = "nomic_bert",
                                         .prefixes = {"bert.", "nomic_bert."},
                                         .architecture = "nomic-bert",
                                         .tensors = {"encoder.layers.", names, layer_names},
                                         .read_config = read_config};
