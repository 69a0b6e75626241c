/* SPDX-License-Identifier: Apache-2.0 */
#include "models/bert_rest.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/checksum.h"

/* Checksums of what a layer is made of in memory. */
struct layer_sums {
    uint64_t qkv[2], output[2]; /* of weights and of biases */
};

/* A layer whose weights may rest. */
struct bert_resting {
    atomic_flag busy; /* a lock of `users` and the weights, held while these are read. Each layer
                         has its own, because passes on other threads are at other layers */
    uint32_t users;   /* callers of bert_wake; 0: the layer rests */
    struct layer_sums sums;
};

static void sum_linear(const struct linear *linear, uint64_t sums[2]) {
    const size_t bias_bytes = linear->n * sizeof *linear->bias;
    sums[0] = checksum(linear->weights, linear->bytes - bias_bytes);
    sums[1] = checksum(linear->bias, bias_bytes);
}

static struct layer_sums sum_layer(const struct bert_layer *layer) {
    struct layer_sums sums = {0};
    sum_linear(&layer->qkv, sums.qkv);
    sum_linear(&layer->output, sums.output);
    return sums;
}

static void release_attention(struct bert_layer *layer) {
    linear_release(&layer->qkv);
    linear_release(&layer->output);
}

size_t bert_rest_saves(const struct network *network) {
    const struct bert_weights *w = network->weights;
    size_t all = 0, most = 0;
    for (uint32_t l = 0; l < network->config.layers && !w->resting; l++) {
        const size_t here = w->layer[l].qkv.bytes + w->layer[l].output.bytes;
        all += here;
        most = larger(most, here);
    }
    return all - most;
}

wisp_status bert_rest(struct network *network, wisp_error *error) {
    struct bert_weights *w = network->weights;
    const uint32_t layers = network->config.layers;
    const size_t bytes = layers * sizeof *w->resting, saved = bert_rest_saves(network);
    if (w->resting)
        return WISP_OK;
    w->resting = calloc(1, bytes);
    if (!w->resting)
        return fail_memory(error, bytes);
    for (uint32_t l = 0; l < layers; l++) {
        atomic_flag_clear(&w->resting[l].busy);
        w->resting[l].sums = sum_layer(&w->layer[l]);
        release_attention(&w->layer[l]);
    }
    network->resident_bytes -= saved;
    return WISP_OK;
}

static void enter(struct bert_resting *resting) {
    while (atomic_flag_test_and_set_explicit(&resting->busy, memory_order_acquire))
        continue;
}

static void leave(struct bert_resting *resting) {
    atomic_flag_clear_explicit(&resting->busy, memory_order_release);
}

/* Reads a layer and compares it with what was read first: others may have written to the file. */
static wisp_status read_again(const struct network *network, uint32_t l, wisp_error *error) {
    const struct bert_weights *w = network->weights;
    TRY(bert_read_attention(network, l, error));
    const struct layer_sums sums = sum_layer(&w->layer[l]), *first = &w->resting[l].sums;
    for (size_t i = 0; i < 2; i++)
        if (sums.qkv[i] != first->qkv[i] || sums.output[i] != first->output[i])
            return fail(error, WISP_ERROR_IO, network->dir->file, NULL,
                        "the file changed after it was opened: attention's weights of layer %u "
                        "differ",
                        l);
    return WISP_OK;
}

wisp_status bert_wake_resting(const struct network *network, uint32_t layer, wisp_error *error) {
    const struct bert_weights *w = network->weights;
    struct bert_resting *resting = &w->resting[layer];
    enter(resting);
    const wisp_status status = resting->users == 0 ? read_again(network, layer, error) : WISP_OK;
    if (status == WISP_OK)
        resting->users++;
    else
        release_attention(&w->layer[layer]);
    leave(resting);
    return status;
}

void bert_sleep_resting(const struct network *network, uint32_t layer) {
    const struct bert_weights *w = network->weights;
    struct bert_resting *resting = &w->resting[layer];
    enter(resting);
    if (--resting->users == 0)
        release_attention(&w->layer[layer]);
    leave(resting);
}
