/* SPDX-License-Identifier: Apache-2.0
 * A model's file, whole or not at all. Native only. */
#ifndef WISP_CONVERT_WRITE_MODEL_H
#define WISP_CONVERT_WRITE_MODEL_H

#include "convert/neuron_rows.h"

/* Writes the directory by the plan. It is good for nothing but release afterwards. */
wisp_status write_model(struct directory *dir, const struct gguf_plan *plan,
                        enum neuron_layout layout, const char *output, wisp_error *error);

#endif
