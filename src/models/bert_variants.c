/* SPDX-License-Identifier: Apache-2.0
 * The architectures that compute what bert.c does and that pages which embed seldom need. */
#include "models/bert_variants.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/bert.h"

/* Reads how many values a token's embedding has, if a dense layer makes hidden states of them. */
static wisp_status read_token_size(const struct config_reader *r) {
    struct model_config *c = r->config;
    uint32_t size = c->hidden_size;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, "token_embedding_length", key), &size, r->error));
    if (size == 0 || size > c->hidden_size)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "embeddings of %u values are not supported, only of 1 to %u, the hidden size",
                    size, c->hidden_size);
    c->token_size = size < c->hidden_size ? size : 0;
    return WISP_OK;
}

static wisp_status read_electra(const struct directory *dir, struct model_config *config,
                                wisp_error *error) {
    const struct config_reader r = {dir, architecture_electra.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GELU, .has_bias = true};
    TRY(bert_read_encoder(&r));
    return read_token_size(&r);
}

/* Reads what bert_read_encoder does but the activation, of which there is one. */
static wisp_status read_gated(const struct config_reader *r) {
    TRY(config_read_sizes(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_epsilon"));
    TRY(config_read_pooling(r));
    return config_refuse_variants(r);
}

/* Reads how positions are scaled. With NTK of a factor s, pair i of a head of d values turns by
 * position (s theta)^(-2 i / d) / s^(2 / d). Source: Su, "Transformer upgrade 16" (2023). */
static wisp_status read_ntk(const struct config_reader *r) {
    struct model_config *c = r->config;
    const char *type = "none";
    float factor = 1;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_text_or(r->dir, config_key(r, "rope.scaling.type", key), &type, r->error));
    if (strcmp(type, "none") == 0)
        return config_refuse_others(r, "rope.scaling.factor", "1");
    if (strcmp(type, "ntk") != 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%.32s is not supported, only none and ntk", type);
    TRY(metadata_f32(r->dir, config_key(r, "rope.scaling.factor", key), &factor, r->error));
    if (!isfinite(factor) || !(factor >= 1))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 1");
    c->rope_theta *= factor;
    c->rope_divisor = powf(factor, 2 / (float)c->head_size);
    return WISP_OK;
}

static wisp_status read_gte(const struct directory *dir, struct model_config *config,
                            wisp_error *error) {
    const struct config_reader r = {dir, architecture_gte.name, config, error};
    char head_size[16];
    *config = (struct model_config){.activation = ACTIVATION_GATED_GELU,
                                    .fused_qkv = true,
                                    .has_bias = true,
                                    .has_bare_neurons = true,
                                    .rope_divisor = 1};
    TRY(read_gated(&r));
    TRY(config_read_rotation(&r));
    snprintf(head_size, sizeof head_size, "%u", config->head_size);
    TRY(config_refuse_others(&r, "rope.dimension_count", head_size));
    return read_ntk(&r);
}

static wisp_status read_jina_bert_v2(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_jina_bert_v2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_GELU,
                                    .has_bias = true,
                                    .has_bare_neurons = true,
                                    .has_slopes = true,
                                    .lacks_positions = true};
    return read_gated(&r);
}

/* Reads the parts of scores, and how distances share embeddings. */
static wisp_status read_distances(const struct config_reader *r) {
    struct disentangled_config *c = &r->config->disentangled;
    enum { MOST = 1 << 20 };
    char key[CONFIG_KEY_BYTES];
    const struct {
        const char *name;
        bool *value;
    } flags[] = {{"attention.content_to_position", &c->to_position},
                 {"attention.position_to_content", &c->to_content},
                 {"attention.relative_norm", &c->has_norm},
                 {"attention.relative_own", &c->has_own}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        TRY(metadata_bool_or(r->dir, config_key(r, flags[i].name, key), flags[i].value, r->error));
    config_key(r, "attention.relative_buckets_count", key);
    TRY(metadata_u32_or(r->dir, key, &c->buckets, r->error));
    TRY(metadata_u32_or(r->dir, config_key(r, "attention.max_relative_positions", key), &c->most,
                        r->error));
    if (c->buckets > MOST || c->most > MOST || c->buckets == 1 ||
        (c->buckets > 0 && c->most < c->buckets / 2 + 2))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "distances up to %u cannot have %u buckets", c->most, c->buckets);
    c->span = c->buckets > 0 ? c->buckets : c->most;
    return WISP_OK;
}

static wisp_status read_deberta_v2(const struct directory *dir, struct model_config *config,
                                   wisp_error *error) {
    const struct config_reader r = {dir, architecture_deberta_v2.name, config, error};
    bool has_positions = false;
    char key[CONFIG_KEY_BYTES];
    *config = (struct model_config){.activation = ACTIVATION_GELU, .has_bias = true};
    TRY(bert_read_encoder(&r));
    TRY(metadata_bool_or(dir, config_key(&r, "position_embeddings", key), &has_positions, error));
    config->lacks_positions = !has_positions;
    return read_distances(&r);
}

static wisp_status read_jina_bert_v3(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_jina_bert_v3.name, config, error};
    *config =
        (struct model_config){.activation = ACTIVATION_GELU, .fused_qkv = true, .has_bias = true};
    TRY(bert_read_encoder(&r));
    return config_read_rope(&r);
}

/* Reads which layers have experts: each of a number of layers, the second of them first. */
static wisp_status read_experts(const struct config_reader *r) {
    enum { MOST_EXPERTS = 4096, MOST_STEP = CONFIG_MAX_LAYERS };
    struct expert_config *e = &r->config->experts;
    const struct {
        const char *name;
        uint32_t *value, least, most;
    } sizes[] = {{"expert_count", &e->count, 1, MOST_EXPERTS},
                 {"expert_used_count", &e->used, 1, MOST_EXPERTS},
                 {"moe_every_n_layers", &e->step, 2, MOST_STEP}};
    char key[CONFIG_KEY_BYTES];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(metadata_u32(r->dir, config_key(r, sizes[i].name, key), sizes[i].value, r->error));
        if (*sizes[i].value < sizes[i].least || *sizes[i].value > sizes[i].most)
            return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                        "%u is not between %u and %u", *sizes[i].value, sizes[i].least,
                        sizes[i].most);
    }
    if (e->used > e->count)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file,
                    config_key(r, "expert_used_count", key), "%u of %u experts", e->used, e->count);
    TRY(config_refuse_others(r, "expert_weights_norm", "false"));
    return config_refuse_others(r, "expert_gating_func", "1");
}

/* Finds whether something is added to the sum of experts, as no file of llama.cpp has it: in all
 * layers of experts or in none. */
static wisp_status find_sum_bias(const struct config_reader *r) {
    struct model_config *c = r->config;
    uint32_t found = 0;
    char name[TENSOR_NAME_BYTES];
    for (uint32_t l = 0; l < c->layers; l++)
        found += directory_find_tensor(
                     r->dir, layer_tensor_name(name, l, TENSOR_EXPERTS, TENSOR_BIAS)) != NULL;
    c->experts.adds_sum_bias = found > 0;
    if (found == 0 || found == config_expert_layers(c))
        return WISP_OK;
    return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, TENSOR_EXPERTS TENSOR_BIAS,
                "%u layers have it, of %u with experts", found, config_expert_layers(c));
}

static wisp_status read_nomic_bert_moe(const struct directory *dir, struct model_config *config,
                                       wisp_error *error) {
    const struct config_reader r = {dir, architecture_nomic_bert_moe.name, config, error};
    *config =
        (struct model_config){.activation = ACTIVATION_GELU,
                              .fused_qkv = true,
                              .has_bias = true,
                              .has_experts = true,
                              .experts = {.gate = EXPERTS_SOFTMAX, .first_layer = 1, .scale = 1}};
    TRY(bert_read_encoder(&r));
    config->experts.size = config->intermediate_size;
    TRY(read_experts(&r));
    TRY(find_sum_bias(&r));
    return config_read_rope(&r);
}

static const char *const deberta_tensors[] = {
    "token_embd",    "position_embd", "token_types", "token_embd_norm",
    "attn_rel_embd", "attn_rel_norm", NULL};
static const char *const deberta_layer_tensors[] = {
    "attn_q",      "attn_k",           "attn_v",      "attn_rel_q",    "attn_rel_k",
    "attn_output", "attn_output_norm", TENSOR_FFN_UP, TENSOR_FFN_DOWN, "layer_output_norm",
    NULL};
static const char *const electra_tensors[] = {"token_embd",      "position_embd",   "token_types",
                                              "token_embd_norm", "token_embd_proj", NULL};
static const char *const jina_layer_tensors[] = {
    "attn_q",      "attn_k",        "attn_v",        "attn_output",       "attn_output_norm",
    TENSOR_FFN_UP, TENSOR_FFN_GATE, TENSOR_FFN_DOWN, "layer_output_norm", NULL};
static const char *const moe_layer_tensors[] = {"attn_qkv",
                                                "attn_output",
                                                "attn_output_norm",
                                                "layer_output_norm",
                                                TENSOR_FFN_UP,
                                                TENSOR_FFN_DOWN,
                                                TENSOR_ROUTER,
                                                TENSOR_UP_EXPERTS,
                                                TENSOR_DOWN_EXPERTS,
                                                TENSOR_EXPERTS,
                                                NULL};

const struct architecture architecture_deberta_v2 =
    BERT("deberta-v2", read_deberta_v2, deberta_tensors, deberta_layer_tensors);
const struct architecture architecture_electra =
    BERT("electra", read_electra, electra_tensors, bert_layer_tensors);
const struct architecture architecture_gte =
    BERT("gte", read_gte, nomic_bert_tensors, nomic_bert_layer_tensors);
const struct architecture architecture_jina_bert_v2 =
    BERT("jina-bert-v2", read_jina_bert_v2, nomic_bert_tensors, jina_layer_tensors);
const struct architecture architecture_jina_bert_v3 =
    BERT("jina-bert-v3", read_jina_bert_v3, nomic_bert_tensors, nomic_bert_layer_tensors);
const struct architecture architecture_nomic_bert_moe =
    BERT("nomic-bert-moe", read_nomic_bert_moe, nomic_bert_tensors, moe_layer_tensors);
