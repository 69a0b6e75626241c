/* SPDX-License-Identifier: Apache-2.0
 * Rotary position embedding (RoPE): every query and key is rotated by an angle that grows with its
 * position, so that the score of the two depends on the distance between them. Values i and
 * i + head_size / 2 of a head are the coordinates of a point, which is rotated by
 * position / theta^(2 i / head_size). Source: Su et al., RoFormer (2021), with the pairs of
 * GPT-NeoX. */
#ifndef WISP_ATTENTION_ROPE_H
#define WISP_ATTENTION_ROPE_H

#include <stddef.h>

/* Fills table [positions, head_size]: for each position the cosines of all pairs, then their
 * sines. */
void fill_rope_table(float theta, size_t head_size, size_t positions, float *table);

/* Rotates in place x [tokens, heads, head_size], whose tokens lie ld floats apart. The table is at
 * the first token's position. */
void apply_rope(const float *table, size_t tokens, size_t heads, size_t head_size, float *x,
                size_t ld);

#endif
