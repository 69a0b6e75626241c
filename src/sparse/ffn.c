/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/ffn.h"

#include "base/checked.h"
#include "base/memory.h"

/* What one token is worked on in. */
struct scratch {
    uint8_t *q, *hidden_q; /* x and the predictor's hidden values as bytes */
    int32_t *sums;         /* [4 quads], then [hidden], padded to whole chunks */
    float *values;         /* [4 quads] */
    float *hidden_values;  /* [rank] */
    int8_t *bytes;         /* [4 quads] */
    uint16_t *list;        /* [quads + QUAD_LIST_SLACK] */
};

static size_t padded(size_t bytes) {
    return round_up(bytes, MEMORY_ALIGNMENT);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t quads_of(size_t rows) {
    return (rows + QUAD - 1) / QUAD;
}

/* Where each part of the scratch starts, or with NULL as its start, how large it is. */
static size_t lay_out(void *start, size_t hidden, size_t wide, size_t rank, struct scratch *s) {
    unsigned char *at = start;
    const size_t quads = quads_of(wide), neurons = QUAD * QUAD * quads_of(quads);
    const size_t sums = larger(neurons, quad_row_bytes(hidden));
    const size_t sizes[] = {quad_row_bytes(hidden),
                            quad_row_bytes(rank),
                            sums * sizeof(int32_t),
                            neurons * sizeof(float),
                            round_up(rank, QUAD) * sizeof(float),
                            neurons,
                            (quads + QUAD_LIST_SLACK) * sizeof(uint16_t)};
    size_t offsets[sizeof sizes / sizeof *sizes], total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        offsets[i] = total;
        total += padded(sizes[i]);
    }
    if (start)
        *s = (struct scratch){.q = at + offsets[0],
                              .hidden_q = at + offsets[1],
                              .sums = (int32_t *)(void *)(at + offsets[2]),
                              .values = (float *)(void *)(at + offsets[3]),
                              .hidden_values = (float *)(void *)(at + offsets[4]),
                              .bytes = (int8_t *)(at + offsets[5]),
                              .list = (uint16_t *)(void *)(at + offsets[6])};
    return total;
}

size_t sparse_ffn_scratch_bytes(size_t hidden, size_t wide, size_t rank) {
    return lay_out(NULL, hidden, wide, rank, NULL);
}

/* All outputs of `rows` for one quantised row. */
static void apply_rows(const struct sparse_kernels *kernels, const struct quad_rows *rows,
                       const struct quantised_row *row, int32_t *sums, float *y) {
    kernels->up(row->q, rows->rows, NULL, rows->quads, rows->k, sums);
    kernels->finish(sums, rows->parameters, NULL, rows->quads, row, y);
}

/* The quads that the predictor chooses for a token. */
static size_t predict(const struct sparse_ffn *ffn, const float *thresholds,
                      const struct quantised_row *row, const struct scratch *s) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    struct quantised_row inner = {.q = s->hidden_q};
    apply_rows(kernels, &ffn->p, row, s->sums, s->hidden_values);
    kernels->quantise(s->hidden_values, NULL, ffn->rank, &inner);
    apply_rows(kernels, &ffn->q, &inner, s->sums, s->values);
    return kernels->choose(s->values, thresholds, ffn->up.quads, s->list);
}

static void apply_token(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                        float *y, const struct scratch *s, struct sparse_counts *counts) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    struct quantised_row row = {.q = s->q};
    kernels->quantise(x, ffn->by, ffn->hidden, &row);
    const size_t n = thresholds ? predict(ffn, thresholds, &row, s) : ffn->up.quads;
    const uint16_t *list = thresholds ? s->list : NULL;
    kernels->up(row.q, ffn->up.rows, list, n, ffn->hidden, s->sums);
    const float largest =
        kernels->activate(ffn->activation, s->sums, ffn->up.parameters, list, n, &row, s->values);
    int32_t total;
    const size_t kept = kernels->compact(s->values, largest, list, n, s->list, s->bytes, &total);
    kernels->down(s->bytes, ffn->columns, s->list, kept, ffn->hidden, s->sums);
    kernels->add_base(s->sums, ffn->kernels->signed_activations ? 0 : 128 * total, largest / 127,
                      ffn->base, ffn->hidden, y);
    counts->computed += n;
    counts->contributing += kept;
}

void sparse_ffn_apply(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                      size_t tokens, float *y, void *scratch, struct sparse_counts *counts) {
    struct scratch s = {0};
    lay_out(scratch, ffn->hidden, ffn->wide, ffn->rank, &s);
    for (size_t t = 0; t < tokens; t++)
        apply_token(ffn, thresholds, x + t * ffn->hidden, y + t * ffn->hidden, &s, counts);
    counts->tokens += tokens;
}

void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds) {
    const size_t quads = ffn->up.quads;
    size_t above = 0;
    while (above + 1 < plan->levels && plan->shares[above] < share)
        above++;
    const size_t below = above > 0 ? above - 1 : 0;
    const float low = plan->shares[below], high = plan->shares[above];
    float part = high > low ? (share - low) / (high - low) : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const float *from = ffn->thresholds + below * quads, *to = ffn->thresholds + above * quads;
    for (size_t i = 0; i < quads; i++)
        thresholds[i] = from[i] + part * (to[i] - from[i]);
}
