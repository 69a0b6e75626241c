/* SPDX-License-Identifier: Apache-2.0
 * W_down by columns, in int8: what the second half of a sparse layer adds up. */
#ifndef WISP_SPARSE_COLUMNS_H
#define WISP_SPARSE_COLUMNS_H

#include "formats/directory.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"

/* y = base + row_scales times the sum over neurons of value times column. */
struct columns {
    uint8_t *w;        /* as pack_neuron_columns lays them out */
    float *scale;      /* [wide]: of the column's int8 values */
    float *row_scales; /* [hidden] */
    float *base;       /* [hidden]: b_down + W_down center */
    size_t bytes;      /* held by all of it */
};

struct columns_source {
    const struct directory *dir;
    size_t index; /* of the layer */
    size_t hidden, wide;
    bool unbiased;
    const int32_t *order; /* [wide]: column i is neuron order[i]'s; NULL: i's */
    const float *center;  /* [wide], in the file's order; NULL: 0 */
};

/* Released with columns_release, also after an error. */
wisp_status columns_load(struct columns *columns, const struct columns_source *source,
                         const struct sparse_kernels *kernels, wisp_error *error);

void columns_release(struct columns *columns);

#endif
