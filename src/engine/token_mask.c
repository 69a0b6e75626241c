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

static bool is_plain(wisp_text text) {
    size_t n = 0;
    while (n < text.length && plain_byte((unsigned char)text.bytes[n]))
        n++;
    return n == text.length && n <= PLAIN_RUN;
}

/* Returns the number of bytes that two texts begin with alike. */
static size_t shared_bytes(wisp_text a, wisp_text b) {
    size_t n = 0;
    while (n < a.length && n < b.length && a.bytes[n] == b.bytes[n])
        n++;
    return n;
}

/* Makes the tree of n tokens in the order of their bytes, or of those that are not plain. */
static wisp_status make_tree(struct token_order *order, const struct sorted *sorted, size_t n,
                             bool all, struct token_tree *tree, wisp_error *error) {
    wisp_text before = {NULL, 0};
    size_t bytes = 0; /* one a node */
    for (size_t i = 0; i < n; i++) {
        if (!all && is_plain(sorted[i].text))
            continue;
        bytes += sorted[i].text.length - shared_bytes(before, sorted[i].text);
        before = sorted[i].text;
    }
    if (bytes >= UINT32_MAX)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar", "the vocabulary is too large");
    uint32_t *path = calloc(order->longest + 1, sizeof *path);
    struct token_node *nodes = calloc(bytes + 1, sizeof *nodes);
    uint32_t n_nodes = 0;
    before.length = 0;
    if (!path || !nodes) {
        free(path);
        free(nodes);
        return fail_memory(error, (bytes + 1) * sizeof *nodes);
    }
    for (size_t i = 0; i < n; i++) {
        const wisp_text text = sorted[i].text;
        if (!all && is_plain(text))
            continue;
        size_t depth = shared_bytes(before, text);
        for (size_t d = depth; d < before.length; d++)
            nodes[path[d]].end = n_nodes;
        for (; depth < text.length; depth++) {
            path[depth] = n_nodes;
            nodes[n_nodes++] = (struct token_node){
                .token = -1, .depth = (uint16_t)depth, .byte = (uint8_t)text.bytes[depth]};
        }
        struct token_node *last = &nodes[path[text.length - 1]];
        order->same[sorted[i].id] = last->token;
        last->token = sorted[i].id;
        before = text;
    }
    for (size_t d = 0; d < before.length; d++)
        nodes[path[d]].end = n_nodes;
    free(path);
    *tree = (struct token_tree){nodes, n_nodes};
    return WISP_OK;
}

wisp_status token_order_open(struct token_order *order, const struct codec *codec,
                             wisp_error *error) {
    const size_t size = codec_vocabulary_size(codec);
    struct sorted *sorted = calloc(size, sizeof *sorted);
    size_t n = 0;
    *order = (struct token_order){.same = calloc(size, sizeof *order->same),
                                  .plain = calloc(size / 8 + 1, 1),
                                  .vocabulary_size = size};
    if (!sorted || !order->same || !order->plain) {
        free(sorted);
        return fail_memory(error, size * sizeof *sorted);
    }
    for (size_t id = 0; id < size; id++) {
        const wisp_text text = codec_decode(codec, (int32_t)id);
        if (text.length == 0 || text.length > UINT16_MAX || codec_is_end(codec, (int32_t)id))
            continue;
        sorted[n++] = (struct sorted){text, (int32_t)id};
        order->longest = larger(order->longest, text.length);
        if (is_plain(text))
            order->plain[id / 8] |= (uint8_t)(1u << id % 8);
    }
    qsort(sorted, n, sizeof *sorted, by_bytes);
    wisp_status status = make_tree(order, sorted, n, true, &order->all, error);
    if (status == WISP_OK)
        status = make_tree(order, sorted, n, false, &order->others, error);
    free(sorted);
    return status;
}

void token_order_release(struct token_order *order) {
    free(order->all.nodes);
    free(order->others.nodes);
    free(order->plain);
    free(order->same);
    *order = (struct token_order){0};
}

size_t token_order_bytes(const struct token_order *order) {
    return ((size_t)order->all.n + order->others.n) * sizeof *order->all.nodes +
           order->vocabulary_size * sizeof *order->same + order->vocabulary_size / 8;
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
    return WISP_OK;
}

void token_mask_release(struct token_mask *mask) {
    for (size_t i = 0; i < MASKS_KEPT; i++) {
        free(mask->kept[i].items);
        free(mask->kept[i].allowed);
    }
    grammar_state_release(&mask->state);
    free(mask->ends);
    *mask = (struct token_mask){0};
}

/* Tries the next tokens of the unfinished mask's tree. A node whose byte the grammar refuses ends
 * all that hang on it. */
static wisp_status try_tokens(struct token_mask *mask, wisp_error *error) {
    enum { NODES = 64 };
    struct grammar_state *state = &mask->state;
    const struct token_tree *tree = mask->tree;
    uint8_t *allowed = mask->unfinished->allowed;
    for (uint32_t tried = 0; tried < NODES && mask->node < tree->n; tried++) {
        const struct token_node node = tree->nodes[mask->node];
        size_t n;
        if (state->n_lists != 1u + node.depth)
            grammar_state_pop(state, 1u + node.depth);
        TRY(grammar_state_push(state, node.byte, error));
        grammar_state_items(state, &n);
        mask->node = n == 0 ? node.end : mask->node + 1;
        for (int32_t id = n == 0 ? -1 : node.token; id >= 0; id = mask->order->same[id])
            allowed[id / 8] |= (uint8_t)(1u << id % 8);
    }
    return WISP_OK;
}

static struct kept_mask *find_kept(struct token_mask *mask) {
    size_t n;
    const struct grammar_item *items = grammar_state_items(&mask->state, &n);
    for (size_t i = 0; i < MASKS_KEPT; i++) {
        struct kept_mask *kept = &mask->kept[i];
        if (kept->items && kept->n == n &&
            (n == 0 || memcmp(kept->items, items, n * sizeof *items) == 0))
            return kept;
    }
    return NULL;
}

/* Begins the mask of the text so far. */
static wisp_status begin_mask(struct token_mask *mask, wisp_error *error) {
    const size_t bytes = (mask->order->vocabulary_size + 7) / 8;
    size_t n;
    const struct grammar_item *items = grammar_state_items(&mask->state, &n);
    struct kept_mask *kept = &mask->kept[mask->next];
    mask->next = (mask->next + 1) % MASKS_KEPT;
    if (!kept->allowed)
        kept->allowed = malloc(bytes);
    free(kept->items);
    kept->n = 0;
    kept->items = malloc((n + 1) * sizeof *items);
    if (!kept->allowed || !kept->items)
        return fail_memory(error, bytes);
    if (n > 0)
        memcpy(kept->items, items, n * sizeof *items);
    kept->n = n;
    const bool plain = grammar_state_run(&mask->state) >= PLAIN_RUN;
    if (plain)
        memcpy(kept->allowed, mask->order->plain, bytes);
    else
        memset(kept->allowed, 0, bytes);
    mask->unfinished = kept;
    mask->tree = plain ? &mask->order->others : &mask->order->all;
    mask->node = 0;
    return WISP_OK;
}

/* Forgets what was computed of a mask, if one is unfinished. */
static void drop_unfinished(struct token_mask *mask) {
    if (!mask->unfinished)
        return;
    free(mask->unfinished->items);
    mask->unfinished->items = NULL;
    mask->unfinished = NULL;
    grammar_state_pop(&mask->state, 1);
}

/* Ends the unfinished mask with the tokens that end a text. */
static void end_mask(struct token_mask *mask) {
    uint8_t *allowed = mask->unfinished->allowed;
    mask->unfinished = NULL;
    grammar_state_pop(&mask->state, 1);
    const bool complete = grammar_state_is_complete(&mask->state);
    for (size_t i = 0; i < mask->n_ends; i++) {
        const int32_t id = mask->ends[i];
        const uint8_t bit = (uint8_t)(1u << id % 8);
        allowed[id / 8] = (uint8_t)((allowed[id / 8] & ~bit) | (complete ? bit : 0));
    }
}

wisp_status token_mask_prepare(struct token_mask *mask, mask_check *check, void *context,
                               bool *paused, wisp_error *error) {
    *paused = false;
    if (!mask->unfinished && find_kept(mask))
        return WISP_OK;
    wisp_status status = mask->unfinished ? WISP_OK : begin_mask(mask, error);
    while (status == WISP_OK && mask->node < mask->tree->n) {
        status = try_tokens(mask, error);
        if (status == WISP_OK && check)
            status = check(context, paused, error);
        if (status == WISP_OK && *paused)
            return WISP_OK;
    }
    if (status == WISP_OK)
        end_mask(mask);
    else
        drop_unfinished(mask);
    return status;
}

wisp_status token_mask_allowed(struct token_mask *mask, const uint8_t **allowed,
                               wisp_error *error) {
    bool paused;
    TRY(token_mask_prepare(mask, NULL, NULL, &paused, error));
    *allowed = find_kept(mask)->allowed;
    return WISP_OK;
}

wisp_status token_mask_read(struct token_mask *mask, int32_t id, wisp_error *error) {
    bool accepted;
    drop_unfinished(mask);
    TRY(grammar_state_read(&mask->state, codec_decode(mask->codec, id), &accepted, error));
    for (size_t i = 0; i < MASKS_KEPT && mask->age != mask->state.age; i++) {
        free(mask->kept[i].items);
        mask->kept[i].items = NULL;
    }
    mask->age = mask->state.age;
    return WISP_OK;
}
