/* SPDX-License-Identifier: Apache-2.0
 * Rotary position embedding (RoPE): every query and key is rotated by an angle that grows with its
 * position, so that the score of the two depends on the distance between them. Two values of a head
 * are the coordinates of a point; pair i is rotated by position / (theta^(2 i / rotated) *
 * factor[i]). Source: Su et al., RoFormer (2021). */
#ifndef WISP_ATTENTION_ROPE_H
#define WISP_ATTENTION_ROPE_H

#include <stddef.h>

/* The values of a head that make pair i. */
enum rope_pairs {
    ROPE_HALVES,    /* i and i + rotated / 2, as in GPT-NeoX and Hugging Face's models */
    ROPE_NEIGHBOURS /* 2 i and 2 i + 1, as in RoFormer and llama.cpp's Llama files */
};

struct rope {
    float theta;          /* at least 1; 0 if heads are not rotated */
    size_t rotated;       /* values of a head that have pairs: the first ones; 0: all */
    const float *factors; /* [rotated / 2]; NULL: all are 1 */
    /* [rotated / 2]: the factors of long sequences (kv_cache.h); NULL if all sequences have
     * `factors`. A model has not both these and local_theta. */
    const float *long_factors;
    enum rope_pairs pairs;
    /* Multiplies cosines and sines, and so scores by its square; 0 stands for 1. */
    float attention_factor;
    /* Layers that see only near tokens have a theta of their own, and none of the factors; 0 if
     * there are no such layers. */
    float local_theta;
};

/* Fills table [positions, head_size], for positions from 0: the cosines of all pairs, then their
 * sines. */
void fill_rope_table(const struct rope *rope, size_t head_size, size_t positions, float *table);

/* Returns the number of tables that positions need: none, that of theta, or that of long_factors or
 * local_theta too. */
size_t rope_tables(const struct rope *rope);

/* Fills the tables one after the other, each as fill_rope_table does. */
void fill_rope_tables(const struct rope *rope, size_t head_size, size_t positions, float *tables);

/* Rotates in place x [tokens, heads, head_size], whose tokens are ld floats apart. The table is at
 * the first token's position. */
void apply_rope(const struct rope *rope, const float *table, size_t tokens, size_t heads,
                size_t head_size, float *x, size_t ld);

#endif
