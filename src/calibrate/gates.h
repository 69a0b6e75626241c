/* SPDX-License-Identifier: Apache-2.0
 * Calibrates models whose gated layers choose neurons by their gates (sparse/gathered.h): weights
 * of scores, and least scores for shares of neurons. Native only. */
#ifndef WISP_CALIBRATE_GATES_H
#define WISP_CALIBRATE_GATES_H

#include "calibrate/predictor.h"
#include "engine/model.h"

enum { GATE_LEVELS = 12 };

struct gate_histogram;

/* Inputs of a layer. */
struct gate_inputs {
    float *x; /* [capacity, hidden_size] */
    size_t n, capacity;
};

/* The low-rank predictors of all layers, if the options have a rank. */
struct gate_predictors {
    struct predictor_formats formats;
    struct gate_inputs *fitted_inputs, *held_out_inputs; /* [layers]; NULL: there are none */
    struct predictor *fitted;                            /* [layers] */
    struct arena *arenas;                                /* [layers]: what is found in each */
    float *thresholds;                                   /* [layers, CALIBRATED_LEVELS, neurons] */
};

struct gate_calibration {
    const wisp_calibrate_options *options;
    wisp_model *model;
    size_t layers, neurons;
    float *weights;      /* [layers, neurons]: of scores */
    float *levels;       /* [layers, GATE_LEVELS]: TENSOR_GATE_LEVELS of each layer */
    const float *shares; /* [GATE_LEVELS] */
    /* [layers]: of texts that levels are fitted to, and of those that are held out */
    struct gate_histogram *fitted, *held_out;
    double (*above)[WISP_GATE_THRESHOLDS]; /* [layers]: neurons whose gate exceeds each threshold */
    struct gate_predictors predictors;
};

/* Makes room for the inputs of all layers in the arena. */
wisp_status gate_predictors_open(struct gate_calibration *c, struct arena *arena,
                                 wisp_error *error);

/* Fits the predictors to the inputs, which have been kept, and calls the options' function `layer`.
 */
wisp_status gate_predictors_fit(struct gate_calibration *c, struct arena *arena, wisp_error *error);

void gate_predictors_release(struct gate_calibration *c);

/* Reads the model at `input` and writes it with the weights and levels, in place of those that it
 * may have. */
wisp_status gates_write(const struct gate_calibration *c, const char *input, const char *output,
                        wisp_error *error);

/* wisp_calibrate for a model that generates, which it closes. */
wisp_status calibrate_gates(wisp_model *model, const char *input, const char *output,
                            const wisp_text *texts, size_t n, const wisp_calibrate_options *options,
                            wisp_error *error);

#endif
