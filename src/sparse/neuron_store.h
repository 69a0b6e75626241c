/* SPDX-License-Identifier: Apache-2.0
 * The one owner of the feed-forward weights of a sparse model.
 *
 * A neuron is a row of W_up, a row of W_gate where layers are gated, a column of W_down, and a few
 * numbers that belong to it. It stands at a place of its layer: in the order of the plan where a
 * predictor chooses neurons, else in the order of the file. The store packs a neuron from its
 * weights alone, so that one can be put while others are absent, and knows which are present.
 *
 *   y = base + row_scale times the sum over neurons of contribution times column
 *
 * where all but the contributions comes from here. */
#ifndef WISP_SPARSE_NEURON_STORE_H
#define WISP_SPARSE_NEURON_STORE_H

#include "base/workspace.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "layers/linear.h"
#include "sparse/plan.h"

/* What all sparse layers of a model have in common besides the plan. */
struct sparse_shape {
    size_t layers, hidden_size, intermediate_size;
    enum activation activation;
    bool unbiased;
};

struct neuron_layer {
    size_t hidden_size, intermediate_size;
    size_t row_bytes;  /* of a neuron's row or column, with the padding behind it */
    uint64_t *present; /* bit i % 64 of word i / 64: the neuron at place i is here */
    size_t n_present;
    uint8_t *down;       /* [intermediate_size, row_bytes], as pack_neuron_column lays them out */
    float *column_scale; /* [intermediate_size], of these int8 values */
    float *row_scale;    /* [hidden_size], of rows of W_down: see neurons_row_scale */
    float *inverse_row_scale; /* [hidden_size]: 1 / row_scale */
    float *base;              /* [hidden_size]: b_down + W_down center */
    /* Where all neurons are computed, their first half is one dense layer: */
    struct linear dense; /* W_up, then W_gate */
    /* Where a predictor chooses, it is row by row, and dense is empty: */
    int8_t *up, *gate;                        /* [intermediate_size, row_bytes]; gate may be NULL */
    struct neuron *up_scalars, *gate_scalars; /* [intermediate_size]; likewise */
    float *input_scale;      /* [hidden_size]: x is multiplied by it before it is quantised */
    float *center;           /* [intermediate_size]; NULL: 0 */
    struct workspace memory; /* holds the arrays above */
};

struct neuron_store {
    const struct directory *dir;
    const struct kernels *kernels;
    struct sparse_shape shape;
    bool by_rows;         /* a predictor chooses among the neurons of each layer */
    const int32_t *order; /* [layers, intermediate_size]: the neuron at each place; NULL: its own */
    struct neuron_layer *layer; /* [layers] */
    size_t bytes;               /* held by all of it */
};

/* The weights of one neuron, [hidden_size] each; putting overwrites them. up and gate are not
 * looked at where the first half is a dense layer, and gate where there is none. */
struct neuron_weights {
    float *up, *gate, *down;
};

/* Whether layers of these sizes can be sparse: their sums have to fit in 32 bits. */
bool sparse_sizes_fit(size_t hidden_size, size_t intermediate_size);

/* A store without neurons. The directory and the plan's order must outlive it. Released with
 * neuron_store_release, also after an error. */
wisp_status neuron_store_open(struct neuron_store *store, const struct directory *dir,
                              const struct sparse_plan *plan, const struct sparse_shape *shape,
                              const struct kernels *kernels, wisp_error *error);

/* Reads what a layer has besides its neurons: biases, centers, scales, the dense first half. All
 * neurons are absent then. */
wisp_status neuron_store_open_layer(struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error);

/* Packs the neuron at `place` of a layer that is open, which is present then. Weights that are not
 * finite, or do not fit the layer's row scales, are a format error. */
wisp_status neuron_store_put(struct neuron_store *store, size_t layer, size_t place,
                             struct neuron_weights weights, wisp_error *error);

/* Opens a layer and puts all of its neurons. The cache serves one layer after the other. */
wisp_status neuron_store_load_layer(struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error);

void neuron_store_release(struct neuron_store *store);

/* ---- what a layer hands out ----------------------------------------------------------------- */

/* 64-bit words of a mask of neurons, of which bit i % 64 of word i / 64 is neuron i's. */
static inline size_t sparse_mask_words(size_t intermediate_size) {
    return (intermediate_size + 63) / 64;
}

static inline bool neuron_is_present(const struct neuron_layer *layer, size_t place) {
    return layer->present[place / 64] >> place % 64 & 1;
}

/* Rows and columns of neurons that are present, by place. */
static inline const int8_t *neuron_up(const struct neuron_layer *layer, size_t place) {
    return layer->up + place * layer->row_bytes;
}

static inline const int8_t *neuron_gate(const struct neuron_layer *layer, size_t place) {
    return layer->gate ? layer->gate + place * layer->row_bytes : NULL;
}

static inline const uint8_t *neuron_down(const struct neuron_layer *layer, size_t place) {
    return layer->down + place * layer->row_bytes;
}

#endif
