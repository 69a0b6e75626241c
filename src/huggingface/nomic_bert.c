/* SPDX-License-Identifier: Apache-2.0
 * NomicBertModel: Nomic's own, and that of transformers, which reads and writes the same tensors
 * but calls most settings by BERT's names. Nomic's own may have experts. */
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/encoders.h"
#include "huggingface/experts.h"
#include "huggingface/transposed.h"

enum { KEY_BYTES = 64 };

/* The settings that every model has. */
static const struct hf_setting settings[] = {{"prenorm", JSON_FALSE},
                                             {"parallel_block", JSON_FALSE},
                                             {"use_rms_norm", JSON_FALSE},
                                             {"causal", JSON_FALSE},
                                             {"is_decoder", JSON_FALSE},
                                             {"scale_attn_weights", JSON_TRUE},
                                             {"scale_attn_by_inverse_layer_idx", JSON_FALSE},
                                             {"rotary_emb_interleaved", JSON_FALSE},
                                             {"rotary_emb_scale_base", JSON_NULL},
                                             {"rotary_scaling_factor", JSON_NULL},
                                             {"rope_scaling", JSON_NULL},
                                             {0}};

static const struct hf_setting bare[] = {
    {"qkv_proj_bias", JSON_FALSE}, {"mlp_fc1_bias", JSON_FALSE}, {"mlp_fc2_bias", JSON_FALSE}, {0}};

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
                              const char *key, wisp_error *error) {
    const struct hf_field own = {"rotary_emb_base", NULL, key};
    const struct hf_field theta = {"rope_theta", NULL, key};
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

/* Returns the key of an architecture. */
static const char *key_of(const char *architecture, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", architecture, name);
    return key;
}

/* Adds what both architectures have. */
static wisp_status put_nomic(struct directory *dir, const struct hf_config *config,
                             const char *architecture, wisp_error *error) {
    static const struct hf_field sizes[] = {
        {"n_embd", "hidden_size", "embedding_length"},
        {"n_inner", "intermediate_size", "feed_forward_length"},
        {"n_layer", "num_hidden_layers", "block_count"},
        {"n_head", "num_attention_heads", "attention.head_count"},
        {"n_positions", "max_position_embeddings", "context_length"}};
    static const struct hf_field types = {"type_vocab_size", NULL,
                                          "tokenizer.ggml.token_type_count"};
    static const uint32_t usual_types = 2; /* NomicBertConfig's default */
    char key[KEY_BYTES];
    TRY(hf_check_settings(config, settings, error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct hf_field field = {sizes[i].field, sizes[i].other,
                                       key_of(architecture, sizes[i].key, key)};
        TRY(hf_put_size(dir, config, &field, error));
    }
    TRY(hf_put_size_or(dir, config, &types, usual_types, error));
    TRY(check_head_size(config, error));
    TRY(check_limit(config, error));
    TRY(directory_put_bool(dir, key_of(architecture, "attention.causal", key), false, error));
    const struct hf_field epsilon = {"layer_norm_epsilon", "layer_norm_eps",
                                     key_of(architecture, "attention.layer_norm_epsilon", key)};
    TRY(hf_put_number(dir, config, &epsilon, NULL, error));
    return put_rotary(dir, config, key_of(architecture, "rope.freq_base", key), error);
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    TRY(hf_check_settings(config, bare, error));
    TRY(check_activation(config, error));
    return put_nomic(dir, config, "nomic-bert", error);
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

/* ---- experts -------------------------------------------------------------------------------- */

static bool has_experts(const struct hf_config *config) {
    uint64_t step;
    return json_to_u64(json_get(config->root, "moe_every_n_layers"), &step) && step > 0;
}

static wisp_status read_moe(struct directory *dir, const struct hf_config *config,
                            wisp_error *error) {
    static const struct hf_setting of_experts[] = {
        {"qkv_proj_bias", JSON_TRUE},         {"mlp_fc1_bias", JSON_TRUE},
        {"mlp_fc2_bias", JSON_TRUE},          {"moe_normalize_expert_weights", JSON_FALSE},
        {"expert_choice_router", JSON_FALSE}, {0}};
    static const struct {
        const char *field;
        uint64_t wanted;
    } numbers[] = {{"num_shared_experts", 0}, {"ffn_div", 1}};
    static const struct hf_field sizes[] = {
        {"num_experts", NULL, "nomic-bert-moe.expert_count"},
        {"moe_top_k", NULL, "nomic-bert-moe.expert_used_count"},
        {"moe_every_n_layers", NULL, "nomic-bert-moe.moe_every_n_layers"}};
    static const char activation[] = "activation_function";
    const struct json *given = json_get(config->root, activation);
    char wanted[2] = "";
    TRY(hf_check_settings(config, of_experts, error));
    if (!json_equals(given, "gelu"))
        return hf_unsupported_setting(config, activation, given, "gelu", error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t value;
        given = json_get(config->root, numbers[i].field);
        wanted[0] = (char)('0' + numbers[i].wanted);
        if (given && (!json_to_u64(given, &value) || value != numbers[i].wanted))
            return hf_unsupported_setting(config, numbers[i].field, given, wanted, error);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size(dir, config, &sizes[i], error));
    return put_nomic(dir, config, "nomic-bert-moe", error);
}

/* Makes a matrix for each expert of one that has theirs below one another. That of outputs is
 * stored with the neurons as rows. */
static wisp_status divide_experts(struct directory *dir, struct tensor *tensor,
                                  const struct hf_config *config, wisp_error *error) {
    const char *part = strstr(tensor->name, "_exps.weight");
    struct tensor *matrices;
    uint64_t count;
    if (!part)
        return WISP_OK;
    if (!json_to_u64(json_get(config->root, "num_experts"), &count) || count == 0 ||
        count > UINT16_MAX || tensor->n_dims != 2 || tensor->rows % count != 0)
        return fail(error, WISP_ERROR_FORMAT, dir->sources[tensor->source].name, tensor->name,
                    "not a matrix for each expert (num_experts)");
    ARENA_TAKE(&dir->arena, matrices, (size_t)count, error);
    for (uint64_t e = 0; e < count; e++) {
        matrices[e] = *tensor;
        matrices[e].dims[1] = tensor->rows / count;
        matrices[e].offset += e * matrices[e].dims[1] * tensor->row_bytes;
        TRY(directory_check_tensor(dir, &matrices[e], error));
        if (strstr(tensor->name, TENSOR_DOWN_EXPERTS))
            TRY(hf_transpose(dir, &matrices[e], error));
    }
    return hf_stack_matrices(dir, tensor, matrices, count, error);
}

static const struct hf_name moe_layer_names[] = {
    {"attn.Wqkv.", "attn_qkv.", false},
    {"attn.out_proj.", "attn_output.", false},
    {"norm1.", "attn_output_norm.", false},
    {"mlp.fc1.", TENSOR_FFN_UP ".", false},
    {"mlp.fc2.", TENSOR_FFN_DOWN ".", false},
    {"mlp.router.layer.", TENSOR_ROUTER ".", true},
    {"mlp.experts.mlp.w1", TENSOR_UP_EXPERTS TENSOR_WEIGHT, true},
    {"mlp.experts.mlp.w2", TENSOR_DOWN_EXPERTS TENSOR_WEIGHT, true},
    {"mlp.experts.", TENSOR_EXPERTS ".", false},
    {"norm2.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_nomic_bert_moe = {.type = "nomic_bert",
                                             .is_meant = has_experts,
                                             .prefixes = {"bert.", "nomic_bert."},
                                             .architecture = "nomic-bert-moe",
                                             .tensors = {"encoder.layers.", names, moe_layer_names},
                                             .read_config = read_moe,
                                             .adapt = divide_experts};
