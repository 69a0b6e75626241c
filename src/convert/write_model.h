/* SPDX-License-Identifier: Apache-2.0
 * Writes a model's file, which appears whole or not at all. Native only. */
#ifndef WISP_CONVERT_WRITE_MODEL_H
#define WISP_CONVERT_WRITE_MODEL_H

#include "convert/neuron_rows.h"

/* Writes the directory by the plan. Afterwards it can only be released. */
wisp_status write_model(struct directory *dir, const struct gguf_plan *plan,
                        enum neuron_layout layout, const char *output, wisp_error *error);

#endif
