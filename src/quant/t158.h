/* SPDX-License-Identifier: Apache-2.0
 * BITNET_T158: weights of -1, 0 and 1 times the mean magnitude of their block (PT-BitNet). A block
 * has 256 weights in 64 bytes of codes, four a byte with the first in the lowest bits (0: -1, 1: 0,
 * 2: 1; 3 is reserved), and the scale as a half. Blocks do not end with rows: they follow the
 * elements of a tensor, and zeros fill the last one. */
#ifndef WISP_QUANT_T158_H
#define WISP_QUANT_T158_H

#include <stddef.h>
#include <stdint.h>

enum { T158_BLOCK = 256, T158_BYTES = 66 };

struct t158_options {
    float epsilon;         /* added to the mean magnitude; above 0 */
    float clip_threshold;  /* weights over their scale are cut to at most this; above 0, up to 2 */
    float target_sparsity; /* at least this share of each block becomes 0; 0 to 1 */
};

extern const struct t158_options t158_defaults;

/* Sums over blocks that were quantised. `clamped` counts the blocks whose scale a half cannot hold,
 * which have epsilon instead. */
struct t158_stats {
    uint64_t blocks, weights, zeros, clamped;
    double scales, squared_scales;
};

/* Quantises n finite values to ceil(n / 256) blocks. Adds to *stats, which may be NULL. */
void t158_quantise(const struct t158_options *options, const float *values, size_t n, void *blocks,
                   struct t158_stats *stats);

/* Tells why element i of these blocks became no finite number. */
const char *t158_problem(const void *blocks, size_t i);

#endif
