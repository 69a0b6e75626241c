/* SPDX-License-Identifier: Apache-2.0
 * Writes the file of a model. */
#ifndef WISP_CONVERT_WRITE_MODEL_H
#define WISP_CONVERT_WRITE_MODEL_H

#include "convert/neuron_rows.h"

/* Writes the directory in the formats of the plan and with this layout of neurons; if some are
 * rows, or tokens are hot, with a table of chunks. The file appears whole or not at all. Afterwards
 * the directory can only be released. Fails as neuron_rows_arrange and gguf_write do. */
wisp_status write_model(struct directory *dir, const struct gguf_plan *plan,
                        enum neuron_layout layout, const char *output, wisp_error *error);

/* Measures the file that write_model would write without rows of neurons and hot tokens. The
 * directory can only be released afterwards, too. */
wisp_status measure_model(struct directory *dir, const struct gguf_plan *plan, uint64_t *bytes,
                          wisp_error *error);

#endif
