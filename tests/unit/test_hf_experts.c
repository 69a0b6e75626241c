/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders of decoders with experts: settings that are computed and those that are
 * refused. tests/oracle/decoder_folders.py compares logits with transformers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/folder_edit.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { FORMAT = WISP_ERROR_FORMAT, UNSUPPORTED = WISP_ERROR_UNSUPPORTED };
enum { NOT_FOUND = WISP_ERROR_NOT_FOUND };

static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors";

static void settings_of_experts(void **state) {
    static const enum decoder_family f = FAMILY_QWEN3_MOE, g = FAMILY_GRANITE_MOE,
                                     l = FAMILY_LFM2_MOE;
    static const struct family_edit edits[] = {
        {f, CONFIG, "\"num_experts\":2", "\"num_local_experts\":2", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"num_experts_per_tok\":1", "\"num_experts_per_tok\":2", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"norm_topk_prob\":false,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"norm_topk_prob\":false", "\"norm_topk_prob\":1", FORMAT, "norm_topk_prob",
         "true or false"},
        {f, CONFIG, "\"num_experts\":2,", "", NOT_FOUND, "num_experts", NULL},
        {f, CONFIG, "\"num_experts\":2", "\"num_experts\":1", UNSUPPORTED,
         "model.layers.0.mlp.experts.1.gate_proj.weight", "beyond the 1"},
        {f, CONFIG, "\"num_experts\":2", "\"num_experts\":3", NOT_FOUND,
         "model.layers.0.mlp.experts.2.gate_proj.weight", "missing"},
        {f, CONFIG, "\"num_experts_per_tok\":1", "\"num_experts_per_tok\":3", FORMAT,
         "qwen3moe.expert_used_count", "between 1 and 2"},
        {f, CONFIG, "\"moe_intermediate_size\":12", "\"moe_intermediate_size\":16", FORMAT,
         "blk.0.ffn_gate_exps.weight", "expected [2, 16, 8]"},
        {f, CONFIG, "\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2", UNSUPPORTED,
         "decoder_sparse_step", "only 1"},
        {f, CONFIG, "\"mlp_only_layers\":[]", "\"mlp_only_layers\":[1]", UNSUPPORTED,
         "mlp_only_layers", "only an empty list"},
        {f, CONFIG, "{", "{\"use_sliding_window\":true,", UNSUPPORTED, "use_sliding_window",
         "only false"},
        {f, WEIGHTS, "0.mlp.experts.1.up_proj", "0.mlp.experts.x.up_proj", NOT_FOUND,
         "model.layers.0.mlp.experts.1.up_proj.weight", NULL},
        {f, WEIGHTS, "experts.1.down_proj.weight\":{\"dtype\":\"F32\",\"shape\":[8,12]",
         "experts.1.down_proj.weight\":{\"dtype\":\"F32\",\"shape\":[12,8]", FORMAT,
         "model.layers.0.mlp.experts.1.down_proj.weight", "other experts"},
        {g, CONFIG, "\"num_local_experts\":2", "\"num_local_experts\":3", FORMAT,
         "blk.0.ffn_gate_inp.weight", NULL},
        /* Layers beyond the last are left out: one layer has no bias. */
        {l, WEIGHTS, "layers.0.feed_forward.expert_bias", "layers.9.feed_forward.expert_bias",
         NOT_FOUND, "blk.0.exp_probs_b.bias", "missing"},
        {l, WEIGHTS, "layers.1.feed_forward.expert_bias", "layers.9.feed_forward.expert_bias",
         NOT_FOUND, "blk.1.exp_probs_b.bias", "missing"},
        {g, WEIGHTS, "[2,24,8]", "[2,24,4,2]", FORMAT, NULL, "two matrices"},
        {g, WEIGHTS, "[2,24,8]", "[384]", FORMAT, NULL, "two matrices"},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_gpt_oss(void **state) {
    static const enum decoder_family f = FAMILY_GPT_OSS, p = FAMILY_GPT_OSS_PACKED;
    static const struct family_edit edits[] = {
        {f, CONFIG, "\"swiglu_limit\":7.0,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"sliding_window\":4", "\"sliding_window\":5", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"swiglu_limit\":7.0", "\"swiglu_limit\":6.0", UNSUPPORTED, "swiglu_limit",
         "only 7"},
        {f, CONFIG, "\"sliding_window\":4,", "", NOT_FOUND, "sliding_window", NULL},
        {f, CONFIG, "\"rope_scaling\"", "\"others\"", NOT_FOUND, "rope_parameters", NULL},
        {f, CONFIG, "\"truncate\":false,", "", NOT_FOUND, "truncate", "missing"},
        {f, CONFIG, "\"truncate\":false", "\"truncate\":true", UNSUPPORTED, "truncate",
         "only false"},
        {f, CONFIG, "\"attention_bias\":true", "\"attention_bias\":false", UNSUPPORTED,
         "attention_bias", "only true"},
        {f, CONFIG, "\"num_local_experts\":2", "\"num_local_experts\":3", FORMAT,
         "blk.0.ffn_gate_inp.weight", NULL},
        {f, CONFIG, "{", "{\"quantization_config\":{\"quant_method\":\"gptq\"},", UNSUPPORTED,
         "quantization_config", "only F32, F16 and BF16"},
        {f, WEIGHTS, "[2,8,24]", "[2,96,2]", FORMAT, "blk.0.ffn_gate_exps.weight",
         "expected [2, 12, 8]"},
        {f, WEIGHTS, "[2,8,24]", "[2,8,8,3]", FORMAT, NULL, "shape of experts"},
        {f, WEIGHTS, "[2,24]", "[48]", FORMAT, NULL, "shape of experts"},
        {p, WEIGHTS, "[2,64,1,16]", "[2,64,16]", FORMAT, NULL, "shape"},
        {p, WEIGHTS, "[2,64,1,16]", "[2,64,16,1]", FORMAT, NULL, "shape of experts"},
        {p, WEIGHTS, "[2,64,1]", "[2,1,64]", FORMAT, NULL, "shape of experts"},
        {p, WEIGHTS, "0.mlp.experts.gate_up_proj_scales", "0.mlp.experts.gate_up_proj_scalez",
         NOT_FOUND, "model.layers.0.mlp.experts.gate_up_proj_scales", "missing"},
        {p, CONFIG, "\"intermediate_size\":32", "\"intermediate_size\":64", FORMAT,
         "blk.0.ffn_gate_exps.weight", "expected [2, 64, 32]"},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_glm4_moe_lite(void **state) {
    static const enum decoder_family f = FAMILY_GLM4_MOE_LITE;
    static const struct family_edit edits[] = {
        {f, CONFIG, "\"first_k_dense_replace\":1", "\"mlp_layer_types\":[\"dense\",\"sparse\"]",
         WISP_OK, NULL, NULL},
        {f, CONFIG, "\"norm_topk_prob\":true,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"rope_scaling\":null", "\"rope_interleave\":true", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"rope_scaling\":null", "\"rope_interleave\":false", UNSUPPORTED,
         "rope_interleave", "only true"},
        {f, CONFIG, "\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
         UNSUPPORTED, "rope_scaling", "only type default"},
        {f, CONFIG, "\"n_group\":1", "\"n_group\":2", UNSUPPORTED, "n_group", "only 1"},
        {f, CONFIG, "noaux_tc", "greedy", UNSUPPORTED, "topk_method", "only noaux_tc"},
        {f, CONFIG, "\"topk_method\":\"noaux_tc\"", "\"scoring_func\":\"softmax\"", UNSUPPORTED,
         "scoring_func", "only sigmoid"},
        {f, CONFIG, "\"first_k_dense_replace\":1", "\"first_k_dense_replace\":2", UNSUPPORTED,
         "first_k_dense_replace", "only 1"},
        {f, CONFIG, "\"first_k_dense_replace\":1", "\"mlp_layer_types\":[\"sparse\",\"dense\"]",
         UNSUPPORTED, "mlp_layer_types", "dense layers, then sparse ones"},
        {f, CONFIG, "\"attention_bias\":false", "\"attention_bias\":true", UNSUPPORTED,
         "attention_bias", "only false"},
        {f, CONFIG, "\"n_shared_experts\":1", "\"n_shared_experts\":2", UNSUPPORTED,
         "deepseek2.expert_shared_count", "beside 1 for each"},
        {f, CONFIG, "\"q_lora_rank\":6", "\"q_lora_rank\":9", UNSUPPORTED,
         "deepseek2.attention.q_lora_rank", "between 1 and 8"},
        {f, CONFIG, "\"q_lora_rank\":6", "\"q_lora_rank\":null", NOT_FOUND, "blk.0.attn_q.weight",
         NULL},
        {f, CONFIG, "\"v_head_dim\":4", "\"v_head_dim\":8", FORMAT,
         "model.layers.0.self_attn.kv_b_proj.weight", "12 rows for each of 2 heads"},
        {f, CONFIG, "\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":2,\"v_head_dim\":4",
         "\"qk_nope_head_dim\":6,\"qk_rope_head_dim\":2,\"v_head_dim\":2", UNSUPPORTED,
         "deepseek2.attention.key_length_mla", "between 1 and 6"},
        {f, CONFIG, "\"kv_lora_rank\":4", "\"kv_lora_rank\":70000", FORMAT, "kv_lora_rank",
         "more than 65535"},
        {f, WEIGHTS, "0.self_attn.kv_b_proj", "0.self_attn.kv_x_proj", UNSUPPORTED,
         "model.layers.0.self_attn.kv_x_proj.weight", NULL},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_granite_hybrid(void **state) {
    static const enum decoder_family f = FAMILY_GRANITE_HYBRID;
    static const struct family_edit edits[] = {
        {f, CONFIG, "\"layer_types\"", "\"layers_block_type\"", WISP_OK, NULL, NULL},
        {f, CONFIG, "[\"attention\",\"attention\"]", "[\"mamba\",\"attention\"]", UNSUPPORTED,
         "layer_types", "only attention"},
        {f, CONFIG, "\"layer_types\"", "\"others\"", UNSUPPORTED, "layer_types",
         "attention in all layers"},
        {f, CONFIG, "\"num_local_experts\":0", "\"num_local_experts\":2", UNSUPPORTED,
         "num_local_experts", "only 0"},
        {f, CONFIG, "\"rope\"", "\"nope\"", UNSUPPORTED, "position_embedding_type", "only rope"},
        {f, CONFIG, "\"shared_intermediate_size\":12", "\"shared_intermediate_size\":14", FORMAT,
         "blk.0.ffn_up.weight", "14"},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void experts_have_no_rows_of_neurons(void **state) {
    const wisp_convert_options options = {.neurons = true};
    struct folder folder;
    wisp_error error;
    char path[256];
    (void)state;
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    decoder_folder_make_family(&folder, FAMILY_GRANITE_MOE);
    folder_write(&folder, path);
    folder_release(&folder);
    assert_int_equal(wisp_convert(path, temporary_path("rows.gguf"), &options, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "blk.0.ffn_up_exps.weight");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_experts),
        cmocka_unit_test(settings_of_gpt_oss),
        cmocka_unit_test(settings_of_glm4_moe_lite),
        cmocka_unit_test(settings_of_granite_hybrid),
        cmocka_unit_test(experts_have_no_rows_of_neurons),
    };
    return cmocka_run_group_tests_name("folders of decoders with experts", tests, NULL,
                                       tear_down_temporary_folder);
}
