/* SPDX-License-Identifier: Apache-2.0
 * I2_S, the ternary type of BitNet's own program: weights of -1, 0 and 1 times one scale of the
 * tensor. A block has 128 weights in 32 bytes: weight i is in byte i % 32, in its two highest bits
 * for i < 32, and two bits lower for each 32 that follow (0: -1, 1: 0, 2: 1; 3 is reserved). After
 * the last block is the scale as a 32-bit float, and 28 bytes that mean nothing. BitNet's program
 * for Arm writes blocks of 64 weights instead; files do not say which they have, and those that are
 * published have 128. Source: microsoft/BitNet, src/ggml-bitnet-mad.cpp. */
#ifndef WISP_QUANT_I2_S_H
#define WISP_QUANT_I2_S_H

#include <stddef.h>

enum { I2_S_BLOCK = 128, I2_S_BYTES = 32 };

/* Expands n weights, which are whole blocks. Returns the index of the first one that has the
 * reserved code, or n. */
size_t i2_s_expand(const unsigned char *blocks, size_t n, float scale, float *out);

#endif
