/* SPDX-License-Identifier: Apache-2.0
 * Arranges a model so that feed-forward layers are written neuron by neuron (formats/neurons.h). */
#ifndef WISP_CONVERT_NEURON_ROWS_H
#define WISP_CONVERT_NEURON_ROWS_H

#include "convert/gguf_write.h"

/* Selects the layers that are written as rows of neurons. */
enum neuron_layout {
    NEURONS_AS_THEY_ARE,   /* the layers that the input stores as rows */
    NEURONS_PLAIN,         /* no layers */
    NEURONS_ALL,           /* all layers; fails if one cannot be rows */
    NEURONS_WHERE_POSSIBLE /* all layers whose types and shapes allow it */
};

struct row_layer;

struct neuron_arrangement {
    struct arena arena;       /* holds layers and formats */
    struct row_layer *layers; /* [n_layers] */
    size_t n_layers;
    const struct block_format **formats; /* [dir->n_tensors], as in struct gguf_plan; may be NULL */
};

/* Replaces the matrices of layers in `dir` by tensors of rows, with all cold ones last, and adds
 * the keys of the layout. `formats` [dir->n_tensors] are the formats in which the tensors are to be
 * written. The metadata of `dir` gives the order of the neurons and the number of hot ones.
 * gguf_write can write the directory until the arrangement is released. arrangement->formats stays
 * NULL if no layer becomes rows. Fails if the layout asks for rows that the types or shapes
 * of a layer do not allow. The caller releases the arrangement, also after an error. */
wisp_status neuron_rows_arrange(struct neuron_arrangement *arrangement, struct directory *dir,
                                const struct block_format *const *formats,
                                enum neuron_layout layout, wisp_error *error);

void neuron_rows_release(struct neuron_arrangement *arrangement);

#endif
