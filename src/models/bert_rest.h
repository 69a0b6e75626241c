/* SPDX-License-Identifier: Apache-2.0
 * Attention's weights of an encoder whose memory is limited to less than they take: they rest in
 * the file, and those of a layer are in memory while a pass computes its attention block. They are
 * packed anew each time, with the same bits. Native only. */
#ifndef WISP_MODELS_BERT_REST_H
#define WISP_MODELS_BERT_REST_H

#include "models/bert_weights.h"
#include "models/network.h"

/* Says whether attention's weights may rest. A WebAssembly module never gives memory back, so that
 * nothing would be saved there. */
#ifdef __wasm__
enum { ATTENTION_MAY_REST = 0 };
#else
enum { ATTENTION_MAY_REST = 1 };
#endif

/* Returns the bytes that bert_rest takes from network->resident_bytes: those of attention's weights
 * of all layers but the largest; 0 where they rest already. */
size_t bert_rest_saves(const struct network *network);

/* Frees attention's weights of all layers. The network's tensors must be in lasting sources
 * (wisp_source). Must be called before any pass; a second call does nothing. Fails where there is
 * no memory; nothing is freed then. */
wisp_status bert_rest(struct network *network, wisp_error *error);

/* bert_wake and bert_sleep call these where weights rest. */
wisp_status bert_wake_resting(const struct network *network, uint32_t layer, wisp_error *error);
void bert_sleep_resting(const struct network *network, uint32_t layer);

/* Reads the weights of a layer's attention unless they are there. Each call that succeeds is
 * followed by bert_sleep; those of the last caller are freed by it. Several threads may call both.
 * Fails with WISP_ERROR_IO where the file cannot be read, or has changed since it was opened; the
 * pass must then be given up, since other members may have computed their part of the block. */
static inline wisp_status bert_wake(const struct network *network, uint32_t layer,
                                    wisp_error *error) {
    const struct bert_weights *w = network->weights;
    return ATTENTION_MAY_REST && w->resting ? bert_wake_resting(network, layer, error) : WISP_OK;
}

static inline void bert_sleep(const struct network *network, uint32_t layer) {
    const struct bert_weights *w = network->weights;
    if (ATTENTION_MAY_REST && w->resting)
        bert_sleep_resting(network, layer);
}

#endif
