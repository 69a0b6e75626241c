/* SPDX-License-Identifier: Apache-2.0
 * A calibrated model's file: the model as it was, with tensors and keys added to it. */
#ifndef WISP_CALIBRATE_WRITE_CALIBRATED_H
#define WISP_CALIBRATE_WRITE_CALIBRATED_H

#include "calibrate/losses.h"

/* Levels of the share of neurons that are computed, rising, for which a file has thresholds. */
enum { CALIBRATED_LEVELS = 14 };
extern const float calibrated_shares[CALIBRATED_LEVELS];

/* The predictors of all layers, for tokens or for whole texts, and their thresholds. */
struct predictor_set {
    struct layer_fit *fits;  /* [layers] */
    struct gains *gains;     /* [layers] */
    float price;             /* at which the default share of neurons is computed, */
    float *thresholds;       /* [layers, intermediate_size]: the thresholds then, */
    float *level_thresholds; /* [layers, CALIBRATED_LEVELS, intermediate_size]: and at the levels */
};

struct calibrated {
    size_t n_layers;
    const struct layer *layers;
    const struct predictor_set *tokens;
    const struct predictor_set *texts; /* for whole texts; NULL: none */
    struct predictor_formats formats;
    const uint32_t *token_counts;  /* [vocabulary_size]: how often calibration saw each token */
    const struct directory *input; /* the model that was calibrated */
    float share;                   /* the default */
    bool one_level;                /* write only the thresholds of the default share */
    float hot; /* as in wisp_calibrate_options: the neurons and tokens that are */
    uint64_t hot_bytes, hot_tokens; /* hot in the file */
};

/* Reads the model at `input` and writes it with the calibration, instead of one it may have. Fails
 * with WISP_ERROR_IO if the files there are not those of calibrated->input any more. */
wisp_status write_calibrated(const char *input, const char *output,
                             const struct calibrated *calibrated, wisp_error *error);

/* Fails unless a directory was read from the files of the one that was calibrated. */
wisp_status check_calibrated_input(const struct directory *dir, const struct directory *calibrated,
                                   wisp_error *error);

#endif
