/* SPDX-License-Identifier: Apache-2.0
 * Phi3ForCausalLM, which computes what Llama does. Its folders hold queries, keys and values in one
 * matrix, and gates and W_up in another; here they become Llama's, whose rows are parts of theirs.
 */
#include <string.h>

#include "formats/schema.h"
#include "formats/stacked.h"
#include "huggingface/decoders.h"
#include "huggingface/window_config.h"

static const char QKV[] = "self_attn.qkv_proj.weight", GATE_UP[] = "mlp.gate_up_proj.weight";

/* Refuses scaling that wisp would compute otherwise: for phi3 transformers computes LongRoPE if
 * an old folder says yarn, and takes 4096 for an original length that is absent. */
static wisp_status check_rope(const struct hf_config *config, wisp_error *error) {
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    static const char *const names[] = {"rope_type", "type"};
    static const char original[] = "original_max_position_embeddings";
    for (size_t i = 0; i < 4; i++) {
        const struct json *object = json_get(config->root, objects[i / 2]);
        const struct json *type = json_get(object, names[i % 2]);
        if (json_equals(type, "yarn"))
            return hf_unsupported_setting(config, objects[i / 2], type, "longrope", error);
        if (json_equals(type, "longrope") && json_is_absent(json_get(config->root, original)) &&
            json_is_absent(json_get(object, original)))
            return fail(error, WISP_ERROR_NOT_FOUND, config->file, original,
                        "longrope of phi3 needs this number");
    }
    return WISP_OK;
}

static wisp_status read_phi3(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"mlp_bias", JSON_FALSE}, {0}};
    static const char *const activations[] = {"silu", "relu", "relu2"};
    TRY(hf_check_settings(config, settings, error));
    TRY(check_rope(config, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations,
                          sizeof activations / sizeof *activations, error));
    if (!json_is_absent(json_get(config->root, "sliding_window")))
        TRY(hf_put_window(dir, config, decoder->architecture, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status split(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    (void)config;
    static const char *const parts[] = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                        "self_attn.v_proj.weight", "mlp.gate_proj.weight",
                                        "mlp.up_proj.weight"};
    const char *const *qkv = parts, *const *gate_up = parts + 3;
    uint32_t heads, kv_heads, head_size, neurons;
    TRY(metadata_u32(dir, "llama.attention.head_count", &heads, error));
    TRY(metadata_u32(dir, "llama.attention.head_count_kv", &kv_heads, error));
    TRY(metadata_u32(dir, "llama.attention.key_length", &head_size, error));
    TRY(metadata_u32(dir, "llama.feed_forward_length", &neurons, error));
    const uint64_t kv_rows = (uint64_t)kv_heads * head_size;
    const uint64_t qkv_rows[] = {(uint64_t)heads * head_size, kv_rows, kv_rows};
    const uint64_t gate_up_rows[] = {neurons, neurons};
    for (size_t i = 0, n = dir->n_tensors; i < n; i++) {
        const char *name = dir->tensors[i].name;
        if (hf_ends_with(name, QKV))
            TRY(stacked_divide(dir, i, QKV, qkv, qkv_rows, 3, error));
        else if (hf_ends_with(name, GATE_UP))
            TRY(stacked_divide(dir, i, GATE_UP, gate_up, gate_up_rows, 2, error));
        else
            for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
                if (hf_ends_with(name, parts[k]))
                    return fail(error, WISP_ERROR_UNSUPPORTED,
                                dir->sources[dir->tensors[i].source].name, name,
                                "a tensor that a decoder of type phi3 does not have");
    }
    return WISP_OK;
}

const struct hf_decoder hf_phi3 = {
    .type = "phi3",
    .class = "Phi3ForCausalLM",
    .architecture = "llama",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},
    .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED, .epsilon = 1e-5},
    .rope = {.usual_theta = 10000, .has_factors = true, .may_be_partial = true},
    .read_config = read_phi3,
    .split = split,
    .adapt = hf_pair_rotary};
