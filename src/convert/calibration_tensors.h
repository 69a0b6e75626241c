/* SPDX-License-Identifier: Apache-2.0
 * The tensors that calibration adds to each layer of a model: docs/formats.md describes them. */
#ifndef WISP_CONVERT_CALIBRATION_TENSORS_H
#define WISP_CONVERT_CALIBRATION_TENSORS_H

#include "formats/directory.h"

/* A predictor's five tensors. */
enum { P_WEIGHT, P_BIAS, Q_WEIGHT, Q_BIAS, THRESHOLDS, PREDICTOR_TENSORS };

/* Numbers of all tensors: those of the predictor for tokens from TOKENS_SUFFIX on, those of the
 * predictor for whole texts from TEXTS_SUFFIX on, and others. */
enum {
    TOKENS_SUFFIX = 0,
    TEXTS_SUFFIX = PREDICTOR_TENSORS,
    FACTORS = 2 * PREDICTOR_TENSORS,
    CENTER,
    FREQUENCY,
    COMPENSATION_WEIGHT,
    COMPENSATION_BIAS
};

/* The part of tensor number `index`'s name after "blk.N."; NULL past the last. */
const char *calibration_suffix(int index);

/* Whether calibration adds a tensor of this name. */
bool is_calibration_tensor(const char *name);

/* Removes what calibration adds; all other tensors and keys keep their bytes. */
wisp_status strip_calibration(struct directory *dir, wisp_error *error);

#endif
