/* SPDX-License-Identifier: Apache-2.0
 * GraniteMoeHybridForCausalLM of models that have attention in all layers and no experts, as the
 * smallest of Granite 4 are: what they compute is Granite 3, as llama.cpp's converter has it too.
 */
#include <string.h>

#include "formats/schema.h"
#include "formats/stacked.h"
#include "huggingface/decoders.h"

/* Refuses layers of other kinds than attention; without a list all are of Mamba. */
static wisp_status check_layers(const struct hf_config *config, wisp_error *error) {
    static const char types[] = "layer_types", other[] = "layers_block_type";
    const char *field = json_get(config->root, types) ? types : other;
    const struct json *list = json_get(config->root, field);
    if (!json_is(list, JSON_ARRAY))
        return hf_unsupported_setting(config, types, list, "attention in all layers", error);
    for (const struct json *type = list->first; type; type = type->next)
        if (!json_equals(type, "attention"))
            return hf_unsupported_setting(config, field, type, "attention", error);
    return WISP_OK;
}

static wisp_status read_hybrid(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    static const char experts[] = "num_local_experts", positions[] = "position_embedding_type";
    static const struct hf_field shared = {"shared_intermediate_size", NULL, NULL};
    const struct json *count = json_get(config->root, experts);
    const struct json *type = json_get(config->root, positions);
    uint64_t n = 8; /* the class's number */
    uint32_t neurons;
    char key[HF_KEY_BYTES];
    TRY(check_layers(config, error));
    if (!json_to_u64(count, &n) || n > 0)
        return hf_unsupported_setting(config, experts, count, "0", error);
    if (!json_equals(type, "rope"))
        return hf_unsupported_setting(config, positions, type, "rope", error);
    TRY(hf_granite.read_config(dir, decoder, config, error));
    TRY(hf_read_size_or(config, &shared, 1024, &neurons, error));
    hf_key(decoder, "feed_forward_length", key);
    for (size_t i = 0; i < dir->n_metadata; i++) /* intermediate_size is that of experts here */
        if (strcmp(dir->metadata[i].key, key) == 0)
            dir->metadata[i].as.u = neurons;
    return WISP_OK;
}

static wisp_status split(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    static const char stacked[] = "input_linear.weight";
    static const char *const parts[] = {"gate_linear.weight", "up_linear.weight"};
    (void)config;
    for (size_t i = 0, n = dir->n_tensors; i < n; i++) {
        const uint64_t half = dir->tensors[i].rows / 2, rows[] = {half, half};
        if (hf_ends_with(dir->tensors[i].name, stacked))
            TRY(stacked_divide(dir, i, stacked, parts, rows, 2, error));
    }
    return WISP_OK;
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.k_proj.", "attn_k.", true},
    {"self_attn.v_proj.", "attn_v.", true},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_attention_layernorm.", "ffn_norm.", true},
    {"shared_mlp.gate_linear.", TENSOR_FFN_GATE ".", true},
    {"shared_mlp.up_linear.", TENSOR_FFN_UP ".", true},
    {"shared_mlp.output_linear.", TENSOR_FFN_DOWN ".", true},
    {0},
};

const struct hf_decoder hf_granite_hybrid = {
    .type = "granitemoehybrid",
    .class = "GraniteMoeHybridForCausalLM",
    .architecture = "granite",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, layer_names},
    .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED},
    .rope = {.usual_theta = 10000, .has_factors = true},
    .read_config = read_hybrid,
    .split = split,
    .adapt = hf_pair_rotary};
