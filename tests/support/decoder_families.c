/* SPDX-License-Identifier: Apache-2.0
 * Folders of tiny decoders of other families than Llama's. */
#include <stdio.h>
#include <string.h>

#include "support/decoder_folder.h"

enum { HIDDEN = FOLDER_HIDDEN, INNER = FOLDER_INNER, KV = FOLDER_KV };

#define WEIGHTS_OF(folder, prefix, layers, tensors)                                                \
    decoder_folder_put_weights(folder, prefix, layers, tensors, sizeof(tensors) / sizeof *(tensors))

/* Heads have as many values as KV. Gemma 2 has all but the last two. */
static const struct folder_shape gemma[] = {
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
    {"norm.weight", {HIDDEN}},
    {"layers.%.input_layernorm.weight", {HIDDEN}},
    {"layers.%.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},
    {"layers.%.self_attn.k_proj.weight", {KV, HIDDEN}},
    {"layers.%.self_attn.v_proj.weight", {KV, HIDDEN}},
    {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}},
    {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
    {"layers.%.pre_feedforward_layernorm.weight", {HIDDEN}},
    {"layers.%.post_feedforward_layernorm.weight", {HIDDEN}},
    {"layers.%.mlp.gate_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.up_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.down_proj.weight", {HIDDEN, INNER}},
    {"layers.%.self_attn.q_norm.weight", {KV}},
    {"layers.%.self_attn.k_norm.weight", {KV}}};

static const struct folder_shape gpt2[] = {{"wte.weight", {FOLDER_TOKENS, HIDDEN}},
                                           {"wpe.weight", {64, HIDDEN}},
                                           {"ln_f.weight", {HIDDEN}},
                                           {"ln_f.bias", {HIDDEN}},
                                           {"h.%.ln_1.weight", {HIDDEN}},
                                           {"h.%.ln_1.bias", {HIDDEN}},
                                           {"h.%.attn.bias", {2, 2}}, /* an old mask */
                                           {"h.%.attn.c_attn.weight", {HIDDEN, 3 * HIDDEN}},
                                           {"h.%.attn.c_attn.bias", {3 * HIDDEN}},
                                           {"h.%.attn.c_proj.weight", {HIDDEN, HIDDEN}},
                                           {"h.%.attn.c_proj.bias", {HIDDEN}},
                                           {"h.%.ln_2.weight", {HIDDEN}},
                                           {"h.%.ln_2.bias", {HIDDEN}},
                                           {"h.%.mlp.c_fc.weight", {HIDDEN, INNER}},
                                           {"h.%.mlp.c_fc.bias", {INNER}},
                                           {"h.%.mlp.c_proj.weight", {INNER, HIDDEN}},
                                           {"h.%.mlp.c_proj.bias", {HIDDEN}}};

#define LFM2_SHAPES                                                                                \
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}}, {"embedding_norm.weight", {HIDDEN}},         \
        {"layers.%.operator_norm.weight", {HIDDEN}}, {"layers.%.ffn_norm.weight", {HIDDEN}},       \
        {"layers.0.conv.conv.weight", {HIDDEN, 1, 3}},                                             \
        {"layers.0.conv.in_proj.weight", {3 * HIDDEN, HIDDEN}},                                    \
        {"layers.0.conv.out_proj.weight", {HIDDEN, HIDDEN}},                                       \
        {"layers.1.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},                                    \
        {"layers.1.self_attn.k_proj.weight", {KV, HIDDEN}},                                        \
        {"layers.1.self_attn.v_proj.weight", {KV, HIDDEN}},                                        \
        {"layers.1.self_attn.out_proj.weight", {HIDDEN, HIDDEN}},                                  \
        {"layers.1.self_attn.q_layernorm.weight", {KV}}, {                                         \
        "layers.1.self_attn.k_layernorm.weight", {                                                 \
            KV                                                                                     \
        }                                                                                          \
    }

static const struct folder_shape lfm2[] = {LFM2_SHAPES,
                                           {"layers.%.feed_forward.w1.weight", {INNER, HIDDEN}},
                                           {"layers.%.feed_forward.w3.weight", {INNER, HIDDEN}},
                                           {"layers.%.feed_forward.w2.weight", {HIDDEN, INNER}}};

static const struct folder_shape lfm2_moe[] = {
    LFM2_SHAPES,
    {"layers.%.feed_forward.gate.weight", {2, HIDDEN}},
    {"layers.%.feed_forward.expert_bias", {2}},
    {"layers.%.feed_forward.experts.0.w1.weight", {INNER, HIDDEN}},
    {"layers.%.feed_forward.experts.0.w3.weight", {INNER, HIDDEN}},
    {"layers.%.feed_forward.experts.0.w2.weight", {HIDDEN, INNER}},
    {"layers.%.feed_forward.experts.1.w1.weight", {INNER, HIDDEN}},
    {"layers.%.feed_forward.experts.1.w3.weight", {INNER, HIDDEN}},
    {"layers.%.feed_forward.experts.1.w2.weight", {HIDDEN, INNER}}};

static const struct folder_shape phi3[] = {
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
    {"norm.weight", {HIDDEN}},
    {"layers.%.input_layernorm.weight", {HIDDEN}},
    {"layers.%.self_attn.qkv_proj.weight", {HIDDEN + 2 * KV, HIDDEN}},
    {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}},
    {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
    {"layers.%.mlp.gate_up_proj.weight", {2 * INNER, HIDDEN}},
    {"layers.%.mlp.down_proj.weight", {HIDDEN, INNER}}};

#define ATTENTION_SHAPES                                                                           \
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}}, {"norm.weight", {HIDDEN}},                   \
        {"layers.%.input_layernorm.weight", {HIDDEN}},                                             \
        {"layers.%.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},                                    \
        {"layers.%.self_attn.k_proj.weight", {KV, HIDDEN}},                                        \
        {"layers.%.self_attn.v_proj.weight", {KV, HIDDEN}},                                        \
        {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}}, {                                  \
        "layers.%.post_attention_layernorm.weight", {                                              \
            HIDDEN                                                                                 \
        }                                                                                          \
    }

static const struct folder_shape qwen3_moe[] = {
    ATTENTION_SHAPES,
    {"layers.%.self_attn.q_norm.weight", {KV}},
    {"layers.%.self_attn.k_norm.weight", {KV}},
    {"layers.%.mlp.gate.weight", {2, HIDDEN}},
    {"layers.%.mlp.experts.0.gate_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.0.up_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.0.down_proj.weight", {HIDDEN, INNER}},
    {"layers.%.mlp.experts.1.gate_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.1.up_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.1.down_proj.weight", {HIDDEN, INNER}}};

static const struct folder_shape granite_moe[] = {
    ATTENTION_SHAPES,
    {"layers.%.block_sparse_moe.router.layer.weight", {2, HIDDEN}},
    {"layers.%.block_sparse_moe.input_linear.weight", {2, 2 * INNER, HIDDEN}},
    {"layers.%.block_sparse_moe.output_linear.weight", {2, HIDDEN, INNER}}};

/* Heads have as many values as KV, and experts are two, of `inner` neurons. */
#define GPT_OSS_SHAPES(hidden)                                                                     \
    {"embed_tokens.weight", {FOLDER_TOKENS, hidden}}, {"norm.weight", {hidden}},                   \
        {"layers.%.input_layernorm.weight", {hidden}},                                             \
        {"layers.%.post_attention_layernorm.weight", {hidden}},                                    \
        {"layers.%.self_attn.q_proj.weight", {2 * KV, hidden}},                                    \
        {"layers.%.self_attn.q_proj.bias", {2 * KV}},                                              \
        {"layers.%.self_attn.k_proj.weight", {KV, hidden}},                                        \
        {"layers.%.self_attn.k_proj.bias", {KV}},                                                  \
        {"layers.%.self_attn.v_proj.weight", {KV, hidden}},                                        \
        {"layers.%.self_attn.v_proj.bias", {KV}},                                                  \
        {"layers.%.self_attn.o_proj.weight", {hidden, 2 * KV}},                                    \
        {"layers.%.self_attn.o_proj.bias", {hidden}}, {"layers.%.self_attn.sinks", {2}},           \
        {"layers.%.mlp.router.weight", {2, hidden}}, {"layers.%.mlp.router.bias", {2}}, {          \
        "layers.%.mlp.experts.down_proj_bias", {                                                   \
            2, hidden                                                                              \
        }                                                                                          \
    }

static const struct folder_shape gpt_oss[] = {
    GPT_OSS_SHAPES(HIDDEN),
    {"layers.%.mlp.experts.gate_up_proj", {2, HIDDEN, 2 * INNER}},
    {"layers.%.mlp.experts.gate_up_proj_bias", {2, 2 * INNER}},
    {"layers.%.mlp.experts.down_proj", {2, INNER, HIDDEN}}};

/* A dense layer in the place of experts. */
static const struct folder_shape granite_hybrid[] = {
    ATTENTION_SHAPES,
    {"layers.%.shared_mlp.input_linear.weight", {2 * INNER, HIDDEN}},
    {"layers.%.shared_mlp.output_linear.weight", {HIDDEN, INNER}}};

/* Latents of 4 values, and of 6 for queries; keys of 4 values and 2 that rotate, values of 4. The
 * second layer has experts. */
static const struct folder_shape glm4_moe_lite[] = {
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
    {"norm.weight", {HIDDEN}},
    {"layers.%.input_layernorm.weight", {HIDDEN}},
    {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
    {"layers.%.self_attn.q_a_proj.weight", {6, HIDDEN}},
    {"layers.%.self_attn.q_a_layernorm.weight", {6}},
    {"layers.%.self_attn.q_b_proj.weight", {12, 6}},
    {"layers.%.self_attn.kv_a_proj_with_mqa.weight", {6, HIDDEN}},
    {"layers.%.self_attn.kv_a_layernorm.weight", {4}},
    {"layers.%.self_attn.kv_b_proj.weight", {16, 4}},
    {"layers.%.self_attn.o_proj.weight", {HIDDEN, 8}},
    {"layers.0.mlp.gate_proj.weight", {INNER, HIDDEN}},
    {"layers.0.mlp.up_proj.weight", {INNER, HIDDEN}},
    {"layers.0.mlp.down_proj.weight", {HIDDEN, INNER}},
    {"layers.1.mlp.gate.weight", {2, HIDDEN}},
    {"layers.1.mlp.gate.e_score_correction_bias", {2}},
    {"layers.1.mlp.experts.0.gate_proj.weight", {10, HIDDEN}},
    {"layers.1.mlp.experts.0.up_proj.weight", {10, HIDDEN}},
    {"layers.1.mlp.experts.0.down_proj.weight", {HIDDEN, 10}},
    {"layers.1.mlp.experts.1.gate_proj.weight", {10, HIDDEN}},
    {"layers.1.mlp.experts.1.up_proj.weight", {10, HIDDEN}},
    {"layers.1.mlp.experts.1.down_proj.weight", {HIDDEN, 10}},
    {"layers.1.mlp.shared_experts.gate_proj.weight", {10, HIDDEN}},
    {"layers.1.mlp.shared_experts.up_proj.weight", {10, HIDDEN}},
    {"layers.1.mlp.shared_experts.down_proj.weight", {HIDDEN, 10}},
    {"layers.2.input_layernorm.weight", {HIDDEN}}}; /* of a layer that the class leaves out */

enum { PACKED = 32 }; /* hidden values and neurons of an expert whose matrices are packed */

static const struct folder_shape gpt_oss_packed[] = {
    GPT_OSS_SHAPES(PACKED),
    {"#layers.%.mlp.experts.gate_up_proj_blocks", {2, 2 * PACKED, 1, 16}},
    {"#layers.%.mlp.experts.gate_up_proj_scales", {2, 2 * PACKED, 1}},
    {"layers.%.mlp.experts.gate_up_proj_bias", {2, 2 * PACKED}},
    {"#layers.%.mlp.experts.down_proj_blocks", {2, PACKED, 1, 16}},
    {"#layers.%.mlp.experts.down_proj_scales", {2, PACKED, 1}}};

/* Matrices are packed. */
static const struct folder_shape bitnet[] = {
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
    {"norm.weight", {HIDDEN}},
    {"layers.%.input_layernorm.weight", {HIDDEN}},
    {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
    {"layers.%.self_attn.attn_sub_norm.weight", {HIDDEN}},
    {"layers.%.mlp.ffn_sub_norm.weight", {INNER}},
    {"3layers.%.self_attn.q_proj.weight", {HIDDEN / 4, HIDDEN}},
    {"3layers.%.self_attn.k_proj.weight", {KV / 4, HIDDEN}},
    {"3layers.%.self_attn.v_proj.weight", {KV / 4, HIDDEN}},
    {"3layers.%.self_attn.o_proj.weight", {HIDDEN / 4, HIDDEN}},
    {"3layers.%.mlp.gate_proj.weight", {INNER / 4, HIDDEN}},
    {"3layers.%.mlp.up_proj.weight", {INNER / 4, HIDDEN}},
    {"3layers.%.mlp.down_proj.weight", {HIDDEN / 4, INNER}},
    {"layers.%.self_attn.q_proj.weight_scale", {1}},
    {"layers.%.self_attn.k_proj.weight_scale", {1}},
    {"layers.%.self_attn.v_proj.weight_scale", {1}},
    {"layers.%.self_attn.o_proj.weight_scale", {1}},
    {"layers.%.mlp.gate_proj.weight_scale", {1}},
    {"layers.%.mlp.up_proj.weight_scale", {1}},
    {"layers.%.mlp.down_proj.weight_scale", {1}}};

/* ---- the folder ----------------------------------------------------------------------------- */

#define GEMMA_SETTINGS                                                                             \
    "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":"  \
    "2,"                                                                                           \
    "\"num_key_value_heads\":1,\"head_dim\":4,\"query_pre_attn_scalar\":9,\"sliding_window\":4,"   \
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"vocab_size\":300,"                    \
    "\"attention_bias\":false,\"hidden_activation\":\"gelu_pytorch_tanh\""

#define GPT_OSS_SETTINGS                                                                           \
    "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\","                       \
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,"  \
    "\"hidden_act\":\"silu\",\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,"               \
    "\"attention_bias\":true,\"sliding_window\":4,\"tie_word_embeddings\":true,"                   \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\"],\"swiglu_limit\":7.0,"             \
    "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"vocab_size\":300,\"rope_theta\":500.0,"   \
    "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"truncate\":false,"                  \
    "\"original_max_position_embeddings\":16},"

#define BITNET_SETTINGS                                                                            \
    "{\"architectures\":[\"BitNetForCausalLM\"],\"model_type\":\"bitnet\",\"hidden_size\":8,"      \
    "\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":2,"                  \
    "\"num_key_value_heads\":1,\"hidden_act\":\"relu2\",\"max_position_embeddings\":64,"           \
    "\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,\"tie_word_embeddings\":true,\"vocab_size\":300," \
    "\"quantization_config\":{\"quant_method\":\"bitnet\",\"linear_class\":\"autobitlinear\","     \
    "\"quantization_mode\":"

void decoder_folder_make_family(struct folder *folder, enum decoder_family family) {
    static const char gpt2_config[] =
        "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":8,"
        "\"n_layer\":2,\"n_head\":2,\"n_positions\":64,\"n_inner\":12,\"vocab_size\":300,"
        "\"activation_function\":\"gelu_new\",\"layer_norm_epsilon\":1e-05,"
        "\"scale_attn_weights\":true,\"scale_attn_by_inverse_layer_idx\":false,"
        "\"add_cross_attention\":false,\"tie_word_embeddings\":true,\"eos_token_id\":2}";
    static const char gemma2_config[] =
        "{\"architectures\":[\"Gemma2ForCausalLM\"],\"model_type\":\"gemma2\"," GEMMA_SETTINGS
        ",\"attn_logit_softcapping\":5.0,\"final_logit_softcapping\":3.0,\"rope_theta\":500.0}";
    static const char gemma3_text_config[] =
        "{\"architectures\":[\"Gemma3ForCausalLM\"],\"model_type\":\"gemma3_text\"," GEMMA_SETTINGS
        ",\"layer_types\":[\"sliding_attention\",\"full_attention\"],\"rope_parameters\":{"
        "\"full_attention\":{\"rope_type\":\"linear\",\"rope_theta\":900.0,\"factor\":8.0},"
        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":100.0}}}";
    static const char gemma3_config[] =
        "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\","
        "\"vision_config\":{\"hidden_size\":16},\"text_config\":{" GEMMA_SETTINGS
        ",\"sliding_window_pattern\":2,\"rope_theta\":900.0,\"rope_local_base_freq\":100.0,"
        "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}}}";
    static const char lfm2_config[] =
        "{\"architectures\":[\"Lfm2ForCausalLM\"],\"model_type\":\"lfm2\",\"hidden_size\":8,"
        "\"block_ff_dim\":14,\"block_auto_adjust_ff_dim\":true,\"block_ffn_dim_multiplier\":1.2,"
        "\"block_multiple_of\":6,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":1,\"conv_L_cache\":3,\"conv_bias\":false,"
        "\"full_attn_idxs\":[1],\"norm_eps\":1e-05,\"rope_theta\":500.0,\"tie_embedding\":true,"
        "\"max_position_embeddings\":64,\"vocab_size\":300}";
    static const char phi3_config[] =
        "{\"architectures\":[\"Phi3ForCausalLM\"],\"model_type\":\"phi3\",\"hidden_size\":8,"
        "\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":1,\"hidden_act\":\"silu\",\"max_position_embeddings\":64,"
        "\"original_max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"rope_scaling\":null,\"sliding_window\":4,\"tie_word_embeddings\":true,"
        "\"attention_bias\":false,\"vocab_size\":300,\"eos_token_id\":2}";
    static const char qwen3_moe_config[] =
        "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\","
        "\"hidden_size\":8,\"intermediate_size\":20,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_act\":\"silu\","
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"tie_word_embeddings\":true,\"attention_bias\":false,\"vocab_size\":300,"
        "\"num_experts\":2,\"num_experts_per_tok\":1,\"moe_intermediate_size\":12,"
        "\"norm_topk_prob\":false,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]}";
    static const char lfm2_moe_config[] =
        "{\"architectures\":[\"Lfm2MoeForCausalLM\"],\"model_type\":\"lfm2_moe\",\"hidden_size\":8,"
        "\"intermediate_size\":20,\"moe_intermediate_size\":12,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"conv_L_cache\":3,"
        "\"conv_bias\":false,\"layer_types\":[\"conv\",\"full_attention\"],\"norm_eps\":1e-05,"
        "\"rope_theta\":500.0,\"tie_embedding\":true,\"max_position_embeddings\":64,"
        "\"vocab_size\":300,\"num_experts\":2,\"num_experts_per_tok\":1,\"num_dense_layers\":0,"
        "\"norm_topk_prob\":true,\"use_expert_bias\":true}";
    static const char granite_moe_config[] =
        "{\"architectures\":[\"GraniteMoeForCausalLM\"],\"model_type\":\"granitemoe\","
        "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_act\":\"silu\","
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"tie_word_embeddings\":true,\"attention_bias\":false,\"vocab_size\":300,"
        "\"num_local_experts\":2,\"num_experts_per_tok\":2,\"attention_multiplier\":0.5}";
    static const char gpt_oss_config[] =
        GPT_OSS_SETTINGS "\"hidden_size\":8,\"intermediate_size\":12}";
    static const char gpt_oss_packed_config[] =
        GPT_OSS_SETTINGS "\"hidden_size\":32,\"intermediate_size\":32,"
                         "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}";
    static const char bitnet_config[] = BITNET_SETTINGS "\"offline\"}}";
    static const char bitnet_floats_config[] = BITNET_SETTINGS "\"online\"}}";
    static const char glm4_moe_lite_config[] =
        "{\"architectures\":[\"Glm4MoeLiteForCausalLM\"],\"model_type\":\"glm4_moe_lite\","
        "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"hidden_act\":\"silu\","
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"rope_scaling\":null,\"tie_word_embeddings\":true,\"attention_bias\":false,"
        "\"vocab_size\":300,\"q_lora_rank\":6,\"kv_lora_rank\":4,\"qk_nope_head_dim\":4,"
        "\"qk_rope_head_dim\":2,\"v_head_dim\":4,\"n_routed_experts\":2,\"num_experts_per_tok\":1,"
        "\"n_shared_experts\":1,\"moe_intermediate_size\":10,\"norm_topk_prob\":true,"
        "\"routed_scaling_factor\":1.8,\"n_group\":1,\"topk_group\":1,"
        "\"topk_method\":\"noaux_tc\",\"first_k_dense_replace\":1,\"num_nextn_predict_layers\":1}";
    static const char granite_hybrid_config[] =
        "{\"architectures\":[\"GraniteMoeHybridForCausalLM\"],\"model_type\":\"granitemoehybrid\","
        "\"hidden_size\":8,\"intermediate_size\":14,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_act\":\"silu\","
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"tie_word_embeddings\":true,\"attention_bias\":false,\"vocab_size\":300,"
        "\"num_local_experts\":0,\"shared_intermediate_size\":12,\"residual_multiplier\":0.22,"
        "\"position_embedding_type\":\"rope\",\"layer_types\":[\"attention\",\"attention\"]}";
    static const char *const configs[] = {
        gpt2_config,           gemma2_config,        gemma3_text_config,   gemma3_config,
        lfm2_config,           phi3_config,          bitnet_config,        bitnet_floats_config,
        qwen3_moe_config,      lfm2_moe_config,      granite_moe_config,   gpt_oss_config,
        gpt_oss_packed_config, glm4_moe_lite_config, granite_hybrid_config};
    *folder = (struct folder){0};
    switch (family) {
    case FAMILY_GPT2:
        WEIGHTS_OF(folder, "transformer.", 2, gpt2);
        break;
    case FAMILY_GEMMA2:
        decoder_folder_put_weights(folder, "model.", 2, gemma, sizeof gemma / sizeof *gemma - 2);
        break;
    case FAMILY_GEMMA3_TEXT:
        WEIGHTS_OF(folder, "model.", 2, gemma);
        break;
    case FAMILY_GEMMA3: {
        enum { TENSORS = sizeof gemma / sizeof *gemma };
        struct folder_shape all[TENSORS + 1];
        memcpy(all, gemma, sizeof gemma);
        all[TENSORS] = (struct folder_shape){"vision_tower.embeddings.weight", {HIDDEN, 3, 2}};
        for (size_t i = 0; i < TENSORS; i++) {
            static char names[TENSORS][96];
            snprintf(names[i], sizeof names[i], "language_model.%s", gemma[i].name);
            all[i].name = names[i];
        }
        WEIGHTS_OF(folder, "model.", 2, all);
        break;
    }
    case FAMILY_PHI3:
        WEIGHTS_OF(folder, "model.", 2, phi3);
        break;
    case FAMILY_QWEN3_MOE:
        WEIGHTS_OF(folder, "model.", 2, qwen3_moe);
        break;
    case FAMILY_LFM2_MOE:
        WEIGHTS_OF(folder, "model.", 2, lfm2_moe);
        break;
    case FAMILY_GRANITE_MOE:
        WEIGHTS_OF(folder, "model.", 2, granite_moe);
        break;
    case FAMILY_BITNET:
        WEIGHTS_OF(folder, "model.", 2, bitnet);
        break;
    case FAMILY_BITNET_FLOATS: {
        enum { TENSORS = sizeof bitnet / sizeof *bitnet - 7 };
        struct folder_shape floats[TENSORS];
        memcpy(floats, bitnet, sizeof floats);
        for (size_t i = 0; i < TENSORS; i++)
            if (*floats[i].name == '3') {
                floats[i].name++;
                floats[i].dims[0] *= 4;
            }
        WEIGHTS_OF(folder, "model.", 2, floats);
        break;
    }
    case FAMILY_GLM4_MOE_LITE:
        WEIGHTS_OF(folder, "model.", 2, glm4_moe_lite);
        break;
    case FAMILY_GRANITE_HYBRID:
        WEIGHTS_OF(folder, "model.", 2, granite_hybrid);
        break;
    case FAMILY_GPT_OSS:
        WEIGHTS_OF(folder, "model.", 2, gpt_oss);
        break;
    case FAMILY_GPT_OSS_PACKED:
        WEIGHTS_OF(folder, "model.", 2, gpt_oss_packed);
        break;
    default:
        WEIGHTS_OF(folder, "model.", 2, lfm2);
        break;
    }
    folder_put_text(folder, "config.json", configs[family]);
    folder_put_text(folder, "generation_config.json", "{\"eos_token_id\":[2,5]}");
    folder_put_text(folder, "tokenizer_config.json",
                    "{\"add_bos_token\":true,\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
    decoder_folder_put_model(folder, false);
}
