/* SPDX-License-Identifier: Apache-2.0
 * The rows of the table of block formats, which each product has with the functions that it needs.
 */
#ifndef WISP_QUANT_BLOCK_ROWS_H
#define WISP_QUANT_BLOCK_ROWS_H

#include "quant/blocks.h"
#include "quant/codecs.h"

#define BLOCK_FUNCTION(function) function
#define NO_BLOCK_FUNCTION(function) NULL

/* READ, GENERATE and WRITE are one of these two, for functions that expand types which all models
 * may have, that expand types which only models that generate have, and that write. quantise_NAME
 * has the bits of ggml's reference; another function before it may have less error. */
/* clang-format off */
#define BLOCK_ROWS(READ, GENERATE, WRITE)                                                          \
    {BLOCK_F32, "F32", 1, 4, READ(dequantise_f32), WRITE(quantise_f32), WRITE(quantise_f32)},      \
        {BLOCK_F16, "F16", 1, 2, READ(dequantise_f16), WRITE(quantise_f16), WRITE(quantise_f16)},  \
        {BLOCK_Q4_0,          "Q4_0", 32, 18, READ(dequantise_q4_0), WRITE(quantise_q4_0_fitted),  \
         WRITE(quantise_q4_0)},                                                                    \
        {BLOCK_Q4_1,          "Q4_1", 32, 20, READ(dequantise_q4_1), WRITE(quantise_q4_1),         \
         WRITE(quantise_q4_1)},                                                                    \
        {BLOCK_Q5_0,          "Q5_0", 32, 22, READ(dequantise_q5_0), WRITE(quantise_q5_0),         \
         WRITE(quantise_q5_0)},                                                                    \
        {BLOCK_Q5_1,          "Q5_1", 32, 24, READ(dequantise_q5_1), WRITE(quantise_q5_1),         \
         WRITE(quantise_q5_1)},                                                                    \
        {BLOCK_Q8_0,          "Q8_0", 32, 34, READ(dequantise_q8_0), WRITE(quantise_q8_0),         \
         WRITE(quantise_q8_0)},                                                                    \
        {9, "Q8_1", 32, 40, NULL, NULL, NULL},                                                     \
        {BLOCK_Q2_K,          "Q2_K", 256, 84, GENERATE(dequantise_q2_k), WRITE(quantise_q2_k),    \
         WRITE(quantise_q2_k)},                                                                    \
        {BLOCK_Q3_K,          "Q3_K", 256, 110, GENERATE(dequantise_q3_k), WRITE(quantise_q3_k),   \
         WRITE(quantise_q3_k)},                                                                    \
        {BLOCK_Q4_K,          "Q4_K", 256, 144, READ(dequantise_q4_k), WRITE(quantise_q4_k),       \
         WRITE(quantise_q4_k)},                                                                    \
        {BLOCK_Q5_K,          "Q5_K", 256, 176, READ(dequantise_q5_k), WRITE(quantise_q5_k),       \
         WRITE(quantise_q5_k)},                                                                    \
        {BLOCK_Q6_K,          "Q6_K", 256, 210, READ(dequantise_q6_k), WRITE(quantise_q6_k),       \
         WRITE(quantise_q6_k)},                                                                    \
        {15, "Q8_K", 256, 292, NULL, NULL, NULL}, {16, "IQ2_XXS", 256, 66, NULL, NULL, NULL},      \
        {17, "IQ2_XS", 256, 74, NULL, NULL, NULL}, {18, "IQ3_XXS", 256, 98, NULL, NULL, NULL},     \
        {19, "IQ1_S", 256, 50, NULL, NULL, NULL},                                                  \
        {BLOCK_IQ4_NL,          "IQ4_NL", 32, 18, READ(dequantise_iq4_nl), WRITE(quantise_iq4_nl), \
         WRITE(quantise_iq4_nl)},                                                                  \
        {21, "IQ3_S", 256, 110, NULL, NULL, NULL}, {22, "IQ2_S", 256, 82, NULL, NULL, NULL},       \
        {BLOCK_IQ4_XS,                                                                             \
         "IQ4_XS",                                                                                 \
         256,                                                                                      \
         136,                                                                                      \
         GENERATE(dequantise_iq4_xs),                                                              \
         WRITE(quantise_iq4_xs),                                                                   \
         WRITE(quantise_iq4_xs)},                                                                  \
        {BLOCK_I8, "I8", 1, 1, NULL, NULL, NULL}, {25, "I16", 1, 2, NULL, NULL, NULL},             \
        {26, "I32", 1, 4, NULL, NULL, NULL}, {27, "I64", 1, 8, NULL, NULL, NULL},                  \
        {28, "F64", 1, 8, NULL, NULL, NULL}, {29, "IQ1_M", 256, 56, NULL, NULL, NULL},             \
        {BLOCK_BF16,          "BF16", 1, 2, READ(dequantise_bf16), WRITE(quantise_bf16),           \
         WRITE(quantise_bf16)},                                                                    \
        {BLOCK_TQ1_0,          "TQ1_0", 256, 54, READ(dequantise_tq1_0), WRITE(quantise_tq1_0),    \
         WRITE(quantise_tq1_0)},                                                                   \
        {BLOCK_TQ2_0,          "TQ2_0", 256, 66, READ(dequantise_tq2_0), WRITE(quantise_tq2_0),    \
         WRITE(quantise_tq2_0)},                                                                   \
        {BLOCK_MXFP4,          "MXFP4", 32, 17, READ(dequantise_mxfp4), WRITE(quantise_mxfp4),     \
         WRITE(quantise_mxfp4)},                                                                   \
        {BLOCK_T158,                                                                               \
         "BITNET_T158",                                                                            \
         256,                                                                                      \
         66,                                                                                       \
         READ(dequantise_bitnet_t158),                                                             \
         WRITE(quantise_bitnet_t158),                                                              \
         WRITE(quantise_bitnet_t158)},                                                             \
        {40, "NVFP4", 64, 36, NULL, NULL, NULL},                                                   \
        {BLOCK_Q1_0, "Q1_0", 128, 18, GENERATE(dequantise_q1_0), NULL, NULL},                      \
        {BLOCK_Q2_0, "Q2_0", 64, 18, GENERATE(dequantise_q2_0), NULL, NULL},                       \
        {BLOCK_PQ2_0, "PQ2_0", 128, 34, GENERATE(dequantise_pq2_0), NULL, NULL},                   \
        {BLOCK_I2_S, "I2_S", 128, 32, NULL, NULL, NULL}, /* formats/bitnet.h */                    \
    {                                                                                              \
        0, NULL, 0, 0, NULL, NULL, NULL                                                            \
    }

#endif
