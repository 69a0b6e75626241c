/* SPDX-License-Identifier: Apache-2.0
 * Glm4ForCausalLM. Its folders hold gates and W_up in one matrix, and its rotary pairs are
 * neighbours, as in GGUF. */
#include "formats/schema.h"
#include "formats/stacked.h"
#include "huggingface/decoders.h"

static wisp_status read_glm4(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, wisp_error *error) {
    static const char *const activations[] = {"silu"};
    TRY(hf_put_activation(dir, config, "hidden_act", activations, 1, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status split(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    (void)config;
    static const char stacked[] = "mlp.gate_up_proj.weight";
    static const char *const parts[] = {"mlp.gate_proj.weight", "mlp.up_proj.weight"};
    for (size_t i = 0, n = dir->n_tensors; i < n; i++) {
        const uint64_t half = dir->tensors[i].rows / 2, rows[] = {half, half};
        if (hf_ends_with(dir->tensors[i].name, stacked))
            TRY(stacked_divide(dir, i, stacked, parts, rows, 2, error));
    }
    return WISP_OK;
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},
    {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_self_attn_layernorm.", "post_attention_norm.", true},
    {"post_attention_layernorm.", "ffn_norm.", true},
    {"post_mlp_layernorm.", "post_ffw_norm.", true},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true},
    {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true},
    {0},
};

const struct hf_decoder hf_glm4 = {
    .type = "glm4",
    .class = "Glm4ForCausalLM",
    .architecture = "glm4",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, layer_names},
    .usual = {.kv_heads = 2, .head_size = 128, .positions = 131072, .epsilon = 0.00000015625},
    .rope = {.usual_theta = 10000,
             .has_factors = true,
             .may_be_partial = true,
             .usual_fraction = 0.5},
    .read_config = read_glm4,
    .split = split};
