/* SPDX-License-Identifier: Apache-2.0
 * The products of a model's layers with the same inputs, in the order in which a pass computes
 * them. Native only. */
#ifndef WISP_CALIBRATE_PRODUCTS_H
#define WISP_CALIBRATE_PRODUCTS_H

#include "layers/linear.h"
#include "models/network.h"

struct product {
    const char *parts[LINEAR_MAX_PARTS + 1]; /* the names of the matrices that are stacked */
    enum block block;
    bool ends_block; /* its output is added to the block's input */
    struct linear *(*layer)(struct network *network, size_t layer);
};

enum { MOST_PRODUCTS = 8 };

/* Writes the products of a layer and returns their number. */
size_t layer_products(const struct network *network, size_t layer,
                      struct product products[MOST_PRODUCTS]);

/* Returns the layer that computes logits from the norms behind the last block. */
struct linear *logits_of(struct network *network);

/* Returns whether the outputs that end blocks are added to the hidden states as they are, without a
 * norm before. */
bool adds_outputs(const struct network *network);

#endif
