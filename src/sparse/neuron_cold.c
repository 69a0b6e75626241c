/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/neuron_cold.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "sparse/group_heap.h"

/* After this many holds for each layer, the counts of uses are halved, so that what was needed
 * lately counts more. */
enum { HOLDS_OF_AN_AGE = 32 };

struct neuron_cold {
    atomic_flag busy; /* a lock of all that follows, and of `present` and n_present of all layers.
                         It is held for microseconds: packing one neuron is the longest work */
    void (*discard)(void *block, size_t bytes); /* NULL: no memory is given back */
    bool framed;
    atomic_flag taken; /* a session has the frames */
    struct neuron_frames frames;
    void *frame_memory;    /* holds all arrays of frames */
    uint16_t *free_frames; /* [n_free] */
    size_t n_free;
    struct group_heap heap; /* of the groups, one for each word of the layers' masks */
    uint64_t *needed;       /* [layers, words]: what the last hold of each layer asked for */
    uint64_t *traced;       /* [layers, most_traced, words]: of the last batch's tokens */
    size_t most_traced, n_traced;
    uint64_t *prefetched; /* [layers, words]: present neurons that no hold has needed so far */
    float *values;        /* [4, hidden_size]: working memory to pack a neuron */
    uint64_t holds;       /* that began so far */
    wisp_cold_stats stats;
};

static void enter(struct neuron_cold *cold) {
    while (atomic_flag_test_and_set_explicit(&cold->busy, memory_order_acquire))
        continue;
}

static void leave(struct neuron_cold *cold) {
    atomic_flag_clear_explicit(&cold->busy, memory_order_release);
}

static size_t words_of(const struct neuron_store *store) {
    return sparse_mask_words(store->shape.intermediate_size);
}

static struct cold_group *group_of(const struct neuron_store *store, size_t layer, size_t word) {
    return &store->cold->heap.groups[layer * words_of(store) + word];
}

/* Returns the bits of a word of a mask that belong to neurons which were loaded with the layer. */
static uint64_t hot_bits(const struct neuron_layer *l, size_t word) {
    const size_t first = 64 * word;
    return l->hot <= first        ? 0
           : l->hot >= first + 64 ? UINT64_MAX
                                  : (UINT64_C(1) << (l->hot - first)) - 1;
}

/* Returns whether the neurons of a word are in a frame. */
static bool is_framed(const struct neuron_layer *l, size_t word) {
    return 64 * word >= l->placed;
}

static size_t group_bytes(const struct neuron_layer *l, size_t word) {
    if (l->frames && !is_framed(l, word))
        return 0; /* counted with the hot neurons, beside which they are */
    const size_t first = larger(64 * word, l->hot),
                 end = smaller(64 * word + 64, l->intermediate_size);
    return neuron_cold_bytes(l, end - first);
}

static size_t count_bits(uint64_t word) {
    return (size_t)__builtin_popcountll(word);
}

wisp_status neuron_cold_open(struct neuron_store *store, bool framed, wisp_error *error) {
    const size_t groups = store->shape.layers * words_of(store);
    struct neuron_cold *cold = calloc(1, sizeof *cold);
    if (!cold)
        return fail_memory(error, sizeof *cold);
    store->cold = cold;
    atomic_flag_clear(&cold->busy);
    cold->stats.budget = UINT64_MAX;
    cold->framed = framed;
    atomic_flag_clear(&cold->taken);
    cold->heap.groups = calloc(groups, sizeof *cold->heap.groups);
    cold->heap.order = calloc(groups, sizeof *cold->heap.order);
    cold->needed = calloc(groups, sizeof *cold->needed);
    cold->prefetched = calloc(groups, sizeof *cold->prefetched);
    cold->values = memory_allocate(4 * store->shape.hidden_size * sizeof *cold->values);
    if (!cold->heap.groups || !cold->heap.order || !cold->needed || !cold->prefetched ||
        !cold->values)
        return fail_memory(error, groups * sizeof *cold->heap.groups);
    return WISP_OK;
}

bool neuron_cold_take(const struct neuron_store *store) {
    return !store->cold || !store->cold->framed || !atomic_flag_test_and_set(&store->cold->taken);
}

void neuron_cold_leave(const struct neuron_store *store) {
    if (store->cold)
        atomic_flag_clear(&store->cold->taken);
}

void neuron_cold_release(struct neuron_store *store) {
    if (!store->cold)
        return;
    free(store->cold->heap.groups);
    free(store->cold->heap.order);
    free(store->cold->needed);
    free(store->cold->traced);
    free(store->cold->prefetched);
    free(store->cold->free_frames);
    memory_free(store->cold->frame_memory);
    memory_free(store->cold->values);
    free(store->cold);
    store->cold = NULL;
}

/* ---- frames --------------------------------------------------------------------------------- */

const struct neuron_frames *neuron_cold_frames(const struct neuron_store *store) {
    return store->cold && store->cold->framed ? &store->cold->frames : NULL;
}

size_t neuron_cold_count(const struct neuron_store *store, size_t *least, uint64_t *bytes) {
    size_t all = 0;
    *least = 0;
    *bytes = 0;
    for (size_t i = 0; i < store->shape.layers; i++) {
        const struct neuron_layer *l = &store->layer[i];
        const size_t n = (l->intermediate_size - l->placed + 63) / 64;
        *bytes = neuron_cold_bytes(l, 64);
        *least = larger(*least, n);
        all += n;
    }
    return all;
}

wisp_status neuron_cold_reserve(struct neuron_store *store, size_t n, bool limited,
                                wisp_error *error) {
    struct neuron_cold *cold = store->cold;
    const size_t rows = store->layer[0].gate ? 3 : 2;
    uint64_t array, all;
    size_t bytes;
    if (!checked_multiply(64 * n, store->layer[0].row_bytes, &array) ||
        !checked_multiply(rows, array, &all) || !checked_size(all, &bytes))
        return fail_memory(error, SIZE_MAX);
    cold->frame_memory = memory_allocate(bytes);
    cold->free_frames = malloc(n * sizeof *cold->free_frames + 1);
    if (!cold->frame_memory || !cold->free_frames)
        return fail_memory(error, bytes);
    cold->frames.down = cold->frame_memory;
    cold->frames.up = (int8_t *)cold->frame_memory + array;
    cold->frames.gate = cold->frames.up + (rows - 2) * array;
    if (limited)
        cold->stats.budget = bytes;
    while (n-- > 0)
        cold->free_frames[cold->n_free++] = (uint16_t)n;
    return WISP_OK;
}

/* ---- eviction ------------------------------------------------------------------------------- */

/* Puts a group among those that may be evicted, or takes it away from them: after its neurons,
 * holds or uses have changed. Groups in which hot neurons stand always stay. */
static void file_group(const struct neuron_store *store, size_t layer, size_t word) {
    const struct neuron_layer *l = &store->layer[layer];
    const size_t group = layer * words_of(store) + word;
    if (l->rows && l->present[word] != 0 && hot_bits(l, word) == 0 &&
        group_of(store, layer, word)->holds == 0)
        group_heap_put(&store->cold->heap, group);
    else
        group_heap_remove(&store->cold->heap, group);
}

/* Returns whether none of the neurons of a word is in memory, nor of a hot one. */
static bool is_empty(const struct neuron_layer *l, size_t word, size_t words) {
    return word < words && l->present[word] == 0;
}

/* Makes the neurons of a word absent. A page at its border is given back if the neighbour that
 * shares it is empty, too. */
static void evict(const struct neuron_store *store, size_t layer, size_t word) {
    enum { PAGE = 4096 };
    struct neuron_layer *l = &store->layer[layer];
    struct neuron_cold *cold = store->cold;
    unsigned char *const rows[] = {l->down, (unsigned char *)l->up, (unsigned char *)l->gate};
    const size_t words = words_of(store), first = 64 * word;
    const size_t n = smaller(l->intermediate_size - first, 64);
    const size_t before = is_empty(l, word - 1, words) ? smaller(PAGE, first * l->row_bytes) : 0;
    const size_t rest = (l->intermediate_size - first - n) * l->row_bytes;
    const size_t after = is_empty(l, word + 1, words) ? smaller(PAGE, rest) : 0;
    uint64_t *prefetched = &cold->prefetched[layer * words + word];
    cold->stats.evictions++;
    cold->stats.prefetched_wasted += count_bits(*prefetched);
    *prefetched = 0;
    cold->stats.warm_bytes -= group_bytes(l, word);
    l->n_present -= count_bits(l->present[word]);
    l->present[word] = 0;
    file_group(store, layer, word);
    if (is_framed(l, word))
        cold->free_frames[cold->n_free++] = l->frame[word];
    for (size_t i = 0; i < 3 && cold->discard; i++)
        if (rows[i])
            cold->discard(rows[i] + first * l->row_bytes - before,
                          before + n * l->row_bytes + after);
}

/* Evicts groups until the cold neurons fit the budget, or all that are left are held. The group of
 * fewest uses goes first. Among groups of equally many, the one that was used last does: a pass
 * uses all layers in turn, so that group is the last that is needed again. Evicting the one that
 * was used longest ago instead would keep nothing until it is needed, if the budget is smaller
 * than the needs of a pass. */
static void fit_budget(const struct neuron_store *store) {
    const struct neuron_cold *cold = store->cold;
    const size_t words = words_of(store);
    while (words > 0 && cold->discard && cold->stats.warm_bytes > cold->stats.budget &&
           cold->heap.n > 0) {
        const size_t group = cold->heap.order[0];
        evict(store, group / words, group % words);
    }
}

void neuron_cold_limit(struct neuron_store *store, uint64_t budget,
                       void (*discard)(void *block, size_t bytes)) {
    enter(store->cold);
    store->cold->stats.budget = budget;
    store->cold->discard = discard;
    fit_budget(store);
    leave(store->cold);
}

/* ---- holding -------------------------------------------------------------------------------- */

static void count_absent(const struct neuron_layer *l, size_t words, struct neuron_hold *hold) {
    hold->n_absent = 0;
    for (size_t w = 0; w < words; w++) {
        hold->absent[w] = hold->places[w] & ~l->present[w];
        hold->n_absent += count_bits(hold->absent[w]);
    }
}

/* Counts neurons no longer as prefetched that a hold found absent and that have come since: the
 * hold asked for them. */
static void count_asked(const struct neuron_store *store, const struct neuron_hold *hold) {
    struct neuron_cold *cold = store->cold;
    uint64_t *prefetched = cold->prefetched + hold->layer * words_of(store);
    for (size_t w = 0; w < words_of(store); w++) {
        cold->stats.prefetched -= count_bits(prefetched[w] & hold->absent[w]);
        prefetched[w] &= ~hold->absent[w];
    }
}

void neuron_hold_begin(const struct neuron_store *store, size_t layer, bool skip,
                       struct neuron_hold *hold) {
    const struct neuron_layer *l = &store->layer[layer];
    struct neuron_cold *cold = store->cold;
    const size_t words = words_of(store);
    hold->layer = layer;
    hold->held = true;
    enter(cold);
    if (layer == 0) /* a new batch */
        memset(cold->needed, 0, store->shape.layers * words * sizeof *cold->needed);
    memcpy(cold->needed + layer * words, hold->places, words * sizeof *cold->needed);
    count_absent(l, words, hold);
    if (++cold->holds % (HOLDS_OF_AN_AGE * store->shape.layers) == 0)
        group_heap_age(&cold->heap, store->shape.layers * words);
    cold->stats.misses += hold->n_absent;
    for (size_t w = 0; w < words; w++) {
        struct cold_group *g = group_of(store, layer, w);
        uint64_t *prefetched = &cold->prefetched[layer * words + w];
        cold->stats.prefetched_used += count_bits(*prefetched & hold->places[w]);
        *prefetched &= ~hold->places[w];
        cold->stats.hits += count_bits(hold->places[w] & ~hold->absent[w] & ~hot_bits(l, w));
        g->uses += hold->places[w] != 0;
        g->last = hold->places[w] != 0 ? cold->holds : g->last;
        if (skip)
            hold->places[w] &= ~hold->absent[w];
        g->holds += hold->places[w] != 0;
        file_group(store, layer, w);
    }
    leave(cold);
}

void neuron_hold_count(const struct neuron_store *store, struct neuron_hold *hold) {
    enter(store->cold);
    count_asked(store, hold);
    count_absent(&store->layer[hold->layer], words_of(store), hold);
    leave(store->cold);
}

void neuron_hold_end(const struct neuron_store *store, struct neuron_hold *hold) {
    if (!hold->held)
        return;
    hold->held = false;
    enter(store->cold);
    count_asked(store, hold);
    for (size_t w = 0; w < words_of(store); w++) {
        group_of(store, hold->layer, w)->holds -= hold->places[w] != 0;
        file_group(store, hold->layer, w);
    }
    fit_budget(store);
    leave(store->cold);
}

size_t neuron_hold_ranges(const struct neuron_store *store, const struct neuron_hold *hold,
                          wisp_range *ranges) {
    const struct neuron_layer *l = &store->layer[hold->layer];
    const uint64_t row_bytes = hold->n_absent > 0 ? l->rows->shape.row_bytes : 0;
    size_t n = 0;
    for (size_t place = l->hot; place < l->intermediate_size && hold->n_absent > 0; place++) {
        if (!(hold->absent[place / 64] >> place % 64 & 1))
            continue;
        ranges[n++] = (wisp_range){l->rows->stored[COLD_ROWS].offset + (place - l->hot) * row_bytes,
                                   row_bytes};
    }
    return n;
}

/* ---- providing ------------------------------------------------------------------------------ */

/* Finds room for a group none of whose cold neurons is present. Returns false if there is none,
 * and sets `status` to an error if a pass waits for it. */
static bool take_frame(const struct neuron_store *store, size_t layer, size_t word,
                       wisp_status *status, wisp_error *error) {
    struct neuron_cold *cold = store->cold;
    const size_t words = words_of(store);
    if (!is_framed(&store->layer[layer], word))
        return true;
    const bool held = group_of(store, layer, word)->holds > 0;
    if (cold->n_free == 0 && held && cold->heap.n > 0)
        evict(store, cold->heap.order[0] / words, cold->heap.order[0] % words);
    if (cold->n_free == 0) {
        if (held)
            *status = fail_memory(error, group_bytes(&store->layer[layer], word));
        return false;
    }
    store->layer[layer].frame[word] = cold->free_frames[--cold->n_free];
    return true;
}

/* Packs the neuron at `place` from its row, unless it is present or has no room. */
static wisp_status provide_row(const struct neuron_store *store, size_t layer, size_t place,
                               const unsigned char *row, wisp_error *error) {
    struct neuron_layer *l = &store->layer[layer];
    struct neuron_cold *cold = store->cold;
    const struct neuron_shape *s = &l->rows->shape;
    float *values = cold->values, *scales = values + 3 * l->hidden_size;
    wisp_status status = WISP_OK;
    enter(cold);
    const bool first = (l->present[place / 64] & ~hot_bits(l, place / 64)) == 0;
    if (!neuron_is_present(l, place) &&
        (!first || take_frame(store, layer, place / 64, &status, error))) {
        neurons_read_scales(s, l->down_scales, (uint64_t)l->rows->order[place], scales);
        status = neuron_store_put_row(store, layer, place, s, row, scales, values, error);
        if (status == WISP_OK) {
            cold->stats.rows++;
            cold->stats.prefetched++;
            cold->prefetched[layer * words_of(store) + place / 64] |= UINT64_C(1) << place % 64;
        }
        if (status != WISP_OK && first && is_framed(l, place / 64))
            cold->free_frames[cold->n_free++] = l->frame[place / 64];
        if (status == WISP_OK && first) {
            cold->stats.warm_bytes += group_bytes(l, place / 64);
            file_group(store, layer, place / 64);
            fit_budget(store);
            if (cold->stats.warm_bytes > cold->stats.most_warm_bytes)
                cold->stats.most_warm_bytes = cold->stats.warm_bytes;
        }
    }
    leave(cold);
    return status;
}

wisp_status neuron_cold_provide(const struct neuron_store *store, uint64_t offset,
                                const void *bytes, size_t length, wisp_error *error) {
    const unsigned char *from = bytes;
    enter(store->cold);
    store->cold->stats.ranges++;
    store->cold->stats.range_bytes += length;
    leave(store->cold);
    for (size_t layer = 0; layer < store->shape.layers; layer++) {
        const struct neuron_layer *l = &store->layer[layer];
        if (!l->rows)
            continue;
        const uint64_t start = l->rows->stored[COLD_ROWS].offset, row = l->rows->shape.row_bytes;
        const uint64_t end = offset + length, rows = l->intermediate_size - l->hot;
        uint64_t i = offset > start ? (offset - start + row - 1) / row : 0;
        for (; i < rows && start + (i + 1) * row <= end; i++)
            TRY(provide_row(store, layer, l->hot + (size_t)i, from + (start + i * row - offset),
                            error));
    }
    return WISP_OK;
}

void neuron_cold_stats(const struct neuron_store *store, wisp_cold_stats *stats) {
    enter(store->cold);
    *stats = store->cold->stats;
    leave(store->cold);
    for (size_t i = 0; i < store->shape.layers; i++) {
        const struct neuron_layer *l = &store->layer[i];
        stats->hot_bytes += neuron_cold_bytes(l, l->hot);
        stats->cold_bytes += neuron_cold_bytes(l, l->intermediate_size - l->hot);
        stats->neurons += l->intermediate_size;
        stats->hot_neurons += l->hot;
    }
}

wisp_status neuron_cold_trace(const struct neuron_store *store, size_t tokens, wisp_error *error) {
    struct neuron_cold *cold = store->cold;
    const size_t each = store->shape.layers * words_of(store) * sizeof *cold->traced;
    uint64_t *traced = calloc(tokens, each);
    if (!traced && tokens > 0)
        return fail_memory(error, tokens * each);
    free(cold->traced);
    cold->traced = traced;
    cold->most_traced = tokens;
    cold->n_traced = 0;
    return WISP_OK;
}

void neuron_cold_keep(const struct neuron_store *store, size_t layer, const uint64_t *masks,
                      size_t n) {
    struct neuron_cold *cold = store->cold;
    const size_t words = words_of(store);
    if (cold->most_traced == 0)
        return;
    enter(cold);
    cold->n_traced = smaller(n, cold->most_traced);
    memcpy(cold->traced + layer * cold->most_traced * words, masks,
           cold->n_traced * words * sizeof *masks);
    leave(cold);
}

bool neuron_cold_token(const struct neuron_store *store, size_t layer, size_t token,
                       uint64_t *needed) {
    struct neuron_cold *cold = store->cold;
    const size_t words = words_of(store);
    enter(cold);
    const bool is_there = token < cold->n_traced;
    if (is_there)
        memcpy(needed, cold->traced + (layer * cold->most_traced + token) * words,
               words * sizeof *needed);
    leave(cold);
    return is_there;
}

wisp_layer_neurons neuron_cold_layer(const struct neuron_store *store, size_t layer,
                                     uint64_t *present, uint64_t *needed) {
    const struct neuron_layer *l = &store->layer[layer];
    const size_t words = words_of(store);
    enter(store->cold);
    memcpy(present, l->present, words * sizeof *present);
    memcpy(needed, store->cold->needed + layer * words, words * sizeof *needed);
    leave(store->cold);
    return (wisp_layer_neurons){.neurons = l->intermediate_size,
                                .hot = l->hot,
                                .cold_offset = l->rows ? l->rows->stored[COLD_ROWS].offset : 0,
                                .row_bytes = l->rows ? l->rows->shape.row_bytes : 0};
}
