/* SPDX-License-Identifier: Apache-2.0
 * The neuron store owns all feed-forward weights of a sparse model.
 *
 * A neuron is a row of W_up, a row of W_gate if layers are gated, a column of W_down, and a few
 * numbers that belong to it. It is at a place of its layer: in the order of the plan if a
 * predictor chooses neurons, else in the order of the file. The store packs a neuron from only its
 * weights, so that one can be put while others are absent, and records which are present. Neurons
 * are absent only while a layer is loaded, or if a model is opened without its cold ones
 * (neuron_cold.h).
 *
 *   y = base + row_scale * (sum over neurons of contribution * column_scale * column)
 *
 * The store holds everything in this formula except the contributions. */
#ifndef WISP_SPARSE_NEURON_STORE_H
#define WISP_SPARSE_NEURON_STORE_H

#include "base/workspace.h"
#include "formats/neurons.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "layers/linear.h"
#include "sparse/plan.h"

/* The sizes and properties that all sparse layers of a model have in common. */
struct sparse_shape {
    size_t layers, hidden_size, intermediate_size;
    enum activation activation;
    bool unbiased; /* layers have no biases */
    bool bare;     /* W_up and W_gate have none, even if W_down has one */
};

/* Memory for groups of 64 cold neurons of all layers, if it is bounded (neuron_cold_reserve):
 * frame f has rows 64 f to 64 f + 63 of these arrays, each [frames, 64, row_bytes]. */
struct neuron_frames {
    uint8_t *down;
    int8_t *up, *gate; /* gate is NULL if layers have none */
};

struct neuron_layer {
    size_t hidden_size, intermediate_size;
    size_t bytes;      /* memory of the layer, without neurons that may be absent */
    size_t row_bytes;  /* a packed row or column of a neuron, with its padding */
    uint64_t *present; /* bit i % 64 of word i / 64 is set if the neuron at place i is present */
    size_t n_present;
    uint8_t *down;            /* [placed, row_bytes]: columns from pack_neuron_column */
    float *column_scale;      /* [intermediate_size]: scale of each packed column */
    float *row_scale;         /* [hidden_size]: scale of each row of W_down (neurons_row_scale) */
    float *inverse_row_scale; /* [hidden_size]: 1 / row_scale */
    float *base;              /* [hidden_size]: b_down + W_down center */
    /* A layer without predictor has its first half as one dense layer: */
    struct linear dense; /* W_up, then W_gate; empty if a predictor chooses */
    /* A layer with a predictor has it row by row; these are NULL otherwise: */
    int8_t *up, *gate;                        /* [placed, row_bytes]; gate may be NULL */
    struct neuron *up_scalars, *gate_scalars; /* [intermediate_size]; gate_scalars may be NULL */
    float *input_scale;      /* [hidden_size]: multiplies x before x is quantised */
    float *center;           /* [intermediate_size]; NULL if all centers are 0 */
    struct workspace memory; /* holds all arrays above but `dense` */
    /* Only in a store that opens without cold neurons (neuron_cold.h): */
    size_t hot; /* neurons before this place are loaded with the layer and stay */
    const struct neuron_rows *rows;     /* where the file has the others; NULL if it has none */
    unsigned char *down_scales;         /* the bytes of the tensor DOWN_SCALES, in `memory` */
    const struct neuron_frames *frames; /* have the neurons from `placed` on; NULL: none do */
    uint16_t *frame; /* [sparse_mask_words]: the frame of each group there that is present */
    size_t placed;   /* neurons before this place are in the arrays above: a multiple of 64 if
                        others are in frames, else intermediate_size */
};

struct neuron_cold; /* neuron_cold.h */

struct neuron_store {
    const struct directory *dir;
    const struct kernels *kernels;
    struct sparse_shape shape;
    bool by_rows;         /* a predictor chooses among the neurons of each layer */
    bool by_text;         /* it does so once for each text */
    size_t rank;          /* the largest of any layer's predictor so far; 0 without predictors */
    const int32_t *order; /* [layers, intermediate_size]: the plan's order; NULL: the file's */
    struct neuron_layer *layer; /* [layers] */
    struct neuron_cold *cold;   /* the state of cold neurons; NULL if all are loaded */
};

/* The weights of one neuron, [hidden_size] each; neuron_store_put overwrites them. It ignores `up`
 * and `gate` if the first half is a dense layer, and `gate` if the layer is not gated. */
struct neuron_weights {
    float *up, *gate, *down;
};

/* Returns whether layers of these sizes can be sparse: their sums must fit in 32 bits. */
bool sparse_sizes_fit(size_t hidden_size, size_t intermediate_size);

/* Opens a store without neurons. The directory and the plan's order must outlive it. Fails if
 * the layers are too large (sparse_sizes_fit) or memory is short. The caller releases it with
 * neuron_store_release, also after an error. */
wisp_status neuron_store_open(struct neuron_store *store, const struct directory *dir,
                              const struct sparse_plan *plan, const struct sparse_shape *shape,
                              const struct kernels *kernels, wisp_error *error);

/* Opens a layer whose neurons are all absent: reads its biases, centers, scales and dense first
 * half. Fails if a tensor is missing, has another shape, cannot be read, or holds a scale that
 * is out of range. */
wisp_status neuron_store_open_layer(const struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error);

/* Packs a neuron into `place` of an open layer and marks it present. Fails with WISP_ERROR_FORMAT
 * if a weight is not finite, or too large for the scale of its row or input. */
wisp_status neuron_store_put(const struct neuron_store *store, size_t layer, size_t place,
                             struct neuron_weights weights, wisp_error *error);

/* Opens a layer and puts all of its neurons, or, if the store has `cold`, the hot ones; fails as
 * those two functions do. The cache serves one layer after the other. */
wisp_status neuron_store_load_layer(const struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error);

/* Frees the memory of a layer, which can be loaded again. */
void neuron_store_release_layer(const struct neuron_store *store, size_t layer);

void neuron_store_release(struct neuron_store *store);

/* Puts the neuron at `place` of an open layer from its row in the file. `scales` [hidden_size] come
 * from neurons_read_scales. Overwrites values [3 * hidden_size]. Fails as neuron_store_put does. */
wisp_status neuron_store_put_row(const struct neuron_store *store, size_t layer, size_t place,
                                 const struct neuron_shape *shape, const unsigned char *row,
                                 const float *scales, float *values, wisp_error *error);

/* ---- access to a layer ---------------------------------------------------------------------- */

/* Returns the number of 64-bit words in a mask of neurons. Bit i % 64 of word i / 64 belongs to the
 * neuron at place i. */
static inline size_t sparse_mask_words(size_t intermediate_size) {
    return (intermediate_size + 63) / 64;
}

static inline bool neuron_is_present(const struct neuron_layer *layer, size_t place) {
    return layer->present[place / 64] >> place % 64 & 1;
}

/* Returns the row of the neuron at `place`, which is at least layer->placed, in its frame. */
static inline size_t neuron_frame_row(const struct neuron_layer *layer, size_t place) {
    return 64 * (size_t)layer->frame[place / 64] + place % 64;
}

/* Return the packed row or column of the neuron at `place`, which is present. */
static inline int8_t *neuron_up(const struct neuron_layer *layer, size_t place) {
    return place < layer->placed
               ? layer->up + place * layer->row_bytes
               : layer->frames->up + neuron_frame_row(layer, place) * layer->row_bytes;
}

static inline int8_t *neuron_gate(const struct neuron_layer *layer, size_t place) {
    return !layer->gate_scalars ? NULL
           : place < layer->placed
               ? layer->gate + place * layer->row_bytes
               : layer->frames->gate + neuron_frame_row(layer, place) * layer->row_bytes;
}

static inline uint8_t *neuron_down(const struct neuron_layer *layer, size_t place) {
    return place < layer->placed
               ? layer->down + place * layer->row_bytes
               : layer->frames->down + neuron_frame_row(layer, place) * layer->row_bytes;
}

#endif
