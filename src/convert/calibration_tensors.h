/* SPDX-License-Identifier: Apache-2.0
 * What calibration adds to a model: the calibration part of formats/schema.h. */
#ifndef WISP_CONVERT_CALIBRATION_TENSORS_H
#define WISP_CONVERT_CALIBRATION_TENSORS_H

#include "formats/directory.h"

/* Returns whether calibration adds a tensor of this name. */
bool is_calibration_tensor(const char *name);

/* Removes all that calibration added; every other tensor and key keeps its bytes. */
wisp_status strip_calibration(struct directory *dir, wisp_error *error);

#endif
