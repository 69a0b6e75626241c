/* SPDX-License-Identifier: Apache-2.0
 * The tensors that a model of an architecture may have. A file with any other tensor means a model
 * that computes more than wisp does. */
#ifndef WISP_MODELS_TENSOR_NAMES_H
#define WISP_MODELS_TENSOR_NAMES_H

#include "models/architecture.h"

/* Refuses the first tensor whose name neither the architecture nor wisp's own schema has, and the
 * tensors of layers beyond config->layers. */
wisp_status tensor_names_check(const struct directory *dir, const struct architecture *architecture,
                               const struct model_config *config, wisp_error *error);

#endif
