/* SPDX-License-Identifier: Apache-2.0
 * A dense layer y = x W^T + b, its weights packed for the kernel set and the compute mode. */
#ifndef WISP_LAYERS_LINEAR_H
#define WISP_LAYERS_LINEAR_H

#include "base/workspace.h"
#include "formats/directory.h"
#include "weights/weight_kind.h"

enum { LINEAR_MAX_PARTS = 3 };

struct linear {
    const struct kernels *kernels;
    size_t n, k; /* outputs, inputs */
    const struct weight_kind *kind;
    void *weights; /* as the kind packs them */
    float *bias;   /* [n] */
    size_t bytes;  /* held by both */
};

/* `parts` layers in a file with the same k inputs, n outputs each, which are stacked. */
struct linear_source {
    const struct directory *dir;
    const char *const *names; /* [parts], without ".weight" and ".bias" */
    bool unbiased;            /* false: the bias must be there. true: it must not, and is 0 */
    size_t parts, n, k;
    struct tensor_cache *cache; /* of who loads one layer after the other; may be NULL */
};

/* `quantised`: activations are, and weights are of a kind for that. */
wisp_status linear_load(struct linear *layer, const struct linear_source *source,
                        const struct kernels *kernels, bool quantised, wisp_error *error);

void linear_release(struct linear *layer);

/* The bias [n] that the tensor `name` is, or zeros where there must be none. */
wisp_status linear_bias(const struct linear_source *source, const char *name, float *bias,
                        wisp_error *error);

/* x [m, k] to y [m, n]. The workspace has linear_workspace_bytes(m, k) left. */
void linear_apply(const struct linear *layer, const float *x, size_t m, float *y,
                  struct workspace space);

/* Working memory for m rows of k inputs; SIZE_MAX where that cannot be addressed. */
size_t linear_workspace_bytes(size_t m, size_t k);

#endif
