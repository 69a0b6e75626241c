/* SPDX-License-Identifier: Apache-2.0
 * The tables of native code and of the program for Node: everything. */
#include "engine/classify.h"
#include "engine/token_vectors.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/stacked.h"
#include "formats/token_split.h"
#include "models/bitnet.h"
#include "models/clip.h"
#include "models/deepseek2.h"
#include "models/dense_activations.h"
#include "models/gpt_oss.h"
#include "products/lists.h"
#include "quant/block_rows.h"
#include "tokenizers/tokenizer.h"

const struct architecture *const architectures[] = {ENCODERS,
                                                    DECODERS,
                                                    &architecture_gpt_oss,
#ifndef __wasm__ /* whose dense layers normalise no inputs (layers/linear.h) */
                                                    &architecture_bitnet,
                                                    &architecture_bitnet_b158,
                                                    &architecture_deepseek2,
                                                    &architecture_clip,
                                                    &architecture_siglip,
#endif
                                                    NULL};

const struct tokenizer_kind *const tokenizer_kinds[] = {&tokenizer_words, &tokenizer_codecs, NULL};

const struct attention_policy *const attention_policies[] = {POLICIES, &attention_learned, NULL};

attention_chooser *const attention_chosen_by = attention_from_file;

const struct ffn_kind *const ffn_kinds[] = {
#ifndef __wasm__ /* whose modules have no such models */
    &ffn_shared,
#endif
    DECODER_LAYERS, NULL};

const struct dense_activation *const dense_activations[] = {DENSE_ACTIVATIONS, NULL};

const struct weight_kind *const weight_kinds[] = {
#ifndef __wasm__ /* whose engines have no products of bfloats */
    &weights_bfloats,
#endif
    DECODER_WEIGHTS, NULL};

const struct block_format block_formats[] = {
    BLOCK_ROWS(BLOCK_FUNCTION, BLOCK_FUNCTION, BLOCK_FUNCTION)};

const struct bitnet_maker *const bitnet_makers[] = {&bitnet_t158, &bitnet_i2_s, NULL};

wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error) = {
    neurons_read, stacked_divide_file, token_split_read, bitnet_make_rows, NULL};

const struct stacking stackings[] = {ENCODER_STACKINGS, DECODER_STACKINGS, {NULL, NULL}};

wisp_status (*const model_steps[])(wisp_model *model, wisp_error *error) = {
#ifndef __wasm__ /* whose modules have no such heads */
    class_labels_load,
#endif
    token_settings_load, NULL};

wisp_status (*const rank_by_asking)(wisp_session *session, wisp_text query, const wisp_text *texts,
                                    size_t n, float *scores, wisp_error *error) = wisp_judge;
