/* SPDX-License-Identifier: Apache-2.0
 * The table of architectures. */
#ifndef WISP_MODELS_ARCHITECTURES_H
#define WISP_MODELS_ARCHITECTURES_H

#include "models/architecture.h"

/* Those of this product (src/products); NULL ends the list. */
extern const struct architecture *const architectures[];

/* Finds the architecture that the key general.architecture names. Fails with WISP_ERROR_NOT_FOUND
 * if the key is missing, and with WISP_ERROR_UNSUPPORTED if the table lacks the name. */
wisp_status architecture_find(const struct directory *dir, const struct architecture **architecture,
                              wisp_error *error);

#endif
