/* SPDX-License-Identifier: Apache-2.0
 * Rotary position embedding: queries and keys are turned by their position, so that a score depends
 * on how far two tokens stand apart. Value i of a head and value i + head_size / 2 are a pair,
 * which is turned by position / base^(2 i / head_size). Source: Su et al., RoFormer (2021), with
 * the pairs of GPT-NeoX. */
#ifndef WISP_ATTENTION_ROTARY_H
#define WISP_ATTENTION_ROTARY_H

#include <stddef.h>

/* For each position the cosines of all pairs, then the sines: table [positions, head_size]. */
void rotary_fill(float base, size_t head_size, size_t positions, float *table);

/* Turns `heads` heads of each of a text's tokens in place; x [tokens, ld]. */
void rotary_apply(const float *table, size_t tokens, size_t heads, size_t head_size, float *x,
                  size_t ld);

#endif
