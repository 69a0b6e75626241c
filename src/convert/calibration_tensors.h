/* SPDX-License-Identifier: Apache-2.0
 * Recognises and removes the tensors and keys that calibration adds to a model (formats/schema.h).
 */
#ifndef WISP_CONVERT_CALIBRATION_TENSORS_H
#define WISP_CONVERT_CALIBRATION_TENSORS_H

#include "formats/directory.h"

/* Returns whether calibration adds tensors of this name. */
bool is_calibration_tensor(const char *name);

/* Removes the tensors and keys that calibration added, but for the order of the tokens if
 * `keep_token_order` is set; every other one keeps its bytes. Fails only if memory is short. */
wisp_status strip_calibration(struct directory *dir, bool keep_token_order, wisp_error *error);

#endif
