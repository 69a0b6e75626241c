/* SPDX-License-Identifier: Apache-2.0
 * The tables of native code and of the program for Node: everything. */
#include "attention/attention.h"
#include "engine/token_vectors.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/stacked.h"
#include "formats/token_split.h"
#include "models/architectures.h"
#include "models/bert.h"
#include "models/bert_variants.h"
#include "models/bitnet.h"
#include "models/clip.h"
#include "models/deepseek2.h"
#include "models/dense_activations.h"
#include "models/eurobert.h"
#include "models/feed_forward.h"
#include "models/gemma.h"
#include "models/glm4.h"
#include "models/gpt2.h"
#include "models/gpt_neox.h"
#include "models/gpt_oss.h"
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
#include "quant/block_rows.h"
#include "tokenizers/tokenizer.h"
#include "weights/weight_kind.h"

const struct architecture *const architectures[] = {&architecture_bert,
                                                    &architecture_nomic_bert,
                                                    &architecture_mpnet,
                                                    &architecture_electra,
                                                    &architecture_deberta_v2,
                                                    &architecture_gte,
                                                    &architecture_jina_bert_v2,
                                                    &architecture_jina_bert_v3,
                                                    &architecture_nomic_bert_moe,
                                                    &architecture_static,
                                                    &architecture_llama,
                                                    &architecture_qwen2,
                                                    &architecture_qwen3,
                                                    &architecture_gpt2,
                                                    &architecture_gemma2,
                                                    &architecture_gemma3,
                                                    &architecture_lfm2,
                                                    &architecture_granite,
                                                    &architecture_minicpm,
                                                    &architecture_olmo2,
                                                    &architecture_smollm3,
                                                    &architecture_phi3,
                                                    &architecture_starcoder2,
                                                    &architecture_modern_bert,
                                                    &architecture_gemma_embedding,
                                                    &architecture_gptneox,
                                                    &architecture_stablelm,
                                                    &architecture_qwen3moe,
                                                    &architecture_olmoe,
                                                    &architecture_granitemoe,
                                                    &architecture_lfm2moe,
                                                    &architecture_mistral3,
                                                    &architecture_glm4,
                                                    &architecture_eurobert,
                                                    &architecture_gpt_oss,
#ifndef __wasm__ /* whose dense layers normalise no inputs (layers/linear.h) */
                                                    &architecture_bitnet,
                                                    &architecture_bitnet_b158,
                                                    &architecture_deepseek2,
                                                    &architecture_clip,
#endif
                                                    NULL};

const struct tokenizer_kind *const tokenizer_kinds[] = {&tokenizer_words, &tokenizer_codecs, NULL};

const struct attention_policy *const attention_policies[] = {
    &attention_full,       &attention_cached,  &attention_local,
    &attention_strided,    &attention_mass,    &attention_quest,
    &attention_minference, &attention_learned, NULL};

attention_chooser *const attention_chosen_by = attention_from_file;

const struct ffn_kind *const ffn_kinds[] = {
#ifndef __wasm__ /* whose modules have no such models */
    &ffn_shared,
#endif
    &ffn_experts, &ffn_gate, &ffn_sparse, &ffn_dense, NULL};

const struct dense_activation *const dense_activations[] = {DENSE_ACTIVATIONS, NULL};

const struct weight_kind *const weight_kinds[] = {
#ifndef __wasm__ /* whose engines have no products of bfloats */
    &weights_bfloats,
#endif
    &weights_q4_0,    &weights_q4_1,   &weights_q2_k,   &weights_q3_k,  &weights_q4_k,
    &weights_q5_k,    &weights_q6_k,   &weights_tq1_0,  &weights_tq2_0, &weights_bitnet_t158,
    &weights_i2_s,    &weights_q5_0,   &weights_q5_1,   &weights_q1_0,  &weights_q2_0,
    &weights_pq2_0,   &weights_iq4_nl, &weights_iq4_xs, &weights_mxfp4, &weights_f16,
    &weights_bf16,    &weights_int8,   &weights_narrow, &weights_f32,   NULL};

const struct block_format block_formats[] = {
    BLOCK_ROWS(BLOCK_FUNCTION, BLOCK_FUNCTION, BLOCK_FUNCTION)};

const struct bitnet_maker *const bitnet_makers[] = {&bitnet_t158, &bitnet_i2_s, NULL};

wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error) = {
    neurons_read,     stacked_divide_phi3, stacked_divide_gated,
    token_split_read, bitnet_make_rows,    NULL};

wisp_status (*const model_steps[])(wisp_model *model, wisp_error *error) = {token_settings_load,
                                                                            NULL};

wisp_status (*const rank_by_asking)(wisp_session *session, wisp_text query, const wisp_text *texts,
                                    size_t n, float *scores, wisp_error *error) = wisp_judge;
