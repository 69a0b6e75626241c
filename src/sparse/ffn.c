/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/ffn.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "layers/mean.h"
#include "sparse/neuron_cold.h"

enum {
    /* A part of W_up is read from slower memory once for this many tokens. */
    TILE = 63,
/* A part has the neurons of this many words of a mask. Small parts stay in the first-level
 * cache, where they are fetched before their turn. WebAssembly cannot fetch ahead, and large
 * parts take fewer calls. */
#ifdef __wasm__
    PART_WORDS = 4,
#else
    PART_WORDS = 2,
#endif
    /* The first half runs for this many tokens before the second half does. W_up and W_down do not
     * both fit the second-level cache, so each is read from slower memory once for these tokens. */
    TOKENS_AT_A_TIME = 4 * TILE,
    /* The logits of this many tokens, or texts, are in memory at a time. Products compute 3, 4, 6
     * or 8 rows at a time. */
    PREDICTED = 24,
    CACHE_LINE = 64 /* bytes */
};

/* The input of the second half for one token. */
struct active {
    size_t n;      /* active neurons: those whose quantised contribution is not 0 */
    int32_t total; /* sum of their quantised contributions */
    float scale;   /* contribution = scale * quantised contribution */
};

/* Working memory of one call. */
struct scratch {
    float *values;         /* [intermediate_size]: one token's contributions */
    size_t length;         /* items for each token in the next two arrays */
    uint16_t *lists;       /* [TOKENS_AT_A_TIME, length]: numbers of the active neurons */
    int8_t *bytes;         /* [TOKENS_AT_A_TIME, length]: their quantised contributions */
    struct active *active; /* [TOKENS_AT_A_TIME] */
    int32_t *down_sums;    /* [2, hidden_size], padded to a whole chunk */
    /* Only layers without predictor use this: */
    float *first_half; /* [TILE, intermediate_size], or [TILE, 2 intermediate_size] with gates */
    /* Only layers with a predictor use these: */
    struct quantised_row rows[TILE]; /* quantised x */
    uint16_t *chosen_lists;          /* [TILE, length]: numbers of the chosen neurons, */
    int32_t *sums, *gate_sums;       /* [TILE, length]: and the sums of their rows */
    size_t listed[TILE];             /* neurons in each token's list */
    float *inner;                    /* [TILE, rank]: P x + p */
    float *logits;                   /* [PREDICTED, intermediate_size] */
    float *compensation;             /* [TILE, hidden_size] */
    uint64_t *masks;                 /* [TILE, words]: masks chosen token by token */
    uint64_t *all;                   /* [words]: the mask of all neurons */
    const uint64_t *chosen[TILE];    /* points to the mask of each token */
    float *means;                    /* [PREDICTED, hidden_size]: means of texts */
    struct workspace linear;         /* serves the dense products of a tile */
};

static void take_scratch(struct scratch *s, struct workspace *space, size_t hidden_size,
                         size_t intermediate_size, size_t rank, bool gated) {
    enum { LINE = 64 / sizeof(int32_t) };
    const size_t parts = gated ? 2 : 1, row_bytes = sparse_row_bytes(hidden_size);
    *s = (struct scratch){0};
    /* Each token's part takes an odd number of cache lines. Each neuron appends to the parts of
     * several tokens; parts an even number of lines apart would compete for the same few sets of
     * the first-level cache. */
    s->length = LINE * (round_up(intermediate_size + SPARSE_SLACK, LINE) / LINE | 1);
    s->values = workspace_take(space, 1, intermediate_size, sizeof *s->values);
    s->lists = workspace_take(space, TOKENS_AT_A_TIME, s->length, sizeof *s->lists);
    s->bytes = workspace_take(space, TOKENS_AT_A_TIME, s->length, 1);
    s->active = workspace_take(space, 1, TOKENS_AT_A_TIME, sizeof *s->active);
    s->down_sums = workspace_take(space, 2, row_bytes, sizeof *s->down_sums);
    if (rank == 0) {
        s->first_half =
            workspace_take(space, TILE * parts, intermediate_size, sizeof *s->first_half);
    } else {
        uint8_t *q = workspace_take(space, TILE, row_bytes, 1);
        for (size_t t = 0; q && t < TILE; t++)
            s->rows[t].q = q + t * row_bytes;
        s->chosen_lists = workspace_take(space, TILE, s->length, sizeof *s->chosen_lists);
        s->sums = workspace_take(space, TILE, s->length, sizeof *s->sums);
        s->gate_sums =
            gated ? workspace_take(space, TILE, s->length, sizeof *s->gate_sums) : s->sums;
        s->inner = workspace_take(space, TILE, rank, sizeof *s->inner);
        s->logits = workspace_take(space, PREDICTED, intermediate_size, sizeof *s->logits);
        s->compensation = workspace_take(space, TILE, hidden_size, sizeof *s->compensation);
        s->masks =
            workspace_take(space, TILE, sparse_mask_words(intermediate_size), sizeof *s->masks);
        s->all = workspace_take(space, 1, sparse_mask_words(intermediate_size), sizeof *s->all);
        s->means = workspace_take(space, PREDICTED, hidden_size, sizeof *s->means);
    }
    s->linear = workspace_part(space, linear_workspace_bytes(TILE, larger(hidden_size, rank)));
}

size_t sparse_ffn_workspace_bytes(size_t hidden_size, size_t intermediate_size, size_t rank,
                                  enum activation activation) {
    struct workspace measured = {0};
    struct scratch s;
    take_scratch(&s, &measured, hidden_size, intermediate_size, rank,
                 activation_is_gated(activation));
    return measured.used;
}

static void open_scratch(const struct sparse_ffn *ffn, struct scratch *s, struct workspace space) {
    take_scratch(s, &space, ffn->hidden_size, ffn->intermediate_size, ffn->rank,
                 activation_is_gated(ffn->activation));
}

/* ---- the predictor -------------------------------------------------------------------------- */

/* Writes masks [n, words]: the neurons that the predictor chooses for each row of x [n,
 * hidden_size], at most TILE tokens. Keeps P x + p in inner [n, rank]. */
static void predict(const struct sparse_ffn *ffn, const float *thresholds, const float *x, size_t n,
                    const struct scratch *s, float *inner, uint64_t *masks) {
    const size_t neurons = ffn->intermediate_size, words = sparse_mask_words(neurons);
    linear_apply(&ffn->p, x, n, inner, s->linear);
    for (size_t first = 0; first < n; first += PREDICTED) {
        const size_t here = smaller(n - first, PREDICTED);
        linear_apply(&ffn->q, inner + first * ffn->rank, here, s->logits, s->linear);
        for (size_t t = 0; t < here; t++)
            ffn->kernels->sparse->choose(s->logits + t * neurons, thresholds, neurons,
                                         masks + (first + t) * words);
    }
}

void sparse_ffn_choose(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                       const size_t *starts, size_t texts, uint64_t *masks,
                       struct workspace space) {
    const size_t hidden_size = ffn->hidden_size, words = sparse_mask_words(ffn->intermediate_size);
    struct scratch s;
    open_scratch(ffn, &s, space);
    for (size_t first = 0; first < texts; first += PREDICTED) {
        const size_t n = smaller(texts - first, PREDICTED);
        for (size_t i = 0; i < n; i++) {
            const size_t start = starts[first + i], end = starts[first + i + 1];
            mean_of_rows(ffn->kernels, x + start * hidden_size, end - start, hidden_size,
                         s.means + i * hidden_size);
        }
        predict(ffn, thresholds, s.means, n, &s, s.inner, masks + first * words);
    }
}

void sparse_ffn_predict(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                        size_t n, uint64_t *masks, float *inner, struct workspace space) {
    struct scratch s;
    open_scratch(ffn, &s, space);
    for (size_t t = 0; t < n; t += TILE)
        predict(ffn, thresholds, x + t * ffn->hidden_size, smaller(n - t, TILE), &s,
                inner + t * ffn->rank, masks + t * sparse_mask_words(ffn->intermediate_size));
}

/* ---- the first half ------------------------------------------------------------------------- */

/* Appends the numbers of the bits that are set in word `w` of a mask to a list of n. Returns the
 * new length. */
static size_t append_word(uint64_t mask, size_t w, uint16_t *list, size_t n) {
    for (; mask; mask &= mask - 1)
        list[n++] = (uint16_t)(64 * w + (size_t)__builtin_ctzll(mask));
    return n;
}

/* Computes the sums of n neurons of a token's list, from entry `first` on, with their rows of W_up,
 * and of W_gate if there is one. If the first of them is in a frame, all are in that frame. */
static void multiply(const struct sparse_ffn *ffn, size_t token, size_t first, size_t n,
                     const struct scratch *s) {
    const struct neuron_layer *neurons = ffn->neurons;
    const size_t at = token * s->length + first;
    const uint16_t *list = s->chosen_lists + at;
    const int8_t *up = neurons->up, *gate = neurons->gate;
    uint16_t rows[64];
    if (COLD_NEURONS_MAY_BE_ABSENT && n > 0 && list[0] >= neurons->placed) {
        for (size_t i = 0; i < n; i++)
            rows[i] = (uint16_t)neuron_frame_row(neurons, list[i]);
        list = rows;
        up = neurons->frames->up;
        gate = neurons->frames->gate;
    }
    ffn->kernels->sparse->up(s->rows[token].q, up, list, n, ffn->hidden_size, s->sums + at);
    if (gate)
        ffn->kernels->sparse->up(s->rows[token].q, gate, list, n, ffn->hidden_size,
                                 s->gate_sums + at);
}

/* Returns the word of a mask at which a part ends that begins at word w. A group of 64 neurons that
 * may be in a frame is a part of its own. */
static size_t part_end(const struct neuron_layer *neurons, size_t w) {
    const size_t placed_words = (neurons->placed + 63) / 64;
    return w < placed_words ? smaller(w + PART_WORDS, placed_words) : w + 1;
}

/* Lists the neurons in the masks of n tokens, and computes their sums. Every token takes its
 * neurons of one part of W_up before any token takes the next part. `up` takes UP_NEURONS at a
 * time, so a token's last ones wait for the next part, unless that is in a frame. */
static void multiply_chosen(const struct sparse_ffn *ffn, const uint64_t *const *masks, size_t n,
                            struct scratch *s) {
    const struct neuron_layer *neurons = ffn->neurons;
    const size_t words = sparse_mask_words(ffn->intermediate_size);
    const size_t bytes = 64 * PART_WORDS * neurons->row_bytes;
    size_t done[TILE] = {0}, end;
    memset(s->listed, 0, sizeof s->listed);
    for (size_t w = 0; w < words; w = end) {
        end = part_end(neurons, w);
        const bool wait = 64 * end < neurons->placed;
        for (size_t t = 0; t < n; t++) {
            /* The tokens share the work of fetching the next part. */
            for (size_t i = t * bytes / n; wait && i < (t + 1) * bytes / n; i += CACHE_LINE)
                __builtin_prefetch(neurons->up + 64 * end * neurons->row_bytes + i);
            uint16_t *list = s->chosen_lists + t * s->length;
            for (size_t v = w; v < end; v++)
                s->listed[t] = append_word(masks[t][v], v, list, s->listed[t]);
            size_t ready = s->listed[t] - done[t];
            ready -= wait ? ready % UP_NEURONS : 0;
            multiply(ffn, t, done[t], ready, s);
            done[t] += ready;
        }
    }
}

/* Computes the contributions of a list of n neurons to one token, or of all n if `list` is NULL,
 * from their sums. Writes them to s->values and returns the largest magnitude. */
static float activate(const struct sparse_ffn *ffn, size_t token, const uint16_t *list, size_t n,
                      const struct scratch *s) {
    const struct neuron_sums sums = {.up = s->sums + token * s->length,
                                     .gate = s->gate_sums + token * s->length,
                                     .neurons = ffn->neurons->up_scalars,
                                     .gates = ffn->neurons->gate_scalars};
    return ffn->kernels->sparse->activate(ffn->activation, sums, ffn->neurons->center, list, n,
                                          &s->rows[token], s->values);
}

/* Quantises the contributions s->values of a list of n neurons, or of all n if `list` is NULL,
 * and keeps those that are not 0 as the token's input of the second half. */
static void keep_active(const struct sparse_ffn *ffn, size_t token, const uint16_t *list, size_t n,
                        float largest, const struct scratch *s, struct sparse_counts *counts) {
    struct active *active = &s->active[token];
    const size_t at = token * s->length;
    active->n = ffn->kernels->sparse->compact(s->values, largest, list, n, s->lists + at,
                                              s->bytes + at, &active->total);
    active->scale = largest / 127;
    counts->computed += n;
    counts->contributing += active->n;
}

/* Computes all activations of n tokens and counts how many needed neurons their masks choose. */
static void count_recall(const struct sparse_ffn *ffn, size_t n, struct scratch *s,
                         struct recall *recall) {
    const size_t neurons = ffn->intermediate_size;
    const uint64_t *masks[TILE];
    memset(s->all, 0, sparse_mask_words(neurons) * sizeof *s->all);
    for (size_t i = 0; i < neurons; i++)
        s->all[i / 64] |= UINT64_C(1) << i % 64;
    for (size_t t = 0; t < n; t++)
        masks[t] = s->all;
    multiply_chosen(ffn, masks, n, s);
    for (size_t t = 0; t < n; t++) {
        activate(ffn, t, NULL, neurons, s);
        recall_count(recall, s->values, s->chosen[t]);
    }
}

/* Computes the first half for n tokens x with the masks s->chosen, and keeps it as that of tokens
 * [token, token + n). If the layer has a compensation, writes base + compensation to
 * y [n, hidden_size]; inner [n, rank] is P x + p. */
static void apply_chosen(const struct sparse_ffn *ffn, const float *x, const float *inner,
                         size_t token, size_t n, struct scratch *s, float *y,
                         struct sparse_counts *counts) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    const size_t hidden_size = ffn->hidden_size;
    for (size_t t = 0; t < n; t++)
        kernels->quantise(x + t * hidden_size, ffn->neurons->input_scale, hidden_size, &s->rows[t]);
    if (counts->recall)
        count_recall(ffn, n, s, counts->recall);

    multiply_chosen(ffn, s->chosen, n, s);
    if (ffn->compensation.n)
        linear_apply(&ffn->compensation, inner, n, s->compensation, s->linear);
    for (size_t t = 0; ffn->compensation.n && t < n; t++) {
        const float scale = sparse_ffn_scale(s->listed[t], ffn->intermediate_size);
        const float *lost = s->compensation + t * hidden_size;
        for (size_t c = 0; c < hidden_size; c++)
            y[t * hidden_size + c] = ffn->neurons->base[c] + scale * lost[c];
    }
    for (size_t t = 0; t < n; t++) {
        const uint16_t *list = s->chosen_lists + t * s->length;
        const float largest = activate(ffn, t, list, s->listed[t], s);
        keep_active(ffn, token + t, list, s->listed[t], largest, s, counts);
    }
}

/* Computes the first half of all neurons for n tokens x with a dense product, and keeps it as that
 * of tokens [token, token + n). */
static void apply_all(const struct sparse_ffn *ffn, const float *x, size_t token, size_t n,
                      const struct scratch *s, struct sparse_counts *counts) {
    const struct linear *dense = &ffn->neurons->dense;
    const size_t neurons = ffn->intermediate_size;
    linear_apply(dense, x, n, s->first_half, s->linear);
    for (size_t t = 0; t < n; t++) {
        const float *up = s->first_half + t * dense->n; /* then W_gate x */
        const float largest = ffn->kernels->sparse->contribute(
            ffn->activation, up, up + neurons, ffn->neurons->column_scale, neurons, s->values);
        if (counts->recall)
            recall_count(counts->recall, s->values, NULL);
        keep_active(ffn, token + t, NULL, neurons, largest, s, counts);
    }
}

/* ---- the second half ------------------------------------------------------------------------ */

/* Adds up the columns of a token's active neurons in s->down_sums. Those in frames, which are the
 * last of the list, get sums of their own, since they are counted from another address; all sums
 * are integers, so their order does not matter. Overwrites the list. */
static void add_columns(const struct sparse_ffn *ffn, size_t token, const struct scratch *s) {
    const struct neuron_layer *neurons = ffn->neurons;
    const size_t size = ffn->hidden_size, n = s->active[token].n;
    int8_t *bytes = s->bytes + token * s->length;
    uint16_t *list = s->lists + token * s->length;
    size_t placed = n;
    if (COLD_NEURONS_MAY_BE_ABSENT && neurons->frames) {
        int32_t *sums = s->down_sums + neurons->row_bytes;
        for (; placed > 0 && list[placed - 1] >= neurons->placed; placed--)
            list[placed - 1] = (uint16_t)neuron_frame_row(neurons, list[placed - 1]);
        /* There is room behind the list (SPARSE_SLACK). */
        memset(bytes + n, 0, DOWN_NEURONS);
        memset(list + n, 0, DOWN_NEURONS * sizeof *list);
        ffn->kernels->sparse->down(bytes + placed, neurons->frames->down, list + placed,
                                   round_up(n - placed, DOWN_NEURONS), size, sums);
        memset(bytes + placed, 0, DOWN_NEURONS);
        memset(list + placed, 0, DOWN_NEURONS * sizeof *list);
    }
    ffn->kernels->sparse->down(bytes, neurons->down, list, round_up(placed, DOWN_NEURONS), size,
                               s->down_sums);
    for (size_t c = 0; c < neurons->row_bytes && placed < n; c++)
        s->down_sums[c] += s->down_sums[neurons->row_bytes + c];
}

/* ---- the layer ------------------------------------------------------------------------------ */

void sparse_ffn_apply(const struct sparse_ffn *ffn, struct sparse_choice choice, const float *x,
                      size_t tokens, float *y, struct workspace space,
                      struct sparse_counts *counts) {
    const struct sparse_kernels *kernels = ffn->kernels->sparse;
    const struct neuron_layer *neurons = ffn->neurons;
    const size_t hidden_size = ffn->hidden_size, words = sparse_mask_words(ffn->intermediate_size);
    struct scratch s;
    assert(choice.masks || neurons->n_present == neurons->intermediate_size);
    open_scratch(ffn, &s, space);
    for (size_t first = 0; first < tokens; first += TOKENS_AT_A_TIME) {
        const size_t n = smaller(tokens - first, TOKENS_AT_A_TIME);
        for (size_t t = 0; t < n; t += TILE) {
            const size_t at = (first + t) * hidden_size, here = smaller(n - t, TILE);
            if (!choice.thresholds && !choice.masks) {
                apply_all(ffn, x + at, t, here, &s, counts);
                continue;
            }
            if (!choice.masks)
                predict(ffn, choice.thresholds, x + at, here, &s, s.inner, s.masks);
            for (size_t i = 0; i < here; i++)
                s.chosen[i] = choice.masks ? choice.masks[first + t + i] : s.masks + i * words;
            const float *inner = choice.inner ? choice.inner + (first + t) * ffn->rank : s.inner;
            apply_chosen(ffn, x + at, inner, t, here, &s, y + at, counts);
        }
        /* Tokens read columns of W_down in an order that no cache foresees. Together they read most
         * of them, which come sooner in the order of memory. */
        for (size_t at = 0; n >= TILE && at < neurons->placed * neurons->row_bytes;
             at += CACHE_LINE)
            __builtin_prefetch(neurons->down + at, 0, 2);
        for (size_t t = 0; t < n; t++) {
            const struct active *active = &s.active[t];
            float *to = y + (first + t) * hidden_size;
            add_columns(ffn, t, &s);
            kernels->add_base(s.down_sums, kernels->signed_columns ? 0 : 128 * active->total,
                              active->scale, neurons->row_scale,
                              ffn->compensation.n ? to : neurons->base, hidden_size, to);
        }
    }
    counts->tokens += tokens;
}

void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds) {
    const size_t neurons = ffn->intermediate_size;
    size_t above = 0;
    while (above + 1 < plan->levels && plan->shares[above] < share)
        above++;
    const size_t below = above > 0 ? above - 1 : 0;
    const float low = plan->shares[below], high = plan->shares[above];
    float part = high > low ? (share - low) / (high - low) : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const float *from = ffn->thresholds + below * neurons, *to = ffn->thresholds + above * neurons;
    for (size_t i = 0; i < neurons; i++)
        /* A neuron that one of the two levels never computes has no threshold to interpolate from:
         * the nearer level decides. */
        if (from[i] >= SPARSE_NEVER || to[i] >= SPARSE_NEVER)
            thresholds[i] = part < 0.5f ? from[i] : to[i];
        else
            thresholds[i] = from[i] + part * (to[i] - from[i]);
}
