/* SPDX-License-Identifier: Apache-2.0
 * Measures rows, 16-bit numbers, bfloats, indexes and attention in each set. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "kernel_bench.h"

/* ---- rows ------------------------------------------------------------------------------------ */

/* Returns the bytes that a call reads and writes for each of its values. */
static double bytes_per_value(enum kernel kernel) {
    switch (kernel) {
    case QUANTISE:
        return 5;
    case LAYER_NORM:
    case SILU_MUL:
    case MULTIPLY:
    case ADD:
        return 12;
    default:
        return 8;
    }
}

void time_rows(enum kernel kernel, size_t m, size_t n) {
    float *x = new_floats(m * n, FILL_UNIFORM), *bias = new_floats(n, FILL_UNIFORM);
    printf("%-10s %4zu x %4zu           %s", kernel_name(kernel), m, n, speed_unit("GB/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        struct timed t = {.set = kernels_at(s), .kernel = kernel, .m = m, .n = n, .source = x};
        t.x = place_rows(SLOT_X, x, m, n, n);
        t.other = place_rows(SLOT_Y, x, m, n, n);
        t.bias = place_rows(SLOT_BIAS, bias, 1, n, n);
        t.rows = place_quantised(m, n, true); /* more blocks than int8 has */
        t.packed = place(SLOT_W, packed_f32_floats(m, n, t.set->f32_panel) * sizeof(float));
        print_speed(&t, (double)(m * n) * bytes_per_value(kernel) * 1e-9);
        fflush(stdout);
    }
    printf("\n");
    free(x);
    free(bias);
}

/* ---- 16-bit numbers ------------------------------------------------------------------------- */

/* Times a product or, with k = 0, the softmax, in the sets that have it. */
void time_i16(size_t m, size_t n, size_t k) {
    int32_t *pairs = k ? random_bytes(m * k * 2) : NULL;
    int32_t *weights = random_bytes((n + 63) / 64 * 64 * (k + 1) * 2);
    float *x = new_floats(m * n, FILL_UNIFORM);
    if (k)
        printf("%-10s %4zu x %4zu x %4zu  %s", "i16", m, n, k, speed_unit("GMAC/s"));
    else
        printf("%-11s%4zu x %4zu           %s", "i16 softmax", m, n, speed_unit("GB/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        struct timed t = {.set = kernels_at(s), .kernel = I16, .m = m, .n = n, .k = k / 2};
        t.source = k ? NULL : x;
        t.x = place_rows(SLOT_X, x, m, n, n);
        t.bias = place_rows(SLOT_BIAS, x, 1, m, m);
        t.pairs = pairs;
        t.i16_weights = weights;
        if (!t.set->i16)
            printf("%16s", "-");
        else if (k)
            print_speed(&t, (double)(m * n * k) * 1e-9);
        else
            print_speed(&t, (double)(m * n) * 6e-9);
        fflush(stdout);
    }
    printf("\n");
    free(pairs);
    free(weights);
    free(x);
}

#ifndef __wasm__
/* ---- bfloats -------------------------------------------------------------------------------- */

/* Times a product in the sets that have it here. */
void time_bf16(size_t m, size_t n, size_t k) {
    float *w = new_floats(n * k, FILL_UNIFORM), *x = new_floats(m * k, FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM), *y = random_bytes(m * n * sizeof *y);
    uint16_t *packed = random_bytes(packed_bf16_bytes(n, k));
    uint16_t *rounded = random_bytes(m * bf16_row(k) * sizeof *rounded);
    pack_bf16(w, n, k, packed);
    bf16_scalar.round(x, m, k, rounded);
    printf("%-10s %4zu x %4zu x %4zu  %s", kernel_name(BF16), m, n, k, speed_unit("GMAC/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        const struct timed t = {.set = kernels_at(s),
                                .kernel = BF16,
                                .m = m,
                                .n = n,
                                .k = k,
                                .bfloats = rounded,
                                .bfloat_weights = packed,
                                .bias = bias,
                                .x = y};
        if (t.set->bf16 && t.set->bf16->runs())
            print_speed(&t, (double)(m * n * k) * 1e-9);
        else
            printf("%16s", "-");
        fflush(stdout);
    }
    printf("\n");
    free(w);
    free(x);
    free(bias);
    free(y);
    free(packed);
    free(rounded);
}

/* ---- indexes -------------------------------------------------------------------------------- */

/* Times the products of a query with n vectors, in the sets that have them. */
void time_dots_int8(size_t n, size_t k) {
    int8_t *vectors = random_bytes(n * k);
    int16_t *query = random_bytes(k * sizeof *query);
    float *sums = random_bytes(n * sizeof *sums);
    printf("%-10s %4d x %6zu x %4zu %s", kernel_name(DOTS_INT8), 1, n, k, speed_unit("GMAC/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        const struct timed t = {.set = kernels_at(s),
                                .kernel = DOTS_INT8,
                                .n = n,
                                .k = k,
                                .query = query,
                                .vectors = vectors,
                                .x = sums};
        print_speed(&t, (double)(n * k) * 1e-9);
        fflush(stdout);
    }
    printf("\n");
    free(vectors);
    free(query);
    free(sums);
}
#endif

/* ---- attention ------------------------------------------------------------------------------ */

/* Full attention of a text. GMAC/s count the products with all keys, so that a causal mask, which
 * needs about half of them, can be compared. */
void time_attention(size_t tokens, size_t heads, size_t kv_heads, size_t head_size, bool causal,
                    bool i16) {
    const size_t q_size = heads * head_size, kv_size = kv_heads * head_size;
    const size_t ld = q_size + 2 * kv_size;
    float *qkv = new_floats(tokens * ld, FILL_UNIFORM);
    const struct attention_shape shape = {.heads = heads,
                                          .kv_heads = kv_heads,
                                          .head_size = head_size,
                                          .scale = 1 / sqrtf((float)head_size),
                                          .mask = causal ? ATTENTION_CAUSAL : ATTENTION_ALL_KEYS,
                                          .i16 = i16};
    const struct attention_sequence sequence = {.q = {qkv, ld, head_size},
                                                .k = {qkv + q_size, ld, head_size},
                                                .v = {qkv + q_size + kv_size, ld, head_size},
                                                .queries = tokens,
                                                .keys = tokens,
                                                .end = tokens};
    printf("%s %s %4zu x %2zu/%2zu x %2zu  %s", causal ? "causal" : "full  ", i16 ? "i16" : "f32",
           tokens, heads, kv_heads, head_size, speed_unit("GMAC/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        struct timed t = {.set = kernels_at(s), .kernel = ATTENTION, .k = q_size};
        const size_t bytes = attention_full.workspace_bytes(t.set, &shape, tokens);
        t.attention = &shape;
        t.sequence = &sequence;
        t.space = (struct workspace){.base = memory_allocate(bytes), .capacity = bytes};
        t.x = random_bytes(tokens * q_size * sizeof *t.x);
        if (i16 && !t.set->i16)
            printf("%16s", "-");
        else
            print_speed(&t, 2e-9 * (double)(tokens * tokens * q_size));
        fflush(stdout);
        free(t.x);
        workspace_release(&t.space);
    }
    printf("\n");
    free(qkv);
}
