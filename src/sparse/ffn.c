/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/ffn.h"

#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "sparse/ffn_recall.h"

enum {
    /* Tokens whose first halves are computed before the second halves: W_up and W_down do not both
     * fit the second-level cache, and so each is read from beyond it once for so many tokens. */
    TOKENS_AT_A_TIME = 256,
    /* Tokens for which a quad's rows are read once; what they are as bytes fits the first-level
     * cache. */
    TILE = 64
};

/* What is left of a token for the second half of the layer. */
struct active {
    size_t n;      /* quads */
    int32_t total; /* of their bytes */
    float scale;
};

/* What tokens are worked on in. */
struct scratch {
    struct quantised_row rows[TILE], inner[TILE]; /* x, and the predictor's hidden values */
    uint8_t *q, *inner_q;                         /* [TILE, ...]: their bytes */
    void *linear;                                 /* for the dense product of TILE tokens */
    int32_t *sums;         /* [TILE, 4 quads or rank], then [hidden], padded to whole chunks */
    int32_t *gate_sums;    /* [TILE, 4 quads], which with `all` follow the others */
    float *ones, *zeros;   /* as many as the dense product wants for a tile */
    float *values;         /* [4 quads] */
    float *logits;         /* [4 quads] */
    float *hidden_values;  /* [rank] */
    float *compensation;   /* [hidden] */
    uint16_t *tile_lists;  /* [TILE, quads + QUAD_LIST_SLACK] */
    size_t n[TILE];        /* quads in them */
    uint32_t *starts;      /* [quads + 1]: of each quad's uses */
    struct quad_use *uses; /* [TILE, quads] */
    struct active *active; /* [TOKENS_AT_A_TIME] */
    int8_t *bytes;         /* [TOKENS_AT_A_TIME, 4 quads] */
    uint16_t *lists;       /* [TOKENS_AT_A_TIME, quads] */
};

static size_t padded(size_t bytes) {
    return round_up(bytes, MEMORY_ALIGNMENT);
}

static size_t quads_of(size_t rows) {
    return (rows + QUAD - 1) / QUAD;
}

/* Where each part of the scratch starts, or with NULL as its start, how large it is. */
static size_t lay_out(void *start, size_t hidden, size_t wide, size_t rank, bool gated,
                      struct scratch *s) {
    unsigned char *at = start;
    const size_t quads = quads_of(wide), neurons = QUAD * QUAD * quads_of(quads);
    const size_t chosen = rank ? quads : 0; /* at most, by a predictor */
    const size_t sums = larger(larger(neurons, round_up(rank, QUAD)), quad_row_bytes(hidden));
    const size_t gate_sums = gated ? neurons : 0;
    const size_t constants = rank ? larger(sums, TILE * int8_blocks(larger(hidden, rank))) : 0;
    const size_t sizes[] = {TILE * quad_row_bytes(hidden),
                            TILE * quad_row_bytes(rank),
                            linear_scratch_bytes(TILE, hidden),
                            TILE * (sums + gate_sums) * sizeof(int32_t),
                            constants * sizeof(float),
                            constants * sizeof(float),
                            neurons * sizeof(float),
                            rank ? neurons * sizeof(float) : 0,
                            round_up(rank, QUAD) * sizeof(float),
                            round_up(hidden, QUAD) * sizeof(float),
                            TILE * (chosen + QUAD_LIST_SLACK) * sizeof(uint16_t),
                            (chosen + 1) * sizeof(uint32_t),
                            TILE * larger(chosen, 1) * sizeof(struct quad_use),
                            TOKENS_AT_A_TIME * sizeof(struct active),
                            TOKENS_AT_A_TIME * QUAD * quads,
                            TOKENS_AT_A_TIME * quads * sizeof(uint16_t)};
    unsigned char *places[sizeof sizes / sizeof *sizes];
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        places[i] = start ? at + total : NULL;
        total += padded(sizes[i]);
    }
    if (!start)
        return total;
    s->q = places[0];
    s->inner_q = places[1];
    s->linear = places[2];
    s->sums = (int32_t *)(void *)places[3];
    s->gate_sums = s->sums + TILE * sums;
    s->ones = (float *)(void *)places[4];
    s->zeros = (float *)(void *)places[5];
    s->values = (float *)(void *)places[6];
    s->logits = (float *)(void *)places[7];
    s->hidden_values = (float *)(void *)places[8];
    s->compensation = (float *)(void *)places[9];
    s->tile_lists = (uint16_t *)(void *)places[10];
    s->starts = (uint32_t *)(void *)places[11];
    s->uses = (struct quad_use *)(void *)places[12];
    s->active = (struct active *)(void *)places[13];
    s->bytes = (int8_t *)places[14];
    s->lists = (uint16_t *)(void *)places[15];
    for (size_t t = 0; t < TILE; t++) {
        s->rows[t].q = s->q + t * quad_row_bytes(hidden);
        s->inner[t].q = s->inner_q + t * quad_row_bytes(rank);
    }
    for (size_t i = 0; i < constants; i++) {
        s->ones[i] = 1;
        s->zeros[i] = 0;
    }
    return total;
}

static bool is_gated(const struct sparse_ffn *ffn) {
    return ffn->activation == ACTIVATION_GATED_SILU;
}

size_t sparse_ffn_scratch_bytes(size_t hidden, size_t wide, size_t rank,
                                enum activation activation) {
    return lay_out(NULL, hidden, wide, rank, activation == ACTIVATION_GATED_SILU, NULL);
}

/* All of `rows` for n tokens: sums [n, 4 quads]. The dense product adds sums of blocks as floats,
 * which are whole numbers that floats hold: with scales of 1, zeros and biases of 0 it is exact. */
static void apply_rows(const struct kernels *kernels, const struct quad_rows *rows, uint8_t *q,
                       size_t n, struct scratch *s, int32_t *sums) {
    const size_t quad_bytes = QUAD * quad_row_bytes(rows->k), outputs = QUAD * rows->quads;
    if (rows->panels) {
        const struct quantised_rows x = {.q = q, .scale = s->ones, .zero = s->zeros};
        float *values = (float *)(void *)sums;
        kernels->gemm_int8(x, rows->panels, s->zeros, values, outputs, n, outputs,
                           quad_row_bytes(rows->k));
        kernels->sparse->to_integers(values, n * outputs, sums);
        return;
    }
    for (size_t t = 0; t < n; t++)
        s->uses[t] = (struct quad_use){(uint32_t)t, (uint32_t)(t * rows->quads)};
    for (size_t i = 0; i < rows->quads; i++)
        kernels->sparse->up(q, rows->rows + i * quad_bytes, s->uses, n, rows->k, sums + QUAD * i);
}

static uint16_t *tile_list(const struct sparse_ffn *ffn, const struct scratch *s, size_t token) {
    return s->tile_lists + token * (ffn->quads + QUAD_LIST_SLACK);
}

/* The quads that the predictor chooses for each of n tokens. */
static void predict(const struct sparse_ffn *ffn, const float *thresholds, size_t n,
                    struct scratch *s) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    apply_rows(ffn->kernels, &ffn->p, s->q, n, s, s->sums);
    for (size_t t = 0; t < n; t++) {
        kernels->finish(s->sums + QUAD * t * ffn->p.quads, ffn->p.parameters, NULL, ffn->p.quads,
                        &s->rows[t], s->hidden_values);
        kernels->quantise(s->hidden_values, NULL, ffn->rank, &s->inner[t]);
    }
    apply_rows(ffn->kernels, &ffn->q, s->inner_q, n, s, s->sums);
    for (size_t t = 0; t < n; t++) {
        kernels->finish(s->sums + QUAD * t * ffn->q.quads, ffn->q.parameters, NULL, ffn->q.quads,
                        &s->inner[t], s->logits);
        s->n[t] = kernels->choose(s->logits, thresholds, ffn->quads, tile_list(ffn, s, t));
    }
}

/* y [n, hidden]: what is added to each token's output besides the sum over its computed quads. */
static void compensate(const struct sparse_ffn *ffn, size_t n, struct scratch *s, float *y) {
    const struct quad_rows *rows = &ffn->compensation;
    apply_rows(ffn->kernels, rows, s->inner_q, n, s, s->sums);
    for (size_t t = 0; t < n; t++) {
        const float scale = sparse_ffn_scale(s->n[t], ffn->quads);
        float *to = y + t * ffn->hidden;
        ffn->kernels->sparse->finish(s->sums + QUAD * t * rows->quads, rows->parameters, NULL,
                                     rows->quads, &s->inner[t], s->compensation);
        for (size_t c = 0; c < ffn->hidden; c++)
            to[c] = ffn->base[c] + scale * s->compensation[c];
    }
}

/* From lists of quads for each token to lists of tokens for each quad. A token's sums stand one
 * after the other, in the order of its list. */
static void invert_lists(const struct sparse_ffn *ffn, size_t n, struct scratch *s) {
    const size_t quads = ffn->quads;
    uint32_t place = 0, total = 0;
    memset(s->starts, 0, (quads + 1) * sizeof *s->starts);
    for (size_t t = 0; t < n; t++) {
        const uint16_t *list = tile_list(ffn, s, t);
        for (size_t i = 0; i < s->n[t]; i++)
            s->starts[list[i]]++;
    }
    for (size_t q = 0; q <= quads; q++) {
        const uint32_t count = s->starts[q];
        s->starts[q] = total;
        total += count;
    }
    for (size_t t = 0; t < n; t++) {
        const uint16_t *list = tile_list(ffn, s, t);
        for (size_t i = 0; i < s->n[t]; i++)
            s->uses[s->starts[list[i]]++] = (struct quad_use){(uint32_t)t, place++};
    }
}

/* The sums of the chosen quads' rows of W_up, and of W_gate where there is one. */
static void apply_chosen(const struct sparse_ffn *ffn, struct scratch *s) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    const size_t quad_bytes = QUAD * quad_row_bytes(ffn->hidden);
    uint32_t first = 0;
    for (size_t q = 0; q < ffn->quads; q++) { /* starts[q] has become the end of q's uses */
        const struct quad_use *uses = s->uses + first;
        const size_t n = s->starts[q] - first, at = q * quad_bytes;
        kernels->up(s->q, ffn->up.rows + at, uses, n, ffn->hidden, s->sums);
        if (is_gated(ffn))
            kernels->up(s->q, ffn->gate.rows + at, uses, n, ffn->hidden, s->gate_sums);
        first = s->starts[q];
    }
}

/* One token's contributions to s->values, those of n quads, whose sums stand `at` numbers after the
 * tile's first; returns the largest magnitude. */
static float activate(const struct sparse_ffn *ffn, size_t at, const uint16_t *list, size_t n,
                      const struct quantised_row *row, struct scratch *s) {
    const struct quad_sums up = {s->sums + at, ffn->up.parameters};
    const struct quad_sums gate = {s->gate_sums + at, ffn->gate.parameters};
    return ffn->kernels->sparse->activate(ffn->activation, up, gate, &ffn->columns, list, n, row,
                                          s->values);
}

/* All activations of n tokens, to compare with what was chosen. */
static void count_recall(const struct sparse_ffn *ffn, size_t n, struct scratch *s,
                         struct recall *recall) {
    const size_t quads = ffn->quads;
    apply_rows(ffn->kernels, &ffn->up, s->q, n, s, s->sums);
    if (is_gated(ffn))
        apply_rows(ffn->kernels, &ffn->gate, s->q, n, s, s->gate_sums);
    for (size_t t = 0; t < n; t++) {
        activate(ffn, QUAD * t * quads, NULL, quads, &s->rows[t], s);
        recall_count(recall, s->values, tile_list(ffn, s, t), s->n[t]);
    }
}

/* What is left for the second half of the token's contributions s->values, those of the n quads of
 * a list (NULL: of all). */
static void keep_active(const struct sparse_ffn *ffn, size_t token, const uint16_t *list, size_t n,
                        float largest, struct scratch *s, struct sparse_counts *counts) {
    struct active *active = &s->active[token];
    active->n =
        ffn->kernels->sparse->compact(s->values, largest, list, n, s->lists + token * ffn->quads,
                                      s->bytes + token * QUAD * ffn->quads, &active->total);
    active->scale = largest / 127;
    counts->computed += n;
    counts->contributing += active->n;
}

/* The first half for n tokens, `at` the first of them, by the predictor: which quads are active,
 * and their values as bytes; and y as `compensate` has it, where there is a compensation. */
static void apply_up_chosen(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                            size_t at, size_t n, struct scratch *s, float *y,
                            struct sparse_counts *counts) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    for (size_t t = 0; t < n; t++)
        kernels->quantise(x + t * ffn->hidden, ffn->by, ffn->hidden, &s->rows[t]);
    predict(ffn, thresholds, n, s);
    if (ffn->compensation.quads)
        compensate(ffn, n, s, y);
    if (counts->recall)
        count_recall(ffn, n, s, counts->recall);
    invert_lists(ffn, n, s);
    apply_chosen(ffn, s);
    size_t sums = 0;
    for (size_t t = 0; t < n; t++) {
        const uint16_t *list = tile_list(ffn, s, t);
        const float largest = activate(ffn, sums, list, s->n[t], &s->rows[t], s);
        keep_active(ffn, at + t, list, s->n[t], largest, s, counts);
        sums += QUAD * s->n[t];
    }
}

/* The same of all quads, by the dense product. */
static void apply_up_all(const struct sparse_ffn *ffn, const float *x, size_t at, size_t n,
                         struct scratch *s, struct sparse_counts *counts) {
    const size_t quads = ffn->quads, wide = ffn->wide;
    float *sums = (float *)(void *)s->sums; /* [n, all.n], of which gates are the second half */
    linear_apply(&ffn->all, x, n, sums, s->linear);
    memset(s->values + wide, 0, (QUAD * quads - wide) * sizeof *s->values);
    for (size_t t = 0; t < n; t++) {
        const float *up = sums + t * ffn->all.n;
        const float largest = ffn->kernels->sparse->contribute(ffn->activation, up, up + wide,
                                                               ffn->columns.scale, wide, s->values);
        if (counts->recall)
            recall_count(counts->recall, s->values, NULL, quads);
        keep_active(ffn, at + t, NULL, quads, largest, s, counts);
    }
}

/* The second half for one token; base may be y. */
static void apply_down(const struct sparse_ffn *ffn, size_t token, const struct scratch *s,
                       const float *base, float *y) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    const size_t quads = ffn->quads;
    const struct active *active = &s->active[token];
    kernels->down(s->bytes + token * QUAD * quads, ffn->columns.w, s->lists + token * quads,
                  active->n, ffn->hidden, s->sums);
    kernels->add_base(s->sums, ffn->kernels->signed_activations ? 0 : 128 * active->total,
                      active->scale, ffn->row_scales, base, ffn->hidden, y);
}

void sparse_ffn_apply(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                      size_t tokens, float *y, void *scratch, struct sparse_counts *counts) {
    struct scratch s = {.q = NULL};
    const size_t hidden = ffn->hidden;
    lay_out(scratch, hidden, ffn->wide, ffn->rank, is_gated(ffn), &s);
    for (size_t first = 0; first < tokens; first += TOKENS_AT_A_TIME) {
        const size_t left = tokens - first;
        const size_t n = left < TOKENS_AT_A_TIME ? left : TOKENS_AT_A_TIME;
        for (size_t t = 0; t < n; t += TILE) {
            const size_t at = (first + t) * hidden, here = n - t < TILE ? n - t : TILE;
            if (thresholds)
                apply_up_chosen(ffn, thresholds, x + at, t, here, &s, y + at, counts);
            else
                apply_up_all(ffn, x + at, t, here, &s, counts);
        }
        for (size_t t = 0; t < n; t++) {
            float *to = y + (first + t) * hidden;
            apply_down(ffn, t, &s, ffn->compensation.quads ? to : ffn->base, to);
        }
    }
    counts->tokens += tokens;
}

void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds) {
    const size_t quads = ffn->quads;
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
