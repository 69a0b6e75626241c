/* SPDX-License-Identifier: Apache-2.0
 * The tables of WebAssembly modules that generate. */
#include "engine/model.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/stacked.h"
#include "models/dense_activations.h"
#include "products/lists.h"
#include "quant/block_rows.h"
#include "tokenizers/tokenizer.h"

const struct architecture *const architectures[] = {DECODERS, NULL};

const struct tokenizer_kind *const tokenizer_kinds[] = {&tokenizer_codecs, NULL};

const struct attention_policy *const attention_policies[] = {POLICIES, NULL};

attention_chooser *const attention_chosen_by = attention_from_text;

const struct ffn_kind *const ffn_kinds[] = {DECODER_LAYERS, NULL};

const struct dense_activation *const dense_activations[] = {DENSE_ACTIVATIONS, NULL};

const struct weight_kind *const weight_kinds[] = {DECODER_WEIGHTS, NULL};

const struct block_format block_formats[] = {
    BLOCK_ROWS(BLOCK_FUNCTION, BLOCK_FUNCTION, NO_BLOCK_FUNCTION)};

const struct bitnet_maker *const bitnet_makers[] = {&bitnet_t158, &bitnet_i2_s, NULL};

wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error) = {
    neurons_read, stacked_divide_file, bitnet_make_rows, NULL};

const struct stacking stackings[] = {DECODER_STACKINGS, {NULL, NULL}};

wisp_status (*const model_steps[])(wisp_model *model, wisp_error *error) = {NULL};

wisp_status (*const rank_by_asking)(wisp_session *session, wisp_text query, const wisp_text *texts,
                                    size_t n, float *scores, wisp_error *error) = NULL;
