/* SPDX-License-Identifier: Apache-2.0 */
#include "models/rest.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "host/input_file.h"
#include "models/linears.h"
#include "models/positions.h"
#include "sparse/neuron_cold.h"

/* A part of a layer. */
struct resting {
    atomic_flag busy; /* a lock of `users` and the weights, held while these are read. Each part of
                         each layer has its own, because passes on other threads are elsewhere */
    uint32_t users;   /* callers of rest_wake; 0: the weights are only in the file */
    bool rests;       /* else nobody reads or frees it here */
    bool ahead;       /* it was read by rest_wake_next, which counts as one of its users until the
                         pass wakes it */
    atomic_bool was_ahead;     /* and then until it is freed */
    uint64_t sums[MOST_SPANS]; /* checksums of the weights and biases that were loaded first
                                */
};

struct rest {
    uint64_t limit;
    size_t most;  /* bytes of the largest part that rests, which network->resident_bytes counts */
    size_t next;  /* and of the largest that is read ahead, which it counts, too */
    size_t parts; /* the first parts of enum rest_part rest in all layers, */
    uint32_t layers; /* and the next one in the first layers */
    atomic_ullong read_bytes;
    struct resting layer[][REST_PARTS];
};

/* ---- parts ---------------------------------------------------------------------------------- */

/* Returns whether a part has a dense layer. */
static bool has_linear(enum rest_part part, const struct linear_entry *entry) {
    return part == REST_ATTENTION ? entry->block == PASS_ATTENTION
           : part == REST_DENSE   ? entry->block == PASS_FEED_FORWARD && !entry->chooses
                                  : part == REST_CHOICE && entry->chooses;
}

/* Lists the dense layers of a part, and returns their number. */
static size_t linears_of(const struct network *network, enum rest_part part, uint32_t l,
                         struct linear_entry of[MOST_LINEARS]) {
    const size_t all = network_linears(network, l, of);
    size_t n = 0;
    for (size_t i = 0; i < all; i++)
        if (has_linear(part, &of[i]))
            of[n++] = of[i];
    return n;
}

/* Returns the positions, if the part consists of them. */
static struct positions *positions_of(const struct network *network, enum rest_part part,
                                      uint32_t l) {
    return part == REST_POSITIONS && l == 0 ? network->positions : NULL;
}

/* Describes what is in memory of a part. */
static struct weight_part describe(const struct network *network, enum rest_part part, uint32_t l) {
    const struct ffn_kind *kind = network->feed_forward[l].kind;
    const struct positions *positions = positions_of(network, part, l);
    struct linear_entry of[MOST_LINEARS];
    struct weight_part about = {0};
    const size_t n = linears_of(network, part, l, of);
    for (size_t i = 0; i < n; i++)
        weight_part_add_linear(&about, of[i].linear);
    if (positions)
        weight_part_add(&about, positions->rows,
                        positions->n * config_token_size(&network->config) * sizeof(float));
    if (kind->part)
        kind->part(network, l, part, &about);
    return about;
}

static void sum_part(const struct network *network, enum rest_part part, uint32_t l,
                     uint64_t sums[MOST_SPANS]) {
    const struct weight_part about = describe(network, part, l);
    for (size_t i = 0; i < MOST_SPANS; i++)
        sums[i] = i < about.n ? checksum(about.span[i].data, about.span[i].bytes) : 0;
}

static void release_part(const struct network *network, enum rest_part part, uint32_t l) {
    const struct ffn_kind *kind = network->feed_forward[l].kind;
    struct positions *positions = positions_of(network, part, l);
    struct linear_entry of[MOST_LINEARS];
    const size_t n = linears_of(network, part, l, of);
    for (size_t i = 0; i < n; i++)
        linear_release(of[i].linear);
    if (positions) {
        memory_free(positions->rows);
        positions->rows = NULL;
    }
    if (kind->release_part)
        kind->release_part(network, l, part);
}

static wisp_status read_part(const struct network *network, enum rest_part part, uint32_t l,
                             wisp_error *error) {
    const struct ffn_kind *kind = network->feed_forward[l].kind;
    struct linear_entry of[MOST_LINEARS];
    struct tensor_cache cache = {0}; /* for matrices whose neurons are rows */
    const size_t n = linears_of(network, part, l, of);
    wisp_status status = WISP_OK;
    for (size_t i = 0; i < n && status == WISP_OK; i++) {
        of[i].checked = true;
        status = linear_entry_read(network, l, &of[i], &cache, error);
    }
    tensor_cache_release(&cache);
    TRY(status);
    if (positions_of(network, part, l))
        TRY(positions_read(network, error));
    return kind->read_part ? kind->read_part(network, l, part, error) : WISP_OK;
}

/* Visits the tensors of the matrices of a part: returns their bytes in the file, and with `expect`
 * says that they will be read soon. */
static uint64_t visit_tensors(const struct network *network, enum rest_part part, uint32_t l,
                              bool expect) {
    struct linear_entry of[MOST_LINEARS];
    const size_t n = linears_of(network, part, l, of);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t m = 0; of[i].names[m]; m++) {
            char name[TENSOR_NAME_BYTES];
            const struct tensor *tensor = directory_find_tensor(
                network->dir, layer_tensor_name(name, l, of[i].names[m], TENSOR_WEIGHT));
            const wisp_source *source = &network->dir->sources[tensor->source];
            bytes += tensor->bytes;
            if (expect && !tensor->make && file_source_is(source))
                file_source_expect(source, tensor->offset, tensor->bytes);
        }
    return bytes;
}

/* The parts that a token of a decoder needs in each layer, in the order of blocks. */
enum { IN_ORDER = 2 };
static enum rest_part in_order(const struct network *network, size_t i) {
    return i == 0 ? REST_ATTENTION : network->neuron_pool ? REST_CHOICE : REST_DENSE;
}

static bool is_read_ahead(const struct network *network, enum rest_part part) {
    return network->architecture->generates &&
           (part == in_order(network, 0) || part == in_order(network, 1));
}

/* ---- coming to rest ------------------------------------------------------------------------- */

wisp_status rest_open(struct network *network, uint64_t limit, wisp_error *error) {
    const uint32_t layers = network->config.layers;
    const size_t bytes = sizeof *network->rest + layers * sizeof *network->rest->layer;
    if (!network->rest && !(network->rest = calloc(1, bytes)))
        return fail_memory(error, bytes);
    struct rest *rest = network->rest;
    rest->limit = limit;
    for (uint32_t l = 0; l < layers; l++)
        for (size_t part = 0; part < REST_PARTS; part++)
            atomic_flag_clear(&rest->layer[l][part].busy);
    return WISP_OK;
}

/* Makes a part rest that is in memory; does nothing if it is not. */
static void let_rest(struct network *network, enum rest_part part, uint32_t l) {
    struct rest *rest = network->rest;
    struct resting *resting = &rest->layer[l][part];
    const size_t bytes = describe(network, part, l).bytes;
    if (bytes == 0)
        return;
    sum_part(network, part, l, resting->sums);
    release_part(network, part, l);
    resting->rests = true;
    network->resident_bytes -= bytes;
    if (bytes > rest->most) {
        network->resident_bytes += bytes - rest->most;
        rest->most = bytes;
    }
    if (bytes > rest->next && is_read_ahead(network, part)) {
        network->resident_bytes += bytes - rest->next;
        rest->next = bytes;
    }
}

/* Returns the memory of all cold neurons, which get it before other weights do: reading a neuron
 * takes longer than as many bytes of a matrix, because whole chunks come with it and are hashed. */
static uint64_t kept_for_neurons(const struct network *network, uint32_t layers) {
    uint64_t all = 0;
    for (uint32_t l = 0; l < layers && network->neurons.cold; l++) {
        const struct neuron_layer *neurons = &network->neurons.layer[l];
        if (neurons->rows)
            all += neuron_cold_bytes(neurons, neurons->intermediate_size - neurons->hot);
    }
    return all;
}

void rest_loaded(struct network *network, uint32_t layers) {
    struct rest *rest = network->rest;
    const uint64_t kept = kept_for_neurons(network, layers);
    for (uint32_t l = 0; l < layers && network->neuron_pool; l++)
        if (network->feed_forward[l].gathered.frames)
            let_rest(network, REST_DENSE, l);
    for (size_t part = 0; part < rest->parts; part++)
        for (uint32_t l = 0; l < layers; l++)
            let_rest(network, (enum rest_part)part, l);
    while (rest->parts < REST_PARTS && network->resident_bytes + kept > rest->limit) {
        if (rest->layers < layers) {
            let_rest(network, (enum rest_part)rest->parts, rest->layers++);
        } else {
            rest->layers = 0;
            rest->parts++;
        }
    }
}

uint64_t rest_read_bytes(const struct network *network) {
    return network->rest ? atomic_load(&network->rest->read_bytes) : 0;
}

uint64_t rest_saves(const struct network *network) {
    const uint64_t most = network->rest ? network->rest->most : 0;
    const uint64_t next = network->rest ? network->rest->next : 0;
    uint64_t all = 0, largest = most, ahead = next;
    for (uint32_t l = 0; l < network->config.layers; l++)
        for (size_t part = 0; part < REST_PARTS; part++) {
            const uint64_t here = describe(network, (enum rest_part)part, l).bytes;
            all += here;
            largest = here > largest ? here : largest;
            if (is_read_ahead(network, (enum rest_part)part))
                ahead = here > ahead ? here : ahead;
        }
    return all - (largest - most) - (ahead - next);
}

/* ---- waking --------------------------------------------------------------------------------- */

static void enter(struct resting *resting) {
    while (atomic_flag_test_and_set_explicit(&resting->busy, memory_order_acquire))
        continue;
}

static void leave(struct resting *resting) {
    atomic_flag_clear_explicit(&resting->busy, memory_order_release);
}

/* Reads a part and compares it with what was read first: others may have written to the file. */
static wisp_status read_again(const struct network *network, enum rest_part part, uint32_t l,
                              wisp_error *error) {
    static const char *const names[REST_PARTS + 1] = {[REST_THRESHOLDS] = "the thresholds",
                                                      [REST_POSITIONS] = "the positions",
                                                      [REST_ATTENTION] = "attention's weights",
                                                      [REST_DENSE] = "feed-forward weights",
                                                      [REST_CHOICE] = "weights of the predictor",
                                                      [REST_COMPENSATION] = "compensation weights",
                                                      [REST_PARTS] = "nothing"};
    const struct resting *resting = &network->rest->layer[l][part];
    uint64_t sums[MOST_SPANS];
    TRY(read_part(network, part, l, error));
    sum_part(network, part, l, sums);
    for (size_t i = 0; i < MOST_SPANS; i++)
        if (sums[i] != resting->sums[i])
            return fail(error, WISP_ERROR_IO, network->dir->file, NULL,
                        "the file changed after it was opened: %s of layer %u differ", names[part],
                        l);
    return WISP_OK;
}

/* Finds the part that a token needs after so many others that rest, behind this one. The first
 * layer follows the last, for the next token. Returns false if there is none. */
static bool find_after(const struct network *network, enum rest_part *part, uint32_t *layer,
                       unsigned others) {
    const size_t all = (size_t)network->config.layers * IN_ORDER;
    size_t at = (size_t)*layer * IN_ORDER + (*part != in_order(network, 0));
    for (size_t i = 1; i < all && is_read_ahead(network, *part); i++) {
        at = (at + 1) % all;
        const enum rest_part next = in_order(network, at % IN_ORDER);
        if (!network->rest->layer[at / IN_ORDER][next].rests || others-- > 0)
            continue;
        *part = next;
        *layer = (uint32_t)(at / IN_ORDER);
        return true;
    }
    return false;
}

/* Says that a part will be read soon: not the next one, whose reads are under way. */
static void expect_after(const struct network *network, enum rest_part part, uint32_t layer) {
    if (find_after(network, &part, &layer, 1))
        visit_tensors(network, part, layer, true);
}

/* Reads a part that nobody uses. The caller has its lock. */
static wisp_status wake(const struct network *network, enum rest_part part, uint32_t layer,
                        wisp_error *error) {
    expect_after(network, part, layer);
    const wisp_status status = read_again(network, part, layer, error);
    atomic_fetch_add(&network->rest->read_bytes, visit_tensors(network, part, layer, false));
    if (status == WISP_OK)
        network->rest->layer[layer][part].users++;
    else
        release_part(network, part, layer);
    return status;
}

wisp_status rest_wake_part(const struct network *network, enum rest_part part, uint32_t layer,
                           wisp_error *error) {
    struct resting *resting = &network->rest->layer[layer][part];
    wisp_status status = WISP_OK;
    if (!resting->rests)
        return WISP_OK;
    enter(resting);
    if (resting->users == 0)
        status = wake(network, part, layer, error);
    else if (!resting->ahead)
        resting->users++;
    resting->ahead = false;
    leave(resting);
    return status;
}

void rest_wake_next(const struct network *network, enum rest_part part, uint32_t layer) {
    const struct resting *before = &network->rest->layer[layer][part];
    if (!before->rests || before->was_ahead || !find_after(network, &part, &layer, 0))
        return;
    struct resting *resting = &network->rest->layer[layer][part];
    enter(resting);
    if (resting->users == 0)
        resting->ahead = resting->was_ahead = wake(network, part, layer, NULL) == WISP_OK;
    leave(resting);
}

void rest_sleep_part(const struct network *network, enum rest_part part, uint32_t layer) {
    struct resting *resting = &network->rest->layer[layer][part];
    if (!resting->rests)
        return;
    enter(resting);
    if (--resting->users == 0) {
        release_part(network, part, layer);
        resting->was_ahead = false;
    }
    leave(resting);
}
