/* SPDX-License-Identifier: Apache-2.0
 * Cold neurons of a model that is opened without them. They are absent until someone provides the
 * bytes of their rows in the file, and may become absent again if memory is limited.
 *
 * A pass holds the neurons that it computes next, present or not. When all of them are present it
 * computes; neurons that are held do not become absent. All functions may be called by several
 * threads at a time, each with a hold of its own.
 *
 * Memory is counted, and given back, in groups of 64 neurons, which are a word of a mask: their
 * rows fill whole pages of 4 KiB, so that they are returned to the system. Every neuron has its
 * place in memory from the beginning; pages that were never written take none. If no pages can be
 * given back, as in WebAssembly, groups are in frames of fixed number instead, whichever is free.
 */
#ifndef WISP_SPARSE_NEURON_COLD_H
#define WISP_SPARSE_NEURON_COLD_H

#include "base/product.h"
#include "sparse/neuron_store.h"

/* The neurons of one layer that a pass computes or waits for. Starts as zeros, but for the arrays.
 */
struct neuron_hold {
    uint64_t *places; /* [sparse_mask_words]: the neurons */
    uint64_t *absent; /* [sparse_mask_words]: those that were absent when they were last counted */
    size_t n_absent;
    size_t layer;
    bool held;
};

/* Returns the memory that n neurons of a layer take. */
static inline size_t neuron_cold_bytes(const struct neuron_layer *layer, size_t n) {
    const size_t rows = layer->gate ? 3 : layer->up ? 2 : 1;
    return n * layer->row_bytes * rows;
}

/* Makes the layers of an open store load without their cold neurons. Its predictor must choose
 * neurons (by_rows). With `framed`, cold neurons are in frames, but those that share a group with
 * hot ones; neuron_cold_reserve must then be called when the layers are loaded. The caller releases
 * the state with neuron_cold_release, also after an error. */
wisp_status neuron_cold_open(struct neuron_store *store, bool framed, wisp_error *error);

/* Takes frames for one session: groups that several hold could be more than there are. Returns
 * false if another has them, until neuron_cold_leave. Without frames it returns true. */
bool neuron_cold_take(const struct neuron_store *store);
void neuron_cold_leave(const struct neuron_store *store);

/* Returns the frames of an open store; NULL if it has none. */
const struct neuron_frames *neuron_cold_frames(const struct neuron_store *store);

/* Returns how many frames hold all neurons at a time. Sets *least to those that a pass may need,
 * which are the most of one layer, and *bytes to the memory of one. */
size_t neuron_cold_count(const struct neuron_store *store, size_t *least, uint64_t *bytes);

/* Allocates n frames, between *least and all of neuron_cold_count; `limited` says whether there may
 * be fewer than all. If no frame is free, a group that a pass holds takes the frame of one that
 * is evicted; others stay absent. Must be called once, before any pass. */
wisp_status neuron_cold_reserve(struct neuron_store *store, size_t n, bool limited,
                                wisp_error *error);

/* The most frames: kernels take the number of a row, of which a frame has 64, in 16 bits. */
enum { MOST_FRAMES = NEURONS_MAX / 64 };

/* Limits the memory of cold neurons to `budget` bytes, from now on; held neurons may exceed it.
 * `discard` returns the whole pages within a block of memory to the system, after which their
 * contents are undefined. Must be called before any pass. */
void neuron_cold_limit(struct neuron_store *store, uint64_t budget,
                       void (*discard)(void *block, size_t bytes));

/* Frees the state, before neuron_store_release; does nothing if there is none. */
void neuron_cold_release(struct neuron_store *store);

/* Holds hold->places of a layer, and counts which are absent. With `skip`, absent neurons are
 * removed from the places first, so that those which are left can be computed at once. */
void neuron_hold_begin(const struct neuron_store *store, size_t layer, bool skip,
                       struct neuron_hold *hold);

/* Counts again which neurons of a hold are absent. */
void neuron_hold_count(const struct neuron_store *store, struct neuron_hold *hold);

/* Ends a hold, if it is one. */
void neuron_hold_end(const struct neuron_store *store, struct neuron_hold *hold);

/* Writes the ranges of the file that hold->absent neurons are in, in the order of their places
 * and one for each row, to ranges [hold->n_absent]. Returns their number. */
size_t neuron_hold_ranges(const struct neuron_store *store, const struct neuron_hold *hold,
                          wisp_range *ranges);

/* Packs all absent neurons whose rows are wholly within bytes [offset, offset + length) of the
 * file. Fails with WISP_ERROR_FORMAT if a weight is not finite; neurons before that one are then
 * present. */
wisp_status neuron_cold_provide(const struct neuron_store *store, uint64_t offset,
                                const void *bytes, size_t length, wisp_error *error);

/* Fills in what is known of the neurons. */
void neuron_cold_stats(const struct neuron_store *store, wisp_cold_stats *stats);

/* Does what wisp_model_trace_tokens does. Must not be called during a pass. */
wisp_status neuron_cold_trace(const struct neuron_store *store, size_t tokens, wisp_error *error);

/* Keeps the masks [n, sparse_mask_words] of a batch's tokens, if tokens are traced. */
void neuron_cold_keep(const struct neuron_store *store, size_t layer, const uint64_t *masks,
                      size_t n);

/* Does what wisp_model_get_token_neurons does. */
bool neuron_cold_token(const struct neuron_store *store, size_t layer, size_t token,
                       uint64_t *needed);

/* Does what wisp_model_get_neurons does. */
wisp_layer_neurons neuron_cold_layer(const struct neuron_store *store, size_t layer,
                                     uint64_t *present, uint64_t *needed);

#endif
