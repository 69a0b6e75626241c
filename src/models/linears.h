/* SPDX-License-Identifier: Apache-2.0
 * The dense layers of a network as a list. Loading and releasing them, letting them rest in the
 * file, counting their bytes and quantising them by texts all go through it, so that only an
 * architecture knows where its weights are. */
#ifndef WISP_MODELS_LINEARS_H
#define WISP_MODELS_LINEARS_H

#include "formats/schema.h"
#include "models/network.h"

/* The use of a dense layer's outputs. */
enum linear_role {
    LINEAR_WITHIN, /* they stay within the block */
    LINEAR_ENDS,   /* they end the block, and are added to the hidden states */
    LINEAR_LOGITS  /* they are the logits of tokens */
};

struct linear_entry {
    struct linear *linear; /* of the network; empty while it is not loaded */
    /* The matrices that are stacked: tensors without "blk.<layer>." and ".weight". */
    const char *names[LINEAR_MAX_PARTS + 1]; /* the last is followed by NULL */
    size_t n, k;                             /* outputs of each matrix, inputs */
    const char *norm;                        /* the tensor of the norm of inputs, named like the
                                                matrices; NULL: there is none */
    float norm_epsilon;                      /* 0: the config's */
    enum pass_block block;                   /* the block that computes it */
    enum linear_role role;
    bool has_bias; /* each matrix has a bias beside it */
    bool checked;  /* it has been read before */
    bool chooses;  /* it chooses the neurons that a token computes: REST_CHOICE has it */
};

enum { MOST_LINEARS = 8 };

/* Lists the dense layers of layer `layer` in the order in which a pass computes them, or those
 * outside of layers if `layer` is config.layers. Those of its attention come before those of its
 * feed-forward block, of which sparse ones have none. Returns their number. The network has its
 * weights, which need not be loaded. */
size_t network_linears(const struct network *network, uint32_t layer,
                       struct linear_entry out[MOST_LINEARS]);

/* Returns the layer that computes logits, or NULL if the network embeds. */
struct linear *network_logits(const struct network *network);

/* Reads and packs a dense layer of `layer`. Adds nothing to the network. Fails as linear_load does.
 * `cache` may be NULL. */
wisp_status linear_entry_read(const struct network *network, uint32_t layer,
                              const struct linear_entry *entry, struct tensor_cache *cache,
                              wisp_error *error);

/* Adds the bytes of a dense layer, `times` over, to network->tally. */
void network_tally(struct network *network, const struct linear *linear, size_t times);

/* Reads some dense layers of `layer`, and adds their bytes to network->resident_bytes and to
 * network->tally. */
wisp_status linear_entries_load(struct network *network, uint32_t layer,
                                const struct linear_entry *entries, size_t n,
                                struct tensor_cache *cache, wisp_error *error);

#endif
