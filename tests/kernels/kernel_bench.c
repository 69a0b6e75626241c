/* SPDX-License-Identifier: Apache-2.0
 * Measures the speed of each set at the shapes of all-MiniLM-L6-v2 and, in int8, of BERT-base,
 * through the same calls that the checks use. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "kernel_bench.h"
#include "quant/blocks.h"
#include "quant/codecs.h"
#ifndef __wasm__
#include "support/steps.h"
#endif

#define LEAST_SECONDS 0.03

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void call_once(const struct timed *t) {
    switch (t->kernel) {
    case GEMM_F32:
    case GEMM_INT8:
    case GEMM_NARROW:
    case GEMM_Q4:
    case GEMM_Q4_1:
    case GEMM_Q4_K:
    case GEMM_Q2_K:
    case GEMM_Q3_K:
    case GEMM_Q5_K:
    case GEMM_Q6_K:
    case GEMM_Q5_0:
    case GEMM_Q5_1:
    case GEMM_IQ4_NL:
    case GEMM_IQ4_XS:
    case GEMM_MXFP4:
    case GEMM_TERNARY:
    case GEMM_Q2_0:
    case GEMM_PQ2_0:
    case GEMM_I2_S:
    case GEMM_F16:
    case GEMM_BF16:
        call_gemm(t->set, &t->gemm);
        break;
    case QUANTISE:
        (t->set->quantise ? t->set->quantise : t->set->quantise_narrow)(t->x, t->m, t->n, t->rows);
        break;
    case LAYER_NORM:
        t->set->layer_norm(t->x, t->other, t->bias, t->bias, 1e-12f, t->m, t->n);
        break;
    case RMS_NORM:
        t->set->rms_norm(t->x, t->bias, 1e-5f, t->m, t->n, t->other);
        break;
    case GELU:
        t->set->gelu(t->x, t->m * t->n);
        break;
    case RELU:
        t->set->relu(t->x, t->m * t->n);
        break;
    case SILU_MUL:
        t->set->silu_mul(t->x, t->other, t->m * t->n);
        break;
#ifdef DECODER_KERNELS
    case GELU_TANH:
        t->set->gelu_tanh(t->x, t->m * t->n);
        break;
    case MULTIPLY:
        t->set->multiply(t->x, t->other, t->m * t->n);
        break;
    case SOFT_CAP:
        t->set->soft_cap(t->x, t->m * t->n, 1, 50);
        break;
#endif
    case SOFTMAX:
        t->set->softmax(t->x, t->n, t->m, t->n, 1);
        break;
    case ADD:
        t->set->add(t->x, t->other, t->m * t->n);
        break;
    case SPARSE:
        t->half(t->sparse);
        break;
    case I16:
        if (t->pairs)
            t->set->i16->gemm(t->pairs, t->k, t->i16_weights, t->bias, t->x, t->n, t->m, t->n,
                              2 * t->k);
        else
            t->set->i16->softmax(t->x, t->n, t->m, t->n, 1, i16_most(t->n), t->bias);
        break;
#ifndef __wasm__
    case BF16:
        t->set->bf16->gemm(t->bfloats, t->bfloat_weights, t->bias, t->x, t->n, t->m, t->n, t->k);
        break;
#endif
    case ATTENTION:
        attention_full.run(t->set, t->attention, t->sequence, t->x, t->k, t->space);
        break;
#ifndef __wasm__
    case DOTS_INT8:
        t->set->dots_int8(t->query, t->vectors, t->k, t->n, t->k, (int32_t *)(void *)t->x);
        break;
#endif
    case PACK:
        t->set->pack_f32(t->x, t->n, t->m, t->n, t->packed);
        break;
    default:
        t->x[0] += 1e-9f * t->set->dot(t->x, t->other, t->m * t->n);
    }
}

void *random_bytes(size_t n) {
    uint8_t *bytes = aligned_alloc(64, (n + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)rng_below(&kernel_rng, 256);
    return bytes;
}

static double time_of_calls(const struct timed *t, int calls) {
    /* Restores the inputs of a kernel that works in place, which else would be timed on ever
     * smaller numbers. */
    if (t->source)
        memcpy(t->x, t->source, t->m * t->n * sizeof *t->x);
    const double start = seconds();
    for (int i = 0; i < calls; i++)
        call_once(t);
    return seconds() - start;
}

/* Returns the least time of a call, over as many calls as fit. Short calls are timed several at
 * once, so that the clock does not count. */
static double time_of(const struct timed *t) {
    int calls = 1;
    while (time_of_calls(t, calls) < 20e-6)
        calls *= 2;
    double best = 1e9;
    const double end = seconds() + LEAST_SECONDS;
    for (int i = 0; i < 3 || seconds() < end; i++) {
        const double taken = time_of_calls(t, calls) / calls;
        best = taken < best ? taken : best;
    }
    return best;
}

/* ---- instructions instead of times ---------------------------------------------------------- */

static bool counting;

const char *speed_unit(const char *unit) {
    return counting ? "" : unit;
}

#ifndef __wasm__
#if defined(__clang__)
static const char compiler[] = "clang " __clang_version__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

static void call_timed(const void *t) {
    call_once(t);
}
#endif

void print_speed(const struct timed *t, double work) {
#ifndef __wasm__
    if (counting && t->set == &kernels_scalar) {
        printf("%16s", "-"); /* it is not meant to be fast */
        return;
    }
    if (counting) {
        printf("%16zu", steps_of(call_timed, t));
        return;
    }
#endif
    printf("%16.1f", work / time_of(t));
}

static bool is_of_blocks(enum kernel kernel) {
    return kernel >= GEMM_Q4_1 && kernel <= GEMM_I2_S;
}

/* Returns the format in which weights are stored for a product. */
static const struct block_format *format_of(enum kernel kernel) {
    return block_format_by_id(kernel == GEMM_Q4        ? BLOCK_Q4_0
                              : kernel == GEMM_Q4_1    ? BLOCK_Q4_1
                              : kernel == GEMM_Q2_K    ? BLOCK_Q2_K
                              : kernel == GEMM_Q3_K    ? BLOCK_Q3_K
                              : kernel == GEMM_Q4_K    ? BLOCK_Q4_K
                              : kernel == GEMM_Q5_K    ? BLOCK_Q5_K
                              : kernel == GEMM_Q6_K    ? BLOCK_Q6_K
                              : kernel == GEMM_Q5_0    ? BLOCK_Q5_0
                              : kernel == GEMM_Q5_1    ? BLOCK_Q5_1
                              : kernel == GEMM_IQ4_NL  ? BLOCK_IQ4_NL
                              : kernel == GEMM_IQ4_XS  ? BLOCK_IQ4_XS
                              : kernel == GEMM_MXFP4   ? BLOCK_MXFP4
                              : kernel == GEMM_TERNARY ? BLOCK_TQ2_0
                              : kernel == GEMM_Q2_0    ? BLOCK_Q2_0
                              : kernel == GEMM_PQ2_0   ? BLOCK_PQ2_0
                              : kernel == GEMM_F16     ? BLOCK_F16
                              : kernel == GEMM_BF16    ? BLOCK_BF16
                                                       : BLOCK_F32);
}

/* Stores n weights as the product takes them. Without a quantiser, which types that are only read
 * do not have, and WebAssembly has for none, blocks have codes and scales of 0x35, that are no
 * numbers of a model, which takes as long. */
static void store_weights(enum kernel kernel, const float *w, size_t n, void *stored) {
    const struct block_format *format = format_of(kernel);
    if (kernel == GEMM_I2_S)
        for (size_t i = 0; i < n; i++)
            ((float *)stored)[i] = (float)((w[i] > 0.5f) - (w[i] < -0.5f));
    else if (format->quantise)
        format->quantise(w, n / format->elements * format->elements, stored);
    else if (format->elements > 1)
        memset(stored, 0x35, n / format->elements * format->bytes);
    else
        memcpy(stored, w, n * sizeof *w);
}

static void time_gemm(enum kernel kernel, size_t m, size_t n, size_t row) {
    const size_t k = kernel == GEMM_TERNARY ? (row + 255) / 256 * 256 : row;
    float *x = new_floats(m * k, FILL_UNIFORM), *w = new_floats(n * k, FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM);
    struct product p = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias};
    const bool narrow = kernel == GEMM_NARROW;
    const struct quantised_rows rows = new_quantised(m, k, narrow);
    (narrow ? kernels_scalar.quantise_narrow : kernels_scalar.quantise)(x, m, k, rows);
    void *stored = allocate(n * k * sizeof(float));
    const bool blocks = is_of_blocks(kernel), quantised = kernel == GEMM_Q4 || blocks;
    store_weights(kernel, w, n * k, stored);
    if (kernel == GEMM_INT8 || narrow || quantised)
        p.rows = rows;
    p.narrow = narrow;
    if (blocks)
        p.blocks = kernel;
    if (quantised || kernel == GEMM_F16 || kernel == GEMM_BF16)
        p.stored = stored;
    p.bfloats = kernel == GEMM_BF16;
    printf("%-12s %4zu x %4zu x %4zu  %s", kernel_name(kernel), m, n, k, speed_unit("GMAC/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        struct timed t = {.set = kernels_at(s), .kernel = kernel};
        if (has_gemm(t.set, kernel)) {
            t.gemm = place_gemm(t.set, &p);
            print_speed(&t, (double)m * (double)n * (double)k * 1e-9);
        } else {
            printf("%16s", "-");
        }
        fflush(stdout);
    }
    printf("\n");
    free(stored);
    free_quantised(rows);
    free(x);
    free(w);
    free(bias);
}

/* ---- one row, from memory ------------------------------------------------------------------- */

/* Bytes far beyond the caches, and the length of rows. */
enum { MEMORY_BYTES = 128 << 20, MEMORY_K = 4096, MEMORY_ROWS = 64 };

/* Returns how many bytes a second a plain loop reads. */
static double read_speed(void) {
    enum { WORDS = MEMORY_BYTES / 8, SUMS = 16 };
    uint64_t *words = random_bytes(MEMORY_BYTES), sums[SUMS] = {0};
    double best = 1e9;
    for (int round = 0; round < 24; round++) {
        const double start = seconds();
        for (size_t i = 0; i < WORDS; i += SUMS)
            for (size_t j = 0; j < SUMS; j++)
                sums[j] += words[i + j];
        best = fmin(best, seconds() - start);
    }
    volatile uint64_t kept = sums[0] + sums[SUMS - 1]; /* or the loop would be left out */
    (void)kept;
    free(words);
    return (double)MEMORY_BYTES / best;
}

/* Prints how many bytes of packed weights a second the product of one row takes from memory, and
 * which share of `most` that is. 256 weights take `bytes`. The rows are MEMORY_ROWS random ones,
 * repeated. */
static void time_from_memory(enum kernel kernel, size_t bytes, double most) {
    const size_t k = MEMORY_K, some = MEMORY_ROWS * k;
    const size_t n = MEMORY_BYTES / (k / 256 * bytes) / MEMORY_ROWS * MEMORY_ROWS;
    const bool is_int8 = kernel == GEMM_INT8;
    float *x = new_floats(k, FILL_UNIFORM), *w = new_floats(some, FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM);
    unsigned char *few = allocate(some * sizeof(float));
    store_weights(kernel, w, some, few);
    const struct block_format *format = format_of(kernel);
    const size_t few_bytes = some / format->elements * format->bytes;
    unsigned char *stored = allocate(n / MEMORY_ROWS * few_bytes);
    for (size_t i = 0; i < n / MEMORY_ROWS; i++)
        memcpy(stored + i * few_bytes, is_int8 ? (const void *)w : few, few_bytes);
    struct product p = {.m = 1, .n = n, .k = k, .bias = bias, .rows = new_quantised(1, k, false)};
    kernels_scalar.quantise(x, 1, k, p.rows);
    if (is_int8)
        p.w = (const float *)(const void *)stored;
    else
        p.stored = stored;
    if (is_of_blocks(kernel))
        p.blocks = kernel;
    printf("%-12s %4d x %4zu x %4zu    %s", kernel_name(kernel), 1, n, k, speed_unit("GB/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        struct timed t = {.set = kernels_at(s), .kernel = kernel};
        if (has_gemm(t.set, kernel)) {
            t.gemm = place_gemm(t.set, &p);
            const double speed = (double)n * (double)k / 256 * (double)bytes / time_of(&t);
            printf("%8.1f %3.0f %%", speed * 1e-9, 100 * speed / most);
        } else {
            printf("%16s", "-");
        }
        fflush(stdout);
    }
    printf("\n");
    free_quantised(p.rows);
    free(stored);
    free(few);
    free(bias);
    free(w);
    free(x);
}

static void time_all_from_memory(void) {
    const double most = read_speed();
    printf("one row of weights from memory, of which a loop reads %.1f GB/s\n", most * 1e-9);
    time_from_memory(GEMM_INT8, 272, most);
    time_from_memory(GEMM_Q4, 152, most);
    time_from_memory(GEMM_Q4_1, 168, most);
    time_from_memory(GEMM_Q2_K, 96, most);
    time_from_memory(GEMM_Q3_K, 124, most);
    time_from_memory(GEMM_Q4_K, 160, most);
    time_from_memory(GEMM_Q5_K, 192, most);
    time_from_memory(GEMM_Q6_K, 220, most);
    time_from_memory(GEMM_Q5_0, 184, most);
    time_from_memory(GEMM_Q5_1, 200, most);
    time_from_memory(GEMM_IQ4_NL, 152, most);
    time_from_memory(GEMM_IQ4_XS, 148, most);
    time_from_memory(GEMM_MXFP4, 152, most);
    time_from_memory(GEMM_TERNARY, 70, most);
    time_from_memory(GEMM_Q2_0, 80, most);
    time_from_memory(GEMM_PQ2_0, 72, most);
}

/* ---- sparse layers -------------------------------------------------------------------------- */

/* Prints the dense products of the same number of tokens and shape first, of which a set has one,
 * then shares of it. */
static void time_sparse_layers(size_t hidden, size_t wide) {
    static const size_t percents[] = {7, 16, 30, 50};
    time_gemm(GEMM_INT8, SPARSE_TOKENS, wide, hidden);
    time_gemm(GEMM_NARROW, SPARSE_TOKENS, wide, hidden);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
        time_sparse(true, wide, hidden, percents[i]);
    time_gemm(GEMM_INT8, SPARSE_TOKENS, hidden, wide);
    time_gemm(GEMM_NARROW, SPARSE_TOKENS, hidden, wide);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
        time_sparse(false, wide, hidden, percents[i]);
}

#ifndef __wasm__
static void time_all_bf16(void) {
    static const size_t batches[] = {1, 4, 16, 128, 256};
    static const size_t layers[][2] = {{1152, 384}, {384, 384}, {1536, 384}, {384, 1536}};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (size_t l = 0; l < 4; l++)
            time_bf16(batches[b], layers[l][0], layers[l][1]);
}
#endif

/* Times a product over the layers of an encoder of 384, and once beyond second-level caches. */
static void time_layers(enum kernel product) {
    static const size_t batches[] = {1, 2, 4, 8, 16, 128, 256};
    static const size_t layers[][2] = {{1152, 384}, {384, 384}, {1536, 384}, {384, 1536}};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (size_t l = 0; l < 4; l++)
            time_gemm(product, batches[b], layers[l][0], layers[l][1]);
    time_gemm(product, 1, 11008, 4096);
}

static void time_int8(void) {
    static const size_t base[][2] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};
    time_layers(GEMM_INT8);
    time_layers(GEMM_NARROW);
    for (size_t l = 0; l < 4; l++)
        for (int narrow = 0; narrow < 2; narrow++)
            time_gemm(narrow ? GEMM_NARROW : GEMM_INT8, 128, base[l][0], base[l][1]);
}

#ifndef __wasm__
/* Counts instructions of shapes that are small, since stopping after each takes ten microseconds.
 * Of a product these are one row, as a decoder has, and some, as an encoder has. */
static void count_all(void) {
    static const enum kernel blocks[] = {
        GEMM_F16,    GEMM_BF16,  GEMM_Q4,      GEMM_Q4_1, GEMM_Q2_K,  GEMM_Q3_K,
        GEMM_Q4_K,   GEMM_Q5_K,  GEMM_Q6_K,    GEMM_Q5_0, GEMM_Q5_1,  GEMM_IQ4_NL,
        GEMM_IQ4_XS, GEMM_MXFP4, GEMM_TERNARY, GEMM_Q2_0, GEMM_PQ2_0, GEMM_I2_S};
    static const enum kernel tiles[] = {GEMM_Q4,   GEMM_Q4_K,   GEMM_Q5_K,   GEMM_Q6_K,
                                        GEMM_Q5_0, GEMM_IQ4_NL, GEMM_TERNARY};
    static const enum kernel rows[] = {QUANTISE, LAYER_NORM, RMS_NORM, GELU,     RELU,
                                       SILU_MUL, GELU_TANH,  MULTIPLY, SOFT_CAP, SOFTMAX,
                                       ADD,      DOT,        PACK};
    for (size_t m = 1; m <= 12; m += 11) {
        time_gemm(GEMM_F32, m, 64, 96);
        time_gemm(GEMM_INT8, m, 64, 256);
        time_gemm(GEMM_NARROW, m, 64, 128);
    }
    for (size_t p = 0; p < sizeof blocks / sizeof *blocks; p++)
        time_gemm(blocks[p], 1, 32, 256);
    for (size_t p = 0; p < sizeof tiles / sizeof *tiles; p++)
        time_gemm(tiles[p], 4, 32, 256);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        time_rows(rows[r], 4, 192);
    time_bf16(12, 64, 96);
    time_i16(8, 64, 32);
    time_i16(8, 64, 0);
    time_attention(16, 2, 1, 32, false, false);
    time_attention(16, 2, 1, 32, true, false);
    time_attention(16, 2, 1, 32, false, true);
    time_dots_int8(8, 384);
}
#endif

void kernel_bench(const char *part) {
#ifndef __wasm__
    counting = strcmp(part, "count") == 0;
    if (counting)
        printf("%s\n", compiler);
#endif
    printf("%-35s", "kernel        m      n      k");
    for (size_t s = 0; kernels_at(s); s++)
        printf("%16s", kernels_at(s)->name);
    printf("\n");
    if (strcmp(part, "sparse") == 0) {
        time_sparse_layers(384, 1536);
        return;
    }
    if (strcmp(part, "blocks") == 0) {
        static const enum kernel blocks[] = {
            GEMM_INT8,   GEMM_NARROW, GEMM_Q4,      GEMM_Q4_1, GEMM_Q2_K,  GEMM_Q3_K,
            GEMM_Q4_K,   GEMM_Q5_K,   GEMM_Q6_K,    GEMM_Q5_0, GEMM_Q5_1,  GEMM_IQ4_NL,
            GEMM_IQ4_XS, GEMM_MXFP4,  GEMM_TERNARY, GEMM_Q2_0, GEMM_PQ2_0, GEMM_I2_S};
        static const size_t rows[] = {1, 2, 4, 16, 64};
        for (size_t p = 0; p < sizeof blocks / sizeof *blocks; p++)
            for (size_t b = 0; b < sizeof rows / sizeof *rows; b++)
                time_gemm(blocks[p], rows[b], 256, 1024);
        return;
    }
#ifndef __wasm__
    if (counting) {
        count_all();
        return;
    }
    if (strcmp(part, "bf16") == 0) {
        time_all_bf16();
        return;
    }
#endif
    if (strcmp(part, "int8") == 0) {
        time_int8();
        return;
    }
    time_all_from_memory();
    if (strcmp(part, "memory") == 0)
        return;
    static const enum kernel products[] = {
        GEMM_F32,   GEMM_F16,     GEMM_BF16, GEMM_Q4,    GEMM_Q4_1, GEMM_Q2_K,   GEMM_Q3_K,
        GEMM_Q4_K,  GEMM_Q5_K,    GEMM_Q6_K, GEMM_Q5_0,  GEMM_Q5_1, GEMM_IQ4_NL, GEMM_IQ4_XS,
        GEMM_MXFP4, GEMM_TERNARY, GEMM_Q2_0, GEMM_PQ2_0, GEMM_I2_S};
    time_int8();
    for (size_t p = 0; p < sizeof products / sizeof *products; p++)
        time_layers(products[p]);
    time_sparse_layers(384, 1536);
    time_gemm(GEMM_F32, 128, 128, 32); /* scores and contexts of a head of attention */
    time_gemm(GEMM_F32, 128, 32, 128);
    time_i16(128, 128, 32);
    time_i16(128, 32, 128);
    for (int i16 = 0; i16 < 2; i16++)
        for (int causal = 0; causal < 2; causal++) {
            time_attention(32, 12, 12, 32, causal, i16);
            time_attention(256, 12, 12, 32, causal, i16);
            time_attention(256, 12, 4, 64, causal, i16);
        }
    time_rows(QUANTISE, 128, 384);
    time_rows(QUANTISE, 128, 1536);
    time_rows(LAYER_NORM, 128, 384);
    time_rows(RMS_NORM, 128, 384);
    time_rows(GELU, 128, 1536);
    time_rows(RELU, 128, 1536);
    time_rows(SILU_MUL, 128, 1536);
#ifdef DECODER_KERNELS
    time_rows(GELU_TANH, 128, 1536);
    time_rows(MULTIPLY, 128, 1536);
    time_rows(SOFT_CAP, 128, 1536);
#endif
    time_rows(SOFTMAX, 128, 128);
    time_i16(128, 128, 0);
    time_rows(ADD, 128, 384);
    time_rows(DOT, 1, 384);
#ifndef __wasm__
    time_dots_int8(256, 384);
    time_dots_int8(100000, 384); /* beyond the caches */
#endif
    time_rows(PACK, 128, 32); /* the keys of a head */
}
