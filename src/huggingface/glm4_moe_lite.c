/* SPDX-License-Identifier: Apache-2.0
 * Glm4MoeLiteForCausalLM. Its folders hold what makes the keys and values of latents in one matrix,
 * for each head that of keys above that of values. GGUF has one tensor of all heads' for each,
 * those of keys transposed: latent attention applies them to queries. */
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/experts.h"
#include "huggingface/transposed.h"

/* ---- config.json ---------------------------------------------------------------------------- */

/* The sizes of latent attention. */
struct latents {
    uint32_t heads, rank, q_rank, plain, rotated, values;
};

static wisp_status read_latents(const struct hf_config *config, struct latents *l,
                                wisp_error *error) {
    static const char q_rank[] = "q_lora_rank";
    const struct {
        struct hf_field field;
        uint32_t usual, *size;
    } sizes[] = {{{"num_attention_heads", NULL, NULL}, 20, &l->heads},
                 {{"kv_lora_rank", NULL, NULL}, 512, &l->rank},
                 {{"qk_nope_head_dim", NULL, NULL}, 192, &l->plain},
                 {{"qk_rope_head_dim", NULL, NULL}, 64, &l->rotated},
                 {{"v_head_dim", NULL, NULL}, 256, &l->values},
                 {{q_rank, NULL, NULL}, 768, &l->q_rank}};
    l->q_rank = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].size == &l->q_rank && json_is(json_get(config->root, q_rank), JSON_NULL))
            continue;
        TRY(hf_read_size_or(config, &sizes[i].field, sizes[i].usual, sizes[i].size, error));
        if (*sizes[i].size > UINT16_MAX)
            return fail(error, WISP_ERROR_FORMAT, config->file, sizes[i].field.field,
                        "%u is more than %d", *sizes[i].size, UINT16_MAX);
    }
    return WISP_OK;
}

static wisp_status put_latents(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    struct latents l;
    char key[HF_KEY_BYTES];
    TRY(read_latents(config, &l, error));
    const struct {
        const char *key;
        uint32_t size;
    } sizes[] = {
        {"attention.head_count", l.heads},        {"attention.head_count_kv", 1},
        {"attention.kv_lora_rank", l.rank},       {"attention.key_length", l.rank + l.rotated},
        {"attention.value_length", l.rank},       {"attention.key_length_mla", l.plain + l.rotated},
        {"attention.value_length_mla", l.values}, {"attention.q_lora_rank", l.q_rank}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size > 0)
            TRY(directory_put_u32(dir, hf_key(decoder, sizes[i].key, key), sizes[i].size, error));
    return hf_put_rope(dir, config, decoder->architecture, &decoder->rope, l.rotated, error);
}

/* Adds how many layers are dense: the first one, or those that mlp_layer_types lists before all
 * others. */
static wisp_status put_dense_layers(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, wisp_error *error) {
    static const char types[] = "mlp_layer_types", first[] = "first_k_dense_replace";
    const struct json *list = json_get(config->root, types), *given = json_get(config->root, first);
    char key[HF_KEY_BYTES];
    uint64_t dense = 1;
    bool sparse = false;
    if (json_is_absent(list)) {
        if (given && (!json_to_u64(given, &dense) || dense != 1)) /* the class does not read it */
            return hf_unsupported_setting(config, first, given, "1", error);
    } else {
        dense = 0;
        for (const struct json *type = list->first; type; type = type->next) {
            const bool is_sparse = json_equals(type, "sparse");
            if ((!is_sparse && !json_equals(type, "dense")) || (sparse && !is_sparse))
                return hf_unsupported_setting(config, types, type, "dense layers, then sparse ones",
                                              error);
            sparse = is_sparse;
            dense += !is_sparse;
        }
    }
    return directory_put_u32(dir, hf_key(decoder, "leading_dense_block_count", key),
                             (uint32_t)dense, error);
}

/* Refuses names of other ways to choose experts, and groups of them. */
static wisp_status check_router(const struct hf_config *config, wisp_error *error) {
    static const struct {
        const char *field, *only;
    } texts[] = {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}};
    static const char *const groups[] = {"n_group", "topk_group"};
    for (size_t i = 0; i < 2; i++) {
        const struct json *text = json_get(config->root, texts[i].field);
        const struct json *count = json_get(config->root, groups[i]);
        uint64_t n = 1;
        if (!json_is_absent(text) && !json_equals(text, texts[i].only))
            return hf_unsupported_setting(config, texts[i].field, text, texts[i].only, error);
        if (count && (!json_to_u64(count, &n) || n != 1))
            return hf_unsupported_setting(config, groups[i], count, "1", error);
    }
    return WISP_OK;
}

static wisp_status read_glm(struct directory *dir, const struct hf_decoder *decoder,
                            const struct hf_config *config, wisp_error *error) {
    enum { SIGMOID = 2 }; /* llama.cpp's number */
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"rope_interleave", JSON_TRUE}, {0}};
    static const char *const silu[] = {"silu"};
    static const struct hf_size sizes[] = {
        {"hidden_size", NULL, "embedding_length", 0},
        {"intermediate_size", NULL, "feed_forward_length", 0},
        {"num_hidden_layers", NULL, "block_count", 0},
        {"max_position_embeddings", NULL, "context_length", 0},
        {"vocab_size", NULL, "vocab_size", 0},
        {"n_routed_experts", "num_local_experts", "expert_count", 64},
        {"num_experts_per_tok", NULL, "expert_used_count", 4},
        {"moe_intermediate_size", NULL, "expert_feed_forward_length", 1536},
        {"n_shared_experts", NULL, "expert_shared_count", 1}};
    static const double usual_epsilon = 1e-5, usual_factor = 1.8;
    static const char norm[] = "norm_topk_prob";
    const struct json *given = json_get(config->root, norm);
    struct hf_rope_scaling rope;
    char key[HF_KEY_BYTES];
    bool normalised = true;
    TRY(hf_check_settings(config, settings, error));
    TRY(check_router(config, error));
    TRY(hf_find_rope_scaling(config, &rope, error));
    if (!json_is_absent(rope.type) && !json_equals(rope.type, "default"))
        return hf_unsupported_setting(config, rope.field, rope.type, "type default", error);
    if (given && !json_to_bool(given, &normalised))
        return fail(error, WISP_ERROR_FORMAT, config->file, norm, "expected true or false");
    TRY(hf_put_activation(dir, config, "hidden_act", silu, 1, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    const struct hf_field epsilon = {"rms_norm_eps", NULL,
                                     hf_key(decoder, "attention.layer_norm_rms_epsilon", key)};
    TRY(hf_put_number(dir, config, &epsilon, &usual_epsilon, error));
    const struct hf_field factor = {"routed_scaling_factor", NULL,
                                    hf_key(decoder, "expert_weights_scale", key)};
    TRY(hf_put_number(dir, config, &factor, &usual_factor, error));
    TRY(directory_put_bool(dir, hf_key(decoder, "expert_weights_norm", key), normalised, error));
    TRY(directory_put_u32(dir, hf_key(decoder, "expert_gating_func", key), SIGMOID, error));
    TRY(put_dense_layers(dir, decoder, config, error));
    return put_latents(dir, decoder, config, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Stacks rows [first, first + rows) of each head of a matrix. */
static wisp_status stack_heads(struct directory *dir, const struct tensor *whole, uint32_t heads,
                               uint64_t first, uint64_t rows, bool transposed, struct tensor *made,
                               wisp_error *error) {
    const uint64_t of_head = whole->rows / heads;
    struct tensor *matrices;
    ARENA_TAKE(&dir->arena, matrices, heads, error);
    for (uint32_t h = 0; h < heads; h++) {
        matrices[h] = *whole;
        matrices[h].dims[1] = rows;
        matrices[h].offset += (h * of_head + first) * whole->row_bytes;
        TRY(directory_check_tensor(dir, &matrices[h], error));
        if (transposed)
            TRY(hf_transpose(dir, &matrices[h], error));
    }
    return hf_stack_matrices(dir, made, matrices, heads, error);
}

/* Makes two tensors of tensor i, one in its place. */
static wisp_status divide(struct directory *dir, size_t i, const char *ending,
                          const struct latents *l, wisp_error *error) {
    static const char *const names[] = {"k_b_proj.weight", "v_b_proj.weight"};
    const struct tensor whole = dir->tensors[i];
    if (whole.n_dims != 2 || whole.format->elements != 1 ||
        whole.rows != (uint64_t)l->heads * (l->plain + l->values))
        return fail(error, WISP_ERROR_FORMAT, dir->sources[whole.source].name, whole.name,
                    "not a matrix of %u rows for each of %u heads", l->plain + l->values, l->heads);
    for (size_t part = 0; part < 2; part++) {
        struct tensor *made = &dir->tensors[i];
        char name[HF_NAME_BYTES];
        if (part > 0)
            TRY(directory_add_tensor(dir, &made, error));
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(whole.name) - strlen(ending)),
                 whole.name, names[part]);
        made->name = arena_copy_text(&dir->arena, name, strlen(name));
        if (!made->name)
            return fail_memory(error, strlen(name));
        TRY(stack_heads(dir, &whole, l->heads, part ? l->plain : 0, part ? l->values : l->plain,
                        part == 0, made, error));
    }
    return WISP_OK;
}

static wisp_status split(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    static const char ending[] = "kv_b_proj.weight";
    struct latents l;
    TRY(read_latents(config, &l, error));
    for (size_t i = 0, n = dir->n_tensors; i < n; i++)
        if (hf_ends_with(dir->tensors[i].name, ending))
            TRY(divide(dir, i, ending, &l, error));
    TRY(directory_finish(dir, error));
    return hf_stack_experts(dir, hf_glm4_moe_lite.architecture, error);
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.q_a_proj.", "attn_q_a.", true},
    {"self_attn.q_a_layernorm.", "attn_q_a_norm.", true},
    {"self_attn.q_b_proj.", "attn_q_b.", true},
    {"self_attn.kv_a_proj_with_mqa.", "attn_kv_a_mqa.", true},
    {"self_attn.kv_a_layernorm.", "attn_kv_a_norm.", true},
    {"self_attn.k_b_proj.", "attn_k_b.", true},
    {"self_attn.v_b_proj.", "attn_v_b.", true},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_attention_layernorm.", "ffn_norm.", true},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true},
    {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true},
    {"mlp.gate.e_score_correction_", TENSOR_ROUTER_CHOICE ".", false},
    {"mlp.gate.", TENSOR_ROUTER ".", true},
    {"mlp.experts.gate_proj.", TENSOR_GATE_EXPERTS ".", true},
    {"mlp.experts.up_proj.", TENSOR_UP_EXPERTS ".", true},
    {"mlp.experts.down_proj.", TENSOR_DOWN_EXPERTS ".", true},
    {"mlp.shared_experts.gate_proj.", TENSOR_GATE_SHARED ".", true},
    {"mlp.shared_experts.up_proj.", TENSOR_UP_SHARED ".", true},
    {"mlp.shared_experts.down_proj.", TENSOR_DOWN_SHARED ".", true},
    {0},
};

const struct hf_decoder hf_glm4_moe_lite = {.type = "glm4_moe_lite",
                                            .class = "Glm4MoeLiteForCausalLM",
                                            .architecture = "deepseek2",
                                            .prefixes = {"model."},
                                            .tensors = {"layers.", hf_llama_names, layer_names},
                                            .rope = {.usual_theta = 10000},
                                            .read_config = read_glm,
                                            .split = split};
