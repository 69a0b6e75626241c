/* SPDX-License-Identifier: Apache-2.0
 * A dense layer y = x W^T + b, its weights packed for the kernel set and the compute mode. */
#ifndef WISP_MODELS_LINEAR_H
#define WISP_MODELS_LINEAR_H

#include "base/arena.h"
#include "formats/directory.h"
#include "kernels/kernels.h"

enum { LINEAR_MAX_PARTS = 3 };

struct linear {
    const struct kernels *kernels;
    size_t n, k; /* outputs, inputs */
    bool int8;
    void *weights; /* as pack_f32 or pack_int8 lays them out */
    float *bias;   /* [n] */
    size_t bytes;  /* held by both */
};

/* Reads `parts` layers with the same k inputs and stacks their outputs, n of each: names are
 * tensor names without ".weight" and ".bias", both of which must be there. */
wisp_status linear_load(struct linear *layer, const struct directory *dir,
                        const char *const names[], size_t parts, size_t n, size_t k,
                        const struct kernels *kernels, bool int8, wisp_error *error);

void linear_release(struct linear *layer);

/* x [m, k] to y [m, n]. `scratch` holds linear_scratch_bytes(m, k) and is used from its start. */
void linear_apply(const struct linear *layer, const float *x, size_t m, float *y, void *scratch);

/* Room for m rows of k quantised inputs, rounded up to the workspace's alignment. */
size_t linear_scratch_bytes(size_t m, size_t k);

#endif
