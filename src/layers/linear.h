/* SPDX-License-Identifier: Apache-2.0
 * A dense layer y = x W^T + b, with weights packed for the kernel set and the compute mode. With a
 * norm it takes the RMS norm of x. */
#ifndef WISP_LAYERS_LINEAR_H
#define WISP_LAYERS_LINEAR_H

#include "base/workspace.h"
#include "formats/directory.h"
#include "weights/weight_kind.h"

enum { LINEAR_MAX_PARTS = 3 };

/* Whether there are layers that normalise their inputs: WebAssembly modules leave them out. Such a
 * layer takes so many rows at a time. */
#ifdef __wasm__
enum { LINEAR_NORMALISES = 0, LINEAR_NORM_ROWS = 0 };
#else
enum { LINEAR_NORMALISES = 1, LINEAR_NORM_ROWS = 32 };
#endif

/* Is called with inputs x [m, k] and outputs y [m, n] of a layer, in order; with a norm, with the
 * norm of inputs, some rows at a time. */
struct linear_tap {
    void (*see)(void *context, const float *x, const float *y, size_t m);
    void *context;
};

struct linear {
    const struct kernels *kernels;
    size_t n, k; /* outputs, inputs */
    const struct weight_kind *kind;
    void *weights; /* W [n, k], as `kind` keeps it */
    float *bias;   /* [n] */
    float *norm;   /* [k]: weight of the RMS norm of inputs; NULL: there is none */
    float norm_epsilon;
    size_t bytes;                 /* memory of weights, bias and norm */
    const struct linear_tap *tap; /* called by linear_apply; NULL: nobody looks */
};

/* Describes a layer in a file: `parts` tensors [n, k] that are stacked to one W [parts * n, k]. */
struct linear_source {
    const struct directory *dir;
    const char *const *names; /* [parts]: NAME.weight and NAME.bias are tensors of the file */
    bool unbiased;            /* biases are 0, and NAME.bias must not be there; else it must be */
    size_t parts, n, k;
    /* Each tensor is [matrices, n, k], of which this is matrix number `matrix`; 0: [n, k]. Biases
     * are [matrices, n] then. */
    size_t matrices, matrix;
    const char *norm; /* NAME.weight [k] is the norm's weight; NULL: there is no norm */
    float norm_epsilon;
    bool checked;               /* the weights have been read before: only their bytes are needed */
    struct tensor_cache *cache; /* keeps bytes from one layer to the next; may be NULL */
};

/* Reads and packs a layer. `compute`, which is not AUTO, says as what the layer multiplies, and
 * so decides its weight kind. Fails if a tensor is missing, has another shape or an unsupported
 * type, cannot be read, or is a bias that must not be there. The caller releases the layer with
 * linear_release, also after an error. */
wisp_status linear_load(struct linear *layer, const struct linear_source *source,
                        const struct kernels *kernels, wisp_compute compute, wisp_error *error);

void linear_release(struct linear *layer);

/* Reads the tensor `name` into bias [n], or writes zeros if the source is unbiased. Fails if
 * the tensor is missing, has another shape or cannot be read, or if it must not be there. */
wisp_status linear_bias(const struct linear_source *source, const char *name, float *bias,
                        wisp_error *error);

/* Computes y [m, n] = x [m, k] W^T + b. The workspace has linear_workspace_bytes(m, k) left, and
 * with a norm linear_norm_bytes(k) besides. */
void linear_apply(const struct linear *layer, const float *x, size_t m, float *y,
                  struct workspace space);

/* Computes outputs [first, first + n) of linear_apply, with the same bits: columns of y [m,
 * layer->n]. `first` is a multiple of the kind's panel. The workspace is that of linear_apply. */
void linear_apply_outputs(const struct linear *layer, const float *x, size_t m, float *y,
                          size_t first, size_t n, struct workspace space);

/* Returns the bytes of working memory for m rows of k inputs; SIZE_MAX if they cannot be
 * addressed. */
static inline size_t linear_workspace_bytes(size_t m, size_t k) {
    return weight_workspace_bytes(m, k);
}

/* Returns the bytes of working memory for the norm of k inputs. */
static inline size_t linear_norm_bytes(size_t k) {
    struct workspace measured = {0};
    workspace_take(&measured, LINEAR_NORM_ROWS, k, sizeof(float));
    return measured.used;
}

#endif
