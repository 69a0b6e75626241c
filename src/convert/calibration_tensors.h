/* SPDX-License-Identifier: Apache-2.0
 * The tensors that calibration adds to each layer of a model: docs/formats.md describes them. */
#ifndef WISP_CONVERT_CALIBRATION_TENSORS_H
#define WISP_CONVERT_CALIBRATION_TENSORS_H

#include "formats/directory.h"

/* A predictor's five tensors, from the first of them on. */
enum { P_WEIGHT, P_BIAS, Q_WEIGHT, Q_BIAS, THRESHOLDS, PREDICTOR_TENSORS };

enum {
    TOKENS_SUFFIX = 0,
    TEXTS_SUFFIX = PREDICTOR_TENSORS,
    FACTORS = 2 * PREDICTOR_TENSORS,
    CENTER,
    FREQUENCY,
    COMPENSATION_WEIGHT,
    COMPENSATION_BIAS
};

/* The part of a tensor's name after "blk.N.", by the numbers above; NULL past the last. */
const char *calibration_suffix(int index);

/* Whether calibration adds a tensor of this name. */
bool is_calibration_tensor(const char *name);

/* Removes what calibration adds; all other tensors and keys keep their bytes. */
wisp_status strip_calibration(struct directory *dir, wisp_error *error);

#endif
