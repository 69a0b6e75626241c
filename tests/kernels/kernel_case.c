/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_case.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"

enum { SLOT_CAPACITY = 4 << 20, LARGE_CAPACITY = 192 << 20, MAX_SETS = 6 };

struct rng kernel_rng;

static struct guarded slots[SLOTS];
static bool slot_used[SLOTS];
static double worst[KERNELS][MAX_SETS];
static bool compared[KERNELS];

/* ---- inputs --------------------------------------------------------------------------------- */

static float either_sign(float magnitude) {
    return rng_coin(&kernel_rng) ? magnitude : -magnitude;
}

static float special_value(void) {
    static const float special[] = {NAN, INFINITY, -INFINITY, -NAN};
    return special[rng_below(&kernel_rng, 4)];
}

static float value_of(enum fill kind, size_t i, float common) {
    struct rng *rng = &kernel_rng;
    switch (kind) {
    case FILL_WIDE:
        return either_sign(exp2f(rng_between(rng, -20, 20)));
    case FILL_ZERO:
        return either_sign(0);
    case FILL_EQUAL:
        return common;
    case FILL_LARGEST:
        return either_sign(rng_between(rng, FLT_MAX / 4, FLT_MAX / 2));
    case FILL_DENORMAL:
        return either_sign(float_of_bits((uint32_t)rng_below(rng, 0x800000)));
    case FILL_TINY:
        return either_sign(exp2f(rng_between(rng, -130, -110)));
    case FILL_ALTERNATING:
        return i % 2 == 0 ? common : -common;
    case FILL_SPECIAL:
        if (rng_below(rng, 8) == 0)
            return special_value();
        return rng_between(rng, -1, 1);
    default:
        return rng_between(rng, -1, 1);
    }
}

void fill_floats(float *x, size_t n, enum fill kind) {
    const float common = rng_between(&kernel_rng, -3, 3);
    for (size_t i = 0; i < n; i++)
        x[i] = value_of(kind, i, common);
    if (kind == FILL_ONE_HUGE && n > 0)
        x[rng_below(&kernel_rng, n)] = either_sign(1e30f);
}

void *allocate(size_t bytes) {
    void *block = malloc(bytes > 0 ? bytes : 1);
    if (!block) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return block;
}

float *new_floats(size_t n, enum fill kind) {
    float *x = allocate(n * sizeof *x);
    fill_floats(x, n, kind);
    return x;
}

/* ---- guarded buffers ------------------------------------------------------------------------ */

void *place(enum slot slot, size_t bytes) {
    slot_used[slot] = true;
    return guarded_place(&slots[slot], bytes,
                         rng_below(&kernel_rng, 3) == 0 ? GUARDED_START : GUARDED_END);
}

void *place_anywhere(enum slot slot, size_t bytes) {
    slot_used[slot] = true;
    const enum guarded_side side = (enum guarded_side)rng_below(&kernel_rng, GUARDED_SIDES);
    return guarded_place(&slots[slot], bytes, side);
}

/* Returns the number of floats from the first value of the first row to the last of the last row.
 */
static size_t span(size_t m, size_t n, size_t ld) {
    return m > 0 ? (m - 1) * ld + n : 0;
}

float *place_rows(enum slot slot, const float *rows, size_t m, size_t n, size_t ld) {
    float *to = place(slot, span(m, n, ld) * sizeof *to);
    for (size_t i = 0; i < m; i++)
        memcpy(to + i * ld, rows + i * n, n * sizeof *to);
    return to;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Returns the distance between rows: n, or a little more. */
static size_t some_distance(size_t n) {
    return rng_coin(&kernel_rng) ? n : n + rng_range(&kernel_rng, 1, 9);
}

static void place_f32(const struct kernels *set, const struct product *p, struct gemm_call *call) {
    call->ldx = some_distance(p->k);
    call->x = place_rows(SLOT_X, p->x, p->m, p->k, call->ldx);
    float *packed = place(SLOT_W, packed_f32_floats(p->n, p->k, set->f32_panel) * sizeof *packed);
    pack_f32(p->w, p->k, p->n, p->k, set->f32_panel, packed);
    call->w = packed;
}

static void place_halves(const struct kernels *set, const struct product *p,
                         struct gemm_call *call) {
    call->ldx = some_distance(p->k);
    call->x = place_rows(SLOT_X, p->x, p->m, p->k, call->ldx);
    void *packed = place(SLOT_W, packed_f32_floats(p->n, p->k, set->f32_panel) * 2);
    pack_halves(p->stored, p->n, p->k, set->f32_panel, packed);
    call->w = packed;
}

struct quantised_rows place_quantised(size_t m, size_t k, bool narrow) {
    const size_t floats = m * blocks_of(k, narrow) * sizeof(float);
    return (struct quantised_rows){.q = place_anywhere(SLOT_Q, m * int8_row_bytes(k)),
                                   .scale = place(SLOT_SCALE, floats),
                                   .zero = place(SLOT_ZERO, floats)};
}

static void place_quantised_product(const struct kernels *set, const struct product *p,
                                    struct gemm_call *call) {
    const size_t bytes = p->m * int8_row_bytes(p->k), blocks = p->m * blocks_of(p->k, p->narrow);
    call->rows = place_quantised(p->m, p->k, p->narrow);
    for (size_t i = 0; i < bytes; i++)
        call->rows.q[i] = p->rows.q[i] ^ (set->signed_activations ? 0x80 : 0);
    for (size_t i = 0; i < blocks; i++) {
        call->rows.scale[i] = p->rows.scale[i];
        call->rows.zero[i] = p->rows.zero[i] - (set->signed_activations ? 128.0f : 0.0f);
    }
    void *packed;
    if (p->blocks) {
        static const struct {
            enum kernel kernel;
            size_t (*size)(size_t n, size_t k, size_t panel);
            void (*pack)(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
            size_t sums;
        } packers[] = {{GEMM_Q4_1, packed_q4_1_bytes, pack_q4_1, 32},
                       {GEMM_Q2_K, packed_q2_k_bytes, pack_q2_k, 16},
                       {GEMM_Q3_K, packed_q3_k_bytes, pack_q3_k, 0},
                       {GEMM_Q4_K, packed_q4_k_bytes, pack_q4_k, 32},
                       {GEMM_Q5_K, packed_q5_k_bytes, pack_q5_k, 32},
                       {GEMM_Q6_K, packed_q6_k_bytes, pack_q6_k, 0},
                       {GEMM_Q5_0, packed_q5_0_bytes, pack_q5_0, 32},
                       {GEMM_Q5_1, packed_q5_1_bytes, pack_q5_1, 32},
                       {GEMM_IQ4_NL, packed_iq4_nl_bytes, pack_iq4_nl, 0},
                       {GEMM_IQ4_XS, packed_iq4_xs_bytes, pack_iq4_xs, 0},
                       {GEMM_MXFP4, packed_mxfp4_bytes, pack_mxfp4, 0},
                       {GEMM_TERNARY, packed_ternary_bytes, pack_tq2_0, 128},
                       {GEMM_Q2_0, packed_q2_0_bytes, pack_q2_0, 64},
                       {GEMM_PQ2_0, packed_pq2_0_bytes, pack_pq2_0, 128},
                       {GEMM_I2_S, packed_i2_s_bytes, pack_i2_s, 128}};
        size_t i = 0;
        while (packers[i].kernel != p->blocks)
            i++;
        packed = place(SLOT_W, packers[i].size(p->n, p->k, set->q4_panel));
        packers[i].pack(p->stored, p->n, p->k, set->q4_panel, packed);
        if (packers[i].sums > 0) {
            const size_t sums = p->m * (p->k / packers[i].sums);
            call->rows.part_sums = place(SLOT_X, sums * sizeof(float));
            sum_parts(call->rows, p->m, p->k, packers[i].sums, set->signed_activations);
        }
    } else if (p->stored) {
        packed = place(SLOT_W, packed_q4_bytes(p->n, p->k, set->q4_panel));
        pack_q4(p->stored, p->n, p->k, set->q4_panel, packed);
    } else if (p->narrow) {
        packed = place(SLOT_W, packed_narrow_bytes(p->n, p->k, set->narrow_panel));
        pack_narrow(p->w, p->k, p->n, p->k, set->narrow_panel, packed);
    } else {
        packed = place(SLOT_W, packed_int8_bytes(p->n, p->k, set->int8_panel));
        pack_int8(p->w, p->k, p->n, p->k, set->int8_panel, packed);
    }
    call->w = packed;
}

enum kernel product_kernel(const struct product *p) {
    if (p->blocks)
        return p->blocks;
    if (p->rows.q)
        return p->stored ? GEMM_Q4 : p->narrow ? GEMM_NARROW : GEMM_INT8;
    return !p->stored ? GEMM_F32 : p->bfloats ? GEMM_BF16 : GEMM_F16;
}

struct gemm_call place_gemm(const struct kernels *set, const struct product *p) {
    struct gemm_call call = {.m = p->m, .n = p->n, .k = p->k, .ldy = some_distance(p->n)};
    call.y = place(SLOT_Y, span(p->m, p->n, call.ldy) * sizeof *call.y);
    if (p->bias)
        call.bias = place_rows(SLOT_BIAS, p->bias, 1, p->n, p->n);
    call.kernel = product_kernel(p);
    if (p->rows.q)
        place_quantised_product(set, p, &call);
    else if (p->stored)
        place_halves(set, p, &call);
    else
        place_f32(set, p, &call);
    return call;
}

bool has_gemm(const struct kernels *set, enum kernel kernel) {
    return (kernel != GEMM_F16 || set->gemm_f16) && (kernel != GEMM_BF16 || set->gemm_bf16) &&
           (kernel != GEMM_Q4 || set->gemm_q4) && (kernel != GEMM_Q4_1 || set->gemm_q4_1) &&
           (kernel != GEMM_Q2_K || set->gemm_q2_k) && (kernel != GEMM_Q3_K || set->gemm_q3_k) &&
           (kernel != GEMM_Q4_K || set->gemm_q4_k) && (kernel != GEMM_Q5_K || set->gemm_q5_k) &&
           (kernel != GEMM_Q6_K || set->gemm_q6_k) && (kernel != GEMM_Q5_0 || set->gemm_q5_0) &&
           (kernel != GEMM_Q5_1 || set->gemm_q5_1) && (kernel != GEMM_IQ4_NL || set->gemm_iq4_nl) &&
           (kernel != GEMM_IQ4_XS || set->gemm_iq4_xs) &&
           (kernel != GEMM_MXFP4 || set->gemm_mxfp4) &&
           (kernel != GEMM_TERNARY || set->gemm_ternary) &&
           (kernel != GEMM_Q2_0 || set->gemm_q2_0) && (kernel != GEMM_PQ2_0 || set->gemm_pq2_0) &&
           (kernel != GEMM_I2_S || set->gemm_i2_s) && (kernel != GEMM_INT8 || set->gemm_int8) &&
           (kernel != GEMM_NARROW || set->gemm_narrow);
}

void call_gemm(const struct kernels *set, const struct gemm_call *c) {
    switch (c->kernel) {
    case GEMM_INT8:
        set->gemm_int8(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_NARROW:
        set->gemm_narrow(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q4:
        set->gemm_q4(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q4_1:
        set->gemm_q4_1(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q4_K:
        set->gemm_q4_k(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q2_K:
        set->gemm_q2_k(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q3_K:
        set->gemm_q3_k(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q5_K:
        set->gemm_q5_k(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q6_K:
        set->gemm_q6_k(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q5_0:
        set->gemm_q5_0(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q5_1:
        set->gemm_q5_1(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_Q2_0:
        set->gemm_q2_0(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_PQ2_0:
        set->gemm_pq2_0(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_IQ4_NL:
        set->gemm_iq4_nl(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_IQ4_XS:
        set->gemm_iq4_xs(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_MXFP4:
        set->gemm_mxfp4(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_TERNARY:
        set->gemm_ternary(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_I2_S:
        set->gemm_i2_s(c->rows, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_F16:
        set->gemm_f16(c->x, c->ldx, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    case GEMM_BF16:
        set->gemm_bf16(c->x, c->ldx, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
        break;
    default:
        set->gemm_f32(c->x, c->ldx, c->w, c->bias, c->y, c->ldy, c->m, c->n, c->k);
    }
}

/* ---- results -------------------------------------------------------------------------------- */

const struct kernels *checked_at(size_t index) {
    const struct kernels *set = kernels_at(index);
    const bool is_last = !set && kernels_at(index - 1);
    return is_last ? &kernels_scalar_portable : set;
}

const char *kernel_name(enum kernel kernel) {
    static const char *const names[KERNELS] = {
        [GEMM_F32] = "gemm_f32",
        [QUANTISE] = "quantise",
        [QUANTISE_NARROW] = "quantise_narrow",
        [GEMM_INT8] = "gemm_int8",
        [GEMM_NARROW] = "gemm_narrow",
        [GEMM_Q4] = "gemm_q4",
        [GEMM_Q4_1] = "gemm_q4_1",
        [GEMM_Q2_K] = "gemm_q2_k",
        [GEMM_Q3_K] = "gemm_q3_k",
        [GEMM_Q4_K] = "gemm_q4_k",
        [GEMM_Q5_K] = "gemm_q5_k",
        [GEMM_Q6_K] = "gemm_q6_k",
        [GEMM_Q5_0] = "gemm_q5_0",
        [GEMM_Q5_1] = "gemm_q5_1",
        [GEMM_IQ4_NL] = "gemm_iq4_nl",
        [GEMM_IQ4_XS] = "gemm_iq4_xs",
        [GEMM_MXFP4] = "gemm_mxfp4",
        [GEMM_TERNARY] = "gemm_ternary",
        [GEMM_Q2_0] = "gemm_q2_0",
        [GEMM_PQ2_0] = "gemm_pq2_0",
        [GEMM_I2_S] = "gemm_i2_s",
        [GEMM_F16] = "gemm_f16",
        [GEMM_BF16] = "gemm_bf16",
        [LAYER_NORM] = "layer_norm",
        [RMS_NORM] = "rms_norm",
        [GELU] = "gelu",
        [RELU] = "relu",
        [SILU_MUL] = "silu_mul",
        [GELU_TANH] = "gelu_tanh",
        [MULTIPLY] = "multiply",
        [SOFT_CAP] = "soft_cap",
        [SOFTMAX] = "softmax",
        [ADD] = "add",
        [KV] = "kv_step",
        [DOT] = "dot",
        [DOTS_INT8] = "dots_int8",
        [PACK] = "pack",
        [ATTENTION] = "attention",
        [I16] = "i16",
        [BF16] = "bf16",
        [SPARSE] = "sparse",
    };
    return names[kernel];
}

static void fail_at(const struct where *w, const char *what) {
    fail_msg("%s of %s, m %zu n %zu k %zu, fill %d: %s", kernel_name(w->kernel), w->set->name, w->m,
             w->n, w->k, (int)w->fill, what);
}

static size_t set_index(const struct kernels *set) {
    size_t i = 0;
    while (checked_at(i) && checked_at(i) != set)
        i++;
    return i < MAX_SETS ? i : MAX_SETS - 1;
}

double exponent_error(double x) {
    return 4 * ROUNDING * fabs(x);
}

void expect_near(const struct where *where, size_t i, size_t j, float got, double want,
                 double tolerance) {
    const double error = fabs((double)got - want);
    if (!(error <= tolerance)) {
        char text[128];
        snprintf(text, sizeof text, "at [%zu, %zu] %.9g, not %.9g: %.3g away, %.3g allowed", i, j,
                 (double)got, want, error, tolerance);
        fail_at(where, text);
    }
    compared[where->kernel] = true;
    double *record = &worst[where->kernel][set_index(where->set)];
    if (error > *record * tolerance)
        *record = error / tolerance;
}

void expect_same_bits(const struct where *where, const char *what, const void *got,
                      const void *want, size_t n) {
    if (memcmp(got, want, n) != 0)
        fail_at(where, what);
}

void expect_intact(const struct where *where) {
    for (size_t i = 0; i < SLOTS; i++)
        if (slot_used[i] && !guarded_intact(&slots[i]))
            fail_at(where, "wrote outside of a buffer");
}

void expect_padding(const struct where *where, const float *y, size_t m, size_t n, size_t ldy) {
    for (size_t i = 0; i + 1 < m; i++)
        if (!guarded_untouched(y + i * ldy + n, (ldy - n) * sizeof *y))
            fail_at(where, "wrote between the rows of y");
}

void print_worst_errors(void) {
    printf("\nworst error as a share of what is allowed\n%-16s", "");
    for (size_t s = 0; checked_at(s); s++)
        printf("%16s", checked_at(s)->name);
    for (int k = 0; k < KERNELS; k++) {
        if (!compared[k])
            continue;
        printf("\n%-16s", kernel_name((enum kernel)k));
        for (size_t s = 0; checked_at(s); s++)
            printf("%16.4f", worst[k][s]);
    }
    printf("\n");
}

void kernel_cases_open(uint64_t seed, bool large) {
    kernel_rng.state = seed;
    for (size_t i = 0; i < SLOTS; i++)
        guarded_open(&slots[i], large && i == SLOT_W ? LARGE_CAPACITY : SLOT_CAPACITY);
}

void kernel_cases_close(void) {
    for (size_t i = 0; i < SLOTS; i++)
        guarded_close(&slots[i]);
}
