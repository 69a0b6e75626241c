/* SPDX-License-Identifier: Apache-2.0
 * The weights of a layer norm. */
#ifndef WISP_LAYERS_NORM_H
#define WISP_LAYERS_NORM_H

#include "formats/directory.h"

struct norm {
    float *weight, *bias; /* [size] */
};

/* Reads the tensors NAME.weight [size] and NAME.bias [size]; for a layer's norm NAME begins with
 * "blk.INDEX.". Fails if one is missing, has another shape or cannot be read. The caller
 * releases the norm with norm_release, also after an error. */
wisp_status norm_load(struct norm *norm, const struct directory *dir, const char *name, size_t size,
                      wisp_error *error);

void norm_release(struct norm *norm);

/* Returns the bytes that a norm of this size holds. */
static inline size_t norm_bytes(size_t size) {
    return 2 * size * sizeof(float);
}

#endif
