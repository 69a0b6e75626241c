/* SPDX-License-Identifier: Apache-2.0
 * Compares the sparse kernels of every set with the scalar ones. Integers, choices and lists must
 * be equal, floats near. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "kernel_case.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"
#include "support/sampling.h"

enum { CASES = 250, SAMPLED_CASES = 40 };

/* Rows of W_up or W_gate, and their sums with the layer's token in 0..255. */
struct projection {
    float *weights;         /* [neurons, k] */
    int8_t *rows;           /* packed for a set */
    struct neuron *neurons; /* [neurons] */
    int32_t *sums;          /* [neurons] */
};

/* A layer of random weights and one token. */
struct layer {
    size_t neurons, k, size;
    enum activation kind;
    float *x, *by;
    struct quantised_row row; /* of x for a set, unsigned */
    struct projection up, gate;
    float *centers; /* or NULL */
    float *down;    /* [neurons, size]: columns of W_down */
    size_t n;       /* neurons in the list */
    uint16_t *list;
};

/* Chooses some of the neurons, in order. */
static size_t fill_list(uint16_t *list, size_t neurons) {
    const size_t percent = rng_below(&kernel_rng, 101);
    size_t n = 0;
    for (size_t i = 0; i < neurons; i++)
        if (rng_below(&kernel_rng, 100) < percent)
            list[n++] = (uint16_t)i;
    return n;
}

/* Quantises the token for a set whose activations are unsigned. */
static void quantise_token(const struct sparse_kernels *set, struct layer *l) {
    const float steps = set->narrow ? NARROW_STEPS : 255;
    float low = 0, high = 0;
    for (size_t c = 0; c < l->k; c++) {
        low = fminf(low, l->x[c] * l->by[c]);
        high = fmaxf(high, l->x[c] * l->by[c]);
    }
    const float range = quantised_range(low, high), inverse = range > 0 ? steps / range : 0;
    l->row.scale = range / steps;
    l->row.zero = rintf(-low * inverse);
    memset(l->row.q, 0, sparse_row_bytes(l->k));
    for (size_t c = 0; c < l->k; c++)
        l->row.q[set->narrow ? row_place(c, set->lanes) : c] =
            (uint8_t)fminf(rintf(l->x[c] * l->by[c] * inverse) + l->row.zero, 255);
}

/* Returns the sum of a packed row with a token's bytes, as the set stores them. */
static int32_t row_sum(const uint8_t *q, bool is_signed, const int8_t *row, size_t k) {
    int32_t sum = 0;
    for (size_t c = 0; c < sparse_row_bytes(k); c++)
        sum += (is_signed ? (int8_t)q[c] : q[c]) * row[c];
    return sum;
}

static struct projection new_projection(const struct layer *l) {
    const struct projection p = {.weights = new_floats(l->neurons * l->k, FILL_UNIFORM),
                                 .rows = allocate(l->neurons * sparse_row_bytes(l->k)),
                                 .neurons = allocate(l->neurons * sizeof *p.neurons),
                                 .sums = allocate(l->neurons * sizeof *p.sums)};
    for (size_t i = 0; i < l->neurons; i++) {
        fill_floats(&p.neurons[i].bias, 1, FILL_UNIFORM);
        fill_floats(&p.neurons[i].column, 1, FILL_UNIFORM);
    }
    return p;
}

static void pack_projection(const struct sparse_kernels *set, const struct layer *l,
                            const struct projection *p) {
    for (size_t i = 0; i < l->neurons; i++) {
        int8_t *row = p->rows + i * sparse_row_bytes(l->k);
        pack_neuron_row(set, p->weights + i * l->k, l->k, row, &p->neurons[i]);
        p->sums[i] = row_sum(l->row.q, false, row, l->k);
    }
}

static const enum activation kinds[] = {
    ACTIVATION_RELU,
    ACTIVATION_GELU,
    ACTIVATION_GATED_SILU,
#ifdef DECODER_KERNELS
    ACTIVATION_GELU_TANH,
    ACTIVATION_RELU_SQUARED,
    ACTIVATION_GATED_RELU,
    ACTIVATION_GATED_RELU_SQUARED,
    ACTIVATION_GATED_GELU_TANH,
    ACTIVATION_GATED_GELU,
#endif
#ifndef __wasm__
    ACTIVATION_QUICK_GELU,
#endif
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* Returns how many products of a neuron's rows its activation multiplies. */
static int degree_of(enum activation kind) {
    const bool squared = kind == ACTIVATION_RELU_SQUARED || kind == ACTIVATION_GATED_RELU_SQUARED;
    return 1 + activation_is_gated(kind) + squared;
}

static struct layer new_layer(enum fill fill) {
    struct layer l = {.neurons = rng_range(&kernel_rng, 1, rng_below(&kernel_rng, 4) ? 150 : 600),
                      .k = rng_range(&kernel_rng, 1, 260),
                      .size = rng_range(&kernel_rng, 1, 320),
                      .kind = kinds[rng_below(&kernel_rng, KINDS)]};
    l.x = new_floats(l.k, fill);
    l.by = new_floats(l.k, FILL_UNIFORM);
    l.row.q = allocate(sparse_row_bytes(l.k));
    l.up = new_projection(&l);
    l.gate = new_projection(&l);
    l.centers = rng_coin(&kernel_rng) ? new_floats(l.neurons, FILL_UNIFORM) : NULL;
    l.down = new_floats(l.size * l.neurons, FILL_UNIFORM);
    l.list = allocate(l.neurons * sizeof *l.list);
    l.n = fill_list(l.list, l.neurons);
    return l;
}

static void free_projection(struct projection *p) {
    free(p->weights);
    free(p->rows);
    free(p->neurons);
    free(p->sums);
}

static void free_layer(struct layer *l) {
    free(l->x);
    free(l->by);
    free(l->row.q);
    free_projection(&l->up);
    free_projection(&l->gate);
    free(l->centers);
    free(l->down);
    free(l->list);
}

static void *copied(enum slot slot, const void *from, size_t bytes) {
    void *to = place(slot, bytes);
    if (bytes > 0)
        memcpy(to, from, bytes);
    return to;
}

static float largest_of(const float *values, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    return largest;
}

static void check_choose(const struct where *w, enum fill fill) {
    const size_t n = rng_range(&kernel_rng, 1, 300), words = (n + 63) / 64;
    float *logits = new_floats(n, fill), *thresholds = new_floats(n, fill);
    uint64_t wanted[5];
    for (size_t i = 0; i < n; i++)
        if (rng_below(&kernel_rng, 4) == 0)
            thresholds[i] = logits[i];
    sparse_scalar.choose(logits, thresholds, n, wanted);
    uint64_t *mask = place(SLOT_Y, words * sizeof *mask);
    w->set->sparse->choose(copied(SLOT_X, logits, n * sizeof *logits),
                           copied(SLOT_BIAS, thresholds, n * sizeof *thresholds), n, mask);
    expect_intact(w);
    expect_same_bits(w, "another choice", mask, wanted, words * sizeof *mask);
    assert_true(n % 64 == 0 || mask[words - 1] >> n % 64 == 0);
    free(logits);
    free(thresholds);
}

static void check_quantise(const struct where *w, const struct layer *l) {
    const float *x = copied(SLOT_X, l->x, l->k * sizeof(float));
    const float *by = copied(SLOT_BIAS, l->by, l->k * sizeof(float));
    struct quantised_row row = {.q = place_anywhere(SLOT_Q, sparse_row_bytes(l->k))};
    w->set->sparse->quantise(x, by, l->k, &row);
    for (size_t c = 0; c < l->k; c++) /* no set is both signed and narrow */
        row.q[c] ^= w->set->signed_activations ? 0x80 : 0;
    expect_same_bits(w, "other bytes of the row", row.q, l->row.q, sparse_row_bytes(l->k));
    expect_near(w, 0, 0, row.scale, (double)l->row.scale, 0);
    const float offset = w->set->signed_activations ? 128 : 0;
    expect_near(w, 0, 1, row.zero + offset, (double)l->row.zero, 0);
    expect_intact(w);
}

/* ---- up ------------------------------------------------------------------------------------- */

/* Multiplies a token, whose bytes are random and as large as they may be, by any rows in any order.
 */
static void check_up(const struct where *w, const struct layer *l) {
    enum { MOST = 24 };
    const size_t bytes = sparse_row_bytes(l->k), n = rng_below(&kernel_rng, MOST);
    const size_t largest = w->set->sparse->narrow ? NARROW_STEPS + 1 : 255;
    const int8_t *rows =
        memcpy(place_anywhere(SLOT_W, l->neurons * bytes), l->up.rows, l->neurons * bytes);
    uint8_t *q = place_anywhere(SLOT_Q, bytes);
    uint16_t *list = place(SLOT_SCALE, n * sizeof *list);
    int32_t *sums = place(SLOT_Y, n * sizeof *sums);
    for (size_t c = 0; c < bytes; c++)
        q[c] = (uint8_t)rng_below(&kernel_rng, largest + 1);
    for (size_t i = 0; i < n; i++)
        list[i] = (uint16_t)rng_below(&kernel_rng, l->neurons);
    w->set->sparse->up(q, rows, list, n, l->k, sums);
    expect_intact(w);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sums[i],
                         row_sum(q, w->set->signed_activations, rows + list[i] * bytes, l->k));
}

/* ---- from sums to contributions ------------------------------------------------------------- */

/* Computes the sums of a list of neurons (NULL: of the first ones) as the set stores them. */
static const int32_t *placed_sums(const struct where *w, enum slot slot, const struct projection *p,
                                  const uint16_t *list, size_t n) {
    const int32_t offset = w->set->signed_activations ? 128 : 0;
    int32_t *sums = place(slot, n * sizeof *sums);
    for (size_t i = 0; i < n; i++) {
        const size_t j = list ? list[i] : i;
        sums[i] = p->sums[j] - offset * (int32_t)p->neurons[j].sum;
    }
    return sums;
}

/* Returns the values that the scalar set computes for these neurons. The caller frees them. */
static float *wanted_values(const struct layer *l, const uint16_t *list, size_t n) {
    float *values = allocate(n * sizeof *values);
    int32_t *up = allocate(n * sizeof *up), *gate = allocate(n * sizeof *gate);
    for (size_t i = 0; i < n; i++) {
        up[i] = l->up.sums[list ? list[i] : i];
        gate[i] = l->gate.sums[list ? list[i] : i];
    }
    const struct neuron_sums sums = {up, gate, l->up.neurons, l->gate.neurons};
    sparse_scalar.activate(l->kind, sums, l->centers, list, n, &l->row, values);
    free(up);
    free(gate);
    return values;
}

/* The errors of values computed in floats are the rounding of their inputs and, with a gate, of the
 * product. */
static void check_activate(const struct where *w, const struct layer *l) {
    const bool listed = rng_coin(&kernel_rng), gated = activation_is_gated(l->kind);
    const size_t n = listed ? l->n : rng_below(&kernel_rng, l->neurons + 1);
    const size_t bytes = l->neurons * sizeof(struct neuron);
    const double size = 1 + fabs((double)l->row.scale) * (double)l->k * 255;
    const uint16_t *list = listed ? copied(SLOT_SCALE, l->list, n * sizeof *list) : NULL;
    const struct neuron_sums sums = {
        .up = placed_sums(w, SLOT_Y, &l->up, list, n),
        .gate = gated ? placed_sums(w, SLOT_Q, &l->gate, list, n) : NULL,
        .neurons = copied(SLOT_X, l->up.neurons, bytes),
        .gates = gated ? copied(SLOT_W, l->gate.neurons, bytes) : NULL};
    const float *centers =
        l->centers ? copied(SLOT_ZERO, l->centers, l->neurons * sizeof *centers) : NULL;
    struct quantised_row row = l->row;
    row.zero -= w->set->signed_activations ? 128 : 0;
    float *values = place(SLOT_BIAS, n * sizeof *values), *wanted = wanted_values(l, list, n);
    const float largest = w->set->sparse->activate(l->kind, sums, centers, list, n, &row, values);
    expect_intact(w);
    for (size_t i = 0; i < n; i++)
        expect_near(w, i, 0, values[i], (double)wanted[i], pow(size, degree_of(l->kind)) * 1e-6);
    expect_near(w, 0, 0, largest, (double)largest_of(values, n), 0);
    free(wanted);
}

static void check_contribute(const struct where *w, enum activation kind) {
    const size_t n = rng_below(&kernel_rng, 300);
    const bool gated = activation_is_gated(kind);
    float *from = new_floats(n, w->fill), *by = new_floats(n, FILL_UNIFORM);
    float *gates = new_floats(n, FILL_UNIFORM), *wanted = allocate(n * sizeof *wanted);
    const float *y = copied(SLOT_X, from, n * sizeof *y);
    const float *gate = gated ? copied(SLOT_W, gates, n * sizeof *gate) : NULL;
    const float *scales = copied(SLOT_BIAS, by, n * sizeof *scales);
    float *values = place(SLOT_Y, n * sizeof *values);
    const float largest = w->set->sparse->contribute(kind, y, gate, scales, n, values);
    expect_intact(w);
    sparse_scalar.contribute(kind, from, gates, by, n, wanted);
    for (size_t i = 0; i < n; i++)
        expect_near(w, i, 0, values[i], (double)wanted[i],
                    pow(1 + fabs((double)from[i]), degree_of(kind)) * 1e-6);
    expect_near(w, 0, 0, largest, (double)largest_of(values, n), 0);
    free(from);
    free(by);
    free(gates);
    free(wanted);
}

/* ---- compact -------------------------------------------------------------------------------- */

/* Fills n values, of which a random share is 0. The others are halves of whole numbers, which are
 * ties, or of the fill. */
static float *new_contributions(size_t n, enum fill fill, float *largest) {
    const size_t zeros = rng_below(&kernel_rng, 5);
    const bool halves = rng_below(&kernel_rng, 3) == 0;
    float *values = new_floats(n, fill);
    for (size_t i = 0; i < n; i++) {
        if (halves)
            values[i] = ((float)rng_below(&kernel_rng, 509) - 254) / 2;
        if (rng_below(&kernel_rng, 4) < zeros)
            values[i] = rng_coin(&kernel_rng) ? 0 : -0.0f;
    }
    *largest = halves ? 127 : largest_of(values, n);
    return values;
}

struct compacted {
    size_t count;
    int32_t total;
    uint16_t *kept;
    int8_t *bytes;
};

static struct compacted compact_placed(const struct where *w, const float *values, float largest,
                                       const uint16_t *list, size_t n) {
    const size_t room = round_up(n, DOWN_NEURONS) + SPARSE_SLACK;
    struct compacted c = {.kept = place(SLOT_SCALE, room * sizeof *c.kept),
                          .bytes = place_anywhere(SLOT_Q, room)};
    const float *placed = copied(SLOT_X, values, n * sizeof *values);
    const uint16_t *placed_list = list ? copied(SLOT_W, list, n * sizeof *list) : NULL;
    c.count = w->set->sparse->compact(placed, largest, placed_list, n, c.kept, c.bytes, &c.total);
    expect_intact(w);
    return c;
}

static void check_compact(const struct where *w, enum fill fill) {
    enum { MOST = 600 };
    uint16_t all[MOST], kept[MOST + DOWN_NEURONS];
    int8_t bytes[MOST + DOWN_NEURONS];
    int32_t total;
    float largest;
    const bool listed = rng_coin(&kernel_rng);
    const size_t listed_n = fill_list(all, MOST);
    const size_t n = listed ? listed_n : rng_below(&kernel_rng, MOST + 1);
    const uint16_t *list = listed ? all : NULL;
    float *values = new_contributions(n, fill, &largest);
    const struct compacted got = compact_placed(w, values, largest, list, n);
    const size_t count = sparse_scalar.compact(values, largest, list, n, kept, bytes, &total);
    assert_int_equal(got.count, count);
    assert_int_equal(got.total, total);
    const size_t padded = round_up(count, DOWN_NEURONS);
    expect_same_bits(w, "other neurons kept", got.kept, kept, padded * sizeof *kept);
    expect_same_bits(w, "other bytes", got.bytes, bytes, padded);
    free(values);
}

/* ---- down ----------------------------------------------------------------------------------- */

/* Returns the columns as whole numbers [neurons, size], as they are packed. */
static int8_t *column_weights(const struct layer *l) {
    int8_t *weights = malloc(l->neurons * l->size);
    assert_non_null(weights);
    for (size_t i = 0; i < l->neurons; i++) {
        const float *column = l->down + i * l->size;
        const float inverse = inverse_scale(largest_of(column, l->size));
        for (size_t c = 0; c < l->size; c++)
            weights[i * l->size + c] = (int8_t)lrintf(column[c] * inverse);
    }
    return weights;
}

static const uint8_t *packed_columns(const struct where *w, const struct layer *l) {
    const size_t row_bytes = sparse_row_bytes(l->size), bytes = l->neurons * row_bytes;
    uint8_t *packed = memset(place_anywhere(SLOT_W, bytes), 0x55, bytes);
    for (size_t i = 0; i < l->neurons; i++) {
        const float *column = copied(SLOT_X, l->down + i * l->size, l->size * sizeof *column);
        const float scale =
            pack_neuron_column(w->set->sparse, column, l->size, packed + i * row_bytes);
        assert_true(scale == largest_of(column, l->size) / 127);
        expect_intact(w);
    }
    return packed;
}

static void check_packed(const struct where *w, const struct layer *l, const int8_t *weights,
                         const uint8_t *packed) {
    const struct sparse_kernels *sparse = w->set->sparse;
    const size_t columns = sparse_row_bytes(l->size);
    for (size_t i = 0; i < l->neurons; i++)
        for (size_t c = 0; c < columns; c++) {
            const uint8_t byte = packed[i * columns + column_place(c, sparse->lanes)];
            const int32_t weight = sparse->signed_columns ? (int8_t)byte : byte - 128;
            assert_int_equal(c < l->size ? weight : byte,
                             c < l->size ? weights[i * l->size + c] : 0);
        }
}

/* Adds any neurons in any order. The sums past `size`, whose weights are padding, are checked too.
 */
static void check_down(const struct where *w, const struct layer *l) {
    const size_t columns = sparse_row_bytes(l->size);
    const size_t n = rng_below(&kernel_rng, l->neurons / DOWN_NEURONS + 2) * DOWN_NEURONS;
    const int32_t offset = w->set->sparse->signed_columns ? 0 : 128;
    const uint8_t *packed = packed_columns(w, l);
    int8_t *const weights = column_weights(l);
    check_packed(w, l, weights, packed);
    int8_t *bytes = place_anywhere(SLOT_Q, n);
    uint16_t *list = place(SLOT_SCALE, n * sizeof *list);
    int32_t *sums = place(SLOT_Y, columns * sizeof *sums);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (int8_t)((int)rng_below(&kernel_rng, 255) - 127);
        list[i] = (uint16_t)rng_below(&kernel_rng, l->neurons);
    }
    w->set->sparse->down(bytes, packed, list, n, l->size, sums);
    expect_intact(w);
    for (size_t c = 0; c < columns; c++) {
        int32_t wanted = 0;
        for (size_t i = 0; i < n && c < l->size; i++)
            wanted += bytes[i] * (weights[list[i] * l->size + c] + offset);
        assert_int_equal(sums[c], wanted);
    }
    free(weights);
}

static void check_add_base(const struct where *w, const struct layer *l) {
    const size_t size = l->size, bytes = size * sizeof(float);
    const int32_t shift = (int32_t)rng_below(&kernel_rng, 1 << 20);
    const float scale = rng_between(&kernel_rng, 0, 1);
    float *by = new_floats(size, FILL_UNIFORM), *start = new_floats(size, FILL_UNIFORM);
    int32_t *sums = place(SLOT_Q, sparse_row_bytes(size) * sizeof *sums);
    for (size_t c = 0; c < sparse_row_bytes(size); c++)
        sums[c] = (int32_t)rng_below(&kernel_rng, 1 << 22) - (1 << 21);
    const float *scales = copied(SLOT_SCALE, by, bytes);
    float *base = copied(SLOT_BIAS, start, bytes);
    float *y = rng_coin(&kernel_rng) ? base : place(SLOT_Y, bytes);
    w->set->sparse->add_base(sums, shift, scale, scales, base, size, y);
    expect_intact(w);
    for (size_t c = 0; c < size; c++) {
        const double sum = (double)scale * (double)by[c] * (sums[c] - shift);
        expect_near(w, c, 0, y[c], (double)start[c] + sum,
                    4 * ROUNDING * (fabs((double)start[c]) + fabs(sum)));
    }
    free(by);
    free(start);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void check_case(enum fill fill) {
    struct layer l = new_layer(fill);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {SPARSE, kernels_at(s), l.n, l.size, l.k, fill};
        quantise_token(where.set->sparse, &l);
        pack_projection(where.set->sparse, &l, &l.up);
        pack_projection(where.set->sparse, &l, &l.gate);
        check_choose(&where, fill);
        check_quantise(&where, &l);
        check_up(&where, &l);
        check_activate(&where, &l);
        check_contribute(&where, l.kind);
        check_compact(&where, fill);
        check_down(&where, &l);
        check_add_base(&where, &l);
    }
    free_layer(&l);
}

/* Returns how many layers to try. They are large, so under an emulator all of them take minutes. */
static int layers_to_try(void) {
    return everything_runs("five of six layers") ? CASES : SAMPLED_CASES;
}

void test_sparse_random_layers(void **state) {
    const int cases = layers_to_try();
    (void)state;
    for (int i = 0; i < cases; i++)
        check_case(FILL_UNIFORM);
}

void test_sparse_extremes(void **state) {
    static const enum fill fills[] = {FILL_WIDE,     FILL_ZERO, FILL_EQUAL,
                                      FILL_DENORMAL, FILL_TINY, FILL_ALTERNATING};
    const int cases = layers_to_try() / 2;
    (void)state;
    for (int i = 0; i < cases; i++)
        check_case(fills[(size_t)i % (sizeof fills / sizeof *fills)]);
}

/* Returns the largest magnitude of n values, or NaN if one of them is NaN. */
static float largest_or_nan(const float *values, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i]))
            return values[i];
        largest = fmaxf(largest, fabsf(values[i]));
    }
    return largest;
}

static float contribute_special(const struct where *w, enum activation kind, float *values) {
    float *from = new_floats(w->m, FILL_SPECIAL), *gates = new_floats(w->m, FILL_SPECIAL);
    float *by = new_floats(w->m, rng_coin(&kernel_rng) ? FILL_SPECIAL : FILL_UNIFORM);
    const float largest = w->set->sparse->contribute(kind, from, gates, by, w->m, values);
    free(from);
    free(gates);
    free(by);
    return largest;
}

/* NaN is above no threshold. If a contribution is NaN or infinite, so is the largest one, and
 * no bytes are kept: a NaN would become a byte like any other. Others are kept as ever. */
void test_sparse_special_values(void **state) {
    enum { N = 150 };
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (int i = 0; i < CASES; i++) {
            const size_t n = 1 + rng_below(&kernel_rng, N);
            const struct where w = {SPARSE, kernels_at(s), n, 0, 0, FILL_SPECIAL};
            float values[N];
            const float largest = contribute_special(&w, kinds[i % KINDS], values);
            const float wanted = largest_or_nan(values, n);
            assert_true(isnan(wanted) ? isnan(largest) : largest == wanted);
            const struct compacted c = compact_placed(&w, values, largest, NULL, n);
            int32_t total = 0;
            assert_true(c.count <= n && (isfinite(largest) || c.count == 0));
            for (size_t j = 0; j < round_up(c.count, DOWN_NEURONS); j++) {
                const bool follows = j == 0 || c.kept[j] > c.kept[j - 1];
                assert_true(j < c.count ? c.kept[j] < n && follows : c.kept[j] == 0);
                total += c.bytes[j];
            }
            assert_int_equal(c.total, total);
            check_choose(&w, FILL_SPECIAL);
        }
}
