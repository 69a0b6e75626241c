/* SPDX-License-Identifier: Apache-2.0
 * Weights of a model whose memory is limited to less than they take. They rest in the file: a
 * pass reads and packs those that a block needs, with the same bits each time, and frees them after
 * it. So a pass has one part of one layer in memory at a time. In a decoder a second thread reads
 * the next one at the same time, and the system those behind it. Native only. */
#ifndef WISP_MODELS_REST_H
#define WISP_MODELS_REST_H

#include "models/network.h"

/* Sets the limit of network->resident_bytes, after network_open and before any pass.
 * Its tensors must be in lasting sources (wisp_source). A further call may lower the limit. Fails
 * if there is no memory. */
wisp_status rest_open(struct network *network, uint64_t limit, wisp_error *error);

/* Makes parts of layers [0, layers), as far as they are loaded, rest if the limit asks for it.
 * Loading the network calls it for each layer, so that what rests is not in memory all at once; it
 * must be called after a further rest_open. */
void rest_loaded(struct network *network, uint32_t layers);

/* Returns the bytes that network->resident_bytes, of a network that is loaded, loses if all parts
 * rest: those of all parts that do not, but for the largest and the largest that is read ahead. */
uint64_t rest_saves(const struct network *network);

/* Returns the bytes of the file that passes have read so far for parts that rest. */
uint64_t rest_read_bytes(const struct network *network);

/* The functions below call these if the network has parts that rest. */
wisp_status rest_wake_part(const struct network *network, enum rest_part part, uint32_t layer,
                           wisp_error *error);
/* Reads the part that a token needs after this one, while another thread reads this one, unless
 * this one was read so itself. It counts as used until it is woken. An error is left to who wakes
 * it. Does nothing for encoders. */
void rest_wake_next(const struct network *network, enum rest_part part, uint32_t layer);

void rest_sleep_part(const struct network *network, enum rest_part part, uint32_t layer);

/* Reads a part of a layer unless it is there. Each call that succeeds is followed by rest_sleep;
 * the weights are freed when the last caller does so. Several threads may call both. Fails with
 * WISP_ERROR_IO if the file cannot be read, or has changed since the network was loaded. */
static inline wisp_status rest_wake(const struct network *network, enum rest_part part,
                                    uint32_t layer, wisp_error *error) {
    return WEIGHTS_MAY_REST && network->rest ? rest_wake_part(network, part, layer, error)
                                             : WISP_OK;
}

static inline void rest_sleep(const struct network *network, enum rest_part part, uint32_t layer) {
    if (WEIGHTS_MAY_REST && network->rest)
        rest_sleep_part(network, part, layer);
}

#endif
