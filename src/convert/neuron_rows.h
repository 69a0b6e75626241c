/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers to be written with their neurons as rows (formats/neurons.h). Native only. */
#ifndef WISP_CONVERT_NEURON_ROWS_H
#define WISP_CONVERT_NEURON_ROWS_H

#include "convert/gguf_write.h"

/* The layers of which the neurons become rows. */
enum neuron_layout {
    NEURONS_AS_THEY_ARE,   /* those whose neurons are rows in the input */
    NEURONS_PLAIN,         /* none */
    NEURONS_ALL,           /* all, or it is an error */
    NEURONS_WHERE_POSSIBLE /* all whose types and shapes allow it */
};

struct row_layer;

/* W_down of the layer that is being written, as it will be stored. */
struct held_down {
    const struct row_layer *layer; /* NULL: none */
    unsigned char *rows;
};

struct neuron_arrangement {
    struct arena arena;       /* holds the next two */
    struct row_layer *layers; /* [n_layers] */
    size_t n_layers;
    const struct block_format **formats; /* of the directory's tensors, as of a gguf_plan */
    struct held_down down;
};

/* Replaces in `dir` the matrices of layers by tensors of rows, all cold ones last, and adds the
 * keys that say so. `formats` are those in which its tensors are to be written. The metadata says
 * in which order the neurons come and how many are hot. The directory can be written until the
 * arrangement is released, which is due also after an error. */
wisp_status neuron_rows_arrange(struct neuron_arrangement *arrangement, struct directory *dir,
                                const struct block_format *const *formats,
                                enum neuron_layout layout, wisp_error *error);

void neuron_rows_release(struct neuron_arrangement *arrangement);

#endif
