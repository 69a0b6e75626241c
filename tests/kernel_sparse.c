/* SPDX-License-Identifier: Apache-2.0
 * The sparse kernels of every set against the scalar ones: what is counted in integers, chosen or
 * left out must be equal, what is computed in floats near. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

enum { CASES = 400 };

/* A layer of random weights and one token, with what the scalar set makes of them. */
struct layer {
    size_t quads, k, size;
    enum activation kind;
    float *x, *by, *weights, *gate_weights, *column_floats, *scales, *base;
    struct quad_parameters *parameters, *gate_parameters;
    struct quad_columns columns; /* without weights */
    size_t n;                    /* quads in the list */
    uint16_t *list;
    float *logits, *thresholds; /* [quads] */
};

static struct layer new_layer(enum fill fill) {
    struct layer l = {.quads = rng_range(&kernel_rng, 1, 40),
                      .k = rng_range(&kernel_rng, 1, 130),
                      .size = rng_range(&kernel_rng, 1, 130),
                      .kind = (enum activation)rng_below(&kernel_rng, 3)};
    l.x = new_floats(l.k, fill);
    l.by = new_floats(l.k, FILL_UNIFORM);
    l.weights = new_floats(l.quads * QUAD * l.k, FILL_UNIFORM);
    l.gate_weights = new_floats(l.quads * QUAD * l.k, FILL_UNIFORM);
    l.column_floats = new_floats(l.quads * QUAD * l.size, FILL_UNIFORM);
    l.scales = new_floats(l.size, FILL_UNIFORM);
    l.columns.scale = new_floats(l.quads * QUAD, FILL_UNIFORM);
    l.columns.center = new_floats(l.quads * QUAD, rng_coin(&kernel_rng) ? FILL_ZERO : FILL_UNIFORM);
    l.base = new_floats(l.size, FILL_UNIFORM);
    l.parameters = allocate(l.quads * sizeof *l.parameters);
    l.gate_parameters = allocate(l.quads * sizeof *l.gate_parameters);
    for (size_t i = 0; i < l.quads; i++) {
        fill_floats(l.parameters[i].bias, QUAD, FILL_UNIFORM);
        fill_floats(l.gate_parameters[i].bias, QUAD, FILL_UNIFORM);
    }
    l.logits = new_floats(l.quads, FILL_UNIFORM);
    l.thresholds = new_floats(l.quads, rng_coin(&kernel_rng) ? FILL_UNIFORM : FILL_EQUAL);
    l.list = allocate((l.quads + QUAD_LIST_SLACK) * sizeof *l.list);
    l.n = sparse_scalar.choose(l.logits, l.thresholds, l.quads, l.list);
    return l;
}

static void free_layer(struct layer *l) {
    free(l->x);
    free(l->by);
    free(l->weights);
    free(l->gate_weights);
    free(l->column_floats);
    free(l->scales);
    free(l->columns.scale);
    free(l->columns.center);
    free(l->base);
    free(l->parameters);
    free(l->gate_parameters);
    free(l->logits);
    free(l->thresholds);
    free(l->list);
}

/* What one token comes to, stage by stage. */
struct stages {
    struct quantised_row row;
    int32_t *sums; /* [4 n], of q over 0..255 */
    int32_t *gate_sums;
    float *values; /* [4 n] */
    float largest;
    int8_t *bytes; /* [4 kept_n] */
    uint16_t *kept;
    size_t kept_n;
    int32_t total;
    int32_t *down; /* [quad_row_bytes(size)], without the offset of unsigned weights */
    float *y;
};

static void *copied(enum slot slot, const void *from, size_t bytes) {
    return memcpy(place(slot, bytes), from, bytes);
}

static void check_choice(const struct where *w, const struct layer *l) {
    const float *logits = copied(SLOT_X, l->logits, l->quads * sizeof(float));
    const float *thresholds = copied(SLOT_BIAS, l->thresholds, l->quads * sizeof(float));
    uint16_t *list = place(SLOT_Y, (l->quads + QUAD_LIST_SLACK) * sizeof *list);
    assert_int_equal(w->set->sparse->choose(logits, thresholds, l->quads, list), l->n);
    expect_same_bits(w, "another choice", list, l->list, l->n * sizeof *list);
    expect_intact(w);
}

static void check_row(const struct where *w, const struct layer *l, const struct stages *want) {
    const float *x = copied(SLOT_X, l->x, l->k * sizeof(float));
    const float *by = copied(SLOT_BIAS, l->by, l->k * sizeof(float));
    struct quantised_row row = {.q = place_anywhere(SLOT_Q, quad_row_bytes(l->k))};
    w->set->sparse->quantise(x, by, l->k, &row);
    for (size_t c = 0; c < l->k; c++)
        row.q[c] ^= w->set->signed_activations ? 0x80 : 0;
    expect_same_bits(w, "other bytes of the row", row.q, want->row.q, quad_row_bytes(l->k));
    expect_near(w, 0, 0, row.scale, (double)want->row.scale, 0);
    const float offset = w->set->signed_activations ? 128 : 0;
    expect_near(w, 0, 1, row.zero + offset, (double)want->row.zero, 0);
    expect_intact(w);
}

/* The rows of all quads, packed into a guarded buffer; scale and sum go to `parameters`. */
static const int8_t *packed_rows(const struct layer *l, const float *weights,
                                 struct quad_parameters *parameters) {
    const size_t bytes = QUAD * quad_row_bytes(l->k);
    int8_t *packed = place_anywhere(SLOT_W, l->quads * bytes);
    for (size_t i = 0; i < l->quads; i++) {
        const float *rows[QUAD];
        for (size_t j = 0; j < QUAD; j++)
            rows[j] = weights + (QUAD * i + j) * l->k;
        pack_quad_rows(rows, l->k, packed + i * bytes, &parameters[i]);
    }
    return packed;
}

/* The columns of all quads; their scales go to l->columns. */
static const uint8_t *packed_columns(const struct layer *l, int is_signed) {
    const size_t bytes = l->quads * QUAD * quad_row_bytes(l->size), neurons = QUAD * l->quads;
    uint8_t *packed = place_anywhere(SLOT_W, bytes);
    float *row = allocate(neurons * sizeof *row), *factors = allocate(neurons * sizeof *factors);
    memset(packed, 0, bytes);
    for (size_t i = 0; i < neurons; i++) {
        const float largest = largest_magnitude(l->column_floats + i * l->size, l->size);
        l->columns.scale[i] = largest / 127;
        factors[i] = inverse_scale(largest);
    }
    for (size_t c = 0; c < l->size; c++) {
        for (size_t i = 0; i < neurons; i++)
            row[i] = l->column_floats[i * l->size + c];
        pack_quad_columns(row, factors, l->quads, c, l->size, is_signed, packed);
    }
    free(row);
    free(factors);
    return packed;
}

/* One token and the quads of a list. */
static void up_listed(const struct kernels *set, const uint8_t *q, const int8_t *w,
                      const uint16_t *list, size_t n, size_t k, int32_t *sums) {
    for (size_t i = 0; i < n; i++) {
        const struct quad_use use = {0, (uint32_t)i};
        set->sparse->up(q, w + list[i] * QUAD * quad_row_bytes(k), &use, 1, k, sums);
    }
}

/* The same scales and centers in guarded buffers. */
static struct quad_columns placed_columns(const struct layer *l) {
    const size_t bytes = l->quads * QUAD * sizeof(float);
    return (struct quad_columns){.scale = copied(SLOT_W, l->columns.scale, bytes),
                                 .center = copied(SLOT_ZERO, l->columns.center, bytes)};
}

/* The sums of one token with rows of W_up or W_gate, which must be the scalar ones but for the
 * offset of signed bytes; the caller frees them. */
static int32_t *checked_sums(const struct where *w, const struct layer *l,
                             const struct quantised_row *row, const float *weights,
                             struct quad_parameters *parameters, const int32_t *want) {
    const int8_t *packed = packed_rows(l, weights, parameters);
    int32_t *placed = place(SLOT_Y, QUAD * l->n * sizeof *placed);
    int32_t *sums = allocate((QUAD * l->n + 1) * sizeof *sums);
    const uint16_t *list = copied(SLOT_SCALE, l->list, l->n * sizeof *list);
    up_listed(w->set, row->q, packed, list, l->n, l->k, placed);
    expect_intact(w);
    for (size_t i = 0; i < QUAD * l->n; i++) {
        const int32_t sum = (int32_t)parameters[list[i / QUAD]].sum[i % QUAD];
        assert_int_equal(placed[i] + (w->set->signed_activations ? 128 * sum : 0), want[i]);
    }
    memcpy(sums, placed, QUAD * l->n * sizeof *sums);
    return sums;
}

/* The row as the set has it, in a guarded buffer. */
static struct quantised_row placed_row(const struct where *w, const struct layer *l,
                                       const struct stages *want) {
    const bool is_signed = w->set->signed_activations != 0;
    struct quantised_row row = want->row;
    row.q = place_anywhere(SLOT_Q, quad_row_bytes(l->k));
    for (size_t c = 0; c < quad_row_bytes(l->k); c++)
        row.q[c] = want->row.q[c] ^ (is_signed && c < l->k ? 0x80 : 0);
    row.zero -= is_signed ? 128 : 0;
    return row;
}

/* The sums and the gate's, to values; what is computed in floats has errors of its inputs' size,
 * and of the product's where there is a gate. */
static void check_values(const struct where *w, const struct layer *l, const struct stages *want,
                         const struct quantised_row *row, const int32_t *sums,
                         const int32_t *gate_sums) {
    const size_t bytes = QUAD * l->n * sizeof *sums;
    const double size = 1 + fabs((double)row->scale) * (double)l->k * 255;
    const double scale = l->kind == ACTIVATION_GATED_SILU ? size * size : size;
    const uint16_t *list = copied(SLOT_SCALE, l->list, l->n * sizeof *list);
    const struct quad_sums up = {copied(SLOT_Y, sums, bytes),
                                 copied(SLOT_X, l->parameters, l->quads * sizeof *l->parameters)};
    const struct quad_sums gate = {gate_sums, l->gate_parameters};
    const struct quad_columns columns = placed_columns(l);
    float *values = place(SLOT_BIAS, bytes), seen = 0;
    const float largest =
        w->set->sparse->activate(l->kind, up, gate, &columns, list, l->n, row, values);
    expect_intact(w);
    for (size_t i = 0; i < QUAD * l->n; i++) {
        expect_near(w, i, 0, values[i], (double)want->values[i], scale * 1e-6);
        seen = fmaxf(seen, fabsf(values[i]));
    }
    expect_near(w, 0, 0, largest, (double)seen, 0);
    float *plain = allocate(bytes + 1);
    w->set->sparse->finish(up.sums, up.parameters, list, l->n, row, values);
    expect_intact(w);
    sparse_scalar.finish(want->sums, l->parameters, l->list, l->n, &want->row, plain);
    for (size_t i = 0; i < QUAD * l->n; i++)
        expect_near(w, i, 1, values[i], (double)plain[i], size * 1e-6);
    free(plain);
}

static void check_up(const struct where *w, const struct layer *l, const struct stages *want) {
    const struct quantised_row row = placed_row(w, l, want);
    int32_t *sums = checked_sums(w, l, &row, l->weights, l->parameters, want->sums);
    int32_t *gate_sums =
        checked_sums(w, l, &row, l->gate_weights, l->gate_parameters, want->gate_sums);
    check_values(w, l, want, &row, sums, gate_sums);
    free(sums);
    free(gate_sums);
}

/* Many tokens that want a quad: each has the sums it has alone. */
static void check_up_of_many(const struct where *w, const struct layer *l) {
    enum { MOST = 40 };
    const size_t bytes = quad_row_bytes(l->k), n = rng_range(&kernel_rng, 1, MOST);
    uint8_t *q = place_anywhere(SLOT_Q, n * bytes);
    const int8_t *packed = packed_rows(l, l->weights, l->parameters);
    struct quad_use uses[MOST];
    int32_t *sums = place(SLOT_Y, QUAD * n * sizeof *sums);
    for (size_t i = 0; i < n * bytes; i++)
        q[i] = (uint8_t)rng_below(&kernel_rng, 256);
    for (size_t i = 0; i < n; i++)
        uses[i] = (struct quad_use){(uint32_t)rng_below(&kernel_rng, n), (uint32_t)(n - 1 - i)};
    w->set->sparse->up(q, packed, uses, n, l->k, sums);
    expect_intact(w);
    for (size_t i = 0; i < n; i++) {
        const struct quad_use alone = {uses[i].token, 0};
        int32_t sum[QUAD];
        w->set->sparse->up(q, packed, &alone, 1, l->k, sum);
        expect_same_bits(w, "a token among many", sums + (size_t)QUAD * uses[i].place, sum,
                         sizeof sum);
    }
}

/* The dense product of the same rows, with scales of 1 and without zeros, has the same sums. */
static void check_dense_sums(const struct where *w, const struct layer *l) {
    enum { MOST = 20 };
    const size_t k = quad_row_bytes(l->k), n = QUAD * l->quads, panel = w->set->int8_panel;
    const size_t m = rng_range(&kernel_rng, 1, MOST), blocks = int8_blocks(k);
    const int8_t *rows = packed_rows(l, l->weights, l->parameters);
    float *whole = allocate(n * k * sizeof *whole);
    void *panels = allocate(packed_int8_bytes(n, k, panel));
    float *ones = new_floats(m * blocks, FILL_ZERO), *zeros = new_floats(m * blocks + n, FILL_ZERO);
    uint8_t *q = place(SLOT_Q, m * k);
    int32_t *sums = place(SLOT_Y, m * n * sizeof *sums);
    for (size_t i = 0; i < m * k; i++)
        q[i] = (uint8_t)rng_below(&kernel_rng, 256);
    for (size_t i = 0; i < m * blocks; i++)
        ones[i] = 1;
    for (size_t i = 0; i < n * k; i++)
        whole[i] = quad_weight(rows, l->k, i / k, i % k);
    pack_int8_whole(whole, k, n, k, panel, panels);
    float *y = (float *)(void *)sums;
    w->set->gemm_int8((struct quantised_rows){q, ones, zeros}, panels, zeros, y, n, m, n, k);
    w->set->sparse->to_integers(y, m * n, sums);
    expect_intact(w);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < l->quads; j++) {
            const struct quad_use use = {(uint32_t)i, 0};
            int32_t sum[QUAD];
            w->set->sparse->up(q, rows + j * QUAD * k, &use, 1, l->k, sum);
            expect_same_bits(w, "the dense product", sums + i * n + QUAD * j, sum, sizeof sum);
        }
    free(whole);
    free(panels);
    free(ones);
    free(zeros);
}

static void check_contributions(const struct where *w, const struct layer *l) {
    const size_t n = rng_below(&kernel_rng, QUAD * l->quads + 1);
    float *from = new_floats(n, w->fill), *wanted = allocate((n + 1) * sizeof *wanted), seen = 0;
    float *gates = new_floats(n, FILL_UNIFORM);
    const float *y = copied(SLOT_X, from, n * sizeof *y);
    const float *gate = copied(SLOT_W, gates, n * sizeof *gate);
    float *values = place(SLOT_Y, n * sizeof *values);
    const float *scales = copied(SLOT_BIAS, l->columns.scale, n * sizeof *scales);
    const float largest = w->set->sparse->contribute(l->kind, y, gate, scales, n, values);
    expect_intact(w);
    sparse_scalar.contribute(l->kind, from, gates, l->columns.scale, n, wanted);
    for (size_t i = 0; i < n; i++) {
        expect_near(w, i, 0, values[i], (double)wanted[i], (1 + fabs((double)from[i])) * 1e-6);
        seen = fmaxf(seen, fabsf(values[i]));
    }
    expect_near(w, 0, 0, largest, (double)seen, 0);
    free(from);
    free(gates);
    free(wanted);
}

static void check_compact(const struct where *w, const struct layer *l, const struct stages *want) {
    const float *values = copied(SLOT_X, want->values, QUAD * l->n * sizeof(float));
    uint16_t *kept = copied(SLOT_SCALE, l->list, l->n * sizeof *kept);
    int8_t *bytes = place_anywhere(SLOT_Q, QUAD * l->n);
    int32_t total;
    const size_t n =
        w->set->sparse->compact(values, want->largest, kept, l->n, kept, bytes, &total);
    expect_intact(w);
    assert_int_equal(n, want->kept_n);
    assert_int_equal(total, want->total);
    expect_same_bits(w, "other quads kept", kept, want->kept, n * sizeof *kept);
    expect_same_bits(w, "other bytes", bytes, want->bytes, QUAD * n);
}

static void check_down(const struct where *w, const struct layer *l, const struct stages *want) {
    const struct sparse_kernels *sparse = w->set->sparse;
    const size_t columns = quad_row_bytes(l->size);
    const uint8_t *packed = packed_columns(l, w->set->signed_activations);
    const int8_t *bytes = copied(SLOT_Q, want->bytes, QUAD * want->kept_n);
    const uint16_t *kept = copied(SLOT_SCALE, want->kept, want->kept_n * sizeof *kept);
    const int32_t shift = w->set->signed_activations ? 0 : 128 * want->total;
    int32_t *sums = place(SLOT_Y, columns * sizeof *sums);
    sparse->down(bytes, packed, kept, want->kept_n, l->size, sums);
    expect_intact(w);
    for (size_t c = 0; c < l->size; c++)
        assert_int_equal(sums[c] - shift, want->down[c]);
    const float *base = copied(SLOT_X, l->base, l->size * sizeof(float));
    float *y = place(SLOT_BIAS, l->size * sizeof *y);
    const float *scales = copied(SLOT_SCALE, l->scales, l->size * sizeof(float));
    sparse->add_base(sums, shift, want->largest / 127, scales, base, l->size, y);
    expect_intact(w);
    for (size_t c = 0; c < l->size; c++)
        expect_near(w, c, 0, y[c], (double)want->y[c],
                    1e-6 * (1 + fabs((double)want->y[c] - (double)l->base[c])));
}

static struct stages scalar_stages(const struct layer *l) {
    const size_t columns = quad_row_bytes(l->size);
    struct stages s = {.row.q = allocate(quad_row_bytes(l->k)),
                       .sums = allocate((QUAD * l->n + 1) * sizeof *s.sums),
                       .gate_sums = allocate((QUAD * l->n + 1) * sizeof *s.gate_sums),
                       .values = allocate((QUAD * l->n + 1) * sizeof *s.values),
                       .bytes = allocate(QUAD * l->n + QUAD),
                       .kept = allocate((l->n + 1) * sizeof *s.kept),
                       .down = allocate(columns * sizeof *s.down),
                       .y = allocate(l->size * sizeof *s.y)};
    sparse_scalar.quantise(l->x, l->by, l->k, &s.row);
    up_listed(&kernels_scalar, s.row.q, packed_rows(l, l->weights, l->parameters), l->list, l->n,
              l->k, s.sums);
    up_listed(&kernels_scalar, s.row.q, packed_rows(l, l->gate_weights, l->gate_parameters),
              l->list, l->n, l->k, s.gate_sums);
    const uint8_t *packed = packed_columns(l, 0); /* sets the columns' scales */
    s.largest = sparse_scalar.activate(l->kind, (struct quad_sums){s.sums, l->parameters},
                                       (struct quad_sums){s.gate_sums, l->gate_parameters},
                                       &l->columns, l->list, l->n, &s.row, s.values);
    s.kept_n = sparse_scalar.compact(s.values, s.largest, l->list, l->n, s.kept, s.bytes, &s.total);
    sparse_scalar.down(s.bytes, packed, s.kept, s.kept_n, l->size, s.down);
    sparse_scalar.add_base(s.down, 128 * s.total, s.largest / 127, l->scales, l->base, l->size,
                           s.y);
    for (size_t c = 0; c < columns; c++)
        s.down[c] -= 128 * s.total;
    return s;
}

static void free_stages(struct stages *s) {
    free(s->row.q);
    free(s->sums);
    free(s->gate_sums);
    free(s->values);
    free(s->bytes);
    free(s->kept);
    free(s->down);
    free(s->y);
}

static void check_case(enum fill fill) {
    struct layer l = new_layer(fill);
    struct stages want = scalar_stages(&l);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {SPARSE, kernels_at(s), l.n, l.size, l.k, fill};
        check_choice(&where, &l);
        check_row(&where, &l, &want);
        check_up(&where, &l, &want);
        check_up_of_many(&where, &l);
        check_dense_sums(&where, &l);
        check_contributions(&where, &l);
        check_compact(&where, &l, &want);
        check_down(&where, &l, &want);
    }
    free_stages(&want);
    free_layer(&l);
}

void test_sparse_random_layers(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++)
        check_case(FILL_UNIFORM);
}

void test_sparse_extremes(void **state) {
    static const enum fill fills[] = {FILL_WIDE,     FILL_ZERO, FILL_EQUAL,
                                      FILL_DENORMAL, FILL_TINY, FILL_ALTERNATING};
    (void)state;
    for (int i = 0; i < CASES / 4; i++)
        check_case(fills[(size_t)i % (sizeof fills / sizeof *fills)]);
}

/* Sums of the largest bytes, which 16 bits would not hold. */
void test_sparse_never_saturates(void **state) {
    (void)state;
    enum { K = 512, N = 3 };
    for (size_t s = 0; kernels_at(s); s++) {
        const struct kernels *set = kernels_at(s);
        const int is_signed = set->signed_activations;
        uint8_t q[K], columns[N * QUAD * K];
        int8_t w[N * QUAD * K], bytes[N * QUAD];
        const uint16_t list[N] = {2, 0, 1};
        int32_t sums[K];
        memset(q, is_signed ? 0x80 : 0xff, sizeof q);
        memset(w, 0x81, sizeof w);
        memset(bytes, 127, sizeof bytes);
        memset(columns, is_signed ? 0x80 : 0xff, sizeof columns);
        up_listed(set, q, w, list, N, K, sums);
        for (size_t i = 0; i < N * QUAD; i++)
            assert_int_equal(sums[i], (is_signed ? -128 : 255) * -127 * K);
        set->sparse->down(bytes, columns, list, N, K, sums);
        for (size_t c = 0; c < K; c++)
            assert_int_equal(sums[c], (is_signed ? -128 : 255) * 127 * N * QUAD);
    }
}

/* Weights as they are packed, read back. */
void test_pack_quads(void **state) {
    (void)state;
    const float a[] = {1, -2, 0.5f}, b[] = {0, 0, 0}, c[] = {127, 1, -127}, d[] = {-1, 0, 0};
    const float *const rows[QUAD] = {a, b, c, d};
    struct quad_parameters p;
    int8_t packed[QUAD * QUAD_CHUNK];
    uint8_t columns[QUAD * QUAD_CHUNK];
    pack_quad_rows(rows, 3, packed, &p);
    const int8_t expected[QUAD][3] = {{64, -127, 32}, {0, 0, 0}, {127, 1, -127}, {-127, 0, 0}};
    for (size_t j = 0; j < QUAD; j++)
        for (size_t i = 0; i < QUAD_CHUNK; i++)
            assert_int_equal(packed[j * QUAD_CHUNK + i], i < 3 ? expected[j][i] : 0);
    assert_true(p.scale[0] == 2.0f / 127 && p.scale[1] == 0 && p.scale[2] == 1);
    assert_true(p.sum[0] == -31 && p.sum[1] == 0 && p.sum[2] == 1 && p.sum[3] == -127);
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        const float factors[QUAD] = {127.0f / 2, 0, 1, 127};
        for (size_t at = 0; at < 3; at++) {
            const float row[QUAD] = {a[at], b[at], c[at], d[at]};
            pack_quad_columns(row, factors, 1, at, 3, is_signed, columns);
        }
        for (size_t j = 0; j < QUAD; j++)
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(columns[i * QUAD + j],
                                 (expected[j][i] + (is_signed ? 0 : 128)) & 0xff);
    }
}
