/* SPDX-License-Identifier: Apache-2.0
 * Masks of the policy `learned`. Texts are read twice with full attention. The first time what each
 * head gives its weight to is added up, and from this masks of several sizes are made: the lines,
 * or blocks, that have most of the weight for each key they cost. The second time the outputs that
 * a head would have with each of them are computed. The smallest mask of those that keep to the
 * bound in each text is the head's. Ends of texts that ask for a hidden sentence count as texts of
 * their own: heads that find it are few, and look far away at no other time. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "calibrate/attention.h"

enum { NEAR = 128, SINKS = 64, LEAST_WINDOW = 128, LOCAL_MASKS = 6, SIZES = 6, ASKED = 64 };

/* Hundredths of the steps that masks of lines and of blocks keep. */
static const size_t sizes[SIZES] = {5, 10, 20, 30, 45, 60};

/* ---- making masks --------------------------------------------------------------------------- */

/* A line or block: what it gives for each step that it costs, and its bit. */
struct piece {
    double worth;
    size_t bit;
};

static int compare_pieces(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    return x->worth != y->worth ? (x->worth < y->worth) - (x->worth > y->worth)
                                : (x->bit > y->bit) - (x->bit < y->bit);
}

/* Returns how many of the pairs of a step of queries and one of keys a mask keeps. */
static size_t kept_pairs(const struct attention_masks *shape,
                         const struct attention_mask_of_head *mask) {
    size_t kept = 0;
    for (size_t q = 0; q < shape->steps; q++)
        for (size_t k = 0; k <= q; k++)
            kept += attention_mask_keeps(shape, mask, q, k);
    return kept;
}

/* Makes a mask for each of the sizes: pieces are added, a few at a time, until it has that many
 * pairs of steps. */
static wisp_status add_masks(struct watch *watch, struct watched_head *head,
                             enum attention_kind kind, struct piece *pieces, size_t n,
                             struct arena *arena, wisp_error *error) {
    const size_t bytes = attention_mask_bytes(watch->shape.steps), at_once = n / 64 + 1;
    const size_t pairs = watch->shape.steps * (watch->shape.steps + 1) / 2;
    unsigned char *so_far;
    struct attention_mask_of_head mask = {.kind = kind, .window = NEAR};
    size_t used = 0;
    ARENA_TAKE(arena, so_far, bytes, error);
    mask.bits = so_far;
    qsort(pieces, n, sizeof *pieces, compare_pieces);
    for (size_t i = 0; i < SIZES; i++) {
        unsigned char *bits;
        while (used < n && kept_pairs(&watch->shape, &mask) * 100 < pairs * sizes[i])
            for (size_t end = smaller(n, used + at_once); used < end; used++)
                so_far[pieces[used].bit / 8] |= (unsigned char)(1 << pieces[used].bit % 8);
        ARENA_TAKE(arena, bits, bytes, error);
        memcpy(bits, so_far, bytes);
        head->mask[head->masks] = mask;
        head->mask[head->masks++].bits = bits;
    }
    return WISP_OK;
}

static wisp_status make_masks(struct attention_calibration *c, struct watched_head *head,
                              struct piece *pieces, wisp_error *error) {
    struct watch *watch = &c->watch;
    const size_t steps = watch->shape.steps, blocks = (steps + MASK_STEPS - 1) / MASK_STEPS;
    for (size_t window = LEAST_WINDOW; head->masks < LOCAL_MASKS; window *= 2)
        head->mask[head->masks++] =
            (struct attention_mask_of_head){.kind = ATTENTION_KEEPS_LOCAL, .window = window};
    for (size_t i = 0; i < steps; i++) {
        const double cost = (double)(steps - i);
        pieces[i] = (struct piece){head->slash[i] / cost, i};
        pieces[steps + i] = (struct piece){head->vertical[i] / cost, steps + i};
    }
    TRY(add_masks(watch, head, ATTENTION_KEEPS_LINES, pieces, 2 * steps, &c->arena, error));
    for (size_t i = 0; i < blocks * (blocks + 1) / 2; i++)
        pieces[i] = (struct piece){head->blocks[i], i};
    return add_masks(watch, head, ATTENTION_KEEPS_BLOCKS, pieces, blocks * (blocks + 1) / 2,
                     &c->arena, error);
}

static wisp_status make_all_masks(struct attention_calibration *c, wisp_error *error) {
    const size_t steps = c->watch.shape.steps, blocks = (steps + MASK_STEPS - 1) / MASK_STEPS;
    struct piece *pieces;
    ARENA_TAKE(&c->arena, pieces, larger(2 * steps, blocks * (blocks + 1) / 2), error);
    for (size_t i = 0; i < c->watch.shape.layers * c->watch.shape.kv_heads; i++)
        TRY(make_masks(c, &c->watch.heads[i], pieces, error));
    c->watch.measures = true;
    return WISP_OK;
}

/* ---- reading texts -------------------------------------------------------------------------- */

/* Reads a text whose positions from `from` on are watched. */
static wisp_status watch_text(struct attention_calibration *c, wisp_session *session,
                              const int32_t *ids, size_t from, wisp_error *error) {
    const struct attention_text text = {ids, c->window, c->window - 1};
    struct attention_prediction ignored;
    c->watch.from = from;
    TRY(attention_predict(session, &text, false, &ignored, error));
    watch_end_part(&c->watch);
    return WISP_OK;
}

/* Reads all texts to learn from. Those with a sentence are at depths between the ones that
 * policies are tried at. */
static wisp_status watch_texts(struct attention_calibration *c, wisp_session *session,
                               const char *stage, wisp_error *error) {
    const size_t total = c->windows + c->needles;
    for (size_t i = 0; i < total; i++) {
        const int32_t *ids = c->ids + i % c->windows * c->window;
        const bool asks = i >= c->windows;
        TRY(attention_progress(c, stage, i, total, error));
        if (asks) {
            struct attention_text text;
            const double depth = ((double)(i - c->windows) + 0.5) / (double)c->needles;
            TRY(attention_hide_needle(c->model, ids, c->window, depth, (uint32_t)(100 + i),
                                      c->hidden, &text, error));
            ids = text.ids;
        }
        TRY(watch_text(c, session, ids, asks ? c->window - smaller(ASKED, c->window) : 0, error));
    }
    return attention_progress(c, stage, total, total, error);
}

/* ---- choosing ------------------------------------------------------------------------------- */

static void tell(const struct attention_calibration *c, size_t i) {
    static const char *const kinds[ATTENTION_KINDS] = {"full", "local", "lines", "blocks"};
    const struct watched_head *head = &c->watch.heads[i];
    const size_t mask = c->chosen[i], kv_heads = c->watch.shape.kv_heads;
    const bool all = mask == WATCH_MASKS;
    const wisp_learned_attention found = {
        .layer = (uint32_t)(i / kv_heads),
        .kv_head = (uint32_t)(i % kv_heads),
        .kind = kinds[all ? ATTENTION_KEEPS_ALL : head->mask[mask].kind],
        .kept = all ? 1 : head->kept[mask] / head->visible,
        .error = all ? 0 : head->error[mask]};
    if (c->options->learned)
        c->options->learned(c->options->context, &found);
}

/* Chooses the mask of each head. */
static wisp_status choose_masks(struct attention_calibration *c, wisp_error *error) {
    const size_t heads = c->watch.shape.layers * c->watch.shape.kv_heads;
    const size_t bytes = attention_mask_bytes(c->watch.shape.steps);
    unsigned char *kinds, *bits;
    int32_t *windows;
    ARENA_TAKE(&c->arena, c->chosen, heads, error);
    ARENA_TAKE(&c->arena, kinds, heads, error);
    ARENA_TAKE(&c->arena, windows, heads, error);
    ARENA_TAKE(&c->arena, bits, heads * bytes, error);
    for (size_t i = 0; i < heads; i++) {
        const struct watched_head *head = &c->watch.heads[i];
        double least = head->visible; /* of all keys */
        c->chosen[i] = WATCH_MASKS;
        windows[i] = NEAR;
        for (size_t m = 0; m < head->masks; m++)
            if (head->error[m] <= (double)c->options->bound && head->kept[m] < least) {
                least = head->kept[m];
                c->chosen[i] = m;
            }
        if (c->chosen[i] < WATCH_MASKS) {
            const struct attention_mask_of_head *mask = &head->mask[c->chosen[i]];
            kinds[i] = (unsigned char)mask->kind;
            windows[i] = (int32_t)mask->window;
            if (mask->kind != ATTENTION_KEEPS_LOCAL)
                memcpy(bits + i * bytes, mask->bits, bytes);
        }
        tell(c, i);
    }
    c->masks = c->watch.shape;
    c->masks.kinds = kinds;
    c->masks.windows = windows;
    c->masks.bits = bits;
    return WISP_OK;
}

wisp_status attention_learn(struct attention_calibration *c, wisp_error *error) {
    struct watched_masks watched = {.watch = &c->watch};
    wisp_session *session;
    TRY(attention_session(c, NULL, &session, error));
    const struct kv_shape *shape = &session->generation->sequences[0].cache.shape;
    c->watch.shape = (struct attention_masks){.layers = shape->layers,
                                              .kv_heads = shape->kv_heads,
                                              .steps = (c->window - 1) / KV_STEP + 1,
                                              .sinks = SINKS};
    session->attention = (struct attention_choice){
        .prefill = &attention_watched, .decode = &attention_watched, .masks = &watched.masks};
    wisp_status status = watch_open(&c->watch, &c->arena, error);
    if (status == WISP_OK)
        status = watch_texts(c, session, "weights", error);
    if (status == WISP_OK)
        status = make_all_masks(c, error);
    if (status == WISP_OK)
        status = watch_texts(c, session, "masks", error);
    session->attention.masks = NULL; /* which the session would free */
    wisp_session_close(session);
    return status == WISP_OK ? choose_masks(c, error) : status;
}
