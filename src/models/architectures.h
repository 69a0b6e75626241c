/* SPDX-License-Identifier: Apache-2.0
 * The table of architectures. */
#ifndef WISP_MODELS_ARCHITECTURES_H
#define WISP_MODELS_ARCHITECTURES_H

#include "models/architecture.h"

/* The architecture that the key general.architecture names; WISP_ERROR_UNSUPPORTED where it is none
 * of the table. */
wisp_status architecture_find(const struct directory *dir, const struct architecture **architecture,
                              wisp_error *error);

#endif
