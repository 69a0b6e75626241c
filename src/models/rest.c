/* SPDX-License-Identifier: Apache-2.0 */
#include "models/rest.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "models/bert_weights.h"
#include "sparse/neuron_cold.h"

enum { MOST_LINEARS = 3 };

/* A part of a layer. */
struct resting {
    atomic_flag busy; /* a lock of `users` and the weights, held while these are read. Each part of
                         each layer has its own, because passes on other threads are elsewhere */
    uint32_t users;   /* callers of rest_wake; 0: the weights are in the file alone */
    bool rests;       /* else nobody reads or frees it here */
    uint64_t sums[2 * MOST_LINEARS]; /* checksums of the weights and biases that were loaded first
                                      */
};

struct rest {
    uint64_t limit;
    size_t most;  /* bytes of the largest part that rests, which network->resident_bytes counts */
    size_t parts; /* the first parts of enum rest_part rest in all layers, */
    uint32_t layers; /* and the next one in the first layers */
    struct resting layer[][REST_PARTS];
};

/* ---- parts ---------------------------------------------------------------------------------- */

/* Points `of` to the dense layers that a part consists of, and returns their number. */
static size_t linears_of(const struct network *network, enum rest_part part, uint32_t l,
                         struct linear *of[MOST_LINEARS]) {
    const struct bert_weights *w = network->weights;
    struct feed_forward *f = &network->feed_forward[l];
    size_t n = 0;
    if (part == REST_ATTENTION) {
        of[n++] = &w->layer[l].qkv;
        of[n++] = &w->layer[l].output;
    } else if (part == REST_DENSE) {
        of[n++] = &f->gate;
        of[n++] = &f->up;
        of[n++] = &f->down;
    } else if (part == REST_CHOICE && network->neurons.cold) {
        of[n++] = &f->sparse.p;
        of[n++] = &f->sparse.q;
    } else if (part == REST_COMPENSATION && network->neurons.cold) {
        of[n++] = &f->sparse.compensation;
    }
    return n;
}

/* Returns where the floats are that a part consists of, and sets *n to their number. Returns NULL
 * where it has none. */
static float **floats_of(const struct network *network, enum rest_part part, uint32_t l,
                         size_t *n) {
    struct bert_weights *w = network->weights;
    struct sparse_ffn *sparse = &network->feed_forward[l].sparse;
    *n = 0;
    if (part == REST_POSITIONS && l == 0) {
        *n = w->positions * network->config.hidden_size;
        return &w->position_embedding;
    }
    if (part == REST_THRESHOLDS) {
        *n = sparse->levels * sparse->intermediate_size;
        return &sparse->thresholds;
    }
    return NULL;
}

/* Returns the neurons that a part consists of, besides `dense`, its only dense layer; NULL where it
 * has none. */
static struct neuron_layer *neurons_of(const struct network *network, enum rest_part part,
                                       uint32_t l) {
    const struct neuron_store *store = &network->neurons;
    return part == REST_DENSE && store->layer && !store->by_rows ? &store->layer[l] : NULL;
}

/* Returns the bytes of a part that is in memory; 0 of one that is not. */
static size_t part_bytes(const struct network *network, enum rest_part part, uint32_t l) {
    struct linear *of[MOST_LINEARS];
    size_t bytes = 0, n_floats;
    float *const *floats = floats_of(network, part, l, &n_floats);
    const struct neuron_layer *neurons = neurons_of(network, part, l);
    const size_t n = linears_of(network, part, l, of);
    if (neurons)
        return neurons->bytes;
    for (size_t i = 0; i < n; i++)
        bytes += of[i]->bytes;
    return floats && *floats ? n_floats * sizeof **floats : bytes;
}

static void sum_linear(const struct linear *linear, uint64_t sums[2]) {
    const size_t bias_bytes = linear->n * sizeof *linear->bias;
    sums[0] = checksum(linear->weights, linear->bytes - bias_bytes);
    sums[1] = checksum(linear->bias, bias_bytes);
}

static void sum_part(const struct network *network, enum rest_part part, uint32_t l,
                     uint64_t sums[2 * MOST_LINEARS]) {
    struct linear *of[MOST_LINEARS];
    size_t n_floats;
    float *const *floats = floats_of(network, part, l, &n_floats);
    const struct neuron_layer *neurons = neurons_of(network, part, l);
    const size_t n = linears_of(network, part, l, of);
    for (size_t i = 0; i < 2 * MOST_LINEARS; i++)
        sums[i] = 0;
    if (neurons) {
        const size_t all = neurons->intermediate_size, row = neurons->hidden_size * sizeof(float);
        sum_linear(&neurons->dense, sums);
        sums[2] = checksum(neurons->down, all * neurons->row_bytes);
        sums[3] = checksum(neurons->column_scale, all * sizeof *neurons->column_scale);
        sums[4] = checksum(neurons->row_scale, row);
        sums[5] = checksum(neurons->base, row);
        return;
    }
    if (floats)
        sums[0] = checksum(*floats, n_floats * sizeof **floats);
    for (size_t i = 0; i < n; i++)
        sum_linear(of[i], sums + 2 * i);
}

static void release_part(const struct network *network, enum rest_part part, uint32_t l) {
    struct linear *of[MOST_LINEARS];
    size_t n_floats;
    float **floats = floats_of(network, part, l, &n_floats);
    const size_t n = linears_of(network, part, l, of);
    if (neurons_of(network, part, l))
        neuron_store_release_layer(&network->neurons, l);
    for (size_t i = 0; i < n; i++)
        linear_release(of[i]);
    if (floats) {
        memory_free(*floats);
        *floats = NULL;
    }
}

/* Reads a feed-forward layer without predictor. */
static wisp_status read_dense(const struct network *network, uint32_t l, wisp_error *error) {
    const struct feed_forward_source source = {.dir = network->dir,
                                               .config = &network->config,
                                               .kernels = network->kernels,
                                               .int8 = network->int8};
    struct tensor_cache cache = {0};
    if (!neurons_of(network, REST_DENSE, l))
        return feed_forward_load(&network->feed_forward[l], &source, l, error);
    const wisp_status status = neuron_store_load_layer(&network->neurons, l, &cache, error);
    tensor_cache_release(&cache);
    return status;
}

static wisp_status read_part(const struct network *network, enum rest_part part, uint32_t l,
                             wisp_error *error) {
    struct feed_forward *f = &network->feed_forward[l];
    switch (part) {
    case REST_THRESHOLDS:
        return sparse_ffn_read_thresholds(&f->sparse, network->dir, network->sparse_by_text, l,
                                          error);
    case REST_POSITIONS:
        return bert_read_positions(network, error);
    case REST_ATTENTION:
        return bert_read_attention(network, l, error);
    case REST_DENSE:
        return read_dense(network, l, error);
    case REST_CHOICE:
        return sparse_ffn_read_choice(&f->sparse, network->dir, network->sparse_by_text, l, error);
    case REST_COMPENSATION:
        return sparse_ffn_read_compensation(&f->sparse, network->dir, l, error);
    case REST_PARTS:
        break;
    }
    return WISP_OK;
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

/* Makes a part rest that is in memory; does nothing where it is not. */
static void let_rest(struct network *network, enum rest_part part, uint32_t l) {
    struct rest *rest = network->rest;
    struct resting *resting = &rest->layer[l][part];
    const size_t bytes = part_bytes(network, part, l);
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

uint64_t rest_saves(const struct network *network) {
    const uint64_t most = network->rest ? network->rest->most : 0;
    uint64_t all = 0, largest = most;
    for (uint32_t l = 0; l < network->config.layers; l++)
        for (size_t part = 0; part < REST_PARTS; part++) {
            const uint64_t here = part_bytes(network, (enum rest_part)part, l);
            all += here;
            largest = here > largest ? here : largest;
        }
    return all - (largest - most);
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
    uint64_t sums[2 * MOST_LINEARS];
    TRY(read_part(network, part, l, error));
    sum_part(network, part, l, sums);
    for (size_t i = 0; i < 2 * MOST_LINEARS; i++)
        if (sums[i] != resting->sums[i])
            return fail(error, WISP_ERROR_IO, network->dir->file, NULL,
                        "the file changed after it was opened: %s of layer %u differ", names[part],
                        l);
    return WISP_OK;
}

wisp_status rest_wake_part(const struct network *network, enum rest_part part, uint32_t layer,
                           wisp_error *error) {
    struct resting *resting = &network->rest->layer[layer][part];
    if (!resting->rests)
        return WISP_OK;
    enter(resting);
    const wisp_status status =
        resting->users == 0 ? read_again(network, part, layer, error) : WISP_OK;
    if (status == WISP_OK)
        resting->users++;
    else
        release_part(network, part, layer);
    leave(resting);
    return status;
}

void rest_sleep_part(const struct network *network, enum rest_part part, uint32_t layer) {
    struct resting *resting = &network->rest->layer[layer][part];
    if (!resting->rests)
        return;
    enter(resting);
    if (--resting->users == 0)
        release_part(network, part, layer);
    leave(resting);
}
