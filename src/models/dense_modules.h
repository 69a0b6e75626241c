/* SPDX-License-Identifier: Apache-2.0
 * Dense layers that a pooled row goes through: row = activation(W row + b). They are the modules
 * Dense of sentence-transformers or, of a model that scores texts, its head, whose first layer may
 * have a norm behind it. They compute in f32. */
#ifndef WISP_MODELS_DENSE_MODULES_H
#define WISP_MODELS_DENSE_MODULES_H

#include "formats/schema.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/model_config.h"

struct dense_activation; /* dense_modules.c */

struct dense_modules {
    struct linear layers[DENSE_MODULES];
    const struct dense_activation *activations[DENSE_MODULES];
    size_t n;
    struct norm norm; /* of a head; without a weight there is none, and a bias may be missing */
    float epsilon;
};

/* Returns the names of the modules that a model of this config has, llama.cpp's: [DENSE_MODULES],
 * then NULL. The tensors of a module are NAME.weight [outputs, inputs] and perhaps NAME.bias. */
const char *const *dense_module_names(const struct model_config *config);

/* Loads the modules that the file has. Rows before the first have hidden_size values. Fails if a
 * tensor has another shape, the activation is unknown, or a head does not end with one score or, if
 * it has labels, at least one. The caller releases them, also after an error. */
wisp_status dense_modules_load(struct dense_modules *modules, const struct directory *dir,
                               const struct kernels *kernels, const struct model_config *config,
                               wisp_error *error);

void dense_modules_release(struct dense_modules *modules);

/* Returns the values of a row after the last module, which before the first has `size`. */
size_t dense_modules_outputs(const struct dense_modules *modules, size_t size);

/* Returns the bytes of working memory for m rows. */
size_t dense_modules_workspace_bytes(const struct dense_modules *modules, size_t m);

/* Returns rows [m, outputs]: `rows` [m, size] without modules, or else a place in `space`. With
 * `logits` the last module's activation is left out. */
const float *dense_modules_apply(const struct dense_modules *modules, const float *rows, size_t m,
                                 bool logits, struct workspace space);

#endif
