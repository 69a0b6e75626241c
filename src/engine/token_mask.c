/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/token_mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* ---- the order of tokens -------------------------------------------------------------------- */

struct sorted {
    wisp_text text;
    int32_t id;
};

static int by_bytes(const void *a, const void *b) {
    const struct sorted *x = a, *y = b;
    const int order = memcmp(x->text.bytes, y->text.bytes, smaller(x->text.length, y->text.length));
    if (order != 0)
        return order;
    if (x->text.length != y->text.length)
        return x->text.length < y->text.length ? -1 : 1;
    return x->id - y->id;
}

wisp_status token_order_open(struct token_order *order, const struct codec *codec,
                             wisp_error *error) {
    const size_t size = codec_vocabulary_size(codec);
    struct sorted *sorted = calloc(size, sizeof *sorted);
    *order = (struct token_order){.ids = calloc(size, sizeof *order->ids),
                                  .shared = calloc(size, sizeof *order->shared),
                                  .vocabulary_size = size};
    if (!sorted || !order->ids || !order->shared) {
        free(sorted);
        return fail_memory(error, size * sizeof *sorted);
    }
    for (size_t id = 0; id < size; id++) {
        const wisp_text text = codec_decode(codec, (int32_t)id);
        if (text.length > 0 && !codec_is_end(codec, (int32_t)id))
            sorted[order->n++] = (struct sorted){text, (int32_t)id};
    }
    qsort(sorted, order->n, sizeof *sorted, by_bytes);
    for (size_t i = 0; i < order->n; i++) {
        const wisp_text text = sorted[i].text;
        const wisp_text before = i > 0 ? sorted[i - 1].text : (wisp_text){NULL, 0};
        size_t shared = 0;
        while (shared < text.length && shared < before.length &&
               text.bytes[shared] == before.bytes[shared])
            shared++;
        order->ids[i] = sorted[i].id;
        order->shared[i] = (uint32_t)shared;
        order->longest = larger(order->longest, text.length);
    }
    free(sorted);
    return WISP_OK;
}

void token_order_release(struct token_order *order) {
    free(order->ids);
    free(order->shared);
    *order = (struct token_order){0};
}

/* ---- masks ---------------------------------------------------------------------------------- */

wisp_status token_mask_open(struct token_mask *mask, const struct wisp_grammar *grammar,
                            const struct codec *codec, const struct token_order *order,
                            const int32_t *stop_id, size_t stop_ids, wisp_error *error) {
    *mask = (struct token_mask){.codec = codec, .order = order, .n_ends = stop_ids};
    TRY(grammar_state_open(&mask->state, grammar, error));
    for (size_t id = 0; id < order->vocabulary_size; id++)
        mask->n_ends += codec_is_end(codec, (int32_t)id);
    mask->ends = calloc(mask->n_ends + 1, sizeof *mask->ends);
    if (!mask->ends)
        return fail_memory(error, mask->n_ends * sizeof *mask->ends);
    size_t n = 0;
    for (size_t i = 0; i < stop_ids; i++)
        mask->ends[n++] = stop_id[i];
    for (size_t id = 0; id < order->vocabulary_size; id++)
        if (codec_is_end(codec, (int32_t)id))
            mask->ends[n++] = (int32_t)id;
    mask->nodes = calloc(order->longest + 1, sizeof *mask->nodes);
    return mask->nodes ? WISP_OK : fail_memory(error, (order->longest + 1) * sizeof *mask->nodes);
}

void token_mask_release(struct token_mask *mask) {
    for (size_t i = 0; i < MASKS_KEPT; i++) {
        free(mask->kept[i].items);
        free(mask->kept[i].allowed);
    }
    grammar_state_release(&mask->state);
    free(mask->ends);
    free(mask->nodes);
    *mask = (struct token_mask){0};
}

/* Tries the tokens in the order of their bytes. Each goes on from the bytes that it shares with the
 * one before, and is skipped where one of these was refused. */
static wisp_status try_tokens(struct token_mask *mask, uint8_t *allowed, wisp_error *error) {
    struct grammar_state *state = &mask->state;
    const struct token_order *order = mask->order;
    const size_t base = state->n_lists;
    size_t read = 0;        /* bytes that the state has read of the last token tried */
    size_t shared = 0;      /* bytes that this token shares with that one */
    size_t dead = SIZE_MAX; /* the byte of the last token tried that the grammar refused */
    mask->nodes[0] = grammar_state_nodes(state);
    for (size_t i = 0; i < order->n; i++) {
        const wisp_text text = codec_decode(mask->codec, order->ids[i]);
        shared = smaller(shared, order->shared[i]);
        if (dead != SIZE_MAX && shared > dead)
            continue;
        read = smaller(read, shared);
        grammar_state_pop(state, base + read);
        grammar_state_forget(state, mask->nodes[read]);
        dead = SIZE_MAX;
        for (size_t n; read < text.length && dead == SIZE_MAX;) {
            TRY(grammar_state_push(state, (unsigned char)text.bytes[read], error));
            grammar_state_items(state, &n);
            if (n > 0) {
                mask->nodes[++read] = grammar_state_nodes(state);
            } else {
                dead = read;
                grammar_state_pop(state, base + read);
            }
        }
        if (dead == SIZE_MAX)
            allowed[order->ids[i] / 8] |= (uint8_t)(1u << order->ids[i] % 8);
        shared = SIZE_MAX;
    }
    return WISP_OK;
}

wisp_status token_mask_allowed(struct token_mask *mask, const uint8_t **allowed,
                               wisp_error *error) {
    struct grammar_state *state = &mask->state;
    const size_t bytes = (mask->order->vocabulary_size + 7) / 8;
    size_t n;
    const struct grammar_item *items = grammar_state_items(state, &n);
    for (size_t i = 0; i < MASKS_KEPT; i++) {
        const struct kept_mask *kept = &mask->kept[i];
        if (kept->items && kept->n == n && memcmp(kept->items, items, n * sizeof *items) == 0) {
            *allowed = kept->allowed;
            return WISP_OK;
        }
    }
    struct kept_mask *kept = &mask->kept[mask->next];
    mask->next = (mask->next + 1) % MASKS_KEPT;
    if (!kept->allowed)
        kept->allowed = malloc(bytes);
    free(kept->items);
    kept->n = 0;
    kept->items = malloc((n + 1) * sizeof *items);
    if (!kept->allowed || !kept->items)
        return fail_memory(error, bytes);
    memset(kept->allowed, 0, bytes);
    memcpy(kept->items, items, n * sizeof *items);
    kept->n = n;
    const size_t base = state->n_lists;
    const uint32_t nodes = grammar_state_nodes(state);
    const wisp_status status = try_tokens(mask, kept->allowed, error);
    grammar_state_pop(state, base);
    grammar_state_forget(state, nodes);
    const bool complete = grammar_state_is_complete(state);
    for (size_t i = 0; i < mask->n_ends; i++) {
        const int32_t id = mask->ends[i];
        const uint8_t bit = (uint8_t)(1u << id % 8);
        kept->allowed[id / 8] = (uint8_t)((kept->allowed[id / 8] & ~bit) | (complete ? bit : 0));
    }
    if (status != WISP_OK) {
        free(kept->items);
        kept->items = NULL;
    }
    *allowed = kept->allowed;
    return status;
}

wisp_status token_mask_read(struct token_mask *mask, int32_t id, wisp_error *error) {
    bool accepted;
    return grammar_state_read(&mask->state, codec_decode(mask->codec, id), &accepted, error);
}
