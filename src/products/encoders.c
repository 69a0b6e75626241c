/* SPDX-License-Identifier: Apache-2.0
 * The list of WebAssembly modules that score pairs of texts, and that embed by encoders which most
 * pages do not need. */
#include "engine/token_vectors.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/stacked.h"
#include "formats/token_split.h"
#include "models/dense_activations.h"
#include "products/lists.h"
#include "quant/block_rows.h"
#include "tokenizers/tokenizer.h"

const struct architecture *const architectures[] = {ENCODERS, NULL};

/* Encoders of many languages have the vocabularies of decoders. */
const struct tokenizer_kind *const tokenizer_kinds[] = {&tokenizer_words, &tokenizer_codecs, NULL};

const struct attention_policy *const attention_policies[] = {&attention_full, NULL};

attention_chooser *const attention_chosen_by = NULL;

const struct ffn_kind *const ffn_kinds[] = {&ffn_experts, &ffn_sparse, &ffn_dense, NULL};

const struct dense_activation *const dense_activations[] = {DENSE_ACTIVATIONS, NULL};

const struct weight_kind *const weight_kinds[] = {
    &weights_q4_0, &weights_f16, &weights_bf16, &weights_int8, &weights_narrow, &weights_f32, NULL};

const struct block_format block_formats[] = {
    BLOCK_ROWS(BLOCK_FUNCTION, NO_BLOCK_FUNCTION, NO_BLOCK_FUNCTION)};

const struct bitnet_maker *const bitnet_makers[] = {&bitnet_t158, NULL};

wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error) = {
    neurons_read, stacked_divide_file, token_split_read, bitnet_make_rows, NULL};

const struct stacking stackings[] = {ENCODER_STACKINGS, {NULL, NULL}};

wisp_status (*const model_steps[])(wisp_model *model, wisp_error *error) = {token_settings_load,
                                                                            NULL};

wisp_status (*const rank_by_asking)(wisp_session *session, wisp_text query, const wisp_text *texts,
                                    size_t n, float *scores, wisp_error *error) = NULL;
