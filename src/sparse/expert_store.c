/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/expert_store.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "formats/schema.h"

/* WebAssembly has no source from which bytes come again: all experts are in memory there. */
enum { MAY_BE_ABSENT = WEIGHTS_MAY_REST };

/* The number of tokens after which a use counts half, and the weight of uses from which on all are
 * made smaller. */
enum { HALF_LIFE = 128 };
#define MOST_WEIGHT 1e30

struct slot {
    struct expert expert;
    uint32_t users;  /* who hold it */
    bool present;    /* it is in memory */
    bool is_read;    /* a thread is reading it */
    bool known;      /* it has been read before, with these checksums of its matrices */
    uint64_t sum[3]; /* of gate, up and down */
    double use;      /* grows with each use, by more the later it is */
};

struct expert_store {
    const struct directory *dir;
    const struct kernels *kernels;
    struct expert_shape shape;
    bool limited;
    uint64_t limit;
    atomic_flag busy;  /* a lock of all below, but not of weights that are present or being read */
    uint64_t resident; /* bytes of experts that are present or being read */
    uint32_t *present; /* [n_present]: the slots of those that are present */
    size_t n_present;
    double weight, growth; /* of a use, and what multiplies it after each */
    struct expert_counts counts;
    struct layer {
        struct expert pattern; /* expert 0, without its weights if the store is limited */
        size_t bytes;          /* of an expert in memory */
        uint64_t stored;       /* and in the file */
    } *layer;                  /* [layers] */
    struct slot slot[];        /* [layers, count] */
};

static void enter(struct expert_store *store) {
    while (atomic_flag_test_and_set_explicit(&store->busy, memory_order_acquire))
        continue;
}

static void leave(struct expert_store *store) {
    atomic_flag_clear_explicit(&store->busy, memory_order_release);
}

static size_t slot_index(const struct expert_store *store, uint32_t layer, uint32_t index) {
    return (size_t)layer * store->shape.count + index;
}

wisp_status expert_store_open(struct expert_store **store, const struct directory *dir,
                              const struct kernels *kernels, const struct expert_shape *shape,
                              bool limited, wisp_error *error) {
    const size_t slots = (size_t)shape->layers * shape->count;
    const size_t bytes = sizeof **store + slots * sizeof(struct slot);
    struct expert_store *made = *store = calloc(1, bytes);
    if (!made)
        return fail_memory(error, bytes);
    made->dir = dir;
    made->kernels = kernels;
    made->shape = *shape;
    made->limited = MAY_BE_ABSENT && limited;
    made->weight = 1;
    made->growth = exp2(1 / ((double)HALF_LIFE * shape->layers * shape->used));
    atomic_flag_clear(&made->busy);
    made->layer = calloc(shape->layers, sizeof *made->layer);
    made->present = calloc(slots, sizeof *made->present);
    return made->layer && made->present
               ? WISP_OK
               : fail_memory(error, slots * sizeof *made->present + sizeof *made->layer);
}

/* ---- weights -------------------------------------------------------------------------------- */

enum { MATRICES = 3 }; /* of an expert; the first is empty without gates */

static const char *const matrix_names[MATRICES] = {TENSOR_GATE_EXPERTS, TENSOR_UP_EXPERTS,
                                                   TENSOR_DOWN_EXPERTS};

/* Returns the first matrix that experts have. */
static size_t first_matrix(const struct expert_store *store) {
    return store->shape.gated ? 0 : 1;
}

static struct linear *matrix_of(struct expert *expert, size_t i) {
    struct linear *const all[MATRICES] = {&expert->gate, &expert->up, &expert->down};
    return all[i];
}

static void release_expert(struct expert *expert) {
    for (size_t i = 0; i < MATRICES; i++)
        linear_release(matrix_of(expert, i));
}

static size_t bytes_of(const struct expert *expert) {
    return expert->gate.bytes + expert->up.bytes + expert->down.bytes;
}

/* Reads an expert. Fails if its weights are not those that were read before. */
static wisp_status read_expert(const struct expert_store *store, uint32_t layer, uint32_t index,
                               struct slot *slot, wisp_error *error) {
    const size_t inner = store->shape.size, size = store->shape.hidden_size;
    for (size_t i = first_matrix(store); i < MATRICES; i++) {
        struct linear *matrix = matrix_of(&slot->expert, i);
        char name[TENSOR_NAME_BYTES];
        const char *const names[] = {layer_tensor_name(name, layer, matrix_names[i], "")};
        const struct linear_source source = {.dir = store->dir,
                                             .names = names,
                                             .unbiased = !store->shape.biased,
                                             .parts = 1,
                                             .n = i == 2 ? size : inner,
                                             .k = i == 2 ? inner : size,
                                             .matrices = store->shape.count,
                                             .matrix = index,
                                             .checked = slot->known};
        TRY(linear_load(matrix, &source, store->kernels, store->shape.compute, error));
        if (!store->limited)
            continue;
        const size_t bias = matrix->n * sizeof *matrix->bias;
        const uint64_t sum = checksum(matrix->weights, matrix->bytes - bias);
        if (slot->known && sum != slot->sum[i])
            return fail(error, WISP_ERROR_IO, store->dir->file, name,
                        "the file changed after it was opened: expert %u differs", index);
        slot->sum[i] = sum;
    }
    slot->known = true;
    return WISP_OK;
}

static uint64_t stored_bytes(const struct expert_store *store, uint32_t layer) {
    uint64_t bytes = 0;
    for (size_t i = first_matrix(store); i < MATRICES; i++) {
        char name[TENSOR_NAME_BYTES];
        const struct tensor *tensor = directory_find_tensor(
            store->dir, layer_tensor_name(name, layer, matrix_names[i], TENSOR_WEIGHT));
        bytes += tensor->bytes / store->shape.count;
    }
    return bytes;
}

wisp_status expert_store_load(struct expert_store *store, uint32_t layer, uint64_t *bytes,
                              wisp_error *error) {
    struct layer *of = &store->layer[layer];
    const uint32_t count = store->limited ? 1 : store->shape.count;
    *bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const size_t at = slot_index(store, layer, i);
        struct slot *slot = &store->slot[at];
        TRY(read_expert(store, layer, i, slot, error));
        of->bytes = bytes_of(&slot->expert);
        of->pattern = slot->expert;
        of->stored = stored_bytes(store, layer);
        if (store->limited) {
            release_expert(&slot->expert);
            for (size_t m = 0; m < MATRICES; m++)
                matrix_of(&of->pattern, m)->weights = matrix_of(&of->pattern, m)->bias = NULL;
        } else {
            slot->present = true;
            store->resident += of->bytes;
        }
    }
    *bytes = (uint64_t)of->bytes * store->shape.count;
    return WISP_OK;
}

void expert_store_close(struct expert_store *store) {
    if (!store)
        return;
    const size_t slots = (size_t)store->shape.layers * store->shape.count;
    for (size_t i = 0; i < slots; i++)
        release_expert(&store->slot[i].expert);
    free(store->layer);
    free(store->present);
    free(store);
}

const struct expert *expert_store_pattern(const struct expert_store *store, uint32_t layer) {
    return &store->layer[layer].pattern;
}

const struct expert *expert_store_at(const struct expert_store *store, uint32_t layer,
                                     uint32_t index) {
    return &store->slot[slot_index(store, layer, index)].expert;
}

/* ---- memory --------------------------------------------------------------------------------- */

uint64_t expert_store_bytes(const struct expert_store *store) {
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < store->shape.layers; l++)
        bytes += (uint64_t)store->layer[l].bytes * store->shape.count;
    return bytes;
}

uint64_t expert_store_resident(struct expert_store *store) {
    enter(store);
    const uint64_t bytes = store->resident;
    leave(store);
    return bytes;
}

uint64_t expert_store_least(const struct expert_store *store) {
    uint64_t most = 0;
    for (uint32_t l = 0; l < store->shape.layers; l++)
        most = store->layer[l].bytes > most ? store->layer[l].bytes : most;
    return most * store->shape.used;
}

bool expert_store_is_limited(const struct expert_store *store) {
    return MAY_BE_ABSENT && store->limited;
}

/* Releases experts that nobody holds until `more` bytes are free, or all are held. */
static void make_room(struct expert_store *store, uint64_t more) {
    while (store->n_present > 0 && store->resident + more > store->limit) {
        size_t least = store->n_present;
        for (size_t i = 0; i < store->n_present; i++) {
            const struct slot *slot = &store->slot[store->present[i]];
            if (slot->users == 0 &&
                (least == store->n_present || slot->use < store->slot[store->present[least]].use))
                least = i;
        }
        if (least == store->n_present)
            return;
        struct slot *slot = &store->slot[store->present[least]];
        store->resident -= bytes_of(&slot->expert);
        release_expert(&slot->expert);
        slot->present = false;
        store->present[least] = store->present[--store->n_present];
    }
}

void expert_store_limit(struct expert_store *store, uint64_t bytes) {
    enter(store);
    store->limit = bytes;
    make_room(store, 0);
    leave(store);
}

/* Counts a use. Later ones have more weight, as if those before had lost some. */
static void count_use(struct expert_store *store, struct slot *slot) {
    slot->use += store->weight;
    store->weight *= store->growth;
    if (store->weight < MOST_WEIGHT)
        return;
    for (size_t i = 0; i < (size_t)store->shape.layers * store->shape.count; i++)
        store->slot[i].use /= store->weight;
    store->weight = 1;
}

/* ---- holding -------------------------------------------------------------------------------- */

wisp_status expert_store_hold(struct expert_store *store, uint32_t layer, uint32_t index,
                              const struct expert **expert, wisp_error *error) {
    const size_t at = slot_index(store, layer, index);
    struct slot *slot = &store->slot[at];
    *expert = &slot->expert;
    if (!expert_store_is_limited(store))
        return WISP_OK;
    enter(store);
    while (slot->is_read) { /* by another thread */
        leave(store);
        enter(store);
    }
    slot->users++;
    store->counts.held++;
    count_use(store, slot);
    const bool absent = !slot->present;
    if (absent) {
        slot->is_read = true;
        make_room(store, store->layer[layer].bytes);
        store->resident += store->layer[layer].bytes;
    }
    leave(store);
    if (!absent)
        return WISP_OK;
    const wisp_status status = read_expert(store, layer, index, slot, error);
    enter(store);
    slot->is_read = false;
    if (status == WISP_OK) {
        slot->present = true;
        store->present[store->n_present++] = (uint32_t)at;
        store->counts.read++;
        store->counts.read_bytes += store->layer[layer].stored;
    } else {
        release_expert(&slot->expert);
        store->resident -= store->layer[layer].bytes;
        slot->users--;
    }
    leave(store);
    return status;
}

void expert_store_let_go(struct expert_store *store, uint32_t layer, uint32_t index) {
    if (!expert_store_is_limited(store))
        return;
    enter(store);
    store->slot[slot_index(store, layer, index)].users--;
    leave(store);
}

struct expert_counts expert_store_counts(struct expert_store *store) {
    enter(store);
    const struct expert_counts counts = store->counts;
    leave(store);
    return counts;
}
