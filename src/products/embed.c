/* SPDX-License-Identifier: Apache-2.0
 * The tables of WebAssembly modules that only embed. */
#include "attention/attention.h"
#include "engine/model.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/token_split.h"
#include "models/architectures.h"
#include "models/bert.h"
#include "models/dense_activations.h"
#include "models/feed_forward.h"
#include "quant/block_rows.h"
#include "tokenizers/tokenizer.h"
#include "weights/weight_kind.h"

const struct architecture *const architectures[] = {&architecture_bert, &architecture_nomic_bert,
                                                    &architecture_mpnet, NULL};

const struct tokenizer_kind *const tokenizer_kinds[] = {&tokenizer_words, NULL};

const struct attention_policy *const attention_policies[] = {&attention_full, NULL};

attention_chooser *const attention_chosen_by = NULL;

const struct ffn_kind *const ffn_kinds[] = {&ffn_sparse, &ffn_dense, NULL};

const struct dense_activation *const dense_activations[] = {&dense_identity, &dense_tanh,
                                                            &dense_relu, NULL};

/* Models that embed are small, and with int8 faster than as most files store them. */
const struct weight_kind *const weight_kinds[] = {
    &weights_q4_0, &weights_f16, &weights_bf16, &weights_int8, &weights_narrow, &weights_f32, NULL};

const struct block_format block_formats[] = {
    BLOCK_ROWS(BLOCK_FUNCTION, NO_BLOCK_FUNCTION, NO_BLOCK_FUNCTION)};

const struct bitnet_maker *const bitnet_makers[] = {&bitnet_t158, NULL};

wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error) = {
    neurons_read, token_split_read, bitnet_make_rows, NULL};

wisp_status (*const model_steps[])(wisp_model *model, wisp_error *error) = {NULL};
