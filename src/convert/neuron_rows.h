/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers to be written with their neurons as rows (formats/neurons.h). Native only. */
#ifndef WISP_CONVERT_NEURON_ROWS_H
#define WISP_CONVERT_NEURON_ROWS_H

#include "convert/gguf_write.h"

/* The layers whose neurons become rows. */
enum neuron_layout {
    NEURONS_AS_THEY_ARE,   /* those of which the input has rows */
    NEURONS_PLAIN,         /* none */
    NEURONS_ALL,           /* all, or it is an error */
    NEURONS_WHERE_POSSIBLE /* all whose types and shapes allow it */
};

struct row_layer;

struct neuron_arrangement {
    struct row_layer *layers; /* [n_layers] */
    size_t n_layers;
    const struct block_format **formats; /* of the directory's tensors, as of a gguf_plan */
};

/* Replaces in `dir` the matrices of layers by tensors of rows, all cold ones last, and the keys
 * that say so. `formats` are what its tensors are planned to become. The order of the neurons and
 * how many are hot come from the metadata. The directory can be written until the arrangement is
 * released, also on failure. */
wisp_status neuron_rows_arrange(struct neuron_arrangement *arrangement, struct directory *dir,
                                const struct block_format *const *formats,
                                enum neuron_layout layout, wisp_error *error);

void neuron_rows_release(struct neuron_arrangement *arrangement);

#endif
