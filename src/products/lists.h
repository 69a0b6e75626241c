/* SPDX-License-Identifier: Apache-2.0
 * Parts of lists that several products have: a new row here is in all of them. */
#ifndef WISP_PRODUCTS_LISTS_H
#define WISP_PRODUCTS_LISTS_H

#include "attention/attention.h"
#include "models/architectures.h"
#include "models/bert.h"
#include "models/bert_variants.h"
#include "models/eurobert.h"
#include "models/feed_forward.h"
#include "models/gemma.h"
#include "models/glm4.h"
#include "models/gpt2.h"
#include "models/gpt_neox.h"
#include "models/granite.h"
#include "models/lfm2.h"
#include "models/llama.h"
#include "models/llama_experts.h"
#include "models/mistral3.h"
#include "models/modern_bert.h"
#include "models/olmo2.h"
#include "models/phi3.h"
#include "models/smollm3.h"
#include "models/static.h"
#include "weights/weight_kind.h"

/* Architectures of modules with all encoders. */
#define ENCODERS                                                                                   \
    &architecture_bert, &architecture_nomic_bert, &architecture_mpnet, &architecture_electra,      \
        &architecture_deberta_v2, &architecture_gte, &architecture_static,                         \
        &architecture_modern_bert, &architecture_jina_bert_v2, &architecture_jina_bert_v3,         \
        &architecture_nomic_bert_moe

/* Architectures of modules that generate. */
#define DECODERS                                                                                   \
    &architecture_llama, &architecture_qwen2, &architecture_qwen3, &architecture_gpt2,             \
        &architecture_gemma2, &architecture_gemma3, &architecture_lfm2, &architecture_granite,     \
        &architecture_minicpm, &architecture_olmo2, &architecture_smollm3, &architecture_phi3,     \
        &architecture_starcoder2, &architecture_gemma_embedding, &architecture_gptneox,            \
        &architecture_stablelm, &architecture_qwen3moe, &architecture_olmoe,                       \
        &architecture_granitemoe, &architecture_lfm2moe, &architecture_mistral3,                   \
        &architecture_glm4, &architecture_eurobert

/* Those of them whose GGUF files stack matrices. */
#define ENCODER_STACKINGS STACKING_MODERN_BERT, STACKING_JINA_BERT_V2
#define DECODER_STACKINGS STACKING_PHI3, STACKING_GLM4

/* Policies of products that generate. */
#define POLICIES                                                                                   \
    &attention_full, &attention_cached, &attention_local, &attention_strided, &attention_mass,     \
        &attention_quest, &attention_minference

/* Kinds of feed-forward layers of products that generate. */
#define DECODER_LAYERS &ffn_experts, &ffn_gate, &ffn_sparse, &ffn_dense

/* Kinds of weights of products that generate. */
#define DECODER_WEIGHTS                                                                            \
    &weights_q4_0, &weights_q4_1, &weights_q2_k, &weights_q3_k, &weights_q4_k, &weights_q5_k,      \
        &weights_q6_k, &weights_tq1_0, &weights_tq2_0, &weights_bitnet_t158, &weights_i2_s,        \
        &weights_q5_0, &weights_q5_1, &weights_q1_0, &weights_q2_0, &weights_pq2_0,                \
        &weights_iq4_nl, &weights_iq4_xs, &weights_mxfp4, &weights_f16, &weights_bf16,             \
        &weights_int8, &weights_narrow, &weights_f32

#endif
