/* SPDX-License-Identifier: Apache-2.0
 * The tables of the WebAssembly module that converts models: all types of tensors. */
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/stacked.h"
#include "formats/token_split.h"
#include "huggingface/decoders.h"
#include "products/lists.h"
#include "quant/block_rows.h"

const struct block_format block_formats[] = {
    BLOCK_ROWS(BLOCK_FUNCTION, BLOCK_FUNCTION, BLOCK_FUNCTION)};

const struct hf_decoder *const hf_decoders[] = {HF_DECODERS, NULL};

const struct bitnet_maker *const bitnet_makers[] = {&bitnet_t158, &bitnet_i2_s, NULL};

wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error) = {
    neurons_read, stacked_divide_file, token_split_read, bitnet_make_rows, NULL};

const struct stacking stackings[] = {ENCODER_STACKINGS, DECODER_STACKINGS, {NULL, NULL}};
