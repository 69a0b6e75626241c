/* SPDX-License-Identifier: Apache-2.0
 * A calibrated model's file: the model as it was, with tensors and keys added to it. */
#ifndef WISP_CALIBRATE_WRITE_CALIBRATED_H
#define WISP_CALIBRATE_WRITE_CALIBRATED_H

#include "calibrate/layer_fit.h"
#include "formats/directory.h"

enum { CALIBRATED_LEVELS = 14 };

/* Predictors of one kind, with what chooses by them. */
struct calibrated_predictors {
    struct layer_fit *fits; /* [layers] */
    float *thresholds;      /* [layers, CALIBRATED_LEVELS, wide] */
    float price;            /* of a neuron, at the share that is computed by default */
};

struct calibrated {
    const struct calibrated_predictors *tokens;
    const struct calibrated_predictors *texts; /* that choose for whole texts; NULL: none */
    size_t layers;
    struct predictor_formats formats;
    bool shared_p;       /* all layers' predictors have the same P and p */
    const float *shares; /* [CALIBRATED_LEVELS] */
    float share;         /* the default */
    bool centered;       /* neurons have centers other than 0 */
};

/* Reads the model at `input` and writes it with the calibration, in place of one it may have. */
wisp_status write_calibrated(const char *input, const char *output,
                             const struct calibrated *calibrated, wisp_error *error);

#endif
