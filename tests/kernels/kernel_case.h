/* SPDX-License-Identifier: Apache-2.0
 * Code that the tests of kernels share: inputs of many kinds, the guarded buffers that hold them,
 * the calls themselves, and a record of how large the errors are. */
#ifndef WISP_TESTS_KERNEL_CASE_H
#define WISP_TESTS_KERNEL_CASE_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "support/guarded.h"
#include "support/rng.h"

/* Half the distance from 1 to the next float: the relative error of one rounding. */
#define ROUNDING 0x1p-24

/* The random numbers of all kernel tests. */
extern struct rng kernel_rng;

/* ---- inputs --------------------------------------------------------------------------------- */

enum fill {
    FILL_UNIFORM,     /* -1 .. 1 */
    FILL_WIDE,        /* magnitudes 2^-20 .. 2^20 */
    FILL_ZERO,        /* either sign */
    FILL_EQUAL,       /* one value */
    FILL_ONE_HUGE,    /* uniform, except for one value of 1e30 */
    FILL_LARGEST,     /* magnitudes of a quarter to half of FLT_MAX, either sign */
    FILL_DENORMAL,    /* either sign */
    FILL_TINY,        /* around the least normal number */
    FILL_ALTERNATING, /* v, -v, v, ... */
    FILL_FINITE,      /* the number of the kinds above */
    FILL_SPECIAL      /* uniform with NaN and infinities among it */
};

void fill_floats(float *x, size_t n, enum fill kind);

/* Allocates n floats with such values. The caller frees them. */
float *new_floats(size_t n, enum fill kind);

/* Calls malloc and ends the program if it fails. */
void *allocate(size_t bytes);

/* ---- guarded buffers ------------------------------------------------------------------------ */

enum slot { SLOT_X, SLOT_W, SLOT_BIAS, SLOT_Y, SLOT_Q, SLOT_SCALE, SLOT_ZERO, SLOTS };

/* Places a buffer of `bytes` bytes in a slot. A guard page is at one of its ends, by chance. Floats
 * are aligned to no more than a float needs. */
void *place(enum slot slot, size_t bytes);
void *place_anywhere(enum slot slot, size_t bytes); /* the address may also be odd; for bytes */

/* Places rows of n floats at a distance of `ld` floats. The floats between the rows stay canaries.
 */
float *place_rows(enum slot slot, const float *rows, size_t m, size_t n, size_t ld);

/* ---- kernels -------------------------------------------------------------------------------- */

enum kernel {
    GEMM_F32,
    QUANTISE,
    QUANTISE_NARROW,
    GEMM_INT8,
    GEMM_NARROW,
    GEMM_Q4,
    GEMM_Q4_1,
    GEMM_Q2_K,
    GEMM_Q3_K,
    GEMM_Q4_K,
    GEMM_Q5_K,
    GEMM_Q6_K,
    GEMM_Q5_0,
    GEMM_Q5_1,
    GEMM_IQ4_NL,
    GEMM_IQ4_XS,
    GEMM_MXFP4,
    GEMM_TERNARY,
    GEMM_Q2_0,
    GEMM_PQ2_0,
    GEMM_I2_S,
    GEMM_F16,
    GEMM_BF16,
    LAYER_NORM,
    RMS_NORM,
    GELU,
    RELU,
    SILU_MUL,
    GELU_TANH,
    MULTIPLY,
    SOFT_CAP, /* k is the cap, and scores are multiplied by SOFT_CAP_SCALE */
    SOFTMAX,
    ADD,
    KV, /* the kernels of kv_step.h */
    DOT,
    DOTS_INT8,
    PACK,      /* pack_f32 */
    ATTENTION, /* several of these together */
    I16,       /* the kernels of i16.h */
    BF16,      /* the kernels of bf16.h */
    SPARSE,    /* the kernels of sparse.h */
    KERNELS
};

/* Returns set `index` among those that run here and, last, kernels_scalar_portable; NULL past it.
 * The other portable sets have the bits of the last (kernel_portable.c). */
const struct kernels *checked_at(size_t index);

/* ---- calls ---------------------------------------------------------------------------------- */

/* A matrix product with dense inputs: w [n, k], bias [n] (for f32 it may be NULL), and either x [m,
 * k] or q, x quantised to 0..255. */
struct product {
    size_t m, n, k;
    const float *x, *w, *bias;
    struct quantised_rows rows; /* for int8, narrow and q4; q is NULL for floats */
    bool narrow;
    const void *stored; /* w as Q4_0 blocks or as 16-bit floats; else NULL */
    bool bfloats;       /* the 16-bit floats are bfloat16, not halves */
    enum kernel blocks; /* that of a type if w is stored as blocks of it, GEMM_TERNARY if as
                           TQ2_0, GEMM_I2_S if as floats, else 0 */
};

/* Returns the product's kind, by the inputs that it has. */
enum kernel product_kernel(const struct product *product);

/* A product whose inputs are in guarded buffers and packed for a set. */
struct gemm_call {
    enum kernel kernel;
    size_t m, n, k, ldx, ldy;
    const float *x, *bias;
    const void *w;
    struct quantised_rows rows;
    float *y; /* [m, ldy]; the last row ends after n values */
};

struct gemm_call place_gemm(const struct kernels *set, const struct product *product);

/* Return whether the set has the product, and call it. */
bool has_gemm(const struct kernels *set, enum kernel kernel);
void call_gemm(const struct kernels *set, const struct gemm_call *call);

/* Return the values of a block, and the number of blocks of a row of k, in narrow or other
 * products. */
static inline size_t block_values(bool narrow) {
    return narrow ? NARROW_BLOCK : INT8_BLOCK;
}

static inline size_t blocks_of(size_t k, bool narrow) {
    return narrow ? narrow_blocks(k) : int8_blocks(k);
}

/* Makes room for m quantised rows of k, in the slots Q, SCALE and ZERO. */
struct quantised_rows place_quantised(size_t m, size_t k, bool narrow);

/* ---- results -------------------------------------------------------------------------------- */

const char *kernel_name(enum kernel kernel);

/* The result that is compared, for the message if it is wrong. */
struct where {
    enum kernel kernel;
    const struct kernels *set;
    size_t m, n, k;
    enum fill fill;
};

/* Fails the test unless `got` is within the tolerance of `want`. */
void expect_near(const struct where *where, size_t i, size_t j, float got, double want,
                 double tolerance);

/* Fails the test if the n bytes differ. */
void expect_same_bits(const struct where *where, const char *what, const void *got,
                      const void *want, size_t n);

/* Fails the test if anything was written outside the buffers, or between the rows of y. */
void expect_intact(const struct where *where);
void expect_padding(const struct where *where, const float *y, size_t m, size_t n, size_t ldy);

/* The largest error of each kernel and set so far, as a share of the tolerance. */
void print_worst_errors(void);

/* With `large` there is room for weights that do not fit the caches. */
void kernel_cases_open(uint64_t seed, bool large);
void kernel_cases_close(void);

/* ---- checks of products --------------------------------------------------------------------- */

/* Computes the exact y and the error that a kernel may have, both [m, n]. */
struct exact {
    double *y, *tolerance;
};

struct exact new_exact(size_t m, size_t n);
void free_exact(struct exact exact);

/* Checks every set: results near enough, nothing written elsewhere, the same bits in any other
 * batch, and the same bits as a set that differs only in speed. */
void check_product(const struct product *product, const struct exact *exact, enum fill kind);

/* Allocates m rows of k, whose values are not set. */
struct quantised_rows new_quantised(size_t m, size_t k, bool narrow);
void free_quantised(struct quantised_rows rows);

/* Calls a kernel that works element by element on x [n], with a second input if it has one.
 * Checks that an element's bits do not depend on its place. The caller frees the result. */
float *run_elementwise(const struct where *where, const float *x, const float *other);

/* Calls `check` with every `step`-th float from low to high, and as many below zero. */
void sweep_elementwise(void (*check)(const float *x, size_t n, enum fill kind), float low,
                       float high, uint32_t step);

#define SOFT_CAP_SCALE 0.125f

/* kernels.h does not say how exact e^x is. This is the error that exp2_of in rows_template.h states
 * for itself; it uses 2^-126 for any lesser power. */
#define EXP_ERROR 2e-7

/* Returns the relative error of e^x if x was rounded four times on the way to being a power of
 * 2, which counts for more the larger x is. */
double exponent_error(double x);

/* ---- the tests, for cmocka ------------------------------------------------------------------ */

/* kernel_gemm_f32.c */
void test_pack_f32(void **state);
void test_set_packing(void **state);
void test_gemm_f32_small_shapes(void **state);
void test_gemm_f32_every_k(void **state);
void test_gemm_f32_random_shapes(void **state);
void test_gemm_f32_extremes(void **state);
void test_gemm_f32_special_values(void **state);

/* kernel_gemm_int8.c */
void test_pack_int8(void **state);
void test_gemm_int8_small_shapes(void **state);
void test_gemm_int8_every_k(void **state);
void test_gemm_int8_random_shapes(void **state);
void test_gemm_int8_long_rows(void **state);
void test_gemm_int8_extremes(void **state);
void test_gemm_int8_never_saturates(void **state);
void test_gemm_int8_special_values(void **state);

/* kernel_weights.c */
void test_weights_packed(void **state);
void test_weights_moved(void **state);

/* kernel_gemm_q4.c */
void test_pack_q4(void **state);
void test_gemm_q4_small_shapes(void **state);
void test_gemm_q4_random_shapes(void **state);
void test_gemm_q4_extremes(void **state);
void test_gemm_q4_never_saturates(void **state);

/* kernel_gemm_blocks.c */
void test_gemm_q4_1(void **state);
void test_gemm_q4_k(void **state);
void test_gemm_q2_k(void **state);
void test_gemm_q3_k(void **state);
void test_gemm_q5_k(void **state);
void test_gemm_q6_k(void **state);
void test_gemm_iq4_nl(void **state);
void test_gemm_iq4_xs(void **state);
void test_gemm_mxfp4(void **state);
void test_pack_levels(void **state);
void test_pack_ternary(void **state);
void test_gemm_ternary(void **state);
void test_gemm_i2_s(void **state);
void test_gemm_q5_0(void **state);
void test_gemm_q5_1(void **state);
void test_gemm_q2_0(void **state);
void test_gemm_pq2_0(void **state);
void test_gemm_blocks_never_saturate(void **state);

/* kernel_gemm_f16.c */
void test_gemm_f16(void **state);

#ifndef __wasm__
/* kernel_bf16.c */
void test_bf16_rounding(void **state);
void test_pack_bf16(void **state);
void test_bf16_gemm(void **state);
void test_bf16_special_values(void **state);
#endif

/* kernel_elementwise.c */
void test_add_and_relu(void **state);
void test_gelu(void **state);
void test_silu_mul(void **state);
void test_elementwise_special_values(void **state);

/* kernel_rows.c */
void test_dot(void **state);
void test_dots_int8(void **state);
void test_layer_norm(void **state);
void test_rms_norm(void **state);
void test_softmax(void **state);
void test_softmax_exponential(void **state);
void test_rows_special_values(void **state);

/* kernel_quantise.c */
void test_quantise(void **state);
void test_quantise_special_values(void **state);

/* kernel_decoder.c */
void test_gelu_tanh(void **state);
void test_multiply(void **state);
void test_soft_cap(void **state);

/* kernel_i16.c */
void test_i16_numbers(void **state);
void test_i16_gemm(void **state);
void test_i16_softmax(void **state);
void test_i16_special_values(void **state);

/* kernel_kv_step.c */
void test_kv_score_int8(void **state);
void test_kv_shares(void **state);
void test_kv_shares_int8(void **state);
void test_kv_mass(void **state);
void test_kv_add_up(void **state);

/* kernel_portable.c */
void test_portable_elementwise(void **state);
void test_portable_layer_norm(void **state);
void test_portable_gemm(void **state);
void test_portable_i16(void **state);

/* kernel_sparse.c */
void test_sparse_random_layers(void **state);
void test_sparse_extremes(void **state);
void test_sparse_special_values(void **state);

/* kernel_sparse_known.c */
void test_pack_neurons(void **state);
void test_pack_narrow_rows(void **state);
void test_sparse_never_saturates(void **state);

/* Prints the times of every set and kernel as a table: all, or those of products whose weights come
 * from memory ("memory"), or those of sparse layers ("sparse"). */
void kernel_bench(const char *part);

#endif
