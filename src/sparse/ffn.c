/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/ffn.h"

#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/transpose.h"
#include "layers/mean.h"
#include "sparse/recall.h"

enum {
    /* Tokens whose first halves are computed before the second halves: W_up and W_down do not both
     * fit the second-level cache, and so each is read from beyond it once for so many tokens. */
    TOKENS_AT_A_TIME = 4 * SPARSE_TOKENS,
    /* Tokens for which a neuron's row is read once; what they are as bytes fits the first-level
     * cache, and which of them want the neuron one word. */
    TILE = SPARSE_TOKENS,
    /* Tokens, or texts, whose logits are held at a time. */
    PREDICTED = 16
};

/* What is left of a token for the second half of the layer. */
struct active {
    size_t n;      /* neurons */
    int32_t total; /* of their bytes */
    float scale;
};

/* What tokens are worked on in. */
struct scratch {
    struct workspace linear; /* for the dense products of a tile */
    float *all;              /* [TILE, all.n]: the dense first half, where no predictor chooses */
    float *values;           /* [wide] */
    size_t length;           /* of a token's part of the next two */
    uint16_t *lists;         /* [TOKENS_AT_A_TIME, length]: active neurons */
    int8_t *bytes;           /* [TOKENS_AT_A_TIME, length]: their values */
    struct active *active;   /* [TOKENS_AT_A_TIME] */
    int32_t *down_sums;      /* [hidden], padded to a whole chunk */
    /* Where a predictor chooses: */
    struct neuron_tile tile;
    struct quantised_row rows[TILE]; /* x, with their bytes in the tile */
    float *inner;                    /* [TILE, rank]: P x + p */
    float *logits;                   /* [PREDICTED, wide] */
    float *compensation;             /* [TILE, hidden] */
    uint64_t *masks;                 /* [TILE, words]: what is chosen token by token */
    const uint64_t *chosen[TILE];    /* each token's mask */
    float *means;                    /* [PREDICTED, hidden], of texts */
};

/* An odd number of cache lines, so that the ends of all tokens' parts, to which each neuron adds,
 * do not compete for the same few sets of the first-level cache. */
static size_t part_length(size_t wide) {
    enum { LINE = 64 / sizeof(int32_t) };
    return LINE * (round_up(wide + SPARSE_SLACK, LINE) / LINE | 1);
}

static bool is_gated(const struct sparse_ffn *ffn) {
    return ffn->activation == ACTIVATION_GATED_SILU;
}

/* Where each part of the scratch starts, or with NULL as its start, how large it is. */
static size_t lay_out(void *start, size_t hidden, size_t wide, size_t rank, bool gated,
                      struct scratch *s) {
    const size_t length = part_length(wide), tokens = rank ? TILE + 1 : 0, parts = gated ? 2 : 1;
    const size_t sizes[] = {linear_workspace_bytes(TILE, larger(hidden, rank)),
                            (rank ? 0 : TILE) * wide * parts * sizeof(float),
                            wide * sizeof(float),
                            TOKENS_AT_A_TIME * length * sizeof(uint16_t),
                            TOKENS_AT_A_TIME * length,
                            TOKENS_AT_A_TIME * sizeof(struct active),
                            sparse_row_bytes(hidden) * sizeof(int32_t),
                            tokens * sparse_row_bytes(hidden),
                            tokens * length * parts * sizeof(int32_t),
                            tokens * length * sizeof(uint16_t),
                            tokens * rank * sizeof(float),
                            (rank ? PREDICTED : 0) * wide * sizeof(float),
                            tokens * hidden * sizeof(float),
                            tokens * sparse_mask_words(wide) * sizeof(uint64_t),
                            (rank ? PREDICTED : 0) * hidden * sizeof(float)};
    unsigned char *places[sizeof sizes / sizeof *sizes], *at = start;
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        places[i] = start ? at + total : NULL;
        total += round_up(sizes[i], MEMORY_ALIGNMENT);
    }
    if (!start)
        return total;
    s->linear = (struct workspace){.base = places[0], .capacity = sizes[0]};
    s->all = (float *)(void *)places[1];
    s->values = (float *)(void *)places[2];
    s->length = length;
    s->lists = (uint16_t *)(void *)places[3];
    s->bytes = (int8_t *)places[4];
    s->active = (struct active *)(void *)places[5];
    s->down_sums = (int32_t *)(void *)places[6];
    s->tile = (struct neuron_tile){.q = places[7],
                                   .k = hidden,
                                   .length = length,
                                   .sums = (int32_t *)(void *)places[8],
                                   .lists = (uint16_t *)(void *)places[9]};
    s->tile.gate_sums = s->tile.sums + tokens * length;
    s->inner = (float *)(void *)places[10];
    s->logits = (float *)(void *)places[11];
    s->compensation = (float *)(void *)places[12];
    s->masks = (uint64_t *)(void *)places[13];
    s->means = (float *)(void *)places[14];
    for (size_t t = 0; rank && t < TILE; t++)
        s->rows[t].q = places[7] + t * sparse_row_bytes(hidden);
    return total;
}

size_t sparse_ffn_scratch_bytes(size_t hidden, size_t wide, size_t rank,
                                enum activation activation) {
    return lay_out(NULL, hidden, wide, rank, activation == ACTIVATION_GATED_SILU, NULL);
}

/* ---- the first half, by the predictor ------------------------------------------------------- */

/* Which neurons the predictor chooses for each of n tokens x [n, hidden]: masks [n, words]. */
static void predict(const struct sparse_ffn *ffn, const float *thresholds, const float *x, size_t n,
                    struct scratch *s, uint64_t *masks) {
    const size_t wide = ffn->wide, words = sparse_mask_words(wide);
    linear_apply(&ffn->p, x, n, s->inner, s->linear);
    for (size_t first = 0; first < n; first += PREDICTED) {
        const size_t here = smaller(n - first, PREDICTED);
        linear_apply(&ffn->q, s->inner + first * ffn->rank, here, s->logits, s->linear);
        for (size_t t = 0; t < here; t++)
            ffn->kernels->sparse->choose(s->logits + t * wide, thresholds, wide,
                                         masks + (first + t) * words);
    }
}

void sparse_ffn_choose(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                       const size_t *starts, size_t texts, uint64_t *masks, void *scratch) {
    const size_t hidden = ffn->hidden;
    struct scratch s;
    lay_out(scratch, hidden, ffn->wide, ffn->rank, is_gated(ffn), &s);
    for (size_t first = 0; first < texts; first += PREDICTED) {
        const size_t n = smaller(texts - first, PREDICTED);
        for (size_t i = 0; i < n; i++) {
            const size_t start = starts[first + i], end = starts[first + i + 1];
            mean_of_rows(ffn->kernels, x + start * hidden, end - start, hidden,
                         s.means + i * hidden);
        }
        predict(ffn, thresholds, s.means, n, &s, masks + first * sparse_mask_words(ffn->wide));
    }
}

/* The masks of n tokens x, `at` the first of them. */
static void take_masks(const struct sparse_ffn *ffn, const struct sparse_choice *choice,
                       const float *x, size_t at, size_t n, struct scratch *s) {
    if (!choice->masks)
        predict(ffn, choice->thresholds, x, n, s, s->masks);
    for (size_t t = 0; t < n; t++)
        s->chosen[t] =
            choice->masks ? choice->masks[at + t] : s->masks + t * sparse_mask_words(ffn->wide);
}

/* One neuron for those of the tile's tokens that the bits of `wanted` say. */
static void apply_neuron(const struct sparse_ffn *ffn, size_t neuron, uint64_t wanted,
                         struct scratch *s) {
    const size_t at = neuron * sparse_row_bytes(ffn->hidden);
    ffn->kernels->sparse->up(&s->tile, ffn->up + at, ffn->gate ? ffn->gate + at : NULL, neuron,
                             wanted);
}

/* From masks of neurons for each of n tokens to sums with the rows of these neurons, which are
 * loaded once for all tokens that want them. */
static void apply_chosen(const struct sparse_ffn *ffn, size_t n, struct scratch *s) {
    const size_t words = sparse_mask_words(ffn->wide);
    memset(s->tile.n, 0, sizeof s->tile.n);
    for (size_t w = 0; w < words; w++) {
        uint64_t wanted[64] = {0}; /* by tokens, then by neurons */
        for (size_t t = 0; t < n; t++)
            wanted[t] = s->chosen[t][w];
        transpose_bits(wanted);
        for (size_t i = 0; i < 64; i++)
            if (wanted[i])
                apply_neuron(ffn, 64 * w + i, wanted[i], s);
    }
}

/* One token's contributions to s->values, those of a list of n neurons (NULL: of all); returns the
 * largest magnitude. */
static float activate(const struct sparse_ffn *ffn, size_t token, const uint16_t *list, size_t n,
                      struct scratch *s) {
    const struct neuron_sums sums = {.up = s->tile.sums + token * s->length,
                                     .gate = s->tile.gate_sums + token * s->length,
                                     .neurons = ffn->neurons,
                                     .gates = ffn->gates};
    return ffn->kernels->sparse->activate(ffn->activation, sums, ffn->center, list, n,
                                          &s->rows[token], s->values);
}

/* All activations of n tokens, to compare with what the masks choose. */
static void count_recall(const struct sparse_ffn *ffn, size_t n, struct scratch *s,
                         struct recall *recall) {
    const size_t wide = ffn->wide;
    const uint64_t all = (UINT64_C(1) << n) - 1;
    memset(s->tile.n, 0, sizeof s->tile.n);
    for (size_t i = 0; i < wide; i++)
        apply_neuron(ffn, i, all, s);
    for (size_t t = 0; t < n; t++) {
        activate(ffn, t, NULL, wide, s);
        recall_count(recall, s->values, s->chosen[t]);
    }
}

/* y [n, hidden]: what is added to each token's output besides the sum over its computed neurons. */
static void compensate(const struct sparse_ffn *ffn, size_t n, const struct scratch *s, float *y) {
    linear_apply(&ffn->compensation, s->inner, n, s->compensation, s->linear);
    for (size_t t = 0; t < n; t++) {
        const float scale = sparse_ffn_scale(s->tile.n[t], ffn->wide);
        const float *lost = s->compensation + t * ffn->hidden;
        for (size_t c = 0; c < ffn->hidden; c++)
            y[t * ffn->hidden + c] = ffn->columns.base[c] + scale * lost[c];
    }
}

/* What is left for the second half of the token's contributions s->values, those of a list of n
 * neurons (NULL: of all). */
static void keep_active(const struct sparse_ffn *ffn, size_t token, const uint16_t *list, size_t n,
                        float largest, struct scratch *s, struct sparse_counts *counts) {
    struct active *active = &s->active[token];
    const size_t at = token * s->length;
    active->n = ffn->kernels->sparse->compact(s->values, largest, list, n, s->lists + at,
                                              s->bytes + at, &active->total);
    active->scale = largest / 127;
    counts->computed += n;
    counts->contributing += active->n;
}

/* The first half for n tokens x whose masks are taken, `at` the first of them: which neurons are
 * active, and their values as bytes; and y as `compensate` has it, where there is a compensation.
 */
static void apply_up_chosen(const struct sparse_ffn *ffn, const float *x, size_t at, size_t n,
                            struct scratch *s, float *y, struct sparse_counts *counts) {
    for (size_t t = 0; t < n; t++)
        ffn->kernels->sparse->quantise(x + t * ffn->hidden, ffn->by, ffn->hidden, &s->rows[t]);
    if (counts->recall)
        count_recall(ffn, n, s, counts->recall);
    apply_chosen(ffn, n, s);
    if (ffn->compensation.n)
        compensate(ffn, n, s, y);
    for (size_t t = 0; t < n; t++) {
        const uint16_t *list = s->tile.lists + t * s->length;
        const float largest = activate(ffn, t, list, s->tile.n[t], s);
        keep_active(ffn, at + t, list, s->tile.n[t], largest, s, counts);
    }
}

/* ---- the first half of all neurons ---------------------------------------------------------- */

/* The same by the dense product. */
static void apply_up_all(const struct sparse_ffn *ffn, const float *x, size_t at, size_t n,
                         struct scratch *s, struct sparse_counts *counts) {
    const size_t wide = ffn->wide;
    linear_apply(&ffn->all, x, n, s->all, s->linear);
    for (size_t t = 0; t < n; t++) {
        const float *up = s->all + t * ffn->all.n; /* gates are its second half */
        const float largest = ffn->kernels->sparse->contribute(ffn->activation, up, up + wide,
                                                               ffn->columns.scale, wide, s->values);
        if (counts->recall)
            recall_count(counts->recall, s->values, NULL);
        keep_active(ffn, at + t, NULL, wide, largest, s, counts);
    }
}

/* ---- the second half ------------------------------------------------------------------------ */

/* Of one token; base may be y. */
static void apply_down(const struct sparse_ffn *ffn, size_t token, const struct scratch *s,
                       const float *base, float *y) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    const struct active *active = &s->active[token];
    const size_t at = token * s->length;
    kernels->down(s->bytes + at, ffn->columns.w, s->lists + at, round_up(active->n, DOWN_NEURONS),
                  ffn->hidden, s->down_sums);
    kernels->add_base(s->down_sums, kernels->signed_columns ? 0 : 128 * active->total,
                      active->scale, ffn->columns.row_scales, base, ffn->hidden, y);
}

void sparse_ffn_apply(const struct sparse_ffn *ffn, struct sparse_choice choice, const float *x,
                      size_t tokens, float *y, void *scratch, struct sparse_counts *counts) {
    struct scratch s;
    const size_t hidden = ffn->hidden;
    lay_out(scratch, hidden, ffn->wide, ffn->rank, is_gated(ffn), &s);
    for (size_t first = 0; first < tokens; first += TOKENS_AT_A_TIME) {
        const size_t n = smaller(tokens - first, TOKENS_AT_A_TIME);
        for (size_t t = 0; t < n; t += TILE) {
            const size_t at = (first + t) * hidden, here = smaller(n - t, TILE);
            if (!choice.thresholds && !choice.masks) {
                apply_up_all(ffn, x + at, t, here, &s, counts);
                continue;
            }
            take_masks(ffn, &choice, x + at, first + t, here, &s);
            apply_up_chosen(ffn, x + at, t, here, &s, y + at, counts);
        }
        for (size_t t = 0; t < n; t++) {
            float *to = y + (first + t) * hidden;
            apply_down(ffn, t, &s, ffn->compensation.n ? to : ffn->columns.base, to);
        }
    }
    counts->tokens += tokens;
}

/* A neuron that is computed at one of two levels only has nothing to go along between them: it is
 * as at the nearer one. */
static float between(float from, float to, float part) {
    if (from >= SPARSE_NEVER || to >= SPARSE_NEVER)
        return part < 0.5f ? from : to;
    return from + part * (to - from);
}

void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds) {
    const size_t wide = ffn->wide;
    size_t above = 0;
    while (above + 1 < plan->levels && plan->shares[above] < share)
        above++;
    const size_t below = above > 0 ? above - 1 : 0;
    const float low = plan->shares[below], high = plan->shares[above];
    float part = high > low ? (share - low) / (high - low) : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const float *from = ffn->thresholds + below * wide, *to = ffn->thresholds + above * wide;
    for (size_t i = 0; i < wide; i++)
        thresholds[i] = between(from[i], to[i], part);
}
