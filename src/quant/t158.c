/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "quant/t158.h"

#include <stdlib.h>
#include <string.h>

#include "quant/codecs.h"

enum { CODES = T158_BYTES - 2, RESERVED = 3 };

const struct t158_options t158_defaults = {.epsilon = 1e-8f, .clip_threshold = 1};

static unsigned code_at(const unsigned char *block, size_t i) {
    return block[i / 4] >> i % 4 * 2 & 3;
}

/* The reserved code becomes NaN, so that whoever checks for finite values finds it. */
void dequantise_bitnet_t158(const void *blocks, size_t n, float *out) {
    const unsigned char *block = blocks;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i % T158_BLOCK == 0)
            block += T158_BYTES;
        const unsigned code = code_at(block, i % T158_BLOCK);
        out[i] = code == RESERVED ? NAN : (float)((int)code - 1) * half_at(block + CODES);
    }
}

void codes_of_bitnet_t158(const unsigned char *block, unsigned char codes[256]) {
    for (size_t i = 0; i < T158_BLOCK; i++)
        codes[i] = (unsigned char)code_at(block, i);
}

const char *t158_problem(const void *blocks, size_t i) {
    const unsigned char *block = (const unsigned char *)blocks + i / T158_BLOCK * T158_BYTES;
    return code_at(block, i % T158_BLOCK) == RESERVED ? "has the reserved code 11"
                                                      : "has a scale that is not finite";
}

struct place {
    float magnitude;
    int at;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return x->magnitude != y->magnitude ? (x->magnitude < y->magnitude ? -1 : 1) : x->at - y->at;
}

/* Sets the ternary values of the smallest weights to 0, the first of equal ones before the others,
 * until the share of zeros among n values is at least `target`. */
static void add_zeros(float target, const float *values, int n, int *ternary) {
    struct place places[T158_BLOCK] = {{0}};
    const int wanted = (int)ceil((double)target * (double)n);
    for (int i = 0; i < n; i++)
        places[i] = (struct place){fabsf(values[i]), i};
    qsort(places, (size_t)n, sizeof *places, compare_places);
    for (int i = 0; i < wanted; i++)
        ternary[places[i].at] = 0;
}

/* Quantises n values, 256 or fewer, to a block. The mean is a sum of floats in their order. Scales
 * that a 16-bit float cannot hold become epsilon, as in PT-BitNet. */
static void quantise_block(const struct t158_options *o, const float *values, int n,
                           unsigned char *block, struct t158_stats *stats) {
    int ternary[T158_BLOCK] = {0};
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += fabsf(values[i]);
    const float scale = sum / (float)T158_BLOCK + o->epsilon;
    for (int i = 0; i < n; i++) {
        const float cut = fmaxf(-o->clip_threshold, fminf(values[i] / scale, o->clip_threshold));
        ternary[i] = clamped((int)roundf(cut), -1, 1);
    }
    if (o->target_sparsity > 0)
        add_zeros(o->target_sparsity, values, n, ternary);
    memset(block, 0, CODES);
    for (int i = 0; i < T158_BLOCK; i++)
        block[i / 4] |= (unsigned char)((ternary[i] + 1) << i % 4 * 2);
    store_half(scale, block + CODES);
    const bool fits = isfinite(half_at(block + CODES));
    if (!fits)
        store_half(o->epsilon, block + CODES);
    if (!stats)
        return;
    const double stored = (double)half_at(block + CODES);
    stats->blocks++;
    stats->weights += (uint64_t)n;
    stats->clamped += !fits;
    stats->scales += stored;
    stats->squared_scales += stored * stored;
    for (int i = 0; i < n; i++)
        stats->zeros += ternary[i] == 0;
}

void t158_quantise(const struct t158_options *options, const float *values, size_t n, void *blocks,
                   struct t158_stats *stats) {
    unsigned char *block = blocks;
    for (size_t i = 0; i < n; i += T158_BLOCK, block += T158_BYTES)
        quantise_block(options, values + i, n - i < T158_BLOCK ? (int)(n - i) : T158_BLOCK, block,
                       stats);
}

void quantise_bitnet_t158(const float *values, size_t n, void *out) {
    t158_quantise(&t158_defaults, values, n, out, NULL);
}
